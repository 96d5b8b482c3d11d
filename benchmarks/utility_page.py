"""The results of `utility.py` on screen, and as the generated parts of a docs page and of a file of tables.

No result on docs/choosing-epsilon.md is typed by hand: each stands between two comments that name the part it is of.
Tables for which the page has no room are in experiments/results/choosing-epsilon.md, in the same way.
"""

import json
import math
import textwrap
from itertools import pairwise

import numpy as np

import utility_pictures
from measuring import RESULTS, fill_page, write_pages
from radoboost.holder.mechanisms import Moments
from radoboost.holder.mechanisms.moments.preview import forecast_error, preview_plan
from radoboost.privacy import Gaussian, Relation, best_guess, gaussian_multiplier
from utility_errors import (
    BEHIND,
    CALIBRATED,
    ENOUGH,
    LARGE,
    NOISELESS,
    OPEN,
    OURS,
    PEERS,
    REASONS,
    all_groups,
    checks,
    not_seen,
    study,
)

__all__ = ["not_seen", "rendered", "show", "signed", "table", "write"]

PAGE, TABLES = utility_pictures.DOCS / "choosing-epsilon.md", RESULTS / "choosing-epsilon.md"
FIRST_LOOK = RESULTS / "utility_first_look.json"  # ours on the tables that were fresh, before plans were changed
NAMES = {
    "moments": "**`moments`**",
    "moments, linear": '`moments`, `columns="linear"`',
    "moments, private bounds": "`moments`, `--schema private`: its bounds are charged",
    "DP-EBM": "DP-EBM, best setting",
    "DP-EBM, default": "DP-EBM, interpretml's default",
    "DP-TR": "DP-TR: boosted trees with random splits",
    "DP-GD": "DP-GD, full batch",
    "diffprivlib": "diffprivlib (delta = 0)",
    "logistic regression": "logistic regression, not private",
    "logistic regression, C = 10000": "the same, hardly regularised (C = 10000)",
    "quadratic logistic regression": "logistic regression with squares and products, not private",
    "gradient boosting": "gradient boosting, not private",
    "majority class": "the majority class",
}
BETWEEN = (0.1, 49.9)  # percent: an error without noise that the model can take
EDGES = (0, 30, 100, 300, 1000, 3000, np.inf)  # of rows times epsilon over columns


# ---- on screen


def show(results):
    """Means of whatever was run; a part of the tables or methods will do."""
    for errors in all_groups(results):
        if not errors.domains:
            continue
        print(f"Mean test error in percent over {errors.group} tables: {', '.join(errors.domains)}")
        print(f"{'':<34}" + "".join(f"{epsilon:>9g}" for epsilon in errors.epsilons))
        for method in (*errors.ours, *errors.peers, *errors.open):
            known = [(domain, e) for e in errors.epsilons or [None] for domain in errors.domains]
            if all((method, d, None if method in OPEN else e) in errors.rows for d, e in known):
                means = [errors.mean(method, epsilon) for epsilon in errors.epsilons or [None]]
                print(f"{method:<34}" + "".join(f"{mean:>9.2f}" for mean in means))
        print()
    if all(method in errors.ours + errors.peers + errors.open for method in ("moments", *PEERS, *OPEN)):
        for what, seen, details in checks(results):
            print(f"{'seen' if seen else 'NOT SEEN'}: {what}" + (f" ({details})" if details else ""))


# ---- the page


def write(results):
    """The pictures, and the generated parts of the page and of the file of tables."""
    utility_pictures.draw(*all_groups(results))
    write_pages(PAGE, TABLES, generated(results))


def rendered(results):
    """The page as it is, with its generated parts as the results have them."""
    return fill_page(PAGE, generated(results), TABLES)


def generated(results):
    """All generated parts, by name."""
    main, seen, fresh = all_groups(results)
    note = bounds_note(main)
    parts = {
        "promise": promise_table(main, fresh),
        "words": words(main, seen, fresh),
        "means": means_table(main),
        "seen means": means_table(seen),
        "fresh means": means_table(fresh),
        "first look": first_look_table(seen, fresh),
        "behind": behind_table(main, seen, fresh),
        "size": size_table(main),
        "domains": domains_table(main),
        "seen domains": domains_table(seen),
        "fresh domains": domains_table(fresh),
        "gaps": gaps_table(main),
        "seen gaps": gaps_table(seen),
        "fresh gaps": gaps_table(fresh),
        "plans": plans_table(main, seen, fresh),
        "calibration": calibration_table(main, seen, fresh),
        "expected": expected_table(main, seen, fresh),
        "study": study_table(main),
        "settings": settings_table(main),
    }
    parts = {name: f"{part}\n\n{note}" for name, part in parts.items()}
    parts["protocol"] = protocol_words(main)
    parts["checks"] = "\n".join(map(wrapped, check_lines(results)))
    parts["behind in words"] = behind_words(main, seen, fresh)
    parts["size in words"] = "; ".join(f"{name}: {spans(points)}" for name, points in costs_by_size(main)) + "."
    parts["expected in words"] = expected_words(main, seen, fresh)
    return parts


