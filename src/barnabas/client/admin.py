"""Administration: topics, configurations, groups, cluster, quorum.

Each method is a coroutine over `Client`. It sends requests, retries retriable errors, and returns plain
values. An error is a `KafkaError`; if the protocol has errors per item, each item has its own.

Source: Kafka's ``KafkaAdminClient``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.client import groups
from barnabas.client.client import API_TIMEOUT_MS, ATTEMPT_TIMEOUT_MS, Client, raise_for
from barnabas.client.groups import GroupDescription, GroupListing
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.types import METADATA_TOPIC, ZERO_UUID, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_groups_request import ListGroupsRequest

TOPIC, BROKER = 2, 4
"""Types of configuration resource."""
UNKNOWN_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Errors that are retriable in general, but final for a deletion: the topic does not exist."""
SET, DELETE = 0, 1
"""Incremental operations on a configuration key."""


@dataclass(slots=True)
class NewTopic:
    """A topic to create; -1 is the cluster's default. `assignments`: the brokers of each partition, by index;
    then `partitions` and `replication_factor` are not used."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(slots=True)
class TopicOutcome:
    """The result for one topic of a request."""

    name: str
    topic_id: Uuid = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    error: KafkaError | None = None

    def check(self) -> TopicOutcome:
        """Return itself. Raises its error if it has one."""
        if self.error is not None:
            raise self.error
        return self


@dataclass(slots=True)
class BrokerDescription:
    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


@dataclass(slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: list[BrokerDescription]


@dataclass(slots=True)
class QuorumReplicaState:
    """One voter or observer; timestamps are -1 where unknown."""

    node_id: int
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


@dataclass(slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplicaState]
    observers: list[QuorumReplicaState]


@dataclass(slots=True)
class ConfigEntry:
    """One key; `source` is Kafka's number (1 topic, 2 dynamic broker, 4 static broker, 5 default)."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool


def _outcome(result: Any) -> TopicOutcome:
    error = None
    if result.error_code:
        error = KafkaError(code_of(result.error_code), result.error_message or "")
    return TopicOutcome(result.name or "", getattr(result, "topic_id", ZERO_UUID), error=error)


