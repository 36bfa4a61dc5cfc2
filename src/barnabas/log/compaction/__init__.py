"""One pass of the log cleaner over one log: what it retains, the offset map, who does the work.

Source: Kafka's ``Cleaner``, ``SkimpyOffsetMap``.
"""
