"""Arrays on a device: the same releases as from memory, by the engine `cuda` on its twin, and by any other engine."""

import math
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cuda_twin
import flat
import radoboost as rb
from cuda_twin import DeviceArray
from radoboost.holder import engines
from radoboost.holder.engines import auto_engine, cuda, cuda_device, get_engine, self_test
from radoboost.holder.engines import cuda as cuda_module
from radoboost.holder.grid import ExactSums
from radoboost.holder.keystream import Key
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.tables import open_table
from radoboost.tables.gpu_arrays import copy_gpu_array_to_host, is_gpu_array

REFERENCE = get_engine("reference")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    if cuda_twin.compiler() is None:
        pytest.skip("g++ is not installed, which compiles the kernels for this machine")
    return cuda.Cuda(cuda_twin.Twin(cuda_twin.build(tmp_path_factory.mktemp("twin"))[0]))


@pytest.fixture
def fixed_keys(monkeypatch):
    """Noise and coins that are always the same."""
    monkeypatch.setattr(Key, "from_system", classmethod(lambda cls: cls(range(32))))


@pytest.fixture
def few_rows(monkeypatch):
    """Batches of few rows on the device, so that there are several."""
    monkeypatch.setattr(cuda_twin.Twin, "memory_bytes", 64 * 3 * 128)


def table(rng, m=500, kind=np.float64, n_classes=2):
    x = rng.normal(size=(m, 3)).astype(kind)
    x[:, 2] = rng.integers(0, 2, m)
    return x, rng.integers(0, n_classes, m)


def same(one, other):
    assert sorted(one.blocks) == sorted(other.blocks)
    for name, block in one.blocks.items():
        assert np.asarray(block).tobytes() == np.asarray(other.blocks[name]).tobytes(), name
    assert one.columns == other.columns and one.statement == other.statement


# ---- releases


BOUNDS = {"x0": (-2.0, 2.0), "x1": (-1.5, 3.0), "x2": (0.0, 1.0)}
PLAIN = {
    "standard": {},
    "bounds": {"scale": "bounds", "bounds": BOUNDS},
    "none": {"scale": None, "intercept": False},
    "clipped": {"bounds": BOUNDS},
    "fixed support": {"signatures": rb.FixedSupport(0.5)},
    "feature band": {"mechanism": rb.FeatureBand("x2", 3.0)},
    "mapped": {"columns": "degree-2"},
    "some columns": {"features": ["x2", "x0"]},
    "weights": {"weights": [k % 3 for k in range(500)]},
}


@pytest.mark.filterwarnings("ignore::radoboost.errors.ClippedWarning")
@pytest.mark.parametrize(
    ("options", "kind"), [(options, (np.float32, np.float64)[k % 2]) for k, options in enumerate(PLAIN.values())]
)
def test_plain_releases_from_a_device(engine, rng, few_rows, kind, options):
    x, y = table(rng, kind=kind)
    expected = flat.craft(x, y, n_rados=20, seed=1, engine="reference", **options)
    same(flat.craft(DeviceArray(x), DeviceArray(y), n_rados=20, seed=1, engine=engine, threads=2, **options), expected)


@pytest.mark.parametrize("name", ["kernel", "reference"])
def test_engines_of_a_cpu_get_copies(rng, name):
    x, y = table(rng)
    expected = rb.craft(x, y, n_rados=20, seed=1, compute=rb.Compute(engine=name))
    same(rb.craft(DeviceArray(x), y, n_rados=20, seed=1, compute=rb.Compute(engine=name)), expected)


def test_releases_of_several_classes_from_a_device(engine, rng, few_rows):
    x, y = table(rng, n_classes=4)
    expected = rb.craft(x, y, n_rados=20, seed=1, compute=rb.Compute(engine="reference"))
    same(rb.craft(DeviceArray(x), DeviceArray(y), n_rados=20, seed=1, compute=rb.Compute(engine=engine)), expected)


