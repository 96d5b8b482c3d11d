"""The attack on membership: rates as counted by hand, honest statements hold, and broken ones are found out."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chi2, multivariate_normal

import flat
import radoboost as rb
from radoboost.holder.mechanisms import MECHANISMS
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.lab.attacks.mechanism_from_release import claim_of_statement, mechanism_of_release
from radoboost.lab.attacks.membership import ASSUMES, NAME, TITLE, membership_attack, membership_of_release, study
from radoboost.lab.attacks.plain_likelihood import PlainTable, counted_rado_law, normal_rado_law, plain_likelihood_runs
from radoboost.lab.attacks.roc import Claim, roc_of_scores
from radoboost.lab.audits.canaries import Scenario, noisy_sums_runs
from radoboost.privacy import Composed, Gaussian, NotPrivate, Relation, Repeated, SubsampledGaussian, event_to_dict
from radoboost.report.findings import Findings
from test_audits import HalvedNoise, faulty, halved

KEY = b"a key of the attack, fixed for it"  # so that nothing here depends on luck
RECORD = Relation.RECORD


# ---- rates


@pytest.mark.slow
@pytest.mark.parametrize("spread", [3, 1000])
def test_rates_are_those_of_plain_loops(rng, spread):
    present, absent = rng.integers(0, spread, 1601) + spread // 3, rng.integers(0, spread, 1601)
    roc = roc_of_scores(present, absent)
    assert roc.runs == 1201 and list(roc.thresholds) == sorted(set(roc.thresholds), reverse=True)
    advantages = []
    for threshold, alarms, hits in zip(roc.thresholds, roc.false_alarms, roc.hits, strict=True):
        assert threshold in [*present[:400], *absent[:400]]
        assert alarms == sum(1 for score in absent[400:] if score > threshold)
        assert hits == sum(1 for score in present[400:] if score > threshold)
        first = [sum(1 for score in scores[:400] if score > threshold) for scores in (present, absent)]
        advantages.append(first[0] - first[1])
    k = advantages.index(max(advantages))
    assert roc.advantage == (roc.hits[k] - roc.false_alarms[k]) / 1201
    few = roc.at(0.05)
    allowed = [k for k, alarms in enumerate(roc.false_alarms) if alarms <= 60]
    assert few.hits == max(roc.hits[k] for k in allowed) / 1201 and few.false_alarms <= 0.05
    assert few.low < few.hits < few.high
    assert roc.at(0.002) is None  # too few false alarms to count


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_a_claim_is_beaten_where_its_curve_is(rng, mu):
    present, absent = rng.standard_normal((2, 40_000)) + np.array([[mu], [0]])
    roc = roc_of_scores(present, absent)
    assert Claim(Gaussian(1 / mu, RECORD), 1e-6).margin(roc) <= 0  # false alarm: 1e-6
    assert Claim(Gaussian(1 / (0.6 * mu), RECORD), 1e-6).margin(roc) > 0
    assert Claim(Gaussian(1 / (0.6 * mu), RECORD), 1e-6).margin(roc_of_scores(-absent, -present)) > 0
    # A statement may also say an epsilon that its event does not have.
    claim = Claim(Gaussian(1 / mu, RECORD), 1e-6, ((1e-6, 0.1),))
    assert claim.epsilon == 0.1 and claim.margin(roc) > 0


def test_a_pair_of_epsilon_and_delta_is_two_lines():
    rates = np.array([0.0, 0.1, 0.3, 0.5, 0.85, 0.95, 1.0])
    claim = Claim(NotPrivate("nothing", RECORD), 1e-6, ((0.1, 1.0),))
    allowed = [min(1, 0.1 + math.e * rate, 1 - (1 - 0.1 - rate) / math.e) for rate in rates]
    assert np.allclose(claim.hits(rates), allowed) and allowed[3] < 0.1 + math.e * rates[3]  # both lines count
    for delta, epsilon in ((math.nan, 1.0), (-0.5, 1.0), (1.0, 1.0), (0.1, math.nan), (0.1, -1.0)):
        with pytest.raises(rb.ArgumentError, match="no promise"):
            Claim(NotPrivate("nothing", RECORD), 1e-6, ((delta, epsilon),))


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "runs"), [(1.0, 1000), (0.21, 20_000)])
def test_so_much_noise_must_be_missing_to_be_shown(rng, mu, runs):
    claim = Claim(Gaussian(1 / mu, RECORD), 1e-6)
    share = claim.shown_share(runs - runs // 4)
    for factor, beaten in ((0.7, True), (1.4, False)):  # four standard deviations or more of what a margin spreads by
        present, absent = rng.standard_normal((2, runs)) + np.array([[mu / (factor * share)], [0]])
        assert (claim.margin(roc_of_scores(present, absent)) > 0) == beaten
    assert Claim(Gaussian(1e4, RECORD), 1e-6).shown_share(750) is None
    assert Claim(NotPrivate("nothing", RECORD), 1e-6).shown_share(750) is None


@pytest.mark.slow
@pytest.mark.parametrize("who", ["present", "absent"])
def test_what_only_one_table_gives_beats_a_claim_either_way_round(rng, who):
    scores = {"present": rng.standard_normal(20_000), "absent": rng.standard_normal(20_000)}
    told = rng.random(20_000) < 0.05
    scores[who] = np.where(told, 100.0 if who == "present" else -100.0, scores[who])
    assert Claim(Gaussian(4.0, RECORD), 1e-6).margin(roc_of_scores(scores["present"], scores["absent"])) > 0


def test_without_a_promise_everything_is_allowed():
    claim = Claim(NotPrivate("nothing", RECORD), 1e-6)
    assert claim.hits([0.0, 0.5]).tolist() == [1, 1] and claim.epsilon == math.inf and claim.advantage == 1
    assert claim.margin(roc_of_scores(np.ones(4000), np.zeros(4000))) <= 0


# ---- mechanisms with noise


def test_the_score_of_noisy_rados_is_the_likelihood_ratio_of_the_mixture():
    made = noisy_sums_runs(rb.NoisyRados(noise_std=1.0), Scenario(n_rados=2, runs=20_000, key=KEY))
    present, absent = made.present, made.absent
    assert min(present.min(), absent.min()) >= 2 * math.log(1 / 2)  # a rado that the canary is not in tells no more
    # exp(-ratio) lies in [0, 4], with mean 1 where the canary is. By Hoeffding it is 0.1 off with probability 1e-6.
    assert np.exp(-present).mean() == pytest.approx(1.0, abs=0.1)
    assert (absent < present.mean()).mean() > 0.5


def test_noisy_rados_keep_their_whole_curve_and_half_their_noise_does_not():
    mechanism, attack = rb.NoisyRados(4.0), {"n_rados": 50, "runs": 10_000, "key": KEY, "seconds": 600}
    found = membership_attack(mechanism, **attack)
    assert found.beats_claim is False and found.runs == 10_000  # false alarm: 1e-6
    assert 0.75 * found.claim.advantage < found.roc.advantage < 1.1 * found.claim.advantage
    assert found.neighbours == "one record added or removed" and found.claim.epsilon <= 4.0
    assert membership_attack(mechanism, **attack, run=faulty(halved)).beats_claim is True


def test_noisy_examples_keep_their_whole_curve_and_half_their_noise_does_not():
    attack = {"runs": 10_000, "key": KEY, "seconds": 600}
    found = membership_attack(rb.NoisyExamples(4.0), **attack)
    assert found.beats_claim is False and found.neighbours == "one edge vector replaced"  # false alarm: 1e-6
    assert 0.75 * found.claim.advantage < found.roc.advantage < 1.1 * found.claim.advantage
    assert membership_attack(rb.NoisyExamples(4.0), **attack, run=faulty(halved)).beats_claim is True


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "sharpen"), [("record", True), ("label", False)])
def test_moments_keep_their_whole_curve_and_half_their_noise_does_not(unit, sharpen):
    mechanism = rb.Moments(4.0, unit=unit, sharpen=sharpen)
    found = membership_attack(mechanism, runs=1000, key=KEY, seconds=600)
    assert found.beats_claim is False and found.neighbours == mechanism.neighbours.value  # false alarm: 1e-6
    assert found.roc.advantage > 0.75 * found.claim.advantage
    assert membership_attack(mechanism, runs=1000, key=KEY, seconds=600, run=HalvedNoise).beats_claim is True


# ---- releases


@pytest.fixture
def table(rng):
    X = rng.random((40, 3))
    return {"table": X, "y": (X[:, 0] > 0.5).astype(int), "classes": (0, 1), "bounds": [[0, 1]] * 3}


def altered(release, event=None, **statement):
    event = event or release.statement.event
    return replace(release, statement=replace(release.statement, event=event, **statement))


def with_noise(release, factor):
    return replace(release, mechanism={**release.mechanism, "noise_std": factor * release.mechanism["noise_std"]})


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [rb.NoisyRados(epsilon=4.0), rb.NoisyExamples(epsilon=4.0)], ids=lambda m: m.name)
def test_a_release_whose_statement_and_noise_differ_is_found_out(table, mechanism):
    release = flat.craft(**table, n_rados=20, mechanism=mechanism)
    found = membership_of_release(release, runs=4000, key=KEY, seconds=600)
    same = membership_attack(mechanism, n_rados=20, runs=4000, key=KEY, seconds=600)
    assert found.beats_claim is False and found.roc == same.roc
    assert found.claim.epsilon == release.statement.epsilon
    quieter = event_to_dict(Gaussian(4.0, release.statement.neighbours))
    for other, beaten in (
        (with_noise(release, 0.5), True),
        (with_noise(release, 2.0), False),
        (altered(release, quieter), True),
        (altered(release, epsilon=0.3), True),
        (altered(release, epsilon_at=((1e-4, 0.3),)), True),
        (altered(release, best_guess=0.52), True),
        (altered(release, epsilon_at=((0.5, 0.0),), best_guess=1.0), False),
    ):
        assert membership_of_release(other, runs=4000, key=KEY, seconds=600).beats_claim is beaten


def test_the_attack_is_on_as_many_rados_as_the_release_has(table):
    release = flat.craft(**table, n_rados=7, mechanism=rb.NoisyRados(noise_std=3.0))
    found = membership_of_release(release, runs=1000, key=KEY, seconds=600)
    assert found.roc == membership_attack(rb.NoisyRados(noise_std=3.0), n_rados=7, runs=1000, key=KEY, seconds=600).roc
    assert found.roc != membership_attack(rb.NoisyRados(noise_std=3.0), n_rados=8, runs=1000, key=KEY, seconds=600).roc


@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize("sharpen", [True, False])
def test_moments_are_rebuilt_with_the_noise_of_their_release(table, unit, sharpen):
    mechanism = rb.Moments(4.0, unit=unit, sharpen=sharpen)
    release = flat.craft(**table, n_rados=20, mechanism=mechanism)
    again = mechanism_of_release(release)
    for rounds, eta in ((8, 1.0), (32, 4.0)) if sharpen else ((0, 0.0),):
        many = {**release.mechanism, "rounds": rounds, "eta": eta}
        if sharpen:
            noise = mechanism.scales(rounds, NoiseShape(4))["rounds"] / 2**15
            many["noise"] = {**many["noise"], "rounds": noise}
        again = mechanism_of_release(replace(release, mechanism=many))
        for n in (8, 32) if sharpen else (0,):
            assert again.scales(n, NoiseShape(4)) == pytest.approx(mechanism.scales(n, NoiseShape(4)), rel=1e-6)
        assert again.distance(NoiseShape(4)) == pytest.approx(mechanism.distance(NoiseShape(4)), rel=1e-6)


@pytest.mark.parametrize(("unit", "sharpen"), [("record", True), ("label", False)])
@pytest.mark.parametrize("columns", ["linear", "degree-2"])
def test_releases_of_every_plan_are_rebuilt_with_their_noise(table, columns, unit, sharpen):
    mechanism = rb.Moments(4.0, unit=unit, sharpen=sharpen)
    release = flat.craft(**table, mechanism=mechanism, columns=columns)
    again, rounds = mechanism_of_release(release), release.mechanism["rounds"]
    n_inputs, n_columns = len(release.map.input_names if release.map else release.columns[:-1]), len(release.columns)
    planned = {} if columns == "linear" else {"n_planned": n_columns}
    shape = NoiseShape(n_inputs + 1, widest=n_columns if planned else 0)
    for one in (shape, replace(shape, **planned)):  # before there is a plan, and with it
        honest, scales = mechanism.scales(rounds, one), again.scales(rounds, one)
        drawn = honest if one.n_planned or not planned else ("counts", "second")
        assert [scales[stage] for stage in drawn] == pytest.approx([honest[stage] for stage in drawn], rel=1e-6)
    assert again.distance(shape) == pytest.approx(mechanism.distance(shape), rel=1e-6)
    assert again.columns == columns and claim_of_statement(release, again).epsilon == release.statement.epsilon


@pytest.mark.slow
def test_a_plan_by_the_rule_is_attacked_with_the_stages_that_it_has(rng):
    x = rng.normal(size=(60_000, 16))
    release = rb.craft(
        x, rng.integers(0, 2, 60_000), classes=(0, 1), mechanism=rb.Moments(4.0), counts=None, schema=[[-3, 3]] * 16
    )
    assert release.mechanism["plan"]["classes"]
    again = mechanism_of_release(release)
    assert again.columns == "degree-2"
    assert again.distance(NoiseShape(17)) == pytest.approx(again.distance(NoiseShape(3)))
    found = membership_of_release(release, runs=1000, key=KEY, seconds=600)
    assert found.beats_claim is False and found.roc.advantage > 0.75 * found.claim.advantage


@pytest.mark.parametrize("stage", ["outline", "second"])
def test_a_release_without_the_noise_of_a_stage_is_refused_or_found_out(table, stage):
    release = flat.craft(**table, mechanism=rb.Moments(4.0), columns="degree-3")
    noise = {name: value for name, value in release.mechanism["noise"].items() if name != stage}
    with pytest.raises(rb.ReleaseError, match="does not say how"):
        mechanism_of_release(replace(release, mechanism={**release.mechanism, "noise": noise}))
    bare = replace(release, mechanism={**release.mechanism, "noise": {**noise, stage: 0.0}})
    assert mechanism_of_release(bare).distance(NoiseShape(4)) == 100


@pytest.mark.slow
def test_a_release_of_moments_with_half_the_noise_is_found_out(table):
    release = flat.craft(**table, n_rados=20, mechanism=rb.Moments(4.0, sharpen=False))
    noise = {stage: value / 2 for stage, value in release.mechanism["noise"].items()}
    faulty = replace(release, mechanism={**release.mechanism, "noise": noise})
    assert membership_of_release(faulty, runs=1000, key=KEY, seconds=600).beats_claim is True
    bare = replace(release, mechanism={**release.mechanism, "noise": dict.fromkeys(noise, 0.0)})
    assert mechanism_of_release(bare).distance(NoiseShape(4)) == 100 and set(
        mechanism_of_release(bare).scales(0).values()
    ) == {0.0}


@pytest.mark.slow
def test_a_seed_or_no_clip_promises_nothing(table):
    seeded = flat.craft(**table, n_rados=10, mechanism=rb.NoisyRados(epsilon=4.0), seed=1, i_know=True)
    unclipped = flat.craft(**table, n_rados=10, mechanism=rb.NoisyExamples(noise_std=1.0, clip=None))
    for release in (seeded, unclipped):
        found = membership_of_release(release, runs=1000, key=KEY, seconds=600)
        assert found.beats_claim is False and found.claim.epsilon == math.inf and found.shown_share is None
        assert "promises nothing" in found.sentence() and found.neighbours in found.sentence()
        assert json.loads(json.dumps(found.to_dict()))["claim"]["epsilon"] == "infinite"
    bare = membership_attack(rb.NoisyExamples(noise_std=1.0, clip=None), runs=1000, key=KEY, seconds=600)
    assert bare.claim.epsilon == math.inf and "that the bounds allow" in bare.granted[1]


def refused(*cases):
    for wrong, word in cases:
        with pytest.raises(rb.ReleaseError, match=word):
            membership_of_release(wrong, runs=1000, seconds=600)


def test_statements_that_promise_what_cannot_be_are_refused(table):
    release = flat.craft(**table, n_rados=10, mechanism=rb.NoisyRados(epsilon=4.0))
    plain = rb.craft(table["table"], table["y"], n_rados=10)
    labels = flat.craft(**table, n_rados=10, mechanism=rb.Moments(4.0, unit="label", sharpen=False))
    about_labels = event_to_dict(Gaussian(1.0, Relation.LABEL))
    about_records = event_to_dict(Gaussian(4.0, RECORD))
    refused(
        (altered(release, delta=0.0), "delta"),
        (altered(release, event_to_dict(Composed(()))), "nothing"),
        (altered(release, event_to_dict(Repeated(SubsampledGaussian(9.0, 0.5), 2**50))), "what cannot be"),
        (altered(release, neighbours="one label flipped"), "one label flipped"),
        (altered(release, about_labels), "one label flipped"),
        (altered(labels, about_records, neighbours=RECORD.value), "mechanism"),
        (altered(release, epsilon_at=((math.nan, 1.0),)), "no promise"),
        (altered(release, epsilon=math.nan), "no promise"),
        (altered(release, best_guess=1.1), "best guess"),
        (replace(plain, statement=release.statement), "promises"),
        (altered(plain, epsilon=1.0), "promises"),
        (altered(plain, promises=("Nobody will ever know.",)), "promises"),
        (replace(plain, n_examples=None), "examples"),
    )


def test_what_could_not_be_compared_is_not_called_true():
    found = membership_attack(rb.NoisyExamples(4.0), runs=1000, key=KEY, seconds=600)
    odd = replace(found, margin=math.nan)
    assert odd.beats_claim is None and "could not be compared" in odd.sentence()
    assert json.dumps(odd.to_dict(), allow_nan=False)


def test_mechanisms_that_the_attack_does_not_run_are_refused(table):
    def having(release, **other):
        return replace(release, mechanism={**release.mechanism, **other})

    release = flat.craft(**table, n_rados=10, mechanism=rb.NoisyRados(epsilon=4.0))
    moments = flat.craft(**table, n_rados=10, mechanism=rb.Moments(4.0))
    noise = moments.mechanism["noise"]
    refused(
        (replace(release, mechanism={"name": "noisy-rados"}), "not known"),
        (replace(release, mechanism={"name": "magic"}), "not known"),
        (having(release, inclusion=1.0), "inclusion"),
        (having(release, noise_std=math.inf), "noise_std"),
        (having(release, noise_std=1e30), "sampled"),
        (having(release, clip="far"), "cannot be"),
        (replace(release, signatures={"name": "fixed-support", "support": 20}), "signatures"),
        (replace(release, n_examples=40), "n_examples"),
        (having(moments, noise={**noise, "sum": math.nan}), "sampled"),
        (having(moments, noise={}), "does not say how"),
        (having(moments, rounds=-1), "rounds"),
        (having(moments, grid=2), "grid"),
    )


# ---- plain rados


def all_rados(edges, band):
    """Every rado of these edge vectors, by plain loops, with F's size; the first column is the protected one."""
    for inside in itertools.product((0, 1), repeat=len(edges)):
        size = sum(bit != (edge[0] > 0) for bit, edge in zip(inside, edges, strict=True))
        if band is None or band[0] <= size <= band[1]:
            yield tuple(sum(bit * edge for bit, edge in zip(inside, edges, strict=True))), size


