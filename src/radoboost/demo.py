"""The whole flow on data that ships with scikit-learn: craft, learn, predict, compare, and a picture of all of it.

It is run twice: without a promise, and with an epsilon. For the latter, bounds are declared by hand in round numbers,
by kind of measurement: a radius lies in 0 to 30, its standard error in a tenth of that. None comes from the table.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from radoboost.demo_picture import Errors, draw_demo
from radoboost.errors import OutputError, reason
from radoboost.holder.craft import craft
from radoboost.holder.mechanisms import Moments
from radoboost.learner.model import Model
from radoboost.learner.predict import Predicted, predict_table
from radoboost.progress import Progress
from radoboost.release import RADOS, load, replacing
from radoboost.tables.kinds import Number
from radoboost.tables.schema import Schema

LABEL = "tumour"
N_RADOS = 1000
SIZES = (10, 30, 100, 300, 1000, 3000)
_DRAWS, _FOLDS = 10, 5
EPSILON, DELTA = 1.0, 1e-6
CLASSES = ("benign", "malignant")
_HIGHEST = {
    "radius": 30,
    "texture": 40,
    "perimeter": 190,
    "area": 2800,
    "smoothness": 0.2,
    "compactness": 0.5,
    "concavity": 0.5,
    "concave points": 0.25,
    "symmetry": 0.5,
    "fractal dimension": 0.15,
}


@dataclass(frozen=True)
class Demo:
    """The files, the model and the errors of the demo; `promise` says which epsilon, and between which tables."""

    files: dict[str, Path]
    model: Model
    test_error: float
    private_test_error: float
    peer_test_error: float
    errors: Errors
    promise: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "files": {name: str(path) for name, path in self.files.items()},
            "promise": self.promise,
            "test_error": {
                "from the release": self.test_error,
                "from the private release": self.private_test_error,
                "logistic regression": self.peer_test_error,
            },
            "cross_validated_error": {
                "n_rados": list(SIZES),
                **{name: errors.tolist() for name, errors in self.errors.plain.items()},
                "private": self.errors.private.tolist(),
                "logistic regression": self.errors.peer,
            },
        }


def run_demo(directory: Path, say: Callable[[str], None], bar: Progress) -> Demo:
    """Run the flow on scikit-learn's breast-cancer data, and `say` what happens; its files stay in `directory`."""
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
    model, predicted = _learn_and_predict(files, "", say, bar)
    peer_test_error = _peer_error(table, train, test)
    say(
        f"{_in_words(predicted)} Logistic regression on the raw table, which had to be handed over for it, has "
        f"{100 * peer_test_error:.1f} %."
    )
    promise = _craft_privately(files, table, say)
    _, privately = _learn_and_predict(files, "private ", say, bar)
    say(_in_words(privately))
    errors = _cross_validated(table, bar)
    draw_demo(table.take(train), LABEL, load(files["release"]), errors, files["picture"])
    place = SIZES.index(N_RADOS)
    say(
        f"\nOver {_DRAWS} draws of {N_RADOS} rados and {_FOLDS} folds the errors are, on average, "
        f"{100 * errors.plain['moments'][place].mean():.1f} % (moments), "
        f"{100 * errors.plain['boost'][place].mean():.1f} % (RadoBoost), "
        f"{100 * errors.private.mean():.1f} % (moments, at {errors.promise}) and "
        f"{100 * errors.peer:.1f} % (logistic regression on the raw table)."
    )
    say(f"Drew {files['picture']}: what stays, what leaves, and error against the number of rados.")
    return Demo(files, model, predicted.error, privately.error, peer_test_error, errors, promise)


