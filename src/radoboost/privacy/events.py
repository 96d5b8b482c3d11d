"""What a private computation did, as frozen data, and which difference between tables it hides.

An event claims nothing by itself: `accountants` turns it into epsilon and delta. Steps A1, A2, ... are those of
docs/proofs/accounting.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from math import isfinite, nan
from numbers import Integral, Real
from typing import Any

from radoboost.errors import ArgumentError


class Relation(StrEnum):
    """Which two tables are neighbours, so that nobody should be able to tell one from the other."""

    RECORD = "one record added or removed"
    REPLACE = "one record replaced"
    EDGE = "one edge vector replaced"
    LABEL = "one label flipped"
    VALUE = "one value of one column changed, seen in that column's marginal"
    PERSON = "one person added or removed"
    PERSON_ROWS = "the rows of one person replaced"
    PERSON_LABELS = "labels of one person flipped"


OF_PERSONS = (Relation.PERSON, Relation.PERSON_ROWS, Relation.PERSON_LABELS)
OF_LABELS = (Relation.LABEL, Relation.PERSON_LABELS)
ANY_LABEL = "any"  # of a claim about labels that follows from one about whole rows: it holds for every label
ADDED = (Relation.RECORD, Relation.PERSON)  # in the others something is replaced, which is charged as two steps (A4)
MOST_IN_A_GROUP = 1000  # each is one more component of a mixture, or one more logarithm of a loss
_MOST_TIMES = 2**53  # beyond, a count is not exact as a float
_JOINT = (Relation.RECORD, Relation.REPLACE, Relation.EDGE, Relation.LABEL, *OF_PERSONS)
# How many steps of the first relation one of the second takes, where that is proved (A4, P7).
_STEPS = {
    (Relation.RECORD, Relation.REPLACE): 2,
    (Relation.RECORD, Relation.EDGE): 2,
    (Relation.RECORD, Relation.LABEL): 2,
    (Relation.REPLACE, Relation.EDGE): 1,
    (Relation.REPLACE, Relation.LABEL): 1,
    (Relation.EDGE, Relation.LABEL): 1,
    (Relation.PERSON, Relation.PERSON_ROWS): 2,
    (Relation.PERSON, Relation.PERSON_LABELS): 2,
    (Relation.PERSON_ROWS, Relation.PERSON_LABELS): 1,
}
_TWO_COLUMNS = "claims about the marginals of different columns do not add up: each release exposes the other's column"
_TWO_PERSONS = "claims about persons by different columns do not add up: one person may be several by the other"
_LINES_AND_ROWS = (
    "claims about records that are lines of CSV files and about rows do not add up: a row with line ends within is "
    "several lines"
)
_TWO_LABELS = (
    "claims about labels of different columns or classes do not add up: each release has exact figures of the rows "
    "that have one of its own classes, and of its features, among which the other's label may be"
)
_MARGINAL_WITH_JOINT = "a claim about one column's marginal says nothing about the columns together"


def _real_event_field(value: Any, name: str) -> float:
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else nan
    except OverflowError:
        number = nan
    if not isfinite(number):
        raise ArgumentError(f"{name} must be a finite number; it is {value!r}")
    return number


def positive_event_field(value: Any, name: str) -> float:
    if not (number := _real_event_field(value, name)) > 0:
        raise ArgumentError(f"{name} must be above 0; it is {value!r}")
    return number


def _event_integer(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ArgumentError(f"{name} must be a whole number of at least {least}; it is {value!r}")
    return int(value)


def _event_variation(value: Any) -> float:
    if not 0 <= (number := _real_event_field(value, "total_variation")) < 1:
        raise ArgumentError(f"total_variation must lie in [0, 1); it is {value!r}")
    return number


def _group_event_field(value: Any, name: str) -> int:
    """How many records, or values, neighbours differ in."""
    if (size := _event_integer(value, name, 1)) > MOST_IN_A_GROUP:
        raise ArgumentError(f"{name} must be at most {MOST_IN_A_GROUP:,}; it is {size:,}")
    return size


def _parse_relation(value: Any, allowed: tuple[Relation, ...]) -> Relation:
    relation = next((choice for choice in allowed if choice == value), None)
    if relation is None:
        names = ", ".join(repr(choice.value) for choice in allowed)
        raise ArgumentError(f"relation must be one of {names}; it is {value!r}")
    return relation


def _check_bool_event_field(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be true or false; it is {value!r}")


def _check_person_column_of_event(column: Any, relation: Relation) -> None:
    """Refuse a column of persons where the relation is about something else."""
    if not isinstance(column, str) or (column and relation not in OF_PERSONS):
        raise ArgumentError(f"person names a column, under a relation about persons only; it is {column!r}")


def _check_label_of_event(label: Any, relation: Relation) -> None:
    """Refuse a label where the relation is about something else."""
    if not isinstance(label, str) or (label and relation not in OF_LABELS):
        raise ArgumentError(f"label names a label's column and classes, under a relation about labels; it is {label!r}")


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise of `noise_multiplier` times the L2 sensitivity under `relation` (A2).

    `total_variation` is how far the sampler may be from that noise on any input (A9). `own_noise` says that every
    record has noise of its own, so that k of them together move by sqrt(k) sensitivities; else it is k (A12). `person`
    is the column that says whose row it is, where the relation is about persons. With a `group` of k, neighbours differ
    in up to k of what the relation names, and the noise multiplier counts that already. `label` is the label's column
    and its declared classes in one spelling, where the relation is about labels: "any" where the claim follows from one
    about whole rows, and empty where nobody says. With `lines` records are lines of CSV files, and not rows.
    """

    noise_multiplier: float
    relation: Relation
    total_variation: float = 0.0
    own_noise: bool = False
    person: str = ""
    group: int = 1
    label: str = ""
    lines: bool = False

    def __post_init__(self) -> None:
        _set_event_fields(self, noise_multiplier=positive_event_field(self.noise_multiplier, "noise_multiplier"))
        _set_event_fields(
            self,
            relation=_parse_relation(self.relation, _JOINT),
            total_variation=_event_variation(self.total_variation),
        )
        _check_bool_event_field(self.own_noise, "own_noise")
        _check_bool_event_field(self.lines, "lines")
        _set_event_fields(self, group=_event_integer(self.group, "group", 1))
        _check_person_column_of_event(self.person, self.relation)
        _check_label_of_event(self.label, self.relation)


