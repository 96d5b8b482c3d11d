"""Products of Legendre polynomials of several inputs, in classes by their degrees.

The class (2, 1) has P2(a) P1(b) for every two inputs a and b, either way round. Classes come in the order of their
total degree, and of those with one total degree the ones of fewer inputs first: (2), (1, 1), (3), (2, 1), (1, 1, 1),
(4) and so on.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations

from radoboost.errors import ArgumentError
from radoboost.release.feature_map import Term

Degrees = tuple[int, ...]
MOST_COLUMNS = 600  # of a release whose columns are made by classes, the constant among them
MOST_DEGREE, MOST_INPUTS = 8, 3  # of a product
DEGREES = {f"degree-{degree}": degree for degree in range(2, MOST_DEGREE + 1)}  # by the word that asks for it


def _partitions(total: int, largest: int) -> Iterator[Degrees]:
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first):
            yield (first, *rest)


CLASSES = [
    degrees
    for total in range(2, MOST_DEGREE + 1)
    for degrees in sorted(_partitions(total, total), key=len)
    if len(degrees) <= MOST_INPUTS
]


def n_products(n_inputs: int, degrees: Degrees) -> int:
    """How many products a class has.

    >>> n_products(10, (2, 1))
    90
    """
    return math.comb(n_inputs, len(degrees)) * len(set(permutations(degrees)))


def classes_within(
    n_inputs: int, n_columns: int, room: Callable[[int], float], most_degree: int = MOST_DEGREE
) -> list[Degrees]:
    """The classes that fit beside `n_columns` others, by the room for columns at each total degree.

    Each is taken whole, or left out. Where the squares do not fit there are none at all.

    >>> classes_within(4, 9, lambda degree: 100 / degree)
    [(2,), (1, 1), (3,), (1, 1, 1)]
    """
    classes: list[Degrees] = []
    for degrees in CLASSES:
        count = n_products(n_inputs, degrees)
        if count and sum(degrees) <= most_degree and n_columns + count <= room(sum(degrees)):
            classes.append(degrees)
            n_columns += count
        elif degrees == CLASSES[0]:
            return []
    return classes


def check_degree(word: str, n_numbers: int, classes: Sequence[Degrees]) -> None:
    """Refuse a degree where there are too many numbers for the squares of all, or none at all."""
    if not classes:
        why = f"{n_numbers:,} numbers make more than {MOST_COLUMNS} columns" if n_numbers else "there are no numbers"
        raise ArgumentError(f"columns={word!r} are products of numbers, and {why}; leave columns out (--columns)")


def product_terms(classes: Sequence[Degrees], labels: Sequence[str]) -> Iterator[Term]:
    """The products of classes; the higher their degree, the less they weigh."""
    for degrees in classes:
        factor = math.sqrt(2 / sum(degrees))
        orders = sorted(set(permutations(degrees)))
        for inputs in combinations(labels, len(degrees)):
            for order in orders:
                yield Term("legendre", inputs, order, factor)
