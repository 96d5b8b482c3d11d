"""Linear reconstruction (Dinur and Nissim, 2003): one column of a table from rados with known signatures, and noise.

Each rado is a noisy subset sum of the column, so it is one linear equation with an error. Least squares takes them as
they are. A linear program also knows that values lie in an interval, and so works with fewer rados than records: of
a column of -1 and +1 without noise, half as many are about enough.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder.grid import GRID_BITS
from radoboost.lab.attacks import adversary_knowledge
from radoboost.lab.attacks.exact_reconstruction import check_seed_by_parity
from radoboost.progress import Progress, silent
from radoboost.release.columns import CONSTANT
from radoboost.release.release import Release
from radoboost.report.findings import (
    Check,
    Figure,
    FindingPart,
    Findings,
    Panel,
    ReportColumn,
    ReportTable,
    Series,
    findings_of_parts,
)

NAME = "linear"
TITLE = "Linear reconstruction of a column"
ASSUMES = (
    "The adversary knows which record is in which rado, because the seed of the signatures is known, "
    "how many records there are, what values the column can have, and how large the noise is."
)
METHODS = ("lp", "least-squares")
FALSE_ALARM = 1e-6  # that Gaussian noise is beyond its bound in any rado
_MOST_ENTRIES = {"lp": 1 << 22, "least-squares": 1 << 26}  # of the inclusion matrix; memory is several times that
_SECONDS_OF_ENTRY = 6e-7  # of setting up a linear program, which its solver does not count; as measured
_SECONDS_OF_PRODUCT = 3e-9  # of least squares, about twice what was measured
_SLACK = 1e-6  # of the largest value: what a solver in floating point may be off


@dataclass(frozen=True, eq=False)
class Recovered:
    """The recovered values of a column, for every record.

    `values` are rounded to those that the column can have. `reproduces` says whether they give the answers, up to the
    noise. `certain` says that no other values in the interval do, which the linear program can tell if there is no
    noise; None if that was not tried. `opposite` says that the other end of the interval, for every record, gives the
    answers too: then that `values` do so shows nothing. `free` is how many dimensions the equations alone leave open,
    computed only for values that are not rounded. `status` is "found", or "unknown" if it was not tried: `why` is then
    "time" or "size", and values are NaN.
    """

    column: str
    method: str
    status: str
    n_rados: int
    values: NDArray[np.float64]
    reproduces: bool
    certain: bool | None
    noise_bound: float
    opposite: bool = False
    free: int | None = None
    why: str | None = None

    def share_right(self, truth: NDArray[Any]) -> float:
        """The share of records whose value is right, up to rounding errors, given the true ones."""
        return float(np.isclose(self.values, truth, rtol=0, atol=1e-6 * np.abs(truth).max(initial=1.0)).mean())

    def to_dict(self) -> dict[str, Any]:
        """What was found out, as JSON data, without the values themselves."""
        told = {name: value for name, value in vars(self).items() if name not in ("values", "n_rados")}
        return {**told, "rows": len(self.values), "rados": self.n_rados}

    def sentence(self) -> str:
        m, what = len(self.values), "the label" if self.column == CONSTANT else repr(self.column)
        if self.why == "size":
            instead = "; take the method least-squares" if _method_fits_memory("least-squares", self.n_rados, m) else ""
            size = f"{self.n_rados:,} rados over {m:,} records are too large for this attack, whatever the time limit"
            return f"Unknown: {size}{instead}."
        if self.status == "unknown":
            return f"Unknown: recovering {what} of {m:,} records takes longer than the time limit; allow more seconds."
        if self.certain:
            return f"Whoever knows the seed gets {what} of all {m:,} records: no other values give the same rados."
        noise = "up to their noise" if self.noise_bound else "exactly"
        if self.reproduces and self.opposite:
            allow = f"noise of up to {self.noise_bound:.3g} allows" if self.noise_bound else "so few rados allow"
            return (
                f"Nothing certain was got: {allow} even the opposite values of {what} for all {m:,} records, so those "
                "found are a guess."
            )
        if self.reproduces and self.free:
            return (
                f"Whoever knows the seed gets values of {what} for all {m:,} records that give all {self.n_rados:,} "
                f"rados {noise}, but these leave {self.free:,} dimensions open: the values are in general one of "
                "infinitely many solutions, and may be far from the true ones."
            )
        if self.reproduces:
            other = "other values, or a wrong seed," if self.noise_bound else "other values"
            return (
                f"Whoever knows the seed gets values of {what} for all {m:,} records that give all {self.n_rados:,} "
                f"rados {noise}; {other} may do so too."
            )
        return (
            f"Whoever knows the seed gets a guess of {what} for each of {m:,} records that does not give the rados "
            "back; it may still be right for most records."
        )


def recover_column_linearly(
    inclusion: NDArray[Any], answers: NDArray[Any], noise_bound: float, values: Sequence[float] = (-1.0, 1.0),
    method: str = "lp", *, rounded: bool = True, name: str = "the column",
    seconds: float = adversary_knowledge.DEFAULT_SECONDS,
) -> Recovered:  # fmt: skip
    """Recover x from answers = inclusion @ x + noise, with noise of at most `noise_bound` in each.

    `values` are those that x can have; with `rounded=False` they are the ends of an interval. The linear program is
    for the x in the interval whose largest error is least. It refuses answers that no such x gives within the bound.
    The time to set the program up is an estimate, so a slow machine may exceed the limit by seconds.
    """
    left = adversary_knowledge.attack_deadline(seconds)
    allowed = np.unique(np.asarray(values, dtype=np.float64))
    bits, sums = np.asarray(inclusion), np.asarray(answers, dtype=np.float64)
    if bits.ndim != 2 or not bits.size or sums.shape != (len(bits),):
        raise ArgumentError(f"one answer for each row of inclusion is needed; shapes are {bits.shape}, {sums.shape}")
    if len(allowed) < 2 or not np.isfinite(allowed).all() or not np.isfinite(sums).all():
        raise ArgumentError("values must be at least two different finite numbers, and answers finite")
    if not 0 <= noise_bound < np.inf:
        raise ArgumentError(f"the noise bound must be a number of at least 0; it is {noise_bound}")
    (n, m), solution = bits.shape, None
    if not _method_fits_memory(method, n, m):
        return _nothing_recovered(name, method, n, m, noise_bound, "size")
    inside = bits.astype(np.float64)
    # From here on values lie in [-1, 1]: solvers have absolute tolerances.
    middle, half = allowed[0] / 2 + allowed[-1] / 2, allowed[-1] / 2 - allowed[0] / 2
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (sums - inside.sum(axis=1) * middle) / half
        bound, most = noise_bound / half, m * np.abs(allowed).max()
    if half < np.finfo(np.float64).tiny or not np.isfinite([*scaled, bound, 2 * most]).all():
        raise ArgumentError(
            f"values from {allowed[0]:g} to {allowed[-1]:g} are too large, or too close together, for these rados in "
            "floating point; give values that the column can have"
        )
    if method == "lp":
        solution = _recover_by_linear_program(inside, scaled, bound, left())
    elif _SECONDS_OF_PRODUCT * inside.size * min(inside.shape) < left():
        solution = np.clip(np.linalg.lstsq(inside, scaled)[0], -1, 1)  # of many, the one nearest to the middle
    if solution is None:
        return _nothing_recovered(name, method, n, m, noise_bound, "time")
    estimates = middle + half * solution
    nearest = allowed[np.abs(estimates[:, None] - allowed).argmin(axis=1)] if rounded else estimates
    if (1 - np.abs(solution) < _SLACK).all():  # at ends of the interval, which may show that there is nothing else
        nearest = np.where(solution > 0, allowed[-1], allowed[0])

    def gives(x: NDArray[np.float64]) -> bool:
        return bool((np.abs(inside @ x - sums) <= noise_bound + _SLACK * half).all())

    reproduces, certain = gives(nearest), None
    opposite = reproduces and gives(np.where(nearest > middle, allowed[0], allowed[-1]))
    if reproduces and method == "lp" and noise_bound == 0:
        certain = _is_only_box_corner(inside, scaled, (nearest - middle) / half, left())
    free = None if rounded else _free_dimensions_of_equations(inside, left())
    bound = float(noise_bound)
    return Recovered(name, method, "found", n, nearest, reproduces, certain, bound, opposite, free)


def _method_fits_memory(method: str, n: int, m: int) -> bool:
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}; it is {method!r}")
    return n * m <= _MOST_ENTRIES[method]


def _nothing_recovered(name: str, method: str, n: int, m: int, noise_bound: float, why: str) -> Recovered:
    """The result if nothing was tried; it takes no memory, for m may be anything."""
    nothing = np.broadcast_to(np.float64(np.nan), (m,))
    return Recovered(name, method, "unknown", n, nothing, False, None, float(noise_bound), why=why)


def _free_dimensions_of_equations(inside: NDArray[np.float64], seconds: float) -> int | None:
    """How many dimensions the equations leave open, at least; None if there is not time enough to tell."""
    n, m = inside.shape
    if n >= m and _SECONDS_OF_PRODUCT * n * m * m > seconds:
        return None
    return int(m - (n if n < m else np.linalg.matrix_rank(inside)))


def _recover_by_linear_program(
    inside: NDArray[np.float64], sums: NDArray[np.float64], bound: float, seconds: float
) -> NDArray[np.float64] | None:
    """The point of the box whose largest error is least; None if the time is over."""
    from scipy.optimize import linprog

    n, m = inside.shape
    limit = seconds - _SECONDS_OF_ENTRY * inside.size
    # The interior-point solver ignores a time limit that is over before it starts, hence the margin.
    if limit <= _SECONDS_OF_ENTRY * inside.size:
        return None
    options = {"time_limit": limit, "presolve": False}  # random bits have no structure to find
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


def _is_only_box_corner(
    inside: NDArray[np.float64], sums: NDArray[np.float64], corner: NDArray[np.float64], seconds: float
) -> bool | None:
    """Whether a corner of the box is the only solution in it: none reaches less far in its direction."""
    from scipy.optimize import linprog

    limit = seconds - _SECONDS_OF_ENTRY * inside.size
    if limit <= 0 or not (np.abs(corner) == 1).all():
        return None
    options = {"time_limit": limit, "presolve": False}
    result = linprog(corner, A_eq=inside, b_eq=sums, bounds=(-1, 1), method="highs-ds", options=options)
    return None if result.status != 0 else bool(result.fun > len(corner) - 1e-4)


def recover_release_column(
    release: Release,
    seed: int,
    rows: int | None = None,
    column: str = CONSTANT,
    *,
    method: str = "lp",
    values: Sequence[float] | None = None,
    seconds: float = adversary_knowledge.DEFAULT_SECONDS,
) -> Recovered:
    """Recover one column of y_i x_i of a seeded release: of the constant column these are the labels.

    For any other column give the `values` that y_i x_i can have, in the column's units; without them any value on its
    grid is possible. Clipping makes a row shorter but keeps its signs: of a release with noise the constant column's
    values stand for labels. In a release without noise the parity of the constant column shows a wrong seed, unless
    all its rados have as many records.
    """
    adversary_knowledge.refuse_many_classes(
        release, "this attack recovers one column times its label of -1 or +1", "; take the attack reconstruct"
    )
    names, law = release.feature_names, release.law
    if law not in ("sums", "noisy sums"):
        raise ArgumentError(
            f"this attack is for rados that are sums over a seed's subsets, with noise or without, and those of "
            f"{release.mechanism['name']!r} are not; use a release by plain or noisy-rados"
        )
    if column not in names:
        raise ArgumentError(f"the release has no column {column!r}; it has {', '.join(names)}")
    left, place = adversary_knowledge.attack_deadline(seconds), names.index(column)
    m = adversary_knowledge.known_n_examples(release, rows)
    entry, bound, largest = release.columns[place], 0.0, 2.0**GRID_BITS * release.columns[place].step
    if law == "noisy sums":
        tail = FALSE_ALARM / (2 * release.n_rados)
        bound = float(release.mechanism["noise_std"]) * NormalDist().inv_cdf(1 - tail) + entry.step
        largest = min(largest, float(release.mechanism["clip"]))
    is_constant = entry.scale == "constant"
    if not _method_fits_memory(method, release.n_rados, m):  # before signatures take their memory
        return _nothing_recovered(column, method, release.n_rados, m, bound, "size")
    inside = adversary_knowledge.seed_inclusion_bits(release, seed, m)
    if law == "sums" and release.columns[-1].scale == "constant":
        check_seed_by_parity(inside, adversary_knowledge.rado_integers(release)[:, -1] >> GRID_BITS)
    return recover_column_linearly(
        inside, release.rados[:, place], bound, (-largest, largest) if values is None else values, method,
        rounded=values is not None or is_constant, name=column, seconds=max(left(), 1e-3),
    )  # fmt: skip


def study(
    m: int = 100, *, ratios: Sequence[float] = (0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0),
    noise: Sequence[float] = (0.0, 0.1, 0.5, 1.0), repeats: int = 15, seed: int = 0, seconds: float = 300.0,
    bar: Progress = silent,
) -> Findings:  # fmt: skip
    """How many of m labels are recovered from n rados, by n / m and by noise.

    Noise is uniform within +-c sqrt(m), for each c of `noise`. A share is the median of `repeats` random cases.
    """
    left, rng = adversary_knowledge.attack_deadline(seconds), np.random.default_rng(seed)
    cases = [(c, ratio) for c in noise for ratio in ratios]
    shares: dict[tuple[str, float, float], float] = {}
    for n_done, (c, ratio) in enumerate(cases):
        bar("linear reconstruction", n_done, len(cases))
        shares_right: dict[str, list[float]] = {method: [] for method in METHODS}
        for _ in range(repeats):
            if left() <= 0:
                break
            truth, inside = rng.choice([-1.0, 1.0], m), rng.random((max(1, round(ratio * m)), m)) < 0.5
            reach = c * m**0.5
            answers = inside @ truth + rng.uniform(-reach, reach, len(inside))
            for method in METHODS:
                recovered = recover_column_linearly(inside, answers, reach, method=method, seconds=max(left(), 1e-3))
                if recovered.status == "found":
                    shares_right[method].append(recovered.share_right(truth))
        done_all = [method for method in METHODS if len(shares_right[method]) == repeats]
        shares |= {(method, c, ratio): float(np.median(shares_right[method])) for method in done_all}
        if left() <= 0:
            break
    return findings_of_parts(NAME, TITLE, _recovery_findings(shares, ratios, noise, m))


def _recovery_findings(
    shares: dict[tuple[str, float, float], float], ratios: Sequence[float], noise: Sequence[float], m: int
) -> Iterator[FindingPart]:
    rows, panels = [], []
    for method in METHODS:
        lines = []
        for c in noise:
            tried = [ratio for ratio in ratios if (method, c, ratio) in shares]
            wrong = [ratio for ratio in tried if shares[method, c, ratio] < 0.95]
            if tried:  # the least n / m from which on at least 95 % are right
                enough = [ratio for ratio in tried if ratio > max(wrong, default=0.0)]
                rows.append([method, c, min(enough, default=None)])
                right = [100 * shares[method, c, ratio] for ratio in tried]
                lines.append(Series(f"noise within {c:g} sqrt(m)", tried, right))
        if lines:
            panels.append(Panel(method, "rados / records", "labels recovered, %", lines, log_x=True))
    yield ReportTable(
        "start", "Rados from which on 95 % of labels are recovered",
        ["method", ReportColumn("noise bound", "sqrt(m)", 2), ReportColumn("rados needed", "m", 2)], rows,
        f"m = {m:,}; empty where none of the sizes tried was enough.",
    )  # fmt: skip
    if panels:
        caption = f"Median share of {m:,} random labels that is right, for rados whose signatures are known."
        yield Figure("linear", "Labels recovered from rados with noise", caption, panels)
    below = [ratio for ratio in ratios if 0.5 < ratio < 1 and ("lp", 0.0, ratio) in shares]
    yield Check(
        "without noise, a linear program gets all labels from fewer rados than records, beyond half as many",
        all(shares["lp", 0.0, ratio] == 1.0 for ratio in below) if below else None,
        ", ".join(f"{100 * shares['lp', 0.0, ratio]:.0f} % at {ratio:g} m" for ratio in below)
        or "no such size was tried",
        ours=True,
    )
    yield (
        "With a known seed, rados are answers to random subset queries, and noise below about sqrt(m) does not "
        "protect labels once there are a few times m rados: Dinur and Nissim's result, met here."
    )
