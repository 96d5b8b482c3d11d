"""What all commands share: their options, each declared once; and where results, failures and files go."""

import dataclasses
import functools
import inspect
import json
import os
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, ParamSpec, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from radoboost.errors import ArgumentError, OutputError, PersonWarning, RadoError, reason, what_is_spent

P = ParamSpec("P")
WHAT_THE_TABLE_IS, WHAT_IS_RELEASED, HOW = "What the table is", "What is released", "How"


# ---- Help: options in panels, and commands in groups, with whole sentences.


class Command(TyperCommand):
    """A command whose help has its options by their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[Any]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                other = "Arguments" if param.param_type_name == "argument" else "Options"
                panels.setdefault(getattr(param, "rich_help_panel", None) or other, []).append(record)
        for name, records in panels.items():
            with formatter.section(name):
                formatter.write_dl(records)


class CommandGroup(TyperGroup):
    """Commands by their groups; what each is for is not cut off."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                sentence = command.get_short_help_str(limit=200)
                groups.setdefault(panel if isinstance(panel, str) else "Commands", []).append((name, sentence))
        for title in sorted(groups, key=lambda title: (*GROUPS, title).index(title)):
            with formatter.section(title):
                formatter.write_dl(groups[title])


GROUPS = ("Hold a table", "Judge a release", "Learn from it", "Together with others", "More")


def command_group(name: str, **more: Any) -> typer.Typer:
    """A group of commands, in plain text."""
    return typer.Typer(name=name, cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None, **more)


