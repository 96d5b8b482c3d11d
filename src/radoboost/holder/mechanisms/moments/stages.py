"""The stages of the mechanism `moments`: each is a noisy sum over rows, on which the next one builds.

The constants were tuned once, on the paper's domains.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from radoboost import memory
from radoboost.errors import TableError
from radoboost.holder.aggregation import RowSource, RowTransform
from radoboost.holder.curator import Curator, NoiseSpec
from radoboost.holder.feature_maps import map_table
from radoboost.holder.mechanisms.moments import aggregations
from radoboost.holder.mechanisms.moments.budget import SEARCHES, NoiseShape, released_stage_noise
from radoboost.holder.mechanisms.moments.feature_plan import (
    MOST_ROUNDS,
    FeatureCandidates,
    FeaturePlan,
    columns_of_plan,
    feature_map_of_plan,
    planned_rounds,
    read_input_moments,
)
from radoboost.holder.mechanisms.moments.score_histogram import SIZES, HitCounts, ScoreCounts
from radoboost.holder.row_counts import RowCounts
from radoboost.holder.schema_inference import column_names_in_doubt
from radoboost.release.columns import CONSTANT, constant_column
from radoboost.release.feature_map import FeatureMap
from radoboost.release.moment_math import (
    HESSIAN_FLOOR,
    centre_class_vectors,
    class_newton_step,
    column_weights_and_score_unit,
    discriminant_weights,
    eigenvalue_floor,
    eigenvalue_noise,
    inverse_matrix_power,
)

if TYPE_CHECKING:
    from radoboost.holder.mechanisms.moments.moments import Moments

WHITENING_FLOOR = 0.75  # of eigenvalues, as a share of what noise alone could be
MOST_SPOILED = 0.2  # of all rows: with more, most likely a declaration is wrong
MOST_UNFORESEEN = 0.5  # of good rows: with more, most likely a line of the schema is wrong
BY_DOCUMENTS = (
    "by what is documented about the table (a correction by exact counts, as rado check shows them to the holder, is "
    "outside the promise)"
)
ONLY_A_LEDGER = "only a ledger counts them"
EXACT_COUNTS = "These counts are exact, {}: nothing was spent or booked, and no ledger counts them"
_NAMED = 8  # columns in a message
_SNAP_A, _SNAP_THETA = 2.0**-30, 2.0**-20


def check_memory_for_stages(run: Curator, n_columns: int, slots: int = 1) -> None:
    """Refuse moments that do not fit into memory, before anything is spent; a slot has one vector in each round."""
    numbers = n_columns**2 * (3 * run.threads + 6) + (slots - 1) * n_columns * (4 * MOST_ROUNDS + 3 * run.threads)
    memory.require_memory(8 * numbers, f"moments of {n_columns:,} columns", "use fewer columns")


def begin_stages(budget: "Moments", shape: NoiseShape, run: Curator, counts: RowCounts) -> dict[str, float]:
    """The noisy numbers of good and spoiled rows, and the rest of the budget booked (M10).

    It stops here if most of the budget would be spent on nothing. The counts are booked on their own, so that nothing
    else is spent then.
    """
    scale = budget.scales(0, shape)["counts"]
    *of_counts, of_the_rest = budget.bookings(shape)
    for event in of_counts:
        run.book(event)
    clean = counts.n_rows - counts.spoiled - counts.unforeseen * shape.raw
    exact = aggregations.GRID * np.array([[clean, counts.spoiled, *([counts.unforeseen] * shape.raw)]])
    good, spoiled, *unforeseen = (run.noisy(exact, scale)[0] / aggregations.GRID).tolist()
    deviation = scale * run.noise_factor / aggregations.GRID
    if unforeseen:
        _stop_at_unforeseen_cells(unforeseen[0], good, deviation, run)
        good += unforeseen[0]
    doubt = deviation * math.sqrt(2 + shape.raw)  # of all rows together
    if shape.person and good + spoiled <= 3 * doubt:
        if not scale:
            raise TableError(
                f"no row has a person in {shape.person!r}: name the column that says whose row it is, {BY_DOCUMENTS}. "
                f"{_cost_of_counts_text(deviation, run)}"
            )
        raise TableError(
            f"about {max(0.0, good + spoiled):,.0f} rows have a person in {shape.person!r}, by counts with noise of "
            f"deviation {doubt:,.0f}, so there may be none: name the column that says whose row it is, {BY_DOCUMENTS}, "
            f"or take a larger epsilon. These counts are all that was spent, and {ONLY_A_LEDGER}"
            f"{_advice_to_several_holders(run)}"
        )
    excess = spoiled - MOST_SPOILED * (good + spoiled)
    spread = deviation * math.sqrt((1 - MOST_SPOILED) ** 2 + (1 + shape.raw) * MOST_SPOILED**2)
    if excess > 3 * spread and spoiled > 6 * deviation:
        value = "" if shape.raw else "a value is missing, no number or not finite, or "
        searched = _numbers_for_bounds_text(run.source.features) if shape.n_searched and not shape.raw else ""
        raise TableError(
            f"{_about_if_noisy(deviation)}{spoiled:,.0f} rows would contribute nothing, and {max(0.0, good):,.0f} "
            f"would: {value}the class is not one of those declared; {searched}correct the declaration, {BY_DOCUMENTS}. "
            f"{_cost_of_counts_text(deviation, run)}"
        )
    run.book(of_the_rest)
    return {"good": good, "spoiled": spoiled, **({"unforeseen": unforeseen[0]} if unforeseen else {})}


def _numbers_for_bounds_text(names: Sequence[str]) -> str:
    """What bounds to be found ask of columns, and which may not give it: by their names, for no value may be told."""
    doubts = [f"{name!r} ({kind})" for name, kind in column_names_in_doubt(names).items()]
    more = f" and {len(doubts) - _NAMED} more" if len(doubts) > _NAMED else ""
    named = f", by their names alone perhaps {', '.join(doubts[:_NAMED])}{more}" if doubts else ""
    return (
        "where private bounds are to be found, every column must hold numbers: leave out those that do not, with drop "
        f"(--drop COL){named}; or declare what they are in a schema, made by rado schema; "
    )


def _stop_at_unforeseen_cells(unforeseen: float, foreseen: float, deviation: float, run: Curator) -> None:
    """Stop where most rows have a cell that the schema does not foresee: most likely a line of it is wrong (M10)."""
    excess = unforeseen - MOST_UNFORESEEN * (unforeseen + foreseen)
    spread = deviation * np.hypot(1 - MOST_UNFORESEEN, MOST_UNFORESEEN)
    if excess > 3 * spread and unforeseen > 6 * deviation:
        raise TableError(
            f"{_about_if_noisy(deviation)}{unforeseen:,.0f} rows have a cell that the schema does not foresee, and "
            f"{max(0.0, foreseen):,.0f} have none: a value that is missing or cannot be read, or is not among those of "
            "its category; correct "
            f'kinds, values or marks in the schema, or declare "gaps": true or "other": true, {BY_DOCUMENTS}. '
            f"{_cost_of_counts_text(deviation, run)}"
        )


def _advice_to_several_holders(run: Curator) -> str:
    """What to do where the rows are those of several holders, none of whom knows whose are at fault."""
    if not run.several:
        return ""
    return ". These are the rows of all holders together; each holder: rado check TABLE; then open a new room"


def _about_if_noisy(deviation: float) -> str:
    """A number is near the truth if it has noise, and else is it."""
    return "about " if deviation else ""


def _cost_of_counts_text(deviation: float, run: Curator) -> str:
    """What counts of rows with noise of this deviation cost, for a message: nothing, if they are exact (M10).

    They are exact where a label is what is protected.
    """
    if not deviation:
        whose = "of all holders, each of whom sees them" if run.several else "for the holder alone"
        return EXACT_COUNTS.format(whose) + _advice_to_several_holders(run)
    spent = f"These counts have noise of deviation {deviation:,.0f}, and are all that was spent; {ONLY_A_LEDGER}"
    return spent + _advice_to_several_holders(run)


class Stages:
    """The stages of one release; their results are in `blocks`, and the noisy numbers of rows in `rows`.

    Where bounds were searched for, `rows` were counted before, and all of it is booked. With an `outlook` the first
    stage decides which columns there are: `plan`, and `map`, None where they are the table's own.
    """

    def __init__(
        self,
        budget: "Moments",
        shape: NoiseShape,
        run: Curator,
        sphere: aggregations.SphereRows,
        rows: dict[str, float] | None = None,
        outlook: FeatureCandidates | None = None,
    ) -> None:
        self._budget, self._shape, self._run, self._sphere, self._outlook = budget, shape, run, sphere, outlook
        self.counts = RowCounts.zeros(len(sphere.counted))
        self.rows = rows or {}
        self._searches = len(SEARCHES) if shape.n_searched else 0
        self.plan = FeaturePlan((), sphere.width)
        self.map: FeatureMap | None = None
        self.score_unit = 0.0
        self.blocks: dict[str, NDArray[np.float64]] = {}
        self.block_columns: dict[str, tuple[str, ...]] = {}

    def noise(self) -> dict[str, float]:
        """The noise of each stage, in units of what its block holds: that of those who are still here."""
        factor = self._run.noise_factor
        return released_stage_noise({stage: scale * factor for stage, scale in self._scales().items()})

    def run(self) -> None:
        """All stages, in order; linear algebra on one thread, so that its bits do not depend on how many there are."""
        with _linear_algebra_libraries().limit(limits=1, user_api="blas"):
            self._run_all()

    def run_exactly(self) -> None:
        """Without noise: the outline, and over the columns of the plan the sum and the products of edge vectors."""
        run = self._run
        first = run.sum(self._sphere)
        self.counts = first.counts
        run.add_noise(first, NoiseSpec("products", 0.0, symmetric=True))
        second = first.products / aggregations.GRID**2
        self._take(float(np.trace(second)), math.inf)
        if self.plan.beyond:
            self._see_through(second, 0.0)
        edges = run.keep(aggregations.SphereEdges(self._sphere), None)
        task = self._products("second moments")
        sums = run.noisy_sum(task, NoiseSpec("vector", 0.0), NoiseSpec("products", 0.0, symmetric=True), source=edges)
        self.blocks = {
            "moment:b": np.atleast_2d(sums.vector / aggregations.GRID),
            "moment:C": sums.products / aggregations.GRID**2,
        }

    def _scales(self) -> dict[str, float]:
        """The noise of each stage of the plan, in grid steps."""
        return self._budget.scales(self.plan.rounds, self._shape)

    def _expect(self, passes: int) -> None:
        self._run.expect(self._searches + passes)

    def _run_all(self) -> None:
        sharpen, run = self._budget.sharpen, self._run
        self._expect(3 + 9 * sharpen)
        first = run.sum(self._sphere)
        self.counts = first.counts
        if not self.rows:
            self.rows = begin_stages(self._budget, self._shape, run, self.counts)
        scale = self._scales()["second"]  # the same for every plan
        run.add_noise(first, NoiseSpec("products", scale, symmetric=True))
        second = first.products / aggregations.GRID**2
        self._choose(second)
        self._expect(3 + 2 * self.plan.beyond + (1 + self.plan.rounds) * sharpen)
        if not self.plan.beyond:
            self._whiten(second, lambda a: aggregations.WhitenedRows(self._sphere, a), None)
            return
        self._go_beyond(second, scale * run.noise_factor / aggregations.GRID**2)
        kept = run.keep(aggregations.SphereEdges(self._sphere), self.counts.n_rows)
        task, scale = self._products("second moments"), self._scales()["second"]
        sums = run.noisy_sum(task, NoiseSpec("products", scale, symmetric=True), source=kept)
        self._whiten(
            sums.products / aggregations.GRID**2, lambda a: aggregations.Whiten(run.engine, a, not self._two), kept
        )

    @property
    def _two(self) -> bool:
        """Whether there are two classes: rows are then edge vectors, and else they carry their class."""
        return self._shape.n_classes == 2

    def _products(self, title: str) -> aggregations.SumProducts:
        return aggregations.SumProducts(self._run.engine, self._sphere.width, title, self._shape.n_classes)

    def _choose(self, second: NDArray[np.float64]) -> None:
        """The plan, by the noisy second moments of the table's own columns (M11)."""

        def sized() -> NDArray[np.float64]:
            size = max(float(np.trace(second)), 0.0)
            return np.array([size, self._budget.strength(size, self._shape) / self._run.noise_factor])

        self._take(*self._run.agreed(sized).tolist())

    def _take(self, size: float, strength: float) -> None:
        outlook = self._outlook
        if outlook is None:
            width = self._sphere.width
            self.plan = FeaturePlan((), width, *planned_rounds(False, strength / width, self._budget.sharpen))
        else:
            self.plan = self._budget.choose(outlook, size, strength, self._shape)
        if self.plan.beyond:
            self._shape = replace(self._shape, n_planned=self.plan.n_columns)

    def _go_beyond(self, second: NDArray[np.float64], noise: float) -> None:
        """Let the table be seen through the columns of the plan (M12)."""
        names = [column.name for column in self._sphere.columns]
        self.blocks["outline"], self.block_columns["outline"] = second, (*names, CONSTANT)
        self._see_through(second, noise)

    def _see_through(self, second: NDArray[np.float64], noise: float) -> None:
        outlook, run, sphere = self._outlook, self._run, self._sphere
        assert outlook is not None
        outline, plan = read_input_moments(second, noise), self.plan
        self.map = run.agreed_data(
            lambda: feature_map_of_plan(outlook, plan, sphere.columns, outline).to_dict(), FeatureMap.from_dict
        )
        run.source = map_table(run.source, self.map)
        outputs = columns_of_plan(self.map)
        self._sphere = aggregations.SphereRows(run.engine, sphere.rule, outputs, sphere.intercept, sphere.columns)

    def _whiten(
        self,
        second: NDArray[np.float64],
        whitened_by: Callable[[NDArray[np.float64]], RowTransform],
        kept: RowSource | None,
    ) -> None:
        """Edge vectors whitened by the noisy second moments, from the table or from kept rows, and what they tell."""
        sharpen, run, width, scales = self._budget.sharpen, self._run, self._sphere.width, self._scales()
        floor = WHITENING_FLOOR if sharpen else HESSIAN_FLOOR
        noise = self.noise()
        a = run.agreed(
            lambda: _inverse_root_on_grid(second, eigenvalue_floor(eigenvalue_noise(noise, "second"), width, floor))
        )
        edges = run.keep(whitened_by(a), self.counts.n_rows if sharpen else None, source=kept)
        sums = run.noisy_sum(
            self._products("whitened moments"),
            NoiseSpec("vector", scales["sum"]),
            NoiseSpec("products", scales["whitened"], symmetric=True),
            source=edges,
        )
        total, whitened = sums.vector / aggregations.GRID, sums.products / aggregations.GRID**2
        self.blocks |= {"moment:C": second, "whitening": a, "moment:b": np.atleast_2d(total), "moment:C2": whitened}
        if sharpen:
            least = eigenvalue_floor(eigenvalue_noise(noise, "whitened"), width, HESSIAN_FLOOR)
            hessian = inverse_matrix_power(whitened, least, 1.0)
            self._sharpen(edges, hessian, total)
        self._count_scores()

    def _count_scores(self) -> None:
        """Noisy counts of rows by class and by the score that follows from the blocks so far (M14)."""
        sphere, run = self._sphere, self._run
        columns = (*sphere.columns, *([constant_column(1.0)] * sphere.intercept))
        released = {"noise": self.noise(), "rounds": self.plan.rounds, "constant": aggregations.CONSTANT_VALUE}

        def scoring() -> list[Any]:
            weights, unit = column_weights_and_score_unit(self.blocks, released, columns)
            return [weights.tolist(), unit]

        weights, self.score_unit = run.agreed_data(scoring)
        kind = ScoreCounts if self._two else HitCounts
        task = kind(sphere.rule, sphere.columns, np.array(weights), self.score_unit)
        counts = run.noisy_sum(task, NoiseSpec("cells", self._scales()["scores"])).cells / aggregations.GRID
        self.blocks["scores"], self.block_columns["scores"] = counts, SIZES

    def _sharpen(self, edges: RowSource, hessian: NDArray[np.float64], total: NDArray[np.float64]) -> None:
        """Mean rados under the current weights; how many, the plan says (M6).

        Of more than two classes each has a vector in every mean rado (M17).
        """
        rounds, eta, run = self.plan.rounds, self.plan.eta, self._run
        unit = 1 if self._two else aggregations.WEIGHTS

        def first() -> NDArray[np.float64]:
            start = 4 * hessian @ total if self._two else discriminant_weights(total, hessian, self.noise()["sum"])
            return _theta_on_grid(start)

        def following() -> NDArray[np.float64]:
            if self._two:
                return _theta_on_grid(theta[-1] + 4 * eta * (hessian @ means[-1]))
            return _theta_on_grid(
                theta[-1] + class_newton_step(len(total), eta) * (centre_class_vectors(means[-1]) @ hessian)
            )

        theta, means, scale = [run.agreed(first)], list[NDArray[np.float64]](), self._scales()["rounds"] * unit
        for k in range(rounds):
            task = aggregations.MeanRado(run.engine, theta[-1], k + 1, rounds)
            mean = run.noisy_sum(task, NoiseSpec("vector", scale), source=edges)
            means.append(mean.vector / (aggregations.GRID * unit))
            theta.append(run.agreed(following))
        self.blocks |= {"sharpened": np.vstack(means), "theta": np.vstack(theta)}


@cache
def _linear_algebra_libraries() -> ThreadpoolController:
    """The libraries that are loaded, which takes a while to find out."""
    return ThreadpoolController()


def _inverse_root_on_grid(matrix: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """The inverse square root, up to a factor, on a grid: it is part of the release, so it is what everybody uses."""
    root = inverse_matrix_power(matrix, floor, 0.5)
    root = (root + root.T) / 2
    return np.asarray(np.rint(root / np.abs(root).max() / _SNAP_A) * _SNAP_A)


def _theta_on_grid(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.rint(np.clip(theta, -(2.0**30), 2.0**30) / _SNAP_THETA) * _SNAP_THETA)
