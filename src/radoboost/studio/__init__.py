"""The studio: a page on this machine for the holder, the officer and the learner. The command is `rado studio`.

It needs FastAPI and uvicorn, of the extra `studio`; nothing else imports this package.

Modules: `app`, `budget_form`, `cli`, `holder_routes`, `jobs`, `learn_job`, `learner_routes`, `officer_routes`,
`rendering`, `schema_form`, `security`, `workspace`.
"""
