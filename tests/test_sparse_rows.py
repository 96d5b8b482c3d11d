"""Sparse matrices on plain paths: entries alone are read, and the bits are those of the dense table."""

import subprocess
import sys
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import flat
import radoboost as rb
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.grid import grid_snapping_constants
from radoboost.holder.signatures import AllSignatures
from radoboost.holder.subset_sampling import AllRows
from radoboost.release.columns import Column, constant_column
from radoboost.tables import open_table, opening
from radoboost.tables.sparse import SparseRows, sparse_rows_in_order

CELLS = {
    "f8": st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1.0, 2.0**-40, 1e30]),
    "f4": st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 1.0]),
    "i4": st.integers(-5, 5) | st.integers(-(2**31), 2**31 - 1),
    "i8": st.integers(-(2**40), 2**40),
    "u1": st.integers(0, 60),
    "?": st.booleans(),
}


@st.composite
def matrices(draw, most_rows=150):
    """A csr or csc matrix with explicit zeros, places that occur several times and in any order, and labels."""
    m, d = draw(st.integers(8, most_rows)), draw(st.integers(1, 6))
    kind = draw(st.sampled_from(list(CELLS)))
    n = draw(st.integers(0, m * d // 3))
    rows = np.array(draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)), dtype=int)
    places = np.array(draw(st.lists(st.integers(0, d - 1), min_size=n, max_size=n)), dtype=int)
    cells = np.array(draw(st.lists(CELLS[kind], min_size=n, max_size=n)), dtype=kind)
    by = draw(st.sampled_from(["csr", "csc"]))
    order = np.argsort(rows if by == "csr" else places, kind="stable")
    counts = np.bincount(rows if by == "csr" else places, minlength=m if by == "csr" else d)
    inner = (places if by == "csr" else rows)[order]
    make = draw(st.sampled_from([f"{by}_array", f"{by}_matrix"]))
    matrix = getattr(sparse, make)((cells[order], inner, np.append(0, np.cumsum(counts))), shape=(m, d))
    y = np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=m, max_size=m)))
    y[:2] = -1, 1
    return matrix, y


def crafted(table, y, **options):
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always", rb.ClippedWarning)
        warnings.simplefilter("ignore", rb.OutlierWarning)  # of dense tables alone
        release = flat.craft(table, y, **options)
    return release, [str(notice.message) for notice in notices]


