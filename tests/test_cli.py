"""The command rado, as a person meets it: what it prints where, its exit codes, and what it leaves behind."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import radoboost as rb
from radoboost.cli.craft import MORE_ACCURATE
from radoboost.cli.options import default_output_path
from radoboost.release import release as release_module
from schema_files import write_schema

RADO = [sys.executable, "-m", "radoboost"]


def files_here():
    return sorted(os.listdir("."))


def test_craft_and_show(rado, clinic):
    code, out, err = rado("craft", clinic, "--label", "readmitted", "-n", 50)
    assert code == 0
    assert files_here() == ["clinic.rado.parquet"]
    assert out.startswith("wrote clinic.rado.parquet\n50 rados of 3 features, from 60 examples")
    assert "'no' is -1, 'yes' is +1" in out and "No promise" in out and "rado show clinic.rado.parquet" in out
    assert len(out.splitlines()) <= 10
    assert err == f"rado: {MORE_ACCURATE}\n"
    shown = rado("show", "clinic.rado.parquet")
    assert shown[0] == 0 and shown[1].splitlines()[1:3] == out.splitlines()[1:3] and shown[2] == ""
    assert "no privacy guarantee" in shown[1] and "epsilon infinite" in shown[1] and "neighbours" in shown[1]


def test_json_is_the_only_thing_on_stdout(rado, clinic):
    code, out, _ = rado("craft", clinic, "--label", "readmitted", "-n", 50, "--json", "-o", "r.parquet")
    printed = json.loads(out)
    assert code == 0 and printed["path"] == "r.parquet"
    assert printed == json.loads(rado("show", "r.parquet", "--json")[1])
    assert {k: v for k, v in printed.items() if k != "path"} == json.loads(json.dumps(rb.load("r.parquet").to_dict()))


def test_every_option_reaches_craft(rado, clinic, tmp_path):
    write_schema("b.json", {"age": (0, 50), "dose": (0, 1)})
    options = [
        "--set",
        "scale=bounds",
        "--classes",
        "yes,no",
        "--seed",
        4,
        "--threads",
        1,
    ]
    options += ["--engine", "reference", "--set", "intercept=no", "--drop", "dose", "--schema", "only-age.json"]
    write_schema("only-age.json", {"age": (0, 50)})
    code, _, err = rado("craft", clinic, "-l", "readmitted", "-n", 9, *options)
    assert code == 0
    assert "values beyond their bounds were clipped: 'age' 29" in err
    release = rb.load("clinic.rado.parquet")
    assert (release.feature_names, release.classes, release.n_rados) == (("age",), ("yes", "no"), 9)
    with pytest.warns(rb.ClippedWarning):
        same = rb.craft(
            clinic,
            label="readmitted",
            n_rados=9,
            seed=4,
            classes=("yes", "no"),
            schema=replace(rb.Schema.of({"age": (0, 50)}), drop=("dose",)),
            mechanism=rb.Plain(scale="bounds", intercept=False),
        )
    assert same.rados.tobytes() == release.rados.tobytes()
    assert rado("craft", clinic, "-l", "readmitted", "--drop", "dose", "--set", "scale=none", "-o", "n.parquet")[0] == 0
    assert rb.load("n.parquet").columns[0].scale == "none"


def test_several_files_and_patterns(rado, clinic, tmp_path):
    for k in range(3):
        (tmp_path / f"part{k}.csv").write_text(clinic.read_text())
    assert rado("craft", tmp_path / "part0.csv", tmp_path / "part1.csv", "-l", "readmitted")[0] == 0
    assert rb.load("part0.rado.parquet").n_examples == 120
    assert rado("craft", str(tmp_path / "part*.csv"), "-l", "readmitted", "-o", "all.parquet")[0] == 0
    assert rb.load("all.parquet").n_examples == 180


def write(path, text):
    path.write_text(text)
    return path


BAD = {
    "no such file": (lambda d: d / "none.csv", [], "no such file: .*none.csv"),
    "no such label": (lambda d: write(d / "t.csv", "a,y\n1,0\n2,1\n"), ["-l", "z"], "no column 'z'"),
    "NaN": (
        lambda d: write(d / "t.csv", "a,b,y\n1,2,0\nNaN,,1\n"),
        ["--set", "gaps=error"],
        "missing in 'a' 1, 'b' 1 of 2 rows",
    ),
    "infinity": (lambda d: write(d / "t.csv", "a,y\n1,0\ninf,1\n"), [], "column 'a' has an infinite value"),
    "empty file": (lambda d: write(d / "t.csv", ""), [], "empty"),
    "only a line end": (lambda d: write(d / "t.csv", "\n"), [], "its first line names no columns; give it a header"),
    "zero rados": (lambda d: write(d / "t.csv", "a,y\n1,0\n2,1\n"), ["-n", 0], "between 1 and 524,288; it is 0"),
    "more than signatures": (lambda d: write(d / "t.csv", "a,y\n1,0\n2,1\n"), ["-n", 5], "only 4 signatures"),
    "mechanism": (lambda d: write(d / "t.csv", "a,y\n1,0\n2,1\n"), ["--mechanism", "magic"], "no mechanism 'magic'"),
    "no bounds file": (
        lambda d: write(d / "t.csv", "a,y\n1,0\n2,1\n"),
        ["--schema", "b.json"],
        "cannot read the schema",
    ),
    "no directory": (
        lambda d: write(d / "t.csv", "a,y\n1,0\n2,1\n"),
        ["-o", "no/r.parquet"],
        "there is no directory no",
    ),
    "a directory": (lambda d: write(d / "t.csv", "a,y\n1,0\n2,1\n"), ["-o", "."], "it is a directory"),
    "the table itself": (
        lambda d: write(d / "t.csv", "a,y\n1,0\n2,1\n"),
        ["-o", "../t.csv"],
        "it is one of the files to read",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(rado, tmp_path, case):
    make, options, message = BAD[case]
    label = [] if "-l" in options else ["-l", "y"]
    code, out, err = rado("craft", make(tmp_path), *label, *options)
    lines = err.splitlines()
    assert (code, out, files_here()) == (1, "", [])
    assert len(lines) == 1 and lines[0].startswith("rado: ")
    assert re.search(message, lines[0]), lines[0]


def test_a_table_is_not_overwritten_through_a_pattern(rado, clinic):
    before = clinic.read_bytes()
    code, _, err = rado("craft", str(clinic.parent / "*.csv"), "-l", "readmitted", "-o", clinic)
    assert code == 1 and "it is one of the files to read" in err
    assert clinic.read_bytes() == before


def test_names_that_are_too_long(rado, clinic):
    for arguments in (("a" * 300 + ".csv", "-l", "y"), (clinic, "-l", "readmitted", "-o", "b" * 300)):
        code, _, err = rado("craft", *arguments)
        assert code == 1 and "too long" in err and err.strip().count("\n") == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_result_that_cannot_be_printed(rado, clinic):
    rado("craft", clinic, "-l", "readmitted")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*RADO, "show", "clinic.rado.parquet"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "rado: cannot print the result: No space left on device\n")


def test_a_pattern_names_the_release_after_its_folder(rado, clinic, monkeypatch):
    os.makedirs("data/visits")
    shutil.copy(clinic, "data/visits/1.csv")
    for pattern in ("data/visits/*.csv", "data/visits/[0-9].csv", "data/visits/**/*.csv"):
        assert rado("craft", pattern, "-l", "readmitted", "-q")[0] == 0 and os.path.exists("visits.rado.parquet")
        os.remove("visits.rado.parquet")
    monkeypatch.chdir("data/visits")
    assert rado("craft", "*.csv", "-l", "readmitted", "-q")[0] == 0 and os.path.exists("visits.rado.parquet")
    names = {
        "s3://clinic/visits/*.parquet": "visits",
        "s3://clinic/*.parquet": "clinic",
        "s3://clinic/visits/year=2*/t.csv": "visits",
        "s3://clinic/visits/t.parquet": "t",
        "../*.csv": "data",
        "part-?.csv": "visits",
    }
    assert {source: str(default_output_path(source, "x")) for source in names} == {
        a: f"{b}.x" for a, b in names.items()
    }
    assert rado("craft", "/*.csv", "-l", "y")[2].startswith("rado: cannot name the result after")


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC])
def test_a_failed_write_is_one_line_and_leaves_nothing(rado, clinic, monkeypatch, code):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(release_module.pq.ParquetWriter, "write_table", fail)
    status, out, err = rado("craft", clinic, "-l", "readmitted")
    assert (status, out, files_here()) == (1, "", [])
    assert err.splitlines()[-1].startswith("rado: cannot write clinic.rado.parquet: " + os.strerror(code))


def test_no_permission_is_seen_before_the_work(rado, clinic, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *args: False)
    code, _, err = rado("craft", clinic, "-l", "readmitted")
    assert code == 1 and err.startswith("rado: cannot write clinic.rado.parquet: no permission")


def test_show_of_what_is_not_a_release(rado, clinic):
    rado("craft", clinic, "-l", "readmitted")
    content = Path("clinic.rado.parquet").read_bytes()
    for name, bad in (("cut", content[:-100]), ("flipped", content[:200] + bytes([content[200] ^ 1]) + content[201:])):
        Path(name).write_bytes(bad)
        code, out, err = rado("show", name)
        assert (code, out) == (1, "") and err.startswith(f"rado: {name} is ") and err.count("\n") == 1
    for name in ("none", str(clinic)):
        code, out, err = rado("show", name)
        assert (code, out) == (1, "") and name in err and err.count("\n") == 1


def open_files(pid):
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed since it was listed
            yield os.readlink(f"/proc/{pid}/fd/{entry}")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc to see that the table is being read")
def test_ctrl_c_in_the_middle_of_a_craft(tmp_path, rng):
    x = rng.standard_normal((200_000, 60))
    pq.write_table(
        pa.table({**{f"f{k}": x[:, k] for k in range(60)}, "y": rng.integers(0, 2, len(x))}), tmp_path / "t.parquet"
    )
    work = tmp_path / "work"
    work.mkdir()
    process = subprocess.Popen(
        [*RADO, "craft", tmp_path / "t.parquet", "-l", "y", "-n", "400000"],
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not any(target.endswith("t.parquet") for target in open_files(process.pid)):
            assert process.poll() is None
            time.sleep(0.05)
        with pytest.raises(subprocess.TimeoutExpired):  # it is at work, and would be for minutes
            process.wait(1)
        before = sum(psutil.Process(process.pid).cpu_times()[:2])
        process.send_signal(signal.SIGINT)
        while process.poll() is None:  # by its own time, for others may be busy: it would work on for many minutes
            with suppress(psutil.NoSuchProcess):
                assert sum(psutil.Process(process.pid).cpu_times()[:2]) - before < 60
            time.sleep(0.05)
        out, err = process.communicate()
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "rado: interrupted; no unfinished file is left\n")
    assert list(work.iterdir()) == []


def test_version_help_and_completion(rado):
    assert rado("--version")[1] == f"rado {rb.__version__}\n"
    for command in ("craft", "predict"):
        code, out, _ = rado(command, "--help")
        assert code == 0 and "Examples:" in out and f"rado {command}" in out
    assert "--install-completion" in rado("--help")[1]
    complete = {
        **os.environ,
        "_RADO_COMPLETE": "complete_bash",
        "COMP_WORDS": "rado craft --mechanism pl",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "rado")], env=complete, capture_output=True, text=True
    )
    assert done.stdout.split() == ["plain"]


def test_demo(rado):
    code, out, err = rado("demo", "--json")
    assert code == 0
    done = json.loads(out)
    assert sorted(Path(path).name for path in done["files"].values()) == sorted(os.listdir("rado-demo"))
    assert len(os.listdir("rado-demo")) == 11
    assert "569 patients" in err and "$ rado learn rado-demo/breast-cancer.rado.parquet" in err
    assert Path("rado-demo/breast-cancer.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    # What it says is what the commands say that it shows.
    files, error = done["files"], done["test_error"]["from the release"]
    assert error < 0.1 and done["test_error"]["logistic regression"] < 0.1
    again = rado("predict", files["model"], files["test"], "--label", "tumour", "-o", "again.csv", "--json")
    assert json.loads(again[1])["error"] == error
    assert Path("again.csv").read_bytes() == Path(files["scores"]).read_bytes()
    assert rado("learn", files["release"], "-o", "again.json")[0] == 0
    assert Path("again.json").read_bytes() == Path(files["model"]).read_bytes()
    # And at epsilon 1: no epsilon without the tables that it is about.
    assert done["promise"]["epsilon"] <= 1 and done["promise"]["neighbours"] == "one record added or removed"
    assert "epsilon 1 at delta 1e-06, for one record added or removed" in err
    private = rado("show", files["private release"], "--json")
    said = json.loads(private[1])["statement"]
    assert all(f"  - {sentence}\n" in err for sentence in (*said["promises"], *said["not_protected"]))
    assert json.loads(private[1])["statement"]["epsilon"] == done["promise"]["epsilon"]
    assert rado("ledger", "verify", files["ledger"], files["private release"])[0] == 0
    shown = json.loads(rado("ledger", "show", files["ledger"], "--json")[1])
    assert done["ledger"] == {key: shown[key] for key in done["ledger"]} and done["ledger"]["largest_epsilon"] > 1
    assert f"one more release of epsilon {shown['largest_epsilon']:g}, at delta 1e-06 and for one record added" in err
    expected = done["expected_error"]["from the release"]
    assert expected["from"] < expected["error"] < expected["to"] and "expects an error of" in err
    told = done["expected_error"]["from the private release"]
    assert told is None or told["from"] <= told["error"] <= told["to"]
    assert rado("learn", files["private release"], "-o", "again.json", "--force")[0] == 0
    again = rado("predict", "again.json", files["test"], "--label", "tumour", "-o", "again.csv", "--json", "--force")
    assert json.loads(again[1])["error"] == done["test_error"]["from the private release"] < 0.25
    Path("file").touch()
    for also in ((), ("--hospital",)):
        code, _, err = rado("demo", "-d", "file/x", *also)
        assert code == 1 and err.startswith("rado: cannot make the directory")


def test_moments_of_the_demo_err_on_at_most_4_percent():
    """Over all folds, by the run that README.md quotes."""
    kept = json.loads((Path(__file__).parent.parent / "experiments/results/demo.json").read_text())
    errors = kept["cross_validated_error"]
    assert np.mean(errors["moments"][errors["n_rados"].index(1000)]) <= 0.04


def test_demo_again_ends_with_both_releases_and_the_page_to_open(rado):
    for _ in range(2):  # a second run begins its ledger anew, and does not run out of it
        code, out, _ = rado("demo", "-d", "tried")
        assert code == 0
    for words in (
        "none: epsilon infinite", "epsilon 1 at delta 1e-06", "any two", "one record added or removed",
        "1 release of epsilon ", "one more of epsilon ", "error that the model expects", "error on patients kept apart",
    ):  # fmt: skip
        assert words in out
    assert "Open tried/breast-cancer.png" in out
    assert out.splitlines()[-1].endswith(": rado studio tried/breast-cancer-epsilon-1.rado.parquet")
    os.remove("tried/breast-cancer.ledger")
    rb.Ledger.create("tried/breast-cancer.ledger", "clinic", epsilon=1.0)
    code, _, err = rado("demo", "-d", "tried")
    assert code == 1 and "is a ledger of other tables" in err


def test_demo_writes_the_tables_of_the_tutorial(rado):
    files = ["hospital.csv", "colleague.csv", "code-book.schema.json"]
    assert rado("demo", "--hospital", "-d", ".")[:2] == (0, f"wrote {', '.join(files)}\n")
    assert json.loads(rado("demo", "--hospital", "-d", ".", "--json")[1]) == {"files": files}
    assert sorted(os.listdir(".")) == sorted(files)


@pytest.fixture
def learned(rado, clinic):
    """A release and a model in the folder where commands run."""
    assert rado("craft", clinic, "--label", "readmitted", "-n", 200)[0] == 0
    assert rado("learn", "clinic.rado.parquet")[0] == 0
    return Path("clinic.model.json")


def test_learn_show_and_predict(rado, clinic, learned):
    code, out, err = rado("learn", "clinic.rado.parquet", "-o", "again.json")
    assert (code, err) == (0, "") and out.startswith("wrote again.json\na linear classifier over 2 columns")
    assert "'yes'" in out and "No promise" in out and "rado predict again.json TABLE" in out
    assert Path("again.json").read_text() == learned.read_text()
    shown = rado("show", learned)
    assert shown[0] == 0 and shown[1].splitlines()[1:3] == out.splitlines()[1:3] and shown[2] == ""
    assert "no privacy guarantee" in shown[1] and "as neighbours" in shown[1]
    assert json.loads(rado("show", learned, "--json")[1]) == {"path": str(learned), **json.loads(learned.read_text())}
    code, out, err = rado("predict", learned, clinic)
    assert (code, err) == (0, "") and out.startswith("wrote clinic.scores.csv\n60 rows: ")
    assert "wrong" not in out
    lines = Path("clinic.scores.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "score,probability,prediction" and len(lines) == 61
    code, out, _ = rado("predict", learned, clinic, "--label", "readmitted", "-o", "s.parquet")
    assert code == 0 and "of them wrong: an error of" in out
    predicted = pq.read_table("s.parquet").column("prediction").to_pylist()
    truth = [line.split(",")[2] for line in clinic.read_text().splitlines()[1:]]
    wrong = sum(a != b for a, b in zip(predicted, truth, strict=True))
    assert json.loads(rado("predict", learned, clinic, "-l", "readmitted", "--json")[1]) == {
        "path": "clinic.scores.csv", "n_rows": 60, "n_positive": predicted.count("yes"),
        "n_wrong": wrong, "error": wrong / 60, "gaps_filled": {}, "not_readable": {}, "unseen_values": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    "gap", [lambda: table_of("age,dose\n1,2\n3,nan\n"), lambda: table_of("age,dose\n1,2\n3,\n"),
            lambda: parquet_of({"age": [1.0, 3.0], "dose": [2.0, np.nan]})]
)  # fmt: skip
def test_a_gap_does_not_stop_prediction(gap, rado, learned):
    code, out, err = rado(*gap())
    assert (code, err) == (0, "gaps filled: 'dose' 1 with 0.551983\n") and "2 rows: " in out


def test_learn_by_boosting(rado, learned):
    options = ["--learner", "boost", "--set", "n_rounds=7", "--set", "weak=median", "--json", "-o", "b.json"]
    printed = json.loads(rado("learn", "clinic.rado.parquet", *options)[1])
    assert printed["learner"]["name"] == "boost" and printed["learner"]["weak"] == "median"
    assert printed["learner"]["rounds"] == 7
    release = rb.load("clinic.rado.parquet")
    same = rb.RadoBoostClassifier(n_rounds=7, weak="median").fit_rados(release).model_
    assert rb.load_model("b.json").to_json() == same.to_json()


def not_learnable(n_rados, value):
    release = rb.craft(
        np.full((8, 2), value), [0, 1] * 4, n_rados=n_rados, mechanism=rb.Plain(scale=None, intercept=False)
    )
    release.save("bad.rado.parquet")
    return ["learn", "bad.rado.parquet", "-o", "m.json"]


def table_of(text, name="bad.csv"):
    Path(name).write_text(text)
    return ["predict", "clinic.model.json", name, "-o", "s.csv"]


def parquet_of(columns):
    pq.write_table(pa.table(columns), "bad.parquet")
    return ["predict", "clinic.model.json", "bad.parquet", "-o", "s.csv"]


def model_of(text):
    Path("bad.json").write_text(text)
    return ["predict", "bad.json", "../clinic.csv", "-o", "s.csv"]


BAD_LEARNING = {
    "one rado": (lambda: not_learnable(1, 1.0), "one rado only"),
    "all zero": (lambda: not_learnable(5, 0.0), "zero in all columns"),
    "one rado, boosting": (lambda: [*not_learnable(1, 1.0), "--learner", "boost"], "one rado only"),
    "no release": (lambda: ["learn", "none.parquet"], "cannot read none.parquet"),
    "a table for a release": (lambda: ["learn", "../clinic.csv"], "not a whole Parquet file"),
    "a model for a release": (lambda: ["learn", "clinic.model.json", "-o", "x.json"], "is a model, and no release"),
    "rounds of moments": (lambda: ["learn", "clinic.rado.parquet", "--set", "n_rounds=9"], "add --learner boost"),
    "unknown oracle": (
        lambda: ["learn", "clinic.rado.parquet", "--learner", "boost", "--set", "weak=x", "-o", "x.json"],
        "weak must be one of",
    ),
    "over the release": (lambda: ["learn", "clinic.rado.parquet", "-o", "clinic.rado.parquet"], "files to read"),
    "other columns": (
        lambda: table_of("age,dosis,readmitted\n1,2,no\n"),
        "no column 'dose'; its other columns are 'dosis', 'read",
    ),
    "infinity": (lambda: table_of("age,dose\n1,2\n3,inf\n"), "'dose' has an infinite value (line 3 of bad.csv)"),
    "text": (lambda: table_of("age,dose\n1,little\n"), "column 'dose' holds text"),
    "text far down": (lambda: table_of("age,dose\n" + "1,2\n" * 1_200_000 + "1,x\n"), "column 'dose'"),
    "no rows": (lambda: table_of("age,dose\n"), "no rows"),
    "no model": (lambda: ["predict", "none.json", "../clinic.csv"], "cannot read none.json"),
    "a model that is not one": (lambda: model_of("{}"), "bad.json is not a radoboost model"),
    "a release for a model": (lambda: ["predict", "clinic.rado.parquet", "../clinic.csv"], "not a radoboost model"),
    "unknown label": (lambda: [*table_of("age,dose\n1,2\n"), "-l", "cured"], "no column 'cured' for the label"),
}


@pytest.mark.parametrize("case", BAD_LEARNING)
def test_what_cannot_be_learned_or_predicted(case, rado, learned):
    make, message = BAD_LEARNING[case]
    arguments = make()
    before = files_here()
    code, out, err = rado(*arguments)
    assert (code, out) == (1, "") and message in err
    assert err.startswith("rado: ") and err.count("\n") == 1
    assert files_here() == before


def test_large_numbers_of_rows_show_progress_in_a_terminal(monkeypatch, capsys):
    """A bar with rows, rate and time left, once the work has gone on for a while."""
    import io

    from rich.console import Console

    from radoboost import progress

    screen = io.StringIO()
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr("rich.console.Console", lambda **kwargs: Console(file=screen, force_terminal=True, width=80))
    with progress.show_progress() as bar:
        for done in (1000, 2000, 3000):
            bar("summing rows", done, 4000)
        bar("a task with a name that is much too long for a line", 4000, 4000)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").splitlines()
    assert any("summing rows" in line and "25%" in line for line in lines)
    assert any("a task with a name" in line and "100%" in line and "rows/s" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert np.array(capsys.readouterr()).tolist() == ["", ""]
