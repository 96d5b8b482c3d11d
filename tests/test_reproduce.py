"""rado reproduce: domains and their files, cells that survive an interruption, and a small reproduction end to end."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from radoboost.errors import ArgumentError, OutputError, TableError, TooLargeError
from radoboost.lab.paper import domains, table1, table3, versus_paper
from radoboost.lab.paper import jobs as jobs_module
from radoboost.lab.paper.jobs import Options, Task, cell_generator, run_cells
from radoboost.lab.paper.protocol import N_FOLDS, Summary
from radoboost.learner.boost import boost


def write_domain(folder, name, m, d, rng):
    """A domain of random numbers whose class depends on them."""
    x = np.round(rng.normal(size=(m, d)), 4)
    y = np.where(x @ np.linspace(1, 2, d) + rng.normal(size=m) > 0, 1, -1)
    lines = [",".join([*(f"f{k}" for k in range(d)), "label"])]
    lines += [",".join([*map(str, row), str(label)]) for row, label in zip(x.tolist(), y.tolist(), strict=True)]
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return x, y


@pytest.fixture
def data(tmp_path, rng):
    """A folder of two small domains that have the paper's numbers of rows."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_domain(folder, "fertility", 100, 9, rng)
    write_domain(folder, "haberman", 306, 3, rng)
    return folder


# ---- domains


def test_a_domain_is_read_from_plain_and_packed_csv(data, rng):
    x, y = write_domain(data, "sonar", 208, 5, rng)
    plain = domains.load_domain("sonar", str(data))
    np.testing.assert_array_equal(plain.x, x)
    np.testing.assert_array_equal(plain.signs, y)
    assert plain.feature_names == ("f0", "f1", "f2", "f3", "f4")
    assert plain.complete and plain.title == "Sonar"
    (data / "sonar.csv.gz").write_bytes(gzip.compress((data / "sonar.csv").read_bytes()))
    (data / "sonar.csv").unlink()
    domains.load_domain.cache_clear()
    np.testing.assert_array_equal(domains.load_domain("sonar", str(data)).x, x)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), [("susy", "SUSY.csv.gz"), ("higgs", "HIGGS.csv.gz")])
def test_the_archives_physics_files_are_read_as_they_come(tmp_path, rng, monkeypatch, name, file):
    """No header, the class first as 1.000000000000000000e+00, in several blocks."""
    monkeypatch.setattr(domains, "CSV_BLOCK_BYTES", 4096)
    x = rng.normal(size=(300, 4))
    y = rng.integers(0, 2, 300)
    text = "".join(
        ",".join([f"{label:.18e}", *(f"{v:.18e}" for v in row)]) + "\n" for label, row in zip(y, x, strict=True)
    )
    (tmp_path / file).write_bytes(gzip.compress(text.encode()))
    domain = domains.load_domain(name, str(tmp_path))
    np.testing.assert_array_equal(domain.x, x)
    np.testing.assert_array_equal(domain.signs, 2 * y - 1)
    assert domain.feature_names == ("x0", "x1", "x2", "x3") and not domain.complete


def test_the_archives_twitter_file_is_binarised_at_the_mean(tmp_path, monkeypatch):
    """No header, the target last; the first block has whole numbers only, and a later one has not."""
    monkeypatch.setattr(domains, "CSV_BLOCK_BYTES", 512)
    target = [*range(1, 100), 4950.5]
    half = [0.5 * k if k > 80 else k for k in range(100)]
    lines = [f"{k},{h},{t}\n" for k, h, t in zip(range(100), half, target, strict=True)]
    (tmp_path / "Twitter.data").write_text("".join(lines))
    domain = domains.load_domain("twitter", str(tmp_path))
    np.testing.assert_array_equal(domain.x, np.column_stack([np.arange(100), half]))
    np.testing.assert_array_equal(domain.signs, [1 if t >= np.mean(target) else -1 for t in target])
    assert (domain.signs == 1).sum() == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("a,label\n1,2\n2,1\n", "two"), ("a,label\n1,-1\nx,1\n", "read"), ("a,label\n1,-1\n,1\n", "finite"), ("", "read")],
)
def test_a_bad_file_is_refused_with_its_name(tmp_path, text, complaint):
    (tmp_path / "sonar.csv").write_text(text)
    with pytest.raises(TableError, match=complaint) as refused:
        domains.load_domain("sonar", str(tmp_path))
    assert "sonar.csv" in str(refused.value)