def bounds_note(errors):
    return wrapped(
        f"*One record added or removed, delta = {errors.protocol['delta']:g}. Bounds: quantiles of the whole table, "
        "uncharged, the same for all.*"
    )


def protocol_words(errors):
    protocol, by_draws = errors.protocol, {}
    for method in (*errors.ours, *errors.peers):
        few, times = protocol["draws"][method], protocol["times_if_small"][method]
        by_draws.setdefault((few, few * times), []).append(method)
    draws = "; ".join(f"{few} times ({many}) for {', '.join(names)}" for (few, many), names in sorted(by_draws.items()))
    fewer = [f"{m} on the first {n}" for m, n in protocol["fresh_splits"].items() if n < len(protocol["splits"])]
    fewer = f" On seen and fresh tables {' and '.join(fewer)} of these splits alone." if fewer else ""
    splits, others = (", ".join(map(str, protocol[name])) for name in ("splits", "tuning_splits"))
    return wrapped(
        f"Each table is split at random, with seeds {splits}: {protocol['test_share']:.0%} of the rows are for tests. "
        "Each method sees only the other rows, and learns several times with fresh noise, more often (in brackets) "
        f"where a table has fewer than {protocol['small']:,} rows: "
        f"{draws}.{fewer} "
        f"Errors are averaged over draws, then splits, then tables. Settings of peers were chosen on splits "
        f"with seeds {others}. Libraries: {', '.join(protocol['libraries'])}."
    )


def check_lines(results):
    for what, seen, details in checks(results):
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


def signed(points, digits):
    """With a sign, unless it rounds to nothing."""
    return f"{points:+.{digits}f}" if round(points, digits) else f"{0:.{digits}f}"


def epsilon_heads(errors):
    return [f"epsilon {epsilon:g}" for epsilon in errors.epsilons]


def promise_table(main, fresh):
    """What an adversary gains, by the accountant, next to what it cost."""
    rows, delta = [], main.protocol["delta"]
    for epsilon in main.epsilons:
        guess = best_guess(Gaussian(gaussian_multiplier(epsilon, delta), Relation.RECORD))
        means = [f"{errors.mean('moments', epsilon):.1f} %" for errors in (main, fresh)]
        rows.append([f"{epsilon:g}", f"{delta:g}", f"{math.ceil(1000 * guess) / 10:.1f} %", *means])
    head = ["epsilon", "delta", "best guess of an adversary", "mean error of `moments`, main tables", "fresh tables"]
    return table(head, rows, left=0)


def means_table(errors):
    methods = [method for method in (*OURS, *PEERS) if method in errors.ours + errors.peers]
    private = bold_least([[errors.mean(method, e) for e in errors.epsilons] for method in methods], 2)
    rows = [[NAMES.get(method, method), *line] for method, line in zip(methods, private, strict=True)]
    rows += [[NAMES[method], *[f"{errors.mean(method):.2f}"] * len(errors.epsilons)] for method in OPEN]
    return table([f"{errors.group} tables: mean error, %", *epsilon_heads(errors)], rows)


def first_look_table(seen, fresh):
    """Means over all tables that were fresh once: of ours as it was then, of ours now, and of peers."""
    then = {(row["domain"], row["epsilon"]): row["error"] for row in json.loads(FIRST_LOOK.read_text())["results"]}
    cells = [(errors, domain) for errors in (seen, fresh) for domain in errors.domains]
    methods = ["moments", *(method for method in seen.peers if method in fresh.peers)]
    found = {"`moments` as it was then": [np.mean([then[domain, e] for _, domain in cells]) for e in fresh.epsilons]}
    for method in methods:
        means = [np.mean([errors.at(method, domain, e) for errors, domain in cells]) for e in fresh.epsilons]
        found[NAMES.get(method, method)] = means
    rows = [[name, *line] for name, line in zip(found, bold_least(list(found.values()), 2), strict=True)]
    return table([f"all {len(cells)} that were fresh: mean error, %", *epsilon_heads(fresh)], rows)


def spans(points):
    """A mean, and from where to where."""
    return f"{signed(np.mean(points), 1)} ({signed(min(points), 1)} to {signed(max(points), 1)})"


