"""What the driver knows of a Spark data frame: its columns, its partitions, and whether they come out alike again.

A partition of a frame may be computed several times: once a pass, and again where a task fails. Its rows are the same
each time only if nothing in the frame's plan moves rows between partitions or depends on chance.
`spark_plan_doubt` reads the plan for that (S1 of docs/proofs/spark.md).
"""

import inspect
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from radoboost.errors import TableError
from radoboost.tables.folders import VERSIONED, refuse_versioned_folders, versioned_table_error
from radoboost.tables.paths import local_file_identity
from radoboost.tables.spark_jobs import collect_spark_frame, is_spark_connect, map_spark_batches, spark_errors

ADVICE = "write it to Parquet and pass the frame of those files"


def arrow_schema(frame: Any, *, withheld: bool = False) -> pa.Schema:
    """The columns of the frame, with the types that its rows have in Arrow; one that has none there is binary."""
    with spark_errors(withheld=withheld):
        fields, zone = list(frame.schema), frame.sparkSession.conf.get("spark.sql.session.timeZone")
        return pa.schema([_arrow_field_of_spark(field, zone) for field in fields])


def _arrow_field_of_spark(field: Any, zone: str) -> pa.Field:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    options = {"timezone": zone} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    try:
        return to_arrow_schema(StructType([field]), **options).field(0)
    except (PySparkTypeError, TypeError):
        return pa.field(field.name, pa.binary())


