"""Audits and membership attacks of `moments` with more than two classes: honest ones pass, planted faults are found.

Every audit is at confidence 1 - 1e-6, which is the probability with which it would blame an honest mechanism at most;
and keys are fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import radoboost as rb
from radoboost.adversary.audits import audit, audit_moments
from radoboost.adversary.canaries import moments_runs
from radoboost.adversary.membership import membership, membership_of
from radoboost.adversary.membership.rebuilding import claimed, rebuilt
from radoboost.adversary.person_audit import audit_person, few_visits
from radoboost.holder.engines import kernel_classes, reference_rows
from radoboost.holder.engines.kernel import Kernel
from radoboost.holder.mechanisms import moment_classes
from radoboost.holder.mechanisms.moment_budget import Shape
from radoboost.holder.mechanisms.moment_passes import Vector
from radoboost.holder.mechanisms.moment_plan import WORDS
from radoboost.holder.run import Run
from radoboost.privacy import flatten
from stage_audits import audit_stages
from test_audits import KEY, LARGE, HalvedNoise, HalvedStage, OneNoiseForRounds

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


@pytest.mark.parametrize(
    ("what", "columns", "wide"),
    [
        *((what, "ranks", False) for what in RELATIONS),
        *(pytest.param("record", *plan, marks=pytest.mark.slow) for plan in PLANS if plan != ("ranks", False)),
        *(pytest.param(what, "linear", False, marks=pytest.mark.slow) for what in ("label", "replaced")),
    ],
)
def test_the_canary_moves_every_stage_of_every_plan_by_nearly_all_that_is_claimed(what, columns, wide, monkeypatch):
    """No statistics: a log-likelihood ratio is put to its mean, which is half of mu squared."""

    def gain(rest, change, sigma):
        return float((change * change).sum()) / sigma**2 if sigma else 0.0

    monkeypatch.setattr("radoboost.adversary.moments_audit.log_ratio", gain)
    mechanism = moments(LARGE, what)
    scores = moments_runs(mechanism, runs=2, key=KEY, columns=columns, wide=wide, n_classes=K)
    total = 0.0
    for name, claim in scores.by_stage.items():
        total += mu_squared(claim)
        low, high = SHARES[what].get(name, FULL)
        found = np.append(scores.present[name], scores.absent[name]) / mu_squared(claim)
        assert low - 1e-9 <= found.mean() and found.max() <= high * (1 + 1e-6), (name, found)
    assert total == pytest.approx(mechanism.distance(Shape(3, n_classes=K)) ** 2, rel=0.01)


@pytest.mark.parametrize(
    "what", ["record", *(pytest.param(what, marks=pytest.mark.slow) for what in ("label", "replaced"))]
)
def test_a_few_runs_show_no_more_than_is_claimed_and_some_of_it(what):
    result = audit_moments(moments(20.0, what), runs=120, key=KEY, columns="linear", n_classes=K)
    assert result.holds and result.found > 0.2 * result.claim and result.score == "all stages"
    assert result.neighbours == moments(20.0, what).neighbours.value


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"raw": True, "columns": "both"}, {"private_bounds": True, "columns": "ranks"}])
@pytest.mark.parametrize("what", ["record", "label"])
def test_a_raw_row_and_private_bounds_are_attacked_too(what, options):
    audits = audit_stages(moments(LARGE, what), runs=60, key=KEY, n_classes=K, **options)
    assert all(stage.holds for stage in audits.values()) and audits["mean rados"].found > 0
    assert ("bounds" in audits) == (what == "record" and "private_bounds" in options)


# ---- persons, releases, commands


@pytest.mark.slow
def test_a_person_of_one_of_five_classes_is_attacked():
    mechanism = rb.Moments(12.0)
    visits = few_visits(mechanism, 4, n_classes=K)
    for run, runs, holds in ((Run, 100, True), (HalvedNoise, 260, False)):
        result = audit_person(mechanism, visits, 4, runs=runs, key=KEY, run=run, columns="linear")
        assert result.holds is holds and result.found > 0
        assert result.neighbours == "one person added or removed"


def craft(rng, what, **options):
    x, y = rng.normal(size=(600, 2)), rng.integers(0, 4, 600)
    about = {"sharpen": options.pop("sharpen", True), **RELATIONS[what]}
    mechanism = rb.Moments(4.0, **about)
    return rb.craft(x, y, bounds=[[-3, 3]] * 2, classes=(0, 1, 2, 3), counts=None, mechanism=mechanism, **options)


@pytest.mark.parametrize("what", RELATIONS)
@pytest.mark.parametrize(("sharpen", "columns"), [(True, "linear"), (False, "ranks")])
def test_releases_are_rebuilt_with_their_noise_and_classes(rng, what, sharpen, columns):
    release = craft(rng, what, sharpen=sharpen, columns=columns)
    again, mechanism = rebuilt(release), moments(4.0, what, sharpen=sharpen)
    assert again.n_classes == 4 and again.columns == columns
    shape = Shape(3, n_classes=4)
    assert again.distance(shape) == pytest.approx(mechanism.distance(shape), rel=1e-4)
    assert claimed(release, again).epsilon == release.statement.epsilon


@pytest.mark.slow
def test_half_of_the_noise_of_a_release_is_found_out(rng):
    release = craft(rng, "record", sharpen=False, columns="linear")
    noise = {stage: value / 2 for stage, value in release.mechanism["noise"].items()}
    faulty = replace(release, mechanism={**release.mechanism, "noise": noise})
    found = membership_of(faulty, runs=1000, key=KEY, seconds=600)
    assert found.beats_claim is True and "of a third class" in found.granted[1]


@pytest.mark.slow
@pytest.mark.parametrize("what", RELATIONS)
def test_the_attack_on_a_release_keeps_to_its_statement(rng, what):
    found = membership_of(craft(rng, what), runs=1000, key=KEY, seconds=600)
    assert found.beats_claim is False and found.roc.advantage > 0.5 * found.claim.advantage


def test_classes_are_a_number_and_only_for_moments():
    for mechanism, n_classes, message in (
        (rb.NoisyRados(epsilon=4.0), 3, "leave n_classes out"),
        (rb.FeatureBand("x", 1.0), 3, "leave n_classes out"),
        (rb.Moments(4.0), 1, "whole number from 2 to 64"),
        (rb.Moments(4.0), 65, "whole number from 2 to 64"),
        (rb.Moments(4.0), True, "whole number from 2 to 64"),
    ):
        with pytest.raises(rb.ArgumentError, match=message):
            audit(mechanism, runs=1000, n_classes=n_classes)
    with pytest.raises(rb.ArgumentError, match="for two classes"):
        membership(rb.NoisyRados(epsilon=4.0), runs=1000, n_classes=3)


def test_the_command(rado, monkeypatch):
    asked = {}

    def attack(mechanism, **options):
        asked.update(options)
        return audit(rb.FeatureBand("x", 1.0, delta=1e-5))

    monkeypatch.setattr("radoboost.adversary.audits.audit", attack)
    code, _, _ = rado("audit", "--epsilon", 4, "--n-classes", 5, "--json")
    assert code == 0 and asked["n_classes"] == 5
    monkeypatch.undo()
    code, out, err = rado("audit", "--epsilon", 4, "--n-classes", 1)
    assert (code, out, err.count("\n")) == (1, "", 1)


# ---- planted faults


class OneNoiseForSlots(Run):
    """The same noise in the slots of all classes."""

    def noise(self, scale, shape):
        noise = super().noise(scale, shape)
        return np.repeat(noise[:1], K, axis=0) if shape[0] == K else noise


@pytest.mark.parametrize(
    ("what", "run", "options"),
    [("record", HalvedNoise, {})]
    + [pytest.param(*fault, marks=pytest.mark.slow) for fault in (
        ("label", HalvedNoise, {}), ("replaced", HalvedNoise, {}), ("record", OneNoiseForRounds, {}),
        ("record", OneNoiseForSlots, {}), ("label", OneNoiseForSlots, {}),
        ("record", OneNoiseForSlots, {"sharpen": False}),
    )],
)  # fmt: skip
def test_faulty_noise_is_caught(what, run, options):
    mechanism = moments(12.0, what, **options)
    assert not audit_moments(mechanism, runs=260, key=KEY, run=run, columns="linear", n_classes=K).holds


# Stages by the number of their noise, counted from 0 after the noisy counts, of plans with ranks; of mean rados by
# which sum it is. None is an honest run.
STAGES = {
    "outline": 0,
    "ranks": 1,
    "second moments": 2,
    "sum": 3,
    "whitened moments": 4,
    "mean rados": None,
    None: None,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "epsilon"),
    [(None, LARGE), ("sum", 60.0), ("mean rados", 15.0)]
    + [
        pytest.param(stage, 60.0, marks=pytest.mark.slow) for stage, number in STAGES.items() if number not in (3, None)
    ],
)
def test_halved_noise_in_one_stage_is_caught(stage, epsilon):
    class Faulty(HalvedStage):
        numbers = (STAGES[stage],)

        def add_noise(self, total, *noises):
            mean = stage == "mean rados" and isinstance(total, Vector)
            super().add_noise(total, *(replace(one, scale=one.scale / 2) if mean else one for one in noises))

    runs = 300 if stage else 100
    audits = audit_stages(rb.Moments(epsilon), runs=runs, key=KEY, run=Faulty, columns="ranks", n_classes=K)
    assert [name for name, one in audits.items() if not one.holds] == ([stage] if stage else [])


class Quieter(rb.Moments):
    """Noise of one stage for a reach that is smaller by sqrt(2) than what the stage can move by."""

    stage = ""

    def scales(self, n_rounds, shape):
        scales = super().scales(n_rounds, shape)
        return {**scales, self.stage: scales[self.stage] / 2**0.5}


def gains(mechanism, runs, stage):
    """Mu squared of a stage, as the mean of its log-likelihood ratios shows it, and the most that is claimed.

    An honest mean is above that with a probability below 1e-6: it is normal, with twice mu squared as its variance.
    """
    scores = moments_runs(mechanism, runs=runs, key=KEY, columns="linear", n_classes=K)
    most = mu_squared(scores.by_stage[stage])
    return scores.present[stage].mean() - scores.absent[stage].mean(), most + 5 * math.sqrt(2 * most / runs)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["sum", "scores"])
def test_a_label_that_is_taken_to_move_one_slot_or_one_count_is_caught(stage):
    """It leaves one and gets into another: sqrt(2), in sums by class and in counts of hits."""
    for kind, holds in ((type("Faulty", (Quieter,), {"stage": stage}), False), (rb.Moments, True)):
        found, most = gains(kind(VAST if stage == "scores" else 12.0, unit="label", sharpen=False), 300, stage)
        assert bool(found <= most) is holds


def capped_by_coordinates(rows, theta, grid, unit, most):
    """Each class weight of a row capped on its own, where all of them should be, as one vector."""
    weights = reference_rows.class_weights(rows, theta, grid, unit, 2 * unit**2)
    cap = math.floor(math.sqrt(most))
    return (np.clip(weights, -cap, cap) @ rows[:-1].astype(np.float64).T).astype(np.int64)


def not_capped(rows, theta, grid, unit, most):
    return kernel_classes.tilt_classes(rows, theta, grid, unit, 2 * unit**2)


@pytest.mark.slow
@pytest.mark.parametrize("weighing", [capped_by_coordinates, not_capped, kernel_classes.tilt_classes])
def test_a_cap_by_coordinates_is_caught_and_so_is_none(weighing, monkeypatch):
    """A row of a class that nobody else has: its weights are 0.71, -0.5 and -0.5, which is longer by sqrt(2)."""
    monkeypatch.setattr(Kernel, "tilt_classes", staticmethod(weighing))
    found, most = gains(rb.Moments(15.0), 80, "mean rados")
    assert bool(found <= most) is (weighing is kernel_classes.tilt_classes)


def one_against_the_rest(rows, n_classes):
    """A signed sum for each class, as if each were one of two: K sums move, where the noise is for one."""
    signs = np.where(np.arange(1, n_classes + 1)[:, None] == rows[-1], 1.0, -1.0) * (rows[-1] > 0)
    return (signs @ rows[:-1].astype(np.float64).T).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["record", "label"])
def test_sums_of_all_classes_that_are_accounted_as_those_of_one_are_caught(what, monkeypatch):
    monkeypatch.setattr(moment_classes, "slot_sums", one_against_the_rest)
    mechanism = moments(10.0, what, sharpen=False)
    assert not audit_stages(mechanism, runs=250, key=KEY, columns="linear", n_classes=K)["sum"].holds


@pytest.mark.slow
def test_noise_for_a_record_that_is_added_is_caught_where_one_is_replaced():
    class Added(rb.Moments):
        def scales(self, n_rounds, shape):
            return rb.Moments(self.epsilon).scales(n_rounds, shape)

    audits = audit_stages(Added(15.0, relation="replace"), runs=280, key=KEY, columns="linear", n_classes=K)
    assert not audits["mean rados"].holds
