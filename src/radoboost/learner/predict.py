"""Scores of a table of any length: it is read, scored and written a batch at a time."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import expit

from radoboost.errors import ArgumentError, OutputError
from radoboost.learner.model import Model
from radoboost.learner.row_reader import FillCounts, open_rows_to_score, score_row_batches
from radoboost.progress import Progress
from radoboost.release.release import atomic_write
from radoboost.tables import Batch, Table
from radoboost.tables.cells import gap_label_cells
from radoboost.tables.column_selection import list_names
from radoboost.tables.frames import cluster_kind_of_frame
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.raw_table import PassthroughColumns
from radoboost.tables.streams import spool_for_rereading

PREDICTION = "prediction"
Scored = list[
    tuple[pa.Table, "PredictionSummary"]
]  # what is written for each batch of a part, and what it adds to the counts
Spread = Callable[[Callable[[Any], Scored], Table], Iterable[Scored]]
_LONGEST_SHOWN = 40  # characters of a label in a message


@dataclass(frozen=True)
class UnlabelledRows:
    """Rows that are predicted, but not judged: how many have no label, and how many one that is none of the classes.

    `first` is the first such label, and where it is.
    """

    missing: int = 0
    unknown: int = 0
    first: str = ""

    def __add__(self, other: "UnlabelledRows") -> "UnlabelledRows":
        return UnlabelledRows(self.missing + other.missing, self.unknown + other.unknown, self.first or other.first)

    def sentence(self, label: str) -> str:
        """In words; empty if there is nothing to say."""
        missing = f"{self.missing:,} row{'s' * (self.missing != 1)} without a label in {label!r}"
        unknown = f"{self.unknown:,} with one of no class (the first is {self.first})"
        unknown = unknown if self.missing else unknown.replace("with one", f"with a label in {label!r}")
        parts = [words for words, count in ((missing, self.missing), (unknown, self.unknown)) if count]
        return f"left out of the error: {', '.join(parts)}" if parts else ""


@dataclass(frozen=True, eq=False)
class PredictionSummary:
    """How many rows a table has, how many are predicted to be of each class, and how many wrongly.

    `confusion` counts rows by their true class (rows) and the predicted one (columns); it is None without labels.
    Rows whose label is missing, or of no class of the model, are not in it, but in `unjudged`.
    `filled` counts gaps, cells that could not be read, and values that are new to the model.
    """

    classes: tuple[Any, ...]
    counts: NDArray[np.int64]
    confusion: NDArray[np.int64] | None
    filled: FillCounts
    unjudged: UnlabelledRows = UnlabelledRows()

    def __add__(self, other: "PredictionSummary") -> "PredictionSummary":
        both = self.confusion is not None and other.confusion is not None
        confusion = self.confusion + other.confusion if both else None  # type: ignore[operator]
        filled, unjudged = self.filled + other.filled, self.unjudged + other.unjudged
        return PredictionSummary(self.classes, self.counts + other.counts, confusion, filled, unjudged)

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def n_positive(self) -> int | None:
        """How many rows are predicted positive; None where there are more than two classes."""
        return int(self.counts[1]) if len(self.classes) == 2 else None

    @property
    def n_wrong(self) -> int | None:
        """How many rows are predicted wrongly; None without labels."""
        return None if self.confusion is None else int(self.confusion.sum() - np.trace(self.confusion))

    @property
    def n_judged(self) -> int:
        """How many rows have a label that is a class of the model."""
        return 0 if self.confusion is None else int(self.confusion.sum())

    @property
    def error(self) -> float:
        """The share of judged rows that are predicted wrongly; NaN without any."""
        return self.n_wrong / self.n_judged if self.n_wrong is not None and self.n_judged else math.nan

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, without what is not known."""
        error: dict[str, Any] = {}
        if self.n_wrong is not None:
            error = {"n_wrong": self.n_wrong, "error": self.error if self.n_judged else None}
        if self.unjudged != UnlabelledRows():
            error |= {"n_unlabelled": self.unjudged.missing, "n_unknown_labels": self.unjudged.unknown}
        many: dict[str, Any] = {"n_positive": self.n_positive}
        if len(self.classes) > 2:
            many = {"classes": list(self.classes), "n_predicted": self.counts.tolist()}
            error |= {} if self.confusion is None else {"confusion": self.confusion.tolist()}
        return {"n_rows": self.n_rows, **many, **error, **self.filled.to_dict()}


