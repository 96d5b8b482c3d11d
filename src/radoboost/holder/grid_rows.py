"""A table's rows as integers on the grid, in order, for those who send them away in shares or encrypted.

They are the integers that a plain release sums: the same survey, the same scaling constants, the same grid. What
travels with them is all of that release but its rados.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import SchemaWarning, TableError
from radoboost.holder.craft import warn_of_clipping
from radoboost.holder.curator import Curator
from radoboost.holder.declared_bounds import origin_of_schema
from radoboost.holder.engines import cpu_engine
from radoboost.holder.feature_maps import Columns
from radoboost.holder.grid import make_grid_columns
from radoboost.holder.mechanisms import Plain, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.mechanism import CHANGED, MappedInputs
from radoboost.holder.mechanisms.table_survey import TableSurvey, check_scale_argument, survey_feature_map
from radoboost.holder.request import CraftRequest
from radoboost.holder.row_counts import RowCounts, count_beyond_bounds
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.table_preparation import collect_schema_errors, prepare_plain_table, survey_table_first
from radoboost.progress import Progress, no_progress, show_progress, silent
from radoboost.release.columns import Column
from radoboost.release.release import Release
from radoboost.release.secret_shares import PendingRelease
from radoboost.tables.frames import refuse_cluster_frame
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.schema import Declaration
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
    schema: Declaration = None,
    mechanism: Plain = Plain(),  # noqa: B008 - it is frozen
    columns: Columns = "auto",
    progress: bool = False,
) -> Iterator[GridRows]:
    """The rows of a table on the grid of its plain release; options are those of `craft`.

    The table is surveyed at once, and its rows are read again when they are asked for.
    """
    refuse_cluster_frame(table, "sharing or encrypting its rows")
    asked = CraftRequest.of(schema, mechanism, y=y, label=label, classes=classes, n_rados=1, columns=columns)
    check_scale_argument(asked)
    engine = cpu_engine()
    with (show_progress if progress else no_progress)() as bar, spool_for_rereading(table, bar=bar) as kept:
        run_on = partial(Curator, engine=engine, runner=ThreadRunner(None, bar))
        with collect_schema_errors(kept, asked):
            settled, run, lines = prepare_plain_table(
                partial(survey_table_first, run_on), kept, y, asked, engine=engine, withheld={}, bar=silent
            )
        if lines:
            warnings.warn(SchemaWarning(lines), stacklevel=5)
        survey, through = survey_feature_map(settled, run)
        draft, used_schema = _draft_of_survey(settled, run, survey, through), settled.reading
        facts = replace(draft.circumstances, schema=origin_of_schema(asked.schema, used_schema))
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
            schema=None if used_schema is None else used_schema.for_readers(),
            map=draft.map,
        )
        integers = partial(_integers_of_rows, draft, run, survey.rule, through, bar)
        yield GridRows(PendingRelease(release), facts.n_examples, integers)
        warn_of_clipping(draft.counted, draft.counts.clipped)


def _integers_of_rows(
    draft: ReleaseDraft, run: Curator, rule: LabelEncoder, through: MappedInputs | None, bar: Progress
) -> Iterator[NDArray[np.int64]]:
    """The integers of all rows, batch by batch, as a plain release sums them."""
    counts, columns, done, n_rows = draft.counts, draft.columns, 0, draft.circumstances.n_examples
    for batch in run.source.batches():
        values = batch.values()
        many = rule.n_classes > 2
        signs = np.ones(batch.n_rows, np.int8) if many else rule.signs(batch.labels, batch.place)
        rows, clipped = run.engine.snap(values, signs, columns)
        if batch.inputs is not None and through is not None:
            clipped = count_beyond_bounds(batch.inputs(), np.full(batch.n_rows, True), through.inputs)
        counts.clipped += clipped[: len(counts.clipped)]
        integers = rows[:, : len(columns)].astype(np.int64)
        if many:
            integers = _class_slot_rows(integers, rule.places(batch.labels, batch.place), rule.n_classes)
        done += batch.n_rows
        bar("sending rows", done, n_rows)
        yield integers
    if done != n_rows:
        raise TableError(CHANGED.format(name=run.source.name, before=n_rows, after=done))


def _class_slot_rows(rows: NDArray[np.int64], places: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    slots = np.zeros((len(rows), n_classes, rows.shape[1]), np.int64)
    slots[np.arange(len(rows)), places] = rows
    return slots.reshape(len(rows), -1)


def _draft_of_survey(
    asked: CraftRequest, run: Curator, facts: TableSurvey, through: MappedInputs | None
) -> ReleaseDraft:
    """What follows from the survey of a plain release: all but its rados."""
    columns: tuple[Column, ...] = make_grid_columns(
        run.source.features, facts.scale, facts.limits, facts.exact, intercept=asked.intercept
    )
    circumstances = StatementFacts(
        facts.scale, False, 1, len(columns), facts.exact.n_rows,
        mapped=through is not None, n_classes=facts.rule.n_classes,
    )  # fmt: skip
    return ReleaseDraft(
        blocks={}, columns=columns, classes=tuple(facts.rule.classes), circumstances=circumstances, parameters={},
        signatures={}, map=None if through is None else through.map,
        counts=RowCounts.zeros(len(columns) - asked.intercept if through is None else len(through.inputs)),
    )  # fmt: skip
