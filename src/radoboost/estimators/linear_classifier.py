"""What the scikit-learn shells share: prediction from a model, the checks of scikit-learn, and boosting."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from radoboost.errors import ArgumentError
from radoboost.learner.boost import BoostingResult, boost
from radoboost.learner.model import Model
from radoboost.learner.row_reader import refuse_to_collect_cluster_rows
from radoboost.learner.weak_oracles import WEAK_ORACLES, Prudential, WeakOracle
from radoboost.tables.frames import refuse_cluster_frame
from radoboost.tables.labels import MOST_CLASSES


class LinearShell(ClassifierMixin, BaseEstimator):
    """What the shells share: prediction from a model, and the checks of scikit-learn."""

    model_: Model
    classes_: NDArray[Any]
    _order: NDArray[np.int64]
    _many_classes = False
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._many_classes
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The score of each row; positive means the second of `classes_`. Of more than two classes, one for each.

        With a schema, or after `fit_rados` of a release that has one, X is a raw table, as in `Model.predict`.
        """
        check_is_fitted(self)
        refuse_to_collect_cluster_rows(X)
        if self.model_.schema is not None:
            return self._ordered(self.model_.decision_function(X))
        return self._ordered(self.model_.scores(validate_data(self, X, reset=False, accept_sparse="csr")))

    @property
    def _sign(self) -> int:
        """-1 if the model's positive class comes first in `classes_`, which scikit-learn wants sorted."""
        return 1 if self._order[0] == 0 else -1

    def _ordered(self, numbers: Any, axis: int = -1) -> NDArray[np.float64]:
        """What the model has for the positive class, or for each of more than two, in the order of `classes_`."""
        if len(self.classes_) == 2:
            return np.asarray(self._sign * numbers)
        return np.ascontiguousarray(np.take(numbers, self._order, axis=axis))

    def _set_classes(self, classes: Sequence[Any]) -> None:
        """`classes_`, sorted, and which place each has among those of the model."""
        self.classes_, self._order = np.unique(np.array(classes), return_index=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if len(self.classes_) == 2 else np.argmax(scores, axis=1)
        labels: NDArray[Any] = self.classes_[places]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class: by the model's link from the score, or as exp(score) of more than two."""
        scores = self.decision_function(X)
        if len(self.classes_) > 2:
            return np.asarray(softmax(scores, axis=1))
        log_odds = self._sign * self.model_.log_odds(self._sign * scores)
        return np.column_stack([expit(-log_odds), expit(log_odds)])

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients in the units of X, shape (1, n_features), or (n_classes, n_features) of more than two."""
        return np.atleast_2d(self._ordered(self.model_.coef, axis=0))

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """The score of a row of zeros, in the units of X, shape (1,), or (n_classes,) of more than two."""
        return np.atleast_1d(self._ordered(self.model_.intercept))

    def _check_examples(self, X: Any, y: Any) -> tuple[Any, NDArray[Any], NDArray[Any], list[str]]:
        """X and y as scikit-learn checks them, the classes, and the names of the features."""
        refuse_cluster_frame(X, "fitting here")
        X, y = validate_data(self, X, y, accept_sparse="csr")
        y, classes = self._check_labels(y, getattr(self, "classes", None))
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(X.shape[1])])
        return X, y, classes, list(names)

    def _check_labels(self, y: NDArray[Any], declared: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Labels as scikit-learn checks them, and the classes; of two, the negative one first."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary" and not (self._many_classes and kind == "multiclass"):
            raise ArgumentError(f"Only binary classification is supported. The type of the target is {kind}.")
        classes = np.unique(y)
        if len(classes) < 2:
            at_least = "at least" if self._many_classes else "exactly"
            raise ArgumentError(f"y has one class only ({classes[0]!r}); it must have {at_least} two")
        if len(classes) > MOST_CLASSES:
            raise ArgumentError(
                f"y has {len(classes):,} classes, and {MOST_CLASSES} is the most; if it is a number, make classes of "
                "its ranges"
            )
        if declared is not None:
            values, labels = np.array(declared).tolist(), set(classes.tolist())
            if len(values) == 2 or not self._many_classes:
                if len(values) != 2 or set(values) != labels:
                    raise ArgumentError(f"classes must be the two labels of y; they are {declared!r}")
            elif len(set(values)) != len(values) or labels - set(values):
                raise ArgumentError(f"classes must be all labels of y, each once; they are {declared!r}")
            classes = np.array(declared)
        return y, classes


@contextmanager
def unchanged_by_failure(shell: BaseEstimator) -> Iterator[None]:
    """Leave the shell as it was if the block fails."""
    before = dict(shell.__dict__)
    try:
        yield
    except BaseException:
        shell.__dict__.clear()
        shell.__dict__.update(before)
        raise


def boost_shell(
    shell: Any, rows: ArrayLike, oracle: WeakOracle, kappa: float, update: str
) -> tuple[BoostingResult, dict[str, Any]]:
    """Boost with a shell's parameters; sets `rounds_` and `n_used_`, and says what was done."""
    boosted, learner = boost_rows_with_shell(shell, rows, oracle, kappa, update)
    shell.rounds_, shell.n_used_ = boosted.rounds, boosted.n_used
    return boosted, learner


def boost_rows_with_shell(
    shell: Any, rows: ArrayLike, oracle: WeakOracle, kappa: float, update: str, n_rounds: int | None = None
) -> tuple[BoostingResult, dict[str, Any]]:
    """Boost with a shell's parameters, for its number of rounds or another one, and say what was done."""
    boosted = boost(
        rows,
        n_rounds=shell.n_rounds if n_rounds is None else n_rounds,
        weak=oracle,
        kappa=kappa,
        update=update,
        clamp=shell.clamp,
        keep=shell.keep,
    )
    return boosted, {**shell_options(shell, oracle, kappa, update), "rounds": boosted.n_used}


def shell_options(shell: Any, oracle: WeakOracle, kappa: float, update: str) -> dict[str, Any]:
    """The options of boosting without a penalty, as a model says them."""
    learner = {"weak": oracle.name, "kappa": float(kappa), "update": update, "clamp": float(shell.clamp)}
    if isinstance(oracle, Prudential):
        learner["cap"] = oracle.cap
    return {**learner, "keep": shell.keep}


def weak_oracle_of_shell(weak: str | WeakOracle) -> WeakOracle | None:
    """The oracle; None for a prudential one whose cap is still to be computed from the rados."""
    if isinstance(weak, str) and weak == Prudential.name:
        return None
    if isinstance(weak, str) and weak in WEAK_ORACLES:
        return WEAK_ORACLES[weak]()
    if isinstance(weak, type) or not isinstance(weak, WeakOracle):
        raise ArgumentError(
            f"weak must be one of {', '.join(WEAK_ORACLES)}, or an oracle such as Prudential(0.3), with a name and a "
            f"method choose; it is {weak!r}"
        )
    return weak
