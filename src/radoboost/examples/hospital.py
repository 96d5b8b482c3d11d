"""A hospital's table as such tables are: ids, gaps, text, dates and skewed lab values. Made up, to try things on.

| column        | what it is                                         | gaps                                     |
|---------------|----------------------------------------------------|------------------------------------------|
| `patient_id`  | P and six digits, each once                        |                                          |
| `age`         | whole years                                        | 3 %                                      |
| `sex`         | female or male                                     |                                          |
| `ward`        | 12 of them, from a quarter of all patients to 1 in 200 |                                      |
| `admitted`    | a day of 2023 or 2024                              |                                          |
| `haemoglobin` | g/dL                                               |                                          |
| `creatinine`  | µmol/L, skewed                                     |                                          |
| `crp`         | mg/L, skewed over two powers of ten              | 6 %, most where there is no inflammation |
| `albumin`     | g/L, skewed to the left                            | 10 %                                     |
| `sodium`      | mmol/L                                             |                                          |
| `glucose`     | mmol/L, skewed                                     |                                          |
| `outcome`     | yes or no: whether the patient came back           |                                          |

The outcome is a coin whose odds follow from age, sex, ward, lab values and, a little, from the season. Even somebody
who knows these odds is wrong about a fifth of the patients.
"""

import datetime
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray
from scipy.special import expit

from radoboost.errors import OutputError, reason
from radoboost.release.release import atomic_write
from radoboost.tables.column_types import Category, Date, Ignored, Kind, Number
from radoboost.tables.schema import Schema

N_PATIENTS, N_NEW = 20_000, 2_000
FIVE = {"north": 7_000, "south": 5_000, "east": 4_000, "west": 2_500, "coast": 1_500}  # hospitals, and their patients
LABEL = "outcome"
NEW_WARD = "Palliative care"  # which the colleague's hospital has and the first one does not
_FIRST_DAY, _N_DAYS = datetime.date(2023, 1, 1), 731
# Of each ward: its share of the patients, the mean and the spread of their ages, the share of women, and how many units
# its patients' log odds are above the others'.
_WARDS: dict[str, tuple[float, float, float, float, float]] = {
    "Internal medicine": (0.250, 64, 16, 0.50, 0.2),
    "Surgery": (0.180, 56, 18, 0.48, -0.3),
    "Cardiology": (0.140, 68, 12, 0.42, 0.6),
    "Emergency": (0.110, 49, 21, 0.50, -0.1),
    "Orthopaedics": (0.090, 58, 19, 0.55, -0.8),
    "Neurology": (0.070, 60, 17, 0.51, 0.1),
    "Oncology": (0.060, 63, 13, 0.50, 1.0),
    "Maternity": (0.040, 31, 5, 1.00, -1.0),
    "Paediatrics": (0.030, 8, 5, 0.47, -0.6),
    "Geriatrics": (0.015, 83, 6, 0.62, 0.5),
    "Intensive care": (0.010, 62, 15, 0.43, 1.2),
    "Dermatology": (0.005, 47, 18, 0.50, -0.9),
}


def make_hospital_table(n_rows: int = N_PATIENTS, seed: int = 1) -> pa.Table:
    return _make_patients(n_rows, seed)[0]


def hospital_code_book() -> Schema:
    """What the hospital's code book says about its columns: a schema that was written without a look at the table."""
    columns: dict[str, Kind] = {
        "patient_id": Ignored("id"),
        "age": Number(0, 110, gaps=True),
        "sex": Category(("female", "male")),
        "ward": Category(tuple(_WARDS), other=True),
        "admitted": Date(origin="2023-01-01", low="2023-01-01", high="2024-12-31"),
        "haemoglobin": Number(5, 20),
        "creatinine": Number(0, 300),
        "crp": Number(0, 100, gaps=True),
        "albumin": Number(15, 55, gaps=True),
        "sodium": Number(120, 160),
        "glucose": Number(0, 20),
    }
    return Schema(columns, LABEL, ("no", "yes"))


def write_hospital(directory: str | os.PathLike[str]) -> tuple[Path, Path, Path]:
    """Write `hospital.csv`, `colleague.csv` and `code-book.schema.json`; the paths of all three.

    The colleague's patients are fewer, and of another hospital, which has a ward more.
    """
    folder = Path(directory)
    _make_hospital_folder(folder)
    new = make_hospital_table(N_NEW, seed=2)
    ids = pa.array([f"Q{name[1:]}" for name in new["patient_id"].to_pylist()])
    wards = new["ward"].to_pylist()
    moved = [NEW_WARD if ward == "Dermatology" else ward for ward in wards]
    new = new.set_column(0, "patient_id", ids).set_column(new.schema.get_field_index("ward"), "ward", pa.array(moved))
    for name, table in (("hospital.csv", make_hospital_table()), ("colleague.csv", new)):
        _write_hospital_csv(table, folder / name)
    with atomic_write(folder / "code-book.schema.json") as draft:
        draft.write_text(_hospital_schema_text(hospital_code_book()), encoding="utf-8")
    return folder / "hospital.csv", folder / "colleague.csv", folder / "code-book.schema.json"


