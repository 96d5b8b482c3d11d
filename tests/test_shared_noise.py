"""Noise by shares: the laws of docs/proofs/shared-noise.md with many digits, and what statements say of it."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import radoboost as rb
from radoboost.holder.curator import Curator
from radoboost.holder.engines import get_engine
from radoboost.holder.gaussian_noise import TOTAL_VARIATION, scale_rounded_up
from radoboost.holder.mechanisms.mechanism import RoomParticipation, StatementFacts
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.rooms.roster import Party, Roster, most_holders_lost
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.privacy import Gaussian, Relation, Repeated, epsilon_at, event_from_dict, flatten, group_epsilon
from radoboost.privacy.calibration import (
    LATTICE_VARIATION,
    LEAST_SHARE,
    event_against_colluders,
    noise_factor_of_present_holders,
    noise_share_of_holder,
    variation_of_shared_noise,
)
from radoboost.release.composition import compose_with_earlier
from radoboost.release.statement_check import check_statement
from radoboost.release.statement_text import promise_text, statement_text
from radoboost.tables import open_table

DIGITS = 120  # differences of iterated integrals cancel; 60 digits are left

# ---- D3 and D4, by exact laws


def pi():
    """By Machin's formula."""

    def arctan_of_inverse(x):
        power = total = Decimal(1) / x
        k = 1
        while abs(power) > Decimal(10) ** -(DIGITS + 5):
            power /= -x * x
            k += 2
            total += power / k
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))


def integrals(z, order, root):
    """The standard normal density, integrated 0, 1, ..., `order` times from minus infinity up to z."""
    density = (-z * z / 2).exp() / root
    term = total = abs(z)
    k = 1
    while term > Decimal(10) ** -(DIGITS + 5):
        k += 2
        term *= z * z / k
        total += term
    below = Decimal("0.5") + (total * density).copy_sign(z)
    values = [density, below]
    for n in range(1, order):
        values.append((z * values[-1] + values[-2]) / n)
    return values


def law_of_one_share(scale, reach, root):
    """P(round(scale Z) = x) for x from -reach to reach."""
    ends = [integrals((Decimal(x) - Decimal("0.5")) / scale, 1, root)[1] for x in range(-reach, reach + 2)]
    return [high - low for low, high in pairwise(ends)]


def law_of_the_rounded_sum(scale, holders, reach, root):
    """P(round(S Z + V) = x), S^2 = holders scale^2, V of holders - 1 uniforms: a difference of iterated integrals."""
    total = scale * Decimal(holders).sqrt()
    half = Decimal(holders) / 2

    def integral(x):
        return total ** (holders - 1) * integrals(x / total, holders, root)[holders]

    cache = {}
    law = []
    for x in range(-reach, reach + 1):
        parts = []
        for k in range(holders + 1):
            place = Decimal(x) + half - k
            if place not in cache:
                cache[place] = integral(place)
            parts.append((-1) ** k * math.comb(holders, k) * cache[place])
        law.append(sum(parts))
    return law


def variation(scale, holders, without_v=False):
    """The total variation between a sum of rounded shares and the rounded sum; and the largest difference."""
    with localcontext() as context:
        context.prec = DIGITS
        root = (2 * pi()).sqrt()
        step = Decimal(scale)
        reach = 17 * scale
        one = law_of_one_share(step, reach, root)
        shares = one
        for _ in range(holders - 1):
            shares = convolved(shares, one)
        width = len(shares) // 2
        if without_v:
            rounded = law_of_one_share(step * Decimal(holders).sqrt(), width, root)
        else:
            rounded = law_of_the_rounded_sum(step, holders, width, root)
        gaps = [abs(p - q) for p, q in zip(shares, rounded, strict=True)]
        assert abs(sum(rounded) - 1) < Decimal(10) ** -50
        return float(sum(gaps) / 2), float(max(gaps))


def convolved(first, second):
    out = [Decimal(0)] * (len(first) + len(second) - 1)
    for i, p in enumerate(first):
        for j, q in enumerate(second):
            out[i + j] += p * q
    return out


