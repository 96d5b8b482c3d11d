"""Linear reconstruction (Dinur and Nissim, 2003): one column of a table from rados with known signatures, and noise.

Each rado is a noisy subset sum of the column, so it is one linear equation with an error. Least squares takes them as
they are. A linear program also knows that values lie in an interval, and so works with fewer rados than records: of
a column of -1 and +1 without noise, half as many are about enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.attacks.known import DEFAULT_SECONDS, deadline, inclusion_bits, n_examples
from radoboost.columns import CONSTANT
from radoboost.errors import ArgumentError, TableError
from radoboost.findings import Findings, Table, check, column, figure, found, panel, series, table
from radoboost.grid import GRID_BITS
from radoboost.progress import Progress, silent
from radoboost.release import Release

NAME = "linear"
TITLE = "Linear reconstruction of a column"
ASSUMES = (
    "The adversary knows which record is in which rado, because the seed of the signatures is known, "
    "how many records there are, what values the column can have, and how large the noise is."
)
METHODS = ("lp", "least-squares")
FALSE_ALARM = 1e-6  # that Gaussian noise is beyond its bound in any rado
_MOST_ENTRIES = 1 << 22  # of a linear program, which is not timed while it is set up
_SECONDS_OF_PRODUCT = 3e-9  # of least squares, about twice what was measured
_SLACK = 1e-6  # of the largest value: what a solver in floating point may be off


@dataclass(frozen=True, eq=False)
class Recovered:
    """A column's values as recovered, for every record.

    `estimates` are before rounding to the values that the column can have, and `values` after. `reproduces` says
    whether `values` give the answers, up to the noise. `certain` says that no other values in the interval do, which
    the linear program can tell where there is no noise; None where it was not asked. `status` is "found", or "unknown"
    where time did not suffice; values are NaN then.
    """

    column: str
    method: str
    status: str
    n_rados: int
    estimates: NDArray[np.float64]
    values: NDArray[np.float64]
    reproduces: bool
    certain: bool | None
    noise_bound: float

    def share_right(self, truth: NDArray[Any]) -> float:
        """The share of records whose value is right, up to rounding errors, given the true ones."""
        return float(np.isclose(self.values, truth, rtol=0, atol=1e-6 * np.abs(truth).max(initial=1.0)).mean())

    def to_dict(self) -> dict[str, Any]:
        """What was found out, as JSON data, without the values themselves."""
        return {
            "attack": NAME,
            "assumes": ASSUMES,
            "column": self.column,
            "method": self.method,
            "status": self.status,
            "rows": len(self.values),
            "rados": self.n_rados,
            "reproduces": self.reproduces,
            "certain": self.certain,
            "noise_bound": self.noise_bound,
            "sentence": self.sentence(),
        }

    def sentence(self) -> str:
        """What this means, for a data holder."""
        m, what = len(self.values), "the label" if self.column == CONSTANT else repr(self.column)
        if self.status == "unknown":
            return f"Unknown: recovering {what} of {m:,} records takes longer than the time limit; allow more seconds."
        if self.certain:
            return f"Whoever knows the seed gets {what} of all {m:,} records: no other values give the same rados."
        if self.reproduces:
            noise = "up to their noise" if self.noise_bound else "exactly"
            return (
                f"Whoever knows the seed gets values of {what} for all {m:,} records that give all {self.n_rados:,} "
                f"rados {noise}; other values may do so too."
            )
        return (
            f"Whoever knows the seed gets a guess of {what} for each of {m:,} records that does not give the rados "
            "back; it may still be right for most records."
        )


def recover_column(
    inclusion: NDArray[Any],
    answers: NDArray[Any],
    noise_bound: float,
    values: Sequence[float] = (-1.0, 1.0),
    method: str = "lp",
    *,
    rounded: bool = True,
    name: str = "the column",
    seconds: float = DEFAULT_SECONDS,
) -> Recovered:
    """Recover x from answers = inclusion @ x + noise, with noise of at most `noise_bound` in each.

    `values` are those that x can have; with `rounded=False` they are the ends of an interval. The linear program is
    for the x in the interval whose largest error is least. It refuses answers that no such x gives within the bound.

    >>> rng = np.random.default_rng(0)
    >>> truth, inclusion = rng.choice([-1.0, 1.0], 30), rng.random((22, 30)) < 0.5
    >>> recovered = recover_column(inclusion, inclusion @ truth, noise_bound=0.0)
    >>> recovered.share_right(truth), recovered.certain  # of 30 values from 22 sums
    (1.0, True)
    """
    left = deadline(seconds)
    allowed = np.unique(np.asarray(values, dtype=np.float64))
    inside, sums = np.asarray(inclusion, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    if inside.ndim != 2 or not inside.size or sums.shape != (len(inside),):
        raise ArgumentError(f"one answer for each row of inclusion is needed; shapes are {inside.shape}, {sums.shape}")
    if len(allowed) < 2 or not np.isfinite(allowed).all() or not np.isfinite(sums).all():
        raise ArgumentError("values must be at least two different finite numbers, and answers finite")
    if not 0 <= noise_bound < np.inf:
        raise ArgumentError(f"the noise bound must be a number of at least 0; it is {noise_bound}")
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}; it is {method!r}")
    # From here on values lie in [-1, 1]: solvers have absolute tolerances.
    middle, half = (allowed[0] + allowed[-1]) / 2, (allowed[-1] - allowed[0]) / 2
    scaled = (sums - inside.sum(axis=1) * middle) / half
    m, bound = inside.shape[1], noise_bound / half
    unit: NDArray[np.float64] | None = None
    if method == "lp" and inside.size <= _MOST_ENTRIES:
        unit = _program(inside, scaled, bound, left())
    elif method == "least-squares" and _SECONDS_OF_PRODUCT * inside.size * min(inside.shape) < left():
        unit = _least_squares(inside, scaled)
    if unit is None:
        nothing = np.full(m, np.nan)
        return Recovered(name, method, "unknown", len(sums), nothing, nothing, False, None, float(noise_bound))
    estimates = middle + half * unit
    nearest = allowed[np.abs(estimates[:, None] - allowed).argmin(axis=1)] if rounded else estimates
    reproduces = bool((np.abs(inside @ nearest - sums) <= noise_bound + _SLACK * half).all())
    certain = None
    if reproduces and rounded and method == "lp" and noise_bound == 0 and left() > 0:
        certain = _only_one(inside, scaled, (nearest - middle) / half, left())
    return Recovered(name, method, "found", len(sums), estimates, nearest, reproduces, certain, float(noise_bound))


def _least_squares(inside: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution with the least squared error; the one nearest to the middle where there are many."""
    solution: NDArray[np.float64] = np.clip(np.linalg.lstsq(inside, sums)[0], -1, 1)
    return solution


