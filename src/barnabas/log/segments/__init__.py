"""One segment of a log: its file, its sparse indexes, its index of aborted transactions.

Source: Kafka's ``LogSegment``.
"""
