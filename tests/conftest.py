"""Settings that every test shares."""

import hashlib
import itertools
import os
import secrets
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from typer.testing import CliRunner

import flat
import radoboost
from radoboost.cli import app
from radoboost.estimators import tuning
from small_disks import small_disk  # noqa: F401 (a fixture)
from spark_cluster import logs, spark  # noqa: F401 (fixtures)

# Repeatable; no deadline, for the first call of a kernel compiles it. `make slow` takes the long profile.
settings.register_profile(
    "short", max_examples=30, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("short"), max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start jobs in the background: tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def repeatable_system_randomness(monkeypatch):
    """Keys that the operating system would give: different ones each time, the same in every run of a test."""
    drawn = itertools.count()

    def token_bytes(size=32):
        return hashlib.shake_256(f"key {next(drawn)}".encode()).digest(size)

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    monkeypatch.setattr(secrets, "randbits", lambda bits: int.from_bytes(token_bytes(bits // 8)))


@pytest.fixture(autouse=True)
def no_fits_so_far(monkeypatch):
    """Private fits and scores are counted in each test anew."""
    monkeypatch.setattr(tuning, "_counts", {})


@pytest.fixture(autouse=True)
def own_configuration(tmp_path_factory, monkeypatch):
    """The user's configuration, with keys and notes of rooms, is another one in each test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


@pytest.fixture
def rng():
    return np.random.default_rng(20150706)


@pytest.fixture(scope="session")
def domains() -> Path:
    """The folder of the paper's domains."""
    folder = os.environ.get("RADO_DATA")
    if not folder:
        pytest.skip("RADO_DATA is not set: the paper's domains are needed")
    return Path(folder)


@pytest.fixture(scope="session")
def small_files(tmp_path_factory) -> Path:
    """A folder with small releases, named by their mechanisms, and the model of a private one."""
    folder, rng = tmp_path_factory.mktemp("small"), np.random.default_rng(7)
    age, dose, smokes = rng.uniform(20, 80, 400), rng.normal(2, 1, 400), rng.integers(0, 2, 400)
    ill = np.where(age / 40 + dose + smokes + rng.normal(size=400) > 4, "yes", "no")
    table = pa.table({"age": age, "dose": dose, "smokes": smokes, "ill": ill})
    options = {"label": "ill", "classes": ("no", "yes"), "columns": "linear", "n_rados": 12, "counts": None}
    bounds = {"age": (0, 100), "dose": (-2, 8), "smokes": (0, 1)}
    flat.craft(table, **options).save(folder / "plain.rado.parquet")
    band = radoboost.FeatureBand("smokes", 2.0)
    flat.craft(table, mechanism=band, bounds={"smokes": (0, 1)}, **options).save(folder / "feature-band.rado.parquet")
    noisy = flat.craft(table, mechanism=radoboost.NoisyRados(4.0), bounds=bounds, **options)
    noisy.save(folder / "noisy-rados.rado.parquet")
    release = flat.craft(table, mechanism=radoboost.Moments(4.0), bounds=bounds, **options)
    release.save(folder / "moments.rado.parquet")
    radoboost.MomentsClassifier().fit_rados(release).model_.save(folder / "moments.model.json")
    return folder


@pytest.fixture
def clinic(tmp_path, rng):
    """A small table in a CSV file."""
    path = tmp_path / "clinic.csv"
    rows = ["age,dose,readmitted"]
    rows += [
        f"{age},{dose:.3f},{'yes' if dose > 0.4 else 'no'}"
        for age, dose in zip(range(20, 80), rng.random(60), strict=True)
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def rado(tmp_path, monkeypatch):
    """Run a command in an empty folder; gives exit code, stdout and stderr."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*args):
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture(scope="module")
def browser():
    """Chromium, for the studio's pages; while it is there, its event loop is in the way of Dask's."""
    from studio_browser import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def visit(browser, tmp_path):
    """A browser that was let in to a studio over an empty folder: `visit.studio.studio.folder.root`."""
    from studio_browser import visiting

    folder = tmp_path / "studio"
    folder.mkdir()
    with visiting(browser, folder) as opened:
        yield opened
