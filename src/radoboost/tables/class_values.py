"""What classes are called: one value for all spellings of a class, and texts where values would not do.

Labels are compared by their canonical value: the cells 1, 1.0 and "1" are of one class. A class is called by that value
too, where all classes of a table are numbers, or all are truth values. Where they are not, as in 1, 2, 3, 3E, and where
a number is a code, such as 007, the classes are called by their texts, if all of them come from texts.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unicodedata import ucd_3_2_0

import numpy as np

from radoboost.errors import ArgumentError, RadoError, TableError, whole_number
from radoboost.tables.csv_dialect import PLAIN, CsvDialect

_WHOLE = re.compile(r"[+-]?[0-9]+")
# No two parts can match the same digits: a pattern that could try both would take quadratic time on a long text.
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Leading zeros, or an exponent without a point or a sign: no program prints a number so, and people write codes so.
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
NOT_A_NUMBER = "NaN, which programs write for a number that is missing"
_CODE = re.compile(r"0[0-9]+|[0-9]+[eE][0-9]+")
_BEYOND_FLOAT64 = 2**1024 - 2**970  # and all above are infinite
LONGEST_LABEL = 1024  # characters; a longer text is not a number and not a class
MOST_CLASSES = 64


def canonical_label(spelling: Any) -> Any:
    """One value for all spellings of a class: outer white space does not count, and a number in a text is a number."""
    if isinstance(spelling, np.generic):
        spelling = spelling.item()
    if isinstance(spelling, str):
        if len(spelling) > LONGEST_LABEL:
            return spelling
        text = spelling.strip()
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
            return text
        spelling = int(text) if _WHOLE.fullmatch(text) else float(text)
    return int(spelling) if isinstance(spelling, float) and spelling.is_integer() else spelling


def _plain_spelling(value: Any, marks: CsvDialect) -> Any:
    """A value as it is told from others: a text that is a number with these marks is written without them.

    A column of such texts may be one of numbers, until one odd cell makes texts of all of them. So infinity, and what
    is beyond any float64, is one text in every spelling.
    """
    if isinstance(value, str) and len(value) <= LONGEST_LABEL:
        text = value.strip()
        if (marks.decimal, marks.thousands) != (".", None) and re.fullmatch(marks.number_pattern, text):
            value = text = text.replace(marks.thousands or "", "").replace(marks.decimal, ".")
        number = float(text) if _INFINITE.fullmatch(text) or _NUMBER.fullmatch(text) else 0.0
        return repr(number) if math.isinf(number) else value
    if isinstance(value, int) and abs(value) >= _BEYOND_FLOAT64:
        return "inf" if value > 0 else "-inf"
    return value


def includes_nan(values: Sequence[Any]) -> bool:
    """Whether a declared value is a word for a number that is missing: as a number it would be a gap."""
    return any(isinstance(value, str) and value.strip() in ("NaN", "nan", "-NaN", "-nan") for value in values)


def values_are_apart(values: Sequence[Any], marks: CsvDialect = PLAIN) -> bool:
    """Whether no two declared values are one number, as it is written with these marks."""
    return len({value_key(value, marks) for value in values}) == len(values)


def value_key(value: Any, marks: CsvDialect = PLAIN) -> Any:
    """What a cell and a declared value are compared by: one key for all that a reader may make of them."""
    return class_key(_plain_spelling(value, marks))


def class_key(value: Any) -> Any:
    """What a value is compared by, in whatever type its column is.

    One missing value makes floats of integers, so a whole number beyond 2**53 is the one that float64 has for it; and
    one text makes objects of a column, so infinity is the text that it is spelled as there.
    """
    value = canonical_label(value)
    if isinstance(value, float) and math.isinf(value):
        return repr(value)
    if isinstance(value, int) and abs(value) > 2**53:
        try:
            return int(float(value))
        except OverflowError:
            return str(value)
    return value


# ---- capitals and small letters

FOLDS_DIGEST = "a695733e4cb5c9336344f582cd985df2333995996c1243db226b63279b7410f8"


@cache
def case_folds() -> Mapping[int, int]:
    """The character that each capital is folded to: one for one, of the letters that Unicode 3.2 has.

    Later versions of Unicode, which later versions of Python have, add letters, but keep the folding of those that
    there are; the digest proves that, for a release must not depend on the Python that read the table.
    """
    folds = {}
    for code in range(0x10450):  # behind the last letter with a capital that Unicode 3.2 has
        letter = chr(code)
        small = next((text for text in (letter.casefold(), letter.lower()) if len(text) == 1), letter)
        if small != letter and ucd_3_2_0.category(letter) != "Cn":
            folds[code] = ord(small)
    if hashlib.sha256(repr(sorted(folds.items())).encode()).hexdigest() != FOLDS_DIGEST:
        raise RadoError("this Python folds letters otherwise than others do; use Python 3.11 to 3.13")
    return folds


def fold_case(text: str) -> str:
    """A text in which capitals and small letters are alike; it has as many characters.

    >>> fold_case("ÄRZTIN"), fold_case("Straße")
    ('ärztin', 'straße')
    """
    return text.translate(case_folds())


def folded_key(value: Any, marks: CsvDialect = PLAIN) -> Any:
    """What a cell and a declared value are compared by, where capitals and small letters are alike."""
    return value_key(fold_case(value) if isinstance(value, str) else value, marks)


# ---- declared classes


def check_classes(classes: Any) -> tuple[Any, ...]:
    """The classes that the caller declares, by their names: they must differ; of two, the negative one is first."""
    try:
        given = None if isinstance(classes, str) else list(classes)
        values = [] if given is None else [canonical_label(value) for value in given]
        valid = 2 <= len(values) <= MOST_CLASSES and all(len(str(value)) <= LONGEST_LABEL for value in values)
        keys = {value_key(value) for value in values}
    except TypeError:
        valid = False
    if valid and len(set(values)) == len(values) > len(keys):
        raise ArgumentError(
            "whole numbers beyond 2**53 are not told apart, nor infinite ones, so "
            f"{_shorten_class_text(classes)} cannot be classes; use text with a letter in it, such as c1 and c2"
        )
    if valid and includes_nan(values):
        raise ArgumentError(f"a class cannot be called {NOT_A_NUMBER}; call it otherwise in the table")
    if not valid or len(keys) < len(values):
        raise ArgumentError(
            f"classes must be two different values, (negative, positive), or more, up to {MOST_CLASSES}; they are "
            f"{_shorten_class_text(classes)}"
        )
    assert given is not None
    texts = [value.strip() for value in given if isinstance(value, str)]
    if len(texts) == len(values) and (len(_kinds_of_class_values(values)) > 1 or any(map(_CODE.fullmatch, texts))):
        return tuple(texts)
    if len(_kinds_of_class_values(values)) > 1:
        raise ArgumentError(
            f"classes must be of one kind, and they are {_mixed_kinds_text(values)}, {_shorten_class_text(classes)}; "
            "give all of them as text"
        )
    return tuple(values)


def check_number_of_classes(number: int) -> int:
    """The number of classes that somebody asks about, refused where no table could have so many."""
    return whole_number(number, "the number of classes", 2, MOST_CLASSES)


def classes_are_of_one_kind(classes: Sequence[Any]) -> bool:
    """Whether classes are all texts, all numbers or all truth values."""
    return len(_kinds_of_class_values(classes)) <= 1


def class_values_text(classes: Sequence[Any]) -> str:
    """The classes for a message; of many, the first few."""
    shown = [repr(value) for value in classes[:6]]
    rest = len(classes) - len(shown)
    return f"{', '.join(shown)} and {rest} more" if rest else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _shorten_class_text(classes: Any) -> str:
    text = repr(classes)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _kinds_of_class_values(values: Sequence[Any]) -> set[str]:
    return {"truth values" if isinstance(v, bool) else "text" if isinstance(v, str) else "numbers" for v in values}


def _mixed_kinds_text(values: Sequence[Any]) -> str:
    return " and ".join(sorted(_kinds_of_class_values(values)))


# ---- classes as a table spells them


@dataclass
class ClassSpellings:
    """How a table spells its classes: of each the shortest text, of these the first, and whether there are others.

    What is kept does not depend on the order in which labels are seen, nor on how many spellings there are.
    """

    texts: Mapping[Any, tuple[str, bool]] = field(default_factory=dict)
    others: bool = False  # labels that are no texts

    def see(self, value: Any, spelling: Any) -> None:
        """Note how a label of this canonical value is spelled."""
        if isinstance(spelling, str):
            self.texts = _merge_class_spellings(self.texts, {value: (spelling.strip(), False)})
        else:
            self.others = True

    def merge(self, other: "ClassSpellings") -> "ClassSpellings":
        return ClassSpellings(_merge_class_spellings(self.texts, other.texts), self.others or other.others)

    def names(self, label: str, values: Sequence[Any]) -> list[Any]:
        """What the classes with these canonical values are called, in order; refused where values and texts mix."""
        alike = len(_kinds_of_class_values(values)) == 1
        if not self.others and all(value in self.texts for value in values):
            texts = {value: self.texts[value][0] for value in values}
            if not alike:
                return sorted(texts.values())
            once = not any(several for _, several in self.texts.values())
            if once and any(map(_CODE.fullmatch, texts.values())):
                return [texts[value] for value in sorted(values)]
        check_class_kinds(label, values)
        return sorted(values)


def _merge_class_spellings(
    first: Mapping[Any, tuple[str, bool]], second: Mapping[Any, tuple[str, bool]]
) -> dict[Any, tuple[str, bool]]:
    joined = dict(first)
    for value, (text, several) in second.items():
        known, more = joined.get(value, (text, several))
        shortest = min(known, text, key=lambda spelling: (len(spelling), spelling))
        joined[value] = shortest, several or more or known != text
    return joined


def check_class_kinds(label: str, values: Sequence[Any]) -> None:
    """Refuse classes of different kinds, and integers that do not fit 64 bits."""
    if len(_kinds_of_class_values(values)) > 1:
        raise TableError(f"the label {label!r} mixes {_mixed_kinds_text(values)}, {list(values)}; make them one kind")
    if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in values):
        raise TableError(
            f"the label {label!r} has an integer beyond 64 bits; use text or smaller numbers for the classes"
        )
