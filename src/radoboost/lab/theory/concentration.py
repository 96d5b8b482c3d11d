"""thm_concentration: how far the logistic rado-risk over n rados may lie below the logistic risk over the examples."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from radoboost.lab.paper import domains
from radoboost.lab.paper.jobs import Options, Outcome, Task, cell_generator
from radoboost.lab.theory import Outcomes, Parts, edge_vectors_of
from radoboost.learner.risks import logistic_risk
from radoboost.report.findings import Check, Figure, FindingPart, Panel, ReportColumn, ReportTable, Series

# With margins z_i = theta . e_i, the mean of exp(-theta . rado) over all rados is the product of (1 + exp(-z_i)) / 2,
# and its largest term is exp of the sum of max(0, -z_i). So with Theta = {theta}, where the theorem is at its best,
# varrho is the product of 2 / (1 + exp(-|z_i|)).

ETA = 0.05
PROOF = 16.0  # the constant that the proof gives to the printed Omega(...)

Floats = NDArray[np.float64]


def concentration_penalty(
    log_varrho: float, log_ell: float, n: float, m: int, d: int, constant: float = PROOF
) -> float | None:
    """-log(1 - q / sqrt(n)) / m of ineq. (thc11); None where q reaches sqrt(n): then the bound says nothing.

    q is constant * varrho * sqrt(log(ell) + d log(2 e n / d) + log(1 / eta)). The theorem prints Omega(.) for the
    constant, the proof has 16. log(ell) is r_theta times the largest norm of a rado if Theta is a ball.
    """
    share = constant * math.exp(min(log_varrho, 700.0)) * math.sqrt(_theta_complexity(log_ell, math.log(n), d) / n)
    return -math.log1p(-share) / m if share < 1 else None


def log_least_rados_for_penalty(log_varrho: float, log_ell: float, d: int, constant: float = PROOF) -> float:
    """The logarithm of the number of rados from which on `penalty` is finite."""
    from scipy.optimize import brentq

    def excess(log_n: float) -> float:
        return 2 * (math.log(constant) + log_varrho) + math.log(_theta_complexity(log_ell, log_n, d)) - log_n

    low = max(0.0, math.log(d / 2))  # from here on the share falls as n grows
    return low if excess(low) <= 0 else float(brentq(excess, low, 2 * log_varrho + 100.0 + math.log(d + log_ell + 1)))


def _theta_complexity(log_ell: float, log_n: float, d: int) -> float:
    return log_ell + d * (math.log(2 * math.e / d) + log_n) + math.log(1 / ETA)


def log_varrho(margins: ArrayLike) -> float:
    """The logarithm of varrho with Theta = {theta}, from the examples' margins."""
    return float((math.log(2) - np.logaddexp(0.0, -np.abs(margins))).sum())


def log_ell(margins: ArrayLike) -> float:
    """The logarithm of the largest exp(-theta . rado) over all rados."""
    return float(np.maximum(-np.asarray(margins), 0.0).sum())


def log_rados_that_tell(margins: ArrayLike) -> float:
    """The relative entropy of the weights exp(-theta . rado) to the uniform ones: that of m coins to fair coins.

    With far fewer rados than its exponential nearly all of the rado-risk is missed, with far more nearly nothing.
    Not in the paper.
    """
    z = np.abs(np.asarray(margins, dtype=np.float64))
    small = 1 / (1 + np.exp(z))
    return float((math.log(2) - np.log1p(np.exp(-z)) - small * z).sum())


def frozen_gap(margins: ArrayLike, n: int) -> float:
    """The gap to expect at n rados below `log_rados_that_tell`, where the largest few make up the mean; else 0.

    With Lambda(t) the log-mean of exp(-t theta . rado), the largest of n is about Lambda'(t) for the t at which
    t Lambda'(t) - Lambda(t) = log(n). It is the random energy model, and right to first order in m. Not in the paper.
    """
    from scipy.optimize import brentq

    z = np.asarray(margins, dtype=np.float64)

    def log_mean(t: float) -> float:
        return float((np.logaddexp(0.0, -t * z) - math.log(2)).sum())

    def slope(t: float) -> float:
        return -float((z * np.exp(-np.logaddexp(0.0, t * z))).sum())

    def excess(t: float) -> float:
        return t * slope(t) - log_mean(t) - math.log(n)

    if excess(1.0) <= 0:
        return 0.0
    return (log_mean(1.0) - slope(float(brentq(excess, 0.0, 1.0))) + math.log(n)) / len(z)