def test_missing_domains_are_named_with_where_to_get_them(data):
    found, missing = domains.choose_domains(data)
    assert found == ("fertility", "haberman")
    assert len(missing) == 14 and not any("higgs_sample" in line for line in missing)
    assert any("Twitter.data" in line and "248" in line for line in missing)
    with pytest.raises(ArgumentError, match=r"magic \(magic.csv or magic.csv.gz, .* 159\)"):
        domains.choose_domains(data, ("fertility", "magic"))
    with pytest.raises(ArgumentError, match="there is no domain 'nonsense'"):
        domains.choose_domains(data, ("nonsense",))
    with pytest.raises(ArgumentError, match="no domain is named"):
        domains.choose_domains(data, ())
    with pytest.raises(ArgumentError, match="there is no folder"):
        domains.choose_domains(data / "nowhere")
    (data / "empty").mkdir()
    with pytest.raises(ArgumentError, match="no domain is under"):
        domains.choose_domains(data / "empty")


def test_a_sample_gives_way_to_the_domain(data, rng):
    write_domain(data, "higgs_sample", 30, 2, rng)
    assert "higgs_sample" in domains.find_domains(data)
    (data / "HIGGS.csv.gz").write_bytes(gzip.compress(b"1,2\n0,3\n"))
    assert "higgs_sample" not in domains.find_domains(data) and "higgs" in domains.find_domains(data)
    assert domains.choose_domains(data, ("higgs_sample",))[0] == ("higgs_sample",)


def test_another_file_is_another_digest(data):
    before = domains.digest_of_domain("fertility", str(data))
    domains.digest_of_domain.cache_clear()
    (data / "fertility.csv").write_text((data / "fertility.csv").read_text() + "1,1,1,1,1,1,1,1,1,1\n")
    assert domains.digest_of_domain("fertility", str(data)) != before


# ---- cells


def draw(cell, options):
    """Work for the tests below: a number from the cell's own generator."""
    if cell.get("fails"):
        raise ArgumentError("this cell fails; leave it out")
    if cell.get("dies"):
        os._exit(1)
    threads = os.environ.get("OMP_NUM_THREADS")
    return {"number": cell_generator(cell, options).random(), "threads": threads, "pair": (1, 2)}


def test_cells_are_kept_and_not_run_again(tmp_path):
    options = Options("", ())
    asked = [Task.of("test", number=k) for k in range(5)]
    first = run_cells(asked, draw, options, tmp_path)
    assert list(first) == asked and len({outcome["number"] for outcome in first.values()}) == 5
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(stamps) == 5
    again = run_cells([*asked, Task.of("test", number=5)], draw, options, tmp_path)
    assert {cell: again[cell] for cell in asked} == first
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert run_cells(asked, draw, replace(options, seed=1), tmp_path) != first


def test_a_damaged_file_of_a_cell_is_run_again(tmp_path):
    asked = [Task.of("test", number=0)]
    first = run_cells(asked, draw, Options("", ()), tmp_path)
    (place,) = tmp_path.iterdir()
    for text in ("", "{", '{"outcome": 3}', "[]"):
        place.write_text(text)
        assert run_cells(asked, draw, Options("", ()), tmp_path) == first


@pytest.mark.slow
def test_processes_give_the_same_and_have_one_thread_each(tmp_path):
    options = Options("", ())
    asked = [Task.of("test", number=k) for k in range(5)]
    calls = []
    here = run_cells(asked, draw, options, tmp_path / "a", bar=lambda *call: calls.append(call))
    there = run_cells(asked, draw, options, tmp_path / "b", jobs=2)
    assert [outcome["number"] for outcome in here.values()] == [outcome["number"] for outcome in there.values()]
    assert {outcome["threads"] for outcome in there.values()} == {"1"}
    assert calls == [("test", done, 5) for done in range(6)]
    assert jobs_module.seconds_spent(asked, draw, options, tmp_path / "b") >= 0


