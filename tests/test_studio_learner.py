"""The learner's way, on a real server: releases, options, the model, one row, a table, export; and its commands."""

import html
import json
import re
import shlex
import shutil
import subprocess
from contextlib import nullcontext
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import flat
import radoboost as rb
from radoboost.cli import app
from radoboost.learner.explain import explain_row
from radoboost.studio.learner_routes import learner_row_fields, read_learner_row
from radoboost.studio.security import Form
from studio_pages import running

HTMX = {"HX-Request": "true"}
SCHEMA = rb.Schema(
    {
        "patient_id": rb.Ignored("id"),
        "age": rb.Number(0, 120, gaps=True),
        "ward": rb.Category(("A", "B"), other=True, gaps=True),
        "born": rb.Date(low="1930-01-01", high="2010-01-01", order="dmy"),
        "dose": rb.Number(0, 12),
    },
    "ill",
    ("no", "yes"),
)


def patients(n_rows=600, seed=7):
    draws = np.random.default_rng(seed)
    ill = draws.random(n_rows) < 0.4
    born = [date(1940, 1, 1) + timedelta(days=int(day)) for day in draws.integers(0, 20_000, n_rows)]
    ages = np.round(draws.normal(50, 15, n_rows) + 10 * ill, 1)
    return pa.table(
        {
            "patient_id": [f"P{k}" for k in range(n_rows)],
            "age": pa.array([None if k % 37 == 5 else age for k, age in enumerate(ages.tolist())]),
            "ward": draws.choice(["A", "B", "C"], n_rows),
            "born": [f"{day:%d.%m.%Y}" for day in born],
            "dose": np.round(draws.random(n_rows) * 9 + 3 * ill, 2),
            "ill": np.where(ill, "yes", "no"),
        }
    )


def release_of(draw, **options):
    return flat.craft(patients(seed=draw), schema=SCHEMA, **options)


def make_folder(folder, small_files):
    """Plain and private releases of two holders each, some that fit with none of them, and a table to score."""
    folder.mkdir()
    for k, name in enumerate(("north", "south")):
        release_of(k, n_rados=300).save(folder / f"{name}.rado.parquet")
        private = rb.Moments(epsilon=20.0, delta=1e-6)
        release_of(k, mechanism=private, columns="linear", counts=None).save(folder / f"{name}-private.rado.parquet")
    shutil.copy(small_files / "plain.rado.parquet", folder / "another.rado.parquet")
    pyarrow.csv.write_csv(patients(200, seed=9), folder / "new.csv")
    (folder / "notes.csv").write_text("age,ill\n70,yes\n")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory, small_files):
    return make_folder(tmp_path_factory.mktemp("made") / "my clinic", small_files)


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "my clinic"))


@pytest.fixture
def studio(folder):
    with running(folder) as client:
        yield client.enter()


def words(text):
    main = re.sub(r"(?s)^.*<main[^>]*>", "", text).partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", main)).split())


def commands(text):
    boxes = re.findall(r'<pre [^>]*aria-label="Commands"><code>(.*?)</code>', text, re.S)
    return [html.unescape(re.sub(r"</?span>", "", box)) for box in boxes]


def begin(studio, *names):
    body = [("csrf", studio.csrf), *(("file", name) for name in names)]
    headers = {"Origin": f"http://{studio.host}", "Content-Type": "application/x-www-form-urlencoded"}
    status, found, text = studio.send("POST", "/learner", urlencode(body).encode(), headers)
    if status != 303:
        return words(text)
    for job in studio.studio.jobs.all():
        assert job.wait(300)
    return found["Location"]


def finish(studio):
    for _ in range(2):  # learning begins a look inside
        for job in studio.studio.jobs.all():
            assert job.wait(300), job


def cancel_look(studio):
    """Wait for the last model, and cancel the look inside it."""
    learning = next(job for job in studio.studio.jobs.all() if job.title.startswith("Learning"))
    assert learning.wait(300)
    studio.studio.jobs.all()[0].cancel()


