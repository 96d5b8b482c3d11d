"""Several holders in one process: every mechanism for rooms gives one release, signed by all, or says why not."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.holder.mechanisms import plain
from radoboost.holder.rooms import abort_notices, participant, room
from radoboost.holder.rooms.abort_notices import announce_abort
from radoboost.holder.rooms.agreement import PLACE, Agreement, Notes, make_agreement, read_agreement
from radoboost.holder.rooms.handshake import (
    check_holder_name,
    check_verification_code,
    greeting_message,
    make_roster,
    place_of_greeting,
    read_greeting,
    ready_message,
    verification_code,
)
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.roster import Party, Roster
from radoboost.holder.rooms.secure_aggregation import SecureTotal, secure_sum
from radoboost.holder.rooms.signed_messages import message_place, sign_message, verify_message
from radoboost.holder.rooms.signed_release import most_signed_release
from radoboost.privacy import Gaussian, Relation
from rooms import View, bare_sum

NAMES = ("east", "north", "south", "west", "zoo")
BOUNDS = {"x0": (0, 9), "x1": (0, 9)}


def tables(n_rows=900, n_classes=2, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 9, (n_rows, 2))
    score = x[:, 0] + x[:, 1]
    y = (score > 9).astype(int) if n_classes == 2 else (score // 6).astype(int)
    return x, y


def meet(table_of, *, names=NAMES[:3], box=None, add=bare_sum, confirm=lambda code, parties: True, **agreed):
    """What each holder of a new room ends with: a release, or what it raised."""
    box = MemoryMailbox() if box is None else box
    flat.open_room(box, **{"bounds": BOUNDS, "classes": (0, 1), **agreed, "parties": len(names)})
    identities = {name: rb.Identity.create(name) for name in names}

    def hospital(name):
        table, y, options = table_of(name)
        try:
            return rb.join_room(
                box,
                table,
                y,
                identity=identities[name],
                confirm=confirm,
                counts=None,
                compute=rb.Compute(threads=1),
                **{"patience": 300.0, "wait": 300.0, **options},
            )
        except rb.RadoError as error:
            return error

    with patch.object(participant, "secure_sum", add), ThreadPoolExecutor(len(names)) as threads:
        return dict(zip(names, threads.map(hospital, names), strict=True)), box


def parts_of(x, y, names=NAMES[:3], **options):
    cut = dict(zip(names, np.array_split(np.arange(len(x)), len(names)), strict=True))
    return lambda name: (x[cut[name]], y[cut[name]], options)


def one_release(ends):
    for end in ends.values():
        if isinstance(end, Exception):
            raise end
    assert len({end.digest for end in ends.values()}) == 1
    return next(iter(ends.values()))


# ---- every mechanism for rooms


@pytest.mark.parametrize(
    "agreed",
    [
        {"mechanism": rb.Moments(1.0)},
        {"mechanism": rb.Moments(4.0, sharpen=False), "columns": "degree-3"},
        {"mechanism": rb.Moments(4.0, unit="label"), "columns": "degree-4"},
        {"mechanism": rb.Moments(4.0, relation="replace"), "columns": "linear"},
        {"mechanism": rb.Moments(8.0), "classes": (0, 1, 2)},
        {"mechanism": rb.Moments(40.0), "bounds": {"x0": "private", "x1": (0, 9)}, "columns": "linear"},
        {"mechanism": rb.NoisyRados(4.0), "n_rados": 20, "columns": "degree-2"},
        {"mechanism": rb.Plain(), "n_rados": 20, "columns": "degree-2"},
        {"mechanism": rb.Plain(), "n_rados": 20, "classes": (0, 1, 2), "intercept": False},
    ],
    ids=lambda agreed: f"{agreed['mechanism'].name} {agreed.get('columns', '')} {len(agreed.get('classes', '12'))}",
)
def test_every_holder_ends_with_the_same_release(agreed):
    x, y = tables(n_classes=len(agreed.get("classes", (0, 1))))
    ends, box = meet(parts_of(x, y), **agreed)
    release = one_release(ends)
    assert release.statement.holders.how == "room" and len(release.statement.holders.parts) == 3
    assert release.id == seats_of(box).agreement.hex()[:32]
    assert rb.close_room(box, code=verification_code(seats_of(box))).digest == release.digest
    if agreed["mechanism"].private:
        assert release.statement.epsilon <= agreed["mechanism"].epsilon
        assert len(release.statement.holders.figures) == 5
    else:
        assert release.n_examples == len(x)
    if release.law == "noisy moments":
        factor = participant.noise_factor_of_present_holders(3, 3, 1)
        declared = agreed["mechanism"].scales(release.mechanism["rounds"], _shape_of(agreed, release))
        assert release.mechanism["noise"]["sum"] == pytest.approx(declared["sum"] * factor / 2**15, rel=1e-6)
        clf = rb.MomentsClassifier().fit_rados(release)
        errors = (clf.predict(x) != y).mean()
        assert errors < (0.2 if len(release.classes) == 2 else 0.4)


def _shape_of(agreed, release):
    from radoboost.holder.mechanisms.moments.moments import _feature_candidates, _noise_shape

    asked = flat.make_agreement(**{"bounds": BOUNDS, "classes": (0, 1), **agreed, "parties": 3}).asked()
    shape = _noise_shape(asked, ["x0", "x1"], _feature_candidates(asked, ["x0", "x1"]))
    beyond = "outline" in release.blocks
    return replace(shape, n_planned=len(release.columns) if beyond else 0)


def seats_of(box):
    agreement = Agreement.from_bytes(box.get(PLACE))
    places = box.names("0000/hello/")
    return make_roster(agreement, [read_greeting(box.get(place), place, agreement.digest) for place in places])


def test_secure_sums_give_what_bare_ones_do(monkeypatch):
    """Plain rados with one key for all, and numbers of rows: the release of the whole table, to the last bit."""
    x, y = tables(333)
    key, starts = bytes(range(32)), {"east": 0, "north": 101, "south": 232}
    cut = {"east": slice(0, 101), "north": slice(101, 232), "south": slice(232, 333)}
    crafted = room.craft_in_room

    def with_one_key(table, labels, asked, pool, *about, **options):
        mechanism = replace(asked.mechanism, first_row=starts[pool._identity.party.name])
        asked = replace(asked, signature_key=key, mechanism=mechanism)
        return crafted(table, labels, asked, pool, *about, **options)

    monkeypatch.setattr(room, "craft_in_room", with_one_key)
    monkeypatch.setattr("radoboost.holder.request.CraftRequest.numbering", {})  # of what no holder would tell
    ends, _ = meet(lambda name: (x[cut[name]], y[cut[name]], {}), add=secure_sum, n_rados=50)
    release = one_release(ends)
    monkeypatch.setattr("radoboost.holder.request.make_key", lambda seed: key)
    central = rb.craft(
        x, y, classes=(0, 1), n_rados=50, schema=[BOUNDS["x0"], BOUNDS["x1"]], mechanism=rb.Plain(scale="bounds")
    )
    assert release.rados.tobytes() == central.rados.tobytes()
    assert release.columns == central.columns and release.n_examples == central.n_examples


def test_shares_come_to_the_noise_that_the_release_declares():
    """Of 1800 numbers that are nearly noise alone, the variance is within 6 deviations: a false alarm in 1e8 runs.

    Shares of s / (K - t) would have half of it, and shares of s twice.
    """
    x, y = tables(6)
    ends, _ = meet(parts_of(x, y), mechanism=rb.NoisyRados(1.0), n_rados=600)
    release = one_release(ends)
    noise = release.rados / release.mechanism["noise_std"]
    assert noise.size == 1800 and abs(float((noise**2).mean()) - 1) < 6 * np.sqrt(2 / 1800)
    central = rb.NoisyRados(1.0).plan(600, 3, None, shares=3).noise_std
    assert release.mechanism["noise_std"] == pytest.approx(central * np.sqrt(3 / 2))


def test_a_holder_may_have_one_class_alone():
    x, y = tables()
    order = np.argsort(y, kind="stable")
    ends, _ = meet(parts_of(x[order], y[order]), n_rados=10)
    assert one_release(ends).n_examples == len(x)


def test_persons_and_labels_in_a_column():
    x, y = tables(1200)
    names = NAMES[:3]

    def table_of(name):
        part = np.arange(len(x))[names.index(name) :: 3]
        columns = {"a": x[part, 0], "b": x[part, 1], "ill": np.where(y[part], "yes", "no").tolist()}
        return pa.table({**columns, "who": (part // 6).tolist()}), None, {}

    ends, box = meet(
        table_of,
        bounds={"a": (0, 9), "b": (0, 9)},
        label="ill",
        classes=("no", "yes"),
        person="who",
        max_rows=2,
        mechanism=rb.Moments(20.0, sharpen=False),
        columns="linear",
    )
    release = one_release(ends)
    assert release.statement.neighbours == "one person added or removed" and release.mechanism["max_rows"] == 2
    assert "at most 2 rows of each at each holder" in Agreement.from_bytes(box.get(PLACE)).as_text()[1]
    # A person at two holders has twice as many rows in the sums.
    assert release.statement.holders.figures[-1].epsilon > release.statement.epsilon


def test_books_are_kept_at_each_holder(tmp_path):
    x, y = tables()
    ledgers = {name: rb.Ledger.create(tmp_path / f"{name}.ledger", "patients", epsilon=10.0) for name in NAMES[:3]}
    part = parts_of(x, y)

    def table_of(name):
        return (*part(name)[:2], {"ledger": ledgers[name], "output": tmp_path / f"{name}.rado.parquet"})

    ends, _ = meet(table_of, mechanism=rb.Moments(4.0, sharpen=False), columns="linear")
    release = one_release(ends)
    for name, ledger in ledgers.items():
        entries = ledger.entries()
        assert [entry.release for entry in entries] == [release.id] * 2
        assert {entry.digest for entry in entries} == {release.digest}
        assert rb.load(tmp_path / f"{name}.rado.parquet").digest == release.digest
    assert len({(tmp_path / f"{name}.rado.parquet").read_bytes() for name in ledgers}) == 1


def test_a_room_that_stops_stays_booked(tmp_path):
    x, y = tables()
    ledger = rb.Ledger.create(tmp_path / "east.ledger", "patients", epsilon=10.0)
    part = parts_of(x, y)

    def table_of(name):
        options = {"ledger": ledger} if name == "east" else {}
        return (*part(name)[:2], options)

    def lost(*about, **options):
        stage, name = about[3], about[2].party.name
        if stage == 2 and name == "south":  # which tells that it stops, and is looked for last: all name it
            raise rb.RoomError(f"{name} is lost")
        return secure_sum(*about, **options)

    ends, _ = meet(table_of, add=lost, mechanism=rb.Moments(4.0, sharpen=False), columns="linear")
    assert isinstance(ends["east"], rb.RoomError) and "south" in str(ends["east"])
    assert len(ledger.entries()) == 2 and all(entry.digest is None for entry in ledger.entries())


def test_a_lost_holder_is_left_out_and_said_to_be():
    """West goes after two sums and what the first holder computes of them; the others end with one release."""
    x, y = tables()

    def add(*about, **options):
        if about[3] > 2 and about[2].party.name == "west":
            raise rb.RoomError("west is lost")
        return secure_sum(*about, **options)

    part = parts_of(x, y, NAMES)
    ends, box = meet(part, names=NAMES, add=add, mechanism=rb.Moments(4.0, sharpen=False), columns="linear")
    assert "west is lost" in str(ends.pop("west"))
    release = one_release(ends)
    until = {part["name"]: part["until"] for part in release.statement.holders.parts}
    assert until["west"] == 4 and all(until[name] is None for name in NAMES if name != "west")
    assert "1 of the 5 holders was lost" in release.statement.promises[-1]
    cases = {figure.case: figure.epsilon for figure in release.statement.holders.figures}
    assert cases["any one of the holders"] > release.statement.epsilon
    assert rb.close_room(box).digest == release.digest


@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2)])
def test_a_table_that_changed_between_two_passes_is_refused_before_its_sums_are_sent(monkeypatch, classes):
    surveyed = plain.table_survey.survey_table

    def one_row_more(asked, run, **options):
        facts = surveyed(asked, run, **options)
        return replace(facts, exact=replace(facts.exact, n_rows=facts.exact.n_rows + (_whose(run) == "north")))

    def _whose(run):
        return run._pool._identity.party.name

    monkeypatch.setattr(plain.table_survey, "survey_table", one_row_more)
    x, y = tables(90)
    ends, box = meet(parts_of(x, y), add=secure_sum, classes=classes, n_rados=4)
    assert "had 31 rows at first and 30 when read again" in str(ends["north"])
    assert "0002/keys/east" in box.names("") and "0002/keys/north" not in box.names("")


# ---- agreement and seats


def test_an_agreement_has_one_text_and_keeps_the_order_of_columns():
    agreement = make_agreement(
        label="y", classes=(0, np.int64(1)), parties=3, schema={"b": (0, 1), "a": (0, np.float64(2))}
    )
    again = Agreement.from_bytes(agreement.to_bytes())
    assert again == agreement and list(again.asked().limits) == ["b", "a"]
    assert make_agreement(label="y", classes=(0, 1), parties=3, schema={"b": (0, 1)}).nonce != agreement.nonce
    for content in (b"", b"[]", agreement.to_bytes() + b" ", agreement.to_bytes().replace(b'"y"', b'"z" ')):
        with pytest.raises(rb.RoomError, match="damaged, or none"):
            Agreement.from_bytes(content)
    with pytest.raises(rb.RoomError, match="version 2"):
        Agreement.from_bytes(agreement.to_bytes().replace(b'"version": 1', b'"version": 2'))


@pytest.mark.parametrize(
    ("agreed", "why"),
    [
        ({"mechanism": rb.NoisyExamples(1.0)}, "noisy-examples"),
        ({"mechanism": rb.Moments(1.0), "n_rados": 10}, "n_rados"),
        ({"bounds": "private", "mechanism": rb.Moments(1.0)}, "columns"),
        ({"bounds": {"x0": "private"}}, "moments"),
        ({"bounds": None}, "bounds"),
        ({"classes": None}, "classes"),
        ({"mechanism": rb.Moments}, "mechanism"),
        ({"parties": 2}, "3 to 1,000"),
        ({"parties": 5, "tolerate": 0}, "tolerate"),
        ({"parties": 10, "tolerate": 5}, "half"),
        ({"person": "x0", "max_rows": 1, "mechanism": rb.Moments(1.0)}, "feature"),
    ],
)
def test_what_cannot_be_agreed_on_is_refused_when_the_room_is_opened(agreed, why):
    box = MemoryMailbox()
    with pytest.raises(rb.ArgumentError, match=why):
        flat.open_room(box, **{"bounds": BOUNDS, "classes": (0, 1), "parties": 3, **agreed})
    assert box.names("") == []


def test_a_room_has_one_agreement():
    box = MemoryMailbox()
    rb.open_room(box, classes=(0, 1), parties=3, schema=BOUNDS)
    with pytest.raises(rb.RoomError, match="has an agreement already"):
        rb.open_room(box, classes=(0, 1), parties=3, schema=BOUNDS)


def test_a_schema_can_be_agreed_on():
    schema = rb.Schema({"age": rb.Number(0, 120, gaps=True), "ward": rb.Category(("A", "B"))}, "ill", ("no", "yes"))
    agreement = make_agreement(replace(schema, drop=("ward",)), rb.Moments(1.0), parties=3)
    assert agreement.asked().label == "ill" and agreement.asked().names == ["age", "age=(missing)"]
    with pytest.raises(rb.ArgumentError, match="leaves open"):
        make_agreement(rb.Schema({"age": rb.Number()}), label="ill", classes=(0, 1), parties=3)


def identities(names=NAMES[:3]):
    return [rb.Identity.create(name) for name in names]


def test_one_byte_one_name_or_one_key_more_is_another_code():
    first, second = (make_agreement(classes=(0, 1), parties=3, schema=BOUNDS) for _ in range(2))
    parties = [one.party for one in identities()]
    codes = {
        verification_code(make_roster(first, parties)),
        verification_code(make_roster(second, parties)),
        verification_code(make_roster(first, [Party("eastern", parties[0].public_key), *parties[1:]])),
        verification_code(make_roster(first, [Party("east", bytes(31) + b"1"), *parties[1:]])),
    }
    assert len(codes) == 4
    assert verification_code(make_roster(first, parties[::-1])) == verification_code(make_roster(first, parties))
    with pytest.raises(rb.RoomError, match="east and north have one key"):
        make_roster(first, [parties[0], Party("north", parties[0].public_key), parties[2]])


def test_greetings_are_checked():
    agreement, other = (make_agreement(classes=(0, 1), parties=3, schema=BOUNDS) for _ in range(2))
    east, north, _ = identities()
    hello = greeting_message(agreement, east)
    assert read_greeting(hello, place_of_greeting("east"), agreement.digest) == east.party
    with pytest.raises(rb.RoomError, match="east has read another agreement"):
        read_greeting(greeting_message(other, east), place_of_greeting("east"), agreement.digest)
    with pytest.raises(rb.RoomError, match="north"):
        read_greeting(hello, place_of_greeting("north"), agreement.digest)
    forged = sign_message(north, agreement.digest, 0, "hello", {"public_key": east.party.public_key.hex()})
    with pytest.raises(rb.RoomError, match="east"):
        read_greeting(
            forged.replace(b'"sender":"north"', b'"sender":"east"'), place_of_greeting("east"), agreement.digest
        )
    for content in (b"", b"{}\n{}\n", hello[:40], b"x" * 5000, b"[" * 4000):
        with pytest.raises(rb.RoomError, match="the greeting of east is damaged"):
            read_greeting(content, place_of_greeting("east"), agreement.digest)
    for name in ("", "a b", "../x", "anybody", "x" * 65, 7):
        with pytest.raises(rb.ArgumentError, match="a holder is called by"):
            check_holder_name(name)


def test_nobody_takes_part_without_the_code():
    x, y = tables()
    ends, box = meet(lambda name: (x, y, {}), confirm="0000 0000", mechanism=rb.Moments(4.0), columns="linear")
    assert all("find out who (nothing was computed)" in str(end) for end in ends.values())
    assert not [name for name in box.names("") if not name.startswith(("0000/hello", "0000/stop", "0000/gone", PLACE))]
    ends, _ = meet(lambda name: (x, y, {}), confirm=lambda code, parties: len(parties) < 3)
    assert all("the code was not confirmed" in str(end) for end in ends.values())


def test_whoever_sees_another_room_is_named():
    """A mailbox that shows one holder another key of north: its seats differ, and its `ready` says so."""
    x, y = tables(30)
    false, lies = rb.Identity.create("north"), []

    class Lying(MemoryMailbox):
        def get(self, name):
            content = super().get(name)
            if name == place_of_greeting("north") and threading.current_thread().name == "fooled" and content:
                if not lies:
                    lies.append(greeting_message(Agreement.from_bytes(self.get(PLACE)), false))
                return lies[0]
            return content

    box = Lying()
    rb.open_room(box, classes=(0, 1), parties=3, n_rados=4, schema=BOUNDS)
    ends = {}

    def hospital(name):
        try:
            about = {"identity": rb.Identity.create(name), "confirm": lambda code, parties: True, "wait": 60.0}
            ends[name] = rb.join_room(box, x, y, **about)
        except rb.RoomError as error:
            ends[name] = str(error)

    threads = [
        threading.Thread(target=hospital, args=(name,), name="fooled" if name == "south" else name)
        for name in NAMES[:3]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends["east"].startswith("south sees other holders or keys")
    assert "sees other holders or keys" in ends["south"] or "north" in ends["south"]


def test_nobody_comes_back_and_nobody_comes_twice():
    x, y = tables(30)
    part = parts_of(x, y)
    ends, box = meet(part, n_rados=4)
    one_release(ends)
    table, labels, _ = part("east")
    agreed = {"confirm": lambda code, parties: True}
    with pytest.raises(rb.RoomError, match="somebody has joined this room as east already"):
        rb.join_room(box, table, labels, identity=rb.Identity.create("east"), **agreed)
    with pytest.raises(rb.RoomError, match="4 have joined"):
        rb.join_room(box, table, labels, identity=rb.Identity.create("late"), **agreed)


def test_a_holder_that_was_there_before_is_told_so(tmp_path):
    box, east = MemoryMailbox(), rb.Identity.create("east")
    agreement = rb.open_room(box, classes=(0, 1), parties=3, schema=BOUNDS)
    agreed = {"confirm": lambda code, parties: True, "wait": 0.1}
    for _ in range(2):  # before anything is confirmed, it may come again
        with pytest.raises(rb.RoomError, match="only east came within 0 seconds, and of 3 holders 2 are missing"):
            rb.join_room(box, [[1.0, 2.0]], [1], identity=east, **agreed)
    # Also once it was ready: not the mailbox knows what has begun, but what it has noted itself.
    box.put(message_place(0, "ready", "east"), sign_message(east, agreement.digest, 0, "ready", {}))
    with pytest.raises(rb.RoomError, match="only east came"):
        rb.join_room(box, [[1.0, 2.0]], [1], identity=east, **agreed)
    seats = make_roster(agreement, [east.party, *(one.party for one in identities()[1:])])
    Notes(east, agreement).write(seats, Gaussian(4.0, Relation.RECORD))
    with pytest.raises(rb.RoomError, match="nobody comes back"):
        rb.join_room(box, [[1.0, 2.0]], [1], identity=east, **agreed)
    with pytest.raises(rb.ArgumentError, match="say what this holder is called"):
        rb.join_room(box, [[1.0, 2.0]], [1], **agreed)
    with pytest.raises(rb.ArgumentError, match="agreed on no label column; give y"):
        rb.join_room(box, [[1.0, 2.0]], identity=east, **agreed)
    place = east.save(tmp_path / "identity.pem")
    with pytest.raises(rb.RoomError, match="nobody comes back"):
        rb.join_room(box, [[1.0, 2.0]], [1], name="east", identity=place, **agreed)
    with pytest.raises(rb.RoomError, match="1 of 3 holders have joined memory so far, east"):
        rb.close_room(box)


# ---- what one says for all


def seat(box, identity, everybody, **options):
    seats = Roster(bytes(32), tuple(sorted((one.party for one in everybody), key=lambda party: party.name)), 1)
    return participant.Participant(box, seats, identity, **{"patience": 300.0, **options})


def test_figures_are_those_of_the_first_holder_and_the_next_takes_over():
    box, everybody = MemoryMailbox(), identities()
    first, second, third = (seat(box, one, everybody, patience=0.3) for one in everybody)
    assert first.agreed(lambda: [0.1, 0.2]) == second.agreed(lambda: [0.3, 0.4]) == [0.1, 0.2]
    assert third.agreed(lambda: [0.5, 0.6]) == [0.1, 0.2]
    # The first is silent: the second speaks after a while, and the first, late, hears that.
    assert second.agreed(lambda: {"a": [1, None, "x"]}) == {"a": [1, None, "x"]}
    assert first.agreed(lambda: {"a": [2, 3, "x"]}) == {"a": [1, None, "x"]}
    assert "0002/agreed/anybody" in box.names("")
    matrix = np.arange(6.0).reshape(2, 3)
    assert first.agreed(matrix.tolist) == matrix.tolist()


@pytest.mark.parametrize("theirs", [[0.1], [0.1, float("inf")], {"a": 1.0}, None])
def test_figures_of_another_form_are_refused_by_the_sender_name(theirs):
    box, everybody = MemoryMailbox(), identities()
    arrays = {"value": np.array(theirs)} if theirs == [0.1, float("inf")] else {}
    body = {} if arrays else {"value": theirs}
    box.put(message_place(1, "agreed"), sign_message(everybody[0], bytes(32), 1, "agreed", body, arrays))
    with pytest.raises(rb.RoomError, match="east sent figures of another form"):
        seat(box, everybody[1], everybody).agreed(lambda: [0.3, 0.4])


def test_whoever_left_does_not_speak_for_all(monkeypatch):
    box, everybody = MemoryMailbox(), identities(NAMES)

    def without_east(mailbox, seats, identity, stage, present, values, patience, **_):
        return SecureTotal(values, tuple(name for name in present if name != "east"))

    monkeypatch.setattr(participant, "secure_sum", without_east)
    here = seat(box, everybody[1], everybody)
    assert here.total([np.arange(3)])[0].tolist() == [0, 1, 2]
    assert here.present == NAMES[1:] and here.noise_factor == 1.0
    box.put(message_place(2, "agreed"), sign_message(everybody[0], bytes(32), 2, "agreed", {"value": 1.0}))
    with pytest.raises(rb.RoomError, match="east is no longer in the room"):
        here.agreed(lambda: 2.0)
    lost = seat(box, everybody[0], everybody)
    with pytest.raises(rb.RoomError, match="the others have gone on without east"):
        lost.total([np.arange(3)])


def test_too_many_lost_stop_the_room(monkeypatch):
    box, everybody = MemoryMailbox(), identities(NAMES)

    def two(mailbox, seats, identity, stage, present, values, patience, **_):
        return SecureTotal(values, present[2:])

    monkeypatch.setattr(participant, "secure_sum", two)

    with pytest.raises(
        rb.RoomError, match="east and north have been silent, and the room can do without 1 holder at most"
    ):
        seat(box, everybody[3], everybody).total([np.arange(3)])


def together(*steps):
    """What each of these comes to, or the error that ends it, all at once in threads."""

    def ended(step):
        try:
            return step()
        except rb.RoomError as error:
            return error

    with ThreadPoolExecutor(len(steps)) as threads:
        return list(threads.map(ended, steps))


def test_a_mailbox_that_shows_different_figures_is_found_out_in_the_next_sum():
    """East signs two versions of the figures, and the mailbox shows north the other one."""
    box, everybody = MemoryMailbox(), identities()
    other, north = sign_message(everybody[0], bytes(32), 2, "agreed", {"value": 7}), View(box)
    north.seen.append(lambda name, content: other if name == "0002/agreed/anybody" else content)
    seats = [seat(view, one, everybody) for view, one in zip((box, north, box), everybody, strict=True)]
    numbers = np.arange(3)
    for total in together(*(lambda here=here: here.total([numbers])[0].tolist() for here in seats)):
        assert total == [0, 3, 6]
    assert [here.agreed(lambda: 5) for here in seats] == [5, 7, 5]
    for name, end in zip(NAMES, together(*(lambda here=here: here.total([numbers]) for here in seats)), strict=False):
        assert "goes by other figures than" in str(end) and "(0002/agreed/anybody): east spread" in str(end), name
    assert box.names("0003/keys/") and not box.names("0003/shares/")


def test_figures_that_all_heard_bind_one_sum_and_no_later_one():
    box, everybody = MemoryMailbox(), identities()
    seats, numbers = [seat(box, one, everybody) for one in everybody], np.arange(3)
    assert [here.agreed(lambda: 5) for here in seats] == [5, 5, 5]
    for _ in range(2):
        ends = together(*(lambda here=here: here.total([numbers])[0].tolist() for here in seats))
        assert ends == [[0, 3, 6]] * 3
    heard = [
        verify_message(box.get(f"000{stage}/keys/east"), f"000{stage}/keys/east", seats[0]._seats) for stage in (2, 3)
    ]
    assert [list(message.body["heard"]) for message in heard] == [["0001/agreed/anybody"], []]


# ---- who has to stop, and for whom one waits


def test_one_who_stops_is_not_waited_for():
    """North's table is refused on the way; the others, who would wait for an hour, have their release within seconds.

    What north tells is that it stops, and not why.
    """
    x, y = tables()

    def add(*about, **options):
        if about[3] > 2 and about[2].party.name == "north":
            raise rb.TableError("row 7 of the table says too much")
        return secure_sum(*about, **options)

    part = parts_of(x, y, NAMES, patience=3600.0)
    ends, box = meet(part, names=NAMES, add=add, mechanism=rb.Moments(4.0, sharpen=False), columns="linear")
    assert "row 7" in str(ends.pop("north"))
    release = one_release(ends)
    assert {part["name"] for part in release.statement.holders.parts if part["until"] is not None} == {"north"}
    told = box.get("0000/stop/north")
    assert json.loads(told.splitlines()[1]) == {} and b"row" not in told
    assert not any(b"row 7" in box.get(name) for name in box.names(""))


def test_one_who_stops_before_all_are_ready_ends_a_room_that_cannot_do_without_it():
    box, (east, north, south) = MemoryMailbox(), identities()
    agreement = rb.open_room(box, classes=(0, 1), parties=3, schema=BOUNDS)
    agreed = {"confirm": lambda code, parties: True, "counts": None, "patience": 3600.0}
    box.put(place_of_greeting("south"), greeting_message(agreement, south))  # and it does not confirm the code

    def join(identity, wait):
        return rb.join_room(box, [[1.0, 2.0]], [1], identity=identity, wait=wait, **agreed)

    first, second = together(lambda: join(east, 1.0), lambda: join(north, 3600.0))
    assert "south did not confirm the code within 1 seconds" in str(first)
    assert str(second).startswith("south did not confirm the code; nothing was computed")


def test_too_many_who_stop_end_the_room_at_once():
    x, y = tables()

    def add(*about, **options):
        if about[3] > 1 and about[2].party.name in ("north", "west"):
            raise KeyboardInterrupt if about[2].party.name == "west" else rb.TableError("of north's own")
        return secure_sum(*about, **options)

    def unless_interrupted(*about, **options):
        try:
            return join(*about, **options)
        except KeyboardInterrupt:
            raise rb.RoomError("interrupted") from None

    join = rb.join_room
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rb, "join_room", unless_interrupted)
        ends, box = meet(parts_of(x, y, NAMES, patience=3600.0), names=NAMES, add=add, n_rados=4)
    for name in ("east", "south", "zoo"):
        assert "north and west stopped, in sum 2 (keys), and the room can do without 1 holder" in str(ends[name]), name
    assert len(box.names("0000/stop/")) == 5


def test_one_who_stops_before_it_speaks_for_all_is_followed_by_the_next_at_once():
    box, everybody = MemoryMailbox(), identities(NAMES)
    second, third = (seat(box, one, everybody, patience=3600.0) for one in everybody[1:3])
    box.put("0000/stop/east", sign_message(everybody[0], bytes(32), 0, "stop", {}))
    assert second.agreed(lambda: 5) == third.agreed(lambda: 7) == 5
    with suppress(rb.RoomError), announce_abort(box, second._seats, everybody[1]):
        raise rb.RoomError("north has to go")
    assert third.agreed(lambda: 7) == 7


def test_for_whom_a_holder_waits_is_said_once_and_again_when_it_changes(monkeypatch):
    monkeypatch.setattr(abort_notices, "SILENCE", 0.05)
    box, everybody, lines, numbers = MemoryMailbox(), identities(), [], np.arange(3)
    late = {"north": threading.Event(), "south": threading.Event()}

    def tell(line):
        lines.append(line)
        (late["north"] if "north" in line else late["south"]).set()

    def take_part(one, **options):
        name, here = one.party.name, seat(box, one, everybody, **options)
        assert name == "east" or late[name].wait(300)
        return here.total([numbers])[0].tolist()

    own, *others = everybody
    ends = together(lambda: take_part(own, tell=tell), *(lambda one=one: take_part(one) for one in others))
    assert ends == [[0, 3, 6]] * 3
    assert lines[:2] == ["waiting for north, south, in sum 1 of the room", "waiting for south, in sum 1 of the room"]


def test_whoever_is_late_only_now_is_not_named_at_once(monkeypatch):
    """East was waited for, and then goes on a moment later than others who waited too."""
    lines, clock = [], iter((0.0, 2.9, 3.1, 3.2, 6.0, 6.3))
    monkeypatch.setattr(abort_notices.time, "monotonic", lambda: next(clock))
    whom = abort_notices.Whom(lines.append, "sum 1")
    counts = []
    for name in ("west", "west", "west", "east", "east", "east"):
        whom([name])
        counts.append(len(lines))
    assert lines == ["waiting for west, in sum 1", "waiting for east, in sum 1"] and counts == [0, 0, 1, 1, 1, 2]


# ---- the file


def test_another_file_is_refused_and_signatures_are_counted(monkeypatch):
    """East, the first, writes another release than the one that was made."""
    x, y = tables(60)
    part = parts_of(x, y)
    false = rb.craft(x, y, n_rados=10)

    genuine = room.craft_in_room

    def crafted(*about, **options):
        release = genuine(*about, **options)
        return replace(false, id=release.id) if about[3]._identity.party.name == "east" else release

    monkeypatch.setattr(room, "craft_in_room", crafted)
    ends, box = meet(part, n_rados=10)
    for name in NAMES[1:3]:
        assert "the release that east wrote is not the one that was computed here" in str(ends[name])
    with pytest.raises(rb.RoomError, match=r"1 of 3 .* must; .* (north|south) says that what came in the name of east"):
        rb.close_room(box)


def test_a_signature_of_another_file_is_named():
    x, y = tables(60)
    ends, box = meet(parts_of(x, y), n_rados=10)
    release = one_release(ends)
    place = next(name for name in box.names("") if name.endswith("signed/north"))
    signature = box._messages[place]
    assert json.loads(signature.splitlines()[1]).keys() == {"sha256"}
    del box._messages[place]
    with pytest.raises(rb.RoomError, match="signed by east and south: 2 of 3 holders, and 3 must; wait for north"):
        rb.close_room(box)
    box._messages[place] = signature.replace(b'"sha256":"', b'"sha256":"0')
    with pytest.raises(rb.RoomError, match="north"):
        rb.close_room(box)
    box._messages[place] = signature
    with pytest.raises(rb.RoomError, match="the code of this room is"):
        rb.close_room(box, code="0123")
    assert rb.close_room(box).digest == release.digest


def test_as_many_signatures_as_a_sum_needs_make_the_release_and_no_fewer(monkeypatch):
    """Of five, four: one who was lost, or signs something else, cannot hold it back; no signature counts for two."""
    x, y = tables(60)
    keys, create = {}, rb.Identity.create
    monkeypatch.setattr(rb.Identity, "create", lambda name: keys.setdefault(name, create(name)))
    ends, box = meet(parts_of(x, y, NAMES), names=NAMES, n_rados=4)
    release, seats = one_release(ends), seats_of(box)
    places = {name: place for name in NAMES for place in box.names("") if place.endswith(f"/signed/{name}")}
    stage = int(places["east"][:4])

    def signed(name, signer=None, seats=seats, stage=stage, digest="00"):
        return sign_message(keys[signer or name], seats.agreement, stage, "signed", {"sha256": digest})

    digest = json.loads(box.get(places["east"]).splitlines()[1])["sha256"]
    other = Roster(bytes(32), seats.parties, 1)
    for instead in (None, b"", signed("west"), signed("west", "east", digest=digest), box.get(places["east"])):
        box._messages[places["west"]] = instead
        assert rb.close_room(box).digest == release.digest
        assert instead is None or most_signed_release(box, seats).names == NAMES[:3] + NAMES[4:]
    for instead in (
        signed("zoo"), signed("zoo", "east", digest=digest), box.get(places["east"]),
        signed("zoo", seats=other, digest=digest), signed("zoo", stage=stage + 1, digest=digest),
    ):  # fmt: skip
        box._messages[places["zoo"]] = instead
        with pytest.raises(rb.RoomError, match="signed by east, north and south: 3 of 5 holders, and 4 must"):
            rb.close_room(box)
    box._messages[places["west"]] = signed("west", digest=digest)
    assert rb.close_room(box).digest == release.digest


@pytest.mark.parametrize(("parties", "tolerate", "lost"), [(3, 1, "none"), (5, 2, "1"), (9, 4, "2")])
def test_an_agreement_says_how_many_a_room_can_do_without(parties, tolerate, lost):
    agreed = {"bounds": BOUNDS, "classes": (0, 1), "parties": parties, "tolerate": tolerate}
    assert "noise is" not in flat.make_agreement(**agreed).as_text()[0]
    agreement = flat.make_agreement(**agreed, mechanism=rb.Moments(epsilon=1.0))
    assert f"{lost} may be lost" in agreement.as_text()[0]
    seats = Roster(bytes(32), tuple(Party(f"h{k}", bytes([k]) * 32) for k in range(parties)), tolerate)
    assert lost == str(seats.most_lost or "none")


def test_a_code_has_enough_bits_that_nobody_finds_two_rooms_with_one():
    """Each of 200 bits of the digest counts; spaces, dashes, capitals and letters that look like digits do not."""
    parties = tuple(Party(name, name.encode() * 32) for name in "abc")
    codes = [verification_code(Roster((1 << bit).to_bytes(32), parties, 1)) for bit in range(56, 256)]
    assert len(set(codes)) == 200 and {len(code) for code in codes} == {8 * 5 + 7}
    code = verification_code(Roster(bytes(range(32)), parties, 1))
    check_verification_code(code.upper().replace(" ", "-").replace("0", "O").replace("1", "I"), code, "")
    with pytest.raises(rb.RoomError, match="somebody sees another agreement"):
        check_verification_code(code[:-1] + "0", code, "")


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": 7}, {"n_rados": "5"}, {"parameters": {"foo": 1}}, {"parameters": [1]}, {"schema": [1]},
        *({"schema": {"radoboost_schema": 1, "columns": {}, "classes": [0, 1], **more}} for more in (
            {"rows": True}, {"numbers": {"x0": [None, "a"]}}, {"numbers": 3}, {"classes": [[1], [2]]}, {"label": 5},
            {"person": ["a"]}, {"person": {"column": 3}}, {"columns": 7}, {"use": 3}, {"gaps": []}, {"shared": {}},
        )),
        {"columns": 3}, {"mechanism": None}, {"parties": 3.0}, {"parameters": {"epsilon": 10**400}},
        {"parameters": {"epsilon": 1.0, "unit": {"column": 3}}}, {"parameters": {"epsilon": 1.0, "unit": {"rows": 3}}},
    ],
    ids=str,
)  # fmt: skip
def test_an_agreement_of_a_stranger_is_refused_in_one_line(change):
    agreement = make_agreement(classes=(0, 1), parties=3, mechanism=rb.Moments(1.0), schema=BOUNDS)
    read_agreement(agreement.to_bytes(), "here")
    content = json.dumps({**json.loads(agreement.to_bytes()), **change}, indent=1, ensure_ascii=False).encode()
    with pytest.raises(rb.RoomError) as error:
        read_agreement(content, "here")
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_neither_a_stranger_nor_one_holder_can_hide_the_release(monkeypatch):
    """A late greeting, one that is damaged, a stranger who is ready, and something of one holder in the way."""
    x, y = tables(30)
    keys, create = {}, rb.Identity.create
    monkeypatch.setattr(rb.Identity, "create", lambda name: keys.setdefault(name, create(name)))
    ends, box = meet(parts_of(x, y), n_rados=4)
    release, agreement = one_release(ends), Agreement.from_bytes(box.get(PLACE))
    seats, stranger = seats_of(box), rb.Identity.create("anna")
    assert box.put("0001/release/anybody", b"nothing")
    assert box.put("0002/release/zorro", b"nothing")
    fake = sign_message(keys["east"], seats.agreement, 1, "signed", {"sha256": "00"})
    assert box.put("0001/signed/east", fake)
    assert box.put(place_of_greeting("anna"), greeting_message(agreement, stranger)) and box.put(
        place_of_greeting("bob"), b"nothing"
    )
    assert box.put(place_of_greeting("anybody"), b"nothing")
    names = ["anna", "east", "north"]
    body = {"seats": seats.agreement.hex(), "names": names, "nonces": [bytes(16).hex()] * 3}
    assert box.put("0000/ready/anna", sign_message(stranger, agreement.digest, 0, "ready", body))
    assert rb.close_room(box, code=verification_code(seats)).digest == rb.close_room(box).digest == release.digest
    # A whole group of strangers is told from the holders by the code alone.
    group = [rb.Identity.create(name) for name in ("ida", "jan", "kim")]
    hellos = [greeting_message(agreement, one) for one in group]
    places = [place_of_greeting(one.party.name) for one in group]
    false = make_roster(
        agreement, [read_greeting(*about, agreement.digest) for about in zip(hellos, places, strict=True)]
    )
    for one, hello, place in zip(group, hellos, places, strict=True):
        assert box.put(place, hello)
        ready = sign_message(one, agreement.digest, 0, "ready", ready_message(false))
        assert box.put(f"0000/ready/{one.party.name}", ready)
    assert rb.close_room(box, code=verification_code(seats)).digest == release.digest
    with pytest.raises(rb.RoomError, match="2 groups"):
        rb.close_room(box)
    with pytest.raises(rb.RoomError, match="there is no release in memory"):
        rb.close_room(box, code=verification_code(false))


def test_a_stranger_who_greets_once_somebody_is_ready_does_no_harm():
    x, y = tables(30)
    stranger = rb.Identity.create("anna")

    class Crowded(MemoryMailbox):
        def put(self, name, content):
            done = super().put(name, content)
            if name == "0000/ready/east":
                super().put(
                    place_of_greeting("anna"), greeting_message(Agreement.from_bytes(self.get(PLACE)), stranger)
                )
                crowded.set()
            elif name in ("0000/hello/north", "0000/hello/south"):
                late.append(threading.current_thread())
            return done

        def names(self, prefix):
            if prefix == "0000/hello/" and threading.current_thread() in late:
                assert crowded.wait(300)
            return super().names(prefix)

    crowded, late = threading.Event(), []
    ends, box = meet(parts_of(x, y), box=Crowded(), n_rados=4)
    assert one_release(ends).digest == rb.close_room(box).digest
