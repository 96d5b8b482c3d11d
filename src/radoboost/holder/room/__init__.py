"""A room: several holders make one release together, and nobody sees another's sums.

Read in this order: `parties` (who is there), `mailbox` (where messages lie), `identities` and `messages` (signed),
`masks` and `shamir` (what hides a sum, and what brings it back when somebody is lost), `causes` (who was the reason
that a room ends), `stops` (who says that it goes), `sum_secrets` and `secure_sums` (one sum), `agreement` (what all
have agreed on), `versions` (that all run one program), `seating` (greetings, and the code that people compare), `notes`
(that a session begins, which it does once), `sitting` (a holder's seat: sums, stage by stage), `outcome` (the file, and
who signed it), `standing` (how far a room is), `joining` (all of it).
"""
