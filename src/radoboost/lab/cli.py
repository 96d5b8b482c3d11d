"""rado audit: a mechanism attacked."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radoboost.cli.options import (
    JsonFlag,
    RelationOption,
    check_output_path,
    chosen_mechanism,
    chosen_output,
    complete_mechanism,
    default_output_path,
    failures_in_one_line,
    output_option,
    say_on_stderr,
)
from radoboost.errors import ArgumentError, ReleaseError, TableError
from radoboost.outputs import ForceFlag, refuse_overwrite
from radoboost.progress import show_progress

if TYPE_CHECKING:
    from radoboost.release.release import Release


def audit(
    mechanism: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_mechanism, help="moments by default."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The claim to attack.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="The delta that goes with epsilon; 1e-6 by default.")] = None,
    n_rados: Annotated[int, typer.Option("-n", "--n-rados", help="How many rados.")] = 100,
    unit: Annotated[
        str | None, typer.Option(help="What the mechanism moments protects: record (the default) or label.")
    ] = None,
    relation: RelationOption = None,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="private", help="Let moments find its bounds privately, and attack that as well."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Attack a row with a category and a gap, as a schema reads it from its cells.")
    ] = False,
    columns: Annotated[
        str,
        typer.Option(metavar="WORD", help="The columns that moments makes: auto, linear, or degree-2 to degree-8."),
    ] = "auto",
    n_classes: Annotated[
        int, typer.Option(metavar="K", help="How many classes the attacked tables have; more than two for moments.")
    ] = 2,
    rows: Annotated[int, typer.Option(help="How many examples, for feature-band.")] = 1000,
    max_rows: Annotated[
        int | None,
        typer.Option(metavar="K", help="With --exact: persons, of whom at most K rows contribute."),
    ] = None,
    parties: Annotated[
        int | None,
        typer.Option(metavar="K", help="With --exact: a room of K holders, some of whom put together what they know."),
    ] = None,
    tolerate: Annotated[
        int | None,
        typer.Option(metavar="T", help="How many of them that are, as for rado room open; 1 by default."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Runs of each of two neighbouring tables; more show more. The default depends on epsilon."),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Replay the mechanism on many pairs of made-up tables, and say how far any of them are apart: no "
            "statistics. Also for --mechanism score.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Attack a mechanism as an adversary would, and say how much of its epsilon that shows.

    Needs no data: tables are made up. An audit that shows more than is claimed ends with exit code 1.

    \b
    Examples:
      rado audit --epsilon 4
      rado audit --exact --epsilon 1 --columns degree-4
      rado audit --exact --epsilon 1 --mechanism score --json
      rado audit --epsilon 4 --unit label
      rado audit --epsilon 4 --relation replace
      rado audit --epsilon 4 --bounds private
      rado audit --exact --max-rows 4
      rado audit --epsilon 4 --raw
      rado audit --epsilon 4 --columns degree-2
      rado audit --epsilon 4 --n-classes 5
      rado audit --exact --parties 5 --tolerate 1
      rado audit --mechanism noisy-examples --epsilon 4 --runs 6000
      rado audit --mechanism feature-band --epsilon 1 --rows 1000 --json
    """
    from radoboost.lab.audits.audit import audit as attack
    from radoboost.lab.audits.exact_audit import audit_score_exactly

    name = mechanism or "moments"
    if bounds not in (None, "private"):
        raise ArgumentError(f"--bounds takes the word private here, or is left out; it is {bounds!r}")
    if tolerate is not None and parties is None:
        raise ArgumentError("--tolerate is for a room; say how many holders it has with --parties")
    if exact and name == "score":
        show = not as_json
        result: Any = audit_score_exactly(epsilon, 1e-6 if delta is None else delta, n_classes=n_classes, progress=show)
    else:
        privacy = {"delta": delta, "unit": unit, "relation": relation, "epsilon": epsilon}
        result = attack(
            mechanism_to_audit(name, privacy), n_rados=n_rados, n_examples=rows, max_rows=max_rows, runs=runs,
            private_bounds=bounds is not None, raw=raw, columns=columns, n_classes=n_classes,
            room=None if parties is None else (parties, 1 if tolerate is None else tolerate), exact=exact,
            progress=not as_json,
        )  # fmt: skip
    print(json.dumps(result.to_dict(), indent=2) if as_json else result.text())
    if not result.holds:
        raise ArgumentError(f"the audit shows more than {name} claims: do not use it, and report this")


