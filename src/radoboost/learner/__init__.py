"""Anyone's side: from a release to a classifier."""
