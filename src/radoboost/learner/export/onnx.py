"""A model as an ONNX graph in double precision: raw columns go in, labels and probabilities come out."""

from collections.abc import Collection, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ModelError, install
from radoboost.learner.export import INFINITE, folds_of_keys, places_as_programs_write, summary_of_exported_model
from radoboost.learner.model import Model
from radoboost.learner.probabilities import ProbabilityLink
from radoboost.release.feature_map import FeatureMap
from radoboost.tables.cells import GAPS
from radoboost.tables.column_types import (
    FIRST,
    GAP,
    LAST,
    PARTS,
    UNITS,
    Category,
    Date,
    Kind,
    Number,
    seconds_of_iso_date,
)
from radoboost.tables.csv_dialect import CsvDialect
from radoboost.tables.labels import LONGEST_LABEL

# ---- A graph of ONNX operations while it is being written: names, constants, and operations made of others.

OPSET, IR_VERSION = 20, 9  # the first that has regular expressions
_TYPES = {"f": "DOUBLE", "i": "INT64", "b": "BOOL", "O": "STRING"}


def onnx_library() -> ModuleType:
    try:
        import onnx
    except ImportError:
        raise ArgumentError(f"exporting to ONNX needs the library onnx: {install('export')}") from None
    module: ModuleType = onnx
    return module


class Nodes:
    """Operations in the order of computing; every method gives the name of a result.

    Everything has a row for each row of the table; numbers are float64, and truth values are kept as such.
    """

    def __init__(self, taken: Collection[str]) -> None:
        self.onnx = onnx_library()
        self.nodes: list[Any] = []
        self.constants: dict[tuple[Any, ...], tuple[str, Any]] = {}
        self.inputs: list[Any] = []
        self.prefix = "r"
        while any(name.startswith(self.prefix) for name in taken):
            self.prefix += "_"

    def input(self, name: str, kind: str) -> str:
        """A column of the table, shape (rows, 1)."""
        tensor_type = getattr(self.onnx.TensorProto, kind)
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, tensor_type, ["rows", 1]))
        return name

    def op(self, kind: str, *operands: Any, **attributes: Any) -> str:
        """One operation; operands that are not names are constants."""
        names = [operand if isinstance(operand, str) else self.constant(operand) for operand in operands]
        result = f"{self.prefix}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [result], **attributes))
        return result

    def constant(self, values: Any) -> str:
        """An array of numbers, truth values or texts, each kept once."""
        array = np.asarray(values)
        array = array.astype(object) if array.dtype.kind in "UO" else array
        content = tuple(array.ravel().tolist()) if array.dtype.kind == "O" else array.tobytes()
        key = array.dtype.kind, array.shape, content
        if key not in self.constants:
            name = f"{self.prefix}c{len(self.constants)}"
            kind = getattr(self.onnx.TensorProto, _TYPES[array.dtype.kind])
            items = array.ravel().tolist()
            items = [text.encode() for text in items] if array.dtype.kind == "O" else items
            self.constants[key] = name, self.onnx.helper.make_tensor(name, kind, array.shape, items)
        return self.constants[key][0]

    # ---- numbers

    def cast(self, x: str, kind: str) -> str:
        """Another type: DOUBLE, INT64 or BOOL."""
        return self.op("Cast", x, to=getattr(self.onnx.TensorProto, kind))

    def clip(self, x: str, low: Any, high: Any) -> str:
        """The nearest numbers between bounds, which may be infinite."""
        return self.op("Min", self.op("Max", x, low), high)

    def scaled(self, x: str, constants: NDArray[np.float64]) -> str:
        """Columns by the one formula; `constants` has a row for each: low, high, shift, factor, divisor, offset."""
        low, high, shift, factor, divisor, offset = constants.T[:, None, :]
        v = self.op("Mul", self.op("Sub", self.clip(x, low, high), shift), factor)
        return self.op("Sub", self.op("Div", v, divisor), offset)

    def signed_log(self, x: str) -> str:
        """Logarithms of 1 and the magnitude, with the sign."""
        return self.op("Mul", self.op("Sign", x), self.op("Log", self.op("Add", self.op("Abs", x), 1.0)))

    def columns(self, x: str, places: list[int]) -> str:
        """Some columns, in this order."""
        return self.op("Gather", x, np.array(places, dtype=np.int64), axis=1)

    def joined(self, parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=1)

    def row_sum(self, x: str, width: int) -> str:
        """The sum of all columns, added one after another, as one column."""
        return self.columns(self.op("CumSum", x, np.array(1)), [width - 1])

    # ---- truth values

    def either(self, *parts: str) -> str:
        result = parts[0]
        for part in parts[1:]:
            result = self.op("Or", result, part)
        return result

    def both(self, first: str, second: str) -> str:
        return self.op("And", first, second)

    def matches(self, text: str, pattern: str) -> str:
        return self.op("RegexFullMatch", text, pattern=pattern)


