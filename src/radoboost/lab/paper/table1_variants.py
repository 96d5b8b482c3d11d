"""Where our AdaBoost_SS on n examples differs from the paper's: its protocol varied, one thing at a time.

The edge of a feature is divided by x_*k, its largest |value|. Over the n examples that are learned from, as the
algorithm reads, our errors come out on EEG and Hardware; over the whole training fold, the paper's do. Where features
have outliers that value is seldom among n examples, and every step of boosting is smaller for it. That is a reason that
fits both domains, found after the fact, and no proof: as many examples of each class fits Hardware, too. On Fertility
and Haberman n is so small that draws differ widely, and the paper's error is one of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.lab.paper.domains import SOURCES
from radoboost.lab.paper.protocol import N_ROUNDS, Summary, best_on_examples, share_wrong, summarise
from radoboost.learner.boost import LEAST_EDGE, Rounds
from radoboost.report.findings import Check, ReportColumn, ReportTable

DOMAINS = {"table1": ("eeg", "hardware"), "table3": ("fertility", "haberman", "eeg", "hardware")}
"""Where the column differs, or may with another seed, by table of the paper."""
N_DRAWS = 20
_PARTS = 5
_NOTE = (
    "Mean and standard deviation over folds, with a draw of n examples in each; in the rows of draws: over draws, each "
    "tested on all other rows. The authors' published program takes the largest |value| over the training fold, and as "
    "n examples its first n rows, most of which are the same from fold to fold. If the paper's figures were made so, "
    "their standard deviations tell of test folds, and their means are those of about one draw. The variants were "
    "looked through after the difference was seen: one that fits is a reason that fits, and more than one may."
)


@dataclass(frozen=True)
class Variant:
    """How n examples are drawn and learned from; the defaults are the protocol as it is written."""

    title: str
    largest: str = "sample"
    kept_on: str = "fold"
    share: float = 1.0
    replace: bool = False
    balanced: bool = False
    rescaled: bool = False
    most: float = 1 - LEAST_EDGE


AS_WRITTEN = Variant("as written: largest |value| over the n examples")
OVER_THE_FOLD = Variant("largest |value| over the training fold", largest="fold")
VARIANTS = (
    AS_WRITTEN,
    Variant("drawn with replacement", replace=True),
    Variant("as many of each class", balanced=True),
    Variant("half of the n examples", share=0.5),
    Variant("twice the n examples", share=2.0),
    Variant("z-scores over the n examples", rescaled=True),
    Variant("iterate chosen on the n examples", kept_on="sample"),
    Variant("last iterate", kept_on="none"),
    Variant("edges cut at 0.8", most=0.8),
    OVER_THE_FOLD,
    Variant("that, and edges cut at 0.8", largest="fold", most=0.8),
)


def boost_examples(
    rows: NDArray[np.float64], largest: NDArray[np.float64], *, most: float = 1 - LEAST_EDGE, clamp: float = 0.0
) -> Rounds:
    """AdaBoost_SS in plain NumPy, with given numbers to divide features by, and |edges| from clamp to most."""
    weights = np.full(len(rows), 1 / len(rows))
    feature, edge, leverage = [], [], []
    for _ in range(N_ROUNDS):
        edges = np.clip(weights @ rows / largest, -most, most)
        k = int(np.argmax(np.abs(edges)))
        if abs(edges[k]) < LEAST_EDGE:
            break
        r = np.copysign(max(abs(edges[k]), clamp), edges[k])
        alpha = (np.log1p(r) - np.log1p(-r)) / (2 * largest[k])
        weights *= np.exp(-alpha * rows[:, k])
        weights /= weights.sum()
        feature.append(k)
        edge.append(r)
        leverage.append(alpha)
    return Rounds(np.array(feature, dtype=np.int64), np.array(edge), np.array(leverage), np.zeros(len(feature)))


def vary(
    edges: NDArray[np.float64],
    signs: NDArray[np.float64],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    n: int,
    variant: Variant,
    clamp: float,
    generator: np.random.Generator,
) -> float:
    """The test error of AdaBoost_SS on n examples, one thing changed; edge vectors and classes are the domain's."""
    draws = _draw(train, signs, max(1, int(variant.share * n)), variant, generator)
    if variant.rescaled:
        sample = edges[draws] * signs[draws, None]
        spread = sample.std(axis=0)
        edges = (edges * signs[:, None] - sample.mean(axis=0)) / np.where(spread > 0, spread, 1.0) * signs[:, None]
    rows = edges[draws]
    largest = np.abs(edges[train] if variant.largest == "fold" else rows).max(axis=0)
    rounds = boost_examples(rows, np.where(largest > 0, largest, 1.0), most=variant.most, clamp=clamp)
    d = edges.shape[1]
    if variant.kept_on == "none":
        theta = rounds.theta(d)
    else:
        theta = best_on_examples(rounds, edges[train] if variant.kept_on == "fold" else rows, d)
    return share_wrong(theta, edges[test], generator)


