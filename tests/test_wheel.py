"""The wheel has everything that the package needs: pages, styles, programs for browsers and devices, and tables."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [
    path.relative_to(ROOT / "src").as_posix()
    for path in sorted((ROOT / "src" / "radoboost").rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
]
NEEDED = {
    "radoboost/studio/static/htmx.min.js",
    "radoboost/studio/static/htmx.LICENSE",
    "radoboost/studio/templates/layout.html",
    "radoboost/report/templates/style.css",
    "radoboost/report/templates/base.html",
    "radoboost/holder/engines/cuda_sums.cu",
    "radoboost/__init__.pyi",  # from which the package takes its public names
    "radoboost/py.typed",
}


def test_the_build_leaves_nothing_of_the_package_out():
    """Hatchling takes all files of the packages that it is told, but for those that git ignores."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"] == {"packages": ["src/radoboost"]}
    assert {"exclude", "include", "only-include"}.isdisjoint(build)
    assert set(FILES) >= NEEDED
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone, or there is no git")
    paths = "\n".join(f"src/{name}" for name in FILES)
    asked = ["git", "check-ignore", "--no-index", "--stdin"]
    ignored = subprocess.run(asked, cwd=ROOT, input=paths, capture_output=True, text=True)
    assert (ignored.returncode, ignored.stdout) == (1, ""), ignored.stdout + ignored.stderr


@pytest.mark.slow
def test_a_wheel_that_is_built_has_all_files(tmp_path):
    clone = tmp_path / "clone"  # building must write nothing beside the sources
    clone.mkdir()
    shutil.copytree(ROOT / "src", clone / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check", "--retries", "0"]
    words += ["--timeout", "5", "--wheel-dir", str(tmp_path), str(clone)]
    built = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if built.returncode and "hatchling" in built.stderr and "No matching distribution" in built.stderr:
        pytest.skip("hatchling cannot be had here, and it builds the wheel")
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("radoboost-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert set(FILES) <= names, sorted(set(FILES) - names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
