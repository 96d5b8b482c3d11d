"""Exported models: the same classes and probabilities as the package's, from raw columns, on rows of every kind."""

import contextlib
import json
import subprocess
import sys
import warnings
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pyarrow as pa
import pytest

import radoboost as rb
from radoboost.learner.export.sql import sql_identifier
from radoboost.learner.predict import prediction_column_names
from radoboost.learner.probabilities import ProbabilityLink
from radoboost.release.feature_map import FeatureMap, Input, Term
from raw_cells import N_ROWS, ODD_NAMES, WARDS, learned, learned_classes, of_classes, raw_rows

# ---- what exports say


def by_python(model, texts):
    names = {"__name__": "exported"}
    exec(compile(rb.export(model, "python"), "exported.py", "exec"), names)
    rows = [dict(zip(texts, cells, strict=True)) for cells in zip(*texts.values(), strict=True)]
    scores = [names["scores"](row) for row in rows]
    labels, shares = [names["chosen"](own) for own in scores], [names["shares"](own) for own in scores]
    assert [names["predict"](row) for row in rows[:50]] == labels[:50]
    assert [names["probabilities"](row) for row in rows[:50]] == [
        dict(zip(model.classes, own, strict=True)) for own in shares[:50]
    ]
    return np.array(labels), np.array(shares)


def by_onnx(model, fed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(rb.export(model, "onnx"), options, providers=["CPUExecutionProvider"])
    columns = {name: np.asarray(column).reshape(-1, 1) for name, column in fed.items()}
    labels, shares = session.run(["label", "probabilities"], columns)
    return labels, shares


def probabilities_of(model, written):
    """Probabilities of all classes, from the columns that are written."""
    if model.n_classes == 2:
        positive = np.asarray(written[1], dtype=float)
        return np.column_stack([1 - positive, positive])
    return np.column_stack([np.asarray(column, dtype=float) for column in written[1:]])


def by_duckdb(model, table):
    table = table if isinstance(table, pa.Table) else pa.table(table)
    with duckdb.connect() as connection:
        numbered = table.append_column("row number", pa.array(range(len(table))))
        connection.register("the 'raw' table", numbered)
        query = rb.export(model, "sql", table="the 'raw' table", keep=["row number"])
        result = connection.sql(query).to_arrow_table().sort_by("row number")
    assert result.column_names[1:] == prediction_column_names(model)
    shares = probabilities_of(model, [result.column(name).to_numpy() for name in prediction_column_names(model)])
    return np.array(result["prediction"].to_pylist()), shares


def expected(model, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rb.FilledWarning)
        return model.decision_function(table), model.predict(table), model.predict_proba(table)


def check(model, table, answers):
    scores, labels, shares = expected(model, table)
    clear = np.abs(scores) > 1e-9 if scores.ndim == 1 else np.diff(np.sort(scores)[:, -2:]).ravel() > 1e-9
    assert clear.mean() > 0.9
    for own_labels, own_shares in answers:
        assert np.abs(own_shares - shares).max() < 1e-9
        assert (np.asarray(own_labels)[clear] == labels[clear]).all()


def some(texts, n):
    return {name: cells[:n] for name, cells in texts.items()}


def check_all(model, texts, fed, n_python):
    """Python goes term by term, so large maps take it long: it has the first rows alone there."""
    check(model, texts, [by_onnx(model, fed), by_duckdb(model, texts)])
    few = some(texts, n_python)
    check(model, few, [by_python(model, few)])


PRIVATE = rb.Moments(epsilon=20.0, delta=1e-6)
PLANS = [(name, None) for name in ("linear", "degree-2")]
PLANS += [(name, PRIVATE) for name in ("degree-2", "degree-5")]


@pytest.mark.parametrize(("columns", "mechanism"), PLANS)
def test_every_plan_of_columns_with_a_schema(columns, mechanism):
    model = learned(columns, mechanism)
    assert (model.link is None) == (mechanism is None)
    check_all(model, *raw_rows(1), N_ROWS if (columns, mechanism) == PLANS[0] else 300)


@pytest.mark.parametrize(("columns", "mechanism"), [("degree-2", None), ("degree-4", PRIVATE)])
def test_more_than_two_classes(columns, mechanism):
    model = of_classes(learned(columns, mechanism), ("low", "it's", 'high "3"'))
    check_all(model, *raw_rows(2), 1000)


@pytest.mark.parametrize("columns", ["degree-2"])
def test_classes_that_were_learned(columns):
    model = learned_classes(columns)
    texts, fed = raw_rows(2)
    assert len(set(expected(model, texts)[1].tolist())) == 3
    check_all(model, texts, fed, 300)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [None, PRIVATE])
