"""Batches of tilted rados: a pass for each, and between two of them a learner who sees what is released so far."""

from dataclasses import replace

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.mechanisms.mechanism import CraftRequest, MappedInputs, Mechanism, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.table_survey import TableSurvey, check_unchanged, sum_rados
from radoboost.holder.rado_sums import SumRados
from radoboost.holder.sparse_rado_sums import sum_entries
from radoboost.holder.tilted import BatchCoins, Tilted, TiltedSupport, TiltWeights
from radoboost.release.columns import Column
from radoboost.release.release import Release
from radoboost.release.tilted import SENTENCE, tilted_block


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
