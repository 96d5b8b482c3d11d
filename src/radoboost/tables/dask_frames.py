"""What the driver knows of a Dask data frame: its columns, by its empty model, and its partitions."""

import datetime
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.fs import FSSpecHandler, PyFileSystem

from radoboost.errors import ArgumentError
from radoboost.tables.folders import refuse_versioned_folders, refuse_versioned_store_folders
from radoboost.tables.paths import file_stamp, local_file_identity


def arrow_schema(frame: Any, *, withheld: bool = False) -> pa.Schema:
    """The columns of the frame, with the types of its model; a column of Python objects has none."""
    return pa.Table.from_pandas(frame._meta, preserve_index=False).schema


def chosen(frame: Any, columns: Sequence[str]) -> Any:
    """The frame with these columns alone, as Dask will compute it: it may then have fewer partitions, in order."""
    return frame[list(dict.fromkeys(columns))].optimize()


def partitions(frame: Any, columns: Sequence[str], *, withheld: bool = False) -> list[int | None]:
    """How many rows each partition has: nobody knows before they are read."""
    return [None] * int(frame.npartitions)


def check_determined(frame: Any, person: str | None) -> None:
    """Refuse a frame that no promise can be made about, by its steps and the types of its model, and by no value."""
    try:
        loose = check_dask_steps(frame.expr)
    except UnsafePlan as step:
        raise ArgumentError(
            "a promise needs rows that are the same whenever a partition is computed again, and that follow from one "
            f"record each, and after {step} that is not certain of a Dask frame; write it to Parquet files, and craft "
            "these"
        ) from None
    _refuse_old_table_versions([step for step in dask_expression_sources(frame.expr) if _is_parquet_step(step)])
    if person in loose and loose[person].itemsize == 8 and loose[person].kind in "iu":
        raise ArgumentError(
            f"persons in {person!r} are whole numbers of Parquet files, which pandas reads as floats wherever one is "
            "missing, and large ones are then no longer told apart: read them with dd.read_parquet(..., "
            "dtype_backend='pyarrow'), or craft the files themselves with cluster=client"
        )


def _is_parquet_step(step: Any) -> bool:
    return type(step).__name__.startswith("ReadParquet")


def _refuse_old_table_versions(readers: Sequence[Any]) -> None:
    """Refuse files of a Delta, Iceberg or Hudi table, unless one is all that is read."""
    systems = [file_system_of_parquet_step(step) for step in readers]
    files = {
        (type(system).__name__, name): system
        for system, step in zip(systems, readers, strict=True)
        for name in files_of_parquet_step(step)
    }
    if len(files) > 1:
        refuse_versioned_folders([Path(name) for (_, name), system in files.items() if is_local_system(system)])
        refuse_versioned_store_folders(
            (kind, system if hasattr(system, "get_file_info") else PyFileSystem(FSSpecHandler(system)), name)
            for (kind, name), system in files.items()
            if not is_local_system(system)
        )


# ---- files that must not change


def dask_file_stamps(frame: Any) -> dict[str, Any]:
    """What changes when a file behind the frame does, by file; other sources have none."""
    found: dict[str, Any] = {}
    for step in dask_expression_sources(frame.expr):
        if _is_parquet_step(step):
            found |= _parquet_step_stamps(step)
    return found


def _parquet_step_stamps(step: Any) -> dict[str, Any]:
    names, system = files_of_parquet_step(step), file_system_of_parquet_step(step)
    if hasattr(system, "get_file_info"):
        infos = system.get_file_info(names)
        return {name: (info.size, info.mtime_ns) for name, info in zip(names, infos, strict=True)}
    if is_local_system(system):
        return {name: _local_file_stamp(name) for name in names}
    system.invalidate_cache()
    return {name: system.checksum(name) for name in names}


def _local_file_stamp(name: str) -> Any:
    try:
        return file_stamp(Path(name))
    except OSError:
        return None  # it is gone


# ---- Which steps of a Dask frame leave each record alone: every row follows from one row of a file or of data in
# memory.
#
# A promise is about single records. So the rows of a partition must be the same whenever it is computed, each must
# follow from one record, no record may be in two of them, and no value may decide how others are computed, or whether
# they can be (C0 of docs/proofs/contributions.md, K3 of docs/proofs/clusters.md). Only steps that are known to be so
# are accepted, by their names, the types of the frame's model and the literals that they have; anything else is
# refused.
#
# One null makes pandas read whole numbers as floats and truth values as objects. Columns that this may happen to are
# called loose here: their cells may be passed on, and compared with small literals, but not be computed with.


