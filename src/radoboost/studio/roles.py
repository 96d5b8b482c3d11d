"""What the ways of holder, officer and learner have in common: a door on the front page, and files to begin with."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    """A way through the studio: its address is /NAME, and a form with `file`, sent there, begins it.

    `verbs` has the kinds of files that it begins with, and what the button of such a file says.
    """

    name: str
    door: str
    about: str
    verbs: Mapping[str, str]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of files that it begins with."""
        return tuple(self.verbs)
