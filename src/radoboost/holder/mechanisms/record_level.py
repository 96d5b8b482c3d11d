"""For mechanisms that promise something about records: the table decides nothing but the sums.

Columns, bounds and classes are declared, and whatever is missing is refused before the table is opened. What a record
gives is a function of that record (`contributions`), a bad record gives nothing, and neither whether a release comes
out nor its shape depends on a value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder import rado_sums
from radoboost.holder.contribution_bounding import choose_rows_of_persons
from radoboost.holder.curator import Curator, NoiseSpec, RowNoise
from radoboost.holder.declared_bounds import check_declared_bounds, check_declared_feature_names
from radoboost.holder.feature_maps import make_feature_map, map_table
from radoboost.holder.grid import check_rows_sum_exactly
from radoboost.holder.keystream import Key
from radoboost.holder.mechanisms.mechanism import CHANGED, MappedInputs, NoisePlan, ReleaseDraft, StatementFacts
from radoboost.holder.request import CraftRequest
from radoboost.holder.row_counts import PersonCounts, count_beyond_bounds
from radoboost.holder.signatures import check_n_signatures
from radoboost.release.columns import Column, constant_column
from radoboost.release.release import RADOS
from radoboost.tables import Batch
from radoboost.tables.column_selection import list_names
from radoboost.tables.csv_dialect import PLAIN
from radoboost.tables.labels import LabelEncoder

# ---- What one record gives to a private sum: a clipped integer vector, which is a function of that record alone.
#
# Every operation here is elementwise over rows, in a fixed order over columns: no row's result depends on which
# other rows are there (C1). Values are rounded towards zero, and the norm is tested in integers (C2, C3); a row
# with a missing or infinite value or an undeclared class gives zeros (C4). The steps are those of
# docs/proofs/contributions.md.

LARGEST = 2**22  # what an engine's 32-bit sums allow


def check_clipping_norm(clip: Any) -> None:
    """Refuse a clipping norm that cannot be used."""
    if isinstance(clip, bool) or not isinstance(clip, int | float) or not 2.0**-10 <= clip <= 2.0**10:
        raise ArgumentError(
            f"clip must be a number between 2**-10 and 2**10, the largest norm of a row; it is {clip!r}"
        )


def clipping_norm_in_steps(clip: float, step: float) -> int:
    """The largest norm of an integer vector, in steps: exact, for a step is a power of two."""
    return math.floor(clip / step)


def clip_record_rows(
    values: NDArray[Any], signs: NDArray[np.int8], columns: Sequence[Column], clip: float | None, step: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Edge integers of rows, shape (rows, len(columns)), and which rows are good; a bad row gives zeros.

    `values` may hold NaN and infinities, `signs` zeros.
    """
    good = signs != 0
    for k in range(values.shape[1]):
        good &= np.isfinite(values[:, k])
    scaled = np.empty((len(columns), len(values)))
    for k, column in enumerate(columns):
        raw = np.zeros(len(values)) if column.scale == "constant" else values[:, k].astype(np.float64)
        scaled[k] = column.apply(np.where(good, raw, 0.0))
    if clip is not None:
        squares = np.zeros(len(values))
        for row in scaled:
            squares += row * row
        # A hair below, so that rounding of the norm seldom makes the test in integers fail.
        reach, norm = clipping_norm_in_steps(clip, step) * step, np.sqrt(squares)
        scaled *= np.where(norm <= reach, 1.0, reach * (1 - 2.0**-40) / np.maximum(norm, reach))
    integers = np.trunc(scaled / step).astype(np.int64)
    if clip is not None:
        norms = np.zeros(len(values), dtype=np.int64)
        for row in integers:
            norms += row * row
        good &= norms <= clipping_norm_in_steps(clip, step) ** 2
    integers *= np.where(good, signs, 0)
    return np.ascontiguousarray(integers.T), good


MAX_COLUMNS = 2**18
NO_BOUNDS = (
    "a promise about records needs a declared schema: one read off the table would reveal some of it; "
    "write a template with: rado schema TABLE --label COL, fill that in from public knowledge, and give it as schema; "
    "or give schema='private', and the mechanism moments finds the bounds of numbers by noisy counts"
)


