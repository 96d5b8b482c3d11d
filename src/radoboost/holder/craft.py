"""craft(): from a table to a release. Check, open, make, release; the mechanism does the rest."""

import os
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import (
    ArgumentError,
    BudgetWarning,
    ClippedWarning,
    DeltaWarning,
    LedgerError,
    OutlierWarning,
    PersonWarning,
    SchemaWarning,
    on_failure,
    stack_level_of_caller,
)
from radoboost.holder.curator import Curator, SecureAggregator
from radoboost.holder.declared_bounds import origin_of_schema, whose_rows_warning
from radoboost.holder.disk_space import check_disk_space_for_release
from radoboost.holder.engines import Engine, auto_engine
from radoboost.holder.engines.self_test import self_tested_engine
from radoboost.holder.feature_maps import Columns
from radoboost.holder.mechanisms import Mechanism, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.mechanism import RoomParticipation
from radoboost.holder.mechanisms.record_level import record_features
from radoboost.holder.mechanisms.statements import csv_records_statement
from radoboost.holder.request import Compute, CraftRequest, as_mechanism
from radoboost.holder.row_counts import Where, check_place_for_counts, outliers_text, report_row_counts
from radoboost.holder.runners import Runner
from radoboost.holder.runners.cluster import ClusterRunner, check_cluster_reaches_table, cluster_runner
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.schema_inference import doubtful_numbers_text
from radoboost.holder.signatures import SignatureSet
from radoboost.holder.table_preparation import (
    check_options_for_gaps,
    collect_schema_errors,
    open_prepared_table,
    prepare_plain_table,
    refuse_label_as_feature,
    survey_table_first,
)
from radoboost.privacy import Event, delta_advice, event_from_dict
from radoboost.privacy.events import event_about_lines
from radoboost.privacy.ledger import Ledger, as_ledger
from radoboost.privacy.spending import Account
from radoboost.progress import Progress, bar_for
from radoboost.release.composition import earlier_releases
from radoboost.release.rado_sampling import draw_rados
from radoboost.release.release import Release
from radoboost.tables import Table, open_table
from radoboost.tables.column_selection import column_name_looks_like_id
from radoboost.tables.column_types import Ignored
from radoboost.tables.csv_dialect import LINES
from radoboost.tables.frames import cluster_kind_of_frame, refuse_promise_about_cluster_frame
from radoboost.tables.gpu_arrays import ONLY_HERE
from radoboost.tables.raw_table import refuse_float_person_ids
from radoboost.tables.schema import Declaration, Schema
from radoboost.tables.sparse import matrix_column_names
from radoboost.tables.streams import is_query_or_stream, spool_for_rereading, table_origin


