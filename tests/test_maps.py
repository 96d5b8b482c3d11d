"""Feature maps: their bits are those of the page, no row moves another, and what is not known is refused."""

import copy
import json
import math
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from radoboost.errors import ReleaseError, TableError
from radoboost.holder.feature_maps import map_table
from radoboost.release import feature_map_jit
from radoboost.release.feature_map import FeatureMap, Input, Term
from radoboost.tables import open_table

NAMES = ("age", "dose", "ward=B")
numbers = st.one_of(
    st.floats(-9, 9, width=32), st.sampled_from([0.0, -0.0, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan])
)
small = st.floats(-3, 3, width=32)
usual = st.sampled_from([2.0**-4, 0.3, 1.0, 7.5])


@st.composite
def inputs(draw, name, above_zero):
    low = draw(st.none() | small)
    levels = draw(st.just(()) | st.lists(small, min_size=2, max_size=9).map(lambda some: tuple(sorted(some))))
    return Input(
        name,
        shift=draw(small),
        divisor=draw(above_zero),
        low=low,
        high=draw(st.none() | st.floats(0.0 if low is None else low, 9.0, width=32)),
        limit=1.0 if levels else draw(st.none() | above_zero),
        log=draw(st.booleans()),
        factor=draw(above_zero),
        offset=draw(small),
        levels=levels,
    )


@st.composite
def maps(draw, extreme=False):
    """With factors next to nothing and large weights too, where only the same code of another engine can follow."""
    above_zero = usual | st.just(1e-300) if extreme else usual
    entries = tuple(draw(inputs(name, above_zero)) for name in NAMES)
    labels = st.sampled_from([entry.label for entry in entries])
    several = st.lists(st.tuples(labels, st.integers(1, 9)), min_size=1, max_size=4)
    term = st.one_of(
        st.builds(Term, st.just("linear"), st.tuples(labels)),
        st.builds(Term, st.just("product"), st.tuples(labels, labels)),
        st.builds(
            lambda some, factor: Term("legendre", *(tuple(part) for part in zip(*some, strict=True)), factor),
            several,
            small,
        ),
    )
    terms = draw(st.lists(term, min_size=1, max_size=9))
    return FeatureMap(entries, tuple({other.name: other for other in terms}.values()))


rows = st.lists(st.tuples(*[numbers] * len(NAMES)), min_size=1, max_size=20)


def same_bits(ours, theirs):
    """NaN is NaN, whatever its bits; everything else is equal to the last bit."""
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    good = ~np.isnan(ours)
    np.testing.assert_array_equal(ours[good].view(np.int64), theirs[good].view(np.int64))


@settings(max_examples=80)
@given(maps(), rows)
def test_the_bits_are_those_of_the_page(feature_map, table):
    values = np.array(table)
    document = json.loads(json.dumps(feature_map.to_dict()))
    expected = [oracles.mapped_row(dict(zip(NAMES, row, strict=True)), document) for row in table]
    result = feature_map.apply(values)
    assert result.dtype == np.float64 and result.flags.c_contiguous
    same_bits(result, expected)
    for make in (FeatureMap._blocks, feature_map_jit.compiled_map_blocks):  # by NumPy, and compiled
        same_bits(next(make(feature_map, values, len(values))).T, expected)
    assert FeatureMap.from_dict(document) == feature_map


@settings(max_examples=40)
@given(maps(), rows, st.data())
def test_no_row_moves_another(feature_map, table, data):
    values = np.array(table)
    whole = feature_map.apply(values)
    order = data.draw(st.permutations(range(len(values))))
    same_bits(feature_map.apply(values[list(order)]), whole[list(order)])
    start = data.draw(st.integers(0, len(values) - 1))
    same_bits(feature_map.apply(values[start : start + 1]), whole[start : start + 1])


def test_rows_in_blocks_are_those_of_one_row(monkeypatch):
    feature_map = FeatureMap(
        tuple(Input(name, divisor=3.0, log=name == "age") for name in NAMES),
        (Term("product", ("log(age)", "dose")), Term("legendre", ("dose", "ward=B"), (3, 2), 0.5)),
    )
    values = np.random.default_rng(0).normal(size=(1000, 3))
    whole = feature_map.apply(values)
    same_bits(whole[777:778], feature_map.apply(values[777:778]))
    monkeypatch.setattr("radoboost.release.feature_map._BLOCK_VALUES", 1)
    monkeypatch.setattr("radoboost.release.feature_map._BLOCK_ROWS", 7)
    same_bits(whole, feature_map.apply(values))
    same_bits(whole, feature_map.apply(np.asfortranarray(values)))
    single = values.astype(np.float32)
    same_bits(feature_map.apply(single), feature_map.apply(single.astype(np.float64)))
    assert feature_map.apply(values[:0]).shape == (0, 2)


def test_names_say_what_a_column_is():
    feature_map = FeatureMap(
        (Input("age"), Input("age", log=True), Input("dose")),
        (
            Term("linear", ("age",)),
            Term("linear", ("log(age)",)),
            Term("product", ("age", "age")),
            Term("product", ("age", "dose")),
            Term("legendre", ("age",), (2,)),
            Term("legendre", ("dose", "log(age)"), (1, 3), 0.5),
        ),
    )
    assert feature_map.output_names == ("age", "log(age)", "age^2", "age*dose", "P2(age)", "P1(dose)*P3(log(age))")
    assert feature_map.input_names == ("age", "dose")
    assert {feature_map: 1}[pickle.loads(pickle.dumps(feature_map))] == 1


