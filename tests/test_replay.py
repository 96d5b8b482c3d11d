"""Exact audits: no pair of made-up tables is further apart than is promised, and planted faults are found.

A replay has no statistics, so nothing here can fail by chance.
"""

import json
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import radoboost as rb
from oracles import noise_words, rounded_normal
from radoboost.holder.contribution_bounding import choose_rows_of_persons
from radoboost.holder.curator import Curator
from radoboost.holder.engines import cpu_rows, get_engine, reference
from radoboost.holder.engines.cpu import Kernel
from radoboost.holder.gaussian_noise import _WORDS_PER_NUMBER, _WORDS_PER_ROW
from radoboost.holder.mechanisms import record_level
from radoboost.holder.mechanisms.moments import aggregations
from radoboost.holder.mechanisms.moments.aggregations import SphereRows
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.lab.audits import exact_audit
from radoboost.lab.audits.audit import audit
from radoboost.lab.audits.audit_tables import audit_tables_for
from radoboost.lab.audits.canaries import Scenario
from radoboost.lab.audits.exact_audit import (
    ALL_STAGES,
    NEAR,
    audit_score_exactly,
    exact_audit_of_moments,
    exact_audit_of_noisy_examples,
    exact_audit_of_noisy_rados,
    mu_allowed_by_claim,
)
from radoboost.lab.audits.replay import Given, Honest, log_curator, recording_curator, replayed_release
from radoboost.privacy import Gaussian, Relation
from radoboost.release.release import Release

RELATIONS = {"record": {}, "label": {"unit": "label"}, "replaced": {"relation": "replace"}}


def moments(what="record", epsilon=1.0, **options):
    return rb.Moments(epsilon, **RELATIONS[what], **options)


def check(result, least=NEAR):
    assert result.holds, (result.ratio, result.pair, result.transcript, result.faults[:3])
    assert least <= result.ratio <= 1
    assert result.found <= result.claim * (1 + 1e-9)


# ---- honest mechanisms: no pair beyond what is promised, and some pair near to it

FEW = [
    *((what, {"columns": "linear"}) for what in RELATIONS),
    *(("record", {"columns": word}) for word in ("degree-2", "degree-8", "auto")),
    *((what, {"columns": "linear", "n_classes": 3}) for what in RELATIONS),
    *((what, {"columns": "degree-2", "raw": True}) for what in RELATIONS),
    *((what, {"columns": "linear", "private_bounds": True}) for what in RELATIONS),
    *((what, {"columns": "linear", "max_rows": 3}) for what in ("record", "label")),
    *((what, {"columns": "linear", "room": (5, 2)}) for what in RELATIONS),
]


@pytest.mark.parametrize(("what", "options"), FEW)
def test_no_pair_is_further_apart_than_promised(what, options):
    result = exact_audit_of_moments(moments(what), Scenario(thorough=False, **options))
    check(result, 0.8 if what == "replaced" else NEAR)
    assert bool(result.remark) == (result.ratio < NEAR)
    if what == "replaced":
        assert result.ratio <= float(result.remark.split()[-1]) + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("what", RELATIONS)
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5])
@pytest.mark.parametrize("columns", ["linear", "degree-2", "degree-4", "degree-8", "auto"])
def test_every_plan_at_every_number_of_classes(what, n_classes, columns):
    check(
        exact_audit_of_moments(moments(what), Scenario(columns=columns, n_classes=n_classes)),
        0.75 if what == "replaced" else NEAR,
    )


@pytest.mark.slow
@pytest.mark.parametrize("what", RELATIONS)
@pytest.mark.parametrize(
    "options",
    [{"raw": True}, {"private_bounds": True}, {"room": (3, 1)}, {"room": (9, 4)}]
    + [{"n_columns": 16, "columns": "degree-2"}]
    + [{"max_rows": k} for k in (1, 2, 7)],
)  # fmt: skip
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("sharpen", [True, False])
def test_thoroughly(what, options, epsilon, sharpen):
    if what == "replaced" and "max_rows" in options:
        pytest.skip("persons are added or removed")
    check(
        exact_audit_of_moments(moments(what, epsilon, sharpen=sharpen), Scenario(**options)),
        0.6 if what == "replaced" else NEAR,
    )


@pytest.mark.parametrize("options", [{}, {"raw": True}, {"max_rows": 3}])
def test_noisy_rados_move_by_what_their_noise_is_for(options):
    check(exact_audit_of_noisy_rados(rb.NoisyRados(1.0), Scenario(n_rados=20, **options)))


