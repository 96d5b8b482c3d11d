"""A CUDA device, through CuPy: memory there, and kernels that NVRTC compiles when they are first needed.

CuPy is imported when somebody asks for a device, and not before. Kernels lie beside this file as text; they use no
library but CUDA's own language, and `cuda_prelude.cu` has what g++ does not know of it.
"""

import functools
import importlib
import importlib.util
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError

KERNEL_FILES = ("cuda_prelude.cu", "cuda_sums.cu", "cuda_rows.cu")
OPTIONS = ("--std=c++17", "--fmad=false")  # a multiplication that is fused with an addition has other bits
INSTALL = "pip install 'radoboost[gpu]', which has CuPy for CUDA 12 (for CUDA 13: pip install cupy-cuda13x)"
_PLAIN_SHARED = 48 << 10  # a kernel gets more shared memory only if it is asked for
_MOST_SCRATCH = 3 << 29
_MATRIX_UNIT = 80  # the compute capability, times 10, from which byte products of this shape are there


class Device(Protocol):
    """What the engine needs from a device; arrays there are of the device's own type."""

    n_processors: int
    matrix_unit: bool
    scratch_bytes: int

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


def kernel_source(files: tuple[str, ...] = KERNEL_FILES) -> str:
    """The text of the kernels."""
    return "\n".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in files)


class CupyDevice:
    """The current device of CuPy."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        device = cupy.cuda.Device()
        self.n_processors: int = device.attributes["MultiProcessorCount"]
        self.matrix_unit = int(device.compute_capability) >= _MATRIX_UNIT
        self.scratch_bytes = min(_MOST_SCRATCH, device.mem_info[1] // 16)
        self._module = cupy.RawModule(code=kernel_source(), options=OPTIONS)
        self._module.compile()
        self._kernels: dict[tuple[str, int], Any] = {}

    def holds(self, array: Any) -> bool:
        return is_on_device(array)

    def take(self, array: Any) -> Any:
        if hasattr(array, "__cuda_array_interface__"):
            return self._cupy.ascontiguousarray(self._cupy.asarray(array))
        return self._cupy.ascontiguousarray(self._cupy.from_dlpack(array))

    def put(self, array: NDArray[Any]) -> Any:
        return self._cupy.array(np.ascontiguousarray(array))  # CuPy copies through its pool of pinned memory

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._cupy.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._cupy.zeros(shape, dtype)

    def get(self, array: Any) -> NDArray[Any]:
        here: NDArray[Any] = self._cupy.asnumpy(array)
        return here

    def launch(self, name: str, grid: tuple[int, int, int], threads: int, shared_bytes: int, *arguments: Any) -> None:
        kernel = self._kernels.get((name, shared_bytes))
        if kernel is None:
            kernel = self._module.get_function(name)
            if shared_bytes > _PLAIN_SHARED:
                kernel.max_dynamic_shared_size_bytes = shared_bytes
            self._kernels[name, shared_bytes] = kernel
        kernel(grid, (threads,), arguments, shared_mem=shared_bytes)


@functools.cache
def current_device() -> CupyDevice:
    """The device that CuPy uses; what is missing is said in one line."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise ArgumentError(f"engine='cuda' needs CuPy ({error}): {INSTALL}; or leave engine out") from None
    try:
        if not cupy.cuda.runtime.getDeviceCount():
            raise RuntimeError("there is none")
        return CupyDevice(cupy)
    except Exception as error:  # CuPy has errors of its own for drivers, devices and compilers
        reason = " ".join(str(error).split())
        raise ArgumentError(f"engine='cuda' cannot use a CUDA device ({reason}); leave engine out") from None


def is_on_device(array: Any) -> bool:
    """Whether an array says that it lies on a CUDA device; nothing is imported to find out.

    >>> is_on_device(np.zeros(3))
    False
    """
    return not isinstance(array, np.ndarray) and getattr(array, "__cuda_array_interface__", None) is not None


def may_have_device() -> bool:
    """Whether CuPy is installed and the driver has made a device; nothing is imported to find out."""
    try:
        found = importlib.util.find_spec("cupy") is not None
    except ValueError:  # somebody made it impossible to import
        return False
    return found and any(Path(name).exists() for name in ("/dev/nvidia0", "/dev/dxg"))
