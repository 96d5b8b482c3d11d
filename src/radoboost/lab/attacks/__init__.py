"""What an adversary gets: the paper's hardness results as running code, and attacks on our own releases.

Every attack says what it assumes the adversary to know, and ends within its time limit. An attack's `study` measures it
on made-up tables; study_attack and run_attack_study run one by name.

- `adversary_knowledge`: rados as integers, edge vectors of a table on the grid, inclusion bits of a seed,
  attack_deadline
- `attack_suite`: all attacks on one release and their report: AttackOutcome, AttackInputs, asked with seed or table,
  verdict, attempts
- `exact_reconstruction`: records by solving integers modulo a prime: seeds, parity, class sizes
- `linear_reconstruction`: one column in spite of noise: least squares, linear program, box corners
- `feature_band_leak`: the bit that a feature band protects, by counts or by lattice
- `row_probe`: which rows of a table are in a release: members, mixtures
- `subset_sum`: subsets that sum to a target: halves, hashes, masks, lattices, bits
- `membership`: likelihood-ratio attack on a record: Membership in moments, noisy sums, rows, plain tables; runs, judged
- `plain_likelihood`: laws and likelihoods of rados without noise: counted_rado_law, normal_rado_law
- `mechanism_from_release`: the mechanism, columns and claim that a release states, refused if it is another
- `roc`: Roc, Rate, Claim, thresholds
"""

import time
from importlib import import_module
from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.keystream import make_key
from radoboost.progress import Progress, no_progress, show_progress, silent
from radoboost.report.documents import Document, documents_in_folder, make_document, make_results_folder, write_document

ATTACKS = {
    "reconstruct": "radoboost.lab.attacks.exact_reconstruction",
    "linear": "radoboost.lab.attacks.linear_reconstruction",
    "probe": "radoboost.lab.attacks.row_probe",
    "leak": "radoboost.lab.attacks.feature_band_leak",
    "membership": "radoboost.lab.attacks.membership",
    "confounder": "radoboost.lab.theory.confounder",
    "hardness": "radoboost.lab.theory.solver_limits",
}
"""Name on the command line -> module of radoboost, imported on first use.

Each module has NAME, TITLE, and ASSUMES, which says what the adversary is assumed to know. Its results have to_dict()
and sentence(). All but the first have study(), which draws curves of what the attack gets.
"""


STUDIES = tuple(name for name in ATTACKS if name != "reconstruct")
OUTPUT = Path("rado-attacks")
ASSUMED = "Assumed to be known"
_TITLE = "What rados hide, and what they do not"
_ABOUT = (
    "Attacks on Rademacher observations, run many times on made-up tables: what an adversary gets, from how many rows, "
    "rados and columns, and where it stops. What the adversary is assumed to know stands with each. All numbers come "
    "from the runs whose commands stand with them."
)
_QUICK: dict[str, dict[str, Any]] = {
    "linear": {"m": 40, "ratios": (0.25, 0.5, 0.75, 1.0, 2.0, 4.0), "noise": (0.0, 0.5), "repeats": 3},
    "probe": {"sizes": (8, 16, 24, 32, 50), "columns": (1, 4), "levels": (4, 2**22), "trials": 1},
    "leak": {"trials": 10, "largest": 24, "longest": 50},
    "membership": {"quick": True},
    "confounder": {"sizes": (3, 30, 300), "dimensions": (1, 2, 6), "repeats": 2},
    "hardness": {},
}
_FULL: dict[str, dict[str, Any]] = {
    "membership": {"seconds": 1500.0},
    "hardness": {
        "sizes": (4, 6, 8, 10, 12, 14, 16, 20, 24, 32),
        "covers": (2, 3, 4, 5, 6, 7, 8, 10, 12),
        "sixes": 330,
        "repeats": 5,
        "limit": 10.0,
        "seconds": 900.0,
    },
}


def study_attack(
    what: str = "all",
    *,
    quick: bool = False,
    seed: int = 0,
    seconds: float | None = None,
    output: Path = OUTPUT,
    progress: bool = False,
) -> list[Document]:
    """Run the study of an attack, or "all", and write results, pictures and a page into the folder `output`.

    `seconds` is the time limit of each study; without it each has its own, of some minutes.
    """
    from radoboost.report import html

    if what != "all" and what not in STUDIES:
        raise ArgumentError(f"there is no study of {what!r}; choose one of {', '.join(STUDIES)}, or all")
    make_key(seed)  # refuses a wrong seed before any study runs
    make_results_folder(output)
    documents = []
    with show_progress("steps") if progress else no_progress() as bar:
        for name in STUDIES if what == "all" else (what,):
            documents.append(run_attack_study(name, quick=quick, seed=seed, seconds=seconds, bar=bar))
            write_document(output, documents[-1])
    html.write_html(output, documents_in_folder(output, STUDIES), html.PageHeader(_TITLE, _ABOUT))
    return documents


def run_attack_study(
    name: str, *, quick: bool = False, seed: int = 0, seconds: float | None = None, bar: Progress = silent
) -> Document:
    """One study as a results document, with what the adversary is assumed to know."""
    module = import_module(ATTACKS[name])
    settings = dict(_QUICK[name] if quick else _FULL.get(name, {})) | ({} if seconds is None else {"seconds": seconds})
    start = time.monotonic()
    findings = module.study(seed=seed, bar=bar, **settings)
    words = ["rado", "attack", "study", name, "--seed", str(seed), *(["--quick"] if quick else [])]
    words += [] if seconds is None else ["--seconds", f"{seconds:g}"]
    options = {"seed": seed, "quick": quick, "seconds": seconds}
    return make_document(" ".join(words), time.monotonic() - start, options, findings, {ASSUMED: module.ASSUMES})
