"""Whole weights as repetition: the bits of the table in which row i stands weights[i] times."""

import warnings
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import flat
import radoboost as rb
from radoboost.holder.engines import ENGINES
from radoboost.tables import open_table, opening
from radoboost.tables.weights import repeat_by_weight


@st.composite
def weighted(draw):
    """Rows of two columns, labels and weights; both classes stay."""
    m = draw(st.integers(8, 120))
    x = np.array(draw(st.lists(st.floats(-1e3, 1e3), min_size=2 * m, max_size=2 * m))).reshape(m, 2)
    x[np.abs(x) < 300] = 0
    y = np.array(draw(st.lists(st.sampled_from([0, 1]), min_size=m, max_size=m)))
    w = np.array(draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 70]), min_size=m, max_size=m)))
    y[:8], w[:8] = [0, 1] * 4, np.maximum(w[:8], 1)
    return x, y, w


FORMS = ("array", "list", "sparse", "frame", "column", "csv", "parquet", "pandas with drop")


@settings(max_examples=40)
@given(
    weighted(),
    st.sampled_from(FORMS),
    st.sampled_from(["standard", None, "bounds"]),
    st.sampled_from([None, rb.FixedSupport(5)]),
    st.sampled_from(ENGINES),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 64, 8192]),
)
def test_weights_give_the_bits_of_the_repeated_table(
    tmp_path_factory, table, form, scale, subsets, engine, threads, slice_rows
):
    x, y, w = table
    bounds = {"x0": (-500.0, 400.0), "x1": (100.0, 200.0)} if scale == "bounds" else None
    options = {"n_rados": 20, "seed": 4, "scale": scale, "signatures": subsets, "bounds": bounds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rb.ClippedWarning)
        try:
            expected = flat.craft(np.repeat(x, w, axis=0), np.repeat(y, w), **options)
        except rb.TableError:
            return
        frame = pd.DataFrame({"w": w, "x0": x[:, 0], "y": y, "x1": x[:, 1]})
        place = tmp_path_factory.mktemp("weights")
        how = {**options, "engine": engine, "threads": threads}
        with mock.patch.object(opening, "SLICE_ROWS", slice_rows), mock.patch.object(opening, "SPARSE_SHARE", 0):
            if form in ("array", "list", "sparse"):
                given_weights = w.astype(float) if form == "array" else w.tolist()
                rows = sparse.csr_array(x) if form == "sparse" else x
                release = flat.craft(rows, y, weights=given_weights, **how)
            elif form == "frame":
                release = flat.craft(frame.drop(columns="w"), label="y", weights=w, **how)
            elif form == "column":
                release = flat.craft(pa.table(frame), label="y", weights="w", **how)
            elif form == "csv":
                frame.to_csv(place / "t.csv", index=False)
                release = flat.craft(place / "t.csv", label="y", weights="w", **how)
            elif form == "parquet":
                pq.write_table(pa.table(frame), place / "t.parquet", row_group_size=7)
                release = flat.craft([place / "t.parquet"], label="y", weights="w", **how)
            else:
                schema = rb.Schema({"x0": rb.Number(), "x1": rb.Number(), "w": rb.Number()})
                if bounds is not None:
                    return
                release = flat.craft(frame, label="y", weights="w", schema=schema, missing="drop", **how)
    assert release.rados.tobytes() == expected.rados.tobytes()
    assert release.columns == expected.columns
    assert release.n_examples == expected.n_examples == w.sum()
    assert release.statement.to_dict()["epsilon"] == expected.statement.to_dict()["epsilon"]


def test_weights_and_rows_that_are_left_out_for_a_gap():
    table = {"a": [1.0, None, 3.0, 4.0, 5.0], "w": [2, 9, 0, 1, 3], "y": [0, 1, 0, 1, 1]}
    options = {"label": "y", "n_rados": 5, "seed": 1, "missing": "drop"}
    expected = rb.craft(np.array([[1.0], [1.0], [4.0], [5.0], [5.0], [5.0]]), [0, 0, 1, 1, 1, 1], n_rados=5, seed=1)
    for how in ({"table": table, "weights": "w"}, {"table": table, "weights": table["w"], "drop": ["w"]}):
        with pytest.warns(rb.SchemaWarning):
            release = flat.craft(how.pop("table"), **how, **options)
        assert release.rados.tobytes() == expected.rados.tobytes()


def test_a_feature_map_sees_the_repeated_table():
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(60, 2)), rng.integers(0, 2, 60), rng.integers(0, 4, 60)
    releases = [
        flat.craft(rows, labels, n_rados=9, seed=1, columns="degree-2", weights=weights)
        for rows, labels, weights in ((x, y, w), (np.repeat(x, w, axis=0), np.repeat(y, w), None))
    ]
    assert releases[0].rados.tobytes() == releases[1].rados.tobytes()


def test_memory_does_not_grow_with_weights():
    """Batches of copies are cut, and the rows that they are made of are converted once."""
    source = open_table(np.arange(12.0).reshape(6, 2), [0, 1] * 3)
    batches = repeat_by_weight(source, [1, 0, 10**6, 0, 2, 1]).batches(4096)
    sizes = [(batch.n_rows, batch.values().shape) for batch in batches]
    assert max(rows for rows, _ in sizes) == 4096 and sum(rows for rows, _ in sizes) == 10**6 + 4
    assert all(shape == (rows, 2) for rows, shape in sizes)


