"""The folder that the studio was started in: what is there, and no way out of it."""

import gzip
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError, RadoError, reason

TABLE, RELEASE, MODEL, SCHEMA = "a table", "a release", "a model", "a schema"
LEDGER, UNREADABLE = "a ledger", "a file that cannot be read"
KINDS = (TABLE, RELEASE, MODEL, SCHEMA, LEDGER, UNREADABLE)
_DEPTH = 3  # folders below the one of the studio
_MOST_SEEN, MOST_LISTED = 5_000, 200
_TEXT, _ARROW, _PARQUET = (".csv", ".tsv"), (".arrow", ".feather", ".ipc"), (".parquet", ".pq")
_MOST_JSON = 1 << 24  # bytes of a model or a schema that a list looks into
_HEAD = 4096
_LONGEST = 200  # bytes of a name, so that a draft beside it has a name, too
_UNITS = (("KB", 1e3), ("MB", 1e6), ("GB", 1e9))
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class WorkspaceFile:
    """A file in the folder: its id in forms, its path below the folder, its kind, and facts in one line."""

    id: str
    name: str
    kind: str
    size: int
    facts: str


class Folder:
    """The folder, and the files in it that the studio can use.

    A file is named by its path below the folder, or by the id that lists give it. A path that leads out of the folder,
    also by a link, is refused.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._key = secrets.token_bytes(32)
        self._names: dict[str, str] = {}
        self._seen: dict[tuple[str, int, int], tuple[str, str]] = {}

    def file(self, word: str) -> Path:
        """The file of a path below the folder, or of an id; it must be there."""
        word = self._names.get(word, word)
        place = self._inside(word)
        try:
            mode = os.stat(place).st_mode
        except OSError as error:
            raise ArgumentError(
                f"cannot open {_short_quoted_word(word)}: {reason(error)}; choose another file"
            ) from None
        if not stat.S_ISREG(mode):
            raise ArgumentError(f"{_short_quoted_word(word)} is not a file; choose another")
        return place

    def place(self, word: str) -> Path:
        """A place below the folder to write a file to; its own folder must be there."""
        place = self._inside(word)
        if len(os.fsencode(place.name)) > _LONGEST:
            raise ArgumentError(f"{_short_quoted_word(word)} is too long a name; choose another")
        if os.path.isdir(place):
            raise ArgumentError(f"{_short_quoted_word(word)} is a folder; give the name of a file")
        if not os.path.isdir(place.parent):
            raise ArgumentError(
                f"there is no folder {_short_quoted_word(str(Path(word).parent))}; make it, or choose another"
            )
        return place

    def name(self, place: Path) -> str:
        """The path of a file as commands name it: below the folder of the studio."""
        return str(place.relative_to(self.root))

    def id(self, name: str) -> str:
        """The id of a path for forms: names may hold what no form can carry."""
        number = hmac.new(self._key, os.fsencode(name), sha256).hexdigest()[:32]
        self._names[number] = name
        return number

    def found(self, place: Path) -> WorkspaceFile:
        """What a file is, and facts about it that are cheap to read."""
        name, status = self.name(place), place.stat()
        key = (name, status.st_size, status.st_mtime_ns)
        if key not in self._seen:
            self._seen[key] = _look_at_workspace_file(place)
        return WorkspaceFile(self.id(name), name, self._seen[key][0], status.st_size, self._seen[key][1])

    def files(self, *kinds: str) -> list[WorkspaceFile]:
        """The files of some kinds, or of all, by their names; of many only the first."""
        listed = []
        for place in self._walk():
            try:
                found = self.found(self._inside(str(place.relative_to(self.root))))
            except (OSError, RadoError, ValueError, RecursionError):
                continue  # it leads out of the folder, or went away
            if found.kind in (kinds or KINDS):
                listed.append(found)
            if len(listed) == MOST_LISTED:
                break
        return sorted(listed, key=lambda found: (KINDS.index(found.kind), found.name))

    def _inside(self, word: str) -> Path:
        try:
            if not word.strip() or "\0" in word:
                raise ValueError
            place = (self.root / word).resolve()
        except (OSError, ValueError, RuntimeError):
            raise ArgumentError(f"{_short_quoted_word(word)} is no name of a file; choose another") from None
        if not place.is_relative_to(self.root):
            raise ArgumentError(
                f"{_short_quoted_word(word)} is not in the folder of the studio; copy it there"
            ) from None
        return place

    def _walk(self) -> Iterator[Path]:
        """Files that may be of use, folder by folder; none that are hidden, and no folder behind a link."""
        folders, seen = [(self.root, 0)], 0
        while folders:
            folder, depth = folders.pop(0)
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                seen += 1
                if seen > _MOST_SEEN:
                    return
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders += [(Path(entry.path), depth + 1)] * (depth < _DEPTH)
                elif entry.is_file() and _workspace_file_may_be_of_use(entry.name):
                    yield Path(entry.path)


@contextmanager
def short_names_in_errors(root: Path) -> Iterator[None]:
    """Let failures name files as pages do, below the folder, and fields of pages in place of options."""
    try:
        yield
    except RadoError as error:
        line = str(error).replace(f"{root}{os.sep}", "").replace(" with -o", "")
        raise ArgumentError(line.replace(", or write over it with --force", "")) from None
    except OSError as error:
        raise ArgumentError(f"a file cannot be used: {reason(error)}; load the page again") from None


def file_size_text(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    unit, one = next(((unit, one) for unit, one in _UNITS if size < 999.5 * one), _UNITS[-1])
    return f"{size / one:.2g} {unit}" if size < 10 * one else f"{size / one:.0f} {unit}"


def _workspace_file_may_be_of_use(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith((*_TEXT, *_ARROW, *_PARQUET, ".json", ".ledger"))


def _look_at_workspace_file(place: Path) -> tuple[str, str]:
    """What a file is; one file of whatever content never breaks a list."""
    try:
        return _workspace_file_facts(place)
    except OSError:
        raise  # it went away, or is not for this user
    except Exception as error:
        return UNREADABLE, f"looking into it failed ({type(error).__name__})"


def _workspace_file_facts(place: Path) -> tuple[str, str]:
    """The kind of a file by its name and its first bytes, and facts in one line."""
    with place.open("rb") as file:
        head = file.read(_HEAD)
    name = place.name.lower()
    if head[:4] == b"PAR1":
        return _parquet_file_facts(place)
    if head.lstrip()[:1] == b"{" and name.endswith(".json"):
        return _json_file_facts(place)
    if head.startswith(_SQLITE):
        return _ledger_file_facts(place)
    if name.endswith(_ARROW) and head[:6] in (b"ARROW1", b"\xff\xff\xff\xff" + head[4:6]):
        return TABLE, ""
    if name.removesuffix(".gz").endswith(_TEXT):
        return _workspace_text_file_facts(place, head)
    return "", ""


def _workspace_text_file_facts(place: Path, head: bytes) -> tuple[str, str]:
    if place.name.lower().endswith(".gz"):
        try:
            with gzip.open(place) as file:
                head = file.read(_HEAD)
        except (OSError, EOFError):
            return "", ""
    if not head.strip() or b"\0" in head.removeprefix(b"\xff\xfe")[:2]:
        return "", ""
    first = head.splitlines()[0]
    marks = max(first.count(mark) for mark in (b",", b";", b"\t", b"|"))
    return TABLE, _n_columns_text(marks + 1) if marks and len(first) < _HEAD and b'"' not in first else ""


def _parquet_file_facts(place: Path) -> tuple[str, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(place) as parquet:
            documents = parquet.metadata.metadata or {}
            rows, columns = parquet.metadata.num_rows, parquet.metadata.num_columns
        document = json.loads(documents[b"radoboost"]) if b"radoboost" in documents else None
    except (OSError, ValueError, RecursionError, pa.ArrowException):
        return "", ""
    if document is None:
        return ("", "") if b"radoboost_share" in documents else (TABLE, f"{rows:,} rows, {_n_columns_text(columns)}")
    return RELEASE, _promise_of_file_text(document)


def _n_columns_text(number: int) -> str:
    return "1 column" if number == 1 else f"{number:,} columns"


def _promise_of_file_text(document: Mapping[str, Any]) -> str:
    """What a file says that it promises; nobody has held it against what was done."""
    from radoboost.release.release import Statement, rounded_up_text

    try:
        statement = Statement.from_dict(document["statement"])
    except (RadoError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return "its document is incomplete"
    if not (statement.epsilon >= 0 and 0 <= statement.delta <= 1):
        return "its document is incomplete"
    if statement.epsilon == float("inf"):
        return f"{statement.mechanism}: promises nothing about records (epsilon infinite; {statement.neighbours})"
    return (
        f"{statement.mechanism}: says epsilon {rounded_up_text(statement.epsilon, 4)}, delta {statement.delta:.3g} "
        f"({statement.neighbours})"
    )


def _json_file_facts(place: Path) -> tuple[str, str]:
    if place.stat().st_size > _MOST_JSON:
        return "", ""
    try:
        document = json.loads(place.read_bytes())
    except (ValueError, RecursionError):
        return "", ""
    if "radoboost_schema" in document:
        columns = document.get("columns")
        return SCHEMA, _n_columns_text(len(columns)) if isinstance(columns, dict) else ""
    if "radoboost_model" not in document:
        return "", ""
    return MODEL, _promise_of_file_text(document) if document.get(
        "statement"
    ) else "learned from examples, without a statement"


def _ledger_file_facts(place: Path) -> tuple[str, str]:
    from radoboost.privacy.ledger import glance_at_ledger

    try:
        books = glance_at_ledger(place, 4)
    except RadoError:
        return "", ""
    totals = [
        f"{table}: total epsilon {total.epsilon:g}, delta {total.delta:.3g} ({total.relation.value}), {number} booked"
        for table, total, number in books[:3]
    ]
    return LEDGER, "; ".join(totals) + ("; ..." if len(books) > 3 else "")


def _short_quoted_word(word: str) -> str:
    return repr(word if len(word) <= 80 else f"{word[:77]}...")
