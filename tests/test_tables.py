"""Tables in every form, and what is refused with the column named."""

import functools
import gzip
import math
import os
import pickle
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.errors import ArgumentError, NeedsSchema, TableError
from radoboost.tables import open_table, refuse_not_finite_values
from radoboost.tables.labels import LabelCollector, LabelEncoder


def values_of(table):
    return np.vstack([batch.values() for batch in table.batches()])


def frame(**columns):
    return pd.DataFrame({"age": [20.0, 30.0, 40.0], "dose": [1, 2, 3], **columns, "y": [0, 1, 1]})


def test_features_are_named_and_chosen():
    assert open_table(np.eye(3), [0, 1, 1]).features == ("x0", "x1", "x2")
    assert open_table(frame(), label="y").features == ("age", "dose")
    assert open_table(frame(), label="y", features=["dose", "age"]).features == ("dose", "age")
    assert open_table(frame(), label="y", drop=["age"]).features == ("dose",)
    assert open_table(frame(), label="y", drop="age").features == ("dose",)
    chosen = open_table(np.arange(6.0).reshape(2, 3), label="x1", features=["x2", "x0"])
    assert values_of(chosen).tolist() == [[2.0, 0.0], [5.0, 3.0]]


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "float16", "float32", "bool", "decimal"])
def test_number_types_become_floats(kind, tmp_path):
    raw = [0, 1, 1]
    column = pa.array(raw).cast(pa.decimal128(25, 3)) if kind == "decimal" else pa.array(np.array(raw, dtype=kind))
    table = pa.table({"a": column, "y": [0, 1, 0]})
    assert values_of(open_table(table, label="y")).ravel().tolist() == [0.0, 1.0, 1.0]
    if kind != "decimal":
        assert values_of(open_table(np.array(raw, dtype=kind)[:, None], [0, 1, 0])).ravel().tolist() == [0.0, 1.0, 1.0]