def test_places_are_those_of_the_table():
    x = np.array([[1.0], [2.0], [np.inf], [4.0]])
    with pytest.raises(rb.TableError, match=r"infinite value \(row 3\)"):
        flat.craft(x, [0, 1, 0, 1], weights=[3, 1, 2, 1], n_rados=2)
    x[2] = 3.0
    flat.craft(x, [0, 1, 0, 1], weights=[3, 1, 2, 1], n_rados=2)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (0.5, r"a weight is 0\.5 \(row 2\)"),
        (-1, r"a weight is -1.* \(row 2\)"),
        (None, r"a weight is missing \(row 2\)"),
        (np.inf, r"a weight is inf \(row 2\)"),
        ("many", r"a weight is 'many' \(row 2\)"),
        (2**31, r"a weight is 2147483648.* \(row 2\)"),
    ],
)
def test_other_weights_are_refused_by_their_row(weight, words):
    x, y, weights = [[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1], [1, weight, 1, 1]
    with pytest.raises(rb.TableError, match=words):
        flat.craft(x, y, weights=weights, n_rados=2)
    if isinstance(weight, str):
        weights = [str(weight) for weight in weights]
    with pytest.raises(rb.TableError, match=words):
        rb.craft(
            {"x": [1.0, 2.0, 3.0, 5.0], "w": pa.array(weights, from_pandas=False)},
            y,
            n_rados=2,
            schema=rb.Schema(weights="w"),
        )


def test_weights_that_do_not_fit_are_refused():
    x, y = [[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1]
    with pytest.raises(rb.TableError, match="3 weights and 4 rows"):
        flat.craft(x, y, weights=[1, 1, 1], n_rados=2)
    with pytest.raises(rb.ArgumentError, match="one dimension"):
        flat.craft(x, y, weights=np.ones((4, 1)), n_rados=2)
    with pytest.raises(rb.TableError, match="every weight is zero"):
        flat.craft(x, y, weights=np.zeros(4), n_rados=2)
    with pytest.raises(rb.TableError, match="has no rows"):
        rb.craft({"x": [1.0, 2.0], "w": [0, 0]}, [0, 1], n_rados=2, schema=rb.Schema(weights="w"))
    with pytest.raises(rb.TableError, match="has no column 'w'"):
        rb.craft({"x": [1.0, 2.0]}, [0, 1], n_rados=2, schema=rb.Schema(weights="w"))
    with pytest.raises(rb.TableError, match="one class only"):
        flat.craft(x, y, weights=[1, 0, 1, 0], n_rados=2)
    with pytest.raises(rb.TableError, match="add up to more than"):
        flat.craft(x, y, weights=[2**31 - 1] * 4, n_rados=2)


@pytest.mark.parametrize(
    "mechanism", [rb.Moments(1.0), rb.NoisyRados(1.0), rb.NoisyExamples(1.0), rb.FeatureBand("x0", 1.0)]
)
def test_a_promise_about_one_record_takes_no_weights(mechanism):
    """Before the table is opened."""
    with pytest.raises(rb.ArgumentError, match=f"the promise of {mechanism.name} is for one record"):
        rb.craft(
            "nowhere.csv",
            label="y",
            classes=(0, 1),
            mechanism=mechanism,
            schema=replace(rb.Schema.of({"x0": (0, 1)}), weights="w"),
        )


@pytest.mark.parametrize("shell", [rb.RadoBoostClassifier, rb.MomentsClassifier])
def test_shells_take_whole_weights(shell):
    rng = np.random.default_rng(1)
    x, y, w = rng.normal(size=(80, 3)), rng.integers(0, 2, 80), rng.integers(0, 4, 80)
    fits = [
        shell(n_rados=50, random_state=1).fit(rows, labels, sample_weight=weights)
        for rows, labels, weights in ((x, y, w), (np.repeat(x, w, axis=0), np.repeat(y, w), None))
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    with pytest.raises(ValueError, match=r"a weight is 0\.5 \(row 80\)"):
        shell().fit(x, y, sample_weight=np.append(np.ones(79), 0.5))
    with pytest.raises(rb.ArgumentError, match="the promise of moments is for one record"):
        shell(mechanism=rb.Moments(1.0), classes=(0, 1), schema=[(-4, 4)] * 3).fit(x, y, sample_weight=w)


def test_the_command(rado, tmp_path):
    frame = pd.DataFrame({"w": [2, 0, 1, 3], "x": [1.0, 9.0, 2.0, 4.0], "y": ["no", "yes", "no", "yes"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    place = tmp_path / "t.rado.parquet"
    assert (
        rado("craft", tmp_path / "t.csv", "--label", "y", "--set", "weights=w", "-n", 9, "--seed", 1, "-o", place)[0]
        == 0
    )
    again = frame.loc[frame.index.repeat(frame.w)].drop(columns="w")
    assert rb.load(place).rados.tobytes() == rb.craft(again, label="y", n_rados=9, seed=1).rados.tobytes()
    frame.assign(w=[1, 1, 0.5, 1]).to_csv(tmp_path / "t.csv", index=False)
    other = tmp_path / "other.rado.parquet"
    code, _, words = rado("craft", tmp_path / "t.csv", "--label", "y", "--set", "weights=w", "-n", 9, "-o", other)
    assert code == 1 and "a weight is 0.5 (line 4 of t.csv)" in words.replace(f"{tmp_path}/", "") and not other.exists()
