"""The law of rados without noise, if all records are known, and runs that tell which record was among them.

The other records are known; one record is either A or B. Of few records all subsets are counted. Of many, the rados
are taken to be normal, with half the sum of the edge vectors as mean and a quarter of their second moments as
covariance; that law forgets the digits of the values, so an adversary who can use them gets more.
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.keystream import MAX_RADOS
from radoboost.holder.signatures import AllSignatures, FeatureInterval, SignatureSet
from radoboost.lab.attacks.adversary_knowledge import inclusion_bits
from radoboost.lab.audits.canaries import Going
from radoboost.progress import Progress, silent

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Law = Callable[[Integers], Floats]

MOST_COUNTED = 16  # records whose subsets are counted
_CERTAIN = 1e9  # stands in for an infinite likelihood ratio
_MOST_BITS = 1 << 22  # of inclusion at a time, eight bytes each
_MOST_AT_ONCE = 1000  # runs whose subsets are counted one after the other


def counted_rado_law(edges: Integers, band: tuple[int, int] | None = None) -> Law:
    """Logarithm of how many subsets of these edge vectors have a rado as their sum, up to a constant.

    With a `band`, of the subsets that it allows; the protected column is then the first, and of -1 and +1.
    """
    # One word instead of a vector; that two sums share one has probability 2**-64 for every pair.
    weights = np.random.default_rng(0).integers(-(2**63), 2**63, edges.shape[1])
    sums = np.zeros(1, dtype=np.int64)
    for word in edges @ weights:
        sums = np.concatenate([sums, sums + word])
    sums.sort()

    def law(rados: Integers) -> Floats:
        words = rados @ weights
        counts = np.searchsorted(sums, words, "right") - np.searchsorted(sums, words, "left")
        if band is not None:  # all subsets with the same rado have an F of the same size
            sizes = (edges[:, 0] > 0).sum() - rados[..., 0]
            counts = np.where((band[0] <= sizes) & (sizes <= band[1]), counts, 0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(counts))

    return law


def normal_rado_law(edges: Integers, band: tuple[int, int] | None = None) -> Law:
    """Logarithm of the density of the normal law with a rado's mean and covariance, up to a constant.

    With a `band` the protected column, the first, has its exact law, and the other columns are normal given its value:
    twice a rado is the sum of all edge vectors less that of f_i u_i, with u_i the edge vector times its protected
    value, and f_i = +1 for the K rows of F and -1 for the others. With an axis more, `edges` are those of many tables.
    """
    values = edges.astype(np.float64)
    if band is None:
        return _normal_log_density(values.sum(axis=-2) / 2, _row_products(values) / 4)
    from scipy.stats import binom

    m, positive = edges.shape[-2], (edges[..., 0] > 0).sum(axis=-1)[..., None]
    turned = values[..., 1:] * values[..., :1]
    middle, lean = (part.sum(axis=-2)[..., None, :] / 2 for part in (values[..., 1:], turned))
    spread = turned - turned.mean(axis=-2, keepdims=True)
    within = _normal_log_density(np.zeros_like(turned[..., 0, :]), _row_products(spread) / 4 * m / max(m - 1, 1))
    low, high = band

    def law(rados: Integers) -> Floats:
        sizes = positive - rados[..., 0]
        share = (2 * sizes - m) / m  # the mean of f_i, given K
        width = np.sqrt(np.maximum(1 - share**2, 1e-12))[..., None]
        rest = within((rados[..., 1:] - middle + share[..., None] * lean) / width)
        logs = binom.logpmf(sizes, m, 0.5) + rest - np.log(width[..., 0]) * (rados.shape[-1] - 1)
        return np.where((low <= sizes) & (sizes <= high), logs, -np.inf)

    return law


def _row_products(rows: Floats) -> Floats:
    return np.asarray(np.swapaxes(rows, -1, -2) @ rows)


def _normal_log_density(mean: Floats, covariance: Floats) -> Callable[[NDArray[Any]], Floats]:
    sign, log_determinant = np.linalg.slogdet(covariance)
    if (sign <= 0).any():
        raise ArgumentError("the columns of these records depend on each other; leave some out")
    root = np.swapaxes(np.linalg.inv(np.linalg.cholesky(covariance)), -1, -2)
    middle, constant = mean[..., None, :], log_determinant[..., None] / 2

    def law(rados: NDArray[Any]) -> Floats:
        return np.asarray(-(((rados - middle) @ root) ** 2).sum(axis=-1) / 2 - constant)

    return law


# ---- runs


@dataclass(frozen=True)
class PlainTable:
    """The size of the table to attack; values are real, but for the first column of a band."""

    n_examples: int
    n_columns: int
    n_rados: int
    band: tuple[int, int] | None = None

    @property
    def counted(self) -> bool:
        return self.n_examples <= MOST_COUNTED

    @property
    def drawn(self) -> bool:
        """Whether rados are sums of records; with too many records they are drawn from the normal law itself."""
        return self.counted or self.n_examples * self.n_rados <= _MOST_BITS

    @property
    def at_a_time(self) -> int:
        """How many runs are made at once, in about a second."""
        rows = self.n_examples if self.drawn else self.n_columns
        most = min(MAX_RADOS // self.n_rados, _MOST_BITS // (rows * max(self.n_rados, self.n_columns)))
        return max(1, min(most, _MOST_AT_ONCE, _MOST_BITS >> rows) if self.counted else most)


def plain_likelihood_runs(
    of: PlainTable, *, runs: int, key: bytes | None = None, bar: Progress = silent, going: Going = lambda: True
) -> tuple[Floats, Floats]:
    """Log-likelihood ratios of A against B, of releases with A and of releases with B in its place.

    Every run is about another table, so that runs are independent. Subsets are drawn as crafting draws them.
    """
    if of.n_examples < (1 if of.counted else of.n_columns + 2):
        raise ArgumentError(
            f"{of.n_examples:,} records of {of.n_columns:,} columns are too few for this attack; take more records"
        )
    key = secrets.token_bytes(32) if key is None else key
    parts = [np.empty((2, 0))]
    for first in range(0, runs, of.at_a_time):
        if not going():
            break
        count = min(of.at_a_time, runs - first)
        parts.append(_likelihood_ratios(of, hashlib.sha256(b"radoboost/membership/%d/" % first + key).digest(), count))
        bar("releases with A and with B", first + count, runs)
    present, absent = np.concatenate(parts, axis=1)
    return present, absent


def _likelihood_ratios(of: PlainTable, key: bytes, count: int) -> Floats:
    """The ratios of `count` releases with A, and of as many with B, each pair of them of another table."""
    generator = np.random.default_rng(np.frombuffer(key, dtype=np.uint32))
    if not of.drawn:
        return _approximate_likelihood_ratios(of, generator, count)
    values = np.clip(generator.standard_normal((count, of.n_examples + 1, of.n_columns)), -4, 4) * 2**20
    rows = np.rint(values).astype(np.int64)
    if of.band is not None:
        rows[..., 0] = np.where(rows[..., 0] < 0, -1, 1)
    tables = [rows[:, :-1], np.concatenate([rows[:, :-2], rows[:, -1:]], axis=1)]  # A or B is the last record
    rados = [
        _exact_rado_sums(_rows_in_rados_of_tables(of, edges, hashlib.sha256(bytes([which]) + key).digest()), edges)
        for which, edges in enumerate(tables)
    ]
    if of.counted:
        laws = [tuple(counted_rado_law(edges, of.band) for edges in pair) for pair in zip(*tables, strict=True)]
        gains = np.array(
            [[a(sums) - b(sums) for (a, b), sums in zip(laws, of_table, strict=True)] for of_table in rados]
        )
    else:
        a, b = (normal_rado_law(edges, of.band) for edges in tables)
        gains = np.array([a(sums) - b(sums) for sums in rados])
    total = np.clip(gains, -_CERTAIN, _CERTAIN).sum(axis=2)
    return np.asarray(np.clip(total, -_CERTAIN, _CERTAIN))


def _approximate_likelihood_ratios(of: PlainTable, generator: np.random.Generator, count: int) -> Floats:
    """The ratios for so many records that a sum of them is as good as normal, and a band makes no difference."""
    m, d = of.n_examples, of.n_columns
    total = generator.standard_normal((count, d)) * np.sqrt(m)
    moments = [
        ((total + row) / 2, (np.eye(d) * m + row[:, :, None] * row[:, None, :]) / 4)
        for row in generator.standard_normal((2, count, d))
    ]
    a, b = (_normal_log_density(*moment) for moment in moments)
    ratios = []
    for mean, covariance in moments:
        root = np.swapaxes(np.linalg.cholesky(covariance), -1, -2)
        rados = mean[:, None] + generator.standard_normal((count, of.n_rados, d)) @ root
        ratios.append((a(rados) - b(rados)).sum(axis=1))
    return np.array(ratios)


def _rows_in_rados_of_tables(of: PlainTable, edges: Integers, key: bytes) -> NDArray[np.bool_]:
    signatures: SignatureSet = AllSignatures() if of.band is None else FeatureInterval(*of.band)
    count = len(edges) * of.n_rados
    bits = inclusion_bits(signatures.prepare(key, count, of.n_examples), count, of.n_examples)
    bits = bits.reshape(len(edges), of.n_rados, of.n_examples)
    return bits if of.band is None else bits ^ (edges[:, None, :, 0] > 0)


def _exact_rado_sums(inside: NDArray[np.bool_], edges: Integers) -> Integers:
    """Rados, exactly: sums of whole numbers stay below 2**53."""
    return np.asarray(inside.astype(np.float64) @ edges.astype(np.float64)).astype(np.int64)
