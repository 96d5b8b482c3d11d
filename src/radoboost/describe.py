"""A release, a model, an account or an audit in words, for people."""

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from radoboost.learner.model import Model
from radoboost.release import Release, Statement, rounded_up

if TYPE_CHECKING:
    from radoboost.adversary.audits import Audit

_WIDTH = 100
_SHOWN_COLUMNS = 12


def describe(release: Release) -> str:
    """What a release is, what it promises and what it does not, as text for a terminal.

    >>> import radoboost as rb
    >>> release = rb.craft([[1.0], [2.0], [3.0]], [0, 1, 1], n_rados=4, seed=0)
    >>> print(describe(release).splitlines()[0])
    4 rados of 2 features, from 3 examples
    """
    lines = [
        f"{release.n_rados:,} rados of {len(release.columns):,} features, from {_examples(release.n_examples)}",
        f"classes      {release.classes[0]!r} is -1, {release.classes[1]!r} is +1",
        f"mechanism    {_named(release.mechanism)}",
        f"signatures   {_named(release.signatures)}",
        "",
        *_stated(release.statement),
        "",
        f"{'column':<22}{'scale':<9}{'mean':>11}{'std':>11}{'low':>10}{'high':>10}{'step':>7}",
    ]
    for column in release.columns[:_SHOWN_COLUMNS]:
        numbers = "".join(
            f"{'' if value is None else format(value, '.4g'):>{width}}"
            for value, width in ((column.mean, 11), (column.std, 11), (column.low, 10), (column.high, 10))
        )
        step = f"2**{math.frexp(column.step)[1] - 1}"
        lines.append(f"{_short(column.name, 21):<22}{column.scale:<9}{numbers}{step:>7}")
    return "\n".join(lines + _more(len(release.columns)))


def describe_model(model: Model) -> str:
    """What a model is, what it weighs most, and what is known of the release behind it, as text for a terminal.

    >>> import radoboost as rb
    >>> clf = rb.MomentsClassifier(n_rados=8).fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1])
    >>> print(describe_model(clf.model_).splitlines()[0])
    a linear classifier over 1 column: positive scores mean 1, the others 0
    """
    names, (negative, positive) = model.feature_names, model.classes
    count = f"{len(names):,} column{'' if len(names) == 1 else 's'}"
    lines = [
        f"a linear classifier over {count}: positive scores mean {positive!r}, the others {negative!r}",
        f"learner      {_named({key: value for key, value in model.learner.items() if key != 'standard_errors'})}",
    ]
    if model.learner.get("fell_back_to_majority"):
        lines += ["             an empty table might have given this release: the noisy majority, whatever the row"]
    if model.release is None or model.statement is None:
        lines += ["learned from the examples themselves: nothing is promised about them"]
    else:
        lines += [
            f"from         {model.release['n_rados']:,} rados of {_examples(model.release.get('n_examples'))}",
            f"mechanism    {_named(model.release['mechanism'])}",
            f"signatures   {_named(model.release['signatures'])}",
            "",
            "A model tells no more than the release behind it. Of that release:",
            "",
            *_stated(model.statement),
        ]
    thetas = [theta for theta, column in zip(model.theta, model.columns, strict=True) if column.scale != "constant"]
    by_weight = sorted(range(len(names)), key=lambda k: -abs(thetas[k]))
    errors = model.learner.get("standard_errors")
    margins = [""] * len(names) if errors is None else [f" ± {error:<9.3g}" for error in errors]
    gap = " " * max(len(text) for text in margins)
    lines += ["", f"{'column, by weight':<32}{'theta':>14}{gap}{'coefficient':>16}"]
    lines += [
        f"{_short(names[k]):<32}{thetas[k]:>14.5g}{margins[k]}{model.coef[k]:>16.5g}"
        for k in by_weight[:_SHOWN_COLUMNS]
    ]
    lines += [*_more(len(names)), f"{'intercept':<46}{gap}{model.intercept:>16.5g}"]
    lines += ["theta weighs scaled columns; coefficients and intercept are in the units of the table"]
    if errors is not None:
        lines += ["± is the standard deviation by the declared noise, given the whitening that was released"]
    return "\n".join(lines)


def describe_account(answer: Mapping[str, Any]) -> str:
    """The answer of `rado account`, as text for a terminal."""
    lines = [
        f"mechanism    {answer['mechanism']}",
        f"neighbours   {answer['neighbours']}",
        f"epsilon      {_epsilon(answer['epsilon'])} at delta {rounded_up(answer['delta'], 6)}",
    ]
    if "noise" in answer:
        lines.append(f"noise        {rounded_up(answer['noise'], 6)} times the clipping norm")
    if "n_rados" in answer:
        lines.append(f"rados        {answer['n_rados']:,}")
    if "expected" in answer:
        expectation = answer["expected"]
        lines.append(f"table        {expectation['rows']:,} rows and {expectation['columns']:,} columns, as declared")
        lines += [
            f"expect       {100 * pair['expected']:.1f} % of errors where the same rows without noise give "
            f"{100 * pair['without_noise']:g} %"
            for pair in expectation["errors"]
        ]
        verdict = "carries this epsilon" if expectation["carries"] else "cannot carry this epsilon"
        lines.append("; ".join(filter(None, [f"verdict      such a table {verdict}", expectation["enough"]])))
    if "band" in answer:
        low, high = answer["band"]
        one, plain = answer["one_rado"], answer["plain_one_rado"]
        least = answer["least_epsilon"]
        lines += [
            f"band         {low:,} to {high:,} of {answer['n_examples']:,}",
            f"one rado     delta {rounded_up(one['delta'], 6)} at epsilon {one['epsilon']:g}; without a band "
            f"{rounded_up(plain['delta'], 3)}",
            f"no band      epsilon {_epsilon(answer['plain_epsilon'])} at the same delta",
            f"least        {'no epsilon' if least is None else f'epsilon {rounded_up(least, 6)}'} gives a claim here",
        ]
    others = ", ".join(f"{_epsilon(pair['epsilon'])} at {pair['delta']:g}" for pair in answer["epsilon_at"])
    lines += [
        f"also         epsilon {others}",
        f"best guess   {math.ceil(1000 * answer['best_guess']) / 10} % right at most, from even odds",
        f"accountant   {answer['accountant']}",
    ]
    return "\n".join(lines)


