"""The scikit-learn estimators: each crafts and learns in one process, or learns from a release.

- `rado_classifiers`: RadoBoostClassifier, MomentsClassifier; sample weights, random state, the classes of the caller
- `adaboost`: AdaBoostSSClassifier, the baseline over examples
- `linear_classifier`: LinearShell: prediction, checks of scikit-learn, boosting with a shell's options, its weak oracle
- `tuning`: grids and cross-validation: folds by id, mechanisms built and changed, private fits and scores counted
"""
