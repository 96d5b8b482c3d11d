"""Audits and membership attacks of `moments` with more than two classes: honest ones pass, planted faults are found.

Every audit is at confidence 1 - 1e-6, which is the probability with which it would blame an honest mechanism at most;
and keys are fixed.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import radoboost as rb
from radoboost.adversary.audits import audit, audit_moments, audit_stages
from radoboost.adversary.canaries import moments_runs
from radoboost.adversary.membership import membership, membership_of
from radoboost.adversary.membership.rebuilding import claimed, rebuilt
from radoboost.adversary.person_audit import audit_person, few_visits
from radoboost.holder.engines import get_engine, kernel_classes, reference_rows
from radoboost.holder.engines.kernel import Kernel
from radoboost.holder.mechanisms import moment_classes
from radoboost.holder.mechanisms.bins import CountBins, EqualBins
from radoboost.holder.mechanisms.moment_budget import Shape, planned_stages
from radoboost.holder.mechanisms.moment_classes import CLASS_CAP, WEIGHTS, MeanSlots, SumSlots, WhitenedClasses
from radoboost.holder.mechanisms.moment_passes import GRID, SphereRows
from radoboost.holder.mechanisms.moment_plan import WORDS
from radoboost.holder.mechanisms.score_counts import HitCounts
from radoboost.holder.run import Run
from radoboost.holder.runners.kept import RowBatch
from radoboost.privacy import flatten
from radoboost.release.columns import Column
from radoboost.tables import Batch
from radoboost.tables.labels import LabelRule
from test_audits import KEY, LARGE, HalvedNoise, HalvedStage, OneNoiseForAll, OneNoiseForRounds

K = 5
VAST = 200.0  # an epsilon at which few runs show a stage with a small part of the budget
RELATIONS = {"record": {}, "label": {"unit": "label"}, "replaced": {"relation": "replace"}}
PLANS = [*((word, False) for word in ("linear", *WORDS)), ("both", True)]


def moments(epsilon, what="record", **options):
    return rb.Moments(epsilon, **RELATIONS[what], **options)


def mu_squared(event):
    return sum(count / leaf.noise_multiplier**2 for leaf, count in flatten(event).items())


# ---- honest mechanisms


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 5, 12])
@pytest.mark.parametrize("what", RELATIONS)
@pytest.mark.parametrize(("columns", "wide"), PLANS)
def test_every_plan_gives_less_than_it_claims_and_most_of_it(columns, wide, what, n_classes):
    mechanism, runs = moments(4.0, what), 13_000 if what == "replaced" else 6000
    result = audit_moments(mechanism, runs=runs, key=KEY, columns=columns, wide=wide, n_classes=n_classes)
    assert result.holds and 0.6 * result.claim <= result.found <= result.claim <= 4.0
    assert result.neighbours == mechanism.neighbours.value and result.score == "all stages"


@pytest.mark.slow
@pytest.mark.parametrize("what", RELATIONS)
def test_epsilon_one_gives_less_than_it_claims_and_most_of_it(what):
    runs = 140_000 if what == "replaced" else 60_000
    result = audit_moments(moments(1.0, what), runs=runs, key=KEY, columns="linear", n_classes=K)
    assert result.holds and 0.6 * result.claim <= result.found <= result.claim <= 1.0


# What the canary moves each stage by, as a share of mu squared: all of it, but for a label's or another record's mean
# rados, where the classifier leans a little, and for what the other record agrees in.
FULL, MOST, HALF, NONE = (0.99, 1), (0.6, 1), (0.49, 0.51), (0, 1e-9)
SHARES = {
    "record": {},
    "label": {"mean rados": MOST, "scores": (0.9, 1)},
    "replaced": {
        "counts": NONE, "outline": NONE, "second moments": NONE, "whitened moments": NONE, "sum": HALF,
        "mean rados": MOST, "scores": (0.9, 1),
    },
}  # fmt: skip


@pytest.mark.parametrize("what", RELATIONS)
@pytest.mark.parametrize(("columns", "wide"), PLANS)
def test_the_canary_moves_every_stage_of_every_plan_by_nearly_all_that_is_claimed(columns, wide, what, monkeypatch):
    """No statistics: a log-likelihood ratio is put to its mean, which is half of mu squared."""

    def gain(rest, change, sigma):
        return float((change * change).sum()) / sigma**2 if sigma else 0.0

    monkeypatch.setattr("radoboost.adversary.moments_audit.log_ratio", gain)
    mechanism = moments(LARGE, what)
    scores = moments_runs(mechanism, runs=3, key=KEY, columns=columns, wide=wide, n_classes=K)
    total = 0.0
    for name, claim in scores.by_stage.items():
        total += mu_squared(claim)
        low, high = SHARES[what].get(name, FULL)
        found = np.append(scores.present[name], scores.absent[name]) / mu_squared(claim)
        if name == "ranks" and what == "replaced" and wide:
            continue  # a record of many numbers is not on the edges of bins
        assert low - 1e-9 <= found.mean() and found.max() <= high * (1 + 1e-6), (name, found)
    assert total == pytest.approx(mechanism.distance(Shape(3, n_classes=K)) ** 2, rel=0.01)


@pytest.mark.parametrize("what", RELATIONS)
def test_a_few_runs_show_no_more_than_is_claimed_and_some_of_it(what):
    audits = audit_stages(moments(LARGE, what), runs=100, key=KEY, columns="ranks", n_classes=K)
    assert all(stage.holds for stage in audits.values()) and audits["mean rados"].found > 0
    result = audit_moments(moments(LARGE, what), runs=150, key=KEY, columns="linear", n_classes=K)
    assert result.holds and result.found > 0.3 * result.claim and result.score == "all stages"


# ---- planted faults


class OneNoiseForSlots(Run):
    """The same noise in the slots of all classes."""

    def noise(self, scale, shape):
        noise = super().noise(scale, shape)
        return np.repeat(noise[:1], K, axis=0) if shape[0] == K else noise


@pytest.mark.parametrize(
    ("what", "run", "options"),
    [("record", HalvedNoise, {}), ("label", HalvedNoise, {}), ("replaced", HalvedNoise, {}),
     ("record", OneNoiseForAll, {}), ("label", OneNoiseForRounds, {}),
     ("record", OneNoiseForSlots, {}), ("label", OneNoiseForSlots, {}),
     ("record", OneNoiseForSlots, {"sharpen": False}), ("replaced", OneNoiseForSlots, {})],
)  # fmt: skip
def test_faulty_noise_is_caught(what, run, options):
    mechanism = moments(12.0, what, **options)
    assert not audit_moments(mechanism, runs=250, key=KEY, run=run, columns="linear", n_classes=K).holds


# Stages by the number of their noise, counted from 0 after the noisy counts; with ranks.
NUMBERS = {"outline": (0,), "ranks": (1,), "second moments": (2,), "sum": (3,), "whitened moments": (4,)}


@pytest.mark.parametrize("stage", [*NUMBERS, "mean rados", None])
def test_halved_noise_in_one_stage_is_caught(stage):
    class Faulty(HalvedStage):
        number = NUMBERS.get(stage, (None,))[0]

        def add_noise(self, total, *noises):
            mean = stage == "mean rados" and type(total).__name__ == "Vector"
            super().add_noise(total, *(replace(one, scale=one.scale / 2) if mean else one for one in noises))

    audits = audit_stages(rb.Moments(LARGE), runs=300, key=KEY, run=Faulty, columns="ranks", n_classes=K)
    assert [name for name, one in audits.items() if not one.holds] == ([stage] if stage else [])


class Quieter(rb.Moments):
    """Noise of one stage for a reach that is smaller by sqrt(2) than what the stage can move by."""

    stage = ""

    def scales(self, n_rounds, shape):
        scales = super().scales(n_rounds, shape)
        return {**scales, self.stage: scales[self.stage] / 2**0.5}


@pytest.mark.parametrize(
    ("name", "stage", "epsilon", "runs"), [("sum", "sum", LARGE, 400), ("scores", "scores", VAST, 400)]
)
def test_a_label_that_is_taken_to_move_one_slot_or_one_count_is_caught(name, stage, epsilon, runs):
    """It leaves one and gets into another: sqrt(2), in sums by class and in counts of hits."""
    faulty = type("Faulty", (Quieter,), {"stage": stage})
    options = {"runs": runs, "key": KEY, "columns": "linear", "n_classes": K}
    assert not audit_stages(faulty(epsilon, unit="label"), **options)[name].holds
    assert audit_stages(rb.Moments(epsilon, unit="label"), **options)[name].holds


def capped_by_coordinates(rows, theta, grid, unit, most):
    """Each class weight of a row capped on its own, where all of them should be, as one vector."""
    weights = reference_rows.class_weights(rows, theta, grid, unit, 2 * unit**2)
    cap = math.floor(math.sqrt(most))
    return (np.clip(weights, -cap, cap) @ rows[:-1].astype(np.float64).T).astype(np.int64)


def not_capped(rows, theta, grid, unit, most):
    return kernel_classes.tilt_classes(rows, theta, grid, unit, 2 * unit**2)


@pytest.mark.parametrize(
    ("weighing", "runs"), [(capped_by_coordinates, 700), (not_capped, 500), (kernel_classes.tilt_classes, 700)]
)
def test_a_cap_by_coordinates_is_caught_and_so_is_none(weighing, runs, monkeypatch):
    """A row of a class that nobody else has: its weights are 0.71, -0.5 and -0.5, which is longer by sqrt(2)."""
    monkeypatch.setattr(Kernel, "tilt_classes", staticmethod(weighing))
    audits = audit_stages(rb.Moments(8.0), runs=runs, key=KEY, columns="linear", n_classes=K)
    assert audits["mean rados"].holds is (weighing is kernel_classes.tilt_classes)
    assert all(one.holds for name, one in audits.items() if name != "mean rados")


def one_against_the_rest(rows, n_classes):
    """A signed sum for each class, as if each were one of two: K sums move, where the noise is for one."""
    signs = np.where(np.arange(1, n_classes + 1)[:, None] == rows[-1], 1.0, -1.0) * (rows[-1] > 0)
    return (signs @ rows[:-1].astype(np.float64).T).astype(np.int64)


@pytest.mark.parametrize("what", ["record", "label"])
def test_sums_of_all_classes_that_are_accounted_as_those_of_one_are_caught(what, monkeypatch):
    monkeypatch.setattr(moment_classes, "slot_sums", one_against_the_rest)
    audits = audit_stages(moments(12.0, what), runs=300, key=KEY, columns="linear", n_classes=K)
    assert not audits["sum"].holds


def test_noise_for_a_record_that_is_added_is_caught_where_one_is_replaced():
    class Added(rb.Moments):
        def scales(self, n_rounds, shape):
            return rb.Moments(self.epsilon).scales(n_rounds, shape)

    audits = audit_stages(Added(12.0, relation="replace"), runs=300, key=KEY, columns="linear", n_classes=K)
    assert not audits["mean rados"].holds
