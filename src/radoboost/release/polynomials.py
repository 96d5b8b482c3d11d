"""log(1 + x) and cos(x) with defined bits: feature maps must give a row the same values on every machine.

The libraries that NumPy calls for these differ in their last bits from one version and processor to another. Here every
operation is one of IEEE 754 on float64, or on its bits as an integer, in a fixed order and element by element: no
multiplication is fused with an addition, and no element depends on another. Both are within 0.75 units in the last
place of the true value. docs/exactness.md specifies them for another machine or language, and says why the error is so
small.
"""

import math

import numpy as np
from numpy.typing import NDArray

COS_LIMIT = 2.0**20  # arguments beyond it count as it
TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
# pi / 2 in four parts: the first three have 33 bits at most, so that their products with whole numbers up to 2**20 are
# exact; their sum is pi / 2 but for less than 2**-159.
HALF_PI = tuple(
    float.fromhex(part) for part in ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2ep-69", "0x1.b839a252049c1p-104")
)
LN2_HIGH = float.fromhex("0x1.62e42fefa38p-1")  # 42 bits: times an exponent it is exact
LN2_LOW = float.fromhex("0x1.ef35793c7673p-45")
# Each is the float64 nearest to the term of the series: 1 / n! with its sign, or 2 / n.
COS_SERIES = tuple((-1) ** (n // 2) / math.factorial(n) for n in range(18, 2, -2))
SIN_SERIES = tuple((-1) ** (n // 2) / math.factorial(n) for n in range(17, 3, -2))
LOG_SERIES = tuple(2 / n for n in range(23, 1, -2))
ONE = 0x3FF << 52  # the bits of 1.0
ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of the float64 nearest to sqrt(1/2)
FRACTION = (1 << 52) - 1
HIGH_HALF = ~((1 << 27) - 1)  # leaves 26 bits of the 53: the square of such a number is exact


@np.errstate(all="ignore")
def log1p(x: NDArray[np.float64]) -> NDArray[np.float64]:
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
    half_square, half_square_rest = _half_square(f)
    s = f / (2.0 + f)
    z = s * s
    series = _horner(z, LOG_SERIES) * z
    small = s * ((half_square + half_square_rest) + series) - half_square_rest
    small = small + (k * LN2_LOW + np.where(near, 0.0, rest / u))
    high = k * LN2_HIGH
    first = high + f
    second = first - half_square
    small = small + (((high - first) + f) + ((first - second) - half_square))
    return np.where(x < np.inf, second + small, x)


@np.errstate(all="ignore")
def cos(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cosine of each x; one beyond 2**20 in magnitude counts as 2**20, and NaN is NaN.

    With n the whole number nearest to x / (pi / 2), it is the cosine or the sine of r = x - n pi / 2, with its sign. r
    is the sum of two float64: near a multiple of pi / 2 one would not do.
    """
    x = np.minimum(np.maximum(x, -COS_LIMIT), COS_LIMIT)
    n = np.rint(x * TWO_OVER_PI)
    high, low = _reduced(x, n)
    quarter = n - 4.0 * np.floor(n * 0.25)
    odd = (quarter == 1.0) | (quarter == 3.0)
    value = np.where(odd, _sine(high, low), _cosine(high, low))
    return np.where((quarter == 1.0) | (quarter == 2.0), -value, value)


def _reduced(x: NDArray[np.float64], n: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x - n pi / 2 as the sum of two float64, the second at most half a unit of the first."""
    first, second, third, fourth = HALF_PI
    t = x - n * first  # exact
    a = n * second
    r = t - a
    r_rest = _difference_rest(t, a, r)
    b = n * third
    q = r - b
    q_rest = _difference_rest(r, b, q)
    rest = (r_rest + q_rest) - n * fourth
    high = q + rest
    return high, (q - high) + rest


def _difference_rest(a: NDArray[np.float64], b: NDArray[np.float64], d: NDArray[np.float64]) -> NDArray[np.float64]:
    """What rounding took from the difference d of a and b, exactly, whichever of them is larger."""
    part = a - d
    return (a - (d + part)) + (part - b)


def _cosine(r: NDArray[np.float64], low: NDArray[np.float64]) -> NDArray[np.float64]:
    """cos(r + low), for r up to pi / 4 and a little more: 1 - r^2/2 and a series."""
    half_square, half_square_rest = _half_square(r)
    z = r * r
    one = 1.0 - half_square
    rest = (1.0 - one) - half_square
    return one + (rest + ((z * z) * _horner(z, COS_SERIES) - (half_square_rest + r * low)))


def _sine(r: NDArray[np.float64], low: NDArray[np.float64]) -> NDArray[np.float64]:
    """sin(r + low), for r up to pi / 4 and a little more: r, a series, and low times 1 - r^2/2."""
    z = r * r
    cube = r * z
    return r + ((cube * (z * _horner(z, SIN_SERIES)) + low * (1.0 - 0.5 * z)) - cube / 6.0)


def _half_square(f: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """f^2 / 2 as the sum of two float64: that of the upper half of f, which is exact, and the rest."""
    upper = (f.view(np.int64) & HIGH_HALF).view(np.float64)
    return 0.5 * (upper * upper), 0.5 * ((f - upper) * (f + upper))


def _horner(z: NDArray[np.float64], series: tuple[float, ...]) -> NDArray[np.float64]:
    """The polynomial in z with these coefficients, the highest power first."""
    value = np.full_like(z, series[0])
    for coefficient in series[1:]:
        value = value * z + coefficient
    return value
