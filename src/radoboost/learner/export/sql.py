"""A model as one SELECT, from the raw columns of a table, that DuckDB and PostgreSQL run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.learner.export import (
    INFINITE,
    folds_of_keys,
    one_line_comment,
    places_as_programs_write,
    summary_of_exported_model,
)
from radoboost.learner.model import Model
from radoboost.learner.predict import prediction_column_names
from radoboost.release.columns import Column
from radoboost.release.feature_map import FeatureMap, Input
from radoboost.tables.cells import GAPS
from radoboost.tables.column_selection import list_names
from radoboost.tables.column_types import (
    FIRST,
    GAP,
    LAST,
    PARTS,
    UNITS,
    Category,
    Date,
    Kind,
    Number,
    seconds_of_iso_date,
)
from radoboost.tables.csv_dialect import CsvDialect
from radoboost.tables.labels import LONGEST_LABEL

# ---- Pieces of SQL that DuckDB and PostgreSQL understand alike, and a query that is built of them step by step.

_SUMMED = 64  # terms of one expression: databases limit how deep expressions may be


def sql_literal(value: Any) -> str:
    """A number, truth value or text as SQL has it; numbers are in double precision."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        # With an exponent DuckDB reads a double; without, a decimal, whose conversion is not rounded to nearest.
        text = repr(value) if "e" in repr(value) else f"{value!r}e0"
        return f"({text})" if math.copysign(1.0, value) < 0 else text
    return str(value) if value >= 0 else f"({value})"


def sql_identifier(name: str) -> str:
    """A name of a column or a table, in quotes."""
    return '"' + name.replace('"', '""') + '"'


def sql_case(*cases: tuple[str, str], default: str = "NULL") -> str:
    """The value of the first condition that holds."""
    return f"CASE {' '.join(f'WHEN {condition} THEN {value}' for condition, value in cases)} ELSE {default} END"


def sql_clip(x: str, low: float | None, high: float | None) -> str:
    """The nearest number between bounds; what is missing stays missing, as it would not with LEAST and GREATEST."""
    bounds = ((low, "<"), (high, ">"))
    cases = [
        (f"{x} {sign} {sql_literal(float(bound))}", sql_literal(float(bound)))
        for bound, sign in bounds
        if bound is not None
    ]
    return sql_case(*cases, default=x) if cases else x


def sql_scale(x: str, shift: float, factor: float, divisor: float, offset: float) -> str:
    """The one formula of columns, without the steps that change nothing."""
    text = x if shift == 0 else f"({x} - {sql_literal(float(shift))})"
    text = text if factor == 1 else f"({text} * {sql_literal(float(factor))})"
    text = text if divisor == 1 else f"({text} / {sql_literal(float(divisor))})"
    return text if offset == 0 else f"({text} - {sql_literal(float(offset))})"


