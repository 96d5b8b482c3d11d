"""Sessions of Spark: the caller's own, or one that is started for a single call and stopped afterwards."""

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from radoboost.errors import ArgumentError, ClusterError, install
from radoboost.holder.runners.clusters import check_answers, check_network, shown_address
from radoboost.tables.cluster_frames import cluster_of
from radoboost.tables.spark_jobs import explained, is_connect, quiet

_SETTINGS = {
    "spark.app.name": "radoboost",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
_FILE = b"/files/radoboost"  # which no master has
_REQUEST = struct.pack(">qbi", 13 + len(_FILE), 6, len(_FILE)) + _FILE  # a frame of Spark's: its length, its kind
_HEARING = 5.0  # seconds
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  # which know more about where hosts are


def spark_session(cluster: Any, table: Any = None, *, trust_network: bool) -> tuple[Any, bool]:
    """The session to use, and whether it was started here, so that it must be stopped.

    `cluster` is a session, an address, or None for that of the table.
    """
    if cluster is None:
        cluster = table.sparkSession
    elif cluster_of(table) and not isinstance(cluster, str) and cluster is not table.sparkSession:
        cluster = table.sparkSession if _same(cluster, table.sparkSession) else _refuse_other()
    elif cluster_of(table) and isinstance(cluster, str):
        raise ArgumentError("a Spark frame is crafted in its own session; leave the cluster out")
    session, started = _started(cluster) if isinstance(cluster, str) else (cluster, False)
    try:
        with explained():
            address, encrypted = network_of(session)
        check_network(address, encrypted=encrypted, trust_network=trust_network)
    except BaseException:
        if started:
            session.stop()
        raise
    return session, started


def _same(one: Any, other: Any) -> bool:
    """Whether two sessions are of one application of Spark."""
    return not is_connect(one) and not is_connect(other) and one.sparkContext is other.sparkContext


def _refuse_other() -> Any:
    raise ArgumentError("the table is a frame of another Spark session than the cluster; leave the cluster out")


def _started(address: str) -> tuple[Any, bool]:
    """A session at that address: the one that runs in this process already, or a new one."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise ArgumentError(f"a Spark cluster needs the library pyspark: {install('spark')}") from None
    shown = shown_address(address)
    if address.startswith("spark:"):
        check_answers(address, port=7077, talk=_is_master)
    elif address.startswith("sc:") and not any(os.environ.get(name) for name in _PROXIES):
        check_answers(address, port=15002)
    with explained(address=shown), quiet():
        if address.startswith("sc:"):
            return SparkSession.builder.remote(address).config("spark.app.name", "radoboost").create(), True
        running = SparkContext._active_spark_context
        if running is not None:
            if running.master != address:
                raise ClusterError(
                    f"a Spark session runs in this process already, at {running.master}: pass that as the cluster, or "
                    "stop it"
                )
            return SparkSession.builder.getOrCreate(), False
        builder = SparkSession.builder.master(address)
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        with _python_here(), _silenced():
            return builder.getOrCreate(), True


def _is_master(connection: socket.socket) -> str:
    """What is wrong with whatever answers there, if that is certain: Spark itself would try for a minute and a half.

    A master says that it has no such file. One that wants TLS closes, which is left to Spark.
    """
    connection.settimeout(_HEARING)
    try:
        connection.sendall(_REQUEST)
        answer = connection.recv(16)
    except TimeoutError:
        return f"is no Spark master, or too busy to answer within {_HEARING:.0f} s; its port is usually 7077"
    except OSError:
        return ""
    is_text = answer[:1].isascii() and answer[:1].decode().isprintable()  # a frame, or an alert of TLS, is none
    return "is no Spark master; its port is usually 7077" if answer and is_text else ""


@contextmanager
def _python_here() -> Iterator[None]:
    """Let workers run this Python, unless the caller says which."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


@contextmanager
def _silenced() -> Iterator[None]:
    """Start Java with nowhere to write its stacks to: what went wrong is said in one line."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def network_of(session: Any) -> tuple[str, bool]:
    """The address that rows and keys would go through the network of, and whether they are encrypted there."""
    if is_connect(session):
        channel = session.client._builder
        host, secure = str(channel.host), bool(getattr(channel, "use_ssl", False))
        client = f"sc://{host}"
        if not secure and host not in ("localhost", "127.0.0.1", "[::1]"):
            return client, False
        conf = session.conf
        return str(conf.get("spark.master", client)), _encrypted(lambda name: conf.get(name, "false"))
    conf = session.sparkContext.getConf()
    return str(session.sparkContext.master), _encrypted(lambda name: conf.get(name, "false"))


def _encrypted(setting: Any) -> bool:
    """Whether machines of the cluster talk to each other in secret."""

    def on(name: str) -> bool:
        return str(setting(name)).lower() == "true"

    return on("spark.ssl.rpc.enabled") or (on("spark.authenticate") and on("spark.network.crypto.enabled"))
