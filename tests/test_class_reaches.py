"""What one record changes in any sum of `moments` with more than two classes: no more than the budget claims.

Sums are those of the passes that crafting runs, of two neighbouring tables, in whole numbers; so it is the change
itself that is held against the reach, whatever the rows, the classes and what was released before.
"""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radoboost.holder.engines import ENGINES, get_engine, reference
from radoboost.holder.mechanisms.moments import aggregations
from radoboost.holder.mechanisms.moments.aggregations import MeanRado, SphereRows, SumProducts, WhitenedRows
from radoboost.holder.mechanisms.moments.budget import NoiseShape, plan_stage_budget
from radoboost.holder.mechanisms.moments.score_histogram import HitCounts
from radoboost.holder.runners.row_cache import RowBatch
from radoboost.release.columns import Column
from radoboost.tables import Batch
from radoboost.tables.labels import LabelEncoder

RELATIONS = {"record": ("record", False), "label": ("label", False), "replaced": ("record", True)}
cell = st.one_of(st.floats(-9, 9), st.sampled_from([0.0, 3.0, -3.0, math.nan, math.inf, -math.inf, 1e300, 5e-324]))
sizes = st.sampled_from([0.0, 0.1, 1.0, 10.0, 1e3, 2.0**30])


class Sums:
    """The sums of all stages of tables, given what was released before: a whitening, a classifier and weights."""

    def __init__(self, d, n_classes, seed, size, engine):
        rng = np.random.default_rng(seed)
        self.shape = NoiseShape(d + 1, n_planned=d + 1, n_classes=n_classes)
        columns = tuple(Column(f"x{k}", "bounds", 1.0, -3.0, 3.0) for k in range(d))
        self.rule, engine = LabelEncoder("y", tuple(range(n_classes))), get_engine(engine)
        self.sphere = SphereRows(engine, self.rule, columns, True)
        white = WhitenedRows(self.sphere, np.round(rng.normal(size=(d + 1, d + 1)), 6))
        theta, weights = (np.round(rng.normal(size=(n_classes, d + 1)) * size, 6) for _ in range(2))
        self.of_table = {
            "cells": HitCounts(self.rule, columns, weights, 1.0),
        }
        self.white, self.slots = white, SumProducts(engine, d + 1, n_classes=n_classes)
        self.means = MeanRado(engine, theta, 1, 1)

    def __call__(self, rows):
        """By the names of stages, as Python's whole numbers."""
        values = np.array([row[:-1] for row in rows]).reshape(len(rows), self.shape.n_columns - 1)
        labels = pa.array([row[-1] for row in rows], pa.int64())
        batch = Batch(len(rows), labels, lambda: values, str)
        first, cells = (self._sum(task, batch) for task in (self.sphere, self.of_table["cells"]))
        white = self.white.rows(batch)
        kept = RowBatch(len(rows), lambda: white)
        slots, mean = self._sum(self.slots, kept), self._sum(self.means, kept)
        spoiled = first.counts.spoiled
        sums = {
            "counts": np.array([first.counts.n_rows - spoiled, spoiled]) * 2**15, "outline": first.products,
            "second": first.products, "sum": slots.vector, "whitened": slots.products,
            "rounds": mean.vector, "scores": cells.cells,
        }  # fmt: skip
        return {name: block.astype(object) for name, block in sums.items()}

    @staticmethod
    def _sum(task, batch):
        sums = task.empty()
        task.add(sums, 0, batch)
        return sums

    def beyond(self, relation, one, other):
        """The stages that change by more than their reach between two tables; exact ones, if they change at all."""
        unit, replaced = RELATIONS[relation]
        stages = plan_stage_budget(unit, True, 0.1, self.shape, 8, replaced=replaced)
        sums, others = self(one), self(other)
        assert sums.keys() == {stage.name for stage in stages}
        found = []
        for stage in stages:
            change = int(((sums[stage.name] - others[stage.name]) ** 2).sum())
            most = (stage.reach * stage.steps) ** 2 * (1 + 1e-13) if stage.share else 0
            found += [stage.name] if change > most else []
        return found


