"""Sends batches to the leaders of their partitions, again until each is acknowledged or has failed. Sans-IO.

Order: of one partition one batch is in flight at a time. A batch is retried until its deadline where that may
help; a new leader is learned from the refusal itself (KIP-951) or from Metadata. A broker that leaves a
partition out of its answer has refused it.

:class:`~barnabas.client.producers.producer.Producer` sends batches that records fill,
:class:`~barnabas.client.producers.prepared_sender.PreparedSender` those that are there already.

Source: Kafka's ``Sender``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from barnabas.client.client import Client, may_pass
from barnabas.client.network.channels import ChannelError
from barnabas.client.producers.produce_requests import (
    ACCEPTED,
    ACKS_ALL,
    answers_of,
    produce_request,
)
from barnabas.ports import Wakeup
from barnabas.types import Buffer, Endpoint, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.produce_response import ProduceResponse


class SendOptions(NamedTuple):
    """How batches are sent."""

    acks: int = ACKS_ALL
    acks_timeout_ms: int = 30_000
    """How long a leader waits for the in-sync replicas."""
    request_timeout_ms: float = 30_000.0
    retry_backoff_ms: float = 50.0
    request_bytes_max: int = 1024 * 1024
    transactional_id: str | None = None


class OutgoingBatch(ABC):
    """One batch of one partition, on its way."""

    __slots__ = ("attempts", "deadline_ms", "partition", "retry_at_ms", "size")

    def __init__(self, partition: TopicPartition, size: int, deadline_ms: float = 0.0) -> None:
        self.partition = partition
        self.size = size
        self.deadline_ms = deadline_ms
        self.retry_at_ms = 0.0
        self.attempts = 0

    @abstractmethod
    def encoded(self) -> Buffer:
        """Its bytes, the same at every attempt. What is raised is why the batch fails."""


B = TypeVar("B", bound=OutgoingBatch)


class Lane(Generic[B]):
    """One partition: batches in order; the first may be in flight."""

    __slots__ = ("batches", "in_flight", "next_sequence")

    def __init__(self) -> None:
        self.batches: deque[B] = deque()
        self.in_flight = False
        self.next_sequence = 0


class BatchSender(ABC, Generic[B]):
    """The pump between the lanes of a producer and the leaders. Subclasses say what may go, and get what
    became of it."""

    def __init__(self, client: Client, options: SendOptions) -> None:
        self._client = client
        self._options = options
        self._lanes: dict[TopicPartition, Lane[B]] = {}
        self._stale: set[str] = set()
        self._trouble = "it was not sent"
        """Why something has to wait or to be sent again; the last reason."""
        self._asking_metadata = False
        self._wakeup: Wakeup | None = None
        self._run_is_due = False

    # -- what a subclass decides -----------------------------------------------------------------

    def _collect(self, now_ms: float) -> Iterable[str]:
        """Take in what became ready. Returns topics whose metadata is needed."""
        return ()

    def _is_idle(self) -> bool:
        """Nothing waits to be sent."""
        return not any(lane.batches for lane in self._lanes.values())

    def _may_send(self) -> bool:
        return True

    def _is_due(self, lane: Lane[B], now_ms: float) -> bool:
        """Whether the first batch of `lane` goes now."""
        return lane.batches[0].retry_at_ms <= now_ms

    def _due_at_ms(self, batch: B) -> float:
        """When a batch that was not sent before goes at the latest."""
        return 0.0

    def _on_first_attempt(self, lane: Lane[B], batch: B) -> None:
        """`batch` is sent for the first time."""

    def _produce_at_most(self) -> int | None:
        """The newest version of Produce to speak; None: the newest there is."""
        return None

    def _deadlines(self) -> list[float]:
        """Deadlines beside those of batches."""
        return []

    def _deadline_ms(self, batch: B) -> float:
        return batch.deadline_ms

    def _takes_back(self, lane: Lane[B], batch: B, error: Exception, in_time: bool) -> bool:
        """Whether the refused batch goes in another form, which is in the lane then."""
        return False

    @abstractmethod
    def _on_accepted(self, batch: B, base_offset: int, append_time_ms: int) -> None:
        """`batch`, which has left its lane, is in the log."""

    @abstractmethod
    def _on_failed(self, lane: Lane[B], batch: B, error: Exception) -> None:
        """`batch`, which has left its lane, is not sent again."""

    # -- the pump --------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """Run once after the present turn: what is sent in one turn goes together."""
        if not self._run_is_due:
            self._run_is_due = True
            self._client.ports.wakeups.call_soon(self._run_once)

    def _run_once(self) -> None:
        self._run_is_due = False
        now_ms = self._client.now_ms()
        self._stale.update(self._collect(now_ms))
        self._expire(now_ms)
        if self._is_idle():
            return
        if self._may_send():
            self._dispatch(now_ms)
        if self._stale and not self._asking_metadata:
            self._asking_metadata = True
            self._client.tasks.start(self._refresh())
        self._arm(now_ms)

    def _dispatch(self, now_ms: float) -> None:
        cluster = self._client.cluster
        by_leader: dict[int, list[B]] = {}
        for partition, lane in self._lanes.items():
            if lane.in_flight or not lane.batches or not self._is_due(lane, now_ms):
                continue
            leader = cluster.leader(partition)
            if leader is None:
                self._stale.add(partition.topic)
                self._trouble = "it has no leader"
                continue
            if not cluster.is_fresh(partition.topic):
                self._stale.add(partition.topic)  # there may be more partitions by now
            by_leader.setdefault(leader, []).append(lane.batches[0])
        for leader in sorted(by_leader):
            request: list[B] = []
            size = 0
            for batch in by_leader[leader]:
                if request and size + batch.size > self._options.request_bytes_max:
                    self._start_request(leader, request)
                    request, size = [], 0
                request.append(batch)
                size += batch.size
            self._start_request(leader, request)

    def _start_request(self, leader: int, batches: list[B]) -> None:
        for batch in batches:
            lane = self._lanes[batch.partition]
            lane.in_flight = True
            if batch.attempts == 0:
                self._on_first_attempt(lane, batch)
            batch.attempts += 1
        self._client.tasks.start(self._deliver(leader, batches))

    def _arm(self, now_ms: float) -> None:
        times = self._deadlines()
        for lane in self._lanes.values():
            if not lane.batches or lane.in_flight:
                continue
            head = lane.batches[0]
            times.append(self._deadline_ms(head))
            at = head.retry_at_ms if head.attempts else self._due_at_ms(head)
            if at > now_ms:
                times.append(at)
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if times:
            self._wakeup = self._client.ports.wakeups.call_at(min(times), self.wakeup)

    def _expire(self, now_ms: float) -> None:
        # A callback that learns of it may send at once, to other partitions too.
        while late := [
            lane
            for lane in self._lanes.values()
            if lane.batches and not lane.in_flight and self._deadline_ms(lane.batches[0]) <= now_ms
        ]:
            for lane in late:
                batch = lane.batches[0]
                text = f"no acknowledgement for {batch.partition} in time: {self._trouble}"
                self._fail(lane, batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))

    async def _refresh(self) -> None:
        topics = sorted(self._stale)
        self._stale.clear()
        try:
            await self._client.cluster.refresh(topics)
        except ChannelError as error:
            self._trouble = str(error)
            self._client.ports.log("debug", "producer.no_metadata", error=str(error))
        known = self._client.cluster.topics
        if any(t not in known or not known[t].partitions or self._leaderless(t) for t in topics):
            await self._client.tasks.sleep(self._options.retry_backoff_ms)
        self._asking_metadata = False
        self.wakeup()

    def _leaderless(self, topic: str) -> bool:
        leader = self._client.cluster.leader
        return any(
            partition.topic == topic and lane.batches and leader(partition) is None
            for partition, lane in self._lanes.items()
        )

    # -- requests --------------------------------------------------------------------------------

    async def _deliver(self, leader: int, batches: list[B]) -> None:
        options = self._options
        try:
            request = produce_request(
                [(batch.partition, batch.encoded()) for batch in batches],
                self._client.cluster.topic_id,
                acks=options.acks,
                timeout_ms=options.acks_timeout_ms,
                transactional_id=options.transactional_id,
            )
        except Exception as error:  # noqa: BLE001 - it is the failure of the batch that cannot be encoded
            if len(batches) > 1:
                for batch in batches:
                    self._client.tasks.start(self._deliver(leader, [batch]))
                return
            self._on_failure(batches[0], error, moved=False)
            self.wakeup()
            return
        try:
            response = await self._client.ask_node(
                leader,
                request,
                timeout_ms=options.request_timeout_ms,
                purpose="produce",
                at_most=self._produce_at_most(),
            )
        except (ChannelError, KafkaError) as error:
            for batch in batches:
                self._on_failure(batch, error, moved=True)
        else:
            self._on_response(batches, response)
        self.wakeup()

    def _on_response(self, batches: list[B], response: ProduceResponse | None) -> None:
        if response is None:  # acks=0
            for batch in batches:
                self._remove(batch)
                self._on_accepted(batch, -1, -1)
            return
        cluster = self._client.cluster
        endpoints = {n.node_id: Endpoint(n.host, n.port) for n in response.node_endpoints}
        answers = answers_of(response, cluster.name_of)
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is None:
                gone = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the broker did not answer for it")
                self._on_failure(batch, gone, moved=True)
            elif answer.error_code in ACCEPTED:
                self._remove(batch)
                self._on_accepted(batch, answer.base_offset, answer.log_append_time_ms)
            else:
                error = KafkaError(code_of(answer.error_code), answer.error_message or "")
                news = answer.current_leader
                endpoint = endpoints.get(news.leader_id)
                found = cluster.learn_leader(
                    batch.partition, news.leader_id, news.leader_epoch, endpoint
                )
                self._on_failure(batch, error, moved=not found)

    def _on_failure(self, batch: B, error: Exception, *, moved: bool) -> None:
        """Retry what may succeed later, fail the rest."""
        lane = self._lanes[batch.partition]
        lane.in_flight = False
        now_ms = self._client.now_ms()
        in_time = self._deadline_ms(batch) > now_ms
        if self._takes_back(lane, batch, error, in_time):
            return
        if not in_time or not may_pass(error):
            self._fail(lane, batch, error)
            return
        self._trouble = str(error)
        batch.retry_at_ms = now_ms
        if moved:
            self._stale.add(batch.partition.topic)
            batch.retry_at_ms += self._options.retry_backoff_ms

    def _fail(self, lane: Lane[B], batch: B, error: Exception) -> None:
        self._remove(batch)
        self._on_failed(lane, batch, error)

    def _remove(self, batch: B) -> None:
        lane = self._lanes[batch.partition]
        lane.in_flight = False
        assert lane.batches[0] is batch
        lane.batches.popleft()
