"""The bit that a feature band protects, read from whole rados.

The band's claim is about the protected column alone, and so is the paper's aim: that one changed value not change "the
density of that feature's values in rados". Its definition of privacy is about the whole output, though, and its proof
takes one column without loss of generality. The other columns can tell which subset a rado sums, and with it what the
protected column's value says about one row. The release's likelihood under either bit is exact: a rado's is the
number of allowed subsets that give it, over the number of allowed subsets, which is the same under both bits, for the
law of F depends on the number of rows alone (docs/proofs/feature-band.md, F2 and F3).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder.mechanisms import FeatureBand, StatementFacts
from radoboost.holder.signatures import FeatureInterval
from radoboost.lab.attacks.adversary_knowledge import (
    DEFAULT_SECONDS,
    attack_deadline,
    check_same_width,
    inclusion_bits,
    own_edge_vectors,
    rado_integers,
)
from radoboost.lab.attacks.subset_sum import MOST_HALVED, HalfSums, Lattice, check_subset_sum_targets, too_few_bits
from radoboost.lab.audits.audit import lower_rate_bound, upper_rate_bound
from radoboost.privacy import band, best_guess
from radoboost.progress import Progress, silent
from radoboost.release.release import Release, Statement, epsilon_as_json, rounded_up_text
from radoboost.report.findings import Band, Check, Figure, Findings, Panel, ReportTable, Series
from radoboost.tables import open_table
from radoboost.tables.labels import LabelEncoder

NAME = "leak"
TITLE = "The bit that a feature band protects, read from whole rados"
ASSUMES = (
    "The adversary knows the whole table but one value of the protected column, and sees all columns of the rados. "
    "Which rows a rado sums is not known."
)
_OTHER_TABLE = (
    "rado {} is not a sum of these rows within the band, whatever the protected value of row {}; "
    "this is a release of another table"
)
_DUST = 1e-9  # sums of logarithms that are equal differ by less
_CONTRADICTION = (
    "some rados are impossible with one protected value of row {}, some with the other; "
    "this is a release of another table"
)
_EXCHANGED = (
    "rows can be exchanged for a few others without a change of the other columns, though not of the protected one"
)


@dataclass(frozen=True)
class FeatureBandLeak:
    """What the rados say about one bit: `bit` is y x of the row in the protected column, None if it stays unknown.

    `log_ratio` is the logarithm of the release's likelihood under this bit over that under the other, exactly;
    it is None if lattice reduction was used, which counts nothing and proves nothing. `n_decided` rados are
    impossible under the other bit (of lattice reduction: the subset that was found has the row). `claim` is what the
    release says of itself.
    """

    row: int
    bit: int | None
    log_ratio: float | None
    n_decided: int
    n_read: int
    n_rados: int
    engine: str
    why: str = ""
    feature: str | None = None
    value: float | None = None
    claim: str | None = None

    @property
    def probability(self) -> float | None:
        """The probability that the bit is right, if both were as likely before; None if it is not known."""
        if self.bit is None or self.log_ratio is None:
            return 0.5 if self.bit is None else None
        return 1 / (1 + math.exp(-self.log_ratio))

    def to_dict(self) -> dict[str, Any]:
        ratio = None if self.log_ratio is None else epsilon_as_json(self.log_ratio)
        return {**dataclasses.asdict(self), "log_ratio": ratio, "probability": self.probability}

    def sentence(self) -> str:
        what = f"the value of {self.feature!r}" if self.feature else "the protected bit"
        where = f"{what} in row {self.row:,} (the first is row 0)"
        if self.bit is None:
            return f"{where[0].upper()}{where[1:]} stays unknown: {self.why}."
        value = f"{self.value:g}" if self.value is not None else f"{self.bit:+d}"
        if self.log_ratio is None:
            how = (
                f"{self.n_decided:,} of the {self.n_read:,} rados that were read were found to have the row, though "
                "that no other rows give the same rados is not proved"
            )
        elif math.isinf(self.log_ratio):
            how = f"{self.n_decided:,} of the {self.n_read:,} rados that were read are impossible with the other value"
        else:
            assert self.probability is not None
            chance = f"{self.probability:.6f}" if self.probability < 0.9999995 else "more than 0.999999"
            how = f"with probability {chance}, where both values were as likely before"
        claim = f" The release claims {self.claim}; it claims nothing about rados seen whole." if self.claim else ""
        return f"{where[0].upper()}{where[1:]} is {value}: {how}.{claim}"


def leak_protected_bit(
    release: Release,
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    row: int,
    seconds: float = DEFAULT_SECONDS,
    bar: Progress = silent,
) -> FeatureBandLeak:
    """The protected value of one row, from a release of a feature band and the rest of its table.

    The table may hold any number as the row's protected value: it is not used. An empty cell is refused.
    """
    if release.law != "banded sums":
        raise ArgumentError(
            f"this attack is on the mechanism {FeatureBand.name}, and the release is of {release.mechanism['name']}; "
            "take another attack"
        )
    edges, feature = own_edge_vectors(release, table, y, label=label), release.mechanism["feature"]
    place = release.feature_names.index(feature)
    interval = release.signatures["low"], release.signatures["high"]
    result = recover_protected_bit(edges, place, row, rado_integers(release), interval, seconds=seconds, bar=bar)
    value = None
    if result.bit is not None:
        column, sign = release.columns[place], _label_sign_of_row(release, table, y, label, row)
        value = column.high if result.bit == sign else column.low
    return dataclasses.replace(result, feature=feature, value=value, claim=_feature_band_claim(release.statement))


def _feature_band_claim(statement: Statement) -> str | None:
    if math.isinf(statement.epsilon):
        return None
    epsilon = rounded_up_text(statement.epsilon, 4)
    return f"epsilon {epsilon} at delta {statement.delta:g} between tables with {statement.neighbours}"


def _label_sign_of_row(release: Release, table: Any, y: Any, label: str | None, row: int) -> int:
    rule, first = LabelEncoder(label or "y", release.classes), 0
    for batch in open_table(table, y, label=label, features=[release.mechanism["feature"]]).batches():
        signs = rule.signs(batch.labels, batch.place)
        if row < first + batch.n_rows:
            return int(signs[row - first])
        first += batch.n_rows
    raise TableError(f"the table has no row {row:,} any more; do not change it during the attack")


# ---- on integers


def recover_protected_bit(
    edges: NDArray[np.int64], protected: int, row: int, rados: NDArray[np.int64], interval: tuple[int, int], *,
    seconds: float = DEFAULT_SECONDS, bar: Progress = silent,
) -> FeatureBandLeak:  # fmt: skip
    """The sign of edges[row, protected], which is not used, from rados whose subsets keep the column within a band.

    Of up to 41 rows the likelihood ratio is exact; of more, lattice reduction looks for the subset of each rado.
    Reading stops once the other bit is impossible, or the time is over.
    """
    left = attack_deadline(seconds)
    check_same_width(edges, rados)
    edges, rados = check_subset_sum_targets(edges, rados)
    m = len(edges)
    if isinstance(row, bool) or not 0 <= row < m:
        raise ArgumentError(f"row must be one of 0 .. {m - 1:,}; it is {row!r}")
    sizes = np.abs(np.delete(edges[:, protected], row))
    unit = int(sizes[0]) if m > 1 else int(np.abs(rados[:, protected]).max(initial=1))
    if unit == 0 or (sizes != unit).any():
        raise TableError("the protected column must hold two values, one of them in every row; the table holds others")
    case = _Case(edges, rados, protected, row, unit, *interval)
    for j in np.flatnonzero(~case.within_band().any(axis=1)):
        raise TableError(_OTHER_TABLE.format(j, row))
    return (_recover_bit_by_counts if m - 1 <= MOST_HALVED else _recover_bit_by_lattice)(case, left, bar)


@dataclass(frozen=True)
class _Case:
    """What the adversary has: edge vectors, rados, the column and row of the bit, its unit, and the band."""

    edges: NDArray[np.int64]
    rados: NDArray[np.int64]
    protected: int
    row: int
    unit: int
    low: int
    high: int

    def within_band(self) -> NDArray[np.bool_]:
        """Whether each rado's |F|, which is m(+) less the column's value, is allowed if the bit is -1, and if +1."""
        value = self.rados[:, self.protected]
        plus = int((np.delete(self.edges[:, self.protected], self.row) > 0).sum())
        sizes = plus + np.array([0, 1]) - value[:, None] // self.unit
        within: NDArray[np.bool_] = (self.low <= sizes) & (sizes <= self.high) & (value % self.unit == 0)[:, None]
        return within


def _recover_bit_by_counts(case: _Case, left: Callable[[], float], bar: Progress) -> FeatureBandLeak:
    """By how many subsets of the other rows give each rado, with the row under either bit and without it."""
    rados, row, n, within = case.rados, case.row, len(case.rados), case.within_band()
    halves = HalfSums(np.delete(case.edges, row, axis=0))
    own = np.tile(case.edges[row], (2, 1))
    own[:, case.protected] = -case.unit, case.unit
    ratio, n_read, at_once = 0.0, 0, max(1, halves.at_once // 3)
    decided = np.zeros(2, dtype=np.int64)
    while n_read < n and left() > 0 and not decided.any():
        batch = rados[n_read : n_read + at_once]
        without = halves.count(batch)
        counts = np.column_stack([without + halves.count(batch - edge) for edge in own])
        counts *= within[n_read : n_read + at_once]
        for j in np.flatnonzero(~counts.any(axis=1)):
            raise TableError(_OTHER_TABLE.format(n_read + j, row))
        decided += (counts == 0)[:, ::-1].sum(axis=0)
        possible = np.log(counts[counts.all(axis=1)])
        ratio += float((possible[:, 1] - possible[:, 0]).sum())
        n_read += len(batch)
        bar("reading rados", n_read, n)
    if decided.all():
        raise TableError(_CONTRADICTION.format(row))
    if decided.any():
        return FeatureBandLeak(row, 1 if decided[1] else -1, math.inf, int(decided.max()), n_read, n, "halves")
    if abs(ratio) < _DUST:
        why = "the rados are as likely with either value" if n_read else "the time was over before any rado was read"
        return FeatureBandLeak(row, None, 0.0, 0, n_read, n, "halves", why)
    return FeatureBandLeak(row, 1 if ratio > 0 else -1, abs(ratio), 0, n_read, n, "halves")


def _recover_bit_by_lattice(case: _Case, left: Callable[[], float], bar: Progress) -> FeatureBandLeak:
    """By the subset of each rado that lattice reduction finds from the other columns."""
    rados, row, n, within = case.rados, case.row, len(case.rados), case.within_band()
    ends = within[~within.all(axis=1)]  # of the band: there the protected column alone tells
    if ends.any(axis=0).all():
        raise TableError(_CONTRADICTION.format(row))
    if len(ends):
        return FeatureBandLeak(row, 1 if ends[0, 1] else -1, math.inf, len(ends), n, n, "the band")
    others = np.delete(case.edges, case.protected, axis=1)
    if why := too_few_bits(others):
        return FeatureBandLeak(row, None, None, 0, 0, n, "lattice", why)
    lattice, targets = Lattice(others, left), np.delete(rados, case.protected, axis=1)
    column = np.array(case.edges[:, case.protected])
    column[row] = 0

    def in_doubt(relations: NDArray[np.int64]) -> bool:
        """Whether other subsets may have the same sum, and say something else about the row."""
        return bool(relations[:, row].any() or (relations @ column).any())

    if why := lattice.too_few_bits() or (_EXCHANGED if in_doubt(lattice.short) else ""):
        return FeatureBandLeak(row, None, None, 0, 0, n, "lattice", why)
    votes, n_read = [0, 0], 0
    while n_read < n and lattice.ready and left() > 0 and not all(votes):
        subsets = lattice.solve(targets[n_read], left)
        if subsets.count == 0:
            raise TableError(_OTHER_TABLE.format(n_read, row))
        if (subset := subsets.one) is not None and not in_doubt(lattice.relations(subset)):
            own = int(rados[n_read, case.protected] - subset @ column)
            if abs(own) != case.unit * subset[row]:
                why = "the subsets found are not those of the rados: others have the same sums"
                return FeatureBandLeak(row, None, None, 0, n_read, n, "lattice", why)
            votes[int(own > 0)] += bool(own)
        n_read += 1
        bar("reading rados", n_read, n)
    if any(votes) and not all(votes):
        return FeatureBandLeak(row, 1 if votes[1] else -1, None, max(votes), n_read, n, "lattice")
    why = "lattice reduction found no subset that has the row" if n_read == n else "the time was over"
    why = "the subsets found disagree, so some are false" if all(votes) else why
    return FeatureBandLeak(row, None, None, 0, n_read, n, "lattice", why)


# ---- how well it works


def simulate_band_rados(
    rng: np.random.Generator, m: int, n_rados: int, columns: int, levels: int, interval: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edge vectors, the protected column first, and rados whose signatures keep it within a band.

    The other columns are uniform on `levels` values; 2**22 is the grid's own precision.
    """
    signs = rng.choice([-1, 1], m)
    edges = np.column_stack([signs, 2 * rng.integers(0, levels, (m, columns)) - levels + 1])
    inside = inclusion_bits(FeatureInterval(*interval).prepare(rng.bytes(32), n_rados, m), n_rados, m)
    return edges, (inside != (signs > 0)).astype(np.int64) @ edges


