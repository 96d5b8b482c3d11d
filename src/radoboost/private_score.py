"""A private test error: how many rows a model gets wrong and right, with noise, booked like any release.

Proof: docs/proofs/scores.md, steps S1 to S5.
"""

import math
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from radoboost.errors import ArgumentError, PersonWarning, on_failure, stack_level_of_caller
from radoboost.estimators.tuning import note_private_score
from radoboost.holder.aggregation import AddedFields
from radoboost.holder.curator import Curator, NoiseSpec
from radoboost.holder.engines import get_engine
from radoboost.holder.gaussian_noise import LARGEST_SCALE, TOTAL_VARIATION, scale_rounded_up
from radoboost.holder.mechanisms.statements import (
    DEFAULT_DELTA,
    OF_CSV,
    OF_ORIGIN,
    check_epsilon_and_delta,
    csv_records_statement,
)
from radoboost.holder.runners.threads import ThreadRunner, check_threads
from radoboost.learner.model import Model, load_model
from radoboost.privacy import (
    Event,
    Gaussian,
    Relation,
    epsilon_at,
    event_from_dict,
    event_to_dict,
    flatten,
    gaussian_multiplier,
)
from radoboost.privacy.ledger import Ledger, as_ledger
from radoboost.privacy.spending import Account
from radoboost.progress import no_progress, show_progress
from radoboost.release.release import rounded_up_text
from radoboost.tables import Batch, open_table
from radoboost.tables.column_selection import column_name_looks_like_id
from radoboost.tables.csv_dialect import LINES, PLAIN
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.private_reader import PrivateReader
from radoboost.tables.raw_table import raw_column_types
from radoboost.tables.streams import spool_for_rereading, table_origin

GRID = 2**15  # steps that one row counts, so that rounding the noise to whole steps costs nothing
COVERS = (
    "the error rate on these very rows, as far as the noise goes; not what other people's rows would give. Rows of "
    "another class count as neither, and so do rows with a missing value, unless the model has a schema, which fills it"
)
NOT_COVERED = (
    "The model is taken as given: where its training table has people in common with this one, book the score for "
    "both; and a model that was learned without noise has no promise for its training table, whatever is booked here."
)
Books = Ledger | str | os.PathLike[str]


@dataclass(frozen=True)
class Score:
    """Noisy numbers of errors and hits, the error rate with its interval, and what that cost.

    `interval` covers, at `confidence` at least, what the noise leaves open about the error rate on these rows.
    `unless_shown` is told why where nobody gets to see the score.
    """

    errors: float
    hits: float
    error: float
    interval: tuple[float, float]
    confidence: float
    noise_std: float
    epsilon: float
    delta: float
    event: Event
    bookings: tuple[str, ...] = ()
    neighbours: str = field(default=Relation.RECORD.value)
    not_covered: str = NOT_COVERED
    unless_shown: Callable[[BaseException], None] | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "errors": self.errors,
            "hits": self.hits,
            "error": self.error,
            "interval": list(self.interval),
            "confidence": self.confidence,
            "covers": COVERS,
            "noise_std": self.noise_std,
            "neighbours": self.neighbours,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "event": event_to_dict(self.event),
            "bookings": list(self.bookings),
            "not_covered": self.not_covered,
        }

    def sentence(self) -> str:
        low, high = self.interval
        return (
            f"an error of {100 * self.error:.2f} %, between {100 * low:.2f} % and {100 * high:.2f} % at confidence "
            f"{100 * self.confidence:g} %, by noisy counts (epsilon {rounded_up_text(self.epsilon, 4)} at delta "
            f"{self.delta:g}, for {self.neighbours})"
        )


