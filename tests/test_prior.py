"""A class prior: log odds move by log(new odds / old odds), wherever they come from."""

import json

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit

import flat
import radoboost as rb
from radoboost.learner.probabilities import ProbabilityLink, class_shares_of_prior

COLUMNS = (rb.Column("x0", "standard", step=2.0**-20, mean=1.0, std=2.0), rb.Column("(constant)", "constant", step=1.0))
X = np.linspace(-30, 30, 61)[:, None]


def hand_made(link=None, columns=COLUMNS):
    return rb.Model(np.array([1.5, -0.2])[: len(columns)], columns, ("no", "yes"), {"name": "by hand"}, link=link)


LINKS = [None, ProbabilityLink(up=1.2, down=0.7, bend=0.0), ProbabilityLink(up=1.2, down=0.7, bend=0.02, scale=3.0)]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("prior", [0.05, {"yes": 0.9}, {"no": 0.35, "yes": 0.65}])
def test_log_odds_move_by_the_same_everywhere(link, prior):
    model = hand_made(link)
    moved = model.with_prior(prior, old={"yes": 0.4})
    new = class_shares_of_prior(prior, ("no", "yes"))[1]
    expected = np.log(new / (1 - new)) - np.log(0.4 / 0.6)
    before, after = (own.log_odds(own.scores(X)) for own in (model, moved))
    np.testing.assert_allclose(after - before, expected, atol=1e-12)
    clear = np.abs(after) > 1e-9
    np.testing.assert_array_equal((moved.predict(X) == "yes")[clear], (moved.predict_proba(X)[:, 1] > 0.5)[clear])
    assert moved.learner["prior"] == {"no": pytest.approx(1 - new), "yes": pytest.approx(new)}


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.sampled_from(LINKS[:2]))
def test_priors_compose(first, second, old, link):
    """From the table to one population and on to another is the same as at once, and back is where it was."""
    model = hand_made(link)
    twice, once = model.with_prior(first, old).with_prior(second, first), model.with_prior(second, old)
    np.testing.assert_allclose(twice.predict_proba(X), once.predict_proba(X), atol=1e-9)
    back = model.with_prior(first, old).with_prior(old, first)
    np.testing.assert_allclose(back.predict_proba(X), model.predict_proba(X), atol=1e-9)


def test_a_bent_link_has_limits():
    model = hand_made(ProbabilityLink(up=1.0, down=1.0, bend=0.25))
    with pytest.raises(rb.ArgumentError, match="every row would be of one class"):
        model.with_prior(0.001, 0.5)
    assert model.with_prior(0.2, 0.5).link.limits[1] == pytest.approx(2 + logit(0.2))


def test_more_than_two_classes():
    theta = np.array([[1.0, 0.2], [0.0, 0.0], [-1.0, 0.4]])
    model = rb.Model(theta, COLUMNS, ("a", "b", "c"), {"name": "by hand"})
    old, new = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    moved = model.with_prior({"a": 0.1, "c": 0.7}, old.tolist())
    expected = model.predict_proba(X) * new / old
    np.testing.assert_allclose(moved.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"signatures": rb.FixedSupport(0.3)},
        {"mechanism": rb.FeatureBand("x1", epsilon=1.0, delta=0.1), "n_rados": 100},
        {"columns": "degree-2"},
        {"mechanism": rb.Moments(epsilon=2.0), "bounds": [(-5, 5), (0, 1)], "classes": ("no", "yes")},
    ],
    ids=["plain", "fixed", "band", "degree-2", "moments"],
)
def test_a_release_tells_the_shares(options):
    """Within 8 deviations, by chance of rados or of noise on 12 counts: a false alarm has a probability below 1e-14."""
    rng = np.random.default_rng(0)
    yes = rng.random(5000) < 0.23
    x = np.column_stack([rng.normal(size=5000) + yes, rng.integers(0, 2, 5000)])
    release = flat.craft(x, np.where(yes, "yes", "no"), **options)
    shares = rb.class_shares(release)
    deviation = 1 / (2 * np.sqrt(5000 * 100))
    if "scores" in release.blocks:
        deviation = np.sqrt(12) * release.mechanism["noise"]["scores"] / 5000
        assert deviation < 0.05
    assert shares[1] == pytest.approx(yes.mean(), abs=8 * deviation)
    assert sum(shares) == pytest.approx(1)