STUDIED = [(1, 2, 2.1e-5), (2, 2, 2.9e-18), (2, 4, 8.9e-27), (3, 3, 1.1e-51)]


@pytest.mark.parametrize(("scale", "holders", "expected"), STUDIED)
def test_a_sum_of_rounded_shares_is_as_near_to_a_rounded_sum_as_the_study_says(scale, holders, expected):
    total, largest = variation(scale, holders)
    assert total == pytest.approx(expected, rel=0.05)
    # D4: with so few steps the sum over j is not below 1 + 2**-200, but it is easily bounded.
    beyond = max(
        sum(math.exp(-(scale**2) * (u + 2 * math.pi * j) ** 2 / 4) for j in range(-5, 6))
        for u in np.linspace(-math.pi, math.pi, 101)
    )
    assert largest <= beyond**holders * math.exp(-(math.pi**2) * scale**2 / 2)


def test_without_the_uniforms_it_is_another_law():
    assert variation(2, 2, without_v=True)[0] == pytest.approx(2.5e-3, rel=0.02)


def test_the_bound_of_the_proof_holds_from_eight_steps_on():
    """(1 + 2**-200)**K < 2, each probability within 2**-454, and so the whole within 2**-180."""
    others = 2 * sum(math.exp(-16 * math.pi**2 * m * m) for m in (1, 3, 5))
    assert LEAST_SHARE == 8 and math.log2(others) < -200
    bits = 1 - math.pi**2 * LEAST_SHARE**2 / 2 / math.log(2)
    tail = 2 * math.exp(-(16**2) / 2) / (16 * math.sqrt(2 * math.pi))  # above P(|Z| > 16)
    assert bits < -454 and math.log2(tail) < -188
    assert 2.0 ** (67 - 454) / 2 + tail < LATTICE_VARIATION
    # A step fewer than five would not do.
    assert 67 + 1 - math.pi**2 * 4**2 / 2 / math.log(2) > math.log2(LATTICE_VARIATION)


# ---- D1, D2, D5: shares as they are drawn


@pytest.mark.parametrize(("holders", "tolerate"), [(3, 1), (5, 1), (5, 2), (10, 3), (50, 17), (1000, 1)])
def test_enough_shares_come_to_the_noise_that_was_asked_for(holders, tolerate):
    share = noise_share_of_holder(holders, tolerate)
    assert 1 <= (holders - tolerate) * Fraction(share) ** 2 < 1 + Fraction(1, 2**48)
    for scale in (17.3, 123456.789, 2.0**30 / 3):
        drawn = Fraction(scale_rounded_up(scale * share))
        assert (holders - tolerate) * drawn**2 >= Fraction(scale) ** 2
    assert noise_factor_of_present_holders(holders - tolerate, holders, tolerate) == 1.0


class Seat:
    noise_factor = 1.0

    def __init__(self, share):
        self.noise_share = share

    def total(self, arrays):
        return list(arrays)

    def begin(self, event):
        pass

    def agreed(self, compute, read=lambda value: value):
        return read(compute())


def drawing(share, key=b"k" * 32):
    run = Curator(open_table([[1.0]], [1]), get_engine("reference"), ThreadRunner(1), key, pool=Seat(share))
    run.book(Gaussian(1.0, Relation.RECORD))
    return run


def test_shares_of_fewer_than_eight_steps_are_refused():
    run = drawing(noise_share_of_holder(5, 1))
    assert run.noise(16.0, (2, 3)).shape == (2, 3)
    with pytest.raises(rb.ArgumentError, match=r"of 7\.5 grid steps, and must be of 8"):
        run.noise(15.0, (2, 3))
    assert not run.noise(0.0, (2, 3)).any()  # exact sums stay exact


def test_shares_add_up_to_the_variance_that_was_asked_for():
    """Four shares of 8 steps: the sum of 40,000 squares is within 6 deviations of 16**2, which fails once in 1e8."""
    total = sum(drawing(noise_share_of_holder(5, 1), bytes([k]) * 32).noise(16.0, (200, 200)) for k in range(4))
    variance = float((total.astype(float) ** 2).mean())
    expected = 16.0**2 + 4 / 12  # each share is rounded
    assert abs(variance - expected) < 6 * expected * math.sqrt(2 / 40_000)