def _craft_privately(files: dict[str, Path], table: pa.Table, say: Callable[[str], None]) -> dict[str, Any]:
    """Craft a release with an epsilon, and say what it promises."""
    columns = {name: Number(0, high) for name, high in _highest(table).items()}
    with replacing(files["schema"]) as draft:
        draft.write_text(json.dumps(Schema(columns, LABEL, CLASSES).to_dict(), indent=2) + "\n", encoding="utf-8")
    say(
        f"\nNow with a promise. {files['schema']} declares what each measurement can be, by hand and in round numbers: "
        "nothing in it was computed from the table."
    )
    output = files["private release"]
    say(f"\n$ rado craft {files['train']} --epsilon {EPSILON:g} --schema {files['schema']} -o {output}")
    release = craft(files["train"], mechanism=Moments(EPSILON, DELTA), schema=files["schema"], counts=None)
    release.save(output)
    statement = release.statement
    say(
        f"Crafted moments, which are sums under noise, into {output}: epsilon "
        f"{EPSILON:g} at delta {statement.delta:g}, for {statement.neighbours}. From even odds, "
        "anyone who guesses by it whether some patient was in the table is right at most "
        f"{100 * statement.best_guess:.0f} times in 100, whatever else they know."
    )
    return {"epsilon": statement.epsilon, "delta": statement.delta, "neighbours": statement.neighbours}


def _learn_and_predict(
    files: dict[str, Path], which: str, say: Callable[[str], None], bar: Progress
) -> tuple[Model, Predicted]:
    """Learn from the plain or the `private ` release, and predict the patients who were kept apart."""
    from radoboost.estimators import MomentsClassifier

    release, learned, scores = (files[f"{which}{name}"] for name in ("release", "model", "scores"))
    say(f"\n$ rado learn {release} -o {learned}")
    model = MomentsClassifier().fit_rados(load(release)).model_
    model.save(learned)
    say(f"Learned a classifier from that file alone, and wrote it to {learned}.")
    say(f"\n$ rado predict {learned} {files['test']} --label {LABEL} -o {scores}")
    return model, predict_table(model, files["test"], scores, bar, label=LABEL)


def _in_words(predicted: Predicted) -> str:
    return (
        f"Of {predicted.n_rows} patients it had never seen it judges {predicted.n_wrong} wrongly: an error of "
        f"{100 * predicted.error:.1f} %."
    )


def _highest(table: pa.Table) -> dict[str, float]:
    """The declared high end of every measurement; the low one is 0."""
    kinds = {name: name.removeprefix("mean ").removeprefix("worst ") for name in table.column_names if name != LABEL}
    return {
        name: _HIGHEST[kind.removesuffix(" error")] / (10 if kind.endswith(" error") else 1)
        for name, kind in kinds.items()
    }


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
        "schema": Path(f"{stem}.schema.json"),
        "private release": Path(f"{stem}-epsilon-1.rado.parquet"),
        "private model": Path(f"{stem}-epsilon-1.model.json"),
        "private scores": Path(f"{stem}-epsilon-1-test.scores.csv"),
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


def _cross_validated(table: pa.Table, bar: Progress) -> Errors:
    """Errors over the folds: of plain releases by learner and size, of private ones, and of logistic regression."""
    from sklearn.model_selection import StratifiedKFold

    from radoboost.estimators import MomentsClassifier, RadoBoostClassifier

    X, y = _numbers(table)
    bounds = np.array([(0.0, high) for high in _highest(table).values()])
    learners: dict[str, Any] = {"moments": MomentsClassifier(), "boost": RadoBoostClassifier()}
    wrong, private = {name: np.zeros((len(SIZES), _DRAWS)) for name in learners}, np.zeros(_DRAWS)
    folds = list(StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(X, y))
    for done, (draw, (train, test)) in enumerate((draw, fold) for draw in range(_DRAWS) for fold in folds):
        bar("drawing the learning curve", done, _DRAWS * _FOLDS)
        release = craft(X[train], y[train], n_rados=SIZES[-1])
        for place, size in enumerate(SIZES):
            # Rados are drawn independently of each other: the first few are as good as a release of few.
            fewer = replace(release, blocks={RADOS: release.rados[:size]})
            for name, learner in learners.items():
                wrong[name][place, draw] += (learner.fit_rados(fewer).predict(X[test]) != y[test]).sum()
        noisy = craft(
            X[train], y[train], mechanism=Moments(EPSILON, DELTA), bounds=bounds, classes=CLASSES, counts=None
        )
        private[draw] += (MomentsClassifier().fit_rados(noisy).predict(X[test]) != y[test]).sum()
    peer = sum(_peer_error(table, train, test) * len(test) for train, test in folds) / len(y)
    plain = {name: counts / len(y) for name, counts in wrong.items()}
    return Errors(SIZES, plain, private / len(y), float(peer), f"epsilon {EPSILON:g}, for {noisy.statement.neighbours}")
