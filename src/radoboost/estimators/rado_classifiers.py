"""The learners as scikit-learn classifiers.

`fit(X, y)` crafts a release from a table and learns from it: both sides of the boundary in one process.
`fit_rados(release)` is the learner's side alone. Both set `model_`, which predicts.
"""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from radoboost.errors import ArgumentError, NoiseWarning, ReleaseError, on_failure
from radoboost.estimators import linear_classifier, tuning
from radoboost.holder.craft import craft_request
from radoboost.holder.feature_maps import Columns
from radoboost.holder.mechanisms import Mechanism, Plain
from radoboost.holder.request import CraftRequest, as_mechanism
from radoboost.holder.signatures import SignatureSet
from radoboost.learner.boost import BoostingResult, Rounds, check_rows_to_boost
from radoboost.learner.boost_rados import (
    HELD_OUT,
    BoostingPenalty,
    boost_rados,
    comparable_weights,
    features_used_by_model,
    rados_one_vs_rest,
)
from radoboost.learner.diagnostics import columns_in_doubt
from radoboost.learner.exact_moments import learn_exact_moments
from radoboost.learner.model import Model
from radoboost.learner.model_averaging import learn_averaged_model
from radoboost.learner.moments import learn_released_moments, rado_noise_std
from radoboost.learner.multiclass_moments import learn_class_discriminant
from radoboost.learner.probabilities import Prior, class_shares, class_shares_of_releases, rough_class_shares_text
from radoboost.learner.rado_moments import learn_rados
from radoboost.learner.uncertainty import LITTLE, weak_release_text
from radoboost.learner.weak_oracles import Strongest, WeakOracle, prudential_oracle_for_noise
from radoboost.privacy.ledger import Ledger
from radoboost.release.compatibility import PartyRelease, read_party_releases
from radoboost.release.file_format import is_rado_block_name
from radoboost.release.kind import EXACT_MOMENTS
from radoboost.release.rado_sampling import N_RADOS, draw_rados
from radoboost.release.release import Release, class_block_name, load
from radoboost.tables.labels import check_classes
from radoboost.tables.schema import Declaration, Schema
from radoboost.tables.sparse import NamedMatrix

_NEEDS_CLASSES = (
    "a private mechanism needs the two classes declared: give classes=(negative, positive), or all of them where there "
    "are more"
)


_OF_EACH_CLASS = ("kappa", "cap", "rounds", "strength", "weight", "held_out_ratio")  # what boosting says


