"""The picture of the demo: what stays, what leaves, and what is learned from it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.release import Release, replacing

_PICTURED = ("mean texture", "worst radius")
_COLOURS = {"benign": "#2471a3", "malignant": "#c0392b", "moments": "#1e8449", "boost": "#b9770e", "private": "#6c3483"}


@dataclass(frozen=True)
class Errors:
    """Cross-validated errors.

    `plain` has those of plain releases by learner, shape (sizes, draws); `private` those of as many releases with an
    epsilon, which hardly depend on the number of rados; `promise` says which epsilon, and between which tables.
    """

    sizes: tuple[int, ...]
    plain: dict[str, NDArray[np.float64]]
    private: NDArray[np.float64]
    peer: float
    promise: str


def draw_demo(table: pa.Table, label: str, release: Release, errors: Errors, path: Path) -> None:
    """Three panels: the patients, the rados, and error against the number of rados."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.8), layout="constrained")
    stays, leaves, learned = figure.subplots(1, 3)
    places = [release.feature_names.index(f"log({name})") for name in _PICTURED]
    _draw_patients(stays, table, label, release, places)
    _draw_rados(leaves, release.rados[:, places])
    for axes in (stays, leaves):
        axes.set_xlabel(f"{_PICTURED[0]}, signed log")
        axes.set_ylabel(f"{_PICTURED[1]}, signed log")
    _draw_errors(learned, errors)
    for axes in (stays, leaves, learned):
        axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as draft:
        figure.savefig(draft, dpi=110, format="png")


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


def _draw_errors(axes: Any, errors: Errors) -> None:
    for name, title in (("boost", "RadoBoost"), ("moments", "moments")):
        percent = 100 * errors.plain[name]
        axes.fill_between(errors.sizes, percent.min(axis=1), percent.max(axis=1), color=_COLOURS[name], alpha=0.2, lw=0)
        axes.plot(errors.sizes, percent.mean(axis=1), "o-", color=_COLOURS[name], label=f"{title}, from plain rados")
    percent = 100 * errors.private
    axes.axhspan(percent.min(), percent.max(), color=_COLOURS["private"], alpha=0.12, lw=0)
    axes.axhline(percent.mean(), color=_COLOURS["private"], label=errors.promise)
    axes.axhline(100 * errors.peer, color="black", ls="--", lw=1.2, label="logistic regression, on the raw table")
    axes.set_xscale("log")
    axes.set_xticks(errors.sizes, [f"{size:,}" for size in errors.sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("number of rados")
    axes.set_ylabel("error, %")
    axes.set_title(f"learned: mean, least and most of {len(errors.private)} draws")
    axes.legend(frameon=False)