@dataclass
class SqlSteps:
    """Columns that are computed of others, in stages: one that uses another stands in a later stage.

    Every stage ends in OFFSET 0, which takes nothing away: without it PostgreSQL would write each expression into
    those that use it, again and again.
    """

    taken: Sequence[str]  # names that the query must leave alone
    expressions: dict[str, str] = field(default_factory=dict)
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    def _free(self, word: str) -> str:
        """The beginning of names that nobody has; databases may take capitals for small letters."""
        while any(name.lower().startswith(word) for name in self.taken):
            word += "_"
        return word

    def let(self, expression: str, *uses: str) -> str:
        """A name for an expression, which uses the columns named so; the first stage uses the table's."""
        name = f"{self._free('x')}{len(self.expressions) + 1}"
        self.expressions[name] = expression
        self.uses[name] = uses
        self.levels[name] = 1 + max((self.levels[use] for use in uses), default=0)
        return name

    def sum(self, terms: Sequence[tuple[str, tuple[str, ...]]]) -> str:
        """The sum of expressions, each with the columns that it uses, added one after another."""
        total: tuple[str, ...] = ()
        for start in range(0, len(terms), _SUMMED):
            some = terms[start : start + _SUMMED]
            uses = tuple(dict.fromkeys([*total, *(use for _, own in some for use in own)]))
            total = (self.let(" + ".join([*total, *(text for text, _ in some)]), *uses),)
        return total[0]

    def text(self, table: str, results: Sequence[tuple[str, str]]) -> str:
        """The whole query; `results` are expressions, or columns, and what they are called."""
        last = max(self.levels.values())
        final = {name for name in self.expressions for text, _ in results if name in _sql_identifiers_in(text)}
        stages, source, stage = [], table, self._free("stage")
        for level in range(1, last + 1):
            later = {use for name in self.uses for use in self.uses[name] if self.levels[name] > level} | final
            kept = [name for name in self.expressions if self.levels[name] < level and name in later]
            made = [f"{self.expressions[name]} AS {name}" for name in self.expressions if self.levels[name] == level]
            columns = [*([", ".join(kept)] if kept else []), *made]
            stages.append(f"{stage}{level} AS (\n{_sql_select_step(columns, source, '  ')}\n  OFFSET 0\n)")
            source = f"{stage}{level}"
        columns = [f"{text} AS {sql_identifier(name)}" for text, name in results]
        return f"WITH {', '.join(stages)}\n{_sql_select_step(columns, source, '')};"


def _sql_select_step(columns: Sequence[str], source: str, indent: str) -> str:
    lines = f",\n{indent}  ".join(columns)
    return f"{indent}SELECT\n{indent}  {lines}\n{indent}FROM {source}"


