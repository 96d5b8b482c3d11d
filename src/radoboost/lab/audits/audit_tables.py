"""Made-up tables for exact audits: a few common rows, and pairs of neighbours that differ in unusual ones."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from radoboost.holder.mechanisms import Mechanism
from radoboost.holder.request import CraftRequest
from radoboost.lab.audits.canaries import Scenario
from radoboost.privacy import Relation
from radoboost.tables import Table, open_table
from radoboost.tables.column_types import PRIVATE, Category, Date, Number
from radoboost.tables.person_ids import Person
from radoboost.tables.schema import Schema

Cells = tuple[Any, ...]
Row = tuple[Cells, Any]  # its cells, and its label
PERSON, OF_THE_PAIR = "person", "p"
SCHEMA = Schema(
    {
        "age": Number(0, 120, fill=90, gaps=True, missing=(999, -1)),
        "ward": Category(("A", "B"), other="gap", gaps=True, fold=True, synonyms={"first": "A"}),
        "dose": Number(0, 1, decimal=",", beyond="gap"),
        "seen": Date(order="dmy", low="2024-01-01", high="2024-12-31", missing=("2024-12-31",), beyond="gap"),
    }
)
_RAW = {
    "codes": ("999", "FIRST", "0,5", "31.12.2024"), "no gap": ("60", "A", "0", "2024-02-29"),
    "beyond": ("1e9", "b", "-7", "1.1.2025"), "gap": ("", "Z", "0.5", "1.7.2024"),
    "gaps": ("", "", "", ""), "texts": ("n/k", "a b", "x", "y"), "spaces": (" 12 ", " B", "+.5", " 1.2.2024 "),
    "infinite": ("inf", "B", "1e999", "9999-12-31"), "long": ("9" * 400, "B" * 2000, "nan", "1" * 999),
}  # fmt: skip
_ODD = {
    "odd texts": "n/k", "large whole numbers": 2**70, "decimals": Decimal("0.25"), "bytes": b"\xff", "nothing": None,
}  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """What stands in the place of the rows that neighbours differ in; the name says what it is."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables that have `common` rows, and in their midst those of one candidate; and which pairs are neighbours.

    The first of `candidates` has no rows. A run on the one with the number `first` makes the transcript.
    """

    asked: CraftRequest
    common: tuple[Row, ...]
    candidates: tuple[Candidate, ...]
    pairs: tuple[tuple[int, int], ...]
    open: Callable[[Sequence[Row]], Table]
    first: int = 0

    def source(self, number: int) -> Table:
        half = len(self.common) // 2
        return self.open([*self.common[:half], *self.candidates[number].rows, *self.common[half:]])

    def pair(self, one: int, other: int) -> str:
        names = [self.candidates[number].name for number in (one, other)]
        return f"{names[1]} added" if one == 0 else f"{names[0]}, and {names[1]}"


def audit_tables_for(
    mechanism: Mechanism, relation: Relation, scenario: Scenario, *, choice_key: bytes | None = None, n_common: int = 24
) -> Tables:
    """Made-up tables with neighbours of a relation; unless the scenario is `thorough`, with few candidates."""
    rng, few, raw, max_rows = np.random.default_rng(0), not scenario.thorough, scenario.raw, scenario.max_rows
    n_classes, n_columns = scenario.n_classes, scenario.n_columns
    names = [f"x{k}" for k in range(n_columns)]
    cells = dict(list(_RAW.items())[: 4 if few else None]) if raw else _audit_rows_of_numbers(n_columns, rng, few)
    values = rng.uniform(-1, 1, (n_common, n_columns))
    usual = [tuple(row) for row in values.tolist()]
    if raw:
        usual = [
            (f"{60 + 60 * a:.3f}", "AB"[k % 2], f"{(1 + b) / 2:.3f}", f"{k + 1}.6.2024")
            for k, (a, b, *_) in enumerate(usual)
        ]
    elif not few:
        cells |= {"the same as a common row": usual[0], "a common row's opposite": tuple(-one for one in usual[1])}
    common = tuple((row, k % n_classes) for k, row in enumerate(usual))
    limits: Any = {name: (-1.0, 1.0) for name in names} if max_rows else ((-1.0, 1.0),) * n_columns
    schema = SCHEMA if raw else Schema(numbers=limits)
    if scenario.private_bounds:
        schema = Schema(numbers=PRIVATE)
    asked = CraftRequest(
        replace(schema, classes=tuple(range(n_classes))), mechanism, columns=scenario.columns,
        noise_shares=1 if scenario.room is None else scenario.room[0],
    )  # fmt: skip
    if max_rows is not None:
        return _audit_tables_of_persons(asked, relation, cells, common, names, max_rows, choice_key, few=few)
    candidates, pairs = _neighbouring_candidates(relation, cells, n_classes, few=few)
    opened = _open_audit_cells if raw else _open_audit_numbers
    return Tables(asked, common, candidates, pairs, opened, int(not _relation_adds_rows(relation)))


def _relation_adds_rows(relation: Relation) -> bool:
    return relation in (Relation.RECORD, Relation.PERSON)


def _audit_rows_of_numbers(n_columns: int, rng: np.random.Generator, few: bool) -> dict[str, Cells]:
    """Rows of numbers between bounds of -1 and 1, of which some are no numbers."""
    signs = list(itertools.product((1.0, -1.0), repeat=n_columns)) if n_columns <= 3 else []
    signs = signs or [(1.0,) * n_columns, (-1.0,) * n_columns, *rng.choice((-1.0, 1.0), (4, n_columns)).tolist()]
    rows: dict[str, Cells] = {f"corner {_sign_pattern_of_row(row)}": tuple(row) for row in signs[: 3 if few else None]}
    nothing = (0.0,) * (n_columns - 1)
    # With the constant of 1/2 these two are at a right angle on the sphere.
    rows |= {"half": (0.5, *nothing), "minus half": (-0.5, *nothing), "zeros": (0.0, *nothing)}
    rows |= {"huge": (1e300, -1e300, 5e299)[:n_columns] + (1e308,) * (n_columns - 3), "NaN": (np.nan, *nothing)}
    if few:
        return rows
    rows |= {"tiny": (5e-324,) * n_columns, "beyond": tuple(np.linspace(9.0, -4.0, n_columns).tolist())}
    rows |= {"infinite": (*nothing, -np.inf), "minus zeros": (-0.0,) * n_columns, "next to 1": (1 - 2**-53, *nothing)}
    rows |= {f"random {k}": tuple(rng.uniform(-1.5, 1.5, n_columns).tolist()) for k in range(3)}
    return rows | {name: (cell, *nothing) for name, cell in _ODD.items()}


def _sign_pattern_of_row(row: Sequence[float]) -> str:
    return "".join("+" if value > 0 else "-" for value in row)


def _neighbouring_candidates(
    relation: Relation, cells: dict[str, Cells], n_classes: int, *, few: bool
) -> tuple[tuple[Candidate, ...], tuple[tuple[int, int], ...]]:
    flipped = relation is Relation.LABEL
    most = 2 if few or relation is Relation.REPLACE else 3
    labels = list(range(n_classes if flipped else min(n_classes, most)))
    nothing = Candidate("nothing", ())
    one = [Candidate(f"{name} of class {k}", ((row, k),)) for name, row in cells.items() for k in labels]
    if not flipped:
        row = next(iter(cells.values()))
        one += [Candidate("a class that is not declared", ((row, 99),)), Candidate("no class", ((row, None),))]
    candidates = (nothing, *one)
    if relation is Relation.RECORD:
        return candidates, tuple((0, k) for k in range(1, len(candidates)))
    every = itertools.combinations(range(1, len(candidates)), 2)
    if not flipped:
        return candidates, tuple(every)
    size = len(labels)
    return candidates, tuple((i, j) for i, j in every if (i - 1) // size == (j - 1) // size)


def _audit_tables_of_persons(
    asked: CraftRequest, relation: Relation, cells: dict[str, Cells], common: tuple[Row, ...], names: list[str],
    max_rows: int, choice_key: bytes | None, *, few: bool,
) -> Tables:  # fmt: skip
    """Tables of persons, with one who has more rows than contribute, or as many, or fewer."""
    schema = replace(asked.schema, label="label", person=Person(PERSON, max_rows))
    mechanism: Any = asked.mechanism
    if mechanism.unit == "record":  # of persons, and not of single records
        mechanism = replace(mechanism, unit=None)
    asked = replace(asked, schema=schema, mechanism=mechanism, choice_key=choice_key or bytes(32))
    n_classes, numbers = len(asked.classes or ()), [row for row in cells.values() if _are_number_cells(row)]
    many = 2 * max_rows + 2
    plus, minus = (1.0,) * len(names), (-1.0,) * len(names)
    sets: dict[str, list[Row]] = {
        f"{many} equal rows": [(plus, 0)] * many,
        f"{max_rows} equal rows": [(plus, n_classes - 1)] * max_rows,
        "opposite rows": [(plus, 0), (minus, 1)] * max_rows,
        "spoiled rows": [((np.nan, *plus[1:]), 0)] * many,
        "many different rows": [(row, k % n_classes) for k, row in enumerate(numbers)],
        "one row": [(minus, 0)],
    }
    if relation is Relation.PERSON_ROWS:  # neighbours have the same ids in the same places
        sets = {name: (rows * many)[:many] for name, rows in sets.items()}
        sets["opposite labels"] = [(plus, 1)] * many
    sets = dict(list(sets.items())[: 3 if few else None])
    one = [Candidate(name, tuple(rows)) for name, rows in sets.items()]
    if _relation_adds_rows(relation):
        pairs = tuple((0, k) for k in range(1, len(one) + 1))
    elif relation is Relation.PERSON_ROWS:
        pairs = tuple(itertools.combinations(range(1, len(one) + 1), 2))
    else:  # all labels go to the next class, or all to one
        turned = [
            Candidate(f"{one.name}, labels {how}", tuple((row, to(k)) for row, k in one.rows))
            for one in one
            for how, to in (("moved on", lambda k: (k + 1) % n_classes), ("alike", lambda k: n_classes - 1))
        ]
        pairs = tuple((1 + k, 1 + len(one) + 2 * k + how) for k in range(len(one)) for how in range(2))
        one += turned

    def opened(rows: Sequence[Row]) -> Table:
        table: dict[str, Any] = {name: [row[k] for row, _ in rows] for k, name in enumerate(names)}
        table["label"] = [label for _, label in rows]
        table[PERSON] = _persons_of_audit_rows(rows, common, max_rows)
        return open_table(pa.table(table), label="label", person=PERSON, row_by_row=True)

    candidates = (Candidate("nobody", ()), *one)
    return Tables(asked, common, candidates, pairs, opened, int(not _relation_adds_rows(relation)))


def count_contributing_rows(tables: Tables, number: int) -> int:
    """How many rows of the table of a candidate contribute, by the ids alone."""
    extra, most = len(tables.candidates[number].rows), tables.asked.max_rows
    if tables.asked.person is None:
        return len(tables.common) + extra
    rows = [*tables.common, *tables.candidates[number].rows]
    return sum(min(count, most) for count in Counter(_persons_of_audit_rows(rows, tables.common, most)).values())


def _persons_of_audit_rows(rows: Sequence[Row], common: tuple[Row, ...], max_rows: int) -> list[str]:
    """Whose row each is: common rows are of persons with a few each, and those in the midst of one."""
    half, extra = len(common) // 2, len(rows) - len(common)
    ids = [str(k // (max_rows + 1)) for k in range(len(common))]
    return [*ids[:half], *([OF_THE_PAIR] * extra), *ids[half:]]


def _are_number_cells(cells: Cells) -> bool:
    return all(isinstance(cell, float) for cell in cells)


def _open_audit_numbers(rows: Sequence[Row]) -> Table:
    cells = [row for row, _ in rows]
    labels = [label for _, label in rows]
    dtype: Any = np.float64 if all(map(_are_number_cells, cells)) else object
    whole = all(isinstance(label, int) for label in labels)
    values = np.empty((len(cells), len(cells[0])), dtype=dtype)
    values[:] = cells
    return open_table(values, np.array(labels, dtype=np.int64 if whole else object), row_by_row=True)


def _open_audit_cells(rows: Sequence[Row]) -> Table:
    table = pa.table({name: [row[k] for row, _ in rows] for k, name in enumerate(SCHEMA.columns)})
    return open_table(table, np.array([label for _, label in rows], dtype=object), row_by_row=True, schema=SCHEMA)
