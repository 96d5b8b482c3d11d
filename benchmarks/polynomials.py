"""How far `log1p` and `cos` of feature maps are from the true values, in units in the last place.

On a million arguments each. The true values are balls of 200 bits that hold them for certain (Arb, through
python-flint), so that no error of the measure itself counts. Exits with 1 where an error is above one unit, or a
ball is too wide to tell.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, ctx

from measuring import keep, shortfalls
from radoboost.release.polynomials import COS_LIMIT, cos, log1p

WANTED = 1.0  # unit in the last place
_BITS = 200
_LARGEST = np.finfo(np.float64).max


def log1p_arguments(count: int, seed: int = 0) -> np.ndarray:
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


def cos_arguments(count: int, seed: int = 0) -> np.ndarray:
    """Arguments of all sizes up to 2**20, and the float64 nearest to multiples of pi / 2, or one beside them."""
    rng = np.random.default_rng(seed)
    share = count // 5
    sign = rng.choice([-1.0, 1.0], size=share)
    special = [0.0, -0.0, 5e-324, -(2.0**-1022), COS_LIMIT, -COS_LIMIT, np.pi / 4, 3 * np.pi / 4]
    return np.concatenate(
        [
            np.array(special),
            sign * _any_float(rng, share, COS_LIMIT),
            rng.uniform(-COS_LIMIT, COS_LIMIT, share),
            rng.uniform(-8.0, 8.0, share // 2),
            rng.uniform(np.pi / 2 - 1.0, 1.0, share - share // 2),  # around pi / 4, where errors are largest
            near_multiples(rng.choice(N_MULTIPLES, size=2 * share, replace=False) + 1),
        ]
    )


N_MULTIPLES = math.floor(COS_LIMIT / (math.pi / 2))


def near_multiples(numbers: np.ndarray) -> np.ndarray:
    """The float64 nearest to these multiples of pi / 2."""
    ctx.prec = _BITS
    half = arb.pi() / 2
    return np.array([float(int(n) * half) for n in numbers])


def _any_float(rng: np.random.Generator, count: int, largest: float) -> np.ndarray:
    """Floats of any bits: about as many of each power of two, and as many subnormal ones."""
    top = int(np.float64(largest).view(np.int64))
    return rng.integers(0, top, count).view(np.float64)


def _neighbours(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return (x.view(np.int64) + rng.integers(-3, 4, len(x))).view(np.float64)


def largest_error(arguments: np.ndarray, values: np.ndarray, truth: Callable[[arb], arb]) -> tuple[float, float]:
    """The largest error in units in the last place of the true value, rounded up, and where it is."""
    ctx.prec = _BITS
    worst, place = 0.0, 0.0
    for x, y in zip(arguments.tolist(), values.tolist(), strict=True):
        ball = truth(arb(x))
        nearest = abs(float(ball.mid()))
        unit = math.ulp(nearest)
        if math.frexp(nearest)[0] == 0.5 and unit > 5e-324 and abs(ball) < nearest:
            unit /= 2  # just below a power of two, to which it was rounded
        error = abs(ball - arb(y)) / arb(unit)
        bound = float(error.mid()) + float(error.rad()) if error.is_finite() else math.inf
        if bound > worst:
            worst, place = bound, x
    return worst, place


FUNCTIONS = {
    "log1p": (log1p, log1p_arguments, lambda x: x.log1p()),
    "cos": (cos, cos_arguments, lambda x: x.cos()),
}


def measure(name: str, count: int) -> dict[str, Any]:
    """The largest error of a function on at least so many arguments."""
    function, arguments, truth = FUNCTIONS[name]
    x = arguments(count)
    if name == "cos" and count >= N_MULTIPLES:
        x = np.concatenate([x, near_multiples(np.arange(1, N_MULTIPLES + 1))])
    error, place = largest_error(x, function(x), truth)
    return {"function": name, "arguments": len(x), "largest_error_in_units": error, "at": place.hex(), "wanted": WANTED}


def main() -> None:
    """Measure both, on a million arguments each or as many as the first argument says."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    results = [measure(name, count) for name in FUNCTIONS]
    for result in results:
        print("{function}: {largest_error_in_units:.4f} units on {arguments:,} arguments, at {at}".format(**result))
    keep("polynomials", results)
    errors = {str(result["function"]): result["largest_error_in_units"] for result in results}
    shortfalls([f"{name} errs by {error} units" for name, error in errors.items() if not error <= WANTED])


if __name__ == "__main__":
    main()
