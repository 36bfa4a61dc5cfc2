"""Members of streams groups in a seed, and the ledger of what they saw."""
