"""Which columns a release of `moments` would have, before anything is spent: from public numbers alone.

The rule of `feature_plan` goes by the noisy size of a table, and that is about its number of rows: so whoever knows
about how many rows there are knows about which plan they get.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from radoboost.errors import ArgumentError, whole_number
from radoboost.holder.feature_maps import DEGREES
from radoboost.holder.mechanisms.moments.aggregations import GRID
from radoboost.holder.mechanisms.moments.budget import NoiseShape, released_stage_noise
from radoboost.holder.mechanisms.moments.feature_plan import (
    AUTO,
    FEW_ROUNDS,
    FeatureCandidates,
    FeaturePlan,
    check_feature_candidates,
    planned_rounds,
)
from radoboost.holder.mechanisms.moments.moments import Moments
from radoboost.release.statement_text import plan_text
from radoboost.tables.labels import check_number_of_classes

LINEAR = "linear"


@dataclass(frozen=True)
class PlanPreview:
    """The plan that about so many rows get, and what noise depends on with it."""

    mechanism: Moments
    n_examples: int
    plan: FeaturePlan
    shape: NoiseShape

    @property
    def noise(self) -> dict[str, float]:
        """The noise of each stage, in units of what its block holds."""
        return released_stage_noise(self.mechanism.scales(self.plan.rounds, self.shape))

    def sentence(self) -> str:
        return (
            f"about {self.n_examples:,} rows at epsilon {self.mechanism.epsilon:g}, for "
            f"{self.mechanism.relation_for(self.shape).value}, carry {plan_text(self.plan.to_dict())}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**self.plan.to_dict(), "sentence": self.sentence()}

    def forecast(self) -> "ErrorForecast":
        """What error to expect."""
        return forecast_of_release(self.mechanism, self.n_examples, self.shape)

    def account(self, word: Any, others: Mapping[str, "PlanPreview"], n_features: int) -> dict[str, Any]:
        """The plan, its noise, and what error to expect, also of what `others` give for columns, as JSON data."""
        forecast, n_classes = self.forecast(), self.shape.n_classes
        by_word = [
            {"word": other, "n_columns": one.plan.n_columns, "expected": dict(one.forecast().errors)[TYPICAL]}
            for other, one in others.items()
        ]
        expected = {
            "rows": self.n_examples,
            "columns": n_features,
            **({} if n_classes == 2 else {"n_classes": n_classes}),
            "carries": forecast.carries,
            "enough": forecast.enough().removeprefix("; "),
            "errors": [{"without_noise": best, "expected": error} for best, error in forecast.errors],
            "unrelated": forecast.unrelated,
            "enough_rows": forecast.enough_rows,
            "enough_epsilon": forecast.enough_epsilon,
            "typical": TYPICAL,
            "by_word": by_word,
        }
        return {"plan": {"word": word, **self.to_dict()}, "noise": self.noise, "expected": expected}


def preview_columns(mechanism: Moments, rows: int, outlook: FeatureCandidates | None, shape: NoiseShape) -> PlanPreview:
    """The plan of about so many rows; without an outlook, columns are fixed beforehand."""
    whole_number(rows, "the number of rows")
    strength = mechanism.strength(float(rows), shape)
    if outlook is None:
        width = shape.n_columns
        return PlanPreview(
            mechanism, rows, FeaturePlan((), width, *planned_rounds(False, strength / width, mechanism.sharpen)), shape
        )
    plan = mechanism.choose(outlook, float(rows), strength, shape)
    return PlanPreview(mechanism, rows, plan, replace(shape, n_planned=plan.n_columns) if plan.beyond else shape)


def preview_plan(
    mechanism: Moments,
    rows: int,
    columns: int,
    word: str = AUTO,
    *,
    private_bounds: bool = False,
    n_classes: int = 2,
) -> PlanPreview:
    """Which columns about `rows` rows of so many `columns`, all of them numbers, get; `word` is as `craft` has it.

    Nothing is read, and nothing is spent. With `private_bounds` those of all columns are searched for. The rule goes by
    a noisy number of rows, so near a threshold the release may have another plan. The more classes, the fewer columns.

    >>> import radoboost as rb
    >>> rb.preview_plan(rb.Moments(1.0), 800, 10).plan.classes
    ()
    >>> [rb.preview_plan(rb.Moments(1.0), 19_000, 10, n_classes=k).plan.n_columns for k in (2, 4, 16)]
    [441, 76, 11]
    """
    check_number_of_classes(n_classes)
    whole_number(columns, "the number of columns")
    outlook, searched = candidates_for_preview(columns, word), columns if private_bounds else 0
    shape = NoiseShape(columns + 1, searched, n_classes=n_classes)
    if outlook is None:
        return preview_columns(mechanism, rows, None, shape)
    check_feature_candidates(outlook)
    return preview_columns(mechanism, rows, outlook, outlook.shaped(shape))


def candidates_for_preview(n_columns: int, word: str) -> FeatureCandidates | None:
    """What a plan of so many numbers may be made of; None where they stay as they are."""
    if word not in (AUTO, LINEAR, *DEGREES):
        raise ArgumentError(f"columns follow from one of {', '.join((AUTO, LINEAR, *DEGREES))}; it is {word!r}")
    return None if word == LINEAR else FeatureCandidates(tuple(f"x{k}" for k in range(n_columns)), {}, word)


def preview_all_plans(
    mechanism: Moments, rows: int, columns: int, *, private_bounds: bool = False, n_classes: int = 2
) -> dict[str, PlanPreview]:
    """What each word would give, but for those that would make too many columns."""
    plans = {}
    for word in (LINEAR, *DEGREES):
        outlook = candidates_for_preview(columns, word)
        if outlook is None or outlook.classes():
            plans[word] = preview_plan(
                mechanism, rows, columns, word, private_bounds=private_bounds, n_classes=n_classes
            )
    return plans


# ---- What error to expect of a release of `moments`, before epsilon is spent: from public numbers alone.
#
# The model: whitened edge vectors are alike in all directions but one, along which their mean lies. So a table is
# described by its number of rows m, its number of columns d, and the error of the best direction; call the
# deviate of that error t. The mean edge vector then has length t / sqrt(d (1 + t^2)), and the sum m times that.
# Noise on the sum turns the direction by an angle whose tangent is sqrt(d - 1) times noise over sum, and a
# classifier at an angle of phi has the error of the deviate t cos(phi) / sqrt(1 + t^2 sin^2(phi)). Where a plan
# makes other columns, d counts those, and the best error is that of theirs. More than two classes count as two of
# them, between which two classes' share of all rows is to be told apart.
#
# Not all d directions are whitened. Each has about m / d in the second moments, and noise of deviation s on these
# moves their eigenvalues by about s sqrt(d): so about (m / s)^(2/3) directions stand out, up to a constant, and d
# is no more than that. The others are shrunk, and neither noise nor rows have much there. Of labels alone s is 0,
# and all count. Where fewer stand out than were ever measured, the model no longer holds: they count as so many.
#
# That is so where columns are related, as those of tables are. Where they have nothing to do with each other,
# rows are in all d directions alike, whether these stand out or not: what is then to be expected is said beside
# it.

BEST_ERRORS = (0.05, 0.1, 0.2, 0.3, 0.4)
TYPICAL = 0.2  # the best error by which a table is judged
TOO_MUCH, NEAR = 0.42, 0.22  # errors of a typical table: above the first it is useless, below the second nearly as good
HOPELESS = 0.48  # of unrelated columns; of all tables that were learned well, it was 0.461 at the most
_SAME = 0.01  # errors that far apart are said both
_STANDING_OUT = 4.0  # times m / s; of whole numbers about the nearest to what was measured on main tables
_FEWEST = 6.0  # directions; by that factor, no main table of more columns had fewer at any epsilon
_MOST_ROWS, _LEAST_EPSILON, _MOST_EPSILON = 10**12, 1e-6, 1000.0


@dataclass(frozen=True)
class ErrorForecast:
    """What to expect of so many rows and columns at an epsilon.

    `errors` are pairs: an error that the table would have without noise, and what to expect with it. `unrelated` is
    what to expect of a typical table whose columns have nothing to do with each other. `enough_rows`
    and `enough_epsilon` each bring a typical table within two points if nothing else changes; None if no value does.
    """

    n_examples: int
    n_columns: int
    errors: tuple[tuple[float, float], ...]
    unrelated: float
    enough_rows: int | None
    enough_epsilon: float | None

    @property
    def carries(self) -> bool:
        """Whether the table can carry the epsilon: whether something is left to learn from a typical one."""
        return dict(self.errors)[TYPICAL] <= TOO_MUCH and self.unrelated <= HOPELESS

    def sentence(self) -> str:
        """What to expect of a typical table, and what would be enough."""
        typical = dict(self.errors)[TYPICAL]
        more = ""
        if self.unrelated > typical + _SAME:
            more = f", or {100 * self.unrelated:.0f} % if columns have nothing to do with each other"
        return (
            f"of {self.n_examples:,} rows, {self.n_columns:,} columns with the constant, expect {100 * typical:.0f} % "
            f"of errors{more}, where the same rows without noise give {100 * TYPICAL:.0f} %{self.enough()}"
        )

    def enough(self) -> str:
        """What would be enough, or "" if nothing would."""
        ways = [] if self.enough_rows is None else [f"{self.enough_rows:,} rows"]
        ways += [] if self.enough_epsilon is None else [f"epsilon {self.enough_epsilon:.2g}"]
        return f"; from {' or '.join(ways)} on, noise costs at most {100 * (NEAR - TYPICAL):.0f} points" if ways else ""


def forecast_error(
    mechanism: Moments, n_examples: int, shape: NoiseShape, best_error: float, *, related: bool = True
) -> float:
    """The error to expect, where the same rows without noise would have `best_error`.

    Where a plan makes other columns, `best_error` is that of the plan's columns: by how much it is smaller than that of
    the table's own, no model of this kind can know. Of k classes, two have 2 / k of the rows. Columns are `related`, or
    have nothing to do with each other.
    """
    from scipy.special import ndtr, ndtri

    if not 0 < best_error < 0.5:
        raise ArgumentError(f"the error without noise must lie between 0 and 1/2; it is {best_error!r}")
    t = -float(ndtri(best_error))
    width, n_classes = float(shape.n_planned or shape.n_columns), shape.n_classes
    shape = NoiseShape(shape.n_columns, shape.n_searched, shape.max_rows, n_planned=shape.n_planned)
    directions = min(width, _directions_above_noise(mechanism, n_examples, shape)) if related else width
    length = n_examples * (2 / n_classes) * t / math.sqrt(directions * (1 + t**2))
    cosine2 = length**2 / (length**2 + max(directions - 1, 1) * _forecast_noise_on_sum(mechanism, shape) ** 2)
    return float(ndtr(-t * math.sqrt(cosine2 / (1 + t**2 * (1 - cosine2)))))


def _directions_above_noise(mechanism: Moments, n_examples: int, shape: NoiseShape) -> float:
    """How many directions stand out of the noise on second moments, a few at least; all where there is none."""
    noise = mechanism.scales(0, shape)["second"] / GRID**2
    return max(_FEWEST, (_STANDING_OUT * n_examples / noise) ** (2 / 3)) if noise else math.inf


def _forecast_noise_on_sum(mechanism: Moments, shape: NoiseShape) -> float:
    """Noise in each direction, as if all of it were on the sum of the edge vectors.

    A mean rado without a classifier is half the sum, and the classifier is a mean over the second half of the rounds.
    """
    if not mechanism.sharpen:
        return mechanism.scales(0, shape)["sum"] / GRID
    rounds = FEW_ROUNDS
    return 2 * mechanism.scales(rounds, shape)["rounds"] / GRID / math.sqrt(rounds / 2)


def forecast_of_release(mechanism: Moments, n_examples: int, shape: NoiseShape) -> ErrorForecast:
    """What to expect of a table with so many rows that contribute; what would be enough is for the same plan."""
    for name, value in (("rows", n_examples), ("columns", shape.n_columns)):
        whole_number(value, f"the number of {name}")

    def near_with_rows(rows: int) -> bool:
        return forecast_error(mechanism, rows, shape, TYPICAL) <= NEAR

    def near_with(epsilon: float) -> bool:
        try:
            return forecast_error(replace(mechanism, epsilon=epsilon), n_examples, shape, TYPICAL) <= NEAR
        except ArgumentError:  # it takes more noise than can be sampled
            return False

    enough_rows = None
    if near_with_rows(_MOST_ROWS):
        low, high = 0, _MOST_ROWS
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if near_with_rows(middle) else (middle, high)
        enough_rows = _round_up_to_two_digits(high)
    enough_epsilon = None
    if near_with(_MOST_EPSILON):
        small, large = _LEAST_EPSILON, _MOST_EPSILON
        while large / small > 1.01:
            between = math.sqrt(small * large)
            small, large = (small, between) if near_with(between) else (between, large)
        enough_epsilon = large
    errors = tuple((best, forecast_error(mechanism, n_examples, shape, best)) for best in BEST_ERRORS)
    unrelated = forecast_error(mechanism, n_examples, shape, TYPICAL, related=False)
    n_columns = shape.n_planned or shape.n_columns
    return ErrorForecast(n_examples, n_columns, errors, unrelated, enough_rows, enough_epsilon)


def _round_up_to_two_digits(number: int) -> int:
    unit: int = 10 ** max(len(str(number)) - 2, 0)
    return -(-number // unit) * unit
