"""Rows in two shares: the plain release's bits, shares that are uniform, and roles that are kept apart."""

import importlib
import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import flat
import radoboost as rb
from radoboost.holder import request, secret_sharing
from radoboost.holder.grid import GRID_BITS
from radoboost.lab.attacks.adversary_knowledge import inclusion_bits, rado_integers
from radoboost.lab.attacks.exact_reconstruction import solve_integers
from radoboost.release import secret_shares

KEY = bytes(range(32))


@pytest.fixture
def table(rng):
    X = rng.normal(size=(300, 4)) * [1.0, 30.0, 0.01, 5.0]
    return X, np.where(X[:, 0] + rng.normal(size=300) > 0, "yes", "no")


def by_shares(shares, key=KEY, **options):
    return rb.merge_shares(*(rb.craft_shares(share, key=key, **options) for share in shares))


def coins_of(share, n_rados, signatures):
    """The key of the coins, as both servers derive it."""
    job = {"parts": [[share.pair, share.n_rows]], "n_rados": n_rados, "signatures": signatures}
    return secret_sharing.share_job_keys(KEY, {**job, "release": share.awaited.to_dict()})[0]


def centrally(monkeypatch, coins, *table, **options):
    """The plain release that one machine makes with these coins."""
    monkeypatch.setattr(request, "make_key", lambda seed: coins)
    return flat.craft(*table, **options)


def assert_same_bits(release, plain):
    assert release.blocks.keys() == plain.blocks.keys()
    for name in plain.blocks:
        assert release.blocks[name].tobytes() == plain.blocks[name].tobytes()
    for name in ("columns", "classes", "mechanism", "signatures", "n_examples", "schema", "map"):
        assert getattr(release, name) == getattr(plain, name), name


@pytest.mark.parametrize(
    ("options", "engine"),
    [({}, "kernel"), ({"scale": None, "intercept": False}, "reference"), ({"columns": "degree-2"}, "kernel"),
     ({"signatures": rb.FixedSupport(0.3)}, "reference")],
)  # fmt: skip
def test_two_servers_give_the_bits_of_the_plain_release(monkeypatch, table, tmp_path, options, engine):
    sharing = {name: value for name, value in options.items() if name != "signatures"}
    signatures = options.get("signatures")
    shares = flat.share(*table, **sharing)
    release = by_shares(shares, n_rados=130, signatures=signatures, engine=engine, threads=2)
    coins = coins_of(shares[0], 130, dict(release.signatures))
    plain = centrally(monkeypatch, coins, *table, n_rados=130, **options)
    assert_same_bits(release, plain)
    release.save(tmp_path / "out.rado.parquet")
    assert_same_bits(rb.load(tmp_path / "out.rado.parquet"), plain)


def test_classes_weights_and_raw_tables_too(monkeypatch, rng):
    frame = {
        "age": rng.integers(18, 90, 200).tolist(),
        "ward": rng.choice(["a", "b", "c"], 200).tolist(),
        "times": rng.integers(0, 3, 200).tolist(),
        "grade": rng.choice(["low", "middle", "high"], 200).tolist(),
    }
    options = {"label": "grade", "weights": "times", "classes": ("low", "middle", "high")}
    with pytest.warns(rb.SchemaWarning):
        shares = flat.share(frame, **options)
    release = by_shares(shares, n_rados=40)
    with pytest.warns(rb.SchemaWarning):
        plain = centrally(monkeypatch, coins_of(shares[0], 40, {"name": "all"}), frame, n_rados=40, **options)
    assert_same_bits(release, plain)
    assert len(release.blocks) == 3 and release.schema is not None


def test_files_are_streamed_and_are_the_same(table, tmp_path, monkeypatch):
    places = tmp_path / "a.share", tmp_path / "b.share"
    shares = rb.share(*table, to=places)
    assert sorted(os.listdir(tmp_path)) == ["a.share", "b.share"]
    partials = [rb.craft_shares(place, key=KEY, n_rados=70) for place in places]
    for partial, name in zip(partials, ("a", "b"), strict=True):
        partial.save(tmp_path / f"{name}.partial")
    release = rb.merge_shares(tmp_path / "b.partial", tmp_path / "a.partial")
    plain = centrally(monkeypatch, coins_of(shares[0], 70, {"name": "all"}), *table, n_rados=70)
    assert_same_bits(release, plain)
    assert release.id == by_shares(shares, n_rados=70).id != plain.id
    copy = rb.load_share(places[0])
    copy.save(tmp_path / "copy.share")
    assert np.array_equal(
        *(np.concatenate(list(rb.load_share(p).batches(77))) for p in (places[0], tmp_path / "copy.share"))
    )
    assert b"pickle" not in places[0].read_bytes() and places[0].read_bytes()[:4] == b"PAR1"


