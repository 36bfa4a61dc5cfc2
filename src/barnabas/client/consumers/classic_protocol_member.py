"""A member of a group by the classic protocol: join, sync, heartbeat, again. Sans-IO.

Eager rebalancing: before a new join the member gives up its partitions (`on_revoked`); after it the member
gets the new ones (`on_assigned`). The group's leader assigns by the protocol the coordinator chose, and has
the group rebalance when its topics have other partitions than it assigned. A member that was fenced or
forgotten joins again without its id; after a generation error it joins again with its id. If the coordinator
moved or died, the member looks for it, and keeps its partitions if the coordinator still knows it.

Invariants: `on_assigned` and `on_revoked` alternate; while partitions are held `identity` is that of the
generation that gave them. Source: Kafka protocol guide, group membership API; KIP-394.
Kafka's ``ConsumerCoordinator``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from barnabas.client.client import COORDINATOR_MOVED, GROUP, Client, raise_for
from barnabas.client.consumers.assignors import (
    ASSIGNORS,
    PROTOCOL_TYPE,
    in_turn,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from barnabas.client.consumers.group_member import (
    GROUP_RETRY_MS,
    GroupMember,
    GroupMemberSettings,
    Subscription,
    TopicPattern,
)
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.network.legacy_requests import leave_group
from barnabas.client.network.tasks import Cancelled
from barnabas.client.offsets import GroupIdentity
from barnabas.types import TopicPartition
from barnabas.wire.codec import MalformedError
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.join_group_response import JoinGroupResponse
from barnabas.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.messages.sync_group_response import SyncGroupResponse
from barnabas.wire.schema import Message

FORGOTTEN = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
)


class ClassicProtocolMember(GroupMember):
    """One member of `group_id`, subscribed to topics."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        to: Subscription,
        settings: GroupMemberSettings,
        *,
        on_assigned: Callable[[list[TopicPartition]], None],
        on_revoked: Callable[[], None],
        on_failed: Callable[[KafkaError], None] = lambda error: None,
        purpose: str = "",
    ) -> None:
        identity = GroupIdentity(group_id, instance_id=settings.instance_id)
        super().__init__(client, identity, settings, on_failed, purpose)
        self._pattern: TopicPattern | None = None
        self._matched_ms = 0.0
        """When the pattern was last matched against all topics."""
        self._topics: list[str] = []
        self.subscribe(to)
        self._joined_for = self._topics
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._counts: dict[str, int] | None = None
        """How many partitions each of the group's topics had when this member, its leader, assigned them."""
        self._learning = False

    def __repr__(self) -> str:
        return f"ClassicProtocolMember({self.identity} stable={self.is_stable})"

    def subscribe(self, to: Subscription) -> None:
        """To these, instead: it joins again where its next heartbeat is due. Raises `ValueError` where a
        pattern is no regular expression."""
        self._pattern = to if isinstance(to, TopicPattern) else None
        if self._pattern is not None:
            check_pattern(self._pattern)
        self._topics = [] if isinstance(to, TopicPattern) else list(to)
        self._matched_ms = -math.inf

    def _farewell(self) -> Message | None:
        """A static member says nothing: it may come back while its session lasts (KIP-345)."""
        if not self.identity.member_id or self.identity.instance_id is not None:
            return None
        return leave_group(self._client.newest, self.identity.group_id, self.identity.member_id)

    # -- the life --------------------------------------------------------------------------------

    async def _stay(self) -> None:
        while not self._left:
            try:
                if not self.is_stable:
                    await self._join()
                    await self._client.tasks.sleep(self._settings.heartbeat_interval_ms)
                await self._beat()
            except Cancelled:
                raise
            except ChannelError as error:
                self._client.forget_coordinator(GROUP, self.identity.group_id)
                self._log("group.unreachable", error)
                await self._client.tasks.sleep(GROUP_RETRY_MS)
            except MalformedError as error:
                code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
                self._fail(KafkaError(code, f"what others of its group said: {error}"))
                return
            except KafkaError as error:
                if not await self._recover(error):
                    return

    async def _recover(self, error: KafkaError) -> bool:
        """Prepare to join again; False where the group refuses for good."""
        if error.code in COORDINATOR_MOVED:
            self._client.forget_coordinator(GROUP, self.identity.group_id)
            await self._client.tasks.sleep(GROUP_RETRY_MS)
        elif error.code in FORGOTTEN:
            # The partitions may be another's by now: what is theirs must not be committed.
            self._revoke()
            # Of another generation it may still be a member: as a new one it would wait for its own end.
            member_id = (
                self.identity.member_id if error.code == ErrorCode.ILLEGAL_GENERATION else ""
            )
            self._become(member_id, -1)
            if error.code == ErrorCode.FENCED_INSTANCE_ID:
                self._fail(error)
                return False
        elif error.code == ErrorCode.MEMBER_ID_REQUIRED:
            return True
        elif error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._revoke()
        elif error.retriable:
            await self._client.tasks.sleep(GROUP_RETRY_MS)
        else:
            self._fail(error)
            return False
        return True

    async def _join(self) -> None:
        if self._pattern is not None and self._matched_ms == -math.inf:
            await self._match()
        self._joined_for = self._topics
        metadata = write_subscription(self._topics)
        request = JoinGroupRequest(
            group_id=self.identity.group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms,
            member_id=self.identity.member_id,
            group_instance_id=self.identity.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in self._settings.assignors
            ],
        )
        timeout_ms = self._settings.rebalance_timeout_ms + 5_000.0
        joined: JoinGroupResponse = await self._ask(request, timeout_ms)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._become(joined.member_id, -1)
        raise_for(joined.error_code, f"joining group {self.identity.group_id}")
        self._become(joined.member_id, joined.generation_id)
        assignments: list[SyncGroupRequestAssignment] = []
        self._counts = None
        if joined.leader == joined.member_id:
            assignments = await self._assign(joined)
        sync = SyncGroupRequest(
            group_id=self.identity.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.identity.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        synced: SyncGroupResponse = await self._ask(sync, timeout_ms)
        raise_for(synced.error_code, f"syncing group {self.identity.group_id}")
        assigned = read_assignment(bytes(synced.assignment))
        self.is_stable = True
        self._on_assigned(assigned)

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        said = {m.member_id: read_subscription(bytes(m.metadata)) for m in joined.members}
        order = in_turn({m.member_id: m.group_instance_id for m in joined.members})
        subscriptions = {member: said[member] for member in order}
        topics = sorted({topic for wanted in subscriptions.values() for topic in wanted})
        await self._client.cluster.refresh(topics)
        known = self._client.cluster.topics
        counts = {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}
        self._counts = counts
        if joined.skip_assignment:
            return []
        assign = ASSIGNORS[joined.protocol_name or "range"]
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=write_assignment(partitions))
            for member, partitions in assign(subscriptions, counts).items()
        ]

    async def _beat(self) -> None:
        """Until the coordinator says that something has changed (which it does by an error), or the topics
        have: the leader then joins again, which makes the group rebalance. So does who wants others."""
        while True:
            self._maybe_match()
            if self._joined_for is not self._topics or self._topics_changed():
                self._revoke()
                return
            request = HeartbeatRequest(
                group_id=self.identity.group_id,
                generation_id=self.identity.generation,
                member_id=self.identity.member_id,
                group_instance_id=self.identity.instance_id,
            )
            response = await self._ask(request)
            raise_for(response.error_code, f"heartbeat of group {self.identity.group_id}")
            await self._client.tasks.sleep(self._settings.heartbeat_interval_ms)

    def _topics_changed(self) -> bool:
        """Whether there is more, or less, to assign than this member assigned as its group's leader."""
        counts, known = self._counts, self._client.cluster.topics
        if not counts:
            return False
        if not self._learning:
            self._learning = True
            self._client.tasks.start(self._learn(list(counts)))
        return any(
            topic in known
            and known[topic].error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            and len(known[topic].partitions) != count
            for topic, count in counts.items()
        )

    async def _learn(self, topics: list[str]) -> None:
        """See that what is known of `topics` is not too old, and look for those that did not exist."""
        try:
            await self._client.cluster.ensure(topics)
        except ChannelError as error:
            self._log("group.no_metadata", error)
        finally:
            self._learning = False

    def _maybe_match(self) -> None:
        """Topics that come later are found as metadata age."""
        due_ms = self._matched_ms + self._client.cluster.max_age_ms
        if self._pattern is not None and not self._learning and self._client.now_ms() >= due_ms:
            self._learning = True
            self._client.tasks.start(self._match_again())

    async def _match_again(self) -> None:
        try:
            await self._match()
        except ChannelError as error:
            self._log("group.no_metadata", error)
        finally:
            self._learning = False

    async def _match(self) -> None:
        """The topics that the pattern matches now; internal ones are not for it."""
        cluster, pattern = self._client.cluster, self._pattern
        await cluster.refresh(every=True)
        if pattern is None or pattern is not self._pattern:
            return
        topics = matched_topics(pattern, cluster.topics)
        self._matched_ms = self._client.now_ms()
        if topics != self._topics:
            self._topics = topics

    def _become(self, member_id: str, generation: int) -> None:
        self.identity = self.identity._replace(member_id=member_id, generation=generation)

    def _give_up_all(self) -> None:
        self._revoke()

    def _revoke(self) -> None:
        if self.is_stable:
            self.is_stable = False
            self._on_revoked()


def check_pattern(pattern: TopicPattern) -> None:
    """Raises `ValueError`."""
    try:
        re.compile(pattern.regex)
    except re.error as fault:
        raise ValueError(f"{pattern.regex!r} is no regular expression: {fault}") from fault


def matched_topics(pattern: TopicPattern, topics: Mapping[str, TopicMetadata]) -> list[str]:
    """Those that exist, but for internal ones, whose whole name matches."""
    compiled = re.compile(pattern.regex)
    return sorted(
        name
        for name, topic in topics.items()
        if not topic.error and not topic.internal and compiled.fullmatch(name)
    )
