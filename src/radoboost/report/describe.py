"""A release, a model, an account or an audit in words, for people."""

import math
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from radoboost.learner.explain import explain_model
from radoboost.learner.model import Model
from radoboost.learner.rado_moments import BY_ROWS
from radoboost.learner.uncertainty import little_text
from radoboost.learner.vertical_join import SENTENCES
from radoboost.privacy import delta_advice
from radoboost.release.class_summary import class_facts, facts_text
from radoboost.release.columns import shared_names
from radoboost.release.feature_map import FeatureMap
from radoboost.release.parties import AVERAGED, JOINED, ONE_TABLE
from radoboost.release.release import Release, Statement, percent_up, rounded_up
from radoboost.release.statement_text import (
    epsilon_text,
    figures_text,
    held_text,
    plan_text,
    stages_text,
    statement_text,
)
from radoboost.report.coefficients import INTERVAL, expected_rows
from radoboost.report.effects_report import effect_lines

if TYPE_CHECKING:
    from radoboost.learner.evaluation import Reliability

_WIDTH = 80
_SHOWN_COLUMNS = 12
_SHOWN_CLASSES = 5
_NOT_FOR_PEOPLE = (
    "noise",
    "noise_std",
    "noise_on",
    "rounds",
    "plan",
    "grid",
    "constant",
    "eta",
    "score_unit",
)
_SAID_APART = (
    "standard_errors",
    "empty_chance",
    "noise_share",
    "effects",
    "parts",
    "on",
    "used_features",
    "left_out",
    "expected_error",
    "remarks",
    *SENTENCES,
)
_WORDS = {
    "n_rados": "rados",
    "r2": "R2",
    "freedom": "free weights",
    "identity_weight": "weight of the identity",
    "held_out_ratio": "mean over deviation on rados held out",
}


def describe(release: Release) -> str:
    """What a release is, what it promises and what it does not, as text for a terminal."""
    lines = [
        f"{held_text(release.n_rados)} of {len(release.columns):,} features, from {_examples(release.n_examples)}",
        *_classes(release),
        *_mapped(release.map),
        *_shared_column_lines(release),
        *_made_by(release.mechanism, release.signatures if release.n_rados else None, release.map),
        "",
        *_stated(release.statement, release.n_examples),
        "",
        *_inputs(release),
        f"{'column':<22}{'scale':<9}{'mean':>11}{'std':>11}{'low':>10}{'high':>10}{'step':>7}",
    ]
    for column in release.columns[:_SHOWN_COLUMNS]:
        numbers = "".join(
            f"{'' if value is None else format(value, '.4g'):>{width}}"
            for value, width in ((column.mean, 11), (column.std, 11), (column.low, 10), (column.high, 10))
        )
        step = f"2**{math.frexp(column.step)[1] - 1}"
        lines.append(f"{_shorten(column.name, 21):<22}{column.scale:<9}{numbers}{step:>7}")
    return "\n".join(lines + _more(len(release.columns)))


def describe_model(model: Model) -> str:
    """What a model is, what it weighs most, and what is known of the release behind it, as text for a terminal."""
    names = model.column_names
    count = f"{len(names):,} column{'' if len(names) == 1 else 's'}"
    what = f"a linear classifier over {count}"
    if model.map is not None:
        what = f"a classifier, linear in {count} made of {len(model.map.input_names):,}"
    lines = [
        *_speaks(what, model),
        *_learned(model),
        *_mapped(model.map),
    ]
    lines += [*_used(model), *_vertical_join_text(model.learner)]
    if "empty_chance" in model.learner:
        lines += _field("doubt", little_text(model.learner["empty_chance"], model.learner["noise_share"]))
    if model.release is None or model.statement is None:
        lines += ["learned from the examples themselves: nothing is promised about them"]
    else:
        lines += [
            *_field("from", f"{held_text(model.release['n_rados'])} of {_people(model)}"),
            *_made_by(
                model.release["mechanism"], model.release["signatures"] if model.release["n_rados"] else None, model.map
            ),
            "",
            _behind(model.statement),
            "",
            *_stated(model.statement, model.release.get("n_examples")),
        ]
    return "\n".join([*lines, "", *effect_lines(explain_model(model)), "", *_weights(model)])


