"""A cell is the same number whatever type its column has, for one value can change the type of a column."""

import datetime
import io
import sys
import time
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import flat
import radoboost as rb
from radoboost.tables import cells, open_table
from radoboost.tables.cells import array_cell_numbers, numbers_or_nan, object_cell_numbers
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.private_reader import object_labels_as_text

RULE = LabelEncoder("y", ("no", "yes"))


def numbers_of(table, y=None, **options):
    """All rows as private crafting reads them."""
    labels = {"y": y} if y is not None else {"label": "y"}
    batches = list(open_table(table, **labels, **options, row_by_row=True).batches())
    return np.vstack([batch.values() for batch in batches]), np.hstack([RULE.signs_or_zero(b.labels) for b in batches])


# ---- one number in every type


@settings(max_examples=50)
@given(st.lists(st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False)), min_size=1))
def test_numbers_are_the_same_as_text_and_as_objects(values):
    expected = np.array([float(value) for value in values])
    words = [repr(value) for value in values if np.isfinite(value)]
    finite = expected[np.isfinite(expected)]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()):
        column = pa.array([word.encode() for word in words], pa.binary()).cast(kind)
        np.testing.assert_array_equal(numbers_or_nan(column), finite)
        np.testing.assert_array_equal(numbers_or_nan(pa.array(words).dictionary_encode()), finite)
    np.testing.assert_array_equal(object_cell_numbers(values), expected)
    np.testing.assert_array_equal(object_cell_numbers(words), finite)
    np.testing.assert_array_equal(array_cell_numbers(np.array(values, dtype=object)), expected)
    np.testing.assert_array_equal(array_cell_numbers(np.array(words)), finite)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal32(5, 1), pa.decimal64(9, 2), pa.decimal128(20,
        3),
        pa.decimal256(50, 7), pa.string(), pa.string_view(), pa.binary(), pa.binary(1), pa.bool_(),
        pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.float64()),
        pa.dictionary(pa.uint8(), pa.string_view()), pa.dictionary(pa.int32(), pa.decimal128(5, 2)),
        pa.run_end_encoded(pa.int16(), pa.string()), pa.run_end_encoded(pa.int32(), pa.int8()),
    ],
    ids=str,
)  # fmt: skip
def test_one_and_zero_in_every_type_of_arrow(kind):
    cells_of = [1, 0, None, 1]
    if pa.types.is_dictionary(kind):
        words = [Decimal(1), Decimal(0)] if pa.types.is_decimal(kind.value_type) else [1, 0]
        texts = ["1", "0"] if cells.is_text(kind.value_type) else words
        column = pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 0], kind.index_type), pa.array(texts, kind.value_type)
        )
    elif pa.types.is_run_end_encoded(kind):
        column = pc.run_end_encode(pa.array([1, 0, None, 1]).cast(kind.value_type))
    elif cells.is_text(kind):
        column = pa.array([None if cell is None else b"%d" % cell for cell in cells_of], pa.binary()).cast(kind)
    elif pa.types.is_decimal(kind):
        column = pa.array([None if cell is None else Decimal(cell) for cell in cells_of], kind)
    else:
        column = pa.array(cells_of).cast(kind)
    for piece, first in ((column, 0), (column.slice(1), 1)):  # a bitmap that begins within a byte
        np.testing.assert_array_equal(numbers_or_nan(piece), [1, 0, np.nan, 1][first:])


def test_what_no_object_is_a_number_gives_nan():
    odd = [
        None, pd.NA, pd.NaT, pd.Timestamp("2020"), datetime.date(2020, 1, 1), np.datetime64(1, "ns"),
        np.timedelta64(1, "ns"), 1j, 10**400,
        "\ud800", Decimal("sNaN"), np.void(b"1"), [1], {1}, object(), "", "1 2", "\u0663", b"\xff", "0x1", "1_0", "nan",
    ]  # fmt: skip
    assert np.isnan(object_cell_numbers(odd)).all()
    usual = [
        True,
        np.bool_(True),
        1 + 0j,
        np.complex64(1),
        np.longdouble(1),
        np.str_("1"),
        np.bytes_(b"1"),
        "\t1 ",
        Decimal("1.0"),
        "tRue",
    ]
    assert (object_cell_numbers(usual) == 1).all()


# ---- frames and arrays whose type one value changes


@pytest.mark.parametrize("cell", ["n/k", "1180591620717411303424", "2.5", "", "True", "-1", "18446744073709551615"])
@pytest.mark.parametrize("read", [pd.read_csv, pl.read_csv])
def test_one_cell_changes_no_other_row_of_a_frame_from_a_reader(read, cell):
    """One of them makes a column of text, another one of objects, or of integers that Arrow does not have."""
    text = "a,b,y\n1,2,yes\n7,{},no\n3,18446744073709551614,yes\n4,5,no\n"
    clean, dirty = (numbers_of(read(io.StringIO(text.format(word)))) for word in ("6", cell))
    for before, after in zip(clean, dirty, strict=True):
        np.testing.assert_array_equal(np.delete(before, 1, axis=0), np.delete(after, 1, axis=0))


