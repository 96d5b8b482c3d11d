"""Where messages of a room lie: one contract for all mailboxes, and what each refuses."""

import errno
import os
import socket
import stat
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest

from radoboost.errors import ArgumentError, RoomError
from radoboost.holder.rooms import http_mailbox
from radoboost.holder.rooms import mailbox as folder_module
from radoboost.holder.rooms import mailbox_server as shelves_module
from radoboost.holder.rooms import mailbox_server as web_server_module
from radoboost.holder.rooms.http_mailbox import WebMailbox
from radoboost.holder.rooms.mailbox import LARGEST, FolderMailbox, MemoryMailbox, is_message_name, mailbox_at
from radoboost.holder.rooms.mailbox_server import Limits, MailboxStore
from radoboost.holder.rooms.served_room import Refused, Shelf
from radoboost.holder.rooms.signed_messages import Identity, sign_message
from rooms import served

HOSTILE = ["", "../x", "a/../b", "/etc/passwd", "a//b", "a\\b", ".a", "a\0b", "ä", "a/b/c/d/e", "x" * 65, "%2e%2e"]


@pytest.fixture
def anything_signed(monkeypatch):
    """A server that takes messages without signatures: contents are of no matter here."""
    monkeypatch.setattr(Shelf, "check", lambda *_, **__: {})


@pytest.fixture(params=["memory", "folder", "web", "web on a folder"])
def two_views(request, tmp_path, anything_signed):
    """One mailbox, as two holders see it."""
    if request.param == "memory":
        box = MemoryMailbox()
        yield box, box
    elif request.param == "folder":
        yield FolderMailbox(tmp_path / "r.room", make=True), FolderMailbox(tmp_path / "r.room")
    else:
        with served(MailboxStore(folder=tmp_path if "folder" in request.param else None)) as address:
            box = WebMailbox(address, make=True)
            yield box, WebMailbox(box.name)


def lying(shelves, room, name):
    """What a served mailbox has under a name."""
    with shelves.get(room, name) or nullcontext() as file:
        return file and file.read()


def eventually(read, wanted, seconds=60.0):
    end = time.monotonic() + seconds
    while (value := read()) != wanted and time.monotonic() < end:
        time.sleep(0.005)
    assert value == wanted


def test_a_message_is_put_once_and_seen_by_all(two_views):
    one, two = two_views
    assert one.get("0000/keys/a") is None and two.names("") == []
    assert one.put("0000/keys/a", b"1") and one.get("0000/keys/a") == b"1"
    eventually(lambda: two.get("0000/keys/a"), b"1")
    assert not two.put("0000/keys/a", b"2") and not one.put("0000/keys/a", b"1")
    assert two.get("0000/keys/a") == one.get("0000/keys/a") == b"1"
    assert (
        two.put("0000/keys/b", b"") and two.put("0001/list", bytes(range(256)) * 9000) and two.put("agreement", b"{}")
    )
    eventually(lambda: one.get("0000/keys/b"), b"")
    eventually(lambda: one.get("0001/list"), bytes(range(256)) * 9000)
    for box in two_views:
        assert box.names("") == ["0000/keys/a", "0000/keys/b", "0001/list", "agreement"]
        assert box.names("0000/keys/") == ["0000/keys/a", "0000/keys/b"] and box.names("0000/k")[:1] == ["0000/keys/a"]
        assert box.names("0002/") == [] and box.names("0000/keys/b") == ["0000/keys/b"] and box.names("../") == []
        assert box.name


def test_after_a_name_was_taken_the_winner_is_read_at_once(two_views):
    one, two = two_views
    two.get("0000/list")
    assert one.put("0000/list", b"first")
    assert not two.put("0000/list", b"second") and two.get("0000/list") == b"first"


def test_of_many_who_put_at_once_one_wins_and_all_read_it(two_views):
    for turn in range(3):
        won = []

        def put(number, turn=turn, won=won):
            if two_views[number % 2].put(f"{turn:04}/list", bytes([number]) * 1000):
                won.append(number)

        threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        for box in two_views:
            eventually(lambda box=box, turn=turn: box.get(f"{turn:04}/list"), bytes(won) * 1000)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_are_none_are_refused_before_anything_is_touched(name, tmp_path):
    assert not is_message_name(name)
    (tmp_path / "r").mkdir()
    for box in (MemoryMailbox(), FolderMailbox(tmp_path / "r")):
        with pytest.raises(RoomError, match="is no name of a message"):
            box.put(name, b"x")
    with pytest.raises(RoomError, match="is no name of a message"):
        FolderMailbox(tmp_path / "r").get(name)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "r"]


