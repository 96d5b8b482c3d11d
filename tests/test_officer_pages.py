"""Pages about a release: the verdict, plain words and pictures; attacks in groups; the sign-off by its command."""

import dataclasses
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.errors import install
from radoboost.lab.attacks import attack_suite
from radoboost.lab.attacks.adversary_knowledge import NeedsExtra
from radoboost.privacy import Relation
from radoboost.release import statement_check
from radoboost.release.file_format import DamagedFile
from radoboost.release.statement_check import StatementContradiction
from radoboost.release.statement_text import _WHO, faq_answers, verdict_of
from radoboost.report.plots import plot_release_matrices
from radoboost.report.release_report import make_release_report


@pytest.fixture
def release(small_files):
    """A small release by the name of its mechanism."""
    return lambda name: rb.load(small_files / f"{name}.rado.parquet")


@pytest.fixture
def plain(rado, small_files):
    """A plain release in the working directory."""
    shutil.copy(small_files / "plain.rado.parquet", "plain.rado.parquet")
    return rado


def test_every_relation_has_words():
    assert set(_WHO) == set(Relation)


@pytest.mark.parametrize(
    ("name", "tone"), [("plain", "none"), ("moments", "promise"), ("noisy-rados", "promise"), ("feature-band", "weak")]
)
def test_a_verdict_names_its_neighbours(name, tone, release):
    statement = release(name).statement
    verdict = verdict_of(statement)
    assert verdict.tone == tone
    if tone != "none":
        assert f"for {statement.neighbours}" in verdict.headline
    own = [answer for answer in faq_answers(release(name)) if answer.question != "What is not protected?"]
    for sentence in (sentence for answer in own for sentence in answer.sentences if "epsilon" in sentence):
        assert statement.neighbours in sentence or sentence.startswith("Several rows of one person: epsilon at most")


def test_a_guess_that_is_nearly_always_right_is_a_weak_promise(rng):
    crafted = rb.craft(
        rng.random((50, 1)), rng.integers(0, 2, 50), mechanism=rb.Moments(30.0), classes=(0, 1), schema=[[0, 1]]
    )
    assert verdict_of(crafted.statement).tone == "weak"


def test_pictures_of_every_kind_of_release(release):
    for name in ("plain", "moments", "noisy-rados", "feature-band"):
        assert [picture.name for picture in plot_release_matrices(release(name))] == ["rados", "moments"]
    rng = np.random.default_rng(3)
    few = rb.craft(rng.random((60, 30)), rng.integers(0, 3, 60), n_rados=80, seed=1)
    rados, moments = plot_release_matrices(few)
    assert "the first 24 of 31 columns" in rados.caption and "the first 56 of 80 rados" in rados.caption
    assert b"<script" not in moments.wide_svg and len(rados.wide_svg) < 60_000
    alone = rb.craft(rng.random((60, 2)), rng.integers(0, 2, 60), n_rados=1, seed=1)
    assert [picture.name for picture in plot_release_matrices(alone)] == ["rados"]


def test_names_of_columns_are_no_markup():
    rng = np.random.default_rng(3)
    table = pa.table({"<b>&\x1b": rng.random(20), "class": rng.integers(0, 2, 20)})
    about = make_release_report(rb.craft(table, label="class", n_rados=9), "a")
    svg = about.pictures[0].wide_svg.decode()
    assert "<b>" not in svg and "&lt;b&gt;&amp;" in svg and "\x1b" not in svg


def test_contradicted_and_damaged_are_told_apart(tmp_path, release):
    honest, place = release("moments"), tmp_path / "a.rado.parquet"
    replace(honest, statement=replace(honest.statement, best_guess=0.5)).save(place)
    with pytest.raises(StatementContradiction, match="do not trust it"):
        rb.load(place)
    honest.save(place)
    place.write_bytes(place.read_bytes()[:-9])
    with pytest.raises(DamagedFile, match="truncated"):
        rb.load(place)


