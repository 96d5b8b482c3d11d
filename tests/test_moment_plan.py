"""Plans of `moments`: their rule, how wide they may be, and that all of a plan follows from what is released."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import radoboost as rb
from radoboost.holder.declared import Declared, read_bounds
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.feature_maps import MOST_COSINES
from radoboost.holder.mechanisms import Asked, moment_stages
from radoboost.holder.mechanisms.bins import EqualBins
from radoboost.holder.mechanisms.moment_budget import Shape
from radoboost.holder.mechanisms.moment_columns import MOST_ASKED, levels_of, plan_map, planned_columns, read_outline
from radoboost.holder.mechanisms.moment_passes import CONSTANT_VALUE, GRID
from radoboost.holder.mechanisms.moment_plan import MOST_COLUMNS, MOST_ROUNDS, WORDS, Outlook, Plan, choose
from radoboost.holder.noise import TOTAL_VARIATION
from radoboost.holder.run import Run
from radoboost.holder.runners.kept import Keeping
from radoboost.holder.runners.threads import Threads
from radoboost.privacy import Relation
from radoboost.privacy.filter import cost
from radoboost.release.columns import Column
from radoboost.tables import open_table
from radoboost.tables.kinds import Category, Number
from radoboost.tables.schema import Schema

KEY = b"a key of noise, fixed for a test"
SCHEMA = Schema({"age": Number(0, 100), "dose": Number(-1, 3, fill=0, gaps=True), "ward": Category(("A", "B", "C"))})
WIDE = 17
N_ROWS = 4020  # with this key, noise makes room for another number of columns than there would be without


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
    about = {"n_rados": 0, "signature_key": bytes(32), "label": "y", "classes": (0, 1), "columns": word}
    if kind == "schema":
        return Asked(declared=Declared.by_schema(SCHEMA), **about)
    if kind == "private bounds":
        return Asked(
            declared=read_bounds({"x0": "private", **{f"x{k}": (-3, 3) for k in range(1, n_columns)}}), **about
        )
    declared = Declared({f"x{k}": (-3.0, 3.0) for k in range(n_columns)})
    if kind == "persons":
        return Asked(declared=declared, person="who", max_rows=2, choice_key=bytes(32), **about)
    if kind == "three classes":
        about["classes"] = (0, 1, 2)
    return Asked(declared=declared, **about)


KINDS = ("declared", "private bounds", "schema", "persons", "three classes")


def opened(asked, n_rows, n_columns):
    schema = asked.declared.schema
    frame = numbers(n_rows, n_columns) if schema is None else cells(n_rows)
    if asked.person:
        frame["who"] = np.arange(n_rows) // 3
    if len(asked.classes) == 3:
        frame["y"] += frame["x0"] > 1
    return open_table(pa.Table.from_pandas(frame), label="y", row_by_row=True, schema=schema, person=asked.person)


def made_of(mechanism, asked, source, *, engine="auto", threads=1, keeping=None, run=Run):
    mechanism.check(asked)
    return mechanism.make(asked, run(source, get_engine(engine), Threads(threads, keeping=keeping), KEY))


def make(mechanism, kind, word, n_rows=600, n_columns=2, **how):
    asked = asked_for(kind, word, n_columns)
    return made_of(mechanism, asked, opened(asked, n_rows, n_columns), **how)


def recomputed(made, mechanism):
    """Plan and map by what a release holds, and its maker declared, alone; the map is None where there is none."""
    inputs = made.columns[:-1] if made.map is None else made.map.inputs
    limits = {entry.name: (entry.low, entry.high) for entry in inputs}
    groups = SCHEMA.groups if "ward=A" in limits else {}
    outlook = Outlook(tuple(limits), groups, made.parameters["plan"]["word"])
    first, stage = ("moment:C", "second") if made.map is None else ("outline", "outline")
    second, noise = made.blocks[first], made.parameters["noise"][stage]
    shape = Shape(
        len(limits) + 1, len(made.parameters.get("searched", ())), made.parameters.get("max_rows", 1),
        made.parameters.get("person", ""), bool(groups), outlook.widest, outlook.rankable,
        n_classes=max(2, len(made.blocks["moment:b"])),
    )  # fmt: skip
    size = max(float(np.trace(second)), 0.0)
    strength = mechanism.strength(size, shape)
    plan = choose(outlook, size, strength, sharpen=mechanism.sharpen, crowding=shape.crowding)
    if not plan.beyond:
        return plan, None
    columns = [Column(name, "bounds", 1 / GRID, *ends) for name, ends in limits.items()]
    outline, ranks = read_outline(second, noise), made.blocks.get("ranks")
    return plan, plan_map(outlook, plan, columns, outline, ranks, n_classes=shape.n_classes)


def assert_recomputed(made, mechanism):
    plan, feature_map = recomputed(made, mechanism)
    assert {**plan.to_dict(), "word": made.parameters["plan"]["word"]} == made.parameters["plan"]
    assert feature_map == made.map  # to the last bit: all of it is data
    assert (made.parameters["rounds"], made.parameters["eta"]) == (plan.rounds, plan.eta)
    if feature_map is not None:
        assert made.columns[:-1] == planned_columns(feature_map)
        assert len(made.columns) == plan.n_columns == len(made.blocks["moment:C"])


# ---- all of a plan follows from what is released


CASES = [
    *itertools.product(KINDS, WORDS, ["record"], [True], [2]),
    *itertools.product(["declared", "persons"], WORDS, ["label"], [True], [2]),
    *itertools.product(["declared"], ["ranks", "quadratic"], ["record", "label"], [False], [2]),
    ("declared", "both", "record", True, WIDE), ("private bounds", "both", "label", True, WIDE),
    ("schema", "both", "label", False, 2), ("declared", "both", "label", False, WIDE),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "word", "unit", "sharpen", "n_columns"), CASES)
def test_plan_and_constants_follow_from_released_blocks(kind, word, unit, sharpen, n_columns):
    mechanism = rb.Moments(2.0, unit=unit, sharpen=sharpen)
    made = make(mechanism, kind, word, n_columns=n_columns)
    assert made.map is not None and ("ranks" in made.blocks) == (word == "ranks")
    assert bool(made.map.directions) == (n_columns == WIDE)
    assert_recomputed(made, mechanism)


AUTO = [("declared", 4000, 1.0, "both"), ("schema", 4000, 1.0, "both"), ("persons", 4000, 2.0, "both"),
        ("private bounds", 4000, 1.0, "both"), ("three classes", 9000, 1.0, "both"),
        ("declared", 700, 1.0, "linear"), ("declared", 1100, 1.0, "products")]  # fmt: skip


@pytest.mark.parametrize(("kind", "n_rows", "epsilon", "expected"), AUTO)
def test_the_rule_goes_by_released_numbers(kind, n_rows, epsilon, expected):
    mechanism = rb.Moments(epsilon)
    made = make(mechanism, kind, "auto", n_rows)
    assert made.parameters["plan"]["kind"] == expected
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


class Remembering(Run):
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


def caught(made, mechanism):
    with pytest.raises(AssertionError):
        assert_recomputed(made, mechanism)


def test_a_plan_by_exact_numbers_is_caught(remembering, monkeypatch):
    def by_exact_numbers(outlook, size, strength, *, sharpen, crowding):
        true = float(np.trace(exact("products", 3, 3))) / GRID**2
        return choose(outlook, true, strength * true / size, sharpen=sharpen)

    mechanism = rb.Moments(1.0)
    honest = make(mechanism, "declared", "auto", N_ROWS, run=remembering)
    assert_recomputed(honest, mechanism)
    assert 0 < honest.parameters["plan"]["cosines"] < MOST_COSINES - 16  # as many as the noisy size has room for
    Remembering.before.clear()
    monkeypatch.setattr(moment_stages, "choose", by_exact_numbers)
    caught(make(mechanism, "declared", "auto", N_ROWS, run=remembering), mechanism)


@pytest.mark.parametrize(("word", "n_columns"), [("quadratic", 2), ("hats", 2), ("fourier", 2), ("both", WIDE)])
def test_means_deviations_and_directions_by_exact_numbers_are_caught(remembering, monkeypatch, word, n_columns):
    def by_exact_numbers(second, noise):
        return read_outline(exact("products", *second.shape) / GRID**2, noise)

    mechanism = rb.Moments(2.0)
    monkeypatch.setattr(moment_stages, "read_outline", by_exact_numbers)
    caught(make(mechanism, "declared", word, n_columns=n_columns, run=remembering), mechanism)


def test_directions_alone_by_exact_numbers_are_caught(remembering, monkeypatch):
    def by_exact_numbers(second, noise):
        true = read_outline(exact("products", *second.shape) / GRID**2, noise)
        return replace(read_outline(second, noise), covariance=true.covariance)

    mechanism = rb.Moments(2.0)
    monkeypatch.setattr(moment_stages, "read_outline", by_exact_numbers)
    caught(make(mechanism, "declared", "both", n_columns=WIDE, run=remembering), mechanism)


def test_ranks_by_exact_numbers_are_caught(remembering, monkeypatch):
    def by_exact_numbers(outlook, plan, columns, outline, ranks, **options):
        return plan_map(outlook, plan, columns, outline, exact("bins", 2, 64).T / GRID, **options)

    mechanism = rb.Moments(2.0)
    monkeypatch.setattr(moment_stages, "plan_map", by_exact_numbers)
    caught(make(mechanism, "declared", "ranks", run=remembering), mechanism)


# ---- the rule


def outlook_of(n_numbers, n_slots=0, word="auto"):
    names = [f"x{k}" for k in range(n_numbers)] + [f"ward={k}" for k in range(n_slots)]
    return Outlook(tuple(names), {name: "ward" for name in names[n_numbers:]}, word)


@pytest.mark.parametrize(
    ("n_numbers", "size", "strength", "kind", "ranks"),
    [
        (10, 1e6, 199.9, "linear", False), (10, 1e6, 200.0, "products", False),  # p = 66, both = 126
        (10, 1e6, 1259.9, "products", False), (10, 1e6, 1260.0, "both", False),
        (10, 6299.0, 1e5, "products", False), (10, 6300.0, 1e5, "both", False),
        (11, 1e6, 2879.9, "products", False), (11, 1e6, 2880.0, "both", False),  # 144, of more than ten numbers
        (10, 1979.0, 1e4, "hats", True), (10, 1980.0, 1e4, "products", False),
        (10, 1219.0, 1e4, "linear", False), (10, 1220.0, 1e4, "hats", True),  # h = 61
        (10, 1220.0, 1000 * math.sqrt(10) - 1, "hats", False),
        (20, 1e6, 577.0, "hats", False), (20, 1e6, 578.0, "products", False),  # p = 231
        (21, 1e6, 299.9, "linear", False), (21, 1e6, 300.0, "hats", False),
        (21, 1e6, 800.0, "hats", False), (21, 1e6, 5359.0, "hats", True), (21, 1e6, 5360.0, "both", True),  # 268
        (15, 1e6, 1e6, "both", False), (16, 1e6, 1e6, "both", True),
    ],
)  # fmt: skip
def test_the_thresholds_of_the_rule(n_numbers, size, strength, kind, ranks):
    plan = choose(outlook_of(n_numbers), size, strength)
    assert (plan.kind, plan.ranks) == (kind, ranks)


def test_cosines_fill_what_room_there_is():
    outlook = outlook_of(3)  # both = 28
    for size, strength, cosines in (
        (3499.0, 9e9, 0), (3500.0, 9e9, 263), (3600.0, 9e9, 272), (9e9, 999.0, 71), (9e9, 580.0, 30), (9e9, 579.0, 0)
    ):  # fmt: skip
        plan = choose(outlook, size, strength)
        assert (plan.kind, plan.cosines) == ("both", cosines) and plan.n_columns == 28 + cosines
    assert choose(outlook, 9e9, 199.0).cosines == 0  # linear
    many = outlook_of(28, 9)  # hats = 178; two cosines for each number, of which slots are none
    for strength, cosines in ((2339.0, 0), (2340.0, 56), (3000.0, 122)):
        plan = choose(many, 9e9, strength)
        assert (plan.kind, plan.cosines) == ("hats", cosines)


@pytest.mark.parametrize(
    ("word", "n_columns", "kind"),
    [("hats", 14, "hats"), ("ranks", 16, "hats"), ("quadratic", 6, "products"), ("both", 18, "both"),
     ("fourier", 23, "cosines")],
)  # fmt: skip
def test_a_word_is_its_plan_whatever_the_size(word, n_columns, kind):
    outlook = outlook_of(2, 1, word)
    plans = {replace(choose(outlook, size, size), rounds=0, eta=0.0) for size in (0.0, 1e3, 1e9)}
    cosines = 20 if word == "fourier" else 0  # of the two numbers alone
    made = outlook.n_columns(kind, ranks=word == "ranks", cosines=cosines)
    assert plans == {Plan(kind, word == "ranks", cosines, made, 0, 0.0)}


@given(st.floats(0, 1e7), st.floats(0, 1e7), st.integers(1, 60), st.integers(0, 40))
def test_more_rows_never_make_fewer_rounds_for_linear_plans(size, strength, n_numbers, n_slots):
    plan = choose(outlook_of(n_numbers, n_slots), size, strength)
    assert plan.rounds in (8, 16, 32, 64) and plan.rounds <= MOST_ROUNDS
    assert choose(outlook_of(n_numbers, n_slots), size, strength, sharpen=False) == replace(plan, rounds=0, eta=0.0)
    assert plan.n_columns <= MOST_COLUMNS or not plan.beyond


@given(
    st.integers(0, 90), st.integers(0, 40), st.sampled_from(["auto", *WORDS]),
    st.floats(0, 9).map(lambda power: 10**power), st.floats(-3, 2).map(lambda power: 10**power), st.booleans(),
)  # fmt: skip
@example(2, 0, "auto", 20_000.0, 1.0, True)
@example(50, 0, "auto", 1e9, 1.0, True)
@example(130, 0, "auto", 1e9, 1.0, True)
def test_no_plan_is_wider_or_draws_more_than_was_counted_beforehand(n_numbers, n_slots, word, size, mu, sharpen):
    outlook = outlook_of(max(n_numbers, 1 - n_slots), n_slots, word)
    plan, n_inputs = choose(outlook, size, mu * size, sharpen=sharpen), outlook.n_columns("linear")
    assert plan.n_columns <= max(outlook.widest, n_inputs)
    assert not plan.ranks or outlook.rankable == len(outlook.numbers)
    assert plan.beyond or word == "auto"
    shape = outlook.shaped(Shape(n_inputs, 3))
    ranked = len(outlook.numbers) if plan.ranks else 0
    chosen = replace(shape, n_planned=plan.n_columns if plan.beyond else 0, n_ranked=ranked)
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
    plan = choose(outlook, size, size / 4)
    if plan.beyond:
        columns = [Column(name, "bounds", 1 / GRID, 0.0, 1.0) for name in outlook.names]
        second = size * np.eye(len(columns) + 1)
        ranks = np.ones((64, n_numbers)) if plan.ranks else None
        feature_map = plan_map(outlook, plan, columns, read_outline(second, 1.0), ranks)
        assert len(feature_map.terms) + 1 == plan.n_columns
        of = [term.inputs[0] for term in feature_map.terms if term.kind == "hat"]
        assert not any("ward=" in name for name in of)  # slots of a category have no hats
        products = [term.inputs for term in feature_map.terms if term.kind == "product"]
        assert not any(a.startswith("ward=") and b.startswith("ward=") for a, b in products)


# ---- ranks


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=64))
def test_ranks_never_fall_and_end_at_one(counts):
    levels = levels_of(np.array(counts))
    assert len(levels) == len(counts) + 1 and (np.diff(levels) >= 0).all()
    assert levels[0] == -1.0 and levels[-1] == 1.0
    assert (levels == np.rint(levels * 2**20) / 2**20).all() or not np.cumsum(counts).max() > 0


def test_nothing_but_noise_below_zero_leaves_ranks_as_they_were():
    assert levels_of(np.array([-5.0, -1.0])).tolist() == [-1.0, 0.0, 1.0]


# ---- refusals, before a table is opened


def craft_nothing(**options):
    bounds = options.pop("bounds", {"a": (0, 1), "b": (0, 1)})
    rb.craft(
        "there is no such file.csv", label="y", classes=(0, 1), mechanism=rb.Moments(1.0), bounds=bounds, **options
    )


def test_what_cannot_be_planned_is_refused_beforehand():
    with pytest.raises(rb.ArgumentError, match="centred by the constant column"):
        craft_nothing(columns="hats", intercept=False)
    for fine in ({"columns": "linear", "intercept": False}, {"columns": "auto", "intercept": False}):
        with pytest.raises(rb.TableError):  # goes on to open the table
            craft_nothing(**fine)
    for word, bounds in (
        ("auto", {"a": (0, 1), "a*b": (0, 1), "b": (0, 1)}), ("auto", {"a": (0, 1), "a^2": (0, 1)}),
        ("ranks", {"a": (0, 1), "rank(a)": (0, 1)}),
        ("both", {f"direction {k}": (0, 1) for k in range(1, 17)}),
    ):  # fmt: skip
        with pytest.raises(rb.ArgumentError, match="several columns would be called"):
            craft_nothing(columns=word, bounds=bounds)
        with pytest.raises(rb.TableError):
            craft_nothing(columns="linear", bounds=bounds)
    many = {f"x{k}": (0, 1) for k in range(100)}
    with pytest.raises(rb.ArgumentError, match=f"{MOST_ASKED:,} is the most"):
        craft_nothing(columns="quadratic", bounds=many)
    with pytest.raises(rb.TableError):
        craft_nothing(bounds=many)
    with pytest.raises(rb.ArgumentError, match=r"columns must be one of auto, .*both"):
        craft_nothing(columns="trees")
    for word in ("ranks", "both"):
        with pytest.raises(rb.ArgumentError, match="take that mechanism"):
            rb.craft("there is no such file.csv", label="y", columns=word)


# ---- the same bits, whatever computed them


@pytest.mark.parametrize(("word", "n_columns"), [*((word, 2) for word in WORDS), ("both", WIDE)])
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
    ways += [{"keeping": Keeping(0.0, share)} for share in (0.5, 0.0)]  # in a file, and made again in every pass
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
    asked = Asked(n_rados=0, signature_key=bytes(32), label="y", classes=(0, 1), **options)
    try:
        mechanism.check(asked)
        source = open_table(frame, label="y", row_by_row=True, schema=asked.declared.schema)
        return booked, mechanism.make(asked, Run(source, get_engine("auto"), Threads(1), KEY, booked.append))
    except rb.ArgumentError as error:
        return booked, str(error)


@pytest.mark.parametrize("word", ["auto", "hats", "ranks", "both"])
def test_bounds_that_are_too_close_to_divide_by_are_refused_whatever_the_table_holds(word):
    """Sixty-fourths of such a distance are 0: one row would decide whether there is a release."""
    declared = Declared({"x0": (0.0, 1e-322), "x1": (-3.0, 3.0)})
    for n_rows in (0, 1, 50):
        booked, why = booked_by(rb.Moments(1.0), numbers(n_rows), declared=declared, columns=word)
        assert booked == [] and "too close" in why


def test_every_number_is_in_a_bin_however_close_its_bounds_are():
    bins = EqualBins(np.array([0.0]), np.array([1e-322]))
    with np.errstate(all="ignore"):  # as in a pass
        assert set(bins.numbers(np.array([0.0, 1e-322, 5e-324, -1.0, 1e300]), 0)) <= set(range(64))


def test_names_of_cosines_are_counted_as_in_the_map():
    frame = numbers(40).rename(columns={"x0": "cos1"})
    declared = Declared({"cos1": (-3.0, 3.0), "x1": (-3.0, 3.0)})
    for word in ("auto", "fourier"):
        booked, why = booked_by(rb.Moments(1.0), frame, declared=declared, columns=word)
        assert booked == [] and "'cos1'" in why
    far = {"cos21": (-3.0, 3.0), "x1": (-3.0, 3.0)}  # two columns have twenty cosines
    _, made = booked_by(
        rb.Moments(1.0), frame.rename(columns={"cos1": "cos21"}), declared=Declared(far), columns="fourier"
    )
    assert len(made.map.terms) == 22


@pytest.mark.parametrize("sharpen", [True, False])
def test_categories_alone_get_no_hats_and_all_deviates_are_booked(sharpen):
    frame = cells(300)[["ward", "y"]]
    declared = Declared.by_schema(Schema({"ward": Category(("A", "B", "C"))}))
    mechanism = rb.Moments(1.0, sharpen=sharpen)
    for word in ("hats", "ranks"):
        booked, why = booked_by(mechanism, frame, declared=declared, columns=word)
        assert booked == [] and "all columns are categories" in why
    for word in ("quadratic", "both"):  # which make no column more
        booked, made = booked_by(mechanism, frame, declared=declared, columns=word)
        shape, plan = made.circumstances.shape, made.parameters["plan"]
        stages = mechanism.stages(replace(shape, n_planned=plan["n_columns"]), plan["rounds"])
        drawn = sum(stage.deviates * stage.times for stage in stages)
        assert (
            "outline" in made.blocks
            and sum(cost(event, Relation.RECORD).total_variation for event in booked) >= drawn * TOTAL_VARIATION
        )


def test_room_for_rados_is_asked_for_before_anything_is_spent(monkeypatch, tmp_path):
    frame = numbers(300)
    ledger = rb.Ledger.create(tmp_path / "t.ledger", "t", epsilon=5.0)
    monkeypatch.setattr("radoboost.memory.available", lambda: 1 << 30)
    with pytest.raises(rb.RadoError, match="draw fewer rados"):
        rb.craft(
            frame, label="y", bounds={"x0": (-3, 3), "x1": (-3, 3)}, classes=(0, 1), mechanism=rb.Moments(1.0),
            n_rados=400_000, ledger=ledger, counts=None,
        )  # fmt: skip
    assert ledger.entries() == []


def test_the_label_unit_says_what_exact_moments_tell():
    made = make(rb.Moments(1.0, unit="label"), "bounds", "ranks")
    sentences = " ".join(rb.Moments(1.0, unit="label").statement(made.circumstances).not_protected)
    assert "may determine the rows of a small table" in sentences and "rows that were added in between" in sentences
    assert "histograms" in sentences
