"""`craft` and others with flat options, for tests that vary them one by one: a schema, a mechanism and a place."""

from dataclasses import fields, replace

import radoboost as rb
from radoboost.holder import table_check
from radoboost.holder.craft import craft_request
from radoboost.holder.request import CraftRequest, as_mechanism
from radoboost.holder.rooms import agreement
from radoboost.release.composition import earlier_releases

ABOUT = {"features": "use", "missing": "gaps", "share": "shared"}
NAMES = ("features", "use", "drop", "missing", "unlabelled", "separator", "decimal", "rows", "share")
SETTINGS, COMPUTE = ("scale", "first_row", "intercept", "i_know"), ("engine", "threads", "cluster", "trust_network")


def declared(options):
    """The schema and the mechanism of flat options, which are taken out of them."""
    given = {ABOUT.get(name, name): options.pop(name) for name in NAMES if name in options}
    about = {name: value for name, value in given.items() if value is not None}
    about = {name: listed(value) if name in ("use", "drop", "shared") else value for name, value in about.items()}
    person, max_rows = options.pop("person", None), options.pop("max_rows", 1)
    if person is not None:
        about["person"] = rb.Person(person, max_rows)
    bounds = options.pop("bounds", None)
    schema = replace(rb.Schema.of(options.pop("schema", bounds)), **about)
    mechanism = as_mechanism(options.pop("mechanism", None), options.pop("epsilon", None))
    known = {item.name for item in fields(mechanism)}
    settings = {name: options.pop(name) for name in SETTINGS if name in options}
    return schema, replace(mechanism, **{name: value for name, value in settings.items() if name in known})


def listed(names):
    return (names,) if isinstance(names, str) else tuple(names) if hasattr(names, "__iter__") else names


def request(y=None, **options):
    """The request, and options of `craft_request`."""
    weights = options.pop("weights", None)
    schema, mechanism = declared(options)
    if isinstance(weights, str):
        schema = replace(schema, weights=weights)
    compute = rb.Compute(**{name: options.pop(name) for name in COMPUTE if name in options})
    rest = {name: options.pop(name) for name in ("ledger", "counts", "progress", "place") if name in options}
    asked = CraftRequest.of(
        schema, mechanism, y=y, earlier=earlier_releases(options.pop("compose", ())),
        row_weights=None if isinstance(weights, str) else weights, **options,
    )  # fmt: skip
    return asked, {**rest, "compute": compute}


def craft(table, y=None, **options):
    asked, others = request(y, **options)
    return craft_request(table, y, asked, **others)


def check_table(table, y=None, **options):
    asked, _ = request(y, **{"mechanism": rb.Moments(1.0), **options})
    return table_check.check_table(table, y, schema=asked.schema)


def share(table, y=None, **options):
    weights = {"weights": options.pop("weights")} if isinstance(options.get("weights"), str) else {}
    schema, mechanism = declared(options)
    return rb.share(table, y, schema=replace(schema, **weights), mechanism=mechanism, **options)


def open_room(room, **options):
    schema, mechanism = declared(options)
    return rb.open_room(room, schema, mechanism, **options)


def make_agreement(**options):
    schema, mechanism = declared(options)
    return agreement.make_agreement(schema, mechanism, **options)
