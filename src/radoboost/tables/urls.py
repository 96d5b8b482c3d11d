"""What a text names: a path, a database or an object store; without the passwords that may be in an address."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from radoboost.errors import ArgumentError, OutputError, RadoError, TableError, reason

_ADDRESS = re.compile(r"(duckdb):(?!//)|(postgres(?:ql)?)://", re.IGNORECASE)
_OTHER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_FILE = re.compile(r"file://(?:localhost)?(?=/)", re.IGNORECASE)
_DATABASE = re.compile(
    r"(?:duckdb|postgres\w*|mysql|mariadb|sqlite\w*|mssql|sqlserver|oracle|snowflake|bigquery|redshift|mongodb|"
    r"clickhouse|trino|presto|databricks|db2|cockroachdb|adbc|jdbc|odbc)(?:[+:]\w+)*://",
    re.IGNORECASE,
)
# From the first colon behind the slashes to the last @: a password may hold any character, if only by mistake.
_BEFORE_HOST = re.compile(r":/+[^:]*:(?P<secret>.*)@", re.DOTALL)
_NO_HOST = re.compile(r"://(?!\[)[^:/?@]*:(?P<secret>(?!\d*(?:[,/?\s]|$))(?!.*@).*)", re.DOTALL)
# Of stores, what stands for a user may be a key, or a token, and so may whatever option is not known to be public.
_STORE = re.compile(r"\b(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/+(?:(?P<user>[^/?#@\s]+)@)?")
_CONTAINER = re.compile(r"(?:[a-z0-9-]{3,63}|\$root|\$web)@[\w-]+\.[\w.:-]*")  # of Azure: it is where a file is
_AZURE = ("abfs", "abfss", "az", "adl", "wasb", "wasbs")
_WEB = ("http", "https")
PUBLIC_OPTIONS = (
    "region",
    "scheme",
    "endpoint_override",
    "retry_limit_seconds",
    "blob_storage_authority",
    "dfs_storage_authority",
    "enable_tls",
    "replication",
)
_IS_OPTIONS = re.compile(r"\?(?=[\w.%-]+=)")
_OPTION = re.compile(r"(?P<key>[\w%.-]+?)\s*(?:=|%3D)\s*", re.IGNORECASE)
_NEXT = re.compile(r"&[\w%.-]+=")
_SECRET = re.compile(
    r"pass(?!file)|pwd|secret|token|scram|signature|credential|(?:^|[-_])(?:sig|jwt|hmac|sas)$|"
    r"(?:access|account|api)[-_]?key|access[-_]?id",
    re.IGNORECASE,
)
_SQL_BEGINS = re.compile(r"\?(?=\s*\(?\s*(?:SELECT|WITH|TABLE|VALUES|FROM)\b)", re.IGNORECASE)
_SQUEEZED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # an address after pathlib had it
_NOT_ENCODED = re.compile(r"\s|%(?![0-9A-Fa-f]{2})")


def is_supported_url(address: str) -> bool:
    """Whether an address is of a kind that is opened here."""
    return bool(_ADDRESS.match(address))


def url_kind(table: Any) -> str | None:
    """What a text is the address of: "database" or "store"; None for a path, and for whatever is no text."""
    if not isinstance(table, str):
        return None
    if _ADDRESS.match(table):
        return "database"
    if not _OTHER.match(table) or _FILE.match(table) or os.path.exists(table):
        return None
    return "database" if _DATABASE.match(table) else "store"


def is_database_url(table: Any) -> bool:
    """Whether a text is the address of a database, and neither a path nor that of a store."""
    return url_kind(table) == "database"


def is_store_url(table: Any) -> bool:
    """Whether a text is the address of something in an object store, or of another place that is no path."""
    return url_kind(table) == "store"


def split_query(address: str) -> tuple[str, str, str]:
    """The place of a database, the question mark, and the query: for PostgreSQL where one begins as SQL does."""
    if address.lower().startswith("duckdb:"):
        return address.partition("?")
    mark = _SQL_BEGINS.search(address)
    return (address, "", "") if mark is None else (address[: mark.start()], "?", address[mark.end() :])


def local_path_of_url(text: str) -> str:
    """A path on this machine, which may be written as an address."""
    match = _FILE.match(text)
    return text if match is None else unquote(text[match.end() :])


def is_collapsed_url(path: Path) -> bool:
    """Whether a path is what pathlib makes of an address: it has one slash of two."""
    return bool(_SQUEEZED.match(str(path))) and not path.parents[-2].exists()


def refuse_store_as_output(path: Path) -> None:
    """Refuse to write a result to a store."""
    if is_collapsed_url(path):
        raise OutputError(
            f"cannot write {mask_passwords(str(path))[:80]}: results are written on this machine only; choose a path "
            "here, and copy the file to the store"
        )


def is_secret_url_option(option: str) -> bool:
    """Whether the name of an option says that its value is for nobody's eyes."""
    return bool(_SECRET.search(unquote(option)))


