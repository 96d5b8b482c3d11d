"""Rows that are made of kept rows: the same integers wherever they are kept, and room for one set of them only."""

import pickle

import numpy as np
import pytest

import radoboost as rb
from radoboost.holder.curator import Curator
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.feature_maps import map_table
from radoboost.holder.mechanisms.moments.aggregations import (
    GRID,
    SphereEdges,
    SphereRows,
    SumProducts,
    Whiten,
    WhitenedRows,
)
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.row_cache import CachedRows, CachePolicy, DiskCache, MemoryCache, RecomputedRows
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.release.columns import Column
from radoboost.release.feature_map import FeatureMap, Input, Term
from radoboost.tables import open_table
from radoboost.tables.labels import LabelEncoder

KEEPINGS = (CachePolicy(), CachePolicy(memory_share=0.0), CachePolicy(0.0, 0.0))
INPUTS = tuple(Input(f"x{k}", low=-1.0, high=1.0) for k in range(3))
TERMS = tuple(Term("product", (f"x{j}", f"x{k}")) for j in range(3) for k in range(j, 3))
MAP = FeatureMap(INPUTS, tuple(Term("linear", (f"x{k}",)) for k in range(3)) + TERMS)
WIDTH = len(MAP.terms) + 1


@pytest.fixture
def table(rng):
    x, y = rng.uniform(-1.2, 1.2, (3000, 3)), rng.choice([0, 1, 7], 3000, p=[0.5, 0.45, 0.05])
    x[rng.random(3000) < 0.02, 1] = np.nan
    return x, y


@pytest.fixture
def a(rng):
    return np.rint(rng.uniform(-1, 1, (WIDTH, WIDTH)) * 2.0**30) * 2.0**-30


def sphere_rows(engine="kernel", names=MAP.output_names, intercept=True):
    columns, inputs = (
        tuple(Column(name, "bounds", 1.0, -1.0, 1.0) for name in some) for some in (names, MAP.input_names)
    )
    return SphereRows(get_engine(engine), LabelEncoder("y", (0, 1)), columns, intercept, inputs)


def opened(table):
    return map_table(open_table(*table, row_by_row=True), MAP)


def all_rows(source):
    return np.concatenate([batch.rows() for batch in source.batches(500)], axis=1).astype(np.int64)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keeping", KEEPINGS)
def test_a_chain_of_kept_rows_has_the_integers_of_rows_made_at_once(engine, keeping, table, a):
    """Products, and whitened rows and their sums: in memory, in a file, and made again in every pass."""
    source, sphere = opened(table), sphere_rows(engine)
    at_once = ThreadRunner(2).run(sphere, source)
    edges = RecomputedRows(source, WhitenedRows(sphere, a))
    for threads in (1, 2):
        run = Curator(source, sphere.engine, ThreadRunner(threads, keeping=keeping))
        kept = run.keep(SphereEdges(sphere), len(table[0]))
        first = run.sum(SumProducts(sphere.engine, WIDTH, "second moments"), source=kept)
        assert (first.products == at_once.products).all()
        whitened = run.keep(Whiten(sphere.engine, a), len(table[0]), source=kept)
        assert type(whitened) is type(kept) and (all_rows(whitened) == all_rows(edges)).all()
        sums = run.sum(SumProducts(sphere.engine, WIDTH), source=whitened)
        assert (sums.products == run.sum(SumProducts(sphere.engine, WIDTH), source=edges).products).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_on_the_sphere_have_their_signs(engine, table):
    _, y = table
    sphere = sphere_rows(engine)
    (batch,) = opened(table).batches(10_000)
    rows, good = sphere.on_sphere(batch)
    edges = SphereEdges(sphere).rows(batch)
    assert edges.dtype == np.int16 and (edges == rows * np.where(y == 1, 1, -1)).all()
    assert (~good).sum() > 0 and not edges[:, ~good].any()


@pytest.mark.parametrize("keeping", KEEPINGS[:2])
def test_whitened_rows_take_the_place_of_those_they_are_made_of(keeping, table, a):
    source, sphere, n = opened(table), sphere_rows(), len(table[0])
    runner = ThreadRunner(2, keeping=keeping)
    kept = runner.keep(source, SphereEdges(sphere), n)
    before, place = all_rows(kept), kept.place
    held = [batch.ticket for batch in kept.batches()]
    whitened = runner.keep(kept, Whiten(sphere.engine, a), n)
    assert whitened.place is place
    for batch, ticket in zip(whitened.batches(), held, strict=True):
        assert batch.ticket is ticket or batch.ticket == ticket  # the same memory, or the same place in the file
    # The source whose rows are gone has them made again, whatever is asked of it.
    assert kept.handed_over and (all_rows(kept) == before).all()
    again = runner.keep(kept, Whiten(sphere.engine, a), n)
    assert type(again) is CachedRows and again.place is not place and (all_rows(again) == all_rows(whitened)).all()


