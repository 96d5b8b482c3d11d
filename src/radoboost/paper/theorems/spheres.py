"""lem_algebraic: the spheres of its proof for m >= 2^d, counted, and a placement of examples without such a hole."""

import math
from typing import Any

import numpy as np

from radoboost.findings import Findings, check, column, figure, found, panel, series, table
from radoboost.paper.cells import Cell, Options, Outcome
from radoboost.paper.hardness.confounder_search import cells_along
from radoboost.paper.hardness.packed_spheres import printed_bound

_CASES = ((2, 100), (2, 10_000), (2, 100_000), (3, 100_000))  # d and m


def spheres_of_proof(m: int, d: int) -> int:
    """How many spheres the proof packs: ceil(log(m + 1) / log(d)) along each edge of a cube.

    >>> spheres_of_proof(100_000, 2)
    289
    """
    return int(math.ceil(math.log(m + 1) / math.log(d)) ** d)


def right_radius(m: int, d: int) -> float:
    """A hole that there always is: of more than m cells of a cube one is empty: 1 / (sqrt(d) ceil((m + 1)^(1/d))).

    >>> round(right_radius(100_000, 2), 5), right_radius(3, 2) == 1 / (2 * math.sqrt(2))
    (0.00223, True)
    """
    return 1 / (math.sqrt(d) * cells_along(m, d))


def covering_radius(m: int, d: int) -> float:
    """A radius, as a share of R, within which m >= 3^d points can be placed of everything in the ball.

    The points are those of a lattice of spacing h that lie within h sqrt(d) / 2 of the ball, each moved to the nearest
    point of the ball. A point of the ball is within h sqrt(d) / 2 of one of the lattice, and moving does not take that
    away, for the ball is convex.

    >>> round(covering_radius(100_000, 2), 4)
    0.004
    """
    low, high = 1.0, 1.0  # of 1 / h
    while _lattice_points(2 * high, d) <= m:
        low, high = high, 2 * high
    high *= 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _lattice_points(middle, d) <= m else (low, middle)
    return math.sqrt(d) / 2 / low


def _lattice_points(per_radius: float, d: int) -> int:
    """Lattice points of spacing 1 within per_radius + sqrt(d) / 2 of the origin."""
    square = (per_radius + math.sqrt(d) / 2) ** 2
    reach = int(math.sqrt(square))
    rest = np.array([square])
    for _ in range(d - 1):
        rest = (rest[:, None] - np.arange(-reach, reach + 1) ** 2).ravel()
        rest = rest[rest >= 0]
    return int((2 * np.floor(np.sqrt(rest)) + 1).sum())


def cells(options: Options) -> list[Cell]:
    """One for each d and m."""
    return [Cell.of("theory", part="spheres", d=d, m=m) for d, m in _CASES]


def work(cell: Cell, options: Options) -> Outcome:
    """Counts and radii."""
    m, d = cell["m"], cell["d"]
    return {
        "spheres": spheres_of_proof(m, d),
        "printed": printed_bound(m, d),
        "right": right_radius(m, d),
        "covering": covering_radius(m, d),
    }


def findings(outcomes: dict[Cell, Outcome], options: Options) -> Findings:
    """Table, figure and checks."""
    rows = [
        [cell["d"], cell["m"], out["spheres"], cell["m"] + 1, out["printed"], out["covering"], out["right"]]
        for cell, out in outcomes.items()
    ]
    columns = ["d", "m", "spheres of the proof", "needed", *(
        column(name, "R", 5) for name in ("hole of the proof", "hole that can do", "hole that must be"))]  # fmt: skip
    note = "Needed: more spheres than examples. Can do: m examples placed so that no point of the ball is farther off."
    return found(
        "theory",
        "lem_algebraic",
        tables=[table("spheres", "lem_algebraic: spheres and holes, m >= 2^d", columns, rows, note)],
        figures=[_figure(outcomes)],
        checks=[_enough(outcomes), _hole(outcomes), _always(outcomes)],
        notes=[
            "lem_algebraic packs ceil(log(m + 1) / log(d)) spheres along an edge, that many to the power of d in all; "
            "more than m take ceil((m + 1)^(1/d)) along an edge. A hole of R / (sqrt(d) ceil((m + 1)^(1/d))) is right "
            "for every m."
        ],
    )


def _figure(outcomes: dict[Cell, Outcome]) -> dict[str, Any]:
    plane = sorted((cell["m"], out) for cell, out in outcomes.items() if cell["d"] == 2)
    m = [m for m, _ in plane]
    shown = panel("d = 2", "examples m", "radius / R", [
        series("hole of the proof", m, [out["printed"] for _, out in plane]),
        series("hole that can do", m, [out["covering"] for _, out in plane]),
        series("hole that must be", m, [out["right"] for _, out in plane], style="dashed"),
    ], log_x=True, log_y=True)  # fmt: skip
    larger = " and ".join(f"{m:,}" for m, out in plane if out["printed"] > out["covering"])
    caption = (
        f"From some m on (d = 2: at {larger or 'none here'}) examples can be placed so that no hole is as large as the "
        "proof of lem_algebraic says there must be; this does not show the lemma itself false, only its proof."
    )
    return figure("spheres", "Holes between m examples", caption, [shown])


def _enough(outcomes: dict[Cell, Outcome]) -> dict[str, Any]:
    cell, out = max(outcomes.items(), key=lambda pair: pair[0]["m"] / pair[1]["spheres"])
    why = f"at d = {cell['d']}, m = {cell['m']:,} there are {out['spheres']:,} where {cell['m'] + 1:,} are needed"
    enough = all(out["spheres"] > cell["m"] for cell, out in outcomes.items())
    return check("proof of lem_algebraic, m >= 2^d: there are more spheres than examples", enough, why)


def _hole(outcomes: dict[Cell, Outcome]) -> dict[str, Any]:
    cell, out = max(outcomes.items(), key=lambda pair: pair[1]["printed"] / pair[1]["covering"])
    why = (
        f"at d = {cell['d']}, m = {cell['m']:,} it says {out['printed']:.4f} R, and examples can be placed within "
        f"{out['covering']:.4f} R of every point of the ball"
    )
    there = all(out["printed"] <= out["covering"] for out in outcomes.values())
    return check("proof of lem_algebraic, m >= 2^d: one of its spheres is empty, wherever the examples are", there, why)


def _always(outcomes: dict[Cell, Outcome]) -> dict[str, Any]:
    why = "; ".join(
        f"d = {cell['d']}, m = {cell['m']:,}: {out['right']:.5f} R, and {out['covering']:.5f} R can do"
        for cell, out in outcomes.items()
    )
    fits = all(out["right"] <= out["covering"] for out in outcomes.values())
    return check("the hole R / (sqrt(d) ceil((m + 1)^(1/d))) is not above what a placement leaves", fits, why)
