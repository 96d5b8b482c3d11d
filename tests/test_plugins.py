"""A mechanism, an engine and a runner that the package does not know plug in, and give a release that loads."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.holder.aggregation import merge_accumulators
from radoboost.holder.curator import NoiseSpec
from radoboost.holder.engines.reference import Reference
from radoboost.holder.mechanisms import ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.record_level import SumContributions, check_declared, declared_record_columns
from radoboost.holder.mechanisms.statements import make_statement
from radoboost.privacy import Gaussian, Relation
from radoboost.release.release import RADOS
from radoboost.tables.labels import LabelEncoder

# ---- a mechanism: the noisy sum of all edge vectors, and nothing else


@dataclass(frozen=True)
class NoisySum:
    """One rado of all records, with noise: the Gaussian mechanism on a sum."""

    multiplier: float = 8.0

    name: ClassVar[str] = "noisy-sum"
    private: ClassVar[bool] = True
    law: ClassVar[str] = "noisy sums"

    def check(self, asked):
        check_declared(asked)

    def make(self, asked, run):
        step = 2.0**-22
        columns = declared_record_columns(asked, run.source.features, step)
        rule = LabelEncoder("y", asked.classes)
        task = SumContributions(run.engine, columns, rule, 1, Everybody(), 1.0, step)
        run.book(Gaussian(self.multiplier, Relation.RECORD))
        sums = run.noisy_sum(task, NoiseSpec("totals", self.multiplier / step))
        parameters = {"clip": 1.0, "noise_std": self.multiplier, "noise_on": "rados"}
        around = StatementFacts("bounds", asked.seeded, 1, len(columns), None, asked.earlier)
        rados = {RADOS: sums.totals * step}
        return ReleaseDraft(rados, columns, tuple(rule.classes), around, parameters, {"name": "everybody"}, sums.counts)

    def statement(self, circumstances):
        event = Gaussian(self.multiplier, Relation.RECORD)
        promise, exposed = ["Whoever is in it is protected."], ["What all say together."]
        return make_statement(
            self.name, event, 1e-6, circumstances, unit="a record", promises=promise, not_protected=exposed
        )


class Everybody:
    def words(self, first_tile, n_tiles, out):
        out[:] = 2**64 - 1
        return out


# ---- an engine: membership by a loop over rows


class Slow(Reference):
    """The reference, but for sums."""

    def sum_rows(self, rows, first_row, prepared, totals):
        for k, row in enumerate(rows):
            tile, bit = divmod(first_row + k, 64)
            word = prepared.words(tile, 1, np.empty((1, len(totals)), np.uint64))[0]
            totals[(word >> np.uint64(bit) & np.uint64(1)) == 1] += row


# ---- a runner: every batch has sums of its own, which are merged backwards


class Backwards:
    threads, cluster = 1, "another machine"

    def expect(self, passes):
        pass

    def sizes(self, source):
        return [part.count() for part in source.parts()]

    def run(self, task, source):
        parts, first = [task.empty()], 0
        for batch in source.batches(64):
            parts.append(task.empty())
            task.add(parts[-1], first, batch)
            first += batch.n_rows
        return merge_accumulators(reversed(parts))

    def keep(self, source, task, n_rows):
        from radoboost.holder.runners.row_cache import RecomputedRows

        return RecomputedRows(source, task)


@pytest.fixture
def table(rng):
    return rng.uniform(0, 10, (300, 3)), rng.integers(0, 2, 300)


def test_a_mechanism_plugs_in(table, tmp_path):
    x, y = table
    release = rb.craft(x, y, mechanism=NoisySum(), classes=(0, 1), schema=[[0, 10]] * 3)
    release.save(tmp_path / "made.rado.parquet")
    loaded = rb.load(tmp_path / "made.rado.parquet")
    assert loaded.rados.shape == (1, 4) and 0 < loaded.statement.epsilon < 1
    assert loaded.statement.neighbours == "one record added or removed"


@pytest.mark.parametrize("mechanism", [rb.Plain(), rb.NoisyExamples(2.0), rb.FeatureBand("x3", 3.0)])
def test_an_engine_plugs_in(mechanism, table, monkeypatch):
    crafted = [craft_seeded(*table, mechanism, monkeypatch, engine=engine) for engine in ("kernel", Slow())]
    assert crafted[0].rados.tobytes() == crafted[1].rados.tobytes()


@pytest.mark.parametrize("mechanism", [rb.Plain(), rb.NoisyRados(2.0), rb.NoisyExamples(2.0)])
def test_a_runner_plugs_in(mechanism, table, monkeypatch):
    crafted = [craft_seeded(*table, mechanism, monkeypatch, cluster=runner) for runner in (None, Backwards())]
    assert crafted[0].rados.tobytes() == crafted[1].rados.tobytes()


def test_moments_take_a_runner_and_an_engine(table, monkeypatch):
    mechanism = rb.Moments(4.0)
    crafted = [
        craft_seeded(*table, mechanism, monkeypatch, **how)
        for how in ({}, {"cluster": Backwards()}, {"engine": Slow()}, {"engine": "reference", "cluster": Backwards()})
    ]
    for other in crafted[1:]:
        for name, block in crafted[0].blocks.items():
            assert block.tobytes() == other.blocks[name].tobytes(), name


def craft_seeded(x, y, mechanism, monkeypatch, **how):
    """A release whose signatures and noise are the same every time."""
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: bytes(range(size)))
    monkeypatch.setattr("secrets.randbits", lambda bits: 5)
    if mechanism.law == "banded sums":
        x = np.column_stack([x, x[:, 0] > 5])
    given = {"seed": None} if mechanism.private else {"seed": 3}
    if mechanism.private:
        given |= {"bounds": [[0, 10]] * 3, "classes": (0, 1)}
    return flat.craft(x, y, n_rados=20, mechanism=mechanism, **given, **how)