def test_plain_releases_copy_no_rows(engine, rng, few_rows, monkeypatch):
    x, y = table(rng, kind=np.float32)
    monkeypatch.setattr(DeviceArray, "copied", 0)
    engine._device.launched.clear()
    rb.craft(DeviceArray(x), y, n_rados=20, compute=rb.Compute(engine=engine))
    assert DeviceArray.copied == 0
    assert {"extremes_float32", "digits_float32", "snap_float32"} <= engine._device.launched
    rb.craft(DeviceArray(x), y, n_rados=20, compute=rb.Compute(engine="reference"))
    assert DeviceArray.copied == 2 * x.size  # both passes


# ---- labels


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_stay_on_the_device(engine, rng, few_rows, monkeypatch, kind, n_classes):
    x, y = table(rng, n_classes=2 if kind == "bool" else n_classes)
    y = (y if kind in ("bool", "uint8") else y - 1).astype(kind)
    monkeypatch.setattr(DeviceArray, "copied_labels", 0)
    made = rb.craft(DeviceArray(x), DeviceArray(y), n_rados=20, seed=1, compute=rb.Compute(engine=engine))
    assert (DeviceArray.copied_labels == 0) == (len(np.unique(y)) == 2)  # with more classes, signs are made here
    same(made, rb.craft(x, y, n_rados=20, seed=1, compute=rb.Compute(engine="reference")))


LARGE = 0x7FF4A5A5A5A5A5A5  # which the kernels mean by no label
ODD_LABELS = {
    "of a type that stays here": lambda y: y.astype(np.uint16),
    "that stand for none": lambda y: np.where(y > 0, LARGE, 7),
    "zeros of two signs": lambda y: np.where(np.arange(len(y)) % 3, y, -y.astype(float)),
    "all one": lambda y: y * 0,
    "a missing one": lambda y: np.where(np.arange(len(y)) == 400, np.nan, y),
    "many numbers": lambda y: np.arange(len(y)) / 7,
    "many classes": lambda y: np.arange(len(y)) % 70,
}


@pytest.mark.parametrize("made", ODD_LABELS.values(), ids=ODD_LABELS)
def test_labels_that_are_odd_are_taken_as_from_memory(engine, rng, few_rows, made):
    x, y = table(rng)
    y, ends = made(y), []
    for place, by in ((DeviceArray, engine), (np.asarray, "reference")):
        try:
            ends.append(rb.craft(place(x), place(y), n_rados=20, seed=1, compute=rb.Compute(engine=by)))
        except rb.RadoError as error:
            ends.append((type(error), str(error)))
    if isinstance(ends[0], tuple):
        assert ends[0] == ends[1]
    else:
        same(*ends)


def test_a_label_that_was_not_declared_is_named_with_its_row(engine, rng, few_rows):
    x, y = table(rng)
    y[433] = 5
    with pytest.raises(rb.TableError, match="row 434"):
        rb.craft(DeviceArray(x), DeviceArray(y), n_rados=20, classes=(0, 1), compute=rb.Compute(engine=engine))


def test_a_column_of_the_array_may_be_the_label(engine, rng, few_rows, monkeypatch):
    x, y = table(rng)
    both = np.column_stack([x[:, 0], y, x[:, 1]])
    monkeypatch.setattr(DeviceArray, "copied_labels", 0)
    made = rb.craft(DeviceArray(both), label="x1", n_rados=20, seed=1, compute=rb.Compute(engine=engine))
    assert DeviceArray.copied_labels == 0
    same(made, rb.craft(both, label="x1", n_rados=20, seed=1, compute=rb.Compute(engine="reference")))


# ---- private mechanisms


PRIVATE = {
    "noisy-rados": (rb.NoisyRados(epsilon=2.0), {"n_rados": 15}),
    "noisy-examples": (rb.NoisyExamples(epsilon=4.0), {"n_rados": 15}),
    "moments of labels": (rb.Moments(epsilon=8.0, unit="label"), {"columns": "linear", "label": "ill"}),
    **{f"moments {word}": (rb.Moments(epsilon=8.0), {"columns": word})
       for word in ("linear", "degree-2", "degree-5")},
}  # fmt: skip


