"""The contract of clusters: any parts, any merge tree, any repeated task give the bytes of one machine.

`Pickling` is a cluster in this process: all that a worker gets or gives is pickled on the way, parts come in any order,
some are summed twice, and sums merge by any tree.
"""

import io
import secrets
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import flat
import radoboost as rb
from pickling import PartsFrame, Pickling, take_parts_frames
from radoboost.holder.curator import Curator, NoiseSpec
from radoboost.holder.rado_sums import RadoSums
from radoboost.holder.row_counts import RowCounts
from radoboost.tables import csv_files, open_table
from radoboost.tables import table as table_module
from radoboost.tables.column_types import Category, Number
from radoboost.tables.schema import Schema

ROWS = 731  # not whole tiles, in parts that are not either
CUTS = (0, 1, 1, 100, 356, 700)  # an empty file, then one row, another empty one, ...
BOUNDS = {"a": (-3.0, 3.0), "b": (-3.0, 3.0), "c": (-1.0, 2.0), "bit": (0.0, 1.0)}
EXTRA = ["id", "k", "w"]
TWO, THREE = {"label": "y", "classes": (0, 1)}, {"label": "k", "classes": ("low", "middle", "high")}


def make_table(rows=ROWS, seed=7):
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, rows))
    y = (a * b + c + rng.normal(size=rows) > 0).astype(int)
    k = np.array(["low", "middle", "high"])[np.digitize(a + rng.normal(size=rows), (-0.7, 0.7))]
    columns = {"a": a, "b": b, "c": c, "bit": (c > 0).astype(float), "id": rng.integers(0, 90, rows)}
    return pa.table({**columns, "k": k, "w": rng.integers(0, 4, rows), "y": y})


TABLE = make_table()


def private(**options):
    return {"bounds": BOUNDS, "counts": None, **TWO, **options}


def moments(epsilon=30.0, of=None, **options):
    return private(mechanism=rb.Moments(epsilon, **(of or {})), **options)


def plain(**options):
    return {"label": "y", "drop": EXTRA, "n_rados": 40, **options}


