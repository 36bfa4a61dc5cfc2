"""Apache Kafka's own tool reads every file that a log writes, and finds nothing to complain about."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk
from barnabas.log.compaction import cleaning_pass
from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.types import TopicPartition
from tests.interop.log.dump_tool import dump

NOW = 1_750_000_000_000

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
]


def written(directory: Path, *, compact: bool = False) -> PartitionLog:
    """Segments with every codec, epochs, an idempotent producer, a committed and an aborted transaction."""
    disk = HostDisk()
    config = LogConfig(
        segment_bytes=40_000,
        index_interval_bytes=1000,
        cleanup_policy=("compact",) if compact else ("delete",),
    )
    log = open_log(
        FileCache(disk),
        f"{directory}/t-0",
        TopicPartition("t", 0),
        config,
        LogCheckpoints(clean=False),
    ).log
    rng = random.Random(7)
    for at in range(60):
        records = [(b"k%d" % (n % 7), rng.randbytes(200) * 2) for n in range(5)]
        batch = build_batch(records, timestamp_ms=NOW + at, codec=at % 5)
        log.append_as_leader(batch, leader_epoch=at // 20, wall_ms=NOW)
    for producer, commit in ((1, True), (2, False)):
        batch = build_batch(
            [(b"k1", None)],
            timestamp_ms=NOW + 100,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        log.append_as_leader(batch, leader_epoch=4, wall_ms=NOW)
        marker = end_transaction_marker(
            commit=commit,
            timestamp_ms=NOW + 101,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=3,
        )
        log.append_as_leader(marker, leader_epoch=4, wall_ms=NOW, origin=AppendOrigin.COORDINATOR)
    return log


def files_of(log: PartitionLog, suffix: str) -> list[str]:
    return sorted(str(path) for path in Path(log.directory).glob(f"*{suffix}"))


def check_all(log: PartitionLog) -> str:
    """Every file of the log through the tool; what it says of the batches."""
    said = ""
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        paths = files_of(log, suffix)
        assert paths, suffix
        text = dump("--deep-iteration", "--files", ",".join(paths))
        assert "Found" not in text and "corrupt" not in text.lower(), text[-2000:]
        said += text if suffix in (".log", ".txnindex", ".snapshot") else ""
    indexes = ",".join(files_of(log, ".index"))
    sanity = dump("--index-sanity-check", "--files", indexes)
    assert sanity.count("passed sanity check") == len(files_of(log, ".index")), sanity
    return said


def test_kafka_reads_segments_indexes_and_snapshots(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.close()
    said = check_all(log)
    assert len(re.findall(r"^\| offset: ", said, re.M)) == 304
    assert "isvalid: true" in said and "isvalid: false" not in said
    for name in ("GZIP", "SNAPPY", "LZ4", "ZSTD"):
        assert f"compresscodec: {name.lower()}" in said.lower()
    assert "endTxnMarker: COMMIT" in said and "endTxnMarker: ABORT" in said
    assert re.search(r"producerId: 2 .*firstOffset: 302", said) or "producerId: 2" in said


def test_kafka_reads_what_recovery_and_compaction_leave(tmp_path: Path) -> None:
    log = written(tmp_path, compact=True)
    log.truncate_to(log.log_end_offset - 1)
    log.roll()
    log.flush()
    log.durability.checkpointed_recovery_point = log.durability.compactable_to = log.recovery_point
    log.high_watermark = log.log_end_offset
    plan = cleaning_pass.make_plan(log, 0, NOW + 10)
    keys = cleaning_pass.build_map(plan, 1000)
    trail = cleaning_pass.trail_of(plan)
    for group in cleaning_pass.groups_of(plan, keys.end):
        assert cleaning_pass.swap(log, plan, cleaning_pass.clean_group(plan, group, keys, trail))
    batch = build_batch([(b"k", b"v")], timestamp_ms=NOW)
    log.append_as_leader(batch, leader_epoch=5, wall_ms=NOW)
    log.close(clean=False)
    disk = HostDisk()
    again = open_log(
        FileCache(disk),
        log.directory,
        log.partition,
        log.config,
        LogCheckpoints(clean=False, recovery_point=log.durability.checkpointed_recovery_point),
    ).log
    assert again.log_end_offset == log.log_end_offset
    again.close()
    for path in files_of(again, ".log"):
        said = dump("--deep-iteration", "--files", path)
        assert "isvalid: false" not in said
    sanity = dump("--index-sanity-check", "--files", ",".join(files_of(again, ".index")))
    assert "passed sanity check" in sanity
