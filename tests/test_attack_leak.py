"""The joint leak of feature-band rados: an exact likelihood against enumeration, and the bit on real releases."""

import json
import math
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import radoboost as rb
from radoboost.holder.signatures import FeatureInterval
from radoboost.lab.attacks import feature_band_leak
from radoboost.lab.attacks.feature_band_leak import (
    leak_protected_bit,
    recover_protected_bit,
    simulate_band_rados,
    study,
)
from radoboost.lab.attacks.subset_sum import Subsets
from radoboost.privacy import band
from radoboost.report.findings import Findings


def table(m, rng, columns=1, values=(0, 1)):
    """A protected column first, then real-valued ones, and labels of both classes."""
    x = np.column_stack([rng.choice(values, m), rng.normal(size=(m, columns))])
    y = rng.integers(0, 2, m)
    y[:2] = 0, 1
    return x, y


def likelihoods(edges, protected, row, rado, interval):
    """The number of allowed subsets that give a rado under the bits -1 and +1, and of allowed subsets, by a loop."""
    m, given, allowed = len(edges), [], []
    for bit in (-1, 1):
        mine = edges.copy()
        mine[row, protected] = bit
        plus = mine[:, protected] > 0
        fits = [np.array(subset) for subset in product((False, True), repeat=m)]
        fits = [subset for subset in fits if interval[0] <= (subset != plus).sum() <= interval[1]]
        given.append(sum((subset.astype(int) @ mine == rado).all() for subset in fits))
        allowed.append(len(fits))
    return given, allowed


@pytest.mark.slow
def test_the_likelihood_ratio_is_that_of_enumeration(rng):
    """The normaliser too: as many subsets are allowed under either bit, and as many as the signature set says."""
    undecided = 0
    for _ in range(60):
        m, columns, levels = 7, int(rng.integers(0, 3)), int(rng.choice([2, 4]))
        interval = (2, 5) if rng.random() < 0.5 else (0, 7)
        edges, rados = simulate_band_rados(rng, m, 3, columns, levels, interval)
        row, protected = int(rng.integers(m)), int(rng.integers(columns + 1))
        order = np.roll(np.arange(columns + 1), protected)
        edges, rados = edges[:, order], rados[:, order]
        ratio = 0.0
        for rado in rados:
            (minus, plus), allowed = likelihoods(edges, protected, row, rado, interval)
            assert allowed == [FeatureInterval(*interval).size(m)] * 2
            assert minus or plus
            ratio += math.log(plus) if plus else -math.inf
            ratio -= math.log(minus) if minus else -math.inf
        truth = edges[row, protected]
        edges[row, protected] *= rng.choice([-1, 1])  # the adversary's copy says nothing
        found = recover_protected_bit(edges, protected, row, rados, interval)
        if abs(ratio) < 1e-9:
            assert (found.bit, found.log_ratio) == (None, 0.0)
            undecided += 1
        else:
            assert found.bit == np.sign(ratio)
            assert found.log_ratio == pytest.approx(abs(ratio))
            assert math.isfinite(ratio) or found.bit == truth
            assert found.probability == pytest.approx(1 / (1 + math.exp(-abs(ratio))))
    assert 0 < undecided < 30


def test_likelihoods_that_differ_by_rounding_only_say_nothing():
    """Six rados whose ratios cancel; their logarithms sum to 4e-16."""
    edges, rados = simulate_band_rados(np.random.default_rng(838), 9, 6, 1, 2, (0, 9))
    found = recover_protected_bit(edges, 0, 0, rados, (0, 9))
    assert (found.bit, found.log_ratio) == (None, 0.0) and "as likely with either" in found.sentence()


@pytest.mark.slow
def test_the_bit_is_read_in_99_of_100_releases_of_24_rows_and_16_rados(rng):
    """One real-valued column beside the protected one, no constant; whatever the adversary's copy says."""
    right, copied = 0, []
    for trial in range(100):
        x, y = table(24, rng)
        release = rb.craft(x, y, n_rados=16, mechanism=rb.FeatureBand("x0", 6.0, delta=1e-3, intercept=False))
        row, flipped = int(rng.integers(24)), trial % 2 == 1
        truth = x[row, 0]
        if flipped:
            x[row, 0] = 1 - truth
        found = leak_protected_bit(release, x, y, row=row)
        right += found.value == truth
        copied.append(found.value == x[row, 0])
    assert right >= 99
    assert 40 < sum(copied) < 60
    allowed = release.statement.best_guess  # by the claim, did it speak of whole rados
    assert allowed < 0.85 and binom.sf(right - 1, 100, allowed) < 1e-6


