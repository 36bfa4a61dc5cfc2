"""Gives a process standard input, output and error if it was started without them.

The parent may have closed them. Then the next file that is opened would get the free number, and
messages would be written into that file, in a node into a file of a log directory.
"""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""The streams by number."""


def fill_standard_streams() -> None:
    """Open closed streams so that they read nothing and drop what is written. Call it before files
    are opened."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < len(_STREAMS):
        name, mode = _STREAMS[descriptor]
        os.set_inheritable(descriptor, True)
        setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    os.close(descriptor)
