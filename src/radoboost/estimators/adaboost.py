"""AdaBoost over examples as a scikit-learn classifier: the baseline that needs the table."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.estimators.linear_classifier import LinearShell, boost_shell, unchanged_by_failure, weak_oracle_of_shell
from radoboost.holder import declared_bounds
from radoboost.holder.craft import warn_of_clipping
from radoboost.holder.engines import get_engine
from radoboost.holder.grid import grid_edge_vectors, make_grid_columns, resolve_scale_name
from radoboost.learner.model import Model
from radoboost.learner.weak_oracles import WeakOracle
from radoboost.release.columns import Column
from radoboost.tables.column_selection import refuse_inexact, row_number_text
from radoboost.tables.schema import Declaration, Schema


class AdaBoostSSClassifier(LinearShell):
    """AdaBoost over the examples themselves (Schapire and Singer), the paper's baseline. It needs the table.

    It boosts the edge vectors that rados would sum, with the same scaling and on the same grid. Its scores estimate
    half of the log odds, so the probabilities of `predict_proba` are cautious. It is for two classes; of more,
    scikit-learn's `OneVsRestClassifier` boosts each against the others.

    Parameters
    ----------
    n_rounds, weak, kappa, clamp, keep
        As for `RadoBoostClassifier`.
    scale : "standard", "bounds" or None
        z-scores, [low, high] onto [-1, 1], or as is.
    schema : mapping of column to (low, high), or array (n_features, 2), optional
        Values beyond are clipped.
    intercept : bool
        Whether to add the constant feature; the paper does not.

    Attributes
    ----------
    coef_, intercept_, model_, rounds_, n_used_
        As for `RadoBoostClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> bool(AdaBoostSSClassifier().fit(X, y).score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        *,
        n_rounds: int = 1000,
        weak: str | WeakOracle = "strongest",
        kappa: float = 1.0,
        clamp: float = 0.0,
        keep: str = "last",
        scale: str | None = "standard",
        schema: Declaration = None,
        intercept: bool = True,
    ) -> None:
        self.n_rounds = n_rounds
        self.weak = weak
        self.kappa = kappa
        self.clamp = clamp
        self.keep = keep
        self.scale = scale
        self.schema = schema
        self.intercept = intercept

    def fit(self, X: Any, y: Any) -> Self:
        """Boost over examples."""
        with unchanged_by_failure(self):
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any) -> None:
        X, y, classes, names = self._check_examples(X, y)
        raw = X.toarray() if hasattr(X, "toarray") else X
        for k in range(raw.shape[1]) if raw.dtype.kind in "iu" else ():
            refuse_inexact(raw[:, k], names[k], row_number_text)
        values = np.ascontiguousarray(raw, dtype=np.float64)
        columns = self._columns(values, names)
        signs = np.where(y == classes[1], 1, -1).astype(np.int8)
        edge_vectors = grid_edge_vectors(values, signs, columns) * np.array([column.step for column in columns])
        oracle = weak_oracle_of_shell(self.weak)
        if oracle is None:
            raise ArgumentError("weak='prudential' is for rados; give AdaBoost a cap: weak=Prudential(cap)")
        boosted, learner = boost_shell(self, edge_vectors, oracle, self.kappa, "exponential")
        pair = tuple(classes.tolist())
        self.model_ = Model(boosted.theta, columns, pair, {"name": "adaboost", **learner})
        self._set_classes(pair)

    def _columns(self, values: NDArray[np.float64], names: list[str]) -> tuple[Column, ...]:
        """The columns that `craft` would make."""
        declared_bounds.check_declared_feature_names(names, self.intercept)
        declared = Schema.of(self.schema).limits()
        scale = resolve_scale_name(self.scale, "standard", len(declared) > 0)
        limits = declared_bounds.check_declared_bounds(declared, names, scale)
        survey = get_engine("auto").survey(
            *declared_bounds.declared_limit_arrays(limits, names), moments=scale == "standard"
        )
        survey.add(values)
        columns = make_grid_columns(names, scale, limits, survey.result(), intercept=self.intercept)
        low, high = declared_bounds.declared_limit_arrays(limits, names)
        beyond = ((values < low) | (values > high)).sum(axis=0)
        warn_of_clipping(names, beyond)
        return columns