def test_several_senders_are_one_table(monkeypatch, rng):
    X, y = rng.uniform(-2, 2, size=(150, 3)), rng.integers(0, 2, 150)
    options = {"bounds": {f"x{k}": (-2.0, 2.0) for k in range(3)}, "scale": "bounds", "classes": (0, 1)}
    cuts = [slice(0, 1), slice(1, 70), slice(70, 150)]
    pairs = [flat.share(X[cut], y[cut], **options) for cut in cuts]
    partials = [rb.craft_shares(side, key=KEY, n_rados=60) for side in zip(*pairs, strict=True)]
    release = rb.merge_shares(*partials)
    job = {
        "parts": [[a.pair, a.n_rows] for a, _ in pairs],
        "n_rados": 60,
        "signatures": {"name": "all"},
        "release": pairs[0][0].awaited.to_dict(),
    }
    plain = centrally(monkeypatch, secret_sharing.share_job_keys(KEY, job)[0], X, y, n_rados=60, **options)
    assert_same_bits(release, plain)
    assert [part["rows"] for part in release.statement.holders.parts] == [1, 69, 80]


# ---- what one party sees


def chi_squares(numbers):
    """The chi-square statistic of each byte of 64-bit numbers against uniform bytes."""
    raw = np.ascontiguousarray(numbers, "<u8").view(np.uint8).reshape(-1, 8)
    expected = len(raw) / 256
    return [((np.bincount(raw[:, k], minlength=256) - expected) ** 2 / expected).sum() for k in range(8)]


def most(statistics, false_alarm=1e-6):
    """A bound that chi-square with 255 degrees passes with at most this probability in all, by Laurent and Massart."""
    x = math.log(statistics / false_alarm)
    return 255 + 2 * math.sqrt(255 * x) + 2 * x


def test_a_share_and_partial_sums_are_uniform_whatever_the_rows():
    """Bytes of each share, and of what each server hands out; false alarms: at most 1e-6 in all."""
    X, y = np.ones((20_000, 2)), np.arange(20_000) % 2  # rows of two kinds only
    shares = rb.share(X, y, mechanism=rb.Plain(scale=None))
    partials = [rb.craft_shares(share, key=KEY, n_rados=20_000) for share in shares]
    statistics = [
        s for numbers in (*(a.rows for a in shares), *(p.sums for p in partials)) for s in chi_squares(numbers)
    ]
    assert max(statistics) < most(len(statistics))
    assert max(chi_squares(shares[0].rows + shares[1].rows)) > 1e5  # and the rows themselves are seen through


def test_partial_sums_do_not_tell_which_signatures_are_alike():
    """More rados than rows: sums of one share alone repeat wherever a signature does, unless they are blinded (B4)."""
    X, y = [[1.0], [2.0], [3.0]], [0, 1, 1]
    share, _ = rb.share(X, y)
    blinded = rb.craft_shares(share, key=KEY, n_rados=8).sums
    rows = np.concatenate(list(share.batches()))
    coins = coins_of(share, 8, {"name": "all"})
    bits = inclusion_bits(rb.AllSignatures().prepare(coins, 8, 3), 8, 3)
    bare = np.stack([rows[inside].sum(axis=0, dtype=np.uint64) for inside in bits])
    assert len(np.unique(bits, axis=0)) < 8, "signatures repeat"
    assert len(np.unique(bare, axis=0)) == len(np.unique(bits, axis=0)), "and so do sums that are not blinded"
    assert len(np.unique(blinded, axis=0)) == 8


def test_another_job_has_other_signatures(table):
    """The same key for the same shares, and another number of rados: no rado is repeated."""
    shares = rb.share(*table)
    few, more = by_shares(shares, n_rados=50).rados, by_shares(shares, n_rados=60).rados
    assert not {row.tobytes() for row in few} & {row.tobytes() for row in more}