@pytest.mark.parametrize("band", [None, (3, 5)])
def test_counted_subsets_are_those_of_plain_loops(rng, band):
    edges = rng.integers(-2, 3, (8, 2))
    edges[:, 0] = np.where(edges[:, 0] < 0, -1, 1)
    rados = [rado for rado, _ in all_rados(edges, band)]
    law = counted_rado_law(edges, band)
    for rado in {*rados, (99, 0)}:
        assert round(np.exp(law(np.array([rado])))[0]) == rados.count(rado)


@pytest.mark.slow
@pytest.mark.parametrize("band", [None, (3, 5)])
def test_the_normal_law_has_the_moments_of_all_subsets(rng, band):
    edges = rng.integers(-9, 10, (8, 3))
    edges[:, 0] = np.where(edges[:, 0] < 0, -1, 1)
    rados = np.array([rado for rado, _ in all_rados(edges, band)])
    law, at = normal_rado_law(edges, band), rng.integers(-5, 6, (6, 3))
    if band is None:
        expected = multivariate_normal(rados.mean(axis=0), np.cov(rados.T, bias=True)).logpdf(at)
    else:
        # Given the protected value, the other columns are normal with the moments of the rados that have it.
        plus, expected = (edges[:, 0] > 0).sum(), []
        at[:, 0] = [plus - 3, plus - 4, plus - 5, plus - 4, plus - 2, plus - 6]
        for rado in at:
            same = rados[rados[:, 0] == rado[0], 1:]
            if not len(same):
                expected.append(-np.inf)
                continue
            part = multivariate_normal(same.mean(axis=0), np.cov(same.T, bias=True)).logpdf(rado[1:])
            expected.append(part + np.log(len(same)))
        assert np.isinf(expected[-2:]).all()
    found = law(at)
    finite = np.isfinite(expected)
    assert (np.isfinite(found) == finite).all()
    differences = found[finite] - np.array(expected)[finite]
    assert np.allclose(differences, differences[0])  # a constant that all rados share


