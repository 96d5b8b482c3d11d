"""Releases of rooms among those of several holders: who is in two of them, and what that costs whom."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.holder.engines import get_engine
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.privacy import Composed, epsilon_at, event_from_dict, group_epsilon, group_event
from radoboost.release.compatibility import PartyRelease
from radoboost.release.composition import statement_of_parties_together
from radoboost.release.statement_check import check_statement
from radoboost.release.statement_text import statement_text

BOUNDS = {"x0": (0, 9), "x1": (0, 9)}
DELTA = 1e-6


@cache
def identity(name):
    return rb.Identity.create(name)


def table(seed):
    x = np.random.default_rng(seed).uniform(0, 9, (300, 2))
    return x, (x.sum(axis=1) > 9).astype(int)


def room(names, **agreed):
    """What holders make in a room; a holder has one key in all rooms."""
    box = MemoryMailbox()
    options = {"mechanism": rb.Moments(1.0, sharpen=False), "columns": "linear"}
    options |= {"bounds": BOUNDS, "classes": (0, 1), "parties": len(names)}
    flat.open_room(box, **{**options, **agreed})

    def join(name):
        return rb.join_room(
            box,
            *table(ord(name)),
            identity=identity(name),
            confirm=lambda code, parties: True,
            counts=None,
            compute=rb.Compute(threads=1),
        )

    with ThreadPoolExecutor(len(names)) as threads:
        ends = list(threads.map(join, names))
    return ends[0]


@pytest.fixture(scope="module")
def rooms():
    return {names: room(names) for names in ("abc", "bca", "cde")}


@pytest.fixture(scope="module")
def alone():
    options = {"bounds": BOUNDS, "classes": (0, 1), "columns": "linear"}
    return [flat.craft(*table(k), mechanism=rb.Moments(1.0, sharpen=False), **options) for k in range(2)]


def parts(*releases):
    return [PartyRelease(f"folder/{k}.rado.parquet", release) for k, release in enumerate(releases)]


def figure(statement, case):
    (found,) = [figure.epsilon for figure in statement.holders.figures if figure.case == case]
    return found


def test_two_rooms_of_the_same_holders_compose(rooms):
    statement = statement_of_parties_together(parts(rooms["abc"], rooms["bca"]))
    events = [event_from_dict(release.statement.event) for release in (rooms["abc"], rooms["bca"])]
    assert statement.epsilon == epsilon_at(Composed(tuple(events)), DELTA) > 1.45
    pairs = Composed(tuple(group_event(event, 2) for event in events))
    assert figure(statement, "one who is at two of the holders") == epsilon_at(pairs, DELTA) > 3.0
    everybody = Composed(tuple(group_event(event, 3) for event in events))
    assert figure(statement, "one who is at all 3 holders") == epsilon_at(everybody, DELTA)
    case = "all other holders together, in {}"
    both = figure(statement, case.format("0.rado.parquet and 1.rado.parquet"))
    assert both > 1.4 * figure(statement, case.format("0.rado.parquet"))
    assert statement.holders.count == 3 and "; who is at one of the holders" in statement.unit_of_privacy
    assert "the average of 3 holders" in statement_text(statement)["What is promised"]
    check_statement(statement)


def test_rooms_with_one_holder_in_common_compose(rooms):
    statement = statement_of_parties_together(parts(rooms["abc"], rooms["cde"]))
    assert statement.epsilon > 1.45 and statement.holders.count == 5
    assert any("cannot be seen" in sentence for sentence in statement.not_protected)


def test_a_room_beside_others_counts_one_who_is_in_it_twice(rooms, alone):
    statement = statement_of_parties_together(parts(rooms["abc"], *alone))
    event = event_from_dict(rooms["abc"].statement.event)
    assert statement.epsilon == pytest.approx(1.0, rel=1e-6)
    twice = figure(statement, "one who is at two of the holders")
    assert twice == group_epsilon(event, DELTA, 2) > 2.1
    assert figure(statement, "one who is at all 5 holders") > group_epsilon(event, DELTA, 3)
    declared = statement_of_parties_together(parts(rooms["abc"], *alone), one_holder=True)
    assert declared.epsilon > 1.75 and figure(declared, "one who is at two of the holders") > twice
    check_statement(declared)


def test_a_model_of_rooms_says_so(rooms):
    model = rb.MomentsClassifier().fit_rados([rooms["abc"], rooms["bca"]]).model_
    assert model.statement.epsilon > 1.45
    assert [len(part["holders"]) for part in model.statement.holders.parts] == [3, 3]


def test_plain_releases_of_rooms_are_merged_by_their_holders(rooms):
    plain = {"mechanism": rb.Plain(), "n_rados": 20}
    one, again, other = (room(names, **plain) for names in ("abc", "cba", "def"))
    with pytest.raises(rb.ArgumentError, match=r"in rooms that had a holder in common.*count twice"):
        rb.merge([one, again])
    merged = rb.merge([one, other])
    assert merged.statement.holders.count == 6
    assert "made of releases of 6 holders, merged" in statement_text(merged.statement)["What is promised"]
    assert any("each of the 2 releases" in sentence for sentence in merged.statement.not_protected)
    third = rb.craft(*table(1), n_rados=20, schema=BOUNDS, mechanism=rb.Plain(scale="bounds"))
    assert rb.merge([merged, third]).statement.holders.count == 7
    with pytest.raises(rb.ArgumentError, match="in common"):
        rb.merge([rb.merge([third, again]), other, one])


def test_exact_counts_of_a_room_are_seen_by_all_of_its_holders():
    """Where labels are what is protected, counts of rows have no noise, and a room's are totals that all see."""
    mechanism, classes, stop = rb.Moments(1.0, unit="label"), (7, 8), "rows would contribute nothing"
    with pytest.raises(rb.TableError, match=f"{stop}.*exact, of all holders, each of whom sees them"):
        room("abc", mechanism=mechanism, classes=classes)
    with pytest.raises(rb.TableError, match=f"{stop}.*exact, for the holder alone"):
        rb.craft(*table(1), classes=classes, columns="linear", mechanism=mechanism, counts=None, schema=BOUNDS)


