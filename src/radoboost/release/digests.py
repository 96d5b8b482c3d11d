"""Parquet files with one JSON document that ends in the digest of the whole file: releases, shares, partial sums.

The digest is SHA-256 of the file with these 64 characters set to '0'. It detects damage, not forgery. Nothing is parsed
before it is right: a damaged file never reaches the Parquet reader.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from radoboost.errors import ReleaseError

ZEROS = "0" * 64
_MARK = re.compile(rb'"sha256":"([0-9a-f]{64})"\}')
_FOOTER = 8  # the length of the footer, and "PAR1"


class Damaged(ReleaseError):
    """A file that is not as it was written: its digest is not its own, or its end is missing."""


@contextmanager
def with_document(
    draft: Path, schema: pa.Schema, key: str, document: Mapping[str, Any], **options: Any
) -> Iterator[Any]:
    """A Parquet writer for a draft; in the end its file gets the document, under `key`, with a place for the digest.

    The document may still change while rows are written. Then `seal` puts the digest into its place.
    """
    with pq.ParquetWriter(draft, schema, **options) as writer:
        yield writer
        text = json.dumps({**document, "sha256": ZEROS}, separators=(",", ":"), allow_nan=False)
        writer.add_key_value_metadata({key: text})


def seal(draft: Path) -> str:
    """Put the digest of a whole file into its place, and return it."""
    with draft.open("r+b") as file:
        start = digest_start(file, draft)
        assert start is not None
        digest = file_digest(file, start)
        file.seek(start)
        file.write(digest.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    return digest


def checked_digest(file: Any, path: Path, what: str) -> str:
    """The digest of an open file, refused where it is not its own, or there is none; `what` says what it should be."""
    start = digest_start(file, path)
    if start is None:
        raise ReleaseError(f"{path} is not {what}")
    digest = file_digest(file, start)
    file.seek(start)
    if file.read(64) != digest.encode("ascii"):
        raise Damaged(f"{path} is damaged: its digest is not its own; get it again from its maker")
    file.seek(0)
    return digest


def digest_now(place: Path) -> str:
    """The digest of a release as it is now; nothing where it is gone, or damaged."""
    try:
        with place.open("rb") as file:
            return checked_digest(file, place, "a release")
    except (OSError, ReleaseError):
        return ""


def digest_start(file: Any, path: Path) -> int | None:
    """Where the 64 characters of the digest begin in the file; None if it has no digest."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _FOOTER))
    tail = file.read(_FOOTER)
    length = int.from_bytes(tail[:4], "little")
    file.seek(0)
    if b'"radoboost_model"' in file.read(200):
        raise ReleaseError(
            f"{path} is a model, and no release: rado predict, rado show and rado export take it, in Python "
            "rb.load_model; learn from a release, such as NAME.rado.parquet"
        )
    if tail[4:] != b"PAR1" or length + _FOOTER > size:
        raise Damaged(f"{path} is not a whole Parquet file: it is truncated, damaged, or something else")
    footer_start = size - _FOOTER - length
    file.seek(footer_start)
    matches = list(_MARK.finditer(file.read(length)))
    return footer_start + matches[-1].start(1) if matches else None


def file_digest(file: Any, start: int) -> str:
    """SHA-256 of the file with its digest set to zeros."""
    digest = hashlib.sha256()
    file.seek(0)
    left = start
    while left:
        piece = file.read(min(left, 1 << 20))
        digest.update(piece)
        left -= len(piece)
    digest.update(ZEROS.encode("ascii"))
    file.seek(start + len(ZEROS))
    digest.update(file.read())
    return digest.hexdigest()
