"""The data holder's side: from a table to a release."""
