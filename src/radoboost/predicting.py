"""Predictions of a whole table, on this machine or on a cluster: the learner's work, by the runners of the holder."""

from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.runners.clusters import cluster_runner
from radoboost.learner.model import Model
from radoboost.learner.predict import Predicted, predict_table
from radoboost.progress import Progress
from radoboost.tables.streams import is_query


def predict_table_on(
    cluster: Any, model: Model, table: Any, place: Path, bar: Progress, *, trust_network: bool = False, **options: Any
) -> Predicted:
    """As `predict_table`, by the workers of a cluster unless it is None: they read and predict parts of the table.

    The file is written here, part by part, and has the same bytes. Columns that are carried through are read here.
    """
    if cluster is None:
        return predict_table(model, table, place, bar, **options)
    if is_query(table):
        raise ArgumentError(
            "queries, streams and standard input come to this machine alone, and no worker of a cluster can read them; "
            "write the rows to files that all workers can read, or leave cluster out (--cluster)"
        )
    runner: Any = cluster_runner(cluster, table, bar, trust_network=trust_network)
    try:
        return predict_table(model, table, place, bar, spread=runner.map_parts, **options)
    finally:
        if runner is not cluster:
            runner.close()
