"""Exact audits: how far a mechanism moves for pairs of made-up neighbouring tables, by replay and without statistics.

Along what one run released, the squared distance of two tables is a sum over stages (`replay`). If it is at most mu^2
along every transcript, mu being what the statement's epsilon and delta allow, the promise holds for this pair. A ratio
above 1 refutes the program or its proof. A ratio below 1 says nothing about other pairs.
"""

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from threadpoolctl import threadpool_limits

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.engines import get_engine
from radoboost.holder.gaussian_noise import rounded_normals, scale_rounded_up
from radoboost.holder.mechanisms import FeatureBand, Moments, ReleaseDraft
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.signatures import signature_size_weights
from radoboost.lab.audits import replay
from radoboost.lab.audits.audit_tables import Tables, audit_tables_for, count_contributing_rows
from radoboost.lab.audits.canaries import Scenario, SingleRowSignatures
from radoboost.privacy import Event, Gaussian, Relation, band, epsilon_at
from radoboost.privacy.calibration import noise_share_of_holder
from radoboost.privacy.events import OF_LABELS
from radoboost.progress import no_progress, show_progress
from radoboost.release.release import epsilon_as_json, rounded_up_text
from radoboost.release.statement_text import epsilon_text

ALL_STAGES = "all stages"
NEAR = 0.99  # from here on nothing is said of why a ratio is not larger
_STAGES = {"second": "second moments", "whitened": "whitened moments", "rounds": "mean rados"}  # by names in the budget
_KEY = b"radoboost/exact audits"
_WIDE, _PAIRS_IF_WIDE = 10_000, 8
_MANY = 2**50  # steps of noisy counts

ABOUT_EXACT = "an audit of this program at these settings on made-up tables, not of this file"


@dataclass(frozen=True)
class StageRatio:
    """How far a stage moved at most, in units of what its own share of the budget allows, and for which pair."""

    stage: str
    ratio: float
    pair: str = ""
    transcript: str = ""


@dataclass(frozen=True)
class ExactAudit:
    """What replay shows: the largest distance of a pair, in units of what the statement's epsilon and delta allow.

    `ratio` is that of mu, and `found` the epsilon that it comes to at the statement's delta. `faults` are checks in
    integers that failed. `remark` says why no pair comes near to 1, where that is so.
    """

    mechanism: str
    neighbours: str
    delta: float
    claim: float
    ratio: float
    found: float
    pair: str
    transcript: str
    stages: tuple[StageRatio, ...]
    pairs: int
    transcripts: int
    faults: tuple[str, ...] = ()
    remark: str = ""

    @property
    def holds(self) -> bool:
        """Whether no pair is further apart than is promised, and all checks in integers passed."""
        return max(self.ratio, *(stage.ratio for stage in self.stages), 0.0) <= 1 and not self.faults

    def to_dict(self) -> dict[str, Any]:
        numbers = {name: epsilon_as_json(getattr(self, name)) for name in ("claim", "ratio", "found")}
        stages = [{**vars(stage), "ratio": epsilon_as_json(stage.ratio)} for stage in self.stages]
        about = {**vars(self), **numbers, "stages": stages, "faults": list(self.faults)}
        return {"kind": "exact", **about, "holds": self.holds, "about": ABOUT_EXACT}

    def text(self) -> str:
        stages = [
            f"  {one.stage:<19}{_ratio_rounded_down(one.ratio)}   {one.pair}; {one.transcript}" for one in self.stages
        ]
        lines = [
            f"mechanism    {self.mechanism}",
            f"neighbours   {self.neighbours}",
            f"claimed      epsilon {epsilon_text(self.claim)} at delta {rounded_up_text(self.delta, 6)}",
            f"largest      {_ratio_rounded_down(self.ratio)} of what the claim allows: {self.pair}; {self.transcript}",
            f"compared     {self.pairs:,} pairs of neighbouring tables, along {self.transcripts:,} transcripts",
            *(["stages       each in units of its own share, with its worst pair and transcript"] if stages else []),
            *stages,
            *(f"failed       {fault}" for fault in self.faults[:8]),
            *([f"remark       {self.remark}"] if self.remark else []),
            f"This is {ABOUT_EXACT}.",
        ]
        return "\n".join(lines)