def all_rados(edge_vectors: Floats) -> Floats:
    rados = np.zeros((1, edge_vectors.shape[1]))
    for edge_vector in edge_vectors:
        rados = np.concatenate([rados, rados + edge_vector])
    return rados


def rado_margins(margins: Floats, count: int, generator: np.random.Generator) -> Floats:
    """theta . rado of `count` uniform rados, which are summed eight examples at a time."""
    total = np.zeros(count)
    for start in range(0, len(margins), 8):
        sums = all_rados(margins[start : start + 8, None]).ravel()
        total += sums[generator.integers(0, len(sums), count, dtype=np.uint16 if len(sums) > 255 else np.uint8)]
    return total


LENGTHS = (1.0, 0.1, 0.01)  # of theta, as multiples of the length that logistic regression gives
_REACHES = (0.1, 1.0)  # log(ell) in the cells that take a whole ball as Theta
COMPARED = 1000  # the number of rados at which gaps at several m are compared
_FALSE_ALARM = 1e-6
_PREFERRED = ("banknote", "wine_red", "transfusion", "haberman")


def cells(options: Options) -> list[Task]:
    """Balls as Theta over a few examples, where all rados can be listed; one classifier over more and more examples."""
    name = next((name for name in (*_PREFERRED, *options.domains) if name in options.domains), None)
    if name is None:
        return []
    ball_sizes, reaches = ((12,), _REACHES[1:]) if options.quick else ((6, 9, 12), _REACHES)
    classifier_sizes = (12, 100, 1000) if options.quick else (12, 25, 50, 100, 200, 400, 800, 1600)
    return [
        *(Task.of("theory", part="ball", domain=name, m=m, reach=reach) for m in ball_sizes for reach in reaches),
        *(Task.of("theory", part="classifier", domain=name, m=m) for m in classifier_sizes),
    ]


def _concentration_work(cell: Task, options: Options) -> Outcome:
    edge_vectors = edge_vectors_of(cell, options)
    generator = cell_generator(cell, options)
    rows = generator.permutation(len(edge_vectors))[: cell["m"]]
    if cell["part"] == "ball":
        return _ball_concentration(edge_vectors[rows], cell["reach"], generator, options.quick)
    theta = fit_logistic_classifier(edge_vectors)
    return _classifier_concentration(edge_vectors[rows], theta, generator, options.quick)


PARTS = {"ball": _concentration_work, "classifier": _concentration_work}


def fit_logistic_classifier(edge_vectors: Floats) -> Floats:
    """Logistic regression without a constant, and a ridge of 0.01 so that it is finite."""
    from scipy.optimize import minimize

    def risk(theta: Floats) -> tuple[float, Floats]:
        margins = edge_vectors @ theta
        losses = np.logaddexp(0.0, -margins)
        weights = np.exp(-np.logaddexp(0.0, margins))
        return float(losses.sum() + 0.005 * theta @ theta), 0.01 * theta - edge_vectors.T @ weights

    start = np.zeros(edge_vectors.shape[1])
    return np.asarray(minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x)


