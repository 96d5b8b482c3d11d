"""For mechanisms that may look at the table first: a survey for scaling constants and classes, then the sum.

Two passes are needed because the grid depends on the range of each column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from radoboost.errors import TableError
from radoboost.holder.declared import check_bounds, check_names, limit_arrays
from radoboost.holder.grid import ExactSums, check_size, resolve_scale
from radoboost.holder.mechanisms.contract import CHANGED, Asked, Circumstances, Made
from radoboost.holder.passes import SumRados, SurveyRows, check_memory
from radoboost.holder.run import Run
from radoboost.holder.signatures import SignatureSet
from radoboost.release import RADOS
from radoboost.release.columns import Column
from radoboost.tables.labels import LabelRule, LabelsSeen

DEFAULT_SCALE = "standard"


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What the first pass found: exact statistics of clipped values, the classes, and how columns are scaled."""

    exact: ExactSums
    rule: LabelRule
    scale: str
    limits: dict[str, tuple[float, float]]


def check_scale(asked: Asked) -> str:
    """The scale by its name in a release."""
    asked.refuse_rows()
    asked.declared.refuse_private()
    asked.refuse_person("this mechanism")
    LabelsSeen(asked.label_name, asked.classes)
    return resolve_scale(asked.scale, DEFAULT_SCALE, len(asked.declared.limits) > 0)


def survey(asked: Asked, run: Run, *, unbounded: str | None = None) -> Surveyed:
    """The first pass; it ignores bounds of the column `unbounded`, and takes its exact sums."""
    run.expect(2)
    source, scale = run.source, check_scale(asked)
    check_names(source.features, asked.intercept)
    limits = check_bounds(asked.declared, source.features, scale)
    if scale != "bounds":  # slots are 0 or 1, and need no clipping
        limits = {name: pair for name, pair in limits.items() if name not in source.groups}
    check_memory(run.engine, asked.n_rados, len(source.features) + asked.intercept)
    if unbounded is not None:
        limits.pop(unbounded, None)
    moments = scale == "standard" or unbounded is not None
    labels = LabelsSeen(asked.label_name, asked.classes)
    task = SurveyRows(run.engine, *limit_arrays(limits, source.features), labels, moments, source.features)
    sums = run.sum(task)
    source.check_rows(sums.exact.n_rows)
    check_size(source.name, sums.exact.n_rows)
    return Surveyed(sums.exact, sums.labels.settle(), scale, limits)


def sum_rados(
    asked: Asked,
    run: Run,
    facts: Surveyed,
    columns: tuple[Column, ...],
    subsets: SignatureSet,
    parameters: Mapping[str, Any],
    turned: tuple[int, tuple[float, float]] | None = None,
) -> Made:
    """The second pass; `facts` are from the first one."""
    n_rows, n_rados = facts.exact.n_rows, asked.n_rados
    prepared = subsets.prepare(asked.signature_key, n_rados, n_rows, run.threads)
    sums = run.sum(SumRados(run.engine, columns, facts.rule, n_rados, prepared, turned))
    if sums.counts.n_rows != n_rows:
        raise TableError(CHANGED.format(name=run.source.name, before=n_rows, after=sums.counts.n_rows))
    return Made(
        # Exact: a total is fewer than 2**53 steps.
        blocks={RADOS: sums.totals * np.array([column.step for column in columns])},
        columns=columns,
        classes=(facts.rule.negative, facts.rule.positive),
        circumstances=Circumstances(facts.scale, asked.seeded, n_rados, len(columns), n_rows, asked.earlier),
        parameters=parameters,
        signatures={"name": subsets.name, **subsets.parameters(n_rows)},
        counts=sums.counts,
    )
