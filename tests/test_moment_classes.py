"""The mechanism `moments` for more than two classes: contributions, sensitivities, noise, plans, what is learned."""

import hashlib
import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import oracles
import radoboost as rb
from radoboost.holder.curator import Curator
from radoboost.holder.engines import ENGINES, cpu_rows, get_engine, reference
from radoboost.holder.mechanisms.moments.aggregations import (
    CLASS_CAP,
    GRID,
    MOST_SQUARES,
    WEIGHTS,
    MeanRado,
    SphereEdges,
    SphereRows,
    SumProducts,
    Whiten,
    WhitenedRows,
)
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.mechanisms.moments.stages import Stages
from radoboost.holder.runners.row_cache import CachePolicy, RowBatch
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.release.columns import Column
from radoboost.tables import open_table
from radoboost.tables.labels import LabelEncoder

CLASSES = (0, 1, 2, 3)
BOUNDS = [[-3, 3]] * 3
OPTIONS = {"bounds": BOUNDS, "classes": CLASSES}


@pytest.fixture(autouse=True)
def fixed_noise(monkeypatch):
    """Keys of noise by their number in the test, so that nothing here fails by chance."""
    numbers = itertools.count()
    monkeypatch.setattr(
        "secrets.token_bytes", lambda size=32: hashlib.sha256(str(next(numbers)).encode()).digest()[:size]
    )


@pytest.fixture
def table(rng):
    """Four classes on a circle, the last of which is rare."""
    y = rng.choice(4, 3000, p=[0.35, 0.3, 0.25, 0.1])
    centres = np.array([[1.2, 0.0, 0.3], [-1.0, 1.0, 0.0], [0.0, -1.2, 0.0], [1.5, 1.5, -1.0]])
    return np.clip(centres[y] + rng.normal(size=(3000, 3)) * 0.7, -3, 3), y


def sphere_rows(n_features, engine="kernel", classes=CLASSES):
    columns = tuple(Column(f"x{k}", "bounds", 1.0, -3.0, 3.0) for k in range(n_features))
    return SphereRows(get_engine(engine), LabelEncoder("y", classes), columns, True)


def only_batch(x, y):
    return next(iter(open_table(x, np.asarray(y), row_by_row=True).batches()))


def stages(x, y, mechanism=None, *, engine="kernel", threads=1, keeping=None, key=bytes(range(32))):
    source = open_table(x, np.asarray(y), row_by_row=True)
    run = Curator(source, get_engine(engine), ThreadRunner(threads, keeping=keeping), key)
    shape = NoiseShape(x.shape[1] + 1, n_classes=len(CLASSES))
    return Stages(mechanism or rb.Moments(1.0), shape, run, sphere_rows(x.shape[1], engine))


# ---- class weights


coefficients = st.one_of(
    st.floats(-60, 60), st.sampled_from([0.0, -0.0, 2.0**30, -(2.0**30), 1e300, math.inf, math.nan])
)
whole = st.one_of(st.integers(-GRID, GRID - 1), st.sampled_from([0, -GRID, GRID - 1]))


