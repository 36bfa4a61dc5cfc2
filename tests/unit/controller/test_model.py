"""Random lives of a small cluster: the controller's invariants after every step.

Brokers die, return cleanly or not, leave in order; leaders ask for ISRs; replicas are moved; the
controller fails over; uncommitted work is lost. After each step: the leader is none or in the
ISR, the ISR is a subset of the replicas, ISR and ELR do not overlap, no fenced broker is in an ISR,
leader epochs never go back, a follower of the log holds the same image, and no partition is
without a leader while an eligible replica lives.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.metadata.image.image import MetadataImage
from barnabas.types import Endpoint
from barnabas.wire.messages import alter_partition_reassignments_request as reassign
from barnabas.wire.messages import alter_partition_request as alter
from tests.effort import examples
from tests.unit.controller.harness import World
from tests.unit.metadata.strategies import holds

BROKERS = (1, 2, 3, 4)
brokers = st.sampled_from(BROKERS)
partitions = st.integers(0, 2)
SURVEY_MS = 1_600.0
"""The time after which a controller decides without the log ends for which it has asked."""


class Life(RuleBasedStateMachine):
    @initialize(min_isr=st.integers(1, 3), unclean=st.booleans())
    def begin(self, min_isr: int, unclean: bool) -> None:
        self.world = World()
        self.world.join(*BROKERS)
        self.incarnation = 10_000
        self.create(min_isr, unclean)

    def create(self, min_isr: int, unclean: bool) -> None:
        """Three partitions, and who follows what becomes of them."""
        self.world.create(
            "t",
            [[1, 2, 3], [2, 3, 4], [4, 1, 2]],
            configs={
                "min.insync.replicas": str(min_isr),
                "unclean.leader.election.enable": str(unclean).lower(),
            },
        )
        self.epochs = [0, 0, 0]
        self.follower = MetadataImage()
        self.read = 0

    # -- steps -----------------------------------------------------------------------------------

    @rule(broker=brokers)
    def kill(self, broker: int) -> None:
        self.world.kill(broker)

    @rule(dead=st.lists(brokers, min_size=2, max_size=4, unique=True))
    def kill_together(self, dead: list[int]) -> None:
        for broker in dead:
            self.world.ports.network.refusing.add(Endpoint("h", 9000 + broker))
        for broker in dead:
            self.world.controller.on_connection_closed(500 + broker)
        self.world.settle()

    @rule(broker=brokers, clean=st.booleans())
    def revive(self, broker: int, clean: bool) -> None:
        if self.world.image.brokers[broker].fenced:
            self.incarnation += 100
            self.world.revive(broker, clean=clean, incarnation=self.incarnation)

    @rule(broker=brokers)
    def restart_at_once(self, broker: int) -> None:
        """The new process registers before the controller noticed the end of the old one."""
        if not self.world.image.brokers[broker].fenced:
            self.world.controller.sessions.connection_closed(500 + broker)
            self.incarnation += 100
            assert not self.world.register(broker, incarnation=self.incarnation).error_code

    @rule(broker=brokers)
    def beat(self, broker: int) -> None:
        if Endpoint("h", 9000 + broker) not in self.world.ports.network.refusing:
            self.world.heartbeat(broker)

    @rule(broker=brokers)
    def stop(self, broker: int) -> None:
        if Endpoint("h", 9000 + broker) not in self.world.ports.network.refusing:
            self.world.heartbeat(broker, want_shut_down=True)

    @rule(index=partitions, data=st.data())
    def change_isr(self, index: int, data: st.DataObject) -> None:
        topic = self.world.image.topics_by_name["t"]
        leader = topic.leader[index]
        if leader < 0:
            return
        others = [b for b in topic.replicas[index] if b != leader]
        more = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
        isr = [leader, *more]
        self.world.ask(
            alter.AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=self.world.epochs[leader],
                topics=[
                    alter.TopicData(
                        topic_id=topic.id,
                        partitions=[
                            alter.PartitionData(
                                partition_index=index,
                                leader_epoch=topic.leader_epoch[index],
                                partition_epoch=topic.partition_epoch[index],
                                new_isr_with_epochs=[
                                    alter.BrokerState(
                                        broker_id=b, broker_epoch=self.world.epochs[b]
                                    )
                                    for b in isr
                                ],
                            )
                        ],
                    )
                ],
            )
        )

    @rule(index=partitions, goal=st.one_of(
        st.none(), st.lists(brokers, min_size=1, max_size=3, unique=True)))  # fmt: skip
    def move(self, index: int, goal: list[int] | None) -> None:
        self.world.ask(
            reassign.AlterPartitionReassignmentsRequest(
                topics=[
                    reassign.ReassignableTopic(
                        name="t",
                        partitions=[
                            reassign.ReassignablePartition(partition_index=index, replicas=goal)
                        ],
                    )
                ]
            ),
            patience_ms=SURVEY_MS,
        )

    @rule()
    def fail_over(self) -> None:
        self.world.failover()

    @rule(broker=brokers)
    def lose_what_is_not_committed(self, broker: int) -> None:
        """A broker's end is decided, and the controller with it before it is committed."""
        world = self.world
        world.ports.network.refusing.add(Endpoint("h", 9000 + broker))
        world.controller.on_connection_closed(500 + broker)
        world.ports.wakeups.run_soon()
        del world.quorum.batches[world.quorum.committed :]
        world.failover()

    # -- invariants ------------------------------------------------------------------------------

    @invariant()
    def the_partitions_are_sound(self) -> None:
        image = self.world.image
        topic = image.topics_by_name["t"]
        for state in topic.partitions():
            assert len(set(state.replicas)) == len(state.replicas), state
            assert set(state.isr) <= set(state.replicas), state
            assert set(state.elr) <= set(state.replicas), state
            assert not set(state.isr) & set(state.elr), state
            assert state.leader == -1 or state.leader in state.isr, state
            assert len(state.directories) == len(state.replicas), state
            for broker in state.isr:
                assert not image.brokers[broker].fenced, state
            assert state.leader_epoch >= self.epochs[state.partition]
            self.epochs[state.partition] = state.leader_epoch
            eligible = state.isr or state.elr
            live = [b for b in eligible if self.world.controller.cluster.is_active(b)]
            assert state.leader >= 0 or not live, (state, live)

    @invariant()
    def followers_hold_the_same(self) -> None:
        batches = self.world.quorum.batches
        for batch in batches[self.read :]:
            self.follower.replay_values(batch.values, batch.last_offset, batch.epoch)
        self.read = len(batches)
        mine: dict[str, Any] = holds(self.world.image)
        assert holds(self.follower) == mine
        assert not self.world.controller.cluster.departing
        assert not self.world.controller.cluster.to_recover


Life.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25)
TestLife = pytest.mark.slow(Life.TestCase)


def test_a_cancellation_is_refused_where_no_replica_says_its_log_end() -> None:
    life = Life()
    life.begin(min_isr=2, unclean=True)
    life.kill_together(dead=[1, 2])
    life.kill_together(dead=[1, 4])
    life.revive(broker=3, clean=False)
    life.move(goal=[3, 1], index=2)
    life.revive(broker=1, clean=False)
    life.revive(broker=2, clean=False)
    life.move(goal=None, index=2)
    life.followers_hold_the_same()
    life.the_partitions_are_sound()
    topic = life.world.image.topics_by_name["t"]
    assert topic.replicas[2] == (3, 1, 2, 4) and topic.leader[2] == 3