SOURCES = {"ReadParquetFSSpec", "ReadParquetPyarrowFS", "FromPandas", "FromPandasDivisions", "FromArray"}
_READERS = ("ReadParquetFSSpec", "ReadParquetPyarrowFS")
_SAME_ROWS = {"Projection", "Drop", "RenameFrame", "ColumnsSetter", "ToFrame", "Assign", "Fillna", "AsType"}
_SAME_ROWS |= {"ArrowStringConversion"}
_ARITHMETIC = {"Add", "Sub", "Mul", "Div", "Neg", "Pos", "Abs"}
_COMPARISONS = {"LT", "LE", "GT", "GE", "EQ", "NE"}
_LOGIC = {"And", "Or", "XOr", "Invert"}
_CELLS = {"IsNa", "NotNull", "Isin"}
_FEWER = {"Filter", "DropnaFrame", "DropnaSeries", "Partitions"}
_OTHER_CUTS = {"Repartition", "RepartitionToFewer", "RepartitionToMore"}
_STACKED = {"Concat", "StackPartition"}
_FUSED = {"FusedIO", "FusedParquetIO"}
_STEPS = _SAME_ROWS | _ARITHMETIC | _COMPARISONS | _LOGIC | _CELLS | _FEWER | _OTHER_CUTS | _STACKED
_FILE_SYSTEMS = ("pyarrow", "fsspec", "s3fs", "gcsfs", "adlfs")
_EXACT = 2**53
_LITERALS = (bool, int, float, str, bytes, Decimal, datetime.date, datetime.time, datetime.timedelta, np.generic)

_WORDS = {
    "FromMap": "from_map (or read_csv)",
    "FromMapProjectable": "read_csv (or from_map)",
    "FromGraph": "persist",
    "DelayedsExpr": "from_delayed",
    "_DelayedExpr": "a delayed value",
    "RearrangeByColumn": "shuffle",
    "Split": "random_split",
    "SplitTake": "random_split",
    "FFill": "ffill",
    "BFill": "bfill",
    "LocSlice": "loc",
    "FunctionMap": "a method of .str or .dt",
    "PropertyMap": "a property of .str or .dt",
    "MethodOperator": "add, sub, mul or div (write +, -, * or /)",
    "ConcatUnindexed": "concat(axis=1)",
    "ConcatIndexed": "concat(axis=1)",
    "StackPartitionInterleaved": "concat(interleave_partitions=True)",
    "Mod": "%",
    "FloorDiv": "//",
    "Pow": "**",
    "UFuncElemwise": "a function of NumPy",
    "HashJoinP2P": "merge",
    "DiskShuffle": "shuffle",
    "TaskShuffle": "shuffle",
    "P2PShuffle": "shuffle",
    "CombineSeries": "combine",
    "CombineFrame": "combine",
    "SetDivisions": "set_index",
    "ResolveOverlappingDivisions": "set_index",
    "SetIndexBlockwise": "set_index",
    "AssignAlign": "assign with rows of another frame",
    "FilterAlign": "a filter by rows of another frame",
    "OpAlignPartitions": "an operation with rows of another frame",
}


class UnsafePlan(Exception):
    """A step that is not accepted, in words."""


def check_dask_steps(top: Any) -> dict[Any, np.dtype[Any]]:
    """The loose columns of an expression all of whose steps are accepted; `UnsafePlan` says which is not."""
    return _Steps().loose(top)


def dask_expression_sources(top: Any) -> list[Any]:
    """All expressions below one that have no other below them, also within those that Dask fused."""
    found, seen, waiting = [], set(), [top]
    while waiting:
        step = waiting.pop()
        if step._name not in seen:
            seen.add(step._name)
            below = _operand_expressions(step.operands)
            waiting += below
            found += [] if below else [step]
    return found