def test_for_a_single_pass_kept_rows_stay_where_they_are(table, a):
    source, sphere, n = opened(table), sphere_rows(), len(table[0])
    kept = ThreadRunner(1).keep(source, SphereEdges(sphere), n)
    edges = ThreadRunner(1).keep(kept, Whiten(sphere.engine, a), None)
    assert type(edges) is RecomputedRows and not kept.handed_over
    assert (all_rows(edges) == all_rows(RecomputedRows(source, WhitenedRows(sphere, a)))).all()


@pytest.mark.parametrize("keeping", KEEPINGS[:2])
def test_room_that_ends_half_way_is_no_reason_to_stop(keeping, table, a, monkeypatch):
    """Half of the rows are replaced by then: all are made again from the table."""
    source, sphere, n = opened(table), sphere_rows(), len(table[0])
    monkeypatch.setattr(SphereEdges, "rows_at_a_time", 500)
    kept = ThreadRunner(2, keeping=keeping).keep(source, SphereEdges(sphere), n)
    calls = []
    for kind in (MemoryCache, DiskCache):
        replace = kind.replace

        def full(self, ticket, rows, replace=replace):
            calls.append(ticket)
            if len(calls) > 3:
                raise MemoryError
            return replace(self, ticket, rows)

        monkeypatch.setattr(kind, "replace", full)
    edges = ThreadRunner(2, keeping=keeping).keep(kept, Whiten(sphere.engine, a), n)
    assert len(calls) > 3 and type(edges) is RecomputedRows
    assert (all_rows(edges) == all_rows(RecomputedRows(source, WhitenedRows(sphere, a)))).all()


@pytest.mark.parametrize("keeping", KEEPINGS)
def test_values_of_exactly_the_grid_are_kept_in_32_bits(keeping, monkeypatch):
    """One column and no constant: what 16 bits held becomes +2**15, and what took 32 becomes -2**15."""
    x, y = np.array([[1.0], [1.0], [-1.0]] * 50), np.array([1, 0, 1] * 50)
    monkeypatch.setattr(SphereEdges, "rows_at_a_time", 64)
    sphere = sphere_rows(names=("x0",), intercept=False)
    source, runner = open_table(x, y, row_by_row=True), ThreadRunner(1, keeping=keeping)
    kept = runner.keep(source, SphereEdges(sphere), len(x))
    expected = GRID * np.where(y == 1, x[:, 0], -x[:, 0])
    assert (all_rows(kept)[0] == expected).all()
    assert (all_rows(runner.keep(kept, Whiten(sphere.engine, -np.ones((1, 1))), len(x)))[0] == -expected).all()


def test_an_array_of_another_size_finds_room_in_a_file():
    place = DiskCache()
    tickets = [place.put(np.full((2, 3), k, np.int16)) for k in range(3)]
    place.seal()
    tickets[1] = place.replace(tickets[1], np.full((2, 3), 2**20, np.int32))
    tickets[2] = place.replace(tickets[2], np.full((2, 1), 9, np.int16))
    place.seal()
    found = [place.get(ticket).tolist() for ticket in tickets]
    assert found == [[[0] * 3] * 2, [[2**20] * 3] * 2, [[9]] * 2]


def test_passes_over_kept_rows_can_be_pickled(table, a):
    (batch,) = opened(table).batches(10_000)
    first = SphereEdges(sphere_rows())
    copies = [pickle.loads(pickle.dumps(task)) for task in (first, Whiten(first.sphere.engine, a))]
    rows = [copies[0].rows(batch)]
    assert (rows[0] == first.rows(batch)).all()
    kept = CachedRows(RecomputedRows(opened(table), first), MemoryCache(), [(batch.n_rows, rows[0])])
    (made,) = kept.batches()
    assert copies[1].rows(made).tobytes() == Whiten(first.sphere.engine, a).rows(made).tobytes()


@pytest.mark.parametrize("columns", ["degree-3", "degree-4"])
def test_a_release_beyond_linear_is_the_same_whatever_made_it(columns, rng):
    """For one noise key: both engines, one thread and two, rows kept in memory, in a file, and made again."""
    x, y = rng.uniform(-1.2, 1.2, (700, 8)), rng.choice([0, 1, 7], 700, p=[0.5, 0.45, 0.05])
    expected, widths = None, {"degree-3": 173, "degree-4": 433}  # from 64 on, matrix products are by BLAS
    for engine in ENGINES:
        for threads, keeping in ((1, KEEPINGS[0]), (2, KEEPINGS[1]), (2, KEEPINGS[2])):
            asked = CraftRequest.of([[-1, 1]] * 8, rb.Moments(4.0), n_rados=5, classes=(0, 1), columns=columns)
            runner = ThreadRunner(threads, keeping=keeping)
            run = Curator(open_table(x, y, row_by_row=True), get_engine(engine), runner, bytes(range(32)))
            made = rb.Moments(4.0).make(asked, run)
            assert made.map is not None and len(made.columns) == widths[columns]
            found = {name: block.tobytes() for name, block in made.blocks.items()}
            expected = expected or found
            assert found == expected
