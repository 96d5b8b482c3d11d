"""What leaves the building, its file, and every way in which the file can be broken."""

import errno
import hashlib
import json
import math
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import radoboost as rb
from radoboost.errors import OutputError, ReleaseError
from radoboost.release import release as release_module


@pytest.fixture
def small(rng):
    x = rng.lognormal(size=(40, 3))
    with pytest.warns(rb.ClippedWarning):
        return rb.craft(x, rng.choice([0, 1], 40), n_rados=25, seed=1, schema={"x1": (0.5, 2)})


@pytest.fixture
def saved(small, tmp_path):
    small.save(tmp_path / "small.rado.parquet")
    return tmp_path / "small.rado.parquet"


def same(a, b):
    return a.to_dict() == b.to_dict() and all(a.blocks[k].tobytes() == b.blocks[k].tobytes() for k in a.blocks)


def test_a_release_comes_back_to_the_bit(small, saved):
    again = rb.load(saved)
    assert same(small, again)
    assert again.columns == small.columns
    assert again.statement == small.statement


def test_another_process_reads_the_same(small, saved):
    code = (
        f"import hashlib, radoboost as rb; print(hashlib.sha256(rb.load({str(saved)!r}).rados.tobytes()).hexdigest())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert printed == hashlib.sha256(small.rados.tobytes()).hexdigest()


def test_any_parquet_reader_can_read_it(small, saved):
    table = pq.read_table(saved)
    assert table.column_names == ["block", "x0", "x1", "x2", "(constant)"]
    assert set(table.column("block").to_pylist()) == {"rados"}
    assert table.column("x2").to_numpy().tolist() == small.rados[:, 2].tolist()


def test_the_document_stands_once_and_holds_no_secret(small, saved):
    content = saved.read_bytes()
    assert content.count(b'"sha256"') == 1
    document = json.loads(pq.read_metadata(saved).metadata[b"radoboost"])
    assert set(document) == {
        "format", "blocks", "columns", "classes", "mechanism", "signatures", "statement", "n_examples", "sha256",
    }  # fmt: skip
    assert document["signatures"] == {"name": "all"}
    assert document["mechanism"] == {"name": "plain", "law": "sums"}
    assert "seed" not in document and not re.search(r"\bkey\b", json.dumps({**document, "statement": None}))


def test_the_digest_is_that_of_the_file_with_zeros(saved):
    """As the format's page describes it, in a few lines of its own."""
    content = saved.read_bytes()
    digest = json.loads(pq.read_metadata(saved).metadata[b"radoboost"])["sha256"]
    assert content.count(digest.encode()) == 1
    assert hashlib.sha256(content.replace(digest.encode(), b"0" * 64)).hexdigest() == digest


def test_no_flipped_bit_goes_unseen(saved, rng):
    content = saved.read_bytes()
    for position in rng.choice(len(content) * 8, 300, replace=False).tolist():
        broken = bytearray(content)
        broken[position // 8] ^= 1 << position % 8
        saved.write_bytes(broken)
        with pytest.raises(ReleaseError, match=re.escape(str(saved))):
            rb.load(saved)


def test_no_truncation_goes_unseen(saved, rng):
    content = saved.read_bytes()
    for length in [0, 1, 4, 11, 12, len(content) - 1, *rng.integers(0, len(content), 50).tolist()]:
        saved.write_bytes(content[:length])
        with pytest.raises(ReleaseError, match="is not a whole Parquet file"):
            rb.load(saved)


def resealed(path, change):
    """The same file with another document, and a digest that is right."""
    table = pq.read_table(path)
    document = json.loads(pq.read_metadata(path).metadata[b"radoboost"])
    change(document)
    document["sha256"] = "0" * 64
    table = table.replace_schema_metadata(None)
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"radoboost": json.dumps(document, separators=(",", ":"))})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"0" * 64, hashlib.sha256(content).hexdigest().encode()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format=2), "unknown version.*format 2"),
        (lambda d: d["columns"][0].update(scale="fourier"), "does not know.*upgrade"),
        (lambda d: d["columns"][0].pop("mean"), "does not know"),
        (lambda d: d["columns"][0].update(name="other"), "not those that its document describes"),
        (lambda d: d["blocks"][0].update(rows=24), "not those that its document describes"),
        (lambda d: d.pop("statement"), "document is incomplete"),
        (lambda d: d.update(classes=[]), "at least two classes"),
        (lambda d: d["blocks"][0].update(rows=10**30), "not those that its document describes"),
        (lambda d: d["columns"][0].update(step="abc"), "does not know"),
        (lambda d: d.update(mechanism=5), "document is incomplete"),
        (lambda d: d.update(n_examples="lots"), "does not say how many examples"),
    ],
)
def test_a_document_that_is_not_understood_is_refused(saved, change, message):
    resealed(saved, lambda document: None)
    rb.load(saved)
    resealed(saved, change)
    with pytest.raises(ReleaseError, match=message):
        rb.load(saved)


def test_other_files_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "plain.parquet")
    with pytest.raises(ReleaseError, match="no radoboost document"):
        rb.load(tmp_path / "plain.parquet")
    with pytest.raises(ReleaseError, match=r"cannot read .*none: No such file"):
        rb.load(tmp_path / "none")
    with pytest.raises(ReleaseError, match="cannot read"):
        rb.load(tmp_path)


