"""Audits find less than is claimed, and enough of it; and they find planted faults."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

import radoboost as rb
from radoboost.holder.curator import Curator, RowNoise
from radoboost.holder.gaussian_noise import SCALE_UNIT, rounded_normals
from radoboost.lab.audits.audit import audit, audit_by_runs
from radoboost.lab.audits.canaries import Scenario
from radoboost.lab.audits.exact_audit import exact_audit_of_feature_band, exact_audit_of_noisy_examples
from radoboost.privacy import band

KEY = b"an audit key, fixed for the test"  # so that nothing here depends on luck
AUDITS = {"noisy-rados": rb.NoisyRados, "noisy-examples": rb.NoisyExamples}


@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize(("epsilon", "runs"), [(4.0, 4000), pytest.param(1.0, 60_000, marks=pytest.mark.slow)])
def test_an_honest_mechanism_gives_less_than_it_claims_and_most_of_it(name, epsilon, runs):
    mechanism = AUDITS[name]
    result = audit_by_runs(mechanism(epsilon=epsilon), Scenario(runs=runs, key=KEY))
    assert result.holds and 0.5 * result.claim <= result.found <= result.claim <= epsilon
    assert result.neighbours == mechanism(epsilon=epsilon).plan(100, 1, 2).event.relation.value
    assert json.loads(json.dumps(result.to_dict()))["holds"] is True


def test_a_raw_row_is_not_for_everything():
    for mechanism, options in ((rb.Moments(1.0), {"private_bounds": True}), (rb.FeatureBand("x", 1.0), {})):
        with pytest.raises(rb.ArgumentError, match="leave raw out"):
            audit(mechanism, raw=True, **options)


def faulty(noise):
    """A run whose noise, on sums and on rows, is made by `noise(draw, scale, shape)`; `draw` is the honest sampler."""

    @dataclass(frozen=True)
    class FaultyRows(RowNoise):
        def rows(self, first_row, n_rows, n_columns):
            def draw(scale, shape):
                units = math.ceil(scale / SCALE_UNIT) * SCALE_UNIT
                return rounded_normals(self.key, units, first_row // (n_rows // shape[0]), *shape)

            return noise(draw, self.scale, (n_rows, n_columns))

    class Faulty(Curator):
        def noise(self, scale, shape):
            return noise(super().noise, scale, shape)

        def row_noise(self, scale):
            honest = super().row_noise(scale)
            return FaultyRows(honest.key, honest.scale)

    return Faulty


def halved(draw, scale, shape):
    return draw(scale / 2, shape)


def each_row_twice(draw, scale, shape):
    return np.repeat(draw(scale, (shape[0] // 2, shape[1])), 2, axis=0)


def only_the_first_column(draw, scale, shape):
    noise = draw(scale, shape)
    noise[:, 1:] = 0
    return noise


def the_same_in_all_columns(draw, scale, shape):
    return np.repeat(draw(scale, (shape[0], 1)), shape[1], axis=1)


@pytest.mark.parametrize("name", AUDITS)
def test_faulty_noise_is_caught(name):
    mechanism = AUDITS[name]
    assert not audit_by_runs(mechanism(epsilon=4.0), Scenario(runs=2000, key=KEY, run=faulty(halved))).holds


@pytest.mark.parametrize("noise", [halved, only_the_first_column, the_same_in_all_columns, each_row_twice])
def test_faulty_noise_on_rows_is_not_that_of_its_key(noise):
    result = exact_audit_of_noisy_examples(rb.NoisyExamples(4.0), Scenario(thorough=False, run=faulty(noise)))
    assert not result.holds and "noise on rows" in result.faults[0]


def test_moments_give_less_than_they_claim_and_a_good_part_of_it():
    mechanism = rb.Moments(20.0)
    result = audit_by_runs(mechanism, Scenario(runs=200, key=KEY))
    assert result.holds and 0.2 * result.claim <= result.found <= result.claim <= 20.0
    assert result.neighbours == mechanism.neighbours.value


class HalvedNoise(Curator):
    def noise(self, scale, shape):
        return super().noise(scale / 2, shape)


def test_half_of_the_noise_of_moments_is_caught():
    assert not audit_by_runs(rb.Moments(12.0), Scenario(runs=260, key=KEY, run=HalvedNoise)).holds


def test_columns_are_words_and_only_of_moments():
    for mechanism, options, message in (
        (rb.NoisyRados(epsilon=4.0), {"columns": "degree-2"}, "only moments"),
        (rb.Moments(4.0), {"columns": "trees"}, "one of auto, linear"),
        (rb.Moments(4.0), {"max_rows": 4}, "exact audits"),
        (rb.Moments(4.0), {"room": (5, 1)}, "exact audits"),
    ):
        with pytest.raises(rb.ArgumentError, match=message):
            audit(mechanism, runs=1000, **options)


def test_a_band_that_is_too_narrow_on_one_side_is_caught():
    mechanism = rb.FeatureBand("x", 1.0, delta=1e-5)
    low, high = band(1000, 1.0)
    honest = exact_audit_of_feature_band(mechanism, Scenario())
    assert honest.holds and honest.found > 0.999 * honest.claim
    # At this delta the edges are far out; a delta near their mass sees one value less.
    tight = rb.FeatureBand("x", 0.1, delta=0.034)
    low, high = band(1000, 0.1)
    assert exact_audit_of_feature_band(tight, Scenario()).holds
    for limits in ((low + 1, high), (low, high - 1)):
        assert not exact_audit_of_feature_band(tight, Scenario(), limits).holds


def test_audits_by_mechanism():
    assert audit(rb.FeatureBand("x", 1.0, delta=1e-5), n_examples=500).mechanism == "feature-band"
    for nothing in (rb.Plain(), rb.NoisyExamples(noise_std=1.0, clip=None)):
        with pytest.raises(rb.ArgumentError, match="nothing to audit"):
            audit(nothing)
    with pytest.raises(rb.ArgumentError, match="at least 1000 runs"):
        audit(rb.NoisyRados(epsilon=1.0), runs=10)


def test_the_command(rado):
    code, out, err = rado("audit", "--mechanism", "noisy-examples", "--epsilon", 4, "--set", "runs=4000")
    assert (code, err) == (0, "") and "one edge vector replaced" in out and "claimed" in out and "shown" in out
    code, out, _ = rado(
        "audit", "--mechanism", "feature-band", "--epsilon", 1, "--delta", 1e-5, "--set", "n_examples=500", "--json"
    )
    assert code == 0 and json.loads(out)["holds"] is True
    code, out, err = rado("audit", "--mechanism", "plain")
    assert (code, out, err.count("\n")) == (1, "", 1)
