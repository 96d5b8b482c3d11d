"""Plain rados: nothing is added, and nothing is promised."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from radoboost.mechanisms.contract import Circumstances
from radoboost.release import Statement

_NOT_PROTECTED = (
    "Nothing is added to the rados. Of few examples, a rado may be a single one in the clear; of many, who knows all "
    "but one may recover that one, and its label.",
    "The mean and covariance of the rados tell the sum of all edge vectors and of their products, to sampling error: "
    "so also how many examples each class has.",
    "Column names, declared bounds, the number of examples and the two class values are in the release as they are.",
    "Hardness results about rados speak of worst cases; they are not a guarantee for this table.",
    "The digest detects damage, not forgery: it does not say who made the file.",
)
_SCALED = {
    "standard": "The mean and standard deviation of every column are in the release, exactly (of clipped values where "
    "bounds were declared); and, to a factor of two, how far its farthest value lies from the mean (its grid step).",
    "none": "The largest magnitude in every column without declared bounds is in the release, to a factor of two (its "
    "grid step).",
}
_SEEDED = (
    "The signatures were drawn from a seed: who knows or guesses it knows which examples each rado sums, "
    "and with enough rados can solve for every example. Release without a seed."
)


@dataclass(frozen=True)
class Plain:
    """Rados as they are, with no privacy guarantee (Definition 1 of the paper).

    >>> Plain().parameters()
    {}
    """

    name: ClassVar[str] = "plain"
    private: ClassVar[bool] = False
    default_scale: ClassVar[str] = "standard"

    def parameters(self) -> Mapping[str, Any]:
        """There are none."""
        return {}

    def statement(self, circumstances: Circumstances) -> Statement:
        """No guarantee: epsilon is infinite whatever tables are called neighbours."""
        exposed = list(_NOT_PROTECTED)
        if circumstances.scale in _SCALED:
            exposed.insert(3, _SCALED[circumstances.scale])
        if circumstances.seeded:
            exposed.insert(0, _SEEDED)
        return Statement(
            mechanism=self.name,
            neighbours="any two tables",
            epsilon=math.inf,
            delta=0.0,
            accountant="none: nothing is promised, so nothing is accounted",
            promises=(),
            not_protected=tuple(exposed),
        )
