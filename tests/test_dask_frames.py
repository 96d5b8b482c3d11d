"""Dask frames that promises are made about: which steps are accepted, and what one record may change; no cluster."""

import json
import random
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import radoboost as rb
from radoboost.errors import ArgumentError, ClusterError, TableError
from radoboost.holder.runners import dask_runner as jobs
from radoboost.holder.runners import dask_runner as runners
from radoboost.holder.runners.dask_connection import WITHHELD, dask_error
from radoboost.progress import silent
from radoboost.tables.dask_frames import UnsafePlan, check_dask_steps, dask_file_stamps
from radoboost.tables.frames import check_cluster_frame_determined

pytest.importorskip("distributed")
import dask.dataframe as dd
from distributed import Client

pytestmark = pytest.mark.filterwarnings("ignore:.*inplace keyword", "ignore:.*deprecated")  # Dask's, of pandas
ROWS = pd.DataFrame(
    {
        "a": np.arange(20.0) % 7,
        "b": np.arange(20.0) % 3,
        "k": np.arange(20),
        "s": list("abcdefghij") * 2,
        "y": [0, 1] * 10,
    }
)
PRIVATE = {"bounds": {"a": (-4.0, 4.0)}, "classes": (0, 1), "label": "y", "counts": None, "features": ["a"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for k in range(4):
        pq.write_table(pa.Table.from_pandas(ROWS[5 * k : 5 * k + 5], preserve_index=False), folder / f"{k}.parquet")
    return folder


@pytest.fixture(scope="module")
def here():
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        yield client


def frames(files):
    parted = dd.from_pandas(ROWS, npartitions=4)
    read, arrow = dd.read_parquet(files), dd.read_parquet(files, dtype_backend="pyarrow")
    return parted, read, arrow


ACCEPTED = {
    "memory": lambda f, p, q: f,
    "array": lambda f, p, q: dd.from_array(np.ones((20, 2)), columns=["a", "y"]),
    "files": lambda f, p, q: p,
    "files of Arrow's file system": lambda f, p, q: dd.read_parquet(str(p.expr.path), filesystem="arrow"),
    "columns": lambda f, p, q: p[["a", "y"]],
    "filter": lambda f, p, q: p[(p.a > 1.5) & (p.k < 7)],
    "filters": lambda f, p, q: dd.read_parquet(str(p.expr.path), filters=[("a", ">", 1.0)]),
    "arithmetic": lambda f, p, q: p.assign(c=2 * p.a - p.b / 3),
    "arithmetic with integers in memory": lambda f, p, q: f.assign(c=f.k * 2 + f.a),
    "astype": lambda f, p, q: p.assign(c=p.k.astype("float64") * 2),
    "isin": lambda f, p, q: f[f.k.isin([1, 2])],
    "fillna": lambda f, p, q: p.fillna({"a": 0.0, "s": "none", "k": 0}),
    "dropna": lambda f, p, q: p.dropna(subset=["a"]),
    "isna": lambda f, p, q: p[~p.k.isna()],
    "drop and rename": lambda f, p, q: p.drop(columns="s").rename(columns={"a": "c"}),
    "concat": lambda f, p, q: dd.concat([f, p]),
    "concat of some": lambda f, p, q: dd.concat([f[f.k.isin([1, 2])], p[p.k.isin([3, 4])]]),
    "partitions": lambda f, p, q: f.partitions[[2, 0]],
    "fewer partitions": lambda f, p, q: p.repartition(npartitions=2),
    "one column": lambda f, p, q: p.a.to_frame(),
}
REFUSED = {
    "sample": ("sample", lambda f, p, q: f.sample(frac=0.5)),
    "map_partitions": ("map_partitions", lambda f, p, q: p.map_partitions(lambda d: d.sample(frac=0.5))),
    "from_map": ("from_map", lambda f, p, q: dd.from_map(lambda i: ROWS, [1, 2])),
    "shuffle": ("shuffle", lambda f, p, q: f.shuffle("a").assign(z=1.0)),
    "replace": ("a method of .str", lambda f, p, q: f.assign(s=f.s.str.replace("a", lambda m: "b", regex=True))),
    "combine": ("combine", lambda f, p, q: f.assign(c=f.a.combine(f.b, lambda x, y: random.random()))),
    "apply": ("apply", lambda f, p, q: f.assign(c=f.a.apply(lambda x: random.random(), meta=("a", "f8")))),
    "query": ("query", lambda f, p, q: f.query("a > a.mean()")),
    "ffill": ("ffill", lambda f, p, q: f.ffill()),
    "shift": ("shift", lambda f, p, q: f.shift(1)),
    "rolling": ("rolling", lambda f, p, q: f[["a"]].rolling(2).mean()),
    "merge": ("merge", lambda f, p, q: f.merge(ROWS, on="a")),
    "concat beside": ("concat(axis=1)", lambda f, p, q: dd.concat([f, f[["a"]].rename(columns={"a": "z"})], axis=1)),
    "concat twice": ("concat of a table with itself", lambda f, p, q: dd.concat([p, q])),
    "interleaved": ("concat(interleave", lambda f, p, q: dd.concat([f, f], interleave_partitions=True)),
    "a file twice": (
        "read_parquet with a file that is named twice",
        lambda f, p, q: dd.read_parquet([f"{p.expr.path}/0.parquet"] * 2),
    ),
    "a file and a link to it": (
        "read_parquet with a file that is named twice",
        lambda f, p, q: dd.read_parquet(names_of_one_file(p)[:2]),
    ),
    "a folder with a file by two names": (
        "read_parquet with a file that is named twice",
        lambda f, p, q: dd.read_parquet(str(Path(names_of_one_file(p)[1]).parent), filesystem="arrow"),
    ),
    "concat of a file and a link to it": (
        "concat of a table with itself",
        lambda f, p, q: dd.concat([dd.read_parquet(name) for name in names_of_one_file(p)[:2]]),
    ),
    "explode": ("explode", lambda f, p, q: f.explode("s")),
    "sort_values": ("sort_values", lambda f, p, q: f.sort_values("a")),
    "repartition": ("repartition by size", lambda f, p, q: p.repartition(partition_size="1kB")),
    "repeats": ("partitions[...] with repeats", lambda f, p, q: f.partitions[[0, 0, 0]]),
    "persist": ("persist", lambda f, p, q: f.persist(scheduler="synchronous")),
    "from_delayed": ("from_delayed", lambda f, p, q: dd.from_delayed([dask.delayed(ROWS)], meta=ROWS)),
    "chance": ("persist", lambda f, p, q: f.assign(r=da.random.random(20, chunks=5))),
    "mean": ("mean", lambda f, p, q: f.assign(a=f.a - f.a.mean())),
    "other rows": ("assign", lambda f, p, q: f.assign(z=f[f.a > 1].b)),
    "function of names": ("rename with a function", lambda f, p, q: f.rename(columns=lambda n: n)),
    "numbers to texts": ("astype", lambda f, p, q: p.assign(s=p.k.astype(str))),
    "integers of files": ("+ with columns of these types", lambda f, p, q: p.assign(k=p.k + 1)),
    "integers renamed": ("- with", lambda f, p, q: p.rename(columns={"k": "n"}).assign(m=lambda d: -d.n)),
    "large literal": ("> with columns", lambda f, p, q: p[p.k > 2**60]),
    "two kinds": ("> with columns", lambda f, p, q: q[q.k > q.a]),
    "types_mapper": (
        "read_parquet with arrow",
        lambda f, p, q: dd.read_parquet(str(p.expr.path), filesystem="arrow", arrow_to_pandas={"types_mapper": {}.get}),
    ),
}


def names_of_one_file(frame):
    """A file, a link to it and another name of it."""
    file, others = Path(frame.expr.path) / "0.parquet", Path(frame.expr.path).parent / "names"
    if not others.exists():
        others.mkdir()
        (others / "link.parquet").symlink_to(file)
        (others / "hard.parquet").hardlink_to(file)
    return [str(name) for name in (file, others / "link.parquet", others / "hard.parquet")]


def undetermined(frame):
    try:
        check_dask_steps(frame.expr)
    except UnsafePlan as step:
        return str(step)
    return ""


@pytest.mark.parametrize("step", ACCEPTED)
def test_steps_that_leave_each_record_alone_are_accepted(step, files):
    frame = ACCEPTED[step](*frames(files))
    assert undetermined(frame) == ""
    assert undetermined(frame.optimize()) == ""
    assert undetermined(frame.optimize(fuse=False)) == ""


@pytest.mark.parametrize("step", REFUSED)
def test_other_steps_are_refused_in_words_also_once_they_are_fused(step, files):
    words, make = REFUSED[step]
    frame = make(*frames(files))
    assert undetermined(frame).startswith(words)
    if step != "shuffle":  # which is started by being optimised
        assert undetermined(frame.optimize()) != ""
    with pytest.raises(ArgumentError, match="Parquet") as failure:
        check_cluster_frame_determined(frame, None)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("notes", "kind"),
    [("_delta_log/0.json", "Delta"), (".hoodie/hoodie.properties", "Hudi"), ("metadata/v1.metadata.json", "Iceberg")],
)
def test_files_of_tables_with_old_versions_are_refused(tmp_path, notes, kind):
    import fsspec

    store, rows = fsspec.filesystem("memory"), pa.Table.from_pandas(ROWS, preserve_index=False)
    place = f"lake-{kind}"
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(rows, tmp_path / name)
        store.pipe(f"/{place}/data/{name}", (tmp_path / name).read_bytes())
    frames = [
        dd.read_parquet(tmp_path),
        dd.read_parquet(f"{tmp_path}/*.parquet"),
        dd.read_parquet(str(tmp_path), filesystem="arrow"),
        dd.concat([dd.read_parquet(tmp_path / "a.parquet"), dd.read_parquet(tmp_path / "b.parquet")]),
        dd.read_parquet(f"memory://{place}/data"),
        dd.read_parquet([f"memory://{place}/data/{name}" for name in ("a.parquet", "b.parquet")]),
    ]
    for frame in frames:
        check_cluster_frame_determined(frame, None)
    (tmp_path / notes).parent.mkdir()
    (tmp_path / notes).touch()
    store.pipe(f"/{place}/{notes}", b"{}")
    for frame in frames:
        with pytest.raises(TableError, match=kind):
            check_cluster_frame_determined(frame, None)
    check_cluster_frame_determined(dd.read_parquet(tmp_path / "a.parquet"), None)  # one file alone is what it says


def test_a_runner_that_is_given_changes_nothing_about_that(here):
    frame = dd.from_pandas(ROWS, npartitions=2).map_partitions(lambda part: part.sample(frac=1.0, replace=True))
    run = runners.dask_runner(here, None, silent, 1, trust_network=False, promises=False)
    for cluster in (run, here):
        with pytest.raises(ArgumentError, match="after map_partitions that is not certain"):
            rb.craft(frame, mechanism=rb.NoisyRados(1.0), n_rados=3, cluster=cluster, **PRIVATE)


# ---- one null


def test_a_missing_id_changes_nobody_elses_rows(tmp_path, here):
    """One null turns ids of its partition into floats, unless they are read as Arrow's."""
    ids = [2**60 + k for k in range(60)]
    taken = {}
    for name, first in (("all", ids[0]), ("one is missing", None)):
        columns = {"a": np.ones(60), "id": pa.array([first, *ids[1:]], pa.int64()), "y": [0, 1] * 30}
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "a.parquet")
        options = {**PRIVATE, "counts": tmp_path / f"{name}.txt", "person": "id", "max_rows": 1, "cluster": here}
        for frame in (
            dd.read_parquet(tmp_path / name),
            dd.read_parquet(tmp_path / name).rename(columns={"id": "who"}).rename(columns={"who": "id"}),
            dd.concat(
                [dd.read_parquet(tmp_path / name), dd.from_pandas(pd.DataFrame({"a": [1.0], "id": [1.5], "y": [1]}))]
            ),
        ):
            with pytest.raises(ArgumentError, match=r"dd.read_parquet\(..., dtype_backend='pyarrow'\)"):
                rb.craft(frame, mechanism=rb.NoisyRados(1.0), n_rados=3, **options)
        frame = dd.read_parquet(tmp_path / name, dtype_backend="pyarrow")
        rb.craft(frame, mechanism=rb.NoisyRados(1.0), n_rados=3, **options)
        taken[name] = json.loads((tmp_path / f"{name}.txt").read_text())["persons"]
    assert (taken["all"]["people"], taken["all"]["without_a_person"]) == (60, 0)
    assert (taken["one is missing"]["people"], taken["one is missing"]["without_a_person"]) == (59, 1)


