"""Anyone's side: from a release to a classifier. It never imports the holder's side.

Read first: `boost`, `rado_moments`, `moments`, `model`.

Modules: `boost`, `boost_rados`, `diagnostics`, `effects`, `evaluation`, `exact_moments`, `explain`, `export/`, `model`,
`model_averaging`, `moment_completion`, `moments`, `multiclass_moments`, `penalised_boost`, `predict`, `probabilities`,
`rado_moments`, `risks`, `row_reader`, `shrinkage`, `spark_udf`, `uncertainty`, `vertical_join`, `weak_oracles`.
"""
