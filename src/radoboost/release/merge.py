"""Plain releases of several holders put together, as one release of all their rows.

*Sum.* Rado j of one holder plus rado j of another sums the rows of both that are in their signatures. With independent
coins that is a rado of the union, with the uniform law. With one seed, under which rows are numbered through, it is the
rado of the whole table, to the last bit. Values are whole numbers of grid steps, so sums are exact.

*Moments.* Where numbers of rados differ, or there are too many rows for exact sums: over the rows of all holders the
mean of a rado is the sum of the holders' means, and the covariance the sum of their covariances, for coins of different
rows are independent. So the rados of each holder are centred, stretched and moved:

    b + sqrt((N - 1) / (n_k - 1)) (pi - mean_k)      b the sum of means, n_k the rados of holder k, N those of all

The mean of these N rows is b, and their covariance the sum of covariances, as `numpy.cov` computes both. Stacking rados
as they are would be a mixture: the spread of the holders' means would enter the covariance.

*Other constants.* With z-scores each holder has its own mean mu and deviation s. Over the rows of a rado the constant
column sums what each row counts, c, so that s pi + mu c is the sum of values in the table's units, whatever mu and s
were: (s pi + (mu - mu') c) / s' is the rado in z-scores of all holders together, whose mu' and s' follow from those of
each and its number of rows. What was clipped to other bounds cannot be converted.

*Exact moments* of the same columns are sums over rows, and add up.
"""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.release import compatibility
from radoboost.release.columns import GRID_BITS, MAX_EXAMPLES, Column, grid_step
from radoboost.release.composition import ids_composed_with
from radoboost.release.file_format import is_rado_block_name
from radoboost.release.kind import EXACT_MOMENTS, MOMENT_BLOCKS, POOLED_SUMS, SUMS
from radoboost.release.parties import MERGED, Parties, party_sentences
from radoboost.release.release import Release, Statement

AUTO, SUM, MOMENTS = WAYS = ("auto", "sum", "moments")
Rows = NDArray[np.float64]
_EXACT = 53  # bits of a whole number that float64 holds
_TRUST = "several holders, each of whom sees its own table alone; of each: {each}"
_PARTS = (
    "How many rows each of the {count} releases is of that were merged, and their ids and digests, are in this "
    "statement, and of a room the fingerprints of its holders. A row that several holders have counts several times."
)
_OF_SUMS = (
    "These rados are sums of those of {count} releases: whoever has all but one of them, as of two each maker has its "
    "own, knows that one by subtraction."
)
_OF_EXACT = (
    "These sums are those of {count} releases: whoever has all but one of them, as of two each maker has its own, "
    "knows that one by subtraction."
)
_OF_MOMENTS = (
    "These rados are those of {count} releases, one after the other, moved and stretched: each release can be read off "
    "them."
)
_SEEDED = (
    "Holders who share a seed know each other's signatures, and can solve for each other's rows from rados: let none "
    "of them see the release of another, or this one."
)


