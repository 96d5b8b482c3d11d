"""Rows of persons: which of them contribute, that no more do, and what is promised of it."""

import json
import math
import pickle
import re
import secrets
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import oracles
import radoboost as rb
from radoboost.holder import contribution_bounding as holder_persons
from radoboost.holder.contribution_bounding import choose_rows_of_persons
from radoboost.holder.curator import Curator
from radoboost.holder.engines import get_engine
from radoboost.holder.mechanisms import record_level
from radoboost.holder.mechanisms.mechanism import StatementFacts
from radoboost.holder.mechanisms.moments.aggregations import GRID, SphereRows
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.table_check import check_table
from radoboost.lab.attacks.mechanism_from_release import mechanism_of_release
from radoboost.lab.audits.audit import lower_rate_bound, upper_rate_bound
from radoboost.lab.audits.canaries import SingleRowSignatures
from radoboost.privacy import (
    Composed,
    Gaussian,
    Relation,
    Repeated,
    SubsampledGaussian,
    convert_relation,
    epsilon_at,
    event_from_dict,
    event_to_dict,
    figures,
    group_words,
    trade_off,
)
from radoboost.release.columns import Column
from radoboost.tables import open_table
from radoboost.tables import person_ids as tables_persons
from radoboost.tables.labels import LabelEncoder, comparable_labels
from radoboost.tables.person_ids import distinct_person_ids
from schema_files import write_schema

KEY = b"which rows of a person, for tests"[:32]
RULE = LabelEncoder("ill", (0, 1))
NAMES = ["age", "dose"]

people = st.sampled_from([None, "", "ann", "bob", "7", "7.0", "eve"])
numbers = st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e300, float("nan"), float("inf")])
rows = st.tuples(people, numbers, numbers, st.sampled_from([0, 1, 2, None]))
tables = st.lists(rows, max_size=24)


def canonical(person):
    return {None: None, "": None, "7.0": b"7"}.get(person, (person or "").encode())


def as_table(table):
    columns = list(zip(*table, strict=True)) if table else [[]] * 4
    kinds = {"who": pa.string(), "age": pa.float64(), "dose": pa.float64(), "ill": pa.int64()}
    return pa.table({name: pa.array(list(c), kind) for (name, kind), c in zip(kinds.items(), columns, strict=True)})


def opened(*pieces):
    """Tables one behind the other, as one source of several parts."""
    sources = [open_table(as_table(piece), label="ill", person="who", row_by_row=True) for piece in pieces]
    return replace(sources[0], pieces=[part for source in sources for part in source.parts()])


def chosen(source, most=2, **options):
    options.setdefault("with_label", True)
    threads = options.pop("threads", 1)
    return choose_rows_of_persons(source, ThreadRunner(threads).run, RULE, most, KEY, **options)[0]


def contents(source):
    """What the rows of a source give; of spoiled rows nothing counts but that they are there."""
    rows = []
    for batch in source.batches():
        labels = RULE.signs_or_zero(batch.labels).tolist()
        rows += [content(row, label) for row, label in zip(batch.values().tolist(), labels, strict=True)]
    return rows


def content(row, label):
    spoiled = label == 0 or not all(map(math.isfinite, row))
    return "spoiled" if spoiled else " ".join(repr(value + 0.0) for value in (*row, label))


def by_oracle(table, most, *, with_label=True):
    signs = [{0: -1, 1: 1}.get(row[3], 0) for row in table]
    who = [canonical(row[0]) for row in table]
    picked = oracles.chosen_rows(who, [row[1:3] for row in table], signs, most, KEY, with_label=with_label)
    return [content(table[number][1:3], signs[number]) for number in picked]


# ---- which rows


@given(tables, st.integers(1, 4), st.booleans(), st.data())
def test_the_rows_of_the_slow_twin_are_chosen_however_the_table_is_cut(table, most, with_label, data):
    """In parts, by one thread or two, in one pass over all persons or several over some."""
    cut = data.draw(st.integers(0, len(table)))
    source = opened(table[:cut], table[cut:])
    wanted = by_oracle(table, most, with_label=with_label)
    for threads, share in ((1, 0.4), (2, 0.4), (1, 1e-8)):  # the last: several passes
        with patch.object(holder_persons, "_MEMORY_SHARE", share):
            view = chosen(source, most, with_label=with_label, threads=threads)
        assert contents(view) == wanted and view.n_rows == len(wanted)
        assert [part.count() for part in view.parts()] == [
            len(contents(replace(view, pieces=[p]))) for p in view.parts()
        ]


def test_the_rows_of_the_slow_twin_are_chosen_of_many(rng):
    """Tables in which every person has more rows than are taken: each is a choice."""
    for _ in range(20):
        values = rng.integers(0, 4, (40, 3)).tolist()
        table = [(str(rng.choice(["ann", "bob", "eve"])), float(a), float(b), c % 2) for a, b, c in values]
        assert contents(chosen(opened(table))) == by_oracle(table, 2)


