"""A room: several holders make one release together, and nobody sees another's sums.

Read in this order: `roster`, `mailbox`, `signed_messages`, `masking`, `sum_secrets`, `secure_aggregation`, `agreement`,
`handshake`, `participant`, `signed_release`, `room`.

Modules: `abort_causes`, `abort_notices`, `agreement`, `handshake`, `http_mailbox`, `mailbox`, `mailbox_server`,
`masking`, `participant`, `room`, `roster`, `secure_aggregation`, `served_room`, `signed_messages`, `signed_release`,
`sum_secrets`, `versions`.
"""
