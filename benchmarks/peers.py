"""Other ways to a private classifier, as strong as we can make them; and what there is without privacy.

The linear ones learn from the same rows: columns scaled to [-1, 1] by the bounds, a constant 0.5 appended, and the row
divided by its length. Their classifier is a vector of weights for such rows. Everything is calibrated to (epsilon,
delta) for one record added or removed, exactly where the mechanism is a Gaussian: `distance` is the mu of Gaussian
differential privacy. Each learner gives a function from rows to scores; a positive score means the positive class.

Peers that come with a library of their own are in `library_peers.py`.
"""

from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr

from radoboost.privacy import gaussian_multiplier, subsampled_multiplier

CONSTANT = 0.5
FAILURE = 0.05  # AdaSSP's bound on the noise holds with at least 1 - FAILURE


def scaled_rows(x, bounds):
    """Values in [-1, 1]: beyond its bounds, a value counts as the bound."""
    low, high = np.asarray(bounds, dtype=float).T
    return np.clip(2 * (x - low) / (high - low) - 1, -1, 1)


def unit_rows(x, bounds):
    """Rows of length 1, with the constant."""
    rows = np.column_stack([scaled_rows(x, bounds), np.full(len(x), CONSTANT)])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@cache
def distance(epsilon, delta):
    """The mu of all Gaussian releases together that are (epsilon, delta)-private: mu squared is what adds up."""
    return 1 / gaussian_multiplier(epsilon, delta)


# ---- noisy gradients


@cache
def sgd_noise(epsilon, delta, inclusion, steps):
    """Noise over the clipping norm, by privacy-loss distributions: sums over Poisson samples of the records."""
    return subsampled_multiplier(epsilon, delta, inclusion, steps)


def dp_sgd(rows, signs, epsilon, delta, rng, *, rate, clip, inclusion, steps):
    """Logistic regression by noisy gradients (Abadi et al. 2016). The mean of the second half of the iterates.

    The number of records is taken for public: steps are divided by the expected size of a sample. An inclusion of 1 is
    gradient descent over all records.
    """
    m, d = rows.shape
    edges = rows * signs[:, None]
    multiplier = np.sqrt(steps) / distance(epsilon, delta)
    if inclusion < 1:
        multiplier = sgd_noise(epsilon, delta, inclusion, steps)
    theta, tail = np.zeros(d), np.zeros(d)
    for step in range(steps):
        sample = edges if inclusion == 1 else edges[rng.random(m, dtype=np.float32) < np.float32(inclusion)]
        # A row has length 1, so its gradient has the length of its weight, and clipping that clips the gradient.
        weights = np.minimum(expit(-(sample @ theta)), clip)
        theta = theta + rate * (weights @ sample + rng.normal(0.0, multiplier * clip, d)) / (inclusion * m)
        if step >= steps // 2:
            tail += theta
    return lambda other: other @ tail


# ---- objective perturbation

SLOPE, CURVATURE = 1.0, 0.25  # the most that the logistic loss of a row of length 1 has


def perturbation_delta(epsilon, slope):
    """Delta at epsilon of an objective with a random linear term, determinants left out; slope is in units of noise.

    A record's gradient is a number of at most SLOPE times its row, so the loss of privacy is at most
    slope |Z| + slope^2 / 2 with Z normal (Redberg, Koskela and Wang 2023).
    """
    least = max(0.0, (epsilon - slope**2 / 2) / slope)
    tail = np.exp(log_ndtr(-least)) - np.exp(epsilon + log_ndtr(-least - slope))
    return 2 * tail


@cache
def perturbation_noise(epsilon, delta, share):
    """Noise of the linear term, and the ridge it needs, if this share of epsilon goes to the determinants.

    A record more adds at most CURVATURE to one eigenvalue of the Hessian, which has at least the ridge: the
    densities' determinants differ by a factor of at most 1 + CURVATURE / ridge.
    """
    ridge = CURVATURE / np.expm1(share * epsilon)
    rest = (1 - share) * epsilon
    slope = np.exp(brentq(lambda log: perturbation_delta(rest, np.exp(log)) - delta, np.log(1e-6), np.log(1e3)))
    return SLOPE / slope, ridge


