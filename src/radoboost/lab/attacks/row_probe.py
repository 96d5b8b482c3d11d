"""Which rows of a table are in a release: each rado is a subset sum over them, and is solved as one."""

import dataclasses
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder.mechanisms import FeatureBand, Plain
from radoboost.holder.signatures import FixedSupport
from radoboost.lab.attacks import adversary_knowledge, subset_sum
from radoboost.progress import Progress, silent
from radoboost.release.release import Release
from radoboost.report.findings import Check, Figure, Findings, Panel, ReportTable, Series

NAME = "probe"
TITLE = "Which of my clients are in their release?"
ASSUMES = (
    "The adversary has a table with all rows of the release among others, with their labels and all columns. "
    "Which rows a rado sums is not known."
)
ENOUGH_RADOS = 64
IN, OUT, NOT_SEEN, OPEN = "in", "out", "not seen", "open"
_LONGEST = 10.0  # seconds of one run in the study
_PATIENCE = 4  # rados that lattice reduction may fail on before it is given up


@dataclass(frozen=True)
class Probe:
    """What is known of each candidate row: "in" the release, or "out", or "not seen" in any rado, or "open".

    Where it is `proved`, a row is "in" if it is in every subset that gives some rado, and all others are "out" once as
    many are in as the release is of. Else lattice reduction found one subset for the rado, and no relation of rows that
    exchanges this one for others; no row is "out" then. `expected_others` is how many more subsets give a rado by
    chance, if values were random: of tables with rows that are sums of others it says nothing. A row of the release is
    in none of the `n_solved` rados with probability `missed`.
    """

    rows: tuple[str, ...]
    proved: bool
    expected_others: float
    missed: float
    n_solved: int
    n_read: int
    n_rados: int
    engine: str
    why: str = ""

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(i for i, status in enumerate(self.rows) if status == IN)

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "rows": list(self.rows), "members": list(self.members)}

    def sentence(self) -> str:
        counts = {status: self.rows.count(status) for status in (IN, OUT, NOT_SEEN, OPEN)}
        if not self.n_solved:
            return f"Which of the {len(self.rows):,} rows are in the release stays unknown: {self.why}."
        text = f"Of {len(self.rows):,} rows, {counts[IN]:,} {'are' if self.proved else 'seem to be'} in the release"
        if counts[OUT]:
            text += ", and as it is of no more, the others are not."
        elif counts[IN] == len(self.rows):
            text += ": all of them."
        else:
            text += (
                f", {counts[NOT_SEEN]:,} were not seen in any of the {self.n_solved:,} rados that were solved, and "
                f"{counts[OPEN]:,} stay open."
            )
        if counts[NOT_SEEN]:
            text += f" A row of the release goes unseen with probability {self.missed:.2g}."
        if not self.proved:
            text += " That no other rows give the same rados is not proved."
        return f"{text} Not all rados were solved: {self.why}." if self.why else text


def probe_rows_of_table(
    release: Release,
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    rados: int = ENOUGH_RADOS,
    seconds: float = adversary_knowledge.DEFAULT_SECONDS,
    bar: Progress = silent,
) -> Probe:
    """Which rows of a table are in a release that was made of some of them; it must be plain or of a feature band.

    At most this many `rados` are read: a row of the release is in none of 64 with probability 2**-64.
    """
    if release.law not in ("sums", "banded sums"):
        raise ArgumentError(
            f"the rados of the mechanism {release.mechanism['name']} hold noise, and this attack needs exact sums; "
            f"it works on {Plain.name} and {FeatureBand.name}"
        )
    edges, support = adversary_knowledge.table_edge_vectors(release, table, y, label=label), None
    if release.n_examples is not None and len(edges) < release.n_examples:
        raise TableError(
            f"the table has {len(edges):,} rows and the release is of {release.n_examples:,}; "
            "give a table that holds all rows of the release"
        )
    if release.signatures["name"] == FixedSupport.name:
        support = int(release.signatures["support"]), release.n_examples or len(edges)
    return probe_members_of_rados(
        edges, adversary_knowledge.rado_integers(release), support=support, n_members=release.n_examples,
        rados_read=rados, seconds=seconds, bar=bar,
    )  # fmt: skip


