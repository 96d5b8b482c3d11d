"""Some rows of a batch, as a batch: any of them, in any order, also several times."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.tables.labels import comparable
from radoboost.tables.sparse import SparseRows
from radoboost.tables.table import Batch, MissingCells


def take_rows(batch: Batch, places: NDArray[np.int64]) -> Batch:
    """The rows of these numbers, from 0, of a batch that no feature map made; values are converted when asked for.

    What was read beside the features is not taken along.
    """
    return Batch(
        len(places),
        _take_labels(batch.labels, places),
        partial(_values, batch, places),
        partial(_batch_row, batch, places),
        gaps=None if batch.gaps is None else partial(_gaps, batch, places),
        sparse=None if batch.sparse is None else partial(_sparse, batch, places),
    )


def _take_labels(labels: pa.Array | None, places: NDArray[np.int64]) -> pa.Array | None:
    if labels is None:
        return None
    try:
        return comparable(labels).take(pa.array(places))
    except pa.ArrowNotImplementedError:  # the type is to blame: it holds no class
        return pa.nulls(len(places))
    except pa.ArrowException:  # on account of a value: who reads labels then goes through them one by one
        return labels.take(pa.array(places))


def _values(batch: Batch, places: NDArray[np.int64]) -> NDArray[Any]:
    return np.ascontiguousarray(batch.values()[places])


def _sparse(batch: Batch, places: NDArray[np.int64]) -> SparseRows:
    assert batch.sparse is not None
    return batch.sparse().taken(places)


def _gaps(batch: Batch, places: NDArray[np.int64]) -> MissingCells:
    assert batch.gaps is not None
    return batch.gaps().taken(places)


def _batch_row(batch: Batch, places: NDArray[np.int64], row: int) -> str:
    return batch.place(int(places[row]))
