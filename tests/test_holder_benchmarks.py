"""Benchmarks about several holders: kept figures keep their aims and are those of the pages; parts are not kept."""

import importlib
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarking import FOLDER, ends_with

JOINED = ("rados", "exact", "difference", "standard_error")


@pytest.mark.parametrize(("error", "code"), [(3.0, 0), (3.1, 1)])
def test_merged_releases(benchmark, monkeypatch, error, code, capsys, tmp_path):
    module, kept = benchmark("holders_merge")
    names = {name: [2.0, 0.1] for name in (*module.PLAIN_COLUMNS, *module.PRIVATE_COLUMNS)}
    plain = [{"domain": "magic", "split": "equal", "errors": {**names, module.SUM: [error, 0.1]}}]
    results = {"plain": plain, "private": [{"domain": "magic", "split": "ten", "epsilon": 1.0, "errors": names}]}
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- generated: {n} -->\n<!-- end of {n} -->\n" for n in ("merged", "averaged")))
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "measured", lambda *options: results)
    monkeypatch.setattr(sys, "argv", ["holders_merge.py", "--data", "."])
    ends_with(module, code)
    assert kept["holders/merge"]["plain"] == plain and f"| magic | equal | 2.0 | 2.0 | {error} |" in page.read_text()
    assert ("magic, equal: merged, sum has 3.1 % of errors" in capsys.readouterr().err) == bool(code)


def test_all_about_holders(benchmark, monkeypatch, capsys):
    module, _ = benchmark("holders")
    monkeypatch.setattr(module.subprocess, "run", lambda words, check: SimpleNamespace(returncode="join" in words[1]))
    ends_with(module, 1)
    assert capsys.readouterr().err == "falls short: the part join\n"
    assert {f"holders_{part}" for part in module.PARTS} == {file.stem for file in FOLDER.glob("holders_*.py")}


def test_rows_are_shared_out_once_among_holders(benchmark, rng):
    module, _ = benchmark("holders_merge")
    x = rng.normal(size=(400, 3))
    y = np.where(x[:, 0] > 0.3, 1, -1)
    for name, split in module.SPLITS.items():
        parts = split(x, y, np.random.default_rng(0))
        assert len(parts) == 5 and sorted(np.concatenate(parts)) == list(range(400)), name
    shares = [np.mean(y[part] == 1) for part in module.by_labels(x, y, rng)]
    assert shares == sorted(shares) and shares[0] < 0.2 and shares[-1] > 0.6


def test_the_page_on_several_holders_has_the_numbers_of_the_results(benchmark):
    module, _ = benchmark("holders_merge")
    results = json.loads((module.RESULTS / "holders.json").read_text())["merge"]["results"]
    assert module.rendered(results) == module.PAGE.read_text(), "run benchmarks/holders_merge.py --report"
    tables = module.fill_page(module.TABLES, module.generated(results), module.PAGE)
    assert tables == module.TABLES.read_text(), "run benchmarks/holders_merge.py --report"
    assert module.short_of(results) == []


def test_the_pages_on_rooms_have_the_numbers_of_the_results(benchmark):
    module, _ = benchmark("rooms_page")
    for page, text in module.rendered().items():
        assert text == page.read_text(), "run benchmarks/holders_room.py --report"


def test_rooms_are_as_good_as_one_release(benchmark):
    """Stored figures keep their aims, and each aim can be missed."""
    module, _ = benchmark("holders_room")
    kept = json.loads((module.rooms_page.RESULTS / "holders.json").read_text())
    rows = kept["room"]["results"]["rows"]
    assert list(module.short_of(rows)) == []
    ten = [row for row in rows if row["case"] == "ten"]
    assert len(ten) == 12 and {len(row["errors"][way]) for row in ten for way in ("central", "room")} == {15}
    for row in rows:
        differences = np.subtract(row["errors"]["room"], row["errors"]["central"])
        assert row["difference"] == pytest.approx(differences.mean(), abs=1e-3)
        assert row["standard_error_of_difference"] == pytest.approx(module.standard_error(differences), abs=1e-3)
    wrong = {**ten[0], "difference": 2.1 * np.hypot(*ten[0]["standard_errors"].values())}
    assert any(ten[0]["domain"] in line for line in module.short_of([wrong, *ten[1:]]))
    worse = [{**row, "difference": 2.1 * module.overall(ten)[1]} for row in ten]
    assert list(module.short_of(worse)) and "all cells" in list(module.short_of(worse))[-1]
    processes, _ = benchmark("holders_processes")
    results = kept["processes"]["results"]
    assert list(processes.short_of(results)) == [] and results["same_file"]
    late = {**results, "seconds": 61.0, "error": results["central_error"] + 2.1}
    assert len(list(processes.short_of(late))) == 2


