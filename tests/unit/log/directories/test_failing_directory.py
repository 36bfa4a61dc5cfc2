"""One directory's disk fails at its n-th call, n = 1, 2, 3, ...: it goes offline with a reason, or nothing
was lost; the other directory never notices, and a start on a healed disk finds everything sound."""

from __future__ import annotations

import pytest

from barnabas.types import TopicPartition, Uuid
from barnabas.wire.errors import KafkaError
from tests.unit.log.directories.test_directories import TOPIC_ID, fill, values
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

HERE = [TopicPartition("here", at) for at in range(3)]
THERE = [TopicPartition("there", at) for at in range(2)]
CALLS_MAX = 2000


class Broker:
    """Does what a broker does with logs: a disk error on one of them takes its directory offline."""

    def __init__(self, world: DirectoriesWorld) -> None:
        self.world = world
        self.acknowledged = dict.fromkeys([*HERE, *THERE], 0)

    def create(self, partition: TopicPartition, directory: Uuid) -> None:
        try:
            self.world.logs.create(partition, TOPIC_ID, directory)
        except KafkaError:
            assert not self.world.logs.directories[0].is_online

    def append(self, partition: TopicPartition, batches: int) -> None:
        log = self.world.logs.logs.get(partition)
        if log is None:
            return
        try:
            before = log.log_end_offset
            fill(log, batches)
            self.acknowledged[partition] = log.log_end_offset
            self.world.logs.after_append(log, before)
        except OSError as error:
            self.world.logs.fail_log(partition, error)

    def cut(self, partition: TopicPartition) -> None:
        log = self.world.logs.logs.get(partition)
        if log is None:
            return
        self.acknowledged[partition] = log.log_end_offset - 3
        try:
            log.truncate_to(log.log_end_offset - 3)
        except OSError as error:
            self.world.logs.fail_log(partition, error)


def live(broker: Broker) -> None:
    """Some minutes: appends, rolls, syncs, checkpoints, retention, a cut, a deletion, the end."""
    world = broker.world
    first, second = (directory.directory_id for directory in world.logs.directories)
    for partition in HERE:
        broker.create(partition, first)
    for partition in THERE:
        broker.create(partition, second)
    for partition in [*HERE, *THERE]:
        broker.append(partition, 12)
    world.run_ms(65_000)
    broker.cut(HERE[0])
    for partition in [*HERE, *THERE]:
        broker.append(partition, 3)
    world.run_ms(2000)
    world.logs.delete(HERE[2])
    broker.acknowledged.pop(HERE[2])
    world.run_ms(10_000)


def check_other_directory(broker: Broker) -> None:
    for partition in THERE:
        assert len(values(broker.world.logs.logs[partition])) == 15


@pytest.mark.slow
@pytest.mark.parametrize("for_good", [True, False], ids=["for_good", "once"])
@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_directory_fails_alone_at_any_call(ending: str, for_good: bool) -> None:
    step, nth, offline = 1, 0, 0
    while True:
        nth += step
        assert nth < CALLS_MAX
        world = DirectoriesWorld(seed=nth)
        broker = Broker(world)
        world.disk.fail_call(nth, for_good=for_good, prefix=PATHS[0])
        live(broker)
        directory = world.logs.directories[0]
        if not directory.is_online:
            offline += 1
            assert directory.offline_reason and world.offline[0][0] == PATHS[0]
            assert not directory.logs
        check_other_directory(broker)
        getattr(world, ending)()
        hit = world.disk.fault_was_hit and world.disk.totals["calls_failed"]
        world.disk.fail_call(0)
        world.start()
        check_other_directory(broker)
        for partition, acknowledged in broker.acknowledged.items():
            log = world.logs.logs.get(partition)
            assert log is not None or acknowledged == 0
            assert log is None or log.log_end_offset >= acknowledged
            assert log is None or len(values(log)) == log.log_end_offset
        if not hit and directory.is_online:
            break
        step = 1 if nth < 120 else 7
    assert offline > 50
