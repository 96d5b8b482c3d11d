"""Private moments of whitened edge vectors, sharpened by a few private mean rados.

Proof: docs/proofs/moments.md. What is done in each stage is in `stages`, what a record
contributes in `aggregations`, and how much noise each stage gets in `budget`.
"""

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.declared_bounds import check_declared_feature_names
from radoboost.holder.feature_maps import DEGREES, map_table
from radoboost.holder.gaussian_noise import LARGEST_SCALE
from radoboost.holder.grid import check_rows_sum_exactly
from radoboost.holder.mechanisms import record_level, statements
from radoboost.holder.mechanisms.mechanism import KeyUse, Question, ReleaseDraft, StatementFacts, check_intercept
from radoboost.holder.mechanisms.moments import feature_plan
from radoboost.holder.mechanisms.moments.aggregations import CONSTANT_VALUE, GRID, MOST_ROWS, SphereRows
from radoboost.holder.mechanisms.moments.budget import (
    EQUAL_BINS,
    SCORE_CELLS,
    NoiseShape,
    Stage,
    compose_stage_events,
    plan_stage_budget,
    released_stage_noise,
)
from radoboost.holder.mechanisms.moments.exact_moments import check_exact_moments, exact_statement, make_exact_moments
from radoboost.holder.mechanisms.moments.private_bounds import (
    check_private_bounds,
    find_private_bounds,
    private_bounds_text,
)
from radoboost.holder.mechanisms.moments.stages import Stages, check_memory_for_stages
from radoboost.holder.mechanisms.plain import Plain
from radoboost.holder.mechanisms.table_survey import TableSurvey, survey_table
from radoboost.holder.request import CraftRequest
from radoboost.privacy import Event, Relation, gaussian_multiplier
from radoboost.release.kind import EXACT_MOMENTS, NOISY_MOMENTS
from radoboost.release.rado_sampling import require_memory_for_drawn_rados
from radoboost.release.release import Statement
from radoboost.tables.labels import check_classes, check_number_of_classes
from radoboost.tables.person_ids import Person

if TYPE_CHECKING:
    from radoboost.holder.mechanisms.moments.preview import PlanPreview

UNITS = ("record", "label")
RELATIONS = ("add", "replace")
_ROUNDING = 1 + 1e-12  # on mu, for what the shares of a plan may add up to beyond those of another; see `distance`


