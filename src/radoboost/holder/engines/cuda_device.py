"""A CUDA device, through CuPy: memory there, and kernels that NVRTC compiles when they are first needed.

CuPy is imported when somebody asks for a device, and not before. Kernels lie beside this file as text; they use no
library but CUDA's own language, and `cuda_prelude.cu` has what g++ does not know of it.
"""

import functools
import importlib
import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TooLargeError, install
from radoboost.tables.gpu_arrays import is_gpu_array

KERNEL_FILES = ("cuda_prelude.cu", "cuda_sums.cu", "cuda_rows.cu", "cuda_survey.cu")
OPTIONS = ("--std=c++17", "--fmad=false")  # a multiplication that is fused with an addition has other bits
INSTALL = f"{install('gpu')}, which has CuPy for CUDA 12 (for CUDA 13: pip install cupy-cuda13x)"
_PLAIN_SHARED = 48 << 10  # a kernel gets more shared memory only if it is asked for
_MOST_SCRATCH = 3 << 29
_MOST_PINNED = 1 << 26  # bytes of an array here: what was pinned once is kept for the next one
_MATRIX_UNIT = 80  # the compute capability, times 10, from which byte products of this shape are there


class Device(Protocol):
    """What the engine needs from a device; arrays there are of the device's own type.

    Several threads may use it at once, but scratch of `scratch_bytes` only whoever holds the `lock`.
    """

    n_processors: int
    matrix_unit: bool
    scratch_bytes: int
    memory_bytes: int
    lock: threading.Lock

    def holds(self, array: Any) -> bool:
        """Whether an array lies on a device."""

    def take(self, array: Any) -> Any:
        """An array that lies there already, without a copy."""

    def put(self, array: NDArray[Any]) -> Any:
        """A copy there, by way of pinned memory."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of anything."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of zeros."""

    def get(self, array: Any) -> NDArray[Any]:
        """A copy here."""

    def launch(self, name: str, grid: tuple[int, int, int], threads: int, shared_bytes: int, *arguments: Any) -> None:
        """Start a kernel; arguments are arrays there and NumPy scalars of the right type."""


def cuda_kernel_source() -> str:
    return "\n".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in KERNEL_FILES)


class CupyDevice:
    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._device = device = cupy.cuda.Device()
        self.lock = threading.Lock()
        self.n_processors: int = device.attributes["MultiProcessorCount"]
        self.matrix_unit = int(device.compute_capability) >= _MATRIX_UNIT
        self.memory_bytes: int = device.mem_info[1]
        self.scratch_bytes = min(_MOST_SCRATCH, self.memory_bytes // 16)
        self._module = cupy.RawModule(code=cuda_kernel_source(), options=OPTIONS)
        self._module.compile()
        self._kernels: dict[tuple[str, int], Any] = {}

    def holds(self, array: Any) -> bool:
        return is_gpu_array(array)

    def take(self, array: Any) -> Any:
        with self._used():
            there = hasattr(array, "__cuda_array_interface__")
            taken = self._cupy.asarray(array) if there else self._cupy.from_dlpack(array)
            if taken.device.id != self._device.id:
                raise ArgumentError(
                    f"the array lies on device {taken.device.id}, and device {self._device.id} is in use: call "
                    f"within cupy.cuda.Device({taken.device.id}), or copy it there"
                )
            return self._cupy.ascontiguousarray(taken)

    def put(self, array: NDArray[Any]) -> Any:
        with self._used():
            return self._cupy.array(np.ascontiguousarray(array))  # CuPy copies through its pool of pinned memory

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        with self._used():
            return self._cupy.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        with self._used():
            return self._cupy.zeros(shape, dtype)

    @contextmanager
    def _used(self) -> Iterator[None]:
        """The device as this thread's own, which a new thread does not have; memory may be short there."""
        self._device.use()
        try:
            yield
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            reason = " ".join(str(error).split())
            raise TooLargeError(
                f"the memory of the GPU is too small ({reason}); ask for fewer rados, or take engine='kernel'"
            ) from None

    def get(self, array: Any) -> NDArray[Any]:
        with self._used():
            if 0 < array.nbytes <= _MOST_PINNED:
                pinned = self._cupy.cuda.alloc_pinned_memory(array.nbytes)
                copy: NDArray[Any] = np.frombuffer(pinned, array.dtype, array.size).reshape(array.shape)
                array.get(out=copy)
            else:
                copy = self._cupy.asnumpy(array)
            return copy

    def launch(self, name: str, grid: tuple[int, int, int], threads: int, shared_bytes: int, *arguments: Any) -> None:
        self._device.use()
        kernel = self._kernels.get((name, shared_bytes))
        if kernel is None:
            kernel = self._module.get_function(name)
            if shared_bytes > _PLAIN_SHARED:
                kernel.max_dynamic_shared_size_bytes = shared_bytes
            self._kernels[name, shared_bytes] = kernel
        kernel(grid, (threads,), arguments, shared_mem=shared_bytes)


def current_cuda_device() -> CupyDevice:
    """The device that CuPy uses in this thread; what is missing is said in one line."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise ArgumentError(f"engine='cuda' needs CuPy ({error}): {INSTALL}; or leave engine out") from None
    try:
        if not cupy.cuda.runtime.getDeviceCount():
            raise RuntimeError("there is none")
        return _cuda_device_of_number(cupy.cuda.Device().id)
    except Exception as error:  # CuPy has errors of its own for drivers, devices and compilers
        reason = " ".join(str(error).split())
        raise ArgumentError(f"engine='cuda' cannot use a CUDA device ({reason}); leave engine out") from None


@functools.cache
def _cuda_device_of_number(number: int) -> CupyDevice:
    """The device of that number, which is CuPy's current one, with its compiled kernels."""
    return CupyDevice(importlib.import_module("cupy"))


def may_have_cuda_device() -> bool:
    """Whether CuPy is installed and the driver has made a device; nothing is imported to find out."""
    try:
        found = importlib.util.find_spec("cupy") is not None
    except ValueError:  # somebody made it impossible to import
        return False
    return found and (Path("/dev/dxg").exists() or any(Path("/dev").glob("nvidia[0-9]*")))
