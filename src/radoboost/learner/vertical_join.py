"""Two holders of different columns: what both have, whether they code it alike, and one model over all of it.

The model predicts rows that have both parts. Scores are sums over columns, so those of the parts add.
"""

import dataclasses
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.learner.model import Model
from radoboost.learner.moment_completion import RIDGE, PartMoments, complete_moments, solve_completed_moments
from radoboost.release.columns import CONSTANT, SHARED, Column, shared_column_names
from radoboost.release.kind import POOLED_SUMS, SUMS
from radoboost.release.parties import JOINED, Parties, party_sentences
from radoboost.release.release import RADOS, Release, Statement, load
from radoboost.tables.column_selection import list_names
from radoboost.tables.column_types import Category, Date, Ignored, Kind, Number
from radoboost.tables.schema import Schema

SENTENCES = ("assumes", "needs", "cannot_know")  # what a model says about itself, in `learner`
_NAME = "completion"
_BESIDES = ("low", "high", "terms", "fill", "inferred")
_TRUST = "two holders, each of whom sees the rows of its own columns alone, and is trusted with them; of each: {each}"
_SIDES = ("the left release", "the right release")

Vector = NDArray[np.float64]


def join(
    left: Release | str | os.PathLike[str],
    right: Release | str | os.PathLike[str],
    on: Sequence[str] | None = None,
    *,
    ridge: float = RIDGE,
) -> Model:
    """A classifier over the columns of two holders, from a release of each; nobody's rows are matched.

    Both releases are plain and were crafted with `share`: the columns `on` that both have, by default all that both
    share, are coded alike, and so are the classes. Nobody saw a column of one holder beside one of the other. So second
    moments across holders are completed: columns are taken to be unrelated given the shared columns and the label, as
    far as straight lines go. The people need not be the same, if they are of one population.

    The model says what it assumes, needs and cannot know, in `model.learner`. It predicts rows that have the columns of
    both. `ridge` cannot be tuned without matched rows; its default is one for all tables.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, radoboost as rb
    >>> rng = np.random.default_rng(0)
    >>> age, dose, sugar = rng.normal(size=(3, 2000))
    >>> ill = age + dose + sugar > 0
    >>> clinic = rb.craft(pa.table({"age": age, "dose": dose}), ill, schema=rb.Schema(shared=("age",)), seed=1)
    >>> laboratory = rb.craft(pa.table({"age": age, "sugar": sugar}), ill, schema=rb.Schema(shared=("age",)), seed=2)
    >>> model = rb.join(clinic, laboratory, on=["age"])
    >>> model.feature_names
    ('dose', 'sugar', 'age')
    >>> everything = pa.table({"age": age, "dose": dose, "sugar": sugar})
    >>> bool((model.predict(everything) == ill).mean() > 0.95)
    True
    """
    from threadpoolctl import threadpool_limits

    given, releases = (left, right), list[Release]()
    called = [
        str(part) if isinstance(part, str | os.PathLike) else side for part, side in zip(given, _SIDES, strict=True)
    ]
    for part, name in zip(given, called, strict=True):
        releases.append(load(part) if isinstance(part, str | os.PathLike) else part)
        _check_release_to_join(releases[-1], name)
    _check_parties_to_join(releases, called)
    names = _columns_to_join_on(releases, called, on)
    sides = [VerticalParty.of(release, names, side) for release, side in zip(releases, called, strict=True)]
    pair = VerticalPair(sides[0].with_gaps(sides[1], names), sides[1].with_gaps(sides[0], names), names)
    sides = [pair.left, pair.right]
    # On one thread, so that releases give the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        parts = [side.moments(sides[0]) for side in sides]
        theta = solve_completed_moments(*complete_moments(*parts), ridge)
    described = [pair.part(k, release) for k, release in enumerate(releases)]
    learner = {"name": _NAME, "ridge": float(ridge), "on": list(names), "parts": described, **pair.sentences()}
    origin = {
        "n_rados": sum(release.n_rados for release in releases),
        "n_examples": None,
        "mechanism": dict(releases[0].mechanism),
        "signatures": dict(releases[0].signatures),
    }
    statement = _joined_statement([release.statement for release in releases], described)
    return Model(theta, pair.columns, releases[0].classes, learner, origin, statement, pair.schema)


