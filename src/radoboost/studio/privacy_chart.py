"""A statement as a picture: how sure an adversary can become about one, about several, and with earlier releases."""

import math
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from xml.sax.saxutils import escape

from radoboost.errors import ArgumentError
from radoboost.privacy import (
    Composed,
    best_guess,
    convert_relation,
    event_from_dict,
    group_epsilon,
    group_event,
    group_words,
)
from radoboost.privacy.conversions import GROUPS
from radoboost.release.release import Statement, percent_up, rounded_up
from radoboost.release.statement_text import epsilon_text

_WIDTH, _LEFT, _RIGHT = 340, 4, 336
_TOP, _LINE, _BAR = 22, 18, 52  # of the scale, of a line of words, and of a bar with its figures
_LETTERS = 44  # of a line


@dataclass(frozen=True)
class Bar:
    """One line of a picture: of whom, how often an adversary is right at most, and the epsilon behind that."""

    whom: str
    guess: float
    epsilon: float
    delta: float

    @property
    def sentence(self) -> str:
        """The line in words; it names its neighbours."""
        if math.isinf(self.epsilon):
            return f"{self.whom}: nothing is promised; an adversary may become certain"
        return (
            f"{self.whom}: right at most {percent_up(self.guess)} % of the time, where a coin is right 50 % of the time"
            f" (epsilon {epsilon_text(self.epsilon)} at delta {rounded_up(self.delta, 6)})"
        )


@dataclass(frozen=True)
class ChartPanel:
    """Bars that belong together, as SVG, with the same in words."""

    title: str
    bars: tuple[Bar, ...]

    @property
    def words(self) -> list[str]:
        return [bar.sentence for bar in self.bars]

    def svg(self, name: str) -> str:
        """The picture; it has no script and no style of its own, and its words are its text alternative."""
        drawn, height = "", _TOP
        for bar in self.bars:
            lines = textwrap.wrap(bar.whom, _LETTERS)
            drawn += _bar(bar, lines, height)
            height += _LINE * len(lines) + _BAR
        return (
            f'<svg class="promise" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="{name}-t {name}-d" '
            f'xmlns="http://www.w3.org/2000/svg"><title id="{name}-t">{escape(self.title)}</title>'
            f'<desc id="{name}-d">{escape(". ".join(self.words))}.</desc>'
            f'<text class="scale" x="{_LEFT}" y="14">a coin: 50 %</text>'
            f'<text class="scale end" x="{_RIGHT}" y="14" text-anchor="end">certain: 100 %</text>{drawn}</svg>'
        )


def panels(statement: Statement) -> tuple[ChartPanel, ...]:
    """The pictures of a statement: one, several together, and, where it was composed, with earlier releases."""
    title = "What an adversary can find out"
    if math.isinf(statement.epsilon):
        shown = [ChartPanel(title, (Bar(statement.neighbours, 1.0, math.inf, statement.delta),))]
    else:
        shown = [
            ChartPanel(title, (Bar(statement.neighbours, statement.best_guess, statement.epsilon, statement.delta),)),
            ChartPanel("About several together", tuple(_groups(statement))),
        ]
    if statement.composed is not None:
        shown.append(ChartPanel("With earlier releases of this table", (_together(statement),)))
    return tuple(shown)


def _groups(statement: Statement) -> list[Bar]:
    event, bars = event_from_dict(statement.event), []
    for size in GROUPS:
        with suppress(ArgumentError):  # a group beyond what is accounted for
            epsilon = group_epsilon(event, statement.delta, size)
            guess = best_guess(group_event(event, size))
            bars.append(Bar(group_words(event.relation, size), guess, epsilon, statement.delta))
    return bars


def _together(statement: Statement) -> Bar:
    total = statement.composed or {}
    whom = f"{total['neighbours']}, in this release and {total['earlier_releases']} earlier"
    event = event_from_dict(statement.event)
    if event.relation is None or not isinstance(total["epsilon"], int | float):
        return Bar(whom, 1.0, math.inf, total["delta"])
    earlier = [convert_relation(event_from_dict(entry["event"]), event.relation) for entry in total["releases"]]
    return Bar(whom, best_guess(Composed((event, *earlier))), total["epsilon"], total["delta"])


def _bar(bar: Bar, lines: list[str], top: int) -> str:
    width = (_RIGHT - _LEFT) * max(0.0, min(1.0, 2 * bar.guess - 1))
    if math.isinf(bar.epsilon):
        figure, aside = "may become certain", "epsilon infinite"
    else:
        figure, aside = f"{percent_up(bar.guess)} % at most", f"epsilon {epsilon_text(bar.epsilon)}"
    words = "".join(
        f'<text class="whom" x="{_LEFT}" y="{top + _LINE * (k + 1) - 2}">{escape(line)}</text>'
        for k, line in enumerate(lines)
    )
    top += _LINE * len(lines)
    return (
        f'{words}<rect class="track" x="{_LEFT}" y="{top + 4}" width="{_RIGHT - _LEFT}" height="12" rx="6"/>'
        f'<rect class="reach" x="{_LEFT}" y="{top + 4}" width="{max(width, 2):.1f}" height="12" rx="6"/>'
        f'<text class="figure" x="{_LEFT}" y="{top + 34}">{escape(figure)}</text>'
        f'<text class="scale" x="{_RIGHT}" y="{top + 34}" text-anchor="end">{escape(aside)}</text>'
    )
