"""Columns at different holders: sums without labels beside rados, completed moments, and what is refused."""

import json
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.holder.engines import get_engine
from radoboost.holder.keystream import Key
from radoboost.holder.mechanisms.table_survey import SumShared
from radoboost.holder.rado_sums import SumRados
from radoboost.holder.signatures import AllSignatures
from radoboost.lab.attacks.adversary_knowledge import seed_inclusion_bits
from radoboost.learner.moment_completion import PartMoments, complete_moments, solve_completed_moments
from radoboost.release.columns import Column, constant_column
from radoboost.report.describe import describe_model, describe_release
from radoboost.tables import open_table
from radoboost.tables.labels import LabelEncoder

NAMES = ("age", "dose", "sugar")


def people(rng, m=3000):
    """Age, a dose and a sugar that both follow it, and a label that follows all three."""
    age = rng.normal(50, 12, m)
    dose, sugar = age / 24 + rng.normal(size=m), 3 - age / 30 + rng.normal(size=m)
    return {"age": age, "dose": dose, "sugar": sugar}, np.where(age / 12 + dose - sugar + rng.normal(size=m) > 3, 1, -1)


def part(table, *names):
    return pa.table({name: table[name] for name in names})


@pytest.fixture
def both(rng):
    table, y = people(rng)
    clinic = rb.craft(part(table, "age", "dose"), y, seed=1, schema=rb.Schema(shared=("age",)))
    return clinic, rb.craft(part(table, "age", "sugar"), y, seed=2, schema=rb.Schema(shared=("age",))), table, y


# ---- what stands beside the rados


@pytest.mark.parametrize("share", [[], ["x1"], ["x3", "x0"]])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_sums_without_labels_are_those_of_the_same_examples(rng, share, scale):
    x, y = rng.normal(size=(500, 4)), rng.choice([-1, 1], 500)
    release = rb.craft(x, y, n_rados=30, seed=5, schema=rb.Schema(shared=tuple(share)), mechanism=rb.Plain(scale=scale))
    names = release.block_columns["shared"]
    assert names == (*sorted(share), "(constant)")
    columns = {column.name: column for column in release.columns}
    values = {f"x{k}": x[:, k] for k in range(4)} | {"(constant)": np.ones(500)}
    snapped = [np.rint(columns[n].apply(values[n]) / columns[n].step) * columns[n].step for n in names]
    expected = seed_inclusion_bits(release, 5, 500).astype(float) @ np.column_stack(snapped)
    assert (release.blocks["shared"] == expected).all()
    assert (release.rados == rb.craft(x, y, n_rados=30, seed=5, mechanism=rb.Plain(scale=scale)).rados).all()


def test_neither_engine_threads_nor_form_change_a_bit(rng, tmp_path):
    x, y = rng.normal(size=(1000, 3)), rng.choice([0, 1], 1000)
    first = rb.craft(x, y, n_rados=40, seed=3, schema=rb.Schema(shared=("x1",)))
    for table, options in ((x, {"engine": "reference"}), (x, {"threads": 2}), (scipy.sparse.csr_matrix(x), {})):
        other = flat.craft(table, y, n_rados=40, share=["x1"], seed=3, **options)
        assert (other.blocks["shared"] == first.blocks["shared"]).all()
    first.save(tmp_path / "a.rado.parquet")
    again = rb.load(tmp_path / "a.rado.parquet")
    assert (again.blocks["shared"] == first.blocks["shared"]).all()
    assert again.block_columns == {"shared": ("x1", "(constant)")}


def test_rados_and_sums_beside_them_have_the_same_coins_where_each_part_tosses_its_own():
    """A feature that equals the label: its rado counts examples, and so does the constant without labels."""
    signs = np.array([1, -1, 1, 1, -1] * 40, dtype=np.int8)
    columns = (Column("x", "none", 2.0**-22), constant_column(2.0**-22))
    source = open_table(signs[:, None].astype(float), signs)
    key = Key.from_system()
    sums = SumRados(
        get_engine("kernel"), columns, LabelEncoder("y", (-1, 1)), 50, AllSignatures().prepare(key, 50, 200)
    )
    totals = []
    for _ in range(2):
        task = SumShared(sums, (0,)).for_part(0, 200)
        found = task.empty()
        row = 0
        for batch in source.batches(64):
            task.add(found, row, batch)
            row += batch.n_rows
        assert (found.rados.totals[:, 0] == found.shared[:, 1]).all()
        totals.append(found.shared[:, 1])
    assert (totals[0] != totals[1]).any()  # coins are tossed anew for each part


