"""Neighbouring tables look alike to private crafting, but for the contribution of the record that differs.

Two thousand pairs, drawn from fixed seeds, in all forms that a table can have; a fifth of them in `make test`. What a
record may change is its own integers; outcome, warnings, shape, and every other row must be the same, and time may not
grow beyond reason. Then dependences are planted, and the same judge must find each.
"""

import random
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import radoboost as rb
from declared_forms import arrow_table, numpy_declared, pandas_declared, polars_declared, sparse_declared, write_table
from looking import BOUNDS, judge_pairs, judged, look, look_at_release
from neighbours import (
    LINES,
    Pair,
    columns_of,
    csv_lines,
    gzipped,
    make_pair,
    numpy_inferred,
    odd_record,
    pandas_read,
    polars_read,
)
from radoboost.holder.mechanisms.moments import aggregations
from radoboost.tables import class_values, labels, private_reader
from radoboost.tables.strict_reader import STRICT

PAIRS = {  # of each form
    "csv": 300, "csv.gz": 150, "parquet": 200, "arrow": 150, "stream": 100, "arrow in memory": 250, "numpy": 100,
    "numpy inferred": 200, "sparse": 250, "pandas": 150, "pandas inferred": 100, "pandas read": 100, "polars": 120,
    "polars read": 80,
}  # fmt: skip
CRAFTED = 6  # whole releases of each form


def draw(form, number):
    """A pair, by its form and number; units alternate."""
    rng = random.Random(f"{form} {number}")
    classes = ("no", "yes") if form in ("parquet", "arrow", "stream", "arrow in memory") or number % 4 < 2 else (0, 1)
    unit = "label" if number % 3 == 2 else "record"
    odd = odd_record
    if form in ("csv", "csv.gz") and unit == "record" and rng.random() < 0.6:
        odd = lambda rng, classes: b",".join(rng.choices(LINES, k=rng.choice((1, 1, 2, 3)))).replace(b"\n", b"")  # noqa: E731
    return make_pair(rng, odd, unit, classes), classes, rng


