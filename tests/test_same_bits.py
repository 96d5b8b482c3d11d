"""For one seed the rado matrix is the same to the byte, whatever computed it, and it is what the text says."""

import csv
import gzip
import threading
import time
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

import flat
import oracles
import radoboost as rb
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.grid import make_grid_columns
from radoboost.holder.keystream import SLAB_TILES, TILE_ROWS
from radoboost.holder.runners.threads import run_worker_threads
from radoboost.holder.signatures import AllSignatures
from radoboost.holder.subset_sampling import AllRows
from radoboost.tables import Table, csv_files
from radoboost.tables import table as table_module

SCALES = (None, "standard", "bounds")


TINY = np.array([[0.0], [0.0], [0.0], [0.0], [0.0], [3e-274]]), np.array([-1, 1, -1, -1, -1, -1])


@st.composite
def columns(draw, m):
    """A column that a person might have, or wish they had not."""
    kind = draw(st.sampled_from(["any", "integers", "constant", "zero", "skewed", "spread", "power"]))
    if kind == "zero":
        return [0.0] * m
    if kind == "constant":
        return [draw(st.floats(-1e3, 1e3))] * m
    if kind == "power":  # a largest magnitude at, just above or just below a power of two
        power = 2.0 ** draw(st.integers(-30, 30))
        top = draw(st.sampled_from([power, np.nextafter(power, np.inf), np.nextafter(power, 0.0)]))
        return [float(top)] + [draw(st.floats(-float(top), float(top))) for _ in range(m - 1)]
    element = {
        "any": st.floats(-1e6, 1e6),
        "integers": st.integers(-5, 5).map(float),
        "skewed": st.floats(-20, 20).map(np.exp).map(float),
        "spread": st.tuples(st.floats(-1, 1), st.integers(-300, 250)).map(lambda p: float(np.ldexp(*p))),
    }[kind]
    return draw(st.lists(element, min_size=m, max_size=m))


@st.composite
def examples(draw, max_rows=150):
    m = draw(st.integers(6, max_rows))
    d = draw(st.integers(1, 5))
    x = np.array([draw(columns(m)) for _ in range(d)]).T
    if draw(st.booleans()) and (np.abs(x) < 1e30).all():
        x = x.astype(np.float32)
    y = np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=m, max_size=m)))
    y[:2] = -1, 1
    return np.ascontiguousarray(x), y


def some_bounds(x):
    """Bounds that some values lie beyond."""
    low, high = np.quantile(x.astype(float), [0.1, 0.8], axis=0)
    return np.column_stack([low, np.where(high > low, high, low + 1)])


def oracle_rados(x, y, n, seed, scale, bounds, intercept):
    _, _, rados = oracles.craft(
        x.astype(float).tolist(),
        y.tolist(),
        n,
        oracles.key_from_seed(seed),
        scale,
        bounds=None if bounds is None else [tuple(pair) for pair in bounds.tolist()],
        intercept=intercept,
    )
    return np.array(rados)


@pytest.mark.filterwarnings("ignore::radoboost.OutlierWarning")  # of examples that are almost constant
@settings(max_examples=40)
@given(
    examples(), st.sampled_from(SCALES), st.booleans(), st.booleans(), st.sampled_from([1, 3, 8, 13]), st.integers(0, 9)
)
@example(TINY, None, False, False, 1, 0)
def test_every_engine_and_thread_gives_what_the_text_says(table, scale, bounded, intercept, n, seed):
    x, y = table
    bounds = some_bounds(x) if bounded or scale == "bounds" else None
    options = {"n_rados": n, "seed": seed, "scale": scale, "bounds": bounds, "intercept": intercept}
    runs = [(engine, threads) for engine in ENGINES for threads in (1, 2)]
    try:
        expected = oracle_rados(x, y, n, seed, scale, bounds, intercept).tobytes()
    except ValueError:  # a column too small for the grid
        for engine, threads in runs:
            with pytest.raises(rb.TableError, match="rescale it"):
                flat.craft(x, y, engine=engine, threads=threads, **options)
        return
    for engine, threads in runs:
        with pytest.warns(rb.ClippedWarning) if _clips(x, bounds) else _nothing():
            release = flat.craft(x, y, engine=engine, threads=threads, **options)
        assert release.rados.tobytes() == expected, (engine, threads)


def _clips(x, bounds):
    return bounds is not None and bool(((x < bounds[:, 0]) | (x > bounds[:, 1])).any())


def _nothing():
    return mock.MagicMock()


