"""Block rados of one holder's table: everybody who is alike in the shared columns and the label, summed.

Two holders of the same people make them with the same cuts, and nobody matches rows: blocks have the same numbers. This
is the paper's baseline for `join` (Patrini, Nock, Hardy and Caetano 2016). It promises nothing, and neither does the
floor on how many people a block has: anyone who knows all but one of a block knows that one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import ArgumentError, TableError
from radoboost.holder.declared import Bounds, declaration
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.grid import make_columns
from radoboost.holder.mechanisms import Asked, Circumstances
from radoboost.holder.mechanisms.claims import DEFAULT_DELTA, make_statement
from radoboost.holder.mechanisms.plain import exposed_by_scale
from radoboost.holder.mechanisms.two_passes import survey
from radoboost.holder.raw_tables import open_source
from radoboost.holder.run import Run
from radoboost.holder.runners.threads import Threads, check_threads
from radoboost.privacy import NotPrivate, Relation
from radoboost.progress import no_progress, show_progress
from radoboost.release import Statement
from radoboost.release.block_rados import BlockRados
from radoboost.release.columns import Column
from radoboost.tables import Batch, Source
from radoboost.tables.columns import listed
from radoboost.tables.labels import LabelRule
from radoboost.tables.streams import at_rest

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
class BlockSums:
    """How many people each block has, and the sum of their rows."""

    counts: NDArray[np.int64]
    totals: NDArray[np.int64]

    def merge(self, other: "BlockSums") -> "BlockSums":
        return BlockSums(self.counts + other.counts, self.totals + other.totals)


@dataclass(frozen=True, eq=False)
class SumBlocks:
    """Edge vectors on the grid, summed by block; `cuts` pairs the place of each binned column with its cuts."""

    engine: Engine
    columns: tuple[Column, ...]
    rule: LabelRule
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
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    schema: Bounds = None,
    bounds: Bounds = None,
    scale: str | None = "auto",
    least: int = LEAST,
    engine: str | Engine = "auto",
    threads: int | None = None,
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
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        raise ArgumentError(f"least must be a whole number of at least 1; it is {least!r}")
    chosen = _checked_cuts(cuts)
    asked = Asked(
        n_rados=1,
        signature_key=b"",
        **declaration(schema, bounds, y, label, classes, features, drop),
        scale=scale,
        columns="linear",
    )
    machine, workers = get_engine(engine), check_threads(threads)
    with (show_progress if progress else no_progress)() as bar, at_rest(table, bar=bar) as kept:
        source = open_source(kept, y, asked)
        places = _places(chosen, source)
        run = Run(source, machine, Threads(workers, bar))
        facts = survey(asked, run)
        if facts.rule.n_classes != 2:
            raise TableError(f"block rados are for two classes, and there are {facts.rule.n_classes}")
        columns = make_columns(source.features, facts.scale, facts.limits, facts.exact, intercept=True)
        task = SumBlocks(machine, columns, facts.rule, places)
        if task.n_blocks > MOST_BLOCKS:
            raise ArgumentError(f"the cuts make {task.n_blocks:,} blocks, and {MOST_BLOCKS:,} is the most; cut less")
        memory.require(2 * task.worker_bytes, f"{task.n_blocks:,} blocks", "cut less")
        sums = run.sum(task)
    there = np.flatnonzero(sums.counts)
    _check_floor(sums.counts[there], least)
    return BlockRados(
        there,
        sums.counts[there],
        sums.totals[there] * np.array([column.step for column in columns]),
        chosen,
        columns,
        tuple(facts.rule.classes),
        _statement(facts.scale, len(there), len(columns), facts.exact.n_rows),
        source.schema,
    )


def _checked_cuts(cuts: Any) -> dict[str, tuple[float, ...]]:
    """Cuts by column, in ascending order."""
    if not isinstance(cuts, Mapping):
        raise ArgumentError('cuts must be a mapping of shared columns to numbers, such as {"age": [30, 50, 70]}')
    chosen = {name: tuple(float(cut) for cut in (() if values is None else values)) for name, values in cuts.items()}
    for name, values in chosen.items():
        if list(values) != sorted(set(values)) or not np.isfinite(values).all():
            raise ArgumentError(f"the cuts of {name!r} must be finite numbers in ascending order; they are {values}")
    return chosen


def _places(cuts: Mapping[str, tuple[float, ...]], source: Source) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """Where each binned column is among the features, in the order of `cuts`, and how it is cut."""
    encoded = {} if source.schema is None else {part.name: part.column for part in source.schema.encoded()}
    origins = [encoded.get(name, name) for name in source.features]
    if absent := [name for name in cuts if name not in origins]:
        raise TableError(f"{source.name} has no feature {listed(absent)} to cut; its features are {listed(origins)}")
    return tuple(
        (place, _SLOT_CUT if source.features[place] in source.groups else cuts[name])
        for name in cuts
        for place, origin in enumerate(origins)
        if origin == name
    )


def _check_floor(counts: NDArray[np.int64], least: int) -> None:
    """Refuse blocks with too few people."""
    if few := int((counts < least).sum()):
        alone = int((counts == 1).sum())
        raise TableError(
            f"{few:,} of {len(counts):,} blocks have fewer than {least} people"
            + (f", {alone:,} of them one, whose row would stand in the clear" if alone else "")
            + "; share fewer columns or cut them less, or give least= if these people need no protection"
        )


def _statement(scale: str, n_blocks: int, n_columns: int, n_people: int) -> Statement:
    statement = make_statement(
        "block-rados",
        NotPrivate("block rados promise nothing", Relation.RECORD),
        DEFAULT_DELTA,
        Circumstances(scale, False, n_blocks, n_columns, n_people),
        unit="none: nothing is promised",
        promises=(),
        not_protected=(*_NOT_PROTECTED, *exposed_by_scale(scale)),
    )
    return replace(
        statement, neighbours="any two tables", delta=0.0, epsilon_at=(), random_source="none: nothing is drawn"
    )
