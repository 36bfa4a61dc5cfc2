"""Contents of dead letters: their records, and the keys and values that they copy."""
