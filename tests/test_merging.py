"""Plain releases of several holders put together: exact sums, pooled moments, other constants, and every refusal."""

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flat
import radoboost as rb
from radoboost.lab.attacks.adversary_knowledge import rado_integers, seed_inclusion_bits, table_edge_vectors
from radoboost.release.columns import MAX_EXAMPLES
from radoboost.report.describe import describe_release
from schema_files import write_schema

CUTS = (0, 1001, 5000, 5013, 12345)


def content(release):
    """Everything in the file but what is said about it."""
    document = release.to_dict()
    for key in ("statement", "id"):
        document.pop(key, None)
    return document, {name: rows.tobytes() for name, rows in release.blocks.items()}


def cut(x, y, cuts, **options):
    """A release of each part, by one seed, rows numbered through."""
    spans = pairwise((*cuts, len(y)))
    return [flat.craft(x[i:j], y[i:j], first_row=i, **options) for i, j in spans]


@pytest.fixture
def table(rng):
    x = rng.normal(size=(300, 3)) * [1.0, 5.0, 0.1] + [0.0, 20.0, -3.0]
    return x, np.where(x[:, 0] + rng.normal(size=300) > 0, 1, -1)


BOUNDS = {"x0": (-3, 3), "x1": (0, 40), "x2": (-4, -2)}


# ---- one seed, rows numbered through


@pytest.mark.parametrize("options", [{"scale": "bounds"}, {"scale": None}])
@pytest.mark.filterwarnings("ignore::radoboost.ClippedWarning")
def test_five_parts_of_magic_are_the_release_of_the_whole_table(domains, options):
    table = np.loadtxt(domains / "magic.csv.gz", delimiter=",", skiprows=1)
    x, y = table[:, :-1], table[:, -1].astype(int)
    bounds = {f"x{k}": tuple(np.quantile(x[:, k], [0.01, 0.99])) for k in range(x.shape[1])}
    options = {**options, "bounds": bounds, "seed": 11, "classes": (-1, 1), "n_rados": 300}
    parts = cut(x, y, CUTS, **options)
    whole = flat.craft(x, y, **options)
    assert content(rb.merge(parts)) == content(whole)
    assert content(rb.merge([parts[k] for k in (3, 0, 4, 2, 1)])) == content(whole)
    assert content(rb.merge([rb.merge(parts[:2]), rb.merge(parts[2:])])) == content(whole)


@pytest.mark.parametrize("form", ["sparse", "classes", "weights", "reference", "one thread", "mapped", "shared"])
def test_every_way_to_sum_follows_the_numbers_of_rows(table, form, rng):
    from scipy.sparse import csr_matrix

    x, y = table
    options = {"scale": "bounds", "bounds": BOUNDS, "seed": 5, "n_rados": 70, "classes": (-1, 1)}
    if form == "sparse":
        x, options["scale"] = csr_matrix(np.where(rng.random(x.shape) < 0.3, x.clip(-2, 2), 0.0)), None
        options["bounds"] = dict.fromkeys(BOUNDS, (-2, 2))
    elif form == "classes":
        y, options["classes"] = rng.integers(0, 3, len(y)), (0, 1, 2)
    elif form in ("reference", "one thread"):
        options |= {"engine": "reference"} if form == "reference" else {"threads": 1}
    elif form == "shared":
        options["share"] = ["x1"]
    elif form == "mapped":
        options["columns"] = "degree-2"
    x = x if form == "sparse" else np.clip(x, [-3, 0, -4], [3, 40, -2])
    if form == "weights":
        weights = rng.integers(0, 4, len(y))
        places = np.append(0, np.cumsum(weights))
        parts = [
            flat.craft(x[i:j], y[i:j], weights=weights[i:j], first_row=int(places[i]), **options)
            for i, j in pairwise((0, 77, 190, 300))
        ]
        assert content(rb.merge(parts)) == content(flat.craft(x, y, weights=weights, **options))
    else:
        assert content(rb.merge(cut(x, y, (0, 77, 190), **options))) == content(flat.craft(x, y, **options))


