"""What colluders and a lying mailbox get of a secure sum: one total, and nothing of a single holder."""

import functools
import hashlib
import math
import pickle

import numpy as np
import pytest
from scipy.stats import chi2

from radoboost.errors import RoomError
from radoboost.holder.keystream import Key
from radoboost.holder.rooms import masking, sum_secrets
from radoboost.holder.rooms.roster import Party, Roster
from radoboost.holder.rooms.secure_aggregation import CONFIRM, MASKED, ROUNDS, UNMASK, SecureSum, SecureTotal
from radoboost.holder.rooms.signed_messages import message_place, verify_message
from radoboost.holder.rooms.sum_secrets import PublicKeys, SumSecrets
from rooms import Room, killed_after, played


class Collusion:
    """The first holders collude with the mailbox, and make the lists: each group of the others is shown its own.

    `left_out` says whom the last list of each group leaves out. Confirmations and answers are shown within a group;
    those of colluders go to all groups, each about the list of that group.
    """

    def __init__(self, room, monkeypatch, colluders, groups, left_out):
        self.room, self.colluders, self.groups, self.left_out = room, colluders, groups, left_out
        self.kept = {}  # the shares that colluders hold, of both kinds
        keep = SumSecrets._keep

        def noted(secrets, sender, share):
            if secrets._name in colluders:
                self.kept[secrets._name, sender] = (share[: masking.SHARE_BYTES], share[masking.SHARE_BYTES :])
            keep(secrets, sender, share)

        monkeypatch.setattr(SumSecrets, "_keep", noted)
        self.lists, self.signed = {}, {}
        for name, view in room.views.items():
            view.seen.append(functools.partial(self.seen, groups.get(name, 0)))

    def seen(self, group, place, content):
        _, kind, holder = place.split("/")
        if kind == f"{MASKED}-list":
            return self.list_of(content, group)
        if kind not in (CONFIRM, UNMASK) or self.groups.get(holder, 0) == group:
            return content
        if holder not in self.colluders or group not in self.lists:
            return None
        if (place, group) not in self.signed:
            after = hashlib.sha256(self.lists[group]).hexdigest()
            arrays = verify_message(content, place, self.room.seats).arrays
            self.signed[place, group] = self.room.signed(holder, kind, {"after": after}, arrays)
        return self.signed[place, group]

    def list_of(self, content, group):
        if group not in self.lists:
            message = verify_message(content, message_place(self.room.stage, f"{MASKED}-list"), self.room.seats)
            present = {name: digest for name, digest in message.body["in"].items() if name not in self.left_out[group]}
            body = {**message.body, "in": present}
            self.lists[group] = self.room.signed(self.colluders[0], f"{MASKED}-list", body)
        return self.lists[group]

    def shares(self, victim, kind):
        """The shares of a holder's seed (0) or mask seed (1) that colluders have, or were given."""
        numbers = {name: k for k, name in enumerate(self.room.names, 1)}
        found = {numbers[name]: shares[kind] for (name, sender), shares in self.kept.items() if sender == victim}
        for name, group in self.groups.items():
            place = message_place(self.room.stage, UNMASK, name)
            content = self.room.box.get(place)
            if content is not None and (victim in self.left_out[group]) == bool(kind):
                answer = verify_message(content, place, self.room.seats).arrays["shares"]
                found[numbers[name]] = answer[self.room.names.index(victim)].tobytes()
        return found

    def secret(self, victim, kind):
        """A seed or a mask seed, if there are shares enough."""
        threshold = self.room.seats.threshold
        shares = dict(list(self.shares(victim, kind).items())[:threshold])
        return masking.combine_secret_shares(shares) if len(shares) == threshold else None

    def opened(self, victims):
        """The total of some holders' numbers, from all that is known."""
        room, session = self.room, masking.session_of_sum(self.room.seats.agreement, self.room.stage)
        keys, total = {}, np.zeros(len(room.numbers[victims[0]]), np.uint64)
        for name in room.names:
            place = message_place(room.stage, "keys", name)
            keys[name] = PublicKeys.from_body(verify_message(room.box.get(place), place, room.seats).body)
        for name in victims:
            place = message_place(room.stage, MASKED, name)
            total += verify_message(room.box.get(place), place, room.seats).arrays["numbers"]
            total -= masking.masking_pad(
                masking.derive_masking_key(self.secret(name, 0), session, "self", name), len(total)
            )
            for other in set(room.names) - set(victims):
                known = self.mask_key(other)
                own, key = (name, self.mask_key(name)) if known is None else (other, known)
                partner = other if known is None else name
                pad = sum_secrets._pad_of_holder_pair(room.seats, room.stage, own, key, partner, keys, len(total))
                total = total - pad if name < other else total + pad
        return total.view(np.int64).tolist()

    def mask_key(self, name):
        if name in self.colluders:
            return self.mask_keys[name]
        seed, session = self.secret(name, 1), masking.session_of_sum(self.room.seats.agreement, self.room.stage)
        return None if seed is None else masking.derive_masking_key(seed, session, "mask", name)