def _program(
    inside: NDArray[np.float64], sums: NDArray[np.float64], bound: float, seconds: float
) -> NDArray[np.float64] | None:
    """The point of the box whose largest error is least; None where time is over."""
    from scipy.optimize import linprog

    n, m = inside.shape
    if seconds <= 0:
        return None
    options = {"time_limit": seconds, "presolve": False}  # random bits have no structure to find
    if bound == 0:
        result = linprog(np.zeros(m), A_eq=inside, b_eq=sums, bounds=(-1, 1), method="highs-ds", options=options)
        largest = 0.0
    else:
        errors = np.ones((n, 1))
        result = linprog(
            np.append(np.zeros(m), 1.0),
            A_ub=np.block([[inside, -errors], [-inside, -errors]]),
            b_ub=np.concatenate([sums, -sums]),
            bounds=[(-1, 1)] * m + [(0, None)],
            method="highs-ipm",
            options=options,
        )
        largest = 0.0 if result.x is None else float(result.x[m])
    if result.status == 1:
        return None
    if result.x is None or largest > bound + _SLACK:
        raise TableError(
            "no values in their interval give these rados: it is another seed, another number of rows, more noise, or "
            "another interval"
        )
    solution: NDArray[np.float64] = result.x[:m]
    return solution


def _only_one(
    inside: NDArray[np.float64], sums: NDArray[np.float64], corner: NDArray[np.float64], seconds: float
) -> bool | None:
    """Whether a corner of the box is all there is of the solutions in it: none is less in its direction."""
    from scipy.optimize import linprog

    if not (np.abs(corner) == 1).all():
        return None
    options = {"time_limit": seconds, "presolve": False}
    result = linprog(corner, A_eq=inside, b_eq=sums, bounds=(-1, 1), method="highs-ds", options=options)
    return None if result.status != 0 else bool(result.fun > len(corner) - 1e-4)


def linear(
    release: Release,
    seed: int,
    rows: int | None = None,
    column: str = CONSTANT,
    *,
    method: str = "lp",
    values: Sequence[float] | None = None,
    seconds: float = DEFAULT_SECONDS,
) -> Recovered:
    """Recover one column of y_i x_i of a seeded release: of the constant column these are the labels.

    Of another column than the constant give the `values` that y_i x_i can have, in the column's units; without them
    they are taken to lie on its grid, anywhere. Clipping makes a row shorter but keeps its signs: of a release with
    noise the constant column's values stand for labels.

    >>> import radoboost as rb
    >>> X, y = np.arange(40.0).reshape(40, 1), np.arange(40) % 3 % 2
    >>> release = rb.craft(X, y, n_rados=30, seed=5)
    >>> recovered = linear(release, seed=5)
    >>> recovered.share_right(2.0 * y - 1), recovered.sentence()[:59]
    (1.0, 'Whoever knows the seed gets the label of all 40 records: no')
    """
    names, mechanism = release.feature_names, release.mechanism["name"]
    if mechanism not in ("plain", "noisy-rados"):
        raise ArgumentError(
            f"this attack is for rados that are sums over a seed's subsets, noise added or not; of {mechanism!r} they "
            "are not; use a release by plain or noisy-rados"
        )
    if column not in names:
        raise ArgumentError(f"the release has no column {column!r}; it has {', '.join(names)}")
    left, place, m = deadline(seconds), names.index(column), n_examples(release, rows)
    entry, bound, largest = release.columns[place], 0.0, 2.0**GRID_BITS * release.columns[place].step
    if mechanism == "noisy-rados":
        tail = FALSE_ALARM / (2 * release.n_rados)
        bound = float(release.mechanism["noise_std"]) * NormalDist().inv_cdf(1 - tail) + entry.step
        largest = min(largest, float(release.mechanism["clip"]))
    is_constant = entry.scale == "constant"
    inside = inclusion_bits(release, seed, m)
    return recover_column(
        inside,
        release.rados[:, place],
        bound,
        (-largest, largest) if values is None else values,
        method,
        rounded=values is not None or is_constant,
        name=column,
        seconds=max(left(), 1e-3),
    )