RAW = Schema({"a": Number(-3.0, 3.0, gaps=True), "k": Category(("low", "middle"), other=True), "bit": Number(0.0, 1.0)})
CASES = {
    "plain": plain(),
    "seeded": plain(seed=3),
    "support 0.3": plain(signatures=rb.FixedSupport(0.3)),
    "support 0.5, seeded": plain(signatures=rb.FixedSupport(0.5), seed=5),
    "whole support": plain(signatures=rb.FixedSupport(ROWS), n_rados=1),
    "schema": plain(drop=(), schema=RAW),
    "a map": plain(columns="degree-2"),
    "terms": plain(columns={"a": ["linear", "a^2"], "b": ["signed-log", "a*b"]}),
    "weights": plain(weights="w", drop=["id", "k"]),
    "classes": plain(label="k", drop=["id", "y", "w"]),
    "feature band": plain(mechanism=rb.FeatureBand("bit", 3.0)),
    "noisy-rados": private(mechanism=rb.NoisyRados(1.0), n_rados=40),
    "noisy-rados, seeded": private(mechanism=rb.NoisyRados(1.0), n_rados=40, seed=1, i_know=True),
    "noisy-rados, persons": private(mechanism=rb.NoisyRados(1.0), n_rados=40, person="id", max_rows=2),
    "noisy-examples": private(mechanism=rb.NoisyExamples(1.0), n_rados=40),
    "noisy-examples, support": private(
        mechanism=rb.NoisyExamples(1.0), n_rados=40, signatures=rb.FixedSupport(0.3)
    ),
    "noisy-examples, persons": private(mechanism=rb.NoisyExamples(1.0), n_rados=40, person="id", max_rows=3),
    "moments": moments(),
    **{f"moments, {word}": moments(columns=word) for word in ("linear", "degree-2", "degree-5")},
    "moments, unsharpened": moments(of={"sharpen": False}, columns="linear"),
    "moments, label": moments(of={"unit": "label"}, columns="linear"),
    "moments, replace": moments(of={"relation": "replace"}, columns="linear"),
    "moments, private bounds": moments(bounds="private", drop=EXTRA, columns="linear"),
    "moments, schema": moments(bounds=None, schema=RAW, columns="linear"),
    "moments, persons": moments(columns="linear", person="id", max_rows=2),
    "moments, persons' labels": moments(of={"unit": "label"}, columns="linear", person="id", max_rows=2),
    "moments, classes": moments(**THREE, columns="linear"),
    "moments, classes, degree-4": moments(**THREE, columns="degree-4"),
    "moments, classes, label": moments(of={"unit": "label"}, **THREE, columns="linear"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def room(monkeypatch):
    """Enough memory, which is not asked for here: that would take a quarter of the time, once for each small part."""
    monkeypatch.setattr("radoboost.memory.available_memory", lambda: 1 << 32)


@pytest.fixture
def one_key(monkeypatch):
    """The operating system gives one key for everything, so that keys by part change nothing."""
    monkeypatch.setattr(secrets, "token_bytes", lambda size=32: bytes(range(size)))
    monkeypatch.setattr(secrets, "token_hex", lambda size=16: "00" * size)


def saved(release, folder, like=None):
    """The bytes of a release, with the trust model of another one."""
    if like is not None:
        release = replace(release, statement=replace(release.statement, trust_model=like.statement.trust_model))
    release.save(folder / "saved.rado.parquet")
    return (folder / "saved.rado.parquet").read_bytes()


def assert_same(table, folder, tree, cluster_table=None, **options):
    """The release of a cluster is that of one machine to the byte, but for who is trusted."""
    local = flat.craft(table, **options, threads=1)
    runner = Pickling(tree)
    ours = flat.craft(table if cluster_table is None else cluster_table, **options, cluster=runner)
    assert runner.name in ours.statement.trust_model and runner.name not in local.statement.trust_model
    assert list(local.blocks) == list(ours.blocks)
    for name, block in local.blocks.items():
        np.testing.assert_array_equal(block, ours.blocks[name], err_msg=name)
    assert saved(ours, folder, like=local) == saved(local, folder)
    return runner


@contextmanager
def small_parts(values=1):
    """Parts of few rows, which are not whole tiles of the keystream."""
    with (
        mock.patch.object(table_module, "PART_VALUES", values),
        mock.patch.object(table_module, "TILE_ROWS", 4),
        mock.patch("radoboost.tables.opening.SLICE_ROWS", 20),
        mock.patch("radoboost.tables.opening.SPARSE_ENTRIES", 8),
        mock.patch("radoboost.tables.frames.BATCH_ROWS", 20),
        mock.patch("radoboost.tables.files.BATCH_ROWS", 20),
        mock.patch.object(csv_files, "RANGE_BYTES", 400),
    ):
        yield


def files_of(table, folder, cuts=CUTS, group=50):
    for number, (start, stop) in enumerate(zip(cuts, [*cuts[1:], table.num_rows], strict=True)):
        pq.write_table(table.slice(start, stop - start), folder / f"{number}.parquet", row_group_size=group)
    return str(folder / "*.parquet")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return files_of(TABLE, tmp_path_factory.mktemp("files"))


@pytest.mark.filterwarnings("ignore::radoboost.errors.ClippedWarning", "ignore::radoboost.errors.SchemaWarning")
@pytest.mark.parametrize("name", CASES)
def test_every_mechanism_has_the_bytes_of_one_machine(name, paths, tmp_path, one_key):
    with small_parts():
        runner = assert_same(paths, tmp_path, len(name), **CASES[name])
    assert len(runner.messages) >= 17  # one pass at least, over as many parts


def test_holders_counts_are_those_of_one_machine(paths, tmp_path, one_key):
    spoiled = TABLE.set_column(0, "a", pa.array([None, np.inf, *TABLE["a"].to_pylist()[2:]]))
    (tmp_path / "spoiled").mkdir()
    options = private(mechanism=rb.Moments(30.0), columns="linear", person="id", max_rows=3)
    table = files_of(spoiled, tmp_path / "spoiled")
    flat.craft(table, **{**options, "counts": tmp_path / "local.json"}, threads=1)
    flat.craft(table, **{**options, "counts": tmp_path / "cluster.json"}, cluster=Pickling(2))
    assert (tmp_path / "local.json").read_bytes() == (tmp_path / "cluster.json").read_bytes()


# ---- tables of all kinds, cut anywhere


def written(table, folder, kind, group=40):
    """A table in one form, as arguments of `craft`, and those that the same table has for a cluster."""
    numbers = table.select([*BOUNDS, "y"])
    x, y = numbers.drop(["y"]).to_pandas().to_numpy(), numbers["y"].to_numpy()
    as_file = {"table": folder / f"t.{kind.partition(' ')[0]}", "label": "y"}
    if kind == "parquet":
        pq.write_table(numbers, as_file["table"], row_group_size=group)
    elif kind == "parquet, one group":
        as_file["table"] = folder / "t.parquet"
        pq.write_table(numbers, as_file["table"])
    elif kind.startswith("arrow"):
        options = pa.ipc.IpcWriteOptions(compression="lz4" if "packed" in kind else None)
        with pa.ipc.new_file(as_file["table"], numbers.schema, options=options) as file:
            file.write_table(numbers, max_chunksize=group)
    elif kind == "csv":
        pa_csv.write_csv(numbers, as_file["table"])
    elif kind == "folder":
        for half, rows in enumerate(np.array_split(np.arange(len(numbers)), 3)):
            (folder / f"bit={half % 2}").mkdir(exist_ok=True)
            pq.write_table(numbers.take(rows).drop(["bit"]), folder / f"bit={half % 2}" / f"{half}.parquet")
        as_file["table"] = folder
    elif kind in ("pandas", "polars", "chunks"):
        chunks = pa.Table.from_batches(numbers.to_batches(max_chunksize=group), numbers.schema)
        frame = {"pandas": lambda: pd.DataFrame(numbers.to_pandas()), "polars": lambda: pl.from_arrow(numbers)}
        return {"table": frame.get(kind, lambda: chunks)(), "label": "y"}
    elif kind == "dataset":
        pq.write_table(numbers, folder / "t.parquet", row_group_size=group)
        return {"table": pa.dataset.dataset(folder / "t.parquet"), "label": "y"}
    elif kind in ("csr", "csc"):
        return {"table": {"csr": sparse.csr_array, "csc": sparse.csc_matrix}[kind](np.where(x > 1.5, x, 0.0)), "y": y}
    elif kind == "array":
        return {"table": x, "y": y}
    return as_file


KINDS = ["parquet", "parquet, one group", "arrow", "arrow packed", "csv", "folder", "pandas", "polars", "chunks",
         "dataset", "array", "csr", "csc"]  # fmt: skip


def mechanism_options(word, kind):
    names = [f"x{k}" for k in range(4)] if kind in ("array", "csr", "csc") else list(BOUNDS)
    bounds = dict(zip(names, BOUNDS.values(), strict=True))
    rados = {"n_rados": 20, "bounds": bounds, "classes": (0, 1), "counts": None}
    return {
        "plain": {"n_rados": 20},
        "seeded classes": {"n_rados": 20, "seed": 1, "signatures": rb.FixedSupport(0.5)},
        "weights": {"n_rados": 20, "weights": np.arange(FEW) % 3},
        "noisy-rados": {**rados, "mechanism": rb.NoisyRados(1.0)},
        "noisy-examples": {**rados, "mechanism": rb.NoisyExamples(1.0)},
        "moments": {**rados, "n_rados": None, "mechanism": rb.Moments(30.0), "columns": "linear"},
    }[word]


FEW = 130  # rows, which are several parts of every form
WORDS = ["plain", "seeded classes", "weights", "noisy-rados", "noisy-examples", "moments"]
# Each form with one mechanism that reads it strictly and one that reads it row by row, and both in all orders.
FORMS = [(kind, WORDS[(k + 3 * half) % 6]) for k, kind in enumerate(KINDS) for half in (0, 1)]


@pytest.mark.parametrize(("kind", "word"), FORMS)
def test_every_form_of_a_table_has_the_bytes_of_one_machine(kind, word, tmp_path, one_key):
    given_table = written(TABLE.slice(0, FEW), tmp_path, kind)
    with small_parts():
        runner = assert_same(given_table.pop("table"), tmp_path, 3, **given_table, **mechanism_options(word, kind))
    strict = word in ("plain", "seeded classes", "weights")
    if kind != "parquet, one group" and not (kind == "csv" and strict):  # these are one part
        assert len(runner.messages) >= 3


@settings(max_examples=12)
@given(
    rows=st.integers(8, 150),
    cuts=st.lists(st.integers(0, 150), max_size=6),
    group=st.integers(1, 80),
    part_values=st.sampled_from([1, 60, 1 << 23]),
    tree=st.integers(0, 2**20),
    word=st.sampled_from(["plain", "seeded classes", "noisy-rados", "noisy-examples"]),
)
def test_where_files_are_cut_changes_no_byte(rows, cuts, group, part_values, tree, word, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut")
    table = make_table(rows).select([*BOUNDS, "y"]).set_column(4, "y", pa.array(np.arange(rows) % 2))
    paths = files_of(table, folder, [0, *sorted(min(cut, rows) for cut in cuts)], group)
    with (
        mock.patch.object(secrets, "token_bytes", lambda size=32: bytes(range(size))),
        mock.patch.object(secrets, "token_hex", lambda size=16: "00" * size),
        small_parts(part_values),
    ):
        assert_same(paths, folder, tree, label="y", **mechanism_options(word, "files"))


@pytest.mark.parametrize("name", ["plain", "support 0.3", "weights", "classes"])
def test_frames_on_a_cluster_have_the_bytes_of_the_collected_frame(name, tmp_path, one_key, monkeypatch):
    take_parts_frames(monkeypatch)
    assert_same(TABLE, tmp_path, 5, PartsFrame(TABLE, CUTS), **CASES[name])


def test_a_shell_collects_no_frame_of_spark_silently():
    rows = TABLE.select(["a", "b"]).to_pandas()
    fitted = rb.MomentsClassifier(n_rados=8).fit(rows, TABLE["y"].to_numpy())
    frame = PartsFrame(TABLE.select(["a", "b"]), CUTS)  # which is one of Spark, by its looks
    score = lambda table: fitted.score(table, TABLE["y"].to_numpy())  # noqa: E731
    for call in (fitted.predict, fitted.predict_proba, fitted.decision_function, score, fitted.model_.predict):
        with pytest.raises(rb.ArgumentError, match="predict_udf"):
            call(frame)


def test_rows_that_come_once_are_refused_before_they_come(paths, monkeypatch):
    drawn = []

    def rows():
        drawn.append(1)
        yield from TABLE.to_batches()

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, rows())
    lazy, query = pl.LazyFrame({"a": [1.0], "y": [1]}), "duckdb:?SELECT 1 AS a, 1 AS y"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,y\n1,0\n")))
    for table in (reader, lazy, query, rb.tables.streams.StandardInput()):
        with pytest.raises(rb.ArgumentError, match="files"):
            rb.craft(table, label="y", compute=rb.Compute(cluster=Pickling()))
    assert not drawn


@pytest.mark.parametrize("table", [np.empty((0, 2)), pa.table({"a": pa.array([], pa.float64()), "y": []})])
def test_a_table_without_rows_is_refused_as_on_one_machine(table):
    options = {"y": []} if isinstance(table, np.ndarray) else {"label": "y"}
    refusals = []
    for how in ({"threads": 1}, {"cluster": Pickling()}):
        with pytest.raises(rb.TableError) as refusal:
            flat.craft(table, **options, **how)
        refusals.append(str(refusal.value))
    assert refusals[0] == refusals[1]


# ---- who is trusted with what


OWN_COINS = "keys for the coins of the rows that it sums, and of no others"
TOGETHER = "All of them get the key of all signatures, for each is drawn from all rows"
SEEDED = "All of them get the key of all signatures, which follows from the seed"
CHOICE = "the choice among rows of a person"
AT_THE_CRAFTER = "Noise on sums is drawn by whoever crafts, and its key stays there"
TRUST = {
    "plain": [OWN_COINS],
    "classes": [OWN_COINS],
    "seeded": [SEEDED],
    "support 0.3": [TOGETHER],
    "support 0.5, seeded": [SEEDED],
    "feature band": [TOGETHER],
    "noisy-rados": [OWN_COINS, AT_THE_CRAFTER],
    "noisy-rados, seeded": [SEEDED, AT_THE_CRAFTER],
    "noisy-rados, persons": [OWN_COINS, f"All of them get the key of {CHOICE}", AT_THE_CRAFTER],
    "noisy-examples": ["keys for the coins and the noise of the rows that it sums, and of no others"],
    "noisy-examples, support": ["keys for the noise of the rows that it sums, and of no others", TOGETHER],
    "noisy-examples, persons": ["keys for the coins and the noise of the rows", f"the key of {CHOICE}"],
    "moments, linear": ["They get no key", AT_THE_CRAFTER],
    "moments, persons": [f"All of them get the key of {CHOICE}", AT_THE_CRAFTER],
}
PIECES = [OWN_COINS, TOGETHER, SEEDED, CHOICE, AT_THE_CRAFTER, "They get no key", "the noise of the rows"]


@pytest.mark.parametrize("name", TRUST)
def test_the_statement_says_what_machines_of_a_cluster_get(name, tmp_path, rado):
    release = flat.craft(TABLE, **CASES[name], cluster=Pickling())
    trust = release.statement.trust_model
    assert trust.startswith(flat.craft(TABLE, **CASES[name]).statement.trust_model + "; so are the machines of")
    assert all(words in trust for words in TRUST[name])
    said = " ".join(TRUST[name])
    assert [words for words in PIECES if words in trust] == [words for words in PIECES if words in said]
    release.save(tmp_path / "x.rado.parquet")
    shown = " ".join(rado("show", tmp_path / "x.rado.parquet")[1].split())
    assert trust in shown and rb.load(tmp_path / "x.rado.parquet").statement.trust_model == trust


# ---- very many rows


@contextmanager
def said_to_have(rows):
    """Footers that say so many rows; nobody may read them."""

    def nothing(*args):
        raise AssertionError("rows were read")

    with (
        mock.patch.object(table_module.Table, "n_rows", property(lambda self: rows)),
        mock.patch.object(table_module.Table, "batches", nothing),
        mock.patch.object(Pickling, "sum_parts", nothing),
    ):
        yield


@pytest.mark.parametrize("how", [{"threads": 1}, {"cluster": Pickling()}], ids=["here", "cluster"])
@pytest.mark.parametrize("name", ["plain", "support 0.3", "feature band", "noisy-examples"])
def test_too_many_rows_are_refused_before_they_are_read(name, how, paths):
    with said_to_have(2**31), pytest.raises(rb.TableError, match="2,147,483,648 rows"):
        flat.craft(paths, **CASES[name], **how)
    with said_to_have(2**31 - 1), pytest.raises(AssertionError, match="rows were read"):
        flat.craft(paths, **CASES[name], **how)


@pytest.mark.parametrize("of", [{"unit": "label"}, {"relation": "replace"}])
def test_moments_refuse_more_rows_where_their_number_is_no_secret(of, paths):
    with said_to_have(2**33), pytest.raises(rb.TableError, match="8,589,934,592 rows"):
        flat.craft(paths, **moments(of=of, columns="linear"))
    with said_to_have(2**33 - 1), pytest.raises(AssertionError, match="rows were read"):
        flat.craft(paths, **moments(of=of, columns="linear"))


def test_where_the_number_is_a_secret_it_decides_nothing(paths):
    for options in (CASES["noisy-rados"], moments(columns="linear")):
        for rows in (2**31, 2**33, 2**60):
            with said_to_have(rows), pytest.raises(AssertionError, match="rows were read"):
                flat.craft(paths, **options)
    with pytest.raises(rb.ArgumentError, match="64 bits"):
        flat.craft(paths, **moments(columns="linear", rows=2**33))


def test_sums_that_wrap_are_a_function_of_the_noisy_sum():
    """Beyond 64 bits, noise on a wrapped sum is the wrapped noisy sum, without a word."""
    top = np.array([[2**63 - 5, -(2**63) + 5]])
    total = RadoSums(top.copy(), RowCounts.zeros(2)).merge(RadoSums(np.array([[9, -9]]), RowCounts.zeros(2)))
    table = open_table(np.ones((2, 1)), [0, 1])
    run = Curator(table, None, None, noise_key=bytes(32))
    run.book(rb.privacy.Gaussian(1.0, rb.privacy.Relation.RECORD))
    run.add_noise(total, NoiseSpec("totals", 2.0**20))
    run.book(rb.privacy.Gaussian(1.0, rb.privacy.Relation.RECORD))
    again = Curator(table, None, None, noise_key=bytes(32))
    again.book(rb.privacy.Gaussian(1.0, rb.privacy.Relation.RECORD))
    noise = again.noise(2.0**20, (1, 2))
    exact = [int(a) + b + int(c) for a, b, c in zip(top[0], (9, -9), noise[0], strict=True)]
    assert [int(value) % 2**64 for value in total.totals[0]] == [value % 2**64 for value in exact]
