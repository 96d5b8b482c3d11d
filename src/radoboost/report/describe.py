"""A release, a model, an account or an audit in words, for people."""

import math
import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from radoboost.learner.explain import explain_model
from radoboost.learner.model import Model
from radoboost.learner.rado_moments import BY_ROWS
from radoboost.learner.uncertainty import weak_release_text
from radoboost.learner.vertical_join import SENTENCES
from radoboost.privacy import Relation, delta_advice
from radoboost.privacy.events import OF_LABELS
from radoboost.release.class_summary import class_facts_text, facts_of_classes
from radoboost.release.columns import shared_column_names
from radoboost.release.feature_map import FeatureMap
from radoboost.release.parties import AVERAGED, JOINED, ONE_TABLE
from radoboost.release.release import Release, Statement, percent_up_text, rounded_up_text
from radoboost.release.statement_text import (
    epsilon_text,
    plan_text,
    release_content_text,
    several_releases_text,
    stage_noise_text,
    statement_figures_text,
    statement_text,
    verdict_of,
)
from radoboost.report.coefficients import INTERVAL, expected_error_rows
from radoboost.report.effects_report import effect_lines

if TYPE_CHECKING:
    from radoboost.learner.evaluation import Reliability

_WIDTH = 80
_SHOWN_COLUMNS = 12
_SHOWN_CLASSES = 5
_SHOWN_EFFECTS = 5
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
_ROWS = {"good": "usable", "spoiled": "unusable", "unforeseen": "with a value that the schema does not allow"}
_WORDS = {
    "n_rados": "rados",
    "r2": "R2",
    "freedom": "free weights",
    "identity_weight": "weight of the identity",
    "held_out_ratio": "mean over deviation on rados held out",
}


def describe_release(release: Release) -> str:
    """What a release is, what it promises and what it does not, as text for a terminal."""
    lines = [
        _content_of_release(release),
        *_describe_classes(release),
        *_describe_feature_map(release.map),
        *_describe_shared_columns(release),
        *_describe_how_made(release.mechanism, release.signatures if release.n_rados else None, release.map),
        "",
        *_describe_statement(release.statement, release.n_examples),
        "",
        *_describe_map_inputs(release),
        f"{'column':<22}{'scale':<9}{'mean':>11}{'std':>11}{'low':>10}{'high':>10}{'step':>7}",
    ]
    for column in release.columns[:_SHOWN_COLUMNS]:
        numbers = "".join(
            f"{'' if value is None else format(value, '.4g'):>{width}}"
            for value, width in ((column.mean, 11), (column.std, 11), (column.low, 10), (column.high, 10))
        )
        step = f"2**{math.frexp(column.step)[1] - 1}"
        lines.append(f"{_shorten_name(column.name, 21):<22}{column.scale:<9}{numbers}{step:>7}")
    return "\n".join(lines + _more_columns_line(len(release.columns)))


def summarize_release(release: Release, place: str) -> str:
    """What a release is, its promise in a sentence, and what to do next with the file at `place`."""
    two = release.n_classes == 2
    return "\n".join(
        [
            _content_of_release(release),
            *(
                _describe_classes(release)
                if two
                else _described_field("classes", ", ".join(map(repr, release.classes)))
            ),
            *_describe_feature_map(release.map),
            *_describe_shared_columns(release),
            *_describe_promise(release.statement, release.n_examples),
            *_described_field("statement", shlex.join(["rado", "show", place])),
            *_described_field("next", shlex.join(["rado", "learn", place])),
        ]
    )


def _content_of_release(release: Release) -> str:
    return (
        f"{release_content_text(release.n_rados)} of {len(release.columns):,} features, from "
        f"{_described_examples(release.n_examples)}"
    )


def _describe_promise(statement: Statement, n_examples: int | None) -> list[str]:
    """What a statement promises, in one sentence, with what speaks against it."""
    advice = None if math.isinf(statement.epsilon) else delta_advice(statement.delta, n_examples)
    wholly = math.isfinite(statement.epsilon) and statement.neighbours not in (*OF_LABELS, Relation.VALUE)
    return [
        *_described_field("promise", f"{verdict_of(statement).headline}."),
        *(_described_field("together", several_releases_text(statement)[0]) if statement.composed is not None else []),
        *([] if wholly else _described_field("beware", statement.not_protected[0])),
        *(_described_field("advice", advice) if advice else []),
    ]


