"""The holder's way, on a real server: cards, budget, craft; and the commands that it shows, which do the same."""

import html
import json
import re
import shlex
import shutil
import threading
import time
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import flat
import radoboost as rb
from radoboost.cli import app
from radoboost.cli.schema import schema_as_text
from radoboost.holder.privacy_cost import privacy_cost_by_schema
from radoboost.release.statement_text import epsilon_text, figures_of_statement
from radoboost.studio.budget_form import Bar, ChartPanel, budget_panels
from radoboost.studio.jobs import Job
from radoboost.tables.schema import Schema
from studio_pages import running

HTMX = {"HX-Request": "true"}
NAMES = ["patient_id", "age", "ward", "dose", "ill"]
CARDS = {
    "label": "4", "classes": "no\nyes", "c0-kind": "id",
    "c1-kind": "number", "c1-low": "0", "c1-high": "120", "c1-gaps": "yes", "c1-fill": "50.5",
    "c2-kind": "category", "c2-values": "A\nB", "c2-other": "yes",
    "c3-kind": "number", "c3-low": "0", "c3-high": "10",
}  # fmt: skip
PROMISE = {"promise": "yes", "epsilon": "1", "delta": "1e-6", "unit": "record", "relation": "add", "rows": "600"}
PROMISE["whose"] = "rows"


