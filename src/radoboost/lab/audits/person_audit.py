"""The attack on a whole person: what an adversary who knows everybody else's rows makes of a release of `moments`.

The canary is a person with many identical rows. The adversary knows all other rows, and even the key by which rows of
persons are chosen. So, given what was released before, each stage is a known sum, plus noise, plus as many times the
canary's contribution as rows of it are chosen: the log-likelihood ratios of the stages add up.

What is run is the mechanism's `make`, whole, as crafting runs it. Without a bound on rows of a person the same attack
is on a release that promises something about records: it shows what that promise is worth for a person.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.contribution_bounding import choose_rows_of_persons
from radoboost.holder.curator import Curator
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.mechanisms import Moments, ReleaseDraft
from radoboost.holder.mechanisms.moments.aggregations import GRID
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.schema_file import Declared
from radoboost.lab.audits.audit import (
    CONFIDENCE,
    Audit,
    least_epsilon_of_error_rates,
    lower_rate_bound,
    upper_rate_bound,
)
from radoboost.lab.audits.moments_audit import (
    RowSums,
    canary_rows_on_sphere,
    count_rows_in_score_cells,
    log_likelihood_ratio_of_stage,
)
from radoboost.privacy import Event, Gaussian, epsilon_at
from radoboost.privacy.events import person_column_of_event
from radoboost.progress import Progress, silent
from radoboost.release.feature_map import FeatureMap
from radoboost.tables import Table, open_table

PERSON = "person"
_CANARY = -1  # its id; others have ids from 0 on
_ROWS_AT_A_TIME = 1 << 15
_LEAST_RUNS = 80


@dataclass(frozen=True, eq=False)
class PersonCanary:
    """A table of visits: `values` within [-1, 1], `labels` 0 and 1, and `people`, whose visit it is, from 0 on.

    The canary has `times` rows, all of them `canary`, with the label 1; of more than two classes, `n_classes`, with the
    label 2.
    """

    values: NDArray[np.float64]
    labels: NDArray[np.int64]
    people: NDArray[np.int64]
    canary: NDArray[np.float64]
    times: int = 40
    n_classes: int = 2

    @property
    def place(self) -> int:
        return 1 if self.n_classes == 2 else 2

    @property
    def names(self) -> list[str]:
        return [f"x{k}" for k in range(self.values.shape[1])]

    def source(self, *, with_canary: bool) -> Table:
        times = self.times if with_canary else 0
        values = np.concatenate([self.values, np.tile(self.canary, (times, 1))])
        columns = {name: values[:, k] for k, name in enumerate(self.names)}
        columns["label"] = np.append(self.labels, np.full(times, self.place))
        columns[PERSON] = np.append(self.people, np.full(times, _CANARY))
        return open_table(pa.table(columns), label="label", person=PERSON, row_by_row=True)


def person_canary_of_few_visits(mechanism: Moments, max_rows: int, times: int = 40, n_classes: int = 2) -> PersonCanary:
    """As few others as an attack needs: pairs of opposite edge vectors, along the canary's own.

    The classifier then hardly leans either way, so that the canary has nearly the largest weight that a row can have.
    """
    row = np.array([1.0, 0.9])
    shape = NoiseShape(len(row) + 1, max_rows=max_rows, n_classes=n_classes)
    pairs = round(100 * max_rows / mechanism.distance(shape))
    rows = np.arange(2 * pairs)
    return PersonCanary(np.tile(row, (len(rows), 1)), rows % 2, rows // max_rows, row, times, n_classes)


def audit_person(
    mechanism: Moments,
    visits: PersonCanary,
    max_rows: int | None,
    *,
    runs: int = 1000,
    key: bytes | None = None,
    run: type[Curator] = Curator,
    bar: Progress = silent,
    columns: str = "auto",
) -> Audit:
    """Tell releases with the canary from those without it; the claim is the statement's.

    With `max_rows` None nothing bounds the rows of a person, and the claim, about one record, is held against what the
    attack finds about the person. A release counts as one with the canary if that is the likelier; since nothing is
    chosen by the runs, all of them are counted. `run` lets tests audit faulty noise, and `columns` is the word for the
    columns of the release.
    """
    if mechanism.protects != "record":
        raise ArgumentError("the attack on a person tells whether they are in the table; take unit='record'")
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < _LEAST_RUNS:
        raise ArgumentError(f"the attack on a person needs at least {_LEAST_RUNS} runs; runs is {runs!r}")
    choice_key = hashlib.sha256(b"radoboost/audit/choice/" + (key or b"")).digest()
    attack = _Attack(mechanism, visits, max_rows, choice_key, columns)
    scores: list[list[float]] = [[], []]
    event: Event | None = None
    tables = [visits.source(with_canary=present) for present in (True, False)]
    for number in range(runs):
        for which, table in enumerate(tables):
            made = attack.make(run(table, attack.engine, ThreadRunner(1), _person_audit_noise_key(key, which, number)))
            scores[which].append(attack.score(made))
            shape = made.circumstances.shape
            event = None if shape is None else mechanism.dearest(shape)
        bar("releases with and without the canary", number + 1, runs)
    assert event is not None
    assert event.relation is not None
    relation, column = event.relation, person_column_of_event(event) or ""

    def family(multiplier: float) -> Event:
        return Gaussian(multiplier, relation, person=column)

    hits, alarms = (sum(score > 0 for score in some) for some in scores)
    risk, delta = (1 - CONFIDENCE) / 2, mechanism.delta
    rates = upper_rate_bound(alarms, runs, risk), lower_rate_bound(hits, runs, risk)
    bare = max(0.0, math.log((rates[1] - delta) / rates[0])) if rates[1] > delta else 0.0
    found = least_epsilon_of_error_rates(family, rates, delta)
    return Audit(
        mechanism.name, relation.value, delta, epsilon_at(event, delta), found, runs, "all stages", CONFIDENCE, bare
    )


def _person_audit_noise_key(key: bytes | None, which: int, number: int) -> bytes | None:
    place = bytes([which]) + number.to_bytes(8, "little")
    return None if key is None else hashlib.sha256(b"radoboost/audit/person/" + place + key).digest()


@dataclass(frozen=True, eq=False)
class _Attack:
    """What the adversary knows: everybody else's rows, those that are chosen of them, and the canary's row."""

    mechanism: Moments
    visits: PersonCanary
    max_rows: int | None
    choice_key: bytes
    columns: str = "auto"

    @property
    def times(self) -> int:
        """How many rows of the canary contribute."""
        return self.visits.times if self.max_rows is None else min(self.visits.times, self.max_rows)

    @cached_property
    def sums(self) -> RowSums:
        return RowSums(get_engine("auto"), self.visits.n_classes)

    @property
    def engine(self) -> Engine:
        return self.sums.engine

    @cached_property
    def _asked(self) -> CraftRequest:
        limits = {name: (-1.0, 1.0) for name in self.visits.names}
        asked = CraftRequest(
            n_rados=0, signature_key=bytes(32), declared=Declared(limits), label="label",
            classes=self.sums.classes, columns=self.columns,
        )  # fmt: skip
        if self.max_rows is None:
            return asked
        return replace(asked, person=PERSON, max_rows=self.max_rows, choice_key=self.choice_key)

    def make(self, run: Curator) -> ReleaseDraft:
        """What the mechanism makes of a table, in the way that `craft` calls it, without rados."""
        self.mechanism.check(self._asked)
        return self.mechanism.make(self._asked, run)

    @cached_property
    def _others(self) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """Everybody else's chosen rows, and the places of their classes, some rows at a time."""
        source, rule = self.visits.source(with_canary=False), self.sums.rule
        if self.max_rows is not None:
            source, _ = choose_rows_of_persons(source, ThreadRunner(1).run, rule, self.max_rows, self.choice_key)
        return [(batch.values(), rule.places(batch.labels)) for batch in source.batches(_ROWS_AT_A_TIME)]

    def _rows(self, through: FeatureMap | None) -> tuple[NDArray[np.int32], list[NDArray[np.int32]]]:
        ends = np.ones(len(self.visits.names))
        canary = canary_rows_on_sphere(self.engine, self.visits.canary[None], (-ends, ends), through)
        return canary, [
            canary_rows_on_sphere(self.engine, values, (-ends, ends), through) for values, _ in self._others
        ]

    @cached_property
    def _own_rows(self) -> tuple[NDArray[np.int32], list[NDArray[np.int32]]]:
        """Rows of the table's own columns, which are the same in every release."""
        return self._rows(None)

    def score(self, made: ReleaseDraft) -> float:
        """The log-likelihood ratio of the canary being there, of all stages together."""
        return sum(log_likelihood_ratio_of_stage(*part) for part in self._parts(made))

    def _parts(self, made: ReleaseDraft) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], float]]:
        """Of each stage: what is left without everybody else, the canary's part in it, and the noise."""
        sums, blocks, noise, times = self.sums, made.blocks, made.parameters["noise"], self.times
        canary, others = self._own_rows if made.map is None else self._rows(made.map)
        good = made.parameters["rows"]["good"] - sum(rows.shape[1] for rows in others)
        yield np.array([good * GRID]), np.array([times * GRID * 1.0]), noise["counts"] * GRID
        if "outline" in blocks:
            yield self._square(blocks["outline"], *self._own_rows, noise["outline"])
        yield self._square(blocks["moment:C"], canary, others, noise["second"])
        place = np.array([self.visits.place])
        edge = self._whitened(canary, blocks["whitening"], place)
        edges = [
            self._whitened(rows, blocks["whitening"], places)
            for rows, (_, places) in zip(others, self._others, strict=True)
        ]
        known: Any = sum(sums.total(rows) for rows in edges)
        yield blocks["moment:b"] * GRID - known, times * sums.total(edge).astype(np.float64), noise["sum"] * GRID
        known = sum(sums.products(rows) for rows in edges)
        own = times * sums.products(edge).astype(np.float64)
        yield blocks["moment:C2"] * GRID**2 - known, own, noise["whitened"] * GRID**2
        for mean, theta in sums.rounds(made):
            known = sum(sums.tilted(rows, theta) for rows in edges)
            own = times * sums.tilted(edge, theta).astype(np.float64)
            yield mean * sums.round_unit - known, own, noise["rounds"] * sums.round_unit
        by = sums.score_counts(made)
        cells = sum(count_rows_in_score_cells(by, made, values, places) for values, places in self._others)
        own = times * count_rows_in_score_cells(by, made, self.visits.canary[None], place)
        yield made.blocks["scores"] * GRID - cells, own, noise["scores"] * GRID

    def _whitened(
        self, rows: NDArray[np.int32], a: NDArray[np.float64], places: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        marks = np.array([self.sums.mark(place) for place in range(self.sums.n_classes)], np.int8)
        return self.sums.whitened(rows, a, marks[places])

    def _square(
        self, released: NDArray[np.float64], canary: NDArray[np.int32], others: list[NDArray[np.int32]], noise: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        row, known = canary[:, 0].astype(np.float64), sum(self.engine.products(rows)[0] for rows in others)
        return released * GRID**2 - known, self.times * np.outer(row, row), noise * GRID**2
