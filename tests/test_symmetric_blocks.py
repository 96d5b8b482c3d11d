"""Symmetric blocks are stored once: what the file holds, what comes back, and what is refused."""

import cProfile
import dataclasses
import itertools
import json
import pstats

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flat
import radoboost as rb
from radoboost.release.columns import Column, constant_column
from radoboost.release.feature_map import FeatureMap, Input, Term
from test_release import resealed

STEP = 2.0**-15


@pytest.fixture(scope="module")
def moments():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    declared = {"bounds": [[-3, 3]] * 3, "classes": (0, 1), "counts": None, "columns": "linear"}
    return flat.craft(x, y, mechanism=rb.Moments(1.0), **declared)


@pytest.fixture
def saved(moments, tmp_path):
    moments.save(tmp_path / "m.rado.parquet")
    return tmp_path / "m.rado.parquet"


def document(path):
    return json.loads(pq.read_metadata(path).metadata[b"radoboost"])


def symmetric_names(path):
    return [block["name"] for block in document(path)["blocks"] if block.get("symmetric")]


def same(a, b):
    return list(a.blocks) == list(b.blocks) and all(a.blocks[k].tobytes() == b.blocks[k].tobytes() for k in a.blocks)


def noisier(parameters):
    """The parameters of a release whose noise would be enough for an outline as well."""
    noise = {stage: 2 * scale for stage, scale in parameters["noise"].items()}
    return {**parameters, "noise": {**noise, "outline": noise["second"]}}


def symmetric(rng, width):
    half = rng.normal(size=(width, width))
    return half + half.T


def test_second_moments_and_whitening_are_stored_by_half(moments, saved):
    assert symmetric_names(saved) == ["moment:C", "whitening", "moment:C2"]
    table = pq.read_table(saved)
    rows = [row for row in table.to_pylist() if row.pop("block") == "moment:C"]
    second = moments.blocks["moment:C"]
    for i, row in enumerate(rows):
        values = [row[name] for name in moments.feature_names]
        assert values == [None if j < i else second[i, j] for j in range(4)]
    assert same(rb.load(saved), moments)


def test_it_comes_back_to_the_bit_with_columns_of_its_own(moments, saved):
    rng = np.random.default_rng(0)
    outline = symmetric(rng, 3)
    outline[0, 2] = outline[2, 0] = -0.0
    blocks = {"outline": outline, **moments.blocks}
    own = {"outline": ("one", "x1", "two"), **moments.block_columns}  # x1 is a column of the release as well
    release = dataclasses.replace(moments, blocks=blocks, block_columns=own, mechanism=noisier(moments.mechanism))
    release.save(saved)
    again = rb.load(saved)
    assert same(again, release) and again.block_columns == own
    assert symmetric_names(saved)[0] == "outline"
    assert np.signbit(again.blocks["outline"][2, 0])


def test_a_block_that_differs_by_a_bit_is_stored_whole(moments, saved):
    second = moments.blocks["moment:C"].copy()
    second[0, 1], second[1, 0] = 0.0, -0.0
    release = dataclasses.replace(moments, blocks={**moments.blocks, "moment:C": second})
    release.save(saved)
    assert symmetric_names(saved) == ["whitening", "moment:C2"]
    assert same(rb.load(saved), release)


def test_rados_are_never_stored_by_half(tmp_path):
    release = rb.craft([[1.0], [2.0], [3.0]], [0, 1, 1], n_rados=2, seed=0)
    release = dataclasses.replace(release, blocks={"rados": np.eye(2)})
    release.save(tmp_path / "plain.rado.parquet")
    assert document(tmp_path / "plain.rado.parquet")["blocks"] == [{"name": "rados", "rows": 2}]


def entry(changed, name):
    return next(block for block in changed["blocks"] if block["name"] == name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: entry(d, "sharpened").update(symmetric=True), "'sharpened' is called symmetric and is not square"),
        (lambda d: entry(d, "moment:C").pop("symmetric"), "missing or not finite"),
        (lambda d: entry(d, "moment:C").update(symmetric=1), "'moment:C' cannot be symmetric"),
        (lambda d: entry(d, "moment:C").update(symmetric="yes"), "'moment:C' cannot be symmetric"),
    ],
)
def test_a_document_that_marks_a_block_wrongly_is_refused(saved, change, message):
    resealed(saved, lambda document: None)
    rb.load(saved)
    resealed(saved, change)
    with pytest.raises(rb.ReleaseError, match=message):
        rb.load(saved)


def rewritten(path, moments, place, value):
    """The file with another value, or none, at a place of moment:C."""
    rows = pq.read_table(path)
    first = rows.column("block").to_pylist().index("moment:C")
    name = moments.feature_names[place[1]]
    values = rows.column(name).to_pylist()
    values[first + place[0]] = value
    rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values, pa.float64()))
    pq.write_table(rows.replace_schema_metadata(pq.read_metadata(path).metadata), path)
    resealed(path, lambda document: None)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((2, 0), 1.0, "'moment:C' is called symmetric and has numbers below its diagonal"),
        ((3, 2), np.nan, "'moment:C' is called symmetric and has numbers below its diagonal"),
        ((0, 2), None, "missing or not finite"),
        ((1, 1), np.nan, "missing or not finite"),
        ((1, 2), np.inf, "missing or not finite"),
    ],
)
def test_a_symmetric_block_has_numbers_on_and_above_its_diagonal_and_none_below(moments, saved, place, value, message):
    same_value = None if place[0] > place[1] else moments.blocks["moment:C"][place]
    rewritten(saved, moments, place, same_value)
    assert same(rb.load(saved), moments)
    rewritten(saved, moments, place, value)
    with pytest.raises(rb.ReleaseError, match=message):
        rb.load(saved)


