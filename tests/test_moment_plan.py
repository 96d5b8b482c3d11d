"""Plans of `moments`: their rule, how wide they may be, and that all of a plan follows from what is released."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.holder.curator import Curator
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.feature_maps import CLASSES, DEGREES, MOST_COLUMNS, n_products_in_class, product_classes_that_fit
from radoboost.holder.gaussian_noise import TOTAL_VARIATION
from radoboost.holder.mechanisms.moments import stages as stages_module
from radoboost.holder.mechanisms.moments.aggregations import CONSTANT_VALUE, GRID
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.mechanisms.moments.feature_plan import (
    MOST_ROUNDS,
    FeatureCandidates,
    beta_rank_levels,
    choose_feature_plan,
    columns_of_plan,
    feature_map_of_plan,
    read_input_moments,
)
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.row_cache import CachePolicy
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.privacy import Relation
from radoboost.privacy.budget_filter import cost_in_filter
from radoboost.release.columns import Column
from radoboost.tables import open_table
from radoboost.tables.column_types import Category, Number
from radoboost.tables.schema import Schema

KEY = b"a key of noise, fixed for a test"
SCHEMA = Schema({"age": Number(0, 100), "dose": Number(-1, 3, fill=0, gaps=True), "ward": Category(("A", "B", "C"))})
WORDS = ("degree-2", "degree-5")
WIDE = 17
SQUARES = ((2,),)


# ---- tables, and what is made of them


def numbers(n_rows, n_columns=2, seed=0):
    """A frame of numbers within [-3, 3], whose class depends on them."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(0.3, 1.0, (n_rows, n_columns)) * np.linspace(1, 0.4, n_columns), -3, 3)
    frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(n_columns)])
    return frame.assign(y=(x[:, 0] ** 2 - x[:, 1] + 0.5 * rng.normal(size=n_rows) > 0.5).astype(int))


def cells(n_rows, seed=0):
    """A raw frame that the schema reads, with gaps."""
    rng = np.random.default_rng(seed)
    dose = rng.normal(1, 1, n_rows)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, n_rows), "dose": np.where(dose > 2, np.nan, dose)})
    return frame.assign(ward=rng.choice(["A", "B", "C", "D"], n_rows), y=rng.integers(0, 2, n_rows))


def asked_for(kind, word, n_columns):
    """What is asked for, with bounds that are declared, or searched for, or with a schema, or with persons."""
    about = {"label": "y", "classes": (0, 1, 2) if kind == "three classes" else (0, 1), "columns": word}
    declared = rb.Schema.of({f"x{k}": (-3.0, 3.0) for k in range(n_columns)})
    if kind == "schema":
        declared = SCHEMA
    if kind == "private bounds":
        declared = {"x0": "private", **{f"x{k}": (-3, 3) for k in range(1, n_columns)}}
    if kind == "persons":
        declared = replace(declared, person=rb.Person("who", 2))
    return CraftRequest.of(declared, rb.Moments(1.0), choice_key=bytes(32), **about)


KINDS = ("declared", "private bounds", "schema", "persons", "three classes")


def opened(asked, n_rows, n_columns):
    schema = asked.reading
    frame = numbers(n_rows, n_columns) if schema is None else cells(n_rows)
    if asked.person:
        frame["who"] = np.arange(n_rows) // 3
    if len(asked.classes) == 3:
        frame["y"] += frame["x0"] > 1
    return open_table(pa.Table.from_pandas(frame), label="y", row_by_row=True, schema=schema, person=asked.person)


def made_of(mechanism, asked, source, *, engine="auto", threads=1, keeping=None, run=Curator):
    mechanism.check(asked)
    return mechanism.make(asked, run(source, get_engine(engine), ThreadRunner(threads, keeping=keeping), KEY))


def make(mechanism, kind, word, n_rows=600, n_columns=2, **how):
    asked = asked_for(kind, word, n_columns)
    return made_of(mechanism, asked, opened(asked, n_rows, n_columns), **how)