def part_models(model: Model) -> tuple[Model, Model]:
    """A model that `join` made, in two parts, one for each holder: the scores of both parts add up to its scores.

    So a row can be predicted where its two parts do not meet: each holder computes a score of its own columns, and only
    scores travel. The left part has the shared columns and the constant, too. A score of one part alone says nothing
    about probabilities.

    >>> import numpy as np, radoboost as rb
    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> tables = [{"a": x[:, 0], name: x[:, k]} for k, name in ((1, "b"), (2, "c"))]
    >>> model = rb.join(*(rb.craft(table, x.sum(axis=1) > 0, schema=rb.Schema(shared=("a",))) for table in tables))
    >>> left, right = rb.part_models(model)
    >>> scores = left.decision_function(tables[0]) + right.decision_function(tables[1])
    >>> bool(np.allclose(scores, model.decision_function({**tables[0], **tables[1]})))
    True
    """
    if model.learner.get("name") != _NAME:
        raise ArgumentError("only a model that join made has a part for each holder")
    left, right = (set(part["columns"]) for part in model.learner["parts"])
    raw = {} if model.schema is None else {part.name: part.column for part in model.schema.encoded()}
    theirs = [raw.get(column.name, column.name) in right for column in model.columns]
    return _part_of_joined_model(
        model, [not there for there in theirs], left | set(model.learner["on"])
    ), _part_of_joined_model(model, theirs, right)


def _part_of_joined_model(model: Model, kept: Sequence[bool], names: set[str]) -> Model:
    """The model over some of its columns, whose raw names are `names`."""
    schema = model.schema
    if schema is not None:
        schema = schema.only([name for name in schema.used if name in names], ())
    learner = {"name": "part of a completion", "ridge": model.learner["ridge"], "columns": sorted(names)}
    columns = tuple(column for column, there in zip(model.columns, kept, strict=True) if there)
    return replace(model, theta=model.theta[np.array(kept)], columns=columns, learner=learner, schema=schema)


def _check_release_to_join(release: Any, side: str) -> None:
    if not isinstance(release, Release):
        raise ArgumentError(f"join takes two releases, or their paths; {side} is a {type(release).__name__}")
    if math.isfinite(release.statement.epsilon) or release.law not in (SUMS, POOLED_SUMS):
        raise ReleaseError(
            f"{side} is not plain: its rows were shortened or changed by this holder's own columns, or have noise, so "
            "that what both holders share differs; craft both without a promise, and with shared columns (--set "
            "shared=COL,COL)"
        )
    if release.n_classes != 2:
        raise ReleaseError(f"{side} has {release.n_classes} classes, and joining is for two; make two of them")
    if SHARED not in release.blocks:
        raise ReleaseError(
            f"{side} shares no columns; craft it again with Schema(shared=...), the columns that both holders have "
            "(rado craft TABLE --set shared=COL,COL)"
        )
    if release.n_examples is None or release.map is not None:
        raise ReleaseError(f"{side} does not say how many examples it is from, or has a feature map; craft it again")


def _check_parties_to_join(releases: Sequence[Release], called: Sequence[str]) -> None:
    """Refuse one release twice, and classes that are called otherwise."""
    left, right = releases
    if left is right or (left.id and left.id == right.id):
        raise ReleaseError("both releases are the same one; join takes one of each holder")
    if left.classes != right.classes:
        raise ReleaseError(
            f"the classes are coded differently: {left.classes[0]!r} and {left.classes[1]!r} in {called[0]}, "
            f"{right.classes[0]!r} and {right.classes[1]!r} in {called[1]} (negative first); craft both with the same "
            "classes (--classes NEG,POS)"
        )


