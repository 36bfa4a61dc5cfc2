"""Members of a streams group, through lost answers, refused appends and new coordinators.

The members are simple: a member has the tasks of the last answer that reached it, and gives all of them up
where it is fenced. No task is ever active at two members; when all goes well again each task is active once,
and standby tasks are at other processes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.wire.errors import ErrorCode, KafkaError
from tests.effort import examples
from tests.unit.group.streams_world import Roles, StreamsWorld, part, topology

MEMBERS = st.sampled_from(["A", "B", "C", "D"])
NOTHING: Roles = ([], [], [])
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class StreamsMembers(RuleBasedStateMachine):
    """Four members, two of them in one process."""

    def __init__(self) -> None:
        super().__init__()
        self.world = StreamsWorld()
        self.topics = {"t": 3, "u": 2}
        self.epochs: dict[str, int] = {}
        self.tasks: dict[str, Roles] = {}
        self.highest: dict[str, int] = {}

    @initialize(standbys=st.integers(0, 2))
    def begin(self, standbys: int) -> None:
        for name, count in self.topics.items():
            self.world.add_topic(name, count)
        self.world.topology = topology(
            part("0", sources=["t"], sinks=["r"]),
            part("1", sources=["u"], repartition={"r": 0}, changelogs=["c"]),
        )
        self.world.group_config("streams.num.standby.replicas", str(standbys))

    def _heartbeat(self, member_id: str, answered: bool, lost: bool) -> None:
        """A member joins, or keeps alive; the answer reaches it where `answered`."""
        process = "p1" if member_id in ("A", "B") else f"p-{member_id}"
        try:
            if member_id not in self.epochs:
                reply = self.world.join(member_id, lost=lost, process_id=process)
            else:
                self.world.roles[member_id] = self.tasks[member_id]
                reply = self.world.beat(member_id, lost=lost, member_epoch=self.epochs[member_id])
        except KafkaError as error:
            assert error.code in FENCED, error
            self._forget(member_id)
            return
        self.world.create_missing()
        if answered and not lost:
            self._take(member_id, reply)

    def _take(self, member_id: str, reply: Any) -> None:
        assert reply.member_epoch >= self.epochs.get(member_id, 0), "epochs do not go back"
        self.epochs[member_id] = reply.member_epoch
        if reply.active_tasks is not None:
            self.tasks[member_id] = self.world.roles[member_id]
        self.tasks.setdefault(member_id, NOTHING)

    def _forget(self, member_id: str) -> None:
        self.epochs.pop(member_id, None)
        self.tasks.pop(member_id, None)

    @rule(member_id=MEMBERS, answered=st.booleans(), lost=st.sampled_from([False, False, True]))
    def heartbeat(self, member_id: str, answered: bool, lost: bool) -> None:
        self._heartbeat(member_id, answered, lost)

    @rule(member_id=MEMBERS)
    def leave(self, member_id: str) -> None:
        if member_id in self.epochs:
            self._forget(member_id)
            try:
                self.world.leave(member_id)
            except KafkaError as error:
                assert error.code in FENCED, error

    @rule(ms=st.sampled_from([100, 1_100, 5_000]))
    def wait(self, ms: int) -> None:
        self.world.wait(ms)

    @rule()
    def die_together(self) -> None:
        """Sessions end; the members are gone before."""
        for member_id in list(self.epochs):
            self._forget(member_id)
        self.world.wait(50_000)

    @rule()
    def elect(self) -> None:
        """Another coordinator reads the log."""
        self.world.reload()

    @rule(name=st.sampled_from(["t", "u"]))
    def grow(self, name: str) -> None:
        known = self.world.image.topics_by_name
        if name == "u" and self.topics[name] < 4 and "c" not in known:
            self.topics[name] += 1
            self.world.add_topic(name, self.topics[name])

    @invariant()
    def no_task_is_active_twice(self) -> None:
        held = [task for active, _, _ in self.tasks.values() for task in active]
        assert len(held) == len(set(held)), self.tasks

    def teardown(self) -> None:
        """All goes well again: each task is active at one member."""
        for _ in range(14):
            self.world.now_ms += 1_100
            for member_id in ("A", "B", "C", "D"):
                self._heartbeat(member_id, answered=True, lost=False)
                self.no_task_is_active_twice()
        group = self.world.group
        assert group.state.value == "Stable", group
        assert group.configured is not None
        wanted = {
            f"{part_id}_{index}"
            for part_id, configured in group.configured.subtopologies.items()
            for index in range(configured.task_count)
        }
        held = [task for active, _, _ in self.tasks.values() for task in active]
        assert sorted(held) == sorted(wanted), self.tasks
        copies: dict[str, list[str]] = {}
        for member_id, (active, standby, _) in self.tasks.items():
            for task in (*active, *standby):
                copies.setdefault(task, []).append(group.member(member_id).process_id)
        assert all(len(found) == len(set(found)) for found in copies.values()), self.tasks


StreamsMembers.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStreamsMembers = pytest.mark.slow(StreamsMembers.TestCase)