def score(
    model: Model | str | os.PathLike[str],
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    epsilon: float,
    delta: float = DEFAULT_DELTA,
    ledger: Books | Sequence[Books] | None = None,
    confidence: float = 0.95,
    threads: int | None = None,
    progress: bool = False,
    unit: str | None = None,
) -> Score:
    """Count a model's errors and hits on a table, with noise: (epsilon, delta) for one record added or removed.

    Each row is predicted on its own; one with a class that the model does not know counts as neither, and so does one
    with a missing or infinite value where the model has no schema. With one, such cells are filled. The result may be
    published, and models may be chosen by it, if it is booked: on the ledger of this table and, where people are in
    both, on that of the table that the model was learned from too.

    Parameters
    ----------
    model : Model or path
        The classifier, which is taken as given.
    table, y, label
        The table to score, and its labels, as in `craft`.
    epsilon, delta : float
        What the score may cost.
    ledger : Ledger or path, or several of them, optional
        Where it is booked, before its noise is drawn. No release counts a score, so without a ledger nobody does; the
        second such score in a process warns.
    confidence : float
        Of the interval, which covers the noise and nothing else.
    threads, progress
        As in `craft`.
    unit : "record", optional
        Says that each row is another person. Without it a `PersonWarning` reminds of that where a column that the model
        does not use is one of ids by its name, or the model's release is about persons: no score is.

    Examples
    --------
    >>> import tempfile
    >>> import radoboost as rb
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = rb.MomentsClassifier(random_state=0).fit(X[:300], y[:300])
    >>> ledger = rb.Ledger.create(f"{tempfile.mkdtemp()}/test.ledger", "test", epsilon=2.0)
    >>> result = rb.score(clf.model_, X[300:], y[300:], epsilon=1.0, ledger=ledger)
    >>> result.interval[0] <= result.error <= result.interval[1]
    True
    """
    classifier = model if isinstance(model, Model) else load_model(model)
    if not 0.5 <= confidence < 1:
        raise ArgumentError(f"confidence must lie between 0.5 and 1; it is {confidence!r}")
    if unit not in (None, "record"):
        raise ArgumentError(f"a score protects records; unit is 'record', or left out; it is {unit!r}")
    scale, event = plan_private_score(epsilon, delta)
    books = _ledger_for_score(ledger)
    for book in books:
        book.check(event)
    marks = getattr(classifier.schema, "marks", PLAIN)
    task = CountOutcomes(classifier, LabelEncoder(label or "y", classifier.classes, marks))
    account, bookings = Account(tuple(books), secrets.token_hex(16), "score"), list[str]()
    with (
        on_failure(account.add_to),
        (show_progress if progress else no_progress)() as bar,
        spool_for_rereading(table, row_by_row=True, bar=bar) as rows,
    ):
        source = open_table(
            rows, y, label=label, features=classifier.feature_names, row_by_row=True, schema=classifier.schema
        )
        records = csv_records_statement(source.schema, source.csv)
        event = replace(event, lines=records == LINES)
        header = source.names or raw_column_types(rows, privately=PrivateReader(classifier.schema))
        columns = [name for name in header if name not in (label, *classifier.feature_names)]
        if unit is None and (advice := _warning_of_scored_persons(classifier, columns)) is not None:
            warnings.warn(advice, PersonWarning, stacklevel=stack_level_of_caller())
        run = Curator(
            source,
            get_engine("reference"),
            ThreadRunner(check_threads(threads), bar),
            ledger=lambda event: bookings.extend(account.book(event)),
        )
        note_private_score(booked=bool(books))
        counts = noisy_score_counts(run, task, scale, event)
    errors, hits = counts.tolist()
    sentences = [
        NOT_COVERED,
        *OF_ORIGIN[table_origin(table)],
        *([OF_CSV[records]] if records else []),
    ]
    deviation = scale / GRID
    low, high = score_rate_interval(errors, hits, deviation, confidence)
    rate = errors / (errors + hits) if errors + hits > 0 else 0.5
    return Score(
        errors=errors, hits=hits, error=min(max(rate, low), high), interval=(low, high), confidence=confidence,
        noise_std=deviation, epsilon=epsilon_at(event, delta), delta=delta, event=event, bookings=tuple(bookings),
        unless_shown=account.add_to,
        not_covered=" ".join(sentences),
    )  # fmt: skip


