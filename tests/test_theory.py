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

from radoboost.lab import theory
from radoboost.lab.paper.jobs import Options, Task
from radoboost.lab.theory import concentration, dp_feat, gaussian_theorem, sphere_packing
from radoboost.learner.risks import logistic_rado_risk, logistic_risk
from radoboost.privacy import TruncatedBinomialShift, band, delta_at
from radoboost.report.findings import Findings

FALSE_ALARM = 1e-6

pytestmark = pytest.mark.slow

# ---- thm_concentration


def test_the_bound_is_the_printed_one():
    n, m, d, eta = 10**6, 10, 4, concentration.ETA
    inside = 0.5 + d * math.log(2 * math.e * n / d) + math.log(1 / eta)
    by_hand = -math.log(1 - 16 * 1.5 * math.sqrt(inside) / math.sqrt(n)) / m
    assert concentration.concentration_penalty(math.log(1.5), 0.5, n, m, d) == pytest.approx(by_hand, rel=1e-12)
    assert concentration.concentration_penalty(math.log(1.5), 0.5, n, m, d, constant=1.0) < by_hand / 16


def test_the_bound_falls_with_n_and_is_vacuous_below_the_least_n():
    for log_varrho, log_ell, d in product((0.0, 0.3, 5.0), (0.0, 2.0), (1, 4, 33)):
        least = concentration.log_least_rados_for_penalty(log_varrho, log_ell, d)
        bounds = [
            concentration.concentration_penalty(log_varrho, log_ell, math.exp(least + more), 20, d)
            for more in (1e-6, 0.5, 2.0, 5.0)
        ]
        assert concentration.concentration_penalty(log_varrho, log_ell, math.exp(least - 1e-6), 20, d) is None
        assert None not in bounds and bounds == sorted(bounds, reverse=True)
        assert concentration.log_least_rados_for_penalty(log_varrho + 1, log_ell, d) > least + 1.9


def test_closed_forms_agree_with_a_list_of_all_rados(rng):
    edge_vectors, theta = rng.standard_normal((9, 3)), rng.standard_normal(3)
    margins = edge_vectors @ theta
    losses = np.exp(-concentration.all_rados(edge_vectors) @ theta)
    assert len(losses) == 2**9
    assert concentration.log_ell(margins) == pytest.approx(math.log(losses.max()))
    assert concentration.log_varrho(margins) == pytest.approx(math.log(losses.max() / losses.mean()))
    weights = losses / losses.sum()
    assert concentration.log_rados_that_tell(margins) == pytest.approx(float(weights @ np.log(weights * 2**9)))
    assert logistic_rado_risk(concentration.all_rados(edge_vectors), theta, 9) == pytest.approx(
        logistic_risk(edge_vectors, theta)
    )


def test_drawn_rados_have_the_law_of_all_of_them(rng):
    """Distribution functions, by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart; false alarm 1e-6."""
    margins = rng.standard_normal(11)
    everything = np.sort(concentration.all_rados(margins[:, None]).ravel())
    count = 200_000
    drawn = np.sort(concentration.rado_margins(margins, count, rng))
    off = np.searchsorted(drawn, everything + 1e-9, side="right") / count - np.arange(1, 2**11 + 1) / 2**11
    assert np.abs(off).max() <= math.sqrt(math.log(2 / FALSE_ALARM) / (2 * count))
    mean, spread = np.exp(-everything).mean(), np.exp(-everything).max()
    assert abs(np.exp(-drawn).mean() - mean) <= spread * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * count))


def test_the_expected_gap_falls_with_n_and_ends_where_rados_tell():
    margins = np.linspace(-1, 3, 200)
    gaps = [concentration.frozen_gap(margins, n) for n in (1, 10, 1000, 10**6)]
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] > 0
    assert concentration.frozen_gap(margins[::20], 10**6) == 0.0


# ---- thm_rrs and f(beta)


