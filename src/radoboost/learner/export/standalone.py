"""What an exported Python file does: this module's text, with a model in place of `MODEL`, is the whole file.

Nothing but Python's own library may be imported here, and every step is that of the package, in the same order.
"""

import csv
import math
import re
import sys
from datetime import date, datetime, timedelta
from functools import cache
from itertools import chain
from typing import Any

MODEL: dict[str, Any] = {}

# ---- cells: what stands in a raw column, as numbers

GAPS = frozenset(MODEL.get("gap_words", ()))
DATES = {"y": "(?P<year>[0-9]{4})", "m": "(?P<month>[0-9]{1,2})", "d": "(?P<day>[0-9]{1,2})"}
TIME = (
    "(?:[T ]+(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,][0-9]+)?)?"
    " ?(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
)
EPOCH = datetime(1970, 1, 1)
LONGEST = 1024  # characters: a longer text is no value of a category


@cache
def number_pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """What a number looks like in a text."""
    whole = "[0-9]+" if thousands is None else f"(?:[0-9]+|[0-9]{{1,3}}(?:{re.escape(thousands)}[0-9]{{3}})+)"
    point = re.escape(decimal)
    return re.compile(rf"[ \t]*[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*")


PLAIN = number_pattern(".", None)
INFINITE = re.compile("[+-]?inf(?:inity)?", re.IGNORECASE)


def plain(cell: Any) -> Any:
    """A cell as Python has it: bytes as text, numbers of NumPy as numbers, None where nothing is there."""
    if isinstance(cell, bytes):
        cell = cell.decode(errors="surrogateescape")
    elif not isinstance(cell, str | int | float | date) and hasattr(cell, "item"):
        cell = cell.item()
    try:
        return None if cell is None or bool(cell != cell) else cell
    except (TypeError, ValueError):  # the missing value of pandas is neither equal nor unequal
        return None


def is_gap(cell: Any) -> bool:
    """Whether a cell is missing: nothing, NaN, or a word for it."""
    return cell is None or (isinstance(cell, str) and cell.strip(" \t") in GAPS)


def without_marks(text: str, decimal: str, thousands: str | None) -> str:
    """A number in a text as programs write it; any other text as it is."""
    if not number_pattern(decimal, thousands).fullmatch(text):
        return text
    return (text.replace(thousands, "") if thousands else text).replace(decimal, ".")


def number(cell: Any, decimal: str = ".", thousands: str | None = None, typed: bool = True) -> float:
    """The number that a cell is, NaN where it is none; a text that is not `typed` is a cell of a CSV file."""
    if not isinstance(cell, str):
        try:
            return float(cell)
        except (TypeError, ValueError, OverflowError):
            return math.nan
    word = cell.strip(" \t").lower()
    if word in ("true", "false"):
        return float(word == "true")
    if number_pattern(decimal, thousands).fullmatch(cell):
        return float(without_marks(cell, decimal, thousands))
    return float(cell) if typed and PLAIN.fullmatch(cell) else math.nan


def value(cell: Any, decimal: str, thousands: str | None) -> Any:
    """What a value of a category is compared by: "1", " 1.0" and 1 are one value, and so are "true" and True."""
    if isinstance(cell, str):
        cell = without_marks(cell.strip(), decimal, thousands)
        if cell.lower() in ("true", "false"):
            return cell.lower() == "true"
        if not PLAIN.fullmatch(cell) and not INFINITE.fullmatch(cell):
            return cell
    try:
        cell = float(cell)
    except OverflowError:  # a whole number beyond any float
        cell = math.inf if cell > 0 else -math.inf
    except (TypeError, ValueError):
        return cell
    return repr(cell) if math.isinf(cell) else cell


def slot(cell: Any, column: dict[str, Any]) -> int | None:
    """The slot of a category that a cell sets, if any."""
    other: int | None = column["other"]
    if isinstance(cell, str) and len(cell) > LONGEST:
        return other
    text = cell.translate(column["folds"]) if isinstance(cell, str) else cell
    key = value(text, column["decimal"], column["thousands"])
    return next((k for known, k in column["values"] if known == key), column["gap"] if is_gap(cell) else other)


