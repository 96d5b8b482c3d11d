"""The mechanism `moments`: contributions, sensitivities, noise, statement, and what is learned from it."""

import json
import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import oracles
import radoboost as rb
from radoboost.holder import curator as run_module
from radoboost.holder.curator import Curator
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.mechanisms.moments import stages as stages_module
from radoboost.holder.mechanisms.moments.aggregations import (
    CAP,
    CONSTANT_VALUE,
    GRID,
    SphereRows,
    SumProducts,
    WhitenedRows,
)
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.mechanisms.moments.feature_plan import LINEAR_ROUNDS, planned_rounds
from radoboost.holder.mechanisms.moments.stages import WHITENING_FLOOR, Stages
from radoboost.holder.runners.row_cache import CachedRows, CachePolicy, DiskCache, MemoryCache, RecomputedRows
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.learner.moments import learn_released_moments
from radoboost.privacy import Relation, epsilon_at, event_from_dict
from radoboost.release.columns import Column
from radoboost.release.moment_math import HESSIAN_FLOOR, eigenvalue_floor, eigenvalue_noise, inverse_matrix_power
from radoboost.report.describe import describe_model
from radoboost.tables import open_table
from radoboost.tables.labels import LabelEncoder

BOUNDS = [[-3, 3]] * 3
OPTIONS = {"bounds": BOUNDS, "classes": (0, 1), "n_rados": 50, "columns": "linear"}


@pytest.fixture
def table(rng):
    x = np.clip(rng.normal(size=(3000, 3)) * [1.0, 0.5, 0.2], -3, 3)
    return x, (x @ [1.0, -2.0, 3.0] + 0.4 * rng.normal(size=3000) > 0).astype(int)


def sphere_rows(x, engine="kernel", intercept=True):
    columns = tuple(Column(f"x{k}", "bounds", 1.0, -3.0, 3.0) for k in range(x.shape[1]))
    return SphereRows(get_engine(engine), LabelEncoder("y", (0, 1)), columns, intercept)


def stages(x, y, mechanism=None, *, engine="kernel", threads=1, keeping=None, key=None):
    source = open_table(x, np.asarray(y), row_by_row=True)
    run = Curator(source, get_engine(engine), ThreadRunner(threads, keeping=keeping), key)
    return Stages(mechanism or rb.Moments(1.0), NoiseShape(x.shape[1] + 1), run, sphere_rows(x, engine))


def only_batch(x, y):
    return next(iter(open_table(x, np.asarray(y), row_by_row=True).batches()))


def contributions(x, y, a, theta, engine):
    """What each row gives to every stage, shape (rows, columns), and which rows are good."""
    batch, sphere = only_batch(x, y), sphere_rows(x, engine)
    q, good = sphere.on_sphere(batch)
    e = WhitenedRows(sphere, a).rows(batch)
    g = np.array([sphere.engine.tilt(e[:, [i]].copy(), theta, GRID, CAP) for i in range(e.shape[1])])
    for kind in (np.int16, np.int32):  # they are summed as they are, kept or not
        if np.abs(e).max(initial=0) < 2**15:
            assert sphere.engine.tilt(e.astype(kind), theta, GRID, CAP).tolist() == g.sum(axis=0).tolist()
    return q.T, e.T, g, good


values = st.one_of(st.floats(-9, 9), st.sampled_from([0.0, 3.0, -3.0, math.nan, math.inf, 1e300]))
rows = st.lists(st.tuples(values, values, values, st.sampled_from([0, 1, 7])), min_size=1, max_size=40)
matrices = st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=4, max_size=4)
thetas = st.lists(st.floats(-20, 20), min_size=4, max_size=4)


