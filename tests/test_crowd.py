"""Few rows that stand for many, and attacks on plans that only many rows carry."""

import math
from dataclasses import replace

import numpy as np
import pytest

import radoboost as rb
from radoboost.adversary import moments_audit
from radoboost.adversary.audits import audit, audit_moments
from radoboost.adversary.canaries import moments_runs
from radoboost.adversary.crowd import CROWDED, Crowd
from radoboost.adversary.moments_audit import MANY_NUMBERS, NUMBERS
from radoboost.holder.engines import get_engine
from radoboost.holder.mechanisms import Asked
from radoboost.holder.run import Run
from radoboost.holder.runners.threads import Threads
from radoboost.privacy import flatten

KEY = b"an audit key, fixed for the test"
LARGE = 1000.0  # an epsilon at which few runs show much of every stage


def canary_of(plan):
    return MANY_NUMBERS if CROWDED[plan].wide else NUMBERS


def options_of(plan, mechanism):
    crowd = CROWDED[plan]
    return {"wide": crowd.wide, "others": crowd.others(mechanism, len(canary_of(plan).values) + 1)}


@pytest.fixture
def plans(monkeypatch):
    """The plans of all releases that an attack makes, as they are made."""
    seen, make = [], moments_audit._make

    def noted(*about):
        made = make(*about)
        seen.append(made.parameters["plan"])
        return made

    monkeypatch.setattr(moments_audit, "_make", noted)
    return seen


def is_plan(made, plan):
    """Whether a plan is what it is called."""
    kind = plan.partition(",")[0].partition(" ")[0]
    return (made["word"], made["kind"], made["ranks"]) == ("auto", kind, "ranks" in plan) and made["cosines"] > 0


@pytest.mark.parametrize("unit", ["record", pytest.param("label", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("columns", "canary", "times"),
    [
        ("auto", NUMBERS, (2000, 2000, 1)),
        ("linear", NUMBERS, (3, 5, 7)),
        ("ranks", NUMBERS, (250, 249, 2)),
        ("both", MANY_NUMBERS, (70, 1, 64)),
    ],
)
def test_few_rows_that_stand_for_many_give_the_release_of_many(columns, canary, times, unit):
    """Every number in it, to the last bit, where noise has the same key."""
    asked = Asked(n_rados=0, signature_key=bytes(32), declared=canary.declared, classes=(0, 1), columns=columns)
    mechanism, labels = rb.Moments(4.0, unit=unit), [1, 0, 1]
    few, many = canary.table(labels), canary.table(np.repeat(labels, times))
    made, long = (
        mechanism.make(asked, Run(table, get_engine("auto"), runner, KEY))
        for table, runner in ((few, Crowd(times)), (many, Threads(2)))
    )
    assert made.blocks.keys() == long.blocks.keys() and made.parameters == long.parameters
    for name, block in long.blocks.items():
        assert np.array_equal(made.blocks[name], block), name
    assert made.columns == long.columns and made.counts.n_rows == long.counts.n_rows == sum(times)


def mu_squared(event):
    return sum(count / leaf.noise_multiplier**2 for leaf, count in flatten(event).items())


@pytest.mark.slow
@pytest.mark.parametrize("plan", CROWDED)
def test_a_few_runs_of_plans_that_auto_makes_show_every_stage_and_no_more_than_its_part(plan, plans):
    """As for plans that a word asks for, at a false alarm of 1e-6; counts of rows and of scores take more runs."""
    mechanism, runs = rb.Moments(LARGE), 24
    scores = moments_runs(mechanism, runs=runs, key=KEY, **options_of(plan, mechanism))
    assert len(plans) == 2 * runs and all(is_plan(made, plan) for made in plans)
    total = 0.0
    for name, claim in scores.by_stage.items():
        mu2 = mu_squared(claim)
        gains = scores.present[name].mean() - scores.absent[name].mean()
        reach = 5 * math.sqrt(2 * mu2 / runs)
        assert 0.7 * mu2 - reach < gains < mu2 + reach, name
        assert 0.7 * mu2 > reach or name in ("counts", "scores"), name  # a stage that shows nothing would be seen
        total += mu2
    assert ("ranks" in scores.by_stage) == ("ranks" in plan)
    assert total == pytest.approx(mu_squared(scores.event), rel=0.01)


class HalvedNoise(Run):
    def add_noise(self, total, *noises):
        super().add_noise(total, *(replace(noise, scale=noise.scale / 2) for noise in noises))


@pytest.mark.slow
@pytest.mark.parametrize("plan", CROWDED)
def test_halved_noise_of_plans_that_auto_makes_is_caught(plan, plans):
    mechanism = rb.Moments(8.0)
    assert not audit_moments(mechanism, runs=600, key=KEY, run=HalvedNoise, **options_of(plan, mechanism)).holds
    assert any(is_plan(made, plan) for made in plans)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "runs"), [(1.0, 50_000), (4.0, 6000)])
@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize("plan", CROWDED)
def test_plans_that_auto_makes_give_less_than_they_claim_and_most_of_it(plan, unit, epsilon, runs, plans):
    mechanism = rb.Moments(epsilon, unit=unit)
    result = audit_moments(mechanism, runs=runs, key=KEY, **options_of(plan, mechanism))
    assert result.holds and 0.6 * result.claim <= result.found <= result.claim <= epsilon
    assert all(is_plan(made, plan) for made in plans)


@pytest.mark.parametrize(
    ("unit", "epsilon"),
    [("record", 1.0)]
    + [
        pytest.param(unit, epsilon, marks=pytest.mark.slow)
        for unit in ("record", "label")
        for epsilon in (0.3, 1.0, 4.0, 10.0)
        if (unit, epsilon) != ("record", 1.0)
    ],
)
@pytest.mark.parametrize("plan", CROWDED)
def test_so_many_others_make_the_plan(plan, epsilon, unit, plans):
    mechanism = rb.Moments(epsilon, unit=unit)
    moments_runs(mechanism, runs=1, key=KEY, **options_of(plan, mechanism))
    assert all(is_plan(made, plan) for made in plans)


@pytest.mark.parametrize(("mechanism", "options"), [(rb.NoisyRados(4.0), {}), (rb.Moments(4.0), {"max_rows": 2})])
def test_others_are_for_moments_and_records(mechanism, options):
    with pytest.raises(rb.ArgumentError, match="leave others out"):
        audit(mechanism, runs=1000, others=4000, **options)
