"""The scikit-learn estimators: each crafts and learns in one process, or learns from a release.

Modules: `adaboost`, `linear_classifier`, `rado_classifiers`, `tuning`.
"""
