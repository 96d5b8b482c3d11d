"""What an officer signs off in the studio is the file that was read, and nothing writes over a sign-off unasked."""

import re
import shlex
import shutil
from html import unescape

import pytest

from radoboost.errors import ArgumentError
from radoboost.lab.attacks import attack_suite
from studio_pages import running

SIGNED = {"officer": "A. Smith", "decision": "refuse", "remarks": ""}


@pytest.fixture
def folder(tmp_path, small_files):
    folder = tmp_path / "sent"
    (folder / "other").mkdir(parents=True)
    shutil.copy(small_files / "plain.rado.parquet", folder)
    shutil.copy(small_files / "moments.rado.parquet", folder / "other" / "plain.rado.parquet")
    return folder


@pytest.fixture
def studio(folder, monkeypatch):
    def not_now(*args, **options):
        raise ArgumentError("not now")

    monkeypatch.setattr(attack_suite, "run_attack_study", not_now)
    for name in list(attack_suite._RUNS):
        monkeypatch.setitem(attack_suite._RUNS, name, not_now)
    with running(folder) as client:
        yield client.enter()


def opened(studio, name):
    way = studio.post("/officer", {"file": name})[1]["Location"]
    assert studio.studio.jobs.all()[0].wait(300)
    return way


def attacked(studio, way):
    answer = studio.post(f"{way}/attacks", {"seconds": "1"})
    assert studio.studio.jobs.all()[0].wait(300)
    return answer


def signed(studio, way):
    assert studio.post(f"{way}/sign-off", SIGNED)[0] == 303
    return unescape(studio.get(way)[2])


def test_a_file_that_changed_since_it_was_read_is_not_signed_off(studio, folder, small_files):
    way = opened(studio, "plain.rado.parquet")
    shutil.copy(small_files / "moments.rado.parquet", folder / "plain.rado.parquet")
    assert "plain.rado.parquet is not signed off: it changed since you read it" in signed(studio, way)
    (folder / "plain.rado.parquet").unlink()
    assert "it changed since you read it" in signed(studio, way)
    assert not list(folder.glob("*.html"))
    shutil.copy(small_files / "plain.rado.parquet", folder)
    assert "Written to" in signed(studio, way) and (folder / "plain.signoff.html").exists()


def test_a_report_that_is_not_named_is_said(studio, folder):
    way = opened(studio, "plain.rado.parquet")
    attacked(studio, way)
    (folder / "plain.attacks.html").unlink()
    text = signed(studio, way)
    assert "names no report of attacks: plain.attacks.html is not in the folder any more" in text


@pytest.mark.slow
def test_the_commands_of_the_page_write_its_pages(studio, folder, rado, monkeypatch):
    monkeypatch.chdir(folder)
    way = opened(studio, "plain.rado.parquet")
    attacked(studio, way)
    report = (folder / "plain.attacks.html").read_text()
    text = signed(studio, way)
    lines = [line for line in re.findall(r"<code>(rado .+?)</code>", text) if "html" in line]
    assert [line.split()[1] for line in lines] == ["attack", "sign-off", "show"]
    assert lines[2] == "rado show plain.rado.parquet --html plain.html"
    for line in (lines[0], lines[2]):
        code, _, err = rado(*shlex.split(line)[1:])
        assert code == 0, err
    assert without_times((folder / "plain.attacks.html").read_text()) == without_times(report)
    page = (folder / "plain.html").read_text()
    for part in (r'<div class="ruling.+?</div>', r'<section aria-labelledby="(?:plain|statement|file)">.+?</section>'):
        shown = re.findall(part, page, re.S)
        assert shown and (part.startswith("<div") or all(unescape(each) in text for each in shown))


def without_times(page):
    return re.sub(r"\b[\d.,]+ (ms|s|min)\b", "so long", page)


def test_what_is_refused_is_said_by_short_names(studio, folder):
    here, other = opened(studio, "plain.rado.parquet"), opened(studio, "other/plain.rado.parquet")
    attacked(studio, here)
    attacked(studio, other)
    text = signed(studio, here)
    assert '"alert">plain.attacks.html is about another release' in text
    assert not (folder / "plain.signoff.html").exists()
