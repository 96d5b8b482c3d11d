"""Plain rados: exact sums, without noise and without a promise."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.grid import make_columns
from radoboost.holder.mechanisms.mechanism import KeyUse, MappedInputs, Mechanism, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.statements import DEFAULT_DELTA, make_statement
from radoboost.holder.mechanisms.table_survey import (
    TableSurvey,
    check_scale,
    check_share,
    check_unchanged,
    outliers_of,
    shared_places,
    sum_rados,
    survey,
    through_map,
)
from radoboost.holder.rado_sums import SumRados
from radoboost.holder.request import CraftRequest
from radoboost.holder.signatures import check_enough_examples
from radoboost.holder.sparse_rado_sums import sum_entries
from radoboost.holder.tilted import BatchCoins, Tilted, TiltedSupport, TiltWeights
from radoboost.privacy import NotPrivate, Relation
from radoboost.release.columns import Column
from radoboost.release.release import Release, Statement
from radoboost.release.tilted import SENTENCE, tilted_block

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


def exposed_by_scale(scale: str, mapped: bool = False) -> tuple[str, ...]:
    """What a release reveals of the data through its scaling constants."""
    return (*([_SCALED[scale]] if scale in _SCALED else []), *([_MAPPED] if mapped and scale == "standard" else []))


def sharing_disclosures(shared: tuple[str, ...] | None) -> tuple[str, ...]:
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

    >>> Plain().private
    False
    """

    name: ClassVar[str] = "plain"
    private: ClassVar[bool] = False
    law: ClassVar[str] = "sums"
    may_share: ClassVar[bool] = True
    may_tilt: ClassVar[bool] = True
    secrets: ClassVar[KeyUse] = KeyUse(row_noise=False, sum_noise=False)
    in_rooms: ClassVar[bool] = True

    def check(self, asked: CraftRequest) -> None:
        """Refuse a scale that cannot be used, a first row that would say nothing, and columns that cannot be shared."""
        check_scale(asked)
        check_tilted(asked)
        asked.check_first_row()
        check_share(asked)

    def make(self, asked: CraftRequest, run: Curator) -> ReleaseDraft:
        """Rados as they are."""
        shared_places(asked, run.source)  # refuses names that are not there before rows are read
        asked, through = through_map(asked, run)
        passes = (2 if through is None else 3) + later_batches(asked)
        facts = survey(asked, run, passes=passes)
        columns = make_columns(run.source.features, facts.scale, facts.limits, facts.exact, intercept=asked.intercept)
        check_enough_examples(asked.n_rados, facts.all_rows, asked.subsets)
        odd = outliers_of(facts, run.source) if through is None else through.outliers
        if isinstance(asked.subsets, Tilted):
            made = sum_batches(asked, run, facts, columns, asked.subsets, self, through)
        else:
            made = sum_rados(asked, run, facts, columns, asked.subsets, {}, through=through)
        return replace(made, outliers=odd)

    def statement(self, circumstances: StatementFacts) -> Statement:
        """No guarantee: epsilon is infinite, whichever tables are called neighbours."""
        exposed = (
            *exposed_by_scale(circumstances.scale, circumstances.mapped),
            *sharing_disclosures(circumstances.shared),
            *tilting_disclosures(circumstances),
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


# ---- Batches of tilted rados: a pass for each, and between two of them a learner who sees what is released so far.


def check_tilted(asked: CraftRequest) -> None:
    """Refuse, before the table is opened, batches that cannot be made."""
    if not isinstance(asked.subsets, Tilted):
        return
    asked.refuse_many_classes("a release of tilted rados", asked.classes)
    asked.subsets.sizes(asked.n_rados)
    if asked.first_row:
        raise ArgumentError(
            "tilted rados of several holders cannot be merged: each batch of theirs would have a theta of its own; "
            "leave first_row (--first-row) or tilted rados (--tilted) out"
        )
    if asked.share is not None:
        raise ArgumentError(
            "a release with shared columns is for second moments of all examples alike, and tilted rados weigh them; "
            "leave share (--share) or tilted rados (--tilted) out"
        )
    if asked.subsets.learner is None:
        raise ArgumentError(
            "tilted rados need a learner between their batches: give Tilted(2, learner=radoboost.next_theta)"
        )


def later_batches(asked: CraftRequest) -> int:
    """How many passes there are after the first sum of rados."""
    return asked.subsets.batches - 1 if isinstance(asked.subsets, Tilted) else 0


def sum_batches(
    asked: CraftRequest,
    run: Curator,
    facts: TableSurvey,
    columns: tuple[Column, ...],
    subsets: Tilted,
    mechanism: Mechanism,
    through: MappedInputs | None,
) -> ReleaseDraft:
    """Batch after batch; nothing but the release so far goes to the learner, and nothing but theta comes back."""
    asked.refuse_many_classes("a release of tilted rados", facts.rule.classes)
    assert subsets.learner is not None
    first, *others = subsets.sizes(asked.n_rados)
    made = sum_rados(replace(asked, n_rados=first), run, facts, columns, subsets, {}, through=through)
    sizes, batches = [first], list[TiltedSupport]()
    thetas: list[list[float]] = []
    steps = np.array([column.step for column in columns])
    for place, size in enumerate(others, 1):
        made = _said(made, sizes, thetas, batches)
        tilt = TiltWeights.of(subsets.learner(_so_far(made, mechanism)), steps.tolist())
        task = SumRados(
            run.engine,
            columns,
            facts.rule,
            size,
            BatchCoins.of(asked.signature_key, place, size),
            tilt=tilt,
            inputs=None if through is None else through.inputs,
        )
        sums = run.sum(sum_entries(task, run.source))
        check_unchanged(run, facts, sums.counts)
        made = replace(made, blocks={**made.blocks, tilted_block(place): sums.totals * steps})
        sizes, thetas = [*sizes, size], [*thetas, tilt.theta.tolist()]
        batches.append(sums.joining.sizes(size))
        _check_sizes(batches[-1], place, asked)
    made = _said(made, sizes, thetas, batches)
    return replace(made, circumstances=replace(made.circumstances, n_rados=asked.n_rados))


def _said(
    made: ReleaseDraft, sizes: list[int], thetas: list[list[float]], batches: list[TiltedSupport]
) -> ReleaseDraft:
    signatures = {"name": Tilted.name, "batches": sizes, "thetas": thetas}
    circumstances = replace(made.circumstances, drawn_together=False, batches=tuple(batches))
    return replace(made, signatures=signatures, circumstances=circumstances)


def _so_far(made: ReleaseDraft, mechanism: Mechanism) -> Release:
    return Release(
        blocks=dict(made.blocks),
        columns=made.columns,
        classes=made.classes,
        mechanism={"name": mechanism.name, "law": mechanism.law, **made.parameters},
        signatures=made.signatures,
        statement=mechanism.statement(made.circumstances),
        n_examples=made.circumstances.n_examples,
        map=made.map,
    )


def _check_sizes(sizes: TiltedSupport, place: int, asked: CraftRequest) -> None:
    """Refuse a batch that hands out rows as they are, unless the holder knows (L10)."""
    if asked.i_know or not sizes.too_small:
        return
    told = f"a rado of batch {place + 1} sums {number(sizes.mean)} examples on average, and {number(sizes.alone)} of"
    what = f"its {sizes.n_rados:,} rados are expected to be one person's row and label as they are"
    fewer = f"ask for {place} batches" if place > 1 else "leave tilted rados (--tilted) out"
    raise ArgumentError(f"{told} {what}; {fewer}, or say i_know (--i-know) to make them nevertheless")


def number(value: float) -> str:
    """An expected number in words of a statement."""
    if value < 0.001:
        return "fewer than 0.001"
    return f"about {value:,.0f}" if value >= 10 else f"about {value:.2g}"


def tilting_disclosures(circumstances: StatementFacts) -> tuple[str, ...]:
    """What rados of later batches tell that those of fair coins do not."""
    batches = circumstances.batches
    if not batches:
        return ()
    *some, last = [f"{number(batch.mean)} in batch {place}" for place, batch in enumerate(batches, 2)]
    means = f"{', '.join(some)} and {last}" if some else last
    alone, empty = (sum(getattr(batch, name) for batch in batches) for name in ("alone", "empty"))
    small = [str(place) for place, batch in enumerate(batches, 2) if batch.too_small]
    known = f"The holder was told how few examples rados of batch {', '.join(small)} sum, and wanted them (i_know)."
    return (
        f"{SENTENCE}: a rado sums {means}, of {circumstances.n_examples or 0:,} examples "
        "of which one of the first sums half. An example that the classifier so far gets right by a "
        "large margin is in few of these rados, and one that it gets wrong in most; so the hard ones are mixed with "
        "fewer others, and stand out.",
        "Which theta each later batch was drawn at is in the release: anyone who knows a person's row and label knows "
        "with which probability that person is in each of its rados.",
        f"Of the rados of later batches, {number(alone)} are expected to be one person's row and label as they are, "
        f"and {number(empty)} to be empty. Easy people are among them too, and rados that occur twice show which.",
        *([known] if small else []),
    )