def craft(
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    schema: Declaration = None,
    epsilon: float | None = None,
    delta: float = 1e-6,
    mechanism: Mechanism | str | None = None,
    columns: Columns = "auto",
    n_rados: int | None = None,
    signatures: SignatureSet | None = None,
    seed: int | None = None,
    compose: Sequence[Release | str | os.PathLike[str]] = (),
    ledger: Ledger | str | os.PathLike[str] | None = None,
    compute: Compute = Compute(),  # noqa: B008 - it is frozen
    counts: Where = "terminal",
    progress: bool | Progress | None = None,
) -> Release:
    """Craft rados from a table (Definition 1 of the paper), as a release.

    Rado j is the sum of y_i x_i over the examples i of its signature. Unlike in the paper, features are standardised
    unless the mechanism says otherwise, a constant feature is added, and every value is first rounded to a dyadic grid,
    so that rados are exact.

    Parameters
    ----------
    table : array, sparse matrix, data frame, path, list of paths, folder, glob pattern, or query
        The table. Files may be CSV, TSV (also .gz), Parquet or Arrow, and are read as a stream, once or more often;
        folders such as `year=2024` within a folder are columns. A `query`, an address such as
        "duckdb:FILE?SELECT ...", a DuckDB relation, a LazyFrame, a dataset of pyarrow or a record batch reader may be
        larger than memory, too. The features of an array are called x0, x1, ... An array of CuPy or a tensor of PyTorch
        on a GPU is used there.
    y, label : array-like or str
        The labels, or the name of their column in the table; by default the schema's. Where labels alone are protected,
        both may be given: the label then says which one `y` is, as the name of a series does. Claims about one label
        add up by that name.
    classes : (negative, positive), or all of more than two, optional
        The label values; by default those of the schema, or of the table in order, and of two the larger or later one
        is positive. Private mechanisms need them declared; of more than two, `Plain` and `Moments` make releases.
    schema : Schema, its JSON data or file, bounds, "private", or a release or model that carries a schema, optional
        What is declared about the table, from public knowledge: see `Schema`. Private mechanisms need one; of numbers
        without gaps, (low, high) by column, or a row for each, will do, and "private", for all columns or in place of a
        column's (low, high), lets `Moments` find bounds by noisy counts, as part of its promise. Values beyond bounds
        are clipped, and counted. Without a schema, a plain release takes a clean table of numbers as it is; for any
        other a schema is proposed from the table, as `propose_schema` does, and a `SchemaWarning` says what was taken
        for what.
    epsilon, delta : float
        The privacy loss to allow, by the mechanism; with nothing else, by `Moments`.
    mechanism : Mechanism or its name, optional
        What protects the release. Take `Moments` for a promise about records or labels: it is the most accurate, at
        any number of rados. `NoisyRados` adds noise to each rado, `NoisyExamples` to each row. `FeatureBand` is the
        paper's mechanism for the marginal of one column. `Plain()`, the default, promises nothing. Each has its own
        settings, such as the unit of privacy: "record", "label", or `Person(column, max_rows)`, by default the schema's
        person. Without a person each row counts as another one; where a column that is left out has the kind or the
        name of ids, a `PersonWarning` says so before anything is spent.
    columns : "auto", "linear", "signed-log", "degree-2" to "degree-8", or a mapping
        Which columns the release has: the table's own; their signed logarithms; or its own and products of Legendre
        polynomials of numbers up to a total degree, as many as 600 columns have room for; or by column a list of terms:
        "linear", "signed-log", a square "age^2", a product "age*dose". "auto" is what the schema says, and else what
        the mechanism prescribes: "linear", but for `Moments` as many products of ranks as the table carries, by what
        its first stage released. Those need the constant feature: without it, "auto" is "linear".
        `release.map` computes them, also from new rows.
    n_rados : int, optional
        How many rados: at most 524,288, and at most as many as there are signatures. By default 1000, and none for
        `Moments`: what it releases needs none, and `draw_rados` draws any number from it later.
    signatures : SignatureSet, optional
        The subsets to draw from; all of them by default.
    seed : int, optional
        Makes the signatures reproducible, and known to anyone who knows the seed: the statement says so. Noise is
        never reproducible. `Moments` has no signatures, and refuses a seed.
    compose : sequence of releases or their paths
        Earlier releases of the same table, or receipts of rooms that ended without one: the statement says what they,
        all that they were composed with, and this one amount to together, if every epsilon was fixed beforehand.
    ledger : Ledger, or the path of one that has one table, optional
        The books of the table: what this release can cost at most is booked before its noise is drawn, and refused with
        a `BudgetError` if the total would be passed. No booking is given back. Saving notes the file's digest.
    compute : Compute
        With which engine, on how many threads, or on which cluster: none of it changes a bit of the result.
    counts : "terminal", path, callable or None
        Where a private mechanism shows the holder how many rows contributed, which columns spoiled others, and how many
        values were clipped: on stderr if that is a terminal, in a file, as lines to a callable, or nowhere. These
        counts are exact, so they are for the holder alone, and in no release or warning.
    progress : bool or callable, optional
        Show a progress bar on stderr if the work takes long; a callable is given (task, done, total or None) instead,
        and may raise to end the work. With False the plan for so many declared rows is not said either.

    Examples
    --------
    >>> import radoboost as rb
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> release = rb.craft(X, y, n_rados=100)
    >>> release.rados.shape
    (100, 31)
    """
    asked = CraftRequest.of(
        schema, as_mechanism(mechanism, epsilon, delta), y=y, label=label, classes=classes, columns=columns,
        n_rados=n_rados, signatures=signatures, seed=seed, earlier=earlier_releases(compose),
    )  # fmt: skip
    return craft_request(table, y, asked, ledger=ledger, compute=compute, counts=counts, progress=progress)


