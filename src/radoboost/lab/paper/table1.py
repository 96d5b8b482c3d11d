"""Table 1 of the paper: AdaBoost_SS on the whole training fold and on n examples of it, RadoBoost on n rados."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.lab.paper import table1_variants
from radoboost.lab.paper.domains import load
from radoboost.lab.paper.jobs import Options, Task, cell_generator
from radoboost.lab.paper.protocol import (
    N_FOLDS,
    N_ROUNDS,
    Folds,
    best_on_examples,
    number_of_rados,
    share_wrong,
    standardise,
    stratified_folds,
    uniform_rados,
)
from radoboost.lab.paper.versus_paper import (
    LEARNERS,
    Row,
    agreement,
    compare_with_paper,
    gather,
    paper,
    picture,
    printed_error,
)
from radoboost.learner.boost import boost
from radoboost.report.findings import Check, Findings, ReportColumn, ReportTable

NAME = "table1"
TITLE = "Table 1: RadoBoost on n rados against AdaBoost_SS on examples"
VERSION = 2
QUICK_FOLDS = 3


@dataclass(frozen=True, eq=False)
class PreparedDomain:
    """A domain ready for its folds: edge vectors of z-scores, classes, folds, and what the table says about it."""

    edges: NDArray[np.float64]
    signs: NDArray[np.float64]
    folds: Folds
    facts: dict[str, Any]


@lru_cache(maxsize=1)
def prepare(name: str, data: str, seed: int) -> PreparedDomain:
    """Load a domain, scale it and deal out its folds, which are the same in all experiments with that seed."""
    domain = load(name, data)
    generator = cell_generator(Task.of("folds", domain=name), Options(data, (), seed))
    folds = stratified_folds(domain.signs, N_FOLDS, generator)
    # Not centred, as the paper's 100 sigma must have been counted: only so the counts agree with it.
    spread = domain.x.std(axis=0, ddof=1)
    beyond = np.abs(domain.x).max(axis=0) > 100 * spread
    mean = domain.x.mean(axis=0)
    farthest = np.maximum(domain.x.max(axis=0) - mean, mean - domain.x.min(axis=0))
    edges = standardise(domain.x)
    facts = {
        "m": len(domain.x),
        "d": domain.x.shape[1],
        "beyond": int(beyond.sum()),
        "beyond_centred": int((farthest > 100 * spread).sum()),
        "complete": domain.complete,
    }
    edges *= domain.signs[:, None]
    return PreparedDomain(edges, domain.signs, folds, facts)


def cells(options: Options) -> list[Task]:
    """One for each domain and fold, and those that explain the column of n examples."""
    return fold_cells(options) + explaining_cells(NAME, options)


def fold_cells(options: Options, clamp: float = 0.0) -> list[Task]:
    """One for each domain and fold, of three learners."""
    return [Task.of(NAME, domain=name, fold=fold, clamp=clamp) for name in options.domains for fold in _folds(options)]


def explaining_cells(name: str, options: Options, clamp: float = 0.0) -> list[Task]:
    """The domains on which a table of the paper has other errors on n examples: variants by fold, and draws."""
    chosen = [domain for domain in table1_variants.DOMAINS[name] if domain in options.domains and not options.quick]
    draws = range(table1_variants.N_DRAWS)
    return [
        *(
            Task.of(NAME, domain=domain, fold=fold, clamp=clamp, part="varied")
            for domain in chosen
            for fold in _folds(options)
        ),
        *(Task.of(NAME, domain=domain, draw=draw, clamp=clamp, part="draw") for domain in chosen for draw in draws),
    ]


def printed_cells(options: Options, clamp: float) -> list[Task]:
    return [
        Task.of(NAME, domain=name, fold=fold, clamp=clamp, part="printed-weights")
        for name in options.domains
        for fold in _folds(options)
    ]


def _folds(options: Options) -> range:
    return range(QUICK_FOLDS if options.quick else N_FOLDS)


def work(cell: Task, options: Options) -> dict[str, Any]:
    """Three learners on one fold: their test errors, and the smallest |r_t| that each has seen."""
    domain = prepare(cell["domain"], options.data, options.seed)
    if cell.get("part") == "draw":
        n = number_of_rados(len(domain.folds[0][0]))
        return table1_variants.one_draw(domain.edges, n, cell["clamp"], _generator(cell, options, "draw"))
    train, test = domain.folds[cell["fold"]]
    n = number_of_rados(len(train))
    if cell.get("part") == "varied":
        return {
            variant.title: table1_variants.vary(
                domain.edges, domain.signs, train, test, n, variant, cell["clamp"], _generator(cell, options, "fold")
            )
            for variant in table1_variants.VARIANTS
        }
    generator = _generator(cell, options, "fold")
    edges = domain.edges[train]
    rows = {
        "adaboost": edges,
        "adaboost_sub": edges[generator.choice(len(train), n, replace=False)],
        "radoboost": uniform_rados(edges, n, generator),
    }
    if cell.get("part") == "printed-weights":
        return table1_variants.error_of_fold(rows["radoboost"], edges, domain.edges[test], cell["clamp"], generator)
    error, least = {}, {}
    for name, matrix in rows.items():
        update = "multiplicative" if name == "radoboost" else "exponential"
        rounds = boost(matrix, n_rounds=N_ROUNDS, update=update, clamp=cell["clamp"]).rounds
        theta = best_on_examples(rounds, edges, edges.shape[1])
        error[name] = share_wrong(theta, domain.edges[test], generator)
        least[name] = float(np.abs(rounds.edge).min(initial=1.0))
    return {**domain.facts, "n": n, "n_train": len(train), "error": error, "least_edge": least}


def _generator(cell: Task, options: Options, purpose: str) -> np.random.Generator:
    """The same draws with and without the clamp, and for all variants on a fold, so that they can be compared."""
    return cell_generator(Task.of(NAME, domain=cell["domain"], **{purpose: cell[purpose]}), options)


def findings(outcomes: dict[Task, dict[str, Any]], options: Options) -> Findings:
    """The table, the same beside the paper's, what agrees, and why the rest does not."""
    rows = gather(outcomes)
    checks = [
        agreement(NAME, rows, ("adaboost", "radoboost"), 2, options),
        agreement(NAME, rows, ("adaboost_sub",), len(table1_variants.DOMAINS[NAME]), options),
        _outliers(rows),
        *_impressive(rows),
    ]
    explained, reasons = explanation(NAME, outcomes, 0.0)
    tables = [errors(rows), compare_with_paper(NAME, rows), *explained]
    notes = protocol(options)
    return Findings(NAME, TITLE, tables=tables, figures=[picture(NAME, rows)], checks=checks + reasons, notes=notes)