@dataclass(frozen=True)
class SubsampledGaussian:
    """A sum over a Poisson sample of the records, with Gaussian noise (A5).

    Each record is in with `probability`, on its own; `noise_multiplier` is the noise over the largest norm of one
    record. Under a relation in which something is replaced it is charged as two steps (A4). With a `group` of k,
    neighbours differ in up to k records, each in the sample by its own coin (A12). `person` is the column that says
    whose record it is, where the relation is about persons; `label` and `lines` are as in `Gaussian`.
    """

    noise_multiplier: float
    probability: float
    total_variation: float = 0.0
    relation: Relation = Relation.RECORD
    group: int = 1
    person: str = ""
    label: str = ""
    lines: bool = False

    def __post_init__(self) -> None:
        _set_event_fields(self, noise_multiplier=positive_event_field(self.noise_multiplier, "noise_multiplier"))
        _set_event_fields(self, probability=positive_event_field(self.probability, "probability"))
        _set_event_fields(
            self,
            relation=_parse_relation(self.relation, _JOINT),
            total_variation=_event_variation(self.total_variation),
        )
        if self.probability > 1:
            raise ArgumentError(f"probability must lie in (0, 1]; it is {self.probability}")
        _set_event_fields(self, group=_group_event_field(self.group, "group"))
        _check_bool_event_field(self.lines, "lines")
        _check_person_column_of_event(self.person, self.relation)
        _check_label_of_event(self.label, self.relation)


@dataclass(frozen=True)
class TruncatedBinomialShift:
    """One column of a rado: K ~ Binomial(n_trials, 1/2) kept in [low, high], moved between neighbours (A6).

    It moves by one where one value of the column changes, and by at most `shift` where that many do (A12).

    The paper's DP-Feat has a band; plain rados have low = 0 and high = n_trials. The band must be symmetric, so that it
    does not matter which way a value moves. Events about different columns compose to `NotPrivate`.
    """

    n_trials: int
    low: int
    high: int
    total_variation: float = 0.0
    column: str = ""
    shift: int = 1

    def __post_init__(self) -> None:
        _set_event_fields(
            self, n_trials=_event_integer(self.n_trials, "n_trials", 1), low=_event_integer(self.low, "low", 0)
        )
        if self.n_trials >= 2**31 or not isinstance(self.column, str):
            raise ArgumentError(
                f"n_trials must be below 2**31, and column a name; they are {self.n_trials}, {self.column!r}"
            )
        _set_event_fields(
            self, high=_event_integer(self.high, "high", 0), total_variation=_event_variation(self.total_variation)
        )
        _set_event_fields(self, shift=_group_event_field(self.shift, "shift"))
        if not self.low <= self.high <= self.n_trials:
            band = f"low {self.low}, high {self.high}, n_trials {self.n_trials}"
            raise ArgumentError(f"the band must satisfy low <= high <= n_trials; it has {band}")
        if self.low + self.high != self.n_trials:
            raise ArgumentError(
                f"the band must be symmetric, low + high = n_trials; it has low {self.low}, high {self.high}"
            )

    @property
    def relation(self) -> Relation:
        return Relation.VALUE