@pytest.mark.parametrize("columns", ["linear", "degree-2", "degree-4", "degree-8", "auto"])
def test_all_rows_of_all_plans(columns, mechanism):
    model = learned(columns, mechanism)
    for own in (model, of_classes(model, (10, 20, 30, 40, 50))):
        check_all(own, *raw_rows(3), N_ROWS)


def test_a_wrong_weight_is_found():
    model = learned("linear")
    texts, fed = raw_rows(1, 500)
    theta = model.theta.copy()
    theta[0] += 1e-6
    wrong = rb.Model(theta, model.columns, model.classes, model.learner, schema=model.schema)
    for answer in (by_python(wrong, texts), by_onnx(wrong, fed), by_duckdb(wrong, texts)):
        with pytest.raises(AssertionError):
            check(model, texts, [answer])


# ---- without a schema


def numbers(rng, names, n=N_ROWS):
    columns = {}
    for name in names:
        x = rng.normal(20, 8, n)
        x = np.where(rng.random(n) < 0.15, rng.choice([1e300, -1e300, 1e17, 5e-324, -2.5e-310, 0.0, 1e9], n), x)
        columns[name] = np.where(rng.random(n) < 0.1, np.nan, x)
    return columns


@pytest.mark.parametrize(
    ("columns", "bounds"), [("linear", None), ("degree-2", (0.0, 50.0)), ("degree-2", None), ("degree-3", (0.0, 50.0))]
)
def test_models_without_a_schema(columns, bounds, rng):
    names = ("label", 'a "b"', "probabilities", "x'; --", "é")
    X = rng.normal(20, 8, size=(800, 5))
    y = X[:, 0] * X[:, 1] > 400
    declared = None if bounds is None else dict.fromkeys(names, bounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rb.ClippedWarning)
        table = pa.table(dict(zip(names, X.T, strict=True)))
        release = rb.craft(table, y, columns=columns, n_rados=400, seed=1, schema=declared)
    model = rb.MomentsClassifier().fit_rados(release).model_
    assert model.classes == (False, True)
    raw = numbers(rng, names)
    fed = {f"raw:{name}" if name in ("label", "probabilities") else name: column for name, column in raw.items()}
    few = some({name: [None if x != x else x for x in column] for name, column in raw.items()}, 300)
    for own in (model, of_classes(model, (1.5, 2, 3))):
        check(own, raw, [by_onnx(own, fed), by_duckdb(own, raw)])
        check(own, few, [by_python(own, few)])


def test_a_map_of_everything(rng):
    inputs = (
        Input("a", shift=2.0, divisor=3.0, low=-5.0, log=True),
        Input("b", shift=1.0, divisor=7.0, factor=2.0, offset=0.5, high=40.0, limit=1.5),
        Input("b", low=0.0, high=9.0, divisor=9.0, factor=2.0, offset=1.0, limit=1.0, levels=(-1.0, -0.9, 0.3, 1.0)),
        Input("c", limit=2.0**19),
    )
    terms = (
        Term("linear", ("rank(b)",)), Term("product", ("log(a)", "c")), Term("product", ("c", "c")),
        Term("legendre", ("rank(b)", "b"), (3, 2), 0.5), Term("linear", ("log(a)",)),
        Term("legendre", ("rank(b)",), (8,)), Term("legendre", ("log(a)", "b", "c", "rank(b)"), (1, 1, 1, 1), 0.7),
    )  # fmt: skip
    feature_map = FeatureMap(inputs, terms)
    scales = [
        {"scale": "none"}, {"scale": "standard", "mean": 0.5, "std": 2.0}, {"scale": "bounds", "low": 0.0, "high": 0.5},
        {"scale": "none", "low": 0.1}, {"scale": "standard", "mean": 1.0, "std": 3.0, "low": -2.0, "high": 2.0},
        {"scale": "none"}, {"scale": "none", "high": 3.0},
    ]  # fmt: skip
    names = feature_map.output_names
    columns = [rb.Column(name, step=1.0, **scale) for name, scale in zip(names, scales, strict=True)]
    columns.insert(3, rb.Column("(constant)", "constant", step=1.0))
    theta, link = rng.normal(size=8), ProbabilityLink(up=1.3, down=0.8, bend=0.2)
    model = rb.Model(theta, tuple(columns), ("no", "yes"), {"name": "by hand"}, map=feature_map, link=link)
    raw = numbers(rng, "abc", 3000)
    for own in (model, of_classes(model, ("x", "y", "z"))):
        check(
            own, raw, [by_onnx(own, raw), by_duckdb(own, raw), by_python(own, {k: v.tolist() for k, v in raw.items()})]
        )


