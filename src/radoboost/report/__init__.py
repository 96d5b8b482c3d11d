"""What is shown to people: findings as data, and the same findings on a terminal and on a page.

- `findings`: Findings, ReportTable, Figure, Panel, Series, Check
- `documents`: Document: findings with command and versions, written to a folder and read
- `html`: html_page: pages from templates, CSV of tables, contents, captions; names say html
- `terminal`: findings and tables as lines for a terminal
- `plots`: draw_figure with matplotlib: canvas, legend, ticks, series, styles; pictures of rado and moment matrices as
  SVG
- `describe`: describe_release, describe_model, ... : text for `rado show`; every part is called describe
- `coefficients`: Coefficient with standard errors and intervals, expected error rows
- `effects_report`: effects of a model: explain, findings, panels, bands, pairs, bars, pages
- `class_effects`: the same for more than two classes
- `learning_curve`: LearningCurve, subsets of rados, the fitted curve
- `learner_comparison`: compare_learners by rados held out
- `model_report`: ModelReport (`rado learn --report`): curve, reliability and learners on one page
- `release_report`: ReleaseReport, the page about a release
- `sign_off`: SignOff, an officer's decision, attack reports cited
"""