def build(form, number, pair, records, folder, name):
    """One table of a pair: what `look` gets; None if the library that makes such tables refuses these records."""
    rng = random.Random(f"{form} {number} {len(pair.long)}")  # the same for both
    odd = pair.place if pair.unit == "label" or records is pair.long else None
    if form in ("csv", "csv.gz"):
        ending = rng.choice((b"\n", b"\r\n"))
        content = csv_lines(records, ending)
        content = content.removesuffix(ending) if rng.random() < 0.2 and not content.endswith(2 * ending) else content
        path = folder / f"{name}.{form}"
        path.write_bytes(gzipped(content, rng) if form == "csv.gz" else content)
        return path, None
    if form in ("parquet", "arrow", "stream", "arrow in memory"):
        table = arrow_table(pair, records, f"{form} {number}", form == "parquet")
        if form == "arrow in memory":
            return (table.drop("y"), table.column("y")) if number % 2 else (table, None)
        return write_table(table, folder / f"{name} {form}.{'parquet' if form == 'parquet' else 'arrow'}", rng), None
    makers = {
        "numpy": lambda: numpy_declared(records, odd, f"{form} {number}"),
        "sparse": lambda: sparse_declared(records, odd, f"{form} {number}"),
        "numpy inferred": lambda: numpy_inferred(records),
        "pandas": lambda: (pandas_declared(records, odd, f"{form} {number}"), None),
        "pandas inferred": lambda: (pd.DataFrame(columns_of(records)), None),
        "pandas read": lambda: (pandas_read(records), None),
        "polars": lambda: (polars_declared(records, odd, f"{form} {number}"), None),
        "polars read": lambda: (polars_read(records), None),
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a library says while it makes a table is not about ours
            table, y = makers[form]()
    except (ValueError, TypeError, ArithmeticError, pl.exceptions.PolarsError):
        return None
    is_table = y is None or (getattr(y, "ndim", 1), table.ndim) == (1, 2)
    return (table, y) if is_table else None


def compared(form, number, folder):
    """What differs between the two tables of a pair; None where there is no such pair of tables."""
    pair, classes, rng = draw(form, number)
    tables = [build(form, number, pair, records, folder, f"{k}") for k, records in enumerate((pair.long, pair.short))]
    if None in tables:
        return None
    engine, batch = rng.choice(("kernel", "reference")), rng.choice((64, 64, 64, 7))
    looks = [lambda t=table: look(*t, engine=engine, classes=classes, batch=batch) for table in tables]
    return judged(looks, pair.place, pair.unit)[0]


@pytest.mark.parametrize("form", PAIRS)
@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_neighbours_look_alike(share, form, tmp_path):
    count = PAIRS[form] // share
    judge_pairs(lambda number: compared(form, number, tmp_path), count, 2 * count)


# ---- whole releases


MECHANISMS = {
    "record": (rb.Moments(1.0), rb.NoisyRados(1.0), rb.Moments(1.0, sharpen=False)),
    "label": (rb.Moments(1.0, unit="label"), rb.NoisyExamples(1.0)),
}


def released(form, number, folder):
    """What differs between whole releases of the two tables of a pair."""
    pair, classes, rng = draw(form, number)
    tables = [build(form, number, pair, records, folder, f"{k}") for k, records in enumerate((pair.long, pair.short))]
    if None in tables or not pair.short:  # a mechanism that publishes how many rows there are refuses to have none
        return None
    mechanism = rng.choice(MECHANISMS[pair.unit])
    declared = {"bounds": BOUNDS, "label": "y"} if tables[0][1] is None else {"bounds": list(BOUNDS.values())}
    looks = [
        lambda t=table: look_at_release(*t, classes=classes, mechanism=mechanism, n_rados=3, **declared)
        for table in tables
    ]
    return judged(looks, pair.place, pair.unit)[0]


@pytest.mark.parametrize("form", PAIRS)
def test_releases_of_neighbours_look_alike(form, tmp_path):
    found = {number: released(form, number, tmp_path) for number in range(CRAFTED)}
    assert sum(result is not None for result in found.values()) > CRAFTED / 2
    assert not {number: result for number, result in found.items() if result}


def test_there_are_two_thousand_pairs():
    assert sum(PAIRS.values()) >= 2000


# ---- planted dependences, each found by the same judge


def with_odd(odd, folder, *, kind="csv"):
    """What is found between twelve records and the same with an odd one among them."""
    records = [(k, k % 7 + 0.5, "yes" if k % 3 else "no") for k in range(12)]
    pair = Pair([*records[:5], odd, *records[5:]], records, 5, "record")
    tables = [build(kind, 0, pair, these, folder, f"{k}")[0] for k, these in enumerate((pair.long, pair.short))]
    looks = [lambda t=table: look(t) for table in tables]
    return judged(looks, 5, "record")[0]


USUAL, TEXT, ENDLESS = (1, 2, "no"), ("n/k", 2, "no"), (1, "1e999", "no")
READERS = ("csv", "pandas read")


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("odd", [USUAL, TEXT, ENDLESS])
def test_without_a_planted_dependence_there_is_nothing_to_find(odd, kind, tmp_path):
    assert with_odd(odd, tmp_path, kind=kind) == []


def plant(monkeypatch, change):
    """Change the numbers of a column, all rows of a batch at a time."""
    numbers = private_reader.numbers_or_nan
    monkeypatch.setattr(
        private_reader, "numbers_or_nan", lambda column, *marks: change(column, numbers(column, *marks))
    )


@pytest.mark.parametrize("kind", READERS)
def test_a_type_by_all_values_is_found(kind, tmp_path, monkeypatch):
    def inferred(column, numbers):
        """Numbers if all are, else categories."""
        codes = np.unique([str(cell) for cell in column.to_pylist()], return_inverse=True)[1]
        return codes.astype(float) if np.isnan(numbers).any() else numbers

    plant(monkeypatch, inferred)
    assert with_odd(USUAL, tmp_path, kind=kind) == []
    assert any("other rows" in line for line in with_odd(TEXT, tmp_path, kind=kind))


def test_a_refusal_by_type_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(private_reader.PrivateReader, "check_types", STRICT.check_types)
    assert with_odd(USUAL, tmp_path, kind="pandas read") == []
    assert any("outcome" in line for line in with_odd(TEXT, tmp_path, kind="pandas read"))


@pytest.mark.parametrize("kind", READERS)
def test_a_scale_by_the_largest_of_a_batch_is_found(kind, tmp_path, monkeypatch):
    plant(monkeypatch, lambda _, numbers: numbers / np.nanmax(np.abs(numbers)))
    assert any("other rows" in line for line in with_odd((900, 2, "no"), tmp_path, kind=kind))


def test_a_sum_that_a_bad_row_changes_is_found(tmp_path, monkeypatch):
    add = aggregations.SphereRows.add

    def sloppy(self, sums, first_row, batch):
        add(self, sums, first_row, batch)
        sums.products += int(np.isnan(batch.values()).sum())

    monkeypatch.setattr(aggregations.SphereRows, "add", sloppy)
    assert with_odd(USUAL, tmp_path) == []
    assert with_odd(TEXT, tmp_path) == ["sum: sphere"]


@pytest.mark.parametrize("error", [rb.TableError, OverflowError])
def test_an_exception_on_a_value_is_found(error, tmp_path, monkeypatch):
    def refuse(_, numbers):
        if np.isinf(numbers).any():
            raise error("a number is too large")
        return numbers

    plant(monkeypatch, refuse)
    assert with_odd(USUAL, tmp_path) == []
    assert any("outcome" in line for line in with_odd(ENDLESS, tmp_path))


def test_a_warning_on_a_value_is_found(tmp_path, monkeypatch):
    def warn(_, numbers):
        if np.isnan(numbers).any():
            warnings.warn("a number is missing", UserWarning, stacklevel=2)
        return numbers

    plant(monkeypatch, warn)
    assert with_odd(USUAL, tmp_path) == []
    assert any("warnings" in line for line in with_odd(TEXT, tmp_path))


@pytest.mark.slow
def test_quadratic_time_is_found(tmp_path, monkeypatch):
    """Two parts of this pattern can match the same digits; it was in the label reader once."""
    monkeypatch.setattr(class_values, "_NUMBER", re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"))
    for module in (class_values, labels):
        monkeypatch.setattr(module, "LONGEST_LABEL", 10**6)
    assert with_odd(USUAL, tmp_path) == []
    lengths = (1000, 1400, 2000, 2800, 4000, 5600, 8000)  # a fast machine needs longer ones
    assert any("time" in line for length in lengths for line in with_odd((1, 2, "9" * length + "x"), tmp_path))


def test_a_number_of_rows_that_should_be_hidden_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(rb.Moments, "hides_size", False)
    found = [released("csv", number, tmp_path) for number in range(12)]
    assert any("shape" in line for lines in found if lines for line in lines)
