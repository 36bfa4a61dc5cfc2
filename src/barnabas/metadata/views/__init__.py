"""What is read off the metadata: events, counts, a tree of names, configurations.

Source: Kafka's ``MetadataShell``, ``ConfigHelper``.
"""
