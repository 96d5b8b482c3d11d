"""Boosting: Algorithm 1 as printed, its bound, and that it is always finite."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracles
import radoboost as rb
from radoboost.errors import ArgumentError
from radoboost.learner.boost import _compile_boosting_kernels, boost
from radoboost.learner.risks import log_boosting_bound, log_rado_risk, logistic_rado_risk, logistic_risk
from radoboost.learner.weak_oracles import WEAK_ORACLES, Median, Prudential, Strongest


@st.composite
def matrices(draw, max_rows=25, max_features=6):
    n, d = draw(st.integers(1, max_rows)), draw(st.integers(1, max_features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "shifted", "integers", "wide"]))
    matrix = {
        "normal": lambda: rng.standard_normal((n, d)),
        "shifted": lambda: rng.normal(2, 1, (n, d)) * 100,
        "integers": lambda: rng.integers(-3, 4, (n, d)).astype(float),
        "wide": lambda: np.exp(rng.normal(0, 3, (n, d))) * rng.choice([-1, 1], (n, d)),
    }[kind]()
    if draw(st.booleans()):
        matrix[:, draw(st.integers(0, d - 1))] = draw(st.sampled_from([0.0, 1.0, -5.0]))
    return matrix


oracle_choices = st.sampled_from([Strongest(), Median(), Prudential(0.4), Prudential(1.0)])


@given(matrices(), oracle_choices, st.sampled_from([1.0, 1.7, 5.0]), st.booleans(), st.sampled_from([0.0, 0.1]))
def test_theta_is_the_printed_algorithms(rows, weak, kappa, exponential, clamp):
    """To 1e-9, as long as no two features are so close that rounding decides between them."""
    cap = getattr(weak, "cap", 1.0)
    theta, rounds, _ = oracles.radoboost(rows.tolist(), 30, weak.name, cap, kappa, exponential, clamp)
    boosted = boost(
        rows,
        n_rounds=30,
        weak=weak,
        kappa=kappa,
        clamp=clamp,
        update="exponential" if exponential else "multiplicative",
    )
    assume([k for k, _, _ in rounds] == boosted.rounds.feature.tolist())
    assert np.allclose(boosted.rounds.edge, [r for _, r, _ in rounds], rtol=1e-9, atol=1e-12)
    assert np.allclose(boosted.theta, theta, rtol=1e-9, atol=1e-9 * np.abs(theta).max())


def test_rounding_seldom_decides_between_features(rng):
    """What the property above may leave out is rare: on continuous data the features agree throughout."""
    for _ in range(20):
        rows = rng.normal(0.3, 1, (40, 5))
        _, rounds, _ = oracles.radoboost(rows.tolist(), 100)
        assert boost(rows, n_rounds=100).rounds.feature.tolist() == [k for k, _, _ in rounds]


@given(matrices(), oracle_choices, st.sampled_from([1.0, 1.3, 4.0]), st.booleans())
def test_the_bound_of_the_lemma_holds_after_every_round(rows, weak, kappa, exponential):
    """log(rado-risk) <= -sum r_t**2 / (2 kappa), for both updates, without the clamp."""
    update = "exponential" if exponential else "multiplicative"
    rounds = boost(rows, n_rounds=40, weak=weak, kappa=kappa, update=update).rounds
    if exponential and kappa > 1:
        return  # the lemma is about the multiplicative update; at kappa = 1 AdaBoost's satisfies it too
    for t in range(len(rounds)):
        assert rounds.log_risk[t] <= log_boosting_bound(rounds.edge[: t + 1], kappa) + 1e-9


@given(matrices(), st.sampled_from([1.0, 2.5]))
def test_with_the_exponential_update_the_risk_falls_every_round(rows, kappa):
    risk = np.concatenate([[0.0], boost(rows, n_rounds=40, kappa=kappa, update="exponential").rounds.log_risk])
    assert (np.diff(risk) <= 1e-12 * np.maximum(1, np.abs(risk[1:]))).all()


@given(matrices(), st.booleans())
def test_weights_stay_on_the_simplex(rows, exponential):
    """In the oracle and in the kernel, round by round."""
    _, rounds, history = oracles.radoboost(rows.tolist(), 20, exponential=exponential)
    for weights in history:
        assert min(weights) >= 0 and abs(sum(weights) - 1) < 1e-12
    assert all(abs(r) <= 1 for _, r, _ in rounds)
    largest = np.abs(rows).max(axis=0)
    scaled = np.ascontiguousarray((rows / np.where(largest > 0, largest, 1.0)).T)
    n = len(rows)
    compute_edges, take_step = _compile_boosting_kernels()
    weights, margins, losses, edges = np.full(n, 1 / n), np.zeros(n), np.full(n, 1 / n), np.zeros(len(scaled))
    for _ in range(20):
        compute_edges(scaled, weights, edges)
        best = int(np.argmax(np.abs(edges)))
        if not edges[best]:
            break
        take_step(scaled[best], edges[best], 1.0, exponential, 0.0, weights, margins, losses)
        assert weights.min() >= 0 and abs(weights.sum() - 1) < 1e-12


@pytest.mark.parametrize("update", ["multiplicative", "exponential"])
def test_the_risk_stays_exact_over_many_rounds(update, rng):
    """Where margins run far apart the running product would underflow, were it not taken afresh."""
    rows = rng.normal(size=(40, 3))
    rounds = boost(rows, n_rounds=400, clamp=0.9, update=update).rounds
    for t in (10, 63, 64, 65, 200, 399):
        assert rounds.log_risk[t] == pytest.approx(log_rado_risk(rows, rounds.theta(3, t + 1)), rel=1e-11, abs=1e-11)


@given(matrices(), oracle_choices)
def test_the_record_is_that_of_the_classifier(rows, weak):
    boosted = boost(rows, n_rounds=25, weak=weak)
    rounds = boosted.rounds
    for t in range(len(rounds)):
        theta = rounds.theta(rows.shape[1], t + 1)
        assert np.isclose(rounds.log_risk[t], log_rado_risk(rows, theta), rtol=1e-9, atol=1e-9)
    best = boost(rows, n_rounds=25, weak=weak, keep="best")
    risks = [0.0, *rounds.log_risk.tolist()]
    assert best.n_used == int(np.argmin(risks))
    assert (best.theta == rounds.theta(rows.shape[1], best.n_used)).all()


@pytest.mark.parametrize("update", ["multiplicative", "exponential"])
@pytest.mark.parametrize(
    "rows",
    [
        [[-7.0, 3.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0], [1.0]], [[1.0], [-1.0]],
        [[1e300, 1e-300], [1e300, 2e-300]], [[5e-324], [5e-324]],
    ],
)  # fmt: skip
def test_it_is_always_finite(rows, update):
    """An edge of exactly 1, zero columns, one rado, one feature, numbers at the ends of float64."""
    for weak in (Strongest(), Median(), Prudential(1.0)):
        boosted = boost(rows, n_rounds=50, weak=weak, update=update)
        assert np.isfinite(boosted.rounds.edge).all() and np.isfinite(boosted.rounds.log_risk).all()
        assert np.isfinite(boosted.theta).all()


def test_when_it_stops():
    assert len(boost(np.zeros((4, 2))).rounds) == 0
    assert boost([[1.0], [-1.0]]).theta.tolist() == [0.0]
    assert len(boost([[1.0, 0.9], [1.0, 0.8]], weak=Prudential(0.1)).rounds) == 0
    assert len(boost([[1.0, 0.2], [1.0, -0.1]], n_rounds=7).rounds) == 7


def test_oracles_choose_as_described(rng):
    for _ in range(200):
        edges = np.round(rng.uniform(-1, 1, rng.integers(1, 8)), 1)
        for oracle in (Strongest(), Median(), Prudential(0.5)):
            expected = oracles.choose_feature(edges.tolist(), oracle.name, getattr(oracle, "cap", 1.0))
            assert oracle.choose(edges) == expected
    assert set(WEAK_ORACLES) == {"strongest", "median", "prudential"}
    with pytest.raises(ArgumentError, match="cap"):
        Prudential(0.0)


class Random:
    """An oracle of one's own: any feature, by a generator."""

    name = "random"

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def choose(self, edges):
        return self.rng.integers(len(edges))


