"""Feature maps: columns of a release that are not columns of the table, but made of them, row by row.

A map is data: it stands in the release and in the model, so that the data holder and anyone who predicts compute the
same values to the last bit. First every input gets one number a row,

    v = ((clip(x, low, high) - shift) * factor) / divisor - offset       as columns are scaled
    v = sign(v) log(1 + |v|)                                             if it is logged
    v = clip(v, -limit, limit)                                           if it has a limit
    v = the line through its two neighbours among levels                 if it has levels

and then every term gives one column:

    linear     v
    product    v w                                                       of two inputs, or one with itself
    legendre   P_j(v) P_k(w) ... factor                                  of inputs, each with a degree

P_k is the Legendre polynomial of degree k. All of it is elementwise float64 in the order that docs/exactness.md says,
with a logarithm of our own, so that what a row gives depends on nothing but that row.
"""

import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ReleaseError
from radoboost.jit import prepare_cache
from radoboost.release.exact_math import exact_legendre, exact_log1p

# What each kind of term has besides its kind.
KINDS = {"linear": {"inputs"}, "product": {"inputs"}, "legendre": {"inputs", "degrees", "factor"}}
MOST_DEGREE = 64  # of one polynomial
_BLOCK_ROWS = 1 << 12  # whose inputs are made at a time
_BLOCK_VALUES = 1 << 17  # outputs that are made at a time: they stay in the cache until they are put row by row
_MANY = 1 << 23  # values that pay for loading a compiler
_OTHER_VERSION = "it may be of another version of radoboost"
_UNKNOWN = f"the feature map has {{what}}, which this version does not know; {_OTHER_VERSION}"


