"""A cluster that speaks Kafka's protocol, for a pipeline: blocking calls that are retried.

Owns the connections and the known leaders. An error that a new leader, a restarted node or time can
cure is retried for `patience_ms`. Every other one is raised at once, as :class:`KafkaError` or a
:class:`PipelineError`.

One object per process and bootstrap (``ClusterClient.shared``): Spark keeps Python workers, so
connections serve many tasks. Not for use by several threads. Works against any broker that
speaks Kafka's protocol.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from barnabas.client.network.connection import SOFTWARE_NAME, SOFTWARE_VERSION, ChannelError
from barnabas.pipeline.broker_connection import BlockingConnection, now_ms
from barnabas.pipeline.errors import ClusterUnreachableError, UnknownPartitionError
from barnabas.pipeline.offsets import READ_UNCOMMITTED
from barnabas.types import ZERO_UUID, Endpoint, TopicPartition, Uuid
from barnabas.wire.errors import RETRIABLE, ErrorCode, KafkaError, code_of
from barnabas.wire.messages import (
    init_producer_id_request,
    init_producer_id_response,
    list_offsets_request,
    list_offsets_response,
    metadata_request,
    metadata_response,
)
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.security.client_security import ClientSecurity

M = TypeVar("M", bound=Message)
T = TypeVar("T")

BACKOFF_MS_MIN = 20.0
BACKOFF_MS_MAX = 500.0
CREATION_MS = 15_000.0
CONNECT_MS_MAX = 10_000.0
TRY_MS_MIN = 1_000.0
"""The least time of a request, however little is left of a patience."""
SETTLED_MS = 3_000.0
"""How long a request is repeated whose answer says that records are gone. The broker's log may lag, or it
may not know yet that it is no longer the leader."""

TRANSIENT = RETRIABLE - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CORRUPT_MESSAGE}
"""Errors that a new leader or a little time cures. An unknown topic is an answer, no such error."""


class PartitionLeader(NamedTuple):
    """The leader of a partition in the last metadata."""

    endpoint: Endpoint
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """One topic in the last metadata; `leaders` lacks partitions without a leader."""

    name: str
    topic_id: Uuid
    partitions: tuple[int, ...]
    leaders: Mapping[int, PartitionLeader]
    is_internal: bool = False
    """Kafka's own, such as ``__consumer_offsets``: no pattern matches it."""


class OffsetAt(NamedTuple):
    """Answer to "which offset is at this time": -1 where there is none at or after it."""

    offset: int
    timestamp_ms: int


@dataclass(slots=True)
class Patience:
    """How long to keep trying, and how long to wait before the next try."""

    limit_ms: float
    began_ms: float = field(default_factory=now_ms)
    backoff_ms: float = BACKOFF_MS_MIN
    last_error: str = "no answer"

    @property
    def left_ms(self) -> float:
        return self.limit_ms - (now_ms() - self.began_ms)

    def share_ms(self, tries: int, most_ms: float) -> float:
        """The time-out of the next of so many tries, which are to be over within what is left: a broker that
        does not answer is not to take the others' time."""
        return min(most_ms, max(self.left_ms / tries, TRY_MS_MIN))

    def wait(self, error: object) -> None:
        """Back off. Raises `ClusterUnreachableError` when the time is over."""
        self.last_error = str(error)
        left_ms = self.left_ms
        if left_ms <= 0:
            raise ClusterUnreachableError(
                f"gave up after {self.limit_ms / 1000:.0f} s: {self.last_error}"
            )
        time.sleep(min(self.backoff_ms, left_ms) / 1000)
        self.backoff_ms = min(self.backoff_ms * 2, BACKOFF_MS_MAX)

    def renew(self) -> None:
        """The operation made progress: restart its time limit and its backoff."""
        self.began_ms, self.backoff_ms = now_ms(), BACKOFF_MS_MIN


