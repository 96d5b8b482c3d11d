"""Sparse matrices in private reading: wherever an entry claims to be, it changes no row but its own."""

import numpy as np
import pytest
from scipy import sparse

import radoboost as rb
from radoboost.tables import open_table
from radoboost.tables.sparse import sparse_rows_as_float

X = np.array([[1.0, 2.0, 0.0], [0.0, 4.0, 5.0], [6.0, 0.0, 7.0], [8.0, 9.0, 1.0]])
READ, REFUSED = ("csr", "csc", "coo", "lil"), ("bsr", "dok", "dia")
OUTSIDE = (-1, 3, 2**31 - 1, -(2**62))


def values_of(matrix, **options):
    source = open_table(matrix, [0, 1, 0, 1], row_by_row=True, **options)
    return np.vstack([batch.values() for batch in source.batches()])


def with_entries(kind, rows, columns, cells):
    """A matrix of four rows and three columns with exactly these entries, in any order of places."""
    rows, columns, cells = np.array(rows), np.array(columns), np.array(cells)
    order = np.argsort({"csr": rows, "csc": columns}.get(kind, np.zeros(len(rows))), kind="stable")
    rows, columns, cells = rows[order], columns[order], cells[order]
    matrix = getattr(sparse, f"{kind}_array")((4, 3), dtype=cells.dtype)
    if kind == "coo":
        matrix.coords, matrix.data = (rows, columns), cells
    elif kind == "lil":
        for row in range(4):
            matrix.rows[row], matrix.data[row] = (part[rows == row].tolist() for part in (columns, cells))
    else:
        slices, places = (rows, columns) if kind == "csr" else (columns, rows)
        counts = np.bincount(slices, minlength=4 if kind == "csr" else 3)
        matrix.indices, matrix.data, matrix.indptr = places, cells, np.append(0, np.cumsum(counts))
    return matrix


@pytest.mark.parametrize("kind", READ)
def test_sound_matrices_are_what_they_are(kind):
    for k, dtype in enumerate(["f8", "f4", "i1", "u8", "?", "c16", "g"]):
        dense = X.astype(dtype)
        matrix = getattr(sparse, f"{kind}_{('array', 'matrix')[k % 2]}")(dense)
        np.testing.assert_array_equal(values_of(matrix), dense.astype(complex).real)
        np.testing.assert_array_equal(values_of(matrix, features=["x2", "x0"]), dense[:, [2, 0]].astype(complex).real)


@pytest.mark.parametrize("place", OUTSIDE)
@pytest.mark.parametrize("kind", ["csr", "coo", "lil"])
def test_an_entry_outside_the_columns_stays_in_its_row(kind, place):
    """SciPy wrote it into another row, or killed the process."""
    rows, columns = np.nonzero(X)
    columns = np.where((rows == 1) & (columns == 1), place, columns)
    values = values_of(with_entries(kind, rows, columns, X[np.nonzero(X)]))
    np.testing.assert_array_equal(np.delete(values, 1, axis=0), np.delete(X, 1, axis=0))
    np.testing.assert_array_equal(values[1], [np.nan, 0, 5])


@pytest.mark.parametrize("place", [-1, 4, 2**31 - 1, -(2**62)])
@pytest.mark.parametrize("kind", ["csc", "coo"])
def test_an_entry_outside_the_rows_is_in_none(kind, place):
    rows, columns = np.nonzero(X)
    rows = np.where((rows == 1) & (columns == 1), place, rows)
    expected = X.copy()
    expected[1, 1] = 0
    np.testing.assert_array_equal(values_of(with_entries(kind, rows, columns, X[np.nonzero(X)])), expected)


@pytest.mark.parametrize(
    ("kind", "mechanism"),
    [("csr", rb.Moments(1.0)), ("coo", rb.NoisyRados(1.0)), ("lil", rb.NoisyExamples(1.0))],
)
def test_a_release_comes_out(kind, mechanism):
    rows, columns = np.nonzero(X)
    columns = np.where((rows == 1) & (columns == 1), 10**9, columns)
    matrix = with_entries(kind, rows, columns, X[np.nonzero(X)])
    rb.craft(matrix, [0, 1, 0, 1], mechanism=mechanism, classes=(0, 1), n_rados=2, schema=[[0, 10]] * 3)


@pytest.mark.parametrize("place", [1, *OUTSIDE])
@pytest.mark.parametrize("kind", ["csr", "coo", "lil"])
def test_complex_entries_are_read_one_by_one(kind, place):
    """The imaginary parts of all rows were dropped, with a warning, if the place of one entry was wrong."""
    matrix = with_entries(kind, [0, 1, 2, 3], [0, place, 2, 0], [1 + 2j, 5 + 0j, 7 + 0j, 8 + 1e-300j])
    values = values_of(matrix)
    np.testing.assert_array_equal(values[[0, 2, 3]], [[np.nan, 0, 0], [0, 0, 7], [np.nan, 0, 0]])
    assert values[1].tolist() == [0, 5, 0] if place == 1 else np.isnan(values[1, 0])