def test_rows_that_are_alike_do_not_come_first_with_everybody(rng):
    """Of two kinds of rows about half of each is taken, under every key: 1,000 fair choices within six deviations."""
    people, each = 1000, 10
    who = np.repeat([f"p{k}" for k in range(people)], each).tolist()
    table = [(person, 1.0, 1.0, int(ill)) for person, ill in zip(who, rng.integers(0, 2, len(who)), strict=True)]
    for key in (bytes(32), KEY, b"x" * 32):
        source, _ = choose_rows_of_persons(opened(table), ThreadRunner(1).run, RULE, 1, key)
        ill = sum(row.endswith(" 1.0") for row in contents(source))
        assert abs(ill - people / 2) < 6 * np.sqrt(people / 4)


@given(tables, tables, st.integers(1, 3), st.randoms())
def test_a_choice_does_not_depend_on_other_people(table, others, most, random):
    """They come, go and move; of one person the same rows contribute, and never more than `most`."""
    own = [("eve", *row[1:]) for row in table]
    others = [row for row in others if row[0] != "eve"]
    mixed = own + others
    order = sorted(range(len(mixed)), key=lambda _: random.random())
    moved = [mixed[k] for k in order]
    alone, among = chosen(opened(own), most), chosen(opened(moved), most)
    assert alone.n_rows == min(most, len(own))
    rest = sorted(contents(among))
    for row in contents(alone):
        rest.remove(row)
    assert sorted(rest) == sorted(contents(chosen(opened(others), most)))


@given(tables, st.integers(1, 3))
def test_flipped_labels_do_not_change_the_choice_where_labels_are_protected(table, most):
    flipped = [(*row[:3], 1 - row[3] if row[3] in (0, 1) else row[3]) for row in table]
    before, after = (chosen(opened(some), most, with_label=False) for some in (table, flipped))
    assert [part.bits.tobytes() for part in before.parts()] == [part.bits.tobytes() for part in after.parts()]


def test_good_rows_go_first_and_spoiled_ones_do_not_use_up_places():
    table = [("ann", float("nan"), 1.0, 1)] * 5 + [("ann", 1.0, 1.0, 1), ("ann", 2.0, 1.0, 3), ("bob", 1.0, 1.0, None)]
    assert contents(chosen(opened(table), 1)) == ["1.0 1.0 1.0", "spoiled"]
    assert contents(chosen(opened(table), 3)) == ["spoiled", "spoiled", "1.0 1.0 1.0", "spoiled"]


def test_identical_rows_are_counted():
    table = [("ann", 1.0, 1.0, 1)] * 100 + [(None, 1.0, 1.0, 1)] * 7
    view, counts = choose_rows_of_persons(opened(table), ThreadRunner(2).run, RULE, 3, KEY)
    assert view.n_rows == 3 and (counts.people, counts.rows, counts.nobody, counts.beyond) == (1, 107, 7, 97)
    assert counts.as_text() == [
        "3 of 107 rows are taken, at most 3 of each of 1 people",
        "without a person, so they give nothing: 7 rows",
    ]


@pytest.mark.parametrize("layout", ["csv", "gzip", "parquet", "arrow", "mixed"])
def test_rows_of_a_person_are_found_in_all_files(layout, tmp_path, rng):
    """The same rows as in memory, whatever the files are, and with whole numbers, floats or texts for ids."""
    who, age, dose = rng.integers(0, 40, 600), rng.integers(0, 90, 600) * 1.0, rng.random(600).round(3)
    ill = rng.integers(0, 2, 600)
    table = pa.table({"who": who, "age": age, "dose": dose, "ill": ill})
    wanted = contents(chosen(open_table(table, label="ill", person="who", row_by_row=True), 4))
    assert len(wanted) == 160
    kinds = {"csv": "csv", "gzip": "csv.gz", "parquet": "parquet", "arrow": "arrow"}
    paths = []
    for k, start in enumerate(range(0, 600, 150)):
        piece, kind = table.slice(start, 150), [*kinds][k] if layout == "mixed" else layout
        paths.append(tmp_path / f"{k}.{kinds[kind]}")
        if kind == "parquet":
            ids = pa.array([None if n == 1000 else float(n) for n in piece["who"].to_pylist()], pa.float64())
            pq.write_table(piece.set_column(0, "who", ids), paths[-1], row_group_size=64)
        elif kind == "arrow":
            ids = pa.array([f" {n}.0" for n in piece["who"].to_pylist()]).dictionary_encode()
            with pa.ipc.new_file(paths[-1], piece.set_column(0, "who", ids).schema) as writer:
                writer.write_table(piece.set_column(0, "who", ids), max_chunksize=50)
        else:
            with pa.output_stream(paths[-1], compression="gzip" if kind == "gzip" else None) as stream:
                pa.csv.write_csv(piece, stream)
    source = open_table(paths, label="ill", person="who", row_by_row=True)
    for view in (chosen(source, 4, threads=2), chosen(pickle.loads(pickle.dumps(source)), 4)):
        assert contents(view) == wanted
        parts = [pickle.loads(pickle.dumps(part)) for part in view.parts()]
        assert contents(replace(view, pieces=parts)) == wanted