def _operand_expressions(operand: Any) -> list[Any]:
    from dask.dataframe.dask_expr._expr import Expr

    if isinstance(operand, Expr):
        return [operand]
    if isinstance(operand, Mapping):
        operand = [*operand.values()]
    return (
        [found for one in operand for found in _operand_expressions(one)]
        if isinstance(operand, list | tuple | set)
        else []
    )


def dask_step_name(step: Any) -> str:
    name = type(step).__name__
    if name in _WORDS:
        return _WORDS[name]
    for ending in ("Frame", "Series", "Blockwise", "Align", "Partitions" if name != "MapPartitions" else "Align"):
        name = name.removesuffix(ending).removeprefix(ending) or name
    if name.startswith("Cum"):
        return name.lower()
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.lstrip("_")).lower()


class _Steps:
    """What is known about expressions, each looked at once."""

    def __init__(self) -> None:
        self._loose: dict[str, dict[Any, np.dtype[Any]]] = {}

    def loose(self, step: Any) -> dict[Any, np.dtype[Any]]:
        """The loose columns of an expression, by name, with the types of the model."""
        key = step._name
        if key not in self._loose:
            self._loose[key] = self._looked_at(step)
        return self._loose[key]

    def _looked_at(self, step: Any) -> dict[Any, np.dtype[Any]]:
        name = type(step).__name__
        if name == "Fused":
            for one in [*step.operands[1:], *step.exprs[1:]]:
                if type(one).__name__ != "_DelayedExpr":  # of an isin within, where it is looked at
                    self.loose(one)
            return self.loose(step.exprs[0])
        if name in _FUSED:
            return self.loose(step.operand("_expr"))
        if name in SOURCES and type(step).__module__.startswith("dask."):
            return _check_dask_source(step)
        if name not in _STEPS or not type(step).__module__.startswith("dask."):
            raise UnsafePlan(dask_step_name(step))
        below = [operand for operand in step.operands if _operand_expressions(operand) and name != "Isin"] or [
            step.frame
        ]
        loose = [self.loose(one) for one in below]
        _check_literal_operands(step, name)
        if name in _STACKED:
            _check_concatenated_frames(step, below)
            return {column: kind for one in loose for column, kind in one.items()}
        if len({_expression_key(one) for one in below}) > 1:
            raise UnsafePlan(f"{dask_step_name(step)} with rows of another frame")
        if name in _SAME_ROWS | _FEWER | _OTHER_CUTS:
            return self._passed_on(step, name, loose[0])
        checks = {
            **dict.fromkeys(_ARITHMETIC, _check_arithmetic_step),
            **dict.fromkeys(_COMPARISONS, _check_comparison_step),
        }
        checks |= {**dict.fromkeys(_LOGIC, _check_logic_step), "Isin": _check_isin_step}
        if name in checks and not checks[name](step, below, loose):
            raise UnsafePlan(
                f"{_SIGNS.get(name, name.lower())} with columns of these types: a value could decide how others come "
                "out (whole numbers of Parquet files become floats where one is missing: take astype('float64') first)"
            )
        return {}

    def _passed_on(self, step: Any, name: str, loose: Mapping[Any, Any]) -> dict[Any, np.dtype[Any]]:
        """The loose columns of a step that passes cells on, after a check of what it does with them."""
        if name == "RenameFrame":
            loose = {step.operand("columns").get(column, column): kind for column, kind in loose.items()}
        elif name in ("ColumnsSetter", "ToFrame"):
            loose = {new: loose[old] for old, new in zip(step.frame.columns, step.columns, strict=True) if old in loose}
        elif name == "Assign":
            given = {column: value for column, value in zip(step.keys, step.vals, strict=True)}
            loose = {column: kind for column, kind in loose.items() if column not in given}
            for column, value in given.items():
                kinds = list(self.loose(value).values()) if _operand_expressions(value) else []
                loose |= dict.fromkeys([column] if kinds else [], *kinds[:1])
        elif name == "AsType":
            loose = {column: kind for column, kind in loose.items() if column not in _check_astype_step(step)}
        elif name == "Fillna":
            _check_fillna_step(step)
        elif name == "Filter" and not (
            _are_boolean_dtypes(_expression_types(step.predicate)) and not self.loose(step.predicate)
        ):
            raise UnsafePlan("a filter by a column that is not of truth values, or may have missing ones")
        kept = set(step._meta.columns if step.ndim == 2 else [step._meta.name])
        return {column: kind for column, kind in loose.items() if column in kept}


