"""What kind of numbers a release holds: attacks and learners ask for this, not for the name of a mechanism."""

from collections.abc import Mapping
from typing import Any

SUMS, POOLED_SUMS = "sums", "pooled sums"
LAWS = {
    SUMS: "each rado is the sum of edge vectors over a random subset",
    POOLED_SUMS: "rados of several holders, moved and stretched so that together they have the mean and the covariance "
    "of such sums over the rows of all",
    "banded sums": "each rado is such a sum, and the sum of one binary column stays within a band",
    "noisy sums": "each rado is such a sum of clipped edge vectors, and has noise of its own",
    "sums of noisy rows": "each rado is the sum of edge vectors that have noise, one draw a row, over a random subset",
    "noisy moments": "noisy moments of whitened edge vectors; rados, if there are any, are drawn from them",
    "exact moments": "the exact sum and second moment of edge vectors; rados, if there are any, are drawn from them",
}
UNKNOWN = "unknown"
NOISY_ROWS = ("banded sums", "noisy sums", "sums of noisy rows")  # laws of rados alone
NOISY_MOMENTS, EXACT_MOMENTS = "noisy moments", "exact moments"
# The blocks of laws that need no rados.
MOMENT_BLOCKS = {
    NOISY_MOMENTS: {"moment:C", "whitening", "moment:b", "moment:C2", "scores"},
    EXACT_MOMENTS: {"moment:b", "moment:C"},
}


def release_kind(mechanism: Mapping[str, Any]) -> str:
    """The law that a release names; "unknown" where it names none that we know."""
    law = mechanism.get("law", UNKNOWN)
    return law if law in LAWS else UNKNOWN