def test_truth_values_in_csv(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\nTrue,1.5,False\nFalse,2.5,True\n")
    table = open_table(tmp_path / "t.csv", label="y")
    assert values_of(table).tolist() == [[1.0, 1.5], [0.0, 2.5]]
    assert rb.craft(tmp_path / "t.csv", label="y", n_rados=2).classes == (False, True)


def test_integers_then_fractions_in_csv(tmp_path):
    """Arrow would settle on integers after the first block."""
    text = "a,y\n" + "1,0\n" * 2_000_000 + "1.5,1\n"
    (tmp_path / "t.csv").write_text(text)
    table = open_table(tmp_path / "t.csv", label="y")
    assert values_of(table)[-1, 0] == 1.5


def test_the_index_of_pandas_is_not_a_feature(tmp_path):
    filtered = frame()[lambda f: f["age"] > 25]
    assert open_table(filtered, label="y").features == ("age", "dose")
    filtered.to_parquet(tmp_path / "t.parquet")
    assert open_table(tmp_path / "t.parquet", label="y").features == ("age", "dose")


def test_files_of_different_types_are_one_table(tmp_path):
    for name, kind, labels in (
        ("a", pa.float32(), [0, 1]),
        ("b", pa.int64(), ["1", "0"]),
        ("c", pa.float64(), [1.0, 0.0]),
    ):
        pq.write_table(pa.table({"x": pa.array([1, 2]).cast(kind), "y": labels}), tmp_path / f"{name}.parquet")
    release = rb.craft(str(tmp_path / "*.parquet"), label="y", n_rados=4, seed=1, mechanism=rb.Plain(scale=None))
    expected = rb.craft(
        [[1], [2], [1], [2], [1], [2]], [0, 1, 1, 0, 1, 0], n_rados=4, seed=1, mechanism=rb.Plain(scale=None)
    )
    assert release.rados.tolist() == expected.rados.tolist()
    assert release.classes == (0, 1)


def test_columns_of_files_are_matched_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("p,q,y\n1,2,0\n")
    (tmp_path / "b.csv").write_text("y,q,p\n1,4,3\n")
    table = open_table([tmp_path / "a.csv", tmp_path / "b.csv"], label="y")
    assert values_of(table).tolist() == [[1.0, 2.0], [3.0, 4.0]]


BAD_TABLES = {
    "no label column": (frame(), {"label": "z"}, "no column 'z'"),
    "no feature": (frame(), {"label": "y", "drop": ["size"]}, "no column 'size'"),
    "label as feature": (frame(), {"label": "y", "features": ["y"]}, "'y' is the label"),
    "feature twice": (frame(), {"label": "y", "features": ["age", "age"]}, "several columns are called 'age'"),
    "only a label": (frame()[["y"]], {"label": "y"}, "no feature columns"),
    "no rows": (frame()[:0], {"label": "y"}, "has no rows"),
    "infinity": (frame(bmi=[1.0, 2.0, -np.inf]), {"label": "y"}, r"column 'bmi' has an infinite value \(row 3\)"),
    "large integer": (
        frame(id=[1, 2, 2**53 + 1]),
        {"label": "y"},
        r"column 'id' has an integer beyond 2\*\*53 \(row 3\)",
    ),
    "reserved name": (frame(block=[1, 2, 3]), {"label": "y"}, "cannot be called 'block'"),
    "array integers": (np.array([[1], [2**60]]), {"y": [0, 1]}, "'x0' has an integer beyond"),
    "complex": (np.array([[1j], [2]]), {"y": [0, 1]}, "must hold real numbers"),
    "one dimension": (np.arange(3.0), {"y": [0, 1, 1]}, "two dimensions"),
    "lengths": (np.eye(3), {"y": [0, 1]}, "X has 3 rows and y has 2"),
    "two-dimensional y": (np.eye(3), {"y": np.eye(3)}, "y must have one dimension"),
    "mixed y": (np.eye(2), {"y": np.array([1, "a"], dtype=object)}, "all of one kind"),
    "one class": (np.eye(3), {"y": [1, 1, 1]}, "'y' has one class only"),
    "too many classes": (np.eye(65), {"y": list(range(65))}, r"more than 64 classes \(0, 1, 2, ...\)"),
    "missing label": (np.eye(3), {"y": [0, 1, np.nan]}, "label 'y' has a missing value"),
    "infinite label": (np.eye(3), {"y": [0, 1, np.inf]}, "must be finite numbers or text"),
    "dates as labels": (np.eye(2), {"y": np.array(["2020", "2021"], "datetime64[ns]")}, "their type is datetime64"),
    "nested labels": (pa.table({"a": [1.0, 2.0], "y": [[0], [1]]}), {"label": "y"}, "label 'y' holds list"),
    "ragged labels": (np.eye(2), {"y": [[0], [1, 2]]}, "labels must be numbers"),
    "masked": (np.ma.array([[1.0], [2.0]], mask=[[0], [1]]), {"y": [0, 1]}, r"'x0' has a missing value \(row 2\)"),
    "ragged": ([[1.0, 2.0], [3.0]], {"y": [0, 1]}, "cannot read the array"),
    "same name twice": (pd.DataFrame(np.eye(3), columns=["a", "a", "y"]), {"label": "y"}, "the table"),
    "large decimal": (
        pa.table({"a": pa.array([2**53 + 1, 1]).cast(pa.decimal128(25, 2)), "y": [0, 1]}),
        {"label": "y"},
        "'a' has an integer beyond",
    ),
    "undeclared class": (np.eye(3), {"y": [0, 1, 0], "classes": (0, 2)}, "not one of the declared classes 0 and 2"),
}


NEEDS_SCHEMA = {
    "text": (frame(name=["a", "b", "c"]), {"label": "y"}, "column 'name' holds text"),
    "date": (frame(day=pd.to_datetime(["2020"] * 3)), {"label": "y"}, "column 'day' holds timestamp"),
    "category": (frame(ward=pd.Categorical(["a", "b", "a"])), {"label": "y"}, "column 'ward' holds dictionary"),
    "nan": (frame(bmi=[1.0, np.nan, 2.0]), {"label": "y"}, r"column 'bmi' has a missing value"),
    "array nan": (np.array([[1.0], [np.nan], [2.0]]), {"y": [0, 1, 1]}, r"'x0' has a missing value \(NaN\) \(row 2\)"),
    "array of text": (np.array([["a"], ["b"]]), {"y": [0, 1]}, "must hold real numbers"),
    "null": (
        pl.DataFrame({"a": [1.0, None], "y": [0, 1]}),
        {"label": "y"},
        r"column 'a' has a missing value \(row 2\)",
    ),
    "masked": (np.ma.array([[1.0], [2.0]], mask=[[0], [1]]), {"y": [0, 1]}, r"'x0' has a missing value \(row 2\)"),
}


def read_strictly(table, options):
    source = open_table(table, **options)
    for batch in source.batches():
        if not np.isfinite(batch.values()).all():
            refuse_not_finite_values(source.features, batch, batch.values())


@pytest.mark.parametrize("case", NEEDS_SCHEMA)
def test_what_strict_reading_refuses_without_a_schema(case):
    """These go to a proposed schema where somebody may look at the table, and are one line where nobody may."""
    table, options, message = NEEDS_SCHEMA[case]
    with pytest.raises(NeedsSchema, match=message) as caught:
        read_strictly(table, options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", BAD_TABLES)
def test_what_cannot_be_learned_from_is_refused(case):
    table, options, message = BAD_TABLES[case]
    with pytest.raises((TableError, ArgumentError), match=message):
        flat.craft(table, **options, n_rados=2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("classes", 5), ("classes", ([0], [1])), ("drop", 5), ("use", (["x0"],)), ("label", ["x0"]), ("engine", []),
        ("intercept", "x"), ("mechanism", rb.Plain), ("signatures", "all"), ("schema", 5), ("bounds", {"x0": "01"}),
        ("schema", [(0, 1), (1,)]), ("seed", "x"), ("threads", "2"), ("n_rados", 2.5), ("scale", 3),
    ],
)  # fmt: skip
def test_arguments_of_the_wrong_kind_are_named(name, value):
    labels = {} if name == "label" else {"y": [0, 1]}
    with pytest.raises(ArgumentError, match=name):
        flat.craft(np.eye(2), **labels, **{name: value})


def test_decimals_are_rounded_to_nearest(rng):
    texts = [f"{value:.2f}" for value in rng.uniform(0, 10_000, 2000)] + ["3.25"]
    column = pa.array([Decimal(text) for text in texts], pa.decimal128(30, 5))
    table = pa.table({"a": column, "y": [0, 1] * 1000 + [0]})
    assert values_of(open_table(table, label="y")).ravel().tolist() == [float(text) for text in texts]


def test_labels_in_unusual_types():
    x = np.eye(4)
    expected = rb.craft(x, [0, 1, 1, 0], n_rados=5, seed=1).rados.tobytes()
    frame = pl.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "x3": x[:, 3], "y": ["a", "b", "b", "a"]})
    for kind in (pl.Categorical, pl.Enum(["a", "b"]), pl.String):
        assert (
            rb.craft(frame.with_columns(pl.col("y").cast(kind)), label="y", n_rados=5, seed=1).rados.tobytes()
            == expected
        )
    for labels in (
        np.array([0, 1, 1, 0], np.float16), np.array([0, 1, 1, 0], ">i4"), np.array(["a", "b", "b", "a"]),
        [-0.0, 1.0, 1.0, 0.0],
        pd.array([0, 1, 1, 0], dtype="Int64"), pd.Series([False, True, True, False], dtype="boolean"),
    ):  # fmt: skip
        assert rb.craft(x, labels, n_rados=5, seed=1).rados.tobytes() == expected
    encoded = pa.RunEndEncodedArray.from_arrays([1, 3, 4], [0, 1, 0])
    table = pa.table({f"x{k}": x[:, k] for k in range(4)}).append_column("y", encoded)
    assert rb.craft(table, label="y", n_rados=5, seed=1).rados.tobytes() == expected


