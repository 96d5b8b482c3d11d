"""Pictures of the page on epsilons: mean errors against epsilon, and errors by table."""

from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
MEANS, DOMAINS = DOCS / "images" / "utility.svg", DOCS / "images" / "utility-domains.svg"

# Okabe and Ito's colours, which people who see fewer colours can tell apart; and a marker for each.
STYLES = {
    "moments": ("#D55E00", "o", "moments"),
    "moments, linear": ("#E69F00", "s", "moments, linear"),
    "DP-TR": ("#009E73", "v", "DP-TR"),
    "DP-EBM": ("#CC79A7", "D", "DP-EBM, best setting"),
    "DP-SGD": ("#0072B2", "^", "DP-SGD"),
    "objective perturbation": ("#56B4E9", "P", "objective perturbation"),
    "diffprivlib": ("#999999", "X", "diffprivlib (delta = 0)"),
}
FLAT = {
    "logistic regression": ("--", "logistic regression, not private"),
    "gradient boosting": ("-.", "gradient boosting, not private"),
    "majority class": (":", "majority class"),
}
BY_DOMAIN = ("DP-SGD", "DP-EBM", "DP-TR", "moments")
NOTE = "epsilon, for one record added or removed, at delta = {:g}\n"
NOTE += "(bounds: quantiles of the whole table, uncharged, for all)"


def draw(main, seen, fresh):
    draw_means(main, fresh)
    draw_domains(main, seen, fresh)


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


def draw_means(*groups):
    """Mean error against epsilon, a line for each method, main and fresh tables side by side."""
    plt = _pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained", sharey=True)
    for axes, errors in zip(panels, groups, strict=True):
        for method in reversed([name for name in STYLES if name in errors.ours + errors.peers]):
            colour, marker, name = STYLES[method]
            means = [errors.mean(method, epsilon) for epsilon in errors.epsilons]
            width = 3 if method == "moments" else 1.5
            axes.plot(errors.epsilons, means, color=colour, marker=marker, label=name, lw=width, ms=6)
        for method, (dashes, name) in FLAT.items():
            axes.axhline(errors.mean(method), color="black", ls=dashes, lw=1.2, label=name)
        _epsilon_axis(axes, errors)
        axes.set_title(f"{errors.group} tables ({len(errors.domains)})", fontsize=9)
        axes.set_yscale("log")
        ticks = [8, 10, 12, 15, 20, 25, 30, 40, 50]
        axes.set_yticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.grid(axis="y", color="#dddddd", lw=0.6)
    panels[0].set_ylabel("mean test error, %")
    figure.supxlabel(NOTE.format(groups[0].protocol["delta"]), fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    order = [labels.index(name) for _, _, name in STYLES.values() if name in labels]
    order += [labels.index(name) for _, name in FLAT.values()]
    figure.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside right upper", frameon=False)
    _save(figure, MEANS)
    plt.close(figure)


def draw_domains(*groups):
    """The same for each table, with the nearest peers only."""
    plt = _pyplot()
    panels = [(errors, domain) for errors in groups for domain in errors.domains]
    n_rows = -(-(len(panels) + 1) // 4)
    figure, grid = plt.subplots(n_rows, 4, figsize=(9, 1.8 * n_rows), layout="constrained")
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    for axes, (errors, domain) in zip(grid.flat, panels, strict=False):
        size = errors.sizes[domain]
        for method in [name for name in BY_DOMAIN if name in errors.ours + errors.peers]:
            colour, marker, name = STYLES[method]
            rows = [errors.row(method, domain, epsilon) for epsilon in errors.epsilons]
            bars = [row["standard_error"] or 0.0 for row in rows]
            style = {"ms": 4, "lw": 2 if method == "moments" else 1.2, "elinewidth": 0.8}
            heights = [row["error"] for row in rows]
            axes.errorbar(errors.epsilons, heights, bars, color=colour, marker=marker, label=name, **style)
        for method, (dashes, name) in FLAT.items():
            axes.axhline(errors.at(method, domain), color="black", ls=dashes, lw=1, label=name)
        _epsilon_axis(axes, errors)
        axes.tick_params(labelsize=7.5)
        axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))
        group = "" if errors.group == "main" else f", {errors.group}"
        axes.set_title(f"{domain}: {size['train']:,} x {size['columns']}{group}", fontsize=8)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    legend = grid.flat[len(panels)].legend(handles[::-1], labels[::-1], loc="center left", frameon=False, fontsize=8)
    legend.set_in_layout(False)  # it may be wider than a column
    figure.supxlabel(NOTE.format(groups[0].protocol["delta"]), fontsize=9)
    figure.supylabel("test error, %", fontsize=9)
    _save(figure, DOMAINS)
    plt.close(figure)
