"""Releases whose columns a feature map makes: the bits of the oracle, in every form of table, and of prediction."""

import json
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import oracles
import radoboost as rb
from radoboost.cli import app
from radoboost.errors import ArgumentError, ReleaseError, TableError
from radoboost.holder.curator import Curator
from radoboost.holder.engines import get_engine
from radoboost.holder.feature_maps import (
    check_feature_map_argument,
    make_feature_map,
    make_map_terms,
    number_of_map_columns,
)
from radoboost.holder.keystream import make_key
from radoboost.holder.mechanisms.record_level import clip_record_rows
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.release.columns import Column
from radoboost.release.feature_map import FeatureMap, Input, Term
from radoboost.report.describe import describe_model, describe_release
from radoboost.tables import open_table

MAPS = ["degree-2", "degree-4"]
BY_COLUMN = {"x0": ["linear", "x0^2", "x0*x1"], "x1": "signed-log", "x2": ["linear", "signed-log", "x2^2"]}
BOUNDS = {"x0": (-2.0, 2.0), "x1": (-1.0, 3.0), "x2": (0.0, 0.1)}
MECHANISMS = (rb.Moments(epsilon=8.0), rb.NoisyRados(epsilon=8.0), rb.NoisyExamples(epsilon=8.0))


def table(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 3)) * [1.0, 2.0, 0.05] + [0.0, 1.0, 0.05]
    return values, (values[:, 0] + values[:, 1] ** 2 + rng.normal(size=rows) > 2).astype(int)


def forms(folder, values, labels):
    """The same table as an array, frames and files."""
    columns = {f"x{k}": values[:, k] for k in range(values.shape[1])} | {"y": labels}
    arrow = pa.table(columns)
    pq.write_table(arrow, folder / "t.parquet", row_group_size=37)
    arrow.to_pandas().to_csv(folder / "t.csv", index=False)
    chunks = pa.concat_tables([arrow.slice(0, 11), arrow.slice(11, 70), arrow.slice(81)])
    return [arrow.to_pandas(), chunks, folder / "t.parquet", folder / "t.csv"]


# ---- the oracle: statistics, map, statistics again, grid and keystream, all in plain Python


@pytest.mark.parametrize("columns", [*MAPS, BY_COLUMN], ids=str)
@pytest.mark.parametrize("scale", ["standard", "bounds"])
def test_rados_are_those_of_the_oracle(columns, scale):
    values, labels = table(rows=70)
    bounds = BOUNDS if scale == "bounds" else None
    with pytest.warns(rb.ClippedWarning) if bounds else np.errstate():
        release = rb.craft(
            values, labels, columns=columns, n_rados=3, seed=5, schema=bounds, mechanism=rb.Plain(scale=scale)
        )
    document = release.map.to_dict()
    for entry in document["inputs"]:
        k = int(entry["name"][1:])
        mean, _, std = oracles.exact_statistics(values[:, k].tolist())
        if scale == "standard":
            assert (entry["shift"], entry["divisor"]) in ((mean, std), (mean, 4 * std))
        else:
            assert (entry["low"], entry["high"]) == BOUNDS[entry["name"]]
    names = ("x0", "x1", "x2")
    rows = [oracles.mapped_row(dict(zip(names, row, strict=True)), document) for row in values.tolist()]
    limits = [(-1.0, 1.0)] * len(rows[0]) if bounds else None
    _, steps, rados = oracles.craft(rows, labels.tolist(), 3, oracles.key_from_seed(5), scale, limits)
    assert [column.step for column in release.columns] == steps
    np.testing.assert_array_equal(release.rados, rados)


