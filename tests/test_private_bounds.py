"""Bounds found privately: bins, sensitivities, noise, what is found, and what is refused."""

import decimal
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import radoboost as rb
from looking import differences, look_at_release
from radoboost import memory
from radoboost.holder.aggregation import merge_accumulators
from radoboost.holder.curator import Curator
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.mechanisms.moments.aggregations import GRID
from radoboost.holder.mechanisms.moments.budget import EQUAL_BINS, POWER_BINS, SEARCHES, NoiseShape
from radoboost.holder.mechanisms.moments.private_bounds import (
    HELD,
    LEAST_PULL,
    OF_ZEROS,
    Binned,
    CountBins,
    EqualBins,
    Powers,
    largest_occupied_power,
    round_bounds_outwards,
    shortest_run_of_bins,
)
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.table_check import check_table
from radoboost.lab.attacks.mechanism_from_release import mechanism_of_release
from radoboost.privacy import Composed, epsilon_at
from radoboost.tables import open_table
from radoboost.tables.labels import LabelEncoder
from schema_files import write_schema
from test_neighbours import build, draw

RULE = LabelEncoder("y", (0, 1))
finite = st.floats(allow_nan=False, allow_infinity=False)
KEY = bytes(range(32))


# ---- bins (B1)


@given(finite)
def test_every_number_is_in_one_power_of_two(value):
    (number,) = Powers().numbers(np.array([value]), 0)
    exact = abs(Fraction(value))
    if exact < Fraction(2) ** -64:
        assert number == 0
    else:
        at_least, below = Fraction(2) ** (int(number) - 65), Fraction(2) ** (int(number) - 64)
        assert 1 <= number < POWER_BINS and at_least <= exact and (exact < below or number == POWER_BINS - 1)


@given(finite, finite, st.floats(2.0**-60, 2.0**60))
def test_every_number_is_in_one_of_the_equal_bins(value, low, width):
    low = math.fmod(low, 2.0**65)
    high = low + max(width, abs(low) * 2.0**-20)
    (number,) = EqualBins(np.array([low]), np.array([high])).numbers(np.array([value]), 0)
    exact = (Fraction(value) - Fraction(low)) * EQUAL_BINS / (Fraction(high) - Fraction(low))
    assert 0 <= number < EQUAL_BINS
    assert abs(min(max(exact, 0), EQUAL_BINS) - number - Fraction(1, 2)) <= Fraction(1, 2) + Fraction(1, 10**6)


# ---- what a record contributes (B2, B3)


def counted(x, y, kind, places, rows=None):
    source = open_table(np.asarray(x, dtype=np.float64).reshape(-1, 3), np.asarray(y, dtype=int), row_by_row=True)
    task, parts, first = CountBins(RULE, len(source.features), places, kind, "bounds 1"), [], 0
    for batch in source.batches(rows):
        sums = task.empty()
        task.add(sums, first, batch)
        parts.append(sums)
        first += batch.n_rows
    return merge_accumulators([task.empty(), *parts])


odd = st.one_of(finite, st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]))
tables = st.integers(1, 12).flatmap(
    lambda m: st.tuples(
        st.lists(st.lists(odd, min_size=3, max_size=3), min_size=m, max_size=m),
        st.lists(st.sampled_from([0, 1, 7]), min_size=m, max_size=m),
    )
)


