"""Records of CSV files: one row of the table is one record, however many lines it has, wherever the file is cut."""

import csv
import gzip
import io
import itertools
import math
import random
import time
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csv_oracle
import flat
import radoboost as rb
from radoboost import private_score
from radoboost.holder.curator import Curator
from radoboost.holder.engines import get_engine
from radoboost.holder.privacy_cost import privacy_cost_by_schema
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.table_check import check_table
from radoboost.lab.audits.audit_tables import Candidate, Tables
from radoboost.lab.audits.exact_audit import (
    AllIn,
    Replays,
    _NoRowNoise,
    _replay_and_reading_of_mechanism,
    epsilon_claimed_by_draft,
    mu_allowed_by_claim,
)
from radoboost.lab.audits.replay import ABSURD, Honest
from radoboost.privacy import epsilon_at
from radoboost.release.composition import earlier_releases
from radoboost.tables import csv_files, csv_records, open_table
from radoboost.tables.csv_dialect import CsvDialect, csv_separator, guess_header_separator
from radoboost.tables.csv_records import Records, csv_record_starts, split_first_record
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.raw_table import raw_column_types
from radoboost.tables.schema import Schema

# ---- the rule, beside its slow twin


def pieces(text, size):
    """A text in pieces of that size."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def read(text, n_columns=2, *, size=1 << 20, longest=1 << 20, person=-1, lines=False):
    """Every record: what became of it, and its cells."""
    records = Records(",", lines, n_columns, tuple(range(n_columns)), person, longest)
    found = []
    for fates, cells in records.read(lambda: pieces(text, size)):
        columns = [column.to_pylist() for column in cells]
        found += [(int(fate), [column[k] for column in columns]) for k, fate in enumerate(fates)]
    return found


def agrees(text, *, size, longest, person, lines, every):
    """Compare what is read, where records start and what the first one is with the twin."""
    expected = csv_oracle.rows(text, b",", 2, longest, person, lines)
    got = read(text, size=size, longest=longest, person=person, lines=lines)
    assert got == [(fate, cells) for fate, cells, _ in expected]
    wanted, target = [], every
    for _, _, start in expected:
        if start >= target:
            wanted.append(start)
            target = (start // every + 1) * every
    assert csv_record_starts(pieces(text, size), ",", lines, 0, len(text), every) == wanted
    found = csv_oracle.record(text, 0, b",")
    cells = split_first_record(text, ",")
    assert (cells and [cell for cell, _ in cells]) == (None if found is None else [cell for cell, _ in found[0]])


def agree_up_to(length, rng):
    """All texts of five bytes up to some length."""
    for text in itertools.chain.from_iterable(itertools.product(b'",\n\ra', repeat=n) for n in range(length + 1)):
        agrees(
            bytes(text), size=rng.choice((1, 2, 3, 9)), longest=rng.choice((1, 2, 3, 99)),
            person=rng.choice((-1, 0, 1)), lines=rng.random() < 0.3, every=rng.choice((1, 2, 5)),
        )  # fmt: skip


def test_all_short_texts_are_read_as_the_twin_reads_them():
    agree_up_to(5, random.Random(1))


@pytest.mark.slow
def test_all_texts_of_eight_bytes_are_read_as_the_twin_reads_them():
    agree_up_to(8, random.Random(2))


def test_a_line_is_the_same_row_whatever_comes_before_and_behind_it():
    """Also one that ends the file without a line end, as no other line does."""
    for text in itertools.chain.from_iterable(itertools.product(b'",\ra', repeat=n) for n in range(1, 6)):
        alone = read(bytes(text), lines=True, longest=3, person=0)
        assert len(alone) == 1
        for before, behind in ((b"", b"\n"), (b'"\n', b'\n"\n'), (b"a\r\n", b"\n\r")):
            assert read(before + bytes(text) + behind, lines=True, longest=3, person=0)[bool(before)] == alone[0], text


WORDS = st.sampled_from([b'"', b'"', b",", b"\n", b"\r", b"a", b'""', b'"\n', b'","', b"\r\n", b'x"', b"aaaa"])


@settings(max_examples=600)
@given(
    words=st.lists(WORDS, max_size=60),
    size=st.integers(1, 30),
    longest=st.sampled_from([1, 2, 5, 20, 1000]),
    person=st.sampled_from([-1, 0, 1]),
    lines=st.booleans(),
    every=st.sampled_from([1, 3, 10]),
)
def test_long_texts_are_read_as_the_twin_reads_them(words, size, longest, person, lines, every):
    agrees(b"".join(words), size=size, longest=longest, person=person, lines=lines, every=every)


def test_a_file_that_no_rule_can_bound():
    """Two lines of one quote around a correct file of N records make a correct file of 3 N + 1 (C0)."""
    n = 50
    inner = b'"\n5\n7\n"\n' * n
    assert len(read(inner, 1)) == n and {cells[0] for _, cells in read(inner, 1)} == {b"\n5\n7\n"}
    outer = read(b'"\n' + inner + b'"\n', 1)
    assert len(outer) == 3 * n + 1 and not any(fate for fate, _ in outer)
    assert {cells[0] for _, cells in outer} == {b"\n", b"5", b"7"}


HARMFUL = {
    "a quote at the start of each line": lambda n: b'"a\n' * n,
    "a quote within each line": lambda n: b'x",a,"b\n' * n,
    "one quote": lambda n: b'"' + b"a\n" * n,
    "cells that go on": lambda n: b'"' + b'","\n' * n,
    "quotes in pairs": lambda n: b'"\n""' * n,
    "long records": lambda n: (b'"' + b"a,\n" * 400_000 + b'"\n') * (n // 400_000),
    "long attempts": lambda n: (b'"' + b"a,\n" * 400_000 + b'"x\n') * (n // 400_000),
    "attempts that meet": lambda n: (b'"\n' + b'y","\n' * 1000 + b'"x\n') * (n // 1000),
    "long runs of quotes": lambda n: (b'"' * 1_500_001 + b"\n") * (n // 400_000),
}


@pytest.mark.parametrize("kind", HARMFUL)
def test_no_file_takes_more_than_linear_time(kind):
    """Three times as many bytes take less than five times as long, and a megabyte less than a quarter of a second."""
    read(b'"a\n"\n' * 9, 3)  # compiled by now

    def seconds(n):
        text, best = HARMFUL[kind](n), np.inf
        for _ in range(3):
            begun = time.process_time()
            records = Records(",", False, 3, (0, 1, 2), 0, 1 << 20)
            assert sum(len(fates) for fates, _ in records.read(lambda: pieces(text, 1 << 22)))
            csv_record_starts(pieces(text, 1 << 22), ",", False, 0, len(text), 1 << 20)
            best = min(best, time.process_time() - begun)
        return best, len(text)

    (few, _), (many, size) = seconds(800_000), seconds(2_400_000)
    assert many < 5 * few + 0.05 and many < 0.25 * size / 1e6


def test_a_long_record_takes_no_memory(monkeypatch):
    """What is held at a time is a few pieces, however long a record is."""
    longest = []
    frombuffer = np.frombuffer
    monkeypatch.setattr(
        csv_records.np, "frombuffer", lambda text, dtype: longest.append(len(text)) or frombuffer(text, dtype)
    )
    block = b"some words, and more\n" * 1000

    def chunks():
        yield b'7,"'
        yield from (block for _ in range(200))
        yield b'"\n8,x\n'

    found = [cells for _, cells in Records(",", False, 2, (0, 1), 0, 1 << 16).read(chunks)]
    rows = [row for cells in found for row in zip(*(column.to_pylist() for column in cells), strict=True)]
    assert rows == [(b"7", b""), (b"8", b"x")]
    assert max(longest) < 8 * (1 << 16)


# ---- files that others wrote

PIECES = ['"', '""', ",", ";", "\n", "\r\n", "\r", "a", "é", "1,2,yes\n", " ", "", "NA"]


def random_frame(rng):
    """A few rows of a number, a text that may have anything in it and a class; and where the text stands."""
    n = rng.randrange(1, 12)
    notes = [rng.choice((None, "".join(rng.choices(PIECES, k=rng.randrange(9))))) for _ in range(n)]
    columns = {
        "a": [rng.randrange(100) for _ in range(n)],
        "note": notes,
        "y": [rng.choice(("no", "yes")) for _ in range(n)],
    }
    names = rng.sample(list(columns), 3)
    return {name: columns[name] for name in names}


def write(columns, rng):
    """The frame as pandas, polars or csv write it, with the separator; and whether a last CR may be lost."""
    separator, ending = rng.choice(",;\t"), rng.choice(("\n", "\r\n"))
    style, writer = rng.randrange(3), rng.choice(("pandas", "polars", "csv"))
    if writer == "pandas":
        quoting = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)[style]
        frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})
        return frame.to_csv(index=False, sep=separator, lineterminator=ending, quoting=quoting), separator
    if writer == "polars":
        frame = pl.DataFrame(columns, schema={name: pl.Int64 if name == "a" else pl.String for name in columns})
        quoting = ("necessary", "always", "non_numeric")[style]
        return frame.write_csv(separator=separator, line_terminator=ending, quote_style=quoting), separator
    file = io.StringIO(newline="")
    quoting = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)[style]
    rows = csv.writer(file, delimiter=separator, lineterminator=ending, quoting=quoting)
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
    return file.getvalue(), separator


def cells_of(path, schema):
    """All cells of a file as bytes, row by row."""
    parts = open_table(path, label="y", schema=schema, row_by_row=True).parts()
    rows = []
    for part in parts:
        batches = list(part.record_batches(1000))
        own = [row for batch in batches for row in batch.to_pylist()]
        assert part.count() == len(own)
        rows += own
    return rows


def check_frames(numbers, folder):
    for number in numbers:
        rng = random.Random(number)
        columns = random_frame(rng)
        text, separator = write(columns, rng)
        path = folder / f"{number}.csv"
        path.write_bytes(text.encode())
        schema = Schema({"a": rb.Number(0, 100), "note": rb.Category(("x",))}, "y", ("no", "yes"), separator=separator)
        last = list(columns)[-1]  # a carriage return at its end may have become part of the line end

        def bare(row, last=last):
            return [cell.removesuffix(b"\r") if name == last else cell for name, cell in sorted(row.items())]

        texts = [["" if cell is None else str(cell) for cell in own] for own in columns.values()]
        expected = [bare(dict(zip(columns, map(str.encode, row), strict=True))) for row in zip(*texts, strict=True)]
        assert [bare(row) for row in cells_of(path, schema)] == expected, number
        with (
            mock.patch.object(csv_files, "RANGE_BYTES", rng.choice((1, 5, 20, 60))),
            mock.patch.object(csv_files, "BLOCK_BYTES", rng.choice((1, 7, 50))),
            mock.patch.object(csv_files, "LONGEST_LINE", 1000),
        ):
            assert [bare(row) for row in cells_of(path, schema)] == expected, number
        path.unlink()


def test_frames_are_read_as_they_were_before_they_were_written(tmp_path):
    check_frames(range(300), tmp_path)


@pytest.mark.slow
def test_three_thousand_frames_are_read_as_they_were(tmp_path):
    check_frames(range(3000), tmp_path)


# ---- one record more is one row more

HEADER = b"id,a,note,y\n"
ROWS = [b"%d,0.%d,x,%s\n" % (k % 40, k % 10, (b"no", b"yes")[k % 2]) for k in range(300)]
NOTES = {
    "1 line": b"Seen.",
    "11 lines": b"Seen.\n" * 11,
    "51 lines": b"Seen.\r\n" * 51,
    "201 lines": b"Seen.\n\n" * 201,
    "made-up rows": b"said:\n" + b"".join(b"%d,0.5,x,yes\n" % k for k in range(1000)),
    "made-up rows with quotes": b'said: ""ah""\n' + b'7,0.5,""x"",yes\n' * 1000,
    "a megabyte and more": b"Seen.\n" * 200_000,
    "three ranges": b"Seen.\n" * 20_000,
}


def with_note(note):
    """The table with a record that has this note, and without it."""
    record = b'41,0.5,"' + note + b'",yes\n'
    return HEADER + b"".join([*ROWS[:100], record, *ROWS[100:]]), HEADER + b"".join(ROWS)


def counts(path, person=None):
    """How many rows there are, how many are good, and the sum of their values."""
    table = open_table(path, label="y", features=["a"], person=person, row_by_row=True)
    rows = [
        (value, label)
        for batch in table.batches()
        for value, label in zip(batch.values()[:, 0], batch.labels, strict=True)
    ]
    good = [value for value, label in rows if np.isfinite(value) and label.as_py() in (b"no", b"yes")]
    return len(rows), len(good), sum(good)


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.filterwarnings("ignore:a table is scored privately")
def test_a_record_is_one_row_however_many_lines_it_has(note, packed, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "RANGE_BYTES", 40_000)
    paths = [tmp_path / f"{k}.csv{'.gz' if packed else ''}" for k in range(2)]
    for path, text in zip(paths, with_note(NOTES[note]), strict=True):
        path.write_bytes(gzip.compress(text, 1) if packed else text)
    (rows, good, total), (fewer, fewer_good, less) = map(counts, paths)
    long = note == "a megabyte and more"
    assert (rows - fewer, good - fewer_good, round(total - less, 9)) == (1, 1 - long, 0.5 * (1 - long))
    declared = {"label": "y", "classes": ("no", "yes"), "bounds": {"a": (0, 1)}, "features": ["a"]}
    mechanism = rb.NoisyExamples(1.0)
    made = [flat.craft(path, **declared, mechanism=mechanism, n_rados=2, counts=None).n_examples for path in paths]
    assert made == [301, 300]
    by_person = {**declared, "person": "id", "max_rows": 3}
    people = [flat.craft(path, **by_person, mechanism=mechanism, n_rados=2, counts=None).n_examples for path in paths]
    assert people == [121, 120]  # of a record of more than a megabyte, too: its person is read
    model = rb.Model(np.array([1.0]), (rb.Column("a", "none", step=2.0**-20),), ("no", "yes"), {"name": "by hand"})
    scored = [rb.score(model, path, label="y", epsilon=60.0) for path in paths]
    assert [round((score.errors + score.hits) / 2) for score in scored] == [150, 150]  # give or take the noise, of 0.13
    assert abs(scored[0].errors + scored[0].hits - scored[1].errors - scored[1].hits - (1 - long)) < 2
    checked = flat.check_table(paths[0], **declared)
    assert checked.to_dict().get("records_too_long", 0) == long


def files(folder, note, records=None, person=None):
    """The file without the record that has this note, with it, and with it and another note, as tables of a replay."""
    paths = [folder / f"{k}.csv" for k in range(3)]
    other = with_note(b"Seen.")[0].replace(b"41,0.5", b"41,0.9").replace(b'Seen.",yes', b'Seen.",no')
    for path, text in zip(paths, (*with_note(note)[::-1], other), strict=True):
        path.write_bytes(text)
    options = {} if person is None else {"label": "y", "person": rb.Person(person, 3)}
    schema = rb.Schema(numbers={"a": (0.0, 1.0)}, classes=("no", "yes"), **options)
    asked = CraftRequest(schema, rb.Moments(1.0), choice_key=bytes(32))
    candidates = tuple(Candidate(name, (None,) * k) for k, name in enumerate(("nothing", "the note", "another note")))

    def opened(rows):
        about = {"label": "y", "features": ["a"], "person": person, "marks": CsvDialect(records=records)}
        return open_table(paths[len(rows)], **about, row_by_row=True)

    return Tables(asked, (), candidates, ((0, 1), (0, 2)), opened)


def replayed_moments(tables):
    mechanism = rb.Moments(1.0)
    replays = Replays(
        tables, *_replay_and_reading_of_mechanism(mechanism, tables.asked), more_rows=2**50
    )  # so few persons could be none
    claim = epsilon_claimed_by_draft(mechanism, replays.begun().made)
    return replays, mu_allowed_by_claim(claim, mechanism.delta) ** 2


def replayed_noisy_rados(tables):
    tables = replace(tables, asked=replace(tables.asked, n_rados=5, signatures=AllIn()))
    mechanism, asked = rb.NoisyRados(1.0), tables.asked
    event = mechanism.plan(asked.n_rados, 1, None, asked.max_rows, asked.person or "").event.event
    return Replays(tables, *_replay_and_reading_of_mechanism(mechanism, asked)), asked.n_rados * (
        event.group / event.noise_multiplier
    ) ** 2


def replayed_score(tables):
    model = rb.Model(np.array([1.0]), (rb.Column("a", "none", step=2.0**-20),), ("no", "yes"), {"name": "by hand"})
    scale, event = private_score.plan_private_score(1.0, 1e-6)
    task = private_score.CountOutcomes(model, LabelEncoder("y", model.classes))

    def score(run):
        private_score.noisy_score_counts(run, task, scale, event)

    return Replays(tables, score), mu_allowed_by_claim(epsilon_at(event, 1e-6), 1e-6) ** 2


def audited(replayed, tables):
    """What a replay finds: how far tables with and without the record are apart, in units of what is promised."""
    replays, allowed = replayed(tables)
    replays.allowed = Fraction(allowed)
    replays.along("honest", Honest())
    replays.along(ABSURD[1].name, ABSURD[1])
    assert not replays.faults
    return replays.worst.total.ratio


REPLAYED = [(replayed_moments, None), (replayed_moments, "id"), (replayed_noisy_rados, None),
            (replayed_noisy_rados, "id"), (replayed_score, None)]  # fmt: skip


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize(("replayed", "person"), REPLAYED)
def test_a_note_moves_a_release_by_what_is_promised(replayed, person, note, tmp_path, monkeypatch):
    """By replay, whatever is in the note; where a line is a record, a note of many lines moves it further."""
    monkeypatch.setattr(csv_files, "RANGE_BYTES", 40_000)
    least = 0.3 if person else 0.7  # of three rows that a person may have there is one
    assert least < audited(replayed, files(tmp_path, NOTES[note], person=person)) <= 1
    if note == "made-up rows":
        assert audited(replayed, files(tmp_path, NOTES[note], "lines", person)) > 1


class WithoutNoise(Curator):
    def row_noise(self, scale):
        return _NoRowNoise(bytes(32), scale)


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("person", [None, "id"])
def test_another_note_moves_noisy_examples_by_what_is_promised(person, note, tmp_path):
    """Two records that differ in note, value and class: as many rows, whose sum moves by what the noise is for."""
    mechanism, moved = rb.NoisyExamples(1.0), {}
    for records in (None, "lines"):
        tables = files(tmp_path, NOTES[note], records, person)
        asked = replace(tables.asked, n_rados=1, signatures=AllIn())
        one, other = (
            mechanism.make(asked, WithoutNoise(tables.source(k), get_engine("auto"), ThreadRunner(1), bytes(32)))
            for k in (1, 2)
        )
        moved[records] = math.inf
        if one.counts.n_rows == other.counts.n_rows:
            moved[records] = np.linalg.norm(other.blocks["rados"][0] - one.blocks["rados"][0])
    assert moved[None] <= 2 * mechanism.clip
    assert (moved["lines"] == math.inf) == (b"\n" in NOTES[note])


def test_what_the_holder_and_the_statement_are_told(tmp_path):
    declared = {"label": "y", "classes": ("no", "yes")}
    schema = {"radoboost_schema": 1, "columns": {"a": {"kind": "number", "low": 0, "high": 1}}, **declared}
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,y\n0.5,yes\n"0.5,no\n0.5,yes,no,no\n0.5\n' + b"x" * (1 << 20) + b",yes\n0.1,no\n")
    check = check_table(path, schema=schema)
    assert check.counts.n_rows == 6
    assert {name: check.to_dict()[f"records_{name}"] for name in ("open_quote", "too_long", "too_wide")} == {
        "open_quote": 1, "too_long": 1, "too_wide": 1,
    }  # fmt: skip
    words = "\n".join(check.as_text())
    assert "1 lines begin a quoted cell that nothing closes" in words and "more cells than the header" in words
    mechanism = rb.NoisyRados(1.0)
    whole, lines = (
        " ".join(
            rb.craft(
                path, schema={**schema, **more}, mechanism=mechanism, n_rados=2, counts=None
            ).statement.not_protected
        )
        for more in ({}, {"records": "lines"})
    )
    assert "a record is one row of the table, however many lines it has, in a file that a CSV writer wrote" in whole
    assert "Nothing is promised for other files" in whole and "a record is a line" not in whole
    assert "a record is a line, as was declared" in lines and "CSV writer" not in lines
    assert "Where the number of rows is released, a quote left open, or a last line emptied, changes it" in lines
    assert all("behind the last column that are not empty" in text for text in (whole, lines))
    frame = pd.read_csv(io.StringIO("a,y\n0.5,yes\n0.1,no\n"))
    of_a_frame = rb.craft(frame, schema=schema, mechanism=mechanism, n_rados=2, counts=None).statement
    assert "CSV" not in " ".join(of_a_frame.not_protected)


def test_records_that_are_declared_to_be_lines(tmp_path):
    """Any line in place of another changes that row alone, also one with an open quote beside one that closes it."""
    schema = Schema({"a": rb.Number(0, 1), "b": rb.Number(0, 1)}, "y", ("no", "yes"), records="lines")
    path = tmp_path / "t.csv"
    for odd in (b'"0.5', b'0.5,"', b'","', b'0.5,"0.5\r\n"', b"", b"0.5", b"0.5,0.5,no,no"):
        path.write_bytes(b"a,b,y\n0.25,1,no\n" + odd + b'\n0.5,"0.75",yes\n"')
        rows = cells_of(path, schema)
        assert len(rows) == 4 + (b"\n" in odd)
        assert rows[0] == {"a": b"0.25", "b": b"1", "y": b"no"}
        assert rows[-2] == {"a": b"0.5", "b": b"0.75", "y": b"yes"} and set(rows[-1].values()) == {b""}
    assert Schema.from_dict(schema.to_dict()) == schema and schema.to_dict()["records"] == "lines"
    with pytest.raises(rb.ArgumentError, match='records must be "lines"'):
        Schema({"a": rb.Number(0, 1)}, records="words")


def test_releases_of_lines_and_of_rows_do_not_add_up(tmp_path):
    """A row with a note of a hundred lines is one record of the one, and a hundred of the other."""
    frame = pd.DataFrame({"a": [0.25, 0.5] * 5, "y": ["no", "yes"] * 5})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    rows = Schema({"a": rb.Number(0, 1)}, "y", ("no", "yes"))
    lines = replace(rows, records="lines")
    books = rb.Ledger.create(tmp_path / "books", "t", epsilon=9.0)

    def craft(name, schema, **more):
        kind = rb.NoisyRados(1.0)
        return flat.craft(tmp_path / name, schema=schema, mechanism=kind, n_rados=2, counts=None, **more)

    first = craft("t.csv", lines, ledger=books)
    second = craft("t.csv", lines, ledger=books, compose=[first])
    assert math.isfinite(second.statement.composed["epsilon"])
    for name, schema in (("t.csv", rows), ("t.parquet", lines)):
        with pytest.raises(rb.BudgetError, match="records that are rows do not add up with them"):
            craft(name, schema, ledger=books)
        other = craft(name, schema, compose=[second])
        total = other.statement.composed
        assert total["epsilon"] == "infinite" and "lines of CSV files and about rows do not add up" in total["why"]
        other.save(tmp_path / "other.rado.parquet")
        assert rb.load(tmp_path / "other.rado.parquet").statement == other.statement
    assert len(books.entries()) == 2 and not books.problems()
    mechanism = rb.Moments(1.0)
    for schema, is_finite in ((lines, True), (rows, False)):
        total = privacy_cost_by_schema(mechanism, schema, earlier=earlier_releases([second]))["composed"]
        assert (total["epsilon"] != "infinite") == is_finite


def test_a_header_may_have_line_breaks_too(tmp_path):
    for mark in (b"", b"\xef\xbb\xbf"):
        path = tmp_path / "t.csv"
        path.write_bytes(mark + b'a,"the\nnote",y\r\n1,x,no\r\n2,"y\r\nz",yes')
        with mock.patch.object(csv_files, "RANGE_BYTES", 4):
            table = open_table(path, label="y", features=["a"], row_by_row=True)
            assert [batch.values().tolist() for part in table.parts() for batch in part.batches(9)] == [
                [[1.0]],
                [[2.0]],
            ]


@pytest.mark.parametrize("mark", [b",", b";", b"\t", b"|"])
@pytest.mark.parametrize("rows", [b"", b"\n", b'\n1,a;b|c\t"d",no\n"', b'\r\n1;"\n;;;;",no'])
def test_the_separator_is_that_of_the_whole_header_and_of_no_row(mark, rows, tmp_path):
    """A name with line ends is read by the rule of records, in templates too; where records are lines, not."""
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbf"the\n""note"",;|\t"' + mark + b'"y"' + mark + mark + rows)
    names = ['the\n"note",;|\t', "y"]
    assert list(raw_column_types(path)) == names
    assert open_table(path, label="y", row_by_row=True).features == tuple(names[:1])
    assert (
        csv_separator(path, CsvDialect()) == mark.decode() and csv_separator(path, CsvDialect(records="lines")) == ","
    )
    with pytest.raises(rb.TableError, match="first line") as refusal:
        open_table(path, label="y", row_by_row=True, marks=CsvDialect(mark.decode(), records="lines"))
    assert "\n" not in str(refusal.value)


def test_a_header_with_a_quote_that_no_writer_wrote_ends_with_its_line(tmp_path):
    for row in (b"1;2;no", b'1;2;"no"', b'1;",,,,";no'):
        (tmp_path / "t.csv").write_bytes(b'5" pipe;b;y\n' + row + b'\n"x"\n')
        assert csv_separator(tmp_path / "t.csv", CsvDialect()) == ";"


@pytest.mark.parametrize("more", ["", "0.9,yes,x\n" * 100])
@pytest.mark.parametrize("ending", ["\r", "\r\r\n"])
def test_a_file_whose_lines_end_as_no_writer_ends_them_is_refused_by_its_header(ending, more, tmp_path):
    """As csv.writer writes on Windows where a file was opened without newline="": a note would be a hundred rows."""
    lines = ["a,y,note", *["0.5,no,fine"] * 19, '0.5,yes,"said\n' + more + '"', ""]
    (tmp_path / "t.csv").write_bytes(ending.join(lines).encode())
    with pytest.raises(rb.TableError, match="carriage return") as refusal:
        rb.craft(
            tmp_path / "t.csv",
            label="y",
            classes=("no", "yes"),
            mechanism=rb.NoisyExamples(1.0),
            schema=replace(rb.Schema.of({"a": (0, 1)}), use=("a",)),
        )
    assert "fine" not in str(refusal.value)
    with pytest.raises(rb.TableError, match="carriage return"):
        raw_column_types(tmp_path / "t.csv")


@pytest.mark.parametrize("more", [b"", b'1,no\r"x"'])
def test_a_carriage_return_in_a_name_is_fine_between_quotes_alone(more, tmp_path):
    (tmp_path / "t.csv").write_bytes(b'"a\r\nb","y\rz"\n1,no\n')
    assert csv_files.csv_names(tmp_path / "t.csv", ",") == ["a\r\nb", "y\rz"]
    (tmp_path / "t.csv").write_bytes(b'"a\nb",y\r' + more + b"\r\nsecret,no\r\n")
    with pytest.raises(rb.TableError, match="carriage return") as refusal:
        csv_files.csv_names(tmp_path / "t.csv", ",")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_empty_cells_behind_the_last_column_are_no_reason_to_lose_a_record(ending, tmp_path):
    """Excel writes trailing separators for some blocks of rows and not for others, by what stands in one of them."""
    lines = [b"a,y", *[b"0.5,no"] * 15, *[b'0.5,yes,,""'] * 15, b"0.5,yes,x"]
    (tmp_path / "t.csv").write_bytes(ending.join(lines) + ending)
    check = check_table(tmp_path / "t.csv", label="y", classes=("no", "yes"), schema={"a": (0, 1)})
    assert check.counts.n_rows == 31 and check.to_dict()["records_too_wide"] == 1


def test_where_records_are_lines_the_header_is_one_as_well(tmp_path):
    """No later line may decide whether the first one is a header."""
    schema = {
        "radoboost_schema": 1, "label": "y", "classes": ["no", "yes"], "separator": ",", "records": "lines",
        "columns": {"a": {"kind": "number", "low": 0, "high": 1}},
    }  # fmt: skip
    for rows in (b"no,0.5,1\n", b'no,0.5,1\nyes,0.25,x"\n'):
        (tmp_path / "t.csv").write_bytes(b'y,a,"b\n' + rows)
        with pytest.raises(rb.TableError, match="header"):
            rb.craft(tmp_path / "t.csv", schema=schema, mechanism=rb.NoisyExamples(1.0))


def test_padding_of_the_header_decides_nothing_about_other_rows(tmp_path):
    """A stray cell in one row may pad the header of its block; it has no other columns by that."""
    rows = [b"0.5,no", b"0.5,yes,z", *[b"0.25,yes"] * 4]
    counts = []
    for header in (b"a,y", b"a,y,", b'a,y,"",'):
        (tmp_path / "t.csv").write_bytes(b"\n".join([header, *rows]) + b"\n")
        check = check_table(tmp_path / "t.csv", label="y", classes=("no", "yes"), schema={"a": (0, 1)})
        counts.append((check.counts.n_rows, check.to_dict()["records_too_wide"]))
    assert counts == [(6, 1)] * 3
    assert raw_column_types(tmp_path / "t.csv").keys() == {"a", "y"}
    assert guess_header_separator(b"a;y;dose, mg, oral, x;;") == guess_header_separator(b"a;y;dose, mg, oral, x")
