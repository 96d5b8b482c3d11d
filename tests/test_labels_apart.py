"""Labels given apart, where labels alone are protected: which one a claim is about, and that it is no feature (M22)."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.signed_messages import Identity
from radoboost.holder.table_preparation import _label_shares_memory, _memory_of_column
from radoboost.privacy import event_from_dict
from radoboost.privacy.events import label_of_event
from radoboost.release.composition import account_for_releases

pytestmark = pytest.mark.filterwarnings("ignore::radoboost.BudgetWarning")  # shells are fitted more than once
MECHANISM = rb.Moments(1.0, unit="label", sharpen=False)
BOUNDS = {"a": (0, 1), "dead": (0, 1), "ill": (0, 1)}
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame({"a": RNG.uniform(size=400), "dead": RNG.integers(0, 2, 400), "ill": RNG.integers(0, 2, 400)})
ARROW, POLARS = pa.table(FRAME), pl.DataFrame(FRAME)
ARRAY = FRAME.to_numpy().copy()
FORTRAN = np.asfortranarray(ARRAY)
NAMED = "is a feature and by its name the label too"
NAMELESS = "y has no name, and the table's columns have names"
SAME = "is a feature, and y is the same column in memory"


def crafted(table, y, names=("a", "ill"), **options):
    given = {name: BOUNDS[name] for name in names}
    options = {"bounds": given, "classes": (0, 1), "mechanism": MECHANISM, **options}
    return flat.craft(table, y, columns="linear", counts=None, threads=1, progress=False, **options)


# ---- which label


def fitted(names, y, **options):
    bounds = {name: BOUNDS[name] for name in names}
    clf = rb.MomentsClassifier(mechanism=MECHANISM, classes=(0, 1), columns="linear", schema=bounds, **options)
    return clf.fit(FRAME[list(names)], y).release_


def by_craft(names, y, **options):
    return crafted(FRAME[list(names)], y, names, **options)


@pytest.mark.parametrize("make", [by_craft, fitted])
def test_two_labels_given_apart_are_two_labels(make, tmp_path):
    """Both were called y: a ledger booked both, though each release has the other's label among its exact features."""
    ledger = rb.Ledger.create(tmp_path / "l", "t", epsilon=3.0, relation="label")
    first = make(("a", "ill"), FRAME["dead"], ledger=ledger)
    assert label_of_event(event_from_dict(first.statement.event)) == '"dead" of 0, 1'
    with pytest.raises(
        rb.BudgetError, match=r'labels "dead" of 0, 1, and claims about labels "ill" of 0, 1 do not add'
    ):
        make(("a", "dead"), FRAME["ill"], ledger=ledger)
    make(("a",), FRAME["dead"].to_frame()["dead"], ledger=ledger)
    assert len(ledger.entries()) == 2
    second = make(("a", "dead"), FRAME["ill"])
    assert account_for_releases([first, second], 1e-6)["epsilon"] == "infinite"
    in_table = rb.craft(
        FRAME, label="dead", classes=(0, 1), mechanism=MECHANISM, columns="linear", counts=None, schema={"a": (0, 1)}
    )
    assert account_for_releases([first, in_table], 1e-6)["epsilon"] < 2  # one label, wherever it stood


def test_the_caller_may_name_the_label(tmp_path):
    y = FRAME["dead"].to_numpy().copy()
    releases = [
        crafted(FRAME[["a"]], y, ("a",), label="dead"),
        crafted(FRAME, y, ("a",), label="dead"),  # a column that is not used is no feature
        crafted(ARRAY[:, :1], y, bounds=[[0, 1]], label="dead"),
    ]
    assert {label_of_event(event_from_dict(release.statement.event)) for release in releases} == {'"dead" of 0, 1'}
    with pytest.raises(rb.ArgumentError, match="give the labels once"):
        crafted(FRAME[["a"]], y, ("a",), label="dead", mechanism=rb.Moments(1.0))