@given(st.data(), st.integers(0, 12), st.integers(1, 6), st.integers(3, 9), st.sampled_from([np.int16, np.int32]))
def test_class_weights_are_those_of_plain_python_in_both_engines(data, n, d, n_classes, kind):
    """Whatever rows, thetas and marks are; and no row has weights that are longer than the cap, as integers."""
    count = n * d
    rows = np.array(data.draw(st.lists(whole, min_size=count, max_size=count)), kind).reshape(d, n)
    marks = data.draw(st.lists(st.integers(0, n_classes), min_size=n, max_size=n))
    rows = np.vstack([rows, np.array(marks, kind).reshape(1, n)])
    count = n_classes * d
    theta = np.array(data.draw(st.lists(coefficients, min_size=count, max_size=count))).reshape(n_classes, d)
    most = data.draw(st.sampled_from([MOST_SQUARES, WEIGHTS**2 // 4]))
    with np.errstate(all="ignore"):
        expected = [oracles.class_weights(row, theta.tolist(), GRID, WEIGHTS, most) for row in rows.T.tolist()]
    found = reference.class_weights(rows, theta, GRID, WEIGHTS, most)
    assert found.T.tolist() == expected
    assert all(sum(v * v for v in weights) <= most for weights in expected)
    total = [[sum(expected[i][k] * int(rows[j, i]) for i in range(n)) for j in range(d)] for k in range(n_classes)]
    for engine in ENGINES:
        sums = get_engine(engine).tilt_classes(rows, theta, GRID, WEIGHTS, most)
        assert sums.dtype == np.int64 and sums.tolist() == total


def rows_and_thetas(rng, d, n_classes, n):
    """Rows as long as they can be, and thetas from none to such that every probability is 0 or 1."""
    rows = rng.normal(size=(d, n)) * (rng.random((d, n)) < rng.random())
    rows[0] += (rows == 0).all(axis=0)
    rows = np.trunc(rows / np.sqrt(np.square(rows).sum(axis=0)) * GRID).astype(np.int32)
    return np.vstack([rows, rng.integers(1, n_classes + 1, n)]).astype(np.int32), rng.normal(
        size=(n_classes, d)
    ) * 10.0 ** rng.uniform(-2, 3)


@given(st.integers(0, 2**32), st.integers(3, 28), st.integers(1, 12))
def test_a_row_moves_a_mean_rado_by_no_more_than_the_proof_says(seed, n_classes, d):
    """As exact integers over all slots: a row alone, with another class, and in place of another (M17)."""
    rng = np.random.default_rng(seed)
    rows, theta = rows_and_thetas(rng, d, n_classes, 6)
    engine = get_engine("kernel")

    def given_by(row):
        return engine.tilt_classes(row[:, None].copy(), theta, GRID, WEIGHTS, MOST_SQUARES).astype(object)

    reach = CLASS_CAP * GRID * WEIGHTS
    assert reach == pytest.approx(math.sqrt(GRID**2 * MOST_SQUARES), rel=1e-15)
    parts = [given_by(row) for row in rows.T]
    for row, part in zip(rows.T, parts, strict=True):
        assert (part**2).sum() <= GRID**2 * MOST_SQUARES
        other = row.copy()
        other[-1] = row[-1] % n_classes + 1
        assert ((given_by(other) - part) ** 2).sum() <= 4 * GRID**2 * MOST_SQUARES
    for part, other in itertools.pairwise(parts):
        assert ((part - other) ** 2).sum() <= 4 * GRID**2 * MOST_SQUARES


def test_capping_weights_one_by_one_would_not_be_enough(rng):
    """A planted violation: with each weight capped on its own, three classes reach 1 where the cap is 0.707."""
    theta, row = np.array([[0.0], [9.0], [9.0]]), np.array([[GRID], [1]])
    weights = reference.class_weights(row, theta, GRID, WEIGHTS, MOST_SQUARES)[:, 0] / WEIGHTS
    assert abs(np.linalg.norm(weights) - CLASS_CAP) < 1e-3
    free = reference.class_weights(row, theta, GRID, WEIGHTS, 2 * WEIGHTS**2)[:, 0] / WEIGHTS
    assert np.linalg.norm(np.clip(free, -CLASS_CAP, CLASS_CAP)) > 0.99


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1500])
def test_weights_do_not_depend_on_other_rows_and_engines_agree(n, rng):
    rows, theta = rows_and_thetas(rng, 5, 6, n)
    rows[-1, ::7] = 0
    total = reference.reference_tilt_classes(rows, theta, GRID, WEIGHTS, MOST_SQUARES)
    order, cut = rng.permutation(n), n // 3
    for kind in (np.int16, np.int32):
        some = np.minimum(rows, 2**15 - 1).astype(kind)
        expected = reference.reference_tilt_classes(some, theta, GRID, WEIGHTS, MOST_SQUARES)
        assert cpu_rows.compiled_tilt_class_rows(some, theta, GRID, WEIGHTS, MOST_SQUARES).tolist() == expected.tolist()
    parts = [rows[:, order[:cut]].copy(), rows[:, order[cut:]].copy()]
    sums = sum(cpu_rows.compiled_tilt_class_rows(part, theta, GRID, WEIGHTS, MOST_SQUARES) for part in parts)
    assert sums.tolist() == total.tolist()


def test_weights_are_those_of_multinomial_regression(rng):
    from scipy.special import softmax

    rows, theta = rows_and_thetas(rng, 4, 5, 200)
    theta /= np.abs(theta).max()
    weights = reference.class_weights(rows, theta, GRID, WEIGHTS, MOST_SQUARES).T / WEIGHTS
    scores = (rows[:-1] / GRID).T @ theta.T
    exact = np.eye(5)[rows[-1] - 1] - softmax(scores, axis=1)
    exact *= np.minimum(1.0, CLASS_CAP / np.linalg.norm(exact, axis=1))[:, None]
    assert np.abs(weights - exact).max() < 2.0 / WEIGHTS


# ---- what rows give to each stage


values = st.one_of(st.floats(-9, 9), st.sampled_from([0.0, 3.0, -3.0, math.nan, math.inf, 1e300]))
some_rows = st.lists(st.tuples(values, values, values, st.sampled_from([*CLASSES, 7])), min_size=1, max_size=20)
matrices = st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=4, max_size=4)