def test_parts_of_a_dask_cluster_are_numbered_too(table, tmp_path):
    distributed = pytest.importorskip("distributed")
    x, y = table
    names = ["x0", "x1", "x2"]
    files = []
    for k, (i, j) in enumerate(pairwise((0, 90, 150, 300))):
        files.append(str(tmp_path / f"{k}.parquet"))
        columns = {name: x[i:j, c].clip(*BOUNDS[name]) for c, name in enumerate(names)}
        pq.write_table(pa.table({**columns, "y": y[i:j]}), files[-1], row_group_size=40)
    options = {"label": "y", "scale": "bounds", "bounds": BOUNDS, "seed": 5, "n_rados": 20, "classes": (-1, 1)}
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        parts = [
            flat.craft(files[:2], cluster=client, **options),
            flat.craft(files[2:], cluster=client, first_row=150, **options),
        ]
    assert content(rb.merge(parts)) == content(flat.craft(files, **options))


def test_a_first_row_is_in_the_release_and_attacks_with_the_seed_know_it(table):
    x, y = table
    release = rb.craft(x, y, seed=3, n_rados=40, mechanism=rb.Plain(first_row=1001))
    assert release.signatures == {"name": "all", "first_row": 1001}
    bits, edges = seed_inclusion_bits(release, 3, len(y)), table_edge_vectors(release, x, y)
    np.testing.assert_array_equal(bits @ edges, rado_integers(release))
    merged = rb.merge([release, rb.craft(x, y, seed=3, n_rados=40, mechanism=rb.Plain(first_row=1301))])
    assert merged.signatures == {"name": "all", "first_row": 1001} and merged.n_examples == 600
    apart = rb.merge([release, rb.craft(x, y, seed=3, n_rados=40, mechanism=rb.Plain(first_row=1302))])
    assert apart.signatures == {"name": "all"}
    with pytest.raises(rb.ArgumentError, match="do not have one seed"):
        seed_inclusion_bits(apart, 3, 600)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"first_row": 5}, "give that seed too"),
        ({"first_row": -1, "seed": 1}, "between 0 and"),
        ({"first_row": 1.5, "seed": 1}, "whole number"),
        ({"first_row": 5, "seed": 1, "signatures": rb.FixedSupport(0.5)}, "no coins of their own"),
    ],
)
def test_first_rows_that_mean_nothing_are_refused(options, words):
    with pytest.raises(rb.ArgumentError, match=words):
        flat.craft([[0.0], [1.0], [0.0], [1.0]], [0, 1, 1, 0], classes=(0, 1), n_rados=2, **options)


# ---- independent keys, and constants that differ


def test_z_scores_are_converted_to_those_of_all_rows(table):
    """With one seed rados differ from those of the whole table by what was rounded to other grids alone."""
    x, y = table
    parts = cut(x, y, (0, 40, 220), seed=9, n_rados=50)
    merged, whole = rb.merge(parts), rb.craft(x, y, seed=9, n_rados=50)
    for mine, central in zip(merged.columns[:-1], whole.columns[:-1], strict=True):
        assert mine.mean == pytest.approx(central.mean, rel=1e-13, abs=1e-13)
        assert mine.std == pytest.approx(central.std, rel=1e-13)
        assert central.step <= mine.step <= 8 * central.step
    # Each row was rounded by half a step of its holder's grid at most.
    steps = np.array([column.step for column in merged.columns])
    assert (np.abs(merged.rados - whole.rados) <= 300 * steps).all()
    np.testing.assert_array_equal(merged.rados[:, -1], whole.rados[:, -1])
    assert (merged.rados / steps == np.rint(merged.rados / steps)).all()
    assert merged.rados.tobytes() == rb.merge(parts[::-1]).rados.tobytes()


