"""What a model of more than two classes does, as findings and as lines: each class has effects of its own."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from radoboost.learner.explain import CategoryEffect, Explanation, Explanations, NumberEffect, Pair
from radoboost.report import effects_report
from radoboost.report.findings import Figure, Findings, Panel, ReportColumn, ReportTable, Series

MOST_CLASSES = 10  # in a picture
_COLOURS = 7  # classes that a colour tells apart; further ones are dashed
_WITH_BANDS = 5  # classes in a picture, beyond which bands would hide each other
_CLASS_LINES, _ITEM_LINES = 6, 4  # on a terminal
_EFFECT = "effect on the score of each class"
Items = list[NumberEffect | CategoryEffect]  # of a column, one for each class, in their order


def class_effect_findings(explanations: Explanations) -> Findings:
    """Explanations of classes as tables and figures."""
    columns = _class_effects_by_column(explanations)
    tables = [_classes_effect_table(explanations), _class_columns_table(explanations, columns)]
    if any(each.pairs for each in explanations.by_class):
        tables.append(effects_report.pairs_table(_pairs_of_all_classes(explanations), of_classes=True))
    places, figures, notes = explanations.strongest(MOST_CLASSES), [], []
    if columns:
        drawn = columns[: effects_report.DRAWN]
        banded = any(item.band is not None for items in drawn for item in items)
        caption = (
            "What each column adds to the score of each class, by its value, less the mean over rows and the mean over "
            f"classes. The {len(drawn)} columns of the largest importance."
        )
        if any(isinstance(items[0], CategoryEffect) for items in drawn):
            caption += " Points of a value stand in the order of the legend."
        if banded and len(places) <= _WITH_BANDS:
            caption += " Bands are two standard errors by the declared noise, given the whitening that was released."
        elif banded:
            notes.append(f"Bands are drawn for {_WITH_BANDS} classes at most; the table has the widest of each column.")
        panels = [_class_effect_panel(explanations, places, items) for items in drawn]
        figures.append(Figure("effects", "Effects of columns on classes", caption, panels))
    if len(places) < len(explanations.classes):
        notes.append(
            f"The picture has the {len(places)} classes that stand out most, of {len(explanations.classes)}; tables "
            "have all of them."
        )
    pairs = [(pair, f", for {value}") for pair, value in _pairs_of_all_classes(explanations)]
    figures += effects_report.pair_effect_figures(pairs, explanations.by_class[0].curves)
    notes += effects_report.residual_effect_text(explanations.by_class[0].rest)  # the same columns for all classes
    return Findings("effects", "What the model does", tables, figures, notes=notes)


def class_effect_lines(explanations: Explanations) -> list[str]:
    """The most important effects as lines for a terminal, by class."""
    places = explanations.strongest(_CLASS_LINES)
    shown = {place: effects_report.effects_by_importance(explanations.by_class[place]) for place in places}
    if not any(shown.values()):
        return []
    lines = ["effects on the score of each class, less the mean over classes", effects_report.HEADING]
    for place, items in shown.items():
        chance = explanations.probabilities[place]
        name = effects_report.shorten_effect_name(repr(explanations.classes[place]), 40)
        lines.append(f"class {name}, {chance:.3f} in an average row:")
        lines += [line for item in items[:_ITEM_LINES] for line in effects_report.column_effect_lines(item)]
    if any(item.band is not None for items in shown.values() for item in items):
        lines.append(effects_report.MARGINS)
    lines += effects_report.residual_effect_text(explanations.by_class[0].rest)
    hidden = len(explanations.classes) - len(places)
    more = f"... and {hidden:,} classes more, which stand out less; " if hidden else ""
    return [*lines, f"{more}--html PAGE shows pictures of effects"]


def _class_effects_by_column(explanations: Explanations) -> list[Items]:
    """The effects of each column on all classes, the most important column first; not those that are 0 everywhere."""
    found: dict[str, Items] = {}
    for each in explanations.by_class:
        items: Items = [*each.curves, *each.bars]
        for item in items:
            found.setdefault(item.name, []).append(item)
    some = [items for items in found.values() if any(any(item.effects) for item in items)]
    return sorted(some, key=lambda items: -_importance_over_classes(items))


def _importance_over_classes(items: Items) -> float:
    """The root of the mean square over classes."""
    return math.sqrt(math.fsum(item.importance**2 for item in items) / len(items))


def _classes_effect_table(explanations: Explanations) -> ReportTable:
    columns = [
        ReportColumn("class"),
        ReportColumn("probability", "average row", 3),
        ReportColumn("importance", "standard deviation", 3),
        ReportColumn("strongest columns"),
    ]
    each = zip(
        explanations.classes, explanations.probabilities, explanations.importance, explanations.by_class, strict=True
    )
    rows = [[str(value), chance, size, _strongest_columns(explanation)] for value, chance, size, explanation in each]
    note = "Importance is that of all columns and pairs of a class together: how much it stands out from the others."
    return ReportTable("classes", "Classes", columns, rows, note)


def _strongest_columns(explanation: Explanation) -> str:
    """The columns that matter most to a class, with where they speak for it."""
    items = effects_report.effects_by_importance(explanation)[:3]
    return ", ".join(
        f"{item.name} (most at {effects_report.effect_value_at(item, int(np.argmax(item.effects)))})" for item in items
    )


def _class_columns_table(explanations: Explanations, columns: list[Items]) -> ReportTable:
    heads = [ReportColumn("column"), ReportColumn("importance", "standard deviation", 3)]
    for which in ("largest", "least"):
        heads += [ReportColumn(which, "effect", 2), ReportColumn(f"class, {which}"), ReportColumn(f"where {which}")]
    rows: list[list[Any]] = []
    for items in columns:
        effects = np.array([item.effects for item in items])
        ends = [np.unravel_index(pick(effects), effects.shape) for pick in (np.argmax, np.argmin)]
        cells = [
            cell
            for place, k in ends
            for cell in (
                float(effects[place, k]), str(explanations.classes[place]),
                effects_report.effect_value_at(items[place], int(k)),
            )
        ]  # fmt: skip
        bands = [max(item.band) for item in items if item.band is not None]
        rows.append([items[0].name, _importance_over_classes(items), *cells, max(bands, default=None)])
    note = "Importance is the standard deviation of a column's effects over its rows and over classes."
    return ReportTable("columns", "Columns, by importance", [*heads, ReportColumn("band", "largest, ±", 2)], rows, note)


def _pairs_of_all_classes(explanations: Explanations) -> list[tuple[Pair, Any]]:
    found = [
        (pair, value)
        for value, each in zip(explanations.classes, explanations.by_class, strict=True)
        for pair in each.pairs
    ]
    return sorted(found, key=lambda entry: -entry[0].importance)


def _class_effect_panel(explanations: Explanations, places: Sequence[int], items: Items) -> Panel:
    """One column: a line or points for each class."""
    series, bands = [], []
    for order, place in enumerate(places):
        item, name = items[place], str(explanations.classes[place])
        if isinstance(item, CategoryEffect):
            error = item.band if len(places) <= _WITH_BANDS else None
            series.append(Series(name, effects_report.category_bar_names(item), item.effects, error, style="points"))
            continue
        style = "line" if order < _COLOURS else "dashed"
        series.append(Series(name, item.values, item.effects, style=style))
        if item.band is not None and len(places) <= _WITH_BANDS:
            bands.append(effects_report.effect_band(name, item.values, item.effects, item.band))
    return Panel(items[0].name, "", _EFFECT, series, bands=bands)
