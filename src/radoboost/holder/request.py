"""What the caller of `craft` asked for, on its way to a mechanism."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.feature_maps import Columns, number_of_map_columns
from radoboost.holder.schema_file import Declared
from radoboost.holder.signatures import AllSignatures, SignatureSet
from radoboost.release.composition import EarlierRelease
from radoboost.tables.labels import check_classes, label_spelling, unnamed_spelling

DEFAULT_RADOS = 1000
_REFUSED = {
    "rows": "only the mechanism moments can say what so many rows carry; leave rows out (--rows)",
    "weights": "the promise of {name} is for one record, and one of weight w would count w times; leave weights out "
    "(--weights), or take the mechanism plain, which promises nothing",
    "first_row": "first_row numbers rows of plain releases of one seed, which are then merged, and no seed or merge is "
    "for {name}; leave first_row out (--first-row)",
    "share": "{name} cannot share columns: releases that are joined are plain for now, because a private one shortens "
    "each row by its own columns, so that what two holders share differs; leave share out (--share), or epsilon",
    "person": "{name} promises nothing about whole rows, so nothing about persons; take a mechanism that does, such as "
    "moments (--epsilon), or leave person out (--person)",
}


@dataclass(frozen=True, eq=False)
class CraftRequest:
    """What the caller of `craft` asked for, checked as far as possible without a mechanism or a table.

    `n_rados` is 0 where no rados are wanted. `scale` may be "auto". Signatures are drawn by `signature_key`, and
    `seeded` says whether that follows from a seed. With `i_know`, what voids promises is allowed.
    `rows` is about how many rows there are, from public knowledge. `earlier` are earlier releases of the same table.
    `person` is the column that says whose row it is, and of each person at most `max_rows` rows contribute: which of
    them, a key from the operating system decides. A `choice_key` is for audits and tests. `columns` says which columns
    the release has: "linear" are the table's own, and what "auto" means is the mechanism's. `weights` say how often
    each row counts: they are one for each row, or the name of a column. Rows have numbers from `first_row` on, where
    holders with one seed number the rows of all of them. Noise on sums is drawn in so many `shares`, one of each holder
    of a room; 1 where there is one holder. `share` names the columns that
    another holder has too, whose sums without labels stand beside the rados; None where none stand there.
    `label_apart` is what labels are called that are not in the table; a label that nobody named is the `one_label` of
    this call, or of this room, and of no other.
    """

    n_rados: int
    signature_key: bytes = field(repr=False)
    declared: Declared
    label: str | None = None
    classes: Sequence[Any] | None = None
    features: Sequence[str] | None = None
    drop: Sequence[str] = ()
    signatures: SignatureSet | None = None
    scale: str | None = "auto"
    intercept: bool = True
    seeded: bool = False
    i_know: bool = False
    rows: int | None = None
    earlier: tuple[EarlierRelease, ...] = ()
    person: str | None = None
    max_rows: int = 1
    choice_key: bytes | None = field(default=None, repr=False)
    label_apart: str | None = None
    one_label: str = field(default_factory=partial(secrets.token_hex, 16), repr=False)
    columns: Columns = "auto"
    weights: Any = None
    share: tuple[str, ...] | None = None
    first_row: int = 0
    noise_shares: int = 1

    @property
    def numbering(self) -> dict[str, int]:
        """What a release says of the numbers of its rows, where they do not begin with 0."""
        return {"first_row": self.first_row} if self.first_row else {}

    @property
    def groups(self) -> Mapping[str, str]:
        """The group of every declared column that is a slot of a category."""
        return {} if self.declared.schema is None else self.declared.schema.groups

    @property
    def fixed_columns(self) -> Columns:
        """Which columns the release has, for mechanisms that make no plan: "auto" are the table's own."""
        return "linear" if self.columns == "auto" else self.columns

    def width(self, features: Sequence[str]) -> int:
        """How many columns a private release of these features has, with the constant one."""
        return number_of_map_columns(self.fixed_columns, features, self.groups, bounded=True) + self.intercept

    @property
    def label_name(self) -> str:
        """The label's column, or "y" where labels are not in the table."""
        return self.label or "y"

    @property
    def which_label(self) -> str:
        """The label that a claim is about, as events name it (M21); nothing without classes."""
        if self.classes is None:
            return ""
        name = self.label or self.label_apart
        return unnamed_spelling(self.one_label, self.classes) if name is None else label_spelling(name, self.classes)

    @property
    def subsets(self) -> SignatureSet:
        return AllSignatures() if self.signatures is None else self.signatures

    def refuse_many_classes(self, name: str, classes: Sequence[Any] | None) -> None:
        """Refuse more than two classes, for mechanisms whose rados have a sign for each row."""
        if classes is not None and len(check_classes(classes)) > 2:
            raise ArgumentError(
                f"{name} is for two classes, and there are {len(classes)}; take moments (--epsilon) or plain rados, or "
                "make two classes of them"
            )

    def refuse(self, name: str, *fields: str) -> None:
        """Refuse what the mechanism of this name has no use for, or no promise with."""
        for field_name in fields:
            value = getattr(self, field_name)
            if value is not None and not (field_name == "first_row" and value == 0):
                raise ArgumentError(_REFUSED[field_name].format(name=name))

    def check_first_row(self) -> None:
        """Refuse a `first_row` where no coins of rows follow from their numbers, or nobody else has the same coins."""
        if self.first_row and not self.subsets.by_coins:
            raise ArgumentError(
                f"with signatures {self.subsets.name!r} the rows of a table have no coins of their own, so that "
                "numbers of rows say nothing; leave first_row (--first-row) or the support out"
            )
        if self.first_row and not self.seeded:
            raise ArgumentError(
                "first_row numbers the rows of holders who share a seed; give that seed too (--seed), or leave "
                "first_row out (--first-row): without a seed coins are independent anyway"
            )