_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Neg": "-", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_SIGNS |= {"EQ": "==", "NE": "!=", "And": "&", "Or": "|", "XOr": "^", "Invert": "~"}


# ---- sources


def _check_dask_source(step: Any) -> dict[Any, np.dtype[Any]]:
    """The loose columns of a source."""
    name, parts = type(step).__name__, step.operand("_partitions")
    if parts is not None and len(set(parts)) < len(parts):
        raise UnsafePlan("partitions[...] with repeats")
    if name not in _READERS:
        return {}
    options = {key: value for key, value in (step.operand("kwargs") or {}).items() if value}
    backend = options.pop("dtype_backend", None)
    if name == "ReadParquetPyarrowFS" and step.operand("arrow_to_pandas"):
        options["arrow_to_pandas"] = True
    if options:
        raise UnsafePlan(f"read_parquet with {', '.join(sorted(options))}")
    engine = getattr(step, "engine", None) if name == "ReadParquetFSSpec" else None
    if engine is not None and not str(getattr(engine, "__module__", "")).startswith("dask."):
        raise UnsafePlan("read_parquet with an engine of your own")
    system = step.operand("filesystem")
    if not (system is None or isinstance(system, str) or type(system).__module__.startswith(_FILE_SYSTEMS)):
        raise UnsafePlan("read_parquet with a file system of your own")
    files = _parquet_file_identities(step)
    if len(set(files)) < len(files):
        raise UnsafePlan("read_parquet with a file that is named twice")
    meta = step._dataset_info["base_meta"]
    for column, _, value in _parquet_filters(step.operand("filters")):
        if not _is_safe_comparison({column: meta.dtypes.get(column)}, value):
            raise UnsafePlan("read_parquet with filters of another type than their columns")
    types = _expression_types(step)
    return {} if backend else {column: kind for column, kind in types.items() if _is_numpy_dtype(kind, "iub")}


def _parquet_filters(filters: Any) -> list[tuple[Any, Any, Any]]:
    """All comparisons of the filters of a reader, which are nested in lists."""
    if isinstance(filters, tuple) and len(filters) == 3 and isinstance(filters[0], str):
        return [filters]
    return [found for one in filters or () for found in _parquet_filters(one)]


def files_of_parquet_step(step: Any) -> list[str]:
    """The files that a reader of Parquet reads, as its file system calls them."""
    about = step._dataset_info
    if type(step).__name__ == "ReadParquetFSSpec":
        return [str(name) for name in about["ds"].files]
    return [str(wrapper.fragment.path) for wrapper in about["fragments"]]


def file_system_of_parquet_step(step: Any) -> Any:
    """The file system of a reader of Parquet, of fsspec or of pyarrow."""
    system = step._dataset_info.get("fs") or step.fs
    return system if hasattr(system, "get_file_info") else getattr(system, "fs", system)


def is_local_system(system: Any) -> bool:
    return type(system).__name__ == "LocalFileSystem"


def _parquet_file_identities(step: Any) -> list[Any]:
    """What all names of each file have in common, links too."""
    return [
        _dask_file_identity(name) if is_local_system(file_system_of_parquet_step(step)) else name
        for name in files_of_parquet_step(step)
    ]


def _dask_file_identity(name: str) -> Any:
    try:
        return local_file_identity(name)
    except OSError:
        return name  # it is gone


def _check_concatenated_frames(step: Any, below: list[Any]) -> None:
    """Refuse frames beside each other, and a record that would be in two of those that follow one another."""
    if step.operand("axis") not in (0, "index"):
        raise UnsafePlan("concat(axis=1)")
    if step.operand("interleave_partitions"):
        raise UnsafePlan("concat(interleave_partitions=True)")
    seen: set[Any] = set()
    for one in below:
        mine: set[Any] = set()
        for source in dask_expression_sources(one):
            if type(source).__name__ not in SOURCES:  # the values of an isin
                continue
            reads = type(source).__name__ in _READERS
            mine |= set(_parquet_file_identities(source)) if reads else {_dask_source_data(source)}
        if mine & seen:
            raise UnsafePlan("concat of a table with itself")
        seen |= mine


