"""The flow so far on data that ships with scikit-learn, with a picture of what leaves the building."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.crafting import craft
from radoboost.errors import OutputError, reason
from radoboost.release import Release, load, replacing

_PICTURED = ("mean texture", "worst radius")


def run_demo(directory: Path, say: Callable[[str], None]) -> tuple[Release, list[Path]]:
    """Craft, release and picture scikit-learn's breast-cancer data; returns the release and the files written.

    >>> import tempfile
    >>> release, files = run_demo(Path(tempfile.mkdtemp()), lambda line: None)
    >>> [file.name for file in files]
    ['breast-cancer.rado.parquet', 'breast-cancer.png']
    """
    from sklearn.datasets import load_breast_cancer

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {directory}: {reason(error)}; choose another") from None
    bunch = load_breast_cancer()
    patients = pa.table(dict(zip(bunch.feature_names.tolist(), bunch.data.T, strict=True)))
    say(
        f"The table: {patients.num_rows} patients, {patients.num_columns} measurements each, "
        "tumour malignant (0) or benign (1)."
    )
    release = craft(patients, bunch.target, n_rados=1000)
    say(
        f"Crafted {release.n_rados} rados. Each is one row: the sum, over a secret random half of the patients, of a "
        "patient's standardised measurements, with the sign turned for malignant tumours."
    )
    file = directory / "breast-cancer.rado.parquet"
    release.save(file)
    say(f"Released them in {file} ({file.stat().st_size / 1024:.0f} KiB), with a statement of what is protected.")
    release = load(file)
    say("Read it back: the digest is right, so nothing was damaged on the way.")
    picture = directory / "breast-cancer.png"
    _draw(patients, bunch.target, release, picture)
    say(f"Drew {picture}: the patients on the left stay in the building, the rados on the right leave it.")
    return release, [file, picture]


def _draw(table: pa.Table, labels: NDArray[np.int_], release: Release, path: Path) -> None:
    """Patients and rados over the same two columns."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Ellipse

    places = [release.feature_names.index(name) for name in _PICTURED]
    patients = np.column_stack(
        [release.columns[k].apply(table.column(release.columns[k].name).to_numpy()) for k in places]
    )
    rados = release.rados[:, places]
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for value, colour, name in ((0, "#c0392b", "malignant"), (1, "#2471a3", "benign")):
        chosen = patients[labels == value]
        left.scatter(*chosen.T, s=12, alpha=0.7, color=colour, label=f"{name} ({len(chosen)})")
    left.set_title(f"stays: {len(patients)} patients, standardised")
    left.legend(frameon=False)
    right.scatter(*rados.T, s=9, alpha=0.6, color="#555555", label="one rado")
    centre, spread = rados.mean(axis=0), np.linalg.eigh(np.cov(rados.T))
    angle = np.degrees(np.arctan2(*spread.eigenvectors[::-1, 1]))
    width, height = 4 * np.sqrt(spread.eigenvalues[::-1])
    right.add_patch(Ellipse(centre, width, height, angle=angle, fill=False, color="#1e8449", lw=1.8))
    right.plot(*centre, "+", color="#1e8449", ms=12, mew=2, label="mean, and two standard deviations")
    right.set_title(f"leaves: {len(rados)} rados, each a sum over about half of them")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.set_xlabel(_PICTURED[0])
        axes.set_ylabel(_PICTURED[1])
        axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as beside:
        figure.savefig(beside, dpi=130, format="png")
