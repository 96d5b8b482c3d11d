"""What a holder is ready to spend: the texts of a form, what they mean, and what that would promise, without data."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from radoboost import privacy
from radoboost.cli.options import chosen_mechanism
from radoboost.errors import ArgumentError, RadoError
from radoboost.holder.privacy_cost import bookings_by_schema, privacy_cost_by_schema
from radoboost.privacy.conversions import GROUPS
from radoboost.privacy.ledger import Ledger, glance_at_ledger, other_totals_text
from radoboost.release.composition import EarlierRelease, earlier_releases
from radoboost.release.release import Statement, percent_up_text, rounded_up_text
from radoboost.release.statement_text import epsilon_text
from radoboost.tables.column_selection import list_names
from radoboost.tables.person_ids import Person
from radoboost.tables.schema import Schema

_MOST_TABLES = 200  # of one ledger in a list

LEAST, MOST = -2.0, 1.0  # of the slider: powers of ten
STEP = 0.05


@dataclass(frozen=True)
class Budget:
    """The texts of the form; `problems` says what is wrong, by field.

    `whose` says whose rows the table has: "rows" if each is another person's, "person" if a column says whose it is.
    `ids` is no field of the form: columns that the schema declares to be ids. Where there are some, `whose` must be
    answered.
    """

    promise: str = "yes"
    epsilon: str = "1"
    delta: str = "1e-6"
    unit: str = "record"
    relation: str = "add"
    rows: str = ""
    whose: str = ""
    person: str = ""
    max_rows: str = ""
    n_rados: str = ""
    ledger: str = ""
    compose: tuple[str, ...] = ()
    output: str = ""
    ids: tuple[str, ...] = ()

    @property
    def answered(self) -> str:
        """Whose rows there are: what was said, or what follows where there is no column of ids; nothing if unsaid."""
        return self.whose or ("person" if self.person else "" if self.ids else "rows")

    @property
    def private(self) -> bool:
        return self.promise == "yes"

    @property
    def slider(self) -> float:
        """Where the slider stands: the power of ten of epsilon, to its next mark."""
        try:
            power = math.log10(_positive_budget_field("epsilon", self.epsilon) or 1.0)
        except ArgumentError:
            power = 0.0
        return round(max(LEAST, min(MOST, round(power / STEP) * STEP)), 2)

    def moved(self, slider: str, shown: tuple[str, str]) -> "Budget":
        """The budget with the epsilon of the slider, if that was moved and the field was not.

        `shown` are the epsilon and the slider that the form was made with.
        """
        try:
            power, before = round(float(slider), 2), round(float(shown[1]), 2)
        except ValueError:
            return self
        if not LEAST <= power <= MOST or power == before or self.epsilon != shown[0]:
            return self
        return replace(self, epsilon=f"{10**power:.2g}")

    def problems(self) -> dict[str, str]:
        return _parse_budget(self)[1]

    def numbers(self) -> dict[str, Any]:
        """What the fields mean; None where nothing was typed, and for fields that do not apply."""
        numbers, problems = _parse_budget(self)
        if problems:
            raise ArgumentError("; ".join(problems.values()))
        return numbers

    def mechanism(self) -> Any:
        """The mechanism, as the options of `rado craft` choose it."""
        numbers = self.numbers()
        name = "moments" if self.private else "plain"
        names = ("epsilon", "delta", "unit", "relation") if self.private else ()
        chosen = {key: numbers[key] for key in names}
        if numbers["person"] is not None and self.unit == "record":
            del chosen["unit"]  # all records of a person, as the schema says
        return chosen_mechanism(name, {key: value for key, value in chosen.items() if value is not None})

    def declared(self, schema: Schema) -> Schema:
        """The schema with what the form says of the table as a whole."""
        numbers = self.numbers()
        person = None if numbers["person"] is None else Person(numbers["person"], numbers["max_rows"])
        return replace(schema, rows=numbers["rows"], person=person)

    def options(self) -> list[str]:
        """The options of `rado craft` that say the same."""
        numbers = self.numbers()
        if not self.private:
            return [] if numbers["n_rados"] is None else ["-n", str(numbers["n_rados"])]
        words = ["--epsilon", repr(numbers["epsilon"]), "--delta", repr(numbers["delta"])]
        named = self.unit != "record" or (self.ids and not numbers["person"])
        words += ["--set", f"unit={self.unit}"] if named else []
        return words + (["--set", "relation=replace"] if numbers["relation"] == "replace" else [])

    def table_options(self) -> list[str]:
        """The options that say how many rows there are, and whose."""
        numbers = self.numbers()
        words = [] if numbers["rows"] is None else ["--set", f"rows={numbers['rows']}"]
        person = None if numbers["person"] is None else f"{numbers['person']}:{numbers['max_rows']}"
        return words + ([] if person is None else ["--person", person])


def _parse_budget(budget: Budget) -> tuple[dict[str, Any], dict[str, str]]:
    """What the fields of a budget mean, and what is wrong with them."""
    readers = {"n_rados": _optional_integer_budget_field} if not budget.private else {
        "epsilon": _positive_budget_field, "delta": _positive_budget_field, "rows": _optional_integer_budget_field,
        "max_rows": _optional_integer_budget_field
    }  # fmt: skip
    numbers: dict[str, Any] = {item.name: None for item in fields(budget)}
    problems = {}
    for name, reader in readers.items():
        try:
            numbers[name] = reader(name, getattr(budget, name))
        except ArgumentError as error:
            problems[name] = str(error)
    if not budget.private:
        return numbers, problems
    for name in ("epsilon", "delta"):
        if numbers[name] is None and name not in problems:
            problems[name] = f"{name} is missing; type a number"
    if budget.unit not in ("record", "label") or budget.relation not in ("add", "replace"):
        problems["unit"] = "choose what is protected"
    whose = budget.answered
    person = budget.person if whose == "person" and budget.person else None
    numbers |= {"unit": budget.unit, "relation": budget.relation, "person": person}
    if whose not in ("rows", "person"):
        problems["whose"] = (
            f"say whose rows these are: the schema has {list_names(budget.ids)}, which may say that several rows are "
            "of one person"
        )
    elif whose == "person" and person is None:
        problems["person"] = "choose the column that says whose row it is"
    if budget.unit == "label":
        numbers["relation"] = None
    elif budget.relation == "replace" and person:
        problems["relation"] = (
            "a promise about persons is about one who is added or removed: choose 'one record added or removed' under "
            "'Which tables are neighbours', or 'Each row is another person' under 'Whose rows are these?'"
        )
    if numbers["person"] is None:
        numbers["max_rows"] = None
        problems.pop("max_rows", None)
    elif numbers["max_rows"] is None and "max_rows" not in problems:
        problems["max_rows"] = "say how many rows of each person may contribute at most; more rows take more noise"
    return numbers, problems


@dataclass(frozen=True)
class LedgerView:
    """A ledger of the folder, and one table in it; `left` and `after` are epsilons of one more release.

    Where the total is about other neighbours than the release, and nothing is booked, `fitting` has the options of
    `rado ledger create` that replace it by one for the release. `beside` is what to know of other totals in the file.
    """

    name: str
    table: str
    total: str
    spent: float
    left: float
    after: float | None = None
    cost: float = 0.0
    refusal: str = ""
    neighbours: str = ""
    delta: float = 0.0
    fitting: tuple[str, ...] = ()
    beside: str = ""


@dataclass(frozen=True)
class BudgetPreview:
    """What a budget would promise of a table that a schema declares; `lines` say why there is no answer."""

    answer: Mapping[str, Any] | None = None
    books: LedgerView | None = None
    lines: tuple[str, ...] = field(default=())

    @property
    def refused(self) -> bool:
        """Whether crafting would refuse: there is no answer, so many rows carry no such epsilon, or a ledger does."""
        carries = self.answer is None or self.answer.get("expected", {}).get("carries", True)
        return bool(self.lines or not carries or (self.books is not None and self.books.refusal))


def preview_budget(
    budget: Budget,
    schema: Schema,
    ledger: Path | None,
    table: str | None,
    name: str,
    earlier: Sequence[Path] = (),
) -> BudgetPreview:
    """What a budget would promise, without data: by what was declared alone, and with `earlier` releases together."""
    if not budget.private:
        return BudgetPreview()
    problems = budget.problems()
    if problems:
        return BudgetPreview(lines=tuple(problems.values()))
    try:
        mechanism, declared = budget.mechanism(), budget.declared(schema)
        answer = privacy_cost_by_schema(mechanism, declared, earlier=_releases_before_budget(earlier))
        books = None if ledger is None else _ledger_view_of_budget(ledger, table, name, mechanism, declared)
    except RadoError as error:
        return BudgetPreview(lines=(str(error),))
    return BudgetPreview(answer, books)


def _releases_before_budget(places: Sequence[Path]) -> tuple[EarlierRelease, ...]:
    """All that releases know of; they are read again only where a file changed, for somebody is moving a slider."""
    return _stamped_releases(tuple((place, place.stat().st_mtime_ns, place.stat().st_size) for place in places))


@lru_cache(maxsize=8)
def _stamped_releases(stamped: tuple[tuple[Path, int, int], ...]) -> tuple[EarlierRelease, ...]:
    return earlier_releases([place for place, _, _ in stamped])


def ledger_tables_for_budget(ledger: Path) -> list[str]:
    try:
        return [table for table, _, _ in glance_at_ledger(ledger, _MOST_TABLES)]
    except RadoError:
        return []


def _ledger_view_of_budget(place: Path, table: str | None, name: str, mechanism: Any, schema: Schema) -> LedgerView:
    """What a ledger has left, and what this would leave."""
    ledger = Ledger(place, table)
    document = ledger.to_dict()
    total, whole = document["total"], document["total"]["mu_squared"]
    books = LedgerView(
        name, ledger.table,
        f"epsilon {total['epsilon']:g} at delta {total['delta']:g}, for {total['neighbours']} as neighbours",
        document["spent"]["mu_squared"] / whole, document["largest_epsilon"], neighbours=total["neighbours"],
        delta=total["delta"], beside=other_totals_text(document["beside"]) if document["beside"] else "",
    )  # fmt: skip
    foreseen: tuple[privacy.Event, ...] = ()
    try:
        foreseen = bookings_by_schema(mechanism, schema)
        cost = ledger.check(*foreseen)
    except RadoError as error:
        other = next(
            (event.relation for event in foreseen if not _is_bookable_on_ledger(event, ledger.total.relation)), None
        )
        return replace(books, refusal=str(error), fitting=() if other is None else ledger.fitting(other))
    return replace(books, after=ledger.largest_epsilon(cost), cost=float(cost.mu_squared) / whole)


def _is_bookable_on_ledger(event: privacy.Event, relation: privacy.Relation) -> bool:
    """Whether what an event promises can be booked on a total that is about a relation."""
    try:
        privacy.convert_relation(event, relation)
    except ArgumentError:
        return False
    return True


def _positive_budget_field(name: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ArgumentError(f"{name} must be a number above 0; it is {text.strip()[:40]!r}")
    return value


def _optional_integer_budget_field(name: str, text: str) -> int | None:
    word = text.strip().replace(",", "").replace(" ", "").replace("_", "")
    if not word:
        return None
    if not (word.isascii() and word.isdecimal() and len(word) < 16 and int(word) > 0):
        raise ArgumentError(f"{_NAMES[name]} must be a whole number above 0; it is {text.strip()[:40]!r}")
    return int(word)


_NAMES = {"rows": "the number of rows", "max_rows": "rows of each person", "n_rados": "the number of rados"}


# ---- A statement as a picture: how sure an adversary can become about one, about several, and with earlier releases.

_WIDTH, _LEFT, _RIGHT = 340, 4, 336
_TOP, _LINE, _BAR = 22, 18, 52  # of the scale, of a line of words, and of a bar with its figures
_LETTERS = 44  # of a line


@dataclass(frozen=True)
class Bar:
    """One line of a picture: of whom, how often an adversary is right at most, and the epsilon behind that."""

    whom: str
    guess: float
    epsilon: float
    delta: float

    @property
    def sentence(self) -> str:
        """The line in words; it names its neighbours."""
        if math.isinf(self.epsilon):
            return f"{self.whom}: nothing is promised; an adversary may become certain"
        return (
            f"{self.whom}: right at most {percent_up_text(self.guess)} % of the time, where a coin is right 50 % of "
            f"the time (epsilon {epsilon_text(self.epsilon)} at delta {rounded_up_text(self.delta, 6)})"
        )


@dataclass(frozen=True)
class ChartPanel:
    """Bars that belong together, as SVG, with the same in words."""

    title: str
    bars: tuple[Bar, ...]

    @property
    def words(self) -> list[str]:
        return [bar.sentence for bar in self.bars]

    def svg(self, name: str) -> str:
        """The picture; it has no script and no style of its own, and its words are its text alternative."""
        drawn, height = "", _TOP
        for bar in self.bars:
            lines = textwrap.wrap(bar.whom, _LETTERS)
            drawn += _budget_bar_svg(bar, lines, height)
            height += _LINE * len(lines) + _BAR
        return (
            f'<svg class="promise" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="{name}-t {name}-d" '
            f'xmlns="http://www.w3.org/2000/svg"><title id="{name}-t">{escape(self.title)}</title>'
            f'<desc id="{name}-d">{escape(". ".join(self.words))}.</desc>'
            f'<text class="scale" x="{_LEFT}" y="14">a coin: 50 %</text>'
            f'<text class="scale end" x="{_RIGHT}" y="14" text-anchor="end">certain: 100 %</text>{drawn}</svg>'
        )


def budget_panels(statement: Statement) -> tuple[ChartPanel, ...]:
    """The pictures of a statement: one, several together, and, where it was composed, with earlier releases."""
    title = "What an adversary can find out"
    if math.isinf(statement.epsilon):
        shown = [ChartPanel(title, (Bar(statement.neighbours, 1.0, math.inf, statement.delta),))]
    else:
        shown = [
            ChartPanel(title, (Bar(statement.neighbours, statement.best_guess, statement.epsilon, statement.delta),)),
            ChartPanel("About several together", tuple(_budget_bars_of_groups(statement))),
        ]
    if statement.composed is not None:
        shown.append(ChartPanel("With earlier releases of this table", (_budget_bar_of_releases_together(statement),)))
    return tuple(shown)


def _budget_bars_of_groups(statement: Statement) -> list[Bar]:
    event, bars = privacy.event_from_dict(statement.event), []
    for size in GROUPS:
        with suppress(ArgumentError):  # a group beyond what is accounted for
            epsilon = privacy.group_epsilon(event, statement.delta, size)
            guess = privacy.best_guess(privacy.group_event(event, size))
            bars.append(Bar(privacy.group_words(event.relation, size), guess, epsilon, statement.delta))
    return bars


def _budget_bar_of_releases_together(statement: Statement) -> Bar:
    total = statement.composed or {}
    whom = f"{total['neighbours']}, in this release and {total['earlier_releases']} earlier"
    event = privacy.event_from_dict(statement.event)
    if event.relation is None or not isinstance(total["epsilon"], int | float):
        return Bar(whom, 1.0, math.inf, total["delta"])
    earlier = [
        privacy.convert_relation(privacy.event_from_dict(entry["event"]), event.relation) for entry in total["releases"]
    ]
    return Bar(whom, privacy.best_guess(privacy.Composed((event, *earlier))), total["epsilon"], total["delta"])


def _budget_bar_svg(bar: Bar, lines: list[str], top: int) -> str:
    width = (_RIGHT - _LEFT) * max(0.0, min(1.0, 2 * bar.guess - 1))
    if math.isinf(bar.epsilon):
        figure, aside = "may become certain", "epsilon infinite"
    else:
        figure, aside = f"{percent_up_text(bar.guess)} % at most", f"epsilon {epsilon_text(bar.epsilon)}"
    words = "".join(
        f'<text class="whom" x="{_LEFT}" y="{top + _LINE * (k + 1) - 2}">{escape(line)}</text>'
        for k, line in enumerate(lines)
    )
    top += _LINE * len(lines)
    return (
        f'{words}<rect class="track" x="{_LEFT}" y="{top + 4}" width="{_RIGHT - _LEFT}" height="12" rx="6"/>'
        f'<rect class="reach" x="{_LEFT}" y="{top + 4}" width="{max(width, 2):.1f}" height="12" rx="6"/>'
        f'<text class="figure" x="{_LEFT}" y="{top + 34}">{escape(figure)}</text>'
        f'<text class="scale" x="{_RIGHT}" y="{top + 34}" text-anchor="end">{escape(aside)}</text>'
    )
