"""The loop: order of calls, timers, descriptors, threads, signals; one fault stops nothing else."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from functools import partial
from time import perf_counter
from types import FrameType

import pytest

from barnabas.host.loop import Loop, Turn
from barnabas.host.system.pollers import pollers
from tests.unit.host.running import PATIENCE_S, run_until


@pytest.fixture(params=list(pollers()))
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """A loop with each poller of this system."""
    monkeypatch.setenv("BARNABAS_POLLER", request.param)
    loop = Loop()
    yield loop
    loop.close()


def test_calls_run_in_order_and_late_ones_in_the_next_turn(loop: Loop) -> None:
    seen: list[int] = []

    def first() -> None:
        seen.append(1)
        loop.call_soon(seen.append, 3)
        loop.call_soon(loop.stop)

    loop.call_soon(first)
    loop.call_soon(seen.append, 2)
    loop.run_forever()
    assert seen == [1, 2, 3]


def test_timers_run_by_instant_then_by_order(loop: Loop) -> None:
    seen: list[str] = []
    now = loop.time()
    loop.call_at(now + 0.02, seen.append, "later")
    loop.call_at(now + 0.01, seen.append, "first")
    loop.call_at(now + 0.01, seen.append, "second")
    loop.call_at(now + 0.015, seen.append, "never").cancel()
    loop.call_at(now - 1, seen.append, "at once")
    run_until(loop, lambda: len(seen) == 4)
    assert seen == ["at once", "first", "second", "later"]
    assert loop.time() >= now + 0.02


def test_a_callback_that_schedules_itself_does_not_lock_out_a_timer(loop: Loop) -> None:
    def again() -> None:
        loop.call_soon(again)

    again()
    loop.call_later(0.005, loop.stop)
    loop.run_forever()


def test_a_fault_is_reported_and_stops_nothing_else(loop: Loop) -> None:
    faults: list[Exception] = []
    loop.set_exception_handler(lambda message, error: faults.append(error))

    def fail() -> None:
        raise ValueError("in a callback")

    reader, writer = os.pipe()
    loop.add_reader(reader, fail)
    os.write(writer, b"x")
    loop.call_soon(fail)
    loop.call_later(0, fail)
    run_until(loop, lambda: len(faults) >= 3)
    loop.remove_reader(reader)
    os.close(reader)
    os.close(writer)


def test_a_fault_without_a_handler_ends_the_run(loop: Loop) -> None:
    loop.call_soon({}.__getitem__, "nothing")
    with pytest.raises(KeyError):
        loop.run_forever()


def test_a_removed_descriptor_is_not_called_even_where_its_event_had_come(loop: Loop) -> None:
    pipes = [os.pipe() for _ in range(2)]
    called: list[int] = []

    def on_readable(index: int) -> None:
        called.append(index)
        for reader, _ in pipes:
            loop.remove_reader(reader)

    for index, (reader, writer) in enumerate(pipes):
        loop.add_reader(reader, on_readable, index)
        os.write(writer, b"x")
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    assert len(called) == 1
    for pipe in pipes:
        os.close(pipe[0])
        os.close(pipe[1])


def test_reading_and_writing_of_one_descriptor_are_apart(loop: Loop) -> None:
    left, right = socket.socketpair()
    seen: list[str] = []

    def on_writable() -> None:
        seen.append("writable")
        loop.remove_writer(left.fileno())
        right.send(b"x")

    def on_readable() -> None:
        seen.append("readable")
        loop.remove_reader(left.fileno())

    loop.add_reader(left.fileno(), on_readable)
    loop.add_writer(left.fileno(), on_writable)
    run_until(loop, lambda: len(seen) == 2)
    assert seen == ["writable", "readable"]
    left.close()
    right.close()


def test_a_thread_wakes_the_loop(loop: Loop) -> None:
    thread = threading.Timer(0.01, lambda: loop.call_soon_threadsafe(loop.stop))
    thread.start()
    loop.run_forever()
    thread.join()


def test_closing_waits_for_a_thread_that_is_waking_the_loop(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    closer = threading.Thread(target=loop.close)
    wake = os.eventfd_write
    woken: list[int] = []

    def wake_late(fd: int, value: int) -> None:
        closer.start()
        closer.join(0.05)
        wake(fd, value)  # raises where another thread has closed it
        woken.append(fd)

    monkeypatch.setattr(os, "eventfd_write", wake_late)
    waker = threading.Thread(target=loop.call_soon_threadsafe, args=(loop.stop,))
    waker.start()
    waker.join()
    closer.join()
    assert (len(woken), loop.is_closed()) == (1, True)
    loop.call_soon_threadsafe(loop.stop)  # too late, and no fault


def test_a_signal_becomes_a_call_and_its_handler_is_given_back(loop: Loop) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    threads: list[bool] = []

    def on_signal(number: int) -> None:
        threads.append(number == signal.SIGUSR2)
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR2, on_signal, signal.SIGUSR2)
    threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGUSR2)).start()
    loop.run_forever()
    assert threads == [True]
    loop.close()
    assert signal.getsignal(signal.SIGUSR2) is before


def test_a_signal_that_interrupts_no_wait_ends_it(loop: Loop) -> None:
    """It comes to another thread here, as one may that comes just before the wait: nothing else happens."""
    seen: list[str] = []

    def on_signal() -> None:
        seen.append("signal")
        loop.stop()

    def too_late() -> None:
        seen.append("too late")
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR2, on_signal)
    loop.call_later(PATIENCE_S, too_late)
    main = threading.get_ident()

    def runs(frame: FrameType) -> bool:
        """Whether it is in the loop, or in a poller that the loop has called."""
        return Loop.run_forever.__code__ in (frame.f_code, frame.f_back and frame.f_back.f_code)

    def send() -> None:
        while not runs(sys._current_frames()[main]):
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)

    sender = threading.Thread(target=send)
    sender.start()
    loop.run_forever()
    sender.join()
    assert seen == ["signal"]
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    assert before >= 0
    loop.close()
    assert signal.set_wakeup_fd(-1) == -1, "as it was"


def spin(seconds: float) -> None:
    until = perf_counter() + seconds
    while perf_counter() < until:
        pass


def test_turns_are_measured_and_a_long_one_says_what_ran(loop: Loop) -> None:
    slow: list[Turn] = []
    loop.times.report_slow(slow.append)
    loop.call_soon(partial(spin, 0.03))
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.stop()
    loop.run_forever()
    times = loop.times
    assert times.turns >= 2
    assert slow[0].most == "spin"
    assert times.longest.took_ms >= 30
    assert times.longest_cpu.most == times.longest.most == "spin"
    assert times.longest_cpu.cpu_ms > 1
    assert times.describe()["slow_turns"] == len(slow)


def test_a_loop_that_measures_no_turns_runs_the_same_calls() -> None:
    loop = Loop(measures_turns=False)
    seen: list[str] = []
    loop.call_later(0.002, seen.append, "timer")
    loop.call_later(0.003, loop.stop)
    loop.call_soon(seen.append, "soon")
    loop.run_forever()
    loop.close()
    assert seen == ["soon", "timer"]
    assert loop.times.turns == 0


def test_a_long_turn_yields_and_continues_in_order(loop: Loop) -> None:
    seen: list[str] = []

    def slowly(name: str) -> None:
        seen.append(name)
        spin(0.006)

    pipes = [os.pipe() for _ in range(2)]
    for name, (reader, writer) in zip("ab", pipes, strict=True):
        os.write(writer, b"x")

        def read(name: str = name, reader: int = reader) -> None:
            os.read(reader, 1)
            slowly(name)

        loop.add_reader(reader, read)
    for name in "123":
        loop.call_soon(slowly, name)
    loop.call_later(0, slowly, "timer")
    run_until(loop, lambda: len(seen) == 6)
    assert [name for name in seen if name in "123"] == ["1", "2", "3"]
    assert set(seen) == {"a", "b", "1", "2", "3", "timer"}
    assert loop.times.turns >= 3
    for fds in pipes:
        for fd in fds:
            os.close(fd)


def test_an_event_put_off_is_dropped_with_its_descriptor(loop: Loop) -> None:
    """What takes the first turn's time closes the other stream, too."""
    seen: list[str] = []
    pipes = {name: os.pipe() for name in "ab"}

    def on_readable(name: str) -> None:
        seen.append(name)
        spin(0.006)
        for reader, _ in pipes.values():
            loop.remove_reader(reader)

    for name, (reader, writer) in pipes.items():
        os.write(writer, b"x")
        loop.add_reader(reader, on_readable, name)
    loop.call_later(0.03, loop.stop)
    loop.run_forever()
    assert len(seen) == 1
    for fds in pipes.values():
        for fd in fds:
            os.close(fd)