@pytest.mark.parametrize("engine", ENGINES)
@given(some=rows, a=matrices, theta=thetas, data=st.data())
def test_contributions_are_those_of_plain_python_and_no_row_moves_another(engine, some, a, theta, data):
    """At every stage: exact, within its sensitivity, odd in the label, and byte-identical without one other row."""
    a, theta = np.array(a), np.array(theta)
    x, y = np.array([row[:3] for row in some]), np.array([row[3] for row in some])
    q, e, g, good = contributions(x, y, a, theta, engine)
    for i, row in enumerate(some):
        sign = {0: -1, 1: 1}.get(row[3], 0)
        expected, fine = oracles.on_sphere(row[:3], sign, [-3.0] * 3, [3.0] * 3, CONSTANT_VALUE, GRID)
        assert (q[i].tolist(), bool(good[i])) == (expected, fine)
        assert e[i].tolist() == oracles.whitened(q[i].tolist(), a.tolist(), sign, GRID)
        assert g[i].tolist() == oracles.tilted(e[i].tolist(), theta.tolist(), GRID, CAP)
        for found, most in ((q[i], GRID), (e[i], GRID), (g[i], CAP * GRID)):
            assert sum(int(v) ** 2 for v in found.tolist()) <= most**2
    place = data.draw(st.integers(0, len(some) - 1))
    if len(some) > 1:
        fewer = contributions(np.delete(x, place, axis=0), np.delete(y, place), a, theta, engine)
        for whole, part in zip((q, e, g), fewer, strict=False):
            assert np.delete(whole, place, axis=0).tobytes() == np.ascontiguousarray(part).tobytes()
    q_flipped, e_flipped, g_flipped, _ = contributions(x, np.where(y == 7, 7, 1 - y), a, theta, engine)
    np.testing.assert_array_equal(q_flipped, q)
    np.testing.assert_array_equal(e_flipped, -e)
    moved = g_flipped - g
    assert ((moved.astype(object) ** 2).sum(axis=1) <= GRID**2).all()


def test_sums_do_not_depend_on_threads_or_batches(table, monkeypatch):
    x, y = table
    expected = None
    for threads in (1, 3):
        for size in (64, 100_000):
            monkeypatch.setattr("radoboost.tables.table.Table.batch_rows", size)
            sphere = sphere_rows(x)
            source = RecomputedRows(open_table(x, y, row_by_row=True), WhitenedRows(sphere, np.eye(4)))
            sums = ThreadRunner(threads).run(SumProducts(sphere.engine, 4), source)
            found = sums.vector.tobytes() + sums.products.tobytes()
            expected = expected or found
            assert found == expected


def test_blocks_are_the_same_whatever_made_them(table):
    """For one noise key: both engines, 1 and 2 threads; rows kept in memory, in a file, and made again."""
    expected = None
    for engine in ENGINES:
        for threads in (1, 2):
            for keeping in (CachePolicy(), CachePolicy(memory_share=0.0), CachePolicy(0.0, 0.0)):
                made = stages(*table, engine=engine, threads=threads, keeping=keeping, key=bytes(range(32)))
                made.run()
                found = {name: block.tobytes() for name, block in made.blocks.items()}
                expected = expected or found
                assert found == expected


def test_rows_are_kept_where_there_is_room(table):
    x, y = table
    source, task = open_table(x, y, row_by_row=True), WhitenedRows(sphere_rows(x), np.eye(4))
    kept = []
    for keeping, kind, place in (
        (CachePolicy(), CachedRows, MemoryCache),
        (CachePolicy(memory_share=0.0), CachedRows, DiskCache),
        (CachePolicy(0.0, 0.0), RecomputedRows, None),
    ):  # fmt: skip
        found = ThreadRunner(2, keeping=keeping).keep(source, task, len(x))
        assert type(found) is kind and (place is None or type(found.place) is place)
        kept.append(np.concatenate([batch.rows() for batch in found.batches()], axis=1))
    assert (kept[0] == kept[1]).all() and (kept[0] == kept[2]).all() and kept[0].dtype == np.int16
    assert type(ThreadRunner(2).keep(source, task, None)) is RecomputedRows  # for a single pass nothing is kept


def test_a_value_of_exactly_the_grid_is_kept():
    """One column and no constant: every row is at +2**15 or -2**15, and the former does not fit 16 bits."""
    x, y = np.array([[2.0], [-1.0], [3.0]]), np.array([1, 1, 0])
    source = open_table(x, y, row_by_row=True)
    kept = ThreadRunner(1).keep(source, WhitenedRows(sphere_rows(x, intercept=False), np.eye(1)), 3)
    assert np.concatenate([batch.rows() for batch in kept.batches()], axis=1).tolist() == [[2**15, -(2**15), -(2**15)]]


