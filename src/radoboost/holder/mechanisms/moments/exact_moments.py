"""What the mechanism `moments` releases where epsilon is infinite: sums without noise, and without a promise.

The mean and the covariance of all rados that a table has are half the sum of its edge vectors and a quarter of their
second moment. These two are released, exactly, over the columns that a table of so many rows carries if there is no
noise. Nothing is whitened and there are no rounds: both only serve to spend an epsilon well.

There are three passes. The first is that of a plain release: it refuses rows that cannot be used, and says which
classes there are and, where nobody declared bounds, between which ones values lie. The second is the outline, from
which the columns follow as they do under noise, and the third sums edge vectors and their products. All of it is sums
of integers over rows, so that it is the same wherever it is computed, and of holders in a room as of one table.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.declared_bounds import check_declared_bounds
from radoboost.holder.feature_maps import map_table
from radoboost.holder.grid import check_rows_sum_exactly
from radoboost.holder.mechanisms import table_survey
from radoboost.holder.mechanisms.mechanism import KeyUse, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.moments.aggregations import CONSTANT_VALUE, GRID, MOST_ROWS, SphereRows
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.mechanisms.moments.feature_plan import FeatureCandidates, columns_of_plan
from radoboost.holder.mechanisms.moments.stages import Stages, check_memory_for_stages
from radoboost.holder.mechanisms.plain import Plain
from radoboost.holder.mechanisms.record_level import check_width_of_records, released_record_columns
from radoboost.holder.mechanisms.statements import COMMON, DEFAULT_DELTA, make_statement
from radoboost.holder.request import CraftRequest
from radoboost.privacy import NotPrivate, Relation
from radoboost.release.rado_sampling import require_memory_for_drawn_rados
from radoboost.release.release import Statement

if TYPE_CHECKING:
    from radoboost.holder.mechanisms.moments.moments import Moments

FARTHEST = 3.0  # deviations from the mean that bounds lie at most, where they are estimated
_NOT_PROTECTED = (
    "The sums are exact: no noise is added, and they tell of single records. Someone who knows all records but one "
    "gets the last one, and its label, by subtraction.",
    "The sum of all edge vectors and that of their products are in the release as they are, over all its columns: they "
    "also say about how many examples each class has. Sums of many columns may determine the rows of a small table, "
    "and two releases of a table differ by the rows that were added in between.",
    "Column names, declared bounds, the number of examples and the {n} class values are in the release as they are.",
)
_ESTIMATED = (
    "The bounds of columns for which none were declared were taken from the table: a bound is its smallest or largest "
    f"value, or lies {FARTHEST:g} standard deviations from its mean, exactly."
)
_PLANNED = (
    "The columns of the release are made of the table's by a feature map, which has the mean and the standard "
    "deviation of each of these, to a millionth or so."
)


def check_exact_moments(asked: CraftRequest) -> None:
    """Refuse what only serves a promise, what cannot be, and what exact sums have no use for."""
    if asked.rows is not None:
        raise ArgumentError("exact moments have no noise for rows to outweigh; leave rows out (--set rows)")
    table_survey.check_scale_argument(replace(asked, mechanism=Plain()))  # also refuses a person, and private bounds


def make_exact_moments(
    mechanism: "Moments", asked: CraftRequest, run: Curator, outlook: FeatureCandidates | None
) -> ReleaseDraft:
    """The sum of edge vectors and of their products, without noise."""
    names, facts = run.source.features, run.survey
    check_rows_sum_exactly(run.source.name, facts.all_rows, MOST_ROWS, "learn from all: rado learn A B")
    limits, estimated = _bounds_for_exact_moments(asked, facts, names)
    odd = {
        name: value for name, value in table_survey.outliers_of_survey(facts, run.source).items() if name in estimated
    }
    asked = replace(asked, found=limits)
    columns, through = released_record_columns(replace(asked, columns="linear") if outlook else asked, names, 1 / GRID)
    inputs, feature_map = None, None
    if through is not None:
        run.source, inputs, feature_map = map_table(run.source, through.map), through.inputs, through.map
    shape = NoiseShape(len(columns), n_classes=facts.rule.n_classes)
    shape = shape if outlook is None else outlook.shaped(shape)
    widest = check_width_of_records(max(shape.n_columns, shape.widest))
    check_memory_for_stages(run, widest, shape.slots)
    require_memory_for_drawn_rados(asked.n_rados, widest)
    features = columns[: len(columns) - asked.intercept]
    sphere = SphereRows(run.engine, facts.rule, features, asked.intercept, inputs)
    stages = Stages(mechanism, shape, run, sphere, outlook=outlook)
    stages.run_exactly()
    counts = stages.counts  # without values beyond bounds which nobody declared
    table_survey.check_table_unchanged(run, facts, counts)
    if stages.map is not None:
        feature_map, columns = stages.map, (*columns_of_plan(stages.map), columns[-1])
    return ReleaseDraft(
        blocks=stages.blocks,
        columns=columns,
        classes=tuple(facts.rule.classes),
        circumstances=StatementFacts(
            "bounds", asked.seeded, asked.n_rados, len(columns), facts.all_rows, asked.earlier,
            mapped=stages.map is not None, n_classes=facts.rule.n_classes, searched=estimated,
        ),
        parameters={
            "grid": GRID, "constant": CONSTANT_VALUE,
            **({"plan": {"word": outlook.word, **stages.plan.to_dict()}} if outlook else {}),
        },
        signatures={"name": "drawn"},
        counts=replace(counts, clipped=np.where(np.isin(names, estimated), 0, counts.clipped)),
        map=feature_map,
        outliers=odd,
    )  # fmt: skip


def _bounds_for_exact_moments(
    asked: CraftRequest, facts: table_survey.TableSurvey, names: Sequence[str]
) -> tuple[dict[str, tuple[float, float]], tuple[str, ...]]:
    """The bounds of all columns, and which of them are estimated: as far as values go, and some deviations at most."""
    declared = check_declared_bounds(asked.limits, names, "standard")
    slots = {name: (0.0, 1.0) for name in names if name in asked.groups}
    estimated = {}
    for k, name in enumerate(names):
        if name in declared or name in slots:
            continue
        mean, deviation = facts.exact.mean_and_std(k, name)
        low = max(float(facts.exact.lowest[k]), mean - FARTHEST * deviation)
        high = min(float(facts.exact.highest[k]), mean + FARTHEST * deviation)
        if not low < high:  # a constant column
            low, high = low - max(abs(low), 1.0), high + max(abs(high), 1.0)
        estimated[name] = low, high
    return {**slots, **declared, **estimated}, tuple(estimated)


def exact_statement(circumstances: StatementFacts) -> Statement:
    """No guarantee: epsilon is infinite, whichever tables are called neighbours."""
    number = "two" if circumstances.n_classes == 2 else f"{circumstances.n_classes:,}"
    statement = make_statement(
        "moments",
        NotPrivate("exact moments promise nothing", Relation.RECORD),
        DEFAULT_DELTA,
        circumstances,
        unit="none: nothing is promised",
        promises=(),
        not_protected=(
            *(sentence.format(n=number) for sentence in _NOT_PROTECTED),
            *([_ESTIMATED] if circumstances.searched else []),
            *([_PLANNED] if circumstances.mapped else []),
            COMMON[-1],
        ),
        secrets=KeyUse(coins=False, row_noise=False, sum_noise=False),
    )
    return replace(statement, neighbours="any two tables", delta=0.0, epsilon_at=())
