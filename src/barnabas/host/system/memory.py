"""Sets how much freed memory the allocator keeps, and returns free memory. Only glibc's allocator
is controlled."""

from __future__ import annotations

import ctypes
from contextlib import suppress

from barnabas.host.system import IS_LINUX

KEPT_BYTES = 32 << 20
"""Free bytes that the allocator keeps, and the size in bytes from which it maps a buffer separately."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's <malloc.h>


def keep_freed_memory() -> None:
    """Let the allocator keep the memory of large reads. By default glibc returns the pages after
    each fetch, and the kernel maps and clears new ones for the next."""
    if IS_LINUX:
        with suppress(AttributeError, OSError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
            mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def return_free_memory() -> None:
    """Return the memory that is free, also between used parts, to the system. Blocks; other threads that
    allocate may wait for it."""
    if IS_LINUX:
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
