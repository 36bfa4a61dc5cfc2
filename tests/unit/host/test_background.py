"""Background work: queues keep their order, others go on, errors come back as values."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from barnabas import limits
from barnabas.host.background import HostBackground
from barnabas.host.loop import Loop
from tests.unit.host.running import run_until


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def test_a_queue_keeps_its_order_and_waits_for_no_other(loop: Loop) -> None:
    background = HostBackground(loop)
    gate = threading.Event()
    told: list[object] = []
    background.run("slow", gate.wait, lambda result: told.append(("slow", result)))
    for number in range(20):
        background.run("slow", lambda n=number: n, told.append)  # type: ignore[misc]
    background.run("fast", lambda: "fast", told.append)
    run_until(loop, lambda: told == ["fast"])
    gate.set()
    run_until(loop, lambda: len(told) == 22)
    assert told == ["fast", ("slow", True), *range(20)]
    assert background.describe() == {"jobs": 22, "queues": 0, "waiting_jobs": 0}
    background.stop()


def test_an_exception_is_the_result(loop: Loop) -> None:
    background = HostBackground(loop)
    told: list[object] = []

    def fail() -> None:
        raise OSError(28, "no space")

    background.run("disk", fail, told.append)
    run_until(loop, lambda: bool(told))
    assert isinstance(told[0], OSError)
    background.stop()


def test_callbacks_run_on_the_loops_thread(loop: Loop) -> None:
    background = HostBackground(loop)
    threads: list[str] = []
    background.run(
        "q",
        lambda: threads.append(threading.current_thread().name),
        lambda result: threads.append(threading.current_thread().name),
    )
    run_until(loop, lambda: len(threads) == 2)
    assert threads[0].startswith("background")
    assert threads[1] == threading.current_thread().name
    background.stop()


def test_a_failing_callback_does_not_lose_the_others(loop: Loop) -> None:
    background = HostBackground(loop)
    faults: list[object] = []
    loop.set_exception_handler(lambda _, error: faults.append(error))
    told: list[int] = []

    def fail(result: object) -> None:
        raise ValueError("in a callback")

    background.run("q", lambda: 1, fail)
    background.run("q", lambda: 2, lambda result: told.append(2))
    run_until(loop, lambda: told == [2])
    assert [type(fault) for fault in faults] == [ValueError]
    background.stop()


def test_nothing_starts_after_stop(loop: Loop) -> None:
    background = HostBackground(loop)
    gate = threading.Event()
    ran: list[str] = []
    background.run("q", gate.wait, lambda result: ran.append("told"))
    background.run("q", lambda: ran.append("second"), lambda result: None)
    gate.set()
    background.stop()
    background.run("q", lambda: ran.append("third"), lambda result: None)
    loop.stop()
    loop.run_forever()
    assert "second" not in ran
    assert "third" not in ran


def test_stuck_jobs_keep_no_thread_from_others(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOB_STUCK_S", 0.0)
    background = HostBackground(loop, threads=2)
    gate = threading.Event()
    told: list[object] = []
    for disk in range(2):
        background.run(f"hangs {disk}", gate.wait, lambda result: None)
    background.run("other", lambda: "other", told.append)
    run_until(loop, lambda: told == ["other"])
    gate.set()
    background.stop()
