"""Claims about labels name the label's column and classes: totals and ledgers know which add up (M21)."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.errors import ArgumentError, ReleaseError
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.privacy import Composed, Gaussian, NotPrivate, Relation, convert_relation, event_from_dict, event_to_dict
from radoboost.privacy.budget_filter import Cost
from radoboost.privacy.events import SubsampledGaussian, flatten, label_of_event
from radoboost.release.composition import account_for_releases
from radoboost.release.statement_check import check_statement
from radoboost.tables.labels import LabelEncoder, label_spelling

LABEL, RECORD = Relation.LABEL, Relation.RECORD
BOUNDS = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
FIRST, SECOND = '"y" of 0, 1', '"y" of 0, 1, 2'


def visits(n=300):
    generator = np.random.default_rng(4)
    a, b = generator.uniform(size=(2, n))
    y = generator.choice(4, size=n, p=[0.3, 0.3, 0.3, 0.1])
    z = generator.integers(0, 2, size=n)
    return pa.table({"a": a, "b": b, "y": y, "z": z, "who": np.arange(n) // 2})


def crafted(mechanism=None, label="y", classes=(0, 1, 2, 3), features=("a", "b"), **options):
    bounds = {**BOUNDS, "y": (0.0, 3.0)}
    return flat.craft(
        visits(), label=label, classes=classes, bounds={name: bounds[name] for name in features}, features=features,
        mechanism=mechanism or rb.Moments(1.0, unit="label", sharpen=False), columns="linear", counts=None, threads=1,
        **options,
    )  # fmt: skip


# ---- events


def test_a_spelling_is_that_of_the_column_and_the_set_of_classes():
    same = [label_spelling("y", classes) for classes in ((0, 1, 2), ("2", 1.0, "0.0"), [2, 0, 1.0])]
    assert len(set(same)) == 1 == len({label_spelling("y", (0, 1)), label_spelling("y", (True, False))})
    others = {
        label_spelling(name, classes)
        for name in ("y", "z", 'y" of 0', "y\n")
        for classes in ((0, 1), (0, 1, 2), ("a", "b"), ("a, b", "c"), ("a", "b, c"), ('a", "b', "c"), (0.5, 1))
    }
    assert len(others) == 4 * 7
    long = [[f"{'x' * 900}{k}" for k in range(64)][:n] for n in (63, 64)]
    assert len({label_spelling("y", classes) for classes in long}) == 2
    assert all(len(label_spelling("y", classes)) < 120 for classes in long)


def test_only_claims_about_one_label_add_up():
    first, second, unsaid = (Gaussian(8.0, LABEL, label=label) for label in (FIRST, SECOND, ""))
    record, sampled = (
        convert_relation(Gaussian(8.0, RECORD), LABEL),
        convert_relation(SubsampledGaussian(9.0, 0.5), LABEL),
    )
    for good in ((first, first), (unsaid, unsaid), (first, record, sampled), (unsaid, record), (record, sampled)):
        assert np.isfinite(rb.privacy.epsilon_at(Composed(good), 1e-6))
    for bad in ((first, second), (first, unsaid)):
        for pair in (bad, bad[::-1], (*bad, record)):
            (leaf,) = flatten(Composed(pair))
            assert isinstance(leaf, NotPrivate) and leaf.relation == LABEL
            assert "different columns or classes" in leaf.reason
            assert rb.privacy.epsilon_at(Composed(pair), 1e-6) == np.inf
    assert (
        label_of_event(first),
        label_of_event(unsaid),
        label_of_event(record),
        label_of_event(Gaussian(1.0, RECORD)),
    ) == (
        FIRST,
        "",
        None,
        None,
    )
    persons = [Gaussian(8.0, Relation.PERSON_LABELS, person="who", label=label) for label in (FIRST, SECOND)]
    assert isinstance(next(iter(flatten(Composed(tuple(persons))))), NotPrivate)
    with pytest.raises(ArgumentError, match="label names a label's column"):
        Gaussian(8.0, RECORD, label=FIRST)


def test_the_label_is_written_only_where_there_is_one():
    old = {"name": "Gaussian", "noise_multiplier": 4.0, "relation": "one label flipped", "total_variation": 0.0}
    assert event_to_dict(event_from_dict(old)) == old
    named = Gaussian(4.0, LABEL, label=FIRST)
    assert event_from_dict(event_to_dict(named)) == named and event_to_dict(named)["label"] == FIRST
    assert "label" not in event_to_dict(Gaussian(4.0, RECORD))


# ---- releases


def test_totals_across_class_sets_and_label_columns_are_infinite():
    first = crafted()
    assert label_of_event(event_from_dict(first.statement.event)) == '"y" of 0, 1, 2, 3'
    again = crafted(classes=(3, 2, 1, 0), compose=[first])
    assert 1 < again.statement.composed["epsilon"] < 2
    for other in ({"classes": (0, 1, 2)}, {"label": "z", "classes": (0, 1), "features": ("a", "b", "y")}):
        second = crafted(compose=[first], **other)
        composed = second.statement.composed
        assert composed["epsilon"] == "infinite" and "different columns or classes do not add up" in composed["why"]
        together = account_for_releases([first, second], 1e-6)
        assert together["epsilon"] == "infinite" and "different columns or classes" in together["why"]
        lie = replace(second.statement, composed={**composed, "epsilon": 2.0})
        with pytest.raises(ReleaseError, match="costs no finite epsilon"):
            check_statement(lie)


def test_protected_records_add_up_with_any_label():
    releases = [crafted(rb.Moments(1.0, sharpen=False), classes=some) for some in ((0, 1, 2), (0, 1))]
    assert "label" not in json.dumps(releases[0].statement.event)
    together = account_for_releases([crafted(), *releases], 1e-6)
    assert together["neighbours"] == "one label flipped" and np.isfinite(together["epsilon"])


def test_persons_labels_name_the_label_too():
    release = crafted(person="who", max_rows=2)
    event = event_from_dict(release.statement.event)
    assert event.relation == Relation.PERSON_LABELS and label_of_event(event) == '"y" of 0, 1, 2, 3'


# ---- ledgers


def test_a_ledger_is_about_one_label(tmp_path):
    ledger = rb.Ledger.create(tmp_path / "books", "visits", epsilon=6.0, relation="label")
    for _ in range(2):
        crafted(ledger=ledger)
    n_booked = len(ledger.entries())
    for other in ({"classes": (0, 1, 2)}, {"label": "z", "classes": (0, 1)}):
        with pytest.raises(rb.BudgetError, match=r"protect records.* only if it is the same label.* same classes"):
            crafted(ledger=ledger, **other)
    with pytest.raises(rb.BudgetError, match="that nobody named"):
        ledger.book(Gaussian(50.0, LABEL))
    assert len(ledger.entries()) == n_booked == 2 and not ledger.problems()
    crafted(rb.Moments(0.5, sharpen=False), classes=(0, 1, 2), ledger=ledger)  # records: of any classes
    crafted(ledger=ledger)
    assert not ledger.problems()


@pytest.mark.parametrize(("columns", "unit"), [("auto", "record"), ("degree-2", "label")])
def test_what_is_foreseen_is_what_is_booked(tmp_path, columns, unit):
    """Of K classes and the widest plan: so no booking is refused after noisy counts were spent."""
    ledger = rb.Ledger.create(tmp_path / "books", "visits", epsilon=6.0, relation=unit)
    asked = []
    check = ledger.check
    ledger.check = lambda *events: asked.extend(events) or check(*events)
    rb.craft(
        visits(),
        label="y",
        classes=(0, 1, 2, 3),
        columns=columns,
        ledger=ledger,
        mechanism=rb.Moments(2.0, unit=unit),
        counts=None,
        schema=replace(rb.Schema.of(BOUNDS), use=("a", "b")),
        compute=rb.Compute(threads=1),
    )
    assert asked == [entry.event for entry in ledger.entries()] and len(asked) == (2 if unit == "record" else 1)


def test_no_room_for_the_widest_plan_is_found_before_anything_is_booked(tmp_path):
    """Samplers of many columns may be off by more: there is room for the counts, and for two classes as they are."""
    mechanism = rb.Moments(1.0)
    ledger = rb.Ledger.create(tmp_path / "books", "visits", epsilon=3.0, relation="record")
    few, most = (
        sum((ledger.total.cost(event) for event in mechanism.bookings(shape)), Cost())
        for shape in (NoiseShape(3), NoiseShape(3, n_classes=4, widest=600))
    )
    room = (few.total_variation + most.total_variation) / 2
    for _ in range(3):  # as far as floats go
        ledger.book(Gaussian(1e6, RECORD, np.nextafter(float(ledger.left().total_variation - room), 0.0)))
    ledger.check(*mechanism.bookings(NoiseShape(3)))
    with pytest.raises(rb.BudgetError, match="total variation"):
        rb.craft(
            visits(),
            label="y",
            classes=(0, 1, 2, 3),
            ledger=ledger,
            mechanism=mechanism,
            counts=None,
            schema=replace(rb.Schema.of(BOUNDS), use=("a", "b")),
        )
    assert len(ledger.entries()) == 3


# ---- words and guards


def test_a_stop_in_the_label_unit_says_that_its_counts_are_exact_and_cost_nothing(tmp_path):
    ledger = rb.Ledger.create(tmp_path / "books", "visits", epsilon=6.0, relation="label")
    with pytest.raises(rb.TableError, match="rows would contribute nothing") as stop:
        crafted(classes=(0, 1), ledger=ledger)
    words = str(stop.value)
    assert words.endswith("nothing was spent or booked, and no ledger counts them") and "counts are exact" in words
    assert "noise" not in words and not words.startswith("about") and not ledger.entries()
    table = visits().set_column(4, "who", pa.nulls(300, pa.int64()))
    books = rb.Ledger.create(tmp_path / "persons", "visits", epsilon=6.0, relation="person-labels")
    with pytest.raises(rb.TableError, match=r"^no row has a person in 'who'.*nothing was spent or booked"):
        rb.craft(
            table,
            label="y",
            classes=(0, 1, 2, 3),
            mechanism=rb.Moments(1.0, unit="label"),
            ledger=books,
            counts=None,
            schema=replace(rb.Schema.of(BOUNDS), use=("a", "b"), person=rb.Person("who", 1)),
        )
    assert not books.entries()


def test_signs_are_for_two_classes():
    with pytest.raises(ArgumentError, match="signs are for two classes, and the label 'y' has 3"):
        LabelEncoder("y", (0, 1, 2)).signs_or_zero(pa.array([0, 1]))
