"""Whether a worker may join: what it computes is the reference's, and a machine that computes otherwise is refused."""

import pkgutil
import socket
import time

import numpy as np
import pytest

import flat
import radoboost as rb
from pickling import Pickling
from radoboost.holder.aggregation import CountRows
from radoboost.holder.engines import ENGINES, get_engine, reference, self_test
from radoboost.holder.engines.reference import Reference
from radoboost.holder.runners import worker
from radoboost.release import exact_math, feature_map, feature_map_jit
from test_clusters import CASES, TABLE


@pytest.fixture(autouse=True)
def proofs_anew():
    """A process proves itself once; here, in every test, before and after."""
    caches = (
        self_test._self_test_digest_of_engine,
        self_test._sparse_self_test,
        self_test.self_test_digest,
    )
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize("name", ENGINES)
def test_digests_are_those_of_every_engine(name):
    """They are computed anew: a digest that is typed in cannot go stale."""
    assert self_test.dense_self_test_digest(get_engine(name)) == self_test.DIGEST
    assert self_test.sparse_self_test_digest(get_engine(name)) == self_test.SPARSE_DIGEST
    begun = time.process_time()
    self_test.dense_self_test_digest(get_engine(name)), self_test.sparse_self_test_digest(get_engine(name))
    assert time.process_time() - begun < 0.05


@pytest.mark.parametrize("compiled", [True, False])
def test_digests_of_the_rest_are_made_anew(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(feature_map, "_compiled_feature_map", lambda n_values: None)
    assert {name: self_test.self_test_digest(name) for name in self_test._MADE} == self_test.DIGESTS
    self_test.self_test_digest.cache_clear()
    begun = time.process_time()
    assert all(self_test.self_test_digest(name) for name in self_test._MADE)
    assert time.process_time() - begun < 0.05


# ---- planted faults


NEEDS_LONGER = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="fused operations are made of longer ones")


def fused(a, b, c):
    """a * b + c with one rounding, as a fused multiply-add has it."""
    return (np.asarray(a, np.longdouble) * b + c).astype(np.float64)


def fused_squares(columns):
    total = np.zeros(columns.shape[1])
    for column in columns:
        total = fused(column, column, total)
    return total


def fused_whiten(rows, a, signs, grid):
    images = np.zeros(rows.shape)
    for k, row in enumerate(rows):
        images = fused(a[k][:, None], row, images)
    squares = reference._squared_row_norms(images)
    factors = np.divide(grid, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0.0)
    edges, fits = reference._truncate_numpy_rows(images, factors, float(grid))
    return np.where(fits, edges * signs, 0.0).astype(np.int32)


def fused_tilt(rows, theta, grid, cap):
    scores = np.zeros(rows.shape[1])
    for row, coefficient in zip(rows, theta, strict=True):
        scores = fused(row.astype(np.float64), coefficient, scores)
    weights = np.minimum(1.0 / (1.0 + reference.reference_exp(scores * (1.0 / grid))), cap)
    kept, fits = reference._truncate_numpy_rows(
        rows.astype(np.float32), weights.astype(np.float32), float(int(cap * grid))
    )
    return np.where(fits, kept, 0.0).astype(np.int64).sum(axis=1)


class Fused(Reference):
    """Its whitening has fused operations, and that of the next its scores."""

    whiten = staticmethod(fused_whiten)


class FusedScores(Reference):
    tilt = staticmethod(fused_tilt)


