"""The paper's statements, each checked by itself; `radoboost.paper.theory` puts them together.

Each module that checks a statement has `cells`, `work` and `findings`, as an experiment has, and the formulas of the
statement as functions; `gap` and `dp_feat` have formulas only.
"""