@settings(max_examples=6)
@given(seed=st.integers(0, 99), columns=st.sampled_from([*MAPS, BY_COLUMN]))
def test_the_form_of_the_table_and_threads_change_no_bit_of_release_or_prediction(tmp_path_factory, seed, columns):
    values, labels = table(seed=seed)
    release = rb.craft(values, labels, columns=columns, n_rados=40, seed=1, compute=rb.Compute(threads=1))
    model = rb.MomentsClassifier().fit_rados(release).model_
    scores = model.scores(values)
    for form in forms(tmp_path_factory.mktemp("forms"), values, labels):
        for threads, engine in ((1, "auto"), (2, "auto"), (2, "reference")):
            again = rb.craft(
                form, label="y", columns=columns, n_rados=40, seed=1, compute=rb.Compute(engine=engine, threads=threads)
            )
            assert again.map == release.map and again.columns == release.columns
            np.testing.assert_array_equal(again.rados, release.rados)
        np.testing.assert_array_equal(model.decision_function(form), scores)
    pieces = np.concatenate([model.scores(values[k : k + 7]) for k in range(0, len(values), 7)])
    np.testing.assert_array_equal(pieces, scores)


def made(mechanism, source, columns, threads, engine="auto"):
    about = {"label": "y", "classes": (0, 1), "columns": columns, "n_rados": 20}
    asked = replace(CraftRequest.of(BOUNDS, mechanism, **about), signature_key=make_key(1))
    run = Curator(source, get_engine(engine), ThreadRunner(threads), noise_key=bytes(32))
    return mechanism.make(asked, run)


IN_TURN = [(columns, MECHANISMS[k % 3]) for k, columns in enumerate([*MAPS, BY_COLUMN])]


@pytest.mark.parametrize(("columns", "mechanism"), IN_TURN, ids=str)
def test_private_blocks_do_not_depend_on_form_threads_or_engine(tmp_path, mechanism, columns):
    """Under one key of the noise, which is for tests, everything that is released is the same."""
    results = []
    for k, form in enumerate(forms(tmp_path, *table())):
        source = open_table(form, label="y", features=list(BOUNDS), row_by_row=True)
        chosen = check_feature_map_argument(columns, {})
        results.append(made(mechanism, source, chosen, 1 + k % 2, "reference" if k == 3 else "auto"))
    for other in results[1:]:
        assert other.map == results[0].map
        for name, block in results[0].blocks.items():
            if name != "rados" or mechanism.name != "moments":  # those are drawn afresh, from what the others tell
                np.testing.assert_array_equal(other.blocks[name], block)


# ---- bounded outputs, and the linear ones as they were

wide = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(wide, wide, wide), min_size=1, max_size=8), st.sampled_from([*MAPS, BY_COLUMN]))
def test_private_outputs_are_within_one(rows, columns):
    scaled = [Column(name, "bounds", 1.0, *pair) for name, pair in BOUNDS.items()]
    outputs = make_feature_map(check_feature_map_argument(columns, {}), scaled, {}).apply(np.array(rows))
    assert (np.abs(outputs) <= 1.0).all()


@given(st.lists(st.tuples(wide, wide, wide), min_size=1, max_size=8))
def test_linear_terms_contribute_the_integers_that_they_would_without_a_map(rows):
    values, step = np.array(rows), 2.0**-22
    signs = np.ones(len(values), dtype=np.int8)
    scaled = [Column(name, "bounds", step, *pair) for name, pair in BOUNDS.items()]
    feature_map = make_feature_map("degree-2", scaled, {})
    mapped_columns = [Column(name, "bounds", step, -1.0, 1.0) for name in feature_map.output_names]
    plain, _ = clip_record_rows(values, signs, scaled, None, step)
    through, good = clip_record_rows(feature_map.apply(values), signs, mapped_columns, None, step)
    assert good.all()
    np.testing.assert_array_equal(through[:, :3], plain)


def test_a_row_that_is_bad_without_a_map_is_bad_with_any():
    scaled = [Column(name, "bounds", 1.0, *pair) for name, pair in BOUNDS.items()]
    for columns in (*MAPS, BY_COLUMN):
        feature_map = make_feature_map(check_feature_map_argument(columns, {}), scaled, {})
        for odd in (math.nan, math.inf, -math.inf):
            for k in range(3):
                row = np.full((1, 3), 0.05)
                row[0, k] = odd
                assert not np.isfinite(feature_map.apply(row)).all()