# ---- Raw columns in ONNX: numbers as float64, NaN where missing; categories as texts; dates as seconds since 1970.

# What str.strip takes away. ONNX has no strip, so patterns do it.
_SPACE = r"[\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*"
# Numbers that no conversion can refuse as too large or too small: it would stop all rows.
_NUMBER = r"[\t-\r ]*[+-]?(?:[0-9]{1,200}(?:\.[0-9]{0,200})?|\.[0-9]{1,200})(?:[eE][+-]?0{0,200}[0-9]{1,2})?" + _SPACE
_WORDS = {1.0: "[tT][rR][uU][eE]", 0.0: "[fF][aA][lL][sS][eE]"}


def onnx_encoded_cells(nodes: Nodes, name: str, kind: Kind, marks: CsvDialect) -> str:
    """The encoded columns of a raw column, by its kind."""
    if isinstance(kind, Category):
        return _onnx_category(nodes, nodes.input(name, "STRING"), kind, marks)
    assert isinstance(kind, Number | Date)
    parts: list[str] = []
    if isinstance(kind, Date):
        seconds = nodes.input(name, "INT64")
        after, before = (
            nodes.op("GreaterOrEqual", seconds, np.array(FIRST)),
            nodes.op("Less", seconds, np.array(LAST + 1)),
        )
        known = nodes.both(after, before)
        seconds = nodes.op("Where", known, seconds, np.array(0))
        since = nodes.cast(nodes.op("Sub", seconds, np.array(seconds_of_iso_date(kind.origin))), "DOUBLE")
        number, missing = nodes.op("Div", since, float(UNITS[kind.unit])), nodes.op("Not", known)
    else:
        number = nodes.input(name, "DOUBLE")
        missing = nodes.either(nodes.op("IsNaN", number), nodes.op("IsInf", number))
    missing = nodes.either(missing, *(nodes.op("Equal", number, code) for code in kind.codes()))
    if kind.beyond == GAP:
        low, high = map(float, kind.bounds())
        missing = nodes.either(missing, nodes.op("Less", number, low), nodes.op("Greater", number, high))
    if isinstance(kind, Date):
        known = nodes.op("Not", missing)
        parts = [_onnx_date_part(nodes, seconds, known, part) for part in kind.parts]
    number = nodes.op("Where", missing, kind.filled(), number)
    return nodes.joined([number, *([nodes.cast(missing, "DOUBLE")] if kind.gaps else []), *parts])


def _onnx_date_part(nodes: Nodes, seconds: str, known: str, part: str) -> str:
    """Columns of 0 and 1 for the weekday or the month."""

    def whole(kind: str, x: str, by: int) -> str:
        return nodes.op(kind, x, np.array(by))

    days = whole("Div", nodes.op("Sub", seconds, whole("Mod", seconds, 86400)), 86400)
    if part == "weekday":
        place = whole("Mod", whole("Add", days, 3), 7)
    else:
        # Days since the first of March of a year that 400 divides, then the year within these 400, then the month.
        day = whole("Mod", whole("Add", days, 719468), 146097)
        leap = nodes.op(
            "Sub", whole("Div", day, 36524), nodes.op("Add", whole("Div", day, 1460), whole("Div", day, 146096))
        )
        year = whole("Div", nodes.op("Add", day, leap), 365)
        leap = nodes.op("Sub", whole("Div", year, 4), whole("Div", year, 100))
        day = nodes.op("Sub", day, nodes.op("Add", whole("Mul", year, 365), leap))
        month = whole("Div", whole("Add", whole("Mul", day, 5), 2), 153)  # from 0 for March
        place = whole("Mod", whole("Add", month, 2), 12)
    slots = nodes.op("Equal", place, np.arange(len(PARTS[part]))[None, :])
    return nodes.cast(nodes.both(slots, known), "DOUBLE")