def study(
    *, trials: int = 100, largest: int = 40, longest: int = 100, seconds: float = 600.0, seed: int = 0,
    bar: Progress = silent,
) -> Findings:  # fmt: skip
    """How often the bit is right: by rows, rados, columns and their precision, and by lattice reduction beyond.

    `largest` is the most rows to count subsets of, `longest` the most to reduce; above 32 rows there are fewer trials.
    """
    left, rng = attack_deadline(seconds), np.random.default_rng(seed)
    sizes = [m for m in (8, 12, 16, 20, 24, 28, 32, 36, 40) if m <= largest]
    middle = min(24, largest)
    planned = {
        "rows": [(m, _RADOS, k, 2**22) for k in (1, 2, 4) for m in sizes],
        "rados": [(middle, n, k, 2**22) for k in (1, 2) for n in (1, 2, 4, 8, 16, 32)],
        "levels": [(middle, _RADOS, k, 2**b) for k in (1, 2, 4) for b in range(2, 23, 2)],
        "lattice": [(m, _RADOS, k, 2**22) for k in (2, 4, 8) for m in (42, 50, 60, 70, 80, 90, 100) if m <= longest],
    }
    cells = list(dict.fromkeys(cell for part in planned.values() for cell in part))
    counts: dict[_Cell, _LeakCounts] = {}
    for n_done, cell in enumerate(cells):
        bar("attacking", n_done, len(cells))
        # Twice the rows of a half cost twice the time: fewer trials, and the error bars show it.
        n_trials = max(min(trials, 10), trials >> max(0, cell[0] - 32) // 2)
        counts[cell] = _count_right_bits(
            rng, cell, n_trials if cell[0] <= MOST_HALVED else max(min(trials, 5), trials // 10), left
        )
    panels = {
        "rows": ("16 rados, by rows", "rows", 0), "rados": (f"{middle} rows, by rados", "rados", 1),
        "levels": (f"{middle} rows, 16 rados, by precision", "bits of a column's values", 3),
        "lattice": ("lattice reduction, 16 rados", "rows", 0),
    }  # fmt: skip
    figure_panels = {name: _leak_panel(*panels[name], planned[name], counts) for name in planned if planned[name]}
    main = (middle, _RADOS, 1, 2**22)
    statement = _BAND.statement(StatementFacts("standard", False, _RADOS, 2, middle))
    right, n_done = counts[main].right, counts[main].trials
    low, counted = _clopper_pearson(right, n_done)[0], f"{right} of {n_done}"
    alone = _count_right_bits(rng, (middle, _RADOS, 0, 1), 10 * trials, left)
    caption = (
        "An undecided bit counts as half right, as a coin is; in the tables, only decided bits are read rightly. "
        "Shaded: 95 % Clopper-Pearson bounds. Dashed: how often the best guess from the protected column alone is "
        "right, which is all that our statement about the column allows."
    )
    figures = [Figure("leak", "The protected bit, read", caption,
                               [figure_panels[name] for name in ("rows", "rados", "levels")])]  # fmt: skip
    if "lattice" in figure_panels:
        figures.append(Figure("leak-lattice", "The protected bit beyond 40 rows", caption, [figure_panels["lattice"]]))
    names = ["rows", "rados", "other columns", "values of each", "right", "undecided", "trials",
             "impossible under the other bit", "at least", "at most"]  # fmt: skip
    return Findings(
        NAME, TITLE,
        tables=[
            ReportTable(
                "leak-claim",
                f"Our statement and the attack, {middle} rows, 16 rados, one column beside the protected one",
                ["what", "number"],
                [["epsilon of our statement about the column", epsilon_as_json(statement.epsilon)],
                 ["delta of our statement", statement.delta],
                 ["between tables with", statement.neighbours],
                 ["best guess if it held for whole rados", statement.best_guess],
                 ["bits read rightly", counted], ["share read rightly, at least (95 %)", low],
                 ["releases impossible under the other bit", f"{counts[main].impossible} of {n_done}"],
                 ["bits guessed rightly from the protected column alone", f"{_or_by_coin(alone)} of {alone.trials}"]],
                note="The statement of feature-band is about the protected column's marginal, and says so. From that "
                     "column alone the best guess is right as often as it allows, and no more often.",
            ),
            ReportTable("leak-cells", "The bit, by cell", names,
                           [[*cell, *counts[cell], *_clopper_pearson(counts[cell].right, counts[cell].trials)]
                            for cell in cells],
                           note="Impossible under the other bit: trials in which some rado is, so that no epsilon "
                                "helps; beyond 40 rows lattice reduction does not show that but at the band's ends. "
                                "The bounds are of the share that was decided and right."),
        ],
        figures=figures,
        checks=[
            _check_right_bits("DP-Feat, of the protected column alone, which is the paper's aim: no guess of a bit is "
                    "right more often than our statement about the column allows",
                    _or_by_coin(alone), alone.trials, statement.best_guess),
            _check_right_bits("DP-Feat, of whole rados: no guess of a bit is right more often than our statement about "
                    "the column allows", right, n_done, statement.best_guess),
            _check_delta_floor_of_rados(counts[main], statement.delta),
        ],
        notes=[
            "The values of the other columns are uniform and independent; the protected bits are fair coins.",
            f"The band is the paper's for epsilon {_BAND.epsilon:g} of one rado ({statement.neighbours}); delta is "
            f"{_BAND.delta:g}.",
        ]
    )  # fmt: skip


_Cell = tuple[int, int, int, int]  # rows, rados, other columns, values of each


class _LeakCounts(NamedTuple):
    """Bits that were right, that stayed undecided, trials, and those with a rado that the other bit cannot give."""

    right: int
    undecided: int
    trials: int
    impossible: int = 0


_RADOS = 16
_LONGEST = 10.0  # seconds of one trial
_FALSE_ALARM = 1e-6  # of a verdict that a claim is exceeded
_BAND = FeatureBand(
    "the protected column", 6.0, delta=1e-3
)  # narrower, or with a smaller delta, 24 rows carry no claim


def _count_right_bits(rng: np.random.Generator, cell: _Cell, trials: int, left: Callable[[], float]) -> _LeakCounts:
    """How often the bit of row 0 was right, undecided, and beyond doubt, and in how many trials."""
    m, n, columns, levels = cell
    hits, undecided, n_done, impossible, interval = 0, 0, 0, 0, band(m, _BAND.epsilon)
    while n_done < trials and left() > 0:
        edges, rados = simulate_band_rados(rng, m, n, columns, levels, interval)
        result = recover_protected_bit(edges, 0, 0, rados, interval, seconds=min(max(left(), 0.01), _LONGEST))
        hits += bool(result.bit == edges[0, 0])
        undecided += result.bit is None
        impossible += result.log_ratio == math.inf
        n_done += 1
    return _LeakCounts(hits, undecided, n_done, impossible)


def _or_by_coin(counts: _LeakCounts) -> int:
    """How many bits are right if a coin is tossed for the undecided ones, in the middle and rounded down."""
    return counts.right + counts.undecided // 2


def _check_right_bits(statement: str, right: int, trials: int, allowed: float) -> Check:
    """Whether guesses are right no more often than allowed; not judged where so few trials could hardly show more.

    They could if guesses that are right half way between what is allowed and always would be found out.
    """
    half_way = math.floor(trials * (1 + allowed) / 2)
    low, shown = (_clopper_pearson(hits, trials, _FALSE_ALARM)[0] for hits in (right, half_way))
    surely = f"at least {low:.3f} but for a probability of {_FALSE_ALARM:g}; our statement allows {allowed:.3f}"
    why = f"right in {right} of {trials} trials, {surely}"
    if low <= allowed and shown <= allowed:
        few = f"{why}. So few trials show nothing: were {half_way} of them right, it would not be known either"
        return Check(statement, None, few, ours=True)
    return Check(statement, low <= allowed, why, ours=True)


def _check_delta_floor_of_rados(counts: _LeakCounts, small: float) -> Check:
    """The paper's definition for whole rados: what the other bit cannot give is a floor of delta, at every epsilon.

    Where few releases are such, nothing is shown: of the rest it is not known how large an epsilon they need.
    """
    low = _clopper_pearson(counts.impossible, counts.trials, _FALSE_ALARM)[0]
    why = (
        f"in {counts.impossible} of {counts.trials} trials some rado is impossible under the other bit, so no epsilon "
        f"helps, the theorem's n epsilon, {_RADOS * _BAND.epsilon:g}, included: delta is at least {low:.3f} but for a "
        f"probability of {_FALSE_ALARM:g} (criterion: {small:g} is small)"
    )
    statement = "DP-Feat, where the output O of (dpreq) is whole rados: there is an epsilon with a small delta"
    shows_nothing = low <= small
    return Check(statement, None if shows_nothing else False,
                 why + (". That shows nothing: the rest may need any epsilon" if shows_nothing else ""))  # fmt: skip


def _clopper_pearson(hits: int, trials: int, risk: float = 0.025) -> tuple[float, float]:
    """Bounds of a share, each wrong with probability `risk`; 0 and 1 without trials."""
    return lower_rate_bound(hits, trials, risk), upper_rate_bound(hits, trials, risk)


def _leak_panel(
    title: str, x_label: str, axis: int, cells: Sequence[_Cell], counts: Mapping[_Cell, _LeakCounts]
) -> Panel:
    curves, bands = [], []
    for columns in dict.fromkeys(cell[2] for cell in cells):
        measured = [cell for cell in cells if cell[2] == columns and counts[cell].trials]
        label = f"{columns} other column{'s' if columns > 1 else ''}"
        x = [_leak_axis_position(cell, axis) for cell in measured]
        halves = [(2 * counts[cell].right + counts[cell].undecided, counts[cell].trials) for cell in measured]
        curves.append(Series(label, x, [twice / (2 * trials) for twice, trials in halves]))
        low = [_clopper_pearson(twice // 2, trials)[0] for twice, trials in halves]
        bands.append(Band(label, x, low, [_clopper_pearson(-(-twice // 2), trials)[1] for twice, trials in halves]))
    places = {_leak_axis_position(cell, axis): best_guess(_BAND.event(cell[0], cell[1])) for cell in cells}
    curves.append(Series("the protected column alone", list(places), list(places.values()), style="dashed"))
    curves.append(Series("a coin", [], [0.5], style="flat"))
    share = "share of bits read rightly, a coin for those that are not"
    return Panel(title, x_label, share, curves, log_x=axis == 1, bands=bands)


def _leak_axis_position(cell: _Cell, axis: int) -> int:
    """Where a cell stands along an axis; values are counted in bits."""
    return cell[axis].bit_length() - 1 if axis == 3 else cell[axis]
