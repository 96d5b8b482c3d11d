"""A model as an ONNX graph in double precision: raw columns go in, labels and probabilities come out."""

from typing import Any

import numpy as np

from radoboost.errors import ModelError
from radoboost.learner.export.onnx_cells import encoded_cells
from radoboost.learner.export.onnx_nodes import IR_VERSION, OPSET, Nodes
from radoboost.learner.export.summary import summary
from radoboost.learner.link import Link
from radoboost.learner.model import Model
from radoboost.release.maps import FeatureMap

_OUTPUTS = ("label", "probabilities")


def onnx_bytes(model: Model) -> bytes:
    """The model as the content of an ONNX file, checked by the library's own checker.

    The inputs have shape (rows, 1). A number is tensor(double), NaN where it is missing; a category is tensor(string);
    a date is tensor(int64), seconds since 1970. The outputs are `label`, shape (rows), and `probabilities`, a column
    for each class; they are NaN where a row has no score.
    """
    nodes = Nodes([*_OUTPUTS, *model.feature_names])
    onnx = nodes.onnx
    values, refused = _encoded(nodes, model)
    if model.map is not None:
        values = _mapped(nodes, model, model.map, values)
    scores = _scores(nodes, model, values)
    usable = nodes.op("Less", nodes.op("Abs", scores), np.inf)
    if model.n_classes > 2:  # no score of a row counts where one is none
        least = nodes.op("ReduceMin", nodes.cast(usable, "DOUBLE"), np.array([1]))
        usable = nodes.op("Greater", least, 0.5)
    if refused:
        usable = nodes.both(usable, nodes.op("Not", refused))
    scores = nodes.op("Where", usable, scores, np.nan)
    outputs = _outputs(nodes, model, scores)
    graph = onnx.helper.make_graph(
        nodes.nodes, "radoboost", nodes.inputs, outputs, [tensor for _, tensor in nodes.constants.values()]
    )
    words = summary(model)
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


def _input_name(name: str) -> str:
    """What a raw column is called in the graph, where outputs have names of their own."""
    return f"raw:{name}" if name in ("", *_OUTPUTS) else name


def _encoded(nodes: Nodes, model: Model) -> tuple[str, str]:
    """All encoded columns, and, without a schema, where a row has an infinite value: it is refused."""
    if model.schema is not None:
        columns = model.schema.columns
        parts = [encoded_cells(nodes, _input_name(name), columns[name]) for name in model.schema.used]
        return nodes.joined(parts), ""
    raw = nodes.joined([nodes.input(_input_name(name), "DOUBLE") for name in model.input_names])
    filled = nodes.op("Where", nodes.op("IsNaN", raw), model.neutral[None, :], raw)
    infinite = nodes.op("IsInf", filled)
    count = nodes.op("ReduceMax", nodes.cast(infinite, "DOUBLE"), np.array([1]))
    return nodes.op("Where", infinite, 0.0, filled), nodes.op("Greater", count, 0.5)


# ---- feature maps


def _mapped(nodes: Nodes, model: Model, feature_map: FeatureMap, values: str) -> str:
    """The columns that a feature map makes, in order."""
    inputs = _inputs(nodes, feature_map, model.input_names, values)
    polynomials, ends = _polynomials(nodes, feature_map, inputs), np.cumsum([0, *feature_map.degrees])
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


def _polynomials(nodes: Nodes, feature_map: FeatureMap, inputs: str) -> str:
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


def _inputs(nodes: Nodes, feature_map: FeatureMap, names: tuple[str, ...], values: str) -> str:
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
    return nodes.op("Where", ranked, _levels(nodes, feature_map, v), v) if ranked.any() else v


def _levels(nodes: Nodes, feature_map: FeatureMap, v: str) -> str:
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


def _scores(nodes: Nodes, model: Model, values: str) -> str:
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


def _outputs(nodes: Nodes, model: Model, scores: str) -> list[Any]:
    """Labels and probabilities, under their names."""
    if model.n_classes > 2:
        shares = nodes.op("Softmax", scores, axis=1)
        places = nodes.op("ArgMax", scores, axis=1, keepdims=0)
    else:
        log_odds = scores if model.link is None else _log_odds(nodes, model.link, scores)
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


def _log_odds(nodes: Nodes, link: Link, scores: str) -> str:
    if link.shifted:
        scores = nodes.op("Sub", scores, float(link.origin))
    bent = nodes.op("Abs", nodes.op("Mul", scores, float(np.sqrt(link.bend))))
    near = nodes.op("Sqrt", nodes.op("Add", nodes.op("Mul", bent, bent), 1.0))
    length = nodes.op("Where", nodes.op("Greater", bent, 1e9), bent, near)  # beyond, 1 is less than the last bit
    slopes = nodes.op("Where", nodes.op("Greater", scores, 0.0), float(link.up), float(link.down))
    log_odds = nodes.op("Div", nodes.op("Mul", slopes, scores), length)
    return nodes.op("Add", log_odds, float(link.offset)) if link.shifted else log_odds