@given(tables, st.sampled_from(["powers", "equal"]), st.integers(1, 5))
def test_a_good_record_is_in_one_bin_of_each_searched_column(table, which, rows):
    """And a bad one in none; so a record moves the counts by sqrt(columns) at most, and no other record matters."""
    x, y = table
    kind = Powers() if which == "powers" else EqualBins(np.array([-1.0, 0.0]), np.array([1.0, 100.0]))
    everything, others = counted(x, y, kind, (0, 2)), counted(x[1:], y[1:], kind, (0, 2))
    change = everything.bins - others.bins
    good = all(map(math.isfinite, x[0])) and y[0] in (0, 1)
    assert sorted(change[change != 0].tolist()) == [GRID] * (2 * good)
    assert change.sum(axis=1).tolist() == [GRID * good] * 2
    assert np.linalg.norm(change) <= GRID * math.sqrt(2)
    # The same in any cut, and the count of good rows with it.
    again = counted(x, y, kind, (0, 2), rows)
    assert (again.bins == everything.bins).all() and again.counts.spoiled == everything.counts.spoiled
    flipped = counted(x, [1 - label if label in (0, 1) else label for label in y], kind, (0, 2))
    assert (flipped.bins == everything.bins).all()  # B7


def test_passes_can_be_pickled():
    task = CountBins(RULE, 2, (1,), EqualBins(np.array([0.0]), np.array([1.0])), "bounds 2")
    again = pickle.loads(pickle.dumps(task))
    assert (again.places, again.title, again.kind.high.tolist()) == ((1,), "looking for bounds 2", [1.0])


# ---- noise, budget, order (B4, B5)


def asked(bounds="private", **others):
    options = {"n_rados": 10, "classes": (0, 1), "columns": "linear", "mechanism": rb.Moments(1.0), **others}
    return flat.request(schema=bounds, **options)[0]


def make(x, y, mechanism=None, *, engine="auto", threads=1, key=KEY, run=Curator, ledger=None, **others):
    mechanism = mechanism or rb.Moments(1.0)
    source = open_table(x, np.asarray(y), row_by_row=True)
    mechanism.check(asked(**others))
    return mechanism.make(asked(**others), run(source, get_engine(engine), ThreadRunner(threads), key, ledger))


@pytest.fixture
def table(rng):
    x = np.column_stack([rng.normal(4300, 40, 4000), rng.exponential(2.0, 4000), rng.integers(0, 2, 4000)])
    x[::400, 0] = 7e5
    return x, (x[:, 1] + rng.normal(size=4000) > 1.5).astype(int)


def test_all_is_booked_before_the_noise_of_a_search(table):
    booked = []

    class Watching(Curator):
        def noise(self, scale, shape):
            steps.append((len(booked), shape))
            return super().noise(scale, shape)

    steps = []
    mechanism = rb.Moments(1.0)
    made = make(*table, mechanism, run=Watching, ledger=booked.append)
    shape = NoiseShape(4, 3)
    assert steps[0] == (1, (1, 2)) and [step for step in steps if step[1][0] == 3] == [
        (2, (3, bins)) for bins, _ in SEARCHES
    ]
    statement = mechanism.statement(made.circumstances)
    assert epsilon_at(Composed(tuple(booked)), 1e-6) == pytest.approx(statement.epsilon, rel=1e-9)
    mu, noise = mechanism.distance(shape), made.parameters["noise"]
    for j, (_, part) in enumerate(SEARCHES):
        assert noise[f"bounds {j + 1}"] == pytest.approx(math.sqrt(3) / (mu * math.sqrt(0.1 * part)), rel=1e-6)
    shares = [stage.share for stage in mechanism.stages(shape, 8)]
    assert sum(shares) == pytest.approx(1.0) and epsilon_at(mechanism.dearest(shape), 1e-6) <= 1.0
    deviates = sum(stage.deviates for stage in mechanism.stages(shape, 8) if stage.name.startswith("bounds"))
    assert deviates == 3 * sum(bins for bins, _ in SEARCHES) == 3 * 322


class Heard(Curator):
    """A run that keeps the noisy counts."""

    def __init__(self, *about):
        super().__init__(*about)
        self.bins = []
        HEARD.append(self)

    def add_noise(self, total, *noises):
        before = total.bins.copy() if isinstance(total, Binned) else None
        super().add_noise(total, *noises)
        if before is not None:
            self.bins.append((before, total.bins.copy()))


HEARD = []


