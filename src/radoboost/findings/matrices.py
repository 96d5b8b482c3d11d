"""Numbers as squares of colour: the rados of a release, and how its columns go together, as SVG."""

from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from radoboost.findings.screen import printable
from radoboost.release import Release
from radoboost.release.blocks import holds_rados

Floats = NDArray[np.float64]
_LABELS, _LETTERS = 132, 18
_LEAST_CELL, _LARGEST_CELL, _HEIGHT = 12, 26, 288
_MOST_COLUMNS, _MOST_RADOS, _FEW_RADOS = 24, 56, 18  # on wide screens, and on narrow ones
_WIDE, _NARROW = 12 * _MOST_RADOS, 12 * _FEW_RADOS
_LEVELS = 6  # of either sign
_LOW, _MIDDLE, _HIGH = (0, 84, 159), (247, 247, 247), (190, 72, 0)


@dataclass(frozen=True)
class MatrixPicture:
    """A picture of numbers for wide screens and for narrow ones, with a caption; `alt` says it to who sees none."""

    name: str
    title: str
    alt: str
    caption: str
    wide_svg: bytes
    narrow_svg: bytes


def release_pictures(release: Release) -> tuple[MatrixPicture, ...]:
    """The rados of a release, if it has any, and its moments: how its columns go together."""
    block = next((name for name in release.blocks if holds_rados(name)), None)
    pictures = [] if block is None else [_rados(release, block)]
    if "moment:C" in release.blocks:
        names = release.columns_of("moment:C")
        scaled = _scaled(release.blocks["moment:C"])
        what = "The noisy second moments of the release"
    elif block is not None and len(release.blocks[block]) > 1:
        names = release.columns_of(block)
        scaled = _scaled(np.cov(release.blocks[block], rowvar=False, ddof=0).reshape(len(names), -1))
        what = "The covariance of the rados"
    else:
        return tuple(pictures)
    return (*pictures, _moments(what, names, scaled))


def _rados(release: Release, block: str) -> MatrixPicture:
    rows, names = release.blocks[block], release.columns_of(block)
    spread = rows.std(axis=0)
    with np.errstate(all="ignore"):
        cells = np.nan_to_num((rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).T / 3
    n_columns, n_rados = cells.shape
    n_classes = release.n_classes
    of = f", those of the class {release.classes[0]}" if n_classes > 2 else ""
    shown = f"{_of(n_columns, _MOST_COLUMNS, 'columns')} and {_of(n_rados, _MOST_RADOS, 'rados')}{of}"
    return MatrixPicture(
        "rados",
        "The rados",
        f"A grid of coloured squares, a line for each column and a square for each rado: {shown}.",
        f"Each line is a column and each square a rado: orange above the mean of its column, blue below, darker the "
        f"farther, up to three standard deviations. Shown: {shown}. Rows of the table are not among them: a rado is "
        "about all rows at once.",
        _svg(names, cells[:_MOST_COLUMNS, :_MOST_RADOS], _WIDE),
        _svg(names, cells[:_MOST_COLUMNS, :_FEW_RADOS], _NARROW),
    )


def _moments(what: str, names: tuple[str, ...], scaled: Floats) -> MatrixPicture:
    few = scaled[:_MOST_COLUMNS, :_MOST_COLUMNS]
    svg = _svg(names, few, _NARROW)
    shown = _of(len(names), _MOST_COLUMNS, "columns")
    return MatrixPicture(
        "moments",
        "How columns go together",
        f"A square grid of coloured squares, a line and a row for each column: {shown}.",
        f"{what}, each entry over the geometric mean of those on the diagonal: orange for columns that rise together, "
        "blue for one that falls where the other rises, with classes as signs. Across stand the same columns in the "
        f"same order. Shown: {shown}. This is what learners use.",
        svg,
        svg,
    )


def _scaled(matrix: Floats) -> Floats:
    """A matrix of moments as numbers from -1 to 1; noise may have made a moment on the diagonal negative."""
    sizes = np.sqrt(np.abs(np.diag(matrix)))
    with np.errstate(all="ignore"):
        scaled: Floats = np.nan_to_num(
            matrix / np.outer(np.where(sizes > 0, sizes, 1.0), np.where(sizes > 0, sizes, 1.0))
        )
    return np.clip(scaled, -1.0, 1.0)


def _of(number: int, most: int, what: str) -> str:
    return f"all {number:,} {what}" if number <= most else f"the first {most} of {number:,} {what}"


def _svg(names: tuple[str, ...], cells: Any, room: int) -> bytes:
    """Squares by colour, one path for each, with names at the left; no style and no script."""
    levels = np.rint(np.clip(cells, -1.0, 1.0) * _LEVELS).astype(int)
    height, width = levels.shape
    cell = max(_LEAST_CELL, min(_LARGEST_CELL, _HEIGHT // height, room // width))
    paths = []
    for level in np.unique(levels).tolist():
        places = np.argwhere(levels == level)
        squares = "".join(f"M{_LABELS + cell * x} {cell * y}h{cell}v{cell}h-{cell}z" for y, x in places.tolist())
        paths.append(f'<path fill="{_colour(level / _LEVELS)}" d="{squares}"/>')
    words = "".join(
        f'<text x="{_LABELS - 6}" y="{cell * y + cell // 2 + 4}" text-anchor="end">{escape(_short(name))}</text>'
        for y, name in enumerate(names[:height])
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABELS + cell * width}" height="{cell * height}" '
        f'viewBox="0 0 {_LABELS + cell * width} {cell * height}" font-family="sans-serif" font-size="11" '
        f'fill="#1d1f23">{words}<g stroke="#fff" stroke-width="1">{"".join(paths)}</g></svg>'
    ).encode()


def _colour(share: float) -> str:
    """From blue at -1 by white to orange at 1."""
    end = _HIGH if share > 0 else _LOW
    parts = [round(middle + abs(share) * (far - middle)) for middle, far in zip(_MIDDLE, end, strict=True)]
    return f"#{''.join(f'{part:02x}' for part in parts)}"


def _short(name: str) -> str:
    text = printable(name)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
