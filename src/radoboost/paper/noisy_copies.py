"""Noisy copies of a domain, and all learners on them: the work behind the experiment gaussian.

A noisy copy of a domain is its edge vectors plus noise_std times standard normal deviates. The deviates of a copy are
the same at every noise_std, so curves of one copy differ by the size of the noise and by nothing else; and a rado of
noisy edge vectors is the rado of the edge vectors plus noise_std times that of the deviates, so both are summed once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.learner.boost import boost
from radoboost.learner.weak import Median, Strongest, WeakOracle
from radoboost.paper.cells import Cell, Options, cell_generator
from radoboost.paper.domains import SOURCES, load
from radoboost.paper.protocol import (
    N_FOLDS,
    N_ROUNDS,
    best_on_examples,
    fixed_support_rados,
    number_of_rados,
    share_wrong,
    standardised,
    stratified_folds,
    uniform_rados,
)

NAME = "gaussian"
VERSION = 1

DOMAINS = tuple(SOURCES)[: tuple(SOURCES).index("eeg") + 1]
SUPPORTS = (0.25, 0.5, 0.75)
EXAMPLES, RANDOM = "examples", "random rados"
ORACLES: dict[str, WeakOracle] = {"strong": Strongest(), "median": Median()}
TESTS = ("clean", "noisy")

Curves = dict[str, dict[str, NDArray[np.float64]]]


@dataclass(frozen=True)
class Plan:
    noise_stds: tuple[float, ...]
    copies: int
    folds: int
    rounds: int


def plan(options: Options) -> Plan:
    """The noise levels, noisy copies, folds and rounds; the paper names 10 copies and 10 folds, and no levels."""
    if options.quick:
        return Plan((0.0, 0.3, 3.0), 2, 5, 200)
    return Plan((0.0, 0.1, 0.3, 1.0, 3.0, 10.0), 10, N_FOLDS, N_ROUNDS)


def support_name(support: float) -> str:
    """What rados of a fixed support are called."""
    return f"s/m = {support:g}"


def learner(rows: str, oracle: str) -> str:
    """The key of a curve: what is boosted over, with which oracle."""
    return f"{rows}, {oracle}"


KINDS = (EXAMPLES, RANDOM, *map(support_name, SUPPORTS))
LEARNERS = tuple(learner(kind, oracle) for oracle in ORACLES for kind in KINDS)


# ---- cells


def cells(options: Options) -> list[Cell]:
    """One for each domain, noisy copy and fold."""
    chosen = plan(options)
    return [
        Cell.of(NAME, domain=name, copy=copy, fold=fold)
        for name in DOMAINS
        if name in options.domains
        for copy in range(chosen.copies)
        for fold in range(chosen.folds)
    ]


def work(cell: Cell, options: Options) -> dict[str, Any]:
    """Test errors of all learners at all noise levels, for one fold of one noisy copy."""
    chosen, domain = plan(options), load(cell["domain"], options.data)
    edges = standardised(domain.x) * domain.signs[:, None]
    # Noise and folds belong to the copy: all of its folds must draw the same.
    of_copy = cell_generator(Cell.of(NAME, domain=cell["domain"], copy=cell["copy"]), options)
    folds = stratified_folds(domain.signs, chosen.folds, of_copy)
    deviates = of_copy.standard_normal(edges.shape)
    train, test = folds[cell["fold"]]
    generator = cell_generator(cell, options)
    crafted = craft_both(edges[train], deviates[train], generator)
    errors: dict[str, dict[str, list[float]]] = {where: {name: [] for name in LEARNERS} for where in TESTS}
    for noise_std in chosen.noise_stds:
        noisy = edges + noise_std * deviates
        rows = {EXAMPLES: noisy[train]} | {kind: plain + noise_std * noise for kind, (plain, noise) in crafted.items()}
        tests = {"clean": edges[test], "noisy": noisy[test]}
        for oracle, weak in ORACLES.items():
            for kind in KINDS:
                update = "exponential" if kind == EXAMPLES else "multiplicative"
                rounds = boost(rows[kind], n_rounds=chosen.rounds, weak=weak, update=update).rounds
                theta = best_on_examples(rounds, noisy[train], edges.shape[1])
                for where in TESTS:
                    errors[where][learner(kind, oracle)].append(share_wrong(theta, tests[where], generator))
    return {**errors, "clip": float(np.sqrt(np.square(edges).sum(axis=1)).max())}


def craft_both(
    edges: NDArray[np.float64], deviates: NDArray[np.float64], generator: np.random.Generator
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Rados of the edge vectors, and of the deviates with the same signatures, of every kind."""
    both = np.hstack([edges, deviates])
    m, d = edges.shape
    n = number_of_rados(m)
    crafted = {RANDOM: uniform_rados(both, n, generator)}
    for support in SUPPORTS:
        crafted[support_name(support)] = fixed_support_rados(both, n, int(support * m), generator)
    return {kind: (rados[:, :d], rados[:, d:]) for kind, rados in crafted.items()}


def curves_of(outcomes: dict[Cell, dict[str, Any]], where: str) -> Curves:
    """Percent wrong by domain and learner, as arrays of (copies, noise levels): folds are averaged."""
    outcomes_of: dict[str, dict[int, list[dict[str, list[float]]]]] = {}
    for cell, outcome in outcomes.items():
        outcomes_of.setdefault(cell["domain"], {}).setdefault(cell["copy"], []).append(outcome[where])
    return {
        name: {
            key: np.array([np.mean([fold[key] for fold in copies[copy]], axis=0) for copy in sorted(copies)]) * 100
            for key in LEARNERS
        }
        for name, copies in sorted(outcomes_of.items(), key=lambda item: DOMAINS.index(item[0]))
    }
