"""Whether an engine computes, on the machine that it is on, the integers that it should.

A small block of rows goes through everything that an engine does to rows, and the digest of all that comes out must be
the one below, which is that of the reference. A worker of a cluster does this once, before it gets any rows (K4 of
docs/proofs/clusters.md), and so does an engine on a device, once for each device, before it is used at all.

Most rows do not care about the last bit of a float. So some of the block are made to: components of equal size, whose
share of the norm is 1/2 but for rounding, are truncated just below or at a whole number; large numbers cancel; and
class weights come in units so small that every bit of an exponential counts. A multiplication that is fused with an
addition, or another exponential, changes the digest (tests plant both).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.contribution_bounding import CollectRows
from radoboost.holder.engines import Engine, device_engine, sparse_engine
from radoboost.holder.gaussian_noise import rounded_normals
from radoboost.holder.grid import grid_snapping_constants, grid_step
from radoboost.holder.keystream import Key
from radoboost.holder.mechanisms.moments.private_bounds import EqualBins, Powers
from radoboost.holder.mechanisms.moments.score_histogram import ScoreCounts
from radoboost.holder.mechanisms.record_level import clip_record_rows
from radoboost.holder.signatures import FixedSupport
from radoboost.holder.subset_sampling import FairCoins
from radoboost.release.columns import Column, constant_column
from radoboost.release.feature_map import FeatureMap, Input, Term
from radoboost.tables.class_values import case_folds
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.sparse import SparseRows
from radoboost.tables.table import Batch

DIGEST = "4c5c7c5a4f990450a851767dab77f99713dee7cb93409e623d268b88301513a7"
SPARSE_DIGEST = "a77a0ca3319ce9e04dbafeacf4e5a9e60b680d25bb43dbbcb32f92e6b008804c"
_ROWS, _COLUMNS, _RADOS, _GRID = 211, 5, 19, 2**15
_FIRST_ROW = 64 * 65536 - 100  # the rows lie on both sides of a slab's end
_FINE = 2**52  # units of a class weight in 1


def engine_passes_self_test(engine: Engine, *, sparse: bool = False) -> bool:
    """Whether the engine gives the digest that it should, on this machine; with `sparse`, also for sparse rows."""
    case_folds()  # letters too must be folded as everywhere else: it raises an error where they are not
    proven = _Proven(type(engine), getattr(engine, "device", None), engine)
    return _self_test_digest_of_engine(proven) == DIGEST and (not sparse or _sparse_self_test(proven) == SPARSE_DIGEST)


def self_tested_engine(engine: Engine) -> Engine:
    """The engine, if it needs no device or proves itself on its own; a device that computes otherwise is refused."""
    if device_engine(engine) is not None and not engine_passes_self_test(engine):
        raise ArgumentError(
            "this GPU computes other integers than it should, so nothing may be released by it; take engine='kernel'"
        )
    return engine


@dataclass(frozen=True)
class _Proven:
    """What a proof is about: a kind of engine, and the device that it computes on, if there is one."""

    kind: type[Engine]
    device: Any
    engine: Engine = field(compare=False)


@lru_cache
def _self_test_digest_of_engine(proven: _Proven) -> str:
    return dense_self_test_digest(proven.engine)


@lru_cache
def _sparse_self_test(proven: _Proven) -> str:
    return sparse_self_test_digest(proven.engine)


def arrays_digest(arrays: Iterable[NDArray[Any] | str]) -> str:
    """The digest of arrays: of whole numbers as 64-bit integers, and of float64 as their bits."""
    result = hashlib.sha256()
    for array in arrays:
        if isinstance(array, str):
            result.update(array.encode())
            continue
        kind = "<f8" if array.dtype.kind == "f" else "<u8" if array.dtype.kind == "u" else "<i8"
        numbers = np.ascontiguousarray(array, dtype=kind)
        if kind == "<f8":
            numbers = np.where(np.isnan(numbers), np.nan, numbers)  # which NaN it is does not count
        result.update(repr(array.shape).encode() + numbers.tobytes())
    return result.hexdigest()


def dense_self_test_digest(engine: Engine) -> str:
    """The digest of all integers that the engine makes of the block."""
    return arrays_digest(
        [
            *_self_test_statistics(engine),
            *_self_test_rados(engine),
            *_self_test_sphere(engine),
            *_self_test_tilt(engine),
        ]
    )


def sparse_self_test_digest(engine: Engine) -> str:
    """The digest of what the engine makes of sparse rows; nothing, if it takes none."""
    able = sparse_engine(engine)
    if able is None:
        return ""
    values, signs = self_test_block()
    values = np.where(np.abs(values) < 2.0, 0.0, values)
    rows = SparseRows.of(values)
    low, high = np.full(_COLUMNS, 0.125), np.full(_COLUMNS, 3.0)  # zeros are moved, too
    survey = able.sparse_survey(low, high, moments=True)
    assert survey.add(rows)
    columns = _test_columns()
    differences, labels = np.zeros((len(columns), _RADOS), np.int64), np.zeros(_RADOS, np.int64)
    start = FairCoins(Key(range(32)), _RADOS, quarters=2)
    constants = grid_snapping_constants(columns)
    clipped = able.sum_sparse(rows, signs, constants, _FIRST_ROW, start, differences, labels)
    return arrays_digest([repr(survey.result().sums + survey.result().squares), differences, labels, clipped])


# ---- what goes through an engine


def self_test_block(n_rows: int = _ROWS, n_columns: int = _COLUMNS) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Values that need rounding, of all sizes, some beyond their bounds; made without floating point errors."""
    values = _test_integers(n_rows * n_columns).reshape(n_rows, n_columns) / 1024.0
    signs = np.where(np.arange(n_rows) % 3 > 0, 1, -1).astype(np.int8)
    return values * (1 + np.arange(n_rows)[:, None] / 4096.0), signs


