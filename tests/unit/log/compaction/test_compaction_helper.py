"""Rounds of compaction with a helper that dies: they begin again, and in the end continue without it."""

from __future__ import annotations

import pytest

from barnabas.host.helper import HelperProcess
from barnabas.limits import LogBounds, NodeBounds
from barnabas.log.compaction import compactor
from barnabas.log.compaction.compaction_rules import OffsetMap
from barnabas.log.config import LogConfig
from barnabas.ports import HelperDied
from barnabas.record.builder import build_batch
from tests.unit.log.directories.test_directories import T0, TOPIC_ID, values
from tests.unit.log.directories_world import DirectoriesWorld


class Helper:
    """In this process; dies in the calls whose numbers are in `dies_at`."""

    def __init__(self, world: DirectoriesWorld, dies_at: set[int]) -> None:
        self._disk = world.process.disk
        self._dies_at = dies_at
        self.calls = self.closed = 0
        self._answer = compactor.serve(self._disk, bytes(16))

    def call(self, service: str, request: bytes) -> bytes:
        assert service == "barnabas.log.compaction.compactor"
        self.calls += 1
        if self.calls in self._dies_at:
            raise HelperDied(f"in call {self.calls}")
        return self._answer(request)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def short_rounds_are_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "_best_map", lambda secret: OffsetMap)


def compacted(dies_at: set[int]) -> tuple[DirectoriesWorld, Helper, list[str]]:
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "100"})
    helper = Helper(world, dies_at)
    world.process.helper = helper
    world.process.bounds = NodeBounds(logs=LogBounds(helped_from_bytes=0))
    lines: list[str] = []
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(world.process, "log", lambda _, event, **fields: lines.append(event))
    world.config = LogConfig(segment_bytes=2000, cleanup_policy=("compact",))
    log = world.logs.create(T0, TOPIC_ID)
    for at in range(40):
        batch = build_batch([(b"key", b"%d" % at + b"x" * 300)], timestamp_ms=1_750_000_000_000)
        log.append_as_leader(batch, leader_epoch=1, wall_ms=1_750_000_000_000)
    log.high_watermark = log.log_end_offset
    world.run_ms(90_000)  # what a checkpoint vouches for is compacted
    assert log.log_end_offset == 40 and len(values(log)) < 10
    return world, helper, lines


@pytest.mark.slow
def test_a_healthy_helper_does_all() -> None:
    world, helper, lines = compacted(set())
    assert world.logs.cleaner.helped_rounds == world.logs.cleaner.rounds > 0
    assert helper.closed and "log.compacting_without_helper" not in lines


@pytest.mark.slow
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_round_whose_helper_died_starts_again(call: int) -> None:
    world, helper, lines = compacted({call})
    assert world.logs.cleaner.helped_rounds > 0 and helper.calls > call
    assert "log.compacting_without_helper" not in lines


@pytest.mark.slow
def test_a_helper_that_did_not_begin_a_round_does_no_later_step_of_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A node stopped during a round: its next step started another helper process, which printed an
    ``AttributeError``."""
    helper = HelperProcess()
    try:
        with pytest.raises(HelperDied, match="before the next step"):
            compactor.HelpedCompactor(helper).clean([])
    finally:
        helper.close()
    assert "Traceback" not in capfd.readouterr().err


def test_compaction_continues_without_helper_after_two_deaths() -> None:
    world, helper, lines = compacted({1, 2, 3, 4, 5, 6})
    assert helper.calls == 2 and world.logs.cleaner.rounds > 0
    assert lines.count("log.compacting_without_helper") == 1
    assert all(directory.is_online for directory in world.logs.directories)