def costs_by_size(errors):
    """What noise costs, by rows times epsilon over columns: the error less that of the same recipe without noise."""
    costs = [
        (
            errors.sizes[domain]["train"] * epsilon / errors.sizes[domain]["columns"],
            errors.at("moments", domain, epsilon) - errors.at(NOISELESS, domain),
        )
        for domain in errors.domains
        for epsilon in errors.epsilons
    ]
    for low, high in pairwise(EDGES):
        points = [cost for ratio, cost in costs if low <= ratio < high]
        name = f"{low:,} to {high:,}" if low and high < np.inf else f"under {high:,}" if not low else f"{low:,} or more"
        if points:
            yield name, points


def size_table(errors):
    rows = []
    for name, points in costs_by_size(errors):
        figures = (np.mean(points), min(points), max(points))
        rows.append([name, len(points), *(signed(point, 1) for point in figures)])
    return table(["rows * epsilon / columns", "cells", "mean cost in points", "least", "most"], rows)


def domains_table(errors):
    """Ours, and in brackets the best peer of each cell."""
    rows = []
    for domain in errors.domains:
        size, line = errors.sizes[domain], []
        for epsilon in errors.epsilons:
            peer = errors.at(errors.best_peer(domain, epsilon), domain, epsilon)
            line.append(f"{errors.at('moments', domain, epsilon):.1f} ({peer:.1f})")
        others = [f"{errors.at(name, domain):.1f}" for name in ("logistic regression", "gradient boosting")]
        rows.append([domain, f"{size['train']:,}", size["columns"], *line, *others])
    head = [*epsilon_heads(errors), "logistic regression", "gradient boosting"]
    return table([f"{errors.group} table", "rows", "columns", *head], rows)


def gaps_table(errors):
    rows = []
    for domain in errors.domains:
        line = []
        for epsilon in errors.epsilons:
            gap, spread = errors.gap(domain, epsilon)
            shown = f"{signed(gap, 1)} ± {spread:.1f}, {errors.best_peer(domain, epsilon)}"
            line.append(f"**{shown}**" if gap > BEHIND else shown)
        rows.append([domain, *line])
    return table([f"{errors.group} table", *epsilon_heads(errors)], rows)


def behind_table(*groups):
    rows = []
    for errors in groups:
        for domain, epsilon in errors.behind():
            gap, spread = errors.gap(domain, epsilon)
            peer, why = errors.best_peer(domain, epsilon), REASONS.get((domain, epsilon), "not known")
            enough = f"{errors.enough(domain, epsilon):,.0f}"
            rows.append([domain, errors.group, f"{epsilon:g}", enough, f"{gap:+.1f} ± {spread:.1f}", peer, why])
    if not rows:
        return f"There is no cell with rows * epsilon / columns of at least {ENOUGH} in which it is that far behind."
    head = ["table", "group", "epsilon", "rows * epsilon / columns", "points behind", "best peer", "why"]
    return table(head, rows)


def behind_words(*groups):
    """The same as a list."""
    lines = []
    for errors in groups:
        for domain, epsilon in errors.behind():
            gap, spread = errors.gap(domain, epsilon)
            peer, why = errors.best_peer(domain, epsilon), REASONS.get((domain, epsilon), "not known")
            points = f"{peer} is better by {gap:.1f} ± {spread:.1f} points"
            lines.append(wrapped(f"- {domain} ({errors.group}) at epsilon {epsilon:g}: {points}. Why: {why}."))
    return "\n".join(lines) or "There is none."


def plans_table(*groups):
    """The columns that were chosen most often, by what was released."""
    rows = []
    for errors in groups:
        for domain in errors.domains:
            plans = [errors.row("moments", domain, epsilon)["plan"] for epsilon in errors.epsilons]
            rows.append([domain, errors.group, *plans])
    return table(["table", "group", *epsilon_heads(groups[0])], rows, left=2)


def calibration_table(*groups):
    rows = []
    for errors in groups:
        for domain in errors.large():
            found = [errors.row("moments", domain, epsilon)["calibration_error"] for epsilon in errors.epsilons]
            shown = [f"**{error:.3f}**" if error > CALIBRATED else f"{error:.3f}" for error in found]
            rows.append([domain, errors.group, *shown])
    return table([f"table of {LARGE:,} rows or more", "group", *epsilon_heads(groups[0])], rows, left=2)


