"""What a model does, as findings: tables and pictures of effects, a page that holds them, and lines for a terminal."""

import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.learner.explain import (
    CategoryEffect,
    Explanation,
    Explanations,
    NumberEffect,
    Pair,
    ResidualEffect,
    explain_model,
)
from radoboost.learner.model import Model
from radoboost.learner.rado_moments import BY_ROWS
from radoboost.learner.uncertainty import weak_release_text
from radoboost.release.release import Release, atomic_write, load
from radoboost.report.findings import Band, Figure, Findings, Panel, ReportColumn, ReportTable, Series

if TYPE_CHECKING:
    from radoboost.report.documents import Document
    from radoboost.report.html import PageHeader

DRAWN = 12  # curves and bars in a picture
_PAIRS = 10  # in a table
_PAIRS_DRAWN = 6
_LEVELS = ("the other column low", "in the middle", "high")
_SLOT_LEVELS = ("the other absent", "present")
_LINES, _PAIR_LINES = 8, 3  # on a terminal
_STEPS = "▁▂▃▄▅▆▇█"
HEADING = f"{'effect of':<20}{'spread':>7}{'±':>8}   {'low to high':<17}least and largest"
MARGINS = "± is the widest band, two standard errors; ? where 0 is within the band everywhere"
_SCORE = "effect on the score"
_ABOUT = (
    "A score is a sum of effects: what each column adds, what pairs of columns add together, and the rest. 0 is what "
    "an average row has. {scores} {bands} An effect is no cause."
)
_LINKED = "Scores near 0 are log odds; probabilities level off further out, as the model's link says."
_LOG_ODDS = "Scores are log odds, as nearly as the learner can make them so."
_TAKEN = "Scores are taken for log odds."
_BY_NOISE = (
    "Bands are two standard errors by the declared noise, given the whitening and the link that were released, whose "
    "own noise they leave out. They do not say what another sample of people would change."
)
_BY_ROWS = (
    "Bands are two standard errors: by the rows, had others been drawn, and by the draw of the rados. A curve that "
    "several weights make has none."
)
_ABOUT_CLASSES = (
    "Each class has a score, and the largest says which class a row is of. A score is a sum of effects: what each "
    "column adds, what pairs of columns add together, and the rest, less the mean over classes of what they add to all "
    "scores. 0 is what an average row has. An effect of 0.7 on a class doubles its odds beside the geometric mean of "
    "all classes. {bands} An effect is no cause."
)


def explain(source: Any) -> Explanation | Explanations:
    """What a model does: the shape of every column's effect with a band, the strongest pairs, and the rest.

    Of more than two classes each has effects of its own: what adds to its score, less the mean over classes.

    Parameters
    ----------
    source : Model, fitted classifier, Release, or the path of a release
        A release is learned from first, by its moments.

    Returns
    -------
    Explanation
        `curves` of numbers and `bars` of categories, `pairs`, each by importance, and the `rest`; `to_dict` gives JSON
        data. Of more than two classes, `Explanations`: one for each class, as `by_class`.

    Examples
    --------
    >>> import radoboost as rb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-3, 3, size=(20_000, 2))
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(2 - x[:, 0] ** 2))
    >>> declared = {"schema": [[-3, 3]] * 2, "classes": (False, True), "columns": "degree-2"}
    >>> release = rb.craft(x, y, mechanism=rb.Moments(epsilon=5.0), **declared)
    >>> curve = rb.explain(release).curves[0]
    >>> curve.name, curve.effects[0] > 1, curve.effects[32] < 0, curve.effects[64] > 1
    ('x0', True, True, True)
    """
    return explain_model(model_to_explain(source))


