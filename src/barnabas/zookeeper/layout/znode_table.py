"""Which kind of znode a path is: `decode_znode` gives its typed value.

Every value has `path` and `encode()`, which gives the bytes that Kafka 3.9 writes. Folders have no data
and no value of their own; ACLs are not data.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from barnabas.zookeeper.layout.acl_znodes import AclChangeZnode, AclZnode
from barnabas.zookeeper.layout.broker_znodes import BrokerZnode
from barnabas.zookeeper.layout.cluster_state_znodes import (
    ClusterIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    MigrationZnode,
    ProducerIdBlockZnode,
)
from barnabas.zookeeper.layout.config_znodes import ConfigChangeZnode, ConfigZnode
from barnabas.zookeeper.layout.request_znodes import (
    DeleteTopicZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    PreferredElectionZnode,
    ReassignPartitionsZnode,
)
from barnabas.zookeeper.layout.token_znodes import DelegationTokenZnode, TokenChangeZnode
from barnabas.zookeeper.layout.topic_znodes import PartitionStateZnode, TopicZnode

PERSISTENT_PATHS = (
    "/consumers", "/brokers/ids", "/brokers/topics", "/config/changes", "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification", "/latest_producer_id_block", "/log_dir_event_notification",
    "/config/topics", "/config/clients", "/config/users", "/config/brokers", "/config/ips",
)  # fmt: skip
"""The znodes that every broker makes at its start (``ZkData.PersistentZkPaths``)."""


class ZnodeValue(Protocol):
    """The content of a znode."""

    @property
    def path(self) -> str: ...

    def encode(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class FolderZnode:
    """A znode of no kind that has a value: a folder, or one that Kafka does not know. Its data is kept."""

    path: str
    data: bytes = b""

    def encode(self) -> bytes:
        return self.data

    @classmethod
    def decode(cls, path: str, data: bytes) -> FolderZnode:
        return cls(path, data)


_Decode = Callable[[str, bytes], ZnodeValue]
_KINDS: tuple[tuple[re.Pattern[str], _Decode], ...] = tuple(
    (re.compile(pattern), decode)
    for pattern, decode in (
        ("/controller", ControllerZnode.decode),
        ("/controller_epoch", ControllerEpochZnode.decode),
        ("/cluster/id", ClusterIdZnode.decode),
        ("/feature", FeatureZnode.decode),
        ("/latest_producer_id_block", ProducerIdBlockZnode.decode),
        ("/migration", MigrationZnode.decode),
        ("/brokers/ids/[^/]+", BrokerZnode.decode),
        ("/brokers/topics/[^/]+", TopicZnode.decode),
        ("/brokers/topics/[^/]+/partitions/[0-9]+/state", PartitionStateZnode.decode),
        ("/config/changes/config_change_[0-9]+", ConfigChangeZnode.decode),
        ("/config/(topics|brokers|clients|users|ips)/[^/]+", ConfigZnode.decode),
        ("/config/users/[^/]+/clients/[^/]+", ConfigZnode.decode),
        ("/admin/delete_topics/[^/]+", DeleteTopicZnode.decode),
        ("/admin/reassign_partitions", ReassignPartitionsZnode.decode),
        ("/admin/preferred_replica_election", PreferredElectionZnode.decode),
        ("/isr_change_notification/isr_change_[0-9]+", IsrChangeZnode.decode),
        ("/log_dir_event_notification/log_dir_event_[0-9]+", LogDirEventZnode.decode),
        ("/kafka-acl/[^/]+/[^/]+", AclZnode.decode),
        ("/kafka-acl-extended/prefixed/[^/]+/[^/]+", AclZnode.decode),
        ("/kafka-acl(-extended)?-changes/acl_changes_[0-9]+", AclChangeZnode.decode),
        ("/delegation_token/tokens/[^/]+", DelegationTokenZnode.decode),
        ("/delegation_token/token_changes/token_change_[0-9]+", TokenChangeZnode.decode),
    )
)


def decode_znode(path: str, data: bytes) -> ZnodeValue:
    """The value of the znode at `path`. Raises `MalformedZnode`.

    A znode that Kafka makes empty and fills later (`/latest_producer_id_block`) is a folder until then, and
    so is a user's znode above its `clients`.
    """
    for pattern, decode in _KINDS:
        if pattern.fullmatch(path):
            if data or decode == DeleteTopicZnode.decode:
                return decode(path, data)
            break
    return FolderZnode(path, data)
