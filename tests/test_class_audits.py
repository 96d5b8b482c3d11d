"""Audits and membership attacks of `moments` with more than two classes: honest ones pass, planted faults are found.

Every audit is at confidence 1 - 1e-6, which is the probability with which it would blame an honest mechanism at most;
and keys are fixed.
"""

from dataclasses import replace

import pytest

import flat
import radoboost as rb
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.lab.attacks.mechanism_from_release import claim_of_statement, mechanism_of_release
from radoboost.lab.attacks.membership import membership_attack, membership_of_release
from radoboost.lab.audits.audit import audit, audit_by_runs
from radoboost.lab.audits.canaries import Scenario
from test_audits import KEY, HalvedNoise

K = 5
RELATIONS = {"record": {}, "label": {"unit": "label"}, "replaced": {"relation": "replace"}}


def moments(epsilon, what="record", **options):
    return rb.Moments(epsilon, **RELATIONS[what], **options)


# ---- honest mechanisms


def test_a_few_runs_show_no_more_than_is_claimed_and_some_of_it():
    result = audit_by_runs(rb.Moments(20.0), Scenario(runs=120, key=KEY, columns="linear", n_classes=K))
    assert result.holds and result.found > 0.2 * result.claim
    assert result.neighbours == "one record added or removed"


# ---- persons, releases, commands


def craft(rng, what, **options):
    x, y = rng.normal(size=(600, 2)), rng.integers(0, 4, 600)
    about = {"sharpen": options.pop("sharpen", True), **RELATIONS[what]}
    mechanism = rb.Moments(4.0, **about)
    return flat.craft(x, y, bounds=[[-3, 3]] * 2, classes=(0, 1, 2, 3), counts=None, mechanism=mechanism, **options)


@pytest.mark.parametrize("what", RELATIONS)
@pytest.mark.parametrize(("sharpen", "columns"), [(True, "linear"), (False, "degree-2")])
def test_releases_are_rebuilt_with_their_noise_and_classes(rng, what, sharpen, columns):
    release = craft(rng, what, sharpen=sharpen, columns=columns)
    again, mechanism = mechanism_of_release(release), moments(4.0, what, sharpen=sharpen)
    assert again.n_classes == 4 and again.columns == columns
    shape = NoiseShape(3, n_classes=4)
    assert again.distance(shape) == pytest.approx(mechanism.distance(shape), rel=1e-4)
    assert claim_of_statement(release, again).epsilon == release.statement.epsilon


@pytest.mark.slow
def test_half_of_the_noise_of_a_release_is_found_out(rng):
    release = craft(rng, "record", sharpen=False, columns="linear")
    noise = {stage: value / 2 for stage, value in release.mechanism["noise"].items()}
    faulty = replace(release, mechanism={**release.mechanism, "noise": noise})
    found = membership_of_release(faulty, runs=1000, key=KEY, seconds=600)
    assert found.beats_claim is True and "of a third class" in found.granted[1]


@pytest.mark.slow
def test_the_attack_on_a_release_keeps_to_its_statement(rng):
    found = membership_of_release(craft(rng, "record"), runs=1000, key=KEY, seconds=600)
    assert found.beats_claim is False and found.roc.advantage > 0.5 * found.claim.advantage


def test_classes_are_a_number_and_only_for_moments():
    for mechanism, n_classes, message in (
        (rb.NoisyRados(epsilon=4.0), 3, "classes are for moments, not .*; leave them out"),
        (rb.FeatureBand("x", 1.0), 3, "classes are for moments, not .*; leave them out"),
        (rb.Moments(4.0), 1, "whole number from 2 to 64"),
        (rb.Moments(4.0), 65, "whole number from 2 to 64"),
        (rb.Moments(4.0), True, "whole number from 2 to 64"),
    ):
        with pytest.raises(rb.ArgumentError, match=message):
            audit(mechanism, runs=1000, n_classes=n_classes)
    with pytest.raises(rb.ArgumentError, match="for two classes"):
        membership_attack(rb.NoisyRados(epsilon=4.0), runs=1000, n_classes=3)


def test_the_command(rado, monkeypatch):
    asked = {}

    def attack(mechanism, **options):
        asked.update(options)
        return audit(rb.FeatureBand("x", 1.0, delta=1e-5))

    monkeypatch.setattr("radoboost.lab.audits.audit.audit", attack)
    code, _, _ = rado("audit", "--epsilon", 4, "--set", "n_classes=5", "--json")
    assert code == 0 and asked["n_classes"] == 5
    monkeypatch.undo()
    code, out, err = rado("audit", "--epsilon", 4, "--set", "n_classes=1")
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_half_of_the_noise_is_caught():
    assert not audit_by_runs(
        rb.Moments(12.0), Scenario(runs=260, key=KEY, run=HalvedNoise, columns="linear", n_classes=K)
    ).holds