def recomputed(made, mechanism):
    """Plan and map by what a release holds, and its maker declared, alone; the map is None where there is none."""
    inputs = made.columns[:-1] if made.map is None else made.map.inputs
    limits = {entry.name: (entry.low, entry.high) for entry in inputs}
    groups = SCHEMA.groups if "ward=A" in limits else {}
    outlook = FeatureCandidates(tuple(limits), groups, made.parameters["plan"]["word"])
    first, stage = ("moment:C", "second") if made.map is None else ("outline", "outline")
    second, noise = made.blocks[first], made.parameters["noise"][stage]
    shape = NoiseShape(
        len(limits) + 1, len(made.parameters.get("searched", ())), made.parameters.get("max_rows", 1),
        made.parameters.get("person", ""), bool(groups), outlook.widest,
        n_classes=max(2, len(made.blocks["moment:b"])),
    )  # fmt: skip
    size = max(float(np.trace(second)), 0.0)
    strength = mechanism.strength(size, shape)
    plan = mechanism.choose(outlook, size, strength, shape)
    if not plan.beyond:
        return plan, None
    columns = [Column(name, "bounds", 1 / GRID, *ends) for name, ends in limits.items()]
    return plan, feature_map_of_plan(outlook, plan, columns, read_input_moments(second, noise))


def assert_recomputed(made, mechanism):
    plan, feature_map = recomputed(made, mechanism)
    assert {**plan.to_dict(), "word": made.parameters["plan"]["word"]} == made.parameters["plan"]
    assert feature_map == made.map  # to the last bit: all of it is data
    assert (made.parameters["rounds"], made.parameters["eta"]) == (plan.rounds, plan.eta)
    if feature_map is not None:
        assert made.columns[:-1] == columns_of_plan(feature_map)
        assert len(made.columns) == plan.n_columns == len(made.blocks["moment:C"])


# ---- all of a plan follows from what is released


CASES = [
    *itertools.product(KINDS, WORDS, ["record"], [True], [2]),
    *itertools.product(["declared", "persons"], WORDS, ["label"], [True], [2]),
    *itertools.product(["declared"], WORDS, ["record", "label"], [False], [2]),
    ("declared", "degree-3", "record", True, WIDE), ("private bounds", "degree-2", "label", True, WIDE),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "word", "unit", "sharpen", "n_columns"), CASES)
def test_plan_and_constants_follow_from_released_blocks(kind, word, unit, sharpen, n_columns):
    mechanism = rb.Moments(2.0, unit=unit, sharpen=sharpen)
    made = make(mechanism, kind, word, n_columns=n_columns)
    assert made.map is not None and "outline" in made.blocks
    assert_recomputed(made, mechanism)


AUTO = [("declared", 4000, 1.0, 8), ("schema", 4000, 1.0, 8), ("persons", 4000, 2.0, 8),
        ("private bounds", 4000, 1.0, 8),
        ("three classes", 9000, 1.0, 8), ("declared", 600, 1.0, 0), ("declared", 1100, 1.0, 4)]  # fmt: skip


@pytest.mark.parametrize(("kind", "n_rows", "epsilon", "degree"), AUTO)
def test_the_rule_goes_by_released_numbers(kind, n_rows, epsilon, degree):
    mechanism = rb.Moments(epsilon)
    made = make(mechanism, kind, "auto", n_rows)
    assert abs(max(map(sum, made.parameters["plan"]["classes"]), default=0) - degree) <= 1
    assert_recomputed(made, mechanism)


@pytest.mark.parametrize("word", WORDS)
def test_second_moments_are_those_of_the_released_features(word):
    """Under the label unit they are exact: the sums of what anyone computes by the map, to the last bit."""
    made = make(rb.Moments(2.0, unit="label"), "declared", word)
    values = numbers(600)[["x0", "x1"]].to_numpy()
    engine, ends = get_engine("reference"), np.ones(len(made.columns) - 1)
    rows, good = engine.sphere(made.map.apply(values), np.ones(600, np.int8), -ends, ends, CONSTANT_VALUE, GRID)
    assert good.all() and (engine.products(rows)[0] / GRID**2).tolist() == made.blocks["moment:C"].tolist()
    ends = np.full(2, 3.0)
    rows, _ = engine.sphere(values, np.ones(600, np.int8), -ends, ends, CONSTANT_VALUE, GRID)
    assert (engine.products(rows)[0] / GRID**2).tolist() == made.blocks["outline"].tolist()


