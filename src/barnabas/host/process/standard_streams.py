"""Standard input, output and error: those that a process lacks, and those that cannot take what is written.

The parent may have closed them. Then the next file that is opened would get the free number, and
messages would be written into that file, in a node into a file of a log directory. A terminal may have
an encoding without the lines of tables, and the file behind standard output may be on a full disk.
"""

from __future__ import annotations

import io
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


def replace_what_cannot_be_encoded() -> None:
    """Have standard output take every character: ``?`` for one that its encoding does not have."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def drop_output() -> None:
    """Drop what is still to be written to standard output: the end of the process would fail at it once
    more."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
