"""About how many rows each of more than two classes has, by noisy moments of whitened rows, and within which limits.

Whitened rows w have length 1, and a class is known by the sum b_k of its own; C is the second moment of all, which has
about the inverse H, and b the sum of all n. For the vector u = H b, products w'u are as near to 1 as linear functions
come, so b_k'u nearly counts class k. It is off by what is left, the sum of 1 - w'u over the class, which no amount of
rows makes smaller. But over all rows the squares of 1 - w'u add up to D = n - 2 b'u + u'C u, and those of what h_k = H
b_k leaves of the class, 1 or 0 less w'h_k, to n_k - c_k with c_k = 2 b_k'h_k - h_k'C h_k. With e_k = b_k'u +
h_k'(b - C u), whatever u and h_k are,

    n_k - e_k = sum over rows of (1 or 0, less w'h_k) (1 - w'u),

so that (n_k - e_k)^2 <= (n_k - c_k) D by the inequality of Cauchy and Schwarz. This bounds n_k from both sides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.release.spectra import HESSIAN_FLOOR, floor_noise, inverse_power, noise_floor

_SURE = 3.0  # standard deviations of noise by which limits are wider

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """Numbers of rows by class, which add up to the number of rows.

    `noise` has the standard deviations that noise gives them. They are also off by what linear functions of rows leave:
    the true numbers lie from `least` to `most`, but for noise of more than three deviations.
    """

    rows: Vector
    noise: Vector
    least: Vector
    most: Vector

    @classmethod
    def of(cls, blocks: Mapping[str, Vector], mechanism: Mapping[str, Any]) -> "ClassSizes | None":
        """By the blocks and the parameters of a release; None where noise may be all there is."""
        noise, counted = mechanism["noise"], mechanism["rows"]
        return class_sizes(
            blocks["moment:b"],
            blocks["moment:C2"],
            float(counted["good"]),
            sum_noise=float(noise["sum"]),
            second_noise=float(noise["whitened"]),
            # With a schema good rows are counted in two parts, each with its noise.
            rows_noise=float(noise["counts"]) * (2 if "unforeseen" in counted else 1) ** 0.5,
        )


def class_sizes(
    sums: Vector, second: Vector, n_rows: float, *, sum_noise: float, second_noise: float, rows_noise: float
) -> ClassSizes | None:
    """By sums of whitened rows, a row for each class, their second moment and their number, each with its noise."""
    # b: all, k: classes, d: columns, h: one vector for each class, u: the vector whose products with rows are nearly 1
    k, d = sums.shape
    floor = noise_floor(floor_noise({"whitened": second_noise, "sum": sum_noise}, "whitened"), d, HESSIAN_FLOOR)
    inverse = inverse_power(second, floor, 1.0)
    b, h = sums.sum(axis=0), sums @ inverse
    u = h.sum(axis=0)
    length, lengths = float(np.linalg.norm(u)), np.linalg.norm(h, axis=1)
    # What squares of noise add on average: of the sums, and of the second moment that was inverted.
    of_sums = sum_noise**2 * float(2 * np.trace(inverse) - (inverse * (second @ inverse)).sum())
    of_second = second_noise**2 / 2 * float(np.trace(inverse))
    e = sums @ u + h @ (b - second @ u) - of_sums - of_second * (h @ u)
    c = 2 * (sums * h).sum(axis=1) - ((h @ second) * h).sum(axis=1) - of_sums - of_second * lengths**2
    left = n_rows - 2 * float(b @ u) + float(u @ second @ u) + k * of_sums + of_second * length**2
    spread = (rows_noise**2 + 4 * k * (sum_noise * length) ** 2 + second_noise**2 * length**4) ** 0.5
    if n_rows <= _SURE * rows_noise or float(e.sum()) <= _SURE * sum_noise * length * k**0.5:
        return None
    left = max(left, 0.0) + _SURE * spread
    noise = np.sqrt(sum_noise**2 * (length**2 + k * lengths**2) + (second_noise * lengths * length) ** 2)
    half = np.sqrt(np.maximum(left**2 / 4 + (e - c) * left, 0.0))
    middle, sure = e + left / 2, _SURE * noise
    return ClassSizes(
        rows=np.asarray(n_rows * e / e.sum()),
        noise=np.asarray(noise),
        least=np.clip(middle - half - sure, 0.0, n_rows),
        most=np.clip(middle + half + sure, 0.0, n_rows + _SURE * rows_noise),
    )