def test_a_server_that_sees_the_release_solves_for_every_row(rng):
    """900 rows from 1000 rados with known signatures, exactly: the reason why roles are kept apart."""
    X, y = rng.normal(size=(900, 2)), rng.integers(0, 2, 900)
    shares = rb.share(X, y)
    release = by_shares(shares)
    coins = coins_of(shares[0], 1000, {"name": "all"})  # what a server knows
    inside = inclusion_bits(rb.AllSignatures().prepare(coins, 1000, 900), 1000, 900)
    solution = solve_integers(inside, rado_integers(release), largest=2**GRID_BITS)
    assert solution.found.all()
    rows = (shares[0].rows + shares[1].rows).view(np.int64)
    assert np.array_equal(solution.values, rows)


def test_the_statement_says_who_sees_what(table):
    release = by_shares(rb.share(*table), n_rados=10)
    statement = release.statement
    assert statement.epsilon == math.inf and not statement.promises
    text = statement.to_json()
    for words in ("two servers", "neither may see this release", "Nobody checks what a sender sends", "together"):
        assert words in text
    assert statement.holders.how == "shared" and statement.holders.parts[0]["rows"] == 300
    assert "The mean and standard deviation of every column" in text
    assert secret_shares.GRID_BITS == GRID_BITS


# ---- refusals


