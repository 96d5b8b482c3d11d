"""Learn from private data that never leaves the building.

>>> import radoboost as rb
>>> release = rb.craft([[1.0, 0.2], [2.0, 0.1], [3.0, 0.4]], [0, 1, 1], n_rados=5)
>>> release.rados.shape
(5, 3)
>>> clf = rb.MomentsClassifier().fit_rados(release)
>>> clf.predict([[2.5, 0.3]]).shape
(1,)
"""

# Reading order. A file's folder says on which side of the trust boundary it is.
#
# Shared by both sides:
#
#   errors        what can go wrong
#   memory        how much is free
#   progress      a bar for long work
#   numba_cache   functions compiled by numba, or left in plain Python
#   tables        a table in any form -> parts -> batches of columns and labels: source; opening one: paths, arrays,
#                 device_arrays, frames, files with named_paths and folders, csv_files, csv_lines; files in stores, by
#                 store_systems, store_files and store_passes, with read_ahead; what is read once (queries by their
#                 addresses, datasets, streams) is kept in a spool; frames on clusters stay there: cluster_frames, with
#                 dask_frames, dask_steps, spark_frames, spark_plans and spark_jobs; reading it strict or row_by_row;
#                 columns, cells, marks, sparse, labels by class_names, persons; what raw columns mean: schema, with
#                 kinds; encoding, with raw_columns and dates; json_schema, for editors; raw and carried: cells as they
#                 are; mapped: seen through a feature map; taken: some rows of a batch; weights: rows repeated
#   release       what leaves the building, and its file, laid out by blocks; columns, and maps that make them, by
#                 polynomials, or compiled: map_kernel; laws, spectra, discriminants, scores; drawn: rados from moments;
#                 class_facts, class_sizes: what is told of each class; statements: checking, stage_noise, words,
#                 plain_words; chain: several releases together; holders: what a statement says where there are several;
#                 merging: plain releases of several holders as one, if they are alike; parallel: what private ones
#                 promise together; shared: sums without labels, for another holder; tilted: rados of later batches;
#                 block_rados: sums over alike people; files and their digests; awaited: a release whose sums are on
#                 their way, in shares or encrypted
#   privacy       what was done (events), what it costs (accountants, with mixtures), how much noise it takes
#                 (calibrate), what several records of one person pay (groups), what noise by shares is worth
#                 (shared_noise); figures and export; what a total set in advance allows (filter), and the books of a
#                 table (ledger)
#
# The holder's side, from a table to a release:
#
#   holder        declared, feature_maps, fitting, counts, grid, keystream, subsets, signatures, tilted,
#                 batch_sizes, noise
#     engines     what is computed for a block of rows: reference with reference_rows, reference_sparse and exact first,
#                 then kernel, kernel_rows, kernel_classes, kernel_wide, kernel_sparse, kernel_bins and vectors; cuda,
#                 on a cuda_device, with cuda_survey; proof: whether an engine computes what it should on this machine
#                 passes, class_sums: one sum over rows, as data; sparse_passes: over entries; persons: which rows of
#                 each contribute
#     runners     where passes run: threads, with kept rows; clusters, whose workers do what parts says: dask, with
#                 dask_jobs and dask_clients; spark with spark_sessions and spark_workers;
#                 machines: whether a worker computes what it should
#                 run: the table as a mechanism sees it
#     room        several holders, one release: parties, mailbox; identities and signed messages; one sum that hides all
#                 but the total: masks, shamir, sum_secrets, stops, secure_sums; mailboxes: a folder, or behind an
#                 address by web_client, kept by web_server on shelves; agreement, seating, waiting, sitting, outcome;
#                 joining: all of it
#     mechanisms  what protects a release: contract, claims, person_claims, room_claims; then plain and feature_band, by
#                 two_passes, with outliers, shared_sums and tilted_batches; noisy_rados and noisy_examples, by records
#                 and contributions; moments, with moment_budget,
#                 moment_plan, moment_columns, moment_stages, moment_passes, moment_classes, score_counts, bins,
#                 private_bounds
#                 a schema by names alone (guessing), or from the table (proposing, with column_looks and
#                 odd_cells);
#                 raw_tables: schemas where craft needs one, and what becomes of gaps (withheld: columns not to look
#                 at; misfits: all in which a table does not fit)
#                 craft: check, open, make, release; block_rados, a baseline; table_check, for the holder; foreseen,
#                 expected_error and costs, without data
#                 grid_rows: rows to be sent away; row_shares: in two shares, and share_sums: what a server makes of one
#
# Anyone's side, from a release to a classifier:
#
#   learner       risks, weak, boost; regularised and stopping, for boost_rados, and used_features; of rados:
#                 odd_columns, held_out, normal_scores, rado_moments, tilted; moments with groups, uncertainty and link;
#                 of more than two classes: class_moments, discriminant, one_against_others, class_scores, class_noise;
#                 effects, shapes, released_effects, prior, model, averaging (private releases of several holders),
#                 rows, predict; reliability (how right it is on rows of known classes), margins (by rados held out);
#                 frames (partitions of a cluster's), spark_udf, explain, one_row; columns at different holders:
#                 completion, joining; block_rados, a baseline
#     export      a model that runs elsewhere, with a summary: python_file with standalone; onnx_graph with onnx_nodes
#                 and onnx_cells; sql with sql_text and sql_cells
#
# Both in one process:
#
#   estimators    the learners as scikit-learn classifiers, adaboost over examples, and what they share: shells; tuning:
#                 folds, and fits that add up
#   secure        rows that a crafter sums encrypted: paillier, packing, ciphertexts
#   predicting    a table's predictions, on this machine or on a cluster
#   scoring       a private test error: errors and hits, with noise
#   describe      a release or a model in words
#   demo          the whole flow on data that ships with scikit-learn, with demo_picture; hospital: a raw table to try
#                 things on
#   findings      what a run found, as data: tables, figures, checks; documents, on the screen, pictures, pages; what a
#                 model does: explained, and class_effects for more than two classes; how it was learned: coefficients,
#                 learning_curve, learners, and inside with inside_parts, the page of all of it; of a release:
#                 about_release with its pictures, matrices, and signing, an officer's decision about it
#   adversary     what an adversary gets: audits with canary and canaries, moments_audit, person_audit, room_audit,
#                 row_sums, crowd, rates; without statistics, exact_audits with replay, exact_tables, transcripts.
#                 With keys known: reconstruction, linear. Without: subset_sums and lattices, with probe and
#                 joint_leak; membership, with plain_laws, rebuilding, roc and its findings. Then known, studies, and
#                 attempts at a release, with verdicts and the page on them
#   paper         protocol: folds, the iterate kept, errors, t-tests. What the experiments share: domains, cells,
#                 comparing; the experiments: table1 with sampled and printed_weights, table3, feature_privacy with
#                 banded_rados, gaussian with noisy_copies, and theory with a module for each of its theorems:
#                 boosting, gap, concentration, dp_feat, rejection, marginal, norm_lemma, prudence, mean_zero, spheres
#     hardness    confounder with confounder_search, and packed_spheres; questions, deciding, exact_cover, reductions
#                 and solver_limits
#   studio        a page on this machine: guard (who may talk to it), folder, jobs, sessions, commands, layout, ways;
#                 holder_way with drafts (a schema in writing), budgets, crafting, promise_picture and holder_pages;
#                 officer_way with officer_jobs; learner_way with learner_pages, learning, typed_rows and model_work;
#                 app, and its server
#   cli           the command rado: shell, keeping, protection, and a module for each command: craft, learn, merge
#                 with merge_shares, join, share, predict, score, show, sign_off, export, schema, check, account,
#                 ledger, room with room_state and room_serve, audit, attack, reproduce, demo, studio; __main__ for
#                 python -m

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radoboost.adaboost import AdaBoostSSClassifier
    from radoboost.errors import (
        ArgumentError,
        BudgetError,
        BudgetWarning,
        ClippedWarning,
        ClusterError,
        DeltaWarning,
        DoesNotFit,
        FilledWarning,
        LedgerError,
        ModelError,
        NeedsSchema,
        NoiseWarning,
        OutlierWarning,
        OutputError,
        RadoError,
        ReleaseError,
        RoomError,
        SchemaWarning,
        TableError,
        TooLargeError,
    )
    from radoboost.estimators import MomentsClassifier, RadoBoostClassifier
    from radoboost.findings.explained import explain
    from radoboost.findings.inside import look_inside
    from radoboost.findings.learners import compare_learners
    from radoboost.findings.learning_curve import learning_curve
    from radoboost.holder.block_rados import craft_blocks
    from radoboost.holder.craft import craft
    from radoboost.holder.foreseen import plan_for
    from radoboost.holder.guessing import schema_template
    from radoboost.holder.mechanisms import FeatureBand, Moments, NoisyExamples, NoisyRados, Plain
    from radoboost.holder.proposing import propose_schema
    from radoboost.holder.room.identities import Identity
    from radoboost.holder.room.joining import close_room, join_room, open_room
    from radoboost.holder.row_shares import share
    from radoboost.holder.share_sums import craft_shares, new_share_key
    from radoboost.holder.signatures import AllSignatures, FixedSupport
    from radoboost.holder.tilted import Tilted
    from radoboost.learner.block_rados import learn_blocks
    from radoboost.learner.boost import Rounds
    from radoboost.learner.export import export
    from radoboost.learner.frames import predict_partitions
    from radoboost.learner.joining import join, part_models
    from radoboost.learner.model import Model, load_model
    from radoboost.learner.prior import class_shares
    from radoboost.learner.spark_udf import predict_udf
    from radoboost.learner.tilted import next_theta
    from radoboost.learner.weak import Median, Prudential, Strongest
    from radoboost.privacy.ledger import Ledger
    from radoboost.release import Release, Statement, load
    from radoboost.release.block_rados import BlockRados
    from radoboost.release.columns import Column
    from radoboost.release.drawn import draw_rados
    from radoboost.release.maps import FeatureMap
    from radoboost.release.merging import merge
    from radoboost.release.shares import PartialSums, Share, load_partial, load_share, merge_shares
    from radoboost.scoring import score
    from radoboost.tables.kinds import Category, Date, Left, Number
    from radoboost.tables.queries import query
    from radoboost.tables.schema import Schema
    from radoboost.tables.sparse import NamedMatrix
    from radoboost.tuning import folds

