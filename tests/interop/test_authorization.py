"""Each API × each missing permission, asked of Apache Kafka and of this project side by side.

Both run one node without authentication; resources that no entry names are everybody's. A row's permission
is taken away by a DENY, and the error codes of the answers are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.config.coordination import STANDARD_AUTHORIZER
from barnabas.security.authorization.acls import SUPPORTED_OPERATIONS, AclResourceType, Operation
from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls_request import DescribeAclsRequest
from barnabas.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.wire.messages.end_txn_request import EndTxnRequest
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.list_groups_request import ListGroupsRequest
from barnabas.wire.messages.list_transactions_request import ListTransactionsRequest
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
from barnabas.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.wire.schema import Message
from bench.wire import ask
from tests.interop.node_process import NodeProcess
from tests.process.launch import wait_until
from tests.unit.security.permissions import CLUSTER, TABLE, codes

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.timeout(240),
]  # fmt: skip
ALLOWED_OTHERWISE = (InitProducerIdRequest, OffsetForLeaderEpochRequest)
"""By a topic that no entry names, and by ClusterAction, which the nodes themselves need."""
EVERYBODY = "User:ANONYMOUS"


class OneNode:
    """A combined node with the authorizer; `bootstrap` is its broker."""

    def __init__(self, directory: Path, java: bool) -> None:
        client, controller = FreePorts().take(2)
        self.bootstrap = f"127.0.0.1:{client}"
        properties = (
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}\n"
            f"log.dirs={directory}/data\noffsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
            f"authorizer.class.name={STANDARD_AUTHORIZER}\nsuper.users=User:root\n"
            "allow.everyone.if.no.acl.found=true\n"
        )
        self._process = NodeProcess(directory, properties, java=java)

    def ask(self, request: Message) -> Any:
        schema = API_SCHEMAS[request.API_KEY]
        module = import_module(f"barnabas.wire.messages.{schema.response_module}")
        response = getattr(module, f"{schema.name}Response")
        version = VERSIONS.get(type(request), schema.max_stable_version)
        return ask(self.bootstrap, deepcopy(request), version, response)

    def is_up(self) -> bool:
        try:
            return len(self.ask(MetadataRequest(topics=[])).brokers) == 1
        except OSError:
            return False

    def set_acl(self, kind: int, name: str, operation: int, permission: int) -> None:
        self.set_acls(kind, name, [operation], permission)

    def set_acls(self, kind: int, name: str, operations: Sequence[int], permission: int) -> None:
        entries = [
            AclCreation(
                resource_type=kind, resource_name=name, principal=EVERYBODY, host="*",
                operation=operation, permission_type=permission,
            )
            for operation in operations
        ]  # fmt: skip
        assert codes(self.ask(CreateAclsRequest(creations=entries))) == set()

    def deny(self, grants: Sequence[tuple[int, str, int]]) -> None:
        """Take all of `grants` away, in one request: without ClusterAction nothing is forwarded any more.
        Apache Kafka's authorizer takes it over a moment after the answer."""
        if not grants:
            return
        entries = [
            AclCreation(
                resource_type=kind, resource_name=name, principal=EVERYBODY, host="*",
                operation=operation, permission_type=2,
            )
            for kind, name, operation in grants
        ]  # fmt: skip
        assert codes(self.ask(CreateAclsRequest(creations=entries))) == set()
        asked = DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=2,
        )  # fmt: skip
        if not any(kind == AclResourceType.CLUSTER for kind, _, _ in grants):
            wait_until(
                lambda: sum(len(found.acls) for found in self.ask(asked).resources) >= len(grants),
                "the denials count",
            )

    def unset_acl(self, kind: int, name: str, operation: int, permission: int) -> None:
        wanted = DeleteAclsFilter(
            resource_type_filter=kind, resource_name_filter=name, pattern_type_filter=3,
            principal_filter=None, host_filter=None, operation=operation, permission_type=permission,
        )  # fmt: skip
        assert codes(self.ask(DeleteAclsRequest(filters=[wanted]))) == set()

    def close(self) -> None:
        self._process.stop()


