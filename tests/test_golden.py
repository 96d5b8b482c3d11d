"""What the package makes under fixed keys, as digests in golden.json.

*numbers* are sums, noise, models, predictions and costs. A commit that renames, moves or merges code leaves them alone;
one that changes a number on purpose names it, and says why. *documents* are files, statements and help. They change
only in a commit that says why. In either case `--write` runs in that commit, and nowhere else.

    python tests/test_golden.py               the names of artefacts that differ
    python tests/test_golden.py --show NAME   what is digested, to compare before and after
    python tests/test_golden.py --write       golden.json anew

No run, process or number of threads changes anything here: tables are made by arithmetic, and bytes from the system are
fixed. Computed floats are cut to `DIGITS`, and what an accountant says to `PRIVACY_DIGITS`: it convolves by Fourier
transform, whose seventh digit differs by processor. On processors without AVX2 the last bits of whitened moments, and
of noise for subsampled sums, may differ.
"""

import atexit
import csv
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import typer
from typer.testing import CliRunner

import flat
import radoboost as rb

# All that is not public: the command line, and what costs and rooms are made of.
from radoboost.cli import app
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.privacy import best_guess, delta_at, epsilon_at, event_from_dict

GOLDEN = Path(__file__).with_name("golden.json")
DIGITS, PRIVACY_DIGITS = 9, 6
PLAIN_COLUMNS = ("signed-log", "degree-2", "degree-3", "degree-5")
MOMENT_COLUMNS = ("linear", "auto", "degree-2", "degree-3", "degree-5", "degree-8", "signed-log")
BEYOND = "degree-2"  # columns beyond linear, where one kind of them will do
TERMS = {"age": ["linear", "signed-log", "age^2", "age*dose"]}


# ---- what is fixed


@cache
def folder():
    """A folder for files of this process."""
    made = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, made)
    return made


def fixed_bytes(size=32):
    """Bytes in place of the system's: always the same, but others in the thread of each hospital."""
    name = threading.current_thread().name
    return hashlib.shake_256((name if name.startswith("hospital") else "").encode()).digest(size)


