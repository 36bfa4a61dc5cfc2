"""The coordinators of one internal topic: a machine per partition that this broker leads.

Generic over :class:`~barnabas.broker.coordinator.coordinator_shard.CoordinatorMachine`: group coordinators
live on ``__consumer_offsets``, transaction coordinators on ``__transaction_state``. A shard loads by
reading its partition's log when this broker becomes leader, in slices of at most ``SLICE_MS``, one
shard after the other. A shard is *active* once all that was loaded is committed; before that, requests are
refused with COORDINATOR_LOAD_IN_PROGRESS, or wait for it (`when_active`). Requests for a partition whose
replica waits for its turn to lead are refused likewise: FindCoordinator names this broker already. An
*operation* decides on the machine's newest state; its records go with those of all operations of the same
turn of the loop into one batch, and its reply is given once the high watermark has passed them. Records that
the log refuses are undone; a shard that resigns answers NOT_COORDINATOR to all who wait.

Invariants: replies are given in the order of the log; `read` sees only what is committed, and all that a
former leader acknowledged; an operation without records is answered after everything decided before it.

What it does not do: know what a record means, or find the coordinator of a key for others (the
cluster's metadata says who leads a partition).

Source: ``CoordinatorRuntime`` and ``CoordinatorLoaderImpl`` of Apache Kafka 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from struct import unpack
from typing import Any, Generic, TypeAlias, TypeVar

from barnabas.broker.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.broker.coordinator.coordinator_shard import (
    CoordinatorLog,
    CoordinatorMachine,
    CoordinatorShard,
    Done,
    M,
    Marker,
    answer_of,
)
from barnabas.operation import AnyOutcome, Instant
from barnabas.ports import Ports, Wakeup, call_all, raise_soon
from barnabas.raft.metrics import Window
from barnabas.record.compression import Codec
from barnabas.wire.errors import ErrorCode, KafkaError

__all__ = [
    "CoordinatorLog",
    "CoordinatorMachine",
    "Coordinators",
    "Done",
    "Instant",
    "Marker",
    "Operation",
    "AnyOutcome",
    "CoordinatorShard",
    "java_string_hash",
    "partition_of",
]

AFTER_FAULT_MS = 1_000.0
KEYS_KNOWN = 500
"""The number of keys whose partition is remembered, since clients ask for the same keys again and again."""
T = TypeVar("T")
Operation: TypeAlias = Callable[[M, Instant], AnyOutcome]


def java_string_hash(text: str) -> int:
    """``String.hashCode`` of Java: signed 32 bits over UTF-16 code units."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@lru_cache(KEYS_KNOWN)
def partition_of(key: str, partitions: int) -> int:
    """The partition ``Utils.abs(key.hashCode()) % partitions``; the smallest integer, which has no opposite,
    counts as 0."""
    value = java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


