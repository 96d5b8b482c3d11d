"""Addresses of databases: what they name, without the passwords that may be in them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from radoboost.errors import ArgumentError, RadoError, TableError, reason

_ADDRESS = re.compile(r"(duckdb):(?!//)|(postgres(?:ql)?)://", re.IGNORECASE)
_OTHER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_PASSWORDS = (
    re.compile(r"(://[^\s:/@?]*):[^\s@]*@"),
    re.compile(r"(\b(?:password|sslpassword|passwd|pwd)\s*=\s*)('[^']*'|[^\s&;'\"]+)", re.IGNORECASE),
)


def is_known(address: str) -> bool:
    """Whether an address is of a kind that is opened here."""
    return bool(_ADDRESS.match(address))


def is_address(table: Any) -> bool:
    """Whether a text is the address of a database, and no path.

    >>> [is_address(text) for text in ("duckdb:clinic.db?SELECT 1", "postgresql://host/db", "duckdb.csv", "C:/t.csv")]
    [True, True, False, False]
    """
    return isinstance(table, str) and bool(_ADDRESS.match(table) or (_OTHER.match(table) and not Path(table).exists()))


def address_files(address: str) -> list[str]:
    """The files that an address names: that of DuckDB, or none; a path is its own."""
    if not is_address(address):
        return [address]
    file = address.partition(":")[2].partition("?")[0]
    return [file] if address.lower().startswith("duckdb:") and Path(file).is_file() else []


def address_stem(address: str) -> str:
    """What a database is called.

    >>> address_stem("duckdb:data/clinic.duckdb?SELECT 1"), address_stem("postgresql://ann@host/clinic?sslmode=require")
    ('clinic.duckdb', 'clinic')
    >>> address_stem("duckdb:?SELECT 1")
    'query'
    """
    place = address.partition("?")[0]
    path = place.partition(":")[2] if place.lower().startswith("duckdb:") else urlsplit(place).path
    return Path(path).name or "query"


def unknown_address(address: str) -> ArgumentError:
    """The error for an address of another kind."""
    return ArgumentError(
        f"cannot open {masked(address)[:80]}: addresses begin with duckdb: or postgresql://; for another database pass "
        "an open connection to rb.query(connection, 'SELECT ...')"
    )


def masked(text: str) -> str:
    """A text without the passwords of addresses in it.

    >>> masked("cannot reach postgresql://ann:secret@host/db?password=s3cret&x=1")
    'cannot reach postgresql://ann:***@host/db?password=***&x=1'
    """
    text = _PASSWORDS[0].sub(r"\1:***@", text)
    return _PASSWORDS[1].sub(r"\1***", text)


def _secrets(address: str) -> list[str]:
    """The passwords in an address, to be looked for wherever a library repeats them."""
    found = [match[0][len(match[1]) + 1 : -1] for match in _PASSWORDS[0].finditer(address)]
    words = [word for word in [*found, *(match[2] for match in _PASSWORDS[1].finditer(address))] if word]
    return [*words, *map(unquote, words)]


@contextmanager
def explained(address: str = "", name: str = "the query") -> Iterator[None]:
    """Turn whatever a database's library raises into one line without passwords."""
    try:
        yield
    except (RadoError, MemoryError):
        raise
    except Exception as error:
        text = reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__
        line = " ".join(text.split())
        for secret in _secrets(address):
            line = line.replace(secret, "***")
        raise TableError(f"{name} failed: {masked(line)[:400]}") from None