def _sql_identifiers_in(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


# ---- Raw columns in SQL. Whatever type a column has, its cells are taken as the texts that the database writes them
# as.

_BLANKS = "' ' || chr(9)"
# What str.strip takes away.
_SPACES = " || ".join(
    f"chr({code})"
    for code in (*range(9, 14), *range(28, 33), 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239, 8287, 12288)
)
_LONGEST = 300  # characters of a number
_SMALL = r"(?:[0-9]{1,8}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
# PostgreSQL refuses numbers that float64 does not have, and such a cell would stop the query: so these are patterns of
# numbers that it has, up to the largest. Numbers below 1e-140 count as 0, or their products would be too small for it.
_NUMBER = (
    r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
    rf"|{_SMALL}[eE](?:\+?0*(?:[0-9]{{1,2}}|[12][0-9]{{2}})|-0*(?:[0-9]{{1,2}}|1[0-4][0-9]))"
    r"|[1-9](?:\.[0-9]*)?[eE]\+?30[0-7]|1(?:\.(?:[0-6][0-9]*|7[0-8][0-9]*|7976931348623157)?)?[eE]\+?308)$"
)
_NEARLY_ZERO = rf"^[+-]?{_SMALL}[eE]-0*(?:1[5-9][0-9]|[2-9][0-9]{{2}}|[1-9][0-9]{{3,}})$"
_GROUPS = {"y": "([0-9]{4})", "m": "([0-9]{1,2})", "d": "([0-9]{1,2})"}
# As radoboost.tables.cells reads texts; databases write some zones as hours alone.
_TIME = r"(?:[T ]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)? ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"


@dataclass(frozen=True)
class Encoded:
    """One encoded column: the name of a column of numbers, or a condition where it is 1, and 0 elsewhere."""

    number: str = ""
    condition: str = ""
    uses: tuple[str, ...] = ()


def sql_encoded_cells(query: SqlSteps, name: str, kind: Kind, marks: CsvDialect) -> list[Encoded]:
    """The encoded columns of a raw column, by its kind."""
    if isinstance(kind, Category):
        return _sql_category(query, name, kind, marks)
    assert isinstance(kind, Number | Date)
    cell = sql_trim(query, name)
    parts: list[Encoded] = []
    if isinstance(kind, Date):
        seconds = _sql_seconds(query, cell, kind.order)
        origin = sql_literal(float(seconds_of_iso_date(kind.origin)))
        read = query.let(f"({seconds} - {origin}) / {sql_literal(float(UNITS[kind.unit]))}", seconds)
    else:
        read = query.let(_sql_number_with_marks(cell, name, kind), cell)
    low, high = kind.bounds()
    gaps = [f"{read} = {sql_literal(code)}" for code in kind.codes()]
    if kind.beyond == GAP:
        gaps += [f"{read} < {sql_literal(float(low))}", f"{read} > {sql_literal(float(high))}"]
    if gaps:
        read = query.let(sql_case((" OR ".join(gaps), "NULL"), default=read), read)
    missing = Encoded(condition=f"{read} IS NULL", uses=(read,))
    if isinstance(kind, Date):
        for part in kind.parts:
            place, uses = _sql_date_part(query, seconds, part), (read,)
            parts += [
                Encoded(condition=f"({place} = {k} AND {read} IS NOT NULL)", uses=(place, *uses))
                for k in range(len(PARTS[part]))
            ]
    number = query.let(f"COALESCE({read}, {sql_literal(kind.filled())})", read)
    return [Encoded(number, uses=(number,)), *([missing] if kind.gaps else []), *parts]


def _sql_number_with_marks(cell: str, name: str, kind: Number) -> str:
    """The number in a text, which may be written with the column's own decimal mark."""
    if kind.thousands is not None:
        raise ArgumentError(
            f"column {name!r} has marks between thousands, which SQL does not read; export to Python, or make numbers "
            "of it in the table and leave thousands out of the schema"
        )
    if kind.decimal != ",":
        return sql_number(cell)
    with_point = sql_number(f"replace({cell}, ',', '.')")
    return sql_case((f"{cell} LIKE '%,%' AND {cell} NOT LIKE '%.%'", with_point), default=sql_number(cell))


def sql_strict_number(query: SqlSteps, name: str, neutral: float) -> Encoded:
    """A column of a model without a schema: a gap has the neutral value, what is no finite number gives no score."""
    cell = sql_trim(query, name)
    number = query.let(sql_case((sql_is_gap(cell), sql_literal(neutral)), default=sql_number(cell)), cell)
    return Encoded(number, uses=(number,))


def sql_trim(query: SqlSteps, name: str) -> str:
    """The cells of a column as texts, without blanks around them."""
    return query.let(f"trim(CAST({sql_identifier(name)} AS varchar), {_BLANKS})")


def sql_is_gap(trimmed_text: str) -> str:
    """Where a cell is missing: nothing, or a word for it."""
    return f"({trimmed_text} IS NULL OR {trimmed_text} IN ({', '.join(sql_literal(word) for word in sorted(GAPS))}))"


def sql_number(text: str) -> str:
    """The number in a text, NULL where there is none."""
    return sql_case(
        (f"length({text}) <= {_LONGEST} AND {text} ~ {sql_literal(_NUMBER)}", f"CAST({text} AS float8)"),
        (f"lower({text}) = 'true'", "1e0"),
        (f"lower({text}) = 'false' OR {text} ~ {sql_literal(_NEARLY_ZERO)}", "0e0"),
    )


def _sql_category(query: SqlSteps, name: str, kind: Category, marks: CsvDialect) -> list[Encoded]:
    places = places_as_programs_write(kind, marks)
    cell = query.let(f"CAST({sql_identifier(name)} AS varchar)")
    folds = folds_of_keys(kind)
    capitals, small = ("".join(map(chr, letters)) for letters in (folds, folds.values()))
    folded = f"translate({cell}, {sql_literal(capitals)}, {sql_literal(small)})" if folds else cell
    text = query.let(f"trim({folded}, {_SPACES})", cell)
    uses = [cell, text]
    if not all(isinstance(key, str) for key in places):
        number = query.let(sql_number(text), text)
        uses.append(number)
    other, gap = ("NULL" if slot is None else str(slot) for slot in (kind.slot_of_other, kind.slot_of_gap))
    cases = [(f"length({cell}) > {LONGEST_LABEL}", other)]
    for key, place in places.items():
        same = f"{text} = {sql_literal(key)}" if isinstance(key, str) else f"{number} = {sql_literal(float(key))}"
        if key in INFINITE:
            same = f"lower({text}) IN ({', '.join(map(sql_literal, INFINITE[key]))})"
        cases.append((same, str(place)))
    blank = f"trim({cell}, {_BLANKS})"
    slot = query.let(sql_case(*cases, (sql_is_gap(blank), gap), default=other), *uses)
    return [Encoded(condition=f"{slot} = {k}", uses=(slot,)) for k in range(len(list(kind.encoded(name))))]


# ---- dates


def _sql_seconds(query: SqlSteps, cell: str, order: str) -> str:
    """Seconds since 1970, NULL where there is no date that can be read."""
    orders = [order] if order == "ymd" else [order, "ymd"]
    cases = []
    for own in orders:
        pattern = sql_literal(f"^{'[-./ ]'.join(_GROUPS[letter] for letter in own)}{_TIME}$")
        groups = [*(own.index(letter) + 1 for letter in "ymd"), 4, 5, 6, 7]
        parts = "|".join(f"\\{group}" for group in groups)
        cases.append((f"{cell} ~ {pattern}", f"regexp_replace({cell}, {pattern}, '{parts}')"))
    split = query.let(sql_case(*cases), cell)
    year, month, day, hour, minute, second = (
        query.let(f"CAST('0' || split_part({split}, '|', {k}) AS float8)", split) for k in range(1, 7)
    )
    zone = query.let(f"split_part({split}, '|', 7)", split)
    count = query.let(_sql_days(year, month, day), year, month, day)
    sign = sql_case((f"{zone} LIKE '-%'", "-1e0"), default="1e0")
    hours = f"CAST(substr({zone}, 2, 2) AS float8) * 3600e0"
    minutes = f"CAST('0' || substr(replace({zone}, ':', ''), 4, 2) AS float8) * 60e0"
    size = sql_case((f"{zone} ~ '^[+-].*$'", f"{hours} + {minutes}"), default="0e0")
    ahead = query.let(f"{sign} * {size}", zone)
    clock = f"{hour} < 24 AND {minute} < 60 AND {second} < 60"
    moment = query.let(
        sql_case((clock, f"{count} * 86400e0 + {hour} * 3600e0 + {minute} * 60e0 + {second} - {ahead}")),
        count, hour, minute, second, ahead,
    )  # fmt: skip
    return query.let(sql_case((f"{moment} >= {FIRST} AND {moment} <= {LAST}", moment)), moment)


def _sql_days(year: str, month: str, day: str) -> str:
    """Days since 1970 of a date of the calendar, NULL where there is no such day."""
    leap = f"({_sql_remainder(year, 4)} = 0 AND {_sql_remainder(year, 100)} <> 0 OR {_sql_remainder(year, 400)} = 0)"
    longest = sql_case(
        (f"{month} = 2 AND {leap}", "29"), (f"{month} = 2", "28"), (f"{month} IN (4, 6, 9, 11)", "30"), default="31"
    )
    # Years and months from March on, so that the day that leap years have is the last one.
    years = f"({year} - {sql_case((f'{month} <= 2', '1'), default='0')})"
    months = f"({month} + {sql_case((f'{month} <= 2', '9'), default='-3')})"
    count = (
        f"{years} * 365e0 + floor({years} / 4e0) - floor({years} / 100e0) + floor({years} / 400e0)"
        f" + floor(({months} * 153e0 + 2e0) / 5e0) + {day} - 719469e0"
    )
    valid = f"{year} >= 1 AND {month} >= 1 AND {month} <= 12 AND {day} >= 1 AND {day} <= {longest}"
    return sql_case((valid, count))


def _sql_remainder(x: str, by: int) -> str:
    """What is left of a whole number, divided."""
    return f"({x} - floor({x} / {by}e0) * {by}e0)"


def _sql_date_part(query: SqlSteps, seconds: str, part: str) -> str:
    """The weekday, from 0 for Monday, or the month, from 0 for January; NULL where there is no date."""
    days = query.let(f"floor({seconds} / 86400e0)", seconds)
    if part == "weekday":
        return query.let(_sql_remainder(f"({days} + 3e0)", 7), days)
    # Days since the first of March of a year that 400 divides, then the year within these 400, then the month.
    day = query.let(_sql_remainder(f"({days} + 719468e0)", 146097), days)
    leaps = f"floor({day} / 1460e0) - floor({day} / 36524e0) + floor({day} / 146096e0)"
    year = query.let(f"floor(({day} - ({leaps})) / 365e0)", day)
    of_year = query.let(f"{day} - ({year} * 365e0 + floor({year} / 4e0) - floor({year} / 100e0))", day, year)
    return query.let(_sql_remainder(f"(floor(({of_year} * 5e0 + 2e0) / 153e0) + 2e0)", 12), of_year)


_LARGEST = 1.7976931348623157e308
_FARTHEST = 700.0  # log odds: beyond, a probability is 0 or 1 but for less than 1e-300
Terms = list[tuple[str, tuple[str, ...]]]  # expressions, each with the columns that it uses


def sql_query_of_model(model: Model, table: str = "input", keep: Sequence[str] = ()) -> str:
    """The query: the columns to keep, and those that `rado predict` writes.

    A dot in `table` stands between a schema and a table. What is predicted is NULL where a row has no score.
    """
    query = SqlSteps([*model.feature_names, *keep, *table.split(".")])
    written = _distinct_sql_names(prediction_column_names(model))
    if wrong := [name for name in dict.fromkeys(keep) if name in written or list(keep).count(name) > 1]:
        raise ArgumentError(f"cannot keep {list_names(wrong)}: the result has a column of that name already")
    results = [(query.let(sql_identifier(name)), name) for name in keep]
    scores = _sql_scores(query, model)
    prediction, shares = _sql_predicted_class(model, scores), _sql_probabilities(query, model, scores)
    answers = [prediction, *shares] if len(scores) > 1 else [scores[0], shares[1], prediction]
    results += zip(answers, written, strict=True)
    place = ".".join(sql_identifier(part) for part in table.split("."))
    return f"{_sql_header(model)}\n{query.text(place, results)}\n"


def _distinct_sql_names(names: Sequence[str]) -> list[str]:
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


def _sql_header(model: Model) -> str:
    words = summary_of_exported_model(model)
    lines = [
        f"A classifier, written by {words.pop('producer')}, for DuckDB and PostgreSQL.",
        *(f"{name}: {one_line_comment(text)}" for name, text in words.items()),
    ]
    return "\n".join(f"-- {line}" for line in lines)


# ---- scores


def _sql_scores(query: SqlSteps, model: Model) -> list[str]:
    """The score, or of more than two classes one for each; NULL where there is none."""
    encoded: list[Encoded] = []
    if model.schema is not None:
        for name in model.schema.used:
            encoded += sql_encoded_cells(query, name, model.reading_kinds[name], model.schema.marks)
    else:
        fills = zip(model.input_names, model.neutral.tolist(), strict=True)
        encoded = [sql_strict_number(query, name, fill) for name, fill in fills]
    columns = [column for column in model.columns if column.scale != "constant"]
    if model.map is None:
        values = [_sql_scaled_cells(cells, column) for cells, column in zip(encoded, columns, strict=True)]
    else:
        of = dict(zip(model.input_names, encoded, strict=True))
        terms = _sql_map_terms(query, model.map, of)
        values = [_sql_scaled_term(query, term, column) for term, column in zip(terms, columns, strict=True)]
    thetas, place = np.atleast_2d(model.theta), iter(values)
    used: list[tuple[list[float], tuple[str, tuple[str, ...]]]] = []
    for theta, column in zip(thetas.T, model.columns, strict=True):
        value = ("1e0", ()) if column.scale == "constant" else next(place)
        if theta.any() or column.scale == "constant":
            used.append((theta.tolist(), value))
    if len(thetas) > 1:  # every class uses them
        used = [(weights, _name_sql_value(query, value)) for weights, value in used]
    used = used or [([0.0] * len(thetas), ("1e0", ()))]
    totals = []
    for k in range(len(thetas)):
        parts: Terms = [(f"{sql_literal(weights[k])} * {text}", own) for weights, (text, own) in used]
        totals.append(query.sum(parts))
    usable = " AND ".join(f"abs({total}) <= {sql_literal(_LARGEST)}" for total in totals)
    return [query.let(sql_case((usable, total)), *totals) for total in totals]


def _name_sql_value(query: SqlSteps, value: tuple[str, tuple[str, ...]]) -> tuple[str, tuple[str, ...]]:
    """A value by a name of its own, unless it is a constant."""
    text, uses = value
    if not uses:
        return value
    name = query.let(text, *uses)
    return name, (name,)


def _sql_scaled_cells(cells: Encoded, column: Column) -> tuple[str, tuple[str, ...]]:
    """An encoded column, scaled; of 0 and 1 it is known what becomes."""
    if cells.condition:
        return _sql_either(cells.condition, column.apply(np.array([0.0, 1.0])).tolist()), cells.uses
    _, _, *constants = column.constants
    text = sql_clip(cells.number, column.low, column.high)
    return sql_scale(text if text == cells.number else f"({text})", *constants), cells.uses


def _sql_scaled_term(query: SqlSteps, term: tuple[str, tuple[str, ...]], column: Column) -> tuple[str, tuple[str, ...]]:
    text, uses = term
    _, _, *constants = column.constants
    if column.low is not None or column.high is not None:
        text, uses = _name_sql_value(query, term)
        text = f"({sql_clip(text, column.low, column.high)})"
    return sql_scale(text, *constants), uses


def _sql_either(condition: str, values: list[float]) -> str:
    """The second number where a condition holds, and the first elsewhere."""
    zero, one = values
    return f"CAST({sql_case((condition, sql_literal(one)), default=sql_literal(zero))} AS float8)"


# ---- feature maps


def _sql_map_terms(query: SqlSteps, feature_map: FeatureMap, encoded: dict[str, Encoded]) -> Terms:
    """The columns that a feature map makes."""
    factors: list[str] = []
    for entry, degree in zip(feature_map.inputs, feature_map.degrees, strict=True):
        factors += _sql_polynomials(query, _sql_map_input(query, entry, encoded[entry.name]), degree)
    terms = zip(feature_map.factors, feature_map.terms, strict=True)
    return [_sql_product([factors[place] for place in places], float(term.factor)) for places, term in terms]


def _sql_polynomials(query: SqlSteps, v: str, degree: int) -> list[str]:
    """The Legendre polynomials of a number, from the first degree on."""
    found = ["1e0", v]
    for k in range(1, degree):
        used = dict.fromkeys((v, *found[max(k - 1, 1) :]))
        twice, times, by = (sql_literal(number) for number in (2.0 * k + 1, float(k), k + 1.0))
        text = f"({twice} * {v} * {found[k]} - {times} * {found[k - 1]}) / {by}"
        found.append(query.let(text, *used))
    return found[1:]


def _sql_product(factors: list[str], factor: float) -> tuple[str, tuple[str, ...]]:
    """One column that the map makes."""
    parts = [*factors, *([] if factor == 1.0 else [sql_literal(factor)])]
    return parts[0] if len(parts) == 1 else f"({' * '.join(parts)})", tuple(dict.fromkeys(factors))


def _sql_map_input(query: SqlSteps, entry: Input, cells: Encoded) -> str:
    if cells.condition:
        return query.let(_sql_either(cells.condition, entry.apply(np.array([0.0, 1.0])).tolist()), *cells.uses)
    v = query.let(sql_clip(cells.number, entry.low, entry.high), cells.number)
    v = query.let(sql_scale(v, entry.shift, entry.factor, entry.divisor, entry.offset), v)
    if entry.log:
        v = query.let(f"sign({v}) * ln(1e0 + abs({v}))", v)
    if entry.limit is not None:
        v = query.let(sql_clip(v, -entry.limit, entry.limit), v)
    return _sql_level(query, entry.levels, v) if entry.levels else v


def _sql_level(query: SqlSteps, levels: tuple[float, ...], v: str) -> str:
    """The line through two neighbours among levels."""
    point = query.let(f"({v} + 1e0) * {sql_literal((len(levels) - 1) / 2)}", v)
    k = query.let(f"floor({sql_clip(point, 0.0, len(levels) - 2)})", point)
    table = f"ARRAY[{', '.join(f'CAST({sql_literal(float(level))} AS float8)' for level in levels)}]"
    low = query.let(f"({table})[CAST({k} AS integer) + 1]", k)
    high = query.let(f"({table})[CAST({k} AS integer) + 2]", k)
    return query.let(f"{low} + ({point} - {k}) * ({high} - {low})", low, high, point, k)


# ---- classes


def _sql_predicted_class(model: Model, scores: list[str]) -> str:
    """The class: the first of those that have the largest score."""
    labels = [sql_literal(value) for value in model.classes]
    if len(scores) == 1:
        return sql_case((f"{scores[0]} > 0", labels[1]), (f"{scores[0]} <= 0", labels[0]))
    cases = [(f"{scores[0]} IS NULL", "NULL")]
    for k, label in enumerate(labels[:-1]):
        cases.append((" AND ".join(f"{scores[k]} >= {other}" for other in scores[k + 1 :]), label))
    return sql_case(*cases, default=labels[-1])


def _sql_probabilities(query: SqlSteps, model: Model, scores: list[str]) -> list[str]:
    """The probabilities of the classes; no power is too large or too small for float64."""
    if len(scores) == 1:
        odds = _sql_log_odds(query, model, scores[0])
        odds = query.let(sql_clip(odds, -_FARTHEST, _FARTHEST), odds)
        return [f"1e0 / (1e0 + exp({odds}))", f"1e0 / (1e0 + exp(-{odds}))"]
    # GREATEST leaves out what is missing, but then all of a row's scores are.
    largest = query.let(f"GREATEST({', '.join(scores)})", *scores)
    powers = [
        query.let(sql_case((f"{score} - {largest} >= {sql_literal(-_FARTHEST)}", f"exp({score} - {largest})"),
                         (f"{score} - {largest} < {sql_literal(-_FARTHEST)}", "0e0")), score, largest)
        for score in scores
    ]  # fmt: skip
    total = query.sum([(power, (power,)) for power in powers])
    return [f"{power} / {total}" for power in powers]


def _sql_log_odds(query: SqlSteps, model: Model, score: str) -> str:
    """The log odds of the positive class, by the link or as they are."""
    link = model.link
    if link is None:
        return score
    if link.shifted:
        score = query.let(f"{score} - {sql_literal(link.origin)}", score)
    bent = query.let(f"abs({score} * {sql_literal(float(np.sqrt(link.bend)))})", score)
    length = sql_case(
        (f"{bent} > 1e9", bent), default=f"sqrt(1e0 + {bent} * {bent})"
    )  # beyond, 1 is below the last bit
    slope = sql_case((f"{score} > 0", sql_literal(float(link.up))), default=sql_literal(float(link.down)))
    offset = f" + {sql_literal(link.offset)}" if link.shifted else ""
    return query.let(f"{slope} * {score} / {length}{offset}", score, bent)
