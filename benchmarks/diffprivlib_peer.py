"""Test errors of diffprivlib's logistic regression. It runs in an environment of its own; `peers.py` calls it.

python diffprivlib_peer.py JOBS.npz ERRORS.json
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LogisticRegression


def main():
    given, found = sys.argv[1:]
    jobs = np.load(given)
    rows, signs = jobs["rows"], jobs["signs"]
    warnings.simplefilter("ignore")  # about convergence, which at a small epsilon the noise decides
    errors = []
    for number, epsilon in enumerate(jobs["epsilons"]):
        train, test = jobs[f"train{number}"], jobs[f"test{number}"]
        errors.append([])
        for seed in jobs[f"seeds{number}"]:
            # The constant is a column of the rows, and rows have length 1.
            model = LogisticRegression(
                epsilon=float(epsilon), data_norm=1.0, fit_intercept=False, C=1.0, max_iter=1000, random_state=int(seed)
            )
            model.fit(rows[train], signs[train])
            errors[-1].append(100 * float(np.mean(model.predict(rows[test]) != signs[test])))
    Path(found).write_text(json.dumps(errors))


if __name__ == "__main__":
    main()
