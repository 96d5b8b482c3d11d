"""The engine on a CUDA device: snapping, keystream and sums there, and the row kernels of `moments`.

Integers of rows become bytes, and rados their bits: sums are byte products of the matrix unit (tensor cores), exact in
32 bits, or dot products of bytes on a device that has none. What does not pay there is done by the engine of this
machine: the survey, sparse rows, class weights, and words of signatures that are not plain coins. Sums come back as
NumPy arrays, once for each block of rows, so that the caller's sums are like those of any engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.engines import SparseEngine, SparseSurvey, Survey, cpu_engine, sparse_engine
from radoboost.holder.engines.cuda_device import Device, current_cuda_device
from radoboost.holder.engines.reference import reference_exact_sums
from radoboost.holder.grid import EXACT_UNIT, ExactSums, grid_snapping_constants
from radoboost.holder.keystream import SLAB_TILES, TILE_ROWS
from radoboost.holder.signatures import SignatureStream
from radoboost.holder.subset_sampling import FairCoins
from radoboost.release.columns import Column
from radoboost.tables.gpu_arrays import kind_of
from radoboost.tables.sparse import SparseRows
from radoboost.tables.table import round_to_whole_tiles

# ---- Exact statistics of values that lie on a CUDA device: extremes, and sums of digits, put together there.
#
# A column's values are cut into four digits of 21 bits, by the largest of them: 83 bits in all. The few values
# that have bits below that come back as a list, and are added one by one. Where there are many, or a column is of
# extreme size, values are copied and surveyed by the engine of this machine.

# These are those of cuda_survey.cu.
_THREADS, _SUMS = 256, 11
_FIRST_BITS, _DIGIT_BITS, _DIGITS = 20, 21, 4
_PLACES, _NONE, _LABEL_THREADS = 64, 0x7FF4A5A5A5A5A5A5, 256

_MOST_BLOCK_ROWS = 1 << 18  # whose sums of products, below 2**42 each, fit 64 bits
_LEAST_BLOCK_ROWS = 256
_SURVEY_BLOCKS = 8  # of a processor, about
_MOST_ODD = 1 << 16  # values of a batch that are added one by one
_EXPONENTS = 900  # beyond that, powers of two might not be numbers
_COPIED_VALUES = 1 << 23  # at a time
_LABEL_KINDS = {"bool": "uint8", **{kind: kind for kind in ("int8", "uint8", "int16", "int32", "int64")},
                "float32": "float32", "float64": "float64"}  # fmt: skip
_i32, _i64, _u32 = np.int32, np.int64, np.uint32


class CudaSurvey:
    """A survey of values, here or there."""

    def __init__(self, device: Device, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> None:
        self._device, self._low, self._high, self._moments = device, low, high, moments
        self._sums: ExactSums | None = None

    @cached_property
    def _here(self) -> Survey:
        """Of values that do not lie there, or do not fit digits."""
        return cpu_engine().survey(self._low, self._high, moments=self._moments)

    def add(self, values: Any) -> bool:
        if not self._device.holds(values):
            return self._here.add(values)
        if not len(values):
            return True
        there, part = self._device.take(values), ExactSums(len(self._low), n_rows=len(values))
        kind = kind_of(values)
        low, high = self._device.put(np.stack([self._low, self._high]))
        extremes = np.tile(np.array([2**64 - 1, 0, 0], np.uint64), (len(self._low), 1))
        lowest, highest, flawed = self._launched(f"extremes_{kind}", 32, there, low, high, into=extremes).T
        if flawed.any():
            return False
        part.lowest, part.highest = _floats_from_ordered_bits(lowest), _floats_from_ordered_bits(highest)
        if self._moments and not self._take_sums(part, kind, there, low, high):
            rows = max(1, _COPIED_VALUES // len(self._low))
            return all(self._here.add(self._device.get(there[i : i + rows])) for i in range(0, len(values), rows))
        self._sums = part if self._sums is None else self._sums.merge(part)
        return True

    def _take_sums(self, part: ExactSums, kind: str, there: Any, low: Any, high: Any) -> bool:
        """Exact sums, given the extremes; False where there are too many values that do not fit digits."""
        exponents = np.frexp(np.maximum(np.abs(part.lowest), np.abs(part.highest)))[1]
        if (np.abs(exponents) > _EXPONENTS).any():
            return False
        device = self._device
        factors, n_odd = device.put(np.ldexp(1.0, _FIRST_BITS - exponents)), device.zeros((1,), np.uint32)
        values, columns = device.empty((_MOST_ODD,), np.float64), device.empty((_MOST_ODD,), np.int32)
        last = n_odd, _u32(_MOST_ODD), values, columns
        parts = self._launched(f"digits_{kind}", 8 * _SUMS, there, low, high, factors,
                               into=np.zeros((len(exponents), _SUMS, 2), np.uint64), last=last)  # fmt: skip
        count = int(device.get(n_odd)[0])
        if count > _MOST_ODD:
            return False
        unit = _FIRST_BITS + (_DIGITS - 1) * _DIGIT_BITS + EXACT_UNIT  # the last digit counts 2**(exponent - 83)
        numbers = (parts[:, :, 0].view(np.int64).astype(object) << 32) + parts[:, :, 1].astype(object)
        places = (exponents - unit).astype(object)
        part.sums = (_join_digit_sums(numbers[:, :_DIGITS]) << places).tolist()
        part.squares = (_join_digit_sums(numbers[:, _DIGITS:]) << 2 * places).tolist()
        if count:
            odd, of = device.get(values)[:count], device.get(columns)[:count]
            for k in np.unique(of).tolist():
                total, squares = reference_exact_sums(odd[of == k])
                part.sums[k] += total
                part.squares[k] += squares
        return True

    def _launched(
        self, name: str, thread_bytes: int, there: Any, *limits: Any, into: NDArray[np.uint64], last: Sequence[Any] = ()
    ) -> NDArray[np.uint64]:
        """What all blocks of a kernel join to `into`, which has a row for each column."""
        device, (n, d) = self._device, there.shape
        panels = -(-d // _THREADS)
        rows = -(-n // max(1, _SURVEY_BLOCKS * device.n_processors // panels))
        rows = min(max(rows, _LEAST_BLOCK_ROWS), _MOST_BLOCK_ROWS)
        joined = device.put(into)
        device.launch(name, (-(-n // rows), panels, 1), _THREADS, thread_bytes * _THREADS,
                      there, _i64(n), _i32(d), _i64(rows), *limits, joined, *last)  # fmt: skip
        return device.get(joined)

    def result(self) -> ExactSums:
        if self._sums is None:
            return self._here.result()
        return self._sums.merge(self._here.result()) if "_here" in vars(self) else self._sums


def _floats_from_ordered_bits(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    high = np.uint64(1 << 63)
    return np.where(numbers >= high, numbers ^ high, ~numbers).view(np.float64)


def _join_digit_sums(digits: NDArray[Any]) -> NDArray[Any]:
    """One number a column of its sums of digits, the first of which count most; all are integers of Python."""
    count = digits.shape[1]
    joined: NDArray[Any] = digits @ np.array([1 << _DIGIT_BITS * (count - 1 - k) for k in range(count)], dtype=object)
    return joined


# These are those of cuda_sums.cu and cuda_rows.cu.
_GROUPS = (2, 4, 6, 8, 10, 11)  # of 8 lines of digits in a panel of columns: a kernel for each
_BLOCK_RADOS, _BLOCK_THREADS, _BLOCKS, _STAGES, _STAGE_TILES = 512, 256, 1, 2, 4
_DOT_GROUPS, _DOT_THREADS, _SNAP_THREADS, _ROW_THREADS = 3, 128, 128, 256
_MOST_TILES = 1 << 15  # in the second dimension of a grid
_SUM_COLUMNS, _SUM_ROWS = 16, 64

_GROUP_BYTES = 512  # digits of 8 lines and a tile
_PANEL_COLUMNS = 8 * _GROUPS[-1] // 3
_MOST_BLOCK_TILES = 1 << 17  # sums of 2**23 digits, below 2**31
_LEAST_BLOCK_TILES = 16
_FAST_DIVISORS = 2.0**-400, 2.0**400  # divided by multiplying with their inverses, and correcting that
_WHITEN_BYTES = 1 << 28  # of images at a time
_PRODUCT_ROWS = 1 << 14  # of a block
_WORD_BYTES = 1 << 26  # of words at a time that are made here
_VALUES_HERE = 1 << 23  # of a batch that is copied there; of one that is there, a 64th of the device's bytes
_MOST_WORK = 1 << 46  # additions in a batch: about a second, so that an interrupt does not wait long
_u64, _f64 = np.uint64, np.float64


@dataclass(frozen=True)
class Panels:
    """Columns in panels of `width`, each with so many groups of lines."""

    count: int
    width: int
    groups: int

    @classmethod
    def of(cls, n_columns: int) -> "Panels":
        """As few as possible, all as wide."""
        count = max(1, -(-n_columns // _PANEL_COLUMNS))
        width = max(1, -(-n_columns // count))
        return cls(count, width, next(groups for groups in _GROUPS if 8 * groups >= 3 * width))

    @property
    def tile_bytes(self) -> int:
        return self.groups * _GROUP_BYTES


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Rows of integers on the device, as digits: what `snap` gives and `sum_rows` takes."""

    device: Device
    lines: Any
    n_rows: int
    n_columns: int

    def __len__(self) -> int:
        return self.n_rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The integers, here, by the layout that cuda_sums.cu describes."""
        panels, digits = Panels.of(self.n_columns), self.device.get(self.lines).view(np.int8).astype(np.int32)
        digits = digits.reshape(panels.count, -1, panels.groups, 2, 8, 4, 2, 4)
        # panel, tile, group, half, line, quad, which, byte -> tile, half, byte, quad, which; panel, group, line
        rows = digits.transpose(1, 3, 7, 5, 6, 0, 2, 4).reshape(-1, panels.count, 8 * panels.groups)
        places = rows[:, :, : 3 * panels.width].reshape(len(rows), -1, 3)
        integers = (places @ np.array([1, 256, 65536], np.int32))[: self.n_rows, : self.n_columns]
        return np.asarray(integers, dtype)


class Cuda:
    """The engine; a device other than CuPy's current one is for tests.

    A pickle of it holds nothing of the device: where it arrives, it takes the current one when it is first used.
    """

    def __init__(self, device: Device | None = None) -> None:
        self._held: Device | None = current_cuda_device() if device is None else device

    def __getstate__(self) -> dict[str, None]:
        return {"_held": None}

    @property
    def device(self) -> Device:
        """What it computes on: each is proven by itself."""
        return self._device

    @property
    def _device(self) -> Device:
        if self._held is None:
            self._held = current_cuda_device()
        return self._held

    def rows_there(self, n_rados: int, n_columns: int) -> int:
        """As many as have digits in a twentieth of the device's memory, or a second's work."""
        return round_to_whole_tiles(min(self._device.memory_bytes // 64, _MOST_WORK // n_rados) // n_columns)

    def rows_here(self, n_rados: int, n_columns: int) -> int:
        """About as much as a part of a table has, or a second's work."""
        return round_to_whole_tiles(min(_VALUES_HERE, _MOST_WORK // n_rados) // n_columns)

    # ---- on the device

    def snap(self, values: Any, signs: NDArray[np.int8], columns: Sequence[Column]) -> tuple[Any, NDArray[np.int64]]:
        device, n_rows, panels = self._device, len(values), Panels.of(len(columns))
        n_features = sum(column.scale != "constant" for column in columns)
        clipped = np.zeros(len(columns), dtype=np.int64)
        n_tiles = -(-n_rows // TILE_ROWS)
        lines = device.empty((panels.count, n_tiles, panels.tile_bytes), np.uint8)
        if n_rows:
            constants, bounded = _cuda_snap_constants(columns[:n_features])
            counts = device.zeros((len(columns),), np.int64)
            there, kind = self._there(values), np.dtype(kind_of(values))
            tiles = min(n_tiles, _MOST_TILES)
            shared = TILE_ROWS * panels.width * kind.itemsize + TILE_ROWS + 4 * panels.width
            device.launch(
                f"snap_{kind.name}", (panels.count, tiles, -(-n_tiles // tiles)), _SNAP_THREADS, shared,
                there, self._there(signs), _i64(n_rows), _i32(n_features), _i32(len(columns)), _i32(panels.width),
                _i32(panels.tile_bytes), device.put(constants), _i32(bounded), lines, counts,
            )  # fmt: skip
            if bounded:
                clipped = device.get(counts)
        return DeviceRows(device, lines, n_rows, len(columns)), clipped

    def totals(self, n_rados: int, n_columns: int) -> NDArray[np.int64]:
        return np.zeros((n_rados, n_columns), dtype=np.int64)

    # ---- labels on the device

    def distinct(self, labels: Any) -> NDArray[Any] | None:
        """The values that labels on the device have; None if they are more than a few, or of a type that stays here."""
        device, kind = self._device, np.dtype(kind_of(labels)) if kind_of(labels) in _LABEL_KINDS else None
        if kind is None:
            return None
        table = device.put(np.append(np.full(_PLACES, _NONE, np.uint64), np.uint64(0)))
        self._launch_labels("find_labels", kind, labels, table)
        *_, full = places = device.get(table)
        if full:
            return None
        bits = places[:-1][places[:-1] != _NONE].view(np.float64 if kind.kind == "f" else np.int64)
        values: NDArray[Any] = bits.astype(kind)
        return values

    def marked(self, labels: Any, values: NDArray[Any], marks: NDArray[np.int8]) -> Any:
        """The mark of each label on the device, by the marks of its values; 0 for any other."""
        bits = values.astype(np.float64).view(np.uint64) if values.dtype.kind == "f" else values.astype(np.int64)
        made = self._device.empty((len(labels),), np.int8)
        known = self._device.put(bits.view(np.uint64)), self._device.put(marks)
        self._launch_labels("mark_labels", values.dtype, labels, _i32(len(values)), *known, made)
        return made

    def _launch_labels(self, name: str, kind: np.dtype[Any], labels: Any, *others: Any) -> None:
        blocks = min(-(-len(labels) // _LABEL_THREADS), 8 * self._device.n_processors)
        there = self._device.take(labels)
        there = there.view(np.uint8) if kind == np.bool_ else there
        self._device.launch(f"{name}_{_LABEL_KINDS[kind.name]}", (blocks, 1, 1), _LABEL_THREADS, 9 * _PLACES,
                            there, _i64(len(labels)), *others)  # fmt: skip

    def sum_rows(self, rows: Any, first_row: int, prepared: SignatureStream, totals: NDArray[np.int64]) -> None:
        if not len(rows):
            return
        device, (n_rados, n_columns) = self._device, totals.shape
        lines = rows.lines if isinstance(rows, DeviceRows) else self._packed(rows, n_columns)
        there = device.zeros(totals.shape, np.int64)
        pitch = n_rados + n_rados % 2  # lines of words begin at multiples of 16 bytes
        scratch = device.scratch_bytes if _words_made_on_cuda(prepared) else min(device.scratch_bytes, _WORD_BYTES)
        at_a_time = max(1, scratch // (8 * pitch))
        first_tile, skip = divmod(first_row, TILE_ROWS)
        n_tiles, end_tile = -(-len(rows) // TILE_ROWS), -(-(first_row + len(rows)) // TILE_ROWS)
        with device.lock:  # one thread at a time: each would need as much scratch, and the device is busy with one
            for start in range(0, n_tiles, at_a_time):
                count = min(at_a_time, n_tiles - start)
                tile = first_tile + start
                words = device.empty((count + (skip > 0), pitch), np.uint64)
                _make_words_on_cuda(device, prepared, tile, min(count + (skip > 0), end_tile - tile), n_rados, words)
                if skip:
                    words, unshifted = device.empty((count, pitch), np.uint64), words
                    device.launch("shift_words", (count, 1, 1), 256, 0, unshifted, _u32(pitch), _i32(skip), words)
                self._sum_tiles(lines, start, count, words, there)
        totals += device.get(there)

    def _sum_tiles(self, lines: Any, start: int, count: int, words: Any, totals: Any) -> None:
        """Add the rows of some tiles; `words` are theirs."""
        device, panels = self._device, Panels.of(totals.shape[1])
        (n_rados, n_columns), pitch = totals.shape, words.shape[1]
        panel_bytes = _i64(lines.shape[1] * panels.tile_bytes)
        lines = lines.reshape(-1)[start * panels.tile_bytes :]  # the same tile in every panel
        last = _i32(n_rados), _i32(n_columns), _i32(panels.width), totals
        if device.matrix_unit:
            blocks, name = -(-n_rados // _BLOCK_RADOS), f"sum_tiles_{panels.groups}"
            splits, tiles = _split_tiles_into_cuda_blocks(count, blocks * panels.count, _BLOCKS * device.n_processors)
            shared = _STAGES * _STAGE_TILES * (panels.tile_bytes + 8 * _BLOCK_RADOS)
            grid = splits, blocks, panels.count
            device.launch(name, grid, _BLOCK_THREADS, shared,
                          lines, panel_bytes, words, _u32(pitch), _i64(count), _i64(tiles), *last)  # fmt: skip
            return
        blocks, parts = -(-n_rados // _DOT_THREADS), -(-panels.groups // _DOT_GROUPS)
        splits, tiles = _split_tiles_into_cuda_blocks(count, blocks * panels.count * parts, 8 * device.n_processors)
        grid = splits, blocks, panels.count * parts
        device.launch("sum_dots", grid, _DOT_THREADS, _DOT_GROUPS * _GROUP_BYTES,
                      lines, panel_bytes, _i32(panels.tile_bytes), _i32(parts), words, _u32(pitch), _i64(count),
                      _i64(tiles), *last)  # fmt: skip

    def _packed(self, rows: NDArray[np.int32], n_columns: int) -> Any:
        """Rows of integers that were made here, as digits there."""
        device, panels, n_tiles = self._device, Panels.of(n_columns), -(-len(rows) // TILE_ROWS)
        lines = device.empty((panels.count, n_tiles, panels.tile_bytes), np.uint8)
        there = device.put(np.asarray(rows, dtype=np.int32))
        device.launch("pack_rows", (n_tiles, panels.count, 1), _SNAP_THREADS, 0,
                      there, _i64(len(rows)), _i32(rows.shape[1]), _i32(n_columns), _i32(panels.width),
                      _i32(panels.tile_bytes), lines)  # fmt: skip
        return lines

    def _there(self, array: Any) -> Any:
        return self._device.take(array) if self._device.holds(array) else self._device.put(array)

    def sphere(
        self,
        values: Any,
        signs: NDArray[np.int8],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        constant: float | None,
        grid: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        device, (n, f) = self._device, values.shape
        d = f + (constant is not None)
        by_column = isinstance(values, np.ndarray) and values.flags.f_contiguous and not values.flags.c_contiguous
        steps = (1, n) if by_column else (f, 1)
        there, kind = self._there(values.T if by_column else values), kind_of(values)
        rows, good = device.empty((d, n), np.int32), device.empty((n,), np.uint8)
        if n:
            device.launch(f"sphere_{kind}", _cuda_row_grid(n), _ROW_THREADS, 0,
                          there, _i64(steps[0]), _i64(steps[1]), self._there(signs), _i64(n), _i32(f), _i32(d),
                          device.put(low), device.put(high), _f64(constant or 0.0), _f64(grid), rows, good)  # fmt: skip
        return device.get(rows), device.get(good).astype(np.bool_)

    def whiten(
        self, rows: NDArray[Any], a: NDArray[np.float64], signs: NDArray[np.int8], grid: int
    ) -> NDArray[np.int32]:
        device, (d, n) = self._device, rows.shape
        edges = np.empty((d, n), dtype=np.int32)
        matrix, at_a_time = device.put(a), max(_ROW_THREADS, _WHITEN_BYTES // (8 * max(d, 1)))
        for start in range(0, n, at_a_time):
            part = slice(start, min(start + at_a_time, n))
            count = part.stop - start
            images, made = device.empty((d, count), np.float64), device.empty((d, count), np.int32)
            device.launch(f"whiten_{rows.dtype.name}", _cuda_row_grid(count), _ROW_THREADS, 0,
                          device.put(rows[:, part]), _i64(count), _i32(d), matrix, device.put(signs[part]),
                          _f64(grid), images, made)  # fmt: skip
            edges[:, part] = device.get(made)
        return edges

    def tilt(self, rows: NDArray[Any], theta: NDArray[np.float64], grid: int, cap: float) -> NDArray[np.int64]:
        device, (d, n) = self._device, rows.shape
        total = device.zeros((d,), np.int64)
        if n:
            device.launch(f"tilt_{rows.dtype.name}", _cuda_row_grid(n), _ROW_THREADS, 0,
                          device.put(rows), _i64(n), _i32(d), device.put(theta), _f64(grid), _f64(cap),
                          _f64(int(cap * grid)), total)  # fmt: skip
        return device.get(total)

    def products(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        device, (d, n) = self._device, rows.shape
        total, sums = device.zeros((d, d), np.int64), device.zeros((d,), np.int64)
        if n:
            squares, shared = -(-d // _SUM_COLUMNS), 8 * _SUM_COLUMNS * (_SUM_ROWS + 1)
            device.launch(f"products_{rows.dtype.name}", (-(-n // _PRODUCT_ROWS), squares, squares), _SUM_COLUMNS**2,
                          shared, device.put(rows), _i64(n), _i32(d), _i64(_PRODUCT_ROWS), total, sums)  # fmt: skip
        return device.get(total), device.get(sums)

    # ---- on this machine

    def survey(self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> Survey:
        """On the device for values that lie there; values that do not are surveyed by the engine of this machine."""
        return CudaSurvey(self._device, low, high, moments=moments)

    def worker_bytes(self, n_rados: int, n_columns: int) -> int:
        """Totals, twice while they are put together, a batch, and what the survey needs."""
        return 16 * n_rados * n_columns + 8 * _VALUES_HERE + cpu_engine().worker_bytes(1, n_columns)

    def tilt_classes(
        self, rows: NDArray[Any], theta: NDArray[np.float64], grid: int, unit: int, most: int
    ) -> NDArray[np.int64]:
        return cpu_engine().tilt_classes(rows, theta, grid, unit, most)

    def sparse_survey(self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> SparseSurvey:
        return _cuda_sparse_engine().sparse_survey(low, high, moments=moments)

    def sum_sparse(
        self,
        rows: SparseRows,
        signs: NDArray[np.int8],
        constants: NDArray[np.float64],
        first_row: int,
        prepared: SignatureStream,
        differences: NDArray[np.int64],
        label_sums: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        return _cuda_sparse_engine().sum_sparse(rows, signs, constants, first_row, prepared, differences, label_sums)


def _cuda_sparse_engine() -> SparseEngine:
    able = sparse_engine(cpu_engine())
    assert able is not None
    return able


def _cuda_snap_constants(columns: Sequence[Column]) -> tuple[NDArray[np.float64], bool]:
    """What snaps each column, with the inverse of its divisor where that may be used, and whether any is clipped."""
    constants = grid_snapping_constants(columns).reshape(-1, 7)
    divisors = constants[:, 4]
    fast = (np.abs(divisors) >= _FAST_DIVISORS[0]) & (np.abs(divisors) <= _FAST_DIVISORS[1])
    inverses = np.divide(1.0, divisors, out=np.zeros_like(divisors), where=fast)
    return np.column_stack([constants, inverses]), bool(np.isfinite(constants[:, :2]).any())


def _cuda_row_grid(n: int) -> tuple[int, int, int]:
    return -(-n // _ROW_THREADS), 1, 1


def _split_tiles_into_cuda_blocks(n_tiles: int, others: int, places: int) -> tuple[int, int]:
    """Into how many blocks to split tiles, where `others` blocks share each piece, and how many tiles one has.

    All blocks take as long, so that they should fill the places a whole number of times, or nearly.
    """
    fills = [(places * turns // others, turns) for turns in range(1, 9)]
    full = [(pieces * others / (turns * places), -turns, pieces) for pieces, turns in fills if pieces]
    best = max(full, default=(1.0, -1, 1))
    pieces = next((pieces for share, _, pieces in full if share > 0.97), best[2])
    pieces = max(min(pieces, -(-n_tiles // _LEAST_BLOCK_TILES)), -(-n_tiles // _MOST_BLOCK_TILES), 1)
    tiles = -(-n_tiles // pieces)
    return -(-n_tiles // tiles), tiles


def _words_made_on_cuda(prepared: Any) -> bool:
    """Whether words are made on the device: those of coins."""
    from radoboost.holder.rado_sums import ClassSignatures, FlippedSignatures

    return isinstance(prepared, FairCoins) or (
        isinstance(prepared, FlippedSignatures | ClassSignatures) and _words_made_on_cuda(prepared.prepared)
    )


def _make_words_on_cuda(device: Device, prepared: Any, first_tile: int, n_tiles: int, n_rados: int, words: Any) -> None:
    """Write the words of some tiles; `words` has an even number of places for each."""
    from radoboost.holder.rado_sums import ClassSignatures, FlippedSignatures

    pitch = words.shape[1]
    if isinstance(prepared, FlippedSignatures | ClassSignatures):
        _make_words_on_cuda(device, prepared.prepared, first_tile, n_tiles, n_rados, words)
        bits = device.put(prepared.bits_of(first_tile, n_tiles)[:, 0])
        how = _i32(isinstance(prepared, ClassSignatures))
        device.launch("join_bits", (n_tiles, 1, 1), 256, 0, words, _u32(pitch), bits, how)
    elif isinstance(prepared, FairCoins):
        _make_keystream_on_cuda(device, prepared.key, 0, 0, first_tile, n_tiles, n_rados, words)
        if prepared.quarters != 2:
            _make_keystream_on_cuda(
                device, prepared.key, 1, 1 if prepared.quarters == 1 else 2, first_tile, n_tiles, n_rados, words
            )
    else:
        here = np.zeros((n_tiles, pitch), dtype=np.uint64)
        here[:, :n_rados] = prepared.words(first_tile, n_tiles, np.empty((n_tiles, n_rados), dtype=np.uint64))
        words[:n_tiles] = device.put(here)


def _make_keystream_on_cuda(
    device: Device, key: bytes, plane: int, how: int, first_tile: int, n_tiles: int, n_rados: int, words: Any
) -> None:
    """The keystream of some tiles, slab by slab, stored (0), or joined by and (1) or or (2)."""
    parts = [_u64(part) for part in np.frombuffer(key, dtype="<u8").tolist()]
    done = 0
    while done < n_tiles:
        slab, tile = divmod(first_tile + done, SLAB_TILES)
        count = min(n_tiles - done, SLAB_TILES - tile)
        first, total = tile * n_rados, count * n_rados
        blocks = -(-(first + total) // 8) - first // 8
        device.launch("keystream", (-(-blocks // 256), 1, 1), 256, 0,
                      *parts, _u32(plane), _u64(slab), _u64(first), _u64(total), _u32(n_rados), _u32(words.shape[1]),
                      _i32(how), words[done:])  # fmt: skip
        done += count
