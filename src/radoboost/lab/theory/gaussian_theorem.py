"""thm_random_gau: boosting from noisy examples, the appendix's cap on edges, a step of its proof, and its bound.

The theorem says that there is a cap; the appendix gives one. Runs with the latter say nothing about other caps. Rados
for which every cap with features to take fails are those that average to zero.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.lab.paper import domains
from radoboost.lab.paper.jobs import Options, Outcome, Task, cell_generator
from radoboost.lab.theory import Outcomes, Parts, edge_vectors_of
from radoboost.learner.boost import boost
from radoboost.learner.risks import log_rado_risk, logistic_rado_risk
from radoboost.learner.weak_oracles import Prudential
from radoboost.privacy import gaussian_multiplier
from radoboost.report.findings import Check, Figure, FindingPart, Panel, ReportColumn, ReportTable, Series

# ---- The norm lemma of thm_random_gau (partial3): how long the noise in a rado is. It cites a bound on
# how far a norm lies above its mean, and the mean, about sqrt(d), was left out.

TAU = 0.05
N_RADOS = 1000
_QUOTED = 28  # features, as Higgs has: the dimension that a check quotes
_FALSE_ALARM = 1e-6


def noise_norm_limit(n: int, tau: float = TAU, d: int | None = None) -> float:
    """sqrt(2 log(n / tau)), as printed; with d, sqrt(d) + that, which is right."""
    return (0.0 if d is None else math.sqrt(d)) + math.sqrt(2 * math.log(n / tau))


def noise_norm_probability(limit: float, d: int) -> float:
    """The probability that d standard normals have a norm of at most `limit`, by the chi distribution."""
    from scipy.special import chdtr

    return float(chdtr(d, limit * limit))


def signatures_of_support(m: int, n: int, support: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Which examples are in which rado: an (n, m) array of 0 and 1, whose rows all have the same support."""
    signatures = np.zeros((n, m))
    for signature in signatures:
        signature[generator.permutation(m)[:support]] = 1.0
    return signatures


def _noise_norm_work(cell: Task, options: Options) -> Outcome:
    """How often the noise in one rado, and in all rados of a table, is as short as the lemma says."""
    d, generator = cell["d"], cell_generator(cell, options)
    m, support = 200, 100
    singles, tables = (1000, 40) if options.quick else (4000, 200)
    limit, right_limit = noise_norm_limit(N_RADOS), noise_norm_limit(N_RADOS, d=d)
    single_norms = [np.linalg.norm(generator.standard_normal((support, d)).sum(axis=0)) for _ in range(singles)]
    signatures = signatures_of_support(m, N_RADOS, support, generator)
    largest_norms = [
        np.linalg.norm(signatures @ generator.standard_normal((m, d)), axis=1).max() for _ in range(tables)
    ]
    return {
        "exact": noise_norm_probability(limit, d),
        "singles": singles,
        "within_alone": int((np.array(single_norms) <= math.sqrt(support) * limit).sum()),
        "tables": tables,
        "within": int((np.array(largest_norms) <= math.sqrt(support) * limit).sum()),
        "within_right": int((np.array(largest_norms) <= math.sqrt(support) * right_limit).sum()),
        "right_failure": N_RADOS * (1 - noise_norm_probability(right_limit, d)),
    }


