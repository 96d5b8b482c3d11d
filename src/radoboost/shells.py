"""What the scikit-learn shells share: prediction from a model, the checks of scikit-learn, and boosting."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from radoboost.errors import ArgumentError
from radoboost.learner.boost import Boosted, boost
from radoboost.learner.model import Model
from radoboost.learner.weak import WEAK_ORACLES, Median, Prudential, Strongest, WeakOracle


class LinearShell(ClassifierMixin, BaseEstimator):
    """What the shells share: prediction from a model, and the checks of scikit-learn."""

    model_: Model
    classes_: NDArray[Any]
    _positive: Any
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The score of each row; positive means the second of `classes_`.

        With a schema, or after `fit_rados` of a release that has one, X is a raw table, as in `Model.predict`.
        """
        check_is_fitted(self)
        if self.model_.schema is not None:
            return self._sign * self.model_.decision_function(X)
        return self._sign * self.model_.scores(validate_data(self, X, reset=False, accept_sparse="csr"))

    @property
    def _sign(self) -> int:
        """-1 if the model's positive class comes first in `classes_`, which scikit-learn wants sorted."""
        return 1 if self.classes_[1] == self._positive else -1

    def _set_classes(self, negative: Any, positive: Any) -> None:
        self.classes_, self._positive = np.unique(np.array([negative, positive])), positive

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        labels: NDArray[Any] = self.classes_[(scores > 0).astype(int)]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, by the model's link from the score."""
        scores = self.decision_function(X)
        log_odds = self._sign * self.model_.log_odds(self._sign * scores)
        return np.column_stack([expit(-log_odds), expit(log_odds)])

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients in the units of X, shape (1, n_features)."""
        return self._sign * self.model_.coef[None, :]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """The score of a row of zeros, in the units of X, shape (1,)."""
        return np.array([self._sign * self.model_.intercept])

    def _check_examples(self, X: Any, y: Any) -> tuple[Any, NDArray[Any], NDArray[Any], list[str]]:
        """X and y as scikit-learn checks them, the two classes, and the names of the features."""
        X, y = validate_data(self, X, y, accept_sparse="csr")
        y, classes = self._check_labels(y, getattr(self, "classes", None))
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(X.shape[1])])
        return X, y, classes, list(names)

    def _check_labels(self, y: NDArray[Any], declared: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Labels as scikit-learn checks them, and the two classes: negative, positive."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ArgumentError(f"Only binary classification is supported. The type of the target is {kind}.")
        classes = np.unique(y)
        if len(classes) < 2:
            raise ArgumentError(f"y has one class only ({classes[0]!r}); it must have exactly two")
        if declared is not None:
            if len(declared) != 2 or set(np.array(declared).tolist()) != set(classes.tolist()):
                raise ArgumentError(f"classes must be the two labels of y; they are {declared!r}")
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
) -> tuple[Boosted, dict[str, Any]]:
    """Boost with a shell's parameters; sets `rounds_` and `n_used_`, and says what was done."""
    boosted = boost(
        rows,
        n_rounds=shell.n_rounds,
        weak=oracle,
        kappa=kappa,
        update=update,
        clamp=shell.clamp,
        keep=shell.keep,
    )
    shell.rounds_, shell.n_used_ = boosted.rounds, boosted.n_used
    learner = {"weak": oracle.name, "kappa": float(kappa), "update": update, "clamp": float(shell.clamp)}
    if isinstance(oracle, Prudential):
        learner["cap"] = oracle.cap
    return boosted, {**learner, "keep": shell.keep, "rounds": boosted.n_used}


def chosen_oracle(weak: str | WeakOracle) -> WeakOracle | None:
    """The oracle; None for a prudential one whose cap is still to be computed from the rados."""
    if isinstance(weak, str) and weak == Prudential.name:
        return None
    if isinstance(weak, str) and weak in WEAK_ORACLES:
        return WEAK_ORACLES[weak]()
    if not isinstance(weak, Strongest | Median | Prudential):
        raise ArgumentError(
            f"weak must be one of {', '.join(WEAK_ORACLES)}, or Strongest(), Median(), Prudential(cap); it is {weak!r}"
        )
    return weak