def test_a_file_that_grows_during_a_pass_is_refused_in_one_line(tmp_path):
    """Also where it does once the pass looked whether it changed: there were no places for its new rows."""
    place, rows = tmp_path / "t.csv", "".join(f"{k},0.5,{k % 2}\n" for k in range(500))
    for begins in ("choosing rows of persons", "second moments"):
        place.write_text(f"who,a,y\n{rows}")
        before = place.stat().st_size

        def grow(task, done, total, begins=begins, before=before):
            if task == begins and place.stat().st_size == before:
                with place.open("a") as file:
                    file.write(rows)

        mechanism = rb.Moments(1.0, sharpen=False)
        options = {"label": "y", "classes": (0, 1), "bounds": {"a": (0, 1)}, "person": "who", "max_rows": 1}
        with pytest.raises(rb.TableError, match="while it was read; try again once it is at rest"):
            flat.craft(place, **options, mechanism=mechanism, counts=None, progress=grow)


@pytest.mark.parametrize("form", ["float64", "float32", "object"])
def test_a_float_that_may_stand_for_several_ids_is_nobody_in_a_frame_of_pandas(form):
    """200 whole numbers from 2**60 on and one gap are a column of floats: they were three persons, not none."""
    pd = pytest.importorskip("pandas")
    ids = pd.Series([2.0**60, 2.0**60 + 256, 2.0**53, 2.0**53 - 1, 7.0, np.nan]).astype(form)
    frame = pd.DataFrame({"who": ids, "age": 0.5, "ill": 0})
    batch = next(open_table(frame, label="ill", person="who", row_by_row=True).batches())
    assert distinct_person_ids(batch.persons)[0] == ([b"7"] if form == "float32" else [b"9007199254740991", b"7"])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.dictionary(pa.int32(), pa.float64()), "pandas"])
def test_a_frame_whose_persons_are_floats_is_refused(kind, tmp_path):
    """One row without an id, or one id "12e4", made all others nobody."""
    pd = pytest.importorskip("pandas")
    place, options = tmp_path / "t.csv", {**DECLARED, "person": "who", "max_rows": 1}
    del options["n_rados"]
    ids = [10**17 + k for k in range(200)]
    place.write_text("who,age,dose,ill\n" + "".join(f"{k},50,0.5,{k % 2}\n" for k in ids) + ",50,0.5,1\n")
    frame = pd.read_csv(place)
    if kind != "pandas":
        ids = pa.array(frame.pop("who"))
        ids = ids.cast(kind) if pa.types.is_floating(kind) else ids.dictionary_encode()
        frame = pa.Table.from_pandas(frame).append_column("who", ids)
    ledger = rb.Ledger.create(tmp_path / "l", "t", epsilon=40.0, relation="person")
    spend = {"mechanism": rb.Moments(9.0), "ledger": ledger, "counts": None}
    for use in (partial(flat.craft, **spend), flat.check_table):
        with pytest.raises(
            rb.ArgumentError, match=r"persons in 'who' are floats: .* \(dtype=\{'who': 'string'\}\), or pass"
        ):
            use(frame, **options)
    assert not ledger.entries()
    for table in (place, pd.read_csv(place, dtype={"who": "string"})):
        assert flat.check_table(table, **options).counts.persons.people == 200