# ---- planted faults: exact numbers in the place of released ones


class Remembering(Curator):
    """A run that keeps what sums were before noise, for faults to use."""

    before: dict

    def add_noise(self, total, *noises):
        for noise in noises:
            Remembering.before.setdefault(
                (noise.array, getattr(total, noise.array).shape), getattr(total, noise.array).copy()
            )
        super().add_noise(total, *noises)


def exact(array, *shape):
    return Remembering.before[array, shape]


@pytest.fixture
def remembering(monkeypatch):
    Remembering.before = {}
    return Remembering


def test_a_plan_by_exact_numbers_is_caught(remembering, monkeypatch):
    def by_exact_numbers(budget, outlook, size, strength, shape):
        true = float(np.trace(exact("products", 3, 3))) / GRID**2
        return choose_feature_plan(outlook, true, strength * true / size, sharpen=budget.sharpen)

    mechanism = rb.Moments(1.0)
    honest = make(mechanism, "declared", "auto", 1000, run=remembering)
    assert_recomputed(honest, mechanism)
    faults = 0
    for n_rows in range(820, 872, 4):  # for some of them, noise makes another plan than there would be without
        Remembering.before.clear()
        with monkeypatch.context() as patch:
            patch.setattr(rb.Moments, "choose", by_exact_numbers)
            made = make(mechanism, "declared", "auto", n_rows, run=remembering)
        plan, _ = recomputed(made, mechanism)
        faults += {**plan.to_dict(), "word": "auto"} != made.parameters["plan"]
    assert faults


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("which", ["mean", "deviation"])
def test_means_and_deviations_by_exact_numbers_are_caught(remembering, monkeypatch, word, which):
    def by_exact_numbers(second, noise):
        true = read_input_moments(exact("products", *second.shape) / GRID**2, noise)
        return replace(read_input_moments(second, noise), **{which: getattr(true, which)})

    mechanism = rb.Moments(2.0)
    monkeypatch.setattr(stages_module, "read_input_moments", by_exact_numbers)
    made = make(mechanism, "declared", word, run=remembering)
    with pytest.raises(AssertionError):
        assert_recomputed(made, mechanism)


# ---- the rule


def outlook_of(n_numbers, n_slots=0, word="auto"):
    names = [f"x{k}" for k in range(n_numbers)] + [f"ward={k}" for k in range(n_slots)]
    return FeatureCandidates(tuple(names), {name: "ward" for name in names[n_numbers:]}, word)


@pytest.mark.parametrize(
    ("size", "strength", "classes", "n_columns"),
    [
        (1e6, 199.9, (), 11), (1e6, 200.0, SQUARES, 31), (1e6, 307.0, SQUARES, 31),
        (1e6, 380.0, ((2,), (1, 1)), 76), (371.0, 1e6, (), 11), (372.0, 1e6, SQUARES, 31),
        (1e6, 645.0, ((2,), (1, 1), (3,)), 86), (1e6, 1e6, None, 596),
    ],
)  # fmt: skip
def test_the_thresholds_of_the_rule(size, strength, classes, n_columns):
    """Ten numbers: 21 columns with ranks; (3) makes 41 of squares, (1, 1) makes 76."""
    plan = choose_feature_plan(outlook_of(10), size, strength)
    assert plan.n_columns == n_columns and classes in (None, plan.classes)
    halved = choose_feature_plan(outlook_of(10), size, strength / 2, doubled=True)
    assert halved.classes == plan.classes or strength / 2 < 200


