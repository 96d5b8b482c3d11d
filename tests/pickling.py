"""A cluster in this process: everything that goes to a worker, and comes back, is pickled on the way."""

import pickle
import random

from radoboost.holder.runners.clusters import ClusterRows, ClusterRunner
from radoboost.holder.runners.parts import keep_part, merge_parts, sum_part


def sent(thing):
    return pickle.loads(pickle.dumps(thing))


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
                state = sum_part(*pickle.loads(message))
            states.append(sent(state))
        while len(states) > 1:
            self.random.shuffle(states)
            group, states = states[:3], states[3:]
            before = pickle.dumps(group)
            merged = merge_parts(group)
            assert pickle.dumps(group) == before, "a merge changed what it merged"
            states.append(sent(merged))
        return states[0]

    def keep_parts(self, task, source, rows):
        pieces = [sent(keep_part(*sent((task, piece, rows)))) for piece in source.pieces]
        return ClusterRows(source.name, source.features, source.n_rows, pieces)
