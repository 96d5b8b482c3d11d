"""The runner of a Dask cluster."""

from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.runners import Runner
from radoboost.progress import Progress


def dask_runner(cluster: Any, bar: Progress, threads: int | None, *, trust_network: bool) -> Runner:
    """The runner of a Dask cluster."""
    raise ArgumentError("not yet")