def test_classes_from_numpy_can_be_saved(tmp_path):
    for y in (np.array([3, 5, 5]), np.array([False, True, True]), np.array([0.5, 1.5, 1.5])):
        rb.craft(np.eye(3), y, classes=np.unique(y), n_rados=2).save(tmp_path / "r.parquet")
        assert rb.load(tmp_path / "r.parquet").classes == tuple(np.unique(y).tolist())


def test_quoted_newlines_and_long_rows_in_csv(tmp_path):
    note = '"' + "two\nlines " * 50 + '"'
    (tmp_path / "t.csv").write_text("a,note,y\n" + f"1,{note},0\n2,{note},1\n" * 6000)
    assert rb.craft(tmp_path / "t.csv", label="y", n_rados=2, schema=rb.Schema(drop=("note",))).n_examples == 12_000
    (tmp_path / "t.csv").write_text("a,note,y\n1,,0\n" + f"1,{'x' * 9_000_000},0\n2,,1\n")
    with pytest.raises(TableError, match="a row is longer than 4 MiB"):
        rb.craft(tmp_path / "t.csv", label="y", n_rados=2, schema=rb.Schema(drop=("note",)))


def test_one_large_record_batch_is_not_loaded_whole(tmp_path, rng):
    table = pa.table({"a": rng.standard_normal(1_500_000), "y": rng.integers(0, 2, 1_500_000)})
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    del table
    before = pa.total_allocated_bytes()
    for batch in open_table(tmp_path / "t.arrow", label="y").batches():
        batch.values()
        assert pa.total_allocated_bytes() - before < 8_000_000


