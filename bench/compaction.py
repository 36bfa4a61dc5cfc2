"""Compaction of uncompressed records: in the helper process by machine code, there by plain Python, and in
the node's own process. Called by :mod:`bench.log`.

The records have 100 bytes, four per key, in batches of 1000, 100, 10 and 1. The rate is records per second of
CPU time of the process that compacts; the rate by the clock is beside it. A further figure is the longest
time for which the node's own thread stalls. Loading the machine code is measured separately: it happens once
per helper process. Compiling happens once per installation.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from barnabas.host.disk import HostDisk
from barnabas.host.helper import HelperProcess
from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compaction_rules import OffsetMap
from barnabas.log.compaction.compactor import Compactor, HelpedCompactor, LocalCompactor, answering
from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Disk
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition

NOW = 1_750_000_000_000
CONFIG = LogConfig(segment_bytes=64 << 20, cleanup_policy=("compact",))
KEYS_MAX = (128 << 20) // 160
"""Keys of one pass, at 160 bytes each, with the default of ``log.cleaner.dedupe.buffer.size`` (128 MiB)."""
MACHINE_CODE, PLAIN, THIS_PROCESS = "machine code", "plain Python", "this process"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def written(directory: str, records: int, per_batch: int) -> PartitionLog:
    """A log with `records` records, all of which may be compacted."""
    disk, partition = HostDisk(), TopicPartition("compacted", 0)
    path = f"{directory}/{partition}"
    log = open_log(FileCache(disk), path, partition, CONFIG, LogCheckpoints(clean=False)).log
    keys = min(records // 4, KEYS_MAX)
    for start in range(0, records, per_batch):
        numbers = range(start, start + per_batch)
        pairs = [(b"key-%08d" % (number % keys), b"v" * 80) for number in numbers]
        log.append_as_leader(build_batch(pairs, timestamp_ms=NOW), leader_epoch=1, wall_ms=NOW)
    log.roll()
    log.flush()
    log.durability.compactable_to = log.recovery_point
    log.high_watermark = log.log_end_offset
    return log


def one_round(log: PartitionLog, compactor: Compactor) -> None:
    """Compact the whole log in one pass."""
    plan = cleaning_pass.make_plan(log, 0, NOW)
    end = compactor.begin(plan, KEYS_MAX)
    for group in cleaning_pass.groups_of(plan, end):
        assert cleaning_pass.swap(log, plan, compactor.clean(group))
    assert end == log.log_end_offset


def cpu_of(pid: int | None) -> float:
    """Seconds of CPU that the process `pid` has used; with None, this process."""
    if pid is None:
        return time.process_time()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def longest_stall_ms(work: Callable[[], None]) -> float:
    """Run `work` on another thread, as the node does. Returns the longest stall of this thread."""
    thread = threading.Thread(target=work)
    worst, last = 0.0, time.perf_counter()
    thread.start()
    while thread.is_alive():
        time.sleep(0.0005)
        now = time.perf_counter()
        worst, last = max(worst, now - last), now
    return worst * 1000


def measure(directory: str, records: int, per_batch: int, kind: str) -> str:
    """One line of the report."""
    log = written(directory, records, per_batch)
    helper = HelperProcess() if kind == MACHINE_CODE else PlainHelper()
    compactor: Compactor = HelpedCompactor(helper) if kind != THIS_PROCESS else LocalCompactor()
    empty = cleaning_pass.make_plan(log, 0, NOW)._replace(sources=())
    began = time.perf_counter()
    compactor.begin(empty, 1)
    loading = time.perf_counter() - began
    cpu, began = cpu_of(helper.pid), time.perf_counter()
    stall = longest_stall_ms(lambda: one_round(log, compactor))
    wall, cpu = time.perf_counter() - began, cpu_of(helper.pid) - cpu
    helper.close()
    log.close(clean=False)
    shutil.rmtree(log.directory)
    return (
        f"compaction, {kind:12}  batches of {per_batch:4}  {records / cpu / 1000:5.0f} thousand records"
        f" per second of a core ({records / wall / 1000:.0f} by the clock), loading"
        f" {loading:.1f} s, longest stall of this thread {stall:.0f} ms"
    )


def measure_all(directory: str, tell: Callable[[str], None], scale: float = 1.0) -> None:
    for per_batch in (1000, 100, 10, 1):
        for kind in (MACHINE_CODE, PLAIN, THIS_PROCESS):
            full = {1000: 2_000_000, 100: 1_000_000, 10: 1_000_000, 1: 500_000}[per_batch]
            records = int(full * scale * (1 if kind == MACHINE_CODE else 0.2))
            tell(measure(directory, records - records % (4 * per_batch), per_batch, kind))


class PlainHelper(HelperProcess):
    """A helper process that compacts in plain Python, as where the extra ``[fast]`` is not installed."""

    def call(self, service: str, request: bytes) -> bytes:
        return super().call(__name__, request)


def serve(disk: Disk, secret: bytes) -> Callable[[bytes], bytes]:
    """What `PlainHelper`'s process answers."""
    return answering(disk, OffsetMap)
