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
# From the first colon behind the slashes to the last @: a password may hold any character, if only by mistake.
_BEFORE_HOST = re.compile(r":/+[^:]*:(?P<secret>.*)@", re.DOTALL)
_NO_HOST = re.compile(r"://(?!\[)[^:/?@]*:(?P<secret>(?!\d*(?:[,/?\s]|$))(?!.*@).*)", re.DOTALL)
_OPTION = re.compile(r"(?P<key>[\w%.-]+?)\s*(?:=|%3D)\s*", re.IGNORECASE)
_NEXT = re.compile(r"&[\w%.-]+=")
_SECRET = re.compile(r"pass(?!file)|pwd|secret|token|scram", re.IGNORECASE)
_NOT_ENCODED = re.compile(r"\s|%(?![0-9A-Fa-f]{2})")


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
    place = masked(address).partition("?")[0]
    path = place.partition(":")[2] if place.lower().startswith("duckdb:") else urlsplit(place).path
    return Path(path).name or "query"


def unknown_address(address: str) -> ArgumentError:
    """The error for an address of another kind."""
    return ArgumentError(
        f"cannot open {masked(address)[:80]}: addresses begin with duckdb: or postgresql://; for another database pass "
        "an open connection to rb.query(connection, 'SELECT ...')"
    )


def masked(text: str) -> str:
    """A text without the passwords of addresses in it; rather too much of it is left out than too little.

    >>> masked("cannot reach postgresql://ann:secret@host/db?password=s3cret&x=1")
    'cannot reach postgresql://ann:***@host/db?password=***&x=1'
    >>> masked("mysql://ann:p@ss wo/rd@host/db"), masked("postgresql://host:5432/db?p%61ssword=it's"), masked("x://h:pw")
    ('mysql://ann:***@host/db', 'postgresql://host:5432/db?p%61ssword=***', 'x://h:***')
    """
    line, done = "", 0
    for first, last in sorted(_spans(text)):
        if first > done or not line:
            line += f"{text[done:first]}***"
        done = max(done, last)
    return line + text[done:]


def _spans(text: str) -> list[tuple[int, int]]:
    """Where secrets are, or may be."""
    spans = [match.span("secret") for pattern in (_BEFORE_HOST, _NO_HOST) for match in pattern.finditer(text)]
    for match in _OPTION.finditer(text):
        if _SECRET.search(unquote(match["key"])):
            first = match.end()
            behind = None if text[first : first + 1] in ("'", '"') else _NEXT.search(text, first)
            spans.append((first, len(text) if behind is None else behind.start()))
    return [span for span in spans if span[0] < span[1]]


def check_encoded(address: str) -> None:
    """Refuse an address whose parts a library could take for others: a piece of a password would be a host.

    >>> check_encoded("postgresql://ann:pass%2Fword@host/db")
    """
    before_host = address.partition("://")[2].rpartition("@")[0]
    options = address.partition("?")[2].split("&") if "?" in address else []
    mixed = _NOT_ENCODED.search(address) or _NO_HOST.search(address) or set("@/") & set(before_host)
    if mixed or any("=" not in option for option in options):
        raise ArgumentError(
            f"cannot tell the parts of {masked(address)[:80]} apart: within its user, password and options write @ as "
            "%40, / as %2F, & as %26, % as %25 and a space as %20, or leave the password to PGPASSWORD"
        )


def _secrets(address: str) -> list[str]:
    """The passwords in an address and pieces of them, to be looked for wherever a library repeats them."""
    words = [address[first:last] for first, last in _spans(address)]
    words += map(unquote, tuple(words))
    return [*words, *(piece for word in words for piece in re.split(r"\W+", word) if len(piece) >= 3)]


@contextmanager
def explained(address: str = "", name: str = "the query") -> Iterator[None]:
    """Turn whatever a database's library raises into one line without passwords."""
    try:
        yield
    except (RadoError, MemoryError):
        raise
    except Exception as error:
        text = reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__
        # With only the password cut out, the gaps would show what it is.
        if any(secret in text for secret in _secrets(address)):
            raise TableError(
                f"{name} failed, and what the library says repeats a part of the password in the address, so it is "
                "not shown; leave the password to PGPASSWORD to see it"
            ) from None
        raise TableError(f"{name} failed: {' '.join(masked(text).split())[:400]}") from None


@contextmanager
def withheld(private: bool, name: str = "the query") -> Iterator[None]:
    """Where records are protected, replace whatever is raised while rows are read by a line that is always the same.

    A library's words hold values and the numbers of rows (C0 of docs/proofs/contributions.md).
    """
    try:
        yield
    except (RadoError, MemoryError):
        raise
    except Exception:
        if not private:
            raise
        raise TableError(
            f"{name} failed; where records are protected, a library's own words are not shown, since they may hold "
            "values: read the rows without a private mechanism to see them"
        ) from None