def learn(studio, *names, look=False, **fields):
    """The address of a session whose model was learned, and the page about it; the look inside is cancelled, or not."""
    way = begin(studio, *names)
    status, headers, text = studio.post(way, fields)
    assert (status, headers["Location"]) == (303, f"{way}/model"), words(text)
    if not look:
        cancel_look(studio)
    finish(studio)
    return way, studio.get(f"{way}/model")[2]


def again(line, folder, tmp_path):
    """A copy of the folder, as it was before, in which the commands of a page were run."""
    place = tmp_path / "again"
    shutil.copytree(folder, place)
    for name in ("*.model.json", "merged.*", "*.scores.csv", "*.html"):
        for file in place.glob(name):
            file.unlink()
    return run(line, place)


def untimed(page):
    """A page up to where learners are compared, also by time, and without how long its parts took."""
    return re.sub(r"\b[\d.,]+ (ms|s|min)\b", "so long", page.partition('<section id="learners"')[0])


def run(lines, place):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for line in lines.splitlines():
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            assert result.exit_code == 0, result.output
    return place


# ---- learning


@pytest.mark.parametrize(
    ("names", "fields", "written"),
    [
        (
            ["north.rado.parquet"],
            {"learner": "boost", "rounds": "40", "weak": "median", "prior": "0.1", "output": "a b.model.json"},
            "a b.model.json",
        ),
        (
            ["north.rado.parquet"],
            {"learner": "boost", "penalty": "scores", "stop": "held-out", "rounds": "50", "output": "s.model.json"},
            "s.model.json",
        ),
        (
            ["north.rado.parquet", "south.rado.parquet"],
            {"learner": "moments", "merged": "merged.rado.parquet", "output": "merged.model.json"},
            "merged.model.json",
        ),
        (
            ["north-private.rado.parquet", "south-private.rado.parquet"],
            {"learner": "moments", "output": "average.model.json", "prior": "0.3"},
            "average.model.json",
        ),
    ],
)
def test_a_model_and_the_commands_that_make_the_same_bytes(studio, folder, tmp_path, names, fields, written):
    _, text = learn(studio, *names, **fields)
    assert (folder / written).is_file(), words(text)
    lines = commands(text)[-1]
    assert (again(lines, folder, tmp_path) / written).read_bytes() == (folder / written).read_bytes()
    model = rb.load_model(folder / written)
    assert model.statement is not None and model.statement.not_protected[0] in words(text)


def test_the_form_shows_the_command_live_and_keeps_what_was_typed(studio):
    way = begin(studio, "north.rado.parquet")
    assert commands(studio.get(way)[2]) == ["rado learn north.rado.parquet -o north.model.json"]
    fields = {"learner": "boost", "rounds": "7", "penalty": "ridge", "strength": "0.5", "output": "x.model.json"}
    status, _, part = studio.post(f"{way}/options", fields, HTMX)
    chosen = "--learner boost --set n_rounds=7 --set penalty=ridge --set strength=0.5"
    line = f"rado learn north.rado.parquet {chosen} -o x.model.json"
    assert status == 200 and commands(part) == [line] and "<main" not in part
    assert 'value="7"' in studio.get(way)[2]
    _, _, part = studio.post(f"{way}/options", {**fields, "rounds": "many"}, HTMX)
    assert words(part) == "rounds must be a whole number; it is 'many'"
    _, _, part = studio.post(f"{way}/options", {**fields, "output": "../x.json"}, HTMX)
    assert "is not in the folder of the studio" in words(part)


def test_releases_that_do_not_go_together_are_refused_in_one_line(studio):
    for names, said in (
        (("north.rado.parquet", "north-private.rado.parquet"), "north.rado.parquet does not hold private moments"),
        (("north.rado.parquet", "another.rado.parquet"), "another.rado.parquet"),
        (("notes.csv",), "notes.csv"),
        (("north.rado.parquet", "notes.csv"), "notes.csv"),
        ((), "no release is chosen"),
    ):
        text = begin(studio, *names)
        assert text.startswith("That did not work") and said in text, text
        assert str(studio.studio.folder.root) not in text
    assert not list(studio.studio.folder.root.glob("*.json"))


