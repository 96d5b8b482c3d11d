"""The paper's tables and figures: each is a list of jobs, and a page made of their results. Here: `reproduce`.

An experiment has `cells` (its jobs), `work` (one of them), `plan` and `findings`.

- `domains`: Domain, the UCI data sets: found, chosen, loaded, digests, where to get them
- `jobs`: Task, Options, run_cells in processes that are kept as they finish: hashes, timing, workers, environment
- `protocol`: standardise, stratified folds, uniform and fixed-support rados, share of errors, paired t-tests
- `table1`: AdaBoost_SS against RadoBoost: folds, variants that explain the examples column, draws, printed weights
- `table3`: the clamp on edges: what it changes, helps, tends to; luck
- `versus_paper`: our errors beside the printed ones: agreement, cells outside, picture
- `feature_privacy`: Table 2 left, learning from band rados: marginals, totals, interval, errors by epsilon
- `gaussian_noise_figures`: boosting under Gaussian noise: noisy copies, curves, families of differences, conclusions
  (competes, gains, harms)
"""

import os
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

from radoboost import memory
from radoboost.errors import ArgumentError
from radoboost.lab.paper.domains import choose_domains, find_domains
from radoboost.lab.paper.jobs import Options, run_cells, seconds_spent
from radoboost.progress import Progress, no_progress, show_progress
from radoboost.report.documents import Document, documents_in_folder, make_document, make_results_folder, write_document

EXPERIMENTS = {
    "table1": "radoboost.lab.paper.table1",
    "table3": "radoboost.lab.paper.table3",
    "feature-privacy": "radoboost.lab.paper.feature_privacy",
    "gaussian": "radoboost.lab.paper.gaussian_noise_figures",
    "theory": "radoboost.lab.theory",
}
"""Name on the command line -> module of radoboost, imported on first use.

Each module has NAME, TITLE, cells(options), work(cell, options) and findings(outcomes, options). The module of `work`
has VERSION; raise it when results that are kept from earlier runs should not be used again.
"""
WITHOUT_DOMAINS = ("theory",)
"""Experiments that say something even without any domain."""
OUTPUT = Path("rado-reproduce")
_TITLE = "Rademacher observations, reproduced"
_ABOUT = (
    "The experiments and statements of “Rademacher Observations, Private Data, and Boosting” (Richard Nock, Giorgio "
    "Patrini and Arik Friedman, ICML 2015), run again with radoboost. “Not seen” means that our criterion did not show "
    "a statement here, and not that the paper is wrong. Each statement that could be put to the test is marked as "
    "seen, not seen or not judged, with the criterion and the numbers that decided it. What is marked “our question” "
    "the paper does not say: we asked it. Where the paper says that something can be, one domain is enough. All "
    "numbers and pictures come from the runs whose commands stand with them."
)


def reproduce(
    what: str,
    *,
    data: Path | str | None = None,
    domains: tuple[str, ...] | None = None,
    quick: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    output: Path = OUTPUT,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
) -> list[Document]:
    """Run an experiment of the paper, or "all", and write results, pictures and a report into the folder `output`.

    `data` is the folder of the domains (RADO_DATA by default); `domains` chooses among those found there. Finished
    cells are kept in `output`, so that an interrupted run goes on where it was; neither that nor the number of
    processes, `jobs`, changes a number. Returns a document for each experiment: its findings, and how they were got.
    """
    from radoboost.report import html

    names = list(EXPERIMENTS) if what == "all" else [what]
    if what != "all" and what not in EXPERIMENTS:
        raise ArgumentError(f"there is no experiment {what!r}; choose one of {', '.join(EXPERIMENTS)}, or all")
    if jobs is not None and jobs < 1:
        raise ArgumentError(f"the number of jobs must be at least 1; it is {jobs}")
    modules = [import_module(EXPERIMENTS[name]) for name in names]
    folder = data or os.environ.get("RADO_DATA")
    if folder:
        chosen, missing = choose_domains(folder, domains)
        if say is not None:
            for line in missing:
                say(f"not found: {line}")
        options = Options(str(folder), chosen, seed, quick)
    elif domains is None and set(names) <= set(WITHOUT_DOMAINS):
        options = Options("", (), seed, quick)
    else:
        raise ArgumentError("the paper's domains are needed; name their folder with --data or RADO_DATA")
    make_results_folder(output)
    workers = min(jobs or _number_of_cores(), _processes_that_fit_memory(options))
    documents = []
    bars: AbstractContextManager[Progress] = show_progress("cells") if progress else no_progress()
    with bars as bar:
        for module in modules:
            documents.append(_experiment_document(module, options, output, workers, bar))
            write_document(output, documents[-1])
    html.write_html(output, documents_in_folder(output, tuple(EXPERIMENTS)), html.PageHeader(_TITLE, _ABOUT))
    return documents


def _experiment_document(module: Any, options: Options, output: Path, jobs: int, bar: Progress) -> Document:
    cells, folder = module.cells(options), output / "cells"
    outcomes = run_cells(cells, module.work, options, folder, jobs=jobs, bar=bar)
    findings = module.findings(outcomes, options)
    seconds = seconds_spent(cells, module.work, options, folder)
    return make_document(_reproduce_command(module.NAME, options), seconds, options.to_dict(), findings)


def _reproduce_command(name: str, options: Options) -> str:
    words = ["rado", "reproduce", name, "--domains", ",".join(options.domains), "--seed", str(options.seed)]
    if not options.domains:
        words[3:5] = []
    return shlex.join([*words, "--quick"] if options.quick else words)


def _number_of_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processes_that_fit_memory(options: Options) -> int:
    """How many processes memory has room for: each holds a domain in about six copies."""
    if not options.domains:
        return _number_of_cores()
    places = find_domains(options.data)
    files = [places[name] for name in options.domains if name in places]
    # A number takes about twice as many bytes of text as of memory, and text packs to about a third.
    largest = max((file.stat().st_size * (9 if file.suffix == ".gz" else 3) for file in files), default=1)
    return max(1, memory.available_memory() // max(largest, 1))
