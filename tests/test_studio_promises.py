"""What the studio must not let a holder do unawares: launder what it showed, and promise to rows instead of persons."""

import json
import pickle
import re
import shlex

import pytest

import flat
import radoboost as rb
from radoboost.cli.schema import schema_as_text
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.privacy import Gaussian, Relation
from radoboost.studio.holder_routes import HolderSession
from radoboost.studio.schema_form import SchemaForm
from radoboost.tables.schema import Schema
from test_studio_holder import CARDS, HTMX, PROMISE, begin, commands, crafted, folder, run, studio, words, written

__all__ = ["folder", "studio"]  # fixtures
SECRET = "777.77"  # of one record


@pytest.fixture
def looked(studio, folder):
    """The address of a session that looked at a table with one record that nobody else is like, and its page."""
    lines = (folder / "patients.csv").read_text().splitlines()
    lines[5] = re.sub(r"[^,]*,([^,]*)$", rf"{SECRET},\1", lines[5])
    (folder / "patients.csv").write_text("\n".join(lines) + "\n")
    way = begin(studio)
    studio.post(f"{way}/anew", {"label": "4", "how": "data"})
    assert studio.studio.jobs.all()[0].wait(300)
    page = studio.get(way)[2]
    assert SECRET in page and "Read off the table" in words(page)
    return way, page


def form_of(page):
    """What a browser would send of the form about columns, as it is shown."""
    form = page.partition('<form id="columns"')[2].partition("</form>")[0]
    fields = {}
    for tag in re.findall(r"<input [^>]*>", form):
        values = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if values.get("type") != "checkbox" or " checked" in tag:
            fields[values["name"]] = values.get("value", "")
    for name, options in re.findall(r'<select [^>]*name="([^"]+)">(.*?)</select>', form, re.S):
        chosen = re.search(r'<option value="([^"]*)" selected', options)
        fields[name] = chosen[1] if chosen else re.search(r'<option value="([^"]*)"', options)[1]
    fields |= dict(re.findall(r'<textarea [^>]*name="([^"]+)"[^>]*>(.*?)</textarea>', form, re.S))
    return fields


def draft_of(studio, way):
    return studio.studio.sessions.get(way.rpartition("/")[2], HolderSession).draft


def test_another_label_does_not_launder_what_a_look_found(studio, looked, folder):
    way, page = looked
    for headers in (HTMX, None):
        answer = studio.post(way, {**form_of(page), "label": "2"}, headers)
        assert way in (answer[1].get("hx-redirect"), answer[1].get("Location"))
        text = studio.get(way)[2]
        assert SECRET not in text and "Read off the table" not in words(text)
    status, headers, _ = studio.post(f"{way}/write", {**form_of(page), "label": "2", "schema": "a.schema.json"})
    assert (status, headers["Location"]) == (303, way) and not (folder / "a.schema.json").exists()


def test_a_page_from_before_the_draft_began_again_launders_nothing(studio, looked, folder):
    way, page = looked
    studio.post(f"{way}/anew", {**form_of(page), "how": "names"})
    for path, headers in ((way, HTMX), (way, None), (f"{way}/write", None)):
        answer = studio.post(path, {**form_of(page), "schema": "a.schema.json"}, headers)
        assert way in (answer[1].get("hx-redirect"), answer[1].get("Location"))
        assert SECRET not in studio.get(way)[2]
    studio.post(f"{way}/anew", {**form_of(page), "how": "names"})
    assert SECRET not in studio.get(way)[2] and not (folder / "a.schema.json").exists()


def test_a_form_that_says_no_epoch_is_not_taken(studio):
    way = begin(studio)
    studio.post(way, {**CARDS, "epoch": ""})
    assert draft_of(studio, way).label is None and not draft_of(studio, way).columns


