"""Rados of noisy examples: the Gaussian mechanism on every edge vector, one draw a row, and then rados of the result.

Proof: docs/proofs/noisy-examples.md, steps E1 to E6.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

from radoboost.errors import ArgumentError, TableError
from radoboost.holder.curator import Curator
from radoboost.holder.gaussian_noise import TOTAL_VARIATION
from radoboost.holder.grid import grid_step
from radoboost.holder.mechanisms import record_level, statements
from radoboost.holder.mechanisms.mechanism import KeyUse, NoisePlan, Question, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.noisy_rados import check_epsilon_or_noise, check_protects_records, noise_scale_in_steps
from radoboost.holder.request import CraftRequest
from radoboost.privacy import Event, Gaussian, NotPrivate, Relation, gaussian_multiplier
from radoboost.release.release import Statement
from radoboost.tables.person_ids import Person

_REACH = 12.0  # standard deviations of noise that the grid has room for; values beyond are cut off
_NOT_PROTECTED = (
    "What all examples say together: that is what a release is for.",
    "The number of examples: it is in the release. Whether somebody is in the table at all is not protected.",
)
_SEVERAL_ROWS = (
    "A person with several rows: k rows have sqrt(k) times the mu of one; rado show has the epsilons of 2, 5, 10."
)
_UNIT = "the content of one row: its values and its label; a person with k rows is protected as a group of k"

_NO_CLIP = "Noise without a clipping norm promises nothing: nothing bounds what one row adds."


@dataclass(frozen=True)
class NoisyExamples:
    """Rados of edge vectors that the Gaussian mechanism has protected one by one (Section 5.2 of the paper).

    As in the paper, noise is for one edge vector replaced; unlike there, its norm is clipped, to `clip`, and accounting
    is exact. Give `epsilon` and `delta`, or `noise_std`; without a `clip`, `noise_std` promises nothing. The `unit`
    "record" says that each row is another person.

    >>> NoisyExamples(epsilon=1.0, clip=1.0).plan(10, 5, 1000).noise_std > 8.4
    True
    """

    epsilon: float | None = None
    delta: float = statements.DEFAULT_DELTA
    clip: float | None = 1.0
    noise_std: float | None = None
    unit: str | Person | None = None
    i_know: bool = False
    intercept: bool = True

    name: ClassVar[str] = "noisy-examples"
    private: ClassVar[bool] = True
    law: ClassVar[str] = "sums of noisy rows"
    secrets: ClassVar[KeyUse] = KeyUse(sum_noise=False)
    noise_on: ClassVar[str] = "examples"
    neighbours: ClassVar[Relation] = Relation.EDGE
    hides_size: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_epsilon_or_noise(self.epsilon, self.delta, self.noise_std)
        check_protects_records(self.name, self.unit)
        if self.clip is None and self.epsilon is not None:
            raise ArgumentError("epsilon needs a clip, the largest norm of a row; 1 is a common choice")
        if self.clip is not None:
            record_level.check_clipping_norm(self.clip)

    def check(self, asked: CraftRequest) -> None:
        """Refuse a declaration with gaps, and noise that cannot be sampled."""
        asked.refuse("rows")
        asked.refuse_many_classes(self.name, asked.classes)
        n_columns = record_level.check_declared(asked)
        if n_columns is not None:
            self.plan(asked.n_rados, n_columns, 1, asked.max_rows, asked.person or "")

    def make(self, asked: CraftRequest, run: Curator) -> ReleaseDraft:
        """Clip, add noise to every row, sum."""
        persons = record_level.limit_persons(asked, run, record_level.declared_label_encoder(asked))
        if persons is not None and persons.people == 0:
            raise TableError(f"no row of {run.source.name} has a person in {asked.person!r}; name another column")
        n_rows = record_level.count_record_rows(run)
        n_columns = asked.width(run.source.features)
        plan = self.plan(asked.n_rados, n_columns, n_rows, asked.max_rows, asked.person or "")
        columns, through = record_level.released_record_columns(asked, run.source.features, plan.step)
        draft = record_level.sum_record_contributions(
            asked, run, plan, columns, n_rows, noise_on=self.noise_on, persons=persons, through=through
        )
        said = {"clip": self.clip, "noise_std": plan.noise_std, "noise_on": self.noise_on}
        return replace(draft, parameters={**draft.parameters, **said})

    @cache  # noqa: B019 - a mechanism is small, and calibration is not
    def plan(
        self, n_rados: int, n_columns: int, n_examples: int | None, max_rows: int = 1, person: str = ""
    ) -> NoisePlan:
        """The noise, and a grid wide enough for it (E2, E3), also for a person's `max_rows` (P5)."""
        assert n_examples is not None
        variation = n_examples * n_columns * TOTAL_VARIATION
        largest = 1.0 if self.clip is None else self.clip
        relation = Relation.PERSON_ROWS if person else Relation.EDGE
        if self.noise_std is None:
            assert self.epsilon is not None
            multiplier = gaussian_multiplier(self.epsilon, self.delta, relation, total_variation=variation)
            noise = multiplier * 2 * largest * math.sqrt(max_rows) * (1 + 1e-12)
        else:
            noise = self.noise_std
        step = grid_step(largest + _REACH * noise, "")
        if record_level.clipping_norm_in_steps(largest, step) < 1:
            raise ArgumentError(
                f"noise of {noise:.3g} leaves nothing of rows of norm {largest:g}; take a larger epsilon or less noise"
            )
        scale = noise_scale_in_steps(noise / step)
        event: Event = NotPrivate("noise without a clipping norm promises nothing", relation)
        if self.clip is not None:
            actual = scale / (2 * record_level.clipping_norm_in_steps(self.clip, step) * math.sqrt(max_rows))
            for _ in range(1 if max_rows == 1 else 3):  # below what rounding may have added
                actual = math.nextafter(actual, 0.0)
            event = Gaussian(actual, relation, variation, own_noise=True, person=person)
        return NoisePlan(step, self.clip, scale, event)

    def statement(self, circumstances: StatementFacts) -> Statement:
        """(epsilon, delta) for one edge vector, or those of a person, replaced; rados are post-processing (E4, E5)."""
        whom = statements.privacy_unit_text(circumstances, "content", _UNIT, _SEVERAL_ROWS)
        return statements.make_statement(
            self.name,
            self._plan(circumstances).event,
            self.delta,
            circumstances,
            unit=whom.unit,
            promises=(
                f"What {whom.anyone}, values and label, changes the probability of no outcome by more than a factor of "
                "exp(epsilon), up to delta. The number of rados does not matter.",
            ),
            not_protected=(
                *(() if self.clip is not None else (_NO_CLIP,)),
                *_NOT_PROTECTED,
                statements.COLUMNS_OF_THE_TABLE if circumstances.columns_from_table else statements.DECLARED,
                *(() if self.clip is None else whom.not_protected),
                *statements.COMMON,
            ),
            secrets=self.secrets,
        )

    @classmethod
    def account(cls, question: Question) -> tuple[Event, dict[str, Any]]:
        """What any number of rados cost, and the noise in multiples of the clipping norm."""
        question.check_one()
        question.refuse_columns(cls.name)
        epsilon, noise = question.epsilon, question.noise
        check_epsilon_or_noise(epsilon, question.delta, noise)
        if noise is None:
            assert epsilon is not None
            noise = 2 * gaussian_multiplier(epsilon, question.delta, Relation.EDGE)
        return Gaussian(noise / 2, Relation.EDGE, own_noise=True), {"noise": noise}

    def _plan(self, circumstances: StatementFacts) -> NoisePlan:
        return self.plan(
            circumstances.n_rados, circumstances.n_columns, circumstances.n_examples, circumstances.max_rows,
            circumstances.person or "",
        )  # fmt: skip
