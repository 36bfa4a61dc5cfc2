"""Access control entries in znodes: any broker writes them, every broker judges by them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.controller.security.change_audit import CHANGES_LOGGED_PER_SECOND
from barnabas.security.authorization.acls import (
    AclResourceType,
    Operation,
    PatternType,
    Permission,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls_request import DescribeAclsRequest
from barnabas.zookeeper.config.settings import ACL_AUTHORIZER
from barnabas.zookeeper.layout.acl_znodes import AclPattern, AclRule, AclZnode
from barnabas.zookeeper.operations import Create, Delete, Multi, Perms, SetAcl, SetData, ZnodeAcl
from tests.unit.zookeeper.zookeeper_cluster import SESSION_MS, ZookeeperCluster

DENY = Permission.DENY.value
PATH = "/kafka-acl/Topic/t"


def judged_cluster() -> ZookeeperCluster:
    """Resources that no entry names are everybody's."""
    return ZookeeperCluster(
        authorizer_class_name=ACL_AUTHORIZER, allow_everyone_if_no_acl_found="true"
    )


def entry(name: str = "t", operation: int = Operation.WRITE, **others: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": AclResourceType.TOPIC,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "permission_type": DENY,
    }
    return AclCreation(resource_name=name, operation=operation, **(fields | others))


def create(cluster: ZookeeperCluster, broker: int, *entries: AclCreation) -> list[int]:
    answer = cluster.ask(broker, CreateAclsRequest(creations=list(entries)))
    return [int(result.error_code) for result in answer.results]


