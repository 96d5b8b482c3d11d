"""What is compared: each method, its settings, and how it is run on one split of a table.

A method of several settings stands, at each epsilon, for the one with the best mean over the main tables, chosen on
splits that are not reported.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import flat
import peer_environment
import peers
import radoboost as rb
import tables
from radoboost.holder.gaussian_noise import rounded_normals

DELTA = 1e-6
LIMIT = 1000.0  # an epsilon at which noise should not matter
N_BINS = 10  # of probabilities
SPLITS = (1, 2, 3, 4)
TUNING_SPLITS = (101, 102)  # on which settings are chosen; they are not reported
SMALL = 5_000  # rows; below, draws differ much and cost little


class Cell(NamedTuple):
    """One method, in one setting, at one epsilon on one split of one table."""

    method: str
    setting: str
    domain: str
    epsilon: float | None
    split: int


class Method(NamedTuple):
    settings: dict[str, dict[str, Any]]  # by what they are called
    draws: int
    run: Callable[..., list[dict[str, Any]]]
    kind: str  # ours, private or open
    groups: tuple[str, ...] = ("main", "seen", "fresh")
    library: str = ""  # that it needs, in the peers' environment
    tuning_draws: int = 0  # where it is not as many
    times_if_small: int = 5  # so many times the draws on small tables
    fresh_splits: int = 4  # of tables that are not main ones, where a method takes long


def n_draws(cell, n_rows):
    method = METHODS[cell.method]
    draws = (cell.split in TUNING_SPLITS and method.tuning_draws) or method.draws
    return draws * method.times_if_small if n_rows < SMALL and cell.method not in WITHOUT_EPSILON else draws


def generator(cell, draw):
    """Randomness of a peer; ours takes none from here."""
    text = json.dumps([cell.method, cell.setting, cell.domain, cell.epsilon, cell.split, draw])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def percent_wrong(predicted, signs):
    return float(100 * np.mean(predicted != signs))


# ---- how they are run: for each cell, its errors in percent over draws, and what else is to be known


def calibration(probabilities, signs):
    """For each of ten equal bins of the probability of the positive class: rows, their sum, and how many were."""
    bins = np.minimum((probabilities * N_BINS).astype(int), N_BINS - 1)
    return [np.bincount(bins, weights, N_BINS) for weights in (None, probabilities, signs > 0)]


def no_noise(key, scale, first_row, n_rows, n_columns, *, plane=0):
    """In place of `rounded_normals`: the recipe as it is at that epsilon, with its noise switched off."""
    return np.zeros((n_rows, n_columns), dtype=np.int64)


def release_and_learn(domain, train, epsilon, **crafting):
    """A release of some rows, in the units of the table, and what is learned from the release alone."""
    crafting = {"bounds": domain.bounds.tolist(), **crafting}
    mechanism = rb.Moments(epsilon, DELTA)
    release = flat.craft(
        domain.x[train], domain.signs[train], mechanism=mechanism, classes=(-1, 1), threads=1, counts=None, **crafting
    )
    return release, rb.MomentsClassifier().fit_rados(release)


def ours(cells, domain, settings, draws):
    found = []
    for cell in cells:
        train, test = tables.split_rows(len(domain.x), cell.split)
        result = {"errors": [], "calibration": np.zeros((3, N_BINS)), "plans": []}
        for _ in range(draws):
            with patch(
                "radoboost.holder.gaussian_noise.rounded_normals", rounded_normals if cell.epsilon else no_noise
            ):
                release, classifier = release_and_learn(domain, train, cell.epsilon or LIMIT, **settings)
            signs, x = domain.signs[test], domain.x[test]
            result["errors"].append(percent_wrong(classifier.predict(x), signs))
            result["calibration"] += calibration(classifier.predict_proba(x)[:, 1], signs)
            result["plans"].append(plan_name(release))
        found.append({**result, "calibration": np.round(result["calibration"], 6).tolist()})
    return found


def plan_name(release):
    """Up to which degree products of ranks were taken, and how many columns there are."""
    classes = release.mechanism.get("plan", {}).get("classes", ())
    degree = max(map(sum, classes), default=0)
    return [f"degree {degree}" if degree else "linear", len(release.columns)]


def linear(learn):
    """From rows of length 1."""
    return private(learn, "rows")


def private(learn, rows):
    def run(cells, domain, settings, draws):
        inputs, found = getattr(domain, rows), []
        for cell in cells:
            train, test = tables.split_rows(len(inputs), cell.split)
            errors = []
            for draw in range(draws):
                rng = generator(cell, draw)
                scores = learn(inputs[train], domain.signs[train], cell.epsilon, DELTA, rng, **settings)
                errors.append(percent_wrong(np.where(scores(inputs[test]) > 0, 1, -1), domain.signs[test]))
            found.append({"errors": errors})
        return found

    return run


def library(name):
    """All cells of a task at once: another environment takes seconds to begin."""

    def run(cells, domain, settings, draws):
        jobs = []
        for cell in cells:
            seeds = [int(generator(cell, draw).integers(2**31)) for draw in range(draws)]
            jobs.append((cell.epsilon, DELTA, *tables.split_rows(len(domain.x), cell.split), seeds))
        return [{"errors": errors} for errors in peer_environment.errors(name, settings, domain, jobs)]

    return run


def not_private(learn):
    def run(cells, domain, settings, draws):
        found = []
        for cell in cells:
            train, test = tables.split_rows(len(domain.x), cell.split)
            scores = learn(domain.scaled[train], domain.signs[train], **settings)
            wrong = percent_wrong(np.where(scores(domain.scaled[test]) > 0, 1, -1), domain.signs[test])
            found.append({"errors": [wrong]})
        return found

    return run


# ---- which there are


def grid(template, *values):
    """Settings by name: the template's fields are filled in, and its text is the name."""
    fields = [part.split("}")[0] for part in template.split("{")[1:]]
    settings = [dict(zip(fields, value, strict=True)) for value in values]
    return {template.format(**{field: f"{value:g}" for field, value in one.items()}): one for one in settings}