def test_classes_come_by_degree_and_each_is_taken_whole():
    assert CLASSES[:9] == [(2,), (1, 1), (3,), (2, 1), (1, 1, 1), (4,), (3, 1), (2, 2), (2, 1, 1)]
    assert max(map(sum, CLASSES)) == 8 and max(map(len, CLASSES)) == 3
    counts = [n_products_in_class(5, degrees) for degrees in CLASSES[:9]]
    assert counts == [5, 10, 5, 20, 10, 5, 20, 10, 30]
    assert product_classes_that_fit(5, 11, lambda degree: 120 / degree) == [(2,), (1, 1), (3,), (1, 1, 1)][:3]
    assert product_classes_that_fit(0, 11, lambda degree: 600.0) == []


def test_a_class_without_room_is_left_out_and_the_next_is_asked_for():
    plan = choose_feature_plan(outlook_of(28), 1e9, 1e9)
    assert plan.classes[:4] == ((2,), (1, 1), (3,), (4,)) and plan.n_columns <= MOST_COLUMNS


@pytest.mark.parametrize(("word", "n_columns"), [("degree-2", 9), ("degree-3", 13), ("degree-8", 48)])
def test_a_word_is_its_plan_whatever_the_size(word, n_columns):
    outlook = outlook_of(2, 1, word)
    plans = {replace(choose_feature_plan(outlook, size, size), rounds=0, eta=0.0) for size in (0.0, 1e3, 1e9)}
    (plan,) = plans
    assert plan.n_columns == n_columns and max(map(sum, plan.classes)) == DEGREES[word]


@given(st.floats(0, 1e7), st.floats(0, 1e7), st.integers(1, 60), st.integers(0, 40))
def test_no_rule_makes_more_columns_or_rounds_than_there_may_be(size, strength, n_numbers, n_slots):
    plan = choose_feature_plan(outlook_of(n_numbers, n_slots), size, strength)
    assert plan.rounds in (8, 16, 32) and plan.rounds <= MOST_ROUNDS
    assert choose_feature_plan(outlook_of(n_numbers, n_slots), size, strength, sharpen=False) == replace(
        plan, rounds=0, eta=0.0
    )
    assert plan.n_columns <= MOST_COLUMNS or not plan.beyond


@given(
    st.integers(0, 90), st.integers(0, 40), st.sampled_from(["auto", *DEGREES]),
    st.floats(0, 9).map(lambda power: 10**power), st.floats(-3, 2).map(lambda power: 10**power), st.booleans(),
)  # fmt: skip
@example(2, 0, "auto", 20_000.0, 1.0, True)
@example(50, 0, "auto", 1e9, 1.0, True)
@example(250, 0, "auto", 1e9, 1.0, True)
def test_no_plan_is_wider_or_draws_more_than_was_counted_beforehand(n_numbers, n_slots, word, size, mu, sharpen):
    outlook = outlook_of(max(n_numbers, 1 - n_slots), n_slots, word)
    plan = choose_feature_plan(outlook, size, mu * size, sharpen=sharpen)
    assert plan.n_columns <= max(outlook.widest, outlook.n_own)
    shape = outlook.shaped(NoiseShape(outlook.n_own, 3))
    chosen = replace(shape, n_planned=plan.n_columns if plan.beyond else 0)
    mechanism = rb.Moments(1.0, sharpen=sharpen)
    draws, most = (
        {stage.name: stage.deviates * stage.times for stage in mechanism.stages(one, rounds)}
        for one, rounds in ((chosen, plan.rounds), (shape.at_most, MOST_ROUNDS if sharpen else 0))
    )
    assert all(count <= most[name] for name, count in draws.items())
    costs = [sum(stage.share for stage in mechanism.stages(one, plan.rounds)) for one in (shape, chosen, shape.at_most)]
    assert np.allclose(costs, 1.0, atol=1e-12)


