"""What an epsilon costs and what noise buys, without any data: the answers of `rado account`."""

from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.mechanisms import MECHANISMS, Question
from radoboost.holder.mechanisms.claims import SHOWN_DELTAS
from radoboost.holder.signatures import check_n_rados
from radoboost.privacy import accountant_name, best_guess, epsilon_at
from radoboost.release import finite_or_word


def account_for(mechanism: str, **question: Any) -> dict[str, Any]:
    """The noise for an epsilon or the epsilon of a noise, in multiples of the clipping norm.

    The question's fields are those of `Question`. With the number of examples and of features, `moments` answers what
    error to expect, too.

    >>> answer = account_for("noisy-rados", noise=18.75, delta=1e-5, n_rados=100)
    >>> round(answer["epsilon"], 3), answer["neighbours"]
    (1.0, 'one record added or removed')
    """
    asked = Question(**question)
    check_n_rados(asked.n_rados)
    can = {name: kind for name, kind in MECHANISMS.items() if hasattr(kind, "account")}
    if mechanism not in can:
        raise ArgumentError(f"nothing can be accounted for {mechanism!r}; choose one of {', '.join(can)}")
    event, beside = can[mechanism].account(asked)
    assert event.relation is not None
    return {
        "mechanism": mechanism,
        "neighbours": event.relation.value,
        "epsilon": finite_or_word(epsilon_at(event, asked.delta)),
        "delta": asked.delta,
        **beside,
        "epsilon_at": [{"delta": other, "epsilon": finite_or_word(epsilon_at(event, other))} for other in SHOWN_DELTAS],
        "best_guess": best_guess(event),
        "accountant": accountant_name(event),
    }