def test_rows_that_follow_those_of_others_have_the_same_coins_in_both():
    signs = np.array([1, -1, 1, 1, -1] * 40)
    release = rb.craft(
        signs[:, None].astype(float),
        signs,
        n_rados=30,
        seed=4,
        schema=rb.Schema(shared=()),
        mechanism=rb.Plain(scale=None, first_row=1001),
    )
    assert (release.rados[:, 0] == release.blocks["shared"][:, 0]).all()


def test_learners_of_rados_do_not_take_the_label_for_a_feature(both):
    clinic, *_ = both
    plain = replace(clinic, blocks={"rados": clinic.rados}, block_columns={})
    for learner in (rb.MomentsClassifier, rb.RadoBoostClassifier):
        assert (learner().fit_rados(clinic).model_.theta == learner().fit_rados(plain).model_.theta).all()


def test_a_release_says_what_it_shares_and_what_that_tells(both):
    clinic, *_ = both
    text = " ".join(describe_release(clinic).split())
    assert "shared age, and the label: sums without labels stand beside the rados" in text
    assert "how many examples it sums and the sums of 'age'" in text
    assert any("sums without labels" in sentence for sentence in clinic.statement.not_protected)
    assert not any(
        "sums without labels" in s for s in rb.craft([[1.0], [2.0]], [0, 1], n_rados=2).statement.not_protected
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"share": ["weight"]}, "'weight'"),
        ({"share": [3]}, "names"),
        ({"share": ["age"], "intercept": False}, "constant"),
        ({"share": ["age"], "signatures": rb.FixedSupport(0.5)}, "signatures"),
        ({"share": ["age"], "columns": "degree-2"}, "linear"),
        ({"share": ["age"], "mechanism": rb.Moments(1.0)}, "moments cannot share"),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_is_refused(rng, options, words):
    table, y = people(rng, 60)
    with pytest.raises(rb.RadoError, match=words):
        flat.craft(part(table, "age", "dose"), y, n_rados=10, **options)


def test_a_block_that_does_not_go_with_the_rados_is_refused(both):
    clinic, *_ = both
    rows = clinic.blocks["shared"]
    for wrong, names in ((rows[1:], ("age", "(constant)")), (rows, ("(constant)", "age")), (rows, ("age", "dose"))):
        with pytest.raises(rb.ReleaseError, match="shared columns do not go with its rados"):
            replace(clinic, blocks={**clinic.blocks, "shared": wrong}, block_columns={"shared": names})


# ---- the algebra


def unrelated(rng, m, n_left, n_right, n_shared):
    """Columns of two holders whose edge vectors are unrelated given W, in this sample exactly."""
    signs = np.array([1.0, -1.0] * (m // 2))
    shared = rng.normal(size=(m, n_shared))
    common = np.column_stack([shared * signs[:, None], signs, shared, np.ones(m)])
    noise = np.linalg.qr(np.column_stack([common, rng.normal(size=(m, n_left + n_right))]))[0][:, common.shape[1] :]
    edges = common @ rng.normal(size=(common.shape[1], n_left + n_right)) + 3 * noise @ np.diag(
        rng.uniform(0.5, 2, n_left + n_right)
    )
    own = edges * signs[:, None]
    return own[:, :n_left], own[:, n_left:], shared, signs


def matched(left, right, shared, signs):
    edges = np.column_stack([left, right, shared, np.ones(len(signs))]) * signs[:, None]
    return edges.mean(axis=0), edges.T @ edges / len(edges)


sizes = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2**32))


@given(sizes)
def test_completion_is_the_matched_table_where_holders_are_unrelated_given_the_rest(size):
    n_left, n_right, n_shared, seed = size
    left, right, shared, signs = unrelated(np.random.default_rng(seed), 40, n_left, n_right, n_shared)
    parts = [PartMoments.of_rows(own, shared, signs) for own in (left, right)]
    for found, expected in zip(complete_moments(*parts), matched(left, right, shared, signs), strict=True):
        assert np.allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@given(sizes)
