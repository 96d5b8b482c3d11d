"""The results of `learners.py` on screen, as generated parts of docs/learners.md, and held against their aims.

Tables for which the page has no room are in experiments/results/learners.md.
"""

from pathlib import Path

import numpy as np

from measuring import RESULTS, fill_page, write_pages
from utility_page import signed, table
from utility_pictures import _pyplot, _save

DOCS = Path(__file__).parent.parent / "docs"
PAGE, TABLES, PICTURE = DOCS / "learners.md", RESULTS / "learners.md", DOCS / "images" / "learners.svg"
PAPER, CONSTANT = "RadoBoost, paper", "RadoBoost, constant"
WORDS = ("linear", "signed-log", "degree-2")
WIDE = ("degree-2",)  # columns that boosting goes over, too
MOST_GAP = {"linear": 0.9, "signed-log": 0.9, "degree-2": 1.5}  # points behind regression with the same columns
LEAST_GAIN = 1.5  # points, of moments with degree-2 columns over regression with linear ones
EXCEPTED = "eeg"  # on which linear regression goes astray
CLOSE, CLOSE_ON = 1.05, 8  # log-loss as a ratio to that of regression, and the number of domains
NEAR, NEAR_ON = 2.0, 10  # points between the error that was expected and that of the test, and the number of domains
NAMES = {
    PAPER: "RadoBoost, as in the paper",
    CONSTANT: "RadoBoost, with a constant",
    "RadoBoost, lasso": "RadoBoost, lasso",
    "RadoBoost, ridge": "RadoBoost, ridge",
    "RadoBoost, scores": "RadoBoost, penalty on scores",
    "RadoBoost, stop": "RadoBoost, stop alone",
    "RadoBoost, stop by risk": "RadoBoost, stop by the risk of rados held out",
    **{f"RadoBoost, {word}": f"RadoBoost, {word} columns" for word in WIDE},
    **{f"RadoBoost, stop, {word}": f"RadoBoost, stop alone, {word} columns" for word in WIDE},
    **{f"RadoBoost, scores, {word}": f"RadoBoost, penalty on scores, {word} columns" for word in WIDE},
}


class Figures:
    """The figures of a run: by method and domain, for each fold."""

    def __init__(self, results):
        self.sizes, self.domains = results["domains"], list(results["domains"])
        rows = {(row["method"], row["domain"]): row for row in results["figures"]}
        self.methods = list(dict.fromkeys(method for method, _ in rows))
        self._rows = rows

    def has(self, *methods, key="errors"):
        """Whether methods have a figure on every domain."""
        return all(key in self._rows.get((method, domain), {}) for method in methods for domain in self.domains)

    def folds(self, method, domain, key="errors"):
        """One figure a fold, NaN where there is none."""
        values = self._rows.get((method, domain), {}).get(key, [None])
        return np.array(values, dtype=np.float64)

    def mean(self, method, key="errors", without=()):
        """The mean over domains of the mean over folds."""
        own = [domain for domain in self.domains if domain not in without]
        return float(np.mean([self.folds(method, domain, key).mean() for domain in own]))

    def paired(self, method, other, without=()):
        """The mean difference of errors between two methods on the same folds, and its standard error.

        Domains are those that they are, so that the standard error is by folds alone.
        """
        own = [domain for domain in self.domains if domain not in without]
        folds = [self.folds(method, domain) - self.folds(other, domain) for domain in own]
        variances = [fold.var(ddof=1) / len(fold) for fold in folds]
        return float(np.mean([fold.mean() for fold in folds])), float(np.sqrt(np.sum(variances)) / len(folds))

    def row(self, method, domain):
        return self._rows.get((method, domain), {})

    def columns(self, method, domain):
        return self._rows[method, domain].get("columns")


# ---- aims


