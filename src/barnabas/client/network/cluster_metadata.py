"""A client's knowledge of its cluster: brokers, topics, leaders; learned by Metadata, forgotten by age.

One refresh is under way at a time and serves all who wait. The view changes only as a whole per
topic and never back to an older leader epoch of the same topic id (KIP-320, KIP-951). Bootstrap
endpoints are tried in turn, and again when every known broker is gone (KIP-899), one says so (KIP-1102), or a
broker's address has become another node's (KIP-1242).

Source: Kafka's ``Metadata``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from barnabas.client.network.backoff import RetryBackoff
from barnabas.client.network.channels import ChannelError, Channels
from barnabas.client.network.tasks import Cancelled, TaskOutcome, Tasks
from barnabas.config.topic_names import check_topic_name
from barnabas.ports import ClientPorts
from barnabas.types import ZERO_UUID, Endpoint, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.metadata_response import MetadataResponse, MetadataResponseTopic

ATTEMPT_TIMEOUT_MS = 5_000.0
PURPOSE = "metadata"
"""Behind what takes longer its answer would come too late, and end the connection with all it carries."""


@dataclass(slots=True)
class PartitionMetadata:
    """One partition as the last news had it. `leader` is -1 where there is none."""

    leader: int = -1
    leader_epoch: int = -1
    replicas: Sequence[int] = ()
    isr: Sequence[int] = ()
    offline: Sequence[int] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class TopicMetadata:
    """One topic. With an `error` it has no partitions."""

    name: str
    topic_id: Uuid = ZERO_UUID
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)
    error: ErrorCode = ErrorCode.NONE
    internal: bool = False
    as_of_ms: float = 0.0


class ClusterMetadata:
    """Metadata for one client."""

    def __init__(
        self,
        ports: ClientPorts,
        channels: Channels,
        bootstrap: Sequence[Endpoint],
        *,
        max_age_ms: float = 300_000.0,
    ) -> None:
        if not bootstrap:
            raise ValueError("a client needs at least one bootstrap endpoint")
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Endpoint] = {}
        self.racks: dict[int, str | None] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.names: dict[Uuid, str] = {}
        self.max_age_ms = max_age_ms
        self._ports = ports
        self._tasks = Tasks(ports)
        self._channels = channels
        self._bootstrap = list(bootstrap)
        self._rotation = ports.rng("client.bootstrap").randrange(len(bootstrap))
        self._answered_by: Endpoint | None = None
        self._avoids = 0
        self._avoided: dict[Endpoint, int] = {}
        """Who did not answer, or knew no better, when it was asked last; in that order."""
        self._wanted: set[str] = set()
        self._wants_all = False
        self._refresh: TaskOutcome[None] | None = None
        channels.meant, channels.on_misrouted = self._meant, self._begin_again

    def _meant(self, endpoint: Endpoint) -> tuple[str, int] | None:
        nodes = [node for node, at in self.brokers.items() if at == endpoint]
        return None if self.cluster_id is None or len(nodes) != 1 else (self.cluster_id, nodes[0])

    def _begin_again(self) -> None:
        """Forget the brokers: only the bootstrap endpoints are asked until one has answered."""
        self.brokers, self.cluster_id = {}, None

    # -- reading ---------------------------------------------------------------------------------

    def leader(self, partition: TopicPartition) -> int | None:
        """The leader's id, where it and its endpoint are known."""
        name, index = partition
        topic = self.topics.get(name)
        view = None if topic is None else topic.partitions.get(index)
        if view is None or view.leader not in self.brokers:
            return None
        return view.leader

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        name, index = partition
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(index)

    def topic_id(self, name: str) -> Uuid:
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def name_of(self, topic_id: Uuid) -> str | None:
        return self.names.get(topic_id)

    def is_fresh(self, name: str) -> bool:
        topic = self.topics.get(name)
        age = 0.0 if topic is None else self._ports.clock.now_ms() - topic.as_of_ms
        return topic is not None and topic.error == ErrorCode.NONE and age < self.max_age_ms

    def candidates(self) -> list[Endpoint]:
        """Whom to ask something that any broker answers, in turn: the one that answered last, the other
        known brokers, bootstrap; those that did not answer come last."""
        known = [self.brokers[node] for node in sorted(self.brokers)]
        known += [endpoint for endpoint in self._bootstrap if endpoint not in known]
        shift = self._rotation % len(known)
        if self._answered_by in known:
            shift = known.index(self._answered_by)
        known = known[shift:] + known[:shift]
        return sorted(known, key=lambda e: self._avoided.get(e, 0)) if self._avoided else known

    def avoid(self, endpoint: Endpoint) -> None:
        """Ask all others before it next time."""
        self._avoids += 1
        self._avoided[endpoint] = self._avoids

    def _in_turn(self) -> list[Endpoint]:
        """The `candidates` without the one that answered last: it may know no better, cut off from the
        others."""
        candidates = self.candidates()
        if self._answered_by in self._avoided or candidates[0] != self._answered_by:
            return candidates
        others = sum(endpoint not in self._avoided for endpoint in candidates[1:])
        return candidates[1 : 1 + others] + candidates[:1] + candidates[1 + others :]

    def forget(self, name: str) -> None:
        """Drop what is known of the topic, its leader epochs included: it has proved wrong."""
        self.topics.pop(name, None)

    # -- learning --------------------------------------------------------------------------------

    async def ensure(self, names: Iterable[str], timeout_ms: float = 30_000.0) -> None:
        """Return once every topic of `names` was heard of (perhaps with an error)."""
        missing = [name for name in names if not self.is_fresh(name)]
        if missing:
            await self.refresh(missing, timeout_ms=timeout_ms)

    async def refresh(
        self, names: Iterable[str] = (), *, every: bool = False, timeout_ms: float = 30_000.0
    ) -> None:
        """Ask for these topics (`every`: all there are). Raises `ChannelError` if no broker
        answered in time."""
        asked = list(names)
        names = [name for name in asked if self._may_be_there(name)]
        if asked and not names and not every:
            return
        self._wanted.update(names)
        self._wants_all = self._wants_all or every
        deadline_ms = self._ports.clock.now_ms() + timeout_ms
        while self._refresh is not None:  # a refresh on its way may not ask for these
            pending: TaskOutcome[None] = TaskOutcome()
            self._refresh.when_done(lambda _, pending=pending: pending.resolve(None))  # type: ignore[misc]
            await pending
        if not self._wanted and not self._wants_all and (names or every):
            return  # another who waited asked for them meanwhile
        self._refresh = TaskOutcome()
        try:
            await self._ask(deadline_ms)
        finally:
            outcome, self._refresh = self._refresh, None
            outcome.resolve(None)

    def _may_be_there(self, name: str) -> bool:
        """False where no topic can have that name, which any broker would say; some cannot even be asked
        for, nor what is asked together with them."""
        if check_topic_name(name) is None:
            return True
        error, now_ms = ErrorCode.INVALID_TOPIC_EXCEPTION, self._ports.clock.now_ms()
        self.topics[name] = TopicMetadata(name, error=error, as_of_ms=now_ms)
        return False

    async def _ask(self, deadline_ms: float) -> None:
        wanted, every = sorted(self._wanted), self._wants_all
        self._wanted.clear()
        self._wants_all = False
        request = MetadataRequest(
            topics=None if every else [MetadataRequestTopic(name=name) for name in wanted],
            allow_auto_topic_creation=False,
        )
        try:
            response = await self.ask_any(request, deadline_ms, in_turn=not every)
        except (ChannelError, Cancelled):
            # The tasks that waited for this request send their own.
            self._wanted.update(wanted)
            self._wants_all = self._wants_all or every
            raise
        self.learn(response)

    async def ask_any(
        self, request: MetadataRequest, deadline_ms: float, *, in_turn: bool = True
    ) -> MetadataResponse:
        """Ask one broker after the other until one answers, another one each time where `in_turn`; else
        the one that has answered what was asked before, and knows what it did. Raises the last
        `ChannelError`. A silent one takes at most half of the time that is left while there are others to
        ask."""
        backoff = RetryBackoff()
        while True:
            failure: ChannelError | None = None
            failures: set[str] = set()
            candidates = self._in_turn() if in_turn else self.candidates()
            for endpoint in candidates:
                left_ms = deadline_ms - self._ports.clock.now_ms()
                if left_ms <= 0:
                    break
                if endpoint is not candidates[-1]:
                    left_ms /= 2
                outcome: TaskOutcome[MetadataResponse] = TaskOutcome()
                self._channels.send(
                    endpoint,
                    request,
                    outcome.complete,
                    timeout_ms=min(left_ms, ATTEMPT_TIMEOUT_MS),
                    purpose=PURPOSE,
                )
                try:
                    response = await outcome
                except ChannelError as error:
                    failure = error
                    failures.add(error.kind)
                    self.avoid(endpoint)
                else:
                    if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                        self._begin_again()
                        break
                    self._answered_by = endpoint
                    self._avoided.pop(endpoint, None)
                    return response
            if failures in ({"unsupported"}, {"authentication"}) and failure is not None:
                raise failure  # none of them is a broker, or lets this client in
            if self._ports.clock.now_ms() + backoff.next_ms >= deadline_ms:
                raise failure or ChannelError("timeout", "no broker answered in time")
            await self._tasks.sleep(backoff.take())

    def learn(self, response: MetadataResponse) -> None:
        """Take over what a Metadata response says."""
        if response.brokers:
            self.brokers = {b.node_id: Endpoint(b.host, b.port) for b in response.brokers}
            self.racks = {b.node_id: b.rack for b in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        for topic in response.topics:
            self._learn_topic(topic)

    def _learn_topic(self, answer: MetadataResponseTopic) -> None:
        name = answer.name if answer.name is not None else self.names.get(answer.topic_id)
        if name is None:
            return
        old = self.topics.get(name)
        view = TopicMetadata(
            name, answer.topic_id, {}, code_of(answer.error_code), answer.is_internal,
            self._ports.clock.now_ms(),
        )  # fmt: skip
        same = old is not None and old.topic_id == answer.topic_id
        for p in answer.partitions:
            fresh = PartitionMetadata(
                p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas,
                code_of(p.error_code),
            )  # fmt: skip
            known = old.partitions.get(p.partition_index) if old is not None and same else None
            if known is not None and 0 <= fresh.leader_epoch < known.leader_epoch:
                fresh = known
            view.partitions[p.partition_index] = fresh
        if view.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and old is not None:
            self.names.pop(old.topic_id, None)
        self.topics[name] = view
        if answer.topic_id != ZERO_UUID and view.error == ErrorCode.NONE:
            self.names[answer.topic_id] = name

    def learn_leader(
        self, partition: TopicPartition, leader: int, epoch: int, endpoint: Endpoint | None = None
    ) -> bool:
        """A broker that is not the leader said who is (KIP-951). Whether that was news."""
        view = self.partition(partition)
        if view is None or leader < 0 or epoch <= view.leader_epoch:
            return False
        if endpoint is not None:
            self.brokers[leader] = endpoint
        view.leader, view.leader_epoch = leader, epoch
        return leader in self.brokers

    def doubt_epoch(self, partition: TopicPartition) -> None:
        """A broker does not know this leader epoch. Where it tells no topic ids (Metadata before version 10)
        it may be of a topic that was deleted, and another one has its name: the next one told counts."""
        topic, view = self.topics.get(partition.topic), self.partition(partition)
        if view is not None and topic is not None and topic.topic_id == ZERO_UUID:
            view.leader_epoch = -1

    def require(self, name: str) -> TopicMetadata:
        """The topic. Raises `KafkaError` with the code that Metadata gave for it."""
        topic = self.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} is not known")
        if topic.error != ErrorCode.NONE:
            raise KafkaError(topic.error, f"topic {name}")
        return topic