def test_the_shares_of_many_classes():
    rng = np.random.default_rng(0)
    y = rng.choice(["a", "b", "c"], 3000, p=[0.6, 0.3, 0.1])
    x = rng.normal(size=(3000, 2)) + (y == "c")[:, None]
    release = rb.craft(x, y, seed=1)
    np.testing.assert_allclose(rb.class_shares(release), [(y == value).mean() for value in "abc"], atol=0.005)
    uniform = rb.MomentsClassifier(prior={"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}).fit_rados(release)
    assert (uniform.predict(x) == "c").sum() > (rb.MomentsClassifier().fit_rados(release).predict(x) == "c").sum()


def test_a_population_with_other_shares_is_predicted_better():
    """Log loss where one in fifty is positive, from a table in which every second one is."""
    rng = np.random.default_rng(0)

    def rows(n, share):
        y = rng.random(n) < share
        return rng.normal(size=(n, 2)) + 1.2 * y[:, None], y

    x, y = rows(5000, 0.5)
    test, truth = rows(20_000, 0.02)
    losses = []
    for prior in (None, 0.02):
        shell = rb.RadoBoostClassifier(prior=prior, random_state=1, n_rounds=200).fit(x, y)
        p = shell.predict_proba(test)[np.arange(len(test)), truth.astype(int)]
        losses.append(-np.log(p).mean())
    assert losses[1] < losses[0] / 2


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (0.0, "above 0"), (1.0, "above 0"), (float("nan"), "above 0"), ("much", "share"), ({"maybe": 0.5}, "classes"),
        ({"no": 0.5, "yes": 0.6}, "add up"), ({}, "above 0"),
    ],
)  # fmt: skip
def test_other_priors_are_refused(prior, words):
    with pytest.raises(rb.ArgumentError, match=words):
        hand_made().with_prior(prior, 0.5)


def test_what_cannot_be_shifted_is_refused():
    with pytest.raises(rb.ModelError, match="no constant column"):
        hand_made(columns=COLUMNS[:1]).with_prior(0.1, 0.5)
    x, y = np.arange(40.0)[:, None], np.arange(40) % 2
    for options in (
        {"intercept": False},
        {"mechanism": rb.NoisyRados(1.0), "bounds": [(0, 40)], "classes": (0, 1)},
    ):
        with pytest.raises(rb.ReleaseError, match="does not tell which share"):
            rb.class_shares(flat.craft(x, y, n_rados=20, counts=None, **options))
    with pytest.raises(rb.ArgumentError, match="of 3 classes"):
        class_shares_of_prior(0.2, ("a", "b", "c"))
    with pytest.raises(rb.ArgumentError, match="'b', 'c'"):
        class_shares_of_prior({"a": 0.2}, ("a", "b", "c"))
    with pytest.raises(rb.ArgumentError, match="each but one"):
        class_shares_of_prior({"a": 0.5, "b": 0.7}, ("a", "b", "c"))


def test_a_class_without_rows_is_named_with_the_way_out():
    release = rb.craft(np.arange(40.0)[:, None], np.arange(40) % 2, classes=(0, 1, 2), n_rados=20)
    with pytest.raises(rb.ReleaseError, match=r"no rows have the class 2, .* model\.with_prior\(new, old\)"):
        rb.class_shares(release)


def test_a_shifted_link_is_kept_and_exported(tmp_path):
    model = hand_made(LINKS[2]).with_prior(0.1, 0.5)
    model.save(tmp_path / "a.model.json")
    document = json.loads((tmp_path / "a.model.json").read_text())
    assert set(document["link"]) >= {"origin", "offset"}
    loaded = rb.load_model(tmp_path / "a.model.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    names = {"__name__": "exported"}
    exec(compile(rb.export(model, "python"), "exported.py", "exec"), names)
    by_python = [names["probabilities"]({"x0": value})["yes"] for value in X.ravel().tolist()]
    np.testing.assert_allclose(by_python, model.predict_proba(X)[:, 1], atol=1e-12)
    table = pa.table({"x0": X.ravel()})
    with duckdb.connect() as connection:
        connection.register("t", table)
        answers = connection.sql(rb.export(model, "sql", table="t", keep=["x0"])).to_arrow_table().sort_by("x0")
    np.testing.assert_allclose(answers["probability"].to_numpy(), model.predict_proba(X)[:, 1], atol=1e-12)
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(rb.export(model, "onnx"), providers=["CPUExecutionProvider"])
    by_onnx = session.run(["probabilities"], {"x0": X})[0]
    np.testing.assert_allclose(by_onnx, model.predict_proba(X), atol=1e-12)
    assert set(hand_made(LINKS[2]).to_dict()["link"]) == {"up", "down", "bend", "scale"}


def test_the_command(rado, tmp_path):
    rng = np.random.default_rng(0)
    yes = rng.random(600) < 0.5
    rb.craft(rng.normal(size=(600, 1)) + yes[:, None], np.where(yes, "yes", "no"), seed=1).save(
        tmp_path / "a.rado.parquet"
    )
    plain, moved = tmp_path / "plain.model.json", tmp_path / "moved.model.json"
    assert rado("learn", tmp_path / "a.rado.parquet", "-o", plain)[0] == 0
    for given_prior in ("0.1", "yes=0.1"):
        assert rado("learn", tmp_path / "a.rado.parquet", "--prior", given_prior, "-o", moved, "--force")[0] == 0
        difference = rb.load_model(moved).intercept - rb.load_model(plain).intercept
        assert difference == pytest.approx(logit(0.1), abs=0.2)
    for wrong, words in (("maybe=0.1", "prior names the class 'maybe'"), ("few", "--prior takes a share")):
        code, _, complaint = rado("learn", tmp_path / "a.rado.parquet", "--prior", wrong, "-o", tmp_path / "none.json")
        assert code == 1 and words in complaint and not (tmp_path / "none.json").exists()
