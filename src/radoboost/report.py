"""A release in words, for people."""

import math
import textwrap

from radoboost.release import Release

_WIDTH = 100
_SHOWN_COLUMNS = 12


def describe(release: Release) -> str:
    """What a release is, what it promises and what it does not, as text for a terminal.

    >>> import radoboost as rb
    >>> release = rb.craft([[1.0], [2.0], [3.0]], [0, 1, 1], n_rados=4, seed=0)
    >>> print(describe(release).splitlines()[0])
    4 rados of 2 features, from 3 examples
    """
    examples = "an undisclosed number of" if release.n_examples is None else f"{release.n_examples:,}"
    statement = release.statement
    epsilon = "infinite" if math.isinf(statement.epsilon) else f"{statement.epsilon:g}"
    lines = [
        f"{release.n_rados:,} rados of {len(release.columns):,} features, from {examples} examples",
        f"classes      {release.classes[0]!r} is -1, {release.classes[1]!r} is +1",
        f"mechanism    {_named(release.mechanism)}",
        f"signatures   {_named(release.signatures)}",
        "",
        "What is promised",
        *_listed(statement.promises or ("Nothing: this release carries no privacy guarantee.",)),
        *_listed((f"epsilon {epsilon}, delta {statement.delta:g}, for {statement.neighbours} as neighbours",)),
        "",
        "What is not protected",
        *_listed(statement.not_protected),
        "",
        f"{'column':<32}{'scale':<10}{'mean':>12}{'std':>12}{'low':>10}{'high':>10}{'grid step':>12}",
    ]
    for column in release.columns[:_SHOWN_COLUMNS]:
        numbers = "".join(
            f"{'' if value is None else format(value, '.5g'):>{width}}"
            for value, width in ((column.mean, 12), (column.std, 12), (column.low, 10), (column.high, 10))
        )
        name = textwrap.shorten(column.name, 30, placeholder="...")
        lines.append(f"{name:<32}{column.scale:<10}{numbers}{'2**' + str(math.frexp(column.step)[1] - 1):>12}")
    if len(release.columns) > _SHOWN_COLUMNS:
        lines.append(f"... and {len(release.columns) - _SHOWN_COLUMNS} more; --json shows all")
    return "\n".join(lines)


def _named(entry: object) -> str:
    described = dict(entry)  # type: ignore[call-overload]
    name = described.pop("name")
    return str(name) + "".join(f", {key} {value}" for key, value in described.items())


def _listed(sentences: tuple[str, ...]) -> list[str]:
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    ]