def delete(cluster: ZookeeperCluster, broker: int, *names: str | None) -> list[int]:
    """How many entries each filter tells of."""
    filters = [
        DeleteAclsFilter(
            resource_type_filter=AclResourceType.TOPIC,
            resource_name_filter=name,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        for name in names
    ]
    answer = cluster.ask(broker, DeleteAclsRequest(filters=filters))
    return [len(result.matching_acls) for result in answer.filter_results]


def described(cluster: ZookeeperCluster, broker: int) -> set[tuple[str, int, int]]:
    request = DescribeAclsRequest(
        resource_type_filter=AclResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    answer = cluster.ask(broker, request)
    return {
        (resource.resource_name, resource.pattern_type, acl.operation)
        for resource in answer.resources
        for acl in resource.acls
    }


def wait_for(cluster: ZookeeperCluster, wanted: set[tuple[str, int, int]]) -> None:
    """Until every broker knows these entries."""
    cluster.wait(
        lambda: all(described(cluster, broker) == wanted for broker in list(cluster.nodes)),
        f"{wanted} everywhere",
    )


@pytest.mark.slow
def test_an_entry_that_one_broker_writes_is_judged_by_on_every_broker() -> None:
    cluster = judged_cluster()
    assert cluster.create("t", 1) == 0
    leader = cluster.state("t")["leader"]
    assert cluster.produce("t", leader) == 0
    other = next(broker for broker in cluster.nodes if broker != leader)
    assert create(cluster, other, entry()) == [0]
    assert cluster.read(PATH) == {
        "version": 1,
        "acls": [
            {
                "principal": "User:ANONYMOUS",
                "permissionType": "Deny",
                "operation": "Write",
                "host": "*",
            }
        ],
    }
    wait_for(cluster, {("t", PatternType.LITERAL, Operation.WRITE)})
    assert cluster.produce("t", leader) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert delete(cluster, leader, "t") == [1]
    assert cluster.read(PATH) is None
    wait_for(cluster, set())
    assert cluster.produce("t", leader) == 0


def test_entries_of_one_resource_share_a_znode_and_prefixes_have_their_own() -> None:
    cluster = judged_cluster()
    prefixed = entry("t", resource_pattern_type=PatternType.PREFIXED)
    asked = [entry(), entry(operation=Operation.READ), entry(), prefixed]
    assert create(cluster, 1, *asked) == [0, 0, 0, 0]
    found = cluster.read(PATH)
    assert found is not None
    assert [acl["operation"] for acl in found["acls"]] == ["Write", "Read"]
    assert cluster.read("/kafka-acl-extended/prefixed/Topic/t") is not None
    assert len(cluster.children("/kafka-acl-changes")) == 1
    assert len(cluster.children("/kafka-acl-extended-changes")) == 1
    assert create(cluster, 2, entry()) == [0]  # is there: nothing is written
    assert len(cluster.children("/kafka-acl-changes")) == 1
    assert delete(cluster, 3, "t", None) == [3, 0], "the first filter tells of it"


def test_an_entry_that_kafka_3_9_could_not_read_is_refused() -> None:
    cluster = judged_cluster()
    two_phase = entry(
        "x",
        Operation.TWO_PHASE_COMMIT,
        resource_type=AclResourceType.TRANSACTIONAL_ID,
    )
    invalid = int(ErrorCode.INVALID_REQUEST)
    assert create(cluster, 1, two_phase, entry("a/b"), entry()) == [invalid, invalid, 0]


@pytest.mark.parametrize("name", [".", "..", "a\tb", "a\x85", "\ue000"])
def test_a_resource_that_can_be_no_znode_is_refused(name: str) -> None:
    cluster = judged_cluster()
    assert create(cluster, 1, entry(name), entry()) == [int(ErrorCode.INVALID_REQUEST), 0]
    assert delete(cluster, 1, name, "t") == [0, 1]


def notify(cluster: ZookeeperCluster, data: bytes = b"TOPIC:t") -> str:
    change = Create("/kafka-acl-changes/acl_changes_", data, sequential=True)
    return str(cluster.znode(change).path)


def test_a_foreign_znode_among_notifications_hides_none_of_them() -> None:
    cluster = judged_cluster()
    cluster.znode(Create("/kafka-acl-changes/zzz", b"TOPIC:t"))
    assert create(cluster, 1, entry()) == [0]
    wait_for(cluster, {("t", PatternType.LITERAL, Operation.WRITE)})


@pytest.mark.slow
def test_a_foreign_znode_among_entries_hides_none_of_them() -> None:
    cluster = judged_cluster()
    assert create(cluster, 1, entry()) == [0]
    cluster.znode(Create("/kafka-acl/Unknown"))
    cluster.znode(Create("/kafka-acl/Unknown/x", b"{"))
    cluster.kill(3)
    cluster.pass_time(2 * SESSION_MS)
    cluster.start(3)
    cluster.wait(lambda: cluster.nodes[3].is_ready, "broker 3 is back")
    wait_for(cluster, {("t", PatternType.LITERAL, Operation.WRITE)})


@pytest.mark.slow
def test_an_unreadable_notification_lets_brokers_read_all_entries() -> None:
    cluster = judged_cluster()
    rule = AclRule("User:alice", "*", Operation.READ, DENY)
    pattern = AclPattern(AclResourceType.TOPIC, "t")
    cluster.znode(Create(PATH, AclZnode(pattern, (rule,)).encode()))
    notify(cluster, b"\xff")
    wait_for(cluster, {("t", PatternType.LITERAL, Operation.READ)})


def test_a_notification_that_was_removed_has_all_entries_read_again() -> None:
    cluster = judged_cluster()
    rule = AclRule("User:alice", "*", Operation.READ, DENY)
    pattern = AclPattern(AclResourceType.TOPIC, "t")
    # Another broker, whose date is ahead, removes the notification before these have listed it.
    cluster.znode(
        Multi(
            (
                Create(PATH, AclZnode(pattern, (rule,)).encode()),
                Create("/kafka-acl-changes/acl_changes_0000000000", b"TOPIC:t"),
                Delete("/kafka-acl-changes/acl_changes_0000000000"),
            )
        )
    )
    wait_for(cluster, {("t", PatternType.LITERAL, Operation.READ)})


def test_entries_that_became_unreadable_are_judged_by_as_they_were() -> None:
    cluster = judged_cluster()
    assert create(cluster, 1, entry()) == [0]
    known: set[tuple[str, int, int]] = {("t", PatternType.LITERAL, Operation.WRITE)}
    wait_for(cluster, known)
    cluster.znode(SetData(PATH, b"{"))
    notify(cluster)
    cluster.pass_time(1_000)
    wait_for(cluster, known)
    assert create(cluster, 2, entry(operation=Operation.READ)) == [ErrorCode.UNKNOWN_SERVER_ERROR]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/kafka-acl", "/kafka-acl/Topic", PATH])
def test_a_broker_that_may_not_read_entries_does_not_start(path: str) -> None:
    cluster = judged_cluster()
    assert create(cluster, 1, entry()) == [0]
    cluster.kill(3)
    cluster.pass_time(2 * SESSION_MS)
    cluster.znode(SetAcl(path, (ZnodeAcl(Perms.ALL & ~Perms.READ, "world", "anyone"),)))
    cluster.start(3)
    cluster.pass_time(2 * SESSION_MS)
    assert not cluster.nodes[3].is_ready


def test_entries_that_another_tool_writes_are_followed() -> None:
    cluster = judged_cluster()
    pattern = AclPattern(AclResourceType.TOPIC, "t")
    rule = AclRule("User:alice", "*", Operation.READ, DENY)
    cluster.znode(Create(PATH, AclZnode(pattern, (rule,)).encode()))
    cluster.znode(Create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequential=True))
    wait_for(cluster, {("t", PatternType.LITERAL, Operation.READ)})
    assert create(cluster, 1, entry()) == [0], "its version is read before"
    wait_for(
        cluster,
        {("t", PatternType.LITERAL, one) for one in (Operation.READ, Operation.WRITE)},
    )


def test_two_brokers_that_write_at_once_lose_no_entry() -> None:
    cluster = judged_cluster()
    kinds = (Operation.READ, Operation.WRITE, Operation.DELETE)
    answers: list[Any] = []
    for broker, kind in zip(list(cluster.nodes), kinds, strict=True):
        node = cluster.nodes[broker]
        at = node.listeners.advertised(node.config.broker_listeners)["PLAINTEXT"]
        request = CreateAclsRequest(creations=[entry(operation=kind)])
        cluster.client.channels.send(at, request, answers.append, timeout_ms=20_000)
    cluster.wait(lambda: len(answers) == len(kinds), "answers")
    assert [answer.results[0].error_code for answer in answers] == [0, 0, 0]
    wait_for(cluster, {("t", PatternType.LITERAL, kind) for kind in kinds})


@pytest.mark.slow
def test_changes_that_a_broker_missed_are_read_in_its_next_session() -> None:
    cluster = judged_cluster()
    assert create(cluster, 1, entry(), entry("gone")) == [0, 0]
    cluster.kill(3)
    cluster.pass_time(2 * SESSION_MS)
    assert delete(cluster, 1, "gone") == [1]
    cluster.znode(SetData(PATH, b'{"version":1,"acls":[]}'))
    assert create(cluster, 1, entry("new")) == [0]
    cluster.start(3)
    cluster.wait(lambda: cluster.nodes[3].is_ready, "broker 3 is back")
    assert described(cluster, 3) == {("new", PatternType.LITERAL, Operation.WRITE)}


def test_a_broker_without_an_authorizer_has_no_entries() -> None:
    cluster = ZookeeperCluster(1)
    answer = cluster.ask(1, CreateAclsRequest(creations=[entry()]))
    assert answer.results[0].error_code == ErrorCode.SECURITY_DISABLED


@pytest.mark.slow
def test_audit_events_of_entries_are_bounded() -> None:
    cluster = judged_cluster()
    count = CHANGES_LOGGED_PER_SECOND + 20
    created = [
        entry(operation=Operation.READ, host=f"10.0.{n // 250}.{n % 250}") for n in range(count)
    ]
    assert create(cluster, 1, *created) == [0] * count
    lines = [line for line in cluster.world.trace if "acl.created" in line]
    assert len(lines) == CHANGES_LOGGED_PER_SECOND and "by=User:ANONYMOUS" in lines[0]
    cluster.world.run(cluster.world.now_ms + 1_000)
    assert delete(cluster, 2, "t") == [count]
    cluster.world.run(cluster.world.now_ms + 1_000)
    assert create(cluster, 1, entry()) == [0]
    assert any("changes_left_out count=20" in line for line in cluster.world.trace)
    cluster.world.let_go()