def test_every_bin_has_noise_of_its_own(table):
    """Empty ones too. The false-alarm probability is below 1e-6: 966 deviates, 6 deviations, and no two alike."""
    made = make(*table, run=Heard)
    noise = np.concatenate([(after - before).ravel() for before, after in HEARD[-1].bins])
    deviation = made.parameters["noise"]["bounds 1"] * GRID
    assert len(noise) == 966 and np.abs(noise).max() < 6 * deviation
    assert 0.85 < noise.std() / deviation < 1.15  # 6.6 standard errors
    assert len(set(noise.tolist())) > 960


def test_bounds_follow_from_noisy_counts_alone(table):
    """Two tables whose noisy counts are made the same get the same bounds, whatever is in them."""
    make(*table, run=Heard)
    answers = [after for _, after in HEARD[-1].bins]

    class Replayed(Curator):
        def add_noise(self, total, *noises):
            super().add_noise(total, *noises)
            if isinstance(total, Binned):
                total.bins[:] = waiting.pop(0)

        def noise(self, scale, shape):
            noise = super().noise(scale, shape)
            return GRID * np.array([[4000 - n_rows, 0]]) if shape == (1, 2) else noise  # 4000 rows, with noise

    found = []
    for x, y in (table, (np.zeros((50, 3)), np.arange(50) % 2), (np.full((9, 3), 1e9), np.arange(9) % 2)):
        waiting, n_rows = list(answers), len(x)
        found.append([(c.low, c.high) for c in make(x, y, run=Replayed).columns[:-1]])
        assert waiting == []
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_by_any_engine_on_any_threads(table, engine, threads):
    expected, made = make(*table), make(*table, engine=engine, threads=threads)
    assert made.columns == expected.columns and made.parameters["rows"] == expected.parameters["rows"]
    for name, block in expected.blocks.items():
        if name != "rados":  # drawn by a key of their own
            np.testing.assert_array_equal(made.blocks[name], block)


@pytest.mark.parametrize("lacking", ["a,who\n0.5,7\n", "who,zzz\n7,1\n", "a,y\n0.5,1\n"])
def test_one_file_without_the_label_or_the_person_decides_nothing(tmp_path, monkeypatch, lacking):
    """Its record contributes nothing, as with declared bounds: else a record in a file of its own would decide."""
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: bytes(range(size)))
    (tmp_path / "a.csv").write_text("a,who,y\n" + "".join(f"{k / 300},{k},{k % 2}\n" for k in range(300)))
    options = {"label": "y", "classes": (0, 1), "counts": None, "person": "who", "max_rows": 1}
    options["mechanism"] = rb.Moments(1.0, sharpen=False)
    releases = []
    for other in (lacking.partition("\n")[0] + "\n", lacking):  # the neighbour has no such record
        (tmp_path / "b.csv").write_text(other)
        releases.append(flat.craft(tmp_path, bounds="private", **options))
    one, two = ({name: block.tobytes() for name, block in release.blocks.items()} for release in releases)
    assert one == two
    (tmp_path / "a.csv").write_text("a,who\n1,2\n")
    (tmp_path / "b.csv").write_text("a,who\n1,2\n")
    with pytest.raises(rb.TableError, match="no column 'y'"):  # a column that no file has is refused
        flat.craft(tmp_path, bounds="private", **options)


def test_the_same_bounds_from_one_file_or_many(table, tmp_path):
    x, y = table
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=y)
    frame.to_csv(tmp_path / "all.csv", index=False)
    for k in range(3):
        frame[k * 1500 : (k + 1) * 1500].to_csv(tmp_path / f"part{k}.csv", index=False)
    bounds = []
    for path in (tmp_path / "all.csv", str(tmp_path / "part*.csv")):
        source = open_table(path, label="y", row_by_row=True)
        mechanism = rb.Moments(1.0)
        made = mechanism.make(asked(label="y"), Curator(source, get_engine("auto"), ThreadRunner(2), KEY))
        bounds.append(made.columns)
    assert bounds[0] == bounds[1] and [column.name for column in bounds[0]] == ["a", "b", "c", "(constant)"]


