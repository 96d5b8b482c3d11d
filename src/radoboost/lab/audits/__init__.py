"""Audits: a mechanism is run, and attacked, on tables that are made up for it.

`audit` attacks many runs and bounds epsilon from below with a stated confidence; `exact_audit` replays one run on a
neighbouring table and compares exact sums with their noise.

Modules: `audit`, `audit_tables`, `canaries`, `exact_audit`, `moments_audit`, `person_audit`, `program_audit`,
`replay`.
"""
