"""Squares and products that a schema asks for: those of the mapping in Python, to the last bit, carried along."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import radoboost as rb
from radoboost.holder.table_check import error_of_all_misfits
from radoboost.tables import open_table

KINDS = {
    "age": rb.Number(0, 120, fill=50, gaps=True, terms=("linear", "signed-log", "square")),
    "crp": rb.Number(0, 300, fill=5),
    "ward": rb.Category(("A", "B"), other=True),
    "sex": rb.Category(("f", "m")),
    "admitted": rb.Date(low="2024-01-01", high="2024-12-31", fill="2024-06-01", terms=("signed-log", "square")),
}
PRODUCTS = (("age", "crp"), ("ward", "age"), ("crp", "admitted"), ("sex", "ward"))
SCHEMA = rb.Schema(KINDS, "ill", ("no", "yes"), products=PRODUCTS)
BY_HAND = {
    "age": ["linear", "signed-log", "age^2", "age*crp", "ward=A*age", "ward=B*age", "ward=(other)*age"],
    "crp": ["crp*admitted"],
    "admitted": ["signed-log", "admitted^2"],
    "sex=f": [f"sex={sex}*ward={ward}" for sex in "fm" for ward in ("A", "B", "(other)")],
}
PLAIN_SCHEMA = rb.Schema(
    {**KINDS, "age": rb.Number(0, 120, fill=50, gaps=True), "admitted": rb.Date(
        low="2024-01-01", high="2024-12-31", fill="2024-06-01")}, "ill", ("no", "yes"),
)  # fmt: skip


def rows(n_rows=400):
    rng = np.random.default_rng(8)
    return pa.table({
        "age": [None if k % 11 == 0 else float(value) for k, value in enumerate(rng.uniform(0, 130, n_rows))],
        "crp": rng.lognormal(2, 1, n_rows).tolist(),
        "ward": rng.choice(list("ABC"), n_rows).tolist(),
        "sex": rng.choice(["f", "m"], n_rows).tolist(),
        "admitted": [f"2024-{m:02}-{d:02}" for m, d in rng.integers(1, 13, (n_rows, 2)).tolist()],
        "ill": rng.choice(["no", "yes"], n_rows).tolist(),
    })  # fmt: skip


@pytest.mark.filterwarnings("ignore::radoboost.ClippedWarning")
@pytest.mark.parametrize("scale", ["auto", "bounds"])
def test_the_same_bits_as_the_mapping_in_python(scale):
    ours = rb.craft(rows(), schema=SCHEMA, n_rados=50, seed=1, mechanism=rb.Plain(scale=scale))
    theirs = rb.craft(rows(), schema=PLAIN_SCHEMA, columns=BY_HAND, n_rados=50, seed=1, mechanism=rb.Plain(scale=scale))
    place = {name: k for k, name in enumerate(theirs.feature_names)}
    assert set(place) == set(ours.feature_names) and len(place) == 9 + 1 + 2 + 1 + 3 + 1 + 6 + 1
    order = [place[name] for name in ours.feature_names]
    assert ours.rados.tobytes() == np.ascontiguousarray(theirs.rados[:, order]).tobytes()


@pytest.mark.filterwarnings("ignore::radoboost.ClippedWarning")
@pytest.mark.parametrize("mechanism", [None, rb.Moments(4.0), rb.NoisyRados(4.0)], ids=["plain", "moments", "noisy"])
def test_release_and_model_carry_them(mechanism, tmp_path):
    release = rb.craft(rows(), schema=SCHEMA, mechanism=mechanism, counts=None)
    assert {"age^2", "admitted^2", "age*crp", "ward=(other)*age", "sex=m*ward=B"} <= set(release.feature_names)
    release.save(tmp_path / "r.parquet")
    again = rb.load(tmp_path / "r.parquet")
    assert again.schema == release.schema == SCHEMA and again.map == release.map
    model = rb.MomentsClassifier().fit_rados(again).model_
    model.save(tmp_path / "m.json")
    loaded = rb.load_model(tmp_path / "m.json")
    assert loaded.schema == SCHEMA
    table = rows().drop_columns("ill")
    assert loaded.predict_proba(table).tobytes() == model.predict_proba(table).tobytes()
    if mechanism is not None:  # every mapped value is bounded by what was declared, whatever the cells say
        wild = {**table.to_pydict(), "age": [1e300] * 400, "crp": [-1e300] * 400}
        source = open_table(wild, None, labelled=False, schema=SCHEMA, gaps=True)
        encoded = np.vstack([batch.values() for batch in source.batches()])
        assert np.abs(release.map.apply(encoded)).max() <= 1


def test_categories_that_the_table_settles():
    open_one = rb.Schema({"crp": rb.Number(fill=0), "ward": rb.Category()}, "ill", products=(("crp", "ward"),))
    release = rb.craft(rows(), schema=open_one, n_rados=5)
    assert release.feature_names[-4:] == ("crp*ward=A", "crp*ward=B", "crp*ward=C", "(constant)")


def test_a_name_with_a_star_is_no_other_product():
    """As words, a*b times c and a times b*c would be one."""
    names = ("a", "b*c", "a*b", "c", "d^2")
    table = {name: np.arange(9.0) + k for k, name in enumerate(names)}
    for pair in (("a", "b*c"), ("a*b", "c"), ("d^2", "c")):
        schema = rb.Schema({name: rb.Number(0, 20, fill=0) for name in names}, products=(pair,))
        release = rb.craft(table, [0, 1, 1] * 3, schema=schema, n_rados=5)
        (term,) = (term for term in release.map.terms if term.kind == "product")
        assert term.inputs == pair


@pytest.mark.filterwarnings("ignore::radoboost.ClippedWarning")
def test_products_go_with_their_columns():
    release = rb.craft(
        rows(),
        n_rados=5,
        schema=replace(rb.Schema.of(SCHEMA), drop=("ward", "crp")),
        mechanism=rb.Plain(scale="bounds"),
    )
    assert not [name for name in release.feature_names if "*" in name] and not release.schema.products
    assert "age^2" in release.feature_names


REFUSED = {
    "not there": ({"products": [["age", "bmi"], ["age", "crp"]]}, r"products name 'bmi', not among the columns"),
    "the label": ({"products": [["age", "ill"]]}, "products name 'ill', not among"),
    "itself": ({"products": [["age", "age"]]}, "'age' with itself is its square"),
    "twice": ({"products": [["age", "crp"], ["crp", "age"]]}, "of 'crp' and 'age' is there twice"),
    "no list": ({"products": "age*crp"}, "products must be a list of pairs"),
    "all at once": (
        {"products": [["age", "bmi"], ["note", "age"]], "decimal": "x"},
        "'bmi'.*'note', which the schema leaves out.*decimal",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(rado, case):
    change, message = REFUSED[case]
    document = json.loads(json.dumps(SCHEMA.to_dict())) | change
    document["columns"]["note"] = {"kind": "text"}
    with pytest.raises(rb.ArgumentError, match=message) as error:
        rb.Schema.from_dict(document)
    Path("s.json").write_text(json.dumps(document))
    assert rado("craft", "t.csv", "--schema", "s.json") == (1, "", f"rado: s.json: {error.value}\n")


def test_words_for_all_columns_are_refused_beside_them():
    with pytest.raises(rb.ArgumentError, match="the schema has terms"):
        rb.craft(rows(), schema=SCHEMA, columns="degree-2")


def test_too_many_columns_are_refused_before_they_are_made():
    many = rb.Category(tuple(range(64)))
    names = [f"c{k}" for k in range(8)]
    pairs = tuple((a, b) for k, a in enumerate(names) for b in names[k + 1 :])
    table, schema = {name: list(range(64)) for name in names}, rb.Schema(dict.fromkeys(names, many), products=pairs)
    with pytest.raises(rb.ArgumentError, match="16,384 is the most"):
        rb.craft(table, [0, 1] * 32, schema=schema, n_rados=5)


def test_a_table_that_does_not_fit_is_looked_through_without_its_products():
    table = rows(30).drop_columns("crp")
    error = error_of_all_misfits(rb.DoesNotFit("stopped"), table, SCHEMA, "ill")
    assert "it has no column 'crp'" in str(error)