# ---- what is found (B6)


def test_runs_of_bins():
    assert shortest_run_of_bins(np.array([0.0, 3.0, 0.0, 3.0, 9.0]), 12.0) == (3, 4)
    assert shortest_run_of_bins(np.array([0.0, 3.0, 0.0, 3.0, 9.0]), 12.0, caution=1.0) == (1, 4)
    assert shortest_run_of_bins(np.ones(5), 6.0) is None and shortest_run_of_bins(np.ones(5), 3.0, longest=2) is None
    counts = np.zeros(POWER_BINS)
    counts[[0, 60, 70]] = 500, 450, 40
    assert largest_occupied_power(counts, 900, noise=1.0) == 60  # zeros count for it, and so does not what is far above
    assert (
        largest_occupied_power(counts, 980, noise=1.0) == 60
    )  # no eight powers hold so much: the most that stands out
    counts[0] = 950
    assert largest_occupied_power(counts, 900, noise=1.0) is None


@given(st.floats(-1e18, 1e18), st.floats(2.0**-80, 1e18))
def test_rounding_goes_outwards_and_not_far(low, width):
    high = low + max(width, abs(low) * 1e-5)
    below, above = round_bounds_outwards(low, high)
    assert below <= low < high <= above and above - below <= 1.03 * (high - low)
    assert math.copysign(1, below) == 1 or below < 0


def odd_columns(rng, n):
    yield "near 4300, few wild values", np.where(rng.random(n) < 0.002, 7e5, rng.normal(4300, 40, n)), (4100, 4500)
    yield "near a city", 52.5 + 0.1 * rng.normal(size=n), (52.0, 53.0)
    yield "0 or 1", rng.integers(0, 2, n), (-0.1, 1.1)
    yield "few integers", rng.integers(1, 6, n), (0.5, 5.5)
    yield "one value", np.full(n, 5.0), (4.99, 5.01)
    yield "zeros", np.zeros(n), OF_ZEROS
    yield "rarely not zero", (rng.random(n) < 0.03) * 1e6, OF_ZEROS
    yield "negative", -rng.exponential(1.0, n), (-8.0, 0.3)
    yield "heavy tails", rng.standard_cauchy(n), (-25.0, 25.0)
    yield "tiny", rng.normal(size=n) * 1e-12, (-5e-12, 5e-12)
    yield "beyond all powers", np.full(n, 1e200), (0.0, 2.0**66)
    yield "all powers", 10.0 ** rng.uniform(-15, 15, n), (-1e19, 1e19)


def test_odd_columns_get_sane_bounds(rng):
    names, columns, ranges = zip(*odd_columns(rng, 20_000), strict=True)
    x = np.column_stack(columns)
    y = rng.integers(0, 2, len(x))
    for unit in ("record", "label"):
        made = make(x, y, rb.Moments(1.0, unit=unit))
        for name, values, (least, most), column in zip(names, x.T, ranges, made.columns[:-1], strict=True):
            assert least <= column.low < column.high <= most, (unit, name, column)
            if not name.startswith(("beyond", "rarely", "all")):
                within = np.mean((values >= column.low) & (values <= column.high))
                assert within >= 0.75, (unit, name, within)


@pytest.mark.parametrize("n_rows", [0, 1, 50])
@pytest.mark.parametrize("epsilon", [0.03, 1.0, 50.0])
def test_tables_with_next_to_no_rows_get_some_bounds(rng, n_rows, epsilon):
    """Noise chooses them, and a release comes out all the same."""
    x, y = 100 * rng.normal(size=(n_rows, 3)), np.arange(n_rows) % 2
    for unit in ("record", "label"):
        for column in make(x, y, rb.Moments(epsilon, unit=unit)).columns[:-1]:
            assert -(2.0**66) < column.low < column.high < 2.0**66