def _noise_norm_findings(norms: list[tuple[int, Outcome]]) -> Iterator[FindingPart]:
    from scipy.stats import binom

    names = ("one rado, exact", "one rado, drawn", "all rados, drawn", "all, sqrt(d) added")
    yield ReportTable(
        "norm-lemma", "thm_random_gau: the norm lemma by dimension",
        ["d", *(ReportColumn(name, digits=3) for name in names)],
        [[d, out["exact"], out["within_alone"] / out["singles"], out["within"] / out["tables"],
          out["within_right"] / out["tables"]] for d, out in norms],
        f"How often the noise of a rado is within sqrt(2 log(n/tau)), n = {N_RADOS:,}, tau = {TAU}. The lemma says: of "
        f"all rados at once, with probability {1 - TAU}.",
    )  # fmt: skip
    yield _noise_norm_figure(norms)
    failing = [  # the exact probability of one rado is too small already, or too few draws had all within
        d for d, out in norms
        if out["exact"] < 1 - TAU or binom.cdf(out["within"], out["tables"], 1 - TAU) < _FALSE_ALARM / len(norms)
    ]  # fmt: skip
    d, out = next((pair for pair in norms if pair[0] == _QUOTED), norms[-1])
    yield Check(
        "lemma partial3: whatever d is, the noise of all rados is within sqrt(2 log(n/tau))",
        not failing,
        f"it fails for d = {', '.join(map(str, failing)) or 'none'} of {', '.join(str(d) for d, _ in norms)}; at "
        f"d = {d} one rado is within with probability {out['exact']:.4f}, and all {N_RADOS:,} were in {out['within']} "
        f"of {out['tables']} draws (false alarm {_FALSE_ALARM:g})",
    )
    failures = [N_RADOS * (1 - noise_norm_probability(noise_norm_limit(N_RADOS), d)) for d in (1, 2)]
    why = f"by a union bound it fails with probability at most {failures[0]:.4f} and {failures[1]:.4f}, tau is {TAU}"
    for d, out in norms:
        why += f"; d = {d}: all within in {out['within']} of {out['tables']} draws" if d <= 2 else ""
    yield Check("lemma partial3 holds for d = 1 and d = 2", max(failures) <= TAU * (1 + 1e-9), why)
    misfits = []
    for d, out in norms:
        count, law = out["within_alone"], binom(out["singles"], out["exact"])
        if min(law.cdf(count), law.sf(count - 1)) < _FALSE_ALARM / (2 * len(norms)):
            misfits.append(str(d))
    yield Check(
        "the norm of a rado's noise has the chi distribution with d degrees of freedom",
        not misfits,
        f"counts of one rado in {norms[0][1]['singles']:,} tables each, two-sided binomial tests, off at d = "
        f"{', '.join(misfits) or 'none'} (false alarm {_FALSE_ALARM:g})",
        ours=True,
    )
    worst = max(out["right_failure"] for _, out in norms)
    beyond = sum(out["tables"] - out["within_right"] for _, out in norms)
    why = f"a union bound over the exact law gives {worst:.1e}, tau is {TAU}; {beyond} draws had a rado beyond it"
    yield Check("with sqrt(d) added the norm lemma holds", worst <= TAU, why, ours=True)


def _noise_norm_figure(norms: list[tuple[int, Outcome]]) -> Figure:
    dimensions = np.unique(np.geomspace(1, 60, 30).round().astype(int)).tolist()
    exact = [noise_norm_probability(noise_norm_limit(N_RADOS), d) for d in dimensions]
    d = [d for d, _ in norms]
    panel = Panel("n = 1,000 rados, tau = 0.05", "features d", "probability", [
        Series("one rado, exact", dimensions, exact),
        Series("one rado, drawn", d, [out["within_alone"] / out["singles"] for _, out in norms], style="points"),
        Series("all rados, drawn", d, [out["within"] / out["tables"] for _, out in norms]),
        Series("claimed of all rados", [1], [1 - TAU], style="flat"),
    ], log_x=True)  # fmt: skip
    caption = (
        "The probability that the noise in all rados (jointly) is within sqrt(2 log(n/tau)), and that of one rado. "
        f"From a few features on the joint one is below the {1 - TAU} that the lemma claims."
    )
    return Figure("norm-lemma", "The norm lemma of thm_random_gau", caption, [panel])


_PREFERRED = ("wine_white", "wine_red", "banknote", "transfusion", "haberman")
_LEVELS = (0.1, 0.3, 1.0)  # of noise, in standard deviations of a feature
_N_RADOS, _N_ROUNDS, _DRAWS = 100, 200, 20  # draws of noise for each set of signatures


