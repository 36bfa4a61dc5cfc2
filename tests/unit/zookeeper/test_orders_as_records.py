"""LeaderAndIsr, UpdateMetadata and StopReplica as records of the broker's image."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.metadata.image.image import MetadataImage
from barnabas.types import Uuid
from barnabas.wire.messages.kafka39.leader_and_isr_request import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.kafka39.stop_replica_request import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.wire.messages.kafka39.update_metadata_request import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.wire.schema import Message
from barnabas.zookeeper.broker.metadata_records import (
    LEADER_DURING_DELETE,
    Incarnation,
    new_topics,
    of_leader_and_isr,
    of_stop_replica,
    of_update_metadata,
)

ME = Incarnation(1, 70, Uuid(bytes(15) + b"\x07"))
TOPIC_ID = Uuid(bytes(15) + b"\x2a")
OTHER_ID = Uuid(bytes(15) + b"\x2b")


def brokers(*ids: int) -> list[UpdateMetadataBroker]:
    return [
        UpdateMetadataBroker(
            id=broker,
            endpoints=[UpdateMetadataEndpoint(port=9092, host=f"n{broker}", listener="PLAINTEXT")],
            rack=None,
        )
        for broker in ids
    ]


def update(
    *states: UpdateMetadataPartitionState,
    live: Sequence[int] = (1, 2),
    topic_id: Uuid = TOPIC_ID,
    broker_epoch: int = ME.broker_epoch,
) -> UpdateMetadataRequest:
    topic = UpdateMetadataTopicState(topic_name="t", topic_id=topic_id, partition_states=states)
    return UpdateMetadataRequest(
        controller_id=2,
        controller_epoch=3,
        broker_epoch=broker_epoch,
        live_brokers=brokers(*live),
        topic_states=[topic] if states else [],
    )


def state(
    leader: int = 1, leader_epoch: int = 0, version: int = 0, isr: Sequence[int] = (1, 2)
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=0,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        zk_version=version,
        replicas=[1, 2],
    )


def image_after(*requests: UpdateMetadataRequest) -> MetadataImage:
    image = MetadataImage()
    for request in requests:
        replay(image, of_update_metadata(image, request, ME))
    return image


def replay(image: MetadataImage, records: Sequence[Message]) -> None:
    image.replay_batch(records, image.offset + 1, 3)


def test_an_order_that_comes_twice_changes_nothing() -> None:
    image = image_after(update(state()))
    assert of_update_metadata(image, update(state()), ME) == []
    assert image.topics_by_name["t"].id == TOPIC_ID
    assert image.brokers[1].epoch == 70
    assert image.brokers[1].incarnation == ME.id


def test_an_order_older_than_the_image_is_left_alone() -> None:
    image = image_after(update(state(2, 4, 9, [2])))
    assert of_update_metadata(image, update(state(1, 3, 12)), ME) == []
    assert of_update_metadata(image, update(state(2, 4, 8)), ME) == []


def test_a_registration_of_before_is_not_taken_for_this_one() -> None:
    image = image_after(update(broker_epoch=60))
    assert sorted(image.brokers) == [2]


def test_a_broker_that_is_not_named_is_fenced_and_comes_back() -> None:
    image = image_after(update(), update(live=[1]))
    assert image.brokers[2].fenced
    replay(image, of_update_metadata(image, update(), ME))
    assert not image.brokers[2].fenced


def test_a_topic_made_again_under_its_name_replaces_the_former() -> None:
    image = image_after(update(state(1, 5, 5)), update(state(), topic_id=OTHER_ID))
    assert sorted(image.topics_by_id) == [OTHER_ID]
    assert image.partition(OTHER_ID, 0) is not None


def test_a_topic_that_is_deleted_leaves_the_image() -> None:
    image = image_after(update(state()), update(state(leader=LEADER_DURING_DELETE)))
    assert not image.topics_by_name


def test_additions_of_leader_and_isr_outlive_an_update_of_metadata() -> None:
    image = image_after(update(state()))
    moving = LeaderAndIsrPartitionState(
        partition_index=0, leader=1, leader_epoch=1, isr=[1], partition_epoch=1,
        replicas=[1, 2], adding_replicas=[2],
    )  # fmt: skip
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[moving])
    replay(image, of_leader_and_isr(image, LeaderAndIsrRequest(topic_states=[topic])))
    replay(image, of_update_metadata(image, update(state(1, 1, 2)), ME))
    partition = image.partition(TOPIC_ID, 0)
    assert partition is not None
    assert (partition.adding, partition.isr, partition.partition_epoch) == ((2,), (1, 2), 2)


def test_a_stopped_replica_leaves_the_partition_on_this_broker() -> None:
    image = image_after(update(state(leader=2)))
    stopped = StopReplicaPartitionState(partition_index=0, delete_partition=True)
    topic = StopReplicaTopicState(topic_name="t", partition_states=[stopped])
    replay(image, of_stop_replica(image, StopReplicaRequest(topic_states=[topic]), 1))
    partition = image.partition(TOPIC_ID, 0)
    assert partition is not None
    assert partition.replicas == (2,)


def test_a_full_update_removes_topics_that_it_lacks() -> None:
    image = image_after(update(state()))
    full = update()
    full.type = 2
    replay(image, of_update_metadata(image, full, ME))
    assert not image.topics_by_name


def test_a_topic_made_again_has_a_configuration_of_its_own_to_be_read() -> None:
    image = image_after(update(state(1, 5, 5)))
    assert new_topics(image, update(state())) == []
    assert new_topics(image, update(state(), topic_id=OTHER_ID)) == ["t"]


def test_the_end_of_a_topic_that_was_made_again_leaves_the_new_one() -> None:
    image = image_after(update(state()), update(state(), topic_id=OTHER_ID))
    assert of_update_metadata(image, update(state(LEADER_DURING_DELETE)), ME) == []
    assert OTHER_ID in image.topics_by_id
