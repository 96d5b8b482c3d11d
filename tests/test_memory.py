"""How much memory there is: of the machine, of a container, under a process's own limit."""

import subprocess
import sys

from radoboost import memory


def test_a_container_may_have_less(tmp_path):
    assert memory._in_container(tmp_path) == []
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 100\n")
    assert memory._in_container(tmp_path) == []
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory._in_container(tmp_path) == [400]
    (tmp_path / "memory.max").unlink()
    old = tmp_path / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("1000\n")
    (old / "memory.usage_in_bytes").write_text("900\n")
    (old / "memory.stat").write_text("total_inactive_file 5\n")
    assert memory._in_container(tmp_path) == [105]


def test_a_process_may_have_a_limit_of_its_own():
    code = (
        "import resource, psutil\n"
        "from radoboost import memory\n"
        "before = psutil.Process().memory_info().vms\n"
        "resource.setrlimit(resource.RLIMIT_AS, (before + 2**26, before + 2**26))\n"
        "print(memory.available() <= 2**26)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_a_machine_without_any_limit(monkeypatch):
    monkeypatch.setattr(memory, "_in_container", list)
    monkeypatch.setattr(memory, "_under_limit", list)
    assert memory.available() > 0