def test_bound_and_f_of_the_appendix_by_hand():
    assert dp_feat.divergence_of_beta(0.25) == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    for n, m, epsilon, eta in product((10, 1000), (500, 20_000), (0.05, 0.1), (0.01, 0.2)):
        beta = dp_feat.beta_of_epsilon(epsilon)
        direct = (math.log(n / eta) / dp_feat.divergence_of_beta(beta) + dp_feat.f_beta(beta)) / m
        assert dp_feat.draws_bound(n, m, beta, eta) == math.ceil(direct)
        assert dp_feat.draws_bound(10 * n, m, beta, eta) >= dp_feat.draws_bound(n, m, beta, eta)
    assert (
        dp_feat.draws_bound(1, 1000, dp_feat.beta_of_epsilon(9.6), 0.05)
        == 1
        > dp_feat.n_star_without_rejection(dp_feat.beta_of_epsilon(9.6), 0.05)
    )
    assert dp_feat.n_star_without_rejection(dp_feat.beta_of_epsilon(9.8), 0.05) > 1


def test_failures_of_the_bound_are_counted_exactly():
    reject = dp_feat.rejection_probability(6, 2)
    assert reject == pytest.approx(14 / 64)
    at_most = sum(reject ** (i + j) * (1 - reject) ** 2 for i in range(7) for j in range(7) if i + j <= 4)
    assert dp_feat.failure_probability(2, 6, 2, 3) == pytest.approx(1 - at_most)
    assert dp_feat.failure_probability(100, 50, 0, 1) == 0.0
    n_drawn = dp_feat.rejection_draws_quantile(2, 6, 2, 0.95)
    assert dp_feat.failure_probability(2, 6, 2, n_drawn // 2 + 1) <= 0.05


def _fails(m, beta, low, n=1000, eta=0.001):
    return dp_feat.failure_probability(n, m, low, dp_feat.draws_bound(n, m, beta, eta)) > eta


def test_rejection_s_bound_fails_only_where_beta_m_plus_one_is_not_whole():
    """Just above a whole number what is rounded up fails for small m; whole, or rounded down, nothing does."""
    for m in range(3, 61):
        for whole in range(1, m // 2):
            beta = (1 + 1e-9) * whole / (m + 1)
            for n, eta in product((1, 100, 1000), (0.001, 0.05)):
                assert not _fails(m, whole / (m + 1), whole, n, eta)
                assert not _fails(m, beta, math.floor(beta * (m + 1)), n, eta)
    failing = [
        m for m in range(3, 61) if any(_fails(m, (1 + 1e-9) * k / (m + 1), k + 1, 100) for k in range(1, m // 2))
    ]
    assert failing[-1] == 26
    # Where the theorem promises that nothing is rejected, any m may fail: each signature is, with chance 2^(1 - m).
    n, beta, eta = 10**6, 1e-15, 1e-6
    assert dp_feat.n_star_without_rejection(beta, eta) > n and dp_feat.draws_bound(n, 40, beta, eta) == 1
    assert _fails(40, beta, 1, n, eta) and not _fails(42, beta, 1, n, eta) and _fails(42, beta, 1, 10 * n, eta)


def test_rounding_down_keeps_the_privacy_loss_within_half_of_epsilon():
    for m, epsilon in product((10, 25, 100), (0.5, 1.0, 3.0)):
        assert dp_feat.largest_loss_in_band(m, math.floor(dp_feat.beta_of_epsilon(epsilon) * (m + 1))) <= epsilon / 2


# ---- thm_dpfreal


@pytest.mark.parametrize(
    ("m", "epsilon", "banded", "plain"),
    [(1000, 0.1, 0.0331430, 1.6e-3), (1000, 0.5, 1.46232e-5, 3.5e-17), (10_000, 0.1, 3.73220e-4, 1.1e-9),
     (100, 1.0, 7.26310e-3, 8.0e-8)],
)  # fmt: skip
def test_exact_deltas_are_those_on_record(m, epsilon, banded, plain):
    assert dp_feat.column_delta_of_rado(m, epsilon) == pytest.approx(banded, rel=1e-5)
    assert dp_feat.column_delta_of_rado(m, epsilon, banded=False) == pytest.approx(plain, rel=0.04)
    low = band(m, epsilon)[0]
    assert dp_feat.edge_mass_of_band(m, low) == pytest.approx(banded, rel=1e-5)
    assert dp_feat.largest_loss_in_band(m, low) <= epsilon / 2


def test_the_printed_delta_is_too_small_in_the_lower_part_of_the_theorem_s_range():
    """epsilon = 8 / m and m^(-1/2) are o(1) and Omega(1/m): delta is of the order 1 and m^(-1/2) there.

    At 8 / m the proof's own condition on m holds; at 4 / m, which was looked at before, it does not.
    """

    def condition(m, epsilon):
        beta = dp_feat.beta_of_epsilon(epsilon)
        return m >= (1 + 2 * beta) / (1 - 2 * beta)

    assert set(dp_feat._SMALL) == {"8 / m", "m^(-1/2)"}
    for m in (10**3, 10**5):
        assert all(condition(m, law(m)) for law in dp_feat._SMALL.values()) and not condition(m, 4 / m)
        assert dp_feat.edge_mass_of_band(m, band(m, 8 / m)[0]) == 1.0
        delta = math.exp(dp_feat.log_delta_of_band(m, band(m, m**-0.5)[0], m**-0.5))
        assert 3.9 < delta * math.sqrt(m) < 4.6
        assert delta > 1e5 * dp_feat.printed_delta_of_dp_feat(m, m**-0.5)


def test_the_printed_delta_is_right_in_the_upper_part_of_the_theorem_s_range():
    """From 8 sqrt(log(m) / m) on: 0.66 at m = 1000, and epsilon = 1 there."""
    assert math.exp(dp_feat.log_delta_of_band(1000, band(1000, 1.0)[0], 1.0)) == pytest.approx(2.3e-15, rel=0.05)
    assert dp_feat.printed_delta_of_dp_feat(1000, 1.0) == pytest.approx(3.2e-8, rel=0.02)
    for m in (10**3, 10**4, 10**6):
        least = 8 * math.sqrt(math.log(m) / m)
        assert m != 1000 or round(least, 2) == 0.66
        for epsilon in np.geomspace(least, 1.0, 12):
            exact = math.exp(dp_feat.log_delta_of_band(m, band(m, epsilon)[0], epsilon))
            assert exact <= 1.02 * dp_feat.printed_delta_of_dp_feat(m, epsilon)


def test_d_is_no_loss_for_the_marginal_and_a_loss_for_whole_rados():
    """All rados of 12 examples: the column alone has delta1's mass; beside a real column 0.632 whatever epsilon is."""
    options = Options("", ())
    (cell,) = (cell for cell in dp_feat.cells(options) if cell["part"] == "joint")
    joint = theory.work(cell, options)
    assert (
        joint["banded_column"]
        == pytest.approx(dp_feat.edge_mass_of_band(12, joint["low"]))
        == pytest.approx(0.316, abs=1e-3)
    )
    assert joint["banded_both"] == pytest.approx(0.632, abs=1e-3)


def test_a_real_valued_column_that_a_symmetric_band_does_not_protect_and_one_that_sum_zero_does():
    """F9: all values but one are 0. A band about the mean keeps 0 and the value, or neither; sum 0 alone hides it."""
    column, neighbour = np.zeros(6), np.zeros(6)
    column[0], neighbour[0] = 2.0, 3.0
    sums, others = (concentration.all_rados(values[:, None]).ravel() for values in (column, neighbour))
    for width in (0.5, 0.99, 1.0, 5.0):
        kept = sums[np.abs(sums - sums.mean()) <= width]
        assert set(kept) in (set(), {0.0, 2.0})
        assert not kept.size or np.isin(kept, others).mean() == 0.5
    assert (sums == 0).sum() == (others == 0).sum() == 2**5


def test_delta_is_the_sum_over_all_outcomes():
    for m, low, epsilon in product((7, 12), (0, 2, 3), (0.0, 0.2, 1.0)):
        masses = {k: Fraction(math.comb(m, k)) for k in range(low, m - low + 1)}
        total, growth = sum(masses.values()), Fraction(math.exp(epsilon))
        exact = sum(max(Fraction(0), mass - growth * masses.get(k - 1, 0)) for k, mass in masses.items()) / total
        assert math.exp(dp_feat.log_delta_of_band(m, low, epsilon)) == pytest.approx(float(exact), rel=1e-12)
        assert delta_at(TruncatedBinomialShift(m, low, m - low), epsilon) == pytest.approx(float(exact), rel=1e-9)


def test_the_expansion_in_the_proof():
    m, half = 50, 0.05
    f = (math.log(1 + math.exp(half)) - (1 + 1 / m) * half * math.exp(half) / (1 + math.exp(half))) / math.log(2)
    assert dp_feat.proof_factor_of_dp_feat(m, half) == pytest.approx(1 / (1 - 2 ** (m * (f - 1))), rel=1e-9)
    for m in (10, 10_000):
        assert dp_feat.proof_factor_of_dp_feat(m, 1e-9) * 1e-9 == pytest.approx(2, rel=1e-4)
        assert dp_feat.printed_factor_of_dp_feat(m, 1e-12) * 1e-12 == pytest.approx(1 / (2 * m**2 * math.log(2) ** 2))
        assert dp_feat.printed_factor_of_dp_feat(m, 1e12) == pytest.approx(0.5 - 1 / (4 * m**2 * math.log(2) ** 3))


# ---- thm_random_gau


def test_norms_follow_the_chi_distribution():
    assert gaussian_theorem.noise_norm_probability(2.0, 2) == pytest.approx(1 - math.exp(-2.0))
    assert gaussian_theorem.noise_norm_probability(1.0, 1) == pytest.approx(math.erf(1 / math.sqrt(2)))
    assert gaussian_theorem.noise_norm_limit(1000, 0.05) == pytest.approx(math.sqrt(2 * math.log(20_000)))
    assert gaussian_theorem.noise_norm_probability(gaussian_theorem.noise_norm_limit(1000, 0.05), 28) == pytest.approx(
        0.1286, abs=1e-4
    )
    falling = [gaussian_theorem.noise_norm_probability(4.45, d) for d in (1, 4, 16, 60)]
    assert falling == sorted(falling, reverse=True)


def test_the_norm_lemma_is_right_for_one_or_two_features():
    for n, tau in product((10, 1000, 10**6), (0.3, 0.05, 1e-6)):
        limit = gaussian_theorem.noise_norm_limit(n, tau)
        assert n * math.exp(-limit * limit / 2) == pytest.approx(tau)  # d = 2, exactly
        assert n * (1 - gaussian_theorem.noise_norm_probability(limit, 1)) < tau * (1 + 1e-6)
    assert 1 - gaussian_theorem.noise_norm_probability(
        gaussian_theorem.noise_norm_limit(1000, 0.05), 2
    ) == pytest.approx(0.05 / 1000)
    for tau, d in product((0.5, 0.05, 1e-6), (3, 4, 28)):  # and fails with more of them, for one rado
        assert 1 - gaussian_theorem.noise_norm_probability(gaussian_theorem.noise_norm_limit(1, tau), d) > 1.4 * tau


def test_the_bound_on_the_noise_follows_without_the_step_that_fails(rng):
    """log sum w e^a <= max a where the weights sum to at most 1: no support need come out of the logarithm."""
    for _ in range(50):
        weights, exponents = rng.dirichlet(np.ones(6)) * rng.uniform(0.5, 1), 20 * rng.standard_normal(6)
        assert math.log(weights @ np.exp(exponents)) <= exponents.max() + 1e-12
    weights, exponents = np.array([0.5, 0.5]), np.array([0.0, 10.0])
    assert math.log(weights @ np.exp(exponents)) > 10 * math.log(weights @ np.exp(exponents / 10))


@pytest.mark.parametrize("setting", [(1.0, 0.05, 500, 1000), (0.3, 0.02, 2000, 100), (10.0, 0.5, 100, 50)])
def test_the_cap_depends_on_nothing_but_the_multiple_of_kappa(setting):
    least = gaussian_theorem.least_kappa_of_theorem(*setting)
    for times in (1.0, 4.0, 9.0, 100.0):
        kappa = times * least
        if gaussian_theorem.kept_share_of_theorem(kappa, setting[0], setting[2], setting[3]) < 1:
            assert gaussian_theorem.printed_cap_on_edges(kappa, *setting) == pytest.approx(
                1 - 2 / math.sqrt(times), abs=1e-9
            )


def test_rados_that_average_to_zero_have_a_risk_of_log_two_or_more(rng):
    """Jensen's inequality; so the bound fails in every draw with a feature taken, whatever the cap."""
    rados = rng.standard_normal((7, 3))
    rados -= rados.mean(axis=0)
    assert min(logistic_rado_risk(rados, theta, 20) for theta in rng.standard_normal((50, 3))) >= math.log(2)
    options = Options("", ())
    for cell in [cell for cell in gaussian_theorem.cells(options) if cell["part"] == "mean-zero"][:2]:
        outcome = theory.work(cell, options)
        assert outcome["least_kappa"] < 1 and outcome["mu"] > 0.9 and outcome["rows"][0]["cap"] > 0.9
        *wide, tiny = outcome["rows"]
        assert all(row["beyond"] == row["taken"] > 190 for row in wide)
        assert all(0 < row["excess"] < 1e-6 for row in wide)  # by little
        assert tiny["kind"] == "tiny" and tiny["beyond"] == tiny["taken"] < 0.05 * outcome["draws"]  # the bound holds


# ---- lem_algebraic


def test_spheres_and_holes():
    assert sphere_packing.spheres_of_proof(100_000, 2) == 17**2 == 289
    assert sphere_packing.printed_sphere_bound(100_000, 2) == pytest.approx(
        math.log(2) / (2 * math.sqrt(2) * math.log(100_001))
    )
    for m, along in ((3, 2), (4, 3), (8, 3), (9, 4), (99_999, 317)):
        assert sphere_packing.proved_hole_radius(m, 2) == pytest.approx(1 / (math.sqrt(2) * along))
    assert sphere_packing.proved_hole_radius(26, 3) == pytest.approx(1 / (3 * math.sqrt(3)))


def test_the_spheres_suffice_for_few_examples_and_the_printed_bound_follows():
    """The nearest cases in which the paper is right: 25 spheres for 24 examples, and a hole no smaller than printed."""
    options = Options(".", (), seed=0, quick=True)
    for d, m, enough, follows in ((2, 24, True, True), (2, 100, False, True), (2, 10_000, False, False)):
        out = theory.work(Task.of("theory", part="spheres", d=d, m=m), options)
        assert (out["spheres"] > m, out["follows"]) == (enough, follows)
        assert (out["printed"] <= out["right"]) == follows
    assert (out["first_few"], out["first_beyond"]) == (25, 225)


def test_a_lattice_moved_into_the_ball_covers_it(rng):
    m = 300
    radius = sphere_packing.covering_radius_of_ball(m, 2)
    step = radius * math.sqrt(2)
    reach = int(2 / step) + 1
    lattice = step * np.array(list(product(range(-reach, reach + 1), repeat=2)), dtype=float)
    lattice = lattice[np.linalg.norm(lattice, axis=1) <= 1 + radius * (1 + 1e-9)]
    points = lattice / np.maximum(1.0, np.linalg.norm(lattice, axis=1))[:, None]
    assert 0.9 * m < len(points) <= m
    inside = rng.uniform(-1, 1, (4000, 2))
    inside = inside[np.linalg.norm(inside, axis=1) <= 1]
    distances = np.linalg.norm(inside[:, None] - points, axis=2).min(axis=1)
    assert sphere_packing.proved_hole_radius(m, 2) <= distances.max() <= radius * (1 + 1e-9)


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
    assert {cell["part"] for cell in outcomes} == {
        part for section in theory._theory_sections() for part in section.PARTS
    }
    assert len(found.figures) >= 7 and len(found.tables) >= 8
    assert len(found.checks) == len(FLIPS) + 1  # that of d = 1 and d = 2 is exact, and tested by itself
    assert Findings.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False))) == found


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
    assert [check.seen for check in found.checks if "conditions hold" in check.statement] == [None, None]
    assert sum("no domain was there" in note for note in found.notes) == 2


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


def _risk(value):
    return lambda outcome: outcome.update(example_risk=[value] * len(outcome["rounds"]))


def _points(**values):
    return lambda outcome: [point.update(values) for point in outcome["points"]]


def _deltas(exponent, laws):
    """Deltas that fall as this power of m, where epsilon follows these laws."""
    return lambda outcome: [row.update(exact=row["m"] ** exponent) for row in outcome["falling"] if row["law"] in laws]


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
    ("for every epsilon that is o(1)", "delta", *(_deltas(power, dp_feat._SMALL) for power in (-3.0, -0.5))),
    ("a part of its range", "delta", _deltas(-3.0, dp_feat._LARGE), _deltas(-0.5, dp_feat._LARGE)),
    ("1 / (2 m^2 log(2)^2 eps')", "delta", _set(factor=[1.0] * 25, printed_factor=[1.0] * 25),
     _set(factor=[1.0] * 25, printed_factor=[2.0] * 25)),
    ("(delta1)", "delta", _points(exact=0.1, edge=0.1), _points(exact=0.3, edge=0.1)),
    ("within the band the privacy loss", "band", _set(loss=0.4), _set(loss=1.1)),
    ("smaller under the band", "band", _set(log_ratio=-0.1), _set(log_ratio=0.0)),
    ("d = 1 is no loss", "joint", _set(banded_both=0.2, banded_column=0.2), _set(banded_both=0.6, banded_column=0.2)),
    ("signatures drawn stay within", "rejection", _set(beyond=0), _set(beyond=40)),
    ("is a whole number", "rejection-grid", _set(whole=0.9), _set(whole=1.1)),
    ("for every m and epsilon", "rejection-grid",
     lambda outcome: [row.update(failure=0.5) for row in outcome["by_m"]],
     lambda outcome: [row.update(failure=1.5, least_epsilon=1.0) for row in outcome["by_m"]]),
    ("rounded down", "rejection-grid", lambda outcome: [row.update(down=0.5) for row in outcome["by_m"]],
     lambda outcome: [row.update(down=1.5) for row in outcome["by_m"]]),
    ("our sampler has the law", "rejection", _set(ours_outside=0, ours_off=0.01), _set(ours_outside=1, ours_off=0.01)),
    ("f(beta)", "f-beta", _set(claims=[{"m": 9, "n": 9, "eta": 0.1, "draws": 9}]),
     _set(claims=[{"m": 9, "n": 9, "eta": 0.1, "draws": 99}])),
    ("lemma partial3: whatever d is", "norm", _set(exact=0.99, within=40), _set(exact=0.99, within=20)),
    ("has the chi distribution", "norm", _set(exact=0.5, within_alone=500), _set(exact=0.5, within_alone=700)),
    ("with sqrt(d) added", "norm", _set(right_failure=0.01), _set(right_failure=0.1)),
    ("there is a prudential", "cap", _set(caps=[[0.1, 0.2, 0.5]]), _set(caps=[[-1.0, 0.0, 0.5]])),
    ("log sum w e^a", "cap", _set(left=1.0, right=2.0), _set(left=2.0, right=1.0)),
    ("its bound does too", "conclusion", _set(held=60, beyond=1), _set(held=60, beyond=40)),
    ("lemma partial1", "conclusion", _set(held=60, too_long=1), _set(held=60, too_long=40)),
    ("lets features be taken", "mean-zero", _rows(taken=60, beyond=1), _rows(taken=60, beyond=40)),
    ("hardly ever lets", "mean-zero", _rows(taken=2, beyond=1), _rows(taken=60, beyond=40)),
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
            invented[Task.of("theory", part=part, domain="haberman", noise_std=1.0)] = copy.deepcopy(
                next(outcome for cell, outcome in outcomes.items() if cell["part"] == part)
            )
        for cell, outcome in invented.items():
            if cell["part"] == part:
                change(outcome)
        checks = [check for check in theory.findings(invented, options).checks if words in check.statement]
        assert [check.seen for check in checks] == [seen]
