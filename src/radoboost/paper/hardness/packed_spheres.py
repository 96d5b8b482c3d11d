"""The printed proof of lem_algebraic as code: where it works, and where it has gaps.

The proof packs k^d spheres of radius r = R / (sqrt(d) k) into a cube in the ball: along an edge there are
k = ceil(log(m + 1) / log(d)) for m >= 2^d, and 2 otherwise. Each of its gaps has a name here. What they are, and why
the printed bound holds for moderate m all the same: docs/proofs/confounder.md, C4, C6 and C7.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from radoboost.adversary.known import DEFAULT_SECONDS, deadline
from radoboost.errors import ArgumentError
from radoboost.findings import Table
from radoboost.paper.hardness.confounder_search import Integers, Search, cells_along

_FINER = 2**24  # so that no verdict is due to the rounding of a centre

FEW = "there are not more spheres than edge vectors, so that none may be empty"
FAR = "an edge vector less the centre of a touching sphere may be longer than R"
CENTRE = "no sphere is around 0, so that the ball of the proof's footnote may hold an edge vector"
GAPS = (FEW, FAR, CENTRE)


def spheres_along(m: int, d: int) -> int:
    """How many spheres the proof puts along an edge of the cube: ceil(log(m + 1) / log(d)) for m >= 2^d, exactly."""
    if m < 2**d:
        return 2
    if d == 1:
        raise ArgumentError("with one column the proof divides by log(1), which is 0; take two columns, or one row")
    along, power = 1, d
    while power < m + 1:
        along, power = along + 1, power * d
    return along


def spheres_of_proof(m: int, d: int) -> int:
    return int(spheres_along(m, d) ** d)


def printed_bound(m: int, d: int) -> float:
    """The distance that the paper's proof claims, as a share of R."""
    if m < 2**d:
        return 1 / (2 * math.sqrt(d))
    return math.log(d) / (2 * math.sqrt(d) * math.log(m + 1))


def gaps_of_proof(m: int, d: int) -> tuple[str, ...]:
    """Which of the `GAPS` the printed proof has for m edge vectors in d columns; none: it holds for every data set."""
    if d == 1 and m > 1:
        return ()  # the printed bound is 0
    along = spheres_along(m, d)
    # With one column the spheres are intervals that touch at 0, so that nothing near 0 is in none of them.
    has = {FEW: along**d < m + 1, FAR: d * along**2 < 9, CENTRE: along % 2 == 0 and d > 1}
    return tuple(gap for gap in GAPS if has[gap])


def bound_follows(m: int, d: int) -> bool:
    """Whether the printed bound is at most R / (sqrt(d) ceil((m + 1)^(1/d))), which is proved (C3): exactly."""
    return m < 2**d or int(d ** cells_along(m, d)) <= (m + 1) ** 2


def first_few(d: int) -> int:
    """The least m for which the proof packs too few spheres."""
    if d < 2:
        raise ArgumentError("with one column the proof packs no spheres; take two columns or more")
    # Along an edge there are k for d^(k - 1) <= m < d^k, if also m >= 2^d; they are too few from m = k^d on.
    along = 2
    while not max(along**d, d ** (along - 1), 2**d) < d**along:
        along += 1
    return int(max(along**d, d ** (along - 1), 2**d))


def first_beyond(d: int) -> int:
    """The least m for which the printed bound does not follow from the one that is proved."""
    if d < 2:
        raise ArgumentError("with one column the printed bound is 0 and always follows; take two columns or more")
    cells = 2  # of an edge, the cube having more of them than m from m = (cells - 1)^d on
    while bound_follows((cells - 1) ** d, d):
        cells += 1
    return int((cells - 1) ** d)


def next_whole(d: int, after: int) -> tuple[int, int] | None:
    """The first run of m beyond `after` for which the proof has no gap, from d = 2 and m = 2^d on; None without one."""
    along = 3  # odd, so that a sphere is around 0
    while d ** (along - 1) < along**d or along <= d:
        first, last = max(d ** (along - 1), 2**d, after + 1), min(d**along, along**d) - 1
        if first <= last:
            return int(first), int(last)
        along += 2
    return None


