"""thm_random_gau where the clean rados average to zero: no classifier can meet its bound.

By Jensen's inequality the mean of exp(-theta . pi_j) is then at least exp(0) = 1, so the logistic rado-risk over the
clean rados is at least log 2 for every theta. Ineq. (llleqlast) asks for less than log 2 as soon as one r_t is not 0,
and with noise r_1 is almost surely not 0. Neither kappa nor the cap, T or m_* comes into it, so no
constant hidden in the statement helps, and no other cap at which a feature may be taken.
"""

import math
from typing import Any

import numpy as np

from radoboost.findings import Findings, check, column, found, table
from radoboost.learner.boost import boost
from radoboost.learner.risks import log_rado_risk
from radoboost.learner.weak import Prudential
from radoboost.paper.cells import Cell, Options, Outcome, cell_generator
from radoboost.paper.theorems.norm_lemma import TAU
from radoboost.paper.theorems.prudence import kept_share, least_kappa, printed_cap

_FALSE_ALARM = 1e-6
_CASES = ((1000, 0.3), (1000, 1.0), (100_000, 0.3), (100_000, 10.0))  # m, and noise in units of an edge vector
_CAPS = (None, 0.5, 0.1)  # None: the appendix's
_N_RADOS, _KAPPA, _N_ROUNDS, _DRAWS = 2, 1.0, 200, 200


def cells(options: Options) -> list[Cell]:
    """One for each m and noise."""
    return [Cell.of("theory", part="mean-zero", m=m, noise_std=noise) for m, noise in _CASES]


def work(cell: Cell, options: Options) -> Outcome:
    """One feature, m/2 edge vectors of +1 and m/2 of -1; two rados of support m/2: all of +1, and all of -1."""
    m, noise, generator = cell["m"], cell["noise_std"], cell_generator(cell, options)
    support = m // 2
    clean = np.array([[support], [-support]], dtype=np.float64)
    mu = 1 - noise * math.sqrt(math.log(_N_RADOS / TAU) / support)  # mu' of lemma partial1, where mu = 1
    least = least_kappa(noise, mu, support, _N_RADOS)
    rows = []
    for given in _CAPS:
        cap = printed_cap(_KAPPA, noise, mu, support, _N_RADOS) if given is None else given
        taken = beyond = too_long = 0
        for _ in range(_DRAWS):
            # Each rado sums the noise of its own m/2 examples, so the two sums are independent.
            noisy = clean + noise * math.sqrt(support) * generator.standard_normal((_N_RADOS, 1))
            boosted = boost(noisy, n_rounds=_N_ROUNDS, weak=Prudential(cap), kappa=_KAPPA)
            squares = float(np.square(boosted.rounds.edge).sum())
            if squares > 0:  # a feature was taken
                taken += 1
                # m times the excess over the bound, so that small numbers are not lost beside log 2.
                beyond += log_rado_risk(clean, boosted.theta) + squares / (4 * _KAPPA) > 1e-15
                allowed = kept_share(_KAPPA, noise, support, _N_RADOS) * squares
                too_long += bool(np.linalg.norm(boosted.theta) > allowed)
        rows.append({"printed": given is None, "cap": cap, "taken": taken, "beyond": beyond, "too_long": too_long})
    return {"mu": mu, "least_kappa": least, "draws": _DRAWS, "rows": rows}


# ---- findings


def findings(outcomes: dict[Cell, Outcome], options: Options) -> Findings:
    """Table and check."""
    return found("theory", "thm_random_gau", tables=[_table(outcomes)], checks=[_holds(outcomes)])


def _table(outcomes: dict[Cell, Outcome]) -> dict[str, Any]:
    rows = [
        [
            cell["m"], cell["noise_std"], out["mu"], out["least_kappa"], "appendix" if row["printed"] else "chosen",
            row["cap"], row["taken"], row["beyond"], row["too_long"],
        ]
        for cell, out in outcomes.items()
        for row in out["rows"]
    ]  # fmt: skip
    columns = ["m", column("noise", digits=1), column("mu'", digits=3), column("printed kappa", digits=6), "cap of",
               column("cap", digits=3), "feature taken", "bound failed", "theta too long"]  # fmt: skip
    note = (
        "d = 1, m/2 edge vectors of +1 and m/2 of -1, n = 2 rados of support m/2: all of +1, and all of -1. kappa = "
        f"{_KAPPA:g}, T = {_N_ROUNDS}, tau = {TAU}, {_DRAWS} draws of noise each. Feature taken: draws in which the "
        "cap let the weak learner take one. Too long: above (1 - rho) sum r_t^2 of lemma partial1."
    )
    return table("mean-zero", "thm_random_gau where the clean rados average to zero", columns, rows, note)


def _holds(outcomes: dict[Cell, Outcome]) -> dict[str, Any]:
    from scipy.stats import binom

    statement = "thm_random_gau holds where the clean rados average to zero"
    rows = [row for out in outcomes.values() for row in out["rows"] if row["taken"]]
    if not rows:
        return check(statement, None, "no feature was taken in any draw")
    level = _FALSE_ALARM / len(rows)
    why = (
        "by Jensen's inequality the mean of exp(-theta . pi_j) over them is at least 1, so their risk is at least log "
        "2 for every theta, and (llleqlast) asks for less once any r_t is not 0, which noise makes almost sure: it "
        "fails for every kappa, every T and every cap at which a feature may be taken. Drawn, with d = 1 and n = 2: it "
        f"failed in {sum(row['beyond'] for row in rows):,} of {sum(row['taken'] for row in rows):,} draws with a "
        f"feature taken, {len(rows)} settings; tau is {TAU} (false alarm {_FALSE_ALARM:g})"
    )
    return check(statement, all(row["beyond"] <= binom.isf(level, row["taken"], TAU) for row in rows), why)