def divided(rng, monkeypatch, n_parties, tolerate, n_colluders, n_second):
    """Two lists, with and without one honest holder, each shown to some of the honest."""
    room = Room(rng, n_parties, tolerate)
    colluders, honest = room.names[:n_colluders], room.names[n_colluders:]
    groups = {name: int(k >= len(honest) - n_second) for k, name in enumerate(honest)}
    collusion = Collusion(room, monkeypatch, colluders, groups, {0: (), 1: (honest[0],)})
    sums = room.sums()
    collusion.mask_keys = {name: sums[name]._own_secrets._mask_key for name in colluders}
    return collusion, played(sums, rng, ticks=60), honest[0]


@pytest.mark.parametrize("n_parties", [4, 5, 6, pytest.param(7, marks=pytest.mark.slow)])
def test_two_lists_never_give_both_secrets_of_a_holder(rng, n_parties):
    """All numbers of colluders below 2T - K, and all ways to divide the honest (B4, B6)."""
    unmasked = 0
    rooms = [Room(rng, n_parties, tolerate) for tolerate in range(1, (n_parties + 1) // 2)]
    assert all(2 * room.seats.threshold - n_parties > room.seats.tolerate for room in rooms)
    for threshold, tolerate in {room.seats.threshold: room.seats.tolerate for room in rooms}.items():
        least = 2 * threshold - n_parties
        for n_colluders in range(1, min(least, n_parties - 1)):
            for n_second in range(n_parties - n_colluders):
                with pytest.MonkeyPatch.context() as patch:
                    collusion, outcomes, victim = divided(rng, patch, n_parties, tolerate, n_colluders, n_second)
                assert min(len(collusion.shares(victim, kind)) for kind in (0, 1)) < threshold
                totals = {outcome.present for outcome in outcomes.values() if isinstance(outcome, SecureTotal)}
                assert len(totals) <= 1
                unmasked += len(totals)
    assert unmasked > 0


def test_a_lower_threshold_would_open_one_holders_numbers(rng, monkeypatch):
    """The attack of the test above works where 2T - K is no more than the number of colluders."""
    monkeypatch.setattr(Roster, "threshold", property(lambda seats: len(seats.parties) // 2 + 1))
    collusion, _, victim = divided(rng, monkeypatch, 5, 2, 2, 1)
    assert collusion.secret(victim, 0) is not None and collusion.secret(victim, 1) is not None
    assert collusion.opened([victim]) == collusion.room.numbers[victim].tolist()


def three_lists(rng, monkeypatch):
    """Ten holders, one colluder; each list leaves out two of three honest holders, who see one with themselves."""
    room = Room(rng, 10, 3)
    assert room.seats.threshold == 7 and room.seats.most_lost == 3
    groups = {name: (k - 1) % 3 for k, name in enumerate(room.names) if k}
    trio = room.names[1:4]
    left_out = {group: tuple(name for name in trio if groups[name] != group) for group in range(3)}
    collusion = Collusion(room, monkeypatch, room.names[:1], groups, left_out)
    sums = room.sums()
    collusion.mask_keys = {"h00": sums["h00"]._own_secrets._mask_key}
    return collusion, played(sums, rng, ticks=60), [name for name in room.names[1:] if name not in trio]


def test_many_lists_open_nothing_because_they_are_confirmed(rng, monkeypatch):
    collusion, outcomes, _ = three_lists(rng, monkeypatch)
    assert all(isinstance(outcome, RoomError) for outcome in outcomes.values())
    assert not collusion.room.box.names("0003/unmask/")


def test_without_confirmations_many_lists_open_a_total_of_fewer(rng, monkeypatch):
    """What B4 says would happen: six honest holders' total, where everybody saw a list of eight."""
    answered = SecureSum._answered

    def at_once(own, now):
        if own._round != CONFIRM:
            return answered(own, now)
        own._begin(UNMASK, {}, {"shares": own._own_secrets.answer(own._members[MASKED], own._members[UNMASK])}, now)
        return True

    monkeypatch.setattr(SecureSum, "_answered", at_once)
    collusion, _, six = three_lists(rng, monkeypatch)
    assert len(six) == 6 and all(len(collusion.left_out[group]) == 2 for group in range(3))
    assert collusion.opened(six) == collusion.room.total(six)


def test_masked_numbers_look_uniform(rng):
    """The same numbers, masked many times: bits by Hoeffding's bound, bytes by chi squared; false alarms below 2e-7.

    Numbers that are not masked, and pads of 32 bits, are found by the same test.
    """
    seats = Roster(bytes(32), tuple(Party(name, name.encode() * 32) for name in "abc"), 1)
    numbers = np.arange(64, dtype=np.uint64)

    def masked():
        holders = {name: SumSecrets(seats, 0, name) for name in "abc"}
        keys = {name: PublicKeys.from_body(holder.keys()) for name, holder in holders.items()}
        return holders["b"].masked(numbers, "abc", keys)

    def uniform(rows):
        bits = np.unpackbits(rows.view(np.uint8), axis=1)
        ones, count = bits.reshape(len(rows), -1, 64).sum(axis=(0, 1)), bits.size / 64
        allowed = math.sqrt(count * math.log(2 * 64 / 1e-7) / 2)
        counts = np.bincount(rows.view(np.uint8).ravel(), minlength=256)
        expected = counts.sum() / 256
        return bool(
            np.abs(ones - count / 2).max() < allowed
            and ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-7, 255)
            and len(np.unique(rows)) == rows.size  # 12,800 of 2**64: a false alarm of 1e-11
        )

    rows = np.array([masked() for _ in range(200)])
    assert uniform(rows)
    assert not uniform(np.array([numbers] * 200))
    assert not uniform(rows & np.uint64(2**32 - 1))
    assert not uniform(rows | np.uint64(1))


def test_one_pad_less_leaves_numbers_hidden(rng):
    """A holder's message is hidden by its own pad alone, and by any one shared pad alone; each is of its own."""
    room = Room(rng, 4, length=50)
    secrets = {name: SumSecrets(room.seats, 3, name) for name in room.names}
    keys = {name: PublicKeys.from_body(holder.keys()) for name, holder in secrets.items()}
    zeros = np.zeros(50, np.uint64)
    alone = secrets["h00"].masked(zeros, ["h00"], keys)
    pairs = [secrets["h00"].masked(zeros, ["h00", other], keys) - alone for other in room.names[1:]]
    assert all(np.unique(pad).size == 50 for pad in [alone, *pairs])
    assert len({pad.tobytes() for pad in [alone, *pairs]}) == 4
    for other, pad in zip(room.names[1:], pairs, strict=True):
        back = secrets[other].masked(zeros, ["h00", other], keys) - secrets[other].masked(zeros, [other], keys)
        assert not (pad + back).any()


def test_pads_and_boxes_are_bound_to_agreement_stage_and_holders(rng, monkeypatch):
    """B2: the same secrets give other pads in another sum, and a box opens for nobody else, nowhere else."""
    parties = tuple(Party(name, name.encode() * 32) for name in "abc")
    zeros, fixed = np.zeros(4, np.uint64), iter(np.arange(1, 1000))
    pads, boxes = set(), set()
    monkeypatch.setattr(masking, "new_masking_key", lambda: Key(bytes(24) + int(next(fixed)).to_bytes(8)))
    for agreement, stage in ((bytes(32), 0), (bytes(32), 1), (bytes(31) + b"1", 0)):
        seats, fixed = Roster(agreement, parties, 1), iter(np.arange(1, 1000))
        holders = {name: SumSecrets(seats, stage, name) for name in "abc"}
        keys = {name: PublicKeys.from_body(holder.keys()) for name, holder in holders.items()}
        pads |= {holders["a"].masked(zeros, members, keys).tobytes() for members in ("a", "ab", "ac", "abc")}
        boxes |= {(stage, agreement, *holders["a"]._box(*way, keys[way[1]])) for way in (("a", "b"), ("a", "c"))}
        boxes |= {(stage, agreement, *holders["a"]._box("b", "a", keys["b"]))}
        assert holders["a"]._box("a", "b", keys["b"]) == holders["b"]._box("a", "b", keys["a"])
    assert len(pads) == 12
    assert len({key for _, _, key, _ in boxes}) == len({about for _, _, _, about in boxes}) == 9


def test_no_secret_is_in_a_message_a_word_or_a_pickle(rng, monkeypatch):
    """Seeds, private keys, shares but for those that answers give, and numbers that are not masked."""
    drawn, kept, new_key, keep = [], {}, masking.new_masking_key, SumSecrets._keep

    def noted_key():
        drawn.append(new_key())
        return drawn[-1]

    def noted_share(secrets, sender, share):
        kept[secrets._name, sender] = (share[: masking.SHARE_BYTES], share[masking.SHARE_BYTES :])
        keep(secrets, sender, share)

    monkeypatch.setattr(masking, "new_masking_key", noted_key)
    monkeypatch.setattr(SumSecrets, "_keep", noted_share)
    room = Room(rng, 5)
    sums = room.sums()
    lives = killed_after(room.views["h02"], "shares")
    words = [repr(sums) + repr([own._secrets for own in sums.values()])]
    outcomes = played(sums, rng, lambda name, now: name != "h02" or lives())
    assert outcomes["h00"].present == ("h00", "h01", "h03", "h04") and len(drawn) == 15 and len(kept) == 21
    everything = b"".join(room.box.get(name) for name in room.box.names(""))
    private = [identity._key.private_bytes_raw() for identity in room.identities.values()]
    numbers = [number.tobytes() for name in room.names for number in room.numbers[name]]
    for secret in [*drawn, *private, *numbers]:
        assert bytes.join(b"", [secret]) not in everything and secret.hex().encode() not in everything
    for (holder, sender), shares in kept.items():
        for kind, share in enumerate(shares):
            given = holder != "h02" and kind == (sender == "h02")
            assert (bytes.join(b"", [share]) in everything) == given
    words += [repr(sums), repr(vars(sums["h02"])), repr(vars(sums["h02"]._secrets))]
    for secret in [*drawn, *(share for shares in kept.values() for share in shares)]:
        for word in words:
            assert secret.hex() not in word and repr(bytes.join(b"", [secret])) not in word
    for thing in (sums["h02"], sums["h02"]._secrets, room.identities["h02"]):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(thing)
    assert all(sums[name]._secrets is None for name in outcomes["h00"].present)


def resent(room, sender, kind, change):
    """The sender is dishonest: it signs something else."""

    def sent(place, content):
        if place != message_place(room.stage, kind, sender):
            return content
        message = verify_message(content, place, room.seats)
        body, arrays = dict(message.body), {name: array.copy() for name, array in message.arrays.items()}
        change(body, arrays)
        return room.signed(sender, kind, body, arrays)

    room.views[sender].sent.append(sent)


def test_dishonest_holders_stop_a_sum_and_are_named(rng):
    def flip(name):
        def change(body, arrays):
            arrays[name][0, 5] ^= 1

        return change

    cases = [
        ("shares", flip("boxes"), "what h01 sealed for h00 does not open"),
        ("unmask", flip("shares"), "shares of h00 do not fit together: h00, or one of h00, h01, h02, h03"),
        ("keys", lambda body, arrays: body.update(boxes="00" * 32), "key of h01 would hide nothing"),
        ("keys", lambda body, arrays: body.update(check="00" * 32), "shares of h01 do not fit together"),
        ("keys", lambda body, arrays: body.update(masks="00" * 31), "the keys of h01 .* cannot be read"),
        ("keys", lambda body, arrays: body.pop("mask_check"), "the keys of h01 .* cannot be read"),
        ("keys", lambda body, arrays: body.update(heard={"a": {}}), "h01 goes by other figures than h0"),
        ("keys", lambda body, arrays: body.update(after="00"), "h01 was shown another list"),
        ("confirm", lambda body, arrays: body.update(after=7), "h01 was shown another list"),
        ("masked", lambda body, arrays: arrays.update(more=np.zeros(1)), "h01 sent other numbers"),
        ("masked", lambda body, arrays: arrays.update(numbers=np.zeros(5000)), "message of h01 .* has .* bytes"),
    ]
    for kind, change, words in cases:
        room = Room(rng, 5)
        resent(room, "h01", kind, change)
        outcomes = played(room.sums(), rng)
        errors = [outcome for outcome in outcomes.values() if isinstance(outcome, RoomError)]
        assert errors, (kind, words)
        with pytest.raises(RoomError, match=words):
            raise outcomes["h00"]
        for outcome in outcomes.values():
            if isinstance(outcome, SecureTotal):
                assert outcome.values.tolist() == room.total(outcome.present)


@pytest.mark.parametrize("kind", ["keys", "shares", "masked"])
def test_two_messages_of_one_holder_give_no_two_totals(rng, kind):
    """A dishonest holder signs two, and the mailbox shows either to some."""
    room = Room(rng, 7, 3)
    place, shown = message_place(room.stage, kind, "h01"), []

    def sent(name, content):
        if name == place:
            message = verify_message(content, place, room.seats)
            arrays = {name: array + array.dtype.type(1) for name, array in message.arrays.items()}
            body = message.body if arrays else {**message.body, **SumSecrets(room.seats, room.stage, "h01").keys()}
            shown.append(room.signed("h01", kind, body, arrays))
        return content

    room.views["h01"].sent.append(sent)
    for name in ("h03", "h06"):
        room.views[name].seen.append(lambda name, content: shown[0] if name == place else content)
    outcomes = played(room.sums(), rng)
    for name in ("h03", "h06"):
        with pytest.raises(RoomError, match="another message of h01"):
            raise outcomes[name]
    assert len({outcome.values.tobytes() for outcome in outcomes.values() if isinstance(outcome, SecureTotal)}) <= 1


def test_nobody_checks_what_a_holder_sends(rng):
    """What the proof does not claim: numbers that are no sums go into the total."""
    room = Room(rng, 5)
    resent(room, "h01", "masked", lambda body, arrays: arrays["numbers"].__iadd__(np.uint64(1)))
    outcomes = played(room.sums(), rng)
    right = np.array(room.total(room.names))
    assert all(np.array_equal(outcome.values, right + 1) for outcome in outcomes.values())


def test_rounds_are_sent_in_order_and_once(rng):
    room = Room(rng, 5)
    played(room.sums(), rng)
    for name, view in room.views.items():
        own = [place.split("/")[1] for place in view.own if place.endswith(name)]
        assert own == list(ROUNDS)


def test_two_mask_keys_of_one_public_key_give_no_two_totals(monkeypatch):
    """B7: the colluders a and e have such a pair, and a peer key on the twist; a sends one of two shares of e."""
    order = 2**252 + 27742317777372353535851937790883648493
    one, two = (Key(number.to_bytes(32, "little")) for number in (2**254 + 8, 8 * order - 2**254 - 8))
    prime = 2**255 - 19
    twisted = next(x for x in range(2, 99) if pow(x**3 + 486662 * x * x + x, prime // 2, prime) == prime - 1)
    twist = twisted.to_bytes(32, "little")
    assert masking.public_masking_key(one) == masking.public_masking_key(two) and masking.shared_masking_key(
        one, twist
    ) != masking.shared_masking_key(two, twist)
    # Suppose that they found two seeds from which these keys follow.
    seeds, derive = {masking.new_masking_key(): one, masking.new_masking_key(): two}, masking.derive_masking_key

    def derived(secret, bound, *use):
        return seeds[secret] if use[0] == "mask" and secret in seeds else derive(secret, bound, *use)

    monkeypatch.setattr(masking, "derive_masking_key", derived)
    seats = Roster(bytes(32), tuple(Party(name, name.encode() * 32) for name in "abcde"), 1)
    holders = {name: SumSecrets(seats, 0, name) for name in "abcde"}
    first, second = seeds
    holders["e"]._mask_seed, holders["e"]._mask_key = first, one
    keys = {name: PublicKeys.from_body(holder.keys()) for name, holder in holders.items()}
    boxes = {name: holder.boxes("abcde", keys) for name, holder in holders.items()}
    keys["a"] = PublicKeys(twist, keys["a"].boxes, keys["a"].check, keys["a"].mask_check)
    for holder in holders.values():
        holder.open("abcde", keys, boxes)
    sent = {name: holders[name].masked(np.arange(2, dtype=np.uint64), "abcde", keys) for name in "abcd"}
    answers = {name: holders[name].answer("abcde", "abcd") for name in "abcd"}
    total = sum_secrets.unmask_total(seats, 0, keys, sent, answers, "abcde")
    weights = masking.lagrange_weights([1, 2, 3, 4])
    rest = sum(weights[k] * int.from_bytes(answers[name][4].tobytes()) for k, name in enumerate("bcd", 2))
    share = (int.from_bytes(bytes.join(b"", [second])) - rest) * pow(weights[1], -1, masking.PRIME) % masking.PRIME
    answers["a"][4] = np.frombuffer(share.to_bytes(masking.SHARE_BYTES), np.uint8)
    with pytest.raises(RoomError, match="shares of e do not fit together"):
        sum_secrets.unmask_total(seats, 0, keys, sent, answers, "abcde")
    monkeypatch.setattr(sum_secrets, "_check_value_of_secret", lambda secret, session, name: keys[name].mask_check)
    unchecked = {name: PublicKeys(key.masks, key.boxes, key.mask_check, key.mask_check) for name, key in keys.items()}
    assert not np.array_equal(sum_secrets.unmask_total(seats, 0, unchecked, sent, answers, "abcde"), total)
