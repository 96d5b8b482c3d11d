"""The few vector instructions that the kernel is made of, as LLVM text for numba.

Plain loops over short rows cost five to seven times as much, because LLVM cannot prove that table, accumulator and
edge vectors do not overlap. Each intrinsic takes byte addresses and emits straight-line vector code; `lanes` (int32
values in a vector) and `bits` (rows in a table) are constants at compile time. LLVM splits a vector that is
wider than the machine's registers, so the same text serves every processor.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from radoboost.holder.keystream import TILE_ROWS

SCAN_COLUMNS = 8
_I32, _I64, _I128, _F64 = ir.IntType(32), ir.IntType(64), ir.IntType(128), ir.DoubleType()


def _simd_pointer(builder: Any, address: Any, lanes: int, element: Any = _I32) -> Any:
    return builder.inttoptr(address, ir.VectorType(element, lanes).as_pointer())


def _simd_alignment(lanes: int) -> int:
    """A vector's own size, or a cache line."""
    return min(4 * lanes, 64)


def _simd_load(builder: Any, pointer: Any, align: int) -> Any:
    value = builder.load(pointer)
    value.align = align
    return value


def _simd_store(builder: Any, value: Any, pointer: Any, align: int) -> None:
    builder.store(value, pointer).align = align


@intrinsic(prefer_literal=True)
def simd_set_zero(typingctx: Any, target: Any, lanes: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n = lanes.literal_value
        zero = ir.Constant(ir.VectorType(_I32, n), None)
        _simd_store(builder, zero, _simd_pointer(builder, args[0], n), _simd_alignment(n))
        return context.get_dummy_value()

    return types.void(types.uint64, lanes), codegen


@intrinsic(prefer_literal=True)
def simd_set_sum(typingctx: Any, target: Any, first: Any, second: Any, lanes: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n = lanes.literal_value
        a, b = (_simd_load(builder, _simd_pointer(builder, p, n), _simd_alignment(n)) for p in args[1:3])
        _simd_store(builder, builder.add(a, b), _simd_pointer(builder, args[0], n), _simd_alignment(n))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, lanes), codegen


@intrinsic(prefer_literal=True)
def simd_add_subset_sums(typingctx: Any, target: Any, table: Any, word: Any, lanes: Any, bits: Any) -> Any:
    """target += for each group of `bits` rows of a tile, the subset sum that the word's bits choose."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n, width = lanes.literal_value, bits.literal_value
        row_bytes = 4 * n
        row_log = row_bytes.bit_length() - 1
        pointer = _simd_pointer(builder, args[0], n)
        totals = [_simd_load(builder, pointer, _simd_alignment(n)), None]
        for group, low in enumerate(range(0, TILE_ROWS, width)):
            # The word's bits are moved straight to where they are a byte offset into the table.
            move = low - row_log
            mask = ((1 << min(width, TILE_ROWS - low)) - 1) << row_log
            if move >= 0:
                moved = builder.lshr(args[2], ir.Constant(_I64, move))
            else:
                moved = builder.shl(args[2], ir.Constant(_I64, -move))
            offset = builder.and_(moved, ir.Constant(_I64, mask))
            start = builder.add(args[1], ir.Constant(_I64, (group << width) * row_bytes))
            row = _simd_load(builder, _simd_pointer(builder, builder.add(start, offset), n), _simd_alignment(n))
            previous = totals[group % 2]
            totals[group % 2] = row if previous is None else builder.add(previous, row)
        _simd_store(builder, builder.add(*totals), pointer, _simd_alignment(n))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, lanes, bits), codegen


@intrinsic(prefer_literal=True)
def simd_flush(typingctx: Any, target: Any, source: Any, lanes: Any) -> Any:
    """target (int64) += source (int32); source[:] = 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n = lanes.literal_value
        wide, narrow = _simd_pointer(builder, args[0], n, _I64), _simd_pointer(builder, args[1], n)
        addend = builder.sext(_simd_load(builder, narrow, _simd_alignment(n)), ir.VectorType(_I64, n))
        _simd_store(
            builder, builder.add(_simd_load(builder, wide, _simd_alignment(n)), addend), wide, _simd_alignment(n)
        )
        _simd_store(builder, ir.Constant(ir.VectorType(_I32, n), None), narrow, _simd_alignment(n))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, lanes), codegen


@intrinsic(prefer_literal=True)
def simd_snap_columns(typingctx: Any, source: Any, target: Any, constants: Any, label: Any, narrow: Any) -> Any:
    """Edge integers of 8 neighbouring columns of one row, float32 if `narrow` is 1.

    `constants` holds shift, factor, divisor, offset and the step's inverse, 8 float64 each.
    """
    element = ir.FloatType() if narrow.literal_value else _F64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(_F64, SCAN_COLUMNS)
        x = _simd_load(builder, _simd_pointer(builder, args[0], SCAN_COLUMNS, element), 4)
        x = builder.fpext(x, vector) if narrow.literal_value else x
        shift, factor, divisor, offset, inverse = (
            _simd_load(
                builder, _simd_pointer(builder, builder.add(args[2], ir.Constant(_I64, 64 * i)), SCAN_COLUMNS, _F64), 8
            )
            for i in range(5)
        )
        value = builder.fdiv(builder.fmul(builder.fsub(x, shift), factor), divisor)
        value = builder.fmul(builder.fsub(value, offset), inverse)
        rint = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector]), f"llvm.rint.v{SCAN_COLUMNS}f64"
        )
        lane = builder.insert_element(ir.Constant(vector, ir.Undefined), args[3], ir.Constant(_I32, 0))
        everywhere = ir.Constant(ir.VectorType(_I32, SCAN_COLUMNS), [0] * SCAN_COLUMNS)
        signed = builder.fmul(builder.call(rint, [value]), builder.shuffle_vector(lane, lane, everywhere))
        integers = builder.fptosi(signed, ir.VectorType(_I32, SCAN_COLUMNS))
        _simd_store(builder, integers, _simd_pointer(builder, args[1], SCAN_COLUMNS), 4)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, types.float64, narrow), codegen