@pytest.mark.slow
@pytest.mark.parametrize("n_rados", [1, 3])
def test_a_record_is_told_unless_it_is_in_no_rado(n_rados):
    present, absent = plain_likelihood_runs(PlainTable(12, 2, n_rados), runs=20_000, key=KEY)
    told = 1 - 2.0**-n_rados
    for right, wrong in (((present > 0).sum(), (present < 0).sum()), ((absent < 0).sum(), (absent > 0).sum())):
        assert wrong == 0
        assert binom.ppf(1e-7, 20_000, told) <= right <= binom.ppf(1 - 1e-7, 20_000, told)  # false alarm: 4e-7


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n_rados", "limits"), [(400, 100, None), (400, 100, (150, 250)), (5000, 1000, None)])
def test_many_rados_are_told_like_a_gaussian_mechanism(m, n_rados, limits):
    of = PlainTable(m, 4, n_rados, limits)
    assert of.drawn == (m == 400)
    present, absent = plain_likelihood_runs(of, runs=1000, key=KEY)
    # mu**2 is 2 n d / m on average. Over 1000 tables, each a chi square of d degrees, it spreads by 2 %, and the ratios
    # of 1000 runs by 4 % more; the formula is itself 5 % off: 30 % has a probability below 1e-6.
    mu_squared = 2 * n_rados * 4 / m
    assert present.mean() - absent.mean() == pytest.approx(mu_squared, rel=0.3)
    assert present.mean() > 0 > absent.mean()


