"""Loading coordinators: what keeps one from being loaded keeps no other from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.coordinator_loader import Loader
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
    return SimpleNamespace(log=log, partition=0, failed=False, begin_anew=lambda machine: None)


def test_a_coordinator_that_cannot_be_loaded_for_an_unknown_reason_is_tried_again_later() -> None:
    world, loaded = DirectoriesWorld(), list[Any]()
    loader: Loader[Any] = Loader(world.process, 1000, object, lambda shard: True, loaded.append)
    odd, sound = shard(EmptyLog(KeyError("a member that never joined"))), shard(EmptyLog())
    loader.add(odd)
    loader.add(sound)
    with pytest.raises(KeyError):  # the loop tells of it, and goes on
        world.run_ms(100)
    world.run_ms(100)
    assert loaded == [sound] and odd.failed
    odd.log.fault = None
    world.run_ms(1000)
    assert loaded == [sound, odd]