def test_a_full_disk_is_no_reason_to_stop(table, monkeypatch):
    x, y = table
    source, task = open_table(x, y, row_by_row=True), WhitenedRows(sphere_rows(x), np.eye(4))

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", full)
        assert type(ThreadRunner(2, keeping=CachePolicy(memory_share=0.0)).keep(source, task, len(x))) is RecomputedRows
    monkeypatch.setattr("os.pwrite", full)
    assert type(ThreadRunner(2, keeping=CachePolicy(memory_share=0.0)).keep(source, task, len(x))) is RecomputedRows


def test_passes_can_be_pickled(table):
    x, y = table
    batch, sphere = only_batch(x, y), sphere_rows(x)
    for task in (sphere, pickle.loads(pickle.dumps(sphere))):
        sums = task.empty()
        task.add(sums, 0, batch)
        again = sums.merge(sums)
        assert (again.products == 2 * sums.products).all() and again.counts.n_rows == 2 * sums.counts.n_rows == 6000
    whitened = WhitenedRows(sphere, np.eye(4))
    assert (pickle.loads(pickle.dumps(whitened)).rows(batch) == whitened.rows(batch)).all()


@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize("sharpen", [True, False])
def test_the_statement_is_what_the_accountant_says(unit, sharpen, table):
    release = flat.craft(*table, mechanism=rb.Moments(1.0, 1e-6, unit=unit, sharpen=sharpen), **OPTIONS)
    statement = release.statement
    event = event_from_dict(statement.event)
    assert event.relation == (Relation.RECORD if unit == "record" else Relation.LABEL)
    assert statement.epsilon == epsilon_at(event, 1e-6)
    assert 0.999 < statement.epsilon <= 1.0
    assert (release.n_examples is None) == (unit == "record")
    assert release.blocks["moment:C"].shape == (4, 4) and release.rados.shape == (50, 4)
    assert ("theta" in release.blocks) == sharpen
    if sharpen:
        assert len(release.blocks["sharpened"]) in [rounds for _, rounds, _ in LINEAR_ROUNDS]
    assert any("protected" in sentence for sentence in statement.not_protected[:1]) or unit == "record"


def test_shares_add_up_to_the_budget():
    """For both numbers of rounds, from the noise that is really there."""
    reach = {"counts": GRID, "second": GRID**2, "sum": GRID, "whitened": GRID**2, "rounds": CAP * GRID}
    reach["scores"] = GRID
    for unit, double in (("record", 1), ("label", 2)):
        for sharpen, counts in ((True, (8, 32)), (False, (0,))):
            mechanism = rb.Moments(2.0, 1e-5, unit=unit, sharpen=sharpen)
            for n_rounds in counts:
                scales = mechanism.scales(n_rounds, NoiseShape(6))
                squares = 0.0
                for stage, scale in scales.items():
                    more = {"sum": double, "rounds": double, "scores": math.sqrt(double)}
                    sensitivity = reach[stage] * more.get(stage, 1)
                    times = n_rounds if stage == "rounds" else 1
                    squares += times * (sensitivity / scale) ** 2 if scale else 0.0
                assert squares == pytest.approx(mechanism.distance(NoiseShape(6)) ** 2, rel=1e-12)
                assert epsilon_at(mechanism.event(NoiseShape(6), n_rounds), 1e-5) <= 2.0
            assert (scales["second"] == 0) == (unit == "label")


def test_noise_is_there_and_of_the_size_that_is_claimed():
    """A table of nobody: every number is noise. 300 releases; 6.5 standard deviations, false alarm below 1e-8."""
    nobody = np.zeros((0, 3))
    mechanism = rb.Moments(1.0)
    diagonal, beside, total, means, whitened, beside_whitened = [], [], [], [], [], []
    for _ in range(300):
        made = stages(nobody, np.zeros(0, dtype=int), mechanism)
        made.run()
        diagonal += np.diag(made.blocks["moment:C"]).tolist()
        beside += made.blocks["moment:C"][np.triu_indices(4, 1)].tolist()
        total += made.blocks["moment:b"][0].tolist()
        whitened += np.diag(made.blocks["moment:C2"]).tolist()
        beside_whitened += made.blocks["moment:C2"][np.triu_indices(4, 1)].tolist()
        means.append(made.blocks["sharpened"])
        np.testing.assert_array_equal(made.blocks["moment:C"], made.blocks["moment:C"].T)
    noise = made.noise()
    in_rounds = [(np.ravel([mean[k] for mean in means]), noise["rounds"]) for k in range(made.plan.rounds)]
    for sample, std in (
        (diagonal, noise["second"]), (beside, noise["second"] / math.sqrt(2)), (total, noise["sum"]),
        (whitened, noise["whitened"]), (beside_whitened, noise["whitened"] / math.sqrt(2)), *in_rounds,
    ):  # fmt: skip
        assert abs(np.var(sample) / std**2 - 1) < 6.5 * math.sqrt(2 / len(sample))
        assert abs(np.mean(sample)) < 6.5 * std / math.sqrt(len(sample))


