"""Rados with noise: rows are clipped, each joins each rado by a secret coin, and every rado gets noise as one vector.

Proof: docs/proofs/noisy-rados.md, steps R1 to R7.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.gaussian_noise import LARGEST_SCALE, LEAST_SCALE, TOTAL_VARIATION, scale_rounded_up
from radoboost.holder.grid import grid_step
from radoboost.holder.mechanisms import record_level, statements
from radoboost.holder.mechanisms.mechanism import KeyUse, NoisePlan, Question, ReleaseDraft, StatementFacts
from radoboost.holder.request import CraftRequest
from radoboost.privacy import Event, Relation, Repeated, SubsampledGaussian, subsampled_multiplier
from radoboost.privacy.calibration import variation_of_shared_noise
from radoboost.release.release import Statement
from radoboost.tables.person_ids import Person

INCLUSION = 0.5
_SEVERAL_ROWS = "A person with several rows: k rows pay together; rado show has what 2, 5 and 10 do."
_NOT_PROTECTED = ("What all records say together: that is what a release is for.",)


@dataclass(frozen=True)
class NoisyRados:
    """Rados of clipped rows with Gaussian noise on each: record-level differential privacy, for all n rados together.

    `clip` bounds the L2 norm of a row whose columns are scaled to [-1, 1] by declared bounds. Give `epsilon` and
    `delta` to get the least noise for them, or `noise_std`, and the statement says what that buys at `delta`. The
    `unit` "record" says that each row is another person.

    >>> NoisyRados(epsilon=1.0).plan(100, 5, None).noise_std > 18
    True
    """

    epsilon: float | None = None
    delta: float = statements.DEFAULT_DELTA
    clip: float = 1.0
    noise_std: float | None = None
    unit: str | Person | None = None
    i_know: bool = False
    intercept: bool = True

    name: ClassVar[str] = "noisy-rados"
    private: ClassVar[bool] = True
    law: ClassVar[str] = "noisy sums"
    secrets: ClassVar[KeyUse] = KeyUse(row_noise=False)
    noise_on: ClassVar[str] = "rados"
    neighbours: ClassVar[Relation] = Relation.RECORD
    hides_size: ClassVar[bool] = True
    in_rooms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_epsilon_or_noise(self.epsilon, self.delta, self.noise_std)
        check_protects_records(self.name, self.unit)
        record_level.check_clipping_norm(self.clip)

    def check(self, asked: CraftRequest) -> None:
        """Refuse a declaration with gaps, and noise that cannot be sampled."""
        asked.refuse("rows")
        asked.refuse_many_classes(self.name, asked.classes)
        record_level.check_coins_of_records(asked, self.name)
        n_columns = record_level.check_declared(asked)
        if n_columns is not None:
            self.plan(asked.n_rados, n_columns, None, asked.max_rows, asked.person or "", asked.noise_shares)

    def make(self, asked: CraftRequest, run: Curator) -> ReleaseDraft:
        """Clip, sum by secret coins, add noise to every rado."""
        n_rows = None
        n_columns = asked.width(run.source.features)
        plan = self.plan(asked.n_rados, n_columns, n_rows, asked.max_rows, asked.person or "", asked.noise_shares)
        columns, through = record_level.released_record_columns(asked, run.source.features, plan.step)
        persons = record_level.limit_persons(asked, run, record_level.declared_label_encoder(asked))
        draft = record_level.sum_record_contributions(
            asked, run, plan, columns, n_rows, noise_on=self.noise_on, persons=persons, through=through
        )
        return replace(
            draft,
            parameters={
                **draft.parameters,
                "clip": self.clip,
                "noise_std": plan.noise_std * run.noise_factor,
                "noise_on": self.noise_on,
                "inclusion": INCLUSION,
            },
        )

    @cache  # noqa: B019 - a mechanism is small, and calibration is not
    def plan(
        self,
        n_rados: int,
        n_columns: int,
        n_examples: int | None,
        max_rows: int = 1,
        person: str = "",
        shares: int = 1,
    ) -> NoisePlan:
        """The noise, in steps of the grid of values in [-1, 1] (R4, R5), or of a person's `max_rows` (P6).

        It is drawn in so many `shares` (D5).
        """
        step = grid_step(1.0, "")
        reach = record_level.clipping_norm_in_steps(self.clip, step)
        per_rado = n_columns * variation_of_shared_noise(TOTAL_VARIATION, shares)
        if self.noise_std is None:
            assert self.epsilon is not None
            multiplier = subsampled_multiplier(
                self.epsilon, self.delta, INCLUSION, n_rados, total_variation=per_rado, group=max_rows
            )
            scale = noise_scale_in_steps(multiplier * reach * (1 + 1e-12))
        else:
            scale = noise_scale_in_steps(self.noise_std / step)
        # Rounded down, so that no more noise is accounted for than there is.
        actual = math.nextafter(scale / reach, 0.0)
        relation = Relation.PERSON if person else Relation.RECORD
        event: Event = SubsampledGaussian(actual, INCLUSION, per_rado, relation, group=max_rows, person=person)
        return NoisePlan(step, self.clip, scale, Repeated(event, n_rados))

    def statement(self, circumstances: StatementFacts) -> Statement:
        """Joint (epsilon, delta) of all rados, for one record, or person, added or removed (R6, P6)."""
        whom = statements.privacy_unit_text(circumstances, "record", statements.RECORD_UNIT, _SEVERAL_ROWS)
        declared = statements.COLUMNS_OF_THE_TABLE if circumstances.columns_from_table else statements.DECLARED
        return statements.make_statement(
            self.name,
            self._plan(circumstances).event,
            self.delta,
            circumstances,
            unit=whom.unit,
            promises=(
                f"Whether {whom.anyone} was in the table changes the probability of no outcome by more than a factor "
                "of exp(epsilon), up to delta. This is about all rados of the release together.",
                "The number of examples is protected in the same sense, and is not in the release.",
            ),
            not_protected=(*_NOT_PROTECTED, declared, *whom.not_protected, *statements.COMMON),
            secrets=self.secrets,
        )

    @classmethod
    def account(cls, question: Question) -> tuple[Event, dict[str, Any]]:
        """What the rados cost together, and the noise in multiples of the clipping norm."""
        question.check_one()
        question.refuse_columns(cls.name)
        epsilon, noise, n_rados = question.epsilon, question.noise, question.n_rados
        check_epsilon_or_noise(epsilon, question.delta, noise)
        if noise is None:
            assert epsilon is not None
            noise = subsampled_multiplier(epsilon, question.delta, INCLUSION, n_rados)
        return Repeated(SubsampledGaussian(noise, INCLUSION), n_rados), {"noise": noise, "n_rados": n_rados}

    def _plan(self, circumstances: StatementFacts) -> NoisePlan:
        shares = 1 if circumstances.room is None else circumstances.room.holders
        about = circumstances.n_rados, circumstances.n_columns, None, circumstances.max_rows, circumstances.person or ""
        return self.plan(*about, shares)


def noise_scale_in_steps(scale: float) -> float:
    """The noise in grid steps, rounded up to what can be sampled."""
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:
        raise ArgumentError(
            f"noise of {scale:.3g} grid steps cannot be sampled; choose noise_std, or epsilon, so that it is between "
            f"{LEAST_SCALE:g} and {LARGEST_SCALE:.3g}"
        )
    return scale_rounded_up(scale)


def check_protects_records(name: str, unit: Any) -> None:
    """Refuse to protect anything but records, for a mechanism that cannot."""
    if unit not in (None, "record") and not isinstance(unit, Person):
        raise ArgumentError(f"{name} protects records or persons: unit is 'record' or Person(...); it is {unit!r}")


def check_epsilon_or_noise(epsilon: Any, delta: Any, noise_std: Any) -> None:
    """Refuse anything but either epsilon and delta, or a standard deviation."""
    if (epsilon is None) == (noise_std is None):
        raise ArgumentError("give epsilon, or noise_std, and not both")
    statements.check_epsilon_and_delta(1.0 if epsilon is None else epsilon, delta)
    if noise_std is not None and not (isinstance(noise_std, int | float) and 0 < noise_std < math.inf):
        raise ArgumentError(f"noise_std must be positive and finite; it is {noise_std!r}")
