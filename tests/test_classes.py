"""More than two classes: plain releases of them, and models over them."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import flat
import radoboost as rb
from radoboost.learner.model import Model
from radoboost.tables.labels import LabelEncoder


def table(seed, n_rows, n_classes):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)])
    return rng.normal(size=(n_rows, 3)), rng.permutation(labels)


@given(st.integers(0, 99), st.integers(5, 200), st.integers(3, 5), st.sampled_from(["standard", None]))
def test_classes_add_up_to_the_rados_of_one_against_the_others(seed, n_rows, n_classes, scale):
    values, labels = table(seed, n_rows, n_classes)
    many = rb.craft(values, labels, n_rados=9, seed=seed, mechanism=rb.Plain(scale=scale))
    for place in range(n_classes):
        two = rb.craft(values, (labels == place).astype(int), n_rados=9, seed=seed, mechanism=rb.Plain(scale=scale))
        others = sum(many.blocks[f"class:{k}"] for k in range(n_classes) if k != place)
        np.testing.assert_array_equal(many.blocks[f"class:{place}"] - others, two.rados)


@pytest.mark.parametrize("engine", ["reference", "kernel"])
@pytest.mark.parametrize("signatures", [None, rb.FixedSupport(0.3)])
def test_engines_threads_and_batches_do_not_change_a_bit(engine, signatures):
    values, labels = table(3, 20_000, 4)
    first = rb.craft(values, labels, n_rados=5, seed=1, signatures=signatures, compute=rb.Compute(threads=1))
    again = rb.craft(
        values, labels, n_rados=5, seed=1, signatures=signatures, compute=rb.Compute(engine=engine, threads=2)
    )
    for name, rows in first.blocks.items():
        np.testing.assert_array_equal(rows, again.blocks[name])


def test_a_release_of_many_classes_is_read_as_it_was_written(tmp_path):
    values, labels = table(0, 50, 3)
    release = rb.craft(values, np.array(["low", "middle", "high"])[labels], n_rados=3)
    assert release.classes == ("high", "low", "middle") and release.n_rados == 3
    release.save(tmp_path / "a.rado.parquet")
    again = rb.load(tmp_path / "a.rado.parquet")
    assert again.classes == release.classes and list(again.blocks) == ["class:high", "class:low", "class:middle"]
    for name, rows in release.blocks.items():
        np.testing.assert_array_equal(rows, again.blocks[name])
    with pytest.raises(rb.ReleaseError, match=r"release\.blocks has what there is for each class"):
        again.rados
    short = replace(release, blocks={**release.blocks, "class:low": release.blocks["class:low"][:2]})
    short.save(tmp_path / "short.rado.parquet")
    with pytest.raises(rb.ReleaseError, match="different numbers of rados"):
        rb.load(tmp_path / "short.rado.parquet")
    bare = replace(release, blocks={name: release.blocks[name] for name in ("class:high", "class:low")})
    bare.save(tmp_path / "bare.rado.parquet")
    with pytest.raises(rb.ReleaseError, match="no rados"):
        rb.load(tmp_path / "bare.rado.parquet")


def test_labels_have_places():
    rule = LabelEncoder("y", (3, 5, 9))
    assert rule.places(pa.array(["9", "3.0", " 5"])).tolist() == [2, 0, 1]
    assert rule.places_or_none(pa.array([9, None, 4])).tolist() == [2, -1, -1]
    with pytest.raises(rb.TableError, match="which is not one of the declared classes 3, 5 and 9"):
        rule.places(pa.array([3, 4]))


@pytest.mark.parametrize("mechanism", [rb.NoisyRados(1.0), rb.NoisyExamples(1.0)])
def test_mechanisms_with_a_sign_for_each_row_refuse_more_than_two_classes(mechanism):
    values, labels = table(0, 50, 3)
    with pytest.raises(rb.ArgumentError, match="is for two classes, and there are 3"):
        rb.craft(values, labels, mechanism=mechanism, classes=(0, 1, 2), schema=[(-4, 4)] * 3)


def test_a_band_refuses_more_than_two_classes():
    values, labels = table(0, 400, 3)
    values[:, 0] = values[:, 0] > 0
    with pytest.raises(rb.ArgumentError, match="feature-band is for two classes, and there are 3"):
        rb.craft(values, labels, mechanism=rb.FeatureBand("x0", 4.0), n_rados=2)


def hand_made():
    values, labels = table(0, 50, 3)
    release = rb.craft(values, labels, n_rados=3, seed=0)
    theta = np.random.default_rng(1).normal(size=(3, 4))
    return values, Model.from_release(release, theta, {"name": "by hand"})


def test_a_model_of_many_classes_takes_the_largest_score(tmp_path):
    values, model = hand_made()
    scores = model.scores(values)
    expected = values @ model.coef.T + model.intercept
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)
    assert model.predict(values).tolist() == np.argmax(scores, axis=1).tolist()
    probabilities = model.predict_proba(values)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.log(probabilities[:, 0] / probabilities[:, 2]), scores[:, 0] - scores[:, 2])
    model.save(tmp_path / "a.model.json")
    again = rb.load_model(tmp_path / "a.model.json")
    np.testing.assert_array_equal(again.theta, model.theta)
    assert again.classes == (0, 1, 2)
    assert model.scores(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(classes=["a", "b", "a"]), "different"),
        (lambda d: d["columns"][0].update(theta=[1.0, 2.0]), "incomplete"),
        (lambda d: d["columns"][0].update(theta=[1.0, 2.0, "x"]), "number"),
    ],
)
def test_a_model_that_is_not_whole_is_refused(tmp_path, change, words):
    _, model = hand_made()
    document = model.to_dict()
    change(document)
    place = tmp_path / "a.model.json"
    place.write_text(json.dumps(document))
    with pytest.raises(rb.ModelError, match=words):
        rb.load_model(place)


@given(st.integers(0, 99), st.integers(5, 150), st.integers(3, 5), st.sampled_from(["standard", None]))
def test_sparse_rows_of_classes_have_the_bits_of_dense_ones(seed, n_rows, n_classes, scale):
    values, labels = table(seed, n_rows, n_classes)
    values[np.abs(values) < 1] = 0
    for engine in ("reference", "kernel"):
        options = {"n_rados": 9, "seed": seed, "scale": scale, "engine": engine}
        dense, entries = (flat.craft(form, labels, **options) for form in (values, sparse.csr_array(values)))
        for name, rows in dense.blocks.items():
            np.testing.assert_array_equal(rows, entries.blocks[name])