class OffByOne(Reference):
    def snap(self, values, signs, columns):
        rows, clipped = super().snap(values, signs, columns)
        rows[len(rows) // 2, 0] += 1
        return rows, clipped


class OfAnotherRow(Reference):
    def sum_rows(self, rows, first_row, prepared, totals):
        super().sum_rows(rows, first_row + 1, prepared, totals)


@NEEDS_LONGER
@pytest.mark.parametrize("kind", [Fused, FusedScores, OffByOne, OfAnotherRow])
def test_an_engine_with_a_fault_does_not_prove_itself(kind):
    assert not self_test.engine_passes_self_test(kind())
    state = worker.worker_sum_part(Counting(kind()), Rows(), 4, 0, 10)
    assert state.refusal.part == 4 and state.sums is None
    assert socket.gethostname() in str(state.refusal.error) and "may not join" in str(state.refusal.error)


@NEEDS_LONGER
def test_fused_squares_are_found(monkeypatch):
    monkeypatch.setattr(reference, "_squared_row_norms", fused_squares)
    assert self_test.dense_self_test_digest(Reference()) != self_test.DIGEST


def test_another_exponential_is_found(monkeypatch):
    """It is another one by a unit in the last place, for one number in five."""
    ours = reference.reference_exp

    def nearly(x):
        return np.where(x.view(np.int64) % 5 == 0, np.nextafter(ours(x), 9.0), ours(x))

    monkeypatch.setattr(reference, "reference_exp", nearly)
    assert self_test.dense_self_test_digest(Reference()) != self_test.DIGEST


class Counting(CountRows):
    """A pass that has an engine."""

    def __init__(self, engine):
        super().__init__()
        object.__setattr__(self, "engine", engine)


class Rows:
    def batches(self, rows):
        return iter(())


def fault_of(name, **options):
    with pytest.raises(rb.TableError) as refusal:
        flat.craft(TABLE, **{**CASES[name], **options}, cluster=Pickling())
    return str(refusal.value)


def test_a_machine_with_another_logarithm_sums_no_mapped_rows(monkeypatch):
    options = {"columns": {"a": "signed-log"}, "seed": 1}
    expected = flat.craft(TABLE, **{**CASES["plain"], **options})
    monkeypatch.setattr(feature_map, "_compiled_feature_map", lambda n_values: None)
    monkeypatch.setattr(feature_map, "exact_log1p", lambda x: np.nextafter(exact_math.exact_log1p(x), 2.0))
    assert "(feature maps)" in fault_of("plain", **options)
    flat.craft(TABLE, **CASES["plain"], cluster=Pickling())  # which needs none
    assert expected.columns[0].name == "log(a)"


def test_compiled_feature_maps_are_proved_too(monkeypatch):
    fill = feature_map_jit.fill

    def off(*args):
        fill(*args)
        args[-1][0] = np.nextafter(args[-1][0], 9.0)

    monkeypatch.setattr(feature_map_jit, "fill", off)
    assert self_test.self_test_digest("feature maps") != self_test.DIGESTS["feature maps"]


PLANTED = {
    "contributions": ("noisy-rados", "radoboost.holder.engines.self_test:clip_record_rows", 1),
    "bins": ("moments, private bounds", "radoboost.holder.mechanisms.moments.private_bounds:EqualBins.numbers", 1),
    "scores": ("moments, linear", "radoboost.holder.mechanisms.moments.score_histogram:ScoreCounts.scores", 1e-15),
    "choice of rows": (
        "noisy-rados, persons",
        "radoboost.holder.contribution_bounding:_mix_person_hash_bits",
        np.uint64(1),
    ),
    "noise": ("noisy-examples", "radoboost.holder.engines.self_test:rounded_normals", 1),
}


@pytest.mark.parametrize("name", PLANTED)
def test_whatever_a_worker_computes_is_proved(name, monkeypatch):
    case, place, amount = PLANTED[name]
    original = pkgutil.resolve_name(place)

    def changed(*args):
        result = original(*args)
        return (result[0] + amount, result[1]) if isinstance(result, tuple) else result + amount

    monkeypatch.setattr(place.replace(":", "."), changed)
    assert f"({name})" in fault_of(case)


def test_rows_that_are_kept_are_proved_too():
    """The pass that whitens has its engine within another one."""
    assert self_test.self_test_fault(type("Whitening", (), {"sphere": Counting(Fused())})(), None) == self_test.ENGINE
    state = worker.worker_keep_part(Counting(Fused()), Rows(), 10)
    with pytest.raises(rb.TableError, match="may not join"):
        next(state.batches(10))


def test_a_sound_machine_has_no_fault():
    for task in (CountRows(), Counting(get_engine("kernel")), Counting(Reference())):
        assert self_test.self_test_fault(task, None) == ""