@dataclass(frozen=True)
class Moments:
    """Sum and second moment of whitened edge vectors, with noise; `sharpen` adds a few mean rados.

    `unit` is what is protected: a "record", as it is by default, or a "label" alone, which leaves the features
    unprotected. Who gives "record" says that each row is another person, and is not reminded of it. The cost does not
    depend on the number of rados: those are drawn from the moments, by anyone who wants some. Where bounds are found
    privately, that takes `bounds_share` of mu squared. By `relation` one record is "add"ed or removed; with "replace"
    it is replaced by any other, for tables whose number of rows is public and stands in the release. With
    `epsilon=math.inf` nothing is promised: the release has the exact sum and second moment (`exact_moments`).

    >>> Moments(epsilon=1.0).scales(8)["sum"] > 400_000
    True
    """

    epsilon: float = field(metadata={"otherwise": "; --epsilon inf releases exact sums, which promise nothing"})
    delta: float = statements.DEFAULT_DELTA
    unit: str | Person | None = None
    sharpen: bool = True
    bounds_share: float = 0.1
    relation: str = "add"
    intercept: bool = True

    name: ClassVar[str] = "moments"
    secrets: ClassVar[KeyUse] = KeyUse(coins=False, row_noise=False)
    default_rados: ClassVar[int] = 0
    takes_seed: ClassVar[bool] = False
    in_rooms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settings = (self.protects, self.sharpen, self.bounds_share, self.relation)
        if self.exact and settings != ("record", True, 0.1, "add"):
            raise ArgumentError(
                "with an infinite epsilon nothing is protected, and nothing sharpened: leave unit, relation, sharpen "
                "and bounds_share out, or take a finite epsilon, such as 1"
            )
        statements.check_epsilon_and_delta(1.0 if self.exact else self.epsilon, self.delta)
        check_intercept(self.intercept)
        if self.protects not in UNITS:
            raise ArgumentError(f"unit must be 'record', 'label' or Person(...); it is {self.unit!r}")
        if not isinstance(self.sharpen, bool):
            raise ArgumentError(f"sharpen must be True or False; it is {self.sharpen!r}")
        share = self.bounds_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0.001 <= share <= 0.9:
            raise ArgumentError(f"bounds_share must be a number from 0.001 to 0.9; it is {share!r}")
        if self.relation not in RELATIONS:
            raise ArgumentError(f"relation must be 'add' or 'replace'; it is {self.relation!r}")
        if self._replaced and self.protects == "label":
            raise ArgumentError(
                "with unit='label' a label is flipped, and no record is added or replaced; leave relation out"
            )

    @property
    def protects(self) -> str:
        """What is protected: "record", of which a person may have several, or "label"."""
        return "record" if self.unit is None or isinstance(self.unit, Person) else self.unit

    @property
    def exact(self) -> bool:
        """Whether there is no noise, and no promise."""
        return self.epsilon == math.inf

    @property
    def private(self) -> bool:
        return not self.exact

    @property
    def law(self) -> str:
        return EXACT_MOMENTS if self.exact else NOISY_MOMENTS

    @property
    def hides_size(self) -> bool:
        """Whether the number of examples is protected."""
        return self.protects == "record" and not self._replaced and not self.exact

    @property
    def exact_in_rooms(self) -> bool:
        """Whether a room sees sums without noise: those of features where labels alone are protected, or all."""
        return self.exact or self.protects == "label"

    @property
    def _replaced(self) -> bool:
        return self.relation == "replace"

    @property
    def neighbours(self) -> Relation:
        """Which tables are neighbours, where no column says whose row it is."""
        if self._replaced:
            return Relation.REPLACE
        return Relation.RECORD if self.protects == "record" else Relation.LABEL

    def relation_for(self, shape: NoiseShape) -> Relation:
        """Which tables are neighbours; those of persons, if a column says whose row it is."""
        if not shape.person:
            return self.neighbours
        return Relation.PERSON if self.protects == "record" else Relation.PERSON_LABELS

    def check(self, asked: CraftRequest) -> None:
        """Refuse a declaration with gaps, noise that cannot be sampled, or an epsilon that so few rows cannot carry."""
        if asked.n_rados and _declared_number_of_classes(asked) > 2:
            raise ArgumentError(
                "moments of more than two classes have one second moment for all of them, from which no rados of a "
                "class can be drawn; leave n_rados out (-n)"
            )
        if asked.seeded:
            raise ArgumentError("moments has no signatures for a seed to fix; leave the seed out")
        if not asked.subsets.by_coins:
            raise ArgumentError("moments draws rados from the moments it releases; leave signatures out")
        if self.exact:
            check_exact_moments(asked)
            return
        if self._replaced and asked.person is not None:
            raise ArgumentError(
                "a promise about persons is about one who is added or removed; leave relation out, or --person"
            )
        if asked.rows is not None and asked.rows > MOST_ROWS:
            raise ArgumentError(
                f"sums of products of {asked.rows:,} rows may not fit 64 bits; at most {MOST_ROWS:,} do: make several "
                "releases, each of some of the rows"
            )
        record_level.check_declared(
            replace(asked, columns="linear") if _columns_are_planned(asked) else asked, may_search=True
        )
        if not asked.all_private:
            self._check_shape(asked, _features_known_beforehand(asked))

    def foresee(self, asked: CraftRequest, features: Sequence[str] | None = None) -> str | None:
        """Which columns about so many declared rows carry; None where that, or how many columns there are, is open.

        `features` are the table's columns, once it is open: without declared bounds nothing else says how many.
        """
        foreseen = self._foreseen(asked, features)
        return None if foreseen is None else foreseen.sentence()

    def _foreseen(self, asked: CraftRequest, features: Sequence[str] | None = None) -> "PlanPreview | None":
        if self.exact or asked.rows is None or (features is None and asked.all_private):
            return None
        from radoboost.holder.mechanisms.moments.preview import preview_columns

        names = _features_known_beforehand(asked) if features is None else features
        outlook = _feature_candidates(asked, names)
        return preview_columns(self, asked.rows, outlook, _noise_shape(asked, names, outlook))

    def _check_shape(self, asked: CraftRequest, features: Sequence[str]) -> None:
        """Refuse noise that cannot be sampled, or an epsilon that so few declared rows cannot carry."""
        outlook = _feature_candidates(asked, features)
        shape = _noise_shape(asked, features, outlook)
        mu = self.distance(shape)
        if asked.rows is not None:
            self._check_carries(asked.rows, outlook, shape)
            if shape.n_searched and self.protects == "record":
                cost = f"epsilon {self.epsilon:g} and delta {self.delta:g}, for {self.relation_for(shape).value}"
                mu /= shape.max_rows * math.sqrt(1 + self._replaced)
                check_private_bounds(asked.rows, mu, shape.n_searched, self.bounds_share, cost)

    def _check_carries(self, rows: int, outlook: feature_plan.FeatureCandidates | None, shape: NoiseShape) -> None:
        """Refuse an epsilon at which so many declared rows leave next to nothing to learn, before it is spent."""
        from radoboost.holder.mechanisms.moments.preview import preview_columns

        expectation = preview_columns(self, rows, outlook, shape).forecast()
        if not expectation.carries:
            raise ArgumentError(
                f"epsilon {self.epsilon:g} at delta {self.delta:g}, for {self.relation_for(shape).value}, would be "
                f"spent for next to nothing: {expectation.sentence()}; leave rows out to craft all the same"
            )

    def survey(self, asked: CraftRequest, run: Curator) -> TableSurvey:
        """The first of three passes where epsilon is infinite."""
        return survey_table(replace(asked, mechanism=Plain("standard", intercept=self.intercept)), run, passes=3)

    def make(self, asked: CraftRequest, run: Curator) -> ReleaseDraft:
        """Stages, each with its noise; `craft` draws rados from what they release, if it is asked for any (M9)."""
        if self.exact:
            return make_exact_moments(self, asked, run, _feature_candidates(asked, run.source.features))
        names, rule, rows = run.source.features, record_level.declared_label_encoder(asked), None
        searched = asked.searched(names)
        outlook = _feature_candidates(asked, names)
        shape = _noise_shape(asked, names, outlook)
        if not self.hides_size:
            check_rows_sum_exactly(run.source.name, run.source.n_rows or 0, MOST_ROWS, "learn from all: rado learn A B")
        # All that the table's columns can be refused for comes before anything is spent.
        check_declared_feature_names(names, asked.intercept)
        record_level.check_width_of_records(max(shape.n_columns, shape.widest))
        check_memory_for_stages(run, max(shape.n_columns, shape.widest), shape.slots)
        require_memory_for_drawn_rados(asked.n_rados, max(shape.n_columns, shape.widest))
        columns_from_table = asked.all_private and asked.features is None
        if searched:
            self._check_shape(asked, names)
        persons = record_level.limit_persons(asked, run, rule, with_label=self.protects == "record")
        if searched:
            found, rows = find_private_bounds(self, shape, run, rule, searched)
            asked = replace(asked, found={**asked.limits, **found})
        columns, through = record_level.released_record_columns(
            replace(asked, columns="linear") if outlook else asked, names, 1 / GRID
        )
        inputs, feature_map = None, None
        if through is not None:
            run.source, inputs, feature_map = map_table(run.source, through.map), through.inputs, through.map
        features = columns[: len(columns) - asked.intercept]
        sphere = SphereRows(run.engine, rule, features, asked.intercept, inputs)
        stages = Stages(self, shape, run, sphere, rows, outlook)
        stages.run()
        plan = stages.plan
        if stages.map is not None:
            feature_map = stages.map
            columns = (*feature_plan.columns_of_plan(feature_map), columns[-1])
        n_rows = None if self.hides_size else run.total_rows(stages.counts.n_rows)
        return ReleaseDraft(
            blocks=stages.blocks,
            columns=columns,
            classes=tuple(rule.classes),
            circumstances=StatementFacts(
                "bounds", asked.seeded, asked.n_rados, len(columns), n_rows, asked.earlier, searched,
                columns_from_table, asked.person, asked.max_rows, mapped=feature_map is not None, shape=shape,
            ),
            parameters={
                **record_level.person_parameters_of_release(asked),
                **({"relation": self.relation} if self._replaced else {}),
                "unit": self.protects, "sharpen": self.sharpen, "grid": GRID, "constant": CONSTANT_VALUE,
                "noise": stages.noise(), "rows": stages.rows, "rounds": plan.rounds, "eta": plan.eta,
                "score_unit": stages.score_unit,
                **({"plan": {"word": outlook.word, **plan.to_dict()}} if outlook else {}),
                **({"searched": list(searched)} if searched else {}),
            },
            signatures={"name": "drawn"},
            counts=replace(stages.counts, persons=persons),
            map=feature_map,
            block_columns=stages.block_columns,
        )  # fmt: skip

    def stages(self, shape: NoiseShape, n_rounds: int) -> tuple[Stage, ...]:
        """The stages, with `n_rounds` mean rados."""
        return plan_stage_budget(
            self.protects, self.sharpen, self.bounds_share, shape, n_rounds, replaced=self._replaced
        )

    def strength(self, size: float, shape: NoiseShape) -> float:
        """About so many rows, in units of the noise that hides what is protected: plans go by it (M11, M15).

        >>> shape = NoiseShape(4)
        >>> Moments(1.0, relation="replace").strength(100.0, shape) / Moments(1.0).strength(100.0, shape)
        0.5
        """
        twice = self.neighbours is not Relation.RECORD  # a flipped label or another record moves sums by two vectors
        return size * self.distance(shape) / shape.max_rows / (2 if twice else 1)

    def distance(self, shape: NoiseShape) -> float:
        """mu of the Gaussian mechanism that epsilon and delta allow for all stages together (M8)."""
        if self.exact:
            raise ArgumentError("an infinite epsilon takes no noise, and has no finite cost to tell; give a finite one")
        return self._distance(replace(shape, label=""))  # which may be another one in every call

    @lru_cache(maxsize=1024)  # noqa: B019 - a mechanism is small, and calibration is not
    def _distance(self, shape: NoiseShape) -> float:
        most = self.stages(shape.at_most, feature_plan.MOST_ROUNDS if self.sharpen else 0)
        # As many deviates as the stages together may draw, whichever plan is chosen (M11).
        variation = shape.variation * sum(stage.deviates * stage.times for stage in most)
        mu = (1 - 1e-9) / gaussian_multiplier(self.epsilon, self.delta, self.neighbours, total_variation=variation)
        if max(stage.scale(mu) * stage.steps for stage in most) > LARGEST_SCALE:
            raise ArgumentError(
                f"epsilon {self.epsilon:g} at delta {self.delta:g}, for {self.relation_for(shape).value}, takes more "
                f"noise than can be sampled; take a larger epsilon{' or fewer max_rows' if shape.person else ''}"
            )
        return mu

    def choose(
        self, outlook: feature_plan.FeatureCandidates, size: float, strength: float, shape: NoiseShape
    ) -> feature_plan.FeaturePlan:
        """The plan of a table of about so many rows, with so much `strength` (M11, M13)."""
        doubled = self.neighbours is not Relation.RECORD
        return feature_plan.choose_feature_plan(
            outlook, size, strength, sharpen=self.sharpen, crowding=shape.crowding, doubled=doubled
        )

    def scales(self, n_rounds: int, shape: NoiseShape = NoiseShape()) -> dict[str, float]:  # noqa: B008 - it is frozen
        """The noise of each stage in grid steps; 0 where a stage is exact or not there.

        A stage with sensitivity D and a share f of the budget has noise D / (mu sqrt(f)).
        """
        mu = self.distance(shape)
        return {stage.name: stage.scale(mu) for stage in self.stages(shape, n_rounds)}

    def event(self, shape: NoiseShape, n_rounds: int) -> Event:
        """What all stages together do, with `n_rounds` mean rados (M8)."""
        return compose_stage_events(self.stages(shape, n_rounds), self.distance(shape), self.relation_for(shape), shape)

    def dearest(self, shape: NoiseShape, *, but: Collection[str] = ()) -> Event:
        """What the stages do, `but` some, with the plan that draws the most deviates, whichever is chosen (M6, M11).

        Any plan has the same mu squared, but for rounding; more columns and mean rados draw more deviates: a larger
        total variation.
        """
        stages = self.stages(shape.at_most, feature_plan.MOST_ROUNDS if self.sharpen else 0)
        kept = [stage for stage in stages if stage.name not in but]
        return compose_stage_events(kept, self.distance(shape) * _ROUNDING, self.relation_for(shape), shape)

    def bookings(self, shape: NoiseShape) -> tuple[Event, ...]:
        """What is booked, in this order: the noisy counts of rows, where they have noise, and everything else (M10).

        >>> len(Moments(1.0).bookings(NoiseShape(4))), len(Moments(1.0, unit="label").bookings(NoiseShape(4)))
        (2, 1)
        """
        stages = self.stages(shape.at_most, 0)
        others = {stage.name for stage in stages} - {"counts"}
        counts = [self.dearest(shape, but=others)] if any(s.share for s in stages if s.name == "counts") else []
        return *counts, self.dearest(shape, but=["counts"])

    def foreseen_bookings(self, asked: CraftRequest) -> tuple[Event, ...]:
        """What will be booked, as far as what was declared says; of unknown columns, for as few as there can be."""
        features = _features_known_beforehand(asked)
        if not features:
            return self.bookings(_noise_shape_of_request(asked, NoiseShape(2, int(asked.all_private))))
        return self.bookings(_noise_shape(asked, features, _feature_candidates(asked, features)))

    def numbers_at_most(self, asked: CraftRequest, features: Sequence[str]) -> tuple[int, int]:
        """How many numbers a release has at most, and of how many columns, whichever plan is chosen."""
        shape = _noise_shape(asked, features, _feature_candidates(asked, features))
        d, width = shape.n_columns, max(shape.n_columns, shape.widest)
        vectors = shape.slots * (2 * feature_plan.MOST_ROUNDS + 2 + asked.n_rados)
        return d * (d + EQUAL_BINS) + width * (3 * width + vectors) + SCORE_CELLS, width + d + SCORE_CELLS

    def statement(self, circumstances: StatementFacts) -> Statement:
        """Joint (epsilon, delta) of everything in the release (M9)."""
        if self.exact:
            return exact_statement(circumstances)
        shape = circumstances.shape or NoiseShape(
            circumstances.n_columns, len(circumstances.searched), circumstances.max_rows, circumstances.person or "",
            bool(circumstances.schema),
        )  # fmt: skip
        record = self.protects == "record"
        whom = (
            statements.privacy_unit_text(circumstances, "record", statements.RECORD_UNIT, _SEVERAL_ROWS)
            if record
            else statements.privacy_unit_text(circumstances, "label", _LABEL_UNIT)
        )
        promises = [promise.format(whom.anyone) for promise in self._words[0]]
        exposed = list(self._words[1])
        if circumstances.searched:  # in the label unit they are no part of the promise
            (promises if record else exposed).append(private_bounds_text(circumstances.searched, self.protects))
        declared = _OTHERS_DECLARED if circumstances.searched else statements.DECLARED
        if circumstances.columns_from_table:
            declared = statements.COLUMNS_OF_THE_TABLE
        words = _words_for_more_classes(shape.n_classes)
        return statements.make_statement(
            self.name,
            self.dearest(shape),
            self.delta,
            circumstances,
            unit=whom.unit if record or shape.n_classes == 2 else f"{whom.unit}; {_FLIPPED.format(shape.n_classes)}",
            promises=[words(promise) for promise in promises],
            not_protected=[*map(words, exposed), *whom.not_protected, words(declared), *statements.COMMON],
            secrets=self.secrets,
        )

    @property
    def _words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is promised, and what is not protected."""
        if self._replaced:
            return _REPLACED_PROMISES, _REPLACED_EXPOSED
        return (_RECORD_PROMISES, _RECORD_EXPOSED) if self.protects == "record" else (_LABEL_PROMISES, _LABEL_EXPOSED)

    def account_declared(self, asked: CraftRequest) -> tuple[Event, dict[str, Any]]:
        """As `account`, of a table as it was declared: with its categories, classes and persons.

        Without a number of rows there is no plan and no error to expect. That so few rows cannot carry the epsilon is
        part of the answer here, and no reason to refuse.
        """
        self.check(asked.without_rows())
        names = _features_known_beforehand(asked)
        event = self.dearest(_noise_shape(asked, names, _feature_candidates(asked, names)))
        foreseen = self._foreseen(asked)
        if foreseen is None:
            return event, {}
        plans = {}
        for word in ("linear", *DEGREES) if _columns_are_planned(asked) else ():
            with suppress(ArgumentError):  # it would make too many columns
                plans[word] = self._foreseen(replace(asked, columns=word)) or foreseen
        return event, foreseen.account(asked.columns, plans, len(names))

    @classmethod
    def account(cls, question: Question) -> tuple[Event, dict[str, Any]]:
        """What all stages cost together, the noise of each, and what error to expect of so many rows and columns."""
        epsilon, rows, features = question.epsilon, question.n_examples, question.n_features
        if question.noise is not None or epsilon is None:
            raise ArgumentError(
                "moments takes several noisy sums, each with noise of its own, and no one noise says what they cost "
                "together; give --epsilon, and the answer has the noise of each"
            )
        if features is None and question.private_bounds:
            raise ArgumentError("noise of the search for bounds depends on how many columns there are; give --columns")
        if (rows is None) != (features is None) and not question.private_bounds:
            raise ArgumentError(
                "the error to expect depends on both the number of rows (--rows) and of columns (--columns); give both"
            )
        mechanism = cls(epsilon, question.delta, question.unit, question.sharpen, relation=question.relation)
        n_features = 1 if features is None else features
        if rows is not None and features is not None:
            from radoboost.holder.mechanisms.moments.preview import preview_all_plans, preview_plan

            about: Any = {"private_bounds": question.private_bounds, "n_classes": question.n_classes}
            foreseen = preview_plan(mechanism, rows, features, question.columns, **about)
            answer = foreseen.account(question.columns, preview_all_plans(mechanism, rows, features, **about), features)
            return mechanism.dearest(replace(foreseen.shape, n_planned=0)), answer
        check_number_of_classes(question.n_classes)
        searched = n_features if question.private_bounds else 0
        shape = NoiseShape(n_features + 1, searched, n_classes=question.n_classes)
        by_rounds = {
            rounds: released_stage_noise(mechanism.scales(rounds, shape)) for _, rounds, _ in feature_plan.LINEAR_ROUNDS
        }
        rounds = {str(rounds): noise["rounds"] for rounds, noise in by_rounds.items()}
        noise = {**by_rounds[feature_plan.MOST_ROUNDS], "rounds": rounds if question.sharpen else 0.0}
        return mechanism.dearest(shape), {"noise": noise}


def _words_for_more_classes(n_classes: int) -> Callable[[str], str]:
    """What makes words about two classes words about so many, from which no rados can be drawn."""

    def words(text: str) -> str:
        if n_classes == 2:
            return text
        return text.replace("he two classes", f"he {n_classes} classes").replace(_DRAWN, "")

    return words


def _columns_are_planned(asked: CraftRequest) -> bool:
    """Whether columns follow from what is released first: they are then the table's own at first."""
    return asked.columns in tuple(DEGREES) or (asked.columns == feature_plan.AUTO and asked.intercept)


