"""rado merge, rado join and rado share: what several holders, or two servers, put together."""

import json
import shlex
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from radoboost.cli import options
from radoboost.errors import ArgumentError, OutputError, RadoError
from radoboost.outputs import ForceFlag, refuse_overwrite

# ---- rado merge --shares: what two servers made of the two shares of rows becomes a release.


def merged_shares(files: list[Path], how: str) -> Any:
    """The release of two files of partial sums; `how` is for releases."""
    import radoboost as rb

    if how != "auto":
        raise ArgumentError(f"--how {how} is for releases, and partial sums are added in one way; leave it out")
    if len(files) != 2:
        raise ArgumentError(f"--shares takes what two servers made, and there are {len(files)} files; give two")
    return rb.merge_shares(files[0], files[1])


_MERGED = Path("merged.rado.parquet")


def merge(
    releases: Annotated[
        list[Path],
        typer.Argument(
            metavar="RELEASE...", help="Plain releases, one of each holder; with --shares, what two servers made."
        ),
    ],
    how: Annotated[
        str,
        typer.Option(
            metavar="auto|sum|moments",
            autocompletion=options.complete_from_words("auto", "sum", "moments"),
            help="Add rado j of each, which is exact; or keep the rados of all, moved so that mean and covariance are "
            "those of all rows, for different numbers of rados. auto sums where it can.",
        ),
    ] = "auto",
    shares: Annotated[
        bool,
        typer.Option("--shares", help="Put together what rado craft made of the two shares of rows, at the learner."),
    ] = False,
    output: Annotated[Path, options.output_option("The release; merged.rado.parquet by default.")] = _MERGED,
    force: ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Merge plain releases of several holders into one release of all their rows.

    They have the same columns and classes, and no row is at two holders. Z-scores are converted to those of all rows.
    Signatures are independent, or of one seed under which rows are numbered through (rado craft --seed --first-row):
    then the sum is the release of the whole table, to the last bit. Private releases are not merged: rado learn A B C.

    \b
    Examples:
      rado merge north.rado.parquet south.rado.parquet -o both.rado.parquet
      rado merge north.rado.parquet south.rado.parquet west.rado.parquet --how moments
      rado merge --shares a.partial b.partial -o patients.rado.parquet
    """
    import radoboost as rb

    options.check_output_path(output, [str(path) for path in releases])
    refuse_overwrite(output, _MERGED, force)
    release = merged_shares(releases, how) if shares else rb.merge(releases, how)
    release.save(output)
    options.print_release(release, output, as_json, f"wrote {output}")


# ---- rado join: releases of two holders of different columns become one model.

_JOINT = Path("joint.model.json")


def join(
    left: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release of one holder, crafted with --share.")],
    right: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release of the other holder.")],
    on: Annotated[
        str | None,
        typer.Option(metavar="COL,COL", help="The columns that both have; all that both releases share by default."),
    ] = None,
    ridge: Annotated[
        float | None,
        typer.Option(metavar="R", help="How far weights are shrunk, as a share of second moments; 0.01 by default."),
    ] = None,
    output: Annotated[Path, options.output_option("The model.")] = _JOINT,
    report: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="A page that shows what the model does: effects of columns.")
    ] = None,
    force: ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Learn a classifier over the columns of two holders; nobody's rows are matched.

    Both have the label and some columns in common, coded alike, and give a plain release that shares these. Columns of
    one holder and of the other are taken to be unrelated given what is shared: the model says so. To predict a row, its
    two parts must meet, or their scores.

    \b
    Examples:
      rado craft clinic.csv --label readmitted --share age,region
      rado craft laboratory.csv --label readmitted --share age,region
      rado join clinic.rado.parquet laboratory.rado.parquet -o joint.model.json
      rado join clinic.rado.parquet laboratory.rado.parquet --on age,region --json
    """
    import radoboost as rb
    from radoboost.learner.moment_completion import RIDGE
    from radoboost.tables.column_selection import split_column_names

    sources = [str(left), str(right)]
    options.check_output_path(output, sources)
    refuse_overwrite(output, _JOINT, force)
    if report is not None:
        options.check_page_path(report, sources, "--report", output, force)
    names = None if on is None else split_column_names(on)
    model = rb.join(left, right, names, ridge=RIDGE if ridge is None else ridge)
    model.save(output)
    if report is not None:
        _write_join_report(model, output, report, shlex.join(["rado", "join", *sources]))
    options.print_model(model, output, as_json, f"wrote {output}")


def _write_join_report(model: object, place: Path, report: Path, command: str) -> None:
    """The page on a model that is saved; a failure says that the model is there."""
    from radoboost.report.effects_report import write_effects_page

    try:
        write_effects_page(model, report, name=place.name, command=command)  # type: ignore[arg-type]
    except RadoError as error:
        raise OutputError(f"{error}; the model itself is in {place}") from None
    options.say_on_stderr(f"wrote {report}")


# ---- rado share: a table becomes two shares, for two servers; and rado craft, where a server has a share.

SHARE_ENDING = ".share"
_FOR_SHARES = (
    "table",
    "n_rados",
    "key",
    "new_key",
    "support",
    "engine",
    "threads",
    "output",
    "quiet",
    "force",
    "as_json",
)


def share(
    table: options.TableArgument,
    label: options.LabelOption = None,
    query: options.QueryOption = None,
    form: options.FormatOption = None,
    columns: options.ColumnsOption = "auto",
    scale: Annotated[
        str, typer.Option(help="auto, standard (z-scores), bounds (onto [-1, 1]; for several senders) or none.")
    ] = "auto",
    schema: options.SchemaOption = None,
    bounds: options.BoundsOption = None,
    missing: options.MissingOption = "fill",
    unlabelled: options.UnlabelledOption = "error",
    separator: options.SeparatorOption = None,
    decimal: options.DecimalOption = None,
    classes: options.ClassesOption = None,
    class_: options.ClassOption = None,
    feature: options.FeatureOption = None,
    drop: options.DropOption = None,
    weights: options.WeightsOption = None,
    intercept: options.InterceptFlag = True,
    output: Annotated[
        tuple[Path, Path] | None,
        options.output_option("The two shares; STEM.a.share and STEM.b.share by default.", "A B"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress: results and failures only.")] = False,
    force: ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Split the rows of a table into two shares, for two servers that keep apart.

    Each share alone is random numbers. Each server runs rado craft on its share, both under one key that they alone
    have, and the learner runs rado merge --shares on what they make: the plain release of the table, to the last bit.
    No server may see that release, for with the key it would solve for rows; both shares together are the rows. Nothing
    is promised about the release, as about any plain one.

    \b
    Examples:
      rado share patients.csv --label readmitted -o a.share b.share    # the holder; one file to each server
      rado craft a.share --new-key both.key -o a.partial               # one server, which sends both.key to the other
      rado craft b.share --key both.key -o b.partial                   # the other server
      rado merge --shares a.partial b.partial -o patients.rado.parquet # the learner
    """
    import radoboost as rb

    places = output or (
        options.default_output_path(table[0], "a.share"),
        options.default_output_path(table[0], "b.share"),
    )
    for place in places:
        options.check_output_path(place, table)
        refuse_overwrite(place, None, force)  # a share fits the one beside it alone, which may be at a server by now
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always", UserWarning)
        a, _ = rb.share(
            options.chosen_table(table, query, form), to=places, label=label,
            classes=options.chosen_classes(classes, class_, table), features=feature or None, drop=drop or (),
            schema=schema, bounds=bounds, missing=missing, unlabelled=unlabelled, separator=separator, decimal=decimal,
            weights=weights, columns=columns, scale=None if scale == "none" else scale, intercept=intercept,
            progress=not quiet,
        )  # fmt: skip
    for warning in () if quiet else notices:
        for line in getattr(warning.message, "lines", (warning.message,)):
            options.say_on_stderr(f"rado: {' '.join(str(line).split())}")
    if as_json:
        print(json.dumps({"paths": [str(place) for place in places], **a.to_dict()}, indent=2, ensure_ascii=False))
        return
    print(
        f"wrote {places[0]} and {places[1]}: {a.n_rows:,} rows of {len(a.awaited.release.columns):,} columns\n"
        "Each alone is random numbers; both together are the rows. Send each to another server, and delete both here."
    )


KeyOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="For shares of rows: the key of the signatures, which both servers have and nobody else."
    ),
]
NewKeyOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For shares of rows: make that key, for the other server to take with --key."),
]


def are_share_files(table: list[str]) -> bool:
    return any(word.endswith(SHARE_ENDING) for word in table)


def refuse_share_keys(key: Path | None, new_key: Path | None) -> None:
    """Refuse keys where a table is crafted by itself."""
    if key is not None or new_key is not None:
        raise ArgumentError("--key and --new-key are for shares of rows, files that rado share wrote: NAME.share")


def craft_from_shares(values: dict[str, Any], defaults: dict[str, Any]) -> None:
    """What rado craft does where a server gives it shares; `values` are those of all its options, by their names."""
    import radoboost as rb

    table = values["table"]
    given = [name for name, value in values.items() if value != defaults[name]]
    strange = [name for name in given if name not in _FOR_SHARES]
    if strange:
        raise ArgumentError(
            f"--{strange[0].rstrip('_').replace('_', '-')} is not for shares of rows: who shared them said what they "
            "are, and nothing is added to them; leave it out"
        )
    key, new_key = values["key"], values["new_key"]
    if (key is None) == (new_key is None):
        raise ArgumentError(
            "shares are crafted under a key that both servers have: make one with --new-key FILE at one server, send "
            "it to the other, and give it there with --key FILE"
        )
    if not all(word.endswith(SHARE_ENDING) for word in table):
        raise ArgumentError("shares and tables are not crafted together; give shares of rows alone")
    place = options.chosen_output(
        values["output"], options.default_output_path(Path(table[0]).stem, "partial"), table, values["force"]
    )
    parts = [rb.load_share(word) for word in table]
    if new_key is not None:
        options.check_output_path(new_key, table, "--new-key")
        if new_key.exists():
            raise OutputError(f"{new_key} is there already; use it with --key, or choose another place")
    secret: Any = key if key is not None else rb.new_share_key()
    partial = rb.craft_shares(
        parts, key=secret, n_rados=1000 if values["n_rados"] is None else values["n_rados"],
        signatures=options.chosen_signatures(values["support"]), engine=values["engine"], threads=values["threads"],
        progress=not values["quiet"],
    )  # fmt: skip
    if new_key is not None:
        rb.new_share_key(new_key, secret)
    try:
        partial.save(place)
    except BaseException:
        if new_key is not None:
            new_key.unlink(missing_ok=True)
        raise
    if values["as_json"]:
        print(json.dumps({"path": str(place), **partial.to_dict()}, indent=2, ensure_ascii=False))
        return
    print(
        f"wrote {place}: {len(partial.sums):,} partial sums over {partial.n_rows:,} rows, side {partial.side}\n"
        "It is random without the other server's. Send it to the learner, and never the key; no server may see the "
        "release."
    )
    if new_key is not None:
        print(f"wrote {new_key}: send it to the other server, by a way that senders and the learner cannot read")