@pytest.mark.parametrize(
    ("mechanism", "options", "there"), [(*case, k % 2 == 0) for k, case in enumerate(PRIVATE.values())]
)
def test_private_releases_have_the_bits_of_the_reference(engine, rng, fixed_keys, mechanism, options, there):
    """Rows with a gap, an infinite value or a value beyond its bounds among them."""
    x, y = table(rng, 400)
    x[3, 1], x[70, 0], x[200, 1] = np.nan, np.inf, 50.0
    options = {"mechanism": mechanism, "bounds": BOUNDS, "classes": (0, 1), "counts": None, **options}
    engine._device.launched.clear()
    made = flat.craft(DeviceArray(x) if there else x, y, engine=engine, threads=2, **options)
    assert {"sum_tiles_2", "sphere_float64", "products_int16"} & engine._device.launched
    same(made, flat.craft(x, y, engine="reference", threads=1, **options))


def test_private_moments_of_several_classes(engine, rng, fixed_keys):
    x, y = table(rng, 400, n_classes=3)
    options = {"mechanism": rb.Moments(epsilon=8.0), "bounds": BOUNDS, "classes": (0, 1, 2), "counts": None}
    made = flat.craft(DeviceArray(x), y, engine=engine, **options)
    same(made, flat.craft(x, y, engine="reference", **options))


def test_the_holder_gets_the_same_counts(engine, rng, tmp_path):
    x, y = table(rng, 300)
    x[3, 1], x[7, 0] = np.nan, 50.0
    options = {"mechanism": rb.Moments(epsilon=8.0), "bounds": BOUNDS, "classes": (0, 1), "columns": "linear"}
    for values, each, name in ((DeviceArray(x), engine, "there"), (x, "reference", "here")):
        flat.craft(values, y, engine=each, counts=tmp_path / name, **options)
    assert (tmp_path / "there").read_text() == (tmp_path / "here").read_text()


# ---- the survey


numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)


def surveyed(survey, *blocks):
    assert all(survey.add(block) for block in blocks)
    return survey.result()


def equal(one: ExactSums, other: ExactSums):
    assert (one.n_rows, one.sums, one.squares) == (other.n_rows, other.sums, other.squares)
    np.testing.assert_array_equal(one.lowest, other.lowest)
    np.testing.assert_array_equal(one.highest, other.highest)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.integers(1, 900), st.sampled_from([1, 3, 28, 255, 256, 300]), st.sampled_from([32, 64]),
       st.sampled_from([0, 30, 150]), st.booleans(), st.booleans())  # fmt: skip
