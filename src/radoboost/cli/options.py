"""What all commands share: where results, failures and files go."""

import dataclasses
import functools
import json
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

from radoboost.errors import ArgumentError, OutputError, PersonWarning, RadoError, reason, what_is_spent

P = ParamSpec("P")
TABLE_HELP = (
    "CSV, TSV (also .gz), Parquet or Arrow files, a pattern in quotes, a folder, all of them also in a store such as "
    "s3://BUCKET/PATH; - for standard input, or the address of a database: duckdb:FILE or postgresql://..."
)
TableArgument = Annotated[list[str], typer.Argument(metavar="TABLE", help=TABLE_HELP)]


def output_option(help: str, metavar: str = "OUT") -> Any:
    """The option -o of a command that writes something."""
    return typer.Option("-o", "--output", metavar=metavar, help=help)


JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ThreadsOption = Annotated[int | None, typer.Option(help="How many threads; all cores by default.")]
SharpenOption = Annotated[
    bool | None, typer.Option("--sharpen/--no-sharpen", help="Whether moments adds mean rados; yes by default.")
]
RelationOption = Annotated[
    str | None,
    typer.Option(
        help="What neighbours are, for moments: add, one record added or removed (the default); or replace, one "
        "record replaced, where the number of rows is public."
    ),
]
UnitOption = Annotated[
    str | None,
    typer.Option(help="What is protected: record (the default; say it if each row is another person) or label."),
]
LabelOption = Annotated[
    str | None,
    typer.Option("--label", "-l", metavar="COL", help="The column that holds the classes; a schema may name it."),
]


ClassesOption = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="NEG POS", help="The label values that mean -1 and +1; of more than two, use --class."),
]
ClassOption = Annotated[
    list[str] | None,
    typer.Option(
        "--class", metavar="NAME", help="A label value that is a class; repeat it for each, in order, of any number."
    ),
]


FeatureOption = Annotated[
    list[str] | None, typer.Option(metavar="COL", help="Use this column; repeat for more. All by default.")
]
DropOption = Annotated[list[str] | None, typer.Option(metavar="COL", help="Leave this column out; repeat for more.")]
InterceptFlag = Annotated[bool, typer.Option(help="Add the constant feature.")]


def chosen_classes(
    classes: tuple[str, str] | None, names: list[str] | None, table: Sequence[str] = ()
) -> tuple[str, ...] | None:
    """The classes by --classes or by --class, one of which will do; None where neither is given.

    A third class after --classes is taken for a word of `table`, so one that is no file is pointed out.
    """
    if classes is not None and names:
        raise ArgumentError("give --classes NEG POS, or --class NAME for each class, not both")
    if classes is not None and len(table) > 1:
        stray = [word for word in table if not _word_may_be_table(word)]
        if stray and len(stray) < len(table):
            each = " ".join(f"--class {shlex.quote(name)}" for name in (*classes, *stray))
            raise ArgumentError(f"--classes takes two classes, and there is no file {stray[0]!r}; of more give: {each}")
    if names is not None and len(names) == 1:
        raise ArgumentError(f"--class {names[0]} is one class only; repeat --class for each of them")
    return tuple(names) if names else classes


def _word_may_be_table(word: str) -> bool:
    from radoboost.tables.urls import url_kind

    return word == "-" or url_kind(word) is not None or any(mark in word for mark in "*?[/.") or os.path.exists(word)


def complete_from_words(*words: str) -> Callable[[str], list[str]]:
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


PersonOption = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="The column that says whose row it is: the promise is then about persons. Needs --max-rows.",
    ),
]
MaxRowsOption = Annotated[
    int | None,
    typer.Option(metavar="K", help="How many rows of each person contribute at most; noise grows with it."),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="A column of whole numbers that says how often each row counts; not with a promise about records.",
    ),
]
EngineOption = Annotated[
    str,
    typer.Option(
        autocompletion=complete_from_words("auto", "kernel", "reference", "cuda"),
        help="auto, kernel, reference or cuda (a GPU); all give the same bits.",
    ),
]
MissingOption = Annotated[
    str,
    typer.Option(
        metavar="fill|error|drop",
        autocompletion=complete_from_words("fill", "error", "drop"),
        help="Fill missing values, refuse them, or leave such rows out; a promise about records always fills.",
    ),
]
UnlabelledOption = Annotated[
    str,
    typer.Option(
        metavar="error|drop",
        autocompletion=complete_from_words("error", "drop"),
        help="Refuse rows without a label, or leave them out; to a promise about records they never give anything.",
    ),
]


def separator_option(text: str) -> str:
    """A separator as people can type it on a command line: a character, or the word tab."""
    return {"tab": "\t", "\\t": "\t"}.get(text, text)