def checks(results):
    """What is aimed at, whether it is seen, and details; of what was measured alone."""
    figures = Figures(results)
    found = []
    for word, most in MOST_GAP.items():
        if figures.has(f"moments, {word}", f"regression, {word}"):
            gap = figures.mean(f"moments, {word}") - figures.mean(f"regression, {word}")
            what = f"moments with {word} columns are at most {most:g} points behind regression in the same, on average"
            found.append((what, gap <= most, f"{gap:+.2f}"))
    if figures.has("moments, degree-2", "regression, linear"):
        gain = figures.mean("regression, linear") - figures.mean("moments, degree-2")
        what = f"moments with degree-2 columns are at least {LEAST_GAIN:g} points better than linear regression"
        found.append((what, gain >= LEAST_GAIN, f"{gain:.2f}"))
    if figures.has("moments, signed-log", "regression, signed-log", key="log_loss"):
        close = [domain for domain in figures.domains if loss_ratio(figures, domain) <= CLOSE]
        what = f"with signed-log columns the log-loss is within {100 * (CLOSE - 1):.0f} % of regression's on {CLOSE_ON}"
        found.append((f"{what} domains, by medians over folds", len(close) >= CLOSE_ON, f"on {len(close)}"))
    if figures.has("moments, signed-log", key="expected"):
        near = [domain for domain in figures.domains if abs(surprise(figures, "signed-log", domain)) <= NEAR]
        what = f"the error that a model with signed-log columns expects is within {NEAR:g} points of the test's"
        found.append((f"{what} on {NEAR_ON} domains", len(near) >= NEAR_ON, f"on {len(near)}"))
    return found


def loss_ratio(figures, domain, word="signed-log"):
    """Medians over folds."""
    ours, peer = (np.median(figures.folds(f"{name}, {word}", domain, "log_loss")) for name in ("moments", "regression"))
    return float(ours / peer)


def fold_ratio(figures, domain, word="signed-log"):
    """The median over folds of the ratio of log-losses on each."""
    ours, peer = (figures.folds(f"{name}, {word}", domain, "log_loss") for name in ("moments", "regression"))
    return float(np.median(ours / peer))


def surprise(figures, word, domain):
    """By how many points more errors are expected than there are; NaN where none are expected."""
    method = f"moments, {word}"
    differences = figures.folds(method, domain, "expected") - figures.folds(method, domain)
    return float(np.nanmean(differences)) if np.isfinite(differences).any() else np.nan


def not_seen(results):
    """What is aimed at and not seen, in words."""
    return [f"{what} ({details})" for what, seen, details in checks(results) if not seen]


# ---- tables


def gap_to_same(figures, method):
    """Points behind regression on all rows, in the same columns where these have a regression of their own."""
    word = method.split(", ")[-1]
    peer = f"regression, {word}" if word in WORDS else "regression, linear"
    return figures.mean(method) - figures.mean(peer) if figures.has(method, peer) else None


def error_lines(figures, mark=lambda name: name):
    for method in [method for method in figures.methods if figures.has(method)]:
        gap = gap_to_same(figures, method)
        errors = [f"{figures.folds(method, domain).mean():.1f}" for domain in figures.domains]
        rest = figures.mean(method, without=(EXCEPTED,)) if set(figures.domains) - {EXCEPTED} else np.nan
        means = [f"{figures.mean(method):.2f}", f"{rest:.2f}"]
        yield [mark(method), *errors, *means, "" if gap is None else signed(gap, 2)]


def error_table(results):
    """Errors in percent by method and domain, and how far each is behind regression."""
    figures = Figures(results)
    head = ["", *figures.domains, "mean", f"without {EXCEPTED}", "gap"]
    return table(head, list(error_lines(figures, lambda name: NAMES.get(name, name))))


def mean_table(results):
    """The same without the domains."""
    lines = error_lines(Figures(results), lambda name: NAMES.get(name, name))
    return table(["", "mean", f"without {EXCEPTED}", "gap"], [[line[0], *line[-3:]] for line in lines])


