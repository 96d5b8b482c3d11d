"""Columns at different holders: completion against block rados, against the best peer, and against the matched table.

    python benchmarks/holders_join.py --data FOLDER [--splits 15] [--domains a,b]
    python benchmarks/holders_join.py --report

A run of everything, and no other, writes experiments/results/holders.json, under the key join, and docs/joining.md;
--report does the latter alone. It exits with 1 where completion is not below the best peer at 1 and 2 shared columns,
or 1000 rados are more than half a point behind exact moments on four of the domains.

Each of the random splits deals out the columns: some shared, the others to one of two holders; and a fifth of the rows,
of 6000 at most, for testing. Every method has one ridge for all domains, splits and numbers of shared columns, for
without matched rows there is nothing to tune it on: ours and those of block rados are the library's, the others have
the one with the fewest errors on average. "hindsight" is the best ridge for each domain, which nobody could know. Peers
learn from one holder's columns and the shared ones; the better one of the two is picked by test errors. Block rados are
made with shared columns cut at their quartiles, or octiles, and without a floor.
"""

import argparse
import json
import os
import time
import warnings
import zlib
from pathlib import Path

import numpy as np

import radoboost as rb
from measuring import RESULTS, fill_page, keep, shortfalls, write_pages
from radoboost.lab.block_rados import RIDGE as BLOCK_RIDGE
from radoboost.lab.block_rados import WEIGHTED_RIDGE
from radoboost.lab.paper.domains import load_domain
from radoboost.learner.moment_completion import RIDGE, PartMoments, complete_moments, solve_completed_moments

DOMAINS = ("abalone", "wine_white", "magic", "banknote", "hardware", "higgs_sample", "eeg", "breast_wisc", "ionosphere")
WITH_AN_AIM = ("abalone", "wine_white", "magic", "banknote")
SHARED = {"0": (0, 4), "1": (1, 4), "2": (2, 4), "4": (4, 4), "4, octiles": (4, 8)}  # columns, and parts of each
SPLITS = 15
RIDGES = tuple(float(f"{digit}e{power}") for power in range(-6, 3) for digit in (1, 3))
METHODS = ("matched", "best peer", "sum of scores", "block rados", "weighted", "completion", "other people")
DEFAULTS = {"completion": RIDGE, "block rados": BLOCK_RIDGE, "weighted": WEIGHTED_RIDGE}
PAGE, TABLES = Path(__file__).parent.parent / "docs" / "joining.md", RESULTS / "joining.md"
MOST_ROWS, TEST_SHARE, N_RADOS = 6000, 0.2, 1000