def mechanism_to_audit(name: str, privacy: dict[str, Any]) -> Any:
    """The mechanism to audit; one without an epsilon of its own has none, and the canary's column has any name."""
    from radoboost.holder.mechanisms import MECHANISMS

    fields = getattr(MECHANISMS.get(name), "__dataclass_fields__", {})
    epsilon = privacy["epsilon"] if "epsilon" in fields else None
    return chosen_mechanism(name, {**privacy, "epsilon": epsilon, "feature": "x" if "feature" in fields else None})


# ---- rado attack: what an adversary gets from a release.

app = typer.Typer(
    name="attack", no_args_is_help=True, rich_markup_mode=None, help="Attack a release, and say what an adversary gets."
)

ReleaseFile = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")]
TableFiles = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", metavar="TABLE", help="A table file, or a pattern in quotes; repeat for more."),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        "-l",
        metavar="COL",
        help="The table's column of classes; needed if several columns are not features.",
    ),
]
Seed = Annotated[int, typer.Option(metavar="K", help="The seed of the release's signatures.")]
Rows = Annotated[
    int | None, typer.Option(metavar="M", help="How many rows the release is from; most releases say so themselves.")
]
Seconds = Annotated[float, typer.Option(metavar="S", help="The time limit.")]


@app.command()
@failures_in_one_line
def reconstruct(
    release: ReleaseFile,
    seed: Seed,
    rows: Rows = None,
    output: Annotated[Path | None, output_option("The records; STEM.reconstructed.csv by default.")] = None,
    seconds: Seconds = 60.0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Get the records of a release back from the seed of its signatures.

    \b
    Examples:
      rado attack reconstruct patients.rado.parquet --seed 7
      rado attack reconstruct patients.rado.parquet --seed 7 --rows 500 -o back.csv
    """
    from radoboost.lab.attacks import exact_reconstruction as attack
    from radoboost.release.release import load

    place = chosen_output(output, default_output_path(str(release), "reconstructed.csv"), [str(release)], force)
    loaded = load(release)
    result = attack.reconstruct(loaded, seed, rows, seconds=seconds)
    records = result.to_table()
    if records.num_rows:
        _write_attack_csv(place, records)
    _print_attack_result(result, attack.ASSUMES, as_json, path=str(place) if records.num_rows else None)


@app.command()
@failures_in_one_line
def linear(
    release: ReleaseFile,
    seed: Seed,
    rows: Rows = None,
    column: Annotated[
        str, typer.Option(metavar="COL", help="The column to recover; the constant one gives the labels.")
    ] = "(constant)",
    method: Annotated[str, typer.Option(help="lp (a linear program) or least-squares.")] = "lp",
    values: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="The values that label times column can have, if few.")
    ] = None,
    output: Annotated[Path | None, output_option("A CSV file for the values; not written by default.")] = None,
    seconds: Seconds = 60.0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Recover one column from the seed of the signatures, in spite of noise on rados.

    \b
    Examples:
      rado attack linear noisy.rado.parquet --seed 7 --rows 500
      rado attack linear patients.rado.parquet --seed 7 --column smokes --values=-1,1
    """
    from radoboost.lab.attacks import linear_reconstruction as attack
    from radoboost.release.release import load

    _check_optional_output(output, [str(release)], force)
    loaded = load(release)
    result = attack.recover_release_column(
        loaded, seed, rows, column, method=method, values=_parse_attack_numbers(values), seconds=seconds
    )
    if output is not None and result.status == "found":
        _write_attack_csv(output, {column: result.values})
    _print_attack_result(result, attack.ASSUMES, as_json)


@app.command()
@failures_in_one_line
def probe(
    release: ReleaseFile,
    table: TableFiles = None,
    label: Label = None,
    rados: Annotated[int, typer.Option(help="How many rados to read at most.")] = 64,
    output: Annotated[
        Path | None, output_option("A CSV file with the status of each row; not written by default.")
    ] = None,
    seconds: Seconds = 60.0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Say which of your clients are in somebody else's release.

    The table must hold all rows that the release is from, among others. Works on exact sums with real-valued columns,
    and on few rows.

    \b
    Examples:
      rado attack probe theirs.rado.parquet --table clients.csv
      rado attack probe theirs.rado.parquet --table clients.csv --label churned -o status.csv
    """
    from radoboost.lab.attacks import row_probe as attack

    if rados < 1:
        raise ArgumentError(f"at least one rado must be read; --rados is {rados}")
    loaded, files, label = _release_with_table(release, table, label)
    _check_optional_output(output, [str(release), *files], force)
    with show_progress("rados") as bar:
        result = attack.probe_rows_of_table(loaded, files, label=label, rados=rados, seconds=seconds, bar=bar)
    if output is not None:
        _write_attack_csv(output, {"row": list(range(len(result.rows))), "status": list(result.rows)})
    _print_attack_result(result, attack.ASSUMES, as_json)
    if not as_json and result.members:
        print(f"rows in it, the first of the table being 0: {_row_ranges_text(result.members)}")


@app.command()
@failures_in_one_line
def leak(
    release: ReleaseFile,
    row: Annotated[int, typer.Option(metavar="I", help="The row whose protected value is unknown; the first is 0.")],
    table: TableFiles = None,
    label: Label = None,
    seconds: Seconds = 60.0,
    as_json: JsonFlag = False,
) -> None:
    """Read the value that the mechanism feature-band protects, in one row, from the other columns.

    What the table holds in that place is not used.

    \b
    Examples:
      rado attack leak patients.rado.parquet --table patients.csv --label readmitted --row 3
    """
    from radoboost.lab.attacks import feature_band_leak as attack

    loaded, files, label = _release_with_table(release, table, label)
    with show_progress("rados") as bar:
        result = attack.leak_protected_bit(loaded, files, label=label, row=row, seconds=seconds, bar=bar)
    _print_attack_result(result, attack.ASSUMES, as_json)


@app.command()
@failures_in_one_line
def membership(
    release: ReleaseFile,
    runs: Annotated[int, typer.Option(help="Runs of each table; fewer if the time runs out.")] = 10_000,
    seconds: Seconds = 60.0,
    as_json: JsonFlag = False,
) -> None:
    """Tell whether a record was in the table, knowing all others, and hold that against the release's statement.

    The tables of the attack are made up: what is attacked is what the release says was done. An attack that gets more
    than the statement allows ends with exit code 1.

    \b
    Examples:
      rado attack membership patients.rado.parquet
      rado attack membership patients.rado.parquet --runs 20000 --seconds 600 --json
    """
    from radoboost.lab.attacks.membership import ASSUMES, membership_of_release
    from radoboost.release.release import load

    with show_progress("runs") as bar:
        loaded = load(release)
        result = membership_of_release(loaded, runs=runs, seconds=seconds, bar=bar)
    _print_attack_result(result, f"{ASSUMES} Granted here: {'; '.join(result.granted)}.", as_json)
    if result.beats_claim:
        raise ReleaseError(f"the attack gets more than the statement of {release} allows; do not trust it")


@app.command()
@failures_in_one_line
def confounder(
    release: ReleaseFile,
    table: TableFiles = None,
    label: Label = None,
    as_table: Annotated[
        bool, typer.Option("--as-table", help="Make one that can be a table: its constant column is -1 or +1.")
    ] = False,
    output: Annotated[Path | None, output_option("A CSV file for its edge vectors; not written by default.")] = None,
    seconds: Seconds = 60.0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Make another data set with the same rados as a table, to the last bit, and say how far away it is.

    \b
    Examples:
      rado attack confounder patients.rado.parquet --table patients.csv --label readmitted -o other.csv
    """
    from radoboost.lab.attacks.adversary_knowledge import own_edge_vectors
    from radoboost.lab.theory.confounder import ASSUMES, confound_columns

    loaded, files, label = _release_with_table(release, table, label)
    _check_optional_output(output, [str(release), *files], force)
    result = confound_columns(loaded, own_edge_vectors(loaded, files, label=label), as_table=as_table, seconds=seconds)
    if result is None:
        raise TableError("no other data set with the same rados was found in the same ball; there may be none")
    if output is not None:
        _write_attack_csv(output, dict(zip(loaded.feature_names, result.edge_vectors.T, strict=True)))
    _print_attack_result(result, ASSUMES, as_json)


def _complete_study(incomplete: str) -> list[str]:
    from radoboost.lab.attacks import STUDIES

    return [name for name in (*STUDIES, "all") if name.startswith(incomplete)]


@app.command()
@failures_in_one_line
def study(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            autocompletion=_complete_study,
            help="linear, probe, leak, membership, confounder, hardness, or all.",
        ),
    ] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller cases, in about a minute.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of tables and draws.")] = 0,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="The time limit of each study; by default some minutes.")
    ] = None,
    output: Annotated[Path, output_option("The folder of the results.")] = Path("rado-attacks"),
    as_json: JsonFlag = False,
) -> None:
    """Measure on made-up tables what attacks get, and where they stop.

    Results go to OUT as JSON, CSV, PNG and SVG, and as one page, report.html.

    \b
    Examples:
      rado attack study leak
      rado attack study all --quick -o attacks
    """
    from radoboost.lab.attacks import study_attack as run
    from radoboost.report.terminal import findings_for_terminal as as_text

    documents = run(what, quick=quick, seed=seed, seconds=seconds, output=output, progress=True)
    if as_json:
        kept = [document.to_dict() for document in documents]
        print(json.dumps({"path": str(output), "studies": kept}, indent=2, ensure_ascii=False))
        return
    print("\n\n".join(as_text(document.findings) for document in documents))
    say_on_stderr(f"\nLook at {output / 'report.html'}")


