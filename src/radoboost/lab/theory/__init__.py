"""The paper's lemmas, theorems and hardness results as checks that run.

`rado reproduce theory` runs the theorems, each by numbers. A module of `SECTIONS` has `cells`, `PARTS` (which function
does a cell's work, by its part) and `findings`, besides formulas. What chance decides has a false-alarm probability of
at most one in a million for each check; the rest is exact or a matter of counting.

- `boosting_bound`: lem_radoboost: the rado-risk after each round and its bound
- `concentration`: thm_concentration: penalty, balls of theta, varrho and ell, gaps, all rados, logistic classifier
- `dp_feat`: thm_dpfreal and beta: deltas of a column under the band, losses, factors, order and growth of delta, draws
- `rejection_sampling`: thm_rrs: rejection runs, grid of failures, f(beta), signature sizes
- `gaussian_theorem`: thm_random_gau: norms of noise, cap on edges, kappa, mean-zero example, proof step, conclusion
- `sphere_packing`: spheres, holes, covering radius, lattice points, gaps of the printed proof
- `confounder`: Confounder: another data set with the same rados; farthest points, balls
- `decision_problems`: Sparse-Approximation and Probe-Sample-Subsumption: questions, witnesses, the solver's model
- `solver_limits`: 3-sets, exact covers, printed reductions, seconds of the solver
"""

from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.lab.paper import domains
from radoboost.lab.paper.jobs import Options, Outcome, Task
from radoboost.lab.paper.protocol import standardise
from radoboost.report.findings import Findings, findings_of_parts

NAME = "theory"
TITLE = "Theory, checked"
VERSION = 4
SECTIONS = ("concentration", "boosting_bound", "dp_feat", "rejection_sampling", "gaussian_theorem", "sphere_packing")
Outcomes = list[tuple[Task, Outcome]]
Parts = Mapping[str, Outcomes]


def edge_vectors_of(cell: Task, options: Options) -> NDArray[np.float64]:
    """The edge vectors of a cell's whole domain, of z-scores."""
    domain = domains.load_domain(cell["domain"], options.data)
    return standardise(domain.x) * domain.signs[:, None]


def _theory_sections() -> list[Any]:
    return [import_module(f"{__name__}.{name}") for name in SECTIONS]


def cells(options: Options) -> list[Task]:
    return [cell for section in _theory_sections() for cell in section.cells(options)]


def work(cell: Task, options: Options) -> Outcome:
    outcome: Outcome = next(s.PARTS[cell["part"]] for s in _theory_sections() if cell["part"] in s.PARTS)(cell, options)
    return outcome


def findings(outcomes: Mapping[Task, Outcome], options: Options) -> Findings:
    parts: defaultdict[str, Outcomes] = defaultdict(list)
    for cell, outcome in outcomes.items():
        parts[cell["part"]].append((cell, outcome))
    return findings_of_parts(NAME, TITLE, (one for section in _theory_sections() for one in section.findings(parts)))
