"""Every type of pandas, polars, NumPy and Arrow as a number, a category and a date: it works, or is refused by type."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import radoboost as rb
from radoboost.tables import open_table
from radoboost.tables.column_types import Category, Date, Number
from radoboost.tables.schema import Schema

KINDS = {
    "number": Number(0, 10, fill=-1, gaps=True),
    "category": Category((1, "A"), other=True, gaps=True),
    "date": Date(origin="2024-01-31", fill="2024-01-30", gaps=True, parts=("weekday",)),
}
MIDNIGHT = datetime.datetime(2024, 1, 31)
# What two rows give: 1 and a gap, "A" and a gap, the origin and a gap; a value that is no number, category or date
ONE = {"number": [[1, 0], [-1, 1]], "category": [[1, 0, 0, 0], [0, 0, 0, 1]]}
WORD = {"category": [[0, 1, 0, 0], [0, 0, 0, 1]]}
DAY = {"date": [[0, 0, 0, 0, 1, 0, 0, 0, 0], [-1, 1, 0, 0, 0, 0, 0, 0, 0]]}
GAP = {
    "number": [[-1, 1], [-1, 1]],
    "category": [[0, 0, 0, 1], [0, 0, 0, 1]],
    "date": [[-1, 1, 0, 0, 0, 0, 0, 0, 0]] * 2,
}
UNKNOWN = {**GAP, "category": [[0, 0, 1, 0], [0, 0, 0, 1]]}
NAT = np.datetime64("NaT")


def arrow(kind, cells):
    return pa.array(cells, kind)


ARROW = {
    **{f"{kind} of one": (ONE, arrow(kind, [1, None])) for kind in (
        pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64())},
    **{f"{kind} of one": (ONE, arrow(kind, [Decimal(1), None])) for kind in (
        pa.decimal32(5, 2), pa.decimal64(9, 1), pa.decimal128(20, 3), pa.decimal256(50, 7))},
    **{f"{kind} {word}": (result, arrow(kind, [word, None])) for kind, word, result in (
        (pa.string(), "1", ONE), (pa.string_view(), "1.0", ONE), (pa.large_string(), "A", WORD),
        (pa.string_view(), "2024-01-31", DAY), (pa.large_string(), "NA", GAP))},
    **{f"{kind} of a day": (DAY, pa.array([MIDNIGHT, None]).cast(kind)) for kind in (
        pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms", "Europe/Berlin"), pa.date32(),
        pa.date64())},
    "bool": (ONE, pa.array([True, None])),
    "dictionary of text": (ONE, pa.array(["1", None]).dictionary_encode()),
    "dictionary of words": (WORD, pa.array(["A", None]).dictionary_encode()),
    "dictionary of days": (DAY, pa.array([MIDNIGHT, None]).dictionary_encode()),
    "runs of numbers": (ONE, pc.run_end_encode(pa.array([1, None]))),
    "runs of words": (WORD, pc.run_end_encode(pa.array(["A", None]))),
    "runs of days": (DAY, pc.run_end_encode(pa.array([MIDNIGHT, None]))),
    "null": (GAP, pa.nulls(2)),
    "binary": ({}, pa.array([b"1", None])),
    "binary view": ({}, pa.array([b"1", None], pa.binary_view())),
    "fixed binary": ({}, pa.array([b"1", None], pa.binary(1))),
    "time32": ({}, pa.array([1, None], pa.time32("s"))),
    "time64": ({}, pa.array([1, None], pa.time64("us"))),
    "duration": ({}, pa.array([1, None], pa.duration("s"))),
    "interval": ({}, pa.array([(1, 2, 3), None], pa.month_day_nano_interval())),
    "list": ({}, pa.array([[1], None])),
    "struct": ({}, pa.array([{"a": 1}, None])),
    "map": ({}, pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8()))),
    "uuid": ({}, pa.array([b"1" * 16, None], pa.uuid())),
    "json": ({}, pa.array(["1", None], pa.json_())),
    "bool8": ({}, pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None], pa.int8()))),
    "union": ({}, pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])),
}  # fmt: skip
PANDAS = {
    **{kind: (ONE, pd.Series([1, None], dtype=kind)) for kind in (
        "Int8", "Int64", "UInt64", "Float32", "Float64", "float16", "float64", "boolean", "object", "category",
        "Sparse[float]", "int64[pyarrow]", "bool[pyarrow]")},
    "decimal[pyarrow]": (ONE, pd.Series([Decimal(1), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2)))),
    **{f"{kind} {word}": (result, pd.Series([word, None], dtype=kind)) for kind, word, result in (
        ("object", "1.0", ONE), ("str", "A", WORD), ("string[python]", "2024-01-31", DAY), ("category", "NaN", GAP),
        ("string[pyarrow]", "1.0", ONE), (pd.ArrowDtype(pa.string()), "2024-01-31", DAY), ("category", "A", WORD))},
    **{f"datetime64[{unit}]": (DAY, pd.Series([MIDNIGHT, None]).astype(f"M8[{unit}]")) for unit in ("s", "ns")},
    "datetime64 with zone": (DAY, pd.Series([MIDNIGHT, None]).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
    "categories of datetime64": (DAY, pd.Series([MIDNIGHT, None]).astype("category")),
    "categories with zone": (DAY, pd.Series([MIDNIGHT, None]).dt.tz_localize("UTC").astype("category")),
    "timestamp[pyarrow]": (DAY, pd.Series([MIDNIGHT, None], dtype=pd.ArrowDtype(pa.timestamp("ms")))),
    "date32[pyarrow]": (DAY, pd.Series([MIDNIGHT.date(), None], dtype=pd.ArrowDtype(pa.date32()))),
    "objects of datetime": (DAY, pd.Series([MIDNIGHT, None], dtype=object)),
    "objects of date": (DAY, pd.Series([MIDNIGHT.date(), None], dtype=object)),
    "objects of Timestamp": (DAY, pd.Series([pd.Timestamp(MIDNIGHT, tz="UTC"), pd.NaT], dtype=object)),
    "objects of datetime64": (DAY, pd.Series([np.datetime64("2024-01-31"), NAT], dtype=object)),
    "objects of Decimal": (ONE, pd.Series([Decimal("1.00"), Decimal("NaN")], dtype=object)),
    "objects of truth": (ONE, pd.Series([True, pd.NA], dtype=object)),
    "objects of bytes": (WORD, pd.Series([b"A", None], dtype=object)),
    "int64": (ONE, pd.Series([1, 1], dtype="int64")[:1]),
    "bool": (ONE, pd.Series([True, True])[:1]),
    "complex": (ONE, pd.Series([1 + 0j, np.nan])),
    "Period": ({}, pd.Series(pd.PeriodIndex(["2024-01", None], freq="M"))),
    "Interval": ({}, pd.Series(pd.IntervalIndex.from_tuples([(0, 1), None]))),
    "categories of intervals": ({}, pd.cut(pd.Series([0.5, None]), [0, 1])),
    "timedelta64": ({}, pd.Series(pd.to_timedelta([1, None], unit="D"))),
    "duration[pyarrow]": ({}, pd.Series([datetime.timedelta(1), None], dtype=pd.ArrowDtype(pa.duration("s")))),
    "time[pyarrow]": ({}, pd.Series([datetime.time(1), None], dtype=pd.ArrowDtype(pa.time64("us")))),
    "list[pyarrow]": ({}, pd.Series([[1], None], dtype=pd.ArrowDtype(pa.list_(pa.int8())))),
    "binary[pyarrow]": ({}, pd.Series([b"1", None], dtype=pd.ArrowDtype(pa.binary()))),
    "null[pyarrow]": (GAP, pd.Series([None, None], dtype=pd.ArrowDtype(pa.null()))),
}  # fmt: skip
POLARS = {
    **{str(kind): (ONE, pl.Series([1, None], dtype=kind)) for kind in (
        pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128,
        pl.Float32, pl.Float64, pl.Decimal(10, 2), pl.Object)},
    "Float16": (ONE, pl.Series([1.0, None]).cast(pl.Float16)),
    "Boolean": (ONE, pl.Series([True, None])),
    **{f"String {word}": (result, pl.Series([word, None])) for word, result in (
        ("1", ONE), ("A", WORD), ("2024-01-31", DAY), ("null", GAP))},
    "Categorical": (WORD, pl.Series(["A", None], dtype=pl.Categorical)),
    "Categorical of a day": (DAY, pl.Series(["2024-01-31", None], dtype=pl.Categorical)),
    "Enum": (WORD, pl.Series(["A", None], dtype=pl.Enum(["B", "A"]))),
    "Date": (DAY, pl.Series([MIDNIGHT.date(), None])),
    **{f"Datetime {unit}": (DAY, pl.Series([MIDNIGHT, None]).dt.cast_time_unit(unit)) for unit in ("ms", "us", "ns")},
    "Datetime with zone": (DAY, pl.Series([MIDNIGHT, None]).dt.replace_time_zone("UTC").dt.convert_time_zone(
        "Asia/Tokyo")),
    "Object of dates": (DAY, pl.Series([MIDNIGHT.date(), None], dtype=pl.Object)),
    "Null": (GAP, pl.Series([None, None])),
    "List": ({}, pl.Series([[1], None])),
    "List of Int128": ({}, pl.Series([[1], None], dtype=pl.List(pl.Int128))),
    "Array": ({}, pl.Series([[1], None], dtype=pl.Array(pl.Int8, 1))),
    "Struct": ({}, pl.Series([{"a": 1}, None])),
    "Duration": ({}, pl.Series([datetime.timedelta(1), None])),
    "Time": ({}, pl.Series([datetime.time(1), None])),
    "Binary": ({}, pl.Series([b"1", None])),
}  # fmt: skip
NUMPY = {
    **{kind: (ONE, np.array([1, np.nan]).astype(kind)) for kind in ("f2", "f4", "f8", ">f8", "g", "c16")},
    **{kind: (ONE, np.array([1]).astype(kind)) for kind in ("i1", "u8", ">i4", "?")},
    "masked": (ONE, np.ma.masked_array([1, 5], [False, True])),
    "masked words": (WORD, np.ma.masked_array(["A", "B"], [False, True])),
    "masked days": (DAY, np.ma.masked_array(np.array(["2024-01-31"] * 2, "M8[D]"), [False, True])),
    "objects": (ONE, np.array([1, None], dtype=object)),
    "U": (WORD, np.array(["A", "NA"])),
    "S": (WORD, np.array([b"A", b""])),
    "T": (WORD, np.array(["A", ""], dtype=np.dtypes.StringDType())),
    **{f"M8[{unit}]": (DAY, np.array(["2024-01-31", "NaT"], f"M8[{unit}]")) for unit in
       ("D", "m", "s", "ns", "43200s", "1000ms")},
    "m8": ({}, np.array([1, "NaT"], "m8[D]")),
    "V": ({}, np.array([b"1", b"2"], "V1")),
}  # fmt: skip


def encoded(table, kind, row_by_row, name="a"):
    schema = Schema({name: KINDS[kind]})
    n_rows = len(next(iter(table.values()))) if isinstance(table, dict) else len(table)
    source = open_table(table, [0, 1][:n_rows], schema=schema, row_by_row=row_by_row)
    return np.vstack([batch.values() for batch in source.batches()]).tolist()


def check(table, results, row_by_row, name="a"):
    """Each kind gives what is expected, or else is refused by type, or by its first value where texts are no such."""
    for kind in KINDS:
        if kind in results:
            expected = results[kind]
            found = encoded(table, kind, row_by_row, name)
            assert found == expected[: len(found)], kind
        elif row_by_row:
            assert all(row in (UNKNOWN[kind][0], GAP[kind][0]) for row in encoded(table, kind, True, name))
        else:
            try:
                assert encoded(table, kind, False, name)[0] == UNKNOWN[kind][0] and kind == "category"
                assert results  # a text or a number that is not declared; types that hold no values are refused
            except rb.TableError as error:
                text = str(error)
                assert f"column {name!r} h" in text and f"which is no {kind}" in text and "\n" not in text
                assert results or "holds" in text


FRAMES = {
    "arrow": (ARROW, lambda column: pa.table({"a": column})),
    "pandas": (PANDAS, lambda column: pd.DataFrame({"a": column})),
    "polars": (POLARS, lambda column: pl.DataFrame({"a": column})),
}


@pytest.mark.parametrize(("library", "case"), [(library, case) for library in FRAMES for case in FRAMES[library][0]])
def test_types_of_frames(library, case):
    (results, column), frame = FRAMES[library][0][case], FRAMES[library][1]
    check(frame(column), results, False)
    # bytes may be text, as they come from CSV files
    check(frame(column), ONE if "binary" in case.lower() else results, True)


@pytest.mark.parametrize("case", NUMPY)
def test_types_of_numpy(case):
    results, column = NUMPY[case]
    for row_by_row in (False, True):
        check(column[:, None], results, row_by_row, "x0")
    if not np.ma.isMaskedArray(column):
        check({"a": column}, results, False)


def test_every_type_of_polars_is_here():
    """But for those without values of their own."""
    every = {
        name for name in dir(pl) if isinstance(getattr(pl, name), type) and issubclass(getattr(pl, name), pl.DataType)
    }
    without = {"BaseExtension", "Extension", "DataType", "Unknown", "Utf8", "Map"}
    here = {str(column.dtype).split("(")[0] for _, column in POLARS.values()}
    assert every - without == here


def test_lists_in_a_dict_are_read_cell_by_cell():
    check({"a": [1, None]}, ONE, False)
    check({"a": ["A", np.nan]}, WORD, False)
    check({"a": [MIDNIGHT.date(), ""]}, DAY, False)


def test_all_columns_of_types_that_cannot_be_read_are_named():
    table = pa.table({"a": [[1]], "b": pa.array([1], pa.duration("s")), "c": [1.0], "d": [MIDNIGHT], "e": [1]})
    schema = Schema({"a": Number(), "b": Category((1,)), "c": Date(), "d": Number(), "e": Number()})
    with pytest.raises(rb.TableError) as error:
        open_table(table, [1], schema=schema)
    assert all(f"column '{name}' holds" in str(error.value) for name in "abcd")
    assert len(open_table(table, [1], schema=schema, row_by_row=True).features) == 5
    with pytest.raises(rb.TableError, match="--drop a --drop b --drop d"):
        open_table(table, [1])


def test_complex_numbers_are_refused_by_type():
    """In one line of ours that names all such columns; not in Arrow's words, which name a number of a type."""
    z = np.arange(4) * 1j
    frame = pd.DataFrame({"a": [1.0] * 4, "z": z, "w": z.astype(np.complex64)})
    for table in (frame, {"a": [1.0] * 4, "z": z}, {"t": list("uvuv"), "z": list(z)}, z[:, None]):
        for attempt in (lambda t=table: rb.craft(t, [0, 1] * 2, n_rados=3), lambda t=table: rb.propose_schema(t)):
            with pytest.raises(rb.TableError, match="complex") as error:
                attempt()
            assert "numpy type" not in str(error.value)
    with pytest.raises(rb.TableError, match="complex128"):
        rb.schema_template(pd.DataFrame({"z": z}))


