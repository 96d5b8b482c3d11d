"""DP-Feat's numbers: how often rejection sampling rejects (thm_rrs), and what a rado's column gives away (thm_dpfreal).

The band keeps K in low .. m - low, where K counts the heads of m fair coins, and low is beta (m + 1), rounded up.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from radoboost.lab.paper.jobs import Options, Outcome, Task, cell_generator
from radoboost.lab.theory import Parts
from radoboost.lab.theory.concentration import all_rados
from radoboost.privacy import TruncatedBinomialShift, band, delta_at
from radoboost.report.findings import Check, Figure, FindingPart, Panel, ReportColumn, ReportTable, Series


def beta_of_epsilon(epsilon: float) -> float:
    return 1 / (1 + math.exp(epsilon / 2))


def epsilon_of_beta(beta: float) -> float:
    return 2 * math.log((1 - beta) / beta)


def divergence_of_beta(beta: float) -> float:
    """D_BE(1 - beta || 1/2), in nats; accurate near beta = 1/2 too."""
    t = 1 - 2 * beta
    return ((1 + t) * math.log1p(t) + (1 - t) * math.log1p(-t)) / 2 if t < 1 else math.log(2)


def n_star_without_rejection(beta: float, eta: float) -> float:
    """Up to this many rados thm_rrs promises that none is rejected."""
    return -eta * math.expm1(2 * beta - 1) / (4 * beta)


def draws_bound(n: int, m: int, beta: float, eta: float) -> int:
    """thm_rrs: with probability 1 - eta no more than this many signatures are drawn, on average over n rados."""
    limit = n_star_without_rejection(beta, eta)
    return 1 if n <= limit else math.ceil(math.log(n / limit) / (m * divergence_of_beta(beta)))


def f_beta(beta: float) -> float:
    """Eq. (deffbeta): log(4 beta / (1 - exp(2 beta - 1))) / D_BE(1 - beta || 1/2)."""
    return math.log(-4 * beta / math.expm1(2 * beta - 1)) / divergence_of_beta(beta)


def rejection_probability(m: int, low: int) -> float:
    """The probability that a fair signature's K is not in low .. m - low."""
    from scipy.special import bdtr

    return 2 * float(bdtr(low - 1, m, 0.5)) if low > 0 else 0.0


def failure_probability(n: int, m: int, low: int, draws: int) -> float:
    """The exact probability that more than n * draws signatures are needed until n are within the band."""
    from scipy.special import betainc

    return float(betainc(n * (draws - 1) + 1, n, rejection_probability(m, low)))


def rejection_draws_quantile(n: int, m: int, low: int, level: float) -> int:
    """The exact number of signatures that suffice, with probability `level`, until n are within the band."""
    from scipy.stats import nbinom

    return n + int(nbinom.ppf(level, n, 1 - rejection_probability(m, low)))


def log_delta_of_band(m: int, low: int, epsilon: float) -> float:
    """The logarithm of the exact delta of one rado's column, K in low .. m - low against K + 1; low = 0 means no band.

    It is the sum of P(K = k) - e^epsilon P(K = k - 1) where that is positive, without underflow. The accountants give
    the same, rounded up.
    """
    from scipy.special import gammaln, logsumexp

    k = np.arange(low, m - low + 1)
    masses = -gammaln(k + 1.0) - gammaln(m - k + 1.0)
    masses -= logsumexp(masses)
    ratios = np.log((m - k[1:] + 1) / k[1:])  # of P(K = k) to P(K = k - 1)
    positive = ratios > epsilon
    return float(logsumexp([masses[0], *(masses[1:][positive] + np.log(-np.expm1(epsilon - ratios[positive])))]))


def edge_mass_of_band(m: int, low: int) -> float:
    """P(K = low) within the band: the outcomes of a table, at one end, that its neighbour cannot give."""
    return math.exp(log_delta_of_band(m, low, math.inf))


def largest_loss_in_band(m: int, low: int) -> float:
    """The largest privacy loss of an outcome that both neighbours can give; 0 if the band holds one value."""
    return math.log((m - low) / (low + 1)) if 2 * low < m else 0.0