def expected_table(*groups):
    """What `rado account` would have said before, of linear columns and of plans beyond them, next to what came.

    The error at the largest epsilon stands for that without noise.
    """
    rows = []
    for method, word in (("moments, linear", "linear"), ("moments", "auto")):
        for errors in groups:
            for epsilon in errors.epsilons[:-1]:
                cells = np.array(list(expected_cells(errors, method, word, epsilon)))
                if not len(cells):
                    continue
                off = np.abs(np.subtract(*cells.T))
                name = "linear" if word == "linear" else "a plan beyond linear"
                shown = (f"{figure:.1f}" for figure in (*cells.mean(axis=0), off.mean(), off.max()))
                rows.append([name, errors.group, f"{epsilon:g}", len(cells), *shown])
    heads = ["tables", "expected, mean", "measured, mean", "mean distance", "largest distance"]
    return table(["columns", "group", "epsilon", *heads], rows, left=2)


def expected_cells(errors, method, word, epsilon):
    """Expected and measured errors in percent, of all tables that the word gives such columns."""
    for domain, size in errors.sizes.items():
        foreseen = preview_plan(Moments(epsilon, errors.protocol["delta"]), size["train"], size["columns"], word)
        if foreseen.plan.beyond == (word != "linear"):
            best = np.clip(errors.at(method, domain, errors.epsilons[-1]), *BETWEEN) / 100
            yield (
                100 * forecast_error(foreseen.mechanism, foreseen.n_examples, foreseen.shape, float(best)),
                errors.at(method, domain, epsilon),
            )


def expected_words(*groups):
    """How far expected errors were off, over the tables of all groups."""
    lines = []
    for method, word, name in (("moments, linear", "linear", "linear columns"), ("moments", "auto", "wider plans")):
        told = []
        for epsilon in groups[0].epsilons[:-1]:
            cells = [cell for errors in groups for cell in expected_cells(errors, method, word, epsilon)]
            if cells:
                off = np.abs(np.subtract(*np.array(cells).T))
                told.append(f"{off.mean():.1f} at epsilon {epsilon:g} (at most {off.max():.1f}; {len(cells)} tables)")
        if told:
            lines.append(wrapped(f"- {name}: {', '.join(told)}."))
    return "\n".join(lines) or "Not measured yet."


def study_table(errors):
    """Here, and in brackets in the study, on the same tables and splits."""
    rows = []
    for method in ("moments", *errors.peers, *OPEN):
        line = []
        for epsilon in errors.epsilons:
            known = study(method, errors.domains, epsilon)
            line.append(f"{errors.mean(method, epsilon):.2f} ({'-' if known is None else f'{known:.2f}'})")
        if any("(-)" not in entry for entry in line):
            rows.append([NAMES.get(method, method), *line])
    return table(["here (in the study)", *epsilon_heads(errors)], rows)


def settings_table(errors):
    rows = []
    for method in errors.peers:
        settings = [errors.setting(method, epsilon) for epsilon in errors.epsilons]
        if any(settings):
            rows.append([method, *settings])
    return table(["chosen setting", *epsilon_heads(errors)], rows, left=len(errors.epsilons) + 1)


def words(main, seen, fresh):
    """The same in sentences."""
    ours = {epsilon: main.mean("moments", epsilon) for epsilon in main.epsilons}
    low, high = min(ours), max(ours)
    spread = [max(errors.mean_error("moments", epsilon) for epsilon in errors.epsilons) for errors in (main, fresh)]
    cells = [
        (errors, domain, e) for errors in (main, seen, fresh) for domain in errors.domains for e in errors.epsilons
    ]
    lost = [errors.group for errors, domain, e in cells if errors.gap(domain, e)[0] > 0]
    lines = [
        f"- On main tables `moments` errs on {ours[low]:.1f} % of test rows on average at epsilon {low:g}, on "
        f"{ours[1.0]:.1f} % at epsilon 1 and on {ours[high]:.1f} % at epsilon {high:g}; on fresh ones on "
        + ", ".join(f"{fresh.mean('moments', e):.1f}" for e in (low, 1.0, high))
        + " %.",
        f"- Without privacy logistic regression errs on {main.mean('logistic regression'):.1f} % (fresh: "
        f"{fresh.mean('logistic regression'):.1f}), gradient boosting on {main.mean('gradient boosting'):.1f} % "
        f"({fresh.mean('gradient boosting'):.1f}), and the majority class on {main.mean('majority class'):.1f} % "
        f"({fresh.mean('majority class'):.1f}).",
        f"- The standard error of its means over splits, these tables given, is at most {spread[0]:.2f} points on main "
        f"tables and {spread[1]:.2f} on fresh ones.",
        f"- The best peer of each cell, chosen by its test error, is better in {lost.count('main')} of "
        f"{len(main.domains) * len(main.epsilons)} main cells, in {lost.count('seen')} of "
        f"{len(seen.domains) * len(seen.epsilons)} seen ones and in {lost.count('fresh')} of "
        f"{len(fresh.domains) * len(fresh.epsilons)} fresh ones.",
    ]
    return "\n".join(map(wrapped, lines))
