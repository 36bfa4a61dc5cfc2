"""Figures of this process, under the names of Prometheus' own clients, and of the machine.
``/proc`` has most of them, on systems that have it."""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import suppress

_PAGE_BYTES = resource.getpagesize()
_PORT_RANGE_FILE = "/proc/sys/net/ipv4/ip_local_port_range"
_STAT_FIELDS_BEFORE_START = 19
"""Fields of ``/proc/self/stat`` behind the command's name and before the start time."""
DISK_FIGURES = {
    f"kafka.server:type=KafkaServer,name=linux-disk-{field.replace('_', '-')}": field
    for field in (
        "read_bytes", "write_bytes", "cancelled_write_bytes", "rchar", "wchar", "syscr", "syscw",
    )
}  # fmt: skip
"""Kafka's names, and the fields of ``/proc/self/io``."""


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
    with suppress(OSError, ValueError), open("/proc/self/io", encoding="ascii") as file:
        counts = dict(line.split(": ") for line in file.read().splitlines())
        figures |= {name: int(counts[key]) for name, key in DISK_FIGURES.items() if key in counts}
    with suppress(OSError, ValueError, IndexError):
        figures["process_start_time_seconds"] = _started_s()
    return figures


def first_ephemeral_port() -> int | None:
    """The first of the ports that outgoing connections get; None where the system does not tell."""
    with (
        suppress(OSError, ValueError, IndexError),
        open(_PORT_RANGE_FILE, encoding="ascii") as file,
    ):
        return int(file.read().split()[0])
    return None


def _started_s() -> float:
    """When this process started, in seconds since 1970. Raises `OSError` where the system does not tell."""
    if sys.platform == "linux":
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            behind_name = file.read().rpartition(")")[2].split()
        ticks = int(behind_name[_STAT_FIELDS_BEFORE_START])
        booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted_s + ticks / os.sysconf("SC_CLK_TCK")
    else:
        raise OSError(f"{sys.platform} does not tell when a process started")
