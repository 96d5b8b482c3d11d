"""What the benchmarks share: timing side by side, a table on screen, results kept with the command that made them."""

import json
import os
import platform
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "experiments" / "results"


def side_by_side(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, run in turns so that a busy machine troubles all alike."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, run in contenders.items():
            begun = time.perf_counter()
            run()
            if turn:  # the first turn warms caches
                times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(values) for name, values in times.items()}


def machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {"processor": model, "cores": os.cpu_count(), "python": platform.python_version()}


def command(words: list[str]) -> str:
    """What was typed, as it can be typed elsewhere: without places on this machine.

    >>> command(["benchmarks/audits.py", "--only", "record, linear", "--data", "/"])
    "python benchmarks/audits.py --only 'record, linear' --data FOLDER"
    """
    program, *others = words
    shown = [("FOLDER" if Path(word).is_dir() else "FILE") if Path(word).is_absolute() else word for word in others]
    return shlex.join(["python", f"benchmarks/{Path(program).name}", *shown])


def keep(name: str, results: object) -> None:
    """Write results under experiments/results, with the command that gives them, whole or not at all.

    A name such as "holders/merge" is the key "merge" of a file that several benchmarks share; other keys stay.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    document = {"command": command(sys.argv), "machine": machine(), "results": results}
    file, _, key = name.partition("/")
    place = RESULTS / f"{file}.json"
    if key:
        document = {**(json.loads(place.read_text()) if place.exists() else {}), key: document}
    draft = place.with_suffix(".part")
    draft.write_text(json.dumps(document, indent=2) + "\n")
    os.replace(draft, place)


def shortfalls(figures: list[str]) -> None:
    """End with exit code 1 where figures fall short of what they should be, after everything was kept."""
    for figure in figures:
        print(f"falls short: {figure}", file=sys.stderr)
    if figures:
        raise SystemExit(1)


def fill_page(page: Path, parts: dict[str, str], rest: Path | None = None) -> str:
    """The text of a docs page with its generated parts replaced: each stands between two comments that name it.

    Parts may also have their place in `rest`: each in the page or there, and not in both.
    """
    text, other = page.read_text(), "" if rest is None else rest.read_text()
    for name, part in parts.items():
        before, after = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
        if before in other:
            assert before not in text, f"{name} has a place in {page.name} and another in {rest}"
            continue
        pattern = re.escape(before) + ".*?" + re.escape(after)
        filled = f"{before}\n\n{part}\n\n{after}"
        text, count = re.subn(pattern, lambda _, filled=filled: filled, text, flags=re.DOTALL)
        assert count == 1, f"{page.name} has {count} places for {name}"
    return text


def write_pages(page: Path, rest: Path, parts: dict[str, str]) -> None:
    """Fill a docs page, and the file beside the results that has the tables for which the page has no room."""
    for one, other in ((page, rest), (rest, page)):
        one.write_text(fill_page(one, parts, other))
