"""Sparse matrices by rows: for private reading so that an entry matters to its own row only, and as they are.

SciPy does not check where the entries of a matrix are, and writes to wherever they point. So nothing of SciPy converts
a matrix to dense rows here before places were checked (C0 of docs/proofs/contributions.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.tables.cells import array_cell_numbers, object_cell_numbers

Entries = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # rows, columns and values


class SparseRows(NamedTuple):
    """Some rows of a sparse matrix: cells that have no entry are 0.

    The entries of row i are those from `starts[i]` to `starts[i + 1]`: their columns in `places`, in ascending order,
    each once, and their `values`.
    """

    n_columns: int
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    values: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, values: NDArray[Any]) -> "SparseRows":
        """Dense rows without their zeros."""
        rows, places = np.nonzero(values)
        starts = np.searchsorted(rows, np.arange(len(values) + 1))
        return cls(values.shape[1], starts, places.astype(np.int32), values[rows, places].astype(np.float64))

    def taken(self, rows: NDArray[np.int64]) -> "SparseRows":
        """The rows of these numbers, in this order; one may come several times."""
        lengths = np.diff(self.starts)[rows]
        starts = np.append(0, np.cumsum(lengths))
        entries = np.arange(starts[-1]) + np.repeat(self.starts[:-1][rows] - starts[:-1], lengths)
        return SparseRows(self.n_columns, starts, self.places[entries], self.values[entries])

    def within(self, rows: NDArray[np.bool_]) -> "SparseRows":
        """The same rows, all zero where `rows` is false."""
        lengths = np.diff(self.starts)
        entries = np.repeat(rows, lengths)
        starts = np.append(0, np.cumsum(np.where(rows, lengths, 0)))
        return SparseRows(self.n_columns, starts, self.places[entries], self.values[entries])

    def column(self, k: int) -> NDArray[np.float64]:
        entries = np.flatnonzero(self.places == k)
        column = np.zeros(self.n_rows)
        column[np.searchsorted(self.starts, entries, side="right") - 1] = self.values[entries]
        return column

    def row_of(self, entry: int) -> int:
        return int(np.searchsorted(self.starts, entry, side="right")) - 1


@dataclass(frozen=True, eq=False)
class NamedMatrix:
    """A sparse matrix whose columns have names: for `craft`, `predict` and whatever else takes a table.

    Without names its columns are x0, x1, ...

    >>> import radoboost as rb
    >>> from scipy import sparse
    >>> counts = sparse.csr_array([[0, 2], [1, 0], [0, 0], [3, 1]])
    >>> release = rb.craft(rb.NamedMatrix(counts, ["cough", "fever"]), [0, 1, 0, 1], n_rados=5)
    >>> [column.name for column in release.columns]
    ['cough', 'fever', '(constant)']
    """

    matrix: Any
    names: Sequence[str]

    def __post_init__(self) -> None:
        if not hasattr(self.matrix, "toarray") or len(getattr(self.matrix, "shape", ())) != 2:
            raise ArgumentError(
                f"names are for a sparse matrix of SciPy; this is a {type(self.matrix).__name__}: make a data frame of "
                "it, whose columns have names"
            )
        names = [self.names] if isinstance(self.names, str) else list(self.names)
        if len(names) != self.matrix.shape[1] or not all(isinstance(name, str) for name in names):
            raise ArgumentError(
                f"a matrix of {self.matrix.shape[1]:,} columns needs a name, a text, for each; names has "
                f"{len(names):,} entries"
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ArgumentError(f"several columns of the matrix are called {twice!r}; each needs a name of its own")
        object.__setattr__(self, "names", tuple(names))

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns it has."""
        n_rows, n_columns = self.matrix.shape
        return n_rows, n_columns

    @property
    def ndim(self) -> int:
        """Two: rows and columns."""
        return 2

    def toarray(self) -> NDArray[Any]:
        """The dense matrix, without names."""
        dense: NDArray[Any] = self.matrix.toarray()
        return dense


def matrix_and_column_names(table: Any) -> tuple[Any, tuple[str, ...] | None]:
    """An array or a matrix by itself, and the names of its columns; None where they have none."""
    return (table.matrix, tuple(table.names)) if isinstance(table, NamedMatrix) else (table, None)


def matrix_column_names(names: Sequence[str] | None, n_columns: int) -> list[str]:
    return [f"x{k}" for k in range(n_columns)] if names is None else list(names)


def sparse_rows_in_order(matrix: Any) -> Any:
    """A sparse matrix of SciPy by rows, in its own type, each place once and in order; the caller's stays as it is.

    Entries of one place add up in their order, as in the dense matrix.
    """
    from scipy import sparse  # not at the top: importing the package loads nothing of SciPy

    rows = matrix.tocsr()
    starts, places, values = _compressed_sparse_entries(rows, rows.shape[0])
    if len(places) and not (places.min() >= 0 and places.max() < rows.shape[1]):
        raise _damaged_sparse_matrix_error()
    row_of = np.repeat(np.arange(rows.shape[0]), np.diff(starts))
    ahead = (np.diff(places) > 0) | (np.diff(row_of) > 0)
    if ahead.all():
        return sparse.csr_array((values, places, starts), shape=rows.shape)
    order = np.lexsort((places, row_of))
    row_of, places, values = row_of[order], places[order], values[order]
    first = np.append(True, (np.diff(places) != 0) | (np.diff(row_of) != 0))
    totals = np.zeros(int(first.sum()), dtype=values.dtype)
    np.add.at(totals, np.cumsum(first) - 1, values)
    starts = np.append(0, np.cumsum(np.bincount(row_of[first], minlength=rows.shape[0])))
    return sparse.csr_array((totals, places[first], starts), shape=rows.shape)