def craft_request(
    table: Any,
    y: Any,
    asked: CraftRequest,
    *,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    compute: Compute = Compute(),  # noqa: B008
    counts: Where = "terminal",
    progress: bool | Progress | None = None,
    place: str | os.PathLike[str] | None = None,
) -> Release:
    """The release that was asked for; a private one is refused, before anything is booked, if `place` has no room."""
    (machine, threads), books = compute.machine(), as_ledger(ledger)
    _check_craft(asked, progress)
    name = "" if asked.seeded else secrets.token_hex(16)
    _check_booking_before_craft(books, asked, counts)
    account = _account_of_craft(books, name)
    with _table_ready_to_craft(account, table, asked, compute, threads, progress) as (kept, runner, bar):
        run_on = partial(_make_curator, compute.engine, machine, asked, runner, account.book)
        if asked.mechanism.private:
            draft, by_schema = _craft_private(kept, y, asked, run_on, counts, progress, place)
        else:
            draft, by_schema = _craft_plain(kept, y, asked, run_on, machine, bar)
        origin = table_origin(table)
        draft = replace(draft, circumstances=replace(draft.circumstances, origin=origin, cluster=runner.cluster))
        return _finish_release(asked, draft, name, by_schema, account)


def craft_in_room(
    table: Any,
    y: Any,
    asked: CraftRequest,
    pool: SecureAggregator,
    gathering: Callable[[], RoomParticipation],
    *,
    name: str,
    ledger: Ledger | None = None,
    compute: Compute = Compute(),  # noqa: B008
    counts: Where = "terminal",
    progress: bool = False,
) -> Release:
    """One holder's part in the release of several, which comes out alike at each: their sums meet in the `pool`.

    What is asked for is what all agreed on. `gathering` says in the end who was there. The release is called `name`.
    """
    mechanism = asked.mechanism
    _advise_before_craft(asked, progress)
    machine, threads = compute.machine()
    with _table_ready_to_craft(Account(), table, asked, compute, threads, progress) as (kept, runner, _):
        book = _account_of_craft(ledger, name).book
        run_on = partial(_make_curator, compute.engine, machine, asked, runner, book, pool=pool)
        if mechanism.private:
            draft, schema = _craft_private(kept, y, asked, run_on, counts, progress, None)
        else:  # as declared: nothing is proposed from one holder's table
            run = survey_table_first(run_on, asked, open_prepared_table(kept, y, asked))
            draft, schema = _make_plain(asked, run, [])
    records = csv_records_statement(asked.reading, mechanism.private)  # any of the holders may have CSV files
    draft = replace(draft, circumstances=replace(draft.circumstances, room=gathering(), records=records))
    return _finish_release(asked, draft, name, schema, Account())


def planned_event(asked: CraftRequest) -> Event | None:
    """All that a release in a room does, as its statement will have it; None where one booking says so."""
    mechanism = asked.mechanism
    account = getattr(mechanism, "account_declared", None)
    if mechanism.private:
        event: Event | None = None if account is None else account(asked.without_rows())[0]
        lines = csv_records_statement(asked.reading, True) == LINES
        return event_about_lines(event) if lines and event is not None else event
    about = StatementFacts("bounds", asked.seeded, asked.n_rados, n_columns=2, n_examples=1)
    return event_from_dict(mechanism.statement(about).event)


def check_for_room(
    table: Any,
    y: Any,
    asked: CraftRequest,
    ledger: Ledger | None,
    counts: Where,
    place: str | os.PathLike[str] | None = None,
) -> None:
    """Refuse what a holder brings to a room before the others wait for it; what is read once only is opened later."""
    if cluster_kind_of_frame(table):
        raise ArgumentError("a frame on a cluster cannot join a room; write its rows to files, and join with these")
    _check_booking_before_craft(ledger, asked, counts)
    if is_query_or_stream(table):
        return
    private = asked.mechanism.private
    source = (_open_table_privately if private else open_prepared_table)(table, y, asked)
    if _protects_labels_alone(asked):
        refuse_label_as_feature(table, y, asked, source)
    if private:
        check_disk_space_for_release(place, counts, asked, source.features)


