"""lem_algebraic: the spheres of its proof for m >= 2^d, counted, and a placement of examples without such a hole.

For moderate m the printed bound holds, for it follows from another one; where its proof has gaps is in
`radoboost.paper.hardness.packed_spheres`.
"""

import math

import numpy as np

from radoboost.findings import Check, Column, Figure, Findings, Panel, Series, Table
from radoboost.paper.cells import Cell, Options, Outcome
from radoboost.paper.hardness.confounder_search import cells_along
from radoboost.paper.hardness.packed_spheres import (
    bound_follows,
    first_beyond,
    first_few,
    printed_bound,
    spheres_of_proof,
)

_CASES = ((2, 24), (2, 100), (2, 10_000), (2, 100_000), (3, 63), (3, 100_000), (6, 3000))  # d and m


def right_radius(m: int, d: int) -> float:
    """The radius of a hole that is always there, for of more than m cells of a cube one is empty.

    It is 1 / (sqrt(d) ceil((m + 1)^(1/d))), as a share of R.
    """
    return 1 / (math.sqrt(d) * cells_along(m, d))


def covering_radius(m: int, d: int) -> float:
    """A radius, as a share of R: m >= 3^d points can be placed so that everything in the ball is that near to one.

    The points are those of a lattice of spacing h that lie within h sqrt(d) / 2 of the ball, each moved to the nearest
    point of the ball. A point of the ball is within h sqrt(d) / 2 of one of the lattice, and that stays so when
    the points are moved, for the ball is convex.
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
    return [Cell.of("theory", part="spheres", d=d, m=m) for d, m in _CASES]


def work(cell: Cell, options: Options) -> Outcome:
    m, d = cell["m"], cell["d"]
    return {
        "spheres": spheres_of_proof(m, d),
        "printed": printed_bound(m, d),
        "right": right_radius(m, d),
        "covering": covering_radius(m, d),
        "follows": bound_follows(m, d),
        "first_few": first_few(d),
        "first_beyond": first_beyond(d),
    }


def findings(outcomes: dict[Cell, Outcome], options: Options) -> Findings:
    rows = [
        [cell["d"], cell["m"], out["spheres"], cell["m"] + 1, out["printed"], out["covering"], out["right"]]
        for cell, out in outcomes.items()
    ]
    columns: list[Column | str] = [
        "d",
        "m",
        "spheres of the proof",
        "needed",
        *(Column(name, "R", 5) for name in ("hole of the proof", "hole that can do", "hole that must be")),
    ]
    note = "Needed: more spheres than examples. Can do: m examples placed so that no point of the ball is farther off."
    return Findings(
        "theory",
        "lem_algebraic",
        tables=[Table("spheres", "lem_algebraic: spheres and holes, m >= 2^d", columns, rows, note)],
        figures=[_figure(outcomes)],
        checks=[_enough(outcomes), _hole(outcomes), _always(outcomes), _implied(outcomes)],
        notes=[
            "The proof of lem_algebraic packs ceil(log(m + 1) / log(d)) spheres along an edge, that many to the power "
            "of d in all; more than m take ceil((m + 1)^(1/d)) along an edge. A hole of R / (sqrt(d) ceil((m + "
            "1)^(1/d))) is there for every m, and for moderate m it is no smaller than the printed one: there the "
            "printed bound holds. Beyond, the lemma is not refuted: whether its bound holds is open here."
        ],
    )


def _figure(outcomes: dict[Cell, Outcome]) -> Figure:
    plane = sorted((cell["m"], out) for cell, out in outcomes.items() if cell["d"] == 2)
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


def _counts(outcomes: dict[Cell, Outcome], enough: bool) -> str:
    return "; ".join(
        f"d = {cell['d']}, m = {cell['m']:,}: {out['spheres']:,}"
        for cell, out in outcomes.items()
        if (out["spheres"] > cell["m"]) == enough
    )


def _enough(outcomes: dict[Cell, Outcome]) -> Check:
    first = {cell["d"]: out["first_few"] for cell, out in outcomes.items()}
    why = (
        f"there are at {_counts(outcomes, True) or 'none of the sizes here'}; there are not at "
        f"{_counts(outcomes, False) or 'none of the sizes here'}. The least m with too few is "
        f"{_by_columns(first)}"
    )
    enough = all(out["spheres"] > cell["m"] for cell, out in outcomes.items())
    return Check("proof of lem_algebraic: for every m >= 2^d there are more spheres than examples", enough, why)


def _hole(outcomes: dict[Cell, Outcome]) -> Check:
    cell, out = max(outcomes.items(), key=lambda pair: pair[1]["printed"] / pair[1]["covering"])
    why = (
        f"at d = {cell['d']}, m = {cell['m']:,} it says {out['printed']:.4f} R, and examples can be placed within "
        f"{out['covering']:.4f} R of every point of the ball; this is about the proof, and does not refute the lemma"
    )
    holds = all(out["printed"] <= out["covering"] for out in outcomes.values())
    statement = "proof of lem_algebraic: for every m >= 2^d one of its spheres is empty, wherever the examples are"
    return Check(statement, holds, why)


def _always(outcomes: dict[Cell, Outcome]) -> Check:
    why = "; ".join(
        f"d = {cell['d']}, m = {cell['m']:,}: {out['right']:.5f} R, and {out['covering']:.5f} R can do"
        for cell, out in outcomes.items()
    )
    fits = all(out["right"] <= out["covering"] for out in outcomes.values())
    statement = "the hole R / (sqrt(d) ceil((m + 1)^(1/d))) is not above what a placement leaves"
    return Check(statement, fits, why, ours=True)


def _implied(outcomes: dict[Cell, Outcome]) -> Check:
    moderate = [(cell, out) for cell, out in outcomes.items() if cell["m"] < out["first_beyond"]]
    first = {cell["d"]: out["first_beyond"] for cell, out in outcomes.items()}
    holes = "; ".join(
        f"d = {cell['d']}, m = {cell['m']:,}: {out['printed']:.4f} R, where a hole of {out['right']:.4f} R must be"
        for cell, out in moderate
    )
    follows = all(out["follows"] and out["printed"] <= out["right"] * (1 + 1e-12) for _, out in moderate)
    why = f"{holes or 'no size here is so small'}. The least m for which it does not follow is {_by_columns(first)}"
    statement = "lem_algebraic: for moderate m its printed bound holds, for it follows from the hole that must be"
    return Check(statement, follows if moderate else None, why)


def _by_columns(first: dict[int, int]) -> str:
    return ", ".join(f"{m:,} at d = {d}" for d, m in first.items())