def describe_model(model: Model) -> str:
    """What a model is, what it weighs most, and what is known of the release behind it, as text for a terminal."""
    lines = [*_head_of_model(model), *_describe_vertical_join(model.learner)]
    lines += ["", *effect_lines(explain_model(model)), "", *_describe_weights(model), ""]
    if model.release is None or model.statement is None:
        return "\n".join([*lines, _FROM_EXAMPLES])
    lines += [
        *_described_field("from", f"{release_content_text(model.release['n_rados'])} of {_describe_people(model)}"),
        *_describe_how_made(
            model.release["mechanism"], model.release["signatures"] if model.release["n_rados"] else None, model.map
        ),
        "",
        _heading_of_release_behind_model(model.statement),
        "",
        *_describe_statement(model.statement, model.release.get("n_examples")),
    ]
    return "\n".join(lines)


def summarize_model(model: Model, place: str) -> str:
    """What a model is and does, the promise of the release behind it, and what to do next with the file at `place`."""
    lines = [*_head_of_model(model), "", *effect_lines(explain_model(model), _SHOWN_EFFECTS), ""]
    if model.release is None or model.statement is None:
        lines += [_FROM_EXAMPLES]
    else:
        lines += _describe_promise(model.statement, model.release.get("n_examples"))
    lines += _described_field("statement", shlex.join(["rado", "show", place]))
    return "\n".join([*lines, *_described_field("next", shlex.join(["rado", "predict", place, "TABLE"]))])


_FROM_EXAMPLES = "learned from the examples themselves: nothing is promised about them"


def _head_of_model(model: Model) -> list[str]:
    """What a model is, how it was learned, and which error it expects."""
    names = model.column_names
    count = f"{len(names):,} column{'' if len(names) == 1 else 's'}"
    what = f"a linear classifier over {count}"
    if model.map is not None:
        what = f"a classifier, linear in {count} made of {len(model.map.input_names):,}"
    lines = [
        *_describe_what_scores_mean(what, model),
        *_describe_learner(model),
        *_describe_feature_map(model.map),
        *_describe_used_columns(model),
    ]
    if "empty_chance" in model.learner:
        lines += _described_field(
            "doubt", weak_release_text(model.learner["empty_chance"], model.learner["noise_share"])
        )
    return lines


def describe_measured_errors(found: "Reliability | None") -> list[str]:
    """What was measured on rows of known classes, as lines for a terminal; none if nothing was."""
    if found is None:
        return []
    return [
        *_described_field("measured", f"{found.n_wrong:,} of {found.n_rows:,} rows wrong, {found.as_text()}"),
        *_described_field(
            "log-loss", f"{found.log_loss:.4f}; the shares of the classes alone have {found.base_loss:.4f}"
        ),
    ]


def _describe_learner(model: Model) -> list[str]:
    """The learner with what it chose, the error that it expects, and its remarks."""
    told = {key: value for key, value in model.learner.items() if key not in _SAID_APART and value not in ([], None)}
    if "strength_by" in told and "strength" in told:
        told["strength"] = f"{_described_value(told['strength'])} by rados {told.pop('strength_by').replace('-', ' ')}"
    lines = _described_field(
        "learner", _described_entry_name({_WORDS.get(key, key.replace("_", " ")): value for key, value in told.items()})
    )
    if "expected_error" in model.learner:
        lines += _described_field("expect", f"{expected_error_rows(model, None)[0][1]}")
    for remark in model.learner.get("remarks", ()):
        lines += _described_field("beware", str(remark))
    return lines


def _describe_what_scores_mean(what: str, model: Model) -> list[str]:
    if model.n_classes == 2:
        negative, positive = model.classes
        return [f"{what}: positive scores mean {positive!r}, the others {negative!r}"]
    return [
        f"{what}: of {model.n_classes} classes the one with the largest score",
        *_described_field("classes", ", ".join(map(repr, model.classes))),
    ]


def _describe_used_columns(model: Model) -> list[str]:
    """The columns that have a weight, the most important first, and how many have none, where the learner says so."""
    if "used_features" not in model.learner:
        return []
    used, left_out = model.learner["used_features"], model.learner["left_out"]
    names = ", ".join(_shorten_name(name) for name in used[:_SHOWN_COLUMNS]) + (
        ", ..." if len(used) > _SHOWN_COLUMNS else ""
    )
    said = f"{len(used):,} of {len(used) + left_out:,} columns, the most important first: {names}" if used else "none"
    return _described_field("uses", f"{said}; {left_out:,} left out" if left_out else said)


