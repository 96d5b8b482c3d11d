"""lem_algebraic: another data set, far from the true one, that yields the same rados to the last bit.

Three constructions, all with one edge vector more: "zero" adds the zero vector; "split" replaces an edge vector e by c
and e - c (both the paper's); "flip" negates the edge vectors of a set and adds their sum. The first two always reach
R / (sqrt(d) ceil((m + 1)^(1/d))). Proofs: docs/proofs/confounder.md, steps C1 to C7. Floating point only searches: what
is reported was computed in integers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.adversary.known import DEFAULT_SECONDS, deadline, refuse_many_classes
from radoboost.errors import ArgumentError
from radoboost.findings import Check, Column, Figure, Findings, Panel, Series, Table
from radoboost.holder.mechanisms import FeatureBand, Plain
from radoboost.paper.hardness.confounder_search import Integers, Search, cells_along, fitting
from radoboost.progress import Progress, silent
from radoboost.release import Release
from radoboost.release.columns import Column as ReleasedColumn

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
        m, d = self.edges.shape
        return 1 / (math.sqrt(d) * cells_along(m, d))

    @property
    def reaches_bound(self) -> bool:
        """Whether the distance is at least the bound: compared exactly."""
        m, d = self.edges.shape
        return bool(self.square_distance * d * cells_along(m, d) ** 2 >= self.square_radius)

    @property
    def edge_vectors(self) -> NDArray[np.float64]:
        """The edge vectors of E' in the columns' units."""
        return self.others.astype(np.float64) * self.unit

    @property
    def keeps_constant(self) -> bool | None:
        """Whether the constant column of E' is -1 or +1, as that of a table is; None without such a column."""
        return bool((np.abs(self.others[:, -1]) == int(1 / Fraction(self.unit))).all()) if self.has_constant else None

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON data."""
        return {
            "attack": NAME,
            "assumes": ASSUMES,
            "construction": self.construction,
            "changed": len(self.records),
            "rows": len(self.edges),
            "columns": self.edges.shape[1],
            "distance": self.distance,
            "bound": self.bound,
            "reaches_bound": self.reaches_bound,
            "keeps_constant": self.keeps_constant,
            "radius": math.sqrt(self.square_radius) * self.unit,
            "sentence": self.sentence(),
        }

    def sentence(self) -> str:
        """What this means, for a data holder."""
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


def signatures_of(confounder: Confounder, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
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


def confound(
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
    return confound_points(
        points, square, unit=unit, has_constant=constant, as_table=as_table, seed=seed, seconds=seconds
    )


def confound_points(
    points: Integers,
    square_radius: Fraction | int | None = None,
    *,
    constructions: Sequence[str] = CONSTRUCTIONS,
    unit: float = 1.0,
    has_constant: bool = False,
    as_table: bool = False,
    seed: int = 0,
    seconds: float = DEFAULT_SECONDS,
) -> Confounder | None:
    """The farthest confounder of integer points that any of the constructions finds; None if none does."""
    left = deadline(seconds)
    if points.ndim != 2 or not points.size:
        raise ArgumentError(f"a confounder needs at least one edge vector of one column; the shape is {points.shape}")
    (points,) = fitting(max(int(points.max()), -int(points.min())), points)
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
                if (
                    best is None
                    or Fraction(distance) / finer**2 > best.square_distance * Fraction(best.unit / unit) ** 2
                ):
                    best = Confounder(
                        name, records, search.points, others, distance, search.square, search.unit, has_constant
                    )
    return best


# ---- distances by size


def study(
    sizes: Sequence[int] = (3, 10, 30, 100, 300, 1000, 3000),
    dimensions: Sequence[int] = (1, 2, 3, 6),
    *,
    repeats: int = 5,
    seed: int = 0,
    seconds: float = 300.0,
    bar: Progress = silent,
) -> Findings:
    """How far confounders get, by the number of edge vectors and of columns, with both bounds.

    Edge vectors are uniform in the ball. Each distance is the median of `repeats` data sets.
    """
    from radoboost.paper.hardness.packed_spheres import printed_bound, where_it_works

    left, rng = deadline(seconds), np.random.default_rng(seed)
    rows: list[list[Any]] = []
    n_tried, right, as_far = 0, 0, 0
    for n_done, (d, m) in enumerate([(d, m) for d in dimensions for m in sizes]):
        bar("confounders", n_done, len(dimensions) * len(sizes))
        distances: dict[str, list[float]] = {name: [] for name in CONSTRUCTIONS}
        for _ in range(repeats):
            if left() <= 0:
                break
            points = _in_ball(rng, m, d)
            confounders = [
                confound_points(points, constructions=(name,), seed=seed, seconds=max(left(), 1e-3))
                for name in CONSTRUCTIONS
            ]
            if left() <= 0:
                break  # what had no time to be found says nothing
            for name, one in zip(CONSTRUCTIONS, confounders, strict=True):
                distances[name].append(0.0 if one is None else one.distance)
            n_tried += 1
            same = all(_same_rados(one, rng) for one in confounders if one)
            right += same and any(one.reaches_bound for one in confounders if one)
            as_far += same and any(_reaches_printed(one) for one in confounders if one)
        if left() <= 0:
            break
        rows.append([d, m, 1 / (math.sqrt(d) * cells_along(m, d)), printed_bound(m, d),
                     *(float(np.median(distances[name])) for name in CONSTRUCTIONS)])  # fmt: skip
    labels = ("bound for every m", "bound as printed", "zero added", "one split", "many flipped")
    panels = [
        Panel(f"d = {d}", "edge vectors m", "Hausdorff distance / R", [
            Series(label, [row[1] for row in rows if row[0] == d], [row[2 + k] or None for row in rows if row[0] == d],
                   style="dashed" if k < 2 else "line")
            for k, label in enumerate(labels)
        ], log_x=True, log_y=True)
        for d in dimensions if any(row[0] == d for row in rows)
    ]  # fmt: skip
    caption = "Median distance of the confounders that each construction finds, of edge vectors uniform in a ball."
    return Findings(
        NAME,
        TITLE,
        tables=[
            Table("distances", "How far another data set with the same rados is",
                  ["d", "m", *(Column(label, "R", 4) for label in labels)], rows),
            where_it_works(),
        ],
        figures=[Figure("confounder", "Distance of a confounder", caption, panels)] if panels else [],
        checks=[
            Check("lem_algebraic: another data set with the same rados is at least as far away as printed",
                  as_far == n_tried if n_tried else None, f"with equal rados, in {as_far} of {n_tried} data sets, "
                  "uniform in a ball"),
            Check("a bound for every m: another data set is at least R / (sqrt(d) ceil((m + 1)^(1/d))) away",
                  right == n_tried if n_tried else None,
                  f"exactly so, with equal rados, in {right} of {n_tried} data sets", ours=True),
            *_printed_checks(seed, max(left(), 1e-3)),
        ],
        notes=[
            NO_GUARANTEE,
            "Flipping turns labels over: where the constant column's sum over the flipped records is -1 or +1, the "
            "other data set is a table as good as the true one, with one record more.",
        ],
    )  # fmt: skip


def _in_ball(rng: np.random.Generator, m: int, d: int) -> NDArray[np.int64]:
    points = rng.normal(size=(m, d))
    points *= rng.random((m, 1)) ** (1 / d) / np.linalg.norm(points, axis=1, keepdims=True)
    return np.rint(points * 2**20).astype(np.int64)


def _same_rados(one: Confounder, rng: np.random.Generator) -> bool:
    inside = rng.random((32, len(one.edges))) < 0.5
    return bool((signatures_of(one, inside).astype(np.int64) @ one.others == inside.astype(np.int64) @ one.edges).all())


def _reaches_printed(one: Confounder) -> bool:
    from radoboost.paper.hardness.packed_spheres import printed_bound

    m, d = one.edges.shape
    return one.reaches_bound if m < 2**d else one.distance >= printed_bound(m, d)  # below 2^d both are the same


def _printed_checks(seed: int, seconds: float) -> list[Check]:
    """The paper's proof where it has no gap, and on a data set made against it, with what flipping does there."""
    from radoboost.paper.hardness.packed_spheres import as_printed, covered_disc, most_a_split_gives

    points = covered_disc()
    m, square = len(points), 2**40
    printed, most = as_printed(points, square), most_a_split_gives(points, square)
    flipped = confound_points(points, square, constructions=("flip",), seed=seed, seconds=seconds)
    disc = f"of the {m:,} edge vectors of a covered disc"
    return [
        _without_gap(seed),
        Check(f"proof of lem_algebraic: for every m >= 2^d one of its spheres is empty, so also {disc}",
              printed.verdict != "no sphere is empty", f"it packs {printed.spheres:,} spheres; {printed.verdict}"),
        Check(f"proof of lem_algebraic: for every m >= 2^d a split gets as far as printed, so also {disc}",
              most >= printed.bound, f"no split gets farther than {most:.5f} R; printed is {printed.bound:.5f} R. This "
              "is about the construction of the proof, and does not refute the lemma"),
        Check(f"flipping gets as far as printed {disc}", flipped.distance >= printed.bound if flipped else None,
              f"it gets {flipped.distance:.3f} R, exactly checked" if flipped else "no time was left", ours=True),
    ]  # fmt: skip


def _without_gap(seed: int) -> Check:
    """The printed construction on data sets of the sizes for which its proof has no gap, a few of each."""
    from radoboost.paper.hardness.packed_spheres import as_printed, gaps_of_proof

    rng, sizes, n_done, n_reached = np.random.default_rng([seed, 1]), list[str](), 0, 0
    for d in (2, 3):
        without = [m for m in range(2**d, 100) if not gaps_of_proof(m, d)]
        sizes.append(f"{len(without)} m below 100 at d = {d}, from {min(without)} on")
        for m in without * 4:
            points = _in_ball(rng, m, d) // rng.integers(1, 9, (m, 1)) ** 2  # some of them near 0
            n_done, n_reached = n_done + 1, n_reached + (as_printed(points, 2**40).gap is None)
    why = f"in {n_reached} of {n_done} data sets: {', '.join(sizes)}"
    return Check("proof of lem_algebraic: its construction gets as far as printed where we find no gap in it",
                 n_reached == n_done, why)  # fmt: skip
