"""Runs to look at: the demo, the made-up hospital's tables, and the rehearsal of a room.

Modules: `demo`, `hospital`, `rehearsal`.
"""