def test_completion_is_exact_where_own_columns_follow_from_what_is_shared(size):
    n_left, n_right, n_shared, seed = size
    rng = np.random.default_rng(seed)
    shared, signs = rng.normal(size=(40, n_shared)), np.array([1.0, -1.0] * 20)
    common = np.column_stack([shared, signs[:, None] * shared, signs, np.ones(40)])
    left, right = (common @ rng.normal(size=(common.shape[1], count)) for count in (n_left, n_right))
    parts = [PartMoments.of_rows(own, shared, signs) for own in (left, right)]
    found, expected = complete_moments(*parts)[1], matched(left, right, shared, signs)[1]
    assert np.allclose(found, expected, atol=1e-8 * np.abs(expected).max())


@given(sizes, st.integers(3, 60), st.integers(3, 60))
def test_completed_moments_are_positive_semidefinite_and_keep_what_each_holder_knows(size, m, n):
    """Of any people, also of fewer than there are columns; own moments stay where W is the holder's own."""
    n_left, n_right, n_shared, seed = size
    rng = np.random.default_rng(seed)
    parts = []
    for count, own in ((m, n_left), (n, n_right)):
        values = rng.normal(size=(count, own)) ** 3
        parts.append(PartMoments.of_rows(values, rng.normal(size=(count, n_shared)), rng.choice([-1.0, 1.0], count)))
    values = np.linalg.eigvalsh(complete_moments(*parts)[1])
    assert values[0] >= -1e-9 * max(values[-1], 1)
    same = complete_moments(parts[0], replace(parts[0]))[1]
    expected = parts[0].second[:n_left, :n_left]
    assert np.allclose(same[:n_left, :n_left], expected, atol=1e-7 * max(np.abs(expected).max(), 1))


@given(sizes)
def test_units_of_columns_do_not_matter(size):
    n_left, n_right, n_shared, seed = size
    rng = np.random.default_rng(seed)
    values, signs = rng.normal(size=(50, n_left + n_right + n_shared)), rng.choice([-1.0, 1.0], 50)
    units = 10.0 ** rng.integers(-4, 5, values.shape[1])
    thetas = []
    for x in (values, values * units):
        left, right, shared = np.split(x, [n_left, n_left + n_right], axis=1)
        thetas.append(
            solve_completed_moments(
                *complete_moments(*(PartMoments.of_rows(own, shared, signs) for own in (left, right)))
            )
        )
    assert np.allclose(thetas[0], thetas[1] * np.append(units, 1.0), atol=1e-6 * np.abs(thetas[0]).max())


def test_rados_over_all_signatures_have_the_moments_of_the_rows(rng):
    own, shared, signs = rng.normal(size=(8, 2)), rng.normal(size=(8, 1)), np.array([1.0, -1.0] * 4)
    exact = PartMoments.of_rows(own, shared, signs)
    common = np.column_stack([shared, np.ones(8)])
    edges = np.column_stack([own * signs[:, None], common * signs[:, None], common])
    sums = np.array(list(product([0, 1], repeat=8))) @ edges
    found = PartMoments.of_sums(sums, 2, 8)
    assert np.allclose(found.first, exact.first)
    assert np.allclose(found.second * 255 / 256, exact.second)


def test_without_a_ridge_the_matched_moments_give_least_squares(rng):
    x, signs = rng.normal(size=(60, 3)), rng.choice([-1.0, 1.0], 60)
    theta = solve_completed_moments(*matched(x[:, :1], x[:, 1:], x[:, :0], signs), ridge=0.0)
    fit = np.linalg.lstsq(np.column_stack([x, np.ones(60)]), signs, rcond=None)[0]
    assert np.allclose(theta, 2 * fit)


# ---- two releases


def test_a_joint_model_beats_either_holder_and_is_near_the_matched_table(both):
    clinic, laboratory, table, y = both
    model = rb.join(clinic, laboratory, on=["age"])
    assert model.feature_names == ("dose", "sugar", "age")
    joint, whole = part(table, *NAMES), rb.MomentsClassifier().fit(np.column_stack([table[n] for n in NAMES]), y)
    wrong = np.mean(model.predict(joint) != y)
    alone = [np.mean(rb.MomentsClassifier().fit_rados(one).model_.predict(joint) != y) for one in (clinic, laboratory)]
    assert wrong < min(alone) - 0.02
    assert wrong < np.mean(whole.predict(np.column_stack([table[n] for n in NAMES])) != y) + 0.01


