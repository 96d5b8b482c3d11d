"""The data holder's side: from a table to a release. It never imports the learner's side.

Read first: `request`: CraftRequest, Compute, as_mechanism. `craft`: craft, craft_in_room, privately or plainly; advice,
    booking and warnings of it. `grid`: ExactSums, integers on the dyadic grid, scale, snapping constants. `keystream`:
    Key, make_key, ChaCha20 words. `signatures`: AllSignatures, FixedSupport, sizes of subsets. `aggregation`:
    Accumulator, one sum over rows. `rado_sums`: survey and sums of rados, batches for engines and devices, class sums.
    `curator`: Curator, noise on sums, a holder's share of it.
Declared or inferred: `declared_bounds`: bounds and names checked, limits; whose rows they are.
    `schema_inference`: infer kinds from names and cells, propose_schema, schema_template, ids, settled fills.
    `column_profile`: profiles of raw cells, exact means, marks, unparsable cells. `table_check`: check_table, misfits
    between table and schema. `table_preparation`: prepare a plain table; gaps, protected columns, labels given apart.
    `row_counts`: RowCounts for the holder, outliers, clipped values. `contribution_bounding`: at most so many rows of a
    person, chosen by hash.
Columns and noise: `feature_maps`: products, degrees and terms, make_feature_map, map_table. `gaussian_noise`:
    rounded_normals, noise scale. `subset_sampling`: subsets of a size, coins, buckets, candidates. `sparse_rado_sums`:
    the same sums over sparse entries.
Before and beside: `privacy_cost`: answers of `rado account`, bookings. `disk_space`: bytes of a release, free space.
    `grid_rows`: rows on the grid for shares or encryption. `secret_sharing`: share, craft_shares, limbs, keys of
    servers.
Folders: `mechanisms/`: what protects a release; record-level rules, statements, moments. `engines/`: sums and kernels
    on CPU and GPU. `runners/`: threads, Dask, Spark. `rooms/`: several holders, secure sums.
"""
