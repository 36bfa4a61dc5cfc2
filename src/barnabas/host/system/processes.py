"""Other processes: waiting for their end, sending signals, and ending together with a parent.

A `ProcessEnd` is a descriptor that becomes readable when the process has ended with all its threads. Linux'
pidfd and the process filter of kqueue say so themselves; elsewhere a thread looks again and again.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from contextlib import closing, suppress
from typing import Protocol

from barnabas.host.system import IS_LINUX, IS_PORTABLE, PARENT
from barnabas.host.system.wakeups import PipeWakeup

_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.02
"""The interval in which a thread checks whether a process still exists, on a system that does not
report its end."""
_LIST_S = 0.5
"""The interval in which it asks ps, which costs a process, whether the process is a zombie."""


class ProcessEnd(Protocol):
    """`fd` is readable once the process has ended."""

    fd: int

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Raises `ProcessLookupError` where the process has ended."""

    def close(self) -> None: ...


if sys.platform == "linux":

    class _LinuxProcessEnd:
        def __init__(self, pid: int) -> None:
            self.fd = os.pidfd_open(pid)

        def send(self, number: signal.Signals) -> None:
            signal.pidfd_send_signal(self.fd, number)

        def close(self) -> None:
            os.close(self.fd)


class _WatchedProcessEnd:
    """A thread waits for the end and then wakes `fd`."""

    def __init__(self, pid: int) -> None:
        os.kill(pid, 0)
        self._pid = pid
        self._wakeup = PipeWakeup()
        self.fd = self._wakeup.fd
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._watch, name=f"end of {pid}", daemon=True).start()

    def send(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._wakeup.close()

    def _watch(self) -> None:
        while not self._closed and not _has_ended(self._pid, _LIST_S):
            pass
        with self._lock:
            if not self._closed:
                self._wakeup.wake()


def watch_process(pid: int) -> ProcessEnd:
    """Raises `ProcessLookupError` where there is no such process."""
    if sys.platform == "linux" and IS_LINUX:
        return _LinuxProcessEnd(pid)
    return _WatchedProcessEnd(pid)


def has_ended(pid: int, timeout_s: float = 0.0) -> bool:
    """Whether no thread of the process runs any more; waits for that at most `timeout_s`."""
    try:
        end = watch_process(pid)
    except ProcessLookupError:
        return True
    if not IS_LINUX:
        end.close()
        return _has_ended(pid, timeout_s)
    try:
        waiting = select.poll()
        waiting.register(end.fd, select.POLLIN)
        return bool(waiting.poll(timeout_s * 1000))
    finally:
        end.close()


def _has_ended(pid: int, timeout_s: float) -> bool:
    if sys.platform != "linux" and not IS_PORTABLE:
        ends = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        with closing(select.kqueue()) as queue:
            try:
                return bool(queue.control([ends], 1, timeout_s))
            except ProcessLookupError:
                return True
    until = time.monotonic() + timeout_s
    pause = threading.Event()  # waited for, and never set
    while _is_there(pid) and not _is_defunct(pid):
        listed_again = min(until, time.monotonic() + _LIST_S)
        while _is_there(pid):
            left_s = listed_again - time.monotonic()
            if left_s <= 0:
                break
            pause.wait(min(left_s, _LOOK_S))
        if listed_again == until:
            return not _is_there(pid)
    return True


def _is_there(pid: int) -> bool:
    """Whether the process runs. An ended child that was not waited for counts as ended."""
    if sys.platform == "linux":
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_defunct(pid: int) -> bool:
    """Whether the process is a zombie: it has ended, and its parent has not waited for it."""
    import subprocess

    try:
        listed = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
    except OSError:  # a system without ps
        return False
    return listed.stdout.lstrip().startswith("Z")


def end_with_parent(parent: int) -> bool:
    """SIGTERM comes to this process when `parent` ends. Returns whether `parent` is still its parent.

    The kernel sends it where it can, also after `os.execv`. Elsewhere a thread of this process waits for the
    parent's end; an executed program calls `end_with_named_parent` to have one.
    """
    if IS_LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    else:
        os.environ[PARENT] = str(parent)
        _wait_for_parent(parent)
    return os.getppid() == parent


def end_with_named_parent() -> None:
    """Called once by a program that may have been executed by a process with which it ends."""
    named = os.environ.pop(PARENT, "")
    if named.isdecimal() and os.getppid() == int(named):
        _wait_for_parent(int(named))


def _wait_for_parent(parent: int) -> None:
    def wait() -> None:
        while os.getppid() == parent:
            _has_ended(parent, 1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()
