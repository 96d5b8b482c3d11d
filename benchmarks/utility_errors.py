"""What the results of `utility.py` say: means, best peers, figures of the study beside them, and checks."""

import csv
from functools import cache
from pathlib import Path

import numpy as np

STUDY = Path(__file__).with_name("study.csv")  # its figures by table, copied; "moments" is its version 2
OURS = ("moments", "moments, linear", "moments, private bounds")
PEERS = ("DP-TR", "DP-EBM", "DP-EBM, default", "DP-SGD", "DP-GD", "objective perturbation")
PEERS += ("boosted AdaSSP", "AdaSSP", "diffprivlib")
LINEAR = ("logistic regression", "logistic regression, C = 10000")
OPEN = (*LINEAR, "quadratic logistic regression", "gradient boosting", "majority class")
NOISELESS = "moments without noise"

# What the project wants to see.
FROM_STUDY = {0.1: 0.8, 0.3: 0.4, 1.0: 0.4, 3.0: 0.4, 10.0: 0.4}  # points above the study's version 2, at most
TARGETS = {("magic", 1.0): 14.0, ("eeg", 1.0): 18.0, ("banknote", 3.0): 0.6, ("hardware", 1.0): 3.0}  # percent
BEHIND, ENOUGH, MOST_BEHIND = 1.0, 100, 6  # points; rows * epsilon / columns; cells
FRESH_PEERS = ("DP-SGD", "DP-EBM", "DP-EBM, default")
CALIBRATED, LARGE = 0.03, 4_000  # expected calibration error at epsilon 1, at most; rows, at least
# Why ours is behind in a cell (table, epsilon); whoever runs it again looks whether it still is.
REASONS: dict[tuple[str, float], str] = {
    ("arcs", 0.3): "squares and products of its columns tell hardly more than a line, and carry noise",
    ("hastie", 1.0): "classes are by a sum of squares of normal columns, which polynomials of ranks bend",
    ("hastie", 3.0): "as at epsilon 1",
    ("hastie", 10.0): "as at epsilon 1",
    ("shells", 10.0): "as hastie",
    ("digits", 10.0): "so few rows for 61 columns that the rule keeps to the table's own",
}