@given(st.integers(1, 17), st.integers(0, 5), st.floats(0, 7).map(lambda power: 10**power))
def test_a_plan_has_as_many_columns_as_its_map(n_numbers, n_slots, size):
    outlook = outlook_of(n_numbers, n_slots)
    plan = choose_feature_plan(outlook, size, size / 4)
    if plan.beyond:
        columns = [Column(name, "bounds", 1 / GRID, 0.0, 1.0) for name in outlook.names]
        feature_map = feature_map_of_plan(
            outlook, plan, columns, read_input_moments(size * np.eye(len(columns) + 1), 1.0)
        )
        assert len(feature_map.terms) + 1 == plan.n_columns
        assert not any(
            "ward=" in label for term in feature_map.terms if term.kind == "legendre" for label in term.inputs
        )
        slots = [entry for entry in feature_map.inputs if entry.name in outlook.groups]
        assert all(entry.apply(np.array([0.0, 1.0])).tolist() == [-1.0, 1.0] for entry in slots)


# ---- ranks


@given(st.floats(-1, 1), st.floats(0.1, 1))
def test_ranks_never_fall_and_end_at_one(mean, deviation):
    levels = np.array(beta_rank_levels(mean, deviation))
    assert len(levels) == 65 and (np.diff(levels) >= 0).all()
    assert levels[0] == -1.0 and levels[-1] == 1.0 and (levels == np.rint(levels * 2**20) / 2**20).all()


def test_ranks_are_those_of_the_distribution_that_they_are_named_after():
    rng = np.random.default_rng(0)
    for a, b in ((2.0, 5.0), (1.0, 3.0), (20.0, 3.0)):
        x = 2 * rng.beta(a, b, 200_000) - 1
        levels = beta_rank_levels(float(x.mean()), float(x.std()))
        ranks = np.interp(x, np.linspace(-1, 1, 65), levels)
        # Even numbers: were the levels those of the truth, the largest distance is below 0.007 but for 1e-8.
        assert np.abs(np.sort(ranks) - np.linspace(-1, 1, len(x))).max() < 0.02


# ---- refusals, before a table is opened


def craft_nothing(**options):
    bounds = options.pop("bounds", {"a": (0, 1), "b": (0, 1)})
    flat.craft(
        "there is no such file.csv", label="y", classes=(0, 1), mechanism=rb.Moments(1.0), bounds=bounds, **options
    )


def test_what_cannot_be_planned_is_refused_beforehand():
    with pytest.raises(rb.ArgumentError, match="centred by the constant column"):
        craft_nothing(columns="degree-2", intercept=False)
    for fine in ({"columns": "linear", "intercept": False}, {"columns": "auto", "intercept": False}):
        with pytest.raises(rb.TableError):  # goes on to open the table
            craft_nothing(**fine)
    for word, name in (("auto", "P2(rank(a))"), ("degree-2", "rank(a)"), ("auto", "P1(rank(a))*P1(rank(b))")):
        bounds = {"a": (0, 1), "b": (0, 1), name: (0, 1)}
        with pytest.raises(rb.ArgumentError, match="several columns would be called"):
            craft_nothing(columns=word, bounds=bounds)
        with pytest.raises(rb.TableError):
            craft_nothing(columns="linear", bounds=bounds)
    many = {f"x{k}": (0, 1) for k in range(200)}
    with pytest.raises(rb.ArgumentError, match="200 numbers make more than 600 columns"):
        craft_nothing(columns="degree-2", bounds=many)
    with pytest.raises(rb.TableError):
        craft_nothing(bounds=many)
    with pytest.raises(rb.ArgumentError, match=r"columns must be one of auto, .*degree-8"):
        craft_nothing(columns="trees")


# ---- the same bits, whatever computed them


@pytest.mark.parametrize(("word", "n_columns"), [*((word, 2) for word in WORDS), ("degree-2", WIDE)])
def test_engines_threads_forms_and_keeping_do_not_change_a_bit(word, n_columns):
    mechanism = rb.Moments(2.0)
    asked = asked_for("declared", word, n_columns)
    frame = numbers(900, n_columns)
    values, labels = frame.drop(columns="y").to_numpy(), frame["y"].to_numpy()
    forms = [
        open_table(pa.Table.from_pandas(frame), label="y", row_by_row=True),
        open_table(np.asfortranarray(values), labels, row_by_row=True),
        open_table(frame, label="y", row_by_row=True),
    ]
    ways = [{"engine": engine, "threads": threads} for engine in ENGINES for threads in (1, 2)]
    ways += [{"keeping": CachePolicy(0.0, share)} for share in (0.5, 0.0)]  # in a file, and made again in every pass
    expected = made_of(mechanism, asked, forms[0])
    for form, way in zip(itertools.cycle(forms), ways, strict=False):
        made = made_of(mechanism, asked, form, **way)
        assert made.map == expected.map and made.parameters == expected.parameters
        assert {name: block.tobytes() for name, block in made.blocks.items()} == {
            name: block.tobytes() for name, block in expected.blocks.items()
        }


