"""Exact statistics of values that lie on a CUDA device: extremes there, and sums of digits, put together here.

A column's values are cut into four digits of 21 bits, by the largest of them: 83 bits in all. The few values that have
bits below that come back as a list, and are added one by one. Where there are many, or a column is of extreme size,
values are copied and surveyed by the engine of this machine.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.engines import cpu_engine
from radoboost.holder.engines.cuda_device import Device
from radoboost.holder.engines.exact import exact_sums
from radoboost.holder.grid import EXACT_UNIT, ExactSums

# These are those of cuda_survey.cu.
_THREADS, _SUMS = 256, 11
_FIRST_BITS, _DIGIT_BITS, _DIGITS = 20, 21, 4

_MOST_BLOCK_ROWS = 1 << 18  # whose sums of products, below 2**44 each, fit 64 bits
_LEAST_BLOCK_ROWS = 256
_BLOCKS = 8  # of a processor, about
_MOST_ODD = 1 << 16  # values of a batch that are added one by one
_EXPONENTS = 900  # beyond that, powers of two might not be numbers
_COPIED_VALUES = 1 << 23  # at a time
_i32, _i64, _u32 = np.int32, np.int64, np.uint32


class CudaSurvey:
    """A survey of values, here or there."""

    def __init__(self, device: Device, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> None:
        self._device, self._low, self._high, self._moments = device, low, high, moments
        self._sums, self._here = ExactSums(len(low)), cpu_engine().survey(low, high, moments=moments)

    def add(self, values: Any) -> bool:
        if not self._device.holds(values):
            return self._here.add(values)
        if not len(values):
            return True
        there, part = self._device.take(values), ExactSums(len(self._low), n_rows=len(values))
        kind = str(values.dtype).rpartition(".")[2]
        low, high = self._device.put(self._low), self._device.put(self._high)
        found = self._launched(f"extremes_{kind}", there, low, high, width=3, dtype=np.float64, shared_bytes=32)
        if (found[:, :, 2] != 0).any():
            return False
        part.lowest, part.highest = found[:, :, 0].min(axis=0), found[:, :, 1].max(axis=0)
        if self._moments and not self._take_sums(part, kind, there, low, high):
            rows = max(1, _COPIED_VALUES // len(self._low))
            return all(self._here.add(self._device.get(there[i : i + rows])) for i in range(0, len(values), rows))
        self._sums = self._sums.merge(part)
        return True

    def _take_sums(self, part: ExactSums, kind: str, there: Any, low: Any, high: Any) -> bool:
        """Exact sums, given the extremes; False where there are too many values that do not fit digits."""
        exponents = np.frexp(np.maximum(np.abs(part.lowest), np.abs(part.highest)))[1]
        if (np.abs(exponents) > _EXPONENTS).any():
            return False
        device = self._device
        factors, n_odd = device.put(np.ldexp(1.0, _FIRST_BITS - exponents)), device.zeros((1,), np.uint32)
        values, columns = device.empty((_MOST_ODD,), np.float64), device.empty((_MOST_ODD,), np.int32)
        last = factors, n_odd, _u32(_MOST_ODD), values, columns
        found = self._launched(f"digits_{kind}", there, low, high, width=_SUMS, dtype=np.int64,
                               shared_bytes=8 * _SUMS, last=last)  # fmt: skip
        count = int(device.get(n_odd)[0])
        if count > _MOST_ODD:
            return False
        upper, lower = (found >> 32).sum(axis=0).tolist(), (found & 0xFFFFFFFF).sum(axis=0).tolist()
        unit = _FIRST_BITS + (_DIGITS - 1) * _DIGIT_BITS + EXACT_UNIT  # the last digit counts 2**(exponent - 83)
        for k, (above, below) in enumerate(zip(upper, lower, strict=True)):
            numbers = [(a << 32) + b for a, b in zip(above, below, strict=True)]
            shift = int(exponents[k]) - unit
            part.sums[k] = _joined(numbers[:_DIGITS]) << shift
            part.squares[k] = _joined(numbers[_DIGITS:]) << 2 * shift
        if count:
            odd, of = device.get(values)[:count], device.get(columns)[:count]
            for k in np.unique(of).tolist():
                total, squares = exact_sums(odd[of == k])
                part.sums[k] += total
                part.squares[k] += squares
        return True

    def _launched(
        self, name: str, there: Any, low: Any, high: Any, *, width: int, dtype: Any, shared_bytes: int, last: Any = None
    ) -> NDArray[Any]:
        """What every block of a kernel found: an array (blocks, columns, width)."""
        device, (n, d) = self._device, there.shape
        panels = -(-d // _THREADS)
        rows = -(-n // max(1, _BLOCKS * device.n_processors // panels))
        rows = min(max(rows, _LEAST_BLOCK_ROWS), _MOST_BLOCK_ROWS)
        blocks = -(-n // rows)
        found = device.empty((blocks, d, width), dtype)
        factors, others = (() if last is None else last[:1]), (() if last is None else last[1:])
        device.launch(name, (blocks, panels, 1), _THREADS, shared_bytes * _THREADS,
                      there, _i64(n), _i32(d), _i64(rows), low, high, *factors, found, *others)  # fmt: skip
        return device.get(found)

    def result(self) -> ExactSums:
        return self._sums.merge(self._here.result())


def _joined(digits: list[int]) -> int:
    """One number of sums of digits, the first of which count most."""
    total = 0
    for digit in digits:
        total = (total << _DIGIT_BITS) + digit
    return total