def deals(name, folder, n_shared, n_splits):
    """Splits of rows and columns: train and test as (values, signs), and which columns are whose."""
    domain = load_domain(name, str(folder))
    varies = domain.x.min(axis=0) < domain.x.max(axis=0)
    x = domain.x[:, varies]
    for split in range(n_splits):
        rng = np.random.default_rng(zlib.crc32(f"{name}/{split}".encode()))
        rows, order = rng.permutation(len(x))[:MOST_ROWS], rng.permutation(x.shape[1])
        if x.shape[1] - n_shared < 2:
            return
        cut = int(TEST_SHARE * len(rows))
        train, test = rows[cut:], rows[:cut]
        mean, std = x[train].mean(axis=0), x[train].std(axis=0)
        scaled = (x - mean) / np.where(std > 0, std, 1.0)
        own = order[n_shared:]
        halves = own[: (len(own) + 1) // 2], own[(len(own) + 1) // 2 :]
        yield scaled[train], domain.signs[train], scaled[test], domain.signs[test], order[:n_shared], halves


def errors_of(theta, values, signs):
    """Errors in per cent of a theta whose last weight is the constant's."""
    return 100 * float(np.mean((values @ theta[:-1] + theta[-1] > 0) != (signs > 0)))


def one_split(train, signs, test, truth, shared, halves, n_parts=4):
    """Errors of every method, one for each ridge; block rados cut shared columns into so many parts."""
    order = [*halves[0], *halves[1], *shared]
    edges = np.column_stack([train[:, order], np.ones(len(train))]) * signs[:, None]
    first, second = edges.mean(axis=0), edges.T @ edges / len(edges)
    n_left, n_right = map(len, halves)
    last = list(range(n_left + n_right, len(order) + 1))
    peers = [[*range(n_left), *last], [*range(n_left, n_left + n_right), *last]]
    parts = [PartMoments.of_rows(train[:, half], train[:, shared], signs) for half in halves]
    joint, middle = complete_moments(*parts), len(train) // 2
    groups = [PartMoments.of_rows(train[rows][:, half], train[rows][:, shared], signs[rows])
              for half, rows in zip(halves, (slice(middle), slice(middle, None)), strict=True)]  # fmt: skip
    apart = complete_moments(*groups)
    blocks = block_parts(train, signs, shared, halves, n_parts)
    answer = {method: [] for method in METHODS}
    for ridge in RIDGES:
        answer["matched"].append(errors_of(solve_completed_moments(first, second, ridge), test[:, order], truth))
        thetas = [solve_completed_moments(first[peer], second[np.ix_(peer, peer)], ridge) for peer in peers]
        scores = [test[:, [order[k] for k in peer[:-1]]] @ theta[:-1] + theta[-1]
                  for peer, theta in zip(peers, thetas, strict=True)]  # fmt: skip
        wrong = [100 * float(np.mean((score > 0) != (truth > 0))) for score in (*scores, scores[0] + scores[1])]
        answer["best peer"].append(min(wrong[:2]))
        answer["sum of scores"].append(wrong[2])
        answer["completion"].append(errors_of(solve_completed_moments(*joint, ridge), test[:, order], truth))
        answer["other people"].append(errors_of(solve_completed_moments(*apart, ridge), test[:, order], truth))
        for method, weighted in (("block rados", False), ("weighted", True)):
            model = rb.learn_blocks(*blocks, weighted=weighted, ridge=ridge)
            scores = model.scores(test[:, [int(column[1:]) for column in model.feature_names]])
            answer[method].append(100 * float(np.mean((scores > 0) != (truth > 0))))
    return answer, len(blocks[0].counts), float((blocks[0].counts == 1).sum() / len(train))


def named(values, places):
    return {f"c{place}": np.ascontiguousarray(values[:, place]) for place in places}


def block_parts(train, signs, shared, halves, n_parts):
    shares = np.arange(1, n_parts) / n_parts
    cuts = {f"c{k}": np.unique(np.quantile(train[:, k], shares)).tolist() for k in shared}
    options = {"cuts": cuts, "least": 1, "mechanism": rb.Plain(scale=None), "compute": rb.Compute(threads=1)}
    return [rb.craft_blocks(named(train, [*half, *shared]), signs, **options) for half in halves]


def from_rados(name, folder, n_splits):
    """Errors of `join` from releases of 1000 rados, and of exact moments, at two shared columns."""
    pairs = []
    for split, (train, signs, test, truth, shared, halves) in enumerate(deals(name, folder, 2, n_splits)):
        parts = [
            rb.craft(
                named(train, [*half, *shared]),
                signs,
                n_rados=N_RADOS,
                seed=2 * split + side,
                schema=rb.Schema(shared=tuple([f"c{k}" for k in shared])),
                compute=rb.Compute(threads=1),
            )
            for side, half in enumerate(halves)
        ]
        model = rb.join(*parts)
        scores = model.scores(test[:, [int(column[1:]) for column in model.feature_names]])
        exact = solve_completed_moments(
            *complete_moments(*(PartMoments.of_rows(train[:, half], train[:, shared], signs) for half in halves))
        )
        order = [*halves[0], *halves[1], *shared]
        pairs.append((100 * float(np.mean((scores > 0) != (truth > 0))), errors_of(exact, test[:, order], truth)))
    rados, exact = np.array(pairs).T
    return {"rados": float(rados.mean()), "exact": float(exact.mean()), "difference": float((rados - exact).mean()),
            "standard_error": float((rados - exact).std(ddof=1) / np.sqrt(len(pairs)))}  # fmt: skip


def measured(options):
    """Mean errors by method, number of shared columns, domain and ridge; shape (ridges,) at the leaves."""
    errors, sizes = {}, {}
    for title, (n_shared, n_parts) in SHARED.items():
        for name in options.domains:
            splits = [one_split(*deal, n_parts) for deal in deals(name, options.data, n_shared, options.splits)]
            if not splits:
                continue
            sizes.setdefault(title, {})[name] = {
                "blocks": float(np.mean([count for _, count, _ in splits])),
                "alone": float(np.mean([alone for *_, alone in splits])),
            }
            for method in METHODS:
                mean = np.mean([answer[method] for answer, *_ in splits], axis=0)
                errors.setdefault(method, {}).setdefault(title, {})[name] = mean
            print(f"{title} shared, {name}: {len(splits)} splits", flush=True)
    return errors, sizes


def summary(errors):
    """One ridge for each method, errors with it by number of shared columns, and in hindsight."""
    answer = {"ridge": {}, "ridge_of_fewest_errors": {}, "mean": {}, "hindsight": {}, "by_domain": {}, "by_ridge": {}}
    for method, by_shared in errors.items():
        curve = np.mean([np.mean(list(by_domain.values()), axis=0) for by_domain in by_shared.values()], axis=0)
        best = RIDGES[int(np.argmin(curve))]
        answer["by_ridge"][method] = dict(zip(map(str, RIDGES), map(float, curve), strict=True))
        ridge = DEFAULTS.get("completion" if method == "other people" else method, best)
        place = RIDGES.index(ridge)
        answer["ridge"][method], answer["ridge_of_fewest_errors"][method] = ridge, best
        for n_shared, by_domain in by_shared.items():
            cells = {name: (float(curve[place]), float(curve.min())) for name, curve in by_domain.items()}
            answer["by_domain"].setdefault(n_shared, {})[method] = {name: one for name, (one, _) in cells.items()}
            answer["mean"].setdefault(n_shared, {})[method] = float(np.mean([one for one, _ in cells.values()]))
            answer["hindsight"].setdefault(n_shared, {})[method] = float(np.mean([low for _, low in cells.values()]))
    return answer


def shortcomings(results):
    """What falls short of its aim."""
    for n_shared in ("1", "2"):
        mean = results["mean"].get(n_shared, {})
        if mean and not mean["completion"] < mean["best peer"]:
            yield f"{n_shared} shared: completion {mean['completion']:.1f}, the best peer {mean['best peer']:.1f}"
    for name in WITH_AN_AIM:
        cell = results["from_rados"].get(name, {"difference": 0.0})
        if not cell["difference"] <= 0.5:
            yield f"{name} from rados {cell['rados']:.2f} against {cell['exact']:.2f} from exact moments"


TITLES = {
    "matched": "matched table",
    "best peer": "better holder alone, in hindsight",
    "sum of scores": "sum of both holders' scores",
    "block rados": "block rados",
    "weighted": "weighted block rados",
    "completion": "**completion**",
    "other people": "completion, other people",
}


def rendered(results):
    """The page with its figures."""
    return fill_page(PAGE, generated(results), TABLES)


def generated(results):
    """The parts that are from here, by name."""
    return {"figures": mean_lines(results), "by domain": domain_lines(results), "by ridge": ridge_lines(results)}


def mean_lines(results):
    head = (
        f"Test errors in per cent, means over {results['splits']} random splits of columns and rows, {MOST_ROWS} rows "
        "at most, two holders. One ridge for each method and all tables; after the stroke, the best ridge of each "
        "domain in hindsight. In *other people* each holder has half of the rows. Block rados have no floor here, and "
        "shared columns are cut at their quartiles, or where it says so at their octiles."
    )
    lines = [head, "", "| shared columns | domains | blocks | alone in a block | " + " | ".join(TITLES.values()) + " |"]
    lines.append("|---" * (len(TITLES) + 4) + "|")
    for n_shared, mean in results["mean"].items():
        sizes, hindsight = results["sizes"][n_shared], results["hindsight"][n_shared]
        counts = [cell["blocks"] for cell in sizes.values()]
        alone = max(cell["alone"] for cell in sizes.values())
        cells = [f"{mean[method]:.1f} / {hindsight[method]:.1f}" for method in TITLES]
        cells = [
            n_shared,
            f"{len(sizes)}",
            f"{min(counts):.0f} to {max(counts):.0f}",
            f"up to {100 * alone:.0f} %",
            *cells,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def domain_lines(results):
    lines = [
        "By domain, at 2 shared columns, one ridge; the last two columns are `rb.join` of releases of 1000 rados, and "
        "exact moments on the same splits:",
        "",
    ]
    lines.append("| domain | " + " | ".join(TITLES.values()) + " | 1000 rados | exact |")
    lines.append("|---" * (len(TITLES) + 3) + "|")
    for name in results["by_domain"]["2"]["matched"]:
        cells = [f"{results['by_domain']['2'][method][name]:.1f}" for method in TITLES]
        cell = results["from_rados"].get(name)
        cells += ["", ""] if cell is None else [f"{cell['rados']:.1f}", f"{cell['exact']:.1f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ridge_lines(results):
    shown = [ridge for ridge in map(str, RIDGES) if float(ridge) in (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)]
    lines = ["Mean errors over all numbers of shared columns, by ridge:", ""]
    lines += ["| | " + " | ".join(f"{float(ridge):g}" for ridge in shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for method in ("completion", "other people", "block rados", "weighted"):
        curve = results["by_ridge"][method]
        lines.append(f"| {TITLES[method]} | " + " | ".join(f"{curve[ridge]:.1f}" for ridge in shown) + " |")
    return "\n".join(lines)


def run(options):
    """All figures, kept."""
    warnings.simplefilter("ignore", rb.ClippedWarning)
    begun = time.perf_counter()
    errors, sizes = measured(options)
    results = {**summary(errors), "sizes": sizes, "splits": options.splits}
    for n_shared, mean in results["mean"].items():
        hindsight = results["hindsight"][n_shared]
        print(
            f"{n_shared} shared: " + ", ".join(f"{m} {mean[m]:.1f} / {hindsight[m]:.1f}" for m in METHODS), flush=True
        )
    print("ridges:", results["ridge"], "fewest errors:", results["ridge_of_fewest_errors"], flush=True)
    results["from_rados"] = {}
    for name in options.domains:
        cell = results["from_rados"][name] = from_rados(name, options.data, options.splits)
        print(f"{name}: rados {cell['rados']:.2f}, exact {cell['exact']:.2f}, {cell['standard_error']:.2f}", flush=True)
    results["seconds"] = round(time.perf_counter() - begun, 1)
    if not options.dry and (options.splits, tuple(options.domains)) == (SPLITS, DOMAINS):
        keep("holders/join", results)
        write_pages(PAGE, TABLES, generated(results))
    return list(shortcomings(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("RADO_DATA"))
    parser.add_argument("--splits", type=int, default=SPLITS, help="random splits of columns")
    parser.add_argument("--domains", type=lambda text: text.split(","), default=list(DOMAINS))
    parser.add_argument("--dry", action="store_true", help="keep nothing")
    parser.add_argument("--report", action="store_true", help="run nothing: the page from the results")
    options = parser.parse_args()
    if options.report:
        results = json.loads((RESULTS / "holders.json").read_text())["join"]["results"]
        write_pages(PAGE, TABLES, generated(results))
        return
    if options.data is None:
        print("holders_join: left out; name the folder of the domains (--data, or RADO_DATA)")
        return
    shortfalls(run(options))


if __name__ == "__main__":
    main()
