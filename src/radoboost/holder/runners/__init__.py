"""Where passes run: a runner feeds the parts of a source to a pass and adds up what they give.

Whatever a runner does, the sums are the same to the last bit. `threads` is that of one machine, `dask` and `spark` are
those of clusters, on which `parts` says what a worker does; `clusters` finds the right one.
"""

from typing import Protocol

from radoboost.holder.passes import Pass, Readable, RowPass, S
from radoboost.tables import Source


class Runner(Protocol):
    """What a `Run` needs from a runner."""

    @property
    def threads(self) -> int:
        """How many threads to use on this machine."""

    @property
    def cluster(self) -> str:
        """What the machines are called that see the table's rows, for the statement; nothing if it is this one."""

    def expect(self, passes: int) -> None:
        """Announce how many passes there will be in all, as far as is known by now, for the progress bar."""

    def sizes(self, source: Source) -> list[int]:
        """How many rows each part of the source has, by reading them if need be."""

    def run(self, task: Pass[S], source: Readable) -> S:
        """The sum over all rows of the source."""

    def keep(self, source: Readable, task: RowPass, n_rows: int | None) -> Readable:
        """A source of the rows that `task` makes, kept where they were made for later passes.

        There are about `n_rows` of them; None means a single pass, for which nothing need be kept. Where the source is
        rows that were kept before, these may take their place: then reading that source again takes longer.
        """
