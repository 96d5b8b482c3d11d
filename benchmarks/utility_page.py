"""What the results of `utility.py` say: tables on screen, checks, pictures, and the generated parts of a docs page.

No result on docs/choosing-epsilon.md is typed by hand: each stands between two comments that name the part it is of.
"""

import math
import textwrap
from itertools import pairwise
from pathlib import Path

import numpy as np

from measuring import fill_page
from radoboost.holder.expected_error import expected_error
from radoboost.holder.mechanisms import Moments
from radoboost.holder.mechanisms.moment_budget import Shape
from radoboost.privacy import Gaussian, Relation, best_guess, epsilon_at, gaussian_multiplier

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "choosing-epsilon.md"
MEANS_PICTURE, DOMAINS_PICTURE = DOCS / "images" / "utility.svg", DOCS / "images" / "utility-domains.svg"

SGD = ("DP-SGD, rate 10, clip 0.5", "DP-SGD, rate 60, clip 0.25")
PRIVATE = ("moments", "moments, generic", "DP-SGD", "AdaSSP", "diffprivlib", "noisy-rados", "paper")
OPEN = ("logistic regression", "logistic regression, C = 10000", "majority class")
LIMITS = ("moments at epsilon 1000", "moments without noise")
NAMES = {
    "moments": "`moments`",
    "moments, generic": "`moments`, `sharpen=False`",
    "noisy-rados": "`noisy-rados`, 300 rados",
    "paper": "the paper's route: `noisy-examples`, boosted (one edge vector replaced)",
    "diffprivlib": "diffprivlib (delta = 0)",
    "logistic regression": "logistic regression, not private",
    "logistic regression, C = 10000": "the same, hardly regularised (C = 10000)",
    "majority class": "the majority class",
}
TOLERANCE, MOST_LOSSES, NEAR = 0.1, 13, 0.5  # points; cells; points
EDGES = (0, 30, 100, 300, 1000, 3000, np.inf)  # of rows times epsilon over columns


class Errors:
    """Mean test errors in percent by method, domain and epsilon."""

    def __init__(self, results):
        self.protocol, self.sizes = results["protocol"], results["domains"]
        self.rows = {(row["method"], row["domain"], row["epsilon"]): row for row in results["errors"]}
        self.domains = sorted({domain for method, domain, _ in self.rows if method == "moments"})
        self.epsilons = sorted({epsilon for method, _, epsilon in self.rows if method == "moments"})
        self.limit_domains = sorted({domain for method, domain, _ in self.rows if method in LIMITS})
        self.sgd = {epsilon: min(SGD, key=lambda one: self._mean(one, epsilon)) for epsilon in self.epsilons}
        self.private = [
            method for method in PRIVATE if method == "DP-SGD" or any(key[0] == method for key in self.rows)
        ]

    def row(self, method, domain, epsilon=None):
        """DP-SGD is, at each epsilon, the configuration with the lower mean over domains."""
        name = self.sgd[epsilon] if method == "DP-SGD" else method
        return self.rows[name, domain, None if method in OPEN else epsilon]

    def at(self, method, domain, epsilon=None):
        return self.row(method, domain, epsilon)["error"]

    def mean(self, method, epsilon=None):
        return self._mean(self.sgd[epsilon] if method == "DP-SGD" else method, None if method in OPEN else epsilon)

    def _mean(self, name, epsilon):
        return float(np.mean([self.rows[name, domain, epsilon]["error"] for domain in self.domains]))

    def mean_error(self, method, epsilon=None):
        """The standard error of the mean over domains, these domains given."""
        errors = [self.row(method, domain, epsilon)["standard_error"] or 0.0 for domain in self.domains]
        return float(np.sqrt(np.square(errors).sum()) / len(errors))

    def limit(self, domain):
        """At epsilon 1000, and without noise."""
        return self.at(LIMITS[0], domain, 1000.0), self.at(LIMITS[1], domain)

    def losses(self):
        """(domain, epsilon, points) where `moments` is worse than DP-SGD by more than the tolerance."""
        gaps = [(d, e, self.at("moments", d, e) - self.at("DP-SGD", d, e)) for d in self.domains for e in self.epsilons]
        return [gap for gap in gaps if gap[2] > TOLERANCE]


