"""One replica on this broker with its role, and the operations that wait for it.

A partition leads, follows, or is offline (its directory failed). As leader it appends the batches of
clients and coordinators, moves the high watermark as followers fetch, and asks for ISR changes. It
notifies produce requests through `wait_for`, fetch sessions through the watcher tables and coordinators
through `on_high_watermark`.

Invariants: the high watermark never goes back while this replica leads; each wait for an offset is
settled exactly once (reached, or the leadership ended); only the present leader's path and the follower
path append.

Source: Kafka's Partition; KIP-966 for the high watermark below min.insync.replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from barnabas.broker.partitions.last_refusal import LastRefusal
from barnabas.broker.partitions.replica import Replica, ReplicaHost
from barnabas.broker.partitions.watermark_waiters import (
    LowWatermarkWaiters,
    OffsetWaiters,
    Waiter,
    call_each,
)
from barnabas.log.errors import OffsetOutOfRange
from barnabas.log.partition.partition_log import AppendInfo, AppendOrigin, PartitionLog
from barnabas.log.state.producer_state import TRUSTED, Verification
from barnabas.metadata.image.topic import PartitionState
from barnabas.replication.leader import FollowerProgress, IsrProposal, LeaderState
from barnabas.replication.sessions import FetchSession, SessionPartition
from barnabas.types import Buffer, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError

OnHighWatermark = Callable[[int], None]


class PartitionHost(ReplicaHost, Protocol):
    """The part of the broker that a partition needs."""

    lag_ms_max: float
    marks_moved: bool
    propagates_high_watermarks: bool
    """Whether consumers read from followers, so that they need each new high watermark at once."""

    def now_ms(self) -> float: ...
    def wall_ms(self) -> int: ...
    def is_eligible(self, partition: Partition, broker: int, broker_epoch: int) -> bool: ...
    def propose_isr(self, partition: Partition, proposal: IsrProposal) -> None: ...
    def check_and_complete(self, session: FetchSession[Partition]) -> None: ...
    def on_fault(self, fault: Exception) -> None:
        """Handle an exception of a listener that was notified of a watermark or of the end of a
        leadership."""


class Partition(Replica):
    """One replica, leading or not."""

    __slots__ = (
        "_high_watermark_listeners",
        "_host",
        "_flush_waiters",
        "_waiting",
        "append_watchers",
        "high_watermark_watchers",
        "leader",
        "last_refusal",
        "low_watermark_waiters",
        "min_isr",
    )

    def __init__(
        self, host: PartitionHost, topic: str, topic_id: Uuid, index: int, log: PartitionLog | None
    ) -> None:
        super().__init__(host, topic, topic_id, index, log)
        self._host = host
        self.leader: LeaderState | None = None
        """The leader's state; None if this replica does not lead."""
        self.min_isr = 1
        """``min.insync.replicas`` of the topic."""
        self.last_refusal = LastRefusal()
        self.append_watchers: dict[SessionPartition[Partition], None] = {}
        """Followers' sessions: notified of every append."""
        self.high_watermark_watchers: dict[SessionPartition[Partition], None] = {}
        """Consumers' sessions: notified when there is more to read."""
        self._waiting = OffsetWaiters(host.on_fault)
        self._flush_waiters: OffsetWaiters | None = None
        """The produce requests with acks=1 that wait for a sync, made for the first one."""
        self._high_watermark_listeners: list[OnHighWatermark] = []
        self.low_watermark_waiters = LowWatermarkWaiters(host.on_fault)
        """Requests of DeleteRecords that check again whenever the low watermark or the leadership
        moves."""

    @property
    def is_leader(self) -> bool:
        return self.leader is not None

    def become_leader(self, state: PartitionState) -> bool:
        """Lead, as the metadata say. Returns whether that is a new leadership."""
        log = self.log
        if log is None:
            self.update_state(state)
            return False
        leader = self.leader
        if leader is not None and leader.epoch == state.leader_epoch:
            if leader.on_metadata(state.partition_epoch, state.replicas, state.isr, state.recovery):
                if state.replicas != self.replicas:
                    self._rebind_watchers()
                self.update_state(state)
                self.on_isr_changed()
            return False
        self.update_state(state)
        if not self.begin_epoch(log, state.leader_epoch):
            return False
        self.leader = LeaderState(
            self._host.node_id,
            state.leader_epoch,
            state.partition_epoch,
            state.replicas,
            state.isr,
            state.recovery,
            log.log_end_offset,
            self._host.now_ms(),
        )
        self._rebind_watchers()
        self.advance_high_watermark()
        self.low_watermark_waiters.check_and_complete()
        return True

    def become_follower(self, state: PartitionState) -> bool:
        """Follow, as the metadata say: another replica leads, or none. Returns whether the leader
        or its epoch is new."""
        moved = state.leader_epoch != self.leader_epoch or state.leader != self.leader_id
        self.update_state(state)
        if self.leader is not None:
            self.leader = None
            self._end_leadership(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if moved:
            self._rebind_watchers()
        return moved

    def go_offline(self) -> None:
        """The log directory failed: the partition answers KAFKA_STORAGE_ERROR from now on."""
        self.log = None
        self.leader = None
        self._end_leadership(ErrorCode.KAFKA_STORAGE_ERROR)
        self._rebind_watchers()

    def delete(self) -> None:
        """The topic or this replica was removed. The caller deletes the log."""
        self.leader = None
        self._end_leadership(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for watcher in (*self.append_watchers, *self.high_watermark_watchers):
            watcher.partition = watcher.follower = None
            self._notify_session(watcher)
        self.append_watchers.clear()
        self.high_watermark_watchers.clear()

    def _end_leadership(self, code: ErrorCode) -> None:
        self._waiting.complete_all(code)
        if self._flush_waiters is not None:
            self._flush_waiters.complete_all(code)
        self.low_watermark_waiters.check_and_complete()

    def _rebind_watchers(self) -> None:
        """The role changed: sessions read from the new role, and their requests have to be answered."""
        followers = {} if self.leader is None else self.leader.followers
        for watcher in self.append_watchers:
            watcher.follower = followers.get(watcher.session.follower_id)
            self._notify_session(watcher)
        for watcher in self.high_watermark_watchers:
            self._notify_session(watcher)

    def leave_readers_by_name(self) -> None:
        """Let sessions that read by name go: another topic has this name now."""
        for watchers in (self.append_watchers, self.high_watermark_watchers):
            for watcher in [watcher for watcher in watchers if not watcher.session.uses_ids]:
                del watchers[watcher]
                watcher.partition = watcher.follower = None
                self._notify_session(watcher)

    def _notify_session(self, watcher: SessionPartition[Partition]) -> None:
        watcher.session.mark(watcher)
        if watcher.session.delayed_fetch is not None:
            self._host.check_and_complete(watcher.session)

    # -- appending -------------------------------------------------------------------------------

    def append(
        self,
        records: Buffer,
        *,
        acks_all: bool,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification: Verification | None = TRUSTED,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append one batch as leader; the last two arguments as in `PartitionLog.append_as_leader`. Raises
        `KafkaError`: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, or what the log has
        against the batch."""
        leader, log = self.leader, self.log
        if leader is None or log is None:
            raise self.last_refusal.keep(self.not_leader(), self._host.now_ms())
        if acks_all and leader.is_under_min_isr(self.min_isr):
            error = KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(leader.isr)} is insufficient to satisfy the"
                f" min.isr requirement of {self.min_isr} for partition"
                f" {self.name}",
            )
            raise self.last_refusal.keep(error, self._host.now_ms())
        before = log.log_end_offset
        try:
            info = log.append_as_leader(
                records,
                leader_epoch=leader.epoch,
                wall_ms=self._host.wall_ms(),
                origin=origin,
                verification=verification,
                transaction_version=transaction_version,
            )
        except OSError as error:
            self._host.on_log_failed(self.name, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except KafkaError as error:
            raise self.last_refusal.of_batch_behind(error, self._host.now_ms()) from None
        if not info.duplicate:
            if log.flush_is_due or log.durability.rolled_since_sync:
                self._host.after_append(log, before)
                if self.log is not log:  # the append took its directory offline
                    raise self.not_leader()
            self._on_appended(leader, before)
        return info

    def _on_appended(self, leader: LeaderState, before: int) -> None:
        for watcher in self.append_watchers:
            session, follower = watcher.session, watcher.follower
            if follower is not None and follower.log_end_offset >= before:
                # Its last fetch had everything, although it did not name this partition.
                if session.last_fetch_ms > follower.last_caught_up_ms:
                    follower.last_caught_up_ms = session.last_fetch_ms
            session.dirty[watcher] = None
            if session.delayed_fetch is not None:
                self._host.check_and_complete(session)
        if len(leader.isr_state.maximal) == 1:
            self.advance_high_watermark()

    def append_coordinator_records(
        self,
        batch: Buffer,
        verification: Verification | None = TRUSTED,
        transaction_version: int = 0,
    ) -> int:
        """Append one batch of a coordinator's records, or a transaction's marker; all replicas of the ISR
        will have it once the high watermark reaches the offset returned (one behind the batch's last).
        Raises as `append`."""
        info = self.append(
            batch,
            acks_all=True,
            origin=AppendOrigin.COORDINATOR,
            verification=verification,
            transaction_version=transaction_version,
        )
        return info.last_offset + 1

    def advance_high_watermark(self) -> bool:
        """Move the high watermark to the end of the maximal ISR. Returns whether it moved."""
        leader, log = self.leader, self.log
        if leader is None or log is None:
            return False
        host, end = self._host, log.flushed_end_offset
        if end <= log.high_watermark:
            return False
        mark = leader.high_watermark(
            end,
            self.min_isr,
            host.now_ms(),
            host.lag_ms_max,
            partial(host.is_eligible, self),
        )
        if mark is None or mark <= log.high_watermark:
            return False
        assert mark <= log.log_end_offset, f"high watermark {mark}: {self!r}"
        log.move_high_watermark(mark)
        self._on_high_watermark(mark)
        return True

    def _on_high_watermark(self, mark: int) -> None:
        self._host.marks_moved = True
        if self._waiting.has_reached(mark):
            self._waiting.complete_to(mark, self._reached_code)
        for watcher in self.high_watermark_watchers:
            session = watcher.session
            session.dirty[watcher] = None
            if session.delayed_fetch is not None:
                self._host.check_and_complete(session)
        is_news = self._host.propagates_high_watermarks
        for watcher in self.append_watchers:
            # Followers learn it with their next answer. As in Kafka, it causes an answer only if
            # consumers read from followers.
            session = watcher.session
            session.dirty[watcher] = None
            if is_news and session.delayed_fetch is not None:
                self._host.check_and_complete(session)
        listeners = self._high_watermark_listeners
        if listeners:
            call_each((partial(listener, mark) for listener in listeners), self._host.on_fault)

    @property
    def _reached_code(self) -> ErrorCode:
        leader, log = self.leader, self.log
        if leader is None or log is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader.is_under_min_isr(self.min_isr):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def wait_for(self, offset: int, waiter: Waiter, slot: int, *, replicated: bool = True) -> bool:
        """Settle `waiter` when the high watermark reaches `offset` (if not `replicated`: when this log is
        as durable up to `offset` as ``flush.messages`` asks), or when this leadership ends. False if the
        offset is reached already (nothing will be settled)."""
        if (self.high_watermark if replicated else self.flushed_end_offset) >= offset:
            return False
        if replicated:
            self._waiting.add(offset, waiter, slot)
            return True
        if self._flush_waiters is None:
            self._flush_waiters = OffsetWaiters(self._host.on_fault)
        self._flush_waiters.add(offset, waiter, slot)
        return True

    def on_flushed(self) -> None:
        """Settle waiters: a sync that ``flush.messages`` demanded has ended."""
        if self._flush_waiters is not None and self.log is not None:
            self._flush_waiters.complete_to(self.log.flushed_end_offset, ErrorCode.NONE)
        self.advance_high_watermark()

    def on_high_watermark(self, callback: OnHighWatermark) -> Callable[[], None]:
        """Call `callback` with each new high watermark. Returns a function that ends that."""
        self._high_watermark_listeners = [*self._high_watermark_listeners, callback]

        def end() -> None:
            self._high_watermark_listeners = [
                known for known in self._high_watermark_listeners if known is not callback
            ]

        return end

    # -- followers -------------------------------------------------------------------------------

    def follow_watermarks(self, high_watermark: int, log_start: int) -> None:
        """Take over the leader's watermarks, which come with each fetch."""
        log = self.log
        if log is None:
            raise self.offline()
        before = log.high_watermark
        if high_watermark > before:
            log.move_high_watermark(high_watermark)
            if log.high_watermark > before:
                self._on_high_watermark(log.high_watermark)
        if log_start > log.log_start_offset:
            log.advance_log_start(min(log_start, log.high_watermark))

    def on_follower_fetch(
        self, follower: FollowerProgress, watcher: SessionPartition[Partition], broker_epoch: int
    ) -> None:
        """Note a valid fetch of a follower: it has everything before `watcher.fetch_offset`."""
        leader, log, host = self.leader, self.log, self._host
        if leader is None or log is None:
            return
        start_before = follower.log_start_offset
        moved = leader.on_follower_fetch(
            follower,
            watcher.fetch_offset,
            watcher.log_start_offset,
            broker_epoch,
            log.log_end_offset,
            host.now_ms(),
        )
        if follower.broker not in leader.isr_state.maximal:
            eligible = partial(host.is_eligible, self)
            proposal = leader.propose_expand(follower, log.high_watermark, eligible)
            if proposal is not None:
                host.propose_isr(self, proposal)
        if moved:
            self.advance_high_watermark()
        if start_before != follower.log_start_offset:
            self.low_watermark_waiters.check_and_complete()

    def maybe_shrink_isr(self) -> bool:
        """Propose to remove the replicas that lag. Returns whether something was proposed."""
        leader, log, host = self.leader, self.log, self._host
        if leader is None or log is None or len(leader.isr) == 1:
            return False
        now_ms = host.now_ms()
        # A follower that has fetched everything is caught up, although its fetches name only
        # partitions that moved.
        for watcher in self.append_watchers:
            follower = watcher.follower
            if follower is not None and follower.log_end_offset >= log.log_end_offset:
                follower.last_caught_up_ms = max(
                    follower.last_caught_up_ms, watcher.session.last_fetch_ms
                )
        proposal = leader.propose_shrink(log.log_end_offset, now_ms, host.lag_ms_max)
        if proposal is not None:
            host.propose_isr(self, proposal)
        return proposal is not None

    def on_isr_changed(self) -> None:
        """Apply a change of the ISR or of the replicas that may join it: the watermarks may move,
        and followers that have caught up may join."""
        self.advance_high_watermark()
        self.low_watermark_waiters.check_and_complete()
        self.maybe_expand_isr()

    def maybe_expand_isr(self) -> None:
        """Propose to add a follower that has caught up. Its fetches alone do not lead to that: they name
        only partitions that moved, and the follower may have become eligible (unfenced) since its last
        fetch."""
        leader, log = self.leader, self.log
        if leader is None or log is None or leader.isr_state.in_flight:
            return
        now_ms, eligible = self._host.now_ms(), partial(self._host.is_eligible, self)
        for follower in leader.followers.values():
            if follower.broker in leader.isr or not follower.is_caught_up(
                log.log_end_offset, now_ms, self._host.lag_ms_max
            ):
                continue
            proposal = leader.propose_expand(follower, log.high_watermark, eligible)
            if proposal is not None:
                self._host.propose_isr(self, proposal)
                return

    # -- reading ---------------------------------------------------------------------------------

    def readable_log(self, epoch: int, *, leader_only: bool) -> PartitionLog:
        """The log for a reader that knows `epoch`. Raises KafkaError: fenced or unknown epoch,
        NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR."""
        log = self.log
        if log is None:
            raise self.offline()
        if epoch != self.leader_epoch and epoch >= 0:
            self.check_leader_epoch(epoch)
        if leader_only and self.leader is None:
            raise self.not_leader()
        return log

    def delete_records(self, offset: int) -> int:
        """Delete the records below `offset` (-1: below the high watermark). Returns that offset. Raises as
        `append`, and OFFSET_OUT_OF_RANGE, POLICY_VIOLATION."""
        log = self.log
        if self.leader is None or log is None:
            raise self.not_leader()
        if log.config.compact and not log.config.delete:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self.name} can not be deleted due to the configured policy",
            )
        target = log.high_watermark if offset == -1 else offset
        if not 0 <= target <= log.high_watermark:
            raise OffsetOutOfRange(target, log.log_start_offset, log.high_watermark)
        if log.advance_log_start(target):
            for watcher in (*self.append_watchers, *self.high_watermark_watchers):
                self._notify_session(watcher)
        self.low_watermark_waiters.check_and_complete()
        return target

    def on_start_moved(self) -> None:
        """Let readers learn the new start with their next responses: retention has deleted the
        first records."""
        for watcher in (*self.append_watchers, *self.high_watermark_watchers):
            watcher.session.mark(watcher)
        self.low_watermark_waiters.check_and_complete()

    @property
    def low_watermark(self) -> int:
        """The offset below which no live replica has records; -1 if this replica does not lead."""
        leader, log = self.leader, self.log
        if leader is None or log is None:
            return -1
        starts = [log.log_start_offset]
        for follower in leader.followers.values():
            if self._host.is_eligible(self, follower.broker, -1):
                starts.append(follower.log_start_offset)
        return min(starts)

    def validate(self) -> None:
        """Invariants 6 and 7 for one replica. Raises AssertionError."""
        leader, log = self.leader, self.log
        if log is not None:
            log.validate()
            assert not self._waiting.has_reached(log.high_watermark), (
                f"{self!r} left a request waiting"
            )
        if leader is not None:
            assert log is not None, f"{self!r} leads without a log"
            assert leader.epoch == self.leader_epoch, f"{leader!r}: {self!r}"
            assert leader.epoch >= log.last_written_epoch, f"{leader!r}: {self!r}"
            leader.validate()

    def describe(self) -> dict[str, object]:
        log = self.log
        return {
            "partition": str(self.name),
            "role": "leader" if self.leader else "follower" if log else "offline",
            "leader": self.leader_id,
            "leader_epoch": self.leader_epoch,
            "log_end": log.log_end_offset if log else None,
            "high_watermark": log.high_watermark if log else None,
            "waiting": len(self._waiting),
            **(self.leader.describe() if self.leader else {}),
        }

    def __repr__(self) -> str:
        role = "leads" if self.leader else "follows" if self.log else "offline"
        return f"Partition({self.name} {role} in epoch {self.leader_epoch}, {self.log!r})"
