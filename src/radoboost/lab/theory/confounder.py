"""lem_algebraic: another data set, far from the true one, that yields the same rados to the last bit.

Three constructions, all with one edge vector more: "zero" adds the zero vector; "split" replaces an edge vector e by c
and e - c (both the paper's); "flip" negates the edge vectors of a set and adds their sum. The first two always reach
R / (sqrt(d) ceil((m + 1)^(1/d))). Proofs: docs/proofs/confounder.md, steps C1 to C7. Floating point only searches: what
is reported was computed in integers.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.mechanisms import FeatureBand, Plain
from radoboost.lab.attacks.adversary_knowledge import DEFAULT_SECONDS, attack_deadline, refuse_many_classes
from radoboost.progress import Progress, silent
from radoboost.release.columns import Column as ReleasedColumn
from radoboost.release.release import Release
from radoboost.report.findings import (
    Check,
    Figure,
    FindingPart,
    Findings,
    Panel,
    ReportColumn,
    ReportTable,
    Series,
    findings_of_parts,
)

_CANDIDATES, _TRIED, _PARTNERS = 4000, 24, 200  # points looked at, centres tried, edge vectors tried for each
_SHARES = (0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)  # of R: how much is emptied around an edge vector
_MOST_PRODUCTS = 1 << 27
_AT_ONCE = 256  # centres looked up between two looks at the clock
Integers = NDArray[Any]  # int64, or Python's own integers where squares would not fit


def confounder_cells_along(m: int, d: int) -> int:
    """How many cells along an edge a cube needs to have more than m: ceil((m + 1)^(1/d)), exactly."""
    low, high = 1, 2
    while high**d < m + 1:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**d < m + 1 else (low, middle)
    return low


def proved_hole_radius(m: int, d: int) -> float:
    """The radius of a hole that is always there, as a share of R: of more than m cells of a cube one is empty (C3)."""
    return 1 / (math.sqrt(d) * confounder_cells_along(m, d))


def smallest_integer_type(reach: int, *sets: Integers) -> list[Integers]:
    """Points as int64 where sums of squares of their differences fit, as Python's integers otherwise."""
    fits = (4 * reach) ** 2 * sets[0].shape[1] < 2**63
    return [points.astype(np.int64 if fits else object) for points in sets]


