"""Functions compiled by numba, or left in plain Python where it cannot be imported, and a place for compiled code."""

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function, signature: str | None = None, **options: Any) -> _Function:
    """The function compiled by numba, which is imported only now; where that fails, the function itself.

    Without numba it runs in plain Python, slowly. It must be written so that both give the same numbers; unsigned words
    wrap in both, without a warning.
    """
    prepare_cache()
    try:
        from numba import njit
    except ImportError:
        return np.errstate(all="ignore")(function)
    signatures = () if signature is None else (signature,)
    kernel: _Function = njit(*signatures, cache=True, nogil=True, error_model="numpy", **options)(function)
    return kernel


@cache
def prepare_cache() -> None:
    """Name a folder for numba's cache if it would find none, as in a read-only container; call it before the import."""
    here = Path(__file__).parent / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if "NUMBA_CACHE_DIR" not in os.environ and not _cache_is_writable(here) and not _cache_is_writable(home):
        os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="radoboost-")


def _cache_is_writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)