# ---- private releases


@pytest.mark.parametrize(("columns", "mechanism"), IN_TURN, ids=str)
def test_private_releases_learn_and_predict_through_a_file(tmp_path, mechanism, columns):
    values, labels = table(rows=400)
    release = rb.craft(
        values, labels, columns=columns, classes=(0, 1), mechanism=mechanism, n_rados=30, counts=None, schema=BOUNDS
    )
    release.save(tmp_path / "a.rado.parquet")
    loaded = rb.load(tmp_path / "a.rado.parquet")
    assert loaded.to_dict() == release.to_dict() and loaded.map == release.map
    assert all((column.low, column.high) == (-1.0, 1.0) for column in release.columns[:-1])
    model = rb.MomentsClassifier().fit_rados(loaded).model_
    model.save(tmp_path / "a.model.json")
    again = rb.load_model(tmp_path / "a.model.json")
    assert again.map == release.map
    np.testing.assert_array_equal(again.scores(values), model.scores(values))
    assert len(again.coef) == len(again.column_names) == len(release.columns) - 1
    assert again.feature_names == ("x0", "x1", "x2")


def test_a_map_costs_its_width_and_nothing_else():
    values, labels = table(rows=400)
    for mechanism in MECHANISMS:
        plain, mapped = (
            rb.craft(
                values,
                labels,
                columns=columns,
                classes=(0, 1),
                mechanism=mechanism,
                counts=None,
                n_rados=9,
                schema=BOUNDS,
            )
            for columns in ("linear", "degree-2")
        )
        width = mapped.rados.shape[1]
        assert (width, plain.rados.shape[1]) == (13 if mechanism.name == "moments" else 10, 4)
        assert mapped.statement.epsilon == pytest.approx(plain.statement.epsilon, rel=1e-6)
        names = [f"w{k}" for k in range(width - 1)]
        wide = rb.craft(
            pa.table({name: np.zeros(400) for name in names} | {"y": labels}),
            label="y",
            classes=(0, 1),
            mechanism=mechanism,
            counts=None,
            n_rados=9,
            schema=dict.fromkeys(names, (-1.0, 1.0)),
        )
        if mechanism.name != "moments":  # how many rounds it takes depends on the noise, and so on the run
            assert wide.statement.event == mapped.statement.event


def test_bounds_that_were_found_become_the_constants_of_the_map():
    values, labels = table(rows=3000)
    release = rb.craft(
        values,
        labels,
        columns={"x0": ["linear", "x0^2"]},
        classes=(0, 1),
        mechanism=rb.Moments(epsilon=8.0),
        counts=None,
        schema="private",
    )
    assert release.mechanism["searched"] == ["x0", "x1", "x2"]
    for entry in release.map.inputs:
        assert entry.shift == entry.low and entry.divisor == entry.high - entry.low and entry.offset == 1.0
    assert rb.MomentsClassifier().fit_rados(release).predict(values).shape == (3000,)


def test_counts_are_of_the_columns_of_the_table(tmp_path):
    values, labels = table(rows=300)
    values[:, 0] = np.clip(values[:, 0], -2, 2)
    values[:, 1] = np.clip(values[:, 1], -1, 3)
    values[:, 2] = np.clip(values[:, 2], 0, 0.1)
    values[3, 0], values[4:6, 1], values[7, 2] = 9.0, math.nan, math.inf
    frame = pa.table({"x0": values[:, 0], "x1": values[:, 1], "x2": values[:, 2], "who": np.arange(300), "y": labels})
    for mechanism in MECHANISMS:
        rb.craft(
            frame,
            label="y",
            columns="degree-2",
            classes=(0, 1),
            mechanism=mechanism,
            n_rados=5,
            counts=tmp_path / "c.json",
            schema=replace(rb.Schema.of(BOUNDS), person=rb.Person("who", 1)),
        )
        counts = json.loads((tmp_path / "c.json").read_text())
        assert counts["contribute"] == 297 and counts["spoiled_by_this_alone"] == {"x0": 0, "x1": 2, "x2": 1, "y": 0}
        assert counts["beyond_bounds"] == {"x0": 1, "x1": 0, "x2": 0}


