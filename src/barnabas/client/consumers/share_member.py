"""A member of a share group (KIP-932): it says what it subscribes to, and receives partitions. Sans-IO.

Several members may have one partition, so no member waits until another one gives one up. Records that the
member holds of a partition that it has no longer are still its own until their locks end.

Source: KIP-932; ``ShareMembershipManager`` of Apache Kafka's clients 4.3.
"""

from __future__ import annotations

from barnabas.client.consumers.group_member import TopicPattern
from barnabas.client.consumers.heartbeat_member import JOINS, LEAVES, HeartbeatMember
from barnabas.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from barnabas.wire.schema import Message


class ShareGroupMember(HeartbeatMember):
    """One member of the share group `group_id`, subscribed to topics by their names."""

    def _farewell(self) -> Message | None:
        return self._beat(LEAVES) if self._epoch > JOINS else None

    def _request(self) -> ShareGroupHeartbeatRequest:
        """All where it joins or something was lost, else what changed."""
        request = self._beat(self._epoch)
        full = self._epoch == JOINS or self._sent_subscription is None
        to = self._subscription
        assert not isinstance(to, TopicPattern), "share groups know no patterns"
        if full:
            request.rack_id = self._settings.rack_id
        if full or self._sent_subscription != to:
            request.subscribed_topic_names = sorted(to)
            self._sent_subscription = to
        return request

    def _beat(self, epoch: int) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self.identity.group_id,
            member_id=self.identity.member_id,
            member_epoch=epoch,
        )