def _feature_candidates(asked: CraftRequest, features: Sequence[str]) -> feature_plan.FeatureCandidates | None:
    """What a plan may be made of; None where which columns there are is fixed beforehand."""
    if not _columns_are_planned(asked):
        return None
    assert isinstance(asked.columns, str)
    if not asked.intercept:
        raise ArgumentError(
            f"columns={asked.columns!r} are centred by the constant column; leave intercept as it is, or take "
            "columns='linear' (--columns linear)"
        )
    groups = {name: group for name, group in asked.groups.items() if name in features}
    outlook = feature_plan.FeatureCandidates(tuple(features), groups, asked.columns)
    feature_plan.check_feature_candidates(outlook)
    return outlook


def _noise_shape(
    asked: CraftRequest, features: Sequence[str], outlook: feature_plan.FeatureCandidates | None
) -> NoiseShape:
    searched = asked.searched(features)
    width = asked.width(features) if outlook is None else outlook.n_own
    shape = _noise_shape_of_request(asked, NoiseShape(width, len(searched)))
    return shape if outlook is None else outlook.shaped(shape)


def _noise_shape_of_request(asked: CraftRequest, columns: NoiseShape) -> NoiseShape:
    return replace(
        columns,
        max_rows=asked.max_rows,
        person=asked.person or "",
        raw=asked.schema.raw,
        n_classes=_declared_number_of_classes(asked),
        label=asked.which_label,
        shares=asked.noise_shares,
    )


