"""lem_reco1: the edge vectors of a release whose signatures are known, as those of a known seed are.

Rados are sums over known subsets, so they are linear equations with coefficients 0 and 1. The equations are solved
modulo one prime. This loses nothing: edge vectors on the grid are integers of at most 2**22, so an integer that is
right modulo a prime near 2**61 is right. A record may be determined although others are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder.grid import GRID_BITS
from radoboost.lab.attacks.adversary_knowledge import (
    DEFAULT_SECONDS,
    attack_deadline,
    attack_library,
    known_n_examples,
    rado_integers,
    seed_inclusion_bits,
)
from radoboost.release.columns import Column
from radoboost.release.release import Release

NAME = "reconstruct"
TITLE = "Reconstruction from known signatures"
ASSUMES = (
    "The adversary knows which record is in which rado, because the seed of the signatures is known, and how many "
    "records there are. Nothing is assumed about the records themselves."
)

# Whatever the prime, what is found is right: if a combination of equations is x_i modulo p, then x_i modulo p is known.
# A determined record is missed only if p divides a minor that shows it, which for random bits has probability about
# 2**-61 for each of at most m (m + 1) minors: below 1e-10 up to 10,000 records.
PRIME = 2**61 - 1
SPARE = 64  # more equations than unknowns: the first so many almost surely have full rank
_SECONDS_OF_PRODUCT, _SECONDS_OF_ENTRY = 1e-9, 1.5e-6  # about twice what was measured
_MOST_ENTRIES = 1 << 25  # of a matrix that passes through Python's integers
_ENOUGH_CHECKS = 20  # a wrong seed passes each with probability 1/2 or less, so all of them with 1e-6
_OTHER = "it is another seed, another number of rows, or a release of another table"


@dataclass(frozen=True, eq=False)
class Solution:
    """Integers x with coefficients @ x = sums: those that are determined, and how many dimensions are left.

    `values` is 0 where not `found`; `rank` is that of the coefficients, None if there was not time enough, or if the
    system is `too_large` for this solver, however much time there is.
    """

    values: NDArray[np.int64]
    found: NDArray[np.bool_]
    rank: int | None
    too_large: bool = False


def solve_integers(
    coefficients: NDArray[Any], sums: NDArray[Any], *, largest: int = 2**53, seconds: float = DEFAULT_SECONDS
) -> Solution:
    """Solve coefficients @ x = sums for integers x of magnitude at most `largest`, one system for each column of sums.

    Every unknown that is determined is found, exactly, even if others are not. A system without a solution is refused.
    Coefficients are 0 and 1.
    """
    if coefficients.ndim != 2 or sums.ndim != 2 or len(coefficients) != len(sums):
        raise ArgumentError(f"coefficients of shape {coefficients.shape} and sums of shape {sums.shape} do not match")
    if not coefficients.size or not sums.size:
        raise ArgumentError("coefficients and sums must have at least one row and one column each")
    if not ((coefficients == 0) | (coefficients == 1)).all():
        raise ArgumentError("coefficients must be 0 and 1: whether an example is in a rado")
    if not (sums == np.rint(sums)).all():
        raise ArgumentError("sums must be whole numbers: rados in steps of their grid")
    if not 0 < largest <= 2**53 or (sums > 2**53).any() or (sums < -(2**53)).any():
        raise ArgumentError("sums, and the largest value asked for, must be at most 2**53 in magnitude")
    left = attack_deadline(seconds)
    n, m = coefficients.shape
    for rows in sorted({min(n, m + SPARE), n}):  # a few equations more than unknowns are mostly enough
        too_large = rows * (m + sums.shape[1]) > _MOST_ENTRIES
        if too_large or _elimination_seconds(rows, m, sums.shape[1]) > left():
            return Solution(np.zeros((m, sums.shape[1]), np.int64), np.zeros(m, np.bool_), None, too_large)
        solution = _solve_modulo_prime(coefficients[:rows], sums[:rows], largest)
        if solution.rank == m:
            break
    if solution.rank == m and not _solution_gives_sums(coefficients, solution.values, sums):
        raise TableError(f"no integers give these sums: {_OTHER}")
    return solution


def _solve_modulo_prime(coefficients: NDArray[Any], sums: NDArray[Any], largest: int) -> Solution:
    """By the reduced echelon form of coefficients and sums, side by side, modulo the prime."""
    m = coefficients.shape[1]
    whole = np.concatenate([coefficients.astype(np.int64), np.mod(sums.astype(np.int64), PRIME)], axis=1)
    matrix = attack_library("flint").nmod_mat(*whole.shape, whole.ravel().tolist(), PRIME)
    reduced, rank = matrix.rref()
    entries = np.array([int(entry) for entry in reduced.entries()], dtype=np.int64).reshape(whole.shape)[:rank]
    nonzero = entries[:, :m] != 0
    if not nonzero.any(axis=1).all():
        raise TableError(f"no integers give these sums: {_OTHER}")
    determined = nonzero.sum(axis=1) == 1
    place = nonzero.argmax(axis=1)[determined]
    lifted = entries[determined, m:]
    lifted[lifted > PRIME // 2] -= PRIME
    if lifted.size and np.abs(lifted).max() > largest:
        raise TableError(f"no integers as small as they must be give these sums: {_OTHER}")
    values, found = np.zeros((m, sums.shape[1]), np.int64), np.zeros(m, np.bool_)
    values[place], found[place] = lifted, True
    return Solution(values, found, rank)


def _solution_gives_sums(coefficients: NDArray[Any], values: NDArray[np.int64], sums: NDArray[Any]) -> bool:
    """Whether the values give the sums, exactly: in floats if those are exact, for they are faster."""
    small = len(values) * (int(np.abs(values).max(initial=0)) + 1) < 2**53
    number = np.float64 if small else np.int64
    return bool((coefficients.astype(number) @ values.astype(number) == sums).all())


def _elimination_seconds(n: int, m: int, d: int) -> float:
    return _SECONDS_OF_PRODUCT * n * (m + d) * min(n, m) + _SECONDS_OF_ENTRY * n * (m + d)


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The records of a release, as far as its rados and the seed determine them.

    `edge_integers` are edge vectors in steps of the columns' grids, right to the last bit where `found`, and 0 where
    not. `rank` is that of the signatures (None: there was no time, or they are `too_large` for this attack): if it is
    less than the number of rows, then `free` dimensions of every column are left open. `up_to_sign`: of a feature band
    it is s_i y_i x_i that is found, where s_i is the protected column of y_i x_i: so the protected value itself is
    found, and the label is not. Unless `seed_checked`, another seed might have passed as well, and given other records.
    Of more than two classes, edge vectors are the rows themselves, without a sign, and `places` are those of their
    classes: -1 where not found.
    """

    columns: tuple[Column, ...]
    classes: tuple[Any, ...]
    edge_integers: NDArray[np.int64]
    found: NDArray[np.bool_]
    rank: int | None
    free: int | None
    up_to_sign: bool
    seed_checked: bool = True
    too_large: bool = False
    places: NDArray[np.int64] | None = None

    @property
    def n_found(self) -> int:
        return 0 if self.rank is None else int(self.found.sum())

    @property
    def status(self) -> str:
        """What was found: "all", "some" or "none" of the records, or "unknown" if it was not tried; see `why`."""
        if self.rank is None:
            return "unknown"
        return "all" if self.found.all() else "some" if self.found.any() else "none"

    @property
    def why(self) -> str | None:
        """Why it is unknown: "time", if more seconds would help, or "size", if they would not."""
        return None if self.rank is not None else "size" if self.too_large else "time"

    @property
    def edge_vectors(self) -> NDArray[np.float64]:
        vectors: NDArray[np.float64] = self.edge_integers * np.array([column.step for column in self.columns])
        vectors[~self.found] = np.nan
        return vectors

    @property
    def has_constant(self) -> bool:
        """Whether there is a constant column: it gives the label, or, for a feature band, the protected value."""
        return self.columns[-1].scale == "constant"

    @property
    def has_labels(self) -> bool:
        return self.places is not None or (self.has_constant and not self.up_to_sign)

    @property
    def has_rows(self) -> bool:
        """Whether the rows of the table follow, and not only edge vectors."""
        return self.has_constant or self.places is not None

    @property
    def labels(self) -> NDArray[np.int8] | None:
        """The labels as -1 and +1, 0 where not found; None if nothing gives them away, or there are more than two."""
        if not self.has_labels or self.places is not None:
            return None
        return np.sign(self.edge_integers[:, -1]).astype(np.int8)

    def to_table(self, label: str | None = None) -> pa.Table:
        """The records found, in the units of the holder's table, up to half a step of the grid; their label last.

        Values are those after clipping to the bounds, where the holder declared some. Where some records were not
        found, a first column "(row)" says which these are. Without the constant column there are edge vectors only, in
        the columns' units. Where a feature has the name "(row)" or "label", an underscore is added to ours.
        """
        names = [column.name for column in self.columns if column.scale != "constant"]
        if label in names:
            raise ArgumentError(f"{label!r} is the name of a feature; give the label another name")
        label = _free_column_name("label", names) if label is None else label
        rows = np.flatnonzero(self.found) if self.n_found else np.empty(0, np.intp)
        integers = self.edge_integers[rows]
        place = {_free_column_name("(row)", [*names, label]): pa.array(rows.tolist(), pa.int64())}
        arrays = {} if len(rows) == len(self.found) else place
        if self.has_constant and self.places is None:
            # The constant's edge is y_i, or s_i y_i: times it the others lose just that sign.
            integers = integers * np.sign(integers[:, -1:])
        for k, column in enumerate(self.columns[: len(names)]):
            values = integers[:, k] * np.float64(column.step)
            if self.has_rows:  # in the units of the holder's table: the one formula of columns, undone
                _, _, shift, factor, divisor, offset = column.constants
                values = (values + offset) * divisor / factor + shift
            arrays[column.name] = pa.array(values.tolist())
        if self.places is not None:
            arrays[label] = pa.array([None if place < 0 else self.classes[place] for place in self.places[rows]])
        elif self.has_labels:
            negative, positive = self.classes
            arrays[label] = pa.array([positive if edge > 0 else negative for edge in self.edge_integers[rows, -1]])
        return pa.table(arrays)

    def to_dict(self) -> dict[str, Any]:
        """What was found out, as JSON data, without the records themselves."""
        told = {name: getattr(self, name) for name in ("status", "why", "rank", "free", "seed_checked")}
        return {**told, "rows": len(self.found), "found": self.n_found, "labels": self.has_labels}

    def sentence(self) -> str:
        m, k = len(self.found), self.n_found
        if self.too_large:
            instead = "" if self.up_to_sign else "; the attack linear with least-squares may take it, column by column"
            return f"Unknown: solving for {m:,} records is too large for this attack, whatever the time limit{instead}."
        if self.rank is None:
            return f"Unknown: solving for {m:,} records does not end within the time limit; allow more seconds."
        unsure = "" if self.seed_checked else "; this holds if the seed is right, which could not be checked"
        why = f"{self.rank:,} independent rados leave {self.free:,} dimensions open"
        if not k:
            return (
                f"The rados and the seed alone determine none of the {m:,} records, for {why}; "
                f"whoever knows something about the records may still get them{unsure}."
            )
        what = ", labels included" if self.has_rows else ", each times its label of -1 or +1"
        if self.up_to_sign:
            what = ", the protected column included, but not their labels" if self.has_constant else ", each up to sign"
        count = f"all {m:,}" if k == m else f"{k:,} of {m:,}"
        clipped = ", clipped to the declared bounds" if any(c.low is not None for c in self.columns) else ""
        rest = "" if k == m else f"; the others are not determined by the rados alone, for {why}"
        grid = f"back to the last bit of the grid{clipped}"
        return f"Whoever knows the seed gets {count} records {grid}{what}{rest}{unsure}."


