"""The share partitions that this broker leads. They are loaded with the first fetch, written,
unlocked and dropped.

A share partition reads its state from the share coordinator once, and fetches wait for that.
Changes are written one after the other; an acknowledgement is answered when its write is committed, or
when the share partition ends before that write begins.
After a failed write the next one waits for `WRITE_PAUSE_MS`.
When the broker no longer leads the partition, or the share coordinator fences it, the share
partition ends: fetches get NOT_LEADER_OR_FOLLOWER, and the next leader reads the written state.

Source: ``SharePartitionManager`` and ``SharePartition.maybeInitialize`` of Apache Kafka 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.broker.deadlines import Deadlines
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.share.open_letters import DeadLetter
from barnabas.broker.share.share_partition import ShareLimits, SharePartition
from barnabas.broker.share.start_offset import StartOffsets
from barnabas.broker.share.state_client import AGAIN, StateClient
from barnabas.broker.share.state_writes import DeliveryChange, StateWrite
from barnabas.config.group import DEAD_LETTER_TOPIC
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.metadata.features import DEAD_LETTERS_SINCE, SHARE_VERSION
from barnabas.ports import Ports, call_all
from barnabas.share.delivery import NO_OFFSET, StateBatch
from barnabas.share.key import SharePartitionKey
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.replicas.replica_table import ReplicaTable

FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
GONE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of the share coordinator after which the share partition ends."""
ENDS_WRITES = FENCED | GONE | {ErrorCode.INVALID_REQUEST}
"""Errors of a write after which the share partition ends. INVALID_REQUEST is the answer for a
deleted state."""
OnAcknowledged = Callable[[KafkaError | None], None]
WRITE_PAUSE_MS = 500.0


class LedState(Enum):
    """The state of a share partition on the broker that leads it."""

    LOADING = "loading"
    """Its state is read from the share coordinator. Fetches wait for that."""
    IN_SERVICE = "in service"
    LEFT = "left"
    """No member has a session here. It ends when its last change and its last dead letter are
    written, unless a member comes back."""
    ENDED = "ended"
    """It has an error, which fetches get. Nothing begins any more; what was sent to the share
    coordinator is still answered."""


LED_MOVES: Mapping[LedState, Mapping[LedState, str]] = {
    LedState.LOADING: {
        LedState.IN_SERVICE: "its state is read",
        LedState.ENDED: "reading failed, the members left, or another broker leads",
    },
    LedState.IN_SERVICE: {
        LedState.LEFT: "the last session of the group's members is closed",
        LedState.ENDED: "another broker leads, or the share coordinator refused a write",
    },
    LedState.LEFT: {
        LedState.IN_SERVICE: "a member fetches again",
        LedState.ENDED: "everything is written, or as for one in service",
    },
    LedState.ENDED: {},
}
"""The moves and their reasons."""


class WriteState(Enum):
    """Whether a share partition sends its changes to the share coordinator."""

    READY = "ready"
    PAUSED = "paused"
    """A write has just failed. The next one begins when the pause is over."""


class FetchWaiter(Protocol):
    """A fetch that waits for the share partition."""

    def on_moved(self) -> None:
        """Look again: there may be something to acquire, or an error."""


class DeadLetterWriter(Protocol):
    """Writes dead letters."""

    def send(self, led: LedSharePartition, letter: DeadLetter, on_done: Callable[[], None]) -> None:
        """Write the records of `letter`; `on_done` is called later, once they are written or given up."""