def _dask_source_data(source: Any) -> Any:
    data = source.operand("frame")
    return getattr(data, "_token", None) or id(data)


def _expression_key(step: Any) -> Any:
    """Something that is equal for two expressions only if they have the same rows in the same order."""
    name = type(step).__name__
    if name == "Fused":
        return _expression_key(step.exprs[0])
    if name in SOURCES:
        whole = {"columns": None} | ({"_series": False} if "_series" in step._parameters else {})
        return step.substitute_parameters(whole)._name
    if name in _SAME_ROWS | _ARITHMETIC | _COMPARISONS | _LOGIC | _CELLS:
        return _expression_key(next(found for operand in step.operands for found in _operand_expressions(operand)))
    if name == "Filter":
        return "Filter", _expression_key(step.frame), step.predicate._name
    return step._name


# ---- types and literals


def _expression_types(step: Any) -> dict[Any, Any]:
    meta = step._meta
    return {meta.name: meta.dtype} if not hasattr(meta, "columns") else dict(meta.dtypes.items())


def _is_numpy_dtype(kind: Any, kinds: str) -> bool:
    return isinstance(kind, np.dtype) and kind.kind in kinds


def _is_pandas_arrow_dtype(kind: Any, kinds: str) -> bool:
    """Whether a type is one of pandas' for Arrow's or with a mask, of such a kind."""
    return not isinstance(kind, np.dtype) and getattr(kind, "kind", "O") in kinds and hasattr(kind, "numpy_dtype")


def _are_boolean_dtypes(types: Mapping[Any, Any]) -> bool:
    return all(_is_numpy_dtype(kind, "b") or _is_pandas_arrow_dtype(kind, "b") for kind in types.values())


def _is_text_dtype(kind: Any) -> bool:
    return not isinstance(kind, np.dtype) and str(kind).startswith(("str", "large_string", "string"))


def _is_safe_comparison(types: Mapping[Any, Any], literal: Any) -> bool:
    """Whether comparing cells of these types with a literal neither fails nor depends on other cells."""
    if isinstance(literal, np.ndarray):
        literal = literal.tolist()
    if isinstance(literal, list | tuple | set | frozenset):
        return all(_is_safe_comparison(types, one) for one in literal)
    literal = literal.item() if isinstance(literal, np.generic) else literal
    if isinstance(literal, str):
        return all(_is_text_dtype(kind) for kind in types.values())
    if isinstance(literal, bool):
        return _are_boolean_dtypes(types)
    whole = isinstance(literal, int) and abs(literal) < _EXACT
    return all(
        _is_numpy_dtype(kind, "f")
        or _is_pandas_arrow_dtype(kind, "f")
        or (whole and (_is_numpy_dtype(kind, "iu") or _is_pandas_arrow_dtype(kind, "iu")))
        for kind in types.values()
        if isinstance(literal, int | float)
    ) and isinstance(literal, int | float)


def _literal_operands(step: Any) -> list[Any]:
    return [operand for operand in step.operands if not _operand_expressions(operand)]


def _check_literal_operands(step: Any, name: str) -> None:
    """Refuse functions, wherever they stand, and other objects that are no plain values."""
    if name == "RenameFrame" and type(step.operand("columns")) is not dict:
        raise UnsafePlan("rename with a function")
    if name == "Partitions" and len(set(step.operand("partitions"))) < len(step.operand("partitions")):
        raise UnsafePlan("partitions[...] with repeats")
    if name in _OTHER_CUTS:
        by_number = {"frame", "new_partitions", "force"}
        if any(step.operand(one) is not None for one in step._parameters if one not in by_number):
            raise UnsafePlan("repartition by size or divisions")
    if name == "AsType":
        _check_astype_step(step)
        return
    if name == "Isin":
        return
    if name == "Assign" and not all(one is None or np.isscalar(one) for one in _literal_operands(step)):
        raise UnsafePlan("assign with values that go by the place of a row")
    for operand in _literal_operands(step):
        if not _is_plain_literal(operand):
            raise UnsafePlan(f"{dask_step_name(step)} with a function or an object of your own")


