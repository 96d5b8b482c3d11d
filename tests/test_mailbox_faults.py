"""A served mailbox under faults: full disks, half requests, bodies without an end, messages of other rooms."""

import errno
import http.client
import importlib
import json
import os
import socket
import tempfile
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import radoboost as rb
from radoboost import serving
from radoboost.errors import RoomError
from radoboost.holder.rooms import http_mailbox, mailbox_server, served_room
from radoboost.holder.rooms import mailbox as folder_module
from radoboost.holder.rooms.agreement import make_agreement
from radoboost.holder.rooms.handshake import greeting_message, make_roster, new_greeting_nonce, ready_message
from radoboost.holder.rooms.http_mailbox import WebMailbox
from radoboost.holder.rooms.mailbox import FolderMailbox
from radoboost.holder.rooms.mailbox_server import TIME_HEADER, Limits, MailboxStore
from radoboost.holder.rooms.served_room import Refused
from radoboost.holder.rooms.signed_messages import Identity, sign_message
from rooms import served

ROOM = "a" * 32
NAMES = ("east", "north", "west")


@pytest.fixture(scope="module")
def identities():
    return {name: Identity.create(name) for name in NAMES}


class Session:
    """A room on shelves in which three holders have greeted, and what each may say there."""

    def __init__(self, shelves, identities, room=ROOM):
        self.shelves, self.room, self.identities = shelves, room, identities
        self.agreement = make_agreement(classes=(0, 1), parties=3, schema={"a": (0, 1)})
        shelves.open(room)
        assert self.put("agreement", self.agreement.to_bytes())
        for name, identity in identities.items():
            assert self.put(f"0000/hello/{name}", greeting_message(self.agreement, identity, self.nonce(name)))
        self.seats = make_roster(self.agreement, [self.party(name) for name in identities])

    def nonce(self, name):
        return bytes([NAMES.index(name)]) * 16

    def party(self, name, nonce=None):
        key = self.identities[name].party.public_key
        return type(self.identities[name].party)(name, key, nonce or self.nonce(name))

    def put(self, name, content):
        return self.shelves.put(self.room, name, content, time.time())

    def said(self, name, kind, stage=1, about=None, body=None):
        about = self.seats.agreement if about is None else about
        return sign_message(self.identities[name], about, stage, kind, body or {}, {"a": np.arange(5)})


def patient(monkeypatch, seconds=30.0):
    monkeypatch.setattr(http_mailbox, "_PATIENCE", seconds)