def probability_table(results):
    """By domain: the log-loss with signed-log columns, its ratio, and what error is expected."""
    figures = Figures(results)
    if not figures.has("moments, signed-log", "regression, signed-log", key="log_loss"):
        return "Not measured yet."
    told = [
        word
        for word in WORDS
        if any("expected" in figures.row(f"moments, {word}", domain) for domain in figures.domains)
    ]
    columns = [f"expected and seen, {word}" for word in told]
    head = ["domain", "log-loss, moments", "regression", "ratio", "ratio by folds", *columns]
    lines = []
    for domain in figures.domains:
        losses = [
            np.median(figures.folds(f"{name}, signed-log", domain, "log_loss")) for name in ("moments", "regression")
        ]
        ratios = [losses[0] / losses[1], fold_ratio(figures, domain)]
        lines.append([domain, *(f"{loss:.3f}" for loss in losses), *(f"{ratio:.2f}" for ratio in ratios)])
        for word in told:
            seen, more = figures.folds(f"moments, {word}", domain).mean(), surprise(figures, word, domain)
            lines[-1].append(f"none, {seen:.1f}" if np.isnan(more) else f"{seen + more:.1f}, {seen:.1f}")
    return table(head, lines)


def size_table(results):
    """By domain: rows, columns, rados, and columns of the second degree."""
    figures = Figures(results)
    lines = []
    for domain, size in figures.sizes.items():
        wide = figures.columns("moments, degree-2", domain) if figures.has("moments, degree-2") else None
        numbers = [f"{size[key]:,}" for key in ("rows", "columns", "rados")]
        lines.append([domain, *numbers, "" if wide is None else f"{wide:,}"])
    return table(["domain", "rows", "columns", "rados", "columns of degree 2"], lines)


def aims(results):
    return "\n".join(
        f"- {'Seen' if seen else '**Not seen**'}: {what} ({details})." for what, seen, details in checks(results)
    )


def beyond(results):
    """What is not aimed at and should be known: without the domain that flatters, paired, and by other measures."""
    figures = Figures(results)
    lines = [*_without(figures), *_of_boosting(figures)]
    if figures.has("moments, signed-log", "regression, signed-log", key="log_loss"):
        close = sum(fold_ratio(figures, domain) <= CLOSE for domain in figures.domains)
        lines.append(
            f"With signed-log columns the log-loss is within {100 * (CLOSE - 1):.0f} % of regression's on {close} of "
            f"{len(figures.domains)} domains by the median over folds of the ratio on each."
        )
    return "\n".join(f"- {line}" for line in lines) or "Not measured yet."


def _give_or_take(pair):
    mean, error = pair
    return f"{signed(mean, 2)} ± {error:.2f}"


def _without(figures):
    """Gaps without the domain on which regression with degree-2 columns goes astray."""
    if EXCEPTED not in figures.domains or not figures.has("moments, degree-2", "regression, linear"):
        return
    rest = (EXCEPTED,)
    gain = figures.mean("regression, linear", without=rest) - figures.mean("moments, degree-2", without=rest)
    whole = figures.mean("regression, linear") - figures.mean("moments, degree-2")
    there = figures.folds("regression, linear", EXCEPTED).mean()
    yield (
        f"Without {EXCEPTED}, on which linear regression has {there:.1f} %, moments with degree-2 columns are "
        f"{gain:.2f} points better "
        f"than linear regression, and not {whole:.2f}."
    )
    words = [word for word in WORDS if figures.has(f"moments, {word}", f"regression, {word}")]
    gaps = [figures.paired(f"moments, {word}", f"regression, {word}", rest) for word in words]
    told = ", ".join(f"{word} {_give_or_take(gap)}" for word, gap in zip(words, gaps, strict=True))
    yield f"Behind regression in the same columns, without {EXCEPTED}: {told} (paired, with a standard error by folds)."