def test_a_column_that_one_holder_has_one_value_of(table):
    x, y = table
    x = x.copy()
    x[:100, 1] = 7.0
    parts = cut(x, y, (0, 100), seed=9, n_rados=50)
    assert (parts[0].columns[1].std, parts[0].columns[1].step) == (1.0, 1.0)
    merged, whole = rb.merge(parts), rb.craft(x, y, seed=9, n_rados=50)
    assert merged.columns[1].std == pytest.approx(whole.columns[1].std, rel=1e-13)
    np.testing.assert_allclose(merged.rados, whole.rados, atol=300 * max(c.step for c in merged.columns))


def test_grids_that_differ_give_the_finest_on_which_sums_are_exact():
    x = np.array([[1.0], [0.25], [100.0], [77.0], [0.0], [0.0]])
    y = np.array([1, -1, 1, -1, 1, -1])
    parts = cut(x, y, (0, 2, 4), scale=None, seed=4, n_rados=4)
    steps = [part.columns[0].step for part in parts]
    assert steps == [2.0**-22, 2.0**-15, 1.0]  # the last has zeros alone
    merged = rb.merge(parts)
    assert merged.columns[0].step == 2.0**-22
    np.testing.assert_array_equal(merged.rados, sum(part.rados for part in parts))
    huge = cut(x * [[1.0], [1.0], [2.0**60], [2.0**60], [1.0], [1.0]], y, (0, 2, 4), scale=None, seed=4, n_rados=4)
    merged = rb.merge(huge)
    rados = merged.rados[:, 0]
    assert np.abs(rados / merged.columns[0].step).max() < 2.0**53
    np.testing.assert_allclose(rados, sum(part.rados for part in huge)[:, 0], atol=merged.columns[0].step)


def test_independent_keys_have_the_law_of_the_whole_table(table):
    """Of a two-sided test on the mean of each of 4 columns at 5.5 deviations: false alarms below 4 * 4e-8."""
    x, y = table
    parts = [rb.craft(x[i:j], y[i:j], n_rados=4000) for i, j in pairwise((0, 40, 220, 300))]
    merged = rb.merge(parts)
    edges = np.column_stack([c.apply(x[:, k]) if k < 3 else y / y for k, c in enumerate(merged.columns)]) * y[:, None]
    mean, covariance = edges.sum(axis=0) / 2, edges.T @ edges / 4
    deviations = np.sqrt(np.diag(covariance) / 4000)
    assert (np.abs(merged.rados.mean(axis=0) - mean) < 5.5 * deviations).all()
    # An entry of a covariance of 4000 rows is off by sqrt(2 / 4000) of the variances at most, in one deviation.
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert (np.abs(np.cov(merged.rados.T) - covariance) < 5.5 * np.sqrt(2 / 4000) * scale).all()


# ---- pooled moments


@pytest.mark.parametrize("n_classes", [2, 3])
def test_pooled_moments_are_sums_of_moments(table, rng, n_classes):
    x, y = table
    y = y if n_classes == 2 else rng.integers(0, 3, len(y))
    options = {"bounds": BOUNDS, "scale": "bounds", "classes": tuple(np.unique(y).tolist())}
    x = np.clip(x, [-3, 0, -4], [3, 40, -2])
    parts = [
        flat.craft(x[i:j], y[i:j], n_rados=n, **options)
        for (i, j), n in zip(pairwise((0, 40, 220, 300)), (30, 100, 64), strict=True)
    ]
    merged = rb.merge(parts)
    assert (merged.law, merged.n_rados, merged.n_examples) == ("pooled sums", 194, 300)
    for name, rows in merged.blocks.items():
        own = [part.blocks[name] for part in parts]
        np.testing.assert_allclose(rows.mean(axis=0), sum(part.mean(axis=0) for part in own), atol=1e-5)
        np.testing.assert_allclose(np.cov(rows.T), sum(np.cov(part.T) for part in own), atol=1e-3)
        steps = np.array([column.step for column in merged.columns])
        assert (rows / steps == np.rint(rows / steps)).all()
    again = rb.merge([rb.merge(parts[:2], how="moments"), parts[2]], how="moments")
    for name, rows in again.blocks.items():
        np.testing.assert_allclose(np.cov(rows.T), np.cov(merged.blocks[name].T), atol=1e-3)
    assert len(again.statement.holders.parts) == 3


