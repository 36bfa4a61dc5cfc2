"""The changes in memory or in the page cache, and how much of them is on the device."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.log.config import FOREVER_MS


class DirtyCounter:
    """Counts them, so that a sync answers for those before it began: of two under way at once, the first
    to end says nothing of what the other one took on."""

    __slots__ = ("count", "durable")

    def __init__(self) -> None:
        self.count = 0
        self.durable = 0

    @property
    def are_pending(self) -> bool:
        """Whether the device may lack some."""
        return self.durable < self.count

    def happened(self) -> None:
        self.count += 1

    def made_durable(self, count: int) -> None:
        """The first `count` are on the device."""
        self.durable = max(self.durable, count)

    def reset(self, *, pending: bool) -> None:
        """All changes so far are on the device, or (`pending`) may not be."""
        self.durable = self.count
        self.count += pending


class Durability:
    """How much of one log is on the device, what the checkpoint promises, and which sync is due."""

    __slots__ = (
        "_on_lowered",
        "checkpointed_recovery_point",
        "compactable_to",
        "dirty_dir_name",
        "flush_limit",
        "is_syncing",
        "last_sync_ms",
        "dirty_names",
        "recovery_point",
        "rolled_since_sync",
        "unsynced_messages",
    )

    def __init__(self) -> None:
        self.recovery_point = 0
        """Everything below is on the device."""
        self.checkpointed_recovery_point = 0
        """Upper bound of the recovery point that a start after a crash may find in the checkpoint."""
        self.compactable_to = 0
        """Lower bound, from the checkpoint that is in place: compaction may leave gaps below."""
        self._on_lowered: Callable[[], None] | None = None
        self.unsynced_messages = 0
        self.flush_limit = FOREVER_MS
        """Nothing from here on counts as written before the sync that ``flush.messages`` asked for
        (:mod:`barnabas.log.directories.flush_scheduler`)."""
        self.last_sync_ms = 0.0
        self.rolled_since_sync = False
        self.is_syncing = False
        """Whether one of its directory's syncs of it is under way."""
        self.dirty_names = DirtyCounter()
        """Files made, whose names the device may not have."""
        self.dirty_names.happened()
        self.dirty_dir_name = DirtyCounter()
        """The log's own directory likewise."""
        self.dirty_dir_name.happened()

    def watch_recovery_point(self, on_lowered: Callable[[], None]) -> None:
        """Call `on_lowered` before bytes below the checkpointed recovery point are rewritten; it has to make
        a lower one durable."""
        self._on_lowered = on_lowered

    # -- what changes the log --------------------------------------------------------------------

    def on_opened(self, recovery_point: int, end: int) -> None:
        """The log was opened and ends at offset `end`."""
        self.recovery_point = recovery_point
        self.unsynced_messages = end - recovery_point  # at most

    def on_appended(self, messages: int) -> None:
        self.unsynced_messages += messages

    def on_rolled(self, end: int) -> None:
        """A segment that ends at offset `end` is full."""
        self.rolled_since_sync = True
        # The indexes that were completed just now have to be synced along with what follows.
        self.require_sync_from(max(end - 1, 0))

    def on_begun(self, offset: int) -> None:
        """The log is empty and begins at `offset`."""
        self.recovery_point = offset

    def require_sync_from(self, offset: int) -> None:
        """Bytes or indexes of records from `offset` on may not be on the device."""
        self.recovery_point = min(self.recovery_point, offset)

    def on_truncated(self, offset: int) -> None:
        """Bytes from `offset` on are about to be rewritten: no checkpoint may promise them."""
        self.require_sync_from(offset)
        self.compactable_to = min(self.compactable_to, offset)
        if offset < self.checkpointed_recovery_point:
            self.checkpointed_recovery_point = offset
            if self._on_lowered is not None:
                self._on_lowered()

    # -- syncs -----------------------------------------------------------------------------------

    def begin_sync(self, now_ms: float) -> None:
        self.last_sync_ms = now_ms
        self.is_syncing = True

    def end_sync(self) -> None:
        """The sync ended, or failed."""
        self.is_syncing = False

    def sync_again_later(self) -> None:
        """Have another sync follow: the one that is running or the next one does not cover everything."""
        self.rolled_since_sync = True

    def on_collected(self, *, whole: bool) -> None:
        """A job has all batches up to here to sync; a `whole` one has the indexes of full segments, too."""
        self.unsynced_messages = 0
        if whole:
            self.rolled_since_sync = False

    def on_synced(self, offset: int) -> None:
        """Everything below `offset` is on the device."""
        self.recovery_point = max(self.recovery_point, offset)

    def require_flush(self, before: int) -> None:
        """Count records from offset `before` on as written only when they are synced (``flush.messages``)."""
        self.flush_limit = min(self.flush_limit, before)

    def on_flushed(self, end: int) -> None:
        """Records below offset `end` are synced; ``FOREVER_MS`` (larger than any offset) means the whole
        log."""
        self.flush_limit = max(self.flush_limit, end)

    # -- checkpoints -----------------------------------------------------------------------------

    def begin_checkpoint(self, recovery_point: int) -> None:
        """A checkpoint with `recovery_point` is about to be written; a restart may find it from now on."""
        self.checkpointed_recovery_point = max(self.checkpointed_recovery_point, recovery_point)

    def on_checkpointed(self, recovery_point: int) -> None:
        """The checkpoint with `recovery_point` is in place."""
        self.compactable_to = recovery_point

    def on_only_checkpoint(self, recovery_point: int) -> None:
        """The checkpoint with `recovery_point` is in place, and no other checkpoint is being written."""
        self.checkpointed_recovery_point = self.compactable_to = recovery_point