def raw(address, *pieces, wait=30.0):
    """The status and the text of what comes back to these bytes."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=wait) as one:
        for piece in pieces:
            with suppress(BrokenPipeError, ConnectionResetError):
                one.sendall(piece)
        answer = http.client.HTTPResponse(one)
        answer.begin()
        return answer.status, answer.read().decode()


def put_head(room, name, *lines):
    head = [
        f"PUT {urlsplit(room).path}/messages/{name} HTTP/1.1",
        "Host: x",
        f"{TIME_HEADER}: {time.time():.0f}",
        *lines,
    ]
    return "\r\n".join([*head, "", ""]).encode()


# ---- what a message costs


def test_a_message_is_read_by_its_own_size(tmp_path):
    box = FolderMailbox(tmp_path)
    assert box.put("0001/keys/a", bytes(500))
    tracemalloc.start()
    try:
        assert box.get("0001/keys/a") == bytes(500)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_after_a_new_start_messages_of_sums_are_counted_and_not_read(tmp_path, identities, monkeypatch):
    session = Session(MailboxStore(folder=tmp_path), identities)
    assert session.put("0001/keys/north", session.said("north", "keys"))
    names, get = [], FolderMailbox.get
    monkeypatch.setattr(FolderMailbox, "get", lambda self, name: names.append(name) or get(self, name))
    again = MailboxStore(folder=tmp_path)
    assert sorted(names) == ["0000/hello/east", "0000/hello/north", "0000/hello/west", "agreement"]
    assert len(again.news(ROOM, "", 0).messages) == 5


def test_what_is_remembered_for_other_readers_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(mailbox_server, "_RECENT", 2000)
    kept = mailbox_server._Recent(2000)
    for k in range(10):
        kept.keep((ROOM, str(k)), bytes(500))
    assert [k for k in range(10) if kept.get((ROOM, str(k)))] == [8, 9] or kept._size <= 2000


# ---- failures of the drive, and others


def test_a_full_disk_is_an_outage_that_holders_wait_for(tmp_path, identities, monkeypatch):
    write, failures, lines = folder_module._write_message_durably, [], []

    def full(*args):
        if len(failures) < 2:
            failures.append(args)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(*args)

    kept = MailboxStore(folder=tmp_path, tell=lines.append)
    session = Session(kept, identities)
    with served(kept) as address:
        box = WebMailbox(f"{address}/{ROOM}")
        monkeypatch.setattr(folder_module, "_write_message_durably", full)
        assert box.put("0001/keys/north", session.said("north", "keys")) and len(failures) == 2
        assert lines == [f"{tmp_path}: No space left on device"]  # once, and for whoever keeps the server
        failures.clear()
        patient(monkeypatch, 0.0)
        with pytest.raises(RoomError, match=r"cannot keep or read messages now \(No space left on device\)") as caught:
            box.put("0002/keys/north", session.said("north", "keys", 2))
        assert str(tmp_path) not in str(caught.value) and len(lines) == 1
        assert kept.get(ROOM, "0002/keys/north") is None


def test_a_disk_that_is_full_while_a_message_arrives_is_the_same_outage(tmp_path, identities, monkeypatch):
    class Full(tempfile.SpooledTemporaryFile):
        failures = 0

        def write(self, piece):
            if Full.failures < 2:
                Full.failures += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(piece)

        def close(self):
            super().close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    lines = []
    kept = MailboxStore(folder=tmp_path, tell=lines.append)
    session = Session(kept, identities)
    with served(kept) as address, monkeypatch.context() as patch:
        box = WebMailbox(f"{address}/{ROOM}")
        patch.setattr(tempfile, "SpooledTemporaryFile", Full)
        assert box.put("0001/masked/north", session.said("north", "masked")) and Full.failures == 2
    assert lines == [f"{tmp_path}: No space left on device"]


def test_the_place_of_a_server_is_not_shown_to_holders(tmp_path, identities):
    """A folder in the place of a message, a room that is gone: the server's own lines name it, and no answer does."""
    lines = []
    kept = MailboxStore(folder=tmp_path, tell=lines.append)
    session = Session(kept, identities)
    (tmp_path / ROOM / "0001").write_text("a file where a folder belongs")
    for act in (
        lambda: session.put("0001/keys/north", session.said("north", "keys")),
        lambda: kept.get(ROOM, "0001/keys/north"),
    ):
        with pytest.raises(Refused, match="something else lies where messages should") as caught:
            act()
        assert caught.value.status == 503 and str(tmp_path) not in str(caught.value)
    assert [str(tmp_path) in line for line in lines] == [True]


def test_a_failure_that_nobody_foresaw_is_an_outage(monkeypatch):
    lines = []
    kept = MailboxStore(tell=lines.append)
    news, failures = kept.news, []

    def failing(*args):
        if len(failures) < 2:
            failures.append(args)
            raise MemoryError
        return news(*args)

    with served(kept) as address:
        box = WebMailbox(address, make=True)
        monkeypatch.setattr(kept, "news", failing)
        assert box.names("") == [] and len(failures) == 2
        assert len(lines) == 1 and lines[0].startswith("MemoryError, in line ")
        failures.clear()
        patient(monkeypatch, 0.0)
        with pytest.raises(RoomError, match="the mailbox cannot answer now; come again"):
            box.names("")


