"""The kept state of one share partition, and the changes that its records make.

A snapshot replaces the state, an update adds to it. Source: ``ShareGroupOffset`` and
``ShareCoordinatorShard.merge`` of Apache Kafka 4.3; KIP-1226 (`delivery_complete_count`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from barnabas.share.delivery import NO_OFFSET, StateBatch, combine
from barnabas.share.records import share_snapshot_value as snapshot_record
from barnabas.share.records import share_update_value as update_record

NO_COUNT = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ShareState:
    """The state, immutable: `replace` makes a changed one."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    """The group's epoch when the state was initialized; an older one is fenced."""
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    """The first offset whose delivery is not final; -1 before a leader has chosen one."""
    delivery_complete_count: int = NO_COUNT
    """The number of offsets after the start whose delivery is final; -1 if it is not known."""
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0
    """The date of the snapshot; later than `created_ms` if it only repeats the last one."""
    updates: int = 0
    """The number of updates since the last snapshot."""
    snapshot_offset: int = 0
    """The offset of the last snapshot: older records of this key are redundant."""
    epochs_seen: tuple[int, int] = (0, 0)
    """The largest leader epoch and state epoch of its records."""

    def is_fenced(self, leader_epoch: int) -> bool:
        return NO_EPOCH < leader_epoch < self.epochs_seen[0]

    def is_state_fenced(self, state_epoch: int) -> bool:
        return NO_EPOCH < state_epoch < self.epochs_seen[1]


def from_snapshot(
    old: ShareState | None, value: snapshot_record.ShareSnapshotValue, offset: int
) -> ShareState:
    """The state in the snapshot at `offset`."""
    leaders, states = (0, 0) if old is None else old.epochs_seen
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        tuple(map(_batch, value.state_batches)),
        value.create_timestamp,
        value.write_timestamp,
        snapshot_offset=offset,
        epochs_seen=(max(leaders, value.leader_epoch), max(states, value.state_epoch)),
    )


def updated(
    old: ShareState | None, value: update_record.ShareUpdateValue, offset: int
) -> ShareState:
    """The state after an update, which never moves the start back. Without a snapshot the update is
    the whole state."""
    before = old or ShareState(snapshot_epoch=value.snapshot_epoch, snapshot_offset=offset)
    start = max(before.start_offset, value.start_offset)
    leader = before.leader_epoch if value.leader_epoch == NO_EPOCH else value.leader_epoch
    return replace(
        before,
        leader_epoch=leader,
        start_offset=start,
        delivery_complete_count=value.delivery_complete_count,
        batches=combine(before.batches, [_batch(batch) for batch in value.state_batches], start),
        updates=before.updates + 1,
        epochs_seen=(max(before.epochs_seen[0], leader), before.epochs_seen[1]),
    )


def _batch(batch: snapshot_record.StateBatch | update_record.StateBatch) -> StateBatch:
    return StateBatch(
        batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
    )


def snapshot_of(state: ShareState) -> snapshot_record.ShareSnapshotValue:
    """The record that has all of `state`."""
    return snapshot_record.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=[
            snapshot_record.StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.deliveries,
            )
            for batch in state.batches
        ],
    )
