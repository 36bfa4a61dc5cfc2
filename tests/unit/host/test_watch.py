"""A loop that stands in a write is told of, with the file; one that works is not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk
from barnabas.host.loop import new_loop
from barnabas.host.watch import LoopWatch
from barnabas.types import Buffer

TICK_S = 0.02


def run(work: Callable[[Callable[[], None]], None]) -> list[tuple[str, dict[str, object]]]:
    """What was logged while a loop did `work`, which gets what ends it."""
    told: list[tuple[str, dict[str, object]]] = []
    went_on = threading.Event()

    def log(_level: str, event: str, **fields: object) -> None:
        told.append((event, fields))
        if event == "loop.goes_on":
            went_on.set()

    loop = new_loop()
    watch = LoopWatch(loop, log, TICK_S)
    loop.call_soon(watch.start)
    loop.call_soon(work, loop.stop)
    loop.run_forever()
    if told:

        def end() -> None:
            went_on.wait(10)
            loop.call_soon_threadsafe(loop.stop)

        threading.Thread(target=end).start()
        loop.run_forever()
    watch.stop()
    loop.close()
    return told


def test_a_write_that_hangs_is_told_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "00000000000000000000.log")
    write, release = os.pwritev, threading.Event()

    def hang(fd: int, parts: Sequence[Buffer], position: int) -> int:
        threading.Timer(TICK_S * 10, release.set).start()
        assert release.wait(10)
        return write(fd, parts, position)

    monkeypatch.setattr(os, "pwritev", hang)

    def work(end: Callable[[], None]) -> None:
        HostDisk().open(path, create=True).append([b"batch"])
        end()

    told = run(work)
    assert [event for event, _ in told] == ["loop.stands", "loop.goes_on"]
    assert told[0][1]["file"] == path
    assert "HostFile.append" in str(told[0][1]["where"])
    assert Path(path).read_bytes() == b"batch"


def test_a_loop_that_works_is_left_alone() -> None:
    def work(end: Callable[[], None]) -> None:
        threading.Timer(TICK_S * 10, end).start()

    assert run(work) == []
