"""lem_algebraic: the spheres of its proof for m >= 2^d, counted, and a placement of examples without such a hole.

For moderate m the printed bound holds, for it follows from another one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.lab.attacks.adversary_knowledge import DEFAULT_SECONDS, attack_deadline, ranges_text
from radoboost.lab.paper.jobs import Options, Outcome, Task
from radoboost.lab.theory import Outcomes, Parts
from radoboost.lab.theory.confounder import Integers, Search, confounder_cells_along, proved_hole_radius
from radoboost.report.findings import Check, Figure, FindingPart, Panel, ReportColumn, ReportTable, Series

# ---- The printed proof of lem_algebraic as code: where it works, and where it has gaps.
#
# The proof packs k^d spheres of radius r = R / (sqrt(d) k) into a cube in the ball: along an edge there are k =
# ceil(log(m + 1) / log(d)) for m >= 2^d, and 2 otherwise. Each of its gaps has a name here. What they are, and
# why the printed bound holds for moderate m all the same: docs/proofs/confounder.md, C4, C6 and C7.

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


def printed_sphere_bound(m: int, d: int) -> float:
    """The distance that the paper's proof claims, as a share of R."""
    if m < 2**d:
        return 1 / (2 * math.sqrt(d))
    return math.log(d) / (2 * math.sqrt(d) * math.log(m + 1))


def gaps_of_sphere_proof(m: int, d: int) -> tuple[str, ...]:
    """Which of the `GAPS` the printed proof has for m edge vectors in d columns; none: it holds for every data set."""
    if d == 1 and m > 1:
        return ()  # the printed bound is 0
    along = spheres_along(m, d)
    # With one column the spheres are intervals that touch at 0, so that nothing near 0 is in none of them.
    has = {FEW: along**d < m + 1, FAR: d * along**2 < 9, CENTRE: along % 2 == 0 and d > 1}
    return tuple(gap for gap in GAPS if has[gap])


def printed_sphere_bound_follows(m: int, d: int) -> bool:
    """Whether the printed bound is at most R / (sqrt(d) ceil((m + 1)^(1/d))), which is proved (C3): exactly."""
    return m < 2**d or int(d ** confounder_cells_along(m, d)) <= (m + 1) ** 2


def first_m_few_spheres(d: int) -> int:
    """The least m for which the proof packs too few spheres."""
    if d < 2:
        raise ArgumentError("with one column the proof packs no spheres; take two columns or more")
    # Along an edge there are k for d^(k - 1) <= m < d^k, if also m >= 2^d; they are too few from m = k^d on.
    along = 2
    while not max(along**d, d ** (along - 1), 2**d) < d**along:
        along += 1
    return int(max(along**d, d ** (along - 1), 2**d))


def first_m_beyond(d: int) -> int:
    """The least m for which the printed bound does not follow from the one that is proved."""
    if d < 2:
        raise ArgumentError("with one column the printed bound is 0 and always follows; take two columns or more")
    cells = 2  # of an edge, the cube having more of them than m from m = (cells - 1)^d on
    while printed_sphere_bound_follows((cells - 1) ** d, d):
        cells += 1
    return int((cells - 1) ** d)


def next_m_without_gap(d: int, after: int) -> tuple[int, int] | None:
    """The first run of m beyond `after` for which the proof has no gap, from d = 2 and m = 2^d on; None without one."""
    along = 3  # odd, so that a sphere is around 0
    while d ** (along - 1) < along**d or along <= d:
        first, last = max(d ** (along - 1), 2**d, after + 1), min(d**along, along**d) - 1
        if first <= last:
            return int(first), int(last)
        along += 2
    return None


def where_sphere_proof_works() -> ReportTable:
    """For which m the printed proof has which gap, and from which m on its bound needs another proof."""
    dimensions, most, rows = (2, 3, 4, 6, 10), 3000, []
    for d in dimensions:
        by_gap: dict[str | None, list[int]] = {gap: [] for gap in (None, FAR, CENTRE, FEW)}
        for m in range(1, most + 1):
            for gap in gaps_of_sphere_proof(m, d) or (None,):
                by_gap[gap].append(m)
        rows.append(
            [
                d,
                *(ranges_text(ms, " to ", ",") or "none" for ms in by_gap.values()),
                first_m_few_spheres(d),
                first_m_beyond(d),
            ]
        )
    columns = ["d", "no gap", "e - c may leave the ball", "no sphere around 0", "too few spheres", "too few first at",
               "bound beyond ours first at"]  # fmt: skip
    note = (
        f"Of m from 1 to {most:,}; the last two columns of all m. Below the last the printed bound holds, for it is "
        "at most R / (sqrt(d) ceil((m + 1)^(1/d)))."
    )
    if more := [(d, run) for d in dimensions if (run := next_m_without_gap(d, most))]:
        where = " and ".join(f"for d = {d} from {first:,} to {last:,}" for d, (first, last) in more)
        note += f" Beyond {most:,} there are more m without a gap, such as {where}."
    return ReportTable("proof", "lem_algebraic: for which m the printed proof has which gap", columns, rows, note)


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


