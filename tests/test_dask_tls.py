"""A real Dask scheduler with two workers, each a process of its own, over TLS on the loopback."""

import datetime
import ipaddress
import json
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import radoboost as rb

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


def certificate(folder):
    """One key and its own certificate for everybody, as a small cluster has them."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "clinic")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler, and the environment in which TLS is configured as Dask says."""
    certificate(tmp_path)
    cert, key, about = (str(tmp_path / name) for name in ("cert.pem", "key.pem", "scheduler.json"))
    tls = [f"--tls-ca-file={cert}", f"--tls-cert={cert}", f"--tls-key={key}"]
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    client = {f"{prefix}CA_FILE": cert, f"{prefix}CLIENT__CERT": cert, f"{prefix}CLIENT__KEY": key}
    here = ["--host=127.0.0.1", *tls, "--no-dashboard", f"--scheduler-file={about}"]
    commands = [["dask_scheduler", "--protocol=tls", "--port=0", *here]]
    commands += [["dask_worker", "--nthreads=1", f"--local-directory={tmp_path}", *here]] * 2
    log = (tmp_path / "log").open("w")
    processes = []
    try:
        for command in commands:
            line = [sys.executable, "-m", f"distributed.cli.{command[0]}", *command[1:]]
            processes.append(subprocess.Popen(line, stdout=log, stderr=log))
            for _ in range(300):
                if os.path.exists(about):
                    break
                time.sleep(0.1)
        with open(about) as file:
            yield json.load(file)["address"], {**os.environ, **client}, tmp_path / "log"
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)
        log.close()


def test_rado_craft_and_predict_over_tls(cluster, tmp_path):
    address, environment, log = cluster
    assert address.startswith("tls://127.0.0.1:")
    rng = np.random.default_rng(0)
    for k in range(4):
        x = rng.normal(size=(3000, 3))
        columns = {f"c{i}": x[:, i] for i in range(3)}
        pq.write_table(pa.table({**columns, "y": (x[:, 0] > 0) * 1}), tmp_path / f"p{k}.parquet")

    def rado(*words, **more):
        line = [sys.executable, "-m", "radoboost", *words]
        return subprocess.run(
            line, cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True, timeout=120
        )

    craft = ["craft", "p?.parquet", "--label", "y", "-n", "50", "--seed", "3", "-q"]
    there = rado(*craft, "--cluster", address, "-o", "there.rado.parquet")
    assert (there.returncode, there.stderr) == (0, "")
    rado(*craft, "-o", "here.rado.parquet")
    here, there = (rb.load(tmp_path / f"{name}.rado.parquet") for name in ("here", "there"))
    assert here.rados.tobytes() == there.rados.tobytes()
    assert "a Dask cluster" in there.statement.trust_model
    rado("learn", "here.rado.parquet", "-o", "m.model.json")
    for name, words in {"here": (), "there": ("--cluster", address)}.items():
        assert rado("predict", "m.model.json", "p?.parquet", "-o", f"{name}.csv", *words).returncode == 0
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()

    without = rado(*craft, "--cluster", address, "-o", "no.rado.parquet", DASK_DISTRIBUTED__COMM__TLS__CA_FILE="",
                   DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="3s")  # fmt: skip
    assert without.returncode == 1
    assert without.stderr.count("\n") == 1
    assert "TLS" in without.stderr or "cannot reach" in without.stderr
    assert not (tmp_path / "no.rado.parquet").exists()
    key = rb.holder.keystream.make_key(3)
    assert key.hex() not in log.read_text()
    assert repr(b"".join([key]))[2:-1] not in log.read_text()