def check_declared(asked: CraftRequest, *, may_search: bool = False) -> int | None:
    """Refuse a declaration with gaps, and return the number of columns; None where only the table knows it.

    With `may_search` the mechanism can find bounds privately.
    """
    if asked.seeded and not asked.i_know:
        raise ArgumentError(
            "a seed makes the signatures known, and every promise with it; leave it out, or say i_know"
            " (--set i_know=yes) to get a release with an infinite epsilon"
        )
    if asked.scale not in ("auto", "bounds"):
        raise ArgumentError(
            f"scale={asked.scale!r} takes its constants from the table; a private mechanism needs scale='bounds' (or "
            "'auto')"
        )
    if asked.schema.inferences:
        words = asked.schema.inferences
        shown = ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")
        raise ArgumentError(
            f"{shown}: this was read off the table, so it reveals some of it; fill in a template from public knowledge "
            "instead, made by rado schema without --from-data"
        )
    if lines := asked.schema.undecided():
        if asked.classes is None:
            lines["classes"] = '"classes": ["NEGATIVE", "POSITIVE"], or all of more than two'
        raise ArgumentError(
            f"the schema leaves open what a promise about records needs, of {', '.join(map(repr, lines))}; write from "
            f"public knowledge, or leave the columns out: {', '.join(lines.values())}"
        )
    if not may_search:
        asked.refuse_private()
    if len(asked.limits) == 0 and not asked.all_private:
        raise ArgumentError(NO_BOUNDS)
    if asked.classes is None:
        raise ArgumentError(
            "a private mechanism needs the classes declared: give classes=(negative, positive), or --classes NEG,POS; "
            "of more than two, all of them in order"
        )
    declared_label_encoder(asked)
    names = record_features(asked)
    if asked.person is not None and asked.person in (names or ()):
        raise ArgumentError(
            f"{asked.person!r} says whose row it is, so it cannot be a feature: take it out of the bounds, or drop it"
        )
    if names is None:
        return None
    check_declared_feature_names(names, asked.intercept)
    limits, searched = dict(asked.limits), asked.searched(names)
    fixed = [name for name in names if name not in searched]
    check_declared_bounds({name: limits[name] for name in fixed}, fixed, "bounds")
    return check_width_of_records(asked.width(names))


def record_features(asked: CraftRequest) -> list[str] | None:
    """The declared columns to use; None where bounds go by position, or all columns of the table are meant."""
    declared = asked.names
    if declared is None or asked.schema.raw:
        return declared
    names = declared if asked.features is None else list(asked.features)
    missing = [name for name in names if name not in declared]
    if missing:
        raise ArgumentError(
            f"the bounds do not declare {list_names(missing)}; add low and high, or leave such columns out"
        )
    return [name for name in names if name not in asked.drop]


def declared_record_columns(asked: CraftRequest, features: Sequence[str], step: float) -> tuple[Column, ...]:
    """The columns of a release by declared bounds; the constant feature last."""
    declared = asked.limits
    if asked.names is not None:
        declared = {name: declared[name] for name in features}
    check_declared_feature_names(features, asked.intercept)
    limits = check_declared_bounds(declared, features, "bounds")
    check_width_of_records(len(features) + asked.intercept)
    columns = [Column(name, "bounds", step, *limits[name]) for name in features]
    return (*columns, *([constant_column(step)] * asked.intercept))


def released_record_columns(
    asked: CraftRequest, features: Sequence[str], step: float
) -> tuple[tuple[Column, ...], MappedInputs | None]:
    """The columns of a release, the constant feature last, and the feature map that makes them, if there is one (C6).

    The map's constants are the bounds, declared or found privately, and its outputs have the bounds -1 and 1.
    """
    columns = declared_record_columns(asked, features, step)
    if asked.fixed_columns == "linear":
        return columns, None
    inputs = columns[: len(features)]
    feature_map = make_feature_map(asked.fixed_columns, inputs, asked.groups)
    outputs = tuple(Column(name, "bounds", step, -1.0, 1.0) for name in feature_map.output_names)
    check_width_of_records(len(outputs) + asked.intercept)
    return (*outputs, *columns[len(features) :]), MappedInputs(feature_map, inputs)


def declared_label_encoder(asked: CraftRequest) -> LabelEncoder:
    assert asked.classes is not None
    return LabelEncoder(asked.label_name, asked.classes, asked.schema.marks if asked.schema.raw else PLAIN)


def check_width_of_records(n_columns: int) -> int:
    """The number of columns, refused if a sum of their squares may not fit 64 bits (C3)."""
    if n_columns > MAX_COLUMNS:
        raise ArgumentError(f"a private mechanism takes at most {MAX_COLUMNS:,} columns; there are {n_columns:,}")
    return n_columns


def check_coins_of_records(asked: CraftRequest, name: str) -> None:
    """Refuse signatures that need the number of examples, which is protected."""
    if not asked.subsets.by_coins:
        raise ArgumentError(
            f"{name} draws each example by a secret coin; leave signatures out (a fixed support needs the "
            "number of examples, which is protected)"
        )


