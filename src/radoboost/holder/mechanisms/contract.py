"""What crafting asks of a mechanism, and what it tells one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from radoboost.privacy import Event
from radoboost.release import Statement


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


class Mechanism(Protocol):
    """A frozen description of what is done to rados before they leave."""

    @property
    def name(self) -> str:
        """Its name in a release and on the command line."""

    @property
    def private(self) -> bool:
        """Whether it promises something about whole records, so that nothing may be derived from the data."""

    @property
    def default_scale(self) -> str:
        """What scale="auto" means."""

    def parameters(self, circumstances: Circumstances) -> Mapping[str, Any]:
        """Its parameters, as they stand in a release."""

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


class PrivateMechanism(Mechanism, Protocol):
    """A mechanism that clips rows and adds noise to integers."""

    @property
    def noise_on(self) -> str:
        """What the noise is added to: "rados" or "examples"."""

    @property
    def hides_size(self) -> bool:
        """Whether the number of examples is protected."""

    def check(self, n_rados: int, n_columns: int) -> None:
        """Refuse noise that cannot be had, before a table is opened."""

    def plan(self, n_rados: int, n_columns: int, n_examples: int | None) -> Plan:
        """Grid, clipping and noise; a function of declared things alone."""
