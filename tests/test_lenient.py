"""Reading for private mechanisms: what one row holds changes neither how another is read, nor what comes out."""

import gzip
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import flat
import radoboost as rb
from radoboost.holder.table_check import check_table
from radoboost.tables import csv_files, csv_records, frames, open_table
from radoboost.tables.labels import LabelEncoder, comparable_labels
from radoboost.tables.private_reader import object_labels_as_text

RULE = LabelEncoder("y", ("no", "yes"))
CELLS = [
    b"", b" ", b"nan", b"inf", b"-inf", b"1e999", b"0x10", b"1_000", b"few", b"\xff\xfe", b"\x00", b'"', b'"5', b'5"',
    b'""', b'"a,b"', b'"a""b"', b"\r", b"1\r2", b"1,2", b",", b",,,", b"9" * 5000, b"true", b"- 1", b"\xef\xbb\xbf1",
    b"1e-400", b"yes", b"#", b"'", b"\\", b"1;2", b"\xc3\xa9",
]  # fmt: skip


def rows_of(path):
    """Every row as (values, sign), as private crafting sees it."""
    table = open_table(path, label="y", features=["a", "b"], row_by_row=True)
    found = []
    for batch in table.batches():
        signs = RULE.signs_or_zero(batch.labels)
        found += [(values.tobytes(), int(sign)) for values, sign in zip(batch.values(), signs, strict=True)]
    return found


@settings(max_examples=60)
@given(data=st.data())
def test_a_line_of_a_file_is_a_row_and_moves_no_other(data, tmp_path_factory):
    """Any line in place of one: the same number of rows, and every other row to the last bit."""
    lines = [b"a,b,y", *(b"%d,%d.5,%s" % (k, k % 7, b"yes" if k % 3 else b"no") for k in range(12))]
    cells = st.lists(st.sampled_from(CELLS), min_size=0, max_size=5)
    odd = b",".join(data.draw(cells)).replace(b"\n", b"")
    place = data.draw(st.integers(1, 12))
    folder = tmp_path_factory.mktemp("lines")
    ending = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    before, after = folder / "before.csv", folder / "after.csv.gz"
    before.write_bytes(ending.join(lines) + ending)
    lines[place] = odd
    after.write_bytes(gzip.compress(ending.join(lines) + ending))
    clean, dirty = rows_of(before), rows_of(after)
    assert len(clean) == len(dirty) == 12
    assert clean[: place - 1] + clean[place:] == dirty[: place - 1] + dirty[place:]


