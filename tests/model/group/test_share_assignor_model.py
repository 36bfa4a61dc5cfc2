"""The assignor of share groups, while members and partitions come and go.

Every partition of a topic with subscribers has a member, members have only what they subscribe to, and
members of one topic have about as much of it. Where nothing changes, nothing moves.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.group.share.share_group import Target
from barnabas.group.share.simple import assign_simply
from barnabas.types import Uuid
from tests.effort import examples

TOPICS = [Uuid(bytes(15) + bytes([number])) for number in (1, 2, 3)]
MEMBERS = st.sampled_from([f"m{number}" for number in range(7)])


class SimpleAssignments(RuleBasedStateMachine):
    """Up to seven members and three topics."""

    def __init__(self) -> None:
        super().__init__()
        self.partitions = dict.fromkeys(TOPICS, 6)
        self.subscriptions: dict[str, frozenset[Uuid]] = {}
        self.targets: dict[str, Target] = {}
        self.change_topic(TOPICS[0], 4)
        for number in range(3):
            self.subscribe(f"m{number}", {TOPICS[0]})

    @rule(member_id=MEMBERS, topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def subscribe(self, member_id: str, topics: set[Uuid]) -> None:
        self.subscriptions[member_id] = frozenset(topics)
        self.assign()

    @rule(topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def all_subscribe(self, topics: set[Uuid]) -> None:
        self.subscriptions = dict.fromkeys(self.subscriptions, frozenset(topics))
        self.assign()

    @rule(member_id=MEMBERS)
    def leave(self, member_id: str) -> None:
        """Where partitions are not shared, the others keep what they have."""
        shared = len(self.subscriptions) > min(self.partitions.values())
        alike = len(set(self.subscriptions.values())) == 1
        self.subscriptions.pop(member_id, None)
        before = self.targets
        self.assign()
        if alike and not shared:
            for one, target in self.targets.items():
                for topic_id, partitions in before[one].items():
                    assert partitions <= target.get(topic_id, frozenset()), (before, self.targets)

    @rule(topic_id=st.sampled_from(TOPICS), partitions=st.integers(0, 6))
    def change_topic(self, topic_id: Uuid, partitions: int) -> None:
        self.partitions[topic_id] = partitions
        self.assign()

    def assign(self) -> None:
        self.targets = self.assigned()
        assert self.targets.keys() == self.subscriptions.keys()

    def assigned(self) -> dict[str, Target]:
        partitions = {topic_id: range(count) for topic_id, count in self.partitions.items()}
        return assign_simply(self.subscriptions, partitions, self.targets)

    @invariant()
    def every_partition_has_a_member(self) -> None:
        for topic_id, count in self.partitions.items():
            owned = [target.get(topic_id, frozenset()) for target in self.targets.values()]
            wanted = any(topic_id in topics for topics in self.subscriptions.values())
            assert frozenset().union(*owned) == frozenset(range(count if wanted else 0))

    @invariant()
    def members_have_what_they_subscribe_to(self) -> None:
        for member_id, target in self.targets.items():
            assert target.keys() <= self.subscriptions[member_id]

    @invariant()
    def members_have_about_as_much(self) -> None:
        if len(set(self.subscriptions.values())) == 1:
            sizes = [sum(map(len, target.values())) for target in self.targets.values()]
            assert max(sizes) - min(sizes) <= 1, self.targets
            return
        for topic_id in TOPICS:
            sizes = [
                len(self.targets[member_id].get(topic_id, ()))
                for member_id, topics in self.subscriptions.items()
                if topic_id in topics
            ]
            assert not sizes or max(sizes) - min(sizes) <= 1, self.targets

    @invariant()
    def nothing_moves_without_need(self) -> None:
        assert self.assigned() == self.targets


SimpleAssignments.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=30, deadline=None
)
TestSimpleAssignments = SimpleAssignments.TestCase
