"""What several records of one person pay together: against exact sums, quadrature, and another accountant."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from radoboost.errors import ArgumentError
from radoboost.privacy import (
    Composed,
    Gaussian,
    NotPrivate,
    Relation,
    Repeated,
    SubsampledGaussian,
    TruncatedBinomialShift,
    convert_relation,
    delta_at,
    dp_accounting_text,
    epsilon_at,
    event_from_dict,
    event_to_dict,
    gaussian_multiplier,
    group_epsilon,
    group_event,
    group_words,
    subsampled_multiplier,
)

RECORD, EDGE, LABEL, VALUE, *_ = Relation


def test_the_figures_of_one_sum_are_those_of_k_distances():
    noise = gaussian_multiplier(1.0, 1e-6)
    figures = [round(group_epsilon(Gaussian(noise, RECORD), 1e-6, k), 2) for k in (1, 2, 5, 10)]
    assert figures == [1.0, 2.12, 5.93, 13.51]
    for k in (2, 7):
        whole = Composed((Gaussian(4.0, RECORD), Repeated(Gaussian(9.0, RECORD), 8)))
        parts = Composed((Gaussian(4.0 / k, RECORD), Repeated(Gaussian(9.0 / k, RECORD), 8)))
        assert group_epsilon(whole, 1e-5, k) == pytest.approx(epsilon_at(parts, 1e-5), rel=1e-9)


def test_rows_with_noise_of_their_own_pay_the_root():
    noise = gaussian_multiplier(1.0, 1e-6, EDGE)
    apart = group_epsilon(Gaussian(noise, EDGE, own_noise=True), 1e-6, 4)
    assert apart == pytest.approx(epsilon_at(Gaussian(noise / 2, EDGE), 1e-6), rel=1e-9)
    assert group_epsilon(convert_relation(Gaussian(noise, EDGE, own_noise=True), LABEL), 1e-6, 4) == apart
    assert group_epsilon(Gaussian(noise, EDGE), 1e-6, 4) > 1.5 * apart, "unless they say so, rows share their noise"


@pytest.mark.parametrize(("n", "noise", "q", "k"), [(100, 18.75, 0.5, 2), (20, 18.75, 0.5, 6), (3, 4.0, 0.1, 3)])
def test_groups_in_a_sample_agree_with_another_accountant(n, noise, q, k):
    from dp_accounting.pld import privacy_loss_distribution as pld
    from scipy.stats import binom

    weights = binom.pmf(range(k + 1), k, q)
    sides = [
        pld.from_mixture_gaussian_mechanism(noise, list(range(k + 1)), weights, up, 5e-3, use_connect_dots=up)
        for up in (False, True)
    ]
    below, above = (side.self_compose(n).get_epsilon_for_delta(1e-5) for side in sides)
    ours = group_epsilon(Repeated(SubsampledGaussian(noise, q), n), 1e-5, k)
    assert below < ours == pytest.approx(above, rel=1e-3)


@given(
    first=st.floats(0, 1), second=st.floats(0, 1), angle=st.floats(0, math.pi), q=st.sampled_from([0.2, 0.5, 0.9]),
    noise=st.sampled_from([0.7, 1.5, 4.0]),
)  # fmt: skip
def test_no_two_vectors_are_easier_to_tell_than_two_that_agree(first, second, angle, q, noise):
    """Kahane's inequality at work: a quadrature over the plane, for two records in any two directions."""
    width = 0.05 * noise
    x = np.arange(-12 * noise, 12 * noise + 2, width)
    a, b = np.meshgrid(x, x)
    vectors = ((first, 0.0), (second * math.cos(angle), second * math.sin(angle)))

    def normal(u, v):
        return np.exp(-((a - u) ** 2 + (b - v) ** 2) / (2 * noise**2)) / (2 * math.pi * noise**2) * width**2

    mixture = sum(
        q ** (i + j) * (1 - q) ** (2 - i - j)
        * normal(i * vectors[0][0] + j * vectors[1][0], i * vectors[0][1] + j * vectors[1][1])
        for i in (0, 1) for j in (0, 1)
    )  # fmt: skip
    plain = normal(0.0, 0.0)
    for epsilon in (0.0, 0.3, 1.0):
        claimed = delta_at(SubsampledGaussian(noise, q, group=2), epsilon)
        for p, other in ((mixture, plain), (plain, mixture)):
            assert np.maximum(p - math.exp(epsilon) * other, 0.0).sum() <= claimed * (1 + 1e-4) + 1e-9