@app.command()
@failures_in_one_line
def report(
    release: ReleaseFile,
    table: TableFiles = None,
    label: Label = None,
    seed: Annotated[int | None, typer.Option(metavar="K", help="The seed of the signatures, if it leaked.")] = None,
    rows: Rows = None,
    row: Annotated[int, typer.Option(metavar="I", help="The row whose protected value the attack leak reads.")] = 0,
    output: Annotated[Path | None, output_option("The page; STEM.attacks.html by default.")] = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="The time limit of each attack.")] = 20.0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Run every attack on a release, and write one page about what they get.

    Where something is promised about records, persons or labels, the program is audited at the settings of the release:
    on made-up tables, and not this file.

    More attacks can run with --seed, and with --table, a table that holds the rows of the release.

    \b
    Examples:
      rado attack report patients.rado.parquet
      rado attack report patients.rado.parquet --table patients.csv --label readmitted --seed 7
    """
    from radoboost.lab.attacks.attack_suite import AttackInputs
    from radoboost.lab.attacks.attack_suite import write_attack_report as write
    from radoboost.release.release import load
    from radoboost.release.statement_text import WRONG

    place = chosen_output(
        output, default_output_path(str(release), "attacks.html"), [str(release), *(table or [])], force
    )
    if table or label:
        loaded, table, label = _release_with_table(release, table, label)
    else:
        loaded = load(release)
    inputs = AttackInputs(loaded, str(release), table, label, seed, rows, row)
    with show_progress("attacks") as bar:
        made = write(inputs, place, seconds=seconds, bar=bar)
    if as_json:
        verdict = {"tone": made.verdict.tone, "headline": made.verdict.headline, "more": made.verdict.sentences}
        document = {"path": str(place), "verdict": verdict, "attacks": made.to_dict()}
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return
    print(textwrap.fill(f"{made.verdict.headline}.", 80))
    for sentence in made.verdict.sentences:
        print(textwrap.fill(sentence, 80, initial_indent="  ", subsequent_indent="  "))
    for group in (group for group in made.groups if group.attempts):
        print(f"\n{group.title}")
        for attempt in group.attempts:
            print(
                textwrap.fill(f"{attempt.name}: {attempt.sentence}", 80, initial_indent="  ", subsequent_indent="    ")
            )
    say_on_stderr(f"\nwrote {place}")
    if made.verdict.tone == WRONG:
        raise ReleaseError(made.verdict.headline[0].lower() + made.verdict.headline[1:])


def _release_with_table(release: Path, table: list[str] | None, label: str | None) -> tuple["Release", list[str], str]:
    """A release, the table to compare it with, and the table's column of classes."""
    from radoboost.lab.attacks.adversary_knowledge import label_column_of_table
    from radoboost.release.release import load

    if not table:
        raise ArgumentError("this attack compares a release with a table; name one with --table")
    loaded = load(release)
    label = label or label_column_of_table(loaded, table)
    return loaded, table, label


