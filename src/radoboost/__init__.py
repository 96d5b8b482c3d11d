"""Learn from private data that never leaves the building.

>>> import radoboost as rb
>>> release = rb.craft([[1.0, 0.2], [2.0, 0.1], [3.0, 0.4]], [0, 1, 1], n_rados=5)
>>> release.rados.shape
(5, 3)
>>> clf = rb.MomentsClassifier().fit_rados(release)
>>> clf.predict([[2.5, 0.3]]).shape
(1,)
"""

# Reading order, along the flow from a table to a release:
#
#   errors        what can go wrong
#   labels        two classes, as -1 and +1
#   files         table files of every kind, as Arrow record batches
#   lenient       tables read so that no value decides anything
#   tables        a table in any form -> batches of columns and labels
#   columns       what each feature of a rado means
#   release       what leaves the building, and its file
#   privacy       what was done (events), what it costs (accountants), how much noise it takes (calibrate)
#   spectra       inverses of second moments that carry noise
#   bounds        what the holder declares before a table is opened
#   grid          exact statistics, the dyadic grid
#   keystream     ChaCha20 bits for a block of rows
#   switching     subsets of prescribed sizes, without rejection
#   signatures    which subsets a rado may sum
#   compiling     a place for compiled code
#   engines       the summation: reference first, then kernel and its vectors
#   noise         exact integer noise
#   mechanisms    what protects a release: contract, contributions, claims; then plain, feature_band, moments,
#                 noisy_examples and noisy_rados
#   expecting     what error to expect of a release, from public numbers
#   progress      a bar for work that takes long
#   passes        rows shared out among threads
#   crafting      craft(): the two passes
#   moments_crafting  the stages of the mechanism moments
#   private_crafting  the one pass of mechanisms that promise something about records
#
# and from a release to a classifier, on the other side of the boundary:
#
#   risks         logistic risk, rado-risks, and the bound that boosting earns
#   weak          which feature boosting takes next
#   boost         one loop, over rados or over edge vectors
#   moment_learner  a classifier from the rados' first two moments
#   model         the classifier as data, and its file
#   predicting    the scores of a table, however long
#
# and both in one process:
#
#   estimators    classifiers with the habits of scikit-learn
#   accounting    what an epsilon costs, without data
#   moments_audit  the attack on the mechanism moments
#   audits        mechanisms attacked, and what that proves
#   report        a release or a model in words
#   demo          the whole flow on data that ships with scikit-learn
#   evaluate      the paper's protocol: folds, the iterate kept, errors, t-tests
#   findings      what a run found, as data: tables, figures, checks; documents, on the screen, pictures, pages
#   reproduce     the paper's experiments. What they share: domains, cells, comparing; the experiments: table1 with
#                 sampled and printed_weights, table3, feature_privacy with banded_rados, gaussian with noisy_copies,
#                 and theory with one module a statement under theorems: boosting, gap, concentration, dp_feat,
#                 rejection, marginal, norm_lemma, prudence, mean_zero and spheres
#   attacks       what an adversary gets, from what is known. With signatures: reconstruction, linear. Without:
#                 subset_sums and lattices, with probe and joint_leak; membership, with canaries, plain_laws,
#                 rebuilding, roc and membership_findings. The paper's hardness: confounder with confounder_search,
#                 and packed_spheres; questions, deciding, exact_cover, reductions and hardness. Then studies, and the
#                 report on a release
#   cli           the command rado: shell, protection, and a module a command: craft, learn, predict, show, bounds,
#                 account, audit, attack, reproduce, demo; __main__ for python -m

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radoboost.boost import Rounds
    from radoboost.columns import Column
    from radoboost.crafting import craft
    from radoboost.errors import (
        ArgumentError,
        ClippedWarning,
        IgnoredRowsWarning,
        ModelError,
        OutputError,
        RadoError,
        ReleaseError,
        TableError,
        TooLargeError,
    )
    from radoboost.estimators import AdaBoostSSClassifier, MomentsClassifier, RadoBoostClassifier
    from radoboost.mechanisms import FeatureBand, Moments, NoisyExamples, NoisyRados, Plain
    from radoboost.model import Model, load_model
    from radoboost.release import Release, Statement, load
    from radoboost.signatures import AllSignatures, FixedSupport
    from radoboost.weak import Median, Prudential, Strongest

__version__ = version("radoboost")

# Where each public name is from. It is imported when it is first asked for, so that a command pays for what it uses.
_HOMES = {
    "boost": ("Rounds",),
    "columns": ("Column",),
    "crafting": ("craft",),
    "errors": (
        "ArgumentError",
        "ClippedWarning",
        "IgnoredRowsWarning",
        "ModelError",
        "OutputError",
        "RadoError",
        "ReleaseError",
        "TableError",
        "TooLargeError",
    ),
    "estimators": ("AdaBoostSSClassifier", "MomentsClassifier", "RadoBoostClassifier"),
    "mechanisms": ("FeatureBand", "Moments", "NoisyExamples", "NoisyRados", "Plain"),
    "model": ("Model", "load_model"),
    "release": ("Release", "Statement", "load"),
    "signatures": ("AllSignatures", "FixedSupport"),
    "weak": ("Median", "Prudential", "Strongest"),
}

__all__ = [
    "AdaBoostSSClassifier",
    "AllSignatures",
    "ArgumentError",
    "ClippedWarning",
    "Column",
    "FeatureBand",
    "FixedSupport",
    "IgnoredRowsWarning",
    "Median",
    "Model",
    "ModelError",
    "Moments",
    "MomentsClassifier",
    "NoisyExamples",
    "NoisyRados",
    "OutputError",
    "Plain",
    "Prudential",
    "RadoBoostClassifier",
    "RadoError",
    "Release",
    "ReleaseError",
    "Rounds",
    "Statement",
    "Strongest",
    "TableError",
    "TooLargeError",
    "craft",
    "load",
    "load_model",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"radoboost.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'radoboost' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
