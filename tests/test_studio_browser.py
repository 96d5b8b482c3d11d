"""The studio in Chromium: its front page, coming in, a second tab, reloading, jobs, and the end."""

import shutil
import threading
import time

import pytest

import radoboost as rb
from radoboost.errors import ArgumentError
from radoboost.studio.cli import _open_browser_at_studio
from studio_browser import Visit, follow, press, visiting

MARKUP = "<img src=x onerror=alert(1)>.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small_files):
    """A folder with a file of each kind, and one whose name is markup."""
    folder = tmp_path_factory.mktemp("clinic")
    for name in ("moments", "plain"):
        shutil.copy(small_files / f"{name}.rado.parquet", folder)
    shutil.copy(small_files / "moments.model.json", folder)
    (folder / "patients.csv").write_text("age,dose,ill\n70,1.5,yes\n50,0.5,no\n")
    (folder / MARKUP).write_text("age,ill\n70,yes\n")
    (folder / "clinic.schema.json").write_text('{"radoboost_schema": 1, "columns": {"name": {"kind": "text"}}}')
    rb.Ledger.create(folder / "clinic.ledger", "patients", epsilon=3.0)
    return folder


@pytest.fixture
def clinic_visit(browser, folder):
    with visiting(browser, folder) as opened:
        yield opened


def work_until(go):
    def work(job):
        for step in range(1_000_000):
            job.progress("summing rows", step % 100, 100)
            if go.wait(0.02):
                return step
        return None

    return work


def test_the_front_page_has_three_doors_and_the_files(clinic_visit):
    page = clinic_visit.page
    assert page.title() == "Studio · radoboost"
    assert page.get_by_role("heading", level=1).inner_text() == "What brings you here?"
    for door in ("I hold a table", "I was sent a release", "I want to learn"):
        assert page.get_by_role("link", name=door).is_visible()
    for kind in ("Tables", "Releases", "Models", "Schemas", "Ledgers"):
        assert page.get_by_role("heading", name=kind, exact=True).is_visible()
    text = page.inner_text("main")
    assert MARKUP in text and "epsilon 4" in text and "promises nothing" in text and "epsilon 3" in text
    clinic_visit.look("front")


def test_an_empty_folder_says_what_to_do(visit):
    assert "Put a CSV, Parquet or Arrow file into this folder" in visit.page.inner_text("main")
    visit.look("front-empty")


def test_each_door_leads_to_its_files(clinic_visit):
    page = clinic_visit.page
    for way, title, files in (
        ("holder", "I hold a table", ["patients.csv", MARKUP]),
        ("officer", "I was sent a release", ["moments.rado.parquet", "plain.rado.parquet"]),
        ("learner", "I want to learn", ["moments.rado.parquet", "plain.rado.parquet", "moments.model.json"]),
    ):
        page.goto(f"{clinic_visit.base}/")
        follow(page, title)
        page.wait_for_url(f"{clinic_visit.base}/{way}")
        assert sorted(page.locator(".files strong").all_inner_texts()) == sorted(files)
        clinic_visit.look(f"choose-{way}")


def test_a_file_is_chosen_by_its_button_and_its_name_is_no_markup(clinic_visit):
    page = clinic_visit.page
    press(page, f"Decide about it: {MARKUP}")
    assert page.get_by_role("heading", level=1).inner_text() == MARKUP
    assert page.url.startswith(f"{clinic_visit.base}/holder/") and "img" not in page.url


def test_a_wrong_file_is_said_in_one_line(clinic_visit, tmp_path):
    (tmp_path / "secret.csv").write_text("age\n1\n")
    clinic_visit.expected = ["status of 400"]
    page = clinic_visit.page
    for name, said in (
        (str(tmp_path / "secret.csv"), "is not in the folder of the studio"),
        ("../x.csv", "is not in the folder of the studio"),
        ("nothing.csv", "No such file or directory"),
    ):
        page.goto(f"{clinic_visit.base}/holder")
        page.get_by_label("Or name a file").fill(name)
        page.keyboard.press("Enter")
        assert said in page.get_by_role("alert").inner_text()
    clinic_visit.look("error")


