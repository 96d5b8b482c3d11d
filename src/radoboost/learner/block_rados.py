"""A classifier from the block rados of two holders: Patrini, Nock, Hardy and Caetano (2016), and one with weights.

B has a row for each block: the left holder's own columns, the right one's, the shared ones and the constant. Every sum
of blocks is a rado of the matched table, and the mean-variance loss over all of them is least at

    theta = (B'B + lambda I)^-1 B'1

With one person in each block that is ridge regression on the matched table. Weighted, B'B has each block divided by its
number of people: the second moments that `completion` would have if blocks were all that holders share.
"""

from dataclasses import replace

import numpy as np

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.learner.model import Model
from radoboost.release.block_rados import BlockRados
from radoboost.release.holders import JOINED, Holders, either
from radoboost.tables.columns import listed

RIDGE = 3.0
WEIGHTED_RIDGE = 0.3
"""Each one for all tables, as a share of the mean of the diagonal: those with the fewest errors on average over the
nine domains of benchmarks/holders_join.py, in their favour."""


def learn_blocks(left: BlockRados, right: BlockRados, *, weighted: bool = False, ridge: float | None = None) -> Model:
    """A classifier from block rados of the same people at two holders: `weighted` divides blocks by their people.

    `ridge` is lambda as a share of the mean of the diagonal of B'B. Nothing tells which is good without matched rows,
    and errors depend on it much; see `join` for what depends on it less.

    >>> import numpy as np, radoboost as rb
    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> y, names = x.sum(axis=1) > 0, ["a", "b", "c"]
    >>> tables = [dict(zip(["a", name], x[:, [0, k]].T)) for k, name in ((1, "b"), (2, "c"))]
    >>> parts = [rb.craft_blocks(table, y, cuts={"a": [-1.0, 0.0, 1.0]}, least=1) for table in tables]
    >>> rb.learn_blocks(*parts).feature_names
    ('b', 'c', 'a')
    """
    _check_alike(left, right)
    ridge = (WEIGHTED_RIDGE if weighted else RIDGE) if ridge is None else ridge
    if not ridge >= 0:
        raise ArgumentError(f"ridge must be a number of at least 0; it is {ridge!r}")
    shared = set(left.cuts)
    own = [[k for k, column in enumerate(part.columns[:-1]) if column.name not in shared] for part in (left, right)]
    common = [k for k, column in enumerate(left.columns[:-1]) if column.name in shared]
    names = [part.columns[k].name for part, places in zip((left, right), own, strict=True) for k in places]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ReleaseError(
            f"both holders have {listed(twice)}, and it is not cut; cut it at both, or leave it out at one"
        )
    blocks = np.column_stack([left.sums[:, own[0]], right.sums[:, own[1]], left.sums[:, [*common, -1]]])
    second = blocks.T @ (blocks / left.counts[:, None] if weighted else blocks)
    second += ridge * float(np.trace(second)) / len(second) * np.eye(len(second))
    theta = np.linalg.lstsq(second, blocks.sum(axis=0), rcond=None)[0]
    columns = [part.columns[k] for part, places in zip((left, right), own, strict=True) for k in places]
    learner = {"name": "block rados, weighted" if weighted else "block rados", "ridge": float(ridge)}
    origin = {
        "n_rados": len(blocks),
        "n_examples": left.n_people,
        "mechanism": {"name": left.statement.mechanism},
        "signatures": {"name": "blocks"},
    }
    parts = [
        {"columns": [part.columns[k].name for k in places]} for part, places in zip((left, right), own, strict=True)
    ]
    exposed = tuple(dict.fromkeys([*left.statement.not_protected, *right.statement.not_protected]))
    statement = replace(
        left.statement,
        not_protected=exposed,
        trust_model=either([left.statement.trust_model, right.statement.trust_model]),
        random_source=either([left.statement.random_source, right.statement.random_source]),
        holders=Holders(JOINED, parts),
    )
    columns += [left.columns[k] for k in [*common, -1]]
    return Model(theta, tuple(columns), left.classes, learner, origin, statement)


def _check_alike(left: BlockRados, right: BlockRados) -> None:
    """Refuse block rados that are not of the same people, cut and coded alike."""
    if left.schema is not None or right.schema is not None:
        raise ReleaseError(
            "block rados are put together over columns of numbers; encode others yourself, at both alike"
        )
    if left.classes != right.classes:
        raise ReleaseError(
            f"the classes are coded differently: {left.classes} on the left, {right.classes} on the right"
        )
    if dict(left.cuts) != dict(right.cuts) or list(left.cuts) != list(right.cuts):
        raise ReleaseError("the shared columns are cut differently; give both holders the same cuts, in the same order")
    if left.blocks.tolist() != right.blocks.tolist() or left.counts.tolist() != right.counts.tolist():
        raise ReleaseError(
            "the blocks have other people on the left than on the right; block rados are for the same people at both "
            "holders, and join is for others"
        )
