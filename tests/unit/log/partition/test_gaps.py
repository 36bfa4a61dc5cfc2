"""Offsets that are missing between two segments: compaction's gaps stay, lost tails end the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk
from barnabas.log.checkpoints import CLEANER, RECOVERY_POINT
from barnabas.log.config import LogConfig
from barnabas.log.directories.log_directory import OFFSET_MAX, LogDirectory
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import LOG, file_name
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.record.builder import build_batch
from barnabas.types import ZERO_UUID, TopicPartition

PARTITION = TopicPartition("table", 0)
COMPACTED = LogConfig(segment_bytes=400, cleanup_policy=("compact",))


def make(path: Path) -> tuple[int, int]:
    """A log whose second segment lost its last batch; (offset where the gap ends, end of the log)."""
    disk = HostDisk()
    log = open_log(
        FileCache(disk), str(path), PARTITION, COMPACTED, LogCheckpoints(clean=False)
    ).log
    for key in range(40):
        log.append_as_leader(
            build_batch([(b"k%d" % key, b"v" * 50)], timestamp_ms=key), leader_epoch=0, wall_ms=key
        )
    log.flush()
    second, third = log.segments[1], log.segments[2]
    last = list(second.headers())[-1]
    log.close()
    with open(path / file_name(second.base_offset, LOG), "r+b") as file:
        file.truncate(last.position)
    return third.base_offset, log.log_end_offset


@pytest.mark.slow
@pytest.mark.parametrize(("compacted_to", "is_whole"), [(0, False), ("gap", True), ("end", True)])
def test_a_gap_is_kept_where_compaction_has_been(
    tmp_path: Path, compacted_to: int | str, is_whole: bool
) -> None:
    gap, end = make(tmp_path / "table-0")
    known = {"gap": gap, "end": end}.get(str(compacted_to), 0)
    disk = HostDisk()
    opened = open_log(
        FileCache(disk),
        str(tmp_path / "table-0"),
        PARTITION,
        COMPACTED,
        LogCheckpoints(clean=False, compacted_to=known),
    )
    assert (opened.log.log_end_offset == end) is is_whole
    assert bool(opened.fault) is not is_whole
    if is_whole:
        found = opened.log.read(gap - 1, 1 << 20)
        assert found is not None  # the search continues behind the gap
    else:
        assert opened.log.log_end_offset < gap
    opened.log.close()


def test_a_damaged_checkpoint_makes_no_gap_of_a_compacted_log_a_loss(tmp_path: Path) -> None:
    (tmp_path / CLEANER).write_text("0\n1\ntable 0 7\n")
    directory = LogDirectory(HostDisk(), str(tmp_path), ZERO_UUID)
    directory.load()
    assert directory.checkpoints_of(PARTITION, COMPACTED).compacted_to == 7
    assert directory.checkpoints_of(TopicPartition("other", 0), COMPACTED).compacted_to == 0
    (tmp_path / RECOVERY_POINT).write_text("what is this")
    directory.load()
    assert directory.checkpoints_of(PARTITION, COMPACTED).compacted_to == OFFSET_MAX
    assert directory.checkpoints_of(TopicPartition("other", 0), LogConfig()).compacted_to == 0
