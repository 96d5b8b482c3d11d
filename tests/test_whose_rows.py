"""What a declaration says of itself: which of it was read off the table, and whose rows they are."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import flat
import radoboost as rb
from radoboost.holder.privacy_cost import privacy_cost_by_schema
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.signed_messages import Identity
from radoboost.holder.table_check import check_table

COLUMNS = {"patient_id": rb.Ignored("id"), "age": rb.Number(0, 100), "ward": rb.Category(("A", "B"))}
SCHEMA = rb.Schema(COLUMNS, "ill", ("no", "yes"))
TABLE = pd.DataFrame(
    {
        "patient_id": [k // 2 if k < 40 else k for k in range(200)],
        "age": [float(k % 90) for k in range(200)],
        "ward": ["A", "B"] * 100,
        "ill": ["no", "yes", "yes", "no"] * 50,
    }
)
MECHANISM = rb.Moments(8.0)


# ---- what was read off the table


@pytest.mark.parametrize(
    "launder",
    [
        lambda seen: rb.Schema(seen.columns, seen.label, seen.classes),
        lambda seen: rb.Schema({**COLUMNS, "age": seen.columns["age"]}, "ill", ("no", "yes")),
        lambda seen: rb.Schema({**COLUMNS, "patient_id": seen.columns["patient_id"]}, "ill", ("no", "yes")),
        lambda seen: replace(seen, columns=COLUMNS),
        lambda seen: rb.Schema.from_dict(rb.Schema(seen.columns, "ill", ("no", "yes")).to_dict()),
        lambda seen: {**seen.to_dict(), "classes": ["no", "yes"]},
    ],
)  # fmt: skip
def test_a_mark_outlives_every_copy(launder):
    """`Schema(other.columns)` had no mark, so a promise was made on exact minima and maxima."""
    schema = launder(rb.propose_schema(TABLE, "ill"))
    with pytest.raises(rb.ArgumentError, match="read off the table"):
        rb.craft(TABLE, schema=schema, mechanism=MECHANISM)


def test_a_refusal_names_what_was_read_off():
    schema = rb.Schema({**COLUMNS, "age": rb.Number(3, 77, inferred=True)}, "ill", ("no", "yes"), inferred=("classes",))
    with pytest.raises(rb.ArgumentError, match=r"^column 'age', the classes: this was read off the table"):
        rb.craft(TABLE, schema=schema, mechanism=MECHANISM)
    with pytest.raises(rb.ArgumentError, match="inferred must be some of"):
        rb.Schema(COLUMNS, inferred=("ages",))


def test_what_was_declared_of_a_settled_schema_can_still_be_used(tmp_path):
    """Only the column that the table settled is marked; declared anew, it makes the promise possible."""
    with pytest.warns(rb.SchemaWarning):
        seen = rb.craft(TABLE, label="ill", n_rados=3).schema
    assert seen.inferences
    declared = rb.Schema({"age": rb.Number(0, 100, fill=5.0), "ward": rb.Category()}, "ill", ("no", "yes"))
    settled = rb.craft(TABLE, schema=declared, n_rados=3).schema
    assert settled.inferences == ("column 'ward'",)
    again = rb.Schema({**settled.columns, "ward": COLUMNS["ward"]}, "ill", ("no", "yes"))
    assert rb.craft(TABLE, schema=again, mechanism=MECHANISM, counts=None).statement.epsilon == pytest.approx(8)


def test_columns_decided_beside_a_look_stay_marked(rado, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("age,ill\n30,no\n40,yes\n")
    options = ["--from-data", "--column", 'age={"kind": "number", "low": 30, "high": 40}', "--classes", "no,yes"]
    assert rado("schema", table, "--label", "ill", *options, "-o", "s.json")[0] == 0
    assert json.loads(Path("s.json").read_text())["columns"]["age"]["inferred"] is True


# ---- whose rows


def test_rows_of_one_person_are_spoken_of_before_anything_is_spent(tmp_path):
    books = rb.Ledger.create(tmp_path / "l", "t", epsilon=9.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rb.PersonWarning)
        with pytest.raises(rb.PersonWarning, match="each row counts as another person"):
            rb.craft(TABLE, schema=SCHEMA, mechanism=MECHANISM, ledger=books, counts=None)
    assert not books.entries()
    with pytest.warns(rb.PersonWarning, match=r"--person patient_id:K .*K = 1 costs no more noise") as told:
        rb.craft(TABLE, schema=SCHEMA, mechanism=MECHANISM, counts=None)
    assert [Path(warning.filename).name for warning in told] == [Path(__file__).name]


def test_nothing_is_said_where_a_person_is_named_or_nothing_is_promised():
    rb.craft(
        TABLE, mechanism=MECHANISM, counts=None, schema=replace(rb.Schema.of(SCHEMA), person=rb.Person("patient_id", 1))
    )
    rb.craft(TABLE, schema=SCHEMA, n_rados=3)
    no_ids = rb.Schema({name: COLUMNS[name] for name in ("age", "ward")}, "ill", ("no", "yes"))
    rb.craft(TABLE.drop(columns="patient_id"), schema=no_ids, mechanism=MECHANISM, counts=None)
    assert "whose_rows" not in privacy_cost_by_schema(MECHANISM, no_ids)


NUMBERS = TABLE[["patient_id", "age"]].assign(ill=TABLE["ill"])


@pytest.mark.parametrize(
    "declared",
    [
        {"bounds": {"age": (0, 90)}},
        {"bounds": "private", "drop": ["patient_id"]},
        {"bounds": "private", "features": ["age"]},
        {"schema": rb.Schema({"age": rb.Number(0, 90)})},
        {"schema": rb.Schema({"age": rb.Number(0, 90), "patient_id": rb.Ignored("text")})},
    ],
)
@pytest.mark.parametrize("form", ["frame", "file"])
def test_ids_that_no_declaration_calls_so_are_spoken_of_by_their_names(declared, form, tmp_path):
    NUMBERS.to_csv(tmp_path / "t.csv", index=False)
    table = NUMBERS if form == "frame" else tmp_path / "t.csv"
    options = {"label": "ill", "classes": ("no", "yes"), "counts": None, **declared}
    with pytest.warns(rb.PersonWarning, match="whatever its 'patient_id' is") as told:
        flat.craft(table, mechanism=rb.Moments(8.0), **options)
    assert [Path(warning.filename).name for warning in told] == [Path(flat.__file__).name]
    flat.craft(table, mechanism=rb.Moments(8.0, unit="record"), **options)  # a warning is an error


@pytest.mark.parametrize("mechanism", [rb.Moments(8.0), rb.NoisyRados(8.0, clip=1.0), rb.NoisyExamples(8.0, clip=1.0)])
def test_names_that_come_from_the_table_are_not_said_to_be_declared(mechanism):
    """Bounds by position have no names: the release had those of the frame, and said that they were declared."""
    table, said = TABLE[["age"]].assign(rare_disease=0.0), "Which columns there are, and their names: they were taken"
    options = {"classes": ("no", "yes"), "mechanism": mechanism, "counts": None, "n_rados": 3}
    for x, named in ((table, True), (table.to_numpy(), False)):
        lines = flat.craft(x, TABLE["ill"], bounds=[(0, 90), (0, 1)], **options).statement.not_protected
        assert [any(line.startswith(said) for line in lines), any("Column names, declared" in s for s in lines)] == [
            named, not named
        ]  # fmt: skip


@pytest.mark.parametrize(
    "mechanism", [rb.Moments, rb.NoisyRados, lambda epsilon, unit: rb.NoisyExamples(epsilon, clip=1.0, unit=unit)]
)
def test_who_says_that_each_row_is_another_person_is_not_reminded(mechanism):
    """There was no way to say so: the default was spelt as what somebody gives."""
    options = {"schema": SCHEMA, "counts": None, **({} if mechanism is rb.Moments else {"n_rados": 3})}
    with pytest.warns(
        rb.PersonWarning, match=r"if each row is another person, say so: --set unit=record \(unit='record'\)"
    ):
        flat.craft(TABLE, mechanism=mechanism(8.0, unit=None), **options)
    said = mechanism(8.0, unit="record")
    release = flat.craft(TABLE, mechanism=said, **options)  # a warning is an error
    assert release.mechanism.get("unit", "record") == "record"
    if mechanism is rb.Moments:
        assert "whose_rows" not in privacy_cost_by_schema(said, SCHEMA)
    with pytest.raises(rb.ArgumentError, match="unit"):
        mechanism(8.0, unit="person")


def test_labels_alone_are_no_answer_to_whose_rows_they_are():
    with pytest.warns(rb.PersonWarning, match="'patient_id'"):
        rb.craft(TABLE, schema=SCHEMA, mechanism=rb.Moments(8.0, unit="label"), counts=None)


def test_a_score_is_about_records_and_says_so(rado, tmp_path, monkeypatch):
    """Scores said nothing of persons, and so did not mention that no score is about them."""
    monkeypatch.chdir(tmp_path)
    model = rb.MomentsClassifier().fit_rados(
        rb.craft(
            TABLE,
            mechanism=MECHANISM,
            counts=None,
            schema=replace(rb.Schema.of(SCHEMA), person=rb.Person("patient_id", 1)),
        )
    )
    model.model_.save("m.model.json")
    books = rb.Ledger.create("l", "t", epsilon=9.0)
    options = {"label": "ill", "epsilon": 1.0, "ledger": books}
    with warnings.catch_warnings():
        warnings.simplefilter("error", rb.PersonWarning)
        with pytest.raises(rb.PersonWarning, match="'patient_id' is, and no score is about persons: one with k rows"):
            rb.score("m.model.json", TABLE, **options)
    assert not books.entries()
    with pytest.warns(rb.PersonWarning) as told:
        rb.score("m.model.json", TABLE, **options)
    assert [Path(warning.filename).name for warning in told] == [Path(__file__).name]
    rb.score("m.model.json", TABLE, unit="record", **options)
    with pytest.raises(rb.ArgumentError, match="unit is 'record'"):
        rb.score("m.model.json", TABLE, unit="label", **options)
    TABLE.to_csv("t.csv", index=False)
    command = ("score", "m.model.json", "t.csv", "--label", "ill", "--epsilon", 1, "--ledger", "l")
    code, _, err = rado(*command)
    assert code == 0 and err.startswith("rado: each row counts as another person") and err.count("\n") == 1
    assert rado(*command, "--set", "unit=record")[2] == ""


AGREED = {"schema": SCHEMA, "parties": 3}


def test_who_opens_and_who_joins_a_room_is_told_before_anybody_greets():
    """A room said nothing of persons before its release was made."""
    box = MemoryMailbox()
    with pytest.warns(rb.PersonWarning, match="'patient_id'") as told:
        agreement = flat.open_room(box, mechanism=MECHANISM, **AGREED)
    assert [Path(warning.filename).name for warning in told] == [Path(flat.__file__).name]
    assert any(line.startswith("each row counts as another person") for line in agreement.as_text())
    north = {"identity": Identity.create("north"), "confirm": lambda code, parties: True, "counts": None, "wait": 0.01}
    with warnings.catch_warnings():
        warnings.simplefilter("error", rb.PersonWarning)
        with pytest.raises(rb.PersonWarning):
            rb.join_room(box, TABLE, **north)
    assert box.names("") == ["agreement"]
    for options in (
        {"mechanism": rb.Moments(8.0, unit="record")},
        {"mechanism": MECHANISM, "person": "patient_id", "max_rows": 1},
        {"mechanism": rb.Plain(), "n_rados": 3},
    ):
        box = MemoryMailbox()
        agreement = flat.open_room(box, **AGREED, **options)  # a warning is an error
        assert not any("each row counts" in line for line in agreement.as_text())
        with pytest.raises(rb.RoomError, match="only north came"):
            rb.join_room(box, TABLE, **north)


def test_the_commands_of_rooms_say_it_with_what_is_agreed_on(rado, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    Path("s.json").write_text(json.dumps(SCHEMA.to_dict()))
    Identity.create("north").save(tmp_path / "key.pem")
    opened = ("room", "open", "s.json", "--parties", 3, "--epsilon", 8)
    code, out, err = rado(*opened, "-o", "a.room")
    assert code == 0 and out.count("each row counts as another person") == 1 and "each row counts" not in err
    code, out, err = rado(*opened, "-o", "b.room", "--json")
    assert json.loads(out) and err.startswith("rado: each row counts as another person") and err.count("\n") == 1
    join = ("t.csv", "--as", "north", "--identity", "key.pem", "--code", "x", "--wait", 0.01)
    code, _, err = rado("room", "join", "a.room", *join)
    assert code == 1 and err.count("rado: each row counts as another person") == 1, err
    code, out, err = rado(*opened, "-o", "c.room", "--set", "unit=record")
    assert code == 0 and "unit record" in out and "each row counts" not in out + err
    assert "each row counts" not in rado("room", "join", "c.room", *join)[2]


def test_the_declaration_alone_decides(tmp_path):
    """No id repeats here, nor is the column there: the warning is the same."""
    once = TABLE.drop(columns="patient_id")
    with pytest.warns(rb.PersonWarning, match="'patient_id'"):
        rb.craft(once, schema=SCHEMA, mechanism=MECHANISM, counts=None)
    with pytest.warns(rb.PersonWarning, match="'patient_id'"):
        rb.craft(TABLE, mechanism=MECHANISM, counts=None, schema=replace(rb.Schema.of(SCHEMA), drop=("patient_id",)))


def test_check_counts_ids_for_the_holder():
    result = check_table(TABLE, schema=SCHEMA)
    assert result.to_dict()["ids"] == {"patient_id": {"values": 180, "repeated": 20}}
    line = next(line for line in result.as_text() if "patient_id" in line)
    assert line.startswith("20 of 180 values of 'patient_id' are in more than one row")
    assert "choose neither the unit of the promise" in line
    assert (
        "ids"
        not in check_table(TABLE, schema=replace(rb.Schema.of(SCHEMA), person=rb.Person("patient_id", 2))).to_dict()
    )
    absent = TABLE.drop(columns="patient_id")
    assert "ids" not in check_table(absent, schema=SCHEMA).to_dict()


def test_the_commands_say_it_in_one_line(rado, tmp_path):
    TABLE.to_csv("t.csv", index=False)
    Path("s.json").write_text(json.dumps(SCHEMA.to_dict()))
    code, _, err = rado("craft", "t.csv", "--schema", "s.json", "--epsilon", 8)
    assert code == 0 and err.count("\n") == 1 and err.startswith("rado: each row counts as another person")
    assert "--person patient_id:K" in err
    assert "each row counts as another person" in " ".join(
        rado("account", "--schema", "s.json", "--epsilon", 1)[1].split()
    )
    out = rado("check", "t.csv", "--schema", "s.json")[1]
    assert "is outside the promise" in out
    assert "20 of 180 values of 'patient_id'" in out
