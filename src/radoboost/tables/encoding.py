"""Raw cells as encoded columns, by a schema.

What a row gives depends on that row alone, whichever way it is read (C7 of docs/proofs/contributions.md).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.tables.cells import date_parts, date_seconds, gaps, numbers_or_nan
from radoboost.tables.column_types import PARTS, UNITS, Category, Date, Number, seconds_of
from radoboost.tables.labels import class_places
from radoboost.tables.object_columns import cell_for_message
from radoboost.tables.readers import Reader, unreadable
from radoboost.tables.table import MissingCells, UnreadableCells


@dataclass(frozen=True, eq=False)
class EncodedCells:
    """The raw columns of some rows, which become encoded columns when somebody asks for them.

    `typed` says that the columns have types, so that one value may have made texts of numbers; cells of CSV files do
    not.
    """

    columns: Sequence[pa.Array]
    reading: Reader
    place: Callable[[int], str]
    typed: bool = True

    def values(self) -> NDArray[np.float64]:
        """The encoded columns, shape (rows, encoded columns), C-contiguous; none is missing."""
        return self._encoded[0]

    def gaps(self) -> MissingCells:
        """Where cells of the raw columns are missing or not readable, or an unknown value."""
        return self._encoded[1]

    def unread(self) -> Mapping[str, UnreadableCells]:
        """The cells of numbers and dates that are there and cannot be read, for each raw column that has any."""
        schema, found = self.reading.schema, {}
        assert schema is not None
        for name, column, missing in zip(schema.used, self.columns, self.gaps().missing.T, strict=True):
            if isinstance(schema.columns[name], Category) or not missing.any():
                continue
            odd = missing & ~gaps(column)
            if odd.any():
                row = int(np.argmax(odd))
                found[name] = UnreadableCells(int(odd.sum()), cell_for_message(column[row]), partial(self.place, row))
        return found

    @cached_property
    def _encoded(self) -> tuple[NDArray[np.float64], MissingCells]:
        schema = self.reading.schema
        assert schema is not None
        values = np.zeros((len(self.columns[0]), len(schema.encoded())))
        missing, unknown = np.zeros((2, len(self.columns), len(values)), dtype=bool)
        unforeseen = np.zeros(len(values), dtype=bool)
        complaints: dict[str, list[str]] = {}
        start = 0
        for k, (name, column) in enumerate(zip(schema.used, self.columns, strict=True)):
            kind = schema.columns[name]
            width = len(list(kind.encoded(name)))
            block = values[:, start : start + width]
            start += width
            if isinstance(kind, Category):
                missing[k], unknown[k] = _encode_category(kind, column, block)
                unforeseen |= (missing[k] & (not kind.gaps)) | (unknown[k] & (not kind.other))
                continue
            assert isinstance(kind, Number | Date)
            numbers = self._date(kind, column, block) if isinstance(kind, Date) else self._numbers(column)
            if odd := self.reading.complaints(column, name, numbers, self.place):
                complaints[name] = odd
            missing[k] = _fill(numbers, kind.filled(), kind.gaps, block)
            unforeseen |= missing[k] & (not kind.gaps)
        if complaints:
            raise unreadable(complaints)
        return values, MissingCells(missing.T, unknown.T, unforeseen)

    def _numbers(self, column: pa.Array) -> NDArray[np.float64]:
        return numbers_or_nan(column, self.reading.marks, plain_too=self.typed)

    def _date(self, kind: Date, column: pa.Array, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """Set the slots of weekday and month; dates as numbers, NaN where there is none."""
        seconds, known = date_seconds(column, kind.order)
        rows = np.flatnonzero(known)
        start = 1 + kind.gaps
        for part in kind.parts:
            block[rows, start + date_parts(seconds, part)[rows]] = 1.0
            start += len(PARTS[part])
        return np.where(known, (seconds - seconds_of(kind.origin)) / UNITS[kind.unit], np.nan)


def _encode_category(
    kind: Category, column: pa.Array, block: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Set at most one slot of each row; where values are missing, and where they are unknown."""
    assert kind.values is not None
    n_values = len(kind.values)
    places = class_places(column, kind.values, missing=n_values + 1)
    missing, unknown = places > n_values, places < 0
    slots = np.where(unknown, n_values if kind.other else -1, places)
    slots = np.where(missing, n_values + kind.other if kind.gaps else -1, slots)
    rows = np.flatnonzero(slots >= 0)
    block[rows, slots[rows]] = 1.0
    return missing, unknown


def _fill(numbers: NDArray[np.float64], fill: float, gaps_too: bool, block: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Write numbers, filled where they are not finite, and where that is; which of them were filled."""
    missing = ~np.isfinite(numbers)
    block[:, 0] = np.where(missing, fill, numbers)
    if gaps_too:
        block[:, 1] = missing
    return missing


def encoded_names(reading: Reader, features: tuple[str, ...]) -> tuple[str, ...]:
    """What a source calls its features: the encoded columns of a schema, or the columns as they are."""
    return features if reading.schema is None else tuple(column.name for column in reading.schema.encoded())