def is_public_url_option(option: str, value: str) -> bool:
    """Whether an option of a store's address, and its value, may be seen."""
    return unquote(option).lower() in PUBLIC_OPTIONS and not set("@&") & set(unquote(value))


def files_of_database_url(address: str) -> list[str]:
    """The files on this machine that an address names: that of DuckDB, or none; a path is its own."""
    if url_kind(address) is None:
        return [address]
    file = address.partition(":")[2].partition("?")[0]
    return [file] if address.lower().startswith("duckdb:") and Path(file).is_file() else []


def url_stem(address: str) -> str:
    """What a database is called, or a file or a folder in a store."""
    place = mask_passwords(address).partition("?")[0]
    if is_store_url(address):
        store = StoreAddress.of(address)
        return Path(store.path.rstrip("/") or store.host).name
    path = place.partition(":")[2] if place.lower().startswith("duckdb:") else urlsplit(place).path
    return Path(path).name or "query"


@dataclass(frozen=True, repr=False)
class StoreAddress:
    """The parts of the address of something in a store.

    Whatever may be secret is taken for it: `user` and `password`, options that are not among `PUBLIC_OPTIONS`, and on
    the web all options, and the fragment. Elsewhere a # is part of a name.

    Paths are taken as they are: `%2F` is part of a name, for other programs write `ward=A%2FB` for a folder.
    """

    scheme: str
    user: str
    password: str
    host: str
    path: str
    options: tuple[tuple[str, str], ...]
    fragment: str = ""

    @classmethod
    def of(cls, address: str) -> "StoreAddress":
        """Take an address apart; a question mark is a wildcard unless options follow, as in ?region=eu-west-1."""
        scheme, _, rest = address.partition("://")
        scheme, fragment = scheme.lower(), ""
        if scheme in _WEB:  # the fragment is for whoever reads the page, and servers never get it
            rest, _, fragment = rest.partition("#")
        mark = re.search(r"\?", rest) if scheme in _WEB else _IS_OPTIONS.search(rest)
        rest, query = (rest, "") if mark is None else (rest[: mark.start()], rest[mark.end() :])
        authority, _, path = rest.partition("/")
        before, _, host = authority.rpartition("@")
        user, _, password = before.partition(":")
        pairs = tuple((key, value) for key, _, value in (part.partition("=") for part in query.split("&") if part))
        if not before and re.search(r":(?!\d*$)", host):
            raise ArgumentError(
                f"cannot tell the parts of {mask_passwords(address)[:80]} apart: within its key and secret write @ as "
                "%40 and / as %2F, or leave them to the store's own settings"
            )
        return cls(scheme, unquote(user), unquote(password), host, path, pairs, fragment)

    def option(self, name: str) -> str | None:
        return next((unquote(value) for key, value in self.options if unquote(key).lower() == name), None)

    def public(self, path: str | None = None) -> str:
        """The address, or that of another path beside it, with nothing in it that is secret."""
        user = f"{quote(self.user)}@" if self._shows_user() else ""
        options = "&".join(f"{key}={value}" for key, value in self.options if self._is_public(key, value))
        path = self.path if path is None else path
        place = f"{self.scheme}://{user}{self.host}{'/' if path else ''}{path}"
        return f"{place}?{options}" if options else place

    def secrets(self) -> list[str]:
        """What may be in no message."""
        hidden = [(key, value or key) for key, value in self.options if not self._is_public(key, value)]
        # Short values that are no secret by name are in many texts: those are masked where they stand in an address.
        values = [value for key, value in hidden if is_secret_url_option(key) or len(value) >= 4]
        users = [] if self._shows_user() else [self.user]
        values = [self.password, *users, *values, *map(unquote, values), *([self.fragment] * (len(self.fragment) >= 4))]
        return [secret for secret in dict.fromkeys(values) if secret]

    def stays_here(self) -> bool:
        """Whether the public address may be that of something else, since it lacks more than credentials."""
        hidden = [key for key, value in self.options if not self._is_public(key, value)]
        return any(self.scheme in _WEB or not is_secret_url_option(key) for key in hidden)

    def _shows_user(self) -> bool:
        container = self.scheme in _AZURE and _CONTAINER.fullmatch(f"{self.user}@{self.host}")
        return bool(container) or (self.user == "anonymous" and not self.password)

    def _is_public(self, key: str, value: str) -> bool:
        return self.scheme not in _WEB and is_public_url_option(key, value)