def checks(errors):
    """What the project wants to see: (what, whether it is seen, details)."""
    found = []
    if errors.domains and errors.epsilons:
        best = {e: min(errors.private, key=lambda method: errors.mean(method, e)) for e in errors.epsilons}
        beaten = [f"{best[e]} at {e:g}" for e in errors.epsilons if best[e] != "moments"]
        found.append(
            (
                "moments has the lowest mean error of all private methods at every epsilon",
                not beaten,
                "lower: " + ", ".join(beaten) if beaten else "",
            )
        )
        losses = errors.losses()
        found.append(
            (
                f"moments is worse than DP-SGD by more than {TOLERANCE} points in at most {MOST_LOSSES} cells",
                len(losses) <= MOST_LOSSES,
                f"{len(losses)} of {len(errors.domains) * len(errors.epsilons)}"
                + "".join(f"; {domain} at {epsilon:g}: {gap:+.2f}" for domain, epsilon, gap in losses),
            )
        )
        if 1.0 in errors.epsilons:
            gap, other = (errors.mean("moments", 1.0) - errors.mean(name) for name in OPEN[:2])
            found.append(
                (
                    f"at epsilon 1 its mean is at most {NEAR} points above logistic regression without privacy",
                    gap <= NEAR,
                    f"{gap:+.2f}; hardly regularised: {other:+.2f}",
                )
            )
    if errors.limit_domains:
        gaps = {domain: np.subtract(*errors.limit(domain)) for domain in errors.limit_domains}
        worst = max(gaps, key=lambda domain: abs(gaps[domain]))
        far = [f"{domain}: {gap:+.2f}" for domain, gap in gaps.items() if abs(gap) > NEAR]
        found.append(
            (
                f"at epsilon 1000 it is within {NEAR} points of the same recipe without noise on every domain",
                not far,
                "; ".join(far) if far else f"largest difference: {worst}, {gaps[worst]:+.2f}",
            )
        )
    return found


def not_seen(results):
    """What the project wants to see and does not, in words."""
    return [f"{what} ({details})" for what, seen, details in checks(Errors(results)) if not seen]


# ---- on screen


def show(results):
    errors = Errors(results)
    if errors.domains:
        print("Mean test error in percent over", ", ".join(errors.domains))
        print(f"{'':<34}" + "".join(f"{epsilon:>9g}" for epsilon in errors.epsilons))
        for method in (*errors.private, *SGD, *OPEN):
            print(f"{method:<34}" + "".join(f"{errors.mean(method, epsilon):>9.2f}" for epsilon in errors.epsilons))
        print("\nmoments and DP-SGD by domain")
        for domain in errors.domains:
            pairs = [(errors.at("moments", domain, e), errors.at("DP-SGD", domain, e)) for e in errors.epsilons]
            print(f"{domain:<16}" + "".join(f"{a:>9.2f} {b:>6.2f}" for a, b in pairs))
    if errors.limit_domains:
        print(f"\n{'moments':<16}{'epsilon 1000':>14}{'without noise':>15}{'difference':>12}")
        for domain in errors.limit_domains:
            noisy, exact = errors.limit(domain)
            print(f"{domain:<16}{noisy:>14.2f}{exact:>15.2f}{noisy - exact:>+12.2f}")
    print()
    for what, seen, details in checks(errors):
        print(f"{'seen' if seen else 'NOT SEEN'}: {what}" + (f" ({details})" if details else ""))


# ---- the page


def write(results):
    """Both pictures, and the generated parts of the page."""
    errors = Errors(results)
    draw_means(errors)
    draw_domains(errors)
    PAGE.write_text(rendered(results))


def rendered(results):
    """The page as it is, with its generated parts as the results have them."""
    errors = Errors(results)
    parts = {
        "promise": promise_table(errors),
        "words": words(errors),
        "means": means_table(errors),
        "size": size_table(errors),
        "domains": domains_table(errors),
        "gaps": gaps_table(errors),
        "expected": expected_table(errors),
        "limit": limit_table(errors),
        "checks": "\n".join(map(wrapped, check_lines(errors))),
    }
    return fill_page(PAGE, parts)