def prediction_column_names(model: Model) -> list[str]:
    if model.n_classes == 2:
        return ["score", "probability", PREDICTION]
    return [PREDICTION, *(f"probability:{value}" for value in model.classes)]


def prediction_schema(model: Model) -> pa.Schema:
    kind = pa.array(list(model.classes)).type
    return pa.schema([(name, kind if name == PREDICTION else pa.float64()) for name in prediction_column_names(model)])


def predict_table(
    model: Model,
    table: Any,
    place: Path,
    bar: Progress,
    *,
    label: str | None = None,
    keep: Sequence[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
    spread: Spread | None = None,
) -> PredictionSummary:
    """Write score, probability of the positive class and predicted class of every row to a CSV or Parquet file.

    Of more than two classes: the predicted class, then the probability of each, as "probability:NAME".
    The table must have the model's columns, in any order; others are not read. Where `label` names a column of
    true classes, wrong predictions are counted, among rows that have one which the model knows. The columns that `keep`
    names come first, as they are in the table.
    `separator` and `decimal` say how a CSV file is written, where neither its header line nor the model does.
    `spread` has parts predicted elsewhere: it calls the function that it gets with every part of the source, and gives
    what comes back, in order.
    """
    _check_columns_kept_beside_predictions(keep, prediction_column_names(model))
    with spool_for_rereading(table, bar=bar) as rows:
        source = open_rows_to_score(model, rows, label, separator, decimal)
        mark = separator if source.schema is None else source.schema.separator
        kept = PassthroughColumns(rows, keep, mark) if keep else None
        if spread is None:
            batches: Iterable[tuple[pa.Table, PredictionSummary]] = predicted_batches(model, source, label)
        else:
            alone = replace(source, pieces=[], guess=None)  # a worker gets no other part
            batches = (
                piece for part in spread(partial(predict_partition, model, alone, label), source) for piece in part
            )
        return _write_predictions(model, source, batches, kept, place, bar, label)


def _write_predictions(
    model: Model,
    source: Table,
    batches: Iterable[tuple[pa.Table, PredictionSummary]],
    kept: PassthroughColumns | None,
    place: Path,
    bar: Progress,
    label: str | None,
) -> PredictionSummary:
    """Write what was predicted, batch by batch, after the columns that are carried through; and count it."""
    schema = pa.schema([*(() if kept is None else kept.schema), *prediction_schema(model)])
    n_classes = model.n_classes
    confusion = None if label is None else np.zeros((n_classes, n_classes), np.int64)
    total = PredictionSummary(model.classes, np.zeros(n_classes, np.int64), confusion, FillCounts())
    with atomic_write(place) as draft, _prediction_writer(place, draft, schema) as writer:
        for rows, more in batches:
            columns = [] if kept is None else kept.take(rows.num_rows).columns
            writer.write(pa.table([*columns, *rows.columns], schema=schema))
            total += more
            bar("scoring rows", total.n_rows, source.expected_rows(total.n_rows))
        source.check_rows(total.n_rows)
    return total


def predict_partition(model: Model, source: Table, label: str | None, part: Any) -> Scored:
    """What is predicted of one part of a source, as something that can be sent."""
    batches = predicted_batches(model, replace(source, pieces=[part]), label)
    return [(rows, replace(more, filled=more.filled.settled())) for rows, more in batches]


def predicted_batches(model: Model, source: Table, label: str | None) -> Iterator[tuple[pa.Table, PredictionSummary]]:
    """The columns of `prediction_column_names` for each batch of a source, and what it adds to the counts."""
    rule = None if label is None else LabelEncoder(label, model.classes)
    schema, choices, n_classes = prediction_schema(model), pa.array(list(model.classes)), model.n_classes
    for batch, scores, filled in score_row_batches(model, source):
        places = model.choices(scores)
        rows = pa.table(_prediction_arrays(model, scores, choices.take(pa.array(places))), schema=schema)
        confusion, unjudged = None, UnlabelledRows()
        if rule is not None:
            truth, confusion = rule.places_or_none(batch.labels), np.zeros((n_classes, n_classes), np.int64)
            np.add.at(confusion, (truth[truth >= 0], places[truth >= 0]), 1)
            unjudged = count_unlabelled_rows(batch, truth)
        yield (
            rows,
            PredictionSummary(model.classes, np.bincount(places, minlength=n_classes), confusion, filled, unjudged),
        )


def count_unlabelled_rows(batch: Batch, truth: NDArray[np.int64]) -> UnlabelledRows:
    """The rows whose label is of no class, and among them those that have none at all."""
    assert batch.labels is not None
    if (truth >= 0).all():
        return UnlabelledRows()
    absent = gap_label_cells(batch.labels) & (truth < 0)
    unknown = np.flatnonzero(~absent & (truth < 0))
    if not len(unknown):
        return UnlabelledRows(int(absent.sum()))
    label = str(batch.labels[int(unknown[0])].as_py())
    shown = repr(label if len(label) <= _LONGEST_SHOWN else f"{label[:_LONGEST_SHOWN]}...")
    return UnlabelledRows(int(absent.sum()), len(unknown), f"{shown}, {batch.place(int(unknown[0]))}")


def _prediction_arrays(model: Model, scores: NDArray[np.float64], prediction: pa.Array) -> list[pa.Array]:
    """The columns of `prediction_column_names`, for rows with these scores."""
    if model.n_classes == 2:
        return [pa.array(scores), pa.array(expit(model.log_odds(scores))), prediction]
    return [prediction, *(pa.array(column) for column in np.ascontiguousarray(model.probabilities(scores).T))]


def _check_columns_kept_beside_predictions(keep: Sequence[str], names: Sequence[str]) -> None:
    """Refuse to keep a column twice, or under one of the `names` that predictions have."""
    taken = [name for name in keep if name in names]
    if taken:
        raise ArgumentError(
            f"cannot keep {list_names(taken)}: predictions have a column of that name; rename it in the table"
        )
    twice = [name for name in dict.fromkeys(keep) if list(keep).count(name) > 1]
    if twice:
        raise ArgumentError(f"{list_names(twice)} is to be kept twice; once is enough")


@contextmanager
def _prediction_writer(place: Path, draft: Path, schema: pa.Schema) -> Iterator[Any]:
    """A writer for CSV or Parquet, by the ending of the name."""
    if place.suffix.lower() in (".parquet", ".pq"):
        with pq.ParquetWriter(draft, schema) as writer:
            yield writer
    elif place.suffix.lower() == ".csv":
        with pa.csv.CSVWriter(draft, schema) as writer:
            yield writer
    else:
        raise OutputError(f"cannot write {place}: scores go into a file that ends in .csv or .parquet")


# ---- Predictions of a data frame, or of the partitions of one: what a worker of a cluster does with a model.


def predictions_of_frame(model: Model, frame: Any) -> pa.Table:
    """The columns that `rado predict` writes, for every row of a data frame of any library, in order.

    Gaps are filled, as `Model.predict` does, without a warning: nobody would see it on a worker.
    """
    pieces = [rows for rows, _ in predicted_batches(model, open_rows_to_score(model, frame), None)]
    return pa.concat_tables([prediction_schema(model).empty_table(), *pieces])


def predict_partitions(model: Model, frame: Any) -> Any:
    """Predictions of a Dask data frame, as another one: computed where its partitions are, whenever it is.

    It has the same partitions and the same index. Its columns are those that `rado predict` writes: score, probability
    of the positive class, and prediction; of more than two classes the prediction, then the probability of each, as
    "probability:NAME". Columns that the model does not know are not read.

    >>> import dask.dataframe as dd, pandas as pd, radoboost as rb
    >>> model = rb.MomentsClassifier(n_rados=8, random_state=1).fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1]).model_
    >>> frame = dd.from_pandas(pd.DataFrame({"id": ["a", "b", "c"], "x0": [1.5, 4.5, 0.5]}), npartitions=2)
    >>> predict_partitions(model, frame).compute(scheduler="synchronous")["prediction"].tolist()
    [0, 1, 0]
    """
    if cluster_kind_of_frame(frame) != "dask":
        raise ArgumentError(
            "predict_partitions takes a Dask data frame; use model.predict for a table on this machine, and "
            "predict_udf for a Spark frame"
        )
    missing = [name for name in model.feature_names if name not in frame.columns]
    if missing:
        raise ArgumentError(f"the frame has no column {missing[0]!r}, which the model needs; name its columns as those")
    meta = prediction_schema(model).empty_table().to_pandas().set_index(frame._meta.index[:0])
    return frame[list(model.feature_names)].map_partitions(predict_pandas_frame, model, meta=meta)


def predict_pandas_frame(frame: Any, model: Model) -> Any:
    """The predictions of one pandas data frame, under its own index."""
    return predictions_of_frame(model, frame).to_pandas().set_index(frame.index)
