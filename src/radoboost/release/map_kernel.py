"""Feature maps, compiled: the bits of maps and polynomials, many times faster.

Rows are taken in blocks whose scratch stays in the cache. Every inner loop runs over the rows of a block, so that the
lanes of a vector are rows; within a row the order of operations is that of docs/exactness.md, and nothing is fused.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from radoboost.release import polynomials
from radoboost.release.polynomials import COS_LIMIT, COS_SERIES, HALF_PI, LN2_HIGH, LN2_LOW, LOG_SERIES, SIN_SERIES

if TYPE_CHECKING:
    from radoboost.release.maps import FeatureMap

_LINEAR, _PRODUCT, _HAT, _COSINE = range(4)
_CODES = {"linear": _LINEAR, "product": _PRODUCT, "hat": _HAT, "cosine": _COSINE}
_BLOCK_ROWS = 128  # whose inputs stay in the cache
_CONVERTED_ROWS = 1 << 15  # that are made float64 at a time
_ONE, _ROOT_HALF, _FRACTION, _HIGH_HALF = (
    np.int64(bits) for bits in (polynomials.ONE, polynomials.ROOT_HALF, polynomials.FRACTION, polynomials.HIGH_HALF)
)
_TWO_OVER_PI = polynomials.TWO_OVER_PI
_PI1, _PI2, _PI3, _PI4 = HALF_PI
_C18, _C16, _C14, _C12, _C10, _C8, _C6, _C4 = COS_SERIES
_S17, _S15, _S13, _S11, _S9, _S7, _S5 = SIN_SERIES
_L23, _L21, _L19, _L17, _L15, _L13, _L11, _L9, _L7, _L5, _L3 = LOG_SERIES

_JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def blocks(feature_map: "FeatureMap", values: NDArray[Any], step: int) -> Iterator[NDArray[np.float64]]:
    """The outputs column-first, `step` rows at a time, all in the same place."""
    arrays, outputs = prepare(feature_map), np.empty((len(feature_map.terms), 0))
    for first in range(0, len(values), _CONVERTED_ROWS):
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
            part = np.ascontiguousarray(values[first : first + _CONVERTED_ROWS], dtype=np.float64)
        for start in range(0, len(part), step):
            count = min(step, len(part) - start)
            if outputs.shape[1] != count:
                outputs = np.empty((len(outputs), count))
            fill(part, start, *arrays, outputs)
            yield outputs


@lru_cache(maxsize=8)
def prepare(feature_map: "FeatureMap") -> tuple[NDArray[Any], ...]:
    """The map as arrays, as `fill` takes them."""
    inputs, directions, terms = feature_map.inputs, feature_map.directions, feature_map.terms
    columns = {name: k for k, name in enumerate(feature_map.input_names)}
    labels = [entry.label for entry in inputs] + [entry.name for entry in directions]
    place = {label: k for k, label in enumerate(labels)}
    constants = [
        (
            -np.inf if entry.low is None else entry.low,
            np.inf if entry.high is None else entry.high,
            entry.shift, entry.factor, entry.divisor, entry.offset,
            np.inf if entry.limit is None else entry.limit,
            entry.log,
        )
        for entry in inputs
    ]  # fmt: skip
    cosines = [term for term in terms if term.kind == "cosine"]
    numbers = [(term.phase, term.factor) if term.kind == "cosine" else (term.knot, term.width) for term in terms]
    factors, rows = [], iter(range(len(cosines)))
    for term in terms:
        of = [place[label] for label in term.inputs] or [next(rows)]  # for a cosine, the row of its weights
        factors.append((_CODES[term.kind], of[0], of[-1]))
    width = len(inputs)
    return (
        np.array([columns[entry.name] for entry in inputs]),
        np.array(constants, dtype=np.float64),
        np.cumsum([0, *(len(entry.levels) for entry in inputs)]),
        np.array([level for entry in inputs for level in entry.levels], dtype=np.float64),
        np.array([entry.weights for entry in directions], dtype=np.float64).reshape(len(directions), width),
        np.array([(entry.offset, entry.limit) for entry in directions], dtype=np.float64).reshape(-1, 2),
        np.array(factors),
        np.array(numbers, dtype=np.float64),
        np.array([term.weights for term in cosines], dtype=np.float64).reshape(len(cosines), width),
    )


def _array(kind: Any, dimensions: int) -> Any:
    return types.Array(kind, dimensions, "C", readonly=True)


_FLOATS, _WHOLE = types.float64, types.int64


@njit(**_JIT)
def _scale(values, start, column, constants, v):  # type: ignore[no-untyped-def]
    """One input of some rows: clipped and scaled."""
    low, high, shift, factor, divisor, offset = (
        constants[0], constants[1], constants[2], constants[3], constants[4], constants[5]
    )  # fmt: skip
    for i in range(len(v)):
        v[i] = values[start + i, column]
    for i in range(len(v)):
        x = v[i]
        x = x if abs(x) < np.inf else np.nan
        x = low if x < low else x
        x = high if x > high else x
        v[i] = (((x + 0.0) - shift) * factor) / divisor - offset


@njit(**_JIT)
def _limit(v, limit):  # type: ignore[no-untyped-def]
    for i in range(len(v)):
        x = -limit if v[i] < -limit else v[i]
        v[i] = limit if x > limit else x


@njit(**_JIT)
def _level(v, levels):  # type: ignore[no-untyped-def]
    """The function that has the levels at equally spaced points, and is linear between them."""
    last = len(levels) - 2
    steps = (len(levels) - 1) / 2
    for i in range(len(v)):
        place = (v[i] + 1.0) * steps
        k = np.int64(place if place >= 0.0 else 0.0)
        k = min(k, np.int64(last))
        v[i] = levels[k] + (place - k) * (levels[k + 1] - levels[k])


@njit(**_JIT)
def _half_squares(f, upper, half, rest):  # type: ignore[no-untyped-def]
    """f^2 / 2 as the sum of two float64: that of the upper half of f, which is exact, and the rest."""
    bits, upper_bits = f.view(np.int64), upper.view(np.int64)
    for i in range(len(f)):
        upper_bits[i] = bits[i] & _HIGH_HALF
    for i in range(len(f)):
        half[i] = 0.5 * (upper[i] * upper[i])
        rest[i] = 0.5 * ((f[i] - upper[i]) * (f[i] + upper[i]))


@njit(**_JIT)
def _log(v, u, f, k, upper, half, rest):  # type: ignore[no-untyped-def]
    """Replace each number by log1p of its magnitude, with its sign; the others are scratch."""
    for i in range(len(v)):
        u[i] = 1.0 + abs(v[i])
    bits, fractions = u.view(np.int64), f.view(np.int64)
    for i in range(len(v)):
        moved = bits[i] + (_ONE - _ROOT_HALF)
        k[i] = np.float64((moved >> 52) - 1023)
        fractions[i] = (moved & _FRACTION) + _ROOT_HALF
    for i in range(len(v)):
        f[i] = abs(v[i]) if k[i] == 0.0 else f[i] - 1.0
    _half_squares(f, upper, half, rest)
    for i in range(len(v)):
        x = abs(v[i])
        lost = x - (u[i] - 1.0) if x < 1.0 else 1.0 - (u[i] - x)
        s = f[i] / (2.0 + f[i])
        z = s * s
        p = ((((_L23 * z + _L21) * z + _L19) * z + _L17) * z + _L15) * z + _L13
        p = ((((p * z + _L11) * z + _L9) * z + _L7) * z + _L5) * z + _L3
        small = s * ((half[i] + rest[i]) + p * z) - rest[i]
        small = small + (k[i] * LN2_LOW + (0.0 if k[i] == 0.0 else lost / u[i]))
        high = k[i] * LN2_HIGH
        first = high + f[i]
        second = first - half[i]
        small = small + (((high - first) + f[i]) + ((first - second) - half[i]))
        v[i] = np.copysign(second + small if x < np.inf else x, v[i])


@njit(**_JIT)
def _weigh(inputs, weights, total):  # type: ignore[no-untyped-def]
    """Sums of weighted inputs: four terms at a time, added one after another."""
    d = len(weights)
    total[:] = 0.0
    for k in range(0, d - 3, 4):
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        x0, x1, x2, x3 = inputs[k], inputs[k + 1], inputs[k + 2], inputs[k + 3]
        for i in range(len(total)):
            total[i] = (((total[i] + w0 * x0[i]) + w1 * x1[i]) + w2 * x2[i]) + w3 * x3[i]
    for k in range(d // 4 * 4, d):
        w0, x0 = weights[k], inputs[k]
        for i in range(len(total)):
            total[i] += w0 * x0[i]


@njit(**_JIT)
def _cos(x, factor, n, high, low, upper, half, rest):  # type: ignore[no-untyped-def]
    """Replace each number by factor times its cosine; the others are scratch."""
    for i in range(len(x)):
        y = -COS_LIMIT if x[i] < -COS_LIMIT else x[i]
        y = COS_LIMIT if y > COS_LIMIT else y
        m = np.rint(y * _TWO_OVER_PI)
        t = y - m * _PI1
        a = m * _PI2
        r = t - a
        part = t - r
        r_rest = (t - (r + part)) + (part - a)
        b = m * _PI3
        q = r - b
        part = r - q
        q_rest = (r - (q + part)) + (part - b)
        lost = (r_rest + q_rest) - m * _PI4
        h = q + lost
        n[i], high[i], low[i] = m - 4.0 * np.floor(m * 0.25), h, (q - h) + lost
    _half_squares(high, upper, half, rest)
    for i in range(len(x)):
        r, below, h = high[i], low[i], half[i]
        z = r * r
        p = ((((((_C18 * z + _C16) * z + _C14) * z + _C12) * z + _C10) * z + _C8) * z + _C6) * z + _C4
        one = 1.0 - h
        cosine = one + (((1.0 - one) - h) + ((z * z) * p - (rest[i] + r * below)))
        cube = r * z
        p = (((((_S17 * z + _S15) * z + _S13) * z + _S11) * z + _S9) * z + _S7) * z + _S5
        sine = r + ((cube * (z * p) + below * (1.0 - 0.5 * z)) - cube / 6.0)
        value = sine if n[i] == 1.0 or n[i] == 3.0 else cosine
        x[i] = factor * (-value if n[i] == 1.0 or n[i] == 2.0 else value)


@njit(
    types.void(
        _array(_FLOATS, 2), _WHOLE, _array(_WHOLE, 1), _array(_FLOATS, 2), _array(_WHOLE, 1), _array(_FLOATS, 1),
        _array(_FLOATS, 2), _array(_FLOATS, 2), _array(_WHOLE, 2), _array(_FLOATS, 2), _array(_FLOATS, 2),
        _FLOATS[:, ::1],
    ),
    **_JIT,
)  # fmt: skip
def fill(  # type: ignore[no-untyped-def]
    values, start, columns, constants, ends, levels, directions, offsets, terms, numbers, waves, outputs
):
    """The outputs of rows of values from `start` on, column-first; what stands between them is of `prepare`."""
    d, n = outputs.shape
    n_inputs, n_all = len(columns), len(columns) + len(directions)
    scratch = np.empty((6, _BLOCK_ROWS))
    block = np.empty((n_all, _BLOCK_ROWS))
    for first in range(0, n, _BLOCK_ROWS):
        b = min(_BLOCK_ROWS, n - first)
        s0, s1, s2 = scratch[0, :b], scratch[1, :b], scratch[2, :b]
        s3, s4, s5 = scratch[3, :b], scratch[4, :b], scratch[5, :b]
        for k in range(n_inputs):
            v = block[k, :b]
            _scale(values, start + first, columns[k], constants[k], v)
            if constants[k, 7]:
                _log(v, s0, s1, s2, s3, s4, s5)
            _limit(v, constants[k, 6])
            if ends[k] < ends[k + 1]:
                _level(v, levels[ends[k] : ends[k + 1]])
        for j in range(n_all - n_inputs):
            v, offset = block[n_inputs + j, :b], offsets[j, 0]
            _weigh(block, directions[j], v)
            for i in range(b):
                v[i] = v[i] - offset
            _limit(v, offsets[j, 1])
        for j in range(d):
            target, kind = outputs[j, first : first + b], terms[j, 0]
            if kind == _COSINE:
                _weigh(block, waves[terms[j, 1]], target)
                phase = numbers[j, 0]
                for i in range(b):
                    target[i] = target[i] + phase
                _cos(target, numbers[j, 1], s0, s1, s2, s3, s4, s5)
                continue
            x, y = block[terms[j, 1], :b], block[terms[j, 2], :b]
            if kind == _PRODUCT:
                for i in range(b):
                    target[i] = x[i] * y[i]
            elif kind == _LINEAR:
                target[:] = x
            else:
                knot, width = numbers[j, 0], numbers[j, 1]
                for i in range(b):
                    t = 1.0 - abs(x[i] - knot) / width
                    target[i] = 0.0 if t < 0.0 else t