def protocol(options: Options) -> list[str]:
    """How the errors were got."""
    notes = [
        "Ten stratified folds, z-scores over the whole domain, no constant feature, 1000 rounds, n = min(1000, half of "
        "the training fold). Kept is the iterate with the smallest error on the training examples, the last on ties; "
        "a learner that has only rados cannot make that choice.",
    ]
    return [*notes, f"A quick run: {QUICK_FOLDS} of the ten folds."] if options.quick else notes


def errors(rows: Sequence[Row]) -> ReportTable:
    """The columns of the paper's Table 1."""
    columns: list[ReportColumn | str] = [
        "domain", "m", "d", "100 sigma",
        *(ReportColumn(f"{title}{end}", "%", 2) for title in LEARNERS.values() for end in ("", ", std")),
        ReportColumn("n/m", digits=4), ReportColumn("log10(n/2^m)", digits=0),
        ReportColumn("p", digits=3), ReportColumn("p'", digits=3),
    ]  # fmt: skip
    lines = []
    for row in rows:
        facts, n, size = row.facts, row.facts["n"], row.facts["n_train"]
        summaries = [row.summary(learner) for learner in LEARNERS]
        numbers = [number for summary in summaries for number in (summary.mean, summary.std)]
        power = math.log10(n) - size * math.log10(2)
        tests = [row.p("adaboost"), row.p("adaboost_sub")]
        lines.append([row.title, facts["m"], facts["d"], facts["beyond"], *numbers, n / size, power, *tests])
    note = (
        "100 sigma: features with some |x| > 100 standard deviations, not centred. n/m and n/2^m: m of the training "
        "fold. p: AdaBoost_SS against RadoBoost, p': AdaBoost_SS on n examples against RadoBoost, two-tailed paired "
        "t-tests."
    )
    return ReportTable("errors", "Test errors", columns, lines, note)


def _outliers(rows: Sequence[Row]) -> Check:
    complete = [row for row in rows if row.complete]
    wrong = [
        f"{row.title} has {row.facts['beyond']}"
        for row in complete
        if row.facts["beyond"] != int(paper(NAME)[row.name]["features_beyond_100_sigma"])
    ]
    holds = not wrong if complete else None
    centred = [
        f"{row.title} {row.facts['beyond_centred']} ({row.facts['beyond']})"
        for row in complete
        if row.facts["beyond_centred"] != row.facts["beyond"]
    ]
    why = "; ".join(wrong) or (f"on all {len(complete)} domains" if complete else "no domain of the paper was run")
    if centred:
        why += f". Centred there would be fewer: {', '.join(centred)}"
    return Check(
        "As many features as in the paper have values beyond 100 standard deviations, not centred",
        holds,
        why,
    )


def _impressive(rows: Sequence[Row]) -> Iterator[Check]:
    """What the paper calls impressive: RadoBoost against AdaBoost_SS on Hardware and Twitter."""
    for row in rows:
        if row.name in ("hardware", "twitter") and row.complete:
            ours, theirs = row.summary("radoboost").mean, row.summary("adaboost").mean
            p = row.p("adaboost")
            yield Check(
                f"On {row.title} RadoBoost has a far smaller error than AdaBoost_SS",
                ours < theirs and p < 0.01,
                f"{ours:.2f} % against {theirs:.2f} %, p = {p:.1e}",
            )


def explanation(
    name: str, outcomes: Mapping[Task, dict[str, Any]], clamp: float
) -> tuple[list[ReportTable], list[Check]]:
    """Why the column of n examples differs, on the domains where it does."""
    parts: dict[str, dict[str, list[dict[str, float]]]] = {"varied": {}, "draw": {}}
    for cell, outcome in outcomes.items():
        if cell["clamp"] == clamp and cell.get("part") in parts:
            parts[cell["part"]].setdefault(cell["domain"], []).append(outcome)
    if not parts["varied"]:
        return [], []
    theirs = {domain: printed_error(name, domain, "adaboost_sub") for domain in parts["varied"]}
    explained, checks = table1_variants.explain(parts["varied"], parts["draw"], theirs)
    return [explained], checks