def test_cells_are_read_as_they_should_be(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfa,"b",y\r\n1,"2",yes\n" 3 ",4,"no"\n5,6\n\nTRUE,1e3,yes\n7,8,maybe\n9,x,no')
    found = rows_of(path)
    expected = [
        ((1, 2), 1), ((3, 4), -1), ((5, 6), 0), ((np.nan, np.nan), 0), ((1, 1000), 1), ((7, 8), 0),
        ((9, np.nan), -1),
    ]  # fmt: skip
    assert found == [(np.array(values, dtype=np.float64).tobytes(), sign) for values, sign in expected]


@pytest.mark.parametrize("text", [b"a,b,y", b"a,b,y\n", b"a,b,y\r\n"])
def test_a_file_without_rows_has_none(text, tmp_path):
    (tmp_path / "t.csv").write_bytes(text)
    assert rows_of(tmp_path / "t.csv") == []
    (tmp_path / "u.csv").write_bytes(b"\n1,2,3\n")
    with pytest.raises(rb.TableError, match="names no columns"):
        rows_of(tmp_path / "u.csv")


@pytest.mark.parametrize("text", [b"", b"\n", b"\nPAR1\x15\n", b"x\n"])
def test_folders_that_have_all_named_columns_and_a_first_record_decide_nothing(text, tmp_path):
    """A file without names is no other table because of its folder, nor of another kind because of its first row."""
    for name, content in (("0", b"x\n.1\n"), ("1", text)):
        (tmp_path / f"y={name}").mkdir()
        (tmp_path / f"y={name}" / "a.csv").write_bytes(content)
    table = open_table(tmp_path, label="y", row_by_row=True)
    assert table.features == ("x",) and sum(part.count() for part in table.parts()) == 1 + (b"PAR1" in text)


@pytest.mark.parametrize("features", [["a", "b"], None])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".arrow"])
def test_of_several_files_one_without_names_has_no_rows(ending, features, tmp_path):
    """As libraries write frames without records, whose columns only a record would tell."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": ["yes", "no"]})
    empty = [b"", b"\n", b"\r\n", b'""\n', b"\xef\xbb\xbf\n"]
    if ending == ".csv.gz":
        empty = [gzip.compress(text) for text in empty]
    if ending in (".parquet", ".arrow"):
        frame.drop(columns=["a", "b", "y"]).to_parquet(tmp_path / "t.parquet")
        pd.DataFrame([]).to_feather(tmp_path / "t.arrow")
        empty = [(tmp_path / f"t{ending}").read_bytes()]
    write = {".parquet": frame.to_parquet, ".arrow": frame.to_feather}.get(ending, partial(frame.to_csv, index=False))
    for text in empty:
        folder = tmp_path / "days"
        folder.mkdir(exist_ok=True)
        write(folder / f"2{ending}")
        for name in "13":
            (folder / f"{name}{ending}").write_bytes(text)
        table = open_table(folder, label="y", features=features, row_by_row=True)
        assert table.features == ("a", "b") and sum(part.count() for part in table.parts()) == 2
        with pytest.raises(rb.TableError, match=r"1\."):
            open_table(folder, label="y", features=features)
        (folder / f"2{ending}").write_bytes(text)
        with pytest.raises(rb.TableError, match=r"1\..*(names no columns|is empty)"):
            open_table(folder, label="y", features=features, row_by_row=True)


@pytest.mark.parametrize("in_folders", [False, True])
def test_a_record_without_any_value_is_a_row_of_nothing_where_it_is_all_of_its_file(in_folders, tmp_path):
    """Another record in its place would give the file names, and the table as many rows."""
    nothing = pl.DataFrame([{}])
    writers = {
        "csv": partial(pd.DataFrame([{}]).to_csv, index=False),
        "index.csv": pd.DataFrame([{}]).to_csv,
        "note.csv": lambda path: path.write_bytes(b'""\r\n"a note;\r\nof ""two"" lines"\r\n'),
        "csv.gz": lambda path: path.write_bytes(gzip.compress(b"\n\n")),
        "index.parquet": partial(pd.DataFrame([{}]).to_parquet, index=True),
        "parquet": nothing.write_parquet,
        "arrow": nothing.write_ipc,
        "stream.arrow": nothing.write_ipc_stream,
    }
    whole = pl.DataFrame({"a": [0.5], "y": ["no"]})
    for ending, write in writers.items():
        folders = [tmp_path / ending / (f"y={name}" if in_folders else "") for name in ("no", "yes")]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        first, second = folders[0] / f"1.{ending}", folders[1] / f"2.{ending}"
        rows = whole.drop("y") if in_folders else whole
        if ending.endswith("csv.gz"):
            first.write_bytes(gzip.compress(rows.write_csv().encode()))
        else:
            {"csv": rows.write_csv, "parquet": rows.write_parquet}.get(ending.split(".")[-1], rows.write_ipc)(first)
        write(second)
        table = open_table(tmp_path / ending, label="y", row_by_row=True)
        labels = [label for batch in table.batches() for label in batch.labels.cast("string").to_pylist()]
        last = "yes" if in_folders else "" if "csv" in ending else None  # as the folder says, or an empty cell
        assert labels == ["no", last] and sum(part.count() for part in table.parts()) == 2, ending


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_with_nothing_but_persons_gives_rows_that_contribute_nothing(ending, tmp_path):
    whole = pd.DataFrame({"a": [1.0], "y": ["yes"], "id": [7]})
    for k, frame in enumerate((whole, whole[["id"]])):
        (frame.to_parquet if ending == "parquet" else frame.to_feather)(tmp_path / f"{k}.{ending}")
    table = open_table(tmp_path, label="y", features=["a"], person="id", row_by_row=True)
    assert sum(part.count() for part in table.parts()) == 2


@pytest.mark.parametrize("length", [10, 1000, 5000, 50_000])
def test_long_lines_count_as_one_row(length, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "LONGEST_LINE", 1000)
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 700)
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b,y\n" + b"1,2,yes\n" * 300 + b"x" * length + b"\n" + b"3,4,no\n" * 300)
    found = rows_of(path)
    assert len(found) == 601 and found[300][1] == 0
    assert len(set(found[:300])) == len(set(found[301:])) == 1


def test_a_mark_at_the_start_of_a_line_is_never_taken_away(tmp_path, monkeypatch):
    """Wherever the blocks that are read begin."""
    mark = b"\xef\xbb\xbf3,4,no"
    for block in (20, 64, 1 << 22):
        monkeypatch.setattr(csv_files, "BLOCK_BYTES", block)
        for before in range(12):
            (tmp_path / "t.csv").write_bytes(b"a,b,y\n" + b"1,2,yes\n" * before + mark + b"\n")
            values, sign = rows_of(tmp_path / "t.csv")[-1]
            assert np.isnan(np.frombuffer(values)[0]) and sign == -1


def test_a_line_of_the_greatest_length_is_read_the_same_wherever_blocks_end(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "LONGEST_LINE", 100)
    found = set()
    for block in (7, 50, 101, 102, 103, 1000):
        monkeypatch.setattr(csv_files, "BLOCK_BYTES", block)
        (tmp_path / "t.csv").write_bytes(b"a,b,y\r\n1,2,yes" + b" " * 93 + b"\r\n3,4,no\r\n")
        found.add(tuple(rows_of(tmp_path / "t.csv")))
    assert len(found) == 1


def test_many_blank_lines_of_a_wide_table(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_records, "_MOST_CELLS", 10_000)
    names = b",".join(b"c%d" % k for k in range(300))
    (tmp_path / "t.csv").write_bytes(b"a,b,y," + names + b"\n" + b"\n" * 5000)
    assert len(rows_of(tmp_path / "t.csv")) == 5000


# ---- labels, one by one


ODD_LABELS = [
    float("nan"), None, "maybe", b"\xff", 5, True, 2.5, 10**5000, "\ud800", [1], object(), np.ma.masked, pd.NA,
    np.datetime64("2020-01-01"), np.float32(1), 2**70, "", "yes ",
]  # fmt: skip


@pytest.mark.parametrize(
    ("k", "kind"),
    list(enumerate([list, tuple, lambda y: pd.Series(y, dtype=object), lambda y: np.array(y, dtype=object)])),
)
def test_one_odd_label_moves_no_other(k, kind):
    """Each label in each container, among usual ones of each type in turn."""
    for place, odd in enumerate(ODD_LABELS):
        y = [("yes", b"yes", np.str_("yes"))[(k + place) % 3]] * 6
        y[3] = odd
        signs = RULE.signs_or_zero(object_labels_as_text(kind(y)))
        assert np.delete(signs, 3).tolist() == [1] * 5, place


def test_labels_of_numbers_and_truth_values():
    rule = LabelEncoder("y", (0, 1))
    for y in (
        [0, 1, 2],
        np.array([0.0, 1.0, np.nan]),
        ["0", "1", "x"],
        np.array([False, True, True])[[0, 1]],
        [0.0, 1],
    ):
        signs = rule.signs_or_zero(object_labels_as_text(y))
        assert signs.tolist()[:2] == [-1, 1] and set(signs.tolist()[2:]) <= {0}
    masked = np.ma.masked_array([0, 1, 1], [False, False, True])
    assert rule.signs_or_zero(object_labels_as_text(masked)).tolist() == [-1, 1, 0]
    for swapped in ("<u8", ">u8"):
        y = np.array([0, 1, 2**63], dtype=swapped)
        assert rule.signs_or_zero(open_table(np.eye(3), y, row_by_row=True).parts()[0].labels).tolist() == [-1, 1, 0]
    assert rule.signs_or_zero(object_labels_as_text(np.array([0, 1], "M8[ns]"))).tolist() == [0, 0]
    assert rule.signs_or_zero(object_labels_as_text(pa.chunked_array([[0], [1, None]]))).tolist() == [-1, 1, 0]
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"0", b"\xff"]).buffers())
    series = pd.Series(pd.arrays.ArrowExtensionArray(broken))
    assert rule.signs_or_zero(object_labels_as_text(series)).tolist() == [-1, 0]
    for bad in ("yes", np.eye(2), 5):
        with pytest.raises(rb.TableError, match="sequence of labels"):
            object_labels_as_text(bad)


# ---- whatever the container, a value does not decide


MECHANISMS = [rb.NoisyRados(epsilon=1.0), rb.NoisyExamples(epsilon=1.0)]


def craft(table, y=None, **options):
    given_label = {} if y is not None else {"label": "y"}
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("error")  # not even warnings that are errors
        warnings.simplefilter("ignore", ResourceWarning)
        return [
            flat.craft(table, y, mechanism=mechanism, n_rados=5, classes=("no", "yes"), **{**given_label, **options})
            for mechanism in MECHANISMS
        ]


def same_but_for_rados(clean, dirty):
    for a, b in zip(clean, dirty, strict=True):
        assert {**a.to_dict(), "id": ""} == {**b.to_dict(), "id": ""} and a.rados.shape == b.rados.shape


BOUNDS = {"a": (0, 10), "b": (0, 10)}
A, B, Y = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], ["no", "yes", "no", "yes"]


@pytest.mark.parametrize("before", [("ignore", "something else"), None])
def test_warnings_that_are_errors_do_not_decide(before):
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("error")
        if before:
            warnings.filterwarnings(before[0], message=before[1])
        for odd in (1.0, np.nan, 99.0):
            x = np.array([[1.0], [odd]])
            rb.craft(x, [0, 1], mechanism=MECHANISMS[0], n_rados=2, classes=(0, 1), schema=[[0, 5]])


def test_a_signalling_nan_is_no_reason_to_stop():
    x = np.ones((4, 2), dtype=np.float32)
    x.view(np.uint32)[1, 0] = 0x7FA00000
    with np.errstate(all="raise"):
        craft(x, Y, schema=[[0, 10]] * 2)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -1e300, 5e-324])
def test_numbers_in_every_container(odd, tmp_path):
    clean = np.column_stack([A, B])
    dirty = clean.copy()
    dirty[2, 1] = odd
    bounds = [[0, 10], [0, 10]]
    for make in (np.array, lambda x: np.ma.masked_invalid(x), sparse.csr_array, sparse.csc_matrix, np.asfortranarray):
        same_but_for_rados(craft(make(clean), Y, schema=bounds), craft(make(dirty), Y, schema=bounds))
    for frame in (pd.DataFrame, pl.DataFrame, pa.table):
        same_but_for_rados(*(craft(frame({"a": x[:, 0], "b": x[:, 1], "y": Y}), schema=BOUNDS) for x in (clean, dirty)))
    for k, x in enumerate((clean, dirty)):
        pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1], "y": Y}), tmp_path / f"{k}.parquet")
    same_but_for_rados(*(craft(tmp_path / f"{k}.parquet", schema=BOUNDS) for k in range(2)))


def test_nulls_odd_labels_and_columns_that_are_not_used():
    frame = {"a": A, "b": B, "y": Y}
    clean = craft(pd.DataFrame(frame), schema=BOUNDS)
    for y in (["no", None, "no", "yes"], ["no", 5, "no", "yes"], ["no", "perhaps", b"no", "yes"]):
        same_but_for_rados(clean, craft(pd.DataFrame({**frame, "y": pd.Series(y, dtype=object)}), schema=BOUNDS))
    same_but_for_rados(clean, craft(pd.DataFrame({**frame, "note": ["k", "k", 5, "k"]}), schema=BOUNDS))
    for index in (["p", "q", 5, "s"], [1, 2, "x", 2**70]):  # nobody declared it
        same_but_for_rados(clean, craft(pd.DataFrame(frame, index=pd.Index(index, dtype=object)), schema=BOUNDS))
    for rows in (2, 3):
        twice = pd.DataFrame(np.ones((rows, 4)), columns=["a", "b", "y", "y"])
        with pytest.raises(rb.TableError, match="several columns are called 'y'"):
            craft(twice, schema=BOUNDS)
    gap = pa.table({"a": pa.array([1, None, 3, 2**62]), "b": pa.array([True, False, None, True]), "y": Y})
    same_but_for_rados(clean, craft(gap, schema=BOUNDS))
    same_but_for_rados(clean, craft(pl.DataFrame({**frame, "y": ["no", None, "x", "yes"]}), schema=BOUNDS))


def test_no_column_is_refused_for_its_type():
    """One value can change the type of a column, so that a refusal would tell of it."""
    clean = craft(pd.DataFrame({"a": A, "b": B, "y": Y}), schema=BOUNDS)
    for values in (["1", "2", "3", "4"], ["1", "n/k", "3", "4"], pd.date_range("2020-01-01", periods=4).to_list()):
        for frame in (pd.DataFrame, pl.DataFrame, pa.table):
            same_but_for_rados(clean, craft(frame({"a": values, "b": B, "y": Y}), schema=BOUNDS))
    columns = ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, "x", 4.0], [1.0, None, 2**70, 4.0])
    limits = [[0, 10]] * 2
    usual = craft(np.array([[value, 1.0] for value in columns[0]]), Y, schema=limits)
    for column in columns:
        same_but_for_rados(
            clean, craft(pd.DataFrame({"a": pd.Series(column, dtype=object), "b": B, "y": Y}), schema=BOUNDS)
        )
        same_but_for_rados(usual, craft(np.array([[value, 1.0] for value in column], dtype=object), Y, schema=limits))
        with pytest.raises(rb.TableError, match="takes NumPy arrays"):  # a list, whatever it holds
            craft([[value, 1.0] for value in column], Y, schema=limits)


def test_categories_that_one_file_has_and_another_has_not(tmp_path):
    """Dictionaries with a narrow index, which cannot be put together."""
    for k, size in enumerate((64, 64)):
        words = pa.array([f"{k}-{j}" for j in range(size)])
        labels = pa.DictionaryArray.from_arrays(pa.array(range(size), pa.int8()), words)
        pq.write_table(pa.table({"a": np.ones(size), "b": np.ones(size), "y": labels}), tmp_path / f"{k}.parquet")
    releases = craft([tmp_path / "0.parquet", tmp_path / "1.parquet"], schema=BOUNDS)
    assert releases[1].n_examples == 128


def test_a_masked_label_is_missing():
    table = np.ma.masked_array([[1.0, 0], [2.0, 1], [3.0, 1]], [[False] * 2, [False] * 2, [False, True]])
    check = check_table(table, label="x1", classes=(0, 1), schema={"x0": (0, 5)})
    assert (check.counts.n_rows, check.counts.spoiled, check.counts.alone.tolist()) == (3, 1, [0, 1])
    rb.craft(table, label="x1", mechanism=MECHANISMS[0], classes=(0, 1), n_rados=2, schema={"x0": (0, 5)})


def test_templates_do_not_look_at_values(tmp_path):
    path = tmp_path / "t.csv"
    found = []
    for cell in (b"40", b"unknown", b"true", b"", b"1,2"):
        path.write_bytes(b"age,dose,y\n30,1,no\n" + cell + b",2,yes\n")
        found.append(rb.schema_template(path, "y"))
    assert all(template == found[0] for template in found)
    assert list(found[0].columns) == ["age", "dose"]


# ---- parameters that cannot be used are refused before anything is read


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (rb.NoisyRados(noise_std=1e-12), "cannot be sampled"),
        (rb.NoisyRados(noise_std=1e12), "cannot be sampled"),
        (rb.NoisyExamples(noise_std=1e-9), "cannot be sampled"),
        (rb.NoisyExamples(noise_std=1e7), "leaves nothing of rows"),
        (rb.NoisyExamples(epsilon=1e-6, delta=1e-9), "leaves nothing of rows"),
    ],
)
def test_noise_that_cannot_be_had(mechanism, message):
    with pytest.raises(rb.ArgumentError, match=message):
        rb.craft("there-is-no-such-file.csv", label="y", mechanism=mechanism, classes=("no", "yes"), schema=BOUNDS)


def test_too_many_columns_for_the_norm_test():
    wide = sparse.csr_array((3, 2**18))
    with pytest.raises(rb.ArgumentError, match="at most 262,144 columns"):
        rb.craft(wide, [0, 1, 0], mechanism=MECHANISMS[0], classes=(0, 1), n_rados=1, schema=[[0, 1]] * 2**18)


def test_slices_are_parts_of_batches():
    batches = [pa.record_batch({"x": pa.array(range(k))}) for k in (5, 0, 3)]
    assert [batch.num_rows for batch in frames.slice_batches(batches, 2)] == [2, 2, 1, 2, 1]


def seconds_of(label, tmp_path):
    """The least processor time, over a few runs, of reading a file in which one label is this text."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b,y\n" + b"1,2,yes\n" * 50 + b"1,2," + label + b"\n")
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        assert len(rows_of(path)) == 51
        seconds.append(time.process_time() - begun)
    return min(seconds)


