"""Everything that radoboost raises on purpose.

RadoError
|-- ArgumentError   (ValueError)    an option or argument that cannot be used as given
|-- TableError      (ValueError)    a table that cannot be read or learned from
|   |-- NeedsSchema                 one whose columns are not all numbers without gaps, so that a schema must say more
|   `-- DoesNotFit                  one that does not fit what was declared of it: columns that are missing, odd cells
|-- ReleaseError    (ValueError)    a file that is not a release, is damaged, of unknown version, or promises too much
|-- ModelError      (ValueError)    a file that is not a model, or of unknown version
|-- LedgerError     (ValueError)    a file that is not a ledger, is damaged, or has no such table
|-- BudgetError     (ValueError)    a release that would pass the total of its table; it was not booked
|-- TooLargeError   (MemoryError)   work that does not fit into this machine's memory
|-- ClusterError    (RuntimeError)  a cluster that cannot be reached, or could not do its work
|-- RoomError       (RuntimeError)  a room of several holders that had to stop; it names the one who was the reason
`-- OutputError     (OSError)       a result that could not be written; no unfinished file was left

ClippedWarning  (UserWarning)   values lay beyond their declared bounds
OutlierWarning  (UserWarning)   one value outweighs all others of its column, which a plain release then hardly tells
PersonWarning   (UserWarning)   each row counts as another person, and a column has the name or the kind of ids
DeltaWarning    (UserWarning)   delta is not well below one over the declared number of rows
FilledWarning   (UserWarning)   a model filled gaps that it did not expect or cells it cannot read, or met new values
BudgetWarning   (UserWarning)   private fits add up, and nobody keeps the books
NoiseWarning    (UserWarning)   a release that was learned from tells little: an empty table might have given it,
                                or it has no example of a class
SchemaWarning   (UserWarning)   a raw table was read by a schema proposed from it, or without rows with gaps, or has
                                values that its schema does not have

Each message is one line that names the thing and says what to do.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any


class RadoError(Exception):
    """Any expected failure. Its message is one line, whatever the name of a file or a column has in it."""

    def __str__(self) -> str:
        text = super().__str__()
        return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class ArgumentError(RadoError, ValueError):
    """An option or argument that cannot be used as given."""


class TableError(RadoError, ValueError):
    """A table that cannot be read or learned from."""


class NeedsSchema(TableError):
    """A table whose columns are not all numbers without gaps, so that a schema must say what they are."""


class DoesNotFit(TableError):
    """A table that does not fit its schema. `columns` says what is wrong with some of them, each in a clause.

    >>> DoesNotFit("column 'age' has 'old' (row 3), which is no number", {"age": "'old' is no number"}).columns
    {'age': "'old' is no number"}
    """

    def __init__(self, message: str, columns: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.columns = columns or {}


class ReleaseError(RadoError, ValueError):
    """A file that is not a release, is damaged, is of an unknown version, or promises more than was done."""


class ModelError(RadoError, ValueError):
    """A file that is not a model, or is of an unknown version."""


class LedgerError(RadoError, ValueError):
    """A file that is not a ledger, is damaged, or has no such table."""


class BudgetError(RadoError, ValueError):
    """A release that would pass the total of its table; it was not booked."""


class TooLargeError(RadoError, MemoryError):
    """Work that does not fit into this machine's memory."""


class ClusterError(RadoError, RuntimeError):
    """A cluster that cannot be reached, or could not do its work."""


class RoomError(RadoError, RuntimeError):
    """A room of several holders that had to stop; it names the one who was the reason.

    `causes` say the same as data, where it was others and all may know.
    """

    def __init__(self, message: str, causes: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.causes = tuple(causes)


class OutputError(RadoError, OSError):
    """A result that could not be written; no unfinished file was left."""


class PersonWarning(UserWarning):
    """A promise about rows, where a column has the kind or the name of ids: one person may have several rows."""


class DeltaWarning(UserWarning):
    """A delta that is not well below one over the declared number of rows."""


class ClippedWarning(UserWarning):
    """Values lay beyond their declared bounds and were moved to the bound."""


class OutlierWarning(UserWarning):
    """One value outweighs all others of its column, so that a plain release hardly tells these apart."""


class FilledWarning(UserWarning):
    """A model filled gaps that its schema does not foresee, or cells that it cannot read, or met values new to it."""


class BudgetWarning(UserWarning):
    """Private fits add up, and nobody keeps the books."""


class NoiseWarning(UserWarning):
    """A release that was learned from tells little: an empty table might have given it, or a class is not in it."""


class SchemaWarning(UserWarning):
    """A raw table was read by a schema that was proposed from it, or without rows with gaps, or has unknown values.

    `lines` say what was taken for what.

    >>> SchemaWarning(["numbers: age", "left out: name (text)"]).lines
    ('numbers: age', 'left out: name (text)')
    """

    def __init__(self, lines: list[str] | tuple[str, ...]) -> None:
        super().__init__(f"the table is read as follows: {'; '.join(lines)}")
        self.lines = tuple(lines)


def install(extra: str, *others: str) -> str:
    """What to type for an extra, for messages: the package is on no index. `others` are packages beside it."""
    words = " ".join([f"'.[{extra}]'", *others])
    return f"pip install {words} in a clone of radoboost, or with the path of its wheel in place of the dot"


def reason(error: OSError) -> str:
    """What the operating system said, without the words that Arrow may put around it."""
    text = error.strerror or str(error) or type(error).__name__
    return re.split(r"\[errno \d+\] ", text.splitlines()[0])[-1]


@contextmanager
def on_failure(tell: Callable[[BaseException], None] | None) -> Iterator[None]:
    """Tell of whatever ends this early, Ctrl-C too."""
    try:
        yield
    except BaseException as error:
        if tell is not None:
            tell(error)
        raise


def what_is_spent(error: BaseException) -> str:
    """What an error says of bookings that stay after it; nothing where there are none."""
    return str(error.__dict__.get("spent", ""))


def whole_number(value: object, name: str, least: int = 1, most: int | None = None) -> int:
    """The value as an int, if it is a whole number within these limits."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else least - 1
    if number < least or (most is not None and number > most):
        limits = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise ArgumentError(f"{name} must be a whole number {limits}; it is {value!r}")
    return number


def stack_level_of_caller() -> int:
    """The stack level, as seen by who asks, of the first frame outside of this package: a warning points there."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "radoboost":
        frame, level = frame.f_back, level + 1
    return level