def sphere_packing_of_paper(points: Integers, square_radius: Fraction | int | None = None) -> Printed:
    """The paper's proof of lem_algebraic step by step, with the choices it leaves open made in its favour.

    An empty sphere whose centre c is nearest to 0, an adjacent sphere no farther off with an edge vector e in it, and
    e replaced by c and e - c; where there is none, the zero vector added. The spheres are those of the proof. Two slips
    of the pen are put right: the radius that it prints is the diameter, and its second example is (x - y c, y).
    """
    m, d = points.shape
    bound = printed_sphere_bound(m, d)
    if bound == 0:
        return Printed("has no bound, for log(d) is 0", 0.0, 0, None)
    along = spheres_along(m, d)
    if along**d > 2**16:
        raise ArgumentError(f"the proof would take {along**d:,} spheres here; give fewer columns")
    square = Fraction(int((points.astype(object) ** 2).sum(axis=1).max()) if square_radius is None else square_radius)
    if square == 0:
        raise ArgumentError("all edge vectors are zero; there is no ball to pack")
    points, square = points.astype(object) * _FINER, square * _FINER**2
    search = Search(points, square, np.random.default_rng(0), attack_deadline(DEFAULT_SECONDS), 1.0, False)
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
    alone = gaps_between_points(inside / radius) >= reach
    return np.concatenate([inside, inside[alone]])


def farthest_split_edge(points: Integers, square_radius: int, accuracy: float = 1e-3) -> float:
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
    return max(hole * (1 + accuracy), float(gaps_between_points(floats).max())) + 1e-9