def test_columns_edited_after_exact_counts_are_marked_and_the_statement_says_so(studio, folder, tmp_path, monkeypatch):
    way = written(studio)
    crafted(studio, way, {**PROMISE, "output": "first.rado.parquet"})
    assert "Edited after exact counts" not in words(studio.get(way)[2])
    changed = {**CARDS, "c3-high": "12", "schema": "patients.schema.json"}
    part = studio.post(way, changed, HTMX)[2]
    assert part.count("Edited after exact counts of this table were shown: dose.") == 1
    line = commands(part)[0]
    assert shlex.split(line)[-4:-2] == ["--set", "corrected=dose"]
    assert studio.post(f"{way}/write", changed)[1]["Location"] == f"{way}/budget"
    written_text = (folder / "patients.schema.json").read_bytes()
    assert json.loads(written_text)["corrected"] == ["dose"]
    assert "Edited after exact counts" in words(studio.post(f"{way}/budget", PROMISE, HTMX)[2])
    crafted(studio, way, {**PROMISE, "output": "second.rado.parquet"})
    first, second = (rb.load(folder / f"{name}.rado.parquet") for name in ("first", "second"))
    said = "edited after exact counts of the table had been shown: 'dose'."
    assert not any("edited after" in line for line in first.statement.not_protected)
    assert said in second.statement.not_protected[0] and second.schema.corrected == ("dose",)
    run(line.replace("patients.schema.json", "again.schema.json"), folder, monkeypatch)
    assert (folder / "again.schema.json").read_bytes() == written_text

    other = begin(studio)  # another session knows, and a schema in a file keeps its mark
    taken = {"label": "4", "how": "schema", "begin_with": studio.file_id("again.schema")}
    studio.post(f"{other}/anew", taken)
    assert draft_of(studio, other).corrected == ("dose",)
    studio.studio.before_counts.clear()
    assert studio.get(other)[0] == 200 and draft_of(studio, other).corrected == ("dose",)
    studio.post(f"{other}/anew", {"how": "names"})
    assert draft_of(studio, other).corrected == ()


def test_a_stop_with_exact_counts_marks_later_edits_too(studio, folder):
    """Labels alone are protected, so that a stop says how many rows have one of the classes."""
    way = written(studio, {**CARDS, "classes": "no\nJa"})
    page = words(crafted(studio, way, {**PROMISE, "unit": "label", "rows": "", "output": "a.rado.parquet"}))
    assert "rows would contribute nothing" in page
    studio.post(way, CARDS)
    assert draft_of(studio, way).corrected == ("ill",)


def test_the_budget_says_that_whose_rows_is_not_marked(studio):
    way, said = written(studio), "whose rows these are and how many contribute must not follow from them"
    assert said not in words(studio.post(f"{way}/budget", PROMISE, HTMX)[2])
    crafted(studio, way, {**PROMISE, "output": "first.rado.parquet"})
    assert said in words(studio.post(f"{way}/budget", PROMISE, HTMX)[2])


def test_a_look_shows_exact_values_so_that_what_is_declared_later_is_marked(studio, looked, folder):
    way, page = looked
    studio.post(f"{way}/anew", {**form_of(page), "how": "names"})
    studio.post(way, {"label": "4", "c1-low": "0", "c1-high": "120"})
    assert draft_of(studio, way).corrected == ("age",)


@pytest.fixture
def model(folder):
    """A model that was learned from a release of the table, with the schema that is on its cards."""
    columns = {"age": rb.Number(0, 120, gaps=True, fill=50.5), "ward": rb.Category(("A", "B"), other=True)}
    schema = Schema({**columns, "dose": rb.Number(0, 10)}, "ill", ("no", "yes"))
    release = rb.craft(str(folder / "patients.csv"), schema=schema, mechanism=rb.Moments(1.0), counts=None)
    model = rb.MomentsClassifier().fit_rados(release).model_
    model.save(folder / "a.model.json")
    return model