def test_a_plain_release_warns_of_clipped_values_of_the_table():
    values, labels = table(rows=100)
    with pytest.warns(rb.ClippedWarning, match=r"'x0' \d+, 'x1' \d+, 'x2' \d+$"):
        rb.craft(values, labels, columns="degree-2", n_rados=5, schema=BOUNDS)


# ---- which columns there are


def test_slots_of_a_category_stay_linear():
    names, groups = ["age", "w=A", "w=B", "age=(missing)"], {"w=A": "w", "w=B": "w", "age=(missing)": "age"}
    made_of = {(word, bounded): [term.name for term in make_map_terms(word, names, groups, bounded=bounded)]
               for word in ("degree-2", "degree-3") for bounded in (True, False)}  # fmt: skip
    assert made_of["degree-2", True] == [*names, "P2(age)"]
    assert made_of["degree-3", False] == [*names, "rank(age)", "P2(rank(age))", "P3(rank(age))"]
    for (word, bounded), outputs in made_of.items():
        assert number_of_map_columns(word, names, groups, bounded=bounded) == len(outputs)
    bounds = [Column(name, "bounds", 1.0, *((0.0, 90.0) if name == "age" else (-1.0, 1.0))) for name in names]
    standard = [Column(name, "standard", 1.0, mean=0.3, std=0.2) for name in names]
    for scaled in (bounds, standard):
        row = make_feature_map("degree-2", scaled, groups).apply(np.array([[45.0, 1.0, 0.0, 0.0]]))
        assert row[0, 1:4].tolist() == [1.0, 0.0, 0.0]


def test_standardised_ranks_are_soft():
    z = np.linspace(-5, 5, 101)
    standard = [Column("a", "standard", 1.0, mean=2.0, std=3.0)]
    rank = make_feature_map("degree-2", standard, {}).apply((2 + 3 * z)[:, None])[:, 1]
    within = np.clip(z, -4, 4)
    np.testing.assert_allclose(rank, within / np.sqrt(2 + within**2) / (4 / np.sqrt(18)), atol=1e-3)


def test_terms_of_a_schema_are_those_of_a_mapping():
    values, labels = table()
    frame = pa.table({"age": values[:, 0], "dose": values[:, 1], "ward": ["A", "B", None] * 50, "y": labels})
    kinds = {"age": rb.Number(-9, 9, terms=("linear", "signed-log", "square")), "dose": rb.Number(-9, 9)}
    kinds["ward"] = rb.Category(("A", "B"), gaps=True)
    schema = rb.Schema(kinds, "y", (0, 1))
    release = rb.craft(frame, schema=schema, n_rados=20)
    wards = "ward=A", "ward=B", "ward=(missing)"
    assert release.feature_names == ("age", "log(age)", "dose", *wards, "age^2", "(constant)")
    private = rb.craft(frame, schema=schema, mechanism=rb.Moments(epsilon=4.0), counts=None)
    assert private.feature_names == release.feature_names
    model = rb.MomentsClassifier().fit_rados(private).model_
    assert model.feature_names == ("age", "dose", "ward")
    with pytest.warns(rb.FilledWarning, match=r"'age' 1 with .*; unseen values of 'ward': 1"):
        scores = model.decision_function({"age": [None, 1.0], "dose": [0.0, 0.5], "ward": ["A", "Z"]})
    filled = model.reading_kinds["age"].filled()  # the released mean
    np.testing.assert_array_equal(scores, model.scores([[filled, 0.0, 1, 0, 0], [1.0, 0.5, 0, 0, 0]]))
    with pytest.raises(ArgumentError, match="the schema has terms of 'age'"):
        rb.craft(frame, schema=schema, columns="degree-2")
    for word in MAPS:
        plain = rb.Schema({**kinds, "age": rb.Number(-3, 3)}, "y", (0, 1))
        rb.craft(frame, schema=plain, columns=word, n_rados=20, mechanism=rb.NoisyRados(epsilon=4.0), counts=None)


