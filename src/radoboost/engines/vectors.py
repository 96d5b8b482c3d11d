"""The few vector instructions that the kernel is made of, as LLVM text for numba.

Plain loops over short rows cost five to seven times as much, because LLVM cannot prove that table, accumulator and
edge vectors do not overlap. Each intrinsic takes byte addresses and emits straight-line vector code; `lanes` (int32
values in a vector) and `bits` (rows in a table) are constants at compile time. LLVM splits a vector that is
wider than the machine's registers, so the same text serves every processor.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

TILE_ROWS = 64
_I32, _I64, _I128 = ir.IntType(32), ir.IntType(64), ir.IntType(128)


def _vector(builder: Any, address: Any, lanes: int, element: Any = _I32) -> Any:
    return builder.inttoptr(address, ir.VectorType(element, lanes).as_pointer())


def _align(lanes: int) -> int:
    """A vector's own size, or a cache line."""
    return min(4 * lanes, 64)


def _load(builder: Any, pointer: Any, align: int) -> Any:
    value = builder.load(pointer)
    value.align = align
    return value


def _store(builder: Any, value: Any, pointer: Any, align: int) -> None:
    builder.store(value, pointer).align = align


@intrinsic(prefer_literal=True)
def set_zero(typingctx: Any, target: Any, lanes: Any) -> Any:
    """target[:] = 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n = lanes.literal_value
        zero = ir.Constant(ir.VectorType(_I32, n), None)
        _store(builder, zero, _vector(builder, args[0], n), _align(n))
        return context.get_dummy_value()

    return types.void(types.uint64, lanes), codegen


@intrinsic(prefer_literal=True)
def set_sum(typingctx: Any, target: Any, first: Any, second: Any, lanes: Any) -> Any:
    """target[:] = first + second."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n = lanes.literal_value
        a, b = (_load(builder, _vector(builder, p, n), _align(n)) for p in args[1:3])
        _store(builder, builder.add(a, b), _vector(builder, args[0], n), _align(n))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, lanes), codegen


@intrinsic(prefer_literal=True)
def add_chosen(typingctx: Any, target: Any, table: Any, word: Any, lanes: Any, bits: Any) -> Any:
    """target += for each group of `bits` rows of a tile, the subset sum that the word's bits choose."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n, width = lanes.literal_value, bits.literal_value
        row_bytes = 4 * n
        row_log = row_bytes.bit_length() - 1
        pointer = _vector(builder, args[0], n)
        totals = [_load(builder, pointer, _align(n)), None]
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
            row = _load(builder, _vector(builder, builder.add(start, offset), n), _align(n))
            previous = totals[group % 2]
            totals[group % 2] = row if previous is None else builder.add(previous, row)
        _store(builder, builder.add(*totals), pointer, _align(n))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, lanes, bits), codegen


@intrinsic(prefer_literal=True)
def flush(typingctx: Any, target: Any, source: Any, lanes: Any) -> Any:
    """target (int64) += source (int32); source[:] = 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n = lanes.literal_value
        wide, narrow = _vector(builder, args[0], n, _I64), _vector(builder, args[1], n)
        addend = builder.sext(_load(builder, narrow, _align(n)), ir.VectorType(_I64, n))
        _store(builder, builder.add(_load(builder, wide, _align(n)), addend), wide, _align(n))
        _store(builder, ir.Constant(ir.VectorType(_I32, n), None), narrow, _align(n))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, lanes), codegen


@intrinsic
def add_moments(typingctx: Any, sums: Any, significand: Any, shift: Any, negative: Any) -> Any:
    """With v = significand << shift: sums[0] += -v if negative else v, sums[1] += v * v, both of 128 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _I128.as_pointer())
        v = builder.shl(builder.zext(args[1], _I128), builder.zext(args[2], _I128))
        flip = builder.sext(builder.neg(args[3]), _I128)
        signed = builder.sub(builder.xor(v, flip), flip)
        _store(builder, builder.add(_load(builder, pointer, 16), signed), pointer, 16)
        second = builder.gep(pointer, [ir.Constant(_I64, 1)])
        _store(builder, builder.add(_load(builder, second, 16), builder.mul(v, v)), second, 16)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), codegen


@intrinsic
def float_bits(typingctx: Any, x: Any) -> Any:
    """The 64 bits of a float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _I64)

    return types.uint64(types.float64), codegen