@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize("sharpen", [True, False])
@pytest.mark.parametrize("rows", [300, 3000])
def test_what_follows_from_the_blocks_follows_from_them_as_released(unit, sharpen, rows, table):
    """Whitening, the number of rounds and every theta, to the last bit: nothing exact went into them."""
    x, y = table
    mechanism = rb.Moments(1.0, unit=unit, sharpen=sharpen)
    release = flat.craft(x[:rows], y[:rows], mechanism=mechanism, **OPTIONS)
    blocks, noise = release.blocks, release.mechanism["noise"]
    floor = eigenvalue_floor(eigenvalue_noise(noise, "second"), 4, WHITENING_FLOOR if sharpen else HESSIAN_FLOOR)
    a = stages_module._inverse_root_on_grid(blocks["moment:C"], floor)
    assert a.tobytes() == blocks["whitening"].tobytes()
    if sharpen:
        rounds, eta = planned_rounds(False, mechanism.strength(np.trace(blocks["moment:C"]), NoiseShape(4)) / 4)
        assert rounds == release.mechanism["rounds"] == len(blocks["sharpened"])
        assert (rounds == 8) == (rows == 300 or unit == "label")  # which has half the strength
        hessian = inverse_matrix_power(
            blocks["moment:C2"], eigenvalue_floor(eigenvalue_noise(noise, "whitened"), 4, HESSIAN_FLOOR), 1.0
        )
        theta = stages_module._theta_on_grid(4 * (hessian @ blocks["moment:b"][0]))
        assert theta.tobytes() == blocks["theta"][0].tobytes()
        for k, mean in enumerate(blocks["sharpened"]):
            theta = stages_module._theta_on_grid(blocks["theta"][k] + 4 * eta * (hessian @ mean))
            assert theta.tobytes() == blocks["theta"][k + 1].tobytes()


def test_the_number_of_rounds_follows_from_the_noisy_trace(table):
    """Of as many records as are at the limit: by the exact trace it would always be the same number."""
    x, y = table
    mechanism = rb.Moments(1.0)
    limit = round(100 * 4 / mechanism.distance(NoiseShape(4)))
    seen = set()
    for _ in range(24):
        release = flat.craft(x[:limit], y[:limit], mechanism=mechanism, **OPTIONS)
        rounds, _ = planned_rounds(False, np.trace(release.blocks["moment:C"]) * mechanism.distance(NoiseShape(4)) / 4)
        assert release.mechanism["rounds"] == rounds
        seen.add(rounds)
    assert seen == {8, 32}


def test_standard_errors_stay_near_what_columns_allow_beside_a_constant_one(table):
    x, y = table
    x = np.column_stack([x, np.full(len(x), 0.5)])
    for _ in range(5):
        release = rb.craft(x, y, mechanism=rb.Moments(1.0), classes=(0, 1), n_rados=1, schema=[[-3, 3]] * 4)
        fit = learn_released_moments(release)
        assert fit.standard_errors[:3].max() < np.abs(fit.theta[:3]).max()  # the classes are nearly separable