def test_a_label_of_a_million_characters_takes_no_longer_than_as_many_digits(tmp_path):
    """Digits and then a letter: a pattern that goes back and tries again would take hours."""
    long = 10**6
    assert seconds_of(b"9" * long + b"x", tmp_path) < 3 * seconds_of(b"9" * (long + 1), tmp_path)
    for text in ("9" * long + "x", "1" + "0" * long, "9" * long + ".", "." + "9" * long + "e"):
        begun = time.process_time()
        assert RULE.signs_or_zero(pa.array([text, "yes"])).tolist() == [0, 1]
        assert time.process_time() - begun < 5


def test_a_class_is_not_longer_than_a_label_can_be():
    with pytest.raises(rb.ArgumentError, match="classes must be two different values"):
        LabelEncoder("y", ("no", "y" * 2000))


@pytest.mark.parametrize("index", [-1, 2**31 - 1])
def test_a_bad_dictionary_index_costs_its_row_alone(index, tmp_path):
    """Arrow does not check indices; a batch that was refused for one of them lost all its rows."""
    indices = pa.array([1, 0, index, 1, 1], pa.int32())
    labels = pa.DictionaryArray.from_arrays(indices, pa.array(["no", "yes"]), safe=False)
    assert RULE.signs_or_zero(labels).tolist() == [1, -1, 0, 1, 1]
    table = pa.table({"a": [1.0] * 5, "b": [2.0] * 5, "y": labels})
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    assert [sign for _, sign in rows_of(path)] == [1, -1, 0, 1, 1]


