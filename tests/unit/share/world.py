"""The share coordinator's machine over a list of records, as a shard drives it."""

from __future__ import annotations

from barnabas.config.broker import BROKER
from barnabas.config.settings import ShareCoordinatorSettings
from barnabas.operation import Instant
from barnabas.share.key import SharePartitionKey
from barnabas.share.machine import ShareMachine
from barnabas.share.outcome import ShareOutcome
from barnabas.types import Uuid
from barnabas.wire.messages.write_share_group_state_request import PartitionData, StateBatch

TOPIC = Uuid(bytes(15) + b"\x09")
KEY = SharePartitionKey("g", TOPIC, 0)
BEGIN = Instant(0.0, 1_000)
KEYS = {
    "updates_per_snapshot": "share.coordinator.snapshot.update.records.per.snapshot",
    "prune_interval_ms": "share.coordinator.state.topic.prune.interval.ms",
    "cold_interval_ms": "share.coordinator.cold.partition.snapshot.interval.ms",
}


def settings(**given: int) -> ShareCoordinatorSettings:
    """Kafka's defaults, with `given` in place of some of them."""
    values = {name: BROKER.default(name) for name in BROKER.keys}
    values.update({KEYS[name]: value for name, value in given.items()})
    return ShareCoordinatorSettings(values)


class ShareWorld:
    """One machine, and the records that it has decided."""

    def __init__(self, **given: int) -> None:
        self.settings = settings(**given)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.machine = self.new_machine()

    def new_machine(self) -> ShareMachine:
        return ShareMachine(self.settings, lambda topic_id: 3 if topic_id == TOPIC else 0)

    def run(self, outcome: ShareOutcome, *, commit: bool = True) -> ShareOutcome:
        """Write and replay what was decided."""
        machine = self.machine
        for record in outcome.records:
            self.log.append(machine.encode(record))
            decoded = machine.decode(*self.log[-1])
            assert decoded is not None
            machine.replay(len(self.log) - 1, -1, decoded)
        machine.expect(len(self.log))
        if commit:
            machine.commit_to(len(self.log))
        machine.validate()
        return outcome

    def reload(self, first: int = 0) -> ShareMachine:
        """Another coordinator reads the log from `first` on."""
        self.machine = machine = self.new_machine()
        for offset in range(first, len(self.log)):
            decoded = machine.decode(*self.log[offset])
            assert decoded is not None
            machine.replay(offset, -1, decoded)
        machine.expect(len(self.log))
        machine.commit_to(len(self.log))
        machine.on_loaded(BEGIN)
        return machine

    def initialize(self, epoch: int = 1, start: int = 0) -> ShareOutcome:
        return self.run(self.machine.initialize(KEY, epoch, start, BEGIN))

    def write(
        self,
        *batches: tuple[int, int, int, int],
        start: int = -1,
        leader: int = 0,
        epoch: int = 1,
        at: Instant = BEGIN,
    ) -> ShareOutcome:
        """`batches` are (first, last, state, deliveries)."""
        asked = PartitionData(
            partition=0,
            state_epoch=epoch,
            leader_epoch=leader,
            start_offset=start,
            delivery_complete_count=0,
            state_batches=[
                StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
        )
        return self.run(self.machine.write(KEY, asked, at))
