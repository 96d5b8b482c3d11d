"""From raw cells to predictions in one go: category, gap and date, a map with squares and products, craft and predict.

For one seed the release is the same to the last bit from CSV, Parquet and frames, in any batches, on one thread or two;
and a model of it predicts every row to the last bit alike, whatever the row comes in and beside.
"""

from datetime import date, timedelta
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.learner.predict import predict_table
from radoboost.progress import no_progress
from radoboost.release.columns import CONSTANT
from radoboost.tables import Table, csv_files, open_table
from radoboost.tables import table as table_module

TERMS = st.one_of(
    st.none(),
    st.lists(st.sampled_from(["linear", "signed-log", "square"]), min_size=1, max_size=3, unique=True).map(tuple),
)
NAMES = ("n", "m", "c", "e", "d")
PAIRS = [(a, b) for k, a in enumerate(NAMES) for b in NAMES[k + 1 :]]


@st.composite
def schemas(draw):
    """Kinds, terms and products; at least one of these, so that there is a map."""
    gaps = draw(st.booleans())
    kinds = {
        "n": rb.Number(-5, 30, fill=draw(st.sampled_from([3, 0.1])), gaps=gaps, terms=draw(TERMS)),
        "m": rb.Number(-1000, 1000, fill=0, terms=draw(TERMS)),
        "c": rb.Category(("A", "b c", 7), other=draw(st.booleans()), gaps=gaps),
        "e": rb.Category(("u", "v")),
        "d": rb.Date(low="2020-01-01", high="2024-12-31", fill="2021-05-05", gaps=draw(st.booleans()),
                     parts=draw(st.sampled_from([(), ("weekday",)])), terms=draw(TERMS)),
    }  # fmt: skip
    products = draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=4, unique=True))
    return rb.Schema(kinds, "y", ("no", "yes"), ";", ",", products=tuple(products))


@st.composite
def rows(draw, most=150):
    """Rows of texts; gaps and values that no category has among them."""
    n_rows = draw(st.integers(12, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    few = [draw(st.floats(-1e6, 1e6)) for _ in range(3)]
    numbers = np.concatenate([rng.normal(0, 10, n_rows - 3), few])
    days = [date(2019, 6, 1) + timedelta(days=int(k)) for k in rng.integers(0, 2500, n_rows)]
    columns = {
        "n": [repr(float(value)) for value in numbers],
        "m": [repr(float(value)) for value in rng.lognormal(2, 3, n_rows)],
        "c": rng.choice(["A", "b c", "7", "7.0", "Z"], n_rows).tolist(),
        "e": rng.choice(["u", "v", "w"], n_rows).tolist(),
        "d": [day.isoformat() for day in days],
    }
    for name in NAMES:
        for row in np.flatnonzero(rng.random(n_rows) < 0.1):
            columns[name][row] = ""
    columns["y"] = ["no", "yes", *rng.choice(["no", "yes"], n_rows - 2).tolist()]
    return columns


def forms_of(columns, folder, group):
    """The same cells as a CSV file, a Parquet file and frames: texts, and columns with types."""
    lines = zip(*([cell.replace(".", ",") if name in "nm" else cell for cell in columns[name]] for name in columns),
                strict=True)  # fmt: skip
    (folder / "t.csv").write_text("\n".join(";".join(line) for line in [tuple(columns), *lines]) + "\n")
    typed = {name: pa.array([float(cell) if cell else None for cell in columns[name]]) for name in "nm"}
    dates = pa.array([date.fromisoformat(cell) if cell else None for cell in columns["d"]])
    texts = {name: pa.array(columns[name]) for name in "cey"}
    table = pa.table({**typed, "c": texts["c"], "e": texts["e"].dictionary_encode(), "d": dates, "y": texts["y"]})
    pq.write_table(table, folder / "t.parquet", row_group_size=group)
    yield folder / "t.csv"
    yield folder / "t.parquet"
    yield table
    yield pa.table(columns)
    yield pl.DataFrame(table)
    yield pd.DataFrame(table.to_pandas())


@pytest.mark.filterwarnings(
    "ignore::radoboost.ClippedWarning", "ignore::radoboost.FilledWarning", "ignore::radoboost.SchemaWarning"
)
@settings(max_examples=8, deadline=None)
@given(
    schema=schemas(), columns=rows(), group=st.integers(5, 80), batch=st.sampled_from([64, 128]),
    scale=st.sampled_from(["auto", "bounds"]), part_values=st.sampled_from([64, 4096]),
)  # fmt: skip
def test_the_same_bits_from_raw_cells_to_predictions(
    tmp_path_factory, schema, columns, group, batch, scale, part_values
):
    folder = tmp_path_factory.mktemp("flow")
    forms = list(forms_of(columns, folder, group))
    options = {"schema": schema, "n_rados": 12, "seed": 3, "scale": scale}
    first = flat.craft(forms[0], **options, threads=1)
    with (
        mock.patch.object(Table, "batch_rows", batch),
        mock.patch.object(table_module, "PART_VALUES", part_values),
        mock.patch.object(csv_files, "CSV_BLOCK_BYTES", 400),
    ):
        for threads, form in enumerate(forms):
            release = flat.craft(form, **options, threads=1 + threads % 2)
            assert release.rados.tobytes() == first.rados.tobytes() and release.map == first.map
    model = rb.MomentsClassifier().fit_rados(first).model_
    model.save(folder / "m.json")
    check_predictions(rb.load_model(folder / "m.json"), first, forms, folder, batch)


def check_predictions(model, release, forms, folder, batch):
    """Scores of every form, in other batches, one row by one, and of the file are those of the crafted values."""
    opened = open_table(forms[0], label="y", schema=release.schema)
    values = release.map.apply(np.vstack([part.values() for part in opened.batches()]))
    expected = np.zeros(len(values))
    for theta, column, k in zip(model.theta, model.columns, range(len(model.columns)), strict=True):
        expected += theta * (np.ones(len(values)) if column.name == CONSTANT else column.apply(values[:, k]))
    for form in forms:
        assert model.decision_function(form).tobytes() == expected.tobytes()
    table = forms[2]
    for row in (0, len(expected) - 1):
        assert model.decision_function(table.slice(row, 1)).tobytes() == expected[row].tobytes()
    with mock.patch.object(Table, "batch_rows", batch), no_progress() as bar:
        predict_table(model, forms[1], folder / "s.parquet", bar)
    assert pq.read_table(folder / "s.parquet")["score"].to_numpy().tobytes() == expected.tobytes()