def measured_lines(found: "Reliability | None") -> list[str]:
    """What was measured on rows of known classes, as lines for a terminal; none if nothing was."""
    if found is None:
        return []
    return [
        *_field("measured", f"{found.n_wrong:,} of {found.n_rows:,} rows wrong, {found.as_text()}"),
        *_field("log-loss", f"{found.log_loss:.4f}; the shares of the classes alone have {found.base_loss:.4f}"),
    ]


def _learned(model: Model) -> list[str]:
    """The learner with what it chose, the error that it expects, and its remarks."""
    told = {key: value for key, value in model.learner.items() if key not in _SAID_APART and value not in ([], None)}
    if "strength_by" in told and "strength" in told:
        told["strength"] = f"{_value(told['strength'])} by rados {told.pop('strength_by').replace('-', ' ')}"
    lines = _field(
        "learner", _entry_name({_WORDS.get(key, key.replace("_", " ")): value for key, value in told.items()})
    )
    if "expected_error" in model.learner:
        lines += _field("expect", f"{expected_rows(model, None)[0][1]}")
    for remark in model.learner.get("remarks", ()):
        lines += _field("beware", str(remark))
    return lines


def _speaks(what: str, model: Model) -> list[str]:
    """What a model is, and what its scores mean."""
    if model.n_classes == 2:
        negative, positive = model.classes
        return [f"{what}: positive scores mean {positive!r}, the others {negative!r}"]
    return [
        f"{what}: of {model.n_classes} classes the one with the largest score",
        *_field("classes", ", ".join(map(repr, model.classes))),
    ]


def _used(model: Model) -> list[str]:
    """The columns that have a weight, the most important first, and how many have none, where the learner says so."""
    if "used_features" not in model.learner:
        return []
    used, left_out = model.learner["used_features"], model.learner["left_out"]
    names = ", ".join(_shorten(name) for name in used[:_SHOWN_COLUMNS]) + (
        ", ..." if len(used) > _SHOWN_COLUMNS else ""
    )
    said = f"{len(used):,} of {len(used) + left_out:,} columns, the most important first: {names}" if used else "none"
    return _field("uses", f"{said}; {left_out:,} left out" if left_out else said)


def _weights(model: Model) -> list[str]:
    """The largest weights, and the intercept."""
    names, units = model.column_names, "the table"
    if model.map is not None:
        units = "the columns that the feature map makes"
    if model.n_classes > 2:
        return [*_class_weights(model), f"theta weighs scaled columns; --json has all, {len(names):,} for each class"]
    thetas = [theta for theta, column in zip(model.theta, model.columns, strict=True) if column.scale != "constant"]
    by_weight = sorted(range(len(names)), key=lambda k: -abs(thetas[k]))
    errors = model.learner.get("standard_errors")
    margins = [""] * len(names)
    if errors is not None:
        own = [error for error, column in zip(errors, model.columns, strict=True) if column.scale != "constant"]
        margins = [f" ± {INTERVAL * error:<9.3g}" for error in own]
    gap = " " * max(len(text) for text in margins)
    lines = [f"{'column, by weight':<32}{'theta':>14}{gap}{'coefficient':>16}"]
    lines += [
        f"{_shorten(names[k]):<32}{thetas[k]:>14.5g}{margins[k]}{model.coef[k]:>16.5g}"
        for k in by_weight[:_SHOWN_COLUMNS]
    ]
    lines += [*_more(len(names)), f"{'intercept':<46}{gap}{model.intercept:>16.5g}"]
    lines += [f"theta weighs scaled columns; coefficients and intercept are in the units of {units}"]
    if errors is not None and model.learner.get("from") in BY_ROWS:
        lines += ["± is two standard errors for other rows and rados, not counting shrinkage and scale;"]
        lines += ["true effects are often outside of it"]
    elif errors is not None:
        lines += ["± is two standard errors, by the declared noise, given the whitening that was released"]
    return lines