# ---- one value changes the type of a column, and no other row


ODD = [
    "x", 2**70, 10**400, None, b"\xff", "\ud800", 1j, [1], {}, Decimal("sNaN"), pd.NaT, pd.NA, NAT, object(), True,
    np.datetime64(2**62, "Y"), pd.Interval(0, 1), np.float32(0.5), datetime.datetime.max, datetime.time(1),
    np.timedelta64(3, "D"),
]  # fmt: skip
USUAL = {
    "numbers": [3, 1, 4], "decimals": [0.5, 1.25, 3.0], "truths": [True, False, True], "words": ["A", "1", ""],
    "dates": [datetime.date(2024, 1, 31), datetime.date(1999, 12, 31), datetime.date(2024, 2, 1)],
    "moments": [pd.Timestamp(f"{text}:59.5") for text in ("2024-01-31 13:59", "1969-12-31 23:59", "2024-01-01 00:00")],
    "zones": [pd.Timestamp("2024-01-31 01:00", tz="Asia/Tokyo")] * 3,
}  # fmt: skip


@pytest.mark.parametrize("usual", USUAL)
@pytest.mark.parametrize("kind", KINDS)
def test_one_cell_changes_no_other_row(kind, usual):
    for place in (0, 2):
        cells = USUAL[usual]
        clean = encoded_three(pd.DataFrame({"a": cells}), kind)
        for odd in ODD:
            changed = [*cells[:place], odd, *cells[place + 1 :]]
            frames = [pd.DataFrame({"a": pd.Series(changed, dtype=object)})]
            frames += [pl.DataFrame({"a": pl.Series(changed, dtype=pl.Object)})]
            try:
                frames.append(pd.DataFrame({"a": pd.Series(changed)}))
                frames.append(pd.DataFrame({"a": pd.Series(changed, dtype="category")}))
            except (ValueError, TypeError, ArithmeticError):
                pass  # pandas has no such column
            for frame in frames:
                found = encoded_three(frame, kind)
                assert np.delete(found, place, 0).tolist() == np.delete(clean, place, 0).tolist(), (odd, frame.dtypes)