def sparse_rows_as_float(matrix: Any) -> Any:
    """A sparse matrix of SciPy by rows, in float64; entries of one place add up, in their order.

    An entry outside the columns is NaN in the first column of its row. One outside the rows is in no row and does not
    count. Other formats, some of which SciPy cannot convert because of one entry, are refused whatever they hold.
    """
    from scipy import sparse  # not at the top: importing the package loads nothing of SciPy

    if not sparse.issparse(matrix):
        raise TableError(f"a private mechanism takes sparse matrices of SciPy; this is a {type(matrix).__name__}")
    if matrix.ndim != 2:
        return matrix  # to be refused like other arrays
    n_rows, n_columns = matrix.shape
    if matrix.format == "csr":
        starts, columns, values = _compressed_sparse_entries(matrix, n_rows)
    elif matrix.format in _READERS:
        rows, columns, values = _READERS[matrix.format](matrix)
        inside = (rows >= 0) & (rows < n_rows)
        if not inside.all():
            rows, columns, values = rows[inside], columns[inside], values[inside]
        order = np.argsort(rows, kind="stable")
        columns, values = columns[order], values[order]
        starts = np.append(0, np.cumsum(np.bincount(rows.astype(np.int64), minlength=n_rows)))
    else:
        raise TableError(
            f"a private mechanism takes sparse matrices in the formats csr, {', '.join(_READERS)}; this is "
            f"{matrix.format}: pass what its tocsr() gives"
        )
    numbers = array_cell_numbers(values).astype(np.float64, copy=False)
    outside = (columns < 0) | (columns >= n_columns)
    if outside.any():
        columns, numbers = np.where(outside, 0, columns), np.where(outside, np.nan, numbers)
    return sparse.csr_array((numbers, columns.astype(np.int64, copy=False), starts), shape=matrix.shape)


def _compressed_sparse_entries(matrix: Any, n_slices: int) -> Entries:
    """Where each row of a csr or column of a csc matrix begins, and the places and values of its entries."""
    starts, places, values = matrix.indptr, matrix.indices, matrix.data
    _check_sparse_entries(starts, places, values)
    sound = len(starts) == n_slices + 1 and starts[0] == 0 and (starts[1:] >= starts[:-1]).all()
    if not sound or starts[-1] > min(len(places), len(values)):
        raise _damaged_sparse_matrix_error()
    return starts.astype(np.int64, copy=False), places[: starts[-1]], values[: starts[-1]]


def _csc_entries(matrix: Any) -> Entries:
    starts, rows, values = _compressed_sparse_entries(matrix, matrix.shape[1])
    return rows, np.repeat(np.arange(matrix.shape[1]), np.diff(starts)), values


def _coo_entries(matrix: Any) -> Entries:
    rows, columns = matrix.coords
    _check_sparse_entries(rows, columns, matrix.data)
    if not len(rows) == len(columns) == len(matrix.data):
        raise _damaged_sparse_matrix_error()
    return rows, columns, matrix.data


def _lil_entries(matrix: Any) -> Entries:
    """A lil matrix: two lists for each row, in which anything may be."""
    n_rows, n_columns = matrix.shape
    if not matrix.rows.shape == matrix.data.shape == (n_rows,):
        raise _damaged_sparse_matrix_error()
    rows: list[int] = []
    columns: list[int] = []
    values: list[Any] = []
    for row, (places, cells) in enumerate(zip(matrix.rows, matrix.data, strict=True)):
        if not (isinstance(places, list) and isinstance(cells, list) and len(places) == len(cells)):
            places, cells = [-1], [np.nan]
        rows += [row] * len(places)
        columns += [int(k) if isinstance(k, int | np.integer) and 0 <= k < n_columns else -1 for k in places]
        values += cells
    return np.array(rows, np.int64), np.array(columns, np.int64), object_cell_numbers(values)


_READERS = {"csc": _csc_entries, "coo": _coo_entries, "lil": _lil_entries}


def _check_sparse_entries(first: NDArray[Any], second: NDArray[Any], values: NDArray[Any]) -> None:
    """Refuse what holds no entries at all: places that are not whole numbers, or arrays that are not one row."""
    if {first.ndim, second.ndim, values.ndim} != {1} or first.dtype.kind not in "iu" or second.dtype.kind not in "iu":
        raise _damaged_sparse_matrix_error()


def _damaged_sparse_matrix_error() -> TableError:
    """The error for a matrix whose arrays do not fit together; no record has a part of its own in that."""
    return TableError("the sparse matrix is damaged: its arrays do not fit together; make it anew")