def test_every_share_is_charged_to_the_total_variation():
    assert variation_of_shared_noise(TOTAL_VARIATION, 1) == TOTAL_VARIATION
    together = Fraction(variation_of_shared_noise(TOTAL_VARIATION, 5))
    assert 5 * Fraction(TOTAL_VARIATION) + Fraction(LATTICE_VARIATION) <= together
    moments, rados = rb.Moments(1.0), rb.NoisyRados(1.0)
    for of_shares in (
        lambda shares: moments.dearest(NoiseShape(4, shares=shares)),
        lambda shares: rados.plan(100, 4, None, shares=shares).event,
    ):
        one, five = (total_variation(of_shares(shares)) for shares in (1, 5))
        assert five >= 5 * one > 0
        assert epsilon_at(of_shares(5), 1e-6) <= 1.0


def total_variation(event):
    return sum(leaf.total_variation * count for leaf, count in flatten(event).items())


# ---- D6 to D8: against whom


@pytest.mark.parametrize(("epsilon", "figures"), [(1.0, (1.81, 2.40, 3.52, 5.21)), (0.3, (0.54, 0.71, 1.03, 1.50))])
def test_what_all_others_together_leave(epsilon, figures):
    event = rb.Moments(epsilon).dearest(NoiseShape(4))
    for least, figure in zip((3, 5, 10, 20), figures, strict=True):
        assert epsilon_at(event_against_colluders(event, 1, least + 1, 1), 1e-6) == pytest.approx(figure, abs=0.006)
        assert epsilon_at(event_against_colluders(event, least, least + 1, 1), 1e-6) == pytest.approx(epsilon, rel=1e-6)
        assert epsilon_at(event_against_colluders(event, least + 1, least + 1, 1), 1e-6) < epsilon
    if epsilon == 1.0:
        assert group_epsilon(event, 1e-6, 2) == pytest.approx(2.12, abs=0.005)


def test_repeated_and_sampled_noise_is_scaled_too():
    event = rb.NoisyRados(1.0).plan(20, 4, None).event
    assert isinstance(event, Repeated)
    less = event_against_colluders(event, 1, 5, 1)
    assert less.count == 20 and less.event.noise_multiplier == pytest.approx(event.event.noise_multiplier / 2)
    with pytest.raises(rb.ArgumentError, match="1 to 5 are honest, not 0"):
        event_against_colluders(event, 0, 5, 1)


def statement(present, mechanism=rb.Moments(1.0), holders=6, tolerate=2, **person):  # noqa: B008 - frozen
    parts = tuple({"name": f"h{k}", "fingerprint": "", "until": None} for k in range(holders))
    opening = Roster(bytes(32), tuple(Party(f"h{k}", bytes([k]) * 32) for k in range(holders)), tolerate).opening
    room = RoomParticipation(holders, tolerate, opening, present, parts)
    return mechanism.statement(
        StatementFacts("bounds", False, 20, 4, None, shape=NoiseShape(4, shares=holders, **person), room=room, **person)
    )


def test_a_statement_says_against_whom_it_holds():
    made = statement(present=6)
    figures = {figure.case: figure for figure in made.holders.figures}
    assert made.epsilon == pytest.approx(1.0, rel=1e-6)
    assert figures["anyone outside the room"].epsilon < 1
    assert figures["any 2 of the holders together"].epsilon == pytest.approx(1.0, rel=1e-6)
    assert figures["all other holders together"].epsilon == pytest.approx(2.13, abs=0.01)  # four shares are enough
    assert figures["a person with records at two holders"].epsilon == pytest.approx(2.12, abs=0.005)
    assert made.promises[-1].startswith("This holds against anyone outside the room, and against any 2 of the holders")
    assert rb.Statement.from_dict(made.to_dict()) == made