def test_the_table_of_an_attack_is_read_through_the_map():
    from radoboost.lab.attacks.adversary_knowledge import rado_integers, seed_inclusion_bits, table_edge_vectors

    values, labels = table(rows=60)
    release = rb.craft(values, labels, columns="degree-2", n_rados=9, seed=3)
    edges = table_edge_vectors(release, values, labels)
    np.testing.assert_array_equal(seed_inclusion_bits(release, 3, 60) @ edges, rado_integers(release))


# ---- refusals


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("cubic", "columns must be one of auto, linear"),
        (7, "it is 7"),
        ({"x0": ["hat", "cubes"], "x1": []}, "'x1' has none .*'hat', 'cubes'"),
        ({"zz": ["linear"], "x0": ["x0*x9"]}, r"'zz'.*'x0\*x9'"),
        ({"a": ["signed-log"], "b": ["linear", "b*c"]}, "'a'.*b\\*c"),
        ({"x0": ["x0*x7", "b^2"]}, r"'x0\*x7', 'b\^2'"),
    ],
)
@pytest.mark.parametrize("private", [False, True])
def test_what_cannot_be_made_is_refused_in_one_line(columns, words, private):
    values, labels = table()
    mechanism = rb.Moments(epsilon=1.0) if private else None
    with pytest.raises(ArgumentError, match=words) as refusal:
        rb.craft(
            values, labels, columns=columns, classes=(0, 1), mechanism=mechanism, schema=BOUNDS if private else None
        )
    assert "\n" not in str(refusal.value)


def test_other_refusals():
    values, labels = table()
    with pytest.raises(ArgumentError, match="leave columns out"):
        rb.craft(values, labels, columns="degree-2", mechanism=rb.FeatureBand("x0", epsilon=1.0))
    with pytest.raises(ArgumentError, match="scale=None"):
        rb.craft(values, labels, columns="degree-2", mechanism=rb.Plain(scale=None))
    frame = pa.table({"a": values[:, 0], "P2(rank(a))": values[:, 1], "y": labels})
    with pytest.raises(ArgumentError, match=r"several columns of one name: 'P2\(rank\(a\)\)'"):
        rb.craft(frame, label="y", columns="degree-2")
    with pytest.raises(ArgumentError, match="3,000 numbers make more than 600 columns"):
        rb.craft(np.zeros((3, 3000)), [0, 1, 1], columns="degree-2")
    with pytest.raises(ArgumentError, match="16,384 is the most"):
        rb.craft(np.zeros((3, 9000)), [0, 1, 1], columns={"x0": ["x0^2"]})
    release = rb.craft(values, labels, columns="degree-2", n_rados=20)
    model = rb.MomentsClassifier().fit_rados(release).model_
    with pytest.raises(TableError, match="x1"):
        model.decision_function({"x0": [1.0], "x2": [1.0]})
    with pytest.raises(TableError, match="must have 3 columns"):
        model.scores(np.zeros((2, 15)))


def test_a_gap_is_filled_before_the_map():
    values, labels = table()
    for columns, scale in (("degree-2", "auto"), ({"x1": "signed-log"}, "auto"), ("degree-2", "bounds")):
        ends = dict.fromkeys(BOUNDS, (-30.0, 30.0))
        release = rb.craft(values, labels, columns=columns, n_rados=20, schema=ends, mechanism=rb.Plain(scale=scale))
        model = rb.MomentsClassifier().fit_rados(release).model_
        neutral = release.map.neutral
        with pytest.warns(rb.FilledWarning, match="'x1' 1"):
            scores = model.decision_function(np.array([[1.0, math.nan, 0.1]]))
        assert scores == model.scores(np.array([[1.0, neutral[1], 0.1]]))
        assert release.map.inputs[0].apply(np.array([release.map.inputs[0].neutral])) == pytest.approx(0.0, abs=1e-15)


# ---- files


