"""Paths of table files that know more than their names say: what people call them, their kind, and their folders."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.platform == "win32":
    from pathlib import WindowsPath as _Base
else:
    from pathlib import PosixPath as _Base


class NamedPath(_Base):
    """The path of a table file, which messages call `shown`.

    `kind` is that of the file, where its name does not say so. `folders` are the columns that only folders name, such
    as `year=2024`, with their values as texts; None where one says that the value is missing. `owner` is whatever must
    live as long as the file is to be read.
    """

    place: str
    shown: str
    kind: str | None
    folders: Mapping[str, str | None]
    owner: Any

    def __str__(self) -> str:
        return self.shown

    def __fspath__(self) -> str:
        return self.place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and os.fspath(other) == self.place

    def __hash__(self) -> int:
        return hash(self.place)

    def __reduce__(self) -> tuple[Any, ...]:
        return named_path, (os.path.abspath(self.place), self.shown, self.kind, dict(self.folders))


def named_path(
    place: str | os.PathLike[str],
    shown: str | None = None,
    kind: str | None = None,
    folders: Mapping[str, str | None] | None = None,
    owner: Any = None,
) -> NamedPath:
    """A path that knows these things; messages call it by its place if nothing else is said."""
    path = NamedPath(place)
    path.place = os.fspath(place)
    path.shown, path.kind = path.place if shown is None else shown, kind
    path.folders, path.owner = dict(folders or {}), owner
    return path


def folder_columns_of_path(path: Path) -> Mapping[str, str | None]:
    """The columns that only folders name, with their values; none for a path that was named as it is."""
    return path.folders if isinstance(path, NamedPath) else {}
