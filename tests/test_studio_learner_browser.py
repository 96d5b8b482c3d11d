"""The learner's way in Chromium: from two releases to predictions, with everything that can happen between."""

import re
import shutil

import pytest

from radoboost.studio.jobs import Job
from studio_browser import follow, press, visiting
from test_studio_learner import make_folder


@pytest.fixture(scope="module")
def made(tmp_path_factory, small_files):
    return make_folder(tmp_path_factory.mktemp("made") / "clinic", small_files)


@pytest.fixture
def clinic(browser, made, tmp_path):
    """A visit to a folder with releases of two holders and a table."""
    folder = shutil.copytree(made, tmp_path / "clinic")
    with visiting(browser, folder) as opened:
        opened.expected.append("htmx:(afterRequest|sendAbort)")  # a form was sent while another answer was awaited
        opened.folder = folder
        yield opened


def choose(page, *names):
    follow(page, "I want to learn")
    for name in names:
        page.get_by_label(name, exact=True).check()
    press(page, "Learn from these together")


def learned(page):
    page.get_by_role("button", name="Learn", exact=True).click()
    page.wait_for_url(re.compile(r"/model$"))
    page.get_by_role("heading", name="What the model does").wait_for()
    page.wait_for_load_state()  # it has loaded itself again


def test_from_two_releases_to_predictions(clinic):
    page = clinic.page
    follow(page, "I want to learn")
    clinic.look("learner-choose")
    page.goto(f"{clinic.base}/")
    choose(page, "north.rado.parquet", "south.rado.parquet")
    assert "they are merged first" in page.inner_text("main")
    page.get_by_label("Boosting: RadoBoost").check()
    page.get_by_label("Penalty", exact=True).select_option("lasso")
    page.wait_for_selector("#learn-command >> text=penalty=")
    clinic.look("learner-options")
    page.reload()
    assert page.get_by_label("Boosting: RadoBoost").is_checked()
    page.get_by_label("Moments: least squares").check()
    assert not page.get_by_label("Penalty", exact=True).is_visible()
    learned(page)
    assert (clinic.folder / "merged.rado.parquet").is_file() and (clinic.folder / "merged.model.json").is_file()
    main = page.inner_text("main")
    for title in (
        "Coefficients, by importance",
        "Learning curve",
        "Learners",
        "The statement of the release behind it",
    ):
        assert title in main
    clinic.look("learner-model")
    page.get_by_role("button", name="Write the page").click()
    page.get_by_text("Wrote merged.html").wait_for()
    assert (clinic.folder / "merged.html").is_file()
    way = page.url.removesuffix("/model")
    row(clinic, page)
    table(clinic, page)
    follow(page, "Elsewhere")
    page.get_by_label("SQL").check()
    page.get_by_label("Table to read").fill("patients")
    page.get_by_role("button", name="Write it", exact=True).click()
    page.get_by_text("Wrote merged.sql").wait_for()
    page.wait_for_load_state()
    clinic.look("learner-export")
    tab = clinic.context.new_page()  # what was learned and typed is there in a second tab
    tab.goto(f"{way}/row")
    assert tab.get_by_label("age").input_value() == "71" and tab.locator("#answer h2").is_visible()


def row(clinic, page):
    follow(page, "One row")
    page.get_by_label("age").fill("71")
    page.get_by_label("ward").select_option("B")
    page.get_by_label("born").fill("1956-03-04")
    page.get_by_label("dose").fill("11")
    page.wait_for_selector("#answer >> text=1956-03-04,11")
    assert "The model says yes" in page.inner_text("#answer")
    clinic.look("learner-row")
    page.get_by_label("dose").fill("much")
    page.locator("#answer [role=alert]").wait_for()
    assert "dose: 'much' is no number" in page.inner_text("#answer")
    clinic.expected += ["status of 400", "Status Error Code 400"]
    page.get_by_label("dose").fill("1")
    page.wait_for_selector("#answer >> text=The model says no")


def table(clinic, page):
    follow(page, "A table")
    page.get_by_label("Table", exact=True).select_option(clinic.studio.file_id("new.csv"))
    page.get_by_label("Column of true classes").fill("ill")
    page.get_by_label("Columns to carry along").fill("patient_id")
    page.get_by_role("button", name="Score it").click()
    page.get_by_text("that have a known label are wrong").wait_for()
    assert (clinic.folder / "new.scores.csv").read_text().startswith('"patient_id","score"')
    clinic.look("learner-table")


@pytest.mark.slow
def test_a_look_that_is_cancelled_in_another_tab_can_begin_again(clinic, monkeypatch):
    page, slow = clinic.page, []
    said = Job.progress

    def wait(job, task, done, total):
        said(job, task, done, total)
        if job.title.startswith("Looking") and not slow:
            job._stop.wait(600)
            said(job, task, done, total)

    monkeypatch.setattr(Job, "progress", wait)
    follow(page, "I want to learn")
    press(page, "Learn from it: north.rado.parquet")
    press(page, "Learn", exact=True)
    page.locator(".job progress").wait_for()
    assert "The statement of the release behind it" in page.inner_text("main")
    page.reload()
    clinic.look("learner-looking")
    tab = clinic.context.new_page()
    tab.goto(page.url)
    tab.get_by_role("button", name="Cancel: Looking inside north.model.json").click()
    page.get_by_text("Cancelled.").wait_for()
    slow.append("no more")
    page.get_by_role("button", name="Look inside again").click()
    page.get_by_role("heading", name="Coefficients with intervals").wait_for()