WAYS = {
    "beside columns of one name": lambda pd, pl, d: d.assign(n=1, m=2).rename(columns={"m": "n"}),
    "beside complex numbers": lambda pd, pl, d: d.assign(z=1j),
    "sparse": lambda pd, pl, d: d.assign(who=d.who.astype(pd.SparseDtype(d.who.dtype))),
    "categories": lambda pd, pl, d: d.assign(who=d.who.astype("category")),
    "in pieces": lambda pd, pl, d: d.assign(who=[float(who) if k < 3 else str(who) for k, who in enumerate(d.who)]),
    "categories in pieces": lambda pd, pl, d: d.assign(who=[*map(float, d.who[1:]), "n/k"]).astype({"who": "category"}),
    "complex": lambda pd, pl, d: d.assign(who=d.who * 1j),
    "polars, in pieces": lambda pd, pl, d: pl.DataFrame(
        {name: pl.Series(d[name].tolist(), dtype=pl.Object if name == "who" else None) for name in d}
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_the_type_of_persons_alone_refuses_a_frame(way):
    """Also of a type that Arrow has not, and whatever other columns are; one that was read in pieces has objects."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    options = {**DECLARED, "person": "who", "max_rows": 1}
    del options["n_rados"]
    frame = pd.DataFrame({"who": [10.0**17 + k for k in range(9)], "age": 50.0, "dose": 0.5, "ill": [0, 1, 0] * 3})
    with pytest.raises(rb.ArgumentError, match=r"persons in 'who' are (floats|Python objects): "):
        flat.check_table(WAYS[way](pd, pl, frame), **options)


def test_frames_and_arrays_have_the_same_persons(rng):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    who, values, ill = rng.integers(0, 9, 90), rng.random((90, 2)), rng.integers(0, 2, 90)
    columns = {"who": who, "age": values[:, 0], "dose": values[:, 1], "ill": ill}
    wanted = contents(chosen(open_table(pa.table(columns), label="ill", person="who", row_by_row=True)))
    missing = np.where(who == 8, np.nan, who)  # of one person: the others' ids become floats
    texts = ["n/k" if n == 8 else str(n) for n in who]
    for ids in (who, missing, texts, np.array(texts, object), pd.Categorical(texts)):
        frame = pd.DataFrame({**columns, "who": ids})
        got = contents(chosen(open_table(frame, label="ill", person="who", row_by_row=True)))
        eight = set(contents(open_table(frame[who == 8], label="ill", person="who", row_by_row=True)))
        assert [row for row in got if row not in eight] == [row for row in wanted if row not in eight]
    assert contents(chosen(open_table(pl.DataFrame(columns), label="ill", person="who", row_by_row=True))) == wanted
    array = np.column_stack([who, values, ill])
    assert contents(chosen(open_table(array, label="x3", person="x0", row_by_row=True))) == wanted
    part = pickle.loads(pickle.dumps(open_table(array, label="x3", person="x0", row_by_row=True).parts()[0]))
    assert next(part.batches(100)).persons.to_pylist() == who.tolist()


@pytest.mark.parametrize(
    ("column", "ids"),
    [
        (pa.array([1, None, 2**63 - 1]), [b"1", None, b"9223372036854775807"]),
        (pa.array([1.0, float("nan"), 2.5]), [b"1", None, b"2.5"]),
        (pa.array([b"\xff\xfe", b" x ", b""]), [b"\xff\xfe", b"x", None]),
        (
            pa.array(["12345678901234567890", "012345678901234567890", "1e400"]),
            [b"12345678901234567890"] * 2 + [b"1e400"],
        ),
        (pa.array(["True", "-0", "+7"]), [b"true", b"0", b"7"]),
        (pa.array([[1], [2], None]), [None] * 3),
        (pa.array([1, 2, 3], pa.timestamp("ns")), [None] * 3),
        (pa.array(["a", "b", "a"], pa.string_view()), [b"a", b"b", b"a"]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 7, 0]), pa.array(["a"]), safe=False), [b"a", None, b"a"]),
        (
            pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["a", "7.0"], pa.string_view())),
            [b"a", b"7", b"7"],
        ),
        (
            pa.RunEndEncodedArray.from_arrays(
                pa.array([1, 3], pa.int32()), pa.array([7.0, 2.0**53]).dictionary_encode()
            ),
            [b"7", None, None],
        ),
        (pa.array(["0.00000000015", "1"]).cast(pa.decimal256(60, 40)), [b"0.00000000015", b"1"]),
        (
            pa.array(["9007199254740993.00", "9007199254740992"]).cast(pa.decimal128(18, 2)),
            [b"9007199254740993", b"9007199254740992"],
        ),
        (pa.array(["100000e2", "10000000", "0e123456"]), [b"100000e2", b"10000000", b"0e123456"]),
        (pa.array([2.0**53 - 1, 2.0**53, -(2.0**60)]), [b"9007199254740991", None, None]),
        (pa.array([2.0**24 - 1, 2.0**24, 5.0], pa.float32()), [b"16777215", None, b"5"]),
    ],
)
def test_ids_have_one_spelling_and_none_is_refused(column, ids):
    spelled, places = distinct_person_ids(column)
    assert [spelled[place] if place >= 0 else None for place in places] == ids


def test_a_batch_that_cannot_be_read_as_a_whole_is_read_one_by_one(monkeypatch):
    column = pa.array([b"7.0", None, b" ann", b"7", b"a\xff"])
    ids, places = distinct_person_ids(column)

    def fails_together(labels):
        if len(labels) > 1:
            raise pa.ArrowInvalid("on account of a value")
        return comparable_labels(labels)

    monkeypatch.setattr(tables_persons, "comparable_labels", fails_together)
    one_by_one, own_places = distinct_person_ids(column)
    for some, of in ((ids, places), (one_by_one, own_places)):
        assert [some[place] if place >= 0 else None for place in of] == [b"7", None, b"ann", b"7", b"a\xff"]


SPELLINGS = ["7", "007", "+7", "7.0", " 7", "8", "8.5", "true", "False", "inf", "nan", "", "-0", "0", "1000"]
ODDITIES = ["ann", "n/k", "", "9.5", "x" * 3000, "é", "inf", "nan", "12345678901234567890", "1e400", "2024-01-01"]


@pytest.mark.parametrize("form", ["csv", "pandas", "polars"])
def test_no_id_changes_whose_row_another_is(form, tmp_path):
    """Whatever type the ids of a file get from one odd id among them."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    random = np.random.default_rng(5)
    path = tmp_path / "visits.csv"

    def taken(lines):
        path.write_text("\n".join(["who,age,ill", *lines]) + "\n")
        table = {"csv": lambda path: path, "pandas": pd.read_csv, "polars": pl.read_csv}[form](path)
        return contents(chosen(open_table(table, label="ill", person="who", row_by_row=True)))

    for _ in range(30):
        some = random.choice(SPELLINGS, 3)  # so few that the column often has one type
        lines = [f"{who},{age},{age % 2}" for age, who in enumerate(random.choice(some, 12))]
        odd, place = f"{random.choice(ODDITIES)},99,1", int(random.integers(0, 13))
        after = taken([*lines[:place], odd, *lines[place:]])
        assert [row for row in after if row != "99.0 1.0"] == taken(lines), (lines, odd)


# ---- sound by neighbours


@given(tables, tables, st.integers(1, 4))
def test_one_person_moves_counts_and_moments_by_their_rows_at_most(table, others, most):
    """Of a person with any rows, spoiled or not: M4 and M10, times `most` (P4)."""
    own = [("eve", *row[1:]) for row in table]
    others = [row for row in others if row[0] != "eve"]
    columns = tuple(Column(name, "bounds", 1.0, 0.0, 10.0) for name in NAMES)
    task = SphereRows(get_engine("reference"), RULE, columns, True)
    sums = [ThreadRunner(1).run(task, chosen(opened(some), most)) for some in (others + own, others)]
    products, vectors = (sums[0].products - sums[1].products, sums[0].vector - sums[1].vector)
    counts = [np.array([one.counts.n_rows - one.counts.spoiled, one.counts.spoiled]) for one in sums]
    assert np.linalg.norm(products.astype(float)) <= most * GRID**2
    assert np.linalg.norm(vectors.astype(float)) <= most * GRID
    assert np.linalg.norm(counts[0] - counts[1]) <= most


ODD = [b"\xff\xfe", b'"', b"9" * 3000 + b"x", b"a,b"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("mechanism", [rb.Moments(20.0), rb.Moments(20.0, unit="label"), rb.NoisyRados(20.0)])
def test_no_id_decides_whether_a_release_comes_out(odd, mechanism, tmp_path):
    lines = [b"who,age,dose,ill"] + [b"%d,%d,%d,%d" % (k % 50, k % 90, k % 7, k % 2) for k in range(400)]
    path, outcomes = tmp_path / "visits.csv", []
    for extra in ([], [odd + b",1,1,1"]):
        path.write_bytes(b"\n".join(lines[:200] + extra + lines[200:]) + b"\n")
        release = rb.craft(
            path,
            label="ill",
            classes=(0, 1),
            mechanism=mechanism,
            n_rados=20,
            schema=replace(rb.Schema.of({"age": (0, 90), "dose": (0, 7)}), person=rb.Person("who", 2)),
        )
        outcomes.append((release.rados.shape, release.statement, release.columns[0].name, release.signatures))
    assert outcomes[0] == outcomes[1]


def test_noise_is_for_all_rows_of_a_person():
    one, five = (NoiseShape(4, max_rows=k, person="who") for k in (1, 5))
    scales = [rb.Moments(1.0).scales(8, shape) for shape in (one, five)]
    assert all(math.isclose(scales[1][name], 5 * scales[0][name], rel_tol=1e-12) for name in scales[0])
    stds = [rb.NoisyExamples(1.0).plan(10, 3, 100, k, "who").noise_std for k in (1, 5)]
    assert math.isclose(stds[1], math.sqrt(5) * stds[0], rel_tol=1e-6)
    few, many = (rb.NoisyRados(1.0).plan(100, 3, None, k, "who").noise_std for k in (1, 5))
    assert few < many < 5 * few


# ---- what is promised


CASES = {
    "moments": (rb.Moments(2.0), Relation.PERSON),
    "moments, labels": (rb.Moments(2.0, unit="label"), Relation.PERSON_LABELS),
    "noisy-rados": (rb.NoisyRados(2.0), Relation.PERSON),
    "noisy-examples": (rb.NoisyExamples(2.0), Relation.PERSON_ROWS),
}


def visits(n_people=3000, seed=0):
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(n_people), rng.integers(1, 9, n_people)))
    age = rng.uniform(0, 90, len(who))
    return pa.table({"who": who, "age": age, "dose": rng.random(len(who)), "ill": (age > 50).astype(int)})


DECLARED = {"label": "ill", "classes": (0, 1), "bounds": {"age": (0, 90), "dose": (0, 1)}, "n_rados": 50}


@pytest.mark.parametrize("name", CASES)
def test_statements_are_about_persons(name, tmp_path):
    mechanism, relation = CASES[name]
    table = visits()
    release = flat.craft(table, **DECLARED, mechanism=mechanism, person="who", max_rows=3)
    statement = release.statement
    assert statement.neighbours == relation.value and 1.99 < statement.epsilon <= 2.0
    assert (
        "column 'who', whole numbers being one value in any spelling; at most 3 of its rows contribute"
        in statement.unit_of_privacy
    )
    assert "any one person" in statement.promises[0]
    assert not any("A person with several rows" in line for line in statement.not_protected)
    assert any("several values of 'who'" in line for line in statement.not_protected)
    event = event_from_dict(statement.event)
    assert event.relation == relation and epsilon_at(event, 1e-6) == statement.epsilon
    assert '"person": "who"' in json.dumps(statement.event)
    assert release.mechanism["person"] == "who" and release.mechanism["max_rows"] == 3
    taken = int(np.minimum(np.bincount(table["who"].to_numpy()), 3).sum())
    assert release.n_examples == (None if relation is Relation.PERSON else taken)
    release.save(tmp_path / "v.rado.parquet")
    assert rb.load(tmp_path / "v.rado.parquet").statement == statement
    with pytest.raises(rb.ReleaseError, match="about persons, by 'who'"):
        mechanism_of_release(release)


@pytest.mark.parametrize("name", CASES)
def test_engines_and_threads_give_the_same_bits(name):
    """With keys that are given; each run has its own."""
    mechanism, _ = CASES[name]
    schema = replace(rb.Schema.of(DECLARED["bounds"]), person=rb.Person("who", 3))
    asked = CraftRequest.of(schema, mechanism, label="ill", classes=(0, 1), n_rados=20, seed=1, choice_key=KEY)
    source = open_table(visits(), label="ill", features=NAMES, person="who", row_by_row=True)
    made = [
        mechanism.make(asked, Curator(source, get_engine(engine), ThreadRunner(threads), bytes(32))).blocks
        for engine, threads in (("reference", 1), ("kernel", 1), ("kernel", 2))
    ]
    drawn = {"rados"} if mechanism.law == "noisy moments" else set()  # from what was released, afresh
    for other in made[1:]:
        assert all((made[0][block] == other[block]).all() for block in set(other) - drawn)


def test_bounds_are_found_among_the_rows_that_are_taken():
    """One person with ten thousand rows far out does not move what is found: only three of them are there."""
    table = visits()
    far = pa.table({"who": [-1] * 10_000, "age": [1e6] * 10_000, "dose": [0.5] * 10_000, "ill": [1] * 10_000})
    options = {**DECLARED, "bounds": "private", "mechanism": rb.Moments(4.0), "person": "who", "max_rows": 3}
    release = flat.craft(pa.concat_tables([table, far]), columns="linear", **options)
    assert release.statement.neighbours == Relation.PERSON.value and release.statement.epsilon <= 4.0
    assert [column.name for column in release.columns] == ["age", "dose", "(constant)"]
    assert release.columns[0].high < 200


def test_releases_about_persons_add_up_with_such_alone():
    table = visits()
    first = flat.craft(table, **DECLARED, mechanism=rb.Moments(1.0), person="who", max_rows=3)
    same = flat.craft(table, **DECLARED, mechanism=rb.Moments(1.0), person="who", max_rows=1, compose=[first])
    assert same.statement.composed["epsilon"] == pytest.approx(1.4547, abs=2e-3)
    record = flat.craft(table, **DECLARED, mechanism=rb.Moments(1.0), compose=[first])
    assert record.statement.composed["epsilon"] == "infinite"
    assert "'one person added or removed' does not give" in record.statement.composed["why"]
    renamed = table.rename_columns(["household", "age", "dose", "ill"])
    other = flat.craft(renamed, **DECLARED, mechanism=rb.Moments(1.0), person="household", max_rows=3, compose=[first])
    assert other.statement.composed["epsilon"] == "infinite" and "different columns" in other.statement.composed["why"]


def test_a_ledger_of_persons(tmp_path):
    table = visits()
    books = rb.Ledger.create(tmp_path / "l", "visits", epsilon=3.0, relation="person")
    persons = {"mechanism": rb.Moments(1.0), "person": "who", "max_rows": 3, "ledger": books}
    release = flat.craft(table, **DECLARED, **persons)
    assert release.statement.neighbours == books.total.relation.value and len(books.entries()) == 2
    spent = Gaussian(1 / math.sqrt(books.spent().mu_squared), Relation.PERSON)
    assert epsilon_at(spent, 1e-6) == pytest.approx(1, abs=1e-4)
    with pytest.raises(rb.ArgumentError, match="one person added or removed"):
        flat.craft(table, **DECLARED, mechanism=rb.Moments(1.0), ledger=books)
    renamed = table.rename_columns(["household", "age", "dose", "ill"])
    with pytest.raises(rb.BudgetError, match="about persons by 'who'"):
        flat.craft(renamed, **DECLARED, **{**persons, "person": "household"})
    with pytest.raises(rb.BudgetError, match="about persons by 'who'"):
        books.book(Gaussian(9.0, Relation.PERSON, person="household"))
    assert len(books.entries()) == 2


def test_events_about_persons():
    gaussian = Gaussian(4.0, Relation.PERSON, person="who")
    assert epsilon_at(gaussian, 1e-6) == epsilon_at(Gaussian(4.0, Relation.RECORD), 1e-6)
    assert convert_relation(gaussian, Relation.PERSON_ROWS).noise_multiplier == 2.0
    assert (
        convert_relation(convert_relation(gaussian, Relation.PERSON_ROWS), Relation.PERSON_LABELS).noise_multiplier
        == 2.0
    )
    sums = Repeated(SubsampledGaussian(40.0, 0.5, relation=Relation.PERSON, group=4, person="who"), 50)
    plain = Repeated(SubsampledGaussian(40.0, 0.5, group=4), 50)
    for relation, other in ((Relation.PERSON, Relation.RECORD), (Relation.PERSON_ROWS, Relation.EDGE)):
        assert epsilon_at(convert_relation(sums, relation), 1e-6) == epsilon_at(convert_relation(plain, other), 1e-6)
    assert event_from_dict(event_to_dict(sums)) == sums
    assert "person" not in event_to_dict(plain)["event"]
    for event, relation in ((gaussian, Relation.RECORD), (Gaussian(4.0, Relation.RECORD), Relation.PERSON)):
        with pytest.raises(rb.ArgumentError, match="does not give protection"):
            convert_relation(event, relation)
    two = Composed((gaussian, Gaussian(4.0, Relation.PERSON, person="household")))
    assert epsilon_at(two, 1e-6) == math.inf
    with pytest.raises(rb.ArgumentError, match="under a relation about persons"):
        Gaussian(4.0, Relation.RECORD, person="who")
    assert group_words(Relation.PERSON, 5) == "5 persons, all added or all removed"


# ---- what is refused, and what stops early


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"person": "who", "max_rows": 0}, "whole number"),
        ({"person": 3, "max_rows": 1}, "must name the column"),
        ({"person": "nobody", "max_rows": 1}, "nobody"),
        ({"person": "age", "max_rows": 1}, "age"),
        ({"person": "ill", "max_rows": 1}, "label"),
        ({"person": "who", "max_rows": 1001, "mechanism": rb.NoisyRados(1.0)}, "1,000"),
        ({"person": "who", "max_rows": 50, "rows": 100}, "spent"),
    ],
)
def test_what_makes_no_sense_is_refused(options, word):
    with pytest.raises(rb.RadoError, match=word):
        flat.craft(visits(20), **DECLARED, **{"mechanism": rb.Moments(1.0), **options})


