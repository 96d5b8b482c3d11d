"""Audits find less than is claimed, and enough of it; and they find planted faults."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

import radoboost as rb
from radoboost.holder.curator import Curator, RowNoise
from radoboost.holder.gaussian_noise import SCALE_UNIT, rounded_normals
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.lab.audits.audit import audit, audit_feature_band, audit_moments, audit_noisy_examples, audit_noisy_rados
from radoboost.lab.audits.canaries import Scenario
from radoboost.lab.audits.moments_audit import moments_canary_runs
from radoboost.privacy import band, flatten
from stage_audits import audit_stages

KEY = b"an audit key, fixed for the test"  # so that nothing here depends on luck
LARGE = 30.0  # an epsilon at which few runs show much
AUDITS = {"noisy-rados": (audit_noisy_rados, rb.NoisyRados), "noisy-examples": (audit_noisy_examples, rb.NoisyExamples)}


@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize(("epsilon", "runs"), [(4.0, 4000), pytest.param(1.0, 60_000, marks=pytest.mark.slow)])
def test_an_honest_mechanism_gives_less_than_it_claims_and_most_of_it(name, epsilon, runs):
    attack, mechanism = AUDITS[name]
    result = attack(mechanism(epsilon=epsilon), Scenario(runs=runs, key=KEY))
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


@pytest.mark.parametrize(
    ("name", "noise"),
    [("noisy-rados", halved), ("noisy-examples", halved)]
    + [  # an exact audit leaves out noise on rows
        pytest.param("noisy-examples", fault, marks=pytest.mark.slow)
        for fault in (only_the_first_column, the_same_in_all_columns, each_row_twice)
    ],
)
def test_faulty_noise_is_caught(name, noise):
    attack, mechanism = AUDITS[name]
    assert not attack(mechanism(epsilon=4.0), Scenario(runs=2000, key=KEY, run=faulty(noise))).holds


def test_moments_give_less_than_they_claim_and_a_good_part_of_it():
    mechanism = rb.Moments(20.0)
    result = audit_moments(mechanism, Scenario(runs=200, key=KEY))
    assert result.holds and 0.2 * result.claim <= result.found <= result.claim <= 20.0
    assert result.neighbours == mechanism.neighbours.value and result.score == "all stages"


class HalvedNoise(Curator):
    def noise(self, scale, shape):
        return super().noise(scale / 2, shape)


def test_half_of_the_noise_of_moments_is_caught():
    assert not audit_moments(rb.Moments(12.0), Scenario(runs=260, key=KEY, run=HalvedNoise)).holds


# ---- columns of a plan


def test_a_few_runs_show_every_stage_and_no_more_than_its_part():
    """At an epsilon that leaves little noise, some dozen runs tell the tables apart by every stage."""
    mechanism, runs = rb.Moments(LARGE), 60
    scores = moments_canary_runs(mechanism, Scenario(runs=runs, key=KEY, columns="degree-2"))
    for name, claim in scores.by_stage.items():
        mu2 = sum(count / leaf.noise_multiplier**2 for leaf, count in flatten(claim).items())
        gains = scores.present[name].mean() - scores.absent[name].mean()  # mu squared, if all of it is used
        reach = 5 * math.sqrt(2 * mu2 / runs)  # false alarm: 1e-6
        assert 0.8 * mu2 - reach < gains < mu2 + reach, name
    expected = {"counts", "outline", "second moments", "sum", "whitened moments", "mean rados", "scores"}
    assert scores.by_stage.keys() == expected
    total = sum(
        count / leaf.noise_multiplier**2 for claim in scores.by_stage.values() for leaf, count in flatten(claim).items()
    )
    assert total == pytest.approx(mechanism.distance(NoiseShape(3)) ** 2, rel=0.01)


def test_a_raw_row_and_private_bounds_are_attacked_through_plans_as_well():
    mechanism = rb.Moments(LARGE)
    for options in ({"raw": True, "columns": "degree-4"}, {"private_bounds": True, "columns": "degree-2"}):
        audits = audit_stages(mechanism, runs=60, key=KEY, **options)
        assert all(audit.holds for audit in audits.values())
        assert audits["mean rados"].found > 0
        assert ("bounds" in audits) == ("private_bounds" in options)


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
    honest = audit_feature_band(mechanism, Scenario())
    assert honest.holds and honest.found > 0.999 * honest.claim
    # At this delta the edges are far out; a delta near their mass sees one value less.
    tight = rb.FeatureBand("x", 0.1, delta=0.034)
    low, high = band(1000, 0.1)
    assert audit_feature_band(tight, Scenario()).holds
    for limits in ((low + 1, high), (low, high - 1)):
        assert not audit_feature_band(tight, Scenario(), limits).holds


def test_audits_by_mechanism():
    assert audit(rb.FeatureBand("x", 1.0, delta=1e-5), n_examples=500).mechanism == "feature-band"
    for nothing in (rb.Plain(), rb.NoisyExamples(noise_std=1.0, clip=None)):
        with pytest.raises(rb.ArgumentError, match="nothing to audit"):
            audit(nothing)
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
