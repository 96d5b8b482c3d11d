"""What an exported model says about itself: where it comes from, and what was promised there."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from radoboost.learner.model import Model
from radoboost.release import rounded_up
from radoboost.release.words import epsilon_text


def summary(model: Model) -> dict[str, str]:
    """Short texts by name, each on one line; an epsilon comes with its neighbour relation."""
    return {
        "producer": f"radoboost {version('radoboost')}",
        "learner": one_line(model.learner["name"]),
        "classes": _listed(model.classes),
        "features": _listed(model.feature_names),
        "mechanism": "none: learned from examples" if model.statement is None else model.statement.mechanism,
        "privacy": _privacy(model),
    }


def one_line(words: Any) -> str:
    """A text of any kind for a comment: without line breaks and other characters that are not printed."""
    return "".join(c if c.isprintable() else " " for c in str(words))


def _listed(values: Sequence[Any]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


def _privacy(model: Model) -> str:
    statement = model.statement
    if statement is None:
        return "no privacy guarantee: the model was learned from examples, without a release"
    figures = (
        f"epsilon {epsilon_text(statement.epsilon)}, delta {rounded_up(statement.delta, 6)}, for "
        f"{one_line(statement.neighbours)} as neighbours"
    )
    return figures if statement.promises else f"no privacy guarantee; {figures}"
