"""The data holder's side: from a table to a release. It never imports the learner's side.

Read first: `request`, `craft`, `grid`, `keystream`, `signatures`, `aggregation`, `rado_sums`, `curator`.

Modules: `aggregation`, `column_profile`, `contribution_bounding`, `craft`, `curator`, `disk_space`, `engines/`,
`feature_maps`, `gaussian_noise`, `grid`, `grid_rows`, `keystream`, `mechanisms/`, `privacy_cost`, `rado_sums`,
`request`, `rooms/`, `row_counts`, `runners/`, `schema_file`, `schema_inference`, `secret_sharing`, `signatures`,
`sparse_rado_sums`, `subset_sampling`, `table_check`, `table_preparation`.
"""
