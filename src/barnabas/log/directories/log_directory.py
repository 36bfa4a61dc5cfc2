"""One entry of ``log.dirs``: its identity, lock, checkpoints, clean-shutdown file, and the logs in it.

A directory that fails goes offline with a reason and takes only its own logs along.

Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from barnabas.log import checkpoints
from barnabas.log.checkpoints import MalformedCheckpoint
from barnabas.log.config import LogConfig
from barnabas.log.directories import segment_manifest
from barnabas.log.directories.disk_watchdog import DiskWatchdog
from barnabas.log.directories.entry_names import (
    CLEAN_SHUTDOWN_FILE,
    NEXT_SUFFIX,
    are_of_a_log,
    deleted_partition_of,
    future_partition_of,
    is_foreign,
    partition_of,
)
from barnabas.log.file_names import PARTITION_METADATA
from barnabas.log.partition.log_loader import LogCheckpoints
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Disk
from barnabas.types import (
    TopicPartition,
    Uuid,
    uuid_from_text,
    uuid_text,
)

OFFSET_MAX = (1 << 63) - 1


class CheckpointJob(NamedTuple):
    """A checkpoint on its way to disk."""

    job: Callable[[], None]
    """Blocks; for another thread."""
    finish: Callable[[], bool]
    """On the owner's thread: puts the file in its place. False if a newer file is there."""


class PartitionDirectory(NamedTuple):
    """A partition's directory as it is found on disk."""

    name: str
    partition: TopicPartition
    topic_id: Uuid | None


