"""How right a model's probabilities are, on rows of known classes: any number of models, in one pass over a table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.learner.model import Model
from radoboost.learner.predict import Unjudged, unjudged_rows
from radoboost.learner.rows import filled_batches, open_rows, scores_of
from radoboost.progress import Progress, silent
from radoboost.tables.labels import LabelRule
from radoboost.tables.streams import at_rest

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

    def in_words(self) -> str:
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


def judge(models: Sequence[Model], table: Any, label: str, bar: Progress = silent) -> list[Reliability]:
    """The reliability of each of some models of the same columns, on the rows of a table whose class is known.

    The table is read once, as `rado predict` reads it: gaps are filled. Rows without a label, or with one that is none
    of the classes, are left out and counted.
    """
    first, counts, unjudged, n_rows = models[0], [_Counts(model) for model in models], Unjudged(), 0
    rule = LabelRule(label, first.classes)
    with at_rest(table, bar=bar) as rows:
        source = open_rows(first, rows, label)
        for batch, values, _ in filled_batches(first, source):
            truth = rule.places_or_none(batch.labels)
            known = truth >= 0
            for each in counts:
                each.add(scores_of(each.model, source, values)[known], truth[known])
            unjudged += unjudged_rows(batch, truth)
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
