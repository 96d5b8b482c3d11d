"""A query as a table: its result comes from a database as Arrow record batches, or as Python objects.

An address that begins with `duckdb:` or `postgresql://` is opened here, for reading only, and closed again. Passwords
are left to the conventions of the database's own library (PGPASSWORD, a password file, a service file); one that is in
an address all the same is in no message.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from radoboost.errors import ArgumentError, TableError, install
from radoboost.tables import urls
from radoboost.tables.object_columns import spell_undeclared_objects

_BATCH_VALUES, _BATCH_ROWS = 1 << 20, 65536
_ABOUT_NAMES = ("Binder Error:", "Catalog Error:", "IO Error: No files found")
_TYPE = b"ADBC:postgresql:typname"


@dataclass(frozen=True, eq=False, repr=False)
class Query:
    """Rows that a database is asked for; each time that it is read, the database is asked again. See `query`."""

    source: Any
    sql: str

    def __repr__(self) -> str:
        source = urls.mask_passwords(self.source) if isinstance(self.source, str) else type(self.source).__name__
        return f"query({source!r}, ...)"

    @contextmanager
    def opened(self, *, row_by_row: bool = False) -> Iterator["QueryResult"]:
        """The answer, as far as it has come; what we opened is closed in the end.

        With `row_by_row`, what a library says once it reads rows is in no message, and a text that it cannot decode is
        a value like any other where the library allows that.
        """
        address = self.source if isinstance(self.source, str) else ""
        with urls.mask_database_errors(address), _open_database_connection(self.source) as source:
            if row_by_row:
                _check_sql_query(source, self.sql)
            with urls.withhold_read_errors(row_by_row):
                yield from _query_answers(source, self.sql, row_by_row)


@dataclass(eq=False)
class QueryResult:
    """What a database answers: columns and record batches; of Python `objects`, all columns are texts."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    objects: "ObjectTypes | None" = None


def query(source: Any, sql: str) -> Query:
    """The result of a query, as a table for `craft`, `predict`, `score` and whatever else takes one.

    `source` is an open connection: of DuckDB, ADBC, or any other library that follows PEP 249. Or it is an address:
    `duckdb:FILE`, `duckdb:` for one without tables, which can read files, or `postgresql://host/database`. Addresses
    are opened for reading only. The result is read once, and kept in a private temporary file while it is needed, so
    it may be larger than memory. A record is a row of the result, and the query itself is in no release.

    >>> import sqlite3, radoboost as rb
    >>> clinic = sqlite3.connect(":memory:")
    >>> _ = clinic.execute("CREATE TABLE visits (age REAL, dose REAL, ill INTEGER)")
    >>> _ = clinic.executemany("INSERT INTO visits VALUES (?, ?, ?)", [(31, 0.5, 0), (42, 1.5, 1), (53, 1.0, 1)])
    >>> release = rb.craft(rb.query(clinic, "SELECT * FROM visits"), label="ill", n_rados=5)
    >>> release.rados.shape
    (5, 3)
    """
    if not isinstance(sql, str) or not sql.strip():
        raise ArgumentError(f"a query is a text such as 'SELECT ...'; this one is {type(sql).__name__}, or empty")
    if isinstance(source, str) and not urls.is_supported_url(source):
        raise urls.unknown_url_error(source)
    if isinstance(source, str) and not source.lower().startswith("duckdb:"):
        urls.check_url_encoding(source)
    if isinstance(source, str) and source.lower().startswith("duckdb:") and "?" in source:
        raise ArgumentError("two queries: one in the address, behind its question mark, and another; give one of them")
    if not isinstance(source, str) and not hasattr(source, "cursor") and not hasattr(source, "sql"):
        raise ArgumentError(
            f"a query needs an open connection, or an address such as duckdb:FILE; this is a {type(source).__name__}"
        )
    return Query(source, sql)


def query_of_address(address: str) -> Query:
    """The query that an address has behind a question mark; one of PostgreSQL may have options before it.

    >>> query_of_address("postgresql://host/clinic?sslmode=require?SELECT 1").sql
    'SELECT 1'
    """
    if not urls.is_supported_url(address):
        raise urls.unknown_url_error(address)
    place, mark, sql = urls.split_query(address)
    if not mark:
        shown = urls.mask_passwords(address)
        raise ArgumentError(
            f"{shown} needs a query behind a question mark, in quotes: '{shown}?SELECT ...'; in Python "
            "rb.query(address, 'SELECT ...') will do too"
        )
    return query(place, sql)


# ---- connections