@pytest.mark.parametrize("mechanism", [rb.Moments(1.0), rb.Moments(1.0, unit="label"), rb.NoisyRados(1.0)])
def test_a_person_of_a_room_is_protected_at_one_holder(mechanism):
    """Rows are bounded at each holder; the statement said that at most 3 of all contribute."""
    made = statement(6, mechanism, person="who", max_rows=3)
    for words in ("the column 'who' at one holder, whole", "at most 3 of its rows contribute there"):
        assert words in made.unit_of_privacy
    assert "any one person" in made.promises[0] and " at one holder" in made.promises[0]
    assert any("which of two neighbours, which differ at one holder, the" in promise for promise in made.promises)
    assert any("'who' or is at several holders, which count as several persons" in line for line in made.not_protected)
    event, last = event_from_dict(made.event), made.holders.figures[-1]
    assert (last.case, last.epsilon) == ("a person with records at all 6 holders", group_epsilon(event, 1e-6, 6))
    assert promise_text(made).endswith(" at one holder")
    assert statement_text(made)["What is promised"][len(made.promises)].endswith(" at one holder as neighbours")
    total = compose_with_earlier(event, (), 1e-6)
    assert total["holds_if"].endswith("each person is at one holder of every room among them")
    assert check_statement(made) == event


def test_a_group_that_is_not_accounted_for_has_an_infinite_figure():
    made = statement(6, rb.NoisyRados(1.0), person="who", max_rows=300)
    assert [figure.epsilon for figure in made.holders.figures][-1] == math.inf and check_statement(made)


@pytest.mark.parametrize(("holders", "tolerate", "many"), [(6, 2, 4), (10, 1, 4), (10, 4, 6), (3, 1, 2), (4, 1, 2)])
def test_a_statement_says_how_many_could_open_a_sum(holders, tolerate, many):
    """More than are borne, always: 2 T - K, T the threshold of secure sums; and never all but one of those in."""
    made = statement(present=holders, holders=holders, tolerate=tolerate)
    assert f"as long as fewer than {many} put together what they know" in made.trust_model and many > tolerate
    lost = most_holders_lost(holders, tolerate)
    assert holders - lost - (many - 1) >= 2, "those below leave two others in a sum"


def test_lost_holders_are_colluders_that_are_no_longer_borne():
    one, two = statement(present=5), statement(present=4)
    cases = [{figure.case: figure.epsilon for figure in made.holders.figures} for made in (one, two)]
    assert cases[0]["any one of the holders"] == pytest.approx(1.0, rel=1e-6)
    assert one.promises[-1].startswith("1 of the 6 holders was lost on the way")
    # Nobody more is borne: a holder knows one of the four shares that are left.
    assert cases[1]["anyone outside the room"] == pytest.approx(1.0, rel=1e-6)
    assert cases[1]["any one of the holders"] == pytest.approx(
        epsilon_at(event_against_colluders(event_from_dict(two.event), 3, 6, 2), 1e-6)
    )
    assert cases[1]["any one of the holders"] > 1.15 and "any 2 of the holders together" not in cases[1]


def test_other_mechanisms_say_so_too():
    rados, plain = statement(6, rb.NoisyRados(1.0)), statement(6, rb.Plain())
    assert [figure.case for figure in rados.holders.figures][-2] == "a person with records at two holders"
    assert "Each holder draws the coins of its own rows" in rados.trust_model and rados.epsilon <= 1.0
    assert plain.holders.figures == () and plain.promises == () and plain.epsilon == math.inf
    assert any("Anyone who knows another's coins must not see" in line for line in plain.not_protected)
    for made in (rados, plain):
        assert any("nonsense spoils the release" in line for line in made.not_protected)


def test_a_figure_that_is_too_small_is_refused():
    made = statement(present=6).to_dict()
    rb.Statement.from_dict(made)
    from radoboost.release.release import read_statement

    read_statement(made)
    made["holders"]["figures"][2]["epsilon"] = 1.0
    with pytest.raises(rb.ReleaseError, match="for all other holders together"):
        read_statement(made)
