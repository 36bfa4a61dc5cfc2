"""Members of a share group, through lost answers, refused appends, failed initializations and coordinators.

No member receives a partition whose state does not exist yet, and no member's epoch goes back. When all goes
well again every partition of the topics has a member, and members that want the same have about as much.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.group.share import offsets
from barnabas.group.share.heartbeat import Initialization
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.effort import examples
from tests.unit.group.test_share_groups import OTHER, TOPIC, World, parts

NAMES = ("A", "B", "C", "D")
MEMBERS = st.sampled_from(NAMES)
TOPICS = {"t": TOPIC, "u": OTHER}
LEAVES = -1
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class ShareMembers(RuleBasedStateMachine):
    """Four members, and share coordinators that are asked to initialize states."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.add_topic("u", OTHER, 1)
        self.counts = {TOPIC: 2, OTHER: 1}
        self.epochs: dict[str, int] = {}
        self.has: dict[str, dict[Uuid, list[int]]] = {}
        self.asked: list[Initialization] = []
        self.initialized: set[tuple[Uuid, int]] = set()

    def _heartbeat(self, name: str, topics: tuple[str, ...], *, lost: bool, answered: bool) -> None:
        before = self.epochs.get(name, 0)
        try:
            answer, missing = self.world.beat(name, before, *topics, lost=lost)
        except KafkaError as error:
            assert error.code in FENCED, error
            self._forget(name)
            return
        if missing is not None and not lost:
            self.asked.append(missing)
        if lost or not answered:
            return
        assert answer.member_epoch >= before, "epochs do not go back"
        self.epochs[name] = answer.member_epoch
        if answer.assignment is not None:
            self.has[name] = parts(answer)
        self.has.setdefault(name, {})

    def _forget(self, name: str) -> None:
        self.epochs.pop(name, None)
        self.has.pop(name, None)

    @rule(
        name=MEMBERS,
        topics=st.sampled_from([("t",), ("t", "u"), ("u",)]),
        lost=st.sampled_from([False, False, False, True]),
        answered=st.booleans(),
    )
    def heartbeat(self, name: str, topics: tuple[str, ...], lost: bool, answered: bool) -> None:
        self._heartbeat(name, topics, lost=lost, answered=answered)

    @rule(name=MEMBERS)
    def leave(self, name: str) -> None:
        if name in self.epochs:
            self._forget(name)
            try:
                self.world.beat(name, LEAVES)
            except KafkaError as error:
                assert error.code in FENCED, error

    @rule(fails=st.sampled_from([False, False, True]))
    def share_coordinators_answer(self, fails: bool) -> None:
        """The oldest initialization that was asked for ends."""
        if not self.asked:
            return
        wanted = self.asked.pop(0)
        places = {topic_id: frozenset(starts) for topic_id, starts in wanted.offsets.items()}
        table = self.world.machine.table
        if table.share("g") is None:
            return
        if fails:
            self.world.run(offsets.on_not_initialized(table, "g", places))
            return
        self.initialized |= {(topic, at) for topic, found in places.items() for at in found}
        self.world.run(offsets.on_initialized(table, "g", places))

    @rule(ms=st.sampled_from([100, 1_100, 40_000]))
    def wait(self, ms: int) -> None:
        """Time passes; sessions that end are ended."""
        world, end = self.world, self.world.now_ms + ms
        while world.machine.deadline_ms() <= end:
            world.now_ms = max(world.now_ms, world.machine.deadline_ms())
            outcome = world.machine.take_due(world.at)
            if outcome is not None:
                world.run(outcome)
        world.now_ms = end

    @rule()
    def elect(self) -> None:
        """Another coordinator reads the log; it hears of no answer that the one before waited for."""
        self.world.reload()

    @rule()
    def grow(self) -> None:
        if self.counts[TOPIC] == 2:
            self.counts[TOPIC] = 3
            self.world.add_partition("t", TOPIC, 2)

    @invariant()
    def partitions_have_state_before_members_have_them(self) -> None:
        for name, found in self.has.items():
            for topic_id, indexes in found.items():
                for index in indexes:
                    assert (topic_id, index) in self.initialized, (name, topic_id, index)

    def teardown(self) -> None:
        """All goes well again: every partition has a member."""
        for _ in range(12):
            self.wait(1_100)
            self.world.now_ms += self.world.config.groups.share_initialize_retry_interval_ms
            for name in NAMES:
                self._heartbeat(name, ("t", "u"), lost=False, answered=True)
            while self.asked:
                self.share_coordinators_answer(fails=False)
            self.partitions_have_state_before_members_have_them()
        held: list[Any] = [
            (topic_id, index)
            for found in self.has.values()
            for topic_id, indexes in found.items()
            for index in indexes
        ]
        wanted = {(topic_id, at) for topic_id, count in self.counts.items() for at in range(count)}
        assert set(held) == wanted, self.has
        sizes = [sum(map(len, found.values())) for found in self.has.values()]
        assert max(sizes) - min(sizes) <= 1, self.has


ShareMembers.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestShareMembers = pytest.mark.slow(ShareMembers.TestCase)
