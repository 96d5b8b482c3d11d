"""Scores of a table of any length: it is read, scored and written a batch at a time."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from scipy.special import expit

from radoboost.errors import OutputError, TableError
from radoboost.learner.model import Model
from radoboost.progress import Progress
from radoboost.release import replacing
from radoboost.tables import Batch, Source, open_table
from radoboost.tables.labels import LabelRule


@dataclass(frozen=True)
class Predicted:
    """How many rows a table has, how many are predicted positive, and how many wrongly (None without labels)."""

    n_rows: int
    n_positive: int
    n_wrong: int | None

    @property
    def error(self) -> float:
        """The share of rows that are predicted wrongly; NaN without labels."""
        return math.nan if self.n_wrong is None else self.n_wrong / self.n_rows

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, without what is not known."""
        error = {} if self.n_wrong is None else {"n_wrong": self.n_wrong, "error": self.error}
        return {"n_rows": self.n_rows, "n_positive": self.n_positive, **error}


def predict_table(model: Model, table: Any, place: Path, bar: Progress, *, label: str | None = None) -> Predicted:
    """Write score, probability of the positive class and predicted class of every row to a CSV or Parquet file.

    The table must have the model's columns, in any order; others are not read. Where `label` names a column of
    true classes, wrong predictions are counted.

    >>> import tempfile, radoboost as rb
    >>> from radoboost.progress import no_progress
    >>> clf = rb.MomentsClassifier(n_rados=8).fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1])
    >>> place = Path(tempfile.mkdtemp()) / "few.scores.csv"
    >>> with no_progress() as bar:
    ...     predict_table(clf.model_, pa.table({"x0": [1.5, 4.5, 6.0]}), place, bar).n_rows
    3
    >>> place.read_text().splitlines()[0]
    '"score","probability","prediction"'
    """
    source = open_table(table, label=label, features=model.feature_names, labelled=False, schema=model.schema)
    rule = None if label is None else LabelRule(label, model.classes)
    choices = pa.array(list(model.classes))
    schema = pa.schema([("score", pa.float64()), ("probability", pa.float64()), ("prediction", choices.type)])
    n_rows = n_positive = n_wrong = 0
    with replacing(place) as draft, _writer(place, draft, schema) as writer:
        for batch in source.batches():
            scores = _scores(model, source, batch)
            positive = scores > 0
            prediction = choices.take(pa.array(positive.astype(np.int8)))
            writer.write(pa.record_batch([pa.array(scores), pa.array(expit(scores)), prediction], schema=schema))
            if rule is not None:
                n_wrong += int((positive != (rule.signs(batch.labels, batch.place) > 0)).sum())
            n_rows += batch.n_rows
            n_positive += int(positive.sum())
            bar("scoring rows", n_rows, source.expected_rows(n_rows))
        source.check_rows(n_rows)
    return Predicted(n_rows, n_positive, None if label is None else n_wrong)


def _scores(model: Model, source: Source, batch: Batch) -> Any:
    values = batch.values()
    if not np.isfinite(values).all():
        source.refuse_not_finite(batch, values)
    try:
        return model.scores(values)
    except TableError:
        raise TableError(f"{source.name} has values too large for a score; check their units") from None


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
