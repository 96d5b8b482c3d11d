"""Pairs of neighbouring tables with odd content in the record that differs, in every form that a table can have.

A pair is two lists of records (a, b, label) and a form. The forms below make tables of them as people do: by a reader
that looks at all values to find a type (`pd.read_csv`), or with a type that was declared. `tests/looking.py` looks at
both tables of a pair as private crafting does and compares what it saw.
"""

import datetime
import gzip
import io
import random
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

TEXTS = [
    "n/k", "", " ", "1", " 2 ", "\t3", "+4", "-5.", ".5", "1e999", "1e-400", "1e5", "0x10", "1_000", "nan", "inf",
    "true", "FALSE", "\u0663", "\x00", "\u00e9", "a,b", 'quo"te', "9" * 400, "9" * 20_000 + "x", "1 2", "1e", "--1",
    "no", "yes", "yes ", "2020-01-01", "#", "1;2", "\ufeff1", "'1", "NULL", "1.5f", "1d", "True", "y" * 2000,
]  # fmt: skip
NUMBERS = [
    float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 5e-324, -0.0, 2**53 + 1, 2**63, 2**64, 2**70, -(2**70),
    10**400, True, False, 7, -3.25, 1e16,
]  # fmt: skip
OBJECTS = [
    None, b"\xff", b"1", Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("1E+400"), 1 + 0j, 1j, Fraction(1,
    2), [1], {"a": 1}, (1, 2), object(), np.float32(1.5), np.longdouble(1) / 3, np.datetime64("2020-01-01"),
    np.timedelta64(1, "ns"), pd.NA, pd.NaT, pd.Timestamp("2020-01-01"), pd.Interval(0, 1), datetime.date(2020, 1, 1),
    datetime.timedelta(1), "\ud800", np.array(5), np.bytes_(b"2"), np.str_("3"), np.bool_(True), np.void(b"1"),
    range(3),
]  # fmt: skip
LINES = [
    b"", b" ", b"\r", b",", b",,", b",,,", b'"', b'"5', b'5"', b'""', b'"a,b",1,yes', b'"1","2","yes"', b'1,"2,yes',
    b"\xef\xbb\xbf1,2,no", b"\xff\xfe,1,no", b"\x00,1,no", b"1,\r2,no", b"1,2,no\r", b"1,2,no,", b"1;2;no",
    b"x" * 100_000, b"9" * 20_000 + b"x,1,no", b"1,2," + b"9" * 20_000 + b"x", b'"' * 1001, b"1,2,'no'", b"\x1a",
    b"\\,\\,no", b"1,2,n\xc3\xa9", b"\t1,\t2,yes", b"\x0b\x0c,1,yes", b"\xe2\x80\xa8,1,yes",
]  # fmt: skip
CLASSES = ("no", "yes")


@dataclass(frozen=True)
class Pair:
    """Records of two neighbouring tables; record `place` of `long` is not in `short`, or has the other label there."""

    long: list[Any]
    short: list[Any]
    place: int
    unit: str


def odd_cell(rng: random.Random) -> Any:
    """A cell that may be anything."""
    return rng.choice(rng.choice((TEXTS, NUMBERS, OBJECTS)))


def make_pair(rng: random.Random, odd_record: Any, unit: str, classes: Any = CLASSES) -> Pair:
    """Three to forty usual records and one that `odd_record` makes, at any place."""
    step = rng.choice((1, 0.125, 0.1))  # whole numbers are integers, as readers would take them
    numbers = [[rng.randrange(-20, 100) * step for _ in range(2)] for _ in range(rng.randrange(3, 41))]
    records: list[Any] = [(*row, rng.choice(classes)) for row in numbers]
    place = rng.randrange(len(records) + 1)
    odd = odd_record(rng, classes)
    if unit == "record":
        return Pair([*records[:place], odd, *records[place:]], records, place, unit)
    flipped = (*odd[:2], classes[1])
    odd = (*odd[:2], classes[0])
    return Pair([*records[:place], odd, *records[place:]], [*records[:place], flipped, *records[place:]], place, unit)


def odd_record(rng: random.Random, classes: Any) -> Any:
    """A record of odd cells, each with a usual one now and then."""
    a, b = (odd_cell(rng) if rng.random() < 0.8 else rng.choice((1, 2.5)) for _ in range(2))
    return a, b, odd_cell(rng) if rng.random() < 0.4 else rng.choice(classes)


# ---- forms in which the type of a column follows from all its values


