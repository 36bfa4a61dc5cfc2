"""A cluster that speaks Kafka's protocol, for a pipeline: blocking calls that are retried.

Owns one :class:`barnabas.client.client.Client`, which has the connections, the metadata and the
coordinators, and runs its loop while a caller waits. An error that a new leader, a restarted node or time can
cure is retried for `patience_ms`; then it is a :class:`ClusterUnreachableError`. Every other one is raised at
once, as :class:`KafkaError`, `ChannelError` or a :class:`PipelineError`.

One object per process and bootstrap (``ClusterClient.shared``): Spark keeps Python workers, so
connections serve many tasks. Several threads ask at a time, of which one runs the loop. A process that is
forked opens connections of its own. Works against any broker that speaks Kafka's protocol.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from barnabas.client.client import Client, may_pass, raise_worst
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.network.connection import SOFTWARE_NAME, SOFTWARE_VERSION, ChannelError
from barnabas.client.network.tasks import Cancelled, Task, TaskOutcome
from barnabas.client.offsets import OffsetAndTimestamp, existing_offsets
from barnabas.client.producers.identity import new_identity
from barnabas.host.programs.blocking_ports import BlockingPorts, SharedLoop
from barnabas.pipeline.errors import (
    ClusterUnreachableError,
    OptionError,
    UnknownPartitionError,
)
from barnabas.pipeline.offsets import READ_COMMITTED, READ_UNCOMMITTED
from barnabas.pipeline.patience import Patience, gave_up
from barnabas.types import ZERO_UUID, Endpoint, TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import RETRIABLE, ErrorCode, KafkaError, code_of
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.metadata_response import MetadataResponse
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.security.client_security import ClientSecurity

M = TypeVar("M", bound=Message)
T = TypeVar("T")

NEWEST: dict[int, int] = {ApiKey.INIT_PRODUCER_ID: 6}
"""Versions that Kafka calls unstable and that are spoken here: that of two-phase commit (KIP-939)."""
IDLE_MS = 1_000.0
"""The time without a turn of the loop after which requests in flight get it added to theirs."""
CREATION_MS = 15_000.0
SETTLED_MS = 3_000.0
"""How long a request is repeated whose answer says that records are gone. The broker's log may lag, or it
may not know yet that it is no longer the leader."""

TRANSIENT = RETRIABLE - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CORRUPT_MESSAGE}
"""Errors that a new leader or a little time cures. An unknown topic is an answer, no such error."""


class PartitionLeader(NamedTuple):
    """The leader of a partition in the last metadata."""

    endpoint: Endpoint
    epoch: int


class OpenClient(NamedTuple):
    """A client, and the loop that its threads share."""

    client: Client
    loop: SharedLoop


class AnswerAhead(TaskOutcome[Any]):
    """The answer to a request, and the loop that brings it."""

    __slots__ = ("loop",)

    def __init__(self, loop: SharedLoop) -> None:
        super().__init__()
        self.loop = loop


class ClusterClient:
    """The cluster behind `bootstrap`."""

    _shared: ClassVar[dict[tuple[object, ...], ClusterClient]] = {}
    _sharing: ClassVar[Lock] = Lock()

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
        self._opening = Lock()
        self._open_client: OpenClient | None = None

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
        """This process's one object for `bootstrap` with these time-outs."""
        key = (tuple(bootstrap), client_id, request_timeout_ms, patience_ms, security)
        with cls._sharing:
            if key not in cls._shared:
                cls._shared[key] = cls(
                    bootstrap,
                    client_id,
                    request_timeout_ms=request_timeout_ms,
                    patience_ms=patience_ms,
                    security=security,
                )
            return cls._shared[key]

    @classmethod
    def forget_parent(cls) -> None:
        """After a fork: the parent keeps its objects, and a thread of it may have held the lock."""
        cls._shared.clear()
        cls._sharing = Lock()

    def __repr__(self) -> str:
        return f"ClusterClient({self._where()})"

    def _where(self) -> str:
        return ",".join(map(str, self.bootstrap))

    # -- the client and its loop -----------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The client, from its first use until `close`. Raises `OptionError` where its certificates cannot be
        read: no try cures that. Only what is read may be used directly: `run` and `submit` do the rest."""
        return self._connect().client

    def _connect(self) -> OpenClient:
        known = self._open_client
        if known is not None and not known.loop.is_inherited:
            return known
        if (
            known is not None
        ):  # the connections are the parent's, and one of its threads may hold the lock
            self._opening, self._open_client = Lock(), None
        with self._opening:
            if self._open_client is None:
                self._open_client = self._open()
            return self._open_client

    def _open(self) -> OpenClient:
        from barnabas.security.client_security import OPEN

        security = self.security or OPEN
        ports = BlockingPorts()
        try:
            if security.tls is not None:
                ports.secrets.check_tls(security.tls, is_server=False)
        except (OSError, ValueError) as error:
            ports.close()
            raise OptionError(f"on host {socket.gethostname()}: kafka.{error}") from error
        client = Client(
            ports,
            self.bootstrap,
            self.client_id,
            newest=NEWEST,
            security=security,
            by_purpose=False,
        )

        def on_idle(idle_ms: float) -> None:
            # Answers that came while the program did something else are read, not given up.
            if idle_ms > IDLE_MS:
                client.channels.postpone(idle_ms)

        return OpenClient(client, SharedLoop(ports.loop, on_idle))

    def close(self) -> None:
        """End all connections, and forget the metadata. The next use opens them again."""
        with self._opening:
            known, self._open_client = self._open_client, None
        if known is not None and not known.loop.is_inherited:
            known.loop.close(known.client.close)

    def run(self, begin: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of the client to its end. Returns its value or raises its exception."""
        client, loop = self._connect()
        ended: TaskOutcome[T] = TaskOutcome()
        tasks: list[Task[T]] = []
        loop.post(lambda: tasks.append(client.tasks.start(begin(client), ended.take_over)))
        try:
            return loop.wait_for(ended)
        except Cancelled as error:
            raise ChannelError("closed", "this client was closed") from error
        finally:
            if not ended.done:  # an interrupted wait: nothing of it continues with the next one
                loop.post(lambda: tasks[0].cancel())  # noqa: PLW0108 - it may not have begun

    def submit(
        self,
        endpoint: Endpoint,
        request: Message,
        *,
        timeout_ms: float,
        at_most: int | None = None,
    ) -> AnswerAhead:
        """Send `request`, in the highest version both sides speak that is not above `at_most`; `wait`
        gives its answer. What is not sent yet when this returns leaves while something is waited for."""
        client, loop = self._connect()
        asked = AnswerAhead(loop)

        def send() -> None:
            client.channels.send(
                endpoint, request, asked.complete, timeout_ms=timeout_ms, at_most=at_most
            )

        loop.post(send)
        return asked

    def wait(self, asked: AnswerAhead) -> Any:
        """The response to a submitted request. Raises `ChannelError`."""
        return asked.loop.wait_for(asked)

    def call(
        self,
        endpoint: Endpoint,
        request: Message,
        response: type[M],
        *,
        timeout_ms: float | None = None,
        at_most: int | None = None,
    ) -> M:
        """Ask one broker and wait. Raises `ChannelError`."""
        timeout_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        result = self.wait(self.submit(endpoint, request, timeout_ms=timeout_ms, at_most=at_most))
        assert isinstance(result, response)
        return result

    def patiently(
        self,
        limit_ms: float,
        what: str,
        begin: Callable[[Client], Coroutine[Any, Any, T]],
    ) -> T:
        """Run a coroutine that retries for `limit_ms` by itself. Where that is in vain, `what` begins the
        sentence that says so."""
        try:
            return self.run(begin)
        except (ChannelError, KafkaError) as error:
            if not may_pass(error):
                raise
            raise gave_up(limit_ms, f"{what} ({error})") from error

    # -- any broker, and coordinators ------------------------------------------------------------

    def call_any(
        self,
        request: Message,
        response: type[M],
        *,
        at_most: int | None = None,
        check: Callable[[M], None] = lambda answer: None,
    ) -> M:
        """Ask any broker, trying one after the other, in no version above `at_most`, until one answers and
        `check` raises no retriable error."""
        result = self.patiently(
            self.patience_ms,
            f"no broker of {self._where()} answers",
            lambda client: client.ask_any(
                lambda: request,
                check,
                timeout_ms=self.patience_ms,
                attempt_timeout_ms=self.request_timeout_ms,
                at_most=at_most,
                in_shares=True,
            ),
        )
        assert isinstance(result, response)
        return result

    def ask_coordinator(
        self,
        kind: int,
        key: str,
        request: Message,
        response: type[M],
        codes_of: Callable[[M], Iterable[int]],
        *,
        at_most: int | None = None,
        patience_ms: float | None = None,
    ) -> M:
        """Ask the coordinator of `key`, a group or a transactional id, until it has done it. Raises
        `KafkaError` for what no waiting heals, `ChannelError` of kind unsupported,
        `ClusterUnreachableError`."""
        limit_ms = self.patience_ms if patience_ms is None else patience_ms
        result = self.patiently(
            limit_ms,
            f"coordinator of {key}",
            lambda client: client.ask_coordinator(
                kind,
                key,
                lambda: request,
                lambda answer: raise_worst(codes_of(answer), key),
                timeout_ms=limit_ms,
                attempt_timeout_ms=min(self.request_timeout_ms, limit_ms),
                at_most=at_most,
            ),
        )
        assert isinstance(result, response)
        return result

    def serves(self, api_key: int) -> bool:
        """Whether brokers serve an API, as one of them says. Raises `KafkaError`."""
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        answer = self.call_any(request, ApiVersionsResponse)
        if answer.error_code != ErrorCode.NONE:
            raise KafkaError(code_of(answer.error_code), "the APIs of a broker")
        return any(served.api_key == api_key for served in answer.api_keys)

    def init_producer_id(self) -> tuple[int, int]:
        """A fresh (producer id, producer epoch) for idempotent writes."""
        return self.patiently(
            self.patience_ms,
            "no producer id",
            lambda client: new_identity(client, timeout_ms=self.patience_ms),
        )

    # -- metadata --------------------------------------------------------------------------------

    def topics(
        self, names: Iterable[str] | None = None, *, create: bool = False
    ) -> dict[str, TopicMetadata]:
        """Topics as they are now; None means all. Unknown names are left out of the answer.

        `create` lets brokers create them that are configured to.
        """
        wanted = None if names is None else sorted(set(names))
        request = MetadataRequest(
            topics=None
            if wanted is None
            else [MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in wanted],
            allow_auto_topic_creation=create,
        )
        cluster = self.client.cluster

        def learn(answer: MetadataResponse) -> None:
            if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                cluster.brokers = {}
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, "a broker wants to be asked no more"
                )
            for name in wanted or ():
                cluster.forget(name)
            cluster.learn(answer)
            views.update(cluster.topics)  # now: another thread may forget one before this one wakes

        views: dict[str, TopicMetadata] = {}
        response = self.call_any(request, MetadataResponse, check=learn)
        found: dict[str, TopicMetadata] = {}
        for topic in response.topics:
            assert topic.name is not None
            if topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                if topic.partitions:
                    found[topic.name] = views[topic.name]
            elif topic.error_code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *TRANSIENT):
                raise KafkaError(code_of(topic.error_code), f"topic {topic.name!r}")
        return found

    def topic(self, name: str, *, create: bool = False) -> TopicMetadata | None:
        """One topic, from the cache if it is there."""
        known = self.client.cluster.topics.get(name)
        if known is not None and known.partitions:
            return known
        return self.topics([name], create=create).get(name)

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
        view = None if topic is None else topic.partitions.get(partition.partition)
        endpoint = None if view is None else self.broker(view.leader)
        if view is None or endpoint is None:
            return None
        return PartitionLeader(endpoint, view.leader_epoch)

    def broker(self, node_id: int) -> Endpoint | None:
        """The address of a broker, by the last metadata."""
        return self.client.cluster.brokers.get(node_id)

    def brokers(self) -> list[Endpoint]:
        """The endpoints of all brokers of the last metadata."""
        brokers = self.client.cluster.brokers
        return [brokers[node] for node in sorted(brokers)]

    def ask_another(self) -> None:
        """Send the next `call_any` to another broker than the last."""
        client, loop = self._connect()
        loop.post(lambda: client.cluster.avoid(client.cluster.candidates()[0]))

    def forget(self, topic: str) -> None:
        """Drop `topic` from the cache: its metadata has proved wrong."""
        client, loop = self._connect()
        loop.post(lambda: client.cluster.forget(topic))

    # -- offsets ---------------------------------------------------------------------------------

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offset by partition at a timestamp in ms, `EARLIEST` or `LATEST`.

        Partitions that do not exist are left out of the answer.
        """
        if not at:
            return {}
        return self.patiently(
            self.patience_ms,
            f"offsets of {next(iter(at))}",
            lambda client: existing_offsets(
                client,
                at,
                read_committed=isolation == READ_COMMITTED,
                timeout_ms=self.patience_ms,
                attempt_timeout_ms=self.request_timeout_ms,
            ),
        )


os.register_at_fork(after_in_child=ClusterClient.forget_parent)


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