ONE: dict[str, dict[str, Any]] = {"": {}}
SGD = grid(
    "rate {rate}, clip {clip}, {steps} samples of {inclusion}",
    *[(rate, clip, 1000, 0.02) for rate, clip in ((10.0, 0.5), (30.0, 0.25), (60.0, 0.25))],
    (60.0, 0.15, 600, 0.05),
    (30.0, 0.25, 200, 0.05),
)
GD = grid(
    "rate {rate}, clip {clip}, {steps} steps",
    *[(30.0, 1.0, 120), (100.0, 0.25, 120), (300.0, 0.25, 120), (100.0, 0.25, 40), (30.0, 0.5, 40)],
)
GD = {name: {**settings, "inclusion": 1} for name, settings in GD.items()}
PERTURBATION = grid(
    "share {share} to determinants, {more} more ridge",
    *[(share, more) for share in (0.1, 0.3, 0.5) for more in (0.0, 0.03)],
)
TREES = grid(
    "{trees} trees, depth {depth}, rate {rate}",
    *[(trees, depth, rate) for trees in (100, 300) for depth in (3, 4) for rate in (0.1, 0.3)],
)
EBM = grid(
    "{max_bins} bins, rate {learning_rate}",
    *[(bins, rate) for bins in (8, 32) for rate in (0.1, 0.3)],
)
ROUNDS = grid("{rounds} rounds", (5,), (10,), (100,))
PENALTIES = grid("C = {C}", (0.01,), (0.1,), (1.0,), (10.0,))

METHODS = {
    "majority class": Method(ONE, 1, not_private(peers.majority), "open"),
    "logistic regression": Method({"": {"inverse_penalty": 1.0}}, 1, not_private(peers.logistic_regression), "open"),
    "logistic regression, C = 10000": Method(
        {"": {"inverse_penalty": 1e4}}, 1, not_private(peers.logistic_regression), "open"
    ),
    "gradient boosting": Method(ONE, 1, not_private(peers.gradient_boosting), "open"),
    "AdaSSP": Method({"": {"rounds": 1}}, 2, linear(peers.adassp), "private"),
    "boosted AdaSSP": Method(ROUNDS, 2, linear(peers.adassp), "private", tuning_draws=4),
    "objective perturbation": Method(PERTURBATION, 2, linear(peers.objective_perturbation), "private", tuning_draws=4),
    "DP-GD": Method(GD, 2, linear(peers.dp_sgd), "private", tuning_draws=4),
    "DP-TR": Method(TREES, 2, private(peers.dp_trees, "scaled"), "private", tuning_draws=4),
    "DP-SGD": Method(SGD, 2, linear(peers.dp_sgd), "private"),
    "diffprivlib": Method(PENALTIES, 2, library("diffprivlib"), "private", library="diffprivlib", tuning_draws=1),
    "DP-EBM, default": Method(ONE, 1, library("DP-EBM"), "private", ("main",), library="interpret-core"),
    "DP-EBM": Method(
        EBM, 1, library("DP-EBM"), "private", library="interpret-core", tuning_draws=1, times_if_small=3, fresh_splits=2
    ),
    "quadratic logistic regression": Method(
        {"": {"inverse_penalty": 1.0}}, 1, not_private(peers.quadratic_regression), "open"
    ),
    "moments": Method({"": {"columns": "auto"}}, 2, ours, "ours"),
    "moments, linear": Method({"": {"columns": "linear"}}, 2, ours, "ours"),
    "moments, private bounds": Method(
        {"": {"columns": "auto", "bounds": "private"}}, 2, ours, "ours", ("main",), times_if_small=1
    ),
    "moments without noise": Method({"": {"columns": "auto"}}, 1, ours, "ours", ("main",)),
}
WITHOUT_EPSILON = ("moments without noise", *(name for name, method in METHODS.items() if method.kind == "open"))
