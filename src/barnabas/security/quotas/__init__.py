"""How much clients may use: limits by user, client id and address, and how long who used more has to wait."""
