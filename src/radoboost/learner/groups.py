"""What a private release does not tell about the columns of a category, and what is put in its place.

The columns of a category add up to 1 in every row that has one of its values, and so does the constant column. What is
added to the weights of all of them and taken from the constant's changes no score of such a row, so that nothing but
noise decides how much that is. For a row that has none of the values, a gap or one that is new, it would be everything.
And a value that hardly any row has gets a weight of nothing but noise.

So the mean weight of a category, by how often each value occurs, goes to the constant, and that of its products with
another column goes to that column; and values that are too rare to be told from noise get the mean. Scores of rows with
the other values stay the same. All of it is computed from what was released. Where so many rows have none of the values
that the release tells, the category stays as it was learned.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from radoboost.release import Release

_DEVIATIONS = 3.0  # of noise, beyond which there is something


def settling(release: Release) -> NDArray[np.float64]:
    """The matrix that takes theta, over the columns of a release of noisy moments, to one with settled categories."""
    d = len(release.columns)
    if release.schema is None or release.columns[-1].scale != "constant":
        return np.eye(d)
    second, noise = release.blocks["moment:C"], float(release.mechanism["noise"]["second"])
    constant, products, matrix = float(release.mechanism["constant"]), _products(release), np.eye(d)
    coding = _coding(release)
    slots = coding / np.append(np.ones(d - 1), constant)  # the constant column has this value on the sphere
    for places in _groups(release).values():
        across = slots[places].sum(axis=0)  # times a row on the sphere: 0 if one of the values is there, but for its
        across[-1] -= 1.0 / constant  # rounding
        without = float(across @ second @ across)
        counts = np.einsum("ij,jk,ik->i", slots[places], second, slots[places])
        known = counts > _DEVIATIONS * noise * np.square(slots[places]).sum(axis=1)
        rounding = float(np.trace(second)) * (float(np.abs(across).sum()) / release.mechanism["grid"]) ** 2
        if without > max(_DEVIATIONS * noise * float(across @ across), rounding) or not known.any():
            continue
        shares = np.where(known, counts, 0.0) / counts[known].sum()
        step, centred = np.eye(d), np.diag(known.astype(np.float64)) - np.outer(known, shares)
        for factor, of in [(d - 1, places), *_multiplied(places, products)]:
            step[np.ix_(of, of)] = centred
            step[factor, of] = shares
        matrix = step @ matrix
    return np.asarray(coding.T @ matrix @ np.linalg.inv(coding).T)


def _coding(release: Release) -> NDArray[np.float64]:
    """What takes the columns of a release to those in which slots are 0 and 1; the constant one counts as 1."""
    matrix = np.eye(len(release.columns))
    assert release.schema is not None
    inputs = {} if release.map is None else {entry.label: entry for entry in release.map.inputs}
    for place, column in enumerate(release.columns):
        entry = inputs.get(column.name)
        if entry is not None and column.name in release.schema.groups:
            matrix[place, place], matrix[place, -1] = entry.divisor / entry.factor, entry.neutral
    return matrix


def _products(release: Release) -> dict[frozenset[int], int]:
    """The places of products, by those of the two columns that they are of, without squares.

    Products of a column with all slots of a category add up to that column, as the slots do to the constant one.
    """
    terms = [] if release.map is None else list(release.map.terms)
    own = {term.inputs[0]: place for place, term in enumerate(terms) if term.kind == "linear"}
    pairs = {place: term.inputs for place, term in enumerate(terms) if term.kind == "product"}
    return {
        frozenset(own[name] for name in names): place
        for place, names in pairs.items()
        if names[0] != names[1] and set(names) <= set(own)
    }


def _multiplied(places: list[int], products: dict[frozenset[int], int]) -> Iterator[tuple[int, list[int]]]:
    """Every column that is multiplied with all of some slots, and the places of these products."""
    for factor in sorted({place for pair in products for place in pair} - set(places)):
        pairs = [frozenset((factor, slot)) for slot in places]
        if all(pair in products for pair in pairs):
            yield factor, [products[pair] for pair in pairs]


def _groups(release: Release) -> dict[str, list[int]]:
    """The places of the columns of each category; those that say where a number is missing are none."""
    assert release.schema is not None
    places: dict[str, list[int]] = {}
    for place, column in enumerate(release.columns):
        group = release.schema.groups.get(column.name)
        if group is not None:
            places.setdefault(group, []).append(place)
    return {group: members for group, members in places.items() if len(members) > 1}
