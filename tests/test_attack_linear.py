"""One column from rados with known signatures and noise: by least squares and by a linear program."""

import itertools
import json
import time
from dataclasses import replace

import numpy as np
import pytest

import radoboost as rb
from radoboost.lab.attacks import linear_reconstruction as module
from radoboost.lab.attacks.adversary_knowledge import table_edge_vectors
from radoboost.lab.attacks.linear_reconstruction import METHODS, recover_column_linearly, recover_release_column


def _case(rng, n, m, reach=0.0, values=(-1.0, 1.0)):
    truth, inside = rng.choice(values, m), rng.random((n, m)) < 0.5
    return truth, inside, inside @ truth + rng.uniform(-reach, reach, n)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", [(-1.0, 1.0), (0.0, 3.0), (-2.0, 1.0, 5.0)], ids=str)
def test_all_is_right_without_noise(method, values, rng):
    truth, inside, answers = _case(rng, 80, 50, values=values)
    recovered = recover_column_linearly(inside, answers, 0.0, values, method)
    assert (recovered.values == truth).all() and recovered.reproduces and recovered.status == "found"
    assert recovered.share_right(truth) == 1.0 and recovered.share_right(truth + np.eye(50)[0]) == 0.98


@pytest.mark.slow
def test_the_interval_makes_up_for_rados_that_are_missing(rng):
    """Labels from 0.75 m rados: the linear program has all of them, least squares does not.

    By Wendel's theorem a corner of the box is the only solution of n random equations but with the probability that
    at most m - n - 1 of m - 1 fair coins are heads: 2e-8 here, and 2e-7 for ten cases.
    """
    short = 0
    for _ in range(10):
        truth, inside, answers = _case(rng, 90, 120)
        recovered = recover_column_linearly(inside, answers, 0.0)
        assert (recovered.values == truth).all() and recovered.certain is True
        assert "no other values" in recovered.sentence()
        short += recover_column_linearly(inside, answers, 0.0, method="least-squares").share_right(truth) < 1
    assert short > 5


@pytest.mark.slow
def test_it_is_certain_only_of_what_is_the_only_solution(rng):
    """Against all corners of the box: the program's word must be the truth."""
    seen = []
    for n in (3, 5, 7, 9) * 8:
        truth, inside, answers = _case(rng, n, 10)
        recovered = recover_column_linearly(inside, answers, 0.0)
        corners = [np.array(c) for c in itertools.product((-1.0, 1.0), repeat=10)]
        fitting = [c for c in corners if (inside @ c == answers).all()]
        if recovered.certain:
            assert len(fitting) == 1 and (recovered.values == truth).all()
        if recovered.reproduces:
            assert any((recovered.values == c).all() for c in fitting)
        seen.append(recovered.certain)
    assert {True, False} <= set(seen)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_noise_below_the_square_root_of_m_does_not_protect(method, rng):
    """m = 60, noise within 0.3 sqrt(m), 4 m rados: an estimate errs with standard deviation 0.2 at least squares.

    Ten of 600 wrong where each is with a probability of at most 1e-4 has a probability below 1e-15.
    """
    wrong = 0
    for _ in range(10):
        truth, inside, answers = _case(rng, 240, 60, 0.3 * 60**0.5)
        recovered = recover_column_linearly(inside, answers, 0.3 * 60**0.5, method=method)
        wrong += int((recovered.values != truth).sum())
        assert recovered.certain is None
    assert wrong < 10


@pytest.mark.slow
def test_an_interval_gives_real_values(rng):
    truth, inside = rng.uniform(-3, 7, 40), rng.random((60, 40)) < 0.5
    for method in METHODS:
        recovered = recover_column_linearly(inside, inside @ truth, 0.0, (-3, 7), method, rounded=False)
        assert np.abs(recovered.values - truth).max() < 1e-6 and recovered.reproduces
    few = recover_column_linearly(inside[:20], inside[:20] @ truth, 0.0, (-3, 7), rounded=False)
    assert few.reproduces and np.abs(few.values - truth).max() > 1 and few.certain is None
    assert few.free == 20 and "20 dimensions open" in few.sentence() and "infinitely many" in few.sentence()
    twice = np.repeat(inside[:20], 3, axis=0)  # more rados than records, of which few are independent
    for method in METHODS:
        assert recover_column_linearly(twice, twice @ truth, 0.0, (-3, 7), method, rounded=False).free == 20
    assert recovered.free == 0 and "infinitely" not in recovered.sentence()


