"""rado craft: a table becomes a release."""

from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from radoboost.cli import options
from radoboost.cli.ledger import LedgerOption, TableOption, chosen_ledger
from radoboost.cli.merge import KeyOption, NewKeyOption, are_share_files, craft_from_shares, refuse_share_keys
from radoboost.errors import ArgumentError
from radoboost.outputs import ForceFlag, refuse_overwrite

MORE_ACCURATE = (
    "exact moments promise nothing either, and models from them are mostly more accurate: --mechanism moments "
    "--epsilon inf"
)


def craft(
    table: options.TableArgument,
    label: options.LabelOption = None,
    query: options.QueryOption = None,
    form: options.FormatOption = None,
    n_rados: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--n-rados",
            help="How many rados, at most 524,288; 1000 by default, and none with the mechanism moments.",
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=options.complete_mechanism,
            help="What protects the release: moments, noisy-rados, noisy-examples, feature-band or plain. By default "
            "moments with --epsilon, noisy-rados with --noise-std, and else plain.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The privacy loss to allow; needs --schema. With inf, moments are exact and promise nothing."
        ),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="The delta that goes with epsilon; 1e-6 by default.")] = None,
    person: options.PersonOption = None,
    max_rows: options.MaxRowsOption = None,
    rows: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            help="About how many rows, from public knowledge: moments says beforehand which columns so many carry, and "
            "refuses an epsilon that so few cannot.",
        ),
    ] = None,
    first_row: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="The number of the table's first row, for holders who share a --seed: each begins where the one "
            "before ended, and rado merge then gives the release of all rows, to the last bit.",
        ),
    ] = 0,
    weights: options.WeightsOption = None,
    clip: Annotated[float | None, typer.Option(help="The largest norm of a scaled row; 1 by default.")] = None,
    noise_std: Annotated[
        float | None, typer.Option(help="The standard deviation of the noise, instead of --epsilon.")
    ] = None,
    unit: options.UnitOption = None,
    relation: options.RelationOption = None,
    sharpen: options.SharpenOption = None,
    bounds_share: Annotated[
        float | None,
        typer.Option(
            metavar="F", help="The part of its budget that moments spends on --bounds private; 0.1 by default."
        ),
    ] = None,
    protect: Annotated[
        str | None, typer.Option(metavar="COL", help="The binary column of the mechanism feature-band.")
    ] = None,
    support: Annotated[
        str | None, typer.Option(metavar="S", help="Let every rado sum S examples, or a fraction S such as 0.5.")
    ] = None,
    columns: options.ColumnsOption = "auto",
    share: Annotated[
        str | None,
        typer.Option(
            metavar="COL,COL",
            help="Columns that another holder has too, for rado join; '' if only the label is. Not with --epsilon.",
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="auto, standard (z-scores), bounds (onto [-1, 1]) or none.")] = "auto",
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
    intercept: options.InterceptFlag = True,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Make signatures reproducible, and known to anyone who knows the seed; the statement says so."
        ),
    ] = None,
    i_know: Annotated[
        bool,
        typer.Option(
            "--i-know",
            help="Allow a seed with a private mechanism, whose epsilon is then infinite.",
        ),
    ] = False,
    compose: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RELEASE",
            help="An earlier release of the same table, or the receipt of a room that ended without one, to count in "
            "with what it was composed with; repeat for more.",
        ),
    ] = None,
    ledger: LedgerOption = None,
    ledger_table: TableOption = None,
    key: KeyOption = None,
    new_key: NewKeyOption = None,
    engine: options.EngineOption = "auto",
    threads: options.ThreadsOption = None,
    cluster: options.ClusterOption = None,
    trust_network: options.TrustNetworkFlag = False,
    output: Annotated[Path | None, options.output_option("The release; STEM.rado.parquet by default.")] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where a private mechanism writes exact counts, for the holder alone; the terminal by default.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no counts: results and failures only.")
    ] = False,
    force: ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Craft rados from a table and write them as a release.

    A raw table will do: without --epsilon, text, gaps and dates are read by a schema that is proposed from the table,
    and printed; with it, by one that was written from public knowledge.

    \b
    Examples:
      rado craft patients.csv --label readmitted
      rado craft 'visits/*.parquet' --label readmitted --person patient_id --max-rows 4 --epsilon 1 \\
        --schema visits.schema.json -o visits.rado.parquet
      rado craft visits/ --label readmitted
      rado craft 's3://clinic/visits/*.parquet' --label readmitted
      rado craft "duckdb:clinic.duckdb?SELECT age, dose, readmitted FROM visits" --label readmitted
      rado craft postgresql://host/clinic --query 'SELECT age, dose, readmitted FROM visits' --label readmitted
      zcat patients.csv.gz | rado craft - --label readmitted -o patients.rado.parquet
      rado craft patients.csv --label outcome --classes alive dead --json
      rado craft wine.csv --label grade --class low --class middle --class high
      rado craft patients.csv --label readmitted --missing drop --separator ';' --decimal ,
      rado craft patients.csv --label readmitted --unlabelled drop
      rado craft patients.csv --label readmitted --columns degree-2
      rado craft patients.csv --label readmitted --share age,region
      rado craft patients.csv --label readmitted --mechanism moments --epsilon inf
      rado craft patients.csv --epsilon 1 --schema patients.schema.json
      rado craft patients.csv --epsilon 1 --schema patients.schema.json --ledger clinic.ledger
      rado craft patients.csv --epsilon 1 --bounds private --label readmitted --classes no yes
      rado craft a.share --new-key both.key    # one of two servers; the other takes b.share and --key both.key
    """
    given = dict(locals())
    import radoboost as rb
    from radoboost.release.kind import SUMS
    from radoboost.tables.column_selection import split_column_names
    from radoboost.tables.labels import many_classes_advice

    if are_share_files(table):
        craft_from_shares(given, {name: option.default for name, option in signature(craft).parameters.items()})
        return
    refuse_share_keys(key, new_key)
    privacy = {"feature": protect, "epsilon": epsilon, "delta": delta, "clip": clip, "noise_std": noise_std}
    protection = options.chosen_mechanism(
        mechanism, {**privacy, "unit": unit, "relation": relation, "sharpen": sharpen, "bounds_share": bounds_share}
    )
    signatures = options.chosen_signatures(support)
    if protection.private and schema is None and bounds is None:
        left_out = [*(drop or ()), *([] if person is None else [person])]
        about = (label, feature, left_out, separator, classes or class_)
        raise _undeclared_schema_error(
            _undecided_lines(options.chosen_table(table, query, form), *about), options.shown_table_name(table), label
        )
    options.check_trust_network_option(cluster, trust_network)
    declared_classes = options.chosen_classes(classes, class_, table)
    content = options.chosen_table(table, query, form)
    place = options.chosen_output(output, options.default_output_path(table[0], "rado.parquet"), table, force)
    if counts is not None:
        refuse_overwrite(counts, None, force, "--counts")
    with options.keep_warnings_for_later(quiet) as notices:
        release = rb.craft(
            content, label=label, classes=declared_classes, features=feature or None, drop=drop or (), n_rados=n_rados,
            mechanism=protection, signatures=signatures, columns=columns,
            share=None if share is None else split_column_names(share), scale=None if scale == "none" else scale,
            schema=schema, bounds=bounds, missing=missing, unlabelled=unlabelled, separator=separator, decimal=decimal,
            intercept=intercept, person=person, max_rows=max_rows, rows=rows, first_row=first_row, weights=weights,
            seed=seed, i_know=i_know, compose=compose or (), ledger=chosen_ledger(ledger, ledger_table),
            counts=None if quiet else counts or "terminal", engine=engine, threads=threads, cluster=cluster,
            trust_network=trust_network, progress=not quiet, place=place,
        )  # fmt: skip
        release.save(place)
    for warning in () if quiet else notices:
        for line in getattr(warning, "lines", (warning,)):
            options.say_on_stderr(f"rado: {' '.join(str(line).split())}")
    if release.law == SUMS and not quiet:
        options.say_on_stderr(f"rado: {MORE_ACCURATE}")
    advice = None if declared_classes or schema or quiet else many_classes_advice(label or "", release.classes)
    if advice:
        options.say_on_stderr(f"rado: {advice}")
    options.print_release(release, place, as_json, f"wrote {place}")


def _undeclared_schema_error(decisions: str, table: str, label: str | None) -> ArgumentError:
    return ArgumentError(
        "a promise about records needs a declared schema, because one read off the table reveals some of it; "
        f"{decisions}run: rado schema {table} --label {label or 'COL'}; complete it from public "
        "knowledge; give it with --schema; or, if all columns are numbers, let the mechanism moments find bounds "
        "with --bounds private"
    )


def _undecided_lines(
    table: Any, label: str | None, features: list[str] | None, drop: list[str], separator: str | None, classes: Any
) -> str:
    """What a schema of the table must decide, with the lines to write: by its header and types, and never by a row."""
    from radoboost.holder.schema_inference import schema_template
    from radoboost.tables.streams import is_query_or_stream

    if is_query_or_stream(table):
        return ""  # its header comes with its rows
    schema = schema_template(table, label, separator).only(features, drop)
    lines = schema.undecided()
    if not classes:
        lines["classes"] = '"classes": ["NEGATIVE", "POSITIVE"], or all of more than two'
    left = [f"{name} ({kind.kind})" for name, kind in schema.columns.items() if name not in schema.used]
    spared = f"; left out, by their names and types: {', '.join(left)}" if left else ""
    return (
        f"to decide, by names and types alone: {', '.join(map(repr, lines))}; lines to write: "
        f"{', '.join(lines.values())}{spared}; "
    )
