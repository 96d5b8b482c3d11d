"""What commands write over, and what they leave alone."""

import gzip
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import radoboost as rb
from radoboost.cli import keeping
from radoboost.errors import OutputError


@pytest.fixture
def made(rado, clinic, tmp_path):
    """One file of each kind that the command makes, in the working directory."""
    declared = tmp_path / "bounds.json"
    declared.write_text('{"age": [0, 100], "dose": [0, 1]}')
    private = ["--bounds", declared, "--label", "readmitted", "--classes", "no", "yes", "--epsilon", 1]
    plain = ["craft", clinic, "--label", "readmitted", "-n", 50, "-o"]
    for words in (
        [*plain, "plain.rado.parquet"],
        [*plain, "other.rado.parquet"],
        ["craft", clinic, *private, "-o", "spent.rado.parquet"],
        ["learn", "plain.rado.parquet", "-o", "plain.model.json", "--report", "plain.html"],
        ["predict", "plain.model.json", clinic, "-o", "clinic.scores.csv"],
        ["predict", "plain.model.json", clinic, "-o", "clinic.scores.parquet"],
        ["export", "plain.model.json", "--to", "python", "-o", "plain.py"],
        ["export", "plain.model.json", "--to", "sql", "-o", "plain.sql"],
        ["schema", clinic, "--label", "readmitted", "-o", "clinic.schema.json"],
        ["share", clinic, "--label", "readmitted", "-o", "a.share", "b.share"],
        ["craft", "a.share", "--new-key", "both.key", "-n", 50, "-o", "a.partial"],
    ):
        code, _, err = rado(*words)
        assert code == 0, err
    shutil.copy(clinic, "table.csv")
    return clinic


KINDS = {
    "plain.rado.parquet": keeping.RELEASE,
    "spent.rado.parquet": keeping.RELEASE,
    "plain.model.json": keeping.MODEL,
    "plain.html": keeping.PAGE,
    "clinic.scores.csv": keeping.SCORES,
    "clinic.scores.parquet": keeping.SCORES,
    "plain.py": keeping.PROGRAM,
    "plain.sql": keeping.PROGRAM,
    "clinic.schema.json": keeping.SCHEMA,
    "a.share": keeping.SHARE,
    "a.partial": keeping.PARTIAL,
    "both.key": keeping.OTHER,
    "table.csv": keeping.OTHER,
}


def test_every_file_is_known_for_what_it_is(made):
    assert {name: keeping.kind_of(Path(name)) for name in KINDS} == KINDS


def writers(table):
    """Commands that write, without their places, and what each writes."""
    label = ["--label", "readmitted"]
    return [
        (["craft", table, *label, "-n", 50, "-o"], keeping.RELEASE),
        (["merge", "plain.rado.parquet", "other.rado.parquet", "-o"], keeping.RELEASE),
        (["learn", "other.rado.parquet", "-o"], keeping.MODEL),
        (["predict", "plain.model.json", table, "-o"], keeping.SCORES),
        (["export", "plain.model.json", "--to", "python", "-o"], keeping.PROGRAM),
        (["schema", table, *label, "-o"], keeping.SCHEMA),
        (["share", table, *label, "-o", "c.share"], keeping.SHARE),
        (["craft", "b.share", "--key", "both.key", "-n", 50, "-o"], keeping.PARTIAL),
    ]


def test_no_command_writes_over_another_kind_of_file_or_a_promise(rado, made):
    for words, kind in writers(made):
        for name in ("table.csv", "both.key", "spent.rado.parquet", "plain.html"):
            before = Path(name).read_bytes()
            code, out, err = rado(*words, name)
            assert (code, out, err.count("\n")) == (1, "", 1), (words, name, err)
            assert name in err and "--force" in err
            assert Path(name).read_bytes() == before
        if kind != keeping.RELEASE:
            assert f"and not {kind}" in rado(*words, "spent.rado.parquet")[2]
        else:
            assert "spent epsilon 1 (one record" in rado(*words, "spent.rado.parquet")[2]


def test_the_same_kind_is_written_again_and_force_writes_over_anything(rado, made):
    for words, kind in writers(made):
        name = "out.parquet" if kind == keeping.SCORES else "out.py"
        Path(name).write_bytes(b"")  # an empty file is nothing to keep
        for _ in range(2):
            code, _, err = rado(*words, name)
            assert code == 0, err
        Path(name).unlink()
        shutil.copy("table.csv", name)
        assert rado(*words, name)[0] == 1
        code, _, err = rado(*words, name, "--force")
        assert code == 0, err
        Path(name).unlink()


