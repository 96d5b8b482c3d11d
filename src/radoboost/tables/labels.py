"""The classes of a table, whatever their values are: two as -1 and +1, and any number by their places."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, NeedsSchema, RadoError, TableError
from radoboost.tables.cells import category_cell_codes, gap_label_cells, is_gap_text, run_length_codes
from radoboost.tables.class_values import LONGEST_LABEL as LONGEST_LABEL
from radoboost.tables.class_values import MOST_CLASSES as MOST_CLASSES
from radoboost.tables.class_values import (
    ClassSpellings,
    check_class_kinds,
    class_values_text,
    value_key,
    values_are_apart,
)
from radoboost.tables.class_values import canonical_label as canonical_label
from radoboost.tables.class_values import check_classes as check_classes
from radoboost.tables.class_values import check_number_of_classes as check_number_of_classes
from radoboost.tables.class_values import class_key as class_key
from radoboost.tables.csv_dialect import PLAIN, CsvDialect

_MOST_FRACTIONS = 10  # different numbers, some with fractions, that may still be classes which nobody declared
_MANY_CLASSES = 20  # beyond which it is said that a label may be a number
_COMPARED_VALUES = 8  # plain numbers that are told apart by comparing
_LONGEST_SPELLING = 400  # characters of all classes, before a digest stands for them
_EXACT_IN_FLOAT32 = 2**24
_PLAIN_NUMBERS = {
    pa.from_numpy_dtype(kind): np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
}
Place = Callable[[int], str]
Key = Callable[[Any, CsvDialect], Any]  # what values are compared by, if texts are written with these marks


ADVICE = "fill it in, or leave such rows out"
CRAFT_ADVICE = f"{ADVICE} with Schema(unlabelled='drop') (--set unlabelled=drop)"


def labels_array(y: Any) -> pa.Array:
    if np.ma.is_masked(y):
        raise TableError(f"the label 'y' has a missing value; {ADVICE}")
    if str(getattr(y, "dtype", "")) in ("Int128", "UInt128", "Object"):  # types of polars that NumPy does not have
        y = y.to_list()
    try:
        array = np.asarray(y)
        if array.ndim != 1:
            raise TableError(f"y must have one dimension; its shape is {array.shape}")
        if array.dtype.kind in "iuf" and array.dtype.itemsize <= 8 and array.dtype.isnative:
            # Straight from memory: pa.array would import pandas first, to see whether this is one of its own.
            array = np.ascontiguousarray(array)
            return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])
        if array.dtype.kind == "U" and not hasattr(y, "dtype") and not all(isinstance(value, str) for value in y):
            raise TypeError  # NumPy makes texts of numbers that stand among texts
        if array.dtype.kind in "biufUOT":
            return pa.array(array.tolist(), from_pandas=True)  # NaN among texts is a missing one
    except RadoError:
        raise
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        raise TableError("labels must be numbers, truth values or text, all of one kind") from None
    raise TableError(f"labels must be numbers, truth values or text; their type is {array.dtype}")


def comparable_labels(labels: pa.Array) -> pa.Array:
    """Labels of a type that Arrow can compare: no dictionaries, views or half floats."""
    # An index that points nowhere, which Arrow does not check, is a missing label in its row.
    if pa.types.is_run_end_encoded(labels.type):
        labels = _labels_at_places(labels.values, run_length_codes(labels))
    if pa.types.is_dictionary(labels.type):
        labels = _labels_at_places(labels.dictionary, category_cell_codes(labels))
    if pa.types.is_string_view(labels.type):
        return labels.cast(pa.large_string())
    if pa.types.is_binary_view(labels.type):
        return labels.cast(pa.large_binary())
    if pa.types.is_decimal32(labels.type) or pa.types.is_decimal64(labels.type):
        return labels.cast(pa.decimal128(labels.type.precision, labels.type.scale))
    return labels.cast(pa.float32()) if pa.types.is_float16(labels.type) else labels


def _labels_at_places(values: pa.Array, places: NDArray[np.int64]) -> pa.Array:
    """Values by their places, null where a place is negative."""
    return _large_text_labels(comparable_labels(values)).take(pa.array(places, mask=places < 0))


def _large_text_labels(column: pa.Array) -> pa.Array:
    """A column whose texts may be longer than 2 GiB together: where that is too much, one label more could decide."""
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return column.cast(wide[column.type]) if column.type in wide else column


def join_label_chunks(chunks: pa.ChunkedArray) -> pa.Array:
    """Labels of several chunks, taken out of their dictionaries: joining those can fail on account of a value."""
    try:
        pieces = [_large_text_labels(comparable_labels(chunk)) for chunk in chunks.chunks]
        return pa.nulls(0) if not pieces else pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
    except pa.ArrowNotImplementedError:  # the type is to blame, whatever the values are
        return pa.nulls(len(chunks))


def rows_without_label(labels: pa.Array, classes: Sequence[Any] | None = None) -> NDArray[np.bool_]:
    """Which rows have no label; a word that is declared as a class is one."""
    absent = gap_label_cells(labels)
    return absent if classes is None else absent & (class_index_of_labels(labels, classes) < 0)


# ---- which classes a table has


@dataclass
class LabelCollector:
    """The label values seen so far. Those of several readers can be merged, in any order.

    Where `classes` are declared, any other value is refused. `advice` says what to do about a missing one.
    """

    name: str
    classes: Sequence[Any] | None = None
    # With their types: True, 1 and 1.0 are one class, and which of them it is called must not depend on the order.
    values: set[tuple[str, Any]] = field(default_factory=set)
    spellings: ClassSpellings = field(default_factory=ClassSpellings)
    advice: str = ADVICE

    def __post_init__(self) -> None:
        if self.classes is not None:
            self.classes = check_classes(self.classes)

    def see(self, labels: pa.Array, place: Place | None = None) -> None:
        """Note the labels of a batch; `place` says where one of its rows is, for messages."""
        kind = labels.type
        try:
            self._see(comparable_labels(labels), place)
        except (pa.ArrowException, UnicodeError):
            raise TableError(f"the label {self.name!r} holds {kind}; it must be numbers or text") from None

    def merge(self, other: "LabelCollector") -> "LabelCollector":
        """What both saw, as a new state."""
        spellings = self.spellings.merge(other.spellings)
        merged = LabelCollector(self.name, self.classes, self.values | other.values, spellings, self.advice)
        merged._check_number(str)
        return merged

    def settle(self) -> "LabelEncoder":
        """Which classes there are, once every label was seen; of two, which is -1 and which is +1.

        Without declared classes they are in the order of their values: of two the smaller or earlier is -1 and the
        other +1, so that 0 and 1, -1 and 1, or False and True mean what they say. Texts that are not all numbers, or
        not all truth values, are in the order of texts. Of declared classes a table may have one alone, as that of one
        of several holders may.
        """
        values = self._distinct()
        if not values:
            raise TableError(f"the label {self.name!r} has no values; it must have at least two")
        if len(values) < 2 and self.classes is None:
            raise TableError(
                f"the label {self.name!r} has one class only ({values[0]!r}); it must have at least two; if rows of "
                "the others are in other tables, declare all classes (--classes NEG,POS)"
            )
        if self.classes is not None:
            check_class_kinds(self.name, self.classes)
            return LabelEncoder(self.name, self.classes)
        names = self.spellings.names(self.name, values)
        numbers = [value for value in values if not isinstance(value, str)]
        if len(numbers) > _MOST_FRACTIONS and any(isinstance(value, float) for value in numbers):
            shown = ", ".join(repr(value) for value in sorted(numbers)[:3])
            raise TableError(
                f"the label {self.name!r} has {len(numbers)} different numbers, some with fractions ({shown}, ...), so "
                "it looks like an amount; make classes of its ranges, or declare all of them as classes (--classes)"
            )
        return LabelEncoder(self.name, names)

    def _see(self, labels: pa.Array, place: Place | None) -> None:
        missing = labels.is_null(nan_is_null=pa.types.is_floating(labels.type))
        if pc.any(missing).as_py():
            where = _first_row_with_label(place, missing, pa.scalar(True))
            raise NeedsSchema(f"the label {self.name!r} has a missing value{where}; {self.advice}")
        for spelling in _distinct_labels(labels):
            where_it_is = partial(_first_row_with_label, place, labels, spelling)
            value = canonical_label(spelling.as_py())
            self._check(value, labels.type, where_it_is)
            self.values.add((type(value).__name__, value))
            self.spellings.see(value, spelling.as_py())
            self._check_number(where_it_is)

    def _check(self, value: Any, kind: pa.DataType, where: Callable[[], str]) -> None:
        """Refuse a value that cannot be a class."""
        if not isinstance(value, bool | int | float | str) or value in (math.inf, -math.inf):
            raise TableError(
                f"the label {self.name!r} holds {value!r} ({kind}){where()}; it must be finite numbers or text"
            )
        if isinstance(value, str) and len(value) > LONGEST_LABEL:
            raise TableError(
                f"the label {self.name!r} has a text of {len(value):,} characters{where()}; "
                f"a class has {LONGEST_LABEL:,} at most"
            )
        if self.classes is not None and value not in map(canonical_label, self.classes):
            raise TableError(
                f"the label {self.name!r} has the value {value!r}{where()}, which is not one of the declared classes "
                f"{class_values_text(self.classes)}"
            )

    def _check_number(self, where: Callable[[], str]) -> None:
        """Refuse more values than there can be classes."""
        if len(self.values) <= MOST_CLASSES:
            return
        values = self._distinct()
        if len(values) > MOST_CLASSES:
            shown = ", ".join(repr(value) for value in values[:3])
            raise TableError(
                f"the label {self.name!r} has more than {MOST_CLASSES} classes ({shown}, ...){where()}; if it is a "
                "number, make classes of its ranges"
            )

    def _distinct(self) -> list[Any]:
        """The classes, each once: as numbers if all can be, else as truth values if all can be, else as they are."""
        spellings: dict[Any, dict[str, Any]] = {}
        for kind, value in sorted(self.values):
            spellings.setdefault(value, {})[kind] = value
        for kinds in (("int", "float"), ("bool",), ("int", "float", "bool", "str")):
            picks = [[kinds_of[kind] for kind in kinds if kind in kinds_of][:1] for kinds_of in spellings.values()]
            if all(picks):
                return [value for values in picks for value in values]
        return []


def many_classes_advice(name: str, classes: Sequence[Any]) -> str | None:
    """What to think about where a table has many classes that nobody declared; None where it has few."""
    if len(classes) <= _MANY_CLASSES:
        return None
    return (
        f"the label {name!r} has {len(classes)} classes; if it is a number, ranges of it make better classes (few rows "
        "teach little)"
    )


def label_spelling(name: str, classes: Sequence[Any]) -> str:
    """A label's column and the set of its declared classes, in one spelling: equal for the same rows, and else not.

    Which class is first does not count, nor how a class is spelled. Of long ones there is a digest.
    """
    keys = [class_key(value) for value in check_classes(classes)]
    texts = sorted(json.dumps(int(key) if isinstance(key, bool) else key, default=repr) for key in keys)
    listed = ", ".join(texts)
    if len(listed) > _LONGEST_SPELLING:
        listed = f"{len(texts)} classes, sha256 {hashlib.sha256(listed.encode()).hexdigest()}"
    return f"{json.dumps(name)} of {listed}"


def unnamed_spelling(token: str, classes: Sequence[Any]) -> str:
    """The spelling of a label that nobody named, and a token says which: no named label is spelled so."""
    _, _, listed = label_spelling("", classes).partition(" ")
    return f"unnamed {token} {listed}"


def _distinct_labels(labels: pa.Array) -> pa.Array:
    """Each value once; a few plain numbers by comparing all with each in turn, which is much quicker than hashing."""
    if labels.type not in _PLAIN_NUMBERS or labels.null_count:
        return pc.unique(labels)
    numbers, values = _plain_label_numbers(labels), list[Any]()
    unseen = np.ones(len(numbers), np.bool_)
    while len(numbers) and unseen[first := unseen.argmax()]:
        if len(values) == _COMPARED_VALUES:
            return pc.unique(labels)
        values.append(numbers[first])
        unseen &= numbers != numbers[first]
    return pa.array(values, labels.type)


def _plain_label_numbers(labels: pa.Array) -> NDArray[Any]:
    """Plain numbers without gaps, straight from memory, and without importing pandas."""
    kind = _PLAIN_NUMBERS[labels.type]
    return np.frombuffer(labels.buffers()[1], kind, len(labels), labels.offset * kind.itemsize)


def _first_row_with_label(place: Place | None, labels: pa.Array, value: pa.Scalar) -> str:
    """Where the first label with this value is, for a message; this may take long."""
    return "" if place is None else f" ({place(pc.index(labels, value).as_py())})"


# ---- which label is which


@dataclass(frozen=True)
class LabelEncoder:
    """Which labels are of which of the `classes`; two of them are (negative, positive), as -1 and +1.

    Texts that are numbers are written with `marks`.
    """

    name: str
    classes: Sequence[Any]
    marks: CsvDialect = PLAIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", check_classes(self.classes))
        if self.marks is not PLAIN and not values_are_apart(self.classes, self.marks):
            raise ArgumentError(
                f"two of the classes {class_values_text(self.classes)} are one number, as the decimal and thousands "
                "marks of the schema are; write each number once"
            )

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def signs(self, labels: pa.Array, place: Place | None = None) -> NDArray[np.int8]:
        """The labels of a batch as -1 and +1, refusing any other; `place` says where a row is, for messages."""
        signs = self.signs_or_zero(labels)
        self._refuse(labels, place, sound=bool(signs.all()))
        return signs

    def places(self, labels: pa.Array, place: Place | None = None) -> NDArray[np.int64]:
        """The labels of a batch as places in `classes`, refusing any other."""
        places = self.places_or_none(labels)
        self._refuse(labels, place, sound=bool((places >= 0).all()))
        return places

    def places_or_none(self, labels: pa.Array) -> NDArray[np.int64]:
        """The labels of a batch as places in `classes`, and -1 where one is missing or of no class."""
        return class_index_of_labels(labels, self.classes, marks=self.marks)

    def _refuse(self, labels: pa.Array, place: Place | None, *, sound: bool) -> None:
        if not sound:
            LabelCollector(self.name, self.classes).see(labels, place)  # raises an error that says which label it is
            raise TableError(
                f"the label {self.name!r} has values of no class; do not change the table while it is read"
            )

    def signs_or_zero(self, labels: pa.Array) -> NDArray[np.int8]:
        """The labels of a batch of two classes as -1 and +1, and 0 where one is missing or of neither."""
        if self.n_classes != 2:
            raise ArgumentError(
                f"signs are for two classes, and the label {self.name!r} has {self.n_classes}; take their places"
            )
        if labels.type in _PLAIN_NUMBERS and len(labels) and not labels.null_count and self._are_small:
            return self._compare(labels)
        return np.array([-1, 1, 0], dtype=np.int8)[self.places_or_none(labels)]

    def marks_or_zero(self, labels: pa.Array) -> NDArray[np.int8]:
        """A mark for each label, 0 where it is missing or of no class: with two classes -1 and +1, else 1, 2, 3, ..."""
        if self.n_classes == 2:
            return self.signs_or_zero(labels)
        return (self.places_or_none(labels) + 1).astype(np.int8)

    @property
    def _are_small(self) -> bool:
        """Whether the classes are integers so small that comparing any number with them is exact."""
        return all(isinstance(value, int) and abs(value) < _EXACT_IN_FLOAT32 for value in self.classes)

    def _compare(self, labels: pa.Array) -> NDArray[np.int8]:
        """Signs of plain numbers: as exact as by places."""
        numbers = _plain_label_numbers(labels)
        negative, positive = map(int, self.classes)
        is_positive, is_negative = numbers == positive, numbers == negative
        signs: NDArray[np.int8] = is_positive.view(np.int8) - is_negative.view(np.int8)
        return signs


def class_index_of_labels(
    column: pa.Array, values: Sequence[Any], missing: int = -1, marks: CsvDialect = PLAIN
) -> NDArray[np.int64]:
    """Which of the values each row has, in whatever spelling; `missing` where it has none, -1 where it has another.

    A word that stands for a missing value is one, unless it is among the values. A text that is a number with these
    marks, or without, is that number, among the values too: one odd cell can make texts of a column of numbers.
    """
    places = {value_key(value, marks): place for place, value in enumerate(values)}
    return places_of_cells(column, places, value_key, missing, marks)


def places_of_cells(
    column: pa.Array, places: Mapping[Any, int], key: Key, missing: int, marks: CsvDialect
) -> NDArray[np.int64]:
    """The place of each cell's `key`; `missing` where a cell has none, -1 where its key is not there."""
    if not _type_can_hold_labels(column.type):
        return np.where(_rows_without_label_by_type(column), missing, -1)
    try:
        encoded = comparable_labels(column).dictionary_encode()
    except pa.ArrowNotImplementedError:  # the type is to blame, whatever the values are
        return np.where(_rows_without_label_by_type(column), missing, -1)
    except pa.ArrowException:
        return np.array(
            [_class_index_of_row(places, key, column, row, missing, marks) for row in range(len(column))],
            dtype=np.int64,
        )
    by_spelling = [_class_index_of_spelling(places, key, spelling, missing, marks) for spelling in encoded.dictionary]
    rows: NDArray[np.int64] = encoded.indices.fill_null(len(by_spelling)).to_numpy(zero_copy_only=False)
    return np.array([*by_spelling, missing], dtype=np.int64)[rows]