def test_the_label_of_a_schema_names_no_label_that_is_given_apart(tmp_path):
    """It says which label the schema is about: labels of another name were called so, and were among the features."""
    schema = rb.Schema({"a": rb.Number(0, 1), "dead": rb.Number(0, 1)}, "ill", (0, 1))
    ledger = rb.Ledger.create(tmp_path / "l", "t", epsilon=3.0, relation="label")
    options = {"bounds": None, "classes": None, "schema": schema, "ledger": ledger}
    with pytest.raises(rb.ArgumentError, match=NAMELESS):
        crafted(FRAME, (FRAME["dead"] == 1).to_numpy(), **options)
    with pytest.raises(rb.ArgumentError, match=NAMED):
        crafted(FRAME, FRAME["dead"], **options)
    assert not ledger.entries()
    release = crafted(FRAME, (FRAME["ill"] == 1).to_numpy(), **{**options, "label": "ill"})
    assert label_of_event(event_from_dict(release.statement.event)) == '"ill" of 0, 1'


@pytest.mark.parametrize("table", [FRAME[["a"]], ARRAY[:, :1]])
def test_one_label_has_one_name(table):
    """Or a total of labels "ill" could have one of "dead" in it, which a release has exactly."""
    with pytest.raises(rb.ArgumentError, match="y is called 'dead', and the label 'ill'"):
        crafted(table, FRAME["dead"], bounds=[[0, 1]], label="ill")


def test_a_label_without_a_name_adds_up_with_nothing(tmp_path):
    ledger = rb.Ledger.create(tmp_path / "l", "t", epsilon=3.0, relation="label")
    first = crafted(ARRAY[:, :1], ARRAY[:, 1], bounds=[[0, 1]], ledger=ledger)
    with pytest.raises(
        rb.BudgetError, match="about labels that nobody named, and claims about labels that nobody named"
    ):
        crafted(ARRAY[:, :1], ARRAY[:, 2], bounds=[[0, 1]], ledger=ledger)
    again = crafted(ARRAY[:, :1], ARRAY[:, 1], bounds=[[0, 1]], compose=[first])
    assert again.statement.composed["epsilon"] == "infinite" and len(ledger.entries()) == 1
    records = crafted(ARRAY[:, :1], ARRAY[:, 2], bounds=[[0, 1]], mechanism=rb.Moments(1.0), ledger=ledger)
    assert account_for_releases([first, records], 1e-6)["epsilon"] < 4  # records: of any label