def study(
    m: int = 100,
    *,
    ratios: Sequence[float] = (0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0),
    noise: Sequence[float] = (0.0, 0.1, 0.5, 1.0),
    repeats: int = 15,
    seed: int = 0,
    seconds: float = 300.0,
    bar: Progress = silent,
) -> Findings:
    """How many of m labels are recovered from n rados, by n / m and by noise.

    Noise is uniform within +-c sqrt(m), for each c of `noise`. A share is the median of `repeats` random cases.

    >>> findings = study(30, ratios=(0.75, 2.0), noise=(0.0,), repeats=3)
    >>> findings["tables"][0]["rows"][0]  # the least n / m at which 95 % are right
    ['lp', 0.0, 0.75]
    """
    left, rng = deadline(seconds), np.random.default_rng(seed)
    cases = [(c, ratio) for c in noise for ratio in ratios]
    shares: dict[tuple[str, float, float], float] = {}
    for done, (c, ratio) in enumerate(cases):
        bar("linear reconstruction", done, len(cases))
        seen: dict[str, list[float]] = {method: [] for method in METHODS}
        for _ in range(repeats):
            if left() <= 0:
                break
            truth, inside = rng.choice([-1.0, 1.0], m), rng.random((max(1, round(ratio * m)), m)) < 0.5
            reach = c * m**0.5
            answers = inside @ truth + rng.uniform(-reach, reach, len(inside))
            for method in METHODS:
                recovered = recover_column(inside, answers, reach, method=method, seconds=max(left(), 1e-3))
                seen[method].append(recovered.share_right(truth))
        if left() <= 0:
            break
        shares |= {(method, c, ratio): float(np.median(seen[method])) for method in METHODS}
    return found(
        NAME,
        TITLE,
        tables=[_starts(shares, ratios, noise, m)],
        figures=_figures(shares, ratios, noise, m),
        checks=[_half(shares, ratios)],
        notes=[
            "With a known seed, rados are answers to random subset queries, and noise below about sqrt(m) does not "
            "protect labels once there are a few times m rados: Dinur and Nissim's result, met here.",
        ],
    )


def _starts(
    shares: dict[tuple[str, float, float], float], ratios: Sequence[float], noise: Sequence[float], m: int
) -> Table:
    """The least n / m from which on at least 95 % are right."""
    rows = []
    for method in METHODS:
        for c in noise:
            wrong = [ratio for ratio in ratios if shares.get((method, c, ratio), 0.0) < 0.95]
            enough = [ratio for ratio in ratios if ratio > max(wrong, default=0.0)]
            rows.append([method, c, min(enough, default=None)])
    columns = ["method", column("noise bound", "sqrt(m)", 2), column("rados needed", "m", 2)]
    note = f"m = {m:,}; empty where none of the sizes tried was enough."
    return table("start", "Rados from which on 95 % of labels are recovered", columns, rows, note)


def _figures(
    shares: dict[tuple[str, float, float], float], ratios: Sequence[float], noise: Sequence[float], m: int
) -> list[dict[str, Any]]:
    panels = [
        panel(method, "rados / records", "labels recovered, %", [
            series(f"noise within {c:g} sqrt(m)", [ratio for ratio in ratios if (method, c, ratio) in shares],
                   [100 * shares[method, c, ratio] for ratio in ratios if (method, c, ratio) in shares])
            for c in noise if any((method, c, ratio) in shares for ratio in ratios)
        ], log_x=True)
        for method in METHODS
    ]  # fmt: skip
    if not shares:
        return []
    caption = f"Median share of {m:,} random labels that is right, for rados whose signatures are known."
    return [figure("linear", "Labels recovered from rados with noise", caption, panels)]


def _half(shares: dict[tuple[str, float, float], float], ratios: Sequence[float]) -> dict[str, Any]:
    """Whether the interval helps below n = m."""
    below = [ratio for ratio in ratios if 0.5 < ratio < 1 and ("lp", 0.0, ratio) in shares]
    seen = all(shares["lp", 0.0, ratio] == 1.0 for ratio in below) if below else None
    why = ", ".join(f"{100 * shares['lp', 0.0, ratio]:.0f} % at {ratio:g} m" for ratio in below)
    claim = "without noise, a linear program gets all labels from fewer rados than records, beyond half as many"
    return check(claim, seen, why or "no such size was tried")
