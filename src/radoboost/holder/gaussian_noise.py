"""Gaussian noise as whole numbers: round(scale * Z) for exact normal deviates Z, by comparing random words.

No float is drawn, and none is rounded, so a sum of integers plus this noise is the rounding of the continuous Gaussian
mechanism (N5), as far as the words are random (N8). The sampler is algorithm N of Karney, "Sampling exactly from the
normal distribution" (2016). Labels N1 .. N8 are the steps of the proof, docs/proofs/noise.md.

With n columns, row i owns w = 22 n + 96 words of 64 bits: from byte (i % 1024) * w * 8 of the ChaCha20 keystream
(RFC 8439, block counter from 0) under the key and the nonce `plane (4 bytes) || i // 1024 (8 bytes)`. A row that needs
more goes on with the keystream of the nonce `plane + 2**31 (4 bytes) || i (8 bytes)`. All are little-endian.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.keystream import _fill_from_keystream
from radoboost.jit import jit

SCALE_UNIT = 2.0**-20
LEAST_SCALE, LARGEST_SCALE = 2.0**-6, 2.0**40
TOTAL_VARIATION = 2.0**-123  # between one number here and an exact one (N6)
SLAB_ROWS = 1024
MAX_COLUMNS = 2**20  # with many more, a slab would need more blocks than the 32-bit counter has (N7)
MAX_ROWS = 2**63
OVERFLOW = 2**31  # added to the plane in the nonce of a row that ran out of words
# A number takes 17.6 words on average, with a standard deviation of 15.7: at worst about one row in a hundred runs out.
_WORDS_PER_NUMBER, _WORDS_PER_ROW = 22, 96
_BLOCK_WORDS = 1 << 17  # made at a time: they stay in the second-level cache

_ZERO, _TOP = np.uint64(0), np.uint64(1 << 63)
_LIMIT = 15  # deviates beyond it are not drawn; with 16, scale * Z + 1/2 might not fit a word (N4)
_HALF, _LOW32 = np.uint64(1 << 19), np.uint64(0xFFFFFFFF)
_BITS, _LATER_BITS = np.uint64(20), np.uint64(60)
_32, _63 = np.uint64(32), np.uint64(63)
_ONE, _UNIT60 = np.uint64(1), np.uint64(1 << 60)


def rounded_normals(
    key: bytes, scale: float, first_row: int, n_rows: int, n_columns: int, *, plane: int = 0
) -> NDArray[np.int64]:
    """Noise for rows first_row .. first_row + n_rows, shape (n_rows, n_columns).

    Each number is round(scale * Z), Z standard normal, independent of all others and exact but for `TOTAL_VARIATION`.
    Row i depends on key, scale, i, n_columns and plane alone, so any rows can be made anywhere. The same key, plane and
    row must never serve twice, be it with another scale or width, and the key never for other words of that plane.
    """
    multiple = _noise_scale_multiple(scale)
    _check_noise_block(key, first_row, n_rows, n_columns, plane)
    first_row, n_rows, n_columns, plane = int(first_row), int(n_rows), int(n_columns), int(plane)
    width = _keystream_words_per_noise_row(n_columns)
    out = np.empty((n_rows, n_columns), dtype=np.int64)
    block = np.empty((min(n_rows, SLAB_ROWS, max(1, _BLOCK_WORDS // width)), width), dtype="<u8")
    done = 0
    while done < n_rows:
        slab, row = divmod(first_row + done, SLAB_ROWS)
        count = min(len(block), n_rows - done, SLAB_ROWS - row)
        words, target = block[:count], out[done : done + count]
        nonce = plane.to_bytes(4, "little") + slab.to_bytes(8, "little")
        _fill_from_keystream(key, nonce, row * width * 8, words.data.cast("B"))
        for short in _compile_noise_sampler()(words, multiple, target):
            nonce = (plane + OVERFLOW).to_bytes(4, "little") + (first_row + done + int(short)).to_bytes(8, "little")
            _finish_noise_row(key, nonce, words[short], multiple, target[short : short + 1])
        done += count
    return out


def scale_rounded_up(scale: float) -> float:
    """The least multiple of `SCALE_UNIT` that is no smaller than `scale`, exactly."""
    value = _noise_scale_as_float(scale)
    if not 0 < value <= LARGEST_SCALE:
        raise ArgumentError(f"scale must lie above 0 and be at most 2**40; it is {scale!r}")
    # The unit is a power of two; and what is not whole before rounding up is below 2**53, so stays exact.
    return math.ceil(value / SCALE_UNIT) * SCALE_UNIT


def _noise_scale_as_float(scale: float) -> float:
    if isinstance(scale, bool) or not isinstance(scale, int | float | np.integer | np.floating):
        raise ArgumentError(f"scale must be a number; it is {scale!r}")
    try:
        value = float(scale)
    except OverflowError:
        value = float("inf")
    if value != scale:
        raise ArgumentError(f"scale must be a finite float64, with nothing lost in conversion; it is {scale!r}")
    return value


def _noise_scale_multiple(scale: float) -> np.uint64:
    value = _noise_scale_as_float(scale)
    if not LEAST_SCALE <= value <= LARGEST_SCALE:
        raise ArgumentError(f"scale must lie in 2**-6 .. 2**40; it is {scale!r}: measure in another unit")
    units = value / SCALE_UNIT
    if units != int(units):
        raise ArgumentError(f"scale must be a multiple of 2**-20; it is {scale!r}: take round_scale_up of it")
    return np.uint64(int(units))


def _check_noise_block(key: bytes, first_row: int, n_rows: int, n_columns: int, plane: int) -> None:
    if not isinstance(key, bytes) or len(key) != 32:
        raise ArgumentError("key must be 32 bytes; make one with make_key")
    limits = {
        "first_row": (first_row, 0, MAX_ROWS),
        "n_rows": (n_rows, 0, MAX_ROWS),
        "n_columns": (n_columns, 1, MAX_COLUMNS),
        "plane": (plane, 0, OVERFLOW - 1),
    }
    for name, (value, low, high) in limits.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not low <= value <= high:
            raise ArgumentError(f"{name} must be a whole number in {low} .. {high}; it is {value!r}")
    if int(first_row) + int(n_rows) > MAX_ROWS:
        raise ArgumentError(f"first_row + n_rows must be at most 2**63; they are {first_row} and {n_rows}")


def _keystream_words_per_noise_row(n_columns: int) -> int:
    return _WORDS_PER_NUMBER * n_columns + _WORDS_PER_ROW


def _finish_noise_row(
    key: bytes, nonce: bytes, words: NDArray[np.uint64], multiple: np.uint64, target: NDArray[np.int64]
) -> None:
    """Make a row whose words did not suffice, with as many words of its overflow stream as it takes."""
    more = len(words)
    while True:
        longer = np.empty((1, len(words) + more), dtype="<u8")
        longer[0, : len(words)] = words
        _fill_from_keystream(key, nonce, 0, longer[0, len(words) :].data.cast("B"))
        if not len(_compile_noise_sampler()(longer, multiple, target)):
            return
        more *= 2


@cache
def _compile_noise_sampler() -> Callable[[NDArray[np.uint64], np.uint64, NDArray[np.int64]], NDArray[np.int64]]:
    """The sampler, compiled. It returns the rows whose words did not suffice."""

    # In numba a uint64 and an int64 make a float64, or an int64, by its version: all that meets a word is a uint64.
    # Beyond its end a row repeats its last word, and its result is thrown away later. Every loop ends on that word or
    # checks for the end; runs do end, for they fall strictly.
    def kernel(words: NDArray[np.uint64], multiple: np.uint64, out: NDArray[np.int64]) -> NDArray[np.int64]:
        n, width = words.shape
        last = width - 1
        short, n_short = np.empty(n, np.int64), 0
        s0, s1, nearly = multiple & _LOW32, multiple >> _32, _ZERO - multiple
        for i in range(n):
            line, at = words[i], 0
            for j in range(out.shape[1]):
                k, x, x2, x_known, accepted = 0, _ZERO, _ZERO, False, False
                while not accepted and at <= width:
                    # Trials of probability exp(-1/2) (N1): k of them succeed before one fails, then k (k - 1) must
                    # succeed (N2).
                    k, need = 0, -1
                    while need != 0:
                        u, u2, u_known, even = line[min(at, last)], _ZERO, False, True
                        at += 1
                        if u < _TOP:
                            even = False
                            while True:
                                z, z2, tie = line[min(at, last)], _ZERO, False
                                at += 1
                                if z >= u:
                                    if z > u:
                                        break
                                    # Second words; equal ones count as not less (N6).
                                    if not u_known:
                                        u2 = line[min(at, last)]
                                        at += 1
                                    z2, tie = line[min(at, last)], True
                                    at += 1
                                    if z2 >= u2:
                                        break
                                u, u2, u_known, even = z, z2, tie, not even
                        if need >= 0:
                            if not even:
                                break
                            need -= 1
                        elif not even:
                            need = k * (k - 1)
                        else:
                            k += 1
                            if k == _LIMIT:
                                break
                    if need != 0:
                        continue
                    # x, and k + 1 trials of probability exp(-x (2k + x) / (2k + 2)) (N3).
                    x, x2, x_known, accepted = line[min(at, last)], _ZERO, False, True
                    at += 1
                    for _ in range(k + 1):
                        y, y2, y_known, is_x, even = x, x2, x_known, True, True
                        while True:
                            z, z2, tie = line[min(at, last)], _ZERO, False
                            at += 1
                            if z >= y:
                                if z > y:
                                    break
                                if not y_known:
                                    y2 = line[min(at, last)]
                                    at += 1
                                    if is_x:
                                        x2, x_known = y2, True
                                z2, tie = line[min(at, last)], True
                                at += 1
                                if z2 >= y2:
                                    break
                            # One of 2k + 2 equal parts, from 32 bits of a word; a few words are refused, so that
                            # all parts are alike.
                            parts = np.uint64(2 * k + 2)
                            while True:
                                product = (line[min(at, last)] >> _32) * parts
                                at += 1
                                rest = product & _LOW32
                                if rest >= parts or rest >= (_LOW32 + _ONE) % parts or at > width:
                                    break
                            part = np.int64(product >> _32)
                            if part > 2 * k:
                                break
                            if part == 2 * k:
                                r = line[min(at, last)]
                                at += 1
                                if r >= x:
                                    if r > x:
                                        break
                                    if not x_known:
                                        x2, x_known = line[min(at, last)], True
                                        at += 1
                                    r2 = line[min(at, last)]
                                    at += 1
                                    if r2 >= x2:
                                        break
                            y, y2, y_known, is_x, even = z, z2, tie, False, not even
                        if not even:
                            accepted = False
                            break
                negative = line[min(at, last)] >> _63
                at += 1
                # floor(multiple * (k + x) / 2**20 + 1/2). The words of x known so far leave an interval; where a
                # whole number lies inside, the next word of x is read (N4).
                base, bits, digit, result = multiple * np.uint64(k) + _HALF, _BITS, x, _ZERO
                while True:
                    d0, d1 = digit & _LOW32, digit >> _32
                    a, b = s0 * d1, s1 * d0
                    middle = ((s0 * d0) >> _32) + (a & _LOW32) + (b & _LOW32)
                    high = base + s1 * d1 + (a >> _32) + (b >> _32) + (middle >> _32)
                    low = multiple * digit
                    result += high >> bits
                    mask = (_ONE << bits) - _ONE
                    if low <= nearly or (high & mask) != mask or at > width:
                        break
                    base, bits = _UNIT60 + low, _LATER_BITS  # 2**60 - (2**64 - low), modulo 2**64
                    if x_known:
                        digit, x_known = x2, False
                    else:
                        digit = line[min(at, last)]
                        at += 1
                out[i, j] = -np.int64(result) if negative else np.int64(result)
                if at > width:
                    short[n_short] = i
                    n_short += 1
                    break
        return short[:n_short]

    return jit(kernel, boundscheck=False)
