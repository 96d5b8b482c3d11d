"""A model in forms that run elsewhere, from raw columns to classes, without this package."""

from collections.abc import Callable, Sequence
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.learner.model import Model

FORMATS = {"onnx": ".onnx", "python": ".py", "sql": ".sql"}  # by the endings of their files


def export(model: Model, to: str, *, table: str | None = None, keep: Sequence[str] = ()) -> Any:
    """A model as a program that needs no radoboost: "onnx" (bytes), "python" (a text) or "sql" (a text).

    Each takes raw columns, as `Model.predict` does, and gives the same classes and probabilities. ONNX needs the extra
    `export`. For SQL `table` is the table to read, "input" if nothing is said, and `keep` names columns to carry along,
    such as an id. docs/exporting.md says what each form takes, and where it must differ.

    >>> import radoboost as rb
    >>> clf = rb.MomentsClassifier(n_rados=8, random_state=1).fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1])
    >>> print(rb.export(clf.model_, "python").splitlines()[-1])
        sys.exit(main(sys.argv[1:]))
    """
    if to not in FORMATS:
        raise ArgumentError(f"there is no form {to!r} to export to; choose one of {', '.join(FORMATS)}")
    if to != "sql" and (table is not None or keep):
        raise ArgumentError("a table and columns to keep are for SQL alone; leave them out")
    if to == "sql":
        from radoboost.learner.export.sql import select

        return select(model, "input" if table is None else table, keep)
    return _writer(to)(model)


def _writer(to: str) -> Callable[[Model], str | bytes]:
    """What writes a form; it is imported only when it is asked for."""
    if to == "onnx":
        from radoboost.learner.export.onnx_graph import onnx_bytes

        return onnx_bytes
    from radoboost.learner.export.python_file import python_file

    return python_file
