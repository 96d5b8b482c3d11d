"""rado attack from outside: files in, sentences out; one line and exit code 1 where things do not go together."""

import csv
import dataclasses
import json
import time
from pathlib import Path

import markupsafe
import numpy as np
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.lab.attacks import ATTACKS
from radoboost.release import statement_check
from schema_files import write_schema

NAMES = ("age", "dose", "smokes", "churned")


@pytest.fixture
def clients(tmp_path, rng):
    """Thirty clients, of which the first fourteen are in the release of somebody else."""
    rows = [
        [round(float(age), 2), round(float(dose), 3), int(smokes), int(churned)]
        for age, dose, smokes, churned in zip(
            40 + 12 * rng.normal(size=30), rng.random(30), rng.integers(0, 2, 30), rng.integers(0, 2, 30), strict=True
        )
    ]
    for name, part in (("clients", rows), ("theirs", rows[:14]), ("others", rows[16:])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([NAMES, *part])
    return tmp_path


def crafted(rado, folder, table, *options, to="made.rado.parquet"):
    place = folder / to
    code, _, err = rado("craft", folder / table, "--label", "churned", "-o", place, "--force", *options)
    assert code == 0, err
    return place


def test_reconstruct_gives_the_table_back(rado, clients, monkeypatch):
    monkeypatch.chdir(clients)
    release = crafted(rado, clients, "clients.csv", "-n", "60", "--seed", "7")
    code, out, err = rado("attack", "reconstruct", release, "--seed", "7", "--set", "rows=30")
    assert code == 0 and "assumed:" in out and "all 30 records back to the last bit" in " ".join(out.split())
    assert err == "rado: wrote made.reconstructed.csv\n"
    with (clients / "made.reconstructed.csv").open() as file:
        head, *back = csv.reader(file)
    with (clients / "clients.csv").open() as file:
        _, *rows = csv.reader(file)
    assert head == [*NAMES[:3], "label"]
    assert np.allclose(np.array(back, float), np.array(rows, float), atol=1e-4)
    code, out, _ = rado("attack", "reconstruct", release, "--seed", "7", "--json")
    found = json.loads(out)
    assert code == 0 and found["found"] == 30 and found["assumes"] and found["path"] == "made.reconstructed.csv"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--seed", "8"), "another seed"),
        (("--seed", "7", "--set", "rows=29"), "30 rows"),
    ],
)
def test_reconstruct_refuses_in_one_line_and_leaves_nothing(rado, clients, options, said, monkeypatch):
    monkeypatch.chdir(clients)
    release = crafted(rado, clients, "clients.csv", "-n", "60", "--seed", "7")
    code, out, err = rado("attack", "reconstruct", release, *options)
    assert (code, out, err.count("\n")) == (1, "", 1) and said in err
    assert not (clients / "made.reconstructed.csv").exists()


def test_linear_gets_labels_through_noise(rado, clients, tmp_path):
    """Noise of half the clip on 200 rados of 30 rows, with the seed known."""
    schema = write_schema(clients / "schema.json", {"age": (0, 100), "dose": (0, 1), "smokes": (0, 1)})
    noisy = (
        "--mechanism",
        "noisy-rados",
        "--set",
        "noise_std=0.2",
        "--seed",
        "7",
        "--set",
        "i_know=yes",
        "--schema",
        schema,
        "--classes",
        "0,1",
    )
    release = crafted(rado, clients, "clients.csv", "-n", "200", *noisy)
    code, _, err = rado("attack", "linear", release, "--seed", "7")
    assert code == 1 and "--set rows=M" in err
    place = tmp_path / "labels.csv"
    code, out, _ = rado("attack", "linear", release, "--seed", "7", "--set", "rows=30", "-o", place, "--json")
    assert code == 0 and json.loads(out)["status"] == "found"
    with place.open() as file:
        guessed = np.array([float(line) for line in file.read().split()[1:]])
    with (clients / "clients.csv").open() as file:
        labels = np.array([int(row[-1]) for row in list(csv.reader(file))[1:]])
    assert ((guessed > 0) == (labels > 0)).all()
    code, _, err = rado("attack", "linear", release, "--seed", "7", "--set", "rows=30", "--set", "values=a,b")
    assert (code, err.count("\n")) == (1, 1) and "values takes values with commas" in err


