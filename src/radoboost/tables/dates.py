"""Dates and times in whatever form they come, as whole seconds since the first of January 1970.

A text has year, month and day in a declared order, and perhaps a time and a zone: "2024-01-31", "31.1.2024",
"2024-01-31T12:30:00+01:00". One that begins with the year is read whatever order is declared, as programs write dates
so. Without a zone it is taken as it is. Everything is integer arithmetic, cell by cell.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.tables.cells import as_bytes, category_places, is_text, run_places, taken

_GROUPS = {"y": r"(?P<year>[0-9]{4})", "m": r"(?P<month>[0-9]{1,2})", "d": r"(?P<day>[0-9]{1,2})"}
_TIME = (
    r"(?:[T ]+(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,][0-9]+)?)?"
    r" ?(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_TICKS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
FIRST, LAST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999, in seconds; no other moment is a date
_UNKNOWN = np.iinfo(np.int64).min


def date_seconds(column: pa.Array, order: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The seconds of each row, rounded down, and where there is a date that can be read."""
    seconds = _seconds(column, order)
    known = seconds != _UNKNOWN
    return np.where(known, seconds, 0), known


def _seconds(column: pa.Array, order: str) -> NDArray[np.int64]:
    """The seconds of each row, `_UNKNOWN` where there is no date."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _taken(column.dictionary, category_places(column), order)
    if pa.types.is_run_end_encoded(kind):
        return _taken(column.values, run_places(column), order)
    if is_text(kind):
        spellings = as_bytes(column).dictionary_encode()  # most columns have few dates, each of them many times
        return np.append(_text_seconds(spellings.dictionary, order), _UNKNOWN)[category_places(spellings)]
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return np.full(len(column), _UNKNOWN)
    if pa.types.is_date32(kind):
        seconds = column.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64) * 86400
    else:
        seconds = column.cast(pa.int64()).fill_null(0).to_numpy() // _TICKS[getattr(kind, "unit", "ms")]
    return _within(seconds, column.is_valid().to_numpy(zero_copy_only=False))


def _within(seconds: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The seconds of dates that are known and in a year that has four digits."""
    return np.where(known & (seconds >= FIRST) & (seconds <= LAST), seconds, _UNKNOWN)


def _taken(values: pa.Array, places: NDArray[np.int64], order: str) -> NDArray[np.int64]:
    """Dates by their places, none where a place is negative; only those are read that these rows have."""
    used, positions = np.unique(np.maximum(places, 0), return_inverse=True)
    if not len(values):
        return np.full(len(places), _UNKNOWN)
    return np.where(places < 0, _UNKNOWN, _seconds(taken(values, used), order)[positions])


def _text_seconds(cells: pa.Array, order: str) -> NDArray[np.int64]:
    """The seconds that texts stand for, in the declared order, or else with the year first."""
    seconds = _seconds_in_order(cells, order)
    if order == "ymd" or not (seconds == _UNKNOWN).any():
        return seconds
    return np.where(seconds == _UNKNOWN, _seconds_in_order(cells, "ymd"), seconds)


def _seconds_in_order(cells: pa.Array, order: str) -> NDArray[np.int64]:
    pattern = rf"^[ \t]*{'[-./ ]'.join(_GROUPS[part] for part in order)}{_TIME}[ \t]*$"
    parts = pc.extract_regex(cells, pattern)
    known = parts.is_valid().to_numpy(zero_copy_only=False)

    def whole(name: str) -> NDArray[np.int64]:
        digits = pc.struct_field(parts, name).cast(pa.large_string())
        digits = pc.if_else(pc.equal(digits, ""), "0", digits)
        numbers: NDArray[np.int64] = digits.cast(pa.int64()).fill_null(0).to_numpy()
        return numbers

    year, month, day = whole("year"), whole("month"), whole("day")
    known = known & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(known, (year - 1970) * 12 + month - 1, 0)
    first, after = (m.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for m in (months, months + 1))
    known &= day <= after - first
    hour, minute, second = whole("hour"), whole("minute"), whole("second")
    known &= (hour < 24) & (minute < 60) & (second < 60)
    zone = pc.struct_field(parts, "zone").cast(pa.large_string()).fill_null("")
    seconds = (first + day - 1) * 86400 + hour * 3600 + minute * 60 + second - _zone_seconds(zone)
    return _within(seconds, known)


def _zone_seconds(zone: pa.Array) -> NDArray[np.int64]:
    """How far each zone is ahead of UTC."""
    encoded = zone.dictionary_encode()
    ahead = []
    for name in encoded.dictionary.to_pylist():
        digits = name[1:].replace(":", "")
        size = int(digits[:2]) * 3600 + int(digits[2:]) * 60 if digits.isdigit() else 0
        ahead.append(-size if name.startswith("-") else size)
    rows: NDArray[np.int64] = encoded.indices.to_numpy()
    return np.array([*ahead, 0], dtype=np.int64)[rows]


def date_parts(seconds: NDArray[np.int64], part: str) -> NDArray[np.int64]:
    """The weekday, from 0 for Monday, or the month, from 0 for January."""
    days = seconds // 86400
    if part == "weekday":
        return (days + 3) % 7
    months: NDArray[np.int64] = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
    return months