def _features_known_beforehand(asked: CraftRequest) -> Sequence[str]:
    """The features as far as they are known before the table is opened; those of arrays are called by their places."""
    names = record_level.record_features(asked)
    return [f"x{k}" for k in range(len(asked.limits))] if names is None else names


def _declared_number_of_classes(asked: CraftRequest) -> int:
    """How many classes are declared; two where they are missing, which is refused elsewhere."""
    return 2 if asked.classes is None else len(check_classes(asked.classes))


_DRAWN = ", and all rados drawn from it"
_RECORD_PROMISES = (
    "Whether {} was in the table changes the probability of no outcome by more than a factor of "
    "exp(epsilon), up to delta. This is about everything in the release together, and all rados drawn from it.",
    "The number of examples is protected in the same sense, and is in the release only as a noisy figure.",
)
_REPLACED_PROMISES = (
    "What {} holds, both its features and its label, changes the probability of no outcome by more than a factor of "
    "exp(epsilon), up to delta. This is about everything in the release together, and all rados drawn from it.",
)
_REPLACED_EXPOSED = (
    "The number of examples: it is in the release exactly. This promise is for tables whose number of rows is public, "
    "and says nothing about a record that is added or removed.",
    "What all records say together: that is what a release is for.",
)
_RECORD_EXPOSED = ("What all records say together: that is what a release is for.",)
_SEVERAL_ROWS = (
    "A person with several rows: k rows have k times the mu of one; rado show has the epsilons of 2, 5 and 10."
)
_LABEL_UNIT = "the label of one row; a person with k rows is protected as a group of k"
_FLIPPED = "a label is flipped where it is replaced by any other of the {} classes"
_LABEL_PROMISES = (
    "Which of the two classes {} changes the probability of no outcome by more than a factor of "
    "exp(epsilon), up to delta. This is about everything in the release together, and all rados drawn from it.",
)
_LABEL_EXPOSED = (
    "Features are not protected at all: their second moments and the number of examples are in the release exactly. "
    "Exact second moments may determine the rows of a small table, and two releases of a table differ by the rows that "
    "were added in between. Nor is it protected whether a row has one of the two classes at all; only which of them it "
    "has.",
    "What all labels say together: that is what a release is for.",
    "A label that is also among the features, under whatever name, or that these determine, is as little protected: it "
    "must not be among the columns.",
)
_OTHERS_DECLARED = (
    "Column names, the two classes and the bounds of other columns are in the release, as they were declared. "
    f"{statements.OFF_THE_TABLE}"
)
