"""Figures drawn from data: panels in a grid, one legend, colours and shapes that most eyes can tell apart."""

import io
import math
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from radoboost.release.file_format import is_rado_block_name
from radoboost.release.release import Release
from radoboost.report.findings import Figure, Panel, Series, Values
from radoboost.report.terminal import printable

_ONE_AT_A_TIME = threading.Lock()  # settings of matplotlib and filters of warnings are those of the whole process
# The colours of Okabe and Ito that stand out from white; each has a shape, too, so that nobody needs colour alone.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
_SHAPES = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: dict[str, Any] = {"line": "-", "step": "-", "dashed": (0, (4, 1.5)), "flat": (0, (1, 1.2)), "points": "none"}
_SHADE = {"alpha": 0.2, "lw": 0}
_FEW = 12  # places along a logarithmic axis: if no more than this were measured, they are its ticks
_MANY = 30  # more points than this are drawn without markers, and their errors as a band
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class PlotLayout:
    """How large a picture is: its width and a panel's height in inches, by panels a row, and its text in points."""

    widths: tuple[float, ...]
    heights: tuple[float, ...]
    text: float

    def columns(self, n_panels: int) -> int:
        """How many panels to put into a row, so that the last row is as full as possible."""
        limit = len(self.widths)
        if limit == 2:
            return 1 if n_panels <= 3 else 2
        return n_panels if n_panels <= limit else min((limit, limit - 1), key=lambda columns: -n_panels % columns)


@dataclass(frozen=True)
class _PlotStyle:
    colour: str
    shape: str


WIDE = PlotLayout((7.0, 9.5, 11.5, 11.5), (4.0, 3.4, 2.7, 2.2), 10.0)
NARROW = PlotLayout((4.0, 4.0), (2.5, 1.5), 7.5)


@dataclass(frozen=True)
class Picture:
    """A figure as files: SVG for wide and for narrow screens, with letters as outlines, and PNG for wide ones."""

    wide_svg: bytes
    narrow_svg: bytes
    wide_png: bytes


def draw_figure(figure: Figure, labels: Iterable[str] = ()) -> Picture:
    """Draw a figure; the same figure gives the same bytes.

    Colours go to `labels` first, in their order: figures that are drawn with the same `labels` share their colours.
    """
    looks = _plot_styles(dict.fromkeys([*labels, *labels_of_figure(figure)]))
    looks = {label: looks[label] for label in labels_of_figure(figure)}
    wide_svg, wide_png = _render_figure(figure, looks, WIDE, ("svg", "png"))
    return Picture(wide_svg, _render_figure(figure, looks, NARROW, ("svg",))[0], wide_png)


def labels_of_figure(figure: Figure) -> list[str]:
    """The labels of series and bands, each once, in the order in which they come."""
    labels = ([item.label for item in panel.series] + [item.label for item in panel.bands] for panel in figure.panels)
    return list(dict.fromkeys(label for part in labels for label in part))


def count_points_not_drawn(figure: Figure) -> int:
    """How many points cannot be shown, since their axis is logarithmic and they are not above 0."""
    return sum(
        value is not None and value <= 0
        for panel in figure.panels
        if panel.log_y
        for series in panel.series
        for value in series.y
    )


def _render_figure(
    figure: Figure, looks: dict[str, _PlotStyle], sheet: PlotLayout, formats: tuple[str, ...]
) -> list[bytes]:
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    files = []
    with _plot_settings(sheet):
        canvas = _plot_canvas(figure, looks, sheet)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # the layout takes longest; it is done now, not again for each format
        for name in formats:
            file = io.BytesIO()
            canvas.savefig(file, format=name, dpi=150, metadata=metadata[name])
            files.append(file.getvalue())
    return files


@contextmanager
def _plot_settings(sheet: PlotLayout) -> Iterator[None]:
    """Give the same look whatever the user's own settings, and take no name with a dollar sign for mathematics."""
    import matplotlib

    with _ONE_AT_A_TIME, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.size": sheet.text,
                "axes.titlesize": 1.05 * sheet.text,
                "axes.titleweight": "bold",
                "axes.labelsize": sheet.text,
                "xtick.labelsize": 0.9 * sheet.text,
                "ytick.labelsize": 0.9 * sheet.text,
                "legend.fontsize": sheet.text,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.grid": True,
                "axes.axisbelow": True,
                "grid.color": "#e4e4e4",
                "grid.linewidth": 0.6,
                "text.parse_math": False,
                "svg.hashsalt": "radoboost",
            }
        )
        yield