@pytest.mark.parametrize(
    ("name", "partial"),
    [
        ("holders_merge", ["--folds", "2"]),
        ("holders_merge", ["--seeds", "1"]),
        ("holders_merge", ["--domains", "magic"]),
        ("holders_room", ["--folds", "2"]),
        ("holders_room", ["--seeds", "1"]),
        ("holders_room", ["--cases", "ten"]),
        ("holders_join", ["--splits", "2"]),
        ("holders_join", ["--domains", "magic"]),
        ("holders_shares", ["--rows", "600"]),
        ("holders_shares", ["--rados", "10"]),
        ("holders_shares", ["--bits", "2048"]),
        ("holders_processes", ["--runs", "1"]),
    ],
)
def test_a_part_of_a_run_keeps_nothing_and_the_whole_does(benchmark, monkeypatch, name, partial, tmp_path):
    module, kept = benchmark(name)
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md", raising=False)
    monkeypatch.setattr(module, "rendered", lambda results: "the page", raising=False)
    monkeypatch.setattr(module, "generated", lambda results: {}, raising=False)
    monkeypatch.setattr(module, "write_pages", lambda *given: None, raising=False)
    monkeypatch.setattr(module, "rooms_page", SimpleNamespace(write=lambda: None), raising=False)
    monkeypatch.setattr(module, "shortfalls", lambda figures: None)
    if name == "holders_shares":
        route = {"sender, seconds": 1.0, "each server, seconds": 1.0}
        monkeypatch.setattr(module, "by_shares", lambda *given: {**route, "route": "shares"})
        monkeypatch.setattr(module, "by_paillier", lambda *given: {**route, "route": "Paillier"})
    elif name == "holders_join":
        monkeypatch.setattr(module, "measured", lambda options: ({}, {}))
        monkeypatch.setattr(module, "from_rados", lambda *given: dict.fromkeys(JOINED, 0.1))
    elif name == "holders_processes":
        monkeypatch.setattr(module, "tables", SimpleNamespace(load=lambda *given: None))
        run = {"seconds": 1.0, "bytes": 1, "files": 1, "errors": [1.0, 1.0], "rows": 1}
        monkeypatch.setattr(module, "one_run", lambda *given: run)
    else:
        monkeypatch.setattr(module, "measured", lambda *given: {"plain": [], "private": []})
        monkeypatch.setattr(module, "short_of", lambda rows: [])
    data = [] if name == "holders_shares" else ["--data", "."]
    for words in (partial, []):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *data, *words])
        module.main()
        assert bool(kept) == (not words)


@pytest.mark.parametrize("name", ["holders_merge", "holders_room", "holders_join", "holders_shares", "holders_sums"])
def test_a_page_is_written_from_kept_results_without_the_domains(benchmark, monkeypatch, name, tmp_path):
    module, kept = benchmark(name)
    monkeypatch.delenv("RADO_DATA", raising=False)
    written = []
    if hasattr(module, "PAGE"):
        (tmp_path / "page.md").write_text(module.PAGE.read_text())
        monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
        monkeypatch.setattr(module, "rendered", lambda results: written.append(1) or "the page")
        monkeypatch.setattr(module, "write_pages", lambda *given: written.append(1), raising=False)
    else:
        monkeypatch.setattr(module.rooms_page, "write", lambda: written.append(1))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--report"])
    module.main()
    assert written and not kept


@pytest.mark.parametrize(("seconds", "code"), [(0.05, 0), (0.5, 1)])
def test_holders_shares(benchmark, monkeypatch, seconds, code, capsys, tmp_path):
    module, kept = benchmark("holders_shares")
    monkeypatch.setattr(module, "rendered", lambda results: "the page")
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    shares = {"route": "shares", "one machine, seconds": 9.0, "sender, seconds": 0.1, "each server, seconds": seconds}
    paillier = {"route": "Paillier", "sender, seconds": 5.0, "crafter, seconds": 7.0}
    monkeypatch.setattr(module, "by_shares", lambda X, y, n_rados, folder: dict(shares))
    monkeypatch.setattr(module, "by_paillier", lambda X, y, n_rados, bits, folder: dict(paillier))
    ends_with(module, code)
    assert kept["holders/shares"]["ratio"] == pytest.approx(12 / (0.1 + 2 * seconds))
    assert ("falls short: shares are only 11 times as fast" in capsys.readouterr().err) == bool(code)


def test_a_benchmark_keeps_what_others_keep_in_its_file(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)
    module = importlib.import_module("measuring")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    (tmp_path / "holders.json").write_text('{"merge": 1}')
    module.keep("holders/shares", {"ratio": 2})
    document = json.loads((tmp_path / "holders.json").read_text())
    assert document["merge"] == 1 and document["shares"]["results"] == {"ratio": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["holders.json"]