@pytest.mark.parametrize("clip", [1.0, 0.25])
def test_rows_of_noisy_examples_move_by_what_their_noise_is_for(clip):
    check(exact_audit_of_noisy_examples(rb.NoisyExamples(1.0, clip=clip), Scenario()))


@pytest.mark.parametrize("max_rows", [1, 3])
def test_rows_of_a_person_move_by_what_the_noise_of_noisy_examples_is_for(max_rows):
    check(exact_audit_of_noisy_examples(rb.NoisyExamples(1.0), Scenario(max_rows=max_rows)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores(n_classes):
    check(audit_score_exactly(1.0, n_classes=n_classes))


def test_the_law_of_a_band_has_the_delta_that_is_claimed():
    result = audit(rb.FeatureBand("x", 1.0, delta=1e-5), exact=True)
    assert result.holds and result.ratio > 0.99


# ---- checks in integers


def runs_of(mechanism, asked, tables, one, other, run=Curator, **options):
    """A run on the table of one candidate, and its replay on that of another."""
    logs = []
    for number in (one, other):
        script = Given(logs[0]) if logs else Honest()
        made = recording_curator(run)(
            tables.source(number), get_engine("auto"), ThreadRunner(1), b"k" * 32, script=script, **options
        )
        logs.append(log_curator(made, lambda run: mechanism.make(asked, run)))
    return logs


def test_noise_is_that_of_the_slow_reference_at_the_logged_scale():
    tables, mechanism = (
        audit_tables_for(moments(), Relation.RECORD, Scenario(thorough=False, n_columns=2, columns="linear")),
        moments(),
    )
    first, _ = runs_of(mechanism, tables.asked, tables, 0, 1)
    assert not first.stopped
    checked = 0
    for one in first.sums[:4]:  # counts, second moments, sum and whitened moments
        for draw, part in zip(
            one.draws, [np.diag(one.noisy - one.exact), None] if one.symmetric else [None], strict=True
        ):
            rows, columns = draw.shape
            about = draw.key, columns, draw.plane, _WORDS_PER_NUMBER, _WORDS_PER_ROW
            slow = np.array([
                [rounded_normal(words, Fraction(draw.scale)) for _ in range(columns)]
                for words in (noise_words(about[0], row, *about[1:]) for row in range(rows))
            ])  # fmt: skip
            difference = one.noisy - one.exact
            if part is not None:
                np.testing.assert_array_equal(part, slow[0])
            elif one.symmetric:
                np.testing.assert_array_equal(np.triu(difference, 1), np.triu(slow, 1))
            else:
                np.testing.assert_array_equal(difference.reshape(slow.shape), slow)
            checked += slow.size
    assert checked > 20


@pytest.mark.parametrize("what", RELATIONS)
def test_the_two_files_are_the_same_to_the_last_byte(what, tmp_path):
    mechanism = moments(what)
    tables = audit_tables_for(mechanism, mechanism.neighbours, Scenario(thorough=False, columns="linear"))
    one, other = tables.pairs[0]
    logs = runs_of(mechanism, tables.asked, tables, one, other)
    files = []
    for log in logs:
        release = replayed_release(tables.asked, log.made)
        files.append(tmp_path / f"{len(files)}.parquet")
        Release.save(release, files[-1])  # not its own, which refuses
    assert files[0].read_bytes() == files[1].read_bytes()
    assert any(not np.array_equal(a.exact, b.exact) for a, b in zip(logs[0].sums, logs[1].sums, strict=True))


def test_what_a_replay_makes_is_not_saved(tmp_path):
    mechanism, tables = (
        moments(),
        audit_tables_for(moments(), Relation.RECORD, Scenario(thorough=False, columns="linear")),
    )
    log, _ = runs_of(mechanism, tables.asked, tables, 0, 1)
    release = replayed_release(tables.asked, log.made)
    with pytest.raises(rb.ReleaseError, match="replay"):
        release.save(tmp_path / "a.parquet")
    with pytest.raises(rb.ReleaseError, match="replay"):
        pickle.dumps(release)
    assert not list(tmp_path.iterdir())


def test_stages_without_noise_are_equal_where_a_label_is_flipped():
    result = exact_audit_of_moments(moments("label"), Scenario(columns="degree-3", thorough=False))
    exact = {one.stage: one.ratio for one in result.stages if one.stage in ("outline", "second moments", "counts")}
    assert len(exact) == 3 and not any(exact.values())


def test_shares_of_all_stages_add_up():
    result = exact_audit_of_moments(moments(), Scenario(columns="degree-3", thorough=False))
    assert {one.stage for one in result.stages} == {
        "counts", "outline", "second moments", "sum", "whitened moments", "mean rados", "scores",
    }  # fmt: skip
    assert all(NEAR < one.ratio <= 1 for one in result.stages)


def test_mu_follows_from_epsilon_by_a_closed_form():
    for epsilon in (0.1, 1.0, 8.0):
        mu = mu_allowed_by_claim(epsilon, 1e-6)
        assert exact_audit._epsilon_of_mu(mu, 1e-6) == pytest.approx(epsilon, rel=1e-6)


# ---- planted faults


def caught(result, words=""):
    assert not result.holds
    assert (
        (result.ratio > 1.0 or max(one.ratio for one in result.stages) > 1.0)
        if not words
        else any(words in fault for fault in result.faults)
    )


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 99])
def test_noise_that_is_halved_in_one_stage(number):
    class Halved(Curator):
        def released(self, arrays, noises):
            seen, self.seen = getattr(self, "seen", 0), getattr(self, "seen", 0) + len(noises)
            scales = [noise.scale / (2 if seen + k == number else 1) for k, noise in enumerate(noises)]
            return super().released(
                arrays, [replace(noise, scale=scale) for noise, scale in zip(noises, scales, strict=True)]
            )

    result = exact_audit_of_moments(moments(), Scenario(columns="linear", thorough=False, run=Halved))
    if number == 99:  # no stage: so it is the fault that is found, and not how it was planted
        check(result)
    else:
        caught(result)
        assert sum(one.ratio > 1.1 for one in result.stages) == 1


