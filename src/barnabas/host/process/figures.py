"""Figures of this process, as Prometheus' own clients name them. Reads ``/proc`` where the system has one."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress

_PAGE_BYTES = resource.getpagesize()
_STAT_FIELDS_BEFORE_START = 19
"""Fields of ``/proc/self/stat`` behind the command's name and before the start time."""


def process_figures() -> dict[str, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    figures: dict[str, float] = {"process_cpu_seconds_total": used.ru_utime + used.ru_stime}
    if most != resource.RLIM_INFINITY:
        figures["process_max_fds"] = most
    with (
        suppress(OSError, ValueError, IndexError),
        open("/proc/self/statm", encoding="ascii") as file,
    ):
        figures["process_resident_memory_bytes"] = int(file.read().split()[1]) * _PAGE_BYTES
    with suppress(OSError):
        figures["process_open_fds"] = len(os.listdir("/proc/self/fd"))
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            behind_name = file.read().rpartition(")")[2].split()
        ticks = int(behind_name[_STAT_FIELDS_BEFORE_START])
        figures["process_start_time_seconds"] = _boot_s() + ticks / os.sysconf("SC_CLK_TCK")
    return figures


def _boot_s() -> float:
    """When the machine started, in seconds since 1970."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
