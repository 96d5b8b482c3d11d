"""The contract of all attacks, and of their studies and pages."""

import importlib
import inspect
import json
import time
from pathlib import Path

import pytest

from radoboost.lab.attacks import _FULL, _QUICK, ATTACKS, STUDIES, run_attack_study
from radoboost.report.documents import Document

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_says_what_it_assumes_and_ends_in_time(name):
    module = importlib.import_module(ATTACKS[name])
    assert name == module.NAME and module.TITLE
    assert module.ASSUMES.startswith("The adversary ") and module.ASSUMES.endswith(".")
    for function in (getattr(module, "study", None), *_entries(module)):
        assert function is None or "seconds" in inspect.signature(function).parameters, function


def _entries(module):
    """The functions of a module that take a release."""
    return [
        function
        for function in vars(module).values()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not function.__name__.startswith(("_", "check"))
        and "release" in inspect.signature(function).parameters
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_keeps_a_time_limit_and_gives_findings(name):
    """Half a second of work; what runs over is a single case that was begun, and loading."""
    importlib.import_module(ATTACKS[name])
    begun = time.process_time()
    document = run_attack_study(name, quick=True, seconds=0.5)
    assert time.process_time() - begun < 60
    assert Document.from_dict(json.loads(json.dumps(document.to_dict(), allow_nan=False))) == document
    assert document.findings.name == name and document.said["Assumed to be known"]
    assert document.command == f"rado attack study {name} --seed 0 --quick --seconds 0.5"


def test_every_study_has_settings_for_a_quick_run():
    assert set(_QUICK) == set(STUDIES) >= set(_FULL)
    for name in STUDIES:
        module = importlib.import_module(ATTACKS[name])
        known = set(inspect.signature(module.study).parameters)
        assert {"seed", "seconds", "bar", *_QUICK[name], *_FULL.get(name, {})} <= known


def test_the_pages_on_attacks_have_the_numbers_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = importlib.import_module("attacks_page")
    for place, text in page.rendered().items():
        assert text == place.read_text(), "run benchmarks/attacks_page.py"
    assert page.tables_page() == page.TABLES.read_text(), "run benchmarks/attacks_page.py"


def test_the_kept_results_show_what_they_must(monkeypatch):
    """What the documentation rests on; a run that comes out otherwise must not be kept in silence."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = importlib.import_module("attacks_page")
    kept = {name: page.document(name) for name in STUDIES}
    assert all(not document.options["quick"] for document in kept.values())
    cells = {row[0]: row for row in kept["leak"].findings.tables[0].rows}
    right, trials = (int(word) for word in cells["bits read rightly"][1].split(" of "))
    assert trials == 100 and right >= 99
    rows = {row[0]: row for row in kept["membership"].findings.tables[0].rows}
    for name, row in rows.items():
        runs = 10_000 if "epsilon 4" in name else 20_000
        if "epsilon" in name:
            assert row[2] >= runs and row[-1] == ("half the noise" in name), name
    assert {name.split(",")[0] for name in rows} == {
        "plain",
        "feature-band",
        "noisy-rados",
        "noisy-examples",
        "moments",
    }
