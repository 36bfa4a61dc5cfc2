"""Registration and heartbeats: what is refused, with which code."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.limits import DecisionBounds
from barnabas.metadata.features import LATEST_METADATA_VERSION
from barnabas.types import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.wire.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from tests.unit.controller.harness import CLUSTER_ID, World, uuid

DECIDED_INLINE_MAX = DecisionBounds().inline_max


@pytest.fixture
def world() -> World:
    world = World()
    world.join(1, 2, 3)
    return world


def registration(**changes: Any) -> BrokerRegistrationRequest:
    fields: dict[str, Any] = {
        "broker_id": 7,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": uuid(77),
        "listeners": [Listener(name="PLAINTEXT", host="h", port=1)],
        "features": [
            Feature(name=n, min_supported_version=0, max_supported_version=LATEST_METADATA_VERSION)
            for n in (
                "metadata.version", "group.version", "transaction.version", "share.version",
                "streams.version", "eligible.leader.replicas.version",
            )
        ],
        "log_dirs": [uuid(170)],
    }  # fmt: skip
    return BrokerRegistrationRequest(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"listeners": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": [Feature(name="metadata.version", min_supported_version=1,
                               max_supported_version=29)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature(name="metadata.version", min_supported_version=1,
                               max_supported_version=33)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [uuid(170), uuid(170)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [DIRECTORY_LOST]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [uuid(99)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [uuid(2001)]}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"broker_id": 1}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
    ],
)  # fmt: skip
def test_registrations_are_checked(world: World, changes: dict[str, Any], code: ErrorCode) -> None:
    answer = world.ask(registration(**changes))
    assert ErrorCode(answer.error_code) is code
    assert answer.broker_epoch == -1
    assert 7 not in world.image.brokers


def test_a_broker_supports_that_what_is_not_in_force_is_not(world: World) -> None:
    request = registration()
    last = Feature(name="next.version", min_supported_version=1, max_supported_version=2)
    request.features = [*request.features, last]
    assert world.ask(request).error_code == ErrorCode.UNSUPPORTED_VERSION
    last.min_supported_version = 0
    assert not world.ask(request).error_code


def test_the_epoch_is_the_offset_of_the_registration(world: World) -> None:
    before = world.quorum.log_end_offset
    answer = world.ask(registration())
    assert answer.broker_epoch == before == world.image.brokers[7].epoch
    assert world.image.brokers[7].fenced


def test_the_same_incarnation_keeps_its_epoch_and_state(world: World) -> None:
    epoch = world.epochs[1]
    again = world.register(1)
    assert again.broker_epoch == epoch
    assert not world.image.brokers[1].fenced


def test_a_broker_is_unfenced_when_it_has_replayed_its_registration(world: World) -> None:
    world.register(4)
    assert world.heartbeat(4, offset=world.epochs[4] - 1).is_fenced
    answer = world.heartbeat(4, offset=world.epochs[4])
    assert answer.is_caught_up and not answer.is_fenced


def test_a_fenced_broker_that_wants_to_stop_may(world: World) -> None:
    world.register(4)
    assert world.heartbeat(4, want_fence=True).is_fenced
    assert world.heartbeat(4, want_shut_down=True).should_shut_down


@pytest.mark.parametrize(("broker", "epoch"), [(1, 99), (9, 0), (-1, -1)])
def test_stale_epochs_are_refused(world: World, broker: int, epoch: int) -> None:
    for request in (
        BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch),
        AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch),
        AssignReplicasToDirsRequest(broker_id=broker, broker_epoch=epoch),
    ):
        assert world.ask(request).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_heartbeat_on_a_new_connection_takes_the_suspicion_away(world: World) -> None:
    world.controller.on_connection_closed(501)
    world.advance(5)
    assert world.ports.network.asked
    world.heartbeat(1)
    asked = len(world.ports.network.asked)
    world.advance(3000)
    assert len(world.ports.network.asked) == asked
    assert not world.image.brokers[1].fenced


def test_the_probe_asks_again_until_the_listener_is_gone(world: World) -> None:
    world.controller.on_connection_closed(501)
    world.advance(10)
    assert not world.image.brokers[1].fenced
    from barnabas.types import Endpoint

    world.ports.network.refusing.add(Endpoint("h", 9001))
    world.advance(100)
    assert world.image.brokers[1].fenced


def test_producer_ids_come_in_blocks_that_follow_each_other(world: World) -> None:
    blocks = []
    for broker in (1, 2, 1):
        answer = world.ask(
            AllocateProducerIdsRequest(broker_id=broker, broker_epoch=world.epochs[broker])
        )
        blocks.append((answer.producer_id_start, answer.producer_id_len))
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    world.failover()
    answer = world.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=world.epochs[1]))
    assert answer.producer_id_start == 3000


def test_replicas_are_assigned_to_directories(world: World) -> None:
    world.create("t", [[1, 2]])
    topic_id = world.image.topics_by_name["t"].id

    def assign(directory: Uuid, topic: Uuid, index: int) -> int:
        answer = world.ask(
            AssignReplicasToDirsRequest(
                broker_id=1,
                broker_epoch=world.epochs[1],
                directories=[
                    DirectoryData(
                        id=directory,
                        topics=[
                            TopicData(
                                topic_id=topic,
                                partitions=[PartitionData(partition_index=index)],
                            )
                        ],
                    )
                ],
            )
        )
        code: int = answer.directories[0].topics[0].partitions[0].error_code
        return code

    assert assign(uuid(2001), uuid(1), 0) == ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(uuid(2001), topic_id, 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assign(uuid(2001), topic_id, 0) == 0
    # A directory that is not registered is offline: the replica cannot lead.
    assert assign(uuid(999), topic_id, 0) == 0
    state = world.partition("t")
    assert state.leader == 2 and state.isr == (2,) and state.directories[0] == uuid(999)


def test_the_ids_that_say_something_of_a_directory_are_kafkas() -> None:
    """As in the classes of 4.3.0; drafts of KIP-858 had them in another order."""
    assert uuid(0) == DIRECTORY_MIGRATING
    assert uuid(1) == DIRECTORY_UNASSIGNED
    assert uuid(2) == DIRECTORY_LOST


@pytest.mark.parametrize("partitions", [1, 2 * DECIDED_INLINE_MAX])
def test_a_broker_back_without_a_directory_leads_nothing_of_it(partitions: int) -> None:
    """It failed after the registration, and the heartbeat upon which the broker is unfenced says so."""
    world, both = World(), (uuid(2001), uuid(2011))
    world.register(1, directories=both)
    assert not world.heartbeat(1).is_fenced
    world.create("t", [[1]] * partitions)
    topic = world.image.topics_by_name["t"]
    for index in range(partitions):
        topic.directories[index] = (both[index % 2],)
    world.kill(1)
    world.ports.network.refusing.clear()
    clean = world.epochs[1]
    assert not world.register(
        1, incarnation=7001, directories=both, previous_epoch=clean
    ).error_code
    assert world.heartbeat(1, offline_log_dirs=[both[0]]).is_fenced
    assert list(world.image.brokers[1].directories) == [both[1]]
    assert not world.heartbeat(1, offline_log_dirs=[both[0]]).is_fenced
    assert [topic.leader[index] for index in range(partitions)] == [
        1 if index % 2 else -1 for index in range(partitions)
    ]
    assert not world.controller.cluster.departing


def test_cordoned_brokers_take_no_new_replicas(world: World) -> None:
    world.heartbeat(3, cordoned_log_dirs=[uuid(2003)])
    for i in range(6):
        world.create(f"t{i}", partitions=4, factor=2)
    assert not list(world.image.partitions_of(3))
    assert world.create("all", factor=3).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    world.heartbeat(3, cordoned_log_dirs=[])
    assert not world.create("all", factor=3).error_code


def test_a_controller_that_paused_fences_no_broker(world: World) -> None:
    world.ports.clock.at_ms += 60_000
    world.advance(1)
    assert not any(broker.fenced for broker in world.image.brokers.values())
    world.advance(1500)
    assert all(broker.fenced for broker in world.image.brokers.values())
