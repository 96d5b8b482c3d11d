"""A messy table goes from `rado schema` to a private release about persons by the command line alone.

The CSV stays as it is, and only what its code book says is declared.
"""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner
from typer.main import get_command

import radoboost as rb
from radoboost.cli import app

CODE_BOOK = {
    "patient_id": {"kind": "id"},
    "age": {"kind": "number", "low": 0, "high": 110, "gaps": True, "missing": [999, -1]},
    "crp_mg_l": {"kind": "number", "low": 0, "high": 300, "decimal": ","},
    "los_days": {"kind": "number", "low": 0, "high": 60, "beyond": "gap", "gaps": True},
    "ward": {
        "kind": "category", "values": ["surgery", "medicine", "cardiology"], "other": True, "fold": True,
        "synonyms": {"internal medicine": "medicine"},
    },
    "admitted": {"kind": "date", "low": "2022-01-01", "high": "2025-01-01", "order": "dmy"},
    "note": {"kind": "text"},
}  # fmt: skip


@pytest.fixture
def messy(tmp_path, monkeypatch):
    """6,000 visits of 3,000 patients."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    wards = ["surgery", "Surgery", "MEDICINE", "internal medicine", "Cardiolgy", "hyperbaric", "cardiology"]
    with open("visits.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*CODE_BOOK, "readmitted"])
        for k in range(6000):
            age, day = int(rng.integers(20, 95)), f"{rng.integers(1, 29):02}"
            crp = f"{rng.uniform(0, 200):.1f}".replace(".", ",")
            ill = "" if k % 20 == 0 else "yes" if age + rng.normal(0, 15) > 60 else "no"
            writer.writerow([
                f"P{k // 2}", ["", 999, -1][k % 3] if k % 11 == 0 else age, crp,
                500 if k % 50 == 0 else f"{rng.uniform(0, 30):.2f}", wards[k % 7],
                f"2023-05-{day}" if k % 2 else f"{day}.05.2023", 'seen,\nand "well"\n' if k % 3 else "", ill,
            ])  # fmt: skip
    return tmp_path


def rado(*words):
    result = CliRunner().invoke(get_command(app), [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_from_a_code_book_to_a_private_release_about_persons(messy):
    before = (messy / "visits.csv").read_bytes()
    columns = [word for name, kind in CODE_BOOK.items() for word in ("--column", f"{name}={json.dumps(kind)}")]
    rado("schema", "visits.csv", "--label", "readmitted", "--classes", "no,yes", "--person", "patient_id:2", *columns)
    seen = json.loads(rado("check", "visits.csv", "--schema", "visits.schema.json", "--json"))
    assert seen["persons"]["people"] == 3000 and seen["rows"] == 6000
    assert seen["rows"] - seen["contribute"] == 300  # the blank outcomes, and nothing else
    rado("ledger", "create", "clinic.ledger", "--table", "visits", "--epsilon", 5, "--relation", "person")
    crafting = ("--schema", "visits.schema.json", "--epsilon", 4, "--ledger", "clinic.ledger", "--quiet")
    told = rado("craft", "visits.csv", *crafting)
    assert "one person added or removed" in told and "rado learn" in told
    release = rb.load("visits.rado.parquet")
    assert release.statement.neighbours == "one person added or removed"
    assert (release.mechanism["person"], release.mechanism["max_rows"]) == ("patient_id", 2)
    rado("learn", "visits.rado.parquet")
    rado("predict", "visits.model.json", "visits.csv", "--label", "readmitted")
    assert (messy / "visits.csv").read_bytes() == before
    model = rb.load_model("visits.model.json")
    rows = {"age": ["60", "999"], "crp_mg_l": ["3,43"] * 2, "los_days": ["5", "500"], "ward": ["SURGERY", "surgery"]}
    rows["admitted"] = ["2024-02-24", "24.02.2024"]
    assert np.isfinite(model.decision_function(rows)).all()
