"""Chains of batches: what two replicas may hold, and what is said of them where they part."""

from __future__ import annotations

import random

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.record.builder import build_batch
from barnabas.sim.checkers.chains import HeldLog, LogVersions
from barnabas.sim.history import Violation
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition

DIRECTORY = "/data/t-0"


class Replica:
    """A log on a disk of its own, and what the checkers know of it."""

    def __init__(self, versions: LogVersions, node: int) -> None:
        self.disk = SimDisk(random.Random(node))
        self.held = HeldLog(versions, node)
        self.log = self.open()

    def open(self) -> PartitionLog:
        disk = self.disk.open_for_process()
        disk.make_dirs(DIRECTORY)
        opened = open_log(
            FileCache(disk),
            DIRECTORY,
            TopicPartition("t", 0),
            LogConfig(),
            LogCheckpoints(clean=False),
        )
        self.log = opened.log
        return opened.log

    def append(self, value: bytes, epoch: int) -> None:
        batch = build_batch([(b"k", value)], timestamp_ms=1)
        self.log.append_as_leader(
            batch, leader_epoch=epoch, wall_ms=1, origin=AppendOrigin.COORDINATOR
        )

    def follow(self) -> tuple[int, int, int]:
        """(links dropped, added, of those new)."""
        dropped, added, new = self.held.follow(self.disk, self.log)
        return len(dropped), len(added), len(new)


@pytest.fixture
def pair() -> tuple[Replica, Replica]:
    versions = LogVersions("t-0")
    return Replica(versions, 1), Replica(versions, 2)


def part(one: Replica, two: Replica) -> None:
    """Both have two batches; the second one of `one` is that which was committed."""
    for replica, epoch in ((one, 3), (two, 2)):
        replica.append(b"a", 0)
        replica.append(b"%d" % epoch, epoch)
        replica.follow()
    one.held.versions.committed[2] = one.held.last


def test_equal_logs_end_with_the_same_link(pair: tuple[Replica, Replica]) -> None:
    one, two = pair
    for replica in pair:
        replica.append(b"a", 0)
        replica.append(b"b", 0)
    assert one.follow() == (0, 2, 2)
    assert two.follow() == (0, 2, 0)
    assert one.held.last is two.held.last
    assert one.held.last.holders == {1, 2}


def test_another_batch_of_the_same_epoch_is_a_violation(pair: tuple[Replica, Replica]) -> None:
    one, two = pair
    one.append(b"a", 0)
    two.append(b"b", 0)
    one.follow()
    with pytest.raises(Violation, match="different batches that end at offset 1 in leader epoch 0"):
        two.follow()


def test_logs_may_part_in_another_epoch_and_meet_again(pair: tuple[Replica, Replica]) -> None:
    one, two = pair
    one.append(b"a", 0)
    two.append(b"b", 1)
    one.follow()
    two.follow()
    assert not one.held.holds(two.held.last)
    one.log.truncate_to(0)
    assert one.follow() == (1, 0, 0)
    one.append(b"b", 1)
    assert one.follow() == (0, 1, 0)
    assert one.held.holds(two.held.last)


def test_a_cut_drops_links_and_a_restart_keeps_them(pair: tuple[Replica, Replica]) -> None:
    one, _ = pair
    for value in (b"a", b"b", b"c"):
        one.append(value, 0)
    one.follow()
    one.log.truncate_to(1)
    assert one.follow() == (2, 0, 0)
    one.append(b"d", 1)
    assert one.follow() == (0, 1, 1)
    one.log.close()
    one.open()
    assert one.follow() == (0, 0, 0)
    one.held.verify(one.disk, one.log)
    one.append(b"e", 1)
    assert one.follow() == (0, 1, 1)


def test_reading_again_notices_what_changed_behind(pair: tuple[Replica, Replica]) -> None:
    one, _ = pair
    one.append(b"a", 0)
    one.append(b"b", 0)
    one.follow()
    one.disk.file(one.log.segments[0].path).data[75] ^= 1
    with pytest.raises(Violation):
        one.held.verify(one.disk, one.log)


def test_batches_below_a_logs_start_are_not_compared(
    pair: tuple[Replica, Replica],
) -> None:
    """A leader that retention took the rest from cannot tell its follower that they part below (seed 204)."""
    one, two = pair
    part(one, two)
    for replica in pair:
        replica.append(b"c", 3)
        replica.log.high_watermark = 3
        replica.log.advance_log_start(2)
        replica.follow()
    assert one.held.last is two.held.last
    two.open()
    two.log.advance_log_start(2)
    two.follow()
    assert one.held.last is two.held.last


def test_nor_when_it_has_gone_on_from_there(pair: tuple[Replica, Replica]) -> None:
    """A log that is looked at with nothing at its start or behind it is not an empty one (seed 298)."""
    one, two = pair
    part(one, two)
    one.append(b"c", 3)
    one.follow()
    two.log.high_watermark = 2
    two.log.advance_log_start(2)
    assert two.follow() == (3, 0, 0)
    two.append(b"c", 3)
    assert two.follow() == (0, 1, 0)
    assert one.held.last is two.held.last