def test_a_place_that_must_not_be_written_to_is_refused(studio, folder):
    way = begin(studio, "north.rado.parquet")
    for output, said in (
        ("new.csv", "new.csv exists; choose another place"),
        ("north.rado.parquet", "north.rado.parquet"),
        ("", "no name"),
    ):
        status, _, text = studio.post(way, {"learner": "moments", "output": output})
        assert status == 400 and said in words(text), words(text)
    status, _, text = studio.post(way, {"learner": "moments", "output": "m.json", "prior": "2"})
    assert status == 303  # the learner itself refuses it
    finish(studio)
    assert "prior" in words(studio.get(f"{way}/model")[2])
    assert not (folder / "m.json").exists()


@pytest.mark.slow
def test_the_page_of_a_model_shows_what_a_report_shows_and_writes_it(studio, folder):
    way, text = learn(studio, "north.rado.parquet", look=True, learner="moments", output="north.model.json")
    said = words(text)
    for title in ("What was learned, and how", "What the model does", "What more rados would bring", "All learners"):
        assert title in said
    assert "expected error" in said and "of new rows; from" in said
    assert "Coefficients with intervals" in text and "data:image/svg+xml;base64," in text
    assert "The statement of the release behind it" in said
    status, _, _ = studio.post(f"{way}/report", {"report": "north.html"})
    assert status == 303 and "Wrote north.html" in words(studio.get(f"{way}/model")[2])
    report = (folder / "north.html").read_text()
    assert "rado learn north.rado.parquet -o north.model.json --report north.html" in html.unescape(report)
    for document in studio.studio.jobs.all()[0].result.documents:
        assert f'id="{document.findings.name}"' in report and f'id="{document.findings.name}"' in text
    (line,) = commands(studio.get(f"{way}/model")[2])
    assert line == "rado learn north.rado.parquet -o north.model.json --report north.html"
    model = (folder / "north.model.json").read_bytes()
    (folder / "north.html").unlink()
    run(line, folder)
    assert (folder / "north.model.json").read_bytes() == model
    assert untimed((folder / "north.html").read_text()) == untimed(report)
    status, _, text = studio.post(f"{way}/report", {"report": "new.csv"})
    assert status == 400 and "ends in .html" in words(text)


def test_a_model_that_is_opened_has_its_own_page(studio, folder):
    release = rb.load(folder / "south-private.rado.parquet")
    rb.MomentsClassifier().fit_rados(release).model_.save(folder / "sent.model.json")
    way = begin(studio, "sent.model.json")
    status, headers, _ = studio.get(way)
    assert (status, headers["Location"]) == (303, f"{way}/model")
    studio.get(f"{way}/model")
    finish(studio)
    text = studio.get(f"{way}/model")[2]
    assert "epsilon 20 at delta 1e-06, for one record added or removed" in words(text)
    assert commands(text) == ["rado show sent.model.json"]
    assert studio.post(f"{way}/report", {"report": "sent.html"})[0] == 303
    assert commands(studio.get(f"{way}/model")[2]) == ["rado show sent.model.json --html sent.html"]
    page = (folder / "sent.html").read_text()
    (folder / "sent.html").unlink()
    run("rado show sent.model.json --html sent.html", folder)
    assert untimed((folder / "sent.html").read_text()) == untimed(page)
    assert "Promise of epsilon 20 for one record added or removed" in words(text)
    assert 'aria-label="Verdict"' in page.partition("<h2")[0]


# ---- one row


ROW = {"v0": "71.5", "v1": "1", "v2": "1956-03-04", "v3": "8"}