@pytest.mark.filterwarnings("ignore::radoboost.OutlierWarning")
@settings(max_examples=8)
@given(
    examples(max_rows=80),
    st.sampled_from(SCALES),
    st.sampled_from([1, 7, 64, 100, 1000]),
    st.sampled_from([1, 3, 50, 10_000]),
    st.sampled_from([9, 300]),
    st.sampled_from([1, 500, 1 << 23]),
    st.data(),
)
def test_every_form_of_a_table_gives_the_same_bits(
    tmp_path_factory, table, scale, batch_rows, group, n, part_values, data
):
    x, y = table
    n = min(n, 2 ** len(x))
    names = [f"x{k}" for k in range(x.shape[1])]
    limits = dict(zip(names, zip(x.min(axis=0), x.max(axis=0) + 1, strict=True), strict=True))
    options = {"n_rados": n, "seed": 5, "scale": scale, "bounds": limits if scale == "bounds" else None}
    folder = tmp_path_factory.mktemp("forms")
    frame = pd.DataFrame(x, columns=names)
    labelled = frame.assign(y=y)
    arrow = pa.table({**{name: x[:, k] for k, name in enumerate(names)}, "y": y})
    pq.write_table(arrow, folder / "t.parquet", row_group_size=group)
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=group)
    with pa.OSFile(str(folder / "stream.arrow"), "wb") as sink, pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=group)
    write_csv(folder / "t.csv", open, names, x, y)
    write_csv(folder / "t.csv.gz", gzip.open, names, x, y)
    cut = data.draw(st.integers(1, len(x) - 1))
    write_csv(folder / "part-1.csv", open, names, x[:cut], y[:cut])
    write_csv(folder / "part-2.csv", open, names, x[cut:], y[cut:])
    pq.write_table(arrow.slice(cut), folder / "part-2.parquet")

    forms = [
        (x, y),
        (np.asfortranarray(x), y.tolist()),
        (x[::-1][::-1], y == 1),
        (x.tolist(), np.where(y == 1, "yes", "no")),
        (scipy.sparse.csr_array(x.astype(float)), y.astype(float)),
        (frame, pd.Series(y)),
        (frame.set_index(pd.Index(np.arange(len(x)) * 7)), pl.Series(y)),
        (labelled, "y"),
        (labelled.set_index(pd.Index(np.arange(len(x)) * 7)), "y"),
        (pl.from_pandas(labelled), "y"),
        (arrow, "y"),
        (pa.Table.from_batches(arrow.to_batches(max_chunksize=group)), "y"),
        (folder / "t.parquet", "y"),
        (folder / "t.arrow", "y"),
        (folder / "stream.arrow", "y"),
        (str(folder / "t.csv"), "y"),
        (folder / "t.csv.gz", "y"),
        ([folder / "part-1.csv", folder / "part-2.csv"], "y"),
        ([folder / "part-1.csv", folder / "part-2.parquet"], "y"),
        (str(folder / "part-*.csv"), "y"),
    ]
    try:
        expected = flat.craft(x, y, **options, engine="reference", threads=1)
    except rb.TableError:
        reject()  # a column too small for the grid
    with (
        mock.patch.object(csv_files, "CSV_BLOCK_BYTES", max(400, 40 * batch_rows)),
        mock.patch.object(Table, "batch_rows", batch_rows),
        mock.patch.object(table_module, "PART_VALUES", part_values),
    ):
        for form, labels in forms:
            given_labels = {"label": labels} if isinstance(labels, str) else {"y": labels}
            release = flat.craft(form, **given_labels, **options, threads=2)
            assert release.rados.tobytes() == expected.rados.tobytes(), type(form)
            assert release.feature_names == expected.feature_names


def write_csv(path, opener, names, x, y):
    with opener(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "y"])
        writer.writerows(
            [*(repr(v) for v in row), label] for row, label in zip(x.astype(float).tolist(), y.tolist(), strict=True)
        )


@pytest.mark.parametrize(
    ("d", "n"), [(1, 300), (7, 5), (8, 2100), (9, 300), (16, 5), (31, 300), (32, 2100), (33, 5), (63, 300), (70, 2100)]
)
def test_any_number_of_features_and_rados(d, n, rng):
    """Panels of 8, 16 and 32 features, tables over 4 and 6 rows, several blocks of rados."""
    x, y = rng.standard_normal((131, d)), rng.choice([0, 1], 131)
    kernel, reference = (
        rb.craft(x, y, n_rados=n, seed=3, compute=rb.Compute(engine=e)).rados.tobytes() for e in ("kernel", "reference")
    )
    assert kernel == reference


