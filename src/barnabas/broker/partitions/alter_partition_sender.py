"""Sends ISR changes to the controller: AlterPartition, batched, one request at a time.

Behaviour: Kafka's AlterPartitionManager. A refusal that is final withdraws the proposal. If the
controller has newer metadata, or this broker no longer leads, the proposal waits for the metadata
log. Every other refusal is retried. An accepted smaller ISR takes effect with the metadata log, an
accepted larger one at once.

Version notes: version 3 carries the members' broker epochs (KIP-903).

Source: Kafka's ``AlterPartitionManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from barnabas.broker.controller_client.controller_channel import ControllerChannel
from barnabas.broker.partitions.partition import Partition
from barnabas.ports import Ports, call_all
from barnabas.replication.isr import PendingShrink
from barnabas.replication.leader import IsrProposal
from barnabas.types import Uuid, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.alter_partition_response import AlterPartitionResponse
from barnabas.wire.messages.alter_partition_response import PartitionData as PartitionAnswer

ALTER_PARTITION_RETRY_MS = 50.0
TOLD_MAX = 100_000
"""The number of refusals that are remembered, so that each is logged once."""
REFUSED_RETRY_MS = 1000.0
"""The delay before a replica is proposed again that the controller did not admit to the ISR."""
TAKE_BACK = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
WAIT_FOR_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
    }
)

Key = tuple[Uuid, int]


class _Pending(NamedTuple):
    partition: Partition
    proposal: IsrProposal


class AlterPartitionSender:
    """The proposals of all partitions that this broker leads."""

    def __init__(
        self,
        ports: Ports,
        controller: ControllerChannel,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._ports = ports
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._pending: dict[Key, _Pending] = {}
        self._in_flight: dict[Key, _Pending] = {}
        self._scheduled = False
        self._refused: dict[Partition, None] = {}
        self._told: dict[tuple[Uuid, int, ErrorCode], int] = {}
        """The refusals that were logged, with the leader epoch of each."""
        self.shrinks = 0
        self.expands = 0

    def submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send `proposal` to the controller. It replaces an earlier one of the same partition."""
        self._pending[partition.topic_id, partition.index] = _Pending(partition, proposal)
        self._schedule()

    def _schedule(self, delay_ms: float = 0.0) -> None:
        if self._scheduled or self._in_flight or not self._pending:
            return
        self._scheduled = True
        if delay_ms:
            self._ports.wakeups.call_at(self._ports.clock.now_ms() + delay_ms, self._send)
        else:
            # What is proposed in one turn goes in one request.
            self._ports.wakeups.call_soon(self._send)

    def _send(self) -> None:
        self._scheduled = False
        self._pending = {
            key: pending for key, pending in self._pending.items() if _is_current(pending)
        }
        if not self._pending or self._in_flight:
            return
        for key in list(self._pending)[: self._ports.bounds.replicas.isr_changes_max]:
            self._in_flight[key] = self._pending.pop(key)
        self._controller.send(self._request(), self._on_answer)

    def _request(self) -> AlterPartitionRequest:
        epoch = self._broker_epoch()

        def proposed(index: int, proposal: IsrProposal) -> PartitionData:
            members = [
                BrokerState(
                    broker_id=broker,
                    broker_epoch=epoch if broker == self._node_id else broker_epoch,
                )
                for broker, broker_epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
            ]
            return PartitionData(
                partition_index=index,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=members,
                leader_recovery_state=proposal.recovery,
                partition_epoch=proposal.partition_epoch,
            )

        topics = by_topic(
            (topic_id, proposed(index, proposal))
            for (topic_id, index), (_, proposal) in self._in_flight.items()
        )
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=epoch,
            topics=[
                TopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    def _on_answer(self, response: AlterPartitionResponse | KafkaError) -> None:
        asked, self._in_flight = self._in_flight, {}
        if isinstance(response, KafkaError) or response.error_code:
            code = response.code if isinstance(response, KafkaError) else response.error_code
            self._ports.log(
                "warning", "isr.change_not_answered", error=code_of(code).name, changes=len(asked)
            )
            self._again(asked)
            return
        callbacks: list[Callable[[], None]] = []
        for topic in response.topics:
            for answer in topic.partitions:
                pending = asked.pop((Uuid(topic.topic_id), answer.partition_index), None)
                if pending is not None:
                    callbacks.append(partial(self._on_partition, pending, answer))
        try:
            call_all(callbacks)
        finally:
            if asked:
                self._again(asked)
            self._schedule()

    def _on_partition(self, pending: _Pending, answer: PartitionAnswer) -> None:
        partition, proposal = pending
        code = code_of(answer.error_code)
        leader = partition.leader
        if leader is None or not _is_current(pending):
            return
        if code == ErrorCode.NONE:
            before = leader.isr
            if isinstance(proposal.state, PendingShrink):
                # It takes effect at its place in the metadata log: a higher min.insync.replicas may
                # come before it. With fewer members and the old minimum this leader would commit
                # alone while the member that left is still eligible to lead (KIP-966).
                self._count(partition, before, tuple(answer.isr))
            elif leader.on_committed(
                proposal,
                answer.leader_epoch,
                answer.partition_epoch,
                answer.isr,
                answer.leader_recovery_state,
            ):
                partition.partition_epoch = answer.partition_epoch
                self._count(partition, before, leader.isr)
                partition.on_isr_changed()
            return
        self._tell_refused(pending, code)
        if code in TAKE_BACK:
            leader.on_refused(proposal)
            partition.advance_high_watermark()
            self._offer_again(partition)
        elif code not in WAIT_FOR_METADATA:
            self._again({(partition.topic_id, partition.index): pending})

    def _tell_refused(self, pending: _Pending, code: ErrorCode) -> None:
        """Log a refusal once for each partition, cause and leader epoch: a deposed leader is refused each
        time that it asks until it learns that."""
        partition, proposal = pending
        cause = (partition.topic_id, partition.index, code)
        if self._told.get(cause) == partition.leader_epoch:
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told[cause] = partition.leader_epoch
        self._ports.log(
            "info",
            "isr.change_refused",
            partition=str(partition.name),
            isr=list(proposal.isr),
            error=code.name,
        )

    def _offer_again(self, partition: Partition) -> None:
        """Propose again later: the fetches of an idle follower would not lead to it by themselves."""
        if not self._refused:
            at = self._ports.clock.now_ms() + REFUSED_RETRY_MS
            self._ports.wakeups.call_at(at, self._on_offer_again)
        self._refused[partition] = None

    def _on_offer_again(self) -> None:
        refused, self._refused = self._refused, {}
        call_all(partition.maybe_expand_isr for partition in refused)

    def _count(self, partition: Partition, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        if len(after) < len(before):
            self.shrinks += 1
        else:
            self.expands += 1
        self._ports.log(
            "info", "isr.changed", partition=str(partition.name), before=list(before),
            after=list(after),
        )  # fmt: skip

    def _again(self, asked: dict[Key, _Pending]) -> None:
        for key, pending in asked.items():
            self._pending.setdefault(key, pending)
        self._schedule(ALTER_PARTITION_RETRY_MS)


def _is_current(pending: _Pending) -> bool:
    leader = pending.partition.leader
    return leader is not None and leader.isr_state is pending.proposal.state
