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
from radoboost.holder.runners.cluster import check_cluster_answers, check_cluster_network, shown_cluster_address
from radoboost.tables.frames import cluster_kind_of_frame
from radoboost.tables.spark_jobs import is_spark_connect, silence_pyspark_warnings, spark_errors

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
    elif cluster_kind_of_frame(table) and not isinstance(cluster, str) and cluster is not table.sparkSession:
        session = table.sparkSession
        if is_spark_connect(cluster) or is_spark_connect(session) or cluster.sparkContext is not session.sparkContext:
            raise ArgumentError("the table is a frame of another Spark session than the cluster; leave the cluster out")
        cluster = session
    elif cluster_kind_of_frame(table) and isinstance(cluster, str):
        raise ArgumentError("a Spark frame is crafted in its own session; leave the cluster out")
    session, started = _start_spark_session(cluster) if isinstance(cluster, str) else (cluster, False)
    try:
        with spark_errors():
            address, encrypted = spark_network(session)
        check_cluster_network(address, encrypted=encrypted, trust_network=trust_network)
    except BaseException:
        if started:
            session.stop()
        raise
    return session, started


def _start_spark_session(address: str) -> tuple[Any, bool]:
    """A session at that address: the one that runs in this process already, or a new one."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise ArgumentError(f"a Spark cluster needs the library pyspark: {install('spark')}") from None
    shown = shown_cluster_address(address)
    if address.startswith("spark:"):
        check_cluster_answers(address, port=7077, talk=_wrong_spark_master)
    elif address.startswith("sc:") and not any(os.environ.get(name) for name in _PROXIES):
        check_cluster_answers(address, port=15002, talk=partial(_wrong_spark_connect_server, address))
    with spark_errors(address=shown), silence_pyspark_warnings():
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
            with _spark_workers_run_this_python(), _start_java_silently():
                return builder.getOrCreate(), True
        except Exception:
            java = shutil.which("java") or os.environ.get("JAVA_HOME")
            if address == "yarn" and java and not any(os.environ.get(name) for name in _YARN):
                raise ClusterError(
                    f"Spark does not know where YARN is: let {' or '.join(_YARN)} name the folder with the settings of "
                    "that cluster"
                ) from None
            raise


def _wrong_spark_master(connection: socket.socket) -> str:
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


def _spark_tls_host(address: str) -> str:
    """The host that PySpark would talk TLS with, at an address of Spark Connect; nothing if it would not.

    It does if it is told to, and wherever it has a token, but for this machine.
    """
    settings = address.partition(";")[2].split(";")
    token = os.environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN") or any(one.startswith("token=") for one in settings)
    host = urlsplit(shown_cluster_address(address)).hostname or ""
    told = any(one.lower() == "use_ssl=true" for one in settings)
    return host if told or (token and host != "localhost") else ""


def _wrong_spark_connect_server(address: str, connection: socket.socket) -> str:
    """What is wrong with whatever answers there, if that is certain: PySpark itself would try for 15 minutes.

    Spark Connect speaks HTTP/2, whose servers begin with a frame of settings. Nothing secret is sent, so certificates
    are left to PySpark; so is a server that speaks TLS, but not with us.
    """
    connection.settimeout(_HEARING)
    tls = _spark_tls_host(address)
    wrong = "is no Spark Connect server{}; its port is usually 15002"
    if not tls:
        wrong += ", and its address ends in /;use_ssl=true where it uses TLS"
    try:
        answer = _http2_answer_over_tls(connection, tls) if tls else _http2_answer(connection)
    except TimeoutError:
        return wrong.format(f", or too busy to answer within {_HEARING:.0f} s")
    except ssl.SSLError as error:
        words = error.reason or ""
        return "" if "ALERT" in words and "PROTOCOL" not in words else wrong.format("")
    except OSError:
        return wrong.format("")
    return "" if answer[3:4] == _SETTINGS_FRAME[3:4] else wrong.format("")


def _http2_answer_over_tls(connection: socket.socket, host: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(connection, server_hostname=host) as secret:
        return _http2_answer(secret)


def _http2_answer(connection: socket.socket) -> bytes:
    """The first bytes that a server says to a client of HTTP/2, as many as a frame begins with."""
    connection.sendall(_PREFACE)
    answer = b""
    while len(answer) < len(_SETTINGS_FRAME) and (more := connection.recv(len(_SETTINGS_FRAME) - len(answer))):
        answer += more
    return answer


@contextmanager
def _spark_workers_run_this_python() -> Iterator[None]:
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
def _start_java_silently() -> Iterator[None]:
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


def spark_network(session: Any) -> tuple[str, bool]:
    """The address that rows and keys would go through the network of, and whether they are encrypted there."""
    if is_spark_connect(session):
        channel = session.client._builder
        host, secure = str(channel.host), bool(getattr(channel, "use_ssl", False))
        client = f"sc://{host}"
        if not secure and host not in ("localhost", "127.0.0.1", "[::1]"):
            return client, False
        conf = session.conf
        return str(conf.get("spark.master", client)), _spark_is_encrypted(lambda name: conf.get(name, "false"))
    conf = session.sparkContext.getConf()
    return str(session.sparkContext.master), _spark_is_encrypted(lambda name: conf.get(name, "false"))


def _spark_is_encrypted(setting: Any) -> bool:
    """Whether machines of the cluster talk to each other in secret."""

    def on(name: str) -> bool:
        return str(setting(name)).lower() == "true"

    return on("spark.ssl.rpc.enabled") or (on("spark.authenticate") and on("spark.network.crypto.enabled"))
