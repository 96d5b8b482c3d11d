"""Runners of clusters: what they have in common, and how the right one is found.

The driver cuts a pass into jobs, one for each part, and a cluster does them wherever it likes (`parts`). Rows have the
numbers that they have on one machine: how many rows each part has is known before rows are summed, and a part that has
another number when it is read again is refused. What is secret about the rows of a part, the key of their coins,
travels with that part (K5). Noise on sums is drawn here, once all parts are merged (K6). Labels K1 .. K8 are steps of
docs/proofs/clusters.md.
"""

import ipaddress
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit

from radoboost.errors import ArgumentError, ClusterError, RadoError, TableError, reason
from radoboost.holder.aggregation import Aggregation, CountRows, RowSource, RowTransform, S
from radoboost.holder.runners import Runner
from radoboost.holder.runners.threads import check_threads
from radoboost.holder.runners.worker import ComputedPartition, PartitionSums, WorkerError, innermost_part
from radoboost.progress import Progress, silent
from radoboost.tables import Table
from radoboost.tables.frames import cluster_kind_of_frame, fill_row_placeholders
from radoboost.tables.object_stores import refuse_store_secrets_on_workers
from radoboost.tables.streams import is_query_or_stream

DASK_SCHEMES = ("tcp", "tls", "ws", "wss", "ucx", "inproc")
SPARK_SCHEMES = ("spark", "sc", "yarn", "k8s")
_SPARK_HERE = re.compile(r"local|local(?:-cluster)?\[[^][]*\]")
_OF_MANAGERS = ("k8s", "mesos")  # the host is that of a manager, and the machines that work are elsewhere
_PATIENCE = 10.0  # seconds for a host to answer


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """Rows of integers on a cluster: `pieces` are what a worker reads them from, of partitions of `frame` if it is one.

    A piece may be whatever the runner has in place of a `CachedPartition` that is elsewhere.
    """

    name: str
    features: tuple[str, ...]
    n_rows: int | None
    pieces: Sequence[Any]
    frame: Any = None

    def batches(self, rows: int | None = None) -> Any:
        """Nothing can be read here."""
        raise TableError("these rows are kept on a cluster, and only its workers can read them")

    def expected_rows(self, rows_read: int) -> int | None:
        return self.n_rows