class Coordinators(Generic[M]):
    """All shards of one internal topic on this broker. Called on the node's thread only."""

    def __init__(
        self,
        topic: str,
        ports: Ports,
        make_machine: Callable[[], M],
        partition_count: Callable[[], int],
        waits_to_lead: Callable[[int], bool] = lambda partition: False,
        *,
        write_timeout_ms: int,
        load_bytes: int,
        codec: int = Codec.NONE,
    ) -> None:
        """`make_machine` gives an empty machine; `partition_count` is that of the topic, also before
        it exists; `waits_to_lead` says of a partition that the metadata make this broker its leader,
        and its replica does not know yet. A write that is not committed within `write_timeout_ms` is answered
        COORDINATOR_NOT_AVAILABLE. `load_bytes` are read at a time; what is written is
        packed with `codec`."""
        self.topic = topic
        self._ports = ports
        self.make_machine = make_machine
        self._partition_count = partition_count
        self._waits_to_lead = waits_to_lead
        self._write_timeout_ms = write_timeout_ms
        self._codec = codec
        self.loader = CoordinatorLoader[M](
            ports, load_bytes, make_machine, self._is_current, self._on_loaded
        )
        self._shards: dict[int, CoordinatorShard[M]] = {}
        self.load_times = Window(ports.clock.now_ms())
        """The times from election to the end of loading, in milliseconds."""
        self._elected_ms: dict[int, float] = {}
        """The time of election of each partition whose shard is not loaded yet."""
        self._on_end: dict[int, Callable[[], None]] = {}
        self._flush_due = False
        self._wakeup: Wakeup | None = None
        self._wakeup_ms = math.inf

    def __repr__(self) -> str:
        return f"Coordinators({self.topic}, {len(self._shards)} shards)"

    def describe(self) -> dict[str, object]:
        """State of every shard, for tools and logs."""
        return {
            "topic": self.topic,
            "shards": [shard.describe() for _, shard in sorted(self._shards.items())],
        }

    @property
    def shards(self) -> Mapping[int, CoordinatorShard[M]]:
        """The shards by partition, for reading only."""
        return self._shards

    def partition_for(self, key: str) -> int:
        """The partition whose leader coordinates `key`."""
        return partition_of(key, self._partition_count())

    # Requests

    def write(self, key: str, operation: Operation[M], done: Done | None = None) -> None:
        """Run an operation on the shard of `key`. `done` gets the reply when it is committed, or
        the error."""
        self.write_in(self.partition_for(key), operation, done)

    def write_in(self, partition: int, operation: Operation[M], done: Done | None = None) -> None:
        """Write as `write` does, in a given partition."""
        try:
            shard = self._active(partition)
            try:
                shard.decide(operation, done, self._instant())
            finally:  # write what was decided, even if a callback raises
                self._after(shard)
        except KafkaError as error:
            if done is not None:
                done(answer_of(error))

    def end_transaction(self, partition: int, marker: Marker, done: Done) -> None:
        """A transaction that has records in `partition` ends. `done` gets None when its marker is committed,
        or the error."""
        try:
            shard = self._active(partition)
            try:
                shard.end_transaction(marker, done, self._instant())
            finally:
                self._after(shard)
        except KafkaError as error:
            done(answer_of(error))

    def write_all(self, operation: Operation[M]) -> None:
        """Run an operation on every active shard, for example after a topic was deleted."""
        active = [partition for partition in sorted(self._shards) if self._shards[partition].active]
        call_all(partial(self.write_in, partition, operation) for partition in active)

    def read(self, key: str, query: Callable[[M], T]) -> T:
        """Ask what is committed about `key`. Raises ``KafkaError``: until the shard is active, its high
        watermark may be behind what a former leader acknowledged, and the answer would be too old."""
        return query(self._active(self.partition_for(key)).machine)

    def when_active(self, key: str, then: Callable[[KafkaError | None], None]) -> None:
        """Call `then` with None when `key` can be read and written: at once, or when all that was loaded is
        committed. `then` gets an error where this broker does not coordinate `key`, where its
        shard is being loaded, or where that is not committed within the time of a write."""
        try:
            shard = self._shard(self.partition_for(key))
            if shard.loaded and not shard.active:
                shard.latecomers.add(then, self._ports.clock.now_ms())
                self._after(shard)
                return
            self._active(shard.partition)
        except KafkaError as error:
            then(error)
        else:
            then(None)

    def read_all(self, query: Callable[[M], T]) -> list[T]:
        """Ask every shard of this broker, in the order of partitions. Raises ``KafkaError``
        (COORDINATOR_LOAD_IN_PROGRESS) where one is not active yet."""
        for partition in range(self._partition_count()):
            if partition not in self._shards and self._waits_to_lead(partition):
                self._shard(partition)
        return [
            query(self._active(partition).machine)
            for partition, shard in sorted(self._shards.items())
            if not shard.failed
        ]

    # What the replica table tells

    def on_elected(
        self,
        partition: int,
        log: CoordinatorLog,
        leader_epoch: int,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """This broker leads `partition` from `leader_epoch` on: load its coordinator. `on_end` is
        called once when that coordinator ends."""
        existing = self._shards.get(partition)
        if existing is not None:
            if existing.leader_epoch >= leader_epoch and not existing.failed:
                if on_end is not None:
                    on_end()
                return
            self._unload(partition)
        if on_end is not None:
            self._on_end[partition] = on_end
        shard = CoordinatorShard(
            partition,
            log,
            leader_epoch,
            self.make_machine(),
            self._write_timeout_ms,
            self._codec,
            self.perform,
        )
        shard.machine.commit_to(shard.committed)
        self._shards[partition] = shard
        self._elected_ms[partition] = self._ports.clock.now_ms()
        self.loader.add(shard)

    def on_resigned(self, partition: int) -> None:
        """This broker does not lead `partition` any more, or the partition is gone."""
        if partition in self._shards:
            self._unload(partition)

    def on_high_watermark(self, partition: int, offset: int) -> None:
        """The high watermark of `partition` is `offset`."""
        shard = self._shards.get(partition)
        if shard is not None:
            try:
                shard.advance(offset, self._instant())
            finally:
                self._after(shard)

    def perform(self, shard: CoordinatorShard[M], effect: Any) -> None:
        """Carry out an effect of a shard's machine. Subclasses whose machines have effects override it."""
        raise NotImplementedError(f"{self!r} does not know the effect {effect!r}")

    def on_unloaded(self, partition: int) -> None:
        """The shard of `partition` ended here. Subclasses override it."""

    def close(self) -> None:
        """The node stops: answer all that wait."""
        if self._wakeup is not None:
            self._wakeup.cancel()
        call_all(partial(self._unload, partition) for partition in sorted(self._shards))

    # Turns of the loop

    def _instant(self) -> Instant:
        clock = self._ports.clock
        return Instant(clock.now_ms(), clock.wall_ms())

    def _active(self, partition: int) -> CoordinatorShard[M]:
        shard = self._shard(partition)
        if not shard.active:
            why = "has records that are not committed yet" if shard.loaded else "is being loaded"
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic}-{partition} {why}"
            )
        return shard

    def _shard(self, partition: int) -> CoordinatorShard[M]:
        shard = self._shards.get(partition)
        if shard is None and self._waits_to_lead(partition):
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"this broker is about to lead {self.topic}-{partition}",
            )
        if shard is None or shard.failed:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, f"this broker does not lead {self.topic}-{partition}"
            )
        return shard

    def _after(self, shard: CoordinatorShard[M], earliest_ms: float = 0.0) -> None:
        """Arrange that decisions are appended and due operations run, not before `earliest_ms`."""
        if shard.unflushed and not self._flush_due:
            self._flush_due = True
            self._ports.wakeups.call_soon(self._flush)
        self._arm(max(shard.deadline_ms(), earliest_ms))

    def _flush(self) -> None:
        self._flush_due = False
        at = self._instant()
        shards = [shard for _, shard in sorted(self._shards.items()) if shard.unflushed]
        try:
            for shard in shards:
                shard.flush(at)
        finally:  # an error in one shard must not stop the others
            for shard in shards:
                self._after(shard)

    def _arm(self, deadline_ms: float) -> None:
        if deadline_ms >= self._wakeup_ms:
            return
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._wakeup_ms = deadline_ms
        self._wakeup = self._ports.wakeups.call_at(deadline_ms, self._on_wakeup)

    def _on_wakeup(self) -> None:
        self._wakeup, self._wakeup_ms = None, math.inf
        at = self._instant()
        shards = [shard for _, shard in sorted(self._shards.items())]
        earliest_ms = at.now_ms + AFTER_FAULT_MS  # the failed work may still be due
        try:
            due = (shard for shard in shards if shard.deadline_ms() <= at.now_ms)
            call_all(partial(shard.on_deadline, at) for shard in due)
            earliest_ms = 0.0
        finally:
            for shard in shards:
                self._after(shard, earliest_ms)

    def _unload(self, partition: int) -> None:
        shard = self._shards.pop(partition)
        self._elected_ms.pop(partition, None)
        on_end = self._on_end.pop(partition, None)
        if on_end is not None:
            on_end()
        try:
            shard.resign(self._instant())
        finally:
            self.on_unloaded(partition)
        self._ports.log(
            "info", "coordinator.unloaded", topic=self.topic, partition=partition,
            leader_epoch=shard.leader_epoch,
        )  # fmt: skip

    def _on_loaded(self, shard: CoordinatorShard[M]) -> None:
        now_ms = self._ports.clock.now_ms()
        self.load_times.add(now_ms - self._elected_ms.pop(shard.partition, now_ms), now_ms)
        try:
            shard.on_loaded(self._instant())
        except Exception as fault:
            if not shard.active:
                raise  # it is loaded again
            raise_soon(self._ports.wakeups, fault)
        self._ports.log(
            "info", "coordinator.loaded", topic=self.topic, partition=shard.partition,
            leader_epoch=shard.leader_epoch, end_offset=shard.written, state=shard.state,
        )  # fmt: skip
        self._after(shard)

    def _is_current(self, shard: CoordinatorShard[M]) -> bool:
        return self._shards.get(shard.partition) is shard