def _ratio_rounded_down(ratio: float) -> str:
    """A ratio, never rounded up to 1."""
    return f"{math.floor(1e6 * ratio) / 1e6:.6f}" if math.isfinite(ratio) else "infinite"


def mu_allowed_by_claim(epsilon: float, delta: float) -> float:
    """mu of the Gaussian mechanism that has exactly this epsilon and delta, by its own closed form."""
    low, high = 1e-9, 1e3
    while high / low > 1 + 1e-13:
        mu = math.sqrt(low * high)
        inner, outer = log_ndtr(mu / 2 - epsilon / mu), log_ndtr(-mu / 2 - epsilon / mu)
        low, high = (low, mu) if -math.exp(inner) * math.expm1(epsilon + outer - inner) > delta else (mu, high)
    return low


def _epsilon_of_mu(mu: float, delta: float) -> float:
    if not 1e-6 < mu < math.inf:
        return mu if math.isinf(mu) else 0.0
    return epsilon_at(Gaussian(1 / mu, Relation.RECORD), delta)


# ---- a mechanism on made-up tables, along transcripts


@dataclass(eq=False)
class Worst:
    """The largest ratios so far, of all stages together and of each."""

    stages: dict[str, StageRatio] = field(default_factory=dict)

    @property
    def total(self) -> StageRatio:
        return self.stages.get(ALL_STAGES, StageRatio(ALL_STAGES, 0.0))

    def see(self, one: StageRatio) -> None:
        if one.stage not in self.stages or self.stages[one.stage].ratio < one.ratio:
            self.stages[one.stage] = one


def ratio_of_distances(square: Fraction | None, allowed: Fraction) -> float:
    """A distance in units of what is allowed, by their squares; infinite where a difference has no noise."""
    if square is None or (square and not allowed):
        return math.inf
    return math.sqrt(square / allowed) if square else 0.0


