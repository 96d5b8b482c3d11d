"""The command rado with schemas: templates, proposals, JSON Schema for editors, and refusals in one line."""

import json
import os
import re
from pathlib import Path

import jsonschema
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import radoboost as rb
from radoboost.cli.options import complete_from_words
from radoboost.holder.table_check import check_table
from radoboost.tables.column_types import KINDS
from radoboost.tables.schema import json_schema

RAW = "patient_id,age,sex,ward,admitted,outcome\n" + "".join(
    f"{k},{'' if k % 9 == 0 else 20 + k % 60},{'fm'[k % 2]},{'ABC'[k % 3]},2024-{1 + k % 12:02}-{1 + k % 28:02},"
    f"{'yes' if k % 3 == 0 else 'no'}\n"
    for k in range(120)
)
SCHEMA = {
    "radoboost_schema": 1,
    "label": "outcome",
    "classes": ["no", "yes"],
    "columns": {
        "patient_id": {"kind": "id"},
        "age": {"kind": "number", "low": 0, "high": 120, "gaps": True, "fill": 50},
        "sex": {"kind": "category", "values": ["f", "m"]},
        "ward": {"kind": "category", "values": ["A", "B", "C"], "other": True},
        "admitted": {"kind": "date", "low": "2020-01-01", "high": "2030-12-31", "parts": ["weekday"]},
    },
}


@pytest.fixture
def raw(tmp_path):
    path = tmp_path / "raw.csv"
    path.write_text(RAW)
    return path


def schema_file(place="s.json", columns=None, **changes):
    document = {**SCHEMA, **changes, "columns": SCHEMA["columns"] if columns is None else columns}
    Path(place).write_text(json.dumps(document))
    return place


# ---- from the raw file to predictions


def test_a_raw_file_goes_through_without_a_schema(rado, raw):
    code, out, err = rado("craft", raw, "-l", "outcome", "-n", 50)
    assert code == 0 and out.startswith("wrote raw.rado.parquet")
    assert [line.split(":")[1] for line in err.splitlines()[:-1]] == [" numbers", " categories", " dates", " left out"]
    assert "11.7 % gaps" in err and "patient_id" in err
    assert rado("craft", raw, "-l", "outcome", "-n", 50, "--quiet")[2] == ""
    assert rado("learn", "raw.rado.parquet")[0] == 0
    assert rado("predict", "raw.model.json", raw)[0] == 0


def test_a_proposed_file_and_no_schema_are_one(rado, raw):
    code, out, err = rado("schema", raw, "-l", "outcome", "--from-data")
    assert (code, err) == (0, "") and "left out: patient_id (id)" in out
    assert "  age         number    20 to 79 (gaps)\n" in out and "  outcome     label     no or yes\n" in out
    code, _, err = rado("craft", raw, "-n", 20, "--seed", 1, "--schema", "raw.schema.json", "-o", "a.parquet")
    assert code == 0 and err.startswith("rado: exact moments") and err.count("\n") == 1  # and nothing else
    assert rado("craft", raw, "-n", 20, "--seed", 1, "-l", "outcome", "-o", "b.parquet")[0] == 0
    assert rb.load("a.parquet").rados.tobytes() == rb.load("b.parquet").rados.tobytes()


def test_a_written_schema_at_an_epsilon(rado, raw):
    code, out, err = rado("craft", raw, "--epsilon", 1, "-n", 20, "--schema", schema_file())
    assert code == 0 and "--person" in err and err.count("\n") == 1  # and nothing else
    assert "Promise of epsilon 1 for one record added or removed" in out
    assert rb.load("raw.rado.parquet").schema.columns["ward"].other


def test_a_schema_without_its_mark_is_refused(rado, raw):
    written = json.loads(Path(schema_file()).read_text())
    del written["radoboost_schema"]
    Path("marked.json").write_text(json.dumps(written))
    code, _, err = rado("craft", raw, "--epsilon", 1, "--schema", "marked.json")
    assert code == 1 and "not a schema file" in err and "rado schema" in err and err.count("\n") == 1
    with pytest.raises(rb.ArgumentError, match='add "radoboost_schema": 1'):
        rb.craft(raw, schema=written)


def test_rows_with_gaps(rado, raw):
    code, _, err = rado("craft", raw, "-l", "outcome", "-n", 9, "--set", "gaps=drop")
    assert code == 0 and err.splitlines()[-2] == "rado: rows left out for a gap: 14 of 120 ('age' 14)"
    assert rb.load("raw.rado.parquet").n_examples == 106
    code, _, err = rado("craft", raw, "-l", "outcome", "--set", "gaps=error", "-o", "x.parquet")
    assert code == 1 and "values are missing in 'age' 14 of 120 rows" in err and err.count("\n") == 1