def test_a_model_is_as_good_as_with_known_bounds(table):
    x, y = table
    errors = {}
    for name, bounds in (("declared", [[4200, 4400], [0, 8], [0, 1]]), ("found", "private"), ("wild", None)):
        bounds = bounds or np.column_stack([x.min(axis=0), x.max(axis=0)])
        release = rb.craft(x, y, classes=(0, 1), n_rados=10, mechanism=rb.Moments(1.0), counts=None, schema=bounds)
        errors[name] = np.mean(rb.MomentsClassifier().fit_rados(release).predict(x) != y)
    assert errors["found"] < errors["declared"] + 0.03


# ---- declarations and refusals


def test_chosen_columns_only(table, tmp_path):
    x, y = table
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(ill=y)
    options = {"label": "ill", "classes": (0, 1), "n_rados": 10, "mechanism": rb.Moments(1.0), "counts": None}
    options["columns"] = "linear"
    declared = {"a": "private", "c": (0, 1), "b": "private"}
    for how in ({"bounds": declared}, {"schema": write_schema(tmp_path / "t.json", declared, "ill", [0, 1])}):
        release = flat.craft(frame, **how, **options)
        found = {column.name: (column.low, column.high) for column in release.columns[:-1]}
        assert found["c"] == (0, 1) and 4000 < found["a"][0] < 4300 < found["a"][1] < 4600
        assert release.mechanism["searched"] == ["a", "b"]
        assert "The bounds of 'a', 'b' were found privately" in release.statement.promises[2]
        assert any("the bounds of other columns" in line for line in release.statement.not_protected)
        assert release.statement.epsilon <= 1.0
        assert release.mechanism["noise"]["bounds 1"] == pytest.approx(
            math.sqrt(2) / (rb.Moments(1.0).distance(NoiseShape(4, 2)) * math.sqrt(0.025)), rel=1e-6
        )
        release.save(tmp_path / "r.rado.parquet")
        assert rb.load(tmp_path / "r.rado.parquet").columns == release.columns
    one = flat.craft(frame, bounds=declared, features=["b", "c"], **options)
    assert one.mechanism["searched"] == ["b"]
    whole = flat.craft(frame, bounds="private", drop=["c"], **options)
    assert whole.mechanism["searched"] == ["a", "b"]
    none = flat.craft(frame, bounds=declared, features=["c"], **options)
    assert "searched" not in none.mechanism and "declared bounds" in "".join(none.statement.not_protected)


def test_the_label_unit_reads_bounds_off_the_features(table):
    x, y = table
    mechanism = rb.Moments(1.0, unit="label")
    one, other = make(x, y, mechanism), make(x, 1 - y, mechanism)
    assert [(c.low, c.high) for c in one.columns] == [(c.low, c.high) for c in other.columns]
    assert {noise for stage, noise in one.parameters["noise"].items() if stage.startswith("bounds")} == {0.0}
    statement = mechanism.statement(one.circumstances)
    assert any("were found in the table, exactly" in line for line in statement.not_protected)
    assert not any("bounds" in line for line in statement.promises)


@pytest.mark.parametrize(
    ("mechanism", "bounds"), [(rb.NoisyRados(1.0), "private"), (None, {"x0": (0, 1), "x1": "private"})]
)
def test_other_mechanisms_refuse(mechanism, bounds):
    with pytest.raises(rb.ArgumentError, match="moments"):
        rb.craft(np.eye(2), [0, 1], classes=(0, 1), mechanism=mechanism, schema=bounds)


