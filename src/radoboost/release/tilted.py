"""The blocks `tilted:1`, `tilted:2`, ... of a release: rados of later batches, which favour examples that are not easy.

Those of the block `rados` are the first batch, in which examples join by fair coins. In batch s, example i joins with
probability 1 / (1 + exp(theta . e_i)), where e_i is its edge vector and theta the batch's own, which the release has.
So their mean is minus the gradient of the logistic loss at theta, and their covariance its Hessian
(docs/proofs/tilted.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost.errors import ReleaseError
from radoboost.release.columns import GRID_BITS
from radoboost.release.file_format import RADOS, TILTED
from radoboost.release.kind import SUMS

if TYPE_CHECKING:
    from radoboost.release.release import Release

NAME = "tilted"
"""The signature set, as a release calls it."""
SENTENCE = "Easy examples drop out of later batches"
"""How what a statement says about tilted rados begins."""
MOST_BATCHES = 16
_SCORE_BITS, _WEIGHT_BITS = 62, 30  # of a score, and of a weight at most
LARGEST = 1e100
"""Of a number of theta: far beyond any that is learned, and squares of it do not overflow."""


@dataclass(frozen=True, eq=False)
class TiltedBatch:
    """Rados of one batch, and the theta that they were drawn at; that of the first is zero."""

    theta: NDArray[np.float64]
    rados: NDArray[np.float64]


def tilted_block(place: int) -> str:
    """The block with the rados of a batch; the first, in `rados`, has the place 0."""
    return f"{TILTED}{place}"


def batches_of(release: "Release") -> tuple[TiltedBatch, ...]:
    """All batches of a release; of one without tilted rados there is one."""
    first = TiltedBatch(np.zeros(len(release.columns)), release.rados)
    thetas = release.signatures["thetas"] if is_tilted(release) else ()
    return (
        first,
        *(TiltedBatch(np.array(theta), release.blocks[tilted_block(s)]) for s, theta in enumerate(thetas, 1)),
    )


def is_tilted(release: "Release") -> bool:
    """Whether a release has, or is about to have, rados of several batches."""
    return release.signatures.get("name") == NAME


def first_batch_notice(release: "Release") -> str | None:
    """What to say of something that looks at the first batch of several alone; None where there is one."""
    if not is_tilted(release):
        return None
    sizes = release.signatures["batches"]
    return (
        f"this is about the first {sizes[0]:,} rados, by fair coins; the other {sum(sizes[1:]):,} are tilted, tell "
        "more of examples that are hard to classify, and are left out here"
    )


def of_first_batch(release: "Release", sentence: str) -> str:
    """A sentence on what was found in the first batch of several, which it says; as it is where there is one."""
    if not is_tilted(release):
        return sentence
    sizes = release.signatures["batches"]
    return f"Of the first batch, {sizes[0]:,} of {sum(sizes):,} rados: {sentence[0].lower()}{sentence[1:]}"


def in_short(signatures: Mapping[str, Any]) -> dict[str, Any]:
    """A description of a signature set without what would fill a page."""
    if signatures.get("name") != NAME:
        return dict(signatures)
    return {"name": NAME, "batches": sizes_text(signatures["batches"])}


def sizes_text(sizes: Sequence[int] | str) -> str:
    """How many rados each batch has; words stay as they are."""
    return sizes if isinstance(sizes, str) else " + ".join(f"{size:,}" for size in sizes)


def check_tilted(release: "Release") -> None:
    """Refuse tilted rados without what they were drawn at, or with what does not go with them.

    While it is made, a release may have its first batch alone.
    """
    blocks, signatures, columns = release.blocks, release.signatures, release.columns
    named = [name for name in blocks if name.startswith(TILTED)]
    if signatures.get("name") != NAME:
        if named:
            raise ReleaseError(f"it has rados {named[0]!r} and not how they were drawn; get it again from its maker")
        return
    sizes: Any = signatures.get("batches")
    thetas: Any = signatures.get("thetas")
    usable = (
        set(signatures) == {"name", "batches", "thetas"}
        and _is_list_of_pairs(sizes)
        and _is_list_of_pairs(thetas)
        and 1 <= len(sizes) == len(thetas) + 1 <= MOST_BATCHES
        and all(type(size) is int and size >= 2 for size in sizes)
        and set(named) == {tilted_block(s) for s in range(1, len(sizes))}
        and all(len(blocks.get(_block(s), ())) == size for s, size in enumerate(sizes))
        and all(
            _is_list_of_pairs(theta) and len(theta) == len(columns) and all(map(_usable, theta)) for theta in thetas
        )
        and all(
            rounded_theta(theta, [column.step for column in columns])[2].tolist() == list(theta) for theta in thetas
        )
        and release.law == SUMS
        and math.isinf(release.statement.epsilon)
        and release.n_classes == 2
        and type(release.n_examples) is int
        and release.n_examples >= 2
    )
    if not usable:
        raise ReleaseError("its tilted rados are not those that it describes; get the release again from its maker")


def check_tilted_statement(release: "Release") -> None:
    """Refuse a file of tilted rados that has one batch, or whose statement does not say what such rados tell."""
    if not is_tilted(release):
        return
    if len(release.signatures["batches"]) < 2:
        raise ReleaseError("its tilted rados are not those that it describes; get the release again from its maker")
    if not any(sentence.startswith(SENTENCE) for sentence in release.statement.not_protected):
        raise ReleaseError(
            "its rados are tilted, and its statement does not say what such rados tell; get it again from its maker"
        )


def rounded_theta(theta: ArrayLike, steps: Sequence[float]) -> tuple[NDArray[np.float64], int, NDArray[np.float64]]:
    """A theta on its grid, for columns of these steps (docs/proofs/tilted.md, L4): weights, exponent, and itself."""
    grid, d = np.array(steps, dtype=np.float64), len(steps)
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.array(theta, dtype=np.float64) * grid
        bits = max(1, min(_WEIGHT_BITS, _SCORE_BITS - GRID_BITS - d.bit_length()))
        exponent = int(np.frexp(np.abs(scaled).max())[1]) - bits
        weights = np.rint(np.ldexp(scaled, -exponent))
        if np.abs(weights).max() >= 2.0**bits:  # rounded up to the next power of two, whose grid is coarser
            exponent += 1
            weights = np.rint(np.ldexp(scaled, -exponent))
        return weights, exponent, np.ldexp(weights, exponent) / grid + 0.0


def _block(place: int) -> str:
    return tilted_block(place) if place else RADOS


def _is_list_of_pairs(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _usable(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
