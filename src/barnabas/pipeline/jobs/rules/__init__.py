"""What jobs and the tables that they find ask of a write: checked before anything is read."""
