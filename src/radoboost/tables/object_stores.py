"""Files in object stores: what an address there names, as paths that any process can read by its own credentials."""

import fnmatch
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from radoboost.errors import RadoError, TableError, reason
from radoboost.tables.named_paths import NamedPath
from radoboost.tables.urls import StoreAddress, is_secret_url_option, is_store_url, mask_passwords

WILDCARDS = "*?["


class Store:
    """A file system that an address led to. Its repr and its pickle say nothing, for it may hold credentials."""

    def __init__(self, address: StoreAddress) -> None:
        from radoboost.tables.store_files import file_system_of_store

        self._secrets = address.secrets()
        with self.explained(address.public()):
            self.system, self.key = file_system_of_store(address)  # what an address is called there

    def __repr__(self) -> str:
        return "Store()"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a store holds credentials and does not travel; its paths do")

    @contextmanager
    def explained(self, shown: str) -> Iterator[None]:
        """Turn whatever a library raises into one line that names the address, without credentials."""
        try:
            yield
        except (RadoError, MemoryError):
            raise
        except FileNotFoundError:
            raise TableError(f"no such file: {shown}") from None
        except Exception as error:
            raise TableError(f"cannot read {shown}: {self.said(error)}") from None

    def said(self, error: BaseException) -> str:
        """What a library says, in one line; nothing if it repeats a secret."""
        text = reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__
        if any(secret in text for secret in (*self._secrets, *_store_secrets_in_environment())):
            return "the library's words repeat a credential, so they are not shown"
        if re.search("NO_SUCH_BUCKET|NoSuchBucket", text):
            return "there is no such bucket; check its name, and the endpoint and region in which it is looked for"
        return " ".join(mask_passwords(re.sub(r" *\(?Request ID: *[\w-]*\)?", "", text)).split())[:400]


def _store_secrets_in_environment() -> list[str]:
    names = [name for name in os.environ if (is_secret_url_option(name) or "KEY" in name) and not name.endswith("PWD")]
    return [os.environ[name] for name in names if len(os.environ[name]) >= 8]


class StorePath(NamedPath):
    """The path of a file in a store; its place is an address without credentials.

    Where it was unpickled, the store is opened by the credentials of that process.
    """

    key: str  # what the store calls it, which may hold a signature
    named: bool  # the caller named the file itself, and no folder or pattern
    stays_here: bool  # its address has options that may be secret, and without them it may be something else
    size: int | None  # in bytes, by a listing or by the store's last answer
    version_seen: tuple[Any, ...]  # what the store answered last
    token: object  # which is that of no other path, not even one that is equal
    passes: int  # that are under way: each asks the store when it begins and when it ends, and not in between
    _file: Any

    def __reduce__(self) -> tuple[Any, ...]:
        if self.stays_here:
            raise _store_with_secret_options_error(self.shown)
        return store_path, (self.place, dict(self.folders))

    def identity(self, version: tuple[Any, ...]) -> tuple[Any, ...]:
        """What tells the file in that version from all others."""
        self.store  # noqa: B018 (it says what the key is)
        return self.place, self.key, version, self.token if is_store_version_size_alone(version) else None

    @property
    def store(self) -> Store:
        if self.owner is None:
            address = StoreAddress.of(self.place)
            store = open_object_store(replace(address, path=""))
            self.key = store.key(address)
            self.owner = store  # last: another thread may look at it
        return self.owner  # type: ignore[no-any-return]

    @property
    def file(self) -> pa.NativeFile:
        """The file as it was when the store was last asked about it."""
        if self._file is None:
            self.version()
        return self._file

    def version(self) -> tuple[Any, ...]:
        """Ask the store what changes when the file does: its version or ETag, or else its size and time."""
        system = self.store.system
        file = system.open_input_file(self.key)
        handler = getattr(system, "handler", None)
        self.version_seen = self._version(file) if handler is None else handler.version(self.key)
        self._file, self.size = file, int(file.size())
        return self.version_seen

    def _version(self, file: pa.NativeFile) -> tuple[Any, ...]:
        about = {name.lower(): value for name, value in (file.metadata() or {}).items()}
        known = [about[name] for name in ("etag", "versionid", "generation") if about.get(name)]
        if not known:
            info = self.store.system.get_file_info(self.key)
            known = [time for time in (about.get("last-modified") or info.mtime_ns,) if time]
        return (file.size(), *(value.decode() if isinstance(value, bytes) else value for value in known))


def store_path(place: str, folders: Mapping[str, str | None] | None = None, store: Store | None = None) -> StorePath:
    """The path of a file at an address that holds no credentials."""
    path = StorePath(place.partition("?")[0])
    path.place, path.shown, path.kind = place, place.partition("?")[0], None
    path.folders, path.owner, path.key = dict(folders or {}), store, ""
    path.named, path.size, path.version_seen, path._file = False, None, (), None
    path.stays_here, path.token, path.passes = False, object(), 0
    return path


