"""Two classes in whatever values they come, as -1 and +1."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, RadoError, TableError

_WHOLE = re.compile(r"[+-]?[0-9]+")
# No two parts can match the same digits: a pattern that could try both would take quadratic time on a long text.
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
LONGEST_LABEL = 1024  # characters; a longer text is not a number and not a class


def labels_array(y: Any) -> pa.Array:
    """Labels in any container, as they are."""
    if np.ma.is_masked(y):
        raise TableError("the label 'y' has a missing value; fill in or drop such rows")
    try:
        array = np.asarray(y)
        if array.ndim != 1:
            raise TableError(f"y must have one dimension; its shape is {array.shape}")
        if array.dtype.kind in "iuf" and array.dtype.itemsize <= 8 and array.dtype.isnative:
            # Straight from memory: pa.array would import pandas first, to see whether this is one of its own.
            array = np.ascontiguousarray(array)
            return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])
        if array.dtype.kind in "biufUOT":
            return pa.array(array.tolist())
    except RadoError:
        raise
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        raise TableError("labels must be numbers, truth values or text, all of one kind") from None
    raise TableError(f"labels must be numbers, truth values or text; their type is {array.dtype}")


def canonical_label(found: Any) -> Any:
    """One value for all spellings of a class: a text that reads as a number is that number.

    >>> [canonical_label(v) for v in ("1", "1.0", 1.0, True, "true", "yes")]
    [1, 1, 1, True, True, 'yes']
    """
    if isinstance(found, np.generic):
        found = found.item()
    if isinstance(found, str):
        if len(found) > LONGEST_LABEL:
            return found
        text = found.strip()
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        if _WHOLE.fullmatch(text) and len(text) < 20:
            return int(text)
        if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
            return found
        found = float(text)
    if isinstance(found, float) and found.is_integer() and abs(found) < 2**53:
        return int(found)
    return found


def _check_kinds(name: str, values: Sequence[Any]) -> None:
    """Refuse two classes of different kinds, and numbers that no column can hold."""
    kinds = {"truth values" if isinstance(v, bool) else "text" if isinstance(v, str) else "numbers" for v in values}
    if len(kinds) > 1:
        raise TableError(f"the label {name!r} mixes {' and '.join(sorted(kinds))}, {list(values)}; make them one kind")
    if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in values):
        raise TableError(
            f"the label {name!r} has an integer beyond 64 bits; use text or smaller numbers for the classes"
        )


def _simple(labels: pa.Array) -> pa.Array:
    """Labels without dictionaries, views and half floats, which Arrow cannot compare."""
    if pa.types.is_run_end_encoded(labels.type):
        labels = pc.run_end_decode(labels)
    if pa.types.is_dictionary(labels.type):
        # Arrow does not check the indices of a dictionary: one that points nowhere is a missing label in its row.
        inside = pc.and_(pc.greater_equal(labels.indices, 0), pc.less(labels.indices, len(labels.dictionary)))
        indices = pc.if_else(inside, labels.indices, pa.scalar(None, labels.indices.type))
        labels = _simple(labels.dictionary).take(indices)
    if pa.types.is_string_view(labels.type):
        return labels.cast(pa.large_string())
    return labels.cast(pa.float32()) if pa.types.is_float16(labels.type) else labels


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
            try:
                self._declared = tuple(canonical_label(value) for value in classes)
                fine = len(self._declared) == len(set(self._declared)) == 2 and not isinstance(classes, str)
                fine = fine and all(len(str(value)) <= LONGEST_LABEL for value in self._declared)
            except TypeError:
                fine = False
            if not fine:
                raise ArgumentError(f"classes must be two values, (negative, positive); they are {classes!r}")
        self._positive: Any = self._declared[1] if self._declared else None

    @property
    def declared(self) -> tuple[Any, Any]:
        """(negative, positive), as declared."""
        assert self._declared is not None
        negative, positive = self._declared
        return negative, positive

    def see(self, labels: pa.Array) -> None:
        """Note the labels of a batch."""
        kind = labels.type
        try:
            self._see(_simple(labels))
        except (pa.ArrowException, UnicodeError):
            raise TableError(f"the label {self.name!r} holds {kind}; it must be numbers or text") from None

    def _see(self, labels: pa.Array) -> None:
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
        _check_kinds(self.name, self._declared or values)
        negative, positive = self._declared or sorted(values)
        self._positive = positive
        return negative, positive

    def signs_or_zero(self, labels: pa.Array) -> NDArray[np.int8]:
        """The labels of a batch as -1 and +1, and 0 where one is missing or not of a declared class.

        >>> LabelRule("y", ["no", "yes"]).signs_or_zero(pa.array(["yes", None, "maybe", "no"]))
        array([ 1,  0,  0, -1], dtype=int8)
        """
        try:
            encoded = _simple(labels).dictionary_encode()
        except pa.ArrowNotImplementedError:  # on account of the type, whatever the values are
            return np.zeros(len(labels), dtype=np.int8)
        except pa.ArrowException:
            return np.array([self._sign_at(labels, row) for row in range(len(labels))], dtype=np.int8)
        signs = np.array([*map(self._sign, encoded.dictionary), 0], dtype=np.int8)
        found: NDArray[np.int8] = signs[encoded.indices.fill_null(len(signs) - 1).to_numpy(zero_copy_only=False)]
        return found

    def _sign_at(self, labels: pa.Array, row: int) -> int:
        """The sign of one row, where the batch cannot be read as one."""
        try:
            return self._sign(labels[row])
        except (ValueError, LookupError, pa.ArrowException):
            return 0

    def _sign(self, spelling: pa.Scalar) -> int:
        assert self._declared is not None
        try:
            found = spelling.as_py()
            if isinstance(found, str | bytes) and len(found) > LONGEST_LABEL:
                return 0
            value = canonical_label(found.decode() if isinstance(found, bytes) else found)
            return int(value == self._declared[1]) - int(value == self._declared[0])
        except (ValueError, TypeError, OverflowError, pa.ArrowException):
            return 0

    def signs(self, labels: pa.Array) -> NDArray[np.int8]:
        """The labels of a batch as -1 and +1."""
        labels = _simple(labels)
        member = np.zeros(len(labels), dtype=np.int8)
        for spelling in self._found[labels.type].get(self._positive, ()):
            same = pc.equal(labels, spelling).cast(pa.int8())
            # Straight from memory, again without waking pandas.
            member |= np.frombuffer(same.buffers()[1], dtype=np.int8, count=len(same), offset=same.offset)
        return member * np.int8(2) - np.int8(1)
