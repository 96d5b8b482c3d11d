"""Releases without rados: moments alone are enough, and whoever wants rados draws them from what was released."""

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import flat
import radoboost as rb
from radoboost.cli import app
from radoboost.holder.mechanisms import MECHANISMS
from radoboost.holder.request import CraftRequest
from radoboost.lab.attacks.adversary_knowledge import rado_integers
from radoboost.lab.attacks.attack_suite import NEEDS, NOT_HERE, AttackInputs, _attack_module, _attempt_attack
from radoboost.lab.attacks.exact_reconstruction import reconstruct
from radoboost.lab.attacks.linear_reconstruction import recover_release_column
from radoboost.lab.attacks.membership import membership_of_release
from radoboost.lab.attacks.row_probe import probe_rows_of_table
from radoboost.progress import silent
from radoboost.release.release import read_statement
from radoboost.report.describe import describe_model, describe_release
from radoboost.report.release_report import make_release_report
from schema_files import write_schema
from test_release import resealed

DECLARED = {"bounds": [[-3, 3]] * 3, "classes": (0, 1), "counts": None, "columns": "linear"}
ASKED = {"plain": {}, "feature-band": {"feature": "x0", "epsilon": 6.0, "delta": 0.01}}


@pytest.fixture(scope="module")
def examples():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 3))
    return x, (x @ [2.0, -1.0, 0.5] + rng.logistic(size=2000) > 0).astype(int)


@pytest.fixture(scope="module")
def release(examples):
    return flat.craft(*examples, mechanism=rb.Moments(3.0), **DECLARED)


@pytest.fixture
def saved(release, tmp_path):
    release.save(tmp_path / "m.rado.parquet")
    return tmp_path / "m.rado.parquet"


@pytest.mark.parametrize("name", MECHANISMS)
def test_how_many_rados_there_are_is_for_the_mechanism_to_say(name):
    mechanism = MECHANISMS[name](**ASKED.get(name, {"epsilon": 3.0}))
    assert CraftRequest.of(None, mechanism).n_rados == (0 if name == "moments" else 1000)
    assert CraftRequest.of(None, mechanism, n_rados=7).n_rados == 7
    for wrong in (0, -1, True, 2.5):
        with pytest.raises(rb.ArgumentError, match="n_rados must"):
            CraftRequest.of(None, mechanism, n_rados=wrong)


def test_rados_are_there_if_they_are_asked_for(examples):
    assert rb.craft(*examples).n_rados == 1000
    assert flat.craft(*examples, mechanism=rb.Moments(3.0), n_rados=7, **DECLARED).rados.shape == (7, 4)


def test_rados_that_are_not_there_are_one_line_that_says_what_to_do(release, saved):
    assert "rados" not in release.blocks and release.n_rados == 0
    assert rb.load(saved).n_rados == 0
    with pytest.raises(rb.ReleaseError, match="draw_rados") as caught:
        _ = release.rados
    assert "\n" not in str(caught.value)


def test_drawn_rados_meet_the_released_moments(release):
    drawn = rb.draw_rados(release, 400, random_state=0)
    whitened = drawn.rados.copy()
    whitened[:, -1] *= release.mechanism["constant"]
    whitened = whitened @ release.blocks["whitening"]
    values, vectors = np.linalg.eigh(release.blocks["moment:C2"] / 4)
    projected = (vectors * np.maximum(values, 0)) @ vectors.T
    scale = np.abs(whitened).max()
    np.testing.assert_allclose(whitened.mean(axis=0), release.blocks["moment:b"][0] / 2, atol=1e-5 * scale)
    np.testing.assert_allclose(np.cov(whitened.T, bias=True), projected, atol=1e-4 * scale**2)
    few = rb.draw_rados(release, 3).rados  # fewer than columns: only their law has these moments
    assert few.shape == (3, 4) and np.isfinite(few).all()


def test_drawing_changes_nothing_but_the_rados(release, tmp_path):
    drawn = rb.draw_rados(release, 20, random_state=1)
    assert list(drawn.blocks) == ["rados", *release.blocks]
    assert all(drawn.blocks[name].tobytes() == rows.tobytes() for name, rows in release.blocks.items())
    assert (drawn.id, drawn.statement, drawn.mechanism) == (release.id, release.statement, release.mechanism)
    assert np.abs(rado_integers(drawn)).max() <= 2**22  # on the grid that the columns name
    assert not np.signbit(drawn.rados[drawn.rados == 0]).any()
    drawn.save(tmp_path / "drawn.rado.parquet")
    assert rb.load(tmp_path / "drawn.rado.parquet").rados.tobytes() == drawn.rados.tobytes()
    # One release and what was drawn from it are one release to an accountant.
    x, y = np.zeros((4, 3)), [0, 1, 0, 1]
    composed = flat.craft(x, y, mechanism=rb.Moments(1.0), compose=[release, drawn], **DECLARED).statement.composed
    assert composed["earlier_releases"] == 1