@pytest.mark.slow
def test_a_cell_that_fails_leaves_the_others(tmp_path):
    asked = [Task.of("test", number=k) for k in range(4)] + [Task.of("test", fails=1)]
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        with pytest.raises(ArgumentError, match="this cell fails"):
            run_cells(asked, draw, Options("", ()), folder, jobs=jobs)
        assert list(folder.iterdir())
    with pytest.raises(TooLargeError, match="--jobs"):
        run_cells([Task.of("test", dies=1), *asked[:1]], draw, Options("", ()), tmp_path / "dies", jobs=2)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot make the directory"):
        run_cells(asked, draw, Options("", ()), tmp_path / "file" / "cells")


# ---- tables


def test_plain_numpy_boosting_is_boost(rng):
    rows = rng.normal(0.1, 1, (60, 7))
    for clamp in (0.0, 0.1):
        ours = table1.boost_table1_examples(rows, np.abs(rows).max(axis=0), clamp=clamp)
        theirs = boost(rows, update="exponential", clamp=clamp).rounds
        np.testing.assert_array_equal(ours.feature, theirs.feature)
        np.testing.assert_allclose(ours.leverage, theirs.leverage, rtol=1e-6)


@pytest.mark.slow
def test_weights_as_printed_sum_to_one_but_for_rounding_which_grows(rng):
    """The rounds are those of boosting until the sum has drifted; then edges vanish or weights overflow."""
    rados = rng.normal(2, 1, (50, 4))
    ours = boost(rados, n_rounds=1000).rounds
    printed, _, total = table1.boost_with_printed_weights(rados)
    np.testing.assert_array_equal(printed.feature[:20], ours.feature[:20])
    np.testing.assert_allclose(printed.edge[:20], ours.edge[:20], rtol=1e-9)
    assert abs(table1.boost_with_printed_weights(rados, n_rounds=20)[2] - 1) < 1e-9
    assert np.abs(ours.edge).min() > 0.1  # renormalised: nothing to clamp
    assert not np.isfinite(total) or abs(total - 1) > 0.5
    falls = [table1.boost_with_printed_weights(rng.normal(2, 1, (50, 4)))[1] < 0.1 for _ in range(40)]
    assert any(falls) and not all(falls)  # either way; false alarm below 1e-6 if each has a chance of 0.3 or more


def test_the_papers_figures_ship_with_the_package():
    for name in ("table1", "table3"):
        assert list(versus_paper.printed_table(name)) == [
            name for name, source in domains.SOURCES.items() if source.rows
        ]
        for domain in versus_paper.printed_table(name):
            for learner in versus_paper.LEARNERS:
                assert 0 < versus_paper.printed_error(name, domain, learner).mean < 60
    for domain, row in versus_paper.printed_table("table1").items():
        assert int(row["m"]) == domains.SOURCES[domain].rows
    assert versus_paper.printed_error("table1", "eeg", "adaboost_sub") == Summary(44.36, 1.99, 10)
    assert versus_paper.printed_error("table3", "hardware", "radoboost") == Summary(7.35, 3.31, 10)
    assert len(versus_paper.SMALL) == 13


@pytest.mark.slow
def test_both_tables_use_the_same_draws(data):
    """Where no |r_t| is below the clamp, clamped and unclamped errors are the same; and Table 3 runs no cell twice."""
    options = Options(str(data), ("haberman",))
    plain, clamped = (table1.work(Task.of("table1", domain="haberman", fold=0, clamp=c), options) for c in (0.0, 0.1))
    assert plain["least_edge"]["radoboost"] > 0.1
    assert plain["error"]["radoboost"] == clamped["error"]["radoboost"]
    assert clamped["least_edge"]["adaboost"] == 0.1
    assert set(table1.table1_fold_cells(options)) <= set(table3.cells(options))
    assert table3.work is table1.work
    varied = table1.work(Task.of("table1", domain="haberman", fold=0, clamp=0.0, part="varied"), options)
    assert varied[table1.AS_WRITTEN.title] == plain["error"]["adaboost_sub"]


# ---- end to end


def found(data, output, jobs=1, quick=False):
    """The findings of Table 1, without its pages."""
    options = Options(str(data), domains.choose_domains(data)[0], quick=quick)
    outcomes = run_cells(table1.cells(options), table1.work, options, output / "cells", jobs=jobs)
    return table1.findings(outcomes, options)