def encoded_three(frame, kind):
    source = open_table(frame, [0, 1, 0], schema=Schema({"a": KINDS[kind]}), row_by_row=True)
    return np.vstack([batch.values() for batch in source.batches()])


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "m", "s", "ms", "ns", "as", "25s", "7M", "3us"])
def test_dates_of_any_unit_are_whole_seconds_or_out_of_range(unit):
    """An extreme one does not overflow, and changes no other."""
    ticks = np.array([0, 1, -1, 50, -(2**63), 2**63 - 1, -(2**63) + 1])
    table = ticks.view(f"M8[{unit}]")[:, None]
    schema = Schema({"x0": Date(unit="seconds", fill="1970-01-02", gaps=True)})
    source = open_table(table, [0] * 7, schema=schema, row_by_row=True)
    values = np.vstack([batch.values() for batch in source.batches()])
    first, last = datetime.datetime.min, datetime.datetime.max
    epoch = datetime.datetime(1970, 1, 1)
    low, high = ((moment - epoch) // datetime.timedelta(seconds=1) for moment in (first, last))
    for tick, (number, missing) in zip(ticks.tolist(), values.tolist(), strict=True):
        seconds = exact_seconds(tick, unit)
        known = seconds is not None and low <= seconds <= high
        assert (number, missing) == ((seconds, 0) if known else (86400, 1))


def exact_seconds(tick, unit):
    """By whole numbers of Python and its own calendar; None where there is no date."""
    count, name = int("".join(c for c in unit if c.isdigit()) or 1), unit.lstrip("0123456789")
    if tick == -(2**63):
        return None
    if name in ("Y", "M"):
        months = tick * count * (12 if name == "Y" else 1)
        year, month = 1970 + months // 12, months % 12 + 1
        days = datetime.date(year, month, 1).toordinal() if 1 <= year <= 9999 else None
        return None if days is None else (days - datetime.date(1970, 1, 1).toordinal()) * 86400
    steps = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1}
    if name in steps:
        return tick * count * steps[name]
    return tick * count // 10 ** (3 * (1 + ["ms", "us", "ns", "ps", "fs", "as"].index(name)))


