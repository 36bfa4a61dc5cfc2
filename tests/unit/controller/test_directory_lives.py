"""Random lives of a cluster whose brokers have two log directories each.

What `test_model` does with whole brokers, and more: directories fail and are named by a later heartbeat,
replicas are assigned to others, brokers return without one or are unregistered, the ELR is switched off and
on, settings that it depends on change. After each step: the leader is in the ISR and in a directory that its
broker has, ISR and ELR are replicas and do not overlap, and no partition is without a leader while an
eligible replica is where it can lead.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from barnabas.types import Endpoint, Uuid
from barnabas.wire.messages import assign_replicas_to_dirs_request as assignment
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.effort import examples
from tests.unit.controller.harness import World, uuid
from tests.unit.controller.test_configs import BROKER, SET, TOPIC, alter, update
from tests.unit.controller.test_model import BROKERS, Life, brokers, partitions

ELR = "eligible.leader.replicas.version"
which = st.integers(0, 1)


def directories_of(broker: int) -> tuple[Uuid, Uuid]:
    return uuid(2000 + broker), uuid(2100 + broker)


class DirectoryLife(Life):
    @initialize(min_isr=st.integers(1, 2), unclean=st.booleans())
    def begin(self, min_isr: int, unclean: bool) -> None:
        self.world = World()
        self.incarnation = 10_000
        self.lost: dict[int, set[Uuid]] = {broker: set() for broker in BROKERS}
        self.leaving = set[int]()
        for broker in BROKERS:
            self.register(broker)
            self.tell(broker)
            assert not self.world.image.brokers[broker].fenced
        self.create(min_isr, unclean)

    def register(self, broker: int, previous_epoch: int = -1) -> None:
        self.incarnation += 1
        self.leaving.discard(broker)
        left = [d for d in directories_of(broker) if d not in self.lost[broker]]
        if left:  # else its process ends
            self.world.register(
                broker,
                incarnation=self.incarnation,
                directories=tuple(left),
                previous_epoch=previous_epoch,
            )

    def tell(self, broker: int) -> None:
        """A heartbeat; who may leave after it does."""
        answer = self.world.heartbeat(
            broker,
            offline_log_dirs=sorted(self.lost[broker]),
            want_shut_down=broker in self.leaving,
        )
        if answer.should_shut_down:
            self.world.kill(broker)

    def is_up(self, broker: int) -> bool:
        return Endpoint("h", 9000 + broker) not in self.world.ports.network.refusing

    # -- steps -----------------------------------------------------------------------------------

    @rule(
        broker=brokers,
        clean=st.booleans(),
        repaired=st.booleans(),
        loses=st.none() | which,
        tells=st.booleans(),
    )
    def revive(
        self, broker: int, clean: bool, repaired: bool, loses: int | None, tells: bool
    ) -> None:
        """It may lose a directory between its registration and the heartbeat that unfences it."""
        if self.is_up(broker):
            return
        if repaired:
            self.lost[broker].clear()
        if self.lost[broker].issuperset(directories_of(broker)):
            return
        self.world.ports.network.refusing.discard(Endpoint("h", 9000 + broker))
        self.register(broker, self.world.epochs[broker] if clean else -1)
        if loses is not None:
            self.lose_a_directory(broker, loses)
        if tells:
            self.tell(broker)

    @rule(broker=brokers)
    def restart_at_once(self, broker: int) -> None:
        known = self.world.image.brokers.get(broker)
        if self.is_up(broker) and known is not None and not known.fenced:
            self.world.controller.sessions.connection_closed(500 + broker)
            self.register(broker)

    @rule(broker=brokers)
    def beat(self, broker: int) -> None:
        if self.is_up(broker):
            self.tell(broker)

    @rule(broker=brokers)
    def stop(self, broker: int) -> None:
        if self.is_up(broker):
            self.leaving.add(broker)
            self.tell(broker)

    @rule(broker=brokers, at=which)
    def lose_a_directory(self, broker: int, at: int) -> None:
        """Its broker knows; the controller hears of it with the next heartbeat."""
        self.lost[broker].add(directories_of(broker)[at])

    @rule(broker=brokers, at=which, index=partitions)
    def assign(self, broker: int, at: int, index: int) -> None:
        if not self.is_up(broker) or broker not in self.world.image.brokers:
            return
        topic = assignment.TopicData(
            topic_id=self.world.image.topics_by_name["t"].id,
            partitions=[assignment.PartitionData(partition_index=index)],
        )
        home = assignment.DirectoryData(id=directories_of(broker)[at], topics=[topic])
        self.world.ask(
            assignment.AssignReplicasToDirsRequest(
                broker_id=broker, broker_epoch=self.world.epochs[broker], directories=[home]
            )
        )

    @rule(broker=brokers)
    def unregister(self, broker: int) -> None:
        if not self.is_up(broker):
            self.world.ask(UnregisterBrokerRequest(broker_id=broker))

    @rule()
    def switch_elr(self) -> None:
        update(self.world, ELR, *((0, 2) if self.world.image.elr_enabled else (1, 1)))

    @rule(value=st.sampled_from("12"), where=st.sampled_from([(TOPIC, "t"), (BROKER, "")]))
    def set_min_isr(self, value: str, where: tuple[int, str]) -> None:
        alter(self.world, *where, ("min.insync.replicas", SET, value))

    @rule(allowed=st.booleans())
    def set_unclean(self, allowed: bool) -> None:
        key = "unclean.leader.election.enable"
        alter(self.world, TOPIC, "t", (key, SET, str(allowed).lower()))

    @rule()
    def wait(self) -> None:
        self.world.advance(1600)

    # -- invariants ------------------------------------------------------------------------------

    @invariant()
    def the_partitions_are_sound(self) -> None:
        cluster = self.world.controller.cluster
        for state in self.world.image.topics_by_name["t"].partitions():
            members, eligible = set(state.isr), set(state.elr)
            assert members <= set(state.replicas), state
            assert eligible <= set(state.replicas) and not members & eligible, state
            assert len(state.directories) == len(state.replicas), state
            homes = dict(zip(state.replicas, state.directories, strict=True))
            if state.leader >= 0:
                assert state.leader in members, state
                assert cluster.may_lead(state.leader, homes[state.leader]), state
            else:
                able = [b for b in state.isr or state.elr if cluster.may_lead(b, homes[b])]
                assert not able, (state, able)
            assert state.leader_epoch >= self.epochs[state.partition]
            self.epochs[state.partition] = state.leader_epoch


DirectoryLife.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=80)
TestDirectoryLife = pytest.mark.slow(DirectoryLife.TestCase)