def spark_row_bytes(frame: Any, columns: Sequence[str], *, withheld: bool = False) -> int | None:
    """How many bytes some columns of a row have in Arrow, whatever the values are, such as numbers and dates.

    None if that depends on the values, as of texts.
    """
    schema = arrow_schema(frame, withheld=withheld)
    kinds = [schema.field(name).type for name in columns]
    if not all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in kinds):
        return None
    return -(-sum(int(kind.bit_width) + 1 for kind in kinds) // 8)  # a bit says whether there is a value


def chosen(frame: Any, columns: Sequence[str]) -> Any:
    """The frame as it is: columns are selected when a job is made."""
    return frame


def select_numbered_spark_columns(frame: Any, columns: Sequence[str], *, withheld: bool = False) -> Any:
    """The frame with these columns alone, so that no others are read, by the names _0, _1 and so on.

    PySpark does not find columns whose names have points when it hands them to Python.
    """
    quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
    with spark_errors(withheld=withheld):
        return frame.selectExpr(*(f"{name} AS _{k}" for k, name in enumerate(quoted)))


def partitions(frame: Any, columns: Sequence[str], *, withheld: bool = False) -> list[int]:
    """How many rows each partition has, empty ones too, by a job that counts them.

    One column is enough to count by, if nothing else in the plan depends on which columns are read. With `withheld`
    Spark's own words, which may have values, are in no message.
    """
    first = columns[:1] if spark_plan_doubt(frame, withheld=withheld) is None else columns
    rows = select_numbered_spark_columns(frame, first, withheld=withheld)
    counted = map_spark_batches(rows, count_spark_partition, "part int, rows long", withheld=withheld)
    table = collect_spark_frame(counted, withheld=withheld)
    counts = dict(zip(table.column("part").to_pylist(), table.column("rows").to_pylist(), strict=True))
    return [counts[number] for number in range(len(counts))]


def count_spark_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows a partition has; this runs on a worker."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch({"part": pa.array([spark_partition()], pa.int32()), "rows": pa.array([rows], pa.int64())})


def spark_partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def check_determined(frame: Any, person: str | None) -> None:
    """Refuse a frame whose partitions might not come out alike again, where no row may count twice (S3).

    And one of CSV files, where a record can be several rows.
    """
    if (why := spark_plan_doubt(frame)) == _CUT_AT_LINE_ENDS:
        raise TableError(
            "this Spark frame reads CSV files, which Spark cuts at line ends within quotes, too: one record could be "
            "several rows, and the promise would not hold; pass the files themselves, with cluster= (--cluster)"
        )
    if why is not None:
        or_checkpoint = "" if is_spark_connect(frame) else ", or checkpoint() it"
        raise TableError(
            f"it is not certain that this Spark frame has the same rows in the same partitions when Spark computes one "
            f"again, since {why}: a row could count twice, and the promise would not hold; {ADVICE}{or_checkpoint}"
        )
    refuse_repeated_spark_files(frame)


# ---- Whether the partitions of a Spark frame come out alike again, by the frame's plans (S1 of docs/proofs/spark.md).
#
# What is accepted is listed: steps of the physical plan, steps and functions of the logical plan as Spark analysed it,
# and where rows come from. Anything else is a reason for doubt. Functions of the time are in the analysed plan alone,
# since Spark puts a number in their place when it runs a job, another in each.
#
# A session of Spark shows its plans as objects, whose classes count. One of Connect shows them in words.


_SHOWN = {"spark.sql.debug.maxToStringFields": "1000000", "spark.sql.maxPlanStringLength": "2147483632"}
_CUT_SHORT = re.compile(r"\.\.\. (?:\d+ )?more (?:characters|fields)")
_CUT_AT_LINE_ENDS = "Spark cuts CSV files at every line end"
_FORMATS = "parquet|orc|json|text|avro"
_SCANS = re.compile(
    rf"(?:FileScan (?:{_FORMATS})[ \[]|(?:LocalTableScan|Range|InMemoryTableScan|Scan ExistingRDD|"
    r"Scan OneRowRelation|OneRowRelation)(?![\w.]))"
)
_STEPS = re.compile(
    r"(?:Project|Filter|Union|Expand|Generate|ColumnarToRow|RowToColumnar|InMemoryRelation|AdaptiveSparkPlan|"
    r"ResultQueryStage|TableCacheQueryStage)(?![\w.])"
)
_PLACES = ("InMemoryFileIndex", "CatalogFileIndex")  # of files that are listed, by nothing but Spark itself

_PLAN = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSION = "org.apache.spark.sql.catalyst.expressions."
_RELATION = "org.apache.spark.sql.execution.datasources.LogicalRelation"
_STORED = "org.apache.spark.sql.execution.LogicalRDD"
_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_FILE_FORMAT = re.compile(
    r"org\.apache\.spark\.sql\.(?:execution\.datasources\.(?:parquet\.Parquet|orc\.Orc|json\.Json|text\.Text)|"
    r"avro\.Avro)FileFormat"
)
_LOGICAL = (
    "Project",
    "Filter",
    "Union",
    "SubqueryAlias",
    "View",
    "Generate",
    "LocalRelation",
    "Range",
    "OneRowRelation",
)
_LOGICAL_WORDS = re.compile(rf"(?:{'|'.join(_LOGICAL)}|Relation)(?![\w.])")
# Rows of a large Arrow table, which the driver handed over as they are.
_HANDED_OVER = re.compile(
    r"\(\d+\) arrow MapPartitionsRDD\[\d+\] at toDataFrame at NativeMethodAccessorImpl\.java:0 \[\]\s*\|\s*"
    r"ParallelCollectionRDD\[\d+\] at toDataFrame at NativeMethodAccessorImpl\.java:0 \[\]\s*"
)
_MOMENTS = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
_MADE_MOMENTS = ("Cast", "ParseToDate", "ParseToTimestamp")
_CELLS = ("AttributeReference", "NamedLambdaVariable")
_WORDS_OF_TIME = re.compile(
    r"(?<![\w.`])(?:now|today|tomorrow|yesterday|(?:current|local)_?(?:date|time|timestamp)|curdate|curtime|"
    r"unix_timestamp\(\))(?![\w#])",
    re.IGNORECASE,
)

# Functions of the row alone, by the names of their classes and by their own, in small letters and without underscores.
# None depends on the time, on chance, on places, on settings that may change or on code that is not Spark's.
_NAMES = """
alias attributereference literal prettyattribute cast trycast upcast some none
decimal char varchar numeric interval
add subtract multiply divide integraldivide div remainder mod pmod unaryminus negative unarypositive positive abs
tryadd trysubtract trymultiply trydivide trymod tryeval
and or not equalto equalnullsafe equalnull greaterthan greaterthanorequal lessthan lessthanorequal in inset between
isnull isnotnull isnan nanvl coalesce ifnull nvl nvl2 nullif nullifresult nullifzero zeroifnull if casewhen case when
greatest least with commonexpressiondef commonexpressionref
bitwiseand bitwiseor bitwisexor bitwisenot shiftleft shiftright shiftrightunsigned bitwisecount bitcount
sqrt cbrt exp expm1 log ln log10 log1p log2 logarithm pow power round bround ceil ceiling floor rint roundceil
roundfloor signum sign sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot pi eulernumber e
todegrees degrees toradians radians factorial widthbucket
upper ucase lower lcase length charlength characterlength octetlength bitlength stringtrim stringtrimleft
stringtrimright stringtrimboth trim ltrim rtrim btrim substring substr substringindex concat concatws stringreplace
replace like ilike rlike likeall likeany notlikeall notlikeany contains startswith endswith stringlpad stringrpad
lpad rpad stringinstr instr stringlocate locate position stringtranslate translate initcap left right reverse ascii
chr hex unhex stringsplit split splitpart regexpreplace regexpextract regexpcount stringrepeat repeat stringspace
space levenshtein soundex base64 unbase64 encode decode
year month quarter dayofmonth day dayofweek dayofyear weekday weekofyear hour minute second secondwithfraction
datediff dateadd datesub addmonths lastday nextday monthsbetween truncdate trunc trunctimestamp datetrunc
datefromunixdate unixdate unixseconds unixmillis unixmicros secondstotimestamp millistotimestamp microstotimestamp
makedate maketimestamp gettimestamp parsetodate todate parsetotimestamp totimestamp dateformatclass dateformat
tounixtimestamp unixtimestamp fromunixtime fromutctimestamp toutctimestamp converttimezone timestampdiff
timestampadd subtractdates subtracttimestamps dateaddinterval dateaddyminterval timestampaddinterval
timestampaddyminterval timeadd datepart extract makeinterval makedtinterval makeyminterval
getstructfield getarrayitem getarraystructfields getmapvalue elementat tryelementat get size cardinality arraysize
arraycontains createarray array createnamedstruct namedstruct struct explode posexplode inline stack
murmur3hash hash xxhash64 md5 sha1 sha sha2 crc32
"""
_FUNCTIONS = frozenset(_NAMES.split())


def spark_plan_doubt(frame: Any, *, withheld: bool = True) -> str | None:
    """Why partitions of the frame might not have the same rows when they are computed again; None if they have (S1).

    Unless `withheld` is False, Spark's own words are in no message: to plan may be to compute, with local rows.
    """
    with spark_errors(withheld=withheld):
        if frame.isStreaming:
            return "it is a stream"
        with _untruncated_spark_plans(frame):
            return _doubt_by_connect_plan(frame) if is_spark_connect(frame) else _doubt_by_spark_classes(frame)


@contextmanager
def _untruncated_spark_plans(frame: Any) -> Iterator[None]:
    """Let Spark cut no plan short within."""
    conf = frame.sparkSession.conf
    before = {name: conf.get(name) for name in _SHOWN}
    try:
        for name, value in _SHOWN.items():
            conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            conf.set(name, value)


def _spark_plan_steps(plan: str) -> Iterator[str]:
    """The steps of a plan in words, one a line."""
    for line in plan.splitlines():
        if step := re.sub(r"^[\s:+\-|*]*(?:\(\d+\)\s*)?", "", line):
            yield step


def _doubt_of_spark_steps(plan: str) -> str | None:
    if _CUT_SHORT.search(plan):
        return "Spark shows its plan in part only"
    if re.search(r"FileScan csv[ \[]", plan):
        return _CUT_AT_LINE_ENDS
    scans = 0
    for step in _spark_plan_steps(plan):
        scans += (scan := _SCANS.match(step)) is not None
        if not scan and not _STEPS.match(step) and not step.startswith("=="):
            return f"its plan has a step {_spark_step_name(step)!r}"
    for place in re.findall(r"Location: (\w+)", plan):
        if place not in _PLACES:
            return f"its files are listed by a {place}"
    return None if scans else "its plan does not say where its rows come from"


# ---- by classes


def _spark_step_name(step: str) -> str:
    """What a step of a plan is called, without its columns."""
    first, *others = re.findall(r"[A-Za-z]\w*", step.partition("[")[0]) or ["unknown"]
    return " ".join([first, *others[:1]]) if first == "Scan" else first


def _doubt_by_spark_classes(frame: Any) -> str | None:
    execution = frame._jdf.queryExecution()
    analysed = execution.analyzed()
    why = _doubt_of_spark_steps(str(execution.executedPlan().toString())) or _doubt_of_plan_nodes(
        json.loads(analysed.toJSON())
    )
    if why is not None:
        return why
    if not analysed.deterministic():
        return "its plan has a function that is not deterministic"
    leaves = analysed.collectLeaves()
    return next(filter(None, (_doubt_of_plan_leaf(leaves.apply(k)) for k in range(leaves.size()))), None)


def _doubt_of_plan_nodes(tree: Any) -> str | None:
    """What is not known of a logical plan or of expressions in it, as Spark lists them: nodes before their parts."""
    if isinstance(tree, dict):
        below = [value for name, value in tree.items() if name not in ("dataType", "metadata")]
    elif isinstance(tree, list):
        below = tree
        for place, node in enumerate(tree):
            if isinstance(node, dict) and "class" in node and (why := _doubt_of_plan_node(tree, place)) is not None:
                return why
    else:
        return None
    return next(filter(None, map(_doubt_of_plan_nodes, below)), None)


def _doubt_of_plan_node(nodes: list[Any], place: int) -> str | None:
    kind: str = nodes[place]["class"]
    name = kind.rpartition(".")[2].removesuffix("$")
    if kind.startswith(_EXPRESSION) and kind == _EXPRESSION + name and name.lower() in _FUNCTIONS:
        if nodes[place].get("name") == "_metadata":
            return "its plan has '_metadata'"  # where in a file a row is, by how the file is cut
        return _doubt_of_current_date(nodes, place) if name in _MADE_MOMENTS else None
    known = kind in (_RELATION, _STORED) or (kind.startswith(_PLAN) and name in _LOGICAL)
    return None if known else f"its plan has {name!r}"


def _doubt_of_current_date(nodes: list[Any], place: int) -> str | None:
    """A text that is no cell can be a date by the words now or today."""
    if nodes[place]["class"].endswith(".Cast") and nodes[place]["dataType"] not in _MOMENTS:
        return None
    below, left = [], 1
    for node in nodes[place + 1 :]:
        below.append(node)
        left += node["num-children"] - 1
        if left == 0:
            break
    if any(node["class"].endswith(_CELLS) for node in below):
        return None
    fixed = below[0]["class"].endswith(".Literal") and not re.match(r"\s*[^\W\d]", str(below[0]["value"]))
    return None if fixed else "its plan has a moment that may depend on the time, such as 'now'"


def _doubt_of_plan_leaf(leaf: Any) -> str | None:
    """What is not known of where rows come from: files that Spark lists and reads itself, or rows that are stored."""
    kind = leaf.getClass().getName()
    if kind == _RELATION:
        relation = leaf.relation()
        kind = relation.getClass().getName()
        if kind == _FILES:
            kind = relation.fileFormat().getClass().getName()
            return None if _FILE_FORMAT.fullmatch(kind) else f"its files are read by {kind}"
    elif kind == _STORED:
        rows = leaf.rdd()
        if rows.isCheckpointed() or _HANDED_OVER.fullmatch(str(rows.toDebugString())):
            return None
        return "it is made of an RDD, behind which there may be any function (createDataFrame of a list is, too)"
    elif kind.startswith(_PLAN):
        return None
    return f"its rows come from {kind}"


# ---- in words


def _doubt_by_connect_plan(frame: Any) -> str | None:
    """The same by what Connect shows, and by what was asked of it: a frame is parsed anew for every job there."""
    text = str(frame._explain_string(extended=True))
    titles = ("Parsed Logical", "Analyzed Logical", "Optimized Logical", "Physical")
    parts = re.split(r"^== (?:Parsed Logical|Analyzed Logical|Optimized Logical|Physical) Plan ==$", text, flags=re.M)
    if len(parts) != len(titles) + 1 or any(text.count(f"== {title} Plan ==") != 1 for title in titles):
        return "its plan cannot be read"
    if (why := _doubt_of_spark_steps(parts[4])) is not None:
        return why
    analysed = parts[2].strip("\n").partition("\n")[2]  # the first line has the columns
    for step in _spark_plan_steps(analysed):
        if not _LOGICAL_WORDS.match(step):
            return f"its plan has a step {_spark_step_name(step)!r}"
    if "Scan ExistingRDD" in text:
        return "its plan has a step 'Scan ExistingRDD'"  # nobody sees what is behind one
    asked = str(frame._plan.to_proto(frame.sparkSession.client))
    written = "\n".join(re.findall(r"^\s*(?:expression|query): (.*)$", asked, re.M))
    if word := _WORDS_OF_TIME.search(analysed) or _WORDS_OF_TIME.search(written):
        return f"its plan has {word[0]!r}"
    if "_metadata#" in analysed:
        return "its plan has '_metadata'"
    names = {name.replace("_", "").lower(): name for name in re.findall(r"([\w$]+)\(", analysed)}
    own = collect_spark_frame(frame.sparkSession.sql("SHOW USER FUNCTIONS"), withheld=True).column(0).to_pylist()
    own = {name.rpartition(".")[2].replace("_", "").lower() for name in own}
    unknown = [name for key, name in names.items() if key not in _FUNCTIONS or key in own]
    return f"its plan has {unknown[0]}()" if unknown else None


# ---- Which files a Spark frame reads: none twice, and never several of a table with old versions.
#
# See S3 of docs/proofs/spark.md. Names of files and folders decide alone, and on this machine device and inode.


_STORE = re.compile(r"[^/]*(?://[^/]*)?")  # what is before the path of an address: hdfs://namenode
_NAMED = re.compile(r'^\s*(?:paths|unparsed_identifier): "(.*)"$', re.MULTILINE)


def refuse_repeated_spark_files(frame: Any) -> None:
    """Refuse a frame that reads a file twice, or several files of a Delta, Iceberg or Hudi table."""
    with spark_errors(withheld=True):
        if is_spark_connect(frame):
            _refuse_repeated_spark_names(_NAMED.findall(str(frame._plan.to_proto(frame.sparkSession.client))))
            files = [str(name) for name in frame.inputFiles()]
        else:
            files = list(_files_read_by_spark(frame))
        _refuse_repeated_spark_names(files)
        if len(files) > 1:
            _refuse_old_versions_in_spark(frame.sparkSession, files)


def _files_read_by_spark(frame: Any) -> Iterator[str]:
    """All files that a frame reads, as often as it does; `inputFiles` has each once."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for leaf in map(leaves.apply, range(leaves.size())):
        relation = leaf.relation() if leaf.getClass().getSimpleName() == "LogicalRelation" else None
        if relation is not None and relation.getClass().getSimpleName() == "HadoopFsRelation":
            yield from map(str, relation.location().inputFiles())


def _refuse_repeated_spark_names(names: Sequence[str]) -> None:
    seen: dict[Any, str] = {}
    for name in names:
        here = _local_path_of_spark_file(name)
        file = name if here is None else local_file_identity(here)
        if (first := seen.setdefault(file, name)) is not name:
            ways = f"{name} twice" if first == name else f"{first} and {name}, which are the same file"
            raise TableError(
                f"this Spark frame reads {ways}, so its records would count twice; name it once, and where the "
                "frame unites parts of one table, filter that table instead"
            )


def _refuse_old_versions_in_spark(session: Any, files: Sequence[str]) -> None:
    places = {name: _local_path_of_spark_file(name) for name in files}
    refuse_versioned_folders([place for place in places.values() if place is not None])
    folders = {folder for name, place in places.items() if place is None for folder in _folders_above_spark_file(name)}
    for folder in sorted(folders, key=len, reverse=True):
        for name, kind in VERSIONED:
            if _spark_finds_files(session, folder, f"{name}/{'*.metadata.json' if kind == 'Iceberg' else '*'}"):
                raise versioned_table_error(folder, kind)


def _local_path_of_spark_file(name: str) -> Path | None:
    path = Path(unquote(re.sub("^file:/+", "/", name)) if name.startswith("file:") else name)
    return path if path.is_absolute() and os.path.exists(path) else None


def _folders_above_spark_file(address: str) -> Iterator[str]:
    """The folders above a file, but for those that are columns, such as `year=2024`: there are many of them."""
    store = _STORE.match(address)[0]  # type: ignore[index]
    parts = address[len(store) :].split("/")[:-1]
    return ("/".join((store, *parts[1:n])) for n in range(1, len(parts) + 1) if "=" not in parts[n - 1])


def _spark_finds_files(session: Any, folder: str, pattern: str) -> bool:
    """Whether Spark finds files by a pattern; it does not where it may not look."""
    place = re.sub(r"([\[\]{}*?\\])", r"\\\1", unquote(folder))
    try:
        session.read.format("binaryFile").load(f"{place}/{pattern}").schema  # noqa: B018 (it looks for them)
    except Exception:
        return False
    return True
