"""Two classes in whatever values they come, as -1 and +1."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError


def labels_array(y: Any) -> pa.Array:
    """Labels in any container, as they are."""
    array = np.asarray(y)
    if array.ndim != 1:
        raise TableError(f"y must have one dimension; its shape is {array.shape}")
    if array.dtype.kind in "iuf" and array.dtype.isnative:
        # Straight from memory: pa.array would import pandas first, to see whether this is one of its own.
        array = np.ascontiguousarray(array)
        return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])
    try:
        return pa.array(array.tolist())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise TableError(f"labels must be numbers, truth values or text, all of one kind: {array.dtype}") from None


def canonical_label(found: Any) -> Any:
    """One value for all spellings of a class: a text that reads as a number is that number.

    >>> [canonical_label(v) for v in ("1", "1.0", 1.0, True, "true", "yes")]
    [1, 1, 1, True, True, 'yes']
    """
    if isinstance(found, str):
        text = found.strip()
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            found = float(text)
        except ValueError:
            return found
        if not math.isfinite(found):
            return text
    if isinstance(found, float) and found.is_integer():
        return int(found)
    return found


class LabelRule:
    """Which labels are -1 and which +1, learned while the table is read for the first time.

    Without `classes`, the smaller or earlier of the two values found is -1 and the other +1: so 0 and 1, -1 and 1, or
    False and True mean what they say.

    >>> rule = LabelRule("y")
    >>> rule.see(pa.array(["no", "yes", "no"]))
    >>> rule.settle()
    ('no', 'yes')
    >>> rule.signs(pa.array(["yes", "no"]))
    array([ 1, -1], dtype=int8)
    """

    def __init__(self, name: str, classes: Sequence[Any] | None = None) -> None:
        self.name = name
        # By Arrow type and then by value: files may spell a class in different types, and in several ways.
        self._found: dict[pa.DataType, dict[Any, set[pa.Scalar]]] = {}
        self._declared: tuple[Any, ...] | None = None
        if classes is not None:
            self._declared = tuple(canonical_label(value) for value in classes)
            if len(set(self._declared)) != 2:
                raise ArgumentError(f"classes must be two values, (negative, positive); they are {classes!r}")
        self._positive: Any = None

    def see(self, labels: pa.Array) -> None:
        """Note the labels of a batch."""
        if pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        missing = labels.null_count or (pa.types.is_floating(labels.type) and pc.any(pc.is_nan(labels)).as_py())
        if missing:
            raise TableError(f"the label {self.name!r} has a missing value; fill in or drop such rows")
        found = self._found.setdefault(labels.type, {})
        for spelling in pc.unique(labels):
            value = self._check(canonical_label(spelling.as_py()), labels.type)
            found.setdefault(value, set()).add(spelling)
            if len(self._values()) > 2:
                shown = ", ".join(repr(value) for value in self._values())
                raise TableError(
                    f"the label {self.name!r} has more than two classes ({shown}, ...); it must have exactly two"
                )

    def _check(self, value: Any, kind: pa.DataType) -> Any:
        if not isinstance(value, bool | int | float | str) or value in (math.inf, -math.inf):
            raise TableError(f"the label {self.name!r} holds {value!r} ({kind}); it must be finite numbers or text")
        if self._declared is not None and value not in self._declared:
            raise TableError(
                f"the label {self.name!r} has the value {value!r}, which is not one of the declared classes "
                f"{self._declared[0]!r} and {self._declared[1]!r}"
            )
        return value

    def _values(self) -> list[Any]:
        return list(dict.fromkeys(value for found in self._found.values() for value in found))

    def settle(self) -> tuple[Any, Any]:
        """(negative, positive), once every label was seen."""
        values = self._values()
        if len(values) == 1:
            raise TableError(f"the label {self.name!r} has one class only ({values[0]!r}); it must have exactly two")
        if len({isinstance(value, str) for value in values}) > 1:
            raise TableError(f"the label {self.name!r} mixes text and numbers, {values}; make them one kind")
        negative, positive = self._declared or sorted(values)
        self._positive = positive
        return negative, positive

    def signs(self, labels: pa.Array) -> NDArray[np.int8]:
        """The labels of a batch as -1 and +1."""
        if pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        signs = np.full(len(labels), -1, dtype=np.int8)
        for spelling in self._found[labels.type].get(self._positive, ()):
            same = pc.equal(labels, spelling).cast(pa.int8())
            # Straight from memory, again without waking pandas.
            signs += 2 * np.frombuffer(same.buffers()[1], dtype=np.int8, count=len(same), offset=same.offset)
        return signs
