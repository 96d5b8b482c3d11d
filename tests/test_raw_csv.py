"""CSV files as people have them: semicolons and tabs, decimal commas, quoted numbers, thousands, gaps and dates."""

import csv
import gzip

import numpy as np
import pandas as pd
import pytest

import radoboost as rb
from radoboost.tables import csv_files, open_table
from radoboost.tables.cells import GAPS
from radoboost.tables.column_types import Category, Date, Ignored, Number
from radoboost.tables.csv_dialect import CsvDialect, guess_header_separator
from radoboost.tables.csv_files import NULLS
from radoboost.tables.schema import Schema

SCHEMA = Schema(
    {
        "id": Ignored("id"),
        "age": Number(0, 120, fill=50, gaps=True),
        "dose": Number(),
        "ward": Category(("A", "NA", 7), other=True, gaps=True),
        "admitted": Date(order="dmy", origin="2024-01-01", unit="hours", parts=("weekday",), gaps=True),
    },
    decimal=",",
    thousands=".",
)
HEADER = ("id", "age", "dose", "ward", "admitted", "y")
ROWS = [
    ("k1", "34", '"1.234,5"', "A", "31.1.2024", "no"),
    ("k2", "", "12,5e1", "NA", "1/2/2024 06:30", "yes"),
    ("k3", "NA", " 7 ", "7.0", "", "no"),
    ("k4", "<NA>", "-,25", "", " n/a", "yes"),
    ("k5", " ", "1.234.567", "C", "01-02-2024T00:30:15+01:00", "no"),
]
EXPECTED = [  # age, missing, dose, A, NA, 7, other, missing, admitted, missing, weekdays
    [34, 0, 1234.5, 1, 0, 0, 0, 0, 30 * 24, 0, 0, 0, 1, 0, 0, 0, 0],
    [50, 1, 125, 0, 1, 0, 0, 0, 31 * 24 + 6.5, 0, 0, 0, 0, 1, 0, 0, 0],
    [50, 1, 7, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    [50, 1, -0.25, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    [50, 1, 1234567, 0, 0, 0, 1, 0, (30 * 86400 + 23 * 3600 + 30 * 60 + 15) / 3600, 0, 0, 0, 1, 0, 0, 0, 0],
]


def write(path, rows=ROWS, separator=";", ending="\n"):
    text = ending.join(separator.join(row) for row in (HEADER, *rows)) + ending
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def values_of(table, schema=None, **options):
    source = open_table(table, label="y", schema=schema, **options)
    return np.vstack([batch.values() for batch in source.batches()])


@pytest.mark.parametrize(
    ("name", "separator"),
    [("t.csv", ";"), ("t.csv.gz", "\t"), ("t.tsv", "|"), ("t.TSV.gz", "\t"), ("t.txt", "|"), ("t.txt.gz", ";")],
)
def test_raw_cells_as_encoded_columns(separator, name, tmp_path):
    path = write(tmp_path / name, separator=separator, ending="\r\n")
    for row_by_row in (False, True):
        values = values_of(path, SCHEMA, row_by_row=row_by_row)
        assert values.dtype == np.float64 and values.flags.c_contiguous
        np.testing.assert_array_equal(values, EXPECTED)


@pytest.mark.parametrize("row_by_row", [False, True])
def test_a_file_called_tsv_has_tabs_whatever_its_names_hold(row_by_row, tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("dose, daily, in mg\ty\n1.5\tno\n2.5\tyes\n")
    schema = Schema({"dose, daily, in mg": Number(0, 9)})
    np.testing.assert_array_equal(values_of(path, schema, row_by_row=row_by_row), [[1.5], [2.5]])
    np.testing.assert_array_equal(values_of(path, row_by_row=row_by_row), [[1.5], [2.5]])


@pytest.mark.parametrize("row_by_row", [False, True])
def test_a_tab_within_quotes_is_none_of_the_header_of_a_tsv_file(row_by_row, tmp_path):
    path = tmp_path / "t.tsv"
    pd.DataFrame({"a": [1.5], "y": ["no"], "b\tc": [2]}).to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    np.testing.assert_array_equal(values_of(path, row_by_row=row_by_row), [[1.5, 2]])
    path.write_text('5" pipe\ty\n1.5\tno\n')  # a quote within a name is a character
    np.testing.assert_array_equal(values_of(path, row_by_row=row_by_row), [[1.5]])


@pytest.mark.parametrize("row_by_row", [False, True])
def test_spaces_around_values_of_categories_do_not_count(row_by_row, tmp_path):
    schema = Schema({"ward": Category(("A", " B\t", " NA"), other=True, gaps=True)})
    assert [column.name for column in schema.encoded()][:3] == ["ward=A", "ward=B", "ward=NA"]
    cells = ["A", " A", "A ", "B", "\tB ", "NA", " NA ", "C ", "  "]
    places = [0, 0, 0, 1, 1, 2, 2, 3, 4]
    labels = ["no", " no", "yes", "yes ", "no", "yes", "no", "yes", "no"]
    path = tmp_path / "t.csv"
    path.write_text("ward,y\n" + "".join(f'"{cell}",{label}\n' for cell, label in zip(cells, labels, strict=True)))
    frame = pd.DataFrame({"ward": cells, "y": labels})
    for table in (path, frame, frame.astype("category")):
        np.testing.assert_array_equal(values_of(table, schema, row_by_row=row_by_row), np.eye(5)[places])
        release = rb.craft(table, label="y", schema=schema, n_rados=9, seed=1)
        assert release.classes == ("no", "yes")
    with pytest.raises(rb.ArgumentError, match="'A ' is there twice"):
        Schema({"ward": Category(("A", "A "))})


@pytest.mark.parametrize("row_by_row", [False, True])
def test_counts_of_cells_that_were_filled(row_by_row, tmp_path):
    batch = next(open_table(write(tmp_path / "t.csv"), label="y", schema=SCHEMA, row_by_row=row_by_row).batches())
    gaps = batch.gaps()
    assert (gaps.missing | gaps.unknown).sum(axis=0).tolist() == [4, 0, 2, 2]


def test_a_word_for_a_gap_is_no_label_even_where_it_is_a_value_of_a_category(tmp_path):
    path = write(tmp_path / "t.csv", [*ROWS, ("k6", "1", "2", "A", "", "NA")])
    source = open_table(path, label="y", schema=SCHEMA)
    assert [batch.labels.to_pylist()[-1] for batch in source.batches()] == [None]


def test_what_arrow_takes_for_missing_is_missing_everywhere():
    assert NULLS <= GAPS and {"<NA>", "None", "none", "-", "--", "?", ".", "na"} == GAPS - NULLS


# ---- separators


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        (b"a,b;c,d", ","), (b"a;b", ";"), (b"a\tb,c\td", "\t"), (b"a|b", "|"), (b"a", ","), (b"", ","),
        (b'"a,b,c";d', ";"), (b'"a;";"b,,,"', ";"), (b"a;b,c", ","), (b'"a""";b', ";"),
        (b'5" pipe;a;b', ";"), (b'"a"";,,";b', ";"),
    ],
)  # fmt: skip
def test_the_header_line_says_the_separator(line, separator):
    assert guess_header_separator(line) == separator


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("row_by_row", [False, True])
def test_a_file_of_numbers_needs_no_schema_whatever_separates_them(separator, row_by_row, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1.5,2,no\n-3,4e2,yes\n".replace(",", separator))
    assert values_of(tmp_path / "t.csv", row_by_row=row_by_row).tolist() == [[1.5, 2], [-3, 400]]


@pytest.mark.parametrize("row_by_row", [False, True])
def test_marks_may_be_given_without_a_schema(row_by_row, tmp_path):
    (tmp_path / "t.csv").write_text("a:b:y\n1,5:2:no\n-3:,5:yes\n")
    marks = CsvDialect(":", ",")
    assert values_of(tmp_path / "t.csv", row_by_row=row_by_row, marks=marks).tolist() == [[1.5, 2], [-3, 0.5]]
    for wrong in ("::", "", "é", "\n", "5"):
        with pytest.raises(rb.ArgumentError, match="one ASCII character"):
            CsvDialect(wrong)
    with pytest.raises(rb.ArgumentError, match="need a schema"):
        open_table(tmp_path / "t.csv", label="y", marks=CsvDialect(":", ",", "."))


def test_no_line_but_the_header_says_the_separator(tmp_path, monkeypatch):
    """Many semicolons below a header with a comma: the same separator, and the rows are empty."""
    (tmp_path / "t.csv").write_text("a,y\n" + "1;2;3;4;5;6;no\n" * 9)
    values = values_of(tmp_path / "t.csv", row_by_row=True)
    assert np.isnan(values).all() and len(values) == 9
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 16)
    assert len(values_of(tmp_path / "t.csv", row_by_row=True)) == 9


# ---- refusals


def test_all_columns_that_cannot_be_read_are_named_at_once(tmp_path):
    odd = [("k", "old", "1,5", "A", "31.1.2024", "no"), ("k", "3", "1.5", "A", "30.2.2024", "no")]
    path = write(tmp_path / "t.csv", [*ROWS, *odd])
    with pytest.raises(rb.TableError) as error:
        values_of(path, SCHEMA)
    for part in ("'age' has 'old' (line 7", "'dose' has '1.5' (line 8", "'admitted' has '30.2.2024' (line 8"):
        assert part in str(error.value)
    values = values_of(path, SCHEMA, row_by_row=True)
    np.testing.assert_array_equal(values[:-2], EXPECTED)
    assert values[-2:, :3].tolist() == [[50, 1, 1.5], [3, 0, 0]]


@pytest.mark.parametrize("cell", ["9007199254740993", "-1e999", "inf", "nan(1)", "0x10", "1_0"])
def test_numbers_that_float64_does_not_hold_are_refused(cell, tmp_path):
    path = write(tmp_path / "t.csv", [*ROWS, ("k", cell, "1", "A", "", "no")])
    with pytest.raises(rb.TableError, match=r"'age' has .* \(line 7 of"):
        values_of(path, SCHEMA)
    assert np.isfinite(values_of(path, SCHEMA, row_by_row=True)).all()


@pytest.mark.parametrize("row_by_row", [False, True])
def test_a_schema_for_another_table_names_all_that_is_missing(row_by_row, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,no\n")
    with pytest.raises(rb.TableError, match="'age', 'dose', 'ward', 'admitted'"):
        values_of(tmp_path / "t.csv", SCHEMA, row_by_row=row_by_row)