def _describe_weights(model: Model) -> list[str]:
    names, units = model.column_names, "the table"
    if model.map is not None:
        units = "the columns that the feature map makes"
    if model.n_classes > 2:
        return [
            *_describe_class_weights(model),
            f"theta weighs scaled columns; --json has all, {len(names):,} for each class",
        ]
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
        f"{_shorten_name(names[k]):<32}{thetas[k]:>14.5g}{margins[k]}{model.coef[k]:>16.5g}"
        for k in by_weight[:_SHOWN_COLUMNS]
    ]
    lines += [*_more_columns_line(len(names)), f"{'intercept':<46}{gap}{model.intercept:>16.5g}"]
    lines += [f"theta weighs scaled columns; coefficients and intercept are in the units of {units}"]
    if errors is not None and model.learner.get("from") in BY_ROWS:
        lines += ["± is two standard errors for other rows and rados, not counting shrinkage and scale;"]
        lines += ["true effects are often outside of it"]
    elif errors is not None:
        lines += ["± is two standard errors, by the declared noise, given the whitening that was released"]
    return lines


def _describe_class_weights(model: Model) -> list[str]:
    """The weights of the columns that tell classes apart most, for the classes that have the largest."""
    places = [k for k, column in enumerate(model.columns) if column.scale != "constant"]
    centred = model.theta - model.theta.mean(axis=0)
    sizes = np.abs(centred[:, places])
    shown = sorted(np.argsort(-np.square(sizes).sum(axis=1), kind="stable")[:_SHOWN_CLASSES].tolist())
    order = np.argsort(-np.square(sizes).sum(axis=0), kind="stable")[:_SHOWN_COLUMNS].tolist()
    rest = f", for {len(shown)} of {model.n_classes} classes" if len(shown) < model.n_classes else ""
    heads = "".join(f"{_shorten_name(str(model.classes[place]), 10):>11}" for place in shown)
    lines = [f"theta, less the mean over classes, by weight{rest}", f"{'column':<24}{heads}"]
    constant = [k for k, column in enumerate(model.columns) if column.scale == "constant"]
    lines += [
        f"{_shorten_name(model.columns[k].name, 23):<24}" + "".join(f"{centred[place, k]:>11.4g}" for place in shown)
        for k in [*(places[k] for k in order), *constant]
    ]
    return [*lines, *_more_columns_line(len(places))]


def _describe_classes(release: Release) -> list[str]:
    """The classes; of more than two, what the release tells of each."""
    if release.n_classes == 2 and release.classes == (-1, 1):
        return _described_field("classes", "-1 and 1")
    if release.n_classes == 2:
        return _described_field("classes", f"{release.classes[0]!r} is -1, {release.classes[1]!r} is +1")
    told = facts_of_classes(release)
    rough = any(facts.between is not None for facts in told)
    width = 34 if rough else 16
    lines = [f"{'class':<24}{'rows':>{width}}  farthest from the mean of all rows, in scaled columns"]
    for facts in told:
        rows, columns = class_facts_text(facts)
        lines.append(f"{_shorten_name(repr(facts.value), 23):<24}{rows:>{width}}  {columns}".rstrip())
    doubt = "; rows are estimates, with the least and the most that fit what was released" if rough else ""
    return [*_described_field("classes", f"{release.n_classes}, of which this is told{doubt}:"), *lines]


def describe_account(answer: Mapping[str, Any]) -> str:
    """The answer of `rado account`, as text for a terminal."""
    delta = rounded_up_text(answer["delta"], 6)
    lines = [
        *_described_field("mechanism", answer["mechanism"]),
        *_described_field("neighbours", answer["neighbours"]),
        *_described_field("epsilon", f"{epsilon_text(answer['epsilon'])} at delta {delta}"),
    ]
    lines += _described_field("plan", answer["plan"]["sentence"]) if "plan" in answer else []
    if isinstance(answer.get("noise"), Mapping):
        lines += _described_field("noise", stage_noise_text(answer["noise"], answer.get("plan", {}).get("rounds", 0)))
    elif "noise" in answer:
        lines += _described_field("noise", f"{rounded_up_text(answer['noise'], 6)} times the clipping norm")
    if "n_rados" in answer:
        lines += _described_field("rados", f"{answer['n_rados']:,}")
    lines += [*_describe_expected_error(answer), *_describe_band(answer)]
    others = ", ".join(f"{epsilon_text(pair['epsilon'])} at {pair['delta']:g}" for pair in answer["epsilon_at"])
    lines += _described_field("also", f"epsilon {others}")
    for sentence in statement_figures_text(answer["figures"], answer["neighbours"]):
        lines += _described_field("", sentence)
    lines += [
        *_described_field("best guess", f"{percent_up_text(answer['best_guess'])} % right at most, from even odds"),
        *_described_field("accountant", answer["accountant"]),
        *(_described_field("advice", answer["advice"]) if "advice" in answer else []),
        *(_described_field("whose rows", answer["whose_rows"]) if "whose_rows" in answer else []),
    ]
    return "\n".join(lines)


