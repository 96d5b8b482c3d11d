"""Learn from private data that never leaves the building.

>>> import radoboost as rb
>>> release = rb.craft([[1.0, 0.2], [2.0, 0.1], [3.0, 0.4]], [0, 1, 1], n_rados=5)
>>> release.rados.shape
(5, 3)
"""

# Reading order, along the flow from a table to a release:
#
#   errors        what can go wrong
#   labels        two classes, as -1 and +1
#   files         table files of every kind, as Arrow record batches
#   tables        a table in any form -> batches of columns and labels
#   columns       what each feature of a rado means
#   grid          bounds, exact statistics, the dyadic grid
#   keystream     ChaCha20 bits for a block of rows
#   signatures    which subsets a rado may sum
#   engines       the summation: reference first, then kernel and its vectors
#   mechanisms    what protects a release: contract, plain
#   progress      a bar for work that takes long
#   crafting      craft(): the two passes
#   release       what leaves the building, and its file
#
# and from a release to a classifier, on the other side of the boundary:
#
#   risks         logistic risk, rado-risks, and the bound that boosting earns
#   weak          which feature boosting takes next
#   boost         one loop, over rados or over edge vectors
#   moment_learner  a classifier from the rados' first two moments
#
# and both in one process:
#
#   report        a release in words
#   demo          the whole flow on data that ships with scikit-learn
#   cli           the command rado

from importlib.metadata import version

from radoboost.columns import Column
from radoboost.crafting import craft
from radoboost.errors import (
    ArgumentError,
    ClippedWarning,
    OutputError,
    RadoError,
    ReleaseError,
    TableError,
    TooLargeError,
)
from radoboost.mechanisms import Plain
from radoboost.release import Release, Statement, load
from radoboost.signatures import AllSignatures

__version__ = version("radoboost")

__all__ = [
    "AllSignatures",
    "ArgumentError",
    "ClippedWarning",
    "Column",
    "OutputError",
    "Plain",
    "RadoError",
    "Release",
    "ReleaseError",
    "Statement",
    "TableError",
    "TooLargeError",
    "craft",
    "load",
]