def seconds(cell: Any, order: str) -> int | None:
    """The seconds from 1970 to a date; None where there is none that can be read."""
    if isinstance(cell, datetime):
        ahead = cell.utcoffset() or timedelta(0)
        return (cell.replace(microsecond=0, tzinfo=None) - EPOCH - ahead) // timedelta(seconds=1)
    if isinstance(cell, date):
        return (cell.toordinal() - EPOCH.toordinal()) * 86400
    if not isinstance(cell, str):
        return None
    found = text_seconds(cell, order)
    return text_seconds(cell, "ymd") if found is None else found


def text_seconds(text: str, order: str) -> int | None:
    """The seconds to a date in a text, with year, month and day in this order."""
    match = re.fullmatch(rf"[ \t]*{'[-./ ]'.join(DATES[part] for part in order)}{TIME}[ \t]*", text)
    if match is None:
        return None
    parts = {name: int(digits or 0) for name, digits in match.groupdict().items() if name != "zone"}
    if max(parts["minute"], parts["second"]) > 59 or parts["hour"] > 23:
        return None
    try:
        days = date(parts["year"], parts["month"], parts["day"]).toordinal() - EPOCH.toordinal()
    except ValueError:
        return None
    zone = re.fullmatch("([+-])([0-9]{2}):?([0-9]{2})", match["zone"] or "")
    ahead = 0 if zone is None else int(zone[1] + "1") * (int(zone[2]) * 3600 + int(zone[3]) * 60)
    moment = days * 86400 + parts["hour"] * 3600 + parts["minute"] * 60 + parts["second"] - ahead
    return moment if -62_135_596_800 <= moment <= 253_402_300_799 else None


def slots(count: int, chosen: int | None) -> list[float]:
    """Columns of 0 and 1, of which at most one is 1."""
    return [float(k == chosen) for k in range(count)]


def encoded(column: dict[str, Any], cell: Any, typed: bool) -> list[float]:
    """The numbers that a cell of a raw column becomes."""
    if column["kind"] == "category":
        return slots(column["slots"], slot(cell, column))
    moment = None
    if column["kind"] == "date":
        moment = seconds(cell, column["order"])
        found = math.nan if moment is None else (moment - column["origin"]) / column["unit"]
    else:
        found = number(cell, column["decimal"], column["thousands"], typed)
        if column.get("strict") and not math.isfinite(found) and not is_gap(cell):
            raise ValueError(f"column {column['name']!r} has {str(cell)[:60]!r}, which is no finite number")
    low, high = column["within"]
    missing = not math.isfinite(found) or found in column["codes"] or not low <= found <= high
    parts: list[float] = []
    for part, count in column.get("parts", ()):
        days = None if missing or moment is None else moment // 86400
        if days is not None:
            days = (days + 3) % 7 if part == "weekday" else date.fromordinal(days + EPOCH.toordinal()).month - 1
        parts += slots(count, days)
    return [column["fill"] if missing else found, *([float(missing)] if column["gaps"] else []), *parts]


# ---- from numbers to scores


def clip(v: float, low: float | None, high: float | None) -> float:
    """The nearest number between two bounds, of which either may be None."""
    v = low if low is not None and v < low else v
    return high if high is not None and v > high else v


def scaled(
    v: float, low: float | None, high: float | None, shift: float, factor: float, divisor: float, offset: float
) -> float:
    """A number within its bounds, scaled."""
    return ((clip(v, low, high) - shift) * factor) / divisor - offset


def mapped_input(entry: dict[str, Any], v: float) -> float:
    """One number as the terms of the feature map take it."""
    v = scaled(v, *entry["scale"])
    if entry.get("log"):
        v = math.copysign(math.log1p(abs(v)), v)
    if "limit" in entry:
        v = clip(v, -entry["limit"], entry["limit"])
    if "levels" in entry:
        levels = entry["levels"]
        point = (v + 1.0) * ((len(levels) - 1) / 2)
        k = min(int(max(point, 0.0)), len(levels) - 2)
        v = levels[k] + (point - k) * (levels[k + 1] - levels[k])
    return v


def polynomials(v: float, degree: int) -> list[float]:
    """The Legendre polynomials of a number, from the first degree on."""
    found = [1.0, v]
    for k in range(1, degree):
        found.append((((2 * k + 1) * v) * found[k] - k * found[k - 1]) / (k + 1))
    return found[1:]


def product(places: list[int], factor: float, factors: list[float]) -> float:
    """One column that the feature map makes: a product, in this order, times a factor."""
    total = factors[places[0]]
    for place in places[1:]:
        total *= factors[place]
    return total * factor