class LedSharePartition:
    """One share partition that this broker leads."""

    __slots__ = (
        "_end_watch",
        "answering",
        "armed_ms",
        "bucket",
        "error",
        "key",
        "leader_epoch",
        "letters_done",
        "share_partition",
        "state",
        "led_partitions",
        "partition",
        "waiting",
        "write_state",
    )

    def __init__(
        self, led_partitions: LedPartitions, key: SharePartitionKey, partition: Partition
    ) -> None:
        self.led_partitions = led_partitions
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state = LedState.LOADING
        self.write_state = WriteState.READY
        self.share_partition: SharePartition | None = None
        """None if it is LOADING, or ENDED before it was loaded."""
        self.error: KafkaError | None = None
        """The error with which it ended; None unless it is ENDED."""
        self.waiting: dict[FetchWaiter, None] = {}
        """The fetches that wait, the oldest first."""
        self.answering: dict[DeliveryChange, OnAcknowledged] = {}
        self.letters_done: list[DeadLetter] = []
        """Dead letters whose records are archived in the next turn of the loop."""
        self.bucket = -1
        self.armed_ms = math.inf
        self._end_watch = partition.on_high_watermark(lambda mark: self.wake())

    def __repr__(self) -> str:
        return (
            f"LedSharePartition({self.key}, {self.state.value}, {self.share_partition!r},"
            f" {len(self.waiting)} waiting)"
        )

    @property
    def has_ended(self) -> bool:
        return self.state is LedState.ENDED

    def move(self, state: LedState) -> None:
        """Change the state. Raises AssertionError for a move that does not exist."""
        assert state in LED_MOVES[self.state], f"{self!r} may not become {state.value}"
        self.state = state

    def validate(self) -> None:
        """Raises AssertionError if an invariant is broken."""
        assert (self.error is not None) == self.has_ended, f"{self!r} has the error {self.error}"
        machine = self.share_partition
        if self.state is LedState.LOADING:
            assert machine is None and not self.answering, f"{self!r} is not loaded and answers"
        elif not self.has_ended:
            assert machine is not None, f"{self!r} has no share partition"
            machine.validate()
            left = self.state is LedState.LEFT
            assert not left or machine.is_writing or machine.letters or self.letters_done, (
                f"{self!r} has written all and has not ended"
            )

    def wake(self) -> None:
        """Let every fetch that waits look again."""
        for waiter in list(self.waiting):
            waiter.on_moved()

    def on_deadline(self) -> None:
        """The deadline passed: end the locks whose time is over."""
        self.armed_ms = math.inf
        self.led_partitions.on_locks_due(self)

    def end(self, error: KafkaError) -> None:
        self.move(LedState.ENDED)
        self.error = error
        self._end_watch()
        self.wake()


