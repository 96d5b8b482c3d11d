"""Audits: a mechanism is run, and attacked, on tables that are made up for it.

- `audit`: Audit, audit, audit_moments, ...: what scores of many runs prove; bounds of rates (Clopper-Pearson), least
  epsilon, size laws of the band
- `canaries`: Canary, Scenario, Runs: canary rows of numbers or raw cells, keys and scores of runs
- `moments_audit`: the attack on stages of moments: statistics by stage, likelihood ratios, differences between stages
  and slots, numbers without noise
- `exact_audit`: ExactAudit: one run replayed on neighbours, ratios of distances to noise; exact_audit_of_moments,
  scripts, axes
- `replay`: recording curator, Log, NoisySum, Draw; scripts such as Honest, Lying; faults of noise, squared distances
- `audit_tables`: made-up neighbouring tables for exact audits: candidates, rows of numbers, raw cells, persons
- `program_audit`: the exact audit at the settings of a release, its scenario and text
"""
