"""One row under a model: how probable each class is, and what each column of the table adds to the score."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.learner.effects import Part, parts_of
from radoboost.learner.model import Model
from radoboost.learner.rows import Filled, filled_batches, open_rows, scores_of


@dataclass(frozen=True)
class Addend:
    """What one column of the table adds to a score, or several together; no names stand for the rest."""

    names: tuple[str, ...]
    effect: float


@dataclass(frozen=True, eq=False)
class ExplainedRow:
    """One row: `score` is `base` plus all `addends`, which are ordered by size.

    The score is the one for `prediction`'s side: of two classes that of the positive class, of more that of the class
    which is predicted, less the mean of all. `base` is the score of an average row as far as the release tells means,
    or else of a row whose every column is in the middle; `average` says which.
    """

    prediction: Any
    probabilities: tuple[float, ...]
    score: float
    base: float
    average: bool
    addends: tuple[Addend, ...]
    filled: Filled


def explain_row(model: Model, row: Any) -> ExplainedRow:
    """What a model says of one row of a raw table, in any form that `Model.predict_proba` takes."""
    source = open_rows(model, row)
    batches = list(filled_batches(model, source))
    if sum(len(values) for _, values, _ in batches) != 1:
        raise ArgumentError("explain_row takes a table of one row; give one")
    _, values, filled = next(batch for batch in batches if len(batch[1]))
    scores = scores_of(model, source, values)
    place = int(model.choices(scores)[0])
    theta, score = model.theta, float(scores[0]) if model.n_classes == 2 else 0.0
    if model.n_classes > 2:
        theta, score = theta[place] - theta.mean(axis=0), float(scores[0, place] - scores[0].mean())
    outputs = values if model.map is None else model.map.apply(values)
    features = [k for k, column in enumerate(model.columns) if column.scale != "constant"]
    scaled = np.array([model.columns[k].apply(outputs[:, place])[0] for place, k in enumerate(features)])
    means = np.zeros(len(features)) if model.effects is None else np.array(model.effects.means)
    known = model.effects is not None or all(model.columns[k].scale == "standard" for k in features)
    added = theta[features] * (scaled - means)
    addends: dict[tuple[str, ...], float] = {}
    owners = _owners(model)
    for part in parts_of(model.columns, model.map, model.schema):
        names = _raw_names(part, owners)
        addends[names] = addends.get(names, 0.0) + float(added[list(part.places)].sum())
    listed = sorted((Addend(names, effect) for names, effect in addends.items()), key=lambda item: -abs(item.effect))
    chances = tuple(model.probabilities(scores)[0].tolist())
    return ExplainedRow(
        model.classes[place], chances, score, score - float(added.sum()), known, tuple(listed), filled.settled()
    )


def _owners(model: Model) -> dict[str, str]:
    """The column of the raw table that an encoded column, or a group of them, is made of."""
    encoded = () if model.schema is None else model.schema.encoded()
    return {name: each.column for each in encoded for name in (each.group, each.name) if name}


def _raw_names(part: Part, owners: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(owners.get(name, name) for name in part.names))
