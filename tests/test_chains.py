"""What releases of one table amount to together: chains are followed, each release counts once."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.errors import ArgumentError, ReleaseError
from radoboost.privacy import Gaussian, Relation, Repeated, event_from_dict, event_to_dict
from radoboost.release.composition import account_for_releases, compose_with_earlier, earlier_releases


@pytest.fixture
def table(rng):
    return rng.uniform(0, 1, (200, 2)), rng.integers(0, 2, 200)


def crafted(table, compose=(), mechanism=None, **options):
    mechanism = rb.Moments(epsilon=1.0, delta=1e-6, sharpen=False) if mechanism is None else mechanism
    bounds = {"bounds": [[0, 1], [0, 1]], "classes": (0, 1)} if mechanism.private else {}
    return flat.craft(*table, n_rados=4, mechanism=mechanism, compose=compose, **bounds, **options)


def total(release):
    return release.statement.composed["epsilon"]


def test_a_chain_counts_every_release_once(table, tmp_path):
    """A, B and C of epsilon 1 each amount to 1.8138; 1.4547 would forget A."""
    a = crafted(table)
    b = crafted(table, [a])
    c = crafted(table, [b])
    assert (round(total(b), 4), round(total(c), 4)) == (1.4547, 1.8138)
    for earlier in ([b, a], [a, b, a, b], [b, b]):
        assert total(crafted(table, earlier)) == total(c)
    for name, release in (("a", a), ("b", b), ("c", c)):
        release.save(tmp_path / name)
    again = [rb.load(tmp_path / name) for name in "abc"]
    assert [release.id for release in again] == [a.id, b.id, c.id] and len({a.id, b.id, c.id}) == 3
    assert [entry["id"] for entry in again[2].statement.composed["releases"]] == [b.id, a.id]
    assert account_for_releases([tmp_path / "c"], 1e-6)["epsilon"] == total(c)
    assert total(crafted(table, [tmp_path / "b", a, again[1]])) == total(c)
    assert "fixed before the first" in c.statement.composed["holds_if"]
    assert "private scores, and attempts that stopped" in c.statement.composed["holds_if"]


def test_digests_are_kept_where_they_are_known(table, tmp_path):
    a = crafted(table)
    assert a.digest is None and crafted(table, [a]).statement.composed["releases"][0]["digest"] is None
    a.save(tmp_path / "a")
    digest = rb.load(tmp_path / "a").digest
    assert a.digest == digest and digest.encode() in (tmp_path / "a").read_bytes()
    assert crafted(table, [a]).statement.composed["releases"][0]["digest"] == digest
    assert [earlier.digest for earlier in earlier_releases([crafted(table, [pickle.loads(pickle.dumps(a))]), a])][
        1
    ] == digest
    assert replace(a, n_examples=3).digest is None  # another release than the one in the file


def test_a_chain_that_names_fewer_than_it_counts_is_refused(table):
    b = crafted(table, [crafted(table)])
    entries = b.statement.composed["releases"]
    for count, releases in ((1, []), (2, entries), (2, 2 * entries), (0, entries), ("1", entries), (None, entries)):
        composed = {**b.statement.composed, "earlier_releases": count, "releases": releases}
        for epsilon in (9.0, "infinite"):
            wrong = replace(b, statement=replace(b.statement, composed={**composed, "epsilon": epsilon}))
            with pytest.raises(ReleaseError, match="earlier releases and names"):
                earlier_releases([wrong])


def test_a_chain_that_contradicts_itself_is_refused(table):
    a, b = crafted(table), crafted(table, mechanism=rb.Moments(2.0, sharpen=False))
    with pytest.raises(ArgumentError, match="not the same event"):
        earlier_releases([a, replace(b, id=a.id)])
    composed = crafted(table, [a]).statement.composed
    for broken in ({"id": "x"}, {"id": "x", "digest": None, "event": {"name": "nothing"}}, 3):
        wrong = replace(b, statement=replace(b.statement, composed={**composed, "releases": [broken]}))
        with pytest.raises(ReleaseError):
            earlier_releases([wrong])
    with pytest.raises(ReleaseError, match="do not trust it"):
        earlier_releases([replace(a, statement=replace(a.statement, epsilon=0.5))])
    with pytest.raises(ArgumentError, match="compose needs releases"):
        earlier_releases([3])


def test_relations_convert_where_that_is_proved(table):
    record, label = crafted(table), crafted(table, mechanism=rb.Moments(1.0, unit="label", sharpen=False))
    both = account_for_releases([record, label], 1e-6)
    assert both["neighbours"] == "one label flipped" and 2 < both["epsilon"] < 3
    assert account_for_releases([record, record], 1e-6)["neighbours"] == "one record added or removed"
    plain = account_for_releases([record, crafted(table, mechanism=rb.Plain())], 1e-6)
    assert plain["epsilon"] == "infinite" and "plain rados promise nothing" in plain["why"]
    assert total(crafted(table, [label])) == "infinite"  # a label's protection says nothing of a record


def test_seeded_releases_have_no_id_and_damaged_ids_are_refused(table, tmp_path):
    plain = crafted(table, mechanism=rb.Plain(), seed=1)
    assert plain.id == "" and "id" not in plain.to_dict()
    plain.save(tmp_path / "plain")
    assert rb.load(tmp_path / "plain").id == ""
    assert len(earlier_releases([rb.load(tmp_path / "plain"), tmp_path / "plain"])) == 1
    assert len(earlier_releases([plain, crafted(table, mechanism=rb.Plain(), seed=2)])) == 2
    replace(plain, id="../../etc").save(tmp_path / "odd")
    with pytest.raises(ReleaseError, match="not an id"):
        rb.load(tmp_path / "odd")


def test_composing_k_times_is_count_k():
    one = Gaussian(4.0, Relation.RECORD)
    release = compose_with_earlier(one, earlier_releases([]), 1e-6)
    assert release["earlier_releases"] == 0
    assert event_from_dict(event_to_dict(Repeated(one, 3))) == Repeated(one, 3)


def test_account_of_files(rado, clinic, tmp_path, table):
    paths = []
    for k in range(3):
        paths.append(tmp_path / f"{k}.rado.parquet")
        crafted(table, paths[:k][-1:]).save(paths[-1])
    answer = json.loads(rado("account", paths[2], "--json")[1])
    assert round(answer["epsilon"], 4) == 1.8138 and len(answer["releases"]) == 3
    assert answer["neighbours"] == "one record added or removed"
    out = rado("account", *paths)[1]
    assert "epsilon 1.814 at delta 1e-06" in out and "3, each counted once" in out
    assert "one record added or removed" in out and "ledger" in out
    for more in (("--epsilon", 1), ("--group", 10), ("--set", "relation=replace"), ("--n-rados", 1000)):
        code, out, err = rado("account", paths[0], *more)
        assert (code, out, err.count("\n")) == (1, "", 1) and "--delta alone" in err
    assert rado("account", clinic)[0] == 1
    assert np.isclose(json.loads(rado("account", paths[0], "--delta", 1e-4, "--json")[1])["delta"], 1e-4)