def check_lines(errors):
    for what, seen, details in checks(errors):
        yield f"- {'Seen' if seen else '**Not seen**'}: {what}" + (f" ({details})." if details else ".")


def wrapped(line):
    return "\n".join(textwrap.wrap(line, 135, subsequent_indent="  " * line.startswith("- ")))


def table(head, rows, left=1):
    """A Markdown table; all but the first columns are numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(str(entry) for entry in line) + " |" for line in (head, rule, *rows))


def bold_least(values, digits):
    """Values as text, the least of each column bold."""
    shown = [[f"{value:.{digits}f}" for value in line] for line in values]
    for column in range(len(shown[0])):
        least = min(float(line[column]) for line in shown)
        for line in shown:
            if float(line[column]) == least:
                line[column] = f"**{line[column]}**"
    return shown


def promise_table(errors):
    """What an adversary gains, by the accountant, next to what it cost."""
    rows, delta = [], errors.protocol["delta"]
    for epsilon in errors.epsilons:
        guess = best_guess(Gaussian(gaussian_multiplier(epsilon, delta), Relation.RECORD))
        rows.append(
            [
                f"{epsilon:g}",
                f"{delta:g}",
                f"{math.ceil(1000 * guess) / 10:.1f} %",
                f"{errors.mean('moments', epsilon):.1f} %",
            ]
        )
    return table(["epsilon", "delta", "best guess of an adversary", "mean error of `moments`"], rows, left=0)


def means_table(errors):
    private = bold_least([[errors.mean(method, e) for e in errors.epsilons] for method in errors.private], 2)
    rows = [[NAMES.get(method, method), *line] for method, line in zip(errors.private, private, strict=True)]
    rows += [[NAMES[method], *[f"{errors.mean(method):.2f}"] * len(errors.epsilons)] for method in OPEN]
    return table(["mean error, %", *(f"epsilon {epsilon:g}" for epsilon in errors.epsilons)], rows)


def costs(errors):
    """(rows times epsilon over columns, points that noise costs) for every domain and epsilon."""
    return [
        (
            errors.sizes[domain]["train"] * epsilon / errors.sizes[domain]["columns"],
            errors.at("moments", domain, epsilon) - errors.limit(domain)[1],
        )
        for domain in errors.domains
        for epsilon in errors.epsilons
    ]


def size_table(errors):
    rows, found = [], costs(errors)
    for low, high in pairwise(EDGES):
        points = [cost for ratio, cost in found if low <= ratio < high]
        if points:
            name = (
                f"{low:,} to {high:,}"
                if low and high < np.inf
                else f"under {high:,}"
                if not low
                else f"{low:,} or more"
            )
            rows.append(
                [name, len(points), *(signed(point, 1) for point in (np.mean(points), min(points), max(points)))]
            )
    return table(["rows * epsilon / columns", "cells", "mean cost in points", "least", "most"], rows)


def signed(points, digits):
    """With a sign, unless it rounds to nothing."""
    return f"{points:+.{digits}f}" if round(points, digits) else f"{0:.{digits}f}"


def domains_table(errors):
    rows = []
    for domain in errors.domains:
        size = errors.sizes[domain]
        line = [f"{errors.at('moments', domain, epsilon):.1f}" for epsilon in errors.epsilons]
        others = [f"{errors.at(name, domain):.1f}" for name in ("logistic regression", "majority class")]
        rows.append([domain, f"{size['train']:,}", size["columns"], *line, *others])
    head = [*(f"epsilon {epsilon:g}" for epsilon in errors.epsilons), "not private", "majority"]
    return table(["domain", "rows", "columns", *head], rows)


def gaps_table(errors):
    rows = []
    for domain in errors.domains:
        line = []
        for epsilon in errors.epsilons:
            gap = errors.at("moments", domain, epsilon) - errors.at("DP-SGD", domain, epsilon)
            line.append(f"**{signed(gap, 1)}**" if gap > TOLERANCE else signed(gap, 1))
        rows.append([domain, *line])
    return table(["domain", *(f"epsilon {epsilon:g}" for epsilon in errors.epsilons)], rows)


def expected_table(errors):
    """What `rado account` would have said before, given the error without noise, next to what came."""
    rows = []
    for epsilon in errors.epsilons:
        told, found = [], []
        for domain in errors.domains:
            size, best = errors.sizes[domain], errors.limit(domain)[1] / 100
            mechanism = Moments(epsilon, errors.protocol["delta"])
            told.append(100 * expected_error(mechanism, size["train"], size["columns"] + 1, best))
            found.append(errors.at("moments", domain, epsilon))
        off = np.abs(np.subtract(told, found))
        figures = (np.mean(told), np.mean(found), np.mean(off), np.max(off))
        rows.append([f"{epsilon:g}", *(f"{figure:.1f}" for figure in figures)])
    return table(["epsilon", "expected, mean", "measured, mean", "mean distance", "largest distance"], rows, left=0)


def limit_table(errors):
    rows = []
    for domain in errors.limit_domains:
        noisy, exact = errors.limit(domain)
        size = errors.sizes[domain]
        row = 100 / (errors.protocol["splits"] * (size["rows"] - size["train"]))
        figures = (f"{noisy:.2f}", f"{exact:.2f}", signed(noisy - exact, 2), f"{row:.2f}")
        rows.append([domain, f"{size['train']:,}", size["columns"], *figures])
    claimed = epsilon_at(Moments(1000.0, errors.protocol["delta"]).event(Shape(10), 8), errors.protocol["delta"])
    head = ["domain", "rows", "columns", "epsilon 1000", "without noise", "difference", "one test row, in one split"]
    return (
        table(head, rows)
        + "\n\n"
        + wrapped(
            "A release at epsilon 1000 has the noise of a smaller epsilon, and its statement says so: "
            f"{claimed:.0f}, for ten columns. Beyond that, how far the sampler may be off from exact noise, next to "
            "nothing, would count for more than the noise."
        )
    )


def words(errors):
    """The same in sentences."""
    ours = {epsilon: errors.mean("moments", epsilon) for epsilon in errors.epsilons}
    low, high = min(ours), max(ours)
    chosen = {"10": SGD[0], "60": SGD[1]}
    rates = {rate: [f"{e:g}" for e in errors.epsilons if errors.sgd[e] == name] for rate, name in chosen.items()}
    linear, majority = errors.mean("logistic regression"), errors.mean("majority class")
    spread = max(errors.mean_error("moments", epsilon) for epsilon in errors.epsilons)
    losses, n_cells = errors.losses(), len(errors.domains) * len(errors.epsilons)
    even_so = [d for d, e, _ in losses if errors.limit(d)[1] - errors.at("DP-SGD", d, e) > TOLERANCE]
    lines = [
        f"- `moments` errs on {ours[low]:.1f} % of test rows on average at epsilon {low:g}, on {ours[1.0]:.1f} % at "
        f"epsilon 1 and on {ours[high]:.1f} % at epsilon {high:g}.",
        f"- Logistic regression without privacy errs on {linear:.1f} %, and the majority class on {majority:.1f} %.",
        f"- From epsilon {low:g} to 1 `moments` gains {ours[low] - ours[1.0]:.1f} points; from 1 to {high:g} it gains "
        f"{ours[1.0] - ours[high]:.1f}.",
        f"- The standard error of its means over splits, these domains given, is at most {spread:.2f} points.",
        f"- It is worse than DP-SGD by more than {TOLERANCE} points in {len(losses)} of {n_cells} cells, one for "
        f"each domain and epsilon. In {len(even_so)} of these the same recipe without noise is worse too.",
        f"- DP-SGD stands for rate 10 and clip 0.5 at epsilon {', '.join(rates['10']) or '(none)'}, and for rate 60 "
        f"and clip 0.25 at epsilon {', '.join(rates['60']) or '(none)'}.",
    ]
    return "\n".join(map(wrapped, lines))


# ---- pictures

# Okabe and Ito's colours, which people who see fewer colours can tell apart; and a marker for each.
STYLES = {
    "moments": ("#D55E00", "o", "moments"),
    "moments, generic": ("#E69F00", "s", "moments, sharpen=False"),
    "DP-SGD": ("#0072B2", "^", "DP-SGD"),
    "AdaSSP": ("#009E73", "v", "AdaSSP"),
    "diffprivlib": ("#CC79A7", "D", "diffprivlib (delta = 0)"),
    "noisy-rados": ("#56B4E9", "P", "noisy-rados"),
    "paper": ("#999999", "X", "the paper's route*"),
}
FLAT = {"logistic regression": ("--", "logistic regression, not private"), "majority class": (":", "majority class")}


def _pyplot():
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "radoboost", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    import matplotlib.pyplot as plt

    return plt


def _save(figure, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")
    # Matplotlib ends some lines with blanks.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def _epsilon_axis(axes, errors):
    axes.set_xscale("log")
    axes.set_xticks(errors.epsilons, [f"{epsilon:g}" for epsilon in errors.epsilons])
    axes.minorticks_off()


def draw_means(errors):
    """Mean error against epsilon, a line for each method."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for method in reversed(errors.private):
        colour, marker, name = STYLES[method]
        means = [errors.mean(method, epsilon) for epsilon in errors.epsilons]
        axes.plot(
            errors.epsilons, means, color=colour, marker=marker, label=name, lw=3 if method == "moments" else 1.5, ms=6
        )
    for method, (dashes, name) in FLAT.items():
        axes.axhline(errors.mean(method), color="black", ls=dashes, lw=1.2, label=name)
    _epsilon_axis(axes, errors)
    axes.set(
        xlabel="epsilon, for one record added or removed, at delta = 1e-6\n(* for one edge vector replaced)",
        ylabel="mean test error, %",
    )
    axes.set_yscale("log")
    ticks = [18, 20, 22, 25, 30, 35, 40, 45]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color="#dddddd", lw=0.6)
    handles, labels = axes.get_legend_handles_labels()
    order = [labels.index(STYLES[method][2]) for method in errors.private] + [
        labels.index(name) for _, name in FLAT.values()
    ]
    figure.legend(
        [handles[i] for i in order], [labels[i] for i in order], loc="outside right upper", frameon=False, fontsize=8.5
    )
    _save(figure, MEANS_PICTURE)
    plt.close(figure)


