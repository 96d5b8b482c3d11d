"""The classifier as data: one weight a column, what the columns mean, and which release it came from.

    score = sum of theta_k value_k over the columns k          P(positive) = 1 / (1 + exp(-log odds))

The log odds are the score itself, or what the model's link makes of it. Of more than two classes each has weights and
a score of its own: the largest score says which class a row is of, and probabilities are as exp(score) to each other.

The file is JSON for people: every column stands on a line of its own. A score is summed column by column, so it
depends on its row alone, however rows are batched.
"""

import json
import math
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from radoboost.errors import FilledWarning, ModelError, RadoError, TableError, reason, stack_level_of_caller
from radoboost.learner.effects import EffectCurves, Effects, score_terms
from radoboost.learner.probabilities import Prior, ProbabilityLink, class_shares_of_prior
from radoboost.learner.row_reader import score_rows
from radoboost.release.columns import Column, columns_from_json
from radoboost.release.feature_map import FeatureMap
from radoboost.release.release import (
    Release,
    Statement,
    atomic_write,
    check_feature_map_columns,
    read_feature_map,
    read_release_schema,
    read_statement,
)
from radoboost.tables.class_values import classes_are_of_one_kind
from radoboost.tables.column_types import Date, Kind, Number
from radoboost.tables.schema import SCHEMA_KEY, Schema

VERSION = 1
_KEY = "radoboost_model"
_KEY_FILES = ("radoboost_share_key", "radoboost_paillier_public", "radoboost_paillier_private")
_SIGNS = ("negative", "positive")
_DENSE_ROWS, _DENSE_VALUES = 8192, 1 << 22  # of a sparse matrix, made dense at a time
_MAPPED_VALUES = 1 << 20  # in memory at a time


