"""Arrays on a CUDA device, of CuPy, PyTorch and others: their rows stay there for an engine that can use them there.

No library is imported: arrays say themselves where they lie, and can be sliced and copied. Whoever cannot use rows on a
device gets them copied here, a batch at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.tables.column_selection import ColumnChoice, row_number_text
from radoboost.tables.frames import check_label_count
from radoboost.tables.readers import Reader
from radoboost.tables.sparse import matrix_column_names
from radoboost.tables.table import Batch, Table

COPIED_VALUES, COPIED_ROWS = 1 << 21, 65536  # at most, in a batch that is copied here
ONLY_HERE = (
    "an array on a device can be read on this machine only; leave cluster out, or pass a copy in memory or files"
)
_KINDS = ("float32", "float64")  # that engines take as they are
_LABEL_KINDS = (*_KINDS, "bool", "int8", "int16", "int32", "int64", "uint8")
_CUDA = (2, 13)  # what DLPack calls memory of a CUDA device, and memory that it manages


def is_gpu_array(array: Any) -> bool:
    """Whether an array says that it lies on a CUDA device; nothing is imported to find out."""
    kind = type(array)  # an instance may answer for any name, by asking a cluster
    if hasattr(kind, "__cuda_array_interface__"):
        try:
            if getattr(array, "__cuda_array_interface__", None) is not None:
                return True
        except (RuntimeError, TypeError, KeyError):  # of PyTorch, for gradients or types that NumPy does not have
            return True
    if not hasattr(kind, "__dlpack_device__"):
        return False
    try:
        return array.__dlpack_device__()[0] in _CUDA
    except (RuntimeError, TypeError, ValueError, NotImplementedError, BufferError):
        return False


def copy_gpu_array_to_host(array: Any) -> Any:
    """A copy in memory of an array that lies on a device; anything else as it is."""
    return _copy_from_gpu(array) if is_gpu_array(array) else array


def _copy_from_gpu(array: Any) -> NDArray[Any]:
    kind = f"{type(array).__name__} of {getattr(array, 'dtype', 'an unknown type')}"
    try:
        if hasattr(array, "detach"):  # PyTorch
            here = array.detach().cpu().numpy()
        elif hasattr(array, "get"):  # CuPy
            here = array.get()
        elif hasattr(array, "copy_to_host"):  # Numba
            here = array.copy_to_host()
        else:
            here = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise TableError(f"a {kind} on a device cannot be copied here ({reason}); make it float32 there") from None
    if here.shape != tuple(array.shape):
        raise TableError(f"a {kind} on a device cannot be copied here; pass an array of CuPy or a tensor of PyTorch")
    return np.asarray(here)


@dataclass(eq=False)
class DeviceLabels:
    """Labels that lie on a device, in `array`, or some rows of `whole`.

    `here` is a copy, which is made when somebody asks for it.
    """

    array: Any
    copied: Callable[[], pa.Array]
    whole: "DeviceLabels | None" = None
    _values: list[NDArray[Any] | None] = field(default_factory=list)

    @cached_property
    def here(self) -> pa.Array:
        return self.copied()

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def __getitem__(self, rows: slice) -> "DeviceLabels":
        return DeviceLabels(self.array[rows], lambda: self.here[rows], self.whole or self)

    def values(self, find: Callable[[Any], NDArray[Any] | None]) -> NDArray[Any] | None:
        """The different values in all rows of the table, which are looked for once."""
        whole = self.whole or self
        if not whole._values:
            whole._values.append(find(whole.array))
        return whole._values[0]


class DeviceBatch(Batch):
    """A batch whose labels lie on a device too: they are copied when somebody asks for them."""

    @property
    def labels(self) -> pa.Array:
        return cast(DeviceLabels, self[1]).here

    @property
    def device_labels(self) -> DeviceLabels:
        return cast(DeviceLabels, self[1])


def gpu_labels(y: Any, reading: Reader) -> DeviceLabels | None:
    """Labels of one dimension that lie on a device, of a type that engines may take there; None for others."""
    if not is_gpu_array(y) or len(y.shape) != 1 or kind_of(y) not in _LABEL_KINDS:
        return None
    y = y.detach() if hasattr(y, "detach") else y
    return DeviceLabels(y, lambda: reading.labels(_copy_from_gpu(y)))


def kind_of(array: Any) -> str:
    """The type of an array's elements, by NumPy's name."""
    return str(array.dtype).rpartition(".")[2]


@dataclass(frozen=True, eq=False)
class DevicePart:
    """The rows of `x`, which lies on a device; `on_device` says whether engines can take them there."""

    x: Any
    labels: pa.Array | DeviceLabels | None
    features: tuple[str, ...]
    reading: Reader
    on_device: bool
    persons: pa.Array | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        raise TableError(ONLY_HERE)

    @property
    def n_rows(self) -> int:
        return int(self.x.shape[0])

    def count(self) -> int:
        return self.n_rows

    def batches(self, most_rows: int) -> Iterator[Batch]:
        for start in range(0, self.n_rows, most_rows):
            rows = slice(start, min(start + most_rows, self.n_rows))
            labels, persons = (None if column is None else column[rows] for column in (self.labels, self.persons))
            place = partial(row_number_text, first=start)
            there = partial(self.x.__getitem__, rows) if self.on_device else None
            values = partial(self._values, rows, place)
            kind = DeviceBatch if isinstance(labels, DeviceLabels) else Batch
            yield kind(rows.stop - start, labels, values, place, persons, device_values=there)

    def _values(self, rows: slice, place: Callable[[int], str]) -> NDArray[Any]:
        return self.reading.array_values(_copy_from_gpu(self.x[rows]), self.features, place)


def open_gpu_array(x: Any, labels: pa.Array | DeviceLabels | None, choice: ColumnChoice, reading: Reader) -> Table:
    """An array on a device; its columns are called x0, x1, ...; its labels are `labels`, or one of its columns.

    Numbers of other types than float32 and float64 are copied here, and read as those of an array in memory.
    """
    if len(x.shape) != 2:
        raise TableError(f"the array must have two dimensions, rows and features; its shape is {tuple(x.shape)}")
    x = x.detach() if hasattr(x, "detach") else x
    reading.check_dtype(_copy_from_gpu(x[:0]))
    places = {name: k for k, name in enumerate(matrix_column_names(None, x.shape[1]))}
    features = choice.columns(list(places), "the array")
    if choice.label is not None:
        labels = gpu_labels(x[:, places[choice.label]], reading)
        labels = reading.labels(_copy_from_gpu(x[:, places[choice.label]])) if labels is None else labels
    persons = None if choice.person is None else reading.labels(_copy_from_gpu(x[:, places[choice.person]]))
    check_label_count(labels, x.shape[0])
    chosen = [places[name] for name in features]
    if chosen != list(range(x.shape[1])):
        x = x[:, chosen]
    part = DevicePart(x, labels, features, reading, kind_of(x) in _KINDS, persons)
    label = None if labels is None else choice.label or "y"
    return Table("the array", features, label, [part], COPIED_VALUES, COPIED_ROWS)
