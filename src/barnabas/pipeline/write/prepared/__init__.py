"""Tasks that write in transactions of their own, which the driver's token lists (decision 26)."""