@settings(max_examples=60)
@given(
    matrices(),
    st.sampled_from([None, "standard", "bounds"]),
    st.sampled_from([None, (-3.0, 2.0), (1.0, 3.0), (-5.0, -0.5)]),
    st.booleans(),
    st.sampled_from([1, 5, 65]),
    st.sampled_from([None, rb.FixedSupport(3), rb.FixedSupport(0.6)]),
    st.sampled_from(ENGINES),
    st.sampled_from([1, 2]),
    st.sampled_from([7, 1 << 20]),
)
def test_sparse_and_dense_give_the_same_bits(table, scale, bounds, intercept, n, subsets, engine, threads, entries):
    matrix, y = table
    before = [array.copy() for array in (matrix.data, matrix.indices, matrix.indptr)]
    if scale == "bounds" and bounds is None:
        bounds = (-2.0, 2.0)
    limits = None if bounds is None else [bounds] * matrix.shape[1]
    options = {"n_rados": n, "seed": 3, "scale": scale, "bounds": limits, "intercept": intercept, "signatures": subsets}
    try:
        expected, notices = crafted(matrix.toarray(), y, **options)
    except rb.RadoError as error:
        with pytest.raises(type(error)):
            crafted(matrix, y, engine=engine, threads=threads, **options)
        return
    with mock.patch.object(opening, "SPARSE_SHARE", 0), mock.patch.object(opening, "SPARSE_ENTRIES", entries):
        assert open_table(matrix, y).sparse_rows is not None
        release, others = crafted(matrix, y, engine=engine, threads=threads, **options)
    assert release.rados.tobytes() == expected.rados.tobytes()
    assert release.columns == expected.columns
    assert others == notices
    for array, old in zip((matrix.data, matrix.indices, matrix.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old)


@settings(max_examples=25)
@given(matrices(), st.sampled_from([None, "standard"]), st.sampled_from([None, (1.0, 3.0)]), st.sampled_from(ENGINES))
def test_many_classes_give_the_same_bits(table, scale, bounds, engine):
    matrix, _ = table
    y = np.arange(matrix.shape[0]) % 3
    options = {
        "n_rados": 20,
        "seed": 3,
        "scale": scale,
        "bounds": None if bounds is None else [bounds] * matrix.shape[1],
    }
    try:
        expected, notices = crafted(matrix.toarray(), y, **options)
    except rb.RadoError as error:
        with pytest.raises(type(error)):
            crafted(matrix, y, engine=engine, **options)
        return
    with (
        mock.patch.object(opening, "SPARSE_SHARE", 0),
        mock.patch.object(opening, "SPARSE_ENTRIES", 40),
        mock.patch.object(sparse.csr_array, "toarray", side_effect=AssertionError("made dense")),
    ):
        release, others = crafted(matrix, y, engine=engine, **options)
    assert list(release.blocks) == list(expected.blocks) and others == notices
    for name, block in expected.blocks.items():
        assert release.blocks[name].tobytes() == block.tobytes()


def some_matrix(m=500, d=40, seed=0, density=0.05):
    rng = np.random.default_rng(seed)
    matrix = sparse.random_array((m, d), density=density, rng=rng, format="csr")
    matrix.data = np.round(matrix.data * 9 - 4, 2)
    return matrix, rng.integers(0, 2, m)


def test_no_dense_array_is_made():
    matrix, y = some_matrix()
    expected = rb.craft(matrix.toarray(), y, n_rados=20, seed=1).rados
    with mock.patch.object(sparse.csr_array, "toarray", side_effect=AssertionError("made dense")):
        for table in (matrix, matrix.tocsc(), matrix.tocoo()):
            assert rb.craft(table, y, n_rados=20, seed=1).rados.tobytes() == expected.tobytes()
        shell = rb.RadoBoostClassifier(n_rados=20, random_state=1, n_rounds=5).fit(matrix, y)
    assert shell.release_.rados.tobytes() == expected.tobytes()


def test_a_column_may_be_the_label_and_others_chosen():
    matrix, y = some_matrix()
    table = sparse.hstack([matrix, sparse.csr_array(y[:, None])]).tocsr()
    names = ["x9", "x3", "x17", "x0"]
    chosen = rb.craft(table, label="x40", n_rados=9, seed=1, schema=rb.Schema(use=tuple(names)))
    dense = rb.craft(table.toarray(), label="x40", n_rados=9, seed=1, schema=rb.Schema(use=tuple(names)))
    assert chosen.rados.tobytes() == dense.rados.tobytes()


def test_a_band_over_a_sparse_column():
    matrix, y = some_matrix(d=30)
    matrix = matrix.tolil()
    matrix[:, [4]] = (np.arange(500) % 3 == 0)[:, None].astype(float)
    matrix = matrix.tocsr()
    options = {"mechanism": rb.FeatureBand("x4", epsilon=1.0, delta=0.01), "n_rados": 20, "seed": 2}
    sparse_release = flat.craft(matrix, y, **options)
    assert open_table(matrix, y).sparse_rows is not None
    assert sparse_release.rados.tobytes() == flat.craft(matrix.toarray(), y, **options).rados.tobytes()


def test_a_feature_map_takes_sparse_rows():
    matrix, y = some_matrix(d=30)
    releases = [
        rb.craft(table, y, n_rados=9, seed=1, columns={"x1": ["x1^2"], "x2": ["signed-log"], "x3": ["linear"]})
        for table in (matrix, matrix.toarray())
    ]
    assert releases[0].rados.tobytes() == releases[1].rados.tobytes()


def test_an_engine_without_sparse_rows_gets_dense_ones():
    class Older:
        """What an engine had to have before there were sparse rows."""

        def __getattr__(self, name):
            if name in ("sum_sparse", "sparse_survey"):
                raise AttributeError(name)
            return getattr(get_engine("reference"), name)

    matrix, y = some_matrix()
    release = rb.craft(matrix, y, n_rados=9, seed=1, compute=rb.Compute(engine=Older()))
    assert release.rados.tobytes() == rb.craft(matrix, y, n_rados=9, seed=1).rados.tobytes()


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, r"'x7' has a missing value \(NaN\) \(row 12\)"), (np.inf, r"'x7' has an infinite value \(row 12\)")],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_values_that_are_not_finite_are_named(value, words, engine):
    matrix, y = some_matrix()
    matrix = matrix.tolil()
    matrix[11, 7] = value
    with pytest.raises(rb.TableError, match=words):
        rb.craft(matrix.tocsr(), y, n_rados=9, compute=rb.Compute(engine=engine))