GOOD = {
    "inputs": [{"name": "age", "shift": 1.0, "divisor": 2.0}, {"name": "dose"}],
    "terms": [
        {"kind": "linear", "inputs": ["age"]},
        {"kind": "product", "inputs": ["age", "dose"]},
        {"kind": "legendre", "inputs": ["age", "dose"], "degrees": [3, 1], "factor": 0.5},
    ],
}


def broken(change):
    document = copy.deepcopy(GOOD)
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["terms"][0].update(kind="spline"), "spline"),
        (lambda d: d["terms"][0].update(kind=["linear"]), "kind"),
        (lambda d: d["terms"][0].update(inputs=["weight"]), "weight"),
        (lambda d: d["terms"][0].update(inputs=["age", "dose"]), "linear"),
        (lambda d: d["terms"][0].update(inputs="age"), "does not know"),
        (lambda d: d["terms"].append(d["terms"][0]), "one name: 'age'"),
        (lambda d: d["terms"][0].update(factor=2.0), "does not know"),
        (lambda d: d["terms"][1].update(degrees=[1, 1]), "does not know"),
        (lambda d: d["terms"][2].pop("degrees"), "degrees"),
        (lambda d: d["terms"][2].update(degrees=[3]), "degrees"),
        (lambda d: d["terms"][2].update(degrees=[3, 0]), "degrees"),
        (lambda d: d["terms"][2].update(degrees=[3, 65]), "degrees"),
        (lambda d: d["terms"][2].update(degrees=[3, True]), "degrees"),
        (lambda d: d["terms"][2].update(degrees=[3, 1.0]), "degrees"),
        (lambda d: d["terms"][2].update(factor=math.nan), "finite"),
        (lambda d: d["terms"][2].update(inputs=[], degrees=[]), "inputs"),
        (lambda d: d["terms"][2].update(kind="cosine"), "cosine"),
        (lambda d: d["inputs"][0].update(divisor=0.0), "divisor"),
        (lambda d: d["inputs"][0].update(shift=None), "finite"),
        (lambda d: d["inputs"][0].update(low=2.0, high=1.0), "low"),
        (lambda d: d["inputs"][0].update(limit=-1.0), "limit"),
        (lambda d: d["inputs"][0].update(log=1), "finite"),
        (lambda d: d["inputs"][0].update(root=True), "does not know"),
        (lambda d: d["inputs"].append({"name": "dose"}), "'dose'"),
        (lambda d: d["inputs"].clear(), "at least one"),
        (lambda d: d.update(seed=1), "nothing else"),
        (lambda d: d["terms"].insert(0, 7), "kind"),
    ],
)
def test_what_this_version_does_not_know_is_refused_in_one_line(change, words):
    FeatureMap.from_dict(GOOD)
    with pytest.raises(ReleaseError, match=words) as refusal:
        FeatureMap.from_dict(broken(change))
    assert "\n" not in str(refusal.value)


# ---- tables through a map


def quadratic(names):
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k:]]
    entries = tuple(Input(name, shift=0.25, divisor=1.5, log=True) for name in names)
    return FeatureMap(entries, tuple(Term("product", (f"log({a})", f"log({b})")) for a, b in pairs))


@settings(max_examples=12)
@given(st.integers(1, 70), st.integers(0, 9))
def test_any_table_in_any_batches_gives_the_same_values(tmp_path_factory, batch_rows, seed):
    folder = tmp_path_factory.getbasetemp()
    values = np.random.default_rng(seed).normal(size=(130, 3)).round(seed)
    table = pa.table({"x0": values[:, 0], "x1": values[:, 1], "x2": values[:, 2], "y": np.arange(130) % 2})
    pq.write_table(table, folder / "few.parquet", row_group_size=50)
    table.to_pandas().to_csv(folder / "few.csv", index=False)
    feature_map = quadratic(("x2", "x0"))
    expected = feature_map.apply(values[:, [2, 0]])
    for form in (table, table.to_pandas(), folder / "few.parquet", folder / "few.csv"):
        source = map_table(open_table(form, label="y"), feature_map)
        assert source.features == feature_map.output_names
        batches = list(source.batches(batch_rows))
        same_bits(np.vstack([batch.values() for batch in batches]), expected)
        parts = pickle.loads(pickle.dumps(list(source.parts())))
        again = [batch for part in parts for batch in part.batches(batch_rows)]
        same_bits(np.vstack([batch.values() for batch in again]), expected)
        assert sum(part.count() for part in parts) == 130
        np.testing.assert_array_equal(again[0].inputs(), batches[0].inputs())
        assert again[0].labels.equals(batches[0].labels)


def test_batches_suit_the_number_of_outputs():
    source = open_table(np.zeros((10, 28)), np.zeros(10))
    names = source.features
    wide = map_table(source, quadratic(names))
    assert wide.batch_rows * len(wide.features) <= source.most_values < source.batch_rows * len(wide.features)


def test_a_column_that_is_not_there_is_named():
    source = open_table(np.zeros((10, 2)), np.zeros(10))
    with pytest.raises(TableError, match="no column 'age', 'dose'"):
        map_table(source, quadratic(("age", "x1", "dose")))
