"""What travels on a cluster: passes that hold no rows, sums whose merge changes no argument, refusals, and keys."""

import copy
import dataclasses
import hashlib
import importlib
import inspect
import io
import logging
import math
import pickle
import pkgutil
import pprint
import reprlib
import secrets
import struct
import traceback
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
import rich.pretty
from scipy import sparse

import flat
import radoboost as rb
import radoboost.holder
from pickling import PartsFrame, Pickling, sent, take_parts_frames
from radoboost.holder import aggregation, keystream
from radoboost.holder.aggregation import AddedFields, merge_accumulators
from radoboost.holder.curator import RowNoise
from radoboost.holder.keystream import Key, make_key, pickle_without_fresh_keys
from radoboost.holder.runners.worker import PartitionSums, WorkerError, worker_sum_part
from radoboost.holder.secret_sharing import LimbSums, SumLimbs
from radoboost.holder.table_check import CheckRows
from radoboost.lab.block_rados import BlockSums, SumBlocks
from radoboost.release.columns import Column
from radoboost.tables.labels import LabelEncoder
from test_clusters import CASES, CUTS, EXTRA, TABLE, THREE, files_of, moments, plain, private, small_parts

HOLDER = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(radoboost.holder.__path__, "radoboost.holder.")
    if "cuda" not in module.name
]
CLASSES = {
    kind
    for module in HOLDER
    for kind in vars(module).values()
    if inspect.isclass(kind) and kind.__module__ == module.__name__ and not getattr(kind, "_is_protocol", False)
}


class Noting(Pickling):
    """It notes passes, and the sums of parts and of merged ones."""

    def __init__(self):
        super().__init__(1)
        self.tasks, self.states = [], []

    def sum_parts(self, tasks, source, firsts, rows):
        self.tasks += tasks if isinstance(tasks, list) else [tasks]
        total = super().sum_parts(tasks, source, firsts, rows)
        states = [worker_sum_part(*pickle.loads(message)) for message in self.messages[-len(source.pieces) :][:3]]
        self.states += [state.sums for state in states]
        return total

    def keep_parts(self, task, source, rows):
        self.tasks.append(task)
        return super().keep_parts(task, source, rows)


SPARSE = sparse.csr_array(np.where(np.arange(150 * 4).reshape(150, 4) % 23 == 0, 1.25, 0.0))


def crafted_everything():
    """Crafts that together need every pass that there is."""
    y, k, table = np.arange(150) % 2, np.arange(150) % 3, TABLE.slice(0, 150)
    for name in ("plain", "classes", "feature band", "noisy-rados, persons", "noisy-examples", "moments, degree-2"):
        yield table, CASES[name]
    yield table, moments(bounds="private", drop=EXTRA, columns="linear")
    yield table, moments(**THREE, columns="degree-2")
    yield table, moments(**THREE, columns="linear")
    yield table, {"label": "y", "drop": EXTRA, "n_rados": 20, "share": ["a"]}
    yield SPARSE, {"y": y, "n_rados": 20}
    yield SPARSE, {"y": k, "n_rados": 20}


@pytest.fixture(scope="module")
def noted():
    runner = Noting()
    with small_parts(), mock.patch.object(secrets, "token_bytes", lambda size=32: bytes(range(size))):
        for table, options in crafted_everything():
            flat.craft(table, **options, cluster=runner)
        rb.craft(
            pa.table({"a": [1.0, 2.0], "y": [0, 1]}).to_pandas(),
            label="y",
            n_rados=2,
            compute=rb.Compute(cluster=runner),
        )
        source = rb.tables.open_table(SPARSE, np.arange(150) % 3)
        check = CheckRows(
            tuple(Column(f"x{k}", "bounds", 1.0, 0.0, 1.0) for k in range(4)), LabelEncoder("y", (0, 1, 2))
        )
        for task in (aggregation.CountRows(), check):
            runner.sum_parts(task, source, [0] * len(source.pieces), 10)
    return runner