def reconstruct(
    release: Release, seed: int, rows: int | None = None, *, seconds: float = DEFAULT_SECONDS
) -> Reconstruction:
    """The records of a seeded release, as far as they are determined (lem_reco1).

    The lemma's E = P U' G' (G U U' G')^-1 is the least-squares solution where the rank is full; here it is computed
    exactly. Where the rank is less, the lemma says that there is no single solution; single records may have one.
    A wrong seed is refused where rados contradict it. Fewer rados than records do so only by the constant column, and
    then not if all have as many records: see `seed_checked`.
    """
    left = attack_deadline(seconds)
    check_reconstruction_possible(release)
    m, banded = known_n_examples(release, rows), release.law == "banded sums"
    d, unknowns, many = len(release.columns), m + banded, release.n_classes > 2
    width = d * release.n_classes if many else d
    # Before signatures take their memory.
    if min(release.n_rados, unknowns + SPARE) * (unknowns + width) > _MOST_ENTRIES:
        nothing, none = np.broadcast_to(np.int64(0), (m, d)), np.broadcast_to(np.bool_(False), (m,))
        places = np.broadcast_to(np.int64(-1), (m,)) if many else None
        return Reconstruction(release.columns, release.classes, nothing, none, None, None, banded, False, True, places)
    inside, rados = seed_inclusion_bits(release, seed, m), rado_integers(release)
    constant = release.columns[-1].scale == "constant"
    checks = 0
    if constant and many:
        sizes = rados[:, d - 1 :: d].sum(axis=1) >> GRID_BITS  # over all classes of a rado: as many as its signature
        checks = _checks_of_seed(inside, inside.sum(axis=1) == sizes)
    elif constant:
        checks = check_seed_by_parity(inside, rados[:, -1] >> GRID_BITS, banded)
    # Of a feature band, P = C - F u, where u_i = s_i e_i and C is the sum of the e_i with s_i = +1.
    coefficients = np.column_stack([inside, np.ones(len(inside), np.bool_)]) if banded else inside
    bound = 2**GRID_BITS
    solution = solve_integers(coefficients, rados, largest=bound * m, seconds=max(left(), 1e-3))
    edges, found = (-1 if banded else 1) * solution.values[:m], solution.found[:m]
    places = None
    if many:
        edges, places = _reconstructed_rows_and_classes(edges, found, release.n_classes)
    if (np.abs(edges) > bound).any() or (constant and (np.abs(edges[found, -1]) != bound).any()):
        raise TableError(f"the records under this seed would not be on the grid of the release: {_OTHER}")
    free, checked = None, False
    if solution.rank is not None:
        free, spare = unknowns - solution.rank, len(rados) - solution.rank
        checked = (free == 0 and spare > 0) or spare + checks >= _ENOUGH_CHECKS
    return Reconstruction(
        release.columns, release.classes, edges, found, solution.rank, free, banded, checked, solution.too_large,
        places,
    )  # fmt: skip