def _parse_attack_numbers(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--values must be numbers with commas between them; it is {text!r}") from None


def _row_ranges_text(places: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1][1:] = [place]
        else:
            runs.append([place])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _print_attack_result(result: Any, assumes: str, as_json: bool, **more: Any) -> None:
    sentence = result.sentence()
    if as_json:
        print(
            json.dumps(
                {**more, "assumes": assumes, **result.to_dict(), "sentence": sentence}, indent=2, ensure_ascii=False
            )
        )
        return
    for word, text in (("assumed: ", assumes), ("found:   ", sentence)):
        print(textwrap.fill(text, 100, initial_indent=word, subsequent_indent=" " * len(word)))


def _check_optional_output(output: Path | None, sources: list[str], force: bool) -> None:
    """Refuse a file that must not be written over, where one is asked for."""
    if output is not None:
        check_output_path(output, sources)
        refuse_overwrite(output, None, force)


def _write_attack_csv(place: Path, table: Any) -> None:
    import pyarrow as pa
    import pyarrow.csv

    from radoboost.release.release import atomic_write

    with atomic_write(place) as draft:
        pyarrow.csv.write_csv(pa.table(table) if isinstance(table, dict) else table, draft)
    say_on_stderr(f"rado: wrote {place}")


# ---- rado reproduce: the paper's experiments.


def _complete_experiment(incomplete: str) -> list[str]:
    from radoboost.lab.paper import EXPERIMENTS

    return [name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete)]


