"""The whole flow on data that ships with scikit-learn: craft, learn, predict, compare, and a picture of all of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from radoboost.errors import OutputError, reason
from radoboost.holder.craft import craft
from radoboost.learner.model import Model
from radoboost.learner.predict import predict_table
from radoboost.progress import Progress
from radoboost.release import RADOS, Release, load, replacing

LABEL = "tumour"
N_RADOS = 1000
SIZES = (10, 30, 100, 300, 1000, 3000)
_DRAWS, _FOLDS = 10, 5
_PICTURED = ("mean texture", "worst radius")
_COLOURS = {"benign": "#2471a3", "malignant": "#c0392b", "moments": "#1e8449", "boost": "#b9770e"}


@dataclass(frozen=True)
class Demo:
    """The files, the model and the errors of the demo; `curves` has errors by learner, shape (sizes, draws)."""

    files: dict[str, Path]
    model: Model
    test_error: float
    peer_test_error: float
    curves: dict[str, NDArray[np.float64]]
    peer_error: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "files": {name: str(path) for name, path in self.files.items()},
            "test_error": {"from the release": self.test_error, "logistic regression": self.peer_test_error},
            "cross_validated_error": {
                "n_rados": list(SIZES),
                **{name: errors.tolist() for name, errors in self.curves.items()},
                "logistic regression": self.peer_error,
            },
        }


def run_demo(directory: Path, say: Callable[[str], None], bar: Progress) -> Demo:
    """Run the flow on scikit-learn's breast-cancer data, and `say` what happens; its files stay in `directory`."""
    from radoboost.estimators import MomentsClassifier

    files = _places(directory)
    table, train, test = _patients()
    _write_csv(table.take(train), files["train"])
    _write_csv(table.take(test), files["test"])
    say(
        f"The table: {len(table)} patients with {table.num_columns - 1} measurements each, and whether the tumour was "
        f"benign or malignant. {len(train)} of them are the hospital's; {len(test)} are kept apart to test on."
    )
    say(f"\n$ rado craft {files['train']} --label {LABEL} -o {files['release']}")
    craft(files["train"], label=LABEL, n_rados=N_RADOS).save(files["release"])
    size = files["release"].stat().st_size / 1024
    say(
        f"Crafted {N_RADOS} rados into {files['release']} ({size:.0f} KiB). Each is one row: the sum, over a secret "
        "random half of the patients, of their standardised measurements, with the sign reversed for benign tumours."
    )
    say(f"\n$ rado learn {files['release']} -o {files['model']}")
    release = load(files["release"])
    model = MomentsClassifier().fit_rados(release).model_
    model.save(files["model"])
    say(f"Learned a linear classifier from that file alone, and wrote it to {files['model']}.")
    say(f"\n$ rado predict {files['model']} {files['test']} --label {LABEL} -o {files['scores']}")
    predicted = predict_table(model, files["test"], files["scores"], bar, label=LABEL)
    peer_test_error = _peer_error(table, train, test)
    assert predicted.n_wrong is not None
    test_error = predicted.n_wrong / predicted.n_rows
    say(
        f"Of {predicted.n_rows} patients it had never seen it judges {predicted.n_wrong} wrongly: an error of "
        f"{100 * test_error:.1f} %. Logistic regression on the raw table, which had to be handed over for it, has "
        f"{100 * peer_test_error:.1f} %."
    )
    curves, peer_error = _learning_curves(table, bar)
    _draw(table.take(train), release, curves, peer_error, files["picture"])
    place = SIZES.index(N_RADOS)
    say(
        f"\nOver {_DRAWS} draws of {N_RADOS} rados and {_FOLDS} folds the errors are, on average, "
        f"{100 * curves['moments'][place].mean():.1f} % (moments), {100 * curves['boost'][place].mean():.1f} % "
        f"(RadoBoost) and {100 * peer_error:.1f} % (logistic regression on the raw table)."
    )
    say(f"Drew {files['picture']}: what stays, what leaves, and error against the number of rados.")
    return Demo(files, model, test_error, peer_test_error, curves, peer_error)


def _places(directory: Path) -> dict[str, Path]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {directory}: {reason(error)}; choose another") from None
    stem = directory / "breast-cancer"
    return {
        "train": Path(f"{stem}.csv"),
        "test": Path(f"{stem}-test.csv"),
        "release": Path(f"{stem}.rado.parquet"),
        "model": Path(f"{stem}.model.json"),
        "scores": Path(f"{stem}-test.scores.csv"),
        "picture": Path(f"{stem}.png"),
    }