def probe_members_of_rados(
    edges: NDArray[np.int64], rados: NDArray[np.int64], *, support: tuple[int, int] | None = None,
    n_members: int | None = None, rados_read: int = ENOUGH_RADOS, seconds: float = adversary_knowledge.DEFAULT_SECONDS,
    bar: Progress = silent,
) -> Probe:  # fmt: skip
    """Which of the edge vectors, (N, d), the rados are sums of; `support` is (rows in a rado, rows in the release).

    `n_members` is how many rows the release is known to be of: no more of them can be in it.
    """
    left = adversary_knowledge.attack_deadline(seconds)
    adversary_knowledge.check_same_width(edges, rados)
    edges, rados = subset_sum.check_subset_sum_targets(edges, rados)
    n_rados, missed = len(rados), 0.5
    if support is not None:
        # Every rado has as many rows: one more column that is known exactly.
        edges, rados = (
            np.hstack([part, np.full((len(part), 1), one)]) for part, one in ((edges, 1), (rados, support[0]))
        )
        missed = 1 - support[0] / support[1]
    proving, others = len(edges) <= subset_sum.MOST_HALVED, subset_sum.expected_other_subsets(edges)
    why = "" if proving else subset_sum.too_few_bits(edges)
    if not why:
        engine: subset_sum.HalfSums | subset_sum.Lattice = (
            subset_sum.HalfSums(edges) if proving else subset_sum.Lattice(edges, left)
        )
        if isinstance(engine, subset_sum.Lattice):
            why, others = engine.too_few_bits() or _no_row_named_text(engine), engine.expected_others
    if why:
        return Probe((OPEN,) * len(edges), False, others, 1.0, 0, 0, n_rados, "lattice", why)
    certain, possible = np.zeros((2, len(edges)), dtype=np.bool_)
    n_read, n_solved = 0, 0
    for target in rados[: max(1, rados_read)]:
        if left() <= 0:
            why = "the time was over"
            break
        subsets = engine.solve(target) if isinstance(engine, subset_sum.HalfSums) else engine.solve(target, left)
        n_read += 1
        bar("solving rados", n_read, min(n_rados, rados_read))
        if subsets.count == 0:
            raise TableError(
                f"no subset of these {len(edges):,} rows gives rado {n_read - 1}: this is a release of another table, "
                "or not all of its rows are in this one"
            )
        if subsets.count is None and subsets.one is None:
            why = subsets.why
            if n_read - n_solved >= _PATIENCE and not n_solved:
                break
            continue
        n_solved += 1
        some, every = _rows_of_probed_subset(subsets, edges, engine)
        certain |= every
        possible |= some
    if n_members is not None and certain.sum() > n_members:
        if proving:
            raise TableError(
                f"{certain.sum():,} of these rows are in rados of a release of {n_members:,}: "
                "it is one of another table, or not all of its rows are in this one"
            )
        certain[:], possible[:] = False, True
        n_solved, why = 0, f"the subsets found have more rows than the {n_members:,} of the release; some are false"
    complete = proving and n_solved > 0 and certain.sum() == n_members
    rows = np.where(certain, IN, OUT if complete else np.where(possible if n_solved else True, OPEN, NOT_SEEN))
    name = "halves" if proving else "lattice"
    return Probe(tuple(rows.tolist()), proving, others, missed**n_solved, n_solved, n_read, n_rados, name, why)


