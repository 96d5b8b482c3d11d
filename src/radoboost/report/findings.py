"""What an experiment found, as data: tables, figures, checks and notes.

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


@dataclass(frozen=True)
class FindingsRecord:
    """What all parts of findings share: sequences become tuples, and there is conversion to JSON data and back."""

    PARTS: ClassVar[Mapping[str, type["FindingsRecord"]]] = {}
    """The fields that hold records, and the class of these records."""
    LEFT_OUT: ClassVar[frozenset[str]] = frozenset()
    """The fields that JSON data leaves out if they have their default value."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _plain_finding_value(getattr(self, field.name)))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON data, under the same names."""
        return {
            field.name: _finding_as_json(value)
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
            if field.name not in self.LEFT_OUT or value != field.default
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The record whose `to_dict` gave this JSON data."""
        try:
            parts = {name: part for name, part in cls.PARTS.items() if name in data}
            records = {name: [part.from_dict(item) for item in data[name]] for name, part in parts.items()}
            return cls(**{**data, **records})
        except TypeError as error:
            raise ArgumentError(f"{cls.__name__.lower()} cannot be read from its data: {error}") from None

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise ArgumentError(f"{type(self).__name__.lower()}: {problem}")

    def _require_name(self, name: str) -> None:
        fits = isinstance(name, str) and _NAME.fullmatch(name) is not None
        self._require(fits, f"a name of small letters, digits and hyphens names files; it is {name!r:.40}")


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
        """Turn names into columns, and check that every row has a cell for each."""
        super().__post_init__()
        columns = tuple(ReportColumn(column) if isinstance(column, str) else column for column in self.columns)
        object.__setattr__(self, "columns", columns)
        self._require_name(self.name)
        for number, row in enumerate(self.rows):
            self._require(len(row) == len(columns), f"row {number} has {len(row)} cells for {len(columns)} columns")


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
        """Check the style, and that x, y and error are as long as each other."""
        super().__post_init__()
        self._require(self.style in STYLES, f"style must be one of {', '.join(STYLES)}, not {self.style!r:.40}")
        self._require(self.style == "flat" or len(self.x) == len(self.y), "x and y must be as long as each other")
        self._require(self.error is None or len(self.error) == len(self.y), "error and y must be as long as each other")


@dataclass(frozen=True)
class Band(FindingsRecord):
    """A shaded band from `low` to `high`, in the colour of the panel's series with the same label, if there is one."""

    label: str
    x: Values
    low: Values
    high: Values

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(len(self.low) == len(self.high) == len(self.x), "x, low and high must be as long as each other")


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
        super().__post_init__()
        self._require_name(self.name)


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
        """Check that names can be file names and differ."""
        super().__post_init__()
        self._require_name(self.name)
        for parts in (self.tables, self.figures):
            names = [part.name for part in parts]
            self._require(len(set(names)) == len(names), f"names must differ; they are {', '.join(names)}")


FindingPart = ReportTable | Figure | Check | str
"""A part of findings; text is a note."""


def findings_of_parts(name: str, title: str, parts: Iterable[FindingPart]) -> Findings:
    """Findings of parts in any order: the type of each says where it belongs."""
    kinds: dict[str, type] = {"tables": ReportTable, "figures": Figure, "checks": Check, "notes": str}
    every = list(parts)
    fields: dict[str, Any] = {field: [one for one in every if isinstance(one, kind)] for field, kind in kinds.items()}
    return Findings(name, title, **fields)


def _plain_finding_value(value: Any) -> Any:
    """Values of Python for those of NumPy, None for NaN, and tuples for all sequences but text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return tuple(_plain_finding_value(item) for item in value)
    return value


def _finding_as_json(value: Any) -> Any:
    if isinstance(value, FindingsRecord):
        return value.to_dict()
    return [_finding_as_json(item) for item in value] if isinstance(value, tuple) else value
