"""How right a model's probabilities are, on rows of known classes: any number of models, in one pass over a table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.learner.diagnostics import NormalScores
from radoboost.learner.model import Model
from radoboost.learner.moments import noise_variance_of_rados
from radoboost.learner.predict import UnlabelledRows, count_unlabelled_rows
from radoboost.learner.row_reader import fill_row_batches, open_rows_to_score, scores_of_rows
from radoboost.progress import Progress, silent
from radoboost.release.columns import CONSTANT
from radoboost.release.moment_math import EDGES
from radoboost.release.release import RADOS, Release
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.streams import spool_for_rereading

N_BINS = 10
_LEAST = 1e-15  # a probability of 0 for what happened would be an infinite loss


@dataclass(frozen=True)
class Bin:
    """Rows whose probability is from `low` to `high`: how many, its mean, and how often it came true."""

    low: float
    high: float
    n_rows: int
    predicted: float | None
    observed: float | None


@dataclass(frozen=True)
class Reliability:
    """What a model's predictions are worth on the judged rows of a table: exact numbers about these rows.

    The probability of a bin is that of the positive class; of more than two classes it is that of the class which was
    predicted. `calibration_error` is the mean distance between what was predicted and what was observed, over rows, by
    their bins. `log_loss` is the mean of -log(probability of the true class), and `base_loss` what it would be if
    every row had the shares of the classes among these rows as its probabilities.
    """

    n_rows: int
    n_wrong: int
    log_loss: float
    base_loss: float
    calibration_error: float
    bins: tuple[Bin, ...]
    n_left_out: int = 0

    @property
    def error(self) -> float:
        """The share of rows that are predicted wrongly."""
        return self.n_wrong / self.n_rows

    @property
    def standard_error(self) -> float:
        """Of that share, by the number of rows."""
        share = (self.n_wrong + 1) / (self.n_rows + 2)
        return math.sqrt(share * (1 - share) / self.n_rows)

    def as_text(self) -> str:
        """The error, and how far off it may be by the number of rows."""
        return f"{100 * self.error:.2f} %, give or take {200 * self.standard_error:.2f} by their number"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "error": self.error, "standard_error": self.standard_error}


class _Counts:
    """What has been seen of one model so far."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.sums = np.zeros((3, N_BINS))  # rows, probabilities and hits, by bin
        self.classes = np.zeros(model.n_classes, np.int64)
        self.wrong, self.loss = 0, 0.0

    def add(self, scores: NDArray[np.float64], truth: NDArray[np.int64]) -> None:
        """Count rows of these true classes."""
        model = self.model
        chances, choices = model.probabilities(scores), model.choices(scores)
        self.wrong += int((choices != truth).sum())
        self.loss -= float(np.log(np.maximum(chances[np.arange(len(truth)), truth], _LEAST)).sum())
        self.classes += np.bincount(truth, minlength=model.n_classes)
        chance, hit = (chances[:, 1], truth == 1) if model.n_classes == 2 else (chances.max(axis=1), choices == truth)
        places = np.minimum((chance * N_BINS).astype(np.int64), N_BINS - 1)
        for row, weights in zip(self.sums, (np.ones(len(truth)), chance, hit.astype(np.float64)), strict=True):
            row += np.bincount(places, weights, N_BINS)

    def reliability(self, left_out: int) -> Reliability:
        rows, chances, hits = self.sums
        n_rows = int(rows.sum())
        shares = self.classes[self.classes > 0] / n_rows
        bins = tuple(
            Bin(k / N_BINS, (k + 1) / N_BINS, int(n), chance / n if n else None, hit / n if n else None)
            for k, (n, chance, hit) in enumerate(self.sums.T.tolist())
        )
        return Reliability(
            n_rows,
            self.wrong,
            self.loss / n_rows,
            float(-shares @ np.log(shares)),
            float(np.abs(chances - hits).sum() / n_rows),
            bins,
            left_out,
        )


def judge_reliability(models: Sequence[Model], table: Any, label: str, bar: Progress = silent) -> list[Reliability]:
    """The reliability of each of some models of the same columns, on the rows of a table whose class is known.

    The table is read once, as `rado predict` reads it: gaps are filled. Rows without a label, or with one that is none
    of the classes, are left out and counted.
    """
    first, counts, unjudged, n_rows = models[0], [_Counts(model) for model in models], UnlabelledRows(), 0
    rule = LabelEncoder(label, first.classes)
    with spool_for_rereading(table, bar=bar) as rows:
        source = open_rows_to_score(first, rows, label)
        for batch, values, _ in fill_row_batches(first, source):
            truth = rule.places_or_none(batch.labels)
            known = truth >= 0
            for each in counts:
                each.add(scores_of_rows(each.model, source, values)[known], truth[known])
            unjudged += count_unlabelled_rows(batch, truth)
            n_rows += len(truth)
            bar("judging rows", n_rows, source.expected_rows(n_rows))
        source.check_rows(n_rows)
    left_out = unjudged.missing + unjudged.unknown
    if left_out == n_rows:
        raise TableError(
            f"{source.name} has no row whose label in {label!r} is a class of the model "
            f"({', '.join(map(str, first.classes))}); name another column with --label"
        )
    return [each.reliability(left_out) for each in counts]


