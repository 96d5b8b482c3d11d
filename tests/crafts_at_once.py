"""Crafts from 8 processes at once, killed at random, against a total that allows 25 of 100: the program of a test.

Each worker is forked from this process, after one craft has warmed everything up, and is forked anew when it was
killed. Some crafts kill themselves where it hurts most: in the middle of a booking, right after one, and between the
file and its digest. Others are killed from outside, at any time.
"""

import json
import os
import random
import selectors
import signal
import sys
import time
from pathlib import Path

import numpy as np

import radoboost as rb
from radoboost.privacy import Filter, Gaussian, Relation, epsilon_at, event_from_dict
from radoboost.privacy.ledger import Ledger, _ledger_cost_as_floats

CRAFTS, WORKERS, ALLOWED, DELTA = 100, 8, 25, 1e-6
X, Y = np.linspace(0, 1, 40).reshape(-1, 1), np.arange(40) % 2
MECHANISM = rb.Moments(epsilon=0.5, delta=DELTA, unit="label", sharpen=False)


def craft(ledger=None):
    return rb.craft(
        X,
        Y,
        label="y",
        classes=(0, 1),
        mechanism=MECHANISM,
        n_rados=2,
        ledger=ledger,
        counts=None,
        schema=[[0, 1]],
        compute=rb.Compute(threads=1),
    )


class Fatal(Ledger):
    """A ledger whose process dies at a given point."""

    def __init__(self, path, point):
        super().__init__(path)
        self.point = point

    def _die(self, point):
        if self.point == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def _check_room(self, *values):
        super()._check_room(*values)
        self._die("in the transaction")

    def check(self, event):
        point, self.point = self.point, None  # the look beforehand is not a booking
        try:
            return super().check(event)
        finally:
            self.point = point

    def book(self, event, **names):
        booking = super().book(event, **names)
        self._die("after the booking")
        return booking

    def finish(self, release, digest):
        self._die("before the digest")
        super().finish(release, digest)


class Careless(Ledger):
    """A planted fault: it compares first and books later, as if nobody else did."""

    def _check_room(self, *values):
        pass

    def book(self, event, **names):
        Ledger._check_room(self, *self._books(), self.total.cost(event))
        if len(self.entries()) >= ALLOWED - WORKERS:  # where it matters, long enough for another one to compare
            time.sleep(1)
        return super().book(event, **names)


POINTS = {3: "in the transaction", 5: "after the booking", 7: "before the digest"}


def work(first, folder, pipe, careless):
    """The crafts first, first + WORKERS, ...: each says when it starts and how it ends."""
    for k in range(first, CRAFTS // 2 if careless else CRAFTS, WORKERS):
        os.write(pipe, f"start {k}\n".encode())
        ledger = Careless(folder / "l") if careless else Fatal(folder / "l", POINTS.get(k % 19))
        try:
            craft(ledger).save(folder / f"{k}.parquet")
            os.write(pipe, f"done {k}\n".encode())
        except rb.BudgetError:
            os.write(pipe, f"refused {k}\n".encode())


def fork(first, folder, careless):
    """A worker that begins with craft `first`; gives its number and the pipe that it writes to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(first, folder, writing, careless)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    os.close(writing)
    return child, reading


def watch(folder, careless, usual):
    """Fork workers, kill about a fourth of their crafts at a random time, and fork those anew that were killed."""
    rng, ends, failed, kills = random.Random(7), {}, 0, 0
    waiting, workers, at, unread, doomed = selectors.DefaultSelector(), {}, {}, {}, {}

    def begin(first):
        child, pipe = fork(first, folder, careless)
        workers[pipe], at[pipe], unread[pipe] = child, first - WORKERS, b""
        waiting.register(pipe, selectors.EVENT_READ)

    for first in range(WORKERS):
        begin(first)
    while workers:
        for key, _ in waiting.select(timeout=0.002):
            pipe, text = key.fd, os.read(key.fd, 4096)
            *lines, unread[pipe] = (unread[pipe] + text).split(b"\n")
            for word, number in map(bytes.split, lines):
                at[pipe] = int(number)
                ends[at[pipe]] = word.decode()
                if word == b"start" and pipe not in doomed and not careless and rng.random() < 0.25:
                    doomed[pipe] = time.monotonic() + rng.uniform(0, usual)
            if not text:  # the worker has ended, or was killed
                waiting.unregister(pipe)
                os.close(pipe)
                doomed.pop(pipe, None)
                _, status = os.waitpid(workers.pop(pipe), 0)
                failed += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
                if os.WIFSIGNALED(status) and at[pipe] + WORKERS < CRAFTS:
                    begin(at[pipe] + WORKERS)
        for pipe in [pipe for pipe, moment in doomed.items() if time.monotonic() > moment]:
            os.kill(workers[pipe], signal.SIGKILL)
            kills += 1
            del doomed[pipe]
    return ends, failed, kills


def run(folder, careless):
    one = Filter(1.0, DELTA, Relation.LABEL).cost(event_from_dict(craft().statement.event))
    craft().save(folder / "alone.parquet")  # once to warm up, and once to see how long it takes
    began = time.monotonic()
    craft().save(folder / "alone.parquet")
    usual = WORKERS / 2 * (time.monotonic() - began)  # of one craft among so many, on two cores
    mu_squared = float(one.mu_squared) * (ALLOWED + 0.5)
    epsilon = epsilon_at(Gaussian(mu_squared**-0.5, Relation.LABEL), 0.9899 * DELTA)
    Ledger.create(folder / "l", "table", epsilon=epsilon, delta=DELTA, relation="label")
    ends, failed, kills = watch(folder, careless, usual)
    ledger = Ledger(folder / "l")
    spent, allowance = ledger.spent(), ledger.allowance
    return {
        "ends": ends,
        "kills": kills,
        "failed": failed,
        "within": spent.within(allowance),
        "one_more_fits": (spent + one).within(allowance),
        "spent": _ledger_cost_as_floats(spent),
        "problems": ledger.problems(),
        "entries": [(entry.release, entry.digest) for entry in ledger.entries()],
        "one": float(one.mu_squared),
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), len(sys.argv) > 2)))
