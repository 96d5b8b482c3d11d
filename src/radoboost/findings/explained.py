"""What a model does, as findings: tables and pictures of effects, a page that holds them, and lines for a terminal."""

import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.findings import Band, Column, Figure, Findings, Panel, Series, Table
from radoboost.learner.explain import Bars, Curve, Explanation, explain_model
from radoboost.learner.model import Model
from radoboost.learner.uncertainty import little_in_words
from radoboost.release import Release, load, replacing

_DRAWN = 12  # curves and bars in a picture
_PAIRS = 10  # in a table
_LINES, _PAIR_LINES = 8, 3  # on a terminal
_STEPS = "▁▂▃▄▅▆▇█"
_SCORE = "effect on the score"
_ABOUT = (
    "A score is a sum of effects: what each column adds, what pairs of columns add together, and the rest. 0 is what "
    "an average row has. Scores near 0 are log odds; probabilities level off further out, as the model's link says. "
    "Bands are two standard errors by the declared noise. They do not say what another sample of people would change, "
    "and an effect is no cause."
)


def explain(source: Any) -> Explanation:
    """What a model does: the shape of every column's effect with a band, the strongest pairs, and the rest.

    Parameters
    ----------
    source : Model, fitted classifier, Release, or the path of a release
        A release is learned from first, by its moments.

    Returns
    -------
    Explanation
        `curves` of numbers and `bars` of categories, `pairs`, each by importance, and the `rest`; `to_dict` gives JSON
        data.

    Examples
    --------
    >>> import radoboost as rb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-3, 3, size=(20_000, 2))
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(2 - x[:, 0] ** 2))
    >>> release = rb.craft(x, y, mechanism=rb.Moments(epsilon=1.0), bounds=[[-3, 3]] * 2, classes=(False, True))
    >>> curve = rb.explain(release).curves[0]
    >>> curve.name, curve.effects[0] > 2, curve.effects[32] < -1, curve.effects[64] > 2
    ('x0', True, True, True)
    """
    return explain_model(model_of(source))


def model_of(source: Any) -> Model:
    """The model that something holds, or that is learned from a release."""
    if isinstance(source, str | os.PathLike):
        source = load(source)
    if isinstance(source, Release):
        from radoboost.estimators import MomentsClassifier

        source = MomentsClassifier().fit_rados(source)
    model = getattr(source, "model_", source)
    if not isinstance(model, Model):
        raise ArgumentError(
            "explain needs a model, a fitted classifier, a release, or the path of one; it got a "
            f"{type(source).__name__}"
        )
    return model


def findings_of(explanation: Explanation) -> Findings:
    """An explanation as tables and figures."""
    positive = explanation.positive
    shown = _by_importance(explanation)
    tables = [_columns_table(shown)]
    if explanation.pairs:
        tables.append(_pairs_table(explanation))
    figures = []
    if shown:
        caption = (
            f"What each column adds to the score for {positive!r}, by its value, less the mean over rows. Bands are "
            f"two standard errors by the declared noise. The {len(shown[:_DRAWN])} columns of the largest importance."
        )
        panels = [_panel(item) for item in shown[:_DRAWN]]
        figures.append(Figure("effects", "Effects of columns", caption, panels))
    chance = 1 / (1 + np.exp(-explanation.log_odds))
    notes = [f"At the score of an average row the probability of {positive!r} is {chance:.3f}."]
    notes += [
        f"The rest: {rest.n_columns:,} {rest.kind}, of all columns at once: {_percent(rest.share)} of the variance "
        "of the parts of scores."
        for rest in explanation.rest
    ]
    return Findings("effects", "What the model does", tables, figures, notes=notes)


def write_page(model: Model, place: Path, *, name: str, command: str) -> None:
    """One HTML page about a model, which holds everything that it shows; `name` is that of its file."""
    from radoboost.findings import pages
    from radoboost.findings.documents import document
    from radoboost.release.words import statement_in_words

    start = time.monotonic()
    explanation = explain_model(model)
    findings = findings_of(explanation)
    made = document(command, time.monotonic() - start, {}, findings)
    said = {}
    if model.statement is not None:
        said = statement_in_words(model.statement)
    cover = pages.Cover(
        f"What {name} does",
        _ABOUT,
        _overview(model, explanation),
        "The statement of the release behind it" if said else "",
        said,
    )
    with replacing(place) as draft:
        draft.write_text(pages.page([made], cover), "utf-8")


