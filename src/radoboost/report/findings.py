"""What an experiment found, as data: tables, figures, checks and notes, which check themselves when they are made.

    Findings   tables, figures, checks and notes
    Table      columns (Column) and rows of cells
    Figure     panels (Panel), each of them series (Series) and bands (Band)
    Check      a statement, and whether it was seen

All of them are frozen. `to_dict` gives JSON data (mappings, lists, text, numbers, booleans and None), and `from_dict`
makes the same object from it again.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError

Values = Sequence[Any] | NDArray[Any]
"""A sequence of numbers or of text. NumPy's numbers become Python's, and NaN becomes None."""

STYLES = ("line", "points", "dashed", "step", "flat")
_NAME = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")
_KINDS: dict[Any, str] = {  # the words for a type in errors
    str: "text",
    str | None: "text",
    bool: "True or False",
    bool | None: "True, False or None",
    int | None: "a count",
}


@dataclass(frozen=True)
class FindingsRecord:
    """What all parts of findings share: values of the declared types, and conversion to JSON data and back.

    An error says where the wrong value is, starting at the object that is being made: `findings.tables[0].rows[2]`.
    """

    PARTS: ClassVar[Mapping[str, type["FindingsRecord"]]] = {}
    """The fields that hold records, and the class of these records."""
    LEFT_OUT: ClassVar[frozenset[str]] = frozenset()
    """The fields that JSON data leaves out if they have their default value."""

    def __post_init__(self) -> None:
        """Check the types of all values, and turn lists into tuples."""
        for field in dataclasses.fields(self):
            name, value = field.name, _plain(getattr(self, field.name))
            kind: Any = field.type
            if kind in _KINDS:
                self._require(isinstance(value, kind), name, f"must be {_KINDS[kind]}, not {value!r:.40}")
            elif value is not field.default:
                value = self._tuple(name, value)
            object.__setattr__(self, name, value)
        for name, part in self.PARTS.items():
            for place, item in enumerate(getattr(self, name)):
                self._require(isinstance(item, part), f"{name}[{place}]", f"must be a {part.__name__}")

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON data, under the same names."""
        return {
            field.name: _json(value)
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
            if field.name not in self.LEFT_OUT or value != field.default
        }

    @classmethod
    def from_dict(cls, data: Any, where: str | None = None) -> Self:
        """The record whose `to_dict` gave this JSON data; errors call it `where`."""
        where = where or cls._word()
        if not isinstance(data, Mapping):
            raise ArgumentError(f"{where}: must be a mapping, not {data!r:.40}")
        names = [field.name for field in dataclasses.fields(cls)]
        for key in data:
            if key not in names:
                raise ArgumentError(f"{where}: {key!r} is unknown; known are {', '.join(sorted(names))}")
        for name in names:
            if name not in data and name not in cls.LEFT_OUT:
                raise ArgumentError(f"{where}: {name!r} is missing; add it")
        values = dict(data)
        for name, part in cls.PARTS.items():
            if isinstance(data.get(name), list):
                values[name] = [part.from_dict(item, f"{where}.{name}[{k}]") for k, item in enumerate(data[name])]
        try:
            return cls(**values)
        except ArgumentError as error:
            raise ArgumentError(where + str(error).removeprefix(cls._word())) from None

    @classmethod
    def _word(cls) -> str:
        return cls.__name__.lower()

    def _require(self, holds: bool, place: str, problem: str) -> None:
        if not holds:
            raise ArgumentError(f"{self._word()}{'.' if place else ''}{place}: {problem}")

    def _tuple(self, place: str, values: Any) -> tuple[Any, ...]:
        fits = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
        self._require(fits, place, f"must be a list, not {values!r:.40}")
        return tuple(_plain(value) for value in values)

    def _require_name(self, name: str) -> None:
        form = "small letters, digits and hyphens, as it names files"
        self._require(_NAME.fullmatch(name) is not None, "name", f"must be {form}, not {name!r:.40}")

    def _require_length(self, place: str, values: Values, length: int, other: str) -> None:
        self._require(len(values) == length, place, f"must be as long as {other}, {length}, not {len(values)}")

    def _require_numbers(self, place: str, values: Values) -> None:
        for number, value in enumerate(values):
            fits = value is None or _is_number(value)
            self._require(fits, f"{place}[{number}]", f"must be a finite number or None, not {value!r:.40}")

    def _require_places(self, values: Values) -> None:
        for number, value in enumerate(values):
            fits = isinstance(value, str) or _is_number(value)
            self._require(fits, f"x[{number}]", f"must be a finite number or text, not {value!r:.40}")


@dataclass(frozen=True)
class ReportColumn(FindingsRecord):
    """One column of a table: its name, its unit, and how many decimals to show.

    >>> ReportColumn("error", "%", 2)
    ReportColumn(name='error', unit='%', digits=2)
    """

    LEFT_OUT: ClassVar = frozenset({"unit", "digits"})

    name: str
    unit: str | None = None
    digits: int | None = None

    def __post_init__(self) -> None:
        """Check the number of decimals."""
        super().__post_init__()
        fits = self.digits is None or _is_count(self.digits)
        self._require(fits, "digits", f"must be a count, not {self.digits!r:.40}")


