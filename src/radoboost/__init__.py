"""Learn from private data that never leaves the building.

>>> import radoboost as rb
>>> release = rb.craft([[1.0, 0.2], [2.0, 0.1], [3.0, 0.4]], [0, 1, 1], n_rados=5)
>>> release.rados.shape
(5, 3)
>>> clf = rb.MomentsClassifier().fit_rados(release)
>>> clf.predict([[2.5, 0.3]]).shape
(1,)

Folders: `holder/` (table to release), `learner/` (release to model), `tables/`, `release/` and `privacy/` (both sides
import them), `estimators/`, `report/`, `cli/`, `studio/`, `encrypted/`, `examples/`, `lab/` (attacks, audits, theory).

- `errors`: RadoError and its kinds, warnings, install advice, what stays spent
- `jit`: functions compiled by numba, its cache
- `memory`: available_memory, require_memory
- `outputs`: refuse_overwrite
- `private_score`: score, noisy counts of errors and hits, their interval
- `progress`: progress bars on stderr
- `serving`: sockets and servers of studio and mailboxes
"""

# A file's folder says on which side of the trust boundary it is, and tests/test_boundary.py keeps it so.
#
#   holder      from a table to a release; never imports learner
#   learner     from a release to a classifier; never imports holder
#   errors, memory, progress, jit, tables, release, privacy
#               what both sides import; these import neither
#   the rest    both sides in one process: estimators, report, lab, studio, cli

import re
from importlib import import_module
from importlib.metadata import version
from pkgutil import get_data
from typing import Any

__version__ = version("radoboost")

# The module of each public name. It is imported on first use, so that a command pays for what it uses.
_STUB = (get_data(__name__, "__init__.pyi") or b"").decode()
_HOMES = {name: module for module, name in re.findall(r"^from (radoboost\.\S+) import (\w+) as", _STUB, re.M)}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "secure":  # a package of its own, whose library is an extra
        return import_module("radoboost.encrypted")
    if name not in _HOMES:
        raise AttributeError(f"module 'radoboost' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