def test_objects_of_polars_are_not_read_as_addresses():
    frame = pl.DataFrame({"a": pl.Series([1, "2", None, "x"], dtype=pl.Object), "y": ["no", "yes", "no", "yes"]})
    np.testing.assert_array_equal(numbers_of(frame)[0], [[1], [2], [np.nan], [np.nan]])
    labels = pl.Series("y", ["no", "yes", 5, None], dtype=pl.Object)
    assert numbers_of(frame.with_columns(labels))[1].tolist() == [-1, 1, 0, 0]


def test_columns_that_were_not_declared_are_not_looked_at():
    odd = pd.DataFrame({"a": [1.0, 2.0], "y": ["no", "yes"], "note": pd.Categorical([1, "x"])})
    assert numbers_of(odd, features=["a"])[0].tolist() == [[1], [2]]
    frame = pl.DataFrame({"a": [1.0, 2.0], "y": ["no", "yes"], "n": pl.Series([1, 2**70], dtype=pl.Int128)})
    assert numbers_of(frame, features=["a"])[0].tolist() == [[1], [2]]


def test_categories_of_pandas():
    """Mixed ones, which Arrow does not take, and rows without one."""
    frame = pd.DataFrame(
        {"a": pd.Categorical([1, "2", None, 2.5, "x"]), "y": pd.Categorical(["no", "yes", None, 5, "no"])}
    )
    values, signs = numbers_of(frame)
    np.testing.assert_array_equal(values.ravel(), [1, 2, np.nan, 2.5, np.nan])
    assert signs.tolist() == [-1, 1, 0, 0, -1]


@pytest.mark.parametrize(
    "odd", ["x", None, 2**70, 1j, b"x", Decimal(3), np.longdouble(1) / 3, datetime.date(2020, 1, 1)]
)
def test_one_element_changes_no_other_row_of_an_array(odd):
    array = np.array([[1.0, 0.1], [2.0, odd], [3.0, 7.3]])
    values, _ = numbers_of(array, ["no", "yes", "no"])
    np.testing.assert_array_equal(values[[0, 2]], [[1.0, 0.1], [3.0, 7.3]])


def test_labels_in_an_array_of_objects():
    table = np.array([[1.0, "no"], [2.0, "yes"], ["x", 5]], dtype=object)
    batch = next(iter(open_table(table, label="x1", row_by_row=True).batches()))
    np.testing.assert_array_equal(batch.values(), [[1.0], [2.0], [np.nan]])
    assert RULE.signs_or_zero(batch.labels).tolist() == [-1, 1, 0]


def test_masked_elements_of_every_type_are_missing():
    for kind in ("f4", "i8", "O", "U4", "c8", "?"):
        values, _ = numbers_of(
            np.ma.masked_array(np.ones((2, 2)).astype(kind), [[False, True], [False] * 2]), ["no", "yes"]
        )
        np.testing.assert_array_equal(values, [[1, np.nan], [1, 1]])


@pytest.mark.parametrize("index", [2, 5, -1])
def test_an_entry_outside_a_sparse_matrix_stays_in_its_row(index):
    """SciPy does not check where an entry is: it went into the next row."""
    matrix = sparse.csr_array(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    matrix.indices[2] = index
    values, _ = numbers_of(matrix, ["no", "yes", "no"])
    assert values[[0, 2]].tolist() == [[1, 2], [5, 6]] and not np.isfinite(values[1]).all()


def test_several_columns_of_one_name_are_refused():
    frame = pd.DataFrame([[1.0, 2.0, "no"]], columns=["a", "a", "y"])
    with pytest.raises(rb.TableError, match="several columns are called 'a'"):
        numbers_of(frame)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_no_rows_and_one_row(make):
    for a, y in (([], []), ([1.0], ["yes"])):
        declared = {"label": "y", "classes": ("no", "yes"), "bounds": {"a": (0, 2)}}
        release = flat.craft(make({"a": a, "y": y}), **declared, mechanism=rb.Moments(1.0), n_rados=2)
        assert release.rados.shape == (2, 2)


# ---- corrupt and long cells


@pytest.mark.parametrize("index", [7, -1, 100])
def test_a_bad_dictionary_index_of_a_feature_is_nan_in_its_row(index):
    for words in (pa.array(["1", "2"]), pa.array([1.0, 2.0]), pa.array(["1", "2"], pa.string_view())):
        column = pa.DictionaryArray.from_arrays(pa.array([1, index, 0], pa.int8()), words, safe=False)
        np.testing.assert_array_equal(numbers_or_nan(column), [2, np.nan, 1])


RUNS = [
    (pa.array([b"1", b"few", b"-2.5"], pa.binary_view()), [1, np.nan, -2.5]),
    (pa.array(["1", None, "true"], pa.string_view()), [1, np.nan, 1]),
    (pa.array(["1", "2", None]), [1, 2, np.nan]),
    (pa.array([1.5, None, np.inf]), [1.5, np.nan, np.inf]),
    (pa.array([Decimal("0.1"), None, Decimal("7")]), [0.1, np.nan, 7]),
    (pa.array(["5", "6", "5"]).dictionary_encode(), [5, 6, 5]),
    (pa.array([[1], None, [2]]), [np.nan] * 3),
    (pa.array([{"a": 1}, None, {"a": 2}]), [np.nan] * 3),
    (pa.array([b"1" * 16, None, b"2" * 16], pa.uuid()), [np.nan] * 3),
    (pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [pa.array([1, 2, 3])]), [np.nan] * 3),
    (pa.nulls(3), [np.nan] * 3),
]


