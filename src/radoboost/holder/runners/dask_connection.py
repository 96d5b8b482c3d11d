"""Dask clients: how one is found, opened and checked, and what goes wrong on a cluster, in one line."""

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from radoboost.errors import ArgumentError, ClusterError, RadoError, install
from radoboost.holder.runners.cluster import check_cluster_answers, check_cluster_network, is_loopback_address

_ENCRYPTED = ("tls://", "wss://", "gateway://")
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")  # as Dask names the hosts of workers
_ON_A_CLUSTER = "a Dask cluster"
_NO_TLS = (
    "no TLS connection to the Dask cluster at {address}: name the files of the certificates in Dask's configuration, "
    "distributed.comm.tls, or in DASK_DISTRIBUTED__COMM__TLS__CA_FILE and its like"
)
WITHHELD = (
    "the Dask cluster failed; what it said may have values of rows, and is withheld: look at the workers' logs, and "
    "check that they have the same versions as this machine"
)
_CONNECTING = 10.0  # seconds for a scheduler to say that it is one
_CLOSING = 2.0  # seconds that closing a connection may take


def open_dask_client(cluster: Any, threads: int, *, trust_network: bool) -> tuple[Any, str, Sequence[Any]]:
    """A client, what statements call its machines, and what must be closed afterwards.

    `cluster` is a client, a cluster of Dask's, an address, or None: then it is the current client, or one that is
    started in this process for this call.
    """
    try:
        import distributed
    except ImportError:
        raise ArgumentError(f"Dask is not installed; run: {install('dask')}") from None
    if isinstance(cluster, str) and not cluster.startswith("inproc"):
        check_cluster_network(cluster, encrypted=cluster.startswith(_ENCRYPTED), trust_network=trust_network)
        check_cluster_answers(cluster, port=8786)
        if cluster.startswith("tls:") and distributed.Security().get_connection_args("client")["ssl_context"] is None:
            raise ClusterError(_NO_TLS.format(address=cluster))  # a client would wait for a minute
    opened: tuple[Any, ...] = ()
    try:
        if isinstance(cluster, distributed.Client):
            client, name = cluster, _ON_A_CLUSTER
        elif cluster is not None:
            client, name = _connect_dask_client(cluster), _ON_A_CLUSTER
            opened = (client,)
        else:
            client, name, opened = _current_dask_client(threads)
        if client.asynchronous:
            raise ArgumentError("the Dask client is asynchronous; give one that is not, or its address")
        addresses = [dask_address(client), *client.nthreads()]
    except RadoError:
        raise
    except Exception as error:
        raise dask_error(error, cluster if isinstance(cluster, str) else "its address") from None
    try:
        check_dask_addresses(addresses, trust_network=trust_network)
    except RadoError:
        for thing in opened:
            thing.close()
        raise
    return client, name, opened


def check_dask_addresses(addresses: Iterable[str], *, trust_network: bool) -> None:
    """Refuse a scheduler or workers that are elsewhere, and not encrypted."""
    for address in addresses:
        check_cluster_network(address, encrypted=address.startswith(_ENCRYPTED), trust_network=trust_network)


def dask_hosts_for_tasks(client: Any, *, trust_network: bool) -> list[str] | None:
    """The hosts whose workers may have tasks, once all workers were looked at; None where all may.

    A worker may join while a pass runs. Where nothing is encrypted the scheduler must not give it any task, if it is
    elsewhere: rows and keys would be on their way before anybody could refuse it.
    """
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    check_dask_addresses(workers, trust_network=trust_network)
    if trust_network or dask_address(client).startswith((*_ENCRYPTED, "inproc")):
        return None
    hosts = {*_THIS_MACHINE, *(urlsplit(address).hostname or "" for address in workers if is_loopback_address(address))}
    for address, about in workers.items():
        if str(about["name"]) in hosts:  # Dask would take it for all workers of that host
            raise ArgumentError(
                f"the Dask worker at {address} is called {about['name']}, as a host is, and would get tasks that are "
                "for workers there; start it with another --name"
            )
    return sorted(hosts)