def printed_delta_of_dp_feat(m: int, epsilon: float) -> float:
    """thm_dpfreal's delta, m**(-5/2) / epsilon, with 1 for the constant of its O(.)."""
    return float(m**-2.5 / epsilon)


def proof_factor_of_dp_feat(m: int, half_epsilon: float) -> float:
    """1 / (1 - 2^(m (f(eps') - 1))) of the proof of thm_dpfreal, whose expansion at eps' = 0 gives the theorem its m.

    The exponent is -eps'/2 - m eps'^2 / 8 - ... nats, so the factor is about 2 / eps' near 0.
    """
    e = half_epsilon
    # log(1 + e^e) - log 2 = e/2 + log(cosh(e/2)), and e^e / (1 + e^e) = (1 + tanh(e/2)) / 2.
    exponent = m * math.log(math.cosh(e / 2)) - (m * e * math.tanh(e / 2) + e * (1 + math.tanh(e / 2))) / 2
    return -1 / math.expm1(exponent)


def printed_factor_of_dp_feat(m: int, half_epsilon: float) -> float:
    """What the paper expands `proof_factor_of_dp_feat` to: 1 / (2 m^2 log(2)^2 eps') + (1/2 - 1 / (4 m^2 log(2)^3))."""
    log2 = math.log(2)
    return 1 / (2 * m**2 * log2**2 * half_epsilon) + (1 / 2 - 1 / (4 * m**2 * log2**3))


# ---- thm_dpfreal: the delta of DP-Feat as printed and exactly, what its band is worth, and what d = 1 leaves out.

_POINTS = ((100, 1.0), (1000, 0.01), (1000, 0.1), (1000, 0.5), (1000, 1.0), (10_000, 0.1))
_Laws = dict[str, Callable[[int], float]]
_SMALL: _Laws = {"8 / m": lambda m: 8 / m, "m^(-1/2)": lambda m: m**-0.5}  # epsilons that the theorem allows
_LARGE: _Laws = {"8 sqrt(log(m) / m)": lambda m: 8 * math.sqrt(math.log(m) / m)}  # another one
_GROWTH = 10.0  # a figure that grows by more than this factor from the first m to the last is not taken to be bounded
_JOINT = {"m": 12, "epsilon": 1.0}


def cells(options: Options) -> list[Task]:
    """Exact deltas; the band against plain rados, by m; all rados of a few examples and of their neighbours."""
    sizes = (10, 100, 1000) if options.quick else (10, 30, 100, 1000, 10_000)
    return [
        Task.of("theory", part="delta"),
        *(Task.of("theory", part="band", m=m) for m in sizes),
        Task.of("theory", part="joint", **_JOINT),
    ]


def column_delta_of_rado(m: int, epsilon: float, *, banded: bool = True) -> float:
    """The exact delta of one rado's column, with the band of `epsilon` or without."""
    low, high = band(m, epsilon) if banded else (0, m)
    return delta_at(TruncatedBinomialShift(m, low, high), epsilon)


def _dp_feat_deltas_work(cell: Task, options: Options) -> Outcome:
    points = [
        {
            "m": m, "epsilon": epsilon, "band": band(m, epsilon), "exact": column_delta_of_rado(m, epsilon),
            "edge": edge_mass_of_band(m, band(m, epsilon)[0]), "plain": column_delta_of_rado(m, epsilon, banded=False),
            "printed": printed_delta_of_dp_feat(m, epsilon), "loss": largest_loss_in_band(m, band(m, epsilon)[0]),
        }
        for m, epsilon in _POINTS
    ]  # fmt: skip
    sizes = [10**3, 10**4, 10**5] if options.quick else [10**3, 10**4, 10**5, 10**6, 10**7]
    falling = [
        {"law": law, "m": m, "epsilon": epsilon, "exact": math.exp(log_delta_of_band(m, band(m, epsilon)[0], epsilon)),
         "printed": printed_delta_of_dp_feat(m, epsilon)}
        for law, epsilon_for in (_SMALL | _LARGE).items()
        for m in sizes
        if (epsilon := epsilon_for(m))
    ]  # fmt: skip
    epsilons = np.geomspace(0.01, 1.0, 30).tolist()
    halves = np.geomspace(1e-6, 1.0, 25).tolist()
    return {
        "points": points,
        "falling": falling,
        "epsilon": epsilons,
        "banded": [column_delta_of_rado(1000, epsilon) for epsilon in epsilons],
        "plain": [column_delta_of_rado(1000, epsilon, banded=False) for epsilon in epsilons],
        "printed": [printed_delta_of_dp_feat(1000, epsilon) for epsilon in epsilons],
        "half": halves,
        "factor": [proof_factor_of_dp_feat(1000, half) for half in halves],
        "printed_factor": [printed_factor_of_dp_feat(1000, half) for half in halves],
    }