def model_to_explain(source: Any) -> Model:
    """The model that something holds, or that is learned from a release."""
    if isinstance(source, str | os.PathLike):
        source = load(source)
    if isinstance(source, Release):
        from radoboost.estimators.rado_classifiers import MomentsClassifier

        source = MomentsClassifier().fit_rados(source)
    model = getattr(source, "model_", source)
    if not isinstance(model, Model):
        raise ArgumentError(
            "explain needs a model, a fitted classifier, a release, or the path of one; it got a "
            f"{type(source).__name__}"
        )
    return model


def effect_findings(explanation: Explanation | Explanations) -> Findings:
    if isinstance(explanation, Explanations):
        from radoboost.report.class_effects import class_effect_findings

        return class_effect_findings(explanation)
    positive = explanation.positive
    shown = effects_by_importance(explanation)
    tables = [_effects_columns_table(shown)]
    pairs = [(pair, "") for pair in explanation.pairs]
    if pairs:
        tables.append(pairs_table(pairs))
    figures = []
    if shown:
        caption = (
            f"What each column adds to the score for {positive!r}, by its value, less the mean over rows. "
            f"{effect_bands_text(shown[:DRAWN])} The {len(shown[:DRAWN])} columns of the largest importance."
        )
        panels = [_effect_panel(item) for item in shown[:DRAWN]]
        figures.append(Figure("effects", "Effects of columns", caption, panels))
    figures += pair_effect_figures(pairs, explanation.curves)
    chance = 1 / (1 + np.exp(-explanation.log_odds))
    notes = [f"At the score of an average row the probability of {positive!r} is {chance:.3f}."]
    notes += residual_effect_text(explanation.rest)
    return Findings("effects", "What the model does", tables, figures, notes=notes)


def residual_effect_text(rest: ResidualEffect | None) -> list[str]:
    if rest is None:
        return []
    return [
        f"The rest: {rest.n_columns:,} products of three columns: {effect_percent(rest.share)} of the variance of "
        "parts of scores."
    ]


def pair_effect_figures(pairs: Sequence[tuple[Pair, str]], curves: Sequence[NumberEffect]) -> list[Figure]:
    """The first pairs as one picture, if any of them adds something; each goes with a word on whom it is for."""
    drawn = [(pair, whom) for pair, whom in pairs if any(any(line) for line in pair.lines)][:_PAIRS_DRAWN]
    if not drawn:
        return []
    banded = any(pair.bands is not None for pair, _ in drawn)
    caption = (
        "What two columns add together, beyond what each adds alone: along one of them, while the other is low, in the "
        "middle or high (one standard deviation below the mean, at it, and above), or a category's value is absent or "
        f"present. {'Bands are two standard errors. ' if banded else ''}The {len(drawn)} of the largest importance."
    )
    panels = [_pair_effect_panel(pair, whom, {curve.name: curve for curve in curves}) for pair, whom in drawn]
    return [Figure("pairs", "Pairs of columns, in pictures", caption, panels)]


def _pair_effect_panel(pair: Pair, whom: str, curves: Mapping[str, NumberEffect]) -> Panel:
    """A line for each level of one column, along the other; points where both are values of categories."""
    (other,) = [name for name in pair.names if name != pair.along]
    words = _SLOT_LEVELS if other in pair.present else _LEVELS
    points = pair.along in pair.present
    x: Sequence[Any] = ("absent", "present") if points else pair.values
    bands = pair.bands or (None,) * len(pair.lines)
    series = [
        Series(word, x, line, band if points else None, style="points" if points else "line")
        for word, line, band in zip(words, pair.lines, bands, strict=True)
    ]
    shades = [
        effect_band(word, x, line, band)
        for word, line, band in zip(words, pair.lines, bands, strict=True)
        if band is not None and not points
    ]
    levels = (
        ""
        if other in pair.present
        else f" at {', '.join(_level_text_of_pair(curves[other], at) for at in pair.levels)}"
    )
    return Panel(f"{' and '.join(pair.names)}{whom}", f"{pair.along}; {other}{levels}", _SCORE, series, bands=shades)