class LogDirectory:
    """One directory and what its checkpoint files said when it was opened."""

    def __init__(self, disk: Disk, path: str, directory_id: Uuid) -> None:
        self.disk = disk
        self.path = path
        self.directory_id = directory_id
        self.offline_reason = ""
        """Why it cannot be used; empty while it can."""
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        """Copies of logs of other directories; the checkpoints speak of them, too."""
        self.foreign: list[str] = []
        """Names of entries that no broker made; they stay as they are."""
        self.has_topic_ids = False
        """Whether a log in it had a topic id when it was opened."""
        self.was_clean = False
        self.previous_broker_epoch = -1
        """From the clean-shutdown file (KIP-966); -1 where the last shutdown was none."""
        self.segments_at_close: dict[TopicPartition, list[int]] = {}
        """Base offsets; only of logs of which that is known."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self._compacted_to: dict[TopicPartition, int] = {}
        """The offsets in the checkpoint of compaction."""
        self._is_checkpoint_lost = False
        self._on_rebuilt: Callable[[str, str], None] = lambda path, reason: None
        self.in_checkpoints: set[TopicPartition] = set()
        """Partitions of which some checkpoint on disk may speak, deleted ones among them."""
        self.under_way: dict[str, bool] = {}
        """Checkpoints that are being written; whether there is something newer to write by now."""
        self.when_checkpointed: list[Callable[[], None]] = []
        """Called once no checkpoint of the recovery points is being written, whatever became of it."""
        self.watchdog = DiskWatchdog()
        self._written: Counter[str] = Counter()
        """How often each checkpoint was rewritten at once: an earlier job must not replace the newer file."""

    @property
    def is_online(self) -> bool:
        return not self.offline_reason

    @property
    def all_logs(self) -> dict[TopicPartition, PartitionLog]:
        return {**self.logs, **self.futures} if self.futures else self.logs

    def load(self, on_rebuilt: Callable[[str, str], None] = lambda path, reason: None) -> None:
        """Read the checkpoints and whether the last shutdown was clean. Raises ``OSError``."""
        self._on_rebuilt = on_rebuilt
        self.recovery_points = self._offsets(checkpoints.RECOVERY_POINT)
        self.high_watermarks = self._offsets(checkpoints.HIGH_WATERMARK)
        self.log_starts = self._offsets(checkpoints.LOG_START)
        self._compacted_to = self._offsets(checkpoints.CLEANER)
        self.in_checkpoints = {*self.recovery_points, *self.high_watermarks, *self.log_starts}
        self.in_checkpoints.update(self._compacted_to)
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        self.was_clean = self.disk.exists(path)
        if self.was_clean:
            self.previous_broker_epoch = _broker_epoch(self.disk.read_file(path))
        proven = self.previous_broker_epoch if self.was_clean else None
        self.segments_at_close = segment_manifest.read_once(self.disk, self.path, proven)

    def mark_open(self) -> None:
        """From now on a crash is one: the clean-shutdown file goes."""
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        if self.disk.exists(path):
            self.disk.remove(path)
            self.disk.sync_dir(self.path)

    def distrust(self) -> None:
        """A log is shorter than it was when it closed: neither this start nor a later one may vouch for
        it, also where this process ends before it is in the cluster. Blocks."""
        self.previous_broker_epoch = -1
        self.mark_open()

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self.disk, f"{self.path}/{name}")
        except MalformedCheckpoint as error:
            self._on_rebuilt(f"{self.path}/{name}", str(error))
            self._is_checkpoint_lost = True
            return {}  # recovery then reads everything, and the leader says the watermark again

    def checkpoints_of(self, partition: TopicPartition, config: LogConfig) -> LogCheckpoints:
        """The facts that the former process left of a log found here. Compaction may have left gaps anywhere
        in a compacted topic's log where a checkpoint is damaged."""
        is_lost = config.compact and self._is_checkpoint_lost
        return LogCheckpoints(
            clean=self.was_clean,
            recovery_point=self.recovery_points.get(partition, 0),
            log_start_offset=self.log_starts.get(partition, 0),
            compacted_to=OFFSET_MAX if is_lost else self._compacted_to.get(partition, 0),
            known_bases=self.segments_at_close.get(partition, ()),
        )

    def partitions(self) -> list[PartitionDirectory]:
        """The partitions in it, by name. The names of what is there and no log's go to `foreign`."""
        found = []
        for name in self.disk.list_dir(self.path):
            partition, path = partition_of(name), f"{self.path}/{name}"
            if partition is None:
                if is_foreign(name):
                    self.foreign.append(name)
                continue
            if self.disk.is_dir(path):
                topic_id = self._topic_id(name)
                if topic_id is not None or are_of_a_log(self.disk.list_dir(path)):
                    found.append(PartitionDirectory(name, partition, topic_id))
                    continue
            self.foreign.append(name)
        self.has_topic_ids = any(entry.topic_id is not None for entry in found)
        return found

    def futures_on_disk(self) -> list[PartitionDirectory]:
        """The future logs in it, by name."""
        found = []
        for name in self.disk.list_dir(self.path):
            partition = future_partition_of(name)
            if partition is not None and self.disk.is_dir(f"{self.path}/{name}"):
                found.append(PartitionDirectory(name, partition, self._topic_id(name)))
        return found

    def leftovers(self) -> list[str]:
        """Directories of deleted partitions that a crash left behind."""
        return [
            name
            for name in self.disk.list_dir(self.path)
            if deleted_partition_of(name) is not None and self.disk.is_dir(f"{self.path}/{name}")
        ]

    def _topic_id(self, name: str) -> Uuid | None:
        """Whose log the directory `name` holds; None where that was lost."""
        path = f"{self.path}/{name}/{PARTITION_METADATA}"
        if not self.disk.exists(path):
            return None
        lines = self.disk.read_file(path).decode(errors="replace").splitlines()
        entries = dict(line.partition(": ")[::2] for line in lines)
        if entries.get("version") == "0":
            with suppress(ValueError):
                return uuid_from_text(entries.get("topic_id", ""))
        return None

    def on_lost_topic_id(self, name: str) -> None:
        """The topic of the log in directory `name` is unknown: the log will be set aside. Raises ``OSError``
        if the topic id's file rotted: it is durable with the log's first sync, and an empty log in its
        place would hide the loss. After a crash the file may just not have reached the device."""
        self.previous_broker_epoch = -1
        path = f"{self.path}/{name}/{PARTITION_METADATA}"
        if self.disk.exists(path):
            if self.was_clean:
                raise OSError(
                    f"{path} is malformed: whose log this is cannot be known; write the topic's id into it"
                    " (version: 0, topic_id: as `barnabas topics describe` shows it), or move the folder"
                    " away and let the replica be fetched again"
                )
            self.disk.remove(path)

    def write_topic_id(self, name: str, topic_id: Uuid) -> None:
        text = f"version: 0\ntopic_id: {uuid_text(topic_id)}\n"
        path = f"{self.path}/{name}/{PARTITION_METADATA}"
        self.disk.write_atomic(path, text.encode(), durable=False)

    # -- checkpoints (each blocks; run in the background or at shutdown) ---------------------------

    def recovery_point_entries(self) -> dict[TopicPartition, int]:
        return {partition: log.recovery_point for partition, log in self.all_logs.items()}

    def high_watermark_entries(self) -> dict[TopicPartition, int]:
        return {partition: log.high_watermark for partition, log in self.all_logs.items()}

    def log_start_entries(self) -> dict[TopicPartition, int]:
        """Only where it is not the first segment's base, as Kafka does."""
        return {
            partition: log.log_start_offset
            for partition, log in self.all_logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        }

    def checkpoint_job(self, name: str) -> CheckpointJob:
        """The present offsets as a job that writes them durably beside the file, and what to do then on
        the owner's thread: put them in its place, unless a newer file is there."""
        if name == checkpoints.RECOVERY_POINT:
            return _recovery_point_job(self)
        if name == checkpoints.HIGH_WATERMARK:
            entries = self.high_watermark_entries()
        else:
            entries = self.log_start_entries()
        return self.job_of(name, entries)

    def compaction_job(self, first_dirty: Mapping[TopicPartition, int]) -> CheckpointJob:
        """How far its logs were compacted, likewise."""
        entries = _still_compacted(first_dirty, self.logs)
        job, place = self.job_of(checkpoints.CLEANER, entries)

        def finish() -> bool:
            if not place():
                return False
            self._compacted_to = entries
            return True

        return CheckpointJob(job, finish)

    def job_of(self, name: str, entries: dict[TopicPartition, int]) -> CheckpointJob:
        """`entries` as `checkpoint_job` says."""
        path = f"{self.path}/{name}"
        self.in_checkpoints.update(entries)
        written = self._written[name]

        def job() -> None:
            checkpoints.write_offsets(self.disk, path + NEXT_SUFFIX, entries)

        def finish() -> bool:
            if not self.is_online:
                return True
            if written != self._written[name]:
                return False
            self.disk.rename(path + NEXT_SUFFIX, path)
            return True

        return CheckpointJob(job, finish)

    def compacted(self) -> dict[TopicPartition, int]:
        """How far the checkpoint says that logs were compacted which are here."""
        return _still_compacted(self._compacted_to, self.logs)

    def lower_recovery_points(self) -> None:
        """A log is about to write below the recovery point that the checkpoint has: make a lower one
        durable first. What is written there was not compacted, either. Blocks."""
        compacted = self.compacted()
        self._written[checkpoints.CLEANER] += 1  # one under way may speak of what is cut
        if compacted != self._compacted_to:
            self.write_offsets(checkpoints.CLEANER, compacted)
            self._compacted_to = compacted
        self._replace(checkpoints.RECOVERY_POINT, self.recovery_point_entries())
        for log in self.all_logs.values():
            log.durability.on_only_checkpoint(log.recovery_point)

    def forget_old_checkpoints(self) -> None:
        """Remove from the files what they say of logs that are gone, or of more than recovery found: it
        must not be believed at the next start. Blocks where there is such a thing."""
        stale = any(
            log.durability.checkpointed_recovery_point > log.recovery_point
            for log in self.all_logs.values()
        )
        stale = stale or self.compacted() != self._compacted_to
        if stale or not self.in_checkpoints <= self.all_logs.keys():
            self.write_all_checkpoints()

    def write_offsets(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        checkpoints.write_offsets(self.disk, f"{self.path}/{name}", offsets)

    def _replace(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        self._written[name] += 1
        self.write_offsets(name, offsets)

    def write_all_checkpoints(self) -> None:
        self.lower_recovery_points()
        self._replace(checkpoints.HIGH_WATERMARK, self.high_watermark_entries())
        self._replace(checkpoints.LOG_START, self.log_start_entries())
        self.in_checkpoints = set(self.all_logs)

    def closing_job(self, broker_epoch: int | None) -> Callable[[], None]:
        """A job that writes the last of all checkpoints, and then the proof of a clean shutdown for
        `broker_epoch` (None: the one that is there stays). All its logs are closed."""
        contents = (
            (checkpoints.RECOVERY_POINT, self.recovery_point_entries()),
            (checkpoints.HIGH_WATERMARK, self.high_watermark_entries()),
            (checkpoints.LOG_START, self.log_start_entries()),
        )
        self._written.update([name for name, _ in contents])
        proven = self.previous_broker_epoch if broker_epoch is None else broker_epoch
        bases = {name: tuple(log.bases) for name, log in self.logs.items()}

        def job() -> None:
            for name, entries in contents:
                self.write_offsets(name, entries)
            segment_manifest.write(self.disk, self.path, proven, bases)
            if broker_epoch is not None:
                self._write_clean_shutdown(broker_epoch)

        return job

    def _write_clean_shutdown(self, broker_epoch: int) -> None:
        text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self.disk.write_atomic(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", text.encode())

    def __repr__(self) -> str:
        state = self.offline_reason or f"{len(self.logs)} logs"
        return f"LogDirectory({self.path}, {state})"


def _recovery_point_job(directory: LogDirectory) -> CheckpointJob:
    entries, logs = directory.recovery_point_entries(), dict(directory.all_logs)
    for partition, offset in entries.items():
        logs[partition].durability.begin_checkpoint(offset)
    job, place = directory.job_of(checkpoints.RECOVERY_POINT, entries)

    def finish() -> bool:
        if not place():
            return False
        for partition, offset in entries.items():
            logs[partition].durability.on_checkpointed(offset)
        return True

    return CheckpointJob(job, finish)


def _still_compacted(
    offsets: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]
) -> dict[TopicPartition, int]:
    """Not where a log was cut since, or ends: what is written there has no gaps."""
    return {
        name: min(offset, logs[name].generations.lowest_cut, logs[name].log_end_offset)
        for name, offset in offsets.items()
        if name in logs
    }


def _broker_epoch(data: bytes) -> int:
    try:
        value = json.loads(data)["brokerEpoch"]
        return int(value)
    except (ValueError, KeyError, TypeError):
        return -1


def never_had_topic_id(directory: LogDirectory, partition: TopicPartition) -> bool:
    """Whether the log without a topic id in `directory` is of before topic ids (KIP-516). Otherwise a crash
    may have lost the file, which is durable with the log's first sync; but not those of all logs that are
    there."""
    if directory.disk.exists(f"{directory.path}/{partition}/{PARTITION_METADATA}"):
        return False
    is_synced = directory.was_clean or directory.recovery_points.get(partition, 0) > 0
    return is_synced or not directory.has_topic_ids