@pytest.mark.parametrize("kind", READ)
def test_entries_of_one_place_add_up_in_their_order(kind):
    """In any type. SciPy sums small integers to what is left of them, and sorts all rows if one needs it."""
    for cells, total in (([100, 100], 200.0), ([True, True], 2.0), ([1e16, 1.0], 1e16), ([np.nan, 1.0], np.nan)):
        cells = np.array(cells, np.int8 if total == 200 else None)
        np.testing.assert_array_equal(values_of(with_entries(kind, [2, 2], [1, 1], cells))[2], [0, total, 0])
    parts = [1e16, *[1.0] * 40, -1e16]
    rows = [0] * len(parts)
    alone = values_of(with_entries(kind, rows, [1] * len(parts), parts))[0]
    beside = values_of(with_entries(kind, [*rows, 1, 1], [1] * len(parts) + [2, 0], [*parts, 1.0, 1.0]))[0]
    assert alone.tobytes() == beside.tobytes() == np.array([0, np.add.accumulate(parts)[-1], 0]).tobytes()


@pytest.mark.parametrize(
    ("places", "cells"),
    [
        ([0, 1], [1.0]), ([0], None), (None, [1.0]), (["x"], [1.0]), ([10**30], [1.0]), ([0], ["few"]), ([0], [[1]]),
        ([0.5], [1.0]), ((0,), (1.0,)), ([0], [10**400]), ([0], [1j]),
    ],
)  # fmt: skip
def test_lists_may_hold_anything(places, cells):
    matrix = sparse.lil_array(X)
    matrix.rows[1], matrix.data[1] = places, cells
    values = values_of(matrix)
    np.testing.assert_array_equal(np.delete(values, 1, axis=0), np.delete(X, 1, axis=0))
    assert np.isnan(values[1, 0])


@pytest.mark.parametrize("kind", REFUSED)
def test_formats_that_one_entry_could_spoil_are_refused_by_type(kind):
    matrix = getattr(sparse, f"{kind}_array")(X)
    with pytest.raises(rb.TableError, match=f"this is {kind}"):
        values_of(matrix)


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("starts", [[1, 2, 2, 2, 2], [0, 2, 1, 2, 2], [0, 1, 2, 2, 99], [0, 2], [0, 0, 0, 0, -1]])
def test_a_damaged_container_is_refused(kind, starts):
    """Where rows begin is no record's own."""
    matrix = with_entries(kind, [0, 1], [0, 1], [1.0, 2.0])
    matrix.indptr = np.array(starts)
    with pytest.raises(rb.TableError, match="the sparse matrix is damaged"):
        values_of(matrix)


def test_other_damage_is_refused():
    coo = with_entries("coo", [0, 1], [0, 1], [1.0, 2.0])
    coo.data = np.ones(3)
    floats = with_entries("csr", [0, 1], [0, 1], [1.0, 2.0])
    floats.indices = np.array([0.0, 1.0])
    lil = sparse.lil_array(X)
    lil.rows = lil.rows[:2]
    for matrix in (coo, floats, lil):
        with pytest.raises(rb.TableError, match="the sparse matrix is damaged"):
            values_of(matrix)
    with pytest.raises(rb.TableError, match="two dimensions"):
        values_of(sparse.coo_array(np.ones(4)))


def test_entries_beyond_the_last_row_are_nobodys():
    matrix = with_entries("csr", [0, 1], [0, 1], [1.0, 2.0])
    matrix.indices, matrix.data = np.array([0, 1, 99]), np.array([1.0, 2.0, 3j])
    np.testing.assert_array_equal(values_of(matrix), [[1, 0, 0], [0, 2, 0], [0] * 3, [0] * 3])


def test_sparse_matrices_of_others_are_refused():
    class Matrix:
        def toarray(self):
            return X

    with pytest.raises(rb.TableError, match="this is a Matrix"):
        sparse_rows_as_float(Matrix())


def test_labels_and_persons_may_be_columns():
    dense = np.column_stack([X, [7.0, 7.0, 8.0, 8.0], [0, 1, 0, 1]])
    for kind in READ:
        table = getattr(sparse, f"{kind}_array")(dense)
        source = open_table(table, label="x4", person="x3", row_by_row=True)
        batch = next(iter(source.batches()))
        assert batch.labels.to_pylist() == [0, 1, 0, 1] and batch.persons.to_pylist() == [7, 7, 8, 8]


def test_the_largest_place_of_unsigned_indices():
    matrix = sparse.csr_array(X)
    matrix.indices = matrix.indices.astype(np.uint64)
    matrix.indices[2] = 2**64 - 1
    values = values_of(matrix)
    np.testing.assert_array_equal(np.delete(values, 1, axis=0), np.delete(X, 1, axis=0))
    assert np.isnan(values[1, 0])
