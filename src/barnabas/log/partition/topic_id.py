"""Gives its topic id to a log that never had one: its directory was written before topic ids (KIP-516)."""

from __future__ import annotations

from barnabas.log.partition.partition_log import PartitionLog
from barnabas.types import Uuid


def set_never_had_topic_id(log: PartitionLog) -> None:
    """The log is the topic's that has its name, whatever the topic's id is."""
    log.never_had_topic_id = True


def give_topic_id(log: PartitionLog, topic_id: Uuid) -> None:
    """The log is `topic_id`'s from now on; its ``partition.metadata`` says so, and goes with the next sync."""
    log.topic_id, log.never_had_topic_id = topic_id, False
    log.dir_name.happened()