def test_a_quick_reproduction_end_to_end(rado, data):
    code, out, err = rado("reproduce", "table3", "--data", data, "--quick", "--jobs", "1", "-o", "out")
    assert code == 0, err
    assert "Fertility" in out and "Haberman" in out and "not judged" in out
    assert "not found: susy (SUSY.csv.gz" in err and "report.html" in err
    folder = Path("out")
    document = json.loads((folder / "table3.json").read_text())
    assert set(document) == {"command", "versions", "seconds", "options", "findings"}
    assert document["command"] == "rado reproduce table3 --domains fertility,haberman --seed 0 --quick"
    assert str(data) not in json.dumps(document)
    with (folder / "table3-errors.csv").open() as file:
        rows = list(csv.reader(file))
    assert len(rows) == 3 and rows[1][0] == "Fertility"
    for ending in ("png", "svg"):
        assert (folder / "figures" / f"table3-errors.{ending}").stat().st_size > 1000
    report = (folder / "report.html").read_text()
    assert "Table 3" in report and report.index("not that the paper is wrong") < report.index("<table>")
    assert len(list((folder / "cells").iterdir())) == 2 * 4 * table1.QUICK_FOLDS
    # Another experiment in the same folder joins the report, and runs no cell of its own.
    code, out, err = rado("reproduce", "table1", "--data", data, "--quick", "--jobs", "1", "-o", "out", "--json")
    assert code == 0, err
    assert json.loads(out)["experiments"][0]["findings"]["name"] == "table1"
    assert len(list((folder / "cells").iterdir())) == 2 * 4 * table1.QUICK_FOLDS
    report = (folder / "report.html").read_text()
    assert "Table 1" in report and "Table 3" in report


@pytest.mark.slow
def test_the_number_of_processes_changes_no_number(data, tmp_path):
    one, two = (found(data, tmp_path / str(jobs), jobs=jobs, quick=True) for jobs in (1, 2))
    assert one == two and len(one.tables[0].rows) == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nonsense"], "nonsense"),
        (["table1", "--domains", "magic"], "magic.csv"),
        (["table1", "--jobs", "0"], "jobs"),
        (["table1", "--data", "nowhere"], "nowhere"),
    ],
)
def test_refusals_are_one_line(rado, data, monkeypatch, arguments, complaint):
    monkeypatch.setenv("RADO_DATA", str(data))
    open("file", "w").close()
    code, out, err = rado("reproduce", *arguments)
    assert (code, out) == (1, "") and complaint in err
    assert len([line for line in err.splitlines() if line.startswith("rado: ")]) == 1


def test_without_domains_it_says_how_to_name_them(rado, monkeypatch):
    monkeypatch.delenv("RADO_DATA", raising=False)
    code, _, err = rado("reproduce", "table1")
    assert code == 1 and "RADO_DATA" in err


# ---- interruptions


def started(data, output, jobs):
    """The command in a process of its own, up to its third finished cell."""
    command = [sys.executable, "-c", "from radoboost.cli import main; main()", "reproduce", "table1"]
    command += ["--data", str(data), "--jobs", str(jobs), "-o", str(output)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 600
    while len(list(output.glob("cells/*.json"))) < 3:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


@pytest.fixture
def larger(tmp_path, rng):
    folder = tmp_path / "larger"
    folder.mkdir()
    write_domain(folder, "wine_red", 1599, 20, rng)
    write_domain(folder, "sonar", 208, 20, rng)
    return folder


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_numbers(larger, tmp_path):
    process = started(larger, tmp_path / "killed", 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    assert not psutil.wait_procs(workers, timeout=300)[1], "processes outlive the one that started them"
    kept = {path: path.read_text() for path in (tmp_path / "killed").glob("cells/*.json")}
    assert 3 <= len(kept) < 2 * N_FOLDS and not (tmp_path / "killed" / "table1.json").exists()
    resumed, whole = found(larger, tmp_path / "killed"), found(larger, tmp_path / "whole")
    assert resumed == whole and len(whole.tables[0].rows) == 2
    assert all(path.read_text() == text for path, text in kept.items())


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_is_one_line_and_keeps_what_is_finished(larger, tmp_path, jobs):
    process = started(larger, tmp_path / "out", jobs)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=600)
    said = [line for line in err.splitlines() if not line.startswith("not found: ")]
    assert said == ["rado: interrupted; finished pieces are kept, and the same command goes on from them"]
    assert process.returncode == 130
    assert len(list((tmp_path / "out").glob("cells/*.json"))) >= 3
    assert not list((tmp_path / "out").glob("cells/.*"))