def test_the_file_of_the_command_opens_at_once_and_stands_on_the_front_page(browser, folder):
    with visiting(browser, folder, chosen=folder / "patients.csv") as visit:
        assert visit.page.url.startswith(f"{visit.base}/holder/")
        visit.page.goto(f"{visit.base}/")  # once, so that the front page can be seen
        section = visit.page.locator("section", has_text="You named this file")
        with visit.page.expect_navigation():
            section.get_by_role("button", name="Decide about it: patients.csv").click()
        assert visit.page.get_by_role("heading", level=1).inner_text() == "patients.csv"


def test_by_keyboard_the_content_comes_first_and_every_focus_is_seen(clinic_visit):
    page = clinic_visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "To the content"
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id == 'content'")
    for _ in range(3):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/learner")


# ---- coming in


def test_a_used_address_lets_nobody_else_in(browser, clinic_visit):
    address = clinic_visit.studio.studio.door.new_address()
    first, second = (Visit(browser, clinic_visit.studio) for _ in range(2))
    first.page.goto(address)
    assert first.page.url == f"{clinic_visit.base}/"
    assert second.page.goto(address).status == 403
    assert "this address was used already" in second.page.inner_text("body")
    assert second.page.goto(f"{clinic_visit.base}/").status == 403
    second.expected = ["status of 403"]
    first.close()
    second.close()


def test_the_address_works_as_a_link_on_another_page(browser, clinic_visit):
    """The cookie is for requests of the studio's own pages; a link elsewhere must still get in."""
    visit = Visit(browser, clinic_visit.studio)
    address = clinic_visit.studio.studio.door.new_address()
    visit.page.goto(f"data:text/html,<a href='{address}'>in</a>")
    visit.page.get_by_role("link").click()
    visit.page.wait_for_url(f"{clinic_visit.base}/")
    assert visit.page.get_by_role("heading", level=1).inner_text() == "What brings you here?"
    visit.close()