def test_a_column_without_ids_stops_before_the_budget_is_spent():
    """By noisy counts where who is in the table is protected; else by exact ones; noisy rados come out as noise."""
    table = visits(2000).set_column(0, "who", pa.nulls(visits(2000).num_rows, pa.string()))
    booked = []

    class Booking(Curator):
        def book(self, event):
            booked.append(event)
            super().book(event)

    schema = replace(rb.Schema.of(DECLARED["bounds"]), person=rb.Person("who", 2))
    asked = CraftRequest.of(schema, rb.Moments(1.0), label="ill", classes=(0, 1), n_rados=5)
    source = open_table(table, label="ill", features=NAMES, person="who", row_by_row=True)
    with pytest.raises(rb.TableError, match="rows have a person in 'who', by counts with noise"):
        rb.Moments(1.0).make(asked, Booking(source, get_engine("auto"), ThreadRunner(1)))
    assert len(booked) == 1 and isinstance(booked[0], Gaussian) and booked[0].person == "who"
    for mechanism in (rb.Moments(1.0, unit="label"), rb.NoisyExamples(1.0)):
        with pytest.raises(rb.TableError, match="person in 'who'"):
            flat.craft(table, **DECLARED, mechanism=mechanism, person="who", max_rows=2)
    assert flat.craft(table, **DECLARED, mechanism=rb.NoisyRados(1.0), person="who", max_rows=2).n_rados == 50


