"""Spark's Python worker processes: what they load, and when."""