def test_sums_of_shared_columns_are_converted_and_pooled_beside_the_rados(table):
    def side_by_side(release):
        return np.hstack([release.blocks["rados"], release.blocks["shared"]])

    x, y = table
    options = {"seed": 2, "n_rados": 50, "share": ["x1"]}
    merged, whole = rb.merge(cut(x, y, (0, 90), **options)), flat.craft(x, y, **options)
    assert merged.block_columns == {"shared": ("x1", "(constant)")}
    steps = max(column.step for column in merged.columns)
    np.testing.assert_allclose(side_by_side(merged), side_by_side(whole), atol=300 * steps)
    bounds = {name: (-9, 99) for name in BOUNDS}
    parts = cut(x, y, (0, 90), **options, scale="bounds", bounds=bounds)
    pooled, sums = rb.merge(parts, how="moments"), sum(np.cov(side_by_side(part).T) for part in parts)
    np.testing.assert_allclose(np.cov(side_by_side(pooled).T), sums, atol=1e-3)


@pytest.mark.parametrize(("learner", "how", "n_classes"), [
    (rb.MomentsClassifier, "sum", 2), (rb.RadoBoostClassifier, "moments", 2), (rb.MomentsClassifier, "moments", 3),
])  # fmt: skip
def test_learners_and_words_take_merged_releases(table, learner, how, n_classes, tmp_path):
    x, y = table
    y = y if n_classes == 2 else np.digitize(x[:, 0], [-0.5, 0.5])
    parts = [rb.craft(x[i:j], y[i:j], n_rados=400) for i, j in pairwise((0, 150, 300))]
    merged = rb.merge(parts, how)
    merged.save(tmp_path / "m.rado.parquet")
    loaded = rb.load(tmp_path / "m.rado.parquet")
    assert content(loaded) == content(merged) and loaded.statement.to_json() == merged.statement.to_json()
    classifier, alone = (learner().fit_rados(release) for release in (loaded, rb.craft(x, y, seed=0, n_rados=400)))
    # A wrong scale or intercept would change every third class.
    assert (classifier.predict(x) == alone.predict(x)).mean() > 0.8
    np.testing.assert_allclose(rb.class_shares(merged), [np.mean(y == c) for c in merged.classes], atol=0.05)
    assert "made of releases of 2 holders, merged" in describe_release(merged)
    assert "Nothing: this release carries no privacy guarantee" in describe_release(merged)


def test_attacks_refuse_pooled_moments(table):
    from radoboost.lab.attacks.exact_reconstruction import reconstruct
    from radoboost.lab.attacks.membership import membership_of_release

    x, y = table
    merged = rb.merge([rb.craft(x[:150], y[:150], n_rados=20), rb.craft(x[150:], y[150:], n_rados=30)])
    with pytest.raises(rb.ArgumentError, match="not sums of examples"):
        reconstruct(merged, seed=1)
    with pytest.raises(rb.RadoError):
        membership_of_release(merged, seconds=1)


def test_too_many_rows_are_pooled(table):
    x, y = table
    one, other = (
        replace(rb.craft(x[i:j], y[i:j], n_rados=20), n_examples=2**30 + k)
        for k, (i, j) in enumerate([(0, 99), (99, 300)])
    )
    assert rb.merge([one, other]).law == "pooled sums" and one.n_examples + other.n_examples > MAX_EXAMPLES
    with pytest.raises(rb.ArgumentError, match=r"at most 2,147,483,647 can be summed exactly.*--how moments"):
        rb.merge([one, other], how="sum")


# ---- the statement


