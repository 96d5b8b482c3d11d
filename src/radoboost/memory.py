"""How much memory is free, and the refusal of work that needs more."""

import psutil

from radoboost.errors import TooLargeError


def available() -> int:
    """Bytes that can still be used.

    >>> available() > 0
    True
    """
    return int(psutil.virtual_memory().available)


def require(needed: int, what: str, advice: str) -> None:
    """Refuse work that needs more bytes than are free, before it begins.

    >>> require(2**80, "a table of everything", "use less")
    Traceback (most recent call last):
    radoboost.errors.TooLargeError: a table of everything needs 1125899906842624.0 GiB of memory and ...; use less
    """
    free = available()
    if needed > free:
        raise TooLargeError(
            f"{what} needs {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free; {advice}"
        )