def _type_can_hold_labels(kind: pa.DataType) -> bool:
    """Whether a type can hold a class at all; Arrow may crash on dictionaries of others."""
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind) or isinstance(kind, pa.BaseExtensionType))


def _rows_without_label_by_type(column: pa.Array) -> NDArray[np.bool_]:
    """Which rows have no value, where the type is to blame for the others."""
    if pa.types.is_dictionary(column.type):
        return category_cell_codes(column) < 0
    if pa.types.is_run_end_encoded(column.type):
        return run_length_codes(column) < 0
    absent: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return absent


def _class_index_of_row(
    places: Mapping[Any, int], key: Key, column: pa.Array, row: int, missing: int, marks: CsvDialect
) -> int:
    """The place of one row's value, where the batch cannot be read as a whole."""
    try:
        return _class_index_of_spelling(places, key, column[row], missing, marks)
    except (ValueError, LookupError, pa.ArrowException):
        return -1


def _class_index_of_spelling(
    places: Mapping[Any, int], key: Key, spelling: pa.Scalar, missing: int, marks: CsvDialect
) -> int:
    try:
        value = spelling.as_py()
        if isinstance(value, bytes):
            value = value.decode()
        if isinstance(value, Decimal):
            value, marks = str(value), PLAIN  # as it would be read from a file, or one by one
        if isinstance(value, str) and len(value) > LONGEST_LABEL:
            return -1
        gap = value is None or value != value or (isinstance(value, str) and is_gap_text(value))
        return places.get(key(value, marks), missing if gap else -1)
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        return -1
