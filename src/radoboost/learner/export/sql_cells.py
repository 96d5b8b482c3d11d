"""Raw columns in SQL. Whatever type a column has, its cells are taken as the texts that the database writes them as."""

from dataclasses import dataclass

from radoboost.learner.export.sql_text import Query, choice, identifier, literal
from radoboost.tables.cells import GAPS
from radoboost.tables.dates import FIRST, LAST
from radoboost.tables.kinds import PARTS, UNITS, Category, Date, Kind, Number, seconds_of
from radoboost.tables.labels import LONGEST_LABEL, class_key

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
# As radoboost.tables.dates reads texts; databases write some zones as hours alone.
_TIME = r"(?:[T ]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)? ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"


@dataclass(frozen=True)
class Encoded:
    """One encoded column: the name of a column of numbers, or a condition where it is 1, and 0 elsewhere."""

    number: str = ""
    condition: str = ""
    uses: tuple[str, ...] = ()


def encoded_cells(query: Query, name: str, kind: Kind) -> list[Encoded]:
    """The encoded columns of a raw column, by its kind."""
    if isinstance(kind, Category):
        return _category(query, name, kind)
    assert isinstance(kind, Number | Date)
    cell = trimmed(query, name)
    parts: list[Encoded] = []
    if isinstance(kind, Date):
        seconds = _seconds(query, cell, kind.order)
        since = f"({seconds} - {literal(float(seconds_of(kind.origin)))}) / {literal(float(UNITS[kind.unit]))}"
        missing, found = f"{seconds} IS NULL", choice((f"{seconds} IS NULL", literal(kind.filled())), default=since)
        number, uses = query.let(found, seconds), (seconds,)
        for part in kind.parts:
            place = _date_part(query, seconds, part)
            parts += [Encoded(condition=f"{place} = {k}", uses=(place,)) for k in range(len(PARTS[part]))]
    else:
        read = query.let(number_of(cell), cell)
        number, uses = query.let(f"COALESCE({read}, {literal(kind.filled())})", read), (read,)
        missing = f"{read} IS NULL"
    gaps = [Encoded(condition=missing, uses=uses)] if kind.gaps else []
    return [Encoded(number, uses=(number,)), *gaps, *parts]


def strict_number(query: Query, name: str, neutral: float) -> Encoded:
    """A column of a model without a schema: a gap has the neutral value, what is no finite number gives no score."""
    cell = trimmed(query, name)
    number = query.let(choice((is_gap(cell), literal(neutral)), default=number_of(cell)), cell)
    return Encoded(number, uses=(number,))


def trimmed(query: Query, name: str) -> str:
    """The cells of a column as texts, without blanks around them."""
    return query.let(f"trim(CAST({identifier(name)} AS varchar), {_BLANKS})")


def is_gap(trimmed_text: str) -> str:
    """Where a cell is missing: nothing, or a word for it."""
    return f"({trimmed_text} IS NULL OR {trimmed_text} IN ({', '.join(literal(word) for word in sorted(GAPS))}))"


def number_of(text: str) -> str:
    """The number in a text, NULL where there is none."""
    return choice(
        (f"length({text}) <= {_LONGEST} AND {text} ~ {literal(_NUMBER)}", f"CAST({text} AS float8)"),
        (f"lower({text}) = 'true'", "1e0"),
        (f"lower({text}) = 'false' OR {text} ~ {literal(_NEARLY_ZERO)}", "0e0"),
    )


def _category(query: Query, name: str, kind: Category) -> list[Encoded]:
    keys = [class_key(value) for value in kind.values or ()]
    cell = query.let(f"CAST({identifier(name)} AS varchar)")
    text = query.let(f"trim({cell}, {_SPACES})", cell)
    uses = [cell, text]
    if not all(isinstance(key, str) for key in keys):
        number = query.let(number_of(text), text)
        uses.append(number)
    cases = [(f"length({cell}) > {LONGEST_LABEL}", "-1")]
    for k, key in enumerate(keys):
        cases.append(
            (f"{text} = {literal(key)}" if isinstance(key, str) else f"{number} = {literal(float(key))}", str(k))
        )
    blank = f"trim({cell}, {_BLANKS})"
    place = query.let(choice(*cases, (is_gap(blank), str(len(keys))), default="-1"), *uses)
    wanted = [*range(len(keys)), *([-1] if kind.other else []), *([len(keys)] if kind.gaps else [])]
    return [Encoded(condition=f"{place} = {slot}", uses=(place,)) for slot in wanted]