def test_half_a_declaration_is_refused():
    for bounds in ({"x0": "privat"}, {"x0": (0, "private")}):
        with pytest.raises(rb.ArgumentError, match="'x0' must be two numbers"):
            rb.craft(np.eye(2), [0, 1], classes=(0, 1), mechanism=rb.Moments(1.0), schema=bounds)
    with pytest.raises(rb.ArgumentError, match="needs the classes declared"):
        rb.craft(np.eye(2), [0, 1], mechanism=rb.Moments(1.0), schema="private")
    assert asked("private").names is None


@pytest.mark.parametrize("share", [0, True])
def test_shares_that_make_no_sense(share):
    with pytest.raises(rb.ArgumentError, match="bounds_share"):
        rb.Moments(1.0, bounds_share=share)


def test_rows_that_do_not_carry_the_search_are_refused_before_anything_is_spent(table):
    x, y = table
    mu = rb.Moments(1.0).distance(NoiseShape(4, 3))
    enough = math.ceil(LEAST_PULL / (mu * math.sqrt(0.1 / 3)))
    options = {"bounds": "private", "classes": (0, 1), "n_rados": 10, "mechanism": rb.Moments(1.0), "counts": None}
    with pytest.raises(rb.ArgumentError, match=r"rows do not carry the search .* one record added or removed") as error:
        flat.craft(x, y, rows=enough - 1, **options)
    assert "declare bounds, take a larger epsilon or fewer columns" in str(error.value)
    assert f"{enough:,}"[:2] in str(error.value)
    flat.craft(x, y, rows=enough, **options)
    flat.craft(x[:50], y[:50], **options)  # without rows nothing is refused
    # By name it is known before the table is opened.
    with pytest.raises(rb.ArgumentError, match="do not carry the search"):
        flat.craft("not-there.csv", label="y", rows=100, **{**options, "bounds": dict.fromkeys("abc", "private")})
    booked = []
    with pytest.raises(rb.ArgumentError, match="do not carry"):
        make(x, y, ledger=booked.append, rows=100)
    assert booked == []


def test_spoiled_rows_stop_it_as_they_always_do(table):
    x, y = table
    x[:3000, 2] = np.nan
    booked = []
    with pytest.raises(rb.TableError, match="rows would contribute nothing"):
        make(x, y, ledger=booked.append)
    assert len(booked) == 1  # the counts alone


def test_a_table_can_be_checked_beside_bounds_that_are_to_be_found(table):
    x, y = table
    x[5, 1] = np.inf
    check = check_table(x, y, classes=(0, 1), schema="private")
    assert check.counts.spoiled == 1 and not check.counts.clipped.any()
    mixed = check_table(x, y, classes=(0, 1), schema={"x0": (0, 5000), "x1": "private", "x2": (0, 1)})
    assert mixed.counts.clipped.tolist() == [10, 0, 0]


@pytest.mark.parametrize("form", ["csv", "parquet", "numpy inferred", "pandas read", "polars"])
def test_releases_of_neighbours_look_alike_but_for_what_follows_from_noise(form, tmp_path):
    """Odd records, as in tests/test_neighbours.py: no value decides whether a release comes out, or its shape."""
    compared = 0
    for number in range(8):
        pair, classes, _ = draw(form, number)
        tables = [
            build(form, number, pair, records, tmp_path, f"{k}") for k, records in enumerate((pair.long, pair.short))
        ]
        if None in tables:
            continue
        seen = []
        for table, y in tables:
            options = {"label": "y"} if y is None else {}
            mechanism = rb.Moments(1.0, unit=pair.unit)
            looked = look_at_release(
                table, y, classes=classes, mechanism=mechanism, n_rados=3, bounds="private", **options
            )
            if looked.shape:
                looked.shape["document"].pop("id", None)  # random
                for column in looked.shape["document"]["columns"] if pair.unit == "record" else ():
                    column.pop("low", None), column.pop("high", None)
            seen.append(looked)
        assert differences(*seen, pair.place, pair.unit) == []
        compared += seen[0].refusal is None
    assert compared >= 4