def test_contents_that_are_none_or_too_large_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "LARGEST", 100)
    box = FolderMailbox(tmp_path)
    with pytest.raises(RoomError, match="must be bytes; it is of the type str"):
        box.put("a", "text")
    with pytest.raises(RoomError, match="has 101 bytes, and the mailbox takes 100 at most"):
        box.put("a", bytes(101))
    (tmp_path / "a").write_bytes(bytes(1000))
    with pytest.raises(RoomError, match="the message a has 1,000 bytes"):
        box.get("a")
    assert LARGEST > 100


def test_strange_things_in_a_folder_are_left_alone(tmp_path):
    """What programs that keep drives in step leave there, links, pipes and folders in the place of messages."""
    room = tmp_path / "room"
    box = FolderMailbox(room, make=True)
    assert box.put("0000/keys/a", b"1")
    for odd in ("Thumbs.db", ".DS_Store", "a (conflicted copy)", "0000/desktop.ini", "0000/keys/a.tmp", "0000/keys/~b"):
        (room / odd).write_text("odd")
    (room / "0000" / "keys" / "c").symlink_to("/etc/passwd")
    os.mkfifo(room / "0000" / "keys" / "d")
    assert box.names("") == ["0000/keys/a"]
    for name in ("0000/keys/c", "0000/keys/d"):
        with pytest.raises(RoomError, match="plain file"):
            box.get(name)
    with pytest.raises(RoomError, match="is no plain file"):
        box.get("0000/keys")
    assert not box.put("0000/keys/c", b"x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret")
    (room / "0001").symlink_to(outside)
    for act in (lambda: box.get("0001/a"), lambda: box.put("0001/b", b"x"), lambda: box.names("0001/")):
        with pytest.raises(RoomError, match="not a folder"):
            act()
    assert os.listdir(outside) == ["a"] and box.names("") == ["0000/keys/a"]