def test_what_the_table_holds_changes_neither_shape_nor_fields(table, tmp_path):
    x, y = table
    mechanism = rb.Moments(0.5)
    clean = flat.craft(x, y, mechanism=mechanism, **OPTIONS)
    dirty, labels = x.copy(), y.copy()
    dirty[3, 0], dirty[4, 1], dirty[5, 2], labels[6] = np.nan, np.inf, 99.0, 5
    worse = flat.craft(dirty, labels, mechanism=mechanism, counts=tmp_path / "counts.json", **OPTIONS)
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert counts == {
        "rows": 3000, "contribute": 2997, "spoiled_by_this_alone": {"x0": 1, "x1": 1, "x2": 0, "y": 1},
        "beyond_bounds": {"x0": 0, "x1": 0, "x2": 1},
    }  # fmt: skip
    step = {"step": 0.0}
    for a, b in zip(clean.to_dict()["columns"], worse.to_dict()["columns"], strict=True):
        assert {**a, **step} == {**b, **step}  # the rados' grid follows from released numbers
    assert clean.statement == worse.statement and clean.mechanism.keys() == worse.mechanism.keys()


def test_learning(table):
    x, y = table
    reference = rb.MomentsClassifier(random_state=0).fit(x, y).score(x, y)
    for epsilon, slack in ((1.0, 0.05), (20.0, 0.02)):
        for unit in ("record", "label"):
            for sharpen in (True, False):
                release = flat.craft(x, y, mechanism=rb.Moments(epsilon, unit=unit, sharpen=sharpen), **OPTIONS)
                clf = rb.MomentsClassifier().fit_rados(release)
                assert clf.score(x, y) > reference - slack
                assert clf.model_.learner["empty_chance"] < 1e-6
                assert clf.standard_errors_.tolist() == clf.model_.learner["standard_errors"]
                np.testing.assert_allclose(
                    x @ clf.coef_[0] + clf.intercept_[0], clf.decision_function(x), rtol=1e-9, atol=1e-9
                )


@pytest.mark.parametrize(
    ("unit", "sharpen", "epsilon"),
    [("record", False, 3.0)]
    + [pytest.param(*one, marks=pytest.mark.slow)
       for one in (("label", False, 3.0), ("label", True, 3.0), ("record", True, 3.0), ("record", True, 0.3))],
)  # fmt: skip
def test_standard_errors_are_those_of_the_noise(unit, sharpen, epsilon, table, monkeypatch):
    """Over 40 releases that differ in the noise after the whitening.

    A standard deviation of 40 normal numbers is within a factor of 1.9 but for a chance of 1e-7 (chi-square). What is
    added to that is for the derivative of mean rados, which is that of a model. They are given the scale of the link.
    """
    real = run_module.rounded_normals

    def same_whitening(key, scale, *shape, plane):
        return real(bytes(32) if plane in (0, 1) else key, scale, *shape, plane=plane)

    monkeypatch.setattr(run_module, "rounded_normals", same_whitening)
    mechanism = rb.Moments(epsilon, unit=unit, sharpen=sharpen)
    fits = [learn_released_moments(flat.craft(*table, mechanism=mechanism, **OPTIONS)) for _ in range(40)]
    claimed = np.sqrt(np.mean([(fit.standard_errors / fit.link.scale) ** 2 for fit in fits], axis=0))
    ratios = np.std([fit.theta / fit.link.scale for fit in fits], axis=0, ddof=1) / claimed
    assert (np.abs(np.log2(ratios)) < (1.2 if sharpen else 0.95)).all()


def test_a_column_without_information_does_not_change_the_scores(rng):
    """However little it varies, and so however far whitening stretches it."""
    x = rng.uniform(-3, 3, size=(20_000, 2))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-1.5 * x[:, 0]))).astype(int)
    sizes = []
    for spread in (1.0, 0.1, 0.01):
        x[:, 1] = np.clip(spread * rng.normal(size=20_000), -3, 3)
        release = rb.craft(
            x, y, mechanism=rb.Moments(20.0, unit="label"), classes=(0, 1), columns="linear", schema=[[-3, 3]] * 2
        )
        sizes.append(np.abs(rb.MomentsClassifier().fit_rados(release).decision_function(x)).mean())
    assert max(sizes) < 2 * min(sizes) and 0.5 < min(sizes) < 5  # the true log odds: 2.25 on average


