"""In Chromium: no look is laundered, whose rows is asked, and sign-offs of a person release and of a plain one."""

import pyarrow.csv
import pytest

import flat
import radoboost as rb
from radoboost.lab.attacks import attack_suite
from radoboost.lab.audits.exact_audit import ABOUT_EXACT
from studio_browser import press, visiting
from test_studio_holder import patients
from test_studio_holder_browser import choose, decide, write
from test_studio_officer import look_at_file, opened, run_attacks

PEAK = "777.77"  # of one record


@pytest.fixture(scope="module")
def clinic(browser, tmp_path_factory):
    """One visit to a folder with a raw table in which one record is like no other."""
    folder = tmp_path_factory.mktemp("clinic")
    table = patients()
    table = table.set_column(3, "dose", [[float(PEAK), *table["dose"].to_pylist()[1:]]])
    pyarrow.csv.write_csv(table, folder / "patients.csv")
    rb.Ledger.create(folder / "clinic.ledger", "patients", epsilon=3.0)
    with visiting(browser, folder) as visit:
        visit.expected.append("htmx:(afterRequest|sendAbort)")  # a form was sent while another answer was awaited
        visit.folder = folder
        yield visit


def looked(visit):
    """A new session whose page shows what a look at the table found."""
    visit.page.goto(f"{visit.base}/")
    page = choose(visit)
    page.get_by_label("The column that others may learn to predict").select_option("ill")
    page.wait_for_selector("#card-4", state="detached")
    press(page, "Look at the table and propose")
    page.wait_for_selector("main >> text=Read off the table")
    page.wait_for_load_state("networkidle")
    assert page.locator("#c3-high").input_value() == PEAK
    return page


def is_clean(page):
    """Nothing that the look found is on a page, or in what the studio would write."""
    page.wait_for_selector("#card-3")
    assert page.locator("#c3-high").input_value() == "" and PEAK not in page.content()
    assert "Read off the table" not in page.inner_text("main") and "--from-data" not in page.inner_text("main")


def test_neither_another_label_nor_an_old_tab_launders_a_look(clinic):
    page = looked(clinic)
    with page.expect_navigation():
        page.get_by_label("The column that others may learn to predict").select_option("ward")
    is_clean(page)
    page = looked(clinic)
    tab = clinic.context.new_page()
    tab.goto(page.url)
    press(tab, "Again from names alone")
    tab.wait_for_load_state("networkidle")
    assert page.locator("#c3-high").input_value() == PEAK  # the old tab still shows what the look found
    with page.expect_navigation():
        page.locator("#c1-low").fill("0")
        page.locator("#c1-low").blur()
    is_clean(page)
    tab.reload()
    is_clean(tab)
    tab.close()


def test_whose_rows_there_are_is_asked_before_anything_is_spent(clinic):
    clinic.studio.studio.before_counts.clear()
    clinic.page.goto(f"{clinic.base}/")
    page = choose(clinic)
    decide(page)
    write(page)
    page.wait_for_selector("#prospect >> text=Nothing yet: say whose rows these are")
    assert not page.get_by_role("group", name="Whose rows are these?").get_by_role("radio", checked=True).count()
    assert not page.get_by_label("How many rows of each person").is_visible()
    clinic.look("holder-budget-whose")
    clinic.expected.append("status of 400")
    press(page, "Craft it")
    assert "say whose rows these are" in page.inner_text("main")
    page.go_back()
    page.get_by_label("A person may have several rows").check()
    page.get_by_label("The column that says whose row it is").select_option("patient_id")
    page.get_by_label("How many rows of each person").fill("2")
    page.get_by_label("Book it on the ledger").select_option(label="clinic.ledger: patients")
    page.wait_for_selector("#prospect >> text=--relation person")
    clinic.look("holder-budget-fitting")
    page.get_by_label("Book it on the ledger").select_option(label="none: nothing is booked")
    page.wait_for_selector("#budget-commands >> text=patient_id:2")
    page.get_by_role("button", name="Craft it").click()
    page.wait_for_selector("#promised")
    assert rb.load(clinic.folder / "patients.rado.parquet").statement.neighbours == "one person added or removed"
    page.get_by_role("link", name="Columns").click()
    page.locator("#c1-high").fill("110")
    page.locator("#c1-high").blur()
    page.wait_for_selector("#corrected >> text=age")
    assert "Edited after exact counts" in page.inner_text("#card-1")
    clinic.look("holder-columns-corrected")


def test_a_person_release_and_a_plain_one_are_signed_off(clinic, small_files, monkeypatch):
    monkeypatch.setattr(
        attack_suite, "run_attack_study", lambda *_, **__: (_ for _ in ()).throw(rb.ArgumentError("not now"))
    )
    options = {"label": "ill", "classes": ("no", "yes"), "bounds": {"age": (0, 120)}, "counts": None}
    people = flat.craft(patients(), mechanism=rb.Moments(1.0), person="patient_id", max_rows=2, **options)
    people.save(clinic.folder / "people.rado.parquet")
    page = opened(clinic, "people.rado.parquet")
    run_attacks(page, "60")
    text = page.inner_text("main")
    assert "No attack ran on this release" in text and "Tried, with what it got" not in text
    assert "An audit of the program, not of this file" in text and text.count(f"This is {ABOUT_EXACT}.") == 2
    page.get_by_label("Your name").fill("A. Smith")
    page.get_by_label("Approved: the release").check()
    press(page, "Write the sign-off")
    page.get_by_text("Written to").wait_for()
    clinic.look("officer-persons")
    look_at_file(clinic, clinic.folder / "people.signoff.html", "persons-signoff")
    attacks = clinic.page.locator("section[aria-labelledby=attacks]").inner_text()
    assert "None: the report below names no attack that ran" in attacks and "Does not apply" in attacks
    ran, _, audited = attacks.partition("Audit of the program, not of this file")
    assert ABOUT_EXACT not in ran and "for one person added or removed, at most 2 rows of each" in audited

    (clinic.folder / "plain.rado.parquet").write_bytes((small_files / "plain.rado.parquet").read_bytes())
    page = opened(clinic, "plain.rado.parquet")
    assert "The sums are exact: no noise is added." in page.inner_text("main")
    page.get_by_label("Your name").fill("A. Smith")
    page.get_by_label("Approved: the release").check()
    press(page, "Write the sign-off")
    assert 'type the words "no promise"' in page.get_by_role("alert").inner_text()
    assert not (clinic.folder / "plain.signoff.html").exists()
    clinic.look("officer-plain-confirm")
    page.get_by_label("To approve it, type").fill("no promise")
    press(page, "Write the sign-off")
    page.get_by_text("Written to").wait_for()
    assert "no promise" in page.locator(".command code", has_text="sign-off").inner_text()
    look_at_file(clinic, clinic.folder / "plain.signoff.html", "plain-signoff")
    assert "None: this sign-off names no report" in clinic.page.inner_text("main")