def unknown_url_error(address: str) -> ArgumentError:
    return ArgumentError(
        f"cannot open {mask_passwords(address)[:80]}: addresses of databases begin with duckdb: or postgresql://; for "
        "another database pass an open connection to rb.query(connection, 'SELECT ...')"
    )


def mask_passwords(text: str) -> str:
    """A text without the passwords of addresses in it; rather too much of it is left out than too little."""
    line, done = "", 0
    for first, last in sorted(_secret_spans(text)):
        if first > done or not line:
            line += f"{text[done:first]}***"
        done = max(done, last)
    return line + text[done:]


def _secret_spans(text: str) -> list[tuple[int, int]]:
    """Where secrets are, or may be."""
    spans = [match.span("secret") for pattern in (_BEFORE_HOST, _NO_HOST) for match in pattern.finditer(text)]
    for match in _STORE.finditer(text):
        if not _DATABASE.match(text, match.start()):
            spans += _secret_spans_of_store_url(text, match)
    for match in _OPTION.finditer(text):
        if _SECRET.search(unquote(match["key"])):
            first = match.end()
            behind = None if text[first : first + 1] in ("'", '"') else _NEXT.search(text, first)
            spans.append((first, len(text) if behind is None else behind.start()))
    return [span for span in spans if span[0] < span[1]]


def _secret_spans_of_store_url(text: str, match: re.Match[str]) -> Iterator[tuple[int, int]]:
    scheme, place = match["scheme"].lower(), match.end()
    user = match["user"]
    container = scheme in _AZURE and user and _CONTAINER.match(text, match.start("user"))
    if user and user != "anonymous" and not container:
        yield match.span("user")
    if scheme in _WEB:
        mark = re.compile(r"[?#]").search(text, place)
        if mark is not None:
            yield mark.end(), len(text)
        return
    mark = _IS_OPTIONS.search(text, place)
    while mark is not None:
        first = text.index("=", mark.start()) + 1
        behind = _NEXT.search(text, first)
        last = len(text) if behind is None else behind.start()
        if not is_public_url_option(text[mark.start() + 1 : first - 1], text[first:last]):
            yield first, last
        mark = behind


def check_url_encoding(address: str) -> None:
    """Refuse an address whose parts a library could take for others: a piece of a password would be a host."""
    before_host = address.partition("://")[2].rpartition("@")[0]
    options = address.partition("?")[2].split("&") if "?" in address else []
    mixed = _NOT_ENCODED.search(address) or _NO_HOST.search(address) or set("@/") & set(before_host)
    if mixed or any("=" not in option for option in options):
        raise ArgumentError(
            f"cannot tell the parts of {mask_passwords(address)[:80]} apart: within its user, password and options "
            "write @ as %40, / as %2F, & as %26, % as %25 and a space as %20, or leave the password to PGPASSWORD"
        )


def _url_secrets(address: str) -> list[str]:
    """The passwords in an address and pieces of them, to be looked for wherever a library repeats them."""
    words = [address[first:last] for first, last in _secret_spans(address)]
    words += map(unquote, tuple(words))
    return [*words, *(piece for word in words for piece in re.split(r"\W+", word) if len(piece) >= 3)]


@contextmanager
def mask_database_errors(address: str = "", name: str = "the query") -> Iterator[None]:
    """Turn whatever a database's library raises into one line without passwords."""
    try:
        yield
    except (RadoError, MemoryError):
        raise
    except Exception as error:
        text = reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__
        # With only the password cut out, the gaps would show what it is.
        if any(secret in text for secret in _url_secrets(address)):
            raise TableError(
                f"{name} failed, and what the library says repeats a part of the password in the address, so it is "
                "not shown; leave the password to PGPASSWORD to see it"
            ) from None
        raise TableError(f"{name} failed: {' '.join(mask_passwords(text).split())[:400]}") from None


@contextmanager
def withhold_read_errors(private: bool, name: str = "the query") -> Iterator[None]:
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