def _complete_domains(incomplete: str) -> list[str]:
    from radoboost.lab.paper.domains import SOURCES

    *chosen, last = incomplete.split(",")
    return [",".join([*chosen, name]) for name in SOURCES if name.startswith(last) and name not in chosen]


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            autocompletion=_complete_experiment,
            help="table1, table3, feature-privacy, gaussian, theory, or all.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="RADO_DATA", help="The folder that holds the domains."),
    ] = None,
    domains: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C", autocompletion=_complete_domains, help="Only these domains; all in the folder by default."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer folds and repeats, in about a minute.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of folds, rados and draws.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="How many processes; all cores by default.")] = None,
    output: Annotated[Path, output_option("The folder of the results.")] = Path("rado-reproduce"),
    as_json: JsonFlag = False,
) -> None:
    """Run an experiment of the paper, and compare what comes out with what the paper says.

    Results go to OUT as JSON, CSV, PNG and SVG, and as one page, report.html. Finished pieces are kept there: after an
    interruption the same command goes on from them. Domains are CSV files with a header and a last column of -1 and 1,
    or the UCI archive's Twitter.data, SUSY.csv.gz and HIGGS.csv.gz; missing ones are named.

    \b
    Examples:
      rado reproduce table1 --data domains
      rado reproduce table3 --domains banknote,ionosphere --quick
      rado reproduce all --data domains --jobs 4 -o results
    """
    from radoboost.lab.paper import reproduce as run
    from radoboost.report.terminal import findings_for_terminal as as_text

    names = tuple(name for name in domains.split(",") if name) if domains is not None else None
    try:
        documents = run(
            what,
            data=data,
            domains=names,
            quick=quick,
            seed=seed,
            jobs=jobs,
            output=output,
            progress=True,
            say=say_on_stderr,
        )
    except KeyboardInterrupt:
        say_on_stderr("rado: interrupted; finished pieces are kept, and the same command goes on from them")
        raise typer.Exit(130) from None
    if as_json:
        kept = [document.to_dict() for document in documents]
        print(json.dumps({"path": str(output), "experiments": kept}, indent=2, ensure_ascii=False))
        return
    print("\n\n".join(as_text(document.findings) for document in documents))
    say_on_stderr(f"\nLook at {output / 'report.html'}")
