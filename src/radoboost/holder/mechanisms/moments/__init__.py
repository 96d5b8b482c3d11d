"""The mechanism `moments`: noisy sums of whitened edge vectors, sharpened by a few noisy mean rados.

Read in this order: `moments` (what it promises), `budget` (which stage gets which share), `stages` (what is asked of
the table), `aggregations` (the sums themselves), `feature_plan` (which columns a release has).

Modules: `aggregations`, `budget`, `exact_moments`, `feature_plan`, `moments`, `preview`, `private_bounds`,
`score_histogram`, `stages`.
"""