def _dp_feat_band_work(cell: Task, options: Options) -> Outcome:
    """The least ratio of delta under the band to plain delta, over bands and over the epsilons they are read at."""
    m, ratios, losses = cell["m"], [], []
    for epsilon in np.geomspace(0.05, 8.0, 15).tolist():
        low = math.ceil(beta_of_epsilon(epsilon) * (m + 1))
        if 2 * low <= m:
            losses.append(largest_loss_in_band(m, low) / epsilon)
            ratios += [
                log_delta_of_band(m, low, at) - log_delta_of_band(m, 0, at)
                for at in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
            ]
    return {"log_ratio": min(ratios), "cases": len(ratios), "loss": max(losses)}


def _dp_feat_joint_work(cell: Task, options: Options) -> Outcome:
    """The share of a table's outcomes that its neighbour cannot give: for the column alone, and beside a real one."""
    m, generator = cell["m"], cell_generator(cell, options)
    low, high = band(m, cell["epsilon"])
    edges = np.where(generator.random(m) < 0.5, -1.0, 1.0)
    other = generator.standard_normal(m)
    neighbour = edges.copy()
    neighbour[0] = -neighbour[0]
    shares = {}
    for name, lower in (("plain", 0), ("banded", low)):
        outcomes = []
        for values in (edges, neighbour):
            rados = all_rados(np.column_stack([values, other]))
            k = (values > 0).sum() - rados[:, 0]
            outcomes.append(rados[(k >= lower) & (k <= m - lower)])
        for width, kind in ((1, "column"), (2, "both")):
            of_neighbour = {tuple(row) for row in outcomes[1][:, :width].tolist()}
            is_alone = [tuple(row) not in of_neighbour for row in outcomes[0][:, :width].tolist()]
            shares[f"{name}_{kind}"] = float(np.mean(is_alone))
    return {"low": low, "high": high, "edge": edge_mass_of_band(m, low), **shares}


# ---- findings


PARTS = {"delta": _dp_feat_deltas_work, "band": _dp_feat_band_work, "joint": _dp_feat_joint_work}


def findings(parts: Parts) -> Iterator[FindingPart]:
    [(_, deltas)], [(cell, joint)] = parts["delta"], parts["joint"]
    yield from _dp_feat_delta_findings(deltas)
    yield from _dp_feat_band_checks(deltas, [(cell["m"], outcome) for cell, outcome in parts["band"]])
    yield ReportTable(
        "joint", f"thm_dpfreal: rados of {cell['m']} examples that give a value away",
        ["signatures", ReportColumn("the column alone", digits=4), ReportColumn("beside a real column", digits=4)],
        [["all signatures", joint["plain_column"], joint["plain_both"]],
         [f"DP-Feat, epsilon = {cell['epsilon']}", joint["banded_column"], joint["banded_both"]]],
        "Of all rados of a table, the share that cannot come from the table with one protected value changed.",
    )  # fmt: skip
    yield Check(
        "proof of thm_dpfreal: d = 1 is no loss of generality, where the output O of (dpreq) is the whole rado",
        abs(joint["banded_both"] - joint["banded_column"]) <= 1e-9,
        f"of the rados of {cell['m']} examples in DP-Feat's band at epsilon = {cell['epsilon']}, "
        f"{100 * joint['banded_column']:.1f} % give the changed value away by their column alone, which is the "
        f"marginal that the paper aims to protect, and {100 * joint['banded_both']:.1f} % beside a real-valued column: "
        "no delta of whole rados is below that, at any epsilon",
    )
    yield (
        "thm_dpfreal speaks of privacy 'on feature j*', and the paper's aim is that one changed value does not "
        "significantly change 'the density of that feature's values in rados': a marginal. Its definition, "
        "(dpreq), is about any output O, and what is released are whole rados. For the marginal, d = 1 is no loss; "
        "for (dpreq) it is one."
    )
    yield (
        "thm_dpfreal: where the proof expands 1 / (1 - 2^(m (f(eps') - 1))) its leading term is 1 / (2 m^2 "
        "log(2)^2 eps'); that of the factor is 2 / eps'. The tail sums before it also lack a factor 2, for there "
        "are two tails. Exactly, epsilon delta is at most of the order 1/m, and of that order at epsilon = "
        "m^(-1/2): delta is the band's edge mass, at most 1 / (number of values in the band). The proof's steps, "
        "with the factor 2 they lack, give no bound for epsilon below about 4.7 / sqrt(m)."
    )


