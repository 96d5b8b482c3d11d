"""Labels given apart from the table, where labels alone are protected: which label they are, and that it is no feature.

Features are not protected there: a label among them would come out exactly (M7, M21 of docs/proofs/moments.md). All of
it goes by names and by where memory lies, and by no value: no value decides whether a release comes out.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.mechanisms import CraftRequest
from radoboost.tables import Table
from radoboost.tables.gpu_arrays import is_on_device
from radoboost.tables.object_columns import has_arrow_values, named_columns
from radoboost.tables.sparse import array_and_names

_APART = "with unit='label' features are not protected, and a label among them would be in the release exactly: "
_WHOSE = (
    "column {name!r} says whose row it is, and is the label too; where labels alone are protected, which rows "
    "contribute must not follow from labels: give a column of ids as person (--person)"
)


def label_name(y: Any, label: str | None) -> str | None:
    """What labels given apart are called: by the caller, or by themselves as a series is.

    The label of a schema says which label the schema is about, and not which one these are.
    """
    own = own_name(y)
    if label and own and label != own:
        raise ArgumentError(
            f"y is called {own!r}, and the label {label!r}; what is promised is about one label: leave label out, or "
            "rename y if that is what it is"
        )
    return label or own


def own_name(y: Any) -> str | None:
    """The name that a series has; None of an array."""
    name = getattr(y, "name", None)
    return None if name is None or name == "" or callable(name) else str(name)


def refuse_label_as_feature(table: Any, y: Any, asked: CraftRequest, source: Table) -> None:
    """Refuse labels that are a feature, or say whose row it is, by their name or their memory.

    Those without a name are refused beside named columns.
    """
    if y is None:
        return
    features = [*source.features, *(() if source.schema is None else source.schema.used)]
    name_of_y = asked.label_apart or own_name(y)
    names = {name_of_y, asked.declared.label}
    for name in dict.fromkeys(features):
        if name in names:
            raise ArgumentError(
                f"column {name!r} is a feature and by its name the label too; {_APART}leave it out (drop={name!r}, or "
                "take it out of the bounds or the schema), or rename it"
            )
    if asked.person in names - {None}:
        raise ArgumentError(_WHOSE.format(name=asked.person))
    if name_of_y is None and not _nameless(table):
        raise ArgumentError(
            f"y has no name, and the table's columns have names; {_APART}say which label y is: label='NAME', or a "
            "series that has a name; in a room agree on the label's column"
        )
    for name, column in _columns(table):
        if name in features and _share_memory(y, column):
            raise ArgumentError(
                f"column {name!r} is a feature, and y is the same column in memory; {_APART}leave it out of the table "
                "or the bounds"
            )
        if name == asked.person and _share_memory(y, column):
            raise ArgumentError(_WHOSE.format(name=name))


def _nameless(table: Any) -> bool:
    """Whether columns go by their places, as those of an array do."""
    array, names = array_and_names(table)
    return names is None and (isinstance(array, np.ndarray) or hasattr(array, "toarray") or is_on_device(array))


def _columns(table: Any) -> list[tuple[str, Any]]:
    """The columns of a table in memory; none where it lies elsewhere."""
    if isinstance(table, np.ndarray) or is_on_device(table):
        return [(f"x{k}", table[:, k]) for k in range(table.shape[1])] if len(table.shape) == 2 else []
    if isinstance(table, pa.Table | pa.RecordBatch):
        return list(zip(table.column_names, table.columns, strict=True))
    return named_columns(table) or []


def _share_memory(y: Any, column: Any) -> bool:
    return any(np.shares_memory(one, other) for one in _memory(y) for other in _memory(column))


def _memory(column: Any) -> list[NDArray[Any]]:
    """Where the cells of a column lie, without a copy; nothing where that is not known."""
    if isinstance(column, np.ndarray):
        return [column]
    if isinstance(column, pa.Array | pa.ChunkedArray):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [np.frombuffer(part, np.uint8) for chunk in chunks for part in chunk.buffers() if part and part.size]
    if is_on_device(column):
        return _on_device(column)
    if not hasattr(column, "iloc"):
        return _memory(pa.chunked_array(column)) if hasattr(column, "__arrow_c_stream__") else []
    if isinstance(column.dtype, np.dtype):
        return [column.to_numpy()]
    parts = [getattr(column.array, name, None) for name in ("_data", "codes")]  # masked values, categories
    if found := [part for part in parts if isinstance(part, np.ndarray)]:
        return found
    return _memory(column.array.__arrow_array__()) if has_arrow_values(column) else []


def _on_device(array: Any) -> list[NDArray[Any]]:
    """An array on a device as one of NumPy at the same addresses, of which nothing is ever read."""
    try:
        interface = dict(array.__cuda_array_interface__)
    except (AttributeError, RuntimeError, TypeError, KeyError):  # of a type that NumPy does not have
        return []
    fields = {name: interface[name] for name in ("shape", "strides", "typestr") if interface.get(name) is not None}
    place = SimpleNamespace(__array_interface__={**fields, "data": (interface["data"][0], True), "version": 3})
    return [np.asarray(place)]
