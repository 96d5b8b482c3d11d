"""Signed messages of a room, and the identities that sign them: what is not right is refused, by the holder's name."""

import io
import json
import os
import pickle
import stat
import tracemalloc
import zipfile

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from radoboost.errors import OutputError, RoomError
from radoboost.holder.rooms import signed_messages
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.signed_messages import (
    Identity,
    identity_path,
    load_or_create_identity,
    message_place,
    sign_message,
    verify_message,
)

AGREEMENT = bytes(range(32))


@pytest.fixture
def holders():
    return {name: Identity.create(name) for name in ("east", "north", "west")}


@pytest.fixture
def seats(holders):
    return Roster(AGREEMENT, tuple(holder.party for holder in holders.values()), 1)


def signed(holder, rest, **changes):
    """A message whose signature is right, whatever its rest is."""
    entry = {
        "agreement": AGREEMENT.hex(),
        "format": signed_messages.FORMAT,
        "kind": "masked",
        "sender": "north",
        "stage": 3,
    }
    entry |= changes
    signature = holder.sign(signed_messages._bytes_to_sign(entry, rest)).hex()
    return signed_messages._message_json_line({**entry, "signature": signature}) + rest


def npz(compression=zipfile.ZIP_STORED, **members):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return target.getvalue()


def npy(array=None, header=None):
    target = io.BytesIO()
    if header is None:
        np.save(target, array, allow_pickle=True)
    else:
        np.lib.format.write_array_header_1_0(target, header)
    return target.getvalue()


arrays = st.dictionaries(
    st.sampled_from(["numbers", "boxes", "a"]),
    st.tuples(st.sampled_from(["u8", "i8", "f8", "u1"]), st.lists(st.integers(0, 4), min_size=1, max_size=3)).map(
        lambda form: np.arange(np.prod(form[1]), dtype=form[0]).reshape(form[1])
    ),
)
bodies = st.dictionaries(
    st.text(), st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
)


@given(bodies.filter(lambda body: all(abs(v) != np.inf for v in body.values() if isinstance(v, float))), arrays)
def test_what_is_written_is_read(body, sent):
    holder = Identity.create("north")
    others = [Identity.create(name).party for name in ("east", "west")]
    seats = Roster(AGREEMENT, (others[0], holder.party, others[1]), 1)
    message = verify_message(sign_message(holder, AGREEMENT, 3, "masked", body, sent), "0003/masked/north", seats)
    assert (message.body, message.sender, message.stage, message.kind) == (body, "north", 3, "masked")
    assert message.arrays.keys() == sent.keys()
    for name, array in sent.items():
        assert message.arrays[name].dtype == array.dtype and np.array_equal(message.arrays[name], array)


def test_arrays_are_an_npz_file_that_numpy_reads_without_pickle(holders):
    content = sign_message(holders["north"], AGREEMENT, 3, "masked", {}, {"numbers": np.arange(5, dtype=np.uint64)})
    first, body, packed = content.split(b"\n", 2)
    assert json.loads(first)["sender"] == "north" and json.loads(body) == {}
    with np.load(io.BytesIO(packed), allow_pickle=False) as file:
        assert file["numbers"].tolist() == [0, 1, 2, 3, 4]
    assert content == sign_message(
        holders["north"], AGREEMENT, 3, "masked", {}, {"numbers": np.arange(5, dtype=np.uint64)}
    )
    with pytest.raises(ValueError, match="Object arrays"):
        sign_message(holders["north"], AGREEMENT, 3, "masked", {}, {"numbers": np.array([{}])})
    with pytest.raises(ValueError, match="JSON compliant"):
        sign_message(holders["north"], AGREEMENT, 3, "masked", {"a": float("nan")})