def merge(releases: Sequence[Release | str | os.PathLike[str]], how: str = "auto") -> Release:
    """One release of the rows of several holders, from a plain release of each, or from exact moments of each.

    Z-scores of different constants are converted, through the constant column. Whatever else differs is refused.
    Private releases are not merged: `MomentsClassifier().fit_rados([a, b, c])` learns from several.

    Parameters
    ----------
    releases : sequence of releases or their paths
        Of the same columns and classes, and no row in two of them. Their signatures are independent, or follow from one
        seed under which rows are numbered through: `craft(..., seed=k, mechanism=Plain(first_row=n))`.
    how : "auto", "sum" or "moments"
        "sum" adds rado j of each: exact, and with one seed the release of the whole table to the last bit. "moments"
        keeps the rados of all, moved so that their mean and covariance are those of all rows; they need not be equally
        many. "auto" sums where that is possible.

    Examples
    --------
    >>> import radoboost as rb
    >>> X, y = np.array([[1.0], [2.0], [3.0], [5.0]]), [0, 1, 1, 0]
    >>> bounds = {"x0": (0, 8)}
    >>> parts = [
    ...     rb.craft(X[:3], y[:3], n_rados=4, schema=bounds, mechanism=rb.Plain("bounds"), seed=7),
    ...     rb.craft(X[3:], y[3:], n_rados=2, schema=bounds, mechanism=rb.Plain("bounds", 3), classes=(0, 1), seed=7),
    ... ]
    >>> merge(parts).n_rados, merge(parts).n_examples
    (6, 4)
    >>> parts[1] = rb.craft(X[2:], y[2:], n_rados=4, schema=bounds, mechanism=rb.Plain("bounds", 2), seed=7)
    >>> parts[0] = rb.craft(X[:2], y[:2], n_rados=4, schema=bounds, mechanism=rb.Plain("bounds"), seed=7)
    >>> whole = rb.craft(X, y, n_rados=4, schema=bounds, mechanism=rb.Plain("bounds"), seed=7)
    >>> bool((merge(parts).rados == whole.rados).all())
    True
    """
    if not isinstance(how, str) or isinstance(releases, str | os.PathLike | Release):
        raise ArgumentError("merge takes several releases, or their paths, in a list: merge([a, b])")
    if how not in WAYS:
        raise ArgumentError(f"how must be 'auto', 'sum' or 'moments'; it is {how!r}")
    parts = compatibility.read_party_releases(releases, "merge")
    for part in parts:
        _check_release_can_be_merged(part)
    compatibility.check_releases_differ(parts)
    _check_tables_to_merge(parts)
    made = [_mechanism_to_merge(part.release) for part in parts]
    for part, own in zip(parts[1:], made[1:], strict=True):
        if own != made[0]:
            raise ArgumentError(f"{parts[0].name} and {part.name} are by different mechanisms; craft both plainly")
        compatibility.check_party_plans(parts[0], part)
        compatibility.check_parties_alike(parts[0], part)
    entries = [entry for part in parts for entry in part.entries]
    _check_merged_coins(parts)
    rows = sum(part.rows for part in parts)
    exact = parts[0].release.law == EXACT_MOMENTS
    pooled = not exact and (how == MOMENTS or (how == AUTO and _why_rados_cannot_be_summed(parts, rows) is not None))
    if not (exact or pooled) and (why := _why_rados_cannot_be_summed(parts, rows)) is not None:
        raise ArgumentError(f"{why}; pool their moments instead: how='moments' (--how moments)")
    columns = _pool_columns(parts)
    blocks, columns = (
        _add_exact_moments_of_parties if exact else _pool_rados_of_parties if pooled else _sum_rados_of_parties
    )(parts, columns)
    first = parts[0].release
    return Release(
        blocks=blocks,
        columns=columns,
        classes=first.classes,
        mechanism={**made[0], "law": EXACT_MOMENTS if exact else POOLED_SUMS if pooled else SUMS},
        signatures={"name": first.signatures["name"], **({} if pooled else _merged_row_numbering(entries))},
        statement=_merged_statement(parts, entries, _OF_EXACT if exact else _OF_MOMENTS if pooled else _OF_SUMS),
        n_examples=rows,
        id=_merged_release_id(parts, pooled),
        schema=compatibility.parties_schema(parts),
        map=first.map,
        block_columns=first.block_columns,
    )


# ---- what goes together


def _mechanism_to_merge(release: Release) -> dict[str, Any]:
    """The mechanism, without what differs among holders whose rados add up: why columns fitted the rows of each."""
    return {key: value for key, value in release.mechanism.items() if key not in ("law", "plan")}


