"""What one secure sum costs a holder of a room: CPU time and bytes; against signed messages in the clear.

    python benchmarks/holders_sums.py
    python benchmarks/holders_sums.py --report

All holders run in this process and thread, in turn, over a mailbox in memory, so that a figure is the CPU time of one
holder, as a mean over all who stay. Those who are lost go after their shares: their mask keys have to come back, which
is the most work. A round's time is what is done from the moment its message was sent: reading those of the others,
and making the next message. Every holder does what a coordinator would do, so `unmask` has the total in it. Results go
to experiments/results/holders.json, under the key sums, and into docs/rooms.md; --report does the latter alone.
"""

import argparse
import secrets
import time

import numpy as np

import rooms_page
from measuring import keep
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.secure_aggregation import ROUNDS, SecureSum
from radoboost.holder.rooms.signed_messages import Identity, message_place, sign_message, verify_message

CASES = ((5, 31_000, 1), (20, 31_000, 6), (50, 31_000, 10), (20, 496, 6))  # parties, numbers, lost


def made(n_parties, length, lost):
    """Identities, seats and numbers."""
    names = [f"h{k:03d}" for k in range(n_parties)]
    identities = {name: Identity.create(name) for name in names}
    seats = Roster(secrets.token_bytes(32), tuple(identity.party for identity in identities.values()), max(lost, 1))
    rng = np.random.default_rng(20150706)
    return identities, seats, {name: rng.integers(-(2**40), 2**40, length) for name in names}


def in_the_clear(identities, seats, numbers):
    """CPU seconds a holder, where each sends its numbers signed, and adds up those of all."""
    begun = time.process_time()
    sent = {
        name: sign_message(identity, seats.agreement, 0, "plain", {}, {"numbers": numbers[name]})
        for name, identity in identities.items()
    }
    for _ in identities:
        arrays = [
            verify_message(content, message_place(0, "plain", name), seats).arrays["numbers"]
            for name, content in sent.items()
        ]
        total = np.sum(arrays, axis=0)
    assert np.array_equal(total, np.sum(list(numbers.values()), axis=0))
    return (time.process_time() - begun) / len(identities)


def secure(identities, seats, numbers, lost):
    """Milliseconds a holder by round, and the bytes that one sends; the total is checked."""
    box, names = MemoryMailbox(), list(identities)
    begun = time.process_time()
    sums = {
        name: SecureSum(box, seats, identity, 0, names, numbers[name], 1.0) for name, identity in identities.items()
    }
    spent = dict.fromkeys(ROUNDS, 0.0) | {"keys": time.process_time() - begun}
    staying, totals, now = names[: len(names) - lost], {}, 0.0
    while len(totals) < len(staying):
        now += 0.6
        for name, own in sums.items():
            gone = name not in staying and own.round not in ("", "keys")
            if gone or name in totals:
                continue
            before, begun = own.round or "keys", time.process_time()
            total = own.step(now)
            spent[before] += time.process_time() - begun
            if total is not None:
                totals[name] = total
    right = np.sum([numbers[name] for name in staying], axis=0)
    assert all(np.array_equal(total.values, right) and total.present == tuple(staying) for total in totals.values())
    bytes_sent = sum(len(box.get(name) or b"") for name in box.names("") if name.endswith(staying[1]))
    return {kind: 1000 * seconds / len(staying) for kind, seconds in spent.items()}, bytes_sent


def figures(cases=CASES):
    """A row for each case."""
    rows = []
    for n_parties, length, lost in cases:
        identities, seats, numbers = made(n_parties, length, lost)
        plain = 1000 * in_the_clear(identities, seats, numbers)
        milliseconds, bytes_sent = secure(identities, seats, numbers, lost)
        total = sum(milliseconds.values())
        rows.append(
            {
                "parties": n_parties,
                "numbers": length,
                "lost": lost,
                "milliseconds": {kind: round(value, 2) for kind, value in milliseconds.items()},
                "all": round(total, 2),
                "in_the_clear": round(plain, 2),
                "ratio": round(total / plain, 2),
                "bytes": bytes_sent,
                "bytes_of_numbers": 8 * length,
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="write the page from kept results, and run nothing")
    if parser.parse_args().report:
        rooms_page.write()
        return
    rows = figures()
    print(f"{'parties':>7} {'numbers':>8} {'lost':>5}  " + " ".join(f"{kind:>8}" for kind in ROUNDS), end="")
    print(f" {'all, ms':>9} {'in clear':>9} {'ratio':>6} {'bytes':>9}")
    for row in rows:
        print(f"{row['parties']:>7} {row['numbers']:>8,} {row['lost']:>5}  ", end="")
        print(" ".join(f"{row['milliseconds'][kind]:>8.1f}" for kind in ROUNDS), end="")
        print(f" {row['all']:>9.1f} {row['in_the_clear']:>9.1f} {row['ratio']:>6.1f} {row['bytes']:>9,}")
    keep("holders/sums", rows)
    rooms_page.write()


if __name__ == "__main__":
    main()
