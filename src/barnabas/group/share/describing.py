"""ShareGroupDescribe: the committed state of a share group.

Source: ``ShareGroup.asDescribedGroup`` of Apache Kafka 4.3; KIP-932, KIP-1043.
"""

from __future__ import annotations

from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.group_table import GroupTable
from barnabas.group.share.share_group import ShareGroup, ShareMember
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

ASSIGNOR = "simple"


def describe_share_group(table: GroupTable, group_id: str) -> DescribedGroup:
    """The description of one group; GROUP_ID_NOT_FOUND if `group_id` is no share group."""
    try:
        group = table.committed_group(group_id)
        if not isinstance(group, ShareGroup):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."
            )
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    epoch, assignment_epoch = group.committed_epochs()
    return DescribedGroup(
        group_id=group_id,
        group_state=group.committed_state().value,
        group_epoch=epoch,
        assignment_epoch=assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[
            _described(member, table.cluster)
            for _, member in sorted(group.members.committed_items())
        ],
    )


def _described(member: ShareMember, cluster: ClusterTopics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(
                    topic_id=topic_id, topic_name=name, partitions=sorted(member.assigned[topic_id])
                )
                for topic_id in sorted(member.assigned)
                if (name := cluster.name_of(topic_id)) is not None
            ]
        ),
    )