def _columns_to_join_on(
    releases: Sequence[Release], called: Sequence[str], on: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns to join on: those that are asked for, or all that both share."""
    shares = [shared_column_names(release) or () for release in releases]
    if on is None:
        return tuple(name for name in shares[0] if name in shares[1])
    asked = (on,) if isinstance(on, str) else tuple(on)
    for share, side in zip(shares, called, strict=True):
        if absent := [name for name in asked if name not in share]:
            has = f"it shares {list_names(share)}" if share else "it shares the label alone"
            raise ReleaseError(
                f"{side} does not share {list_names(absent)}; {has}: craft it again with --set shared, or join on "
                "other columns"
            )
    if left := [name for name in shares[0] if name in shares[1] and name not in asked]:
        everything = [name for name in shares[0] if name in shares[1]]
        raise ReleaseError(
            f"both releases share {list_names(left)} too, and what both have is joined on; leave --on out, or write "
            f"--on {shlex.quote(','.join(everything))}"
        )
    return tuple(name for name in shares[0] if name in asked)


@dataclass(frozen=True, eq=False)
class VerticalParty:
    """One holder's columns: its own, and the shared ones in the order in which they are joined.

    `kinds` says what each raw column is; `raw` which raw column each column comes from. `name` is what
    messages call it.
    """

    own: tuple[Column, ...]
    shared: tuple[Column, ...]
    kinds: dict[str, Kind]
    raw: dict[str, str]
    release: Release
    name: str

    @classmethod
    def of(cls, release: Release, names: Sequence[str], side: str) -> "VerticalParty":
        columns = [column for column in release.columns if column.scale != "constant"]
        if release.schema is None:
            raw = {column.name: column.name for column in columns}
            kinds: dict[str, Kind] = {column.name: Number(fill=column.neutral) for column in columns}
        else:
            raw = {part.name: part.column for part in release.schema.encoded()}
            kinds = {name: release.schema.columns[name] for name in release.schema.used}
        shared = tuple(column for name in names for column in columns if raw[column.name] == name)
        own = tuple(column for column in columns if raw[column.name] not in names)
        if not own:
            raise ReleaseError(f"{side} has no columns besides the shared ones; learn from the other one alone")
        return cls(own, shared, kinds, raw, release, side)

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.raw[column.name] for column in self.own))

    def with_gaps(self, other: "VerticalParty", names: Sequence[str]) -> "VerticalParty":
        """The same, with a column for gaps of each shared column that has some at the `other` side alone: none here.

        It is 0 in every row, and so are its sums.
        """
        kinds, raw, shared = dict(self.kinds), dict(self.raw), []
        for name in names:
            mine, theirs, gaps = self.kinds[name], other.kinds[name], f"{name}=(missing)"
            columns = [column for column in self.shared if self.raw[column.name] == name]
            slots = [column.name for column in other.shared if other.raw[column.name] == name]
            if mine.kind == theirs.kind and gaps in slots and gaps not in self.raw:
                fill = {} if isinstance(theirs, Category | Ignored) else {"fill": theirs.fill}
                kinds[name] = dataclasses.replace(mine, gaps=True, **fill)  # type: ignore[arg-type]
                raw[gaps] = name
                columns.insert(slots.index(gaps), Column(gaps, "none", 1.0))
            shared += columns
        return replace(self, kinds=kinds, raw=raw, shared=tuple(shared))

    def moments(self, first: "VerticalParty") -> PartMoments:
        """Moments per person, with the shared columns in the units of the `first` side, and gaps filled as there."""
        release = self.release
        names = release.feature_names
        rados = dict(zip(names, release.blocks[RADOS].T, strict=True))
        plain = dict(zip(release.block_columns[SHARED], release.blocks[SHARED].T, strict=True))
        for sums in (rados, plain):
            sums.update({column.name: np.zeros(release.n_rados) for column in self.shared if column.name not in sums})
        edges = [rados[column.name] for column in self.own]
        for sums in (rados, plain):
            edges += [
                self._converted(sums, mine, theirs, first)
                for mine, theirs in zip(self.shared, first.shared, strict=True)
            ]
            edges.append(sums[CONSTANT])
        assert release.n_examples is not None
        return PartMoments.of_sums(np.column_stack(edges), len(self.own), release.n_examples)

    def _converted(self, sums: Mapping[str, Vector], mine: Column, theirs: Column, first: "VerticalParty") -> Vector:
        """Sums of a shared column as the `first` side has it.

        Where gaps are filled otherwise, the column that says where they are tells how much each sum is off: exactly.
        """
        slope, shift = _conversion_between_scales(mine, theirs)
        total = slope * sums[mine.name] + shift * sums[CONSTANT]
        gaps = next((column for column in self.shared if column.name == f"{mine.name}=(missing)"), None)
        kinds = [side.kinds[self.raw[mine.name]] for side in (self, first)]
        if gaps is None or not all(isinstance(kind, Number | Date) for kind in kinds):
            return total
        fills = [np.array([kind.filled()]) for kind in kinds if isinstance(kind, Number | Date)]
        off = float((theirs.apply(fills[1]) - slope * mine.apply(fills[0]) - shift)[0])
        per_gap, rest = _conversion_between_scales(gaps, Column(gaps.name, "none", 1.0))
        return total + off * (per_gap * sums[gaps.name] + rest * sums[CONSTANT])


def _conversion_between_scales(mine: Column, theirs: Column) -> tuple[float, float]:
    """Slope and shift that make a value of one column, scaled by its constants, one that is scaled by another's."""
    if mine.constants[2:] == theirs.constants[2:]:
        return 1.0, 0.0
    _, _, shift, factor, divisor, offset = mine.constants
    _, _, new_shift, new_factor, new_divisor, new_offset = theirs.constants
    unit, new_unit = divisor / factor, new_divisor / new_factor
    return unit / new_unit, (offset * unit + shift - new_shift) / new_unit - new_offset


@dataclass(frozen=True, eq=False)
class VerticalPair:
    """Two holders' columns together, refused where they do not go together; raw columns `on` are shared."""

    left: VerticalParty
    right: VerticalParty
    on: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.on:
            if why := _difference_in_coding_text(self.left, self.right, name):
                raise ReleaseError(
                    f"the shared column {name!r} is coded differently: {why}; declare it alike in the schema or the "
                    "bounds of both holders (--schema), and craft again"
                )
        twice = [name for name in self.left.own_names if name in self.right.own_names]
        encoded = {column.name for column in self.left.own} & {column.name for column in self.right.own}
        if twice or encoded:
            names = twice or sorted(encoded)
            it = "it" if len(names) == 1 else "them"
            raise ReleaseError(
                f"both holders have {list_names(names)}, and do not both share {it}; share {it} at both (--set "
                f"shared), or leave {it} out or rename {it} at one"
            )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The left holder's own, the right one's, the shared ones in the left one's units, and the constant."""
        return (*self.left.own, *self.right.own, *self.left.shared, self.left.release.columns[-1])

    @property
    def schema(self) -> Schema | None:
        """How raw rows with all columns are read; None where all columns are numbers without gaps."""
        schemas = [side.release.schema for side in (self.left, self.right)]
        present = [schema for schema in schemas if schema is not None]
        if not present:
            return None
        kinds = {name: self.left.kinds[name] for name in self.left.own_names}
        kinds |= {name: self.right.kinds[name] for name in self.right.own_names}
        kinds |= {name: self.left.kinds[name] for name in self.on}
        marks = {(schema.separator, schema.decimal, schema.thousands, schema.records) for schema in present}
        separator, decimal, thousands, records = marks.pop() if len(marks) == 1 else (None, ".", None, None)
        return Schema(
            kinds,
            separator=separator,
            decimal=decimal,
            thousands=thousands,
            records=records,
            inferred=("dialect",) if any("dialect" in schema.inferred for schema in present) else (),
            corrected=tuple(name for name in kinds if any(name in schema.corrected for schema in present)),
        )

    def part(self, place: int, release: Release) -> dict[str, Any]:
        """What one holder gave, as data."""
        side = (self.left, self.right)[place]
        return {
            "columns": list(side.own_names),
            "rows": release.n_examples,
            "rados": release.n_rados,
            **({"id": release.id} if release.id else {}),
        }

    def sentences(self) -> dict[str, str]:
        """What the model assumes, what it needs, and what it cannot know."""
        ours, theirs = list_names(self.left.own_names), list_names(self.right.own_names)
        given = f"{list_names(self.on)} and the label" if self.on else "the label"
        return {
            "assumes": f"assumes that {ours} of one holder and {theirs} of the other are unrelated given {given}, as "
            "far as straight lines go, and that the rows of both are of one population",
            "needs": "needs both parts of a row to predict it: scores are sums over columns, so those of the parts add",
            "cannot_know": f"cannot know how {ours} and {theirs} go together beyond that, for nobody saw them in one "
            "row; nor how often it errs, until somebody has rows with both parts",
        }


def _difference_in_coding_text(left: VerticalParty, right: VerticalParty, name: str) -> str:
    """How the coding of a shared raw column differs, in words; empty where it does not."""
    kinds = [side.kinds[name] for side in (left, right)]
    if kinds[0].kind != kinds[1].kind:
        return f"a {kinds[0].kind} in {left.name}, a {kinds[1].kind} in {right.name}"
    slots = [[column.name for column in side.shared if side.raw[column.name] == name] for side in (left, right)]
    if slots[0] != slots[1]:
        return f"it becomes {list_names(slots[0])} in {left.name}, and {list_names(slots[1])} in {right.name}"
    ours, theirs = map(_reading_of_shared_kind, kinds)
    for key in ours:
        if ours[key] != theirs[key]:
            return f'"{key}" is {ours[key]!r} in {left.name}, and {theirs[key]!r} in {right.name}'
    for mine, other in zip(left.shared, right.shared, strict=True):
        if left.raw[mine.name] == name and mine.constants[:2] != other.constants[:2]:
            own, others = _range_of_column_text(mine), _range_of_column_text(other)
            return f"clipped to {own} in {left.name}, and to {others} in {right.name}"
    return ""


def _reading_of_shared_kind(kind: Kind) -> dict[str, Any]:
    """What matters about how cells become numbers, besides bounds; what fills gaps is converted."""
    return {name: value for name, value in dataclasses.asdict(kind).items() if name not in _BESIDES}


def _range_of_column_text(column: Column) -> str:
    return "nothing" if column.low is None else f"[{column.low:g}, {column.high:g}]"


def _joined_statement(statements: Sequence[Statement], parts: Sequence[dict[str, Any]]) -> Statement:
    """The statement of what was learned from both: neither promises anything, and all that either exposes stands."""
    exposed = dict.fromkeys(sentence for statement in statements for sentence in statement.not_protected)
    return replace(
        statements[0],
        not_protected=tuple(exposed),
        trust_model=_TRUST.format(each=party_sentences(statement.trust_model for statement in statements)),
        random_source=party_sentences(statement.random_source for statement in statements),
        holders=Parties(JOINED, tuple(parts)),
    )
