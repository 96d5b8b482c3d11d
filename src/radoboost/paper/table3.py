"""Table 3 of the paper: Table 1 with edges r_t replaced by sign(r_t) max(0.1, |r_t|), and whether that helps."""

from collections.abc import Sequence
from typing import Any

from radoboost.findings import Check, Findings, Table, check, column, found, table
from radoboost.paper import table1
from radoboost.paper.cells import Cell, Options
from radoboost.paper.comparing import LEARNERS, Row, agreement, beside, gather, picture, printed
from radoboost.paper.protocol import paired_t

NAME = "table3"
TITLE = "Table 3: as Table 1, with |r_t| clamped to at least 0.1"
CLAMP = 0.1


def cells(options: Options) -> list[Cell]:
    """The cells of Table 1, which need not be run again where they are kept, and the same with the clamp."""
    both = [*table1.fold_cells(options), *table1.fold_cells(options, CLAMP)]
    return both + table1.explaining_cells(NAME, options, CLAMP)


work = table1.work


def findings(outcomes: dict[Cell, dict[str, Any]], options: Options) -> Findings:
    """The table, the same beside the paper's, and what the clamp changes."""
    plain, rows = gather(outcomes), gather(outcomes, CLAMP)
    explained, reasons = table1.explanation(NAME, outcomes, CLAMP)
    checks = [
        agreement(NAME, rows, ("adaboost", "radoboost"), 2, options),
        agreement(NAME, rows, ("adaboost_sub",), 2, options),
        *_helped(plain, rows),
        _untouched(plain, rows),
        *reasons,
    ]
    tables = [table1.errors(rows), beside(NAME, rows), _changes(plain, rows), *explained]
    notes = [*table1.protocol(options), "Folds, examples and rados are those of Table 1: only the clamp differs."]
    return found(NAME, TITLE, tables=tables, figures=[picture(NAME, rows)], checks=checks, notes=notes)


def verdict(clamped: float, plain: float) -> str:
    """The paper's column: Y where the clamp lowers the error, N where it raises it, - where it does neither.

    >>> verdict(2.70, 2.77), verdict(2.70, 2.63), verdict(53.0, 53.0)
    ('Y', 'N', '-')
    """
    if clamped == plain:
        return "-"
    return "Y" if clamped < plain else "N"


def _changes(plain: Sequence[Row], rows: Sequence[Row]) -> Table:
    columns: list[Any] = ["domain"]
    for title in LEARNERS.values():
        columns += [
            column(f"{title}, change", "%", 2),
            title,
            f"{title}, paper",
            column(f"{title}, |r_t| from", digits=4),
        ]
    lines = []
    for before, after in zip(plain, rows, strict=True):
        line: list[Any] = [after.title]
        for learner in LEARNERS:
            clamped, unclamped = after.summary(learner).mean, before.summary(learner).mean
            theirs = (
                verdict(printed(NAME, after.name, learner).mean, printed("table1", after.name, learner).mean)
                if after.complete
                else None
            )
            line += [clamped - unclamped, verdict(clamped, unclamped), theirs, before.least_edge[learner]]
        lines.append(line)
    note = (
        "Y: the clamp lowers the mean test error, N: it raises it, -: neither. "
        "|r_t| from: the smallest one in all rounds of all folds without the clamp; above 0.1 the clamp does nothing."
    )
    return table("clamp", "What the clamp changes", columns, lines, note)


def _helped(plain: Sequence[Row], rows: Sequence[Row]) -> list[Check]:
    """The paper: the clamp significantly improves AdaBoost_SS on Hardware and Twitter."""
    return [
        check(
            f"The clamp improves AdaBoost_SS on {after.title}",
            after.summary("adaboost").mean < before.summary("adaboost").mean and p < 0.01,
            f"from {before.summary('adaboost').mean:.2f} to {after.summary('adaboost').mean:.2f} %, p = {p:.1e}",
        )
        for before, after in zip(plain, rows, strict=True)
        if after.name in ("hardware", "twitter") and after.complete
        for p in [paired_t(before.errors["adaboost"], after.errors["adaboost"])]
    ]


def _untouched(plain: Sequence[Row], rows: Sequence[Row]) -> Check:
    """The paper: improvements of RadoBoost are even more favourable. On the same rados the clamp has nothing to do."""
    pairs = list(zip(plain, rows, strict=True))
    better = [after.title for before, after in pairs if _mean(after) < _mean(before)]
    worse = [after.title for before, after in pairs if _mean(after) > _mean(before)]
    idle = sum(row.least_edge["radoboost"] >= CLAMP for row in plain)
    same = sum(after.errors["radoboost"] == before.errors["radoboost"] for before, after in pairs)
    return check(
        "The clamp improves RadoBoost, with few exceptions",
        len(better) > 2 * len(worse) and len(better) > same,
        f"better on {', '.join(better) or 'none'}, worse on {', '.join(worse) or 'none'}, the same in every fold on "
        f"{same} of {len(rows)}: on {idle} no |r_t| of any round is below {CLAMP}, so there is nothing to clamp, and "
        "with other rados Y and N are luck of the draw",
    )


def _mean(row: Row) -> float:
    return row.summary("radoboost").mean
