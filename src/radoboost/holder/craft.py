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
)
from radoboost.holder.curator import Curator, SecureAggregator
from radoboost.holder.disk_space import check_disk_space_for_release
from radoboost.holder.engines import Engine, auto_engine, get_engine
from radoboost.holder.engines.self_test import self_tested_engine
from radoboost.holder.feature_maps import Columns, check_feature_map_argument
from radoboost.holder.keystream import make_key
from radoboost.holder.mechanisms import Mechanism, Plain, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.mechanism import RoomParticipation
from radoboost.holder.mechanisms.record_level import check_max_rows, record_features
from radoboost.holder.mechanisms.statements import csv_records_statement
from radoboost.holder.request import DEFAULT_RADOS, CraftRequest
from radoboost.holder.row_counts import Where, check_place_for_counts, outliers_text, report_row_counts
from radoboost.holder.runners import Runner
from radoboost.holder.runners.cluster import ClusterRunner, check_cluster_reaches_table, cluster_runner
from radoboost.holder.runners.threads import ThreadRunner, check_threads
from radoboost.holder.schema_file import (
    Bounds,
    declaration_fields,
    declaration_with_dialect,
    origin_of_schema,
    whose_rows_warning,
)
from radoboost.holder.schema_inference import column_name_looks_like_id, doubtful_numbers_text
from radoboost.holder.signatures import SignatureSet, check_first_signature_row, check_n_rados
from radoboost.holder.table_preparation import (
    check_options_for_gaps,
    collect_schema_errors,
    name_of_separate_label,
    open_prepared_table,
    prepare_plain_table,
    refuse_label_as_feature,
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
from radoboost.tables.column_types import Ignored
from radoboost.tables.csv_dialect import LINES
from radoboost.tables.frames import check_cluster_frame_determined, cluster_kind_of_frame
from radoboost.tables.gpu_arrays import ONLY_HERE
from radoboost.tables.raw_table import refuse_float_person_ids
from radoboost.tables.schema import Schema
from radoboost.tables.sparse import matrix_column_names
from radoboost.tables.streams import is_query_or_stream, spool_for_rereading


def craft(
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    schema: Bounds = None,
    bounds: Bounds = None,
    missing: str = "fill",
    unlabelled: str = "error",
    separator: str | None = None,
    decimal: str | None = None,
    person: str | None = None,
    max_rows: int | None = None,
    rows: int | None = None,
    first_row: int = 0,
    weights: Any = None,
    mechanism: Mechanism | None = None,
    columns: Columns = "auto",
    share: Sequence[str] | None = None,
    scale: str | None = "auto",
    n_rados: int | None = None,
    signatures: SignatureSet | None = None,
    intercept: bool = True,
    seed: int | None = None,
    compose: Sequence[Release | str | os.PathLike[str]] = (),
    ledger: Ledger | str | os.PathLike[str] | None = None,
    i_know: bool = False,
    counts: Where = "terminal",
    engine: str | Engine = "auto",
    threads: int | None = None,
    cluster: Any = None,
    trust_network: bool = False,
    progress: bool | Progress | None = None,
    place: str | os.PathLike[str] | None = None,
) -> Release:
    """Craft rados from a table (Definition 1 of the paper), as a release.

    Rado j is the sum of y_i x_i over the examples i of its signature. Unlike in the paper, features are
    standardised unless `scale` says otherwise, a constant feature is added, and every value is first rounded to
    a dyadic grid, so that rados are exact.

    Parameters
    ----------
    table : array, sparse matrix, data frame, path, list of paths, folder, glob pattern, or query
        The table. Files may be CSV, TSV (also .gz), Parquet or Arrow, and are read as a stream, once or more often;
        folders such as `year=2024` within a folder are columns. A `query`, an address such as
        "duckdb:FILE?SELECT ...", a DuckDB relation, a LazyFrame, a dataset of pyarrow or a record batch reader may be
        larger than memory, too. The features of an array are called x0, x1, ... An array of CuPy or a tensor of PyTorch
        on a GPU is used there.
    y, label : array-like or str
        The labels, or the name of their column in the table. Where labels alone are protected, both may be given: the
        label then says which one `y` is, as the name of a series does. Claims about one label add up by that name.
    classes : (negative, positive), or all of more than two, optional
        The label values; by default those of the table in order, and of two the larger or later one is positive.
        Private mechanisms need them declared; of more than two, `Plain` and `Moments` make releases.
    features, drop : sequences of str, optional
        The columns to use, or to leave out.
    schema : Schema, its JSON data, the file of one, or a release or model that carries one, optional
        What the columns of a raw table mean: numbers, categories, dates, and what is left out. Private mechanisms need
        one that was written from public knowledge, or `bounds`, if all columns are numbers without gaps. For the others
        it may leave things open. Without one, they take a clean table of numbers as it is; for any other a schema is
        proposed from the table, as `propose_schema` does, and a `SchemaWarning` says what was taken for what.
    bounds : mapping of column to (low, high), array (n_features, 2), or "private", optional
        Values beyond their bounds are clipped, and counted: in a `ClippedWarning`, or for a private mechanism in
        `counts`.
        "private", for all columns or in place of a column's (low, high), lets `Moments` find them by noisy counts,
        as part of its promise.
    missing : "fill", "error" or "drop"
        What becomes of missing values: they are filled, and a column says where; or they are refused; or rows that have
        some are left out. Private mechanisms always fill.
    unlabelled : "error" or "drop"
        What becomes of rows without a label: they are refused, or left out and counted in a `SchemaWarning`. To private
        mechanisms such a row never gives anything.
    separator, decimal : str, optional
        What stands between the cells of a CSV file, by its header if nothing is declared, and before decimals.
    person, max_rows : str and int, optional
        The column that says whose row it is, and how many rows of each person contribute at most: the promise is then
        about persons. `max_rows` rows are chosen by a keyed hash of their content; a row without a person gives
        nothing. Two spellings of an id are two persons, unless they are one whole number. Without them each row counts
        as another person; where a column that is left out has the kind or the name of ids, a `PersonWarning` says so
        before anything is spent. In a data frame ids must be texts or whole numbers.
    rows : int, optional
        About how many rows there are, from public knowledge; with a person, about how many contribute. `Moments`
        refuses an epsilon that so few cannot carry, and says what error to expect, before it is spent. It also says the
        plan beforehand, on stderr: which columns so many rows carry, as `preview_plan` does. A `DeltaWarning` says
        where delta is too large for so many.
    first_row : int
        The number of the table's first row, for several holders who share a seed: each begins where the one before
        ended, and `merge` then gives the release of all rows, to the last bit. Needs a seed.
    weights : array-like of whole numbers, or str, optional
        How often each row counts, or the name of the column that says so, which is then no feature: the release is that
        of the table in which row i stands weights[i] times in place, each copy with its own coins. A row of weight 0 is
        not there. Private mechanisms refuse weights: a record of weight 5 would count five times.
    mechanism : Mechanism, optional
        What protects the release. Take `Moments` for a promise about records or labels: it is the most accurate, at
        any number of rados. `NoisyRados` adds noise to each rado, `NoisyExamples` to each row. `FeatureBand` is the
        paper's mechanism for the marginal of one column. `Plain()`, the default, promises nothing.
    columns : "auto", "linear", "signed-log", "degree-2" to "degree-8", or a mapping
        Which columns the release has: the table's own; their signed logarithms; or its own and products of Legendre
        polynomials of numbers up to a total degree, as many as 600 columns have room for; or by column a list of terms:
        "linear", "signed-log", a square "age^2", a product "age*dose". "auto" is what the schema says, and else what
        the mechanism prescribes: "linear", but for `Moments` as many products of ranks as the table carries, by what
        its first stage released. Those need the constant feature: with `intercept=False`, "auto" is "linear".
        `release.map` computes them, also from new rows.
    share : sequence of str, optional
        The columns that another holder has too, of other columns for such people: their sums without labels stand
        beside the rados, so that `join` can put both releases together. Of an empty sequence only the label is common.
        For `Plain` alone, and two classes; both holders must code these columns alike.
    scale : "auto", "standard", "bounds" or None
        z-scores, [low, high] onto [-1, 1], or as is; "auto" is what the mechanism prescribes.
    n_rados : int, optional
        How many rados: at most 524,288, and at most as many as there are signatures. By default 1000, and none for
        `Moments`: what it releases needs none, and `draw_rados` draws any number from it later.
    signatures : SignatureSet, optional
        The subsets to draw from; all of them by default.
    intercept : bool
        Whether to add the constant feature.
    seed : int, optional
        Makes the signatures reproducible, and known to anyone who knows the seed: the statement says so. Noise is
        never reproducible. `Moments` has no signatures, and refuses a seed.
    compose : sequence of releases or their paths
        Earlier releases of the same table, or receipts of rooms that ended without one: the statement says what they,
        all that they were composed with, and this one amount to together, if every epsilon was fixed beforehand.
    ledger : Ledger, or the path of one that has one table, optional
        The books of the table: what this release can cost at most is booked before its noise is drawn, and refused with
        a `BudgetError` if the total would be passed. No booking is given back. Saving notes the file's digest.
    i_know : bool
        Allow a seed with a private mechanism, whose epsilon is then infinite. The statement says so.
    counts : "terminal", path, callable or None
        Where a private mechanism shows the holder how many rows contributed, which columns spoiled others, and how many
        values were clipped: on stderr if that is a terminal, in a file, as lines to a callable, or nowhere. These
        counts are exact, so they are for the holder alone, and in no release or warning.
    engine, threads : str or Engine, int, optional
        How it is computed; neither changes a bit of the result. All cores by default. The engine is "kernel",
        "reference" or, on a GPU, "cuda"; "auto" takes a GPU for arrays that lie there, and from 10,000 rados on where
        that pays.
    cluster : Dask client, Spark session, or address such as "tls://host:8786" or "spark://host:7077", optional
        Where it is computed, to the same bits: on this machine by default, and a Dask or Spark data frame where it is.
        Workers must be able to read the files. The statement says who is trusted with what.
    trust_network : bool
        Use a cluster whose network is not encrypted, beyond this machine: nobody else can listen there.
    progress : bool or callable, optional
        Show a progress bar on stderr if the work takes long; a callable is given (task, done, total or None) instead,
        and may raise to end the work. With False the plan of `rows` is not said either.
    place : path, optional
        Where the release will be saved: a private one is refused, before anything is booked, where the disk has no room
        for it.

    Examples
    --------
    >>> import radoboost as rb
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> release = rb.craft(X, y, n_rados=100)
    >>> release.rados.shape
    (100, 31)
    """
    protection: Mechanism = Plain() if mechanism is None else mechanism
    _check_craft_arguments(protection, signatures, intercept, missing, unlabelled)
    declared = declaration_fields(schema, bounds, y, label, classes, features, columns_left_out_of_craft(drop, weights))
    declared = declaration_with_dialect(declared, separator, decimal, protection.private)
    declared |= _name_label_given_apart(protection, y, label)
    asked = CraftRequest(
        **declared,
        columns=check_feature_map_argument(columns, declared["declared"].terms),
        n_rados=_number_of_rados_to_craft(n_rados, protection),
        signature_key=make_key(seed),
        signatures=signatures,
        scale=scale,
        intercept=bool(intercept),
        seeded=seed is not None,
        i_know=i_know,
        rows=rows,
        person=person,
        max_rows=check_max_rows(person, max_rows),
        earlier=earlier_releases(compose),
        weights=weights,
        first_row=check_first_signature_row(first_row),
        share=_shared_columns_of_craft(share),
    )
    machine, threads, books = self_tested_engine(get_engine(engine)), check_threads(threads), as_ledger(ledger)
    _check_craft(protection, asked, progress)
    name = "" if asked.seeded else secrets.token_hex(16)
    _check_booking_before_craft(books, protection, asked, counts)
    account = _account_of_craft(books, name)
    ready = _table_ready_to_craft(account, table, protection, person, cluster, threads, trust_network, progress)
    with ready as (kept, runner, bar):
        run_on = partial(_make_curator, engine, machine, asked, runner, protection.private, account.book)
        if protection.private:
            draft, by_schema = _craft_private(protection, kept, y, asked, run_on, counts, progress, place)
        else:
            more = {"missing": missing, "unlabelled": unlabelled, "separator": separator, "decimal": decimal}
            draft, by_schema = _craft_plain(protection, kept, y, asked, run_on, more | {"engine": machine, "bar": bar})
        query = is_query_or_stream(table) or bool(cluster_kind_of_frame(table))
        draft = replace(draft, circumstances=replace(draft.circumstances, query=query, cluster=runner.cluster))
        return _finish_release(protection, asked, draft, name, by_schema, account)


def _name_label_given_apart(mechanism: Mechanism, y: Any, label: str | None) -> dict[str, Any]:
    """What labels that are given apart are called, where labels alone are protected."""
    if y is None or not _protects_labels_alone(mechanism):
        return {}
    return {"label": None, "label_apart": name_of_separate_label(y, label)}


def craft_in_room(
    table: Any,
    y: Any,
    mechanism: Mechanism,
    asked: CraftRequest,
    pool: SecureAggregator,
    gathering: Callable[[], RoomParticipation],
    *,
    name: str,
    ledger: Ledger | None = None,
    counts: Where = "terminal",
    engine: str | Engine = "auto",
    threads: int | None = None,
    progress: bool = False,
) -> Release:
    """One holder's part in the release of several, which comes out alike at each: their sums meet in the `pool`.

    What is asked for is what all agreed on. `gathering` says in the end who was there. The release is called `name`.
    """
    _advise_before_craft(mechanism, asked, progress)
    machine, threads = self_tested_engine(get_engine(engine)), check_threads(threads)
    with _table_ready_to_craft(Account(), table, mechanism, asked.person, None, threads, False, progress) as (
        kept,
        runner,
        _,
    ):
        book = _account_of_craft(ledger, name).book
        run_on = partial(_make_curator, engine, machine, asked, runner, mechanism.private, book, pool=pool)
        if mechanism.private:
            draft, schema = _craft_private(mechanism, kept, y, asked, run_on, counts, progress, None)
        else:  # as declared: nothing is proposed from one holder's table
            draft, schema = mechanism.make(asked, run_on(open_prepared_table(kept, y, asked))), asked.declared.schema
            warn_of_clipping(draft.counted, draft.counts.clipped, stacklevel=3)
            if unseen := draft.counts.unseen(schema):
                warnings.warn(SchemaWarning(unseen), stacklevel=3)
    records = csv_records_statement(asked.declared.schema, mechanism.private)  # any of the holders may have CSV files
    draft = replace(draft, circumstances=replace(draft.circumstances, room=gathering(), records=records))
    return _finish_release(mechanism, asked, draft, name, schema, Account())


def planned_event(mechanism: Mechanism, asked: CraftRequest) -> Event | None:
    """All that a release in a room does, as its statement will have it; None where one booking says so."""
    account = getattr(mechanism, "account_declared", None)
    if mechanism.private:
        event: Event | None = None if account is None else account(replace(asked, rows=None))[0]
        lines = csv_records_statement(asked.declared.schema, True) == LINES
        return event_about_lines(event) if lines and event is not None else event
    about = StatementFacts("bounds", asked.seeded, asked.n_rados, n_columns=2, n_examples=1)
    return event_from_dict(mechanism.statement(about).event)


def check_for_room(
    table: Any,
    y: Any,
    mechanism: Mechanism,
    asked: CraftRequest,
    ledger: Ledger | None,
    counts: Where,
    place: str | os.PathLike[str] | None = None,
) -> None:
    """Refuse what a holder brings to a room before the others wait for it; what is read once only is opened later."""
    if cluster_kind_of_frame(table):
        raise ArgumentError("a frame on a cluster cannot join a room; write its rows to files, and join with these")
    _check_booking_before_craft(ledger, mechanism, asked, counts)
    if is_query_or_stream(table):
        return
    source = (_open_table_privately if mechanism.private else open_prepared_table)(table, y, asked)
    if _protects_labels_alone(mechanism):
        refuse_label_as_feature(table, y, asked, source)
    if mechanism.private:
        check_disk_space_for_release(place, counts, mechanism, asked, source.features)


def _make_curator(
    engine: str | Engine,
    machine: Engine,
    asked: CraftRequest,
    runner: Runner,
    private: bool,
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
        n_rows = asked.rows if private else source.expected_rows(0) or 0
        additions = None if n_rows is None else n_rows * len(source.features) * asked.n_rados // runner.threads
        n_rados = asked.n_rados if getattr(asked.subsets, "by_coins", False) else 0  # others are corrected on a CPU
        chosen = auto_engine(on_device=source.on_device, n_rados=n_rados, additions=additions)
        machine = self_tested_engine(chosen)
    return Curator(source, machine, runner, ledger=book, pool=pool)


@contextmanager
def _table_ready_to_craft(
    account: Account,
    table: Any,
    protection: Mechanism,
    person: str | None,
    cluster: Any,
    threads: int,
    trust_network: bool,
    progress: bool | Progress | None,
) -> Iterator[tuple[Any, Runner, Progress]]:
    """The table as something that can be read again and again, a runner, and a bar; what was started is stopped.

    Where something is promised, a frame on a cluster is refused unless it is certain that no row counts twice,
    whichever runner there is. Whatever ends the work says what stays booked on the account.
    """
    check_cluster_reaches_table(cluster, table)
    promises = protection.private or bool(getattr(protection, "withheld", {}))
    if promises:
        check_cluster_frame_determined(table, person)
    with (
        on_failure(account.add_to),
        bar_for(progress) as bar,
        spool_for_rereading(table, row_by_row=protection.private, bar=bar) as kept,
    ):
        runner = cluster_runner(cluster, table, bar, threads, trust_network=trust_network, promises=promises)
        try:
            yield kept, runner or ThreadRunner(threads, bar), bar
        finally:
            if runner is not cluster and isinstance(runner, ClusterRunner):
                runner.close()


def _craft_private(
    protection: Mechanism,
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
    if _protects_labels_alone(protection):
        refuse_label_as_feature(table, y, asked, source)
    _warn_of_names_in_doubt(asked, source, progress is True)
    if ids := _ids_left_out(table, asked, source):
        warn_of_persons(protection, replace(asked, declared=replace(asked.declared, ids=ids)))
    if asked.declared.all_private:  # before, nobody knew how many columns there are
        _say_planned_columns(protection, asked, progress, source.features)
    check_disk_space_for_release(place, counts, protection, asked, source.features)
    draft = protection.make(asked, run_on(source))
    records = csv_records_statement(source.schema, source.csv)
    by_place = isinstance(asked.declared.limits, np.ndarray) and asked.features is None
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
    left = [*map(str, source.names or frame)] if not asked.declared.ids else []
    kinds = getattr(source.schema, "columns", {})
    used = {asked.label, *source.features, *(name for name in kinds if not isinstance(kinds[name], Ignored))}
    return tuple(name for name in left if name not in used and column_name_looks_like_id(name))


def _protects_labels_alone(mechanism: Mechanism) -> bool:
    """Whether labels alone are protected, so that features are in the release exactly."""
    return getattr(mechanism, "unit", None) == "label"


def _warn_of_names_in_doubt(asked: CraftRequest, source: Table, progress: bool) -> None:
    """Say, before anything is spent, which columns are taken for numbers though their names say another thing.

    By names alone: a type that one value can change is nothing to go by (C0 of docs/proofs/contributions.md).
    """
    searched = () if asked.declared.schema is not None else asked.declared.searched(source.features)
    if (sentence := doubtful_numbers_text(searched)) is None:
        return
    if progress:
        print(f"rado: {sentence}", file=sys.stderr)
    else:
        warnings.warn(SchemaWarning([sentence]), stacklevel=4)


def _craft_plain(
    protection: Mechanism,
    table: Any,
    y: Any,
    asked: CraftRequest,
    run_on: Callable[[Table], Curator],
    options: dict[str, Any],
) -> tuple[ReleaseDraft, Schema | None]:
    """What another mechanism makes of the table, by which schema; a warning says what was taken for what."""

    def make(asked: CraftRequest, source: Table) -> ReleaseDraft:
        return protection.make(asked, run_on(source))

    hidden = getattr(protection, "withheld", {})
    with collect_schema_errors(table, asked):
        draft, schema, lines = prepare_plain_table(make, table, y, asked, **options, withheld=hidden)
    if lines := [*lines, *draft.counts.unseen(schema, hidden)]:
        warnings.warn(SchemaWarning(lines), stacklevel=3)
    warn_of_clipping(draft.counted, draft.counts.clipped, stacklevel=4)
    if draft.outliers:
        warnings.warn(outliers_text(draft.outliers, draft.counts.n_rows), OutlierWarning, stacklevel=3)
    return draft, schema


def _number_of_rados_to_craft(n_rados: int | None, mechanism: Mechanism) -> int:
    """How many rados: as many as were asked for, or else as the mechanism makes by itself."""
    return getattr(mechanism, "default_rados", DEFAULT_RADOS) if n_rados is None else check_n_rados(n_rados)


def _say_planned_columns(
    mechanism: Mechanism, asked: CraftRequest, progress: bool | Progress | None, features: Sequence[str] | None = None
) -> None:
    """Say which columns so many declared rows carry, where a mechanism can tell; by names of columns, and no value."""
    foresee = getattr(mechanism, "foresee", None)
    if (progress is None or progress) and foresee is not None and (sentence := foresee(asked, features)) is not None:
        print(f"rado: {sentence}", file=sys.stderr)


def _advise_before_craft(mechanism: Mechanism, asked: CraftRequest, progress: bool | Progress | None) -> None:
    """Say what so many rows carry, and warn of a delta that is too large for them, by what was declared alone."""
    _say_planned_columns(mechanism, asked, progress)
    if (advice := delta_advice(getattr(mechanism, "delta", 0.0), asked.rows)) is not None:
        warnings.warn(advice, DeltaWarning, stacklevel=4)


def warn_of_persons(mechanism: Mechanism, asked: CraftRequest) -> None:
    """Warn where rows are protected that may be several of one person, by what was declared alone."""
    advice = (
        whose_rows_warning(asked.declared, asked.person, getattr(mechanism, "unit", None))
        if mechanism.private
        else None
    )
    if advice is not None:
        warnings.warn(advice, PersonWarning, stacklevel=stack_level_of_caller())


def stack_level_of_caller() -> int:
    """The stack level, as seen by who asks, of the first frame outside of this package: a warning points there."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "radoboost":
        frame, level = frame.f_back, level + 1
    return level


def _shared_columns_of_craft(share: Any) -> tuple[str, ...] | None:
    """The columns that another holder has too, each once; of none the label alone is shared."""
    if share is None:
        return None
    names = (share,) if isinstance(share, str) else tuple(share)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise ArgumentError(f"share must be names of columns; {wrong[0]!r} is not one")
    return tuple(dict.fromkeys(names))


def columns_left_out_of_craft(drop: Sequence[str], weights: Any) -> Sequence[str]:
    """The columns to leave out, among them that of the weights."""
    if not isinstance(weights, str):
        return drop  # as it was given: if it cannot be used, whoever reads it says so
    return [*([drop] if isinstance(drop, str) else drop), weights]


def _check_craft(mechanism: Mechanism, asked: CraftRequest, progress: bool | Progress | None) -> None:
    """Refuse what the mechanism cannot make, and what no record may be protected with; then give advice."""
    if mechanism.private:
        asked.refuse(mechanism.name, "weights", "first_row")
    if not getattr(mechanism, "may_share", False):
        asked.refuse(mechanism.name, "share")
    mechanism.check(asked)
    warn_of_persons(mechanism, asked)
    _advise_before_craft(mechanism, asked, progress)


def _check_craft_arguments(mechanism: Any, signatures: Any, intercept: Any, missing: str, unlabelled: str) -> None:
    if isinstance(mechanism, type) or not hasattr(mechanism, "make"):
        raise ArgumentError(f"mechanism must be an object such as Moments(epsilon=1.0) or Plain(); it is {mechanism!r}")
    if signatures is not None and (isinstance(signatures, type) or not hasattr(signatures, "prepare")):
        raise ArgumentError(f"signatures must be an object such as FixedSupport(0.5); it is {signatures!r}")
    if getattr(signatures, "for_one_column", False):
        raise ArgumentError("a feature interval is made for one column; use mechanism=FeatureBand(column, epsilon)")
    if not isinstance(intercept, bool | np.bool_):
        raise ArgumentError(f"intercept must be True or False; it is {intercept!r}")
    check_options_for_gaps(missing, unlabelled, mechanism.private)


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
        schema=asked.declared.schema,
        on_cluster=True,
    )


def warn_of_clipping(names: Sequence[str], clipped: NDArray[np.int64], *, stacklevel: int) -> None:
    """Warn of values that lay beyond their bounds, by column."""
    counts = [f"{name!r} {count:,}" for name, count in zip(names, clipped, strict=True) if count]
    if counts:
        text = ", ".join(counts[:8]) + (f" and {len(counts) - 8} more columns" if len(counts) > 8 else "")
        warnings.warn(f"values beyond their bounds were clipped: {text}", ClippedWarning, stacklevel=stacklevel)


def _check_booking_before_craft(books: Ledger | None, mechanism: Mechanism, asked: CraftRequest, counts: Where) -> None:
    """Refuse what cannot be booked, or counted, before the table is opened; the mechanism books later what it costs."""
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
    n_columns = max(2, len(asked.declared.limits) + asked.intercept if names is None else asked.width(names))
    statement = mechanism.statement(
        StatementFacts(
            "bounds",
            asked.seeded,
            asked.n_rados,
            n_columns,
            n_examples=1,
            person=asked.person,
            max_rows=asked.max_rows,
            schema="" if asked.declared.schema is None else "declared",
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
    mechanism: Mechanism,
    asked: CraftRequest,
    draft: ReleaseDraft,
    name: str,
    schema: Schema | None,
    account: Account,
) -> Release:
    """The release of what was made; with rados drawn from its moments, where some are wanted and it made none."""
    origin, n_rados = origin_of_schema(asked.declared.schema, schema), asked.n_rados
    corrected = () if schema is None else schema.corrected
    release = Release(
        blocks=dict(draft.blocks),
        columns=draft.columns,
        classes=draft.classes,
        mechanism={"name": mechanism.name, "law": mechanism.law, **draft.parameters},
        signatures=dict(draft.signatures),
        statement=mechanism.statement(replace(draft.circumstances, schema=origin, corrected=corrected)),
        n_examples=draft.circumstances.n_examples,
        id=name,
        schema=schema,
        map=draft.map,
        block_columns=dict(draft.block_columns),
        after_save=partial(note_release_digest, account.ledgers[0], name) if account.ledgers else None,
        unless_saved=account.add_to if account.ledgers else None,
    )
    return draw_rados(release, n_rados) if n_rados and not release.n_rados else release
