"""Each API × the permission that it asks for: refused without it, with Kafka's code; served with it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from barnabas.broker.handlers.describe_cluster import API
from barnabas.config.coordination import STANDARD_AUTHORIZER
from barnabas.security.authorization.access_rules import Question
from barnabas.security.authorization.acls import AclResourceType as On
from barnabas.security.authorization.acls import Operation as Op
from barnabas.security.authorization.authorizer import Authorizer, DenialAudit
from barnabas.security.authorization.topic_access import check_describe_cluster
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.codec import decode, encode_bytes
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import offset_commit_request as commit
from barnabas.wire.messages import offset_fetch_request as offsets
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.list_groups_request import ListGroupsRequest
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.request import Proof, RequestContext
from barnabas.wire.schema import Message
from tests.unit.broker.world import USUAL, Cluster
from tests.unit.security.permissions import CLUSTER, GROUP_CODE, TABLE, TOPIC_CODE, codes


class Named:
    """In place of a connection that has authenticated: its principal is what the test says now."""

    def __init__(self, world: Secured) -> None:
        self.proof = Proof.OWN
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
        super().__init__(
            1, 1, 1, None, 0, USUAL, **{"authorizer_class_name": STANDARD_AUTHORIZER, **named}
        )
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


@pytest.mark.parametrize(
    ("request_", "grants", "code"), TABLE, ids=[type(row[0]).__name__ for row in TABLE]
)
def test_an_api_is_refused_without_its_permission_only(
    cluster: Secured, request_: Message, grants: list[tuple[On, str, Op]], code: str
) -> None:
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


def described_as_alice(cluster: Secured, request: DescribeClusterRequest) -> list[str]:
    """The log events of the check, which amends `request`."""
    events: list[str] = []
    audit = DenialAudit(lambda level, event, **fields: events.append(event), lambda: 0.0)
    authorizer = Authorizer(cluster.broker().image, audit=audit)
    ctx = RequestContext(api_key=API.key, api_version=2, principal="User:alice")
    check_describe_cluster(Question(request, ctx, authorizer, API))
    return events


@pytest.mark.parametrize("may", [False, True])
def test_controllers_events_are_for_who_may_describe_the_cluster(
    cluster: Secured, may: bool
) -> None:
    if may:
        cluster.grant(On.CLUSTER, CLUSTER, Op.DESCRIBE)
    request = DescribeClusterRequest(events_after=-1, refusals_after=5, states_of=["t"])
    events = described_as_alice(cluster, request)
    found = request.events_after, request.refusals_after, list(request.states_of)
    assert found == ((-1, 5, ["t"]) if may else (-2, -2, []))
    assert events == ([] if may else ["authorization.denied"])


def test_plain_descriptions_of_the_cluster_are_no_denials(cluster: Secured) -> None:
    asked = DescribeClusterRequest()
    assert not described_as_alice(cluster, decode(type(asked), 2, encode_bytes(asked, 2)))


def test_offsets_are_returned_of_topics_that_may_be_described(cluster: Secured) -> None:
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
    from barnabas.broker.handlers import FORWARDED_KEYS, SHARES, STREAMS
    from barnabas.broker.handlers import MODULES as BROKER_MODULES
    from barnabas.controller.handlers import MODULES as CONTROLLER_MODULES
    from barnabas.raft.handlers import HANDLERS
    from barnabas.security.authorization.broker_access import BROKER_RULES
    from barnabas.security.authorization.controller_access import CONTROLLER_RULES

    served = {module.API.key for module in BROKER_MODULES + SHARES + STREAMS}
    assert served <= {*BROKER_RULES}
    own = {module.API.key for module in (*CONTROLLER_MODULES, *HANDLERS)} | FORWARDED_KEYS
    assert own <= {*CONTROLLER_RULES}