# ---- dates


def _seconds(query: Query, cell: str, order: str) -> str:
    """Seconds since 1970, NULL where there is no date that can be read."""
    orders = [order] if order == "ymd" else [order, "ymd"]
    cases = []
    for own in orders:
        pattern = literal(f"^{'[-./ ]'.join(_GROUPS[letter] for letter in own)}{_TIME}$")
        groups = [*(own.index(letter) + 1 for letter in "ymd"), 4, 5, 6, 7]
        parts = "|".join(f"\\{group}" for group in groups)
        cases.append((f"{cell} ~ {pattern}", f"regexp_replace({cell}, {pattern}, '{parts}')"))
    split = query.let(choice(*cases), cell)
    year, month, day, hour, minute, second = (
        query.let(f"CAST('0' || split_part({split}, '|', {k}) AS float8)", split) for k in range(1, 7)
    )
    zone = query.let(f"split_part({split}, '|', 7)", split)
    count = query.let(_days(year, month, day), year, month, day)
    sign = choice((f"{zone} LIKE '-%'", "-1e0"), default="1e0")
    hours = f"CAST(substr({zone}, 2, 2) AS float8) * 3600e0"
    minutes = f"CAST('0' || substr(replace({zone}, ':', ''), 4, 2) AS float8) * 60e0"
    size = choice((f"{zone} ~ '^[+-].*$'", f"{hours} + {minutes}"), default="0e0")
    ahead = query.let(f"{sign} * {size}", zone)
    clock = f"{hour} < 24 AND {minute} < 60 AND {second} < 60"
    moment = query.let(
        choice((clock, f"{count} * 86400e0 + {hour} * 3600e0 + {minute} * 60e0 + {second} - {ahead}")),
        count, hour, minute, second, ahead,
    )  # fmt: skip
    return query.let(choice((f"{moment} >= {FIRST} AND {moment} <= {LAST}", moment)), moment)


def _days(year: str, month: str, day: str) -> str:
    """Days since 1970 of a date of the calendar, NULL where there is no such day."""
    leap = f"({_rest(year, 4)} = 0 AND {_rest(year, 100)} <> 0 OR {_rest(year, 400)} = 0)"
    longest = choice(
        (f"{month} = 2 AND {leap}", "29"), (f"{month} = 2", "28"), (f"{month} IN (4, 6, 9, 11)", "30"), default="31"
    )
    # Years and months from March on, so that the day that leap years have is the last one.
    years = f"({year} - {choice((f'{month} <= 2', '1'), default='0')})"
    months = f"({month} + {choice((f'{month} <= 2', '9'), default='-3')})"
    count = (
        f"{years} * 365e0 + floor({years} / 4e0) - floor({years} / 100e0) + floor({years} / 400e0)"
        f" + floor(({months} * 153e0 + 2e0) / 5e0) + {day} - 719469e0"
    )
    valid = f"{year} >= 1 AND {month} >= 1 AND {month} <= 12 AND {day} >= 1 AND {day} <= {longest}"
    return choice((valid, count))


def _rest(x: str, by: int) -> str:
    """What is left of a whole number, divided."""
    return f"({x} - floor({x} / {by}e0) * {by}e0)"


def _date_part(query: Query, seconds: str, part: str) -> str:
    """The weekday, from 0 for Monday, or the month, from 0 for January; NULL where there is no date."""
    days = query.let(f"floor({seconds} / 86400e0)", seconds)
    if part == "weekday":
        return query.let(_rest(f"({days} + 3e0)", 7), days)
    # Days since the first of March of a year that 400 divides, then the year within these 400, then the month.
    day = query.let(_rest(f"({days} + 719468e0)", 146097), days)
    leaps = f"floor({day} / 1460e0) - floor({day} / 36524e0) + floor({day} / 146096e0)"
    year = query.let(f"floor(({day} - ({leaps})) / 365e0)", day)
    of_year = query.let(f"{day} - ({year} * 365e0 + floor({year} / 4e0) - floor({year} / 100e0))", day, year)
    return query.let(_rest(f"(floor(({of_year} * 5e0 + 2e0) / 153e0) + 2e0)", 12), of_year)
