"""thm_rrs: how many signatures rejection sampling draws for DP-Feat's set, and the appendix's f(beta).

The rejected signatures of n rados are a sum of geometric variables, so the probability that the theorem's bound fails
is known exactly. Our own sampler, `FeatureInterval`, draws one signature a rado and corrects it.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.signatures import FeatureInterval
from radoboost.lab.paper.jobs import Options, Outcome, Task, cell_generator
from radoboost.lab.theory import Outcomes, Parts
from radoboost.lab.theory.dp_feat import (
    beta_of_epsilon,
    draws_bound,
    epsilon_of_beta,
    f_beta,
    failure_probability,
    rejection_draws_quantile,
)
from radoboost.privacy import band
from radoboost.report.findings import Check, Figure, FindingPart, Panel, ReportColumn, ReportTable, Series

ETA = 0.05
N_RADOS = 100
_FALSE_ALARM = 1e-6
_COUNTS, _ETAS = (1, 10, 100, 1000), (0.001, 0.01, 0.05, 0.2)  # of the grid of exact failures
_MORE = (10**6, 1e-6)  # n and eta beyond that grid, to see how far failures reach
_ABOVE = 1 + 1e-9  # a factor that ends just above a whole number: there rounding up is farthest from the proof
_ONE = 1 + 1e-9  # 1, and room for rounding
_ORDER = 10  # what is within this factor is "of the order"


def cells(options: Options) -> list[Task]:
    """Runs of rejection sampling at several m and epsilon; exact failures over a grid; f(beta)."""
    every = [(m, epsilon) for m in (100, 1000, 10000) for epsilon in (0.03, 0.1, 0.3, 1.0)]
    pairs = [(m, epsilon) for m, epsilon in every if 2 * beta_of_epsilon(epsilon) * (m + 1) <= m]  # else none is in it
    return [
        *(Task.of("theory", part="rejection", m=m, epsilon=epsilon) for m, epsilon in pairs),
        Task.of("theory", part="rejection-grid"),
        Task.of("theory", part="f-beta"),
    ]


def _rejection_runs_work(cell: Task, options: Options) -> Outcome:
    """How many signatures a run draws until N_RADOS are accepted, and the sizes that our own sampler gives."""
    m, epsilon, generator = cell["m"], cell["epsilon"], cell_generator(cell, options)
    runs = 50 if options.quick else 200
    low, high = band(m, epsilon)
    accepted = np.zeros(0, dtype=np.int64)
    n_drawn = 0
    while len(accepted) < runs * N_RADOS:
        sizes = _signature_sizes(m, 1 << 15, generator)
        accepted = np.concatenate([accepted, n_drawn + np.flatnonzero((sizes >= low) & (sizes <= high))])
        n_drawn += len(sizes)
    totals = np.diff(accepted[N_RADOS - 1 : runs * N_RADOS : N_RADOS] + 1, prepend=0)
    bound = draws_bound(N_RADOS, m, beta_of_epsilon(epsilon), ETA)
    our_sizes = FeatureInterval(low, high).prepare(generator.bytes(32), 20 * N_RADOS, m).sizes
    return {
        "low": low, "high": high, "runs": runs, "bound": bound, "ours_n": len(our_sizes),
        "draws": float(np.quantile(totals, 1 - ETA)) / N_RADOS,
        "exact": rejection_draws_quantile(N_RADOS, m, low, 1 - ETA) / N_RADOS,
        "beyond": int((totals > N_RADOS * bound).sum()),
        "ours_outside": int(((our_sizes < low) | (our_sizes > high)).sum()),
        "ours_off": _distance_to_truncated_binomial(our_sizes, m, low, high),
    }  # fmt: skip


def _signature_sizes(m: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """K of `count` uniform signatures: how many of m fair bits are set."""
    words = generator.integers(0, 2**64, (count, -(-m // 64)), dtype=np.uint64)
    words[:, -1] &= np.uint64((1 << (m - 1) % 64 + 1) - 1)
    counts: NDArray[np.int64] = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    return counts


def _distance_to_truncated_binomial(sizes: NDArray[np.int64], m: int, low: int, high: int) -> float:
    """The largest distance between the distribution function of the sizes and that of the truncated binomial."""
    from scipy.stats import binom

    masses = binom.pmf(np.arange(low, high + 1), m, 0.5)
    counts = np.bincount(np.clip(sizes, low, high) - low, minlength=len(masses))
    return float(np.abs(np.cumsum(counts) / len(sizes) - np.cumsum(masses) / masses.sum()).max())


def _rejection_grid_work(cell: Task, options: Options) -> Outcome:
    """The worst exact failure probability divided by eta: with beta (m + 1) whole, and, by m, rounded up or down.

    Rounding up is worst just above a whole number beta (m + 1), so such betas are tried as well as those of the grid.
    """
    sizes = (2, 5, 10, 20, 50, 100, 1000) if options.quick else (*range(2, 61), 100, 200, 500, 1000, 10000)
    epsilons = np.geomspace(0.01, 12, 60 if options.quick else 150).tolist()
    whole, cases, by_m = 0.0, 0, []
    for m in sizes:
        lows = range(1, m // 2 + 1) if m <= 100 else np.unique(np.geomspace(1, m // 2, 60).astype(int)).tolist()
        for low in lows:
            whole = max(whole, _worst_failure(m, low / (m + 1), low)[0])
            cases += len(_COUNTS) * len(_ETAS)
        betas = sorted([beta_of_epsilon(epsilon) for epsilon in epsilons] + [_ABOVE * low / (m + 1) for low in lows])
        betas = [beta for beta in betas if 2 * math.ceil(beta * (m + 1)) <= m]
        failures = [(*_worst_failure(m, beta, math.ceil(beta * (m + 1))), epsilon_of_beta(beta)) for beta in betas]
        worst = zip(("failure", "n", "eta", "epsilon"), max(failures, default=(0.0, 1, 1.0, 0.0)), strict=True)
        # The condition of the proof, Step 2 of DP-Feat: m >= (1 + 2 beta) / (1 - 2 beta).
        step2 = [
            one[0]
            for one in failures
            for b in [beta_of_epsilon(one[3])]
            if m * (1 - 2 * b) >= (1 + 2 * b) * (1 - 1e-12)
        ]
        by_m.append({
            "m": m, **dict(worst),
            "least_epsilon": min((epsilon for failure, *_, epsilon in failures if failure > _ONE), default=None),
            "step2": max(step2, default=0.0),
            "down": max((_worst_failure(m, beta, math.floor(beta * (m + 1)))[0] for beta in betas), default=0.0),
            "more": max((_failure_over_eta(m, b, math.ceil(b * (m + 1)), *_MORE) for b in betas), default=0.0),
        })  # fmt: skip
    return {"whole": whole, "cases": cases, "by_m": by_m}


def _failure_over_eta(m: int, beta: float, low: int, n: int, eta: float) -> float:
    return failure_probability(n, m, low, draws_bound(n, m, beta, eta)) / eta


def _worst_failure(m: int, beta: float, low: int) -> tuple[float, int, float]:
    """The largest failure probability divided by eta, with its n and eta."""
    return max((_failure_over_eta(m, beta, low, n, eta), n, eta) for n in _COUNTS for eta in _ETAS)


def _f_beta_work(cell: Task, options: Options) -> Outcome:
    epsilons = np.geomspace(0.005, 20, 80).tolist()
    claims = [
        {"m": m, "n": n, "eta": eta, "draws": draws_bound(n, m, beta_of_epsilon(0.1), eta)}
        for n in (100, 1000, 10**6)
        for m in (round(1000 * math.log(n)), round(3000 * math.log(n)), round(9000 * math.log(n)))
        for eta in _ETAS
    ]
    return {
        "beta": [beta_of_epsilon(epsilon) for epsilon in epsilons],
        "f": [f_beta(beta_of_epsilon(epsilon)) for epsilon in epsilons],
        "at": {str(epsilon): f_beta(beta_of_epsilon(epsilon)) for epsilon in (0.01, 0.1)},
        "claims": claims,
    }


# ---- findings


PARTS = {"rejection": _rejection_runs_work, "rejection-grid": _rejection_grid_work, "f-beta": _f_beta_work}


def findings(parts: Parts) -> Iterator[FindingPart]:
    runs, [(_, grid)], [(_, f)] = parts["rejection"], parts["rejection-grid"], parts["f-beta"]
    yield from _rejection_run_findings(runs)
    yield _rejection_figure(runs, grid)
    yield from _rejection_grid_checks(grid)
    yield _check_own_sampler_sizes(runs)
    yield from _f_beta_findings(f)
    yield (
        "The proof of thm_rrs takes beta (m + 1) for a whole number; the set's least K is beta (m + 1) rounded up, "
        "so that a little more is rejected. How far in m the bound can fail depends on n / eta: with an epsilon so "
        "large that n <= n*_eta it promises no rejection at all, and each signature is rejected with probability "
        "2^(1 - m). Rounded down, no more is rejected than the proof reckons with, and the privacy loss within the "
        "band is still at most epsilon / 2. The theorem's first case, n <= n*_eta, needs an epsilon of 9.7 before "
        "it covers a single rado at eta = 0.05."
    )


def _rejection_run_findings(runs: Outcomes) -> Iterator[FindingPart]:
    from scipy.stats import binom

    n_runs = runs[0][1]["runs"]
    yield ReportTable(
        "rejection", "thm_rrs: signatures drawn per rado",
        ["m", "epsilon", "band of K", *(ReportColumn(what, digits=2) for what in ("draws", "exact")), "bound", "ours"],
        [[cell["m"], cell["epsilon"], f"{o['low']:,} to {o['high']:,}", o["draws"], o["exact"], o["bound"], 1]
         for cell, o in runs],
        f"Signatures drawn per rado accepted, for {N_RADOS} rados: the 95 % quantile of {n_runs} runs, "
        "the exact one, and the bound, which may fail with probability 0.05. Ours: the rejection-free sampler.",
    )  # fmt: skip
    limits = [int(binom.isf(_FALSE_ALARM / len(runs), outcome["runs"], ETA)) for _, outcome in runs]
    yield Check(
        "thm_rrs: the signatures drawn stay within the bound with probability 1 - eta",
        all(outcome["beyond"] <= limit for (_, outcome), limit in zip(runs, limits, strict=True)),
        f"of {n_runs} runs at most {max(outcome['beyond'] for _, outcome in runs)} were beyond the bound, in "
        f"{len(runs)} cases; eta = {ETA} allows {max(limits)} (false alarm {_FALSE_ALARM:g})",
    )


def _rejection_figure(runs: Outcomes, grid: Outcome) -> Figure:
    sizes = sorted({cell["m"] for cell, _ in runs})
    m = sizes[len(sizes) // 2]
    points = [(cell["epsilon"], outcome) for cell, outcome in runs if cell["m"] == m]
    epsilons = [epsilon for epsilon, _ in points]
    panels = [
        Panel(f"m = {m:,}", "epsilon", "signatures a rado", [
            Series("rejection, 95 % of runs", epsilons, [outcome["draws"] for _, outcome in points]),
            Series("bound of thm_rrs", epsilons, [outcome["bound"] for _, outcome in points], style="dashed"),
            Series("rejection-free (ours)", epsilons, [1 for _ in points], style="points"),
        ], log_x=True, log_y=True),
        Panel("does the bound hold?", "examples m", "failure probability / eta", [
            Series("worst of all epsilon, n, eta", [row["m"] for row in grid["by_m"]],
                   [max(row["failure"], 1e-3) for row in grid["by_m"]], style="points"),
            Series("promised", [1], [1.0], style="flat"),
        ], log_x=True, log_y=True),
    ]  # fmt: skip
    caption = (
        "Rejection sampling for DP-Feat's signature set. Left: the bound is loose where epsilon is small. Right: exact "
        f"probabilities that it fails, with n up to {max(_COUNTS):,} and eta from {min(_ETAS)}, where beta (m + 1) is "
        "rounded up; below 0.001 they are shown there."
    )
    return Figure("rejection", "Rejection sampling and the bound on it", caption, panels)


def _rejection_grid_checks(grid: Outcome) -> Iterator[FindingPart]:
    by_m = grid["by_m"]
    yield Check(
        "thm_rrs held in every case of the grid where beta (m + 1) is a whole number",
        grid["whole"] <= _ONE,
        f"exactly, in {grid['cases']:,} cases: the worst failure probability is {grid['whole']:.3f} eta",
    )
    failures = [row for row in by_m if row["failure"] > _ONE]
    why = f"the worst failure probability is {max(row['failure'] for row in by_m):.3f} eta"
    if failures:
        first, last = failures[0], failures[-1]
        why = (
            f"only where beta (m + 1) is not a whole number: with n up to {max(_COUNTS):,} and eta from {min(_ETAS)} "
            f"it fails for some epsilon at {len(failures)} of {len(by_m)} m, from {first['m']} to {last['m']}, "
            f"and epsilon from {min(row['least_epsilon'] for row in failures):.2f} on; at m = {last['m']}, epsilon = "
            f"{last['epsilon']:.2f}, n = {last['n']:,} and eta = {last['eta']} with probability "
            f"{last['failure']:.2f} eta"
        )
        if sizes := [row["m"] for row in failures if row["step2"] > _ONE]:
            which = "the same m" if len(sizes) == len(failures) else f"{len(sizes)} of these m, to {sizes[-1]},"
            why += f"; with the proof's condition, m >= (1 + 2 beta) / (1 - 2 beta), {which} fail"
        sizes_beyond = [row["m"] for row in by_m if row["more"] > _ONE]
        why += ". These ends are our grid's"
        why += f": with n = {_MORE[0]:,} and eta = {_MORE[1]:g} m reaches {max(sizes_beyond)}" if sizes_beyond else ""
    yield Check("thm_rrs holds for every m and epsilon, the least K being beta (m + 1) rounded up", not failures, why)
    worst = max(row["down"] for row in by_m)
    why = f"the worst failure probability is {worst:.3f} eta, with m from 2 to {by_m[-1]['m']:,}"
    yield Check("thm_rrs held in every case of the grid, the least K being rounded down", worst <= _ONE, why)


def _check_own_sampler_sizes(runs: Outcomes) -> Check:
    outside = sum(outcome["ours_outside"] for _, outcome in runs)
    # Dvoretzky, Kiefer, Wolfowitz, Massart: the distance passes t with probability at most 2 exp(-2 n t^2).
    limits = [math.sqrt(math.log(2 * len(runs) / _FALSE_ALARM) / (2 * outcome["ours_n"])) for _, outcome in runs]
    distance = max(outcome["ours_off"] for _, outcome in runs)
    why = (
        f"{outside} of {sum(outcome['ours_n'] for _, outcome in runs):,} sizes were outside the band; distribution "
        f"functions differ by up to {distance:.3f}, where chance allows {max(limits):.3f} "
        f"(false alarm {_FALSE_ALARM:g})"
    )
    fits = outside == 0 and all(out["ours_off"] <= limit for (_, out), limit in zip(runs, limits, strict=True))
    return Check("our sampler has the law of rejection sampling, from one signature a rado", fits, why, ours=True)


def _f_beta_findings(f: Outcome) -> Iterator[FindingPart]:
    far = [i for i, beta in enumerate(f["beta"]) if beta <= 0.45]
    near = [i for i, beta in enumerate(f["beta"]) if beta > 0.45]
    panels = [
        Panel("beta up to 0.45", "beta", "f", [Series("f", [f["beta"][i] for i in far], [f["f"][i] for i in far])]),
        Panel("near 1/2", "beta", "f", [
            Series("f", [f["beta"][i] for i in near], [f["f"][i] for i in near]),
            *(Series(f"epsilon = {at}", [beta_of_epsilon(float(at))], [f["at"][at]], style="points")
              for at in ("0.1", "0.01")),
        ], log_y=True),
    ]  # fmt: skip
    caption = (
        "T_r* is (log(n / eta) / D_BE + f(beta)) / m, rounded up. f is moderate unless epsilon is close to 0, where "
        "beta is close to 1/2; there it grows without limit."
    )
    yield Figure("f-beta", "f(beta) of the appendix", caption, panels)
    ratio, worst = max(
        ((claim["draws"] / math.log(1 / claim["eta"]), claim) for claim in f["claims"]), key=lambda pair: pair[0]
    )
    yield Check(
        "f(beta): at epsilon = 0.1 and m / log(n) in the thousands, T_r* is of the order of log(1/eta)",
        ratio <= _ORDER,
        f"f = {f['at']['0.1']:,.0f} at epsilon = 0.1 and {f['at']['0.01']:,.0f} at 0.01; the largest T_r* / log(1/eta) "
        f"is {ratio:.1f}, at m = {worst['m']:,}, n = {worst['n']:,}, eta = {worst['eta']} "
        f"(criterion: at most {_ORDER})",
    )