def neighbours(data, relation, d, n_classes):
    """Two tables that differ in one record, of any cells and any class, or none."""
    row = st.tuples(*[cell] * d, st.sampled_from([*range(n_classes), n_classes + 7, None]))
    others, canary = data.draw(st.lists(row, max_size=3)), data.draw(row)
    if relation == "record":
        return [*others, canary], others
    if relation == "replaced":
        return [*others, canary], [*others, data.draw(row)]
    place, step = data.draw(st.integers(0, n_classes - 1)), data.draw(st.integers(1, n_classes - 1))
    return [*others, (*canary[:-1], place)], [*others, (*canary[:-1], (place + step) % n_classes)]


@pytest.mark.parametrize("relation", RELATIONS)
@given(st.data(), st.integers(1, 4), st.integers(3, 12), st.integers(0, 2**32), sizes, st.sampled_from(ENGINES))
def test_no_record_moves_a_sum_by_more_than_its_reach(relation, data, d, n_classes, seed, size, engine):
    sums = Sums(d, n_classes, seed, size, engine)
    assert sums.beyond(relation, *neighbours(data, relation, d, n_classes)) == []


def not_scaled_as_one(rows, theta, grid, unit, most):
    weights = reference.class_weights(rows, theta, grid, unit, 2 * unit**2)
    cap = math.floor(math.sqrt(most))
    return (np.clip(weights, -cap, cap) @ rows[:-1].astype(np.float64).T).astype(np.int64)


def in_every_slot(rows, n_classes):
    return np.tile((rows[:-1].astype(np.int64) * (rows[-1] > 0)).sum(axis=1), (n_classes, 1))


@pytest.mark.parametrize(
    ("where", "what", "fault", "relation", "stage"),
    [
        (reference, "tilt_classes", not_scaled_as_one, "record", "rounds"),
        (aggregations, "moment_sums_by_class", in_every_slot, "record", "sum"),
        (aggregations, "moment_sums_by_class", in_every_slot, "replaced", "sum"),
    ],
)
def test_planted_faults_are_found(where, what, fault, relation, stage, monkeypatch):
    """So the test above can fail."""
    from radoboost.holder.engines.reference import Reference

    if where is reference:
        monkeypatch.setattr(Reference, what, staticmethod(fault))
    else:
        monkeypatch.setattr(where, what, fault)
    found = set()
    for seed in range(20):
        sums, rng = Sums(2, 5, seed, 10.0, "reference"), np.random.default_rng(seed)
        one, other = ((*rng.uniform(-3, 3, 2).tolist(), int(rng.integers(5))) for _ in range(2))
        found |= set(sums.beyond(relation, [one], [other] if relation == "replaced" else []))
    assert found == {stage}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_classes", [3, 5, 12])
def test_reaches_are_nearly_attained(relation, n_classes):
    """Rows of the same features in two classes, between which a classifier cannot choose, move a mean rado most."""
    sums = Sums(2, n_classes, 0, 0.0, "kernel")
    theta = np.zeros((n_classes, 3))
    row = (3.0, 2.0)
    white = sums.white.rows(Batch(1, pa.array([0]), lambda: np.array([row]), str))[:-1, 0] / 2**15
    theta[2:] = -40 * white  # the others have no chance
    sums.means = MeanRado(sums.white.sphere.engine, theta, 1, 1)
    unit, replaced = RELATIONS[relation]
    tables = ([(*row, 2)], []) if relation == "record" else ([(*row, 0)], [(*row, 1)])
    one, other = (sums(table) for table in tables)
    for stage in plan_stage_budget(unit, True, 0.1, sums.shape, 8, replaced=replaced):
        if stage.name in ("sum", "rounds"):
            change = math.sqrt(int(((one[stage.name] - other[stage.name]) ** 2).sum()))
            attained = math.sqrt(0.5) if (relation, stage.name) == ("replaced", "sum") else 1.0
            assert change / stage.reach / stage.steps == pytest.approx(attained, abs=2e-3), stage.name