class LedPartitions:
    """All share partitions that this broker leads."""

    def __init__(
        self,
        ports: Ports,
        deadlines: Deadlines,
        replicas: ReplicaTable,
        client: StateClient,
        cluster: ClusterTopics,
        dead_letters: DeadLetterWriter,
    ) -> None:
        """`cluster` knows the configuration of groups."""
        self._ports = ports
        self._deadlines = deadlines
        self._replicas = replicas
        self._client = client
        self._cluster = cluster
        self._dead_letters = dead_letters
        self._starts = StartOffsets(ports, cluster)
        self._led: dict[SharePartitionKey, LedSharePartition] = {}

    def __len__(self) -> int:
        return len(self._led)

    def __repr__(self) -> str:
        return f"LedPartitions({len(self._led)})"

    def describe(self) -> list[dict[str, object]]:
        """The state of all share partitions, for tools and failing tests."""
        return [
            {
                "key": str(key),
                **(led.share_partition.describe() if led.share_partition is not None else {}),
            }
            for key, led in sorted(self._led.items())
        ]

    def validate(self) -> None:
        """Raises AssertionError if a share partition breaks an invariant."""
        for key, led in self._led.items():
            assert led.key == key and not led.has_ended, f"{led!r} has ended"
            led.validate()

    def in_service(self) -> list[tuple[LedSharePartition, SharePartition]]:
        """Those whose state is loaded, each with its machine."""
        led = self._led.values()
        return [(one, one.share_partition) for one in led if one.share_partition is not None]

    @property
    def writes(self) -> int:
        """How many share partitions have a change that is not written yet."""
        machines = (led.share_partition for led in self._led.values())
        return sum(machine is not None and machine.is_writing for machine in machines)

    def limits(self, group_id: str) -> ShareLimits:
        """The group's limits, by its present configuration."""
        config = partial(self._cluster.group_config, group_id)
        return ShareLimits(
            config("share.delivery.count.limit"),
            config("share.partition.max.record.locks"),
            config("share.record.lock.duration.ms"),
            bool(config("share.renew.acknowledge.enable")),
            bool(self._cluster.group_value(group_id, DEAD_LETTER_TOPIC))
            and self._cluster.image.features.get(SHARE_VERSION, 0) >= DEAD_LETTERS_SINCE,
        )

    def find(self, key: SharePartitionKey) -> LedSharePartition | None:
        """The share partition, or None if it is not loaded."""
        return self._led.get(key)

    def open(self, key: SharePartitionKey) -> LedSharePartition:
        """The share partition, whose loading begins if it is not loaded. Raises ``KafkaError`` if
        this broker does not lead it."""
        led = self._led.get(key)
        if led is not None:
            if led.state is LedState.LEFT:
                led.move(LedState.IN_SERVICE)
            return led
        partition, code = self._replicas.find((key.topic_id, key.partition))
        if partition is None:
            raise KafkaError(code, "no replica here")
        partition.readable_log(-1, leader_only=True)
        led = self._led[key] = LedSharePartition(self, key, partition)
        self._client.read(key, led.leader_epoch, partial(self._on_read, led))
        return led

    # Loading

    def _on_read(self, led: LedSharePartition, result: Any) -> None:
        if led.has_ended:
            return
        if isinstance(result, KafkaError):
            self._end(led, told(result))
            return
        batches = [
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
            for b in result.state_batches
        ]
        begin = partial(self._begin, led, result.state_epoch, batches)
        if result.start_offset != NO_OFFSET:
            begin(result.start_offset)
            return
        chosen = partial(begin, chosen=True)
        self._starts.choose(led.key.group_id, led.partition, chosen)

    def _begin(
        self,
        led: LedSharePartition,
        state_epoch: int,
        batches: list[StateBatch],
        start: int | KafkaError,
        *,
        chosen: bool = False,
    ) -> None:
        """The state is read. A start offset that this leader has `chosen` is written at once, so
        that the next leader does not choose another."""
        if led.has_ended:
            return
        if isinstance(start, KafkaError):
            self._end(led, start)
            return
        machine = SharePartition(led.leader_epoch, state_epoch, start, batches)
        led.move(LedState.IN_SERVICE)
        led.share_partition = machine
        if chosen:
            machine.keep_start()
            self._write(led)
        machine.letters.resume(self.limits(led.key.group_id).deliveries_max)
        self._send_letters(led, machine)
        led.wake()

    # Changes

    def changed(
        self,
        led: LedSharePartition,
        change: DeliveryChange | None,
        on_done: OnAcknowledged | None = None,
    ) -> None:
        """Write `change` and call `on_done` when it is committed; at once if there is nothing to
        write."""
        if on_done is not None:
            if change is None:
                on_done(None)
            else:
                led.answering[change] = on_done
        self._write(led)
        self.arm(led)

    def _write(self, led: LedSharePartition) -> None:
        assert led.share_partition is not None
        is_ready = led.write_state is WriteState.READY
        write = led.share_partition.take_write() if is_ready else None
        if write is not None:
            self._client.write(led.key, write, partial(self._on_written, led, write))

    def _on_written(self, led: LedSharePartition, write: StateWrite, result: Any) -> None:
        machine = led.share_partition
        assert machine is not None
        error = told(result) if isinstance(result, KafkaError) else None
        limits = self.limits(led.key.group_id)
        now_ms = self._ports.clock.now_ms()
        machine.on_written(write, error, limits, now_ms)
        answers = [led.answering.pop(change, None) for change in write.changes]
        try:
            call_all(partial(answer, error) for answer in answers if answer is not None)
        finally:
            ends = isinstance(result, KafkaError) and result.code in ENDS_WRITES
            if error is not None and ends and not led.has_ended:
                self._end(led, error)
            if not led.has_ended:
                if error is not None:
                    led.write_state = WriteState.PAUSED
                    self._ports.wakeups.call_at(now_ms + WRITE_PAUSE_MS, partial(self._resume, led))
                self._send_letters(led, machine)
                self._write(led)
                self.arm(led)
                led.wake()
                self._end_if_left(led)

    def _resume(self, led: LedSharePartition) -> None:
        led.write_state = WriteState.READY
        if not led.has_ended:
            self._write(led)

    # Dead letters

    def _send_letters(self, led: LedSharePartition, machine: SharePartition) -> None:
        for letter in machine.letters.take():
            self._dead_letters.send(led, letter, partial(self._on_dead_letter, led, letter))

    def _on_dead_letter(self, led: LedSharePartition, letter: DeadLetter) -> None:
        """It is written, or given up: its records are archived soon, with those of others."""
        if not led.letters_done:
            self._ports.wakeups.call_soon(partial(self._close_letters, led))
        led.letters_done.append(letter)

    def _close_letters(self, led: LedSharePartition) -> None:
        """The records of done letters are archived; the next leader begins with the letters again where
        the share partition has ended."""
        letters, led.letters_done = led.letters_done, []
        if led.share_partition is None or led.has_ended:
            return
        led.share_partition.on_dead_letters(letters)
        self._write(led)
        led.wake()
        self._end_if_left(led)

    # Locks

    def arm(self, led: LedSharePartition) -> None:
        """Set the deadline at which the next lock ends."""
        assert led.share_partition is not None
        due_ms = led.share_partition.deadline_ms()
        if due_ms < led.armed_ms and not led.has_ended:
            if led.bucket != -1:
                self._deadlines.remove(led)
            led.armed_ms = due_ms
            self._deadlines.add(led, due_ms)

    def on_locks_due(self, led: LedSharePartition) -> None:
        """End the locks whose time is over."""
        machine = led.share_partition
        if machine is None or led.has_ended:
            return
        now_ms = self._ports.clock.now_ms()
        if machine.on_deadline(self.limits(led.key.group_id), now_ms):
            self._write(led)
            led.wake()
        self.arm(led)

    # The end

    def leave(self, group_id: str) -> None:
        """No member of the group has a session here any more. Its share partitions end: their
        offsets may be reset now, and this leader would not notice."""
        for key, led in list(self._led.items()):
            if key.group_id != group_id:
                continue
            if led.state is LedState.LOADING:
                self._end(led, _no_member())
            elif led.state is LedState.IN_SERVICE:
                led.move(LedState.LEFT)
                self._end_if_left(led)

    def _end_if_left(self, led: LedSharePartition) -> None:
        machine = led.share_partition
        if led.state is LedState.LEFT and machine is not None:
            if not (machine.is_writing or machine.letters):
                self._end(led, _no_member())

    def on_metadata(self) -> None:
        """Leaders may have changed: end share partitions that this broker no longer leads, or leads
        in another epoch."""
        for key, led in list(self._led.items()):
            partition = self._replicas.by_id.get((key.topic_id, key.partition))
            if (
                partition is not led.partition
                or not partition.is_leader
                or partition.leader_epoch != led.leader_epoch
            ):
                self._end(led, led.partition.not_leader())

    def _end(self, led: LedSharePartition, error: KafkaError) -> None:
        if led.has_ended:
            return  # an answer to a member of another share partition has ended this one
        if self._led.get(led.key) is led:
            del self._led[led.key]
        if led.bucket != -1:
            self._deadlines.remove(led)
        machine = led.share_partition
        writing = set() if machine is None else set(machine.writing)
        unwritten = [change for change in led.answering if change not in writing]
        answers = [led.answering.pop(change) for change in unwritten]
        try:
            led.end(error)
        finally:
            call_all(partial(answer, error) for answer in answers)

    def close(self) -> None:
        """The broker stops: end all share partitions."""
        stopped = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops")
        for led in list(self._led.values()):
            self._end(led, stopped)


def _no_member() -> KafkaError:
    why = "No member of the share group is connected."
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)


def told(error: KafkaError) -> KafkaError:
    """Translate a share coordinator's error into one for members that fetch and acknowledge."""
    if error.code in AGAIN:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.code in FENCED:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message)
    if error.code in GONE:
        return error
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)