def _onnx_category(nodes: Nodes, text: str, kind: Category, marks: CsvDialect) -> str:
    """Columns of 0 and 1, of which at most one is 1."""
    places, folds = places_as_programs_write(kind, marks), folds_of_keys(kind)
    short = nodes.matches(text, f"(?s:.{{0,1000}}.{{0,{LONGEST_LABEL - 1000}}})")
    numbers = ""
    if not all(isinstance(key, str) for key in places):
        is_number = nodes.matches(text, _NUMBER)
        number = nodes.cast(nodes.op("Where", is_number, text, np.array("0")), "DOUBLE")
        numbers = nodes.op("Where", is_number, number, np.nan)
    slots: dict[int, list[str]] = {place: [] for place in range(len(list(kind.encoded(""))))}
    for key, place in places.items():
        word = _quote_for_onnx_pattern(key, folds) if isinstance(key, str) else _WORDS.get(float(key), "")
        if not isinstance(key, str):
            slots[place].append(nodes.op("Equal", numbers, float(key)))
        if key in INFINITE:
            word = f"(?i:{'|'.join(map(_quote_for_onnx_pattern, INFINITE[key]))})"
        if word:
            slots[place].append(nodes.matches(text, f"{_SPACE}{word}{_SPACE}"))
    for place in range(len(kind.values or ())):
        slots[place] = [nodes.both(nodes.either(*slots[place]), short)]
    other = nodes.op("Not", nodes.either(*(slot for own in slots.values() for slot in own)))
    words = "|".join(_quote_for_onnx_pattern(word) for word in sorted(GAPS))
    gap = nodes.both(nodes.both(nodes.matches(text, rf"[ \t]*(?:{words})[ \t]*"), short), other)
    unknown = nodes.both(other, nodes.op("Not", gap))
    for slot, where in ((unknown, kind.slot_of_other), (gap, kind.slot_of_gap)):
        if where is not None:
            slots[where].append(slot)
    return nodes.cast(nodes.joined([nodes.either(*own) for own in slots.values()]), "DOUBLE")


def _quote_for_onnx_pattern(word: str, folds: Mapping[int, int] = MappingProxyType({})) -> str:
    """A text for a pattern, to be taken as it is, or with any letter that is folded to one of its own."""
    letters = [[code, *(other for other, small in folds.items() if small == code)] for code in map(ord, word)]
    quoted = [[chr(c) if c < 128 and chr(c).isalnum() else rf"\x{{{c:x}}}" for c in codes] for codes in letters]
    return "".join(codes[0] if len(codes) == 1 else f"[{''.join(codes)}]" for codes in quoted)


_OUTPUTS = ("label", "probabilities")


def onnx_bytes(model: Model) -> bytes:
    """The model as the content of an ONNX file, checked by the library's own checker.

    The inputs have shape (rows, 1). A number is tensor(double), NaN where it is missing; a category is tensor(string);
    a date is tensor(int64), seconds since 1970. The outputs are `label`, shape (rows), and `probabilities`, a column
    for each class; they are NaN where a row has no score.
    """
    nodes = Nodes([*_OUTPUTS, *model.feature_names])
    onnx = nodes.onnx
    values, refused = _onnx_encoded_columns(nodes, model)
    if model.map is not None:
        values = _onnx_map_columns(nodes, model, model.map, values)
    scores = _onnx_scores(nodes, model, values)
    usable = nodes.op("Less", nodes.op("Abs", scores), np.inf)
    if model.n_classes > 2:  # no score of a row counts where one is none
        least = nodes.op("ReduceMin", nodes.cast(usable, "DOUBLE"), np.array([1]))
        usable = nodes.op("Greater", least, 0.5)
    if refused:
        usable = nodes.both(usable, nodes.op("Not", refused))
    scores = nodes.op("Where", usable, scores, np.nan)
    outputs = _onnx_outputs(nodes, model, scores)
    graph = onnx.helper.make_graph(
        nodes.nodes, "radoboost", nodes.inputs, outputs, [tensor for _, tensor in nodes.constants.values()]
    )
    words = summary_of_exported_model(model)
    name, _, number = words["producer"].partition(" ")
    proto = onnx.helper.make_model(
        graph, producer_name=name, producer_version=number, opset_imports=[onnx.helper.make_opsetid("", OPSET)]
    )
    proto.ir_version = IR_VERSION
    onnx.helper.set_model_props(proto, words)
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ModelError(f"the model cannot be written as ONNX: {str(error).splitlines()[0]}") from None
    return bytes(proto.SerializeToString())


