"""Writing topics from Spark exactly once: encoding, staging, publishing, commit log."""
