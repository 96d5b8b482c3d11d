"""What is built around the product: attacks, audits, the paper's experiments, its theory, and a baseline.

Nothing in the package imports it but by entry points: its commands are those of `cli`.

Modules: `attacks/`, `audits/`, `block_rados`, `cli`, `paper/`, `theory/`.
"""
