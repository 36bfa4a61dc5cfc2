"""The assignor of streams groups, while processes, threads and subtopologies come and go.

Each task is active once, and its copies are at other processes, as many as there can be. Members take what
they get before the next change; where nothing changes, active tasks soon stay where they are.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from barnabas.group.streams.member import StreamsMember, TaskId
from barnabas.group.streams.sticky import TaskCount
from barnabas.group.streams.streams_group import TaskOffsets
from tests.effort import examples
from tests.unit.group.test_sticky_tasks import assign, check, holding, members_of

SETTLES_IN = 3
"""After so many assignments without a change, active tasks stay where they are."""
PROCESSES = st.sampled_from(["p", "q", "r", "s"])
PARTS = st.sampled_from(["0", "1", "2"])


class StickyAssignments(RuleBasedStateMachine):
    """Up to four processes with up to three threads each."""

    def __init__(self) -> None:
        super().__init__()
        self.members: dict[str, StreamsMember] = {}
        self.counts = {"0": TaskCount(3, True)}
        self.standbys = 1
        self.offsets: dict[str, TaskOffsets] = {}

    @rule(process=PROCESSES, threads=st.integers(0, 3))
    def resize(self, process: str, threads: int) -> None:
        """The process has so many threads now: those that it had before keep their tasks."""
        kept = {m: one for m, one in self.members.items() if one.process_id != process}
        own = members_of({process: threads})
        kept |= {member_id: self.members.get(member_id, one) for member_id, one in own.items()}
        self.members = dict(sorted(kept.items()))
        self.assign()

    @rule(part=PARTS, partitions=st.integers(1, 6), is_stateful=st.booleans())
    def change_topology(self, part: str, partitions: int, is_stateful: bool) -> None:
        self.counts[part] = TaskCount(partitions, is_stateful)
        self.assign()

    @rule(standbys=st.integers(0, 3))
    def set_standbys(self, standbys: int) -> None:
        self.standbys = standbys
        self.assign()

    @rule(process=PROCESSES, index=st.integers(0, 5), offset=st.integers(0, 1_000))
    def report_state(self, process: str, index: int, offset: int) -> None:
        """The first thread of a process has found the state of a task on its disk, which may be gone."""
        self.offsets[f"{process}.0"] = {TaskId("0", index): offset}
        self.assign()

    def assign(self) -> None:
        if not self.members:
            assert assign(self.members, self.counts, self.standbys, self.offsets) == {}
            return
        targets = assign(self.members, self.counts, self.standbys, self.offsets)
        check(self.members, self.counts, self.standbys, targets)
        for _ in range(SETTLES_IN):
            self.members = holding(self.members, targets)
            again = assign(self.members, self.counts, self.standbys, self.offsets)
            if all(again[m].active == target.active for m, target in targets.items()):
                return
            targets = again
            check(self.members, self.counts, self.standbys, targets)
        raise AssertionError("active tasks never stay")


StickyAssignments.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=20, deadline=None
)
TestStickyAssignments = StickyAssignments.TestCase