def test_rows_beyond_a_slab_use_the_next_nonce(rng):
    """m > 4,194,304: all rows but a few are zero, so the oracle sums the few alone."""
    m, n = SLAB_TILES * TILE_ROWS + 200, 11
    chosen = np.unique(np.concatenate([rng.integers(0, m, 300), np.arange(m - 330, m)]))
    x = np.zeros((m, 2), dtype=np.float32)
    x[chosen] = rng.standard_normal((len(chosen), 2))
    x[:, 1] *= 3
    y = rng.choice(np.array([0, 1], dtype=np.int8), m)
    release = rb.craft(
        x, y, n_rados=n, seed=2, mechanism=rb.Plain(scale=None, intercept=False), compute=rb.Compute(threads=2)
    )
    edges, steps = oracles.edge_integers(x[chosen].astype(float).tolist(), y[chosen].tolist(), None, None, False)
    key = oracles.key_from_seed(2)
    sums = np.zeros((n, 2), dtype=object)
    for row, edge in zip(chosen.tolist(), edges, strict=True):
        for j in range(n):
            if oracles.bit(key, n, row, j):
                sums[j] += edge
    assert release.n_examples == m
    assert release.rados.tolist() == (sums * steps).tolist()


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=15)
@given(
    first=st.integers(SLAB_TILES * TILE_ROWS - 200, SLAB_TILES * TILE_ROWS + 10) | st.integers(0, 10**9),
    n=st.integers(1, 20),
)
@example(first=SLAB_TILES * TILE_ROWS - 1, n=3)
def test_a_block_may_start_at_any_row(engine, first, n):
    """A partition of a cluster sums its own rows under their global numbers."""
    rng = np.random.default_rng(first)
    x, labels = rng.standard_normal((70, 2)), rng.choice(np.array([-1, 1], np.int8), 70)
    expected, _, _ = oracles.craft(
        x.tolist(),
        labels.tolist(),
        n,
        oracles.key_from_seed(8),
        "standard",
        intercept=True,
        first_row=first,
    )
    machine = get_engine(engine)
    survey = machine.survey(np.full(2, -np.inf), np.full(2, np.inf), moments=True)
    assert survey.add(x)
    described = make_grid_columns(["a", "b"], "standard", {}, survey.result(), intercept=True)
    key = oracles.key_from_seed(8)
    prepared = AllSignatures().prepare(key, n, first + 70)
    totals, elsewhere = machine.totals(n, 3), np.zeros((n, 3), np.int64)
    for start, stop in ((0, 1), (1, 33), (33, 70)):
        rows, clipped = machine.snap(x[start:stop], labels[start:stop], described)
        machine.sum_rows(rows, first + start, prepared, totals)
        machine.sum_rows(np.array(rows[:, :3]), first + start, prepared, elsewhere)  # of anybody's making
        assert not clipped.any()
    assert totals.tolist() == elsewhere.tolist() == expected


def test_without_a_seed_no_two_releases_are_alike(rng):
    x, y = rng.standard_normal((50, 2)), rng.choice([0, 1], 50)
    first, second = rb.craft(x, y), rb.craft(x, y)
    assert first.rados.tobytes() != second.rados.tobytes()


def test_zero_is_positive_zero():
    release = rb.craft(
        [[-0.0, 1.0], [0.0, -1.0], [0.0, 1.0]], [0, 1, 0], n_rados=8, seed=0, mechanism=rb.Plain(scale=None)
    )
    assert not np.signbit(release.rados[release.rados == 0]).any()


def test_released_values_lie_on_the_grid(rng):
    release = rb.craft(rng.lognormal(size=(500, 3)), rng.choice([0, 1], 500), n_rados=50)
    steps = np.array([column.step for column in release.columns])
    assert (release.rados / steps % 1 == 0).all()
    assert all(np.frexp(step)[0] == 0.5 for step in steps)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_largest_integers_do_not_overflow(engine):
    """Every example at its bound with the same sign: a rado of all of them is m * 2**22 steps."""
    m = 2000
    release = rb.craft(
        np.ones((m, 3)),
        [1] * (m - 1) + [0],
        n_rados=40,
        seed=0,
        mechanism=rb.Plain(scale=None),
        compute=rb.Compute(engine=engine),
    )
    words = AllSignatures().prepare(oracles.key_from_seed(0), 40, m).words(0, 32, np.empty((32, 40), np.uint64))
    bits = (words[:, None, :] >> np.arange(64, dtype=np.uint64)[None, :, None] & np.uint64(1)).reshape(-1, 40)[:m]
    sums = bits[:-1].sum(axis=0).astype(float) - bits[-1]
    assert (release.rados == sums[:, None]).all()


def test_the_kernel_survives_rados_of_all_examples():
    """All words all ones: the int32 sums are as large as they can be before they are moved to int64."""
    kernel = get_engine("kernel")
    totals = kernel.totals(300, 40)
    kernel.sum_rows(np.full((5000, 40), 2**22, np.int32), 0, AllRows(), totals)
    assert (totals == 5000 * 2**22).all()


@pytest.mark.parametrize("failing", [ValueError("the first"), KeyboardInterrupt("now")])
def test_of_several_jobs_that_fail_the_first_says_so(failing):
    """Though the thread of a later one is quicker; but an interrupt comes before all else."""
    later, both = threading.Event(), threading.Barrier(2)

    def add(worker, job):
        both.wait(60)
        if job == 0:
            assert later.wait(60)
            time.sleep(0.05)
            raise ValueError("the first")
        later.set()
        raise ValueError("the second") if isinstance(failing, ValueError) else failing

    with pytest.raises(type(failing), match=str(failing)):
        run_worker_threads(iter(range(9)), [None, None], add)