@pytest.mark.slow
def test_of_the_protected_column_alone_the_claim_holds(rng):
    """Beside it the case in which the paper is right: its aim, the density of that feature's values in rados."""
    interval, trials, right = band(24, 6.0), 2000, 0
    facts = feature_band_leak.StatementFacts("standard", False, 16, 1, 24)
    allowed = feature_band_leak._BAND.statement(facts).best_guess
    for _ in range(trials):
        edges, rados = simulate_band_rados(rng, 24, 16, 0, 1, interval)
        bit = recover_protected_bit(edges, 0, 0, rados, interval).bit
        right += (bit or rng.choice([-1, 1])) == edges[0, 0]
    # At most as often as allowed: an exact binomial tail, with a false-alarm probability of 1e-6.
    assert 0.6 * trials < right <= binom.ppf(1 - 1e-6, trials, allowed)


def test_the_value_is_in_the_column_s_own_coding_from_a_csv_file(tmp_path, rng):
    x, y = table(30, rng, columns=2, values=(-1, 1))
    path = tmp_path / "people.csv"

    def written(values):
        rows = [f"{s:.0f},{a!r},{b!r},{'yes' if k else 'no'}" for (s, a, b), k in zip(values.tolist(), y, strict=True)]
        path.write_text("\n".join(["smokes,age,dose,ill", *rows]) + "\n")
        return path

    release = rb.craft(written(x), label="ill", mechanism=rb.FeatureBand("smokes", 6.0, delta=1e-3), n_rados=20)
    for row in range(6):
        for copy in (-1.0, 1.0):
            told = x.copy()
            told[row, 0] = copy
            found = leak_protected_bit(release, written(told), label="ill", row=row)
            assert found.value == x[row, 0]
    text = found.sentence()
    assert text.startswith(f"The value of 'smokes' in row 5 (the first is row 0) is {x[5, 0]:g}: ")
    assert "epsilon" in text and "marginal" in text and "nothing about rados seen whole" in text
    assert json.loads(json.dumps(found.to_dict()))["log_ratio"] == "infinite"


@pytest.mark.slow
def test_coarse_columns_leave_a_probability(rng):
    """With four values a column says little: the bit has a finite ratio, and is right about as often as it says."""
    said, right = [], []
    for _ in range(300):
        edges, rados = simulate_band_rados(rng, 16, 8, 1, 4, (1, 15))
        found = recover_protected_bit(edges, 0, 0, rados, (1, 15))
        if found.bit is not None:
            said.append(found.probability)
            right.append(found.bit == edges[0, 0])
    said = np.array(said)
    assert 0.5 < said.mean() < 0.95
    # Given the rados, hits are independent with these probabilities: five standard deviations, false alarm 6e-7.
    assert abs(sum(right) - said.sum()) < 5 * math.sqrt((said * (1 - said)).sum())
    assert (
        "with probability 0.880797, where" in feature_band_leak.FeatureBandLeak(1, 1, 2.0, 0, 8, 8, "halves").sentence()
    )
    for ratio in (15.0, 50.0):
        assert (
            "probability more than 0.999999, where"
            in feature_band_leak.FeatureBandLeak(1, 1, ratio, 0, 8, 8, "halves").sentence()
        )


@pytest.mark.slow
def test_beyond_41_rows_lattice_reduction_reads_the_bit(rng):
    x, y = table(60, rng, columns=6)
    release = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 6.0), n_rados=12)
    for row in (0, 59):
        truth = x[row, 0]
        for copy in (0, 1):
            x[row, 0] = copy
            found = leak_protected_bit(release, x, y, row=row)
            assert (found.engine, found.value, found.log_ratio) == ("lattice", truth, None)
            assert 1 <= found.n_decided <= 12
            assert "were found to have the row, though that no other rows give the same" in found.sentence()
        x[row, 0] = truth


@pytest.mark.slow
def test_without_enough_bits_the_bit_stays_unknown(rng):
    interval = band(100, 6.0)
    for columns, why in ((1, "subsets of 100 rows take 100 bits"), (5, "lattice reduction found no subset")):
        edges, rados = simulate_band_rados(rng, 100, 2, columns, 2**22, interval)
        found = recover_protected_bit(edges, 0, 0, rados, interval)
        assert found.bit is None and found.probability == 0.5
        assert found.sentence().startswith(f"The protected bit in row 0 (the first is row 0) stays unknown: {why}")


@pytest.mark.slow
def test_the_time_limit_is_kept(rng):
    interval = band(40, 6.0)
    edges, rados = simulate_band_rados(rng, 40, 200, 3, 4, interval)
    begun = time.process_time()
    found = recover_protected_bit(edges, 0, 0, rados, interval, seconds=1e-6)
    assert found.bit is None and found.n_read == 0 and "time was over" in found.why
    edges, rados = simulate_band_rados(rng, 200, 5, 40, 2**22, band(200, 6.0))
    found = recover_protected_bit(edges, 0, 0, rados, band(200, 6.0), seconds=0.5)
    assert found.bit is None and found.why == "the time was over"
    assert time.process_time() - begun < 60


