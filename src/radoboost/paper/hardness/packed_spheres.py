"""The paper's own proof of lem_algebraic, step by step, and a data set on which it fails.

Its spheres are too few from some number of edge vectors on: docs/proofs/confounder.md, C4, C6 and C7.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from radoboost.adversary.known import DEFAULT_SECONDS, deadline
from radoboost.errors import ArgumentError
from radoboost.paper.hardness.confounder_search import Integers, Search

_FINER = 2**24  # so that no verdict is due to the rounding of a centre


def printed_bound(m: int, d: int) -> float:
    """The distance that the paper's proof claims, as a share of R.

    >>> round(printed_bound(100_000, 2), 4), printed_bound(3, 4), printed_bound(9, 1)
    (0.0213, 0.25, 0.0)
    """
    if m < 2**d:
        return 1 / (2 * math.sqrt(d))
    return math.log(d) / (2 * math.sqrt(d) * math.log(m + 1))


@dataclass(frozen=True)
class Printed:
    """What becomes of the construction as the paper prints it; bound and distance are shares of R."""

    verdict: str
    bound: float
    spheres: int
    distance: float | None


def as_printed(points: Integers, square_radius: Fraction | int | None = None) -> Printed:
    """The paper's proof of lem_algebraic step by step, with the choices it leaves open made in its favour.

    An empty sphere whose centre c is nearest to 0, an adjacent sphere no farther off with an edge vector e in it, and
    e replaced by c and e - c; where there is none, the zero vector added. The spheres are those of the proof.

    >>> as_printed(np.array([[9]]), square_radius=100).verdict  # c = -5, and 9 - c = 14
    'leaves the ball'
    """
    m, d = points.shape
    bound = printed_bound(m, d)
    if bound == 0:
        return Printed("has no bound, for log(d) is 0", 0.0, 0, None)
    along = 2 if m < 2**d else math.ceil(math.log(m + 1) / math.log(d))
    if along**d > 2**16:
        raise ArgumentError(f"the proof would take {along**d:,} spheres here; give fewer columns")
    square = Fraction(int((points.astype(object) ** 2).sum(axis=1).max()) if square_radius is None else square_radius)
    if square == 0:
        raise ArgumentError("all edge vectors are zero; there is no ball to pack")
    points, square = points.astype(object) * _FINER, square * _FINER**2
    search = Search(points, square, np.random.default_rng(0), deadline(DEFAULT_SECONDS), 1.0, False)
    radius = 1 / (math.sqrt(d) * along)
    axes = np.meshgrid(*[(2 * np.arange(along) + 1) * radius - 1 / math.sqrt(d)] * d)
    centres = np.stack([axis.ravel() for axis in axes], axis=1)
    held = [search.tree.query_ball_point(centre, radius * (1 + 1e-12)) for centre in centres]
    empty, norms = np.array([not inside for inside in held]), np.linalg.norm(centres, axis=1) - 1e-12
    if not empty.any():
        return Printed("no sphere is empty", bound, along**d, None)
    made: list[tuple[tuple[int, ...], Integers]] = []
    for place in np.flatnonzero(empty & (norms <= norms[empty].min() + 2e-12)):
        near = np.linalg.norm(centres - centres[place], axis=1) < 2 * radius * (1 + 1e-9)
        for other in np.flatnonzero(near & ~empty & (norms <= norms[place] + 2e-12)):
            centre = search.on_grid(centres[place])
            made += [((record,), search.split_at(record, centre)) for record in held[other]]
    fitting = [search.distance(*one) for one in made or search.zero() if search.fits(*one)]
    if not fitting:
        return Printed("leaves the ball", bound, along**d, None)
    distance = math.sqrt(Fraction(max(fitting)) / square)
    return Printed(f"{'reaches' if distance >= bound else 'misses'} its bound", bound, along**d, distance)


def covered_disc(radius: int = 2**20) -> NDArray[np.int64]:
    """Points of a disc that leave no hole, and no point alone, as large as the paper's bound for so many points.

    They are pairs of a lattice near the disc, moved to the nearest point of it, which brings them no farther from any
    point of the disc. A point that has no partner is there twice.

    >>> points = covered_disc()
    >>> bool(most_a_split_gives(points, 2**40) < printed_bound(len(points), 2))
    True
    """
    reach, angle = 1 / 29.5, 1.42020529  # the covering radius of the pairs, and how they lie
    i, j = (axis.ravel() for axis in np.meshgrid(np.arange(-60, 61) + 0.73917, np.arange(-40, 41) + 0.66249))
    pairs = np.stack([1.84891569 * i + 1.05523534 * j, 2.36978183 * j], axis=1)
    partner = 0.999 * np.array([math.cos(angle), math.sin(angle)])
    points = reach * np.concatenate([pairs, pairs + partner])
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    near = norms[:, 0] <= 1 + reach
    inside = np.trunc((points / np.maximum(norms, 1))[near] * radius).astype(np.int64)
    alone = gaps(inside / radius) >= reach
    return np.concatenate([inside, inside[alone]])


def most_a_split_gives(points: Integers, square_radius: int, accuracy: float = 1e-3) -> float:
    """No zero added and no edge vector split in two gets farther than this, as a share of R (C4).

    It is the larger of two: how far a point of the ball is from the nearest edge vector, and an edge vector from the
    nearest other one. The first is bounded from above by boxes, which are halved until their corners do not matter.
    """
    from scipy.spatial import cKDTree

    floats = points.astype(np.float64) / math.sqrt(square_radius)
    d, tree = floats.shape[1], cKDTree(floats)
    half, hole, boxes = 1.0, 0.0, np.zeros((1, d))
    corners = np.stack([axis.ravel() for axis in np.meshgrid(*[(-0.5, 0.5)] * d)], axis=1)
    while len(boxes):
        away, norms = tree.query(boxes)[0], np.linalg.norm(boxes, axis=1)
        hole = max(hole, float(away[norms <= 1].max(initial=0)))
        corner = half * math.sqrt(d)
        boxes = boxes[(norms <= 1 + corner) & (away + corner > hole * (1 + accuracy))]
        boxes = (boxes[:, None, :] + half * corners).reshape(-1, d)
        half /= 2
    return max(hole * (1 + accuracy), float(gaps(floats).max())) + 1e-9


def gaps(floats: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each point is from the nearest other one."""
    from scipy.spatial import cKDTree

    gaps: NDArray[np.float64] = cKDTree(floats).query(floats, k=2)[0][:, 1]
    return gaps