def describe_chain(answer: Mapping[str, Any]) -> str:
    """What releases amount to together, as text for a terminal."""
    others = ", ".join(f"{_epsilon(pair['epsilon'])} at {pair['delta']:g}" for pair in answer["epsilon_at"])
    return "\n".join(
        [
            f"releases     {len(answer['releases']):,}, each counted once",
            *(f"             {entry['id']}, for {entry['neighbours']}" for entry in answer["releases"]),
            f"neighbours   {answer['neighbours']}",
            f"together     epsilon {_epsilon(answer['epsilon'])} at delta {rounded_up(answer['delta'], 6)}"
            + (f" ({answer['why']})" if "why" in answer else ""),
            f"also         epsilon {others}",
            f"best guess   {math.ceil(1000 * answer['best_guess']) / 10} % right at most, from even odds",
            f"accountant   {answer['accountant']}",
            *textwrap.wrap(f"holds if     {answer['holds_if']}", _WIDTH, subsequent_indent=" " * 13),
        ]
    )


def describe_audit(result: "Audit") -> str:
    """An audit, as text for a terminal."""
    how = "by its exact law" if not result.runs else f"by {result.runs:,} runs of either table"
    share = f", {100 * result.found / result.claim:.0f} % of it" if 0 < result.claim < math.inf else ""
    kind = "" if not result.runs else ", if it is this kind of mechanism with whatever noise"
    return "\n".join(
        [
            f"mechanism    {result.mechanism}",
            f"neighbours   {result.neighbours}",
            f"claimed      epsilon {_epsilon(result.claim)} at delta {rounded_up(result.delta, 6)}",
            f"shown        at least {math.floor(1e4 * result.found) / 1e4:g}{share}, {how}{kind}",
            f"any kind     at least {math.floor(1e4 * result.found_without_model) / 1e4:g}",
            f"attack       {result.score}, at confidence {result.confidence:.7g}",
        ]
    )


def statement_in_words(statement: Statement) -> dict[str, list[str]]:
    """What a statement promises and what it does not, as sentences by their headings.

    >>> import radoboost as rb
    >>> release = rb.craft([[1.0], [2.0], [3.0]], [0, 1, 1], n_rados=4, seed=0)
    >>> statement_in_words(release.statement)["What is promised"][0]
    'Nothing: this release carries no privacy guarantee.'
    """
    promised = [
        *(statement.promises or ("Nothing: this release carries no privacy guarantee.",)),
        f"epsilon {_epsilon(statement.epsilon)}, delta {rounded_up(statement.delta, 6)}, for {statement.neighbours} as "
        "neighbours",
    ]
    if not math.isinf(statement.epsilon):
        at = ", ".join(f"{_epsilon(epsilon)} at delta {delta:g}" for delta, epsilon in statement.epsilon_at)
        promised += [f"unit of privacy: {statement.unit_of_privacy}", f"the same as epsilon {at}"]
    if statement.composed is not None:
        total = statement.composed
        promised.append(
            f"together with {total['earlier_releases']} earlier: epsilon {_epsilon(total['epsilon'])}, "
            f"delta {rounded_up(total['delta'], 6)}, for {total['neighbours']} as neighbours"
            + (f" ({total['why']})" if "why" in total else "")
            + (f", if {total['holds_if']}" if "holds_if" in total else "")
        )
    return {"What is promised": promised, "What is not protected": list(statement.not_protected)}


def _stated(statement: Statement) -> list[str]:
    lines = []
    for heading, sentences in statement_in_words(statement).items():
        lines += [heading, *_listed(sentences), ""]
    return [
        *lines,
        f"accountant   {statement.accountant}",
        f"trust        {statement.trust_model}",
        f"random bits  {statement.random_source}",
    ]


def _epsilon(value: float | str) -> str:
    """Four digits, rounded up."""
    return rounded_up(math.inf if isinstance(value, str) else value, 4)


def _examples(count: int | None) -> str:
    return "an undisclosed number of examples" if count is None else f"{count:,} examples"


def _short(name: str, most: int = 30) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def _more(count: int) -> list[str]:
    return [f"... and {count - _SHOWN_COLUMNS} more; --json shows all"] if count > _SHOWN_COLUMNS else []


def _named(entry: object) -> str:
    fields = dict(entry)  # type: ignore[call-overload]
    name = fields.pop("name")
    fields.pop("law", None)  # the name says it already
    return str(name) + "".join(f", {key} {_value(value)}" for key, value in fields.items())


def _value(value: object) -> str:
    """A mapping of numbers as "(key number, ...)", and anything else as it is."""
    return (
        f"({', '.join(f'{key} {part:.6g}' for key, part in value.items())})"
        if isinstance(value, Mapping)
        else str(value)
    )


def _listed(sentences: list[str]) -> list[str]:
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    ]