def test_arguments_that_contradict_each_other(clinic):
    with pytest.raises(ArgumentError, match="give the labels, as y or by the name"):
        rb.craft(np.eye(2))
    with pytest.raises(ArgumentError, match="give the labels once"):
        rb.craft(np.eye(2), [0, 1], label="x0")
    with pytest.raises(ArgumentError, match="labels of a file are one of its columns"):
        rb.craft(clinic, [0, 1])
    with pytest.raises(ArgumentError, match="classes must be two different values"):
        rb.craft(np.eye(2), [0, 1], classes=(1, 1))
    with pytest.raises(ArgumentError, match="threads must be"):
        rb.craft(np.eye(2), [0, 1], compute=rb.Compute(threads=0))
    with pytest.raises(ArgumentError, match="engine must be"):
        rb.craft(np.eye(2), [0, 1], compute=rb.Compute(engine="abacus"))
    with pytest.raises(ArgumentError, match="columns must be one of auto, linear"):
        rb.craft(np.eye(2), [0, 1], columns="cubic")


def test_an_identifier_in_csv_is_refused_too(tmp_path):
    (tmp_path / "t.csv").write_text("id,y\n1,0\n9007199254740993,1\n")
    with pytest.raises(TableError, match=r"'id' has an integer beyond 2\*\*53 \(line 3 of .*t\.csv\)"):
        rb.craft(tmp_path / "t.csv", label="y", n_rados=2)


def test_text_that_comes_late_in_a_csv_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,dose,y\n" + "1,2,0\n" * 1_000_000 + "1,none,1\n")
    with pytest.raises(NeedsSchema, match=r"column 'dose':.*'none'"):
        read_strictly(tmp_path / "t.csv", {"label": "y"})


def test_files_that_cannot_be_read(tmp_path):
    garbage = b"this is not a table"
    cases = {"a.parquet": garbage, "b.arrow": garbage, "c.csv.gz": garbage, "d.csv": b"a,y\n1\n1,2,3\n"}
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TableError, match=f"cannot read .*{name}"):
            rb.craft(tmp_path / name, label="y")
    (tmp_path / "e.csv").write_bytes(b"")
    with pytest.raises(TableError, match=r"e\.csv is empty"):
        rb.craft(tmp_path / "e.csv", label="y")
    (tmp_path / "f.csv").write_text("a,y\n")
    with pytest.raises(TableError, match=r"f\.csv has no rows"):
        rb.craft(tmp_path / "f.csv", label="y")
    with gzip.open(tmp_path / "g.csv.gz", "wt") as file:
        file.write("a,y\n" + "1,0\n2,1\n" * 5000)
    whole = (tmp_path / "g.csv.gz").read_bytes()
    (tmp_path / "g.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableError, match=r"cannot read .*g\.csv\.gz"):
        rb.craft(tmp_path / "g.csv.gz", label="y")
    for path, message in (
        (tmp_path / "none.csv", "no such file"),
        (str(tmp_path / "*.feather"), "no file matches"),
        ("a" * 300 + ".csv", "File name too long"),
        ("a\0.csv", "no such file|null"),
        (tmp_path, "holds files of several kinds"),
        (__file__, "unknown kind of file"),
    ):
        with pytest.raises(TableError, match=message):
            rb.craft(path, label="y")
    (tmp_path / "j.csv").write_bytes("größe,y\n1,0\n2,1\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"cannot read .*j\.csv"):
        rb.craft(tmp_path / "j.csv", label="y")
    (tmp_path / "k.csv").write_text("dose,y\n0x10,0\n2,1\n")
    with pytest.raises(NeedsSchema, match="column 'dose': CSV conversion error"):
        read_strictly(tmp_path / "k.csv", {"label": "y"})
    (tmp_path / "h.csv").write_text("a,b,y\n1,2,0\n")
    (tmp_path / "i.csv").write_text("a,y\n1,1\n")
    with pytest.raises(TableError, match="differ in column 'b'"):
        rb.craft([tmp_path / "h.csv", tmp_path / "i.csv"], label="y")


def test_a_file_that_changes_between_the_passes_is_refused(clinic):
    table = open_table(clinic, label="readmitted")
    assert len(values_of(table)) == 60
    clinic.write_text(clinic.read_text() + "50,0.2,no\n")
    with pytest.raises(TableError, match="changed while it was read"):
        values_of(table)


def test_classes():
    def settled(*labels, classes=None):
        seen = LabelCollector("y", classes)
        for part in labels:
            seen.see(pa.array(part))
        rule = seen.settle()
        return rule.classes, [rule.signs(pa.array(part)).tolist() for part in labels]

    assert settled([0, 1]) == ((0, 1), [[-1, 1]])
    assert settled([1, -1]) == ((-1, 1), [[1, -1]])
    assert settled([True, False]) == ((False, True), [[1, -1]])
    assert settled([2.5, 1.0]) == ((1, 2.5), [[1, -1]])
    assert settled(["b", "a"]) == (("a", "b"), [[1, -1]])
    assert settled(["10", "9"]) == ((9, 10), [[1, -1]])
    assert settled(["1", "0"], ["1.0", " 0"], [1, 0]) == ((0, 1), [[1, -1]] * 3)
    assert settled(["no", "yes"], classes=("yes", "no")) == (("yes", "no"), [[1, -1]])
    assert settled([0, 1], classes=("1", "0")) == ((1, 0), [[1, -1]])
    assert settled(pd.Categorical(["u", "v"])) == (("u", "v"), [[-1, 1]])
    assert settled(["1", "yes"]) == (("1", "yes"), [[-1, 1]])
    with pytest.raises(TableError, match="mixes numbers and text"):
        settled([1], ["yes"])


def test_rows_are_counted_before_they_are_read(clinic, tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "y": [0, 1]}), tmp_path / "t.parquet")
    assert open_table(tmp_path / "t.parquet", label="y").expected_rows(0) == 2
    table = open_table(clinic, label="readmitted")
    assert table.n_rows is None and table.expected_rows(0) == 60
    assert table.expected_rows(70) == 70  # a guess is no promise