def _reconstructed_rows_and_classes(
    slots: NDArray[np.int64], found: NDArray[np.bool_], n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows out of the slots of their classes, and which these are; -1 where a row is not found, or all zeros."""
    by_class = slots.reshape(len(slots), n_classes, -1)
    used: NDArray[np.bool_] = (by_class != 0).any(axis=2)
    if (used[found].sum(axis=1) > 1).any():
        raise TableError(f"the records under this seed would be of several classes at once: {_OTHER}")
    return by_class.sum(axis=1), np.where(found & used.any(axis=1), used.argmax(axis=1), -1)


def check_reconstruction_possible(release: Release) -> None:
    """Refuse a release whose rados are not sums over the examples' own values."""
    name = release.mechanism["name"]
    if release.law == "noisy sums":
        raise ArgumentError("the rados of this release carry noise, so equations do not hold; use the attack linear")
    if release.law == "sums of noisy rows":
        raise ArgumentError(
            "a seed gives back the noisy examples of this release, and noise on examples is what protects them; "
            "there is nothing more to reconstruct"
        )
    if release.law not in ("sums", "banded sums"):
        raise ArgumentError(
            f"the rados of a release by {name!r} are not sums of examples, so nothing can be "
            "reconstructed; use a release by plain"
        )


def check_seed_by_parity(inside: NDArray[np.bool_], counts: NDArray[np.int64], banded: bool = False) -> int:
    """Refuse a seed under which the constant column is impossible, and return how many checks that was.

    A sum of k labels is even iff k is. Where sizes k vary from rado to rado, a wrong seed passes n such checks with
    probability about 2**-n, also where equations are too few to contradict each other. Where all rados have the same
    size, k is the same under every seed, so nothing is checked.
    """
    odd = (inside.sum(axis=1) + counts) % 2
    # Of a band the parity of C is unknown, but it is the same for all rados.
    return _checks_of_seed(inside, odd == (odd[0] if banded else 0), int(banded))


def _checks_of_seed(inside: NDArray[np.bool_], fits: NDArray[np.bool_], unknown: int = 0) -> int:
    if not fits.all():
        raise TableError(f"no table has this constant column under this seed: {_OTHER}")
    sizes = inside.sum(axis=1)
    return 0 if (sizes == sizes[0]).all() else len(sizes) - unknown


def _free_column_name(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name
