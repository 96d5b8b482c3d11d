"""A table in parts: every row once and in order, wherever the cuts are, and each part on its own in another process."""

import gzip
import math
import os
import pickle
import shutil
import time
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

import csv_oracle
import radoboost as rb
from radoboost.tables import csv_files, open_table
from radoboost.tables import table as table_module
from radoboost.tables.csv_files import line_of_csv_row
from radoboost.tables.labels import LabelEncoder

RULE = LabelEncoder("y", (0, 1))
KINDS = ["array", "fortran", "integers", "csr", "csc", "pandas", "polars", "arrow", "chunks", "parquet", "arrow file",
         "arrow stream", "compressed arrow", "csv", "csv.gz", "files"]  # fmt: skip


def make(kind, x, y, group, folder):
    """The table `x` with labels `y` as one of many kinds, as arguments of open_table."""
    columns = {"b": x[:, 1], "a": x[:, 0], "note": np.full(len(x), "n"), "y": y}
    table = pa.table(columns)
    if kind in ("array", "fortran", "integers", "csr", "csc"):
        forms = {"array": np.array, "fortran": np.asfortranarray, "integers": lambda x: x.astype(np.int64)}
        return {"table": {**forms, "csr": sparse.csr_array, "csc": sparse.csc_matrix}[kind](x), "y": y}
    options = {"label": "y", "features": ["a", "b"]}
    if kind in ("pandas", "polars", "arrow", "chunks"):
        chunks = pa.Table.from_batches(table.to_batches(max_chunksize=group), table.schema)
        forms = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "chunks": lambda _: chunks}
        return {"table": forms[kind](columns), **options}
    ending = {"parquet": "parquet", "csv": "csv", "csv.gz": "csv.gz"}.get(kind, "arrow")
    path = folder / f"t.{ending}"
    if kind == "files":
        paths = [folder / "1.parquet", folder / "2.csv", folder / "3.parquet"]
        cuts = [0, len(x) // 3, len(x) // 2, len(x)]
        for path, start, stop in zip(paths, cuts[:-1], cuts[1:], strict=True):
            write(path, table.slice(start, stop - start), group)
        return {"table": paths, **options}
    write(path, table, group, kind)
    return {"table": path, **options}


def write(path, table, group, kind=""):
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
    elif path.suffix == ".arrow":
        compression = pa.ipc.IpcWriteOptions(compression="lz4" if kind == "compressed arrow" else None)
        writer = pa.ipc.new_stream if kind == "arrow stream" else pa.ipc.new_file
        with writer(path, table.schema, options=compression) as file:
            file.write_table(table, max_chunksize=group)
    else:
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        text = "b,a,note,y\n" + "".join(f"{b!r},{a!r},{note},{y}\n" for b, a, note, y in rows)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def read(part, most_rows):
    """The rows of a part, or of a whole source: values and sign of each."""
    rows = []
    for batch in part.batches(most_rows):
        values, signs = batch.values(), RULE.signs_or_zero(batch.labels)
        assert values.shape == (batch.n_rows, 2) and values.flags.c_contiguous and 0 < batch.n_rows <= most_rows
        rows += [(*row, sign) for row, sign in zip(values.tolist(), signs.tolist(), strict=True)]
    return rows


@pytest.mark.parametrize("row_by_row", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(
    m=st.integers(1, 200),
    group=st.integers(1, 80),
    part_values=st.sampled_from([1, 60, 200, 1 << 23]),
    range_bytes=st.integers(1, 300) | st.just(1 << 25),
    most_rows=st.integers(1, 150),
)
def test_parts_have_every_row_once_and_in_order(
    kind, row_by_row, tmp_path_factory, m, group, part_values, range_bytes, most_rows
):
    rng = np.random.default_rng(m)
    x, y = rng.integers(-9, 9, (m, 2)).astype(float), rng.integers(0, 2, m)
    given_table = make(kind, x, y, group, tmp_path_factory.mktemp("parts"))
    expected = [(*row, sign) for row, sign in zip(x.tolist(), (2 * y - 1).tolist(), strict=True)]
    with (
        mock.patch.object(table_module, "PART_VALUES", part_values),
        mock.patch.object(table_module, "TILE_ROWS", 4),
        mock.patch("radoboost.tables.opening.SLICE_ROWS", 8),
        mock.patch("radoboost.tables.frames.BATCH_ROWS", 8),
        mock.patch("radoboost.tables.files.BATCH_ROWS", 8),
        mock.patch.object(csv_files, "RANGE_BYTES", range_bytes),
    ):
        table = open_table(**given_table, row_by_row=row_by_row)
        assert read(table, most_rows) == read(table, m) == expected
        parts = table.parts()
        rows, first = [], 0
        for part in parts:
            own = read(part, most_rows)
            assert own == read(part, most_rows) == read(pickle.loads(pickle.dumps(part)), most_rows)
            assert part.count() == len(own) and part.n_rows in (None, len(own))
            rows += own
        assert rows == expected
        assert table.n_rows in (None, m)
        if kind not in ("csv", "csv.gz", "files", "arrow stream"):
            assert table.n_rows == m
        for part in [pickle.loads(pickle.dumps(part)) for part in parts] if kind != "files" else ():
            before = first
            for batch in part.batches(most_rows):
                line = f"line {first + 2} of {given_table['table']}" if "csv" in kind else f"row {first + 1}"
                if row_by_row and "csv" in kind:
                    line = f"record {first - before + 1} of {given_table['table']}"
                    line += f" behind byte {part.start:,}" if part.start else ""
                assert batch.place(0) == line
                first += batch.n_rows


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "arrow stream"])
def test_a_pickled_part_has_its_own_rows_only(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(table_module, "PART_VALUES", 20_000)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (100_000, 2)).astype(float), rng.integers(0, 2, 100_000)
    table = open_table(**make(kind, x, y, 5000, tmp_path))
    sizes = [len(pickle.dumps(part)) for part in table.parts()]
    assert len(sizes) >= (1 if "csv" in kind else 2)
    in_memory = not any(word in kind for word in ("parquet", "file", "csv", "compressed"))
    for size, part in zip(sizes, table.parts(), strict=True):
        each = 8 * (7 if kind in ("csr", "csc") else 3.2)  # a sparse matrix has places beside values
        assert size < (each * part.n_rows + 2000 if in_memory else 3000)


