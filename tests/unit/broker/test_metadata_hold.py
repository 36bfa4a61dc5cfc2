"""Metadata wait for a lost leader's successor, never long, and only where it matters."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from barnabas.broker.controller_client.metadata_hold import (
    HOLD_POLL_MS,
    NEWS_MS_MAX,
    SETTLED_MS,
    SHOWN_MS,
    Led,
    MetadataHold,
)
from barnabas.broker.deadlines import Deadlines
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.topic import Topic
from barnabas.metadata.records.fence_broker_record import FenceBrokerRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.records.unfence_broker_record import UnfenceBrokerRecord
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine
from barnabas.sim.world.world import World
from barnabas.types import Uuid
from barnabas.wire.messages.metadata_response import MetadataResponse
from barnabas.wire.request import Parked, Working
from barnabas.wire.schema import Message

ME, LEADER, OTHER = 1, 2, 3
TOPIC_ID = Uuid(b"t" * 16)
MARGIN_MS = 25.0
"""Deadlines may be late by their granularity."""


class Scene:
    """Broker `ME` with a topic that `LEADER` leads, one second into its life."""

    def __init__(self) -> None:
        self.world = World(1)
        process = SimMachine(
            self.world, SimNetwork(self.world), "a", SimDisk(random.Random(1))
        ).start_process()
        self.image = MetadataImage()
        self.probed: list[int] = []
        self.probes: list[Callable[[bool], None]] = []
        self.lost = MetadataHold(ME, process.clock, Deadlines(process), self.image, self._probe)
        self.replay(
            *(RegisterBrokerRecord(broker_id=b, broker_epoch=b) for b in (ME, LEADER, OTHER)),
            *(UnfenceBrokerRecord(id=b, epoch=b) for b in (ME, LEADER, OTHER)),
            TopicRecord(name="t", topic_id=TOPIC_ID),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=[LEADER, OTHER],
                isr=[LEADER, OTHER],
                leader=LEADER,
                directories=[],
            ),
        )
        self.answers: list[int] = []
        self.pass_time(2 * SETTLED_MS)

    def _probe(self, broker: int, on_done: Callable[[bool], None]) -> None:
        self.probed.append(broker)
        self.probes.append(on_done)

    @property
    def topic(self) -> Topic:
        return self.image.topics_by_id[TOPIC_ID]

    @property
    def now_ms(self) -> float:
        return self.world.now_ms

    def replay(self, *records: Message) -> None:
        self.image.replay_batch(records, self.image.offset + len(records), 1)
        self.lost.on_metadata(self.image.take_changes())

    def ask(self, age_ms: float) -> Parked | None:
        """Ask over a connection of that age; answers note who led when they were made."""

        def answer(parked: Working) -> None:
            self.answers.append(self.topic.leader[0])
            parked.complete(MetadataResponse())

        return self.lost.park([Led(self.topic)], self.now_ms - age_ms, answer)

    def new_leader(self) -> None:
        self.replay(
            FenceBrokerRecord(id=LEADER, epoch=LEADER),
            PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER, isr=[OTHER]),
        )

    def pass_time(self, ms: float) -> None:
        until_ms = self.now_ms + ms
        reached: list[bool] = []
        self.world.at(until_ms, lambda: reached.append(True))
        while not reached:
            assert self.world.step()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_new_client_is_answered_at_once(scene: Scene) -> None:
    assert scene.ask(age_ms=0) is None


def test_no_request_waits_for_topics_that_this_broker_leads(scene: Scene) -> None:
    scene.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=ME))
    assert scene.ask(age_ms=SETTLED_MS) is None


def test_a_settled_client_waits_a_moment_where_nothing_happened(scene: Scene) -> None:
    parked = scene.ask(age_ms=SETTLED_MS)
    assert parked is not None
    scene.pass_time(HOLD_POLL_MS + MARGIN_MS)
    assert parked.done
    assert scene.answers == [LEADER]


def test_every_metadata_request_waits_for_the_new_leader_after_a_loss(scene: Scene) -> None:
    scene.lost.on_lost(LEADER)
    parked = scene.ask(age_ms=0)
    assert parked is not None
    scene.pass_time(100)
    assert scene.answers == []
    scene.new_leader()
    assert parked.done
    assert scene.answers == [OTHER]
    assert scene.ask(age_ms=0) is None


def test_a_loss_noticed_within_the_moment_counts_too(scene: Scene) -> None:
    scene.ask(age_ms=SETTLED_MS)
    scene.pass_time(5)
    scene.lost.on_lost(LEADER)
    scene.pass_time(HOLD_POLL_MS + MARGIN_MS)
    assert scene.answers == []
    scene.new_leader()
    assert scene.answers == [OTHER]


def test_a_refused_probe_within_the_moment_counts_too(scene: Scene) -> None:
    scene.ask(age_ms=SETTLED_MS)
    assert scene.probed == [LEADER]
    scene.probes[0](False)
    assert scene.lost.is_lost(LEADER) and not scene.lost.is_lost(OTHER)
    scene.pass_time(HOLD_POLL_MS + MARGIN_MS)
    assert scene.answers == []
    scene.new_leader()
    assert scene.answers == [OTHER]


def test_a_probe_that_is_accepted_says_nothing(scene: Scene) -> None:
    scene.ask(age_ms=SETTLED_MS)
    scene.probes[0](True)
    scene.pass_time(HOLD_POLL_MS + MARGIN_MS)
    assert scene.answers == [LEADER]


def test_a_leader_is_probed_once_for_many_that_ask(scene: Scene) -> None:
    for _ in range(5):
        scene.ask(age_ms=SETTLED_MS)
    assert scene.probed == [LEADER]
    scene.pass_time(HOLD_POLL_MS + MARGIN_MS)
    scene.ask(age_ms=SETTLED_MS)
    assert scene.probed == [LEADER, LEADER]


def test_only_the_leader_of_the_partition_asked_for_counts(scene: Scene) -> None:
    other = PartitionRecord(
        partition_id=1, topic_id=TOPIC_ID, replicas=[ME], isr=[ME], leader=ME, directories=[]
    )
    scene.replay(other)
    scene.lost.on_lost(LEADER)
    assert [*Led(scene.topic, 0).leaders()] == [LEADER]
    assert scene.lost.park([Led(scene.topic, 1)], 0.0, lambda parked: None) is None
    assert scene.lost.park([Led(scene.topic, 0)], 0.0, lambda parked: None) is not None


def test_an_unchanged_leader_is_reported_after_a_while_too(scene: Scene) -> None:
    scene.lost.on_lost(LEADER)
    scene.ask(age_ms=0)
    scene.pass_time(NEWS_MS_MAX + MARGIN_MS)
    assert scene.answers == [LEADER]
    assert scene.ask(age_ms=0) is None


def test_a_leader_that_answers_again_ends_the_wait(scene: Scene) -> None:
    scene.lost.on_lost(LEADER)
    scene.ask(age_ms=0)
    scene.lost.on_reached(LEADER)
    assert scene.answers == [LEADER]


def test_a_loss_of_another_broker_delays_no_request(scene: Scene) -> None:
    scene.lost.on_lost(OTHER)
    assert scene.ask(age_ms=0) is None


def test_an_abandoned_request_is_not_answered(scene: Scene) -> None:
    scene.lost.on_lost(LEADER)
    parked = scene.ask(age_ms=0)
    assert parked is not None
    parked.abandon()
    scene.new_leader()
    assert scene.answers == []


def test_a_fenced_broker_is_shown_for_a_while(scene: Scene) -> None:
    assert scene.lost.shown() == []
    scene.new_leader()
    assert scene.lost.shown() == [LEADER]
    scene.pass_time(SHOWN_MS)
    assert scene.lost.shown() == []


def test_a_broker_that_returns_is_no_longer_a_special_case(scene: Scene) -> None:
    scene.new_leader()
    scene.replay(UnfenceBrokerRecord(id=LEADER, epoch=LEADER))
    assert scene.lost.shown() == []
    scene.lost.on_metadata(ImageChanges(everything=True))
    assert scene.lost.shown() == []