@pytest.mark.parametrize("case", range(len(RUNS)), ids=[str(values.type) for values, _ in RUNS])
def test_runs_of_any_type(case):
    """Arrow decodes runs of some types only, and raised an exception for others."""
    (values, numbers), width = RUNS[case], (pa.int16(), pa.int32(), pa.int64())[case % 3]
    column = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7], width), values)
    expected = np.repeat(np.array(numbers, dtype=np.float64), [2, 1, 4])
    for first in range(8):
        for last in range(first, 8):
            np.testing.assert_array_equal(numbers_or_nan(column.slice(first, last - first)), expected[first:last])
    table = pa.table({"a": column, "b": [1.0] * 7, "y": ["no", "yes", "no"] * 2 + ["no"]})
    values, signs = numbers_of(table)
    np.testing.assert_array_equal(values[:, 0], expected)
    assert signs.tolist() == [-1, 1, -1] * 2 + [-1]
    assert LabelEncoder("y", (1, 2)).signs_or_zero(column).tolist() == [-1 if n == 1 else n == 2 for n in expected]


def test_a_long_category_is_read_in_its_own_batch_alone(monkeypatch):
    words = pa.array(["1", "9" * 10**6])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 9 + [1], pa.int32()), words)
    lengths = []
    text_numbers = cells._text_cell_numbers
    monkeypatch.setattr(
        cells, "_text_cell_numbers", lambda c, *marks: (lengths.append(len(c)), text_numbers(c, *marks))[1]
    )
    assert (numbers_or_nan(column.slice(0, 5)) == 1).all() and lengths == [1]
    assert np.isinf(numbers_or_nan(column.slice(9))).all() and lengths == [1, 1]


def test_a_text_of_a_million_characters_takes_no_longer_than_its_length():
    """Five seconds is a hundred times what a look from left to right takes."""
    for text in ("9" * 10**6 + "x", "." + "9" * 10**6 + "e", " " * 10**6 + "x", "1" + " " * 10**6 + "x", "9" * 10**6):
        begun = time.process_time()
        assert not np.isfinite(numbers_or_nan(pa.array(["1", text]))[1])
        assert time.process_time() - begun < 5


# ---- labels


def test_chunks_of_labels_whose_dictionaries_cannot_be_joined():
    """Their indices have 8 bits: Arrow refused all labels on account of one more."""
    chunks = [pa.array([f"{k} {j}" for j in range(100)] + ["yes"]).dictionary_encode() for k in range(3)]
    narrow = [pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int8()), chunk.dictionary) for chunk in chunks]
    labels = object_labels_as_text(pa.chunked_array(narrow))
    assert np.flatnonzero(RULE.signs_or_zero(labels)).tolist() == [100, 201, 302]
    series = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array(narrow)))
    assert RULE.signs_or_zero(object_labels_as_text(series)).sum() == 3
    assert len(object_labels_as_text(pa.chunked_array([], pa.string()))) == 0
    assert RULE.signs_or_zero(object_labels_as_text(pa.chunked_array([[[1]], [[2]]]))).tolist() == [0, 0]


def test_labels_are_the_same_in_every_type():
    rule = LabelEncoder("y", (0, 1))
    odd = [
        np.array([0, 1, 1j]), np.array([0, 1, np.longdouble(3)]), np.array([0, 1, "x"]), np.array([0, 1, None]),
        np.array([0.0, 1.0, "x"]),
        np.array([0, 1, b"x"]), [Decimal(0), Decimal("1.0"), Decimal(3)], [0, 1, 10**5000], pl.Series([0, 1, 2**70],
        dtype=pl.Int128),
        pa.array([Decimal(0), Decimal(1), None], pa.decimal32(5, 1)), pa.array([b"0", b"1", b"\xff"], pa.binary_view()),
        pd.Series([0, 1, None], dtype="Int64"), pd.Series(["0", "1", "\ud800"], dtype="string[python]"),
    ]  # fmt: skip
    for y in odd:
        values = open_table(np.eye(3), y, row_by_row=True).parts()[0].labels
        assert rule.signs_or_zero(values).tolist() == [-1, 1, 0]


def test_labels_may_be_longer_than_two_gibibytes_together():
    """Arrow cuts small strings into pieces there, which cannot be read as one array."""
    assert object_labels_as_text(["yes", "no"]).type == pa.large_string()


def test_a_huge_integer_as_label_is_not_spelled_out():
    digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # without the limit that Python has, the digits of this one take minutes
    try:
        begun = time.process_time()
        assert RULE.signs_or_zero(object_labels_as_text(["yes", 1 << 10**7])).tolist() == [1, 0]
        assert time.process_time() - begun < 5
    finally:
        sys.set_int_max_str_digits(digits)
