"""Columns that a mechanism protects: nothing of them is taken from the table into a schema."""

import json

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.holder.schema_inference import settle_schema

N_ROWS = 400


def table(gap=False, coding=(0, 1)):
    """A raw table whose column `smokes` has a mean that nothing else has."""
    rng = np.random.default_rng(4)
    smokes = [str(coding[bool(value)]) for value in rng.random(N_ROWS) < 0.37]
    if gap:
        smokes[7] = ""
    return {
        "smokes": smokes,
        "age": ["" if k % 10 == 0 else f"{age:.1f}" for k, age in enumerate(rng.uniform(20, 80, N_ROWS))],
        "ward": rng.choice(["A", "B"], N_ROWS).tolist(),
        "outcome": rng.choice(["no", "yes"], N_ROWS).tolist(),
    }


def mean_of(columns):
    return float(np.mean([float(cell) for cell in columns["smokes"]]))


def band(values=None, feature="smokes"):
    return rb.FeatureBand(feature, epsilon=4.0, values=values)


def craft(columns, **options):
    return flat.craft(columns, label="outcome", n_rados=10, seed=1, **{"mechanism": band(), **options})


def numbers_in(entry):
    """All numbers in JSON data."""
    if isinstance(entry, dict | list):
        return [n for part in (entry.values() if isinstance(entry, dict) else entry) for n in numbers_in(part)]
    return [entry] if isinstance(entry, int | float) else []


@pytest.mark.parametrize("way", ["proposed", "from data", "settled"])
@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_the_mean_of_the_protected_column_is_nowhere_in_the_file(way, tmp_path):
    columns = table()
    seen = rb.propose_schema(columns, "outcome")
    assert seen.columns["smokes"].fill == mean_of(columns)  # so there is something to find
    written = rb.Schema({"smokes": rb.Number(), "age": rb.Number(gaps=True), "ward": rb.Category()})
    assert settle_schema(written, columns).columns["smokes"].fill == mean_of(columns)
    schema = {"proposed": None, "from data": seen, "settled": written}[way]
    release = craft(columns, schema=schema)
    release.save(tmp_path / "r.parquet")
    again = rb.load(tmp_path / "r.parquet")
    assert again.schema.columns["smokes"] == rb.Number() and again.schema.from_data
    assert again.schema.columns["age"].fill is not None and again.schema.columns["ward"].values == ("A", "B")
    assert mean_of(columns) not in numbers_in(again.to_dict())
    assert repr(mean_of(columns)) not in json.dumps(again.to_dict())
    assert any("'smokes', the schema has nothing from the table" in line for line in again.statement.not_protected)
    assert (again.columns[0].name, again.columns[0].low, again.columns[0].high) == ("smokes", 0.0, 1.0)


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
@pytest.mark.parametrize("coding", [(0.0, 1.0), (-1.0, 1.0)])
def test_a_declared_coding_is_the_entry(coding):
    release = craft(table(coding=coding), mechanism=band(values=coding))
    assert release.schema.columns["smokes"] == rb.Number(*coding)
    assert (release.columns[0].low, release.columns[0].high) == coding


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_what_is_declared_stays():
    kinds = {"smokes": rb.Number(0, 1, fill=1), "age": rb.Number(), "ward": rb.Category()}
    release = craft(table(), schema=rb.Schema(kinds))
    assert release.schema.columns["smokes"] == kinds["smokes"]
    assert craft(table(), schema={"smokes": (0, 1)}).schema.columns["smokes"] == rb.Number(0, 1)


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_gaps_in_it_are_refused_or_left_out():
    with pytest.raises(rb.TableError, match="'smokes' 1 of 400 rows"):
        craft(table(gap=True))
    kinds = {"smokes": rb.Number(0, 1, fill=0, gaps=True), "age": rb.Number()}
    with pytest.raises(rb.TableError, match="to be protected"):
        craft(table(gap=True), schema=rb.Schema(kinds))
    assert "smokes=(missing)" not in craft(table(), schema=rb.Schema(kinds)).feature_names
    assert craft(table(gap=True), schema=rb.Schema(gaps="drop")).schema.columns["smokes"] == rb.Number()


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_categories_are_declared_or_refused():
    declared = rb.Schema({"ward": rb.Category(("A",)), "age": rb.Number()})
    assert craft(table(), schema=declared, mechanism=band(feature="ward=A")).schema.columns["ward"].values == ("A",)
    with pytest.raises(rb.TableError, match="'ward' is to be protected"):
        craft(table(), mechanism=band(feature="ward=A"))
    two = rb.Schema({"ward": rb.Category(("A", "B")), "age": rb.Number()})
    others = rb.Schema({"ward": rb.Category(("A",), other=True), "age": rb.Number()})
    for schema, other in ((two, "B"), (others, r"\(other\)")):
        with pytest.raises(rb.TableError, match=f"'ward={other}' would tell"):
            craft(table(), schema=schema, mechanism=band(feature="ward=A"))
    with pytest.raises(rb.TableError, match=r"'ward' has '[AB]'.*no number"):
        craft(table(), mechanism=band(feature="ward"))