def refused(words, make):
    with pytest.raises(rb.RadoError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_shares_that_do_not_belong_together_are_refused(table, rng):
    X, y = table
    a, b = rb.share(X, y)
    c, d = rb.share(X, y)
    sums = {share: rb.craft_shares(share, key=KEY, n_rados=20) for share in (a, b, c, d)}
    refused("both shares of the same rows", lambda: rb.craft_shares([a, b], key=KEY))
    refused("the same share twice", lambda: rb.craft_shares([a, a], key=KEY))
    refused("of side a and .* of side b", lambda: rb.craft_shares([a, d], key=KEY))
    refused("both of side a", lambda: rb.merge_shares(sums[a], sums[c]))
    refused("do not belong together", lambda: rb.merge_shares(sums[a], sums[d]))
    refused("other keys", lambda: rb.merge_shares(sums[a], rb.craft_shares(b, key=KEY[::-1], n_rados=20)))
    refused("20 rados .* 21", lambda: rb.merge_shares(sums[a], rb.craft_shares(b, key=KEY, n_rados=21)))
    both = [rb.craft_shares(order, key=KEY, n_rados=20) for order in ([a, c], [d, b])]
    refused("another order", lambda: rb.merge_shares(*both))
    other, _ = rb.share(X * 2, y)
    refused("other columns: .*--set scale=bounds", lambda: rb.craft_shares([a, other], key=KEY))
    named, _ = rb.share(X, np.where(y == "yes", "ja", "nein"))
    refused("other classes", lambda: rb.craft_shares([a, named], key=KEY))
    refused("no shares", lambda: rb.craft_shares([], key=KEY))
    refused("32 bytes", lambda: rb.craft_shares(a, key=b"short"))
    refused("signatures", lambda: rb.craft_shares(rb.share(X[:2], ["no", "yes"])[0], key=KEY, n_rados=20))


def test_sums_that_no_rows_give_are_refused(table):
    """A server that is off in one number, or a sender who sends nonsense: seen with probability almost 1."""
    partials = [rb.craft_shares(share, key=KEY, n_rados=20) for share in rb.share(*table)]
    partials[0].sums[3, 1] += np.uint64(1 << 40)
    refused("larger than so many rows", lambda: rb.merge_shares(*partials))


def test_damaged_files_are_refused(table, tmp_path):
    places = tmp_path / "a.share", tmp_path / "b.share"
    rb.share(*table, to=places)
    whole = places[0].read_bytes()
    bad = tmp_path / "bad.share"
    for content, words in [
        (whole[:-100], "truncated"),
        (whole[:50] + bytes([whole[50] ^ 1]) + whole[51:], "damaged"),
        (b"", "truncated"),
        (re.sub(rb'"side":"a"', b'"side":"b"', whole), "damaged"),
    ]:
        bad.write_bytes(content)
        refused(words, lambda: rb.load_share(bad))
    partial = rb.craft_shares(places[0], key=KEY, n_rados=10)
    partial.save(tmp_path / "a.partial")
    refused("partial sums of a server.*, not a share", lambda: rb.load_share(tmp_path / "a.partial"))
    refused("a share of rows.*, not the partial", lambda: rb.load_partial(places[0]))
    refused("no release: rado share sum", lambda: rb.load(places[0]))
    rb.craft(*table, n_rados=10).save(tmp_path / "r.rado.parquet")
    refused("is a release", lambda: rb.load_share(tmp_path / "r.rado.parquet"))
    refused("cannot read", lambda: rb.load_share(tmp_path / "none.share"))
    pq.write_table(pq.read_table(places[0]), bad)  # without a document
    refused("is not a share", lambda: rb.load_share(bad))


def test_nothing_is_left_behind(table, tmp_path):
    refused("name two files", lambda: rb.share(*table, to=(tmp_path / "a.share", tmp_path / "a.share")))
    (tmp_path / "folder").mkdir()
    refused("cannot write", lambda: rb.share(*table, to=(tmp_path / "folder", tmp_path / "b.share")))
    refused("cannot write", lambda: rb.share(*table, to=(tmp_path / "a.share", tmp_path / "folder")))
    assert os.listdir(tmp_path) == ["folder"]


def test_keys(tmp_path):
    key = rb.new_share_key(tmp_path / "both.key")
    assert (tmp_path / "both.key").stat().st_mode & 0o777 == 0o600
    assert secret_sharing.read_share_key(tmp_path / "both.key") == key
    refused("there already", lambda: rb.new_share_key(tmp_path / "both.key"))
    refused("cannot read the key", lambda: secret_sharing.read_share_key(tmp_path / "none.key"))
    (tmp_path / "bad.key").write_text('{"radoboost_share_key": 1, "key": "00"}')
    refused("32 bytes", lambda: secret_sharing.read_share_key(tmp_path / "bad.key"))
    (tmp_path / "bad.key").write_text("hello")
    refused("is not a key", lambda: secret_sharing.read_share_key(tmp_path / "bad.key"))


# ---- commands


def test_the_three_roles_on_the_command_line(rado, clinic, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = rado("share", "split", clinic, "--label", "readmitted", "-o", "a.share", "b.share")
    assert code == 0 and "Each alone is random" in out
    code, out, _ = rado("share", "sum", "a.share", "--new-key", "both.key", "-n", "30")
    assert code == 0 and "send it to the other server" in out
    code, out, _ = rado("share", "sum", "b.share", "--key", "both.key", "-n", "30", "--json")
    assert code == 0 and json.loads(out)["side"] == "b"
    code, out, _ = rado("merge", "a.partial", "b.partial", "-o", "clinic.rado.parquet")
    assert code == 0 and "wrote clinic.rado.parquet" in out
    release = rb.load("clinic.rado.parquet")
    assert release.rados.shape == (30, 3) and release.classes == ("no", "yes")
    assert rado("learn", "clinic.rado.parquet")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["craft", "a.share"], "rado share sum a.share --new-key FILE"),
        (["share", "sum", "a.share"], "make one with --new-key FILE"),
        (["share", "sum", "a.share", "clinic.csv", "--key", "k"], "clinic.csv"),
        (["share", "sum", "a.share", "--key", "none.key"], "cannot read the key"),
        (["share", "sum", "a.share", "b.share", "--new-key", "k"], "both shares of the same rows"),
        (["share", "sum", "none.share", "--new-key", "k"], "cannot read none.share"),
        (
            ["share", "split", "clinic.csv", "--label", "readmitted", "--set", "shared=age"],
            "leave --set shared out",
        ),
        (["share", "split", "clinic.csv", "--label", "readmitted", "-o", "c.share", "c.share"], "name two files"),
        (["share", "split", "clinic.csv", "--label", "nothing"], "nothing"),
        (["merge", "a.share"], "there are 1 files"),
        (["merge", "a.share", "b.share", "--how", "sum"], "without --how"),
        (["merge", "a.share", "b.share"], "not the partial sums"),
        (["merge", "a.share", "clinic.csv"], "not the partial sums"),
    ],
)
def test_refusals_on_the_command_line(rado, clinic, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    rb.share("clinic.csv", label="readmitted", to=("a.share", "b.share"))
    before = sorted(os.listdir(tmp_path))
    code, out, err = rado(*words)
    assert code == 1 and message in err
    assert err.count("\n") == 1 and not out
    assert sorted(os.listdir(tmp_path)) == before


def test_the_page_has_the_numbers_of_the_results(monkeypatch):
    root = Path(__file__).parent.parent
    monkeypatch.syspath_prepend(root / "benchmarks")
    benchmark = importlib.import_module("holders_shares")
    results = json.loads((root / "experiments" / "results" / "holders.json").read_text())["shares"]["results"]
    assert benchmark.rendered(results) == benchmark.PAGE.read_text(), "run benchmarks/holders_shares.py --report"