@contextmanager
def _open_database_connection(source: Any) -> Iterator[Any]:
    """An open connection; one that an address leads to is closed afterwards."""
    if not isinstance(source, str):
        yield source
        return
    if source.lower().startswith("duckdb:"):
        duckdb = _import_database_driver("duckdb", install("sql"))
        file = source.partition(":")[2]
        _refuse_table_file_as_database(file)
        opened = duckdb.connect(file, read_only=True) if file else duckdb.connect()
    else:
        driver = _import_database_driver(
            "adbc_driver_postgresql.dbapi", install("sql", "adbc-driver-postgresql"), "adbc_driver_manager"
        )
        opened = driver.connect(source, autocommit=True)
    with closing(opened):
        if hasattr(opened, "extract_statements"):
            opened.execute("SET enable_progress_bar = false")  # it would be on stdout, among results
        else:
            with closing(opened.cursor()) as cursor:
                cursor.execute("SET default_transaction_read_only = on")
        yield opened


def _refuse_table_file_as_database(file: str) -> None:
    """Refuse files of tables in place of a database: DuckDB would say no more than that they are none."""
    if file.lower().endswith((".csv", ".csv.gz", ".tsv", ".parquet", ".pq", ".json")):
        raise TableError(
            f"{file} is no DuckDB database; ask the file itself: \"duckdb:?SELECT ... FROM '{file}'\", or pass it as "
            "the table, without duckdb: and without a query"
        )


def _import_database_driver(name: str, advice: str, *others: str) -> Any:
    """A library that may not be there."""
    try:
        for other in others:
            importlib.import_module(other)
        return importlib.import_module(name)
    except ImportError:
        raise TableError(
            f"this address needs {name.partition('.')[0]}, which is not installed; run: {advice}"
        ) from None


# ---- answers


def _query_answers(connection: Any, sql: str, row_by_row: bool) -> Iterator[QueryResult]:
    """The answer of one connection; a generator, so that what it opened is closed when it is."""
    if _is_duckdb_connection(connection):
        yield duckdb_relation_answer(_duckdb_relation(connection, sql))
        return
    fetch = _fetch_sqlite_rows if row_by_row and hasattr(connection, "text_factory") else _fetch_cursor_rows
    with closing(_open_database_cursor(connection)) as cursor:
        cursor.execute(sql)
        if hasattr(cursor, "fetch_record_batch"):
            yield _adbc_query_answer(cursor.fetch_record_batch())
            return
        first = fetch(cursor) if cursor.description is not None or _is_psycopg_connection(connection) else []
        if cursor.description is None:
            raise TableError("the query gives no rows; a table needs a query that does, such as SELECT ...")
        names = [str(column[0]) for column in cursor.description]
        types = ObjectTypes(len(names))
        schema = pa.schema([(name, pa.large_string()) for name in names])
        yield QueryResult(schema, _cursor_rows_to_batches(partial(fetch, cursor), first, schema, types), types)


def _is_duckdb_connection(connection: Any) -> bool:
    return hasattr(connection, "sql") and hasattr(connection, "extract_statements")


def _duckdb_relation(connection: Any, sql: str) -> Any:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type.name not in ("SELECT", "MULTI", "EXPLAIN"):
        raise TableError("the query must be one statement that gives rows and changes nothing, such as SELECT ...")
    relation = connection.sql(sql)
    if relation is None:
        raise TableError("the query gives no rows; a table needs a query that does, such as SELECT ...")
    return relation


def _check_sql_query(connection: Any, sql: str) -> None:
    """Let a database say what is wrong with a query by itself, where it can without a look at any row."""
    if _is_duckdb_connection(connection):
        _check_duckdb_query(connection, sql)
    elif hasattr(connection, "text_factory"):  # sqlite3 makes a plan, and reads nothing
        with closing(connection.cursor()) as cursor:
            cursor.execute(sql if sql.split(None, 1)[0].upper() == "EXPLAIN" else f"EXPLAIN {sql}")
    elif _is_adbc_postgres(connection):
        with closing(connection.cursor()) as cursor:
            cursor.adbc_prepare(sql)


def _is_adbc_postgres(connection: Any) -> bool:
    try:
        return bool(connection.adbc_get_info().get("vendor_name") == "PostgreSQL")
    except Exception:  # no library of ADBC, or one that says nothing about itself
        return False


def _check_duckdb_query(connection: Any, sql: str) -> None:
    """What DuckDB says about the text of a query, and in the first line about names: behind it are other columns.

    While it binds, it looks at the rows of CSV files and at the values of a PIVOT; then nothing of it is told.
    """
    try:
        _duckdb_relation(connection, sql)
    except Exception as error:
        if isinstance(error, TableError) or type(error).__name__ == "ParserException":
            raise
        line = str(error).partition("\n")[0]
        pivots = connection.extract_statements(sql)[0].type.name == "MULTI"
        if not pivots and line.startswith(_ABOUT_NAMES):
            raise TableError(f"the query failed: {urls.mask_passwords(line)[:400]}") from None


