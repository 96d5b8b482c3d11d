"""The holder's way in Chromium: from a raw CSV file to a release, with everything that can happen between."""

import re
import time

import pyarrow.csv
import pytest

import radoboost as rb
from radoboost.studio.jobs import Job
from studio_browser import follow, press, visiting
from test_studio_holder import patients


@pytest.fixture
def clinic(browser, tmp_path):
    """A visit to a folder with a raw table and a ledger."""
    folder = tmp_path / "clinic"
    folder.mkdir()
    pyarrow.csv.write_csv(patients(), folder / "patients.csv")
    rb.Ledger.create(folder / "clinic.ledger", "patients", epsilon=3.0)
    with visiting(browser, folder) as opened:
        opened.expected.append("htmx:(afterRequest|sendAbort)")  # a form was sent while another answer was awaited
        opened.folder = folder
        yield opened


def choose(visit, name="patients.csv"):
    follow(visit.page, "I hold a table")
    press(visit.page, f"Decide about it: {name}")
    return visit.page


def decide(page):
    """Fill in all cards, as a person who types and tabs on."""
    page.get_by_label("The column that others may learn to predict").select_option("ill")
    page.wait_for_selector("#card-4", state="detached")
    page.get_by_label("Its classes").fill("no\nyes")
    for place, low, high in ((1, "0", "120"), (3, "0", "10")):
        page.locator(f"#c{place}-low").fill(low)
        page.locator(f"#c{place}-high").fill(high)
    page.locator("#c2-values").fill("A\nB\nC")
    page.locator("#c2-values").blur()
    page.wait_for_selector("#problems >> text=All is decided")


def write(page):
    page.get_by_role("button", name="Write it, and go on").click()
    page.wait_for_url(re.compile(r"/budget$"))


def craft(page):
    page.get_by_role("button", name="Craft it").click()
    page.wait_for_selector("#promised")
    page.wait_for_load_state()  # what is promised stands in the middle of the page


def has_value(page, place, value):
    end = time.monotonic() + 120
    while page.locator(place).input_value() != value and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert page.locator(place).input_value() == value


def test_a_promise_from_a_raw_file_to_the_end(clinic):
    page = choose(clinic)
    assert "choose the column that is to be learned" in page.inner_text("#problems")
    clinic.look("holder-columns-first")
    decide(page)
    page.locator("#c1-low").fill("130")
    page.locator("#c1-low").blur()
    page.wait_for_selector("#problems >> text=low must be below high; they are 130 and 120")
    assert page.locator("#card-1 .wrong").is_visible()
    clinic.look("holder-columns-wrong")
    page.locator("#c1-low").fill("0")
    page.locator("#c1-low").blur()
    page.wait_for_selector("#problems >> text=All is decided")
    page.reload()
    assert page.locator("#c2-values").input_value() == "A\nB\nC"
    assert "--column" in page.inner_text("#schema-command")
    clinic.look("holder-columns")
    with clinic.on_paper():
        assert page.locator("#c1-low").is_visible() and page.locator("#card-2 h3").is_visible()
    write(page)
    page.get_by_label("Each row is another person").check()
    page.wait_for_selector("#prospect >> text=right at most")
    page.get_by_label("About how many rows").fill("600")
    page.wait_for_selector("#prospect >> text=of errors")
    page.locator("#slider").focus()
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    has_value(page, "#epsilon", "0.5")
    page.wait_for_selector("#prospect >> text=epsilon 0.5 at delta 1e-06, for one record added or removed")
    page.get_by_label("Epsilon", exact=True).fill("1")
    has_value(page, "#slider", "0")
    page.get_by_label("Book it on the ledger").select_option(label="clinic.ledger: patients")
    page.wait_for_selector("#prospect >> text=What the ledger has left")
    clinic.look("holder-budget")
    with clinic.on_paper():
        assert page.locator("#epsilon").is_visible() and page.locator("#prospect .big").first.is_visible()
    craft(page)
    release = rb.load(clinic.folder / "patients.rado.parquet")
    assert release.statement.epsilon <= 1.0 and release.digest in page.inner_text("main")
    assert page.locator("svg.promise").count() == 2
    assert "rows contribute" in page.inner_text("main")
    clinic.look("holder-release")
    with clinic.on_paper():
        assert page.locator("#promised").is_visible() and page.locator("svg.promise").first.is_visible()
    page.get_by_role("button", name="See what it promises: patients.rado.parquet").click()
    page.wait_for_url(re.compile(r"/officer/\w+$"))