def csv_lines(records: list[Any], ending: bytes = b"\n") -> bytes:
    """A CSV file; a record may be a line of bytes."""
    lines = [record if isinstance(record, bytes) else _line(record) for record in records]
    return b"".join(line + ending for line in (b"a,b,y", *lines))


def _line(record: Any) -> bytes:
    cells = [_cell_bytes(cell) for cell in record]
    return b",".join(
        b'"' + cell.replace(b'"', b'""') + b'"' if b"," in cell or b'"' in cell else cell for cell in cells
    )


def _cell_bytes(cell: Any) -> bytes:
    text = cell if isinstance(cell, bytes) else str(cell).encode("utf-8", "replace")
    return text.replace(b"\n", b"").replace(b"\r", b"")


def columns_of(records: list[Any]) -> dict[str, list[Any]]:
    """The records as lists of cells."""
    return {name: [record[k] for record in records] for k, name in enumerate("aby")}


def numpy_inferred(records: list[Any]) -> tuple[Any, Any]:
    """An array of whatever type holds all cells, and labels of such a type."""
    return np.array([list(record[:2]) for record in records]), np.array([record[2] for record in records])


def pandas_read(records: list[Any]) -> Any:
    """What pandas makes of a CSV file; its usual reading of decimals may be off by one unit in the last place."""
    return pd.read_csv(io.BytesIO(csv_lines(records)), float_precision="round_trip")


def polars_read(records: list[Any]) -> Any:
    """What polars makes of a CSV file."""
    return pl.read_csv(io.BytesIO(csv_lines(records)), infer_schema_length=None)


# ---- forms with declared types


NUMBER_TYPES = ("f8", "f4", "f2", ">f8", ">f4", "i8", "u8", ">i4", "i1", "?")
ARROW_NUMBERS = (
    pa.float64(), pa.float32(), pa.float16(), pa.int64(), pa.uint64(), pa.int8(), pa.bool_(), pa.decimal128(38, 10),
    pa.decimal256(60, 5), pa.decimal32(9, 1), pa.timestamp("ns"), pa.date32(), pa.duration("s"), pa.list_(pa.int64()),
    pa.null(),
)  # fmt: skip
ARROW_TEXTS = (
    pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.large_string()),
    pa.run_end_encoded(pa.int32(), pa.string()),
)  # fmt: skip


def arrow_column(kind: pa.DataType, cells: list[Any], rng: random.Random, odd: int | None) -> pa.Array:
    """Cells as a column of this type; the cell at `odd` may be missing, an extreme or no UTF-8 instead."""
    fits = [_fit(kind, cell) for cell in cells]
    if odd is not None:
        fits[odd] = _odd_value(kind, rng)
    before = rng.randrange(5)  # so that bitmaps begin within a byte
    if pa.types.is_dictionary(kind):
        words = sorted({word for word in fits if word is not None}) or ["1"]
        places: list[Any] = [None if word is None else words.index(word) for word in fits]
        if odd is not None and kind.index_type == pa.int8():
            places[odd] = rng.choice((None, 0, 100, -1))
        indices = pa.array([0] * before + places, kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, pa.array(words, kind.value_type), safe=False).slice(before)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(fits, kind.value_type))
    column = pa.array(fits[:1] * before + fits, _bytes_type(kind)).slice(before)
    return column if column.type == kind else _as_text(column, kind)


