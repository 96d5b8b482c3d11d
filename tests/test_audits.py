"""Audits find less than is claimed, and enough of it; and they find planted faults."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import radoboost as rb
from radoboost.adversary.audits import (
    audit,
    audit_feature_band,
    audit_moments,
    audit_noisy_examples,
    audit_noisy_rados,
)
from radoboost.adversary.canaries import moments_runs
from radoboost.adversary.canary import raw_row
from radoboost.adversary.person_audit import audit_person, few_visits
from radoboost.holder.mechanisms import records
from radoboost.holder.mechanisms.contributions import contributions
from radoboost.holder.mechanisms.moment_budget import Shape
from radoboost.holder.mechanisms.moment_passes import SphereRows
from radoboost.holder.mechanisms.moment_plan import WORDS
from radoboost.holder.noise import SCALE_UNIT, rounded_normals
from radoboost.holder.run import RowNoise, Run
from radoboost.privacy import band, flatten
from stage_audits import audit_stages

KEY = b"an audit key, fixed for the test"  # so that nothing here depends on luck
LARGE = 30.0  # an epsilon at which few runs show much
AUDITS = {"noisy-rados": (audit_noisy_rados, rb.NoisyRados), "noisy-examples": (audit_noisy_examples, rb.NoisyExamples)}


@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize(("epsilon", "runs"), [(4.0, 4000), pytest.param(1.0, 60_000, marks=pytest.mark.slow)])
def test_an_honest_mechanism_gives_less_than_it_claims_and_most_of_it(name, epsilon, runs):
    attack, mechanism = AUDITS[name]
    result = attack(mechanism(epsilon=epsilon), runs=runs, key=KEY)
    assert result.holds and 0.5 * result.claim <= result.found <= result.claim <= epsilon
    assert result.neighbours == mechanism(epsilon=epsilon).plan(100, 1, 2).event.relation.value
    assert json.loads(json.dumps(result.to_dict()))["holds"] is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "runs"),
    [(rb.NoisyRados(epsilon=4.0), 6000), (rb.NoisyExamples(epsilon=4.0), 6000), (rb.Moments(epsilon=4.0), 1000)]
    + [pytest.param(rb.Moments(epsilon=4.0, unit=unit), 6000, marks=pytest.mark.slow) for unit in ("record", "label")],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_row_with_a_category_and_a_gap_is_protected_as_claimed(mechanism, runs):
    canary = raw_row()
    assert canary.scaled.tolist() == [0.5, 1, 0, 1, 0]  # filled, missing, and one slot of three
    result = audit(mechanism, raw=True, runs=runs, key=KEY)
    assert result.holds and result.found > (0.6 if runs > 1000 else 0.1) * result.claim


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [rb.NoisyRados(epsilon=4.0), rb.NoisyExamples(epsilon=4.0), rb.Moments(4.0)])
def test_halved_noise_on_a_raw_row_is_caught(mechanism):
    attacks = {"noisy-rados": audit_noisy_rados, "noisy-examples": audit_noisy_examples, "moments": audit_moments}
    runs = 600 if mechanism.name == "moments" else 2500
    assert not attacks[mechanism.name](mechanism, runs=runs, key=KEY, run=faulty(halved), raw=True).holds


def test_a_raw_row_is_not_for_everything():
    for mechanism, options in ((rb.Moments(1.0), {"max_rows": 4}), (rb.FeatureBand("x", 1.0), {})):
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

    class Faulty(Run):
        def noise(self, scale, shape):
            return noise(super().noise, scale, shape)

        def row_noise(self, scale):
            honest = super().row_noise(scale)
            return FaultyRows(honest.key, honest.scale)

    return Faulty


def halved(draw, scale, shape):
    return draw(scale / 2, shape)


def reused(width):
    """One noise vector for all rados of a release, or all rows of a table."""
    return lambda draw, scale, shape: np.repeat(draw(scale, (shape[0] // width, shape[1])), width, axis=0)


def only_the_first_column(draw, scale, shape):
    noise = draw(scale, shape)
    noise[:, 1:] = 0
    return noise


def the_same_in_all_columns(draw, scale, shape):
    return np.repeat(draw(scale, (shape[0], 1)), shape[1], axis=1)


def clipped_by_coordinate(values, signs, columns, clip, step):
    return contributions(np.clip(values, -clip, clip), signs, columns, None, step)


def not_clipped(values, signs, columns, clip, step):
    return contributions(values, signs, columns, None, step)


@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize(
    "noise",
    [halved]
    + [
        pytest.param(fault, marks=pytest.mark.slow)
        for fault in (only_the_first_column, the_same_in_all_columns, reused)
    ],
)
def test_faulty_noise_is_caught(name, noise):
    attack, mechanism = AUDITS[name]
    if noise is reused:
        noise = reused(100 if name == "noisy-rados" else 2)
    assert not attack(mechanism(epsilon=4.0), runs=2000, key=KEY, run=faulty(noise)).holds


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITS)
def test_it_is_the_fault_that_is_found_and_not_how_it_is_planted(name):
    attack, mechanism = AUDITS[name]
    honest = faulty(lambda draw, scale, shape: draw(scale, shape))
    assert attack(mechanism(epsilon=4.0), runs=2000, key=KEY, run=honest).holds


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize("clipped", [not_clipped, clipped_by_coordinate])
@pytest.mark.parametrize("clip", [1.0, 0.25])
def test_faulty_clipping_is_caught(name, clipped, clip, monkeypatch):
    """A row of the canary is 1.6 times as long as a clip of 1 allows, and six times as long as one of 1/4."""
    attack, mechanism = AUDITS[name]
    monkeypatch.setattr(records, "contributions", clipped)
    assert not attack(mechanism(epsilon=4.0, clip=clip), runs=6000, key=KEY).holds


@pytest.mark.parametrize("unit", ["record", pytest.param("label", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("epsilon", "runs", "share"),
    [(20.0, 200, 0.2), *(pytest.param(epsilon, 50_000, 0.6, marks=pytest.mark.slow) for epsilon in (1.0, 4.0))],
)
def test_moments_give_less_than_they_claim_and_most_of_it(unit, epsilon, runs, share):
    mechanism = rb.Moments(epsilon, unit=unit)
    result = audit_moments(mechanism, runs=runs, key=KEY)
    assert result.holds and share * result.claim <= result.found <= result.claim <= epsilon
    assert result.neighbours == mechanism.neighbours.value and result.score == "all stages"


class HalvedNoise(Run):
    def noise(self, scale, shape):
        return super().noise(scale / 2, shape)


class OneNoiseForAll(Run):
    """The same words for every stage and round."""

    def noise(self, scale, shape):
        self._plane = 0
        return super().noise(scale, shape)


class OneNoiseForRounds(Run):
    def noise(self, scale, shape):
        self._plane = min(self._plane, 5)
        return super().noise(scale, shape)


class DiagonalOnly(Run):
    """Second moments without noise beside the diagonal."""

    def noise(self, scale, shape):
        plane = self._plane
        return super().noise(scale, shape) * (plane not in (1, 4))


class LastRoundBare(Run):
    def noise(self, scale, shape):
        plane = self._plane
        return super().noise(scale, shape) * (plane != 5 + 7)


class SensitivityOne(rb.Moments):
    """A flipped label that is taken to move a sum by one vector, where it moves it by two."""

    def scales(self, n_rounds, shape):
        scales = super().scales(n_rounds, shape)
        return {stage: scale / 2 for stage, scale in scales.items()}


@pytest.mark.parametrize(
    ("unit", "run"),
    [("record", HalvedNoise)]
    + [pytest.param(*fault, marks=pytest.mark.slow) for fault in (
        ("label", HalvedNoise),
        ("record", OneNoiseForAll), ("label", OneNoiseForAll), ("record", OneNoiseForRounds),
        ("label", OneNoiseForRounds), ("record", DiagonalOnly), ("label", LastRoundBare),
    )],
)  # fmt: skip
def test_faults_planted_in_moments_are_caught(unit, run):
    assert not audit_moments(rb.Moments(12.0, unit=unit), runs=260, key=KEY, run=run).holds


@pytest.mark.slow
def test_rows_that_are_not_put_on_the_sphere_are_caught(monkeypatch):
    """Rows as long as they come: in the mechanism, not in what the adversary computes."""
    original = SphereRows.put_on_sphere

    def as_long_as_they_come(self, values, signs):
        rows, good = original(self, values, signs)
        return np.trunc(rows * np.linalg.norm(values, axis=1)).astype(np.int32), good

    monkeypatch.setattr(SphereRows, "put_on_sphere", as_long_as_they_come)
    assert not audit_moments(rb.Moments(4.0), runs=400, key=KEY, columns="linear").holds


# ---- columns of a plan: by word, and whether there are so many columns that products are of directions
PLANS = [*((word, False) for word in ("linear", *WORDS)), ("both", True)]


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "runs"), [(1.0, 50_000), (4.0, 6000)])
@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize(("columns", "wide"), PLANS)
def test_every_plan_gives_less_than_it_claims_and_most_of_it(columns, wide, unit, epsilon, runs):
    mechanism = rb.Moments(epsilon, unit=unit)
    result = audit_moments(mechanism, runs=runs, key=KEY, columns=columns, wide=wide)
    assert result.holds and 0.6 * result.claim <= result.found <= result.claim <= epsilon
    assert result.neighbours == mechanism.neighbours.value and result.score == "all stages"


@pytest.mark.parametrize(
    ("columns", "wide"),
    [pytest.param(*plan, marks=[] if plan == ("ranks", False) else pytest.mark.slow) for plan in PLANS],
)
def test_a_few_runs_of_every_plan_show_every_stage_and_no_more_than_its_part(columns, wide):
    """At an epsilon that leaves little noise, some dozen runs tell the tables apart by every stage."""
    mechanism, runs = rb.Moments(LARGE), 60
    scores = moments_runs(mechanism, runs=runs, key=KEY, columns=columns, wide=wide)
    for name, claim in scores.by_stage.items():
        mu2 = sum(count / leaf.noise_multiplier**2 for leaf, count in flatten(claim).items())
        gains = scores.present[name].mean() - scores.absent[name].mean()  # mu squared, if all of it is used
        reach = 5 * math.sqrt(2 * mu2 / runs)  # false alarm: 1e-6
        assert 0.8 * mu2 - reach < gains < mu2 + reach, name
    expected = {"counts", "second moments", "sum", "whitened moments", "mean rados", "scores"}
    expected |= {"outline"} if columns != "linear" else set()
    assert scores.by_stage.keys() == expected | ({"ranks"} if columns == "ranks" else set())
    total = sum(
        count / leaf.noise_multiplier**2 for claim in scores.by_stage.values() for leaf, count in flatten(claim).items()
    )
    assert total == pytest.approx(mechanism.distance(Shape(3)) ** 2, rel=0.01)


class HalvedStage(Run):
    """Half the noise on one stage: where its noise has one of these numbers, counted from 0 after the noisy counts."""

    numbers = range(0)

    def add_noise(self, total, *noises):
        self._seen = getattr(self, "_seen", -1)
        half = []
        for noise in noises:
            self._seen += 1
            half.append(replace(noise, scale=noise.scale / 2) if self._seen in self.numbers else noise)
        super().add_noise(total, *half)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "last", "stage", "epsilon"),
    [
        (0, 0, "outline", LARGE), (1, 1, "ranks", LARGE), (2, 2, "second moments", LARGE), (3, 3, "sum", LARGE),
        (4, 4, "whitened moments", LARGE), (5, 12, "mean rados", 15.0), (13, 13, "scores", 100.0),
        (14, 99, None, LARGE),
    ],
)  # fmt: skip
def test_halved_noise_in_one_stage_of_a_plan_is_caught(first, last, stage, epsilon):
    """At an epsilon at which so few runs prove more than the stage claims."""
    faulty_run = type("Faulty", (HalvedStage,), {"numbers": range(first, last + 1)})
    audits = audit_stages(rb.Moments(epsilon), runs=300, key=KEY, run=faulty_run, columns="ranks")
    assert [name for name, audit in audits.items() if not audit.holds] == ([stage] if stage else [])


class RanksOfOneColumn(rb.Moments):
    """A record that is taken to be in one bin of one column, where it is in one of each."""

    def scales(self, n_rounds, shape):
        scales = super().scales(n_rounds, shape)
        return {stage: scale / 2**0.5 if stage == "ranks" else scale for stage, scale in scales.items()}


@pytest.mark.slow
def test_ranks_with_the_sensitivity_of_one_column_are_caught():
    assert not audit_stages(RanksOfOneColumn(LARGE), runs=1500, key=KEY, columns="ranks")["ranks"].holds


@pytest.mark.parametrize("unit", ["record", pytest.param("label", marks=pytest.mark.slow)])
def test_a_raw_row_and_private_bounds_are_attacked_through_plans_as_well(unit):
    mechanism = rb.Moments(LARGE, unit=unit)
    for options in ({"raw": True, "columns": "both"}, {"private_bounds": True, "columns": "ranks"}):
        audits = audit_stages(mechanism, runs=60, key=KEY, **options)
        assert all(audit.holds for audit in audits.values())
        assert audits["mean rados"].found > 0
        assert ("bounds" in audits) == (unit == "record" and "private_bounds" in options)


@pytest.mark.parametrize("columns", ["ranks", pytest.param("quadratic", marks=pytest.mark.slow)])
def test_a_person_is_attacked_through_plans_as_well(columns):
    mechanism = rb.Moments(LARGE)
    result = audit_person(mechanism, few_visits(mechanism, 4), 4, runs=80, key=KEY, columns=columns)
    assert result.holds and result.found > 0.15 * result.claim
    assert result.neighbours == "one person added or removed"


def test_columns_are_words_and_only_of_moments():
    for mechanism, options, message in (
        (rb.NoisyRados(epsilon=4.0), {"columns": "hats"}, "only moments"),
        (rb.Moments(4.0), {"columns": "trees"}, "one of auto, linear"),
        (rb.Moments(4.0), {"wide": True, "raw": True}, "leave wide out"),
        (rb.Moments(4.0), {"wide": True, "max_rows": 4}, "leave wide out"),
    ):
        with pytest.raises(rb.ArgumentError, match=message):
            audit(mechanism, runs=1000, **options)


class HalvedSearches(Run):
    """Half the noise on the counts of bins alone."""

    def add_noise(self, total, *noises):
        half = (replace(noise, scale=noise.scale / 2) if noise.array == "bins" else noise for noise in noises)
        super().add_noise(total, *half)


def private_bounds(mechanism=rb.Moments, runs=1500, share=0.9, **others):
    return audit_moments(
        mechanism(4.0, sharpen=False, bounds_share=share), runs=runs, key=KEY, private_bounds=True, **others
    )


@pytest.mark.slow
def test_private_bounds_give_less_than_they_claim_and_much_of_it():
    honest = private_bounds()
    assert honest.holds and 0.4 * honest.claim <= honest.found <= honest.claim <= 4.0
    assert honest.neighbours == "one record added or removed" and honest.score in ("all stages", "bounds")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "share"),
    [(HalvedSearches, 0.9), (HalvedNoise, 0.1), (OneNoiseForAll, 0.1)],
)
def test_faults_planted_in_the_search_for_bounds_are_caught(run, share):
    assert not private_bounds(run=run, runs=1000, share=share).holds


@pytest.mark.slow
def test_a_sensitivity_of_one_for_two_is_caught_in_the_label_unit():
    assert not audit_moments(SensitivityOne(4.0, unit="label"), runs=600, key=KEY).holds


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
