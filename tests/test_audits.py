"""Audits find less than is claimed, and enough of it; and they find planted faults."""

import json

import numpy as np
import pytest

import radoboost as rb
from radoboost.adversary.audits import audit, audit_feature_band, audit_moments, audit_noisy_examples, audit_noisy_rados
from radoboost.holder.mechanisms.contributions import contributions
from radoboost.holder.moments_crafting import Stages
from radoboost.holder.noise import SCALE_UNIT, rounded_normals
from radoboost.privacy import band

KEY = b"an audit key, fixed for the test"  # so that nothing here depends on luck
AUDITS = {"noisy-rados": (audit_noisy_rados, rb.NoisyRados), "noisy-examples": (audit_noisy_examples, rb.NoisyExamples)}


@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize(("epsilon", "runs"), [(4.0, 6000), pytest.param(1.0, 60_000, marks=pytest.mark.slow)])
def test_an_honest_mechanism_gives_less_than_it_claims_and_most_of_it(name, epsilon, runs):
    attack, mechanism = AUDITS[name]
    result = attack(mechanism(epsilon=epsilon), runs=runs, key=KEY)
    assert result.holds and 0.6 * result.claim <= result.found <= result.claim <= epsilon
    assert result.neighbours == mechanism(epsilon=epsilon).plan(100, 1, 2).event.relation.value
    assert json.loads(json.dumps(result.to_dict()))["holds"] is True


def halved(key, scale, first_row, n_rows, n_columns):
    return rounded_normals(key, np.floor(scale / 2 / SCALE_UNIT) * SCALE_UNIT, first_row, n_rows, n_columns)


