"""Whether an engine computes, on the machine that it is on, the integers that it should.

A small block of rows goes through everything that an engine does to rows, and the digest of all that comes out must be
the one below, which is that of the reference. A worker of a cluster does this once, before it gets any rows.
"""

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.engines import Engine
from radoboost.holder.grid import grid_step
from radoboost.holder.keystream import Key
from radoboost.holder.subsets import Start
from radoboost.release.columns import Column, constant_column

DIGEST = "b3c582c53e8bb4de6b2dfecf0faf875b9c130b116536b77630e5e68c0f374b34"
_ROWS, _COLUMNS, _RADOS, _GRID = 211, 5, 19, 2**15


def proves_itself(engine: Engine) -> bool:
    """Whether the engine gives the digest that it should, on this machine.

    >>> from radoboost.holder.engines import get_engine
    >>> proves_itself(get_engine("reference"))
    True
    """
    return _digest_of(type(engine)) == DIGEST


@lru_cache
def _digest_of(kind: type[Engine]) -> str:
    return digest(kind())


def digest(engine: Engine) -> str:
    """The digest of all integers that the engine makes of the block."""
    values, signs = _block()
    low, high = np.full(_COLUMNS, -3.0), np.full(_COLUMNS, 2.5)
    hashed = hashlib.sha256()

    def take(*arrays: NDArray[np.generic]) -> None:
        for array in arrays:
            hashed.update(np.ascontiguousarray(array, dtype="<i8").tobytes())

    survey = engine.survey(low, high, moments=True)
    assert survey.add(values)
    hashed.update(repr(survey.result().sums + survey.result().squares).encode())
    step = grid_step(1.0, "")
    columns = (*(Column(f"c{k}", "bounds", step, -3.0, 2.5) for k in range(_COLUMNS)), constant_column(step))
    rows, clipped = engine.snap(values, signs, columns)
    totals = engine.totals(_RADOS, len(columns))
    first_row = 64 * 65536 - 100  # the rows lie on both sides of a slab's end
    engine.sum_rows(rows, first_row, Start(Key(range(32)), _RADOS, quarters=2), totals)
    take(np.asarray(rows)[:, : len(columns)], clipped, totals[:_RADOS, : len(columns)])
    width = _COLUMNS + 1
    edges, good = engine.sphere(values, signs, low, high, 0.5, _GRID)
    a = np.eye(width) + _numbers(width * width).reshape(width, width) / 2**20
    theta = _numbers(3 * width).reshape(3, width) / 2**11
    whitened = engine.whiten(edges, a, signs, _GRID)
    marked = np.vstack([edges, (1 + np.arange(_ROWS) % 3).astype(np.int32)])
    take(edges, good, whitened, engine.tilt(whitened, theta[0], _GRID, 0.5), *engine.products(whitened))
    take(engine.tilt_classes(marked, theta, _GRID, 2**13, 2**25))
    return hashed.hexdigest()


def _block() -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Values that need rounding, of all sizes, some beyond their bounds; made without floating point errors."""
    values = _numbers(_ROWS * _COLUMNS).reshape(_ROWS, _COLUMNS) / 1024.0
    return values * (1 + np.arange(_ROWS)[:, None] / 4096.0), np.where(np.arange(_ROWS) % 3 > 0, 1, -1).astype(np.int8)


def _numbers(count: int) -> NDArray[np.int64]:
    """Whole numbers between -5003 and 5003 that look like any."""
    return (np.arange(count, dtype=np.int64) * 7919 + 12345) % 10007 - 5003
