"""Everything but the engine `kernel` works, slowly, where numba cannot be imported."""

import json
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import json, sys
if sys.argv[1] == "without":
    sys.modules["numba"] = None
import numpy as np
import radoboost as rb

from radoboost.holder.engines import get_engine
from radoboost.holder.request import CraftRequest
from radoboost.holder.gaussian_noise import rounded_normals
from radoboost.holder.curator import Curator
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.tables import open_table
from radoboost.learner.boost import boost
from radoboost.lab.paper.protocol import best_iterate_on_examples

x = np.random.default_rng(1).normal(size=(150, 3))
y = x @ [1.0, -2.0, 0.5] > 0
options = {"n_rados": 40, "seed": 3, "compute": rb.Compute("reference")}
plain = rb.craft(x, y, **options)
half = rb.craft(x, y, signatures=rb.FixedSupport(31), **options)
asked = CraftRequest.of("private", rb.Moments(8.0), classes=(False, True), n_rados=5)
run = Curator(open_table(x, y, row_by_row=True), get_engine("reference"), ThreadRunner(1), bytes(32))
found = rb.Moments(8.0).make(asked, run)
rounds = boost(plain.rados, n_rounds=40).rounds
edges = np.where(y, 1.0, -1.0)[:, None] * np.column_stack([x, np.ones(150)])
print(json.dumps({
    "numba": sys.modules.get("numba") is not None,
    "same": [
        rounded_normals(bytes(range(32)), 2.0**20 + 0.375, 1020, 8, 30).tolist(),
        rounded_normals(bytes(32), 4.0, 0, 60, 1).tolist(),
        plain.rados.tolist(),
        half.rados.tolist(),
        rounds.feature.tolist(),
        [(column.low, column.high) for column in found.columns],
    ],
    "close": [*rounds.leverage.tolist(), *best_iterate_on_examples(rounds, edges, 4).tolist()],
}))
"""


def test_noise_subsets_and_boosting_give_the_same_numbers():
    """Boosting to rounding alone: compiled, its sums run in another order."""
    results = {}
    for case in ("with", "without"):
        done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT, case], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        results[case] = json.loads(done.stdout)
    assert results["with"]["numba"] and not results["without"]["numba"]
    assert results["with"]["same"] == results["without"]["same"]
    np.testing.assert_allclose(results["with"]["close"], results["without"]["close"], rtol=1e-10)


EVERY_MECHANISM = """
import hashlib, json, secrets, sys
if sys.argv[1] == "without":
    sys.modules["numba"] = None
import numpy as np
import radoboost as rb

secrets.token_bytes = lambda size=32: bytes(range(size))
secrets.randbits = lambda bits: 7
x = np.random.default_rng(1).uniform(0, 1, size=(120, 2))
x[:, 1] = x[:, 1] > 0.5
y = (x[:, 0] > 0.4).astype(int)
declared = {"bounds": [[0, 1]] * 2, "classes": (0, 1)}
mechanisms = [
    (rb.Plain(), {"seed": 1}), (rb.FeatureBand("x1", 3.0), {"seed": 1}), (rb.NoisyRados(2.0), declared),
    (rb.NoisyExamples(2.0), declared), (rb.Moments(2.0), declared), (rb.Moments(2.0, unit="label"), declared),
]
digests = {}
for number, (mechanism, how) in enumerate(mechanisms):
    release = rb.craft(x, y, n_rados=9, mechanism=mechanism, compute=rb.Compute(sys.argv[2], 1), **how)
    for name, block in release.blocks.items():
        digests[f"{number} {name}"] = hashlib.sha256(block.tobytes()).hexdigest()
print(json.dumps(digests))
"""


@pytest.mark.slow
def test_every_mechanism_gives_the_same_blocks_by_the_reference_without_it():
    """All of `craft`: with numba by both engines, and by the one that "auto" is where there is none."""
    digests = []
    for case, engine in (("with", "kernel"), ("with", "reference"), ("without", "reference"), ("without", "auto")):
        arguments = [sys.executable, "-W", "error", "-c", EVERY_MECHANISM, case, engine]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        digests.append(json.loads(done.stdout))
    assert len(digests[0]) > 12 and all(other == digests[0] for other in digests[1:])


def test_the_kernel_says_that_it_needs_it():
    code = "import sys; sys.modules['numba'] = None\nimport radoboost as rb\n"
    code += "rb.craft([[1.0], [2.0]], [0, 1], compute=rb.Compute('kernel'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "use engine='reference'" in done.stderr.splitlines()[-1]
