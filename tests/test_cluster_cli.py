"""`--cluster` on the command line: what cannot be done is one line, at once, and leaves nothing behind."""

import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import radoboost as rb
from answering import answering
from radoboost.cli.craft import craft as command
from radoboost.errors import TableError
from radoboost.holder.runners import spark_connection, worker
from radoboost.holder.runners.cluster import check_cluster_answers, is_loopback_address, shown_cluster_address
from radoboost.tables.object_stores import store_path

SETTINGS = b"\0\0\x12\4\0\0\0\0\0\0\3\x7f\xff\xff\xff\0\4\0\x10\0\0\0\6\0\0 \0"  # of Spark Connect


def refused(rado, *args):
    """The one line that a command ends with; no file is left."""
    code, out, err = rado(*args)
    assert code == 1 and not out, err
    (line,) = err.splitlines()
    assert line.startswith("rado: ") and not os.listdir()
    return line


@pytest.fixture
def craft(rado, clinic):
    return lambda cluster, *args, table=clinic: refused(
        rado, "craft", table, "--label", "readmitted", "-q", "--cluster", cluster, "-o", "x.rado.parquet", *args
    )


@pytest.mark.parametrize("address", ["", "http://host:1", "localhost:8786", "local[2"])
def test_an_address_that_is_none(craft, address):
    assert "HOST" in craft(address)


@pytest.mark.parametrize("address", ["tls://", "sc://:15002", "tls://host:port", "sc://[::1"])
def test_an_address_without_a_host_or_port(craft, address):
    assert "host and port" in craft(address)


@pytest.mark.parametrize("scheme", ["TCP", "wss", "spark", "sc"])
def test_an_address_where_nobody_answers(craft, scheme, monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = craft(f"{scheme}://127.0.0.1:{port}")
    assert f"{scheme.lower()}://127.0.0.1:{port} " in line and "refused" in line


def test_one_host_of_several_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_cluster_answers(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}", port=7077)
    with pytest.raises(rb.errors.ClusterError, match="nobody answers"):
        check_cluster_answers("spark://127.0.0.1:1,127.0.0.1:2", port=7077)


def test_dask_over_tls_needs_certificates(craft):
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = craft(f"tls://127.0.0.1:{server.getsockname()[1]}")
    assert "TLS" in line


@pytest.mark.parametrize(("library", "address", "extra"), [("distributed", "tcp://127.0.0.1:1", "dask"),
                                                           ("pyspark", "spark://127.0.0.1:1", "spark")])  # fmt: skip
def test_a_missing_library_is_named_with_its_extra(craft, monkeypatch, library, address, extra):
    monkeypatch.setitem(sys.modules, library, None)
    assert f"pip install '.[{extra}]'" in craft(address)


def test_a_network_that_anyone_can_listen_to(craft):
    pytest.importorskip("distributed")
    line = craft("tcp://10.0.0.7:8786")
    assert "--trust-network" in line


@pytest.mark.parametrize("table", ["-", "duckdb:?SELECT 1 AS a, 1 AS readmitted"])
def test_rows_that_come_to_this_machine_alone(craft, table):
    assert "files" in craft("tcp://127.0.0.1:1", table=table)


def test_no_secret_of_an_address_is_shown(craft, monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for address in ("sc://me:hush@127.0.0.1:1/;token=hush", "ftp://me:hush@host/;token=hush"):
        assert "hush" not in craft(address)
    assert shown_cluster_address("nonsense") == "nonsense"


def test_addresses_are_completed():
    option = command.__annotations__["cluster"].__metadata__[0]
    assert option.autocompletion("t") == ["tls://", "tcp://127.0.0.1:8786"]
    assert option.autocompletion("s") == ["spark://", "sc://"]


@pytest.mark.parametrize("scheme", ["tcp", "spark"])
def test_a_host_that_does_not_exist(craft, scheme, monkeypatch):
    def unknown(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    line = craft(f"{scheme}://nosuchhost.example:8786", "--trust-network")
    assert "no host nosuchhost.example" in line


@pytest.mark.parametrize("says", [None, b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_what_answers_is_no_spark_master(craft, monkeypatch, says):
    pytest.importorskip("pyspark")
    monkeypatch.setattr(spark_connection, "_HEARING", 0.3)
    with answering(says) as port:
        line = craft(f"spark://127.0.0.1:{port}")
    assert f"spark://127.0.0.1:{port} is no Spark master" in line


@pytest.mark.parametrize(("says", "tls"), [(None, False), (b"", True), (b"HTTP/1.1 400 Bad Request\r\n\r\n", False)])
def test_what_answers_is_no_server_of_spark_connect(craft, monkeypatch, says, tls):
    pytest.importorskip("pyspark")
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    if says is None:
        monkeypatch.setattr(spark_connection, "_HEARING", 0.3)
    with answering(says) as port:
        line = craft(f"sc://127.0.0.1:{port}" + "/;use_ssl=true" * tls)
    assert f"sc://127.0.0.1:{port} is no Spark Connect server" in line
    assert ("too busy" in line) == (says is None) and ("use_ssl=true" in line) != tls


def asked_for_connect(port, settings=""):
    talk = partial(spark_connection._wrong_spark_connect_server, f"sc://127.0.0.1{settings}")
    check_cluster_answers(f"sc://127.0.0.1:{port}", port=15002, talk=talk)


def test_a_server_of_spark_connect_is_known_by_its_answer():
    """What a server of Spark 4 answers to the preface, as it was read from one; or one whose TLS is another."""
    with answering(SETTINGS) as port:
        asked_for_connect(port)
    alert = b"\x15\x03\x03\0\2\2\x28"  # the handshake failed
    with answering(alert) as port:
        asked_for_connect(port, "/;use_ssl=true")


def test_servers_of_grpc_are_asked_as_they_want(tmp_path):
    """In the open or over TLS, and not the other way."""
    grpc = pytest.importorskip("grpc")
    certificate = pytest.importorskip("test_dask_tls").certificate
    certificate(tmp_path)
    key, chain = ((tmp_path / name).read_bytes() for name in ("key.pem", "cert.pem"))
    server = grpc.server(ThreadPoolExecutor(1))
    bare = server.add_insecure_port("127.0.0.1:0")
    secret = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, chain)]))
    server.start()
    try:
        asked_for_connect(bare)
        asked_for_connect(secret, "/;use_ssl=true")
        for port, settings in ((bare, "/;use_ssl=true"), (secret, "")):
            with pytest.raises(rb.errors.ClusterError, match="is no Spark Connect server"):
                asked_for_connect(port, settings)
    finally:
        server.stop(None).wait()


def test_where_spark_connect_uses_tls(monkeypatch):
    monkeypatch.delenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", raising=False)
    for address, host in (
        ("sc://host:15002", ""),
        ("sc://host/;use_ssl=False;user_id=x", ""),
        ("sc://me@host:443/;user_id=x;use_ssl=TRUE", "host"),
        ("sc://host/;token=abc", "host"),
        ("sc://localhost/;token=abc", ""),
        ("sc://localhost/;token=abc;use_ssl=true", "localhost"),
    ):
        assert spark_connection._spark_tls_host(address) == host
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "abc")
    assert spark_connection._spark_tls_host("sc://host:15002") == "host"


