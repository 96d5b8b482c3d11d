"""The paper's theorems: formulas by hand, laws against enumeration, and checks that can come out both ways.

Tests of chance state the probability of a false alarm.
"""

import copy
import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from radoboost.findings import validate
from radoboost.privacy import TruncatedBinomialShift, band, delta_at
from radoboost.reproduce import theory
from radoboost.reproduce.cells import Cell, Options
from radoboost.reproduce.theorems import dp_feat, gap, marginal, mean_zero, norm_lemma, prudence, spheres
from radoboost.risks import logistic_rado_risk, logistic_risk

FALSE_ALARM = 1e-6

# ---- thm_concentration


def test_the_bound_is_the_printed_one():
    n, m, d, eta = 10**6, 10, 4, 0.1
    inside = 0.5 + d * math.log(2 * math.e * n / d) + math.log(1 / eta)
    by_hand = -math.log(1 - 16 * 1.5 * math.sqrt(inside) / math.sqrt(n)) / m
    assert gap.penalty(math.log(1.5), 0.5, n, m, d, eta) == pytest.approx(by_hand, rel=1e-12)
    assert gap.penalty(math.log(1.5), 0.5, n, m, d, eta, constant=1.0) < by_hand / 16


def test_the_bound_falls_with_n_and_is_vacuous_below_the_least_n():
    for log_varrho, log_ell, d in product((0.0, 0.3, 5.0), (0.0, 2.0), (1, 4, 33)):
        least = gap.log_least_rados(log_varrho, log_ell, d)
        bounds = [gap.penalty(log_varrho, log_ell, math.exp(least + more), 20, d) for more in (1e-6, 0.5, 2.0, 5.0)]
        assert gap.penalty(log_varrho, log_ell, math.exp(least - 1e-6), 20, d) is None
        assert None not in bounds and bounds == sorted(bounds, reverse=True)
        assert gap.log_least_rados(log_varrho + 1, log_ell, d) > least + 1.9


def test_closed_forms_agree_with_a_list_of_all_rados(rng):
    edge_vectors, theta = rng.standard_normal((9, 3)), rng.standard_normal(3)
    margins = edge_vectors @ theta
    losses = np.exp(-gap.all_rados(edge_vectors) @ theta)
    assert len(losses) == 2**9
    assert gap.log_ell(margins) == pytest.approx(math.log(losses.max()))
    assert gap.log_varrho(margins) == pytest.approx(math.log(losses.max() / losses.mean()))
    weights = losses / losses.sum()
    assert gap.log_rados_that_tell(margins) == pytest.approx(float(weights @ np.log(weights * 2**9)))
    assert logistic_rado_risk(gap.all_rados(edge_vectors), theta, 9) == pytest.approx(
        logistic_risk(edge_vectors, theta)
    )


def test_drawn_rados_have_the_law_of_all_of_them(rng):
    """Distribution functions, by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart; false alarm 1e-6."""
    margins = rng.standard_normal(11)
    everything = np.sort(gap.all_rados(margins[:, None]).ravel())
    count = 200_000
    drawn = np.sort(gap.rado_margins(margins, count, rng))
    off = np.searchsorted(drawn, everything + 1e-9, side="right") / count - np.arange(1, 2**11 + 1) / 2**11
    assert np.abs(off).max() <= math.sqrt(math.log(2 / FALSE_ALARM) / (2 * count))
    mean, spread = np.exp(-everything).mean(), np.exp(-everything).max()
    assert abs(np.exp(-drawn).mean() - mean) <= spread * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * count))


def test_the_expected_gap_falls_with_n_and_ends_where_rados_tell():
    margins = np.linspace(-1, 3, 200)
    gaps = [gap.frozen_gap(margins, n) for n in (1, 10, 1000, 10**6)]
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] > 0
    assert gap.frozen_gap(margins[::20], 10**6) == 0.0


# ---- thm_rrs and f(beta)


def test_bound_and_f_of_the_appendix_by_hand():
    assert dp_feat.divergence(0.25) == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    for n, m, epsilon, eta in product((10, 1000), (500, 20_000), (0.05, 0.1), (0.01, 0.2)):
        beta = dp_feat.beta_of(epsilon)
        direct = (math.log(n / eta) / dp_feat.divergence(beta) + dp_feat.f_beta(beta)) / m
        assert dp_feat.draws_bound(n, m, beta, eta) == math.ceil(direct)
        assert dp_feat.draws_bound(10 * n, m, beta, eta) >= dp_feat.draws_bound(n, m, beta, eta)
    assert dp_feat.draws_bound(1, 1000, dp_feat.beta_of(9.6), 0.05) == 1 > dp_feat.n_star(dp_feat.beta_of(9.6), 0.05)
    assert dp_feat.n_star(dp_feat.beta_of(9.8), 0.05) > 1


