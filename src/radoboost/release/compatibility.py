"""Releases of several holders that are put together: what they are called, and whether they are of the same columns.

Whatever differs is refused by name, with what to do about it.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.release.columns import Column
from radoboost.release.parties import MERGED
from radoboost.release.release import Release, load
from radoboost.tables.column_types import Number
from radoboost.tables.schema import ENTRIES, Schema


@dataclass(frozen=True, eq=False)
class PartyRelease:
    """A release to be merged, and what messages call it."""

    name: str
    release: Release

    @property
    def title(self) -> str:
        """What a file that is passed on may call it: without folders."""
        return os.path.basename(self.name)

    @property
    def rows(self) -> int:
        """How many rows it is from; refused where it does not say."""
        rows = self.release.n_examples
        if rows is None:
            raise ReleaseError(f"{self.name} does not say how many rows it is from, so that it cannot be merged")
        return rows

    @property
    def fingerprints(self) -> frozenset[str]:
        """Those of the holders who made it, as far as they were in rooms; none where one holder did."""
        holders = self.release.statement.holders
        return frozenset() if holders is None else holders.fingerprints

    @property
    def room(self) -> dict[str, list[str]]:
        """What a statement says of those who made it, where they were in a room."""
        return {"holders": sorted(self.fingerprints)} if self.fingerprints else {}

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What a statement says of it; of one that was merged itself, of each of its parts."""
        release, holders = self.release, self.release.statement.holders
        if holders is not None and holders.how == MERGED:
            return [dict(part) for part in holders.parts]
        return [
            {
                "id": release.id,
                "digest": release.digest,
                "rows": release.n_examples,
                "rados": release.n_rados,
                **self.room,
                # Where there is no id, the signatures are from a seed, and go by the numbers of rows.
                **({} if release.id else {"first_row": int(release.signatures.get("first_row", 0))}),
            }
        ]


def read_party_releases(releases: Any, who: str) -> list[PartyRelease]:
    """Releases, or those of files, with their names; at least two. `who` needs them."""
    if isinstance(releases, str | os.PathLike | Release) or not hasattr(releases, "__iter__"):
        raise ArgumentError(f"{who} needs several releases, or their paths, in a list")
    parts = []
    for place, release in enumerate(releases, 1):
        name = str(release) if isinstance(release, str | os.PathLike) else f"release {place}"
        if isinstance(release, str | os.PathLike):
            release = load(release)
        if not isinstance(release, Release):
            raise ArgumentError(f"{who} needs releases, or paths of them; one is a {type(release).__name__}")
        parts.append(PartyRelease(name, release))
    if len(parts) < 2:
        raise ArgumentError(f"{who} needs at least two releases; there is {len(parts) or 'none'}")
    return parts


def check_releases_differ(parts: Sequence[PartyRelease]) -> None:
    """Refuse a release that is there twice, by itself or within a merged one."""
    for one, other in combinations(parts, 2):
        mine, theirs = one.entries, other.entries
        for key in ("id", "digest"):
            names = {entry[key] for entry in mine if entry.get(key)}
            if names & {entry[key] for entry in theirs if entry.get(key)}:
                raise ArgumentError(_same_release_twice_text(one, other))
        if one.release.blocks.keys() == other.release.blocks.keys() and all(
            np.array_equal(rows, other.release.blocks[name]) for name, rows in one.release.blocks.items()
        ):
            raise ArgumentError(_same_release_twice_text(one, other))


def _same_release_twice_text(one: PartyRelease, other: PartyRelease) -> str:
    return (
        f"{one.name} and {other.name} are one release, or have one in common, whose rows would count twice; give each "
        "release once"
    )


def check_party_plans(first: PartyRelease, other: PartyRelease) -> None:
    """Refuse releases of moments whose columns each follow from its own table."""
    a, b = first.release, other.release
    planned = "plan" in a.mechanism or "plan" in b.mechanism
    if planned and (a.map != b.map or a.feature_names != b.feature_names):
        raise ArgumentError(
            f"{first.name} and {other.name} have columns that each planned by its own moments, so that they do not go "
            "together; craft all with --columns linear, or make one release in a room (rado room)"
        )


def check_parties_alike(first: PartyRelease, other: PartyRelease) -> None:
    """Refuse other classes, columns, bounds, schemas or maps, by name."""
    a, b = first.release, other.release
    if [(type(value), value) for value in a.classes] != [(type(value), value) for value in b.classes]:
        raise ArgumentError(
            f"{first.name} has the classes {list_values_text(a.classes)}, and {other.name} "
            f"{list_values_text(b.classes)}; craft both with the same classes, in the same order (--classes)"
        )
    other_schemas = _schema_without_fills(a.schema) != _schema_without_fills(b.schema)
    if a.feature_names != b.feature_names and not other_schemas:
        raise ArgumentError(_columns_that_differ_text(first, other))
    if other_schemas:
        raise ArgumentError(_columns_read_otherwise(first, other))
    if a.map != b.map:
        raise ArgumentError(
            f"{first.name} and {other.name} have columns that were made by feature maps with different constants, "
            "which cannot be converted; craft both with --columns linear, or with the same bounds and --set "
            "scale=bounds"
        )
    if a.block_columns != b.block_columns:
        raise ArgumentError(
            f"{first.name} and {other.name} share different columns with other holders; craft both with the same "
            "--set shared"
        )
    for mine, theirs in zip(a.columns, b.columns, strict=True):
        _check_column_alike(first, other, mine, theirs)


