"""Events, accountants and calibration: one contract for all events, exact oracles, and the published figures."""

import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from radoboost.errors import ArgumentError
from radoboost.privacy import accountants
from radoboost.privacy.accountants import accountant_name, best_guess, delta_at, epsilon_at, trade_off
from radoboost.privacy.calibration import band, gaussian_multiplier, least_band_epsilon, subsampled_multiplier
from radoboost.privacy.events import (
    EVENTS,
    Composed,
    Gaussian,
    NotPrivate,
    Relation,
    Repeated,
    SubsampledGaussian,
    TruncatedBinomialShift,
    convert_relation,
    flatten,
    from_dict,
    to_dict,
)

RECORD, REPLACE, EDGE, LABEL, VALUE, PERSON, PERSON_ROWS, PERSON_LABELS = Relation


def column(m, epsilon):
    return TruncatedBinomialShift(m, *band(m, epsilon))


# Every kind of event, as a family from little noise to much.
FAMILIES = {
    "Gaussian": [Gaussian(noise, LABEL) for noise in (1.0, 2.0, 8.0)],
    "SubsampledGaussian": [SubsampledGaussian(noise, 0.3) for noise in (1.0, 2.0, 8.0)],
    "TruncatedBinomialShift": [TruncatedBinomialShift(m, m // 4, m - m // 4) for m in (60, 200, 600)],
    "Repeated": [Repeated(SubsampledGaussian(noise, 0.5, relation=EDGE), 3) for noise in (1.0, 2.0, 8.0)],
    "Composed": [
        Composed((Gaussian(2 * noise, RECORD), Repeated(SubsampledGaussian(noise, 0.5), 4)))
        for noise in (1.0, 2.0, 8.0)
    ],
}
DELTAS, EPSILONS = (1e-8, 1e-5, 1e-3, 0.1), (0.0, 0.05, 0.3, 1.0, 3.0, 30.0)


def test_every_event_is_in_the_contract():
    assert {*FAMILIES, "NotPrivate"} == set(EVENTS)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_contract_of_events(name):
    deltas = np.array([[delta_at(event, epsilon) for epsilon in EPSILONS] for event in FAMILIES[name]])
    epsilons = np.array([[epsilon_at(event, delta) for delta in DELTAS] for event in FAMILIES[name]])
    assert ((deltas >= 0) & (deltas <= 1)).all() and (epsilons >= 0).all()
    assert (np.diff(deltas, axis=1) <= 0).all(), "delta falls with epsilon"
    assert (epsilons[:, 1:] <= epsilons[:, :-1]).all(), "epsilon falls with delta"
    assert (np.diff(deltas, axis=0) <= 1e-12).all() and (epsilons[1:] <= epsilons[:-1]).all(), "and with noise"
    for event, costs in zip(FAMILIES[name], epsilons, strict=True):
        for delta, epsilon in zip(DELTAS, costs, strict=True):
            assert epsilon == math.inf or delta_at(event, epsilon) <= delta, "the inverse stays on the safe side"
            if 0 < epsilon < math.inf:
                assert delta_at(event, epsilon * (1 - 1e-6)) > delta, "and close to the line"
        assert epsilon_at(Repeated(event, 5), 1e-3) > epsilon_at(Repeated(event, 2), 1e-3) > epsilon_at(event, 1e-3)
        assert accountant_name(event) in ("closed form", "dp-accounting 0.6.0 privacy-loss distributions")
        assert 0.5 <= best_guess(event) <= 1
        misses = trade_off(event, [0.0, 0.01, 0.3, 1.0])
        assert ((misses >= 0) & (misses <= 1 - np.array([0.0, 0.01, 0.3, 1.0]) + 1e-15)).all()


@pytest.mark.parametrize("event", [family[1] for family in FAMILIES.values()])
def test_composing_k_times_is_count_k(event):
    many = [Composed((event,) * 6), Composed((Repeated(event, 2), Composed((Repeated(event, 4),)))), Repeated(event, 6)]
    costs = [epsilon_at(one, 1e-4) for one in many]
    assert costs[0] == costs[1] == costs[2]
    assert flatten(many[0]) == flatten(many[1]) == flatten(many[2])


def test_composing_in_parts_agrees_with_count():
    """Through a different grid and another convolution, so not by the normal form alone."""
    almost = SubsampledGaussian(8.0, math.nextafter(0.5, 1))
    whole = epsilon_at(Repeated(SubsampledGaussian(8.0, 0.5), 40), 1e-5)
    parts = epsilon_at(Composed((Repeated(SubsampledGaussian(8.0, 0.5), 15), Repeated(almost, 25))), 1e-5)
    assert parts == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize(
    "event",
    [event for family in FAMILIES.values() for event in family] + [NotPrivate("no noise", EDGE), Composed(())],
)
def test_events_survive_a_file(event):
    assert from_dict(json.loads(json.dumps(to_dict(event)))) == event


@pytest.mark.parametrize(
    "event",
    [Gaussian(2.0, LABEL, 1e-9), SubsampledGaussian(2.0, 0.4, 1e-9), TruncatedBinomialShift(100, 20, 80, 1e-9)],
)
def test_total_variation_raises_delta_as_stated(event):
    described = type(event)(**{**to_dict_fields(event), "total_variation": 0.0})
    for count in (1, 7):
        for epsilon in (0.0, 0.5, 1.0):
            stated = delta_at(Repeated(described, count), epsilon) + (1 + math.exp(epsilon)) * count * 1e-9
            assert stated <= delta_at(Repeated(event, count), epsilon) <= stated * (1 + 1e-9)
    assert delta_at(event, 500.0) < 1e-4, "at a larger epsilon the promise at a smaller one still holds"
    assert epsilon_at(event, 1e-10) == math.inf
    assert epsilon_at(event, 1e-3) >= epsilon_at(described, 1e-3)


def to_dict_fields(event):
    return {name: value for name, value in to_dict(event).items() if name != "name"}


def test_nothing_done_costs_nothing_and_not_private_costs_everything():
    nothing = Composed((Composed(()),))
    assert nothing.relation is None and flatten(nothing) == {}
    assert epsilon_at(nothing, 1e-9) == 0 and delta_at(nothing, 0.0) == 0 and best_guess(nothing) == 0.5
    assert trade_off(nothing, [0.25])[0] == pytest.approx(0.75)
    bare = Composed((Gaussian(4.0, RECORD), NotPrivate("no noise", RECORD)))
    assert epsilon_at(bare, 0.5) == math.inf and delta_at(bare, 50.0) == 1 and best_guess(bare) == 1
    assert accountant_name(bare) == "none"


# ---- figures


@pytest.mark.parametrize(
    ("m", "epsilon", "in_band", "plain"),
    [
        (1000, 0.1, "0.0331430", "1.6e-03"),
        (1000, 0.5, "1.46232e-05", "3.5e-17"),
        (10_000, 0.1, "3.73220e-04", "1.1e-09"),
        (100, 1.0, "7.26310e-03", "8.0e-08"),
        (1000, 0.01, "1.0000000", None),
    ],
)
def test_delta_of_one_rado(m, epsilon, in_band, plain):
    form = ".5e" if "e" in in_band else ".7f"
    assert format(delta_at(column(m, epsilon), epsilon), form) == in_band
    if plain:
        assert format(delta_at(TruncatedBinomialShift(m, 0, m), epsilon), ".1e") == plain


@pytest.mark.parametrize(
    ("m", "width", "n", "rounded_up", "truth"),
    [(1000, 1.0, 100, 2.5991, 2.5945), (1000, 1.0, 500, 6.5971, 6.5730), (10_000, 0.5, 1000, 2.6414, 2.5944)],
)
def test_epsilon_of_many_rados(m, width, n, rounded_up, truth):
    """Rounding each loss up to the next 1e-4 gives the larger figures; on a grid from above, the mean loss stays."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    low, high = band(m, width)
    logs = -np.array([math.lgamma(k + 1) + math.lgamma(m - k + 1) for k in range(low, high + 1)])
    logs = (logs - np.logaddexp.reduce(logs)).tolist()
    pair = dict(enumerate(logs, 1)), dict(enumerate(logs))
    most, least = (
        pld.from_two_probability_mass_functions(*pair, up, 1e-4, symmetric=False)
        .self_compose(n)
        .get_epsilon_for_delta(1e-5)
        for up in (True, False)
    )
    ours = epsilon_at(Repeated(column(m, width), n), 1e-5)
    assert round(most, 4) == rounded_up
    assert least < ours < most
    assert truth - 1e-4 <= ours <= truth + 2e-4


def test_the_floor_of_the_band_makes_epsilon_infinite():
    assert epsilon_at(column(1000, 0.5), 1e-5) == math.inf
    assert epsilon_at(Repeated(column(1000, 0.5), 10), 1e-5) == math.inf
    edge = float(oracles.column_pair(1000, *band(1000, 1.0))[0][band(1000, 1.0)[1]])
    floor = -math.expm1(100 * math.log1p(-edge))
    assert delta_at(Repeated(column(1000, 1.0), 100), 1e4) == pytest.approx(floor, abs=1e-11)
    assert delta_at(Repeated(column(1000, 1.0), 100), 1e4) >= floor


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.02754), (0.3, 0.07697), (1, 0.2367), (3, 0.6477), (10, 1.8481)])
def test_distance_of_gaussians_at_delta_1e_6(epsilon, mu):
    assert round(1 / gaussian_multiplier(epsilon, 1e-6), len(str(mu)) - 2) == mu


def test_noisy_rados_agree_with_two_other_accountants():
    from dp_accounting.pld import privacy_loss_distribution as pld
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    ours = epsilon_at(Repeated(SubsampledGaussian(18.75, 0.5), 100), 1e-5)
    assert ours == pytest.approx(0.9998, abs=5e-4)
    one = PoissonSubsampledGaussianMechanism(noise_multiplier=18.75, sampling_probability=0.5)
    other = PRVAccountant(prvs=[one], max_self_compositions=[100], eps_error=0.02, delta_error=1e-9)
    least, guess, most = other.compute_epsilon(delta=1e-5, num_self_compositions=[100])
    assert least < ours < most and ours == pytest.approx(guess, abs=5e-4)
    for noise, q, n in ((18.75, 0.5, 100), (1.5, 0.05, 50), (2.0, 0.9, 10)):
        for delta in (1e-3, 1e-5):
            sides = [
                pld.from_gaussian_mechanism(noise, 1, up, 5e-4, sampling_prob=q, use_connect_dots=up)
                for up in (False, True)
            ]
            below, above = (side.self_compose(n).get_epsilon_for_delta(delta) for side in sides)
            cost = epsilon_at(Repeated(SubsampledGaussian(noise, q), n), delta)
            assert below < cost == pytest.approx(above, rel=1e-3)


def test_the_librarys_default_looks_one_way_only():
    """Should this fail, the library has changed: read its notes before trusting any figure."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    x = np.linspace(-45, 45, 1801)
    normal = np.exp(-((x / 5) ** 2) / 2)
    mixture = (normal + np.exp(-(((x - 1) / 5) ** 2) / 2)) / 2
    lower, upper = (dict(enumerate(np.log(side / side.sum()))) for side in (mixture, normal))
    one_way = pld.from_two_probability_mass_functions(lower, upper).self_compose(100)
    both = pld.from_two_probability_mass_functions(lower, upper, symmetric=False).self_compose(100)
    assert [round(loss.get_epsilon_for_delta(1e-5), 2) for loss in (one_way, both)] == [4.27, 4.49]


# ---- never below the truth


@pytest.mark.parametrize(("m", "low", "high"), [(6, 0, 6), (6, 1, 5), (7, 2, 5), (12, 3, 9), (6, 3, 3)])
def test_columns_against_enumeration(m, low, high):
    for count in (1, 2, 4):
        event = Repeated(TruncatedBinomialShift(m, low, high), count)
        for epsilon in (0.0, 0.2, 0.7, 1.5, 4.0):
            truth = oracles.column_delta(m, low, high, count, epsilon)
            assert truth <= delta_at(event, epsilon) <= truth * (1 + 1e-3) + 1e-9, (count, epsilon)


@pytest.mark.parametrize(("noise", "q"), [(0.7, 0.2), (2.0, 0.5), (5.0, 0.97), (1.0, 0.01), (40.0, 0.5)])
def test_subsampled_gaussians_against_quadrature(noise, q):
    for count in (1, 2):
        for epsilon in (0.0, 0.02, 0.3, 1.0):
            truth = max(oracles.sampled_delta(noise, q, epsilon, adding, count) for adding in (False, True))
            ours = delta_at(Repeated(SubsampledGaussian(noise, q), count), epsilon)
            assert truth * (1 - 1e-12) - 1e-15 <= ours <= truth * (1 + 1e-3) + 1e-9, (count, epsilon)


def gdp(mu, epsilon):
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


@given(exponent=st.floats(-9, 9), z=st.floats(-8, 37))
def test_the_closed_form_against_sixty_digits(exponent, z):
    """At epsilon = mu^2/2 + z mu, where delta is anything from 1 to nothing."""
    noise = 10**exponent
    epsilon = max(0.0, 0.5 / noise**2 + z / noise)
    truth = gdp(1 / mpmath.mpf(noise), epsilon)
    ours = delta_at(Gaussian(noise, RECORD), epsilon)
    assert truth <= ours
    if noise > 1e-3:  # below, epsilon itself is known to fewer digits than this asks for
        assert ours <= truth * (1 + 1e-8) + 1e-299


def test_gaussians_compose_by_squares():
    parts = [Gaussian(3.0, RECORD), Repeated(Gaussian(8.0, RECORD), 4), SubsampledGaussian(5.0, 1.0)]
    truth = gdp(mpmath.sqrt(mpmath.mpf(1) / 9 + mpmath.mpf(4) / 64 + mpmath.mpf(1) / 25), 0.8)
    ours = delta_at(Composed(tuple(parts)), 0.8)
    assert truth <= ours == pytest.approx(float(truth), rel=1e-8)
    through_losses = delta_at(Composed((*parts, SubsampledGaussian(1e4, 1e-3))), 0.8)
    assert truth <= through_losses == pytest.approx(float(truth), rel=1e-3)


def test_a_convolution_is_never_below_the_closed_form():
    """A sample of all but nobody: the truth is known, and the way through losses must not fall under it."""
    for noise, n in ((4.0, 10), (100.0, 10_000)):
        for delta in (1e-3, 1e-6, 1e-8):
            truth = epsilon_at(Repeated(Gaussian(noise, RECORD), n), delta)
            ours = epsilon_at(Repeated(SubsampledGaussian(noise, 1 - 2**-50), n), delta)
            assert truth * (1 - 1e-9) <= ours <= truth * (1 + 2e-3)


def test_rounding_of_the_convolution_is_covered():
    """The planted fault: without what _fourier_loss adds, nothing else would stand for it."""
    rng = np.random.default_rng(1)
    one = rng.random(300)
    one /= one.sum()
    exact = [mpmath.mpf(1)]
    with mpmath.workdps(40):
        values = [mpmath.mpf(float(x)) for x in one[:40]]
        for _ in range(6):
            exact = [
                mpmath.fsum(exact[j] * values[i - j] for j in range(len(exact)) if 0 <= i - j < 40)
                for i in range(len(exact) + 39)
            ]
    from dp_accounting.pld import common

    _, listed = common.self_convolve(one[:40], 6, 0)
    error = sum(abs(float(a - b)) for a, b in zip(exact, listed, strict=True))
    assert 0 < error <= accountants._fourier_loss(np.asarray(listed), 40, 6)


@pytest.mark.parametrize("noise", [0.05, 1e3, 1e9, 1e15, 1e300])
def test_extreme_noise_is_accounted_without_overflow(noise):
    """From the least noise that is vouched for to more than a float can tell from perfect."""
    for q in (1e-9, 0.5, 1 - 2**-53):
        event = Repeated(SubsampledGaussian(noise, q), 3)
        assert q * math.erf(1 / noise / math.sqrt(8)) <= delta_at(event, 0.0) <= 1
        assert 0 <= delta_at(event, 700.0) <= delta_at(event, 1e-3) <= 1


def test_trade_off_of_a_gaussian():
    from scipy.stats import norm

    alphas = np.linspace(0, 1, 201)
    for mu in (0.2, 1.0, 3.0):
        truth = norm.cdf(norm.isf(alphas) - mu)
        ours = trade_off(Gaussian(1 / mu, EDGE), alphas)
        assert (ours <= truth).all() and (ours >= truth - 1e-3).all()
    with pytest.raises(ArgumentError, match="rates"):
        trade_off(Gaussian(1.0, EDGE), [1.5])


def test_best_guess_is_the_total_variation_of_the_pair():
    assert best_guess(Gaussian(0.5, RECORD)) == pytest.approx(float(mpmath.ncdf(1)), rel=1e-9)


# ---- relations


def test_conversion_by_group_size():
    one, sampled = Gaussian(4.0, RECORD, 1e-12), SubsampledGaussian(4.0, 0.5)
    assert convert_relation(one, EDGE) == Gaussian(2.0, EDGE, 1e-12)
    assert (
        convert_relation(one, LABEL)
        == convert_relation(convert_relation(one, EDGE), LABEL)
        == Gaussian(2.0, LABEL, 1e-12, label="any")
    )
    both = convert_relation(Composed((one, Repeated(sampled, 3))), LABEL)
    assert both.relation == LABEL and convert_relation(both, LABEL) == both
    for epsilon in (0.5, 2.0):
        half = delta_at(Repeated(sampled, 3), epsilon / 2)
        twice = delta_at(Repeated(convert_relation(sampled, EDGE), 3), epsilon)
        assert twice == pytest.approx((1 + math.exp(epsilon / 2)) * half, rel=1e-9)
    whole = SubsampledGaussian(4.0, 1.0)
    assert delta_at(convert_relation(whole, EDGE), 1.0) == delta_at(Gaussian(2.0, EDGE), 1.0)
    assert convert_relation(NotPrivate("no noise", RECORD), EDGE) == NotPrivate("no noise", EDGE)
    assert convert_relation(Composed(()), EDGE) == Composed(())


def test_a_converted_sample_is_never_below_the_pair_it_covers():
    """The known worst case of a replacement, v against -v, is one that the rule for groups must cover."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.privacy_accountant import NeighboringRelation

    relation = NeighboringRelation.REPLACE_ONE
    pair = pld.from_gaussian_mechanism(6.0, sampling_prob=0.5, neighboring_relation=relation).self_compose(20)
    for delta in (1e-3, 1e-6):
        ours = epsilon_at(Repeated(convert_relation(SubsampledGaussian(6.0, 0.5), EDGE), 20), delta)
        assert pair.get_epsilon_for_delta(delta) < ours < math.inf


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (Gaussian(4.0, LABEL), RECORD),
        (Gaussian(4.0, EDGE), RECORD),
        (Gaussian(4.0, LABEL), EDGE),
        (Gaussian(4.0, RECORD), VALUE),
        (TruncatedBinomialShift(10, 2, 8), RECORD),
        (TruncatedBinomialShift(10, 2, 8), LABEL),
    ],
)
def test_conversions_that_do_not_follow_are_refused(event, relation):
    with pytest.raises(ArgumentError, match="does not give protection"):
        convert_relation(Repeated(event, 2), relation)


def test_relations_do_not_mix():
    with pytest.raises(ArgumentError, match="one relation only"):
        Composed((Gaussian(4.0, RECORD), Gaussian(4.0, LABEL)))
    with pytest.raises(ArgumentError, match="one relation only"):
        Composed((Repeated(Gaussian(4.0, RECORD), 2), Composed((Gaussian(4.0, LABEL),))))
    mixture = Composed((Gaussian(4.0, RECORD), Repeated(TruncatedBinomialShift(10, 2, 8), 2)))
    (reason,) = flatten(Repeated(mixture, 3))
    assert isinstance(reason, NotPrivate) and "marginal" in reason.reason and reason.relation == RECORD
    assert epsilon_at(mixture, 0.5) == math.inf and delta_at(mixture, 100.0) == 1


# ---- refusals


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(0.0, RECORD),
        lambda: Gaussian(math.nan, RECORD),
        lambda: Gaussian(True, RECORD),
        lambda: Gaussian(10**400, RECORD),
        lambda: Gaussian(1.0, VALUE),
        lambda: Gaussian(1.0, RECORD, -1e-9),
        lambda: SubsampledGaussian(1.0, 1.5),
        lambda: TruncatedBinomialShift(10, 2, 7),
        lambda: TruncatedBinomialShift(2**31, 0, 2**31),
        lambda: Repeated(Gaussian(1.0, RECORD), 0),
        lambda: Composed((1,)),
        lambda: from_dict({"name": "Laplace"}),
        lambda: from_dict({**to_dict(Gaussian(1.0, RECORD)), "extra": 1}),
        lambda: from_dict(nested(5000)),
        lambda: epsilon_at(Gaussian(1.0, RECORD), math.nan),
        lambda: delta_at(Gaussian(1.0, RECORD), -1.0),
        lambda: delta_at(Repeated(SubsampledGaussian(1.0, 0.5), 10**9), 1.0),
        lambda: gaussian_multiplier(1.0, 1.0),
        lambda: gaussian_multiplier(1.0, 1e-6, RECORD, 1e-6),
        lambda: subsampled_multiplier(1.0, 1e-6, 0.5, 0),
        lambda: band(1001, 1e-9),
        lambda: least_band_epsilon(10, 0, 0.1),
    ],
)
def test_wrong_events_and_numbers_are_refused(make):
    with pytest.raises(ArgumentError):
        make()


def nested(depth):
    data = to_dict(Gaussian(1.0, RECORD))
    for _ in range(depth):
        data = {"name": "Repeated", "event": data, "count": 1}
    return data


# ---- calibration


@given(epsilon=st.floats(0.01, 20), exponent=st.floats(-12, -2), variation=st.sampled_from([0.0, 1e-16]))
def test_calibrated_gaussians_keep_the_promise_and_no_more(epsilon, exponent, variation):
    delta = 10**exponent
    noise = gaussian_multiplier(epsilon, delta, EDGE, variation)
    assert epsilon_at(Gaussian(noise, EDGE, variation), delta) <= epsilon
    assert epsilon_at(Gaussian(noise * (1 - 2e-6), EDGE, variation), delta) > epsilon * (1 - 1e-4)
    assert delta_at(Gaussian(noise * (1 - 2e-6), EDGE, variation), epsilon) > delta


@settings(max_examples=settings().max_examples // 4)
@given(
    epsilon=st.floats(0.3, 6),
    exponent=st.floats(-7, -3),
    probability=st.sampled_from([0.1, 0.5, 0.9]),
    count=st.sampled_from([1, 10, 100]),
)
def test_calibrated_samples_keep_the_promise_and_no_more(epsilon, exponent, probability, count):
    delta = 10**exponent
    noise = subsampled_multiplier(epsilon, delta, probability, count)
    cost = epsilon_at(Repeated(SubsampledGaussian(noise, probability), count), delta)
    assert epsilon * (1 - 1e-4) <= cost <= epsilon
    assert delta_at(Repeated(SubsampledGaussian(noise * (1 - 2e-6), probability), count), epsilon) > delta


def test_hardly_any_noise_is_not_promised_below_what_is_vouched_for():
    assert subsampled_multiplier(1.0, 1e-2, 1e-6, 1) == accountants.LEAST_MULTIPLIER
    assert epsilon_at(SubsampledGaussian(0.04, 0.5), 0.4) == math.inf


@given(m=st.integers(2, 800), count=st.sampled_from([1, 10, 1000]), exponent=st.floats(-9, -1))
def test_the_least_band_has_a_finite_epsilon(m, count, exponent):
    delta, epsilon = 10**exponent, least_band_epsilon(m, count, 10**exponent)

    def floor(low):
        edge = float(oracles.column_pair(m, low, m - low)[0][low])
        return 1.0 if edge == 1 else -math.expm1(count * math.log1p(-edge))

    if epsilon is None:
        assert m < 2 or floor(1) > delta * (1 - 1e-9)
        return
    low, high = band(m, epsilon)
    assert high == m - low and floor(low) <= delta
    if low < m // 2:
        assert floor(low + 1) > delta * (1 - 1e-9), "one narrower would not do"
        assert band(m, epsilon * (1 - 1e-9))[0] > low