def test_other_people_and_other_constants_are_converted(rng):
    """The right holder has others, twice as many, and scales by their own mean and deviation, or by bounds."""
    table, y = people(rng, 6000)
    clinic = rb.craft(
        part({n: v[:2000] for n, v in table.items()}, "age", "dose"),
        y[:2000],
        seed=1,
        schema=rb.Schema(shared=("age",)),
    )
    rest = part({n: v[2000:] for n, v in table.items()}, "age", "sugar")
    thetas = []
    for options in ({}, {"scale": None}, {"scale": "bounds", "bounds": {"age": (-1e3, 1e3), "sugar": (-99, 99)}}):
        laboratory = flat.craft(rest, y[2000:], share=["age"], seed=2, **options)
        if "bounds" in options:
            with pytest.raises(rb.ReleaseError, match="coded differently"):
                rb.join(clinic, laboratory)
            continue
        model = rb.join(clinic, laboratory, ridge=0.0)  # a ridge depends on where 0 is
        assert np.mean(model.predict(part(table, *NAMES)) != y) < 0.2
        thetas.append((*model.coef, model.intercept))
    assert np.allclose(thetas[0], thetas[1], rtol=1e-3)  # but for the grid


def test_scores_of_parts_add_and_half_a_row_is_refused(both):
    clinic, laboratory, table, _ = both
    model = rb.join(clinic, laboratory)
    left, right = rb.part_models(model)
    assert left.feature_names == ("dose", "age")
    assert right.feature_names == ("sugar",)
    sums = left.decision_function(part(table, "age", "dose")) + right.decision_function(part(table, "sugar"))
    assert np.allclose(sums, model.decision_function(part(table, *NAMES)))
    with pytest.raises(rb.TableError, match=r"has no column 'sugar'.*needs both parts of a row to predict it: scores"):
        model.predict(part(table, "age", "dose"))
    with pytest.raises(rb.ArgumentError, match="only a model that join made"):
        rb.part_models(left)


def test_a_joint_model_says_whom_both_holders_trust(both):
    clinic, laboratory, *_ = both
    words = {"trust_model": "a laboratory's server", "random_source": "its own dice"}
    other = replace(laboratory, statement=replace(laboratory.statement, **words))
    said = rb.join(clinic, other).statement
    both_see = "two holders, each of whom sees the rows of its own columns alone, and is trusted with them; of each: "
    assert said.trust_model == f"{both_see}{clinic.statement.trust_model}; or a laboratory's server"
    assert said.random_source == f"{clinic.statement.random_source}; or its own dice"
    model = rb.join(clinic, laboratory)
    assert model.statement.trust_model == both_see + clinic.statement.trust_model
    words = " ".join(describe_model(model).split())
    assert "joined from releases of 2 holders, each of columns of its own" in words and "merged" not in words
    assert "Of those releases, together:" in words and "Of that release" not in words


def test_a_joint_model_says_what_it_assumes_needs_and_cannot_know(both, tmp_path):
    clinic, laboratory, *_ = both
    model = rb.join(clinic, laboratory)
    assert "unrelated given 'age'" in model.learner["assumes"]
    assert model.statement.holders.how == "joined"
    assert [one["columns"] for one in model.statement.holders.parts] == [["dose"], ["sugar"]]
    model.save(tmp_path / "a.model.json")
    again = rb.load_model(tmp_path / "a.model.json")
    assert (again.theta == model.theta).all()
    assert again.to_dict() == model.to_dict()
    text = " ".join(describe_model(again).split())
    for words in ("joined on age and the label", "cannot know how", "needs both parts", "3,000 and 3,000 examples"):
        assert words in text


def test_labels_alone_may_be_shared(rng):
    table, y = people(rng)
    parts = [
        rb.craft(part(table, name), y, seed=k, schema=rb.Schema(shared=())) for k, name in enumerate(("dose", "sugar"))
    ]
    model = rb.join(*parts, on=[])
    assert "are unrelated given the label" in model.learner["assumes"]
    assert np.mean(model.predict(part(table, "dose", "sugar")) != y) < 0.35