@pytest.mark.slow
@pytest.mark.parametrize("m", [24, 60])
def test_a_release_of_another_table_is_refused(m, rng):
    """Another row's value in a real-valued column is enough for 24 rows; of 60, a column with one value."""
    x, y = table(m, rng, columns=4)
    release = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 6.0, delta=1e-2), n_rados=16)
    other = x.copy()
    other[:, 1] = other[0, 1] if m > 24 else np.roll(other[:, 1], 1)
    with pytest.raises(rb.TableError, match="release of another table"):
        leak_protected_bit(release, other, y, row=2)
    with pytest.raises(rb.TableError, match=f"has {m - 1} rows and the release is of {m}"):
        leak_protected_bit(release, x[1:], y[1:], row=2)


def test_contradicting_rados_are_of_another_table():
    edges = np.array([[1, 7], [1, -9], [-1, 4], [1, 30]])
    with pytest.raises(rb.TableError, match="some with the other"):
        recover_protected_bit(edges, 0, 1, np.array([[2, -2], [0, -2]]), (0, 4))
    with pytest.raises(rb.TableError, match="rado 1 is not a sum of these rows"):
        recover_protected_bit(edges, 0, 1, np.array([[2, -2], [1, 8]]), (0, 4))


def test_the_band_alone_decides_at_its_ends():
    """Of three rows with edges +1 and a band of sizes 0 .. 1, a value of 3 needs m(+) = 3."""
    edges = np.array([[1, 0], [1, 0], [1, 0]])
    assert recover_protected_bit(edges, 0, 0, np.array([[3, 0]]), (0, 1)).bit == 1
    assert recover_protected_bit(edges, 0, 0, np.array([[1, 0]]), (0, 1)).bit == -1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("subsets", "values", "bit", "why"),
    [
        (((0, 1, 2), (0, 1, 2), (1, 2)), (3, 3, 2), 1, ""),
        (((0, 1, 2), (1, 2), (0, 1, 2)), (1, 2, 1), -1, ""),
        (((0, 1, 2), (0, 1, 2)), (3, 1), None, "the subsets found disagree"),
        (((0, 1, 2), (0, 1, 2), (0, 1, 2)), (3, 3, 1), None, "the subsets found disagree"),
        (((0, 1, 2),), (2,), None, "others have the same sums"),  # a row adds -1 or +1
        (((1, 2),), (3,), None, "others have the same sums"),  # and only if it is there
        (((1, 2),), (2,), None, "found no subset that has the row"),
    ],
)
def test_votes_of_subsets_that_are_found(subsets, values, bit, why, rng, monkeypatch):
    """Fifty rows of +1 in the protected column, but for row 0, of which it is unknown."""
    edges = np.column_stack([np.ones(50, dtype=int), rng.integers(-(2**22), 2**22, (50, 6))])
    rados = np.array([edges[list(subset)].sum(axis=0) for subset in subsets])
    rados[:, 0] = values
    listed = iter([np.isin(np.arange(50), subset) for subset in subsets])

    class Told(feature_band_leak.Lattice):
        def solve(self, target, left=None):
            return Subsets(None, one=next(listed))

    monkeypatch.setattr(feature_band_leak, "Lattice", Told)
    found = recover_protected_bit(edges, 0, 0, rados, (0, 50))
    assert found.bit == bit and why in found.why


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["twin", "opposite label", "opposite"])
def test_beyond_41_rows_a_bit_that_rows_can_be_exchanged_for_stays_unknown(kind, rng):
    for n_rados in (2, 12):
        x, y = table(44, rng, columns=6)
        x[11] = x[10]
        y[11] = y[10] if kind == "twin" else 1 - y[10]
        x[11, 0] = x[10, 0] if kind == "opposite" else 1 - x[10, 0]
        release = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 6.0), n_rados=n_rados, seed=1)
        for row in (10, 11):
            found = leak_protected_bit(release, x, y, row=row)
            assert found.engine == "the band" or (found.bit is None and "can be exchanged" in found.sentence())
        # Others' bits are read only if the exchange leaves the protected column as it is.
        other = leak_protected_bit(release, x, y, row=30)
        assert other.engine == "the band" or ("can be exchanged" in other.why) == (kind != "opposite")
        assert other.value in (None, x[30, 0])
    assert other.engine == "lattice" and (other.bit is None) == (kind != "opposite")