def _level_text_of_pair(curve: NumberEffect, level: float) -> str:
    """A value of a column in words: a date, to the nearest that its curve has, or a number."""
    if curve.dates is None:
        return f"{level:.3g}"
    return curve.dates[int(np.argmin(np.abs(np.array(curve.values) - level)))]


def effect_band(label: str, x: Sequence[Any], effects: Sequence[float], band: Sequence[float]) -> Band:
    """A band on either side of effects."""
    pairs = list(zip(effects, band, strict=True))
    return Band(label, x, [effect - margin for effect, margin in pairs], [effect + margin for effect, margin in pairs])


def effect_bands_text(shown: Sequence[NumberEffect | CategoryEffect]) -> str:
    """What bands there are, and how far curves are drawn where a release has no bounds."""
    without = [item for item in shown if item.band is None]
    if len(without) == len(shown):
        words = "There are no bands: the model does not say how sure curves are that several weights make."
    else:
        words = "Bands are two standard errors."
        if without:
            words += " Curves that several weights make have none, for only the errors of single weights are known."
    if any(isinstance(item, NumberEffect) and not item.bounded for item in shown):
        words += (
            " The release has no bounds for values: curves are drawn to two deviations on either side of the mean, "
            "which may be further than values go."
        )
    return words


def explain_model_findings(model: Model) -> Findings:
    """The effects of a model as tables and figures."""
    return effect_findings(explain_model(model))


def write_effects_page(model: Model, place: Path, *, name: str, command: str) -> None:
    """One HTML page about what a model does, which holds everything that it shows; `name` is that of its file."""
    from radoboost.report.documents import make_document

    start = time.monotonic()
    findings = explain_model_findings(model)
    write_model_documents(model, [make_document(command, time.monotonic() - start, {}, findings)], place, name=name)


def write_model_documents(
    model: Model, documents: Sequence["Document"], place: Path, *, name: str, more: Sequence[Sequence[str]] = ()
) -> None:
    """One HTML page of documents about a model, after what it is and the statement of the release behind it.

    `more` are rows of what stands first, after what the model is.
    """
    from radoboost.report import html

    with atomic_write(place) as draft:
        draft.write_text(html.html_page(documents, cover_of_model_page(model, name, more)), "utf-8")


def cover_of_model_page(model: Model, name: str, more: Sequence[Sequence[str]] = ()) -> "PageHeader":
    """What a page about a model begins with: what it is, `more` rows of that, and the statement of its release."""
    from radoboost.release.statement_text import statement_text, verdict_of_model
    from radoboost.report.html import PageHeader

    said = {}
    if model.statement is not None:
        said = statement_text(model.statement)
    by_rows = model.learner.get("from") in BY_ROWS
    return PageHeader(
        f"What {name} does",
        (_ABOUT if model.n_classes == 2 else _ABOUT_CLASSES).format(
            scores=_LINKED if model.link is not None else _LOG_ODDS if by_rows else _TAKEN,
            bands=_BY_ROWS if by_rows else _BY_NOISE,
        ),
        _effects_overview_table(model, more),
        "The statement of the release behind it" if said else "",
        said,
        None if model.statement is None else verdict_of_model(model.statement),
    )


def effect_lines(explanation: Explanation | Explanations, most: int = _LINES) -> list[str]:
    """The most important effects as lines for a terminal: a column's shape from its low to its high end."""
    if isinstance(explanation, Explanations):
        from radoboost.report.class_effects import class_effect_lines

        return class_effect_lines(explanation)
    shown = effects_by_importance(explanation)
    if not shown:
        return []
    lines = [HEADING, *(line for item in shown[:most] for line in column_effect_lines(item))]
    pairs = [pair for pair in explanation.pairs if any(pair.corners)][:_PAIR_LINES]
    lines += _pair_effect_lines(pairs)
    rest = explanation.rest
    lines += [f"the rest: {effect_percent(rest.share)} in {rest.n_columns:,} products of three columns"] if rest else []
    if any(item.band is not None for item in [*shown[:most], *pairs]):
        lines.append(MARGINS)
    hidden = len(shown) - most
    columns = "column" if hidden == 1 else "columns"
    return lines + ([f"... and {hidden:,} {columns} more; --html PAGE shows pictures of effects"] if hidden > 0 else [])