def test_raw_tables_are_joined_by_their_schemas(rng):
    table, y = people(rng)
    region = rng.choice(["north", "south"], 3000)
    ages = rb.Number(0, 120, fill=50, gaps=True)
    kinds = {"age": ages, "region": rb.Category(("north", "south"))}
    releases = []
    for k, name in enumerate(("dose", "sugar")):
        schema = rb.Schema({name: rb.Number(-20, 20), **kinds})
        raw = pa.table({"region": region, "age": [None, *table["age"][1:]], name: table[name]})
        releases.append(rb.craft(raw, y, seed=k, schema=replace(rb.Schema.of(schema), shared=("age", "region"))))
    model = rb.join(*releases)
    assert model.feature_names == ("dose", "sugar", "age", "region")
    rows = pa.table({"region": region, **table})
    assert np.mean(model.predict(rows) != y) < 0.2
    left, right = rb.part_models(model)
    sums = left.decision_function(rows) + right.decision_function(rows)
    assert np.allclose(sums, model.decision_function(rows))
    for other, words in (
        ({**kinds, "region": rb.Category(("south", "north"))}, "'region' is coded differently: it becomes 'region=nor"),
        ({**kinds, "age": replace(ages, high=100)}, r"'age' is coded differently: clipped to \[0, 120\] in the left"),
        ({**kinds, "age": rb.Category((40, 50), other=True)}, "a number in the left release, a category in the right"),
    ):  # fmt: skip
        raw = pa.table({"region": region, "age": table["age"], "sugar": table["sugar"]})
        schema = rb.Schema({"sugar": rb.Number(-20, 20), **other})
        with pytest.raises(rb.ReleaseError, match=words):
            rb.join(
                releases[0], rb.craft(raw, y, seed=9, schema=replace(rb.Schema.of(schema), shared=("age", "region")))
            )


def test_gaps_of_shared_columns_are_converted_to_one_fill(rng):
    """Each holder fills gaps with the mean of its own table: the model is that of one fill, to the grid."""
    table, y = people(rng, 4000)
    gaps = rng.random(4000) < 0.2
    admitted = [None if gap else f"2024-01-{1 + k % 28:02}" for k, gap in enumerate(gaps)]
    ages = [None if gap else age for gap, age in zip(gaps, table["age"], strict=True)]
    thetas = []
    for fills in ((50, "2024-01-15"), (20, "2024-01-03"), (90, "2024-01-28")):
        releases = []
        for k, (name, (age, day)) in enumerate({"dose": (50, "2024-01-15"), "sugar": fills}.items()):
            dates = rb.Date(low="2024-01-01", high="2024-02-01", fill=day, gaps=True, parts=("weekday",))
            schema = rb.Schema({name: rb.Number(), "age": rb.Number(fill=age, gaps=True), "admitted": dates})
            raw = pa.table({name: table[name], "age": ages, "admitted": admitted})
            releases.append(
                rb.craft(raw, y, seed=k, n_rados=400, schema=replace(rb.Schema.of(schema), shared=("age", "admitted")))
            )
        model = rb.join(*releases)
        assert model.schema.columns["age"].fill == 50
        thetas.append(model.theta)
    assert np.allclose(thetas[0], thetas[1], rtol=1e-4, atol=1e-5)  # but for the grid
    assert np.allclose(thetas[0], thetas[2], rtol=1e-4, atol=1e-5)


def test_a_shared_column_may_have_gaps_at_one_holder_alone(rng):
    """Schemas are proposed from each table, as `rado craft` does: the one without gaps has none of them."""
    table, y = people(rng, 4000)
    ward = rng.choice(["A", "B"], 4000)
    complete = {"age": table["age"], "ward": ward}
    holes = {
        name: [None if k % 5 == 0 else v for k, v in enumerate(column.tolist())] for name, column in complete.items()
    }
    for left, right in ((complete, holes), (holes, complete)):
        releases = []
        for k, (name, shared) in enumerate({"dose": left, "sugar": right}.items()):
            raw = pa.table({name: table[name], **shared})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", rb.SchemaWarning)
                releases.append(rb.craft(raw, y, seed=k, schema=rb.Schema(shared=("age", "ward"))))
        model = rb.join(*releases)
        assert model.schema.columns["age"].gaps and model.schema.columns["ward"].gaps
        rows = pa.table({"ward": ward, **table})
        assert np.mean(model.predict(rows) != y) < 0.2
        parts = rb.part_models(model)
        assert np.allclose(sum(one.decision_function(rows) for one in parts), model.decision_function(rows))


