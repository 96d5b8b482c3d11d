"""Scores of a table of any length: it is read, scored and written a batch at a time."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from scipy.special import expit

from radoboost.errors import ArgumentError, OutputError
from radoboost.learner.model import Model
from radoboost.learner.rows import Filled, open_rows, scored_batches
from radoboost.progress import Progress
from radoboost.release import replacing
from radoboost.tables.carried import Carried
from radoboost.tables.columns import listed
from radoboost.tables.labels import LabelRule
from radoboost.tables.streams import at_rest

WRITTEN = ("score", "probability", "prediction")


@dataclass(frozen=True)
class Predicted:
    """How many rows a table has, how many are predicted positive, and how many wrongly (None without labels).

    `filled` counts gaps, cells that could not be read, and values that are new to the model.
    """

    n_rows: int
    n_positive: int
    n_wrong: int | None
    filled: Filled

    @property
    def error(self) -> float:
        """The share of rows that are predicted wrongly; NaN without labels."""
        return math.nan if self.n_wrong is None else self.n_wrong / self.n_rows

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, without what is not known."""
        error = {} if self.n_wrong is None else {"n_wrong": self.n_wrong, "error": self.error}
        return {"n_rows": self.n_rows, "n_positive": self.n_positive, **error, **self.filled.to_dict()}


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
) -> Predicted:
    """Write score, probability of the positive class and predicted class of every row to a CSV or Parquet file.

    The table must have the model's columns, in any order; others are not read. Where `label` names a column of
    true classes, wrong predictions are counted. The columns that `keep` names come first, as they are in the table.
    `separator` and `decimal` say how a CSV file is written, where neither its header line nor the model does.

    >>> import tempfile, radoboost as rb
    >>> from radoboost.progress import no_progress
    >>> clf = rb.MomentsClassifier(n_rados=8).fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1])
    >>> place = Path(tempfile.mkdtemp()) / "few.scores.csv"
    >>> with no_progress() as bar:
    ...     predict_table(clf.model_, pa.table({"id": ["a", "b"], "x0": [1.5, 4.5]}), place, bar, keep=["id"]).n_rows
    2
    >>> place.read_text().splitlines()[0]
    '"id","score","probability","prediction"'
    """
    _check_kept(keep)
    with at_rest(table, bar=bar) as rows:
        return _predict(model, rows, place, bar, label, keep, separator, decimal)


def _predict(
    model: Model,
    table: Any,
    place: Path,
    bar: Progress,
    label: str | None,
    keep: Sequence[str],
    separator: str | None,
    decimal: str | None,
) -> Predicted:
    source = open_rows(model, table, label, separator, decimal)
    rule = None if label is None else LabelRule(label, model.classes)
    choices = pa.array(list(model.classes))
    kept = Carried(table, keep, separator if source.schema is None else source.schema.separator) if keep else None
    types = zip(WRITTEN, (pa.float64(), pa.float64(), choices.type), strict=True)
    schema = pa.schema([*(() if kept is None else kept.schema), *(pa.field(name, kind) for name, kind in types)])
    n_rows = n_positive = n_wrong = 0
    filled = Filled()
    with replacing(place) as draft, _writer(place, draft, schema) as writer:
        for batch, scores, more in scored_batches(model, source):
            positive = scores > 0
            prediction = choices.take(pa.array(positive.astype(np.int8)))
            columns = [] if kept is None else kept.take(batch.n_rows).columns
            columns = [*columns, pa.array(scores), pa.array(expit(model.log_odds(scores))), prediction]
            writer.write(pa.table(columns, schema=schema))
            if rule is not None:
                n_wrong += int((positive != (rule.signs(batch.labels, batch.place) > 0)).sum())
            n_rows += batch.n_rows
            n_positive += int(positive.sum())
            filled += more
            bar("scoring rows", n_rows, source.expected_rows(n_rows))
        source.check_rows(n_rows)
    return Predicted(n_rows, n_positive, None if label is None else n_wrong, filled)


def _check_kept(keep: Sequence[str]) -> None:
    """Refuse to keep a column twice, or under a name that the scores have."""
    taken = [name for name in keep if name in WRITTEN]
    if taken:
        raise ArgumentError(
            f"cannot keep {listed(taken)}: predictions have a column of that name; rename it in the table"
        )
    twice = [name for name in dict.fromkeys(keep) if list(keep).count(name) > 1]
    if twice:
        raise ArgumentError(f"{listed(twice)} is to be kept twice; once is enough")


@contextmanager
def _writer(place: Path, draft: Path, schema: pa.Schema) -> Iterator[Any]:
    """A writer for CSV or Parquet, by the ending of the name."""
    if place.suffix.lower() in (".parquet", ".pq"):
        with pq.ParquetWriter(draft, schema) as writer:
            yield writer
    elif place.suffix.lower() == ".csv":
        with pa.csv.CSVWriter(draft, schema) as writer:
            yield writer
    else:
        raise OutputError(f"cannot write {place}: scores go into a file that ends in .csv or .parquet")