class ClusterRunner(ABC):
    """A runner whose jobs are done elsewhere; `name` is what statements call the cluster.

    `withheld` keeps the words of the cluster's library, in which there may be values, out of messages.
    """

    name: str
    withheld: bool = False

    def __init__(self, bar: Progress = silent, threads: int | None = None) -> None:
        self.threads, self._bar = check_threads(threads), bar
        self._passes, self._done = 0, 0
        self._sizes: list[tuple[RowSource, list[int]]] = []

    @property
    def cluster(self) -> str:
        """What the machines are called that see the table's rows."""
        return self.name

    @abstractmethod
    def sum_parts(
        self,
        tasks: Aggregation[S] | Sequence[Aggregation[S]],
        source: Table | ClusterRows,
        firsts: Sequence[int],
        rows: int,
    ) -> PartitionSums[S]:
        """The sums of all parts of the source, merged: `sum_part` of each.

        There is one pass for all parts, or one for each, which only that part's worker may get. `firsts` are the
        numbers of the parts' first rows. After every part that is done, `tell` moves the progress bar.
        """

    @abstractmethod
    def keep_parts(self, task: RowTransform, source: Table | ClusterRows, rows: int) -> ClusterRows:
        """The rows that `task` makes of each part, kept where they are: `keep_part` of each."""

    def map_parts(self, work: Callable[[Any], Any], source: Table) -> Iterator[Any]:
        """What `work`, which can be pickled, makes of each part of the source, in order: for predictions."""
        raise ArgumentError(f"{self.name} makes no predictions; leave the cluster out (--cluster)")

    def by_part(
        self, task: Any, source: Table, firsts: Sequence[int], sizes: Sequence[int]
    ) -> Aggregation[Any] | Sequence[Aggregation[Any]]:
        """The pass of each part, with what is secret about that part's rows."""
        return [task.for_part(first, size) for first, size in zip(firsts, sizes, strict=True)]

    def close(self) -> None:  # noqa: B027 (there may be nothing)
        """Close what was opened for this runner; whoever made it calls this, also after a failure."""

    def expect(self, passes: int) -> None:
        """Announce how many passes there will be in all."""
        self._passes = passes

    def tell(self, title: str, source: RowSource, done: int, parts: int) -> None:
        """Move the progress bar: so many parts of the source are done."""
        rows = source.n_rows or sum(self._known(source) or []) or None
        if rows is None:
            self._bar(title, done, None)
        else:
            passes = max(self._passes, self._done + 1)
            self._bar(title, self._done * rows + rows * done // max(parts, 1), passes * rows)

    def sizes(self, source: Table) -> list[int]:
        """How many rows each part of the source has, counted on the cluster if need be."""
        known = self._known(source)
        if known is None:
            counted = self._summed(CountRows(), source, [0] * len(source.pieces), source.batch_rows)
            known = self._checked(counted, source, None)
        return known

    def run(self, task: Aggregation[S], source: RowSource) -> S:
        """The sum over all rows of the source."""
        assert isinstance(source, Table | ClusterRows)
        sizes = self._known(source)
        tasks: Aggregation[S] | Sequence[Aggregation[S]] = task
        firsts = [0] * len(source.pieces)
        if hasattr(task, "for_part"):
            assert isinstance(source, Table), "kept rows have no numbers"
            sizes = self.sizes(source)
            firsts = [0, *accumulate(sizes)][:-1]
            tasks = self.by_part(task, source, firsts, sizes)
        total = self._summed(tasks, source, firsts, _rows_per_cluster_batch(task, source))
        self._checked(total, source, sizes)
        self._done += 1
        return task.empty() if total.sums is None else total.sums

    def keep(self, source: RowSource, task: RowTransform, n_rows: int | None) -> RowSource:
        """The rows on the workers that made them, or made again whenever they are read, if there is one pass only."""
        assert isinstance(source, Table | ClusterRows)
        pieces, known = [ComputedPartition(piece, task) for piece in source.pieces], self._known(source)
        kept = ClusterRows(source.name, source.features, source.n_rows, pieces, source.frame)
        if n_rows is not None and pieces:
            kept = self.keep_parts(task, source, _rows_per_cluster_batch(task, source))
            self._done += 1
        if known is not None:  # every part gives as many rows as it has
            self._sizes.append((kept, known))
        return kept

    def _summed(
        self,
        tasks: Aggregation[S] | Sequence[Aggregation[S]],
        source: Table | ClusterRows,
        firsts: Sequence[int],
        rows: int,
    ) -> PartitionSums[S]:
        """As `sum_parts`; a table without parts needs no cluster."""
        return self.sum_parts(tasks, source, firsts, rows) if source.pieces else PartitionSums(None)

    def _known(self, source: RowSource) -> list[int] | None:
        """How many rows each part has, if that was said; None if it was not."""
        for one, sizes in self._sizes:
            if one is source:
                return sizes
        counts = [getattr(piece, "n_rows", None) for piece in getattr(source, "pieces", ())]
        return None if None in counts else [int(count) for count in counts if count is not None]

    def _checked(self, total: PartitionSums[S], source: Table | ClusterRows, sizes: list[int] | None) -> list[int]:
        """How many rows each part had this time; refusals, lost parts and other numbers than before are raised (K3)."""
        if total.refusal is not None:
            raise self._explained(total.refusal, source)
        if lost := [number for number in range(len(source.pieces)) if number not in total.rows]:
            raise TableError(f"the cluster lost part {lost[0] + 1:,} of {source.name}; craft again")
        found = [total.rows[number] for number in range(len(source.pieces))]
        if sizes is not None and found != sizes:
            number = next(k for k, (one, other) in enumerate(zip(found, sizes, strict=True)) if one != other)
            raise TableError(
                f"part {number + 1:,} of {source.name} had {sizes[number]:,} rows at first and {found[number]:,} when "
                "read again: its rows or their order are not determined, or it changed; write it to files, or "
                "checkpoint it, and pass that"
            )
        if self._known(source) is None:
            self._sizes.append((source, found))
        return found

    def _explained(self, refusal: WorkerError, source: Table | ClusterRows) -> RadoError:
        """A refusal in the words that it would have on one machine: rows are counted from the table's first."""

        def first_row(part: int) -> int:
            assert isinstance(source, Table)
            return sum(self.sizes(replace(source, pieces=[innermost_part(piece) for piece in source.pieces]))[:part])

        return type(refusal.error)(fill_row_placeholders(str(refusal.error), first_row))


def _rows_per_cluster_batch(task: Any, source: Table | ClusterRows) -> int:
    rows: int | None = task.rows_at_a_time
    return rows or (source.batch_rows if isinstance(source, Table) else 1 << 16)


# ---- which cluster


def cluster_runner(
    cluster: Any,
    table: Any,
    bar: Progress = silent,
    threads: int | None = None,
    *,
    trust_network: bool = False,
    promises: bool = False,
) -> Runner | None:
    """The runner for a cluster that the caller names, or whose data frame the table is; None for this machine.

    `cluster` is a Dask client, a Spark session, an address such as tls://host:8786, spark://host:7077 or
    sc://host:15002, or a runner. `promises` says that something is promised: messages then have no
    words of the cluster's library.
    """
    if all(callable(getattr(cluster, name, None)) for name in ("run", "keep", "sizes")):
        runner: Runner = cluster
        if promises and isinstance(runner, ClusterRunner):
            runner.withheld = True
        return runner
    if isinstance(cluster, str):
        scheme, mark, rest = cluster.partition(":")
        cluster = f"{scheme.lower()}{mark}{rest}"
    kind, named = cluster_kind_of_frame(table), _cluster_kind(cluster)
    if kind and named and kind != named:
        raise ArgumentError(f"the table is a frame of {kind.capitalize()}, and the cluster is of {named.capitalize()}")
    kind = kind or named
    if not kind:
        return None
    if kind == "dask":
        from radoboost.holder.runners.dask_runner import dask_runner

        return dask_runner(cluster, table, bar, threads, trust_network=trust_network, promises=promises)
    from radoboost.holder.runners.spark_runner import spark_runner

    return spark_runner(cluster, table, bar, threads, trust_network=trust_network, promises=promises)


def check_cluster_reaches_table(cluster: Any, table: Any) -> None:
    """Refuse a table that this machine alone can read, where a cluster is to read it."""
    here = cluster is None or getattr(cluster, "cluster", None) == ""  # a runner of this machine
    if not here and is_query_or_stream(table):
        raise ArgumentError(
            "queries, streams and standard input come to this machine alone, and no worker of a cluster can read them; "
            "write the rows to files that all workers can read, and craft these, or leave cluster out (--cluster)"
        )
    if not here:
        refuse_store_secrets_on_workers(table)


def _cluster_kind(cluster: Any) -> str:
    if cluster is None:
        return ""
    if isinstance(cluster, str):
        scheme = cluster.partition(":")[0]
        if scheme in DASK_SCHEMES:
            return "dask"
        if scheme in SPARK_SCHEMES or _SPARK_HERE.fullmatch(cluster):
            return "spark"
        raise ArgumentError(
            f"cluster {shown_cluster_address(cluster)!r} is no address that is known; give tls://HOST:8786 (Dask), "
            "spark://HOST:7077 or sc://HOST:15002 (Spark), a Dask client or a Spark session"
        )
    library = type(cluster).__module__.partition(".")[0]
    kinds = {"distributed": "dask", "dask": "dask", "pyspark": "spark"}
    if library not in kinds:
        raise ArgumentError(f"cluster must be a Dask client, a Spark session or an address; it is {cluster!r}")
    return kinds[library]


def check_cluster_network(address: str, *, encrypted: bool, trust_network: bool) -> None:
    """Refuse a network that is not encrypted, unless it is this machine's own or the caller trusts it."""
    if encrypted or trust_network or is_loopback_address(address):
        return
    raise ArgumentError(
        f"{address} is not encrypted, and rows, sums and keys would go through the network for anyone to read; set up "
        "TLS, or say trust_network=True (--trust-network) if nobody else can listen"
    )


def check_cluster_answers(address: str, port: int, talk: Callable[[socket.socket], str] = lambda _: "") -> None:
    """Refuse an address at which nobody answers, at once: libraries try for minutes. `port` is taken if it has none.

    Several hosts may stand in one address, with commas between them; one that answers is enough. `talk` says what is
    wrong with whatever answers, or nothing.
    """
    shown, failures = shown_cluster_address(address), list[str]()
    for host in shown.partition("://")[2].split(","):
        try:
            place = urlsplit(f"//{host}")
            name, number = place.hostname or "", place.port or port
        except ValueError:
            name = ""
        if not name:
            scheme = shown.partition(":")[0]
            raise ArgumentError(
                f"the address {shown!r} names no host and port; give one such as {scheme}://HOST:{port}"
            )
        try:
            with socket.create_connection((name, number), _PATIENCE) as connection:
                if not (wrong := talk(connection)):
                    return
                failures.insert(0, f"what answers at {shown} {wrong}")
        except socket.gaierror:
            failures.append(f"there is no host {name}, of the address {shown}; check its name")
        except OSError as error:
            failures.append(
                f"nobody answers at {shown} ({reason(error)}); check the address, and that the cluster runs"
            )
    raise ClusterError(failures[0])


def shown_cluster_address(address: str) -> str:
    """An address as messages may have it: without a user, a password or a token."""
    outer = "k8s://" if address.startswith("k8s://http") else ""  # an address within an address
    scheme, mark, rest = address.removeprefix(outer).partition("://")
    return f"{outer}{scheme}{mark}{rest.partition('/')[0].partition(';')[0].rpartition('@')[2]}"


def is_loopback_address(address: str) -> bool:
    """Whether an address is on this machine: all hosts of one that has several, with commas between them."""
    if address.startswith("inproc:") or _SPARK_HERE.fullmatch(address):
        return True
    try:
        place = urlsplit(address)
        hosts = [urlsplit(f"//{host}").hostname or "" for host in place.netloc.split(",")]
    except ValueError:  # brackets that do not match
        return False
    return place.scheme not in _OF_MANAGERS and all(map(_is_loopback_host, hosts))


def _is_loopback_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
