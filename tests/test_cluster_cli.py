"""`--cluster` on the command line: what cannot be done is one line, at once, and leaves nothing behind."""

import os
import socket
import sys

import pytest

import radoboost as rb
from radoboost.cli.craft import craft as command
from radoboost.holder.runners.clusters import check_answers, shown_address


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


@pytest.mark.parametrize("address", ["nonsense", "", "http://host:1", "host:8786"])
def test_an_address_that_is_none(craft, address):
    line = craft(address)
    assert "tls://HOST:8786 (Dask), spark://HOST:7077 or sc://HOST:15002 (Spark)" in line


@pytest.mark.parametrize("address", ["tls://", "spark://", "sc://:15002", "tls://host:port"])
def test_an_address_without_a_host_or_port(craft, address):
    assert "names no host and port; give one such as" in craft(address)


@pytest.mark.parametrize("scheme", ["tcp", "tls", "spark", "sc"])
def test_an_address_where_nobody_answers(craft, scheme, monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = craft(f"{scheme}://127.0.0.1:{port}")
    assert f"nobody answers at {scheme}://127.0.0.1:{port} (Connection refused); check the address" in line


def test_one_host_of_several_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_answers(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}", port=7077)
    with pytest.raises(rb.errors.ClusterError, match="nobody answers"):
        check_answers("spark://127.0.0.1:1,127.0.0.1:2", port=7077)


def test_dask_over_tls_needs_certificates(craft):
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = craft(f"tls://127.0.0.1:{server.getsockname()[1]}")
    assert "no TLS connection" in line and "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in line


@pytest.mark.parametrize(("library", "address", "extra"), [("distributed", "tcp://127.0.0.1:1", "dask"),
                                                           ("pyspark", "spark://127.0.0.1:1", "spark")])  # fmt: skip
def test_a_missing_library_is_named_with_its_extra(craft, monkeypatch, library, address, extra):
    monkeypatch.setitem(sys.modules, library, None)
    assert f"pip install 'radoboost[{extra}]'" in craft(address)


def test_a_network_that_anyone_can_listen_to(craft):
    pytest.importorskip("distributed")
    line = craft("tcp://10.0.0.7:8786")
    assert "is not encrypted" in line and "--trust-network" in line


@pytest.mark.parametrize("table", ["-", "duckdb:?SELECT 1 AS a, 1 AS readmitted"])
def test_rows_that_come_to_this_machine_alone(craft, table):
    assert "write the rows to files that all workers can read" in craft("tcp://127.0.0.1:1", table=table)


def test_no_secret_of_an_address_is_shown(craft, monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for address in ("sc://me:hush@127.0.0.1:1/;token=hush", "ftp://me:hush@host/;token=hush"):
        assert "hush" not in craft(address)
    assert shown_address("nonsense") == "nonsense"


def test_addresses_are_completed():
    option = command.__annotations__["cluster"].__metadata__[0]
    assert option.autocompletion("t") == ["tls://", "tcp://127.0.0.1:8786"]
    assert option.autocompletion("s") == ["spark://", "sc://"]