def _is_plain_literal(value: Any) -> bool:
    if isinstance(value, list | tuple | set | frozenset | slice):
        parts = [value.start, value.stop, value.step] if isinstance(value, slice) else value
        return all(_is_plain_literal(one) for one in parts)
    if type(value) is dict:
        return all(_is_plain_literal(one) for pair in value.items() for one in pair)
    of_pandas = type(value).__module__.startswith(
        ("pandas.", "dask.typing")
    )  # a missing value, a moment, an index, "no default"
    return value is None or isinstance(value, _LITERALS) or (of_pandas and not callable(value))


def _check_astype_step(step: Any) -> set[Any]:
    """The columns that astype changes; only casts that never fail are accepted, from numbers of NumPy to floats."""
    wanted, types = step.operand("dtypes"), _expression_types(step.frame)
    by_column = dict(wanted) if isinstance(wanted, Mapping) else dict.fromkeys(types, wanted)
    for column, kind in by_column.items():
        plain = kind in (float, "float", "float32", "float64", "f4", "f8") or _is_numpy_dtype(kind, "f")
        plain = plain or kind in (np.float32, np.float64)
        if not plain or column not in types or not _is_numpy_dtype(types[column], "iuf"):
            raise UnsafePlan("astype, other than from numbers of NumPy to float64,")
    return set(by_column)


def _check_fillna_step(step: Any) -> None:
    value, types = step.operand("value"), _expression_types(step.frame)
    values = value if isinstance(value, dict) else dict.fromkeys(types, value)
    for column, one in values.items():
        kind = types.get(column)
        small = isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 2**31
        loosely = small and isinstance(one, int) and (_is_numpy_dtype(kind, "iu") or _is_pandas_arrow_dtype(kind, "iu"))
        if not (
            kind is None
            or loosely
            or (small and _is_float_dtype(kind))
            or (isinstance(one, str) and _is_text_dtype(kind))
        ):
            raise UnsafePlan("fillna with a value of another type than the column's")


def _is_float_dtype(kind: Any) -> bool:
    return _is_numpy_dtype(kind, "f") or _is_pandas_arrow_dtype(kind, "f")


# ---- computing with cells


def _check_arithmetic_step(step: Any, below: list[Any], loose: list[Any]) -> bool:
    """Floats, or numbers of NumPy that cannot become others; Arrow's whole numbers fail when they are too large."""
    types = [kind for one in below for kind in _expression_types(one).values()]
    numpy = all(_is_numpy_dtype(kind, "fiu") for kind in types) and not any(loose)
    numbers = all(isinstance(one, int | float | np.number) or one is None for one in _literal_operands(step))
    return numbers and (numpy or all(_is_pandas_arrow_dtype(kind, "f") for kind in types))


def _check_comparison_step(step: Any, below: list[Any], loose: list[Any]) -> bool:
    """Columns with small literals of their kind, or columns of one type, unless they are loose."""
    kinds = {str(kind) for one in below for kind in _expression_types(one).values()}
    fits = all(_is_safe_comparison(_expression_types(below[0]), literal) for literal in _literal_operands(step))
    known = all(
        _is_float_dtype(k) or _is_text_dtype(k) or _is_numpy_dtype(k, "iub") or _is_pandas_arrow_dtype(k, "iub")
        for k in _expression_types(below[0]).values()
    )
    truths = any(_is_numpy_dtype(kind, "b") for one in loose for kind in one.values())
    return known and fits and not truths and (len(below) == 1 or (len(kinds) == 1 and not any(loose)))


def _check_logic_step(step: Any, below: list[Any], loose: list[Any]) -> bool:
    truths = all(isinstance(one, bool | np.bool_) for one in _literal_operands(step))
    return truths and not any(loose) and all(_are_boolean_dtypes(_expression_types(one)) for one in below)


def _check_isin_step(step: Any, below: list[Any], loose: list[Any]) -> bool:
    """Literals that Dask keeps as a delayed value."""
    values = step.operand("values")
    if type(values).__name__ == "_DelayedExpr":
        tasks = list(dict(values.obj.dask).values())
        values = getattr(tasks[0], "value", tasks[0]) if len(tasks) == 1 else None
    truths = any(_is_numpy_dtype(kind, "b") for one in loose for kind in one.values())
    return (
        isinstance(values, np.ndarray | list | tuple | set)
        and _is_safe_comparison(_expression_types(below[0]), values)
        and not truths
    )