def test_an_oracle_of_ones_own_boosts(rng):
    rows = rng.normal(0.3, 1, (60, 5))
    rounds = boost(rows, n_rounds=200, weak=Random(1)).rounds
    assert rounds.feature.tolist() == np.random.default_rng(1).integers(5, size=200).tolist()
    assert rounds.log_risk[-1] == pytest.approx(log_rado_risk(rows, rounds.theta(5)), rel=1e-9)
    assert rounds.log_risk[-1] <= log_boosting_bound(rounds.edge, 1.0) < 0
    release = rb.craft(rows, rng.integers(0, 2, 60), seed=0)
    clf = rb.RadoBoostClassifier(n_rounds=50, weak=Random(2)).fit_rados(release)
    assert clf.model_.learner["weak"] == "random"
    assert clf.rounds_.feature.tolist() == np.random.default_rng(2).integers(6, size=50).tolist()
    alone = boost(release.rados, n_rounds=50, weak=Random(2))
    assert (clf.model_.theta == alone.theta).all()


class Wrong:
    """An oracle that answers what it is told to, or spoils what it is shown."""

    name = "wrong"

    def __init__(self, answer):
        self.answer = answer

    def choose(self, edges):
        if self.answer is None:
            edges[0] = 1.0
        return self.answer


@pytest.mark.parametrize(
    ("answer", "error"), [(2, ArgumentError), (-2, ArgumentError), (0.5, ArgumentError), (None, ValueError)]
)
def test_a_wrong_answer_of_an_oracle_is_refused(answer, error):
    with pytest.raises(error):
        boost(np.ones((4, 2)), weak=Wrong(answer))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rounds": 0}, "n_rounds"), ({"n_rounds": 1.5}, "n_rounds"), ({"kappa": 0.5}, "kappa"),
        ({"kappa": np.nan}, "kappa"), ({"clamp": 1.0}, "clamp"), ({"update": "x"}, "update"), ({"keep": "x"}, "keep"),
    ],
)  # fmt: skip
def test_options_are_checked(options, message):
    with pytest.raises(ArgumentError, match=message):
        boost(np.eye(2), **options)


