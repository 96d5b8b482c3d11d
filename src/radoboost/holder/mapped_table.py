"""A table seen through a feature map: the same rows, labels and persons, and other columns."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.release.feature_map import FeatureMap
from radoboost.tables.table import Batch, Partition, Table


def map_table(source: Table, feature_map: FeatureMap) -> Table:
    """The table with the map's outputs as its features, in batches that suit their number."""
    missing = [name for name in feature_map.input_names if name not in source.features]
    if missing:
        raise TableError(
            f"{source.name} has no column {', '.join(map(repr, missing))}, which the feature map takes; its columns "
            f"are {', '.join(source.features[:20])}{', ...' if len(source.features) > 20 else ''}"
        )
    names = {name: k for k, name in enumerate(source.features)}
    places = tuple(names[name] for name in feature_map.input_names)
    selection = None if places == tuple(range(len(names))) else places
    pieces = tuple(MappedPart(part, feature_map, selection) for part in source.pieces)
    return replace(source, features=feature_map.output_names, pieces=pieces, sparse_rows=None)


@dataclass(frozen=True, eq=False)
class MappedPart:
    """The rows of a part through a map; `places` are those of the map's inputs, None where all columns are."""

    part: Partition
    feature_map: FeatureMap
    places: tuple[int, ...] | None

    @property
    def n_rows(self) -> int | None:
        return self.part.n_rows

    def count(self) -> int:
        return self.part.count()

    def batches(self, most_rows: int) -> Iterator[Batch]:
        """The rows in the same batches; their values are mapped when they are asked for."""
        for batch in self.part.batches(most_rows):
            values = MappedBatch(batch, self.feature_map, self.places)
            yield batch._replace(values=values, inputs=values.inputs, sparse=None, device_values=None)


class MappedBatch:
    """The mapped values of a batch, and those that they are made of, which are converted once."""

    def __init__(self, batch: Batch, feature_map: FeatureMap, places: tuple[int, ...] | None) -> None:
        self._batch, self._map, self._places = batch, feature_map, places
        self._inputs: NDArray[Any] | None = None

    def inputs(self) -> NDArray[Any]:
        """The values of the map's inputs."""
        if self._inputs is None:
            values = self._batch.values()
            self._inputs = values if self._places is None else values[:, self._places]
        return self._inputs

    def __call__(self) -> NDArray[np.float64]:
        return self._map.apply(self.inputs())

    def blocks(self, rows: int) -> Iterator[NDArray[np.float64]]:
        """The same values, so many rows at a time, Fortran-contiguous; each block is gone with the next."""
        for block in self._map.blocks(self.inputs(), rows):
            yield block.T


def value_blocks(batch: Batch, rows: int) -> Iterator[NDArray[Any]]:
    """The values of a batch in order; where a map makes them, few rows at a time, so that they stay in the cache."""
    if isinstance(batch.values, MappedBatch):
        yield from batch.values.blocks(rows)
    else:
        yield batch.values()