# ---- what is no table, and columns that only folders name


def test_what_is_no_table_is_told_what_to_pass(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "y": [0, 1]}), tmp_path / "t.parquet")
    for table, message in (
        (SimpleNamespace(collect=list), "a SimpleNamespace is not a table"),
        ((row for row in [[1.0], [2.0]]), "a generator is not a table"),
        ({1.0, 2.0}, "a set is not a table; pass an array"),
        (None, "a NoneType is not a table"),
    ):
        with pytest.raises(TableError, match=message):
            rb.craft(table, [0, 1])
        lazy = "a set" not in message and "NoneType" not in message
        with pytest.raises(TableError, match=message if lazy else r"this is a \w+: make a data frame of it"):
            open_table(table, [0, 1], row_by_row=True)


def test_a_dict_of_columns_is_a_table():
    columns = {"age": [20.0, 30.0, 40.0], "dose": np.array([1, 2, 3]), "y": ["no", "yes", "no"]}
    assert values_of(open_table(columns, label="y")).tolist() == [[20.0, 1.0], [30.0, 2.0], [40.0, 3.0]]
    with pytest.raises(TableError, match="this is a dict: make a data frame of it"):
        open_table(columns, label="y", row_by_row=True)  # the type of a column would depend on all its values


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(TableError, match=r"t\.csv is a pipe or a device"):
        rb.craft(tmp_path / "t.csv", label="y")
    for private in (False, True):
        with pytest.raises(TableError, match="pipe"):
            open_table("/dev/null", label="y", row_by_row=private)


def test_columns_that_only_folders_name_are_not_lost_silently(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"a": [1.0, 2.0], "y": [0, 1]}), tmp_path / f"year={year}" / "t.parquet")
    files = sorted(tmp_path.glob("*/*.parquet"))
    with pytest.raises(TableError, match="no column 'year', which only folders such as 'year=2021' name; pass the"):
        rb.craft(files, label="y")
    for choice in ({"drop": "year"}, {"features": ["a"]}):
        assert open_table(files, label="y", **choice).features == ("a",)
    assert open_table(tmp_path / "year=2020" / "t.parquet", label="y").features == ("a",)  # it would be a constant


# ---- labels


LABELS = st.lists(st.lists(st.sampled_from([0, 1, 1.0, "1", "0.0", True, False, "true", "no"]), max_size=3), max_size=5)