def effect_lines(explanation: Explanation) -> list[str]:
    """The most important effects as lines for a terminal: a column's shape from its low to its high end.

    >>> curve = Curve("age", 0.5, (20.0, 50.0, 80.0), (-1.0, 0.0, 1.0), None)
    >>> effect_lines(Explanation("yes", 0.0, (curve,), (), (), ()))[1]
    'age                    0.50  ▁▅█                     -1.00 at 20 ... +1.00 at 80'
    """
    shown = _by_importance(explanation)
    if not shown:
        return []
    lines = [f"{'effect of':<20}{'spread':>7}  {'from low to high':<24}least and largest"]
    for item in shown[:_LINES]:
        low, high = int(np.argmin(item.effects)), int(np.argmax(item.effects))
        ends = [f"{item.effects[k]:+.2f} at {_short(_value(item.values[k]), 12)}" for k in sorted((low, high))]
        shape = _drawn(item.effects)
        lines.append(f"{_short(item.name, 20):<20}{item.importance:>7.2f}  {shape:<24}{' ... '.join(ends)}")
    if explanation.pairs:
        corners = f"{'low low':>10}{'low high':>11}{'high low':>11}{'high high':>11}"
        lines.append(f"{'pairs, where they are':<29}{'spread':>8}{corners}")
    for pair in explanation.pairs[:_PAIR_LINES]:
        first, *others = (f"{corner:+.2f}" for corner in pair.corners)
        names = _short(" and ".join(pair.names), 28)
        lines.append(f"{names:<29}{pair.importance:>8.2f}{first:>10}" + "".join(f"{corner:>11}" for corner in others))
    lines += [f"the rest: {_percent(rest.share)} in {rest.n_columns:,} {rest.kind}" for rest in explanation.rest]
    hidden = len(shown) - _LINES
    return lines + ([f"... and {hidden:,} columns more; --html PAGE shows pictures of effects"] if hidden > 0 else [])


def _by_importance(explanation: Explanation) -> list[Curve | Bars]:
    return sorted([*explanation.curves, *explanation.bars], key=lambda item: -item.importance)


def _overview(model: Model, explanation: Explanation) -> Table:
    rows = [
        ["speaks for, where the score is above 0", str(model.classes[1])],
        ["columns of the table", f"{len(explanation.curves) + len(explanation.bars):,}"],
        ["columns of the release", f"{len(model.column_names):,}"],
    ]
    if model.statement is not None:
        from radoboost.release.words import epsilon_text

        statement = model.statement
        rows.append(["learned from", f"a release by {statement.mechanism}"])
        promise = f"{epsilon_text(statement.epsilon)} at delta {statement.delta:g}, for {statement.neighbours}"
        rows.append(["epsilon", promise])
    if "empty_chance" in model.learner:
        rows.append(["noise", little_in_words(model.learner["empty_chance"], model.learner["noise_share"])])
    return Table("overview", "The model", ["what", "it is"], rows)


def _columns_table(shown: list[Curve | Bars]) -> Table:
    columns = [
        Column("column"),
        Column("importance", "standard deviation", 3),
        Column("least", "effect", 2),
        Column("where least"),
        Column("largest", "effect", 2),
        Column("where largest"),
        Column("band", "largest, ±", 2),
    ]
    rows = []
    for item in shown:
        low, high = int(np.argmin(item.effects)), int(np.argmax(item.effects))
        band = None if item.band is None else max(item.band)
        least, largest = ([item.effects[k], _value(item.values[k])] for k in (low, high))
        rows.append([item.name, item.importance, *least, *largest, band])
    note = "Importance is the standard deviation of a column's effect over its rows, as far as the release tells."
    return Table("columns", "Columns, by importance", columns, rows, note)


def _pairs_table(explanation: Explanation) -> Table:
    names = ["both low", "low and high", "high and low", "both high"]
    columns = [
        Column("pair"),
        Column("importance", "standard deviation", 3),
        *(Column(name, None, 2) for name in names),
    ]
    columns.append(Column("band", "largest, ±", 2))
    rows = [
        [" and ".join(pair.names), pair.importance, *pair.corners, pair.band] for pair in explanation.pairs[:_PAIRS]
    ]
    note = (
        "What two columns add together, beyond what each adds alone. Low and high are one standard deviation below and "
        f"above the mean, or absent and present. The strongest {len(rows)} of {len(explanation.pairs):,} pairs."
    )
    return Table("pairs", "Pairs of columns", columns, rows, note)


def _panel(item: Curve | Bars) -> Panel:
    if isinstance(item, Bars):
        values = [_short(value, 16) for value in item.values]
        if len(set(values)) < len(values):
            values = list(item.values)
        return Panel(item.name, "", _SCORE, [Series("effect", values, item.effects, item.band, style="points")])
    bands = []
    if item.band is not None:
        pairs = list(zip(item.effects, item.band, strict=True))
        bands = [Band("effect", item.values, [a - b for a, b in pairs], [a + b for a, b in pairs])]
    return Panel(item.name, "", _SCORE, [Series("effect", item.values, item.effects)], bands=bands)


def _drawn(effects: tuple[float, ...]) -> str:
    """A curve as a row of blocks."""
    step = max(1, math.ceil(len(effects) / 22))
    some = np.array(effects)[::step]
    span = float(some.max() - some.min())
    heights = np.zeros(len(some)) if span <= 0 else (some - some.min()) / span
    return "".join(_STEPS[min(int(height * len(_STEPS)), len(_STEPS) - 1)] for height in heights)


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _short(name: str, most: int = 21) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def _percent(share: float | None) -> str:
    """A share in words."""
    if share is None:
        return "a part that is not known"
    return f"{100 * share:.0f} %" if share >= 0.005 else "less than 1 %"
