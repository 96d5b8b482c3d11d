"""The tables that accuracy is measured on, in three groups, and how their rows are split.

*main*: those of the study of columns beyond linear that can be had here. Constants of ours were set on these.
*seen*: tables that were fresh once. Ours was behind on them; then the units and thresholds of plans were set on other
splits of these and of the main tables.
*fresh*: tables that no constant was set on: real ones of R packages, and generators with fixed seeds. Nothing may be
tuned by what ours does on them. One is not quite fresh: the study's random cosines had seen a split of scikit-learn's
digits.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import peer_environment
import peers

QUANTILES = (0.01, 0.99)
TEST_SHARE = 0.2
FILES = ("abalone", "banknote", "eeg", "hardware", "higgs_sample", "magic", "wine_red", "wine_white")
MAIN = tuple(sorted((*FILES, "breast_cancer")))
REAL = ("cells", "churn", "computers", "credit", "light_chains", "spam")


class Domain(NamedTuple):
    x: np.ndarray
    signs: np.ndarray
    bounds: np.ndarray
    scaled: np.ndarray  # by the bounds, to [-1, 1]
    rows: np.ndarray  # of length 1, for linear peers


# ---- generators


def breast_cancer():
    """scikit-learn's 569 x 30; the paper's table of that name is another one."""
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer(return_X_y=True)


def digits():
    """Odd against even, without the pixels that are always blank."""
    from sklearn.datasets import load_digits

    x, digit = load_digits(return_X_y=True)
    return x[:, x.min(axis=0) < x.max(axis=0)], digit % 2


def arcs():
    """Two interleaved arcs, and six columns of noise."""
    from sklearn.datasets import make_moons

    x, y = make_moons(6_000, noise=0.25, random_state=11)
    return np.column_stack([x, np.random.default_rng(11).normal(size=(len(x), 6))]), y


def shells():
    """The inner half of a normal cloud against the outer."""
    from sklearn.datasets import make_gaussian_quantiles

    return make_gaussian_quantiles(n_samples=4_000, n_features=6, n_classes=2, random_state=12)


def hastie():
    """Ten normal columns, and whether their squares add up to more than 9.34 (Hastie et al. 2009, example 10.2)."""
    from sklearn.datasets import make_hastie_10_2

    return make_hastie_10_2(12_000, random_state=13)


def clusters():
    """Four clusters a class at corners of a cube, mixed columns, columns of noise and some wrong labels."""
    from sklearn.datasets import make_classification

    return make_classification(
        10_000, 20, n_informative=8, n_redundant=4, n_clusters_per_class=4, flip_y=0.03, random_state=14
    )


def friedman():
    """Friedman's first function, with a sine of a product, above its median."""
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(8_000, 10, noise=1.0, random_state=15)
    return x, y > np.median(y)


def forest():
    """Like the table of forest covers: skewed distances, a direction in degrees, shades, and two categories."""
    rng, m = np.random.default_rng(16), 20_000
    height, slope, aspect = rng.normal(2950, 280, m), rng.gamma(3.5, 4.0, m), rng.uniform(0, 360, m)
    water, road, fires = rng.lognormal(5.2, 0.9, m), rng.lognormal(7.2, 0.8, m), rng.lognormal(7.1, 0.7, m)
    light = np.deg2rad(aspect - 135)
    noon = 230 - 1.2 * slope * np.cos(light) + rng.normal(0, 6, m)
    area, soil = rng.choice(4, m, p=[0.45, 0.05, 0.44, 0.06]), rng.integers(12, size=m)
    band = np.where(soil < 6, 2880, 3020) + 40 * area
    score = 1.2 - np.square((height - band) / 190) + 0.8 * np.cos(light) * (slope > 14) + 0.4 * (road > 1500)
    score += 0.5 * (water < 120) * (height > 2950) - 0.3 * (soil % 4 == 1) + rng.logistic(0, 0.45, m)
    columns = [height, slope, aspect, water, road, fires, noon, *np.eye(4)[area].T, *np.eye(12)[soil].T]
    return np.column_stack(columns), score > 0


MADE = {made.__name__: made for made in (arcs, clusters, digits, forest, friedman, hastie, shells)}
SEEN = ("arcs", "credit", "hastie", "shells")
FRESH = tuple(sorted({*MADE, *REAL} - {*SEEN}))


# ---- any of them


def table_file(folder, name):
    found = [path for path in (Path(folder) / f"{name}.csv", Path(folder) / f"{name}.csv.gz") if path.exists()]
    if not found:
        raise SystemExit(f"there is no {name}.csv or {name}.csv.gz in {folder}; give --data, or set RADO_DATA")
    return found[0]


def values(folder, name):
    """Columns, and -1 or 1 for each row."""
    if name in REAL:
        return peer_environment.real_table(name)
    if name in MADE or name == "breast_cancer":
        x, y = (MADE.get(name) or breast_cancer)()
        return x, np.where(y > 0, 1, -1)
    table = np.loadtxt(table_file(folder, name), delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1].astype(int)


def quantile_bounds(x):
    """Quantiles of all rows, in place of bounds from public knowledge.

    Where both quantiles are one value, the least and the largest value of the table are taken, and where these are one
    too, 1/2 to either side.
    """
    bounds = np.quantile(x, QUANTILES, axis=0).T
    for wider in (np.column_stack([x.min(axis=0), x.max(axis=0)]), bounds + np.array([-0.5, 0.5])):
        bounds = np.where(bounds[:, :1] < bounds[:, 1:], bounds, wider)
    return bounds


@cache
def load(folder, name):
    """A table, with quantiles of all of its rows for bounds."""
    x, signs = values(folder, name)
    bounds = quantile_bounds(x)
    return Domain(x, signs, bounds, peers.scaled_rows(x, bounds), peers.unit_rows(x, bounds))


def n_rows(folder, name):
    return len(load(folder, name).x)


@cache
def digest(folder, name):
    x, signs, *_ = load(folder, name)
    return hashlib.sha256(x.astype("<f8").tobytes() + signs.astype("<i8").tobytes()).hexdigest()


def split_rows(n_rows, split):
    """Rows to train on and to test on."""
    order = np.random.default_rng(split).permutation(n_rows)
    n_test = round(TEST_SHARE * n_rows)
    return order[n_test:], order[:n_test]
