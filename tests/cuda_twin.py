"""The CUDA kernels compiled by g++, with NumPy's memory in place of a device's: the engine's integers without a GPU."""

import ctypes
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np

from radoboost.holder.engines import cuda_device
from radoboost.holder.engines.cuda_device import KERNEL_FILES

SHIM = Path(__file__).parent / "cuda_shim.hpp"
FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-U_FORTIFY_SOURCE", "-fPIC", "-shared", "-w")
QUOTIENTS = """
extern "C" void quotients(const double* a, const double* d, double* q, long n) {
    for (long i = 0; i < n; i++) q[i] = is_extreme(a[i]) ? divide_plainly(a[i], d[i]) : divide(a[i], d[i], 1.0 / d[i]);
}
"""
DOUBLE = {  # macros that define several kernels for a type
    "SURVEY_KERNELS": ("extremes", "digits"),
    "LABEL_KERNELS": ("find_labels", "mark_labels"),
}


def compiler():
    return shutil.which("g++")


def build(folder):
    """Compile the shim and the kernels, and a function that launches one by its name."""
    kernels = Path(cuda_device.__file__).parent
    source = "\n".join((kernels / name).read_text() for name in KERNEL_FILES[1:])  # the shim stands in for the first
    defined = "SUM_KERNEL|SPHERE_KERNEL|WHITEN_KERNEL|TILT_KERNEL|PRODUCTS_KERNEL"
    names = re.findall(r"__global__ void __launch_bounds__\([^)]*\)\s+(\w+)\(", source)
    names = [name for name in names if name not in ("NAME", "sum_tiles_")]
    names += [f"{stem}_{kind}" for macro, stems in DOUBLE.items() for stem in stems
              for kind in re.findall(rf"^{macro}\(\w+, (\w+)\)", source, re.MULTILINE)]  # fmt: skip
    names += [f"sum_tiles_{call}" if call.isdigit() else call
              for call in re.findall(rf"^(?:{defined})\((\w+)", source, re.MULTILINE)]  # fmt: skip
    cases = "\n".join(
        f'    if (!std::strcmp(name, "{name}")) return launch_kernel({name}, grid, threads, arguments), 0;'
        for name in names
    )
    entry = f'\nextern "C" int launch(const char* name, const int* grid, int threads, void** arguments) {{\n{cases}\n'
    path = folder / "twin.cpp"
    path.write_text(f'#include "{SHIM}"\n{source}\n{entry}    return 1;\n}}\n{QUOTIENTS}')
    library = folder / "twin.so"
    subprocess.run([compiler(), *FLAGS, str(path), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library)), names


class Twin:
    """A device that is this process: what `cuda_device.CupyDevice` does, with NumPy arrays."""

    n_processors, matrix_unit, scratch_bytes, memory_bytes = 3, True, 1 << 20, 1 << 30

    def __init__(self, library):
        self._launch = library.launch
        self.lock, self._turn = threading.Lock(), threading.Lock()
        self.launched = set()

    def holds(self, array):
        return isinstance(array, Held | DeviceArray)

    def take(self, array):
        array = array.own if isinstance(array, DeviceArray) else array
        return np.ascontiguousarray(array).view(Held)

    def put(self, array):
        return np.array(array, order="C").view(Held)

    def empty(self, shape, dtype):
        array = np.empty(shape, dtype)
        array.view(np.uint8).fill(0xA5)  # what nobody wrote must not matter
        return array.view(Held)

    def zeros(self, shape, dtype):
        return np.zeros(shape, dtype).view(Held)

    def get(self, array):
        return np.array(array)

    def launch(self, name, grid, threads, shared_bytes, *arguments):
        assert min(grid) > 0 and shared_bytes <= 1 << 18
        pointers, kept = (ctypes.c_void_p * len(arguments))(), []
        for i, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                assert isinstance(argument, Held) and argument.flags.c_contiguous, f"{name}: argument {i}"
                argument = np.array(argument.ctypes.data, np.uint64)
            else:
                assert isinstance(argument, np.generic), f"{name}: argument {i} has no type"
                argument = np.array(argument)
            kept.append(argument)
            pointers[i] = argument.ctypes.data
        sizes = (ctypes.c_int * 3)(*grid)
        self.launched.add(name)
        with self._turn:  # the shim has one set of threads, and ctypes lets others run meanwhile
            assert self._launch(name.encode(), sizes, threads, pointers) == 0, f"no kernel {name}"


class Held(np.ndarray):
    """An array that lies on the twin of a device."""


class DeviceArray:
    """What a user has on a device: it can be sliced, and copied here, and NumPy can do nothing with it."""

    copied = 0  # elements of two-dimensional arrays
    copied_labels = 0

    def __init__(self, array):
        self.own = np.asarray(array)
        self.shape, self.dtype, self.ndim = self.own.shape, self.own.dtype, self.own.ndim

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.own.ctypes.data, False), "version": 3}

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        return DeviceArray(self.own[key])

    def get(self):
        DeviceArray.copied += self.own.size if self.ndim == 2 else 0
        DeviceArray.copied_labels += self.own.size if self.ndim == 1 else 0
        return self.own.copy()