# ---- formulas; mu is the mu' of lemma partial1, support is m_*


def least_kappa_of_theorem(noise_std: float, mu: float, support: int, n: int, tau: float = TAU) -> float:
    """The kappa that the theorem asks for: 4 varsigma sqrt(2 log(n / tau)) / (mu'^2 m_*^(3/2))."""
    return 4 * noise_std * noise_norm_limit(n, tau) / (mu * mu * support * math.sqrt(support))


def kept_share_of_theorem(kappa: float, noise_std: float, support: int, n: int, tau: float = TAU) -> float:
    """The largest 1 - rho that the theorem allows: 1 / (4 kappa varsigma sqrt(2 m_* log(n / tau))), at most 1."""
    return min(1.0, 1 / (4 * kappa * noise_std * math.sqrt(support) * noise_norm_limit(n, tau)))


def printed_cap_on_edges(kappa: float, noise_std: float, mu: float, support: int, n: int, tau: float = TAU) -> float:
    """lambda_p = 1 - 2 / (sqrt(1 - rho) kappa mu' m_*), with the largest 1 - rho.

    Where that is below 1, it is 1 - 2 / sqrt(kappa / least_kappa), whatever the rest.
    """
    share = kept_share_of_theorem(kappa, noise_std, support, n, tau)
    return 1 - 2 / (math.sqrt(share) * kappa * mu * support)


# ---- cells


def cells(options: Options) -> list[Task]:
    """Norms by dimension; the cap and the step, which need no data; the conclusion on up to two domains."""
    names = [name for name in dict.fromkeys((*_PREFERRED, *options.domains)) if name in options.domains]
    runs = [(name, level) for name in names[: 1 if options.quick else 2] for level in _LEVELS]
    return [
        *(Task.of("theory", part="norm", d=d) for d in ((4, 28) if options.quick else (1, 4, 8, 16, 28, 60))),
        Task.of("theory", part="cap"),
        *(Task.of("theory", part="conclusion", domain=name, noise_std=level) for name, level in runs),
        *(Task.of("theory", part="mean-zero", m=m, noise_std=noise) for m, noise in _CASES),
    ]


def _cap_on_edges_work(cell: Task, options: Options) -> Outcome:
    """The cap at multiples of the least kappa, in many settings; and both sides of a step of the proof."""
    candidates = [(noise, mu, m) for noise in (0.3, 1.0, 10.0) for mu in (0.001, 0.01, 0.1) for m in (50, 5000)]
    # The theorem asks for kappa >= 1 as well.
    settings = [setting for setting in candidates if least_kappa_of_theorem(*setting, 1000) >= 1]

    def cap_at(c: float, setting: tuple[float, float, int]) -> float:
        return printed_cap_on_edges(c * least_kappa_of_theorem(*setting, 1000), *setting, 1000)

    times = np.geomspace(0.5, 64, 22).tolist()
    caps = [[cap_at(c, setting) for c in (1.0, 4.0, 16.0)] for setting in settings]
    curve = [cap_at(c, settings[0]) for c in times]
    support = 10  # two rados of weight 1/2, with 0 and m_* in the exponent
    left = float(np.logaddexp(0.0, support) - math.log(2))
    right = support * float(np.logaddexp(0.0, 1.0) - math.log(2))
    return {"times": times, "curve": curve, "caps": caps, "left": left, "right": right}


