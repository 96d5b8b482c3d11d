"""What a shell does when it is fitted again and again: mechanisms changed by a grid, folds, and fits that add up.

Each private fit is one more release. A shell with a ledger books its fits; one without cannot know what they amount to,
and warns. Booking covers the fits alone, and only where each row alone decides which of them it is in.
"""

import dataclasses
import hashlib
import math
import multiprocessing
import warnings
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, BudgetWarning, whole_number
from radoboost.holder.mechanisms import MECHANISMS
from radoboost.tables.person_ids import person_id, shortest_decimal_id

EXACT_SCORES = (
    "booking covers the fits alone: a winner that was picked by exact scores on held-out rows has no finite epsilon; "
    "choose by public rules, or by noisy scores that are booked (radoboost.score)"
)
FOLDS = (
    "folds and splits must follow from each row alone, as those of radoboost.folds do: with others, such as KFold's, "
    "StratifiedKFold's or train_test_split's, one record moves other rows from fit to fit, and no total is true"
)
_counts: dict[str, int] = {}  # private fits and scores in this process, those on no ledger, and what was said of them


def folds(ids: Any, n_folds: int = 5) -> NDArray[np.int64]:
    """The fold of every row, from 0, by a hash of its id alone: no other row changes it.

    The stated epsilon of a fit is about a record of the rows that were fitted. Where one record more or less also
    changes which *others* those are, as in ordinary cross-validation, it is not true; with these folds it is (L1 of
    docs/proofs/ledger.md). All rows of one id are in one fold, so that a person with several rows is in one.

    Parameters
    ----------
    ids : sequence
        An id for each row: something that stays with the record, such as the number of a patient. Not the number of the
        row, which others move. 7, "7" and 7.0 are one id, as for persons of `craft`, and so are all that are missing.
        Floats from 2**53 on are refused, since they do not tell whole numbers apart.
    n_folds : int
        How many folds. They are of about the same size, if there are many ids; have many, as scikit-learn leaves out a
        fold without rows, and that would tell.

    Examples
    --------
    >>> folds(["ann", "bob", 7, "7"]).tolist() == [*folds(["ann"]), *folds(["bob"]), *folds([7.0, 7])]
    True
    >>> from sklearn.model_selection import PredefinedSplit
    >>> ids = [f"patient {k}" for k in range(1000)]
    >>> PredefinedSplit(folds(ids)).get_n_splits()
    5
    >>> train = folds(ids, 4) != 0  # and the others are for tests
    >>> 700 < int(train.sum()) < 800
    True
    """
    whole_number(n_folds, "n_folds", 2)
    values = _indexable_ids(ids)
    if any(isinstance(value, float) and 2.0**53 <= abs(value) < math.inf for value in values):
        raise ArgumentError(
            "ids are floats of 2**53 or more, which do not tell whole numbers apart; pandas makes floats of whole "
            "numbers if one is missing, which would move other rows: read the ids as texts, or as whole numbers that "
            "may be missing (dtype={'ID': 'Int64'}, with your column's name)"
        )
    return np.array([_hash_of_id(value) % int(n_folds) for value in values], dtype=np.int64)


def _indexable_ids(ids: Any) -> Sequence[Any]:
    if isinstance(ids, str | bytes | Mapping) or getattr(ids, "ndim", 1) != 1 or not hasattr(ids, "__iter__"):
        raise ArgumentError(f"ids must be one id for each row, in a list or a column; they are a {type(ids).__name__}")
    listing = next((getattr(ids, name) for name in ("tolist", "to_list", "to_pylist") if hasattr(ids, name)), None)
    return list(ids) if listing is None else list(listing())


def _hash_of_id(value: Any) -> int:
    """64 bits from an id; whatever is neither text nor a number goes by its text."""
    if isinstance(value, Decimal):
        value = shortest_decimal_id(str(value).encode())
    if not isinstance(value, bytes | int | float | None):
        value = str(value).encode("utf-8", "surrogatepass")
    missing = isinstance(value, float) and not math.isfinite(value)
    spelling = b"" if missing else person_id(value) or b""
    return int.from_bytes(hashlib.sha256(b"radoboost/fold/" + spelling).digest()[:8], "little")


