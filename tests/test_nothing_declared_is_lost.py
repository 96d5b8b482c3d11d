"""A declaration keeps its marks and its person on every way in: as a schema of numbers, as limits, in the studio."""

import json
from dataclasses import replace

import numpy as np
import pytest

import radoboost as rb
from radoboost.holder.request import CraftRequest
from radoboost.holder.table_check import check_table
from radoboost.studio.schema_form import SchemaForm
from radoboost.tables.raw_table import raw_column_types

NUMBERS = {"a": (0, 1), "b": (0, 1)}


def test_lines_of_a_schema_of_numbers_are_lines(tmp_path):
    """Two lines whose quotes would make one record of all between them: as lines, each is one row."""
    place, schema = tmp_path / "t.csv", rb.Schema(numbers=NUMBERS, records="lines")
    counts = []
    for more in ("", '"0.5,0.5,1\n'):
        place.write_text("a,b,y\n" + more + "0.5,0.5,0\n" * 50 + '0.5",0.5,1\n')
        checked = check_table(place, label="y", classes=(0, 1), schema=schema).to_dict()
        counts.append((checked["rows"], checked["contribute"]))
    assert counts[1][0] - counts[0][0] == 1 and abs(counts[1][1] - counts[0][1]) <= 1
    asked = CraftRequest.of(schema, rb.Moments(1.0), label="y", classes=(0, 1))
    assert asked.reading is not None and asked.reading.records == "lines"


@pytest.mark.filterwarnings("ignore::radoboost.errors.PersonWarning")
def test_edits_after_exact_counts_are_in_the_statement_of_a_schema_of_numbers():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 1, (2000, 1)), rng.integers(0, 2, 2000)
    for schema in (
        rb.Schema(numbers={"x0": (0, 1)}, corrected=("x0",)),
        rb.Schema({"x0": rb.Number(0, 1)}, corrected=("x0",)),
    ):
        stated = rb.craft(x, y, schema=schema, classes=(0, 1), epsilon=4.0, counts=None).statement
        assert any("'x0'" in line and "counts" in line for line in stated.not_protected)


@pytest.mark.parametrize("marks", [{"inferred": True}, {}], ids=["inferred", "corrected"])
def test_limits_of_a_marked_schema_are_no_numbers(marks):
    seen = rb.Schema({"a": rb.Number(0, 1, **marks)}, corrected=() if marks else ("a",))
    for make in (
        lambda: rb.Schema(numbers=seen.limits()),
        lambda: replace(rb.Schema(), numbers=seen.limits()),
        lambda: rb.Schema.from_dict({"radoboost_schema": 1, "columns": {}, "numbers": seen.limits()}),
    ):
        with pytest.raises(rb.ArgumentError, match="give the schema itself"):
            make()
    if not marks:
        again = rb.Schema(numbers={"a": (0, 1)}, corrected=("a",)).limits()
        with pytest.raises(rb.ArgumentError, match="give the schema itself"):
            rb.Schema.of(again)


def test_the_studio_keeps_what_a_schema_file_says_of_the_table(tmp_path):
    place = tmp_path / "t.csv"
    place.write_text("patient_id,a,b,y\n1,0.5,0.5,no\n")
    columns = {"patient_id": rb.Ignored("text"), "a": rb.Number(0, 1), "b": rb.Number(0, 1)}
    schema = rb.Schema(
        columns, "y", ("no", "yes"), records="lines", rows=500, person=rb.Person("patient_id", 3), drop=("b",),
    )  # fmt: skip
    first = rb.schema_template([str(place)], "y")
    draft = SchemaForm(place, raw_column_types([str(place)]), first)
    draft.take_up(rb.Schema.from_dict(json.loads(json.dumps(schema.to_dict()))))
    kept = draft.schema()
    assert (kept.person, kept.rows, kept.records, kept.drop) == (schema.person, 500, "lines", ("b",))
    draft.begin_anew()
    assert draft.schema().person is None


def test_persons_in_an_array_of_floats_are_refused():
    """One missing feature makes floats of an array of whole numbers, and large ids are then nobody's."""
    array = np.array([[2**55 + k, k % 2] for k in range(50)])
    schema = rb.Schema(numbers={"x1": (0, 1)}, person=rb.Person("x0", 1))
    options = {"schema": schema, "classes": (0, 1)}
    with pytest.raises(rb.ArgumentError, match="persons in 'x0' are floats"):
        check_table(array.astype(float), [0, 1] * 25, **options)
    assert check_table(array, [0, 1] * 25, **options).counts.persons.people == 50
