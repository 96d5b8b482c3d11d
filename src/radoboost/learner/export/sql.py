"""A model as one SELECT, from the raw columns of a table, that DuckDB and PostgreSQL run."""

from collections.abc import Sequence

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.learner.export.sql_cells import Encoded, encoded_cells, strict_number
from radoboost.learner.export.sql_text import Query, choice, clipped, identifier, literal, scaled
from radoboost.learner.export.summary import one_line, summary
from radoboost.learner.model import Model
from radoboost.learner.predict import written_names
from radoboost.release.columns import Column
from radoboost.release.maps import FeatureMap, Input
from radoboost.tables.columns import listed

_LARGEST = 1.7976931348623157e308
_FARTHEST = 700.0  # log odds: beyond, a probability is 0 or 1 but for less than 1e-300
Terms = list[tuple[str, tuple[str, ...]]]  # expressions, each with the columns that it uses


def select(model: Model, table: str = "input", keep: Sequence[str] = ()) -> str:
    """The query: the columns to keep, and those that `rado predict` writes.

    A dot in `table` stands between a schema and a table. What is predicted is NULL where a row has no score.
    """
    query = Query([*model.feature_names, *keep, *table.split(".")])
    written = _distinct(written_names(model))
    if wrong := [name for name in dict.fromkeys(keep) if name in written or list(keep).count(name) > 1]:
        raise ArgumentError(f"cannot keep {listed(wrong)}: the result has a column of that name already")
    results = [(query.let(identifier(name)), name) for name in keep]
    scores = _scores(query, model)
    prediction, shares = _prediction(model, scores), _shares(query, model, scores)
    answers = [prediction, *shares] if len(scores) > 1 else [scores[0], shares[1], prediction]
    results += zip(answers, written, strict=True)
    place = ".".join(identifier(part) for part in table.split("."))
    return f"{_header(model)}\n{query.text(place, results)}\n"


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, with a number behind those that differ from an earlier one in capitals alone.

    Columns of a view, or of a table that is made of the answer, are the same to a database then.
    """
    taken: set[str] = set()
    distinct = []
    own = {name.lower() for name in names}
    for name in names:
        number, written = 1, name
        while written.lower() in taken or (number > 1 and written.lower() in own):
            number += 1
            written = f"{name}_{number}"
        taken.add(written.lower())
        distinct.append(written)
    return distinct


def _header(model: Model) -> str:
    words = summary(model)
    lines = [
        f"A classifier, written by {words.pop('producer')}, for DuckDB and PostgreSQL.",
        *(f"{name}: {one_line(text)}" for name, text in words.items()),
    ]
    return "\n".join(f"-- {line}" for line in lines)


# ---- scores


def _scores(query: Query, model: Model) -> list[str]:
    """The score, or of more than two classes one for each; NULL where there is none."""
    encoded: list[Encoded] = []
    if model.schema is not None:
        for name in model.schema.used:
            encoded += encoded_cells(query, name, model.schema.columns[name])
    else:
        fills = zip(model.input_names, model.neutral.tolist(), strict=True)
        encoded = [strict_number(query, name, fill) for name, fill in fills]
    columns = [column for column in model.columns if column.scale != "constant"]
    if model.map is None:
        values = [_scaled_cells(cells, column) for cells, column in zip(encoded, columns, strict=True)]
    else:
        of = dict(zip(model.input_names, encoded, strict=True))
        terms = _terms(query, model.map, of)
        values = [_scaled_term(query, term, column) for term, column in zip(terms, columns, strict=True)]
    thetas, place = np.atleast_2d(model.theta), iter(values)
    used: list[tuple[list[float], tuple[str, tuple[str, ...]]]] = []
    for theta, column in zip(thetas.T, model.columns, strict=True):
        value = ("1e0", ()) if column.scale == "constant" else next(place)
        if theta.any() or column.scale == "constant":
            used.append((theta.tolist(), value))
    if len(thetas) > 1:  # every class uses them
        used = [(weights, _named(query, value)) for weights, value in used]
    used = used or [([0.0] * len(thetas), ("1e0", ()))]
    totals = []
    for k in range(len(thetas)):
        parts: Terms = [(f"{literal(weights[k])} * {text}", own) for weights, (text, own) in used]
        totals.append(query.sum(parts))
    usable = " AND ".join(f"abs({total}) <= {literal(_LARGEST)}" for total in totals)
    return [query.let(choice((usable, total)), *totals) for total in totals]


def _named(query: Query, value: tuple[str, tuple[str, ...]]) -> tuple[str, tuple[str, ...]]:
    """A value by a name of its own, unless it is a constant."""
    text, uses = value
    if not uses:
        return value
    name = query.let(text, *uses)
    return name, (name,)


def _scaled_cells(cells: Encoded, column: Column) -> tuple[str, tuple[str, ...]]:
    """An encoded column, scaled; of 0 and 1 it is known what becomes."""
    if cells.condition:
        return _either(cells.condition, column.apply(np.array([0.0, 1.0])).tolist()), cells.uses
    _, _, *constants = column.constants
    text = clipped(cells.number, column.low, column.high)
    return scaled(text if text == cells.number else f"({text})", *constants), cells.uses


def _scaled_term(query: Query, term: tuple[str, tuple[str, ...]], column: Column) -> tuple[str, tuple[str, ...]]:
    text, uses = term
    _, _, *constants = column.constants
    if column.low is not None or column.high is not None:
        text, uses = _named(query, term)
        text = f"({clipped(text, column.low, column.high)})"
    return scaled(text, *constants), uses


def _either(condition: str, values: list[float]) -> str:
    """The second number where a condition holds, and the first elsewhere."""
    zero, one = values
    return f"CAST({choice((condition, literal(one)), default=literal(zero))} AS float8)"


# ---- feature maps


def _terms(query: Query, feature_map: FeatureMap, encoded: dict[str, Encoded]) -> Terms:
    """The columns that a feature map makes."""
    factors: list[str] = []
    for entry, degree in zip(feature_map.inputs, feature_map.degrees, strict=True):
        factors += _polynomials(query, _input(query, entry, encoded[entry.name]), degree)
    terms = zip(feature_map.factors, feature_map.terms, strict=True)
    return [_product([factors[place] for place in places], float(term.factor)) for places, term in terms]


def _polynomials(query: Query, v: str, degree: int) -> list[str]:
    """The Legendre polynomials of a number, from the first degree on."""
    found = ["1e0", v]
    for k in range(1, degree):
        used = dict.fromkeys((v, *found[max(k - 1, 1) :]))
        text = (
            f"({literal(2.0 * k + 1)} * {v} * {found[k]} - {literal(float(k))} * {found[k - 1]}) / {literal(k + 1.0)}"
        )
        found.append(query.let(text, *used))
    return found[1:]


def _product(factors: list[str], factor: float) -> tuple[str, tuple[str, ...]]:
    """One column that the map makes."""
    parts = [*factors, *([] if factor == 1.0 else [literal(factor)])]
    return parts[0] if len(parts) == 1 else f"({' * '.join(parts)})", tuple(dict.fromkeys(factors))


def _input(query: Query, entry: Input, cells: Encoded) -> str:
    if cells.condition:
        return query.let(_either(cells.condition, entry.apply(np.array([0.0, 1.0])).tolist()), *cells.uses)
    v = query.let(clipped(cells.number, entry.low, entry.high), cells.number)
    v = query.let(scaled(v, entry.shift, entry.factor, entry.divisor, entry.offset), v)
    if entry.log:
        v = query.let(f"sign({v}) * ln(1e0 + abs({v}))", v)
    if entry.limit is not None:
        v = query.let(clipped(v, -entry.limit, entry.limit), v)
    return _level(query, entry.levels, v) if entry.levels else v


def _level(query: Query, levels: tuple[float, ...], v: str) -> str:
    """The line through two neighbours among levels."""
    point = query.let(f"({v} + 1e0) * {literal((len(levels) - 1) / 2)}", v)
    k = query.let(f"floor({clipped(point, 0.0, len(levels) - 2)})", point)
    table = f"ARRAY[{', '.join(f'CAST({literal(float(level))} AS float8)' for level in levels)}]"
    low = query.let(f"({table})[CAST({k} AS integer) + 1]", k)
    high = query.let(f"({table})[CAST({k} AS integer) + 2]", k)
    return query.let(f"{low} + ({point} - {k}) * ({high} - {low})", low, high, point, k)


# ---- classes


def _prediction(model: Model, scores: list[str]) -> str:
    """The class: the first of those that have the largest score."""
    labels = [literal(value) for value in model.classes]
    if len(scores) == 1:
        return choice((f"{scores[0]} > 0", labels[1]), (f"{scores[0]} <= 0", labels[0]))
    cases = [(f"{scores[0]} IS NULL", "NULL")]
    for k, label in enumerate(labels[:-1]):
        cases.append((" AND ".join(f"{scores[k]} >= {other}" for other in scores[k + 1 :]), label))
    return choice(*cases, default=labels[-1])


def _shares(query: Query, model: Model, scores: list[str]) -> list[str]:
    """The probabilities of the classes; no power is too large or too small for float64."""
    if len(scores) == 1:
        odds = _log_odds(query, model, scores[0])
        odds = query.let(clipped(odds, -_FARTHEST, _FARTHEST), odds)
        return [f"1e0 / (1e0 + exp({odds}))", f"1e0 / (1e0 + exp(-{odds}))"]
    # GREATEST leaves out what is missing, but then all of a row's scores are.
    largest = query.let(f"GREATEST({', '.join(scores)})", *scores)
    powers = [
        query.let(choice((f"{score} - {largest} >= {literal(-_FARTHEST)}", f"exp({score} - {largest})"),
                         (f"{score} - {largest} < {literal(-_FARTHEST)}", "0e0")), score, largest)
        for score in scores
    ]  # fmt: skip
    total = query.sum([(power, (power,)) for power in powers])
    return [f"{power} / {total}" for power in powers]


def _log_odds(query: Query, model: Model, score: str) -> str:
    """The log odds of the positive class, by the link or as they are."""
    link = model.link
    if link is None:
        return score
    if link.shifted:
        score = query.let(f"{score} - {literal(link.origin)}", score)
    bent = query.let(f"abs({score} * {literal(float(np.sqrt(link.bend)))})", score)
    length = choice((f"{bent} > 1e9", bent), default=f"sqrt(1e0 + {bent} * {bent})")  # beyond, 1 is below the last bit
    slope = choice((f"{score} > 0", literal(float(link.up))), default=literal(float(link.down)))
    offset = f" + {literal(link.offset)}" if link.shifted else ""
    return query.let(f"{slope} * {score} / {length}{offset}", score, bent)
