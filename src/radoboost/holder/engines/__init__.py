"""The summation, by several engines that give the same integers.

An engine makes two kinds of workers. Each thread owns one worker and feeds it blocks of rows; what the workers hold is
merged at the end. Integers do not mind the order.
"""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.grid import ExactSums
from radoboost.numba_cache import prepare_cache
from radoboost.release.columns import Column

_MODULES = {"kernel": "radoboost.holder.engines.kernel", "reference": "radoboost.holder.engines.reference"}
ENGINES = tuple(_MODULES)


class Words(Protocol):
    """Membership words of a block of tiles, written into `out`: a signature set with its key."""

    def __call__(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Shape (n_tiles, n_rados)."""


class Survey(Protocol):
    """The first pass: exact statistics of the clipped values."""

    def add(self, values: NDArray[Any]) -> bool:
        """Take a block of rows, float32 or float64; False if a value is not finite."""

    def result(self) -> ExactSums:
        """What all blocks gave."""


class Summation(Protocol):
    """The second pass: rados of the edge integers."""

    def add(self, first_row: int, values: NDArray[Any], labels: NDArray[np.int8]) -> None:
        """Take a block of rows that starts at the global row `first_row`."""

    def result(self) -> NDArray[np.int64]:
        """Sums of grid integers, shape (n_rados, n_features)."""

    @property
    def clipped(self) -> NDArray[np.int64]:
        """How many values lay beyond their bounds, by column."""


class Engine(Protocol):
    """What crafting asks of an engine."""

    def survey(self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> Survey:
        """A worker for the first pass; without `moments` it sees to range and finiteness alone."""

    def summation(self, columns: Sequence[Column], n_rados: int, words: Words) -> Summation:
        """A worker for the second pass."""

    def worker_bytes(self, n_rados: int, n_features: int) -> int:
        """Memory that one summation worker needs."""


def get_engine(name: str) -> Engine:
    """The engine of that name, imported only now: "auto" is the kernel.

    >>> get_engine("reference").worker_bytes(1000, 10) > 0
    True
    """
    module = _MODULES.get("kernel" if name == "auto" else name) if isinstance(name, str) else None
    if module is None:
        raise ArgumentError(f"engine must be 'auto' or one of {', '.join(ENGINES)}; it is {name!r}")
    prepare_cache()
    return cast(Engine, importlib.import_module(module))