class _RadoShell(linear_classifier.LinearShell, ABC):
    """What the shells over rados share: crafting in `fit`, and learning from a release."""

    release_: Release
    releases_: tuple[Release, ...]
    _many_classes = True

    def __init__(
        self,
        *,
        n_rados: int | None = None,
        classes: Sequence[Any] | None = None,
        mechanism: Mechanism | str | None = None,
        signatures: SignatureSet | None = None,
        columns: Columns = "auto",
        schema: Declaration = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        prior: Prior | None = None,
    ) -> None:
        self.n_rados = n_rados
        self.classes = classes
        self.mechanism = mechanism
        self.signatures = signatures
        self.columns = columns
        self.schema = schema
        self.ledger = ledger
        self.random_state = random_state
        self.prior = prior

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; `deep` adds those of the mechanism, as mechanism__epsilon."""
        params: dict[str, Any] = super().get_params(deep)
        return {**params, **tuning.mechanism_parameters(self.mechanism)} if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; mechanism__epsilon replaces the mechanism, which is frozen, by a changed copy."""
        prefix = "mechanism__"
        changes = {name.removeprefix(prefix): value for name, value in params.items() if name.startswith(prefix)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(prefix)})
        if changes:
            self.mechanism = tuning.changed_mechanism(self.mechanism, changes)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean accuracy, exactly: no promise covers it, nor a choice that was made by it."""
        if self.ledger is not None:
            tuning.note_exact_score(type(self).__name__)
        return float(super().score(X, y, sample_weight))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Craft a release from examples, kept as `release_`, and learn from it.

        A `sample_weight` is a whole number for each row, which counts as often; private mechanisms refuse it.
        """
        with linear_classifier.unchanged_by_failure(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        mechanism = Plain() if self.mechanism is None else tuning.chosen_mechanism(self.mechanism)
        private = getattr(mechanism, "private", False)
        schema = Schema.of(self.schema)
        names: list[str] | None = None
        if schema.raw:
            y, classes = self._raw_labels(y, schema, private)
        else:
            X, y, classes, names = (self._take_examples if private else self._check_examples)(X, y)
        values = tuple(classes.tolist())
        declared: tuple[Any, ...] = values
        if not private:
            # Here scikit-learn decides which labels are equal: the texts "1" and "1.0" are two classes.
            order = np.argsort(classes)
            y, declared = order[np.searchsorted(classes[order], y)].astype(np.int8), tuple(range(len(values)))
            _check_sample_weights(y, sample_weight)
        table, takes_seed = X, getattr(mechanism, "takes_seed", True)
        if names is not None and hasattr(self, "feature_names_in_") and not private:
            if hasattr(X, "toarray"):
                table = NamedMatrix(X, names)
            else:
                table = pa.table([np.ascontiguousarray(column) for column in X.T], names=names)
        if private and not schema.raw and not isinstance(schema.numbers, tuple):
            schema = replace(schema, use=tuple(names or ()))
        asked = CraftRequest.of(
            schema, as_mechanism(mechanism), y=y, classes=declared, n_rados=self.n_rados, signatures=self.signatures,
            columns=self.columns, seed=_seed_of_random_state(self.random_state) if takes_seed else None,
            row_weights=None if sample_weight is None else np.asarray(sample_weight),
        )  # fmt: skip
        release = craft_request(table, y, asked, ledger=self.ledger)
        with on_failure(release.unless_saved):
            if release.n_rados and not takes_seed and self.random_state is not None:
                release = draw_rados(release, release.n_rados, self.random_state)
            if private:
                tuning.note_private_fit(type(self).__name__, booked=self.ledger is not None)
            self._learn_from(_release_with_caller_classes(release, values))
        self._set_classes(values)
        if schema.raw:
            self._set_features()

    def _raw_labels(self, y: Any, schema: Schema, private: bool) -> tuple[Any, NDArray[Any]]:
        """The labels of a raw table, which a schema reads, and the classes; those of the schema, if it has any."""
        classes = schema.classes if self.classes is None else self.classes
        if not private:
            return self._check_labels(column_or_1d(y, warn=True), classes)
        if classes is None or len(classes) < 2:
            raise ArgumentError(_NEEDS_CLASSES)
        check_classes(classes)  # before NumPy makes texts of numbers that stand among texts
        return y, np.array(classes)

    def _take_examples(self, X: Any, y: Any) -> tuple[Any, Any, NDArray[Any], list[str]]:
        """X and y without a check of their values: a private release must not depend on one."""
        if self.classes is None or len(self.classes) < 2:
            raise ArgumentError(_NEEDS_CLASSES)
        check_classes(self.classes)
        X = validate_data(self, X, skip_check_array=True)  # looks at the columns only
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(self.n_features_in_)])
        return X, y, np.array(self.classes), list(names)

    def fit_rados(
        self,
        release: Release | str | os.PathLike[str] | Sequence[Release | str | os.PathLike[str]],
        *,
        one_holder: bool = False,
    ) -> Self:
        """Learn from a release, or from the file of one; or from those of `Moments` of several holders.

        Several releases are averaged, and the model's statement says what is promised to one who is at one holder, at
        two, or at all. With `one_holder` all of them are of one holder's table, and compose.
        """
        if isinstance(release, list | tuple):
            return self._fit_several(read_party_releases(release, "fit_rados"), one_holder)
        if one_holder:
            raise ArgumentError("one_holder is about several releases; give them in a list, or leave it out")
        if isinstance(release, str | os.PathLike):
            release = load(release)
        if not isinstance(release, Release):
            raise ArgumentError(f"fit_rados needs a Release, or the path of one; it got a {type(release).__name__}")
        self._learn_from(release)
        self._set_classes(release.classes)
        self._set_features()
        return self

    def _fit_several(self, parts: Sequence[PartyRelease], one_holder: bool) -> Self:
        with linear_classifier.unchanged_by_failure(self):
            model = self._learn_several(parts, one_holder)
            if self.prior is not None:
                model = model.with_prior(self.prior, old=class_shares_of_releases([part.release for part in parts]))
            self.model_, self.releases_ = model, tuple(part.release for part in parts)
            if hasattr(self, "release_"):
                del self.release_
            self._set_classes(model.classes)
            self._set_features()
        return self

    def _learn_several(self, parts: Sequence[PartyRelease], one_holder: bool) -> Model:
        """The model of several holders; refused by learners that make none."""
        raise ArgumentError(
            f"{type(self).__name__} learns from one release: merge plain ones first (rado merge A B C), or let "
            "MomentsClassifier average private ones (--learner moments)"
        )

    def _set_features(self) -> None:
        """The columns that a table to predict must have, by the model."""
        names = self.model_.feature_names
        self.n_features_in_ = len(names)
        if names != tuple(f"x{k}" for k in range(len(names))):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_rados(self, release: Release) -> None:
        if release.n_rados < 2:
            raise ReleaseError("the release has one rado only; learning needs at least two")
        if not any(rows.any() for name, rows in release.blocks.items() if is_rado_block_name(name)):
            raise ReleaseError("every rado of the release is zero in all columns; there is nothing to learn from")

    def _learn_from(self, release: Release) -> None:
        model = self._learn(release)
        if self.prior is not None:
            model = model.with_prior(self.prior, class_shares(release))
            if rough := rough_class_shares_text(release):
                warnings.warn(f"prior: {rough}", NoiseWarning, stacklevel=4)
        self.model_ = model
        self.release_ = release

    @abstractmethod
    def _learn(self, release: Release) -> Model:
        """The model, which says how it was learned."""