def test_the_statement_lists_the_parts_and_says_what_merging_tells(table, tmp_path):
    x, y = table
    parts = [rb.craft(x[i:j], y[i:j], n_rados=20) for i, j in pairwise((0, 50, 120, 300))]
    parts[0].save(tmp_path / "a.rado.parquet")
    merged = rb.merge([tmp_path / "a.rado.parquet", *parts[1:]])
    statement = merged.statement
    assert statement.epsilon == float("inf") and not statement.promises and statement.neighbours == "any two tables"
    entries = statement.holders.parts
    assert statement.holders.how == "merged" and [entry["rows"] for entry in entries] == [50, 70, 180]
    assert [entry["id"] for entry in entries] == [part.id for part in parts]
    assert entries[0]["digest"] == parts[0].digest and entries[1]["digest"] is None
    text = " ".join(statement.not_protected)
    assert "by subtraction" in text and "mean and standard deviation of every column" in text and "seed" not in text
    assert merged.id == rb.merge(parts[::-1]).id != rb.merge(parts, how="moments").id
    seeded = rb.merge(cut(x, y, (0, 50), seed=1, n_rados=20))
    assert seeded.id == "" and any("solve for each other's rows" in line for line in seeded.statement.not_protected)
    json.dumps(merged.to_dict(), allow_nan=False)


# ---- refusals


def refusals(x, y):
    """Releases that do not go together, and what is said about them."""

    def made(part=slice(0, 150), labels=y, table=x, **options):
        return flat.craft(table[part], labels[part], **{"n_rados": 16, **options})

    rest = slice(150, 300)
    one = made()
    bounds = {"scale": "bounds", "bounds": {"x0": (-9, 9), "x1": (-9, 99), "x2": (-9, 9)}}
    others = {**bounds, "bounds": {**bounds["bounds"], "x1": (0, 99)}}
    clipped = {"scale": "standard", **{"bounds": bounds["bounds"]}}
    named = {"a": x[:, 0], "b": x[:, 1]}
    private = {"mechanism": rb.Moments(1.0), "classes": (-1, 1), "n_rados": None, "bounds": bounds["bounds"]}
    yield "one release", [one], "at least two releases"
    yield "a path alone", "a.rado.parquet", "in a list"
    yield "no release", [one, 5], "one is a int"
    yield "equal seeds", [made(seed=1), made(rest, seed=1)], "signatures would repeat.*--set first_row=150"
    yield "overlapping rows", [made(seed=1, first_row=9), made(rest, seed=1, first_row=158)], "from 158 on"
    yield (
        "overlap within",
        [
            rb.merge([made(seed=1), made(rest, seed=1, first_row=150)]),
            made(rest, seed=1, first_row=299, scale="standard"),
        ],
        "signatures would repeat",
    )
    yield "other bounds", [made(**bounds), made(rest, **others)], "'x1' has the bounds -9 to 99.* and 0 to 99"
    yield "bounds and none", [made(**clipped), made(rest)], "'x0' has the bounds -9 to 9"
    yield "other scales", [one, made(rest, scale=None)], "'x0' is scaled"
    yield "other classes", [one, made(rest, y == 1)], "classes"
    yield "classes turned", [one, made(rest, classes=(1, -1))], "in the same order"
    yield "other columns", [
        rb.craft({**named}, y, n_rados=16), rb.craft({"a": x[:, 0], "c": x[:, 1]}, y, n_rados=16)
    ], "'b' is in one alone"  # fmt: skip
    yield "columns turned", [
        rb.craft({**named}, y, n_rados=16), rb.craft({"b": x[:, 1], "a": x[:, 0]}, y, n_rados=16)
    ], "another order"  # fmt: skip
    yield (
        "no constant column",
        [made(intercept=False), made(rest, intercept=False)],
        "there is none.*set intercept=no",
    )
    yield "the same release", [one, one], "are one release"
    yield "a part again", [rb.merge([one, made(rest)]), one], "have one in common"
    yield "private", [made(**private), made(rest, **private)], "private release.*rado learn A B C.*rado room"
    yield "a mix", [one, made(rest, **private)], "release 2 is a private release"
    noisy = {"mechanism": rb.NoisyRados(1.0), "classes": (-1, 1), "bounds": bounds["bounds"], "seed": 3, "i_know": True}
    yield "noisy rados", [made(**noisy), made(rest)], "only plain rados add up"
    yield "fixed supports", [one, made(rest, signatures=rb.FixedSupport(0.5))], "leave --signatures out"
    yield "other maps", [made(columns="degree-2"), made(rest, columns="degree-2")], "different constants"
    gaps = np.where(np.arange(300) % 7, x[:, 0], np.nan)
    schemas = [
        rb.craft({"a": gaps[part].tolist()}, y[part], schema=rb.Schema({"a": number}), n_rados=16)
        for part, number in ((slice(0, 150), rb.Number(-9, 9, gaps=True)), (rest, rb.Number(-9, 8, gaps=True)))
    ]
    yield "other schemas", schemas, "different schemas"
    yield "one table", [one, made(compose=[one])], "are of one table"
    yield "other shared columns", [made(share=["x0"]), made(rest, share=["x1"])], "the same --set shared"
    yield "numbers of rados", [one, made(rest, n_rados=17)], None
    yield "one rado", [one, made(rest, n_rados=1)], "one rado only"


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_what_does_not_go_together_is_refused_by_name(table):
    for name, releases, words in refusals(*table):
        how = "auto" if words else "sum"
        with pytest.raises(rb.ArgumentError) as caught:
            rb.merge(releases, how)
        assert "\n" not in str(caught.value) and re.search(words or "different numbers of rados", str(caught.value)), (
            name
        )