def test_every_pass_and_every_sum_is_met(noted):
    """So that what follows holds for all of them."""
    is_pass = {kind for kind in CLASSES if hasattr(kind, "title") and (hasattr(kind, "add") or hasattr(kind, "rows"))}
    is_pass |= {kind for kind in CLASSES if hasattr(kind, "rows_at_a_time") and hasattr(kind, "rows")}
    is_pass = {kind for kind in is_pass if not kind.__name__.startswith("_")}
    is_pass -= {SumBlocks, SumLimbs}  # which never leave one machine
    assert len(is_pass) >= 18
    assert {kind.__name__ for kind in is_pass} <= {type(task).__name__ for task in noted.tasks}
    is_sum = {kind for kind in CLASSES if hasattr(kind, "merge")} - {AddedFields, PartitionSums, BlockSums, LimbSums}
    met = {type(state).__name__ for state in noted.states} | {"ExactSums"}  # which is within Surveyed
    assert len(is_sum) >= 10 and {kind.__name__ for kind in is_sum} <= met


def arrays_of(thing):
    """All arrays within an object."""
    if isinstance(thing, np.ndarray):
        return [thing]
    if isinstance(thing, list | tuple | set):
        return [array for item in thing for array in arrays_of(item)]
    fields = vars(thing).values() if hasattr(thing, "__dict__") else ()
    return [array for item in fields for array in arrays_of(item)]


def test_a_merge_changes_no_argument_and_shares_nothing_that_changes(noted):
    for kind in {type(state) for state in noted.states}:
        first, second, *_ = [sent(state) for state in noted.states if type(state) is kind]
        before = pickle.dumps((first, second))
        merged = first.merge(second)
        assert pickle.dumps((first, second)) == before, kind
        for array in arrays_of(merged):  # as noise is added, in place
            if array.flags.writeable and array.dtype == np.int64:
                array += 1
        assert pickle.dumps((first, second)) == before, f"{kind} shares an array with what it merged"
        again = first.merge(second)
        assert pickle.dumps(sent(first).merge(sent(second))) == pickle.dumps(again)


def test_a_pass_can_be_pickled_and_holds_no_rows(noted):
    values = np.concatenate([TABLE[name].to_numpy()[:150] for name in ("a", "b", "c")])
    patterns = [struct.pack("<d", value) for value in values]
    for task in noted.tasks:
        message = pickle.dumps(task)
        assert type(pickle.loads(message)) is type(task)
        assert len(message) < 60_000
        assert not any(pattern in message for pattern in patterns), task
    # What has rows is found, if it is looked for.
    assert any(pattern in pickle.dumps(TABLE["a"].to_numpy()) for pattern in patterns)


# ---- what may go wrong


def refusal(table, **options):
    with pytest.raises(rb.RadoError) as error:
        flat.craft(table, **options)
    assert "\n" not in str(error.value) and "\x1f" not in str(error.value)
    return type(error.value), str(error.value)


def changed(column, row, value, table=TABLE):
    cells = table[column].to_pylist()
    cells[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(cells))