def _onnx_input_name(name: str) -> str:
    """What a raw column is called in the graph, where outputs have names of their own."""
    return f"raw:{name}" if name in ("", *_OUTPUTS) else name


def _onnx_encoded_columns(nodes: Nodes, model: Model) -> tuple[str, str]:
    """All encoded columns, and, without a schema, where a row has an infinite value: it is refused."""
    if model.schema is not None:
        kinds, marks = model.reading_kinds, model.schema.marks
        parts = [onnx_encoded_cells(nodes, _onnx_input_name(name), kinds[name], marks) for name in model.schema.used]
        return nodes.joined(parts), ""
    raw = nodes.joined([nodes.input(_onnx_input_name(name), "DOUBLE") for name in model.input_names])
    filled = nodes.op("Where", nodes.op("IsNaN", raw), model.neutral[None, :], raw)
    infinite = nodes.op("IsInf", filled)
    count = nodes.op("ReduceMax", nodes.cast(infinite, "DOUBLE"), np.array([1]))
    return nodes.op("Where", infinite, 0.0, filled), nodes.op("Greater", count, 0.5)


# ---- feature maps


def _onnx_map_columns(nodes: Nodes, model: Model, feature_map: FeatureMap, values: str) -> str:
    """The columns that a feature map makes, in order."""
    inputs = _onnx_map_inputs(nodes, feature_map, model.input_names, values)
    polynomials, ends = _onnx_polynomials(nodes, feature_map, inputs), np.cumsum([0, *feature_map.degrees])
    # By degree first, as the graph has them, and not by input.
    by_degree = {
        int(ends[k]) + degree: None
        for degree in range(max(feature_map.degrees))
        for k, most in enumerate(feature_map.degrees)
        if degree < most
    }
    place = {polynomial: k for k, polynomial in enumerate(by_degree)}
    parts, order, factors = [], [], feature_map.factors
    for count in sorted({len(places) for places in factors}):
        terms = [k for k, places in enumerate(factors) if len(places) == count]
        product = nodes.columns(polynomials, [place[factors[k][0]] for k in terms])
        for j in range(1, count):
            product = nodes.op("Mul", product, nodes.columns(polynomials, [place[factors[k][j]] for k in terms]))
        weights = np.array([[feature_map.terms[k].factor for k in terms]])
        parts.append(product if (weights == 1.0).all() else nodes.op("Mul", product, weights))
        order += terms
    return nodes.columns(nodes.joined(parts), np.argsort(order).tolist())


def _onnx_polynomials(nodes: Nodes, feature_map: FeatureMap, inputs: str) -> str:
    """The Legendre polynomials of all inputs: those of the first degree, then those of the second, and so on."""
    degrees = feature_map.degrees
    parts, before, last, some = [inputs], "", inputs, list(range(len(degrees)))
    for k in range(1, max(degrees)):
        kept = [place for place, which in enumerate(some) if degrees[which] > k]
        some = [some[place] for place in kept]
        last, v = nodes.columns(last, kept), nodes.columns(inputs, some)
        less = nodes.op("Mul", nodes.columns(before, kept), float(k)) if before else 1.0
        more = nodes.op("Sub", nodes.op("Mul", nodes.op("Mul", v, 2.0 * k + 1), last), less)
        before, last = last, nodes.op("Div", more, k + 1.0)
        parts.append(last)
    return nodes.joined(parts)


def _onnx_map_inputs(nodes: Nodes, feature_map: FeatureMap, names: tuple[str, ...], values: str) -> str:
    entries = feature_map.inputs
    v = nodes.columns(values, [names.index(entry.name) for entry in entries])
    constants = [
        (
            -np.inf if entry.low is None else entry.low,
            np.inf if entry.high is None else entry.high,
            *(entry.shift, entry.factor, entry.divisor, entry.offset),
        )
        for entry in entries
    ]
    v = nodes.scaled(v, np.array(constants, dtype=np.float64))
    logged = np.array([[entry.log for entry in entries]])
    if logged.any():
        v = nodes.op("Where", logged, nodes.signed_log(v), v)
    limits = np.array([[np.inf if entry.limit is None else entry.limit for entry in entries]], dtype=np.float64)
    v = nodes.clip(v, -limits, limits)
    ranked = np.array([[bool(entry.levels) for entry in entries]])
    return nodes.op("Where", ranked, _onnx_levels(nodes, feature_map, v), v) if ranked.any() else v


