"""Which columns a release has: the table's own, or those that a feature map makes of them.

`columns` is a word for all columns,

    linear       the columns themselves
    signed-log   sign(z) log(1 + |z|) of every number, for skewed ones
    degree-2     and, of every number, products of Legendre polynomials up to this total degree, and so on to degree-8:
                 class by class (`CLASSES`) while there are 600 columns at most

or a mapping of column to some of the words linear and signed-log, squares "age^2" and products "age*dose"; columns that
it does not name stay linear. A schema has such a mapping too, by the `terms` of its columns
and its `products`: there a product is a pair of factors, and one with a category is a product with each of its slots.

"auto" is what the mechanism prescribes. For `moments` that is a plan (`feature_plan`), as is a degree: its polynomials
are of ranks by what was released first. Elsewhere they are of numbers by declared bounds, or, where columns are
standardised, of z / sqrt(2 + z^2).

Which outputs there are follows from the names of the columns alone, and the constants are those that scale them:
declared bounds, bounds that were found privately, or for plain releases means and standard deviations. Columns of 0 and
1 that belong to a group, the slots of a category, stay linear; they have no squares, and no products with others of
their group.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ReleaseError, TableError
from radoboost.release.columns import Column
from radoboost.release.feature_map import FeatureMap, Input, Term
from radoboost.tables.column_selection import list_names
from radoboost.tables.column_types import TERMS, Factor, OneHot, Word
from radoboost.tables.table import Batch, Partition, Table

# ---- Products of Legendre polynomials of several inputs, in classes by their degrees.
#
# The class (2, 1) has P2(a) P1(b) for every two inputs a and b, either way round. Classes come in the order of their
# total degree, and of those with one total degree the ones of fewer inputs first: (2), (1, 1), (3), (2, 1), (1, 1, 1),
# (4) and so on.


Degrees = tuple[int, ...]
MOST_COLUMNS = 600  # of a release whose columns are made by classes, the constant among them
MOST_DEGREE, MOST_INPUTS = 8, 3  # of a product
DEGREES = {f"degree-{degree}": degree for degree in range(2, MOST_DEGREE + 1)}  # by the word that asks for it


def _integer_partitions_of_degree(total: int, largest: int) -> Iterator[Degrees]:
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _integer_partitions_of_degree(total - first, first):
            yield (first, *rest)


CLASSES = [
    degrees
    for total in range(2, MOST_DEGREE + 1)
    for degrees in sorted(_integer_partitions_of_degree(total, total), key=len)
    if len(degrees) <= MOST_INPUTS
]


def n_products_in_class(n_inputs: int, degrees: Degrees) -> int:
    """How many products a class has.

    >>> n_products_in_class(10, (2, 1))
    90
    """
    return math.comb(n_inputs, len(degrees)) * len(set(permutations(degrees)))


def product_classes_that_fit(
    n_inputs: int, n_columns: int, room: Callable[[int], float], most_degree: int = MOST_DEGREE
) -> list[Degrees]:
    """The classes that fit beside `n_columns` others, by the room for columns at each total degree.

    Each is taken whole, or left out. Where the squares do not fit there are none at all.

    >>> product_classes_that_fit(4, 9, lambda degree: 100 / degree)
    [(2,), (1, 1), (3,), (1, 1, 1)]
    """
    classes: list[Degrees] = []
    for degrees in CLASSES:
        count = n_products_in_class(n_inputs, degrees)
        if count and sum(degrees) <= most_degree and n_columns + count <= room(sum(degrees)):
            classes.append(degrees)
            n_columns += count
        elif degrees == CLASSES[0]:
            return []
    return classes


def check_product_degree(word: str, n_numbers: int, classes: Sequence[Degrees]) -> None:
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


Columns = str | Mapping[str, Sequence[Word]]
WORDS = ("auto", "linear", "signed-log", *DEGREES)
MOST_OUTPUTS = 1 << 14
_LOG_REACH = math.e - 1  # bounds onto [-this, this]: its log(1 + |v|) is 1
_FAR, _BINS = 4, 64  # deviations that standardised numbers are limited to before polynomials, and steps between
_TERM_WORDS = f"{', '.join(TERMS)}, squares such as age^2, and products such as age*dose"


def check_feature_map_argument(columns: Any, terms: Mapping[str, Sequence[Word]]) -> Columns:
    """What a caller asks for; `terms` are those of a schema, by column, which "auto" leaves the choice to."""
    if isinstance(columns, str) and columns in WORDS:
        if columns == "auto":
            return _map_unless_linear({name: tuple(words) for name, words in terms.items()}) if terms else "auto"
        if terms:
            raise ArgumentError(
                f"the schema has terms of {list_names(list(terms))}, and columns={columns!r} (--columns) says "
                "otherwise; leave one of them out"
            )
        return columns
    if not isinstance(columns, Mapping):
        raise ArgumentError(
            f"columns must be one of {', '.join(WORDS)}, or a mapping of column to a list of terms: "
            f"{_TERM_WORDS}; it is {columns!r}"
        )
    if terms:
        raise ArgumentError(
            f"the schema has terms of {list_names(list(terms))}, and so has columns; leave one of them out"
        )
    chosen = {name: (words,) if isinstance(words, str) else tuple(words) for name, words in columns.items()}
    wrong = [f"{name!r} has none (leave it out to keep it linear)" for name, words in chosen.items() if not words]
    for name, words in chosen.items():
        odd = [str(word) for word in words if not isinstance(word, str) or not _is_feature_map_word(word)]
        wrong += [f"{name!r} has {list_names(odd)}"] if odd else []
    if wrong:
        raise ArgumentError(
            f"columns has terms that there are not: {', '.join(wrong)}; a column may have {_TERM_WORDS}"
        )
    return _map_unless_linear(chosen)


def _map_unless_linear(chosen: dict[str, tuple[Word, ...]]) -> Columns:
    return chosen if any(words != ("linear",) for words in chosen.values()) else "linear"


def _is_feature_map_word(word: str) -> bool:
    return word in TERMS or "*" in word or word.endswith("^2")


def number_of_map_columns(columns: Columns, names: Sequence[str], groups: Mapping[str, str], *, bounded: bool) -> int:
    """How many columns there will be, without the constant one."""
    return len(names) if columns == "linear" else len(make_map_terms(columns, names, groups, bounded=bounded))


def make_map_terms(
    columns: Columns, names: Sequence[str], groups: Mapping[str, str], *, bounded: bool
) -> tuple[Term, ...]:
    """The terms of the map of these columns, some of which belong to `groups`; `bounded` if they have bounds."""
    if columns == "signed-log":
        return tuple(Term("linear", (name if name in groups else f"log({name})",)) for name in names)
    if isinstance(columns, str):
        numbers = [name for name in names if name not in groups]
        own = [Term("linear", (name,)) for name in names]
        labels = numbers if bounded else [f"rank({name})" for name in numbers]
        ranks = [] if bounded else [Term("linear", (label,)) for label in labels]
        used = len(own) + len(ranks) + 1
        classes = product_classes_that_fit(len(numbers), used, lambda _: MOST_COLUMNS, DEGREES[columns])
        check_product_degree(columns, len(numbers), classes)
        return *own, *ranks, *product_terms(classes, labels)
    products = _products_named_in_mapping(columns, names, groups)
    if (made := len(products) + 2 * len(names)) > MOST_OUTPUTS:
        raise ArgumentError(
            f"columns=a mapping would make up to {made:,} columns of {len(names):,}, and {MOST_OUTPUTS:,} is the most; "
            "use fewer columns, or give terms for some of them"
        )
    words = {name: [word for word in columns.get(name, ()) if word in TERMS] or ["linear"] for name in names}  # (C6)
    terms = [
        Term("linear", (name if word == "linear" else f"log({name})",))
        for name in names
        for word in TERMS
        if word in words[name]
    ]
    return *terms, *products


def make_feature_map(columns: Columns, scaled: Sequence[Column], groups: Mapping[str, str]) -> FeatureMap:
    """The map with its constants, those of `scaled`: the table's columns by declared bounds, or standardised."""
    bounded = all(column.scale == "bounds" for column in scaled)
    terms = make_map_terms(columns, [column.name for column in scaled], groups, bounded=bounded)
    wanted = {label for term in terms for label in term.inputs}
    inputs = [
        entry
        for column in scaled
        for entry in _column_map_inputs(column, column.name in groups)
        if entry.label in wanted
    ]
    try:
        return FeatureMap(tuple(inputs), terms)
    except ReleaseError as error:
        raise ArgumentError(f"{error}; rename some columns of the table, or take other terms") from None


