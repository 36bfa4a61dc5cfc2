"""Views of the metadata: events, counts, a tree of names, configurations.

Source: Kafka's ``MetadataShell``, ``ConfigHelper``.
"""
