"""One partition's log against the limit of the same machine: a plain ``writev`` or ``pread`` loop.

Measures: appends and reads of 1 KB records in batches of several sizes; CPU time per append; compaction;
opening by number of partitions; memory of an idle partition. Each ratio is the median of rounds in which the
plain loop and the log take turns. Ratios are by the clock and in CPU time, which says more on a busy machine.
The data stay in the page cache: this measures the log, not the device. Prints its lines and, without
``--only``, writes them to ``bench/results/log.txt``.

    python -m bench.log [--directory DIR] [--rounds 9] [--partitions 10000] [--only sizes]
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from barnabas.host.disk import HostDisk
from barnabas.log.config import DEFAULT_CONFIG, LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition
from bench import compaction

NOW = 1_750_000_000_000
ROUND_BYTES = 96 << 20
FETCH_BYTES = 1 << 20
READS = 3
"""Passes over the whole log in each round."""
RESULTS = Path(__file__).parent / "results" / "log.txt"
Tell = Callable[[str], None]


def open_at(
    directory: str, number: int = 0, config: LogConfig = DEFAULT_CONFIG, *, clean: bool = False
) -> PartitionLog:
    disk = HostDisk()
    partition = TopicPartition("t", number)
    return open_log(
        FileCache(disk), f"{directory}/{partition}", partition, config, LogCheckpoints(clean=clean)
    ).log


class Taken(NamedTuple):
    """Seconds by the clock and of CPU, or ratios of both."""

    wall: float
    cpu: float

    def over(self, other: Taken) -> Taken:
        """The ratios of this to `other`."""
        return Taken(self.wall / other.wall, self.cpu / other.cpu)


def timed(work: Callable[[], object]) -> Taken:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Taken(time.perf_counter() - wall, time.process_time() - cpu)


def plain_write(fd: int, data: bytes, total: int) -> None:
    done = 0
    while done < total:
        done += os.writev(fd, [data])


def plain_read(fd: int) -> None:
    size, position = os.fstat(fd).st_size, 0
    while position < size:
        position += len(os.pread(fd, FETCH_BYTES, position))


def append_all(log: PartitionLog, batch: bytes, total: int) -> None:
    for _ in range(-(-total // len(batch))):
        log.append_as_leader(batch, leader_epoch=1, wall_ms=NOW)


def read_all(log: PartitionLog, batch_bytes: int, records: int) -> None:
    offset = 0
    while offset < log.log_end_offset:
        found = log.read(offset, FETCH_BYTES, block=False) or log.read(offset, FETCH_BYTES)
        assert found is not None
        offset += len(found.records) // batch_bytes * records


def measure_size(directory: str, records: int, rounds: int) -> str:
    """One line of the report: appends and reads in batches of `records` records of 1 KB."""
    rng = random.Random(1)
    batch = build_batch([(None, rng.randbytes(1000)) for _ in range(records)], timestamp_ms=NOW)
    total = ROUND_BYTES if records > 1 else ROUND_BYTES // 8
    appends, reads, appended = list[Taken](), list[Taken](), list[Taken]()
    for _ in range(rounds + 1):
        path = f"{directory}/plain"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        limit = timed(lambda: plain_write(fd, batch, total))  # noqa: B023 - called at once
        os.close(fd)
        os.unlink(path)
        log = open_at(directory)
        took = timed(lambda: append_all(log, batch, total))  # noqa: B023
        appends.append(limit.over(took))
        appended.append(took)
        fd = os.open(log.segments[0].path, os.O_RDONLY)
        for _ in range(READS):
            limit = timed(lambda: plain_read(fd))  # noqa: B023
            took = timed(lambda: read_all(log, len(batch), records))  # noqa: B023
            reads.append(limit.over(took))
        os.close(fd)
        log.close(clean=False)
        shutil.rmtree(log.directory)
    count = -(-total // len(batch))
    rate = median(total / took.wall for took in appended[1:]) / 1e6
    cpu_us = median(took.cpu for took in appended[1:]) / count * 1e6
    return (
        f"batches of {records:4} KiB  append {ratio(appends[1:])}, {rate:5.0f} MB/s,"
        f" {cpu_us:6.1f} us CPU each   read {ratio(reads[READS:])}"
    )


def ratio(taken: list[Taken]) -> str:
    """Ratios of all rounds in words: median, smallest, largest."""
    walls = [item.wall for item in taken]
    return (
        f"{median(walls):.2f} of the limit ({min(walls):.2f} to {max(walls):.2f},"
        f" in CPU time {median(item.cpu for item in taken):.2f})"
    )


def measure_opening(directory: str, partitions: int, tell: Tell) -> None:
    """Lines on opening cleanly closed partitions, and on the memory of one that is idle."""
    batch = build_batch([(None, b"x" * 1000)] * 10, timestamp_ms=NOW)
    for number in range(partitions):
        log = open_at(directory, number)
        for _ in range(3):
            log.append_as_leader(batch, leader_epoch=1, wall_ms=NOW)
        log.active.finish()
        log.epochs.write()
        log.write_producer_snapshot(log.log_end_offset)
        log.close(clean=False)
    for count in sorted({min(1000, partitions), min(3000, partitions), partitions}):
        files = FileCache(HostDisk(), limit=2000)
        gc.collect()
        took = timed(partial(open_many, directory, count, files))
        tell(
            f"open {count:5} cleanly closed partitions  {took.wall:.2f} s ({took.cpu:.2f} s of CPU)"
        )
        files.close_all()
    tell(measure_memory(directory, min(1000, partitions)))


def open_many(directory: str, count: int, files: FileCache) -> list[PartitionLog]:
    logs = []
    for number in range(count):
        partition = TopicPartition("t", number)
        path = f"{directory}/{partition}"
        logs.append(
            open_log(files, path, partition, DEFAULT_CONFIG, LogCheckpoints(clean=True)).log
        )
    return logs


def measure_memory(directory: str, count: int) -> str:
    files = FileCache(HostDisk(), limit=50)
    tracemalloc.start()
    logs = open_many(directory, count, files)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    files.close_all()
    del logs
    return f"memory of an idle partition  {used / count:.0f} bytes"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--directory", default=None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--only", choices=("sizes", "compaction", "opening"), default=None)
    given = parser.parse_args(arguments)
    lines = list[str]()

    def tell(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    tell(
        f"# python -m bench.log {' '.join(arguments)}: {os.cpu_count()} cores, load average"
        f" {os.getloadavg()[0]:.1f} at the beginning; medians of {given.rounds} rounds"
    )
    for name in ("sizes", "compaction", "opening"):
        if given.only not in (None, name):
            continue
        directory = tempfile.mkdtemp(prefix="bench-log-", dir=given.directory)
        try:
            if name == "sizes":
                for records in (1, 16, 64, 1024):
                    tell(measure_size(directory, records, given.rounds))
            elif name == "compaction":
                compaction.measure_all(directory, tell)
            else:
                measure_opening(directory, given.partitions, tell)
        finally:
            shutil.rmtree(directory)
    if given.only is None:
        RESULTS.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