class ClusterClient:
    """The cluster behind `bootstrap`."""

    _shared: ClassVar[
        dict[tuple[tuple[Endpoint, ...], str, ClientSecurity | None], ClusterClient]
    ] = {}

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        client_id: str = "barnabas-pipeline",
        *,
        request_timeout_ms: float = 30_000.0,
        patience_ms: float = 60_000.0,
        security: ClientSecurity | None = None,
    ) -> None:
        self.security = security
        self.bootstrap = tuple(bootstrap)
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self.patience_ms = patience_ms
        self._brokers: dict[int, Endpoint] = {}
        self._connections: dict[Endpoint, BlockingConnection] = {}
        self._topics: dict[str, TopicPartitions] = {}
        self._turn = 0

    @classmethod
    def shared(
        cls,
        bootstrap: Sequence[Endpoint],
        client_id: str = "barnabas-pipeline",
        *,
        request_timeout_ms: float = 30_000.0,
        patience_ms: float = 60_000.0,
        security: ClientSecurity | None = None,
    ) -> ClusterClient:
        """This process's one object for `bootstrap`; its time-outs become those given."""
        key = (tuple(bootstrap), client_id, security)
        cluster = cls._shared.get(key)
        if cluster is None:
            cluster = cls._shared[key] = cls(bootstrap, client_id, security=security)
        cluster.request_timeout_ms = request_timeout_ms
        cluster.patience_ms = patience_ms
        return cluster

    def __repr__(self) -> str:
        where = ",".join(map(str, self.bootstrap))
        return f"ClusterClient({where} brokers={sorted(self._brokers)})"

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- connections -----------------------------------------------------------------------------

    def connection(
        self, endpoint: Endpoint, *, timeout_ms: float | None = None
    ) -> BlockingConnection:
        """The open connection to `endpoint`, which is opened within `timeout_ms`. Raises `ChannelError`."""
        found = self._connections.get(endpoint)
        if found is None or found.is_over:
            timeout_ms = min(timeout_ms or self.request_timeout_ms, CONNECT_MS_MAX)
            found = BlockingConnection(
                endpoint, self.client_id, timeout_ms=timeout_ms, security=self.security
            )
            self._connections[endpoint] = found
        return found

    def call_any(
        self,
        request: Message,
        response: type[M],
        *,
        at_most: int | None = None,
        patience: Patience | None = None,
    ) -> M:
        """Ask any broker, trying one after the other, in no version above `at_most`, as long as `patience`
        has it."""
        patience = patience or Patience(self.patience_ms)
        while True:
            known = [self._brokers[broker] for broker in sorted(self._brokers)]
            candidates = list(dict.fromkeys([*known, *self.bootstrap]))
            error: ChannelError | None = None
            for step in range(len(candidates)):
                endpoint = candidates[(self._turn + step) % len(candidates)]
                left = len(candidates) - step
                timeout_ms = patience.share_ms(left, self.request_timeout_ms)
                try:
                    answer = self.connection(endpoint, timeout_ms=timeout_ms).call(
                        request, response, timeout_ms=timeout_ms, at_most=at_most
                    )
                except ChannelError as failure:
                    if failure.kind in ("unsupported", "authentication"):
                        raise
                    error = failure
                    continue
                self._turn = (self._turn + step) % len(candidates)
                return answer
            where = ",".join(map(str, self.bootstrap))
            patience.wait(f"no broker of {where} answers ({error})")

    def serves(self, api_key: int) -> bool:
        """Whether brokers serve an API, as one of them says. Raises `KafkaError`."""
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        answer = self.call_any(request, ApiVersionsResponse)
        if answer.error_code != ErrorCode.NONE:
            raise KafkaError(code_of(answer.error_code), "the APIs of a broker")
        return any(served.api_key == api_key for served in answer.api_keys)

    # -- metadata --------------------------------------------------------------------------------

    def topics(
        self,
        names: Iterable[str] | None = None,
        *,
        create: bool = False,
        patience: Patience | None = None,
    ) -> dict[str, TopicPartitions]:
        """Topics as they are now; None means all. Unknown names are left out of the answer.

        `create` lets brokers create them that are configured to.
        """
        wanted = None if names is None else sorted(set(names))
        request = metadata_request.MetadataRequest(
            topics=None
            if wanted is None
            else [
                metadata_request.MetadataRequestTopic(topic_id=ZERO_UUID, name=name)
                for name in wanted
            ],
            allow_auto_topic_creation=create,
        )
        response = self.call_any(request, metadata_response.MetadataResponse, patience=patience)
        brokers = {
            broker.node_id: Endpoint(broker.host, broker.port) for broker in response.brokers
        }
        if brokers:
            self._brokers = brokers
        found: dict[str, TopicPartitions] = {}
        for topic in response.topics:
            assert topic.name is not None
            if topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                if topic.partitions:
                    found[topic.name] = self._topic_of(topic, brokers)
            elif topic.error_code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *TRANSIENT):
                raise KafkaError(code_of(topic.error_code), f"topic {topic.name!r}")
        self._topics.update(found)
        for name in wanted or ():
            if name not in found:
                self._topics.pop(name, None)
        return found

    @staticmethod
    def _topic_of(
        topic: metadata_response.MetadataResponseTopic, brokers: Mapping[int, Endpoint]
    ) -> TopicPartitions:
        leaders = {
            partition.partition_index: PartitionLeader(
                brokers[partition.leader_id], partition.leader_epoch
            )
            for partition in topic.partitions
            if partition.leader_id in brokers
        }
        indexes = tuple(sorted(partition.partition_index for partition in topic.partitions))
        return TopicPartitions(
            topic.name or "", topic.topic_id, indexes, leaders, topic.is_internal
        )

    def topic(self, name: str, *, create: bool = False) -> TopicPartitions | None:
        """One topic, from the cache if it is there."""
        return self._topics.get(name) or self.topics([name], create=create).get(name)

    def partition_count(self, name: str) -> int:
        """How many partitions a topic to write to has now; brokers may create it, which takes them a
        moment. Raises `ClusterUnreachableError` if it is not created."""
        patience = Patience(min(self.patience_ms, CREATION_MS))
        while True:
            found = self.topics([name], create=True).get(name)
            if found is not None:
                return len(found.partitions)
            patience.wait(f"topic {name!r} does not exist and is not created")

    def leader(self, partition: TopicPartition) -> PartitionLeader | None:
        """Who leads `partition` as far as this object knows; asks where it does not know."""
        topic = self.topic(partition.topic)
        return None if topic is None else topic.leaders.get(partition.partition)

    def broker(self, node_id: int) -> Endpoint | None:
        """The address of a broker, by the last metadata."""
        return self._brokers.get(node_id)

    def brokers(self) -> list[Endpoint]:
        """The endpoints of all brokers of the last metadata."""
        return [self._brokers[broker] for broker in sorted(self._brokers)]

    def ask_another(self) -> None:
        """Send the next `call_any` to another broker than the last."""
        self._turn += 1

    def forget(self, topic: str) -> None:
        """Drop `topic` from the cache: its metadata has proved wrong."""
        self._topics.pop(topic, None)

    # -- offsets ---------------------------------------------------------------------------------

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAt]:
        """Offset by partition at a timestamp in ms, `EARLIEST` or `LATEST`.

        Partitions that do not exist are left out of the answer.
        """
        found: dict[TopicPartition, OffsetAt] = {}
        left = dict(at)
        patience = Patience(self.patience_ms)
        # Some brokers' metadata lag behind a topic's deletion: only a second "unknown" is believed.
        unknown: dict[TopicPartition, int] = {}
        while left:
            error: object = "some partitions have no leader"
            by_leader = self._by_leader(left, unknown, patience)
            for step, (endpoint, partitions) in enumerate(by_leader.items()):
                timeout_ms = patience.share_ms(len(by_leader) - step, self.request_timeout_ms)
                try:
                    error = self._ask_offsets(
                        endpoint, partitions, isolation, found, unknown, timeout_ms
                    )
                except ChannelError as failure:
                    if failure.kind == "unsupported":
                        raise
                    error = failure
            gone = {partition for partition, times in unknown.items() if times > 1}
            left = {
                partition: when
                for partition, when in left.items()
                if partition not in found and partition not in gone
            }
            for partition in left:
                self.forget(partition.topic)
            if left:
                patience.wait(f"offsets of {next(iter(left))}: {error}")
        return found

    def _by_leader(
        self,
        wanted: Mapping[TopicPartition, int],
        unknown: dict[TopicPartition, int],
        patience: Patience,
    ) -> dict[Endpoint, dict[TopicPartition, int]]:
        missing = sorted({partition.topic for partition in wanted} - self._topics.keys())
        if missing:
            self.topics(missing, patience=patience)
        groups: dict[Endpoint, dict[TopicPartition, int]] = {}
        for partition, when in wanted.items():
            topic = self._topics.get(partition.topic)
            if topic is None or partition.partition not in topic.partitions:
                unknown[partition] = unknown.get(partition, 0) + 1
            elif partition.partition in topic.leaders:
                groups.setdefault(topic.leaders[partition.partition].endpoint, {})[partition] = when
        return groups

    def _ask_offsets(
        self,
        endpoint: Endpoint,
        partitions: Mapping[TopicPartition, int],
        isolation: int,
        found: dict[TopicPartition, OffsetAt],
        unknown: dict[TopicPartition, int],
        timeout_ms: float,
    ) -> str:
        by_topic: dict[str, list[list_offsets_request.ListOffsetsPartition]] = {}
        for partition, when in partitions.items():
            by_topic.setdefault(partition.topic, []).append(
                list_offsets_request.ListOffsetsPartition(
                    partition_index=partition.partition, current_leader_epoch=-1, timestamp=when
                )
            )
        request = list_offsets_request.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[
                list_offsets_request.ListOffsetsTopic(name=name, partitions=indexes)
                for name, indexes in by_topic.items()
            ],
            timeout_ms=int(timeout_ms),
        )
        response = self.connection(endpoint, timeout_ms=timeout_ms).call(
            request, list_offsets_response.ListOffsetsResponse, timeout_ms=timeout_ms
        )
        transient = ""
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(topic.name, answer.partition_index)
                code = code_of(answer.error_code)
                if code == ErrorCode.NONE:
                    found[partition] = OffsetAt(answer.offset, answer.timestamp)
                elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    unknown[partition] = unknown.get(partition, 0) + 1
                elif code in TRANSIENT:
                    transient = code.name
                else:
                    raise KafkaError(code, f"offsets of {partition}")
        return transient

    # -- producers -------------------------------------------------------------------------------

    def init_producer_id(self) -> tuple[int, int]:
        """A fresh (producer id, producer epoch) for idempotent writes."""
        request = init_producer_id_request.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=0
        )

        def ask() -> tuple[int, int]:
            response = self.call_any(request, init_producer_id_response.InitProducerIdResponse)
            if response.error_code != ErrorCode.NONE:
                raise KafkaError(code_of(response.error_code), "no producer id")
            return response.producer_id, response.producer_epoch

        return self.retrying(ask)

    def retrying(self, action: Callable[[], T]) -> T:
        """Do `action`, again while it raises a transient `KafkaError`."""
        patience = Patience(self.patience_ms)
        while True:
            try:
                return action()
            except KafkaError as error:
                if error.code not in TRANSIENT:
                    raise
                patience.wait(error)


def offsets_of_all(
    cluster: ClusterClient,
    at: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    patience_ms: float,
) -> dict[TopicPartition, int]:
    """The offsets of `ClusterClient.list_offsets` for every partition that is asked for: a broker that
    does not know one yet is asked again. Raises `UnknownPartitionError`."""
    patience = Patience(patience_ms)
    while True:
        found = cluster.list_offsets(at, isolation=isolation)
        missing = sorted(at.keys() - found.keys())
        if not missing:
            return {partition: known.offset for partition, known in found.items()}
        try:
            patience.wait(f"{missing[0]} does not exist")
        except ClusterUnreachableError as error:
            raise UnknownPartitionError(f"{missing[0]} does not exist") from error