@dataclass(frozen=True)
class Input:
    """One column of the table as terms see it.

    `levels` are the values of a function of [-1, 1] at equally spaced points, in ascending order: a column's ranks.
    """

    name: str
    shift: float = 0.0
    divisor: float = 1.0
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    log: bool = False
    factor: float = 1.0
    offset: float = 0.0
    levels: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        if self.levels:
            return f"rank({self.name})"
        return f"log({self.name})" if self.log else self.name

    @property
    def neutral(self) -> float:
        """The raw value that becomes 0, or the nearest there is: what stands for a missing one."""
        return self.shift + self.offset * (self.divisor / self.factor)

    def apply(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers of raw values `x`; NaN for one that is not finite."""
        with np.errstate(all="ignore"):
            v = np.where(np.isfinite(x), x, np.nan)
            if self.low is not None:
                v = np.maximum(v, self.low)
            if self.high is not None:
                v = np.minimum(v, self.high)
            # + 0.0 makes -0.0 of a clipped value 0.0: which of the two comes out of a minimum is not defined.
            v = (((v + 0.0) - self.shift) * self.factor) / self.divisor - self.offset
            if self.log:
                v = np.copysign(exact_log1p(np.abs(v)), v)
            if self.limit is not None:
                v = np.minimum(np.maximum(v, -self.limit), self.limit)
            return self._level(v) if self.levels else v

    def _level(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """The function that has the levels at equally spaced points, and is linear between them."""
        levels = np.array(self.levels)
        place = (v + 1.0) * ((len(levels) - 1) / 2)
        k = np.minimum(np.where(place >= 0, place, 0.0).astype(np.int64), len(levels) - 2)
        return np.asarray(levels[k] + (place - k) * (levels[k + 1] - levels[k]))

    def to_dict(self) -> dict[str, Any]:
        """The input as JSON data, without what is as usual."""
        return _map_entry_without_defaults(self)


def _map_entry_without_defaults(entry: Any) -> dict[str, Any]:
    """The fields of an entry as JSON data, without those that are as usual."""
    values = {f.name: getattr(entry, f.name) for f in dataclasses.fields(entry) if getattr(entry, f.name) != f.default}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True)
class Term:
    """One output of a map: its kind, the labels of its inputs, and for polynomials their degrees and a factor.

    >>> Term("legendre", ("rank(age)", "dose"), (2, 1), 0.8).name
    'P2(rank(age))*P1(dose)'
    """

    kind: str
    inputs: tuple[str, ...]
    degrees: tuple[int, ...] = ()
    factor: float = 1.0

    @property
    def name(self) -> str:
        """The output's name."""
        if self.kind == "linear":
            return self.inputs[0]
        if self.kind == "product":
            first, second = self.inputs
            return f"{first}^2" if first == second else f"{first}*{second}"
        return "*".join(f"P{degree}({label})" for label, degree in zip(self.inputs, self.degrees, strict=True))

    @property
    def factors(self) -> tuple[tuple[str, int], ...]:
        """What is multiplied, in this order: inputs, each as the polynomial of its degree."""
        return tuple(zip(self.inputs, self.degrees or (1,) * len(self.inputs), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The term as JSON data, with what its kind has."""
        return {
            "kind": self.kind,
            **{k: v for k, v in _map_entry_without_defaults(self).items() if k in KINDS[self.kind]},
        }


@dataclass(frozen=True)
class FeatureMap:
    """Columns made of columns: `inputs`, and the `terms` made of them, one for each output.

    >>> age = Input("age", shift=40.0, divisor=8.0)
    >>> square = FeatureMap((age,), (Term("linear", ("age",)), Term("product", ("age", "age"))))
    >>> square.output_names, square.apply(np.array([[44.0], [24.0]])).tolist()
    (('age', 'age^2'), [[0.5, 0.25], [-2.0, 4.0]])
    """

    inputs: tuple[Input, ...]
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        _check_map_inputs(self.inputs)
        _check_map_terms(self.terms, {entry.label for entry in self.inputs})
        if double := repeated_map_names(self.output_names):
            raise ReleaseError(f"the feature map makes several columns of one name: {', '.join(map(repr, double))}")

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """The columns of the table that it takes, each once, in order."""
        return tuple(dict.fromkeys(entry.name for entry in self.inputs))

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The columns that it makes, in order."""
        return tuple(term.name for term in self.terms)

    @property
    def neutral(self) -> tuple[float, ...]:
        """What stands for a missing value of each of `input_names`."""
        first = {entry.name: entry.neutral for entry in reversed(self.inputs)}
        return tuple(first[name] for name in self.input_names)

    def apply(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The outputs of rows of values, which have a column for each of `input_names`.

        What is not finite is NaN in every output that is made of it. No row changes what another one gives.
        """
        rows, start = np.empty((len(values), len(self.terms))), 0
        for block in self.blocks(values):
            rows[start : start + block.shape[1]] = block.T
            start += block.shape[1]
        return rows

    def blocks(self, values: NDArray[Any], rows: int | None = None) -> Iterator[NDArray[np.float64]]:
        """The outputs column-first, so many rows at a time: they stay in the cache, and the next ones take their place.

        Compiled code makes them where it pays; it has the bits of the NumPy code here.

        >>> age = FeatureMap((Input("age"),), (Term("linear", ("age",)),))
        >>> [block.tolist() for block in age.blocks(np.array([[4.0], [5.0], [6.0]]), 2)]
        [[[4.0, 5.0]], [[6.0]]]
        """
        step = max(64, _BLOCK_VALUES // len(self.terms)) if rows is None else rows
        kernel = _compiled_feature_map(len(values) * len(self.terms))
        yield from self._blocks(values, step) if kernel is None else kernel.compiled_map_blocks(self, values, step)

    def _blocks(self, values: NDArray[Any], step: int) -> Iterator[NDArray[np.float64]]:
        for first in range(0, len(values), _BLOCK_ROWS):
            with np.errstate(all="ignore"):
                inputs = self._inputs(values[first : first + _BLOCK_ROWS])
            for start in range(0, inputs.shape[1], step):
                with np.errstate(all="ignore"):
                    outputs = self._outputs(inputs[:, start : start + step])
                yield outputs

    def _inputs(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The numbers of all inputs, column-first."""
        columns = values.T.astype(np.float64, order="C")
        place = {name: k for k, name in enumerate(self.input_names)}
        return np.array([entry.apply(columns[place[entry.name]]) for entry in self.inputs])

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """The highest degree of a polynomial of each input."""
        highest = {entry.label: 1 for entry in self.inputs}
        for label, degree in (factor for term in self.terms for factor in term.factors):
            highest[label] = max(highest[label], degree)
        return tuple(highest.values())

    @cached_property
    def factors(self) -> list[list[int]]:
        """For each term, the places of what it multiplies among all polynomials, those of the first input first."""
        ends = np.cumsum([0, *self.degrees]).tolist()
        start = {entry.label: end for entry, end in zip(self.inputs, ends, strict=False)}
        return [[start[label] + degree - 1 for label, degree in term.factors] for term in self.terms]

    def _outputs(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The outputs of a block of rows, column-first."""
        polynomials = [row for v, degree in zip(inputs, self.degrees, strict=True) for row in exact_legendre(v, degree)]
        outputs = np.empty((len(self.terms), inputs.shape[1]))
        for output, places, term in zip(outputs, self.factors, self.terms, strict=True):
            output[:] = polynomials[places[0]]
            for place in places[1:]:
                output *= polynomials[place]
            output *= term.factor
        return outputs

    def to_dict(self) -> dict[str, Any]:
        """The map as JSON data."""
        return {"inputs": [each.to_dict() for each in self.inputs], "terms": [each.to_dict() for each in self.terms]}

    @classmethod
    def from_dict(cls, entry: Any) -> "FeatureMap":
        """A map from a document, refusing what this version does not know.

        >>> data = {"inputs": [{"name": "age"}], "terms": [{"kind": "linear", "inputs": ["age"]}]}
        >>> FeatureMap.from_dict(data).to_dict() == data
        True
        """
        if not isinstance(entry, Mapping) or set(entry) != {"inputs", "terms"}:
            raise ReleaseError(f"a feature map must have inputs and terms, and nothing else; {_OTHER_VERSION}")
        if not all(isinstance(part, list) and part for part in entry.values()):
            raise ReleaseError("a feature map must have at least one input and one term, and no empty list")
        return cls(
            tuple(_read_map_entry(Input, item, {"name"}, _INPUT_FIELDS) for item in entry["inputs"]),
            tuple(_read_map_entry(Term, item, {"kind", "inputs"}, _keys_of_map_term(item)) for item in entry["terms"]),
        )


def _compiled_feature_map(n_values: int) -> ModuleType | None:
    """The compiled code, if it pays for so many values and there is a compiler."""
    if n_values < _MANY and "numba" not in sys.modules:
        return None
    prepare_cache()
    try:
        from radoboost.release import feature_map_jit
    except ImportError:
        return None
    return feature_map_jit


_INPUT_FIELDS = {f.name for f in dataclasses.fields(Input)}


def repeated_map_names(names: Sequence[str]) -> list[str]:
    """The names that are there more than once, in order."""
    seen: set[str] = set()
    return list(dict.fromkeys(name for name in names if name in seen or seen.add(name)))  # type: ignore[func-returns-value]


def _keys_of_map_term(item: Any) -> set[str]:
    """Which keys a term's entry may have: those of its kind."""
    kind = item.get("kind") if isinstance(item, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ReleaseError(_UNKNOWN.format(what=f"a term of the kind {str(kind)[:40]!r}"))
    return {"kind", *KINDS[kind]}


def _read_map_entry(cls: Any, item: Any, needed: set[str], known: set[str]) -> Any:
    """An input or a term from its JSON data; lists become tuples."""
    if not isinstance(item, Mapping) or not needed <= set(item) <= known:
        raise ReleaseError(_UNKNOWN.format(what=f"an entry {str(item)[:80]!r}"))
    for key in ("inputs", "degrees", "levels"):
        if not isinstance(item.get(key, []), list):
            raise ReleaseError(_UNKNOWN.format(what=f"an entry {str(item)[:80]!r}"))
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in item.items()})


def _check_map_inputs(inputs: tuple[Input, ...]) -> None:
    for entry in inputs:
        numbers = [entry.shift, entry.divisor, entry.factor, entry.offset]
        numbers += [number for number in (entry.low, entry.high, entry.limit) if number is not None]
        numbers += entry.levels
        if (
            not isinstance(entry.name, str)
            or not isinstance(entry.log, bool)
            or not all(map(_is_finite_map_number, numbers))
        ):
            raise ReleaseError(f"the input {entry.name!r} of the feature map needs a name and finite numbers")
        low, high = -math.inf if entry.low is None else entry.low, math.inf if entry.high is None else entry.high
        positive = entry.divisor, entry.factor, 1.0 if entry.limit is None else entry.limit
        if not (low <= high and min(positive) > 0):
            raise ReleaseError(
                f"the input {entry.name!r} of the feature map needs low <= high, and divisor, factor and limit above 0"
            )
        ascending = len(entry.levels) > 1 and all(first <= second for first, second in pairwise(entry.levels))
        if entry.levels and (entry.limit != 1.0 or not ascending):
            raise ReleaseError(
                f"the input {entry.name!r} of the feature map has levels: they need the limit 1 and ascending numbers"
            )
    if double := repeated_map_names([entry.label for entry in inputs]):
        raise ReleaseError(f"the feature map has several inputs of one name: {', '.join(map(repr, double))}")


def _check_map_terms(terms: tuple[Term, ...], labels: set[str]) -> None:
    """Refuse terms of unknown kinds, of inputs that are not there, or with numbers that cannot be used."""
    if missing := list(dict.fromkeys(str(label) for term in terms for label in term.inputs if label not in labels)):
        raise ReleaseError(
            f"the feature map has terms of inputs that it does not have: {', '.join(map(repr, missing))}"
        )
    for term in terms:
        if term.kind not in KINDS:
            raise ReleaseError(_UNKNOWN.format(what=f"a term of the kind {str(term.kind)[:40]!r}"))
        if term.kind == "legendre":
            degrees = all(type(degree) is int and 1 <= degree <= MOST_DEGREE for degree in term.degrees)
            fits = degrees and len(term.degrees) == len(term.inputs) > 0 and _is_finite_map_number(term.factor)
        else:
            fits = len(term.inputs) == 1 + (term.kind == "product") and not term.degrees and term.factor == 1.0
        if not fits:
            raise ReleaseError(
                f"a term {term.kind!r} of the feature map needs its inputs, and of polynomials degrees from 1 to "
                f"{MOST_DEGREE} and a finite factor"
            )


def _is_finite_map_number(number: Any) -> bool:
    return type(number) in (int, float) and math.isfinite(number)