class RadoBoostClassifier(_RadoShell):
    """RadoBoost (Algorithm 1 of the paper): a classifier boosted from rados, linear in their columns.

    Of more than two classes each is boosted against the others. That masks classes that lie between others, so
    `MomentsClassifier` is the better choice there. With a `penalty`, or a `stop`, it departs from the paper: see
    `docs/learning.md`.

    Parameters
    ----------
    n_rounds : int
        The largest number of rounds.
    penalty : None, "lasso", "ridge" or "scores"
        What is added to the risk that boosting lowers: the sum of weights without their signs, which leaves columns
        out, the sum of squared weights, or the mean of squared scores, which is the most accurate. The parameters
        `weak`, `kappa`, `update` and `clamp` are for boosting without one.
    strength : float or "held-out"
        How much of the penalty the mean logistic risk of the examples would have added to it; or what rados speak for
        that are held out.
    stop : None or "held-out"
        With "held-out", as many rounds are taken, at most `n_rounds`, as rados speak for that are held out: each fifth
        of them once, by the mean of their margins over its deviation.
    weak : "strongest", "median", "prudential", or an oracle such as `Prudential(0.3)`
        Which feature a round takes; any object with a `name` and a method `choose` will do. "prudential" computes the
        paper's cap and kappa from the rados and the noise that their release declares.
    kappa : float
        Divides every leverage (at least 1; the paper's appendix uses more against noise).
    update : "multiplicative" or "exponential"
        The paper's weight update, or AdaBoost's.
    clamp : float
        Edges smaller than this in magnitude count as this large; 0.1 in the paper's appendix.
    keep : "last" or "best"
        The iterate to keep: the last, or the one with the least exponential rado-risk.
    n_rados, mechanism, signatures, columns
        How `fit` crafts its release, as in `craft`. `fit_rados` does not use them, but for `n_rados`: as many rados are
        drawn from a release that has moments and no rados, 1000 by default, as `draw_rados` does. A mechanism may be
        given by name, and in a grid its fields are called mechanism__epsilon, mechanism__delta and so on.
    schema : Schema, its JSON data, or the file of one, optional
        What is declared, as in `craft`. If it says what raw columns mean, `fit` and `predict` take raw tables, with
        text, dates and gaps; else numbers alone, as scikit-learn checks them.
    ledger : Ledger, or the path of one, optional
        Where every private `fit` is booked, also in cross-validation and grids, in any number of processes. Booking
        covers the fits alone: a winner that was picked by exact scores on held-out rows has no finite epsilon. And the
        total is true only for folds and splits that follow from each row alone, as those of `folds` do. A private fit
        on no ledger warns, once in a process, if it is not the only one.
    classes : (negative, positive), or all of more than two, optional
        The labels. By default they are those of y, in order; private mechanisms need them declared.
    random_state : None, int or RandomState
        None takes signatures from the operating system; anything else makes them reproducible, and the statement
        of `release_` says so. Rados that are drawn from moments, in `fit` or `fit_rados`, likewise follow from it, and
        no statement is about that. Noise never follows from it.
    prior : float or mapping, optional
        The share of the positive class, or of each class, where predictions are to be made, if it is another than in
        the table: log odds move by what that makes of them, as in `Model.with_prior`.

    Attributes
    ----------
    coef_, intercept_ : arrays
        In the units of X; with a feature map, one for each of `model_.column_names`. Of more than two classes each has
        a row.
    model_ : Model
        What was learned, as data.
    release_ : Release
        What it was learned from.
    rounds_ : Rounds
        Feature, edge, leverage and log(rado-risk) of every round; of more than two classes a list, one for each.
    n_used_ : int
        How many of the rounds the classifier uses; of more than two classes a list.
    used_features_ : list of str
        The columns that have a weight, the most important first: by weight times the spread of the column, as the
        rados tell it. All others are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = RadoBoostClassifier(random_state=0).fit(X, y)
    >>> clf.coef_.shape, len(clf.rounds_)
    ((1, 30), 1000)
    >>> bool(clf.score(X, y) > 0.9)
    True
    >>> sparse = RadoBoostClassifier(penalty="lasso", strength=0.1, random_state=0).fit(X, y)
    >>> 0 < len(sparse.used_features_) < len(clf.used_features_) < 30
    True
    """

    def __init__(
        self,
        *,
        n_rounds: int = 1000,
        weak: str | WeakOracle = "strongest",
        kappa: float = 1.0,
        update: str = "multiplicative",
        clamp: float = 0.0,
        keep: str = "last",
        penalty: str | None = None,
        strength: float | str = HELD_OUT,
        stop: str | None = None,
        n_rados: int | None = None,
        classes: Sequence[Any] | None = None,
        mechanism: Mechanism | str | None = None,
        signatures: SignatureSet | None = None,
        columns: Columns = "auto",
        schema: Declaration = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        prior: Prior | None = None,
    ) -> None:
        self.penalty = penalty
        self.strength = strength
        self.stop = stop
        self.n_rounds = n_rounds
        self.weak = weak
        self.kappa = kappa
        self.update = update
        self.clamp = clamp
        self.keep = keep
        super().__init__(
            n_rados=n_rados,
            classes=classes,
            mechanism=mechanism,
            signatures=signatures,
            columns=columns,
            schema=schema,
            ledger=ledger,
            random_state=random_state,
            prior=prior,
        )

    rounds_: Rounds | list[Rounds]
    n_used_: int | list[int]

    @property
    def used_features_(self) -> list[str]:
        """The columns that have a weight, the most important first."""
        check_is_fitted(self)
        return list(self.model_.learner["used_features"])

    def _learn(self, release: Release) -> Model:
        oracle, drawn = linear_classifier.weak_oracle_of_shell(self.weak), dict[str, Any]()
        self._check_penalty(oracle)
        if not release.n_rados:
            release = draw_rados(release, N_RADOS if self.n_rados is None else self.n_rados, self.random_state)
            drawn = {"drawn_rados": release.n_rados}
        self._check_rados(release)
        if release.n_classes > 2:
            return self._learn_each(release, oracle)
        boosted, learner = self._boost(release, release.rados, oracle)
        self.rounds_, self.n_used_ = boosted.rounds, boosted.n_used
        return self._model(release, boosted.theta, {"name": "boost", **drawn, **learner})

    def _model(self, release: Release, theta: NDArray[np.float64], learner: dict[str, Any]) -> Model:
        """The model, which says which columns have a weight, and which are odd."""
        used = features_used_by_model(release, theta)
        names = [column.name for column in release.columns if column.scale != "constant"]
        features = {"used_features": used, "left_out": len(names) - len(used)}
        remarks = columns_in_doubt(release)
        return Model.from_release(
            release, theta, {**learner, **features, **({"remarks": [*remarks]} if remarks else {})}
        )

    def _boost(
        self, release: Release, rows: NDArray[np.float64], oracle: WeakOracle | None
    ) -> tuple[BoostingResult, dict[str, Any]]:
        weak, kappa, restraint = oracle, self.kappa, BoostingPenalty(self.penalty, self.strength, self.stop)
        if weak is None:
            weak, least = prudential_oracle_for_noise(rows, rado_noise_std(release))
            kappa = max(kappa, least)
        if restraint.absent:
            return linear_classifier.boost_rows_with_shell(self, rows, weak, kappa, self.update)

        def plain(some: NDArray[np.float64], most: int) -> BoostingResult:
            return linear_classifier.boost_rows_with_shell(self, some, weak, kappa, self.update, most)[0]

        check_rows_to_boost(rows, self.n_rounds)
        boosted, did = boost_rados(rows, plain, self.n_rounds, restraint, release)
        options = {} if self.penalty is not None else linear_classifier.shell_options(self, weak, kappa, self.update)
        return boosted, {**options, "rounds": boosted.n_used, **did}

    def _check_penalty(self, oracle: WeakOracle | None) -> None:
        """Refuse options of boosting without a penalty where there is one."""
        if self.penalty is None:
            return
        at_default = {"weak": isinstance(oracle, Strongest), "kappa": self.kappa == 1, "clamp": self.clamp == 0}
        if others := [name for name, default in at_default.items() if not default]:
            raise ArgumentError(f"{others[0]} is for boosting without a penalty; leave it out, or the penalty")

    def _learn_each(self, release: Release, oracle: WeakOracle | None) -> Model:
        """One boosting a class, against the others; `rounds_` and `n_used_` have those of each of `classes_`."""
        fits = [self._boost(release, rows, oracle) for rows in rados_one_vs_rest(release)]
        sorted_places = np.argsort(np.array(release.classes))
        self.rounds_ = [fits[place][0].rounds for place in sorted_places]
        self.n_used_ = [fits[place][0].n_used for place in sorted_places]
        each_class = [name for name in _OF_EACH_CLASS if name in fits[0][1]]
        learner: dict[str, Any] = {name: [did[name] for _, did in fits] for name in each_class}
        theta, lines = comparable_weights(release, np.stack([boosted.theta for boosted, _ in fits]))
        form = {"name": "boost", "form": "one against the others"}
        scaled = {"slopes": lines[:, 0].tolist(), "offsets": lines[:, 1].tolist()}
        return self._model(release, theta, {**form, **fits[0][1], **learner, **scaled})


