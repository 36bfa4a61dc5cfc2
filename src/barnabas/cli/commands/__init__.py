"""One module per command of ``barnabas``."""
