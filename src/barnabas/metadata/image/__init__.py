"""The cluster's metadata in columns, the records that build it, and their snapshot.

Source: Kafka's ``MetadataImage``, ``MetadataDelta``.
"""