def reused(width):
    """One noise vector for all rados of a release, or all rows of a table."""

    def noise(key, scale, first_row, n_rows, n_columns):
        once = rounded_normals(key, scale, first_row // width, n_rows // width, n_columns)
        return np.repeat(once, width, axis=0)

    return noise


def only_the_first_column(key, scale, first_row, n_rows, n_columns):
    noise = rounded_normals(key, scale, first_row, n_rows, n_columns)
    noise[:, 1:] = 0
    return noise


def the_same_in_all_columns(key, scale, first_row, n_rows, n_columns):
    return np.repeat(rounded_normals(key, scale, first_row, n_rows, 1), n_columns, axis=1)


def clipped_by_coordinate(values, signs, columns, clip, step):
    return contributions(np.clip(values, -clip, clip), signs, columns, None, step)


def not_clipped(values, signs, columns, clip, step):
    return contributions(values, signs, columns, None, step)


@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize(
    "planted",
    [{"noise": halved}, {"noise": only_the_first_column}, {"noise": the_same_in_all_columns}, {"noise": reused},
     {"clipped": not_clipped}, {"clipped": clipped_by_coordinate}],
    ids=lambda planted: next(iter(planted.values())).__name__,
)  # fmt: skip
def test_planted_faults_are_caught(name, planted):
    attack, mechanism = AUDITS[name]
    if planted == {"noise": reused}:
        planted = {"noise": reused(100 if name == "noisy-rados" else 2)}
    result = attack(mechanism(epsilon=4.0), runs=2500, key=KEY, **planted)
    assert not result.holds


@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize(("epsilon", "runs"), [(4.0, 3600), pytest.param(1.0, 50_000, marks=pytest.mark.slow)])
def test_moments_give_less_than_they_claim_and_most_of_it(unit, epsilon, runs):
    mechanism = rb.Moments(epsilon, unit=unit)
    result = audit_moments(mechanism, runs=runs, key=KEY)
    assert result.holds and 0.6 * result.claim <= result.found <= result.claim <= epsilon
    assert result.neighbours == mechanism.relation.value and result.score == "all stages"


class HalvedNoise(Stages):
    def _noise(self, scale, *shape_and_plane, **plane):
        return super()._noise(scale / 2, *shape_and_plane, **plane)


class OneNoiseForAll(Stages):
    """The same words for every stage and round."""

    def _noise(self, scale, n_rows, n_columns, plane):
        return super()._noise(scale, n_rows, n_columns, 0)


class OneNoiseForRounds(Stages):
    def _noise(self, scale, n_rows, n_columns, plane):
        return super()._noise(scale, n_rows, n_columns, min(plane, 5))


class DiagonalOnly(Stages):
    """Second moments without noise beside the diagonal."""

    def _noise(self, scale, n_rows, n_columns, plane):
        return super()._noise(scale, n_rows, n_columns, plane) * (plane not in (1, 4))


class LastRoundBare(Stages):
    def _noise(self, scale, n_rows, n_columns, plane):
        return super()._noise(scale, n_rows, n_columns, plane) * (plane != 5 + 7)


class NotClipped(Stages):
    """Rows as long as they come."""

    def on_sphere(self, batch):
        rows, good = super().on_sphere(batch)
        return np.trunc(rows * np.linalg.norm(batch.values(), axis=1, keepdims=True)), good


class SensitivityOne(rb.Moments):
    """A flipped label that is taken to move a sum by one vector, where it moves it by two."""

    def scales(self, n_rounds, n_columns=2):
        scales = super().scales(n_rounds, n_columns)
        return {stage: scale / 2 for stage, scale in scales.items()}


@pytest.mark.parametrize(
    ("unit", "stages"),
    [("record", HalvedNoise), ("label", HalvedNoise), ("record", OneNoiseForAll), ("label", OneNoiseForAll),
     ("record", OneNoiseForRounds), ("label", OneNoiseForRounds), ("record", NotClipped),
     ("record", DiagonalOnly), ("label", LastRoundBare)],
)  # fmt: skip
def test_faults_planted_in_moments_are_caught(unit, stages):
    assert not audit_moments(rb.Moments(4.0, unit=unit), runs=1000, key=KEY, stages=stages).holds


def test_a_sensitivity_of_one_for_two_is_caught_in_the_label_unit():
    assert not audit_moments(SensitivityOne(4.0, unit="label"), runs=1000, key=KEY).holds


def test_a_band_that_is_too_narrow_on_one_side_is_caught():
    mechanism = rb.FeatureBand("x", 1.0, delta=1e-5)
    low, high = band(1000, 1.0)
    honest = audit_feature_band(mechanism)
    assert honest.holds and honest.found > 0.999 * honest.claim
    # At this delta the edges are far out; a delta near their mass sees one value less.
    tight = rb.FeatureBand("x", 0.1, delta=0.034)
    low, high = band(1000, 0.1)
    assert audit_feature_band(tight).holds
    for limits in ((low + 1, high), (low, high - 1)):
        assert not audit_feature_band(tight, limits=limits).holds


def test_audits_by_mechanism():
    assert audit(rb.NoisyRados(epsilon=4.0), n_rados=20, runs=2000, key=KEY).mechanism == "noisy-rados"
    assert audit(rb.NoisyExamples(epsilon=4.0), runs=2000, key=KEY).mechanism == "noisy-examples"
    assert audit(rb.FeatureBand("x", 1.0, delta=1e-5), n_examples=500).mechanism == "feature-band"
    for nothing in (rb.Plain(), rb.NoisyExamples(noise_std=1.0, clip=None)):
        with pytest.raises(rb.ArgumentError, match="nothing to audit"):
            audit(nothing)
    assert audit(rb.Moments(epsilon=4.0, sharpen=False), runs=1000, key=KEY).mechanism == "moments"
    with pytest.raises(rb.ArgumentError, match="at least 1000 runs"):
        audit(rb.NoisyRados(epsilon=1.0), runs=10)


def test_the_command(rado):
    code, out, err = rado("audit", "--mechanism", "noisy-examples", "--epsilon", 4, "--runs", 4000)
    assert (code, err) == (0, "") and "one edge vector replaced" in out and "claimed" in out and "shown" in out
    code, out, _ = rado(
        "audit", "--mechanism", "feature-band", "--epsilon", 1, "--delta", 1e-5, "--rows", 500, "--json"
    )
    assert code == 0 and json.loads(out)["holds"] is True
    code, out, err = rado("audit", "--mechanism", "plain")
    assert (code, out, err.count("\n")) == (1, "", 1)
