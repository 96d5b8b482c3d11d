"""Exact sums of float64 by exponent: a bin has 128-bit sums of significands and of their squares."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from radoboost.holder.engines.vectors import add_moments, float_bits

BINS, _EXPONENTS = 512, 4  # a bin takes four neighbouring exponents
FOLD_ROWS = 1 << 16  # squares have 112 bits: this many fit a bin of 128 bits
_U = np.uint64

JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


@njit(**JIT)
def add_to_bin(x, bins):  # type: ignore[no-untyped-def]
    bits = float_bits(x)
    exponent = (bits >> _U(52)) & _U(2047)
    significand = bits & _U((1 << 52) - 1)
    if exponent == _U(0):
        exponent = _U(1)
    else:
        significand |= _U(1 << 52)
    place = exponent >> _U(2)
    add_moments(_U(bins.ctypes.data) + place * _U(32), significand, exponent & _U(3), bits >> _U(63))
    return place


def bin_sums(place: int, words: Sequence[int]) -> tuple[int, int]:
    """The sum in units of 2**-1074 and that of squares in units of 2**-2148, of a bin's four words."""
    low, high, square_low, square_high = words
    total = high << 64 | low
    total -= (total >> 127) << 128
    # A significand with exponent field e counts units of 2**(e - 1075), and e is at least 1.
    scale = 1 << _EXPONENTS * place
    return total * scale >> 1, (square_high << 64 | square_low) * scale**2 >> 2