def _check_release_can_be_merged(part: compatibility.PartyRelease) -> None:
    """Refuse what is neither plain sums over all signatures nor exact moments."""
    release = part.release
    if math.isfinite(release.statement.epsilon):
        raise ArgumentError(
            f"{part.name} is a private release, which is not merged: learn from several of the mechanism moments "
            "together (rado learn A B C), or let the holders make one release in a room (rado room)"
        )
    if release.law == EXACT_MOMENTS:
        return
    if release.law not in (SUMS, POOLED_SUMS):
        raise ArgumentError(
            f"{part.name} is by the mechanism {release.mechanism['name']}, and only plain rados add up to rados of all "
            "rows; let each holder craft a plain release, or one of moments, and learn from these together"
        )
    if release.signatures["name"] != "all":
        raise ArgumentError(
            f"{part.name} has signatures {release.signatures['name']!r}, and sums of such rados are of another set of "
            "signatures than those of one table; craft it with all signatures (leave --signatures out)"
        )
    if not any(is_rado_block_name(name) for name in release.blocks):
        raise ArgumentError(f"{part.name} has no rados; craft it plainly")
    assert part.rows  # or it is refused


def _check_tables_to_merge(parts: Sequence[compatibility.PartyRelease]) -> None:
    """Refuse two releases of one table: composed with each other or with a third, or of one holder in two rooms."""
    for one, other in combinations(parts, 2):
        if ids_composed_with(one.release) & ids_composed_with(other.release):
            raise ArgumentError(
                f"{one.name} and {other.name} are of one table, for they were composed with each other or with a "
                "third release, and its rows would count twice; give one of them"
            )
        if one.fingerprints & other.fingerprints:
            raise ArgumentError(
                f"{one.name} and {other.name} were made in rooms that had a holder in common, whose rows would count "
                "twice; give one of them, or let all holders make one release in a room (rado room)"
            )


def _check_merged_coins(parts: Sequence[compatibility.PartyRelease]) -> None:
    """Refuse seeded releases whose rows have the same numbers: of one seed, they would have the same coins.

    No release tells its seed, and none could without telling those who guess it. Of rows that have different numbers
    coins are independent whether seeds are equal or not.
    """
    spans = sorted(
        (entry["first_row"], entry["first_row"] + entry["rows"], place)
        for place, part in enumerate(parts)
        for entry in part.entries
        if "first_row" in entry
    )
    for (_, end, one), (start, _, other) in pairwise(spans):
        if start < end:
            raise ArgumentError(
                f"{parts[one].name} and {parts[other].name} were crafted from seeds, and rows of both have the numbers "
                f"from {start:,} on: with one seed their signatures would repeat; craft without --seed, or give each "
                f"its own numbers: --set first_row={end} in the latter"
            )


