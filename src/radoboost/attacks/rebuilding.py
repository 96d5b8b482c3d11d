"""A release's mechanism again, from what the release says was done: with the noise that it names, not its epsilon."""

import math
from dataclasses import dataclass
from functools import lru_cache

from radoboost.errors import ReleaseError
from radoboost.mechanisms import Mechanism, Moments, NoisyExamples, NoisyRados
from radoboost.mechanisms.moments import CAP, GRID
from radoboost.release import Release

_LARGEST_DISTANCE = 100.0  # beyond, moments are as good as without noise


def rebuilt(release: Release) -> Mechanism:
    """The private mechanism with the noise that a release says was added.

    >>> import numpy as np, radoboost as rb
    >>> X, y = np.array([[0.5], [0.25]]), np.array([0, 1])
    >>> release = rb.craft(X, y, classes=(0, 1), bounds=[[0, 1]], n_rados=10, mechanism=NoisyRados(epsilon=4.0))
    >>> rebuilt(release).plan(10, 2, None).noise_std == NoisyRados(epsilon=4.0).plan(10, 2, None).noise_std
    True
    """
    given, delta = release.mechanism, release.statement.delta
    if given["name"] == NoisyRados.name:
        return NoisyRados(delta=delta, clip=given["clip"], noise_std=given["noise_std"])
    if given["name"] == NoisyExamples.name:
        return NoisyExamples(delta=delta, clip=given["clip"], noise_std=given["noise_std"])
    if given["name"] == Moments.name:
        noise = tuple((stage, float(given["noise"][stage])) for stage in ("second", "sum", "whitened", "rounds"))
        return _Released(1.0, delta, given["unit"], given["sharpen"], noise=noise, noise_rounds=given["rounds"])
    raise ReleaseError(f"the mechanism {given['name']!r} is not known here; upgrade radoboost")


@dataclass(frozen=True)
class _Released(Moments):
    """Moments with the noise of a release, in units of its blocks; its own epsilon means nothing."""

    noise: tuple[tuple[str, float], ...] = ()
    noise_rounds: int = 0

    def scales(self, n_rounds: int, n_columns: int = 2) -> dict[str, float]:
        """The noise in grid steps. That of the mean rados is for as many as the release has: fewer get less each."""
        unit = {"second": GRID**2, "sum": GRID, "whitened": GRID**2, "rounds": GRID}
        scales = {stage: noise * unit[stage] for stage, noise in self.noise}
        scales["rounds"] *= math.sqrt(n_rounds / self.noise_rounds) if self.noise_rounds else 0.0
        return scales

    @lru_cache(maxsize=16)  # noqa: B019 - as what it stands in for
    def distance(self, n_columns: int) -> float:
        """mu of all stages together, by their noise; what is without noise on purpose does not count."""
        double = 1 if self.unit == "record" else 2
        reach = {"sum": double, "rounds": double * CAP * math.sqrt(self.noise_rounds)}
        if self.unit == "record":
            reach |= {"second": 1, "whitened": 1}
        noise = dict(self.noise)
        parts = [reach[stage] / noise[stage] if noise[stage] else math.inf for stage in reach if reach[stage]]
        return min(math.hypot(*parts), _LARGEST_DISTANCE)
