"""Tables of records whose columns have types that were declared, in every form that has types."""

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

from neighbours import TEXTS, Pair, columns_of, odd_cell

NUMBER_TYPES = ("f8", "f4", "f2", ">f8", ">f4", "i8", "u8", ">i4", "i1", "?")
ARROW_NUMBERS = (
    pa.float64(), pa.float32(), pa.float16(), pa.int64(), pa.uint64(), pa.int8(), pa.bool_(), pa.decimal128(38, 10),
    pa.decimal256(60, 5), pa.decimal32(9, 1), pa.timestamp("ns"), pa.date32(), pa.duration("s"), pa.list_(pa.int64()),
    pa.null(),
)  # fmt: skip
ARROW_TEXTS = (
    pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.large_string()),
    pa.dictionary(pa.uint64(), pa.string()), pa.run_end_encoded(pa.int32(), pa.string()),
    pa.run_end_encoded(pa.int16(), pa.string_view()),
)  # fmt: skip

_NOWHERE = {pa.int8(): (100, -1), pa.uint64(): (100, 2**63, 2**64 - 1)}  # indices that point nowhere


def arrow_column(kind: pa.DataType, cells: list[Any], rng: random.Random, odd: int | None) -> pa.Array:
    """Cells as a column of this type; the cell at `odd` may be missing, an extreme or no UTF-8 instead."""
    fits = [_fit(kind, cell) for cell in cells]
    if odd is not None:
        fits[odd] = _odd_value(kind, rng)
    before = rng.randrange(5)  # so that bitmaps begin within a byte
    if pa.types.is_dictionary(kind) and pa.types.is_nested(kind.value_type):
        places = [0] * len(cells)
        if odd is not None:
            places[odd] = rng.choice((None, *_NOWHERE[kind.index_type]))
        return pa.DictionaryArray.from_arrays(
            pa.array(places, kind.index_type), pa.array([[1, 2]], kind.value_type), safe=False
        )
    if pa.types.is_dictionary(kind):
        words = sorted({word for word in fits if word is not None}) or ["1"]
        places: list[Any] = [None if word is None else words.index(word) for word in fits]
        if odd is not None and kind.index_type in _NOWHERE:
            places[odd] = rng.choice((None, 0, *_NOWHERE[kind.index_type]))
        indices = pa.array([0] * before + places, kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, pa.array(words, kind.value_type), safe=False).slice(before)
    if pa.types.is_run_end_encoded(kind):
        runs = pc.run_end_encode(pa.array(fits, pa.string()), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(runs.run_ends, runs.values.cast(kind.value_type))
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
    return pa.types.is_run_end_encoded(kind) or (pa.types.is_dictionary(kind) and kind.index_type in _NOWHERE)


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
    kind = form.choice((*NUMBER_TYPES, "masked", "object", "U", "S", "c16", "g", "M8[s]"))
    values = np.array([[abs(int(cell)) % 100 for cell in _usual(record)] for record in records])
    odd_value = rng.choice((np.nan, np.inf, 1e300, 5e-324, -(2.0**62)))
    labels = [record[2] for record in records]
    with np.errstate(all="ignore"):
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


SPARSE_FORMATS = ("csr", "csr", "csc", "coo", "coo", "lil", "lil", "bsr", "dok")


def sparse_declared(records: list[Any], odd: int | None, seed: str) -> tuple[Any, Any]:
    """A sparse matrix, in which a place may have many entries, and those of the odd record may be anywhere."""
    rng, form = random.Random(seed), random.Random(f"{seed} form")
    kind, dtype = form.choice(SPARSE_FORMATS), np.dtype(form.choice(("f8", "f4", "i8")))
    many = 20 if form.random() < 0.5 and dtype.kind == "f" else 0  # sums of these depend on their order
    lines = [
        [(k, dtype.type(cell)) for k, cell in (*enumerate(_usual(record)), *((k % 2, 0.1 * k) for k in range(many)))]
        for record in records
    ]
    if odd is not None:
        cell = rng.choice((np.nan, np.inf, 1e300, -(2.0**62), 1j, 0.0, 3))
        lines[odd] = rng.choice(([(1, cell)], [(1, 1), (0, cell)], [], [(0, 1), (rng.choice(OUTSIDE), cell)]))
        dtype = np.dtype("c16") if any(value == 1j for _, value in lines[odd]) else dtype
    labels = [record[2] for record in records]
    with np.errstate(all="ignore"):
        if kind in ("bsr", "dok"):
            return _by_blocks_or_keys(kind, lines), labels
        entries = [(row, k, cell) for row, line in enumerate(lines) for k, cell in line]
        if odd is not None and kind == "coo" and rng.random() < 0.2:
            entries = [(rng.choice((-1, len(lines), 10**9)) if row == odd else row, *rest) for row, *rest in entries]
        if kind == "csc":  # the columns are the matrix's own: none is outside
            entries = sorted(((row, k % 2, cell) for row, k, cell in entries), key=lambda entry: entry[1])
        rows, columns = (np.array([entry[k] for entry in entries], np.int64) for k in range(2))
        cells = np.array([entry[2] for entry in entries]).astype(dtype)
    table = getattr(sparse, f"{kind}_{form.choice(('array', 'matrix'))}")((len(lines), 2), dtype=dtype)
    if kind == "coo":
        table.coords, table.data = (rows, columns), cells
    elif kind == "lil":
        for row, line in enumerate(lines):
            table.rows[row], table.data[row] = [k for k, _ in line], [value for _, value in line]
        if odd is not None and rng.random() < 0.4:
            table.rows[odd], table.data[odd] = rng.choice(
                (([0, 1], [1.0]), (["x", 10**30], [1, 2]), (None, 5), ([0], [[]]))
            )
    else:
        table.indices, slices = (columns, rows) if kind == "csr" else (rows, columns)
        counts = np.bincount(slices, minlength=len(lines) if kind == "csr" else 2)
        table.data, table.indptr = cells, np.append(0, np.cumsum(counts))
    return table, labels


OUTSIDE = (-1, 2, 5, 2**31 - 1, 10**9, 2**40, -(2**62))  # of two columns


def _by_blocks_or_keys(kind: str, lines: list[Any]) -> Any:
    """Formats that are refused by their type; an entry outside the columns is in the matrix all the same."""
    dense = np.zeros((len(lines), 2))
    nowhere = [(row, k) for row, line in enumerate(lines) for k, _ in line if not 0 <= k < 2]
    for row, line in enumerate(lines):
        for k, cell in line:
            dense[row, k % 2] += complex(cell).real
    if kind == "dok":
        table = sparse.dok_array(dense)
        table._dict.update(dict.fromkeys(nowhere, 1.0))
        return table
    table = sparse.bsr_array(dense, blocksize=(1, 1))
    table.indices[: len(nowhere)] = 5
    return table


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
    """A cell as text, or None."""
    return None if cell is None else str(cell).encode("utf-8", "replace").decode()


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
