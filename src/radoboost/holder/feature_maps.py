"""Which columns a release has: the table's own, or those that a feature map makes of them.

`columns` is a word for all columns,

    linear       the columns themselves
    signed-log   sign(z) log(1 + |z|) of every number
    quadratic    numbers, their squares and all products; the numbers logged, unless bounds were declared. Plain
                 releases have at most 400 squares and products: beyond, those that a public key chooses
    hats         numbers, and five hats of each
    fourier      numbers, and random cosines of all of them together, the same for everyone

or a mapping of column to some of the words linear, signed-log and hats, squares "age^2" and products "age*dose";
columns that it does not name stay linear. A schema has such a mapping too, by the `terms` of its columns and its
`products`: there a product is a pair of factors, and one with a category is a product with each of its slots.

"auto" is what the mechanism prescribes. For `moments` that is a plan, as are
quadratic, hats, ranks, both and fourier: `moment_plan`, and not this file, says what these mean there. "fitting", for
plain releases, is one of linear, signed-log and quadratic: `fitting` says which.

Which outputs there are follows from the names of the columns alone, and the constants are those that scale them:
declared bounds, bounds that were found privately, or for plain releases means and standard deviations. Columns of 0 and
1 that belong to a group, the slots of a category, stay linear; they have no squares, and no products with others of
their group.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.holder.keystream import streams
from radoboost.holder.noise import round_scale_up, rounded_normals
from radoboost.release.columns import Column
from radoboost.release.maps import FeatureMap, Input, Term
from radoboost.tables.columns import listed
from radoboost.tables.kinds import TERMS, Factor, Slots, Word

Columns = str | Mapping[str, Sequence[Word]]
WORDS = ("auto", "linear", "signed-log", "quadratic", "hats", "fourier")
FITTING = "fitting"  # a word that only means something to the mechanism plain
PLANNED = ("ranks", "both")  # words that only mean something to the mechanism moments
ALL_WORDS = (*WORDS, FITTING, *PLANNED)
LINEAR, LOG, LIMITED = "linear", "log", "limited"  # what becomes of a column before terms are made of it
KNOTS, WIDTH = (-1.0, -0.5, 0.0, 0.5, 1.0), 0.5
MOST_OUTPUTS = 1 << 14
MOST_COSINES, COSINES_PER_INPUT = 300, 10
_SPREAD = 4.0  # deviation of a cosine's weights, divided by the root of the number of inputs
_WEIGHT_UNIT = 2.0**-20
_LOG_REACH = math.e - 1  # bounds onto [-this, this]: its log(1 + |v|) is 1
_TERM_WORDS = f"{', '.join(TERMS)}, squares such as age^2, and products such as age*dose"
_KEY = hashlib.sha256(b"radoboost/fourier").digest()  # public: these numbers protect nothing
_PRODUCTS_KEY = hashlib.sha256(b"radoboost/quadratic").digest()  # public likewise
MOST_PRODUCTS = 400
"""Of plain releases, squares and products together: so many, on top of the columns, 1000 rados still carry."""


def check_columns(columns: Any, terms: Mapping[str, Sequence[Word]]) -> Columns:
    """What a caller asks for; `terms` are those of a schema, by column, which "auto" leaves the choice to."""
    if isinstance(columns, str) and columns in ALL_WORDS:
        if columns == "auto":
            return _unless_linear({name: tuple(words) for name, words in terms.items()}) if terms else "auto"
        if terms:
            raise ArgumentError(
                f"the schema has terms of {listed(list(terms))}, and columns={columns!r} (--columns) says otherwise; "
                "leave one of them out"
            )
        return columns
    if not isinstance(columns, Mapping):
        raise ArgumentError(
            f"columns must be one of {', '.join(ALL_WORDS)}, or a mapping of column to a list of terms: "
            f"{_TERM_WORDS}; it is {columns!r}"
        )
    if terms:
        raise ArgumentError(f"the schema has terms of {listed(list(terms))}, and so has columns; leave one of them out")
    chosen = {name: (words,) if isinstance(words, str) else tuple(words) for name, words in columns.items()}
    wrong = [f"{name!r} has none (leave it out to keep it linear)" for name, words in chosen.items() if not words]
    for name, words in chosen.items():
        odd = [str(word) for word in words if not isinstance(word, str) or not _is_word(word)]
        wrong += [f"{name!r} has {listed(odd)}"] if odd else []
    if wrong:
        raise ArgumentError(
            f"columns has terms that there are not: {', '.join(wrong)}; a column may have {_TERM_WORDS}"
        )
    return _unless_linear(chosen)


def _unless_linear(chosen: dict[str, tuple[Word, ...]]) -> Columns:
    return chosen if any(words != ("linear",) for words in chosen.values()) else "linear"


def _is_word(word: str) -> bool:
    return word in TERMS or "*" in word or word.endswith("^2")


def n_outputs(
    columns: Columns, names: Sequence[str], groups: Mapping[str, str], *, bounded: bool, most: int | None = None
) -> int:
    """How many columns there will be, without the constant one."""
    if columns == "linear":
        return len(names)
    return len(outline(columns, names, groups, bounded=bounded, most=most)[1].terms)


def outline(
    columns: Columns, names: Sequence[str], groups: Mapping[str, str], *, bounded: bool, most: int | None = None
) -> tuple[list[tuple[str, str]], FeatureMap]:
    """What becomes of each column, and the map without constants; `bounded` where bounds are declared.

    `names` are those of the columns, some of which belong to `groups`. The word quadratic gives at `most` so many
    squares and products; None is all.
    """
    products = _named_products(columns, names, groups) if isinstance(columns, Mapping) else []
    words = _words(columns, names, groups)
    _check_width(columns, len(names), most, len(products))
    factors = {name for term in products for name in term.inputs}
    treatments = [
        (name, treatment)
        for name in names
        for treatment in _treatments(columns, words[name], name in groups, name in factors, bounded)
    ]
    terms = [Term("linear", (_label(*pair),)) for pair in treatments if _is_linear(pair, words[pair[0]])]
    terms += [Term("hat", (name,), knot=knot, width=WIDTH) for name in names if "hats" in words[name] for knot in KNOTS]
    if columns == "quadratic":
        labels = [(_label(*pair), groups.get(pair[0])) for pair in treatments]
        terms += [Term("product", (first, second)) for first, second in chosen_pairs(labels, most)]
    elif columns == "fourier":
        terms += cosine_terms(n_cosines(len(treatments)), tuple(range(len(treatments))), len(treatments))
    inputs = tuple(Input(name, log=treatment == LOG) for name, treatment in treatments)
    try:
        return treatments, FeatureMap(inputs, (*terms, *products))
    except ReleaseError as error:
        raise ArgumentError(f"{error}; rename some columns of the table, or take other terms") from None


def make_map(
    columns: Columns, scaled: Sequence[Column], groups: Mapping[str, str], most: int | None = None
) -> FeatureMap:
    """The map with its constants, those of `scaled`: the table's columns by declared bounds, or standardised.

    It has at `most` so many squares and products, as in `outline`.
    """
    by_name = {column.name: column for column in scaled}
    bounded = all(column.scale == "bounds" for column in scaled)
    treatments, plan = outline(columns, list(by_name), groups, bounded=bounded, most=most)
    return FeatureMap(tuple(_input(by_name[name], how, name in groups) for name, how in treatments), plan.terms)


def _words(columns: Columns, names: Sequence[str], groups: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Of each column, which of the words linear, signed-log and hats it has."""
    if isinstance(columns, str):
        word = {"signed-log": ("signed-log",), "hats": ("linear", "hats")}.get(columns, ("linear",))
        return {name: ("linear",) if name in groups else word for name in names}
    own = {name: tuple(word for word in columns.get(name, ()) if word in TERMS) for name in names}
    return {name: words or ("linear",) for name, words in own.items()}  # every column is in some output (C6)