def test_folders_and_files_get_the_permissions_of_the_room(tmp_path):
    """Whoever may write in the folder of a room can put messages beside those of others."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r").chmod(0o770)
    FolderMailbox(tmp_path / "r").put("0000/keys/a", b"1")
    assert stat.S_IMODE((tmp_path / "r" / "0000" / "keys").stat().st_mode) == 0o770
    assert stat.S_IMODE((tmp_path / "r" / "0000" / "keys" / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("call", "number", "words"),
    [("open", errno.EACCES, "Permission"), ("fsync", errno.ENOSPC, "space"), ("open", errno.EROFS, "Read-only"),
     ("rename", errno.EIO, "drive")],
)  # fmt: skip
def test_what_a_drive_says_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, number, words, call):
    box = FolderMailbox(tmp_path / "r", make=True)

    def fail(*args, **options):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(folder_module.os, call, fail)
        with pytest.raises(RoomError, match=words) as caught:
            box.put("0000/keys/a", b"1")
    assert "\n" not in str(caught.value) and "0000/keys/a" in str(caught.value)
    assert os.listdir(tmp_path / "r" / "0000" / "keys") == [] and box.get("0000/keys/a") is None
    assert box.put("0000/keys/a", b"2")


def test_a_folder_that_is_gone_or_none_is_said(tmp_path):
    with pytest.raises(RoomError, match="nowhere"):
        FolderMailbox(tmp_path / "nowhere")
    with pytest.raises(RoomError, match="there is no folder"):
        FolderMailbox(tmp_path / "no" / "where", make=True)
    (tmp_path / "file").write_text("")
    for make in (False, True):
        with pytest.raises(RoomError, match="is a file"):
            FolderMailbox(tmp_path / "file", make=make)
    box = FolderMailbox(tmp_path / "r", make=True)
    (tmp_path / "r").rmdir()
    for act in (lambda: box.get("a"), lambda: box.put("a", b""), lambda: box.names("")):
        with pytest.raises(RoomError, match="gone"):
            act()


def test_a_writer_that_died_while_it_claimed_a_name_leaves_no_message(tmp_path):
    box = FolderMailbox(tmp_path)
    (tmp_path / ".a.claim").write_text("")
    (tmp_path / ".0123.draft").write_text("half")
    assert not box.put("a", b"1") and box.get("a") is None and box.names("") == []
    before = time.time() - 60
    os.utime(tmp_path / ".a.claim", (before, before))
    assert box.put("a", b"2") and box.get("a") == b"2" and not box.put("a", b"3")  # it is gone, and another may


def test_a_writer_that_wakes_up_finds_that_another_has_its_place(tmp_path, monkeypatch):
    """It had claimed the name, and slept: another took over. It replaces nothing."""
    box, claimed, times = FolderMailbox(tmp_path), folder_module._claim_message_place, []

    def slow(draft, folder, last):
        number = claimed(draft, folder, last)
        if not times:
            times.append(time.time() - 60)
            os.utime(folder / f".{last}.claim", (times[0], times[0]))
            if late == "put":
                assert FolderMailbox(tmp_path).put(last, b"second")
            else:
                (tmp_path / f".{last}.claim1").write_text("")
        return number

    monkeypatch.setattr(folder_module, "_claim_message_place", slow)
    late = "put"
    assert not box.put("a", b"first") and box.get("a") == b"second"
    late = "claimed"
    times.clear()
    assert not box.put("b", b"first") and box.get("b") is None


def test_a_move_whose_answer_was_lost_is_a_move(tmp_path, monkeypatch):
    box, rename = FolderMailbox(tmp_path), os.rename

    def moved(*places):
        rename(*places)
        raise OSError(errno.EIO, "no answer")

    with monkeypatch.context() as patch:
        patch.setattr(folder_module.os, "rename", moved)
        assert box.put("a", b"1")
    assert not box.put("a", b"2") and box.get("a") == b"1" and (tmp_path / ".a.claim").exists()

    def vanished(draft, place):
        rename(draft, tmp_path / "elsewhere")
        raise OSError(errno.EIO, "no answer")

    with monkeypatch.context() as patch:
        patch.setattr(folder_module.os, "rename", vanished)
        with pytest.raises(RoomError, match="put the message b there"):
            box.put("b", b"1")
    assert not box.put("b", b"2") and box.get("b") is None  # the first one may still turn up


# ---- behind an address


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://host/x", "folder"),
        ("http://", "HOST"),
        ("https://me:pw@host/" + "0" * 32, "user"),
        ("https://host:99999/" + "0" * 32, "HOST"),
        ("https://host/flu", "hexadecimal"),
        ("http://example.org/" + "0" * 32, "sees"),
    ],
)
def test_addresses_that_are_none_are_refused(address, words):
    with pytest.raises(ArgumentError, match=words) as caught:
        mailbox_at(address)
    assert "pw" not in str(caught.value)


def test_a_mailbox_is_chosen_by_its_address(tmp_path, anything_signed):
    assert isinstance(mailbox_at(tmp_path), FolderMailbox) and isinstance(mailbox_at(str(tmp_path)), FolderMailbox)
    with pytest.raises(ArgumentError, match="this one is a folder"):
        mailbox_at(tmp_path, trust_network=True)
    with served(MailboxStore()) as address:
        box = mailbox_at(address, make=True)
        assert isinstance(box, WebMailbox) and box.name.startswith(f"{address}/")
        with pytest.raises(RoomError, match="has no such room; check the address"):
            mailbox_at(f"{address}/{'0' * 32}")
        with pytest.raises(ArgumentError, match="give the mailbox alone"):
            mailbox_at(box.name, make=True)


def test_nobody_at_an_address_and_another_server_are_said(monkeypatch):
    monkeypatch.setattr(http_mailbox, "_PATIENCE", 0.2)
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))  # nobody else gets this port, and nobody listens there
        address = f"http://127.0.0.1:{door.getsockname()[1]}/{'0' * 32}"
        with pytest.raises(RoomError, match="refused"):
            WebMailbox(address)
    with served(MailboxStore()) as address:
        monkeypatch.setattr(http_mailbox.WebMailbox, "_ask", lambda *_: (200, b"<html>"))
        with pytest.raises(RoomError, match="is no mailbox for rooms; check the address"):
            WebMailbox(f"{address}/{'0' * 32}")


def test_a_request_whose_answer_is_lost_is_repeated_and_the_message_stays_ours(anything_signed, monkeypatch):
    with served(MailboxStore()) as address:
        box = WebMailbox(address, make=True)
        ask, lost = WebMailbox._ask, []

        def lossy(self, *args):
            answer = ask(self, *args)
            if args[0] == "PUT" and len(lost) < 3:
                lost.append(args)
                raise ConnectionResetError("lost")
            return answer

        monkeypatch.setattr(WebMailbox, "_ask", lossy)
        assert box.put("0000/keys/a", b"1") and len(lost) == 3
        lost.clear()
        assert not box.put("0000/keys/a", b"2")


def test_limits_of_a_served_mailbox(anything_signed):
    clock = [1000.0]
    limits = Limits(rooms=2, hours=1, messages=3, room_bytes=100, message_bytes=60)
    shelves = MailboxStore(limits, clock=lambda: clock[0])
    rooms = ["0" * 32, "1" * 32, "2" * 32]
    shelves.open(rooms[0])
    with pytest.raises(Refused, match="there is such a room already"):
        shelves.open(rooms[0])
    shelves.open(rooms[1])
    with pytest.raises(Refused, match="has 2 rooms, and takes no more"):
        shelves.open(rooms[2])
    put = lambda name, size, sent=None, room=rooms[0]: shelves.put(room, name, bytes(size), sent or clock[0])  # noqa: E731
    with pytest.raises(RoomError, match="has 61 bytes"):
        put("a", 61)
    assert put("a", 60)
    with pytest.raises(Refused, match="this room is full: 1 messages, 60 bytes"):
        put("b", 41)
    assert put("b", 1) and put("c", 1)
    with pytest.raises(Refused, match="this room is full: 3 messages"):
        put("d", 0)
    for sent in (1.0, 1000.0 + 700, float("nan")):
        with pytest.raises(Refused, match="set the clock"):
            put("d", 0, sent, rooms[1])
    with pytest.raises(Refused, match="32 hexadecimal digits"):
        put("a", 1, room="../etc")
    clock[0] += 3601
    with pytest.raises(Refused, match="older than 1 hours, and takes no messages"):
        put("a", 1, room=rooms[1])
    assert lying(shelves, rooms[0], "a") == bytes(60)  # it can still be read
    clock[0] += 3601
    shelves.open(rooms[2])  # and those before are forgotten
    with pytest.raises(Refused, match="no such room"):
        lying(shelves, rooms[0], "a")


def test_a_message_that_is_too_large_is_refused_before_it_is_read(anything_signed):
    with served(MailboxStore(Limits(message_bytes=1000))) as address:
        box = WebMailbox(address, make=True)
        with pytest.raises(RoomError, match="1,000 bytes"):
            box.put("0000/masked/a", bytes(5000))
        assert box.put("0000/masked/a", bytes(1000))  # on a new connection, if it must be


def test_rooms_are_opened_by_whoever_has_the_token():
    with served(MailboxStore(token="an open sesame")) as address:
        for token in ("", "another"):
            with pytest.raises(RoomError, match="--token"):
                WebMailbox(address, make=True, token=token)
        box = mailbox_at(address, make=True, token="an open sesame")
        assert WebMailbox(box.name).names("") == []  # which takes none
    with pytest.raises(ArgumentError, match="a token has letters"):
        WebMailbox(address, make=True, token="a\nb")


def test_all_rooms_together_are_bounded_and_nothing_large_comes_before_anybody_is_known(anything_signed):
    clock = [1000.0]
    shelves = MailboxStore(Limits(all_bytes=3 * 2**20, rooms=3), clock=lambda: clock[0])
    rooms = [f"{k:032x}" for k in range(4)]
    put = lambda room, name, size: shelves.put(room, name, bytes(size), clock[0])  # noqa: E731
    shelves.open(rooms[0])
    for name, size in (("agreement", 2**20), ("0000/hello/a", 2**17), ("0000/ready/a", 2**17)):
        with pytest.raises(RoomError, match=f"the message {name} has {size + 1:,} bytes"):
            put(rooms[0], name, size + 1)
    for room in rooms[:3]:
        if room != rooms[0]:
            shelves.open(room)
        put(room, "agreement", 2**20)
    with pytest.raises(Refused, match="this mailbox is full: 3,145,728 bytes in 3 rooms"):
        put(rooms[0], "0001/keys/a", 1)
    with pytest.raises(Refused, match="takes no more today"):
        shelves.open(rooms[3])
    shelves._shelves[rooms[1]].keys["north"] = bytes(32)  # somebody has greeted there
    clock[0] += 3601
    shelves.open(rooms[3])
    assert lying(shelves, rooms[1], "agreement") == bytes(2**20) and put(rooms[3], "agreement", 9)
    with pytest.raises(Refused, match="no such room"):
        lying(shelves, rooms[0], "agreement")


def test_what_no_room_waits_for_is_not_read(monkeypatch):
    shelves = MailboxStore()
    with served(shelves) as address:
        box = WebMailbox(address, make=True)
        missing = WebMailbox(box.name)
        missing._room = "0" * 32
        with monkeypatch.context() as patch:
            patch.setattr(web_server_module, "_receive_request_body", lambda *_: pytest.fail("it was read"))
            with pytest.raises(RoomError, match="no such room"):
                missing.put("0001/keys/a", bytes(10))


def test_a_server_that_was_started_again_has_its_rooms_in_a_folder(tmp_path, anything_signed):
    with served(MailboxStore(folder=tmp_path)) as address:
        box = WebMailbox(address, make=True)
        assert box.put("agreement", b"{}") and box.put("hello/a", b"1")
    room = box.name.rpartition("/")[2]
    (tmp_path / "notes.txt").write_text("not a room")
    again = MailboxStore(folder=tmp_path)
    assert lying(again, room, "agreement") == b"{}"
    news = again.news(room, "another epoch", 2)
    assert sorted(name for name, _, _ in news.messages) == ["agreement", "hello/a"]


def test_news_come_in_pieces_and_a_large_message_by_name(anything_signed, monkeypatch):
    monkeypatch.setattr(shelves_module, "INLINE", 1000)
    monkeypatch.setattr(shelves_module, "_ANSWER", 3000)
    monkeypatch.setattr(http_mailbox, "_KEPT", 5000)
    with served(MailboxStore()) as address:
        one = WebMailbox(address, make=True)
        two = WebMailbox(one.name)
        sizes = {f"{k:04}/masked/a": 900 + 50 * (k % 5) for k in range(20)}
        for name, size in sizes.items():
            assert one.put(name, os.urandom(size))
        assert two.names("") == sorted(sizes)
        for name, size in sizes.items():  # forgotten contents are fetched again
            assert two.get(name) == one.get(name) and len(two.get(name)) == size
        assert two._kept <= 5000


# ---- who sent a message


def a_room(shelves, *names):
    """A room on shelves, the agreement in it, and holders who have greeted there."""
    room = "a" * 32
    shelves.open(room)
    assert shelves.put(room, "agreement", b"{}", time.time())
    holders = {name: Identity.create(name) for name in names}
    for name, holder in holders.items():
        assert shelves.put(room, f"0000/hello/{name}", greeting(holder), time.time())
    return room, holders


def greeting(holder, name=None):
    return sign_message(holder, bytes(32), 0, "hello", {"public_key": holder.party.public_key.hex()})


def test_a_served_mailbox_takes_what_its_sender_signed_and_nothing_else():
    shelves = MailboxStore()
    room, holders = a_room(shelves, "north", "south")
    north, south, stranger = holders["north"], holders["south"], Identity.create("east")
    message = lambda who, stage=1, kind="keys": sign_message(who, bytes(32), stage, kind, {"k": 1}, {"a": np.arange(5)})  # noqa: E731
    put = lambda name, content: shelves.put(room, name, content, time.time())  # noqa: E731
    good, flip = message(north), bytearray(message(north))
    flip[-3] ^= 1
    refused = [
        ("0001/keys/north", bytes(flip), "not signed by north|damaged"),
        ("0001/keys/north", message(south), "lies a message of south"),
        ("0001/keys/north", message(Identity.create("north")), "is not signed by north"),
        ("0001/keys/east", message(stranger), "no party"),
        ("0002/keys/north", good, "is another one"),
        ("0001/shares/north", good, "is another one"),
        ("0001/list/anybody", message(stranger, 1, "list"), "no party"),
        ("0001/keys/north", b"", "is not signed, or damaged"),
        ("0001/keys/north", b"[" * 5000, "is not signed, or damaged"),
        ("0001/keys/north", b"PK\x03\x04" + bytes(100), "is not signed, or damaged"),
        ("0001/keys/north", good.split(b"\n")[0], "is damaged"),
        ("notes", good, "is no name of a message in a room"),
        ("0000/hello/west", greeting(stranger), "lies a message of east"),
        ("0000/hello/east", greeting(stranger).replace(b"public_key", b"public-key"), "not signed, or damaged"),
        ("0000/hello/east", message(stranger, 0, "hello"), "not signed, or damaged"),
    ]
    for name, content, words in refused:
        with pytest.raises(Refused, match=words) as caught:
            put(name, content)
        assert caught.value.status == 403 and "\n" not in str(caught.value)
        assert lying(shelves, room, name) is None
    assert put("0001/keys/north", good) and put("0001/list/anybody", message(south, 1, "list"))
    assert not put("0000/hello/north", greeting(Identity.create("north")))  # a seat is taken once
    with pytest.raises(Refused, match="not signed by north"):
        put("0001/shares/north", message(Identity.create("north"), 1, "shares"))


def test_a_refusal_reaches_the_holder_text(tmp_path):
    with served(MailboxStore()) as address:
        box = WebMailbox(address, make=True)
        with pytest.raises(RoomError, match=r"refuses the message 0001/keys/a: the message 0001/keys/a is not signed"):
            box.put("0001/keys/a", b"x")
        assert box.names("") == []


def test_after_a_new_start_keys_are_known_from_the_folder(tmp_path):
    shelves = MailboxStore(folder=tmp_path)
    room, holders = a_room(shelves, "north", "south")
    (tmp_path / room / "0001" / "keys").mkdir(parents=True)
    (tmp_path / room / "0001" / "keys" / "planted").write_bytes(b"planted by whoever can write in the folder")
    again = MailboxStore(folder=tmp_path)
    assert again.put(room, "0001/keys/north", sign_message(holders["north"], bytes(32), 1, "keys", {}), time.time())
    with pytest.raises(Refused, match="not signed by south"):
        again.put(
            room, "0001/keys/south", sign_message(Identity.create("south"), bytes(32), 1, "keys", {}), time.time()
        )


def test_nothing_that_is_sent_is_logged(capfd, caplog):
    with caplog.at_level("DEBUG"), served(MailboxStore()) as address:
        box = WebMailbox(address, make=True)
        north = Identity.create("north")
        box.put("0000/hello/north", greeting(north))
        with pytest.raises(RoomError):
            box.put("0001/keys/north", b"nonsense")
    said = capfd.readouterr()
    assert "north" not in said.out + said.err + caplog.text and box.name.rpartition("/")[2] not in caplog.text


def test_many_holders_at_once():
    """A load test on the loopback: 20 holders, signed messages of 8 kB, and each reads what all have sent."""
    holders = [Identity.create(f"holder-{k}") for k in range(20)]
    rounds, wrong = 2, []
    numbers = np.arange(1000, dtype=np.int64)
    with served(MailboxStore()) as address:
        room = WebMailbox(address, make=True).name

        def take_part(holder):
            name, box = holder.party.name, WebMailbox(room)
            try:
                assert box.put(f"0000/hello/{name}", greeting(holder))
                for stage in range(1, rounds + 1):
                    message = sign_message(holder, bytes(32), stage, "masked", {}, {"values": numbers})
                    assert box.put(f"{stage:04}/masked/{name}", message)
                    eventually(lambda stage=stage: len(box.names(f"{stage:04}/masked/")), 20)
                    all_of_them = [box.get(f"{stage:04}/masked/{other.party.name}") for other in holders]
                    assert all(content is not None and len(content) > 8000 for content in all_of_them)
            except BaseException as error:
                wrong.append(error)
            finally:
                box.close()

        threads = [threading.Thread(target=take_part, args=(holder,)) for holder in holders]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == [] and time.monotonic() - start < 60
