"""What an epsilon costs and what noise buys, without any data: the answers of `rado account`."""

from collections.abc import Sequence
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.declared_bounds import whose_rows_warning
from radoboost.holder.mechanisms import MECHANISMS, Mechanism, Question
from radoboost.holder.mechanisms.statements import SHOWN_DELTAS, csv_records_statement
from radoboost.holder.request import CraftRequest
from radoboost.holder.signatures import check_n_rados
from radoboost.privacy import Event, accountant_name, best_guess, delta_advice, epsilon_at, figures
from radoboost.privacy.conversions import GROUPS
from radoboost.privacy.events import event_about_lines
from radoboost.release.composition import EarlierRelease, compose_with_earlier
from radoboost.release.release import epsilon_as_json
from radoboost.tables.csv_dialect import LINES
from radoboost.tables.schema import Declaration


def privacy_cost_of_mechanism(mechanism: str, *, group: int | None = None, **fields: Any) -> dict[str, Any]:
    """The noise that an epsilon takes, or the epsilon that a noise buys; noise is in multiples of the clipping norm.

    `fields` are those of `Question`. With the numbers of examples and features, the answer for `moments` also says what
    error to expect. Its figures have what a `group` of rows of one person pays together, or groups of 2, 5 and 10.
    """
    question = Question(**fields)
    check_n_rados(question.n_rados)
    kinds = {name: kind for name, kind in MECHANISMS.items() if hasattr(kind, "account")}
    if mechanism not in kinds:
        raise ArgumentError(f"there is no account for the mechanism {mechanism!r}; choose one of {', '.join(kinds)}")
    event, details = kinds[mechanism].account(question)
    return _privacy_cost_as_json(mechanism, event, details, question.delta, question.n_examples, group)


def privacy_cost_by_schema(
    mechanism: Mechanism,
    schema: Declaration,
    *,
    group: int | None = None,
    earlier: Sequence[EarlierRelease] = (),
) -> dict[str, Any]:
    """As `privacy_cost_of_mechanism`, of a table that a schema declares: with its categories, its classes, and persons.

    No table is opened. Where the schema says about how many rows there are, the answer says what error to expect, and
    whether so many carry the epsilon. With `earlier` releases of the table, as `chain` gives them, it says
    under `composed` what all of them amount to together.
    """
    asked = CraftRequest.of(schema, mechanism)
    account = getattr(mechanism, "account_declared", None)
    if account is None:
        raise ArgumentError(f"there is no account of a schema for the mechanism {mechanism.name}; leave the schema out")
    event, details = account(asked)
    if csv_records_statement(asked.reading, True) == LINES:
        event = event_about_lines(event)
    delta = getattr(mechanism, "delta", 0.0)
    answer = _privacy_cost_as_json(mechanism.name, event, details, delta, asked.rows, group)
    if (sentence := whose_rows_warning(asked.schema.ids, asked.person, getattr(mechanism, "unit", None))) is not None:
        answer["whose_rows"] = sentence
    return {**answer, "composed": compose_with_earlier(event, earlier, delta)} if earlier else answer


def bookings_by_schema(mechanism: Mechanism, schema: Declaration) -> tuple[Event, ...]:
    """What a release of a table that a schema declares would book on a ledger; no table is opened."""
    foreseen = getattr(mechanism, "foreseen_bookings", None)
    if foreseen is None:
        raise ArgumentError(f"what the mechanism {mechanism.name} books is known when it crafts; leave the ledger out")
    asked = CraftRequest.of(schema, mechanism).without_rows()
    mechanism.check(asked)
    events: tuple[Event, ...] = foreseen(asked)
    return events


def _privacy_cost_as_json(
    mechanism: str, event: Event, details: dict[str, Any], delta: float, rows: int | None, group: int | None
) -> dict[str, Any]:
    assert event.relation is not None
    epsilon, advice = epsilon_at(event, delta), delta_advice(delta, rows)
    return {
        "mechanism": mechanism,
        "neighbours": event.relation.value,
        "epsilon": epsilon_as_json(epsilon),
        "delta": delta,
        **details,
        "epsilon_at": [
            {"delta": other, "epsilon": epsilon_as_json(epsilon_at(event, other))} for other in SHOWN_DELTAS
        ],
        "figures": figures(event, delta, GROUPS if group is None else (group,)),
        "best_guess": best_guess(event),
        "accountant": accountant_name(event),
        **({} if advice is None else {"advice": advice}),
    }
