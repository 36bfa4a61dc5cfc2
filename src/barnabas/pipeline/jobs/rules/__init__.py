"""The rules that jobs and the tables that they find have for a write: checked before anything is read."""