def test_a_typed_row_has_the_probabilities_of_the_model_and_of_the_command(studio, folder, monkeypatch):
    way, _ = learn(studio, "north.rado.parquet", learner="moments", output="north.model.json")
    model = rb.load_model(folder / "north.model.json")
    for fields, row in (
        (ROW, {"age": [71.5], "ward": ["B"], "born": ["04.03.1956"], "dose": [8.0]}),
        ({**ROW, "v0": "", "v1": "other"}, {"age": [None], "ward": ["Z"], "born": ["04.03.1956"], "dose": [8.0]}),
        ({**ROW, "v1": "", "v2": ""}, {"age": [71.5], "ward": [None], "born": [None], "dose": [8.0]}),
    ):
        status, _, part = studio.post(f"{way}/row", fields, HTMX)
        assert status == 200, part
        table = pa.table(
            {name: pa.array(v, pa.float64() if name in ("age", "dose") else pa.string()) for name, v in row.items()}
        )
        with pytest.warns(rb.FilledWarning) if None in row["born"] else nullcontext():
            chances = model.predict_proba(table)[0]
        for chance in chances:
            assert f"{chance:.4f}" in part
        printed, format_, *lines, bar, rado = shlex.split(commands(part)[0])[:6]
        assert (printed, format_, bar, rado) == ("printf", r"%s\n", "|", "rado")
        typed = subprocess.run([printed, format_, *lines], capture_output=True, text=True, check=True).stdout
        monkeypatch.chdir(folder)
        result = CliRunner().invoke(app, shlex.split(commands(part)[0])[6:], input=typed)
        assert result.exit_code == 0, result.output
        (score,) = pyarrow.csv.read_csv(folder / "row.scores.csv").to_pylist()
        assert score["probability"] == pytest.approx(chances[1], abs=1e-12)
        (folder / "row.scores.csv").unlink()
    assert 'value="71.5"' in studio.get(f"{way}/row")[2]


def test_wrong_cells_are_said_by_their_column(studio):
    way, _ = learn(studio, "north.rado.parquet", learner="moments", output="north.model.json")
    for fields, said in (
        ({"v0": "old"}, "age: 'old' is no number; type one such as 12.5, or leave it empty"),
        ({"v0": "nan"}, "age: 'nan' is no number"),
        ({"v1": "7"}, "ward has no such value"),
        ({"v2": "yesterday"}, "born: 'yesterday' is no date"),
    ):
        status, _, part = studio.post(f"{way}/row", {**ROW, **fields}, HTMX)
        assert status == 400 and said in words(part)


def test_addends_make_up_the_score_of_two_classes_and_of_more():
    table = patients()
    two = rb.MomentsClassifier().fit_rados(rb.craft(table, schema=SCHEMA, seed=1)).model_
    mapped = rb.MomentsClassifier().fit_rados(rb.craft(table, schema=SCHEMA, columns="degree-2", seed=1)).model_
    private = rb.MomentsClassifier().fit_rados(release_of(1, mechanism=rb.Moments(20.0), counts=None)).model_
    many = pa.table({**{name: table[name] for name in ("age", "dose")}, "ward": table["ward"]})
    three = rb.MomentsClassifier().fit_rados(rb.craft(many.drop_null(), label="ward", seed=1)).model_
    for model in (two, mapped, private):
        _, row, _ = read_learner_row(model, Form(list(ROW.items())))
        explained = explain_row(model, row)
        total = explained.base + sum(addend.effect for addend in explained.addends)
        assert total == pytest.approx(explained.score, abs=1e-9)
        assert explained.score == pytest.approx(float(model.decision_function(row)[0]), abs=1e-12)
        assert explained.probabilities == pytest.approx(model.predict_proba(row)[0].tolist())
        names = {name for addend in explained.addends for name in addend.names}
        assert names == {"age", "ward", "born", "dose"}
    assert [field.name for field in learner_row_fields(three)] == ["age", "dose"]
    _, row, _ = read_learner_row(three, Form([("v0", "50"), ("v1", "3")]))
    explained = explain_row(three, row)
    scores = three.decision_function(row)[0]
    assert explained.prediction == three.classes[scores.argmax()]
    assert explained.score == pytest.approx(scores.max() - scores.mean())
    assert explained.base + sum(addend.effect for addend in explained.addends) == pytest.approx(explained.score)


# ---- a table, and elsewhere