def _treatments(columns: Columns, words: Sequence[str], slot: bool, factor: bool, bounded: bool) -> list[str]:
    """What becomes of a column: it is logged, or not, or both; where hats or cosines are made of it, it is limited."""
    if slot:
        return [LINEAR]
    if columns == "quadratic":
        return [LINEAR if bounded else LOG]
    plain = LIMITED if columns == "fourier" or "hats" in words else LINEAR
    return [plain] * (words != ("signed-log",) or factor) + [LOG] * ("signed-log" in words)


def _is_linear(pair: tuple[str, str], words: Sequence[str]) -> bool:
    """Whether a treated column is an output itself; some are there for products or hats alone."""
    return pair[1] == LOG or "linear" in words


def _label(name: str, treatment: str) -> str:
    return f"log({name})" if treatment == LOG else name


def pairs(labels: Sequence[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
    """All squares and products, but those within one group."""
    for k, (first, group) in enumerate(labels):
        for second, other in labels[k:]:
            if group is None or group != other:
                yield first, second


def n_pairs(groups: Sequence[str | None]) -> int:
    """How many squares and products there are of columns, each in a group or in none."""
    within = sum(count * (count + 1) // 2 for group, count in Counter(groups).items() if group is not None)
    return len(groups) * (len(groups) + 1) // 2 - within


def chosen_pairs(labels: Sequence[tuple[str, str | None]], most: int | None) -> Iterator[tuple[str, str]]:
    """All squares and products if they are at `most` so many, else so many of them: the same for everybody.

    Which these are follows from a public key and the number of all: the first steps of a Fisher-Yates shuffle.
    """
    count = n_pairs([group for _, group in labels])
    if most is None or count <= most:
        yield from pairs(labels)
        return
    moved: dict[int, int] = {}
    places = []
    for k, word in enumerate(streams(_PRODUCTS_KEY, 1, [(0, 0, most)], np.empty(most, dtype="<u8")).tolist()):
        place = k + word % (count - k)
        places.append(moved.get(place, place))
        moved[place] = moved.get(k, k)
    remaining, first, later = sorted(places, reverse=True), 0, Counter(group for _, group in labels)
    for k, (label, group) in enumerate(labels):
        after = first + len(labels) - k - (0 if group is None else later[group])
        if remaining and remaining[-1] < after:
            others = [other for other, its in labels[k:] if group is None or group != its]
            while remaining and remaining[-1] < after:
                yield label, others[remaining.pop() - first]
        first, later[group] = after, later[group] - 1


def _named_products(
    columns: Mapping[str, Sequence[Word]], names: Sequence[str], groups: Mapping[str, str]
) -> list[Term]:
    """The squares and products that a mapping names; all that it asks for of columns that are not there is refused."""
    terms: dict[frozenset[str], Term] = {}  # a*b and b*a are one
    wrong: dict[str, list[str]] = {}
    named = {word: name for name, words in columns.items() for word in words if word not in TERMS}
    for word, name in named.items():
        pairs = _pairs_of(word, names, groups)
        if not pairs or any(first in groups and groups[first] == groups.get(second) for first, second in pairs):
            wrong.setdefault(name, []).append(str(word))
            continue
        for pair in pairs:
            terms.setdefault(frozenset(pair), Term("product", pair))
    unknown = [name for name, words in columns.items() if name not in names and not all(map(_is_product, words))]
    slots = [name for name in columns if name in groups and {"signed-log", "hats"} & set(columns[name])]
    problems = []
    if unknown:
        shown = f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
        problems.append(f"columns names {listed(unknown)}, which the table does not have as numbers; it has {shown}")
    if slots:
        problems.append(f"{listed(slots)} hold 0 and 1, so that logarithms and hats would tell nothing new")
    if wrong:
        terms_of = ", ".join(f"{listed(words)} of {name!r}" for name, words in wrong.items())
        problems.append(f"there are no products with columns that are not there, or within one category: {terms_of}")
    if problems:
        raise ArgumentError("; ".join(problems))
    return list(terms.values())


def _is_product(word: Word) -> bool:
    """Whether it is a product of a schema, whose columns the schema knows."""
    return isinstance(word, tuple)


def _pairs_of(word: Word, names: Sequence[str], groups: Mapping[str, str]) -> list[tuple[str, str]]:
    """The pairs of columns that a word stands for: one, or a product of a schema with each slot of a category."""
    if isinstance(word, tuple):
        first, second = (_columns_of(factor, names, groups) for factor in word)
        return [(one, other) for one in first for other in second]
    cuts = [(word[:k], word[k + 1 :]) for k, letter in enumerate(word) if letter == "*"]
    cuts += [(word[:-2], word[:-2])] if word.endswith("^2") else []
    return [pair for pair in cuts if set(pair) <= set(names)][:1]


def _columns_of(factor: Factor, names: Sequence[str], groups: Mapping[str, str]) -> list[str]:
    if isinstance(factor, Slots):
        return [name for name in names if groups.get(name) == factor.group]
    return [factor] if factor in names else []


def _check_width(columns: Columns, count: int, most: int | None, named: int = 0) -> None:
    products = count * (count + 1) // 2
    products = products if most is None else min(products, most)
    made = count + products if columns == "quadratic" else count * (1 + len(KNOTS)) + named
    if made > MOST_OUTPUTS:
        raise ArgumentError(
            f"columns={columns if isinstance(columns, str) else 'a mapping'} would make up to {made:,} columns of "
            f"{count:,}, and {MOST_OUTPUTS:,} is the most; use fewer columns, or give terms for some of them"
        )


def n_cosines(n_inputs: int) -> int:
    return min(MOST_COSINES, COSINES_PER_INPUT * n_inputs)


@lru_cache(maxsize=32)
def cosine_terms(count: int, places: tuple[int, ...], n_inputs: int) -> tuple[Term, ...]:
    """Random cosines of inputs: the same for everybody, for weights and phases follow from a public key.

    They are of the inputs at some `places`; the others have no weight.
    """
    if not count:
        return ()
    scale = round_scale_up(_SPREAD / math.sqrt(len(places)) / _WEIGHT_UNIT)
    weights = np.zeros((count, n_inputs))
    weights[:, places] = rounded_normals(_KEY, scale, 0, count, len(places)) * _WEIGHT_UNIT
    words = streams(_KEY, 1, [(0, 0, count)], np.empty(count, dtype="<u8"))
    phases = ((words >> np.uint64(11)) * 2.0**-53 * (2 * math.pi)).tolist()
    # Together they are about as long as the columns beside them.
    factor = min(1.0, 0.5 * math.sqrt(2 * max(len(places), 4) / count))
    return tuple(
        Term("cosine", weights=tuple(row), phase=phase, factor=factor)
        for row, phase in zip(weights.tolist(), phases, strict=True)
    )


def _input(column: Column, treatment: str, slot: bool) -> Input:
    """One input: onto [-1, 1] by bounds, or a z-score, of which two are the limit."""
    low, high = column.low, column.high
    if slot:
        return Input(column.name, low=low, high=high)
    _, _, shift, factor, divisor, offset = column.constants
    limit = None
    if column.scale == "bounds" and treatment == LOG:
        factor, offset, limit = 2 * _LOG_REACH, _LOG_REACH, 1.0
    elif column.scale == "standard" and treatment == LIMITED:
        divisor, limit = 2 * divisor, 1.0
    return Input(column.name, shift, divisor, low, high, limit, treatment == LOG, factor, offset)
