"""Looking at a table as private crafting does, and comparing what was seen of two neighbours.

`look` opens a table, reads it and runs the passes of the mechanisms without noise. `differences` is the one judge: the
pairs that are drawn and the dependences that are planted go through it alike.
"""

import json
import re
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import flat
from radoboost.errors import RadoError
from radoboost.holder.engines import get_engine
from radoboost.holder.feature_maps import Columns, make_feature_map, map_table
from radoboost.holder.mechanisms.moments.aggregations import SphereRows, SumProducts, WhitenedRows
from radoboost.holder.mechanisms.record_level import clip_record_rows
from radoboost.holder.runners.row_cache import RowBatch
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.release.columns import Column, constant_column
from radoboost.tables import open_table
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.person_ids import distinct_person_ids
from radoboost.tables.schema import Schema
from radoboost.tables.table import Table

STEP = 2.0**-22
BOUNDS = {"a": (-2.0, 12.5), "b": (0.0, 40.0)}
WHITENING = np.array([[1.0, 0.25, -0.125], [0.25, 0.75, 0.0625], [-0.125, 0.0625, 0.5]])
RAW = "an exception of a library"  # never right, even where both tables of a pair meet it
FOR_THE_HOLDER = ("ClippedWarning", "IgnoredRowsWarning")  # counts; they go into no release
# Processor time may grow by this factor and these seconds. Half a second is a hundred times what a pair takes, and it
# must be passed in five runs out of five, which noise of the machine does not do: processor time leaves out waiting.
SLOWER, SECONDS, ATTEMPTS = 20.0, 0.5, 5


@dataclass
class Seen:
    """What was seen of one table: an outcome, warnings, shapes, and integers by row and in all."""

    refusal: str | None = None
    warnings: tuple[str, ...] = ()
    shape: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)
    sums: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def look_at_release(table: Any, y: Any, **options: Any) -> Seen:
    """What a whole release says of itself, but for figures that follow from noise."""
    seen, begun = Seen(), time.process_time()
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        try:
            release = flat.craft(table, y, **options)
            seen.shape = {
                "document": _without_noise(release.to_dict()),
                "blocks": {name: (rows.shape, str(rows.dtype)) for name, rows in release.blocks.items()},
            }
        except RadoError as error:
            seen.refusal = f"{type(error).__name__}: {error}"
        except Exception as error:
            seen.refusal = f"{RAW}: {type(error).__name__}: {error}"
    seen.seconds, seen.warnings = time.process_time() - begun, _texts(notices)
    return seen


def _without_noise(document: dict[str, Any]) -> dict[str, Any]:
    """The document without its random id, the one of a label that nobody named, and what follows from noise.

    That is noisy counts of rows, bounds that were searched, the grid of rados that are drawn, the size of scores, and
    where a plan has centred and scaled columns.
    """
    document = json.loads(re.sub("unnamed [0-9a-f]{32}", "unnamed", json.dumps(document)))
    noisy = {"step"} if document["signatures"]["name"] == "drawn" else set()
    searched = document["mechanism"].get("searched", ())
    columns = [
        _but(column, noisy | ({"low", "high"} if column["name"] in searched else set()))
        for column in document["columns"]
    ]
    mechanism = _but(document["mechanism"], {"score_unit"} | ({"rows"} if document["n_examples"] is None else set()))
    if "plan" in document["mechanism"] and "map" in document:
        inputs = [(entry["name"], "levels" in entry) for entry in document["map"]["inputs"]]
        document = {**document, "map": {"inputs": inputs, "terms": document["map"]["terms"]}}
    named = re.sub(r"unnamed [0-9a-f]{32}", "unnamed", json.dumps(document["statement"]))  # a label that nobody named
    return {**_but(document, {"id"}), "statement": json.loads(named), "columns": columns, "mechanism": mechanism}