def test_all_that_both_share_is_joined_on(rng, tmp_path):
    table, y = people(rng)
    table["sex"] = rng.integers(0, 2, 3000).astype(float)
    names = []
    for own in ("dose", "sugar"):
        names.append(str(tmp_path / f"{own}.rado.parquet"))
        rb.craft(part(table, "age", "sex", own), y, n_rados=50, schema=rb.Schema(shared=("age", "sex"))).save(names[-1])
    with pytest.raises(rb.ReleaseError, match=r"share 'sex' too, and what both have is joined on;.*--on age,sex$"):
        rb.join(*names, on=["age"])
    assert rb.join(*names, on=["sex", "age"]).learner["on"] == ["age", "sex"]
    with pytest.raises(rb.ReleaseError) as refusal:
        rb.join(*names, on=["weight"])
    assert str(refusal.value).startswith(f"{names[0]} does not share 'weight'"), "a file goes by its name"
    other = rb.craft(part(table, "age", "sex", "sugar"), y, n_rados=50, schema=rb.Schema(shared=()))
    with pytest.raises(rb.ReleaseError, match="'age', 'sex', and do not both share them; share them at both"):
        rb.join(names[0], other)


def test_what_cannot_be_joined_is_refused_by_name(both, rng):
    clinic, laboratory, table, y = both
    right = part(table, "age", "sugar")
    bounds = {"age": (0, 120), "sugar": (-20, 20)}
    private = rb.craft(right, y, classes=(-1, 1), mechanism=rb.Moments(1.0), columns="linear", schema=bounds)
    classes = np.arange(3000) % 3
    refusals = [
        (clinic, private, "the right release is not plain"),
        (private, clinic, "the left release is not plain"),
        (rb.craft(right, classes, n_rados=9), clinic, "3 classes"),
        (clinic, rb.craft(right, y, n_rados=9), "shares no columns"),
        (clinic, clinic, "the same one"),
        (
            clinic,
            rb.craft(right, y, classes=(1, -1), schema=rb.Schema(shared=("age",))),
            "classes are coded differently",
        ),
        (clinic, rb.craft(right, y, schema=rb.Schema(shared=())), "'age'"),
        (clinic, rb.craft(part(table, "age"), y, schema=rb.Schema(shared=("age",))), "no columns besides"),
        (clinic, "nowhere.rado.parquet", "cannot read nowhere"),
        (clinic, 7, "the right release is a int"),
    ]
    for left, other, words in refusals:
        with pytest.raises(rb.RadoError, match=words):
            rb.join(left, other)
    with pytest.raises(rb.ReleaseError, match="the left release does not share 'sex'; it shares 'age'"):
        rb.join(clinic, laboratory, on=["sex"])
    with pytest.raises(rb.ArgumentError, match="ridge must be a number of at least 0"):
        rb.join(clinic, laboratory, ridge=-1.0)


# ---- the command


def test_the_command_joins_two_files(rado, rng):
    table, y = people(rng, 600)
    for name, own in (("clinic", "dose"), ("laboratory", "sugar")):
        rows = pa.table({"age": table["age"], own: table[own], "ill": np.where(y > 0, "yes", "no")})
        pa.csv.write_csv(rows, f"{name}.csv")
        assert rado("craft", f"{name}.csv", "--label", "ill", "--set", "shared=age", "-q")[0] == 0
    releases = ("clinic.rado.parquet", "laboratory.rado.parquet")
    code, out, err = rado("join", *releases)
    assert code == 0 and "rado show joint.model.json" in out, err
    code, out, _ = rado("show", "joint.model.json", "--html", "joint.html")
    assert code == 0 and "assumes that 'dose' of one holder" in " ".join(out.split())
    code, out, _ = rado("join", *releases, "--on", "age", "-o", "other.model.json", "--json")
    assert code == 0
    assert json.loads(out)["learner"]["on"] == ["age"]
    code, out, err = rado("join", *releases, "--on", "sex", "-o", "none.model.json")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "does not share 'sex'" in err
    code, _, err = rado("craft", "clinic.csv", "--label", "ill", "--set", "shared=age", "--epsilon", "1", "--schema",
                        "private", "--classes", "no,yes", "-o", "none.rado.parquet")  # fmt: skip
    assert code == 1
    assert "moments" in err and "share" in err
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith("none")) == []