def test_the_random_state_decides_the_draw(release):
    once, again, other, free = (
        rb.draw_rados(release, 5, random_state=state).rados.tobytes() for state in (3, np.int64(3), 4, None)
    )
    assert once == again and len({once, other, free}) == 3
    old = rb.draw_rados(release, 5, np.random.RandomState(0)).rados.tobytes()
    assert old == rb.draw_rados(release, 5, np.random.RandomState(0)).rados.tobytes()
    assert once == rb.draw_rados(release, 5, np.random.default_rng(3)).rados.tobytes()
    for wrong in (-1, True, "seed", 1.5):
        with pytest.raises(rb.ArgumentError, match="random_state must be"):
            rb.draw_rados(release, 5, wrong)
    for wrong in (0, True, 2.0):
        with pytest.raises(rb.ArgumentError, match="n_rados must be"):
            rb.draw_rados(release, wrong)


def test_only_moments_are_drawn_from(examples, release):
    with pytest.raises(rb.ReleaseError, match="only releases of the mechanism moments"):
        rb.draw_rados(rb.craft(*examples, n_rados=5))
    singular = {**release.blocks, "whitening": np.zeros((4, 4))}
    with pytest.raises(rb.ReleaseError, match="not such that rados could be drawn"):
        rb.draw_rados(dataclasses.replace(release, blocks=singular))


def test_boosting_draws_and_says_so(examples, release, saved):
    x, y = examples
    clf = rb.RadoBoostClassifier(n_rounds=50, random_state=0).fit_rados(release)
    assert clf.model_.learner["drawn_rados"] == 1000 and clf.release_ is release
    assert clf.score(x, y) > 0.75
    assert "drawn rados 1000" in describe_model(clf.model_)
    again = rb.RadoBoostClassifier(n_rounds=50, random_state=0).fit_rados(saved)
    assert again.model_.to_json() == clf.model_.to_json()
    fewer = rb.RadoBoostClassifier(n_rounds=50, n_rados=60, weak="prudential").fit_rados(release)
    assert fewer.model_.learner["drawn_rados"] == 60
    by_hand = rb.RadoBoostClassifier(n_rounds=50).fit_rados(rb.draw_rados(release, random_state=0))
    assert by_hand.model_.theta.tobytes() == clf.model_.theta.tobytes()
    assert "drawn_rados" not in by_hand.model_.learner
    with pytest.raises(rb.ReleaseError, match="one rado only"):
        rb.RadoBoostClassifier(n_rados=1).fit_rados(release)


def test_shells_craft_without_rados_too(examples):
    x, y = examples
    declared = {"mechanism": rb.Moments(3.0), "classes": (0, 1), "schema": [[-3, 3]] * 3}
    moments = rb.MomentsClassifier(**declared).fit(x, y)
    assert moments.release_.n_rados == 0 and moments.score(x, y) > 0.75
    assert rb.MomentsClassifier(n_rados=30).fit(x, y).release_.n_rados == 30
    assert rb.MomentsClassifier().fit(x, y).release_.n_rados == 1000


def test_it_is_described_as_what_it_is(release, examples):
    assert describe_release(release).startswith("moments of 4 features, from an undisclosed number of examples\n")
    model = rb.MomentsClassifier().fit_rados(release).model_
    assert "from         moments of an undisclosed number of examples" in describe_model(model)
    facts = make_release_report(release, "m.rado.parquet").facts
    assert facts["holds"] == "moments of 4 columns" and facts["mechanism"] == "moments"
    assert "all rados drawn from it" in release.statement.promises[0]


def test_attacks_work_or_refuse_in_one_line(release, examples):
    assert membership_of_release(release, runs=1000, key=bytes(32), seconds=1).sentence()  # it runs, whatever it gets
    for attack in (
        lambda: reconstruct(release, 0, 2000),
        lambda: recover_release_column(release, 0, 2000),
        lambda: probe_rows_of_table(release, *examples),
        lambda: rado_integers(release),
    ):
        with pytest.raises(rb.RadoError) as caught:
            attack()
        assert "\n" not in str(caught.value)


