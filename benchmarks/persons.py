"""The attack on a whole person in a table of visits, with and without a bound on the rows of a person.

    python benchmarks/persons.py [--epsilon 4] [--max-rows 4] [--runs 300]

The table is made up from a seed: 20,000 people with 1 to 40 visits each, and a canary with 40 identical rows. With the
bound the attack must prove no more than the statement says, about one person; without it, the same attack on a release
of the same table must prove more than its statement says about one record. Confidence 1 - 1e-6. Exits with 1 otherwise.
"""

import argparse

import numpy as np

import radoboost as rb
from measuring import keep, shortfalls
from radoboost.lab.audits.person_audit import PersonCanary, audit_person
from radoboost.progress import show_progress

RUNS_WITHOUT = 100  # enough, since the canary is then in plain sight


def many_visits(n_people: int = 20_000, most: int = 40, seed: int = 0) -> PersonCanary:
    """A made-up table: people with 1 to `most` visits each, whose values scatter about their own; a canary with `most`.

    The canary's label is not the one that others with such values have, so that it has a large weight throughout.
    """
    rng = np.random.default_rng(seed)
    people = rng.permutation(np.repeat(np.arange(n_people), rng.integers(1, most + 1, n_people)))
    own = rng.uniform(-1, 1, (n_people, 5))
    values = np.clip(own[people] + rng.normal(0, 0.3, (len(people), 5)), -1, 1)
    leaning = 2 * values[:, 0] + values[:, 1] - values[:, 2]
    labels = (leaning + rng.logistic(0, 0.5, len(people)) > 0).astype(np.int64)
    return PersonCanary(values, labels, people, np.array([-1.0, -1.0, 1.0, 0.5, -0.5]), most)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--max-rows", type=int, default=4)
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    visits, mechanism = many_visits(), rb.Moments(options.epsilon)
    results, short = [], []
    cases = {"at most {} rows of a person": (options.max_rows, options.runs), "no bound": (None, RUNS_WITHOUT)}
    for name, (max_rows, runs) in cases.items():
        with show_progress("runs") as bar:
            found = audit_person(mechanism, visits, max_rows, runs=runs, key=b"benchmarks/persons", bar=bar)
        what = name.format(options.max_rows)
        table = {"people": 20_000, "rows": len(visits.people), "canary_rows": visits.times}
        results.append({"what": what, **table, **found.to_dict()})
        print(f"{what:<32} claimed {found.claim:.4f} for {found.neighbours}, proved {found.found:.4f}", flush=True)
        if found.holds != (max_rows is not None):
            short.append(f"{what}: epsilon {found.found:.4f} is proved, and {found.claim:.4f} claimed")
    keep("persons", results)
    shortfalls(short)


if __name__ == "__main__":
    main()