@pytest.mark.slow
def test_noise_that_allows_the_opposite_shows_nothing(rng):
    truth, inside, answers = _case(rng, 40, 30)
    least = np.abs(inside @ (-truth) - answers).max()  # what the opposite of the truth errs
    loose = recover_column_linearly(inside, answers, 4 * least)
    assert loose.reproduces and loose.opposite and loose.to_dict()["opposite"]
    assert "Nothing certain was got: noise of up to" in loose.sentence() and "a guess" in loose.sentence()
    tight = recover_column_linearly(inside, answers, 1.0)
    assert tight.reproduces and not tight.opposite and "or a wrong seed, may do so too" in tight.sentence()
    for rounded in (True, False):  # corners of a line through a square: each is the other's opposite
        pair = recover_column_linearly(np.ones((1, 2)), [0.0], 0.0, rounded=rounded)
        assert pair.reproduces and pair.opposite and "so few rados allow" in pair.sentence()
    uneven = recover_column_linearly(np.ones((1, 2)), [3.0], 9.0, (-2.0, 1.0, 5.0))
    assert uneven.opposite  # the other end, not the negative, which is no value


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_values_beyond_floating_point_are_refused_in_one_line(method, rng):
    _, inside, answers = _case(rng, 40, 30)
    for values in ((1e-320, 2e-320), (-1.7e308, 1.7e308), (0.0, 1e-308), (-9e307, 1.0)):
        with pytest.raises(rb.ArgumentError, match="floating point"):
            recover_column_linearly(inside, answers, 1.0, values, method)
    with pytest.raises(rb.ArgumentError, match="floating point"):
        recover_column_linearly(inside, answers, 1e300, (0.0, 1e-300), method)
    for sums, values in ((0 * answers, (1e-320, 2e-320)), (1e300 + 0 * answers, (0.0, 1e-300))):
        with pytest.raises(rb.ArgumentError, match="floating point"):
            recover_column_linearly(inside, sums, 0.0, values, method)
    small = inside @ (1e-300 * np.sign(inside[0] - 0.5))
    assert recover_column_linearly(inside, small, 0.0, (-1e-300, 1e-300), method).reproduces
    if method == "lp":
        with pytest.raises(rb.TableError, match="another interval"):
            recover_column_linearly(inside, answers, 0.0, (-1e-300, 1e-300))
        with pytest.raises(rb.TableError, match="another interval"):
            recover_column_linearly(inside, answers, 1e-300, (-1e-300, 1e-300))


def test_answers_that_cannot_be_are_refused(rng):
    _, inside, answers = _case(rng, 60, 40)
    with pytest.raises(rb.TableError, match="another seed"):
        recover_column_linearly(inside[::-1], answers, 0.0)
    with pytest.raises(rb.TableError, match="another seed"):
        recover_column_linearly(inside, answers + 9 * (np.arange(60) % 2), 0.5)
    _, many, noisy = _case(rng, 200, 10, 2.0)
    assert recover_column_linearly(many, noisy, 2.0).status == "found"
    with pytest.raises(rb.TableError, match="more noise"):
        recover_column_linearly(many, noisy, 1.5)
    for bad in ({"values": (1,)}, {"values": (1, np.inf)}, {"noise_bound": -1}, {"method": "guess"}, {"answers": [1]}):
        arguments = {"inclusion": inside, "answers": answers, "noise_bound": 0.0} | bad
        with pytest.raises(rb.ArgumentError):
            recover_column_linearly(**arguments)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_time_limit_is_kept(method, rng):
    _, inside, answers = _case(rng, 900, 600, 9.0)
    begun = time.process_time()
    recovered = recover_column_linearly(inside, answers, 9.0, method=method, seconds=0.2)
    assert time.process_time() - begun < 10
    assert recovered.status == "unknown" and np.isnan(recovered.values).all() and "more seconds" in recovered.sentence()
    json.dumps(recovered.to_dict(), allow_nan=False)


def test_what_is_too_large_says_so_before_it_takes_memory(monkeypatch, rng):
    inside = np.broadcast_to(np.True_, (1 << 12, (1 << 10) + 1))
    recovered = recover_column_linearly(inside, np.zeros(1 << 12), 0.0, seconds=1e3)
    assert (recovered.status, recovered.why) == ("unknown", "size")
    assert "seconds" not in recovered.sentence() and "take the method least-squares" in recovered.sentence()
    X, y = rng.uniform(-1, 1, (30, 2)), rng.integers(0, 2, 30)
    release = rb.craft(
        X, y, n_rados=40, classes=(0, 1), seed=1, schema=[(-1, 1)] * 2, mechanism=rb.NoisyRados(1.0, i_know=True)
    )
    monkeypatch.setattr(module.adversary_knowledge, "seed_inclusion_bits", None)
    for method in METHODS:
        recovered = recover_release_column(release, 1, rows=10**12, method=method)
        assert recovered.status == "unknown" and recovered.to_dict()["rows"] == 10**12
        assert "too large" in recovered.sentence() and "least-squares" not in recovered.sentence()
    with pytest.raises(rb.ArgumentError, match="method"):
        recover_release_column(release, 1, rows=10**12, method="guess")