def _ball_concentration(edge_vectors: Floats, reach: float, generator: np.random.Generator, quick: bool) -> Outcome:
    """Draws of n from all rados, for classifiers in a ball of radius r_theta = reach / (largest norm of a rado)."""
    m, d = edge_vectors.shape
    draws = 60 if quick else 200
    rados = all_rados(edge_vectors)
    radius = reach / float(np.linalg.norm(rados, axis=1).max())
    directions = generator.standard_normal((40, d))
    thetas = radius * directions / np.linalg.norm(directions, axis=1)[:, None]
    thetas = np.concatenate([thetas, thetas / 2, np.zeros((1, d))])
    losses = np.exp(-rados @ thetas.T)
    means = losses.mean(axis=0)
    log_means = np.log(means)
    risks = np.array([logistic_risk(edge_vectors, theta) for theta in thetas])
    rows = []
    for n in (10**2, 10**4, 10**6, 10**8) if quick else (10**2, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8):
        counts = generator.multinomial(n, np.full(len(rados), 1 / len(rados)), draws)
        gaps = (log_means - np.log(counts @ losses / n)) / m
        row: dict[str, Any] = {"n": n, "gap": float(np.quantile(gaps.max(axis=1), 1 - ETA))}
        for name, constant in (("printed", 1.0), ("proof", PROOF)):
            bounds = [concentration_penalty(reach - value, reach, n, m, d, constant=constant) for value in log_means]
            limits = np.array([math.inf if bound is None else bound for bound in bounds])
            row[name] = None if None in bounds else float(limits.min())
            row[f"beyond_{name}"] = int((gaps > limits).any(axis=1).sum())
        rows.append(row)
    difference = float(np.abs(math.log(2) + log_means / m - risks).max())
    return {"d": d, "radius": radius, "draws": draws, "rows": rows, "identity_off": difference}


def _classifier_concentration(
    edge_vectors: Floats, theta: Floats, generator: np.random.Generator, quick: bool
) -> Outcome:
    """One classifier, at several lengths; for a smaller n the first n rados of each draw are taken."""
    m, d = edge_vectors.shape
    draws, sizes = (60, (10, 100, 1000)) if quick else (200, (10, 30, 100, 300, 1000, 3000))
    margins = edge_vectors @ theta
    samples = rado_margins(margins, draws * sizes[-1], generator).reshape(draws, sizes[-1])
    by_length = []
    for length in LENGTHS:
        z = length * margins
        risk = float(np.logaddexp(0.0, -z).mean())
        rows = []
        for n in sizes:
            gaps = risk - math.log(2) - (logsumexp(-length * samples[:, :n], axis=1) - math.log(n)) / m
            bound = concentration_penalty(log_varrho(z), log_ell(z), n, m, d)
            low, middle, high = np.quantile(gaps, [ETA, 0.5, 1 - ETA]).tolist()
            rows.append({"n": n, "low": low, "middle": middle, "high": high, "bound": bound,
                         "expected": frozen_gap(z, n)})  # fmt: skip
            if n == COMPARED:
                compared_gaps = gaps.tolist()
        by_length.append({
            "length": length, "risk": risk, "log_varrho": log_varrho(z), "rows": rows,
            "log_least": log_least_rados_for_penalty(log_varrho(z), log_ell(z), d),
            "log_least_printed": log_least_rados_for_penalty(log_varrho(z), log_ell(z), d, constant=1.0),
            "log_tell": log_rados_that_tell(z), "gaps": compared_gaps,
        })  # fmt: skip
    best_case = log_least_rados_for_penalty(0.0, 0.0, d)
    return {"m": m, "d": d, "draws": draws, "norm": float(np.linalg.norm(theta)), "lengths": by_length,
            "log_least_of_all": best_case}  # fmt: skip


# ---- findings


def findings(parts: Parts) -> Iterator[FindingPart]:
    balls = parts["ball"]
    lines = sorted((outcome for _, outcome in parts["classifier"]), key=lambda outcome: outcome["m"])
    if not balls or not lines:
        yield "thm_concentration: no domain was there to check it on."
        return
    name = domains.SOURCES[balls[0][0]["domain"]].title
    yield from _ball_findings(balls, name)
    yield from _classifier_findings(lines, name)
    yield _concentration_figure(balls, lines, name)
    yield _concentration_gap_figure(lines, name)
    yield (
        "thm_concentration is printed with Omega(.) where an upper bound needs a constant; its proof has 16. The "
        "proof counts classifiers by the growth function of linear separators, which is for losses of 0 and 1. "
        "The exponential loss takes other values, so that step (ineq. eeq2) is not proved. Line (dum11), and "
        "only that one, has lost the factor 1/m of the statement."
    )
    yield (
        "With Theta = {theta}, the best case, varrho is the product of 2 / (1 + exp(-|margin|)) over the examples: "
        "exponential in m where margins do not vanish. 'If m is sufficiently large' (thc22) cannot help then: for "
        "a given classifier with such margins, and a given n, the bound is vacuous from some m on. For "
        "Theta = {theta} log(ell) itself is used, which is at most the printed r_theta max |rado|, in the "
        "paper's favour."
    )