def _gaussian_conclusion_work(cell: Task, options: Options) -> Outcome:
    """Ineq. (llleqlast), for noise drawn again and again, with the largest cap that the appendix allows.

    mu and mu' are as large as lemma partial1 lets them be; kappa is 16 times the least, or 1, so that there is a cap.
    Where the conditions do not hold, nothing is counted.
    """
    edge_vectors = edge_vectors_of(cell, options)
    noise_std, generator, sets = cell["noise_std"], cell_generator(cell, options), 3 if options.quick else 10
    m, n, support = len(edge_vectors), _N_RADOS, len(edge_vectors) // 2
    rows = []
    for _ in range(sets):
        signatures = signatures_of_support(m, n, support, generator)
        clean = signatures @ edge_vectors
        mu = float(np.abs(clean).max(axis=0).min()) / support - noise_std * math.sqrt(math.log(n / TAU) / support)
        if mu <= 0:
            continue
        kappa = max(1.0, 16 * least_kappa_of_theorem(noise_std, mu, support, n))
        most = printed_cap_on_edges(kappa, noise_std, mu, support, n)
        for _ in range(_DRAWS if most > 0 else 0):
            noisy = clean + signatures @ (noise_std * generator.standard_normal(edge_vectors.shape))
            boosted = boost(noisy, n_rounds=_N_ROUNDS, weak=Prudential(most), kappa=kappa)
            squares = float(np.square(boosted.rounds.edge).sum())
            excess = logistic_rado_risk(clean, boosted.theta, m) - math.log(2) + squares / (4 * kappa * m)
            allowed = kept_share_of_theorem(kappa, noise_std, support, n) * squares
            rows.append((kappa, most, excess > 1e-12, np.linalg.norm(boosted.theta) > allowed))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    medians = [float(np.median(column)) if rows else None for column in columns[:2]]
    return {"draws": _DRAWS * sets, "held": len(rows), "kappa": medians[0], "cap": medians[1],
            "beyond": int(columns[2].sum()), "too_long": int(columns[3].sum())}  # fmt: skip


# ---- findings


def _cap_findings(cap: Outcome) -> Iterator[FindingPart]:
    panel = Panel("lambda_p", "kappa / printed least kappa", "lambda_p", [
        Series("lambda_p", cap["times"], cap["curve"]),
        Series("no feature may be taken below", [1], [0.0], style="flat"),
    ], log_x=True)  # fmt: skip
    caption = (
        "The appendix's cap on edges is -1 at the kappa that it asks for, and above 0 only beyond four times that. As "
        "kappa must be 1 or more as well, kappa = 1 gives a cap above 0 where the printed kappa is below 1/4."
    )
    yield Figure("cap", "The cap lambda_p of thm_random_gau", caption, [panel])
    at_printed, at_four, at_sixteen = zip(*cap["caps"], strict=True)
    yield Check(
        "appendix of thm_random_gau: at the printed kappa, where that is 1 or more, there is a prudential weak learner",
        min(at_printed) > 0,
        f"in {len(at_printed)} settings with a printed kappa of 1 or more "
        f"lambda_p is {max(at_printed):.3f} at the printed kappa, {max(at_four):.3f} at four "
        f"times and {max(at_sixteen):.3f} at sixteen times that: with more than 16 for the printed 4 there is one. The "
        "theorem does not name kappa",
    )
    yield Check(
        "a step in the proof of thm_random_gau: log sum w e^a <= m_* log sum w e^(a / m_*)",
        cap["left"] <= cap["right"],
        f"two rados of weight 1/2, m_* = 10, exponents 0 and 10: {cap['left']:.2f} on the left, {cap['right']:.2f} on "
        "the right. The step is not needed: the bound on D after it follows without it",
    )