def test_small_row_groups_are_read_together(tmp_path):
    """A file of 10,000 row groups is opened a few times."""
    table = pa.table({"a": np.arange(20_000.0), "y": np.arange(20_000) % 2})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    opened = open_table(tmp_path / "t.parquet", label="y")
    assert len(opened.parts()) == 1
    assert [batch.n_rows for batch in opened.batches()] == [20_000]


def test_a_large_row_group_is_not_loaded_whole(tmp_path, rng):
    columns = {f"x{k}": rng.standard_normal(2_000_000) for k in range(4)}
    table = pa.table({**columns, "y": rng.integers(0, 2, 2_000_000)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2_000_000)
    size = table.nbytes
    del table, columns
    before = pa.total_allocated_bytes()
    for batch in open_table(tmp_path / "t.parquet", label="y").batches():
        batch.values()
        assert pa.total_allocated_bytes() - before < 0.4 * size


def test_a_part_of_a_file_that_changed_is_refused(tmp_path):
    for name in ("t.parquet", "t.csv", "t.arrow"):
        table = pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0], "note": ["n", "n"], "y": [0, 1]})
        for row_by_row in (False, True):
            write(tmp_path / name, table, 1)
            (part,) = open_table(tmp_path / name, label="y", features=["a", "b"], row_by_row=row_by_row).parts()
            write(tmp_path / name, table.slice(1), 1)
            with pytest.raises(rb.TableError, match=rf"{name} changed while it was read"):
                read(part, 10)