@contextmanager
def both(directory: Path) -> Iterator[tuple[OneNode, OneNode]]:
    """Apache Kafka's, and ours."""
    nodes = (OneNode(directory / "kafka", True), OneNode(directory / "ours", False))
    try:
        for node in nodes:
            wait_until(node.is_up, f"{node.bootstrap} answers")
            made = [
                CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in ("t", "other")
            ]
            assert not codes(node.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000)))
            # Together: the first that names the cluster closes it to all that is not allowed.
            node.set_acls(
                AclResourceType.CLUSTER, CLUSTER, SUPPORTED_OPERATIONS[AclResourceType.CLUSTER], 3
            )
        yield nodes
    finally:
        for node in nodes:
            node.close()


def test_a_missing_permission_is_answered_as_apache_kafka_does(tmp_path: Path) -> None:
    # Without Alter on the cluster nothing can be given back: those rows come last, after one DENY.
    last = (AclResourceType.CLUSTER, CLUSTER, Operation.ALTER)
    rows = sorted(TABLE, key=lambda row: last in row[1])
    differ: dict[str, tuple[set[str], set[str]]] = {}
    with both(tmp_path) as (kafka, ours):
        closed = False
        for number, (request, grants, code) in enumerate(rows):
            answers = []
            alternatives = [
                grant
                for other, more, same in rows
                for grant in more
                if type(other) is type(request) and same == code
            ]
            for node in (kafka, ours):
                if last in grants and not closed:
                    node.set_acl(*last, 2)
                denied = [] if last in grants else list(dict.fromkeys(alternatives))
                node.deny(denied)
                answers.append(codes(node.ask(request)))
                if type(request) is MetadataRequest:
                    answers[-1] |= seen(node)
                for grant in denied:
                    node.unset_acl(*grant, 2)
            closed = closed or last in grants
            if type(request) in ALLOWED_OTHERWISE:  # whatever a coordinator that loads says
                answers = [{c for c in found if "AUTHORIZATION" in c} for found in answers]
            if answers[0] != answers[1]:
                differ[f"{number} {type(request).__name__}"] = (answers[0], answers[1])
            elif code not in answers[0] and type(request) not in ALLOWED_OTHERWISE:
                differ[f"{number} {type(request).__name__} lacks {code}"] = (answers[0], answers[1])
    assert differ == {}


def seen(node: OneNode) -> set[str]:
    """Which of all topics are listed, and what may be done with one and with the cluster."""
    told = node.ask(MetadataRequest(topics=None, include_topic_authorized_operations=True))
    asked = [MetadataRequestTopic(name=name) for name in ("t", "absent")]
    named = node.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return {
        f"all: {t.name} {t.error_code} {t.topic_authorized_operations}"
        for t in told.topics
        if not t.is_internal
    } | {f"named: {t.name} {t.error_code}" for t in named.topics}


# -- transactions and groups: APIs that ask for several things, or tell of less ------------------------------


