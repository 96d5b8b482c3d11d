"""The made-up hospital has what such tables have, in the amounts that its page says."""

import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from radoboost import Category, Number, Schema
from radoboost.examples import hospital
from radoboost.examples.hospital import N_NEW, N_PATIENTS, NEW_WARD, write_hospital


def test_the_table_has_gaps_text_dates_and_skew():
    table, chance = hospital._make_patients(N_PATIENTS, 1)
    assert table.num_rows == N_PATIENTS == 20_000
    shares = {
        name: column.null_count / N_PATIENTS for name, column in zip(table.column_names, table.columns, strict=True)
    }
    assert {name for name, share in shares.items() if share} == {"age", "crp", "albumin"}
    # Binomial: a deviation of more than 0.012 has a chance below 1e-7 for each of them.
    assert abs(shares["age"] - 0.03) < 0.012 and abs(shares["albumin"] - 0.10) < 0.012 and 0.04 < shares["crp"] < 0.08
    assert pc.count_distinct(table["patient_id"]).as_py() == N_PATIENTS
    sizes = sorted(entry["counts"] for entry in pc.value_counts(table["ward"]).to_pylist())
    assert len(sizes) == 12 and sizes[-1] > 30 * sizes[0] > 0
    crp = table["crp"].drop_null().to_numpy()
    assert np.mean(crp) > 1.4 * np.median(crp)
    # Somebody who knows the odds of every patient is wrong this often.
    assert 0.15 < np.minimum(chance, 1 - chance).mean() < 0.25
    positive = pc.equal(table["outcome"], "yes").to_numpy()
    assert abs(positive.mean() - chance.mean()) < 0.02


def test_the_same_seed_gives_the_same_table():
    assert hospital.make_hospital_table(500).equals(hospital.make_hospital_table(500))
    assert not hospital.make_hospital_table(500).equals(hospital.make_hospital_table(500, seed=2))


def test_the_colleague_has_other_patients_and_one_more_ward(tmp_path):
    files = write_hospital(tmp_path / "new" / "folder")
    first, second = (path.read_text().splitlines() for path in files[:2])
    assert (len(first), len(second)) == (1 + N_PATIENTS, 1 + N_NEW) and first[0] == second[0]
    assert not {line.split(",")[0] for line in first[1:]} & {line.split(",")[0] for line in second[1:]}
    assert not [line for line in first if NEW_WARD in line] and [line for line in second if NEW_WARD in line]
    assert Schema.from_dict(json.loads(files[2].read_text())) == hospital.hospital_code_book()


def test_the_code_book_is_about_this_table():
    table, book = hospital.make_hospital_table(), hospital.hospital_code_book()
    assert [*book.columns, book.label] == table.column_names and not book.undecided() and not book.from_data
    for name, kind in book.columns.items():
        column = table[name]
        assert getattr(kind, "gaps", False) == bool(column.null_count)
        if isinstance(kind, Number):  # few values lie beyond what the code book says
            numbers = column.drop_null().to_numpy()
            assert ((numbers < kind.low) | (numbers > kind.high)).mean() < 0.02
        if isinstance(kind, Category):
            assert set(column.unique().to_pylist()) == set(kind.values)


def test_five_hospitals_have_the_patients_of_one(rado):
    code, out, _ = rado("demo", "--hospitals", "--directory", ".")
    assert code == 0 and "north" in out
    sizes = {name: len(Path(name, "patients.csv").read_text().splitlines()) - 1 for name in hospital.FIVE}
    assert sizes == hospital.FIVE and sum(sizes.values()) == N_PATIENTS