def limit_persons(
    asked: CraftRequest, run: Curator, rule: LabelEncoder, *, with_label: bool = True
) -> PersonCounts | None:
    """Leave out all rows but `max_rows` of each person, where a person is named, for all passes to come (P2).

    The key of the choice comes from the operating system, serves this release, and is stored nowhere. `with_label` must
    be False where labels are what is protected: the choice must not depend on them.
    """
    if asked.person is None:
        return None
    key = Key.from_system().shared() if asked.choice_key is None else asked.choice_key
    run.source, counts = choose_rows_of_persons(
        run.source, run.sum, rule, asked.max_rows, key, with_label=with_label, sizes=run.sizes()
    )
    return counts


def person_parameters_of_release(asked: CraftRequest) -> dict[str, Any]:
    return {} if asked.person is None else {"person": asked.person, "max_rows": asked.max_rows}


def count_record_rows(run: Curator) -> int:
    """How many rows there are, for mechanisms that publish it."""
    n_rows = run.source.n_rows
    if n_rows is None:
        n_rows = sum(run.sizes())
    run.source.check_rows(n_rows)
    check_rows_sum_exactly(run.source.name, n_rows, advice="learn from each")
    return n_rows


@dataclass(frozen=True, eq=False)
class SumContributions(rado_sums.RadoPass):
    """Rados of what records contribute: clipped, rounded towards zero, zeros where a record is bad.

    `row_noise` is noise on every row, good or bad.
    """

    clip: float | None
    step: float
    row_noise: RowNoise | None = None

    def for_part(self, first_row: int, n_rows: int) -> "SumContributions":
        """The pass for one part that is summed elsewhere, with the coins and the noise of its own rows."""
        noise = None if self.row_noise is None else self.row_noise.for_part()
        return replace(super().for_part(first_row, n_rows), row_noise=noise)

    def add(self, sums: rado_sums.RadoSums, first_row: int, batch: Batch) -> None:
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
            values, signs = batch.values(), self.rule.signs_or_zero(batch.labels)
            rows, good = clip_record_rows(values, signs, self.columns, self.clip, self.step)
            if self.row_noise is not None:
                rows += self.row_noise.rows(first_row, *rows.shape)
                np.clip(rows, -LARGEST, LARGEST, out=rows)  # post-processing: the noise is in already
            self.engine.sum_rows(rows.astype(np.int32), first_row, self.prepared, sums.totals)
            values = rado_sums.values_of_row_counts(batch, values)
            sums.counts.see(values, signs, good, batch)
            sums.counts.clipped += count_beyond_bounds(
                values, good, rado_sums.columns_of_row_counts(self.columns, self.inputs)
            )


def sum_record_contributions(
    asked: CraftRequest,
    run: Curator,
    plan: NoisePlan,
    columns: tuple[Column, ...],
    n_rows: int | None,
    *,
    noise_on: str,
    persons: PersonCounts | None,
    through: MappedInputs | None,
) -> ReleaseDraft:
    """Rados of what records contribute, with the noise of a plan on "rados" or on "examples"."""
    rule, n_rados = declared_label_encoder(asked), asked.n_rados
    if through is not None:
        run.source = map_table(run.source, through.map)
    rado_sums.check_memory_for_rados(run.engine, n_rados, len(columns))
    if n_rows is not None:
        check_n_signatures(n_rados, n_rows, asked.subsets)
    prepared = asked.subsets.prepare(asked.signature_key, n_rados, n_rows or 0, run.threads)
    on_rows = noise_on == "examples"
    run.book(plan.event)
    row_noise = run.row_noise(plan.noise_scale) if on_rows else None
    inputs = None if through is None else through.inputs
    task = SumContributions(
        run.engine, columns, rule, n_rados, prepared, plan.clip, plan.step, row_noise, inputs=inputs
    )
    sums = run.noisy_sum(task, *(() if on_rows else (NoiseSpec("totals", plan.noise_scale),)))
    if n_rows is not None and sums.counts.n_rows != n_rows:
        raise TableError(CHANGED.format(name=run.source.name, before=n_rows, after=sums.counts.n_rows))
    circumstances = StatementFacts(
        "bounds", asked.seeded, n_rados, len(columns), n_rows, asked.earlier, person=asked.person,
        max_rows=asked.max_rows, mapped=through is not None, drawn_together=not asked.subsets.by_coins,
    )  # fmt: skip
    return ReleaseDraft(
        blocks={RADOS: sums.totals * np.float64(plan.step)},
        columns=columns,
        classes=tuple(rule.classes),
        circumstances=circumstances,
        parameters=person_parameters_of_release(asked),
        signatures={"name": asked.subsets.name, **asked.subsets.parameters(n_rows or 0)},
        counts=replace(sums.counts, persons=persons),
        map=None if through is None else through.map,
    )