@dataclass(frozen=True)
class ReportTable(FindingsRecord):
    """A table, of columns or just their names, and rows with a cell for each column.

    A cell is a finite number, text, True, False or None. NumPy's numbers become Python's, and NaN becomes None.
    """

    PARTS: ClassVar = {"columns": ReportColumn}
    LEFT_OUT: ClassVar = frozenset({"note"})

    name: str
    title: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str | None = None

    if TYPE_CHECKING:  # what a caller may pass; the fields above are what is kept of it

        def __init__(
            self,
            name: str,
            title: str,
            columns: Sequence[ReportColumn | str],
            rows: Sequence[Values],
            note: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn names into columns, and check the cells."""
        values = self._tuple("columns", self.columns)
        columns = [ReportColumn(column) if isinstance(column, str) else column for column in values]
        object.__setattr__(self, "columns", columns)
        super().__post_init__()
        self._require_name(self.name)
        width = len(self.columns)
        self._require(width > 0, "columns", "there must be at least one")
        rows = tuple(self._tuple(f"rows[{number}]", row) for number, row in enumerate(self.rows))
        object.__setattr__(self, "rows", rows)
        cells = f"{width} cell{'' if width == 1 else 's'}"
        for number, row in enumerate(rows):
            self._require(len(row) == width, f"rows[{number}]", f"must hold {cells}, not {len(row)}")
            for place, cell in enumerate(row):
                kinds = "a finite number, text, True, False or None"
                fits = cell is None or isinstance(cell, bool | str) or _is_number(cell)
                self._require(fits, f"rows[{number}][{place}]", f"must be {kinds}, not {cell!r:.40}")


@dataclass(frozen=True)
class Series(FindingsRecord):
    """Points that share a label, with `error` above and below each; points whose indices are in `marked` get a ring.

    x holds numbers, or text for places side by side; None in y leaves a gap. A series of style "flat" is one y across
    the whole panel, whatever its x.
    """

    LEFT_OUT: ClassVar = frozenset({"error", "marked"})

    label: str
    x: Values
    y: Values
    error: Values | None = None
    style: str = "line"
    marked: Values = ()

    def __post_init__(self) -> None:
        """Check lengths, the style and the numbers."""
        super().__post_init__()
        self._require(self.style in STYLES, "style", f"must be one of {', '.join(STYLES)}, not {self.style!r:.40}")
        self._require_places(self.x)
        self._require_numbers("y", self.y)
        length = len(self.y)
        if self.style == "flat":
            self._require(len(set(self.y)) == 1, "y", "a flat series must have one value")
        else:
            self._require_length("x", self.x, length, "y")
        if self.error is not None:
            self._require_numbers("error", self.error)
            self._require_length("error", self.error, length, "y")
            self._require(all(error is None or error >= 0 for error in self.error), "error", "must not be below 0")
        fits = all(_is_count(place) and place < length for place in self.marked)
        self._require(fits, "marked", f"must be counts below {length}")


@dataclass(frozen=True)
class Band(FindingsRecord):
    """A shaded band from `low` to `high`, in the colour of the panel's series with the same label, if there is one."""

    label: str
    x: Values
    low: Values
    high: Values

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_places(self.x)
        for place, values in (("low", self.low), ("high", self.high)):
            self._require_numbers(place, values)
            self._require_length(place, values, len(self.x), "x")


@dataclass(frozen=True)
class Panel(FindingsRecord):
    PARTS: ClassVar = {"series": Series, "bands": Band}
    LEFT_OUT: ClassVar = frozenset({"log_x", "log_y", "bands"})

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    bands: Sequence[Band] = ()

    def __post_init__(self) -> None:
        """Check that the x axis can show all places."""
        super().__post_init__()
        places = [x for item in self.placed for x in item.x]
        n_words = sum(isinstance(x, str) for x in places)
        self._require(n_words in (0, len(places)), "", "x must be all numbers or all text")
        self._require(not (self.log_x and n_words), "", "log_x needs numbers as x")
        self._require(not self.log_x or min(places, default=1) > 0, "", "log_x needs x above 0")

    @property
    def placed(self) -> list[Series | Band]:
        """The series and bands that have places of their own along x: all but flat series."""
        return [*(item for item in self.series if item.style != "flat"), *self.bands]


@dataclass(frozen=True)
class Figure(FindingsRecord):
    """A figure of one or more panels, which share one legend: a label has the same colour in all of them."""

    PARTS: ClassVar = {"panels": Panel}

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]

    def __post_init__(self) -> None:
        """Check the name, and that there is something to draw."""
        super().__post_init__()
        self._require_name(self.name)
        self._require(len(self.panels) > 0, "panels", "there must be at least one")


@dataclass(frozen=True)
class Check(FindingsRecord):
    """A statement of the paper, whether it was seen here (None: could not be judged), and why.

    "Not seen" says that our criterion did not show it here, not that the paper is wrong. With `ours` the paper does not
    say so: the question is our own, and readers are told.
    """

    LEFT_OUT: ClassVar = frozenset({"ours"})

    statement: str
    seen: bool | None
    why: str
    ours: bool = False


@dataclass(frozen=True)
class Findings(FindingsRecord):
    """All that an experiment found."""

    PARTS: ClassVar = {"tables": ReportTable, "figures": Figure, "checks": Check}

    name: str
    title: str
    tables: Sequence[ReportTable] = ()
    figures: Sequence[Figure] = ()
    checks: Sequence[Check] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check that names can be file names and differ, and that notes are text."""
        super().__post_init__()
        self._require_name(self.name)
        for kind, names in (
            ("tables", [table.name for table in self.tables]),
            ("figures", [figure.name for figure in self.figures]),
        ):
            self._require(len(set(names)) == len(names), kind, f"names must differ; they are {', '.join(names)}")
        for number, note in enumerate(self.notes):
            self._require(isinstance(note, str), f"notes[{number}]", f"must be text, not {note!r:.40}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _plain(value: Any) -> Any:
    """A value of Python for one of NumPy, and None for NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def _json(value: Any) -> Any:
    if isinstance(value, FindingsRecord):
        return value.to_dict()
    return [_json(item) for item in value] if isinstance(value, tuple) else value
