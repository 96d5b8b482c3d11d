"""rado audit: a mechanism attacked; rado attack: what an adversary gets from a release; rado reproduce."""

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radoboost.cli import options
from radoboost.cli.options import JsonFlag, argument, option, output_option, say_on_stderr
from radoboost.errors import ArgumentError, ReleaseError, TableError
from radoboost.outputs import refuse_overwrite
from radoboost.progress import show_progress

if TYPE_CHECKING:
    from radoboost.release.release import Release

_SCENARIO = ("n_rados", "n_examples", "n_classes", "max_rows", "room", "raw", "private_bounds", "columns", "runs")


def audit(
    mechanism: Annotated[
        str | None, option("--mechanism NAME", "moments by default.", complete=options.complete_mechanism)
    ] = None,
    epsilon: Annotated[float, option("--epsilon", "The claim to attack.")] = 1.0,
    delta: options.DeltaOption = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set NAME=VALUE",
            "A setting of the mechanism, such as unit=label; or of the made-up tables and the attack: runs=6000, "
            "columns=degree-2, n_classes=5, raw=yes, private_bounds=yes; with --exact max_rows=4, room=5,1 (of 5 "
            "holders 1 may be lost). Repeat it; --set help lists all.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        option(
            "--exact",
            "Replay the mechanism on many pairs of made-up tables, and say how far any of them are apart: no "
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
      rado audit --exact --epsilon 1 --set columns=degree-4
      rado audit --exact --set max_rows=4
      rado audit --mechanism noisy-examples --epsilon 4 --set runs=6000
    """
    from radoboost.lab.audits.audit import audit as attack
    from radoboost.lab.audits.canaries import Scenario
    from radoboost.lab.audits.exact_audit import audit_score_exactly

    name, scenario = mechanism or "moments", options.parameters_of(Scenario, *_SCENARIO)
    if exact and name == "score":
        tables = options.chosen_settings(settings, {"n_classes": scenario["n_classes"]}, "an audit of scores")
        result: Any = audit_score_exactly(epsilon, 1e-6 if delta is None else delta, **tables, progress=not as_json)
    else:
        known = options.parameters_of_mechanism(name)
        values = options.chosen_settings(settings, {**known, **scenario}, f"an audit of the mechanism {name}")
        tables = {key: values.pop(key) for key in _SCENARIO if key in values}
        if len(tables.get("room") or (0, 0)) != 2:
            raise ArgumentError("room takes how many holders there are, and how many may be lost: --set room=5,1")
        values |= {key: "x" for key in ("feature",) if key in known}  # the canary's column has any name
        values |= options.kept_settings(name, {"epsilon": epsilon, "delta": delta})
        result = attack(options.chosen_mechanism(name, values), **tables, exact=exact, progress=not as_json)
    print(json.dumps(result.to_dict(), indent=2) if as_json else result.text())
    if not result.holds:
        raise ArgumentError(f"the audit shows more than {name} claims: do not use it, and report this")


# ---- rado attack: what an adversary gets from a release.


@dataclass(frozen=True)
class _Given:
    """What the options of `rado attack` say."""

    release: str
    table: list[str] | None
    label: str | None
    seed: int | None
    seconds: float | None
    settings: list[str] | None
    quick: bool
    output: Path | None
    force: bool
    as_json: bool

    def settings_of(self, function: Callable[..., Any], *names: str) -> dict[str, Any]:
        """The values of --set, and the time limit where there is one."""
        values = options.chosen_settings(self.settings, options.parameters_of(function, *names), "this attack")
        return values | ({} if self.seconds is None else {"seconds": self.seconds})

    def signature_seed(self) -> int:
        if self.seed is None:
            raise ArgumentError("this attack knows the seed of the release's signatures; give it with --seed K")
        return self.seed

    def loaded(self) -> "Release":
        from radoboost.release.release import load

        return load(Path(self.release))

    def with_table(self) -> tuple["Release", list[str], str]:
        """The release, the table to compare it with, and the table's column of classes."""
        from radoboost.lab.attacks.adversary_knowledge import label_column_of_table

        if not self.table:
            raise ArgumentError("this attack compares a release with a table; name one with --table")
        loaded = self.loaded()
        return loaded, self.table, self.label or label_column_of_table(loaded, self.table)

    def check_output(self) -> None:
        """Refuse a file that must not be written over, where one is asked for."""
        if self.output is not None:
            options.check_output_path(self.output, [self.release, *(self.table or ())])
            refuse_overwrite(self.output, None, self.force)

    def default_output(self, ending: str) -> Path:
        default = options.default_output_path(self.release, ending)
        return options.chosen_output(self.output, default, [self.release, *(self.table or ())], self.force)


def _reconstruct(given: _Given) -> None:
    from radoboost.lab.attacks import exact_reconstruction as module

    place, seed = given.default_output("reconstructed.csv"), given.signature_seed()
    result = module.reconstruct(given.loaded(), seed, **given.settings_of(module.reconstruct, "rows"))
    records = result.to_table()
    if records.num_rows:
        _write_attack_csv(place, records)
    _print_attack_result(result, module.ASSUMES, given.as_json, path=str(place) if records.num_rows else None)


def _linear(given: _Given) -> None:
    from radoboost.lab.attacks import linear_reconstruction as module

    given.check_output()
    recover = module.recover_release_column
    values = given.settings_of(recover, "rows", "column", "method", "values")
    result = recover(given.loaded(), given.signature_seed(), **values)
    if given.output is not None and result.status == "found":
        _write_attack_csv(given.output, {result.column: result.values})
    _print_attack_result(result, module.ASSUMES, given.as_json)


def _probe(given: _Given) -> None:
    from radoboost.lab.attacks import row_probe as module
    from radoboost.lab.attacks.adversary_knowledge import ranges_text

    loaded, files, label = given.with_table()
    given.check_output()
    values = given.settings_of(module.probe_rows_of_table, "rados")
    if values.get("rados", 1) < 1:
        raise ArgumentError(f"at least one rado must be read; rados is {values['rados']}")
    with show_progress("rados") as bar:
        result = module.probe_rows_of_table(loaded, files, label=label, bar=bar, **values)
    if given.output is not None:
        _write_attack_csv(given.output, {"row": list(range(len(result.rows))), "status": list(result.rows)})
    _print_attack_result(result, module.ASSUMES, given.as_json)
    if not given.as_json and result.members:
        print(f"rows in it, the first of the table being 0: {ranges_text(result.members)}")


def _leak(given: _Given) -> None:
    from radoboost.lab.attacks import feature_band_leak as module

    values = given.settings_of(module.leak_protected_bit, "row")
    if "row" not in values:
        raise ArgumentError("say which row's protected value is unknown, the first being 0: --set row=I")
    loaded, files, label = given.with_table()
    with show_progress("rados") as bar:
        result = module.leak_protected_bit(loaded, files, label=label, bar=bar, **values)
    _print_attack_result(result, module.ASSUMES, given.as_json)


def _membership(given: _Given) -> None:
    from radoboost.lab.attacks.membership import ASSUMES, membership_of_release

    values = given.settings_of(membership_of_release, "runs")
    with show_progress("runs") as bar:
        result = membership_of_release(given.loaded(), bar=bar, **values)
    _print_attack_result(result, f"{ASSUMES} Granted here: {'; '.join(result.granted)}.", given.as_json)
    if result.beats_claim:
        raise ReleaseError(f"the attack gets more than the statement of {given.release} allows; do not trust it")


def _confounder(given: _Given) -> None:
    from radoboost.lab.attacks.adversary_knowledge import own_edge_vectors
    from radoboost.lab.theory.confounder import ASSUMES, confound_columns

    loaded, files, label = given.with_table()
    given.check_output()
    values = given.settings_of(confound_columns, "as_table")
    result = confound_columns(loaded, own_edge_vectors(loaded, files, label=label), **values)
    if result is None:
        raise TableError("no other data set with the same rados was found in the same ball; there may be none")
    if given.output is not None:
        _write_attack_csv(given.output, dict(zip(loaded.feature_names, result.edge_vectors.T, strict=True)))
    _print_attack_result(result, ASSUMES, given.as_json)


def _study(given: _Given) -> None:
    from radoboost.lab.attacks import OUTPUT, study_attack
    from radoboost.report.terminal import findings_for_terminal as as_text

    output = given.output or OUTPUT
    documents = study_attack(
        given.release, quick=given.quick, seed=given.seed or 0, seconds=given.seconds, output=output, progress=True
    )
    if given.as_json:
        kept = [document.to_dict() for document in documents]
        print(json.dumps({"path": str(output), "studies": kept}, indent=2, ensure_ascii=False))
        return
    print("\n\n".join(as_text(document.findings) for document in documents))
    say_on_stderr(f"\nLook at {output / 'report.html'}")


def _report(given: _Given) -> None:
    from radoboost.lab.attacks.attack_suite import AttackInputs, write_attack_report
    from radoboost.release.statement_text import WRONG

    place = given.default_output("attacks.html")
    known = given.table or given.label
    loaded, table, label = given.with_table() if known else (given.loaded(), given.table, given.label)
    values = options.chosen_settings(given.settings, options.parameters_of(AttackInputs, "rows", "row"), "the report")
    inputs = AttackInputs(loaded, given.release, table, label, given.seed, **values)
    with show_progress("attacks") as bar:
        made = write_attack_report(inputs, place, seconds=20.0 if given.seconds is None else given.seconds, bar=bar)
    verdict = made.verdict
    if given.as_json:
        told = {"tone": verdict.tone, "headline": verdict.headline, "more": verdict.sentences}
        document = {"path": str(place), "verdict": told, "attacks": made.to_dict()}
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return
    print(textwrap.fill(f"{verdict.headline}.", 80))
    for sentence in verdict.sentences:
        print(textwrap.fill(sentence, 80, initial_indent="  ", subsequent_indent="  "))
    for group in (group for group in made.groups if group.attempts):
        print(f"\n{group.title}")
        for attempt in group.attempts:
            line = f"{attempt.name}: {attempt.sentence}"
            print(textwrap.fill(line, 80, initial_indent="  ", subsequent_indent="    "))
    say_on_stderr(f"\nwrote {place}")
    if verdict.tone == WRONG:
        raise ReleaseError(verdict.headline[0].lower() + verdict.headline[1:])


_OF_TABLE, _TO_FILE = ("table", "label"), ("output", "force")
_ATTACKS: dict[str, tuple[Callable[[_Given], None], tuple[str, ...]]] = {
    "report": (_report, (*_OF_TABLE, "seed", "settings", *_TO_FILE)),
    "reconstruct": (_reconstruct, ("seed", "settings", *_TO_FILE)),
    "linear": (_linear, ("seed", "settings", *_TO_FILE)),
    "probe": (_probe, (*_OF_TABLE, "settings", *_TO_FILE)),
    "leak": (_leak, (*_OF_TABLE, "settings")),
    "membership": (_membership, ("settings",)),
    "confounder": (_confounder, (*_OF_TABLE, "settings", *_TO_FILE)),
    "study": (_study, ("seed", "quick", "output")),
}
"""Each attack, with the options that it takes beside --seconds and --json."""


def attack(
    what: Annotated[
        str, argument("ATTACK", "Which attack, as above.", complete=options.complete_from_words(*_ATTACKS))
    ],
    release: Annotated[str, argument("RELEASE", "A release file; of study the name of an attack, or all.")] = "",
    table: Annotated[
        list[str] | None, option("-t, --table TABLE", "A table file, or a pattern in quotes; repeat for more.")
    ] = None,
    label: Annotated[
        str | None,
        option("-l, --label COL", "The table's column of classes; needed if several columns are not features."),
    ] = None,
    seed: Annotated[int | None, option("--seed K", "The seed of the release's signatures; of study its own.")] = None,
    seconds: Annotated[float | None, option("--seconds S", "The time limit; of report that of each attack.")] = None,
    settings: Annotated[
        list[str] | None, option("--set NAME=VALUE", "Of the attack, as above; repeat it. --set help lists all.")
    ] = None,
    quick: Annotated[bool, option("--quick", "Of study: fewer and smaller cases, in about a minute.")] = False,
    output: Annotated[
        Path | None, output_option("A page (report), records or values as CSV, or a folder (study).")
    ] = None,
    force: options.ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Attack a release, and say what an adversary gets.

    \b
      report       run every attack that there is on a release, and write one page
      reconstruct  get the records back from the --seed of the signatures
      linear       recover one column from the --seed, in spite of noise:
                   --set column=COL method=lp|least-squares values=A,B
      probe        say which rows of your --table are in somebody else's release: --set rados=64
      leak         read the value that feature-band protects in a row of your --table: --set row=I
      membership   tell whether a record was in the table, knowing all others, and hold that
                   against the statement: --set runs=20000
      confounder   make another data set with the same rados as your --table: --set as_table=yes
      study        measure on made-up tables what an attack gets, and where it stops

    Most releases say how many rows they are from; where one does not, --set rows=M does for report, reconstruct and
    linear. An attack that gets more than the statement allows ends with exit code 1.

    \b
    Examples:
      rado attack report patients.rado.parquet --table patients.csv --label readmitted
      rado attack linear patients.rado.parquet --seed 7 --set column=smokes --set values=-1,1
      rado attack probe theirs.rado.parquet --table clients.csv -o status.csv
      rado attack study leak
    """
    if what not in _ATTACKS:
        raise ArgumentError(f"there is no attack {what!r}; choose one of {', '.join(_ATTACKS)}")
    run, takes = _ATTACKS[what]
    if not release and what != "study":
        raise ArgumentError(f"name a release: rado attack {what} RELEASE")
    given = _Given(release or "all", table, label, seed, seconds, settings, quick, output, force, as_json)
    for name in ("table", "label", "seed", "settings", "quick", "output", "force"):
        if getattr(given, name) not in (None, [], False) and name not in takes:
            option = {"settings": "--set", "output": "-o"}.get(name, f"--{name}")
            raise ArgumentError(f"{what} has no use for {option}; leave it out")
    run(given)


app = attack


def _print_attack_result(result: Any, assumes: str, as_json: bool, **more: Any) -> None:
    sentence = result.sentence()
    if as_json:
        told = {**more, "assumes": assumes, **result.to_dict(), "sentence": sentence}
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return
    for word, text in (("assumed: ", assumes), ("found:   ", sentence)):
        print(textwrap.fill(text, 100, initial_indent=word, subsequent_indent=" " * len(word)))


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
        argument("WHAT", "table1, table3, feature-privacy, gaussian, theory, or all.", complete=_complete_experiment),
    ],
    data: Annotated[Path | None, option("--data DIR", "The folder that holds the domains.", envvar="RADO_DATA")] = None,
    domains: Annotated[
        str | None,
        option("--domains A,B,C", "Only these domains; all in the folder by default.", complete=_complete_domains),
    ] = None,
    quick: Annotated[bool, option("--quick", "Fewer folds and repeats, in about a minute.")] = False,
    seed: Annotated[int, option("--seed", "The seed of folds, rados and draws.")] = 0,
    jobs: Annotated[int | None, option("--jobs", "How many processes; all cores by default.")] = None,
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
            what, data=data, domains=names, quick=quick, seed=seed, jobs=jobs, output=output, progress=True,
            say=say_on_stderr,
        )  # fmt: skip
    except KeyboardInterrupt:
        say_on_stderr("rado: interrupted; finished pieces are kept, and the same command goes on from them")
        raise typer.Exit(130) from None
    if as_json:
        kept = [document.to_dict() for document in documents]
        print(json.dumps({"path": str(output), "experiments": kept}, indent=2, ensure_ascii=False))
        return
    print("\n\n".join(as_text(document.findings) for document in documents))
    say_on_stderr(f"\nLook at {output / 'report.html'}")
