"""What an epsilon costs and what noise buys, without any data: the answers of `rado account`."""

from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.expected_error import expect
from radoboost.holder.mechanisms import Moments
from radoboost.holder.mechanisms.claims import SHOWN_DELTAS, check_epsilon
from radoboost.holder.mechanisms.noisy_rados import INCLUSION, check_noise
from radoboost.holder.signatures import check_n_rados
from radoboost.privacy import (
    Event,
    Gaussian,
    Relation,
    Repeated,
    SubsampledGaussian,
    TruncatedBinomialShift,
    accountant_name,
    band,
    best_guess,
    delta_at,
    epsilon_at,
    gaussian_multiplier,
    least_band_epsilon,
    subsampled_multiplier,
)
from radoboost.release import finite_or_word


def account_for(
    mechanism: str,
    *,
    epsilon: float | None = None,
    noise: float | None = None,
    delta: float = 1e-6,
    n_rados: int = 1000,
    n_examples: int | None = None,
    n_features: int | None = None,
    unit: str = "record",
) -> dict[str, Any]:
    """The noise for an epsilon or the epsilon of a noise, in multiples of the clipping norm.

    With the number of examples and of features, `moments` answers what error to expect, too.

    >>> answer = account_for("noisy-rados", noise=18.75, delta=1e-5, n_rados=100)
    >>> round(answer["epsilon"], 3), answer["neighbours"]
    (1.0, 'one record added or removed')
    """
    n_rados = check_n_rados(n_rados)
    if mechanism in ("moments", "noisy-rados", "noisy-examples") and (epsilon is None) == (noise is None):
        raise ArgumentError("give epsilon to learn what noise it takes, or noise to learn what epsilon it buys")
    if mechanism != "moments" and (n_features is not None or unit != "record"):
        raise ArgumentError(f"columns and unit are for the mechanism moments; leave them out for {mechanism}")
    extra: dict[str, Any] = {}
    event: Event
    if mechanism == "noisy-rados":
        check_noise(epsilon, delta, noise)
        if noise is None:
            noise = subsampled_multiplier(epsilon, delta, INCLUSION, n_rados)  # type: ignore[arg-type]
        event = Repeated(SubsampledGaussian(noise, INCLUSION), n_rados)
        extra = {"noise": noise, "n_rados": n_rados}
    elif mechanism == "noisy-examples":
        check_noise(epsilon, delta, noise)
        if noise is None:
            noise = 2 * gaussian_multiplier(epsilon, delta, Relation.EDGE)  # type: ignore[arg-type]
        event = Gaussian(noise / 2, Relation.EDGE)
        extra = {"noise": noise}
    elif mechanism == "moments":
        event, extra = _moments(epsilon, delta, noise, n_examples, n_features, unit)
    elif mechanism == "feature-band":
        event, extra = _band(epsilon, delta, n_rados, n_examples)
    else:
        raise ArgumentError(
            f"nothing can be accounted for {mechanism!r}; choose moments, noisy-rados, noisy-examples or feature-band"
        )
    assert event.relation is not None
    return {
        "mechanism": mechanism,
        "neighbours": event.relation.value,
        "epsilon": finite_or_word(epsilon_at(event, delta)),
        "delta": delta,
        **extra,
        "epsilon_at": [{"delta": other, "epsilon": finite_or_word(epsilon_at(event, other))} for other in SHOWN_DELTAS],
        "best_guess": best_guess(event),
        "accountant": accountant_name(event),
    }


def _moments(
    epsilon: float | None, delta: float, noise: float | None, rows: int | None, features: int | None, unit: str
) -> tuple[Event, dict[str, Any]]:
    if (rows is None) != (features is None):
        raise ArgumentError("what error to expect takes both the number of rows (--rows) and of columns (--columns)")
    check_noise(epsilon, delta, noise)
    extra: dict[str, Any] = {}
    if rows is not None and features is not None:
        if epsilon is None:
            raise ArgumentError("what error to expect goes by epsilon; give that in place of noise")
        found = expect(Moments(epsilon, delta, unit), rows, features + 1)
        extra = {
            "expected": {
                "rows": rows,
                "columns": features,
                "carries": found.carries,
                "enough": found.enough().removeprefix("; "),
                "errors": [{"without_noise": best, "expected": error} for best, error in found.errors],
                "enough_rows": found.enough_rows,
                "enough_epsilon": found.enough_epsilon,
            }
        }
    relation = Moments(epsilon or 1.0, delta, unit).relation
    moved = 2 if unit == "label" else 1  # norms that a sum is moved by
    if noise is None:
        noise = moved * gaussian_multiplier(epsilon, delta, relation)  # type: ignore[arg-type]
    return Gaussian(noise / moved, relation), {"noise": noise, **extra}


def _band(epsilon: float | None, delta: float, n_rados: int, n_examples: int | None) -> tuple[Event, dict[str, Any]]:
    if epsilon is None or n_examples is None:
        raise ArgumentError("feature-band needs the epsilon of one rado, and the number of examples (--rows)")
    if isinstance(n_examples, bool) or not isinstance(n_examples, int) or n_examples < 1:
        raise ArgumentError(f"the number of examples must be at least 1; it is {n_examples!r}")
    epsilon, delta = check_epsilon(epsilon, delta)
    low, high = band(n_examples, epsilon)
    one = TruncatedBinomialShift(n_examples, low, high)
    plain = TruncatedBinomialShift(n_examples, 0, n_examples)
    return Repeated(one, n_rados), {
        "n_rados": n_rados,
        "n_examples": n_examples,
        "band": [low, high],
        "one_rado": {"epsilon": epsilon, "delta": delta_at(one, epsilon)},
        "plain_one_rado": {"epsilon": epsilon, "delta": delta_at(plain, epsilon)},
        "plain_epsilon": finite_or_word(epsilon_at(Repeated(plain, n_rados), delta)),
        "least_epsilon": least_band_epsilon(n_examples, n_rados, delta),
    }
