"""The form of what commands print with --json: a table of shapes, and docs/json-output.md from it."""