@pytest.mark.parametrize(("name", "row_by_row"), [("t.parquet", False), ("t.csv", True), ("t.arrow", True)])
def test_another_machine_goes_by_size_and_time(name, row_by_row, tmp_path, monkeypatch):
    """It may see the file by another mount, or a copy of it: under another number, which is no change."""
    table = pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0], "note": ["n", "n"], "y": [0, 1]})
    write(tmp_path / name, table, 1)
    opened = open_table(tmp_path / name, label="y", features=["a", "b"], row_by_row=row_by_row).parts()
    (here,) = opened
    (there,) = pickle.loads(pickle.dumps(opened))
    shutil.copy2(tmp_path / name, tmp_path / "copy")
    os.replace(tmp_path / "copy", tmp_path / name)
    assert read(there, 10) and there.count() == 2
    assert read(pickle.loads(pickle.dumps(there)), 10)
    with pytest.raises(rb.TableError, match="changed while it was read"):
        read(here, 10)
    batches = there.batches(10)
    next(batches)
    shutil.copy2(tmp_path / name, tmp_path / "copy")
    os.replace(tmp_path / "copy", tmp_path / name)  # of one size and time, but while it is read
    with pytest.raises(rb.TableError, match="changed while it was read"):
        list(batches)
    monkeypatch.setattr("socket.gethostname", lambda: "worker-7")
    state = os.stat(tmp_path / name)
    os.utime(tmp_path / name, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    with pytest.raises(rb.TableError, match=rf"the machine worker-7 sees another file as .*{name} .*or it changed"):
        read(there, 10)
    os.utime(tmp_path / name, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert read(there, 10)
    write(tmp_path / name, table.slice(1), 1)
    os.utime(tmp_path / name, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(rb.TableError, match="sees another file"):
        read(there, 10)


# ---- ranges of bytes


LINES = [
    b"1,2,1",
    b"3,4,0",
    b'"5",6,1',
    b'"a\r',
    b"",
    b"\r",
    b"x" * 40,
    b'"1,1",2,0',
    b"\xef\xbb\xbf7,8,1",
    b"9" * 25 + b",1,0",
]
CUTS = [1, 2, 3, 5, 8, 13, 21, 34, 1 << 25]


@settings(max_examples=60)
@given(
    lines=st.lists(st.sampled_from(LINES), max_size=25),
    ending=st.sampled_from([b"\n", b"\r\n"]),
    final=st.booleans(),
    range_bytes=st.sampled_from(CUTS),
    block=st.sampled_from([1, 4, 16, 1 << 22]),
    longest=st.sampled_from([30, 1 << 20]),
)
@example([b"1,2,1", b"x" * 40], b"\n", False, 8, 4, 30)
def test_where_bytes_are_cut_changes_no_row(tmp_path_factory, lines, ending, final, range_bytes, block, longest):
    path = tmp_path_factory.mktemp("cuts") / "t.csv"
    text = ending.join([b"a,b,y", *lines]) + (ending if final else b"")
    path.write_bytes(text)
    one = open_table(path, label="y", row_by_row=True)
    with mock.patch.object(csv_files, "LONGEST_LINE", longest):
        expected = [str(row) for row in read(one, 1000)]  # as text, for NaN is not equal to itself
        with (
            mock.patch.object(csv_files, "RANGE_BYTES", range_bytes),
            mock.patch.object(csv_files, "BLOCK_BYTES", block),
        ):
            parts = open_table(path, label="y", row_by_row=True).parts()
            rows = [[str(row) for row in read(part, 3)] for part in parts]
            assert [row for own in rows for row in own] == expected
            assert [part.count() for part in parts] == [len(own) for own in rows]
    assert len(expected) == len(csv_oracle.rows(text, b",", 3, longest, -1)) - 1
    assert len(parts) <= math.ceil(len(text) / range_bytes)


def test_a_line_over_many_ranges_takes_linear_time(tmp_path, monkeypatch):
    """Twice the bytes in twice as many ranges: less than three times the time, not four times."""

    def seconds(size):
        (tmp_path / "t.csv").write_bytes(b"a,b,y\n1,2,1\n" + b"9" * size + b"\n3,4,0\n")
        parts = open_table(tmp_path / "t.csv", label="y", row_by_row=True).parts()
        best = math.inf
        for _ in range(3):
            begun = time.process_time()
            assert sum(len(read(part, 10)) for part in parts) == 3
            best = min(best, time.process_time() - begun)
        return best

    monkeypatch.setattr(csv_files, "LONGEST_LINE", 1 << 12)
    monkeypatch.setattr(csv_files, "RANGE_BYTES", 1 << 15)
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 1 << 12)
    assert seconds(1 << 22) < 3 * seconds(1 << 21)


def test_lines_of_rows_in_strict_files(tmp_path):
    """The header, empty lines and breaks within quotes are lines too."""
    text = '\na,note,y\n1,x,0\n\n2,"one\ntwo, ""three""\n",1\r\n\r\ninf,x,1\n'
    for path, content in ((tmp_path / "t.csv", text.encode()), (tmp_path / "t.csv.gz", gzip.compress(text.encode()))):
        path.write_bytes(content)
        assert [line_of_csv_row(path, row) for row in range(3)] == [3, 5, 9]
        with pytest.raises(rb.TableError, match=rf"column 'a' has an infinite value \(line 9 of .*{path.name}\)"):
            rb.craft(path, label="y", schema=rb.Schema(drop=("note",)))


def test_a_row_of_several_files_is_named_with_its_file(tmp_path):
    for name, value in (("1", 1.0), ("2", np.inf)):
        pq.write_table(pa.table({"a": [1.0, value], "y": [0, 1]}), tmp_path / f"{name}.parquet")
    with pytest.raises(rb.TableError, match=r"column 'a' has an infinite value \(row 2 of .*2\.parquet\)"):
        rb.craft(str(tmp_path / "*.parquet"), label="y")
