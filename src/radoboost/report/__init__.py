"""What is shown to people: findings as data, and the same findings on a terminal and on a page.

Modules: `class_effects`, `coefficients`, `describe`, `documents`, `effects_report`, `findings`, `html`,
`learner_comparison`, `learning_curve`, `model_report`, `plots`, `release_report`, `sign_off`, `terminal`.
"""