def test_the_key_of_the_choice_is_fresh_and_kept_nowhere(monkeypatch):
    keys = []
    honest = record_level.choose_rows_of_persons
    monkeypatch.setattr(record_level, "choose_rows_of_persons", lambda *a, **o: keys.append(a[4]) or honest(*a, **o))
    drawn = []
    system = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda size: drawn.append(system(size)) or drawn[-1])
    releases = [flat.craft(visits(), **DECLARED, mechanism=rb.Moments(4.0), person="who", max_rows=2) for _ in range(2)]
    assert keys[0] != keys[1] and all(key in drawn and len(key) == 32 for key in keys)
    assert not any(key.hex() in json.dumps(r.to_dict()) for key in keys for r in releases)


# ---- on the command line


def test_the_command(rado, tmp_path):
    table = visits()
    half = table.num_rows // 2
    pa.csv.write_csv(table.slice(0, half), tmp_path / "1.csv")
    pa.csv.write_csv(table.slice(half), tmp_path / "2.csv")
    schema = write_schema(tmp_path / "schema.json", {"age": (0, 90), "dose": (0, 1)})
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    common = ["--label", "ill", "--classes", "0,1", "--schema", schema]
    code, _, err = rado("craft", *files, *common, "--epsilon", 1, "--person", "who")
    assert code == 1 and "--person who:K" in err and len(err.splitlines()) == 1
    counts = tmp_path / "counts.json"
    code, out, err = rado(
        "craft", *files, *common, "--epsilon", 1, "--person", "who:2", "--counts", counts, "--json"
    )  # fmt: skip
    assert code == 0, err
    shown = json.loads(out)
    assert shown["statement"]["neighbours"] == "one person added or removed"
    taken = int(np.minimum(np.bincount(table["who"].to_numpy()), 2).sum())
    told = json.loads(counts.read_text())
    assert told["persons"] == {
        "all_rows": table.num_rows, "people": 3000, "without_a_person": 0,
        "beyond_max_rows": table.num_rows - taken, "max_rows": 2,
    }  # fmt: skip
    assert not re.search(rf"(?<![\d.]){table.num_rows - taken}(?![\d.])", out + err)
    code, out, _ = rado("check", *files, *common, "--person", "who:2")
    assert code == 0 and f"{taken:,} of {table.num_rows:,} rows are taken, at most 2 of each of 3,000 people" in out
    code, out, _ = rado("show", "1.rado.parquet")
    assert code == 0 and "one value of the column 'who', whole numbers being" in " ".join(out.split())