@dataclass(frozen=True, eq=False)
class Model:
    """A linear classifier over the columns of a release.

    `theta` has one weight for each column; of more than two `classes`, each has a row of them.
    `learner` says how theta was learned; `release` says what it was learned from, with the `statement` about that.
    Both are None for a classifier that was learned from examples. A `schema` says how rows of a raw table become
    numbers, and a `map` how the columns are made of those. A `link` says how probable the positive class is at a score,
    and `effects` keep what `explain` needs to know of the release.

    >>> import radoboost as rb
    >>> age = rb.Column("age", "standard", step=2.0**-20, mean=40.0, std=8.0)
    >>> model = Model(np.array([2.0]), (age,), ("no", "yes"), {"name": "by hand"})
    >>> model.scores([[44.0]]), model.coef, model.intercept
    (array([1.]), array([0.25]), -10.0)
    """

    theta: NDArray[np.float64]
    columns: tuple[Column, ...]
    classes: tuple[Any, ...]
    learner: Mapping[str, Any]
    release: Mapping[str, Any] | None = None
    statement: Statement | None = None
    schema: Schema | None = None
    map: FeatureMap | None = None
    link: ProbabilityLink | None = None
    effects: Effects | None = None

    def __post_init__(self) -> None:
        theta = np.array(self.theta, dtype=np.float64)
        theta.flags.writeable = False
        per_class = () if self.n_classes == 2 else (self.n_classes,)
        if theta.shape != (*per_class, len(self.columns)) or not np.isfinite(theta).all():
            raise ModelError(
                f"a model needs one finite weight a column, of more than two classes for each; it has "
                f"{len(self.columns)} columns and {self.n_classes} classes"
            )
        if not classes_are_of_one_kind(self.classes):
            raise ModelError(f"the classes must be values of one kind; they are {self.classes}")
        if per_class and self.link is not None:
            raise ModelError("the link of a model is for two classes")
        check_feature_map_columns(self.map, self.columns)
        object.__setattr__(self, "theta", theta)

    @classmethod
    def from_release(
        cls,
        release: Release,
        theta: NDArray[np.float64],
        learner: Mapping[str, Any],
        link: ProbabilityLink | None = None,
        effects: Effects | None = None,
    ) -> "Model":
        """A classifier learned from a release, with what the release says about itself."""
        document = release.to_dict()
        origin = {"n_rados": release.n_rados, **{k: document[k] for k in ("n_examples", "mechanism", "signatures")}}
        statement, schema = release.statement, release.schema
        return cls(
            theta, release.columns, release.classes, learner, origin, statement, schema, release.map, link, effects
        )

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that a table to predict must have."""
        return self.input_names if self.schema is None else self.schema.used

    @property
    def input_names(self) -> tuple[str, ...]:
        """The columns of `scores`, all of them numbers: those that the map takes, or else those of `column_names`."""
        return self.column_names if self.map is None else self.map.input_names

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of the release but the constant one: each has a coefficient."""
        return tuple(column.name for column in self.columns if column.scale != "constant")

    @property
    def coef(self) -> NDArray[np.float64]:
        """One coefficient for each of `column_names`, in their units; it holds within declared bounds.

        Without a map these are the units of the table, and with one those of the mapped columns. Of more than two
        classes each has a row of coefficients.
        """
        return np.stack(
            [self._line(k)[0] for k, column in enumerate(self.columns) if column.scale != "constant"], axis=-1
        )

    @property
    def intercept(self) -> Any:
        """The score where every column of `column_names` is 0: a float, or of more than two classes one for each."""
        lines = [np.atleast_1d(self._line(k)[1]).tolist() for k in range(len(self.columns))]
        totals = [math.fsum(values) for values in zip(*lines, strict=True)]
        return totals[0] if self.n_classes == 2 else np.array(totals)

    def _line(self, k: int) -> tuple[Any, Any]:
        """Slope and value at 0 of what column k adds to the score, or to the scores of classes."""
        theta = self.theta[..., k]
        if self.columns[k].scale == "constant":
            return 0.0 * theta, theta
        _, _, shift, factor, divisor, offset = self.columns[k].constants
        with np.errstate(all="ignore"):
            slope = theta * factor / divisor
            return slope, -slope * shift - theta * offset

    @property
    def neutral(self) -> NDArray[np.float64]:
        """What stands for a missing value of each of `input_names`: a mean, the middle of bounds, or 0."""
        columns = [column for column in self.columns if column.scale != "constant"]
        values = [column.neutral for column in columns] if self.map is None else self.map.neutral
        means = self._released_means
        return np.array([means.get(name, value) for name, value in zip(self.input_names, values, strict=True)])

    @cached_property
    def _released_means(self) -> Mapping[str, float]:
        curves = EffectCurves(self.columns, self.map, self.schema, self.effects)
        means = {name: curves.released_mean(name) for name in self.input_names}
        return {name: mean for name, mean in means.items() if mean is not None}

    @cached_property
    def reading_kinds(self) -> Mapping[str, Kind]:
        """The schema's columns as rows to predict are read: gaps without a column of their own have the released mean.

        Where the schema declares a fill, or the release tells no mean, they are filled as the holder did.
        """
        kinds = {} if self.schema is None else self.schema.columns
        means = self._released_means
        return {
            name: kind.with_fill(means[name]) if isinstance(kind, Number | Date) and name in means else kind
            for name, kind in kinds.items()
        }

    def decision_function(self, table: Any) -> NDArray[np.float64]:
        """The score of each row of a raw table: a data frame, a dict of columns, an array, or the path of a file.

        Of more than two classes each has a column of scores.
        The table has the columns of `feature_names`, by name, or in this order if it is an array; others are not read.
        Missing values are filled, and so are cells that cannot be read as what a schema says. A `FilledWarning` counts
        those that the schema does not foresee, and values that are new to a category.
        """
        return self._raw_scores(table)

    def predict(self, table: Any) -> NDArray[Any]:
        """The class of each row of a raw table, in any form that `decision_function` takes.

        >>> import radoboost as rb
        >>> schema = rb.Schema({"age": rb.Number(0, 100, gaps=True), "ward": rb.Category(("A", "B"))})
        >>> table = {"age": [30, 70, None, 80] * 9, "ward": ["A", "B", "A", "B"] * 9, "ill": ["no", "yes"] * 18}
        >>> model = rb.MomentsClassifier().fit_rados(rb.craft(table, label="ill", schema=schema)).model_
        >>> model.predict({"age": [None, 75], "ward": ["A", "B"]}).tolist()
        ['no', 'yes']
        """
        return np.array(self.classes)[self.choices(self._raw_scores(table))]

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """The probabilities of `classes` for each row of a raw table, in any form that `decision_function` takes."""
        return self.probabilities(self._raw_scores(table))

    def choices(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """The place in `classes` that each row's score, or scores, speak for; the first of equal ones."""
        return (scores > 0).astype(np.int64) if self.n_classes == 2 else scores.argmax(axis=1)

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probabilities of `classes` at each row's score, or scores; they add up to 1."""
        if self.n_classes > 2:
            return np.asarray(softmax(scores, axis=1))
        log_odds = self.log_odds(scores)
        return np.column_stack([expit(-log_odds), expit(log_odds)])

    def log_odds(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log odds of the positive class at each score: by the link, or else the scores themselves."""
        return scores if self.link is None else self.link.log_odds(scores)

    def with_prior(self, prior: Prior, old: Prior | Sequence[float]) -> "Model":
        """The model for a population with other shares of the classes than the table: log odds move, by Bayes' rule.

        `prior` is the share of the positive class, or a mapping of class to share, in which one class may be missing.
        `old` says the same of the table, as `class_shares(release)` does. Log odds grow by log(new odds / old odds):
        that is exact where only the shares differ, and as good as the model's log odds are.

        >>> import radoboost as rb
        >>> columns = rb.Column("x", "none", step=1.0), rb.Column("(constant)", "constant", step=1.0)
        >>> model = Model(np.array([2.0, 0.0]), columns, ("no", "yes"), {"name": "by hand"})
        >>> model.with_prior(0.2, old=0.5).predict_proba([[0.0]]).round(9)
        array([[0.8, 0.2]])
        """
        if self.columns[-1].scale != "constant":
            raise ModelError("the model has no constant column for a prior to shift; craft with intercept=True")
        new, before = class_shares_of_prior(prior, self.classes), class_shares_of_prior(old, self.classes, "old")
        theta, link, shifts = self.theta.copy(), self.link, np.log(new) - np.log(before)
        if self.n_classes > 2:
            theta[:, -1] += shifts
        elif link is None:
            theta[-1] += shifts[1] - shifts[0]
        else:
            link = link.with_shift(float(shifts[1] - shifts[0]))
            assert self.link is not None
            theta[-1] += link.origin - self.link.origin
        names = [str(value) for value in self.classes]
        priors = {
            "prior": dict(zip(names, new.tolist(), strict=True)),
            "shares": dict(zip(names, before.tolist(), strict=True)),
        }
        learner = {**self.learner, **priors}
        return replace(self, theta=theta, link=link, learner=learner)

    def _raw_scores(self, table: Any) -> NDArray[np.float64]:
        scores, filled = score_rows(self, table)
        if words := filled.unexpected(self).sentence():
            warnings.warn(words, FilledWarning, stacklevel=stack_level_of_caller())
        return scores

    def scores(self, values: Any) -> NDArray[np.float64]:
        """The score of each row of `values`, an array or sparse matrix with a column for each of `input_names`."""
        if hasattr(values, "toarray"):
            step = max(1, min(_DENSE_ROWS, _DENSE_VALUES // max(1, values.shape[1])))
            parts = [values[start : start + step] for start in range(0, values.shape[0], step)]
            return np.concatenate([self.no_scores, *(self.scores(part.toarray()) for part in parts)])
        total = self.scores_or_nan(values)
        if np.isnan(total).any():
            row = int(np.argmax(np.isnan(total).reshape(len(total), -1).any(axis=1)))
            raise TableError(f"row {row:,} has values too large for a score, or missing; check its units")
        return total

    def scores_or_nan(self, values: Any) -> NDArray[np.float64]:
        """The score of each row of an array, NaN where it has none: no row is a reason to refuse others.

        >>> import radoboost as rb
        >>> model = Model(np.array([2.0]), (rb.Column("age", "none", step=1.0),), ("no", "yes"), {"name": "by hand"})
        >>> model.scores_or_nan([[1.5], [float("nan")], [1.5e308]])
        array([ 3., nan, nan])
        """
        rows = np.asarray(values)
        if rows.ndim != 2 or rows.shape[1] != len(self.input_names):
            raise TableError(
                f"rows to score must have {len(self.input_names)} columns, those of input_names in order; "
                f"the shape is {rows.shape}"
            )
        if self.map is not None:
            step = max(1, _MAPPED_VALUES // len(self.columns))
            parts = [self._total(block.T) for block in self.map.blocks(rows, step)]
            return np.concatenate([self.no_scores, *parts])
        return self._total(rows)

    @property
    def no_scores(self) -> NDArray[np.float64]:
        """The scores of no rows."""
        return np.zeros(0 if self.n_classes == 2 else (0, self.n_classes))

    def _total(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """The scores of rows that have the columns of the release, NaN where there is none."""
        thetas = np.atleast_2d(self.theta)
        totals = np.zeros((len(thetas), len(rows)))
        k = 0
        with np.errstate(all="ignore"):
            for theta, column in zip(thetas.T, self.columns, strict=True):
                if column.scale == "constant":
                    totals += theta[:, None]
                    continue
                if theta.any():
                    totals += theta[:, None] * column.apply(rows[:, k].astype(np.float64))
                k += 1
        totals = np.where(np.isfinite(totals).all(axis=0), totals, np.nan)
        return totals[0] if self.n_classes == 2 else np.ascontiguousarray(totals.T)

    def to_dict(self) -> dict[str, Any]:
        """The model as the JSON data that its file holds."""
        return {
            _KEY: VERSION,
            "classes": list(self.classes) if self.n_classes > 2 else dict(zip(_SIGNS, self.classes, strict=True)),
            "learner": dict(self.learner),
            "release": None if self.release is None else dict(self.release),
            "statement": None if self.statement is None else self.statement.to_dict(),
            **({} if self.schema is None else {"schema": self.schema.to_dict()}),
            **({} if self.map is None else {"map": self.map.to_dict()}),
            **({} if self.link is None else {"link": self.link.to_dict()}),
            **({} if self.effects is None else {"effects": self.effects.to_dict()}),
            "columns": [
                {"name": column.name, "theta": theta, **column.to_dict()}
                for theta, column in zip(self.theta.T.tolist(), self.columns, strict=True)
            ],
        }

    def to_json(self) -> str:
        """The model as the text of its file."""
        document = self.to_dict()
        feature_map, columns = document.pop("map", None), _model_json_lines(document.pop("columns"), 4)
        effects = document.pop("effects", None)
        head = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
        if feature_map is not None:
            lists = [f'    "{key}": [\n{_model_json_lines(entries, 6)}\n    ]' for key, entries in feature_map.items()]
            head += ',\n  "map": {\n' + ",\n".join(lists) + "\n  }"
        if effects is not None:
            covariances = _model_json_lines(effects.pop("covariances"), 6)
            others = [f'    "{key}": {json.dumps(numbers)}' for key, numbers in effects.items()]
            head += (
                ',\n  "effects": {\n' + ",\n".join([f'    "covariances": [\n{covariances}\n    ]', *others]) + "\n  }"
            )
        return f'{head},\n  "columns": [\n{columns}\n  ]\n}}\n'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file, whole or not at all."""
        with atomic_write(Path(path)) as draft:
            draft.write_text(self.to_json(), encoding="utf-8")


def _model_json_lines(entries: list[Any], indent: int) -> str:
    return ",\n".join(" " * indent + json.dumps(entry, ensure_ascii=False) for entry in entries)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model, refusing a file that is not one or is of an unknown version.

    >>> import radoboost as rb, tempfile
    >>> place = Path(tempfile.mkdtemp()) / "small.model.json"
    >>> clf = rb.MomentsClassifier(n_rados=8, random_state=1).fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1])
    >>> clf.model_.save(place)
    >>> bool((rb.load_model(place).theta == clf.model_.theta).all())
    True
    """
    path = Path(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {reason(error)}") from None
    except (ValueError, RecursionError):
        raise ModelError(f"{path} is not a radoboost model: it is not JSON{_parquet_advice(path)}") from None
    if isinstance(document, dict) and SCHEMA_KEY in document:
        raise ModelError(f"{path} is a schema, and no model: give it to rado craft with --schema, then run rado learn")
    if isinstance(document, dict) and any(key in document for key in _KEY_FILES):
        raise ModelError(f"{path} is a key, and neither a model nor a release; show what was made with it")
    if not isinstance(document, dict) or _KEY not in document:
        raise ModelError(f"{path} is not a radoboost model: it is JSON of another kind; make one with rado learn")
    if document[_KEY] != VERSION:
        raise ModelError(f"{path}: unknown version: the model has {document[_KEY]!r}, not {VERSION}")
    try:
        return _parse_model(document)
    except RadoError as error:
        raise ModelError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise ModelError(f"{path} is not a radoboost model: it is incomplete; make it again with rado learn") from None


def _parquet_advice(path: Path) -> str:
    with path.open("rb") as file:
        release = file.read(4) == b"PAR1"
    if release:
        return f" but Parquet; if it is a release, make a model of it: rado learn {shlex.quote(str(path))}"
    return "; make one with rado learn"


def _parse_model(document: Mapping[str, Any]) -> Model:
    entries = [dict(entry) for entry in document["columns"]]
    weights = [entry.pop("theta") for entry in entries]
    classes = _read_model_classes(document["classes"])
    numbers = weights if len(classes) == 2 else [weight for row in weights for weight in row]
    if not all(type(weight) in (int, float) for weight in numbers):
        raise ModelError("every theta must be a number, or of more than two classes one for each")
    columns = columns_from_json(entries)
    if not {column.scale for column in columns} - {"constant"}:
        raise ModelError("there must be at least one column besides the constant one")
    if len({column.name for column in columns}) != len(columns):
        raise ModelError("the columns must have different names")
    feature_map = read_feature_map(document)
    schema = read_release_schema(document, columns, feature_map)
    release, statement = document["release"], document["statement"]
    if (release is None) != (statement is None):
        raise ModelError("a model has both a release and its statement, or neither")
    if release is not None:
        release = _check_model_origin(release)
    model = Model(
        np.array(weights, dtype=np.float64).T,
        columns,
        classes,
        {"name": str(document["learner"]["name"]), **document["learner"]},
        release,
        None if statement is None else read_statement(statement),
        schema,
        feature_map,
        ProbabilityLink.from_dict(document["link"]) if "link" in document else None,
        None if "effects" not in document else _read_model_effects(document, columns, feature_map, schema),
    )
    if not (np.isfinite(model.coef).all() and all(np.isfinite(model._line(k)[1]).all() for k in range(len(columns)))):
        raise ModelError("some coefficients are too large for float64")
    return model


def _read_model_classes(entry: Any) -> tuple[Any, ...]:
    """The classes of a model: negative and positive, or a list of more."""
    classes = tuple(entry[sign] for sign in _SIGNS) if isinstance(entry, Mapping) else tuple(entry)
    if {type(value) for value in classes} not in ({bool}, {str}, {int}, {float}, {int, float}):
        raise ModelError(f"the classes must be values of one kind; they are {classes}")
    if len(set(classes)) < len(classes) or any(value != value or value in (math.inf, -math.inf) for value in classes):
        raise ModelError(f"the classes must be different values; they are {classes}")
    if len(classes) < (2 if isinstance(entry, Mapping) else 3):
        raise ModelError("a model has two classes, a negative and a positive one, or a list of more")
    return classes


def _read_model_effects(
    document: Mapping[str, Any], columns: Sequence[Column], feature_map: FeatureMap | None, schema: Schema | None
) -> Effects:
    parts = score_terms(columns, feature_map, schema)
    return Effects.from_dict(document["effects"], parts, sum(column.scale != "constant" for column in columns))


def _check_model_origin(release: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a model says about its release, refused if it is not in the right form."""
    count, examples = release["n_rados"], release["n_examples"]
    has_names = all(isinstance(release[key]["name"], str) for key in ("mechanism", "signatures"))
    if type(count) is not int or not (examples is None or type(examples) is int) or not has_names:
        raise ModelError("what the model says about its release cannot be understood")
    return release
