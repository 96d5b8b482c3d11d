"""Statements that promise more than their own event does are refused, wherever they are read."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import radoboost as rb
from radoboost.errors import ModelError, ReleaseError
from radoboost.privacy import Gaussian, NotPrivate, Relation, Repeated, SubsampledGaussian, event_to_dict
from radoboost.release.statement_check import check_statement


@pytest.fixture(scope="module")
def releases():
    """One release of each mechanism that promises something about records or rows."""
    rng = np.random.default_rng(4)
    X, y = rng.uniform(0, 1, (200, 2)), rng.integers(0, 2, 200)
    mechanisms = {
        "moments": rb.Moments(1.0),
        "label": rb.Moments(1.0, unit="label"),
        "noisy-rados": rb.NoisyRados(1.0),
        "noisy-examples": rb.NoisyExamples(1.0),
    }
    return {
        name: rb.craft(X, y, n_rados=20, mechanism=mechanism, classes=(0, 1), schema=[[0, 1], [0, 1]])
        for name, mechanism in mechanisms.items()
    }


def forged(release, place, **changes):
    """The file of a release whose statement was changed; its digest is made anew."""
    replace(release, statement=replace(release.statement, **changes)).save(place)
    return place


def test_an_epsilon_written_over_is_refused(releases, tmp_path):
    for name, release in releases.items():
        place = forged(release, tmp_path / f"{name}.rado.parquet", epsilon=0.01)
        with pytest.raises(ReleaseError, match="do not trust") as caught:
            rb.load(place)
        assert "\n" not in str(caught.value) and str(place) in str(caught.value)
        assert release.statement.neighbours in str(caught.value)


FORGERIES = {
    "a millionth and a half below": lambda s: {"epsilon": s.epsilon * (1 - 1.5e-6)},
    "a smaller delta": lambda s: {"delta": s.delta / 2},
    "no delta": lambda s: {"delta": 0.0},
    "a delta of one": lambda s: {"delta": 1.0},
    "a delta that is none": lambda s: {"delta": math.nan},
    "another pair": lambda s: {"epsilon_at": (*s.epsilon_at[:-1], (s.epsilon_at[-1][0], s.epsilon_at[-1][1] * 0.999))},
    "another delta of a pair": lambda s: {"epsilon_at": ((0.0, 5.0),)},
    "the best guess": lambda s: {"best_guess": 0.5},
    "a best guess that is none": lambda s: {"best_guess": math.nan},
    "other neighbours": lambda s: {
        "neighbours": next(r.value for r in Relation if r.value != s.neighbours)
    },
    "an event with no name": lambda s: {"event": {}},
    "an unknown event": lambda s: {"event": {"name": "Laplace"}},
    "an event of nothing": lambda s: {"event": {"name": "Composed", "events": []}},
    "an event that is not private": lambda s: {"event": event_to_dict(NotPrivate("no noise", Relation(s.neighbours)))},
    "more uses than are accounted for": lambda s: {
        "event": event_to_dict(Repeated(SubsampledGaussian(9.0, 0.5, relation=Relation(s.neighbours)), 2**22))
    },
    "a total below its own part": lambda s: {
        "composed": {
            "earlier_releases": 0, "neighbours": s.neighbours, "epsilon": s.epsilon / 2, "delta": s.delta,
            "releases": [],
        }
    },
    "a total that does not say of which": lambda s: {
        "composed": {"earlier_releases": 1, "neighbours": s.neighbours, "epsilon": 9.0, "delta": s.delta}
    },
    "a total for others": lambda s: {
        "composed": {
            "earlier_releases": 0, "neighbours": "nobody", "epsilon": 9.0, "delta": s.delta, "releases": [],
        }
    },
    "a total that leaves one out": lambda s: {
        "composed": {
            "earlier_releases": 1, "neighbours": s.neighbours, "epsilon": s.epsilon, "delta": s.delta,
            "releases": [{"id": "a", "event": dict(s.event)}],
        }
    },
    "a total with an event that cannot be read": lambda s: {
        "composed": {
            "earlier_releases": 1, "neighbours": s.neighbours, "epsilon": 9.0, "delta": s.delta,
            "releases": [{"id": "a", "event": {"name": "?"}}],
        }
    },
    "a total that counts one and names none": lambda s: {
        "composed": {
            "earlier_releases": 1, "neighbours": s.neighbours, "epsilon": 9.0, "delta": s.delta, "releases": [],
        }
    },
    "an infinite total that counts two and names one twice": lambda s: {
        "composed": {
            "earlier_releases": 2, "neighbours": s.neighbours, "epsilon": "infinite", "delta": s.delta,
            "releases": [{"id": "a", "event": dict(s.event)}] * 2,
        }
    },
}  # fmt: skip


@pytest.mark.parametrize(("k", "case"), list(enumerate(FORGERIES)))
def test_every_figure_is_held_against_the_event(k, case, releases):
    """Each forgery of the statement of one mechanism, and each mechanism in turn."""
    statement = list(releases.values())[k % len(releases)].statement
    check_statement(statement)
    with pytest.raises(ReleaseError) as caught:
        check_statement(replace(statement, **FORGERIES[case](statement)))
    assert "\n" not in str(caught.value)


def test_what_is_said_too_carefully_is_left_alone(releases, tmp_path):
    statement = releases["moments"].statement
    careful = {"epsilon": 1.1 * statement.epsilon, "best_guess": 0.9, "epsilon_at": ((1e-8, math.inf),)}
    assert rb.load(forged(releases["moments"], tmp_path / "a.rado.parquet", **careful)).statement.best_guess == 0.9
    check_statement(replace(statement, epsilon=statement.epsilon * (1 - 0.5e-6)))
    check_statement(replace(statement, epsilon=math.inf, epsilon_at=(), neighbours="any two tables"))


def test_a_total_of_known_events_is_computed_anew(releases):
    statement = releases["moments"].statement
    composed = {"earlier_releases": 1, "neighbours": statement.neighbours, "delta": statement.delta}
    earlier = [{"id": "a", "event": dict(statement.event)}]
    check_statement(replace(statement, composed={**composed, "epsilon": 1.4548, "releases": earlier}))
    with pytest.raises(ReleaseError, match=r"costs 1\.45"):
        check_statement(replace(statement, composed={**composed, "epsilon": 1.4, "releases": earlier}))
    column = {
        "id": "a",
        "event": {"name": "TruncatedBinomialShift", "n_trials": 9, "low": 2, "high": 7, "total_variation": 0.0},
    }
    column["event"]["column"] = "x"
    with pytest.raises(ReleaseError, match="releases that have none"):
        check_statement(replace(statement, composed={**composed, "epsilon": 9.0, "releases": [column]}))


def test_a_model_carries_the_same_check(releases, tmp_path):
    model = rb.MomentsClassifier().fit_rados(releases["moments"]).model_
    place = tmp_path / "a.model.json"
    model.save(place)
    assert rb.load_model(place).statement == model.statement
    document = json.loads(place.read_text())
    document["statement"]["epsilon"] = 0.01
    place.write_text(json.dumps(document))
    with pytest.raises(ModelError, match="do not trust"):
        rb.load_model(place)


def test_a_false_release_in_memory_is_not_composed_with(releases):
    false = replace(releases["moments"], statement=replace(releases["moments"].statement, epsilon=0.01))
    with pytest.raises(ReleaseError, match="do not trust it"):
        rb.craft([[0.0]], [1], mechanism=rb.Moments(1.0), classes=(0, 1), compose=[false], schema=[[0, 1]])


def test_the_check_is_one_curve(releases, monkeypatch):
    """Ten thousand rados are convolved once, in each direction, and not for each figure."""
    from radoboost.privacy import accountants

    calls = []
    convolved = accountants._convolve_losses
    monkeypatch.setattr(accountants, "_convolve_losses", lambda *args: calls.append(1) or convolved(*args))
    mechanism = rb.NoisyRados(noise_std=250.0)
    around = rb.holder.mechanisms.mechanism.StatementFacts("bounds", False, 10_000, 3, None)
    statement = mechanism.statement(around)
    accountants._charge_total_variation.cache_clear()
    accountants._privacy_curve.cache_clear()
    accountants._least_delta_of_curve.cache_clear()
    calls.clear()
    check_statement(statement)
    assert len(calls) == 2
    assert math.isfinite(statement.epsilon)
    check_statement(replace(statement, event=event_to_dict(Gaussian(100.0, Relation.RECORD))))


def test_the_attack_and_the_statement_round_the_same_way(releases):
    """Up, to a tenth of a per cent: 54.8 in one place and 54.7 in the other was one number."""
    from radoboost.lab.attacks.roc import Claim
    from radoboost.privacy import event_from_dict
    from radoboost.release.release import percent_up_text

    for release in releases.values():
        stated = release.statement
        pairs = ((stated.delta, stated.epsilon), (2 * stated.best_guess - 1, 0.0))
        claim = Claim(event_from_dict(stated.event), stated.delta, pairs)
        allowed = percent_up_text(0.5 + claim.advantage / 2)
        assert f"at most {allowed} % of the time" in stated.promises[-1]