@dataclass(frozen=True)
class NotPrivate:
    """Something that no epsilon covers, and why."""

    reason: str
    relation: Relation

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason:
            raise ArgumentError(f"reason must be a sentence; it is {self.reason!r}")
        _set_event_fields(self, relation=_parse_relation(self.relation, tuple(Relation)))


@dataclass(frozen=True)
class Repeated:
    """The same event `count` times, each with fresh randomness."""

    event: "Event"
    count: int

    def __post_init__(self) -> None:
        _set_event_fields(self, count=_event_integer(self.count, "count", 1))
        _check_event(self.event)

    @property
    def relation(self) -> Relation | None:
        return self.event.relation


@dataclass(frozen=True)
class Composed:
    """Several events on the same table, each free to depend on what the earlier ones gave out.

    They must share one relation (see `converted`). A marginal claim with a joint one gives `NotPrivate`.
    """

    events: tuple["Event", ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, (tuple, list)):
            raise ArgumentError(f"events must be a tuple of events; it is {self.events!r}")
        _set_event_fields(self, events=tuple(self.events))
        for event in self.events:
            _check_event(event)
        joint = self._relations() - {Relation.VALUE}
        if len(joint) > 1:
            names = " and ".join(sorted(repr(relation.value) for relation in joint))
            raise ArgumentError(
                f"events compose within one relation only: use converted(event, relation); here {names}"
            )

    def _relations(self) -> set[Relation]:
        relations: set[Relation | None] = set()
        for event in self.events:
            relations |= event._relations() if isinstance(event, Composed) else {event.relation}
        return {relation for relation in relations if relation is not None}

    @property
    def relation(self) -> Relation | None:
        """The relation of all events, or the joint one if some are marginal; None without events."""
        relations = self._relations()
        return next(iter(relations - {Relation.VALUE}), next(iter(relations), None))


Leaf = Gaussian | SubsampledGaussian | TruncatedBinomialShift | NotPrivate
Event = Leaf | Repeated | Composed

EVENTS: dict[str, type[Event]] = {
    event.__name__: event
    for event in (Gaussian, SubsampledGaussian, TruncatedBinomialShift, NotPrivate, Repeated, Composed)
}


# Fields that are written only where they say something.
_LATER = {"own_noise": False, "group": 1, "shift": 1, "person": "", "label": "", "lines": False}


