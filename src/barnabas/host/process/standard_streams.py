"""Standard input, output and error of a process that was started without them.

The process that starts a program may have closed them. The next file that is opened gets the free number
then, and what is said there goes into that file: into a log directory's, in a node.
"""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""The streams by number."""


def fill_standard_streams() -> None:
    """Nothing to read and no reader, where a stream is closed. Call it before files are opened."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < len(_STREAMS):
        name, mode = _STREAMS[descriptor]
        os.set_inheritable(descriptor, True)
        setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    os.close(descriptor)
