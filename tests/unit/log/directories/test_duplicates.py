"""What an idempotent producer gets for a batch that it sends again."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.record.builder import build_batch
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition

CLIENT_MS, WRITTEN_MS, AGAIN_MS = 1_000, 2_000, 9_000


@pytest.mark.parametrize("by_log", [True, False])
def test_a_duplicate_has_the_timestamp_of_the_batch_that_is_there(by_log: bool) -> None:
    """As in Apache Kafka: a client takes it for that of its records."""
    disk = SimDisk(random.Random(1)).open_for_process()
    disk.make_dirs("/data")
    config = replace(
        LogConfig(), message_timestamp_type="LogAppendTime" if by_log else "CreateTime"
    )
    name = TopicPartition("t", 0)
    log = open_log(FileCache(disk), f"/data/{name}", name, config, LogCheckpoints(clean=True)).log
    batch = build_batch(
        [(b"k", b"v")], timestamp_ms=CLIENT_MS, producer_id=5, producer_epoch=0, base_sequence=0
    )
    first = log.append_as_leader(batch, leader_epoch=0, wall_ms=WRITTEN_MS)
    assert first.log_append_time == (WRITTEN_MS if by_log else -1)
    again = log.append_as_leader(batch, leader_epoch=0, wall_ms=AGAIN_MS)
    assert again.duplicate and again.first_offset == first.first_offset
    assert again.log_append_time == (WRITTEN_MS if by_log else CLIENT_MS)
