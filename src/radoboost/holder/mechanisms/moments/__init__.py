"""The mechanism `moments` makes noisy sums of whitened edge vectors, sharpened by a few noisy mean rados.

- `moments`: Moments, what it promises, its noise shape and feature candidates
- `budget`: Stage, shares of the budget, plan_stage_budget, compose_stage_events
- `stages`: Stages, each a noisy sum: counts, moments, whitening (inverse root on a grid), theta; unforeseen cells,
  memory
- `aggregations`: the sums over rows: SphereRows, Whiten, SumProducts, MeanRado; by class
- `feature_plan`: FeaturePlan, choose_feature_plan, ranked and centred inputs, columns and rounds of a plan
- `private_bounds`: bounds found by noisy counts: bins, powers, runs, narrowing
- `score_histogram`: ScoreHistogram, counts of rows by score and class
- `preview`: forecasts before anything is spent: preview_plan, all plans, expected error
- `exact_moments`: epsilon infinite: moments without noise and without a promise
"""
