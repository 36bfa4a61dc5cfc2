"""The end of standard input, by which a program that starts a cluster or a node ends it, however it itself
ends.

A pipe ends when the last process that can write into it has ended. A cluster or a node whose standard
input is a pipe of a test therefore ends with the test, even where that is killed or forgets it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from barnabas.host.loop import Loop

_DESCRIPTOR = 0
_READ_BYTES = 4096


def watch_standard_input(loop: Loop, on_end: Callable[[], None]) -> None:
    """Call `on_end` once when standard input ends; what it says before is not looked at.

    A terminal, a file, a device without an end or no standard input at all is not watched: a program in the
    background that reads from its terminal is stopped.
    """
    try:
        mode = os.fstat(_DESCRIPTOR).st_mode
    except OSError:
        return
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return

    def read() -> None:
        try:
            said = os.read(_DESCRIPTOR, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            loop.remove_reader(_DESCRIPTOR)
            on_end()

    loop.add_reader(_DESCRIPTOR, read)
