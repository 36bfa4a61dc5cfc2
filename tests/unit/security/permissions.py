"""Requests, and the permission without which each is refused with which code: one row for each."""

from __future__ import annotations

from barnabas.security.authorization.acls import AclResourceType as On
from barnabas.security.authorization.acls import Operation as Op
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_acls_request import DescribeAclsRequest
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.describe_groups_request import DescribeGroupsRequest
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.wire.messages.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from barnabas.wire.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
)
from barnabas.wire.messages.describe_topic_partitions_request import (
    TopicRequest as PartitionsOf,
)
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.join_group_request import JoinGroupRequest
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest
from barnabas.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.messages.sync_group_request import SyncGroupRequest
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.messages.update_features_request import UpdateFeaturesRequest
from barnabas.wire.schema import Message

CLUSTER = "kafka-cluster"
TOPIC_CODE = "TOPIC_AUTHORIZATION_FAILED"
GROUP_CODE = "GROUP_AUTHORIZATION_FAILED"
CLUSTER_CODE = "CLUSTER_AUTHORIZATION_FAILED"


def codes(message: Message) -> set[str]:
    """Every error of a response, by name."""
    found = set()
    for name in ("error_code", "partition_error_code"):
        code = getattr(message, name, 0)
        if code:
            found.add(ErrorCode(code).name)
    for field in message.FIELDS:
        if field.struct is not None and field.array:
            for part in getattr(message, field.name) or ():
                found |= codes(part)
    return found


PART = [0]
TABLE: list[tuple[Message, list[tuple[On, str, Op]], str]] = [
    (ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[
        ListOffsetsPartition(partition_index=0, timestamp=-1)])]),
     [(On.TOPIC, "t", Op.DESCRIBE)], TOPIC_CODE),
    (MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
     [(On.TOPIC, "t", Op.DESCRIBE)], TOPIC_CODE),
    (OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[
        OffsetForLeaderPartition(partition=0, leader_epoch=0)])]),
     [(On.TOPIC, "t", Op.DESCRIBE)], TOPIC_CODE),
    (FindCoordinatorRequest(coordinator_keys=["g"]), [(On.GROUP, "g", Op.DESCRIBE)], GROUP_CODE),
    (FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]),
     [(On.TRANSACTIONAL_ID, "x", Op.DESCRIBE)], "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    (JoinGroupRequest(group_id="g"), [(On.GROUP, "g", Op.READ)], GROUP_CODE),
    (SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"),
     [(On.GROUP, "g", Op.READ)], GROUP_CODE),
    (HeartbeatRequest(group_id="g"), [(On.GROUP, "g", Op.READ)], GROUP_CODE),
    (LeaveGroupRequest(group_id="g"), [(On.GROUP, "g", Op.READ)], GROUP_CODE),
    (DescribeGroupsRequest(groups=["g"]), [(On.GROUP, "g", Op.DESCRIBE)], GROUP_CODE),
    (DeleteGroupsRequest(groups_names=["g"]), [(On.GROUP, "g", Op.DELETE)], GROUP_CODE),
    (OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=[
        OffsetDeleteRequestPartition(partition_index=0)])]),
     [(On.GROUP, "g", Op.DELETE)], GROUP_CODE),
    (InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000),
     [(On.TRANSACTIONAL_ID, "x", Op.WRITE)], "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    (InitProducerIdRequest(transactional_id=None), [(On.TOPIC, "any", Op.WRITE)], CLUSTER_CODE),
    (InitProducerIdRequest(transactional_id=None),
     [(On.CLUSTER, CLUSTER, Op.IDEMPOTENT_WRITE)], CLUSTER_CODE),
    (DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[
        DeleteRecordsPartition(partition_index=0, offset=0)])], timeout_ms=1000),
     [(On.TOPIC, "t", Op.DELETE)], TOPIC_CODE),
    (DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=PART)]),
     [(On.TOPIC, "t", Op.READ)], TOPIC_CODE),
    (DescribeTopicPartitionsRequest(topics=[PartitionsOf(name="t")], response_partition_limit=9),
     [(On.TOPIC, "t", Op.DESCRIBE)], TOPIC_CODE),
    (DescribeConfigsRequest(resources=[DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=None)]),
     [(On.TOPIC, "t", Op.DESCRIBE_CONFIGS)], TOPIC_CODE),
    (DescribeConfigsRequest(resources=[DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=None)]),
     [(On.CLUSTER, CLUSTER, Op.DESCRIBE_CONFIGS)], CLUSTER_CODE),
    (IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
        resource_type=2, resource_name="t")]),
     [(On.TOPIC, "t", Op.ALTER_CONFIGS)], TOPIC_CODE),
    (IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
        resource_type=8, resource_name="1")]),
     [(On.CLUSTER, CLUSTER, Op.ALTER_CONFIGS)], CLUSTER_CODE),
    (DescribeLogDirsRequest(topics=None), [(On.CLUSTER, CLUSTER, Op.DESCRIBE)], CLUSTER_CODE),
    (ListConfigResourcesRequest(), [(On.CLUSTER, CLUSTER, Op.DESCRIBE_CONFIGS)], CLUSTER_CODE),
    (DescribeAclsRequest(resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
                         principal_filter=None, host_filter=None, operation=1, permission_type=1),
     [(On.CLUSTER, CLUSTER, Op.DESCRIBE)], CLUSTER_CODE),
    (CreateAclsRequest(creations=[AclCreation(
        resource_type=2, resource_name="q", principal="User:q", host="*", operation=3,
        permission_type=3)]),
     [(On.CLUSTER, CLUSTER, Op.ALTER)], CLUSTER_CODE),
    (DeleteAclsRequest(filters=[DeleteAclsFilter(
        resource_type_filter=2, resource_name_filter="q", pattern_type_filter=3,
        principal_filter=None, host_filter=None, operation=1, permission_type=1)]),
     [(On.CLUSTER, CLUSTER, Op.ALTER)], CLUSTER_CODE),
    (CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1,
                                                replication_factor=1)], validate_only=True),
     [(On.TOPIC, "new", Op.CREATE)], TOPIC_CODE),
    (CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1,
                                                replication_factor=1)], validate_only=True),
     [(On.CLUSTER, CLUSTER, Op.CREATE)], TOPIC_CODE),
    (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)],
                             validate_only=True),
     [(On.TOPIC, "t", Op.ALTER)], TOPIC_CODE),
    (DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=1000),
     [(On.TOPIC, "gone", Op.DELETE)], TOPIC_CODE),
    (ElectLeadersRequest(topic_partitions=None, timeout_ms=1000),
     [(On.CLUSTER, CLUSTER, Op.ALTER)], CLUSTER_CODE),
    (AlterPartitionReassignmentsRequest(topics=[], timeout_ms=1000),
     [(On.CLUSTER, CLUSTER, Op.ALTER)], CLUSTER_CODE),
    (ListPartitionReassignmentsRequest(topics=None, timeout_ms=1000),
     [(On.CLUSTER, CLUSTER, Op.DESCRIBE)], CLUSTER_CODE),
    (UpdateFeaturesRequest(timeout_ms=1000), [(On.CLUSTER, CLUSTER, Op.ALTER)], CLUSTER_CODE),
    (UnregisterBrokerRequest(broker_id=77), [(On.CLUSTER, CLUSTER, Op.ALTER)], CLUSTER_CODE),
]  # fmt: skip
