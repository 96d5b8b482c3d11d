"""Sessions of Spark: the caller's own, or one that is started for a single call and stopped afterwards."""

import os
import shutil
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from radoboost.errors import ArgumentError, ClusterError, install
from radoboost.holder.runners.cluster import check_answers, check_network, shown_address
from radoboost.tables.frames import cluster_of
from radoboost.tables.spark_jobs import is_connect, quiet, spark_errors

_SETTINGS = {
    "spark.app.name": "radoboost",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
_FILE = b"/files/radoboost"  # which no master has
_REQUEST = struct.pack(">qbi", 13 + len(_FILE), 6, len(_FILE)) + _FILE  # a frame of Spark's: its length, its kind
_SETTINGS_FRAME = b"\0\0\0\4\0\0\0\0\0"  # of HTTP/2: its length, 0; its kind, 4; neither flags nor a stream
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS_FRAME
_HEARING = 5.0  # seconds
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  # which know more about where hosts are
_YARN = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def spark_session(cluster: Any, table: Any = None, *, trust_network: bool) -> tuple[Any, bool]:
    """The session to use, and whether it was started here, so that it must be stopped.

    `cluster` is a session, an address, or None for that of the table.
    """
    if cluster is None:
        cluster = table.sparkSession
    elif cluster_of(table) and not isinstance(cluster, str) and cluster is not table.sparkSession:
        cluster = table.sparkSession if _same_application(cluster, table.sparkSession) else _refuse_other()
    elif cluster_of(table) and isinstance(cluster, str):
        raise ArgumentError("a Spark frame is crafted in its own session; leave the cluster out")
    session, started = _started(cluster) if isinstance(cluster, str) else (cluster, False)
    try:
        with spark_errors():
            address, encrypted = network_of(session)
        check_network(address, encrypted=encrypted, trust_network=trust_network)
    except BaseException:
        if started:
            session.stop()
        raise
    return session, started


def _same_application(one: Any, other: Any) -> bool:
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
        check_answers(address, port=15002, talk=partial(_is_connect_server, address))
    with spark_errors(address=shown), quiet():
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
        try:
            with _python_here(), _silenced():
                return builder.getOrCreate(), True
        except Exception:
            java = shutil.which("java") or os.environ.get("JAVA_HOME")
            if address == "yarn" and java and not any(os.environ.get(name) for name in _YARN):
                raise ClusterError(
                    f"Spark does not know where YARN is: let {' or '.join(_YARN)} name the folder with the settings of "
                    "that cluster"
                ) from None
            raise


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


def _tls_host(address: str) -> str:
    """The host that PySpark would talk TLS with, at an address of Spark Connect; nothing if it would not.

    It does if it is told to, and wherever it has a token, but for this machine.
    """
    settings = address.partition(";")[2].split(";")
    token = os.environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN") or any(one.startswith("token=") for one in settings)
    host = urlsplit(shown_address(address)).hostname or ""
    told = any(one.lower() == "use_ssl=true" for one in settings)
    return host if told or (token and host != "localhost") else ""


def _is_connect_server(address: str, connection: socket.socket) -> str:
    """What is wrong with whatever answers there, if that is certain: PySpark itself would try for 15 minutes.

    Spark Connect speaks HTTP/2, whose servers begin with a frame of settings. Nothing secret is sent, so certificates
    are left to PySpark; so is a server that speaks TLS, but not with us.
    """
    connection.settimeout(_HEARING)
    tls = _tls_host(address)
    wrong = "is no Spark Connect server{}; its port is usually 15002"
    if not tls:
        wrong += ", and its address ends in /;use_ssl=true where it uses TLS"
    try:
        answer = _answer_over_tls(connection, tls) if tls else _answer(connection)
    except TimeoutError:
        return wrong.format(f", or too busy to answer within {_HEARING:.0f} s")
    except ssl.SSLError as error:
        words = error.reason or ""
        return "" if "ALERT" in words and "PROTOCOL" not in words else wrong.format("")
    except OSError:
        return wrong.format("")
    return "" if answer[3:4] == _SETTINGS_FRAME[3:4] else wrong.format("")


def _answer_over_tls(connection: socket.socket, host: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(connection, server_hostname=host) as secret:
        return _answer(secret)


def _answer(connection: socket.socket) -> bytes:
    """The first bytes that a server says to a client of HTTP/2, as many as a frame begins with."""
    connection.sendall(_PREFACE)
    answer = b""
    while len(answer) < len(_SETTINGS_FRAME) and (more := connection.recv(len(_SETTINGS_FRAME) - len(answer))):
        answer += more
    return answer


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