def _test_integers(count: int) -> NDArray[np.int64]:
    """Whole numbers between -5003 and 5003 that look like any."""
    return (np.arange(count, dtype=np.int64) * 7919 + 12345) % 10007 - 5003


def _test_columns() -> tuple[Column, ...]:
    step = grid_step(1.0, "")
    bounded = [Column(f"c{k}", "bounds", step, -3.0, 2.5) for k in range(2)]
    standard = [Column(f"c{k}", "standard", grid_step(9.0, ""), mean=0.3, std=1.7) for k in range(2, 4)]
    return (*bounded, *standard, Column("c4", "none", grid_step(5.0, "")), constant_column(step))


def _self_test_statistics(engine: Engine) -> list[NDArray[Any] | str]:
    values, _ = self_test_block()
    results: list[NDArray[Any] | str] = []
    for kind in (np.float64, np.float32):
        survey = engine.survey(np.full(_COLUMNS, -3.0), np.full(_COLUMNS, 2.5), moments=True)
        assert survey.add(values.astype(kind))
        exact = survey.result()
        results += [repr(exact.sums + exact.squares), exact.lowest, exact.highest]
    return results


def _self_test_rados(engine: Engine) -> list[NDArray[Any]]:
    values, signs = self_test_block()
    columns, results = _test_columns(), list[NDArray[Any]]()
    for kind in (np.float64, np.float32):
        rows, clipped = engine.snap(values.astype(kind), signs, columns)
        results += [np.asarray(rows)[:, : len(columns)], clipped]
    for n_rados, quarters in ((_RADOS, 2), (_RADOS, 1), (300, 2)):
        totals = engine.totals(n_rados, len(columns))
        engine.sum_rows(rows, _FIRST_ROW, FairCoins(Key(range(32)), n_rados, quarters), totals)
        results.append(totals[:n_rados, : len(columns)])
    return results


