"""Columns that a mechanism protects from looks: of these, a schema holds what was declared, and nothing from the table.

A mechanism that is not private may take a schema from the table, and still protect a column. It then has `withheld`: by
name, what the schema says of such a column where nobody declared it (F3 of docs/proofs/feature-band.md).
"""

from collections.abc import Mapping
from dataclasses import replace

from radoboost.errors import TableError
from radoboost.tables.columns import listed
from radoboost.tables.kinds import Kind, Left
from radoboost.tables.schema import Schema

Withheld = Mapping[str, Kind]


def withhold(schema: Schema, withheld: Withheld) -> Schema:
    """The schema with nothing from the table in entries of columns that are withheld."""
    columns = {name: withheld.get(name, kind) if kind.inferred else kind for name, kind in schema.columns.items()}
    return replace(schema, columns=columns)


def check_withheld(schema: Schema, declared: Mapping[str, Kind], withheld: Withheld) -> tuple[str, ...]:
    """The raw columns that are withheld, refused where their entries are neither `declared` nor without a look."""
    owners = {column.column: column.name for column in schema.encoded() if column.name in withheld}
    for column, name in owners.items():
        kind = schema.columns[column]
        if kind != withheld[name] and kind != declared.get(column):
            raise TableError(
                f"column {column!r} is to be protected, so a {kind.kind} cannot be made of it by looking; write it as "
                "numbers, or declare its values in a schema"
            )
        others = [part.name for part in without_gaps(kind).encoded(column) if part.name != name]
        if others:
            raise TableError(
                f"{name!r} is to be protected, and {listed(others)} would tell of it: write the column as numbers, 0 "
                "and 1, or declare one value of it in a schema"
            )
    return tuple(owners)


def refuse_gaps(found: Mapping[str, int], n_rows: int) -> None:
    """Refuse gaps in columns that are withheld: where they are would be told, and what to fill in is not known."""
    if found:
        names = ", ".join(f"{name!r} {count:,}" for name, count in found.items())
        raise TableError(
            f"values are missing in {names} of {n_rows:,} rows, and the column is to be protected, so nothing is "
            "filled in; fill them in, or leave such rows out with missing='drop' (--missing drop)"
        )


def without_gaps(kind: Kind) -> Kind:
    """A kind for a table in which no row has a gap."""
    return kind if isinstance(kind, Left) else replace(kind, gaps=False)