def states(labels, classes=None):
    seen = []
    for one_kind in (labels_of_a_kind for part in labels for labels_of_a_kind in by_kind(part)):
        seen.append(LabelCollector("y", classes))
        seen[-1].see(pa.array(one_kind))
    return seen


def by_kind(labels):
    return [[value for value in labels if type(value) is kind] for kind in (int, float, str, bool)]


def outcome(states):
    """What merging these in turn comes to: classes, or that it is refused."""
    try:
        merged = functools.reduce(LabelCollector.merge, states, LabelCollector("y"))
        return merged, repr(merged.settle())
    except TableError as refusal:
        return str(refusal).partition("(")[0]


@given(LABELS, st.randoms(use_true_random=False))
def test_labels_merge_in_any_order_and_change_nothing(labels, random):
    seen = states(labels)
    before = [(state, state.values.copy()) for state in seen]
    expected = outcome(seen)
    for _ in range(3):
        random.shuffle(seen)
        assert outcome(seen) == expected
        split = random.randint(0, len(seen))
        halves = [functools.reduce(LabelCollector.merge, half, LabelCollector("y"))
                  for half in (seen[:split], seen[split:])] if isinstance(expected, tuple) else []  # fmt: skip
        assert outcome(halves) == expected or not halves
    assert all(state.values == values for state, values in before)
    assert pickle.loads(pickle.dumps(seen)) == seen


@given(st.lists(st.sampled_from([0, 1, 2, -1, 2**24, 2**53, 2**60, 0.5, 1.5, None, math.inf]), max_size=30))
def test_signs_of_numbers_are_those_of_the_same_numbers_one_by_one(labels):
    """Plain numbers are compared as arrays, and anything else by its values: the outcome is the same."""
    for classes in ((0, 1), (1, -1), (False, True), (0.5, 2**53), (2**24, 2**60)):
        rule = LabelEncoder("y", classes)
        expected = [int(value == rule.classes[1]) - int(value == rule.classes[0]) for value in labels]
        whole = [value for value in labels if isinstance(value, int)]
        numbers = pa.array([None if value is None else float(value) for value in labels], pa.float64())
        for array in (numbers, numbers.dictionary_encode()):
            assert rule.signs_or_zero(array).tolist() == expected
            assert rule.signs_or_zero(array[1:]).tolist() == expected[1:]
        assert rule.signs_or_zero(pa.array(whole, pa.int64())[1:]).tolist() == [
            int(value == rule.classes[1]) - int(value == rule.classes[0]) for value in whole[1:]
        ]


def test_strict_signs_refuse_what_is_of_neither_class():
    rule = pickle.loads(pickle.dumps(LabelEncoder("y", (0, 1))))
    assert rule.classes == (0, 1)
    place = "row {}".format
    for labels, message in (
        (pa.array([0, 1, 2]), r"the value 2 \(row 2\), which is not one of"),
        (pa.array([0, None]), r"a missing value \(row 1\)"),
        (pa.array([0.0, 1.0, math.nan]), r"a missing value \(row 2\)"),
        (pa.array(["1", "x"]), r"the value 'x' \(row 1\)"),
        (pa.array(["x" * 2000]), r"a text of 2,000 characters \(row 0\)"),
        (pa.array([[0], [1]]), "holds list"),
    ):
        with pytest.raises(TableError, match=message):
            rule.signs(labels, place)
    with pytest.raises(TableError, match="has no values"):
        LabelCollector("y").settle()


@pytest.mark.parametrize("form", ["array", "frame", "parquet", "arrow", "csv"])
def test_places_are_counted_from_one(form, tmp_path):
    """The second row of a table is row 2, and line 3 of a CSV file."""
    table = pa.table({"a": [1.0, math.inf, 3.0], "y": [0, 1, 1]})
    where = r"\(line 3 of .*t\.csv\)" if form == "csv" else r"\(row 2\)"
    given = table
    if form == "array":
        given, options = table.column("a").to_numpy()[:, None], {"y": [0, 1, 1]}
    else:
        options = {"label": "y"}
    if form == "parquet":
        pq.write_table(table, given := tmp_path / "t.parquet", row_group_size=1)
    if form == "arrow":
        with pa.ipc.new_file(given := tmp_path / "t.arrow", table.schema) as sink:
            sink.write_table(table, 1)
    if form == "csv":
        (given := tmp_path / "t.csv").write_text("a,y\n1,0\ninf,1\n3,1\n")
    with pytest.raises(TableError, match=where):
        flat.craft(given, **options)
