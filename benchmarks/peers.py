"""Other ways to a private linear classifier: DP-SGD, AdaSSP and diffprivlib; and what there is without privacy.

The private ones learn from the same rows: columns scaled to [-1, 1] by the bounds, a constant 0.5 appended, and the row
divided by its length. A classifier is a vector of weights for such rows; a positive score means the positive class.
"""

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import expit

from radoboost.privacy import subsampled_multiplier

CONSTANT = 0.5
INCLUSION, STEPS = 0.02, 1000  # of DP-SGD
FAILURE = 0.05  # AdaSSP's bound on the noise holds with at least 1 - FAILURE
REQUIREMENTS = ("diffprivlib==0.6.6", "scikit-learn==1.7.2")  # diffprivlib does not work with later ones
ENVIRONMENT = Path(__file__).parent.parent / ".venv-diffprivlib"


def scaled_rows(x, bounds):
    """Values in [-1, 1]: beyond its bounds, a value counts as the bound."""
    low, high = np.asarray(bounds, dtype=float).T
    return np.clip(2 * (x - low) / (high - low) - 1, -1, 1)


def unit_rows(x, bounds):
    """Rows of length 1, with the constant."""
    rows = np.column_stack([scaled_rows(x, bounds), np.full(len(x), CONSTANT)])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# ---- private


@cache
def sgd_noise(epsilon, delta):
    """Noise over the clipping norm, by privacy-loss distributions: STEPS sums over Poisson samples of the records."""
    return subsampled_multiplier(epsilon, delta, INCLUSION, STEPS)


def dp_sgd(rows, signs, epsilon, delta, *, rate, clip, rng):
    """Logistic regression by noisy gradients (Abadi et al. 2016). The mean of the second half of the iterates.

    The number of records is taken for public: steps are divided by the expected size of a sample.
    """
    m, d = rows.shape
    edges = rows * signs[:, None]
    noise, theta, tail = sgd_noise(epsilon, delta) * clip, np.zeros(d), np.zeros(d)
    for step in range(STEPS):
        sample = edges[rng.random(m, dtype=np.float32) < np.float32(INCLUSION)]
        # A row has length 1, so its gradient has the length of its weight, and clipping that clips the gradient.
        weights = np.minimum(expit(-(sample @ theta)), clip)
        theta = theta + rate * (weights @ sample + rng.normal(0.0, noise, d)) / (INCLUSION * m)
        if step >= STEPS // 2:
            tail += theta
    return tail / (STEPS - STEPS // 2)


def adassp(rows, signs, epsilon, delta, *, rng):
    """Least squares from noisy moments with an adaptive ridge (Wang 2018, algorithm 2), with that paper's constants.

    A third of the budget each goes to the least eigenvalue, the second moment and the sum of the edge vectors.
    """
    d = rows.shape[1]
    log_term, third = np.log(6 / delta), epsilon / 3
    noise = np.sqrt(log_term) / third
    second = rows.T @ rows
    least = max(np.linalg.eigvalsh(second)[0] + noise * rng.normal() - log_term / third, 0.0)
    ridge = max(0.0, np.sqrt(d * log_term * np.log(2 * d**2 / FAILURE)) / third - least)
    upper = np.triu(rng.normal(0.0, noise, (d, d)))
    noisy = second + upper + np.triu(upper, 1).T
    total = signs @ rows + rng.normal(0.0, noise, d)
    return np.linalg.solve(noisy + ridge * np.eye(d), total)


def diffprivlib_python():
    """The interpreter of an environment with diffprivlib, made on first use; None where it cannot be had."""
    python, ready = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "ready"
    if ready.exists() and ready.read_text().split() == list(REQUIREMENTS):
        return python
    try:
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, capture_output=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
        subprocess.run(install, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    ready.write_text("\n".join(REQUIREMENTS) + "\n")
    return python


def diffprivlib_errors(rows, signs, jobs):
    """Test errors of diffprivlib's logistic regression, for each job (epsilon, rows to train on, to test on, seeds)."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "jobs.npz", Path(folder) / "errors.json"
        arrays = {"rows": rows, "signs": signs, "epsilons": np.array([job[0] for job in jobs])}
        for number, (_, train, test, seeds) in enumerate(jobs):
            arrays |= {f"train{number}": train, f"test{number}": test, f"seeds{number}": np.array(seeds)}
        np.savez(given, **arrays)
        program = Path(__file__).with_name("diffprivlib_peer.py")
        subprocess.run([str(diffprivlib_python()), str(program), str(given), str(found)], check=True)
        return json.loads(found.read_text())


# ---- not private


def logistic_regression(x, signs, bounds, inverse_penalty):
    """Predictions of converged logistic regression on columns scaled by the bounds, as a function of x."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=inverse_penalty, solver="newton-cholesky", max_iter=1000, tol=1e-6)
    model.fit(scaled_rows(x, bounds), signs)
    return lambda other: model.predict(scaled_rows(other, bounds))