class Errors:
    """Mean test errors in percent by method, table and epsilon, of one group of tables."""

    def __init__(self, results, group):
        self.protocol, self.group = results["protocol"], group
        self.sizes = {name: size for name, size in results["domains"].items() if size["group"] == group}
        self.rows = {
            (r["method"], r["domain"], r["epsilon"]): r for r in results["errors"] if r["domain"] in self.sizes
        }
        self.domains = sorted(self.sizes)
        self.epsilons = sorted({epsilon for _, _, epsilon in self.rows if epsilon})
        there = {method for method, _, _ in self.rows}
        self.peers, self.ours, self.open = ([m for m in names if m in there] for names in (PEERS, OURS, OPEN))

    def row(self, method, domain, epsilon=None):
        return self.rows[method, domain, None if method in (*OPEN, NOISELESS) else epsilon]

    def at(self, method, domain, epsilon=None):
        return self.row(method, domain, epsilon)["error"]

    def mean(self, method, epsilon=None):
        return float(np.mean([self.at(method, domain, epsilon) for domain in self.domains]))

    def mean_error(self, method, epsilon=None):
        """The standard error of the mean over tables, these tables given."""
        errors = [self.row(method, domain, epsilon)["standard_error"] or 0.0 for domain in self.domains]
        return float(np.sqrt(np.square(errors).sum()) / len(errors))

    def best_peer(self, domain, epsilon):
        return min(self.peers, key=lambda method: self.at(method, domain, epsilon))

    def setting(self, method, epsilon):
        return self.row(method, self.domains[0], epsilon)["setting"]

    def enough(self, domain, epsilon):
        return self.sizes[domain]["rows"] * epsilon / self.sizes[domain]["columns"]

    def gap(self, domain, epsilon):
        """Points by which `moments` is behind the best peer, and the standard error of that over splits."""
        ours, peer = (self.row(m, domain, epsilon) for m in ("moments", self.best_peer(domain, epsilon)))
        common = min(len(ours["splits"]), len(peer["splits"]))  # some are run on the first splits only
        apart = np.subtract(ours["splits"][:common], peer["splits"][:common])
        return float(apart.mean()), float(np.std(apart, ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else 0.0

    def behind(self):
        """(table, epsilon) with enough rows in which `moments` is too far behind the best peer."""
        cells = [(domain, epsilon) for domain in self.domains for epsilon in self.epsilons]
        return [cell for cell in cells if self.enough(*cell) >= ENOUGH and self.gap(*cell)[0] > BEHIND]

    def large(self):
        return [domain for domain in self.domains if self.sizes[domain]["rows"] >= LARGE]


def all_groups(results):
    return tuple(Errors(results, group) for group in ("main", "seen", "fresh"))


# ---- the study


@cache
def study_rows():
    with STUDY.open() as file:
        return tuple(csv.DictReader(file))


def study(method, domains, epsilon):
    """The study's mean over tables, of the setting that is best there; None where a table is missing."""
    means = {}
    for row in study_rows():
        if (
            row["method"] == method
            and row["domain"] in domains
            and (not row["epsilon"] or float(row["epsilon"]) == epsilon)
        ):
            means.setdefault(row["setting"], []).append(float(row["error"]))
    whole = [float(np.mean(errors)) for errors in means.values() if len(errors) == len(domains)]
    return min(whole) if whole else None


# ---- checks: (what, whether it is seen, details)


def checks(results):
    main, seen, fresh = all_groups(results)
    found = []
    if main.domains and "moments" in main.ours:
        found += [near_the_study(main), ahead(main, main.peers), below_regression(main), targets(main)]
        found += [calibrated(main)] if 1.0 in main.epsilons else []
    if seen.domains and "moments" in seen.ours:
        found += [calibrated(seen)] if 1.0 in seen.epsilons else []
    if fresh.domains and "moments" in fresh.ours:
        found += [ahead(fresh, [method for method in FRESH_PEERS if method in fresh.peers])]
        found += [calibrated(fresh)] if 1.0 in fresh.epsilons else []
    if main.domains and fresh.domains and len(found) > 4:
        found += [not_behind([main, seen, fresh])]
    return found


def not_seen(results):
    """What the project wants to see and does not, in words."""
    return [f"{what} ({details})" for what, seen, details in checks(results) if not seen]


def near_the_study(errors):
    gaps = {e: errors.mean("moments", e) - study("moments", errors.domains, e) for e in errors.epsilons}
    return (
        "on main tables the mean error of moments is above the study's by at most "
        + ", ".join(f"{FROM_STUDY[e]:g} points at epsilon {e:g}" for e in gaps),
        all(gap <= FROM_STUDY[e] for e, gap in gaps.items()),
        ", ".join(f"{gap:+.2f} at {e:g}" for e, gap in gaps.items()),
    )


def ahead(errors, peers):
    ours = {e: errors.mean("moments", e) for e in errors.epsilons}
    best = {e: min(peers, key=lambda method: errors.mean(method, e)) for e in errors.epsilons}
    gaps = {e: ours[e] - errors.mean(best[e], e) for e in errors.epsilons}
    who = "every private peer" if len(peers) > len(FRESH_PEERS) else " and ".join(peers)
    return (
        f"on {errors.group} tables moments is ahead of {who} on average at every epsilon",
        all(gap < 0 for gap in gaps.values()),
        ", ".join(f"{gap:+.2f} to {best[e]} at {e:g}" for e, gap in gaps.items()),
    )


def below_regression(errors):
    """By the better of the two."""
    floor = min(errors.mean(method) for method in LINEAR)
    gaps = {e: errors.mean("moments", e) - floor for e in errors.epsilons if e >= 1}
    return (
        "on main tables moments is below linear logistic regression without privacy from epsilon 1 on",
        all(gap < 0 for gap in gaps.values()),
        ", ".join(f"{gap:+.2f} at {e:g}" for e, gap in gaps.items()),
    )


def targets(errors):
    found = {
        key: errors.at("moments", *key) for key in TARGETS if key[0] in errors.domains and key[1] in errors.epsilons
    }
    return (
        "moments errs at most as often as aimed at on "
        + ", ".join(f"{domain} at epsilon {epsilon:g} ({TARGETS[domain, epsilon]:g} %)" for domain, epsilon in found),
        all(error <= TARGETS[key] for key, error in found.items()),
        ", ".join(f"{domain} {error:.2f}" for (domain, _), error in found.items()),
    )


def calibrated(errors):
    found = {domain: errors.row("moments", domain, 1.0)["calibration_error"] for domain in errors.large()}
    return (
        f"on {errors.group} tables of {LARGE:,} rows or more the expected calibration error of moments at epsilon 1 is "
        f"at most {CALIBRATED:g}",
        all(error <= CALIBRATED for error in found.values()),
        ", ".join(f"{domain} {error:.3f}" for domain, error in found.items()),
    )


def not_behind(groups):
    cells = [(errors, *cell) for errors in groups for cell in errors.behind()]
    details = [f"{domain} at {e:g}: {errors.gap(domain, e)[0]:+.2f}" for errors, domain, e in cells]
    return (
        f"on all tables, where rows * epsilon / columns is at least {ENOUGH}, moments is more than {BEHIND:g} point "
        f"behind the best peer in at most {MOST_BEHIND} cells, each with a reason",
        len(cells) <= MOST_BEHIND and all((domain, e) in REASONS for _, domain, e in cells),
        ", ".join(details) or "in none",
    )