def contributions(x, y, a, theta, engine):
    """What each row gives: on the sphere, to the slots, and to a mean rado, shape (rows, slots, columns)."""
    batch, sphere = only_batch(x, y), sphere_rows(3, engine)
    white = WhitenedRows(sphere, a).rows(batch)
    on_sphere = SphereEdges(sphere).rows(batch)
    kept = Whiten(sphere.engine, a, by_class=True).rows(RowBatch(len(x), lambda: on_sphere))
    assert np.array_equal(kept, white)
    slots, means = [], []
    for i in range(len(x)):
        one = RowBatch(1, lambda i=i: white[:, [i]].copy())
        for task, found in (
            (SumProducts(sphere.engine, 4, "", 4), slots),
            (MeanRado(sphere.engine, theta, 1, 1), means),
        ):
            sums = task.empty()
            task.add(sums, 0, one)
            found.append(sums.vector)
    return on_sphere, white, np.array(slots).astype(object), np.array(means).astype(object)


@pytest.mark.parametrize("engine", ENGINES)
@given(some=some_rows, a=matrices, theta=st.lists(st.floats(-20, 20), min_size=16, max_size=16), data=st.data())
def test_contributions_keep_to_their_sensitivities_and_no_row_moves_another(engine, some, a, theta, data):
    a, theta = np.array(a), np.array(theta).reshape(4, 4)
    x, y = np.array([row[:3] for row in some]), np.array([row[3] for row in some])
    on_sphere, white, slots, means = contributions(x, y, a, theta, engine)
    for i, row in enumerate(some):
        mark = row[3] + 1 if row[3] in CLASSES else 0
        expected, _ = oracles.on_sphere(row[:3], mark, [-3.0] * 3, [3.0] * 3, 0.5, GRID)
        assert on_sphere[:, i].tolist() == [*expected, mark]
        assert white[:, i].tolist() == [*oracles.whitened(expected, a.tolist(), 1, GRID), mark]
        w = white[:-1, i].astype(object)
        for k in range(4):
            assert slots[i, k].tolist() == (w.tolist() if mark == k + 1 else [0] * 4)
        weights = oracles.class_weights(white[:, i].tolist(), theta.tolist(), GRID, WEIGHTS, MOST_SQUARES)
        assert means[i].tolist() == [[v * int(e) for e in w] for v in weights]
        assert (slots[i] ** 2).sum() <= GRID**2 and (means[i] ** 2).sum() <= GRID**2 * MOST_SQUARES
    place = data.draw(st.integers(0, len(some) - 1))
    if len(some) > 1:
        fewer = contributions(np.delete(x, place, axis=0), np.delete(y, place), a, theta, engine)
        for whole_table, part, axis in zip((on_sphere, white, slots, means), fewer, (1, 1, 0, 0), strict=True):
            assert np.array_equal(np.delete(whole_table, place, axis=axis), part)
    other = np.where(y == 7, 7, (y + data.draw(st.integers(1, 3))) % 4)
    moved = contributions(x, other, a, theta, engine)
    assert np.array_equal(moved[1][:-1], white[:-1])
    assert (((moved[2] - slots) ** 2).sum(axis=(1, 2)) <= 2 * GRID**2).all()
    assert (((moved[3] - means) ** 2).sum(axis=(1, 2)) <= 4 * GRID**2 * MOST_SQUARES).all()