def test_a_release_without_a_map_says_nothing_of_one():
    values, labels = table()
    release = rb.craft(values, labels, n_rados=20, columns="linear")
    assert not {"map", "schema"} & set(release.to_dict())
    assert release.to_dict()["blocks"] == [{"name": "rados", "rows": 20}]


def with_blocks(release, **changes):
    """A release with a block that has columns of its own."""
    own = {"counts": np.arange(6.0).reshape(3, 2)}
    fields = {
        "blocks": {**release.blocks, **own}, "columns": release.columns, "classes": release.classes,
        "mechanism": release.mechanism, "signatures": release.signatures, "statement": release.statement,
        "n_examples": release.n_examples, "block_columns": {"counts": ("x1", "rank of x1")},
    }  # fmt: skip
    return rb.Release(**{**fields, **changes})


def test_a_block_may_have_columns_of_its_own(tmp_path):
    values, labels = table()
    release = with_blocks(rb.craft(values, labels, n_rados=20))
    assert release.columns_of("counts") == ("x1", "rank of x1") and release.columns_of("rados") == release.feature_names
    release.save(tmp_path / "own.rado.parquet")
    stored = pq.read_table(tmp_path / "own.rado.parquet")
    assert stored.column_names == ["block", "x0", "x1", "x2", "(constant)", "rank of x1"]
    assert stored.column("x0").null_count == 3 and stored.column("rank of x1").null_count == 20
    loaded = rb.load(tmp_path / "own.rado.parquet")
    assert loaded.block_columns == release.block_columns
    for name, rows in release.blocks.items():
        np.testing.assert_array_equal(loaded.blocks[name], rows)
    assert pickle.loads(pickle.dumps(loaded)).columns_of("counts") == ("x1", "rank of x1")
    rb.MomentsClassifier().fit_rados(loaded)


@pytest.mark.parametrize(
    "own",
    [
        {"rados": ("x0",)},
        {"nothing": ("x0",)},
        {"counts": ("x1",)},
        {"counts": ("x1", "x1")},
        {"counts": ("x1", "block")},
    ],
)
def test_columns_of_blocks_that_do_not_fit_are_refused(own):
    release = rb.craft(*table(), n_rados=20)
    with pytest.raises(ReleaseError):
        with_blocks(release, block_columns=own)


def rewritten(path, change):
    """The file with another document and other rows, and with the digest that belongs to them."""
    document = json.loads(pq.read_metadata(path).metadata[b"radoboost"])
    stored = pq.read_table(path)
    stored = change(document, stored) or stored
    document["sha256"] = "0" * 64
    import hashlib

    with pq.ParquetWriter(path, stored.schema) as writer:
        writer.write_table(stored)
        writer.add_key_value_metadata({"radoboost": json.dumps(document, separators=(",", ":"))})
    content = path.read_bytes()
    start = content.rindex(b'"sha256":"') + len(b'"sha256":"')
    digest = hashlib.sha256(content).hexdigest().encode()
    path.write_bytes(content[:start] + digest + content[start + 64 :])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d, t: d["map"]["terms"].pop(), "not those that the feature map makes"),
        (lambda d, t: d["map"]["terms"][0].update(kind="spline"), "spline"),
        (lambda d, t: d["map"].update(inputs=[]), "at least one"),
        (lambda d, t: d.update(map=None), "feature map"),
        (lambda d, t: d["blocks"][0].update(columns=["x0"]), "that their block does not have"),
        (lambda d, t: d["blocks"][1].update(columns=["x0", "rank"]), "rows and columns"),
        (lambda d, t: t.set_column(1, "x0", pa.array([1.0] * t.num_rows)), "that their block does not have"),
        (lambda d, t: t.set_column(5, "rank of x1", pa.array([None] * t.num_rows, pa.float64())), "missing"),
        (lambda d, t: d.update(format=5), "unknown version"),
    ],
)
def test_a_file_whose_map_or_blocks_do_not_fit_is_refused(tmp_path, change, words):
    values, labels = table()
    release = rb.craft(values, labels, n_rados=20)
    identity = FeatureMap(
        tuple(Input(name) for name in ("x0", "x1", "x2")), tuple(Term("linear", (name,)) for name in ("x0", "x1", "x2"))
    )
    path = tmp_path / "a.rado.parquet"
    with_blocks(release, map=identity).save(path)
    rewritten(path, lambda document, stored: None)
    assert rb.load(path).map == identity

    def keep_table(document, stored):
        result = change(document, stored)
        return result if isinstance(result, pa.Table) else None

    rewritten(path, keep_table)
    with pytest.raises(ReleaseError, match=words):
        rb.load(path)


