"""What leaves the building: the release, its statement, its file, and what follows from them.

Both sides of the trust boundary import it. It knows nothing of examples.

Modules: `class_summary`, `columns`, `compatibility`, `composition`, `exact_math`, `feature_map`, `feature_map_jit`,
`file_format`, `kind`, `merge`, `moment_math`, `parties`, `rado_sampling`, `release`, `secret_shares`,
`statement_check`, `statement_text`.
"""