@pytest.mark.slow
def test_a_plain_release_from_a_raw_file_to_the_end(clinic):
    page = choose(clinic)
    page.get_by_label("The column that others may learn to predict").select_option("ill")
    page.wait_for_selector("#problems >> text=A plain release can be crafted with this")
    write(page)
    page.wait_for_selector("#prospect >> text=decide from public knowledge")
    page.get_by_label("Plain: exact rados").check()
    page.wait_for_selector("#prospect >> text=Nothing: whoever has a plain release")
    assert not page.locator("#slider").is_visible()
    page.get_by_label("Rados", exact=True).fill("50")
    page.wait_for_selector("#budget-commands >> text=-n 50")
    clinic.look("holder-budget-plain")
    craft(page)
    assert rb.load(clinic.folder / "patients.rado.parquet").n_rados == 50
    assert "an adversary may become certain" in page.locator("svg.promise desc").first.text_content()
    clinic.look("holder-release-plain")


def test_cancelling_a_craft_leaves_what_was_booked_and_a_second_tab_sees_it(clinic, monkeypatch):
    ledger = rb.Ledger(clinic.folder / "clinic.ledger", "patients")

    def slow(self, task, done, total, go_on=Job.progress):
        if "Crafting" in self.title and ledger.entries():
            while not self._stop.is_set():
                time.sleep(0.05)
        go_on(self, task, done, total)

    monkeypatch.setattr(Job, "progress", slow)
    page = choose(clinic)
    decide(page)
    write(page)
    page.get_by_label("Each row is another person").check()
    page.wait_for_selector("#prospect >> text=right at most")
    page.get_by_label("Book it on the ledger").select_option(label="clinic.ledger: patients")
    page.get_by_role("button", name="Craft it").click()
    page.wait_for_url(re.compile(r"/release$"))
    end = time.monotonic() + 300
    while not ledger.entries() and time.monotonic() < end:
        time.sleep(0.1)
    clinic.look("holder-crafting")
    tab = clinic.context.new_page()
    tab.goto(f"{clinic.base}/")
    assert "Crafting patients.rado.parquet" in tab.inner_text("main")
    tab.goto(page.url)
    page.reload()
    assert page.get_by_role("progressbar").is_visible()
    page.get_by_role("button", name="Cancel: Crafting patients.rado.parquet").click()
    page.wait_for_selector("main >> text=stays booked for")
    assert f"epsilon {ledger.largest_epsilon():g} at most" in page.inner_text("main")
    assert not (clinic.folder / "patients.rado.parquet").exists()
    tab.wait_for_selector("main >> text=stays booked for")  # it loads itself again
    clinic.look("holder-cancelled")


@pytest.mark.slow
def test_without_javascript_forms_do_the_same(browser, tmp_path):
    folder = tmp_path / "clinic"
    folder.mkdir()
    pyarrow.csv.write_csv(patients(), folder / "patients.csv")
    with visiting(browser, folder, java_script_enabled=False) as visit:
        page = choose(visit)
        page.get_by_label("The column that others may learn to predict").select_option("ill")
        press(page, "Check again")
        assert "A plain release can be crafted" in page.inner_text("#problems")
        write(page)
        page.get_by_label("Plain: exact rados").check()
        press(page, "Show what this promises")
        assert "Nothing: whoever has a plain release" in page.inner_text("#prospect")
        page.get_by_role("button", name="Craft it").click()
        page.wait_for_selector("#promised")
    assert (folder / "patients.rado.parquet").exists()
