"""What is computed for a block of rows, by several engines that give the same integers.

An engine turns values into integers on the grid (`snap`), adds integer rows to the rados whose signature has them
(`sum_rows`), takes exact statistics (`survey`), and has the row kernels of the mechanism `moments`. It knows nothing of
tables, labels or mechanisms. The caller owns the sums, and adds those of several threads or machines in the end. It is
an object without state that can be pickled. Here: get_engine, auto_engine, and the protocols.

- `cpu`: Kernel, the fast engine; tables of subset sums, panels and lanes, blocks, padded and aligned arrays
- `cpu_rows`: compiled row kernels of moments (sphere, whiten, tilt, products, class weights), in blocks of rows
- `cpu_blas`: whiten and products of many columns by BLAS
- `cpu_sparse`: compiled sparse entries, exact-sum bins, masks
- `simd`: vector instructions as LLVM text, simd_scan_rows, simd_add_subset_sums
- `reference`: Reference, the plain NumPy twin of all kernels; exponentials, exact sums, class weights
- `cuda`: Cuda, the engine on a GPU; panels, words and keystream made there, tiles split into blocks
- `cuda_device`: the device through CuPy, kernel source
- `self_test`: digests that prove an engine or machine: engine_passes_self_test, made-up blocks and batches
"""

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.engines import cuda_device
from radoboost.holder.grid import ExactSums
from radoboost.holder.signatures import SignatureStream
from radoboost.jit import prepare_cache
from radoboost.release.columns import Column
from radoboost.tables.sparse import SparseRows

_CLASSES = {"kernel": ("radoboost.holder.engines.cpu", "Kernel"),
            "reference": ("radoboost.holder.engines.reference", "Reference"),
            "cuda": ("radoboost.holder.engines.cuda", "Cuda")}  # fmt: skip
ENGINES = ("kernel", "reference")  # those that run on any machine
DEVICE_RADOS = 10_000  # from which on a device pays, whose rows come from memory
DEVICE_ADDITIONS = 1 << 39  # of a thread: about 5 s, in which a device has started and compiled its kernels


class Survey(Protocol):
    """Exact statistics of the clipped values of all rows added so far."""

    def add(self, values: NDArray[Any]) -> bool:
        """Take a block of rows, float32 or float64; False if a value is not finite."""

    def result(self) -> ExactSums:
        """The statistics of all blocks."""