def _class_weights(model: Model) -> list[str]:
    """The weights of the columns that tell classes apart most, for the classes that have the largest."""
    places = [k for k, column in enumerate(model.columns) if column.scale != "constant"]
    centred = model.theta - model.theta.mean(axis=0)
    sizes = np.abs(centred[:, places])
    shown = sorted(np.argsort(-np.square(sizes).sum(axis=1), kind="stable")[:_SHOWN_CLASSES].tolist())
    order = np.argsort(-np.square(sizes).sum(axis=0), kind="stable")[:_SHOWN_COLUMNS].tolist()
    rest = f", for {len(shown)} of {model.n_classes} classes" if len(shown) < model.n_classes else ""
    heads = "".join(f"{_shorten(str(model.classes[place]), 10):>11}" for place in shown)
    lines = [f"theta, less the mean over classes, by weight{rest}", f"{'column':<24}{heads}"]
    constant = [k for k, column in enumerate(model.columns) if column.scale == "constant"]
    lines += [
        f"{_shorten(model.columns[k].name, 23):<24}" + "".join(f"{centred[place, k]:>11.4g}" for place in shown)
        for k in [*(places[k] for k in order), *constant]
    ]
    return [*lines, *_more(len(places))]


def _classes(release: Release) -> list[str]:
    """The classes; of more than two, what the release tells of each."""
    if release.n_classes == 2 and release.classes == (-1, 1):
        return _field("classes", "-1 and 1")
    if release.n_classes == 2:
        return _field("classes", f"{release.classes[0]!r} is -1, {release.classes[1]!r} is +1")
    told = class_facts(release)
    rough = any(facts.between is not None for facts in told)
    width = 34 if rough else 16
    lines = [f"{'class':<24}{'rows':>{width}}  farthest from the mean of all rows, in scaled columns"]
    for facts in told:
        rows, columns = facts_text(facts)
        lines.append(f"{_shorten(repr(facts.value), 23):<24}{rows:>{width}}  {columns}".rstrip())
    doubt = "; rows are estimates, with the least and the most that fit what was released" if rough else ""
    return [*_field("classes", f"{release.n_classes}, of which this is told{doubt}:"), *lines]


def describe_account(answer: Mapping[str, Any]) -> str:
    """The answer of `rado account`, as text for a terminal."""
    delta = rounded_up(answer["delta"], 6)
    lines = [
        *_field("mechanism", answer["mechanism"]),
        *_field("neighbours", answer["neighbours"]),
        *_field("epsilon", f"{epsilon_text(answer['epsilon'])} at delta {delta}"),
    ]
    lines += _field("plan", answer["plan"]["sentence"]) if "plan" in answer else []
    if isinstance(answer.get("noise"), Mapping):
        lines += _field("noise", stages_text(answer["noise"], answer.get("plan", {}).get("rounds", 0)))
    elif "noise" in answer:
        lines += _field("noise", f"{rounded_up(answer['noise'], 6)} times the clipping norm")
    if "n_rados" in answer:
        lines += _field("rados", f"{answer['n_rados']:,}")
    lines += [*_expectation(answer), *_band(answer)]
    others = ", ".join(f"{epsilon_text(pair['epsilon'])} at {pair['delta']:g}" for pair in answer["epsilon_at"])
    lines += _field("also", f"epsilon {others}")
    for sentence in figures_text(answer["figures"], answer["neighbours"]):
        lines += _field("", sentence)
    lines += [
        *_field("best guess", f"{percent_up(answer['best_guess'])} % right at most, from even odds"),
        *_field("accountant", answer["accountant"]),
        *(_field("advice", answer["advice"]) if "advice" in answer else []),
        *(_field("whose rows", answer["whose_rows"]) if "whose_rows" in answer else []),
    ]
    return "\n".join(lines)


def _expectation(answer: Mapping[str, Any]) -> list[str]:
    """What error to expect of so many rows and columns, where that was asked."""
    if "expected" not in answer:
        return []
    expectation = answer["expected"]
    verdict = "carries this epsilon" if expectation["carries"] else "cannot carry this epsilon"
    size = f"{expectation['rows']:,} rows and {expectation['columns']:,} columns"
    classes = f", {expectation['n_classes']} classes" if "n_classes" in expectation else ""
    lines = _field("table", f"{size}{classes}, as declared")
    for pair in expectation["errors"]:
        lines += _field(
            "expect",
            f"{100 * pair['expected']:.1f} % of errors where the same rows without noise give "
            f"{100 * pair['without_noise']:g} %",
        )
    lines += _field(
        "expect",
        f"{100 * expectation['unrelated']:.1f} % in place of that for {100 * expectation['typical']:g} %, if columns "
        "have nothing to do with each other",
    )
    others = ", ".join(
        f"{other['word']} ({other['n_columns']:,}) {100 * other['expected']:.1f} %" for other in expectation["by_word"]
    )
    lines += _field(
        "by columns",
        f"{others}, where the same columns without noise give {100 * expectation['typical']:g} %; by how much more "
        "columns lower that, the table alone knows",
    )
    return lines + _field("verdict", "; ".join(filter(None, [f"such a table {verdict}", expectation["enough"]])))


