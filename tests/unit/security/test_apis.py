"""Each API × the permission that it asks for: refused without it, with Kafka's code; served with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.config.node import STANDARD_AUTHORIZER
from barnabas.security.acls import Operation as Op
from barnabas.security.acls import ResourceType as On
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import offset_commit_request as commit
from barnabas.wire.messages import offset_fetch_request as offsets
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
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
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
from barnabas.wire.messages.list_groups_request import ListGroupsRequest
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
from tests.unit.broker.world import Cluster

CLUSTER = "kafka-cluster"
TOPIC_CODE = "TOPIC_AUTHORIZATION_FAILED"
GROUP_CODE = "GROUP_AUTHORIZATION_FAILED"
CLUSTER_CODE = "CLUSTER_AUTHORIZATION_FAILED"
NOT_ASKED = -2147483648


class Named:
    """Stands for a connection that has authenticated: its principal is what the test says now."""

    def __init__(self, world: Secured) -> None:
        self._world = world

    @property
    def principal(self) -> str:
        return self._world.principal

    def entry(self, api_key: int) -> None:
        return None


class Secured(Cluster):
    """One node whose own principal is a super user; clients are who the test says."""

    def __init__(self, **settings: str) -> None:
        self.principal = "User:admin"
        named = {"super_users": "User:ANONYMOUS;User:admin", **settings}
        super().__init__(1, 1, 1, None, 0, **{"authorizer_class_name": STANDARD_AUTHORIZER, **named})
        node = self.sim.nodes[1].node
        assert node is not None
        for server in node.listeners.servers.values():
            if server.listener != "CONTROLLER":
                server.authenticator = lambda peer: Named(self)

    def grant(self, kind: int, name: str, operation: int, *, permission: int = 3, pattern: int = 3,
              principal: str = "User:alice") -> None:  # fmt: skip
        entry = AclCreation(
            resource_type=kind, resource_name=name, resource_pattern_type=pattern,
            principal=principal, host="*", operation=operation, permission_type=permission,
        )  # fmt: skip
        count = len(self.broker().image.acls)
        response = self.ask_as("User:admin", CreateAclsRequest(creations=[entry]))
        assert response.results[0].error_code == 0, response.results[0].error_message
        self.until(lambda: len(self.broker().image.acls) > count)

    def revoke_all(self) -> None:
        every = DeleteAclsFilter(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        response = self.ask_as("User:admin", DeleteAclsRequest(filters=[every]))
        assert response.filter_results[0].error_code == 0
        self.until(lambda: not self.broker().image.acls)

    def ask_as(self, principal: str, request: Message, version: int | None = None) -> Any:
        self.principal = principal
        try:
            return self.ask(request, version=version)
        finally:
            self.principal = "User:admin"


@pytest.fixture(scope="module")
def module_cluster() -> Secured:
    cluster = Secured(auto_create_topics_enable="true")
    cluster.create_topic("t")
    cluster.create_topic("other")
    cluster.leader("t")
    return cluster


@pytest.fixture
def cluster(module_cluster: Secured) -> Iterator[Secured]:
    module_cluster.revoke_all()
    yield module_cluster


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
    (SyncGroupRequest(group_id="g"), [(On.GROUP, "g", Op.READ)], GROUP_CODE),
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


@pytest.mark.parametrize(
    ("request_", "grants", "code"), TABLE, ids=[type(row[0]).__name__ for row in TABLE]
)
def test_an_api_is_refused_without_its_permission_only(
    cluster: Secured, request_: Message, grants: list[tuple[On, str, Op]], code: str
) -> None:
    from copy import deepcopy

    assert codes(cluster.ask_as("User:alice", deepcopy(request_))) == {code}
    for grant in grants:
        cluster.grant(*grant)
    assert code not in codes(cluster.ask_as("User:alice", deepcopy(request_)))
    # A denial wins over what is allowed, also over everything.
    for kind, name, operation in grants:
        cluster.grant(kind, name, operation, permission=2)
    if request_.API_KEY != InitProducerIdRequest.API_KEY:
        assert code in codes(cluster.ask_as("User:alice", deepcopy(request_)))


def test_a_producer_is_refused_topic_by_topic(cluster: Secured) -> None:
    request = cluster.produce_request([b"v"])
    request.topic_data = [
        *request.topic_data,
        *cluster.produce_request([b"v"], topic="other").topic_data,
    ]
    cluster.grant(On.TOPIC, "t", Op.WRITE)
    response = cluster.ask_as("User:alice", request)
    told = {
        Uuid(topic.topic_id): ErrorCode(topic.partition_responses[0].error_code).name
        for topic in response.responses
    }
    ids = cluster.broker().image.topics_by_name
    assert told == {ids["t"].id: "NONE", ids["other"].id: TOPIC_CODE}


def test_a_waiting_fetch_is_denied_what_was_taken_from_it(cluster: Secured) -> None:
    cluster.grant(On.TOPIC, "t", Op.READ)
    cluster.produce([b"one"])
    end = cluster.partition(1).high_watermark
    fetch = cluster.fetch_request(end, max_wait_ms=20_000)
    cluster.principal = "User:alice"
    answer = cluster.ask_later(fetch, purpose="consumer")
    cluster.run(100)
    cluster.principal = "User:admin"
    cluster.revoke_all()
    cluster.ask(cluster.produce_request([b"secret"]))
    cluster.until(lambda: answer.is_there)
    [part] = answer.value.responses[0].partitions
    assert (ErrorCode(part.error_code).name, bytes(part.records or b"")) == (TOPIC_CODE, b"")


def test_names_are_hidden_from_whom_may_not_describe_them(cluster: Secured) -> None:
    cluster.grant(On.TOPIC, "t", Op.WRITE)
    told = cluster.ask_as("User:alice", MetadataRequest(topics=None))
    assert [topic.name for topic in told.topics] == ["t"]
    other = cluster.broker().image.topics_by_name["other"].id
    asked = [MetadataRequestTopic(name=n) for n in ("t", "other", "absent")]
    told = cluster.ask_as(
        "User:alice", MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    )
    assert {t.name: ErrorCode(t.error_code).name for t in told.topics} == {
        "t": "NONE", "other": TOPIC_CODE, "absent": TOPIC_CODE,
    }  # fmt: skip
    assert {t.topic_id for t in told.topics if t.name != "t"} == {ZERO_UUID}
    by_id = [MetadataRequestTopic(name=None, topic_id=other)]
    told = cluster.ask_as("User:alice", MetadataRequest(topics=by_id))
    assert [(t.name, ErrorCode(t.error_code).name) for t in told.topics] == [(None, TOPIC_CODE)]
    gone = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=other)], timeout_ms=1000
    )
    told = cluster.ask_as("User:alice", gone)
    assert [(t.name, ErrorCode(t.error_code).name) for t in told.responses] == [(None, TOPIC_CODE)]


def test_operations_are_those_the_principal_may_do(cluster: Secured) -> None:
    asks = MetadataRequest(topics=[MetadataRequestTopic(name="t")],
                           include_topic_authorized_operations=True)  # fmt: skip
    cluster.grant(On.TOPIC, "t", Op.WRITE)
    [topic] = cluster.ask_as("User:alice", asks).topics
    assert topic.topic_authorized_operations == 1 << Op.WRITE | 1 << Op.DESCRIBE
    asks_cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert cluster.ask_as("User:alice", asks_cluster).cluster_authorized_operations == 0
    cluster.grant(On.CLUSTER, CLUSTER, Op.ALTER)
    told = cluster.ask_as("User:alice", asks_cluster)
    assert told.cluster_authorized_operations == 1 << Op.ALTER | 1 << Op.DESCRIBE


def test_offsets_are_told_of_topics_that_may_be_described(cluster: Secured) -> None:
    cluster.grant(On.GROUP, "g2", Op.READ)
    cluster.grant(On.TOPIC, "t", Op.READ)
    ids = {name: cluster.broker().image.topics_by_name[name].id for name in ("t", "other")}
    wanted = commit.OffsetCommitRequest(
        group_id="g2",
        topics=[
            commit.OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
                ],
            )
            for name, topic_id in ids.items()
        ],
    )

    def committed() -> dict[Uuid, str]:
        told = cluster.ask_as("User:alice", wanted_again())
        return {
            Uuid(topic.topic_id): ErrorCode(topic.partitions[0].error_code).name
            for topic in told.topics
        }

    def wanted_again() -> Message:
        from copy import deepcopy

        return deepcopy(wanted)

    cluster.ask(FindCoordinatorRequest(coordinator_keys=["g2"]))
    cluster.until(lambda: "__consumer_offsets" in cluster.broker().image.topics_by_name)
    cluster.until(lambda: committed().get(ids["t"]) == "NONE")
    assert committed()[ids["other"]] == TOPIC_CODE
    group = offsets.OffsetFetchRequestGroup(
        group_id="g2",
        topics=[
            offsets.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
            for name, topic_id in ids.items()
        ],
    )
    strange = offsets.OffsetFetchRequestGroup(group_id="strange", topics=[])
    told = cluster.ask_as("User:alice", offsets.OffsetFetchRequest(groups=[group, strange]))
    by_group = {answer.group_id: answer for answer in told.groups}
    assert ErrorCode(by_group["strange"].error_code).name == GROUP_CODE
    found = {Uuid(t.topic_id): t.partitions[0].error_code for t in by_group["g2"].topics}
    assert found == {ids["t"]: 0, ids["other"]: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert cluster.ask_as("User:alice", ListGroupsRequest()).groups[0].group_id == "g2"


def test_every_api_that_is_served_has_a_rule_of_its_own() -> None:
    from barnabas.broker.handlers import FORWARDED_KEYS
    from barnabas.broker.handlers import MODULES as BROKER_MODULES
    from barnabas.controller.handlers import MODULES as CONTROLLER_MODULES
    from barnabas.raft.handlers import HANDLERS
    from barnabas.security.broker_access import BROKER_RULES
    from barnabas.security.controller_access import CONTROLLER_RULES

    served = {module.API.key for module in BROKER_MODULES}
    assert served <= {*BROKER_RULES}
    own = {module.API.key for module in (*CONTROLLER_MODULES, *HANDLERS)} | FORWARDED_KEYS
    assert own <= {*CONTROLLER_RULES}