# ---- releases


def test_labels_of_a_seeded_release_from_fewer_rados_than_records(rng):
    X, y = rng.normal(size=(150, 3)), rng.integers(0, 2, 150)
    release = rb.craft(X, y, n_rados=110, seed=4)
    recovered = recover_release_column(release, 4)
    assert (recovered.values == 2.0 * y - 1).all() and recovered.certain
    assert recovered.to_dict()["column"] == "(constant)"
    binary = rng.integers(0, 2, (150, 1)).astype(float)
    release = rb.craft(binary, y, n_rados=200, seed=4, mechanism=rb.Plain(scale=None))
    recovered = recover_release_column(release, 4, column="x0", values=(-1, 0, 1))
    assert (recovered.values == table_edge_vectors(release, binary, y)[:, 0] * release.columns[0].step).all()
    release = rb.craft(X, y, n_rados=200, seed=4)
    recovered = recover_release_column(release, 4, column="x1", method="least-squares")
    truth = table_edge_vectors(release, X, y)[:, 1] * release.columns[1].step
    assert np.abs(recovered.values - truth).max() < 1e-6
    with pytest.raises(rb.TableError, match="another seed"):
        recover_release_column(release, 5)


@pytest.mark.slow
def test_a_wrong_seed_is_refused_by_the_parity_of_the_constant_column(rng):
    """Thirty rados of forty records: x0 has solutions under any seed. One of five passes with probability 5 / 2**30."""
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    release = rb.craft(X, y, n_rados=30, seed=3)
    assert "infinitely many" in recover_release_column(release, 3, column="x0").sentence()
    for seed in range(4, 9):
        for method in METHODS:
            with pytest.raises(rb.TableError, match="constant column"):
                recover_release_column(release, seed, column="x0", method=method)


@pytest.mark.slow
def test_labels_under_noise_once_the_seed_is_known(rng):
    """noisy-rados with a seed that leaked: what its epsilon promised is gone, and labels can be read.

    80 records, 400 rados, noise of 1.5: estimates of +-0.5 or more err with standard deviation about 0.17.
    """
    X, y = rng.uniform(-1, 1, (80, 2)), rng.integers(0, 2, 80)
    mechanism = rb.NoisyRados(noise_std=1.5)
    release = rb.craft(
        X, y, n_rados=400, classes=(0, 1), seed=8, schema=[(-1, 1)] * 2, mechanism=replace(mechanism, i_know=True)
    )
    for method in METHODS:
        recovered = recover_release_column(release, 8, rows=80, method=method)
        assert (np.sign(recovered.values) == 2 * y - 1).mean() > 0.9, method
        assert recovered.noise_bound > 1.5 * 5
    with pytest.raises(rb.ArgumentError, match="--set rows=M"):
        recover_release_column(release, 8)
    guessed = recover_release_column(release, 9, rows=80, method="least-squares")
    assert 0.2 < (np.sign(guessed.values) == 2 * y - 1).mean() < 0.8  # fair coins: beyond with probability 2e-8


def test_other_releases_are_refused(rng):
    X, y = rng.integers(0, 2, (300, 2)).astype(float), rng.integers(0, 2, 300)
    band = rb.craft(X, y, n_rados=20, mechanism=rb.FeatureBand("x0", epsilon=3.0), seed=1)
    with pytest.raises(rb.ArgumentError, match="'feature-band'"):
        recover_release_column(band, 1)
    with pytest.raises(rb.ArgumentError, match="no column 'age'"):
        recover_release_column(rb.craft(X, y, n_rados=20, seed=1), 1, column="age")


@pytest.mark.slow
def test_the_study_finds_where_it_starts_to_work():
    findings = module.study(40, ratios=(0.3, 0.8, 1.5, 5.0), noise=(0.0, 0.5), repeats=5)
    starts = {(row[0], row[1]): row[2] for row in findings.tables[0].rows}
    assert starts["lp", 0.0] == 0.8 and starts["least-squares", 0.0] in (0.8, 1.5)
    assert starts["lp", 0.5] > 0.8 and starts["least-squares", 0.5] > 0.8
    assert findings.checks[0].seen is True
    assert len(findings.figures[0].panels) == 2
    stopped = module.study(40, repeats=2, seconds=1e-3)
    assert stopped.figures == () and stopped.checks[0].seen is None
