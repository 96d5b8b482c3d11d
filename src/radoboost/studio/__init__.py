"""The studio: a page on this machine for the holder, the officer and the learner. The command is `rado studio`.

It needs FastAPI and uvicorn, of the extra `studio`; nothing else imports this package.

Modules: `app`, `budget_form`, `cli`, `craft_job`, `holder_routes`, `jobs`, `learn_job`, `learner_routes`, `model_jobs`,
`officer_routes`, `privacy_chart`, `rendering`, `roles`, `row_form`, `schema_form`, `security`, `shell_commands`,
`workspace`.
"""