def _of_boosting(figures):
    """What a stop and a penalty bring, by columns."""
    for method, what in (
        ("stop", "A stop alone"),
        ("stop by risk", "A stop by the exponential risk of rados held out"),
        *((penalty, f"A {penalty} with a stop") for penalty in ("lasso", "ridge")),
        ("scores", "A penalty on scores with a stop"),
    ):
        told = []
        for word in ("", *WIDE):
            own = f"RadoBoost, {method}" + (f", {word}" if word else "")
            base = f"RadoBoost, {word}" if word else CONSTANT
            if figures.has(own, base):
                told.append(f"{word or 'linear'} {_give_or_take(figures.paired(own, base))}")
        if told:
            yield f"{what}, against boosting without, paired: {', '.join(told)} points."


def rendered(results):
    """The page with the parts that are from here."""
    return fill_page(PAGE, generated(results), TABLES)


def generated(results):
    """The parts that are from here, by name."""
    parts = {"means": mean_table(results), "errors": error_table(results), "probabilities": probability_table(results)}
    return {**parts, "sizes": size_table(results), "aims": aims(results), "beyond": beyond(results)}


def show(results):
    figures = Figures(results)
    width = max(len(domain) for domain in figures.domains)
    head = [f"{'mean':>9}", f"{'- ' + EXCEPTED:>9}", f"{'gap':>9}"]
    print(f"{'':<38}{''.join(f'{domain:>{width + 2}}' for domain in figures.domains)}{''.join(head)}")
    for name, *cells in error_lines(figures):
        last = "".join(f"{cell:>9}" for cell in cells[-3:])
        print(f"{name:<38}{''.join(f'{cell:>{width + 2}}' for cell in cells[:-3])}{last}")
    for what, seen, details in checks(results):
        print(f"{'seen' if seen else 'NOT seen'}: {what} ({details})")


def write(results):
    write_pages(PAGE, TABLES, generated(results))
    draw(results)


# ---- picture

_STYLES = {  # Okabe and Ito's colours
    PAPER: ("#999999", "X", "RadoBoost, paper"),
    CONSTANT: ("#56B4E9", "P", "RadoBoost, with a constant"),
    "RadoBoost, lasso": ("#999999", "<", "RadoBoost, lasso"),
    "RadoBoost, ridge": ("#999999", ">", "RadoBoost, ridge"),
    "RadoBoost, scores": ("#009E73", "v", "RadoBoost, penalty on scores"),
    "moments, linear": ("#E69F00", "s", "moments, linear columns"),
    "moments, signed-log": ("#F0E442", "^", "moments, signed-log columns"),
    "moments, degree-2": ("#D55E00", "o", "moments, degree-2 columns"),
    "regression, linear": ("black", "|", "logistic regression on all examples, linear"),
    "regression, degree-2": ("#0072B2", "|", "logistic regression on all examples, degree-2"),
}


def draw(results):
    """A row for each domain, a mark for each method."""
    plt = _pyplot()
    figures = Figures(results)
    methods = [method for method in _STYLES if figures.has(method)]
    rows = [*figures.domains, "mean"]
    figure, axes = plt.subplots(figsize=(9, 0.32 * len(rows) + 1.6), layout="constrained")
    for method in methods:
        colour, marker, name = _STYLES[method]
        errors = [figures.folds(method, domain).mean() for domain in figures.domains] + [figures.mean(method)]
        size = 14 if marker == "|" else 6
        axes.plot(errors, range(len(rows)), marker, color=colour, label=name, ms=size, mew=2 if marker == "|" else 1)
    axes.set_yticks(range(len(rows)), rows)
    axes.get_yticklabels()[-1].set_fontweight("bold")
    axes.invert_yaxis()
    axes.axhline(len(rows) - 1.5, color="black", lw=0.6)
    axes.grid(axis="y", color="#dddddd", lw=0.6)
    axes.set_xlabel("test error, %")
    figure.legend(loc="outside right upper", frameon=False)
    _save(figure, PICTURE)
    plt.close(figure)