def test_a_mechanism_is_rebuilt_with_the_noise_of_its_searches(table):
    x, y = table
    mechanism = rb.Moments(4.0)
    release = rb.craft(
        x, y, classes=(0, 1), n_rados=10, mechanism=mechanism, columns="linear", counts=None, schema="private"
    )
    again, rounds = mechanism_of_release(release), release.mechanism["rounds"]
    shape = NoiseShape(4, 3)
    assert again.scales(rounds, shape) == pytest.approx(mechanism.scales(rounds, shape), rel=1e-6)
    assert again.distance(shape) == pytest.approx(mechanism.distance(shape), rel=1e-6)
    two = again.scales(rounds, replace(shape, n_searched=2))["bounds 1"]
    assert two == pytest.approx(math.sqrt(2 / 3) * again.scales(rounds, shape)["bounds 1"])


def test_the_command(rado, clinic):
    options = ("--label", "readmitted", "--classes", "no,yes", "-n", 20)
    code, out, err = rado("craft", clinic, "--epsilon", 1, "--schema", "private", *options)
    assert (code, err) == (0, "") and "for one record added or removed" in out
    release = rb.load("clinic.rado.parquet")
    assert release.mechanism["searched"] == ["age", "dose"]
    assert "were found privately" in rado("show", "clinic.rado.parquet")[1]
    code, _, err = rado("craft", clinic, "--epsilon", 1, "--schema", "private", "--set", "rows=60", *options)
    assert code == 1 and err.count("\n") == 1
    code, _, err = rado("craft", clinic, "--epsilon", 1, *options)
    assert code == 1 and "--schema private" in err
    code, _, err = rado(
        "craft", clinic, "--mechanism", "noisy-rados", "--epsilon", 1, "--set", "bounds_share=0.2", *options
    )
    assert code == 1 and "has no setting 'bounds_share'" in err
    code, out, _ = rado("check", clinic, "--schema", "private", "--label", "readmitted", "--classes", "no,yes")
    assert code == 0 and "60 of 60 rows contribute" in out


def test_the_parts_that_must_be_held_go_with_the_searches():
    assert len(HELD) == len(SEARCHES) and sum(part for _, part in SEARCHES) == pytest.approx(1.0)


def test_bounds_do_not_depend_on_the_decimal_context_of_the_caller():
    with decimal.localcontext(decimal.Context(prec=4)):
        assert round_bounds_outwards(-3.000123, -2.999847) == (-3.000123, -2.999846)


def test_columns_that_nobody_declared_are_not_protected_and_the_statement_says_so(tmp_path):
    frame = pd.DataFrame({"age": np.linspace(0, 1, 3000), "diag_flu": np.zeros(3000), "ill": np.arange(3000) % 2})
    options = {"label": "ill", "classes": (0, 1), "mechanism": rb.Moments(1.0), "n_rados": 2}
    declared = {"age": "private", "diag_flu": "private"}
    for bounds, features, from_table in (("private", None, True), ("private", ["age"], False), (declared, None, False)):
        stated = flat.craft(frame, bounds=bounds, features=features, **options).statement
        assert any("taken from the table" in line for line in stated.not_protected) == from_table


@pytest.mark.parametrize("fault", ["name", "memory"])
def test_what_columns_are_refused_for_comes_before_anything_is_spent(fault, tmp_path, monkeypatch):
    names = {"name": "(constant)", "memory": "age"}
    frame = pd.DataFrame({names[fault]: np.linspace(0, 1, 300), "ill": np.arange(300) % 2})
    if fault == "memory":
        monkeypatch.setattr(memory, "available_memory", lambda: 100)
    ledger = rb.Ledger.create(tmp_path / "books", "table", epsilon=3.0)
    with pytest.raises(rb.RadoError):
        rb.craft(frame, label="ill", classes=(0, 1), mechanism=rb.Moments(1.0), ledger=ledger, schema="private")
    assert ledger.entries() == []