def test_the_check_counts_rows_of_persons():
    table = as_table([("ann", 1.0, 1.0, 1)] * 3 + [("bob", float("nan"), 1.0, 1), (None, 1.0, 1.0, 0)])
    options, bounds = {"label": "ill", "classes": (0, 1)}, rb.Schema.of({"age": (0, 9), "dose": (0, 9)})
    check = check_table(table, schema=replace(bounds, person=rb.Person("who", 2)), **options)
    assert check.as_text()[:3] == [
        "3 of 5 rows are taken, at most 2 of each of 2 people",
        "without a person, so they give nothing: 1 rows",
        "2 of 3 rows contribute (66.7 %)",
    ]
    assert "persons" not in check_table(table, schema=bounds, **options).to_dict()


# ---- attacked


def contradicted(event, present, absent):
    """Whether an attack, whose scores are above 0 where a person seems to be there, does better than an event allows.

    Each of the two rates is bounded at a risk of 5e-7.
    """
    runs = len(present)
    alarms = upper_rate_bound(int((absent > 0).sum()), runs, 5e-7)
    hits = lower_rate_bound(int((present > 0).sum()), runs, 5e-7)
    return bool(trade_off(event, [alarms])[0] > 1 - hits)


def rados_of_canaries(mechanism, table, n_rados, signatures=None):
    limits = {name: (-1.0, 1.0) for name in NAMES}
    asked = CraftRequest.of(
        replace(rb.Schema.of(limits), person=rb.Person("who", 4)), replace(mechanism, intercept=False), label="ill",
        classes=(0, 1), n_rados=n_rados, signatures=signatures,
    )  # fmt: skip
    source = open_table(table, label="ill", features=NAMES, person="who", row_by_row=True)
    return mechanism.make(asked, Curator(source, get_engine("auto"), ThreadRunner(1))).blocks["rados"]