def test_names_that_the_query_itself_might_take(rng):
    names = ("x2", "X1", "x_1", "stage1", "x3")
    columns = tuple(rb.Column(name, "none", step=1.0) for name in names)
    model = rb.Model([1.0, -2.0, 3.0, -4.0, 5.0], columns, ("no", "yes"), {"name": "by hand"})
    raw = {name: rng.normal(size=50) for name in names}
    connection = duckdb.connect()
    connection.register("stage1", pa.table({**raw, "Stage2": range(50)}))
    query = rb.export(model, "sql", table="stage1", keep=["Stage2"])
    written = list(zip(*sorted(connection.sql(query).fetchall()), strict=True))[1:]
    check(model, raw, [(np.array(written[2]), probabilities_of(model, written))])
    assert np.abs(np.array(written[0]) - model.decision_function(raw)).max() < 1e-12


@pytest.mark.parametrize("several", [False, True])
def test_a_row_that_has_no_score_is_none_anywhere(several):
    columns = tuple(rb.Column(name, "bounds", step=1.0, low=-1e300, high=1e300) for name in "ab")
    model = rb.Model([3.0, 3.0], columns, ("no", "yes"), {"name": "by hand"})
    unbounded = rb.Column("a", "none", step=1.0), rb.Column("b", "none", step=1.0)
    huge = rb.Model([1e10, 1.0], unbounded, ("no", "yes"), {"name": "by hand"})
    for own, row in ((model, (np.inf, 1.0)), (huge, (1e300, 1.0))):
        own = of_classes(own, ("x", "y", "z")) if several else own
        raw = {"a": [row[0], 0.5], "b": [row[1], 0.5]}
        with pytest.raises(rb.TableError):
            own.predict(raw)
        names = {"__name__": "exported"}
        exec(rb.export(own, "python"), names)
        with pytest.raises(ValueError, match=r"no finite number|too large"):
            names["predict"]({"a": row[0], "b": row[1]})
        labels, shares = by_duckdb(own, raw)
        assert labels[0] is None and labels[1] is not None
        for found in (shares, by_onnx(own, {name: np.array(column) for name, column in raw.items()})[1]):
            assert np.isnan(found[0]).all()
            assert np.abs(found[1] - own.predict_proba({"a": [0.5], "b": [0.5]})[0]).max() < 1e-9


# ---- columns that have types, and objects


def test_typed_columns_of_a_database(rng):
    model, n = learned("degree-2"), 2000
    age = np.where(rng.random(n) < 0.1, np.nan, rng.choice([50.25, np.inf, -np.inf, 1e300, 17.0, 5e-324], n))
    seen = rng.integers(-3_000_000_000, 4_000_000_000, n).astype("M8[s]")
    table = pa.table(
        {
            ODD_NAMES["age"]: pa.array(age),
            ODD_NAMES["dose"]: pa.array(rng.integers(-300, 300, n), mask=rng.random(n) < 0.1),
            ODD_NAMES["ward"]: pa.array([(*WARDS, None, "new")[k] for k in rng.integers(8, size=n)]),
            ODD_NAMES["grade"]: pa.array(rng.choice([1.0, 2.0, 2.5, 7.0, np.nan], n)),
            ODD_NAMES["seen"]: pa.array(seen, mask=rng.random(n) < 0.1).cast(pa.timestamp("us")),
        }
    )
    as_dates = table.set_column(
        4, ODD_NAMES["seen"], table.column(4).cast(pa.timestamp("s")).cast(pa.date32(), safe=False)
    )
    truth = table.set_column(3, ODD_NAMES["grade"], pa.array(rng.random(n) < 0.5))
    zoned = table.set_column(4, ODD_NAMES["seen"], table.column(4).cast(pa.timestamp("us", tz="Asia/Kolkata")))
    for own in (table, as_dates, truth, zoned):
        check(model, own, [by_duckdb(model, own)])


