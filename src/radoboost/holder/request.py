"""What the caller of `craft` asked for, on its way to a mechanism."""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.declared_bounds import declared_limits_as_numbers
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.feature_maps import Columns, check_feature_map_argument, number_of_map_columns
from radoboost.holder.keystream import make_key
from radoboost.holder.runners.threads import check_threads
from radoboost.holder.signatures import AllSignatures, SignatureSet, check_n_rados
from radoboost.release.composition import EarlierRelease
from radoboost.tables.column_selection import check_column_name
from radoboost.tables.column_types import PRIVATE
from radoboost.tables.labels import check_classes, label_spelling, unnamed_spelling
from radoboost.tables.person_ids import Person
from radoboost.tables.schema import ABOUT_THE_TABLE, Declaration, Schema

if TYPE_CHECKING:
    from radoboost.holder.mechanisms import Mechanism

DEFAULT_RADOS = 1000
_REFUSED = {
    "rows": "only the mechanism moments can say what so many rows carry; leave rows out of the schema",
    "weights": "the promise of {name} is for one record, and one of weight w would count w times; leave weights out of "
    "the schema, or take the mechanism plain, which promises nothing",
    "share": "{name} cannot share columns: releases that are joined are plain for now, because a private one shortens "
    "each row by its own columns, so that what two holders share differs; leave shared out of the schema, or epsilon",
}