def test_statistics_are_exact(engine, seed, m, d, width, spread, clips, moments):
    """Values of many sizes, most of which have more bits than four digits, and bounds."""
    rng = np.random.default_rng(seed)
    m = min(m, 1500 // d + 1)
    kind, spread = (np.float32, min(spread, 30)) if width == 32 else (np.float64, spread)
    values = (rng.normal(size=(m, d)) * 2.0 ** rng.integers(-spread, spread + 1, (m, d))).astype(kind)
    values[rng.random((m, d)) < 0.1] = rng.choice(np.array([0.0, -0.0, 1.0, 2.0**-20], kind))
    low, high = np.full(d, -math.inf), np.full(d, math.inf)
    if clips:
        low[::2], high[1::3] = -0.7, 0.6
    blocks = [values[: m // 3], values[m // 3 :]]
    made = surveyed(engine.survey(low, high, moments=moments), *map(DeviceArray, blocks), blocks[0])
    equal(made, surveyed(REFERENCE.survey(low, high, moments=moments), *blocks, blocks[0]))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(numbers, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=20))
@example([(0.0, 5e-324), (1e-45, 1.7e308)])
@example([(1.0, 2.0**-300), (2.0**-126, 1.0)])
@example([(0.0, 2.0**899), (1.0, 2.0**-200)])
def test_statistics_of_any_numbers_are_exact(engine, pairs):
    low, high = np.full(1, -math.inf), np.full(1, math.inf)
    for values in (np.array([[a] for a, _ in pairs], np.float32), np.array([[b] for _, b in pairs])):
        made = surveyed(engine.survey(low, high, moments=True), DeviceArray(values))
        equal(made, surveyed(REFERENCE.survey(low, high, moments=True), values))


def test_where_too_many_values_have_more_bits_they_are_copied(engine, rng, monkeypatch):
    monkeypatch.setattr(cuda_module, "_MOST_ODD", 5)
    monkeypatch.setattr(cuda_module, "_COPIED_VALUES", 64)
    values, endless = rng.normal(size=(200, 2)) * 2.0 ** rng.integers(-80, 3, (200, 2)), np.full(2, math.inf)
    for part in (values[:3], values):
        made = surveyed(engine.survey(-endless, endless, moments=True), DeviceArray(part))
        equal(made, surveyed(REFERENCE.survey(-endless, endless, moments=True), part))


def test_sums_of_a_block_fit():
    source = cuda_device.cuda_kernel_source()
    assert f"#define SURVEY_THREADS {cuda_module._THREADS}\n" in source
    assert f"#define SUMS {cuda_module._SUMS} " in source
    assert cuda_module._SUMS == 3 * cuda_module._DIGITS - 1
    assert f"#define DIGIT 0x1p{cuda_module._DIGIT_BITS}\n" in source
    assert cuda_module._MOST_BLOCK_ROWS * 4 * 2 ** (2 * cuda_module._DIGIT_BITS) < 2**63


@pytest.mark.parametrize(("wrong", "place"), [(np.inf, (0, 0)), (-np.inf, (499, 2)), (np.nan, (256, 1))])
def test_values_that_are_not_finite_are_refused_by_their_place(engine, rng, few_rows, wrong, place):
    x, y = table(rng)
    x[place] = wrong
    options = {"scale": "bounds", "bounds": [(-2, 2), (-2, 2), (0, 1)], "missing": "error"}  # no schema is proposed
    with pytest.raises(rb.TableError) as here:
        flat.craft(x, y, engine="reference", **options)
    with pytest.raises(rb.TableError) as there:
        flat.craft(DeviceArray(x), y, engine=engine, threads=1, **options)
    assert str(here.value) == str(there.value)
    assert f"row {place[0] + 1}" in str(there.value)


def test_gaps_are_filled_by_a_proposed_schema(engine, rng):
    x, y = table(rng)
    x[3, 1] = np.nan
    with pytest.warns(rb.SchemaWarning):
        made = rb.craft(DeviceArray(x), y, label=None, n_rados=5, seed=1, compute=rb.Compute(engine=engine))
    with pytest.warns(rb.SchemaWarning):
        same(made, rb.craft(x, y, n_rados=5, seed=1, compute=rb.Compute(engine="reference")))


# ---- what an array on a device is


def test_where_an_array_lies():
    class Tensor:
        def __init__(self, device, interface=AttributeError):
            self._device, self._interface = device, interface

        @property
        def __cuda_array_interface__(self):
            raise self._interface("none")

        def __dlpack_device__(self):
            return self._device, 0

    class Anything:
        def __getattr__(self, name):
            raise AssertionError("it was asked")

    assert is_gpu_array(DeviceArray(np.eye(2))) and is_gpu_array(Tensor(2)) and is_gpu_array(Tensor(13))
    assert is_gpu_array(Tensor(2, RuntimeError))  # takes part in gradients
    others = [
        np.eye(2),
        [1],
        pa.array([1]),
        pa.array(["a"]),
        pa.table({"a": [1]}),
        Tensor(1),
        "x.csv",
        None,
        Anything(),
    ]
    assert not any(map(is_gpu_array, others))


def test_tensors_are_copied_as_their_library_does_it():
    class Tensor(DeviceArray):
        get = None

        def __init__(self, array, gradient=True):
            super().__init__(array)
            self.gradient = gradient

        def detach(self):
            return Tensor(self.own, gradient=False)

        def cpu(self):
            return self

        def numpy(self):
            assert not self.gradient
            if self.dtype == np.float16:
                raise TypeError("Got unsupported ScalarType BFloat16")
            return self.own

        def __getitem__(self, key):
            return Tensor(self.own[key], self.gradient)

    x, y = np.arange(12.0).reshape(6, 2), [0, 1] * 3
    same(rb.craft(Tensor(x), y, n_rados=3, seed=1), rb.craft(x, y, n_rados=3, seed=1))
    with pytest.raises(rb.TableError, match=r"BFloat16.*make it float32 there") as caught:
        rb.craft(Tensor(x.astype(np.float16)), y)
    assert "\n" not in str(caught.value)

    class Opaque(DeviceArray):
        get = property()

        def __array__(self, *_, **__):
            return np.array(None, dtype=object)

    with pytest.raises(rb.TableError, match="an array of CuPy or a tensor of PyTorch"):
        copy_gpu_array_to_host(Opaque(x))


@pytest.mark.parametrize("kind", [np.int64, np.float16])
def test_other_types_are_read_as_in_memory(engine, rng, kind):
    x, y = rng.integers(0, 2, (100, 3)).astype(kind), rng.integers(0, 2, 100)
    expected = rb.craft(x, y, n_rados=5, seed=1, compute=rb.Compute(engine="reference"))
    same(rb.craft(DeviceArray(x), y, n_rados=5, seed=1, compute=rb.Compute(engine=engine)), expected)


def test_whole_numbers_that_float64_does_not_hold_are_refused(engine):
    with pytest.raises(rb.TableError, match=r"2\*\*53"):
        rb.craft(DeviceArray(np.array([[2**53 + 1], [0]])), [0, 1], compute=rb.Compute(engine=engine))


def test_labels_may_be_a_column(engine, rng):
    x, _ = table(rng)
    expected = rb.craft(x, label="x2", n_rados=5, seed=1, compute=rb.Compute(engine="reference"))
    same(rb.craft(DeviceArray(x), label="x2", n_rados=5, seed=1, compute=rb.Compute(engine=engine)), expected)


def test_shapes_are_checked(engine):
    with pytest.raises(rb.TableError, match="two dimensions"):
        rb.craft(DeviceArray(np.arange(3.0)), [0, 1, 0], compute=rb.Compute(engine=engine))
    with pytest.raises(rb.TableError, match="no rows"):
        rb.craft(DeviceArray(np.empty((0, 3))), [], compute=rb.Compute(engine=engine))
    with pytest.raises(rb.TableError, match=r"rows|labels"):
        rb.craft(DeviceArray(np.eye(3)), [0, 1], compute=rb.Compute(engine=engine))


def test_no_cluster_gets_an_array_on_a_device(rng):
    x, y = table(rng)

    class Runner(ThreadRunner):
        cluster = "a cluster of Dask"

    for kind in (np.float32, np.int8):
        with pytest.raises(rb.ArgumentError, match="this machine only; leave cluster out"):
            rb.craft(DeviceArray(x.astype(kind)), y, compute=rb.Compute(cluster=Runner(1)))
    with pytest.raises(rb.TableError, match="this machine only"):
        pickle.dumps(open_table(DeviceArray(x), y).parts()[0])


# ---- one engine, several threads, other machines


def test_several_threads_share_an_engine(engine, rng, few_rows, monkeypatch):
    monkeypatch.setattr(cuda, "_VALUES_HERE", 4 * 64)
    x, y = table(rng, 3000)
    expected = rb.craft(x, y, n_rados=30, seed=1, compute=rb.Compute(engine="reference"))
    for values in (x, DeviceArray(x)):
        same(rb.craft(values, y, n_rados=30, seed=1, compute=rb.Compute(engine=engine, threads=8)), expected)


def test_the_engine_proves_itself(engine, monkeypatch):
    """Where it arrives it takes the device that is there, and computes the integers that it should."""
    monkeypatch.setattr(cuda, "current_cuda_device", lambda: engine._device)
    arrived = pickle.loads(pickle.dumps(engine))
    assert arrived._held is None
    self_test._self_test_digest_of_engine.cache_clear()
    assert self_test.engine_passes_self_test(arrived)
    assert self_test.dense_self_test_digest(engine) == self_test.DIGEST
    monkeypatch.setattr(engine._device, "matrix_unit", False)
    assert self_test.dense_self_test_digest(engine) == self_test.DIGEST
    monkeypatch.setattr(cuda, "_i64", lambda x: np.int64(x - (x == self_test._ROWS)))
    assert self_test.dense_self_test_digest(engine) != self_test.DIGEST


class OffByOne(cuda_twin.Twin):
    """A device on which sums are off by one."""

    def get(self, array):
        here = super().get(array)
        return here + 1 if here.dtype == np.int64 else here


def test_every_device_is_proven_before_it_is_used(engine, rng, monkeypatch):
    """Also the second one of a process, whose first was right, and one that nobody asked for by name."""
    x, y = table(rng, 300)
    private = {"bounds": [[-3, 3]] * x.shape[1], "classes": (0, 1), "mechanism": rb.Moments(1.0)}
    rb.craft(x, y, n_rados=5, compute=rb.Compute(engine=engine))
    wrong = OffByOne.__new__(OffByOne)
    wrong.__dict__.update(engine._device.__dict__)
    booked = []
    monkeypatch.setattr("radoboost.holder.curator.Curator.book", lambda self, event: booked.append(event))
    for options in ({"n_rados": 5}, private):
        for one in (cuda.Cuda(wrong), "cuda"):
            monkeypatch.setattr(cuda, "current_cuda_device", lambda: wrong)
            with pytest.raises(rb.ArgumentError, match="other integers"):
                flat.craft(x, y, engine=one, **options)
        monkeypatch.setattr("radoboost.holder.craft.auto_engine", lambda **options: cuda.Cuda(wrong))
        with pytest.raises(rb.ArgumentError, match="other integers"):
            flat.craft(x, y, **options)
    assert not booked


def test_a_device_is_proven_once(engine, rng, monkeypatch):
    self_test._self_test_digest_of_engine.cache_clear()
    proofs, digest = [], self_test.dense_self_test_digest
    monkeypatch.setattr(self_test, "dense_self_test_digest", lambda engine: proofs.append(engine) or digest(engine))
    x, y = table(rng, 100)
    for _ in range(3):
        rb.craft(x, y, n_rados=5, compute=rb.Compute(engine=cuda.Cuda(engine._device)))
    assert len(proofs) == 1
    rb.craft(x, y, n_rados=5, compute=rb.Compute(engine="kernel"))
    assert len(proofs) == 1  # compiling all of the kernel takes longer than most tables


# ---- engine="auto"


@pytest.fixture
def asked(monkeypatch):
    """A machine that has a device; which engines were asked for."""
    names, real = [], get_engine

    def noting(engine):
        names.append(engine)
        return real("reference") if engine == "cuda" else real(engine)

    monkeypatch.setattr(cuda_device, "may_have_cuda_device", lambda: True)
    monkeypatch.setattr(engines, "get_engine", noting)
    return names


def test_auto_takes_a_device_where_it_pays(asked):
    much = engines.DEVICE_ADDITIONS
    for on_device, n_rados, additions, takes in (
        (True, 10, 0, True), (False, 10_000, much, True), (False, 10_000, None, True), (False, 9_999, much, False),
        (False, 10_000, much - 1, False),
    ):  # fmt: skip
        asked.clear()
        auto_engine(on_device=on_device, n_rados=n_rados, additions=additions)
        assert ("cuda" in asked) == takes


def test_auto_asks_no_device_where_there_is_none(asked, monkeypatch):
    monkeypatch.setattr(cuda_device, "may_have_cuda_device", lambda: False)
    auto_engine(on_device=True, n_rados=10**5, additions=None)
    assert "cuda" not in asked


def test_auto_does_without_a_device_that_does_not_work(monkeypatch):
    monkeypatch.setattr(cuda_device, "may_have_cuda_device", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert type(auto_engine(on_device=True, n_rados=1, additions=None)).__name__ == "Kernel"


@pytest.mark.parametrize(
    ("there", "least", "options", "takes"),
    [
        (True, 1 << 39, {}, True),
        (False, 1, {}, False),
        (False, 1, {"n_rados": 10_000}, True),
        (False, 1 << 39, {"n_rados": 10_000}, False),  # few rows
        (False, 1, {"n_rados": 10_000, "signatures": rb.FixedSupport(0.5)}, False),
        (True, 1, {"engine": "kernel"}, False),
    ],
)
def test_craft_takes_a_device_by_itself(asked, rng, monkeypatch, there, least, options, takes):
    monkeypatch.setattr(engines, "DEVICE_ADDITIONS", least)
    x, y = table(rng, 64)
    flat.craft(DeviceArray(x) if there else x, y, **{"n_rados": 4, **options})
    assert ("cuda" in asked) == takes


def test_how_many_rows_there_are_decides_nothing_where_records_are_protected(asked, rng, fixed_keys):
    x, y = table(rng, 64)
    options = {"mechanism": rb.NoisyRados(epsilon=1.0), "bounds": BOUNDS, "classes": (0, 1), "counts": None}
    for m in (0, 64):
        asked.clear()
        flat.craft(x[:m], y[:m], n_rados=10_000, **options)
        assert "cuda" in asked


def test_a_device_is_looked_for_without_importing_anything(monkeypatch, tmp_path):
    monkeypatch.setattr(cuda_device, "Path", lambda name: tmp_path / str(name).lstrip("/"))
    monkeypatch.setattr(cuda_device.importlib.util, "find_spec", lambda name: object())
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    assert not cuda_device.may_have_cuda_device()
    (tmp_path / "dev" / "nvidia5").touch()  # a container may have any of a machine's devices
    assert cuda_device.may_have_cuda_device()
    monkeypatch.setattr(cuda_device.importlib.util, "find_spec", lambda name: None)
    assert not cuda_device.may_have_cuda_device()


def test_the_command_says_in_one_line_what_to_install(rado, clinic, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "cupy", None)
    code, out, err = rado("craft", clinic, "--label", "readmitted", "--engine", "cuda")
    assert (code, out) == (1, "") and "pip install '.[gpu]'" in err
    assert err.count("\n") == 1 and not list(tmp_path.glob("*.rado.parquet"))
    code, _, err = rado("craft", clinic, "--label", "readmitted", "--engine", "gpu")
    assert code == 1 and "kernel, reference, cuda" in err


# ---- CuPy, as far as it can be had without a device


class Short(Exception):
    """What CuPy raises where the device has no memory left."""


def cupy_like(number=0):
    device = SimpleNamespace(id=number, use=lambda: None)
    memory = SimpleNamespace(OutOfMemoryError=Short)
    return SimpleNamespace(
        cuda=SimpleNamespace(memory=memory), asarray=lambda x: x, ascontiguousarray=lambda x: x
    ), device


def cupy_device():
    cupy, device = cupy_like()
    made = object.__new__(cuda_device.CupyDevice)
    made._cupy, made._device = cupy, device
    return made


def test_a_device_that_is_full_says_so_in_one_line():
    device = cupy_device()

    def full(*_):
        raise Short("Out of memory allocating 9 bytes\n (allocated so far: 3)")

    device._cupy.empty = device._cupy.zeros = device._cupy.array = full
    for work in (lambda: device.empty((3,), np.int8), lambda: device.zeros((3,), np.int8), lambda: device.put([1])):
        with pytest.raises(rb.TooLargeError, match=r"memory of the GPU.*engine='kernel'") as caught:
            work()
        assert "\n" not in str(caught.value)