def _rows_of_probed_subset(
    subsets: subset_sum.Subsets, edges: NDArray[np.int64], engine: subset_sum.HalfSums | subset_sum.Lattice
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The rows of some subset, and those of every subset, that give a rado; rows that are equal go in any order."""
    if subsets.with_row is not None:
        return subsets.with_row > 0, subsets.with_row == subsets.count
    assert isinstance(engine, subset_sum.Lattice) and subsets.one is not None
    equal = np.unique(edges, axis=0, return_inverse=True)[1].reshape(-1)
    chosen = np.bincount(equal, subsets.one)
    mixed = _exchangeable_rows(engine.relations(subsets.one), equal)
    return (chosen > 0)[equal] | mixed, (chosen == np.bincount(equal))[equal] & ~mixed


def _exchangeable_rows(relations: NDArray[np.int64], equal: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows that relations exchange for rows that are not equal to them."""
    classes = np.zeros((len(relations), equal.max() + 1), dtype=np.int64)
    np.add.at(classes.T, equal, relations.T)
    mixed: NDArray[np.bool_] = (classes != 0).any(axis=0)
    return mixed[equal]


def _no_row_named_text(lattice: subset_sum.Lattice) -> str:
    """Why no row can be named, in words; empty if some can."""
    equal = np.unique(lattice.vectors, axis=0, return_inverse=True)[1].reshape(-1)
    if not _exchangeable_rows(lattice.short, equal).all():
        return ""
    return "every row can be exchanged for a few others without a change of the sum"


# ---- how well it works


def study(
    *, sizes: Iterable[int] = (8, 16, 24, 32, 40, 50, 60, 80, 100), columns: Iterable[int] = (1, 2, 4, 8),
    levels: Iterable[int] = (2, 4, 16, 256, 2**22), trials: int = 5, seconds: float = 600.0, seed: int = 0,
    bar: Progress = silent,
) -> Findings:  # fmt: skip
    """How many rows of a release are found among as many others, and how long it takes; sixteen rados each."""
    left, rng = adversary_knowledge.attack_deadline(seconds), np.random.default_rng(seed)
    sizes, columns, levels = tuple(sizes), tuple(columns), tuple(levels)
    widest = max(columns)
    cells = list(dict.fromkeys([(n, d, 2**22) for d in columns for n in sizes]
                               + [(n, widest, k) for k in levels for n in sizes]))  # fmt: skip
    means: dict[tuple[int, int, int], tuple[float, float, float]] = {}
    for done, cell in enumerate(cells):
        bar("probing", done, len(cells))
        runs = [
            _run_probe_on(rng, 2 * rng.integers(0, levels_of, (n, d)) - levels_of + 1, min(max(left(), 0.01), _LONGEST))
            for n, d, levels_of in [cell] * trials
            if left() > 0
        ]
        if runs:
            means[cell] = tuple(float(value) for value in np.mean(runs, axis=0))  # type: ignore[assignment]

    def panel(title: str, what: str, which: int, curves: dict[str, list[tuple[int, int, int]]]) -> Panel:
        series = [
            Series(label, [cell[0] for cell in part if cell in means],
                            [means[cell][which] for cell in part if cell in means])
            for label, part in curves.items()
        ]  # fmt: skip
        return Panel(title, "candidate rows", what, series, log_y=which == 2)

    wide = {f"{d} column{'s' if d > 1 else ''}": [(n, d, 2**22) for n in sizes] for d in columns}
    coarse = {f"{k:,} values": [(n, widest, k) for n in sizes] for k in levels}
    related = {} if max(sizes) <= subset_sum.MOST_HALVED else {
        title: [_run_probe_on(rng, make(rng), min(max(left(), 0.01), _LONGEST)) for _ in range(trials) if left() > 0]
        for title, make in _RELATED.items()
    }  # fmt: skip
    wrong = sum(value[1] for value in means.values()) + sum(run[1] for runs in related.values() for run in runs)
    names = ["rows", "columns", "values of each", "members found", "others taken for members", "seconds"]
    caption = (
        "Half of the candidates are in the release. Up to 40 candidates all subsets are counted; beyond, lattice "
        "reduction finds one or gives up, after ten seconds at most. "
    )
    found_by = "share of the release's rows found"
    return Findings(
        NAME, TITLE,
        tables=[ReportTable("probe-cells", "Rows found among as many others, sixteen rados", names,
                               [[*cell, *means[cell]] for cell in cells if cell in means]),
                ReportTable("probe-related", "Rows that are sums of each other, more than 40", ["table", *names[3:]],
                               [[title, *np.mean(runs, axis=0).tolist()] for title, runs in related.items() if runs])],
        figures=[
            Figure("probe", "Clients found in a release", caption + "Columns of the grid's own precision.",
                            [panel("rows found", found_by, 0, wide), panel("time", "seconds", 2, wide)]),
            Figure("probe-coarse", "Clients found, by precision", caption + f"{widest} columns each.",
                            [panel("rows found", found_by, 0, coarse), panel("time", "seconds", 2, coarse)]),
        ],
        checks=[Check("No other row is ever taken for one of the release", wrong == 0,
                               f"{len(means)} cells of {trials} trials, and {len(related)} tables of related rows",
                               ours=True)],
        notes=["Values are uniform and independent, but for the tables of related rows."],
    )  # fmt: skip


def _run_probe_on(rng: np.random.Generator, edges: NDArray[np.int64], seconds: float) -> tuple[float, float, float]:
    """The shares of members, and of others, that were found to be in; and the seconds it took."""
    n = len(edges)
    inside = np.arange(n) < n // 2
    rados = (rng.integers(0, 2, (16, n)) * inside) @ edges
    start = time.monotonic()
    is_in = np.array(probe_members_of_rados(edges, rados, seconds=seconds).rows) == IN
    return float(is_in[inside].mean()), float(is_in[~inside].mean()), time.monotonic() - start


def _opposite_probe_rows(rng: np.random.Generator) -> NDArray[np.int64]:
    edges = rng.integers(-(2**22), 2**22, (50, 6))
    edges[1:50:2] = -edges[:50:2]
    edges[:20] = rng.integers(-(2**22), 2**22, (20, 6))
    return edges


def _coarse_probe_rows(rng: np.random.Generator) -> NDArray[np.int64]:
    coarse = rng.choice([-1, 1], (50, 1)) * rng.integers(0, 4, (50, 8))
    mixed: NDArray[np.int64] = coarse @ rng.integers(1, 2**18, (8, 8))
    return mixed


_RELATED: dict[str, Callable[[np.random.Generator], NDArray[np.int64]]] = {
    "30 of 50 rows in pairs of equal features and opposite labels": _opposite_probe_rows,
    "50 rows whose 8 columns are mixtures of 8 columns of 4 values": _coarse_probe_rows,
}
