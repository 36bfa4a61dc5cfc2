"""Lists the segments that each log of a directory had at its clean shutdown, to notice lost ones.

A segment whose files are all missing looks like a gap that compaction left, and readers would continue after
it. So a clean shutdown writes the base offsets of all segments into a file of ours in the log directory
(Apache Kafka ignores plain files there). The file is valid together with the clean-shutdown file of the same
broker epoch, so not if another program ran since. It is valid for one start, which removes it before
anything else changes. Its last line is the CRC-32C of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crc32c import crc32c

from barnabas.ports import Disk
from barnabas.types import TopicPartition

NAME = "segments-at-close"
VERSION = 0

Bases = Mapping[TopicPartition, Sequence[int]]


def write(disk: Disk, directory: str, broker_epoch: int, bases: Bases) -> None:
    """Write the base offsets of every log's segments, durably. Blocks. Raises ``OSError``."""
    lines = [str(VERSION), str(broker_epoch)]
    for name, known in sorted(bases.items()):
        lines.append(f"{name.topic} {name.partition} {' '.join(map(str, known))}")
    text = "\n".join(lines).encode() + b"\n"
    disk.write_atomic(f"{directory}/{NAME}", text + b"%08x\n" % crc32c(text))


def read_once(
    disk: Disk, directory: str, broker_epoch: int | None
) -> dict[TopicPartition, list[int]]:
    """Read and remove the file. Returns the base offsets of each log's segments, or nothing if the file is
    missing, corrupt or of another broker epoch. `broker_epoch` is that of the clean shutdown: -1 if the
    broker had not registered, None if the shutdown was not clean. Blocks. Raises ``OSError``."""
    path = f"{directory}/{NAME}"
    if not disk.exists(path):
        return {}
    data = disk.read_file(path)
    disk.remove(path)
    text, crc = data[:-9], data[-9:]
    if broker_epoch is None or crc != b"%08x\n" % crc32c(text):
        return {}
    version, epoch, *lines = text.decode().splitlines()
    if int(version) != VERSION or int(epoch) != broker_epoch:
        return {}
    found = {}
    for line in lines:
        topic, partition, *bases = line.split(" ")
        found[TopicPartition(topic, int(partition))] = list(map(int, bases))
    return found
