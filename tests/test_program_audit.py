"""The exact audit in a report of attacks: of the program at the settings of a release, and not of the file."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flat
import radoboost as rb
from radoboost.lab.attacks import attack_suite
from radoboost.lab.audits import program_audit
from radoboost.lab.audits.exact_audit import ABOUT_EXACT
from radoboost.lab.audits.program_audit import audit_program, program_audit_text, why_program_not_audited
from radoboost.lab.audits.replay import NoisySum
from radoboost.privacy import Relation
from radoboost.progress import silent
from radoboost.report.sign_off import cite_attack_report
from test_room_replays import People, opened

COLUMNS = {"a": (-1, 1), "b": (-1, 1)}
SCHEMA = rb.Schema({"a": rb.Number(-1, 1, gaps=True), "b": rb.Ignored("id")}, "y", (0, 1))
BY_PERSON = {"person": "p", "max_rows": 3}


def crafted(mechanism, n_classes=2, **options):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, (3000, 2)), columns=["a", "b"])
    table["y"], table["p"] = np.arange(3000) % n_classes, np.arange(3000) // 2
    declared = {} if "schema" in options else {"label": "y", "classes": range(n_classes), "bounds": COLUMNS}
    return flat.craft(table, mechanism=mechanism, counts=None, **{**declared, **options})


@pytest.mark.filterwarnings("ignore::radoboost.errors.PersonWarning")
@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        (rb.Moments(2.0), {}),
        (rb.Moments(2.0, delta=1e-5, sharpen=False), BY_PERSON),
        (rb.Moments(2.0, relation="replace"), {"columns": "linear"}),
        (rb.Moments(2.0, bounds_share=0.3), {"bounds": "private"}),
        (rb.Moments(2.0), {"bounds": "private", **BY_PERSON}),
        (rb.Moments(2.0), {"schema": SCHEMA}),
        (rb.Moments(2.0), {"n_classes": 3, "columns": "degree-2"}),
        (rb.Moments(4.0, unit="label"), {}),
        (rb.Moments(4.0, unit="label"), {"n_classes": 3, **BY_PERSON}),
        (rb.NoisyRados(2.0, clip=0.5), {"n_rados": 20}),
        (rb.NoisyRados(noise_std=20.0), {"n_rados": 20, **BY_PERSON}),
        (rb.NoisyExamples(4.0, clip=1.0), {"n_rados": 20}),
        (rb.NoisyExamples(4.0, clip=1.0), {"n_rados": 20, **BY_PERSON}),
    ],
)
def test_it_is_of_the_promise_that_the_release_makes(mechanism, options):
    release = crafted(mechanism, **options)
    assert why_program_not_audited(release) is None
    result = audit_program(release, 120.0, silent)
    stated = release.statement
    assert (result.neighbours, result.delta) == (stated.neighbours, stated.delta)
    assert result.claim == pytest.approx(stated.epsilon, rel=1e-6) and result.claim <= stated.epsilon * (1 + 1e-6)
    assert result.holds and result.ratio > (0.9 if stated.neighbours == Relation.REPLACE else 0.99)
    sentence = program_audit_text(release, result)
    assert stated.neighbours in sentence and sentence.endswith(f"This is {ABOUT_EXACT}.")
    assert ("at most 3 rows of each" in sentence) == ("person" in options)


def test_a_mechanism_has_the_settings_of_its_release():
    """What a release does not say in words follows from its noise."""
    mechanism = rb.Moments(2.0, bounds_share=0.3, sharpen=False)
    rebuilt = program_audit._mechanism_at_release_settings(crafted(mechanism, bounds="private"))
    assert rebuilt.bounds_share == pytest.approx(0.3, rel=1e-4) and not rebuilt.sharpen
    assert rebuilt.epsilon == pytest.approx(2, rel=1e-6)


def test_a_room_is_replayed_as_a_room(tmp_path):
    agreed = {"schema": {"x0": (0, 9), "x1": (0, 9)}, "classes": (0, 1), "columns": "linear", "parties": 5}
    people = People(tmp_path, ledgers=False)
    release = people.meet(opened({**agreed, "tolerate": 2, "mechanism": rb.Moments(2.0, sharpen=False)}))[0]["east"]
    assert program_audit._scenario_of_release(release).room == (5, 2)
    assert audit_program(release, 120.0, silent).holds
    rados = {**agreed, "n_rados": 4, "mechanism": rb.NoisyRados(2.0)}
    assert "Replays of rooms are of moments" in why_program_not_audited(people.meet(opened(rados))[0]["east"])


def test_nothing_is_audited_where_nothing_is_promised_to_records(rng):
    x, y = rng.choice([-1.0, 1.0], (40, 2)), rng.integers(0, 2, 40)
    assert "promises nothing" in why_program_not_audited(rb.craft(x, y, n_rados=3))
    banded = rb.craft(x, y, n_rados=3, mechanism=rb.FeatureBand("x1", epsilon=6.0, delta=0.1))
    assert "marginal of one column" in why_program_not_audited(banded)


def test_it_ends_in_time():
    release = crafted(rb.Moments(2.0))
    with pytest.raises(rb.ArgumentError, match=r"it was stopped after 0.001 seconds; give it more with --seconds"):
        audit_program(release, 0.001, silent)
    steps = []
    audit_program(release, 120.0, lambda *step: steps.append(step))
    assert len(steps) > 20 and {task for task, _, _ in steps} == {"replaying runs"}


@pytest.fixture
def of_persons(rado, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    crafted(rb.Moments(4.0), person="p", max_rows=2).save("people.rado.parquet")
    return rado


SIGN = ("sign-off", "people.rado.parquet", "--officer", "A. Smith", "--decision", "approve", "--force")


def attacks_of(place):
    return Path(place).read_text().partition('id="attacks"')[2].partition("</section>")[0]


def test_the_report_of_a_person_release_has_it_as_what_it_is(of_persons):
    """There was nothing to show for such a release: all attacks are on a record."""
    code, out, err = of_persons("attack", "report", "people.rado.parquet", "--json")
    assert code == 0, err
    found = json.loads(out)
    audited = found["attacks"].pop("program")
    assert audited["group"] == "Program audited" and ABOUT_EXACT in audited["On this release"]
    assert {entry["group"] for entry in found["attacks"].values()} == {"Does not apply"}
    assert found["verdict"]["more"][0].startswith("No attack ran on this release")
    assert found["verdict"]["more"][-1] == audited["On this release"]
    page = attacks_of("people.attacks.html")
    assert "An audit of the program, not of this file" in page and "Tried, with" not in page
    assert 'id="program"' in Path("people.attacks.html").read_text()  # with a table of stages
    text = of_persons("attack", "report", "people.rado.parquet")[1]
    assert "An audit of the program, not of this file\n  program: For moments at epsilon 4" in text
    # The sign-off has it as an audit, and not as an attack that ran.
    assert of_persons(*SIGN, "--report", "people.attacks.html")[0] == 0
    ran, _, audits = attacks_of("people.signoff.html").partition("<h3>Audit of the program, not of this file</h3>")
    assert "<strong>None</strong>" in ran and audits.count(ABOUT_EXACT) == 1 and ABOUT_EXACT not in ran
    assert ABOUT_EXACT not in audits.partition("Attacks that did not run")[2]
    report = cite_attack_report(Path("people.attacks.html"), rb.load("people.rado.parquet"))
    assert not report.ran and len(report.audits) == 1 and len(report.others) == 7


def test_a_program_that_moves_too_far_is_not_to_be_trusted(of_persons, monkeypatch):
    """The noise is planted at nine tenths of what it should be: the report says so, and so does the sign-off."""
    honest = NoisySum.squared_distance

    def less(self, other, shares=1):
        part = honest(self, other, shares)
        return None if part is None else part / 81 * 100

    monkeypatch.setattr(NoisySum, "squared_distance", less)
    code, out, err = of_persons("attack", "report", "people.rado.parquet")
    assert code == 1 and out.startswith("This program does not keep such a promise: do not trust its releases.")
    assert "this program does not keep such a promise" in err and "1.111 times as far apart" in " ".join(out.split())
    assert of_persons(*SIGN, "--report", "people.attacks.html")[0] == 0
    assert "1.111 times as far apart" in attacks_of("people.signoff.html")


def test_faults_and_time_that_ran_out_are_said(of_persons):
    release = rb.load("people.rado.parquet")
    result = audit_program(release, 120.0, silent)
    broken = replace(result, faults=("the noise is not that of its key",))
    assert "a check failed: the noise is not that of its key. This is" in program_audit_text(release, broken)
    endless = replace(result, ratio=math.inf)
    assert "inf times as far apart" in program_audit_text(release, endless)
    json.dumps(program_audit.program_audit_findings(endless).to_dict())
    code, out, _ = of_persons("attack", "report", "people.rado.parquet", "--seconds", "0.0001", "--json")
    found = json.loads(out)["attacks"]["program"]
    assert code == 0 and found["group"] == attack_suite.FAILED and "it was stopped after" in found["On this release"]