def column_effect_lines(item: NumberEffect | CategoryEffect) -> list[str]:
    """The effect of one column, under `HEADING`."""
    low, high = int(np.argmin(item.effects)), int(np.argmax(item.effects))
    ends = [
        f"{item.effects[k]:+.2f} at {shorten_effect_name(effect_value_at(item, k), 11)}" for k in sorted((low, high))
    ]
    size = f"{item.importance:>7.2f}{_margin_of_effect_band(item.effects, item.band)}"
    lines = [
        f"{shorten_effect_name(item.name, 20):<20}{size}  {_curve_in_blocks(item.effects):<17}{' ... '.join(ends)}"
    ]
    if isinstance(item, CategoryEffect) and item.rare:
        lines.append(f"{'':<20}{shorten_effect_name('too rare to tell: ' + ', '.join(item.rare), 76)}")
    return lines


def _pair_effect_lines(pairs: list[Pair]) -> list[str]:
    """Pairs at low and high values of both; a slot adds nothing where it is absent."""
    if not pairs:
        return []
    corners = "    low low  low high  high low high high" if any(not pair.present for pair in pairs) else ""
    lines = [f"{'pairs, where they are':<28}{'spread':>7}{'±':>8} {corners}"]
    for pair in pairs:
        _, low_high, high_low, high_high = pair.corners
        if len(pair.present) == 2:
            where = f"{high_high:+.2f} both present"
        elif pair.present:
            low = high_low if pair.present[0] == pair.names[0] else low_high
            where = f"{low:+.2f} low, {high_high:+.2f} high; {shorten_effect_name(pair.present[0], 18)} present"
        else:
            where = "".join(f"{corner:>+10.2f}" for corner in pair.corners)
        names, band = shorten_effect_name(" and ".join(pair.names), 27), None if pair.band is None else (pair.band,) * 4
        lines.append(f"{names:<28}{pair.importance:>7.2f}{_margin_of_effect_band(pair.corners, band)} {where}")
    return [line.rstrip() for line in lines]


def _margin_of_effect_band(effects: Sequence[float], band: Sequence[float] | None) -> str:
    """The widest band, and a mark where 0 is within it everywhere."""
    if band is None:
        return " " * 9
    clear = any(abs(effect) > margin for effect, margin in zip(effects, band, strict=True))
    return f"{max(band):>8.2f}{' ' if clear else '?'}"


def effects_by_importance(explanation: Explanation) -> list[NumberEffect | CategoryEffect]:
    """All effects that are not 0 everywhere."""
    items: list[NumberEffect | CategoryEffect] = [*explanation.curves, *explanation.bars]
    return sorted((item for item in items if any(item.effects)), key=lambda item: -item.importance)


def _effects_overview_table(model: Model, more: Sequence[Sequence[str]]) -> ReportTable:
    speaks = ["speaks for, where the score is above 0", str(model.classes[1])]
    if model.n_classes > 2:
        speaks = ["classes", f"{model.n_classes:,}: {', '.join(map(str, model.classes))}"]
    rows = [
        speaks,
        ["columns of the table", f"{len(model.feature_names):,}"],
        ["columns of the release", f"{len(model.column_names):,}"],
    ]
    if model.statement is not None:
        from radoboost.release.statement_text import at_one_holder, epsilon_text

        statement = model.statement
        rows.append(["learned from", f"a release by {statement.mechanism}"])
        promise = f"{epsilon_text(statement.epsilon)} at delta {statement.delta:g}, for {statement.neighbours}"
        rows.append(["epsilon", promise + at_one_holder(statement)])
    if "empty_chance" in model.learner:
        rows.append(["noise", weak_release_text(model.learner["empty_chance"], model.learner["noise_share"])])
    return ReportTable("overview", "The model", ["what", "it is"], [*rows, *more])