def _patients() -> tuple[pa.Table, NDArray[np.int_], NDArray[np.int_]]:
    """The table with its label, and which rows are for training and which for testing."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    bunch = load_breast_cancer()
    columns = dict(zip(bunch.feature_names.tolist(), bunch.data.T, strict=True))
    table = pa.table({**columns, LABEL: bunch.target_names[bunch.target].tolist()})
    train, test = train_test_split(np.arange(len(table)), test_size=0.25, stratify=bunch.target, random_state=0)
    return table, np.sort(train), np.sort(test)


def _write_csv(table: pa.Table, path: Path) -> None:
    with replacing(path) as draft:
        pa.csv.write_csv(table, draft)


def _numbers(table: pa.Table) -> tuple[NDArray[np.float64], NDArray[Any]]:
    features = table.drop_columns([LABEL])
    return np.column_stack([column.to_numpy() for column in features.columns]), np.array(table[LABEL].to_pylist())


def _peer_error(table: pa.Table, train: NDArray[np.int_], test: NDArray[np.int_]) -> float:
    """The test error of the peer, logistic regression on the raw table."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = _numbers(table)
    peer = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X[train], y[train])
    return 1.0 - float(peer.score(X[test], y[test]))


def _learning_curves(table: pa.Table, bar: Progress) -> tuple[dict[str, NDArray[np.float64]], float]:
    """Cross-validated errors by learner, shape (sizes, draws), and that of logistic regression."""
    from sklearn.model_selection import StratifiedKFold

    from radoboost.estimators import MomentsClassifier, RadoBoostClassifier

    X, y = _numbers(table)
    learners: dict[str, Any] = {"moments": MomentsClassifier(), "boost": RadoBoostClassifier()}
    wrong = {name: np.zeros((len(SIZES), _DRAWS)) for name in learners}
    folds = list(StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(X, y))
    for done, (draw, (train, test)) in enumerate((draw, fold) for draw in range(_DRAWS) for fold in folds):
        bar("drawing the learning curve", done, _DRAWS * _FOLDS)
        release = craft(X[train], y[train], n_rados=SIZES[-1])
        for place, size in enumerate(SIZES):
            # Rados are drawn independently of each other: the first few are as good as a release of few.
            fewer = replace(release, blocks={RADOS: release.rados[:size]})
            for name, learner in learners.items():
                wrong[name][place, draw] += (learner.fit_rados(fewer).predict(X[test]) != y[test]).sum()
    peer = sum(_peer_error(table, train, test) * len(test) for train, test in folds) / len(y)
    return {name: counts / len(y) for name, counts in wrong.items()}, float(peer)


def _draw(
    table: pa.Table, release: Release, curves: dict[str, NDArray[np.float64]], peer_error: float, path: Path
) -> None:
    """Three panels: the patients, the rados, and error against the number of rados."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.8), layout="constrained")
    stays, leaves, learned = figure.subplots(1, 3)
    places = [release.feature_names.index(name) for name in _PICTURED]
    _draw_patients(stays, table, [release.columns[k] for k in places])
    _draw_rados(leaves, release.rados[:, places])
    for axes in (stays, leaves):
        axes.set_xlabel(_PICTURED[0])
        axes.set_ylabel(_PICTURED[1])
    _draw_curves(learned, curves, peer_error)
    for axes in (stays, leaves, learned):
        axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as draft:
        figure.savefig(draft, dpi=110, format="png")


def _draw_patients(axes: Any, table: pa.Table, columns: list[Any]) -> None:
    patients = np.column_stack([column.apply(table.column(column.name).to_numpy()) for column in columns])
    labels = np.array(table[LABEL].to_pylist())
    for name in ("malignant", "benign"):
        points = patients[labels == name]
        axes.scatter(*points.T, s=12, alpha=0.7, color=_COLOURS[name], label=f"{name} ({len(points)})")
    axes.set_title(f"stays: {len(patients)} patients, standardised")
    axes.legend(frameon=False)


def _draw_rados(axes: Any, rados: NDArray[np.float64]) -> None:
    from matplotlib.patches import Ellipse

    axes.scatter(*rados.T, s=9, alpha=0.6, color="#555555", label="one rado")
    centre, spread = rados.mean(axis=0), np.linalg.eigh(np.cov(rados.T))
    angle = np.degrees(np.arctan2(*spread.eigenvectors[::-1, 1]))
    width, height = 4 * np.sqrt(spread.eigenvalues[::-1])
    axes.add_patch(Ellipse(centre, width, height, angle=angle, fill=False, color=_COLOURS["moments"], lw=1.8))
    axes.plot(*centre, "+", color=_COLOURS["moments"], ms=12, mew=2, label="mean, and two standard deviations")
    axes.set_title(f"leaves: {len(rados)} rados, each a sum over about half of them")
    axes.legend(frameon=False)


def _draw_curves(axes: Any, curves: dict[str, NDArray[np.float64]], peer_error: float) -> None:
    for name, title in (("boost", "RadoBoost"), ("moments", "moments")):
        errors = 100 * curves[name]
        axes.fill_between(SIZES, errors.min(axis=1), errors.max(axis=1), color=_COLOURS[name], alpha=0.2, lw=0)
        axes.plot(SIZES, errors.mean(axis=1), "o-", color=_COLOURS[name], label=f"{title}, from rados alone")
    axes.axhline(100 * peer_error, color="black", ls="--", lw=1.2, label="logistic regression, on the raw table")
    axes.set_xscale("log")
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("number of rados")
    axes.set_ylabel(f"error, % ({_FOLDS} folds)")
    axes.set_title(f"learned: mean, least and most of {_DRAWS} draws")
    axes.legend(frameon=False)
