"""What an epsilon costs and what noise buys, without any data: the answers of `rado account`."""

from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.mechanisms import MECHANISMS, Question
from radoboost.holder.mechanisms.claims import SHOWN_DELTAS
from radoboost.holder.signatures import check_n_rados
from radoboost.privacy import accountant_name, best_guess, delta_advice, epsilon_at, figures
from radoboost.privacy.figures import GROUPS
from radoboost.release import finite_or_word


def account_for(mechanism: str, *, group: int | None = None, **fields: Any) -> dict[str, Any]:
    """The noise that an epsilon takes, or the epsilon that a noise buys; noise is in multiples of the clipping norm.

    `fields` are those of `Question`. With the numbers of examples and features, the answer for `moments` also says what
    error to expect. Its figures have what a `group` of rows of one person pays together, or groups of 2, 5 and 10.

    >>> answer = account_for("noisy-rados", noise=18.75, delta=1e-5, n_rados=100)
    >>> round(answer["epsilon"], 3), answer["neighbours"]
    (1.0, 'one record added or removed')
    """
    question = Question(**fields)
    check_n_rados(question.n_rados)
    kinds = {name: kind for name, kind in MECHANISMS.items() if hasattr(kind, "account")}
    if mechanism not in kinds:
        raise ArgumentError(f"there is no account for the mechanism {mechanism!r}; choose one of {', '.join(kinds)}")
    event, details = kinds[mechanism].account(question)
    assert event.relation is not None
    epsilon, advice = epsilon_at(event, question.delta), delta_advice(question.delta, question.n_examples)
    return {
        "mechanism": mechanism,
        "neighbours": event.relation.value,
        "epsilon": finite_or_word(epsilon),
        "delta": question.delta,
        **details,
        "epsilon_at": [{"delta": other, "epsilon": finite_or_word(epsilon_at(event, other))} for other in SHOWN_DELTAS],
        "figures": figures(event, question.delta, GROUPS if group is None else (group,)),
        "best_guess": best_guess(event),
        "accountant": accountant_name(event),
        **({} if advice is None else {"advice": advice}),
    }