def _connect_dask_client(cluster: Any) -> Any:
    """A client of a cluster; one that finds none is closed here, since it would complain at the end otherwise.

    It is made in a thread, for it waits without end where something else answers that says nothing.
    """
    import distributed

    client = distributed.Client.__new__(distributed.Client)
    failures: list[BaseException] = []

    def connect() -> None:
        try:
            client.__init__(cluster, set_as_default=False, timeout=_CONNECTING)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_CONNECTING + _CLOSING)
    late = thread.is_alive()
    if not failures and not late:
        return client
    with suppress(Exception):
        client.close(timeout=_CLOSING)
    thread.join(_CLOSING)
    failure = failures[0] if failures else TimeoutError()
    if isinstance(cluster, str) and not any(_connection_error_tells_why(one) for one in _causes_of_dask_error(failure)):
        busy = f", or too busy to answer within {_CONNECTING:.0f} s" if late or _is_connection_timeout(failure) else ""
        tls = ", and its address tls:// where it uses TLS" if cluster.startswith("tcp:") else ""
        raise ClusterError(f"what answers at {cluster} is no Dask scheduler{busy}; its port is usually 8786{tls}")
    raise failure


def _connection_error_tells_why(error: BaseException) -> bool:
    """Whether an error says by itself why there is no connection: a library that is missing, or TLS."""
    return isinstance(error, ImportError | RadoError) or _is_tls_connection_error(error)


def _is_tls_connection_error(error: BaseException) -> bool:
    return "ssl" in f"{type(error).__name__} {error}".lower()


def _is_connection_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or str(error).startswith("Timed out")


def _current_dask_client(threads: int) -> tuple[Any, str, tuple[Any, ...]]:
    """The current client, or else one of this process alone."""
    import distributed

    try:
        return distributed.get_client(), _ON_A_CLUSTER, ()
    except ValueError:  # there is none
        options = {"processes": False, "n_workers": 1, "threads_per_worker": threads}
        pages = "127.0.0.1:0"  # with None they would be at port 8787 of every interface
        client = distributed.Client(**options, dashboard_address=pages, set_as_default=False)
        return client, "", (client,)


def dask_address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", "") or "the scheduler")


def dask_error(error: BaseException, address: str, *, withheld: bool = False) -> ClusterError:
    """What a Dask cluster raised, in one line that says what to do.

    With `withheld` no words of the error are in it, since these may have values of rows.
    """
    chain = _causes_of_dask_error(error)
    lacking = next((one for one in chain if isinstance(one, ImportError)), None)
    if lacking is not None:
        name = (lacking.name or ("a module" if withheld else str(lacking))).partition(".")[0]
        advice = install("dask") if name == "radoboost" else f"pip install {name}"
        return ClusterError(f"the Dask cluster has no {name}; install it on the scheduler and all workers: {advice}")
    if type(error).__name__ == "KilledWorker":
        return ClusterError(
            "workers of the Dask cluster died again and again over one part, most often for lack of memory; give them "
            "more (dask worker --memory-limit), or fewer threads each, and look at their logs"
        )
    if any(_is_tls_connection_error(one) for one in chain):
        return ClusterError(_NO_TLS.format(address=address))
    if "Cancelled" in type(error).__name__:
        return ClusterError(
            f"the Dask cluster at {address} dropped the work: it was restarted, closed or lost; check it, and try again"
        )
    if any(isinstance(one, ConnectionError) or _is_connection_timeout(one) for one in chain) or any(
        type(one).__name__ == "CommClosedError" for one in chain
    ):
        return ClusterError(
            f"cannot reach the Dask cluster at {address}; check that its scheduler and workers run there"
        )
    if any(isinstance(one, MemoryError) for one in chain):
        return ClusterError(
            "a worker of the Dask cluster has too little memory for a part; give it more, or fewer threads"
        )
    if withheld:
        return ClusterError(WITHHELD)
    last = chain[-1]
    words = (" ".join(str(last).split()) or type(last).__name__)[:200]
    return ClusterError(
        f"the Dask cluster failed: {type(last).__name__}: {words}; look at the workers' logs, and check that they have "
        "the same versions as this machine"
    )


def _causes_of_dask_error(error: BaseException) -> list[BaseException]:
    """An error and what it came from, the first cause last."""
    chain = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    return chain
