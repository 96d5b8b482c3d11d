"""Mechanisms that promise something: what they refuse, what they release, and that no value decides anything."""

import ast
import json
import math
import re
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.holder import curator as run_module
from radoboost.holder.mechanisms import record_level
from radoboost.holder.mechanisms.record_level import clip_record_rows, clipping_norm_in_steps
from radoboost.learner.moments import noise_variance_of_rados, rado_noise_std
from radoboost.privacy import Composed, Gaussian, Relation, epsilon_at, event_from_dict
from radoboost.release.columns import constant_column
from radoboost.tables import Table
from schema_files import write_schema

BOUNDS = {"age": (0, 100), "dose": (0.0, 1.0)}
DECLARED = {"bounds": BOUNDS, "classes": ("no", "yes"), "label": "ill"}
STEP = 2.0**-22
PRIVATE = {
    "noisy-rados": rb.NoisyRados(epsilon=1.0),
    "noisy-rados by noise": rb.NoisyRados(noise_std=20.0, clip=0.5),
    "noisy-examples": rb.NoisyExamples(epsilon=1.0),
    "noisy-examples by noise": rb.NoisyExamples(noise_std=3.0, clip=2.0),
}


@pytest.fixture
def table(rng):
    age, dose = rng.uniform(0, 100, 300), rng.random(300)
    return pa.table({"age": age, "dose": dose, "ill": np.where(dose + age / 200 > 0.7, "yes", "no").tolist()})


def craft(table, mechanism, **options):
    return flat.craft(table, n_rados=20, mechanism=mechanism, **{**DECLARED, **options})


# ---- what one row contributes


def reference_contribution(row, sign, bounds, clip, step):
    """One row in plain Python floats, in the order of the columns."""
    if sign == 0 or not all(math.isfinite(x) for x in row):
        return [0] * (len(row) + 1)
    scaled = [
        (min(max(x, low), high) - low) * 2.0 / (high - low) - 1.0 for x, (low, high) in zip(row, bounds, strict=True)
    ] + [1.0]
    squares = 0.0
    for value in scaled:
        squares += value * value
    reach, norm = math.floor(clip / step) * step, math.sqrt(squares)
    shrink = 1.0 if norm <= reach else reach * (1 - 2.0**-40) / norm
    integers = [math.trunc(value * shrink / step) for value in scaled]
    if sum(q * q for q in integers) > clipping_norm_in_steps(clip, step) ** 2:
        return [0] * len(integers)
    return [sign * q for q in integers]


values = st.one_of(st.floats(-200, 300), st.sampled_from([0.0, 100.0, math.nan, math.inf, -math.inf, 1e308]))
rows = st.lists(st.tuples(values, values, st.sampled_from([-1, 1, 0])), min_size=1, max_size=80)
COLUMNS = [
    rb.Column("age", "bounds", STEP, 0.0, 100.0),
    rb.Column("dose", "bounds", STEP, 0.0, 1.0),
    constant_column(STEP),
]


def integers_of(some, clip):
    x = np.array([row[:2] for row in some], dtype=np.float64).reshape(len(some), 2)
    return clip_record_rows(x, np.array([row[2] for row in some], np.int8), COLUMNS, clip, STEP)


@given(rows, st.sampled_from([0.01, 1.0, 1.7, 30.0]))
def test_contributions_are_those_of_plain_python(some, clip):
    integers, good = integers_of(some, clip)
    for row, found, fine in zip(some, integers.tolist(), good.tolist(), strict=True):
        assert found == reference_contribution(row[:2], row[2], [(0.0, 100.0), (0.0, 1.0)], clip, STEP)
        assert fine == (row[2] != 0 and math.isfinite(row[0]) and math.isfinite(row[1]))
        assert sum(q * q for q in found) <= clipping_norm_in_steps(clip, STEP) ** 2


def test_the_norm_holds_whatever_floating_point_did(monkeypatch):
    """With a square root that is too small, clipping falls short, and the test in integers must see it."""

    class Planted:
        def __getattr__(self, name):
            return (lambda x: 0.9 * np.sqrt(x)) if name == "sqrt" else getattr(np, name)

    monkeypatch.setattr("radoboost.holder.mechanisms.record_level.np", Planted())
    integers, good = integers_of([(100.0, 1.0, 1), (50.0, 0.5, 1)], 1.0)
    assert not good[0] and integers[0].tolist() == [0, 0, 0]