def patients(n_rows=600):
    draws = np.random.default_rng(7)
    ill = draws.random(n_rows) < 0.4
    return pa.table(
        {
            "patient_id": [f"P{k // 2}" for k in range(n_rows)],
            "age": np.round(draws.normal(50, 15, n_rows) + 10 * ill, 1),
            "ward": draws.choice(["A", "B", "C"], n_rows),
            "dose": np.round(draws.random(n_rows) * 11 + ill, 2),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "my clinic"
    folder.mkdir()
    pyarrow.csv.write_csv(patients(), folder / "patients.csv")
    return folder


@pytest.fixture
def studio(folder):
    with running(folder) as client:
        yield client.enter()


def begin(studio, name="patients.csv"):
    status, headers, text = studio.post("/holder", {"file": name})
    assert status == 303, text
    return headers["Location"]


def written(studio, fields=CARDS):
    """The address of a session whose schema was written."""
    way = begin(studio)
    studio.post(way, {"label": fields["label"]})
    for kinds in ({key: value for key, value in fields.items() if key.endswith(("label", "kind"))}, fields):
        studio.post(way, kinds)
    status, headers, text = studio.post(f"{way}/write", {**fields, "schema": "patients.schema.json"})
    assert (status, headers["Location"]) == (303, f"{way}/budget"), text
    return way


def words(text):
    main = re.sub(r"(?s)^.*<main[^>]*>", "", text).partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", main)).split())


def commands(text):
    boxes = re.findall(r'<pre [^>]*aria-label="Commands"><code>(.*?)</code>', text, re.S)
    return [line for box in boxes for line in html.unescape(re.sub(r"</?span>", "", box)).splitlines()]


def crafted(studio, way, fields):
    """The page of a craft that has ended."""
    status, headers, text = studio.post(f"{way}/craft", fields)
    assert (status, headers["Location"]) == (303, f"{way}/release"), words(text)
    jobs = studio.studio.jobs.all()
    assert jobs[0].wait(300)
    return studio.get(f"{way}/release")[2]


def run(line, folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_cards_come_from_names_and_storage_types_alone(studio, folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a row was read")

    monkeypatch.setattr("radoboost.tables.opening.open_table", refuse)
    monkeypatch.setattr("radoboost.holder.schema_inference.infer_schema", refuse)
    pq.write_table(patients(), folder / "typed.parquet")
    text = words(studio.get(begin(studio))[2])
    for name in NAMES:
        assert name in text
    assert "choose the column that is to be learned" in text and "P17" not in text
    assert "stored as double" in words(studio.get(begin(studio, "typed.parquet"))[2])


def test_all_problems_stand_in_one_list_and_lead_to_their_cards(studio):
    way = begin(studio)
    studio.post(way, {"label": "4", "c2-kind": "category"})
    wrong = {**CARDS, "c1-low": "old", "c2-values": "A\nA", "c3-low": "11"}
    _, _, part = studio.post(way, wrong, HTMX)
    listed = part.partition('id="problems"')[2].partition("</ul>")[0]
    assert re.findall(r'<a href="#card-(\d+)">(\w+)</a>: ([^<]+)', html.unescape(listed)) == [
        ("1", "age", "low and high must be numbers; 'old' is not"),
        ("2", "ward", "the value 'A' is there twice (also as 'A')"),
        ("3", "dose", "low must be below high; they are 11 and 10"),
    ]
    status, headers, _ = studio.post(f"{way}/write", {**wrong, "schema": "patients.schema.json"})
    assert (status, headers["Location"]) == (303, way)
    assert not (studio.studio.folder.root / "patients.schema.json").exists()
    assert "All is decided" in studio.post(way, CARDS, HTMX)[2]


def test_the_schema_and_the_release_are_those_of_the_commands(studio, folder, tmp_path, monkeypatch):
    rb.Ledger.create(folder / "clinic.ledger", "patients", epsilon=3.0)
    copy = shutil.copytree(folder, tmp_path / "copy")
    way = written(studio)
    lines = commands(studio.get(way)[2])
    ledger = f"{studio.file_id('clinic.ledger')} patients"
    budget = {**PROMISE, "ledger": ledger, "output": "first.rado.parquet"}
    shown = studio.post(f"{way}/budget", budget, HTMX)[2]
    assert [shlex.split(line)[1] for line in commands(shown)] == ["account", "ledger", "craft"]
    page = crafted(studio, way, budget)
    lines += commands(page)
    compose = {"promise": "no", "n_rados": "20", "compose": studio.file_id("first"), "output": "second.rado.parquet"}
    lines += commands(crafted(studio, way, compose))
    for line in lines:
        run(line, copy, monkeypatch)
    assert (folder / "patients.schema.json").read_bytes() == (copy / "patients.schema.json").read_bytes()
    for name in ("first", "second"):
        ours, theirs = (rb.load(place / f"{name}.rado.parquet") for place in (folder, copy))
        assert ours.id != theirs.id
        documents = [json.dumps(release.statement.to_dict()) for release in (ours, theirs)]
        for release, place in ((ours, 0), (theirs, 1)):  # the id and the digest of the one that was counted in
            for earlier in (release.statement.composed or {"releases": []})["releases"]:
                documents[place] = documents[place].replace(earlier["id"], "ID").replace(earlier["digest"], "DIGEST")
        assert documents[0] == documents[1]
        assert (ours.schema, ours.classes, ours.n_rados) == (theirs.schema, theirs.classes, theirs.n_rados)
    spent = [rb.Ledger(place / "clinic.ledger", "patients").spent() for place in (folder, copy)]
    assert spent[0] == spent[1]
    account = run(commands(shown)[0] + " --json", folder, monkeypatch)
    schema = Schema.from_dict(json.loads((folder / "patients.schema.json").read_text()))
    assert json.loads(account) == json.loads(
        json.dumps(privacy_cost_by_schema(rb.Moments(1.0, unit="record"), replace(schema, rows=600)))
    )


def test_the_page_of_a_release_shows_what_is_promised_and_counts_that_no_release_has(studio, folder):
    way = written(studio)
    page = crafted(studio, way, {**PROMISE, "output": "private.rado.parquet"})
    text, release = words(page), rb.load(folder / "private.rado.parquet")
    assert release.digest in text
    assert "600 of 600 rows contribute (100 %)" in text
    assert re.search(r"beyond their bounds, and clipped: 'dose' \d+", text)
    assert b"rows contribute" not in (folder / "private.rado.parquet").read_bytes()
    assert not list(folder.glob("*count*"))
    pictures = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(pictures) == 2 and all("<title" in svg and "<desc" in svg for svg in pictures)
    guess = rb.release.release.percent_up_text(release.statement.best_guess)
    assert f"one record added or removed: right at most {guess} % of the time" in text
    assert "10 records, all added or all removed: right at most" in text
    for sentence in release.statement.not_protected:
        assert " ".join(sentence.split()) in text
    assert "See what it promises" in text and "Learn from it" in text
    again = studio.post(f"{way}/craft", {**PROMISE, "output": "private.rado.parquet"})
    assert again[0] == 400 and "is there already" in words(again[2])
    plain = words(crafted(studio, way, {"promise": "no", "n_rados": "50", "output": "plain.rado.parquet"}))
    assert "any two tables: nothing is promised; an adversary may become certain" in plain
    again = studio.post(f"{way}/craft", {"promise": "no", "output": "plain.rado.parquet"})
    assert again[0] == 400 and "nothing is written over" in words(again[2])


def test_of_two_crafts_to_one_place_the_second_books_and_writes_nothing(studio, folder):
    ledger = rb.Ledger.create(folder / "clinic.ledger", "patients", epsilon=3.0)
    ways, free = (written(studio), written(studio)), threading.Event()
    fields = {**PROMISE, "ledger": f"{studio.file_id('clinic.ledger')} patients", "output": "one.rado.parquet"}
    studio.studio.jobs.start("busy", lambda job: free.wait(300))
    for way, epsilon in zip(ways, ("0.5", "0.25"), strict=True):
        assert studio.post(f"{way}/craft", {**fields, "epsilon": epsilon})[0] == 303
    free.set()
    assert all(job.wait(300) for job in studio.studio.jobs.all())
    first, second = (words(studio.get(f"{way}/release")[2]) for way in ways)
    assert 0.4 < rb.load(folder / "one.rado.parquet").statement.epsilon <= 0.5
    assert {entry.release for entry in ledger.entries()} == {rb.load(folder / "one.rado.parquet").id}
    assert "Learn from it" in first
    assert "one.rado.parquet is there already, and nothing is written over; choose another name" in second
    assert "Nothing was booked on the ledger" in second and str(folder) not in second


def test_pictures_have_the_figures_of_the_statement():
    table, options = patients(200), {"label": "ill", "classes": ["no", "yes"], "bounds": {"age": (0, 120)}}
    first = flat.craft(table, **options, mechanism=rb.Moments(0.5), counts=None)
    second = flat.craft(table, **options, mechanism=rb.Moments(1.0), compose=[first], counts=None)
    statement = second.statement
    alone, groups, together = budget_panels(statement)
    assert [bar.epsilon for bar in groups.bars] == [
        group["epsilon"] for group in figures_of_statement(statement)["groups"]
    ]
    assert [bar.whom for bar in groups.bars] == [
        group["neighbours"] for group in figures_of_statement(statement)["groups"]
    ]
    assert (alone.bars[0].guess, alone.bars[0].epsilon) == (statement.best_guess, statement.epsilon)
    assert together.bars[0].epsilon == statement.composed["epsilon"] > statement.epsilon
    assert statement.best_guess < together.bars[0].guess < groups.bars[0].guess
    for panel in budget_panels(statement):
        drawing = ElementTree.fromstring(panel.svg("p"))
        reach = [float(bar.get("width")) for bar in drawing.iter("{http://www.w3.org/2000/svg}rect")][1::2]
        assert reach == pytest.approx([332 * (2 * bar.guess - 1) for bar in panel.bars], abs=0.06)
        assert all(bar.sentence in "".join(drawing.itertext()) for bar in panel.bars)
    markup = ChartPanel("<b>", (Bar("<script>alert(1)</script>", 0.6, 1.0, 1e-6),)).svg("p")
    assert "<script" not in markup and "<b>" not in markup


def test_a_budget_says_what_it_promises_without_the_table(studio, folder):
    way = written(studio)
    (folder / "patients.csv").write_text("patient_id,age,ward,dose,ill\n")  # nothing below needs a row
    text = words(studio.post(f"{way}/budget", PROMISE, HTMX)[2])
    schema = Schema.from_dict(json.loads((folder / "patients.schema.json").read_text()))
    answer = privacy_cost_by_schema(rb.Moments(1.0, unit="record"), replace(schema, rows=600))
    assert f"{rb.release.release.percent_up_text(answer['best_guess'])} % right at most" in text
    assert f"{100 * answer['expected']['errors'][2]['expected']:.1f} % of errors" in text
    assert "epsilon 1 at delta 1e-06, for one record added or removed as neighbours" in text
    people = {**PROMISE, "whose": "person", "person": "patient_id", "max_rows": "2"}
    text = words(studio.post(f"{way}/budget", people, HTMX)[2])
    assert "for one person added or removed as neighbours" in text and "one record" not in text
    for change, line in (
        ({"epsilon": "none"}, "'none'"),
        ({"rows": "many"}, "'many'"),
        ({"whose": "person", "person": "patient_id"}, "each person"),
        ({"whose": "person"}, "choose the column that says whose row it is"),
        ({"rows": "9"}, "cannot carry"),
        ({"relation": "replace"}, "one record replaced"),
        ({"unit": "label"}, "one label flipped"),
    ):
        assert line in words(studio.post(f"{way}/budget", {**PROMISE, **change}, HTMX)[2])
    moved = studio.post(f"{way}/budget", {**PROMISE, "slider": "-0.3", "slider_was": "0.0", "epsilon_was": "1"}, HTMX)[
        2
    ]
    assert 'name="epsilon" type="text" inputmode="decimal" value="0.5"' in moved


def test_persons_and_records_that_are_replaced_are_refused_in_the_words_of_the_form(studio):
    way = written(studio)
    fields = {**PROMISE, "whose": "person", "person": "patient_id", "max_rows": "2", "relation": "replace"}
    part = studio.post(f"{way}/budget", fields, HTMX)[2]
    assert "a promise about persons is about one who is added or removed: choose" in words(part)
    assert "--person" not in part and commands(part) == []
    status, _, text = studio.post(f"{way}/craft", {**fields, "output": "a.rado.parquet"})
    assert status == 400 and "choose 'one record added or removed'" in words(text) and "--person" not in words(text)
    assert commands(studio.post(f"{way}/budget", {**fields, "unit": "label"}, HTMX)[2])  # labels are never replaced


def test_no_command_is_shown_that_would_be_refused(studio, folder):
    rb.Ledger.create(folder / "small.ledger", "patients", epsilon=0.5)
    way, fields = written(studio), {**PROMISE, "output": "a.rado.parquet"}
    assert commands(studio.post(f"{way}/budget", fields, HTMX)[2])[-1].startswith("rado craft ")
    for change in ({"rows": "9"}, {"ledger": f"{studio.file_id('small.ledger')} patients"}):
        lines = commands(studio.post(f"{way}/budget", {**fields, **change}, HTMX)[2])
        assert lines[0].startswith("rado account ") and not any(line.startswith("rado craft ") for line in lines)


def test_earlier_releases_that_are_counted_in_add_up_at_once_as_the_statement_will_say(studio, folder):
    way = written(studio)
    crafted(studio, way, {**PROMISE, "output": "first.rado.parquet"})
    first = rb.load(folder / "first.rado.parquet").statement
    alone = words(studio.post(f"{way}/budget", PROMISE, HTMX)[2])
    fields = {**PROMISE, "compose": studio.file_id("first.rado"), "output": "second.rado.parquet"}
    text = words(studio.post(f"{way}/budget", fields, HTMX)[2])
    assert "With earlier releases" in text and "With earlier releases" not in alone
    crafted(studio, way, fields)
    total = rb.load(folder / "second.rado.parquet").statement.composed
    assert total["epsilon"] > first.epsilon
    assert (
        f"Together with 1 earlier: epsilon {epsilon_text(total['epsilon'])} at delta 1e-06, for one record added or "
        "removed as neighbours, if" in text
    )
    crafted(studio, way, {"promise": "no", "n_rados": "9", "output": "plain.rado.parquet"})
    fields["compose"] = studio.file_id("plain.rado")
    assert "Together with 1 earlier: epsilon infinite" in words(studio.post(f"{way}/budget", fields, HTMX)[2])
    plain = {**fields, "promise": "no"}
    assert "for it and the earlier releases together" in words(studio.post(f"{way}/budget", plain, HTMX)[2])


def test_a_ledger_says_what_is_left_and_refuses_what_it_has_no_room_for(studio, folder):
    ledger = rb.Ledger.create(folder / "clinic.ledger", "patients", epsilon=1.5)
    way = written(studio)
    fields = {**PROMISE, "ledger": f"{studio.file_id('clinic.ledger')} patients", "output": "a.rado.parquet"}
    text = words(studio.post(f"{way}/budget", fields, HTMX)[2])
    left, after = re.search(r"epsilon ([\d.]+) at most; after this one, of epsilon ([\d.]+) ,", text).groups()
    assert float(left) == ledger.largest_epsilon()
    crafted(studio, way, fields)
    assert float(after) == ledger.largest_epsilon()
    text = words(studio.post(f"{way}/budget", {**fields, "epsilon": "1.4"}, HTMX)[2])
    assert "has no room for this" in text and "nothing was booked" in text
    failed = words(crafted(studio, way, {**fields, "epsilon": "1.4", "output": "b.rado.parquet"}))
    assert "has no room for this" in failed and "Nothing was booked on the ledger" in failed
    assert not (folder / "b.rado.parquet").exists()


def test_what_was_booked_stays_booked_when_a_craft_is_cancelled(studio, folder, monkeypatch):
    ledger = rb.Ledger.create(folder / "clinic.ledger", "patients", epsilon=3.0)
    way = written(studio)

    def slow(self, task, done, total, go_on=Job.progress):
        time.sleep(0.05)
        if ledger.entries():
            self.cancel()
        go_on(self, task, done, total)

    monkeypatch.setattr(Job, "progress", slow)
    fields = {**PROMISE, "ledger": f"{studio.file_id('clinic.ledger')} patients", "output": "a.rado.parquet"}
    text = words(crafted(studio, way, fields))
    booked = ledger.entries()
    assert booked and not (folder / "a.rado.parquet").exists()
    assert "Cancelled. No unfinished file is left." in text
    (spent,) = ledger.to_dict()["releases"]
    assert f"Epsilon {spent['epsilon']:.4g} at delta 1e-06 stays booked for 'patients'; no release was written" in text
    assert f"one more release of epsilon {ledger.largest_epsilon():g} at most" in text
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_wrong_file_is_refused_in_one_line(studio, folder, small_files):
    (folder / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 8)
    (folder / "empty.csv").write_bytes(b"")
    shutil.copy(small_files / "plain.rado.parquet", folder)
    (folder / "twice.csv").write_text("age,age\n1,2\n")
    for name in ("picture.csv", "empty.csv", "gone.csv", "plain.rado.parquet", "twice.csv"):
        status, _, text = studio.post("/holder", {"file": name})
        assert status == 400 and str(folder) not in words(text), name


def test_a_table_that_vanished_is_said_in_one_line(studio, folder):
    way = written(studio)
    (folder / "patients.csv").rename(folder / "elsewhere.csv")
    for path in ("", "/budget", "/release"):
        status, _, text = studio.get(f"{way}{path}")
        assert status == 400 and "cannot open 'patients.csv'" in words(text)
    assert studio.post(f"{way}/craft", PROMISE)[0] == 400


def test_a_schema_is_not_written_over_without_saying_so(studio, folder, small_files):
    other = schema_as_text(Schema({"age": rb.tables.column_types.Number(0, 99)}, "ill"))
    (folder / "patients.schema.json").write_text(other)
    (folder / "thesis.txt").write_text("all my work")
    way = begin(studio)
    studio.post(way, {"label": "4"})
    for name, line in (
        ("patients.schema.json", "is there already; tick the box to write over it"),
        ("thesis.txt", "is there already; tick the box to write over it"),
        ("patients.csv", "one of the files to read"),
        ("../outside.json", "is not in the folder of the studio"),
    ):
        status, _, text = studio.post(f"{way}/write", {**CARDS, "schema": name})
        assert status == 400 and line in words(text), words(text)
    assert (folder / "patients.schema.json").read_text() == other
    taken = {"label": "4", "how": "schema", "begin_with": studio.file_id("patients.schema")}
    studio.post(f"{way}/anew", taken)
    assert 'value="99"' in studio.get(way)[2] and "left out" in studio.get(way)[2]
    paid = shutil.copy(small_files / "moments.rado.parquet", folder / "paid.rado.parquet").read_bytes()
    status, _, text = studio.post(f"{way}/write", {"schema": "paid.rado.parquet", "over": "yes"})
    assert status == 400 and "spent" in words(text) and (folder / "paid.rado.parquet").read_bytes() == paid
    status, headers, _ = studio.post(f"{way}/write", {"schema": "patients.schema.json", "over": "yes"})
    assert status == 303 and headers["Location"].endswith("/budget")


def test_a_proposal_from_the_table_is_for_plain_releases_alone(studio, folder, tmp_path, monkeypatch):
    copy = shutil.copytree(folder, tmp_path / "copy")
    way = begin(studio)
    studio.post(f"{way}/anew", {"label": "4", "how": "data"})
    assert studio.studio.jobs.all()[0].wait(300)
    text = studio.get(way)[2]
    assert "Read off the table" in words(text) and "--from-data" in commands(text)[0]
    assert "and no row" not in words(text) and "what a look at all rows found" in words(text)
    studio.post(f"{way}/write", {"schema": "seen.schema.json"})
    assert "the schema was read off the table" in words(studio.post(f"{way}/budget", PROMISE)[2])
    refused = words(crafted(studio, way, {**PROMISE, "output": "no.rado.parquet"}))
    assert "this was read off the table" in refused and not (folder / "no.rado.parquet").exists()
    run(commands(studio.get(way)[2])[0], copy, monkeypatch)
    assert (folder / "seen.schema.json").read_bytes() == (copy / "seen.schema.json").read_bytes()


@pytest.mark.parametrize("late", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_look_that_is_cancelled_leaves_the_cards_as_they_are(studio, monkeypatch, late):
    """In its middle, or after its last step, when there is a proposal that nobody has seen."""
    way = begin(studio)
    assert "and no row" in words(studio.get(way)[2])
    studio.post(way, {"label": "4"})
    studio.post(way, {"label": "4", "c2-kind": "category", "c2-values": "A\nB"})
    said = Job.progress

    def wait(job, task, done, total):
        if task == ("proposing" if late else "looking at the table") and (late or done):
            if late:
                said(job, task, done, total)
            assert job._stop.wait(300)
            if late:
                return
        said(job, task, done, total)

    monkeypatch.setattr(Job, "progress", wait)
    studio.post(f"{way}/anew", {"label": "4", "how": "data"})
    job, end = studio.studio.jobs.all()[0], time.monotonic() + 300
    while late and job.task != "proposing" and time.monotonic() < end:
        time.sleep(0.01)
    studio.post(f"/jobs/{job.id}/cancel")
    assert job.wait(300) and job.state == ("done" if late else "cancelled")
    text = studio.get(way)[2]
    assert "Cancelled" in words(text) and "Read off the table" not in words(text)
    assert "A\nB</textarea>" in text and "--from-data" not in text
    assert "and no row" not in words(text) and "nothing that a look at the rows found is in them" in words(text)
    assert job.state == "cancelled" and job.result is None


def test_an_account_of_a_schema_knows_persons_and_says_what_it_does_not_take(folder, monkeypatch):
    monkeypatch.chdir(folder)
    kinds = {"patient_id": {"kind": "id"}, "age": {"kind": "number", "low": 0, "high": 120}}
    document = {"radoboost_schema": 1, "label": "ill", "classes": ["no", "yes"], "columns": kinds}
    (folder / "s.schema.json").write_text(json.dumps(document))
    base = ["account", "--epsilon", "1", "--schema", "s.schema.json", "--rows", "600"]
    result = CliRunner().invoke(app, [*base, "--person", "patient_id:2", "--json"])
    answer = json.loads(result.stdout)
    assert answer["neighbours"] == "one person added or removed" and answer["expected"]["rows"] == 600
    assert [group["size"] for group in answer["figures"]["groups"]] == [2, 5, 10]
    assert "one record added or removed" in CliRunner().invoke(app, base).stdout
    for words_, line in (
        ([*base, "--columns", "3"], "a schema says itself what the columns and classes are"),
        ([*base, "--mechanism", "noisy-rados"], "there is no account of a schema for the mechanism noisy-rados"),
        (["account", "--epsilon", "1", "--person", "patient_id"], "give --schema FILE with them"),
        ([*base, "--person", "patient_id"], "--person patient_id:K"),
    ):
        result = CliRunner().invoke(app, words_)
        assert result.exit_code == 1 and line in result.output, result.output
