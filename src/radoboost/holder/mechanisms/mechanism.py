"""What `craft` expects of a mechanism, and what it passes to one.

A mechanism is frozen data, and makes its own release. `check` refuses as much as it can before the table is opened;
`make` asks for as many sums over rows as it needs; `statement` says what such a release may claim. Nobody else asks
which mechanism it is: what others need to know, it says as data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.request import CraftRequest
from radoboost.holder.row_counts import RowCounts
from radoboost.privacy import Event
from radoboost.release.columns import Column
from radoboost.release.composition import EarlierRelease
from radoboost.release.feature_map import FeatureMap
from radoboost.release.release import Statement

CHANGED = "{name} had {before:,} rows at first and {after:,} when read again; do not change it while it is read"


def check_intercept(intercept: Any) -> None:
    """Refuse anything but a truth value."""
    if not isinstance(intercept, bool | np.bool_):
        raise ArgumentError(f"intercept must be True or False; it is {intercept!r}")


@dataclass(frozen=True)
class RoomParticipation:
    """The holders who made a release together in a room, as a statement needs them.

    Of so many `holders` up to `tolerate` might be lost or put together what they know; in the sum that had the fewest,
    `present` were there. Fewer than `opening` of them cannot see the sums of
    another by putting together what they know. `parts` describe each of them, as data. With `needs_all` some sums have
    no noise, and none of the holders was lost.
    """

    holders: int
    tolerate: int
    opening: int
    present: int
    parts: tuple[Mapping[str, Any], ...]
    needs_all: bool = False


@dataclass(frozen=True)
class StatementFacts:
    """What a statement depends on besides the mechanism.

    `n_columns` counts the features of a rado with the constant one; `n_examples` is None where the neighbour relation
    hides it; `earlier` are earlier releases of the same table. `searched` are the columns whose bounds were found
    privately; with `columns_from_table` nobody declared which columns there are. With a `person`, the column that says
    whose row it is, what is protected is one person, of whom at most `max_rows` rows contribute. `schema` says where a
    schema came from: "declared" beforehand, "settled" by the table where it left something open, or from the "table";
    it is empty where there is none; `corrected` are its columns that were edited after exact counts of the table were
    seen. With `mapped`, the columns were made by a feature map. `shape` is what the noise of `moments` depends on.
    `n_classes` counts the classes of a plain release. By `origin`, rows are those of the answer to a "query", or of a
    table in "memory"; with `records` they are "rows" or "lines" of CSV files, or may be. `cluster` names the machines
    that saw the table's rows, where it was not this one alone. Signatures that are `drawn_together` have one key for
    all rows: those of a prescribed size. `room` has the holders, where there are several. `shared` names the columns
    whose sums without labels stand beside the rados; None where there are none.
    """

    scale: str
    seeded: bool
    n_rados: int
    n_columns: int
    n_examples: int | None
    earlier: tuple[EarlierRelease, ...] = ()
    searched: tuple[str, ...] = ()
    columns_from_table: bool = False
    person: str | None = None
    max_rows: int = 1
    schema: str = ""
    corrected: tuple[str, ...] = ()
    mapped: bool = False
    shape: NoiseShape | None = None
    n_classes: int = 2
    origin: str = ""
    records: str = ""
    cluster: str = ""
    drawn_together: bool = False
    room: RoomParticipation | None = None
    shared: tuple[str, ...] | None = None


@dataclass(frozen=True)
class KeyUse:
    """Which keys a mechanism has: those of coins by which rows join rados, of noise on rows, and of noise on sums.

    Where a cluster sums rows, workers get the first two, and the last stays with whoever crafts: statements say so.
    """

    coins: bool = True
    row_noise: bool = True
    sum_noise: bool = True


@dataclass(frozen=True)
class MappedInputs:
    """A feature map that a table is seen through, and the table's columns, which it takes.

    `outliers` are values that outweigh all others of their column, for the holder's eyes.
    """

    map: FeatureMap
    inputs: tuple[Column, ...]
    outliers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ReleaseDraft:
    """What a mechanism made of a table: everything in a release but the statement.

    `counts` are for the holder's eyes, and are not in the release. They are of the table's columns, and so of what a
    `map` takes, where there is one; so are `outliers`. `block_columns` names the columns of blocks that have columns of
    their own.
    """

    blocks: Mapping[str, NDArray[np.float64]]
    columns: tuple[Column, ...]
    classes: tuple[Any, ...]
    circumstances: StatementFacts
    parameters: Mapping[str, Any]
    signatures: Mapping[str, Any]
    counts: RowCounts
    map: FeatureMap | None = None
    block_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outliers: Mapping[str, float] = field(default_factory=dict)

    @property
    def counted(self) -> tuple[str, ...]:
        names = tuple(column.name for column in self.columns if column.scale != "constant")
        return names if self.map is None else self.map.input_names


class Mechanism(Protocol):
    """What protects a release: frozen data that makes the release.

    One that makes another number of rados than `DEFAULT_RADOS` where nobody asks for a number has `default_rados`: 0 if
    it makes none, and `craft` draws those that are asked for from the moments that it releases. One that can say
    beforehand what so many declared rows carry has `foresee(asked, features)`, which returns a sentence or None:
    `features` are the table's columns, or None before it is open. One that has no signatures for a seed to fix says so:
    `takes_seed` is False. One that books otherwise than its statement's event at once has `foreseen_bookings(asked)`:
    the events that it will book, as far as they are known beforehand. One whose noise, if any, is added to sums, and
    that needs nothing else from all rows, works in a room: `in_rooms` is True; if other sums have no noise there,
    `exact_in_rooms` is True, and a room needs all its holders. One whose releases may have sums without labels beside
    rados, for columns that holders share, has `may_share`, which is True. One that is not private has
    `survey(asked, run)`: the first pass, at which a table shows whether it needs a schema; `make` finds what it returns
    as `run.survey`.
    """

    @property
    def name(self) -> str:
        """Its name in a release and on the command line."""

    @property
    def private(self) -> bool:
        """Whether it promises something about whole records, so that nothing may be derived from the data.

        Tables are then read row by row: no value decides how another is read, or whether a release comes out.
        """

    @property
    def law(self) -> str:
        """What kind of numbers it releases, one of `radoboost.release.kind.LAWS`, for attacks and learners."""

    def check(self, asked: CraftRequest) -> None:
        """Refuse what cannot be made, before the table is opened."""

    def make(self, asked: CraftRequest, run: Curator) -> ReleaseDraft:
        """Everything in the release but its statement."""

    def statement(self, circumstances: StatementFacts) -> Statement:
        """What such a release may claim."""


@dataclass(frozen=True)
class NoisePlan:
    """How a private mechanism treats integers: on which grid, clipped to which norm, with how much noise on what.

    Rows are clipped to `clip`; None leaves them as they are. `noise_scale` is the noise's standard deviation in grid
    steps of size `step`, and `noise_std` the same in units of the columns.
    """

    step: float
    clip: float | None
    noise_scale: float
    event: Event

    @property
    def noise_std(self) -> float:
        """The noise in units of the columns; exact, for a step is a power of two."""
        return self.noise_scale * self.step


@dataclass(frozen=True)
class Question:
    """A question about the cost of a mechanism, without data: an epsilon or a noise, and what else matters.

    `noise` is in multiples of the clipping norm. A mechanism that can answer has `account(question)`, which returns the
    event, and what else to say. `sharpen`, `relation`, `private_bounds`, of all columns, `columns`, a word for those of
    the release, and `n_classes` are for `moments`.
    """

    epsilon: float | None = None
    noise: float | None = None
    delta: float = 1e-6
    n_rados: int = 1000
    n_examples: int | None = None
    n_features: int | None = None
    unit: str = "record"
    sharpen: bool = True
    private_bounds: bool = False
    relation: str = "add"
    columns: str = "auto"
    n_classes: int = 2

    def check_one(self) -> None:
        """Refuse both or neither of epsilon and noise."""
        if (self.epsilon is None) == (self.noise is None):
            raise ArgumentError("give epsilon to learn what noise it takes, or noise to learn what epsilon it buys")

    def refuse_columns(self, name: str) -> None:
        """Refuse columns and the like, for mechanisms whose cost does not depend on them."""
        others = (self.unit, self.relation, self.columns, self.sharpen) != ("record", "add", "auto", True)
        others = others or self.private_bounds or self.n_classes != 2
        if self.n_features is not None or others:
            raise ArgumentError(
                "columns, unit, relation, no-sharpen, n-classes and private bounds are for the mechanism moments; "
                f"leave them out for {name}"
            )
