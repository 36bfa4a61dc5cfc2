"""The broker role: requests to the machines, replicas, fetchers, lifecycle."""
