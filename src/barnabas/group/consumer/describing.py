"""ConsumerGroupDescribe: the committed state of a consumer group.

Source: ``ConsumerGroup.asDescribedGroup`` of Apache Kafka 4.3; KIP-848, KIP-1043.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.member import ConsumerMember, Target
from barnabas.group.consumer.target_assignment import preferred_assignor
from barnabas.group.group_table import GroupTable
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from barnabas.wire.messages.consumer_group_describe_response import (
    Member as DescribedMember,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_consumer_group(table: GroupTable, group_id: str) -> DescribedGroup:
    """The description of one group; GROUP_ID_NOT_FOUND if `group_id` is no consumer group."""
    try:
        group = table.committed_group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    epoch, assignment_epoch = group.committed_epochs()
    members = dict(sorted(group.members.committed_items()))
    return DescribedGroup(
        group_id=group_id,
        group_state=group.committed_state().value,
        group_epoch=epoch,
        assignment_epoch=assignment_epoch,
        assignor_name=preferred_assignor(members, table.settings.assignor_names()[0]),
        members=[
            _described(member, group.targets.committed(member_id) or {}, table.cluster)
            for member_id, member in members.items()
        ],
    )


def _described(member: ConsumerMember, target: Target, cluster: ClusterTopics) -> DescribedMember:
    # A member also owns the partitions that it has yet to revoke.
    owned: dict[Uuid, set[int]] = {}
    for assigned in (member.assigned, member.revoking):
        for topic_id, partitions in assigned.items():
            owned.setdefault(topic_id, set()).update(partitions)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_parts(owned, cluster),
        target_assignment=_parts(target, cluster),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _parts(by_topic: Mapping[Uuid, Iterable[int]], cluster: ClusterTopics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=name, partitions=sorted(by_topic[topic_id])
            )
            for topic_id in sorted(by_topic)
            if (name := cluster.name_of(topic_id)) is not None
        ]
    )