def _products_named_in_mapping(
    columns: Mapping[str, Sequence[Word]], names: Sequence[str], groups: Mapping[str, str]
) -> list[Term]:
    """The squares and products that a mapping names; all that it asks for of columns that are not there is refused."""
    terms: dict[frozenset[str], Term] = {}  # a*b and b*a are one
    wrong: dict[str, list[str]] = {}
    named = {word: name for name, words in columns.items() for word in words if word not in TERMS}
    for word, name in named.items():
        pairs = _column_pairs_of_product(word, names, groups)
        if not pairs or any(first in groups and groups[first] == groups.get(second) for first, second in pairs):
            wrong.setdefault(name, []).append(str(word))
            continue
        for pair in pairs:
            terms.setdefault(frozenset(pair), Term("product", pair))
    unknown = [name for name, words in columns.items() if name not in names and not all(map(_is_schema_product, words))]
    slots = [name for name in columns if name in groups and "signed-log" in columns[name]]
    problems = []
    if unknown:
        shown = f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
        problems.append(
            f"columns names {list_names(unknown)}, which the table does not have as numbers; it has {shown}"
        )
    if slots:
        problems.append(f"{list_names(slots)} hold 0 and 1, so that logarithms would tell nothing new")
    if wrong:
        terms_of = ", ".join(f"{list_names(words)} of {name!r}" for name, words in wrong.items())
        problems.append(f"there are no products with columns that are not there, or within one category: {terms_of}")
    if problems:
        raise ArgumentError("; ".join(problems))
    return list(terms.values())


