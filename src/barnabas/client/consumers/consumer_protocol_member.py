"""A member of a group by the consumer protocol: heartbeats, and the coordinator assigns (KIP-848). Sans-IO.

The member sends its subscription and the partitions it owns, and receives its assignment. It gives up
revoked partitions and reports that at once; `on_assigned` brings the new ones, in addition to those it
keeps. :mod:`~barnabas.client.consumers.heartbeat_member` says how it lives.

Invariant: `owned` is within what the coordinator has for the member, as far as this one can know. Source:
KIP-848; ``ConsumerMembershipManager`` of Apache Kafka's clients 4.3.
"""

from __future__ import annotations

from barnabas.client.consumers.group_member import TopicPattern
from barnabas.client.consumers.heartbeat_member import JOINS, LEAVES, HeartbeatMember
from barnabas.types import TopicPartition, Uuid, by_topic
from barnabas.wire.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from barnabas.wire.schema import Message

LEAVES_FOR_A_WHILE = -2


class ConsumerProtocolMember(HeartbeatMember):
    """One member of `group_id`, subscribed to topics."""

    _reported: list[TopicPartition] | None = None
    """The owned partitions that the member last reported to the coordinator."""

    def _farewell(self) -> Message | None:
        """A static member says that it will return."""
        if self._epoch <= JOINS:
            return None
        static = self.identity.instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.identity.group_id,
            member_id=self.identity.member_id,
            member_epoch=LEAVES_FOR_A_WHILE if static else LEAVES,
            instance_id=self.identity.instance_id,
        )

    def _forget_said(self) -> None:
        super()._forget_said()
        self._reported = None

    def _is_next_due(self, before: dict[Uuid, list[int]]) -> bool:
        """The coordinator waits to hear that partitions were given up."""
        self._reported = None  # it waits to hear what is owned by now
        return any(
            index not in self._assigned.get(topic_id, ())
            for topic_id, parts in before.items()
            for index in parts
        )

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        """All where it joins or something was lost, else what changed."""
        full = self._epoch == JOINS or self._sent_subscription is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.identity.group_id,
            member_id=self.identity.member_id,
            member_epoch=self._epoch,
            instance_id=self.identity.instance_id,
        )
        if full:
            request.rebalance_timeout_ms = self._settings.rebalance_timeout_ms
            request.server_assignor = self._settings.remote_assignor
            request.rack_id = self._settings.rack_id
        to = self._subscription
        if full or self._sent_subscription != to:
            names, regex = ([], to.regex) if isinstance(to, TopicPattern) else (sorted(to), "")
            request.subscribed_topic_names = names
            if regex or isinstance(self._sent_subscription, TopicPattern):
                request.subscribed_topic_regex = regex
            self._sent_subscription = to
        if full or self._reported != self._owned:
            request.topic_partitions = self._owned_parts()
            self._reported = list(self._owned)
        return request

    def _owned_parts(self) -> list[TopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        parts = by_topic((ids[tp.topic], tp.partition) for tp in self._owned)
        return [
            TopicPartitions(topic_id=topic_id, partitions=found)
            for topic_id, found in parts.items()
        ]
