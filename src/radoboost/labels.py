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
    if array.dtype.kind == "T":
        array = array.astype(object)
    try:
        return pa.array(array.tolist() if array.dtype.kind in "OU" else array)
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
        # By Arrow type and then by value as found: files may spell a class in different types.
        self._found: dict[pa.DataType, dict[Any, Any]] = {}
        self._declared: tuple[Any, ...] | None = None
        if classes is not None:
            self._declared = tuple(canonical_label(value) for value in classes)
            if len(set(self._declared)) != 2:
                raise ArgumentError(f"classes must be two values, (negative, positive); they are {classes!r}")
        self._positive: dict[pa.DataType, pa.Array] = {}

    def see(self, labels: pa.Array) -> None:
        """Note the labels of a batch."""
        if pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        missing = labels.null_count or (pa.types.is_floating(labels.type) and pc.any(pc.is_nan(labels)).as_py())
        if missing:
            raise TableError(f"the label {self.name!r} has a missing value; fill in or drop such rows")
        found = self._found.setdefault(labels.type, {})
        for raw in pc.unique(labels).to_pylist():
            if raw not in found:
                found[raw] = self._check(canonical_label(raw), labels.type)
        if len(self._values()) > 2:
            shown = ", ".join(repr(value) for value in self._values()[:3])
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
        return list(dict.fromkeys(value for found in self._found.values() for value in found.values()))

    def settle(self) -> tuple[Any, Any]:
        """(negative, positive), once every label was seen."""
        values = self._values()
        if len(values) == 1:
            raise TableError(f"the label {self.name!r} has one class only ({values[0]!r}); it must have exactly two")
        if len({isinstance(value, str) for value in values}) > 1:
            raise TableError(f"the label {self.name!r} mixes text and numbers, {values}; make them one kind")
        negative, positive = self._declared or sorted(values)
        self._positive = {
            kind: pa.array([raw for raw, value in found.items() if value == positive], type=kind)
            for kind, found in self._found.items()
        }
        return negative, positive

    def signs(self, labels: pa.Array) -> NDArray[np.int8]:
        """The labels of a batch as -1 and +1."""
        if pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        positive = self._positive[labels.type]
        member = pc.equal(labels, positive[0]) if len(positive) == 1 else pc.is_in(labels, value_set=positive)
        signs: NDArray[np.int8] = member.to_numpy(zero_copy_only=False).astype(np.int8) * np.int8(2) - np.int8(1)
        return signs
