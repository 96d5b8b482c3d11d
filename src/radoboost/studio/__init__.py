"""The studio: a page on this machine for the holder, the officer and the learner. The command is `rado studio`.

It needs FastAPI and uvicorn, of the extra `studio`; nothing else imports this package. Routes have short names: choose,
begin.

- `app`: create_studio, its server, front page, static files, job pages, quit, errors
- `cli`: `rado studio`: addresses offered, browser opened
- `holder_routes`: the holder's pages: columns and cards, schema command, budget, ledgers, craft order, release
- `budget_form`: Budget, preview of what it promises, bars and panels, ledgers it may be booked on
- `schema_form`: SchemaForm and its Card: entries, kinds, values, problems, epochs
- `officer_routes`: the officer's pages: open a release, attack it, sign it off, reports cited
- `learner_routes`: the learner's pages: options, model, one row and its fields, table, score, program
- `learn_job`: reading releases, learning, looking inside, scoring, exporting as jobs
- `jobs`: Job, Jobs, craft as a job, warnings, cancelled
- `rendering`: templates, forms, redirects, shell commands quoted
- `security`: tokens, sessions, Guard, request bodies and headers
- `workspace`: the folder: files, their kinds and facts (Parquet, JSON, ledger), sizes
"""