def test_units_of_all_releases_are_named():
    x, y = table(2)
    columns = pa.table({"a": x[:, 0], "who": np.arange(300) // 10, "ill": y})
    releases = [
        rb.craft(
            columns,
            label="ill",
            classes=(0, 1),
            columns="linear",
            counts=None,
            schema={"a": (0, 9)},
            mechanism=rb.Moments(50.0, unit=rb.Person("who", most), sharpen=False),
        )
        for most in (1, 8)
    ]
    statement = statement_of_parties_together(parts(*releases))
    for release in releases:
        assert release.statement.unit_of_privacy in statement.unit_of_privacy
    assert releases[0].statement.unit_of_privacy != releases[1].statement.unit_of_privacy
    origin = rb.MomentsClassifier().fit_rados(releases).model_.release["mechanism"]
    assert origin["person"] == "who" and "max_rows" not in origin


def test_each_holder_computes_with_the_engine_it_names():
    """A CPU of one and a slow reference of another come to one file."""
    used = []

    class Noted(type(get_engine("reference"))):
        def snap(self, *arguments, **options):
            used.append("snap")
            return super().snap(*arguments, **options)

    box, engines = MemoryMailbox(), dict(zip("abc", (Noted(), "kernel", "auto"), strict=True))
    rb.open_room(box, parties=3, n_rados=20, classes=(0, 1), schema=BOUNDS)

    def join(name):
        return rb.join_room(
            box,
            *table(ord(name)),
            identity=identity(name),
            confirm=lambda code, parties: True,
            counts=None,
            compute=rb.Compute(engine=engines[name], threads=1),
        )

    with ThreadPoolExecutor(3) as threads:
        ends = list(threads.map(join, "abc"))
    assert len({end.digest for end in ends}) == 1 and used