def where_it_works() -> Table:
    """For which m the printed proof has which gap, and from which m on its bound needs another proof."""
    dimensions, most, rows = (2, 3, 4, 6, 10), 3000, []
    for d in dimensions:
        by_gap: dict[str | None, list[int]] = {gap: [] for gap in (None, FAR, CENTRE, FEW)}
        for m in range(1, most + 1):
            for gap in gaps_of_proof(m, d) or (None,):
                by_gap[gap].append(m)
        rows.append([d, *map(_in_words, by_gap.values()), first_few(d), first_beyond(d)])
    columns = ["d", "no gap", "e - c may leave the ball", "no sphere around 0", "too few spheres", "too few first at",
               "bound beyond ours first at"]  # fmt: skip
    note = (
        f"Of m from 1 to {most:,}; the last two columns of all m. Below the last the printed bound holds, for it is "
        "at most R / (sqrt(d) ceil((m + 1)^(1/d)))."
    )
    if more := [(d, run) for d in dimensions if (run := next_whole(d, most))]:
        where = " and ".join(f"for d = {d} from {first:,} to {last:,}" for d, (first, last) in more)
        note += f" Beyond {most:,} there are more m without a gap, such as {where}."
    return Table("proof", "lem_algebraic: for which m the printed proof has which gap", columns, rows, note)


def _in_words(numbers: list[int]) -> str:
    """Ascending whole numbers as runs of them."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and runs[-1][1] == one - 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ", ".join(f"{first:,} to {last:,}" if first < last else f"{first:,}" for first, last in runs) or "none"


@dataclass(frozen=True)
class Printed:
    """What becomes of the construction as the paper prints it; bound and distance are shares of R.

    `gap` is the one of `GAPS` that it ran into, None where it reaches its bound or claims none.
    """

    verdict: str
    bound: float
    spheres: int
    distance: float | None
    gap: str | None = None


def as_printed(points: Integers, square_radius: Fraction | int | None = None) -> Printed:
    """The paper's proof of lem_algebraic step by step, with the choices it leaves open made in its favour.

    An empty sphere whose centre c is nearest to 0, an adjacent sphere no farther off with an edge vector e in it, and
    e replaced by c and e - c; where there is none, the zero vector added. The spheres are those of the proof. Two slips
    of the pen are put right: the radius that it prints is the diameter, and its second example is (x - y c, y).
    """
    m, d = points.shape
    bound = printed_bound(m, d)
    if bound == 0:
        return Printed("has no bound, for log(d) is 0", 0.0, 0, None)
    along = spheres_along(m, d)
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
    members = [search.tree.query_ball_point(centre, radius * (1 + 1e-12)) for centre in centres]
    empty, norms = np.array([not inside for inside in members]), np.linalg.norm(centres, axis=1) - 1e-12
    if not empty.any():
        return Printed("no sphere is empty", bound, along**d, None, FEW)
    candidates: list[tuple[tuple[int, ...], Integers]] = []
    for place in np.flatnonzero(empty & (norms <= norms[empty].min() + 2e-12)):
        near = np.linalg.norm(centres - centres[place], axis=1) < 2 * radius * (1 + 1e-9)
        for other in np.flatnonzero(near & ~empty & (norms <= norms[place] + 2e-12)):
            centre = search.on_grid(centres[place])
            candidates += [((record,), search.split_at(record, centre)) for record in members[other]]
    fitting = [search.distance(*one) for one in candidates or search.zero() if search.fits(*one)]
    if not fitting:
        return Printed("leaves the ball", bound, along**d, None, FAR)
    distance = math.sqrt(Fraction(max(fitting)) / square)
    if distance < bound:
        return Printed("misses its bound", bound, along**d, distance, CENTRE)
    return Printed("reaches its bound", bound, along**d, distance)


def covered_disc() -> NDArray[np.int64]:
    """Points of a disc that leave no hole, and no point alone, as large as the paper's bound for so many points.

    So no split of one of them reaches that bound; they do not refute the lemma, for flipping gets much farther (C7).
    They are pairs of a lattice near the disc, moved to the nearest point of it, which brings them no farther from any
    point of the disc. A point that has no partner is there twice.
    """
    radius, reach, angle = 2**20, 1 / 29.5, 1.42020529  # the covering radius of the pairs, and how they lie
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