def test_cells_that_are_objects():
    model = learned("degree-2")
    cells = {
        ODD_NAMES["age"]: [1, 2.5, Decimal("3.25"), True, np.int64(7), np.float32(2.5), b"12", None, np.nan, pd.NA],
        ODD_NAMES["dose"]: [10**400, np.nan, "1e2", Decimal("NaN"), [4], date(2024, 1, 1), np.True_, "", -0.0, "x"],
        ODD_NAMES["ward"]: ["A", b"A", None, np.str_("it's"), "NA", 3, pd.NA, float("nan"), " A\u2003", True],
        ODD_NAMES["grade"]: [1, 1.0, True, "1", "1.0", Decimal("2.50"), np.int8(2), 10**400, float("inf"), [1]],
        ODD_NAMES["seen"]: [
            date(2024, 2, 29), datetime(1969, 12, 31, 23, 59, 59, 5), pd.Timestamp("2024-05-05 12:00:00.5"), pd.NaT,
            datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5))), np.datetime64("2001-02-03"), 17, "1.2.2003",
            None, np.datetime64("NaT"),
        ],
    }  # fmt: skip
    frame = {name: pd.Series(column, dtype=object) for name, column in cells.items()}
    check(model, pd.DataFrame(frame), [by_python(model, cells)])


# ---- the Python file as a program


def program(path, *arguments, **options):
    """A run that sees no installed package."""
    return subprocess.run([sys.executable, "-I", "-S", str(path), *arguments], capture_output=True, **options)


def test_the_python_file_runs_alone(tmp_path, rado):
    kinds = {"a": rb.Number(-10_000, 10_000, gaps=True), "k": rb.Category(("x;1", "y"), other=True)}
    marks = rb.Schema(kinds, decimal=",", thousands=".", separator=";")
    columns = tuple(rb.Column(part.name, "bounds", step=1.0, low=part.low, high=part.high) for part in marks.encoded())
    model = rb.Model([7.0, 1.0, 0.5, -0.25, 0.125], columns, ("no", "yes"), {"name": "by hand"}, schema=marks)
    (tmp_path / "m.py").write_text(rb.export(model, "python"), encoding="utf-8")
    model.save(tmp_path / "m.model.json")
    rows = ['1.234,5;"x;1"', "-1,5; y ", "1.5;z", ";NA", '"1e2";y', "few;x", "12.34,5;y"]
    (tmp_path / "t.csv").write_text("\ufeffk2;a;k\n" + "".join(f"0;{row}\n" for row in rows), encoding="utf-8")
    assert rado("predict", tmp_path / "m.model.json", tmp_path / "t.csv", "-o", "own.csv")[0] == 0
    own = pd.read_csv("own.csv")
    done = program(tmp_path / "m.py", tmp_path / "t.csv", check=True)
    piped = program(tmp_path / "m.py", check=True, input=(tmp_path / "t.csv").read_bytes())
    assert done.stdout == piped.stdout and not done.stderr
    (tmp_path / "out.csv").write_bytes(done.stdout)
    table = pd.read_csv(tmp_path / "out.csv")
    assert list(table) == list(own) == ["score", "probability", "prediction"]
    for name in ("score", "probability"):
        assert np.abs(table[name] - own[name]).max() < 1e-12
    assert (table["prediction"] == own["prediction"]).all()
    for content, words in (
        (b"a;b\n1;2\n", b"row 1: the row has no column 'k'"),
        (b"a;k\n1\n", b"row 1: it has 1 cells"),
    ):
        failed = program(tmp_path / "m.py", input=content)
        assert failed.returncode == 1 and failed.stderr.count(b"\n") == 1 and words in failed.stderr
    missing = program(tmp_path / "m.py", "nowhere.csv")
    assert missing.returncode == 1 and missing.stderr.count(b"\n") == 1


# ---- what exports say about themselves, and the command


def test_every_form_says_what_was_promised():
    model = learned("linear", PRIVATE)
    words = "epsilon 20, delta 1e-06, for one record added or removed as neighbours"
    assert f"# privacy: {words}" in rb.export(model, "python")
    assert f"-- privacy: {words}" in rb.export(model, "sql")
    proto = onnx.load_from_string(rb.export(model, "onnx"))
    said = {entry.key: entry.value for entry in proto.metadata_props}
    assert said["privacy"] == words and said["mechanism"] == "moments"
    assert json.loads(said["features"]) == list(model.feature_names) and json.loads(said["classes"]) == ["no", "yes"]
    assert (proto.producer_name, proto.producer_version) == ("radoboost", rb.__version__)
    kinds = {entry.name: entry.type.tensor_type.elem_type for entry in proto.graph.input}
    types = onnx.TensorProto
    assert [kinds[name] for name in model.feature_names] == [
        types.DOUBLE,
        types.DOUBLE,
        types.STRING,
        types.STRING,
        types.INT64,
    ]


