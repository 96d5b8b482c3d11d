"""Rados drawn from released moments: they follow from released numbers alone, so that they cost nothing (M9).

A release of moments needs no rados. Where somebody wants some, such as a learner that boosts, they are drawn
here: by the data holder if `craft` is asked for rados, and else by anyone who has the release.
"""

import math
import secrets
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import ArgumentError, ReleaseError, whole_number
from radoboost.release.kind import EXACT_MOMENTS, MOMENT_BLOCKS
from radoboost.release.release import RADOS, Release

N_RADOS = 1000  # where nobody says how many
_GRID_BITS = 22  # of the largest rado


def draw_rados(release: Release, n_rados: int = N_RADOS, random_state: Any = None) -> Release:
    """The release with rados drawn from its moments: half of the sum as mean, a quarter of the second moment as spread.

    With more rados than columns the sample has exactly these moments, up to rounding; with fewer, the law that they are
    drawn from has them. Nothing is spent: id, statement and all other blocks stay as they are. Rados that the release
    has already are replaced.

    Parameters
    ----------
    release : Release
        One by the mechanism `moments`.
    n_rados : int
        How many.
    random_state : None, int, RandomState or Generator
        None takes random bits from the operating system. They protect nothing, so it does not matter who knows them.

    Examples
    --------
    >>> import radoboost as rb
    >>> X, y = np.array([[0.5], [0.25]]), [0, 1]
    >>> release = rb.craft(X, y, mechanism=rb.Moments(1.0), schema=[[0, 1]], classes=(0, 1))
    >>> release.n_rados, draw_rados(release, 50).rados.shape
    (0, (50, 2))
    """
    if not MOMENT_BLOCKS.get(release.law, {""}) <= set(release.blocks):
        raise ReleaseError(
            "rados are drawn from moments, which only releases of the mechanism moments have; use those of the release"
        )
    if release.n_classes > 2:
        raise ReleaseError(
            f"moments of {release.n_classes} classes have one second moment for all of them, from which no rados of a "
            "class can be drawn; learn from the moments themselves (rado learn --learner moments)"
        )
    rados = _draw_normal_rados(release, whole_number(n_rados, "n_rados"), _generator_of_random_state(random_state))
    if release.columns[-1].scale == "constant":
        rados[:, -1] /= release.mechanism["constant"]  # for a constant of 1, as everywhere else
    if not np.isfinite(rados).all():
        raise ReleaseError("the moments of this release are not such that rados could be drawn from them")
    largest = float(np.abs(rados).max())
    step = math.ldexp(1.0, math.frexp(largest)[1] - _GRID_BITS) if largest else 1.0
    others = {name: rows for name, rows in release.blocks.items() if name != RADOS}
    return replace(
        release,
        blocks={RADOS: np.rint(rados / step) * step + 0.0, **others},  # + 0.0: no -0.0
        columns=tuple(replace(column, step=step) for column in release.columns),
    )


def require_memory_for_drawn_rados(n_rados: int, n_columns: int) -> None:
    """Refuse to draw more rados than fit into memory."""
    need = 8 * n_columns * (3 * n_rados + 4 * n_columns)
    memory.require_memory(need, f"drawing {n_rados:,} rados of {n_columns:,} columns", "draw fewer rados")


def _draw_normal_rados(release: Release, n_rados: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Normal rados in columns before whitening; on one thread, so that they do not depend on how many there are."""
    from threadpoolctl import threadpool_limits

    blocks, exact = release.blocks, release.law == EXACT_MOMENTS
    total, second = blocks["moment:b"][0], blocks["moment:C" if exact else "moment:C2"]
    d = len(total)
    require_memory_for_drawn_rados(n_rados, d)
    draws = generator.standard_normal((n_rados, d))
    with threadpool_limits(1, user_api="blas"):
        try:
            values, vectors = np.linalg.eigh(second / 4)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            if n_rados > d:
                draws -= draws.mean(axis=0)
                draws = np.linalg.solve(np.linalg.cholesky(draws.T @ draws / n_rados), draws.T).T
            rados = (total[:, None] / 2) + root @ draws.T
            return np.asarray((rados if exact else np.linalg.solve(blocks["whitening"], rados)).T)
        except np.linalg.LinAlgError:
            raise ReleaseError("the moments of this release are not such that rados could be drawn from them") from None


def _generator_of_random_state(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(np.iinfo(np.int32).max)))
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0
    if not (random_state is None or whole or isinstance(random_state, np.random.Generator)):
        raise ArgumentError(
            f"random_state must be None, a whole number from 0 on, a RandomState or a Generator; it is {random_state!r}"
        )
    return np.random.default_rng(secrets.randbits(128) if random_state is None else random_state)
