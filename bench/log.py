"""One partition's log against the limit of the same machine: a plain ``writev`` or ``pread`` loop.

Append and read 1 KB records in batches of several sizes, CPU time per append, opening by number of
partitions, memory of an idle partition, compaction. Ratios are medians of rounds in which the plain loop
and the log take turns. The data stay in the page cache: what is measured is the log, not the device.

    python -m bench.log [--directory DIR] [--rounds 5] [--partitions 10000]
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
from statistics import median

from barnabas.host.disk import HostDisk
from barnabas.log import cleaner
from barnabas.log.config import DEFAULT_CONFIG, LogConfig
from barnabas.log.files import OpenFiles
from barnabas.log.partition_log import PartitionLog
from barnabas.log.recovery import open_log
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition

NOW = 1_750_000_000_000
ROUND_BYTES = 96 << 20
FETCH_BYTES = 1 << 20


def open_at(
    directory: str, number: int = 0, config: LogConfig = DEFAULT_CONFIG, *, clean: bool = False
) -> PartitionLog:
    disk = HostDisk()
    partition = TopicPartition("t", number)
    return open_log(
        disk, OpenFiles(disk), f"{directory}/{partition}", partition, config, clean=clean
    ).log


def plain_write(directory: str, data: bytes, total: int) -> float:
    """Seconds for writing `total` bytes in pieces of `data`."""
    path = f"{directory}/plain"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    start, done = time.perf_counter(), 0
    while done < total:
        done += os.writev(fd, [data])
    took = time.perf_counter() - start
    os.close(fd)
    os.unlink(path)
    return took


def plain_read(path: str) -> float:
    fd = os.open(path, os.O_RDONLY)
    size, position, start = os.fstat(fd).st_size, 0, time.perf_counter()
    while position < size:
        position += len(os.pread(fd, FETCH_BYTES, position))
    took = time.perf_counter() - start
    os.close(fd)
    return took


def append_all(log: PartitionLog, batch: bytes, total: int) -> tuple[float, float, int]:
    """(seconds, CPU seconds, appends)."""
    start, cpu, count = time.perf_counter(), time.process_time(), 0
    while count * len(batch) < total:
        log.append_as_leader(batch, leader_epoch=1, wall_ms=NOW)
        count += 1
    return time.perf_counter() - start, time.process_time() - cpu, count


def read_all(log: PartitionLog, batch_bytes: int, records: int) -> float:
    start, offset = time.perf_counter(), 0
    while offset < log.log_end_offset:
        found = log.read(offset, FETCH_BYTES, block=False) or log.read(offset, FETCH_BYTES)
        assert found is not None
        offset += len(found.records) // batch_bytes * records
    return time.perf_counter() - start


def measure_size(directory: str, records: int, rounds: int) -> None:
    rng = random.Random(1)
    batch = build_batch([(None, rng.randbytes(1000)) for _ in range(records)], timestamp_ms=NOW)
    total = ROUND_BYTES if records > 1 else ROUND_BYTES // 8
    appends, reads, cpus, rates = [], [], [], []
    for _ in range(rounds + 1):
        limit = plain_write(directory, batch, total)
        log = open_at(directory)
        took, cpu, count = append_all(log, batch, total)
        path = log.segments[0].path
        plain = plain_read(path)
        reads.append(plain / read_all(log, len(batch), records))
        appends.append(limit / took)
        cpus.append(cpu / count * 1e6)
        rates.append(total / took / 1e6)
        log.close(clean=False)
        shutil.rmtree(log.directory)
    print(
        f"batches of {records:5} KB  append {median(appends[1:]):5.2f} of the limit"
        f" ({min(appends[1:]):.2f} to {max(appends[1:]):.2f}), {median(rates[1:]):6.0f} MB/s,"
        f" {median(cpus[1:]):6.1f} us CPU each   read {median(reads[1:]):5.2f} of the limit"
        f" ({min(reads[1:]):.2f} to {max(reads[1:]):.2f})",
        flush=True,
    )


def measure_opening(directory: str, partitions: int) -> None:
    batch = build_batch([(None, b"x" * 1000)] * 10, timestamp_ms=NOW)
    for number in range(partitions):
        log = open_at(directory, number)
        for _ in range(3):
            log.append_as_leader(batch, leader_epoch=1, wall_ms=NOW)
        log.active.finish()
        log.epochs.write(durable=False)
        log.write_producer_snapshot(log.log_end_offset)
        log.close(clean=False)
    for count in sorted({min(1000, partitions), partitions}):
        disk = HostDisk()
        files = OpenFiles(disk, limit=2000)
        gc.collect()
        start, logs = time.perf_counter(), []
        for number in range(count):
            partition = TopicPartition("t", number)
            path = f"{directory}/{partition}"
            logs.append(open_log(disk, files, path, partition, DEFAULT_CONFIG, clean=True).log)
        print(
            f"open {count} cleanly closed partitions  {time.perf_counter() - start:.2f} s",
            flush=True,
        )
        files.close_all()
        del logs
    measure_memory(directory, min(1000, partitions))


def measure_memory(directory: str, count: int) -> None:
    disk = HostDisk()
    files = OpenFiles(disk, limit=50)
    tracemalloc.start()
    logs = []
    for number in range(count):
        partition = TopicPartition("t", number)
        path = f"{directory}/{partition}"
        logs.append(open_log(disk, files, path, partition, DEFAULT_CONFIG, clean=True).log)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"memory of an idle partition  {used / count:.0f} bytes", flush=True)
    files.close_all()


def measure_compaction(directory: str, records: int) -> None:
    """Uncompressed records of 100 bytes, four of each key."""
    config = LogConfig(segment_bytes=16 << 20, cleanup_policy=("compact",))
    log = open_at(directory, 0, config)
    keys = records // 4
    for start in range(0, records, 1000):
        pairs = [(b"key-%08d" % (n % keys), b"v" * 80) for n in range(start, start + 1000)]
        log.append_as_leader(build_batch(pairs, timestamp_ms=NOW), leader_epoch=1, wall_ms=NOW)
    log.roll()
    log.flush()
    log.checkpointed_recovery_point = log.recovery_point
    log.high_watermark = log.log_end_offset
    start_s = time.perf_counter()
    plan = cleaner.make_plan(log, 0, NOW)
    key_map = cleaner.build_map(plan, records)
    trail = cleaner.trail_of(plan)
    for group in cleaner.groups_of(plan, key_map.end):
        assert cleaner.swap(log, plan, cleaner.clean_group(plan, group, key_map, trail))
    took = time.perf_counter() - start_s
    print(f"compaction  {records / took / 1000:.0f} thousand records/s", flush=True)
    log.close(clean=False)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--directory", default=None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=10_000)
    given = parser.parse_args(arguments)
    for name in ("sizes", "compaction", "opening"):
        directory = tempfile.mkdtemp(prefix="bench-log-", dir=given.directory)
        try:
            if name == "sizes":
                for records in (1, 16, 64, 1024):
                    measure_size(directory, records, given.rounds)
            elif name == "compaction":
                measure_compaction(directory, 400_000)
            else:
                measure_opening(directory, given.partitions)
        finally:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main(sys.argv[1:])