@pytest.mark.slow
def test_plain_and_banded_rados_tell_and_promise_nothing(table):
    runs = {"runs": 2000, "key": KEY, "seconds": 600}
    for found in (
        membership_attack(rb.Plain(), **runs),
        membership_attack(rb.FeatureBand("x", 1.0), **runs),
        membership_of_release(rb.craft(table["table"], table["y"], n_rados=100), **runs),
    ):
        assert found.beats_claim is found.claim is found.margin is None and found.roc.advantage > 0.5
        assert found.neighbours == "one record replaced by another" and "nothing is promised" in found.sentence()
        assert found.sentence().startswith("On made-up tables of this size, an adversary")
    assert "scaling constants" in found.granted[-1]
    X = np.column_stack([np.tile([-1.0, 1.0], 50), np.linspace(0, 1, 100)])
    band = rb.FeatureBand("x0", 3.0, delta=0.1)
    banded = rb.craft(X, np.arange(100) % 3 == 0, n_rados=3, mechanism=replace(band, scale=None))
    found = membership_of_release(banded, **runs)
    assert found.mechanism == "feature-band" and banded.signatures["low"] == 19
    assert (
        found.roc
        == membership_attack(band, n_rados=3, **runs).roc
        != membership_attack(rb.Plain(), n_rados=3, **runs).roc
    )


