"""The documentation's programs and commands are run, and its paths and links exist."""
