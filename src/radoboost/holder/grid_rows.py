"""A table's rows as integers on the grid, in order, for those who send them away in shares or encrypted.

They are the integers that a plain release sums: the same survey, the same scaling constants, the same grid. What
travels with them is all of that release but its rados.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import SchemaWarning, TableError
from radoboost.holder.craft import columns_left_out_of_craft, warn_of_clipping
from radoboost.holder.curator import Curator
from radoboost.holder.engines import Engine, cpu_engine
from radoboost.holder.feature_maps import Columns, check_feature_map_argument
from radoboost.holder.grid import make_grid_columns
from radoboost.holder.mechanisms import Plain, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.mechanism import CHANGED, MappedInputs
from radoboost.holder.mechanisms.table_survey import check_scale_argument, survey_feature_map, survey_table
from radoboost.holder.request import CraftRequest
from radoboost.holder.row_counts import RowCounts, count_beyond_bounds
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.schema_file import Bounds, declaration_fields, declaration_with_dialect, origin_of_schema
from radoboost.holder.table_preparation import check_options_for_gaps, collect_schema_errors, prepare_plain_table
from radoboost.progress import Progress, no_progress, show_progress, silent
from radoboost.release.columns import Column
from radoboost.release.release import Release
from radoboost.release.secret_shares import PendingRelease
from radoboost.tables import Table
from radoboost.tables.frames import refuse_cluster_frame
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.streams import spool_for_rereading


@dataclass(frozen=True)
class Route:
    """How rows travel, in the words of a statement: whom one must trust, where randomness comes from, what opens them.

    What `opens` them comes before what is not protected about any plain release.
    """

    trust_model: str
    random_source: str
    opens: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class GridRows:
    """Rows on the grid: the release that they may become, how many there are, and their integers, batch by batch."""

    awaited: PendingRelease
    n_rows: int
    batches: Callable[[], Iterator[NDArray[np.int64]]]


@contextmanager
def grid_rows(
    table: Any,
    y: Any,
    route: Route,
    *,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    schema: Bounds = None,
    bounds: Bounds = None,
    missing: str = "fill",
    unlabelled: str = "error",
    separator: str | None = None,
    decimal: str | None = None,
    weights: Any = None,
    columns: Columns = "auto",
    scale: str | None = "auto",
    intercept: bool = True,
    progress: bool = False,
) -> Iterator[GridRows]:
    """The rows of a table on the grid of its plain release; options are those of `craft`.

    The table is surveyed at once, and its rows are read again when they are asked for.
    """
    refuse_cluster_frame(table, "sharing or encrypting its rows")
    check_options_for_gaps(missing, unlabelled, private=False)
    declared = declaration_fields(schema, bounds, y, label, classes, features, columns_left_out_of_craft(drop, weights))
    declared = declaration_with_dialect(declared, separator, decimal, False)
    asked = CraftRequest(
        **declared,
        columns=check_feature_map_argument(columns, declared["declared"].terms),
        n_rados=1,
        signature_key=b"",
        scale=scale,
        intercept=bool(intercept),
        weights=weights,
    )
    check_scale_argument(asked)
    engine, surveys = cpu_engine(), list[_Surveyed]()
    with (show_progress if progress else no_progress)() as bar, spool_for_rereading(table, bar=bar) as kept:

        def make(asked: CraftRequest, source: Table) -> ReleaseDraft:
            surveys.append(_survey_before_grid_rows(asked, source, engine, bar))
            return surveys[-1].made

        with collect_schema_errors(kept, asked):
            draft, used_schema, lines = prepare_plain_table(
                make, kept, y, asked, missing=missing, unlabelled=unlabelled, separator=separator, decimal=decimal,
                engine=engine, withheld={}, bar=silent,
            )  # fmt: skip
        if lines:
            warnings.warn(SchemaWarning(lines), stacklevel=5)
        facts = replace(draft.circumstances, schema=origin_of_schema(asked.declared.schema, used_schema))
        assert facts.n_examples is not None
        statement = Plain().statement(facts)
        release = Release(
            blocks={},
            columns=draft.columns,
            classes=draft.classes,
            mechanism={"name": Plain.name, "law": Plain.law},
            signatures={},
            statement=replace(
                statement,
                trust_model=route.trust_model,
                random_source=route.random_source,
                not_protected=(*route.opens, *statement.not_protected),
            ),
            n_examples=None,
            schema=used_schema,
            map=draft.map,
        )
        yield GridRows(PendingRelease(release), facts.n_examples, surveys[-1].batches)
        warn_of_clipping(draft.counted, draft.counts.clipped, stacklevel=5)


@dataclass(frozen=True, eq=False)
class _Surveyed:
    """A table after its survey: everything that its rows become integers by."""

    made: ReleaseDraft
    source: Table
    engine: Engine
    rule: LabelEncoder
    through: MappedInputs | None
    bar: Progress

    def batches(self) -> Iterator[NDArray[np.int64]]:
        """The integers of all rows, as a plain release sums them."""
        counts, done, n_rows = self.made.counts, 0, self.made.circumstances.n_examples
        columns = self.made.columns
        for batch in self.source.batches():
            values = batch.values()
            many = self.rule.n_classes > 2
            signs = np.ones(batch.n_rows, np.int8) if many else self.rule.signs(batch.labels, batch.place)
            rows, clipped = self.engine.snap(values, signs, columns)
            if batch.inputs is not None and self.through is not None:
                clipped = count_beyond_bounds(batch.inputs(), np.full(batch.n_rows, True), self.through.inputs)
            counts.clipped += clipped[: len(counts.clipped)]
            integers = rows[:, : len(columns)].astype(np.int64)
            if many:
                integers = _class_slot_rows(integers, self.rule.places(batch.labels, batch.place), self.rule.n_classes)
            done += batch.n_rows
            self.bar("sending rows", done, n_rows)
            yield integers
        if done != n_rows:
            raise TableError(CHANGED.format(name=self.source.name, before=n_rows, after=done))


def _class_slot_rows(rows: NDArray[np.int64], places: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    slots = np.zeros((len(rows), n_classes, rows.shape[1]), np.int64)
    slots[np.arange(len(rows)), places] = rows
    return slots.reshape(len(rows), -1)


def _survey_before_grid_rows(asked: CraftRequest, source: Table, engine: Engine, bar: Progress) -> _Surveyed:
    """The first pass of a plain release, and what follows from it."""
    run = Curator(source, engine, ThreadRunner(None, bar))
    asked, through = survey_feature_map(asked, run)
    facts = survey_table(asked, run, passes=2 if through is None else 3)
    columns: tuple[Column, ...] = make_grid_columns(
        run.source.features, facts.scale, facts.limits, facts.exact, intercept=asked.intercept
    )
    inputs = len(columns) - asked.intercept if through is None else len(through.inputs)
    n_classes, mapped = facts.rule.n_classes, through is not None
    circumstances = StatementFacts(
        facts.scale, False, 1, len(columns), facts.exact.n_rows, mapped=mapped, n_classes=n_classes
    )
    made = ReleaseDraft(
        blocks={},
        columns=columns,
        classes=tuple(facts.rule.classes),
        circumstances=circumstances,
        parameters={},
        signatures={},
        counts=RowCounts.zeros(inputs),
        map=None if through is None else through.map,
    )
    return _Surveyed(made, run.source, engine, facts.rule, through, bar)
