"""Whom a statement speaks of: one row, or one person with all rows (docs/proofs/persons.md)."""

from typing import NamedTuple

from radoboost.holder.mechanisms.contract import Circumstances

WHO = "Who is in the table, and with how many rows: the number of rows that contribute follows from it."


class Protected(NamedTuple):
    """Who or what is protected, in words: the unit, the subject of a promise, and what is not protected."""

    unit: str
    anyone: str
    not_protected: tuple[str, ...]


_ROWS = {"record": "any one record", "content": "any one row holds", "label": "any one row has"}
_PERSONS = {
    "record": ("", "any one person, with all rows,", ()),
    "content": ("the content of the rows of ", "the rows of any one person hold", (WHO,)),
    "label": ("the labels of ", "the rows of any one person have", (WHO,)),
}


def protected(circumstances: Circumstances, what: str, unit: str, *several_rows: str) -> Protected:
    """The words for a mechanism that protects a "record", or the "content" or "label" of rows: `unit`.

    `several_rows` says what that means for a person with more than one. Where a column says whose row it is, the words
    are about persons.
    """
    column, most = circumstances.person, circumstances.max_rows
    if column is None:
        return Protected(unit, _ROWS[what], several_rows)
    of_whom, anyone, exposed = _PERSONS[what]
    rows = "one of its rows contributes" if most == 1 else f"{most:,} of its rows contribute"
    return Protected(
        f"{of_whom}one value of the column {column!r}, whole numbers being one value in any spelling; at most {rows}",
        anyone,
        (
            *exposed,
            f"A person who goes by several values of {column!r}, which count as several persons; a household, or any "
            "other group of persons.",
            f"The name of the column {column!r} and the most rows that contribute are in the release.",
        ),
    )