def score(studio, **fields):
    """Score the table with the model in the learner's way."""
    place = studio.post("/learner", {"file": studio.file_id("a.model")})[1]["Location"]
    status, _, text = studio.post(f"{place}/table", {"table": studio.file_id("patients.csv"), **fields})
    assert status == 303, words(text)
    assert studio.studio.jobs.all()[0].wait(300)
    page = words(studio.get(f"{place}/table")[2])
    assert ("600 that have a known label are wrong" in page) == ("label" in fields), page


@pytest.mark.parametrize("fields", [{}, {"label": "ill"}])
def test_scoring_a_table_shows_exact_counts_so_that_later_edits_are_marked(studio, model, fields):
    way = written(studio)
    score(studio, **fields)
    assert studio.get(way)[0] == 200 and draft_of(studio, way).corrected == ()
    studio.post(way, {**CARDS, "c2-values": "A\nB\nC", "c3-high": "12"})
    assert draft_of(studio, way).corrected == ("ward", "dose")
    studio.post(way, CARDS)
    assert draft_of(studio, way).corrected == ()


def test_a_table_without_a_draft_was_decided_about_by_the_schema_of_the_model(studio, model):
    score(studio)
    way = begin(studio)
    studio.post(way, {"label": "4"})
    studio.post(way, {key: value for key, value in CARDS.items() if key.endswith(("label", "kind"))})
    studio.post(way, {**CARDS, "c3-high": "12"})
    assert draft_of(studio, way).corrected == ("dose",)


def test_a_column_that_is_as_its_name_suggests_only_after_counts_is_marked(folder):
    """Left out, or open again: what was declared before the counts is not any more."""
    draft = SchemaForm.of(folder / "patients.csv")
    draft.set_label("ill")
    ward, dose = {"kind": "category", "values": ["A", "B"]}, {"kind": "number", "low": 0, "high": 9}
    draft.columns |= {"patient_id": {"kind": "category", "values": ["P1"]}, "ward": ward, "dose": dose}
    draft.before_counts = draft.entries()
    assert draft.corrected == ()
    draft.columns["patient_id"] = {"kind": "id"}
    draft.columns["ward"] = {"kind": "text"}
    draft.columns["dose"] = {"kind": "number", "low": None, "high": None}
    assert draft.corrected == ("patient_id", "ward", "dose")
    draft.columns = {}
    assert draft.corrected == ("patient_id", "ward", "dose")
    draft.columns |= {"ward": ward, "dose": dose, "age": {"kind": "text"}}
    assert draft.corrected == ("patient_id", "age")


def test_a_decimal_mark_that_a_look_found_is_forgotten_with_it(folder):
    draft = SchemaForm.of(folder / "patients.csv")
    draft.decimal = ","  # as the form of a look posts it
    draft.begin_anew()
    assert draft.decimal is None


def test_marks_of_a_schema_travel_with_it():
    schema = Schema({"age": rb.Number(0, 9), "dose": rb.Number(0, 1)}, "ill", corrected=("dose",))
    assert Schema.from_dict(json.loads(schema_as_text(schema))).corrected == ("dose",)
    assert schema.only(["age"], ()).corrected == ("dose",)  # leaving it out is an edit as well
    assert Schema(schema.columns, "ill", ("no", "yes")).corrected == ("dose",)
    assert Schema(schema.columns, "ill", corrected=("age",)).corrected == ("age", "dose")
    assert pickle.loads(pickle.dumps(schema)) == schema and Schema(dict(schema.columns), "ill") == schema


@pytest.mark.parametrize(
    "schema",
    [Schema({"a": rb.Number(0, 1, inferred=True)}), Schema({"a": rb.Number(0, 1)}, corrected=("a",))],
    ids=["inferred", "corrected"],
)
def test_limits_of_a_marked_schema_are_no_bounds(schema):
    """They are (low, high) by column, as bounds are: a promise was made with those of a table's own schema."""
    table = {"classes": (0, 1), "mechanism": rb.Moments(1.0), "counts": None}
    with pytest.raises(rb.ArgumentError, match="give the schema itself"):
        flat.craft([[0.5], [0.1]], [0, 1], bounds=schema.limits(), **table)
    with pytest.raises(rb.ArgumentError, match="give the schema itself"):
        rb.open_room(MemoryMailbox(), parties=3, schema=schema.limits(), **{"classes": (0, 1)})
    assert Schema({"a": rb.Number(0, 1)}).limits() == schema.limits() == {"a": (0, 1)}