def _describe_expected_error(answer: Mapping[str, Any]) -> list[str]:
    """What error to expect of so many rows and columns, where that was asked."""
    if "expected" not in answer:
        return []
    expectation = answer["expected"]
    verdict = "carries this epsilon" if expectation["carries"] else "cannot carry this epsilon"
    size = f"{expectation['rows']:,} rows and {expectation['columns']:,} columns"
    classes = f", {expectation['n_classes']} classes" if "n_classes" in expectation else ""
    lines = _described_field("table", f"{size}{classes}, as declared")
    for pair in expectation["errors"]:
        lines += _described_field(
            "expect",
            f"{100 * pair['expected']:.1f} % of errors where the same rows without noise give "
            f"{100 * pair['without_noise']:g} %",
        )
    lines += _described_field(
        "expect",
        f"{100 * expectation['unrelated']:.1f} % in place of that for {100 * expectation['typical']:g} %, if columns "
        "have nothing to do with each other",
    )
    others = ", ".join(
        f"{other['word']} ({other['n_columns']:,}) {100 * other['expected']:.1f} %" for other in expectation["by_word"]
    )
    lines += _described_field(
        "by columns",
        f"{others}, where the same columns without noise give {100 * expectation['typical']:g} %; by how much more "
        "columns lower that, the table alone knows",
    )
    return lines + _described_field(
        "verdict", "; ".join(filter(None, [f"such a table {verdict}", expectation["enough"]]))
    )


def _describe_band(answer: Mapping[str, Any]) -> list[str]:
    if "band" not in answer:
        return []
    (low, high), one, plain = answer["band"], answer["one_rado"], answer["plain_one_rado"]
    least = answer["least_epsilon"]
    return [
        *_described_field("band", f"{low:,} to {high:,} of {answer['n_examples']:,}"),
        *_described_field(
            "one rado",
            f"delta {rounded_up_text(one['delta'], 6)} at epsilon {one['epsilon']:g}; without a band "
            f"{rounded_up_text(plain['delta'], 3)}",
        ),
        *_described_field("no band", f"epsilon {epsilon_text(answer['plain_epsilon'])} at the same delta"),
        *_described_field(
            "least", f"{'no epsilon' if least is None else f'epsilon {rounded_up_text(least, 6)}'} gives a claim here"
        ),
    ]


def describe_chain(answer: Mapping[str, Any]) -> str:
    """What releases amount to together, as text for a terminal."""
    others = ", ".join(f"{epsilon_text(pair['epsilon'])} at {pair['delta']:g}" for pair in answer["epsilon_at"])
    return "\n".join(
        [
            f"releases     {len(answer['releases']):,}, each counted once",
            *(f"             {entry['id']}, for {entry['neighbours']}" for entry in answer["releases"]),
            f"neighbours   {answer['neighbours']}",
            f"together     epsilon {epsilon_text(answer['epsilon'])} at delta {rounded_up_text(answer['delta'], 6)}"
            + (f" ({answer['why']})" if "why" in answer else ""),
            f"also         epsilon {others}",
            f"best guess   {math.ceil(1000 * answer['best_guess']) / 10} % right at most, from even odds",
            f"accountant   {answer['accountant']}",
            *textwrap.wrap(f"holds if     {answer['holds_if']}", _WIDTH, subsequent_indent=" " * 13),
        ]
    )


def _describe_statement(statement: Statement, n_examples: int | None) -> list[str]:
    lines = []
    for heading, sentences in statement_text(statement).items():
        lines += [heading, *_bulleted_sentences(sentences), ""]
    advice = None if math.isinf(statement.epsilon) else delta_advice(statement.delta, n_examples)
    return [
        *lines,
        *_described_field("accountant", statement.accountant),
        *_described_field("trust", statement.trust_model),
        *_described_field("random bits", statement.random_source),
        *(_described_field("advice", advice) if advice else []),
    ]


def _describe_feature_map(feature_map: FeatureMap | None) -> list[str]:
    """How the columns are made of the table's, where a feature map makes them."""
    if feature_map is None:
        return []
    kinds = Counter(term.kind for term in feature_map.terms)
    made = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    logged = sum(entry.log for entry in feature_map.inputs)
    return _described_field(
        "feature map",
        f"{len(feature_map.terms):,} columns made of {len(feature_map.input_names):,}: {made}"
        + (f"; {logged:,} of the inputs logged" if logged else ""),
    )