def _farthest_point(points: Integers, others: Integers) -> int:
    """The largest squared distance of one of the points from the nearest of the others."""
    farthest, at_once = 0, max(1, 2**21 // others.size)
    for first in range(0, len(points), at_once):
        squares = ((points[first : first + at_once, None, :] - others[None]) ** 2).sum(axis=2)
        farthest = max(farthest, int(squares.min(axis=1).max()))
    return farthest


class Search:
    """Candidates for a confounder, found in floating point with R as 1, and what is exactly true of them."""

    def __init__(
        self, points: Integers, square: Fraction, rng: np.random.Generator, left: Callable[[], float], unit: float,
        as_table: bool,
    ) -> None:  # fmt: skip
        from scipy.spatial import cKDTree

        self.square, self.rng, self.left, self.unit = square, rng, left, unit
        (self.points,) = smallest_integer_type(math.isqrt(math.floor(square)) + 1, points)
        self.one = int(1 / Fraction(unit)) if as_table else None
        self.scale = math.sqrt(square)
        self.floats = points.astype(np.float64) / self.scale
        self.tree = cKDTree(self.floats)

    def fits(self, records: tuple[int, ...], others: Integers) -> bool:
        """Whether the new edge vectors lie in the ball, and have a constant of -1 or +1 if they must."""
        new = others[[*records, -1]].astype(object)
        inside = all(square <= self.square for square in (new**2).sum(axis=1))
        return inside and (self.one is None or bool((np.abs(new[:, -1]) == self.one).all()))

    def distance(self, records: tuple[int, ...], others: Integers) -> int:
        """The squared Hausdorff distance; only edge vectors that are new or gone are not in both sets."""
        old = self.points[list(records)]
        return max(_farthest_point(others[[*records, -1]], self.points), _farthest_point(old, others))

    def zero(self) -> Iterator[tuple[tuple[int, ...], Integers]]:
        """The zero vector added (C2)."""
        yield (), np.concatenate([self.points, 0 * self.points[:1]])

    def split(self) -> Iterator[tuple[tuple[int, ...], Integers]]:
        """An edge vector e replaced by c and e - c, for the c that are farthest from all edge vectors (C3)."""
        if self.one is not None:
            return  # one of the two constants would be even
        centres, holes = self._holes()
        shortest = int(np.linalg.norm(self.floats, axis=1).argmin())
        usable = np.flatnonzero(holes <= 1)  # some edge vector e has e - c in the ball
        for place in usable[np.argsort(-holes[usable], kind="stable")[:_TRIED]]:
            if self.left() <= 0:
                return
            centre = centres[place]
            partners = np.array(self.tree.query_ball_point(centre, 1.0), dtype=np.int64)
            if not len(partners):
                continue
            if len(partners) > _PARTNERS:
                partners = self.rng.choice(partners, _PARTNERS, replace=False)
            rest = self.tree.query(self.floats[partners] - centre)[0]
            for record in dict.fromkeys((int(partners[rest.argmax()]), shortest)):
                yield (record,), self.split_at(record, self.on_grid(centre))

    def _holes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Centres, and how far each is from the nearest edge vector; as many as there is time for."""
        centres, distances = self._centres(), []
        for first in range(0, len(centres), _AT_ONCE):
            if self.left() <= 0:
                break
            distances.append(self.tree.query(centres[first : first + _AT_ONCE])[0])
        holes = np.concatenate(distances) if distances else np.empty(0)
        return centres[: len(holes)], holes

    def split_at(self, record: int, centre: Integers) -> Integers:
        """All points, but one replaced by a centre, with what is left of it at the end."""
        others = np.concatenate([self.points, self.points[record : record + 1] - centre])
        others[record] = centre
        return others

    def on_grid(self, centre: NDArray[np.float64]) -> Integers:
        """A point of the ball on the grid, rounded towards zero so that it stays there."""
        return np.array([int(x * self.scale * (1 - 1e-12)) for x in centre.tolist()], dtype=self.points.dtype)

    def _centres(self) -> NDArray[np.float64]:
        """Points of the ball: random ones, mirror images, and centres of cells, of which at least one is empty."""
        m, d = self.floats.shape
        k, few = confounder_cells_along(m, d), max(64, min(_CANDIDATES, 2**26 // (m * d)))
        directions = self.rng.normal(size=(few, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        within = directions * self.rng.random((few, 1)) ** (1 / d)
        mirrored = -self.floats[self.rng.permutation(m)[:few]]
        rest, digits = np.arange(min(k**d, m + 1)), []
        for _ in range(d):
            rest, digit = np.divmod(rest, k)
            digits.append(digit)
        cells = np.concatenate([self.rng.integers(0, k, (few, d)), np.stack(digits, axis=1)])
        return np.concatenate([directions, within, mirrored, ((2 * cells + 1) / k - 1) / math.sqrt(d)])

    def flip(self) -> Iterator[tuple[tuple[int, ...], Integers]]:
        """The edge vectors around one of them negated, with others that balance their sum; the sum is added (C5)."""
        m, d = self.points.shape
        starts = self.rng.permutation(m)[:_TRIED]
        for share in _SHARES:
            n_found = 0
            for start in starts.tolist():
                records = self._balanced(self.floats[start], share)
                if self.left() <= 0:
                    return
                most = _MOST_PRODUCTS >> 8 * (self.points.dtype == object)
                if records is not None and (len(records) + 1) * m * d <= most:
                    others = np.concatenate([self.points, self.points[records].sum(axis=0, keepdims=True)])
                    others[records] *= -1
                    yield tuple(records.tolist()), others
                    n_found += 1
            if n_found:
                return

    def _balanced(self, centre: NDArray[np.float64], share: float) -> NDArray[np.int64] | None:
        """The edge vectors around a centre, with others that balance them and do not come back there when negated."""
        members = np.linalg.norm(self.floats - centre, axis=1) < share
        mirrored = np.linalg.norm(self.floats + centre, axis=1) < share
        if (members & mirrored).any():
            return None
        free, total = ~(members | mirrored), self.floats[members].sum(axis=0)
        labels = np.sign(self.floats[:, -1]).astype(np.int64)
        squares = np.square(self.floats).sum(axis=1)
        while self.left() > 0:
            length = float(np.linalg.norm(total))
            balanced = length <= 1 - 1e-9 and float(np.linalg.norm(total - centre)) >= share
            if balanced and (self.one is None or abs(int(labels[members].sum())) == 1):
                return np.flatnonzero(members)
            places = np.flatnonzero(free)
            if not len(places):
                return None
            after = 2 * self.floats[places] @ total + squares[places]  # what the squared length changes by
            count = min(len(places), max(1, int(length / 4)))
            joining = places[np.argpartition(after, count - 1)[:count]]
            members[joining], free[joining] = True, False
            total = total + self.floats[joining].sum(axis=0)
        return None


NAME = "confounder"
TITLE = "Another data set with the same rados"
ASSUMES = (
    "The adversary has the rados and nothing else: not the signatures, not the number of records, and nothing about "
    "what records look like. It is the other way round here: what such an adversary cannot tell apart."
)
CONSTRUCTIONS = ("zero", "split", "flip")
NO_GUARANTEE = (
    "This is no guarantee: it is one other data set. Whoever knows the number of records, that a constant column is "
    "-1 or +1, or any single record, may rule it out."
)


@dataclass(frozen=True, eq=False)
class Confounder:
    """A data set E', beside the E it is from: m + 1 edge vectors with all rados of E, in the same ball.

    Coordinates are integers in units of `unit`. `records` are the places of those split or flipped: E' has the rest
    in the same places, and one more at the end. `square_distance` is the squared Hausdorff distance of E and E' and
    `square_radius` that of the ball, both exact, in squares of the unit.
    """

    construction: str
    records: tuple[int, ...]
    edges: Integers
    others: Integers
    square_distance: int
    square_radius: Fraction
    unit: float
    has_constant: bool

    @property
    def distance(self) -> float:
        """The Hausdorff distance, as a share of the ball's radius."""
        return math.sqrt(Fraction(self.square_distance) / self.square_radius)

    @property
    def bound(self) -> float:
        """What distance there must be, as a share of the ball's radius (C3)."""
        return proved_hole_radius(*self.edges.shape)

    @property
    def reaches_bound(self) -> bool:
        """Whether the distance is at least the bound: compared exactly."""
        m, d = self.edges.shape
        return bool(self.square_distance * d * confounder_cells_along(m, d) ** 2 >= self.square_radius)

    @property
    def edge_vectors(self) -> NDArray[np.float64]:
        return self.others.astype(np.float64) * self.unit

    @property
    def keeps_constant(self) -> bool | None:
        """Whether the constant column of E' is -1 or +1, as that of a table is; None without such a column."""
        return bool((np.abs(self.others[:, -1]) == int(1 / Fraction(self.unit))).all()) if self.has_constant else None

    def to_dict(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("construction", "distance", "bound", "reaches_bound")}
        (rows, columns), radius = self.edges.shape, math.sqrt(self.square_radius) * self.unit
        return {**told, "changed": len(self.records), "rows": rows, "columns": columns,
                "keeps_constant": self.keeps_constant, "radius": radius}  # fmt: skip

    def sentence(self) -> str:
        how = {
            "zero": "a record of zeros is added",
            "split": "one record is replaced by two",
            "flip": f"the labels of {len(self.records):,} records are turned over and one record is added",
        }[self.construction]
        odd = ", though its constant column shows that it is no table" if self.keeps_constant is False else ""
        return (
            f"Another data set has all rados that this table has, to the last bit ({how}{odd}), and is "
            f"{self.distance:.2g} times the radius of the data away; this is no guarantee, for whoever knows the "
            "number of records, or one of them, may rule it out."
        )


def confounder_signatures(confounder: Confounder, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The signatures under which E' has the rados that E has under `inside`, shape (n, m + 1)."""
    inside = np.asarray(inside, dtype=np.bool_)
    if inside.ndim != 2 or inside.shape[1] != len(confounder.edges):
        raise ArgumentError(f"signatures of {len(confounder.edges):,} records are needed; the shape is {inside.shape}")
    same, last = inside.copy(), np.zeros(len(inside), np.bool_)
    if confounder.construction == "split":
        last = inside[:, confounder.records[0]]
    elif confounder.construction == "flip":
        same[:, list(confounder.records)] ^= True
        last = ~last
    return np.column_stack([same, last])


def confound_columns(
    columns: Release | Sequence[ReleasedColumn],
    edges: NDArray[Any],
    *,
    radius: float | None = None,
    as_table: bool = False,
    seed: int = 0,
    seconds: float = DEFAULT_SECONDS,
) -> Confounder | None:
    """A confounder of edge vectors on the grid of a release, as `known.table_edges` gives them.

    The ball is the smallest around zero, unless a `radius` is given, in the columns' units. `as_table` asks for a
    data set whose constant column is -1 or +1, as that of a table is. None if nothing was found.
    """
    if isinstance(columns, Release):
        refuse_many_classes(columns, "the paper's confounders are for two classes")
    if isinstance(columns, Release) and columns.law not in ("sums", "banded sums"):
        raise ArgumentError(
            f"what {columns.mechanism['name']!r} releases are not sums of edge vectors alone, and have no confounders; "
            f"this is about {Plain.name} and {FeatureBand.name}"
        )
    entries = columns.columns if isinstance(columns, Release) else tuple(columns)
    if edges.ndim != 2 or edges.shape[1] != len(entries):
        raise ArgumentError(f"edge vectors of {len(entries):,} columns are needed; their shape is {edges.shape}")
    unit = min(entry.step for entry in entries)
    if max(entry.step for entry in entries) / unit > 2.0**400:
        raise ArgumentError("the units of the columns are too far apart for one distance; scale the columns")
    finer = [int(Fraction(entry.step) / Fraction(unit)) for entry in entries]
    points = edges.astype(object) * np.array(finer, dtype=object) if max(finer) > 1 else edges
    if radius is not None and not 0 < radius < 1e150:
        raise ArgumentError(f"the radius must be a positive number, not too large to be squared; it is {radius}")
    square = None if radius is None else (Fraction(radius) / Fraction(unit)) ** 2
    constant = entries[-1].scale == "constant"
    if as_table and not constant:
        raise ArgumentError("without a constant column every data set can be a table; leave as_table out")
    about: dict[str, Any] = {"unit": unit, "has_constant": constant, "as_table": as_table}
    return confound_points(points, square, seed=seed, seconds=seconds, **about)


def confound_points(
    points: Integers, square_radius: Fraction | int | None = None, *, constructions: Sequence[str] = CONSTRUCTIONS,
    unit: float = 1.0, has_constant: bool = False, as_table: bool = False, seed: int = 0,
    seconds: float = DEFAULT_SECONDS,
) -> Confounder | None:  # fmt: skip
    """The farthest confounder of integer points that any of the constructions finds; None if none does."""
    left = attack_deadline(seconds)
    if points.ndim != 2 or not points.size:
        raise ArgumentError(f"a confounder needs at least one edge vector of one column; the shape is {points.shape}")
    (points,) = smallest_integer_type(max(int(points.max()), -int(points.min())), points)
    largest = int((points**2).sum(axis=1).max())
    square = Fraction(largest if square_radius is None else square_radius)
    if largest > square:
        raise ArgumentError("an edge vector lies outside of the ball; give a larger radius, or leave it out")
    best: Confounder | None = None
    # The centre of a cell is irrational: where its rounding is what keeps it from the bound, the grid is made finer.
    for finer in (1, 2**24) if square > 0 else ():
        if best is not None and (best.reaches_bound or as_table):
            break
        finest = points if finer == 1 else points.astype(object) * finer
        search = Search(finest, square * finer**2, np.random.default_rng(seed), left, unit / finer, as_table)
        for name in constructions:
            for records, others in {"zero": search.zero, "split": search.split, "flip": search.flip}[name]():
                if not search.fits(records, others):
                    continue
                distance = search.distance(records, others)
                before = -1 if best is None else best.square_distance * Fraction(best.unit / unit) ** 2
                if Fraction(distance) / finer**2 > before:
                    about = search.points, others, distance, search.square, search.unit, has_constant
                    best = Confounder(name, records, *about)
    return best


# ---- distances by size


def study(
    sizes: Sequence[int] = (3, 10, 30, 100, 300, 1000, 3000), dimensions: Sequence[int] = (1, 2, 3, 6), *,
    repeats: int = 5, seed: int = 0, seconds: float = 300.0, bar: Progress = silent,
) -> Findings:  # fmt: skip
    """How far confounders get, by the number of edge vectors and of columns, with both bounds.

    Edge vectors are uniform in the ball. Each distance is the median of `repeats` data sets.
    """
    from radoboost.lab.theory.sphere_packing import printed_sphere_bound

    left, rng = attack_deadline(seconds), np.random.default_rng(seed)
    rows: list[list[Any]] = []
    n_tried, right, as_far = 0, 0, 0
    for n_done, (d, m) in enumerate([(d, m) for d in dimensions for m in sizes]):
        bar("confounders", n_done, len(dimensions) * len(sizes))
        distances: dict[str, list[float]] = {name: [] for name in CONSTRUCTIONS}
        for _ in range(repeats):
            if left() <= 0:
                break
            points = _random_points_in_ball(rng, m, d)
            confounders = [
                confound_points(points, constructions=(name,), seed=seed, seconds=max(left(), 1e-3))
                for name in CONSTRUCTIONS
            ]
            if left() <= 0:
                break  # what had no time to be found says nothing
            for name, other in zip(CONSTRUCTIONS, confounders, strict=True):
                distances[name].append(0.0 if other is None else other.distance)
            n_tried += 1
            found = [one for one in confounders if one]
            same = True
            for one in found:
                inside = rng.random((32, m)) < 0.5
                rados = confounder_signatures(one, inside).astype(np.int64) @ one.others
                same &= bool((rados == inside.astype(np.int64) @ one.edges).all())
            printed = printed_sphere_bound(m, d)
            right += same and any(one.reaches_bound for one in found)
            # Below 2^d both bounds are the same.
            as_far += same and any(one.reaches_bound if m < 2**d else one.distance >= printed for one in found)
        if left() <= 0:
            break
        rows.append([d, m, proved_hole_radius(m, d), printed_sphere_bound(m, d),
                     *(float(np.median(distances[name])) for name in CONSTRUCTIONS)])  # fmt: skip
    return findings_of_parts(NAME, TITLE, _study_findings(rows, dimensions, n_tried, right, as_far, seed, left))


def _study_findings(
    rows: list[list[Any]], dimensions: Sequence[int], n_tried: int, right: int, as_far: int, seed: int,
    left: Callable[[], float],
) -> Iterator[FindingPart]:  # fmt: skip
    from radoboost.lab.theory.sphere_packing import where_sphere_proof_works

    labels = ("bound for every m", "bound as printed", "zero added", "one split", "many flipped")
    yield ReportTable("distances", "How far another data set with the same rados is",
                      ["d", "m", *(ReportColumn(label, "R", 4) for label in labels)], rows)  # fmt: skip
    yield where_sphere_proof_works()
    panels = [
        Panel(f"d = {d}", "edge vectors m", "Hausdorff distance / R", [
            Series(label, [row[1] for row in rows if row[0] == d], [row[2 + k] or None for row in rows if row[0] == d],
                   style="dashed" if k < 2 else "line")
            for k, label in enumerate(labels)
        ], log_x=True, log_y=True)
        for d in dimensions if any(row[0] == d for row in rows)
    ]  # fmt: skip
    if panels:
        caption = "Median distance of the confounders that each construction finds, of edge vectors uniform in a ball."
        yield Figure("confounder", "Distance of a confounder", caption, panels)
    yield Check(
        "lem_algebraic: another data set with the same rados is at least as far away as printed",
        as_far == n_tried if n_tried else None,
        f"with equal rados, in {as_far} of {n_tried} data sets, uniform in a ball",
    )
    yield Check(
        "a bound for every m: another data set is at least R / (sqrt(d) ceil((m + 1)^(1/d))) away",
        right == n_tried if n_tried else None,
        f"exactly so, with equal rados, in {right} of {n_tried} data sets",
        ours=True,
    )
    yield from _check_printed_confounder(seed, max(left(), 1e-3))
    yield NO_GUARANTEE
    yield (
        "Flipping turns labels over: where the constant column's sum over the flipped records is -1 or +1, the "
        "other data set is a table as good as the true one, with one record more."
    )


def _random_points_in_ball(rng: np.random.Generator, m: int, d: int) -> NDArray[np.int64]:
    points = rng.normal(size=(m, d))
    points *= rng.random((m, 1)) ** (1 / d) / np.linalg.norm(points, axis=1, keepdims=True)
    return np.rint(points * 2**20).astype(np.int64)


def _check_printed_confounder(seed: int, seconds: float) -> list[Check]:
    """The paper's proof where it has no gap, and on a data set made against it, with what flipping does there."""
    from radoboost.lab.theory.sphere_packing import covered_disc, farthest_split_edge, sphere_packing_of_paper

    points = covered_disc()
    m, square = len(points), 2**40
    printed, most = sphere_packing_of_paper(points, square), farthest_split_edge(points, square)
    flipped = confound_points(points, square, constructions=("flip",), seed=seed, seconds=seconds)
    disc = f"of the {m:,} edge vectors of a covered disc"
    return [
        _check_printed_confounder_without_gap(seed),
        Check(f"proof of lem_algebraic: for every m >= 2^d one of its spheres is empty, so also {disc}",
              printed.verdict != "no sphere is empty", f"it packs {printed.spheres:,} spheres; {printed.verdict}"),
        Check(f"proof of lem_algebraic: for every m >= 2^d a split gets as far as printed, so also {disc}",
              most >= printed.bound, f"no split gets farther than {most:.5f} R; printed is {printed.bound:.5f} R. This "
              "is about the construction of the proof, and does not refute the lemma"),
        Check(f"flipping gets as far as printed {disc}", flipped.distance >= printed.bound if flipped else None,
              f"it gets {flipped.distance:.3f} R, exactly checked" if flipped else "no time was left", ours=True),
    ]  # fmt: skip


def _check_printed_confounder_without_gap(seed: int) -> Check:
    """The printed construction on data sets of the sizes for which its proof has no gap, a few of each."""
    from radoboost.lab.theory.sphere_packing import gaps_of_sphere_proof, sphere_packing_of_paper

    rng, sizes, n_done, n_reached = np.random.default_rng([seed, 1]), list[str](), 0, 0
    for d in (2, 3):
        without = [m for m in range(2**d, 100) if not gaps_of_sphere_proof(m, d)]
        sizes.append(f"{len(without)} m below 100 at d = {d}, from {min(without)} on")
        for m in without * 4:
            points = _random_points_in_ball(rng, m, d) // rng.integers(1, 9, (m, 1)) ** 2  # some of them near 0
            n_done, n_reached = n_done + 1, n_reached + (sphere_packing_of_paper(points, 2**40).gap is None)
    why = f"in {n_reached} of {n_done} data sets: {', '.join(sizes)}"
    return Check("proof of lem_algebraic: its construction gets as far as printed where we find no gap in it",
                 n_reached == n_done, why)  # fmt: skip