def write_hospitals(directory: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Write patients.csv into a folder for each of five hospitals, and beside these what `write_hospital` writes.

    Their patients are those of hospital.csv, in order: each is at one of them.
    """
    folder = Path(directory)
    shared = write_hospital(folder)  # it makes the folder
    table, first, files = make_hospital_table(), 0, []
    for name, patients in FIVE.items():
        _make_hospital_folder(folder / name)
        _write_hospital_csv(table.slice(first, patients), folder / name / "patients.csv")
        files.append(folder / name / "patients.csv")
        first += patients
    return *files, *shared


def _make_hospital_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {folder}: {reason(error)}; choose another") from None


def _write_hospital_csv(table: pa.Table, place: Path) -> None:
    with atomic_write(place) as draft:
        pa.csv.write_csv(table, draft, pa.csv.WriteOptions(quoting_style="none"))


def _hospital_schema_text(schema: Schema) -> str:
    document = schema.to_dict()
    columns = [f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in document.pop("columns").items()]
    head = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in document.items())
    return "{\n" + head + ',\n  "columns": {\n' + ",\n".join(columns) + "\n  }\n}\n"


def _make_patients(n_rows: int, seed: int) -> tuple[pa.Table, NDArray[np.float64]]:
    """The table, and the chance of a yes for each row: what somebody would know who knew everything."""
    rng = np.random.default_rng(seed)
    shares, age_means, age_spreads, women, ward_effects = np.array(list(_WARDS.values())).T
    ward = rng.choice(len(_WARDS), size=n_rows, p=shares)
    age = np.clip(np.rint(rng.normal(age_means[ward], age_spreads[ward])), 0, 104)
    male = rng.random(n_rows) >= women[ward]
    day = rng.integers(0, _N_DAYS, n_rows)
    labs = _make_lab_values(rng, age, male)
    log_odds = (
        -0.75
        + 0.045 * (age - 58)
        + 0.35 * male
        + ward_effects[ward]
        + 0.35 * np.cos(2 * np.pi * day / 365.25)  # winter is worse
        + 0.8 * np.log(labs["crp"] / 8)
        + 1.6 * np.log(labs["creatinine"] / 85)
        - 0.35 * (labs["haemoglobin"] - 14)
        - 0.12 * (labs["albumin"] - 40)
        - 0.08 * (labs["sodium"] - 139)
        + 0.15 * (labs["glucose"] - 6)
    )
    chance: NDArray[np.float64] = expit(log_odds)
    positive = rng.random(n_rows) < chance
    gaps = {
        "age": rng.random(n_rows) < 0.03,
        "crp": rng.random(n_rows) < np.where(labs["crp"] < 8, 0.10, 0.02),  # not asked for where nothing points to it
        "albumin": rng.random(n_rows) < 0.10,
    }
    ids = 100_000 + rng.permutation(900_000)[:n_rows]
    columns = {
        "patient_id": pa.array([f"P{number}" for number in ids]),
        "age": pa.array(age.astype(np.int16), mask=gaps["age"]),
        "sex": _texts_of_patients(np.array(["female", "male"]), male.astype(int)),
        "ward": _texts_of_patients(np.array(list(_WARDS)), ward),
        "admitted": pa.array([_FIRST_DAY + datetime.timedelta(int(days)) for days in day]),
        **{name: pa.array(values, mask=gaps.get(name)) for name, values in labs.items()},
        LABEL: _texts_of_patients(np.array(["no", "yes"]), positive.astype(int)),
    }
    return pa.table(columns), chance


def _make_lab_values(rng: np.random.Generator, age: NDArray[Any], male: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Lab values in their usual units, rounded as laboratories do."""
    n_rows = len(age)
    values = {
        "haemoglobin": np.round(rng.normal(13.4 + 1.3 * male - 0.01 * (age - 58), 1.5), 1),
        "creatinine": np.round(np.exp(rng.normal(4.3 + 0.2 * male + 0.004 * (age - 58), 0.35))),
        "crp": np.round(np.clip(np.exp(rng.normal(2.1, 1.0, n_rows)), 0.3, 500), 1),
        "albumin": np.round(48 - rng.gamma(3, 2.5, n_rows), 1),
        "sodium": np.round(rng.normal(139, 3.5, n_rows)),
        "glucose": np.round(4.2 + rng.gamma(2, 0.9, n_rows), 1),
    }
    return {name: np.asarray(column, dtype=np.float64) for name, column in values.items()}


def _texts_of_patients(values: NDArray[Any], places: NDArray[Any]) -> pa.Array:
    return pa.array(values[places].tolist())
