"""The paper's tables and figures: each is a list of jobs, and a page made of their results.

Modules: `domains`, `feature_privacy`, `gaussian_noise_figures`, `jobs`, `protocol`, `reproduce`, `table1`, `table3`,
`versus_paper`.
"""
