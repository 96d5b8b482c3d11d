"""lem_radoboost: the exponential rado-risk after each round of boosting, and the bound that the edges earn."""

from collections.abc import Iterator

import numpy as np

from radoboost.lab.paper import domains
from radoboost.lab.paper.jobs import Options, Outcome, Task, cell_generator
from radoboost.lab.paper.protocol import N_ROUNDS, number_of_rados, uniform_rados
from radoboost.lab.theory import Outcomes, Parts, edge_vectors_of
from radoboost.learner.boost import boost
from radoboost.learner.risks import log_boosting_bound, log_rado_risk, logistic_rado_risk, logistic_risk
from radoboost.learner.weak_oracles import WEAK_ORACLES
from radoboost.report.findings import Check, Figure, FindingPart, Panel, ReportColumn, ReportTable, Series

_PREFERRED = ("banknote", "ionosphere", "transfusion", "wine_red", "haberman")
_SETTINGS = (("strongest", 1.0), ("strongest", 4.0), ("median", 1.0))  # oracle and kappa
_ROUNDING = 1e-9  # in a logarithm of a risk


def cells(options: Options) -> list[Task]:
    """One for each of up to three domains and each of: the paper's oracle, a kappa above 1, the median oracle."""
    names = [name for name in dict.fromkeys((*_PREFERRED, *options.domains)) if name in options.domains]
    names = names[: 2 if options.quick else 3]
    return [
        Task.of("theory", part="boosting", domain=name, weak=weak, kappa=kappa)
        for name in names
        for weak, kappa in _SETTINGS
    ]


def _boosting_bound_work(cell: Task, options: Options) -> Outcome:
    """Boost over the rados of a whole domain; the risks of some rounds are also computed again, from theta."""
    edge_vectors = edge_vectors_of(cell, options)
    m, d = edge_vectors.shape
    rados = uniform_rados(edge_vectors, number_of_rados(m), cell_generator(cell, options))
    rounds = boost(rados, n_rounds=N_ROUNDS, weak=WEAK_ORACLES[cell["weak"]](), kappa=cell["kappa"]).rounds
    bounds = np.array([log_boosting_bound(rounds.edge[: t + 1], cell["kappa"]) for t in range(len(rounds))])
    checkpoints = np.unique(np.geomspace(1, len(rounds), 40).round().astype(int))
    thetas = [rounds.theta(d, t) for t in checkpoints]
    recomputed = [log_rado_risk(rados, theta) for theta in thetas]
    return {
        "m": m, "n": len(rados), "rounds": checkpoints.tolist(),
        "log_risk": rounds.log_risk[checkpoints - 1].tolist(), "log_bound": bounds[checkpoints - 1].tolist(),
        "least_edge": float(np.abs(rounds.edge).min()), "excess": float((rounds.log_risk - bounds).max()),
        "disagreement": float(np.abs((rounds.log_risk[checkpoints - 1] - recomputed) / (1 + np.abs(recomputed))).max()),
        "rado_risk": [logistic_rado_risk(rados, theta, m) for theta in thetas],
        "example_risk": [logistic_risk(edge_vectors, theta) for theta in thetas],
    }  # fmt: skip


PARTS = {"boosting": _boosting_bound_work}


def findings(parts: Parts) -> Iterator[FindingPart]:
    outcomes = parts["boosting"]
    if not outcomes:
        yield "lem_radoboost: no domain was there to check it on."
        return
    yield ReportTable(
        "boosting", "lem_radoboost: rado-risk and bound after the last round",
        ["domain", "oracle", ReportColumn("kappa", digits=0), "rounds", ReportColumn("least |r_t|", digits=3),
         ReportColumn("log rado-risk", digits=2), ReportColumn("its bound", digits=2),
         ReportColumn("largest excess", digits=4), ReportColumn("logistic rado-risk", "nats", 4),
         ReportColumn("logistic risk", "nats", 4)],
        [[domains.SOURCES[cell["domain"]].title, cell["weak"], cell["kappa"], out["rounds"][-1], out["least_edge"],
          out["log_risk"][-1], out["log_bound"][-1], out["excess"], out["rado_risk"][-1], out["example_risk"][-1]]
         for cell, out in outcomes],
        "Bound: -sum r_t^2 / (2 kappa). Excess: log rado-risk less bound, the largest over all rounds; the lemma says "
        "at most 0. Logistic risks: after the last round, over rados (it may go below 0) and over examples.",
    )  # fmt: skip
    yield _boosting_bound_figure(outcomes)
    excess = max(outcome["excess"] for _, outcome in outcomes)
    disagreement = max(outcome["disagreement"] for _, outcome in outcomes)
    yield Check(
        "lem_radoboost: the rado-risk never exceeds its bound",
        None if disagreement > 1e-6 else excess <= _ROUNDING,
        f"largest log rado-risk less bound {excess:.3f}, over all rounds of {len(outcomes)} runs (criterion: at most "
        f"{_ROUNDING:g}); the risks of the loop and those taken anew from theta agree to {disagreement:.0e}",
    )
    above = sum(
        (np.array(out["example_risk"]) > np.log(2) + np.array(out["log_bound"]) / out["m"]).any() for _, out in outcomes
    )
    last_risk = max(outcome["example_risk"][-1] for _, outcome in outcomes)
    yield Check(  # thm_concentration gives no finite number for the Q' of the paper's equation here
        "eq. (Qbound), its penalty Q' left out: the risk over examples falls as fast as the bound on rados",
        not above,
        f"in {above} of {len(outcomes)} runs it was above the bound in some round; after the last one it was "
        f"as high as {last_risk:.2f} nats, where theta = 0 has {np.log(2):.2f}",
        ours=True,
    )


def _boosting_bound_figure(outcomes: Outcomes) -> Figure:
    panels = []
    for cell, outcome in outcomes:
        if (cell["weak"], cell["kappa"]) != _SETTINGS[0]:
            continue
        name, t, m = domains.SOURCES[cell["domain"]].title, outcome["rounds"], outcome["m"]
        bound = [np.log(2) + value / m for value in outcome["log_bound"]]
        panels.append(
            Panel(name, "round", "nats", [
                Series("logistic rado-risk", t, outcome["rado_risk"]),
                Series("its bound", t, bound, style="dashed"),
                Series("logistic risk over examples", t, outcome["example_risk"]),
                Series("log 2", [1], [np.log(2)], style="flat"),
            ], log_x=True)
        )  # fmt: skip
    caption = (
        "The lemma's bound holds with room to spare. But the rado-risk of the classifier that was learned from these "
        "rados leaves the logistic risk over the examples far above it, and may go where no logistic risk can, below 0."
    )
    return Figure("boosting", "RadoBoost's risk by round, on its rados and on the examples", caption, panels)