# ---- What rados say of a classifier that was not learned from them, without any example.
#
# For m examples and signatures that take each with probability q, theta' rado has the mean q theta'M and the
# variance q (1 - q) theta'S theta, where M is the sum of the edge vectors y_i x_i and S that of the products x_i
# x_i'. So rados tell the mean of y_i s_i and of s_i^2 over the scores s_i of all examples, and with the constant
# column, whose edge is y_i, also the mean of s_i. From these follow the share of the labels' variance that scores
# explain, and, where the scores of each class are about normal, how many of them are on the wrong side of 0.
#
# All of it is about the examples that the rados sum. On new ones a classifier errs more, the more so the more
# columns there are for each example; noise of the rados that theta was learned from is seen, for they are not
# those it is held against.

_DEVIATIONS = 2.0  # of the draw of the rados, beyond which what is left of the labels' variance is known


@dataclass(frozen=True)
class Margins:
    """The share of the labels' variance that scores explain, and the share of examples on the wrong side of 0.

    `spread` is the standard error of the first, by the draw of the rados; so it may come out above 1. The second is
    None where so much is explained that the draw does not tell how little is left.
    """

    r2: float
    spread: float
    error: float | None


def release_tells_margins(release: Release) -> bool:
    """Whether a release has rados with a sign for each row, and says how many rows there are."""
    return release.n_classes == 2 and RADOS in release.blocks and release.n_examples is not None


def held_out_margins(release: Release, held: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Margins:
    """What rados of a release say of classifiers, on average: each theta comes with at least two held-out rados."""
    noise = noise_variance_of_rados(release)
    has_constant = release.columns[-1].name == CONSTANT
    m = float(release.n_examples or math.nan)
    share = float(release.signatures.get("support", m / 2)) / m
    fixed = "support" in release.signatures
    found = []
    for theta, rados in held:
        unit = float((release.rados @ theta).std())
        weights = theta / (unit if unit > 0 else 1.0)
        pair = np.column_stack([rados @ weights, rados[:, -1] if has_constant else np.zeros(len(rados))])
        mean, excess = pair.mean(axis=0) / (share * m)
        spread = np.cov(pair.T)[0] - noise * np.array([weights @ weights, weights[-1]])
        second = spread / (share * (1 - share) * m)
        if fixed:  # how many examples a rado has does not vary
            second = second * (m - 1) / m + mean * np.array([mean, excess])
        found.append((mean, excess, *second))
    mean, excess, variance, middle = np.mean(found, axis=0).tolist()
    n_rados = sum(len(rados) for _, rados in held)
    return _margins_from_means(mean, excess, variance, middle if has_constant else None, math.sqrt(2 / n_rados))


def _margins_from_means(mean: float, excess: float, variance: float, middle: float | None, chance: float) -> Margins:
    """From the means of y s, of y, of s^2 and of s, and how far off the third is, as a share of itself."""
    if variance <= 0:  # less than the noise that was subtracted
        return Margins(0.0, 1.0, 0.5)
    r2 = max(mean, 0.0) ** 2 / variance
    known = 1 - r2 > _DEVIATIONS * chance * r2
    error = NormalScores.of(mean, variance, middle, excess).error if known else None
    return Margins(r2, r2 * chance, error)


def error_by_noisy_counts(release: Release) -> tuple[float, float] | None:
    """The share of a table's own rows on the wrong side of 0, by noisy counts that a release of moments has.

    With it comes its standard deviation by the declared noise; None where there are no such counts, or noise hides how
    many rows there are.
    """
    if release.n_classes != 2 or "scores" not in release.blocks:
        return None
    noise = float(release.mechanism["noise"]["scores"])
    cells = release.blocks["scores"].reshape(2, 2, len(EDGES) + 1)  # by side of 0, class and size
    counts = cells.sum(axis=2)
    total, wrong = float(counts.sum()), float(counts[0, 1] + counts[1, 0])
    half = cells.size / 2
    if total <= _DEVIATIONS * noise * math.sqrt(cells.size):
        return None
    error = min(max(wrong / total, 0.0), 1.0)
    return error, noise * math.sqrt(half * (error**2 + (1 - error) ** 2)) / total
