"""The graph of a job: sources and steps by name, read from its file and made into frames."""