def test_the_report_speaks_of_no_rados_where_there_are_none(release):
    unlucky = membership_of_release(release, seconds=1e-3).sentence()
    assert unlucky.startswith("Unknown: there was time for") and unlucky.endswith("give it more time with --seconds.")
    for made in (release, rb.draw_rados(release, 20, 0)):
        for name in ("confounder", "hardness"):
            attempt = _attempt_attack(_attack_module(name), AttackInputs(made, "m.rado.parquet"), 1.0, silent)
            assert attempt.group == NOT_HERE and attempt.document is None  # nor a study
            assert attempt.sentence.startswith("The release has noisy moments, and no rados that are sums")
    plain = rb.craft([[0.0], [1.0]], [0, 1], n_rados=3)
    attempt = _attempt_attack(_attack_module("hardness"), AttackInputs(plain, "p.rado.parquet"), 1.0, silent)
    assert attempt.group == NEEDS and attempt.sentence.startswith("It would need candidates for the 2 records")


def test_a_file_without_rados_must_have_moments(saved, tmp_path, examples):
    def claim_sums(document):
        document["mechanism"] |= {"name": "plain", "law": "sums"}

    resealed(saved, lambda document: None)
    assert rb.load(saved).law == "noisy moments"
    resealed(saved, claim_sums)
    with pytest.raises(rb.ReleaseError, match="no rados, and no moments"):
        rb.load(saved)


def test_a_file_of_moments_must_have_all_of_them(release, saved):
    kept = {name: rows for name, rows in release.blocks.items() if name != "moment:b"}
    dataclasses.replace(release, blocks=kept).save(saved)
    with pytest.raises(rb.ReleaseError, match="no rados, and no moments"):
        rb.load(saved)


def test_the_command_line(release, saved, tmp_path, examples):
    run = CliRunner().invoke
    options = [
        "--learner",
        "boost",
        "--set",
        "n_rounds=20",
        "--set",
        "random_state=1",
        "--json",
        "-o",
        str(tmp_path / "m.model.json"),
    ]
    result = run(app, ["learn", str(saved), *options])
    assert result.exit_code == 0, result.output
    assert "the release has no rados, so 1,000 were drawn from its moments" in result.stderr
    assert json.loads(result.stdout)["learner"]["drawn_rados"] == 1000
    refused = run(app, ["learn", str(saved), "--seed", "1"])
    assert refused.exit_code != 0
    table = tmp_path / "t.csv"
    x, y = examples
    rows = [f"{','.join(map(str, row))},{label}" for row, label in zip(x[:200].tolist(), y[:200].tolist(), strict=True)]
    table.write_text("a,b,c,ill\n" + "\n".join(rows) + "\n")
    schema = write_schema(tmp_path / "schema.json", dict.fromkeys("abc", (-3, 3)))
    private = ["--epsilon", "1", "--schema", str(schema), "--classes", "0,1", "--quiet"]
    for given, wanted in (([], 0), (["-n", "12"], 12)):
        place = tmp_path / f"{wanted}.rado.parquet"
        made = run(app, ["craft", str(table), "--label", "ill", *private, *given, "-o", str(place)])
        assert made.exit_code == 0, made.output
        assert rb.load(place).n_rados == wanted
        assert ("rados" in pq.read_table(place).column("block").to_pylist()) == bool(wanted)


def test_the_statement_holds_for_what_is_drawn(release):
    """No figure of a statement depends on how many rados there are."""
    assert read_statement(rb.draw_rados(release, 50_000).statement.to_dict()) == release.statement


@pytest.mark.filterwarnings("ignore::radoboost.BudgetWarning")
@pytest.mark.parametrize("n_rados", [None, 50])
def test_a_seed_of_a_fit_is_for_drawn_rados_alone(examples, n_rados):
    options = {"schema": DECLARED["bounds"], "classes": (0, 1), "columns": "linear", "n_rados": n_rados}
    clf = rb.RadoBoostClassifier(mechanism=rb.Moments(3.0), random_state=3, n_rounds=20, **options).fit(*examples)
    made = clf.release_
    assert made.n_rados == (n_rados or 0) and made.statement.epsilon <= 3.0
    rados = rb.draw_rados(made, n_rados or 1000, 3)
    again = rb.RadoBoostClassifier(n_rounds=20).fit_rados(rados)
    assert again.model_.theta.tobytes() == clf.model_.theta.tobytes()
    other = rb.RadoBoostClassifier(n_rounds=20).fit_rados(rb.draw_rados(made, n_rados or 1000, 4))
    assert other.model_.theta.tobytes() != clf.model_.theta.tobytes()
    fitted = rb.MomentsClassifier(mechanism=rb.Moments(3.0), random_state=3, **options).fit(*examples)
    assert (fitted.release_.blocks["moment:b"] != made.blocks["moment:b"]).any()  # noise is never fixed