def _gaussian_conclusion_findings(runs: Outcomes) -> Iterator[FindingPart]:
    if runs:
        yield ReportTable(
            "noisy-conclusion", "thm_random_gau: its bound with the largest cap that the appendix allows",
            ["domain", ReportColumn("noise", digits=1), "draws", "conditions held", ReportColumn("kappa", digits=2),
             ReportColumn("cap", digits=3), "bound failed", "theta too long"],
            [[domains.SOURCES[cell["domain"]].title, cell["noise_std"], out["draws"], out["held"], out["kappa"],
              out["cap"], *((out["beyond"], out["too_long"]) if out["held"] else (None, None))] for cell, out in runs],
            f"Noise in standard deviations of a feature; n = {_N_RADOS} rados of support m/2, T = {_N_ROUNDS}, "
            f"tau = {TAU}. Bound: ineq. (llleqlast), which may fail in 5 % of the draws. Too long: above "
            "(1 - rho) sum r_t^2 of lemma partial1. kappa and cap: medians.",
        )  # fmt: skip
    yield _check_gaussian_count(
        "appendix of thm_random_gau: with the largest cap that it allows, where its conditions hold, its bound does "
        "too", runs, "beyond", "the bound failed",
        ". The theorem's 'there exists' leaves other caps, so these runs are about lemma partial1 and the appendix's "
        "cap, and do not refute the statement",
    )  # fmt: skip
    statement = "lemma partial1: the norm of theta_T is at most (1 - rho) sum r_t^2"
    yield _check_gaussian_count(statement, runs, "too_long", "theta was longer")
    names = list(dict.fromkeys(domains.SOURCES[cell["domain"]].title for cell, _ in runs))
    statement = (
        f"thm_random_gau: the appendix's conditions hold on {' and '.join(names) or 'a domain'} for m_* = m/2, "
        f"n = {_N_RADOS}, uniform signatures of that support and noise of {_LEVELS[-1]:g} standard deviation of a "
        "feature"
    )
    strongest = [out for cell, out in runs if cell["noise_std"] == _LEVELS[-1]]
    held, draws = (sum(out[key] for out in strongest) for key in ("held", "draws"))
    per_norm = 2 * gaussian_multiplier(1.0, 1e-6)  # an edge vector that is replaced moves by up to twice its norm
    why = (
        f"mu' > 0 and a cap above 0 in {held} of {draws} draws (criterion: at least half); to replace an "
        f"edge vector at epsilon = 1, delta = 1e-6 takes noise of {per_norm:.1f} times the largest norm"
    )
    if strongest:
        yield Check(statement, 2 * held >= draws, why, ours=True)
    else:
        yield Check(statement, None, "no domain was there", ours=True)


def _check_gaussian_count(statement: str, runs: Outcomes, key: str, what: str, rest: str = "") -> Check:
    """Whether a count stays within what tau allows, wherever the conditions hold."""
    from scipy.stats import binom

    valid_runs = [(cell, out) for cell, out in runs if out["held"]]
    if not valid_runs:
        return Check(statement, None, "its conditions held in no draw, or no domain was there")
    level = _FALSE_ALARM / len(valid_runs)
    cell, worst = max(valid_runs, key=lambda pair: pair[1][key] / pair[1]["held"])
    why = (
        f"on {domains.SOURCES[cell['domain']].title} at noise {cell['noise_std']}, with the largest cap that the "
        f"appendix allows and {'16 times its kappa' if worst['kappa'] > 1 else 'kappa = 1'}, {what} in {worst[key]} of "
        f"{worst['held']} draws; tau = {TAU} allows {binom.isf(level, worst['held'], TAU):.0f} "
        f"(false alarm {_FALSE_ALARM:g})"
    )
    within = all(out[key] <= binom.isf(level, out["held"], TAU) for _, out in valid_runs)
    return Check(statement, within, why if within else f"{why}{_noise_without_failures_text(valid_runs, key)}{rest}")


def _noise_without_failures_text(valid_runs: Outcomes, key: str) -> str:
    """At which noise it held in all draws on every domain: readers should know that, too."""
    sentences = []
    for noise in dict.fromkeys(cell["noise_std"] for cell, _ in valid_runs):
        runs = [(cell, out) for cell, out in valid_runs if cell["noise_std"] == noise]
        if any(out[key] for _, out in runs):
            continue
        names = " and ".join(domains.SOURCES[cell["domain"]].title for cell, _ in runs)
        kappa = ", with kappa = 1," if all(out["kappa"] == 1 for _, out in runs) else ""
        n_draws = sum(out["held"] for _, out in runs)
        sentences.append(f". At noise {noise}{kappa} it held in all {n_draws} draws on {names}")
    return "".join(sentences)


