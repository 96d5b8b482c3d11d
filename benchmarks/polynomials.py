"""How far `log1p` of feature maps is from the true values, in units in the last place.

On a million arguments. The true values are balls of 200 bits that hold them for certain (Arb, through
python-flint), so that no error of the measure itself counts. Exits with 1 where an error is above one unit, or a
ball is too wide to tell.
"""

import math
import sys
from typing import Any

import numpy as np
from flint import arb, ctx

from measuring import keep, shortfalls
from radoboost.release.exact_math import exact_log1p

WANTED = 1.0  # unit in the last place
_BITS = 200
_LARGEST = np.finfo(np.float64).max


def log_arguments(count: int, seed: int = 0) -> np.ndarray:
    """Arguments of all sizes: subnormal, tiny, near 1, huge, and where another power of two begins."""
    rng = np.random.default_rng(seed)
    share = count // 5
    ends = np.sqrt(2.0) * 2.0 ** rng.integers(0, 60, share) - 1.0
    special = [0.0, 5e-324, 2.0**-1022, 2.0**-53, 1.0, 2.0**53, 2.0**54 - 1, _LARGEST, np.sqrt(2.0) - 1.0]
    return np.concatenate(
        [
            np.array(special),
            _any_float(rng, share, _LARGEST),
            2.0 ** rng.uniform(-60.0, 60.0, share),
            rng.uniform(0.0, 4.0, share),
            rng.uniform(0.35, 0.45, share),
            _neighbours(rng, ends),
        ]
    )


def _any_float(rng: np.random.Generator, count: int, largest: float) -> np.ndarray:
    """Floats of any bits: about as many of each power of two, and as many subnormal ones."""
    top = int(np.float64(largest).view(np.int64))
    return rng.integers(0, top, count).view(np.float64)


def _neighbours(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return (x.view(np.int64) + rng.integers(-3, 4, len(x))).view(np.float64)


def largest_error(arguments: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The largest error in units in the last place of the true value, rounded up, and where it is."""
    ctx.prec = _BITS
    worst, place = 0.0, 0.0
    for x, y in zip(arguments.tolist(), values.tolist(), strict=True):
        ball = arb(x).log1p()
        nearest = abs(float(ball.mid()))
        unit = math.ulp(nearest)
        if math.frexp(nearest)[0] == 0.5 and unit > 5e-324 and abs(ball) < nearest:
            unit /= 2  # just below a power of two, to which it was rounded
        error = abs(ball - arb(y)) / arb(unit)
        bound = float(error.mid()) + float(error.rad()) if error.is_finite() else math.inf
        if bound > worst:
            worst, place = bound, x
    return worst, place


def measure(count: int) -> dict[str, Any]:
    """The largest error on at least so many arguments."""
    x = log_arguments(count)
    error, place = largest_error(x, exact_log1p(x))
    return {
        "function": "log1p",
        "arguments": len(x),
        "largest_error_in_units": error,
        "at": place.hex(),
        "wanted": WANTED,
    }


def main() -> None:
    """Measure it on a million arguments, or as many as the first argument says."""
    result = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    print("{function}: {largest_error_in_units:.4f} units on {arguments:,} arguments, at {at}".format(**result))
    keep("polynomials", [result])
    error = result["largest_error_in_units"]
    shortfalls([] if error <= WANTED else [f"log1p errs by {error} units"])


if __name__ == "__main__":
    main()