class Engine(Protocol):
    """What passes need from an engine.

    Rows of integers are int32, at most 2**22 in magnitude. Row kernels of `moments` have their rows column-first, shape
    (columns, rows), so that a vector's lanes are rows and the order of operations within a row is fixed.
    """

    def survey(self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> Survey:
        """A new survey; without `moments` it takes the range, and checks that values are finite."""

    def snap(
        self, values: NDArray[Any], signs: NDArray[np.int8], columns: Sequence[Column]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Edge vectors on the grid, shape (rows, at least columns), and how many values were clipped by column.

        Further columns mean nothing.
        """

    def totals(self, n_rados: int, n_columns: int) -> NDArray[np.int64]:
        """Zeros to add to, shape (n_rados, n_columns), laid out as this engine likes it."""

    def sum_rows(
        self, rows: NDArray[np.int32], first_row: int, prepared: SignatureStream, totals: NDArray[np.int64]
    ) -> None:
        """Add rows to the rados whose signature has them; the first is the global row `first_row`."""

    def worker_bytes(self, n_rados: int, n_columns: int) -> int:
        """Memory that one thread needs for `survey`, `snap`, `sum_rows` and its sums."""

    def sphere(
        self,
        values: NDArray[Any],
        signs: NDArray[np.int8],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        constant: float | None,
        grid: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Rows scaled by their bounds and put on the sphere, as integers, and which are good; a bad row is zero.

        Values may lie row by row or column by column.
        """

    def whiten(
        self, rows: NDArray[Any], a: NDArray[np.float64], signs: NDArray[np.int8], grid: int
    ) -> NDArray[np.int32]:
        """Rows on the sphere, int16 or int32, mapped by `a`, put on the sphere again, and multiplied by their signs."""

    def tilt(self, rows: NDArray[Any], theta: NDArray[np.float64], grid: int, cap: float) -> NDArray[np.int64]:
        """The sum of rows under the logistic weights of theta, capped; rows are int16 or int32."""

    def tilt_classes(
        self, rows: NDArray[Any], theta: NDArray[np.float64], grid: int, unit: int, most: int
    ) -> NDArray[np.int64]:
        """The sum of rows times their class weights, shape (classes, columns); a row's last entry is its class.

        The weights of a row are whole numbers whose squares add up to `most` at most.
        """

    def products(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sum of the rows' products, shape (columns, columns), and of the rows."""


class SparseSurvey(Protocol):
    """Exact statistics of the clipped values of all sparse rows added so far, zeros among them."""

    def add(self, rows: SparseRows) -> bool:
        """Take some rows; False if a value is not finite."""

    def result(self) -> ExactSums:
        """The statistics of all rows."""


class SparseEngine(Protocol):
    """What an engine may have besides: the same for sparse rows, over their entries alone."""

    def sparse_survey(self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> SparseSurvey:
        """A new survey; without `moments` it takes the range, and checks that values are finite."""

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
        """Add sparse rows to the rados whose signature has them; return how many values were clipped, by column.

        `differences`, shape (columns, rados), gets what entries differ from the integer of 0, times their row's sign,
        and `label_sums` the signs. `constants` are those of `grid_snapping_constants`. Signs may be 0: such a row adds
        nothing.
        """


class DeviceEngine(Protocol):
    """What an engine on a device has besides: `survey`, `snap` and `sphere` take values that lie there.

    Both say how many rows a batch should have: enough to be worth it, few enough that an interrupt does not wait long.
    """

    def rows_there(self, n_rados: int, n_columns: int) -> int:
        """Of values that lie on the device."""

    def rows_here(self, n_rados: int, n_columns: int) -> int:
        """Of values that are copied there."""

    def distinct(self, labels: Any) -> NDArray[Any] | None:
        """The values that labels on the device have; None if they are more than a few, or of a type that stays here."""

    def marked(self, labels: Any, values: NDArray[Any], marks: NDArray[np.int8]) -> Any:
        """The mark of each label on the device, by the marks of its values; 0 for any other."""


def device_engine(engine: Engine) -> DeviceEngine | None:
    """The engine, if it takes values on a device; None if they must be copied to memory for it."""
    able = all(callable(getattr(engine, name, None)) for name in ("rows_there", "rows_here"))
    return cast(DeviceEngine, engine) if able else None


def sparse_engine(engine: Engine) -> SparseEngine | None:
    """The engine, if it takes sparse rows; None if they must be made dense for it."""
    able = all(callable(getattr(engine, name, None)) for name in ("sparse_survey", "sum_sparse"))
    return cast(SparseEngine, engine) if able else None


def get_engine(engine: str | Engine) -> Engine:
    """The engine of that name, imported only now; "auto" is the kernel, or the reference where there is no numba.

    An object that is an engine is taken as it is.
    """
    if not isinstance(engine, str):
        if not all(callable(getattr(engine, name, None)) for name in ("survey", "snap", "sum_rows", "totals")):
            raise ArgumentError(f"engine must be 'auto', one of {', '.join(_CLASSES)}, or an engine; it is {engine!r}")
        return engine
    if engine == "auto":
        return cpu_engine()
    if engine not in _CLASSES:
        raise ArgumentError(f"engine must be 'auto' or one of {', '.join(_CLASSES)}; it is {engine!r}")
    module, name = _CLASSES[engine]
    prepare_cache()
    try:
        return cast(Engine, getattr(importlib.import_module(module), name)())
    except ImportError as error:
        raise ArgumentError(f"the engine {engine!r} cannot be loaded ({error}); use engine='reference'") from None


def auto_engine(*, on_device: bool, n_rados: int, additions: int | None) -> Engine:
    """The engine that "auto" takes: a device for values that lie there, and for many rados if there is one.

    `additions` is how many a sum takes for each thread of this machine: where that is soon done, starting a device does
    not pay. It is None where nobody may know. CuPy is imported only if all of that speaks for a device.
    """
    pays = n_rados >= DEVICE_RADOS and (additions is None or additions >= DEVICE_ADDITIONS)
    if (on_device or pays) and cuda_device.may_have_cuda_device():
        try:
            return get_engine("cuda")
        except ArgumentError:  # it was not asked for: whatever is wrong with the device, this machine can do it
            pass
    return cpu_engine()


def cpu_engine() -> Engine:
    """The fastest engine that needs no device: the kernel, or the reference where there is no numba."""
    return get_engine("kernel" if has_numba() else "reference")


def has_numba() -> bool:
    try:
        return importlib.util.find_spec("numba") is not None
    except ValueError:  # somebody made it impossible to import
        return False
