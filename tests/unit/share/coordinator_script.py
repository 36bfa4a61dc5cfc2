"""Text scripts for a share coordinator: one command per line after ``> ``, what it caused below it.

``+`` is a record that was written, ``=`` the answer, ``-`` what else happens. All commands are about one
share partition, ``on=N`` is another one of the topic.
"""

from __future__ import annotations

from barnabas.operation import Instant
from barnabas.share.delivery import DeliveryState
from barnabas.share.key import SharePartitionKey
from barnabas.share.outcome import ShareOutcome
from barnabas.share.records.share_snapshot_value import ShareSnapshotValue
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.write_share_group_state_request import PartitionData, StateBatch
from tests.script_files import parts_of
from tests.unit.share.world import KEY, ShareWorld

NAMES = {state.name.lower(): state for state in DeliveryState}


class CoordinatorScript:
    """One coordinator and its log."""

    def __init__(self) -> None:
        self.world = ShareWorld()
        self.now_ms = 0
        self.pruned = 0
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        """One command; what it caused."""
        name, plain, given = parts_of(line)
        self.lines = []
        key = KEY._replace(partition=int(given.pop("on", "0")))
        getattr(self, f"do_{name}")(key, *plain, **given)
        return self.lines

    # Commands

    def do_settings(self, key: SharePartitionKey, **given: str) -> None:
        self.world = ShareWorld(**{name: int(value) for name, value in given.items()})

    def do_initialize(self, key: SharePartitionKey, epoch: str = "1", start: str = "-1") -> None:
        self._tell(self.world.machine.initialize(key, int(epoch), int(start), self._at))

    def do_read(self, key: SharePartitionKey, leader: str = "0") -> None:
        self._tell(self.world.machine.read(key, int(leader), self._at))

    def do_write(
        self,
        key: SharePartitionKey,
        *batches: str,
        leader: str = "0",
        epoch: str = "1",
        start: str = "-1",
    ) -> None:
        """``write 3-5:acknowledged:1``: offsets, state and deliveries."""
        asked = PartitionData(
            partition=key.partition,
            state_epoch=int(epoch),
            leader_epoch=int(leader),
            start_offset=int(start),
            delivery_complete_count=0,
            state_batches=[_batch(text) for text in batches],
        )
        self._tell(self.world.machine.write(key, asked, self._at))

    def do_delete(self, key: SharePartitionKey) -> None:
        self._tell(self.world.machine.delete(key))

    def do_delete_topic(self, key: SharePartitionKey) -> None:
        self._tell(self.world.machine.delete_topics([key.topic_id]))

    def do_summarize(self, key: SharePartitionKey) -> None:
        self._tell(self.world.machine.summarize(key))

    def do_reload(self, key: SharePartitionKey) -> None:
        """Another coordinator reads what pruning has left of the log."""
        self.world.reload(self.pruned)

    def do_wait(self, key: SharePartitionKey, ms: str) -> None:
        """Time passes, and what is due is done."""
        end, machine = self.now_ms + int(ms), self.world.machine
        if machine.deadline_ms() == float("inf"):
            machine.on_loaded(self._at)
        while machine.deadline_ms() <= end:
            self.now_ms = int(machine.deadline_ms())
            outcome = machine.take_due(self._at)
            if outcome is not None:
                self._tell(outcome)
        self.now_ms = end

    # What happened

    @property
    def _at(self) -> Instant:
        return Instant(float(self.now_ms), self.now_ms)

    def _tell(self, outcome: ShareOutcome) -> None:
        begin = len(self.world.log)
        self.world.run(outcome)
        for offset, record in enumerate(outcome.records, begin):
            where = "" if record.key == KEY else f" of partition {record.key.partition}"
            self.lines.append(f"+ {offset}{where}: {_record_text(record.value)}")
        for effect in outcome.effects:
            self.pruned = max(self.pruned, effect.offset)
            self.lines.append(f"- records before {effect.offset} are deleted")
        if outcome.reply is not None:
            self.lines.append(f"= {_reply_text(outcome.reply)}")


def _batch(text: str) -> StateBatch:
    offsets, name, deliveries = text.split(":")
    first, _, last = offsets.partition("-")
    return StateBatch(
        first_offset=int(first),
        last_offset=int(last or first),
        delivery_state=NAMES[name],
        delivery_count=int(deliveries),
    )


def _record_text(value: object) -> str:
    if value is None:
        return "tombstone"
    is_snapshot = isinstance(value, ShareSnapshotValue)
    state = f", state epoch {value.state_epoch}" if isinstance(value, ShareSnapshotValue) else ""
    return (
        f"{'snapshot' if is_snapshot else 'update'} {value.snapshot_epoch}{state},"  # type: ignore[attr-defined]
        f" leader epoch {value.leader_epoch}, start {value.start_offset}:"  # type: ignore[attr-defined]
        f" {_batches_text(value.state_batches)}"  # type: ignore[attr-defined]
    )


def _batches_text(batches: object) -> str:
    return (
        " ".join(
            f"{b.first_offset}-{b.last_offset} {DeliveryState(b.delivery_state).name.lower()}"
            f" x{b.delivery_count}"
            for b in batches  # type: ignore[attr-defined]
        )
        or "nothing"
    )


def _reply_text(reply: object) -> str:
    if isinstance(reply, KafkaError):
        return f"{ErrorCode(reply.code).name}: {reply.message}"
    fields = [
        f"{name.replace('_', ' ')} {getattr(reply, name)}"
        for name in ("state_epoch", "leader_epoch", "start_offset")
        if hasattr(reply, name)
    ]
    if hasattr(reply, "state_batches"):
        return f"{', '.join(fields)}: {_batches_text(reply.state_batches)}"
    return ", ".join(fields) or "done"