class Admin:
    """Administration of the cluster of `client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    # -- topics ----------------------------------------------------------------------------------

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: float = API_TIMEOUT_MS,
    ) -> list[TopicOutcome]:
        """Create topics; one outcome per topic, in order. Topics with retriable errors are tried again."""
        wanted = {topic.name: topic for topic in topics}
        outcomes: dict[str, TopicOutcome] = {}

        def request() -> CreateTopicsRequest:
            return CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in wanted if name not in outcomes],
                timeout_ms=int(min(timeout_ms, 30_000)),
                validate_only=validate_only,
            )

        def take(response: Any) -> None:
            for result in response.topics:
                outcome = _outcome(result)
                outcome.partitions = result.num_partitions
                outcome.replication_factor = result.replication_factor
                if outcome.error is None or not outcome.error.retriable:
                    outcomes[outcome.name] = outcome
            _raise_retriable(response.topics)

        await self._client.ask_any(request, take, timeout_ms=timeout_ms)
        return [outcomes[name] for name in wanted]

    async def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, **configs: str
    ) -> TopicOutcome:
        """Create one topic. `configs` are keys with ``_`` in place of ``.``. Raises `KafkaError`."""
        keys = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, partitions, replication_factor, keys)
        return (await self.create_topics([topic]))[0].check()

    async def delete_topics(
        self, names: Sequence[str], *, timeout_ms: float = API_TIMEOUT_MS
    ) -> list[TopicOutcome]:
        """Delete topics; one outcome per topic, in order. Topics with retriable errors are tried again."""
        outcomes: dict[str, TopicOutcome] = {}

        def request() -> DeleteTopicsRequest:
            left = [name for name in names if name not in outcomes]
            return DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in left],
                topic_names=left,
                timeout_ms=int(min(timeout_ms, 30_000)),
            )

        def take(response: Any) -> None:
            for result in response.responses:
                outcome = _outcome(result)
                error = outcome.error
                if error is None or not error.retriable or error.code in UNKNOWN_TOPIC:
                    outcomes[outcome.name] = outcome
            _raise_retriable([t for t in response.responses if t.name not in outcomes])

        await self._client.ask_any(request, take, timeout_ms=timeout_ms)
        return [outcomes[name] for name in names]

    async def create_partitions(
        self,
        name: str,
        total: int,
        *,
        validate_only: bool = False,
        timeout_ms: float = API_TIMEOUT_MS,
    ) -> None:
        """Grow a topic to `total` partitions. Raises `KafkaError`."""

        def request() -> CreatePartitionsRequest:
            return CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
                timeout_ms=int(min(timeout_ms, 30_000)),
                validate_only=validate_only,
            )

        def take(response: Any) -> None:
            for result in response.results:
                raise_for(result.error_code, result.error_message)

        await self._client.ask_any(request, take, timeout_ms=timeout_ms)

    async def list_topics(self, *, timeout_ms: float = API_TIMEOUT_MS) -> list[TopicMetadata]:
        """All topics, sorted by name."""
        cluster = self._client.cluster
        cluster.topics.clear()
        await cluster.refresh(every=True, timeout_ms=timeout_ms)
        return [cluster.topics[name] for name in sorted(cluster.topics)]

    async def describe_topics(
        self, names: Iterable[str], *, timeout_ms: float = API_TIMEOUT_MS
    ) -> list[TopicMetadata]:
        """The current metadata of these topics. Raises `KafkaError` for one that does not exist."""
        names = list(names)
        await self._client.cluster.refresh(names, timeout_ms=timeout_ms)
        return [self._client.cluster.require(name) for name in names]

    # -- configurations --------------------------------------------------------------------------

    async def describe_configs(
        self, kind: int, name: str, *, timeout_ms: float = ATTEMPT_TIMEOUT_MS
    ) -> list[ConfigEntry]:
        """The configuration of one resource (`TOPIC` or `BROKER`; a broker's own is asked of that broker).
        Raises `KafkaError`, and `ChannelError` if that broker does not answer."""

        def request() -> DescribeConfigsRequest:
            resource = DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            return DescribeConfigsRequest(resources=[resource])

        def check(response: Any) -> None:
            for result in response.results:
                raise_for(result.error_code, result.error_message)

        if kind == BROKER and name:
            response = await self._client.ask_node(int(name), request(), timeout_ms=timeout_ms)
            check(response)
        else:
            response = await self._client.ask_any(request, check)
        return [
            ConfigEntry(c.name, c.value, c.config_source, c.read_only, c.is_sensitive)
            for result in response.results
            for c in result.configs
        ]

    async def alter_configs(self, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        """Set keys; None removes a key's setting. Raises `KafkaError`."""

        def request() -> IncrementalAlterConfigsRequest:
            configs = [
                AlterableConfig(
                    name=key, config_operation=DELETE if value is None else SET, value=value
                )
                for key, value in changes.items()
            ]
            resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            return IncrementalAlterConfigsRequest(resources=[resource])

        def check(response: Any) -> None:
            for result in response.responses:
                raise_for(result.error_code, result.error_message)

        await self._client.ask_any(request, check)

    # -- cluster ---------------------------------------------------------------------------------

    async def describe_cluster(self, *, fenced: bool = True) -> ClusterDescription:
        response = await self._client.ask_any(
            lambda: DescribeClusterRequest(include_fenced_brokers=fenced),
            lambda r: raise_for(r.error_code, r.error_message),
        )
        brokers = [
            BrokerDescription(b.broker_id, b.host, b.port, b.rack, b.is_fenced)
            for b in sorted(response.brokers, key=lambda b: b.broker_id)
        ]
        return ClusterDescription(response.cluster_id, response.controller_id, brokers)

    async def describe_quorum(self, *, timeout_ms: float = API_TIMEOUT_MS) -> QuorumDescription:
        """The metadata quorum, as its leader reports it."""

        def request() -> DescribeQuorumRequest:
            topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])
            return DescribeQuorumRequest(topics=[topic])

        def check(response: Any) -> None:
            raise_for(response.error_code, response.error_message)
            for topic in response.topics:
                for partition in topic.partitions:
                    raise_for(partition.error_code, partition.error_message)

        response = await self._client.ask_any(request, check, timeout_ms=timeout_ms)
        result = response.topics[0].partitions[0]
        return QuorumDescription(
            result.leader_id,
            result.leader_epoch,
            result.high_watermark,
            [_quorum_replica(r) for r in result.current_voters],
            [_quorum_replica(r) for r in result.observers],
        )

    # -- groups ----------------------------------------------------------------------------------

    async def list_groups(
        self, types: Sequence[str] = (), states: Sequence[str] = ()
    ) -> list[GroupListing]:
        """All groups of all brokers, sorted by id; `types` and `states` filter them. If a broker does not
        answer, the metadata are refreshed and all brokers are asked again: when the metadata no longer have a
        dead broker, its groups have other coordinators."""
        client = self._client

        async def of(node: int) -> list[GroupListing]:
            response = await client.ask_node(
                node, ListGroupsRequest(types_filter=list(types), states_filter=list(states))
            )
            raise_for(response.error_code)
            return [
                GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type)
                for g in response.groups
            ]

        async def attempt() -> list[list[GroupListing]]:
            await client.cluster.refresh()
            return await client.tasks.gather([of(node) for node in sorted(client.cluster.brokers)])

        found = await client.retry(attempt)
        return sorted((group for groups in found for group in groups), key=lambda g: g.group_id)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Describe a classic or consumer group. Raises `KafkaError`: GROUP_ID_NOT_FOUND for a group that does
        not exist; older brokers describe it in state Dead."""
        return await groups.describe(self._client, group_id)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in sorted(topic.assignments.items())
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
    )


def _quorum_replica(result: Any) -> QuorumReplicaState:
    return QuorumReplicaState(
        result.replica_id,
        result.log_end_offset,
        result.last_fetch_timestamp,
        result.last_caught_up_timestamp,
    )


def _raise_retriable(results: Iterable[Any]) -> None:
    """Raise the first retriable error, so that `Client.retry` sends a request for the remaining topics."""
    for result in results:
        error = KafkaError(code_of(result.error_code), result.error_message or "")
        if result.error_code and error.retriable:
            raise error
