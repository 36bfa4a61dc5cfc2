"""Znodes in the bytes of Kafka 3.9, and metadata records in znodes and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.types import Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.acl_znodes import AclPattern, AclRule, acl_id
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.quota_texts import double_text
from barnabas.zookeeper.layout.znode_table import PERSISTENT_PATHS, decode_znode
from barnabas.zookeeper.operations import Create, Multi, NodeData, Operation
from barnabas.zookeeper.znode_tree import ZnodeTree, parent_of
from tests.effort import examples

DOCUMENTS = {
    "/brokers/ids/1": b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://localhost:9092"],"jmx_port":-1,"port":9092,"host":"localhost",'
    b'"version":5,"timestamp":"1714000000000"}',
    "/brokers/topics/t/partitions/0/state": b'{"controller_epoch":1,"leader":0,"version":1,'
    b'"leader_epoch":0,"isr":[0]}',
    "/controller": b'{"version":2,"brokerid":1,"timestamp":"1714000000000","kraftControllerEpoch":-1}',
    "/controller_epoch": b"7",
    "/cluster/id": b'{"version":"1","id":"J7s9e8PPTKOO47PxzI39VA"}',
    "/latest_producer_id_block": b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}',
    "/config/topics/t": b'{"version":1,"config":{"retention.ms":"1"}}',
    "/config/changes/config_change_0000000001": b'{"version":2,"entity_path":"topics/t"}',
    "/isr_change_notification/isr_change_0000000000": b'{"version":1,"partitions":['
    b'{"topic":"t","partition":0}]}',
    "/log_dir_event_notification/log_dir_event_0000000000": b'{"version":1,"broker":1,"event":1}',
    "/admin/reassign_partitions": b'{"version":1,"partitions":[{"topic":"t","partition":0,'
    b'"replicas":[1,2]}]}',
    "/admin/preferred_replica_election": b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    "/admin/delete_topics/t": b"",
    "/kafka-acl-changes/acl_changes_0000000000": b"TOPIC:t",
    "/delegation_token/token_changes/token_change_0000000000": b"abc",
    "/unknown/to/kafka": b"anything",
}


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_znode_is_written_as_it_was_read(path: str) -> None:
    value = decode_znode(path, DOCUMENTS[path])
    assert value.encode() == DOCUMENTS[path]
    assert value.path == path


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/ids/1", b"{"),
        ("/brokers/ids/x", b'{"version":5,"jmx_port":1,"endpoints":[],"timestamp":"1"}'),
        ("/brokers/ids/1", b'{"version":5,"jmx_port":1,"endpoints":["x"],"timestamp":"1"}'),
        ("/brokers/topics/t", b'{"version":3,"partitions":{"0":["a"]}}'),
        ("/brokers/topics/t", b'{"version":9,"partitions":{}}'),
        ("/brokers/topics/t", b'{"version":3,"partitions":{},"topic_id":"short"}'),
        ("/brokers/topics/t/partitions/0/state", b"[]"),
        ("/brokers/topics/t/partitions/0/state", b'{"leader":true}'),
        ("/controller_epoch", b"x"),
        ("/config/users/a", b'{"version":1,"config":{"k":1}}'),
        ("/kafka-acl/Topic/t", b'{"version":1,"acls":[{"principal":"User:a"}]}'),
        ("/kafka-acl/Nothing/t", b'{"version":1,"acls":[]}'),
        ("/kafka-acl-changes/acl_changes_0000000000", b"\xff"),
        ("/feature", b'{"version":2,"status":7,"features":{}}'),
    ],
)
def test_malformed_data_is_an_error_that_names_the_znode(path: str, data: bytes) -> None:
    with pytest.raises(MalformedZnode, match=path) as raised:
        decode_znode(path, data)
    assert raised.value.path == path


def test_numbers_are_written_as_java_writes_them() -> None:
    shown = [double_text(value) for value in (1.0, 0.5, 123456.25, 1e7, 12345678.5, 1e-4, 1.5e300)]
    assert shown == ["1.0", "0.5", "123456.25", "1.0E7", "1.23456785E7", "1.0E-4", "1.5E300"]


def written(operations: list[Operation]) -> dict[str, NodeData]:
    """The tree of a ZooKeeper in which one transaction has done `operations`."""
    tree = ZnodeTree()
    zxid = 0
    for path in sorted(PERSISTENT_PATHS):
        missing = []
        while path != "/" and tree.find(path) is None:
            missing.append(path)
            path = parent_of(path)
        for one in reversed(missing):
            zxid += 1
            tree.apply(Create(one), 0, zxid, 0)
    result = tree.apply(Multi(tuple(operations)), 0, zxid + 1, 0).result
    assert isinstance(result, tuple), result
    znodes: dict[str, NodeData] = {}
    pending = ["/"]
    while pending:
        path = pending.pop()
        if path != "/":
            znodes[path] = tree.get(path)
        pending += [f"{path.rstrip('/')}/{name}" for name in tree.children(path).names]
    return znodes


def persistent() -> ClusterLayout:
    znodes = ClusterLayout(controller_epoch=3)
    znodes.load(written([]))
    return znodes


NAMES = st.text("abcXYZ019._-", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))
USERS = st.text("ab/@: ü%*+~", min_size=1, max_size=6)
IDS = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def clusters(draw: st.DrawFn) -> list[Message]:
    """Records of a cluster, in the order in which `ClusterLayout.records` gives them."""
    records: list[Message] = []
    topics = sorted(draw(st.sets(NAMES, max_size=3)))
    for topic in topics:
        topic_id = Uuid((f"{topic}/".encode() * 16)[:16])
        records.append(TopicRecord(name=topic, topic_id=topic_id))
        for partition in range(draw(st.integers(1, 14))):
            replicas = draw(IDS)
            records.append(
                PartitionRecord(
                    partition_id=partition,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas[:2],
                    adding_replicas=replicas[1:2] if draw(st.booleans()) else (),
                    leader=draw(st.sampled_from([-1, replicas[0]])),
                    leader_epoch=draw(st.integers(0, 5)),
                    partition_epoch=0,
                    leader_recovery_state=draw(st.integers(0, 1)),
                )
            )
    configs = st.dictionaries(NAMES, st.text(max_size=5), min_size=1, max_size=15)
    for name in ["", *(["1"] if draw(st.booleans()) else [])]:
        records += _configs(4, name, draw(configs))
    quotas = st.dictionaries(
        st.sampled_from(["producer_byte_rate", "request_percentage"]),
        st.integers(1, 10**9).map(float),
        min_size=1,
    )
    users = sorted(draw(st.sets(USERS, max_size=2)))
    for user in users:
        entity = (EntityData(entity_type="user", entity_name=user),)
        records += [
            ClientQuotaRecord(entity=entity, key=k, value=v) for k, v in draw(quotas).items()
        ]
        records.append(
            UserScramCredentialRecord(
                name=user, mechanism=1, salt=b"s", stored_key=b"k", server_key=b"e", iterations=4096
            )
        )
    if topics:
        records += _configs(2, topics[0], draw(configs))
        pattern = AclPattern(2, topics[0], draw(st.sampled_from([3, 4])))
        rule = AclRule("User:a", "*", 3, 3)
        records.append(
            AccessControlEntryRecord(
                id=acl_id(pattern, rule),
                resource_type=2,
                resource_name=topics[0],
                pattern_type=pattern.pattern_type,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
        )
    records.append(ProducerIdsRecord(broker_id=1, next_producer_id=draw(st.integers(1, 9)) * 1000))
    records.append(
        DelegationTokenRecord(
            owner="User:ä b", requester="User:c", renewers=("User:d",), issue_timestamp=1,
            max_timestamp=2, expiration_timestamp=3, token_id="id",
        )
    )  # fmt: skip
    return records


def _configs(kind: int, name: str, config: dict[str, str]) -> list[Message]:
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in config.items()
    ]


def as_set(records: object) -> list[str]:
    return sorted(map(repr, records))  # type: ignore[call-overload]


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(clusters())
def test_records_survive_the_way_through_znodes(records: list[Message]) -> None:
    znodes = written(persistent().apply(records))
    back = ClusterLayout()
    back.load(znodes)
    assert as_set(back.records()) == as_set(records)
    for path, (data, _) in znodes.items():
        assert decode_znode(path, data).encode() == data
    again = ClusterLayout(controller_epoch=3)
    again.load(written([]))
    rewritten = written(again.apply(back.records()))
    documents = {path: one.data for path, one in znodes.items() if "hange" not in path}
    assert {path: one.data for path, one in rewritten.items() if "hange" not in path} == documents


def test_a_deleted_topic_leaves_no_znode_behind() -> None:
    topic_id = Uuid(b"\x01" * 16)
    znodes = persistent()
    records: list[Message] = [
        TopicRecord(name="t", topic_id=topic_id),
        PartitionRecord(partition_id=0, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1),
    ]
    made = znodes.apply(records)
    gone = znodes.apply([RemoveTopicRecord(topic_id=topic_id)])
    assert set(written([*made, *gone])) == set(written([]))


def test_a_partition_change_writes_the_state_alone() -> None:
    topic_id = Uuid(b"\x01" * 16)
    znodes = persistent()
    state = PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=4,
        partition_epoch=0,
    )  # fmt: skip
    znodes.apply([TopicRecord(name="t", topic_id=topic_id), state])
    [operation] = znodes.apply(
        [PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(2,), leader=2)]
    )
    assert operation.path == "/brokers/topics/t/partitions/0/state"
    assert b'"leader":2' in getattr(operation, "data", b"")
    assert b'"leader_epoch":5,"isr":[2]' in getattr(operation, "data", b"")
