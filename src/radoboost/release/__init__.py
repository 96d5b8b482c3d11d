"""What leaves the building: the release, its statement, its file, and what follows from them.

Both sides of the trust boundary import it. It knows nothing of examples.

- `release`: Release, Statement, load, atomic_write; reading its document, classes, schema and map
- `file_format`: blocks as one Parquet table, stored columns, digests, sealing
- `columns`: Column, grid_step, the constant column, shared columns
- `kind`: release_kind
- `feature_map`: FeatureMap, Input, Term; entries and terms checked
- `feature_map_jit`: the map compiled: inputs scaled, limited, levelled, Legendre rows
- `exact_math`: log1p and Legendre with defined bits
- `moment_math`: inverses with a noise floor, eigenvalues, class steps, theta of whitened rows, weights
- `rado_sampling`: draw_rados from moments, normal rados
- `class_summary`: ClassFacts, ClassSizes: what is told of each class
- `statement_text`: the statement as sentences: verdicts, FAQ answers, epsilon_text, figures, holders
- `statement_check`: a statement held against its event: epsilon, guess, noise, room figures, contradictions
- `composition`: earlier_releases, receipts, several releases of one table, of rooms and of parties together, total
- `compatibility`: PartyRelease, whether releases of several are alike: columns, schemas, bounds
- `merge`: merge plain releases: rados summed or pooled, columns pooled, statements merged
- `parties`: PartyGuarantee, Parties: who made which part
- `secret_shares`: Share, PartialSums, PendingRelease; share files, merge_shares
"""
