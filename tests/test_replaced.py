"""`moments` for one record replaced: sensitivities, statement, books, refusals and the attack."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.holder.engines import get_engine
from radoboost.holder.feature_maps import DEGREES
from radoboost.holder.mechanisms.moments.aggregations import CAP, CONSTANT_VALUE, GRID
from radoboost.holder.mechanisms.moments.budget import NoiseShape, plan_stage_budget
from radoboost.lab.attacks.mechanism_from_release import claim_of_statement, mechanism_of_release
from radoboost.privacy import Gaussian, Relation, SubsampledGaussian, convert_relation, epsilon_at, event_from_dict

REPLACE, RECORD, EDGE, LABEL = Relation.REPLACE, Relation.RECORD, Relation.EDGE, Relation.LABEL
SHAPES = [
    NoiseShape(4),
    NoiseShape(4, 3),
    NoiseShape(4, n_planned=20, widest=20),
    NoiseShape(4, 3, n_planned=20, raw=True),
]


def craft(rng, n_rows=400, **options):
    x = rng.normal(size=(n_rows, 2))
    mechanism = rb.Moments(4.0, relation="replace", **options.pop("about", {}))
    about = {"bounds": [[-3, 3]] * 2, "classes": (0, 1), "counts": None, **options}
    return flat.craft(x, (x[:, 0] > 0).astype(int), mechanism=mechanism, **about)


values = st.lists(st.floats(-5, 5), min_size=3, max_size=3)


@given(values, values, st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 1]), st.integers(0, 99))
def test_a_replaced_record_moves_no_sum_by_more_than_its_reach(one, other, sign, other_sign, seed):
    rng, engine, ends = np.random.default_rng(seed), get_engine("auto"), np.ones(3)
    signs = np.array([sign, other_sign], np.int8)
    rows, _ = engine.sphere(np.array([one, other]), signs, -ends, ends, CONSTANT_VALUE, GRID)
    edges = engine.whiten(rows, np.round(rng.normal(size=(4, 4)), 6), signs, GRID)
    theta = rng.normal(size=4) * 5
    tilted = [engine.tilt(edges[:, [k]], theta, GRID, CAP).astype(float) for k in (0, 1)]
    reach = {stage.name: stage.reach for stage in plan_stage_budget("record", True, 0.1, SHAPES[0], 8, replaced=True)}
    for some, name in ((rows, "second"), (edges, "whitened")):
        q, r = some.T.astype(float)
        assert np.linalg.norm(np.outer(q, q) - np.outer(r, r)) <= reach[name]
    assert np.linalg.norm(edges[:, 0].astype(float) - edges[:, 1]) <= reach["sum"]
    assert np.linalg.norm(tilted[0] - tilted[1]) <= reach["rounds"]


def test_reaches_are_those_of_the_proof_and_are_nearly_attained():
    (counts, *bounds, outline, second, total, whitened, rounds, scores) = (
        stage.reach / GRID for stage in plan_stage_budget("record", True, 0.1, SHAPES[-1], 8, replaced=True)
    )
    assert [counts, scores, *bounds] == pytest.approx([math.sqrt(2)] * 2 + [math.sqrt(6)] * 4, rel=1e-15)
    assert outline == second == whitened == math.sqrt(2) * GRID and (total, rounds) == (2, 2 * CAP)
    q, r = np.array([1.0, 0, 0]), np.array([0, 1.0, 0])
    assert np.linalg.norm(np.outer(q, q) - np.outer(r, r)) == math.sqrt(2)  # and q against -q moves a sum by 2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sharpen", [True, False])
def test_a_release_for_records_added_costs_at_most_190_hundredths_of_mu_if_one_is_replaced(shape, sharpen):
    stages = {
        replaced: plan_stage_budget("record", sharpen, 0.1, shape, 8 * sharpen, replaced=replaced)
        for replaced in (False, True)
    }
    squared = sum(
        one.share * (two.reach / one.reach) ** 2 for one, two in zip(stages[False], stages[True], strict=True)
    )
    assert math.sqrt(squared) < 1.90
    assert sharpen is False or shape != SHAPES[0] or round(math.sqrt(squared), 2) == 1.88
    assert [one.share for one in stages[False]] == [two.share for two in stages[True]]


@pytest.mark.parametrize("columns", ["linear", *DEGREES])
def test_statement_and_release_say_what_is_replaced(rng, columns):
    release = craft(rng, columns=columns)
    statement = release.statement
    assert release.n_examples == 400 and release.mechanism["relation"] == "replace"
    assert statement.neighbours == "one record replaced" and statement.epsilon <= 4.0
    assert any("number of examples: it is in the release exactly" in line for line in statement.not_protected)
    assert not any("added or removed" in line or "number of examples" in line for line in statement.promises)
    event = event_from_dict(statement.event)
    assert event.relation is REPLACE and epsilon_at(event, 1e-6) == statement.epsilon
    mechanism = rb.Moments(4.0, relation="replace")
    assert mechanism_of_release(release).distance(NoiseShape(3)) == pytest.approx(
        mechanism.distance(NoiseShape(3)), rel=1e-6
    )
    assert claim_of_statement(release, mechanism_of_release(release)).epsilon == statement.epsilon


def test_noise_is_less_than_that_of_a_converted_release():
    replaced, added = (rb.Moments(1.0, relation=relation) for relation in ("replace", "add"))
    noise = {"replace": replaced.scales(8, NoiseShape(4)), "add": added.scales(8, NoiseShape(4))}
    for stage, times in {
        "counts": 2**0.5,
        "second": 2**0.5,
        "whitened": 2**0.5,
        "sum": 2,
        "rounds": 2,
        "scores": 2**0.5,
    }.items():
        assert noise["replace"][stage] == pytest.approx(times * noise["add"][stage])
    assert replaced.strength(100.0, NoiseShape(4)) == added.strength(100.0, NoiseShape(4)) / 2
    assert not replaced.hides_size and added.hides_size


def test_what_follows_from_what():
    event = Gaussian(4.0, RECORD)
    assert convert_relation(event, REPLACE) == Gaussian(2.0, REPLACE)
    for relation in (EDGE, LABEL):
        assert convert_relation(Gaussian(4.0, REPLACE), relation) == Gaussian(
            4.0, relation, label="any" * (relation == LABEL)
        )
    for one, other in ((REPLACE, RECORD), (EDGE, REPLACE), (LABEL, REPLACE), (REPLACE, Relation.PERSON_ROWS)):
        with pytest.raises(rb.ArgumentError, match="does not give protection"):
            convert_relation(Gaussian(4.0, one), other)
    sampled = convert_relation(SubsampledGaussian(18.75, 0.5), REPLACE)
    assert epsilon_at(sampled, 1e-6) == epsilon_at(convert_relation(SubsampledGaussian(18.75, 0.5), EDGE), 1e-6)


def test_a_ledger_books_it(rng, tmp_path, rado):
    place = tmp_path / "clinic.ledger"
    books = rb.Ledger.create(place, "visits", epsilon=6.0, delta=1e-6, relation="replace")
    release = craft(rng, ledger=place)
    assert release.statement.neighbours == books.total.relation.value and len(books.entries()) == 2
    added = rb.Ledger.create(tmp_path / "other.ledger", "visits", epsilon=6.0, delta=1e-6)
    with pytest.raises(rb.ArgumentError, match="--relation replace"):
        craft(rng, ledger=tmp_path / "other.ledger")
    assert not added.entries()


def test_refusals():
    for options, message in (
        ({"relation": "swap"}, "'add' or 'replace'"), ({"relation": "replace", "unit": "label"}, "leave relation out")
    ):  # fmt: skip
        with pytest.raises(rb.ArgumentError, match=message):
            rb.Moments(1.0, **options)
    with pytest.raises(rb.ArgumentError, match="leave relation out, or --person"):
        rb.craft(
            "there is no such file.csv",
            label="y",
            classes=(0, 1),
            mechanism=rb.Moments(1.0, relation="replace"),
            schema=replace(rb.Schema.of({"a": (0, 1)}), person=rb.Person("who", 2)),
        )


def test_the_commands(rado):
    answer = json.loads(rado("account", "--epsilon", 1, "--set", "relation=replace", "--json")[1])
    assert answer["neighbours"] == "one record replaced" and answer["epsilon"] <= 1
    code, out, err = rado("account", "--mechanism", "noisy-rados", "--epsilon", 1, "--set", "relation=replace")
    assert (code, out, err.count("\n")) == (1, "", 1)