def merged_rows_have_one_numbering(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all rows of merged parts have numbers that follow each other, so that one seed may be that of all."""
    if not all("first_row" in entry for entry in entries):
        return False
    ordered = sorted(entries, key=lambda entry: int(entry["first_row"]))
    return all(one["first_row"] + one["rows"] == other["first_row"] for one, other in pairwise(ordered))


def _merged_row_numbering(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    first = min((entry["first_row"] for entry in entries), default=0) if merged_rows_have_one_numbering(entries) else 0
    return {"first_row": first} if first else {}


# ---- columns of all holders


def _pool_columns(parts: Sequence[compatibility.PartyRelease]) -> tuple[Column, ...]:
    rows = [part.rows for part in parts]
    return tuple(pool_column(own, rows) for own in zip(*(part.release.columns for part in parts), strict=True))


def pool_column(columns: Sequence[Column], rows: Sequence[int]) -> Column:
    """One column of several holders together, of so many rows each.

    Where their constants differ, its z-scores are by the mean and the deviation of all rows, and its step is one that
    reaches as far as their values; where they do not, it is the finest step of any.
    """
    first = columns[0]
    if len({compatibility.column_constants(column) for column in columns}) == 1:
        return replace(first, step=min(column.step for column in columns))
    mean, square = Fraction(0), Fraction(0)
    for column, count in zip(columns, rows, strict=True):
        own, deviation = Fraction(column.mean or 0.0), Fraction(_deviation_of_merged_column(column))
        share = Fraction(count, sum(rows))
        mean, square = mean + share * own, square + share * (deviation**2 + own**2)
    try:
        centre, std = float(mean), math.sqrt(float(square - mean**2)) or 1.0
    except OverflowError:
        raise ReleaseError(
            f"column {first.name!r} spreads too far to be standardised; use --set scale=bounds"
        ) from None
    # As far as 2**22 steps of each reach, in the table's units.
    reach = max(
        column.step * 2.0**GRID_BITS * _deviation_of_merged_column(column) + abs((column.mean or 0.0) - centre)
        for column in columns
    )
    return replace(first, mean=centre, std=std, step=grid_step(reach / std, first.name))


def _deviation_of_merged_column(column: Column) -> float:
    """The standard deviation of a column: where it is 0, a release says 1, and its step is 1 as well.

    No z-score of fewer than 2**42 rows needs a step of 1.
    """
    assert column.std is not None
    return 0.0 if column.std == column.step == 1.0 else column.std


def _convert_blocks(parts: Sequence[compatibility.PartyRelease], block: str, columns: Sequence[Column]) -> list[Rows]:
    """A block of each with the constants of all; values of columns whose constants are the same stay as they are."""
    blocks = []
    for part in parts:
        rows = part.release.blocks[block]
        values = rows.copy()
        for k, place in enumerate(_merged_block_columns(part.release, block)):
            own, pooled = part.release.columns[place], columns[place]
            if own.mean is None or own.std is None or pooled.mean is None or pooled.std is None:
                continue
            if compatibility.column_constants(own) != compatibility.column_constants(pooled):
                with np.errstate(over="ignore", invalid="ignore"):
                    values[:, k] = (own.std * rows[:, k] + (own.mean - pooled.mean) * rows[:, -1]) / pooled.std
        if not np.isfinite(values).all():
            raise ReleaseError("with the constants of all holders rados are too large for float64; rescale the tables")
        blocks.append(values)
    return blocks


def _merged_block_columns(release: Release, block: str) -> list[int]:
    """Which columns of the release a block has: all, but for sums of shared columns without labels."""
    return [release.feature_names.index(name) for name in release.columns_of(block)]


# ---- both ways


def _why_rados_cannot_be_summed(parts: Sequence[compatibility.PartyRelease], rows: int) -> str | None:
    counts = {part.release.n_rados for part in parts}
    if len(counts) > 1:
        numbers = compatibility.list_values_text(sorted(counts))
        return f"the releases have different numbers of rados, {numbers}, so rados have no partners"
    if any(part.release.law == POOLED_SUMS for part in parts):
        return "one of the releases has pooled moments, whose rados cannot be summed one by one"
    if rows > MAX_EXAMPLES:
        return f"together they are of {rows:,} rows, and at most {MAX_EXAMPLES:,} can be summed exactly"
    return None


def _sum_rados_of_parties(
    parts: Sequence[compatibility.PartyRelease], columns: tuple[Column, ...]
) -> tuple[dict[str, Rows], tuple[Column, ...]]:
    """Rado j of each, added as whole numbers of steps."""
    first = parts[0].release
    values = {name: _convert_blocks(parts, name, columns) for name in first.blocks}
    sizes = {name: np.sum([np.abs(rows).max(axis=0) for rows in own], axis=0) for name, own in values.items()}
    columns = _merged_grid_columns(first, columns, sizes)
    blocks = {}
    for name, own in values.items():
        steps = np.array([columns[place].step for place in _merged_block_columns(first, name)])
        blocks[name] = np.sum([np.rint(rows / steps).astype(np.int64) for rows in own], axis=0) * steps
    return blocks, columns


def _add_exact_moments_of_parties(
    parts: Sequence[compatibility.PartyRelease], columns: tuple[Column, ...]
) -> tuple[dict[str, Rows], tuple[Column, ...]]:
    """Exact moments of all, without rados that were drawn from those of some."""
    names = sorted(MOMENT_BLOCKS[EXACT_MOMENTS])
    return {name: np.sum([part.release.blocks[name] for part in parts], axis=0) for name in names}, columns


def _pool_rados_of_parties(
    parts: Sequence[compatibility.PartyRelease], columns: tuple[Column, ...]
) -> tuple[dict[str, Rows], tuple[Column, ...]]:
    """The rados of all, moved and stretched so that mean and covariance are the sums of those of each."""
    for part in parts:
        if part.release.n_rados < 2:
            raise ArgumentError(f"{part.name} has one rado only, which has no covariance; craft at least two")
    first, count, moved = parts[0].release, sum(part.release.n_rados for part in parts), {}
    for name in first.blocks:
        values = _convert_blocks(parts, name, columns)
        total = np.sum([rows.mean(axis=0) for rows in values], axis=0)
        stretched = [math.sqrt((count - 1) / (len(rows) - 1)) * (rows - rows.mean(axis=0)) for rows in values]
        moved[name] = total + np.concatenate(stretched)
    columns = _merged_grid_columns(first, columns, {name: np.abs(rows).max(axis=0) for name, rows in moved.items()})
    blocks = {}
    for name, rows in moved.items():
        steps = np.array([columns[place].step for place in _merged_block_columns(first, name)])
        blocks[name] = np.rint(rows / steps) * steps + 0.0
    return blocks, columns


def _merged_grid_columns(release: Release, columns: Sequence[Column], sizes: Mapping[str, Rows]) -> tuple[Column, ...]:
    """The columns on grids so coarse that values of these sizes, by block, are exact in float64, and no coarser."""
    largest = np.zeros(len(columns))
    for name, own in sizes.items():
        places = _merged_block_columns(release, name)
        largest[places] = np.maximum(largest[places], own)
    least = [math.ldexp(1.0, math.frexp(float(most))[1] - _EXACT) if most else 0.0 for most in largest]
    return tuple(replace(column, step=max(column.step, step)) for column, step in zip(columns, least, strict=True))


# ---- what is said about it


def _merged_statement(
    parts: Sequence[compatibility.PartyRelease], entries: Sequence[Mapping[str, Any]], sums: str
) -> Statement:
    """That of the parts, which promise nothing, with what putting them together tells besides."""
    statements = [part.release.statement for part in parts]
    count = len(entries)
    sentences = [
        sums.format(count=count),
        *([_SEEDED] if sum("first_row" in entry for entry in entries) > 1 else []),
        _PARTS.format(count=count),
        *(sentence for statement in statements for sentence in statement.not_protected),
    ]
    own = dict.fromkeys(statement.trust_model for statement in statements)
    trust = [model for model in own if not model.startswith(_TRUST.partition("{")[0])] or list(own)
    return replace(
        statements[0],
        not_protected=tuple(dict.fromkeys(sentences)),
        trust_model=_TRUST.format(each="; or ".join(trust)),
        random_source=party_sentences(statement.random_source for statement in statements),
        composed=None,
        holders=Parties(MERGED, tuple(entries)),
    )


def _merged_release_id(parts: Sequence[compatibility.PartyRelease], pooled: bool) -> str:
    """That of the parts, in any order, so that the same merge has the same id; none where all parts have seeds."""
    names = [part.release.id for part in parts]
    if not any(names):
        return ""
    contents = [
        name or hashlib.sha256(b"".join(rows.tobytes() for rows in part.release.blocks.values())).hexdigest()
        for name, part in zip(names, parts, strict=True)
    ]
    text = f"radoboost/merge/{MOMENTS if pooled else SUM}/{'/'.join(sorted(contents))}"
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]