def test_a_missing_label_changes_no_other(tmp_path, here, monkeypatch):
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: bytes(range(size)))
    classes, blocks = (2**60, 2**61), []
    labels = [classes[k % 2] + k % 3 for k in range(60)]
    for name, last in (("all", 5), ("one is missing", None)):  # neither is a class
        table = pa.table({"a": np.ones(60), "y": pa.array([*labels[:-1], last], pa.int64())})
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "a.parquet")
        options = {**PRIVATE, "classes": classes, "cluster": here, "n_rados": 3}
        release = rb.craft(dd.read_parquet(tmp_path / name), mechanism=rb.NoisyRados(1.0), **options)
        blocks.append({key: block.tobytes() for key, block in release.blocks.items()})
    assert blocks[0] == blocks[1]


# ---- words, and files that change


def test_words_of_dask_are_withheld_where_something_is_promised(here, caplog):
    failure = ValueError("could not convert string to float: 'SSN 123-45'")
    assert str(dask_error(failure, "tcp://h:1", withheld=True)) == WITHHELD
    assert "SSN" in str(dask_error(failure, "tcp://h:1"))
    assert "SSN" not in str(dask_error(ImportError("SSN 123-45"), "tcp://h:1", withheld=True))
    run = runners.dask_runner(here, None, silent, 1, trust_network=False, promises=True)
    with pytest.raises(ClusterError) as told, run._in_one_line():
        raise failure
    assert str(told.value) == WITHHELD


