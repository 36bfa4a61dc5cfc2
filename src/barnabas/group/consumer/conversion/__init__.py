"""Converts groups while they run: from the classic to the consumer protocol and back (KIP-848)."""