def chosen_mechanism(mechanism: Any) -> Any:
    if not isinstance(mechanism, str):
        return mechanism
    return _build_mechanism(mechanism, {})


def changed_mechanism(mechanism: Any, changes: Mapping[str, Any]) -> Any:
    """A copy with some fields changed; mechanisms are frozen, so a grid cannot set them in place."""
    if isinstance(mechanism, str):
        return _build_mechanism(mechanism, changes)
    if not _mechanism_has_fields(mechanism):
        first = next(iter(changes))
        raise ArgumentError(
            f"there is no mechanism whose {first} could be set; give one too, such as mechanism='moments' or "
            "mechanism=Moments(epsilon=1.0)"
        )
    _check_mechanism_fields(type(mechanism), changes)
    return dataclasses.replace(mechanism, **changes)


def mechanism_parameters(mechanism: Any) -> dict[str, Any]:
    """Its fields, as a grid calls them."""
    if not _mechanism_has_fields(mechanism):
        return {}
    return {f"mechanism__{field.name}": getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}


def _mechanism_has_fields(mechanism: Any) -> bool:
    return dataclasses.is_dataclass(mechanism) and not isinstance(mechanism, type)


def _build_mechanism(name: str, values: Mapping[str, Any]) -> Any:
    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    kind: Any = MECHANISMS[name]
    _check_mechanism_fields(kind, values)
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


def _check_mechanism_fields(kind: Any, values: Mapping[str, Any]) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    for name in values:
        if name not in names:
            known = f"it has {', '.join(names)}" if names else "it has no parameters"
            raise ArgumentError(f"the mechanism {kind.name} has no {name!r}; {known}")


def note_private_fit(shell: str, *, booked: bool) -> None:
    """Count a private fit, of any shell; warn once when there are several in this process and one is on no ledger.

    A worker that another process feeds is one of several, so there the first fit is enough.
    """
    if _private_fits_add_up("fits", booked):
        warnings.warn(
            f"{shell} is fitted privately, not for the first time in this process, and not all of these fits have a "
            "ledger: fits on the same people add up, as every fold of a cross-validation, every point of a grid and "
            "every class of a one-vs-rest is one more release, while each states its own epsilon alone. Give ledger= "
            f"to all of them, which books them against a total. Even then {EXACT_SCORES}; and {FOLDS}",
            BudgetWarning,
            stacklevel=5,
        )


def note_exact_score(shell: str) -> None:
    """Say once, where fits are booked, that an exact score is not."""
    if _is_first_warning("exact scores"):
        warnings.warn(
            f"the fits of {shell} are booked, and this score is not: {EXACT_SCORES}; and {FOLDS}", BudgetWarning, 3
        )


def note_private_score(*, booked: bool) -> None:
    """Count a private score; warn once when there are several in this process and one is on no ledger."""
    if _private_fits_add_up("scores", booked):
        warnings.warn(
            "a table is scored privately, not for the first time in this process, and not all of these scores have a "
            "ledger: scores of the same people add up, and no release and no compose counts them. Give ledger= to all "
            "of them, which books them against a total",
            BudgetWarning,
            stacklevel=3,
        )


def _private_fits_add_up(kind: str, booked: bool) -> bool:
    """Count one more; whether, for the first time, there are several and one of them is on no ledger."""
    _counts[kind] = _counts.get(kind, 0) + 1
    unbooked = _counts[f"unbooked {kind}"] = _counts.get(f"unbooked {kind}", 0) + (not booked)
    several = _counts[kind] > 1 or multiprocessing.parent_process() is not None
    return several and unbooked > 0 and _is_first_warning(kind + " add up")


def _is_first_warning(what: str) -> bool:
    _counts[what] = _counts.get(what, 0) + 1
    return _counts[what] == 1
