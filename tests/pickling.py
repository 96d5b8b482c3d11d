"""A cluster in this process: everything that goes to a worker, and comes back, is pickled on the way."""

import pickle
import random

import pyarrow as pa

from radoboost.holder.aggregation import merge_accumulators
from radoboost.holder.runners.cluster import ClusterRows, ClusterRunner
from radoboost.holder.runners.worker import worker_keep_part, worker_sum_part
from radoboost.tables import frames


def sent(thing):
    return pickle.loads(pickle.dumps(thing))


class PartsFrame:
    """A data frame that is nowhere but on workers, who have its partitions in pieces."""

    def __init__(self, table, cuts):
        ends = sorted(min(cut, table.num_rows) for cut in cuts)
        bounds = zip([0, *ends], [*ends, table.num_rows], strict=True)
        self.schema, self.partitions = table.schema, [table.slice(a, b - a) for a, b in bounds]

    def mapInArrow(self):
        raise NotImplementedError("it is Spark's sign")

    def frames(self, number):
        partition = self.partitions[number]
        return [pa.table(batch) for batch in partition.to_batches(max_chunksize=7)]


PartsFrame.__module__ = "pyspark.sql"  # by which a frame is known to be on a cluster


def take_parts_frames(monkeypatch):
    """Let the driver know of such frames what it has to."""
    monkeypatch.setattr(frames, "cluster_frame_schema", lambda table: table.schema)
    monkeypatch.setattr(frames, "_cluster_partitions", lambda table, columns: (table, [None] * len(table.partitions)))


def lent(source, number):
    """What a worker has of a partition."""
    return None if source.frame is None else source.frame.frames(number)


class Pickling(ClusterRunner):
    """Parts in any order, merged by any tree, some of them summed twice."""

    name = "a cluster in this process"

    def __init__(self, seed=0, **options):
        super().__init__(**options)
        self.random = random.Random(seed)
        self.messages = []  # what went to workers, part by part

    def sum_parts(self, tasks, source, firsts, rows):
        order = list(range(len(source.pieces)))
        self.random.shuffle(order)
        states = []
        for k in order:
            task = tasks[k] if isinstance(tasks, list) else tasks
            message = pickle.dumps((task, source.pieces[k], k, firsts[k], rows))
            self.messages.append(message)
            for _ in range(self.random.choice([1, 1, 2])):
                state = worker_sum_part(*pickle.loads(message), frames=lent(source, k))
            states.append(sent(state))
        while len(states) > 1:
            self.random.shuffle(states)
            group, states = states[:3], states[3:]
            before = pickle.dumps(group)
            merged = merge_accumulators(group)
            assert pickle.dumps(group) == before, "a merge changed what it merged"
            states.append(sent(merged))
        return states[0]

    def keep_parts(self, task, source, rows):
        self.messages.append(pickle.dumps(task))
        pieces = [
            sent(worker_keep_part(*sent((task, piece, rows)), frames=lent(source, k)))
            for k, piece in enumerate(source.pieces)
        ]
        return ClusterRows(source.name, source.features, source.n_rows, pieces)