def test_rows_that_are_not_put_on_the_sphere(monkeypatch):
    original = SphereRows.put_on_sphere

    def as_long_as_they_come(self, values, signs):
        rows, good = original(self, values, signs)
        lengths = np.linalg.norm(np.clip(values, -1, 1), axis=1)
        return np.where(good, np.trunc(rows * lengths), 0).astype(np.int32), good

    monkeypatch.setattr(SphereRows, "put_on_sphere", as_long_as_they_come)
    caught(exact_audit_of_moments(moments(), Scenario(columns="linear", thorough=False)))


def test_weights_without_a_cap(monkeypatch):
    original = Kernel.tilt
    monkeypatch.setattr(Kernel, "tilt", staticmethod(lambda rows, theta, grid, cap: original(rows, theta, grid, 1.0)))
    monkeypatch.setattr(
        exact_audit.replay, "LYING", exact_audit.replay.LYING[-1:]
    )  # a classifier that gives rows their most
    result = exact_audit_of_moments(moments(), Scenario(columns="linear", thorough=False))
    caught(result)
    assert max(result.stages, key=lambda one: one.ratio).stage == "mean rados"


def capped_by_coordinates(rows, theta, grid, unit, most):
    """Each class weight of a row capped on its own, where all of them should be, as one vector."""
    weights = reference.class_weights(rows, theta, grid, unit, 2 * unit**2)
    cap = math.floor(math.sqrt(most))
    return (np.clip(weights, -cap, cap) @ rows[:-1].astype(np.float64).T).astype(np.int64)


def not_capped(rows, theta, grid, unit, most):
    return cpu_rows.compiled_tilt_class_rows(rows, theta, grid, unit, 2 * unit**2)


@pytest.mark.parametrize("weighing", [capped_by_coordinates, not_capped])
def test_class_weights_that_are_not_capped_as_one_vector(weighing, monkeypatch):
    monkeypatch.setattr(Kernel, "tilt_classes", staticmethod(weighing))
    result = exact_audit_of_moments(moments(), Scenario(columns="linear", n_classes=5, thorough=False))
    caught(result)
    assert max(result.stages, key=lambda one: one.ratio).stage == "mean rados"


def test_sums_of_each_class_against_the_rest(monkeypatch):
    """As if each class were one of two: sums of all classes move, where the noise is for one of them."""

    def one_against_the_rest(rows, n_classes):
        signs = np.where(np.arange(1, n_classes + 1)[:, None] == rows[-1], 1.0, -1.0) * (rows[-1] > 0)
        return (signs @ rows[:-1].astype(np.float64).T).astype(np.int64)

    monkeypatch.setattr(aggregations, "moment_sums_by_class", one_against_the_rest)
    caught(exact_audit_of_moments(moments(), Scenario(columns="linear", n_classes=5, thorough=False)))