def _band(answer: Mapping[str, Any]) -> list[str]:
    if "band" not in answer:
        return []
    (low, high), one, plain = answer["band"], answer["one_rado"], answer["plain_one_rado"]
    least = answer["least_epsilon"]
    return [
        *_field("band", f"{low:,} to {high:,} of {answer['n_examples']:,}"),
        *_field(
            "one rado",
            f"delta {rounded_up(one['delta'], 6)} at epsilon {one['epsilon']:g}; without a band "
            f"{rounded_up(plain['delta'], 3)}",
        ),
        *_field("no band", f"epsilon {epsilon_text(answer['plain_epsilon'])} at the same delta"),
        *_field("least", f"{'no epsilon' if least is None else f'epsilon {rounded_up(least, 6)}'} gives a claim here"),
    ]


def describe_chain(answer: Mapping[str, Any]) -> str:
    """What releases amount to together, as text for a terminal."""
    others = ", ".join(f"{epsilon_text(pair['epsilon'])} at {pair['delta']:g}" for pair in answer["epsilon_at"])
    return "\n".join(
        [
            f"releases     {len(answer['releases']):,}, each counted once",
            *(f"             {entry['id']}, for {entry['neighbours']}" for entry in answer["releases"]),
            f"neighbours   {answer['neighbours']}",
            f"together     epsilon {epsilon_text(answer['epsilon'])} at delta {rounded_up(answer['delta'], 6)}"
            + (f" ({answer['why']})" if "why" in answer else ""),
            f"also         epsilon {others}",
            f"best guess   {math.ceil(1000 * answer['best_guess']) / 10} % right at most, from even odds",
            f"accountant   {answer['accountant']}",
            *textwrap.wrap(f"holds if     {answer['holds_if']}", _WIDTH, subsequent_indent=" " * 13),
        ]
    )


def _stated(statement: Statement, n_examples: int | None) -> list[str]:
    lines = []
    for heading, sentences in statement_text(statement).items():
        lines += [heading, *_bulleted(sentences), ""]
    advice = None if math.isinf(statement.epsilon) else delta_advice(statement.delta, n_examples)
    return [
        *lines,
        *_field("accountant", statement.accountant),
        *_field("trust", statement.trust_model),
        *_field("random bits", statement.random_source),
        *(_field("advice", advice) if advice else []),
    ]


def _mapped(feature_map: FeatureMap | None) -> list[str]:
    """How the columns are made of the table's, where a feature map makes them."""
    if feature_map is None:
        return []
    kinds = Counter(term.kind for term in feature_map.terms)
    made = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    logged = sum(entry.log for entry in feature_map.inputs)
    return _field(
        "feature map",
        f"{len(feature_map.terms):,} columns made of {len(feature_map.input_names):,}: {made}"
        + (f"; {logged:,} of the inputs logged" if logged else ""),
    )


def _vertical_join_text(learner: Mapping[str, Any]) -> list[str]:
    """Which columns are whose, and what a model over all of them assumes, needs and cannot know; nothing of others."""
    if "assumes" not in learner:
        return []
    on = f"{', '.join(learner['on'])} and the label" if learner["on"] else "the label alone"
    lines = _field("joined on", on)
    for part in learner["parts"]:
        own = f"{', '.join(part['columns'][:_SHOWN_COLUMNS])}{', ...' if len(part['columns']) > _SHOWN_COLUMNS else ''}"
        lines += _field("holder", f"{own}: {held_text(part['rados'])} of {_examples(part['rows'])}")
    for key in SENTENCES:
        lines += _field("", learner[key])
    return lines


def _behind(statement: Statement) -> str:
    """What stands above the statement of a model."""
    if statement.holders is not None and statement.holders.how in (AVERAGED, ONE_TABLE, JOINED):
        return "A model tells no more than the releases behind it. Of those releases, together:"
    return "A model tells no more than the release behind it. Of that release:"


