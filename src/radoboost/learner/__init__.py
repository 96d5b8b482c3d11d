"""Anyone's side: from a release to a classifier. It never imports the holder's side.

Boosting: `boost`: boost, rows boosted over in rounds. `boost_rados`: StoppingPoint, penalty weights, features used; one
    class against the others. `penalised_boost`: Penalty, lasso and ridge. `weak_oracles`: Strongest, Median,
    Prudential. `risks`: logistic risk, rado-risk, bound.
Moments: `rado_moments`: learn_rados; theta, folds, noise subtracted, columns, its variance over rados or examples.
    `moments`: learn_released_moments, noise of rados, category slots and their products; effects kept of released
    moments. `exact_moments`: least squares, ridge, scores on new rows. `shrinkage`: ShrinkageChoice by held-out folds,
    empirical Bayes ridge. `uncertainty`: propagate_noise, capped weights, an empty table, number of records by noisy
    moments.
More than two classes: `multiclass_moments`: sizes, means, scores of classes; their discriminant: ClassFit, plane,
    clouds and covariances, whitening.
Several holders: `vertical_join`: join two holders' columns, coding, scales, part_models. `moment_completion`: second
    moments that no holder has. `model_averaging`: average of private models.
The model and rows: `model`: Model, load_model, its JSON, origin. `row_reader`: rows scored in batches, gaps filled.
    `predict`: predict_table, prediction columns, frames, writers. `spark_udf`: predict_udf. `probabilities`:
    ProbabilityLink, class_shares, prior, counts by score. `evaluation`: judge_reliability, margins on held-out rados,
    error by counts. `diagnostics`: NormalScores, columns in doubt, slots.
Explanations: `explain`: explain_model, explain_row. `effects`: EffectTerm, limits and basis of an effect, its curves.
Elsewhere: `export/`: ONNX, Python, SQL.
"""