BAD = {
    "infinite": changed("a", 400, np.inf),
    "infinite, of several columns": changed("c", 30, np.inf, changed("a", 400, np.inf)),
    "third class": changed("y", 720, 7),
    "missing label": changed("y", 650, None),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_has_the_line_of_one_machine(name, tmp_path, monkeypatch):
    take_parts_frames(monkeypatch)
    table, options = BAD[name].select(["a", "b", "c", "y"]), {"label": "y", "classes": (0, 1), "n_rados": 20}
    paths = files_of(table, tmp_path)
    with small_parts():
        expected = refusal(paths, **options, threads=1)
        assert {refusal(paths, **options, cluster=Pickling(tree)) for tree in range(2)} == {expected}
        in_memory = refusal(table, **options, threads=1)
        assert {refusal(table, **options, cluster=Pickling(tree)) for tree in range(2)} == {in_memory}
        if name != "missing label":  # to be looked at in raw cells, which a frame on a cluster is not
            frames = {refusal(PartsFrame(table, CUTS), **options, cluster=Pickling(tree)) for tree in range(2)}
            assert frames == {in_memory}


@pytest.mark.parametrize("text", ["1,0,0\n2,3,1\n" * 40 + "inf,1,0\n", "1,0,0\n" * 30 + "1,0,yes\n" + "1,0,1\n" * 30])
def test_a_bad_line_of_a_csv_file_has_its_number(text, tmp_path):
    for name in ("1", "2"):
        (tmp_path / f"{name}.csv").write_text("a,b,y\n" + (text if name == "2" else "1,0,0\n2,3,1\n" * 40))
    options = {"label": "y", "classes": (0, 1), "n_rados": 5}
    expected = refusal(str(tmp_path / "*.csv"), **options, threads=1)
    assert "line" in expected[1] and "2.csv" in expected[1]
    assert refusal(str(tmp_path / "*.csv"), **options, cluster=Pickling()) == expected


def test_too_many_classes_over_all_parts_are_refused_in_a_line(tmp_path):
    """No part has too many: that shows only where sums merge, and still is a state and no failure."""
    table = pa.table({"a": np.arange(120.0), "y": [f"class {k}" for k in range(120)]})
    with small_parts():
        kind, line = refusal(table, label="y", n_rados=5, cluster=Pickling())
    assert kind is rb.TableError and "more than 64 classes" in line


def test_files_that_a_worker_cannot_read_are_one_line(tmp_path):
    paths = files_of(TABLE, tmp_path)

    class Elsewhere(Pickling):
        def sum_parts(self, tasks, source, firsts, rows):
            (tmp_path / "3.parquet").unlink(missing_ok=True)
            return super().sum_parts(tasks, source, firsts, rows)

    kind, line = refusal(paths, **plain(), cluster=Elsewhere())
    assert issubclass(kind, rb.RadoError) and "3.parquet" in line


def test_a_part_with_another_number_of_rows_is_refused(monkeypatch):
    take_parts_frames(monkeypatch)

    class Moving(PartsFrame):
        moved = False

        def frames(self, number):
            rows = self.partitions[number]
            return [rows.slice(1) if number == 3 and self.moved else rows]

    Moving.__module__ = "pyspark.sql"

    class ThenMoved(Pickling):
        def sum_parts(self, tasks, source, firsts, rows):
            total = super().sum_parts(tasks, source, firsts, rows)
            frame.moved = True
            return total

    for options in (plain(), plain(mechanism=rb.Moments(math.inf), n_rados=None)):
        frame = Moving(TABLE, CUTS)
        kind, line = refusal(frame, **options, cluster=ThenMoved())
        assert kind is rb.TableError and "checkpoint" in line
        assert "part 4 of" in line and "99 rows at first and 98" in line


def test_a_part_that_is_counted_twice_or_lost_is_refused():
    class Twice(Pickling):
        def sum_parts(self, tasks, source, firsts, rows):
            total = super().sum_parts(tasks, source, firsts, rows)
            again = worker_sum_part(*pickle.loads(self.messages[-1]))
            return merge_accumulators([total, again])

    class Lost(Pickling):
        def sum_parts(self, tasks, source, firsts, rows):
            total = super().sum_parts(tasks, source, firsts, rows)
            return dataclasses.replace(total, rows={part: n for part, n in total.rows.items() if part != 2})

    with small_parts():
        for options in (plain(), private(mechanism=rb.NoisyRados(1.0), n_rados=5)):
            assert "twice" in refusal(TABLE, **options, cluster=Twice())[1]
            assert "lost part 3" in refusal(TABLE, **options, cluster=Lost())[1]


def test_of_several_refusals_the_first_in_the_table_counts(rng):
    states = [PartitionSums(None, {}, WorkerError(part, rb.TableError(str(part)))) for part in (5, 2, 9)]
    states += [PartitionSums(aggregation.RowCount(3), {1: 3}), PartitionSums(aggregation.RowCount(4), {7: 4})]
    for _ in range(20):
        order = rng.permutation(len(states))
        assert merge_accumulators([states[k] for k in order]).refusal.part == 2


# ---- keys


class Drawn:
    """Keys that the operating system gave, each of its own."""

    def __init__(self, monkeypatch):
        self.keys = []
        monkeypatch.setattr(secrets, "token_bytes", self.token_bytes)

    def token_bytes(self, size=32):
        token = hashlib.shake_256(f"drawn {len(self.keys)} {size}".encode()).digest(size)
        self.keys += [token] * (size == 32)  # and no name of a release
        return token

    def within(self, message):
        return {number for number, key in enumerate(self.keys) if key in message}


def messages_with_keys(drawn, **options):
    """For every message of the pass that sums rows of parts: which of the drawn keys are in it."""
    runner = Noting()
    with small_parts():
        release = flat.craft(TABLE, **options, cluster=runner)
    assert not drawn.within(pickle.dumps(release)), "a key is in the release"
    return runner, [drawn.within(message) for message in runner.messages]


@pytest.fixture
def drawn(monkeypatch):
    return Drawn(monkeypatch)


def test_each_part_has_coins_of_its_own(drawn):
    """Unseeded plain rados: no message has the coins of another part, and the first key is in none."""
    for options in (plain(), plain(label="k", drop=["id", "y", "w"])):
        _, found = messages_with_keys(drawn, **options)
        with_keys = [keys for keys in found if keys]
        assert len(with_keys) >= 17 and all(len(keys) == 1 for keys in with_keys)
        assert len(set.union(*with_keys)) == len(with_keys)
        assert min(set.union(*with_keys)) > 0  # the key of the craft itself was the first to be drawn
        drawn.keys.clear()


def test_noise_on_rados_has_a_key_in_no_message(drawn):
    _, found = messages_with_keys(drawn, **private(mechanism=rb.NoisyRados(1.0), n_rados=5))
    assert len(found) >= 17 and all(len(keys) == 1 for keys in found)
    assert len(set.union(*found)) == len(found)
    assert len(drawn.keys) == len(found) + 2  # one for the craft's coins, one for the noise: in no message
    assert {0, 1} & set.union(*found) == set()


@pytest.mark.parametrize("word", ["linear", "degree-4"])
def test_moments_send_no_key(drawn, word):
    _, found = messages_with_keys(drawn, **moments(columns=word))
    assert drawn.keys and not set.union(*found)


def test_of_persons_workers_get_the_key_of_the_choice_alone(drawn):
    runner, found = messages_with_keys(drawn, **moments(columns="linear", person="id", max_rows=2))
    choice = {
        number for number, key in enumerate(drawn.keys) if any(getattr(t, "key", None) == key for t in runner.tasks)
    }
    assert len(choice) == 1 and set.union(*found) == choice
    assert any(keys == set() for keys in found)  # the passes after the choice


def test_noise_on_examples_goes_to_its_part_alone(drawn):
    _, found = messages_with_keys(drawn, **private(mechanism=rb.NoisyExamples(1.0), n_rados=5))
    assert len(found) >= 17 and all(len(keys) == 2 for keys in found)  # coins and noise
    assert len(set.union(*found)) == 2 * len(found)


@pytest.mark.parametrize("name", ["support 0.3", "feature band"])
def test_one_subset_of_all_rows_has_one_key(drawn, name):
    """A subset of prescribed size is drawn from all rows, so all workers get its key, as the statement says."""
    _, found = messages_with_keys(drawn, **CASES[name])
    assert set.union(*found) == {0}


def spellings(key):
    """A key as anybody might print it."""
    return {
        repr(key),
        repr(key)[2:-1],
        key.hex(),
        str(list(key)),
        str(list(key))[1:-1],
        repr(key)[2:20],
        key.hex()[:16],
    }


def mute(text, key):
    text = text.lower()
    return not any(spelling.lower() in text for spelling in spellings(b"".join([key])))


def test_a_key_prints_as_nothing():
    key = Key.from_system()
    buffer = io.StringIO()
    logger = logging.Logger("keys")
    logger.addHandler(logging.StreamHandler(buffer))
    for form in ("%s", "%r", "%a"):
        logger.error(form, key)
    texts = [repr(key), str(key), f"{key}", f"{key!r}", f"{key!s:>40}", f"{key:.8}", ascii(key), buffer.getvalue()]
    texts += [pprint.pformat([key]), pprint.pformat({"key": key}), reprlib.repr(key), repr({"key": [key]})]
    texts += [repr(key[:8]), rich.pretty.pretty_repr([key], max_string=4), repr(dataclasses.asdict(RowNoise(key, 1.0)))]
    texts += [repr(pickle.loads(pickle.dumps(key))), repr(copy.deepcopy(key)), repr(key.for_part())]
    assert all(mute(text, key) and "Key(" in text for text in texts), texts
    texts += [repr(some) for some in (key + b"", b"" + key, key + key, bytes(key), key[:], bytes(key)[4:20])]
    assert all(mute(text, key) and "Key(" in text for text in texts), texts
    bare = b"".join([key])
    assert type(bare) is bytes and not mute(repr(bare), key) and not mute(key.hex(), key)  # what is printed is found
    assert key + b"" == b"" + key == bytes(key) == bare and (b"a" + key)[1:] == bare and hash(key) == hash(bare)
    for some in (key[:16], key + b"x", b"x" + key, bytes(key), make_key(1) + key):
        assert some.fresh and bare[:12] not in pickle_without_fresh_keys(some)
    assert not (make_key(1)[:16].fresh or (make_key(1) + b"x").fresh)
    assert pickle.loads(pickle.dumps(key)) == key and pickle.loads(pickle.dumps(key)).fresh


def test_no_dataclass_of_the_holder_prints_a_key():
    """By its fields: whatever is called a key, or is bytes, is left out where the object is printed."""
    keys = []
    for kind in filter(dataclasses.is_dataclass, CLASSES):
        for field in dataclasses.fields(kind):
            if "key" in field.name or "bytes" in str(field.type).split(" | "):
                keys.append((kind.__name__, field.name))
                assert not field.repr, f"{kind.__name__} prints its {field.name}"
    assert {("FairCoins", "key"), ("CraftRequest", "signature_key"), ("CraftRequest", "choice_key"),
            ("RowNoise", "key"),
            ("CollectRows", "key")} <= set(keys)  # fmt: skip


def test_no_pass_and_no_failure_prints_a_key(drawn):
    """Passes as they go to workers, in whatever a program prints of them; and what a worker that fails prints."""
    runner = Noting()
    with small_parts():
        for options in (*map(CASES.get, ("plain", "support 0.3", "feature band", "noisy-rados, persons")),
                        private(mechanism=rb.NoisyExamples(1.0), n_rados=5)):  # fmt: skip
            flat.craft(TABLE, **options, cluster=runner)
    texts, tasks = [], {(type(task), k % 2): task for k, task in enumerate(runner.tasks)}
    for task in tasks.values():
        texts += [repr(task), f"{task}", pprint.pformat(task), rich.pretty.pretty_repr(task, max_string=8)]
        try:
            task.add(task.empty(), 0, "no batch")
        except Exception as error:
            lines = traceback.TracebackException.from_exception(error, capture_locals=True)
            texts += [str(error), "".join(lines.format())]
    try:
        keystream.keystream_words(Key.from_system(), None, 0, 1)
    except TypeError as error:
        texts.append("".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()))
    assert len(texts) >= 40
    shown = "\n".join(texts).lower()
    assert len(drawn.keys) > 50 and all(mute(shown, key) for key in drawn.keys)
    assert "key = Key(...)" in "".join(texts)  # locals were looked at


def test_a_refusal_travels_without_what_led_to_it():
    task = pickle.loads(pickle.dumps(aggregation.CountRows()))

    class Broken:
        def batches(self, rows):
            raise rb.TableError("no")

    state = worker_sum_part(task, Broken(), 3, 0, 10)
    assert state.refusal.part == 3 and pickle.loads(pickle.dumps(state)).refusal.error.__traceback__ is None