def test_probe_names_the_clients_that_are_in_the_release(rado, clients):
    release = crafted(rado, clients, "theirs.csv", "-n", "40")
    probe = ("attack", "probe", release, "--label", "churned", "--table")
    code, out, _ = rado("attack", "probe", release, "--table", clients / "clients.csv")
    assert code == 0 and "the others are not" in " ".join(
        out.split()
    )  # the only column that is no feature is the label
    code, out, _ = rado(*probe, clients / "clients.csv", "-o", clients / "status.csv")
    assert code == 0 and "14 are in the release" in " ".join(out.split()) and "being 0: 0-13\n" in out
    assert (clients / "status.csv").read_text().splitlines()[:2] == ['"row","status"', '0,"in"']
    code, out, err = rado(*probe, clients / "clients.csv", "--set", "rados=0")
    assert (code, out, err.count("\n")) == (1, "", 1) and "at least one rado" in err
    for table in ("others.csv", "clients.csv"):
        other = crafted(rado, clients, "others.csv" if table == "clients.csv" else "theirs.csv", "-n", "40")
        (clients / "few.csv").write_text("age,dose,smokes,churned\n" + "1.5,0.1,0,1\n2.5,0.3,1,0\n" * 8)
        code, out, err = rado(*probe[:2], other, *probe[3:], clients / "few.csv")
        assert (code, out, err.count("\n")) == (1, "", 1) and "release of another table" in err


def test_leak_reads_the_protected_value(rado, clients):
    band = ("--mechanism", "feature-band", "--set", "feature=smokes", "--epsilon", "6", "--delta", "0.1")
    release = crafted(rado, clients, "theirs.csv", "-n", "16", *band)
    with (clients / "theirs.csv").open() as file:
        head, *rows = csv.reader(file)
    for row in (0, 5):
        true = rows[row][2]
        rows[row][2] = "1" if true == "0" else "0"
        with (clients / "all-but-one.csv").open("w", newline="") as file:
            csv.writer(file).writerows([head, *rows])
        rows[row][2] = true
        given = ("--table", clients / "all-but-one.csv", "--label", "churned", "--set", f"row={row}")
        code, out, _ = rado("attack", "leak", release, *given, "--json")
        assert code == 0 and json.loads(out)["value"] == float(true)
    code, out, _ = rado("attack", "leak", release, *given)
    assert "seen in that column's marginal" in " ".join(out.split())
    for options, said in (
        (
            ("--table", clients / "clients.csv", "--label", "churned", "--set", "row=0"),
            "30 rows and the release is of 14",
        ),
        (("--table", clients / "others.csv", "--label", "churned", "--set", "row=0"), "another table"),
        (("--table", clients / "theirs.csv", "--label", "churned", "--set", "row=14"), "row must be one of 0 .. 13"),
    ):
        code, out, err = rado("attack", "leak", release, *options)
        assert (code, out, err.count("\n")) == (1, "", 1) and said in err


def test_membership_holds_a_release_against_its_statement(rado, clients):
    release = crafted(rado, clients, "theirs.csv", "-n", "20")
    code, out, _ = rado("attack", "membership", release, "--set", "runs=2000")
    assert code == 0 and "nothing is promised about that" in " ".join(out.split())
    code, out, err = rado("attack", "membership", release, "--set", "runs=10")
    assert (code, out) == (1, "") and "at least 1,000 runs" in err


