"""A loop that is blocked in a write is reported, with the file; one that works is not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk
from barnabas.host.loop import new_loop
from barnabas.host.loop_watchdog import STALLED_TICKS, LoopWatchdog
from barnabas.types import Buffer

PATIENCE_S = 30.0


class WatchdogLog:
    """What a watch says, and when it has said it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []
        self._said = {"loop.stalled": threading.Event(), "loop.resumed": threading.Event()}

    def log(self, _level: str, event: str, **fields: object) -> None:
        self.lines.append((event, fields))
        self._said[event].set()

    def wait_for(self, event: str) -> None:
        assert self._said[event].wait(PATIENCE_S), f"{event} is not logged: {self.lines}"


def run(log: WatchdogLog, tick_s: float, work: Callable[[Callable[[], None]], None]) -> None:
    """A watched loop does `work`, which gets what ends it."""
    loop = new_loop()
    watch = LoopWatchdog(loop, log.log, tick_s)
    loop.call_soon(watch.start)
    loop.call_soon(work, loop.stop)
    loop.run_forever()
    if log.lines:

        def end() -> None:
            try:
                log.wait_for("loop.resumed")
            finally:
                loop.call_soon_threadsafe(loop.stop)

        threading.Thread(target=end).start()
        loop.run_forever()
    watch.stop()
    loop.close()


@pytest.mark.slow
def test_a_write_that_hangs_is_reported_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "00000000000000000000.log")
    write, log = os.pwritev, WatchdogLog()

    def hang(fd: int, parts: Sequence[Buffer], position: int) -> int:
        log.wait_for("loop.stalled")
        return write(fd, parts, position)

    monkeypatch.setattr(os, "pwritev", hang)

    def work(end: Callable[[], None]) -> None:
        HostDisk().open(path, create=True).append([b"batch"])
        end()

    run(log, 0.1, work)
    assert [event for event, _ in log.lines[:2]] == ["loop.stalled", "loop.resumed"]
    assert log.lines[0][1]["file"] == path
    assert "HostFile.append" in str(log.lines[0][1]["where"])
    assert Path(path).read_bytes() == b"batch"


@pytest.mark.slow
def test_a_loop_that_works_is_left_alone() -> None:
    """As long as a blocked loop takes to be reported; its ticks leave a busy machine time to answer."""
    tick_s, log = 0.2, WatchdogLog()

    def work(end: Callable[[], None]) -> None:
        threading.Timer(tick_s * (STALLED_TICKS + 2), end).start()

    run(log, tick_s, work)
    assert log.lines == []