def _set_event_fields(event: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(event, name, value)


def _check_event(event: Any) -> None:
    if not isinstance(event, tuple(EVENTS.values())):
        raise ArgumentError(f"an event is one of {', '.join(EVENTS)}; here it is {event!r}")


def flatten(event: Event) -> dict[Leaf, int]:
    """The normal form: each elementary event and how often it happened, so composing k times is count k."""
    _check_event(event)
    counts: dict[Leaf, int] = {}
    _count_single_events(event, 1, counts)
    relations = {leaf.relation for leaf in counts}
    if Relation.VALUE in relations and len(relations) > 1:
        (joint,) = relations - {Relation.VALUE}
        return {NotPrivate(_MARGINAL_WITH_JOINT, joint): 1}
    if len({leaf.column for leaf in counts if isinstance(leaf, TruncatedBinomialShift)}) > 1:
        return {NotPrivate(_TWO_COLUMNS, Relation.VALUE): 1}
    noisy = [leaf for leaf in counts if isinstance(leaf, Gaussian | SubsampledGaussian)]
    if len({leaf.person for leaf in noisy if leaf.person}) > 1:
        return {NotPrivate(_TWO_PERSONS, next(iter(relations))): 1}
    if len({leaf.lines for leaf in noisy}) > 1:
        return {NotPrivate(_LINES_AND_ROWS, next(iter(relations))): 1}
    if len(_label_claims_of_events(counts)) > 1:
        return {NotPrivate(_TWO_LABELS, next(iter(relations))): 1}
    return counts


def person_column_of_event(event: Event) -> str | None:
    """The column that says whose row it is, for an event about persons; None for any other."""
    leaves = flatten(event)
    columns = {leaf.person for leaf in leaves if isinstance(leaf, Gaussian | SubsampledGaussian) and leaf.person}
    return next(iter(columns), None)


def event_about_lines(event: Event) -> Event:
    """The same computation, where records are lines of CSV files."""
    if isinstance(event, Repeated):
        return replace(event, event=event_about_lines(event.event))
    if isinstance(event, Composed):
        return Composed(tuple(map(event_about_lines, event.events)))
    return replace(event, lines=True) if isinstance(event, Gaussian | SubsampledGaussian) else event


def records_of_event(event: Event) -> str | None:
    """What the records are that noise protects, in words; None for an event without any."""
    noisy = (leaf for leaf in flatten(event) if isinstance(leaf, Gaussian | SubsampledGaussian))
    return next(("lines of CSV files" if leaf.lines else "rows" for leaf in noisy), None)


def label_of_event(event: Event) -> str | None:
    """The label's column and classes, for an event about labels, empty where nobody says; None for any other.

    It is None too where the claim holds for any label, as one that follows from a claim about records does (A4).
    """
    return next(iter(_label_claims_of_events(flatten(event))), None)


def _label_claims_of_events(leaves: Mapping[Leaf, int]) -> set[str]:
    """The labels that claims are about: of several, no total is known (M21)."""
    about = {
        leaf.label for leaf in leaves if isinstance(leaf, Gaussian | SubsampledGaussian) and leaf.relation in OF_LABELS
    }
    return about - {ANY_LABEL}


def _count_single_events(event: Event, times: int, counts: dict[Leaf, int]) -> None:
    if isinstance(event, Repeated):
        _count_single_events(event.event, times * event.count, counts)
    elif isinstance(event, Composed):
        for part in event.events:
            _count_single_events(part, times, counts)
    else:
        counts[event] = counts.get(event, 0) + times
        if counts[event] > _MOST_TIMES:
            raise ArgumentError(f"an event can happen at most {_MOST_TIMES} times: give smaller counts")


def convert_relation(event: Event, relation: Relation) -> Event:
    """The same computation under another relation, where its protection follows (A4); refused otherwise.

    To replace a record is to remove one and to add one; to replace an edge vector is to replace a record that has it,
    and to flip a label is to replace its edge vector. The same holds
    for persons; between records and persons nothing follows (P7 of docs/proofs/persons.md).

    What follows for labels holds for those of any column and classes.
    """
    _check_event(event)
    relation = _parse_relation(relation, tuple(Relation))
    if isinstance(event, Repeated):
        return Repeated(convert_relation(event.event, relation), event.count)
    if isinstance(event, Composed):
        return Composed(tuple(convert_relation(part, relation) for part in event.events))
    if event.relation == relation:
        return event
    group = _STEPS.get((event.relation, relation))
    if group is None or isinstance(event, TruncatedBinomialShift):
        raise ArgumentError(f"protection of {event.relation.value!r} does not give protection of {relation.value!r}")
    if isinstance(event, NotPrivate):
        return replace(event, relation=relation)
    label = ANY_LABEL if relation in OF_LABELS else ""
    if isinstance(event, Gaussian):
        noise = positive_event_field(event.noise_multiplier / group, "noise_multiplier")
        return replace(event, noise_multiplier=noise, relation=relation, label=label)
    return replace(event, relation=relation, label=label)


def to_dict(event: Event) -> dict[str, Any]:
    """The event as JSON data, for a release file."""
    _check_event(event)
    data: dict[str, Any] = {"name": type(event).__name__}
    for field in fields(event):
        value = getattr(event, field.name)
        if field.name in _LATER and value == _LATER[field.name]:
            continue
        if field.name == "event":
            value = to_dict(value)
        elif field.name == "events":
            value = [to_dict(part) for part in value]
        data[field.name] = value.value if isinstance(value, Relation) else value
    return data


def from_dict(data: Mapping[str, Any]) -> Event:
    """The event that `to_dict` wrote; anything unknown is refused."""
    try:
        return _event_from_data(data)
    except RecursionError:
        raise ArgumentError("an event is nested too deeply: write repetitions as a count") from None


def _event_from_data(data: Any) -> Event:
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str) or data["name"] not in EVENTS:
        name = data.get("name") if isinstance(data, Mapping) else data
        raise ArgumentError(f"the name of an event is one of {', '.join(EVENTS)}; here it is {name!r}")
    kind = EVENTS[data["name"]]
    names, known = set(data) - {"name"}, {field.name for field in fields(kind)}
    if odd_names := (names - known) | (known - names - set(_LATER)):
        odd = ", ".join(sorted(map(repr, odd_names)))
        raise ArgumentError(f"{kind.__name__} has the fields {', '.join(sorted(known))}; missing or unknown: {odd}")
    values = {name: data[name] for name in names}
    if kind is Repeated:
        values["event"] = _event_from_data(values["event"])
    elif kind is Composed:
        if not isinstance(values["events"], list):
            raise ArgumentError(f"the events of Composed are a list; here {values['events']!r}")
        values["events"] = tuple(_event_from_data(part) for part in values["events"])
    build: Callable[..., Event] = kind
    return build(**values)