def test_a_release_that_may_be_empty_says_so_and_keeps_its_classifier(rng):
    """Of ten releases of 60 rows at epsilon 0.01, each warns with probability 0.9: fewer than 2 do once in 1e8."""
    x, y = rng.uniform(-1, 1, (60, 3)), (rng.random(60) < 0.9).astype(int)
    warned = 0
    for _ in range(10):
        release = flat.craft(x, y, mechanism=rb.Moments(0.01), **OPTIONS)
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always")
            clf = rb.MomentsClassifier().fit_rados(release)
        learner = clf.model_.learner
        says = [str(notice.message) for notice in notices if notice.category is rb.NoiseWarning]
        assert bool(says) == (learner["empty_chance"] > 0.05)
        warned += bool(says)
        assert all("an empty table gives a release like this one" in text for text in says)
        assert "an empty table gives a release" in " ".join(describe_model(clf.model_).split())
        assert 0 <= learner["noise_share"] <= 1
        assert np.abs(clf.coef_).max() > 0  # it is not thrown away
    assert warned >= 2
    with pytest.raises(rb.ArgumentError, match="more noise than can be sampled"):
        flat.craft(x, y, mechanism=rb.Moments(0.001), **OPTIONS)


@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize("sharpen", [True, False])
@pytest.mark.parametrize(("rows", "columns", "intercept"), [(0, 2, True), (1, 1, True), (1, 1, False), (40, 3, False)])
def test_next_to_nothing_gives_numbers_all_the_same(unit, sharpen, rows, columns, intercept, rng):
    x, y = rng.uniform(-1, 1, (rows, columns)), rng.integers(0, 2, rows)
    x[:, :1] = 0.3
    for epsilon in (0.05, 1.0, 1000.0):
        mechanism = rb.Moments(epsilon, unit=unit, sharpen=sharpen)
        release = rb.craft(
            x,
            y,
            classes=(0, 1),
            n_rados=3,
            schema=[[-1, 1]] * columns,
            mechanism=replace(mechanism, intercept=intercept),
        )
        fit = learn_released_moments(release)
        assert np.isfinite(fit.theta).all()
        assert np.isfinite(fit.standard_errors).all()
        assert 0 <= fit.uncertainty.empty_chance <= 1 and 0 <= fit.uncertainty.noise_share <= 1


@pytest.mark.slow
def test_an_empty_table_looks_empty_as_often_as_it_is_said_to(table):
    """Of 60 empty tables, each has a chance of at most 0.1 to seem less likely than 0.1: 24 or more, of 1e-9."""
    x, y = table
    empty = [
        learn_released_moments(flat.craft(x[:0], y[:0], mechanism=rb.Moments(1.0), **OPTIONS)).uncertainty.empty_chance
        for _ in range(60)
    ]
    assert sum(chance < 0.1 for chance in empty) < 24
    full = learn_released_moments(flat.craft(x, y, mechanism=rb.Moments(1.0), **OPTIONS))
    assert full.uncertainty.empty_chance < 1e-9 and full.uncertainty.noise_share < 0.2


def test_rados_meet_the_released_moments(table):
    release = flat.craft(*table, mechanism=rb.Moments(2.0), **{**OPTIONS, "n_rados": 400})
    rados = release.rados.copy()
    rados[:, -1] *= release.mechanism["constant"]
    whitened = rados @ release.blocks["whitening"]
    values, vectors = np.linalg.eigh(release.blocks["moment:C2"] / 4)
    projected = (vectors * np.maximum(values, 0)) @ vectors.T
    scale = np.abs(whitened).max()
    np.testing.assert_allclose(whitened.mean(axis=0), release.blocks["moment:b"][0] / 2, atol=1e-5 * scale)
    np.testing.assert_allclose(np.cov(whitened.T, bias=True), projected, atol=1e-4 * scale**2)
    assert rb.RadoBoostClassifier(n_rounds=20).fit_rados(release).coef_.shape == (1, 3)


def test_the_file_keeps_every_block(table, tmp_path):
    release = flat.craft(*table, mechanism=rb.Moments(1.0), **OPTIONS)
    release.save(tmp_path / "m.rado.parquet")
    again = rb.load(tmp_path / "m.rado.parquet")
    assert list(again.blocks) == list(release.blocks)
    for name, block in release.blocks.items():
        assert again.blocks[name].tobytes() == block.tobytes()
    here, there = (rb.MomentsClassifier().fit_rados(r).model_.to_json() for r in (release, again))
    assert here == there


