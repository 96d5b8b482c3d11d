"""What an adversary starts from must be what crafting did, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.errors import ArgumentError, ReleaseError, TableError
from radoboost.lab.attacks.adversary_knowledge import (
    attack_deadline,
    attack_library,
    known_n_examples,
    rado_integers,
    seed_inclusion_bits,
    table_edge_vectors,
)


def small(rng, rows=100):
    return rng.normal(size=(rows, 3)) * [1.0, 30.0, 0.01], rng.integers(0, 2, rows)


@pytest.mark.parametrize("scale", ["standard", "bounds", None])
@pytest.mark.parametrize("signatures", [rb.AllSignatures(), rb.FixedSupport(0.3), rb.FixedSupport(100)])
@pytest.mark.parametrize("intercept", [True, False])
def test_bits_and_edges_give_the_rados_again(rng, scale, signatures, intercept):
    X, y = small(rng)
    bounds = [(-1.0, 2.0), (-50.0, 40.0), (-0.02, 0.02)] if scale == "bounds" else None
    n_rados = 1 if signatures == rb.FixedSupport(100) else 70
    options = {"scale": scale, "signatures": signatures, "intercept": intercept, "bounds": bounds}
    with pytest.warns(rb.ClippedWarning) if bounds else _nothing():
        release = flat.craft(X, y, n_rados=n_rados, seed=5, **options)
    bits, edges = seed_inclusion_bits(release, 5, 100), table_edge_vectors(release, X, y)
    assert bits.shape == (n_rados, 100) and edges.shape == (100, 3 + intercept)
    assert (bits @ edges == rado_integers(release)).all()
    if n_rados > 1:
        assert (seed_inclusion_bits(release, 6, 100) @ edges != rado_integers(release)).any()


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def test_of_a_feature_band_the_bits_are_those_before_turning_over(rng):
    X, y = small(rng)
    X[:, 1] = rng.integers(0, 2, 100)
    release = rb.craft(X, y, n_rados=40, seed=5, mechanism=rb.FeatureBand("x1", 2.0, delta=0.1))
    edges = table_edge_vectors(release, X, y)
    turned = seed_inclusion_bits(release, 5, 100) ^ (edges[:, 1] > 0)
    assert (turned @ edges == rado_integers(release)).all()


def test_a_table_on_disk_has_the_same_edges(rado, clinic):
    code, _, _ = rado(
        "craft", clinic, "--label", "readmitted", "-n", "9", "--seed", "3", "-o", clinic.with_suffix(".r")
    )
    release = rb.load(clinic.with_suffix(".r"))
    edges = table_edge_vectors(release, str(clinic), label="readmitted")
    assert code == 0 and (seed_inclusion_bits(release, 3, 60) @ edges == rado_integers(release)).all()


def test_what_does_not_go_together_is_refused(rng):
    X, y = small(rng)
    release = rb.craft(X, y, n_rados=5)
    with pytest.raises(TableError):
        table_edge_vectors(release, X[:, :2], y)
    with pytest.raises(TableError, match=r"'x1'.*such as 1e\+300; leave"):
        table_edge_vectors(release, np.where(np.arange(3) == 1, 1e300, X), y)
    with pytest.raises(TableError, match="row 2"):
        table_edge_vectors(release, np.where(np.arange(100)[:, None] == 1, np.nan, X), y)
    assert known_n_examples(release, None) == known_n_examples(release, 100) == 100
    with pytest.raises(ArgumentError, match="from 100 rows, not 99"):
        known_n_examples(release, 99)
    hidden = rb.craft(X, y, n_rados=5, mechanism=rb.NoisyRados(1.0), classes=(0, 1), schema=[(-999, 999)] * 3)
    assert known_n_examples(hidden, 99) == 99
    with pytest.raises(ArgumentError, match="--set rows=M"):
        known_n_examples(hidden, None)
    for seed, rows, match in ((1, 0, "at least 1"), (1, 10**10, "too many"), (-1, 100, "seed")):
        with pytest.raises(ArgumentError, match=match):
            seed_inclusion_bits(release, seed, rows)
    off = replace(release, blocks={"rados": release.rados + 1e-9})
    with pytest.raises(ReleaseError, match="not on their grid"):
        rado_integers(off)
    other = replace(release, signatures={"name": "unheard-of"})
    with pytest.raises(ReleaseError, match="'unheard-of' is not known"):
        seed_inclusion_bits(other, 1, 100)


def test_a_missing_library_is_named_with_what_to_do():
    with pytest.raises(
        ArgumentError, match=r"needs nonesuch; install it with: pip install '.\[attacks\]' in a clone of radoboost"
    ):
        attack_library("nonesuch.inner")


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_is_a_positive_number(seconds):
    with pytest.raises(ArgumentError, match="positive number of seconds"):
        attack_deadline(seconds)
