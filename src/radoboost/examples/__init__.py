"""Runs to look at: the demo, the made-up hospital's tables, and the rehearsal of a room.

- `demo`: run_demo on scikit-learn's breast-cancer data: patients, errors, a ledger, the picture of rados
- `hospital`: write_hospital: made-up patients, lab values, the code book
- `rehearsal`: rehearse_room: five hospitals as processes, one of them killed
"""
