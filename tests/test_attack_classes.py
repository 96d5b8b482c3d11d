"""Attacks on plain releases of more than two classes: each works, or says in one line why not."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

import radoboost as rb
from radoboost.lab.attacks.adversary_knowledge import rado_integers, seed_inclusion_bits, table_edge_vectors
from radoboost.lab.attacks.exact_reconstruction import reconstruct
from radoboost.lab.attacks.linear_reconstruction import recover_release_column
from radoboost.lab.attacks.row_probe import probe_rows_of_table
from radoboost.lab.theory.confounder import confound_columns
from test_attack_cli import no_study

CLASSES = np.array(["a", "b", "c", "d"])


def made_up(seed, rows, n_classes):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, rows - n_classes)]))
    return rng.normal(size=(rows, 2)).round(3), CLASSES[labels]


@given(st.integers(0, 99), st.integers(6, 40), st.integers(3, 4), st.booleans())
def test_rados_are_sums_over_signatures_and_are_solved_for_all_rows(seed, rows, n_classes, intercept):
    values, labels = made_up(seed, rows, n_classes)
    release = rb.craft(
        values, labels, n_rados=rows + 24, seed=seed, mechanism=rb.Plain(scale=None, intercept=intercept)
    )
    edges = table_edge_vectors(release, values, labels)
    assert edges.shape == (rows, n_classes * (2 + intercept))
    np.testing.assert_array_equal(seed_inclusion_bits(release, seed, rows) @ edges, rado_integers(release))
    result = reconstruct(release, seed)
    assert result.status == "all" and result.seed_checked and result.has_labels and result.labels is None
    table = result.to_table()
    assert table["label"].to_pylist() == labels.tolist()
    steps = [column.step for column in release.columns]
    np.testing.assert_allclose(table["x0"].to_numpy(), values[:, 0], atol=steps[0])
    np.testing.assert_allclose(table["x1"].to_numpy(), values[:, 1], atol=steps[1])
    assert "labels included" in result.sentence()


@pytest.mark.parametrize("n_rados", [20, 80])
def test_a_wrong_seed_is_refused(n_rados):
    values, labels = made_up(0, 40, 3)
    release = rb.craft(values, labels, n_rados=n_rados, seed=1)
    # By chance all sizes of 20 subsets of 40 rows agree with probability below 2**-20, and seeds are fixed.
    with pytest.raises(rb.TableError, match="no table has this constant column under this seed"):
        reconstruct(release, 2)
    if n_rados < 40:
        result = reconstruct(release, 1)
        assert result.status == "none" and result.seed_checked
        assert result.to_table().num_rows == 0


def test_a_row_of_zeros_without_a_constant_has_no_class():
    values, labels = made_up(0, 12, 3)
    values[4] = 0.0
    result = reconstruct(
        rb.craft(values, labels, n_rados=40, seed=1, mechanism=rb.Plain(scale=None, intercept=False)), 1
    )
    found = result.to_table()["label"].to_pylist()
    assert found[4] is None and found[:4] + found[5:] == labels.tolist()[:4] + labels.tolist()[5:]


def test_clients_are_found_in_a_release():
    values, labels = made_up(5, 24, 3)
    release = rb.craft(values[:13], labels[:13], n_rados=40, seed=2)
    assert probe_rows_of_table(release, values, labels).members == tuple(range(13))


def test_attacks_on_signed_sums_say_why_they_do_not_apply():
    values, labels = made_up(5, 24, 3)
    release = rb.craft(values, labels, n_rados=40, seed=2)
    with pytest.raises(rb.ArgumentError, match="this release has 3 classes; take the attack reconstruct"):
        recover_release_column(release, 2)
    with pytest.raises(rb.ArgumentError, match="for two classes, and this release has 3 classes"):
        confound_columns(release, table_edge_vectors(release, values, labels))


def test_commands_and_the_report(rado, monkeypatch):
    monkeypatch.setattr("radoboost.lab.attacks.attack_suite.run_attack_study", no_study)
    values, labels = made_up(5, 14, 3)
    pyarrow.csv.write_csv(pa.table({"u": values[:, 0], "v": values[:, 1], "y": labels}), "t.csv")
    rb.craft("t.csv", label="y", n_rados=40, seed=7).save("t.rado.parquet")
    code, _, _ = rado("attack", "reconstruct", "t.rado.parquet", "--seed", "7")
    assert code == 0 and Path("t.reconstructed.csv").read_text().splitlines()[0] == '"u","v","label"'
    words = ["attack", "report", "t.rado.parquet", "--table", "t.csv", "--seed", "7", "--seconds", "5", "--json"]
    code, out, _ = rado(*words)
    assert code == 0
    answers = {name: entry["On this release"] for name, entry in json.loads(out)["attacks"].items()}
    assert answers["reconstruct"].startswith("Whoever knows the seed gets all 14 records")
    assert answers["probe"] == "Of 14 rows, 14 are in the release: all of them."
    for name in ("linear", "membership", "confounder"):
        assert answers[name] == "Does not apply: it is for two classes, and the release has 3."
    page = Path("t.attacks.html").read_text()
    assert "40 rados of 3 columns" in page and "3: " in page
    for name, options in (
        ("linear", ["--seed", "7"]),
        ("membership", []),
        ("confounder", ["--table", "t.csv"]),
        ("leak", ["--table", "t.csv", "--set", "row=0"]),
    ):
        code, _, err = rado("attack", name, "t.rado.parquet", *options)
        assert code == 1 and err.startswith("rado: ") and err.count("\n") == 1
