"""Predictions of a data frame, or of the partitions of one: what a worker of a cluster does with a model."""

from typing import Any

import pyarrow as pa

from radoboost.errors import ArgumentError
from radoboost.learner.model import Model
from radoboost.learner.predict import predicted_batches, written_schema
from radoboost.learner.rows import open_rows
from radoboost.tables.cluster_frames import cluster_of


def predicted(model: Model, frame: Any) -> pa.Table:
    """The columns that `rado predict` writes, for every row of a data frame of any library, in order.

    Gaps are filled, as `Model.predict` does, without a warning: nobody would see it on a worker.
    """
    pieces = [rows for rows, _ in predicted_batches(model, open_rows(model, frame), None)]
    return pa.concat_tables([written_schema(model).empty_table(), *pieces])


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
    if cluster_of(frame) != "dask":
        raise ArgumentError(
            "predict_partitions takes a Dask data frame; use model.predict for a table on this machine, and "
            "predict_udf for a Spark frame"
        )
    missing = [name for name in model.feature_names if name not in frame.columns]
    if missing:
        raise ArgumentError(f"the frame has no column {missing[0]!r}, which the model needs; name its columns as those")
    meta = written_schema(model).empty_table().to_pandas().set_index(frame._meta.index[:0])
    return frame[list(model.feature_names)].map_partitions(predict_frame, model, meta=meta)


def predict_frame(frame: Any, model: Model) -> Any:
    """The predictions of one pandas data frame, under its own index."""
    return predicted(model, frame).to_pandas().set_index(frame.index)