def test_a_group_that_is_always_in_is_one_sum():
    for k in (2, 5):
        truth = epsilon_at(Repeated(Gaussian(20.0 / k, RECORD), 10), 1e-6)
        nearly = epsilon_at(Repeated(SubsampledGaussian(20.0, 1 - 2**-50, group=k), 10), 1e-6)
        assert truth * (1 - 1e-9) <= nearly <= truth * (1 + 2e-3)
        always = epsilon_at(Repeated(SubsampledGaussian(20.0, 1.0, group=k), 10), 1e-6)
        assert always == pytest.approx(truth, rel=1e-9)
        replaced = epsilon_at(SubsampledGaussian(20.0, 1.0, relation=EDGE, group=k), 1e-6)
        assert replaced == pytest.approx(epsilon_at(Gaussian(10.0 / k, EDGE), 1e-6), rel=1e-9)


@pytest.mark.parametrize("noise", [0.05, 1.0, 1e3, 1e9, 1e15, 1e300])
def test_extreme_groups_are_accounted_without_overflow(noise):
    """From the least noise that is vouched for to more than a float can tell from perfect; never below one alone."""
    for q in (1e-9, 0.5, 1 - 2**-53):
        one, seven = (Repeated(SubsampledGaussian(7 * noise, q, group=k), 3) for k in (1, 7))
        for epsilon in (0.0, 1e-3, 1.0, 700.0):
            assert delta_at(one, epsilon) * (1 - 1e-6) - 1e-11 <= delta_at(seven, epsilon) <= 1
    deep = SubsampledGaussian(900.0, 0.3, group=1000)
    assert 0 < delta_at(deep, 0.5) < delta_at(deep, 0.1) < 1


def test_a_group_costs_no_more_than_its_steps():
    """Two records removed one after the other is a way to remove both: the mixture must not say more than that."""
    one = Repeated(SubsampledGaussian(18.75, 0.5), 100)
    for epsilon in (1.0, 3.0):
        steps = (1 + math.exp(epsilon / 2)) * delta_at(one, epsilon / 2)
        assert delta_at(one, epsilon) < delta_at(group_event(one, 2), epsilon) < steps


@pytest.mark.parametrize(("m", "low", "high"), [(6, 0, 6), (7, 2, 5), (12, 3, 9)])
def test_shifted_columns_against_enumeration(m, low, high):
    for shift in (1, 2, 3, 5):
        here, _ = oracles.column_pair(m, low, high)
        for epsilon in (0.0, 0.4, 1.5, 4.0):
            worst = 0.0
            for move in range(-shift, shift + 1):
                there = {k + move: mass for k, mass in here.items()}
                gap = (mass - math.exp(epsilon) * there.get(k, 0) for k, mass in here.items())
                worst = max(worst, float(sum(value for value in gap if value > 0)))
            ours = delta_at(TruncatedBinomialShift(m, low, high, shift=shift), epsilon)
            assert worst * (1 - 1e-12) <= ours <= worst * (1 + 1e-9) + 1e-12, (shift, epsilon)
    thrice = Repeated(TruncatedBinomialShift(600, 150, 450), 3)
    assert group_event(thrice, 2) == Repeated(TruncatedBinomialShift(600, 150, 450, shift=2), 3)
    assert epsilon_at(thrice, 1e-5) < group_epsilon(thrice, 1e-5, 2) < group_epsilon(thrice, 1e-5, 4)


