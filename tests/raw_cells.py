"""Raw rows with gaps, odd spellings, unseen values and extreme numbers, and models for them."""

import warnings
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

import radoboost as rb

N_ROWS = 10_000
ODD_NAMES = {"age": 'age "years"', "dose": "dose, daily", "ward": "Stätion's", "grade": "grade", "seen": "seen; at"}
WARDS = ("A", "it's", 'B "2"', "heart attack", "é☃", "NA")
GRADES = (1, 2, 2.5, 1000)
WORDS_FOR_GAPS = ("", "NA", "nan", " ", "?", "n/a", "NULL")


# ---- raw cells: each with the spelling and with what it is


def number_cells(rng, n, infinite=True):
    """Texts, and the numbers that they are; NaN where they are none."""
    plain = rng.normal(50, 30, n)
    extreme = rng.choice([1e300, -1e300, 1e17, -1e-5, 5e-324, 2.5e-310, 0.0, -0.0, 123456789.0], n)
    numbers = np.where(rng.random(n) < 0.15, extreme, plain)
    numbers = np.where(rng.random(n) < 0.2, np.rint(plain), numbers)
    texts = []
    for k, x in enumerate(numbers.tolist()):
        spellings = [repr(x), f" {x!r}\t", f"{x:.17e}", f"{x:.16E} "]
        if x == int(x) and abs(x) < 1e15:
            spellings += [f"{int(x)}", f"{int(x)}.", f"{int(x)}.00", f"{'-' if x < 0 else '+'}000{abs(int(x))}"]
        texts.append(spellings[k % len(spellings)])
    for k in np.flatnonzero(rng.random(n) < 0.12):
        if k % 3:
            texts[k], numbers[k] = WORDS_FOR_GAPS[k % len(WORDS_FOR_GAPS)], np.nan
        else:
            odd = ["few", "1,5", "0x10", "1_000", "\u0661", "1e", "--1", "9" * 400 + "e5", "1 2", "x" * 5000, "1e999"]
            odd += ["inf", "-Infinity", "TRUE", " false"] if infinite else []
            texts[k] = odd[k % len(odd)]
            numbers[k] = {"TRUE": 1.0, " false": 0.0}.get(texts[k], np.nan)
    return texts, numbers


def category_cells(rng, n, values, others):
    texts = []
    for k in range(n):
        value = values[int(rng.integers(len(values)))]
        if isinstance(value, str):
            spellings = [value, f" {value}", f"{value}\t ", f"\u00a0{value}\u3000", f"{value}\n"]
        else:
            spellings = [f"{value}", f" {value} ", f"{float(value)}", f"+{value}", f"{float(value):.3e}", f"0{value}\n"]
        texts.append(spellings[k % len(spellings)])
    for k in np.flatnonzero(rng.random(n) < 0.25):
        texts[k] = others[k % len(others)]
    return texts


def date_cells(rng, n):
    """Texts, and the seconds that they are; None where they are no date."""
    seconds = rng.integers(-3_000_000_000, 4_000_000_000, n)
    moments = seconds.astype("M8[s]").tolist()
    texts, known = [], [int(s) for s in seconds]
    for k, moment in enumerate(moments):
        day = known[k] // 86400 * 86400
        form = k % 6
        if form == 0:
            texts.append(f"{moment.day}.{moment.month}.{moment.year}")
        elif form == 1:
            texts.append(f" {moment.isoformat()} ")
        elif form == 2:
            texts.append(f"{moment:%d/%m/%Y %H:%M}")
        elif form == 3:
            texts.append(f"{moment.isoformat(sep=' ')}.75+02:30")
        elif form == 4:
            texts.append(f"{moment:%Y-%m-%dT%H:%M:%S}Z")
        else:
            texts.append(f"{moment:%Y-%m-%d}")
        known[k] = {0: day, 2: known[k] - known[k] % 60, 3: known[k] - 9000, 5: day}.get(form, known[k])
    odd = ["30.2.2024", "2024-13-01", "29.2.2023", "0000-01-01", "2024-01-31 24:00", "yesterday", "", "NA", "20240131"]
    for k in np.flatnonzero(rng.random(n) < 0.15):
        texts[k], known[k] = odd[k % len(odd)], None
    return texts, known