def _make_curator(
    engine: str | Engine,
    machine: Engine,
    asked: CraftRequest,
    runner: Runner,
    book: Callable[[Event], object],
    source: Table,
    pool: SecureAggregator | None = None,
) -> Curator:
    """The curator of a table, by `machine`, or an engine on a device where "auto" may choose, and rows are dense.

    What protects records goes by what was declared, and not by how many rows there are.
    """
    if runner.cluster and hasattr(next(iter(source.parts()), None), "on_device"):
        raise ArgumentError(ONLY_HERE)
    if engine == "auto" and not runner.cluster and source.sparse_rows is None:
        n_rows = asked.rows if asked.mechanism.private else source.expected_rows(0) or 0
        additions = None if n_rows is None else n_rows * len(source.features) * asked.n_rados // runner.threads
        n_rados = asked.n_rados if getattr(asked.subsets, "by_coins", False) else 0  # others are corrected on a CPU
        chosen = auto_engine(on_device=source.on_device, n_rados=n_rados, additions=additions)
        machine = self_tested_engine(chosen)
    return Curator(source, machine, runner, ledger=book, pool=pool)


@contextmanager
def _table_ready_to_craft(
    account: Account,
    table: Any,
    asked: CraftRequest,
    compute: Compute,
    threads: int,
    progress: bool | Progress | None,
) -> Iterator[tuple[Any, Runner, Progress]]:
    """The table as something that can be read again and again, a runner, and a bar; what was started is stopped.

    Where something is promised, a frame on a cluster is refused, whichever runner there is. Whatever ends the work says
    what stays booked on the account.
    """
    check_cluster_reaches_table(compute.cluster, table)
    protection = asked.mechanism
    promises = protection.private or bool(getattr(protection, "withheld", {}))
    if promises:
        refuse_promise_about_cluster_frame(table)
    with (
        on_failure(account.add_to),
        bar_for(progress) as bar,
        spool_for_rereading(table, row_by_row=protection.private, bar=bar) as kept,
    ):
        runner = cluster_runner(
            compute.cluster, table, bar, threads, trust_network=compute.trust_network, promises=promises
        )
        try:
            yield kept, runner or ThreadRunner(threads, bar), bar
        finally:
            if runner is not compute.cluster and isinstance(runner, ClusterRunner):
                runner.close()


def _craft_private(
    table: Any,
    y: Any,
    asked: CraftRequest,
    run_on: Callable[[Table], Curator],
    counts: Where,
    progress: bool | Progress | None,
    place: str | os.PathLike[str] | None,
) -> tuple[ReleaseDraft, Schema | None]:
    """What a private mechanism makes of the table, by which schema; exact counts go to the holder."""
    source = _open_table_privately(table, y, asked)
    if _protects_labels_alone(asked):
        refuse_label_as_feature(table, y, asked, source)
    _warn_of_names_in_doubt(asked, source, progress is True)
    if ids := _ids_left_out(table, asked, source):
        warn_of_persons(asked, ids)
    if asked.all_private:  # before, nobody knew how many columns there are
        _say_planned_columns(asked, progress, source.features)
    check_disk_space_for_release(place, counts, asked, source.features)
    draft = asked.mechanism.make(asked, run_on(source))
    records = csv_records_statement(source.schema, source.csv)
    by_place = isinstance(asked.limits, tuple) and asked.features is None
    named = by_place and list(source.features) != matrix_column_names(None, len(source.features))
    facts = replace(draft.circumstances, records=records)
    draft = replace(draft, circumstances=replace(facts, columns_from_table=named or facts.columns_from_table))
    raw = () if source.schema is None else source.schema.used
    report_row_counts(draft.counts, draft.counted, asked.label_name, counts, raw)
    return draft, source.schema


def _ids_left_out(table: Any, asked: CraftRequest, source: Table) -> tuple[str, ...]:
    """The columns of the table that are left out, and have names of ids; none where the declaration has its own."""
    frame: Any = getattr(table, "column_names", None)
    if not isinstance(frame, list):  # a frame may have a column of that name, and Spark's has any
        frame = getattr(table, "columns", table if isinstance(table, dict) else ())
    left = [*map(str, source.names or frame)] if not asked.schema.ids else []
    kinds = getattr(source.schema, "columns", {})
    used = {asked.label, *source.features, *(name for name in kinds if not isinstance(kinds[name], Ignored))}
    return tuple(name for name in left if name not in used and column_name_looks_like_id(name))


