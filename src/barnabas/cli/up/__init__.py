"""A run of ``barnabas up``, and the template that forks such runs for tests."""