@given(rows, st.data())
def test_one_row_moves_no_other(some, data):
    """With and without one row, at any place, every other row gives the same bytes."""
    place = data.draw(st.integers(0, len(some) - 1))
    with_row, _ = integers_of(some, 1.0)
    without, _ = integers_of(some[:place] + some[place + 1 :], 1.0)
    assert np.delete(with_row, place, axis=0).tobytes() == without.tobytes()


@given(st.integers(0, 299), st.sampled_from([1, 2, 3]), st.sampled_from([64, 128, 65536]), st.booleans())
def test_one_row_moves_no_other_through_the_whole_pass(place, threads, batch_rows, remove):
    """The same, as the engine is fed: any position, thread count and batch size; one row removed or replaced."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0, 100, (300, 2)), rng.integers(0, 2, 300)
    changed = np.delete(x, place, axis=0) if remove else np.where(np.arange(300)[:, None] == place, np.nan, x)
    labels = np.delete(y, place) if remove else y
    before = fed(x, y, threads, batch_rows)
    after = fed(changed, labels, threads, batch_rows)
    for row in range(300):
        if row != place:
            assert before[row].tobytes() == after[row - (remove and row > place)].tobytes()


def fed(x, y, threads, batch_rows):
    """The integers that the summation gets, by row, before noise."""
    seen = {}
    original = record_level.clip_record_rows

    def spy(values, signs, columns, clip, step):
        integers, good = original(values, signs, columns, clip, step)
        for row, found in zip(values, integers, strict=True):
            seen[row.tobytes()] = found.copy()
        return integers, good

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_level, "clip_record_rows", spy)
        patch.setattr(Table, "batch_rows", batch_rows)
        with warnings.catch_warnings(record=True):
            rb.craft(
                x,
                y,
                n_rados=2,
                mechanism=rb.NoisyRados(noise_std=1.0),
                classes=(0, 1),
                schema=[[0, 100], [0, 50]],
                compute=rb.Compute(threads=threads),
            )
    return [seen[row.tobytes()] for row in np.ascontiguousarray(x)]


# ---- what comes out


@pytest.mark.parametrize("case", PRIVATE)
def test_the_statement_is_what_the_accountant_says(case, table):
    mechanism = PRIVATE[case]
    release = craft(table, mechanism)
    statement = release.statement
    event = event_from_dict(statement.event)
    assert statement.epsilon == epsilon_at(event, 1e-6) < math.inf
    if mechanism.epsilon is not None:
        assert statement.epsilon <= mechanism.epsilon
        assert statement.epsilon > mechanism.epsilon * (1 - 1e-3)
    assert statement.neighbours == event.relation.value
    assert (release.n_examples is None) == (event.relation == Relation.RECORD)
    assert [pair[0] for pair in statement.epsilon_at] == [1e-4, 1e-5, 1e-6, 1e-8]
    assert sorted(statement.epsilon_at) == sorted(statement.epsilon_at, key=lambda pair: -pair[1])
    assert 0.5 < statement.best_guess < 1 and statement.promises and "group" in statement.unit_of_privacy
    assert {"clip", "noise_std", "noise_on"} <= set(release.mechanism)
    assert all(column.mean is None and column.std is None for column in release.columns)
    # Every value is on the grid.
    steps = np.array([column.step for column in release.columns])
    assert (release.rados / steps == np.rint(release.rados / steps)).all()


def test_the_noise_is_there_and_of_the_size_that_is_claimed(table):
    """2000 rados of one seed, so the same sums: what differs between two releases is the noise alone."""
    mechanism = rb.NoisyRados(noise_std=7.0)
    options = {"seed": 1, "i_know": True, "bounds": BOUNDS, "classes": ("no", "yes"), "label": "ill", "n_rados": 2000}
    first, second = (flat.craft(table, mechanism=mechanism, **options) for _ in range(2))
    noise = (first.rados - second.rados).ravel() / math.sqrt(2)
    # 6000 deviates: chi-square within 6.5 standard deviations, false alarm below 1e-9.
    assert abs(noise.var() / 49.0 - 1) < 6.5 * math.sqrt(2 / noise.size)
    assert abs(noise.mean()) < 6.5 * 7.0 / math.sqrt(noise.size)
    assert first.statement.epsilon == math.inf


def test_noise_on_examples_is_one_draw_a_row(table):
    """Two rados over all examples are the same: noise is drawn a row, not a rado."""
    signatures = rb.FixedSupport(300)
    with pytest.raises(rb.ArgumentError, match="signatures"):
        craft(table, rb.NoisyExamples(noise_std=1.0), signatures=signatures)  # there is one such signature only
    release = flat.craft(
        table,
        n_rados=1,
        mechanism=rb.NoisyExamples(noise_std=1.0),
        signatures=signatures,
        seed=0,
        i_know=True,
        **DECLARED,
    )
    again = flat.craft(
        table,
        n_rados=1,
        mechanism=rb.NoisyExamples(noise_std=1.0),
        signatures=signatures,
        seed=0,
        i_know=True,
        **DECLARED,
    )
    assert (release.rados != again.rados).all()  # a seed never fixes noise
    spread = (release.rados - again.rados) / math.sqrt(2 * 300)
    assert np.abs(spread).max() < 6.5  # one standard deviation a row, 300 rows; false alarm below 1e-9


@pytest.mark.parametrize("case", PRIVATE)
def test_what_the_table_holds_changes_neither_shape_nor_fields(case, table, tmp_path):
    """NaN, infinity, an undeclared class, text, odd rows: a file of the same shape and the same fields."""
    rows = [list(map(str, row.values())) for row in table.to_pylist()]
    clean, dirty = tmp_path / "clean.csv", tmp_path / "dirty.csv"
    clean.write_text("\n".join(["age,dose,ill", *(",".join(row) for row in rows)]) + "\n")
    rows[3][0], rows[5][1], rows[7][2] = "nan", "inf", "perhaps"
    rows[9][0], rows[11][1], rows[13], rows[15][2] = "1e300", "little", ["1"], ""
    dirty.write_text("\n".join(["age,dose,ill", *(",".join(row) for row in rows)]) + "\n")
    worse = craft(dirty, PRIVATE[case], counts=tmp_path / "counts.json")
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert counts["rows"] - counts["contribute"] == 6 and counts["beyond_bounds"]["age"] == 1
    assert counts["spoiled_by_this_alone"] == {"age": 1, "dose": 2, "ill": 2}  # one row is spoiled by all
    better = craft(clean, PRIVATE[case])
    assert {**worse.to_dict(), "id": ""} == {**better.to_dict(), "id": ""}  # an id is random
    assert worse.rados.shape == better.rados.shape
    assert "contributed" not in json.dumps(worse.to_dict())


def test_a_table_without_rows_gives_noise():
    nobody = pa.table(
        {"age": pa.array([], pa.float64()), "dose": pa.array([], pa.float64()), "ill": pa.array([], pa.string())}
    )
    release = craft(nobody, rb.NoisyRados(epsilon=1.0))
    assert release.rados.shape == (20, 3) and (release.rados != 0).all()
    with pytest.raises(rb.TableError, match="no rows"):  # here their number is public
        craft(nobody, rb.NoisyExamples(epsilon=1.0))


def test_one_class_alone_is_no_reason_to_refuse(table):
    alike = table.set_column(2, "ill", pa.array(["no"] * 300))
    assert craft(alike, rb.NoisyRados(epsilon=1.0)).classes == ("no", "yes")


def test_every_form_of_a_table_gives_the_same_sums(table, tmp_path, monkeypatch):
    """With noise taken away, the same seed gives the same rados from CSV, Parquet, frames and arrays."""
    monkeypatch.setattr(
        run_module, "rounded_normals", lambda key, scale, first, *shape, plane=0: np.zeros(shape, np.int64)
    )
    pa.csv.write_csv(table, tmp_path / "t.csv")
    x = np.column_stack([table["age"].to_numpy(), table["dose"].to_numpy()])
    y = table["ill"].to_pylist()
    options = {
        "n_rados": 9,
        "mechanism": rb.NoisyRados(epsilon=1.0),
        "seed": 3,
        "i_know": True,
        "classes": ("no", "yes"),
    }
    expected = flat.craft(table, label="ill", bounds=BOUNDS, **options).rados
    for engine in ("kernel", "reference"):
        for threads in (1, 3):
            for rows in (64, 65536):
                monkeypatch.setattr(Table, "batch_rows", rows)
                found = flat.craft(
                    tmp_path / "t.csv", label="ill", bounds=BOUNDS, engine=engine, threads=threads, **options
                ).rados
                assert found.tobytes() == expected.tobytes()
    assert flat.craft(x, y, bounds=[[0, 100], [0, 1]], **options).rados.tobytes() == expected.tobytes()


# ---- no floating-point randomness on a private path

FLOAT_RANDOMNESS = re.compile(r"^(.*\.)?(random|default_rng|normal|standard_normal|gauss|normalvariate|randn)$")


def float_randomness(package):
    """Names in the files of the private path that could draw random floats."""
    found = []
    for file in sorted((package / "holder").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            name = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "module", None) or ""
            names = [name, *(alias.name for alias in getattr(node, "names", ()) if hasattr(alias, "name"))]
            found += [f"{file.name}: {name}" for name in names if FLOAT_RANDOMNESS.match(str(name))]
    return found


def test_no_float_normal_is_on_the_private_path(tmp_path):
    package = Path(rb.__file__).parent
    assert float_randomness(package) == []
    copy = tmp_path / "radoboost"
    shutil.copytree(package / "holder", copy / "holder", ignore=shutil.ignore_patterns("__pycache__"))
    place = copy / "holder" / "curator.py"
    original = place.read_text()
    for planted in (
        "totals = totals + np.random.default_rng().normal(0, 1, totals.shape)",
        "from random import gauss",
        "import numpy.random",
    ):
        place.write_text(original + "\n" + planted + "\n")
        assert float_randomness(copy) != []


def test_a_float_normal_in_place_of_the_sampler_is_noticed(table, monkeypatch):
    """What is added to integers must be integers: half steps would show in the release."""

    def planted(key, scale, first_row, n_rows, n_columns, **options):
        return scale * np.random.default_rng(0).standard_normal((n_rows, n_columns))

    monkeypatch.setattr(run_module, "rounded_normals", planted)
    for mechanism in PRIVATE.values():
        with pytest.raises(TypeError):  # no sum of integers takes floats
            craft(table, mechanism)


# ---- refusals, before the table is opened


class Unopened:
    """A table that must not be touched."""

    def __getattr__(self, name):
        raise AssertionError(f"the table was opened: {name}")


REFUSALS = {
    "no bounds": ({"bounds": None}, "rado schema"),
    "bounds of other columns": ({"features": ["age", "weight"]}, "do not declare 'weight'"),
    "no classes": ({"classes": None}, "classes"),
    "a seed": ({"seed": 1}, "i_know"),
    "fixed support": ({"signatures": rb.FixedSupport(0.5)}, "leave signatures out"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused_before_the_table_is_opened(case):
    options, message = REFUSALS[case]
    with pytest.raises(rb.ArgumentError, match=message):
        craft(Unopened(), rb.NoisyRados(epsilon=1.0), **options)


def test_bounds_from_the_data_are_refused(table, tmp_path):
    place = tmp_path / "seen.json"
    place.write_text(json.dumps(rb.propose_schema(table, "ill").to_dict()))
    with pytest.raises(rb.ArgumentError, match="read off the table"):
        rb.craft(Unopened(), mechanism=rb.NoisyRados(epsilon=1.0), schema=place)
    assert rb.craft(table, n_rados=5, schema=place, mechanism=rb.Plain(scale="bounds")).classes == (
        "no",
        "yes",
    )  # plain rados may


@pytest.mark.parametrize("mechanism", [rb.NoisyRados, rb.NoisyExamples, lambda **k: rb.FeatureBand("x", **k)])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": 1.0, "delta": 1}, "delta"),
        ({"epsilon": "1"}, "epsilon"),
    ],
)
def test_parameters_that_promise_nothing_are_refused(mechanism, given, message):
    with pytest.raises(rb.ArgumentError, match=message):
        mechanism(**given)


def test_other_bad_parameters():
    for mechanism in (rb.NoisyRados, rb.NoisyExamples):
        with pytest.raises(rb.ArgumentError, match="epsilon, or noise_std"):
            mechanism()
        with pytest.raises(rb.ArgumentError, match="epsilon, or noise_std"):
            mechanism(epsilon=1.0, noise_std=1.0)
        with pytest.raises(rb.ArgumentError, match="noise_std must be positive"):
            mechanism(noise_std=0.0)
        with pytest.raises(rb.ArgumentError, match="clip must be a number"):
            mechanism(epsilon=1.0, clip=-1.0)
    with pytest.raises(rb.ArgumentError, match="needs a clip"):
        rb.NoisyExamples(epsilon=1.0, clip=None)


def test_noise_without_a_clipping_norm_promises_nothing(table):
    statement = craft(table, rb.NoisyExamples(noise_std=5.0, clip=None)).statement
    assert statement.epsilon == math.inf and statement.promises == ()


def test_a_seed_makes_every_claim_infinite(table):
    for mechanism in PRIVATE.values():
        statement = craft(table, replace(mechanism, i_know=True), seed=4).statement
        assert statement.epsilon == math.inf and statement.best_guess == 1.0 and statement.promises == ()
        assert "seed" in statement.not_protected[0] and "seed" in statement.random_source
        assert all(epsilon == math.inf for _, epsilon in statement.epsilon_at)


# ---- releases of one table add up


def test_releases_add_up(table, tmp_path):
    first = craft(table, rb.NoisyExamples(epsilon=1.0))
    first.save(tmp_path / "first.rado.parquet")
    second = craft(
        table,
        rb.NoisyExamples(epsilon=1.0),
        compose=[craft(table, rb.NoisyExamples(epsilon=1.0)), first, tmp_path / "first.rado.parquet"],
    )
    composed = second.statement.composed
    event = event_from_dict(second.statement.event)
    assert composed["earlier_releases"] == 2 and composed["neighbours"] == second.statement.neighbours
    assert composed["epsilon"] == epsilon_at(Composed((event, event, event)), 1e-6) > second.statement.epsilon
    # A record added or removed is two of them for a replacement; the other way round nothing can be said.
    records = craft(table, rb.NoisyRados(epsilon=1.0))
    mixed = craft(table, rb.NoisyExamples(epsilon=1.0), compose=[records]).statement.composed
    assert second.statement.epsilon < mixed["epsilon"] < math.inf
    backwards = craft(table, rb.NoisyRados(epsilon=1.0), compose=[first]).statement.composed
    assert backwards["epsilon"] == "infinite" and backwards["why"]
    with_plain = craft(table, rb.NoisyRados(epsilon=1.0), compose=[rb.craft(table, label="ill", n_rados=5)])
    assert with_plain.statement.composed["epsilon"] == "infinite" and "plain" in with_plain.statement.composed["why"]
    for event in ({"name": "Composed", "events": []}, {**first.statement.event, "noise_multiplier": 0.1}):
        forged = replace(first, statement=replace(first.statement, event=event))
        with pytest.raises(rb.ReleaseError, match="do not trust it"):
            craft(table, rb.NoisyExamples(epsilon=1.0), compose=[forged])


def test_statements_survive_the_file(table, tmp_path):
    for k, mechanism in enumerate(PRIVATE.values()):
        release = craft(table, mechanism, compose=[rb.craft(table, label="ill", n_rados=5)])
        release.save(tmp_path / f"{k}.rado.parquet")
        assert rb.load(tmp_path / f"{k}.rado.parquet").statement == release.statement


# ---- learning from noise


def test_the_moments_learner_uses_the_noise_it_is_told(rng):
    """Noise of twice a small eigenvalue of the covariance: taken off it does no harm, left there it does."""
    a, b = 0.2 * rng.normal(size=20_000), 0.02 * rng.normal(size=20_000)
    x = np.clip(np.column_stack([a + b, a - b]), -1, 1)
    y = (a / 0.2 + b / 0.02 + rng.normal(size=len(a)) > 0).astype(int)
    bounds = [[-1, 1]] * 2
    clean = rb.MomentsClassifier(
        n_rados=20_000, schema=bounds, mechanism=rb.Plain(scale="bounds", intercept=False)
    ).fit(x, y)
    release = rb.craft(
        x,
        y,
        classes=(0, 1),
        n_rados=20_000,
        schema=bounds,
        mechanism=rb.NoisyRados(noise_std=2.8, clip=10, intercept=False),
    )
    told = rb.MomentsClassifier().fit_rados(release)
    assert told.model_.learner["noise_variance"] == pytest.approx(2.8**2, rel=1e-6)

    def cosine(theta):
        other = clean.model_.theta
        return float(theta @ other / np.linalg.norm(theta) / np.linalg.norm(other))

    # The eigenvalue is known to 3 %, so the cosine is 0.9999; untold it is 0.98: far from both ends.
    untold = np.linalg.solve(np.cov(release.rados.T), release.rados.mean(axis=0))
    assert cosine(told.model_.theta) > 0.998 > 0.99 > cosine(untold)


@pytest.mark.parametrize("signatures", [None, rb.FixedSupport(0.25)])
def test_noise_variance_of_noisy_examples(signatures, rng):
    """What noise on rows adds to the variance among rados, against a release that has nothing but noise."""
    x = np.zeros((2000, 3))
    release = rb.craft(
        x,
        rng.integers(0, 2, 2000),
        signatures=signatures,
        classes=(0, 1),
        n_rados=4000,
        schema=[[-1, 1]] * 3,
        mechanism=rb.NoisyExamples(noise_std=2.0, clip=1.0, intercept=False),
    )
    # 12,000 values; rows are shared, so their sum of squares has its own spread: 8 standard deviations of both.
    expected = noise_variance_of_rados(release)
    assert release.rados.var(axis=0).mean() == pytest.approx(expected, rel=8 * math.sqrt(2 / 12000 + 2 / 6000))
    share = 0.5 if signatures is None else 0.25
    assert expected == pytest.approx(share * (1 - share) * 2000 * 4, rel=1e-3)
    assert rado_noise_std(release) == pytest.approx(2 * math.sqrt(2000 * share), rel=1e-3)


def test_prudential_boosting_from_noisy_rados(table):
    release = flat.craft(
        table, n_rados=100, mechanism=rb.NoisyExamples(noise_std=0.5), signatures=rb.FixedSupport(0.5), **DECLARED
    )
    clf = rb.RadoBoostClassifier(weak="prudential", n_rounds=50).fit_rados(release)
    learner = clf.model_.learner
    assert learner["weak"] == "prudential" and 0 < learner["cap"] <= 1 and learner["kappa"] >= 1
    assert (np.abs(clf.rounds_.edge) <= learner["cap"]).all()
    # From the release alone: the same again from its file's contents.
    assert (
        rb.RadoBoostClassifier(weak="prudential", n_rounds=50).fit_rados(release).model_.to_json()
        == clf.model_.to_json()
    )


def test_private_mechanisms_in_classifiers(table):
    x = np.column_stack([table["age"].to_numpy(), table["dose"].to_numpy()])
    y = np.array(table["ill"].to_pylist())
    clf = rb.MomentsClassifier(mechanism=rb.NoisyRados(epsilon=8.0), n_rados=30, schema=[[0, 100], [0, 1]])
    with pytest.raises(rb.ArgumentError, match="classes"):
        clf.fit(x, y)
    clf.set_params(classes=("no", "yes")).fit(x, y)
    assert clf.release_.n_examples is None and clf.predict(x).shape == (300,)
    x[4, 0] = np.nan
    with pytest.warns(rb.BudgetWarning, match="not all of these fits have a ledger"):
        clf.fit(x, y)
    # The order of the declaration is not that of the columns.
    frame = pd.DataFrame({"a": np.linspace(0, 1, 3000), "b": np.zeros(3000)})
    labels = np.where(frame["a"] > 0.5, "yes", "no")
    swapped = rb.MomentsClassifier(
        mechanism=rb.Moments(epsilon=20.0), classes=("no", "yes"), schema={"b": (0, 1), "a": (0, 1)}
    )
    assert swapped.fit(frame, labels).score(frame, labels) > 0.9
    with pytest.raises(rb.ArgumentError, match="do not declare 'c'"):
        swapped.fit(frame.assign(c=1.0), labels)
    gaussian = event_from_dict(
        flat.craft(table, n_rados=3, mechanism=rb.NoisyExamples(epsilon=1.0), **DECLARED).statement.event
    )
    assert isinstance(gaussian, Gaussian)


@pytest.mark.parametrize("marks", [{}, {"separator": ";"}, {"decimal": ","}])
def test_bounds_from_the_data_stay_refused_however_the_file_is_written(marks, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age;ill\n30;no\n40;yes\n")
    schema = write_schema(tmp_path / "seen.json", {"age": (30, 40)}, "ill", ["no", "yes"], inferred=["dialect"])
    with pytest.raises(rb.ArgumentError, match="how the file is written: this was read off the table"):
        flat.craft(path, schema=schema, mechanism=rb.Moments(1.0), **marks)
    with pytest.raises(rb.ArgumentError, match="two numbers"):
        flat.craft(path, bounds={"age": 5}, label="ill", classes=("no", "yes"), mechanism=rb.Moments(1.0), **marks)