def test_a_release_with_half_the_noise_of_its_statement_ends_in_exit_code_1(rado, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(
        statement_check, "_check_stated_rado_noise", lambda release: None
    )  # which would refuse the file
    declared = {"bounds": [(0, 1)] * 2, "classes": (0, 1), "n_rados": 20}
    honest = flat.craft(rng.random((30, 2)), rng.integers(0, 2, 30), mechanism=rb.NoisyRados(4.0), **declared)
    half = {**honest.mechanism, "noise_std": honest.mechanism["noise_std"] / 2}
    for release, code_wanted in ((honest, 0), (dataclasses.replace(honest, mechanism=half), 1)):
        release.save(tmp_path / "made.rado.parquet")
        code, out, err = rado("attack", "membership", tmp_path / "made.rado.parquet", "--seconds", "600")
        assert code == code_wanted and "found:" in out
        assert err.count("\n") == code and ("do not trust it" in err) == bool(code)


def test_a_confounder_has_the_same_rados(rado, clients):
    release = crafted(rado, clients, "theirs.csv", "-n", "20")
    own = ("--table", clients / "theirs.csv", "--label", "churned")
    code, out, _ = rado("attack", "confounder", release, *own, "-o", clients / "other.csv", "--json")
    found = json.loads(out)
    assert code == 0 and found["reaches_bound"] and found["distance"] >= found["bound"]
    with (clients / "other.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == [*rb.load(release).feature_names] and len(rows) == 15
    code, out, err = rado("attack", "confounder", release, "--table", clients / "clients.csv", "--label", "churned")
    assert (code, out, err.count("\n")) == (1, "", 1) and "30 rows and the release is of 14" in err


@pytest.mark.parametrize("attack", ["probe", "leak", "confounder"])
def test_a_table_of_another_width_no_table_or_no_label(rado, clients, attack):
    release = crafted(rado, clients, "theirs.csv", "-n", "20")
    (clients / "narrow.csv").write_text("age,churned\n" + "30.5,0\n41.5,1\n" * 7)
    two = "age,dose,smokes,churned,name\n" + "30.5,0.1,0,0,a\n41.5,0.2,1,1,b\n" * 7
    (clients / "two.csv").write_text(two)
    row = ("--set", "row=0") if attack == "leak" else ()
    for options, said in (
        (("--table", clients / "narrow.csv", "--label", "churned"), "has no column"),
        (("--table", clients / "two.csv"), "beside the features it has 'churned', 'name'"),
        (("--label", "churned"), "--table"),
        (("--table", clients / "nowhere.csv", "--label", "churned"), "nowhere.csv"),
        (("--table", clients / "theirs.csv", "--label", "nothing"), "nothing"),
    ):
        if attack == "leak" and said == "has no column":
            release = crafted(rado, clients, "theirs.csv", "-n", "16", "--mechanism", "feature-band", "--set",
                              "feature=smokes", "--epsilon", "6", "--delta", "0.1")  # fmt: skip
        code, out, err = rado("attack", attack, release, *options, *row)
        assert (code, out, err.count("\n")) == (1, "", 1) and said in err, err


def test_the_report_is_one_page_with_every_attack(rado, clients, monkeypatch):
    monkeypatch.chdir(clients)
    release = crafted(rado, clients, "theirs.csv", "-n", "30", "--seed", "7")
    own = (
        "--table",
        clients / "theirs.csv",
        "--label",
        "churned",
        "--seed",
        "7",
        "--set",
        "rows=14",
        "--seconds",
        "0.5",
    )
    begun = time.process_time()
    code, out, err = rado("attack", "report", release, *own, "--json")
    assert code == 0, err
    said = json.loads(out)["attacks"]
    assert set(said) == {*ATTACKS, "program"} and time.process_time() - begun < 120
    assert "all 14 records" in said["reconstruct"]["On this release"]
    page = (clients / "made.attacks.html").read_text()
    assert f"rado attack linear {release} --seed 7 --set rows=14" in page
    assert page.count("Assumed to be known") == len(ATTACKS) - 1 and page.count("<figure>") >= 5  # not of the leak
    assert page.index("No promise") < page.index("Attacks on this release") < page.index("In plain words")
    assert {entry["group"] for entry in said.values()} == {"Tried", "Would need more", "Does not apply"}
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script" not in page
    for name, entry in said.items():
        assert entry["Assumed to be known"] and entry["On this release"], name
    statement = rb.load(release).statement  # all of it, escaped
    for sentence in (*statement.not_protected, statement.random_source, statement.trust_model):
        assert str(markupsafe.escape(sentence)) in page
    assert page.index("What is not protected") < page.index("Contents")
    code, out, err = rado("attack", "report", release, "--label", "churned")
    assert (code, out, err.count("\n")) == (1, "", 1) and "--table" in err


@pytest.mark.slow
def test_the_report_studies_nothing_that_is_not_about_the_release(rado, clients, monkeypatch):
    """A release of another mechanism than feature-band does not wait for a study of feature-band."""
    release = crafted(rado, clients, "theirs.csv", "-n", "10")
    studied = []

    def study(name, **_):
        studied.append(name)
        raise rb.ArgumentError("this attack needs flint; install it")  # as without the extra `attacks`

    monkeypatch.setattr("radoboost.lab.attacks.attack_suite.run_attack_study", study)
    code, out, err = rado("attack", "report", release, "-o", clients / "page.html", "--seconds", "0.5", "--json")
    assert code == 0, err
    assert "leak" not in studied and {"linear", "probe", "hardness"} <= set(studied)
    assert "Does not apply" in json.loads(out)["attacks"]["leak"]["On this release"]
    assert "was not tried: this attack needs flint" in (clients / "page.html").read_text()


def no_study(name, **_):
    raise rb.ArgumentError("there is no time to study it")


def test_the_report_escapes_names_of_columns_and_files(rado, tmp_path, rng, monkeypatch):
    monkeypatch.setattr("radoboost.lab.attacks.attack_suite.run_attack_study", no_study)
    name = "<script>alert(\"1\")</script> & 'b'"
    table = pa.table({name: rng.random(14), "class": rng.integers(0, 2, 14)})
    release = rb.craft(table, label="class", n_rados=20, seed=7, mechanism=rb.Plain(intercept=False))
    place = tmp_path / "a<b>&'c.rado.parquet"
    release.save(place)
    known = ("--seed", "7", "--set", "rows=14", "--seconds", "0.2")
    code, _, err = rado("attack", "report", place, *known, "-o", tmp_path / "page.html")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page and "<b>" not in page and "a&lt;b&gt;&amp;" in page
    assert (
        "--set &#39;column=&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt; &amp; " in page
    )  # in a command, with its quotes


def test_studies_are_measured_into_a_folder(rado, tmp_path):
    code, out, err = rado("attack", "study", "confounder", "--quick", "--seconds", "2", "-o", tmp_path / "studies")
    assert code == 0 and "Another data set with the same rados" in out and "report.html" in err
    kept = json.loads((tmp_path / "studies" / "confounder.json").read_text())
    assert kept["command"] == "rado attack study confounder --seed 0 --quick --seconds 2"
    assert (tmp_path / "studies" / "report.html").exists()
    code, _, err = rado("attack", "study", "nonsense", "-o", tmp_path / "studies")
    assert (code, err.count("\n")) == (1, 1) and "there is no study of 'nonsense'" in err
    for name in ("all", "linear", "hardness"):
        code, out, err = rado("attack", "study", name, "--seed", "-2", "--quick", "-o", tmp_path / "none")
        assert (code, out, err.count("\n")) == (1, "", 1) and "seed must be" in err
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_release_with_a_schema_says_how_the_table_of_an_attack_is_read(rado, rng):
    values, classes = rng.normal(size=(16, 2)), rng.integers(0, 2, 16)
    rows = [
        f"k{k};{dose:.9f};{'AB'[k % 2]} ;{weight:.9f};{('no', 'yes')[classes[k]]}".replace(".", ",")
        for k, (dose, weight) in enumerate(values)
    ]
    header = "id;dose;ward;weight;ill"
    Path("all.csv").write_text("\n".join([header, *rows]))
    Path("some.csv").write_text("\n".join([header, *rows[:9]]))
    kinds = {"dose": "number", "ward": "category", "weight": "number"}
    schema = {"radoboost_schema": 1, "label": "ill", "decimal": ",", "columns": {"id": {"kind": "id"}}}
    schema["columns"] |= {name: {"kind": kind} for name, kind in kinds.items()}
    Path("s.json").write_text(json.dumps(schema))
    for options in ((), ("--columns", "degree-2")):
        code, _, err = rado(
            "craft", "some.csv", "--schema", "s.json", "-n", 30, "-o", "r.rado.parquet", "--force", *options
        )
        assert code == 0, err
        code, out, err = rado("attack", "probe", "r.rado.parquet", "--table", "all.csv", "--json")
        assert code == 0, err
        assert json.loads(out)["members"] == list(range(9))
