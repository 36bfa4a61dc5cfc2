"""A member of a group whose coordinator assigns: one heartbeat after the other, and what follows. Sans-IO.

A heartbeat says what changed and brings an assignment. The member gives up what it has no longer
(`on_revoked`), then takes what is new (`on_assigned`). A fenced member gives up all partitions and joins
again with the id that it made itself (KIP-1082). If the coordinator moved or died, the member looks for it
and keeps its partitions.

:mod:`~barnabas.client.consumers.consumer_protocol_member` and
:mod:`~barnabas.client.consumers.share_member` say what their heartbeats contain.

Source: KIP-848, KIP-932; ``AbstractMembershipManager`` of Apache Kafka's clients 4.3.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.client.client import COORDINATOR_MOVED, GROUP, Client, raise_for
from barnabas.client.consumers.group_member import (
    GROUP_RETRY_MS,
    GroupMember,
    GroupMemberSettings,
    Subscription,
    TopicPattern,
)
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import GroupIdentity
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Message

JOINS, LEAVES = 0, -1
"""Epochs of heartbeats that join and leave."""
FORGOTTEN = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
PASSING = (ErrorCode.UNRELEASED_INSTANCE_ID,)
"""A static member whose predecessor has not left yet: its session ends by itself."""


class HeartbeatMember(GroupMember):
    """One member of `group_id`, subscribed to topics."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        to: Subscription,
        settings: GroupMemberSettings,
        *,
        on_assigned: Callable[[list[TopicPartition]], None],
        on_revoked: Callable[[list[TopicPartition]], None],
        on_failed: Callable[[KafkaError], None] = lambda error: None,
        purpose: str = "",
    ) -> None:
        identity = GroupIdentity(
            group_id, member_id=_new_id(client), instance_id=settings.instance_id
        )
        super().__init__(client, identity, settings, on_failed, purpose)
        self._subscription = _copy(to)
        self._sent_subscription: Subscription | None = None
        """The subscription that the coordinator knows of."""
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._epoch = JOINS
        self._owned: list[TopicPartition] = []
        self._assigned: dict[Uuid, list[int]] = {}
        self._names: dict[Uuid, str] = {}
        self._interval_ms = settings.heartbeat_interval_ms

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity} owned={len(self._owned)})"

    @abstractmethod
    def _request(self) -> Message:
        """The next heartbeat."""

    def _forget_said(self) -> None:
        """Say everything again: the last heartbeat may be lost."""
        self._sent_subscription = None

    def _is_next_due(self, before: dict[Uuid, list[int]]) -> bool:
        """Whether the next heartbeat follows a new assignment at once."""
        return False

    def subscribe(self, to: Subscription) -> None:
        """To these, instead: the coordinator learns of it with the next heartbeat."""
        self._subscription = _copy(to)

    # -- the life --------------------------------------------------------------------------------

    async def _stay(self) -> None:
        while not self._left and self.failure is None:
            await self._step()

    async def _step(self) -> None:
        """One heartbeat, and what follows from it."""
        try:
            answer = await self._ask(self._request())
            raise_for(answer.error_code, answer.error_message)
        except ChannelError as error:
            self._client.forget_coordinator(GROUP, self.identity.group_id)
            self._forget_said()
            self._log("group.unreachable", error)
            await self._client.tasks.sleep(GROUP_RETRY_MS)
            return
        except KafkaError as error:
            await self._recover(error)
            return
        self._become(answer.member_epoch)
        self._interval_ms = float(answer.heartbeat_interval_ms)
        is_next_due = answer.assignment is not None and self._take(answer.assignment)
        await self._reconcile()
        if not is_next_due:
            await self._client.tasks.sleep(self._interval_ms)

    def _take(self, assignment: Any) -> bool:
        """The coordinator's assignment; whether the next heartbeat is due at once."""
        before, self._assigned = (
            self._assigned,
            {part.topic_id: list(part.partitions) for part in assignment.topic_partitions},
        )
        return self._is_next_due(before)

    async def _reconcile(self) -> None:
        """Give up what it has no longer, take what it received."""
        await self._learn_names()
        wanted = [
            TopicPartition(self._names[topic_id], index)
            for topic_id, parts in self._assigned.items()
            if topic_id in self._names
            for index in parts
        ]
        gone = [tp for tp in self._owned if tp not in wanted]
        new = [tp for tp in wanted if tp not in self._owned]
        if gone:
            self._give_up(gone)
        if new:
            self._owned += new
            self._on_assigned(new)
        self.is_stable = all(topic_id in self._names for topic_id in self._assigned)

    async def _learn_names(self) -> None:
        """Learn the names of the topics that it was given; an unknown one is looked for with the next
        heartbeat."""
        if all(topic_id in self._names for topic_id in self._assigned):
            return
        cluster, to = self._client.cluster, self._subscription
        by_pattern = isinstance(to, TopicPattern)
        try:
            await cluster.refresh(() if by_pattern else to, every=by_pattern)
        except ChannelError as error:
            self._log("group.no_metadata", error)
        for name in cluster.topics if by_pattern else to:
            known = cluster.topics.get(name)
            if known is not None:
                self._names[known.topic_id] = name

    async def _recover(self, error: KafkaError) -> None:
        if error.code in FORGOTTEN:
            # The partitions may be another's by now: what is theirs must not be committed.
            self._become(JOINS)
            self._give_up(self._owned)
            self._assigned, self._sent_subscription = {}, None
            await self._client.tasks.sleep(GROUP_RETRY_MS)
        elif error.code in COORDINATOR_MOVED or error.retriable or error.code in PASSING:
            if error.code in COORDINATOR_MOVED:
                self._client.forget_coordinator(GROUP, self.identity.group_id)
            self._forget_said()
            await self._client.tasks.sleep(GROUP_RETRY_MS)
        else:
            self._fail(error)

    def _give_up_all(self) -> None:
        self._give_up(self._owned)

    def _fail(self, error: KafkaError) -> None:
        self._become(JOINS)
        super()._fail(error)

    def _give_up(self, partitions: Sequence[TopicPartition]) -> None:
        gone = list(partitions)
        self._owned = [tp for tp in self._owned if tp not in gone]
        self.is_stable = False
        if gone:
            self._on_revoked(gone)

    def _become(self, epoch: int) -> None:
        self._epoch = epoch
        self.identity = self.identity._replace(generation=epoch if epoch > JOINS else -1)


def _copy(to: Subscription) -> Subscription:
    return to if isinstance(to, TopicPattern) else list(to)


def _new_id(client: Client) -> str:
    """A UUID, as Kafka's clients make it."""
    bits = client.member_ids.randbytes(16).hex()
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"