def test_objects_that_hold_no_value_are_named_by_their_type():
    table = pd.DataFrame({"a": [1, [2]], "b": [MIDNIGHT, datetime.time(1)], "c": [Decimal(3), "n/k" * 99]})
    schema = Schema({"a": Number(), "b": Date(), "c": Number()})
    with pytest.raises(rb.TableError, match=r"'a' has a list \(row 2\).*'b' has a time.*'c' has 'n/k") as error:
        next(open_table(table, [0, 1], schema=schema).batches()).values()
    assert "n/k" * 60 not in str(error.value)


# One value more makes objects of a column, and one missing value makes floats of integers: no other row may notice
TURNED = {
    "a negative integer of twenty characters": (-9223372036854775807, [-9223372036854775807, 5]),
    "an integer beyond 63 bits": (10**19, [10**19 + 1, 5]),
    "an integer that float64 does not have": (2**53 + 1, [2**53 + 1, 5]),
    "infinity as a word": ("inf", [np.inf, 5.0]),
    "infinity as a number": (-np.inf, [-np.inf, 5.0]),
}


@pytest.mark.parametrize("case", TURNED)
def test_a_value_is_the_same_category_in_whatever_type_its_column_is(case):
    value, cells = TURNED[case]
    schema = Schema({"c": Category((value, 5), other=True, gaps=True)})
    slots = [
        next(open_table(pd.DataFrame({"c": column}), np.zeros(len(column)), schema=schema, row_by_row=True).batches())
        .values()[:2]
        .tolist()
        for column in (cells, [*cells, "unknown"], [*cells, None])
    ]
    assert slots == [[[1, 0, 0, 0], [0, 1, 0, 0]]] * 3


@pytest.mark.parametrize("places", [[0, 0], [0, 100], [0, None]])
def test_categories_of_a_type_that_holds_none_are_unknown_by_type(places):
    for values in (
        pa.array([[1], None]),
        pa.array([{"a": 1}, None]),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    ):
        column = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), values, safe=False)
        schema = Schema({"c": Category(("A",), other=True, gaps=True)})
        batch = next(open_table(pa.table({"c": column}), np.zeros(2), schema=schema, row_by_row=True).batches())
        assert batch.values()[0].tolist() == [0, 1, 0]
