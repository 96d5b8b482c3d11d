"""Audits: a mechanism is run, and attacked, on tables that are made up for it.

- `audit`: Audit, audit, audit_by_runs: what scores of many runs prove; bounds of rates (Clopper-Pearson), least epsilon
- `canaries`: Canary, Scenario, Runs: canary rows of numbers or raw cells, keys and scores of runs
- `moments_audit`: the attack on moments: what a record gives to each stage, likelihood ratios
- `exact_audit`: ExactAudit: one run replayed on neighbours, ratios of distances to noise; exact_audit_of_moments,
  scripts, axes, size laws of the band
- `replay`: recording curator, Log, NoisySum, Draw; scripts such as Honest, Lying; faults of noise, squared distances
- `audit_tables`: made-up neighbouring tables for exact audits: candidates, rows of numbers, raw cells, persons
- `program_audit`: the exact audit at the settings of a release, its scenario and text
"""