def test_blocks_are_the_same_whatever_made_them(table):
    """For one noise key: both engines, 1 and 2 threads; rows kept in memory, in a file, and made again."""
    expected = None
    for engine in ENGINES:
        for threads in (1, 2):
            for keeping in (CachePolicy(), CachePolicy(memory_share=0.0), CachePolicy(0.0, 0.0)):
                made = stages(*table, engine=engine, threads=threads, keeping=keeping)
                made.run()
                found = {name: block.tobytes() for name, block in made.blocks.items()}
                expected = expected or found
                assert found == expected


# ---- the budget


@pytest.mark.parametrize(
    ("options", "reaches"),
    [
        ({}, {"sum": 1.0, "rounds": CLASS_CAP, "scores": 1.0}),
        ({"unit": "label"}, {"sum": math.sqrt(2), "rounds": 2 * CLASS_CAP, "scores": math.sqrt(2)}),
        ({"relation": "replace"}, {"sum": 2.0, "rounds": 2 * CLASS_CAP, "scores": math.sqrt(2)}),
    ],
)
def test_each_stage_has_the_reach_of_the_proof_and_counts_its_deviates(options, reaches):
    mechanism = rb.Moments(1.0, **options)
    stages = {stage.name: stage for stage in mechanism.stages(NoiseShape(6, max_rows=3, n_classes=5), 8)}
    for name, reach in reaches.items():
        assert stages[name].reach == pytest.approx(3 * reach * GRID, rel=1e-14)
    assert (stages["sum"].deviates, stages["rounds"].deviates, stages["scores"].deviates) == (30, 30, 6)
    two = mechanism.stages(NoiseShape(6, max_rows=3), 8)
    assert [stage.share for stage in stages.values()] == [stage.share for stage in two]


def test_classes_cost_no_epsilon_of_their_own():
    """The noise is that of three classes for 64 as well: one record is in one slot, whatever their number."""
    few, many = (rb.Moments(1.0).scales(8, NoiseShape(6, n_classes=k)) for k in (3, 64))
    assert all(many[name] == pytest.approx(few[name], rel=1e-6) for name in few)


def test_noise_has_the_deviation_that_the_release_declares(table):
    """Sums of an empty table are noise; the false-alarm probability is below 1e-6, by a chi-square law."""
    from scipy.stats import chi2

    x, y = table
    made = stages(x[:0], y[:0])
    made.run()
    noise, blocks = made.noise(), made.blocks
    for name, stage in (("moment:b", "sum"), ("sharpened", "rounds"), ("scores", "scores")):
        total = float(np.square(blocks[name] / noise[stage]).sum())
        low, high = chi2.ppf([2.5e-7, 1 - 2.5e-7], blocks[name].size)
        assert low < total < high, name
    assert noise["rounds"] == pytest.approx(
        rb.Moments(1.0).scales(8, NoiseShape(4, n_classes=4))["rounds"] / GRID, rel=1e-6
    )


# ---- whole releases


def learned(release):
    from radoboost.learner.moments import learn_released_moments

    return learn_released_moments(release)


def predicted(release, x):
    """Places of the largest scores, and probabilities."""
    from radoboost.learner.model import Model

    model = Model.from_release(release, learned(release).theta, {"name": "moments"})
    scores = model.scores(x)
    return model.choices(scores), model.probabilities(scores)


