"""What crafting asks of a mechanism, and what it tells one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from radoboost.release import Statement


@dataclass(frozen=True)
class Circumstances:
    """What besides the mechanism bears on a statement."""

    scale: str
    seeded: bool


class Mechanism(Protocol):
    """A frozen description of what is done to rados before they leave."""

    @property
    def name(self) -> str:
        """Its name in a release and on the command line."""

    @property
    def private(self) -> bool:
        """Whether it promises anything, so that nothing may be derived from the data."""

    @property
    def default_scale(self) -> str:
        """What scale="auto" means."""

    def parameters(self) -> Mapping[str, Any]:
        """Its parameters, as they stand in a release."""

    def statement(self, circumstances: Circumstances) -> Statement:
        """What a release made so may claim."""
