"""rado craft: a table becomes a release."""

from pathlib import Path
from typing import Annotated, Any

from radoboost.cli import options
from radoboost.cli.ledger import LedgerOption, chosen_ledger
from radoboost.cli.options import of_release, output_option
from radoboost.errors import ArgumentError
from radoboost.outputs import refuse_overwrite

MORE_ACCURATE = (
    "exact moments promise nothing either, and models from them are mostly more accurate: --mechanism moments "
    "--epsilon inf"
)


def craft(
    table: options.TableArgument,
    label: options.LabelOption = None,
    schema: options.SchemaOption = None,
    drop: options.DropOption = None,
    classes: options.ClassesOption = None,
    person: options.PersonOption = None,
    epsilon: options.EpsilonOption = None,
    delta: options.DeltaOption = None,
    mechanism: options.MechanismOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnsOption = "auto",
    n_rados: options.RadosOption = None,
    signatures: options.SignaturesOption = None,
    seed: Annotated[
        int | None, of_release("--seed", "Make signatures reproducible, and known to anyone who knows the seed.")
    ] = None,
    compose: Annotated[
        list[Path] | None,
        of_release(
            "--compose RELEASE", "Count an earlier release of this table in, or the receipt of a room; repeat it."
        ),
    ] = None,
    ledger: LedgerOption = None,
    cluster: options.ClusterOption = None,
    trust_network: options.TrustNetworkFlag = False,
    engine: options.EngineOption = "auto",
    threads: options.ThreadsOption = None,
    output: Annotated[Path | None, output_option("The release; STEM.rado.parquet by default.")] = None,
    counts: options.CountsOption = None,
    quiet: options.QuietFlag = False,
    force: options.ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Craft rados from a table and write them as a release.

    A promise (--epsilon) needs a schema that was written from public knowledge, never read off the table. Without one,
    a raw table will do: what its columns mean is read off it, and printed.

    \b
    Examples:
      rado craft patients.csv --label readmitted
      rado craft patients.csv --epsilon 1 --schema patients.schema.json
      rado craft 'visits/*.parquet' --epsilon 1 --schema visits.schema.json \\
        --person patient_id:4 --ledger clinic.ledger
      rado craft 'postgresql://host/clinic?SELECT age, ill FROM visits' --label ill
    """
    from radoboost.holder.craft import craft_request
    from radoboost.holder.request import Compute, CraftRequest
    from radoboost.release.composition import earlier_releases
    from radoboost.release.kind import SUMS
    from radoboost.tables.labels import many_classes_advice

    if options.are_share_files(table):
        raise ArgumentError(f"a share of rows is summed by: rado share sum {table[0]} --new-key FILE")
    declared, protection = options.declaration_and_mechanism(mechanism, epsilon, delta, settings, schema, drop, person)
    content, names = options.chosen_table(table), options.chosen_classes(classes)
    if protection.private and schema is None:
        raise _undeclared_schema_error(content, options.shown_table_name(table), declared, label, names)
    options.check_trust_network_option(cluster, trust_network)
    place = options.chosen_output(output, options.default_output_path(table[0], "rado.parquet"), table, force)
    if counts is not None:
        refuse_overwrite(counts, None, force, "--counts")
    books = chosen_ledger(ledger)
    with options.keep_warnings_for_later(quiet) as notices:
        asked = CraftRequest.of(
            declared, protection, label=label, classes=names, n_rados=n_rados, columns=columns, seed=seed,
            signatures=options.chosen_signatures(signatures), earlier=earlier_releases(compose or ()),
        )  # fmt: skip
        release = craft_request(
            content, None, asked, ledger=books, compute=Compute(engine, threads, cluster, trust_network),
            counts=None if quiet else counts or "terminal", progress=not quiet, place=place,
        )  # fmt: skip
        release.save(place)
    if not quiet:
        options.say_warnings(notices)
        if release.law == SUMS:
            options.say_on_stderr(f"rado: {MORE_ACCURATE}")
        if not names and schema is None and (advice := many_classes_advice(label or "", release.classes)):
            options.say_on_stderr(f"rado: {advice}")
    left = "" if books is None else f", booked on {books.path.name}; epsilon {books.largest_epsilon():g} is left"
    options.print_release(release, place, as_json, f"wrote {place}{left}")


def _undeclared_schema_error(table: Any, name: str, declared: Any, label: str | None, classes: Any) -> ArgumentError:
    return ArgumentError(
        "a promise about records needs a declared schema, because one read off the table reveals some of it; "
        f"{_undecided_lines(table, declared, label, classes)}run: rado schema {name} --label {label or 'COL'}; "
        "complete it from public knowledge; give it with --schema; or, if all columns are numbers, let the mechanism "
        "moments find bounds with --schema private"
    )


def _undecided_lines(table: Any, declared: Any, label: str | None, classes: Any) -> str:
    """What a schema of the table must decide, with the lines to write: by its header and types, and never by a row."""
    from radoboost.holder.schema_inference import schema_template
    from radoboost.tables.streams import is_query_or_stream

    if is_query_or_stream(table):
        return ""  # its header comes with its rows
    drop = [*declared.drop, *([] if declared.person is None else [declared.person.column])]
    schema = schema_template(table, label, declared.separator).only(None, drop)
    lines = schema.undecided()
    if not classes:
        lines["classes"] = '"classes": ["NEGATIVE", "POSITIVE"], or all of more than two'
    left = [f"{name} ({kind.kind})" for name, kind in schema.columns.items() if name not in schema.used]
    spared = f"; left out, by their names and types: {', '.join(left)}" if left else ""
    return (
        f"to decide, by names and types alone: {', '.join(map(repr, lines))}; lines to write: "
        f"{', '.join(lines.values())}{spared}; "
    )
