"""Background work: queues keep their order, others continue, errors come back as values."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from barnabas import limits
from barnabas.host import background as module
from barnabas.host.background import Brevity, HostBackground
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
    assert background.describe() == {
        "jobs": 22,
        "jobs_at_once": 0,
        "queues": 0,
        "waiting_jobs": 0,
    }
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


@pytest.mark.parametrize("is_brief", [True, False])
def test_jobs_of_the_quorum_do_not_wait_for_the_threads_of_others(
    loop: Loop, is_brief: bool
) -> None:
    background = HostBackground(loop, threads=2)
    gate = threading.Event()
    told: list[object] = []
    for log in range(20):
        background.run(f"copies {log}", gate.wait, lambda result: None)
    run = background.run_brief if is_brief else background.run
    for queue in sorted(limits.DEDICATED_QUEUES):
        run(queue, lambda name=queue: name, told.append)  # type: ignore[misc]
    run_until(loop, lambda: len(told) == len(limits.DEDICATED_QUEUES))
    assert background.describe()["jobs"] == 20 + len(told)
    gate.set()
    background.stop()


def test_jobs_wait_until_a_thread_can_start(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    faults, told = list[str](), list[object]()
    loop.set_exception_handler(lambda message, _: faults.append(message))
    background = HostBackground(loop)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    background.run("first", lambda: "first", told.append)
    assert faults == ["of 1 background threads one cannot start"]
    monkeypatch.undo()
    background.run("second", lambda: "second", told.append)
    run_until(loop, lambda: len(told) == 2)
    background.run("first", lambda: "again", told.append)
    run_until(loop, lambda: told[-1] == "again")
    background.stop()


def test_a_job_for_which_no_thread_could_start_is_done_though_no_other_comes(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for the sync of a quorum's log gives no other job."""
    faults, told = list[str](), list[object]()
    loop.set_exception_handler(lambda message, _: faults.append(message))
    background = HostBackground(loop)
    monkeypatch.setattr(module, "THREAD_RETRY_S", 0.01)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        background.run("raft-log", lambda: "synced", told.append)
        background.run("raft-log", lambda: "again", told.append)
        run_until(loop, lambda: len(faults) > 1)
    run_until(loop, lambda: told == ["synced", "again"])
    background.stop()


def test_brief_jobs_are_done_at_once_when_enough_of_them_were_brief(loop: Loop) -> None:
    background = HostBackground(loop)
    told: list[object] = []

    def job() -> int:
        return threading.get_ident()

    watched = 0
    while not watched or not background._brevity["disk"].is_expected:
        watched += 1  # more of them where the machine is busy
        background.run_brief("disk", job, told.append)
        run_until(loop, lambda count=watched: len(told) == count)  # type: ignore[misc]
    assert watched >= limits.JOBS_BRIEF_WATCHED
    assert threading.get_ident() not in told
    background.run_brief("disk", job, told.append)
    assert told[-1] == threading.get_ident()
    background.run_brief("another disk", job, told.append)
    assert len(told) == watched + 1, "it is not known yet"
    run_until(loop, lambda: len(told) == watched + 2)
    background.stop()


def test_a_brief_job_waits_for_those_of_its_queue(loop: Loop) -> None:
    background = HostBackground(loop)
    background._brevity["disk"] = brevity = Brevity()
    brevity.left = 0
    gate, told = threading.Event(), list[object]()
    background.run("disk", gate.wait, told.append)
    background.run_brief("disk", lambda: "second", told.append)
    assert not told
    gate.set()
    run_until(loop, lambda: len(told) == 2)
    assert told == [True, "second"]
    background.stop()


def test_an_error_of_a_brief_job_is_its_result(loop: Loop) -> None:
    background = HostBackground(loop)
    background._brevity["disk"] = brevity = Brevity()
    brevity.left = 0
    told = list[object]()

    def fail() -> None:
        raise OSError(28, "no space")

    background.run_brief("disk", fail, told.append)
    assert isinstance(told[0], OSError)
    background.stop()
    background.run_brief("disk", lambda: "late", told.append)
    assert len(told) == 1, "after the end nothing is done"


def test_time_lost_to_slow_jobs_on_the_loop_stays_below_what_threads_would_cost() -> None:
    """Whatever a disk does, jobs done at once cost the loop an eighth of what counts as brief at most, in
    the mean; and two slow ones never follow each other there."""
    brief_s, brevity = limits.JOB_BRIEF_MS / 1000, Brevity()
    took_s = [brief_s / 5] * 1000 + [brief_s * 40] + [brief_s / 5] * 1000 + [brief_s * 9] * 1000
    lost_s, before_was_slow = 0.0, False
    for number, took in enumerate(took_s):
        at_once = brevity.is_expected
        assert not (at_once and before_was_slow)
        before_was_slow = took > brief_s
        if at_once and before_was_slow:
            lost_s += took
            assert lost_s / (number + 1) < brief_s / limits.JOBS_BRIEF_WATCHED
        brevity.note(took)
    assert not brevity.is_expected, "a disk that has become slow is left to the threads"
    for _ in range(10_000):
        brevity.note(brief_s / 5)
    assert brevity.is_expected


def test_a_job_that_is_stuck_does_not_keep_the_process_from_its_end(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOB_STUCK_S", 0.05)
    background = HostBackground(loop)
    begun, gate, stopped = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        gate.wait()

    background.run("hangs", hang, lambda _: None)
    assert begun.wait(10)

    def stop() -> None:
        background.stop()
        stopped.set()

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    assert stopped.wait(10)
    gate.set()
    thread.join()


@pytest.mark.slow
def test_the_next_job_of_a_queue_begins_after_the_callback_of_the_last(loop: Loop) -> None:
    """It may write the very file that `done` renames."""
    background = HostBackground(loop)
    gate, begun, told = threading.Event(), threading.Event(), list[bool]()
    background.run("q", gate.wait, lambda _: told.append(begun.wait(0.2)))
    background.run("q", begun.set, lambda _: told.append(True))
    gate.set()
    run_until(loop, lambda: len(told) == 2)
    assert told == [False, True]
    background.stop()