def is_store_version_size_alone(version: tuple[Any, ...]) -> bool:
    """Whether a version says no more than how large a file is, so that it may change and nobody notices."""
    return len(version) < 2


def refuse_store_secrets_on_workers(table: Any) -> None:
    """Refuse addresses that other machines cannot get as a whole."""
    for text in table if isinstance(table, list | tuple) else [table]:
        if is_store_url(text) and (address := StoreAddress.of(text)).stays_here():
            raise _store_with_secret_options_error(address.public().partition("?")[0])


def _store_with_secret_options_error(shown: str) -> TableError:
    return TableError(
        f"{shown} has options that may be secret, so they do not travel, and without them other machines might read "
        "something else; copy the file to where they can read it, or leave cluster out (--cluster)"
    )


def list_store_folder(system: Any, folder: str) -> list[str]:
    """The names in a folder of a file system; none where there is no such folder, or where nobody may list it."""
    from pyarrow.fs import FileSelector

    try:
        infos = system.get_file_info(FileSelector(folder, allow_not_found=True))
    except Exception:  # of whatever library; who may read a file need not be allowed to list folders above it
        return []
    return [info.base_name for info in infos]


@lru_cache(maxsize=64)
def open_object_store(address: StoreAddress) -> Store:
    """The store of paths that came without credentials."""
    return Store(address)


# ---- what an address names


class StoreListing:
    """What an address names: one file, the files of a folder, or those that match a pattern.

    `file` is the one file; otherwise `found` are the files, each as its folders and its name, below the folder `top`.
    """

    def __init__(self, text: str) -> None:
        self._address = StoreAddress.of(text)
        self.shown = self._address.public().partition("?")[0]
        self._store, self._sizes = Store(self._address), dict[tuple[str, ...], int]()
        self._stays_here = self._address.stays_here()
        web = self._address.scheme in ("http", "https")
        self.is_pattern = _is_store_wildcard(self._address.path) and not web
        with self._store.explained(self.shown):
            self.file = None if self.is_pattern else self._one_file(web)
            self.top = self._top()
            self.found = [] if self.file is not None else self._list()

    def _one_file(self, must: bool) -> StorePath | None:
        is_bucket = self._address.scheme != "memory" and not self._address.path
        if is_bucket or self._address.path.endswith("/"):
            return None
        path = store_path(self._address.public(), store=self._store)
        path.key, path.named, path.stays_here = self._store.key(self._address), True, self._stays_here
        try:
            path.version()
        except (FileNotFoundError, IsADirectoryError):
            if must:
                raise
            return None
        return path

    def _top(self) -> str:
        """The folder to list: the address itself, or what is before its first wildcard."""
        parts = self._address.path.rstrip("/").split("/")
        fixed = next((k for k, part in enumerate(parts) if self.is_pattern and _is_store_wildcard(part)), len(parts))
        return "/".join(parts[:fixed])

    def _list(self) -> list[tuple[str, ...]]:
        from pyarrow.fs import FileSelector, FileType

        root = self._store.key(replace(self._address, path=self.top)).rstrip("/")
        prefix = f"{root.strip('/')}/".lstrip("/")
        for info in self._store.system.get_file_info(FileSelector(root or "/", recursive=True)):
            if info.type == FileType.File:
                self._sizes[tuple(info.path.lstrip("/").removeprefix(prefix).split("/"))] = info.size
        if not self.is_pattern:
            return sorted(self._sizes)
        patterns = self._address.path.rstrip("/")[len(self.top) :].lstrip("/").split("/")
        return sorted(parts for parts in self._sizes if _store_path_matches_pattern(parts, patterns))

    @property
    def place(self) -> tuple[str, Any, str]:
        """The store, its file system, and what the folder is called there."""
        root = replace(self._address, path="")
        return root.public(), self._store.system, self._store.key(replace(root, path=self.top))

    @property
    def listed(self) -> Collection[tuple[str, ...]]:
        """All files below the folder, whether they match or not."""
        return self._sizes.keys()

    def path(self, parts: tuple[str, ...], folders: Mapping[str, str | None]) -> StorePath:
        """The path of one of the files that were found."""
        place = "/".join(([self.top] if self.top else []) + list(parts))
        path = store_path(self._address.public(place), folders, self._store)
        path.key, path.size = self._store.key(replace(self._address, path=place)), self._sizes[parts]
        path.stays_here = self._stays_here
        return path


def _is_store_wildcard(part: str) -> bool:
    return any(c in part for c in WILDCARDS)


def _store_path_matches_pattern(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether folders and a name match a pattern, taken apart alike: ** stands for any folders, as in `glob`."""
    if not patterns:
        return not names
    if patterns[0] == "**":
        shown = next((k for k, name in enumerate(names) if name.startswith(".")), len(names))
        return any(_store_path_matches_pattern(names[k:], patterns[1:]) for k in range(shown + 1))
    if not names or (names[0].startswith(".") and not patterns[0].startswith(".")):
        return False
    return fnmatch.fnmatchcase(names[0], patterns[0]) and _store_path_matches_pattern(names[1:], patterns[1:])