def test_the_file_that_leads_to_the_address_lets_a_browser_in(browser, clinic_visit, tmp_path, monkeypatch):
    """As the command opens it: Chromium follows the file, without JavaScript, and the file is gone then."""
    opened, called = [], threading.Event()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", lambda address: (opened.append(address), called.set()))
    _open_browser_at_studio(clinic_visit.studio.studio, clinic_visit.studio.studio.door.new_address())
    assert called.wait(120)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(opened[0])
    page.wait_for_url(f"{clinic_visit.base}/", timeout=120_000)
    assert page.title() == "Studio · radoboost"
    context.close()
    end = time.monotonic() + 120
    while any(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(tmp_path.iterdir())


def test_a_form_on_another_page_is_refused(clinic_visit):
    page, csrf = clinic_visit.context.new_page(), clinic_visit.page.locator("[name=csrf]").first.input_value()
    fields = f"<input name=csrf value={csrf}><input name=sure value=yes>"
    page.goto(f"data:text/html,<form method=post action='{clinic_visit.base}/quit'>{fields}<button>go</button></form>")
    page.get_by_role("button").click()
    page.wait_for_url("**/quit")
    assert "does not come from a page of the studio" in page.inner_text("body")
    assert not clinic_visit.studio.studio.quitting
    clinic_visit.expected = ["status of 403"]


def test_a_second_tab_and_another_browser(browser, clinic_visit):
    tab = clinic_visit.context.new_page()
    tab.goto(f"{clinic_visit.base}/holder")
    assert tab.get_by_role("heading", level=1).inner_text() == "I hold a table"
    tab.get_by_role("button", name="Open in another browser").click()
    address = tab.locator("pre").inner_text().strip()
    clinic_visit.page.goto(f"{clinic_visit.base}/")
    other = Visit(browser, clinic_visit.studio)
    other.page.goto(address)
    assert other.page.url == f"{clinic_visit.base}/"
    other.close()


# ---- jobs


def test_a_job_goes_on_by_itself_and_through_a_reload_and_is_cancelled_in_another_tab(clinic_visit):
    page, jobs = clinic_visit.page, clinic_visit.studio.studio.jobs
    job = jobs.start("Crafting patients.csv", work_until(threading.Event()))
    page.reload()
    box = page.locator(".job")
    first = box.locator(".task").inner_text()
    page.wait_for_function("text => document.querySelector('.task').innerText != text", arg=first)
    clinic_visit.look("front-job")
    page.reload()
    assert box.get_by_role("heading").inner_text() == "Crafting patients.csv"
    tab = clinic_visit.context.new_page()
    tab.goto(f"{clinic_visit.base}/")
    tab.get_by_role("button", name="Cancel: Crafting patients.csv").click()
    box.wait_for(state="detached")  # the first tab asked, and loaded itself again
    assert job.wait(60) and job.state == "cancelled"
    page.goto(f"{clinic_visit.base}/jobs/{job.id}")
    assert "Cancelled. No unfinished file is left." in page.inner_text("main")


def test_a_job_that_ends_loads_its_page_again(clinic_visit):
    page, go = clinic_visit.page, threading.Event()
    job = clinic_visit.studio.studio.jobs.start("Crafting", work_until(go))
    page.goto(f"{clinic_visit.base}/jobs/{job.id}")
    assert page.locator("progress").is_visible()
    go.set()
    page.get_by_text("Done in").wait_for()
    clinic_visit.look("job-done")


def test_a_job_that_fails_says_why(clinic_visit):
    def work(job):
        raise ArgumentError("epsilon must be above 0; it is -1")

    job = clinic_visit.studio.studio.jobs.start("Crafting", work)
    assert job.wait(60)
    clinic_visit.page.goto(f"{clinic_visit.base}/jobs/{job.id}")
    assert clinic_visit.page.get_by_role("alert").inner_text() == "epsilon must be above 0; it is -1"
    clinic_visit.look("job-failed")


def test_without_javascript_forms_work_and_pages_load_themselves_again(browser, folder):
    with visiting(browser, folder, java_script_enabled=False) as visit:
        page, go = visit.page, threading.Event()
        press(page, "Decide about it: patients.csv")
        assert page.get_by_role("heading", level=1).inner_text() == "patients.csv"
        job = visit.studio.studio.jobs.start("Crafting", work_until(go))
        page.goto(f"{visit.base}/jobs/{job.id}")
        assert page.locator("progress").is_visible()
        go.set()
        page.get_by_text("Done in").wait_for()


# ---- pages that are seldom seen


@pytest.mark.slow
def test_pages_that_are_seldom_seen_look_right_too(clinic_visit, monkeypatch):
    visit, page = clinic_visit, clinic_visit.page
    visit.expected = ["status of 404", "status of 500"]
    press(page, "Open in another browser")
    assert "token=" in page.inner_text("main")
    visit.look("elsewhere")
    page.goto(f"{visit.base}/nothing")
    assert "there is no such page" in page.get_by_role("alert").inner_text()
    visit.look("not-found")
    go = threading.Event()
    visit.studio.studio.jobs.start("Reading another", work_until(go), lane="look")
    for way, button in (("officer", "See what it promises"), ("learner", "Learn from it")):
        page.goto(f"{visit.base}/{way}")
        press(page, f"{button}: plain.rado.parquet")
        assert "waiting for what runs before it" in page.inner_text("main")
        visit.look(f"{way}-reading")
    go.set()
    monkeypatch.setattr("radoboost.studio.workspace.Folder.files", lambda *_: 1 / 0)
    page.goto(f"{visit.base}/holder")
    assert "something went wrong (failure " in page.get_by_role("alert").inner_text()
    visit.look("failure")
    monkeypatch.undo()


# ---- the end


def test_quit_asks_first_and_ends_the_studio(browser, folder):
    with visiting(browser, folder) as visit:
        page, jobs = visit.page, visit.studio.studio.jobs
        job = jobs.start("Crafting patients.csv", work_until(threading.Event()))
        follow(page, "Quit")
        assert "Crafting patients.csv" in page.inner_text("main")
        visit.look("quit")
        follow(page, "Go back")
        assert page.url == f"{visit.base}/" and not job.is_over
        follow(page, "Quit")
        page.get_by_role("button", name="End it").click()
        assert page.get_by_role("heading", level=1).inner_text() == "The studio has ended"
        assert job.wait(60) and job.state == "cancelled"
        visit.look("ended")
        # What the last page loads may come too late, and axe asks for its style sheet again.
        visit.expected = ["ERR_CONNECTION_REFUSED", "Failed to load resource", "load preload assets"]