# ---- thm_random_gau where the clean rados average to zero: no classifier with a feature in it can meet its bound.

_CASES = ((1000, 0.3), (1000, 1.0), (100_000, 0.3), (100_000, 10.0))  # m, and noise in units of an edge vector
_CAPS: tuple[float | str, ...] = ("appendix", 0.5, 0.1, "tiny")
_TINY = 0.1 * TAU  # a tiny cap, in standard deviations of the first edge: a feature is taken with a chance below that
_TWO, _KAPPA, _N_DRAWS = 2, 1.0, 200


def _mean_zero_example_work(cell: Task, options: Options) -> Outcome:
    """One feature, m/2 edge vectors of +1 and m/2 of -1; two rados of support m/2: all of +1, and all of -1."""
    m, noise, generator = cell["m"], cell["noise_std"], cell_generator(cell, options)
    support = m // 2
    clean = np.array([[support], [-support]], dtype=np.float64)
    mu = 1 - noise * math.sqrt(math.log(_TWO / TAU) / support)  # mu' of lemma partial1, where mu = 1
    least = least_kappa_of_theorem(noise, mu, support, _TWO)
    named_caps = {
        "appendix": printed_cap_on_edges(_KAPPA, noise, mu, support, _TWO),
        "tiny": _TINY * noise / math.sqrt(2 * support),
    }
    rows = []
    for choice in _CAPS:
        cap = named_caps[choice] if isinstance(choice, str) else choice
        n_taken = n_beyond = n_too_long = 0
        excesses = []
        for _ in range(_N_DRAWS):
            # Each rado sums the noise of its own m/2 examples, so the two sums are independent.
            noisy = clean + noise * math.sqrt(support) * generator.standard_normal((_TWO, 1))
            boosted = boost(noisy, n_rounds=_N_ROUNDS, weak=Prudential(cap), kappa=_KAPPA)
            squares = float(np.square(boosted.rounds.edge).sum())
            if squares > 0:  # a feature was taken
                n_taken += 1
                # m times the excess over the bound, so that small numbers are not lost beside log 2.
                excesses.append(log_rado_risk(clean, boosted.theta) + squares / (4 * _KAPPA))
                n_beyond += excesses[-1] > 1e-15
                allowed = kept_share_of_theorem(_KAPPA, noise, support, _TWO) * squares
                n_too_long += bool(np.linalg.norm(boosted.theta) > allowed)
        median, largest = (float(f(excesses)) / m if excesses else None for f in (np.median, np.max))
        rows.append({
            "kind": choice if isinstance(choice, str) else "chosen", "cap": cap, "taken": n_taken, "beyond": n_beyond,
            "too_long": n_too_long, "excess": median, "most": largest,
        })  # fmt: skip
    return {"mu": mu, "least_kappa": least, "draws": _N_DRAWS, "rows": rows}


