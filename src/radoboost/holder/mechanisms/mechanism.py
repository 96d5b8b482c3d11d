"""What `craft` expects of a mechanism, and what it passes to one.

A mechanism is frozen data, and makes its own release. `check` refuses as much as it can before the table is opened;
`make` asks for as many sums over rows as it needs; `statement` says what such a release may claim. Nobody else asks
which mechanism it is: what others need to know, it says as data.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.feature_maps import Columns, n_outputs
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.row_counts import RowCounts
from radoboost.holder.schema_file import Declared
from radoboost.holder.signatures import AllSignatures, SignatureSet
from radoboost.holder.tilted import TiltedSupport
from radoboost.privacy import Event
from radoboost.release.columns import Column
from radoboost.release.composition import EarlierRelease
from radoboost.release.feature_map import FeatureMap
from radoboost.release.release import Statement
from radoboost.tables.labels import check_classes, label_spelling, unnamed_label

DEFAULT_RADOS = 1000
CHANGED = "{name} had {before:,} rows at first and {after:,} when read again; do not change it while it is read"


@dataclass(frozen=True, eq=False)
class CraftRequest:
    """What the caller of `craft` asked for, checked as far as possible without a mechanism or a table.

    `n_rados` is 0 where no rados are wanted. `scale` may be "auto". Signatures are drawn by `signature_key`, and
    `seeded` says whether that follows from a seed. With `i_know`, what voids promises or hands out rows is allowed.
    `rows` is about how many rows there are, from public knowledge. `earlier` are earlier releases of the same table.
    `person` is the column that says whose row it is, and of each person at most `max_rows` rows contribute: which of
    them, a key from the operating system decides. A `choice_key` is for audits and tests. `columns` says which columns
    the release has: "linear" are the table's own, and what "auto" means is the mechanism's. `weights` say how often
    each row counts: they are one for each row, or the name of a column. Rows have numbers from `first_row` on, where
    holders with one seed number the rows of all of them. Noise on sums is drawn in so many `shares`, one of each holder
    of a room; 1 where there is one holder. `share` names the columns that
    another holder has too, whose sums without labels stand beside the rados; None where none stand there.
    `label_apart` is what labels are called that are not in the table; a label that nobody named is the `one_label` of
    this call, or of this room, and of no other.
    """

    n_rados: int
    signature_key: bytes = field(repr=False)
    declared: Declared
    label: str | None = None
    classes: Sequence[Any] | None = None
    features: Sequence[str] | None = None
    drop: Sequence[str] = ()
    signatures: SignatureSet | None = None
    scale: str | None = "auto"
    intercept: bool = True
    seeded: bool = False
    i_know: bool = False
    rows: int | None = None
    earlier: tuple[EarlierRelease, ...] = ()
    person: str | None = None
    max_rows: int = 1
    choice_key: bytes | None = field(default=None, repr=False)
    label_apart: str | None = None
    one_label: str = field(default_factory=partial(secrets.token_hex, 16), repr=False)
    columns: Columns = "auto"
    weights: Any = None
    share: tuple[str, ...] | None = None
    first_row: int = 0
    shares: int = 1

    @property
    def numbering(self) -> dict[str, int]:
        """What a release says of the numbers of its rows, where they do not begin with 0."""
        return {"first_row": self.first_row} if self.first_row else {}

    @property
    def groups(self) -> Mapping[str, str]:
        """The group of every declared column that is a slot of a category."""
        return {} if self.declared.schema is None else self.declared.schema.groups

    @property
    def fixed_columns(self) -> Columns:
        """Which columns the release has, for mechanisms that make no plan: "auto" are the table's own."""
        return "linear" if self.columns == "auto" else self.columns

    def width(self, features: Sequence[str]) -> int:
        """How many columns a private release of these features has, with the constant one."""
        return n_outputs(self.fixed_columns, features, self.groups, bounded=True) + self.intercept

    @property
    def label_name(self) -> str:
        """The label's column, or "y" where labels are not in the table."""
        return self.label or "y"

    @property
    def which_label(self) -> str:
        """The label that a claim is about, as events name it (M21); nothing without classes."""
        if self.classes is None:
            return ""
        name = self.label or self.label_apart
        return unnamed_label(self.one_label, self.classes) if name is None else label_spelling(name, self.classes)

    @property
    def subsets(self) -> SignatureSet:
        return AllSignatures() if self.signatures is None else self.signatures

    def refuse_many_classes(self, name: str, classes: Sequence[Any] | None) -> None:
        """Refuse more than two classes, for mechanisms whose rados have a sign for each row."""
        if classes is not None and len(check_classes(classes)) > 2:
            raise ArgumentError(
                f"{name} is for two classes, and there are {len(classes)}; take moments (--epsilon) or plain rados, or "
                "make two classes of them"
            )

    def refuse_rows(self) -> None:
        """Refuse `rows`, for mechanisms that cannot say what so many rows can carry."""
        if self.rows is not None:
            raise ArgumentError("only the mechanism moments can say what so many rows carry; leave rows out (--rows)")

    def refuse_weights(self, name: str) -> None:
        """Refuse `weights`, for mechanisms that promise something about one record, or one value of it."""
        if self.weights is not None:
            raise ArgumentError(
                f"the promise of {name} is for one record, and one of weight w would count w times; leave weights out "
                "(--weights), or take the mechanism plain, which promises nothing"
            )

    def refuse_first_row(self, name: str) -> None:
        """Refuse a `first_row`, for mechanisms whose releases are not summed with those of others."""
        if self.first_row:
            raise ArgumentError(
                f"first_row numbers rows of plain releases of one seed, which are then merged, and no seed or merge is "
                f"for {name}; leave first_row out (--first-row)"
            )

    def check_first_row(self) -> None:
        """Refuse a `first_row` where no coins of rows follow from their numbers, or nobody else has the same coins."""
        if self.first_row and not self.subsets.by_coins:
            raise ArgumentError(
                f"with signatures {self.subsets.name!r} the rows of a table have no coins of their own, so that "
                "numbers of rows say nothing; leave first_row (--first-row) or the support out"
            )
        if self.first_row and not self.seeded:
            raise ArgumentError(
                "first_row numbers the rows of holders who share a seed; give that seed too (--seed), or leave "
                "first_row out (--first-row): without a seed coins are independent anyway"
            )

    def refuse_share(self, name: str) -> None:
        """Refuse `share`, for mechanisms whose releases have no place for sums without labels."""
        if self.share is not None:
            raise ArgumentError(
                f"{name} cannot share columns: releases that are joined are plain for now, because a private one "
                "shortens each row by its own columns, so that what two holders share differs; leave share out "
                "(--share), or epsilon"
            )

    def refuse_person(self, name: str) -> None:
        """Refuse a `person`, for mechanisms that promise nothing about whole rows."""
        if self.person is not None:
            raise ArgumentError(
                f"{name} promises nothing about whole rows, so nothing about persons; take a mechanism that does, such "
                "as moments (--epsilon), or leave person out (--person)"
            )


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
    seen. With `mapped`, the columns were made by a feature map. `shape` is what the noise of
    `moments` depends on. `n_classes` counts the classes of a plain release. With `query`, rows are those of the answer
    to a query; with `records` they are "rows" or "lines" of CSV files, or may be. `cluster` names the machines that saw
    the table's rows, where it was not this one alone. Signatures that are `drawn_together` have one key for all rows:
    those of a prescribed size. `room` has the holders, where there are several. `shared` names the columns whose sums
    without labels stand beside the rados; None where there are none. Of tilted rados, `batches` says how many examples
    rados of each later batch sum.
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
    query: bool = False
    records: str = ""
    cluster: str = ""
    drawn_together: bool = False
    room: RoomParticipation | None = None
    shared: tuple[str, ...] | None = None
    batches: tuple[TiltedSupport, ...] = ()


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
    rados, for columns that holders share, has `may_share`, which is True. One whose rados may be tilted has `may_tilt`,
    which is True.
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