def test_refusals():
    cases = (({"unit": "person"}, "unit must be"), ({"sharpen": 1}, "sharpen must be"), ({"epsilon": 0}, "epsilon"))
    for bad, message in cases:
        with pytest.raises(rb.ArgumentError, match=message):
            rb.Moments(**{"epsilon": 1.0, **bad})
    declared = {"label": "y", "bounds": {"a": (0, 1)}, "classes": (0, 1)}
    with pytest.raises(rb.ArgumentError, match="leave signatures out"):
        flat.craft("none.csv", mechanism=rb.Moments(1.0), signatures=rb.FixedSupport(5), **declared)
    with pytest.raises(rb.ArgumentError, match="no signatures for a seed"):
        flat.craft("none.csv", mechanism=rb.Moments(1.0), seed=1, i_know=True, **declared)
    with pytest.raises(rb.ArgumentError, match="no signatures for a seed"):
        flat.craft("none.csv", mechanism=rb.Moments(1.0), seed=1, **declared)
    assert rb.Moments(0.005, unit="label").distance(NoiseShape(4)) > 0  # no second moment needs noise here
    nobody = pa.table({"a": pa.array([], pa.float64()), "y": pa.array([], pa.int64())})
    release = flat.craft(nobody, mechanism=rb.Moments(1.0), n_rados=5, **declared)
    assert release.rados.shape == (5, 2)


def test_too_little_memory_for_kept_rows_is_no_reason_to_stop(table, monkeypatch):
    """The number of rows is protected: it must not decide whether a release comes out."""
    x, y = table
    source, task = open_table(x, y, row_by_row=True), WhitenedRows(sphere_rows(x), np.eye(4))

    def full(self, rows):
        raise MemoryError

    monkeypatch.setattr(MemoryCache, "put", full)
    assert type(ThreadRunner(2).keep(source, task, len(x))) is RecomputedRows


@pytest.mark.parametrize("unit", ["record", "label"])
def test_a_signalling_nan_is_no_reason_to_stop_where_warnings_are_errors(unit, table):
    """Conversions raise a flag for one: of big-endian float32, half floats, masked arrays."""
    x, y = table
    x, y = x[:200].astype(np.float32), y[:200]
    bits = x.view(np.uint32).copy()
    bits[3, 1] = 0x7F800001
    foreign = bits.astype(">u4").view(">f4")
    halves = x.astype(np.float16).view(np.uint16).copy()
    halves[3, 1] = 0x7C01
    columns = {f"x{k}": pa.array(halves[:, k].view(np.float16)) for k in range(3)}
    bounds = {f"x{k}": (-3, 3) for k in range(3)}
    with warnings.catch_warnings(record=True):  # of the row that gives nothing
        warnings.simplefilter("error")
        for form, limits in (
            (foreign, BOUNDS),
            (np.ma.masked_array(bits.view(np.float32), mask=np.zeros(bits.shape, bool)), BOUNDS),
            (pa.table(columns), bounds),
        ):
            mechanism = rb.Moments(1.0, unit=unit)
            label = "y" if unit == "label" else None
            release = rb.craft(form, y, label=label, mechanism=mechanism, classes=(0, 1), n_rados=3, schema=limits)
            assert release.rados.shape == (3, 4)


def test_labels_alone_are_learned_as_well_as_a_record_release_that_protects_them_as_much(rng):
    """A record release at epsilon 0.46 is one of 0.97 for a flipped label; exact second moments must be no handicap."""
    x = rng.uniform(-1, 1, size=(6000, 8))
    x[:, 7] = x[:, 6] + 0.02 * rng.normal(size=6000)  # hardly anything in one direction
    y = (x[:, 0] * x[:, 1] + 0.3 * x[:, 2] > 0).astype(int)
    errors = {}
    for mechanism in (rb.Moments(0.46), rb.Moments(1.0, unit="label")):
        found = []
        for _ in range(4):
            release = rb.craft(x, y, mechanism=mechanism, classes=(0, 1), counts=None, schema=[[-1, 1]] * 8)
            found.append(1 - rb.MomentsClassifier().fit_rados(release).score(x, y))
        errors[mechanism.protects] = float(np.mean(found))
    assert errors["label"] < errors["record"] + 0.03, errors