@dataclass(frozen=True, eq=False)
class CraftRequest:
    """What the caller of `craft` asked for, checked as far as possible without a table.

    `n_rados` is 0 where no rados are wanted. Signatures are drawn by `signature_key`, and `seeded` says whether that
    follows from a seed. `columns` says which columns the release has: "linear" are the table's own, and what "auto"
    means is the mechanism's. `earlier` are earlier releases of the same table. Noise on sums is drawn in so many
    `noise_shares`, one of each holder of a room; 1 where there is one holder. Labels that are not in the table are
    called `y_name`, which may be empty; one that nobody named is the `one_label` of this call, or of this room, and of
    no other. `row_weights` say how often each row counts, where no column does. Bounds that were `found` stand for the
    declared ones. Which rows of a person contribute, a key from the operating system decides; a `choice_key` is for
    audits and tests.
    """

    schema: Schema
    mechanism: "Mechanism"
    n_rados: int = 0
    signature_key: bytes = field(default=b"", repr=False)
    signatures: SignatureSet | None = None
    columns: Columns = "auto"
    seeded: bool = False
    earlier: tuple[EarlierRelease, ...] = ()
    noise_shares: int = 1
    y_name: str | None = None
    one_label: str = field(default_factory=partial(secrets.token_hex, 16), repr=False)
    row_weights: NDArray[Any] | None = field(default=None, repr=False)
    found: Mapping[str, tuple[float, float]] | None = None
    choice_key: bytes | None = field(default=None, repr=False)

    # What follows from these, for those who read it: the label's column, if it is in the table; of a table of numbers
    # the columns to use, and to drop; of persons, the column and the most rows; weights, one for each row or a column;
    # (low, high) as they were declared or found.
    label: str | None = field(init=False)
    label_name: str = field(init=False)
    classes: tuple[Any, ...] | None = field(init=False)
    features: tuple[str, ...] | None = field(init=False)
    drop: tuple[str, ...] = field(init=False)
    person: str | None = field(init=False)
    max_rows: int = field(init=False)
    rows: int | None = field(init=False)
    weights: Any = field(init=False)
    share: tuple[str, ...] | None = field(init=False)
    intercept: bool = field(init=False)
    scale: str | None = field(init=False)
    first_row: int = field(init=False)
    i_know: bool = field(init=False)
    limits: Any = field(init=False)
    all_private: bool = field(init=False)
    subsets: SignatureSet = field(init=False)
    fixed_columns: Columns = field(init=False)
    groups: Mapping[str, str] = field(init=False)

    @classmethod
    def of(
        cls,
        schema: Declaration,
        mechanism: "Mechanism",
        *,
        y: Any = None,
        label: str | None = None,
        classes: Sequence[Any] | None = None,
        n_rados: int | None = None,
        seed: int | None = None,
        **others: Any,
    ) -> "CraftRequest":
        """What is asked for by a declaration in any of its forms; label and classes are its own, unless they are given.

        What the declaration leaves out, the label and the weights are no features.
        """
        check_column_name("label", label)
        declared, y_name = Schema.of(schema), None if y is None else ""
        if y is not None and getattr(mechanism, "unit", None) == "label":
            y_name, label = name_of_separate_label(y, label) or "", None
        if y is not None and label is not None:
            raise ArgumentError("give the labels once: as y, or as the name of their column in label (--label COL)")
        if classes is not None:
            declared = replace(declared, classes=_listed_classes(classes))
        if label is not None:
            declared = replace(declared, label=label)
        marks = (declared.separator, declared.decimal, declared.thousands, declared.records)
        if mechanism.private and not declared.raw and marks != (None, ".", None, None):
            declared = declared_limits_as_numbers(declared)
        if declared.raw:
            declared = _choose_columns(declared, declared.label if y is None else None)
        others["columns"] = check_feature_map_argument(others.get("columns", "auto"), declared.terms)
        return cls(
            declared,
            mechanism,
            getattr(mechanism, "default_rados", DEFAULT_RADOS) if n_rados is None else check_n_rados(n_rados),
            make_key(seed),
            seeded=seed is not None,
            y_name=y_name,
            **others,
        )

    def __post_init__(self) -> None:
        schema, mechanism, labelled = self.schema, self.mechanism, self.y_name is None
        settings = {"intercept": True, "scale": "bounds", "first_row": 0, "unit": None, "i_know": False} | vars(
            mechanism
        )
        unit = settings["unit"]
        if not isinstance(unit, Person):
            unit = schema.person if mechanism.private and unit != "record" else None
        named = () if schema.weights is None else (schema.weights,)
        vars(self).update(  # once; the request is frozen
            label=schema.label if labelled else None,
            label_name=(schema.label if labelled else None) or "y",
            classes=schema.classes,
            features=None if schema.raw else schema.use,
            drop=() if schema.raw else (*schema.drop, *named),
            person=None if unit is None else unit.column,
            max_rows=1 if unit is None else unit.max_rows,
            rows=schema.rows,
            weights=schema.weights if self.row_weights is None else self.row_weights,
            share=None if schema.shared is None else tuple(dict.fromkeys(schema.shared)),
            intercept=bool(settings["intercept"]),
            scale=settings["scale"],
            first_row=settings["first_row"],
            i_know=settings["i_know"],
            limits=schema.limits() if self.found is None else self.found,
            all_private=self.found is None and schema.numbers == PRIVATE,
            subsets=AllSignatures() if self.signatures is None else self.signatures,
            fixed_columns="linear" if self.columns == "auto" else self.columns,
            groups=schema.groups,
        )

    @cached_property
    def reading(self) -> Schema | None:
        """The schema by which raw rows are read; None of a table of numbers."""
        return self.schema.of_used() if self.schema.raw else None

    @cached_property
    def names(self) -> list[str] | None:
        """The declared columns; None where bounds go by position, or the table says which columns there are."""
        if self.schema.raw:
            return [column.name for column in self.schema.encoded()]
        return list(self.limits) if isinstance(self.limits, Mapping) and not self.all_private else None

    def searched(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns among `names` whose bounds are to be found privately."""
        if self.all_private:
            return tuple(names)
        limits = self.limits
        named = isinstance(limits, Mapping)
        return tuple(name for name in names if named and isinstance(limits.get(name), str) and limits[name] == PRIVATE)

    def refuse_private(self) -> None:
        """Refuse bounds that are to be found privately, for those who cannot."""
        if self.all_private or (self.names is not None and self.searched(self.names)):
            raise ArgumentError(
                "only the mechanism moments finds bounds privately; take it, or declare low and high of every column"
            )

    def with_schema(self, schema: Schema) -> "CraftRequest":
        """The same request of a raw table that a schema was made for, or settled by; what else was declared stays."""
        about = {name: getattr(self.schema, name) for name in ABOUT_THE_TABLE if name not in ("use", "drop")}
        label, classes = self.schema.label or schema.label, self.schema.classes or schema.classes
        schema = replace(schema, label=label, classes=classes, **about)
        return replace(self, schema=_choose_columns(schema, self.label))

    def without_rows(self) -> "CraftRequest":
        """The same request where nobody says how many rows there are."""
        return replace(self, schema=replace(self.schema, rows=None))

    def with_limits(self, limits: Mapping[str, tuple[float, float]]) -> "CraftRequest":
        """The same request of a table of numbers with these bounds, such as a feature map makes."""
        return replace(self, schema=replace(self.schema, columns={}, products=(), use=None, numbers=limits))

    @cached_property
    def numbering(self) -> dict[str, int]:
        """What a release says of the numbers of its rows, where they do not begin with 0."""
        return {"first_row": self.first_row} if self.first_row else {}

    def width(self, features: Sequence[str]) -> int:
        """How many columns a private release of these features has, with the constant one."""
        return number_of_map_columns(self.fixed_columns, features, self.groups, bounded=True) + self.intercept

    @cached_property
    def which_label(self) -> str:
        """The label that a claim is about, as events name it (M21); nothing without classes."""
        if self.classes is None:
            return ""
        name = self.label or self.y_name or None
        return unnamed_spelling(self.one_label, self.classes) if name is None else label_spelling(name, self.classes)

    def refuse_many_classes(self, name: str, classes: Sequence[Any] | None) -> None:
        """Refuse more than two classes, for mechanisms whose rados have a sign for each row."""
        if classes is not None and len(check_classes(classes)) > 2:
            raise ArgumentError(
                f"{name} is for two classes, and there are {len(classes)}; take moments (--epsilon) or plain rados, or "
                "make two classes of them"
            )

    def refuse(self, *fields: str) -> None:
        """Refuse what the mechanism has no use for, or no promise with."""
        for field_name in fields:
            if getattr(self, field_name) is not None:
                raise ArgumentError(_REFUSED[field_name].format(name=self.mechanism.name))

    def check_first_row(self) -> None:
        """Refuse a `first_row` where no coins of rows follow from their numbers, or nobody else has the same coins."""
        if self.first_row and not self.subsets.by_coins:
            raise ArgumentError(
                f"with signatures {self.subsets.name!r} the rows of a table have no coins of their own, so that "
                "numbers of rows say nothing; leave first_row (--set first_row), or the signatures out"
            )
        if self.first_row and not self.seeded:
            raise ArgumentError(
                "first_row numbers the rows of holders who share a seed; give that seed too (--seed), or leave "
                "first_row out (--set first_row): without a seed coins are independent anyway"
            )


def _choose_columns(schema: Schema, label: str | None) -> Schema:
    """The schema for the columns that are used, without the label and the weights; those left out keep their marks."""
    left = [name for name in (label, schema.weights) if name is not None]
    chosen = schema.only(schema.use, [*schema.drop, *left])
    if not chosen.used:
        kinds = ", ".join(f"{name!r} is left out as {kind.kind}" for name, kind in chosen.columns.items())
        raise ArgumentError(
            f"nothing is left to learn from: {kinds or 'every column of the schema is dropped'}; use columns of "
            "numbers, categories or dates"
        )
    return chosen


def _listed_classes(classes: Any) -> tuple[Any, ...]:
    if isinstance(classes, str) or not hasattr(classes, "__iter__"):
        raise ArgumentError(f"classes must be the label values, (negative, positive) or more; they are {classes!r}")
    return tuple(classes)


def name_of_separate_label(y: Any, label: str | None) -> str | None:
    """What labels given apart are called: by the caller, or by themselves as a series is.

    The label of a schema says which label the schema is about, and not which one these are.
    """
    own = name_of_series(y)
    if label and own and label != own:
        raise ArgumentError(
            f"y is called {own!r}, and the label {label!r}; what is promised is about one label: leave label out, or "
            "rename y if that is what it is"
        )
    return label or own


def name_of_series(y: Any) -> str | None:
    name = getattr(y, "name", None)
    return None if name is None or name == "" or callable(name) else str(name)


def as_mechanism(mechanism: "Mechanism | str | None", epsilon: float | None = None, delta: float = 1e-6) -> "Mechanism":
    """The mechanism that is meant: an object, or a name that takes epsilon and delta; an epsilon alone means `Moments`.

    >>> as_mechanism(None, 1.0)
    Moments(epsilon=1.0, delta=1e-06, unit=None, sharpen=True, bounds_share=0.1, relation='add', intercept=True)
    """
    from radoboost.holder.mechanisms import MECHANISMS, Moments, Plain

    if isinstance(mechanism, str):
        if mechanism not in MECHANISMS:
            raise ArgumentError(f"there is no mechanism {mechanism!r}; choose one of {', '.join(MECHANISMS)}")
        kind: Any = MECHANISMS[mechanism]
        fields = {field.name: field for field in dataclasses.fields(kind)}
        needed = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
        if others := [name for name in needed if name != "epsilon"]:
            raise ArgumentError(f"the mechanism {mechanism} needs {', '.join(others)}; give {kind.__name__}(...)")
        if epsilon is None and "epsilon" in needed:
            raise ArgumentError(
                f"the mechanism {mechanism} needs epsilon{fields['epsilon'].metadata.get('otherwise', '')}"
            )
        if epsilon is not None and "epsilon" not in fields:
            raise ArgumentError(f"the mechanism {mechanism} has no epsilon; leave one of them out")
        made: Mechanism = kind() if epsilon is None else kind(epsilon=epsilon, delta=delta)
        return made
    if mechanism is None:
        return Plain() if epsilon is None else Moments(epsilon, delta)
    if isinstance(mechanism, type) or not hasattr(mechanism, "make"):
        raise ArgumentError(
            f"mechanism must be a name, or an object such as Moments(epsilon=1.0) or Plain(); it is {mechanism!r}"
        )
    if epsilon is not None:
        raise ArgumentError("the mechanism has an epsilon of its own, or none; leave one of them out")
    return mechanism


@dataclass(frozen=True)
class Compute:
    """An engine and the number of threads, or a cluster; the statement says who was trusted with rows.

    Parameters
    ----------
    engine : str or Engine
        "kernel", "reference" or, on a GPU, "cuda"; "auto" takes a GPU for arrays that lie there, and from 10,000 rados
        on where that pays.
    threads : int, optional
        All cores by default.
    cluster : Dask client, Spark session, or address such as "tls://host:8786" or "spark://host:7077", optional
        Where it is computed: on this machine by default, and a Dask or Spark data frame where it is. Workers must be
        able to read the files.
    trust_network : bool
        Use a cluster whose network is not encrypted, beyond this machine: nobody else can listen there.

    Examples
    --------
    >>> import radoboost as rb
    >>> rb.craft([[1.0], [2.0]], [0, 1], n_rados=4, compute=rb.Compute(threads=1)).n_rados
    4
    """

    engine: str | Engine = "auto"
    threads: int | None = None
    cluster: Any = field(default=None, compare=False)
    trust_network: bool = False

    def machine(self) -> tuple[Engine, int]:
        """The engine, after its self-test, and how many threads."""
        from radoboost.holder.engines.self_test import self_tested_engine

        return self_tested_engine(get_engine(self.engine)), check_threads(self.threads)