def _effects_columns_table(shown: list[NumberEffect | CategoryEffect]) -> ReportTable:
    columns = [
        ReportColumn("column"),
        ReportColumn("importance", "standard deviation", 3),
        ReportColumn("least", "effect", 2),
        ReportColumn("where least"),
        ReportColumn("largest", "effect", 2),
        ReportColumn("where largest"),
        ReportColumn("band", "largest, ±", 2),
    ]
    rows = []
    for item in shown:
        low, high = int(np.argmin(item.effects)), int(np.argmax(item.effects))
        band = None if item.band is None else max(item.band)
        least, largest = ([item.effects[k], effect_value_at(item, k)] for k in (low, high))
        rows.append([item.name, item.importance, *least, *largest, band])
    note = "Importance is the standard deviation of a column's effect over its rows, as far as the release tells."
    return ReportTable("columns", "Columns, by importance", columns, rows, note)


def pairs_table(pairs: Sequence[tuple[Pair, Any]], of_classes: bool = False) -> ReportTable:
    """The strongest pairs, each with its class where these are `of_classes`."""
    names = ["both low", "low and high", "high and low", "both high"]
    columns = [ReportColumn("pair"), *([ReportColumn("class")] if of_classes else [])]
    columns += [ReportColumn("importance", "standard deviation", 3), *(ReportColumn(name, None, 2) for name in names)]
    columns.append(ReportColumn("band", "largest, ±", 2))
    rows = [
        [" and ".join(pair.names), *([str(value)] if of_classes else []), pair.importance, *pair.corners, pair.band]
        for pair, value in pairs[:_PAIRS]
    ]
    whose, among = (" to the score of a class", "") if of_classes else ("", f" of {len(pairs):,} pairs")
    note = (
        f"What two columns add together{whose}, beyond what each adds alone. Low and high are one standard deviation "
        f"below and above the mean, or absent and present. The strongest {len(rows)}{among}."
    )
    return ReportTable("pairs", "Pairs of columns", columns, rows, note)


def category_bar_names(item: CategoryEffect) -> list[str]:
    """The values of a category under their bars."""
    values = [shorten_effect_name(value, 16) for value in item.values]
    if len(set(values)) < len(values):
        values = list(item.values)
    return [
        f"{short} (too rare)" if value in item.rare else short for short, value in zip(values, item.values, strict=True)
    ]


def _effect_panel(item: NumberEffect | CategoryEffect) -> Panel:
    if isinstance(item, CategoryEffect):
        values = category_bar_names(item)
        return Panel(item.name, "", _SCORE, [Series("effect", values, item.effects, item.band, style="points")])
    bands = [] if item.band is None else [effect_band("effect", item.values, item.effects, item.band)]
    return Panel(item.name, "", _SCORE, [Series("effect", item.values, item.effects)], bands=bands)


def _curve_in_blocks(effects: tuple[float, ...]) -> str:
    step = max(1, math.ceil(len(effects) / 16))
    some = np.array(effects)[::step]
    span = float(some.max() - some.min())
    heights = np.zeros(len(some)) if span <= 0 else (some - some.min()) / span
    return "".join(_STEPS[min(int(height * len(_STEPS)), len(_STEPS) - 1)] for height in heights)


def effect_value_at(item: NumberEffect | CategoryEffect, k: int) -> str:
    if isinstance(item, CategoryEffect):
        return item.values[k]
    return f"{item.values[k]:.4g}" if item.dates is None else item.dates[k]


def shorten_effect_name(name: str, most: int = 21) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def effect_percent(share: float | None) -> str:
    if share is None:
        return "a part that is not known"
    return f"{100 * share:.0f} %" if share >= 0.005 else "less than 1 %"