def _self_test_sphere(engine: Engine) -> list[NDArray[Any]]:
    values, signs = self_test_block()
    low, high, bad, marks = np.full(_COLUMNS, -3.0), np.full(_COLUMNS, 2.5), values.copy(), signs.copy()
    bad[5, 0], bad[7, 3], bad[9, 4], marks[11] = np.nan, np.inf, -np.inf, 0
    results: list[NDArray[Any]] = [*engine.sphere(bad, marks, low, high, 0.5, _GRID)]
    edges = results[0]
    # Four components of one size: each is half of the norm, but for rounding.
    sizes = 1.0 + _test_integers(200) / 10007.0
    equal = np.sign(_test_integers(800).reshape(200, 4) + 0.5) * sizes[:, None]
    four = np.full(4, -2.0), np.full(4, 2.0)
    results += [*engine.sphere(np.asfortranarray(equal), np.ones(200, np.int8), *four, None, _GRID)]
    width = _COLUMNS + 1
    a = np.eye(width) + _test_integers(width * width).reshape(width, width) / 2**20
    white = engine.whiten(edges, a, signs, _GRID)
    # The same sum in four orders, of numbers that round: whose image is half of the norm, is for rounding to say.
    turns = np.array([0.7, 0.1, 0.3, 0.9])
    circulant = np.array([np.roll(turns, k) for k in range(4)])
    alike = np.ones((4, 1), np.int32) * (1 + np.arange(500, dtype=np.int32) * 13)
    results += [white, engine.whiten(alike, circulant, np.ones(500, np.int8), _GRID)]
    for kind in (np.int16, np.int32):
        results += [*engine.products(np.minimum(white, 2**15 - 1).astype(kind))]
    wide, its_signs = self_test_block(70, 70)  # matrix products
    on_grid = (np.eye(70) * 2**10 + _test_integers(4900).reshape(70, 70) // 64) / 2**10
    rows, _ = engine.sphere(wide, its_signs, np.full(70, -3.0), np.full(70, 2.5), None, _GRID)
    return [*results, rows, engine.whiten(rows, on_grid, its_signs, _GRID), *engine.products(rows)]


def _self_test_tilt(engine: Engine) -> list[NDArray[Any]]:
    values, signs = self_test_block()
    edges, _ = engine.sphere(values, signs, np.full(_COLUMNS, -3.0), np.full(_COLUMNS, 2.5), 0.5, _GRID)
    width = len(edges)
    theta = _test_integers(3 * width).reshape(3, width) / 2**11
    results = [engine.tilt(edges, factor * theta[0], _GRID, 0.5) for factor in (1.0, 2.0**-6, 2.0**14)]
    results.append(engine.tilt(np.minimum(edges, 2**15 - 1).astype(np.int16), theta[1], _GRID, 0.5))
    # Two large products that cancel: what is left of them is rounding, and moves a weight of one half.
    cancelling = np.vstack([*[1 + 2 * np.arange(300)] * 2, np.full(300, 2**14)]).astype(np.int32)
    pairs = [np.array([large, -large, 0.0]) for large in (2.0**44 / 3, 2.0**43 / 7, -(2.0**44) / 5)]
    results += [engine.tilt(cancelling, pair, _GRID, 0.5) for pair in pairs]
    marked = np.vstack([edges, (np.arange(_ROWS) % 4).astype(np.int32)])  # 0 is no class
    thetas = [factor * theta for factor in (1.0, 2.0**-6, 2.0**18)]
    results += [engine.tilt_classes(marked, each, _GRID, 2**13, 2**25) for each in thetas]
    narrow = np.minimum(marked, 2**15 - 1).astype(np.int16)
    results.append(engine.tilt_classes(narrow, theta * 0.0, _GRID, 2**13, 2**25))
    # A row has one column of its own, and units are fine: sums are single weights, and all bits of exponentials count.
    own = np.vstack([np.eye(48, dtype=np.int32), 1 + np.arange(48, dtype=np.int32) % 3])
    scores = _test_integers(3 * 48).reshape(3, 48) / 3001.0
    thetas = [scores * factor for factor in (0.25, 1.0, 4.0, 16.0)]
    return [*results, *(engine.tilt_classes(own, each, 1, _FINE, _FINE**2 // 2) for each in thetas)]


# ---- Whether a machine may join: what a worker computes besides its engine is the same as everywhere.
#
# Sensitivity is a statement about integers, and a release is the same to the last bit only if every worker makes
# the same ones of a row. So before it gets rows, a worker makes some of a small block, by all that it is about to
# use, and their digest must be the one below (K4 of docs/proofs/clusters.md). Each is made once in a process.

DIGESTS = {
    "contributions": "f1a9c2ab4994d2287cc877f42a6f7539b891f289011dee253a2564062b7a23a2",
    "bins": "575b1c89d7aa2e47edb48d6e7aa7baae633c87a1ed94e39511e62e1e414ad99a",
    "scores": "e66bc0d4468f3274297c315c6fe8a646df909448acde034e485df23ee479bd25",
    "choice of rows": "f30fec4c7672aefe25d15648bc8238c989eb37aa398edabc6e5b84a6a3ae3a31",
    "feature maps": "d81722ed9c9d5d4de9e3deab6affb323d8b4038443ac683f915f26898997af52",
    "noise": "56ebbd3e3c3518d4a48d0d1d8324238c39e1f592fe820ba2cc85e25fa5fff8ae",
    "subsets": "3c07ad8e5a2cd61e38464c9d3894f5593c0aefcd8ab01a1c2f7f407d8a189d63",
}
ENGINE, SPARSE_SUMS = "what its engine makes of rows", "sums of sparse rows"
_KEY = Key(range(32))
_STEP = grid_step(1.0, "")


def self_test_fault(task: Any, part: Any) -> str:
    """What this machine computes wrongly, of all that a task needs for a part; nothing if all is well."""
    engine = getattr(task, "engine", None) or getattr(getattr(task, "sphere", None), "engine", None)
    if engine is not None and not engine_passes_self_test(engine):
        return ENGINE
    if engine is not None and hasattr(task, "sparse_rows") and not engine_passes_self_test(engine, sparse=True):
        return SPARSE_SUMS
    return next((name for name in _self_tests_needed(task, part) if self_test_digest(name) != DIGESTS[name]), "")


def _self_tests_needed(task: Any, part: Any) -> Iterator[str]:
    """What a task is about to use besides its engine; what takes long to compile, only where that is so."""
    yield from ("contributions", "bins", "scores", "choice of rows")
    while part is not None:
        if hasattr(part, "feature_map"):
            yield "feature maps"
        part = getattr(part, "part", None)
    if getattr(task, "row_noise", None) is not None:
        yield "noise"
    if hasattr(getattr(task, "prepared", None), "entries"):
        yield "subsets"


@lru_cache
def self_test_digest(name: str) -> str:
    """The digest of one of the things that this machine computes."""
    return arrays_digest(_MADE[name]())


# ---- what is made


def _self_test_contributions() -> list[NDArray[Any]]:
    """Clipped integer vectors of records, good and bad."""
    values, signs = self_test_block()
    values[5, 0], values[7, 3], signs[11] = np.nan, np.inf, 0
    columns = (*(Column(f"c{k}", "bounds", _STEP, -3.0, 2.5) for k in range(5)), constant_column(_STEP))
    # Four values of one size: cut to norm 1, each is 1/2 but for rounding, and truncated.
    equal, four = np.repeat(1.0 + np.abs(values[:, 1:2]) / 9.0, 4, axis=1), columns[:4]
    with np.errstate(all="ignore"):
        return [*clip_record_rows(values, signs, columns, 1.0, _STEP),
                *clip_record_rows(equal, signs, four, 0.7, _STEP),
                *clip_record_rows(values.astype(np.float32), signs, columns, None, _STEP)]  # fmt: skip


def _self_test_bins() -> list[NDArray[Any]]:
    """Bins of values at, below and above their edges."""
    values, _ = self_test_block()
    column = np.concatenate([values[:, 0], np.ldexp(1.0, np.arange(-70, 70)), np.nextafter(np.ldexp(1.0, [3, 5]), 0.0)])
    edges = 0.1 + np.arange(65.0) * 0.009375
    equal = EqualBins(np.array([0.1, -3.0]), np.array([0.7, 2.5]))
    return [Powers().numbers(column, 0), equal.numbers(edges, 0), equal.numbers(np.nextafter(edges, 0.0), 0),
            equal.numbers(column, 1)]  # fmt: skip


def _self_test_scores() -> list[NDArray[Any]]:
    """Scores of rows to the last bit, and the counts of them."""
    values, signs = self_test_block()
    columns = tuple(Column(f"c{k}", "bounds", _STEP, -3.0, 2.5) for k in range(5))
    rule = LabelEncoder("y", (-1, 1))
    task = ScoreCounts(rule, columns, np.array([0.3, -0.7, 1.1, 0.9, -1.3, 0.1]), 0.01)
    cells = task.empty()
    task.add(cells, 0, _self_test_batch(values, signs))
    return [task.scores(values), cells.cells]


def _self_test_choice_of_rows() -> list[NDArray[Any]]:
    """Which rows of persons come first: their hashes, and those that are chosen."""
    values, signs = self_test_block()
    task = CollectRows(LabelEncoder("y", (-1, 1)), 2, _KEY, True, 0, 1)
    found = task.empty()
    task.add(found, 1000, _self_test_batch(values, signs, pa.array(np.arange(len(values)) % 60)))
    return list(found.settled())


def _self_test_batch(values: NDArray[Any], signs: NDArray[np.int8], persons: pa.Array | None = None) -> Batch:
    return Batch(len(values), pa.array(signs), lambda: values, str, persons)


def _self_test_feature_maps() -> list[NDArray[Any]]:
    """Outputs of every kind of term to the last bit, of inputs of every kind."""
    values, _ = self_test_block()
    inputs = (
        Input("a", 0.3, 1.7),
        Input("b", -3.0, 5.5, -3.0, 2.5, 1.0, factor=2.0, offset=1.0),
        Input("c", 0.1, 0.3, log=True),
        Input("d", 0.2, 3.0, limit=1.0, levels=(-1.0, -0.3, 0.1, 0.7, 1.0)),
        Input("e", limit=4.0),
    )
    labels = [entry.label for entry in inputs]
    terms = [Term("linear", (label,)) for label in labels]
    terms += [Term("product", (labels[0], label)) for label in labels]
    terms += [Term("legendre", (labels[1], labels[3]), (degree, 9 - degree), 0.4) for degree in range(1, 9)]
    terms += [Term("legendre", (labels[3], labels[4], labels[0]), (2, 1, 1), 0.7), Term("legendre", (labels[2],), (3,))]
    values[3, 1], values[4, 2] = np.nan, np.inf
    return [FeatureMap(inputs, tuple(terms)).apply(values)]


def _self_test_noise() -> list[NDArray[Any]]:
    """Noise on rows, on both sides of the end of a slab."""
    return [rounded_normals(_KEY, 12345.678955078125, 1000, 40, 9), rounded_normals(_KEY, 2.0**-6, 2**40, 20, 2)]


def _self_test_subsets() -> list[NDArray[Any]]:
    """Subsets of a prescribed size, as a part gets them."""
    prepared = FixedSupport(0.3).prepare(_KEY, 19, 9000).for_part(4200, 3000)
    return [prepared.words(65, 40, np.empty((40, 19), np.uint64))]


_MADE: dict[str, Callable[[], list[NDArray[Any]]]] = {
    "contributions": _self_test_contributions,
    "bins": _self_test_bins,
    "scores": _self_test_scores,
    "choice of rows": _self_test_choice_of_rows,
    "feature maps": _self_test_feature_maps,
    "noise": _self_test_noise,
    "subsets": _self_test_subsets,
}
