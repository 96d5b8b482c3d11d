"""The paper's domains by name: CSV files with a header, or the files of the UCI archive as they come."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.tables.csv_files import CSV_BLOCK_BYTES
from radoboost.tables.paths import one_line_errors, open_csv_stream

_HASHED = 1 << 24  # bytes from the front of a file that tell it from others, with its size


@dataclass(frozen=True)
class DomainFile:
    """Where a domain is from: its name in the paper, in the UCI archive, and the archive's own file, if that is read.

    `label` says how the archive's file holds the class: "first" is 0 or 1 in the first column, "mean" a number in the
    last one, of which the sign of its distance to the mean is taken.
    """

    title: str
    rows: int
    uci: str
    number: int
    original: str = ""
    label: str = ""


SOURCES = {
    "fertility": DomainFile("Fertility", 100, "Fertility", 244),
    "haberman": DomainFile("Haberman", 306, "Haberman's Survival", 43),
    "transfusion": DomainFile("Transfusion", 748, "Blood Transfusion Service Center", 176),
    "banknote": DomainFile("Banknote", 1372, "Banknote Authentication", 267),
    "breast_wisc": DomainFile("Breast wisc", 699, "Breast Cancer Wisconsin (Original)", 15),
    "ionosphere": DomainFile("Ionosphere", 351, "Ionosphere", 52),
    "sonar": DomainFile("Sonar", 208, "Connectionist Bench (Sonar, Mines vs. Rocks)", 151),
    "wine_red": DomainFile("Wine-red", 1599, "Wine Quality", 186),
    "abalone": DomainFile("Abalone", 4177, "Abalone", 1),
    "wine_white": DomainFile("Wine-white", 4898, "Wine Quality", 186),
    "magic": DomainFile("Magic", 19020, "MAGIC Gamma Telescope", 159),
    "eeg": DomainFile("EEG", 14980, "EEG Eye State", 264),
    "hardware": DomainFile("Hardware", 28179, "Buzz in social media", 248),
    "twitter": DomainFile("Twitter", 583250, "Buzz in social media", 248, "Twitter.data", "mean"),
    "susy": DomainFile("SuSy", 5000000, "SUSY", 279, "SUSY.csv.gz", "first"),
    "higgs": DomainFile("Higgs", 11000000, "HIGGS", 280, "HIGGS.csv.gz", "first"),
    "higgs_sample": DomainFile("Higgs (sample)", 0, "HIGGS", 280),
}
"""In the order of the paper's tables; `rows` is the paper's m, and 0 for what is not a domain of the paper."""


@dataclass(frozen=True, eq=False)
class Domain:
    """A domain as it came: features unscaled, one row an example, and the class of each as -1 or +1."""

    name: str
    x: NDArray[np.float64]
    signs: NDArray[np.float64]
    feature_names: tuple[str, ...]

    @property
    def title(self) -> str:
        return SOURCES[self.name].title

    @property
    def complete(self) -> bool:
        return len(self.x) == SOURCES[self.name].rows


def find_domains(data: Path | str) -> dict[str, Path]:
    """The domains that are under a folder, in the order of the paper, and their files.

    A sample is left out if the domain itself is there.
    """
    folder = Path(data)
    if not folder.is_dir():
        raise ArgumentError(f"there is no folder {folder}; name the folder of the domains with --data or RADO_DATA")
    places = {name: place for name in SOURCES if (place := _path_of_domain(name, folder)) is not None}
    if "higgs" in places:
        places.pop("higgs_sample", None)
    return places


def choose_domains(data: Path | str, wanted: tuple[str, ...] | None = None) -> tuple[tuple[str, ...], list[str]]:
    """The domains to run, and one line for each that is missing; those in `wanted` must all be there."""
    if wanted is not None and not wanted:
        raise ArgumentError(f"no domain is named; choose from {', '.join(SOURCES)}")
    for name in wanted or ():
        if name not in SOURCES:
            raise ArgumentError(f"there is no domain {name!r}; choose from {', '.join(SOURCES)}")
    places = find_domains(data)
    if wanted:
        places |= {name: place for name in wanted if (place := _path_of_domain(name, Path(data))) is not None}
    names = [name for name in SOURCES if (name in wanted if wanted else name != "higgs_sample")]
    missing = [where_to_get_domain(name) for name in names if name not in places]
    if wanted and missing:
        raise ArgumentError(f"not under {data}: {'; '.join(missing)}")
    if not places:
        raise ArgumentError(
            f"no domain is under {data}; put files such as fertility.csv there, or choose another folder"
        )
    return tuple(name for name in SOURCES if (name in wanted if wanted else name in places)), missing


def where_to_get_domain(name: str) -> str:
    """One line: the file that is looked for, and the data set of the UCI archive that it is from."""
    source = SOURCES[name]
    if source.original:
        return f"{name} ({source.original}, as in the UCI archive: {source.uci}, number {source.number})"
    return f"{name} ({name}.csv or {name}.csv.gz, made from the UCI archive's {source.uci}, number {source.number})"


def _path_of_domain(name: str, folder: Path) -> Path | None:
    names = (f"{name}.csv", f"{name}.csv.gz", SOURCES[name].original)
    return next((folder / file for file in names if file and (folder / file).is_file()), None)


def _place_of_domain(name: str, data: str) -> Path:
    place = _path_of_domain(name, Path(data)) if name in SOURCES else None
    if place is None:
        hint = (
            f"; put it there: {where_to_get_domain(name)}" if name in SOURCES else f"; known are {', '.join(SOURCES)}"
        )
        raise ArgumentError(f"there is no domain {name!r} under {data}{hint}")
    return place


@lru_cache(maxsize=64)
def digest_of_domain(name: str, data: str) -> str:
    """What changes when the file of a domain does."""
    place = _place_of_domain(name, data)
    with one_line_errors(place), place.open("rb") as file:
        return hashlib.sha256(f"{place.stat().st_size}:".encode() + file.read(_HASHED)).hexdigest()


@lru_cache(maxsize=1)
def load_domain(name: str, data: str) -> Domain:
    """A domain from its file under the folder `data`; the last one is kept in memory."""
    place = _place_of_domain(name, data)
    source = SOURCES[name]
    original = place.name == source.original
    names, table = _read_domain_csv(place, header=not original)
    if original:
        names = [f"x{k}" for k in range(len(names))]
    if original and source.label == "first":
        x, label = table[:, 1:], 2 * table[:, 0] - 1
    elif original:
        x, label = table[:, :-1], np.where(table[:, -1] >= table[:, -1].mean(), 1.0, -1.0)
    else:
        x, label = table[:, :-1], table[:, -1]
    if not np.isin(label, (-1.0, 1.0)).all():
        raise TableError(f"cannot read {place}: the column of the class has other values than the two it should have")
    return Domain(name, np.ascontiguousarray(x), np.ascontiguousarray(label), tuple(names[:-1]))


def _read_domain_csv(path: Path, *, header: bool) -> tuple[list[str], NDArray[np.float64]]:
    """Column names and numbers of a CSV file, a block at a time."""
    options: dict[str, Any] = {
        "read_options": pa.csv.ReadOptions(block_size=CSV_BLOCK_BYTES, autogenerate_column_names=not header)
    }
    with one_line_errors(path):
        with pa.OSFile(str(path)) as file, pa.csv.open_csv(open_csv_stream(path, file), **options) as reader:
            names = reader.schema.names
        kinds = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()))
        with pa.OSFile(str(path)) as file:
            columns = pa.csv.read_csv(open_csv_stream(path, file), **options, convert_options=kinds)
    table = np.empty((columns.num_rows, len(names)))
    for k in range(len(names)):  # each is given up as it is copied, so that a large file is in memory about once
        table[:, k] = columns.column(0).to_numpy()
        columns = columns.remove_column(0)
    if not len(table) or len(names) < 2 or not np.isfinite(table).all():
        raise TableError(f"cannot read {path}: it needs rows of at least two numbers, and all must be finite")
    return names, table
