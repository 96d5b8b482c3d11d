"""Plain rados: exact sums, without noise and without a promise."""

from dataclasses import dataclass, replace
from typing import ClassVar

from radoboost.holder.curator import Curator
from radoboost.holder.feature_maps import number_of_map_columns
from radoboost.holder.grid import make_grid_columns
from radoboost.holder.mechanisms import table_survey
from radoboost.holder.mechanisms.mechanism import KeyUse, ReleaseDraft, StatementFacts, check_intercept
from radoboost.holder.mechanisms.statements import DEFAULT_DELTA, make_statement
from radoboost.holder.rado_sums import check_memory_for_rados
from radoboost.holder.request import CraftRequest
from radoboost.holder.signatures import check_first_signature_row, check_n_signatures
from radoboost.privacy import NotPrivate, Relation
from radoboost.release.release import Statement

_NOT_PROTECTED = (
    "The sums are exact: no noise is added. A rado of few examples may be a single example in the clear; with many "
    "examples, someone who knows all but one may recover the last one, and its label.",
    "The mean and covariance of the rados tell the sum of all edge vectors and of their products, to sampling error: "
    "so also how many examples each class has.",
    "Column names, declared bounds, the number of examples and the two class values are in the release as they are.",
    "Hardness results about rados speak of worst cases; they are not a guarantee for this table.",
    "The digest detects damage, not forgery: it does not say who made the file.",
)
_OF_CLASSES = (  # in place of the first three, where there are more than two
    "The sums are exact: no noise is added. Each class has sums of its own: a class with one example shows it in the "
    "clear, in every rado that has it, and a class with few may; with many examples, someone who knows all but one may "
    "recover the last one, and its label.",
    "The mean and covariance of the rados of a class tell the sum of its examples and of their products, to sampling "
    "error: so also how many examples each class has, their mean and how they scatter.",
    "Column names, declared bounds, the number of examples and the class values are in the release as they are.",
)
_SCALED = {
    "standard": "The mean and standard deviation of every column are in the release, exactly (of clipped values where "
    "bounds were declared); and, to a factor of two, how far its farthest value lies from the mean (its grid step).",
    "none": "The largest magnitude in every column without declared bounds is in the release, to a factor of two (its "
    "grid step).",
}


_MAPPED = (
    "The columns of the release are made of the table's by a feature map, which has the exact mean and standard "
    "deviation of each of these, too."
)


def disclosures_of_scale(scale: str, mapped: bool = False) -> tuple[str, ...]:
    """What a release reveals of the data through its scaling constants."""
    return (*([_SCALED[scale]] if scale in _SCALED else []), *([_MAPPED] if mapped and scale == "standard" else []))


def disclosures_of_sharing(shared: tuple[str, ...] | None) -> tuple[str, ...]:
    """What the sums without labels tell, that stand beside the rados for another holder."""
    if shared is None:
        return ()
    of = f" and the sums of {', '.join(map(repr, shared))}" if shared else ""
    return (
        "Beside each rado stand sums without labels over the same examples, for other holders to join their columns "
        f"by: how many examples it sums{of}. With the rado they tell that of each class by itself: of few examples "
        "more than a rado alone, and for anyone who solves for examples more equations.",
    )


@dataclass(frozen=True)
class Plain:
    """Rados as they are, with no privacy guarantee (Definition 1 of the paper).

    `scale` is "standard" for z-scores, "bounds" for [low, high] onto [-1, 1], or None for values as they are; "auto" is
    the second with bounds and else the first. `first_row` numbers the table's first row, for holders who share a seed:
    each begins where the one before ended, and `merge` then gives the release of all rows, to the last bit. `intercept`
    adds the constant feature.

    >>> Plain().private
    False
    """

    scale: str | None = "auto"
    first_row: int = 0
    intercept: bool = True

    name: ClassVar[str] = "plain"
    private: ClassVar[bool] = False
    law: ClassVar[str] = "sums"
    may_share: ClassVar[bool] = True
    secrets: ClassVar[KeyUse] = KeyUse(row_noise=False, sum_noise=False)
    in_rooms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_intercept(self.intercept)
        check_first_signature_row(self.first_row)

    def check(self, asked: CraftRequest) -> None:
        """Refuse a scale that cannot be used, a first row that would say nothing, and columns that cannot be shared."""
        table_survey.check_scale_argument(asked)
        asked.check_first_row()
        table_survey.check_shared_columns_argument(asked)

    def survey(self, asked: CraftRequest, run: Curator) -> table_survey.TableSurvey:
        """Scaling constants and classes; all that can be refused by the names of columns comes before."""
        columns = asked.fixed_columns
        if asked.share is not None:
            table_survey.shared_places(asked, run.source)
        if columns != "linear":
            bounded = table_survey.check_scale_argument(asked) == "bounds"
            width = number_of_map_columns(columns, run.source.features, run.source.groups, bounded=bounded)
            check_memory_for_rados(run.engine, asked.n_rados, width + asked.intercept)
        return table_survey.survey_table(asked, run, passes=2 if columns == "linear" else 3)

    def make(self, asked: CraftRequest, run: Curator) -> ReleaseDraft:
        """Rados as they are."""
        facts, through = table_survey.survey_feature_map(asked, run)
        columns = make_grid_columns(
            run.source.features, facts.scale, facts.limits, facts.exact, intercept=asked.intercept
        )
        check_n_signatures(asked.n_rados, facts.all_rows, asked.subsets)
        outliers = table_survey.outliers_of_survey(facts, run.source) if through is None else through.outliers
        draft = table_survey.sum_rados_after_survey(asked, run, facts, columns, asked.subsets, {}, through=through)
        return replace(draft, outliers=outliers)

    def statement(self, circumstances: StatementFacts) -> Statement:
        """No guarantee: epsilon is infinite, whichever tables are called neighbours."""
        exposed = (
            *disclosures_of_scale(circumstances.scale, circumstances.mapped),
            *disclosures_of_sharing(circumstances.shared),
        )
        first = _NOT_PROTECTED[:3] if circumstances.n_classes == 2 else _OF_CLASSES
        statement = make_statement(
            self.name,
            NotPrivate("plain rados promise nothing", Relation.RECORD),
            DEFAULT_DELTA,
            circumstances,
            unit="none: nothing is promised",
            promises=(),
            not_protected=(*first, *exposed, *_NOT_PROTECTED[3:]),
            secrets=self.secrets,
        )
        return replace(statement, neighbours="any two tables", delta=0.0, epsilon_at=())