def test_integers_that_float64_cannot_hold_are_named():
    matrix, y = some_matrix()
    matrix = (matrix * 100).astype(np.int64).tolil()
    matrix[11, 7] = 2**53 + 1
    with pytest.raises(rb.TableError, match=r"column 'x7' has an integer beyond 2\*\*53 \(row 12\)"):
        rb.craft(matrix.tocsr(), y, n_rados=9)


def test_a_damaged_matrix_is_refused():
    """SciPy would write to wherever an entry points, and so would compiled code."""
    matrix, y = some_matrix()
    matrix.indices[3] = 10**6
    with pytest.raises(rb.TableError, match="the sparse matrix is damaged"):
        rb.craft(matrix, y, n_rados=9)


def test_names_of_a_sparse_data_frame_are_kept():
    matrix, y = some_matrix(d=4)
    frame = pd.DataFrame.sparse.from_spmatrix(matrix, columns=["age", "dose", "height", "days"])
    options = {"n_rados": 20, "random_state": 1, "schema": {"dose": (-1.0, 1.0)}}
    with pytest.warns(rb.ClippedWarning, match="'dose'"):
        shell = rb.MomentsClassifier(**options).fit(frame, y)
    with pytest.warns(rb.ClippedWarning, match="'dose'"):
        dense = rb.MomentsClassifier(**options).fit(pd.DataFrame(matrix.toarray(), columns=frame.columns), y)
    assert shell.feature_names_in_.tolist() == [column.name for column in shell.release_.columns][:4]
    assert shell.release_.rados.tobytes() == dense.release_.rados.tobytes()


