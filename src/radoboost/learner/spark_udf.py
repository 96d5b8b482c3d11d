"""Predictions as a function of Spark columns, computed where the rows are."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from radoboost.errors import ArgumentError
from radoboost.learner.frames import predicted
from radoboost.learner.model import Model
from radoboost.learner.predict import PREDICTION, written_schema
from radoboost.tables.spark_jobs import quiet

_WHAT = ("probability", "class", "score", "all")


def predict_udf(model: Model, what: str = "probability") -> Callable[..., Any]:
    """A function that predicts rows of a Spark frame: call it on columns to get a column.

    Without arguments it takes the model's columns, by their names. With columns, or the names of columns, these are the
    model's, in order; a single struct has them by name. Columns are raw, as they were in the table that the release
    was crafted from; gaps are filled.

    Parameters
    ----------
    model : Model
        From `load_model`, or the `model_` of a classifier.
    what : "probability", "class", "score" or "all"
        The probability of the positive class, and of more than two classes an array with that of each, in the order of
        `model.classes`; the predicted class; the score before it becomes a probability, of two classes; or a struct of
        all that `rado predict` writes.

    Examples
    --------
    >>> import radoboost as rb
    >>> model = rb.MomentsClassifier(n_rados=8).fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1]).model_
    >>> probability = predict_udf(model)      # frame.withColumn("p", probability())
    >>> callable(probability)
    True
    """
    if what not in _WHAT:
        raise ArgumentError(f"what must be one of {', '.join(map(repr, _WHAT))}; it is {what!r}")
    if what == "score" and model.n_classes > 2:
        raise ArgumentError("a model of more than two classes has no single score; ask for 'probability' or 'all'")
    names = list(model.feature_names)

    def on_columns(*columns: Any) -> Any:
        from pyspark.sql import functions

        if len(columns) == 1 and (len(names) > 1 or not isinstance(columns[0], str)):
            return _udf(model, what)(columns[0])
        if columns and len(columns) != len(names):
            raise ArgumentError(
                f"the model has {len(names):,} columns, and {len(columns):,} were given; give all of them in order, "
                "one struct that has them by name, or none to take them by name"
            )
        chosen = columns or [functions.col("`" + name.replace("`", "``") + "`") for name in names]
        pairs = zip(names, chosen, strict=True)
        cells = [(functions.col(one) if isinstance(one, str) else one).alias(name) for name, one in pairs]
        return _udf(model, what)(functions.struct(*cells))

    return on_columns


def _udf(model: Model, what: str) -> Any:
    """The function as Spark has it: from batches of rows, as pandas frames, to batches of predictions."""
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    schema = written_schema(model)
    if what == "all":

        def predict_all(rows: pd.DataFrame) -> pd.DataFrame:
            return predicted(model, rows).to_pandas()

        function: Any = predict_all
        type_name = "struct<" + ", ".join(f"`{field.name}`: {_type(field.type)}" for field in schema) + ">"
    else:

        def predict_one(rows: pd.DataFrame) -> pd.Series:
            return _column(model, what, predicted(model, rows))

        function = predict_one
        several = what == "probability" and model.n_classes > 2
        type_name = (
            _type(schema.field(PREDICTION).type) if what == "class" else "array<double>" if several else "double"
        )
    make: Any = pandas_udf
    with quiet():
        return make(function, type_name)


def _column(model: Model, what: str, table: pa.Table) -> Any:
    """One column of predictions, as a pandas series."""
    import pandas as pd

    if what == "probability" and model.n_classes > 2:
        columns = [table.column(k).to_pylist() for k in range(1, table.num_columns)]
        return pd.Series([list(row) for row in zip(*columns, strict=True)], dtype=object)
    return table.column(PREDICTION if what == "class" else what).to_pandas()


def _type(kind: pa.DataType) -> str:
    """A type of predictions, in Spark's words.

    >>> _type(pa.int64()), _type(pa.string())
    ('bigint', 'string')
    """
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_floating(kind):
        return "double"
    return "boolean" if pa.types.is_boolean(kind) else "string"