def _is_schema_product(word: Word) -> bool:
    """Whether it is a product of a schema, whose columns the schema knows."""
    return isinstance(word, tuple)


def _column_pairs_of_product(word: Word, names: Sequence[str], groups: Mapping[str, str]) -> list[tuple[str, str]]:
    """The pairs of columns that a word stands for: one, or a product of a schema with each slot of a category."""
    if isinstance(word, tuple):
        first, second = (_columns_of_factor(factor, names, groups) for factor in word)
        return [(one, other) for one in first for other in second]
    cuts = [(word[:k], word[k + 1 :]) for k, letter in enumerate(word) if letter == "*"]
    cuts += [(word[:-2], word[:-2])] if word.endswith("^2") else []
    return [pair for pair in cuts if set(pair) <= set(names)][:1]


def _columns_of_factor(factor: Factor, names: Sequence[str], groups: Mapping[str, str]) -> list[str]:
    if isinstance(factor, OneHot):
        return [name for name in names if groups.get(name) == factor.group]
    return [factor] if factor in names else []


def _column_map_inputs(column: Column, slot: bool) -> list[Input]:
    """What may become of a column: onto [-1, 1] by bounds, or a z-score; its logarithm; and its rank."""
    name, low, high = column.name, column.low, column.high
    if slot:
        return [Input(name, low=low, high=high)]
    _, _, shift, factor, divisor, offset = column.constants
    own = Input(name, shift, divisor, low, high, None, False, factor, offset)
    if column.scale == "bounds":
        return [own, Input(name, shift, divisor, low, high, 1.0, True, 2 * _LOG_REACH, _LOG_REACH)]
    levels = soft_rank_levels()
    rank = Input(name, shift, _FAR * divisor, low, high, 1.0, False, factor, offset, levels)
    return [own, Input(name, shift, divisor, low, high, None, True, factor, offset), rank]


def soft_rank_levels() -> tuple[float, ...]:
    """z / sqrt(2 + z^2) at equally spaced points within the limit, as a share of what it is there."""
    points = [_FAR * (2 * k - _BINS) / _BINS for k in range(_BINS + 1)]
    return tuple(z / math.sqrt(2 + z * z) / (_FAR / math.sqrt(2 + _FAR * _FAR)) for z in points)


def map_table(source: Table, feature_map: FeatureMap) -> Table:
    """The table with the map's outputs as its features, in batches that suit their number."""
    missing = [name for name in feature_map.input_names if name not in source.features]
    if missing:
        raise TableError(
            f"{source.name} has no column {', '.join(map(repr, missing))}, which the feature map takes; its columns "
            f"are {', '.join(source.features[:20])}{', ...' if len(source.features) > 20 else ''}"
        )
    names = {name: k for k, name in enumerate(source.features)}
    places = tuple(names[name] for name in feature_map.input_names)
    selection = None if places == tuple(range(len(names))) else places
    pieces = tuple(MappedPart(part, feature_map, selection) for part in source.pieces)
    return replace(source, features=feature_map.output_names, pieces=pieces, sparse_rows=None)


@dataclass(frozen=True, eq=False)
class MappedPart:
    """The rows of a part through a map; `places` are those of the map's inputs, None where all columns are."""

    part: Partition
    feature_map: FeatureMap
    places: tuple[int, ...] | None

    @property
    def n_rows(self) -> int | None:
        return self.part.n_rows

    def count(self) -> int:
        return self.part.count()

    def batches(self, most_rows: int) -> Iterator[Batch]:
        """The rows in the same batches; their values are mapped when they are asked for."""
        for batch in self.part.batches(most_rows):
            values = MappedBatch(batch, self.feature_map, self.places)
            yield batch._replace(values=values, inputs=values.inputs, sparse=None, device_values=None)


class MappedBatch:
    """The mapped values of a batch, and those that they are made of, which are converted once."""

    def __init__(self, batch: Batch, feature_map: FeatureMap, places: tuple[int, ...] | None) -> None:
        self._batch, self._map, self._places = batch, feature_map, places
        self._inputs: NDArray[Any] | None = None

    def inputs(self) -> NDArray[Any]:
        """The values of the map's inputs."""
        if self._inputs is None:
            values = self._batch.values()
            self._inputs = values if self._places is None else values[:, self._places]
        return self._inputs

    def __call__(self) -> NDArray[np.float64]:
        return self._map.apply(self.inputs())

    def blocks(self, rows: int) -> Iterator[NDArray[np.float64]]:
        """The same values, so many rows at a time, Fortran-contiguous; each block is gone with the next."""
        for block in self._map.blocks(self.inputs(), rows):
            yield block.T


def mapped_value_blocks(batch: Batch, rows: int) -> Iterator[NDArray[Any]]:
    """The values of a batch in order; where a map makes them, few rows at a time, so that they stay in the cache."""
    if isinstance(batch.values, MappedBatch):
        yield from batch.values.blocks(rows)
    else:
        yield batch.values()