def add_command(
    app: typer.Typer, name: str | None = None, group: str | None = None
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a function a command: its failures are one line, and its help has panels."""

    def add(function: Callable[P, None]) -> Callable[P, None]:
        called = name or function.__name__.replace("_", "-")
        app.command(called, cls=Command, rich_help_panel=group)(failures_in_one_line(function))
        return function

    return add


# ---- Options, each declared once.


def complete_from_words(*words: str) -> Callable[[str], list[str]]:
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def option(names: str, help: str, *, panel: str | None = None, complete: Any = None, **more: Any) -> Any:
    """An option by its names and what it takes, such as "-n, --n-rados N"."""
    words = names.replace(",", " ", names.count(", -")).split()
    flags = [word for word in words if word.startswith("-")]
    metavar = " ".join(word for word in words if word not in flags) or None
    return typer.Option(*flags, metavar=metavar, help=help, rich_help_panel=panel, autocompletion=complete, **more)


of_table = functools.partial(option, panel=WHAT_THE_TABLE_IS)
of_release = functools.partial(option, panel=WHAT_IS_RELEASED)
how = functools.partial(option, panel=HOW)


def argument(metavar: str, help: str, *, complete: Any = None) -> Any:
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete)


def output_option(help: str, metavar: str = "OUT") -> Any:
    """The option -o of a command that writes something."""
    return how(f"-o, --output {metavar}", help)


def complete_mechanism(incomplete: str) -> list[str]:
    from radoboost.holder.mechanisms import MECHANISMS

    return [name for name in MECHANISMS if name.startswith(incomplete)]


def complete_columns(incomplete: str) -> list[str]:
    """Words for the columns of a release that begin with `incomplete`."""
    from radoboost.holder.feature_maps import WORDS

    return [word for word in WORDS if word.startswith(incomplete)]


def complete_setting(context: typer.Context, incomplete: str) -> list[str]:
    """Settings of the mechanism that is chosen, or of a table, whose names begin with `incomplete`."""
    name = context.params.get("mechanism") or ("plain" if context.params.get("epsilon") is None else "moments")
    try:
        known = [*parameters_of_mechanism(name), *parameters_of_table()]
    except ArgumentError:
        return []
    return [f"{setting}=" for setting in known if setting.startswith(incomplete)]


TABLE_HELP = (
    "CSV, TSV (also .gz), Parquet or Arrow files, a pattern in quotes, a folder, also in a store (s3://BUCKET/PATH); "
    "'duckdb:FILE?SELECT ...' or 'postgresql://HOST/DB?SELECT ...'; or - for standard input."
)
TableArgument = Annotated[list[str], argument("TABLE", TABLE_HELP)]
LabelOption = Annotated[str | None, of_table("-l, --label COL", "The column of classes; a schema may name it.")]
SchemaOption = Annotated[
    Path | None,
    of_table(
        "--schema FILE|private",
        "What the columns mean: a file of rado schema, or a release or model that has one. The word private lets "
        "moments find the bounds itself.",
    ),
]
DropOption = Annotated[list[str] | None, of_table("--drop COL", "Leave this column out; repeat it.")]
ClassesOption = Annotated[
    list[str] | None,
    of_table(
        "--classes NAMES",
        "The classes, such as no,yes (the second is positive) or low,middle,high; a name with a comma: repeat it.",
    ),
]
PersonOption = Annotated[
    str | None,
    of_table(
        "--person COL:K", "Protect persons: COL says whose row it is, and at most K rows of each person are used."
    ),
]
EpsilonOption = Annotated[
    float | None, of_release("--epsilon", "The privacy loss to allow. With inf, moments are exact and promise nothing.")
]
DeltaOption = Annotated[float | None, of_release("--delta", "The delta that goes with it; 1e-6 by default.")]
MechanismOption = Annotated[
    str | None,
    of_release(
        "--mechanism NAME",
        "What protects the release: moments (the default with --epsilon), noisy-rados, noisy-examples, "
        "feature-band, or plain (the default without).",
        complete=complete_mechanism,
    ),
]
SetOption = Annotated[
    list[str] | None,
    of_release(
        "--set NAME=VALUE",
        "A setting of the mechanism, such as relation=replace, or of the table, such as rows=5000; repeat it. "
        "--set help lists all.",
        complete=complete_setting,
    ),
]
ColumnsOption = Annotated[
    str,
    of_release(
        "--columns WORD",
        "The columns of the release: linear (the table's own), signed-log, or degree-2 to degree-8 (products). "
        "auto: as the schema says, else by the mechanism.",
        complete=complete_columns,
    ),
]
RadosOption = Annotated[int | None, of_release("-n, --n-rados", "How many rados; 1000 by default, none with moments.")]
SignaturesOption = Annotated[
    str | None,
    of_release(
        "--signatures all|fixed:S",
        "Which rows a rado sums: any (all), or always S of them, or a fraction S such as fixed:0.5.",
        complete=complete_from_words("all", "fixed:"),
    ),
]
EngineOption = Annotated[
    str,
    how(
        "--engine",
        "kernel, reference or cuda (a GPU): the same bits.",
        complete=complete_from_words("auto", "kernel", "reference", "cuda"),
    ),
]
ThreadsOption = Annotated[int | None, how("--threads", "How many threads; all cores by default.")]
ClusterOption = Annotated[
    str | None,
    how(
        "--cluster URL",
        "Let a cluster that can read the files do it, to the same bits: tls://HOST:8786 (Dask), "
        "spark://HOST:7077 or sc://HOST:15002 (Spark).",
        complete=complete_from_words("tls://", "spark://", "sc://", "tcp://127.0.0.1:8786"),
    ),
]
TrustNetworkFlag = Annotated[
    bool, how("--trust-network", "Use a network without encryption, where nobody else can listen.")
]
CountsOption = Annotated[
    Path | None, how("--counts FILE", "Where exact counts go, for you alone; the terminal by default.")
]
QuietFlag = Annotated[bool, how("-q, --quiet", "No progress and no counts.")]
ForceFlag = Annotated[bool, how("--force", "Write over a file that exists.")]
JsonFlag = Annotated[bool, how("--json", "Print the result as JSON.")]


# ---- What the words of options stand for.


def split_at_last_colon(text: str) -> tuple[str, str]:
    """COL:K, FILE:TABLE: what stands before the last colon, and behind it."""
    before, mark, after = text.rpartition(":")
    return (before, after) if mark else (text, "")


def chosen_classes(given: list[str] | None) -> tuple[str, ...] | None:
    """The classes: names with commas between them, or one name for each time that the option is given."""
    if not given:
        return None
    names = [name.strip() for name in given[0].split(",")] if len(given) == 1 else given
    if len(names) < 2:
        raise ArgumentError(f"--classes {given[0]} is one class only; give all, with commas: --classes NEG,POS")
    return tuple(names)


def classes_option(classes: Sequence[str] | None) -> list[str]:
    """The words that declare classes: in one with commas, unless a name would be read as two or without its spaces."""
    if not classes:
        return []
    whole = all(name == name.strip() and "," not in name for name in classes)
    return ["--classes", ",".join(classes)] if whole else [word for name in classes for word in ("--classes", name)]


def chosen_person(given: str | None) -> tuple[str, int] | None:
    """The column of persons, and how many rows of each contribute at most."""
    if given is None:
        return None
    column, count = split_at_last_colon(given)
    if not (column and count.isascii() and count.isdecimal()):
        raise ArgumentError(
            f"--person takes a column and the most rows of a person that are used: --person {column or given}:K; more "
            "rows take more noise"
        )
    return column, int(count)


def chosen_signatures(given: str | None) -> Any:
    """The signature set that --signatures asks for; None for all signatures."""
    from radoboost import FixedSupport

    kind, _, size = (given or "all").partition(":")
    if kind == "all" and not size:
        return None
    with suppress(ValueError):
        if kind == "fixed":
            return FixedSupport(int(size) if size.isdecimal() else float(size))
    raise ArgumentError(f"--signatures takes all, fixed:100 (rows) or fixed:0.5 (of all rows); it is {given!r}")


def chosen_table(table: list[str]) -> Any:
    """What the words TABLE stand for: paths, a query, or standard input."""
    from radoboost.tables.databases import query_of_address
    from radoboost.tables.streams import StandardInput
    from radoboost.tables.urls import is_database_url

    if table == ["-"]:
        return StandardInput()
    addresses = [word for word in table if is_database_url(word)]
    if len(table) > 1 and (addresses or "-" in table):
        raise ArgumentError("an address, or - for standard input, is a whole table; give it alone")
    return query_of_address(table[0]) if addresses else list(table)


# ---- Settings: NAME=VALUE, typed by the parameters of what they are for.


def parameters_of(source: Callable[..., Any], *names: str) -> dict[str, inspect.Parameter]:
    """The parameters of a dataclass or a function that a person can set: all with a default, or those in `names`."""
    known = inspect.signature(source).parameters
    return {
        name: known[name] for name in (names or known) if names or known[name].default is not inspect.Parameter.empty
    }


def chosen_settings(words: Sequence[str] | None, known: Mapping[str, inspect.Parameter], whose: str) -> dict[str, Any]:
    """The values of --set by their names; the word help lists those there are, and ends the command."""
    values = {}
    for word in words or ():
        name, mark, text = word.partition("=")
        if word == "help":
            print("\n".join([f"settings of {whose}:", *map(_setting_text, known.values())]))
            raise typer.Exit
        if not mark:
            raise ArgumentError(f"--set takes NAME=VALUE; it is {word!r} (--set help lists the names)")
        if name not in known:
            raise ArgumentError(f"{whose} has no setting {name!r}; its settings are: {', '.join(known)}")
        values[name] = _typed_setting(name, text, known[name].annotation)
    return values


_SAID = {
    bool: "yes or no",
    int: "a whole number",
    float: "a number",
    str: "a word",
    Any: "a word or number",
    type(None): "none",
}
_LISTS = (tuple, list, Sequence)


def _kinds_of_setting(annotation: Any) -> tuple[list[Any], str]:
    """The types that a setting may have, and what a person would call them; others have no words."""
    kinds = list(get_args(annotation)) if get_origin(annotation) in (Union, types.UnionType) else [annotation]
    said = [_SAID.get(kind, "values with commas between them") for kind in kinds if kind in _SAID or _is_list(kind)]
    return kinds, " or ".join(said)


def _is_list(kind: Any) -> bool:
    return get_origin(kind) in _LISTS


def _typed_setting(name: str, text: str, annotation: Any) -> Any:
    kinds, said = _kinds_of_setting(annotation)
    for kind in sorted(kinds, key=lambda kind: (kind is str) - (kind is type(None))):
        if kind is bool and text.lower() in ("yes", "no", "true", "false"):
            return text.lower() in ("yes", "true")
        if kind is type(None) and text.lower() == "none":
            return None
        with suppress(ValueError):
            if kind is Any:
                return text if not text.lstrip("-").isdecimal() else int(text)
            if kind in (int, float):
                return kind(text)
            if _is_list(kind):
                parts = [part.strip() for part in text.split(",") if part.strip()]
                inner = next(iter(get_args(kind)), str)
                return tuple(inner(part) for part in parts)
        if kind is str:
            return "\t" if (name, text) in (("separator", "tab"), ("separator", "\\t")) else text
    raise ArgumentError(f"{name} takes {said}; --set {name}={text} does not")


def _setting_text(parameter: inspect.Parameter) -> str:
    (_, said), default = _kinds_of_setting(parameter.annotation), parameter.default
    if default is None or isinstance(default, bool):
        default = {True: "yes", False: "no", None: "none"}[default]
    return f"  {parameter.name:16}{said}{f' ({default})' if isinstance(default, str | int | float) else ''}"


def chosen_mechanism_name(name: str | None, epsilon: float | None, words: Sequence[str] | None) -> str:
    """The name of the mechanism that options ask for, said or not."""
    from radoboost.holder.mechanisms import MECHANISMS

    if name is None:
        noisy = any(word.startswith("noise_std=") for word in words or ())
        name = "noisy-rados" if noisy else "plain" if epsilon is None else "moments"
    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    return name


# ---- Mechanisms and declarations, from words.

_SAID_APART = ("epsilon", "delta")  # by options of their own
_OF_TABLE = (
    "rows", "weights", "gaps", "unlabelled", "shared", "separator", "decimal", "thousands", "records", "corrected"
)  # fmt: skip


def parameters_of_mechanism(name: str) -> dict[str, inspect.Parameter]:
    """The settings that a mechanism has."""
    from radoboost.holder.mechanisms import MECHANISMS

    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    known = inspect.signature(MECHANISMS[name]).parameters
    return {key: parameter for key, parameter in known.items() if key not in _SAID_APART}


def parameters_of_table() -> dict[str, inspect.Parameter]:
    """The settings that a schema has beside its columns."""
    from radoboost.tables.schema import Schema

    return parameters_of(Schema, *_OF_TABLE)


def chosen_mechanism(name: str, values: Mapping[str, Any]) -> Any:
    """A mechanism with these settings."""
    from radoboost.holder.mechanisms import MECHANISMS

    given = {key: value for key, value in values.items() if value is not None or key not in _SAID_APART}
    kept = kept_settings(name, given)
    if left := given.keys() - kept:
        key = min(left)
        raise ArgumentError(f"the mechanism {name} has no {key}; leave --{key} out, or choose another --mechanism")
    for field in dataclasses.fields(MECHANISMS[name]):  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING and field.name not in given:
            option = "--epsilon" if field.name == "epsilon" else f"--set {field.name}=COL"
            raise ArgumentError(f"the mechanism {name} needs {option}; add it{field.metadata.get('otherwise', '')}")
    return MECHANISMS[name](**given)


def kept_settings(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some values that a mechanism has fields for."""
    from radoboost.holder.mechanisms import MECHANISMS

    known = inspect.signature(MECHANISMS[name]).parameters
    return {key: value for key, value in values.items() if key in known}


def table_entries(
    settings: Mapping[str, Any], drop: list[str] | None = None, person: str | None = None
) -> dict[str, Any]:
    """The entries of a schema that options say."""
    from radoboost.tables.person_ids import Person

    entries, chosen = dict(settings), chosen_person(person)
    entries |= {} if chosen is None else {"person": Person(*chosen)}
    return entries | ({"drop": tuple(drop)} if drop else {})


def declared_schema(schema: Path | None, entries: Mapping[str, Any]) -> Any:
    """The schema of a file, or none yet, with what options say of the table."""
    from radoboost.tables.schema import Schema

    declared = Schema.of(None if schema is None else str(schema))
    drop = dict.fromkeys((*declared.drop, *entries.get("drop", ())))
    return dataclasses.replace(declared, **{**entries, "drop": tuple(drop)})


def declaration_and_mechanism(
    mechanism: str | None,
    epsilon: float | None,
    delta: float | None,
    settings: Sequence[str] | None,
    schema: Path | None = None,
    drop: list[str] | None = None,
    person: str | None = None,
) -> tuple[Any, Any]:
    """A schema and a mechanism, by the options that choose them: --set has the settings of both."""
    name = chosen_mechanism_name(mechanism, epsilon, settings)
    of_table = parameters_of_table()
    values = chosen_settings(settings, {**parameters_of_mechanism(name), **of_table}, f"the mechanism {name}")
    entries = table_entries({key: values.pop(key) for key in of_table if key in values}, drop, person)
    return declared_schema(schema, entries), chosen_mechanism(name, {"epsilon": epsilon, "delta": delta, **values})


def cost_of_mechanism(
    name: str, epsilon: float | None, delta: float | None, settings: Sequence[str] | None, **table: Any
) -> dict[str, Any]:
    """What a mechanism costs, by the size of a table alone."""
    from radoboost.holder.mechanisms.statements import DEFAULT_DELTA
    from radoboost.holder.privacy_cost import privacy_cost_of_mechanism

    values = chosen_settings(settings, parameters_of_mechanism(name), f"the mechanism {name}")
    noise, clip = values.pop("noise_std", None), values.pop("clip", 1.0)
    known = {"unit": "record", "relation": "add", "sharpen": True}
    if strange := values.keys() - known:
        raise ArgumentError(f"no account without a schema depends on {min(strange)}; leave --set {min(strange)} out")
    values = {key: default if values.get(key) is None else values[key] for key, default in known.items()}
    noise = None if noise is None else noise / clip
    delta = DEFAULT_DELTA if delta is None else delta
    return privacy_cost_of_mechanism(name, epsilon=epsilon, noise=noise, delta=delta, **values, **table)


SHARE_ENDING = ".share"


def are_share_files(table: list[str]) -> bool:
    return any(word.endswith(SHARE_ENDING) for word in table)


# ---- Tables, results and failures.

_ENDINGS = (".gz", ".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".rado", ".duckdb", ".db")


def shown_table_name(table: list[str]) -> str:
    from radoboost.tables.urls import mask_passwords

    return mask_passwords(table[0])


@contextmanager
def keep_warnings_for_later(quiet: bool = False) -> Iterator[list[Any]]:
    """Keep warnings for later; but whose rows they are is said at once, before anything is spent."""
    notices: list[Any] = []

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if not issubclass(category, PersonWarning):
            notices.append(message)
        elif not quiet:
            say_on_stderr(f"rado: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield notices


def say_warnings(notices: list[Any]) -> None:
    for notice in notices:
        for line in getattr(notice, "lines", (notice,)):
            say_on_stderr(f"rado: {' '.join(str(line).split())}")


def say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as service managers, containers and shutdowns send it: it ends a command as Ctrl-C does."""


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end what runs here by an exception, where nobody else has a use for it."""
    alone = threading.current_thread() is threading.main_thread()
    if not alone or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def failures_in_one_line(command: Callable[P, None]) -> Callable[P, None]:
    """Expected failures end a command with one line and exit code 1, Ctrl-C with 130, and SIGTERM by that signal."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _sigterm_as_interrupt():
                command(*args, **kwargs)
                sys.stdout.flush()
        except RadoError as error:
            say_on_stderr(f"rado: {' '.join(str(error).split())}")
            raise typer.Exit(1) from None
        except MemoryError as error:
            say_on_stderr(_spent_failure_text("there is not enough memory for this; ask for less, or free some", error))
            raise typer.Exit(1) from None
        except OSError as error:
            # Nobody reads stdout any more: what is left in its buffer must not be tried again at exit.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            # Errors of libraries have no number, and those of files have a name.
            what = "cannot print the result: " if error.errno is not None and error.filename is None else ""
            if not isinstance(error, BrokenPipeError) or what_is_spent(error):
                say_on_stderr(_spent_failure_text(f"{what}{reason(error)}", error))
            raise typer.Exit(1) from None
        except KeyboardInterrupt as error:
            what = str(error) or "no unfinished file is left"
            say_on_stderr(_spent_failure_text(f"interrupted; {what}", error))
            if isinstance(error, Terminated):
                signal.raise_signal(signal.SIGTERM)  # for whoever sent it, to see that it was that
            raise typer.Exit(130) from None

    return wrapped


def _spent_failure_text(line: str, error: BaseException) -> str:
    return f"rado: {'; '.join(filter(None, [line, what_is_spent(error)]))}"


def print_release(release: Any, path: Path, as_json: bool, heading: str, whole: bool = False) -> None:
    """Print what a release is, what it promises and what to do next; the `whole` statement; or all as JSON."""
    from radoboost.report.describe import describe_release, summarize_release

    if as_json:
        document = {
            "path": str(path),
            **release.to_dict(),
            **_release_classes_as_json(release),
            **_statement_figures_as_json(release.statement),
        }
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(f"{heading}\n{describe_release(release) if whole else summarize_release(release, str(path))}")


def print_model(
    model: Any, path: Path, as_json: bool, heading: str, more: Mapping[str, Any] | None = None, whole: bool = False
) -> None:
    """Print what a model is, with the `whole` statement or its promise alone; or all as JSON, with `more`."""
    from radoboost.report.describe import describe_model, summarize_model

    if as_json:
        document = {"path": str(path), **model.to_dict(), **_statement_figures_as_json(model.statement), **(more or {})}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(f"{heading}\n{describe_model(model) if whole else summarize_model(model, str(path))}")


def _release_classes_as_json(release: Any) -> dict[str, Any]:
    """What a release tells of each of more than two classes."""
    from radoboost.release.class_summary import facts_of_classes

    return {} if release.n_classes == 2 else {"by_class": [facts.to_dict() for facts in facts_of_classes(release)]}


def _statement_figures_as_json(statement: Any) -> dict[str, Any]:
    """What follows from a statement and is not in the file: mu, rho, and what groups pay; where there is a promise."""
    from radoboost.release.statement_text import figures_of_statement

    figures = {} if statement is None else figures_of_statement(statement)
    return {"figures": figures} if figures else {}


def check_trust_network_option(cluster: str | None, trust_network: bool) -> None:
    if trust_network and cluster is None:
        raise ArgumentError("--trust-network is about the network of a cluster; name that with --cluster, or leave it")


def default_output_path(source: str, ending: str) -> Path:
    """STEM.ending, in the working directory; the stem of an address is that of the database, or of the file there.

    A pattern is called as the folder that it begins in, and one that begins nowhere as the working directory.
    """
    from radoboost.tables.urls import mask_passwords

    name = _stem_of_table_name(source)
    while name.lower().endswith(_ENDINGS):
        name = name[: name.rindex(".")]
    if name in ("", ".."):
        raise ArgumentError(f"cannot name the result after {mask_passwords(source)!r}; say with -o where it should go")
    return Path(f"{name}.{ending}")


def _stem_of_table_name(source: str) -> str:
    """What a table is called: its file, folder or database, or the folder before the first wildcard."""
    from radoboost.tables.urls import StoreAddress, url_kind, url_stem

    kind, parts = url_kind(source), Path(source).parts
    if source == "-" or kind == "database":
        return "stdin" if source == "-" else url_stem(source)
    if kind == "store":
        address = StoreAddress.of(source)
        parts = (address.host, *address.path.split("/"))
    wild = next((k for k, part in enumerate(parts) if any(c in part for c in "*?[")), None)
    if wild is None or os.path.exists(source):
        return Path(source).name if kind is None else url_stem(source)
    return Path(*parts[:wild]).resolve().name


def check_output_path(place: Path, sources: list[str], option: str = "-o") -> None:
    """Refuse a place that cannot be written to before the work, not after; `option` is what named it."""
    try:
        _check_output_place(place, sources, option)
    except (OSError, ValueError) as error:
        if isinstance(error, RadoError):
            raise
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise OutputError(f"cannot write {str(place)[:80]}: {why}; choose another place") from None


def chosen_output(output: Path | None, default: Path, sources: list[str], force: bool) -> Path:
    """Where a result goes: refused where it cannot be written, or would write over what it must not."""
    from radoboost.outputs import refuse_overwrite

    place = output or default
    check_output_path(place, sources)
    refuse_overwrite(place, default, force)
    return place


def check_page_path(
    page: Path,
    sources: list[str],
    option: str,
    beside: Path | None = None,
    force: bool = False,
    default: Path | None = None,
) -> None:
    """As `check_output_path` and `refuse_overwrite`, for a page of HTML; `beside` is written by the same command."""
    from radoboost.outputs import refuse_overwrite

    if page.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"cannot write {page}: a page needs a name that ends in .html; choose another with {option}")
    check_output_path(page, sources, option)
    refuse_overwrite(page, default, force, option)
    if beside is not None and os.path.realpath(page) == os.path.realpath(beside):
        raise OutputError(f"cannot write {page}: the model goes there; choose another name with {option}")


def _check_output_place(place: Path, sources: list[str], option: str) -> None:
    from radoboost.tables.paths import expand_paths
    from radoboost.tables.urls import files_of_database_url, refuse_store_as_output

    parent = place.parent
    refuse_store_as_output(place)
    if len(os.fsencode(place.name)) > 255:
        raise OutputError(f"cannot write {place.name[:40]}...: the name is too long; choose another with {option}")
    if not parent.is_dir():
        raise OutputError(f"cannot write {place}: there is no directory {parent}; make it or choose another")
    if place.is_dir():
        raise OutputError(f"cannot write {place}: it is a directory; name a file")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"cannot write {place}: no permission to write in {parent}; choose another place")
    files = [file for source in sources if source != "-" for file in files_of_database_url(source)]
    if place.exists() and any(place.samefile(source) for source in expand_paths(files)):
        raise OutputError(f"cannot write {place}: it is one of the files to read; choose another name with {option}")
