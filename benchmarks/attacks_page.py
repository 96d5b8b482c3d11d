"""The generated parts of docs/attacks.md and of two pages of proofs, from a full run of `rado attack study all`.

    python benchmarks/attacks_page.py [FOLDER]

With a folder, the results and pictures that it has are first copied to experiments/results/attacks and docs/images. No
number of the pages is typed by hand.
"""

import sys
from pathlib import Path

from measuring import RESULTS, fill_page
from radoboost.report.documents import read_document
from reproduction_page import table, verdict, wrapped

DOCS = Path(__file__).parent.parent / "docs"
PAGE, BAND, PROOF = DOCS / "attacks.md", DOCS / "proofs" / "feature-band.md", DOCS / "proofs" / "confounder.md"
KEPT, TABLES = RESULTS / "attacks", RESULTS / "attacks.md"
SHOWN = {
    "linear": ("start",),
    "probe": (),
    "leak": (),
    "membership": (),
    "confounder": (),
    "hardness": (),
}
"""The tables of each study that the page shows; the report of the study has them all."""
BESIDE = {"leak": "leak-claim", "membership": "membership"}
"""Those that are in the file of tables, for which the page has no room."""
WITHOUT_WHY = ("membership",)  # the table has the numbers
WITH_NOTES = ("hardness",)


def document(name):
    return read_document(KEPT / f"{name}.json")


def pictures(name, folder="images"):
    """The figures of a study, with what they show."""
    figures = document(name).findings.figures
    return [f"![{one.title}]({folder}/attack-{name}-{one.name}.svg)\n\n{wrapped(one.caption)}" for one in figures]


def part(name):
    """What a study found: statements, the tables shown here, pictures."""
    kept = document(name)
    findings = kept.findings
    parts = [f"`{kept.command}`: {kept.seconds:.0f} seconds."]
    whys = ["" if name in WITHOUT_WHY else f" {check.why}" for check in findings.checks]
    checks = [
        wrapped(f"- {verdict(check)}: {check.statement}.{why}", "  ")
        for check, why in zip(findings.checks, whys, strict=True)
    ]
    parts += ["\n".join(checks)] if checks else []
    parts += [table(one) for one in findings.tables if one.name in SHOWN[name]]
    parts += pictures(name)
    parts += [wrapped(note) for note in findings.notes if name in WITH_NOTES]
    return "\n\n".join(parts)


def one_table(study, name):
    """A table of a study."""
    return table(next(one for one in document(study).findings.tables if one.name == name))


def beside_the_claim():
    """The attack on feature-band, for the page that proves its claim."""
    return "\n\n".join([one_table("leak", "leak-claim"), pictures("leak", "../images")[0]])


def tables_page():
    """The file of tables."""
    lines = [
        "# What rados hide and what they do not: tables",
        "`docs/attacks.md` says how these were measured. Written by `python benchmarks/attacks_page.py` from files in\n"
        "`attacks/`.",
    ]
    return "\n\n".join([*lines, *(one_table(study, name) for study, name in BESIDE.items())]) + "\n"


def rendered():
    """The pages as they are, with their generated parts as the results have them."""
    parts = {
        PAGE: {name: part(name) for name in SHOWN},
        BAND: {"leak": beside_the_claim()},
        PROOF: {"proof": one_table("confounder", "proof")},
    }
    return {page: fill_page(page, filled) for page, filled in parts.items()}


def main():
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        KEPT.mkdir(parents=True, exist_ok=True)
        for name in SHOWN:
            if not (folder / f"{name}.json").exists():
                continue
            (KEPT / f"{name}.json").write_text((folder / f"{name}.json").read_text())
            for one in document(name).findings.figures:
                drawn = folder / "figures" / f"{name}-{one.name}.svg"
                (DOCS / "images" / f"attack-{drawn.name}").write_text(drawn.read_text())
    for page, text in rendered().items():
        page.write_text(text)
    TABLES.write_text(tables_page())


if __name__ == "__main__":
    main()
