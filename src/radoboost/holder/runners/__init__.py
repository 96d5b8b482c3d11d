"""Where sums run: a Runner feeds the partitions of a table to an aggregation and adds up what they give.

Whatever a runner does, the sums are the same to the last bit.

- `threads`: ThreadRunner, worker threads of one process, batches for them
- `cluster`: cluster_runner finds the runner; ClusterRunner, encrypted networks, loopback addresses, who answers
- `worker`: what a worker does for one part: worker_sum_part, kept rows, versions, files it cannot reach, pages of
  memory
- `row_cache`: rows kept for later passes: CachedRows, MemoryCache, DiskCache, 16-bit integers
- `dask_connection`: Dask clients opened and checked, hosts for tasks, TLS, timeouts and other causes of errors
- `dask_runner`: DaskRunner, its jobs (sum, keep, map, merge), futures released
- `spark_connection`: Spark sessions, masters, Spark Connect, TLS, Java started silently
- `spark_runner`: SparkRunner, its tasks, payloads and jobs, rows kept by Spark
"""

from typing import Protocol

from radoboost.holder.aggregation import Aggregation, RowSource, RowTransform, S
from radoboost.tables import Table


class Runner(Protocol):
    """What a `Curator` needs from a runner."""

    @property
    def threads(self) -> int:
        """How many threads to use on this machine."""

    @property
    def cluster(self) -> str:
        """What the machines are called that see the table's rows, for the statement; nothing if it is this one."""

    def expect(self, passes: int) -> None:
        """Announce how many passes there will be in all, as far as is known by now, for the progress bar."""

    def sizes(self, source: Table) -> list[int]:
        """How many rows each part of the source has, by reading them if need be."""

    def run(self, task: Aggregation[S], source: RowSource) -> S:
        """The sum over all rows of the source."""

    def keep(self, source: RowSource, task: RowTransform, n_rows: int | None) -> RowSource:
        """A source of the rows that `task` makes, kept where they were made for later passes.

        There are about `n_rows` of them; None means a single pass, for which nothing need be kept. Where the source is
        rows that were kept before, these may take their place: then reading that source again takes longer.
        """
