"""A model in forms that run elsewhere, from raw columns to classes, without this package.

Here: `export` itself, and what an exported model says of its origin and privacy.

- `onnx`: onnx_bytes, a graph: encoded cells, date parts, categories, scores, log odds; names begin with onnx
- `sql`: one SELECT: literals, identifiers, number and date cells, levels, terms, probabilities; names begin with sql
- `python`: python_program, the model as Python data: column encodings, scales, inputs of the map
- `standalone`: the text of that program: plain helpers without a prefix (number, place, seconds, slots, encoded, clip,
  scaled, polynomials, scores, shares, chosen, predict, predict_file)
"""

import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.learner.model import Model
from radoboost.release.release import rounded_up_text
from radoboost.release.statement_text import epsilon_text
from radoboost.tables.class_values import case_folds
from radoboost.tables.column_types import Category
from radoboost.tables.csv_dialect import CsvDialect

INFINITE = {"inf": ("inf", "+inf", "infinity", "+infinity"), "-inf": ("-inf", "-infinity")}  # in any capitals
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
        from radoboost.learner.export.sql import sql_query_of_model

        return sql_query_of_model(model, "input" if table is None else table, keep)
    return _export_writer(to)(model)


def _export_writer(to: str) -> Callable[[Model], str | bytes]:
    """What writes a form; it is imported only when it is asked for."""
    if to == "onnx":
        from radoboost.learner.export.onnx import onnx_bytes

        return onnx_bytes
    from radoboost.learner.export.python import python_program

    return python_program


def places_as_programs_write(kind: Category, marks: CsvDialect) -> dict[Any, int]:
    """The place of every spelling, for programs that read numbers without marks; with marks, only as it is declared."""
    texts = {key: place for key, place in kind.places().items() if isinstance(key, str)}
    return kind.places(marks) | texts


def folds_of_keys(kind: Category) -> dict[int, int]:
    """The letters that are folded to one which some spelling of the category has; all others match none either way."""
    if not kind.fold:
        return {}
    letters = {ord(letter) for key in kind.places() for letter in (key if isinstance(key, str) else "truefalse")}
    return {code: small for code, small in case_folds().items() if small in letters}


# ---- What an exported model says about itself: where it comes from, and what was promised there.


def summary_of_exported_model(model: Model) -> dict[str, str]:
    """Short texts by name, each on one line; an epsilon comes with its neighbour relation."""
    return {
        "producer": f"radoboost {version('radoboost')}",
        "learner": one_line_comment(model.learner["name"]),
        "classes": _names_in_one_line(model.classes),
        "features": _names_in_one_line(model.feature_names),
        "mechanism": "none: learned from examples" if model.statement is None else model.statement.mechanism,
        "privacy": _privacy_comment(model),
    }


def one_line_comment(words: Any) -> str:
    """A text of any kind for a comment: without line breaks and other characters that are not printed."""
    return "".join(c if c.isprintable() else " " for c in str(words))


def _names_in_one_line(values: Sequence[Any]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


def _privacy_comment(model: Model) -> str:
    statement = model.statement
    if statement is None:
        return "no privacy guarantee: the model was learned from examples, without a release"
    figures = (
        f"epsilon {epsilon_text(statement.epsilon)}, delta {rounded_up_text(statement.delta, 6)}, for "
        f"{one_line_comment(statement.neighbours)} as neighbours"
    )
    return figures if statement.promises else f"no privacy guarantee; {figures}"
