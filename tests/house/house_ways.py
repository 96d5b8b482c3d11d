"""Six ways as data walks them: python tests/house/house_ways.py, in a process of its own.

For each way: modules that are entered, calls from one module into another (crossings), and modules that only say
"not me" or hand their argument back. Every way runs twice; the second time is counted.
"""

import contextlib
import io
import json
import os
import random
import secrets
import sys
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import radoboost as rb
from radoboost.cli import main
from radoboost.holder.rooms.mailbox import MemoryMailbox

PACKAGE = os.path.join(os.path.dirname(rb.__file__), "")


# ---- tables, and the six ways over them


def write_tables():
    rng, m = np.random.default_rng(0), 400
    age, dose, sex = rng.integers(20, 90, m), rng.normal(5, 2, m).round(3), rng.choice(["f", "m"], m)
    ill = ((age - 55) / 20 + dose / 4 + rng.normal(0, 1, m) > 1.2).astype(int)
    write("t.csv", "age,dose,ill", zip(age, dose, ill, strict=True))
    write("raw.csv", "age,dose,sex,ill", zip(age, dose, sex, ill, strict=True))
    columns = {
        "age": {"kind": "number", "low": 0, "high": 110},
        "dose": {"kind": "number", "low": -5, "high": 20},
        "sex": {"kind": "category", "values": ["f", "m"]},
    }
    with open("s.json", "w") as file:
        json.dump({"radoboost_schema": 1, "label": "ill", "classes": [0, 1], "columns": columns}, file)


def write(path, header, rows):
    with open(path, "w") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in ((header,), *rows))


def rado(*words):
    sys.argv = ["rado", *words]
    with contextlib.suppress(SystemExit):
        main()


ONE = rb.Compute(threads=1)


def plain():
    rb.craft("t.csv", label="ill", n_rados=50, compute=ONE, progress=False).save("plain.rado.parquet")


def raw():
    rb.craft("raw.csv", label="ill", n_rados=50, compute=ONE, progress=False)


def moments():
    release = rb.craft(
        "raw.csv", schema="s.json", mechanism=rb.Moments(epsilon=1.0), compute=ONE, progress=False, counts=None
    )
    release.save("p.rado.parquet")


def learn():
    rado("learn", "plain.rado.parquet", "-o", "m.model.json", "--force")


def predict():
    rado("predict", "m.model.json", "t.csv", "-o", "s.csv", "--force")


def room():
    box, bounds = MemoryMailbox(), {"x0": (0, 10), "x1": (0, 10)}
    rb.open_room(box, bounds, rb.Moments(epsilon=1.0), classes=(0, 1), parties=3)

    def hospital(name):
        x = np.random.default_rng(len(name)).normal(5, 2, (200, 2))
        own = {"identity": rb.Identity.create(name), "confirm": lambda code, parties: True}
        return rb.join_room(box, x, (x[:, 0] > 5).astype(int), compute=ONE, counts=None, **own)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(hospital, ["a", "bb", "ccc"]))


# ---- counting


class Watch:
    """A profiler that sees calls and returns within the package."""

    def __init__(self):
        self.entered, self.crossings = set(), Counter()
        self.answers, self.arguments = defaultdict(list), {}

    def __call__(self, frame, event, value):
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
            return
        module = module_of(frame)
        if event == "call":
            self.entered.add(module)
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            self.arguments[id(frame)] = [id(frame.f_locals.get(name)) for name in names]
            back = frame.f_back
            while back is not None and not back.f_code.co_filename.startswith(PACKAGE):
                back = back.f_back
            if back is not None and (caller := module_of(back)) != module:
                self.crossings[caller, module] += 1
        elif event == "return":
            given = self.arguments.pop(id(frame), [])
            empty = value is None or value is False or (isinstance(value, tuple | list | dict | str) and not value)
            self.answers[module].append(empty or id(value) in given)

    def figures(self):
        idle = sum(all(answers) for answers in self.answers.values())
        return {"modules": len(self.entered), "crossings": self.crossings.total(), "not_me": idle}


def module_of(frame):
    return frame.f_code.co_filename[len(PACKAGE) : -len(".py")]


def counted(way):
    """The figures of a way, silently."""
    watch = Watch()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        way()
        threading.setprofile(watch)
        sys.setprofile(watch)
        try:
            way()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return watch.figures()


def figures():
    """All figures by names such as plain_modules; a room's threads wait, so that modules alone are told of it."""
    ways = {way.__name__: counted(way) for way in (plain, raw, moments, learn, predict, room)}
    ways["room"] = {"modules": ways["room"]["modules"]}
    return {f"{way}_{name}": value for way, found in ways.items() for name, value in found.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["XDG_CONFIG_HOME"] = folder
        write_tables()
        secrets.token_bytes = random.Random(0).randbytes  # noise that takes a second draw crosses once more
        print(json.dumps(figures(), indent=1))