SeparatorOption = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="S",
        parser=separator_option,
        autocompletion=complete_from_words(";", "tab", "|", ","),
        help="What stands between cells of a CSV file, or the word tab; by its header if left out.",
    ),
]
DecimalOption = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        metavar="D",
        autocompletion=complete_from_words(".", ","),
        help="The decimal mark of a CSV file: . or ,",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="URL",
        autocompletion=complete_from_words("tls://", "spark://", "sc://", "tcp://127.0.0.1:8786"),
        help="Let a cluster do it, to the same bits: tls://HOST:8786 (Dask), spark://HOST:7077 or sc://HOST:15002 "
        "(Spark). Its machines must be able to read the files.",
    ),
]
TrustNetworkFlag = Annotated[
    bool,
    typer.Option("--trust-network", help="Use a cluster whose network is not encrypted: nobody else can listen there."),
]
QueryOption = Annotated[
    str | None,
    typer.Option("--query", metavar="SQL", help="What to ask the database at the address TABLE: SELECT ..."),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="csv|parquet|arrow",
        autocompletion=complete_from_words("csv", "parquet", "arrow"),
        help="What standard input is, for the table -; csv by default.",
    ),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="What the columns mean: a file that rado schema wrote, completed; or a release or a model, for the schema "
        "that it carries.",
    ),
]
BoundsOption = Annotated[
    Path | None,
    typer.Option(
        "--bounds",
        metavar="FILE|private",
        help="As --schema; or the word private, which lets the mechanism moments find bounds itself.",
    ),
]
_ENDINGS = (".gz", ".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".rado", ".duckdb", ".db")


def chosen_table(table: list[str], query: str | None, form: str | None) -> Any:
    """What the words TABLE, --query and --format stand for: paths, a query, or standard input."""
    from radoboost.tables.databases import query_of_address
    from radoboost.tables.streams import StandardInput
    from radoboost.tables.urls import is_database_url

    if form is not None and table != ["-"]:
        raise ArgumentError("--format is for standard input alone, the table -; files have it in their names")
    if table == ["-"] and query is None:
        return StandardInput(form or "csv")
    addresses = [word for word in table if is_database_url(word)]
    if len(table) > 1 and (addresses or "-" in table):
        raise ArgumentError("an address, or - for standard input, is a whole table; give it alone")
    if query is not None and not addresses:
        raise ArgumentError(
            "--query is for the address of a database: duckdb:FILE or postgresql://...; files are asked by "
            "\"duckdb:?SELECT ... FROM 'FILE'\", and other databases in Python: rb.query(connection, 'SELECT ...')"
        )
    return query_of_address(table[0], query) if addresses else list(table)


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


def print_release(release: Any, path: Path, as_json: bool, heading: str) -> None:
    from radoboost.report.describe import describe_release

    if as_json:
        document = {
            "path": str(path),
            **release.to_dict(),
            **_release_classes_as_json(release),
            **_statement_figures_as_json(release.statement),
        }
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(f"{heading}\n{describe_release(release)}")


def print_model(model: Any, path: Path, as_json: bool, heading: str, more: Mapping[str, Any] | None = None) -> None:
    """Print what a model is, in words or as JSON, there with whatever `more` there is."""
    from radoboost.report.describe import describe_model

    if as_json:
        document = {"path": str(path), **model.to_dict(), **_statement_figures_as_json(model.statement), **(more or {})}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(f"{heading}\n{describe_model(model)}")


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


# ---- The mechanism and the signature set that the options of a command ask for.


def complete_mechanism(incomplete: str) -> list[str]:
    from radoboost.holder.mechanisms import MECHANISMS

    return [name for name in MECHANISMS if name.startswith(incomplete)]


def complete_columns(incomplete: str) -> list[str]:
    """Words for the columns of a release that begin with `incomplete`."""
    from radoboost.holder.feature_maps import WORDS

    return [word for word in WORDS if word.startswith(incomplete)]


ColumnsOption = Annotated[
    str,
    typer.Option(
        metavar="WORD",
        autocompletion=complete_columns,
        help="Which columns the release has: linear (the table's own), signed-log (skewed ones), or degree-2 to "
        "degree-8: also products of Legendre polynomials of numbers up to that total degree, 600 columns at most. "
        "auto is what the schema says, and else what the mechanism prescribes: linear, and for moments what the "
        "table carries.",
    ),
]


def chosen_mechanism(name: str | None, options: dict[str, Any]) -> Any:
    """The mechanism that the options ask for, refusing options that it does not have."""
    from radoboost.holder.mechanisms import MECHANISMS

    if name is None:
        name = (
            "noisy-rados" if options["noise_std"] is not None else "plain" if options["epsilon"] is None else "moments"
        )
    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    values = {key: value for key, value in options.items() if value is not None}
    fields = {field.name: field for field in dataclasses.fields(MECHANISMS[name])}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            option = "--protect" if key == "feature" else f"--{key.replace('_', '-')}"
            raise ArgumentError(f"the mechanism {name} has no {option}; leave it out, or choose another mechanism")
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in values:
            option = "--protect COL" if key == "feature" else f"--{key}"
            raise ArgumentError(f"the mechanism {name} needs {option}; add it{field.metadata.get('otherwise', '')}")
    return MECHANISMS[name](**values)


def chosen_signatures(support: str | None) -> Any:
    """The signature set that --support asks for; None for all signatures."""
    from radoboost import FixedSupport

    if support is None:
        return None
    try:
        return FixedSupport(int(support) if support.isdecimal() else float(support))
    except ValueError as error:
        if isinstance(error, RadoError):
            raise
        raise ArgumentError(f"--support must be a count, or a fraction such as 0.5; it is {support!r}") from None
