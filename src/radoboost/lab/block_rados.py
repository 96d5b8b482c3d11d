"""Block rados of one holder's table: everybody who is alike in the shared columns and the label, summed.

Two holders of the same people make them with the same cuts, and nobody matches rows: blocks have the same numbers. This
is the paper's baseline for `join` (Patrini, Nock, Hardy and Caetano 2016). It promises nothing, and neither does the
floor on how many people a block has: anyone who knows all but one of a block knows that one. So there is no file
format for it: `Release` is what leaves a building.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import ArgumentError, ReleaseError, TableError, whole_number
from radoboost.holder.aggregation import AddedFields
from radoboost.holder.curator import Curator
from radoboost.holder.engines import Engine
from radoboost.holder.grid import make_grid_columns
from radoboost.holder.mechanisms import StatementFacts
from radoboost.holder.mechanisms.plain import Plain, disclosures_of_scale
from radoboost.holder.mechanisms.statements import DEFAULT_DELTA, make_statement
from radoboost.holder.mechanisms.table_survey import survey_table
from radoboost.holder.request import Compute, CraftRequest
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.table_preparation import open_prepared_table
from radoboost.learner.model import Model
from radoboost.privacy import NotPrivate, Relation
from radoboost.progress import no_progress, show_progress
from radoboost.release.columns import Column
from radoboost.release.parties import JOINED, Parties, party_sentences
from radoboost.release.release import Statement
from radoboost.tables import Batch, Table
from radoboost.tables.column_selection import list_names
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.schema import Declaration, Schema
from radoboost.tables.streams import spool_for_rereading


@dataclass(frozen=True, eq=False)
class BlockRados:
    """One sum of edge vectors for each block that has people, in ascending order of `blocks`.

    A block has a number that follows from its bins and its label: two holders with the same `cuts` number them alike.
    `counts` says how many people each has, `cuts` where each shared column is cut; those columns are among `columns`,
    and the constant is last.

    >>> import radoboost as rb
    >>> part = rb.craft_blocks([[1.0, 5.0], [2.0, 3.0], [3.0, 1.0]], [0, 1, 1], cuts={"x1": [2.0]}, least=1)
    >>> part.counts.tolist(), part.sums.shape, part.statement.epsilon
    ([1, 1, 1], (3, 3), inf)
    """

    blocks: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    cuts: Mapping[str, tuple[float, ...]]
    columns: tuple[Column, ...]
    classes: tuple[object, ...]
    statement: Statement
    schema: Schema | None = None

    @property
    def n_people(self) -> int:
        """How many people there are in all blocks."""
        return int(self.counts.sum())


LEAST = 20
MOST_BLOCKS = 1 << 20
_SLOT_CUT = (0.5,)  # between the 0 and the 1 of a category's slot
_NOT_PROTECTED = (
    "A block is everybody who is alike in the shared columns, as they are cut, and in the label: its sum stands there "
    "in the clear, and so does how many people it has. A block of one person is that person's row.",
    "That no block has fewer people than a floor promises nothing: anyone who knows all others of a block knows the "
    "last one, and two sets of blocks differ by single people.",
)


@dataclass
class BlockSums(AddedFields):
    """How many people each block has, and the sum of their rows."""

    counts: NDArray[np.int64]
    totals: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SumBlocks:
    """Edge vectors on the grid, summed by block; `cuts` pairs the place of each binned column with its cuts."""

    engine: Engine
    columns: tuple[Column, ...]
    rule: LabelEncoder
    cuts: tuple[tuple[int, tuple[float, ...]], ...]

    title = "summing blocks"
    rows_at_a_time = None

    @property
    def n_blocks(self) -> int:
        """How many blocks there may be: bins of all columns, times the two classes."""
        return 2 * math.prod(len(cuts) + 1 for _, cuts in self.cuts)

    @property
    def worker_bytes(self) -> int:
        return 8 * self.n_blocks * (len(self.columns) + 1)

    def empty(self) -> BlockSums:
        return BlockSums(np.zeros(self.n_blocks, np.int64), np.zeros((self.n_blocks, len(self.columns)), np.int64))

    def add(self, sums: BlockSums, first_row: int, batch: Batch) -> None:
        values, signs = batch.values(), self.rule.signs(batch.labels, batch.place)
        blocks = (signs > 0).astype(np.int64)
        for place, cuts in self.cuts:
            blocks = blocks * (len(cuts) + 1) + np.searchsorted(cuts, values[:, place], side="right")
        rows, _ = self.engine.snap(values, signs, self.columns)
        np.add.at(sums.counts, blocks, 1)
        np.add.at(sums.totals, blocks, rows[:, : len(self.columns)])


def craft_blocks(
    table: Any,
    y: Any = None,
    *,
    cuts: Mapping[str, Sequence[float]],
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    schema: Declaration = None,
    mechanism: Plain | None = None,
    least: int = LEAST,
    compute: Compute = Compute(),  # noqa: B008 - it is frozen
    progress: bool = False,
) -> BlockRados:
    """Block rados of a table, the baseline of Patrini et al. (2016): sums of edge vectors over alike people.

    `cuts` names the columns that both holders have, and where each is cut into bins, by public knowledge and alike at
    both: a value that equals a cut is in the bin above it. A category is cut by its values, whatever is given for it.
    Blocks that have people, and fewer than `least`, are refused; a floor promises nothing, and the statement says so.
    All other arguments are those of `craft`; the schema, if there is one, is complete.

    >>> import numpy as np, radoboost as rb
    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> part = rb.craft_blocks(x, x.sum(axis=1) > 0, cuts={"x0": [0.0]})
    >>> len(part.counts), part.n_people
    (4, 400)
    """
    whole_number(least, "least")
    chosen = _check_block_cuts(cuts)
    asked = CraftRequest.of(
        schema, Plain() if mechanism is None else mechanism, y=y, label=label, classes=classes, columns="linear"
    )
    machine, workers = compute.machine()
    with (show_progress if progress else no_progress)() as bar, spool_for_rereading(table, bar=bar) as kept:
        source = open_prepared_table(kept, y, asked)
        places = _cut_places(chosen, source)
        run = Curator(source, machine, ThreadRunner(workers, bar))
        facts = survey_table(asked, run)
        if facts.rule.n_classes != 2:
            raise TableError(f"block rados are for two classes, and there are {facts.rule.n_classes}")
        columns = make_grid_columns(source.features, facts.scale, facts.limits, facts.exact, intercept=True)
        task = SumBlocks(machine, columns, facts.rule, places)
        if task.n_blocks > MOST_BLOCKS:
            raise ArgumentError(f"the cuts make {task.n_blocks:,} blocks, and {MOST_BLOCKS:,} is the most; cut less")
        memory.require_memory(2 * task.worker_bytes, f"{task.n_blocks:,} blocks", "cut less")
        sums = run.sum(task)
    there = np.flatnonzero(sums.counts)
    _refuse_small_blocks(sums.counts[there], least)
    return BlockRados(
        there, sums.counts[there], sums.totals[there] * np.array([column.step for column in columns]), chosen, columns,
        tuple(facts.rule.classes), _block_statement(facts.scale, len(there), len(columns), facts.exact.n_rows),
        source.schema,
    )  # fmt: skip


def _check_block_cuts(cuts: Any) -> dict[str, tuple[float, ...]]:
    """Cuts by column, in ascending order."""
    if not isinstance(cuts, Mapping):
        raise ArgumentError('cuts must be a mapping of shared columns to numbers, such as {"age": [30, 50, 70]}')
    chosen = {name: tuple(float(cut) for cut in (() if values is None else values)) for name, values in cuts.items()}
    for name, values in chosen.items():
        if list(values) != sorted(set(values)) or not np.isfinite(values).all():
            raise ArgumentError(f"the cuts of {name!r} must be finite numbers in ascending order; they are {values}")
    return chosen


def _cut_places(cuts: Mapping[str, tuple[float, ...]], source: Table) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """Where each binned column is among the features, in the order of `cuts`, and how it is cut."""
    encoded = {} if source.schema is None else {part.name: part.column for part in source.schema.encoded()}
    origins = [encoded.get(name, name) for name in source.features]
    if absent := [name for name in cuts if name not in origins]:
        raise TableError(
            f"{source.name} has no feature {list_names(absent)} to cut; its features are {list_names(origins)}"
        )
    return tuple(
        (place, _SLOT_CUT if source.features[place] in source.groups else cuts[name])
        for name in cuts
        for place, origin in enumerate(origins)
        if origin == name
    )


def _refuse_small_blocks(counts: NDArray[np.int64], least: int) -> None:
    if few := int((counts < least).sum()):
        alone = int((counts == 1).sum())
        raise TableError(
            f"{few:,} of {len(counts):,} blocks have fewer than {least} people"
            + (f", {alone:,} of them one, whose row would stand in the clear" if alone else "")
            + "; share fewer columns or cut them less, or give least= if these people need no protection"
        )


def _block_statement(scale: str, n_blocks: int, n_columns: int, n_people: int) -> Statement:
    statement = make_statement(
        "block-rados", NotPrivate("block rados promise nothing", Relation.RECORD), DEFAULT_DELTA,
        StatementFacts(scale, False, n_blocks, n_columns, n_people), unit="none: nothing is promised", promises=(),
        not_protected=(*_NOT_PROTECTED, *disclosures_of_scale(scale)),
    )  # fmt: skip
    return replace(
        statement, neighbours="any two tables", delta=0.0, epsilon_at=(), random_source="none: nothing is drawn"
    )


# ---- A classifier from the block rados of two holders, and one with weights. B has a row for each block: one holder's
# own columns, the other's, the shared ones and the constant. Every sum of blocks is a rado of the matched table,
# and the mean-variance loss over all of them is least at theta = (B'B + lambda I)^-1 B'1: ridge regression on the
# matched table, with one person in each block. Weighted, B'B has each block divided by its number of people.

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
    _check_blocks_alike(left, right)
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
            f"both holders have {list_names(twice)}, and it is not cut; cut it at both, or leave it out at one"
        )
    blocks = np.column_stack([left.sums[:, own[0]], right.sums[:, own[1]], left.sums[:, [*common, -1]]])
    second = blocks.T @ (blocks / left.counts[:, None] if weighted else blocks)
    second += ridge * float(np.trace(second)) / len(second) * np.eye(len(second))
    theta = np.linalg.lstsq(second, blocks.sum(axis=0), rcond=None)[0]
    columns = [part.columns[k] for part, places in zip((left, right), own, strict=True) for k in places]
    learner = {"name": "block rados, weighted" if weighted else "block rados", "ridge": float(ridge)}
    origin = {"n_rados": len(blocks), "n_examples": left.n_people, "mechanism": {"name": left.statement.mechanism},
              "signatures": {"name": "blocks"}}  # fmt: skip
    parts = [
        {"columns": [part.columns[k].name for k in places]} for part, places in zip((left, right), own, strict=True)
    ]
    said = left.statement, right.statement
    statement = replace(
        said[0], holders=Parties(JOINED, parts),
        not_protected=tuple(dict.fromkeys([*said[0].not_protected, *said[1].not_protected])),
        trust_model=party_sentences([one.trust_model for one in said]),
        random_source=party_sentences([one.random_source for one in said]),
    )  # fmt: skip
    columns += [left.columns[k] for k in [*common, -1]]
    return Model(theta, tuple(columns), left.classes, learner, origin, statement)


def _check_blocks_alike(left: BlockRados, right: BlockRados) -> None:
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
