"""Block rados, the baseline for columns at different holders: sums by block, the floor, and what is learned."""

from dataclasses import replace

import numpy as np
import pytest

import radoboost as rb
from radoboost.learner.moment_completion import PartMoments, complete_moments


def dealt(rng, m=800):
    """Two holders' columns, one of which both have."""
    x = rng.normal(size=(m, 3))
    y = np.where(x @ [1.0, -1.0, 0.5] + rng.normal(size=m) > 0, 1, -1)
    return x, y, [{"a": x[:, 0], name: x[:, k]} for k, name in ((1, "b"), (2, "c"))]


CUTS = {"a": [-0.5, 0.5]}


def test_a_block_sums_the_edge_vectors_of_those_who_are_alike(rng):
    x, y, (table, _) = dealt(rng)
    part = rb.craft_blocks(table, y, cuts=CUTS, mechanism=rb.Plain(scale=None))
    bins = [sum(value >= cut for cut in CUTS["a"]) for value in x[:, 0]]
    for block, count, row in zip(part.blocks, part.counts, part.sums, strict=True):
        sign, place = divmod(int(block), 3)
        inside = [i for i in range(len(x)) if bins[i] == place and (y[i] > 0) == sign]
        assert len(inside) == count
        expected = sum(y[i] * np.array([x[i, 0], x[i, 1], 1.0]) for i in inside)
        assert np.allclose(row, expected, atol=1e-3)
    assert part.n_people == 800
    assert part.statement.epsilon == np.inf
    assert any("promises nothing" in sentence for sentence in part.statement.not_protected)


def test_threads_and_categories(rng):
    x, y, (table, _) = dealt(rng)
    first = rb.craft_blocks(table, y, cuts=CUTS)
    for options in ({"compute": rb.Compute(threads=2)}, {"compute": rb.Compute("reference")}):
        assert (rb.craft_blocks(table, y, cuts=CUTS, **options).sums == first.sums).all()
    schema = rb.Schema({"w": rb.Category(("A", "B")), "b": rb.Number(-9, 9)})
    ward = np.where(x[:, 0] > 0, "A", "B")
    part = rb.craft_blocks({"w": ward, "b": x[:, 1]}, y, cuts={"w": ()}, schema=schema)
    expected = [int(((ward == w) & (y == sign)).sum()) for sign in (-1, 1) for w in ("B", "A")]
    assert part.counts.tolist() == expected


def test_few_people_in_a_block_are_refused(rng):
    _, y, (table, _) = dealt(rng, 100)
    fine = np.linspace(-2, 2, 60).tolist()
    with pytest.raises(rb.TableError, match="fewer than 20 people"):
        rb.craft_blocks(table, y, cuts={"a": fine})
    assert rb.craft_blocks(table, y, cuts={"a": fine}, least=1).counts.min() == 1


def test_with_one_person_in_each_block_it_is_ridge_regression_on_the_matched_table(rng):
    x, y, tables = dealt(rng, 50)
    cuts = {"a": sorted(x[:, 0].tolist())}
    parts = [rb.craft_blocks(table, y, cuts=cuts, least=1, mechanism=rb.Plain(scale=None)) for table in tables]
    assert (parts[0].counts == 1).all()
    edges = np.column_stack([x[:, [1, 2, 0]], np.ones(50)]) * y[:, None]
    second = edges.T @ edges
    for weighted in (False, True):
        model = rb.learn_blocks(*parts, weighted=weighted, ridge=0.1)
        expected = np.linalg.solve(second + 0.1 * np.trace(second) / 4 * np.eye(4), edges.sum(axis=0))
        assert model.feature_names == ("b", "c", "a")
        assert np.allclose(model.theta, expected, atol=1e-5)


def test_weighted_blocks_have_the_cross_moments_of_completion_by_the_label(rng):
    """Where the label is all that holders share, W are its two blocks."""
    x, y, _ = dealt(rng)
    left, right = (
        rb.craft_blocks({name: x[:, k]}, y, cuts={}, mechanism=rb.Plain(scale=None)) for k, name in ((1, "b"), (2, "c"))
    )
    cross = (left.sums[:, 0] / left.counts) @ right.sums[:, 0] / 800
    parts = [PartMoments.of_rows(x[:, [k]], x[:, :0], y.astype(float)) for k in (1, 2)]
    assert np.isclose(complete_moments(*parts)[1][0, 1], cross, atol=1e-6)
    assert np.mean(rb.learn_blocks(left, right).predict({"b": x[:, 1], "c": x[:, 2]}) != y) < 0.5


def test_the_model_carries_a_statement(rng, tmp_path):
    _, y, tables = dealt(rng)
    model = rb.learn_blocks(*(rb.craft_blocks(table, y, cuts=CUTS) for table in tables))
    model.save(tmp_path / "blocks.model.json")
    again = rb.load_model(tmp_path / "blocks.model.json")
    assert again.statement.holders.how == "joined"
    assert again.statement.epsilon == np.inf


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cuts": {"z": [0.0]}}, "no feature 'z' to cut; its features are 'a', 'b'"),
        ({"cuts": {"a": [1.0, 0.0]}}, "must be finite numbers in ascending order"),
        ({"cuts": ["a"]}, "cuts must be a mapping"),
        ({"cuts": CUTS, "least": 0}, "least must be a whole number"),
        ({"cuts": {"a": np.linspace(0, 1, 2000), "b": np.linspace(0, 1, 2000)}}, "blocks, and 1,048,576 is the most"),
    ],
)
def test_what_cannot_be_cut_is_refused(rng, options, words):
    _, y, (table, _) = dealt(rng, 60)
    with pytest.raises(rb.RadoError, match=words):
        rb.craft_blocks(table, y, **options)


def test_parts_that_do_not_go_together_are_refused(rng):
    x, y, (one, two) = dealt(rng)
    left, right = (rb.craft_blocks(table, y, cuts=CUTS) for table in (one, two))
    others = {
        "other people": rb.craft_blocks({"a": -x[:, 0], "c": x[:, 2]}, y, cuts=CUTS),
        "cut differently": rb.craft_blocks(two, y, cuts={"a": [0.0]}),
        "classes are coded differently": replace(right, classes=(0, 1)),
        "both holders have 'b', and it is not cut": rb.craft_blocks(one, y, cuts=CUTS),
    }
    for words, other in others.items():
        with pytest.raises(rb.ReleaseError, match=words):
            rb.learn_blocks(left, other)
    with pytest.raises(rb.TableError, match="block rados are for two classes"):
        rb.craft_blocks(one, np.arange(800) % 3, cuts=CUTS)


def test_a_model_of_blocks_says_whom_both_holders_trust(rng):
    _, y, tables = dealt(rng)
    left, right = (rb.craft_blocks(table, y, cuts=CUTS) for table in tables)
    right = replace(right, statement=replace(right.statement, trust_model="a server", random_source="dice"))
    said = rb.learn_blocks(left, right).statement
    assert said.trust_model == f"{left.statement.trust_model}; or a server"
    assert said.random_source == "none: nothing is drawn; or dice"
