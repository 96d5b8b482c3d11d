"""The block `shared` of a release: sums without labels, beside the rados, of columns that another holder has too.

Row j sums, over the examples of rado j, the columns that the block names, and the constant, which is last: so that is
how many examples rado j has. They are on the grid of the release's own columns of these names. Learners who know only
rados do not see the block, so nobody takes a label for a feature.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from radoboost.errors import ReleaseError
from radoboost.release.columns import CONSTANT

if TYPE_CHECKING:
    from radoboost.release.release import Release

SHARED = "shared"


def check_shared_columns(blocks: Mapping[str, Any], names: tuple[str, ...], own: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a block of shared columns that does not go with the rados; `own` are columns that blocks have."""
    if SHARED not in blocks:
        return
    columns, n_rados = own.get(SHARED, ()), len(blocks.get("rados", ()))
    if len(blocks[SHARED]) != n_rados or columns[-1:] != (CONSTANT,) or not set(columns) <= set(names):
        raise ReleaseError("its shared columns do not go with its rados; get the release again from its maker")


def shared_names(release: "Release") -> tuple[str, ...] | None:
    """The columns that a release shares: of the raw table, where it has a schema; None where it shares nothing."""
    if SHARED not in release.blocks:
        return None
    names = release.block_columns[SHARED][:-1]
    if release.schema is None:
        return names
    return tuple(dict.fromkeys(part.column for part in release.schema.encoded() if part.name in names))