def gaps_between_points(floats: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each point is from the nearest other one."""
    from scipy.spatial import cKDTree

    gaps: NDArray[np.float64] = cKDTree(floats).query(floats, k=2)[0][:, 1]
    return gaps


_CASES = ((2, 24), (2, 100), (2, 10_000), (2, 100_000), (3, 63), (3, 100_000), (6, 3000))  # d and m


def covering_radius_of_ball(m: int, d: int) -> float:
    """A radius, as a share of R: m >= 3^d points can be placed so that everything in the ball is that near to one.

    The points are those of a lattice of spacing h that lie within h sqrt(d) / 2 of the ball, each moved to the nearest
    point of the ball. A point of the ball is within h sqrt(d) / 2 of one of the lattice, and that stays so when
    the points are moved, for the ball is convex.
    """
    low, high = 1.0, 1.0  # of 1 / h
    while _lattice_points_in_ball(2 * high, d) <= m:
        low, high = high, 2 * high
    high *= 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _lattice_points_in_ball(middle, d) <= m else (low, middle)
    return math.sqrt(d) / 2 / low


def _lattice_points_in_ball(per_radius: float, d: int) -> int:
    """Lattice points of spacing 1 within per_radius + sqrt(d) / 2 of the origin."""
    square = (per_radius + math.sqrt(d) / 2) ** 2
    reach = int(math.sqrt(square))
    rest = np.array([square])
    for _ in range(d - 1):
        rest = (rest[:, None] - np.arange(-reach, reach + 1) ** 2).ravel()
        rest = rest[rest >= 0]
    return int((2 * np.floor(np.sqrt(rest)) + 1).sum())


def cells(options: Options) -> list[Task]:
    return [Task.of("theory", part="spheres", d=d, m=m) for d, m in _CASES]


def _sphere_packing_work(cell: Task, options: Options) -> Outcome:
    m, d = cell["m"], cell["d"]
    return {
        "spheres": spheres_of_proof(m, d), "printed": printed_sphere_bound(m, d), "right": proved_hole_radius(m, d),
        "covering": covering_radius_of_ball(m, d), "follows": printed_sphere_bound_follows(m, d),
        "first_few": first_m_few_spheres(d), "first_beyond": first_m_beyond(d),
    }  # fmt: skip


PARTS = {"spheres": _sphere_packing_work}


def findings(parts: Parts) -> Iterator[FindingPart]:
    outcomes = parts["spheres"]
    yield ReportTable(
        "spheres", "lem_algebraic: spheres and holes, m >= 2^d",
        ["d", "m", "spheres of the proof", "needed",
         *(ReportColumn(name, "R", 5) for name in ("hole of the proof", "hole that can do", "hole that must be"))],
        [[cell["d"], cell["m"], out["spheres"], cell["m"] + 1, out["printed"], out["covering"], out["right"]]
         for cell, out in outcomes],
        "Needed: more spheres than examples. Can do: m examples placed so that no point of the ball is farther off.",
    )  # fmt: skip
    yield _sphere_packing_figure(outcomes)

    def each(text: str, among: Outcomes = outcomes) -> str:
        return "; ".join(f"d = {cell['d']}, m = {cell['m']:,}: {text.format(**out)}" for cell, out in among)

    def least(key: str) -> str:
        return ", ".join(f"{m:,} at d = {d}" for d, m in {cell["d"]: out[key] for cell, out in outcomes}.items())

    enough, too_few = ([(c, out) for c, out in outcomes if (out["spheres"] > c["m"]) == yes] for yes in (True, False))
    yield Check(
        "proof of lem_algebraic: for every m >= 2^d there are more spheres than examples",
        not too_few,
        f"there are at {each('{spheres:,}', enough) or 'none of the sizes here'}; there are not at "
        f"{each('{spheres:,}', too_few) or 'none of the sizes here'}. The least m with too few is {least('first_few')}",
    )
    cell, out = max(outcomes, key=lambda pair: pair[1]["printed"] / pair[1]["covering"])
    yield Check(
        "proof of lem_algebraic: for every m >= 2^d one of its spheres is empty, wherever the examples are",
        all(out["printed"] <= out["covering"] for _, out in outcomes),
        f"at d = {cell['d']}, m = {cell['m']:,} it says {out['printed']:.4f} R, and examples can be placed within "
        f"{out['covering']:.4f} R of every point of the ball; this is about the proof, and does not refute the lemma",
    )
    yield Check(
        "the hole R / (sqrt(d) ceil((m + 1)^(1/d))) is not above what a placement leaves",
        all(out["right"] <= out["covering"] for _, out in outcomes),
        each("{right:.5f} R, and {covering:.5f} R can do"),
        ours=True,
    )
    moderate = [(cell, out) for cell, out in outcomes if cell["m"] < out["first_beyond"]]
    holes = each("{printed:.4f} R, where a hole of {right:.4f} R must be", moderate)
    follows = all(out["follows"] and out["printed"] <= out["right"] * (1 + 1e-12) for _, out in moderate)
    yield Check(
        "lem_algebraic: for moderate m its printed bound holds, for it follows from the hole that must be",
        follows if moderate else None,
        f"{holes or 'no size here is so small'}. The least m for which it does not follow is {least('first_beyond')}",
    )
    yield (
        "The proof of lem_algebraic packs ceil(log(m + 1) / log(d)) spheres along an edge, that many to the power "
        "of d in all; more than m take ceil((m + 1)^(1/d)) along an edge. A hole of R / (sqrt(d) ceil((m + "
        "1)^(1/d))) is there for every m, and for moderate m it is no smaller than the printed one: there the "
        "printed bound holds. Beyond, the lemma is not refuted: whether its bound holds is open here."
    )


def _sphere_packing_figure(outcomes: Outcomes) -> Figure:
    plane = sorted((cell["m"], out) for cell, out in outcomes if cell["d"] == 2)
    m = [m for m, _ in plane]
    panel = Panel("d = 2", "examples m", "radius / R", [
        Series("hole of the proof", m, [out["printed"] for _, out in plane]),
        Series("hole that can do", m, [out["covering"] for _, out in plane]),
        Series("hole that must be", m, [out["right"] for _, out in plane], style="dashed"),
    ], log_x=True, log_y=True)  # fmt: skip
    sizes = " and ".join(f"{m:,}" for m, out in plane if out["printed"] > out["covering"])
    caption = (
        f"For large m (d = 2: at {sizes or 'none here'}) examples can be placed so that no hole is as large as the "
        "proof of lem_algebraic takes there to be; this does not show the lemma itself false, only that its proof does "
        "not reach so far."
    )
    return Figure("spheres", "Holes between m examples", caption, [panel])