@pytest.mark.slow
def test_runs_on_plain_rados_are_about_tables_of_their_own():
    """If runs shared a table, their ratios would lean the same way."""
    present, absent = plain_likelihood_runs(PlainTable(100, 3, 20), runs=4000, key=KEY)
    differences = present - absent
    # Means of blocks of 50 are then no farther apart than independent runs are; a chi square of 79 degrees.
    blocks = differences.reshape(80, 50).mean(axis=1)
    assert 50 * blocks.var(ddof=1) / differences.var() < chi2.ppf(1 - 1e-6, 79) / 79
    few, _ = plain_likelihood_runs(PlainTable(5, 5, 3), runs=1000, key=KEY)  # counted subsets take no covariance
    assert (few > 0).mean() == pytest.approx(7 / 8, abs=0.06)  # false alarm: 1e-7


# ---- all of it


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_can_be_attacked_with_the_same_result_again(name):
    given = {
        "feature-band": {"feature": "x", "epsilon": 1.0},
        "plain": {},
        "moments": {"epsilon": 4.0, "sharpen": False},
    }
    mechanism = MECHANISMS[name](**given.get(name, {"epsilon": 4.0}))
    found = membership_attack(mechanism, n_rados=10, runs=1000, key=KEY, seconds=600)
    if name != "moments":  # it takes long
        assert membership_attack(mechanism, n_rados=10, runs=1000, key=KEY, seconds=600).roc == found.roc
    assert found.granted and found.status == "measured"
    told = json.loads(json.dumps(found.to_dict()))
    assert told["attack"] == NAME and told["mechanism"] == name and told["sentence"] == found.sentence()
    assert "\n" not in found.sentence() and TITLE.endswith("?") and ASSUMES.endswith(".")
    if found.claim is not None:
        assert "epsilon 4 at delta 1e-06 for one" in found.sentence()
        assert found.sentence().startswith("On the worst table for this record, an adversary")
        assert f"less than {math.floor(100 * found.shown_share)} % of what it takes" in found.sentence()