@intrinsic(prefer_literal=True)
def simd_scan_rows(
    typingctx: Any, rows: Any, row_bytes: Any, n_rows: Any, limits: Any, totals: Any, narrow: Any, digits: Any
) -> Any:
    """Statistics of 8 neighbouring columns over some rows, float32 if `narrow` is 1.

    `limits` holds, 8 float64 each, the bounds and for each digit 1.5 * 2**52 of its units: adding that number
    and taking it away again rounds to the unit. `totals` takes 8 each of: smallest and largest value; the bits,
    or-ed together, of what the digits left over; the sums of each digit of the clipped values; and the sums of
    products of digits whose places add up to 0, 1, .... These are integers below 2**53 of their units, so
    exact, as long as the first digit is below 2**20. Without digits, what is left over is x - x: not 0 iff x is
    not finite.
    """
    n_digits = digits.literal_value
    element = ir.FloatType() if narrow.literal_value else _F64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, bits = ir.VectorType(_F64, SCAN_COLUMNS), ir.VectorType(_I64, SCAN_COLUMNS)
        start, stride, count, limit, target = args[:5]

        def number(value: float) -> Any:
            return ir.Constant(vector, [value] * SCAN_COLUMNS)

        def place(base: Any, index: int) -> Any:
            offset = ir.Constant(_I64, index * SCAN_COLUMNS * 8)
            return _simd_pointer(builder, builder.add(base, offset), SCAN_COLUMNS, _F64)

        low, high, *rounders = (_simd_load(builder, place(limit, i), 8) for i in range(2 + n_digits))
        begin = [number(float("inf")), number(float("-inf"))] + [number(0.0)] * (simd_scan_totals(n_digits) - 2)
        slots = [cgutils.alloca_once_value(builder, value) for value in begin]

        def accumulate(slot: int, *terms: Any) -> None:
            total = builder.load(slots[slot])
            for term in terms:
                total = builder.fadd(total, term, flags=["contract"])
            builder.store(total, slots[slot])

        with cgutils.for_range(builder, count) as loop:
            source = _simd_pointer(builder, builder.add(start, builder.mul(loop.index, stride)), SCAN_COLUMNS, element)
            x = _simd_load(builder, source, 4)
            x = builder.fpext(x, vector) if narrow.literal_value else x
            for slot, sign in ((0, "<"), (1, ">")):
                extreme = builder.load(slots[slot])
                builder.store(builder.select(builder.fcmp_ordered(sign, x, extreme), x, extreme), slots[slot])
            rest = x
            if n_digits:
                rest = builder.select(builder.fcmp_ordered(">", rest, high), high, rest)
                rest = builder.select(builder.fcmp_ordered("<", rest, low), low, rest)
            cut = []
            for i, rounder in enumerate(rounders):
                cut.append(builder.fsub(builder.fadd(rest, rounder), rounder))
                rest = builder.fsub(rest, cut[-1])
                accumulate(3 + i, cut[-1])
            rest = rest if n_digits else builder.fsub(x, x)
            left = builder.or_(builder.bitcast(builder.load(slots[2]), bits), builder.bitcast(rest, bits))
            builder.store(builder.bitcast(left, vector), slots[2])
            doubled = [builder.fadd(digit, digit) for digit in cut]
            for weight in range(2 * n_digits - 1):
                pairs = [(i, weight - i) for i in range(n_digits) if i <= weight - i < n_digits]
                products = [
                    builder.fmul(cut[i] if i == j else doubled[i], cut[j], flags=["contract"]) for i, j in pairs
                ]
                accumulate(3 + n_digits + weight, *products)
        for index, slot in enumerate(slots):
            _simd_store(builder, builder.load(slot), place(target, index), 8)
        return context.get_dummy_value()

    address = types.uint64
    return types.void(address, address, types.int64, address, address, narrow, digits), codegen


def simd_scan_totals(n_digits: int) -> int:
    """How many totals `simd_scan_rows` writes for each column."""
    return 3 + (n_digits + 2 * n_digits - 1 if n_digits else 0)


@intrinsic
def simd_add_moments(typingctx: Any, sums: Any, significand: Any, shift: Any, negative: Any) -> Any:
    """With v = significand << shift: sums[0] += -v if negative else v, sums[1] += v * v, both of 128 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _I128.as_pointer())
        v = builder.shl(builder.zext(args[1], _I128), builder.zext(args[2], _I128))
        flip = builder.sext(builder.neg(args[3]), _I128)
        signed = builder.sub(builder.xor(v, flip), flip)
        _simd_store(builder, builder.add(_simd_load(builder, pointer, 16), signed), pointer, 16)
        second = builder.gep(pointer, [ir.Constant(_I64, 1)])
        _simd_store(builder, builder.add(_simd_load(builder, second, 16), builder.mul(v, v)), second, 16)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), codegen


@intrinsic
def float_bits(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _I64)

    return types.uint64(types.float64), codegen