def test_whose_rows_is_a_question_without_a_default(studio, folder):
    way, unsaid = written(studio), {**PROMISE, "output": "a.rado.parquet"}
    del unsaid["whose"]
    page = studio.post(f"{way}/budget", unsaid)[2]
    assert "Whose rows are these?" in words(page) and not re.findall(r'name="whose"[^>]* checked', page)
    part = studio.post(f"{way}/budget", unsaid, HTMX)[2]
    assert "the schema has 'patient_id', which may say" in words(part) and commands(part) == []
    status, _, text = studio.post(f"{way}/craft", unsaid)
    assert status == 400 and "say whose rows these are" in words(text)
    assert not list(folder.glob("*.rado.parquet")) and not studio.studio.jobs.all()
    assert "one record" in words(studio.post(f"{way}/budget", {**unsaid, "whose": "rows"}, HTMX)[2])
    persons = {**unsaid, "whose": "person", "person": "patient_id", "max_rows": "1"}
    assert "--person patient_id:1" in commands(studio.post(f"{way}/budget", persons, HTMX)[2])[-1]
    rows = {**persons, "whose": "rows"}  # the column below the other answer is not looked at
    command = commands(studio.post(f"{way}/budget", rows, HTMX)[2])[-1]
    assert "--person" not in command and "--set unit=record" in command  # so that nobody is asked again


def test_without_a_column_of_ids_nobody_is_asked(studio):
    way, unsaid = written(studio, {**CARDS, "c0-kind": "text"}), dict(PROMISE)
    del unsaid["whose"]
    assert "one record added or removed" in words(studio.post(f"{way}/budget", unsaid, HTMX)[2])


def test_a_ledger_of_another_relation_comes_with_the_command_of_one_that_fits(studio, folder, monkeypatch):
    rb.Ledger.create(folder / "clinic.ledger", "patients", epsilon=3.0)
    way = written(studio)
    persons = {**PROMISE, "whose": "person", "person": "patient_id", "max_rows": "2"}
    book = {"ledger": f"{studio.file_id('clinic.ledger')} patients"}
    part = studio.post(f"{way}/budget", {**persons, **book}, HTMX)[2]
    (line,) = re.findall(r'aria-label="Fitting ledger"><code>(.+?)</code>', part)
    assert line == "rado ledger create clinic.ledger --table patients --epsilon 3 --relation person"
    run(line, folder, monkeypatch)
    part = studio.post(f"{way}/budget", {**persons, **book}, HTMX)[2]
    assert "after this one" in words(part) and "Fitting ledger" not in part
    rb.Ledger(folder / "clinic.ledger").book(Gaussian(9.0, Relation.PERSON, person="patient_id"))
    rows = words(studio.post(f"{way}/budget", {**PROMISE, **book}, HTMX)[2])  # a second total would be untrue
    assert "do not make a second one, but release only with --person patient_id" in rows and "ledger create" not in rows
    tight = {**persons, **book, "epsilon": "9"}  # too small is another matter
    assert "Fitting ledger" not in studio.post(f"{way}/budget", tight, HTMX)[2]


def test_the_first_ledger_is_of_the_relation_that_is_asked_for(studio):
    way = written(studio)
    persons = {**PROMISE, "whose": "person", "person": "patient_id", "max_rows": "2"}
    part = studio.post(f"{way}/budget", persons, HTMX)[2]
    assert "--epsilon 3 --relation person<" in part
    assert "--epsilon 3<" in studio.post(f"{way}/budget", PROMISE, HTMX)[2]