def test_rados_that_are_called_symmetric_are_refused(moments, saved):
    rb.draw_rados(moments, 4).save(saved)
    resealed(saved, lambda d: entry(d, "rados").update(symmetric=True))
    with pytest.raises(rb.ReleaseError, match="'rados' cannot be symmetric"):
        rb.load(saved)


def test_every_plan_of_moments_comes_back_to_the_bit_and_gives_rados(tmp_path):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2000, 3))
    declared = {"bounds": [[-3, 3]] * 3, "classes": (0, 1), "counts": None, "mechanism": rb.Moments(3.0)}
    for word in ("degree-2", "degree-5"):
        release = flat.craft(x, x[:, 0] * x[:, 1] > 0, columns=word, **declared)
        place = tmp_path / f"{word}.rado.parquet"
        release.save(place)
        assert same(rb.load(place), release)
        assert symmetric_names(place) == ["outline", "moment:C", "whitening", "moment:C2"]
        assert rb.draw_rados(release, 5).rados.shape == (5, len(release.columns))


def test_columns_of_blocks_travel_from_the_mechanism_to_the_file(monkeypatch, tmp_path):
    make = rb.Moments.make

    def with_outline(self, asked, run):
        made = make(self, asked, run)
        own = {**made.block_columns, "outline": ("x0", "(constant)"), "theta": ("p", "q", "r")}
        blocks, parameters = {"outline": np.eye(2), **made.blocks}, noisier(made.parameters)
        return dataclasses.replace(made, blocks=blocks, block_columns=own, parameters=parameters)

    monkeypatch.setattr(rb.Moments, "make", with_outline)
    declared = {"bounds": [[-3, 3]] * 2, "classes": (0, 1), "counts": None, "n_rados": 5, "columns": "linear"}
    release = flat.craft(np.array([[0.0, 1.0], [1.0, 0.5]]), [0, 1], mechanism=rb.Moments(1.0), **declared)
    release.save(tmp_path / "m.rado.parquet")
    again = rb.load(tmp_path / "m.rado.parquet")
    assert again.columns_of("outline") == ("x0", "(constant)") and again.columns_of("theta") == ("p", "q", "r")
    assert same(again, release) and again.n_rados == 5


# ---- the largest plan: 600 columns


@pytest.fixture(scope="module")
def wide(moments):
    """A release as large as one may become, of random numbers: 28 inputs and their ranks, 32 rounds."""
    rng, d = np.random.default_rng(1), 600
    own = [
        Input(f"measurement {k}", *rng.uniform(0.5, 2, 2).tolist(), low=-5.0, high=5.0, limit=1.0) for k in range(28)
    ]
    levels = tuple(np.linspace(-1, 1, 65).tolist())
    ranks = [dataclasses.replace(entry, levels=levels) for entry in own]
    names, labels = [entry.label for entry in own], [entry.label for entry in ranks]
    terms = [Term("linear", (name,)) for name in (*names, *labels)]
    triples = itertools.islice(itertools.combinations(labels, 3), d - 1 - len(terms))
    terms += [Term("legendre", triple, (1, 1, 1), 0.816) for triple in triples]
    feature_map = FeatureMap((*own, *ranks), tuple(terms))
    columns = (*(Column(name, "bounds", STEP, -1.0, 1.0) for name in feature_map.output_names), constant_column(STEP))
    assert len(columns) == d
    return dataclasses.replace(
        moments,
        blocks={
            "outline": symmetric(rng, 29),
            "moment:C": symmetric(rng, d),
            "whitening": symmetric(rng, d),
            "moment:b": rng.normal(size=(1, d)),
            "moment:C2": symmetric(rng, d),
            "sharpened": rng.normal(size=(32, d)),
            "theta": rng.normal(size=(33, d)),
            "scores": moments.blocks["scores"],
        },
        columns=columns,
        map=feature_map,
        block_columns={"outline": (*names, "(constant)"), "scores": moments.block_columns["scores"]},
        mechanism=noisier(moments.mechanism),
    )


def test_six_hundred_columns_take_less_than_6_MB(wide, tmp_path):
    place = tmp_path / "wide.rado.parquet"
    wide.save(place)
    assert place.stat().st_size < 6e6  # of random numbers, which no compression makes smaller
    again = rb.load(place)
    assert same(again, wide) and again.map == wide.map and again.block_columns == wide.block_columns


def calls(function, *arguments):
    """How many functions a call of one calls: as good as a clock here, and always the same."""
    profile = cProfile.Profile()
    profile.runcall(function, *arguments)
    return pstats.Stats(profile).total_calls


def test_saving_and_loading_take_time_by_the_column_and_not_by_the_pair(wide, tmp_path):
    """A call for every pair of columns would be 250,000."""
    place = tmp_path / "wide.rado.parquet"
    wide.save(place)
    assert calls(wide.save, place) < 100_000
    assert calls(rb.load, place) < 100_000
