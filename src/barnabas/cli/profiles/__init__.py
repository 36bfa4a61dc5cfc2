"""Named clusters: what a command needs to reach one, kept in a file of the user."""
