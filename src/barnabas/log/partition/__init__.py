"""One partition's log: append, read, flush, truncate, retain, load, repair.

Source: Kafka's ``UnifiedLog``, ``LogLoader``.
"""
