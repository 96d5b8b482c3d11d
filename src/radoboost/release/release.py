"""What leaves the building: rados, what they mean, and what is promised about them, in one Parquet file.

The file's first column, `block`, says which block a row belongs to; the others are the features in float64. The
key-value metadata hold one JSON document, `radoboost`. Its `sha256` is the digest of the whole file with these 64
characters set to '0': it detects damage, not forgery. No field could hold a key or a signature.
"""

import dataclasses
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, OutputError, ReleaseError, on_failure, reason
from radoboost.release import file_format
from radoboost.release.columns import Column, check_shared_columns, columns_from_json
from radoboost.release.feature_map import FeatureMap
from radoboost.release.file_format import RADOS as RADOS
from radoboost.release.file_format import class_block_name as class_block_name
from radoboost.release.kind import MOMENT_BLOCKS, release_kind
from radoboost.release.parties import Parties
from radoboost.release.statement_check import as_contradictions, check_release_statement, check_statement
from radoboost.tables.class_values import classes_are_of_one_kind
from radoboost.tables.schema import Schema

FORMAT = 1
_KEY = "radoboost"
SHARE_KEY = "radoboost_share"
_ID = re.compile("([0-9a-f]{32})?")


@dataclass(frozen=True)
class Statement:
    """What was done, what is promised, and what is not. The words are those of NIST SP 800-226 where it has them.

    `neighbours` is the relation between tables that epsilon and delta speak of; an infinite epsilon promises nothing.
    `epsilon_at` pairs other deltas with their epsilons. `best_guess` is how often an adversary who would otherwise
    toss a coin can be right about which of two neighbours the table was. `event` says what was done, as data for
    accountants; `composed` says what this release and earlier ones of the same table amount to together. Where several
    holders made it, `holders` says who gave what, and what is promised in cases that a single holder does not have.
    """

    mechanism: str
    neighbours: str
    epsilon: float
    delta: float
    accountant: str
    promises: tuple[str, ...]
    not_protected: tuple[str, ...]
    unit_of_privacy: str
    trust_model: str
    random_source: str
    best_guess: float
    epsilon_at: tuple[tuple[float, float], ...]
    event: Mapping[str, Any]
    composed: Mapping[str, Any] | None = None
    holders: Parties | None = None

    def to_dict(self) -> dict[str, Any]:
        """The statement as JSON data; JSON has no infinity, so an infinite epsilon is the word."""
        return {
            "mechanism": self.mechanism,
            "unit_of_privacy": self.unit_of_privacy,
            "neighbours": self.neighbours,
            "epsilon": epsilon_as_json(self.epsilon),
            "delta": self.delta,
            "epsilon_at": [{"delta": delta, "epsilon": epsilon_as_json(epsilon)} for delta, epsilon in self.epsilon_at],
            "best_guess": self.best_guess,
            "accountant": self.accountant,
            "trust_model": self.trust_model,
            "random_source": self.random_source,
            "promises": list(self.promises),
            "not_protected": list(self.not_protected),
            "event": dict(self.event),
            "composed": None if self.composed is None else dict(self.composed),
            **({} if self.holders is None else {"holders": self.holders.to_dict()}),
        }

    def to_json(self) -> str:
        """The statement as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "Statement":
        """A statement from a release document."""
        sentences = [*entry["promises"], *entry["not_protected"]]
        if not all(isinstance(sentence, str) for sentence in sentences) or isinstance(entry["promises"], str):
            raise ReleaseError("the statement's sentences are not text")
        return cls(
            mechanism=entry["mechanism"],
            unit_of_privacy=entry["unit_of_privacy"],
            neighbours=entry["neighbours"],
            epsilon=_parse_epsilon(entry["epsilon"]),
            delta=float(entry["delta"]),
            epsilon_at=tuple((float(pair["delta"]), _parse_epsilon(pair["epsilon"])) for pair in entry["epsilon_at"]),
            best_guess=float(entry["best_guess"]),
            accountant=entry["accountant"],
            trust_model=entry["trust_model"],
            random_source=entry["random_source"],
            promises=tuple(entry["promises"]),
            not_protected=tuple(entry["not_protected"]),
            event=dict(entry["event"]),
            composed=None if entry["composed"] is None else dict(entry["composed"]),
            holders=Parties.from_dict(entry["holders"]) if "holders" in entry else None,
        )


def read_statement(entry: Mapping[str, Any]) -> Statement:
    """The statement of a file, refused where it promises more than its own event does."""
    statement = Statement.from_dict(entry)
    with as_contradictions():
        check_statement(statement)
    return statement


def epsilon_as_json(epsilon: float) -> float | str:
    """An epsilon as JSON data, which has no infinity."""
    return "infinite" if math.isinf(epsilon) else epsilon


def rounded_up_text(value: float, digits: int) -> str:
    """A number for people, never below the number itself."""
    if math.isinf(value):
        return "infinite"
    if float(nearest := f"{value:.{digits}g}") >= value:
        return nearest  # as it was asked for, where it has so few digits
    up = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(value)
    return f"{float(up):.{digits}g}"


def percent_up_text(share: float) -> str:
    """A share in per cent with one decimal, never below the share itself."""
    exact = Decimal(repr(share)) * 100
    return str(exact.quantize(Decimal("0.1"), rounding=ROUND_CEILING))


def _parse_epsilon(epsilon: float | str) -> float:
    number = math.inf if epsilon == "infinite" else float(epsilon)
    if not number >= 0:
        raise ReleaseError(f"the statement's epsilon is {epsilon!r}, which is not an epsilon")
    return number


@dataclass(frozen=True, eq=False)
class Release:
    """Rados with everything that a learner needs to know about them.

    `blocks` maps a block's name to its rows; of two `classes` the negative one is first; `mechanism` and `signatures`
    describe as data how the rados were made; `n_examples` is None where the neighbour relation hides it. `id` is
    random, made when the release was crafted, and tells releases apart that are composed; seeded ones have none.
    `schema` says how rows of a raw table become columns of numbers; None where the table's own columns are. `map` says
    how the columns of the release are made of those; None where they are those. `block_columns` names the columns of
    every block that has columns of its own; all others have those of the release.
    `digest` is that of the file it was read from or saved to. `after_save` is told it whenever the release is saved,
    and `unless_saved` is told why where it is not.

    >>> import radoboost as rb
    >>> release = rb.craft([[1.0], [2.0], [3.0]], [0, 1, 1], n_rados=4, seed=0)
    >>> release.rados.shape, release.feature_names, release.statement.epsilon
    ((4, 2), ('x0', '(constant)'), inf)
    """

    blocks: Mapping[str, NDArray[np.float64]]
    columns: tuple[Column, ...]
    classes: tuple[Any, ...]
    mechanism: Mapping[str, Any]
    signatures: Mapping[str, Any]  # name and parameters of the set, never a bit of it
    statement: Statement
    n_examples: int | None
    id: str = ""
    schema: Schema | None = None
    map: FeatureMap | None = None
    block_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    after_save: Callable[[str], None] | None = field(default=None, repr=False)
    unless_saved: Callable[[BaseException], None] | None = field(default=None, repr=False)
    digest: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        frozen = {}
        for name, rows in self.blocks.items():
            rows = np.ascontiguousarray(rows, dtype=np.float64)
            rows.flags.writeable = False
            width = len(self.columns_of(name))
            if rows.ndim != 2 or rows.shape[1] != width:
                raise ReleaseError(f"block {name!r} has shape {rows.shape}; there are {width} columns")
            frozen[name] = rows
        object.__setattr__(self, "blocks", MappingProxyType(frozen))
        check_feature_map_columns(self.map, self.columns)
        check_block_columns(self.block_columns, self.blocks)
        check_shared_columns(self.blocks, self.feature_names, self.block_columns)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled; what it shows can.
        state = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        return partial(Release, **{**state, "blocks": dict(self.blocks)}), ()

    @property
    def rados(self) -> NDArray[np.float64]:
        """The rados, shape (n_rados, n_features): read-only, every value on its column's grid."""
        if self.n_classes > 2:
            raise ReleaseError(
                f"a release of {self.n_classes} classes has no rados with a sign for each row; release.blocks has what "
                "there is for each class"
            )
        if RADOS not in self.blocks:
            raise ReleaseError(
                "this release holds moments and no rados; draw some from it with draw_rados(release), or ask craft for "
                "them with n_rados=1000 (-n 1000)"
            )
        return self.blocks[RADOS]

    @property
    def n_rados(self) -> int:
        """How many rados there are; a release of moments needs none."""
        return next((len(rows) for name, rows in self.blocks.items() if file_format.is_rado_block_name(name)), 0)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @property
    def law(self) -> str:
        """What kind of numbers the blocks hold: one of `radoboost.release.kind.LAWS`, or "unknown"."""
        return release_kind(self.mechanism)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features in order; the constant one, if any, is last."""
        return tuple(column.name for column in self.columns)

    def columns_of(self, block: str) -> tuple[str, ...]:
        """The columns of a block: those of the release, unless it has its own."""
        return tuple(self.block_columns.get(block, self.feature_names))

    def _layout(self) -> dict[str, file_format.BlockLayout]:
        return {
            name: file_format.BlockLayout.of(name, rows, self.block_columns.get(name))
            for name, rows in self.blocks.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rados themselves, as the JSON data in the file."""
        return {
            "format": FORMAT,
            **({"id": self.id} if self.id else {}),
            "blocks": [{"name": name, **block.to_dict()} for name, block in self._layout().items()],
            "columns": [column.to_dict() for column in self.columns],
            **({} if self.schema is None else {"schema": self.schema.to_dict()}),
            **({} if self.map is None else {"map": self.map.to_dict()}),
            "classes": list(self.classes),
            "mechanism": dict(self.mechanism),
            "signatures": dict(self.signatures),
            "statement": self.statement.to_dict(),
            "n_examples": self.n_examples,
        }

    def save(self, path: str | os.PathLike[str], *, fresh: bool = False) -> None:
        """Write the release to one Parquet file, whole or not at all; with `fresh`, over no file that is there."""
        with on_failure(self.unless_saved), atomic_write(Path(path), fresh=fresh) as draft:
            table = file_format.blocks_to_table(self.blocks, self.feature_names, self._layout())
            with file_format.parquet_writer_with_document(
                draft, table.schema, _KEY, self.to_dict(), use_dictionary=[file_format.BLOCK_COLUMN]
            ) as writer:
                writer.write_table(table)
            digest = file_format.seal_release_file(draft)
        object.__setattr__(self, "digest", digest)
        if self.after_save is not None:
            self.after_save(digest)