def test_failures_of_the_bound_are_counted_exactly():
    reject = dp_feat.rejection_probability(6, 2)
    assert reject == pytest.approx(14 / 64)
    at_most = sum(reject ** (i + j) * (1 - reject) ** 2 for i in range(7) for j in range(7) if i + j <= 4)
    assert dp_feat.failure_probability(2, 6, 2, 3) == pytest.approx(1 - at_most)
    assert dp_feat.failure_probability(100, 50, 0, 1) == 0.0
    n_drawn = dp_feat.draws_quantile(2, 6, 2, 0.95)
    assert dp_feat.failure_probability(2, 6, 2, n_drawn // 2 + 1) <= 0.05


# ---- thm_dpfreal


@pytest.mark.parametrize(
    ("m", "epsilon", "banded", "plain"),
    [(1000, 0.1, 0.0331430, 1.6e-3), (1000, 0.5, 1.46232e-5, 3.5e-17), (10_000, 0.1, 3.73220e-4, 1.1e-9),
     (100, 1.0, 7.26310e-3, 8.0e-8)],
)  # fmt: skip
def test_exact_deltas_are_those_on_record(m, epsilon, banded, plain):
    assert marginal.column_delta(m, epsilon) == pytest.approx(banded, rel=1e-5)
    assert marginal.column_delta(m, epsilon, banded=False) == pytest.approx(plain, rel=0.04)
    low = band(m, epsilon)[0]
    assert dp_feat.edge_mass(m, low) == pytest.approx(banded, rel=1e-5)
    assert dp_feat.largest_loss(m, low) <= epsilon / 2


def test_a_band_of_one_value_gives_it_away():
    assert band(1000, 0.01) == (500, 500)
    assert marginal.column_delta(1000, 0.01) == dp_feat.edge_mass(1000, 500) == 1.0


def test_delta_is_the_sum_over_all_outcomes():
    for m, low, epsilon in product((7, 12), (0, 2, 3), (0.0, 0.2, 1.0)):
        masses = {k: Fraction(math.comb(m, k)) for k in range(low, m - low + 1)}
        total, growth = sum(masses.values()), Fraction(math.exp(epsilon))
        exact = sum(max(Fraction(0), mass - growth * masses.get(k - 1, 0)) for k, mass in masses.items()) / total
        assert math.exp(dp_feat.log_delta(m, low, epsilon)) == pytest.approx(float(exact), rel=1e-12)
        assert delta_at(TruncatedBinomialShift(m, low, m - low), epsilon) == pytest.approx(float(exact), rel=1e-9)


def test_the_expansion_in_the_proof():
    m, half = 50, 0.05
    f = (math.log(1 + math.exp(half)) - (1 + 1 / m) * half * math.exp(half) / (1 + math.exp(half))) / math.log(2)
    assert dp_feat.proof_factor(m, half) == pytest.approx(1 / (1 - 2 ** (m * (f - 1))), rel=1e-9)
    for m in (10, 10_000):
        assert dp_feat.proof_factor(m, 1e-9) * 1e-9 == pytest.approx(2, rel=1e-4)
        assert dp_feat.printed_factor(m, 1e-9) * 1e-9 == pytest.approx(1 / (2 * m**2 * math.log(2) ** 2))


# ---- thm_random_gau


def test_norms_follow_the_chi_distribution():
    assert norm_lemma.norm_probability(2.0, 2) == pytest.approx(1 - math.exp(-2.0))
    assert norm_lemma.norm_probability(1.0, 1) == pytest.approx(math.erf(1 / math.sqrt(2)))
    assert norm_lemma.norm_limit(1000, 0.05) == pytest.approx(math.sqrt(2 * math.log(20_000)))
    assert norm_lemma.norm_probability(norm_lemma.norm_limit(1000, 0.05), 28) == pytest.approx(0.1286, abs=1e-4)
    falling = [norm_lemma.norm_probability(4.45, d) for d in (1, 4, 16, 60)]
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize("setting", [(1.0, 0.05, 500, 1000), (0.3, 0.02, 2000, 100), (10.0, 0.5, 100, 50)])
def test_the_cap_depends_on_nothing_but_the_multiple_of_kappa(setting):
    least = prudence.least_kappa(*setting)
    for times in (1.0, 4.0, 9.0, 100.0):
        kappa = times * least
        if prudence.kept_share(kappa, setting[0], setting[2], setting[3]) < 1:
            assert prudence.printed_cap(kappa, *setting) == pytest.approx(1 - 2 / math.sqrt(times), abs=1e-9)


def test_kappa_one_gives_a_cap_where_the_printed_kappa_is_below_a_quarter():
    for noise, times in product((0.3, 1.0, 10.0), (0.05, 0.24, 0.26)):
        mu = math.sqrt(prudence.least_kappa(noise, 1.0, 5000, 1000) / times)  # so that the printed kappa is `times`
        assert (prudence.printed_cap(1.0, noise, mu, 5000, 1000) > 0) == (times < 0.25)


def test_rados_that_average_to_zero_have_a_risk_of_log_two_or_more(rng):
    """Jensen's inequality; so the bound fails in every draw with a feature taken, whatever the cap."""
    rados = rng.standard_normal((7, 3))
    rados -= rados.mean(axis=0)
    assert min(logistic_rado_risk(rados, theta, 20) for theta in rng.standard_normal((50, 3))) >= math.log(2)
    options = Options("", ())
    for cell in mean_zero.cells(options)[:2]:
        outcome = mean_zero.work(cell, options)
        assert outcome["least_kappa"] < 1 and outcome["mu"] > 0.9 and outcome["rows"][0]["cap"] > 0.9
        assert all(row["beyond"] == row["taken"] > 190 for row in outcome["rows"])


# ---- lem_algebraic


def test_spheres_and_holes():
    assert spheres.spheres_of_proof(100_000, 2) == 17**2 == 289
    assert spheres.printed_bound(100_000, 2) == pytest.approx(math.log(2) / (2 * math.sqrt(2) * math.log(100_001)))
    for m, along in ((3, 2), (4, 3), (8, 3), (9, 4), (99_999, 317)):
        assert spheres.right_radius(m, 2) == pytest.approx(1 / (math.sqrt(2) * along))
    assert spheres.right_radius(26, 3) == pytest.approx(1 / (3 * math.sqrt(3)))


def test_the_spheres_suffice_for_few_examples_and_the_printed_bound_follows():
    """The nearest cases in which the paper is right: 25 spheres for 24 examples, and a hole no smaller than printed."""
    options = Options(".", (), seed=0, quick=True)
    for d, m, enough, follows in ((2, 24, True, True), (2, 100, False, True), (2, 10_000, False, False)):
        out = spheres.work(Cell.of("theory", part="spheres", d=d, m=m), options)
        assert (out["spheres"] > m, out["follows"]) == (enough, follows)
        assert (out["printed"] <= out["right"]) == follows
    assert (out["first_few"], out["first_beyond"]) == (25, 225)


def test_a_lattice_moved_into_the_ball_covers_it(rng):
    m = 300
    radius = spheres.covering_radius(m, 2)
    step = radius * math.sqrt(2)
    reach = int(2 / step) + 1
    lattice = step * np.array(list(product(range(-reach, reach + 1), repeat=2)), dtype=float)
    lattice = lattice[np.linalg.norm(lattice, axis=1) <= 1 + radius * (1 + 1e-9)]
    points = lattice / np.maximum(1.0, np.linalg.norm(lattice, axis=1))[:, None]
    assert 0.9 * m < len(points) <= m
    inside = rng.uniform(-1, 1, (4000, 2))
    inside = inside[np.linalg.norm(inside, axis=1) <= 1]
    distances = np.linalg.norm(inside[:, None] - points, axis=2).min(axis=1)
    assert spheres.right_radius(m, 2) <= distances.max() <= radius * (1 + 1e-9)


# ---- the experiment


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    folder = tmp_path_factory.mktemp("domains")
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((120, 3))
    labels = np.where(rows @ [1.0, -0.5, 0.2] + 0.3 * rng.standard_normal(120) > 0, 1, -1)
    lines = ["a,b,c,label", *(",".join(map(str, [*row, label])) for row, label in zip(rows, labels, strict=True))]
    (folder / "haberman.csv").write_text("\n".join(lines) + "\n")
    return Options(str(folder), ("haberman",), seed=1, quick=True)


@pytest.fixture(scope="module")
def outcomes(options):
    """One cell of each part, and a second one where findings compare."""
    chosen, seen = [], {}
    for cell in theory.cells(options):
        seen[cell["part"]] = seen.get(cell["part"], 0) + 1
        if seen[cell["part"]] <= (2 if cell["part"] in ("classifier", "conclusion", "spheres") else 1):
            chosen.append(cell)
    return {cell: json.loads(json.dumps(theory.work(cell, options), allow_nan=False)) for cell in chosen}


def test_findings_have_the_shape_that_readers_rely_on(outcomes, options):
    found = theory.findings(outcomes, options)
    validate(found)
    assert {cell["part"] for cell in outcomes} == set(theory._PARTS)
    assert len(found["figures"]) >= 7 and len(found["tables"]) >= 8 and len(found["checks"]) == len(FLIPS)
    json.dumps(found, allow_nan=False)


def test_a_cell_is_a_function_of_itself_and_the_options(outcomes, options):
    for part in ("classifier", "joint", "rejection"):
        cell = next(cell for cell in outcomes if cell["part"] == part)
        assert json.loads(json.dumps(theory.work(cell, options))) == outcomes[cell]
    assert theory.work(cell, Options(options.data, options.domains, seed=2, quick=True)) != outcomes[cell]


def test_without_a_domain_the_rest_is_still_found(outcomes, options):
    bare = Options(options.data, (), quick=True)
    kept = {cell: outcome for cell, outcome in outcomes.items() if not cell.get("domain")}
    assert {cell["part"] for cell in kept} == {cell["part"] for cell in theory.cells(bare)}
    found = theory.findings(kept, bare)
    assert [check["seen"] for check in found["checks"] if "conditions hold" in check["statement"]] == [None, None]
    assert sum("no domain was there" in note for note in found["notes"]) == 2


def _set(**values):
    return lambda outcome: outcome.update(values)


def _rows(**values):
    """The values in every row of a ball, or of a table."""
    return lambda outcome: [row.update(values) for row in outcome["rows"]]


def _first(**values):
    """The values in the part of a classifier at its full length."""
    return lambda outcome: outcome["lengths"][0].update(values)


def _gaps(rising):
    """Gaps that rise or fall with m."""
    return lambda outcome: outcome["lengths"][0].update(gaps=[(1 if rising else -1) * float(outcome["m"])] * 60)


def _neither(outcome):
    """Gaps that rise with m as often as they fall."""
    outcome["lengths"][0]["gaps"] = [0.0, 1.0] * 30 if outcome["m"] == 12 else [1.0, 0.0] * 30


def _risk(value):
    return lambda outcome: outcome.update(example_risk=[value] * len(outcome["rounds"]))


def _points(**values):
    return lambda outcome: [point.update(values) for point in outcome["points"]]


def _deltas(exponent):
    """Deltas that fall as this power of m."""
    return lambda outcome: [row.update(exact=row["m"] ** exponent) for row in outcome["falling"]]


FLIPS = [
    # statement, part, what makes it true, what makes it false
    ("lem_equivlogexp", "ball", _set(identity_off=1e-15), _set(identity_off=1e-3)),
    ("(thc11) with the constant 16", "ball", _rows(proof=0.1, beyond_proof=0), _rows(proof=0.1, beyond_proof=40)),
    ("(thc11) with the constant 1:", "ball", _rows(printed=0.1, beyond_printed=0),
     _rows(printed=0.1, beyond_printed=40)),
    ("finite at some n < m", "classifier", _first(log_least=1.0), _first(log_least=50.0)),
    ("as (thc22) would have it", "classifier", _gaps(False), _gaps(True)),
    ("lem_radoboost", "boosting", _set(excess=-0.1, disagreement=0.0), _set(excess=0.1, disagreement=0.0)),
    ("eq. (Qbound)", "boosting", _risk(-9.0), _risk(9.0)),
    ("epsilon delta = O(", "delta", _deltas(-2.0), _deltas(-0.5)),
    ("1 / (2 m^2 log(2)^2 eps')", "delta", _set(factor=[1.0] * 25, printed_factor=[1.0] * 25),
     _set(factor=[1.0] * 25, printed_factor=[2.0] * 25)),
    ("(delta1)", "delta", _points(exact=0.1, edge=0.1), _points(exact=0.3, edge=0.1)),
    ("within the band the privacy loss", "band", _set(loss=0.4), _set(loss=1.1)),
    ("cutting the tails", "band", _set(log_ratio=-0.1), _set(log_ratio=0.0)),
    ("d = 1 is no loss", "joint", _set(banded_both=0.2, banded_column=0.2), _set(banded_both=0.6, banded_column=0.2)),
    ("signatures drawn stay within", "rejection", _set(beyond=0), _set(beyond=40)),
    ("is a whole number", "rejection-grid", _set(whole=0.9), _set(whole=1.1)),
    ("for every m and epsilon", "rejection-grid",
     lambda outcome: [row.update(failure=0.5) for row in outcome["by_m"]],
     lambda outcome: [row.update(failure=1.5, least_epsilon=1.0) for row in outcome["by_m"]]),
    ("our sampler has the law", "rejection", _set(ours_outside=0, ours_off=0.01), _set(ours_outside=1, ours_off=0.01)),
    ("f(beta)", "f-beta", _set(claims=[{"m": 9, "n": 9, "eta": 0.1, "draws": 9}]),
     _set(claims=[{"m": 9, "n": 9, "eta": 0.1, "draws": 99}])),
    ("lemma partial3", "norm", _set(exact=0.99, within=40), _set(exact=0.99, within=20)),
    ("has the chi distribution", "norm", _set(exact=0.5, within_alone=500), _set(exact=0.5, within_alone=700)),
    ("with sqrt(d) added", "norm", _set(right_failure=0.01), _set(right_failure=0.1)),
    ("there is a prudential", "cap", _set(caps=[[0.1, 0.2, 0.5]]), _set(caps=[[-1.0, 0.0, 0.5]])),
    ("log sum w e^a", "cap", _set(left=1.0, right=2.0), _set(left=2.0, right=1.0)),
    ("its bound does too", "conclusion", _set(held=60, beyond=1), _set(held=60, beyond=40)),
    ("lemma partial1", "conclusion", _set(held=60, too_long=1), _set(held=60, too_long=40)),
    ("average to zero", "mean-zero", _rows(taken=60, beyond=1), _rows(taken=60, beyond=40)),
    ("standard deviation of a feature", "conclusion", _set(held=60, draws=60), _set(held=2, draws=60)),
    ("more spheres than examples", "spheres", _set(spheres=10**6), _set(spheres=5)),
    ("one of its spheres is empty", "spheres", _set(printed=0.1, covering=0.2), _set(printed=0.2, covering=0.1)),
    ("is not above what a placement leaves", "spheres", _set(right=0.1, covering=0.2), _set(right=0.3, covering=0.2)),
    (
        "for moderate m its printed bound holds",
        "spheres",
        _set(printed=0.1, right=0.2, follows=True, first_beyond=10**6),
        _set(printed=0.1, right=0.2, follows=False, first_beyond=10**6),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "part", "good", "bad"), FLIPS, ids=[flip[0] for flip in FLIPS])
def test_every_check_can_come_out_both_ways(outcomes, options, words, part, good, bad):
    for change, seen in ((good, True), (bad, False)):
        invented = copy.deepcopy(outcomes)
        if part == "conclusion":  # one level of noise is not enough: the strongest is judged by itself
            invented[Cell.of("theory", part=part, domain="haberman", noise_std=1.0)] = copy.deepcopy(
                next(outcome for cell, outcome in outcomes.items() if cell["part"] == part)
            )
        for cell, outcome in invented.items():
            if cell["part"] == part:
                change(outcome)
        checks = [check for check in theory.findings(invented, options)["checks"] if words in check["statement"]]
        assert [check["seen"] for check in checks] == [seen]


@pytest.mark.parametrize(
    ("words", "part", "change"),
    [
        ("(thc11) with the constant 16", "ball", _rows(proof=None)),
        ("as (thc22) would have it", "classifier", _neither),
        ("lem_radoboost", "boosting", _set(disagreement=0.1)),
        ("its bound does too", "conclusion", _set(held=0)),
        ("average to zero", "mean-zero", _rows(taken=0)),
    ],
)
def test_what_cannot_be_judged_is_said_not_to_be(outcomes, options, words, part, change):
    invented = copy.deepcopy(outcomes)
    for cell, outcome in invented.items():
        if cell["part"] == part:
            change(outcome)
    checks = [check for check in theory.findings(invented, options)["checks"] if words in check["statement"]]
    assert [check["seen"] for check in checks] == [None]


def test_on_a_domain_of_the_paper(domains):
    """The paper's bound of lem_radoboost, and a gap that thm_concentration says nothing about, on Banknote."""
    options = Options(str(domains), ("banknote",), quick=True)
    boosted = theory.work(Cell.of("theory", part="boosting", domain="banknote", weak="strongest", kappa=1.0), options)
    assert boosted["excess"] < 0 and boosted["rado_risk"][-1] < boosted["example_risk"][-1]
    line = theory.work(Cell.of("theory", part="classifier", domain="banknote", m=100), options)["lengths"][0]
    assert line["rows"][-1]["bound"] is None and line["rows"][-1]["low"] > 0.5 > line["risk"]
