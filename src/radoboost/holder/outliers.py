"""One value that outweighs all others of its column: what a plain release would lose by it, said to the holder.

A standardised value that is far from all others is the root of the number of rows, and the others are nearly one
number: a column that might have told the classes apart tells nothing. The survey has all that it takes to see this.
Only mechanisms that may look at the table ask.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from radoboost.holder.grid import EXACT_UNIT, ExactSums

LEAST_ROWS = 30  # of fewer, any value may be a large part of its column
_MOST = 0.9  # of the variance, from one value
_FAR = 100  # deviations of the others
_ONE_TENTH = 10  # of their variance: as far is their mean, squared, from their other end, if they are not mostly that
_NAMED = 8


def outliers(names: Sequence[str], exact: ExactSums) -> dict[str, float]:
    """By column, the value that makes up nine tenths of its variance, and is a hundred deviations from the others.

    Where all others are equal, or nearly all of them, there is nothing to tell apart, as with one 1 among zeros.
    """
    found: dict[str, float] = {}
    m = exact.n_rows
    if m < LEAST_ROWS:
        return found
    for k, name in enumerate(names):
        spread = m * exact.squares[k] - exact.sums[k] ** 2  # m**2 times the variance, in units of 2**-2148
        ends = [float(exact.lowest[k]), float(exact.highest[k])]
        if spread <= 0:
            continue
        units = [_units(end) for end in ends]
        # m times the distance from the mean; no square of it exceeds m - 1 times the variance.
        far = [abs(m * unit - exact.sums[k]) for unit in units]
        place = int(far[1] > far[0])
        if far[place] ** 2 * 10 < round(10 * _MOST) * (m - 1) * spread:
            continue
        others = exact.sums[k] - units[place]
        rest = (m - 1) * (exact.squares[k] - units[place] ** 2) - others**2  # the same of the other values
        spread_out = _ONE_TENTH * (others - (m - 1) * units[1 - place]) ** 2 >= rest > 0
        if spread_out and ((m - 1) * units[place] - others) ** 2 >= _FAR**2 * rest:
            found[name] = ends[place]
    return found


def _units(value: float) -> int:
    return int(Fraction(value) * (1 << -EXACT_UNIT))


def in_words(found: Mapping[str, float], n_rows: int) -> str:
    values = ", ".join(f"{name!r} has {value:.6g}" for name, value in list(found.items())[:_NAMED])
    more = f", and {len(found) - _NAMED} more columns have such" if len(found) > _NAMED else ""
    return (
        f"one value outweighs the other {n_rows - 1:,} of its column, which rados hardly tell apart then: {values}"
        f"{more}; correct it, or declare bounds for its column (bounds, --bounds), which clip it"
    )