def load(path: str | os.PathLike[str]) -> Release:
    """Read a release, refusing a file that is truncated, altered, of an unknown version, or that promises too much.

    Its epsilons are computed anew from what the file says was done, and the noise that it declares for noisy moments is
    held against that. Nobody can tell from a file that this noise was added: that is its maker's word.

    >>> import radoboost as rb, tempfile, pathlib
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "small.rado.parquet"
    >>> rb.craft([[1.0], [2.0], [3.0]], [0, 1, 1], n_rados=4).save(place)
    >>> rb.load(place).n_rados
    4
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            digest = file_format.check_file_digest(
                file, path, "a radoboost release: it holds no radoboost document; of a table, rado craft makes one"
            )
            try:
                parquet = pq.ParquetFile(file)
                _refuse_share_as_release(parquet.metadata.metadata)
                release = _parse_release(json.loads(parquet.metadata.metadata[_KEY.encode()]), parquet)
                with as_contradictions():
                    check_release_statement(release)
                object.__setattr__(release, "digest", digest)
                return release
            except ReleaseError as error:
                raise type(error)(f"{path}: {error}") from None
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException):
                raise ReleaseError(f"{path} is not a radoboost release: its document is incomplete") from None
    except OSError as error:
        raise ReleaseError(f"cannot read {path}: {reason(error)}") from None
    except ValueError as error:
        if isinstance(error, ReleaseError):
            raise
        raise ReleaseError(f"cannot read {str(path)!r}: {error}") from None


def _refuse_share_as_release(metadata: Mapping[bytes, bytes]) -> None:
    """Refuse a file that is on the way to a release."""
    if SHARE_KEY.encode() in metadata:
        raise ReleaseError(
            "these are rows or sums in shares or encrypted, and no release: rado share sum takes shares of rows, "
            "and rado merge what it makes of both of them"
        )


def _parse_release(document: Mapping[str, Any], parquet: pq.ParquetFile) -> Release:
    if document["format"] != FORMAT:
        raise ReleaseError(f"unknown version: the release has format {document['format']!r}, not {FORMAT}")
    columns = columns_from_json(document["columns"])
    layout = {block["name"]: file_format.BlockLayout.from_dict(block["name"], block) for block in document["blocks"]}
    blocks = file_format.blocks_from_table(parquet.read(), [column.name for column in columns], layout)
    classes = read_release_classes(document)
    rados = {RADOS} if len(classes) == 2 else {class_block_name(value) for value in classes}
    if rados - set(blocks) and not MOMENT_BLOCKS.get(release_kind(document["mechanism"]), rados) <= set(blocks):
        raise ReleaseError("the release has no rados, and no moments from which they could be drawn")
    if len({len(blocks[name]) for name in rados & set(blocks)}) > 1:
        raise ReleaseError("the classes of the release have different numbers of rados")
    n_examples = document["n_examples"]
    if not (n_examples is None or isinstance(n_examples, int)):
        raise ReleaseError("the release does not say how many examples it is from")
    feature_map = read_feature_map(document)
    name = document.get("id", "")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise ReleaseError(f"the id of the release is {str(name)[:40]!r}, which is not an id")
    return Release(
        blocks=blocks,
        columns=columns,
        classes=classes,
        mechanism={"name": document["mechanism"]["name"], **document["mechanism"]},
        signatures={"name": document["signatures"]["name"], **document["signatures"]},
        statement=read_statement(document["statement"]),
        n_examples=n_examples,
        id=name,
        schema=read_release_schema(document, columns, feature_map),
        map=feature_map,
        block_columns={name: block.columns for name, block in layout.items() if block.columns is not None},
    )


def read_release_classes(document: Mapping[str, Any]) -> tuple[Any, ...]:
    classes = tuple(document["classes"])
    if len(classes) < 2 or len(set(map(str, classes))) < len(classes) or not classes_are_of_one_kind(classes):
        raise ReleaseError("a release has at least two classes, all of them different and of one kind")
    return classes


def read_feature_map(document: Mapping[str, Any]) -> FeatureMap | None:
    """The feature map in the document of a release or a model; None where it has none."""
    return FeatureMap.from_dict(document["map"]) if "map" in document else None


def check_feature_map_columns(feature_map: FeatureMap | None, columns: Sequence[Column]) -> None:
    """Refuse a feature map that makes other columns than those of the release or the model."""
    names = tuple(column.name for column in columns if column.scale != "constant")
    if feature_map is not None and feature_map.output_names != names:
        raise ReleaseError("the columns are not those that the feature map makes")


def check_block_columns(block_columns: Mapping[str, tuple[str, ...]], blocks: Mapping[str, Any]) -> None:
    """Refuse columns of blocks that are not there, of the rados, or that no table could have."""
    wrong = [name for name in block_columns if name not in blocks or file_format.is_rado_block_name(name)]
    if wrong:
        raise ReleaseError(f"{wrong[0]!r} cannot have columns of its own: it is no block, or the rados")
    for block, names in block_columns.items():
        usable = names and all(isinstance(name, str) and name != file_format.BLOCK_COLUMN for name in names)
        if not usable or len(set(names)) != len(names):
            raise ReleaseError(
                f"the columns of block {block!r} must have different names, and none {file_format.BLOCK_COLUMN!r}"
            )


def read_release_schema(
    document: Mapping[str, Any], columns: Sequence[Column], feature_map: FeatureMap | None = None
) -> Schema | None:
    """The schema in the document of a release or a model, refused where its encoded columns are others."""
    if "schema" not in document:
        return None
    try:
        schema = Schema.from_dict(document["schema"])
    except ArgumentError as error:
        raise ReleaseError(str(error)) from None
    names = [column.name for column in columns if column.scale != "constant"]
    if [part.name for part in schema.encoded()] != (names if feature_map is None else list(feature_map.input_names)):
        raise ReleaseError("the columns are not those that its schema makes")
    return schema


@contextmanager
def atomic_write(path: Path, *, fresh: bool = False, secret: bool = False) -> Iterator[Path]:
    """The path of a draft to write to; it becomes `path` if all goes well, and is removed if not.

    With `fresh` it does not become `path` where something is there by then, whoever put it there. What is `secret` can
    be read by its owner alone, from the first byte on.
    """
    from radoboost.tables.urls import refuse_store_as_output

    refuse_store_as_output(path)
    try:
        target = Path(os.path.realpath(path))  # a link stays, and its target is replaced
        if target.exists() and not target.is_file():
            raise OutputError(f"cannot write {path}: it exists and is not a file; choose another place")
        draft = target.with_name(f".{secrets.token_hex(6)}.part")
    except (OSError, ValueError) as error:
        raise _output_error_of_write(path, error) from None
    try:
        if secret:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield draft
        if fresh:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # which only one can do
        os.replace(draft, target)
    except OSError as error:
        raise _output_error_of_write(path, error) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _output_error_of_write(path: Path, error: OSError | ValueError) -> OutputError:
    if isinstance(error, OutputError):
        return error
    why = reason(error) if isinstance(error, OSError) else str(error)
    return OutputError(f"cannot write {path}: {why}; choose another place")