CLUSTER_KIND, GROUP, TOPIC, TXN = (
    AclResourceType.CLUSTER,
    AclResourceType.GROUP,
    AclResourceType.TOPIC,
    AclResourceType.TRANSACTIONAL_ID,
)
MEMBER = "5mGvRkgqQVmyPbQfCsVw4A"
VERSIONS: dict[type[Message], int] = {
    AddPartitionsToTxnRequest: 3,  # what clients speak: from 4 on it is the brokers'
    OffsetCommitRequest: 9,
    OffsetFetchRequest: 9,
    TxnOffsetCommitRequest: 5,
}
"""Those that name topics, where the newest has ids."""
ADD_PARTITIONS = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="x", v3_and_below_topics=[
        AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", "other")
    ],
)  # fmt: skip
ADD_OFFSETS = AddOffsetsToTxnRequest(transactional_id="x", group_id="g")
COMMIT_IN_TXN = TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=[
    TxnOffsetCommitRequestTopic(name=name, partitions=[TxnOffsetCommitRequestPartition()])
    for name in ("t", "other")
])  # fmt: skip
COMMIT = OffsetCommitRequest(group_id="g", topics=[
    OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition()])
    for name in ("t", "other", "absent")
])  # fmt: skip
FETCH_OFFSETS = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[
    OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("t", "other", "absent")
])])  # fmt: skip
FETCH_ALL = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
HEARTBEAT = ConsumerGroupHeartbeatRequest(
    group_id="cg", member_id=MEMBER, rebalance_timeout_ms=300_000, subscribed_topic_names=["t"],
    topic_partitions=[],
)  # fmt: skip
OPEN = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
SEVERAL: list[tuple[Message, list[tuple[int, str, int]]]] = [
    (ADD_PARTITIONS, [(TXN, "x", Operation.WRITE)]),
    (ADD_PARTITIONS, [(TOPIC, "t", Operation.WRITE)]),
    (ADD_OFFSETS, [(TXN, "x", Operation.WRITE)]),
    (ADD_OFFSETS, [(GROUP, "g", Operation.READ)]),
    (EndTxnRequest(transactional_id="x", committed=True), [(TXN, "x", Operation.WRITE)]),
    (COMMIT_IN_TXN, [(TXN, "x", Operation.WRITE)]),
    (COMMIT_IN_TXN, [(GROUP, "g", Operation.READ)]),
    (COMMIT_IN_TXN, [(TOPIC, "t", Operation.READ)]),
    (DescribeTransactionsRequest(transactional_ids=["x", "y"]), [(TXN, "x", Operation.DESCRIBE)]),
    (ListTransactionsRequest(), [(TXN, "x", Operation.DESCRIBE)]),
    (ListTransactionsRequest(), []),
    (OPEN, [(TXN, "x", Operation.WRITE)]),
    (COMMIT, [(GROUP, "g", Operation.READ)]),
    (COMMIT, [(TOPIC, "t", Operation.READ)]),
    (COMMIT, [(TOPIC, "absent", Operation.READ)]),
    (FETCH_OFFSETS, [(GROUP, "g", Operation.DESCRIBE)]),
    (FETCH_OFFSETS, [(TOPIC, "t", Operation.DESCRIBE)]),
    (FETCH_ALL, [(TOPIC, "t", Operation.DESCRIBE)]),
    (HEARTBEAT, [(GROUP, "cg", Operation.READ)]),
    (HEARTBEAT, [(TOPIC, "t", Operation.DESCRIBE)]),
    (ConsumerGroupDescribeRequest(group_ids=["cg", "g"]), [(GROUP, "cg", Operation.DESCRIBE)]),
    (ConsumerGroupDescribeRequest(group_ids=["cg"]), [(TOPIC, "t", Operation.DESCRIBE)]),
    (ConsumerGroupDescribeRequest(group_ids=["cg"], include_authorized_operations=True),
     [(GROUP, "cg", Operation.DELETE)]),
    (ListGroupsRequest(), [(GROUP, "cg", Operation.DESCRIBE), (CLUSTER_KIND, CLUSTER, Operation.DESCRIBE)]),
    (WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=[
        WritableTxnMarkerTopic(name="t", partition_indexes=[0])])]),
     [(CLUSTER_KIND, CLUSTER, Operation.CLUSTER_ACTION), (CLUSTER_KIND, CLUSTER, Operation.ALTER)]),
]  # fmt: skip
"""Each with what is taken away. The last cannot be given back."""
NAMES = (
    "name", "group_id", "transactional_id", "transaction_state", "group_state", "error_code",
    "authorized_operations", "member_id", "committed_offset", "partition_index",
)  # fmt: skip


def told(message: Message) -> list[object]:
    """What a response says that another node's would say as well."""
    said: list[object] = [
        (name, getattr(message, name)) for name in NAMES if name in message.__slots__
    ]
    for field in message.FIELDS:
        if field.struct is not None and field.array:
            parts = [told(part) for part in getattr(message, field.name) or ()]
            said.append((field.name, sorted(parts, key=repr)))
    return said


def settled(node: OneNode) -> bool:
    """Whether the coordinators serve: a transaction is known, offsets and a member are there."""
    answers = [node.ask(request) for request in (OPEN, COMMIT, HEARTBEAT)]
    for request in (
        FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]) for kind in (0, 1)
    ):
        answers.append(node.ask(request))
    return set().union(*map(codes, answers)) <= {"UNKNOWN_TOPIC_OR_PARTITION"}


def test_transactions_and_groups_are_refused_as_apache_kafka_does(tmp_path: Path) -> None:
    differ: dict[str, tuple[object, object]] = {}
    with both(tmp_path) as nodes:
        for node in nodes:
            wait_until(lambda node=node: settled(node), f"coordinators of {node.bootstrap}")  # type: ignore[misc]
        for number, (request, denied) in enumerate(SEVERAL):
            answers = []
            for node in nodes:
                node.deny(denied)
                answers.append(told(node.ask(request)))
                for grant in denied if number < len(SEVERAL) - 1 else ():
                    node.unset_acl(*grant, 2)
            if answers[0] != answers[1]:
                differ[f"{number} {type(request).__name__} {denied}"] = (answers[0], answers[1])
    assert differ == {}