def test_more_rows_of_a_person_than_their_noise_is_for(monkeypatch):
    def all_rows(source, run, rule, max_rows, key, **options):
        return choose_rows_of_persons(source, run, rule, 1000, key, **options)

    monkeypatch.setattr(record_level, "choose_rows_of_persons", all_rows)
    caught(exact_audit_of_moments(moments(), Scenario(columns="linear", max_rows=3, thorough=False)))


def test_noise_for_one_row_of_a_person(monkeypatch):
    honest = rb.Moments.scales
    monkeypatch.setattr(rb.Moments, "scales", lambda self, n, shape: honest(self, n, replace(shape, max_rows=1)))
    caught(exact_audit_of_moments(moments(), Scenario(columns="linear", max_rows=3, thorough=False)))


def test_norms_that_are_not_tested(monkeypatch):
    original = record_level.clip_record_rows

    def clipped_by_coordinate(values, signs, columns, clip, step):
        return original(values, signs, columns, None, step)

    monkeypatch.setattr(record_level, "clip_record_rows", clipped_by_coordinate)
    caught(exact_audit_of_noisy_rados(rb.NoisyRados(1.0), Scenario(n_rados=5, thorough=False)))
    caught(exact_audit_of_noisy_examples(rb.NoisyExamples(1.0), Scenario(thorough=False)))


def test_a_value_that_depends_on_a_neighbour(monkeypatch):
    """Rows that are scaled by the largest of their batch: one row changes what the others give."""
    original = SphereRows.put_on_sphere

    def by_the_largest(self, values, signs):
        largest = np.nanmax(np.abs(np.clip(values, -2, 2)), initial=1.0)
        return original(self, values / largest, signs)

    monkeypatch.setattr(SphereRows, "put_on_sphere", by_the_largest)
    caught(exact_audit_of_moments(moments(), Scenario(columns="linear", thorough=False)))


def test_a_key_and_plane_that_serve_twice():
    class Again(Curator):
        def noise(self, scale, shape):
            self._plane = min(self._plane, 4)
            return super().noise(scale, shape)

    caught(exact_audit_of_moments(moments(), Scenario(columns="linear", thorough=False, run=Again)), "served before")


def bare(noise):
    noise[:, -1] = 0
    return noise


def repeated(noise):
    return np.repeat(noise[:1], len(noise), axis=0)


@pytest.mark.parametrize("change", [bare, repeated])
@pytest.mark.parametrize("replayed", ["moments", "classes", "rados"])
def test_noise_that_is_missing_in_a_column_or_the_same_in_all_rows(change, replayed):
    class Changed(Curator):
        def noise(self, scale, shape):
            return change(super().noise(scale, shape))

    options = {"thorough": False, "run": Changed}
    result = (
        exact_audit_of_noisy_rados(rb.NoisyRados(1.0), Scenario(n_rados=5, **options))
        if replayed == "rados"
        else exact_audit_of_moments(
            moments(), Scenario(columns="linear", n_classes=3 if replayed == "classes" else 2, **options)
        )
    )
    caught(result, "the noise is not that of its key")


class SensitivityOne(rb.Moments):
    """A flipped label, or another record, that is taken to move a sum by one vector, where it moves it by two."""

    def scales(self, n_rounds, shape):
        return {**super().scales(n_rounds, shape), "sum": super().scales(n_rounds, shape)["sum"] / 2}


@pytest.mark.parametrize("what", ["label", "replaced"])
def test_a_sensitivity_of_one_for_two(what):
    result = exact_audit_of_moments(SensitivityOne(1.0, **RELATIONS[what]), Scenario(columns="linear", thorough=False))
    caught(result)
    assert max(result.stages, key=lambda one: one.ratio).stage == "sum"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("end", "one run ended with"), ("noise", "the scales of their noise differ"),
        ("whitening", "what follows from released numbers differs"), ("booking", "what was booked differs"),
    ],
)  # fmt: skip
def test_what_goes_by_an_exact_number(what, words):
    class Prying(Curator):
        def released(self, arrays, noises):
            odd = self.source.n_rows % 2
            if odd and what == "end":
                raise rb.TableError("an odd number of rows")
            if odd and what == "noise":
                noises = [replace(noise, scale=2 * noise.scale) for noise in noises]
            if odd and what == "booking":
                self.book(Gaussian(1e9, Relation.RECORD))
            return super().released(arrays, noises)

        def agreed(self, compute):
            return super().agreed(compute) * (1 + 1e-9 * (self.source.n_rows % 2) * (what == "whitening"))

    caught(exact_audit_of_moments(moments(), Scenario(columns="linear", thorough=False, run=Prying)), words)


