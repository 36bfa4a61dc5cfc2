"""The share coordinator of one partition of ``__share_group_state``, as a machine.

An operation is about one share partition; its reply is the partition's part of a response, or the
error. A share partition's leader reads the state once and writes acknowledgements; the group
coordinator initializes and deletes the state. Epochs fence writes of older leaders and of earlier
states; a late write moves no start offset back. State is written as a snapshot and the updates that
follow it. The next snapshot takes the place of an update after
``share.coordinator.snapshot.update.records.per.snapshot`` updates, and follows once if a share
partition has not been written for long. Records before the oldest snapshot that some share
partition needs are pruned; the topic is not compacted.

Source: ``ShareCoordinatorShard`` and ``ShareCoordinatorOffsetsManager`` of Apache Kafka 4.3; KIP-932.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from barnabas.config.settings import ShareCoordinatorSettings
from barnabas.operation import Instant
from barnabas.share.delivery import NO_OFFSET, StateBatch, combine
from barnabas.share.key import SharePartitionKey
from barnabas.share.outcome import Prune, ShareOutcome
from barnabas.share.record_codec import ShareRecord, decode_record, encode_record
from barnabas.share.records import share_update_value as update_record
from barnabas.share.records.share_snapshot_value import ShareSnapshotValue
from barnabas.share.state import (
    NO_COUNT,
    ShareState,
    from_snapshot,
    snapshot_of,
    updated,
)
from barnabas.timeline import Journal, TimelineMap
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import delete_share_group_state_response as deleted
from barnabas.wire.messages import initialize_share_group_state_response as initialized
from barnabas.wire.messages import read_share_group_state_response as read
from barnabas.wire.messages import read_share_group_state_summary_response as summarized
from barnabas.wire.messages import write_share_group_state_request as writing
from barnabas.wire.messages import write_share_group_state_response as written
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message


class ShareMachine:
    """The states of all share partitions of one partition of the topic."""

    __slots__ = ("_cold_ms", "_journal", "_partitions_of", "_prune_ms", "settings", "states")

    def __init__(
        self, settings: ShareCoordinatorSettings, partitions_of: Callable[[Uuid], int]
    ) -> None:
        """`partitions_of` gives the number of partitions of a topic id; 0 if the topic is
        unknown."""
        self.settings = settings
        self._partitions_of = partitions_of
        self._journal = Journal()
        self.states: TimelineMap[SharePartitionKey, ShareState] = TimelineMap(self._journal)
        self._cold_ms = self._prune_ms = math.inf

    def __repr__(self) -> str:
        return f"ShareMachine({len(self.states)} share partitions)"

    def describe(self) -> dict[str, object]:
        """The machine's state, for tools and failing tests."""
        return {
            str(key): (state.state_epoch, state.leader_epoch, state.start_offset, state.batches)
            for key, state in self.states.items()
        }

    def validate(self) -> None:
        """Check that batches are sorted, do not overlap, are not before the start, and are held by
        no member. Raises AssertionError."""
        for key, state in self.states.items():
            before = state.start_offset - 1
            for batch in state.batches:
                assert before < batch.first <= batch.last, f"{key}: {state}"
                assert batch.state in (0, 2, 3, 4), f"{key}: {batch}"
                before = batch.last

    # Operations

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, at: Instant
    ) -> ShareOutcome:
        """InitializeShareGroupState: begin a state at `start_offset`, without batches. If that is
        -1, a leader chooses the start later; but a state that has a start already keeps it, and
        only its epoch changes."""
        known = self.states.get(key)
        try:
            self._check_place(key, state_epoch=state_epoch)
            if known is not None and known.is_state_fenced(state_epoch):
                raise _fenced_state()
        except KafkaError as error:
            return ShareOutcome(reply=error)
        if known is not None and start_offset == NO_OFFSET != known.start_offset:
            epoch = max(known.state_epoch, state_epoch)
            state = replace(known, snapshot_epoch=known.snapshot_epoch + 1, state_epoch=epoch)
        else:
            state = ShareState(
                0 if known is None else known.snapshot_epoch + 1,
                state_epoch,
                # No other record has the last leader once the log is pruned.
                0 if known is None else known.epochs_seen[0],
                start_offset,
                NO_COUNT if start_offset == NO_OFFSET else 0,
            )
        state = replace(state, created_ms=at.wall_ms, written_ms=at.wall_ms)
        reply = initialized.PartitionResult(partition=key.partition)
        return ShareOutcome([ShareRecord(key, snapshot_of(state))], reply)

    def write(
        self, key: SharePartitionKey, asked: writing.PartitionData, at: Instant
    ) -> ShareOutcome:
        """WriteShareGroupState: add acknowledgements of the leader's members to the state."""
        try:
            self._check_place(key, leader_epoch=asked.leader_epoch, state_epoch=asked.state_epoch)
            known = self.states.get(key)
            if known is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Write operation on uninitialized share partition not allowed.",
                )
            if known.is_fenced(asked.leader_epoch):
                raise _fenced_leader()
            if asked.state_epoch != known.state_epoch:
                raise _fenced_state()
        except KafkaError as error:
            return ShareOutcome(reply=error)
        batches = [
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
            for b in asked.state_batches
        ]
        record = self._record(
            key, known, known.leader_epoch, asked.start_offset, asked.delivery_complete_count,
            batches, at,
        )  # fmt: skip
        return ShareOutcome([record], written.PartitionResult(partition=key.partition))

    def read(self, key: SharePartitionKey, leader_epoch: int, at: Instant) -> ShareOutcome:
        """ReadShareGroupState: a leader takes over, which fences older leaders."""
        try:
            self._check_place(key, leader_epoch=leader_epoch)
            known = self.states.get(key)
            if known is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Read operation on uninitialized share partition not allowed.",
                )
            if known.epochs_seen[0] > leader_epoch:
                raise _fenced_leader()
        except KafkaError as error:
            return ShareOutcome(reply=error)
        reply = read.PartitionResult(
            partition=key.partition,
            state_epoch=known.state_epoch,
            start_offset=known.start_offset,
            state_batches=[
                read.StateBatch(
                    first_offset=batch.first,
                    last_offset=batch.last,
                    delivery_state=batch.state,
                    delivery_count=batch.deliveries,
                )
                for batch in known.batches
            ],
        )
        if leader_epoch == known.epochs_seen[0]:
            return ShareOutcome(reply=reply)
        record = self._record(
            key, known, leader_epoch, known.start_offset, known.delivery_complete_count, (), at
        )
        return ShareOutcome([record], reply)

    def delete(self, key: SharePartitionKey) -> ShareOutcome:
        """DeleteShareGroupState; to delete a missing state is no error."""
        try:
            self._check_place(key)
        except KafkaError as error:
            return ShareOutcome(reply=error)
        records = [ShareRecord(key, None)] if key in self.states else []
        return ShareOutcome(records, deleted.PartitionResult(partition=key.partition))

    def summarize(self, key: SharePartitionKey) -> ShareOutcome:
        """ReadShareGroupStateSummary, for descriptions of groups. The answer waits until all that
        it shows is committed."""
        try:
            self._check_place(key)
        except KafkaError as error:
            return ShareOutcome(reply=error)
        known = self.states.get(key) or ShareState()
        return ShareOutcome(
            reply=summarized.PartitionResult(
                partition=key.partition,
                state_epoch=known.state_epoch,
                leader_epoch=known.leader_epoch,
                start_offset=known.start_offset,
                delivery_complete_count=known.delivery_complete_count,
            )
        )

    def delete_topics(self, topic_ids: Collection[Uuid]) -> ShareOutcome:
        """Delete the states of topics that no longer exist."""
        gone = [key for key, _ in self.states.items() if key.topic_id in topic_ids]
        return ShareOutcome([ShareRecord(key, None) for key in gone], atomic=False)

    def _check_place(
        self, key: SharePartitionKey, *, leader_epoch: int = 0, state_epoch: int = 0
    ) -> None:
        """Check the numbers of a request. Raises INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""
        for number, name in (
            (key.partition, "partition id"),
            (leader_epoch, "leader epoch"),
            (state_epoch, "state epoch"),
        ):
            if number < 0:
                why = f"The {name} cannot be a negative number."
                raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        if key.partition >= self._partitions_of(key.topic_id):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{key} does not exist")

    def _record(
        self,
        key: SharePartitionKey,
        known: ShareState,
        leader_epoch: int,
        start_offset: int,
        complete_count: int,
        batches: Sequence[StateBatch],
        at: Instant,
    ) -> ShareRecord:
        """The record of a write: an update, or a snapshot if one is due."""
        if known.updates < self.settings.updates_per_snapshot:
            value = update_record.ShareUpdateValue(
                snapshot_epoch=known.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=complete_count,
                state_batches=_update_batches(combine((), batches, start_offset)),
            )
            return ShareRecord(key, value)
        start = max(known.start_offset, start_offset)
        state = replace(
            known,
            snapshot_epoch=known.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=complete_count,
            batches=combine(known.batches, batches, start),
            created_ms=at.wall_ms,
            written_ms=at.wall_ms,
        )
        return ShareRecord(key, snapshot_of(state))

    # Records

    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def expect(self, next_offset: int) -> None:
        """Expect that the next record gets the offset `next_offset`."""
        self._journal.offset = next_offset

    def replay(self, offset: int, producer_id: int, record: ShareRecord) -> None:
        """Apply one record."""
        self._journal.offset = offset
        key, value = record
        if value is None:
            self.states.remove(key)
        elif isinstance(value, ShareSnapshotValue):
            self.states.put(key, from_snapshot(self.states.get(key), value, offset))
        else:
            self.states.put(key, updated(self.states.get(key), value, offset))

    def replay_marker(self, offset: int, producer_id: int, committed: bool) -> None:
        """Ignore the marker: no transaction writes to this topic."""

    def commit_to(self, offset: int) -> None:
        self._journal.commit_to(offset)

    def revert_to(self, offset: int) -> None:
        self._journal.revert_to(offset)

    # Loading, deadlines, unloading

    def on_loaded(self, at: Instant) -> list[ShareOutcome]:
        """Begin to look for idle states and redundant records: all records are replayed."""
        self._cold_ms = at.now_ms + self.settings.cold_interval_ms
        self._prune_ms = at.now_ms + self.settings.prune_interval_ms
        return []

    def on_unloaded(self) -> list[tuple[Parked, Message]]:
        """Do nothing: no request waits in this machine."""
        return []

    def deadline_ms(self) -> float:
        return min(self._cold_ms, self._prune_ms)

    def take_due(self, at: Instant) -> ShareOutcome | None:
        """Write idle states again, or prune the log; None if neither is due."""
        if at.now_ms >= self._cold_ms:
            self._cold_ms = at.now_ms + self.settings.cold_interval_ms
            return ShareOutcome(self._cold_snapshots(at), atomic=False)
        if at.now_ms >= self._prune_ms:
            self._prune_ms = at.now_ms + self.settings.prune_interval_ms
            return ShareOutcome(effects=[Prune(self.redundant_before())])
        return None

    def redundant_before(self) -> int:
        """The offset before which no record is needed: each committed state has its snapshot at or
        after it."""
        committed = self._journal.committed
        return min((s.snapshot_offset for _, s in self.states.committed_items()), default=committed)

    def _cold_snapshots(self, at: Instant) -> list[ShareRecord]:
        """Write snapshots of states whose last snapshot is old, so that older records become
        redundant. If all of these are such repetitions already, that gains nothing, and none is
        written."""
        items = self.states.items()
        if all(state.written_ms != state.created_ms for _, state in items):
            return []
        return list(self._repeated(items, at))

    def _repeated(
        self, items: Iterable[tuple[SharePartitionKey, ShareState]], at: Instant
    ) -> Iterable[ShareRecord]:
        for key, state in items:
            if at.wall_ms - state.written_ms >= self.settings.cold_interval_ms:
                again = replace(
                    state, snapshot_epoch=state.snapshot_epoch + 1, written_ms=at.wall_ms
                )
                yield ShareRecord(key, snapshot_of(again))


def _update_batches(batches: Iterable[StateBatch]) -> list[update_record.StateBatch]:
    return [
        update_record.StateBatch(
            first_offset=batch.first,
            last_offset=batch.last,
            delivery_state=batch.state,
            delivery_count=batch.deliveries,
        )
        for batch in batches
    ]


def _fenced_leader() -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than a known one."
    )


def _fenced_state() -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_STATE_EPOCH, "The state epoch in the request is not the known one."
    )
