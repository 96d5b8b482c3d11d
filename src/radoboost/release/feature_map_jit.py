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

from radoboost.release import exact_math
from radoboost.release.exact_math import LN2_HIGH, LN2_LOW, LOG_SERIES

if TYPE_CHECKING:
    from radoboost.release.feature_map import FeatureMap

_BLOCK_ROWS = 128  # whose inputs stay in the cache
_CONVERTED_ROWS = 1 << 15  # that are made float64 at a time
_ONE, _ROOT_HALF, _FRACTION, _HIGH_HALF = (
    np.int64(bits) for bits in (exact_math.ONE, exact_math.ROOT_HALF, exact_math.FRACTION, exact_math.HIGH_HALF)
)
_L23, _L21, _L19, _L17, _L15, _L13, _L11, _L9, _L7, _L5, _L3 = LOG_SERIES

_JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def compiled_map_blocks(feature_map: "FeatureMap", values: NDArray[Any], step: int) -> Iterator[NDArray[np.float64]]:
    """The outputs column-first, `step` rows at a time, all in the same place."""
    arrays, outputs = prepare_map_arrays(feature_map), np.empty((len(feature_map.terms), 0))
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
def prepare_map_arrays(feature_map: "FeatureMap") -> tuple[NDArray[Any], ...]:
    """The map as arrays, as `fill` takes them."""
    inputs, factors = feature_map.inputs, feature_map.factors
    columns = {name: k for k, name in enumerate(feature_map.input_names)}
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
    return (
        np.array([columns[entry.name] for entry in inputs]),
        np.array(constants, dtype=np.float64),
        np.cumsum([0, *(len(entry.levels) for entry in inputs)]),
        np.array([level for entry in inputs for level in entry.levels], dtype=np.float64),
        np.array(feature_map.degrees),
        np.cumsum([0, *map(len, factors)]),
        np.array([place for places in factors for place in places]),
        np.array([term.factor for term in feature_map.terms], dtype=np.float64),
    )


def _map_array(kind: Any, dimensions: int) -> Any:
    return types.Array(kind, dimensions, "C", readonly=True)


_FLOATS, _WHOLE = types.float64, types.int64


@njit(**_JIT)
def _scale_map_input(values, start, column, constants, v):  # type: ignore[no-untyped-def]
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
def _limit_map_input(v, limit):  # type: ignore[no-untyped-def]
    for i in range(len(v)):
        x = -limit if v[i] < -limit else v[i]
        v[i] = limit if x > limit else x


@njit(**_JIT)
def _level_map_input(v, levels):  # type: ignore[no-untyped-def]
    """The function that has the levels at equally spaced points, and is linear between them."""
    last = len(levels) - 2
    steps = (len(levels) - 1) / 2
    for i in range(len(v)):
        place = (v[i] + 1.0) * steps
        k = np.int64(place if place >= 0.0 else 0.0)
        k = min(k, np.int64(last))
        v[i] = levels[k] + (place - k) * (levels[k + 1] - levels[k])


@njit(**_JIT)
def _half_squares_for_log(f, upper, half, rest):  # type: ignore[no-untyped-def]
    """f^2 / 2 as the sum of two float64: that of the upper half of f, which is exact, and the rest."""
    bits, upper_bits = f.view(np.int64), upper.view(np.int64)
    for i in range(len(f)):
        upper_bits[i] = bits[i] & _HIGH_HALF
    for i in range(len(f)):
        half[i] = 0.5 * (upper[i] * upper[i])
        rest[i] = 0.5 * ((f[i] - upper[i]) * (f[i] + upper[i]))


@njit(**_JIT)
def _log_map_input(v, u, f, k, upper, half, rest):  # type: ignore[no-untyped-def]
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
    _half_squares_for_log(f, upper, half, rest)
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
def _legendre_map_rows(block, start, degree):  # type: ignore[no-untyped-def]
    """The polynomials of the degrees 2 to `degree` of the input at `start`, in the rows that follow it."""
    v = block[start]
    for k in range(1, degree):
        later, last = block[start + k], block[start + k - 1]
        a, b, c = np.float64(2 * k + 1), np.float64(k), np.float64(k + 1)
        if k == 1:
            for i in range(len(v)):
                later[i] = ((a * v[i]) * last[i] - b) / c
        else:
            before = block[start + k - 2]
            for i in range(len(v)):
                later[i] = ((a * v[i]) * last[i] - b * before[i]) / c


@njit(
    types.void(
        _map_array(_FLOATS, 2), _WHOLE, _map_array(_WHOLE, 1), _map_array(_FLOATS, 2), _map_array(_WHOLE, 1),
        _map_array(_FLOATS, 1),
        _map_array(_WHOLE, 1), _map_array(_WHOLE, 1), _map_array(_WHOLE, 1), _map_array(_FLOATS, 1), _FLOATS[:, ::1],
    ),
    **_JIT,
)  # fmt: skip
def fill(  # type: ignore[no-untyped-def]
    values, start, columns, constants, ends, levels, degrees, starts, places, factors, outputs
):
    """The outputs of rows of values from `start` on, column-first; the rest is of `prepare_map_arrays`."""
    d, n = outputs.shape
    scratch = np.empty((6, _BLOCK_ROWS))
    polynomials = np.empty((degrees.sum(), _BLOCK_ROWS))
    for first in range(0, n, _BLOCK_ROWS):
        b = min(_BLOCK_ROWS, n - first)
        s0, s1, s2 = scratch[0, :b], scratch[1, :b], scratch[2, :b]
        s3, s4, s5 = scratch[3, :b], scratch[4, :b], scratch[5, :b]
        block, place = polynomials[:, :b], 0
        for k in range(len(columns)):
            v = block[place]
            _scale_map_input(values, start + first, columns[k], constants[k], v)
            if constants[k, 7]:
                _log_map_input(v, s0, s1, s2, s3, s4, s5)
            _limit_map_input(v, constants[k, 6])
            if ends[k] < ends[k + 1]:
                _level_map_input(v, levels[ends[k] : ends[k + 1]])
            _legendre_map_rows(block, place, degrees[k])
            place += degrees[k]
        for j in range(d):
            target, factor, at, count = outputs[j, first : first + b], factors[j], starts[j], starts[j + 1] - starts[j]
            x = block[places[at]]
            if count == 1:
                for i in range(b):
                    target[i] = x[i] * factor
                continue
            y = block[places[at + 1]]
            if count == 2:
                for i in range(b):
                    target[i] = (x[i] * y[i]) * factor
                continue
            z = block[places[at + 2]]
            if count == 3:
                for i in range(b):
                    target[i] = ((x[i] * y[i]) * z[i]) * factor
                continue
            target[:] = x
            for k in range(at + 1, starts[j + 1]):
                more = block[places[k]]
                for i in range(b):
                    target[i] = target[i] * more[i]
            for i in range(b):
                target[i] = target[i] * factor
