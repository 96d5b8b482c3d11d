"""The officer's way in Chromium: from a release to the sign-off, attacks, wrong files, reloads and a second tab."""

import itertools
import re
import shutil
import subprocess
import threading
from dataclasses import replace

import pytest

import radoboost as rb
from radoboost.lab.attacks import attack_suite
from radoboost.report.sign_off import cite_attack_report
from studio_browser import press, visiting


@pytest.fixture
def sent(tmp_path, small_files):
    """What was sent: a private and a plain release, one that contradicts itself, a damaged one, a table."""
    folder = tmp_path / "sent"
    folder.mkdir()
    for name in ("moments", "plain", "feature-band"):
        shutil.copy(small_files / f"{name}.rado.parquet", folder)
    honest = rb.load(small_files / "moments.rado.parquet")
    replace(honest, statement=replace(honest.statement, epsilon=0.01)).save(folder / "false.rado.parquet")
    damaged = bytearray((small_files / "plain.rado.parquet").read_bytes())
    damaged[40] ^= 1
    (folder / "damaged.rado.parquet").write_bytes(damaged)
    (folder / "patients.csv").write_text("age,dose,ill\n70,1.5,yes\n50,0.5,no\n")
    return folder


def opened(visit, name):
    """The page of a release, chosen by its button."""
    page = visit.page
    page.goto(f"{visit.base}/officer")
    page.get_by_role("button", name=f"See what it promises: {name}").click()
    page.get_by_role("group", name="Verdict").wait_for()
    page.wait_for_load_state()
    assert page.get_by_role("heading", level=1).inner_text() == name
    return page


def sections(page):
    return page.get_by_role("heading", level=2).all_inner_texts()


def run_attacks(page, seconds):
    page.get_by_label("Seconds for each attack").fill(seconds)
    page.get_by_role("button", name="Run the attacks").click()
    page.get_by_text("All of it, with pictures").wait_for(timeout=300_000)
    page.wait_for_load_state()


def command_of(page, verb):
    """The words of a command as bash reads them, but for the first."""
    (line,) = [line for line in page.locator(".command code").all_inner_texts() if line.startswith(f"rado {verb}")]
    told = subprocess.run(
        ["bash", "-c", f"rado() {{ printf '%s\\0' \"$@\"; }}; {line}"], capture_output=True, check=True
    )
    return told.stdout.decode().split("\0")[:-1]


def quick_attacks(monkeypatch):
    """Studies on made-up tables, which are tested elsewhere, take no time here."""
    monkeypatch.setattr(
        attack_suite, "run_attack_study", lambda name, **_: (_ for _ in ()).throw(rb.ArgumentError("not now"))
    )


def test_a_plain_release_from_the_file_to_the_sign_off(browser, sent, monkeypatch, rado):
    quick_attacks(monkeypatch)
    with visiting(browser, sent) as visit:
        page = opened(visit, "plain.rado.parquet")
        assert "No promise" in page.get_by_role("group", name="Verdict").inner_text()
        titles = sections(page)
        assert titles == ["In plain words", "What is in it", "Attacks", "Sign-off", "The statement in full", "The file"]
        assert page.get_by_role("heading", name="Who is protected?").is_visible()
        assert rb.load(sent / "plain.rado.parquet").digest in page.inner_text("main")
        assert page.locator("figure.matrix img").count() == 2
        visit.look("officer-plain")
        run_attacks(page, "30")
        verdict = page.get_by_role("group", name="Verdict").inner_text()
        assert re.search(r"guesses right \d+ of 100 times", verdict)
        text = page.inner_text("main")
        for group in ("Tried, with what it got", "Not tried, for an adversary would need", "Does not apply to such"):
            assert group in text
        assert "seed of the signatures" in text and "not of the mechanism feature-band" in text
        visit.look("officer-plain-attacked")

        page.get_by_label("Your name").fill("A. <b>Smith</b>")
        page.get_by_label("Refused").check()
        page.get_by_role("textbox", name="Remarks").fill('<script>alert("1")</script>\nNo promise & no need.')
        press(page, "Write the sign-off")
        page.get_by_text("Written to").wait_for()
        written = (sent / "plain.signoff.html").read_text()
        assert "<script" not in written and "A. &lt;b&gt;Smith&lt;/b&gt;" in written and "refused" in written
        assert rb.load(sent / "plain.rado.parquet").digest in written and "plain.attacks.html" in written
        visit.look("officer-signed")
        words = command_of(page, "sign-off")

        press(page, "Write the sign-off")  # not over the first without saying so
        assert "is there; tick the box" in page.get_by_role("alert").inner_text()
        assert page.get_by_label("Your name").input_value() == "A. <b>Smith</b>"  # what was typed stays
        page.get_by_label("is there already: write over it").check()
        press(page, "Write the sign-off")
        page.get_by_text("Written to").wait_for()
    monkeypatch.chdir(sent)
    (sent / "plain.signoff.html").unlink()
    code, _, err = rado(*words)
    assert code == 0, err
    assert (sent / "plain.signoff.html").read_text() == written