def test_yarn_that_is_nowhere(craft, monkeypatch):
    """Java is there; what Spark says goes nowhere, and its error names Java alone."""
    session = pytest.importorskip("pyspark.sql").SparkSession
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")

    def exited(builder):
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")

    monkeypatch.setattr(session.Builder, "getOrCreate", exited)
    assert "HADOOP_CONF_DIR" in craft("yarn")
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")
    assert "Java" in craft("yarn")


def test_addresses_of_this_machine():
    here = ("local", "local[*]", "local[2,3]", "local-cluster[2,1,1024]", "inproc://x", "tcp://[::1]:8786",
            "spark://localhost:7077,127.0.0.1:7078", "http://localhost:8443/room")  # fmt: skip
    elsewhere = ("k8s://127.0.0.1:8001", "k8s://localhost:6443", "k8s://https://localhost:6443", "K8S://127.0.0.1",
                 "mesos://127.0.0.1:5050", "spark://localhost:7077,10.0.0.5:7077", "spark://localhost:7077,",
                 "localhost.evil.com:8786", "tcp://localhost.evil.com:8786", "tcp://localhost@10.0.0.5:1", "locally",
                 "local[2].evil.com", "local-cluster", "localhost:8786", "tcp://[::1:8786", "yarn", "")  # fmt: skip
    assert [address for address in here if not is_loopback_address(address)] == []
    assert [address for address in elsewhere if is_loopback_address(address)] == []


def test_a_spark_master_is_known_by_its_answer(monkeypatch):
    """What a master of Spark 4 answers to the request, as it was read from one."""
    failure = b"\0\0\0\0\0\0\0I\x08\0\0\0\x10/files/radoboost\0\0\0(Stream '/files/radoboost' was not found."
    with answering(failure) as port:
        check_cluster_answers(f"spark://127.0.0.1:{port}", port=7077, talk=spark_connection._wrong_spark_master)
    with answering(b"") as port:  # one that wants TLS
        check_cluster_answers(f"spark://127.0.0.1:{port}", port=7077, talk=spark_connection._wrong_spark_master)


def test_a_network_is_trusted_with_a_cluster_only(rado, clinic):
    line = refused(rado, "craft", clinic, "-l", "readmitted", "--trust-network")
    assert "--cluster" in line
    assert "--cluster" in refused(rado, "predict", "m.json", clinic, "--trust-network")


def test_a_store_that_a_worker_cannot_open_names_the_worker(monkeypatch):
    monkeypatch.setattr(worker, "worker_name", lambda: "node7")
    path = store_path("s3://clinic/t.parquet")
    error = TableError(f"cannot read {path}: AWS Error ACCESS_DENIED")
    line = str(worker.store_error_on_worker(error, SimpleNamespace(path=path)))
    assert "worker node7" in line and "s3://clinic/t.parquet" in line
    for other in (TableError("a missing value (row 7)"), error):
        piece = SimpleNamespace(path=path if other is not error else Path("t.parquet"))
        assert worker.store_error_on_worker(other, piece) is other