def objective_perturbation(rows, signs, epsilon, delta, rng, *, share, more):
    """Logistic regression with a random linear term and a ridge (Chaudhuri et al. 2011; Redberg, Koskela, Wang 2023).

    The minimum is found to rounding, by Newton's method with halved steps. `more` noises are added to the ridge.
    """
    edges, d = rows * signs[:, None], rows.shape[1]
    noise, ridge = perturbation_noise(epsilon, delta, share)
    ridge += more * noise * np.sqrt(d)
    linear, theta = rng.normal(0.0, noise, d), np.zeros(d)

    def objective(theta):
        return np.logaddexp(0.0, -(edges @ theta)).sum() + ridge / 2 * theta @ theta + linear @ theta

    value = objective(theta)
    for _ in range(100):
        p = expit(-(edges @ theta))
        gradient = ridge * theta + linear - p @ edges
        step = np.linalg.solve((edges * (p * (1 - p))[:, None]).T @ edges + ridge * np.eye(d), gradient)
        size = 1.0
        while (new := objective(theta - size * step)) > value - 1e-4 * size * (gradient @ step) and size > 1e-10:
            size /= 2
        if size <= 1e-10 or gradient @ step < 1e-12 * max(1.0, abs(value)):
            break
        theta, value = theta - size * step, new
    return lambda other: other @ theta


# ---- noisy least squares


def adassp(rows, signs, epsilon, delta, rng, *, rounds):
    """Least squares from noisy moments with an adaptive ridge (Wang 2018), in several rounds (Tang et al. 2023).

    A third of mu squared each goes to the least eigenvalue, the second moment, and the sums of rows times residuals,
    each residual being cut at 1. Exact accounting: less noise than the constants of the first paper have.
    """
    d = rows.shape[1]
    noise = np.sqrt(3) / distance(epsilon, delta)
    second = rows.T @ rows
    least = max(np.linalg.eigvalsh(second)[0] + noise * (rng.normal() - np.sqrt(np.log(6 / delta))), 0.0)
    ridge = max(0.0, noise * np.sqrt(d * np.log(2 * d**2 / FAILURE)) - least)
    upper = np.triu(rng.normal(0.0, noise, (d, d)))
    inverse = np.linalg.inv(second + upper + np.triu(upper, 1).T + ridge * np.eye(d))
    theta = np.zeros(d)
    for _ in range(rounds):
        residuals = np.clip(signs - rows @ theta, -1, 1)
        theta = theta + inverse @ (residuals @ rows + rng.normal(0.0, noise * np.sqrt(rounds), d))
    return lambda other: other @ theta


# ---- trees


def leaves(by_column, columns, values):
    """The leaf of each row: a bit for each level, which splits all rows at one value of one column."""
    leaf = np.zeros(by_column.shape[1], dtype=np.uint8)
    for level, (column, value) in enumerate(zip(columns, values, strict=True)):
        leaf |= (by_column[column] > value).view(np.uint8) << level
    return leaf


def dp_trees(scaled, signs, epsilon, delta, rng, *, trees, depth, rate):
    """Boosted trees whose splits are random and so cost nothing (after Maddock et al. 2022).

    Each tree releases the sums of logistic gradients, at most 1, and Hessians, at most 1/4, of its leaves.
    """
    noise = np.sqrt(trees * (1 + 1 / 16)) / distance(epsilon, delta)
    forest, scores, by_column = [], np.zeros(len(scaled)), np.ascontiguousarray(scaled.T)
    for _ in range(trees):
        columns, values = rng.integers(scaled.shape[1], size=depth), rng.uniform(-1, 1, depth)
        leaf = leaves(by_column, columns, values)
        p = expit(scores)
        gradients = np.bincount(leaf, p - (signs > 0), 2**depth) + rng.normal(0.0, noise, 2**depth)
        hessians = np.bincount(leaf, p * (1 - p), 2**depth) + rng.normal(0.0, noise, 2**depth)
        steps = -rate * gradients / (np.maximum(hessians, noise) + 1)
        scores += steps[leaf]
        forest.append((columns, values, steps))

    def score(other):
        by_column = np.ascontiguousarray(other.T)
        return sum(steps[leaves(by_column, columns, values)] for columns, values, steps in forest)

    return score


# ---- not private


def logistic_regression(scaled, signs, *, inverse_penalty):
    """Converged logistic regression on scaled columns."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=inverse_penalty, solver="newton-cholesky", max_iter=1000, tol=1e-6)
    return model.fit(scaled, signs).decision_function


def quadratic_regression(scaled, signs, *, inverse_penalty):
    """The same with squares and products of all pairs as further columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    solver = "newton-cholesky" if scaled.shape[1] <= 40 else "lbfgs"  # a Hessian of thousands of columns is too much
    model = LogisticRegression(C=inverse_penalty, solver=solver, max_iter=1000, tol=1e-4)
    pipe = make_pipeline(PolynomialFeatures(2, include_bias=False), model)
    return pipe.fit(scaled.astype(np.float32 if solver == "lbfgs" else float), signs).decision_function


def gradient_boosting(scaled, signs):
    """scikit-learn's histogram gradient boosting, as it is."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0).fit(scaled, signs).decision_function


def majority(scaled, signs):
    """The larger class, whatever the row."""
    return lambda other: np.full(len(other), float(signs.sum()))
