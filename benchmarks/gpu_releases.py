"""Whole releases of every mechanism by the engine `cuda`, compared bit by bit with those of the engine `reference`.

`python benchmarks/gpu.py --releases` runs this. Keys of the operating system are the same in both releases. The table
is an array in memory, a tensor of PyTorch on the device, and the same tensor seen through DLPack alone. Exits
with 1 where a bit differs, or where something could not be compared.
"""

import hashlib
import itertools
import secrets
import time
import warnings
from contextlib import contextmanager

import numpy as np

import flat
import radoboost as rb
from measuring import keep, shortfalls

ROWS = 5003  # not whole tiles
BOUNDS = {**{f"x{k}": (-4.0, 4.0) for k in range(4)}, "x4": (0.0, 1.0), "x5": (0.0, 900.0)}
PRIVATE = {"bounds": BOUNDS, "classes": (0, 1)}
OF_PERSONS = {**PRIVATE, "bounds": {name: ends for name, ends in BOUNDS.items() if name != "x5"}, "person": "x5"}


def moments(epsilon=30.0, options=None, **others):
    return {**PRIVATE, "n_rados": None, "mechanism": rb.Moments(epsilon, **(options or {})), **others}


CASES = {
    "plain": {},
    "plain, seeded": {"seed": 3},
    "plain, 1003 rados": {"n_rados": 1003},
    "plain, as it is": {"scale": None, "intercept": False},
    "plain, degree 2": {"columns": "degree-2"},
    "plain, weights": {"weights": np.arange(ROWS) % 3},
    "fixed support": {"signatures": rb.FixedSupport(0.3)},
    "feature band": {"mechanism": rb.FeatureBand("x4", 3.0)},
    "three classes": {"many": True},
    "noisy-rados": {**PRIVATE, "mechanism": rb.NoisyRados(1.0)},
    "noisy-rados, persons": {**OF_PERSONS, "mechanism": rb.NoisyRados(1.0), "max_rows": 2},
    "noisy-examples": {**PRIVATE, "mechanism": rb.NoisyExamples(1.0)},
    "moments, plan": moments(),
    **{f"moments, {word}": moments(columns=word) for word in ("linear", "degree-2", "degree-4", "degree-8")},
    "moments, not sharpened": moments(options={"sharpen": False}, columns="linear"),
    "moments, label": moments(options={"unit": "label"}, columns="linear"),
    "moments, replace": moments(options={"relation": "replace"}, columns="linear"),
    "moments, private bounds": moments(bounds="private", columns="linear"),
    "moments, persons": {**moments(columns="linear"), **OF_PERSONS, "max_rows": 2},
    "moments, three classes": moments(columns="linear", classes=(0, 1, 2), many=True),
}


class ThroughDlpack:
    """A tensor on a device of which nothing is seen but DLPack, slices, and a copy in memory."""

    def __init__(self, tensor):
        self._tensor = tensor
        self.shape, self.dtype, self.ndim = tuple(tensor.shape), tensor.dtype, tensor.ndim

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        return ThroughDlpack(self._tensor[key])

    def get(self):
        return self._tensor.cpu().numpy()


def table(kind=np.float32):
    """Six columns: four of several sizes, a binary one, and whose row it is; two classes, and three."""
    rng = np.random.default_rng(20150706)
    x = rng.normal(size=(ROWS, 6))
    x[:, 1], x[:, 3] = np.exp(x[:, 1]), np.rint(3 * x[:, 3])
    y = (x[:, 0] * x[:, 2] + rng.normal(size=ROWS) > 0).astype(int)
    x[:, 4], x[:, 5] = x[:, 2] > 0, rng.integers(0, 900, ROWS)
    return x.astype(kind), y, y + (x[:, 0] > 1)


@contextmanager
def same_keys():
    """The operating system gives the same keys in the same order each time."""
    numbers, before = itertools.count(), secrets.token_bytes
    secrets.token_bytes = lambda size=32: hashlib.shake_256(f"key {next(numbers)}".encode()).digest(size)
    try:
        yield
    finally:
        secrets.token_bytes = before


def crafted(x, two, three, engine, n_rados=70, many=False, **options):
    """The bits of a release, and all that it says of its columns."""
    with warnings.catch_warnings(), same_keys():
        warnings.simplefilter("ignore")  # of values that were clipped
        release = flat.craft(x, three if many else two, n_rados=n_rados, engine=engine, counts=None, **options)
    blocks = {name: np.asarray(block).tobytes() for name, block in release.blocks.items()}
    return blocks, release.columns, release.n_examples


def compare(tables, engine, names=tuple(CASES)):
    """What differs from the reference, of these cases and tables; and cases that this machine lacks a library for."""
    x, two, three = table()
    wrong, missing = [], []
    for name in names:
        begun = time.perf_counter()
        try:
            expected = crafted(x, two, three, "reference", **CASES[name])
            for where, its in tables.items():
                if crafted(its, two, three, engine, **CASES[name]) != expected:
                    wrong.append(f"{name}, {where}: other bits than those of the reference")
        except ImportError as error:
            missing.append(f"{name}: not compared ({error})")
        print(f"  {name}: {time.perf_counter() - begun:.1f} s", flush=True)
    return wrong, missing


def run(device, versions):
    """All cases on the device; exits with 1 where bits differ, or where something was not compared."""
    import torch

    tensor = torch.from_numpy(table()[0]).cuda()
    tables = {"from memory": table()[0], "a tensor": tensor, "through DLPack": ThroughDlpack(tensor)}
    wrong, missing = compare(tables, "cuda")
    compared = [name for name in CASES if not any(line.startswith(f"{name}: ") for line in missing)]
    results = {"device": device, "versions": versions, "rows": ROWS, "tables": list(tables), "compared": compared}
    keep("gpu_releases", {**results, "not compared": missing, "wrong": wrong})
    print(
        f"{len(compared)} releases from {len(tables)} tables each:",
        "; ".join(wrong) or "all bits are equal",
        flush=True,
    )
    shortfalls([*wrong, *missing])