def _draw(
    train: NDArray[np.int64], signs: NDArray[np.float64], n: int, variant: Variant, generator: np.random.Generator
) -> NDArray[np.int64]:
    if not variant.balanced:
        return generator.choice(train, n, replace=variant.replace)
    classes = [train[signs[train] == sign] for sign in (-1, 1)]
    half = min(n // 2, *map(len, classes))
    return np.concatenate([generator.choice(rows, half, replace=False) for rows in classes])


def one_draw(edges: NDArray[np.float64], n: int, clamp: float, generator: np.random.Generator) -> dict[str, float]:
    """The error on all other rows of what one draw of n examples gives, either way of taking the largest |value|.

    The other rows are tested a part at a time, and the iterate is chosen on all but that part.
    """
    order = generator.permutation(len(edges))
    sample, others = edges[order[:n]], np.array_split(order[n:], _PARTS)
    errors = {}
    for variant in (AS_WRITTEN, OVER_THE_FOLD):
        largest = np.abs(sample if variant is AS_WRITTEN else edges).max(axis=0)
        rounds = boost_examples(sample, np.where(largest > 0, largest, 1.0), clamp=clamp)
        wrong = 0.0
        for part in others:
            theta = best_on_examples(rounds, np.delete(edges, part, axis=0), edges.shape[1])
            wrong += len(part) * share_wrong(theta, edges[part], generator)
        errors[variant.title] = wrong / (len(edges) - n)
    return errors


def explain(
    folds: Mapping[str, Sequence[dict[str, float]]],
    draws: Mapping[str, Sequence[dict[str, float]]],
    paper: Mapping[str, Summary],
) -> tuple[ReportTable, list[Check]]:
    """What each variant gives, and whether the paper's figure is a likely draw; errors by domain, fold and variant."""
    both = (AS_WRITTEN, OVER_THE_FOLD)
    columns = [ReportColumn("variant")]
    rows: list[list[Any]] = [[variant.title] for variant in VARIANTS]
    rows += [[f"{variant.title}: {N_DRAWS} draws"] for variant in both]
    rows += [["the paper"]]
    checks = []
    for name, outcomes in folds.items():
        title, theirs = SOURCES[name].title, paper[name]
        columns += [ReportColumn(title, "%", 2), ReportColumn(f"{title}, std", "%", 2)]
        of_draws = [summarise([draw[variant.title] for draw in draws[name]]) for variant in both]
        of_folds = [summarise([fold[variant.title] for fold in outcomes]) for variant in VARIANTS]
        for row, summary in zip(rows, [*of_folds, *of_draws, theirs], strict=True):
            row += [summary.mean, summary.std]
        checks.append(_likely(title, theirs, draws[name]))
    return ReportTable("sampled", "AdaBoost_SS on n examples, its protocol varied", columns, rows, _NOTE), checks


def _likely(title: str, theirs: Summary, draws: Sequence[dict[str, float]]) -> Check:
    """Whether the paper's figure may be that of one draw, with largest |values| over the fold.

    It may if it is within two standard deviations, which add that of a draw to the paper's standard error over folds.
    """

    def describe(variant: Variant) -> tuple[float, str]:
        errors = [draw[variant.title] for draw in draws]
        summary = summarise(errors)
        away = abs(theirs.mean - summary.mean) / math.hypot(summary.std, theirs.std / math.sqrt(theirs.n))
        return away, (
            f"{summary.mean:.2f} ± {summary.std:.2f} % (from {100 * min(errors):.2f} to {100 * max(errors):.2f}), "
            f"{away:.1f} standard deviations from the paper's"
        )

    (away, over_the_fold), (_, written) = describe(OVER_THE_FOLD), describe(AS_WRITTEN)
    statement = (
        f"AdaBoost(n) on {title}: the paper's {theirs.mean:.2f} % is a likely draw of n examples where features are "
        "divided by their largest |value| over the training fold"
    )
    why = f"{len(draws)} draws give {over_the_fold}; with the largest |value| over the n examples {written}"
    return Check(statement, away <= 2, why, ours=True)


# ---- RadoBoost's weights as Algorithm 1 prints them: each round divides by 1 - r_t^2, and nothing makes them sum to
# 1.
#
# In exact arithmetic they do sum to 1. In floating point a sum of 1 + s becomes 1 + s / (1 - r_t^2), so that a
# rounding error grows from round to round: downwards the edges shrink to almost nothing, upwards the weights
# overflow. The package divides by the sum instead, which is the same in exact arithmetic, and keeps the edges
# where they are.


def boost_with_printed_weights(
    rows: NDArray[np.float64], *, n_rounds: int = N_ROUNDS, clamp: float = 0.0
) -> tuple[Rounds, float, float]:
    """RadoBoost in plain NumPy with those weights; its rounds, the least |r_t| before the clamp, and the last sum.

    It ends where the weights overflow or no edge is left.
    """
    largest = np.abs(rows).max(axis=0)
    divisor = np.where(largest > 0, largest, 1.0)
    scaled = np.ascontiguousarray((rows / divisor).T)
    weights = np.full(len(rows), 1 / len(rows))
    feature, edge, leverage, least = [], [], [], 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(n_rounds):
            edges = scaled @ weights
            if not np.isfinite(edges).all():
                break
            k = int(np.argmax(np.abs(edges)))
            least = min(least, float(abs(edges[k])))
            if abs(edges[k]) < LEAST_EDGE:
                break
            r = np.copysign(min(max(abs(edges[k]), clamp), 1 - LEAST_EDGE), edges[k])
            weights = weights * ((1 - r * scaled[k]) / (1 - r * r))
            feature.append(k)
            edge.append(r)
            leverage.append((np.log1p(r) - np.log1p(-r)) / (2 * divisor[k]))
        total = float(weights.sum())
    rounds = Rounds(np.array(feature, dtype=np.int64), np.array(edge), np.array(leverage), np.zeros(len(feature)))
    return rounds, least, total


def error_of_fold(
    rados: NDArray[np.float64],
    train: NDArray[np.float64],
    test: NDArray[np.float64],
    clamp: float,
    generator: np.random.Generator,
) -> dict[str, Any]:
    """The test error, by the protocol of Table 1, and the least |r_t|; `train` and `test` are edge vectors."""
    rounds, least, _ = boost_with_printed_weights(rados, clamp=clamp)
    theta = best_on_examples(rounds, train, train.shape[1])
    return {"error": share_wrong(theta, test, generator), "least_edge": least}