def _ball_findings(balls: Outcomes, name: str) -> Iterator[FindingPart]:
    nats = [ReportColumn(what, "nats", 6) for what in ("gap", "constant 1", "constant 16")]
    yield ReportTable(
        "concentration-ball", f"{name}: a ball of classifiers over a few examples",
        ["m", "log ell", "n", *nats, "draws beyond it"],
        [[cell["m"], cell["reach"], *(row[key] for key in ("n", "gap", "printed", "proof", "beyond_proof"))]
         for cell, outcome in balls for row in outcome["rows"]],
        "Gap: the 95 % quantile of the largest of 81 classifiers in the ball. No bound: vacuous. "
        f"{balls[0][1]['draws']} draws of n rados each, from a list of all 2^m.",
    )  # fmt: skip
    difference = max(outcome["identity_off"] for _, outcome in balls)
    sizes = ", ".join(map(str, sorted({cell["m"] for cell, _ in balls})))
    yield Check(
        "lem_equivlogexp: over all of Sigma_m the logistic rado-risk is the logistic risk",
        difference <= 1e-12,
        f"largest difference {difference:.1e} over all 2^m rados of {sizes} examples and 81 classifiers each "
        "(criterion: 1e-12)",
    )
    yield from (_check_concentration_balls(balls, key, constant) for key, constant in (("proof", 16), ("printed", 1)))


def _check_concentration_balls(balls: Outcomes, key: str, constant: int) -> Check:
    from scipy.stats import binom

    ours = key == "printed"  # the paper's Omega(.) names no constant; 16 is its proof's
    counts = [(o["draws"], row[f"beyond_{key}"]) for _, o in balls for row in o["rows"] if row[key] is not None]
    statement = f"thm_concentration, ineq. (thc11) with the constant {constant}: was not broken in {len(counts)} cases"
    if not counts:
        return Check(statement, None, "the bound was vacuous everywhere", ours=ours)
    limits = [int(binom.isf(_FALSE_ALARM / len(counts), draws, ETA)) for draws, _ in counts]
    why = (
        f"of {len(counts)} cases with a finite bound the worst had {max(beyond for _, beyond in counts)} of "
        f"{counts[0][0]} draws beyond it; eta = {ETA} allows {max(limits)} (false alarm {_FALSE_ALARM:g})"
    )
    holds = all(beyond <= limit for (_, beyond), limit in zip(counts, limits, strict=True))
    return Check(statement, holds, why, ours=ours)


def _classifier_findings(lines: list[Outcome], name: str) -> Iterator[FindingPart]:
    from scipy.stats import binom

    tens = math.log(10)
    yield ReportTable(
        "concentration-classifier", f"{name}: how many rados a classifier needs",
        ["m", ReportColumn("length", digits=2), *(ReportColumn(what, "nats", 4) for what in ("logistic risk", "gap")),
         *(ReportColumn(f"log10 of {what}", digits=1) for what in ("varrho", "least n", "telling n", "2^m"))],
        [[line["m"], part["length"], part["risk"], _row_at_compared(part)["high"], part["log_varrho"] / tens,
          part["log_least"] / tens, part["log_tell"] / tens, line["m"] * math.log10(2)]
         for line in lines for part in line["lengths"]],
        f"Theta = {{theta}}, theta of logistic regression times the length. Gap: 95 % quantile at n = {COMPARED:,}. "
        "Least n: where the bound with the constant 16 becomes finite. Telling n: the exponential of a relative "
        "entropy, about where the gap really closes.",
    )  # fmt: skip
    first, last = lines[0], lines[-1]
    least, total = last["lengths"][0]["log_least"] / tens, last["m"] * math.log10(2)
    yield Check(
        f"thm_concentration: for logistic regression's classifier on {name}, up to m = {last['m']:,}, the bound is "
        "finite at some n < m",
        any(line["lengths"][0]["log_least"] < math.log(line["m"]) for line in lines),
        f"at m = {last['m']:,} the bound for logistic regression's classifier is finite from n = 10^{least:.0f} on, of "
        f"10^{total:.0f} rados in all; with d = {last['d']} and varrho = 1, the least there is, from "
        f"n = {math.exp(last['log_least_of_all']):,.0f} on",
        ours=True,
    )
    gaps = [(a, b) for a, b in zip(first["lengths"][0]["gaps"], last["lengths"][0]["gaps"], strict=False)]
    pairs, n_smaller = len(gaps), sum(b < a for a, b in gaps)
    most = int(binom.isf(_FALSE_ALARM / 2, pairs, 0.5))
    yield Check(
        "thm_concentration: the gap falls as m grows, as (thc22) would have it if varrho did not grow",
        True if n_smaller > most else False if n_smaller < pairs - most else None,
        f"from m = {first['m']} to m = {last['m']:,} the gap at n = {COMPARED:,} fell in {n_smaller} of "
        f"{pairs} pairs of draws; more than {most} would be a fall, fewer than {pairs - most} a rise "
        f"(false alarm {_FALSE_ALARM:g})",
        ours=True,
    )


