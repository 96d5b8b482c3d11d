"""Rows that no single server may hold: two servers with shares, and encrypted rows, beside crafting on one machine.

    python benchmarks/holders_shares.py [--rows 10000] [--rados 1000] [--bits 2048 3072]
    python benchmarks/holders_shares.py --report

A table of 30 columns and the constant one. For each route: CPU seconds of whoever sends, of whoever crafts (each of two
servers, or the crafter), and of the learner; and bytes that travel. All releases are compared with the plain one, bit
by bit: a run whose bits differ fails. A run with the sizes above writes experiments/results/holders.json, under
"shares", and the table of docs/encrypted.md; --report does the latter alone. Other sizes are printed only. Exits with 1
where a figure falls short: shares less than 50 times as fast as Paillier at 2048 bits.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import radoboost as rb
from measuring import RESULTS, fill_page, keep, shortfalls
from radoboost import encrypted
from radoboost.holder import craft as crafting
from radoboost.holder import secret_sharing

PAGE = Path(__file__).parent.parent / "docs" / "encrypted.md"
COLUMNS, AIM = 30, 50
ROWS, RADOS, BITS = 10_000, 1000, (2048, 3072)
KEY = bytes(range(32))


def timed(work: Callable[[], object]) -> tuple[object, float]:
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


def plain_release(X: np.ndarray, y: np.ndarray, n_rados: int, coins: bytes) -> tuple[rb.Release, float]:
    """The release of one machine under these coins, and its CPU seconds."""
    own, crafting.make_key = crafting.make_key, lambda seed: coins
    try:
        return timed(lambda: rb.craft(X, y, n_rados=n_rados, compute=rb.Compute(threads=1)))
    finally:
        crafting.make_key = own


def same_bits(release: rb.Release, plain: rb.Release) -> None:
    if release.rados.tobytes() != plain.rados.tobytes() or release.columns != plain.columns:
        raise SystemExit("the bits are not those of the plain release")


def by_shares(X: np.ndarray, y: np.ndarray, n_rados: int, folder: Path) -> dict[str, object]:
    """Two servers, through files."""
    places = folder / "a.share", folder / "b.share"
    shares, sender = timed(lambda: rb.share(X, y, to=places))
    seconds, outputs = [], []
    for share, name in zip(shares, "ab", strict=True):
        partial, server = timed(lambda share=share: rb.craft_shares(share, key=KEY, n_rados=n_rados, threads=1))
        seconds.append(server)
        outputs.append(folder / f"{name}.partial")
        partial.save(outputs[-1])
    release, learner = timed(lambda: rb.merge_shares(*outputs))
    job = {"parts": [[shares[0].pair, len(X)]], "n_rados": n_rados, "signatures": {"name": "all"}}
    coins = secret_sharing.share_job_keys(KEY, {**job, "release": shares[0].awaited.to_dict()})[0]
    plain, alone = plain_release(X, y, n_rados, coins)
    same_bits(release, plain)
    return {
        "route": "two servers with shares",
        "one machine, seconds": alone,
        "sender, seconds": sender,
        "each server, seconds": max(seconds),
        "learner, seconds": learner,
        "upload, bytes": sum(place.stat().st_size for place in places),
        "result, bytes": sum(place.stat().st_size for place in outputs),
    }


def by_paillier(X: np.ndarray, y: np.ndarray, n_rados: int, bits: int, folder: Path) -> dict[str, object]:
    """One crafter and a learner with the key, through files."""
    keys, made = timed(lambda: encrypted.keygen(bits))
    rows, sender = timed(lambda: encrypted.encrypt(X, keys.public, y))
    rows.save(folder / "rows")
    sums, crafter = timed(lambda: encrypted.craft(rows, n_rados, key=KEY))
    sums.save(folder / "sums")
    release, learner = timed(lambda: encrypted.open(sums, keys.private))
    same_bits(release, plain_release(X, y, n_rados, KEY)[0])
    return {
        "route": f"Paillier, {bits:,} bits",
        "keys, seconds": made,
        "sender, seconds": sender,
        "crafter, seconds": crafter,
        "learner, seconds": learner,
        "upload, bytes": (folder / "rows").stat().st_size,
        "result, bytes": (folder / "sums").stat().st_size,
    }


def total(entry: dict[str, object]) -> float:
    """CPU seconds of all parties: there are two servers."""
    times = {"one machine, seconds": 0, "each server, seconds": 2}
    return sum(times.get(name, 1) * float(value) for name, value in entry.items() if name.endswith("seconds"))


def rendered(results: dict[str, object]) -> str:
    """The page with the costs that were measured."""
    alone = results["routes"]["two servers with shares"]["one machine, seconds"]
    lines = [
        f"Measured for {results['rows']:,} rows of {results['columns']} columns and {results['rados']:,} rados, in CPU "
        f"seconds of one core, files in MB; one machine that sees all rows takes {alone:.3f} s:",
        "",
        "| route | sender | crafting | learner | upload | result |",
        "|---|---|---|---|---|---|",
    ]
    for route, entry in results["routes"].items():
        shared = "each server, seconds" in entry
        crafting = (
            f"{entry['each server, seconds']:.3f} s at each server" if shared else f"{entry['crafter, seconds']:.1f} s"
        )
        sender, learner = (f"{entry[f'{who}, seconds']:.{3 if shared else 1}f} s" for who in ("sender", "learner"))
        upload, result = (f"{entry[f'{what}, bytes'] / 1e6:.1f} MB" for what in ("upload", "result"))
        lines.append(f"| {route} | {sender} | {crafting} | {learner} | {upload} | {result} |")
    times = float(f"{results['ratio']:.2g}")
    lines += ["", f"All parties together, Paillier at 2,048 bits takes about {times:,.0f} times as long as shares."]
    return fill_page(PAGE, {"costs": "\n".join(lines)})


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--rados", type=int, default=RADOS)
    options.add_argument("--bits", type=int, nargs="+", default=list(BITS))
    options.add_argument("--report", action="store_true", help="write the table of the page from kept results")
    chosen = options.parse_args()
    if chosen.report:
        PAGE.write_text(rendered(json.loads((RESULTS / "holders.json").read_text())["shares"]["results"]))
        return
    rng = np.random.default_rng(20150706)
    X = rng.normal(size=(chosen.rows, COLUMNS))
    y = np.where(X[:, 0] + rng.normal(size=chosen.rows) > 0, "yes", "no")
    with tempfile.TemporaryDirectory() as name:
        by_shares(X[:500], y[:500], chosen.rados, Path(name))  # compiles kernels
        entries = [by_shares(X, y, chosen.rados, Path(name))]
        entries += [by_paillier(X, y, chosen.rados, bits, Path(name)) for bits in chosen.bits]
    for entry in entries:
        print(entry.pop("route"))
        for what, value in entry.items():
            print(f"  {what:24}{value:14,.3f}" if isinstance(value, float) else f"  {what:24}{value:14,}")
    routes = ["two servers with shares", *(f"Paillier, {bits:,} bits" for bits in chosen.bits)]
    ratio = total(entries[1]) / total(entries[0])
    print(f"shares take 1 / {ratio:,.0f} of the CPU seconds of {routes[1]}")
    shape = {"rows": chosen.rows, "columns": COLUMNS + 1, "rados": chosen.rados}
    results = {**shape, "routes": dict(zip(routes, entries, strict=True)), "ratio": ratio}
    if (chosen.rows, chosen.rados, tuple(chosen.bits)) == (ROWS, RADOS, BITS):
        keep("holders/shares", results)
        PAGE.write_text(rendered(results))
    shortfalls([f"shares are only {ratio:.0f} times as fast, not {AIM}"] if ratio < AIM else [])


if __name__ == "__main__":
    main()