@pytest.mark.parametrize("index", [2, 2**63, 2**64 - 1])
def test_an_unsigned_index_of_any_size_costs_its_row_alone(index):
    """Arrow compared indices as int64, and refused all labels if one was 2**63 or more."""
    indices = pa.array([1, 0, index, 1], pa.uint64())
    labels = pa.DictionaryArray.from_arrays(indices, pa.array(["no", "yes"]), safe=False)
    frame = {"a": A, "b": B}
    for y in (labels, pa.chunked_array([labels[:1], labels[1:]]), pd.Series(pd.arrays.ArrowExtensionArray(labels))):
        assert RULE.signs_or_zero(object_labels_as_text(y)).tolist() == [1, -1, 0, 1]
        for table in (pa.table(frame), pd.DataFrame(frame), np.column_stack([A, B])):
            craft(table, y, schema=[(0, 10)] * 2 if isinstance(table, np.ndarray) else BOUNDS)
        craft(pa.table({**frame, "y": pa.chunked_array([labels])}), schema=BOUNDS)


def test_labels_of_categories_may_be_longer_than_two_gibibytes_together():
    """Taken out of a dictionary of small texts they did not fit: one label more decided."""
    words = pa.array(["yes", "y" * 2**20])
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), words)
    assert comparable_labels(labels).type == pa.large_string()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), words)
    assert comparable_labels(runs).type == pa.large_string()


def test_half_a_surrogate_pair_costs_its_row_alone():
    """Arrow refuses the whole column of texts for it."""
    labels = pd.Series(["yes", "no", "\ud800", "yes"], dtype="string[python]")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.0] * 4})
    for table, how in (
        (frame, {"y": labels}),
        (frame.assign(y=labels), {"label": "y", "features": ["a", "b"]}),
    ):
        batch = next(iter(open_table(table, **how, row_by_row=True).batches()))
        assert RULE.signs_or_zero(batch.labels).tolist() == [1, -1, 0, 1]
