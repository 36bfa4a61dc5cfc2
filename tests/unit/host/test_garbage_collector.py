"""The collector works between the turns of a node's loop: never within one, never long, never never."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.node import NodeConfig
from barnabas.host import garbage_collector as module
from barnabas.host.garbage_collector import YOUNG_OBJECTS, GarbageCollector
from barnabas.host.loop import Callback, Loop, TurnTimes, name_of, new_loop
from barnabas.host.main import NodeProcess, format_missing
from barnabas.host.structured_log import StructuredLog

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"


class Ring:
    """Garbage that only a collector finds: it names itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def collector() -> Iterator[GarbageCollector]:
    collector = GarbageCollector(growth_blocks_min=20_000)
    collector.begin()
    yield collector
    collector.end()


class NamedTimes(TurnTimes):
    """What took most of each turn."""

    def __init__(self) -> None:
        self.names: list[str] = []
        super().__init__()

    def add(
        self, took_s: float, cpu_s: float = 0.0, most: Callback | None = None, most_s: float = 0.0
    ) -> None:
        self.names.append(name_of(most))
        super().add(took_s, cpu_s, most, most_s)


def look(collector: GarbageCollector, *, idle: bool = False) -> int:
    """Turns that do nothing, until nothing is due; how many collections ran."""
    count = 0
    while collector.between_turns(idle=idle):
        count += 1
    return count


def keep_looking_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look is one that took long."""
    monkeypatch.setattr(module, "LONG_S", 0.0)


def test_nothing_is_collected_within_a_turn_and_all_of_it_after(
    collector: GarbageCollector,
) -> None:
    rings = [weakref.ref(Ring()) for _ in range(2 * YOUNG_OBJECTS)]
    assert all(ring() is not None for ring in rings)
    assert look(collector) == 1
    assert not any(ring() is not None for ring in rings)
    assert look(collector) == 0


def test_few_objects_make_no_collection_due(collector: GarbageCollector) -> None:
    look(collector)
    ring = weakref.ref(Ring())
    assert look(collector) == 0
    assert ring() is not None


def test_survivors_are_collected_with_older_generations(collector: GarbageCollector) -> None:
    """What died after a first look at it is found after some more."""
    kept: list[object] = [Ring() for _ in range(YOUNG_OBJECTS)]
    assert look(collector) == 1
    ring = weakref.ref(kept[0])
    kept.clear()
    for _ in range(module.COLLECTIONS_MAX + 1):
        kept.append([[] for _ in range(YOUNG_OBJECTS + 200)])
        assert look(collector) == 1
    assert ring() is None


@pytest.mark.slow
def test_frozen_garbage_is_collected_in_an_idle_moment(
    collector: GarbageCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_looking_long(monkeypatch)
    collector._due_at_blocks = sys.getallocatedblocks() + 20 * YOUNG_OBJECTS
    kept = [Ring() for _ in range(YOUNG_OBJECTS)]
    look(collector)
    kept += [Ring() for _ in range(YOUNG_OBJECTS)]
    look(collector)
    ring = weakref.ref(kept[0])
    kept.clear()
    many: list[object] = []
    while sys.getallocatedblocks() < collector._due_at_blocks + YOUNG_OBJECTS:
        many.append([[object()] for _ in range(2 * YOUNG_OBJECTS)])
        look(collector)
    assert ring() is not None
    assert collector.collections.full == 0  # a request is served
    assert look(collector, idle=True) == 1
    assert collector.collections.full == 1
    assert ring() is None


NEVER_IDLE = """
import sys, weakref
from barnabas.host import garbage_collector as module

class Ring:
    def __init__(self):
        self.me = self

module.LONG_S, module.OVERDUE_FACTOR = 0.0, 1
blocks = sys.getallocatedblocks
lived = blocks()
sys.getallocatedblocks = lambda: blocks() - lived  # as if little had lived at the start
collector = module.GarbageCollector(growth_blocks_min=20_000)
collector.begin()
alive, most = weakref.WeakSet(), 0
for _ in range(100):
    connections = [Ring() for _ in range(module.YOUNG_OBJECTS // 2)]
    alive.update(connections)
    others = [Ring() for _ in range(module.YOUNG_OBJECTS // 2 + 200)]
    while collector.between_turns(idle=False):
        pass
    del connections, others
    most = max(most, len(alive))
print(most, collector.collections.full)
"""


@pytest.mark.slow
def test_frozen_garbage_is_bounded_on_a_node_that_is_never_idle() -> None:
    """Ever again connections come, grow old, and end as cycles. In a process of its own: what the tests
    before have left would be looked at each time."""
    done = subprocess.run(
        [sys.executable, "-c", NEVER_IDLE], capture_output=True, text=True, check=True
    )
    most, full = map(int, done.stdout.split())
    assert full >= 2
    assert most < 20 * YOUNG_OBJECTS < 100 * YOUNG_OBJECTS // 2


def test_a_look_is_a_turn_of_its_own_with_its_name() -> None:
    loop, collector = new_loop(), GarbageCollector()
    loop.housekeeper = collector
    loop.times = times = NamedTimes()
    rings: list[weakref.ref[Ring]] = []

    def allocate() -> None:
        rings.extend(weakref.ref(Ring()) for _ in range(2 * YOUNG_OBJECTS))
        loop.call_soon(end)

    def end() -> None:
        assert not any(ring() is not None for ring in rings)
        loop.stop()

    collector.begin()
    try:
        loop.call_soon(allocate)
        loop.run_forever()
    finally:
        collector.end()
        loop.close()
    assert collector.describe()["collections"] == 1
    assert [name for name in times.names if "Collector" in name] == [
        "GarbageCollector.between_turns: generation 0"
    ]
    assert len(times.names) >= 3


def test_a_clients_loop_leaves_the_collector_alone() -> None:
    loop = Loop()
    try:
        assert loop.housekeeper is None
        assert gc.isenabled()
    finally:
        loop.close()


@pytest.mark.parametrize("roles", ["broker", "controller", "broker,controller"])
def test_every_kind_of_node_collects_between_its_turns(roles: str, tmp_path: Path) -> None:
    listeners = {
        "broker": "PLAINTEXT://127.0.0.1:0",
        "controller": "CONTROLLER://127.0.0.1:0",
        "broker,controller": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    }
    voter = 1 if "controller" in roles else 2
    config = NodeConfig.from_properties(
        {
            "process.roles": roles,
            "node.id": "1",
            "controller.quorum.voters": f"{voter}@127.0.0.1:1",
            "listeners": listeners[roles],
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(tmp_path),
        }
    )
    format_missing(config, CLUSTER_ID)
    with open(tmp_path / "log", "wb") as journal:
        process = NodeProcess(config, StructuredLog(journal.fileno(), "info"))
        ring: list[weakref.ref[Ring]] = []
        seen: list[bool] = []

        def fill() -> None:
            seen.append(gc.isenabled())
            ring.extend(weakref.ref(Ring()) for _ in range(2 * YOUNG_OBJECTS))
            process._loop.call_later(0, look)

        def look() -> None:
            seen.append(any(one() is not None for one in ring))
            process._finish(0, "")

        process._loop.call_later(0, fill)
        assert process.run() == 0
    assert seen == [False, False]
    assert gc.isenabled()
    assert b"collections=" in (tmp_path / "log").read_bytes()
