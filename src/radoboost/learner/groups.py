"""What a private release does not tell about the columns of a category, and what is put in its place.

The columns of a category add up to 1 in every row that has one of its values, and so does the constant column. What is
added to the weights of all of them and taken from the constant's changes no score of such a row, so that nothing but
noise decides how much that is. For a row that has none of the values, a gap or one that is new, it would be everything.
And a value that hardly any row has gets a weight of nothing but noise.

So the mean weight of a category, by how often each value occurs, goes to the constant; and values that are too rare to
be told from noise get the mean. Scores of rows with the other values stay the same. All of it is computed from what was
released. Where so many rows have none of the values that the release tells, the category stays as it was learned.
"""

import numpy as np
from numpy.typing import NDArray

from radoboost.release import Release

_DEVIATIONS = 3.0  # of noise, beyond which there is something


def settling(release: Release) -> NDArray[np.float64]:
    """The matrix that takes theta, over the columns of a release of noisy moments, to one with settled categories."""
    d = len(release.columns)
    matrix = np.eye(d)
    if release.schema is None or release.columns[-1].scale != "constant":
        return matrix
    second, noise = release.blocks["moment:C"], float(release.mechanism["noise"]["second"])
    for places in _groups(release).values():
        across = np.zeros(d)  # times a row on the sphere: 0 if one of the values is there
        across[places], across[-1] = 1.0, -1.0 / release.mechanism["constant"]
        without = float(across @ second @ across)
        counts = np.diag(second)[places]
        known = counts > _DEVIATIONS * noise
        if without > _DEVIATIONS * noise * float(across @ across) or not known.any():
            continue
        shares = np.where(known, counts, 0.0) / counts[known].sum()
        matrix[np.ix_(places, places)] = np.diag(known.astype(np.float64)) - np.outer(known, shares)
        matrix[-1, places] = shares
    return matrix


def _groups(release: Release) -> dict[str, list[int]]:
    """The places of the columns of each category; those that say where a number is missing are none."""
    assert release.schema is not None
    places: dict[str, list[int]] = {}
    for place, column in enumerate(release.columns):
        group = release.schema.groups.get(column.name)
        if group is not None:
            places.setdefault(group, []).append(place)
    return {group: members for group, members in places.items() if len(members) > 1}
