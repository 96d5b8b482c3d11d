"""Predictions as a function of Spark columns, computed where the rows are."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from radoboost.errors import ArgumentError, install
from radoboost.learner.model import Model
from radoboost.learner.predict import PREDICTION, prediction_schema, predictions_of_frame
from radoboost.tables.spark_jobs import silence_pyspark_warnings

_WHAT = ("probability", "class", "score", "all")


def predict_udf(model: Model, what: str = "probability") -> "PredictUdf":
    """A function that predicts rows of a Spark frame: call it on columns to get a column.

    Without arguments it takes the model's columns, by their names. With columns, or the names of columns, these are the
    model's, in order; a single struct has them by name. Columns are raw, as they were in the table that the release
    was crafted from; gaps are filled. `spark.udf.register("risk", predict_udf(model))` makes it a function of SQL:
    `risk(age, dose)`, with all of the model's columns in order, or `risk(struct(*))`, by name.

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
    >>> model = rb.MomentsClassifier(n_rados=8, random_state=1).fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1]).model_
    >>> probability = predict_udf(model)      # frame.withColumn("p", probability())
    >>> callable(probability)
    True
    """
    if what not in _WHAT:
        raise ArgumentError(f"what must be one of {', '.join(map(repr, _WHAT))}; it is {what!r}")
    if what == "score" and model.n_classes > 2:
        raise ArgumentError("a model of more than two classes has no single score; ask for 'probability' or 'all'")
    return PredictUdf(model, what)


class PredictUdf:
    """What `predict_udf` gives: it is called on columns, and `spark.udf.register` takes it for SQL.

    `func` gets batches of rows as pandas has them: a struct as a frame, or the model's columns in order.
    """

    def __init__(self, model: Model, what: str) -> None:
        self._model, self._what = model, what

    def __call__(self, *columns: Any) -> Any:
        from pyspark.sql import functions

        names = list(self._model.feature_names)
        if len(columns) == 1 and (len(names) > 1 or not isinstance(columns[0], str)):
            return self._udf()(columns[0])
        if columns:
            _check_udf_column_count(len(columns), len(names))
        chosen = columns or [functions.col("`" + name.replace("`", "``") + "`") for name in names]
        pairs = zip(names, chosen, strict=True)
        cells = [(functions.col(one) if isinstance(one, str) else one).alias(name) for name, one in pairs]
        return self._udf()(functions.struct(*cells))

    # -- what `register` asks of a function

    deterministic = True

    @property
    def func(self) -> Callable[..., Any]:
        return partial(_predictions_in_udf, self._model, self._what)

    @property
    def returnType(self) -> Any:
        return self._udf().returnType

    @property
    def evalType(self) -> int:
        """That of functions from batches to batches."""
        return int(self._udf().evalType)

    def asNondeterministic(self) -> Any:
        """The function as Spark has it, to be called as often as rows are."""
        return self._udf().asNondeterministic()

    def _udf(self) -> Any:
        try:
            import pandas  # noqa: F401 (that of Spark needs it)
            from pyspark.sql.pandas.functions import pandas_udf
        except ImportError:
            raise ArgumentError(f"predict_udf needs pyspark and pandas; run: {install('spark')}") from None
        make: Any = pandas_udf
        with silence_pyspark_warnings():
            return make(_annotate_udf_types(self.func, self._what), _spark_type_of_predictions(self._model, self._what))


def _annotate_udf_types(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The function of one struct, with the types by which Spark knows its kind."""
    import pandas as pd

    def predict_rows(rows: pd.DataFrame) -> pd.Series:
        return function(rows)

    def predict_all(rows: pd.DataFrame) -> pd.DataFrame:
        return function(rows)

    return predict_all if what == "all" else predict_rows


def _predictions_in_udf(model: Model, what: str, *cells: Any) -> Any:
    """Predictions of a batch: of a frame with the model's columns, or of these, one by one."""
    import pandas as pd

    rows = cells[0]
    if len(cells) != 1 or not isinstance(rows, pd.DataFrame):
        _check_udf_column_count(len(cells), len(model.feature_names))
        rows = pd.DataFrame(dict(zip(model.feature_names, cells, strict=True)))
    table = predictions_of_frame(model, rows)
    return table.to_pandas() if what == "all" else _prediction_series(model, what, table)


def _check_udf_column_count(given: int, wanted: int) -> None:
    if given != wanted:
        raise ArgumentError(
            f"the model has {wanted:,} columns, and {given:,} were given; give all of them in order, one struct that "
            "has them by name, or none to take them by name"
        )


def _spark_type_of_predictions(model: Model, what: str) -> str:
    schema = prediction_schema(model)
    if what == "all":
        return "struct<" + ", ".join(f"`{field.name}`: {_spark_type_name(field.type)}" for field in schema) + ">"
    if what == "class":
        return _spark_type_name(schema.field(PREDICTION).type)
    return "array<double>" if what == "probability" and model.n_classes > 2 else "double"


def _prediction_series(model: Model, what: str, table: pa.Table) -> Any:
    import pandas as pd

    if what == "probability" and model.n_classes > 2:
        columns = [table.column(k).to_pylist() for k in range(1, table.num_columns)]
        return pd.Series([list(row) for row in zip(*columns, strict=True)], dtype=object)
    return table.column(PREDICTION if what == "class" else what).to_pandas()


def _spark_type_name(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_floating(kind):
        return "double"
    return "boolean" if pa.types.is_boolean(kind) else "string"