def _plot_canvas(figure: Figure, looks: dict[str, _PlotStyle], sheet: PlotLayout) -> Any:
    from matplotlib.figure import Figure as Canvas

    panels = figure.panels
    n_words = [len(_plot_axis_labels(panel)) for panel in panels]
    columns = 1 if sheet is NARROW and max(n_words) > 4 else sheet.columns(len(panels))
    rows = math.ceil(len(panels) / columns)
    width, height = sheet.widths[columns - 1], sheet.heights[columns - 1] + (0.6 if any(n_words) else 0)
    handles: dict[str, Any] = {}
    names, names_a_row = _plot_legend(list(looks), int(1.8 * 72 * width / sheet.text))
    total_height = rows * height + 1.5 * math.ceil(len(names) / names_a_row) * sheet.text / 72
    canvas = Canvas(figsize=(width, total_height + 0.2), layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False).ravel()
    shared_x = len({panel.x_label for panel in panels}) == 1
    shared_y = len({panel.y_label for panel in panels}) == 1
    letters_wide, letters_high = (
        int(1.6 * 72 * inches / sheet.text) for inches in (width / columns - 0.5, height - 0.4)
    )
    for place, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        _plot_panel(axes, panel, looks, handles, letters_wide, small=columns > 1 or sheet is NARROW)
        axes.set_title(_wrap_plot_text(panel.title, 0.85 * letters_wide))
        if not shared_x or place + columns >= len(panels):
            axes.set_xlabel(_wrap_plot_text(panel.x_label, letters_wide))
        if not shared_y or place % columns == 0:
            axes.set_ylabel(_wrap_plot_text(panel.y_label, letters_high))
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    if names:
        options = {"loc": "outside upper center", "frameon": False, "columnspacing": 1.4}
        canvas.legend([handles[label] for label in looks], names, ncols=names_a_row, **options)
    return canvas