def test_a_table_is_scored_as_the_command_does(studio, folder, tmp_path):
    way, _ = learn(studio, "north.rado.parquet", learner="moments", output="north.model.json")
    fields = {"table": studio.file_id("new.csv"), "label": "ill", "keep": "patient_id\n"}
    status, headers, text = studio.post(f"{way}/table", fields)
    assert (status, headers["Location"]) == (303, f"{way}/table"), words(text)
    finish(studio)
    text = studio.get(f"{way}/table")[2]
    line = commands(text)[0]
    assert line == "rado predict north.model.json new.csv --label ill --keep patient_id -o new.scores.csv"
    mine = (folder / "new.scores.csv").read_bytes()
    (folder / "new.scores.csv").unlink()
    result = json.loads(_json(f"{line} --json", folder))
    assert (folder / "new.scores.csv").read_bytes() == mine
    assert f"{result['n_wrong']} of 200 that have a known label are wrong" in words(text)
    assert "How right it is, on rows of known classes" in words(text) and "data:image/svg+xml" in text
    for fields, said in (({"path": "../new.csv"}, "not in the folder"), ({"path": "no.csv"}, "No such file")):
        status, _, text = studio.post(f"{way}/table", fields)
        assert status == 400 and said in words(text)
    status, _, text = studio.post(f"{way}/table", {"path": "new.csv", "output": "notes.csv"})
    assert status == 400 and "notes.csv exists; choose another place" in words(text)
    assert studio.post(f"{way}/table", {"path": "notes.csv"})[0] == 303
    finish(studio)
    assert "notes.csv has no column" in words(studio.get(f"{way}/table")[2])
    assert not (folder / "notes.scores.csv").exists()


def _json(line, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
        return result.stdout


@pytest.mark.parametrize("form", ["python", "sql"])
def test_a_model_is_exported_as_the_command_does(studio, folder, form):
    way, _ = learn(studio, "north.rado.parquet", learner="moments", output="north.model.json")
    more = {"table": "clinic.patients", "keep": "patient_id"} if form == "sql" else {}
    assert studio.post(f"{way}/export", {"to": form, **more})[0] == 303
    finish(studio)
    text = studio.get(f"{way}/export")[2]
    written = next(folder.glob({"python": "*.py", "sql": "*.sql"}[form]))
    mine = written.read_bytes()
    written.unlink()
    run(commands(text)[0], folder)
    assert written.read_bytes() == mine and f"{len(mine):,} bytes of {form}" in words(text)
    status, _, text = studio.post(f"{way}/export", {"to": "excel"})
    assert status == 400 and "there is no form 'excel'" in words(text)


@pytest.mark.slow
def test_three_classes_and_names_that_are_markup(studio, folder):
    draws = np.random.default_rng(3)
    marked, classes = "<b>dose</b>", np.array(["<i>low</i>", "mid=dle", "high"])
    x = draws.normal(size=(400, 2))
    truth = np.digitize(x[:, 0] + 0.3 * draws.normal(size=400), [-0.6, 0.6])
    table = pa.table({marked: x[:, 0], "age": x[:, 1], "class": classes[truth]})
    rb.craft(table, label="class", n_rados=400).save(folder / "three.rado.parquet")
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    way = begin(studio, "three.rado.parquet")
    sent = [("csrf", studio.csrf), ("learner", "moments"), ("output", "three.model.json")]
    sent += [("prior", {"<i>low</i>": "0.2", "mid=dle": "0.5", "high": ""}[name]) for name in sorted(classes)]
    headers = {"Origin": f"http://{studio.host}", "Content-Type": "application/x-www-form-urlencoded"}
    assert studio.send("POST", way, urlencode(sent).encode(), headers)[0] == 303
    finish(studio)
    text = studio.get(f"{way}/model")[2]
    mine = (folder / "three.model.json").read_bytes()
    run(commands(text)[0], folder)
    assert (folder / "three.model.json").read_bytes() == mine
    assert rb.load_model(folder / "three.model.json").learner["prior"]["high"] == pytest.approx(0.3)
    form, (_, _, part) = studio.get(f"{way}/row")[2], studio.post(f"{way}/row", {"v0": "2", "v1": "0"}, HTMX)
    assert "The model says high" in words(part) and "beside the mean of all classes" in words(part)
    assert studio.post(f"{way}/table", {"path": "rows.csv", "label": "class"})[0] == 303
    finish(studio)
    scored = studio.get(f"{way}/table")[2]
    assert "(predicted)" in words(scored) and "of 400 that have a known label are wrong" in words(scored)
    for shown in (text, form, part, scored):
        assert "<b>dose" not in shown and "<i>low" not in shown
    assert "&lt;b&gt;dose&lt;/b&gt;" in form and "&lt;i&gt;low" in part
