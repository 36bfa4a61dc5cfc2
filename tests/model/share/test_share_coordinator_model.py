"""A share coordinator keeps of each share partition what a table of offsets would say.

The model has one entry per offset. What the log refused has not happened, a coordinator that takes over reads
what pruning has left of the log, and neither changes the states. So no write that was answered is lost, no
former leader and no write of a former state changes anything, and no start goes back within one state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.operation import Instant
from barnabas.share.delivery import DeliveryState
from barnabas.share.key import SharePartitionKey
from barnabas.share.outcome import ShareOutcome
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.write_share_group_state_request import PartitionData, StateBatch
from tests.effort import examples
from tests.unit.share.world import KEY, ShareWorld

KEYS = st.sampled_from([KEY, KEY._replace(partition=1)])
EPOCHS = st.integers(0, 4)
WRITTEN = (DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
LOST = st.sampled_from([False, False, False, True])


@dataclass
class State:
    """The model's share partition."""

    epoch: int
    epoch_seen: int
    leader_seen: int
    start: int
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Offset → deliveries and state; the larger one wins."""

    def begin_at(self, start: int) -> None:
        self.start = max(self.start, start)
        self.offsets = {at: held for at, held in self.offsets.items() if at >= self.start}


class ShareCoordinatorModel(RuleBasedStateMachine):
    """Leaders, the group coordinator, a log that may refuse, and coordinators that follow each other."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ShareWorld(
            updates_per_snapshot=2, prune_interval_ms=5_000, cold_interval_ms=7_000
        )
        self.states: dict[SharePartitionKey, State] = {}
        self.now_ms = 0
        self.pruned = 0
        self.world.machine.on_loaded(self.at)

    @property
    def at(self) -> Instant:
        return Instant(float(self.now_ms), self.now_ms)

    def run(self, outcome: ShareOutcome, *, lost: bool = False) -> bool:
        """Whether it is kept. What the log refuses is undone."""
        world, begin = self.world, len(self.world.log)
        world.run(outcome, commit=not lost)
        if lost:
            world.machine.revert_to(begin)
            del world.log[begin:]
            world.machine.validate()
        return not lost

    def refused(self, outcome: ShareOutcome, *codes: ErrorCode) -> bool:
        """Whether the answer is one of the errors `codes`; nothing is written then."""
        if not codes:
            assert not isinstance(outcome.reply, KafkaError), outcome.reply
            return False
        assert isinstance(outcome.reply, KafkaError) and outcome.reply.code in codes
        assert not outcome.records
        return True

    @rule(key=KEYS, epoch=EPOCHS, start=st.integers(-1, 20), lost=LOST)
    def initialize(self, key: SharePartitionKey, epoch: int, start: int, lost: bool) -> None:
        known = self.states.get(key)
        outcome = self.world.machine.initialize(key, epoch, start, self.at)
        if known is not None and epoch < known.epoch_seen:
            self.refused(outcome, ErrorCode.FENCED_STATE_EPOCH)
            return
        self.refused(outcome)
        if not self.run(outcome, lost=lost):
            return
        if known is not None and start == -1 != known.start:
            known.epoch = known.epoch_seen = max(known.epoch, epoch)
            return
        leader = 0 if known is None else known.leader_seen
        self.states[key] = State(epoch, epoch, leader, start)

    @rule(key=KEYS, leader=EPOCHS, lost=LOST)
    def read(self, key: SharePartitionKey, leader: int, lost: bool) -> None:
        known = self.states.get(key)
        outcome = self.world.machine.read(key, leader, self.at)
        if known is None:
            self.refused(outcome, ErrorCode.INVALID_REQUEST)
            return
        if leader < known.leader_seen:
            self.refused(outcome, ErrorCode.FENCED_LEADER_EPOCH)
            return
        self.refused(outcome)
        if self.run(outcome, lost=lost):
            known.leader_seen = max(known.leader_seen, leader)

    @rule(
        key=KEYS, leader=EPOCHS, epoch=EPOCHS, start=st.integers(-1, 20), lost=LOST,
        first=st.integers(0, 24), size=st.integers(1, 6), state=st.sampled_from(WRITTEN),
        deliveries=st.integers(1, 3),
    )  # fmt: skip
    def write(
        self,
        key: SharePartitionKey,
        leader: int,
        epoch: int,
        start: int,
        lost: bool,
        first: int,
        size: int,
        state: DeliveryState,
        deliveries: int,
    ) -> None:
        known = self.states.get(key)
        batch = StateBatch(
            first_offset=first,
            last_offset=first + size - 1,
            delivery_state=state,
            delivery_count=deliveries,
        )
        asked = PartitionData(
            partition=key.partition,
            state_epoch=epoch,
            leader_epoch=leader,
            start_offset=start,
            state_batches=[batch],
        )
        outcome = self.world.machine.write(key, asked, self.at)
        if known is None:
            self.refused(outcome, ErrorCode.INVALID_REQUEST)
        elif leader < known.leader_seen:
            self.refused(outcome, ErrorCode.FENCED_LEADER_EPOCH)
        elif epoch != known.epoch:
            self.refused(outcome, ErrorCode.FENCED_STATE_EPOCH)
        elif not self.refused(outcome) and self.run(outcome, lost=lost):
            for offset in range(max(first, start), first + size):
                held = known.offsets.get(offset, (0, 0))
                known.offsets[offset] = max(held, (deliveries, int(state)))
            known.begin_at(start)

    @rule(key=KEYS, lost=LOST)
    def delete(self, key: SharePartitionKey, lost: bool) -> None:
        if self.run(self.world.machine.delete(key), lost=lost):
            self.states.pop(key, None)

    @rule(ms=st.sampled_from([1_000, 5_000, 20_000]))
    def wait(self, ms: int) -> None:
        """Idle states are repeated, and redundant records are pruned."""
        end, machine = self.now_ms + ms, self.world.machine
        while machine.deadline_ms() <= end:
            self.now_ms = int(machine.deadline_ms())
            outcome = machine.take_due(self.at)
            if outcome is not None:
                self.run(outcome)
                self.pruned = max([self.pruned, *(prune.offset for prune in outcome.effects)])
        self.now_ms = end

    @rule()
    def elect(self) -> None:
        """Another coordinator reads what is left of the log."""
        self.world.reload(self.pruned).on_loaded(self.at)

    @invariant()
    def states_are_what_was_written(self) -> None:
        held = dict(self.world.machine.states.committed_items())
        assert held.keys() == self.states.keys()
        for key, state in self.states.items():
            found = held[key]
            assert (found.state_epoch, found.start_offset) == (state.epoch, state.start), key
            offsets = {
                offset: (batch.deliveries, batch.state)
                for batch in found.batches
                for offset in range(batch.first, batch.last + 1)
            }
            assert offsets == state.offsets, key


ShareCoordinatorModel.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=30, deadline=None
)
TestShareCoordinator = ShareCoordinatorModel.TestCase


def test_a_leader_stays_fenced_when_its_record_is_pruned() -> None:
    """A state that is begun again keeps the epoch of the last leader, of which no other record is left."""
    state = ShareCoordinatorModel()
    key = KEY._replace(partition=1)
    state.initialize(key=key, epoch=0, start=0, lost=False)
    state.read(key=key, leader=1, lost=False)
    state.initialize(key=key, epoch=0, start=0, lost=False)
    state.wait(ms=5000)
    state.elect()
    state.read(key=key, leader=0, lost=False)
