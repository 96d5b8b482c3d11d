"""A release or a model in place of a schema: another holder reads raw tables by the one that it carries."""

import os
from pathlib import Path

import pandas as pd
import pytest

import flat
import radoboost as rb

COLUMNS = {"age": rb.Number(0, 120, gaps=True, fill=50), "ward": rb.Category(("A", "B"), other=True)}


def clinic(wards, n_rows=90):
    lines = [
        f"{'' if k % 9 == 0 else 20 + k % 60},{wards[k % len(wards)]},{'yes' if k % 3 == 0 else 'no'}"
        for k in range(n_rows)
    ]
    return "age,ward,outcome\n" + "\n".join(lines) + "\n"


@pytest.fixture
def both(rado):
    Path("north.csv").write_text(clinic("ABC"))
    Path("south.csv").write_text(clinic("BCD"))
    assert rado("craft", "north.csv", "-l", "outcome", "-n", 30)[0] == 0
    return "north.rado.parquet"


def test_holders_whose_categories_differ_are_told_which_schema_to_take(rado, both):
    assert rado("craft", "south.csv", "-l", "outcome", "-n", 30)[0] == 0
    code, _, err = rado("merge", both, "south.rado.parquet", "-o", "both.rado.parquet")
    assert code == 1 and err.count("\n") == 1 and not os.path.exists("both.rado.parquet")
    assert "by different schemas, in 'ward'; " in err and err.endswith(f": --schema {both}\n")
    assert rado("craft", "south.csv", "--schema", both, "-n", 30, "--force")[0] == 0
    assert rb.load("south.rado.parquet").schema == rb.load(both).schema
    assert rado("merge", both, "south.rado.parquet", "-o", "both.rado.parquet")[0] == 0
    with pytest.raises(rb.ArgumentError, match=r"carries: schema= release 1$"):
        rb.merge([rb.load(both), rb.craft("south.csv", label="outcome", schema=rb.Schema(COLUMNS), n_rados=30)])


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_every_carrier_is_read_alike(rado, both):
    assert rado("learn", both)[0] == 0
    release, model = rb.load(both), rb.load_model("north.model.json")
    carriers = (release.schema, release, model, both, Path("north.model.json"))
    rados = {rb.craft("south.csv", schema=carrier, n_rados=9, seed=1).rados.tobytes() for carrier in carriers}
    assert len(rados) == 1
    written = rb.Schema(COLUMNS, "outcome", ("no", "yes"))
    release = rb.craft("south.csv", schema=written, mechanism=rb.Moments(1.0))
    assert rb.craft("north.csv", schema=release, mechanism=rb.Moments(1.0)).schema == release.schema


def test_what_was_made_from_a_table_is_refused_for_a_promise(rado, both):
    assert rado("learn", both)[0] == 0
    before = sorted(os.listdir("."))
    for carrier in (both, "north.model.json"):
        code, out, err = rado("craft", "south.csv", "--epsilon", 1, "--schema", carrier)
        assert (code, out, err.count("\n")) == (1, "", 1) and "this was read off the table" in err
        with pytest.raises(rb.ArgumentError, match="this was read off the table"):
            rb.craft("south.csv", schema=carrier, mechanism=rb.Moments(1.0))
    assert sorted(os.listdir(".")) == before


def test_a_carrier_without_a_schema_is_one_line(rado):
    Path("clean.csv").write_text("a,y\n" + "".join(f"{k},{k % 2}\n" for k in range(40)))
    assert rado("craft", "clean.csv", "-l", "y", "-n", 20)[0] == 0 and rado("learn", "clean.rado.parquet")[0] == 0
    for carrier in ("clean.rado.parquet", "clean.model.json"):
        code, out, err = rado("craft", "clean.csv", "--schema", carrier, "-o", "x.parquet")
        assert (code, out, err.count("\n")) == (1, "", 1) and f"{carrier} carries no schema" in err
    with pytest.raises(rb.ArgumentError, match="the release carries no schema"):
        rb.craft("clean.csv", schema=rb.load("clean.rado.parquet"))
    Path("broken.rado.parquet").write_bytes(Path("clean.rado.parquet").read_bytes()[:-40])
    with pytest.raises(rb.ArgumentError, match="broken"):
        rb.craft("clean.csv", schema="broken.rado.parquet")
    assert rado("craft", "clean.csv", "--schema", "clean.csv", "-o", "x.parquet")[0] == 1
    assert not os.path.exists("x.parquet")


# ---- values that the schema does not have


WARDS = {**COLUMNS, "ward": rb.Category(("B", "C")), "age": rb.Number(0, 120, fill=50)}


def test_craft_says_which_values_the_schema_does_not_have(rado, both):
    code, _, err = rado("craft", "south.csv", "--schema", both, "-n", 30)
    assert code == 0 and "'ward' 30 of 90 rows" in err and err.count("\n") == 2
    assert rado("craft", "south.csv", "--schema", both, "-n", 30, "--quiet", "--force")[2] == ""
    assert (
        rado("craft", "north.csv", "--schema", both, "-n", 30, "--force")[2].count("\n") == 1
    )  # and nothing of values


@pytest.mark.parametrize("options", [
    {}, {"columns": "degree-2"}, {"missing": "drop"}, {"threads": 2},
], ids=str)  # fmt: skip
def test_they_are_counted_in_every_plain_pass(both, options):
    schema = rb.Schema(WARDS, "outcome", ("no", "yes"))
    n_rows = 80 if "missing" in options else 90
    left = [word for k, word in enumerate("BCD" * 30) if k % 9 or n_rows == 90]
    with pytest.warns(rb.SchemaWarning, match=rf"not have, in 'ward' {left.count('D')} of {n_rows} rows"):
        flat.craft("south.csv", schema=schema, n_rados=20, **options)


def test_nothing_is_said_of_a_column_that_is_protected(both):
    """How many rows do not have its one value is what the band hides."""
    schema = rb.Schema({"ward": rb.Category(("B",)), "more": rb.Category(("u",))}, "outcome", ("no", "yes"))
    table = pd.read_csv("south.csv", dtype=str).assign(more=["u", "v", "w"] * 30)
    with pytest.warns(rb.SchemaWarning, match="not have, in 'more' 60 of 90 rows"):
        rb.craft(table, schema=schema, n_rados=20, mechanism=rb.FeatureBand("ward=B", 5.0, delta=0.4))


def test_other_values_that_have_a_column_are_foreseen(both):
    rb.craft("south.csv", schema=rb.Schema(COLUMNS, "outcome", ("no", "yes")), n_rados=20)
