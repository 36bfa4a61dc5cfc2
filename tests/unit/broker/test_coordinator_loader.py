"""Loading coordinators: what keeps one from being loaded keeps no other from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.broker.coordinator.coordinator_loader import CoordinatorLoader, _replay
from barnabas.record.batch import CorruptBatchError
from barnabas.record.builder import build_batch
from tests.unit.log.directories_world import DirectoriesWorld


class EmptyLog:
    log_start_offset, log_end_offset = 0, 1

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault

    def read(self, offset: int, max_bytes: int, *, block: bool) -> bytes:
        if self.fault is not None:
            raise self.fault
        return b""


def shard(log: EmptyLog) -> Any:
    return SimpleNamespace(log=log, partition=0, failed=False, begin_again=lambda machine: None)


def test_a_coordinator_whose_load_raises_is_loaded_again_later() -> None:
    world, loaded = DirectoriesWorld(), list[Any]()
    loader: CoordinatorLoader[Any] = CoordinatorLoader(
        world.process, 1000, object, lambda shard: True, loaded.append
    )
    odd, sound = shard(EmptyLog(KeyError("a member that never joined"))), shard(EmptyLog())
    loader.add(odd)
    loader.add(sound)
    with pytest.raises(KeyError):  # the loop tells of it, and continues
        world.run_ms(100)
    world.run_ms(100)
    assert loaded == [sound] and odd.failed
    odd.log.fault = None
    world.run_ms(1000)
    assert loaded == [sound, odd]


def test_a_misread_batch_is_not_loaded() -> None:
    """This process wrote it as a follower: what the disk gives back is not checked yet."""
    replayed = list[bytes]()
    machine = SimpleNamespace(
        decode=lambda key, value: (key, value),
        replay=lambda offset, producer_id, decoded: replayed.append(decoded[1]),
    )
    run = bytearray(build_batch([(b"group", b"offset 7")], timestamp_ms=1))
    run[-2] ^= 1
    load = SimpleNamespace(shard=SimpleNamespace(machine=machine), offset=0)
    with pytest.raises(CorruptBatchError):
        list(_replay(cast("Any", load), bytes(run)))
    assert replayed == [] and load.offset == 0