@lru_cache
def raw_rows(seed, n=N_ROWS):
    """A raw table as texts, and as ONNX takes it."""
    rng = np.random.default_rng(seed)
    texts, fed = {}, {}
    for name in ("age", "dose"):
        texts[ODD_NAMES[name]], fed[ODD_NAMES[name]] = number_cells(rng, n)
    odd = ["Z", "", " ", "NULL", "a", "heart  attack", "x" * 3000, "A" + " " * 2000, "-", "fal\u017fe", "NA "]
    texts[ODD_NAMES["ward"]] = category_cells(rng, n, WARDS, odd)
    odd = ["3", "", "NaN", "true", "TRUE", "false", "1e400", "9" * 300, "0.5", "two", "1" + "0" * 1100, "1.5.2"]
    texts[ODD_NAMES["grade"]] = category_cells(rng, n, GRADES, odd)
    for name in ("ward", "grade"):
        fed[ODD_NAMES[name]] = np.array(texts[ODD_NAMES[name]], dtype=object)
    texts[ODD_NAMES["seen"]], known = date_cells(rng, n)
    lowest = np.iinfo(np.int64).min
    fed[ODD_NAMES["seen"]] = np.array([lowest if s is None else s for s in known], dtype=np.int64)
    return texts, fed


# ---- models


def schema(**options):
    return rb.Schema(
        {
            "id": rb.Ignored("id"),
            ODD_NAMES["age"]: rb.Number(0, 120, gaps=True, fill=50),
            ODD_NAMES["dose"]: rb.Number(-200, 300),
            ODD_NAMES["ward"]: rb.Category(WARDS, other=True, gaps=True),
            ODD_NAMES["grade"]: rb.Category(GRADES),
            ODD_NAMES["seen"]: rb.Date(
                low="1960-01-01", high="2030-12-31", order="dmy", unit="hours", gaps=True, parts=("month", "weekday")
            ),
        },
        **options,
    )


def training(seed=5, n=4000):
    """A table without anything odd, and labels that depend on it."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(0, 120, n), rng.normal(50, 60, n)
    table = {
        "id": [str(k) for k in range(n)],
        ODD_NAMES["age"]: [None if k % 9 == 0 else float(x) for k, x in enumerate(age)],
        ODD_NAMES["dose"]: dose.tolist(),
        ODD_NAMES["ward"]: [None if k % 11 == 0 else WARDS[k % 6] if k % 7 else "other" for k in range(n)],
        ODD_NAMES["grade"]: [GRADES[k] for k in rng.integers(4, size=n)],
        ODD_NAMES["seen"]: rng.integers(-300_000_000, 1_900_000_000, n).astype("M8[s]"),
    }
    score = (age - 60) / 30 + np.sin(dose / 40) + np.array([word == "A" for word in table[ODD_NAMES["ward"]]])
    return table, np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")


@lru_cache
def learned(columns, mechanism=None):
    table, y = training()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = rb.craft(
            pa.table(table),
            y,
            schema=schema(),
            columns=columns,
            mechanism=mechanism,
            classes=("no", "yes"),
            counts=None,
        )
        return rb.MomentsClassifier().fit_rados(release).model_


@lru_cache
def learned_classes(columns):
    """A model of three classes, learned from a release."""
    table, y = training()
    y = np.where(np.array(table[ODD_NAMES["dose"]]) > 90, "perhaps", y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = rb.craft(
            pa.table(table),
            y,
            schema=schema(),
            columns=columns,
            classes=("no", "perhaps", "yes"),
            counts=None,
        )
        return rb.MomentsClassifier().fit_rados(release).model_


def of_classes(model, classes, seed=0):
    """The same columns with a row of weights for each of several classes."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(len(classes), len(model.columns))) * (0.2 + np.abs(model.theta))
    return replace(model, theta=theta, classes=classes, link=None, effects=None)
