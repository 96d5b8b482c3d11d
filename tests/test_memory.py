"""How much memory there is: of the machine, of a container, under a process's own limit."""

import json
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from radoboost import memory
from radoboost.holder.runners.row_cache import RowBatch
from radoboost.holder.runners.worker import worker_keep_part


def test_a_container_may_have_less(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", tmp_path)
    assert memory._container_memory() == []
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 100\n")
    assert memory._container_memory() == []
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory._container_memory() == [400]
    (tmp_path / "memory.max").unlink()
    old = tmp_path / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("1000\n")
    (old / "memory.usage_in_bytes").write_text("900\n")
    (old / "memory.stat").write_text("total_inactive_file 5\n")
    assert memory._container_memory() == [105]


def test_a_process_may_have_a_limit_of_its_own():
    code = (
        "import resource, psutil\n"
        "from radoboost import memory\n"
        "before = psutil.Process().memory_info().vms\n"
        "resource.setrlimit(resource.RLIMIT_AS, (before + 2**26, before + 2**26))\n"
        "print(memory.available_memory() <= 2**26)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_a_machine_without_any_limit(monkeypatch):
    monkeypatch.setattr(memory, "_container_memory", list)
    monkeypatch.setattr(memory, "_memory_under_limit", list)
    assert memory.available_memory() > 0


ARRAYS = """
import json, resource
import numpy as np
from radoboost import memory

def faults(times=50):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.ones(1 << 17)  # of 1 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

found = [faults()]
with memory.reuse_freed_memory():
    with memory.reuse_freed_memory():
        found.append(faults())
    found.append(faults())  # somebody else still uses it
found.append(faults())
print(json.dumps(found))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_memory_is_reused_where_a_process_gives_all_back():
    """As Dask starts its workers: every array has fresh pages, 256 of them, but while memory is reused."""
    told = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, "-c", ARRAYS], capture_output=True, text=True, env=told)
    before, within, still_within, after = json.loads(done.stdout or done.stderr)
    assert before > 50 * 200 and after > 50 * 200
    assert within < 5 * 256 and still_within < 5 * 256


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
@pytest.mark.parametrize("told", ["", "4294967296", "a lot"])
def test_nothing_is_set_where_nothing_was(told):
    """Without that variable glibc finds good settings by itself, which any setting would end.

    A process whose own environment is changed later, as Dask changes that of whoever starts workers, was told nothing.
    One that was told to keep more than is kept while memory is reused stays as it is.
    """
    environment = {name: text for name, text in os.environ.items() if name != "MALLOC_TRIM_THRESHOLD_"}
    code = ARRAYS.replace(
        "found = [faults()]", "import os; os.environ['MALLOC_TRIM_THRESHOLD_'] = '65536'; faults()\nfound = []"
    )
    if told:
        environment["MALLOC_TRIM_THRESHOLD_"] = told
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    *_, within, after = json.loads(done.stdout or done.stderr)
    assert abs(within - after) < 5 * 256  # as many as before, whichever that is


def test_a_worker_without_memory_says_so(monkeypatch):
    def nothing_left(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("radoboost.holder.runners.worker.mmap.mmap", nothing_left)
    with pytest.raises(MemoryError, match="12 bytes of kept rows: Cannot allocate memory"):
        worker_keep_part(Same(), OnePart(), 10)


class Same:
    """A pass whose rows are those of the batch."""

    def rows(self, batch):
        return batch.rows()


class OnePart:
    arrays = (
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([[2**15], [7]], np.int32),
        np.empty((2, 0), np.int16),
    )

    def batches(self, rows):
        return (RowBatch(array.shape[1], lambda array=array: array) for array in self.arrays)


def test_kept_rows_of_a_worker_have_pages_of_their_own():
    """So they go back to the system once they are let go, however much else a worker keeps for reuse."""
    kept = worker_keep_part(Same(), OnePart(), 10).arrays
    assert [(array.dtype, array.tolist()) for array in kept] == [
        (array.dtype, array.tolist()) for array in OnePart.arrays[:2]
    ]
    for array in kept:
        owner = array
        while isinstance(owner, np.ndarray):
            owner = owner.base
        assert type(getattr(owner, "obj", owner)).__name__ == "mmap"
