"""A room: several holders make one release together, and nobody sees another's sums.

Read in this order: `parties` (who is there), `mailbox` (where messages lie), `identities` and `messages` (signed),
`masks` and `shamir` (what hides a sum, and what brings it back when somebody is lost), `stops` (who says that it goes),
`sum_secrets` and `secure_sums` (one sum), `agreement` (what all have agreed on), `seating` (greetings, and the code
that people compare), `notes` (that a session begins, which it does once), `sitting` (a holder's seat: sums, stage by
stage), `outcome` (the file, signed by all), `joining` (all of it).
"""