@pytest.mark.slow
def test_noisy_rados_hide_a_person_with_forty_rows():
    """And the noise for one row, whose claim is about a record, does not: four rows show."""
    runs, n_rados, mechanism = 1500, 20, rb.NoisyRados(4.0)
    tables = [as_table([("eve", 1.0, 0.9, 1)] * 40), as_table([])]
    for noise_for, holds in ((4, True), (1, False)):
        plan = mechanism.plan(n_rados, 2, None, noise_for, "who")
        many = replace(mechanism, epsilon=None, noise_std=plan.noise_std)
        direction = np.array([1.0, 0.9]) / math.hypot(1.0, 0.9)  # clipped to length 1
        scores = []
        for table in tables:
            along = rados_of_canaries(many, table, runs * n_rados) @ direction
            gains = [math.log(math.comb(4, j) / 16) + (j * along - j * j / 2) / plan.noise_std**2 for j in range(5)]
            scores.append(np.logaddexp.reduce(gains, axis=0).reshape(runs, n_rados).sum(axis=1))
        assert contradicted(plan.event, *scores) != holds


def test_noisy_examples_hide_what_forty_rows_of_a_person_hold():
    """Many people at once: every row has noise of its own, so that each of them is a run."""
    persons, mechanism = 1500, rb.NoisyExamples(4.0)
    for noise_for, holds in ((4, True), (1, False)):
        plan = mechanism.plan(1, 2, 4 * persons, noise_for, "who")
        many = replace(mechanism, epsilon=None, noise_std=plan.noise_std)
        direction = np.array([1.0, 0.9]) / math.hypot(1.0, 0.9)
        scores = []
        for label in (1, 0):
            table = as_table([(f"{k}", 1.0, 0.9, label) for k in range(persons) for _ in range(40)])
            rows = rados_of_canaries(many, table, 4 * persons, signatures=SingleRowSignatures())
            scores.append((rows @ direction).reshape(persons, 4).sum(axis=1))
        assert contradicted(plan.event, *scores) != holds


def test_where_memory_is_short_there_are_more_passes_and_the_same_rows(monkeypatch, rng):
    n_rows = 60_000
    who, ill = rng.integers(0, 20_000, n_rows), rng.integers(0, 2, n_rows)
    table = pa.table({"who": who, "age": rng.random(n_rows), "ill": ill})
    source = open_table(table, label="ill", person="who", row_by_row=True)
    at_once = chosen(source, 3)
    passes = []
    monkeypatch.setattr(holder_persons.memory, "available_memory", lambda: 40 * n_rows)

    def run(task, source):
        passes.append(task.share)
        return ThreadRunner(1).run(task, source)

    short, counts = choose_rows_of_persons(source, run, RULE, 3, KEY)
    assert passes == list(range(10))
    assert counts.as_text()[-1] == "memory was short, so the table was read 10 times to choose them"
    assert [part.bits.tobytes() for part in short.parts()] == [part.bits.tobytes() for part in at_once.parts()]


def test_statements_of_all_private_mechanisms_take_persons():
    for mechanism in (rb.Moments(1.0), rb.NoisyRados(1.0), rb.NoisyExamples(1.0)):
        one = StatementFacts("bounds", False, 10, 3, 100, person="who", max_rows=1)
        assert "at most one of its rows contributes" in mechanism.statement(one).unit_of_privacy


def test_a_group_beyond_what_is_accounted_for_has_no_figure_and_stops_nothing(tmp_path):
    """The release is written, and spent: showing it must not fail."""
    event = Repeated(SubsampledGaussian(100.0, 0.5, group=101, relation=Relation.PERSON, person="who"), 5)
    assert [figure["size"] for figure in figures(event, 1e-6)["groups"]] == [2, 5]


def test_a_ledger_is_about_persons_by_one_column(tmp_path):
    ledger = rb.Ledger.create(tmp_path / "books", "visits", epsilon=3.0, relation="person")
    ledger.book(Gaussian(20.0, Relation.PERSON, person="patient"))
    ledger.book(Gaussian(20.0, Relation.PERSON, person="patient"))
    for other in ("household", ""):
        with pytest.raises(rb.BudgetError, match="do not add up"):
            ledger.book(Gaussian(20.0, Relation.PERSON, person=other))
    assert len(ledger.entries()) == 2