def test_a_missing_package_is_what_an_attack_would_need(plain, monkeypatch):
    def missing(*_):
        raise NeedsExtra(f"this attack needs flint; install it with: {install('attacks')}")

    def study(name, **_):
        raise rb.ArgumentError("not now")

    for name in ("reconstruct", "linear", "membership"):
        monkeypatch.setitem(attack_suite._RUNS, name, missing)
    monkeypatch.setattr(attack_suite, "run_attack_study", study)
    code, out, err = plain("attack", "report", "plain.rado.parquet", "--seed", "7", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert {name for name, entry in found["attacks"].items() if entry["group"] == "Would need more"} == {
        "reconstruct", "linear", "probe", "membership", "confounder", "hardness"
    }  # fmt: skip
    assert found["verdict"]["tone"] == "none" and "needs flint" in Path("plain.attacks.html").read_text()


def test_a_statement_that_an_attack_beats_ends_in_exit_code_1(rado, rng, monkeypatch):
    monkeypatch.setattr(
        statement_check, "_check_stated_rado_noise", lambda release: None
    )  # which would refuse the file
    declared = {"bounds": [(0, 1)] * 2, "classes": (0, 1), "n_rados": 20}
    honest = flat.craft(rng.random((30, 2)), rng.integers(0, 2, 30), mechanism=rb.NoisyRados(4.0), **declared)
    half = {**honest.mechanism, "noise_std": honest.mechanism["noise_std"] / 2}
    dataclasses.replace(honest, mechanism=half).save("half.rado.parquet")
    code, out, err = rado("attack", "report", "half.rado.parquet", "--seconds", "120")
    assert code == 1 and out.startswith("Contradicted by an attack") and "contradicted by an attack" in err
    assert "wrong" in Path("half.attacks.html").read_text()


@pytest.fixture
def of_persons(rado, rng):
    """A release about persons in the working directory."""
    table = pa.table({"id": rng.integers(0, 900, 2000), "age": rng.random(2000), "ill": rng.integers(0, 2, 2000)})
    options = {"label": "ill", "classes": (0, 1), "bounds": {"age": (0, 1)}, "counts": None}
    flat.craft(table, mechanism=rb.Moments(4.0), person="id", max_rows=2, **options).save("people.rado.parquet")
    return rado


def test_an_attack_on_records_does_not_apply_to_a_release_about_persons_and_is_never_called_tried(of_persons):
    code, out, err = of_persons("attack", "report", "people.rado.parquet", "--seconds", "1", "--json")
    assert code == 0, err
    found = json.loads(out)
    del found["attacks"]["program"]  # which is no attack on this release
    assert {entry["group"] for entry in found["attacks"].values()} == {"Does not apply"}
    assert "about persons, by 'id'" in found["attacks"]["membership"]["On this release"]
    assert found["verdict"]["more"][0].startswith("No attack ran on this release")
    assert "Tried" not in Path("people.attacks.html").read_text().partition("</section>")[0]
    sign = ("sign-off", "people.rado.parquet", "--officer", "A. Smith", "--decision", "approve")
    for report in ((), ("--report", "people.attacks.html")):
        assert of_persons(*sign, *report, "--force")[0] == 0
        attacks = Path("people.signoff.html").read_text().partition('id="attacks"')[2].partition("</section>")[0]
        assert "<strong>None</strong>" in attacks and "Verdict" not in attacks
        assert ("Does not apply: The release is about persons" in attacks) == bool(report)


def test_an_attack_that_ends_with_an_error_is_not_called_tried(plain, monkeypatch):
    monkeypatch.setattr(
        attack_suite, "run_attack_study", lambda *_, **__: (_ for _ in ()).throw(rb.ArgumentError("not now"))
    )
    monkeypatch.setitem(
        attack_suite._RUNS, "membership", lambda *_: (_ for _ in ()).throw(rb.ArgumentError("not here"))
    )
    code, out, _ = plain("attack", "report", "plain.rado.parquet", "--json")
    found = json.loads(out)
    assert code == 0 and found["attacks"]["membership"]["group"] == "No result"
    assert found["verdict"]["more"][:2] == [
        "No attack ran on this release, so nothing was put to the test.", "Not here."
    ]  # fmt: skip


def test_a_sign_off_runs_nothing_and_says_what_the_report_says(plain, monkeypatch):
    monkeypatch.setattr(
        attack_suite, "run_attack_study", lambda *_, **__: (_ for _ in ()).throw(rb.ArgumentError("not now"))
    )
    assert plain("attack", "report", "plain.rado.parquet", "--seconds", "5")[0] == 0
    monkeypatch.setattr(attack_suite, "run_all_attacks", None)
    assert plain(*SIGN, "refuse", "--report", "plain.attacks.html")[0] == 0
    attacks = Path("plain.signoff.html").read_text().partition('id="attacks"')[2].partition("</section>")[0]
    ran, _, others = attacks.partition("Attacks that did not run")
    assert "Was this record in the table?" in ran and "None" not in ran
    assert "Would need more: It would need the seed" in others and "Does not apply: " in others


def test_who_approves_a_release_that_promises_nothing_types_so(plain, release):
    assert plain(*SIGN, "approve", "--confirm", "no promise")[0] == 0
    page = Path("plain.signoff.html").read_text()
    assert "typed to approve it" in page and "--confirm &#39;no promise&#39;" in page


@pytest.mark.parametrize("name", ["plain", "moments", "noisy-rados", "feature-band"])
def test_what_is_not_protected_begins_with_it(name, release):
    (answer,) = [answer for answer in faq_answers(release(name)) if answer.question == "What is not protected?"]
    assert not answer.sentences[0].startswith(("Nothing", "No "))
    assert name != "plain" or answer.sentences[0].startswith("The sums are exact: no noise is added.")


SIGN = ("sign-off", "plain.rado.parquet", "--officer", "A. Smith", "--decision")


def test_a_sign_off_by_its_command(plain, release):
    code, _, err = plain(*SIGN, "approve", "--confirm", "no promise", "--date", "2026-01-31")
    assert code == 0 and "wrote plain.signoff.html" in err
    page = Path("plain.signoff.html").read_text()
    statement = release("plain").statement
    for words in ("2026-01-31", "A. Smith", "No promise", release("plain").digest, statement.not_protected[0][:40]):
        assert words in page
    code, out, err = plain(*SIGN, "refuse")
    assert (code, out, err.count("\n")) == (1, "", 1) and "plain.signoff.html is there" in err
    assert Path("plain.signoff.html").read_text() == page
    for words in (("show", "plain.rado.parquet", "--html"), ("learn", "plain.rado.parquet", "--report")):
        code, _, err = plain(*words, "plain.signoff.html")
        assert code == 1 and "exists" in err
        assert Path("plain.signoff.html").read_text() == page
    assert plain(*SIGN, "refuse", "--force")[0] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("maybe",), "decision"),
        (("approve-within",), "remarks"),
        (("approve", "--date", "tomorrow"), "date"),
        (("approve",), 'plain.rado.parquet promises nothing; to approve it, give --confirm "no promise"'),
        (("approve-within", "--remarks", "Here.", "--confirm", "yes"), "promises nothing"),
        (("refuse", "--report", "other.html"), "no report"),
        (("refuse", "--report", "bare.html"), "no report"),
        (("refuse", "--report", "older.html"), "another release"),
        (("approve", "-o", "plain.txt"), ".html"),
    ],
)
def test_a_sign_off_that_is_refused_leaves_nothing(plain, options, said):
    Path("other.html").write_text("<html></html>")
    marks = '<meta name="radoboost-release" content="0"><meta name="radoboost-tone" content="none">'
    marks += '<meta name="radoboost-verdict" content="x">'
    Path("bare.html").write_text(f"<!DOCTYPE html>{marks}")
    attack = (
        "{&quot;title&quot;: &quot;a&quot;, &quot;group&quot;: &quot;Tried&quot;, &quot;sentence&quot;: &quot;b&quot;}"
    )
    Path("older.html").write_text(f'<!DOCTYPE html>{marks}<meta name="radoboost-attack" content="{attack}">')
    before = sorted(Path().iterdir())
    code, out, err = plain(*SIGN, *options)
    assert (code, out, err.count("\n")) == (1, "", 1) and said in err
    assert sorted(Path().iterdir()) == before