def _describe_vertical_join(learner: Mapping[str, Any]) -> list[str]:
    """Which columns are whose, and what a model over all of them assumes, needs and cannot know; nothing of others."""
    if "assumes" not in learner:
        return []
    on = f"{', '.join(learner['on'])} and the label" if learner["on"] else "the label alone"
    lines = _described_field("joined on", on)
    for part in learner["parts"]:
        own = f"{', '.join(part['columns'][:_SHOWN_COLUMNS])}{', ...' if len(part['columns']) > _SHOWN_COLUMNS else ''}"
        lines += _described_field(
            "holder", f"{own}: {release_content_text(part['rados'])} of {_described_examples(part['rows'])}"
        )
    for key in SENTENCES:
        lines += _described_field("", learner[key])
    return lines


def _heading_of_release_behind_model(statement: Statement) -> str:
    if statement.holders is not None and statement.holders.how in (AVERAGED, ONE_TABLE, JOINED):
        return "A model tells no more than the releases behind it. Of those releases, together:"
    return "A model tells no more than the release behind it. Of that release:"


def _describe_people(model: Model) -> str:
    """Whose rows a model was learned from, in numbers."""
    assert model.release is not None
    parts = model.learner.get("parts")
    if parts is None:
        return _described_examples(model.release["n_examples"])
    rows = " and ".join(f"{part['rows']:,}" for part in parts)
    return f"{rows} examples, of the same people or of others"


def _describe_shared_columns(release: Release) -> list[str]:
    """The columns that stand there for another holder, where there are any."""
    names = shared_column_names(release)
    if names is None:
        return []
    what = f"{', '.join(names)}, and the label" if names else "the label alone"
    return _described_field(
        "shared", f"{what}: sums without labels stand beside the rados, for rado join; learners leave them out"
    )


def _describe_how_made(
    mechanism: Mapping[str, Any], signatures: Mapping[str, Any] | None, feature_map: FeatureMap | None
) -> list[str]:
    noise, made = (
        _describe_noise(mechanism),
        {key: value for key, value in mechanism.items() if key not in _NOT_FOR_PEOPLE},
    )
    rows = made.pop("rows") if isinstance(made.get("rows"), Mapping) else {}
    counts = ", ".join(f"about {max(0, round(rows[key])):,} {words}" for key, words in _ROWS.items() if key in rows)
    return [
        *_described_field("mechanism", _described_entry_name(made)),
        *(_described_field("rows", f"{counts} (noisy counts)") if counts else []),
        *(_described_field("columns", plan_text(mechanism["plan"])) if "plan" in mechanism else []),
        *(_described_field("noise", noise) if noise else []),
        *(_described_field("signatures", _described_entry_name(signatures)) if signatures is not None else []),
    ]


def _describe_map_inputs(release: Release) -> list[str]:
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
        lines.append(f"{_shorten_name(name):<31}{numbers}  {how}")
    return [*lines, *_more_columns_line(len(names)), ""]


def _describe_noise(mechanism: Mapping[str, Any]) -> str | None:
    """The noise that a release says it carries; of several stages, that of each, by name."""
    if isinstance(mechanism.get("noise"), Mapping):
        return stage_noise_text(mechanism["noise"], mechanism.get("rounds", 0))
    if "noise_std" not in mechanism:
        return None
    on = {"rados": "every rado", "examples": "every row"}.get(mechanism.get("noise_on", ""), "what is summed")
    return f"{mechanism['noise_std']:.6g} on {on}, in units of scaled columns"


def _described_field(name: str, text: str) -> list[str]:
    """A name and what it is, over as many lines as that takes."""
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{name:<13}", subsequent_indent=" " * 13, break_long_words=False)


def _described_examples(count: int | None) -> str:
    return "an undisclosed number of examples" if count is None else f"{count:,} examples"


def _shorten_name(name: str, most: int = 30) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def _more_columns_line(count: int) -> list[str]:
    return [f"... and {count - _SHOWN_COLUMNS} more; --json shows all"] if count > _SHOWN_COLUMNS else []


def _described_entry_name(entry: object) -> str:
    fields = dict(entry)  # type: ignore[call-overload]
    name = fields.pop("name")
    fields.pop("law", None)  # the name says it already
    return str(name) + "".join(f", {key} {_described_value(value)}" for key, value in fields.items())


def _described_value(value: object) -> str:
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


def _bulleted_sentences(sentences: list[str]) -> list[str]:
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    ]
