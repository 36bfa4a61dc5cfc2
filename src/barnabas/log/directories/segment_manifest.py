"""Which segments each log of a directory had when it was closed cleanly.

A segment whose files are all gone looks like a gap that compaction left: readers continue behind it.
So a clean end writes down what is there, in a file of ours in the log directory (Apache Kafka passes over
files that are no directories). It holds for the clean-shutdown file of the same broker epoch, hence not
where another program has run since, and for one start: that removes it before anything else changes. Digits
rot, too: the last line is the CRC of those before.
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
    """Durably. Blocks. Raises ``OSError``."""
    lines = [str(VERSION), str(broker_epoch)]
    for name, known in sorted(bases.items()):
        lines.append(f"{name.topic} {name.partition} {' '.join(map(str, known))}")
    text = "\n".join(lines).encode() + b"\n"
    disk.write_atomic(f"{directory}/{NAME}", text + b"%08x\n" % crc32c(text))


def read_once(
    disk: Disk, directory: str, broker_epoch: int | None
) -> dict[TopicPartition, list[int]]:
    """What the clean end of `broker_epoch` (-1: before it had registered; None: there was none) left, and
    nothing for a later start; empty if that is unknown. Blocks. Raises ``OSError``."""
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