class AnotherPlan(rb.Moments):
    """A plan by the exact number of rows."""

    def make(self, asked, run):
        made = super().make(asked, run)
        return replace(
            made, parameters={**made.parameters, "rows": {"good": float(made.counts.n_rows), "spoiled": 0.0}}
        )


def test_an_exact_number_in_the_file():
    caught(exact_audit_of_moments(AnotherPlan(1.0), Scenario(columns="linear", thorough=False)), "the two files differ")


def test_a_share_of_noise_for_one_holder_more():
    """Noise of each holder for K holders, where K - t must do."""

    class Quiet(Curator):
        def noise(self, scale, shape):
            return super().noise(scale * math.sqrt(3 / 5), shape)

    options = {"columns": "linear", "room": (5, 2), "thorough": False}
    check(exact_audit_of_moments(moments(), Scenario(**options)))
    caught(exact_audit_of_moments(moments(), Scenario(run=Quiet, **options)))


# ---- the way in


def test_craft_cannot_be_given_a_run_or_noise():
    import inspect

    names = set(inspect.signature(rb.craft).parameters) | set(inspect.signature(rb.score).parameters)
    assert not names & {"run", "script", "noise", "noise_key", "key", "replay", "exact"}


QUICK = {
    "noisy moments": lambda mechanism, scenario: exact_audit_of_moments(mechanism, replace(scenario, thorough=False))
}


def test_audits_are_exact_on_demand(monkeypatch):
    monkeypatch.setattr(exact_audit, "REPLAYS", QUICK)
    result = audit(rb.Moments(4.0, sharpen=False), exact=True, columns="linear")
    assert result.holds and json.loads(json.dumps(result.to_dict()))["kind"] == "exact"
    assert result.stages and result.pairs > 10 and result.transcripts > 3
    assert replace(result, ratio=1.1).holds is False and replace(result, faults=("one",)).holds is False


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        (rb.Plain(), {}), (rb.Moments(1.0), {"runs": 2000}),
        (rb.NoisyRados(1.0), {"room": (3, 1)}), (rb.NoisyRados(1.0), {"n_classes": 3}),
        (rb.FeatureBand("x", 1.0), {"max_rows": 3}), (rb.Moments(1.0), {"raw": True, "private_bounds": True}),
        (rb.Moments(1.0), {"columns": "trees"}), (rb.Moments(1.0, relation="replace"), {"max_rows": 2}),
        (rb.NoisyExamples(noise_std=1.0, clip=None), {}),
    ],
)  # fmt: skip
def test_what_an_exact_audit_has_no_use_for_is_refused(mechanism, options):
    with pytest.raises(rb.ArgumentError):
        audit(mechanism, exact=True, **options)


def test_the_command(rado, monkeypatch):
    monkeypatch.setattr(exact_audit, "REPLAYS", QUICK)
    code, out, err = rado("audit", "--exact", "--set", "columns=linear")
    assert (code, err) == (0, "")
    assert "made-up tables, not of this file" in out and "mean rados" in out and "pairs of neighbouring tables" in out
    code, out, _ = rado("audit", "--exact", "--set", "columns=linear", "--set", "relation=replace", "--json")
    entry = json.loads(out)
    assert code == 0 and entry["holds"] is True and entry["ratio"] < NEAR and "No pair passes" in entry["remark"]
    code, out, _ = rado("audit", "--exact", "--mechanism", "score", "--json")
    assert code == 0 and json.loads(out)["mechanism"] == "score"


def test_the_command_ends_with_1_where_something_is_wrong(rado, monkeypatch):
    broken = replace(audit_score_exactly(1.0, thorough=False), ratio=1.2, faults=("stages differ (honest)",))
    monkeypatch.setattr(exact_audit, "audit_score_exactly", lambda *about, **options: broken)
    code, out, err = rado("audit", "--exact", "--mechanism", "score")
    assert code == 1 and "stages differ" in out and "do not use it" in err


def test_the_worst_pair_of_each_stage_is_named():
    result = exact_audit_of_moments(moments("replaced"), Scenario(columns="linear", thorough=False))
    by_stage = {one.stage: one for one in result.stages}
    assert "half" in by_stage["second moments"].pair and "class 1" in by_stage["sum"].pair
    assert result.pair and result.transcript and ALL_STAGES not in by_stage