def test_separators_and_decimal_commas(rado, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\tb\ty\n" + "".join(f"{k},5\t{k % 7}\t{k % 2}\n" for k in range(40)))
    code, _, err = rado("craft", path, "-l", "y", "-n", 5, "--set", "separator=tab", "--set", "decimal=,")
    assert code == 0 and err.splitlines()[-2] == "rado: written with: separator '\\t', decimal mark ','"
    assert rb.load("t.rado.parquet").schema.columns["a"].high == 39.5
    assert rado("craft", path, "-l", "y", "-n", 5)[0] == 0  # found without being told, and said
    assert rb.load("t.rado.parquet").schema.decimal == ","
    code, _, err = rado("craft", path, "-l", "y", "--set", "separator=;;")
    assert code == 1 and "separator" in err and err.count("\n") == 1


def test_words_to_type():
    assert complete_from_words("fill", "error", "drop")("f") == ["fill"]


# ---- refusals: one line, exit code 1, nothing left behind


def twice(names):
    text = json.dumps({**SCHEMA, "columns": {}})
    Path("s.json").write_text(text.replace("{}", "{" + ", ".join(f'"{n}": {{"kind": "text"}}' for n in names) + "}"))
    return "s.json"


REFUSALS = {
    "another table": (
        lambda: schema_file(columns={name: {"kind": "number"} for name in ("age", "weight", "height")}),
        [],
        "no column 'weight', 'height'",
    ),
    "a column declared twice": (lambda: twice(["sex", "age", "sex", "age"]), [], "has 'sex', 'age' twice"),
    "two spellings of one value": (
        lambda: schema_file(columns={"sex": {"kind": "category", "values": ["1", "1.0"]}}),
        [],
        "column 'sex': the value '1.0' is there twice",
    ),
    "a date that cannot be read": (
        lambda: schema_file(columns={"sex": {"kind": "date"}, "ward": {"kind": "date"}}),
        [],
        r"'sex' has 'f' \(line 2 of .*raw.csv\).*'ward' has 'A'",
    ),
    "open, and a promise": (
        lambda: schema_file(columns={n: {"kind": SCHEMA["columns"][n]["kind"]} for n in ("age", "sex", "admitted")}),
        ["--epsilon", 1],
        r"'age', 'sex', 'admitted'; write .*\"sex\": \{\"kind\": \"category\", \"values\"",
    ),
    "dropped rows, and a promise": (schema_file, ["--epsilon", 1, "--set", "gaps=drop"], "always fills gaps"),
    "a schema from data, and a promise": (
        lambda: schema_file(inferred=["dialect"]),
        ["--epsilon", 1],
        "read off the table",
    ),
    "no JSON": (lambda: Path("s.json").write_text("columns: age") and "s.json", [], "s.json is not JSON"),
    "another version": (lambda: schema_file(radoboost_schema=9), [], "unknown version"),
    "no such way": (schema_file, ["--set", "gaps=ignore"], "gaps must be one of fill, error, drop"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_line_and_leave_nothing(rado, raw, case):
    make, options, message = REFUSALS[case]
    place = make()
    code, out, err = rado("craft", raw, "--schema", place, "-n", 5, *options)
    assert (code, out, os.listdir(".")) == (1, "", ["s.json"])
    assert len(err.splitlines()) == 1 and re.search(message, err), err


MISFITS = {
    "kinds": (
        {"patient_id": {"kind": "category"}, "sex": {"kind": "date"}, "ward": {"kind": "number"}},
        ["'sex' has 'f' (line 2", "'ward' has 'A' (line 2", "'patient_id': more than 64 values"],
    ),
    "a column that is missing, and kinds": (
        {"weight": {"kind": "number", "terms": ["square"]},
         "height": {"kind": "number", "low": 0, "high": 2, "fill": 1},
         "age": {"kind": "date"}, "patient_id": {"kind": "category"}},
        ["'weight', 'height'", "'age' has '21' (line 3", "'patient_id': more than 64 values"],
    ),
    "all settled, and cells far apart": (
        {"age": {"kind": "number", "low": 0, "high": 9, "fill": 1}, "admitted": {"kind": "number", "fill": 1},
         "sex": {"kind": "number", "fill": 0}},
        ["'admitted' has '2024-01-01' (line 2", "'sex' has 'f' (line 2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISFITS)
def test_all_in_which_a_table_does_not_fit_is_one_line(rado, raw, case):
    columns, clauses = MISFITS[case]
    place = schema_file(columns=columns)
    code, out, err = rado("craft", raw, "--schema", place, "-n", 5)
    assert (code, out, err.count("\n")) == (1, "", 1) and all(clause in err for clause in clauses)
    for table in (raw, pd.read_csv(raw, dtype=str), pl.read_csv(raw, infer_schema=False)):
        with pytest.raises(rb.DoesNotFit) as error:
            rb.craft(table, schema=place, n_rados=5)
        assert all(clause.partition(" (line")[0] in str(error.value) for clause in clauses)
    assert os.listdir(".") == ["s.json"]


def test_all_that_is_wrong_wherever_it_is(tmp_path):
    """The label that is not there, a type that fits no kind, and odd cells in different batches, all at once."""
    n_rows = 70_000
    dates = ["2024-01-01"] * n_rows
    dates[-1] = "soon"
    numbers = ["1"] * n_rows
    numbers[3] = "few"
    table = pa.table({"d": dates, "n": numbers, "l": [[1]] * n_rows, "e": pa.array([None] * n_rows, pa.string())})
    kinds = {"d": rb.Date(fill="2024-01-01"), "n": rb.Number(fill=0), "l": rb.Number(fill=0), "e": rb.Category()}
    with pytest.raises(rb.DoesNotFit) as error:
        rb.craft(table, schema=rb.Schema(kinds, "ill", ("no", "yes")), n_rados=5)
    for part in ("'ill'", "'l' holds list", "'d' has 'soon' (row 70,000)", "'n' has 'few' (row 4)", "'e': no value"):
        assert part in str(error.value)


def test_only_the_header_stops_a_promise(rado, raw):
    """Cells of another kind count as gaps; columns that are missing, and the label, are named in one line."""
    kinds = {"sex": {"kind": "date", "low": "2020-01-01", "high": "2030-01-01"},
             "ward": {"kind": "number", "low": 0, "high": 1}, "age": {"kind": "category", "values": ["x"]}}  # fmt: skip
    assert rado("craft", raw, "--epsilon", 1, "--schema", schema_file(columns=kinds))[0] == 0
    os.remove("raw.rado.parquet")
    more = {"weight": {"kind": "number", "low": 0, "high": 1}, "height": {"kind": "number", "low": 0, "high": 1}}
    place = schema_file(columns={**kinds, **more}, label="cured")
    code, out, err = rado("craft", raw, "--epsilon", 1, "--schema", place)
    assert (code, out, os.listdir(".")) == (1, "", ["s.json"])
    assert all(f"'{name}'" in err for name in ("cured", "weight", "height")) and err.count("\n") == 1


def test_without_a_schema_a_promise_names_all_that_is_to_decide(rado, raw, tmp_path):
    """By the header alone: whatever stands in rows, and whether there are any, the line is the same."""
    said = rado("craft", raw, "-l", "outcome", "--epsilon", 1, "--drop", "sex")
    assert said[:2] == (1, "") and said[2].count("\n") == 1
    for word in ("'age', 'ward', 'admitted', 'classes'", '"age": {"kind": "number", "low": LOW', "patient_id (id)",
                 f"run: rado schema {raw} --label outcome", "--schema private"):  # fmt: skip
        assert word in said[2]
    for rows in ("", "1,x,2024-01-01,9,,\n", '"\n'):
        raw.write_text(RAW.partition("\n")[0] + "\n" + rows)
        assert rado("craft", raw, "-l", "outcome", "--epsilon", 1, "--drop", "sex") == said
    assert os.listdir(".") == []
    err = rado("craft", raw, "-l", "cured", "--epsilon", 1)[2]
    assert "no column 'cured' for the label" in err and err.count("\n") == 1
    err = rado("craft", "-", "-l", "outcome", "--epsilon", 1)[2]
    assert "lines to write" not in err and "run: rado schema - --label outcome" in err and err.count("\n") == 1


def test_a_map_of_a_column_that_is_not_there(rado, raw):
    """By terms of the schema, and by columns= in Python: plain, and with a promise."""
    squares = {"kind": "number", "low": 0, "high": 2, "fill": 1, "terms": ["square"]}
    for options in ([], ["--epsilon", 1]):
        place = schema_file(columns={**SCHEMA["columns"], "weight": squares})
        code, out, err = rado("craft", raw, "--schema", place, *options)
        assert (code, out, os.listdir("."), err.count("\n")) == (1, "", ["s.json"], 2 if options else 1)
        assert "no column 'weight'" in err.splitlines()[-1]
    for mechanism in (None, rb.Moments(1.0)):
        with pytest.raises(rb.ArgumentError, match="'weight', 'bmi'"):
            rb.craft(
                raw, schema=schema_file(), columns={"weight": ["signed-log"], "bmi": "linear"}, mechanism=mechanism
            )
        with pytest.raises(rb.ArgumentError, match=r"'age\*weight', 'bmi\^2'"):
            rb.craft(raw, schema=schema_file(), columns={"age": ["age*weight", "bmi^2"]}, mechanism=mechanism)
    assert os.listdir(".") == ["s.json"]


def test_a_hundred_thousand_values_are_no_category(rado, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("name,street,a,y\n" + "".join(f"n{k},s{k},{k % 9},{k % 2}\n" for k in range(100_000)))
    columns = {name: {"kind": "category"} for name in ("name", "street")}
    place = schema_file(label="y", classes=None, columns={**columns, "a": {"kind": "number", "fill": 0}})
    code, out, err = rado("craft", path, "--schema", place)
    assert (code, out, os.listdir(".")) == (1, "", ["s.json"])
    assert "'name', 'street': more than 64 values" in err and '"other": true' in err and err.count("\n") == 1


def test_a_schema_needs_a_table(rado, raw):
    assert rado("schema")[2] == "rado: name a table: rado schema TABLE --label COL\n"
    code, _, err = rado("schema", raw, "-l", "cured")
    assert code == 1 and "no column 'cured' for the label; its columns are 'patient_id'" in err
    assert os.listdir(".") == []


# ---- the holder's own look


def test_check_points_at_columns_that_cannot_be_read(rado, raw):
    columns = {
        **SCHEMA["columns"],
        "sex": {"kind": "date", "low": "2020-01-01", "high": "2030-01-01"},
        "ward": {"kind": "category", "values": ["a", "b", "C"]},
        "admitted": {"kind": "number", "low": 0, "high": 1},
    }
    code, out, _ = rado("check", raw, "--schema", schema_file(columns=columns))
    lines = [line for line in out.splitlines() if " cells " in line]
    assert code == 0 and [line.split("'")[1] for line in lines] == ["sex", "ward", "admitted"]
    assert "120 of 120 rows contribute" in out and "80 cells have no declared value" in lines[1]
    assert """'ward': 80 of them are a declared value in other capitals, which "fold": true reads""" in out
    counts = json.loads(rado("check", raw, "--schema", "s.json", "--json")[1])
    assert counts["filled"] == {"age": 14, "sex": 120, "ward": 0, "admitted": 120}
    assert counts["unknown"] == {"age": 0, "sex": 0, "ward": 80, "admitted": 0}


def test_counts_of_filled_cells_reach_the_holders_file_and_nobody_else(rado, raw):
    code, out, _ = rado(
        "craft", raw, "--epsilon", 1, "--schema", schema_file(), "-n", 5, "--counts", "c.json", "--json"
    )
    assert code == 0 and "filled" not in json.loads(out) and ": 14" not in out
    counts = json.loads(Path("c.json").read_text())
    assert counts["filled"] == {"age": 14, "sex": 0, "ward": 0, "admitted": 0}
    for mechanism in ("noisy-rados", "noisy-examples"):
        options = ["--mechanism", mechanism, "--counts", f"{mechanism}.json", "-o", f"{mechanism}.parquet", "-n", 5]
        assert rado("craft", raw, "--epsilon", 1, "--schema", "s.json", *options)[0] == 0
        assert json.loads(Path(f"{mechanism}.json").read_text())["filled"] == counts["filled"]


def test_columns_that_fit_are_not_doubted(raw):
    words = check_table(str(raw), schema=SCHEMA).as_text()
    assert words[:-1] == ["120 of 120 rows contribute (100 %)", "filled: 'age' 14 (11.7 %)"]
    assert "'patient_id'" in words[-1]


# ---- JSON Schema for editors


def test_the_page_for_editors_is_what_the_command_prints(rado):
    page = json.loads((Path(__file__).parent.parent / "docs" / "schema.json").read_text())
    code, out, err = rado("schema", "--editor")
    assert (code, err) == (0, "") and json.loads(out) == page == json_schema()
    jsonschema.Draft202012Validator.check_schema(page)


def test_every_kind_and_every_field_is_described():
    definitions = json_schema()["$defs"]
    for name, kind in KINDS.items():
        wanted = {"kind", *kind.__dataclass_fields__}
        assert set(definitions[name]["properties"]) == wanted


def valid(document):
    return jsonschema.Draft202012Validator(json_schema()).is_valid(document)


def test_real_schemas_are_valid(raw):
    assert valid(SCHEMA)
    assert valid(rb.schema_template(raw, "outcome").to_dict())
    assert valid(rb.propose_schema(raw, "outcome").to_dict())
    every = rb.Schema(
        {
            "n": rb.Number("private", "private", 1.5, True, ("linear", "signed-log", "square")),
            "c": rb.Category(("a", 1, False, 2.5), other=True, gaps=True),
            "d": rb.Date("2000-01-01", "hours", "dmy", "2020-01-01T10:00:00", None, "2021-01-01", True, ("month",)),
            "t": rb.Ignored(),
            "i": rb.Ignored("id", inferred=True),
        },
        "y", ("no", "yes"), ";", ",", ".", ("classes",), (("n", "c"), ("d", "n")),
    )  # fmt: skip
    assert valid(every.to_dict()) and rb.Schema.from_dict(json.loads(json.dumps(every.to_dict()))) == every


BROKEN = {
    "no columns": {"radoboost_schema": 1},
    "another version": {**SCHEMA, "radoboost_schema": 2},
    "an unknown field": {**SCHEMA, "seperator": ";"},
    "one class": {**SCHEMA, "classes": ["no"]},
    "a long separator": {**SCHEMA, "separator": ";;"},
    "another decimal mark": {**SCHEMA, "decimal": "'"},
    "no kind": {**SCHEMA, "columns": {"a": {"low": 0}}},
    "an unknown kind": {**SCHEMA, "columns": {"a": {"kind": "amount"}}},
    "a number's values": {**SCHEMA, "columns": {"a": {"kind": "number", "values": [1]}}},
    "a text for a bound": {**SCHEMA, "columns": {"a": {"kind": "number", "low": "0"}}},
    "a value twice": {**SCHEMA, "columns": {"a": {"kind": "category", "values": ["u", "u"]}}},
    "too many values": {**SCHEMA, "columns": {"a": {"kind": "category", "values": list(range(65))}}},
    "no values": {**SCHEMA, "columns": {"a": {"kind": "category", "values": []}}},
    "no date": {**SCHEMA, "columns": {"a": {"kind": "date", "low": "31.1.2024"}}},
    "an unknown unit": {**SCHEMA, "columns": {"a": {"kind": "date", "unit": "weeks"}}},
    "an unknown part": {**SCHEMA, "columns": {"a": {"kind": "date", "parts": ["year"]}}},
    "a kept id": {**SCHEMA, "columns": {"a": {"kind": "id", "gaps": True}}},
    "a product of three": {**SCHEMA, "products": [["age", "sex", "ward"]]},
    "a product of a column with itself": {**SCHEMA, "products": [["age", "age"]]},
    "a product that is a word": {**SCHEMA, "products": ["age*sex"]},
    "a square of a category": {**SCHEMA, "columns": {"a": {"kind": "category", "values": ["u"], "terms": ["square"]}}},
    "a word for a truth value": {**SCHEMA, "columns": {"a": {"kind": "number", "gaps": "yes"}}},
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_schemas_are_neither_valid_nor_read(case):
    assert not valid(BROKEN[case])
    with pytest.raises(rb.ArgumentError):
        rb.Schema.from_dict(BROKEN[case])


def test_groups_of_two_columns_have_two_names():
    date = rb.Date(low="2020-01-01", high="2021-01-01", parts=("weekday",))
    with pytest.raises(rb.ArgumentError, match=r"a category called 'd\.weekday'"):
        rb.Schema({"d": date, "d.weekday": rb.Category(("work", "rest"))})


@pytest.mark.parametrize("mark", ["\0", "\x7f", "\r", "\n", '"', "5", ".", "", ";;", "\u00a0"])
def test_what_cannot_stand_between_cells_is_refused(mark):
    with pytest.raises(rb.ArgumentError, match="separator"):
        rb.Schema({"age": rb.Number()}, separator=mark)
    with pytest.raises(rb.ArgumentError, match="separator"):
        rb.craft({"age": [1.0, 2.0], "y": [0, 1]}, label="y", schema=rb.Schema(separator=mark))
    assert rb.Schema({"age": rb.Number()}, separator="\t").separator == "\t"
