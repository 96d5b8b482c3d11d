"""A population with other shares of the classes than the table had: log odds move by log(new odds / old odds).

By Bayes' rule, if only the shares differ, and not what rows of each class look like, this is exact for log odds that
are exact for the table. The old shares are what the release tells of them: by its constant column, or by noisy counts.
Of more than two classes noisy moments have no counts, and shares are estimates: `rough_shares` says how rough.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.release import RADOS, Release
from radoboost.release.class_facts import class_facts
from radoboost.release.columns import CONSTANT
from radoboost.release.laws import POOLED_SUMS, SUMS
from radoboost.release.scores import EDGES
from radoboost.tables.labels import class_key

Prior = float | Mapping[Any, float]

_EXACT_LAWS = (SUMS, POOLED_SUMS, "banded sums")  # the constant of a row is 1 there, whatever else is in it


def class_shares(release: Release) -> tuple[float, ...]:
    """The share of each class among the rows of a table, as far as its release tells, in the order of `classes`.

    A plain release tells it but for the chance of its signatures, about 1 / (2 sqrt(rows * rados)); one of `Moments` by
    noisy counts, or, for more than two classes, by sums of rows that nearly count them (`release.class_sizes`): within
    a few per cent of themselves where many columns were made, and up to a fifth off for rare classes where few were.
    Others tell nothing that can be used.

    >>> import radoboost as rb
    >>> release = rb.craft(np.arange(1000.0)[:, None], np.arange(1000) % 4 == 0, seed=1)
    >>> [round(share, 2) for share in class_shares(release)]
    [0.75, 0.25]
    """
    return shares_together([release])


def shares_together(releases: Sequence[Release]) -> tuple[float, ...]:
    """The shares of all releases together: numbers of rows by class add up."""
    release, found = releases[0], [_counts(release) for release in releases]
    known = [counts for counts in found if counts is not None]
    counts = np.sum(known, axis=0) if len(known) == len(found) else None
    if counts is None:
        raise ReleaseError(
            "the release does not tell which share of its rows each class has: it needs a constant column, and a "
            "mechanism that counts rows, such as plain or moments; give shares yourself: model.with_prior(new, old)"
        )
    if absent := [repr(value) for value, count in zip(release.classes, counts, strict=True) if count <= 0]:
        raise ReleaseError(
            f"by what the release tells, noise included, no rows have the class {' or '.join(absent)}, so no "
            "prior can be given; give the table's own shares, if they are known: model.with_prior(new, old); or craft "
            "without such classes, or with a larger epsilon"
        )
    return tuple(float(count / sum(counts)) for count in counts)


def rough_shares(release: Release) -> str | None:
    """How rough the shares of a release are, in words; None where chance or the noise of counts is all."""
    facts = class_facts(release) if release.n_classes > 2 else []
    limits = {each.value: each.between for each in facts if each.between is not None}
    if not limits:
        return None
    whole = sum(each.rows or 0.0 for each in facts)
    value, (least, most) = max(limits.items(), key=lambda item: item[1][1] / max(item[1][0], 1e-300))
    return (
        "the shares of more than two classes are estimates where a release has noisy moments and no rados: that of "
        f"{value!r}, the roughest, may be anything from {100 * least / whole:.2g} to {100 * most / whole:.2g} % of the "
        "rows; if you know those of the table, learn without a prior and call model.with_prior(prior, old)"
    )


def _counts(release: Release) -> NDArray[np.float64] | None:
    """Numbers of rows by class, in any unit; None where the release does not tell."""
    if release.n_classes > 2:
        rows = [facts.rows for facts in class_facts(release)]
        return None if None in rows else np.array(rows, dtype=np.float64)
    if "scores" in release.blocks:
        counts = release.blocks["scores"].reshape(2, 2, len(EDGES) + 1)  # by side of 0, class and size
        return np.asarray(counts.sum(axis=(0, 2)))
    if release.law not in _EXACT_LAWS or release.columns[-1].name != CONSTANT or RADOS not in release.blocks:
        return None
    m = release.n_examples
    assert m is not None
    members = float(release.signatures.get("support", m / 2))
    excess = float(release.rados[:, -1].mean()) / members  # of the positive class, as a share
    return np.array([1 - excess, 1 + excess])


def shares_of(prior: Any, classes: tuple[Any, ...], what: str = "prior") -> NDArray[np.float64]:
    """Shares by class, from a probability of the positive class, or a mapping in which one class may be missing."""
    if isinstance(prior, Mapping):
        places = {class_key(value): place for place, value in enumerate(classes)}
        shares = np.full(len(classes), np.nan)
        for value, share in prior.items():
            if class_key(value) not in places:
                raise ArgumentError(
                    f"{what} names the class {value!r}; the classes are {', '.join(map(repr, classes))}"
                )
            shares[places[class_key(value)]] = _number(share, what)
        if np.isnan(shares).sum() == 1:
            shares[np.isnan(shares)] = 1 - np.nansum(shares)
        missing = [repr(value) for value in classes if class_key(value) not in {class_key(named) for named in prior}]
        if len(missing) > 1:
            raise ArgumentError(
                f"{what} must have a share above 0 for each class but one, which gets the rest; there is none for "
                f"{', '.join(missing)}"
            )
    elif isinstance(prior, tuple | list) and len(prior) == len(classes):
        shares = np.array([_number(share, what) for share in prior])
    elif len(classes) == 2:
        share = _number(prior, what)
        shares = np.array([1 - share, share])
    else:
        raise ArgumentError(
            f"{what} of {len(classes)} classes must say which share is whose, {_form(classes)}; it is {prior!r}"
        )
    if not ((shares > 0) & (shares < 1)).all() or abs(math.fsum(shares) - 1) > 1e-9:
        raise ArgumentError(
            f"{what} must be shares above 0 that add up to 1, one for each class, or for each but one, which gets the "
            f"rest; it is {prior!r}"
        )
    return shares


def _form(classes: tuple[Any, ...]) -> str:
    """How shares by class are written, on the command line and in Python; one class may be left out."""
    named = classes[1:]
    options = " ".join(f"--prior {shlex.quote(f'{value}=SHARE')}" for value in named[:3])
    pairs = ", ".join(f"{value!r}: SHARE" for value in named[:3])
    more = len(named) > 3
    return f"{options}{' ...' if more else ''}, or {{{pairs}{', ...' if more else ''}}} in Python"


def _number(share: Any, what: str) -> float:
    try:
        return float(share)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} must be a share between 0 and 1; it is {share!r}") from None
