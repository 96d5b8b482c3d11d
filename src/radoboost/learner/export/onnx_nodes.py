"""A graph of ONNX operations while it is being written: names, constants, and operations made of others."""

from collections.abc import Collection
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, install

OPSET, IR_VERSION = 20, 9  # the first that has regular expressions
_TYPES = {"f": "DOUBLE", "i": "INT64", "b": "BOOL", "O": "STRING"}


def onnx_library() -> ModuleType:
    try:
        import onnx
    except ImportError:
        raise ArgumentError(f"exporting to ONNX needs the library onnx: {install('export')}") from None
    module: ModuleType = onnx
    return module


class Nodes:
    """Operations in the order of computing; every method gives the name of a result.

    Everything has a row for each row of the table; numbers are float64, and truth values are kept as such.
    """

    def __init__(self, taken: Collection[str]) -> None:
        self.onnx = onnx_library()
        self.nodes: list[Any] = []
        self.constants: dict[tuple[Any, ...], tuple[str, Any]] = {}
        self.inputs: list[Any] = []
        self.prefix = "r"
        while any(name.startswith(self.prefix) for name in taken):
            self.prefix += "_"

    def input(self, name: str, kind: str) -> str:
        """A column of the table, shape (rows, 1)."""
        tensor_type = getattr(self.onnx.TensorProto, kind)
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, tensor_type, ["rows", 1]))
        return name

    def op(self, kind: str, *operands: Any, **attributes: Any) -> str:
        """One operation; operands that are not names are constants."""
        names = [operand if isinstance(operand, str) else self.constant(operand) for operand in operands]
        result = f"{self.prefix}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [result], **attributes))
        return result

    def constant(self, values: Any) -> str:
        """An array of numbers, truth values or texts, each kept once."""
        array = np.asarray(values)
        array = array.astype(object) if array.dtype.kind in "UO" else array
        content = tuple(array.ravel().tolist()) if array.dtype.kind == "O" else array.tobytes()
        key = array.dtype.kind, array.shape, content
        if key not in self.constants:
            name = f"{self.prefix}c{len(self.constants)}"
            kind = getattr(self.onnx.TensorProto, _TYPES[array.dtype.kind])
            items = array.ravel().tolist()
            items = [text.encode() for text in items] if array.dtype.kind == "O" else items
            self.constants[key] = name, self.onnx.helper.make_tensor(name, kind, array.shape, items)
        return self.constants[key][0]

    # ---- numbers

    def cast(self, x: str, kind: str) -> str:
        """Another type: DOUBLE, INT64 or BOOL."""
        return self.op("Cast", x, to=getattr(self.onnx.TensorProto, kind))

    def clip(self, x: str, low: Any, high: Any) -> str:
        """The nearest numbers between bounds, which may be infinite."""
        return self.op("Min", self.op("Max", x, low), high)

    def scaled(self, x: str, constants: NDArray[np.float64]) -> str:
        """Columns by the one formula; `constants` has a row for each: low, high, shift, factor, divisor, offset."""
        low, high, shift, factor, divisor, offset = constants.T[:, None, :]
        v = self.op("Mul", self.op("Sub", self.clip(x, low, high), shift), factor)
        return self.op("Sub", self.op("Div", v, divisor), offset)

    def signed_log(self, x: str) -> str:
        """Logarithms of 1 and the magnitude, with the sign."""
        return self.op("Mul", self.op("Sign", x), self.op("Log", self.op("Add", self.op("Abs", x), 1.0)))

    def columns(self, x: str, places: list[int]) -> str:
        """Some columns, in this order."""
        return self.op("Gather", x, np.array(places, dtype=np.int64), axis=1)

    def joined(self, parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=1)

    def row_sum(self, x: str, width: int) -> str:
        """The sum of all columns, added one after another, as one column."""
        return self.columns(self.op("CumSum", x, np.array(1)), [width - 1])

    # ---- truth values

    def either(self, *parts: str) -> str:
        result = parts[0]
        for part in parts[1:]:
            result = self.op("Or", result, part)
        return result

    def both(self, first: str, second: str) -> str:
        return self.op("And", first, second)

    def matches(self, text: str, pattern: str) -> str:
        return self.op("RegexFullMatch", text, pattern=pattern)