# ---- nothing is spent on what cannot be made, and nothing is drawn that was not booked


def booked_by(mechanism, frame, **options):
    """What was booked for a release of a frame, and the release, or why there is none."""
    booked = []
    try:
        asked = CraftRequest.of(options.pop("declared"), mechanism, label="y", classes=(0, 1), **options)
        mechanism.check(asked)
        source = open_table(frame, label="y", row_by_row=True, schema=asked.reading)
        return booked, mechanism.make(asked, Curator(source, get_engine("auto"), ThreadRunner(1), KEY, booked.append))
    except rb.ArgumentError as error:
        return booked, str(error)


@pytest.mark.parametrize("word", ["auto", "degree-4"])
def test_bounds_that_are_too_close_to_divide_by_are_refused_whatever_the_table_holds(word):
    """Sixty-fourths of such a distance are 0: one row would decide whether there is a release."""
    declared = {"x0": (0.0, 1e-322), "x1": (-3.0, 3.0)}
    for n_rows in (0, 1, 50):
        booked, why = booked_by(rb.Moments(1.0), numbers(n_rows), declared=declared, columns=word)
        assert booked == [] and "too close" in why


def test_categories_alone_have_no_products():
    frame = cells(300)[["ward", "y"]]
    declared = Schema({"ward": Category(("A", "B", "C"))})
    booked, why = booked_by(rb.Moments(1.0), frame, declared=declared, columns="degree-2")
    assert booked == [] and "there are no numbers" in why
    booked, made = booked_by(rb.Moments(8.0), frame, declared=declared, columns="auto")
    assert booked and made.map is None


@pytest.mark.parametrize("sharpen", [True, False])
def test_all_deviates_are_booked(sharpen):
    mechanism = rb.Moments(1.0, sharpen=sharpen)
    declared = {"x0": (-3.0, 3.0), "x1": (-3.0, 3.0)}
    booked, made = booked_by(mechanism, numbers(300), declared=declared, columns="degree-3")
    shape, plan = made.circumstances.shape, made.parameters["plan"]
    stages = mechanism.stages(replace(shape, n_planned=plan["n_columns"]), plan["rounds"])
    drawn = sum(stage.deviates * stage.times for stage in stages)
    assert sum(cost_in_filter(event, Relation.RECORD).total_variation for event in booked) >= drawn * TOTAL_VARIATION


def test_room_for_rados_is_asked_for_before_anything_is_spent(monkeypatch, tmp_path):
    frame = numbers(300)
    ledger = rb.Ledger.create(tmp_path / "t.ledger", "t", epsilon=5.0)
    monkeypatch.setattr("radoboost.memory.available_memory", lambda: 1 << 30)
    with pytest.raises(rb.RadoError, match="draw fewer rados"):
        rb.craft(
            frame,
            label="y",
            classes=(0, 1),
            mechanism=rb.Moments(1.0),
            n_rados=400_000,
            ledger=ledger,
            counts=None,
            schema={"x0": (-3, 3), "x1": (-3, 3)},
        )
    assert ledger.entries() == []


def test_the_label_unit_says_what_exact_moments_tell():
    made = make(rb.Moments(1.0, unit="label"), "bounds", "degree-2")
    sentences = " ".join(rb.Moments(1.0, unit="label").statement(made.circumstances).not_protected)
    assert "may determine the rows of a small table" in sentences and "rows that were added in between" in sentences