def _mean_zero_findings(outcomes: Outcomes) -> Iterator[FindingPart]:
    from scipy.stats import binom

    yield ReportTable(
        "mean-zero", "thm_random_gau where the clean rados average to zero",
        ["m", ReportColumn("noise", digits=1), ReportColumn("mu'", digits=3), ReportColumn("printed kappa", digits=6),
         "cap of", ReportColumn("cap", digits=6), "feature taken", "bound failed", ReportColumn("by", "nats"),
         "theta too long"],
        [[cell["m"], cell["noise_std"], out["mu"], out["least_kappa"],
          *(row[key] for key in ("kind", "cap", "taken", "beyond", "excess", "too_long"))]
         for cell, out in outcomes for row in out["rows"]],
        "d = 1, m/2 edge vectors of +1 and m/2 of -1, n = 2 rados of support m/2: all of +1, and all of -1. kappa = "
        f"{_KAPPA:g}, T = {_N_ROUNDS}, tau = {TAU}, {_N_DRAWS} draws of noise each. Feature taken: draws in which the "
        "cap let the weak learner take one. By: the median excess over the bound. Too long: above "
        "(1 - rho) sum r_t^2 of lemma partial1.",
    )  # fmt: skip
    every = [(cell["m"], out["draws"], row) for cell, out in outcomes for row in out["rows"]]
    yield _check_norm_fails_with_features([(m, row) for m, _, row in every if row["kind"] != "tiny" and row["taken"]])
    pairs = [(draws, row) for _, draws, row in every if row["kind"] == "tiny"]
    n_beyond, n_draws = sum(row["beyond"] for _, row in pairs), sum(draws for draws, _ in pairs)
    limit = binom.isf(_FALSE_ALARM, n_draws, TAU)
    yield Check(
        "thm_random_gau, on the same rados: its bound holds with a cap that hardly ever lets a feature be taken",
        n_beyond <= limit,
        f"it failed in {n_beyond} of {n_draws:,} draws, where tau = {TAU} allows {limit:.0f} "
        f"(false alarm {_FALSE_ALARM:g}); a feature was taken in {sum(row['taken'] for _, row in pairs)}, and else "
        "theta is 0: the theorem's 'there exists' is met, and says nothing about learning",
    )


def _check_norm_fails_with_features(rows: list[tuple[int, dict[str, Any]]]) -> Check:
    from scipy.stats import binom

    statement = (
        "thm_random_gau, read as one about learners that take features, where clean rados average to zero: its bound "
        "holds with a cap that lets features be taken"
    )
    if not rows:
        return Check(statement, None, "no feature was taken in any draw", ours=True)
    level = _FALSE_ALARM / len(rows)
    why = (
        "by Jensen's inequality the mean of exp(-theta . pi_j) over them is then at least 1, so their risk is at least "
        "log 2 for every theta, and (llleqlast) asks for less once any r_t is not 0, which noise makes "
        "almost sure: it fails whenever a feature is taken, for every kappa, T and cap. Drawn, with d = 1 and n = 2: "
        f"it failed in {sum(row['beyond'] for _, row in rows):,} of {sum(row['taken'] for _, row in rows):,} draws "
        f"with a feature taken, {len(rows)} settings; tau is {TAU} (false alarm {_FALSE_ALARM:g})"
    )
    m = min(m for m, _ in rows)
    if smallest := [row for size, row in rows if size == m and row["excess"] is not None]:
        excesses, largest = [row["excess"] for row in smallest], max(row["most"] for row in smallest)
        why += (
            f". It fails by little, at m = {m:,} by {min(excesses):.1g} to {max(excesses):.1g} nats (medians of "
            f"settings; {largest:.1g} in a single draw at most): no weak learning is possible on these rados, and "
            "edges are noise"
        )
    within = all(row["beyond"] <= binom.isf(level, row["taken"], TAU) for _, row in rows)
    return Check(statement, within, why, ours=True)


PARTS = {
    "norm": _noise_norm_work, "cap": _cap_on_edges_work, "conclusion": _gaussian_conclusion_work,
    "mean-zero": _mean_zero_example_work,
}  # fmt: skip


def findings(parts: Parts) -> Iterator[FindingPart]:
    yield from _noise_norm_findings(
        sorted(((cell["d"], outcome) for cell, outcome in parts["norm"]), key=lambda pair: pair[0])
    )
    yield from _cap_findings(parts["cap"][0][1])
    yield from _gaussian_conclusion_findings(parts["conclusion"])
    yield from _mean_zero_findings(parts["mean-zero"])
    yield (
        "thm_random_gau: lemma partial1 takes the norm of theta_T for the sum of its squared leverages. Ineq. "
        "(secineq) has sqrt(log(n/tau) / m_*) where the norm lemma would give sqrt(2 log(n/tau) / m_*). The step "
        "that takes the support out of the logarithm goes the other way, by Jensen's inequality. That is harmless: "
        "the bound on D after it, (boundD), follows without the step, from the largest exponent and (peqsigma)."
    )