def _bytes_type(kind: pa.DataType) -> pa.DataType:
    return {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(kind, kind)


def _as_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same bytes called text, whether or not they are."""
    return pa.Array.from_buffers(kind, len(column), column.buffers(), offset=column.offset)


def _fit(kind: pa.DataType, cell: Any) -> Any:
    """A usual cell as a value of this type."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind):
        return [1]
    if kind in ARROW_TEXTS:
        word = str(cell).encode("utf-8", "replace")
        return word if _holds_bytes(kind) else word.decode()
    whole = abs(int(_usual([cell])[0]))
    if pa.types.is_decimal(kind):
        return Decimal(whole)
    return bool(whole % 2) if pa.types.is_boolean(kind) else whole


def _holds_bytes(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary_view())


def _odd_value(kind: pa.DataType, rng: random.Random) -> Any:
    """A value of this type that is missing, extreme or odd."""
    if kind in ARROW_TEXTS:
        word = rng.choice((None, *TEXTS))
        if word is None or not _holds_bytes(kind):
            return word
        return rng.choice((word.encode(), b"\xff" + word.encode()))
    if pa.types.is_floating(kind):
        return rng.choice((None, float("nan"), float("inf"), -float("inf"), 5e-324, 6e4))
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        return rng.choice((None, 2 ** (bits - 1) - 1, 0))
    if pa.types.is_decimal(kind):
        return rng.choice((None, Decimal(10 ** (kind.precision - kind.scale) - 1), Decimal("-0.5")))
    if pa.types.is_temporal(kind):
        return rng.choice((None, 2**31 - 1, 0))
    return None if pa.types.is_null(kind) else rng.choice((None, [] if pa.types.is_list(kind) else True))


def in_chunks(column: pa.Array, rng: random.Random) -> pa.ChunkedArray:
    """A column cut somewhere, with an empty chunk between."""
    cut = rng.randrange(len(column) + 1)
    return pa.chunked_array([column[:cut], column[cut:cut], column[cut:]], type=column.type)


def arrow_table(pair: Pair, records: list[Any], seed: str, parquet: bool) -> pa.Table:
    """The records in columns of types that were declared; of both tables the same ones."""
    rng = random.Random(seed)
    kinds = [rng.choice(rng.choice((ARROW_NUMBERS, ARROW_TEXTS))) for _ in range(2)]
    label = rng.choice(ARROW_TEXTS)
    if parquet:
        kinds = [pa.string() if _not_in_parquet(kind) else kind for kind in kinds]
        label = pa.string() if _not_in_parquet(label) else label
    cells = columns_of(records)
    odd = pair.place if len(records) == len(pair.long) else None
    arrays = [arrow_column(kind, cells[name], rng, odd) for kind, name in zip(kinds, "ab", strict=True)]
    odd_label = odd if pair.unit == "record" and rng.random() < 0.4 else None
    arrays.append(arrow_column(label, cells["y"], rng, odd_label))
    return pa.table([in_chunks(array, rng) for array in arrays], list("aby"))


def _not_in_parquet(kind: pa.DataType) -> bool:
    return pa.types.is_run_end_encoded(kind) or (pa.types.is_dictionary(kind) and kind.index_type == pa.int8())


def write_table(table: pa.Table, path: Any, rng: random.Random) -> Any:
    """A Parquet file, or an Arrow file or stream, by the ending of its name."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rng.choice((5, 1000, 1000)), use_dictionary=rng.random() < 0.5)
        return path
    write = pa.ipc.new_stream if "stream" in path.name else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=rng.choice((None, "zstd")))
    with write(path, table.schema, options=options) as sink:
        sink.write_table(table, rng.choice((5, 1000, 1000)))
    return path


def numpy_declared(records: list[Any], odd: int | None, seed: str) -> tuple[Any, Any]:
    """An array of a declared type, whose odd cells are what NumPy makes of odd numbers."""
    rng, form = random.Random(seed), random.Random(f"{seed} form")  # the form is that of both tables
    kind = form.choice((*NUMBER_TYPES, "csr", "csc", "masked", "object", "U", "S", "c16", "g", "M8[s]"))
    values = np.array([[abs(int(cell)) % 100 for cell in _usual(record)] for record in records])
    odd_value = rng.choice((np.nan, np.inf, 1e300, 5e-324, -(2.0**62)))
    labels = [record[2] for record in records]
    with np.errstate(all="ignore"):
        if kind in ("csr", "csc"):
            rows = values.astype(float)
            if odd is not None:
                rows[odd, 1] = odd_value
            table = sparse.csr_array(rows)
            if odd is not None and kind == "csr" and rng.random() < 0.5 and len(table.indices):
                table.indices[table.indptr[odd] : table.indptr[odd + 1]] = rng.choice((-1, 2, 5))
            return table if kind == "csr" else table.tocsc(), labels
        if kind == "masked":
            mask = np.zeros(values.shape, bool)
            if odd is not None:
                mask[odd, rng.randrange(2)] = True
            return np.ma.masked_array(values.astype(form.choice(("f4", "i8", "O", "U8"))), mask), labels
        rows = values.astype(object if kind == "object" else kind)
        if odd is not None and kind in ("U", "S"):
            rows = values.astype(object)
            rows[odd, 0] = rng.choice([word for word in TEXTS if kind == "U" or word.isascii()])
            return rows.astype(kind), labels
        if odd is not None:
            rows[odd, 0] = odd_cell(rng) if kind == "object" else np.array(odd_value).astype(rows.dtype)
    return (np.asfortranarray(rows) if form.random() < 0.3 else rows), labels


def _usual(record: Any) -> list[Any]:
    return [cell if isinstance(cell, int | float) and abs(cell) < 1e6 else 1 for cell in record[:2]]


PANDAS_TYPES = (
    "Int64", "Float64", "boolean", "string[python]", "string[pyarrow]", "str", "category", "Sparse[float]", "object",
    "float32", "uint8", "datetime64[ns]", "double[pyarrow]", "int64[pyarrow]", "string[pyarrow] ", "timedelta64[ns]",
    "complex128",
)  # fmt: skip


def pandas_declared(records: list[Any], odd: int | None, seed: str) -> Any:
    """A frame with columns of declared types of pandas."""
    rng, form = random.Random(seed), random.Random(f"{seed} form")
    frame = {"y": pd.Series([record[2] for record in records], dtype=form.choice(("object", "category")))}
    for k, name in enumerate("ab"):
        kind = form.choice(PANDAS_TYPES).strip()
        cells = [abs(int(_usual(record)[k])) % 2 for record in records]
        series = pd.Series([str(cell) for cell in cells] if "str" in kind else cells).astype(kind)
        if odd is not None:
            series = _with_odd_cell(series, odd, rng)
        frame[name] = series
    return pd.DataFrame(frame)


def _with_odd_cell(series: Any, odd: int, rng: random.Random) -> Any:
    """A series of the same type with an odd cell, if its type can hold one."""
    kind = series.dtype
    if str(kind) == "category":
        cells = series.astype(object)
        cells.iloc[odd] = rng.choice((None, "x", 2.5, "1", True))
        return cells.astype("category")
    cells = series.astype(object)
    if str(kind) == "object" or str(kind).startswith("str"):
        cells.iloc[odd] = rng.choice(TEXTS) if str(kind) != "object" else odd_cell_for_pandas(rng)
    else:
        cells.iloc[odd] = rng.choice((None, 0))
    try:
        return cells.astype(kind)
    except (TypeError, ValueError):  # this type has no missing value
        return series


def odd_cell_for_pandas(rng: random.Random) -> Any:
    """An odd cell that pandas can put into one place: no list, tuple or array."""
    while True:
        cell = odd_cell(rng)
        if not isinstance(cell, list | tuple | dict | np.ndarray | range):
            return cell


POLARS_TYPES = (
    pl.Int64, pl.Float64, pl.Float32, pl.Float16, pl.Int128, pl.UInt128, pl.Boolean, pl.String, pl.Binary,
    pl.Categorical, pl.Object, pl.Date, pl.Datetime, pl.Decimal(20, 3), pl.List(pl.Int128), pl.Null,
)  # fmt: skip


def polars_declared(records: list[Any], odd: int | None, seed: str) -> Any:
    """A frame with columns of declared types of polars."""
    rng, form = random.Random(seed), random.Random(f"{seed} form")
    kind = form.choice((pl.String, pl.Categorical, pl.Object))
    labels = [record[2] if kind == pl.Object else text_or_none(record[2]) for record in records]
    columns = [pl.Series("y", labels, dtype=kind)]
    for k, name in enumerate("ab"):
        kind = form.choice(POLARS_TYPES)
        cells: list[Any] = [abs(int(_usual(record)[k])) % 50 for record in records]
        if odd is not None:
            cells[odd] = odd_cell(rng) if kind == pl.Object else rng.choice((None, 2**62, 1))
        columns.append(_polars_series(name, cells, kind))
    return pl.DataFrame(columns)


def text_or_none(cell: Any) -> str | None:
    """A cell as text, None if it is none or has no UTF-8."""
    return None if cell is None or cell == "\ud800" else str(cell)


def _polars_series(name: str, cells: list[Any], kind: Any) -> Any:
    if kind == pl.Null:
        return pl.Series(name, [None] * len(cells))
    if kind in (pl.String, pl.Categorical):
        return pl.Series(name, [None if cell is None else str(cell) for cell in cells], dtype=pl.String).cast(kind)
    if kind == pl.Binary:
        return pl.Series(name, [None if cell is None else str(cell).encode() for cell in cells], dtype=kind)
    if isinstance(kind, pl.List):
        return pl.Series(name, [[cell] for cell in cells], dtype=kind)
    if kind == pl.Boolean:
        return pl.Series(name, [None if cell is None else bool(cell % 2) for cell in cells], dtype=kind)
    if kind in (pl.Object, pl.Int128, pl.UInt128):
        return pl.Series(name, cells, dtype=kind)
    return pl.Series(name, cells, dtype=pl.Int64).cast(kind, strict=False)


def gzipped(content: bytes, rng: random.Random) -> bytes:
    """Compressed, as one member or two."""
    cut = rng.randrange(len(content)) if rng.random() < 0.3 else len(content)
    return b"".join(gzip.compress(part, 1) for part in (content[:cut], content[cut:]) if part)