def test_every_altered_bit_is_found(holders, seats):
    content = sign_message(
        holders["north"], AGREEMENT, 3, "masked", {"after": "ab"}, {"a": np.arange(2, dtype=np.uint64)}
    )
    for place in range(0, 8 * len(content), 3):  # every byte of it, by two or three of its bits
        altered = bytearray(content)
        altered[place // 8] ^= 1 << place % 8
        with pytest.raises(RoomError, match="north"):
            verify_message(bytes(altered), "0003/masked/north", seats)
    for end in range(len(content)):
        with pytest.raises(RoomError, match="north"):
            verify_message(content[:end], "0003/masked/north", seats)
    with pytest.raises(RoomError, match="not signed by north"):
        verify_message(content + b"\n", "0003/masked/north", seats)


def test_a_message_in_another_place_is_refused(holders, seats):
    content = sign_message(holders["north"], AGREEMENT, 3, "masked", {})
    cases = {
        "0003/masked/west": "in the place of west .* lies a message of north",
        "0004/masked/north": "the message of north .* is another one: 'masked' of stage 3",
        "0003/unmask/north": "the message of north .* is another one: 'masked' of stage 3",
    }
    for place, words in cases.items():
        with pytest.raises(RoomError, match=words):
            verify_message(content, place, seats)
    other = Roster(bytes(32), seats.parties, 1)
    with pytest.raises(RoomError, match=r"the message of north .* another agreement"):
        verify_message(content, "0003/masked/north", other)
    assert (
        verify_message(
            sign_message(holders["west"], AGREEMENT, 3, "masked", {}), message_place(3, "masked"), seats
        ).sender
        == "west"
    )


def test_strangers_and_impostors_are_refused(seats):
    impostor = Identity.create("north")
    with pytest.raises(RoomError, match="not signed by north: it was altered, or is by somebody else"):
        verify_message(sign_message(impostor, AGREEMENT, 3, "masked", {}), "0003/masked/north", seats)
    stranger = Identity.create("zorro")
    for place in ("0003/masked/zorro", "0003/masked/anybody"):
        with pytest.raises(RoomError, match="'zorro', who is no party"):
            verify_message(sign_message(stranger, AGREEMENT, 3, "masked", {}), place, seats)


@pytest.mark.parametrize(
    "rest",
    [
        b"{}",
        b"[]\n",
        b'{"a": 1' + b"0" * 10_000 + b"}\n",
        b'{"a":' * 100_000 + b"\n",
        b"\xff\xfe\n",
        b"{}\nPK\x03\x04",
        b"{}\n" + npz(a=b"no array"),
        b"{}\n" + npz(a=npy(np.arange(3))[:-1]),
        b"{}\n" + npz(a=npy(np.array([{}, 1], dtype=object))),
        b"{}\n" + npz(a=npy(np.array(["text"]))),
        b"{}\n" + npz(a=npy(np.asfortranarray(np.ones((2, 2))))),
        b"{}\n" + npz(a=npy(header={"descr": "<u8", "fortran_order": False, "shape": (1 << 60,)})),
        b"{}\n" + npz(a=npy(header={"descr": "<u8", "fortran_order": False, "shape": (-1, -1)}) + bytes(8)),
        b"{}\n" + npz(a=npy(header={"descr": "<u8", "fortran_order": False, "shape": (1 << 40, 0)}))[:-9],
        b"{}\n" + npz(zipfile.ZIP_DEFLATED, a=npy(np.zeros(1 << 20))),
        b"{}\n" + npz(zipfile.ZIP_DEFLATED, a=npy(np.random.default_rng(0).integers(0, 256, 500, dtype=np.uint8))),
        b"{}\n" + npz(zipfile.ZIP_BZIP2, a=npy(np.zeros(1 << 20))),
        b"{}\n" + npz(**{f"a{k}": npy(np.arange(1)) for k in range(65)}),
        *(
            b"{}\n" + npz(a=b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
            for header in (
                b"{'descr': (",
                b"'''abc",
                b"-" * 9000 + b"1",
                b"[" * 9000,
                b"{'descr': 5, 'fortran_order': False, 'shape': (0,), }\n",
                b"{'descr': '<f8', 'fortran_order': False, 'shape': (True,), }\n",
                b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904, 8), }\n",
                b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"0, " * 70 + b"0), }\n",
            )
        ),
    ],
)
def test_what_a_party_signs_is_not_believed_either(holders, seats, rest):
    """A right signature, and a body or arrays that are not what they say; nothing large is made of them."""
    content = signed(holders["north"], rest)
    tracemalloc.start()
    try:
        with pytest.raises(RoomError, match=r"the message of north .* by north cannot be read"):
            verify_message(content, "0003/masked/north", seats)
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()


def test_members_that_share_their_bytes_are_refused(holders, seats):
    """A zip whose directory names one stored array many times: little that would become much."""
    packed = bytearray(npz(a=npy(np.zeros(1000))))
    end = packed.rindex(b"PK\x05\x06")
    start = packed.rindex(b"PK\x01\x02", 0, end)
    entry, n = bytes(packed[start:end]), 40
    tail = bytearray(packed[end:])
    tail[8:10] = tail[10:12] = n.to_bytes(2, "little")
    tail[12:16] = (n * len(entry)).to_bytes(4, "little")
    bomb = bytes(packed[:start]) + entry * n + bytes(tail)
    assert len(zipfile.ZipFile(io.BytesIO(bomb)).infolist()) == n
    with pytest.raises(RoomError, match="north cannot be read"):
        verify_message(signed(holders["north"], b"{}\n" + bomb), "0003/masked/north", seats)


