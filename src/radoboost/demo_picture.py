"""The picture of the demo: what stays, and what leaves."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.release import Release, replacing

_PICTURED = ("mean texture", "worst radius")
_COLOURS = {"benign": "#2471a3", "malignant": "#c0392b", "moments": "#1e8449"}


def draw_demo(table: pa.Table, label: str, release: Release, path: Path) -> None:
    """Two panels: the patients, and the rados."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 4.8), layout="constrained")
    stays, leaves = figure.subplots(1, 2)
    draw_both(stays, leaves, table, label, release)
    with replacing(path) as draft:
        figure.savefig(draft, dpi=110, format="png")


def draw_both(stays: Any, leaves: Any, table: pa.Table, label: str, release: Release) -> None:
    """The patients into one panel, and the rados into the other."""
    places = [release.feature_names.index(f"log({name})") for name in _PICTURED]
    _draw_patients(stays, table, label, release, places)
    _draw_rados(leaves, release.rados[:, places])
    for axes in (stays, leaves):
        axes.set_xlabel(f"{_PICTURED[0]}, signed log")
        axes.set_ylabel(f"{_PICTURED[1]}, signed log")
        axes.spines[["top", "right"]].set_visible(False)


def _draw_patients(axes: Any, table: pa.Table, label: str, release: Release, places: list[int]) -> None:
    assert release.map is not None
    rows = release.map.apply(np.column_stack([table.column(name).to_numpy() for name in release.map.input_names]))
    patients = np.column_stack([release.columns[k].apply(rows[:, k]) for k in places])
    labels = np.array(table[label].to_pylist())
    for name in ("malignant", "benign"):
        points = patients[labels == name]
        axes.scatter(*points.T, s=12, alpha=0.7, color=_COLOURS[name], label=f"{name} ({len(points)})")
    axes.set_title(f"stays: {len(patients)} patients, standardised")
    axes.legend(frameon=False)


def _draw_rados(axes: Any, rados: NDArray[np.float64]) -> None:
    from matplotlib.patches import Ellipse

    axes.scatter(*rados.T, s=9, alpha=0.6, color="#555555", label="one rado")
    centre, spread = rados.mean(axis=0), np.linalg.eigh(np.cov(rados.T))
    angle = np.degrees(np.arctan2(*spread.eigenvectors[::-1, 1]))
    width, height = 4 * np.sqrt(spread.eigenvalues[::-1])
    axes.add_patch(Ellipse(centre, width, height, angle=angle, fill=False, color=_COLOURS["moments"], lw=1.8))
    axes.plot(*centre, "+", color=_COLOURS["moments"], ms=12, mew=2, label="mean, and two standard deviations")
    axes.set_title(f"leaves: {len(rados)} rados, each a sum over about half of them")
    axes.legend(frameon=False)