__version__ = version("radoboost")

# The module of each public name. It is imported on first use, so that a command pays for what it uses.
_HOMES = {
    "learner.block_rados": ("learn_blocks",),
    "learner.boost": ("Rounds",),
    "release.block_rados": ("BlockRados",),
    "release.columns": ("Column",),
    "release.drawn": ("draw_rados",),
    "release.maps": ("FeatureMap",),
    "release.merging": ("merge",),
    "holder.block_rados": ("craft_blocks",),
    "holder.craft": ("craft",),
    "findings.explained": ("explain",),
    "findings.inside": ("look_inside",),
    "findings.learners": ("compare_learners",),
    "findings.learning_curve": ("learning_curve",),
    "holder.foreseen": ("plan_for",),
    "errors": (
        "ArgumentError",
        "BudgetError",
        "BudgetWarning",
        "ClippedWarning",
        "ClusterError",
        "DeltaWarning",
        "DoesNotFit",
        "FilledWarning",
        "LedgerError",
        "ModelError",
        "NeedsSchema",
        "NoiseWarning",
        "OutlierWarning",
        "OutputError",
        "RadoError",
        "ReleaseError",
        "RoomError",
        "SchemaWarning",
        "TableError",
        "TooLargeError",
    ),
    "adaboost": ("AdaBoostSSClassifier",),
    "estimators": ("MomentsClassifier", "RadoBoostClassifier"),
    "holder.guessing": ("schema_template",),
    "holder.proposing": ("propose_schema",),
    "holder.row_shares": ("share",),
    "holder.share_sums": ("craft_shares", "new_share_key"),
    "holder.mechanisms": ("FeatureBand", "Moments", "NoisyExamples", "NoisyRados", "Plain"),
    "learner.export": ("export",),
    "learner.frames": ("predict_partitions",),
    "learner.joining": ("join", "part_models"),
    "learner.model": ("Model", "load_model"),
    "learner.prior": ("class_shares",),
    "learner.spark_udf": ("predict_udf",),
    "learner.tilted": ("next_theta",),
    "privacy.ledger": ("Ledger",),
    "release": ("Release", "Statement", "load"),
    "holder.room.identities": ("Identity",),
    "holder.room.joining": ("close_room", "join_room", "open_room"),
    "release.shares": ("PartialSums", "Share", "load_partial", "load_share", "merge_shares"),
    "holder.signatures": ("AllSignatures", "FixedSupport"),
    "holder.tilted": ("Tilted",),
    "learner.weak": ("Median", "Prudential", "Strongest"),
    "scoring": ("score",),
    "tables.kinds": ("Category", "Date", "Left", "Number"),
    "tables.queries": ("query",),
    "tables.sparse": ("NamedMatrix",),
    "tables.schema": ("Schema",),
    "tuning": ("folds",),
}