class _Seat:
    """The pool of one holder of a room, as far as its noise goes: the other holders' sums are left out."""

    noise_factor = 1.0

    def __init__(self, holders: int, tolerate: int) -> None:
        self.noise_share = noise_share_of_holder(holders, tolerate)

    def begin(self, event: Event) -> None:
        pass

    def total(self, arrays: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        return list(arrays)

    def agreed(self, compute: Callable[[], Any], read: Callable[[Any], Any] = lambda value: value) -> Any:
        return read(compute())


@dataclass(eq=False)
class Replays:
    """A mechanism on made-up tables, along transcripts: distances of all pairs, and checks in integers.

    `make` runs it, and `content` is all that its file would hold. Of a `room` of so many holders, of whom so many may
    be lost or collude, the noise of the others alone counts.
    """

    tables: Tables
    make: Callable[[Curator], ReleaseDraft | None]
    content: Callable[[ReleaseDraft], Any] = lambda made: None
    run: type[Curator] = Curator
    key: bytes = _KEY
    room: tuple[int, int] | None = None
    tick: Callable[[], None] = lambda: None
    shares: Callable[[replay.Log], Mapping[str, float]] = lambda log: {}
    allowed: Fraction = Fraction(1)
    more_rows: int = 0
    worst: Worst = field(default_factory=Worst)
    faults: dict[str, None] = field(default_factory=dict)
    transcripts: int = 0

    def log(self, number: int, script: replay.Script, key: bytes) -> replay.Log:
        pool: dict[str, Any] = {} if self.room is None else {"pool": _Seat(*self.room)}
        about = self.tables.source(number), get_engine("auto"), ThreadRunner(1), key
        self.tick()
        if self.more_rows and not isinstance(script, replay.Given):
            script = replay.MoreRows(script, self.more_rows)
        with np.errstate(all="ignore"):
            return replay.log_curator(replay.recording_curator(self.run)(*about, script=script, **pool), self.make)

    def begun(self) -> Any:
        """The log of a run as it is: what there is to compare with."""
        log = self.log(self.tables.first, replay.Honest(), self.key)
        if log.made is None:
            raise ArgumentError(f"a run on a made-up table ended with {log.stopped}")
        return log

    def along(self, name: str, script: replay.Script) -> dict[int, replay.Log]:
        """All tables along one transcript, that of the first of them."""
        first, self.transcripts = self.tables.first, self.transcripts + 1
        key = hashlib.sha256(name.encode() + self.key).digest()
        logs = {first: self.log(first, script, key)}
        self._note(replay.faults_of_noise(logs[first]), name)
        if isinstance(script, replay.Honest) and logs[first].stopped:
            self._note([f"a run on a made-up table ended with {logs[first].stopped}"], name)
        pairs = self._pairs(logs[first])
        for number in sorted({number for pair in pairs for number in pair} - {first}):
            logs[number] = self.log(number, replay.Given(logs[first]), key)
        files = {number: None if log.made is None else self.content(log.made) for number, log in logs.items()}
        shares = self.shares(logs[first])
        for one, other in pairs:
            faults = replay.faults_of_pair(logs[one], logs[other])
            if not faults and files[one] != files[other]:
                faults = ["the two files differ in more than their id"]
            self._note(faults, f"{name}; {self.tables.pair(one, other)}")
            self._measure(logs[one], logs[other], shares, (self.tables.pair(one, other), name))
        return logs

    def _pairs(self, log: replay.Log) -> tuple[tuple[int, int], ...]:
        """The pairs to compare: where sums have very many numbers, some of them, spread over all."""
        pairs = self.tables.pairs
        wide = any(one.exact.size > _WIDE for one in log.sums)
        return pairs[:: max(1, len(pairs) // _PAIRS_IF_WIDE)] if wide else pairs

    def _note(self, faults: Sequence[str], where: str) -> None:
        self.faults |= {f"{fault} ({where})": None for fault in faults}

    def _measure(self, one: replay.Log, other: replay.Log, shares: Mapping[str, float], where: tuple[str, str]) -> None:
        parts = replay.squared_distances(one, other, 1 if self.room is None else self.room[0] - self.room[1])
        total = replay.total_squared_distance(parts.values())
        self.worst.see(StageRatio(ALL_STAGES, ratio_of_distances(total, self.allowed), *where))
        for stage, part in parts.items():
            if stage in shares:
                allowed = Fraction(shares[stage]) * self.allowed
                self.worst.see(StageRatio(stage, ratio_of_distances(part, allowed), *where))

    def result(self, name: str, neighbours: str, claim: float, delta: float, remark: str = "") -> ExactAudit:
        total = self.worst.total
        stages = tuple(one for one in self.worst.stages.values() if one is not total)
        found = _epsilon_of_mu(total.ratio * math.sqrt(self.allowed), delta)
        return ExactAudit(
            name, neighbours, delta, claim, total.ratio, found, total.pair, total.transcript,
            stages, len(self.tables.pairs), self.transcripts, tuple(self.faults),
            remark if total.ratio < NEAR else "",
        )  # fmt: skip


def _replay_and_reading_of_mechanism(
    mechanism: Any, asked: CraftRequest
) -> tuple[Callable[[Curator], ReleaseDraft], Callable[[ReleaseDraft], Any]]:
    """What runs a mechanism as crafting does, and what tells all that its file would hold."""

    def make(run: Curator) -> ReleaseDraft:
        mechanism.check(asked)
        made: ReleaseDraft = mechanism.make(asked, run)
        return made

    # Statements are functions of the circumstances, and take longer than all else.
    about = {name: getattr(mechanism, name) for name in ("name", "law", "private")}
    told: Any = SimpleNamespace(**vars(mechanism), **about, statement=cache(mechanism.statement))

    def content(made: ReleaseDraft) -> Any:
        return replay.replayed_release(replace(asked, mechanism=told), made, asked.reading).content()

    return make, content


def epsilon_claimed_by_draft(mechanism: Any, made: ReleaseDraft) -> float:
    epsilon: float = mechanism.statement(made.circumstances).epsilon
    return epsilon


# ---- moments


def exact_audit_of_moments(mechanism: Any, scenario: Scenario) -> ExactAudit:
    max_rows, thorough = scenario.max_rows, scenario.thorough
    relation, key = _audited_relation(mechanism, max_rows), scenario.key or _KEY
    worst, count, done = Worst(), 0, itertools.count(1)
    faults: dict[str, None] = {}
    # Which rows of a person contribute depends on a key: there are several.
    for choice in range(1 if max_rows is None else 3 if thorough else 1):
        tables = audit_tables_for(
            mechanism, relation, scenario, choice_key=hashlib.sha256(bytes([choice]) + key).digest()
        )
        replays = Replays(
            tables, *_replay_and_reading_of_mechanism(mechanism, tables.asked), scenario.run, key + bytes([choice]),
            scenario.room,
            lambda: scenario.bar("replaying runs", next(done), None), lambda log: _stage_shares(mechanism, log),
            Fraction(1), 0 if max_rows is None else _MANY, worst, faults,
        )  # fmt: skip
        begun = replays.begun()
        claim = epsilon_claimed_by_draft(mechanism, begun.made)
        replays.allowed = Fraction(mu_allowed_by_claim(claim, mechanism.delta)) ** 2
        with threadpool_limits(1, user_api="blas"):
            for name, script in _replay_scripts(replays, relation, thorough):
                replays.along(name, script)
        count += replays.transcripts
        remark = _remark_on_replaced_records(relation, _stage_shares(mechanism, begun))
    replays.transcripts = count
    return replays.result(mechanism.name, relation.value, claim, mechanism.delta, remark)


def _audited_relation(mechanism: Any, max_rows: int | None) -> Relation:
    if max_rows is None:
        return mechanism.neighbours  # type: ignore[no-any-return]
    if mechanism.neighbours is Relation.REPLACE:
        raise ArgumentError("a promise about persons is about one who is added or removed; leave relation out")
    return Relation.PERSON if mechanism.neighbours is Relation.RECORD else Relation.PERSON_LABELS


def _stage_shares(mechanism: Any, log: replay.Log) -> dict[str, float]:
    """What share of mu squared each stage has, where the run came to an end."""
    if log.made is None or log.made.circumstances.shape is None:
        return {}
    made, shape = log.made, log.made.circumstances.shape
    n_planned = len(made.blocks["moment:C"]) if "outline" in made.blocks else 0
    planned = replace(shape, n_planned=n_planned)
    stages = mechanism.stages(planned, made.parameters["rounds"])
    return {_STAGES.get(one.name, one.name): one.share if one.times else 0.0 for one in stages}


def _remark_on_replaced_records(relation: Relation, shares: Mapping[str, float]) -> str:
    """Why no pair of replaced records takes up all of the budget, and what is left of it."""
    if relation is not Relation.REPLACE:
        return ""
    square = shares.get("whitened moments", 0.0)
    vectors = shares.get("sum", 0.0) + shares.get("mean rados", 0.0)
    # Of two whitened rows with the cosine c, squares move by 1 - c^2 of what they may, and vectors by (1 - c) / 2.
    best = max(square * (1 - c * c) + vectors * (1 - c) / 2 for c in np.linspace(-1, 1, 2001).tolist())
    rest = 1 - shares.get("counts", 0.0) - square - vectors
    return (
        "two replaced records cannot move all stages fully: sums move most where their whitened rows are opposite, and "
        "second moments where these are at a right angle; and counts of rows move only where one of them gives nothing "
        f"else. No pair passes {math.sqrt(rest + best):.4f}"
    )


def _replay_scripts(replays: Replays, relation: Relation, thorough: bool) -> Iterator[tuple[str, replay.Script]]:
    """Transcripts: honest ones, absurd ones, those of a lying speaker, and those along which rows differ most."""
    first = replays.tables.first
    for scripts in (replay.ABSURD, replay.LYING):
        yield from ((one.name, one) for one in scripts[: None if thorough else 1])
    yield "honest", replay.Honest()
    # What the honest transcript tells of the rows, for transcripts that are aimed at them.
    key = hashlib.sha256(b"honest" + replays.key).digest()
    base = replays.log(first, replay.Honest(), key)
    if base.stopped or replays.faults:  # where runs go apart, there is nothing to aim at
        return
    yield "nothing is learned", replay.Aimed(base)
    absent = _log_second_moment(replays.log(0, replay.Given(base), key))
    for name, axis in _whitening_axes_to_replay(replays, relation, base, absent, key)[: None if thorough else 2]:
        yield f"aimed at {name}", replay.Aimed(base, axis, far=relation in OF_LABELS)


def _log_second_moment(log: replay.Log) -> replay.NoisySum:
    return [one for one in log.sums if one.stage == "second moments"][-1]


def _whitening_axes_to_replay(
    replays: Replays, relation: Relation, base: replay.Log, absent: replay.NoisySum, key: bytes
) -> list[tuple[str, NDArray[np.float64]]]:
    """Directions of rows on the sphere that whitening may be made to see alone: those of pairs that differ most."""
    rows = {}
    for number in sorted({number for pair in replays.tables.pairs for number in pair} - {0}):
        row = replay.differing_direction(_log_second_moment(replays.log(number, replay.Given(base), key)), absent)
        if row is not None:
            rows[number] = row
    if relation is not Relation.REPLACE:
        return [(replays.tables.candidates[number].name, row) for number, row in list(rows.items())[:1]]
    apart = sorted((abs(float(rows[i] @ rows[j])), i, j) for i, j in replays.tables.pairs if i in rows and j in rows)
    axes = []
    for _, i, j in apart[:3]:
        axis = rows[i] - rows[j]
        axes.append((replays.tables.pair(i, j), np.asarray(axis / np.linalg.norm(axis))))
    return axes


# ---- the other mechanisms


class AllIn(SingleRowSignatures):
    """The signature set in which every rado has all rows: as if all coins had come up 1."""

    name: ClassVar[str] = "all in"
    by_coins: ClassVar[bool] = True

    def size(self, n_examples: int) -> int:
        """Any number of rados, all with the same rows."""
        return 1 << 62

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        out[:] = np.uint64(2**64 - 1)
        return out


def exact_audit_of_noisy_rados(mechanism: Any, scenario: Scenario) -> ExactAudit:
    """Hold the difference of each rado, all of whose coins came up 1, against what its noise is accounted for (R3).

    That the noise makes up for the claim, with coins, is the accountant's part.
    """
    n_rados, relation = scenario.n_rados, Relation.RECORD if scenario.max_rows is None else Relation.PERSON
    tables = audit_tables_for(mechanism, relation, replace(scenario, columns="linear"))
    signatures: Any = AllIn()
    tables = replace(tables, asked=replace(tables.asked, n_rados=n_rados, signatures=signatures))
    done = itertools.count(1)
    replays = Replays(
        tables, *_replay_and_reading_of_mechanism(mechanism, tables.asked), scenario.run, scenario.key or _KEY, None,
        lambda: scenario.bar("replaying runs", next(done), None),
    )  # fmt: skip
    begun, asked = replays.begun(), tables.asked
    one = mechanism.plan(n_rados, len(begun.made.columns), None, asked.max_rows, asked.person or "").event.event
    # Rados have noise of their own each, and all of them the same rows here.
    replays.allowed = n_rados * (Fraction(one.group) / Fraction(one.noise_multiplier)) ** 2
    replays.along("honest", replay.Honest())
    for script in replay.ABSURD[:2]:
        replays.along(script.name, script)
    claim = epsilon_claimed_by_draft(mechanism, begun.made)
    result = replays.result(mechanism.name, relation.value, claim, mechanism.delta)
    return replace(result, found=claim if result.ratio <= 1 else math.inf, remark=_OF_COINS)


_OF_COINS = (
    "the ratio is that of each rado's difference, all coins being 1, to the one that its noise is accounted for; what "
    "the coins add to the protection is computed by the accountant, and is no part of this audit"
)


@dataclass(frozen=True)
class _NoRowNoise:
    """Noise on rows that is left out; the scale that it would have is kept."""

    key: bytes
    scale: float

    def for_part(self) -> "_NoRowNoise":
        return self

    def rows(self, first_row: int, n_rows: int, n_columns: int) -> NDArray[np.int64]:
        return np.zeros((n_rows, n_columns), dtype=np.int64)


def exact_audit_of_noisy_examples(mechanism: Any, scenario: Scenario) -> ExactAudit:
    """Compare the rows of tables that differ in one of them, or in a person's, with the noise on each (E1, E2, P5)."""
    if mechanism.clip is None:
        raise ArgumentError("noise without a clipping norm promises nothing, so there is nothing to audit")
    max_rows, run, key = scenario.max_rows, scenario.run, scenario.key or _KEY
    relation = mechanism.neighbours if max_rows is None else Relation.PERSON_ROWS
    kind = Relation.REPLACE if max_rows is None else relation  # a row replaced, with its label
    tables = audit_tables_for(mechanism, kind, replace(scenario, columns="linear"))
    n_rows = count_contributing_rows(tables, 1)
    signatures: Any = SingleRowSignatures()
    asked = replace(tables.asked, n_rados=n_rows, signatures=signatures)
    scales: list[float] = []
    faults: list[str] = []

    class Bare(run):  # type: ignore[valid-type, misc]
        def row_noise(self, scale: float) -> Any:
            noise = super().row_noise(scale)
            scales.append(noise.scale)
            if not np.array_equal(noise.rows(5, 8, 3), rounded_normals(noise.key, scale_rounded_up(scale), 5, 8, 3)):
                faults.append("the noise on rows is not that of its key and scale")
            return _NoRowNoise(bytes(32), scales[-1])

    mechanism.check(asked)
    rows, claim = {}, math.inf
    for number in range(1, len(tables.candidates)):
        made = mechanism.make(asked, Bare(tables.source(number), get_engine("auto"), ThreadRunner(1), key))
        step = made.columns[0].step
        rows[number] = np.rint(made.blocks["rados"] / step).astype(np.int64)
        claim = epsilon_claimed_by_draft(mechanism, made)
        scenario.bar("rows of made-up tables", number, len(tables.candidates))
    mu, worst = mu_allowed_by_claim(claim, mechanism.delta), Worst()
    if len(set(scales)) != 1:
        faults.append("the noise differs between tables")
    for one, other in tables.pairs:
        difference = rows[other] - rows[one]
        pair = tables.pair(one, other)
        if np.count_nonzero(difference.any(axis=1)) > (max_rows or 1):
            faults.append(f"a row changes what another one gives ({pair})")
        square = Fraction(int((difference.astype(object) ** 2).sum())) / Fraction(scales[0]) ** 2
        ratio = ratio_of_distances(square, Fraction(mu) ** 2)
        worst.see(StageRatio(ALL_STAGES, ratio, pair, "no released numbers come before"))
    total = worst.total
    return ExactAudit(
        mechanism.name, relation.value, mechanism.delta, claim, total.ratio,
        _epsilon_of_mu(total.ratio * mu, mechanism.delta), total.pair, total.transcript, (), len(tables.pairs), 1,
        tuple(dict.fromkeys(faults)),
    )  # fmt: skip


def exact_audit_of_feature_band(
    mechanism: FeatureBand, scenario: Scenario, limits: tuple[int, int] | None = None
) -> ExactAudit:
    """The exact laws of the protected column in one rado, of two neighbours: from the weights by which sizes are drawn.

    `limits`, those of the band, let tests audit faulty ones.
    """
    n_examples = scenario.n_examples
    event = mechanism.event(n_examples, 1)
    assert event.relation is not None
    law = exact_size_law(n_examples, *(limits or band(n_examples, mechanism.epsilon)))
    claim = epsilon_at(event, mechanism.delta)
    found, shift = max((_exact_epsilon_of_shift(law, shift, mechanism.delta), shift) for shift in (1, -1))
    return ExactAudit(
        mechanism.name, event.relation.value, mechanism.delta, claim, found / claim, found,
        f"one value more, or less, of the column ({shift:+d})", "no released numbers come before", (), 2, 1, (),
        "the ratio is that of the exact epsilon of one rado at the claimed delta to the claimed epsilon",
    )  # fmt: skip


def exact_size_law(n_examples: int, low: int, high: int) -> dict[int, Fraction]:
    """The law of K as it is drawn: a start within the band stays, any other goes by the table of weights."""
    first, sums = signature_size_weights(n_examples, low, high)
    fair = {k: Fraction(math.comb(n_examples, k), 2**n_examples) for k in range(low, high + 1)}
    outside = 1 - sum(fair.values())
    for k, (before, after) in enumerate(itertools.pairwise([0, *sums])):
        fair[first + k] += outside * Fraction(after - before, sums[-1])
    return fair


def _exact_epsilon_of_shift(law: dict[int, Fraction], shift: int, delta: float) -> float:
    """The least epsilon at delta between a law on integers and itself moved by `shift`, rounded down."""
    pairs = [(p, law.get(k - shift, Fraction(0))) for k, p in law.items()]
    if sum(p for p, q in pairs if q == 0) > Fraction(delta):
        return math.inf
    low, high = 0.0, 50.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        growth = Fraction(math.exp(middle))
        beyond = sum(max(Fraction(0), p - growth * q) for p, q in pairs) > Fraction(delta)
        low, high = (middle, high) if beyond else (low, middle)
    return low


def audit_score_exactly(
    epsilon: float = 1.0, delta: float = 1e-6, *, n_classes: int = 2, thorough: bool = True,
    run: type[Curator] = Curator, key: bytes | None = None, progress: bool = False,
) -> ExactAudit:  # fmt: skip
    from radoboost.learner.model import Model
    from radoboost.private_score import CountOutcomes, noisy_score_counts, plan_private_score
    from radoboost.release.columns import Column
    from radoboost.tables.labels import LabelEncoder

    tables = audit_tables_for(
        Moments(1.0), Relation.RECORD, Scenario(n_classes=n_classes, columns="linear", thorough=thorough)
    )
    columns = tuple(Column(f"x{k}", "bounds", 2.0**-22, -1.0, 1.0) for k in range(3))
    theta = np.array([1.0, -2.0, 0.5]) if n_classes == 2 else np.eye(n_classes, 3)
    model = Model(theta, columns, tuple(range(n_classes)), {"name": "made up"})
    scale, event = plan_private_score(epsilon, delta)
    task = CountOutcomes(model, LabelEncoder("y", model.classes))

    def score(run: Curator) -> None:
        noisy_score_counts(run, task, scale, event)

    claim = epsilon_at(event, delta)
    with show_progress("runs") if progress else no_progress() as bar:
        done = itertools.count(1)
        replays = Replays(
            tables, score, run=run, key=key or _KEY, tick=lambda: bar("replaying runs", next(done), None),
            shares=lambda log: {"scoring rows": 1.0}, allowed=Fraction(mu_allowed_by_claim(claim, delta)) ** 2,
        )  # fmt: skip
        replays.along("honest", replay.Honest())
        for one in replay.ABSURD:
            replays.along(one.name, one)
    return replays.result("score", Relation.RECORD.value, claim, delta)


REPLAYS: Mapping[str, Callable[..., ExactAudit]] = {
    "noisy moments": exact_audit_of_moments,
    "noisy sums": exact_audit_of_noisy_rados,
    "sums of noisy rows": exact_audit_of_noisy_examples,
    "banded sums": exact_audit_of_feature_band,
}