# ---- engines


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 90), st.integers(0, 200), st.sampled_from([1, 63, 64, 130]))
def test_engines_sum_the_same_integers(seed, m, first_row, n):
    """Also with signs of 0, which K classes need, and from any row on."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((m, 5)) < 0.4, rng.normal(size=(m, 5)), 0.0)
    columns = [Column(f"x{k}", "standard", 2.0**-19, mean=0.3 * k, std=1.5) for k in range(4)]
    columns = (*columns, Column("x4", "bounds", 2.0**-22, low=0.25, high=1.0), constant_column(2.0**-22))
    signs = rng.integers(-1, 2, m).astype(np.int8)
    prepared = AllSignatures().prepare(b"k" * 32, n, 1000)
    results = []
    for name in ENGINES:
        engine = get_engine(name)
        differences, label_sums = np.zeros((6, n), np.int64), np.zeros(n, np.int64)
        clipped = engine.sum_sparse(
            SparseRows.of(dense), signs, grid_snapping_constants(columns), first_row, prepared, differences, label_sums
        )
        results.append((differences, label_sums, clipped[:5]))
        survey = engine.sparse_survey(np.full(5, -1.0), np.full(5, 0.5), moments=True)
        other = get_engine("reference").survey(np.full(5, -1.0), np.full(5, 0.5), moments=True)
        for part in (dense[: m // 2], dense[m // 2 :]):
            assert survey.add(SparseRows.of(part)) and other.add(part)
        for field in ("sums", "squares", "n_rows"):
            assert getattr(survey.result(), field) == getattr(other.result(), field)
        for field in ("lowest", "highest"):
            np.testing.assert_array_equal(getattr(survey.result(), field), getattr(other.result(), field))
    for one, another in zip(*results, strict=True):
        np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize("name", ENGINES)
def test_long_columns_do_not_overflow(name):
    """Differences of 2**23, from one end of the grid to the other, in as many rows as a batch has."""
    m, n = (70_000 if name == "kernel" else 700), 2
    column = Column("x0", "bounds", 2.0**-22, low=0.0, high=1.0)
    rows = SparseRows.of(np.ones((m, 1)))
    differences, label_sums = np.zeros((1, n), np.int64), np.zeros(n, np.int64)
    get_engine(name).sum_sparse(
        rows, np.ones(m, np.int8), grid_snapping_constants([column]), 0, AllRows(), differences, label_sums
    )
    assert differences.tolist() == [[m * 2**23] * n] and label_sums.tolist() == [m] * n


@pytest.mark.parametrize("name", ENGINES)
def test_exact_statistics_of_extreme_values(name):
    values = np.array([1e-320, -1e300, 1e300, 5e-324, 1.0, -1.0, 3.5, 0.0] * 20)
    dense = np.zeros((len(values), 2))
    dense[:, 1] = values
    survey = get_engine(name).sparse_survey(np.full(2, -np.inf), np.full(2, np.inf), moments=True)
    other = get_engine("reference").survey(np.full(2, -np.inf), np.full(2, np.inf), moments=True)
    assert survey.add(SparseRows.of(dense)) and other.add(dense)
    assert survey.result().sums == other.result().sums and survey.result().squares == other.result().squares


def test_rows_are_taken_as_of_a_dense_array():
    matrix, _ = some_matrix(m=30, d=7)
    rows, dense = SparseRows.of(matrix.toarray()), matrix.toarray()
    for places in ([], [3, 3, 0, 29, 3], range(30)):
        places = np.array(list(places), dtype=np.int64)
        taken = rows.taken(places)
        np.testing.assert_array_equal(
            sparse.csr_array((taken.values, taken.places, taken.starts), shape=(len(places), 7)).toarray(),
            dense[places],
        )
    np.testing.assert_array_equal(np.column_stack([rows.column(k) for k in range(7)]), dense)


def test_duplicates_add_up_in_their_order():
    parts = np.array([1e16, *[1.0] * 40, -1e16])
    matrix = sparse.csr_array((parts, np.ones(42, int), np.array([0, 42, 42])), shape=(2, 3))
    assert sparse_rows_in_order(matrix).toarray().tobytes() == matrix.toarray().tobytes()


# ---- memory


WIDE = """
import resource, sys
import numpy as np, radoboost as rb
from scipy import sparse
rng = np.random.default_rng(0)
m, d = 1000, 20_000
matrix = sparse.csr_array((np.ones(60 * m), (np.repeat(np.arange(m), 60), rng.integers(0, d, 60 * m))), shape=(m, d))
y = rng.integers(0, 2, m)
options = eval(sys.argv[1])
rb.craft(matrix[:200], y[:200], n_rados=5, compute=rb.Compute(threads=1), **options)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rb.craft(matrix, y, n_rados=5, compute=rb.Compute(threads=1), **options)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(
    "options",
    ["{}", "dict(mechanism=rb.NoisyRados(1.0), schema=np.array([[0.0, 2.0]] * d), classes=(0, 1), counts=None)"],
    ids=["plain", "noisy-rados"],
)
def test_memory_stays_far_below_the_dense_matrix(options):
    """It does not grow with rows: a private mechanism makes a few of them dense at a time.

    What is measured is by how much the peak of 200 rows grows with 800 more, which would take 122 MiB if dense.
    """
    run = subprocess.run([sys.executable, "-c", WIDE, options], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 60