def _protects_labels_alone(asked: CraftRequest) -> bool:
    """Whether labels alone are protected, so that features are in the release exactly."""
    return getattr(asked.mechanism, "unit", None) == "label"


def _warn_of_names_in_doubt(asked: CraftRequest, source: Table, progress: bool) -> None:
    """Say, before anything is spent, which columns are taken for numbers though their names say another thing.

    By names alone: a type that one value can change is nothing to go by (C0 of docs/proofs/contributions.md).
    """
    searched = () if asked.schema.raw else asked.searched(source.features)
    if not searched or (sentence := doubtful_numbers_text(searched)) is None:
        return
    if progress:
        print(f"rado: {sentence}", file=sys.stderr)
    else:
        warnings.warn(SchemaWarning([sentence]), stacklevel=stack_level_of_caller())


def _craft_plain(
    table: Any, y: Any, asked: CraftRequest, run_on: Callable[[Table], Curator], engine: Engine, bar: Progress
) -> tuple[ReleaseDraft, Schema | None]:
    """What another mechanism makes of the table, by which schema."""
    survey, hidden = partial(survey_table_first, run_on), getattr(asked.mechanism, "withheld", {})
    with collect_schema_errors(table, asked):
        prepared = prepare_plain_table(survey, table, y, asked, engine=engine, withheld=hidden, bar=bar)
    return _make_plain(*prepared)


def _make_plain(asked: CraftRequest, run: Curator, lines: list[str]) -> tuple[ReleaseDraft, Schema | None]:
    """What it makes of a table that was surveyed; a warning says what was taken for what, in `lines` and more."""
    draft, schema, level = asked.mechanism.make(asked, run), asked.reading, stack_level_of_caller()
    if lines := [*lines, *draft.counts.unseen(schema, getattr(asked.mechanism, "withheld", {}))]:
        warnings.warn(SchemaWarning(lines), stacklevel=level)
    warn_of_clipping(draft.counted, draft.counts.clipped)
    if draft.outliers:
        warnings.warn(outliers_text(draft.outliers, draft.counts.n_rows), OutlierWarning, stacklevel=level)
    return draft, schema


def _say_planned_columns(
    asked: CraftRequest, progress: bool | Progress | None, features: Sequence[str] | None = None
) -> None:
    """Say which columns so many declared rows carry, where a mechanism can tell; by names of columns, and no value."""
    foresee = getattr(asked.mechanism, "foresee", None)
    if (progress is None or progress) and foresee is not None and (sentence := foresee(asked, features)) is not None:
        print(f"rado: {sentence}", file=sys.stderr)


def _advise_before_craft(asked: CraftRequest, progress: bool | Progress | None) -> None:
    """Say what so many rows carry, and warn of a delta that is too large for them, by what was declared alone."""
    _say_planned_columns(asked, progress)
    if (advice := delta_advice(getattr(asked.mechanism, "delta", 0.0), asked.rows)) is not None:
        warnings.warn(advice, DeltaWarning, stacklevel=stack_level_of_caller())


def warn_of_persons(asked: CraftRequest, ids: Sequence[str] = ()) -> None:
    """Warn where rows are protected that may be several of one person, by what was declared, or by names of columns."""
    unit = getattr(asked.mechanism, "unit", None) if asked.mechanism.private else "record"
    if (advice := whose_rows_warning(ids or asked.schema.ids, asked.person, unit)) is not None:
        warnings.warn(advice, PersonWarning, stacklevel=stack_level_of_caller())


def _check_craft(asked: CraftRequest, progress: bool | Progress | None) -> None:
    """Refuse what the mechanism cannot make, and what no record may be protected with; then give advice."""
    mechanism, signatures = asked.mechanism, asked.signatures
    if signatures is not None and (isinstance(signatures, type) or not hasattr(signatures, "prepare")):
        raise ArgumentError(f"signatures must be an object such as FixedSupport(0.5); it is {signatures!r}")
    if getattr(signatures, "for_one_column", False):
        raise ArgumentError("a feature interval is made for one column; use mechanism=FeatureBand(column, epsilon)")
    if mechanism.private:
        asked.refuse("weights")
        check_options_for_gaps(asked)
    if not getattr(mechanism, "may_share", False):
        asked.refuse("share")
    mechanism.check(asked)
    warn_of_persons(asked)
    _advise_before_craft(asked, progress)