def test_a_release_and_a_model_with_a_map_are_described():
    values, labels = table()
    release = rb.craft(values, labels, columns="degree-2", n_rados=20)
    assert "12 columns made of 3: 6 linear, 6 legendre" in describe_release(release)
    model = rb.MomentsClassifier().fit_rados(release).model_
    text = describe_model(model)
    assert "12 columns made of 3" in text and "P1(rank(x0))*P1(rank(x1))" in text
    assert len(model.to_json().splitlines()) < 120
    bounds = {"x0": (-2, 2), "x1": "private", "x2": (0, 1)}
    found = rb.craft(values, labels, mechanism=rb.Moments(5.0), classes=(0, 1), columns="degree-2", schema=bounds)
    assert re.search(r"x0 +-2 +2  declared\nx1 +[-\d.]+ +[-\d.]+  found privately\n", describe_release(found))


def test_shells_pass_columns_on():
    values, labels = table()
    for shell in (rb.MomentsClassifier, rb.RadoBoostClassifier):
        clf = shell(columns="degree-2", n_rados=50, random_state=0).fit(values, labels)
        assert clf.coef_.shape == (1, 12) and clf.predict(values).shape == (150,)
        assert clf.n_features_in_ == 3 and clf.release_.map.input_names == ("x0", "x1", "x2")


def test_the_command_takes_columns(tmp_path):
    values, labels = table()
    path = tmp_path / "t.csv"
    pa.table({"age": values[:, 0], "dose": values[:, 1], "ill": np.array(["no", "yes"])[labels]}).to_pandas().to_csv(
        path, index=False
    )
    run = CliRunner().invoke
    release, model, scores = (str(tmp_path / name) for name in ("t.rado.parquet", "t.model.json", "t.scores.csv"))
    assert run(app, ["craft", str(path), "--label", "ill", "--columns", "degree-2", "-o", release]).exit_code == 0
    assert run(app, ["learn", release, "-o", model]).exit_code == 0
    assert run(app, ["predict", model, str(path), "-o", scores]).exit_code == 0
    shown = run(app, ["show", release, "--json"])
    assert "P2(rank(age))" in shown.stdout and '"map"' in shown.stdout
    assert "feature map" in run(app, ["show", release]).stdout
    refused = run(app, ["craft", str(path), "--label", "ill", "--columns", "cubes", "-o", str(tmp_path / "no.parquet")])
    assert refused.exit_code == 1 and not (tmp_path / "no.parquet").exists()


def test_a_column_that_only_lends_its_name_to_a_product_stays_linear():
    columns = [Column(name, "bounds", 1.0, 0.0, 1.0) for name in ("age", "dose", "weight")]
    feature_map = make_feature_map(check_feature_map_argument({"age": ["dose*weight"]}, {}), columns, {})
    assert feature_map.output_names == ("age", "dose", "weight", "dose*weight")
    assert np.isnan(feature_map.apply(np.array([[np.nan, 0.5, 0.5]]))).any()


def test_a_product_that_is_named_twice_is_one_column():
    values, labels = table()
    columns = {"x0": ["linear", "x0*x1", "x0^2"], "x1": ["linear", "x1*x0"], "x2": ["x0*x0"]}
    release = rb.craft(values[:, :3], labels, columns=columns, n_rados=8, seed=0)
    assert release.map.output_names == ("x0", "x1", "x2", "x0*x1", "x0^2")
