"""The runner of a Spark cluster."""

from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.runners import Runner
from radoboost.progress import Progress


def spark_runner(cluster: Any, table: Any, bar: Progress, threads: int | None, *, trust_network: bool) -> Runner:
    """The runner of a Spark cluster."""
    raise ArgumentError("not yet")
