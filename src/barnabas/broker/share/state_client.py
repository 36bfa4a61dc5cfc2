"""Sends requests to share coordinators, among them this broker's own.

A request goes to the leader of the share partition's part of ``__share_group_state``; the first
request creates the topic. A request is retried until `patience_ms` are over if the coordinator is
unknown, moves or loads.

Source: ``DefaultStatePersister`` and ``PersisterStateManager`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.broker.share.state_writes import StateWrite
from barnabas.broker.transaction.peers import Peers
from barnabas.client.network.connection import ChannelError
from barnabas.ports import Ports
from barnabas.share.key import SharePartitionKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import delete_share_group_state_request as deleting
from barnabas.wire.messages import initialize_share_group_state_request as initializing
from barnabas.wire.messages import read_share_group_state_request as reading
from barnabas.wire.messages import read_share_group_state_summary_request as summarizing
from barnabas.wire.messages import write_share_group_state_request as writing
from barnabas.wire.schema import Message

PURPOSE = "share state"
FIRST_PAUSE_MS = 20.0
PAUSE_MS_MAX = 1_000.0
AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
OnResult = Callable[[Any], None]
"""Gets the partition's part of the response, or a ``KafkaError``. Called exactly once."""


class StateClient:
    """A client of the cluster's share coordinators."""

    def __init__(
        self,
        ports: Ports,
        peers: Peers,
        leader_of: Callable[[str], int | None],
        create_topic: Callable[[], None],
        patience_ms: float,
    ) -> None:
        """`leader_of` gives the coordinator of a share partition's key; None while there is
        none."""
        self._ports = ports
        self._peers = peers
        self._leader_of = leader_of
        self._create_topic = create_topic
        self._patience_ms = patience_ms
        self._closed = False

    def close(self) -> None:
        """The broker stops: no request is retried."""
        self._closed = True

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, on_done: OnResult
    ) -> None:
        """Begin the state of a share partition."""
        asked = initializing.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = initializing.InitializeStateData(topic_id=key.topic_id, partitions=[asked])
        self._begin(
            key,
            initializing.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            on_done,
        )

    def read(self, key: SharePartitionKey, leader_epoch: int, on_done: OnResult) -> None:
        """Take over a state as leader."""
        asked = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=key.topic_id, partitions=[asked])
        self._begin(
            key,
            reading.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            on_done,
        )

    def write(self, key: SharePartitionKey, write: StateWrite, on_done: OnResult) -> None:
        """Write acknowledgements to a state."""
        asked = writing.PartitionData(
            partition=key.partition,
            state_epoch=write.state_epoch,
            leader_epoch=write.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            state_batches=[
                writing.StateBatch(
                    first_offset=batch.first,
                    last_offset=batch.last,
                    delivery_state=batch.state,
                    delivery_count=batch.deliveries,
                )
                for batch in write.batches
            ],
        )
        topic = writing.WriteStateData(topic_id=key.topic_id, partitions=[asked])
        self._begin(
            key,
            writing.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            on_done,
        )

    def delete(self, key: SharePartitionKey, on_done: OnResult) -> None:
        """Delete a state."""
        asked = deleting.PartitionData(partition=key.partition)
        topic = deleting.DeleteStateData(topic_id=key.topic_id, partitions=[asked])
        self._begin(
            key,
            deleting.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            on_done,
        )

    def summarize(self, key: SharePartitionKey, on_done: OnResult) -> None:
        """Read a summary of a state, for a description of its group."""
        asked = summarizing.PartitionData(partition=key.partition)
        topic = summarizing.ReadStateSummaryData(topic_id=key.topic_id, partitions=[asked])
        self._begin(
            key,
            summarizing.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic]),
            on_done,
        )

    def _begin(self, key: SharePartitionKey, request: Message, on_done: OnResult) -> None:
        until_ms = self._ports.clock.now_ms() + self._patience_ms
        self._try(_Asked(key, request, on_done, until_ms))

    def _try(self, asked: _Asked) -> None:
        if self._closed:
            asked.on_done(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops"))
            return
        leader = self._leader_of(asked.key.text)
        if leader is None:
            self._create_topic()
            why = "no broker coordinates the share partition"
            self._again(asked, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why))
            return
        self._peers.send(leader, asked.request, partial(self._on_answer, asked), purpose=PURPOSE)

    def _on_answer(self, asked: _Asked, answer: Any) -> None:
        if isinstance(answer, ChannelError):
            self._again(asked, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(answer)))
            return
        try:
            result = answer.results[0].partitions[0]
        except (AttributeError, IndexError):
            why = "the share coordinator's answer names no partition"
            asked.on_done(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why))
            return
        if not result.error_code:
            asked.on_done(result)
            return
        error = KafkaError(result.error_code, result.error_message or "")
        if error.code in AGAIN:
            self._again(asked, error)
        else:
            asked.on_done(error)

    def _again(self, asked: _Asked, error: KafkaError) -> None:
        now_ms = self._ports.clock.now_ms()
        if self._closed or now_ms + asked.pause_ms > asked.until_ms:
            asked.on_done(error)
            return
        self._ports.wakeups.call_at(now_ms + asked.pause_ms, partial(self._try, asked))
        asked.pause_ms = min(asked.pause_ms * 2, PAUSE_MS_MAX)

    def __repr__(self) -> str:
        return f"StateClient({self._peers!r})"


class _Asked:
    """One request that is not answered."""

    __slots__ = ("key", "on_done", "pause_ms", "request", "until_ms")

    def __init__(
        self, key: SharePartitionKey, request: Message, on_done: OnResult, until_ms: float
    ) -> None:
        self.key = key
        self.request = request
        self.on_done = on_done
        self.until_ms = until_ms
        self.pause_ms = FIRST_PAUSE_MS
