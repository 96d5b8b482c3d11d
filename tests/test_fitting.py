"""columns="fitting": which columns a plain release has, by the numbers of rows and columns alone; and 400 products."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import radoboost as rb
from radoboost.cli import app
from radoboost.cli.protection import complete_columns
from radoboost.describe import describe, describe_model
from radoboost.errors import ArgumentError
from radoboost.holder.feature_maps import MOST_PRODUCTS, chosen_pairs, n_outputs, n_pairs, pairs
from radoboost.holder.fitting import FEW_ROWS, Fitting
from radoboost.holder.keystream import words


def table(rows=200, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, columns))
    return values, (values[:, 0] * values[:, 1] > 0).astype(int)


@pytest.mark.parametrize(
    ("rows", "columns", "word"),
    [
        (FEW_ROWS, 3, "quadratic"),
        (FEW_ROWS - 1, 3, "signed-log"),
        (FEW_ROWS, MOST_PRODUCTS, "quadratic"),
        (FEW_ROWS, MOST_PRODUCTS + 1, "linear"),
    ],
)
def test_the_release_has_the_columns_of_the_rule_and_says_why(rows, columns, word):
    values, labels = table(rows, columns)
    release = rb.craft(values, labels, columns="fitting", n_rados=20, seed=1)
    named = rb.craft(values, labels, columns=word, n_rados=20, seed=1)
    assert np.array_equal(release.rados, named.rados) and release.map == named.map
    fitting = release.mechanism["fitting"]
    assert fitting["columns"] == word and fitting["why"].startswith(f"{word}, because ")
    assert "fitting" not in named.mechanism
    assert " ".join(fitting["why"].split()) in " ".join(describe(release).split())


def test_no_value_and_no_label_has_a_say():
    values, labels = table(160)
    rng = np.random.default_rng(3)
    changed = rng.standard_cauchy(size=values.shape) * 1e6
    releases = [
        rb.craft(x, y, columns="fitting", n_rados=60).mechanism["fitting"]
        for x, y in ((values, labels), (changed, labels), (values, rng.permutation(labels)))
    ]
    assert releases[0] == releases[1] == releases[2]


def test_a_sparse_table_has_the_rados_of_the_dense_one():
    values, labels = table(160)
    values[np.abs(values) < 1] = 0
    options = {"columns": "fitting", "n_rados": 60, "seed": 2}
    sparse, dense = (rb.craft(x, labels, **options) for x in (sp.csr_matrix(values), values))
    assert np.array_equal(sparse.rados, dense.rados) and dict(sparse.mechanism) == dict(dense.mechanism)


def test_columns_of_0_and_1_have_no_logarithms():
    slots = Fitting.of(["A", "B"], {"A": "ward", "B": "ward"})
    assert slots.columns(100) == "linear" and slots.columns(1000) == "quadratic"
    ward = np.array(["A", "B", "C"])[np.arange(120) % 3]
    schema = rb.Schema({"ward": rb.Category(("A", "B", "C"))})
    release = rb.craft(pa.table({"ward": ward}), np.arange(120) % 2, schema=schema, columns="fitting", n_rados=60)
    assert release.map is None and release.mechanism["fitting"]["columns"] == "linear"


def test_the_file_the_model_and_the_shell_have_it(tmp_path):
    values, labels = table()
    clf = rb.MomentsClassifier(columns="fitting", n_rados=80).fit(values, labels)
    assert clf.release_.mechanism["fitting"]["columns"] == "quadratic"
    assert "because 200 rows carry" in " ".join(describe_model(clf.model_).split())
    clf.release_.save(tmp_path / "t.rado.parquet")
    assert rb.load(tmp_path / "t.rado.parquet").mechanism == clf.release_.mechanism


def test_the_command_says_which_columns_and_why(tmp_path):
    values, labels = table()
    np.savetxt(tmp_path / "t.csv", np.column_stack([values, labels]), delimiter=",", header="a,b,c,y", comments="")
    out = tmp_path / "t.rado.parquet"
    words = ["craft", str(tmp_path / "t.csv"), "--label", "y", "--columns", "fitting", "-n", "80", "-o", str(out)]
    result = CliRunner().invoke(app, words)
    said = "rado: columns: quadratic, because 200 rows carry squares and products, which they do from 150 rows on"
    assert result.exit_code == 0 and said in result.stderr.splitlines()
    shown = CliRunner().invoke(app, ["show", str(out)]).stdout
    assert "fitting      quadratic, because 200 rows" in shown
    assert json.loads(CliRunner().invoke(app, ["show", str(out), "--json"]).stdout)["mechanism"]["fitting"]
    quiet = CliRunner().invoke(app, [*words, "--quiet", "--force"])
    assert quiet.exit_code == 0 and "rado:" not in quiet.stderr
    assert complete_columns("fi") == ["fitting"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mechanism": rb.Moments(1.0), "bounds": "private", "classes": (0, 1), "label": "y"}, "plain"),
        ({"mechanism": rb.NoisyRados(1.0), "bounds": {"a": (0, 1)}, "classes": (0, 1), "label": "y"}, "plain"),
        ({"scale": None, "label": "y"}, "scale"),
        ({"share": ["a"], "label": "y"}, "share"),
    ],
)
def test_it_is_refused_before_the_table_is_opened(options, said):
    with pytest.raises(ArgumentError, match=said):
        rb.craft("there is no such file.csv", columns="fitting", **options)


def test_rows_that_are_sent_away_need_columns_by_name(tmp_path):
    values, labels = table()
    with pytest.raises(ArgumentError, match="name the columns"):
        rb.share(values, labels, to=(tmp_path / "a.share", tmp_path / "b.share"), columns="fitting")
    assert not list(tmp_path.iterdir())


def test_releases_that_were_fitted_to_other_rows_are_merged():
    values, labels = table(500)
    options = {"columns": "fitting", "bounds": [[-5, 5]] * 3, "scale": "bounds", "n_rados": 60, "seed": 4}
    parts = [rb.craft(values[:200], labels[:200], **options)]
    parts.append(rb.craft(values[200:], labels[200:], first_row=200, **options))
    assert parts[0].mechanism != parts[1].mechanism
    merged, whole = rb.merge(parts), rb.craft(values, labels, **options)
    assert np.array_equal(merged.rados, whole.rados) and "fitting" not in merged.mechanism
    small = rb.craft(values[:90], labels[:90], first_row=500, **options)
    with pytest.raises(ArgumentError):
        rb.merge([*parts, small])


# ---- at most 400 squares and products


def slow_pairs(names, groups, most):
    """The shuffle of docs/exactness.md as it is written."""
    every = [
        (a, b) for k, a in enumerate(names) for b in names[k:] if groups.get(a) is None or groups[a] != groups.get(b)
    ]
    if len(every) <= most:
        return every
    key = hashlib.sha256(b"radoboost/quadratic").digest()
    drawn = words(key, most, 0, 1, plane=1).ravel().tolist()
    order = list(range(len(every)))
    for k, word in enumerate(drawn):
        other = k + word % (len(every) - k)
        order[k], order[other] = order[other], order[k]
    return [every[place] for place in sorted(order[:most])]


@pytest.mark.parametrize(
    ("count", "grouped", "most"), [(6, 0, 400), (6, 0, 5), (40, 0, 400), (40, 25, 400), (29, 3, 1)]
)
def test_products_are_those_of_the_shuffle(count, grouped, most):
    names = [f"c{k}" for k in range(count)]
    groups = {name: f"g{k % 2}" for k, name in enumerate(names[:grouped])}
    labels = [(name, groups.get(name)) for name in names]
    assert [*chosen_pairs(labels, most)] == slow_pairs(names, groups, most)
    assert n_pairs([group for _, group in labels]) == len([*pairs(labels)])


def test_a_plain_release_has_400_products_the_same_for_everyone():
    values, labels = table(60, 35)
    release = rb.craft(values, labels, columns="quadratic", n_rados=10)
    other = rb.craft(table(80, 35, seed=5)[0], np.arange(80) % 2, columns="quadratic", n_rados=10)
    assert len(release.map.terms) == 35 + MOST_PRODUCTS and release.map.terms == other.map.terms
    assert "400 product" in describe(release)
    wide = rb.craft(np.zeros((3, 200)) + np.arange(3)[:, None], [0, 1, 1], columns="quadratic", n_rados=2)
    assert len(wide.map.terms) == 200 + MOST_PRODUCTS
    everything = {"x0": [f"x{j}*x{k}" for j in range(35) for k in range(j + 1, 35)]}
    assert len(rb.craft(values, labels, columns=everything, n_rados=10).map.terms) == 35 + 35 * 34 // 2


def test_private_releases_have_all_products():
    bounds = {f"x{k}": (-3.0, 3.0) for k in range(35)}
    values, labels = table(60, 35)
    release = rb.craft(
        values, labels, columns="quadratic", n_rados=10, bounds=bounds, classes=(0, 1), counts=None,
        mechanism=rb.NoisyRados(4.0),
    )  # fmt: skip
    assert len(release.map.terms) == n_outputs("quadratic", list(bounds), {}, bounded=True) == 35 + 35 * 36 // 2