def test_labels_of_persons_go_by_their_names_too():
    frame = FRAME.assign(who=np.arange(400) // 2)
    release = crafted(frame, frame["ill"], ("a",), person="who", max_rows=2)
    assert label_of_event(event_from_dict(release.statement.event)) == '"ill" of 0, 1'


# ---- no feature


SCHEMA = rb.Schema({"a": rb.Number(0, 1), "ill": rb.Category((0, 1))}, "ill", (0, 1))
FREE = rb.Schema({"a": rb.Number(0, 1), "ill": rb.Category((0, 1))})


@pytest.mark.parametrize(
    ("table", "y", "options", "why"),
    [
        (FRAME, FRAME["ill"], {}, NAMED),
        (FRAME, (FRAME["ill"] > 0).astype(int), {}, NAMED),
        (POLARS, POLARS["ill"], {}, NAMED),
        (FRAME, FRAME["ill"].to_numpy().copy(), {"label": "ill"}, NAMED),
        (FRAME, FRAME["ill"].to_numpy(), {"bounds": None, "schema": SCHEMA}, NAMED),
        (FRAME, FRAME["dead"], {"bounds": None, "schema": SCHEMA}, NAMED),
        (FRAME, FRAME["ill"].to_numpy(), {}, NAMELESS),
        (FRAME, FRAME["ill"].to_list(), {}, NAMELESS),
        (FRAME, FRAME["ill"].rename(None), {}, NAMELESS),
        (FRAME, FRAME["ill"].to_numpy(), {"bounds": "private"}, NAMELESS),
        (FRAME, FRAME["ill"].to_numpy(), {"bounds": None, "schema": FREE}, NAMELESS),
        (ARROW, ARROW.column("ill"), {}, NAMELESS),
        (POLARS, POLARS["ill"].alias(""), {}, NAMELESS),
        (FRAME, FRAME["ill"].rename("z"), {}, SAME),
        (FRAME, FRAME["ill"].to_numpy(), {"label": "z"}, SAME),
        (FRAME, FRAME["ill"].rename("z"), {"bounds": None, "schema": FREE}, SAME),
        (ARROW, ARROW.column("ill"), {"label": "z"}, SAME),
        (ARROW, ARROW.column("ill").to_numpy(), {"label": "z"}, SAME),
        (POLARS, POLARS["ill"].alias("z"), {}, SAME),
        (ARRAY, ARRAY[:, 2], {"bounds": [[0, 1]] * 3}, SAME),
        (ARRAY, ARRAY[:, 2], {"bounds": "private"}, SAME),
        (FORTRAN[:, :2], FORTRAN[:, 2], {"bounds": [[0, 1]] * 2}, None),
        (ARRAY[:, :2], ARRAY[:, 2], {"bounds": [[0, 1]] * 2}, None),
        (FRAME, FRAME["dead"], {}, None),
        (ARROW, ARROW.column("dead"), {"label": "dead"}, None),
        (POLARS, POLARS["dead"], {}, None),
    ],
)  # fmt: skip
def test_labels_given_apart_are_no_features(table, y, options, why, tmp_path):
    ledger = rb.Ledger.create(tmp_path / "l", "t", epsilon=3.0, relation="label")
    if why is None:
        assert crafted(table, y, ledger=ledger, **options).statement.neighbours == "one label flipped"
        return
    with pytest.raises(rb.ArgumentError, match=why):
        crafted(table, y, ledger=ledger, **options)
    assert not ledger.entries()


def test_an_estimator_refuses_labels_without_a_name_beside_a_frame():
    with pytest.raises(rb.ArgumentError, match=NAMELESS):
        fitted(("a", "ill"), FRAME["ill"].to_numpy())


@pytest.mark.parametrize("kind", ["int64", "Int64", "boolean", "category", "str", "string", "int64[pyarrow]"])
def test_columns_of_pandas_show_where_they_lie(kind):
    frame = pd.DataFrame({"ill": FRAME["ill"].astype(kind), "dead": FRAME["dead"].astype(kind)})
    assert _label_shares_memory(frame["ill"].rename("z"), frame["ill"])
    assert not _label_shares_memory(frame["dead"], frame["ill"])


def test_an_array_on_a_device_shows_where_it_lies():
    """Its addresses are compared, and nothing at them is read: there need not be anything here."""

    class Array:
        def __init__(self, first, step):
            self.at = {"shape": (400,), "strides": (step,), "typestr": "<f8", "data": (first, False), "version": 3}

        @property
        def __cuda_array_interface__(self):
            return self.at

    column = Array(8, 24)
    assert _label_shares_memory(Array(8, 24), column) and not _label_shares_memory(Array(16, 24), column)
    assert _memory_of_column(SimpleNamespace()) == []


def test_a_room_about_labels_looks_at_labels_too():
    room = MemoryMailbox()
    bounds = {name: BOUNDS[name] for name in ("a", "ill")}
    rb.open_room(room, classes=(0, 1), parties=3, mechanism=MECHANISM, columns="linear", schema=bounds)
    for y, why in ((FRAME["ill"].to_numpy(), NAMELESS), (FRAME["ill"], NAMED), (FRAME["ill"].rename("z"), SAME)):
        with pytest.raises(rb.ArgumentError, match=why):
            rb.join_room(room, FRAME, y, identity=Identity.create("x"), confirm=lambda *_: True, counts=None, wait=1.0)


def test_statements_about_labels_say_that_the_label_is_no_column():
    release = crafted(ARRAY[:, :1], ARRAY[:, 1], bounds=[[0, 1]])
    assert any("must not be among the columns" in sentence for sentence in release.statement.not_protected)


@pytest.mark.parametrize("name", ["c", "q", None])
def test_whose_rows_there_are_may_not_follow_from_labels(name):
    """With the label's own column as ids, which rows are taken, and so every exact sum, would follow from labels."""
    frame = pd.DataFrame({"a": np.linspace(0, 1, 60), "c": np.arange(60) % 2})
    with pytest.raises(rb.ArgumentError, match="whose row it is"):
        rb.craft(
            frame,
            frame["c"].rename(name),
            label=None if name else "z",
            classes=(0, 1),
            mechanism=rb.Moments(1.0, unit="label"),
            counts=None,
            schema=replace(rb.Schema.of({"a": (0, 1)}), person=rb.Person("c", 3)),
        )