def draw_domains(errors):
    """The same for each domain, with the nearest peers only."""
    plt = _pyplot()
    n_rows = -(-len(errors.domains) // 3)
    figure, grid = plt.subplots(n_rows, 3, figsize=(7.2, 1.9 * n_rows), layout="constrained", sharex=True)
    for axes in grid.flat[len(errors.domains) :]:
        axes.axis("off")
    for axes, domain in zip(grid.flat, errors.domains, strict=False):
        size = errors.sizes[domain]
        for method in ("diffprivlib", "DP-SGD", "moments"):
            if method in errors.private:
                colour, marker, name = STYLES[method]
                rows = [errors.row(method, domain, epsilon) for epsilon in errors.epsilons]
                axes.errorbar(
                    errors.epsilons,
                    [row["error"] for row in rows],
                    [row["standard_error"] or 0.0 for row in rows],
                    color=colour,
                    marker=marker,
                    ms=4,
                    lw=2 if method == "moments" else 1.2,
                    elinewidth=0.8,
                    label=name,
                )
        for method, (dashes, name) in FLAT.items():
            axes.axhline(errors.at(method, domain), color="black", ls=dashes, lw=1, label=name)
        _epsilon_axis(axes, errors)
        axes.tick_params(labelbottom=True, labelsize=7.5)
        axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))
        axes.set_title(f"{domain}: {size['train']:,} x {size['columns']}", fontsize=8.5)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    place = grid.flat[len(errors.domains)] if len(errors.domains) < grid.size else axes
    legend = place.legend(handles[::-1], labels[::-1], loc="center left", frameon=False, fontsize=8)
    legend.set_in_layout(False)  # it may be wider than a column
    figure.supxlabel("epsilon", fontsize=9)
    figure.supylabel("test error, %", fontsize=9)
    _save(figure, DOMAINS_PICTURE)
    plt.close(figure)
