"""Schemas of columns of numbers, as files."""

import json
from pathlib import Path


def write_schema(place, bounds, label=None, classes=None, **more):
    """Write the schema of these columns, by (low, high), or "private" for both; gives its path."""
    pairs = {name: (pair, pair) if isinstance(pair, str) else pair for name, pair in bounds.items()}
    columns = {name: {"kind": "number", "low": low, "high": high} for name, (low, high) in pairs.items()}
    document = {"radoboost_schema": 1, "label": label, "classes": classes, "columns": columns, **more}
    Path(place).write_text(json.dumps(document))
    return place
