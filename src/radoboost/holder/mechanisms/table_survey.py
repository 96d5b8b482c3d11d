"""For mechanisms that may look at the table first: a survey for scaling constants and classes, then the sum.

Two passes are needed because the grid depends on the range of each column.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder import declared_bounds
from radoboost.holder.aggregation import AddedFields
from radoboost.holder.curator import Curator
from radoboost.holder.engines import Engine
from radoboost.holder.feature_maps import make_feature_map, map_table
from radoboost.holder.grid import ExactSums, check_rows_sum_exactly, make_grid_columns, resolve_scale_name
from radoboost.holder.mechanisms.mechanism import CHANGED, MappedInputs, ReleaseDraft, StatementFacts
from radoboost.holder.rado_sums import RadoSums, SumClasses, SumRados, SurveyRows, check_memory_for_rados
from radoboost.holder.request import CraftRequest
from radoboost.holder.row_counts import RowCounts, outlier_values
from radoboost.holder.signatures import SignatureSet, SignatureStream
from radoboost.holder.sparse_rado_sums import (
    require_memory_for_sparse_rados,
    sum_sparse_class_entries,
    sum_sparse_entries,
    survey_sparse_entries,
)
from radoboost.release.columns import SHARED, Column
from radoboost.release.release import RADOS, class_block_name
from radoboost.tables import Batch, Table
from radoboost.tables.column_selection import list_names
from radoboost.tables.labels import CRAFT_ADVICE, LabelCollector, LabelEncoder

# ---- Sums without labels beside the rados: what a holder adds for another one with other columns of the same table.
#
# A rado sums y_i x_i. The block `shared` has the sum of x_i over the same examples, of the columns that both holders
# have and of the constant: together they are a rado over more columns, on which a learner regresses.


@dataclass
class SharedSums(AddedFields):
    """Sums of rows by rado, and those of the shared columns without labels."""

    rados: RadoSums
    shared: NDArray[np.int64]

    @property
    def counts(self) -> RowCounts:
        """What the holder may know about the rows."""
        return self.rados.counts


@dataclass(frozen=True, eq=False)
class SumShared:
    """A sum of rados, and beside it that of the columns at `places` and of the constant, as if each label were +1.

    There is at least one place, for no engine snaps the constant alone.
    """

    task: SumRados
    places: tuple[int, ...]

    title = "summing rows"

    @property
    def engine(self) -> Engine:
        return self.task.engine

    @property
    def prepared(self) -> SignatureStream:
        """The signatures, which are those of the rados."""
        return self.task.prepared

    @property
    def rows_at_a_time(self) -> int | None:
        return self.task.rows_at_a_time

    @property
    def worker_bytes(self) -> int:
        return 2 * self.task.worker_bytes

    def for_part(self, first_row: int, n_rows: int) -> "SumShared":
        """The pass for one part that is summed elsewhere, with the coins of its own rows."""
        return replace(self, task=self.task.for_part(first_row, n_rows))

    def empty(self) -> SharedSums:
        return SharedSums(self.task.empty(), self.engine.totals(self.task.n_rados, len(self.places) + 1))

    def add(self, sums: SharedSums, first_row: int, batch: Batch) -> None:
        """Snap and sum, with labels and without."""
        values = batch.values()
        self.task.add(sums.rados, first_row, batch._replace(values=lambda: values, device_values=None))
        columns = self.task.columns
        chosen = [*(columns[place] for place in self.places), columns[-1]]
        chosen_values = np.ascontiguousarray(values[:, self.places])
        rows, _ = self.engine.snap(chosen_values, np.ones(batch.n_rows, np.int8), chosen)
        self.engine.sum_rows(rows, first_row + self.task.offset, self.prepared, sums.shared)


def check_shared_columns_argument(asked: CraftRequest) -> None:
    """Refuse, before the table is opened, what leaves nothing to share."""
    if asked.share is None:
        return
    if not asked.intercept:
        raise ArgumentError("a release with shared columns needs the constant one; leave intercept as it is")
    if not asked.subsets.by_coins:
        raise ArgumentError(
            "a release with shared columns tells second moments, and rados of a prescribed support do not; leave "
            "signatures out (--signatures)"
        )
    if asked.fixed_columns != "linear":
        raise ArgumentError("shared columns are the table's own; take columns='linear' with share (--columns linear)")
    asked.refuse_many_classes("a release with shared columns", asked.classes)


def shared_places(asked: CraftRequest, source: Table) -> tuple[int, ...]:
    """Where the shared columns are among the features; of a category, all its slots."""
    origins = {name: name for name in source.features}
    if source.schema is not None:
        origins = {part.name: part.column for part in source.schema.encoded()}
    share = asked.share or ()
    absent = [name for name in share if name not in origins.values()]
    if absent:
        raise TableError(
            f"{source.name} has no feature {list_names(absent)} to share; its features are "
            f"{list_names(list(dict.fromkeys(origins.values())))}"
        )
    return tuple(place for place, name in enumerate(source.features) if origins[name] in share)


DEFAULT_SCALE = "standard"


@dataclass(frozen=True, eq=False)
class TableSurvey:
    """What the first pass found: exact statistics of clipped values, the classes, and how columns are scaled.

    `all_rows` are those of all holders, where there are several.
    """

    exact: ExactSums
    rule: LabelEncoder
    scale: str
    limits: dict[str, tuple[float, float]]
    all_rows: int


def check_scale_argument(asked: CraftRequest) -> str:
    """The scale by its name in a release."""
    asked.refuse("rows")
    asked.refuse_private()
    LabelCollector(asked.label_name, asked.classes)
    scale = resolve_scale_name(asked.scale, DEFAULT_SCALE, len(asked.limits) > 0)
    if asked.fixed_columns != "linear" and scale == "none":
        raise ArgumentError("scale=None leaves columns as they are, and a feature map does not; leave one of them out")
    return scale


def survey_feature_map(asked: CraftRequest, run: Curator) -> tuple[TableSurvey, MappedInputs | None]:
    """Let the table be seen through the feature map that is asked for, whose constants take one pass more.

    What is known of the mapped table, and the map; None where columns stay as they are.
    """
    facts: TableSurvey = run.survey
    if asked.fixed_columns == "linear":
        return facts, None
    inputs = make_grid_columns(run.source.features, facts.scale, facts.limits, facts.exact, intercept=False)
    feature_map = make_feature_map(asked.fixed_columns, inputs, run.source.groups)
    through = MappedInputs(feature_map, inputs, outliers_of_survey(facts, run.source))
    run.source = map_table(run.source, feature_map)
    limits = dict.fromkeys(feature_map.output_names, (-1.0, 1.0)) if facts.scale == "bounds" else {}
    return survey_table(asked.with_limits(limits), run, passes=3), through


def outliers_of_survey(facts: TableSurvey, source: Table) -> dict[str, float]:
    """Values that outweigh all others of their column, where columns are standardised by what was surveyed.

    In a sparse table a column may well be 0 but for a few rows.
    """
    looked = facts.scale == "standard" and source.sparse_rows is None
    return outlier_values(source.features, facts.exact) if looked else {}


def survey_table(asked: CraftRequest, run: Curator, *, unbounded: str | None = None, passes: int = 2) -> TableSurvey:
    """The first of two passes, or more; it ignores bounds of the column `unbounded`, and takes its exact sums."""
    run.expect(passes)
    source, scale = run.source, check_scale_argument(asked)
    declared_bounds.check_declared_feature_names(source.features, asked.intercept)
    check_rows_sum_exactly(source.name, source.n_rows or 0)  # where files say so, before they are read
    limits = declared_bounds.check_declared_bounds(asked.limits, source.features, scale)
    if scale != "bounds":  # slots are 0 or 1, and need no clipping
        limits = {name: pair for name, pair in limits.items() if name not in source.groups}
    require_memory_for_sparse_rados(run.engine, source, asked.n_rados, len(source.features) + asked.intercept)
    if unbounded is not None:
        limits.pop(unbounded, None)
    moments = scale == "standard" or unbounded is not None
    labels = LabelCollector(asked.label_name, asked.classes, advice=CRAFT_ADVICE)
    task = SurveyRows(
        run.engine, *declared_bounds.declared_limit_arrays(limits, source.features), labels, moments, source.features
    )
    sums = run.sum(survey_sparse_entries(task, source))
    exact = sums.exact
    source.check_rows(exact.n_rows)
    check_rows_sum_exactly(source.name, exact.n_rows)
    n_rows = run.total_rows(exact.n_rows)
    check_rows_sum_exactly(source.name, n_rows)
    return TableSurvey(exact, sums.labels.settle(), scale, limits, n_rows)


def sum_rados_after_survey(
    asked: CraftRequest,
    run: Curator,
    facts: TableSurvey,
    columns: tuple[Column, ...],
    subsets: SignatureSet,
    parameters: Mapping[str, Any],
    turned: tuple[int, tuple[float, float]] | None = None,
    through: MappedInputs | None = None,
) -> ReleaseDraft:
    """The last pass; `facts` are from the one before."""
    n_rows, n_rados = facts.exact.n_rows, asked.n_rados
    prepared = subsets.prepare(asked.signature_key, n_rados, n_rows, run.threads)
    inputs = None if through is None else through.inputs
    steps = np.array([column.step for column in columns])  # times a total it is exact: that is below 2**53
    own_columns: dict[str, tuple[str, ...]] = {}
    if asked.share is not None:
        counts, blocks, own_columns = _sum_shared_columns_beside(asked, run, facts, columns, prepared)
    elif facts.rule.n_classes == 2:
        task = SumRados(
            run.engine, columns, facts.rule, n_rados, prepared, turned, inputs=inputs, offset=asked.first_row
        )
        sums = run.sum(sum_sparse_entries(task, run.source))
        check_table_unchanged(run, facts, sums.counts)
        counts, blocks = sums.counts, {RADOS: run.pooled([sums.totals])[0] * steps}
    else:
        require_memory_for_sparse_rados(run.engine, run.source, n_rados * facts.rule.n_classes, len(columns))
        classes = SumClasses(run.engine, columns, facts.rule, n_rados, prepared, inputs=inputs, offset=asked.first_row)
        by_class = run.sum(sum_sparse_class_entries(classes, run.source))
        check_table_unchanged(run, facts, by_class.counts)
        counts, totals = by_class.counts, zip(facts.rule.classes, run.pooled(by_class.totals), strict=True)
        blocks = {class_block_name(value): total * steps for value, total in totals}
    return ReleaseDraft(
        blocks=blocks,
        columns=columns,
        classes=tuple(facts.rule.classes),
        circumstances=StatementFacts(
            facts.scale,
            asked.seeded,
            n_rados,
            len(columns),
            facts.all_rows,
            asked.earlier,
            mapped=through is not None,
            n_classes=facts.rule.n_classes,
            drawn_together=not subsets.by_coins,
            shared=asked.share,
        ),
        parameters=parameters,
        signatures={"name": subsets.name, **subsets.parameters(n_rows), **asked.numbering},
        counts=counts,
        map=None if through is None else through.map,
        block_columns=own_columns,
    )


def check_table_unchanged(run: Curator, facts: TableSurvey, counts: RowCounts) -> None:
    """Refuse a table that changed between two passes, before its sums meet those of other holders."""
    if counts.n_rows != (before := facts.exact.n_rows):
        raise TableError(CHANGED.format(name=run.source.name, before=before, after=counts.n_rows))


def _sum_shared_columns_beside(
    asked: CraftRequest, run: Curator, facts: TableSurvey, columns: tuple[Column, ...], prepared: SignatureStream
) -> tuple[RowCounts, dict[str, NDArray[np.float64]], dict[str, tuple[str, ...]]]:
    """Rados, and beside them the block of shared columns without labels; counts, blocks, and that block's columns."""
    asked.refuse_many_classes("a release with shared columns", facts.rule.classes)
    places = shared_places(asked, run.source)
    check_memory_for_rados(run.engine, 2 * asked.n_rados, len(columns))  # rows are summed as dense ones
    rados = SumRados(run.engine, columns, facts.rule, asked.n_rados, prepared, offset=asked.first_row)
    sums = run.sum(SumShared(rados, places or (0,)))
    check_table_unchanged(run, facts, sums.counts)
    shared = (*(columns[place] for place in places), columns[-1])
    blocks = {
        name: total * np.array([column.step for column in own])
        for name, total, own in zip(
            (RADOS, SHARED),
            run.pooled([sums.rados.totals, sums.shared[:, -len(shared) :]]),
            (columns, shared),
            strict=True,
        )
    }
    return sums.counts, blocks, {SHARED: tuple(column.name for column in shared)}