@pytest.mark.parametrize("word", ["auto", "linear", "degree-2", "degree-4"])
def test_every_plan_works_and_learns(word, table, tmp_path):
    x, y = table
    release = flat.craft(x, y, mechanism=rb.Moments(4.0), columns=word, **OPTIONS)
    release.save(tmp_path / "some.rado.parquet")
    release = rb.load(tmp_path / "some.rado.parquet")
    rounds, d = release.mechanism["rounds"], len(release.columns)
    shapes = {name: release.blocks[name].shape for name in ("moment:b", "sharpened", "theta", "scores")}
    assert shapes == {"moment:b": (4, d), "sharpened": (4 * rounds, d), "theta": (4 * rounds + 4, d), "scores": (2, 3)}
    places, chances = predicted(release, x)
    assert (places != y).mean() < 0.16 and np.abs(chances.sum(axis=1) - 1).max() < 1e-12
    fit = learned(release)
    assert fit.theta.shape == fit.standard_errors.shape == (4, d) and fit.link is None and fit.effects is None
    assert 0 < fit.uncertainty.noise_share < 0.2 and fit.uncertainty.empty_chance < 1e-6


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        (rb.Moments(2.0, unit="label"), {}),
        (rb.Moments(2.0, relation="replace"), {}),
        (rb.Moments(2.0, sharpen=False), {}),
        (rb.Moments(2.0, sharpen=False, unit="label"), {}),
        (rb.Moments(4.0), {"bounds": "private"}),
    ],
)
def test_every_unit_relation_and_private_bounds_work(mechanism, options, table):
    x, y = table
    release = flat.craft(x, y, mechanism=mechanism, **{**OPTIONS, "columns": "linear", **options})
    assert (predicted(release, x)[0] != y).mean() < 0.16
    assert release.statement.epsilon == pytest.approx(mechanism.epsilon, rel=1e-3)
    assert release.n_examples == (None if mechanism.hides_size else len(x))


