"""The studio: a page on this machine for the holder, the officer and the learner. The command is `rado studio`.

It needs FastAPI and uvicorn, of the extra `studio`; nothing else imports this package.
"""