def _dp_feat_delta_findings(deltas: Outcome) -> Iterator[FindingPart]:
    points = deltas["points"]
    yield ReportTable(
        "delta", "thm_dpfreal: delta printed and exact",
        ["m", "epsilon", "band of K", ReportColumn("largest loss", digits=4), "delta, exact", "m^(-5/2) / epsilon",
         "twice the edge", "plain rados, exact"],
        [[point["m"], point["epsilon"], "{} to {}".format(*point["band"]), point["loss"], point["exact"],
          point["printed"], 2 * point["edge"], point["plain"]] for point in points],
        "One rado, its protected column alone. Twice the edge: the bound (delta1) of the proof. Plain rados: the same "
        "column without a band, at the same epsilon.",
    )  # fmt: skip
    yield _dp_feat_figure(deltas)
    yield Check(
        "thm_dpfreal: epsilon delta = O(m^(-5/2)) for every epsilon that is o(1) and Omega(1/m)",
        *_growth_of_dp_feat_delta(deltas, _SMALL),
    )
    bounded, why = _growth_of_dp_feat_delta(deltas, _LARGE)
    quoted = {(point["m"], point["epsilon"]): point for point in points}[1000, 1.0]
    yield Check(
        "thm_dpfreal: epsilon delta = O(m^(-5/2)) from epsilon = 8 sqrt(log(m) / m) on, a part of its range",
        bounded and quoted["exact"] <= quoted["printed"],
        f"{why}; at m = 1,000 that is epsilon = {_LARGE['8 sqrt(log(m) / m)'](1000):.2f}, and at epsilon = 1 delta is "
        f"{quoted['exact']:.1e} against {quoted['printed']:.1e} printed; the order holds with any constant above "
        "sqrt(48) = 6.93 in place of 8",
    )
    half, exact, printed = deltas["half"][0], deltas["factor"][0], deltas["printed_factor"][0]
    yield Check(
        "proof of thm_dpfreal: 1 / (1 - 2^(m (f(eps') - 1))) is about 1 / (2 m^2 log(2)^2 eps') + (1/2 - 1 / (4 m^2 "
        "log(2)^3)) near 0",
        abs(printed / exact - 1) <= 0.1,
        f"at m = 1,000 and eps' = {half:.0e} the factor is {exact:.4g}, the two printed terms are {printed:.4g}, "
        f"and 2 / eps' is {2 / half:.4g} (criterion: within 10 %)",
    )
    ratios = [point["exact"] / (2 * point["edge"]) for point in points]
    yield Check(
        "proof of thm_dpfreal, (delta1): delta is at most twice the edge's mass",
        max(ratios) <= 1,
        f"exact delta over that bound is {min(ratios):.4f} to {max(ratios):.4f} in {len(ratios)} cases",
    )


