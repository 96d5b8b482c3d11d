"""What a command must not write over: a release that spent something, and files of another kind than it writes."""

import json
import math
import re
from pathlib import Path
from typing import Annotated

import typer

from radoboost.errors import OutputError, RadoError

RELEASE, MODEL, SHARE, PARTIAL = "a release", "a model", "a share of rows", "partial sums"
COUNTS, RECORDS = "counts of rows", "records that an attack got"
SCORES, PROGRAM, SCHEMA, PAGE, SIGNED, OTHER = (
    "a table of scores",
    "a program",
    "a schema",
    "a page of radoboost",
    "a sign-off",
    "another file",
)
_KEYS = {"radoboost": RELEASE, "radoboost_model": MODEL, "radoboost_schema": SCHEMA, "radoboost_bounds": SCHEMA}
_COUNTED = "spoiled_by_this_alone"
_SHARES = {"share": SHARE, "partial": PARTIAL}
_HEAD = 1 << 16
_CRAFTED = "crafting again spends more; choose another place with -o, and --compose to count both"
_MOST_JSON = 1 << 28
_OWN_PAGE = b'<meta name="generator" content="radoboost">'
_SIGNED_PAGE = b'<meta name="radoboost-kind" content="sign-off">'
_SCORES = re.compile(r'(?:^|,)"?(?:score"?,"?probability"?,"?prediction|prediction"?,"?probability:)')

ForceFlag = Annotated[
    bool,
    typer.Option("--force", help="Write over a release that promises something, or over a file of another kind."),
]


def keep_files(place: Path, kind: str, force: bool = False, option: str = "-o", advice: str = _CRAFTED) -> None:
    """Refuse to write over a file of another kind than `kind`, or over a release that promises something.

    `advice` says of such a release what writing over it means, and what to do.
    """
    if force or not place.is_file() or place.stat().st_size == 0:
        return  # nothing is lost; a pipe or a device is no file
    present = kind_of(place)
    if present != kind:
        what = f"it is no {kind.partition(' ')[2]}" if kind.startswith("a ") else f"it does not hold {kind}"
        what = what if present == OTHER else f"it is {present}, and not {kind}"
        raise OutputError(
            f"{place} is there, and {what}; choose another place with {option}, or write over it with --force"
        )
    if kind == RELEASE:
        _keep_spent(place, advice)


def kind_of(place: Path, most: int = _MOST_JSON) -> str:
    """What a file is, by what is in it; of records that an attack got, by its name.

    JSON of more than `most` bytes is not looked into.
    """
    try:
        with place.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return OTHER  # and writing there says what is wrong
    if head[:4] == b"PAR1":
        return _kind_of_parquet(place)
    if head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
        return OTHER if _OWN_PAGE not in head else SIGNED if _SIGNED_PAGE in head else PAGE
    if head.lstrip()[:1] == b"{":
        return _kind_of_json(place, most)
    if _SCORES.search(head.partition(b"\n")[0].decode("utf-8", "replace")):
        return SCORES
    if place.name.endswith(".reconstructed.csv"):
        return RECORDS
    return PROGRAM if place.suffix in (".onnx", ".py", ".sql") and b"radoboost" in head else OTHER


def _kind_of_parquet(place: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from radoboost.release import SHARE_KEY

    try:
        parquet = pq.ParquetFile(place)
    except (OSError, pa.ArrowException):
        return OTHER
    with parquet:
        documents = parquet.metadata.metadata or {}
        names = ",".join(parquet.schema_arrow.names)
    if SHARE_KEY.encode() in documents:
        return _kind_of_share(documents[SHARE_KEY.encode()])
    return RELEASE if b"radoboost" in documents else SCORES if _SCORES.search(names) else OTHER


def _kind_of_share(text: bytes) -> str:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return OTHER
    kind = document.get("kind") if isinstance(document, dict) else None
    return _SHARES.get(kind, OTHER) if isinstance(kind, str) else OTHER


def _kind_of_json(place: Path, most: int) -> str:
    if place.stat().st_size > most:
        return OTHER
    try:
        document = json.loads(place.read_bytes())
    except (ValueError, RecursionError):
        return OTHER
    if _COUNTED in document:
        return COUNTS
    return next((kind for key, kind in _KEYS.items() if key in document), OTHER)


def _keep_spent(place: Path, advice: str) -> None:
    """Refuse to write over a release that spent some of a budget: its noise cannot be drawn again."""
    from radoboost import load
    from radoboost.release import rounded_up

    try:
        statement = load(place).statement
    except RadoError:
        return  # it is damaged, and nobody can use it
    if math.isfinite(statement.epsilon):
        raise OutputError(
            f"{place} is a release that spent epsilon {rounded_up(statement.epsilon, 4)} ({statement.neighbours}), and "
            f"{advice}, or overwrite it with --force"
        )