def _onnx_levels(nodes: Nodes, feature_map: FeatureMap, v: str) -> str:
    """The lines through levels; for inputs without levels, anything."""
    levels = [entry.levels or (0.0, 0.0) for entry in feature_map.inputs]
    counts = np.array([[len(own) for own in levels]])
    point = nodes.op("Mul", nodes.op("Add", v, 1.0), (counts - 1) / 2)
    last = (counts - 2).astype(np.float64)
    k = nodes.op("Floor", nodes.clip(point, np.zeros((1, 1)), last))
    starts = np.cumsum([0, *(len(own) for own in levels)])[:-1][None, :]
    place = nodes.op("Add", nodes.cast(k, "INT64"), starts)
    table = np.array([level for own in levels for level in own], dtype=np.float64)
    low, high = nodes.op("Gather", table, place), nodes.op("Gather", table, nodes.op("Add", place, np.array(1)))
    return nodes.op("Add", low, nodes.op("Mul", nodes.op("Sub", point, k), nodes.op("Sub", high, low)))


# ---- scores and classes


def _onnx_scores(nodes: Nodes, model: Model, values: str) -> str:
    """The score of each row, or of more than two classes one for each."""
    thetas = np.atleast_2d(model.theta)
    places, constants, rows = [], [], []
    place = 0
    for theta, column in zip(thetas.T, model.columns, strict=True):
        constant = column.scale == "constant"
        if constant or theta.any():
            # A constant is any column between the bounds 1 and 1.
            places.append(0 if constant else place)
            constants.append((1.0, 1.0, 0.0, 1.0, 1.0, 0.0) if constant else column.constants)
            rows.append(theta)
        place += not constant
    if not rows:
        places, constants, rows = [0], [(1.0, 1.0, 0.0, 1.0, 1.0, 0.0)], [np.zeros(len(thetas))]
    scaled = nodes.scaled(nodes.columns(values, places), np.array(constants, dtype=np.float64))
    weights = np.array(rows).T[:, None, :]
    return nodes.joined([nodes.row_sum(nodes.op("Mul", scaled, own), len(rows)) for own in weights])


def _onnx_outputs(nodes: Nodes, model: Model, scores: str) -> list[Any]:
    """Labels and probabilities, under their names."""
    if model.n_classes > 2:
        shares = nodes.op("Softmax", scores, axis=1)
        places = nodes.op("ArgMax", scores, axis=1, keepdims=0)
    else:
        log_odds = scores if model.link is None else _onnx_log_odds(nodes, model.link, scores)
        shares = nodes.joined([nodes.op("Sigmoid", nodes.op("Neg", log_odds)), nodes.op("Sigmoid", log_odds)])
        places = nodes.op("Reshape", nodes.cast(nodes.op("Greater", scores, 0.0), "INT64"), np.array([-1]))
    classes = np.array(model.classes)
    kind = {"b": "BOOL", "i": "INT64", "f": "DOUBLE"}.get(classes.dtype.kind, "STRING")
    labels = nodes.op("Gather", classes, places, axis=0)
    value_info, types = nodes.onnx.helper.make_tensor_value_info, nodes.onnx.TensorProto
    for result, name in ((labels, "label"), (shares, "probabilities")):
        nodes.nodes.append(nodes.onnx.helper.make_node("Identity", [result], [name]))
    return [
        value_info("label", getattr(types, kind), ["rows"]),
        value_info("probabilities", types.DOUBLE, ["rows", model.n_classes]),
    ]


def _onnx_log_odds(nodes: Nodes, link: ProbabilityLink, scores: str) -> str:
    if link.shifted:
        scores = nodes.op("Sub", scores, float(link.origin))
    bent = nodes.op("Abs", nodes.op("Mul", scores, float(np.sqrt(link.bend))))
    near = nodes.op("Sqrt", nodes.op("Add", nodes.op("Mul", bent, bent), 1.0))
    length = nodes.op("Where", nodes.op("Greater", bent, 1e9), bent, near)  # beyond, 1 is less than the last bit
    slopes = nodes.op("Where", nodes.op("Greater", scores, 0.0), float(link.up), float(link.down))
    log_odds = nodes.op("Div", nodes.op("Mul", slopes, scores), length)
    return nodes.op("Add", log_odds, float(link.offset)) if link.shifted else log_odds