def test_rows_are_checked():
    for rows in (np.zeros((0, 2)), np.zeros((2, 0)), np.zeros(3), [[np.nan]], [[np.inf]]):
        with pytest.raises(ArgumentError, match="boosting needs"):
            boost(rows)


@given(matrices(), st.integers(0, 2**32))
def test_risks_equal_the_oracles(rows, seed):
    theta = np.random.default_rng(seed).uniform(-0.01, 0.01, rows.shape[1])
    labels = [1] * len(rows)
    assume(np.abs(rows @ theta).max() < 500)
    rado_risk = oracles.rado_risk(rows.tolist(), theta.tolist())
    assert np.isclose(np.exp(log_rado_risk(rows, theta)), rado_risk, rtol=1e-12)
    assert np.isclose(
        logistic_risk(rows, theta), oracles.logistic_risk(rows.tolist(), labels, theta.tolist()), rtol=1e-12
    )
    assert np.isclose(logistic_rado_risk(rows, theta, 7), np.log(2) + np.log(rado_risk) / 7)


def test_risks_do_not_overflow():
    rows = np.array([[1e200], [-1e200]])
    assert logistic_risk(rows, [1.0]) == 5e199
    assert log_rado_risk(rows, [1.0]) == pytest.approx(1e200)
    assert logistic_rado_risk(rows, [1.0], 10) == pytest.approx(1e199)