def _warning_of_scored_persons(model: Model, columns: Iterable[str]) -> str | None:
    """What to know where rows that are scored may be several of one person.

    By names of columns, and by whose rows the model's release was about.
    """
    of_release = () if model.statement is None else flatten(event_from_dict(model.statement.event))
    persons = [person for leaf in of_release if (person := getattr(leaf, "person", ""))]
    ids = list(dict.fromkeys([*persons, *(name for name in columns if column_name_looks_like_id(name))]))
    if not ids:
        return None
    return (
        f"each row counts as another person, whatever its {' or '.join(map(repr, ids))} is, and no score is about "
        "persons: one with k rows is protected as a group of k records; score a table with one row of each person, "
        "or, if each row is another person, say so: --set unit=record (unit='record')"
    )


def noisy_score_counts(run: Curator, task: "CountOutcomes", scale: float, event: Event) -> NDArray[np.float64]:
    """Errors and hits with noise, which is booked first (S3)."""
    run.book(event)
    return run.noisy_sum(task, NoiseSpec("counts", scale)).counts / GRID


def plan_private_score(epsilon: float, delta: float) -> tuple[float, Gaussian]:
    """The noise in steps of 1 / GRID rows, and what it is accounted as (S3, S4)."""
    epsilon, delta = check_epsilon_and_delta(epsilon, delta)
    variation = 2 * TOTAL_VARIATION
    noise = gaussian_multiplier(epsilon, delta, Relation.RECORD, total_variation=variation) * GRID * (1 + 1e-12)
    if noise > LARGEST_SCALE:
        raise ArgumentError(f"epsilon {epsilon:g} takes more noise than can be sampled; take a larger epsilon")
    scale = scale_rounded_up(max(noise, 1.0))
    return scale, Gaussian(math.nextafter(scale / GRID, 0.0), Relation.RECORD, variation)


def score_rate_interval(errors: float, hits: float, deviation: float, confidence: float) -> tuple[float, float]:
    """All rates r for which (1 - r) errors - r hits is no more than noise.

    They hold the true rate at `confidence` at least, whatever the numbers of errors and hits are (S5).
    """
    total, reach = errors + hits, (float(ndtri((1 + confidence) / 2)) * deviation) ** 2
    square = total**2 - 2 * reach
    if total <= 0 or square <= 0:  # perhaps there are no rows at all
        return 0.0, 1.0
    middle = errors * total - reach
    spread = math.sqrt(max(0.0, middle**2 - square * (errors**2 - reach)))
    low, high = ((middle + sign * spread) / square for sign in (-1, 1))
    return min(max(low, 0.0), 1.0), max(min(high, 1.0), 0.0)


@dataclass
class Outcomes(AddedFields):
    """Errors and hits, in steps."""

    counts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CountOutcomes:
    """How many rows a model predicts wrongly and rightly: a row adds one to at most one of the two (S1, S2)."""

    model: Model
    rule: LabelEncoder

    title = "scoring rows"
    rows_at_a_time = None
    worker_bytes = 0

    def empty(self) -> Outcomes:
        return Outcomes(np.zeros(2, dtype=np.int64))

    def add(self, sums: Outcomes, first_row: int, batch: Batch) -> None:
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
            values, places = batch.values(), self.rule.places_or_none(batch.labels)
            good = (places >= 0) & np.isfinite(values).all(axis=1)
            scores = self.model.scores_or_nan(values)
            good &= ~np.isnan(scores).reshape(len(scores), -1).any(axis=1)
            wrong = self.model.choices(scores) != places
        sums.counts += GRID * np.array([(good & wrong).sum(), (good & ~wrong).sum()], dtype=np.int64)


def _ledger_for_score(ledger: Books | Sequence[Books] | None) -> list[Ledger]:
    several = ledger if isinstance(ledger, list | tuple) else [ledger]
    books = [book for book in map(as_ledger, several) if book is not None]
    return list({(book.path, book.table): book for book in books}.values())