@pytest.mark.parametrize(
    "classes", [(0, 1), (False, True), ("a\n'b", 'c"'), (0.5, 2), (-3, 7, 9), ("a", "b", "c", "d")]
)
def test_classes_of_every_kind(classes):
    column = rb.Column("x\n1", "none", step=1.0)
    model = rb.Model([1.0], (column,), ("no", "yes"), {"name": "by hand\nor not"})
    model = of_classes(model, classes) if len(classes) > 2 else rb.Model([1.0], (column,), classes, model.learner)
    raw = {"x\n1": np.array([-2.0, 3.0, 0.0])}
    answers = by_python(model, raw), by_onnx(model, raw), by_duckdb(model, raw)
    few = {"x\n1": raw["x\n1"][:2]}  # the last has a score of 0
    check(model, few, [(labels[:2], shares[:2]) for labels, shares in answers])
    assert [labels[2] for labels, _ in answers] == [classes[0]] * 3


def test_the_command(rado, clinic, tmp_path):
    assert rado("craft", clinic, "-l", "readmitted", "-o", "r.parquet")[0] == 0
    assert rado("learn", "r.parquet", "-o", "clinic.model.json")[0] == 0
    for form, ending in (("onnx", "onnx"), ("python", "py"), ("sql", "sql")):
        code, out, err = rado("export", "clinic.model.json", "-o", f"clinic.{ending}")
        assert (code, err) == (0, "") and out.startswith(f"wrote clinic.{ending}: ") and "for any two tables" in out
        code, out, _ = rado("export", "clinic.model.json", "-o", f"again.{ending}", "--json")
        document = json.loads(out)
        assert code == 0 and document["form"] == form and document["features"] == ["age", "dose"]
        with open(f"again.{ending}", "rb") as first, open(f"clinic.{ending}", "rb") as second:
            content = first.read()
            assert content == second.read() and document["bytes"] == len(content)
    assert rado("export", "clinic.model.json", "--table", "s.t", "--keep", "id", "-o", "k.sql")[0] == 0
    Path("notes.py").write_text("my own notes")
    code, _, err = rado("export", "clinic.model.json", "-o", "notes.py")
    assert code == 1 and "notes.py exists" in err and Path("notes.py").read_text() == "my own notes"
    assert rado("export", "clinic.model.json", "-o", "notes.py", "--force")[0] == 0
    assert rado("export", "clinic.model.json", "-o", "clinic.py")[0] == 0  # which is its own
    with open("k.sql") as file:
        text = file.read()
    assert 'FROM "s"."t"' in text and 'AS "id"' in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give one of -o m.onnx, -o m.py, -o m.sql"),
        (["-o", "m.pmml"], "give one of -o m.onnx, -o m.py, -o m.sql"),
        (["-o", "m.py", "--table", "t"], "for SQL alone"),
        (["-o", "m.sql", "--keep", "prediction"], "cannot keep 'prediction'"),
        (["-o", "nowhere/x.sql"], "there is no directory nowhere"),
        (["-o", "m.onnx"], "pip install '.[export]'"),
    ],
)
def test_an_expected_failure_is_one_line_and_leaves_nothing(options, words, rado, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    rb.Model([2.0], (rb.Column("age", "none", step=1.0),), ("no", "yes"), {"name": "by hand"}).save("m.model.json")
    code, out, err = rado("export", "m.model.json", *options)
    assert code == 1 and out == "" and err.startswith("rado: ") and err.count("\n") == 1 and words in err
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["m.model.json"]


def test_importing_exports_loads_no_onnx():
    code = "import sys, radoboost.learner.export.sql, radoboost.learner.export.onnx; print('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# ---- PostgreSQL


def test_postgresql_runs_the_same_query():
    postgres = pytest.importorskip("postgres", reason="there is no way to start a server")
    binaries = postgres.server_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed")
    import psycopg

    texts, _ = raw_rows(4, 2000)
    with postgres.postgres_server(binaries) as address, contextlib.closing(psycopg.connect(address)) as connection:
        names = ", ".join(f"{sql_identifier(name)} text" for name in texts)
        connection.execute(f'CREATE TABLE "a ""table""" (number integer, {names})')
        with connection.cursor().copy('COPY "a ""table""" FROM STDIN') as copy:
            for number, row in enumerate(zip(*texts.values(), strict=True)):
                copy.write_row([number, *row])
        for columns, mechanism in (("linear", None), ("degree-2", None), ("degree-4", PRIVATE)):
            model = learned(columns, mechanism)
            for own in (model, of_classes(model, ("a", "b'", "c"))):
                rows = connection.execute(rb.export(own, "sql", table='a "table"', keep=["number"])).fetchall()
                written = list(zip(*sorted(rows), strict=True))[1:]
                labels = np.array(written[prediction_column_names(own).index("prediction")])
                check(own, texts, [(labels, probabilities_of(own, written))])
