"""rado merge, rado join and rado share: what several holders, or two servers, put together."""

import json
from pathlib import Path
from typing import Annotated, Any

from radoboost.cli import options
from radoboost.cli.options import argument, option, output_option
from radoboost.errors import ArgumentError, OutputError
from radoboost.outputs import refuse_overwrite

_MERGED = Path("merged.rado.parquet")
_JOINT = Path("joint.model.json")


def merge(
    releases: Annotated[
        list[Path],
        argument("RELEASE...", "Plain releases, one of each holder; or the two partial sums of rado share sum."),
    ],
    how: Annotated[
        str,
        option(
            "--how auto|sum|moments",
            "Add rado j of each, which is exact; or keep the rados of all, moved so that mean and covariance are "
            "those of all rows, for different numbers of rados. auto sums where it can.",
            complete=options.complete_from_words("auto", "sum", "moments"),
        ),
    ] = "auto",
    output: Annotated[Path, output_option("The release; merged.rado.parquet by default.")] = _MERGED,
    force: options.ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Merge plain releases of several holders into one release of all their rows.

    They have the same columns and classes, and no row is at two holders. Z-scores are converted to those of all rows.
    Signatures are independent, or of one seed under which rows are numbered through (rado craft --seed with --set
    first_row=N): then the sum is the release of the whole table, to the last bit. Private releases are not merged: rado
    learn A B C. What two servers made of the two shares of a table becomes its release too.

    \b
    Examples:
      rado merge north.rado.parquet south.rado.parquet -o both.rado.parquet
      rado merge north.rado.parquet south.rado.parquet west.rado.parquet --how moments
      rado merge a.partial b.partial -o patients.rado.parquet
    """
    import radoboost as rb
    from radoboost.release.secret_shares import holds_shares

    options.check_output_path(output, [str(path) for path in releases])
    refuse_overwrite(output, _MERGED, force)
    if any(map(holds_shares, releases)):
        if len(releases) != 2 or how != "auto":
            raise ArgumentError(f"the sums of two servers are merged, without --how; there are {len(releases)} files")
        release = rb.merge_shares(releases[0], releases[1])
    else:
        release = rb.merge(releases, how)
    release.save(output)
    options.print_release(release, output, as_json, f"wrote {output}")


# ---- rado join: releases of two holders of different columns become one model.


def join(
    left: Annotated[Path, argument("RELEASE", "A release crafted with --set shared=COL,COL.")],
    right: Annotated[Path, argument("RELEASE", "A release of the other holder.")],
    on: Annotated[
        str | None, option("--on COL,COL", "The columns that both have; all that both releases share by default.")
    ] = None,
    ridge: Annotated[
        float | None, option("--ridge R", "How far weights are shrunk, as a share of second moments; 0.01 by default.")
    ] = None,
    output: Annotated[Path, output_option("The model.")] = _JOINT,
    force: options.ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Learn a classifier over the columns of two holders; nobody's rows are matched.

    Both have the label and some columns in common, coded alike, and give a plain release that shares these. Columns of
    one holder and of the other are taken to be unrelated given what is shared: the model says so. To predict a row, its
    two parts must meet, or their scores.

    \b
    Examples:
      rado craft clinic.csv --label readmitted --set shared=age,region
      rado craft laboratory.csv --label readmitted --set shared=age,region
      rado join clinic.rado.parquet laboratory.rado.parquet -o joint.model.json
      rado show joint.model.json --html joint.html
    """
    import radoboost as rb
    from radoboost.learner.moment_completion import RIDGE
    from radoboost.tables.column_selection import split_column_names

    options.check_output_path(output, [str(left), str(right)])
    refuse_overwrite(output, _JOINT, force)
    names = None if on is None else split_column_names(on)
    model = rb.join(left, right, names, ridge=RIDGE if ridge is None else ridge)
    model.save(output)
    options.print_model(model, output, as_json, f"wrote {output}")


# ---- rado share: a table becomes two shares, for two servers, and each sums the rows of its share.

share = options.command_group("share", help="Let two servers that keep apart craft a release from shares of its rows.")


@options.add_command(share)
def split(
    table: options.TableArgument,
    label: options.LabelOption = None,
    schema: options.SchemaOption = None,
    drop: options.DropOption = None,
    classes: options.ClassesOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnsOption = "auto",
    output: Annotated[
        tuple[Path, Path] | None, output_option("The two shares; STEM.a.share and STEM.b.share by default.", "A B")
    ] = None,
    quiet: options.QuietFlag = False,
    force: options.ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Split the rows of a table into two shares, for two servers that keep apart.

    Each share alone is random numbers. Each server runs rado share sum on its share, both under one key that they alone
    have, and the learner runs rado merge on what they make: the plain release of the table, to the last bit. No server
    may see that release, for with the key it would solve for rows; both shares together are the rows. Nothing is
    promised about the release, as about any plain one.

    \b
    Examples:
      rado share split patients.csv --label readmitted -o a.share b.share # the holder; one file to each server
      rado share sum a.share --new-key both.key                           # one server, which sends both.key on
      rado share sum b.share --key both.key                               # the other server
      rado merge a.partial b.partial -o patients.rado.parquet             # the learner
    """
    import radoboost as rb

    places = output or (
        options.default_output_path(table[0], "a.share"),
        options.default_output_path(table[0], "b.share"),
    )
    for place in places:
        options.check_output_path(place, table)
        refuse_overwrite(place, None, force)  # a share fits the one beside it alone, which may be at a server by now
    declared, plain = options.declaration_and_mechanism("plain", None, None, settings, schema, drop)
    if declared.shared is not None:
        raise ArgumentError("shares of rows have no columns that another holder shares; leave --set shared out")
    with options.keep_warnings_for_later(quiet) as notices:
        a, _ = rb.share(
            options.chosen_table(table), to=places, label=label, classes=options.chosen_classes(classes),
            schema=declared, mechanism=plain, columns=columns, progress=not quiet,
        )  # fmt: skip
    if not quiet:
        options.say_warnings(notices)
    if as_json:
        print(json.dumps({"paths": [str(place) for place in places], **a.to_dict()}, indent=2, ensure_ascii=False))
        return
    print(
        f"wrote {places[0]} and {places[1]}: {a.n_rows:,} rows of {len(a.awaited.release.columns):,} columns\n"
        "Each alone is random numbers; both together are the rows. Send each to another server, and delete both here."
    )


@options.add_command(share, "sum")
def sum_(
    shares: Annotated[list[Path], argument("SHARE", "Shares of rows, as rado share split writes them.")],
    key: Annotated[
        Path | None, option("--key FILE", "The key of the signatures, which both servers have and nobody else.")
    ] = None,
    new_key: Annotated[
        Path | None, option("--new-key FILE", "Make that key, for the other server to take with --key.")
    ] = None,
    n_rados: options.RadosOption = None,
    signatures: options.SignaturesOption = None,
    output: Annotated[Path | None, output_option("The partial sums; STEM.partial by default.")] = None,
    quiet: options.QuietFlag = False,
    force: options.ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Sum the rows of a share: what one of two servers does.

    \b
    Examples:
      rado share sum a.share --new-key both.key
      rado share sum b.share --key both.key
    """
    import radoboost as rb

    sources = [str(path) for path in shares]
    if (key is None) == (new_key is None):
        raise ArgumentError(
            "shares are crafted under a key that both servers have: make one with --new-key FILE at one server, send "
            "it to the other, and give it there with --key FILE"
        )
    default = options.default_output_path(shares[0].stem, "partial")
    place = options.chosen_output(output, default, sources, force)
    parts = [rb.load_share(word) for word in sources]
    if new_key is not None:
        options.check_output_path(new_key, sources, "--new-key")
        if new_key.exists():
            raise OutputError(f"{new_key} is there already; use it with --key, or choose another place")
    secret: Any = key if key is not None else rb.new_share_key()
    partial = rb.craft_shares(
        parts, key=secret, n_rados=1000 if n_rados is None else n_rados,
        signatures=options.chosen_signatures(signatures), progress=not quiet,
    )  # fmt: skip
    if new_key is not None:
        rb.new_share_key(new_key, secret)
    try:
        partial.save(place)
    except BaseException:
        if new_key is not None:
            new_key.unlink(missing_ok=True)
        raise
    if as_json:
        print(json.dumps({"path": str(place), **partial.to_dict()}, indent=2, ensure_ascii=False))
        return
    print(
        f"wrote {place}: {len(partial.sums):,} partial sums over {partial.n_rows:,} rows, side {partial.side}\n"
        "It is random without the other server's. Send it to the learner, and never the key; no server may see the "
        "release."
    )
    if new_key is not None:
        print(f"wrote {new_key}: send it to the other server, by a way that senders and the learner cannot read")