@pytest.mark.parametrize("start", ["abc", "-1", "", "1.5", "9" * 23, "٣"])
def test_a_start_that_is_no_number_is_refused_in_our_words(start):
    with served(MailboxStore()) as address:
        room = WebMailbox(address, make=True).name
        path = f"{urlsplit(room).path}/news?start=".encode() + start.encode()
        status, text = raw(address, b"GET " + path.replace("٣".encode(), b"%D9%A3") + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status == 400 and "start is the number of messages" in json.loads(text)["error"]
        status, text = raw(address, b"GET /a/b/c HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status == 404 and json.loads(text)["error"] == "a mailbox has nothing at this address"


# ---- bodies


def test_bodies_are_refused_by_their_heads_and_first_lines(identities):
    kept = MailboxStore(Limits(message_bytes=10**6))
    session = Session(kept, identities)
    line = session.said("north", "masked").partition(b"\n")[0] + b"\n"
    chunk = lambda piece: b"%x\r\n%b\r\n" % (len(piece), piece)  # noqa: E731
    with served(kept) as address:
        room = f"{address}/{ROOM}"
        cases = [
            (put_head(room, "0001/masked/north", "Content-Length: 1000001"), 413, "at most 1,000,000 bytes"),
            (put_head(room, "0001/keys/north", "Content-Length: 100000"), 413, "at most 68,608 bytes"),
            (put_head(room, "0000/ready/north", "Content-Length: 200000"), 413, "at most 131,072 bytes"),
            (put_head(room, "0001/masked/north", "Content-Length: 1_0"), 400, ""),
            (
                put_head(room, "0001/masked/north", "Content-Length: 900000") + b"x" * 5000,
                403,
                "not signed, or damaged",
            ),
            (put_head(room, "0001/masked/west", "Content-Length: 900000") + line, 403, "lies a message of north"),
            (put_head(room, "0002/masked/north", "Content-Length: 900000") + line, 403, "is another one"),
            (put_head(room, "0000/hello/east", "Content-Length: 9000"), 409, ""),
        ]
        for sent, status, words in cases:
            found, text = raw(address, sent)
            assert found == status and words in text, (sent[:90], found, text)
        head = put_head(room, "0001/keys/north", "Transfer-Encoding: chunked")
        keys = session.said("north", "keys").partition(b"\n")[0] + b"\n"
        status, text = raw(address, head, chunk(keys), *[chunk(bytes(2**14))] * 5)
        assert status == 413 and "at most 68,608 bytes" in text
        late = put_head(room, "0001/masked/north", "Content-Length: 900000").replace(
            str(time.time())[:6].encode(), b"100000"
        )
        assert raw(address, late)[0] == 400  # a clock that is wrong is said before a body comes
    assert kept._shelves[ROOM].arriving == 0
    assert [kept.get(ROOM, f"0001/masked/{name}") for name in ("north", "west")] == [None, None]


def test_a_body_that_does_not_arrive_is_not_waited_for(identities, monkeypatch):
    monkeypatch.setattr(mailbox_server, "_PIECE_SECONDS", 0.2)
    kept = MailboxStore()
    Session(kept, identities)
    with served(kept) as address:
        status, text = raw(address, put_head(f"{address}/{ROOM}", "0001/masked/north", "Content-Length: 90"))
        assert status == 408 and "did not arrive in time" in text and kept.get(ROOM, "0001/masked/north") is None
        assert 408 in http_mailbox._PASSING


def test_what_is_on_its_way_counts_and_large_messages_are_not_in_memory(identities, tmp_path, monkeypatch):
    monkeypatch.setattr(served_room, "_IN_MEMORY", 1000)
    kept = MailboxStore(Limits(room_bytes=100_000), tmp_path)
    session = Session(kept, identities)
    line = session.said("north", "masked").partition(b"\n")[0] + b"\n"
    with ExitStack() as stack:
        one, two = (kept.coming(ROOM, f"0001/masked/{name}", time.time()) for name in ("north", "east"))
        for arrival in (one, two):
            stack.callback(arrival.close)
        one.add(line)
        one.add(bytes(60_000))
        assert one._file._rolled and one.content() == line + bytes(60_000)
        with pytest.raises(Refused, match="too much is on its way") as caught:
            two.add(bytes(60_000))
        assert caught.value.status == 503
    assert kept._shelves[ROOM].arriving == 0 and os.listdir(tmp_path) == [ROOM]


# ---- messages of other rooms


def test_a_message_of_an_earlier_room_is_refused_and_takes_no_place(identities):
    kept = MailboxStore()
    earlier, session = Session(kept, identities, "b" * 32), Session(kept, identities)
    for about in (earlier.seats.agreement, earlier.agreement.digest, bytes(32)):
        with pytest.raises(Refused, match="is about another agreement, or another room") as caught:
            session.put("0001/keys/west", session.said("west", "keys", about=about))
        assert caught.value.status == 403 and kept.get(ROOM, "0001/keys/west") is None
    with pytest.raises(Refused, match="another agreement"):
        session.put("0000/hello-2/west", greeting_message(earlier.agreement, identities["west"]))
    assert session.put("0001/keys/west", session.said("west", "keys"))
    assert session.put("0000/stop/north", session.said("north", "stop", 0))  # also before anybody is ready


@pytest.mark.parametrize("restarted", [False, True])
def test_all_sessions_that_holders_may_be_in_are_known(identities, tmp_path, restarted):
    """Whoever joins again makes another session; so does one whose word that it is ready names earlier greetings."""
    kept = MailboxStore(folder=tmp_path)
    session = Session(kept, identities)
    nonce = new_greeting_nonce()
    again = sign_message(
        identities["west"], session.agreement.digest, 0, "hello-2",
        {"public_key": identities["west"].party.public_key.hex(), "nonce": nonce.hex()},
    )  # fmt: skip
    assert session.put("0000/hello-2/west", again)
    second = make_roster(
        session.agreement, [session.party("east"), session.party("north"), session.party("west", nonce)]
    )
    ready = session.said("east", "ready", 0, session.agreement.digest, ready_message(session.seats))
    assert session.put("0000/ready/east", ready)
    if restarted:
        session.shelves = MailboxStore(folder=tmp_path)
    for stage, seats in ((1, session.seats), (2, second)):
        assert session.put(f"{stage:04}/keys/east", session.said("east", "keys", stage, seats.agreement))
    forged = ready_message(make_roster(session.agreement, [session.party(name, bytes(16)) for name in NAMES]))
    forged["seats"] = "00" * 32  # what a holder merely says is no session
    assert session.put("0000/ready/north", session.said("north", "ready", 0, session.agreement.digest, forged))
    with pytest.raises(Refused, match="another agreement"):
        session.put("0003/keys/north", session.said("north", "keys", 3, bytes(32)))


def test_nobody_is_thrown_out_by_a_message_of_an_earlier_room(identities):
    """Somebody who has both addresses puts what west signed before, wherever it might lie, while three holders meet."""
    generator, refusals = np.random.default_rng(0), []
    earlier = Session(MailboxStore(), identities)
    with served(MailboxStore()) as address:
        room = WebMailbox(address, make=True)
        rb.open_room(room, classes=(0, 1), parties=3, n_rados=4, schema={"x0": (0, 9)})
        old = WebMailbox(room.name)
        for stage in range(1, 4):
            for kind in ("keys", "masked"):
                with pytest.raises(RoomError, match="another agreement"):
                    refusals.append(old.put(f"{stage:04}/{kind}/west", earlier.said("west", kind, stage)))

        def join(name):
            x, y = generator.uniform(0, 9, (30, 1)), generator.integers(0, 2, 30)
            return rb.join_room(
                room.name,
                x,
                y,
                identity=identities[name],
                confirm=lambda code, parties: True,
                counts=None,
                patience=60.0,
                wait=60.0,
                compute=rb.Compute(threads=1),
            )

        with ThreadPoolExecutor(3) as threads:
            releases = list(threads.map(join, NAMES))
        assert len({release.digest for release in releases}) == 1 and releases[0].n_examples == 90
        assert refusals == []


# ---- connections


@contextmanager
def half_requests(address, count, sent=b"GET / HTTP/1.1\r\nHost: x\r\nX-Half: "):
    place, held = urlsplit(address), []
    try:
        for _ in range(count):
            held.append(socket.create_connection((place.hostname, place.port), timeout=30))
            held[-1].sendall(sent)
        yield held
    finally:
        for one in held:
            one.close()


@pytest.mark.parametrize("end", ["X-Half: ", "\r\n"])
def test_connections_that_ask_nothing_make_way_and_a_busy_one_stays(monkeypatch, end):
    monkeypatch.setattr(serving, "most_server_connections", lambda: 8)
    kept, asked, go_on = MailboxStore(), threading.Event(), threading.Event()
    news, answers = kept.news, []

    def slow(*args):
        asked.set()
        assert go_on.wait(60)
        return news(*args)

    with served(kept) as address:
        room = WebMailbox(address, make=True)
        assert room.names("") == []
        monkeypatch.setattr(kept, "news", slow)
        ask = f"GET {urlsplit(room.name).path}/news HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        busy = threading.Thread(target=lambda: answers.append(raw(address, ask)[0]))
        busy.start()
        assert asked.wait(60)
        with half_requests(address, 30, f"GET / HTTP/1.1\r\nHost: x\r\n{end}".encode()):
            for _ in range(20):
                assert raw(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 200
            go_on.set()
            busy.join()
            assert answers == [200]
            assert len(serving.Connection.by_file) <= 8
            assert room.names("") == []  # which dials again, where it was the one to go


def test_a_head_that_does_not_arrive_ends_a_connection_to_a_mailbox(monkeypatch):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.2)
    with served(MailboxStore()) as address, half_requests(address, 1) as (one,), suppress(ConnectionResetError):
        assert one.recv(1) == b""


def test_a_body_that_was_refused_is_not_read_for_ever(monkeypatch):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.2)
    with served(MailboxStore()) as address:
        place = urlsplit(address)
        with socket.create_connection((place.hostname, place.port), timeout=60) as one:
            one.sendall(f"PUT /{ROOM}/messages/a HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n".encode())
            assert one.recv(2**16).split(b" ")[1] == b"404"
            end = time.monotonic() + 60
            with suppress(BrokenPipeError, ConnectionResetError):
                while time.monotonic() < end:
                    one.sendall(bytes(1000))
                    time.sleep(0.01)
            assert time.monotonic() < end


def test_too_many_files_are_no_reason_to_ask_without_a_pause(monkeypatch):
    with serving.listening_socket("127.0.0.1", 0) as door:
        clients = [socket.create_connection(door.getsockname(), timeout=30) for _ in range(2)]
        connection, _ = door.accept()
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        with monkeypatch.context() as patch:

            def none_left(self):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

            patch.setattr(socket.socket, "accept", none_left)
            with pytest.raises(OSError, match="Too many open files"):
                door.accept()
        with pytest.raises(BlockingIOError):
            door.accept()
        clients[0].settimeout(30)
        assert clients[0].recv(1) == b""  # the one that asked nothing made way
        monkeypatch.setattr(door, "_closed_until", 0.0)
        other, _ = door.accept()
        for one in (connection, other, *clients):
            one.close()


def test_connections_leave_files_for_the_rest(monkeypatch):
    resource = pytest.importorskip("resource")
    for files, most in ((200, 100), (50, 16), (10**6, serving.MOST_CONNECTIONS), (-1, serving.MOST_CONNECTIONS)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert serving.most_server_connections() == most


# ---- under load


@pytest.mark.slow
@pytest.mark.parametrize("part", ["clients", "readers", "half", "bodies", "restart"])
def test_under_load(part, monkeypatch):
    """Each part of the benchmark, with no figure short of what it should be."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    mailbox = importlib.import_module("mailbox_load")
    monkeypatch.setattr(mailbox, "SECONDS", 5.0)
    assert list(mailbox.short_of({part: mailbox.PARTS[part]()})) == []