@pytest.mark.parametrize(
    ("where", "code"), [("write_table", errno.ENOSPC), ("fsync", errno.EIO), ("replace", errno.EACCES)]
)
def test_a_failed_write_leaves_nothing_and_spares_the_old_file(small, tmp_path, monkeypatch, code, where):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    target = tmp_path / "r.rado.parquet"
    target.write_bytes(b"old")
    owner = release_module.pq.ParquetWriter if where == "write_table" else release_module.os
    with monkeypatch.context() as patch:
        patch.setattr(owner, where, fail)
        with pytest.raises(OutputError, match=f"cannot write .*{os.strerror(code)}"):
            small.save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["r.rado.parquet"]
    assert target.read_bytes() == b"old"


def test_an_interrupted_write_leaves_nothing(small, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(release_module.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small.save(tmp_path / "r.rado.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_release_cannot_be_changed_or_made_without_its_statement(small):
    with pytest.raises(ValueError, match="read-only"):
        small.rados[0, 0] = 1
    with pytest.raises(AttributeError):
        small.n_examples = 3
    with pytest.raises(TypeError):
        small.blocks["rados"] = np.zeros((1, 4))
    with pytest.raises(TypeError, match="statement"):
        rb.Release(blocks={}, columns=(), classes=(0, 1), mechanism={}, signatures={}, n_examples=1)
    with pytest.raises(ReleaseError, match="block 'rados' has shape"):
        rb.Release({"rados": np.zeros((2, 9))}, small.columns, (0, 1), {}, {}, small.statement, 1)


def test_values_that_are_not_finite_are_refused(small, tmp_path):
    rows = small.rados.copy()
    rows[3, 1] = np.nan
    rb.Release(
        {"rados": rows}, small.columns, small.classes, small.mechanism, small.signatures, small.statement, 3
    ).save(tmp_path / "r.parquet")
    with pytest.raises(ReleaseError, match="not finite"):
        rb.load(tmp_path / "r.parquet")


def test_places_that_are_not_for_files(small, tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for place in (
        tmp_path / "file" / "x",
        tmp_path / "pipe",
        tmp_path,
        tmp_path / ("n" * 300),
        "a\0b",
        tmp_path / "no" / "x",
    ):
        with pytest.raises(OutputError, match="cannot write"):
            small.save(place)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "pipe"]
    small.save(tmp_path / ("n" * 255))
    (tmp_path / "link").symlink_to("target.parquet")
    small.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and same(rb.load(tmp_path / "target.parquet"), small)
    with pytest.raises(ReleaseError, match="cannot read"):
        rb.load("a\0b")


def test_several_blocks_share_a_file(small, tmp_path):
    both = rb.Release(
        {"rados": small.rados, "class:dog": small.rados[:3] * 2},
        small.columns, small.classes, small.mechanism, small.signatures, small.statement, None,
    )  # fmt: skip
    both.save(tmp_path / "two.rado.parquet")
    again = rb.load(tmp_path / "two.rado.parquet")
    assert same(both, again)
    assert again.n_examples is None


def test_the_statement_of_plain_rados_promises_nothing(rng):
    x, y = rng.standard_normal((30, 2)), rng.choice([0, 1], 30)
    plain = rb.craft(x, y).statement
    assert (plain.epsilon, plain.promises, plain.neighbours) == (math.inf, (), "any two tables")
    assert json.loads(plain.to_json())["epsilon"] == "infinite"
    exposed = " ".join(plain.not_protected)
    assert "mean and standard deviation" in exposed and "seed" not in exposed
    assert "seed" in " ".join(rb.craft(x, y, seed=1).statement.not_protected)
    scaled = rb.craft(x, y, schema=[(-9, 9)] * 2, mechanism=rb.Plain(scale="bounds")).statement
    assert "standard deviation" not in " ".join(scaled.not_protected)
    assert rb.Statement.from_dict(plain.to_dict()) == plain


@pytest.mark.parametrize("classes", [(0, 1), ("no", "yes"), (False, True), (-1.5, 2.25), ("naïve", "日本")])
def test_classes_and_names_of_any_kind_survive(classes, tmp_path):
    table = pa.table(
        {'a "quoted" name': [1.0, 2.0, 3.0], "größe": [0.1, 0.2, 0.4], "y": [classes[0], *[classes[1]] * 2]}
    )
    release = rb.craft(table, label="y", n_rados=3)
    release.save(tmp_path / "r.parquet")
    again = rb.load(tmp_path / "r.parquet")
    assert again.classes == classes and again.feature_names == ('a "quoted" name', "größe", "(constant)")


def test_a_name_that_looks_like_a_digest_does_no_harm(tmp_path):
    name = '"sha256":"' + "0" * 64 + '"}'
    rb.craft(pa.table({name: [1.0, 2.0], "y": [0, 1]}), label="y", n_rados=2).save(tmp_path / "r.parquet")
    assert rb.load(tmp_path / "r.parquet").feature_names[0] == name


def test_memory_is_asked_for_first(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("psutil.virtual_memory", lambda: type("M", (), {"available": 2**30})())
        with pytest.raises(rb.TooLargeError, match=r"524,288 rados of 2,001 features needs .* GiB .* 1.0 GiB are free"):
            rb.craft(np.zeros((40, 2000)), [0, 1] * 20, n_rados=524_288)
        release = rb.craft(
            np.eye(30), [0, 1] * 15, n_rados=1000, compute=rb.Compute(threads=64)
        )  # fewer threads, same result
    assert release.n_rados == 1000


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(rb.TableError("column 'a' holds text")))
    assert isinstance(error, ValueError) and str(error) == "column 'a' holds text"