def _row_at_compared(part: dict[str, Any]) -> dict[str, Any]:
    return next(row for row in part["rows"] if row["n"] == COMPARED)


def _concentration_figure(balls: Outcomes, lines: list[Outcome], name: str) -> Figure:
    cell, ball = balls[-1]
    n, m, tens = [row["n"] for row in ball["rows"]], [line["m"] for line in lines], math.log(10)
    panels = [
        Panel(f"a ball, m = {cell['m']}, log ell = {cell['reach']}", "rados n", "nats", [
            Series(label, n, [row[key] for row in ball["rows"]], style=style)
            for label, key, style in (("gap, 95 % of draws", "gap", "line"), ("bound, constant 16", "proof", "dashed"),
                                      ("bound, constant 1", "printed", "dashed"))
        ], log_x=True, log_y=True),
        Panel("rados that logistic regression's classifier needs", "examples m", "log10 of n", [
            Series("for a finite bound", m, [line["lengths"][0]["log_least"] / tens for line in lines]),
            Series("to close the gap", m, [line["lengths"][0]["log_tell"] / tens for line in lines]),
            Series("all rados, 2^m", m, [line["m"] * math.log10(2) for line in lines], style="dashed"),
        ], log_x=True, log_y=True),
    ]  # fmt: skip
    caption = (
        f"thm_concentration on {name}. Left: over a ball of very short classifiers the bound lies far above the gap "
        "where it is finite at all. Right: for one classifier, logistic regression's on this domain, it is vacuous "
        "until n exceeds the number of all rados."
    )
    return Figure("concentration", "The bound of thm_concentration", caption, panels)


def _concentration_gap_figure(lines: list[Outcome], name: str) -> Figure:
    m, selection = [line["m"] for line in lines], (lines[0], lines[len(lines) // 2], lines[-1])
    compared = [_row_at_compared(line["lengths"][0]) for line in lines]
    panels = [
        Panel("by rados", "rados n", "gap, nats", [
            Series(f"m = {line['m']:,}", [row["n"] for row in rows], [row["middle"] for row in rows])
            for line in selection
            if (rows := line["lengths"][0]["rows"])
        ], log_x=True),
        Panel(f"by examples, n = {COMPARED:,}", "examples m", "nats", [
            Series("gap, median", m, [row["middle"] for row in compared]),
            Series("gap expected", m, [row["expected"] for row in compared], style="dashed"),
            Series("logistic risk", m, [line["lengths"][0]["risk"] for line in lines], style="points"),
        ], log_x=True),
    ]  # fmt: skip
    caption = (
        f"Logistic risk less logistic rado-risk of logistic regression's classifier on {name}, over rados that it was "
        "not learned from. It does not close as m grows. Expected: a few of the rados make up the whole mean (not in "
        "the paper)."
    )
    return Figure("gap", "Logistic risk less logistic rado-risk", caption, panels)