@pytest.mark.parametrize("mechanism", [rb.Plain(), rb.NoisyRados(4.0), rb.NoisyExamples(4.0), rb.Moments(4.0)])
def test_without_time_nothing_is_said(mechanism):
    found = membership_attack(mechanism, n_rados=5, runs=5000, seconds=1e-6)
    assert (found.status, found.roc, found.beats_claim) == ("unknown", None, None)
    assert found.runs < 1000 and found.sentence().startswith("Unknown") and json.dumps(found.to_dict())


def test_arguments_that_cannot_be_used():
    plain = rb.Plain()
    for attack, words in (
        (lambda: membership_attack("plain"), "mechanism"),
        (lambda: membership_attack(plain, runs=999), "runs"),
        (lambda: membership_attack(plain, key="key"), "key"),
        (lambda: membership_attack(plain, n_examples=20, n_columns=19), "too few"),
        (lambda: membership_attack(rb.Moments(1e-4, unit="label", sharpen=False)), "noise"),
    ):
        with pytest.raises(rb.ArgumentError, match=words):
            attack()


@pytest.mark.slow
def test_the_study_finds_what_it_should():
    findings = study(quick=True, seconds=600)
    assert Findings.from_dict(json.loads(json.dumps(findings.to_dict(), allow_nan=False))) == findings
    assert [check.seen for check in findings.checks] == [True] * len(findings.checks)
    assert len(findings.checks) == 4 and "halved on purpose" in findings.checks[-1].statement
    rows = findings.tables[0].rows
    assert len(rows) == len(findings.figures[0].panels) == 7
    assert all("one " in row[1] for row in rows[3:])  # no epsilon without its neighbours
    for panel in findings.figures[0].panels:
        lines = {line.label: line for line in panel.series}
        judged = lines.get("surely, at 1 - 1e-6")
        assert (judged is not None) == ("the most that the statement allows" in lines)
        if judged is not None and "half the noise" not in panel.title:
            assert max(judged.y) < max(lines["the attack"].y)
    assert "not above its statement's by more than chance" in findings.figures[0].caption
    exact = findings.figures[0].panels[0].series[0]
    assert min(exact.x) == 1 / 3000 and exact.y[exact.x.index(1 / 3000)] > 0.9