def test_persons_and_raw_tables_work(table):
    x, y = table
    names = np.array(["low", "middle", "high", "top"])
    raw = {
        "a": x[:, 0].tolist(), "b": [None, *x[1:, 1]], "ward": np.where(x[:, 2] > 0, "A", "B").tolist(),
        "who": (np.arange(len(x)) // 2).tolist(), "grade": names[y].tolist(),
    }  # fmt: skip
    schema = rb.Schema({"a": rb.Number(-3, 3), "b": rb.Number(-3, 3, gaps=True), "ward": rb.Category(("A", "B"))})
    release = rb.craft(
        pa.table(raw),
        label="grade",
        classes=tuple(names.tolist()),
        mechanism=rb.Moments(4.0),
        columns="linear",
        schema=replace(rb.Schema.of(schema), person=rb.Person("who", 2)),
    )
    assert release.classes == tuple(names.tolist()) and "person" in release.statement.neighbours
    fit = learned(release)
    assert fit.theta.shape == (4, len(release.columns)) and np.isfinite(fit.standard_errors).all()


def test_middle_classes_of_an_order_are_not_masked(rng):
    """Five classes along one direction: least squares of each against the others hides those in the middle."""
    x = rng.normal(size=(8000, 4))
    score = x @ [2.0, -1.0, 1.0, 0.5] + 0.3 * rng.normal(size=8000)
    y = np.searchsorted(np.quantile(score, [0.2, 0.4, 0.6, 0.8]), score)
    for sharpen in (True, False):
        release = rb.craft(
            x, y, mechanism=rb.Moments(1.0, sharpen=sharpen), classes=range(5), columns="linear", schema=[[-3, 3]] * 4
        )
        places, _ = predicted(release, x)
        assert (places != y).mean() < 0.3
        assert np.bincount(places, minlength=5).min() > 800


def test_probabilities_are_about_right(table):
    """Rows that are predicted with a probability are right about as often."""
    x, y = table
    release = flat.craft(x, y, mechanism=rb.Moments(4.0), columns="linear", **OPTIONS)
    places, chances = predicted(release, x)
    top, hits = chances.max(axis=1), places == y
    for low, high in ((0.0, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.0)):
        some = (top >= low) & (top < high)
        assert abs(top[some].mean() - hits[some].mean()) < 0.06


@pytest.mark.slow
def test_standard_errors_are_about_how_far_noise_moves_theta(table):
    """Over 16 noises: all weights together, within a factor of 1.5."""
    x, y = table
    for sharpen in (True, False):
        fits = [
            learned(flat.craft(x, y, mechanism=rb.Moments(1.0, sharpen=sharpen), columns="linear", **OPTIONS))
            for _ in range(16)
        ]
        spread = np.std([fit.theta for fit in fits], axis=0, ddof=1)
        declared = np.sqrt(np.mean([np.square(fit.standard_errors) for fit in fits], axis=0))
        assert 1 / 1.5 < math.sqrt((spread**2).sum() / (declared**2).sum()) < 1.5


def test_an_empty_table_looks_empty(table):
    x, y = table
    release = flat.craft(x[:0], y[:0], mechanism=rb.Moments(1.0), columns="linear", **OPTIONS)
    assert learned(release).uncertainty.empty_chance > 1e-6


def test_rados_are_refused_before_anything_is_spent(table):
    x, y = table
    with pytest.raises(rb.errors.ArgumentError, match="no rados of a class can be drawn; leave n_rados out"):
        flat.craft(x, y, mechanism=rb.Moments(1.0), n_rados=100, **OPTIONS)
    release = flat.craft(x, y, mechanism=rb.Moments(1.0), columns="linear", **OPTIONS)
    assert release.n_rados == 0
    with pytest.raises(rb.errors.ReleaseError, match="of 4 classes have one second moment"):
        rb.draw_rados(release, 50)
    with pytest.raises(rb.errors.ReleaseError, match="4 classes"):
        _ = release.rados


def test_statements_say_how_many_classes_there_are(table):
    x, y = table
    for mechanism in (rb.Moments(1.0), rb.Moments(1.0, unit="label"), rb.Moments(1.0, relation="replace")):
        release = flat.craft(x[:200], y[:200], mechanism=mechanism, columns="linear", **OPTIONS)
        words = " ".join([*release.statement.promises, *release.statement.not_protected])
        assert "the 4 classes" in words and "two classes" not in words


def test_the_account_and_the_plan_know_the_number_of_classes():
    from radoboost.holder.privacy_cost import privacy_cost_of_mechanism

    asked = {"epsilon": 1.0, "n_examples": 5000, "n_features": 10}
    two, five = (
        privacy_cost_of_mechanism("moments", **asked),
        privacy_cost_of_mechanism("moments", n_classes=5, **asked),
    )
    assert five["expected"]["n_classes"] == 5 and "n_classes" not in two["expected"]
    assert five["plan"]["n_columns"] < two["plan"]["n_columns"]
    assert five["epsilon"] == pytest.approx(two["epsilon"], rel=1e-6)
    quarter, few = (
        rb.preview_plan(rb.Moments(1.0), 40_000, 10, n_classes=4).plan,
        rb.preview_plan(rb.Moments(1.0), 5000, 10).plan,
    )
    assert quarter.classes == few.classes and quarter.rounds >= few.rounds
    for wrong in (1, 65, 3.0, True):
        with pytest.raises(rb.errors.ArgumentError, match="number of classes must be a whole number from 2 to 64"):
            rb.preview_plan(rb.Moments(1.0), 100, 3, n_classes=wrong)
    with pytest.raises(rb.errors.ArgumentError, match="n-classes"):
        privacy_cost_of_mechanism("noisy-rados", epsilon=1.0, n_classes=3)


def test_the_number_of_declared_rows_is_held_against_the_number_of_classes(table):
    x, y = table
    with pytest.raises(rb.errors.ArgumentError, match="next to nothing"):
        rb.craft(
            x,
            y,
            mechanism=rb.Moments(0.1),
            columns="linear",
            classes=range(30),
            schema=replace(rb.Schema.of(BOUNDS), rows=600),
        )


def test_two_classes_have_no_slots():
    shape = NoiseShape(6)
    assert (shape.slots, shape.crowding) == (1, 1.0)
    sums = {stage.name: stage for stage in rb.Moments(1.0, unit="label").stages(shape, 8)}
    assert (sums["sum"].reach, sums["rounds"].reach, sums["sum"].deviates) == (2 * GRID, GRID, 6)
