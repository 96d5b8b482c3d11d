"""The paper's statements, each checked by itself; `radoboost.paper.theory` puts them together.

Each module has `cells`, `work` and `findings` as an experiment has, and the statement's formulas as functions.
"""
