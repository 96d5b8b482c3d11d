"""The picture of README.md and of the site's first page, and its figures: the demo, and errors over folds.

    python benchmarks/demo_page.py [--report]

Writes docs/demo.png, experiments/results/demo.json and the generated part of README.md; --report does the latter alone.
"""

import json
import sys
import tempfile
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.model_selection import StratifiedKFold

import radoboost as rb
from measuring import RESULTS, fill_page
from radoboost.examples import demo
from radoboost.examples.demo import draw_patients_and_rados

ROOT = Path(__file__).parent.parent
PAGE, PICTURE, KEPT = ROOT / "README.md", ROOT / "docs" / "demo.png", RESULTS / "demo.json"
N_RADOS = demo.N_RADOS
SIZES = (10, 30, 100, 300, 1000, 3000)
DRAWS, FOLDS = 10, 5
FIRST_SPLIT = 100  # a split of its own for each draw, so that none decides
COLOURS = {"moments": "#1e8449", "boost": "#b9770e", "private": "#6c3483"}


def run():
    """Run the demo and what is not part of it, errors over folds; keep the figures and the picture."""
    table, train, _ = demo.demo_patients()
    errors = cross_validated(table)
    with tempfile.TemporaryDirectory() as folder:
        shown = demo.run_demo(Path(folder), lambda _: None, lambda *_: None)
        draw(table.take(train), rb.load(shown.files["release"]), errors, shown.promise["neighbours"])
    kept = {"command": "python benchmarks/demo_page.py", **shown.to_dict(), "cross_validated_error": errors}
    del kept["files"]
    KEPT.write_text(json.dumps(kept, indent=2) + "\n")


def folds(X, y):
    """Of each draw, rows to train on and rows to test on."""
    splits = [StratifiedKFold(FOLDS, shuffle=True, random_state=FIRST_SPLIT + draw) for draw in range(DRAWS)]
    return [(draw, *fold) for draw, split in enumerate(splits) for fold in split.split(X, y)]


def cross_validated(table):
    """Errors over the folds: of plain releases by learner and size, of private ones, and of logistic regression.

    All but the noise of private releases follows from fixed seeds.
    """
    X, y = demo.demo_numbers(table)
    bounds = np.array([(0.0, high) for high in demo.highest_measurements(table).values()])
    private_mechanism = rb.Moments(demo.EPSILON, demo.DELTA)
    learners = {"moments": rb.MomentsClassifier(), "boost": rb.RadoBoostClassifier()}
    wrong, private, peer = {name: np.zeros((len(SIZES), DRAWS)) for name in learners}, np.zeros(DRAWS), 0.0
    for number, (draw, train, test) in enumerate(folds(X, y)):
        release = rb.craft(X[train], y[train], n_rados=SIZES[-1], columns=demo.COLUMNS, seed=number)
        for place, size in enumerate(SIZES):
            # Rados are drawn independently of each other: the first few are as good as a release of few.
            fewer = replace(release, blocks={"rados": release.rados[:size]})
            for name, learner in learners.items():
                wrong[name][place, draw] += (learner.fit_rados(fewer).predict(X[test]) != y[test]).sum()
        noisy = rb.craft(
            X[train], y[train], mechanism=private_mechanism, classes=demo.CLASSES, counts=None, schema=bounds
        )
        private[draw] += (rb.MomentsClassifier().fit_rados(noisy).predict(X[test]) != y[test]).sum()
        peer += demo.demo_peer_error(table, train, test) * len(test) / (len(y) * DRAWS)
    return {
        "n_rados": list(SIZES),
        **{name: (counts / len(y)).tolist() for name, counts in wrong.items()},
        "private": (private / len(y)).tolist(),
        "logistic regression": float(peer),
    }


def draw(table, release, errors, neighbours):
    """Three panels: the patients, the rados, and error against the number of rados."""
    figure = Figure(figsize=(15, 4.8), layout="constrained")
    stays, leaves, learned = figure.subplots(1, 3)
    draw_patients_and_rados(stays, leaves, table, demo.LABEL, release)
    draw_errors(learned, errors, f"epsilon {demo.EPSILON:g}, for {neighbours}")
    figure.savefig(PICTURE, dpi=110, format="png")


def draw_errors(axes, errors, promise):
    sizes, private = errors["n_rados"], 100 * np.array(errors["private"])
    for name, title in (("boost", "RadoBoost"), ("moments", "moments")):
        percent = 100 * np.array(errors[name])
        axes.fill_between(sizes, percent.min(axis=1), percent.max(axis=1), color=COLOURS[name], alpha=0.2, lw=0)
        axes.plot(sizes, percent.mean(axis=1), "o-", color=COLOURS[name], label=f"{title}, from plain rados")
    axes.axhspan(private.min(), private.max(), color=COLOURS["private"], alpha=0.12, lw=0)
    axes.axhline(private.mean(), color=COLOURS["private"], label=promise)
    peer = 100 * errors["logistic regression"]
    axes.axhline(peer, color="black", ls="--", lw=1.2, label="logistic regression, on the raw table")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("number of rados")
    axes.set_ylabel("error, %")
    axes.set_title(f"learned: mean, least and most of {len(private)} draws")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def figures(kept):
    """The errors that the picture shows, in a sentence."""
    errors, promise = kept["cross_validated_error"], kept["promise"]
    place = errors["n_rados"].index(N_RADOS)

    def percent(numbers):
        return f"{100 * np.mean(numbers):.1f} %"

    sentence = (
        f"On scikit-learn's breast-cancer data, a classifier learned from {N_RADOS} sums without noise is wrong for "
        f"{percent(errors['moments'][place])} of new patients; from a release at epsilon "
        f"{round(promise['epsilon'], 6):g} for {promise['neighbours']}, for {percent(errors['private'])}. Logistic "
        f"regression on the raw table: {percent(errors['logistic regression'])} (means of "
        f"{len(errors['private'])} draws, five folds each)."
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