class MomentsClassifier(_RadoShell):
    """A classifier from the mean and the covariance of rados, or from released moments; linear in their columns.

    It is least squares, with as much shrinkage as rados held out ask for, and a ridge; scores are log odds. For many
    examples the rados' first two moments are nearly all that they tell. This is the default of `rado learn`, and on
    most tables it is the more accurate of the two learners. Of more than two classes it is a linear discriminant,
    refined by how each class scatters.

    Parameters
    ----------
    n_rados, mechanism, signatures, columns
        How `fit` crafts its release, as in `craft`. `fit_rados` does not use them. A mechanism may be given by name,
        and in a grid its fields are called mechanism__epsilon, mechanism__delta and so on.
    schema : Schema, its JSON data, or the file of one, optional
        What is declared, as in `craft`. If it says what raw columns mean, `fit` and `predict` take raw tables, with
        text, dates and gaps; else numbers alone, as scikit-learn checks them.
    ledger : Ledger, or the path of one, optional
        Where every private `fit` is booked, also in cross-validation and grids, in any number of processes. Booking
        covers the fits alone: a winner that was picked by exact scores on held-out rows has no finite epsilon. And the
        total is true only for folds and splits that follow from each row alone, as those of `folds` do. A private fit
        on no ledger warns, once in a process, if it is not the only one.
    classes : (negative, positive), or all of more than two, optional
        The labels. By default they are those of y, in order; private mechanisms need them declared.
    random_state : None, int or RandomState
        None takes signatures from the operating system; anything else makes them reproducible, and the statement
        of `release_` says so. `Moments` has no signatures: there it fixes rados that were asked for, and nothing
        else.
    prior : float or mapping, optional
        The share of the positive class, or of each class, where predictions are to be made, if it is another than in
        the table: log odds move by what that makes of them, as in `Model.with_prior`.

    Attributes
    ----------
    coef_, intercept_ : arrays
        In the units of X; with a feature map, one for each of `model_.column_names`. Of more than two classes each has
        a row.
    model_ : Model
        What was learned, as data.
    release_ : Release
        What it was learned from; of several holders, `releases_` has the releases of all.
    shrinkage_ : float
        How far the covariance was shrunk: 0 is not at all, 1 is to the identity.
    standard_errors_ : array or None
        Of the model's theta. For rados of two classes: how far other examples and other rados of the same kind would
        move it, given the shrinkage and the scale of log odds. For releases of the mechanism `moments`: how far the
        declared noise moves it, given the whitening that was released. None for rados of more classes.
    coef_standard_errors_ : array or None
        The same for `coef_`, in the units of X.
    expected_error_ : float or None
        The share of new rows that will be classified wrongly, for rados of two classes: estimated without any example.
    r2_ : float or None
        The share of the labels' second moment that scores explain on the holder's own rows, for rados of two classes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = MomentsClassifier(random_state=0).fit(X, y)
    >>> bool(clf.score(X, y) > 0.95), clf.predict_proba(X[:2]).shape
    (True, (2, 2))
    """

    @property
    def coef_standard_errors_(self) -> NDArray[np.float64] | None:
        """The standard errors of `coef_`, in its shape; None where there are none of theta."""
        check_is_fitted(self)
        if self.standard_errors_ is None:
            return None
        pairs = zip(self.standard_errors_, self.model_.columns, strict=True)
        errors = [
            abs(error * column.constants[3] / column.constants[4])
            for error, column in pairs
            if column.scale != "constant"
        ]
        return np.array(errors).reshape(self.coef_.shape)

    def _learn_several(self, parts: Sequence[PartyRelease], one_holder: bool) -> Model:
        model = learn_averaged_model(parts, one_holder=one_holder)
        told = model.learner
        self._tell(0.0, np.array(told["standard_errors"]))
        if told["left_out"]:
            names = ", ".join(told["left_out"])
            warnings.warn(
                f"an empty table gives a release like {names}, or a fuller one, more often than not: left out of the "
                "average",
                NoiseWarning,
                stacklevel=4,
            )
        elif told["empty_chance"] > LITTLE:
            words = weak_release_text(told["empty_chance"], told["noise_share"])
            warnings.warn(f"of every one of the releases: {words}", NoiseWarning, stacklevel=4)
        return model

    def _learn(self, release: Release) -> Model:
        if release.law == EXACT_MOMENTS:
            exact = learn_exact_moments(release)
            self._tell(0.0, exact.standard_errors, exact.expected_error, exact.r2)
            return Model.from_release(release, exact.theta, exact.to_dict())
        if "moment:b" in release.blocks:
            fit = learn_released_moments(release)
            self._tell(0.0, fit.standard_errors)
            doubt = fit.uncertainty
            if doubt.empty_chance > LITTLE:
                warnings.warn(weak_release_text(doubt.empty_chance, doubt.noise_share), NoiseWarning, stacklevel=4)
            learner = {
                "name": "moments",
                "from": "released moments",
                "empty_chance": doubt.empty_chance,
                "noise_share": doubt.noise_share,
                "standard_errors": doubt.standard_errors.tolist(),
            }
            return Model.from_release(release, fit.theta, learner, fit.link, fit.effects)
        self._check_rados(release)
        if release.n_classes > 2:
            return self._learn_classes(release)
        rado_fit = learn_rados(release)
        self._tell(rado_fit.identity_weight, rado_fit.standard_errors, rado_fit.expected_error, rado_fit.r2)
        return Model.from_release(release, rado_fit.theta, rado_fit.to_dict())

    def _tell(
        self,
        shrinkage: float,
        standard_errors: NDArray[np.float64] | None = None,
        expected_error: float | None = None,
        r2: float | None = None,
    ) -> None:
        self.shrinkage_, self.standard_errors_ = shrinkage, standard_errors
        self.expected_error_, self.r2_ = expected_error, r2

    def _learn_classes(self, release: Release) -> Model:
        fit = learn_class_discriminant(release)
        self._tell(fit.shrinkage)
        if fit.absent:
            names = ", ".join(repr(release.classes[place]) for place in fit.absent)
            warnings.warn(
                f"no rado has an example of {names}, and no row will be predicted to be one; craft more rados, or "
                "leave classes out that the table does not have",
                NoiseWarning,
                stacklevel=5,
            )
        form = {"form": "first step"} if fit.sizes is None else {"form": "discriminant", "sizes": fit.sizes.tolist()}
        return Model.from_release(release, fit.theta, {"name": "moments", **form, "shrinkage": fit.shrinkage})


def _release_with_caller_classes(release: Release, classes: tuple[Any, ...]) -> Release:
    names = {class_block_name(old): class_block_name(new) for old, new in zip(release.classes, classes, strict=True)}
    many = len(classes) > 2
    blocks = {names.get(name, name) if many else name: rows for name, rows in release.blocks.items()}
    return replace(release, classes=classes, blocks=blocks)


def _check_sample_weights(y: NDArray[Any], sample_weight: Any) -> None:
    """Refuse weights that leave rows of one class alone."""
    weights = None if sample_weight is None else np.asarray(sample_weight)
    if weights is None or weights.shape != y.shape or weights.dtype.kind not in "biuf":
        return  # whoever reads them says what is wrong with them
    if (weights > 0).any() and len(np.unique(y[weights > 0])) < 2:
        raise ArgumentError("the rows that have a weight are of one class only; there must be at least two")


def _seed_of_random_state(random_state: Any) -> int | None:
    """The seed of the signatures; None leaves them to the operating system."""
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