def test_what_is_too_large_is_refused_before_it_is_read(holders, seats, monkeypatch):
    content = sign_message(holders["north"], AGREEMENT, 3, "masked", {}, {"a": np.zeros(1000)})
    monkeypatch.setattr(signed_messages, "_first_line_of_message", lambda content: pytest.fail("it was read"))
    with pytest.raises(RoomError, match=r"the message of north .* has \S+ bytes, and at most 8,000 are expected"):
        verify_message(content, "0003/masked/north", seats, 8000)


@pytest.mark.parametrize(
    "change",
    [{"stage": -1}, {"stage": True}, {"stage": 10**400}, {"format": "radoboost room 2"}, {"x": 1}, {"kind": 3},
     {"sender": "\x1b[2Jnorth"}],
)  # fmt: skip
def test_a_first_line_of_another_form_is_refused(holders, seats, change):
    with pytest.raises(RoomError, match=r"the message of north .* is damaged, or none of a room"):
        verify_message(signed(holders["north"], b"{}\n", **change), "0003/masked/north", seats)


def test_a_message_is_written_in_one_way_only(holders, seats):
    """Another spelling of the same first line, with the same signature, is another message; nobody can make one."""
    content = sign_message(holders["north"], AGREEMENT, 3, "masked", {})
    first, rest = content.split(b"\n", 1)
    respelled = json.dumps(json.loads(first)).encode() + b"\n" + rest
    with pytest.raises(RoomError, match="damaged"):
        verify_message(respelled, "0003/masked/north", seats)
    upper = json.loads(first)
    upper["signature"] = upper["signature"].upper()
    with pytest.raises(RoomError, match="north"):
        verify_message(signed_messages._message_json_line(upper) + rest, "0003/masked/north", seats)


def test_an_identity_is_kept_where_nobody_else_reads_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = identity_path()
    assert place == tmp_path / "config" / "radoboost" / "identity.pem"
    with pytest.raises(RoomError, match=f"no identity at {place}: make one with rado room identity"):
        Identity.load("north")
    assert not place.parent.exists()
    north, new = load_or_create_identity("north")
    assert new and stat.S_IMODE(place.stat().st_mode) == 0o600 and stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert os.listdir(place.parent) == ["identity.pem"]
    assert place.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")
    again, new = load_or_create_identity("north")
    assert not new and again.party == north.party
    with pytest.raises(OutputError, match="already there"):
        Identity.create("north").save()
    assert Identity.load("north").party == north.party and os.listdir(place.parent) == ["identity.pem"]
    for mode in (0o640, 0o604, 0o620):
        place.chmod(mode)
        with pytest.raises(RoomError, match=f"others can read .* chmod 600 {place}"):
            Identity.load("north")


def test_files_that_are_no_identity_are_refused(tmp_path):
    place = tmp_path / "identity.pem"
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content in (b"", b"a diary", other, Identity.create("a").save(tmp_path / "a").read_bytes()[:60]):
        place.write_bytes(content)
        place.chmod(0o600)
        with pytest.raises(RoomError, match="is no identity"):
            Identity.load("north", place)
    with pytest.raises(RoomError, match="cannot read the identity"):
        Identity.load("north", tmp_path)
    with pytest.raises(OutputError, match="cannot write the identity"):
        Identity.create("north").save(place / "below" / "a file")


def test_a_failure_leaves_no_half_of_an_identity(tmp_path, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(signed_messages.os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        Identity.create("north").save(tmp_path / "identity.pem")
    assert os.listdir(tmp_path) == []


def test_an_identity_keeps_its_key_to_itself():
    north = Identity.create("north")
    secret = north._key.private_bytes_raw()
    assert repr(north) == f"Identity('north', '{north.party.fingerprint}')"
    assert secret.hex() not in repr(north) + repr(vars(type(north)))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(north)
    north.begin(AGREEMENT, 3)
    north.begin(AGREEMENT, 4)
    with pytest.raises(RoomError, match="north has already been in sum 3"):
        north.begin(AGREEMENT, 3)
