"""Rados drawn from released moments: they follow from released numbers alone, so that they cost nothing (M9)."""

import secrets

import numpy as np
from numpy.typing import NDArray


def draw_rados(
    total: NDArray[np.float64], second: NDArray[np.float64], a: NDArray[np.float64], n_rados: int
) -> NDArray[np.float64]:
    """Rados with half of `total` as mean and a quarter of `second` as covariance, in columns before whitening by `a`.

    With more rados than columns the sample has exactly these moments, up to rounding; with fewer, the law that they are
    drawn from has them.

    >>> draw_rados(np.ones(2), np.eye(2), np.eye(2), 50).mean(axis=0).round(9).tolist()
    [0.5, 0.5]
    """
    d = len(total)
    values, vectors = np.linalg.eigh(second / 4)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(secrets.randbits(128)).standard_normal((n_rados, d))
    if n_rados > d:
        draws -= draws.mean(axis=0)
        draws = np.linalg.solve(np.linalg.cholesky(draws.T @ draws / n_rados), draws.T).T
    return np.asarray(np.linalg.solve(a, (total[:, None] / 2) + root @ draws.T).T)