def _but(record: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def _texts(notices: list[Any]) -> tuple[str, ...]:
    return tuple(
        f"{notice.category.__name__}: {notice.message}"
        for notice in notices
        if notice.category.__name__ not in FOR_THE_HOLDER
    )


def look(
    table: Any,
    y: Any = None,
    *,
    engine: str = "kernel",
    classes: Any = ("no", "yes"),
    batch: int = 64,
    schema: Schema | None = None,
    columns: Columns = "linear",
    person: str | None = None,
) -> Seen:
    """Everything that private crafting makes of a table before there is noise, and how long it took."""
    seen = Seen()
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        try:
            label, features = ("y", ["a", "b"]) if y is None else (None, None)
            features = None if schema is not None else features
            options = {"schema": schema, "person": person, "row_by_row": True}
            source = open_table(table, y, label=label, features=features, **options)
            _look(seen, *_mapped(source, columns), engine, classes, batch)
        except RadoError as error:
            seen.refusal = f"{type(error).__name__}: {error}"
        except Exception as error:
            seen.refusal = f"{RAW}: {type(error).__name__}: {error}"
    seen.seconds, seen.warnings = time.process_time() - begun, _texts(notices)
    return seen


def _mapped(source: Table, columns: Columns) -> tuple[Table, tuple[Column, ...], tuple[Column, ...] | None]:
    """The table with a feature map before it, if there is one; how its columns are scaled, and how the map's inputs."""
    limits = list(BOUNDS.values()) if source.schema is None else [source.schema.limits()[f] for f in source.features]
    scaled = tuple(Column(f, "bounds", STEP, *limit) for f, limit in zip(source.features, limits, strict=True))
    if columns == "linear":
        return source, scaled, None
    source = map_table(source, make_feature_map(columns, scaled, source.groups))
    return source, tuple(Column(f, "bounds", STEP, -1.0, 1.0) for f in source.features), scaled


def _whitening(n_columns: int) -> Any:
    """A matrix whose entries are small multiples of 1/16."""
    if n_columns == 3:
        return WHITENING
    rows, columns = np.indices((n_columns, n_columns))
    return np.eye(n_columns) + ((3 * rows + 5 * columns) % 7 - 3) / 16


def _look(
    seen: Seen, source: Table, columns: tuple[Column, ...], inputs: Any, name: str, classes: Any, batch_rows: int
) -> None:
    engine, rule = get_engine(name), LabelEncoder("y", classes)
    sphere = SphereRows(engine, rule, columns, True, inputs)
    n_columns = len(columns) + 1
    whitened = WhitenedRows(sphere, _whitening(n_columns))
    pieces: dict[str, list[Any]] = {"sphere": [], "whitened": [], "clipped": [], "signs": [], "persons": []}
    moments = SumProducts(engine, n_columns)
    kinds, second = set(), moments.empty()
    for batch in source.batches(batch_rows):
        with np.errstate(all="ignore"):
            values, signs = batch.values(), rule.signs_or_zero(batch.labels)
            batch = batch._replace(values=partial(np.asarray, values))  # reading once is enough here
            edges, _ = clip_record_rows(values, signs, (*columns, constant_column(STEP)), 1.0, STEP)
        pieces["sphere"].append(sphere.on_sphere(batch)[0].T)
        rows = whitened.rows(batch)
        moments.add(second, 0, RowBatch(batch.n_rows, partial(np.asarray, rows)))
        pieces["whitened"].append(rows.T)
        pieces["clipped"].append(edges)
        pieces["signs"].append(signs[:, None])
        pieces["persons"].append(_persons(batch.persons, batch.n_rows))
        kinds.add(str(values.dtype))
    widths = {"signs": 1, "persons": 1}
    seen.rows = {
        what: np.vstack(parts or [np.zeros((0, widths.get(what, n_columns)), np.int64)]).astype(np.int64)
        for what, parts in pieces.items()
    }
    first = ThreadRunner(1).run(sphere, source)
    seen.sums = {"sphere": first.products, "whitened": second.products, "vector": second.vector}
    seen.shape = {"features": source.features, "label": source.label, **({"kinds": sorted(kinds)} if kinds else {})}


def _persons(persons: Any, n_rows: int) -> Any:
    """A number for whose row each one is, -1 for nobody's; zeros where nobody asked."""
    if persons is None:
        return np.zeros((n_rows, 1), np.int64)
    ids, places = distinct_person_ids(persons)
    numbers = np.array([*(zlib.crc32(one) for one in ids), -1], np.int64)
    return numbers[places][:, None]


def differences(long: Seen, short: Seen, place: int, unit: str) -> list[str]:
    """What one record changed beyond its own contribution; empty where neighbours look alike."""
    if long.refusal != short.refusal or (long.refusal or "").startswith(RAW):
        return [f"outcome: {long.refusal or 'released'} / {short.refusal or 'released'}"]
    found = [] if long.warnings == short.warnings else [f"warnings: {long.warnings} / {short.warnings}"]
    if long.shape | short.shape != short.shape | long.shape:  # no rows have no type of number
        found.append(f"shape: {long.shape} / {short.shape}")
    if long.refusal is not None:
        return found
    for what, rows in long.rows.items():
        others = np.delete(rows, place, axis=0)
        expected = short.rows[what] if unit == "record" else np.delete(short.rows[what], place, axis=0)
        if others.shape != expected.shape or not (others == expected).all():
            found.append(f"other rows: {what}")
    if found:
        return found
    return [
        f"sum: {what}"
        for what in long.sums
        if not (_without(long, what, place) == _rest(short, what, place, unit)).all()
    ]


def _own(seen: Seen, what: str, place: int) -> Any:
    row = seen.rows["whitened" if what == "vector" else what][place]
    return row if what == "vector" else np.outer(row, row)


def _without(seen: Seen, what: str, place: int) -> Any:
    return seen.sums[what] - _own(seen, what, place)


def _rest(seen: Seen, what: str, place: int, unit: str) -> Any:
    return seen.sums[what] if unit == "record" else _without(seen, what, place)


def judged(looks: Sequence[Callable[[], Seen]], place: int, unit: str) -> tuple[list[str], Seen]:
    """What differs between two looks, at the longer table first, in time too; and what was seen of that one."""
    long, short = (this() for this in looks)
    slow = slower(*looks, long.seconds, short.seconds)
    return [*differences(long, short, place, unit), *([slow] if slow else [])], long


def judge_pairs(compared: Callable[[int], list[str] | None], pairs: int, most: int) -> None:
    """Compare so many pairs by their numbers, and fail where any differ, or more than `most` numbers are needed.

    `compared` returns None where there is no such pair.
    """
    done, number, alarms = 0, 0, []
    while done < pairs:
        found = compared(number)
        alarms += [f"{number}: {found}"] if found else []
        done, number = done + (found is not None), number + 1
    assert not alarms
    assert number < most, "too many pairs that the form cannot hold"


def slower(long_look: Any, short_look: Any, long_seconds: float, short_seconds: float) -> str | None:
    """Whether one record costs more time than a few records of its length could: looked at again before it is said."""
    attempts = 1
    while long_seconds > SLOWER * short_seconds + SECONDS:
        if attempts == ATTEMPTS:
            return f"time: {long_seconds:.2f} s / {short_seconds:.3f} s"
        attempts += 1
        long_seconds, short_seconds = min(long_seconds, long_look().seconds), max(short_seconds, short_look().seconds)
    return None