def test_an_unknown_way_is_refused(table):
    with pytest.raises(rb.ArgumentError, match="'stack'"):
        rb.merge([rb.craft(*table, n_rados=4)] * 2, "stack")


# ---- the command


def test_the_command_merges_files(rado, table):
    x, y = table
    for name, part in (("north", slice(0, 100)), ("south", slice(100, 300))):
        rb.craft(x[part], y[part], n_rados=30).save(f"{name}.rado.parquet")
    code, out, err = rado("merge", "north.rado.parquet", "south.rado.parquet")
    assert code == 0 and out.startswith("wrote merged.rado.parquet\n30 rados of 4 features, from 300 examples"), err
    code, out, _ = rado("merge", "north.rado.parquet", "south.rado.parquet", "--how", "moments", "-o", "m.pq", "--json")
    document = json.loads(out)
    assert code == 0 and document["n_examples"] == 300 and document["mechanism"]["law"] == "pooled sums"
    assert [part["rows"] for part in document["statement"]["holders"]["parts"]] == [100, 200]
    code, out, err = rado("merge", "north.rado.parquet", "north.rado.parquet", "-o", "twice.rado.parquet")
    assert code == 1 and err.count("\n") == 1 and "north.rado.parquet" in err and not out
    code, _, err = rado("merge", "north.rado.parquet", "south.rado.parquet", "-o", "north.rado.parquet")
    assert code == 1 and "one of the files to read" in err
    code, out, _ = rado("learn", "merged.rado.parquet")
    assert code == 0
    code, out, err = rado("learn", "north.rado.parquet", "south.rado.parquet")
    assert code == 1 and "rado merge A B C" in err


def test_the_command_numbers_rows(rado, clinic):
    lines = clinic.read_text().splitlines()
    write_schema("b.json", {"age": (0, 100), "dose": (0, 1)})
    for name, rows in (("a", lines[1:21]), ("b", lines[21:]), ("all", lines[1:])):
        with open(f"{name}.csv", "w") as file:
            file.write("\n".join([lines[0], *rows]) + "\n")
    common = [
        "--label",
        "readmitted",
        "--classes",
        "no,yes",
        "--schema",
        "b.json",
        "--set",
        "scale=bounds",
        "--seed",
        "1",
    ]
    for name, first in (("a", 0), ("b", 20), ("all", 0)):
        code, _, err = rado("craft", f"{name}.csv", *common, "--set", f"first_row={first}", "-n", 50)
        assert code == 0, err
    assert rado("merge", "b.rado.parquet", "a.rado.parquet")[0] == 0
    assert content(rb.load("merged.rado.parquet")) == content(rb.load("all.rado.parquet"))