def _dp_feat_band_checks(deltas: Outcome, bands: list[tuple[int, Outcome]]) -> Iterator[FindingPart]:
    share = max([point["loss"] / point["epsilon"] for point in deltas["points"]] + [out["loss"] for _, out in bands])
    why = f"it is at most {share:.4f} epsilon: the theorem charges twice what is needed"
    yield Check(
        "thm_dpfreal: within the band the privacy loss is at most epsilon",
        share <= 1,
        why if share <= 0.5 + 1e-12 else f"it is as much as {share:.4f} epsilon",
    )
    least = math.exp(min(outcome["log_ratio"] for _, outcome in bands))
    why = (
        f"delta under the band is at least {least:.6f} times that of plain rados, in "
        f"{sum(outcome['cases'] for _, outcome in bands)} cases with m from "
        f"{min(m for m, _ in bands):,} to {max(m for m, _ in bands):,} (criterion: below 1 by more than 1e-9)"
    )
    if least >= 1 - 1e-9:
        why += (
            ". Proved: the terms of the plain sum up to the band's low end telescope to at most P(low), and the band "
            "then divides by a mass below 1. The cases confirm it"
        )
    statement = "DP-Feat: at some epsilon the column's delta is smaller under the band than without it"
    yield Check(statement, least < 1 - 1e-9, why, ours=True)


def _dp_feat_figure(deltas: Outcome) -> Figure:
    epsilon = deltas["epsilon"]
    panels = [
        *(Panel(f"epsilon = {law}", "examples m", "delta of one rado", [
            Series("exact", [row["m"] for row in rows], [row["exact"] for row in rows]),
            Series("m^(-5/2) / epsilon", [row["m"] for row in rows], [row["printed"] for row in rows], style="dashed"),
        ], log_x=True, log_y=True) for law, rows in _dp_feat_deltas_by_law(deltas, [*_SMALL, *_LARGE])),
        Panel("m = 1,000", "epsilon", "delta of one rado", [
            Series("exact", epsilon, deltas["banded"]),
            Series("m^(-5/2) / epsilon", epsilon, deltas["printed"], style="dashed"),
            Series("plain rados", epsilon, [max(delta, 1e-40) for delta in deltas["plain"]]),
        ], log_x=True, log_y=True),
        Panel("a factor of the proof, m = 1,000", "epsilon / 2", "factor", [
            Series("exact", deltas["half"], deltas["factor"]),
            Series("leading and constant term, as printed", deltas["half"], deltas["printed_factor"], style="dashed"),
            Series("2 / (epsilon / 2)", deltas["half"], [2 / half for half in deltas["half"]], style="dashed"),
        ], log_x=True, log_y=True),
    ]  # fmt: skip
    caption = (
        "The delta of DP-Feat. First three: at epsilons that the theorem allows. At 8 / m delta does not fall, and at "
        "m^(-1/2) it falls as m^(-1/2), not as m^(-2); at 8 sqrt(log(m) / m) it is as small as printed. Then: plain "
        "rados, without the band, have no larger a delta at any epsilon (shown down to 1e-40). Last: in the "
        "expansion that the theorem rests on, the leading term is off by a factor of 4 log(2)^2 m^2."
    )
    return Figure("delta", "The delta of thm_dpfreal", caption, panels)


def _dp_feat_deltas_by_law(deltas: Outcome, laws: Iterable[str]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(law, [row for row in deltas["falling"] if row["law"] == law]) for law in laws]


def _growth_of_dp_feat_delta(deltas: Outcome, laws: Iterable[str]) -> tuple[bool, str]:
    """Whether epsilon delta m^(5/2) is bounded, by our criterion, where epsilon follows each of these laws."""
    trends, bounded = [], True
    for law, rows in _dp_feat_deltas_by_law(deltas, laws):
        scaled = [row["epsilon"] * row["exact"] * row["m"] ** 2.5 for row in rows]
        first, last = rows[0]["m"], rows[-1]["m"]
        slope = math.log(scaled[-1] / scaled[0]) / math.log(last / first)
        trends.append(f"at epsilon = {law} from {scaled[0]:.3g} to {scaled[-1]:.3g}, as m^{slope:.2f}")
        bounded = bounded and scaled[-1] < _GROWTH * scaled[0]
    why = (
        f"epsilon delta m^(5/2), from m = {first:,} to {last:,}, goes {' and '.join(trends)} (criterion: grows by less "
        f"than a factor of {_GROWTH:g})"
    )
    return bounded, why
