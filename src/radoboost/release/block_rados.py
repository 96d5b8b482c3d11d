"""Block rados: sums of edge vectors over everybody who is alike in what two holders share, and in the label.

They are the baseline of Patrini, Nock, Hardy and Caetano (2016). A block of one person is that person's row in the
clear. So nothing is promised, and there is no file format for them: `Release` is what leaves a building.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.release import Statement
from radoboost.release.columns import Column
from radoboost.tables.schema import Schema


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
