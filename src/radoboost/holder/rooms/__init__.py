"""A room: several holders make one release together, and nobody sees another's sums.

Read in this order: roster, mailbox, signed messages, masking, sum secrets, secure aggregation, agreement, handshake,
participant, signed release, room.

- `roster`: Roster, Party, number of holders, how many may be lost, opening_threshold
- `mailbox`: Mailbox in memory or in a folder; names, sizes and places of messages, written durably
- `http_mailbox`: WebMailbox behind an address, news unpacked
- `mailbox_server`: the server of `rado room serve`: MailboxStore, web app, request bodies, refusals, news packed
- `served_room`: Shelf, one room on the server, header and body of a message
- `signed_messages`: Identity, Message, sign_message, verify_message, arrays in messages, kinds and places
- `masking`: X25519 keys, pads, boxes sealed and unsealed, secrets split into shares, Lagrange weights
- `sum_secrets`: SumSecrets, unmask_total, pads of holder pairs, secrets that came back
- `secure_aggregation`: SecureSum, secure_sum over all holders
- `agreement`: Agreement, make_agreement, mechanisms for rooms, session notes written once
- `handshake`: greetings, nonces, verification codes, seats taken, who left, ready messages
- `participant`: Participant, sums stage by stage, values packed as messages
- `signed_release`: the one file: signed by enough holders, digests, compared
- `room`: open_room, join_room, close_room, standing
- `versions`: digests of program and statement texts, who differs
- `abort_causes`: Cause, holders named in texts, why a room stopped
- `abort_notices`: AbortNotices, wait_for_message, telling the others
"""