def _plot_legend(labels: list[str], n_letters: int) -> tuple[list[str], int]:
    """The labels, wrapped, and how many of them go into a row of `n_letters` letters."""
    names = [_wrap_plot_text(label, n_letters - 8) for label in labels]
    longest = max((len(line) for name in names for line in name.splitlines()), default=0)
    return names, max(1, min(len(names), n_letters // (longest + 7)))


def _wrap_plot_text(text: str, n_letters: float) -> str:
    return "\n".join(textwrap.wrap(printable(text), max(8, int(n_letters))))


def _plot_styles(labels: Iterable[str]) -> dict[str, _PlotStyle]:
    """A colour and a shape for each label; when colours repeat, they go with other shapes."""
    return {
        label: _PlotStyle(PALETTE[place % len(PALETTE)], _SHAPES[(place + place // len(PALETTE)) % len(_SHAPES)])
        for place, label in enumerate(labels)
    }


def _plot_panel(
    axes: Any, panel: Panel, looks: dict[str, _PlotStyle], handles: dict[str, Any], n_letters: int, *, small: bool
) -> None:
    """Draw one panel, `n_letters` letters wide, and put what the legend shows of each label into `handles`."""
    words = _plot_axis_labels(panel)
    log_y = panel.log_y
    if panel.log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    for band in panel.bands:
        low, high = (_plotted_values(values, log=log_y) for values in (band.low, band.high))
        shade = axes.fill_between(_axis_positions(band.x, words), low, high, color=looks[band.label].colour, **_SHADE)
        handles.setdefault(band.label, shade)
    point_labels = [item.label for item in panel.series if item.style == "points"] if words else []
    for series in panel.series:
        label = series.label
        shift = 0.5 * ((point_labels.index(label) + 0.5) / len(point_labels) - 0.5) if label in point_labels else 0.0
        x = [place + shift for place in _axis_positions(series.x, words)]
        line = _plot_series(axes, series, x, _plotted_values(series.y, log=log_y), looks[label], small=small)
        if not isinstance(handles.get(label), type(line)):  # a line stands for its label better than its band does
            handles[label] = line
    _set_plot_ticks(axes, panel, words, n_letters, small=small)


def _plot_axis_labels(panel: Panel) -> list[str]:
    """The places along x that are text, each once."""
    return list(dict.fromkeys(x for item in panel.placed for x in item.x if isinstance(x, str)))


def _axis_positions(x: Values, words: list[str]) -> list[float]:
    return [words.index(place) if isinstance(place, str) else place for place in x]


def _plotted_values(values: Values, *, log: bool) -> list[float]:
    return [math.nan if value is None or (log and value <= 0) else value for value in values]


def _plot_series(axes: Any, series: Series, x: list[float], y: list[float], look: _PlotStyle, *, small: bool) -> Any:
    style, size = series.style, 3.5 if small else 5.0
    error = series.error
    dashes = _DASHES[style]
    if style == "flat":
        if error is not None and error[0]:
            axes.axhspan(y[0] - error[0], y[0] + error[0], color=look.colour, **_SHADE)
        return axes.axhline(y[0], color=look.colour, ls=dashes, lw=1.8)
    many = len(y) > _MANY
    shape = look.shape if style == "points" or not many else ""
    options = {"drawstyle": "steps-post"} if style == "step" else {}
    (line,) = axes.plot(
        x, y, marker=shape, ls=dashes, color=look.colour, lw=1.4, ms=size if not many else 0.6 * size, **options
    )
    line.set_rasterized(len(y) > 5000)
    if error is not None:
        spread = _plotted_values(error, log=False)
        if many and style != "points":
            low, high = ([a + side * b for a, b in zip(y, spread, strict=True)] for side in (-1, 1))
            axes.fill_between(x, low, high, color=look.colour, **_SHADE)
        else:
            axes.errorbar(x, y, spread, fmt="none", ecolor=look.colour, elinewidth=0.9, capsize=size / 2)
    marked = series.marked
    rings = {"marker": "o", "ls": "none", "mfc": "none", "mec": "#222222", "mew": 1.1, "ms": 2.4 * size, "zorder": 5}
    axes.plot([x[place] for place in marked], [y[place] for place in marked], **rings)
    return line


def _set_plot_ticks(axes: Any, panel: Panel, words: list[str], n_letters: int, *, small: bool) -> None:
    from matplotlib import ticker

    for axis, log in ((axes.xaxis, panel.log_x), (axes.yaxis, panel.log_y)):
        low, high = sorted(axis.get_view_interval())
        if log:
            decades, plain = math.log10(high / low), low >= 1e-4 and high <= 1e5
            axis.set_major_locator(ticker.LogLocator(subs=[1.0] if decades > 2 else [1.0, 2.0, 5.0]))
            axis.set_major_formatter(
                ticker.FuncFormatter(lambda value, _, plain=plain: _plot_tick_text(value, plain=plain))
            )
            axis.set_minor_locator(ticker.NullLocator())
        elif small:
            axis.set_major_locator(ticker.MaxNLocator(4))
    if panel.log_x:
        places = sorted({x for item in panel.placed for x in item.x})
        ticks = _plot_ticks(places, n_letters)
        if len(places) <= _FEW and len(ticks) > 1:
            axes.set_xticks(ticks)
    if words:
        upright = max(map(len, words)) * len(words) < n_letters
        axes.set_xticks(range(len(words)), map(printable, words))
        axes.tick_params(axis="x", rotation=0 if upright else 45)
        for label in axes.get_xticklabels():
            label.set(ha="center" if upright else "right", rotation_mode="anchor")
        axes.set_xlim(-0.6, len(words) - 0.4)


def _plot_ticks(places: list[float], n_letters: int) -> list[float]:
    """As many of the places along a logarithmic axis as have room for their number, on `n_letters` letters."""
    ticks: list[float] = []
    for x in places:
        room = n_letters * math.log(x / ticks[-1]) / math.log(places[-1] / places[0]) if ticks else math.inf
        if room > len(_plot_tick_text(x)) + 1:
            ticks.append(x)
    return ticks


def _plot_tick_text(value: float, *, plain: bool = True) -> str:
    """A number along a logarithmic axis, written out (`plain`) or as a power of ten."""
    if plain or value == 1:
        return f"{value:g}"
    exponent = math.floor(math.log10(value) + 1e-9)
    factor = f"{value / 10.0**exponent:g}"
    return f"{'' if factor == '1' else factor + '·'}10{str(exponent).translate(_SUPERSCRIPTS)}"


# ---- Numbers as squares of colour: the rados of a release, and how its columns go together, as SVG.

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


def plot_release_matrices(release: Release) -> tuple[MatrixPicture, ...]:
    """The rados of a release, if it has any, and its moments: how its columns go together."""
    block = next((name for name in release.blocks if is_rado_block_name(name)), None)
    pictures = [] if block is None else [_plot_rados_matrix(release, block)]
    if "moment:C" in release.blocks:
        names = release.columns_of("moment:C")
        scaled = _scale_moments_to_plot(release.blocks["moment:C"])
        what = "The noisy second moments of the release"
    elif block is not None and len(release.blocks[block]) > 1:
        names = release.columns_of(block)
        scaled = _scale_moments_to_plot(np.cov(release.blocks[block], rowvar=False, ddof=0).reshape(len(names), -1))
        what = "The covariance of the rados"
    else:
        return tuple(pictures)
    return (*pictures, _plot_moments_matrix(what, names, scaled))


def _plot_rados_matrix(release: Release, block: str) -> MatrixPicture:
    rows, names = release.blocks[block], release.columns_of(block)
    spread = rows.std(axis=0)
    with np.errstate(all="ignore"):
        cells = np.nan_to_num((rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).T / 3
    n_columns, n_rados = cells.shape
    n_classes = release.n_classes
    of = f", those of the class {release.classes[0]}" if n_classes > 2 else ""
    columns = _plotted_share_text(n_columns, _MOST_COLUMNS, "columns")
    shown = f"{columns} and {_plotted_share_text(n_rados, _MOST_RADOS, 'rados')}{of}"
    return MatrixPicture(
        "rados",
        "The rados",
        f"A grid of coloured squares, a line for each column and a square for each rado: {shown}.",
        f"Each line is a column and each square a rado: orange above the mean of its column, blue below, darker the "
        f"farther, up to three standard deviations. Shown: {shown}. Rows of the table are not among them: a rado is "
        "about all rows at once.",
        _matrix_as_svg(names, cells[:_MOST_COLUMNS, :_MOST_RADOS], _WIDE),
        _matrix_as_svg(names, cells[:_MOST_COLUMNS, :_FEW_RADOS], _NARROW),
    )


def _plot_moments_matrix(what: str, names: tuple[str, ...], scaled: Floats) -> MatrixPicture:
    few = scaled[:_MOST_COLUMNS, :_MOST_COLUMNS]
    svg = _matrix_as_svg(names, few, _NARROW)
    shown = _plotted_share_text(len(names), _MOST_COLUMNS, "columns")
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


def _scale_moments_to_plot(matrix: Floats) -> Floats:
    """A matrix of moments as numbers from -1 to 1; noise may have made a moment on the diagonal negative."""
    sizes = np.sqrt(np.abs(np.diag(matrix)))
    with np.errstate(all="ignore"):
        scaled: Floats = np.nan_to_num(
            matrix / np.outer(np.where(sizes > 0, sizes, 1.0), np.where(sizes > 0, sizes, 1.0))
        )
    return np.clip(scaled, -1.0, 1.0)


def _plotted_share_text(number: int, most: int, what: str) -> str:
    return f"all {number:,} {what}" if number <= most else f"the first {most} of {number:,} {what}"


def _matrix_as_svg(names: tuple[str, ...], cells: Any, room: int) -> bytes:
    """Squares by colour, one path for each, with names at the left; no style and no script."""
    levels = np.rint(np.clip(cells, -1.0, 1.0) * _LEVELS).astype(int)
    height, width = levels.shape
    cell = max(_LEAST_CELL, min(_LARGEST_CELL, _HEIGHT // height, room // width))
    paths = []
    for level in np.unique(levels).tolist():
        places = np.argwhere(levels == level)
        squares = "".join(f"M{_LABELS + cell * x} {cell * y}h{cell}v{cell}h-{cell}z" for y, x in places.tolist())
        paths.append(f'<path fill="{_colour_of_matrix_cell(level / _LEVELS)}" d="{squares}"/>')
    words = "".join(
        f'<text x="{_LABELS - 6}" y="{cell * y + cell // 2 + 4}" text-anchor="end">{escape(_plot_label(name))}</text>'
        for y, name in enumerate(names[:height])
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABELS + cell * width}" height="{cell * height}" '
        f'viewBox="0 0 {_LABELS + cell * width} {cell * height}" font-family="sans-serif" font-size="11" '
        f'fill="#1d1f23">{words}<g stroke="#fff" stroke-width="1">{"".join(paths)}</g></svg>'
    ).encode()


def _colour_of_matrix_cell(share: float) -> str:
    """From blue at -1 by white to orange at 1."""
    end = _HIGH if share > 0 else _LOW
    parts = [round(middle + abs(share) * (far - middle)) for middle, far in zip(_MIDDLE, end, strict=True)]
    return f"#{''.join(f'{part:02x}' for part in parts)}"


def _plot_label(name: str) -> str:
    text = printable(name)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
