"""log(1 + x) and Legendre polynomials with defined bits: feature maps must give a row the same values everywhere.

The libraries that NumPy calls for a logarithm differ in their last bits from one version and processor to another. Here
every operation is one of IEEE 754 on float64, or on its bits as an integer, in a fixed order and element by element: no
multiplication is fused with an addition, and no element depends on another. The logarithm is within 0.75 units in the
last place of the true value. docs/exactness.md specifies both for another machine or language.
"""

import numpy as np
from numpy.typing import NDArray

LN2_HIGH = float.fromhex("0x1.62e42fefa38p-1")  # 42 bits: times an exponent it is exact
LN2_LOW = float.fromhex("0x1.ef35793c7673p-45")
# Each is the float64 nearest to the term of the series.
LOG_SERIES = tuple(2 / n for n in range(23, 1, -2))
ONE = 0x3FF << 52  # the bits of 1.0
ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of the float64 nearest to sqrt(1/2)
FRACTION = (1 << 52) - 1
HIGH_HALF = ~((1 << 27) - 1)  # leaves 26 bits of the 53: the square of such a number is exact


@np.errstate(all="ignore")
def exact_log1p(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(1 + x) of each x, which must be at least 0; infinity and NaN are returned as they are.

    1 + x is u + rest, exactly, and u is 2**k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2). Below sqrt(2) it is x
    itself that is f, so that nothing is lost near 0. With s = f / (2 + f), log(1 + f) = f - f^2/2 + s (f^2/2 + R), and
    R is a series in s^2.
    """
    u = 1.0 + x
    rest = np.where(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    bits = u.view(np.int64) + (ONE - ROOT_HALF)
    k = ((bits >> 52) - 1023).astype(np.float64)
    near = k == 0.0
    f = np.where(near, x, ((bits & FRACTION) + ROOT_HALF).view(np.float64) - 1.0)
    half_square, half_square_rest = _exact_half_square(f)
    s = f / (2.0 + f)
    z = s * s
    series = _horner_polynomial(z, LOG_SERIES) * z
    small = s * ((half_square + half_square_rest) + series) - half_square_rest
    small = small + (k * LN2_LOW + np.where(near, 0.0, rest / u))
    high = k * LN2_HIGH
    first = high + f
    second = first - half_square
    small = small + (((high - first) + f) + ((first - second) - half_square))
    return np.where(x < np.inf, second + small, x)


def exact_legendre(v: NDArray[np.float64], degree: int) -> list[NDArray[np.float64]]:
    """The Legendre polynomials of v of the degrees 1 to `degree`, by their recurrence.

    >>> [row.tolist() for row in exact_legendre(np.array([1.0, 0.5]), 3)]
    [[1.0, 0.5], [1.0, -0.125], [1.0, -0.4375]]
    """
    rows = [np.ones_like(v), v]
    for k in range(1, degree):
        rows.append((((2 * k + 1) * v) * rows[k] - k * rows[k - 1]) / (k + 1))
    return rows[1:]


def _exact_half_square(f: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """f^2 / 2 as the sum of two float64: that of the upper half of f, which is exact, and the rest."""
    upper = (f.view(np.int64) & HIGH_HALF).view(np.float64)
    return 0.5 * (upper * upper), 0.5 * ((f - upper) * (f + upper))


def _horner_polynomial(z: NDArray[np.float64], series: tuple[float, ...]) -> NDArray[np.float64]:
    """The polynomial in z with these coefficients, the highest power first."""
    value = np.full_like(z, series[0])
    for coefficient in series[1:]:
        value = value * z + coefficient
    return value
