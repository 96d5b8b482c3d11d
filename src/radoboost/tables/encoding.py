"""Raw cells as encoded columns, by a schema: what a row gives depends on that row alone, whichever way it is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.tables.cells import gaps
from radoboost.tables.dates import date_parts, date_seconds
from radoboost.tables.kinds import PARTS, UNITS, Category, Date, Number, seconds_of
from radoboost.tables.labels import class_places
from radoboost.tables.reading import Reading


@dataclass(frozen=True, eq=False)
class EncodedCells:
    """The raw columns of some rows, which become encoded columns when somebody asks for them."""

    columns: Sequence[pa.Array]
    reading: Reading
    place: Callable[[int], str]

    def values(self) -> NDArray[np.float64]:
        """The encoded columns, shape (rows, encoded columns), C-contiguous; none is missing."""
        return self._encoded[0]

    def filled(self) -> NDArray[np.int64]:
        """For every raw column, how many cells were missing, or not readable, or an unknown value."""
        return self._encoded[1]

    def unknown(self) -> NDArray[np.int64]:
        """For every raw column, how many of those are values that its category does not have."""
        return self._encoded[2]

    @cached_property
    def _encoded(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        schema = self.reading.schema
        assert schema is not None
        values = np.zeros((len(self.columns[0]), len(schema.encoded())))
        filled, unknown = np.zeros((2, len(self.columns)), dtype=np.int64)
        start = 0
        for k, (name, column) in enumerate(zip(schema.used, self.columns, strict=True)):
            kind = schema.columns[name]
            width = len(list(kind.encoded(name)))
            block = values[:, start : start + width]
            if isinstance(kind, Category):
                filled[k], unknown[k] = self._category(kind, column, block)
            elif isinstance(kind, Date):
                filled[k] = self._date(kind, name, column, block)
            else:
                assert isinstance(kind, Number)
                numbers = self.reading.numbers_and_gaps(column, name, self.place)
                filled[k] = _fill(numbers, kind.filled(), kind.gaps, block)
            start += width
        return values, filled, unknown

    def _category(self, kind: Category, column: pa.Array, block: NDArray[np.float64]) -> tuple[int, int]:
        """Set at most one slot of each row; how many values are missing or unknown, and how many are unknown."""
        assert kind.values is not None
        places = class_places(column, kind.values)
        missing = gaps(column) & (places < 0)
        unknown = (places < 0) & ~missing
        if kind.other:
            places[unknown] = len(kind.values)
        if kind.gaps:
            places[missing] = len(kind.values) + kind.other
        rows = np.flatnonzero(places >= 0)
        block[rows, places[rows]] = 1.0
        return int(missing.sum() + unknown.sum()), int(unknown.sum())

    def _date(self, kind: Date, name: str, column: pa.Array, block: NDArray[np.float64]) -> int:
        seconds, known = date_seconds(column, kind.order)
        self.reading.unreadable(column, name, ~known & ~gaps(column), self.place)
        numbers = np.where(known, (seconds - seconds_of(kind.origin)) / UNITS[kind.unit], np.nan)
        filled = _fill(numbers, kind.filled(), kind.gaps, block[:, : 1 + kind.gaps])
        start = 1 + kind.gaps
        for part in kind.parts:
            places = date_parts(seconds, part)
            rows = np.flatnonzero(known)
            block[rows, start + places[rows]] = 1.0
            start += len(PARTS[part])
        return filled


def _fill(numbers: NDArray[np.float64], fill: float, gaps_too: bool, block: NDArray[np.float64]) -> int:
    """Write numbers, filled where they are missing, and where they are; how many were missing."""
    missing = np.isnan(numbers)
    block[:, 0] = np.where(missing, fill, numbers)
    if gaps_too:
        block[:, 1] = missing
    return int(missing.sum())


def encoded_names(reading: Reading, features: tuple[str, ...]) -> tuple[str, ...]:
    """What a source calls its features: the encoded columns of a schema, or the columns as they are."""
    return features if reading.schema is None else tuple(column.name for column in reading.schema.encoded())
