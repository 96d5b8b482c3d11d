"""A place for numba to keep compiled code, also where nothing near the package can be written."""

import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def prepare_cache() -> None:
    """Before numba is imported: name a folder for its cache if it would find none, as in a read-only container."""
    here = Path(__file__).parent / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if "NUMBA_CACHE_DIR" not in os.environ and not _writable(here) and not _writable(home):
        os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="radoboost-")


def _writable(folder: Path) -> bool:
    """Whether a folder can be written to, or made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)