@contextmanager
def fixed(token_bytes=fixed_bytes):
    """No bytes of the system, no notes of rooms and no width of a terminal."""
    settings = {"XDG_CONFIG_HOME": str(folder()), "COLUMNS": "100", "TERM": "dumb"}
    with (
        mock.patch.object(secrets, "token_bytes", token_bytes),
        mock.patch.object(secrets, "randbits", lambda bits: int.from_bytes(token_bytes(bits // 8))),
        mock.patch.dict(os.environ, settings),
        warnings.catch_warnings(action="ignore"),
    ):
        yield


def of_hospitals(*calls):
    """What each of several hospitals makes at the same time."""
    made = {}

    def work(k, call):
        made[k] = call()

    threads = [threading.Thread(target=work, args=pair, name=f"hospital-{pair[0]}") for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [made[k] for k in range(len(calls))]


# ---- tables

N_ROWS = 900  # enough for private moments to choose columns beyond linear


def some(n, seed):
    """Numbers that are about normal, the same everywhere."""
    draw = Random(seed).random
    return np.array([round(draw() + draw() + draw() - 1.5, 6) for _ in range(n)])


@cache
def numbers():
    """A table of numbers; its labels of two classes, and of three."""
    age, dose, score = 50 + 30 * some(N_ROWS, 1), np.rint(8 * some(N_ROWS, 2)), some(N_ROWS, 3) ** 3
    ill = (age - 50) / 30 + dose / 8 + some(N_ROWS, 4)
    smokes = (some(N_ROWS, 5) > 0.1).astype(float)
    table = pa.table({"age": age, "dose": dose, "score": score, "smokes": smokes})
    return table, np.where(ill > 0.1, "yes", "no"), np.digitize(ill, [-0.3, 0.5])


BOUNDS = {"age": (0, 100), "dose": (-8, 8), "score": (-1, 1), "smokes": (0, 1)}
TWO, THREE = ("no", "yes"), (0, 1, 2)


@cache
def patients():
    """A raw table as a CSV file: two rows a patient, gaps, dates and wards that nobody declared."""
    table, two, three = numbers()
    lines = ["patient,age,ward,seen,dose,ill,grade"]
    for k, row in enumerate(table.to_pylist()):
        age = "" if k % 11 == 3 else f"{row['age']:.2f}"
        ward = ("A", "B", "heart, left", "Z", "", "B", "A")[k * k % 7]
        seen = "" if k % 17 == 5 else f"202{k % 5}-0{1 + k % 9}-1{k % 10}"
        lines.append(f'p{k * 7 % (N_ROWS // 2)},{age},"{ward}",{seen},{row["dose"]:g},{two[k]},{three[k]}')
    path = folder() / "patients.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def schema(label="ill", classes=TWO):
    return rb.Schema(
        {
            "patient": rb.Ignored("id"),
            "age": rb.Number(0, 120, gaps=True, fill=50),
            "ward": rb.Category(("A", "B", "heart, left"), other=True, gaps=True),
            "seen": rb.Date(low="2020-01-01", high="2024-12-31", gaps=True, parts=("month", "weekday")),
            "dose": rb.Number(-8, 8),
            "grade" if label == "ill" else "ill": rb.Ignored("ignored"),
        },
        label=label,
        classes=classes,
    )


# ---- releases


def craft(*table, **options):
    return flat.craft(*table, **{"threads": 2, "progress": False, "counts": None, **options})


def plain(classes=2, **options):
    table, *labels = numbers()
    return flat.craft(table, labels[classes - 2], **{"n_rados": 20, "seed": 7, **options})


def private(mechanism, classes=2, **options):
    table, *labels = numbers()
    declared = {"bounds": BOUNDS, "classes": (TWO, THREE)[classes - 2]}
    if getattr(mechanism, "unit", None) == "label":
        declared["label"] = "ill"  # labels that are given apart have a name, or one of their own in every call
    return flat.craft(table, labels[classes - 2], mechanism=mechanism, **{**declared, **options})


def raw(mechanism=None, label="ill", **options):
    """Of the raw table by its schema; the label grade has three classes."""
    if mechanism is None:
        options = {"n_rados": 20, "seed": 7, **options}
    return flat.craft(
        patients(), schema=schema(label, TWO if label == "ill" else THREE), mechanism=mechanism, **options
    )


def proposed(**options):
    return flat.craft(patients(), label="ill", drop=["patient"], n_rados=20, seed=7, **options)


def sparse(classes):
    x = np.rint(8 * some(240 * 30, 9)).reshape(240, 30)
    x[np.abs(x) < 4] = 0
    y = (x[:, :5].sum(axis=1) > 0).astype(int) + (x[:, 3] > 0) * (classes - 2)
    return craft(scipy.sparse.csr_matrix(x), y, n_rados=24, seed=3)


def numbered_rows():
    """Two holders' releases under one seed."""
    table, y, _ = numbers()
    places = slice(0, 400), slice(400, N_ROWS)
    options = {"scale": "bounds", "bounds": BOUNDS, "seed": 7, "n_rados": 20}
    return [flat.craft(table[rows], y[rows], first_row=rows.start, **options) for rows in places]


def from_shares(classes):
    table, *labels = numbers()
    both = rb.share(table, labels[classes - 2])
    return rb.merge_shares(*(rb.craft_shares(one, key=bytes(range(32)), n_rados=20, threads=2) for one in both))


def two_holders():
    """Private releases of different people."""
    table, y, _ = numbers()
    options = {"bounds": BOUNDS, "classes": TWO, "columns": "linear", "mechanism": rb.Moments(8.0)}
    return of_hospitals(*(partial(flat.craft, table[k::2], y[k::2], **options) for k in range(2)))


def of_columns(*names, **options):
    """One of two holders who have other columns of the same people."""
    table, y, _ = numbers()
    return flat.craft(table.select(names), y, share=["age"], seed=7, n_rados=60, **options)


def room(mechanism, **options):
    box = MemoryMailbox()
    flat.open_room(box, classes=TWO, parties=3, mechanism=mechanism, schema=BOUNDS, **options)
    table, y, _ = numbers()

    def join(k):
        own = {"identity": rb.Identity.create(f"hospital-{k}"), "confirm": lambda code, parties: True}
        return rb.join_room(box, table[k::3], y[k::3], counts=None, compute=rb.Compute(threads=1), **own)

    return of_hospitals(*(partial(join, k) for k in range(3)))[0]


PLAIN = {
    "two classes": plain,
    "three classes": partial(plain, 3),
    "not scaled": partial(plain, scale=None),
    "scaled by bounds": partial(plain, scale="bounds", bounds=BOUNDS),
    "no constant": partial(plain, intercept=False),
    "many rados": partial(plain, n_rados=700),
    "fixed support": partial(plain, signatures=rb.FixedSupport(0.4)),
    "fixed support, three classes": partial(plain, 3, signatures=rb.FixedSupport(0.4)),
    "band": partial(plain, mechanism=rb.FeatureBand("smokes", 4.0)),
    "weighted": partial(plain, weights=np.arange(N_ROWS) % 4),
    "weighted, three classes": partial(plain, 3, weights=np.arange(N_ROWS) % 4),
    "first row": lambda: numbered_rows()[1],
    "merged": lambda: rb.merge(numbered_rows()),
    "merged, moments": lambda: rb.merge(numbered_rows(), how="moments"),
    "from shares": partial(from_shares, 2),
    "from shares, three classes": partial(from_shares, 3),
    "shared column": partial(of_columns, "age", "dose"),
    "sparse": partial(sparse, 2),
    "sparse, three classes": partial(sparse, 3),
    **{f"columns {word}": partial(plain, columns=word) for word in PLAIN_COLUMNS},
    "beyond linear, three classes": partial(plain, 3, columns=BEYOND),
    "terms": partial(plain, columns=TERMS),
    "raw": raw,
    "raw, beyond linear": partial(raw, columns=BEYOND),
    "raw, three classes": partial(raw, label="grade"),
    "raw, schema proposed": proposed,
    "raw, rows with gaps dropped": partial(proposed, missing="drop"),
}

LABEL, REPLACE = rb.Moments(8.0, unit="label"), rb.Moments(8.0, relation="replace")
PERSON = {"person": "patient", "max_rows": 2}
MOMENTS = {
    **{word: partial(private, rb.Moments(8.0), columns=word) for word in MOMENT_COLUMNS},
    "label": partial(private, LABEL, columns="linear"),
    "label, beyond linear": partial(private, LABEL, columns=BEYOND),
    "replace": partial(private, REPLACE, columns="linear"),
    "replace, beyond linear": partial(private, REPLACE, columns=BEYOND),
    "small epsilon": partial(private, rb.Moments(0.2), columns="linear"),
    "not sharpened": partial(private, rb.Moments(8.0, sharpen=False), columns="linear"),
    "private bounds": partial(private, rb.Moments(8.0), bounds="private", columns="linear"),
    "private bounds, label": partial(private, LABEL, bounds="private", columns="linear"),
    "three classes": partial(private, rb.Moments(8.0), 3, columns="linear"),
    "three classes, label": partial(private, LABEL, 3, columns="linear"),
    "three classes, beyond linear": partial(private, rb.Moments(8.0), 3, columns=BEYOND),
    "raw": partial(raw, rb.Moments(8.0)),
    "raw, beyond linear": partial(raw, rb.Moments(8.0), columns=BEYOND),
    "raw, three classes": partial(raw, rb.Moments(8.0), "grade"),
    "person": partial(raw, rb.Moments(8.0), **PERSON),
    "person, label": partial(raw, LABEL, **PERSON),
    "room": partial(room, rb.Moments(8.0), columns="linear"),
}
PRIVATE = {
    **{f"moments, {name}": make for name, make in MOMENTS.items()},
    "noisy rados": partial(private, rb.NoisyRados(8.0), n_rados=20),
    "noisy rados, given noise": partial(private, rb.NoisyRados(noise_std=9.0, clip=0.5), n_rados=20),
    "noisy rados, beyond linear": partial(private, rb.NoisyRados(8.0), n_rados=20, columns=BEYOND),
    "noisy rados, person": partial(raw, rb.NoisyRados(8.0), n_rados=20, **PERSON),
    "noisy rados, room": partial(room, rb.NoisyRados(8.0), n_rados=20),
    "noisy examples": partial(private, rb.NoisyExamples(8.0), n_rados=20),
    "noisy examples, not clipped": partial(private, rb.NoisyExamples(noise_std=2.0, clip=None), n_rados=20),
    "noisy examples, person": partial(raw, rb.NoisyExamples(8.0), n_rados=20, **PERSON),
}


@cache
def release(name):
    return {**PLAIN, **PRIVATE}[name]()


def blocks(name):
    return dict(release(name).blocks)


def drawn():
    return rb.draw_rados(release("moments, linear"), 30, random_state=1).rados


# ---- models


def moments(name):
    return rb.MomentsClassifier().fit_rados(release(name)).model_


def boosted(name="many rados", **options):
    return rb.RadoBoostClassifier(**{"n_rounds": 30, "random_state": 0, **options}).fit_rados(release(name)).model_


def fitted(learner):
    table, y, _ = numbers()
    return learner.fit(np.column_stack(table.columns), y).model_


def averaged():
    return rb.MomentsClassifier().fit_rados(two_holders()).model_


def other_prior():
    return moments("moments, linear").with_prior(0.1, rb.class_shares(release("moments, linear")))


def joined():
    return rb.join(of_columns("age", "dose"), of_columns("age", "score"), on=["age"])


def of_blocks():
    table, y, _ = numbers()
    parts = [table.select(["age", name]) for name in ("dose", "score")]
    return rb.learn_blocks(*(rb.craft_blocks(part, y, cuts={"age": [40.0, 60.0]}, least=1) for part in parts))


MODELS = {
    **{f"moments of {name}": partial(moments, name) for name in (
        "many rados", "three classes", "raw", "raw, three classes", "noisy rados", "noisy examples",
        "moments, linear", "moments, raw, beyond linear", "moments, three classes", "moments, room",
    )},
    "moments fitted": lambda: fitted(rb.MomentsClassifier(random_state=3, n_rados=50)),
    "average of two holders": averaged,
    "other shares of classes": other_prior,
    "boost": boosted,
    "boost fitted": lambda: fitted(rb.RadoBoostClassifier(random_state=3, n_rados=50, n_rounds=20)),
    "boost of three classes": partial(boosted, "three classes"),
    "boost of noisy rados": partial(boosted, "noisy rados", weak="prudential"),
    "boost of moments": partial(boosted, "moments, linear"),
    "boost by the median": partial(boosted, weak="median", keep="best"),
    "boost by a cap": partial(boosted, weak=rb.Prudential(0.3), kappa=2.0),
    "boost by exponentials": partial(boosted, update="exponential", clamp=0.1),
    "boost, lasso": partial(boosted, penalty="lasso", strength=0.1),
    "boost, ridge": partial(boosted, penalty="ridge"),
    "boost, scores": partial(boosted, penalty="scores"),
    "boost, stop": partial(boosted, stop="held-out"),
    "AdaBoost": lambda: fitted(rb.AdaBoostSSClassifier(n_rounds=20)),
    "joined": joined,
    "block rados": of_blocks,
}  # fmt: skip


@cache
def model(name):
    return MODELS[name]()


def coefficients(name):
    return {"theta": model(name).theta, "learner": model(name).learner}


def effects(name):
    return rb.explain(model(name)).to_dict()


# ---- predictions, by the package and by exported programs

PREDICTED = ("moments of many rados", "moments of three classes", "moments of raw", "moments of raw, three classes",
             "moments of moments, raw, beyond linear", "boost", "joined", "average of two holders")  # fmt: skip
EXPORTED = PREDICTED[:5]


@cache
def rows_of(name):
    """New rows for a model: those of numbers, or the raw ones as texts, with gaps and unknown values."""
    if "raw" not in name:
        return {column: cells.to_pylist()[:40] for column, cells in zip(BOUNDS, numbers()[0].columns, strict=True)}
    with patients().open() as file:
        rows = list(csv.DictReader(file))[:40]
    return {column: [row[column] for row in rows] for column in ("age", "ward", "seen", "dose")}


def predictions(name):
    known, rows = model(name), pa.table(rows_of(name))
    return known.decision_function(rows), known.predict(rows), known.predict_proba(rows)


def by_python(name):
    program = {"__name__": "exported"}
    exec(rb.export(model(name), "python"), program)
    rows = pa.table(rows_of(name)).to_pylist()
    return [[program["scores"](row), program["predict"](row), program["probabilities"](row)] for row in rows]


def by_sql(name):
    import duckdb

    rows = pa.table(rows_of(name))
    with duckdb.connect() as connection:
        connection.register("patients", rows.append_column("row", pa.array(range(len(rows)))))
        query = rb.export(model(name), "sql", table="patients", keep=["row"])
        return connection.sql(query).to_arrow_table().sort_by("row").to_pylist()


def by_onnx(name):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(rb.export(model(name), "onnx"), options)
    read = {
        "tensor(double)": lambda cells: np.array([cell or "nan" for cell in cells], dtype=float),
        "tensor(string)": lambda cells: np.array(cells, dtype=object),
        "tensor(int64)": lambda cells: np.array([cell or "NaT" for cell in cells], dtype="M8[s]").astype(np.int64),
    }
    rows = rows_of(name)
    fed = {one.name: read[one.type](rows[one.name]).reshape(-1, 1) for one in session.get_inputs()}
    return session.run(["label", "probabilities"], fed)


# ---- what releases cost


def event(name):
    return release(name).statement.event


def epsilons(name):
    """What the accountant of this event says, also of several such releases."""
    done = event_from_dict(event(name))
    figures = {f"epsilon at {delta:g}": epsilon_at(done, delta) for delta in (1e-9, 1e-6, 1e-3)}
    return cut({**figures, "delta at 1": round(delta_at(done, 1.0), 9), "guess": best_guess(done)}, PRIVACY_DIGITS)


def composed():
    """The statement's figures of a release that comes after two others of the same table."""
    statement = private(rb.NoisyRados(2.0), n_rados=20, compose=two_holders()).statement
    return {
        "event": statement.event,
        **cut({"epsilon": statement.epsilon, "guess": statement.best_guess}, PRIVACY_DIGITS),
    }


def booked():
    """What a ledger has of a release."""
    books = rb.Ledger.create(folder() / "golden.ledger", f"table {len(os.listdir(folder()))}", epsilon=20.0)
    with mock.patch.object(secrets, "token_bytes", os.urandom):  # each booking has a name of its own
        private(rb.Moments(2.0), columns="linear", ledger=books)
    known = books.to_dict()
    return {name: known[name] for name in ("total", "spent", "left", "largest_epsilon")}


def noisy_score():
    table, y, _ = numbers()
    score = rb.score(model("boost"), table, y, epsilon=1.0, threads=2)
    return {"errors": score.errors, "hits": score.hits, "interval": score.interval, "noise": score.noise_std}


def foreseen():
    rows = (500, 20_000, 1_000_000)
    return [rb.preview_plan(rb.Moments(1.0), n, 8, word).to_dict() for n in rows for word in ("auto", "linear")]


NUMBERS = {
    **{f"release: {name}": partial(blocks, name) for name in PLAIN},
    **{f"private: {name}": partial(blocks, name) for name in PRIVATE},
    "rados drawn from moments": drawn,
    **{f"model: {name}": partial(coefficients, name) for name in MODELS},
    **{f"effects: {name}": partial(effects, name) for name in EXPORTED},
    **{f"predictions: {name}": partial(predictions, name) for name in PREDICTED},
    **{f"Python: {name}": partial(by_python, name) for name in EXPORTED},
    **{f"SQL: {name}": partial(by_sql, name) for name in EXPORTED},
    **{f"ONNX: {name}": partial(by_onnx, name) for name in EXPORTED},
    "events": lambda: {name: event(name) for name in PRIVATE},
    **{f"epsilons: {name}": partial(epsilons, name) for name in (
        "band", "moments, linear", "moments, small epsilon", "moments, room", "noisy rados", "noisy rados, given noise",
        "noisy rados, person",
    )},
    "composed": composed,
    "booked": booked,
    "noisy score": noisy_score,
    "foreseen": foreseen,
}  # fmt: skip


# ---- documents

FILES = ("two classes", "three classes", "band", "terms", "raw", "from shares", "moments, raw",
         "moments, auto", "moments, three classes", "moments, person", "moments, room", "noisy rados",
         "noisy examples")  # fmt: skip
MODEL_FILES = (
    "moments of raw, three classes",
    "moments of moments, raw, beyond linear",
    "boost",
    "average of two holders",
)


def rado(*words):
    """What a command prints."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@cache
def release_file(name):
    path = folder() / f"{name}.rado.parquet"
    release(name).save(path)
    return path


def document(name):
    return pq.ParquetFile(release_file(name)).metadata.metadata[b"radoboost"].decode()


def model_file(name):
    path = folder() / "golden.model.json"
    model(name).save(path)
    return path.read_text()


def statement(name):
    return release(name).statement.to_json() + "\n" + rado("show", release_file(name))


def schema_file(*words):
    path = folder() / "golden.schema.json"
    rado("schema", patients(), "--label", "ill", *words, "-o", path, "--force")
    return path.read_text()


def agreement():
    """What lies in a room once it is open."""
    return (
        rb.open_room(
            MemoryMailbox(),
            replace(schema(), rows=900, person=rb.Person("patient", 2)),
            parties=3,
            mechanism=rb.Moments(1.0),
        )
        .to_bytes()
        .decode()
    )


def commands():
    """All commands of rado by their words."""
    waiting = {"rado": typer.main.get_command(app)}
    while waiting:
        path, command = waiting.popitem()
        waiting |= {f"{path} {word}": child for word, child in getattr(command, "commands", {}).items()}
        yield path, command


def help_of(command):
    """What help says of a command and its options, whatever library lays it out."""
    shown = ("name", "opts", "secondary_opts", "metavar", "required", "default", "help", "hidden")
    options = [{name: str(getattr(one, name, "")) for name in shown} for one in command.params]
    return {"help": command.help, "options": options}


ACCOUNT = ("account", "--epsilon", 1)
DOCUMENTS = {
    **{f"file: {name}": partial(document, name) for name in FILES},
    **{f"statement: {name}": partial(statement, name) for name in FILES},
    **{f"model file: {name}": partial(model_file, name) for name in MODEL_FILES},
    "schema: declared": lambda: schema().to_dict(),
    "schema: template": schema_file,
    "schema: from data": partial(schema_file, "--from-data"),
    "agreement of a room": agreement,
    "account: moments": partial(rado, *ACCOUNT, "--rows", 5000, "--columns", 10),
    "account: noisy rados": partial(rado, *ACCOUNT, "--mechanism", "noisy-rados", "-n", 300),
    **{f"help: {path}": partial(help_of, command) for path, command in sorted(dict(commands()).items())},
}
GROUPS = {"numbers": NUMBERS, "documents": DOCUMENTS}


# ---- digests


def cut(value, digits=DIGITS):
    """Computed floats with as many digits as different processors agree on."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {str(key): cut(item, digits) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return cut(value.tolist(), digits)
    return [cut(item, digits) for item in value] if isinstance(value, list | tuple) else value


def blank(text):
    """The text without what differs by run, machine and version: names, digests, times, versions and folders."""
    text = text.replace(str(folder()), "FOLDER")
    text = re.sub(r"\b[0-9a-f]{32,}\b", "HEX", text)
    text = re.sub(r"\b(dp-accounting|radoboost) \d+(\.\w+)+", r"\1 VERSION", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.]*(Z|[+-]\d\d:\d\d)?", "TIME", text)
    return re.sub(r"-?\d+\.\d{6,}(e[+-]?\d+)?", lambda found: repr(cut(float(found[0]), PRIVACY_DIGITS)), text)


def text_of(name, **keys):
    """What is digested: blocks to the last bit, other numbers as they are cut, and documents as they are blanked."""
    group, made = next((group, made[name]) for group, made in GROUPS.items() if name in made)
    with fixed(**keys):
        value = made()
    if group == "documents":
        return blank(value if isinstance(value, str) else json.dumps(value, indent=1))
    exact = name.startswith(("release:", "private:"))
    return json.dumps(
        {key: rows.tolist() for key, rows in value.items()} if exact else cut(value), indent=1, sort_keys=True
    )


def digest(name, **keys):
    return hashlib.sha256(text_of(name, **keys).encode()).hexdigest()


def wanted():
    return {name: known for group in json.loads(GOLDEN.read_text()).values() for name, known in group.items()}


@pytest.mark.parametrize("name", [name for group in GROUPS.values() for name in group])
def test_golden(name):
    assert digest(name) == wanted()[name], f"changed; python {Path(__file__).name} --show {name!r} shows what it is now"


def test_no_artefact_is_gone():
    known = json.loads(GOLDEN.read_text())
    assert {group: set(names) for group, names in known.items()} == {group: set(made) for group, made in GROUPS.items()}


@pytest.mark.parametrize("name", ["private: moments, linear", "private: noisy rados", "private: noisy examples"])
def test_another_key_is_seen(name):
    release.cache_clear()
    assert digest(name, token_bytes=lambda size=32: bytes(size)) != wanted()[name]
    release.cache_clear()


def main(words):
    if words[:1] == ["--show"]:
        print(text_of(words[1]))
    elif words == ["--write"]:
        made = {group: {name: digest(name) for name in names} for group, names in GROUPS.items()}
        GOLDEN.write_text(json.dumps(made, indent=1) + "\n")
    else:
        known = wanted()
        print("\n".join(name for group in GROUPS.values() for name in group if digest(name) != known.get(name)))


if __name__ == "__main__":
    main(sys.argv[1:])
