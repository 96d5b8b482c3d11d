"""What commands write over, and what they leave alone."""

import gzip
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import radoboost as rb
from schema_files import write_schema


@pytest.fixture
def made(rado, clinic, tmp_path):
    """A table, two plain releases, a private one, a model, and shares of rows, in the working directory."""
    write_schema("declared.json", {"age": (0, 100), "dose": (0, 1)}, "readmitted", ["no", "yes"])
    plain = ["craft", clinic, "--label", "readmitted", "-n", 50, "-o"]
    for words in (
        [*plain, "plain.rado.parquet"],
        [*plain, "other.rado.parquet"],
        ["craft", clinic, "--schema", "declared.json", "--epsilon", 1, "-o", "spent.rado.parquet"],
        ["learn", "plain.rado.parquet"],
        ["share", "split", clinic, "--label", "readmitted", "-o", "a.share", "b.share"],
        ["share", "sum", "a.share", "--new-key", "both.key", "-n", 50, "-o", "a.partial"],
    ):
        code, _, err = rado(*words)
        assert code == 0, err
    shutil.copy(clinic, "table.csv")
    return clinic


def writers(table):
    """Commands that write, without the option that names the place, and the place that they write to without one."""
    label = ["--label", "readmitted"]
    return [
        (["craft", table, *label, "-n", 50], "-o", "clinic.rado.parquet"),
        (["merge", "plain.rado.parquet", "other.rado.parquet"], "-o", "merged.rado.parquet"),
        (["learn", "other.rado.parquet"], "-o", "other.model.json"),
        (["predict", "plain.model.json", table], "-o", "clinic.scores.csv"),
        (["schema", table, *label], "-o", "clinic.schema.json"),
        (["share", "sum", "b.share", "--key", "both.key", "-n", 50], "-o", "b.partial"),
        (["show", "plain.model.json"], "--html", None),
        (["learn", "plain.rado.parquet"], "--report", None),
        (["craft", table, "--schema", "declared.json", "--epsilon", 1, "-o", "new.parquet"], "--counts", None),
    ]


def test_a_file_is_written_over_by_force_alone_or_where_the_command_names_it_by_default(rado, made):
    for words, option, default in writers(made):
        place = "mine.html" if option != "-o" else "mine.csv"
        Path(place).write_text("my own notes")
        code, out, err = rado(*words, option, place)
        assert (code, out, err.count("\n")) == (1, "", 1), (words, err)
        assert f"{place} exists; choose another place with {option}, or write over it with --force" in err
        assert Path(place).read_text() == "my own notes"
        code, _, err = rado(*words, option, place, "--force")
        assert code == 0, err
        Path(place).write_bytes(b"")  # an empty file is nothing to keep
        Path("new.parquet").unlink(missing_ok=True)
        code, _, err = rado(*words, option, place)
        assert code == 0, err
        for _ in range(2 if default else 0):
            code, _, err = rado(*words)
            assert code == 0, err


def test_a_private_release_is_written_over_by_force_alone(rado, made):
    before = Path("spent.rado.parquet").read_bytes()
    for words, option, default in writers(made):
        if default is None:
            continue
        Path(default).write_bytes(before)
        for more, place in (([], default), ([option, "spent.rado.parquet"], "spent.rado.parquet")):
            code, out, err = rado(*words, *more)
            assert (code, out, err.count("\n")) == (1, "", 1), (words, err)
            assert "spent epsilon 1 (one record" in err and "--force" in err
            assert Path(place).read_bytes() == before
        Path(default).unlink()


def test_shares_are_written_over_by_force_alone(rado, made):
    words = ["share", "split", made, "--label", "readmitted"]
    assert rado(*words)[0] == 0
    before = Path("clinic.a.share").read_bytes()
    code, out, err = rado(*words)
    assert (code, out, err.count("\n")) == (1, "", 1) and "clinic.a.share exists" in err and "--force" in err
    assert Path("clinic.a.share").read_bytes() == before
    assert rado(*words, "--force")[0] == 0 and Path("clinic.a.share").read_bytes() != before


# ---- what else a file may be


def test_a_key_that_is_shown_is_called_a_key(rado, made):
    code, out, err = rado("show", "both.key")
    assert (code, out) == (1, "") and "both.key is a key, and neither a model nor a release" in err


def test_one_sender_is_one_sender(rado, made):
    assert rado("share", "sum", "b.share", "--key", "both.key", "-n", 50, "-o", "b.partial")[0] == 0
    code, out, err = rado("merge", "a.partial", "b.partial")
    assert code == 0, err
    out = rado("show", "merged.rado.parquet")[1]
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
