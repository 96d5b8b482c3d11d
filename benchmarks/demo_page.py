"""The picture of README.md and of the site's first page, and the figures beside it, from one run of `rado demo`.

    python benchmarks/demo_page.py [--report]

Writes docs/demo.png, experiments/results/demo.json and the generated part of README.md; --report does the latter alone.
"""

import json
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np

from measuring import RESULTS, fill_page

ROOT = Path(__file__).parent.parent
PAGE, PICTURE, KEPT = ROOT / "README.md", ROOT / "docs" / "demo.png", RESULTS / "demo.json"
N_RADOS = 1000


def run():
    """Run the demo, and keep its picture and its errors."""
    from radoboost.demo import run_demo

    with tempfile.TemporaryDirectory() as folder:
        demo = run_demo(Path(folder), lambda _: None, lambda *_: None)
        shutil.copy(demo.files["picture"], PICTURE)
    kept = {"command": "python benchmarks/demo_page.py", **demo.to_dict()}
    del kept["files"]
    KEPT.write_text(json.dumps(kept, indent=2) + "\n")


def figures(kept):
    """The errors that the picture shows, in a sentence."""
    errors, promise = kept["cross_validated_error"], kept["promise"]
    place = errors["n_rados"].index(N_RADOS)

    def percent(numbers):
        return f"{100 * np.mean(numbers):.1f} %"

    sentence = (
        f"On scikit-learn's breast-cancer data the classifier from {N_RADOS} plain rados, in signed-log columns, errs "
        f"on {percent(errors['moments'][place])} of patients that it has not seen, RadoBoost's on "
        f"{percent(errors['boost'][place])}, one from a release at epsilon {round(promise['epsilon'], 6):g} for "
        f"{promise['neighbours']} (bounds declared by hand) on {percent(errors['private'])}, and logistic regression, "
        f"which needs the raw table, on {percent(errors['logistic regression'])}: means of "
        f"{len(errors['private'])} draws, each over five folds of its own."
    )
    return "\n".join(textwrap.wrap(sentence, 135))


def rendered():
    """README.md as it is, with the figures of the run that is kept."""
    return fill_page(PAGE, {"demo": figures(json.loads(KEPT.read_text()))})


def main():
    if "--report" not in sys.argv[1:]:
        run()
    PAGE.write_text(rendered())


if __name__ == "__main__":
    main()