def test_a_job_that_fails_gives_a_refusal_without_words():
    sealed = jobs.SealedPayload([(0, Broken(), 0)], 5, rb.holder.aggregation.CountRows(), withheld=True)
    assert str(jobs.dask_sum_job(sealed, None).refusal.error) == WITHHELD
    assert str(jobs.dask_keep_job(sealed, None).refusal) == WITHHELD
    assert (
        str(jobs.dask_map_job(jobs.SealedPayload([(0, Broken(), 0)], 0, Broken(), withheld=True), None).error)
        == WITHHELD
    )
    with pytest.raises(ValueError, match="SSN"):
        jobs.dask_sum_job(jobs.SealedPayload([(0, Broken(), 0)], 5, rb.holder.aggregation.CountRows()), None)


class Broken:
    """A part that cannot be read, and work that cannot be done."""

    def batches(self, rows):
        raise ValueError("SSN 123-45")

    def __call__(self, part):
        raise ValueError("SSN 123-45")


@pytest.mark.parametrize(("filesystem", "mechanism"), [("fsspec", rb.NoisyRados(1.0)), ("arrow", rb.Plain())])
def test_files_that_change_between_passes_are_refused(filesystem, mechanism, tmp_path, here, monkeypatch):
    def write(value):
        pq.write_table(pa.table({"a": np.full(60, value), "y": [0, 1] * 30}), tmp_path / "a.parquet")

    write(1.0)
    frame = dd.read_parquet(str(tmp_path), filesystem=filesystem)
    options = {**PRIVATE, "n_rados": 3, "cluster": here}
    options |= {} if mechanism.private else {"bounds": None, "classes": None}
    rb.craft(frame, mechanism=mechanism, **options)
    wait = runners.DaskRunner._wait
    monkeypatch.setattr(runners.DaskRunner, "_wait", lambda *arguments: (wait(*arguments), write(2.0)))
    with pytest.raises(TableError, match=r"a.parquet changed while it was read; try again"):
        rb.craft(frame, mechanism=mechanism, **options)


def test_stamps_are_those_of_all_files_of_a_frame(files):
    frame = dd.concat([dd.read_parquet(files), dd.from_pandas(ROWS, npartitions=2)])
    found = dask_file_stamps(frame[["a"]].optimize())
    assert sorted(name.rpartition("/")[2] for name in found) == [f"{k}.parquet" for k in range(4)]
    assert dask_file_stamps(dd.from_pandas(ROWS)) == {}