def numbers(row: dict[str, Any], typed: bool) -> list[float]:
    """The numbers of a raw row that weights are for, not scaled yet."""
    raw: list[float] = []
    for column in MODEL["raw_columns"]:
        if column["name"] not in row:
            raise ValueError(f"the row has no column {column['name']!r}")
        raw += encoded(column, plain(row[column["name"]]), typed)
    if not MODEL["terms"]:
        return raw
    factors: list[float] = []
    for entry in MODEL["inputs"]:
        factors += polynomials(mapped_input(entry, raw[entry["of"]]), entry.get("degree", 1))
    return [product(places, factor, factors) for places, factor in MODEL["terms"]]


def scores(row: dict[str, Any], typed: bool = True) -> list[float]:
    """One score for two classes (above 0 is the second class), or one for each of more."""
    known = numbers(row, typed)
    totals = [0.0] * len(MODEL["columns"][0]["weights"])
    for column in MODEL["columns"]:
        v = scaled(known[column["of"]], *column["scale"]) if "of" in column else 1.0
        totals = [total + weight * v for total, weight in zip(totals, column["weights"], strict=True)]
    if not all(map(math.isfinite, totals)):
        raise ValueError("the row has values too large for a score; check its units")
    return totals


# ---- from scores to classes


def shares(totals: list[float]) -> list[float]:
    """The probabilities of the classes, given scores."""
    if len(totals) > 1:
        powers = [math.exp(total - max(totals)) for total in totals]
        return [power / sum(powers) for power in powers]
    odds = totals[0]
    if MODEL["link"] is not None:
        up, down, root, origin, offset = MODEL["link"]
        odds -= origin
        odds = (up if odds > 0 else down) * odds / math.hypot(1.0, root * odds) + offset
    low = math.exp(-abs(odds))
    return [low / (1.0 + low), 1.0 / (1.0 + low)] if odds > 0 else [1.0 / (1.0 + low), low / (1.0 + low)]


def chosen(totals: list[float]) -> Any:
    """The class, given scores: the first of those that have the largest."""
    return MODEL["classes"][totals.index(max(totals)) if len(totals) > 1 else int(totals[0] > 0)]


def probabilities(row: dict[str, Any]) -> dict[Any, float]:
    """The probability of each class for a row, a dict from the names of raw columns to cells."""
    return dict(zip(MODEL["classes"], shares(scores(row)), strict=True))


def predict(row: dict[str, Any]) -> Any:
    """The class of a row, a dict from the names of raw columns to cells."""
    return chosen(scores(row))


# ---- CSV


def separator(header: str) -> str:
    """What separates the names in a header line: what was declared, or the most frequent mark outside quotes."""
    outside = "".join(header.split('"')[::2])
    return MODEL.get("separator") or max(",;\t|", key=outside.count)


def predict_file(lines: Any, output: Any) -> None:
    """Read a CSV file with a header, and write for each of its rows what rado predict writes."""
    csv.field_size_limit(sys.maxsize)
    header = next((line for line in lines if line.strip("\r\n")), "")
    rows = csv.reader(chain([header], lines), delimiter=separator(header))
    names = next(rows, [])
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(MODEL["written"])
    for count, cells in enumerate((cells for cells in rows if cells), 1):
        try:
            if len(cells) != len(names):
                raise ValueError(f"it has {len(cells)} cells, and the header {len(names)}")
            totals = scores(dict(zip(names, cells, strict=True)), typed=False)
        except ValueError as error:
            raise ValueError(f"row {count:,}: {error}") from None
        label = str(chosen(totals)).lower() if isinstance(chosen(totals), bool) else chosen(totals)
        own = [repr(share) for share in shares(totals)]
        writer.writerow([label, *own] if len(totals) > 1 else [repr(totals[0]), own[1], label])


def main(arguments: list[str]) -> int:
    """Predict a CSV file, or standard input, onto standard output."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(f"usage: {sys.argv[0]} [TABLE.csv] > predictions.csv", file=sys.stderr)
        return 2
    try:
        if arguments in ([], ["-"]):
            sys.stdin.reconfigure(encoding="utf-8-sig", newline="")  # type: ignore[union-attr]
            predict_file(sys.stdin, sys.stdout)
        else:
            with open(arguments[0], encoding="utf-8-sig", newline="") as lines:
                predict_file(lines, sys.stdout)
    except (OSError, ValueError, csv.Error) as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
