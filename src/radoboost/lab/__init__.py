"""What is built around the product: attacks, audits, the paper's experiments, its theory, and a baseline.

Nothing in the package imports it but by entry points.

- `cli`: `rado audit`, `rado attack` (reconstruct, linear, probe, leak, membership, confounder, study, report) and `rado
  reproduce`: options parsed, results printed
- `block_rados`: craft_blocks, learn_blocks: blocks of alike people, cuts of columns (the baseline)
- `attacks/`: what an adversary gets from a release
- `audits/`: mechanisms attacked or replayed on made-up tables
- `paper/`: tables and figures of the paper, domains, jobs
- `theory/`: lemmas, theorems and hardness results as checks
"""
