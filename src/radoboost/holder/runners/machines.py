"""Whether a machine may join: what a worker computes besides its engine is the same as everywhere.

Sensitivity is a statement about integers, and a release is the same to the last bit only if every worker makes the same
ones of a row. So before it gets rows, a worker makes some of a small block, by all that it is about to use, and their
digest must be the one below (K4 of docs/proofs/clusters.md). Each is made once in a process.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.holder import tilted
from radoboost.holder.batch_sizes import Joining
from radoboost.holder.engines.proof import block, hashed, proves_itself
from radoboost.holder.grid import grid_step
from radoboost.holder.keystream import Key
from radoboost.holder.mechanisms.bins import EqualBins, Powers
from radoboost.holder.mechanisms.contributions import contributions
from radoboost.holder.mechanisms.score_counts import ScoreCounts
from radoboost.holder.noise import rounded_normals
from radoboost.holder.persons import CollectRows
from radoboost.holder.signatures import FixedSupport
from radoboost.release.columns import Column, constant_column
from radoboost.release.maps import FeatureMap, Input, Term
from radoboost.tables.labels import LabelRule
from radoboost.tables.source import Batch

DIGESTS = {
    "contributions": "f1a9c2ab4994d2287cc877f42a6f7539b891f289011dee253a2564062b7a23a2",
    "bins": "575b1c89d7aa2e47edb48d6e7aa7baae633c87a1ed94e39511e62e1e414ad99a",
    "scores": "e66bc0d4468f3274297c315c6fe8a646df909448acde034e485df23ee479bd25",
    "choice of rows": "f30fec4c7672aefe25d15648bc8238c989eb37aa398edabc6e5b84a6a3ae3a31",
    "feature maps": "d81722ed9c9d5d4de9e3deab6affb323d8b4038443ac683f915f26898997af52",
    "noise": "56ebbd3e3c3518d4a48d0d1d8324238c39e1f592fe820ba2cc85e25fa5fff8ae",
    "subsets": "3c07ad8e5a2cd61e38464c9d3894f5593c0aefcd8ab01a1c2f7f407d8a189d63",
    "tilted rados": "c237b00d2389169d4fa974edd861d8ae1f9da0ed040142cf7db2e0aecddaea9c",
}
ENGINE, SPARSE_SUMS = "what its engine makes of rows", "sums of sparse rows"
_KEY = Key(range(32))
_STEP = grid_step(1.0, "")


def fault(task: Any, part: Any) -> str:
    """What this machine computes wrongly, of all that a task needs for a part; nothing if all is well."""
    engine = getattr(task, "engine", None) or getattr(getattr(task, "sphere", None), "engine", None)
    if engine is not None and not proves_itself(engine):
        return ENGINE
    if engine is not None and hasattr(task, "sparse_rows") and not proves_itself(engine, sparse=True):
        return SPARSE_SUMS
    return next((name for name in _needed(task, part) if made(name) != DIGESTS[name]), "")


def _needed(task: Any, part: Any) -> Iterator[str]:
    """What a task is about to use besides its engine; what takes long to compile, only where that is so."""
    yield from ("contributions", "bins", "scores", "choice of rows")
    while part is not None:
        if hasattr(part, "feature_map"):
            yield "feature maps"
        part = getattr(part, "part", None)
    if getattr(task, "row_noise", None) is not None:
        yield "noise"
    if getattr(task, "tilt", None) is not None:
        yield "tilted rados"
    if hasattr(getattr(task, "prepared", None), "entries"):
        yield "subsets"


@lru_cache
def made(name: str) -> str:
    """The digest of one of the things that this machine computes."""
    return hashed(_MADE[name]())


# ---- what is made


def _contributions() -> list[NDArray[Any]]:
    """Clipped integer vectors of records, good and bad."""
    values, signs = block()
    values[5, 0], values[7, 3], signs[11] = np.nan, np.inf, 0
    columns = (*(Column(f"c{k}", "bounds", _STEP, -3.0, 2.5) for k in range(5)), constant_column(_STEP))
    # Four values of one size: cut to norm 1, each is 1/2 but for rounding, and truncated.
    equal, four = np.repeat(1.0 + np.abs(values[:, 1:2]) / 9.0, 4, axis=1), columns[:4]
    with np.errstate(all="ignore"):
        return [*contributions(values, signs, columns, 1.0, _STEP), *contributions(equal, signs, four, 0.7, _STEP),
                *contributions(values.astype(np.float32), signs, columns, None, _STEP)]  # fmt: skip


def _bins() -> list[NDArray[Any]]:
    """Bins of values at, below and above their edges."""
    values, _ = block()
    column = np.concatenate([values[:, 0], np.ldexp(1.0, np.arange(-70, 70)), np.nextafter(np.ldexp(1.0, [3, 5]), 0.0)])
    edges = 0.1 + np.arange(65.0) * 0.009375
    equal = EqualBins(np.array([0.1, -3.0]), np.array([0.7, 2.5]))
    return [Powers().numbers(column, 0), equal.numbers(edges, 0), equal.numbers(np.nextafter(edges, 0.0), 0),
            equal.numbers(column, 1)]  # fmt: skip


def _scores() -> list[NDArray[Any]]:
    """Scores of rows to the last bit, and the counts of them."""
    values, signs = block()
    columns = tuple(Column(f"c{k}", "bounds", _STEP, -3.0, 2.5) for k in range(5))
    rule = LabelRule("y", (-1, 1))
    task = ScoreCounts(rule, columns, np.array([0.3, -0.7, 1.1, 0.9, -1.3, 0.1]), 0.01)
    cells = task.empty()
    task.add(cells, 0, _batch(values, signs))
    return [task.scores(values), cells.cells]


def _choice() -> list[NDArray[Any]]:
    """Which rows of persons come first: their hashes, and those that are chosen."""
    values, signs = block()
    task = CollectRows(LabelRule("y", (-1, 1)), 2, _KEY, True, 0, 1)
    found = task.empty()
    task.add(found, 1000, _batch(values, signs, pa.array(np.arange(len(values)) % 60)))
    return list(found.settled())


def _batch(values: NDArray[Any], signs: NDArray[np.int8], persons: pa.Array | None = None) -> Batch:
    return Batch(len(values), pa.array(signs), lambda: values, str, persons)


def _maps() -> list[NDArray[Any]]:
    """Outputs of every kind of term to the last bit, of inputs of every kind."""
    values, _ = block()
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


def _noise() -> list[NDArray[Any]]:
    """Noise on rows, on both sides of the end of a slab."""
    return [rounded_normals(_KEY, 12345.678955078125, 1000, 40, 9), rounded_normals(_KEY, 2.0**-6, 2**40, 20, 2)]


def _subsets() -> list[NDArray[Any]]:
    """Subsets of a prescribed size, as a part gets them."""
    prepared = FixedSupport(0.3).prepare(_KEY, 19, 9000).for_part(4200, 3000)
    return [prepared.words(65, 40, np.empty((40, 19), np.uint64))]


def _tilted() -> list[NDArray[Any]]:
    """Scores, probabilities to the last bit, thresholds, who joins, and how many that are."""
    values, signs = block()
    rows = np.trunc(values * 512.0).astype(np.int32) * signs[:, None]
    results: list[NDArray[Any]] = []
    for factor in (1.0, 2.0**-9, 2.0**9):
        tilt = tilted.Tilt.of(factor * np.array([0.3, -0.7, 1.1, 0.9, -1.3]), [_STEP] * 5)
        scores = tilt.scores(rows)
        thresholds = tilt.thresholds(scores)
        joining = Joining.of(thresholds)
        results += [scores, tilt.probabilities(scores), thresholds, np.array([joining.thresholds, joining.logarithms])]
    starts = np.arange(0, rows.size + 1, 5)
    results.append(tilt.entry_scores(rows[0], starts, np.tile(np.arange(5), len(rows)), rows.ravel()))
    coins = tilted.BatchCoins.of(_KEY, 1, 19)
    below = tilted.Below.over(coins, 1000, np.arange(len(rows), dtype=np.uint64) * np.uint64(2**32 // len(rows)))
    return [*results, below.words(1000 // 64, 4, np.empty((4, 19), np.uint64))]


_MADE: dict[str, Callable[[], list[NDArray[Any]]]] = {
    "contributions": _contributions,
    "bins": _bins,
    "scores": _scores,
    "choice of rows": _choice,
    "feature maps": _maps,
    "noise": _noise,
    "subsets": _subsets,
    "tilted rados": _tilted,
}
