"""What an experiment found, as data: tables, figures, checks and notes, which check themselves when they are made.

    Findings   tables, figures, checks and notes
    Table      columns (Column) and rows of cells
    Figure     panels (Panel), each of them series (Series) and bands (Band)
    Check      a statement, and whether it was seen

All of them are frozen. `to_dict` gives JSON data (mappings, lists, text, numbers, booleans and None), and `from_dict`
makes the same object of it again.
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
"""Numbers, or text, in a row. NumPy's numbers become Python's, and NaN becomes None."""

STYLES = ("line", "points", "dashed", "step", "flat")
_NAME = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")
_KINDS: dict[Any, str] = {
    str: "text",
    str | None: "text",
    bool: "True or False",
    bool | None: "True, False or None",
    int | None: "a count",
}


@dataclass(frozen=True)
class Record:
    """What all parts of findings share: values of the declared types, and a way to JSON data and back.

    An error names the place of the value that is wrong, from the object that is made: `findings.tables[0].rows[2]`.
    """

    PARTS: ClassVar[Mapping[str, type["Record"]]] = {}
    """The fields that hold records, and of which class."""
    LEFT_OUT: ClassVar[frozenset[str]] = frozenset()
    """The fields that JSON data leaves out where they have their default value."""

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
        """JSON data of the same names.

        >>> Column("error", "%").to_dict(), Check("errors fall", True, "from 3 % to 2 %", ours=True).to_dict()["ours"]
        ({'name': 'error', 'unit': '%'}, True)
        """
        return {
            field.name: _json(value)
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
            if field.name not in self.LEFT_OUT or value != field.default
        }

    @classmethod
    def from_dict(cls, data: Any, where: str | None = None) -> Self:
        """The record that gave this JSON data; `where` stands for it in errors.

        >>> Table.from_dict({"name": "errors", "title": "Errors", "columns": [{"name": "a"}], "rows": [[1, 2]]})
        Traceback (most recent call last):
        radoboost.errors.ArgumentError: table.rows[0]: must hold 1 cell, not 2
        """
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
                values[name] = [part.from_dict(one, f"{where}.{name}[{k}]") for k, one in enumerate(data[name])]
        try:
            return cls(**values)
        except ArgumentError as error:
            raise ArgumentError(where + str(error).removeprefix(cls._word())) from None

    @classmethod
    def _word(cls) -> str:
        return cls.__name__.lower()

    def _require(self, holds: bool, place: str, what: str) -> None:
        if not holds:
            raise ArgumentError(f"{self._word()}{'.' if place else ''}{place}: {what}")

    def _tuple(self, place: str, values: Any) -> tuple[Any, ...]:
        fits = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
        self._require(fits, place, f"must be a list, not {values!r:.40}")
        return tuple(_plain(value) for value in values)

    def _require_name(self, name: str) -> None:
        wanted = "small letters, digits and hyphens, as it names files"
        self._require(_NAME.fullmatch(name) is not None, "name", f"must be {wanted}, not {name!r:.40}")

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
class Column(Record):
    """One column of a table: its name, its unit, and how many decimals to show.

    >>> Column("error", "%", 2)
    Column(name='error', unit='%', digits=2)
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
class Table(Record):
    """A table, of columns or just their names, and rows with a cell for each column.

    A cell is a finite number, text, True, False or None. NumPy's numbers become Python's, and NaN becomes None.

    >>> Table("errors", "Errors", ["domain", Column("error", "%", 2)], [["banknote", np.float64(2.71)]]).rows
    (('banknote', 2.71),)
    """

    PARTS: ClassVar = {"columns": Column}
    LEFT_OUT: ClassVar = frozenset({"note"})

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str | None = None

    if TYPE_CHECKING:  # what may be given; what is kept of it stands above

        def __init__(
            self,
            name: str,
            title: str,
            columns: Sequence[Column | str],
            rows: Sequence[Values],
            note: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn names into columns, and check the cells."""
        named = [Column(one) if isinstance(one, str) else one for one in self._tuple("columns", self.columns)]
        object.__setattr__(self, "columns", named)
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
                wanted = "a finite number, text, True, False or None"
                fits = cell is None or isinstance(cell, bool | str) or _is_number(cell)
                self._require(fits, f"rows[{number}][{place}]", f"must be {wanted}, not {cell!r:.40}")


@dataclass(frozen=True)
class Series(Record):
    """Points of one label, `error` above and below each; those whose indices are in `marked` get a ring.

    x are numbers, or text for places in a row; None in y leaves a gap. Of style "flat" is one y across the whole panel,
    whatever the x.

    >>> Series("boost", np.arange(2), [0.5, np.nan], marked=[0]).to_dict()
    {'label': 'boost', 'x': [0, 1], 'y': [0.5, None], 'style': 'line', 'marked': [0]}
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
            self._require(len(set(self.y)) == 1, "y", "a flat series has one value")
        else:
            self._require_length("x", self.x, length, "y")
        if self.error is not None:
            self._require_numbers("error", self.error)
            self._require_length("error", self.error, length, "y")
            self._require(all(error is None or error >= 0 for error in self.error), "error", "must not be < 0")
        fits = all(_is_count(place) and place < length for place in self.marked)
        self._require(fits, "marked", f"must be counts below {length}")


@dataclass(frozen=True)
class Band(Record):
    """A shaded band from `low` to `high`; with the label of a series of the panel it takes that one's colour.

    >>> Band("boost", [1, 2], [0.1, 0.2], [0.3, 0.4]).high
    (0.3, 0.4)
    """

    label: str
    x: Values
    low: Values
    high: Values

    def __post_init__(self) -> None:
        """Check lengths and numbers."""
        super().__post_init__()
        self._require_places(self.x)
        for place, values in (("low", self.low), ("high", self.high)):
            self._require_numbers(place, values)
            self._require_length(place, values, len(self.x), "x")


@dataclass(frozen=True)
class Panel(Record):
    """One pair of axes.

    >>> Panel("banknote", "rados", "error, %", [Series("boost", [10, 100], [3.0, 2.5])], log_x=True).log_x
    True
    """

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
        """Check that the axis of x can show all places."""
        super().__post_init__()
        places = [x for item in self.placed for x in item.x]
        words = sum(isinstance(x, str) for x in places)
        self._require(words in (0, len(places)), "", "x must be all numbers or all text")
        self._require(not (self.log_x and words), "", "log_x needs numbers as x")
        self._require(not self.log_x or min(places, default=1) > 0, "", "log_x needs x above 0")

    @property
    def placed(self) -> list[Series | Band]:
        """What has places along x of its own: all but flat series."""
        return [*(item for item in self.series if item.style != "flat"), *self.bands]


@dataclass(frozen=True)
class Figure(Record):
    """A figure of one or more panels, which share one legend: a label has the same colour in all of them.

    >>> Figure("curves", "Curves", "Error by size.", [Panel("a", "size", "error", [Series("boost", [1], [2])])]).name
    'curves'
    """

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
class Check(Record):
    """A statement of the paper, whether it was seen here (None: could not be judged), and by what.

    "Not seen" says that our criterion did not show it here, not that the paper is wrong. With `ours` the paper does not
    say so: the question is our own, and readers are told.

    >>> Check("more rados are better", False, "3.1 % with 10, 3.4 % with 100").seen
    False
    """

    LEFT_OUT: ClassVar = frozenset({"ours"})

    statement: str
    seen: bool | None
    why: str
    ours: bool = False


@dataclass(frozen=True)
class Findings(Record):
    """All that an experiment found.

    >>> Findings("table1", "Table 1", checks=[Check("errors fall", True, "from 3.0 % to 2.0 %")]).checks[0].seen
    True
    """

    PARTS: ClassVar = {"tables": Table, "figures": Figure, "checks": Check}

    name: str
    title: str
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    checks: Sequence[Check] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check that names can be those of files."""
        super().__post_init__()
        self._require_name(self.name)
        for kind, names in (
            ("tables", [table.name for table in self.tables]),
            ("figures", [figure.name for figure in self.figures]),
        ):
            self._require(len(set(names)) == len(names), kind, f"names must differ, not {', '.join(names)}")
        for number, note in enumerate(self.notes):
            self._require(isinstance(note, str), f"notes[{number}]", f"must be text, not {note!r:.40}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def _json(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    return [_json(item) for item in value] if isinstance(value, tuple) else value