@pytest.mark.parametrize("group", [2, 10])
def test_noise_for_a_group_keeps_the_promise_and_no_more(group):
    noise = subsampled_multiplier(1.0, 1e-6, 0.5, 100, group=group)
    event = Repeated(SubsampledGaussian(noise, 0.5, group=group), 100)
    assert 1.0 * (1 - 1e-4) <= epsilon_at(event, 1e-6) <= 1.0
    assert delta_at(Repeated(SubsampledGaussian(noise * (1 - 2e-6), 0.5, group=group), 100), 1.0) > 1e-6
    assert epsilon_at(SubsampledGaussian(0.04 * group, 0.5, group=group), 0.4) == math.inf


def test_groups_survive_a_file_and_files_without_them_are_read():
    plain = event_to_dict(SubsampledGaussian(18.75, 0.5))
    assert "group" not in plain and event_from_dict(plain).group == 1
    for event in (
        SubsampledGaussian(18.75, 0.5, group=3),
        Gaussian(4.0, EDGE, own_noise=True),
        TruncatedBinomialShift(10, 2, 8, shift=2),
    ):
        assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event
    assert group_event(group_event(SubsampledGaussian(9.0, 0.5), 2), 3) == SubsampledGaussian(9.0, 0.5, group=6)
    assert group_event(NotPrivate("no noise", RECORD), 5) == NotPrivate("no noise", RECORD)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SubsampledGaussian(1.0, 0.5, group=0),
        lambda: SubsampledGaussian(1.0, 0.5, group=2.0),
        lambda: group_event(SubsampledGaussian(1.0, 0.5), 1001),
        lambda: TruncatedBinomialShift(10, 2, 8, shift=0),
        lambda: Gaussian(1.0, EDGE, own_noise=1),
        lambda: group_epsilon(Gaussian(1.0, EDGE), 1e-6, 0),
        lambda: group_epsilon(Gaussian(1.0, EDGE), 1e-6, True),
    ],
)
def test_wrong_groups_are_refused(make):
    with pytest.raises(ArgumentError):
        make()


def test_an_exported_group_names_its_neighbours():
    one = Gaussian(4.0, Relation.RECORD)
    for event, words in (
        (group_event(one, 5), "5 records, all added or all removed"),
        (group_event(Repeated(one, 3), 2), "2 records, all added or all removed"),
        (Composed((group_event(one, 5), one)), "one record added or removed"),  # all of it is about one alone
        (group_event(SubsampledGaussian(4.0, 1.0), 3), "3 records, all added or all removed"),
        (group_event(Gaussian(4.0, Relation.PERSON, person="who"), 2), "2 persons, all added or all removed"),
        (group_event(Gaussian(4.0, Relation.LABEL), 4), "4 labels flipped"),
    ):
        assert dp_accounting_text(event).startswith(f"# between tables with {words};")
        assert event_from_dict(event_to_dict(event)) == event
    rows_of_one = SubsampledGaussian(4.0, 1.0, relation=Relation.PERSON, group=4, person="who")
    with pytest.raises(ArgumentError, match="export it as json"):  # 4 rows of one person, or one row of each of 4
        dp_accounting_text(rows_of_one)
    assert group_event(group_event(one, 2), 3).group == 6 and "group" not in event_to_dict(one)
    with pytest.raises(ArgumentError, match="group must be a whole number"):
        Gaussian(4.0, Relation.RECORD, group=0)


def test_the_neighbours_of_a_group_are_named():
    for relation in (Relation.RECORD, Relation.PERSON):  # A12 is about one side: some added and some removed are not
        assert group_words(relation, 7).endswith("s, all added or all removed")
    for relation in Relation:
        assert group_words(relation, 1) == relation.value and "3 " in group_words(relation.value, 3)