def _open_table_privately(table: Any, y: Any, asked: CraftRequest) -> Table:
    """Open the table for a private mechanism: only its declared columns, read row by row."""
    if asked.person is not None:
        refuse_float_person_ids(table, asked.person)
    names = record_features(asked)
    features, drop = (asked.features, asked.drop) if names is None else (names, ())
    return open_table(
        table,
        y,
        label=asked.label,
        features=features,
        drop=drop,
        person=asked.person,
        row_by_row=True,
        schema=asked.reading,
    )


def warn_of_clipping(names: Sequence[str], clipped: NDArray[np.int64]) -> None:
    """Warn of values that lay beyond their bounds, by column."""
    counts = [f"{name!r} {count:,}" for name, count in zip(names, clipped, strict=True) if count]
    if counts:
        text = ", ".join(counts[:8]) + (f" and {len(counts) - 8} more columns" if len(counts) > 8 else "")
        sentence = f"values beyond their bounds were clipped: {text}"
        warnings.warn(sentence, ClippedWarning, stacklevel=stack_level_of_caller())


def _check_booking_before_craft(books: Ledger | None, asked: CraftRequest, counts: Where) -> None:
    """Refuse what cannot be booked, or counted, before the table is opened; the mechanism books later what it costs."""
    mechanism = asked.mechanism
    check_place_for_counts(counts if mechanism.private else None)
    if books is None:
        return
    if not mechanism.private:
        raise ArgumentError(
            f"the mechanism {mechanism.name} promises nothing about whole records, so it has no finite cost to book; "
            "take one that does, such as Moments, or leave the ledger out"
        )
    foreseen = getattr(mechanism, "foreseen_bookings", None)
    if foreseen is not None:
        books.check(*foreseen(asked))
        return
    names = record_features(asked)
    n_columns = max(2, len(asked.limits) + asked.intercept if names is None else asked.width(names))
    statement = mechanism.statement(
        StatementFacts(
            "bounds",
            asked.seeded,
            asked.n_rados,
            n_columns,
            n_examples=1,
            person=asked.person,
            max_rows=asked.max_rows,
            schema="declared" if asked.schema.raw else "",
        )
    )
    books.check(event_from_dict(statement.event))


def _account_of_craft(books: Ledger | None, name: str) -> Account:
    return Account(() if books is None else (books,), name)


def note_release_digest(books: Ledger, name: str, digest: str) -> None:
    """Note the file of a release that was booked; by then the file is there, so a failure is no reason to stop."""
    try:
        books.finish(name, digest)
    except LedgerError as error:
        warnings.warn(
            f"the file was written and is booked, but its digest could not be noted: {error}",
            BudgetWarning,
            stacklevel=4,
        )


def _finish_release(
    asked: CraftRequest,
    draft: ReleaseDraft,
    name: str,
    schema: Schema | None,
    account: Account,
) -> Release:
    """The release of what was made; with rados drawn from its moments, where some are wanted and it made none."""
    mechanism, origin, n_rados = asked.mechanism, origin_of_schema(asked.schema, schema), asked.n_rados
    corrected = tuple(dict.fromkeys((*asked.schema.corrected, *(() if schema is None else schema.corrected))))
    release = Release(
        blocks=dict(draft.blocks),
        columns=draft.columns,
        classes=draft.classes,
        mechanism={"name": mechanism.name, "law": mechanism.law, **draft.parameters},
        signatures=dict(draft.signatures),
        statement=mechanism.statement(replace(draft.circumstances, schema=origin, corrected=corrected)),
        n_examples=draft.circumstances.n_examples,
        id=name,
        schema=None if schema is None else schema.for_readers(),
        map=draft.map,
        block_columns=dict(draft.block_columns),
        after_save=partial(note_release_digest, account.ledgers[0], name) if account.ledgers else None,
        unless_saved=account.add_to if account.ledgers else None,
    )
    return draw_rados(release, n_rados) if n_rados and not release.n_rados else release
