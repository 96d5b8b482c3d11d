"""What crafting asks of a mechanism, and what it tells one.

A mechanism is frozen data, and makes its own release. `check` refuses before the table is opened what can be refused by
then; `make` asks for as many sums over rows as it needs; `statement` says what a release made so may claim. Nobody else
asks which mechanism it is: what others need to know it tells as data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.declared import Declared
from radoboost.holder.run import Run
from radoboost.holder.signatures import AllSignatures, SignatureSet
from radoboost.privacy import Event
from radoboost.release import Statement
from radoboost.release.columns import Column


@dataclass(frozen=True, eq=False)
class Asked:
    """What `craft` was asked for, checked as far as that can be without a mechanism or a table.

    `scale` may be "auto". `signature_key` is what signatures are drawn by, and `seeded` says whether it follows from a
    seed. `rows` is about how many rows there are, from public knowledge. `earlier` are the events of earlier releases
    of the same table.
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
    may_seed: bool = False
    rows: int | None = None
    earlier: tuple[Event, ...] = ()

    @property
    def label_name(self) -> str:
        """The label's column, or "y" where labels are given beside the table."""
        return self.label or "y"

    @property
    def subsets(self) -> SignatureSet:
        """The signature set: all of them unless another was asked for."""
        return AllSignatures() if self.signatures is None else self.signatures

    def refuse_rows(self) -> None:
        """For mechanisms of which it is not known what so many rows can carry."""
        if self.rows is not None:
            raise ArgumentError("what so many rows can carry is known of the mechanism moments only; leave rows out")


@dataclass(frozen=True)
class Circumstances:
    """What besides the mechanism bears on a statement.

    `n_columns` counts the features of a rado, the constant one too; `n_examples` is None where the neighbour relation
    hides it; `earlier` are the events of earlier releases of the same table.
    """

    scale: str
    seeded: bool
    n_rados: int
    n_columns: int
    n_examples: int | None
    earlier: tuple[Event, ...] = ()


@dataclass(frozen=True, eq=False)
class Made:
    """What a mechanism made of a table: all that goes into a release but the statement.

    `clipped` (values beyond their bounds, by column) and `ignored` (rows that gave nothing) are for the holder's eyes,
    and are not in the release.
    """

    blocks: Mapping[str, NDArray[np.float64]]
    columns: tuple[Column, ...]
    classes: tuple[Any, Any]
    circumstances: Circumstances
    parameters: Mapping[str, Any]
    signatures: Mapping[str, Any]
    clipped: NDArray[np.int64]
    ignored: int = 0


class Mechanism(Protocol):
    """A frozen description of what is done to rados before they leave."""

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
        """What kind of numbers it releases, one of `radoboost.release.laws.LAWS`: attacks and learners go by it."""

    def check(self, asked: Asked) -> None:
        """Refuse what cannot be made, before the table is opened."""

    def make(self, asked: Asked, run: Run) -> Made:
        """Everything in the release but its statement."""

    def statement(self, circumstances: Circumstances) -> Statement:
        """What a release made so may claim."""


@dataclass(frozen=True)
class Plan:
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
    """What is asked about the cost of a mechanism, without data: an epsilon or a noise, and what else bears on it.

    `noise` is in multiples of the clipping norm. A mechanism that can answer has `account(question)`, which gives the
    event, and what to say beside its epsilon.
    """

    epsilon: float | None = None
    noise: float | None = None
    delta: float = 1e-6
    n_rados: int = 1000
    n_examples: int | None = None
    n_features: int | None = None
    unit: str = "record"

    def check_one(self) -> None:
        """Refuse both or neither of epsilon and noise."""
        if (self.epsilon is None) == (self.noise is None):
            raise ArgumentError("give epsilon to learn what noise it takes, or noise to learn what epsilon it buys")

    def refuse_columns(self, name: str) -> None:
        """For mechanisms whose cost depends on neither columns nor the unit."""
        if self.n_features is not None or self.unit != "record":
            raise ArgumentError(f"columns and unit are for the mechanism moments; leave them out for {name}")
