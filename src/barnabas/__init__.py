"""Barnabas: a Kafka-wire-compatible replicated event log in Python."""

__version__ = "0.2.0"