__all__ = [
    "AdaBoostSSClassifier",
    "AllSignatures",
    "ArgumentError",
    "BlockRados",
    "BudgetError",
    "BudgetWarning",
    "Category",
    "ClippedWarning",
    "ClusterError",
    "Column",
    "Date",
    "DeltaWarning",
    "DoesNotFit",
    "FeatureBand",
    "FeatureMap",
    "FilledWarning",
    "FixedSupport",
    "Identity",
    "Ledger",
    "LedgerError",
    "Left",
    "Median",
    "Model",
    "ModelError",
    "Moments",
    "MomentsClassifier",
    "NamedMatrix",
    "NeedsSchema",
    "NoiseWarning",
    "NoisyExamples",
    "NoisyRados",
    "Number",
    "OutlierWarning",
    "OutputError",
    "PartialSums",
    "Plain",
    "Prudential",
    "RadoBoostClassifier",
    "RadoError",
    "Release",
    "ReleaseError",
    "RoomError",
    "Rounds",
    "Schema",
    "SchemaWarning",
    "Share",
    "Statement",
    "Strongest",
    "TableError",
    "Tilted",
    "TooLargeError",
    "class_shares",
    "close_room",
    "compare_learners",
    "craft",
    "craft_blocks",
    "craft_shares",
    "draw_rados",
    "explain",
    "export",
    "folds",
    "join",
    "join_room",
    "learn_blocks",
    "learning_curve",
    "load",
    "load_model",
    "load_partial",
    "load_share",
    "look_inside",
    "merge",
    "merge_shares",
    "new_share_key",
    "next_theta",
    "open_room",
    "part_models",
    "plan_for",
    "predict_partitions",
    "predict_udf",
    "propose_schema",
    "query",
    "schema_template",
    "score",
    "share",
]


def __getattr__(name: str) -> Any:
    if name == "secure":  # a package of its own, whose library is an extra
        return import_module("radoboost.secure")
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"radoboost.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'radoboost' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