def test_an_attack_leaves_tables_alone(rado, made):
    assert rado("craft", made, "--label", "readmitted", "-n", 200, "--seed", 7, "-o", "seeded.rado.parquet")[0] == 0
    attack = ["attack", "reconstruct", "seeded.rado.parquet", "--seed", 7]
    for _ in range(2):
        assert rado(*attack)[0] == 0  # seeded.reconstructed.csv
    before = Path("table.csv").read_bytes()
    code, _, err = rado(*attack, "-o", "table.csv")
    assert code == 1 and "table.csv is there, and it does not hold records that an attack got" in err
    assert Path("table.csv").read_bytes() == before
    assert rado(*attack, "-o", "table.csv", "--force")[0] == 0


def test_counts_for_the_holder_are_not_written_over_a_table(rado, made, tmp_path):
    words = ["craft", made, "--bounds", tmp_path / "bounds.json", "--label", "readmitted", "--classes", "no", "yes"]
    for place, code in (("counts.json", 0), ("counts.json", 0), ("table.csv", 1)):
        Path("new.rado.parquet").unlink(missing_ok=True)
        found, _, err = rado(*words, "--epsilon", 1, "--counts", place, "-o", "new.rado.parquet")
        assert found == code, err
    assert "it does not hold counts of rows; choose another place with --counts" in err
    assert not Path("new.rado.parquet").exists()


def test_a_page_is_not_written_over_what_is_no_page(rado, made):
    Path("notes.html").write_text("<!DOCTYPE html><html>my own notes</html>")
    for words in (["show", "plain.model.json", "--html"], ["learn", "plain.rado.parquet", "--report"]):
        code, _, err = rado(*words, "notes.html")
        assert code == 1 and "notes.html is there, and it is no page of radoboost" in err
        assert rado(*words, "notes.html", "--force")[0] == 0
        Path("notes.html").write_text("<!DOCTYPE html><html>my own notes</html>")


def test_a_release_may_take_the_place_of_a_plain_one_and_not_of_a_model(made):
    rb.load("plain.rado.parquet").save("spent.rado.parquet")
    keeping.keep_files(Path("spent.rado.parquet"), keeping.RELEASE)
    with pytest.raises(OutputError, match="it is a model, and not a release"):
        keeping.keep_files(Path("plain.model.json"), keeping.RELEASE)


# ---- what else a file may be


def test_a_key_that_is_shown_is_called_a_key(rado, made):
    code, out, err = rado("show", "both.key")
    assert (code, out) == (1, "") and "both.key is a key, and neither a model nor a release" in err


def test_one_sender_is_one_sender(rado, made):
    assert rado("craft", "b.share", "--key", "both.key", "-n", 50, "-o", "b.partial")[0] == 0
    code, out, err = rado("merge", "--shares", "a.partial", "b.partial")
    assert code == 0, err
    assert "shares of rows of 1 sender" in " ".join(out.split()) and "1 senders" not in out


@pytest.mark.parametrize("kind", ["a Parquet file", "an Arrow file", "packed by gzip"])
def test_a_file_that_is_called_csv_and_is_something_else_is_named(rado, kind):
    table = pa.table({"age": [1.0, 2.0, 3.0], "ill": ["no", "yes", "no"]})
    if kind == "a Parquet file":
        pq.write_table(table, "odd.csv")
    elif kind == "an Arrow file":
        feather.write_feather(table, "odd.csv", compression="uncompressed")
    else:
        Path("odd.csv").write_bytes(gzip.compress(b"age,ill\n1,no\n2,yes\n"))
    code, _, err = rado("craft", "odd.csv", "--label", "ill")
    assert (code, err.count("\n")) == (1, 1)
    assert f"odd.csv is {kind}, whatever it is called; give it a name that ends in ." in err


def test_releases_to_merge_come_in_a_list(made):
    plain, other = (rb.load(name) for name in ("plain.rado.parquet", "other.rado.parquet"))
    for first, second in ((plain, other), ("plain.rado.parquet", "other.rado.parquet")):
        with pytest.raises(rb.ArgumentError, match=r"in a list: merge\(\[a, b\]\)"):
            rb.merge(first, second)