def duckdb_relation_answer(relation: Any) -> QueryResult:
    """The rows of a DuckDB relation, as a stream."""
    rows = max(1024, min(_BATCH_ROWS, _BATCH_VALUES // max(1, len(relation.columns))))
    read = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_record_batch
    reader = read(rows)
    return QueryResult(reader.schema, iter(reader))


def _adbc_query_answer(reader: pa.RecordBatchReader) -> QueryResult:
    """Rows as a driver gives them; a type of the database's own is stored as its texts or bytes."""
    fields = []
    for column in reader.schema:
        kind, notes = column.type, dict(column.metadata or {})
        if isinstance(kind, pa.BaseExtensionType):
            notes |= {_TYPE: getattr(kind, "type_name", "").encode()}
            kind = kind.storage_type
        fields.append(pa.field(column.name, kind, metadata=notes))
    schema = pa.schema(fields)
    return QueryResult(schema, (_adbc_storage_batch(batch, schema) for batch in reader))


def _adbc_storage_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [array.storage if isinstance(array, pa.ExtensionArray) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_psycopg_connection(connection: Any) -> bool:
    return type(connection).__module__.partition(".")[0] in ("psycopg", "psycopg2")


def _open_database_cursor(connection: Any) -> Any:
    """A cursor that does not take the whole result into memory, where its library has one."""
    if not _is_psycopg_connection(connection):
        return connection.cursor()
    return connection.cursor("radoboost", withhold=bool(connection.autocommit))


# ---- Python objects


@dataclass(eq=False)
class ObjectTypes:
    """Which types the objects of each column have, for tables whose types may depend on values."""

    n_columns: int
    seen: list[set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.seen = [set() for _ in range(self.n_columns)]

    def see(self, column: int, cells: Sequence[Any]) -> None:
        self.seen[column].update(map(_sql_cell_type_word, cells))

    def types(self) -> list[pa.DataType]:
        """A type for each column that holds all that was seen."""
        return [_common_sql_type(words - {"nothing"}) for words in self.seen]


def _sql_cell_type_word(cell: Any) -> str:
    if cell is None:
        return "nothing"
    if isinstance(cell, bool | np.bool_):
        return "truth"
    if isinstance(cell, int | np.integer):
        return "whole" if -(2**63) <= int(cell) < 2**63 else "text"
    if isinstance(cell, float | np.floating | Decimal):
        return "number"
    return "time" if isinstance(cell, date) else "text"


def _common_sql_type(words: set[str]) -> pa.DataType:
    """The type of a column with such cells."""
    types = {"truth": pa.bool_(), "whole": pa.int64(), "number": pa.float64(), "time": pa.timestamp("s")}
    if not words:
        return pa.null()
    if len(words) == 1:
        return types.get(next(iter(words)), pa.string())
    return pa.float64() if words <= {"whole", "number"} else pa.string()


def _cursor_rows_to_batches(
    fetch: Callable[[], Any], rows: Any, schema: pa.Schema, types: ObjectTypes
) -> Iterator[pa.RecordBatch]:
    while rows:
        columns = []
        for k, cells in enumerate(zip(*rows, strict=True)):
            types.see(k, cells)
            columns.append(spell_undeclared_objects(cells))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        rows = fetch()


def _fetch_cursor_rows(cursor: Any) -> Any:
    return cursor.fetchmany(_BATCH_ROWS)


def _fetch_sqlite_rows(cursor: Any) -> Any:
    """Rows of sqlite3, in which a text that cannot be decoded is its bytes.

    Only the connection can be told so. While anyone else can look at it, it is as it was.
    """
    connection = cursor.connection
    given = connection.text_factory

    def decoded(text: bytes) -> Any:
        try:
            return text.decode() if given is str else given(text)
        except Exception:  # a text of any kind is no reason to stop
            return text

    connection.text_factory = decoded
    try:
        return _fetch_cursor_rows(cursor)
    finally:
        connection.text_factory = given


def declared_database_types(schema: pa.Schema) -> pa.Schema:
    """The schema of an answer, with numbers where the database declares some and its driver makes texts of them."""
    for k, column in enumerate(schema):
        numeric = (column.metadata or {}).get(_TYPE) == b"numeric"
        if numeric and column.type in (pa.string(), pa.large_string()):
            schema = schema.set(k, pa.field(column.name, pa.float64()))
    return schema