def _people(model: Model) -> str:
    """Whose rows a model was learned from, in numbers."""
    assert model.release is not None
    parts = model.learner.get("parts")
    if parts is None:
        return _examples(model.release["n_examples"])
    rows = " and ".join(f"{part['rows']:,}" for part in parts)
    return f"{rows} examples, of the same people or of others"


def _shared_column_lines(release: Release) -> list[str]:
    """The columns that stand there for another holder, where there are any."""
    names = shared_names(release)
    if names is None:
        return []
    what = f"{', '.join(names)}, and the label" if names else "the label alone"
    return _field(
        "shared", f"{what}: sums without labels stand beside the rados, for rado join; learners leave them out"
    )


def _made_by(
    mechanism: Mapping[str, Any], signatures: Mapping[str, Any] | None, feature_map: FeatureMap | None
) -> list[str]:
    """How the release was made: the mechanism, its noise, and the signatures of rados, where there are any."""
    noise, made = _noise(mechanism), {key: value for key, value in mechanism.items() if key not in _NOT_FOR_PEOPLE}
    return [
        *_field("mechanism", _entry_name(made)),
        *(_field("columns", plan_text(mechanism["plan"])) if "plan" in mechanism else []),
        *(_field("noise", noise) if noise else []),
        *(_field("signatures", _entry_name(signatures)) if signatures is not None else []),
    ]


def _inputs(release: Release) -> list[str]:
    """The bounds of the columns that a feature map takes, where there is one: the columns it makes have others."""
    if release.map is None:
        return []
    slots = {} if release.schema is None else release.schema.groups
    found = release.mechanism.get("searched", ())
    declared = "of the table" if release.schema is not None and release.schema.from_data else "declared"
    names = release.map.input_names
    lines = [f"{'input of the map':<31}{'low':>10}{'high':>10}  bounds"]
    for name in names[:_SHOWN_COLUMNS]:
        entry = next(entry for entry in release.map.inputs if entry.name == name)
        ends, how = (entry.low, entry.high), "found privately" if name in found else declared
        if name in slots:
            ends, how = (0.0, 1.0), "0 or 1"
        elif None in ends:
            how = "none"
        numbers = "".join(f"{'' if value is None else format(value, '.4g'):>10}" for value in ends)
        lines.append(f"{_shorten(name):<31}{numbers}  {how}")
    return [*lines, *_more(len(names)), ""]


def _noise(mechanism: Mapping[str, Any]) -> str | None:
    """The noise that a release says it carries; of several stages, that of each, by name."""
    if isinstance(mechanism.get("noise"), Mapping):
        return stages_text(mechanism["noise"], mechanism.get("rounds", 0))
    if "noise_std" not in mechanism:
        return None
    on = {"rados": "every rado", "examples": "every row"}.get(mechanism.get("noise_on", ""), "what is summed")
    return f"{mechanism['noise_std']:.6g} on {on}, in units of scaled columns"


def _field(name: str, text: str) -> list[str]:
    """A name and what it is, over as many lines as that takes."""
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{name:<13}", subsequent_indent=" " * 13, break_long_words=False)


def _examples(count: int | None) -> str:
    return "an undisclosed number of examples" if count is None else f"{count:,} examples"


def _shorten(name: str, most: int = 30) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def _more(count: int) -> list[str]:
    return [f"... and {count - _SHOWN_COLUMNS} more; --json shows all"] if count > _SHOWN_COLUMNS else []


def _entry_name(entry: object) -> str:
    fields = dict(entry)  # type: ignore[call-overload]
    name = fields.pop("name")
    fields.pop("law", None)  # the name says it already
    return str(name) + "".join(f", {key} {_value(value)}" for key, value in fields.items())


def _value(value: object) -> str:
    """A mapping of numbers as "(key number, ...)", numbers for each of many classes in short, the rest as it is."""
    if isinstance(value, list) and len(value) > 2 and all(isinstance(part, int | float) for part in value):
        if len(set(value)) == 1:
            return f"{value[0]} for each class"
        return f"[{', '.join(f'{part:.4g}' for part in value[:4])}{', ...' if len(value) > 4 else ''}]"
    if isinstance(value, float):
        return f"{value:.4g}"
    return (
        f"({', '.join(f'{key} {part:.6g}' for key, part in value.items())})"
        if isinstance(value, Mapping)
        else str(value)
    )


def _bulleted(sentences: list[str]) -> list[str]:
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    ]