@pytest.mark.slow
@pytest.mark.parametrize("coding", [(0, 1), (-1, 1)])
def test_what_stands_in_the_row_s_place_is_not_used(coding, rng):
    """A code for a missing value there, or one of neither kind, changes nothing."""
    x, y = table(24, rng, values=coding)
    mechanism = rb.FeatureBand("x0", 6.0, delta=1e-2, values=coding)
    release = rb.craft(x, y, n_rados=16, seed=1, mechanism=replace(mechanism, intercept=False))
    seen = set()
    for row in range(8):
        results = []
        for cell in (*coding, -1, 9, 99, 0.5, 3, -1e300):
            told = x.copy()
            told[row, 0] = cell
            results.append(leak_protected_bit(release, told, y, row=row))
        assert results == results[:1] * len(results)
        assert results[0].value == x[row, 0]
        seen.add((x[row, 0], y[row]))
    assert len(seen) > 2
    told[row, 0] = np.nan
    with pytest.raises(rb.TableError, match="x0"):
        leak_protected_bit(release, told, y, row=row)


def test_what_cannot_be_attacked_is_refused(rng):
    x, y = table(24, rng)
    release = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 6.0, delta=1e-2), n_rados=4)
    with pytest.raises(rb.ArgumentError, match="on the mechanism feature-band, and the release is of plain"):
        leak_protected_bit(rb.craft(x, y, n_rados=4), x, y, row=0)
    for row in (-1, 24):
        with pytest.raises(rb.ArgumentError, match=r"row must be one of 0 \.\. 23"):
            leak_protected_bit(release, x, y, row=row)
    with pytest.raises(rb.ArgumentError, match="time limit"):
        leak_protected_bit(release, x, y, row=0, seconds=0)
    x[3, 0] = 0.5
    with pytest.raises(rb.TableError, match="must hold two values"):
        leak_protected_bit(release, x, y, row=0)
    with pytest.raises(rb.TableError, match="x1"):
        leak_protected_bit(release, x[:, :1], y, row=0)


@pytest.mark.slow
def test_the_study_shows_that_the_claim_is_about_the_marginal_only():
    found = study(trials=20, largest=24, longest=0)
    alone, whole, output = found.checks
    assert alone.seen is None and "paper's aim" in alone.statement  # of 200 trials
    assert whole.seen is None and "So few trials show nothing" in whole.why  # of 20 trials
    assert alone.ours and whole.ours and all("our statement about the column" in c.statement for c in (alone, whole))
    assert output.seen is False and not output.ours and "(dpreq)" in output.statement
    assert "in 20 of 20 trials some rado is impossible" in output.why and "n epsilon, 96," in output.why
    claim = {row[0]: row[1] for row in found.tables[0].rows}
    assert claim["bits read rightly"] == "20 of 20"
    assert "marginal" in claim["between tables with"] and claim["epsilon of our statement about the column"] < 10
    assert claim["releases impossible under the other bit"] == "20 of 20"
    assert Findings.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False))) == found
    cells = {tuple(row[:4]): row[4:] for row in found.tables[1].rows}
    by_rados = found.figures[0].panels[1].series[0]  # of 24 rows and one other column
    for n, y in zip(by_rados.x, by_rados.y, strict=True):
        right, undecided, trials, *_ = cells[24, n, 1, 2**22]
        assert y == (right + undecided / 2) / trials
    assert cells[24, 1, 1, 2**22][1] > 0
    assert any("uniform" in note for note in found.notes) and any("epsilon 6" in note for note in found.notes)
    assert study(trials=3, largest=8, longest=42, seconds=300).figures[1].name == "leak-lattice"


@pytest.mark.slow
def test_a_claim_is_judged_only_where_the_trials_could_have_shown_that_it_is_exceeded():
    """At a false-alarm probability of 1e-6 ten trials say nothing, even if all of them are right; a hundred then do.

    That a claim was seen to hold takes more: half way between it and certainty would have been found out.
    """
    allowed = 0.793
    for trials in (0, 1, 10, 20, 50):
        check = feature_band_leak._check_right_bits("", trials, trials, allowed)
        assert check.seen is None and "So few trials show nothing" in check.why
    for trials in (60, 100):
        assert feature_band_leak._check_right_bits("", trials, trials, allowed).seen is False
        assert feature_band_leak._check_right_bits("", round(allowed * trials), trials, allowed).seen is None
        assert allowed**trials < 1e-6  # of all being right, were it so
    assert (
        feature_band_leak._check_right_bits("", 793, 1000, allowed).seen
        is feature_band_leak._check_right_bits("", 500, 1000, allowed).seen
        is True
    )
    assert feature_band_leak._check_right_bits("", 900, 1000, allowed).seen is False
    assert allowed**50 > 1e-6
    quick = study(trials=10, largest=12, longest=0)
    assert [check.seen for check in quick.checks][:2] == [None, None]
