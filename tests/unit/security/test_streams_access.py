"""Brokers create the internal topics of a Streams application with the permissions of its principal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.group.streams.configured_topology import Status
from barnabas.security.authorization.acls import AclResourceType as On
from barnabas.security.authorization.acls import Operation as Op
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from barnabas.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from barnabas.wire.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from tests.unit.group.streams_world import part, topology
from tests.unit.security.test_apis import Secured

ALICE = "User:alice"


@pytest.fixture(scope="module")
def module_cluster() -> Secured:
    cluster = Secured(group_streams_initial_rebalance_delay_ms="0")
    cluster.create_topic("t")
    cluster.leader("t")
    find = FindCoordinatorRequest(coordinator_keys=["g"])
    cluster.until(lambda: cluster.ask(find).coordinators[0].error_code == 0)
    return cluster


@pytest.fixture
def cluster(module_cluster: Secured) -> Iterator[Secured]:
    module_cluster.revoke_all()
    yield module_cluster


def join(group_id: str, changelog: str, **fields: Any) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id=group_id, member_id="m", rebalance_timeout_ms=60_000, process_id="p",
        topology=topology(part(changelogs=[changelog])), active_tasks=[], standby_tasks=[],
        warmup_tasks=[], **fields,
    )  # fmt: skip


def test_a_topology_needs_its_group_and_its_topics(cluster: Secured) -> None:
    request = join("g1", "c1")
    assert cluster.ask_as(ALICE, request).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    cluster.grant(On.GROUP, "g1", Op.READ)
    assert cluster.ask_as(ALICE, request).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.grant(On.TOPIC, "t", Op.DESCRIBE)
    cluster.grant(On.TOPIC, "c1", Op.DESCRIBE)
    assert cluster.ask_as(ALICE, request).error_code == ErrorCode.NONE


def test_internal_topics_need_create_and_are_made_for_the_client(cluster: Secured) -> None:
    cluster.grant(On.GROUP, "g2", Op.READ)
    cluster.grant(On.TOPIC, "t", Op.DESCRIBE)
    cluster.grant(On.TOPIC, "c2", Op.DESCRIBE)
    reply = cluster.ask_as(ALICE, join("g2", "c2"))
    assert [status.status_code for status in reply.status] == [Status.MISSING_INTERNAL_TOPICS]
    assert reply.status[0].status_detail == (
        "Internal topics are missing: c2; Unauthorized to CREATE on topics c2."
    )
    assert "c2" not in cluster.broker().image.topics_by_name
    cluster.grant(On.TOPIC, "c2", Op.CREATE)
    cluster.ask_as(ALICE, join("g2", "c2"))
    cluster.until(lambda: "c2" in cluster.broker().image.topics_by_name)
    changelog, source = (cluster.broker().image.topics_by_name[name] for name in ("c2", "t"))
    assert len(changelog) == len(source)
    again = StreamsGroupHeartbeatRequest(
        group_id="g2", member_id="m", member_epoch=reply.member_epoch
    )
    assert not [s for s in cluster.ask_as(ALICE, again).status if s.status_code == 3]


def test_a_topic_that_is_not_created_is_named_with_its_reason(cluster: Secured) -> None:
    request = join("g3", "c3")
    assert request.topology is not None
    request.topology.subtopologies[0].state_changelog_topics[0].replication_factor = 9
    cluster.ask(request)
    failures = cluster.broker().auto_topics.failures
    cluster.until(lambda: bool(failures(["c3"])))
    reply = cluster.ask(request)
    assert "; Creation failed: c3 (" in reply.status[0].status_detail


def test_topics_of_kafka_and_invalid_names_are_refused(cluster: Secured) -> None:
    for name in ("__consumer_offsets", "no/name"):
        reply = cluster.ask(join("g4", name))
        assert reply.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        assert name in reply.error_message


def test_a_group_is_described_to_who_may_describe_its_topics(cluster: Secured) -> None:
    cluster.ask(join("g5", "c5"))
    request = StreamsGroupDescribeRequest(
        group_ids=["g5", "", "none"], include_topology_description=True
    )
    described, unnamed, unknown = cluster.ask(request).groups
    assert (described.error_code, described.topology_description_status) == (0, 1)
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    cluster.grant(On.GROUP, "g5", Op.DESCRIBE)
    only = StreamsGroupDescribeRequest(group_ids=["g5"])
    (hidden,) = cluster.ask_as(ALICE, only).groups
    assert hidden.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert hidden.topology is None
    cluster.grant(On.TOPIC, "t", Op.DESCRIBE)
    cluster.grant(On.TOPIC, "c5", Op.DESCRIBE)
    assert cluster.ask_as(ALICE, only).groups[0].error_code == 0


def test_a_pushed_description_is_answered_as_without_a_plugin(cluster: Secured) -> None:
    reply = cluster.ask(StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m"))
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "no streams group topology description plugin" in reply.error_message
