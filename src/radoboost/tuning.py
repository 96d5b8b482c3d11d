"""What a shell does when it is fitted again and again: mechanisms changed by a grid, and fits that add up.

Each private fit is one more release. A shell with a ledger books its fits; one without cannot know what they amount to,
and warns. Booking covers the fits alone.
"""

import dataclasses
import multiprocessing
import warnings
from collections.abc import Mapping
from typing import Any

from radoboost.errors import ArgumentError, BudgetWarning
from radoboost.holder.mechanisms import MECHANISMS

EXACT_SCORES = (
    "booking covers the fits alone: a winner that was picked by exact scores on held-out rows has no finite epsilon; "
    "choose by public rules, or by noisy scores that are booked (radoboost.score)"
)
_fits: dict[tuple[str, bool], int] = {}  # private fits, or scores after them, in this process


def chosen_mechanism(mechanism: Any) -> Any:
    """The mechanism itself, where it was given by name.

    >>> chosen_mechanism("plain")
    Plain()
    """
    if not isinstance(mechanism, str):
        return mechanism
    return _built(mechanism, {})


def changed_mechanism(mechanism: Any, changes: Mapping[str, Any]) -> Any:
    """A copy with some fields changed; mechanisms are frozen, so a grid cannot set them in place.

    >>> changed_mechanism("moments", {"epsilon": 2.0}).epsilon
    2.0
    """
    if isinstance(mechanism, str):
        return _built(mechanism, changes)
    if not _has_fields(mechanism):
        first = next(iter(changes))
        raise ArgumentError(
            f"there is no mechanism whose {first} could be set; give one too, such as mechanism='moments' or "
            "mechanism=Moments(epsilon=1.0)"
        )
    _check_fields(type(mechanism), changes)
    return dataclasses.replace(mechanism, **changes)


def mechanism_parameters(mechanism: Any) -> dict[str, Any]:
    """Its fields, as a grid calls them.

    >>> import radoboost as rb
    >>> mechanism_parameters(rb.FeatureBand("age", 2.0))["mechanism__epsilon"]
    2.0
    """
    if not _has_fields(mechanism):
        return {}
    return {f"mechanism__{field.name}": getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}


def _has_fields(mechanism: Any) -> bool:
    return dataclasses.is_dataclass(mechanism) and not isinstance(mechanism, type)


def _built(name: str, values: Mapping[str, Any]) -> Any:
    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    kind: Any = MECHANISMS[name]
    _check_fields(kind, values)
    missing = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.name not in values
    ]
    if missing:
        example = {"feature": "'age'"}.get(missing[0], "1.0")
        raise ArgumentError(
            f"the mechanism {name!r} needs {' and '.join(missing)}: give mechanism={kind.__name__}({missing[0]}="
            f"{example}), or set mechanism={name!r} and mechanism__{missing[0]}={example} together with set_params"
        )
    return kind(**values)


def _check_fields(kind: Any, values: Mapping[str, Any]) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    for name in values:
        if name not in names:
            known = f"it has {', '.join(names)}" if names else "it has no parameters"
            raise ArgumentError(f"the mechanism {kind.name} has no {name!r}; {known}")


def note_fit(shell: str, *, booked: bool) -> None:
    """Count a private fit; without a ledger, warn once when fits begin to add up in this process.

    A worker that another process feeds is one of several, so there the first fit is enough.
    """
    if booked or not _reaches(shell, fits=True, enough=1 if multiprocessing.parent_process() else 2):
        return
    warnings.warn(
        f"{shell} is fitted privately more than once, and has no ledger: fits on the same people add up, as every fold "
        "of a cross-validation, every point of a grid and every class of a one-vs-rest is one more release, while each "
        f"states its own epsilon alone. Give ledger=, which books them against a total. Even then {EXACT_SCORES}",
        BudgetWarning,
        stacklevel=5,
    )


def note_score(shell: str) -> None:
    """Say once, where fits are booked, that an exact score is not."""
    if _reaches(shell, fits=False, enough=1):
        warnings.warn(f"the fits of {shell} are booked, and this score is not: {EXACT_SCORES}", BudgetWarning, 3)


def _reaches(shell: str, *, fits: bool, enough: int) -> bool:
    """Whether the count has just come so far."""
    _fits[shell, fits] = _fits.get((shell, fits), 0) + 1
    return _fits[shell, fits] == enough
