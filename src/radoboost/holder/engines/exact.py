"""Exact sums of float64, one exponent at a time, in plain NumPy."""

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.grid import EXACT_UNIT

_LIMB_BITS, _LIMBS = 18, 3  # 3 limbs of 18 bits hold a 53-bit significand; their products add up in int64


def exact_sums(x: NDArray[np.float64]) -> tuple[int, int]:
    """Sum of x in units of 2**-1074, sum of x**2 in units of 2**-2148."""
    fraction, exponent = np.frexp(x)
    significand = np.ldexp(fraction, 53).astype(np.int64)
    mask = (1 << _LIMB_BITS) - 1
    total, squares = 0, 0
    for e in np.unique(exponent).tolist():
        part = significand[exponent == e]
        limbs = [np.abs(part) >> (_LIMB_BITS * i) & mask for i in range(_LIMBS)]
        signs = np.sign(part)
        # frexp gives subnormal numbers exponents below the unit, with that many zero bits at the end
        shift = e - 53 - EXACT_UNIT
        total += _shifted(sum(int((signs * limb).sum()) << (_LIMB_BITS * i) for i, limb in enumerate(limbs)), shift)
        products = [
            int((limbs[i] * limbs[j]).sum()) << (_LIMB_BITS * (i + j)) for i in range(_LIMBS) for j in range(_LIMBS)
        ]
        squares += _shifted(sum(products), 2 * shift)
    return total, squares


def _shifted(value: int, shift: int) -> int:
    return value << shift if shift >= 0 else value >> -shift