def _schema_without_fills(schema: Schema | None) -> dict[str, Any] | None:
    """What a schema says, but for what gaps are filled with, a table's own mean where nobody declared it, and marks."""
    if schema is None:
        return None
    document, besides = schema.to_dict(), {"fill": None, "inferred": None}
    return {**document, **besides, "columns": {name: entry | besides for name, entry in document["columns"].items()}}


def _columns_read_otherwise(first: PartyRelease, other: PartyRelease) -> str:
    ours, theirs = (
        {} if entry is None else entry["columns"]
        for entry in map(_schema_without_fills, (first.release.schema, other.release.schema))
    )
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    where = f", in {list_values_text(names)}" if names else ""
    carrier = next(part for part in (first, other) if part.release.schema is not None)
    named = f"--schema {shlex.quote(carrier.name)}" if os.path.exists(carrier.name) else f"schema= {carrier.name}"
    return (
        f"{first.name} and {other.name} read their tables by different schemas{where}; "
        "let all holders craft with one schema that was written for all of them (--schema), or with the one that the "
        f"release of one of them carries: {named}"
    )


def parties_schema(parts: Sequence[PartyRelease]) -> Schema | None:
    """The schema of all: each holder filled gaps as its own says, and new rows get the mean of that over all rows.

    Of dates, and where numbers of rows are not known, they get what the first holder has. What any holder read off its
    table stays marked.
    """
    schema, counts = parts[0].release.schema, [part.release.n_examples for part in parts]
    others = [part.release.schema for part in parts if part.release.schema is not None]
    if schema is None or all(other == schema for other in others):
        return schema
    columns = {
        name: replace(kind, inferred=any(other.columns[name].inferred for other in others))
        for name, kind in schema.columns.items()
    }
    inferred = tuple(entry for entry in ENTRIES if any(entry in other.inferred for other in others))
    for name, kind in columns.items():
        fills = [getattr(other.columns[name], "fill", None) for other in others]
        if isinstance(kind, Number) and None not in fills and None not in counts:
            rows = np.array(counts, dtype=np.float64)
            columns[name] = replace(kind, fill=float(rows @ np.array(fills, dtype=np.float64) / rows.sum()))
    return replace(schema, columns=columns, inferred=inferred)


def _check_column_alike(first: PartyRelease, other: PartyRelease, mine: Column, theirs: Column) -> None:
    if mine.scale != theirs.scale:
        raise ArgumentError(
            f"column {mine.name!r} is scaled as {mine.scale!r} in {first.name} and as {theirs.scale!r} in "
            f"{other.name}; craft both with the same --set scale"
        )
    if (mine.low, mine.high) != (theirs.low, theirs.high):
        raise ArgumentError(
            f"column {mine.name!r} has the bounds {_bounds_of_column_text(mine)} in {first.name} and "
            f"{_bounds_of_column_text(theirs)} in "
            f"{other.name}, and what was clipped cannot be clipped otherwise; craft both with the same bounds"
        )
    if column_constants(mine) != column_constants(theirs) and first.release.columns[-1].scale != "constant":
        raise ArgumentError(
            f"column {mine.name!r} has other scaling constants in {first.name} than in {other.name}, which are "
            "converted through the constant column, and there is none; craft both with it (leave --set intercept=no "
            "out), or with the same bounds and --set scale=bounds"
        )


def _columns_that_differ_text(first: PartyRelease, other: PartyRelease) -> str:
    mine, theirs = first.release.feature_names, other.release.feature_names
    odd = [name for name in (*mine, *theirs) if (name in mine) != (name in theirs)]
    what = f"{odd[0]!r} is in one alone" if odd else "they are in another order"
    return (
        f"{first.name} and {other.name} have different columns: {what}; craft both with the same columns, in the same "
        "order (--drop, or one schema)"
    )


def _bounds_of_column_text(column: Column) -> str:
    return "none" if column.low is None else f"{column.low:g} to {column.high:g}"


def list_values_text(values: Sequence[Any]) -> str:
    return ", ".join(map(repr, values))


def column_constants(column: Column) -> tuple[float | None, float | None]:
    """What z-scores of a column are computed with."""
    return column.mean, column.std