@pytest.mark.slow
def test_a_private_release_from_the_file_to_the_sign_off(browser, sent):
    with visiting(browser, sent) as visit:
        page = opened(visit, "moments.rado.parquet")
        verdict = page.get_by_role("group", name="Verdict").inner_text()
        assert "Promise of epsilon 4 for one record added or removed: the best guess is right at most 67" in verdict
        assert "Two like it come to epsilon" in page.inner_text("main")
        visit.look("officer-private")
        run_attacks(page, "2")
        text = page.inner_text("main")
        assert "there was time for" in text or "the promise allows 67 of 100 times" in text  # a slow or a fast machine
        assert "no rados that are sums over its records" in text
        assert "Not tried, for" not in text  # nothing that this release has no use for
        page.get_by_label("Your name").fill("A. Smith")
        page.get_by_label("Approved under the conditions").check()
        press(page, "Write the sign-off")
        assert "needs remarks" in page.get_by_role("alert").inner_text()
        page.get_by_role("textbox", name="Remarks").fill("For the trial alone.")
        press(page, "Write the sign-off")
        page.get_by_text("Written to").wait_for()
        report = cite_attack_report(sent / "moments.attacks.html", rb.load(sent / "moments.rado.parquet"))
        assert report.digest in (sent / "moments.signoff.html").read_text()
        for name in ("moments.attacks", "moments.signoff"):
            look_at_file(visit, sent / f"{name}.html", name)


def look_at_file(visit, place, name):
    """A page that is a file, as its reader opens it."""
    visit.page.goto(place.as_uri())
    visit.requests[:] = [url for url in visit.requests if url != place.as_uri()]
    visit.look(f"file-{name}")


@pytest.mark.slow
def test_the_pages_that_commands_write(browser, sent, monkeypatch, rado):
    monkeypatch.chdir(sent)
    quick_attacks(monkeypatch)
    assert rado("show", "plain.rado.parquet", "--html", "plain.html")[0] == 0
    assert rado("show", "feature-band.rado.parquet", "--html", "band.html")[0] == 0
    assert rado("attack", "report", "plain.rado.parquet", "--seconds", "20")[0] == 0
    assert rado("learn", "moments.rado.parquet", "--report", "learned.html")[0] == 0
    assert rado("show", "moments.model.json", "--html", "model.html")[0] == 0
    with visiting(browser, sent) as visit:
        for name in ("plain", "band", "plain.attacks", "learned", "model"):
            look_at_file(visit, sent / f"{name}.html", name)
            levels = [int(tag[1]) for tag in re.findall(r"<(h[1-6])", (sent / f"{name}.html").read_text())]
            assert 'aria-label="Verdict"' in (sent / f"{name}.html").read_text().partition("<h2")[0]
            assert levels[0] == 1 and levels.count(1) == 1
            assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_wrong_files_are_the_finding(browser, sent):
    with visiting(browser, sent) as visit:
        page = opened(visit, "false.rado.parquet")
        text = page.get_by_role("group", name="Verdict").inner_text()
        assert "Contradicted: do not trust this release" in text and "no proof of origin" in text
        assert "says epsilon 0.01 at delta 1e-06 for one record added or removed" in text and str(sent) not in text
        assert not page.get_by_role("button", name="Run the attacks").count()
        visit.look("officer-contradicted")
        for name, said in (
            ("damaged.rado.parquet", "Damaged: this is not the file that its maker wrote"),
            ("patients.csv", "Damaged: this is not"),
        ):
            page.goto(f"{visit.base}/officer")
            page.get_by_label("Or name a file").fill(name)
            page.keyboard.press("Enter")
            text = page.get_by_role("group", name="Verdict").inner_text()
            assert said in text, text
            assert not page.get_by_role("button", name="Write the sign-off").count()


@pytest.mark.slow
def test_attacks_are_cancelled_and_seen_from_a_second_tab(browser, sent, monkeypatch):
    begun = threading.Event()

    def endless(module, inputs, seconds, bar):
        for step in range(10**9):
            bar("runs", step % 100, 100)
            begun.set()
            threading.Event().wait(0.02)

    monkeypatch.setitem(attack_suite._RUNS, "membership", endless)
    with visiting(browser, sent) as visit:
        page = opened(visit, "moments.rado.parquet")
        page.get_by_role("button", name="Run the attacks").click()
        assert begun.wait(120)
        page.get_by_text("Was this record in the table? (runs)").wait_for()
        visit.look("officer-running")
        page.reload()
        assert page.get_by_role("button", name="Cancel: Attacks on moments.rado.parquet").is_visible()
        second = visit.context.new_page()
        second.goto(page.url)
        second.get_by_role("button", name="Cancel: Attacks on moments.rado.parquet").click()
        second.get_by_text("Cancelled. No unfinished file is left.").wait_for()
        page.get_by_text("Cancelled. No unfinished file is left.").wait_for()  # it asks each second
        assert not list(sent.glob("*.html")) and not list(sent.glob(".*"))
        assert page.get_by_text("Try again").is_visible()
