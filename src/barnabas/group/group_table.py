"""The state that the parts of the group machine share: groups, deadlines, and replies.

One table per partition of ``__consumer_offsets``. Functions of `rebalance`, `join`, `sync` and
`membership` take it as their first argument and change it; the machine moves `replies` into the
outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias, cast

from barnabas.config.settings import GroupSettings, OffsetsSettings
from barnabas.group.classic_group import ClassicGroup, ClassicGroupMember
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.timers import Timers
from barnabas.operation import Instant
from barnabas.ports import Rng
from barnabas.timeline import Journal, TimelineMap
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group_response import JoinGroupResponse
from barnabas.wire.messages.sync_group_response import SyncGroupResponse
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.group.share.share_group import ShareGroup
    from barnabas.group.streams.streams_group import StreamsGroup

SHARE_TYPE, STREAMS_TYPE = "share", "streams"
"""The protocol types of the kinds of groups whose modules are loaded with the first such group."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""The time that a new member may wait for its first generation, whatever its session time-out."""


class GroupTimer(IntEnum):
    """The purpose of a deadline."""

    SESSION = 0
    """A member, or an id that has not joined, is removed."""
    JOIN = 1
    """A rebalance continues without the members that have not rejoined."""
    SYNC = 2
    """Members that have not asked for their assignment are removed."""
    EXPIRY = 3
    """Expired offsets are deleted."""
    REBALANCE = 4
    """A member of a consumer group that has not given up its partitions is removed."""
    ASSIGNMENT = 5
    """A consumer group's target assignment may be computed again."""
    CLASSIC_JOIN = 6
    """A member of the classic protocol that has not rejoined its consumer group is removed."""
    CLASSIC_SYNC = 7
    """A member of the classic protocol that has not asked for its assignment is removed."""
    STREAMS_DELAY = 8
    """A new streams group has waited for more members."""


Group: TypeAlias = "ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup"
TimerKey = tuple[GroupTimer, str, str]
"""Kind of deadline, group id, member id."""


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """The payload of a new group's JOIN deadline: the length of this wait, and the time that is
    left."""

    delay_ms: int
    remaining_ms: int


class GroupCounters:
    """Counts since the process began, over all coordinators that the broker has had."""

    __slots__ = (
        "classic_rebalances",
        "consumer_rebalances",
        "share_rebalances",
        "streams_rebalances",
    )

    def __init__(self) -> None:
        self.classic_rebalances = 0
        """Classic groups that became stable with a new assignment."""
        self.consumer_rebalances = 0
        """New epochs of consumer groups."""
        self.share_rebalances = 0
        """New epochs of share groups."""
        self.streams_rebalances = 0
        """New epochs of streams groups that their members' heartbeats began."""

    def __repr__(self) -> str:
        return (
            f"GroupCounters({self.classic_rebalances} classic, {self.consumer_rebalances} consumer)"
        )


class GroupTable:
    """The groups of one partition."""

    __slots__ = (
        "cluster",
        "counters",
        "groups",
        "journal",
        "offsets_settings",
        "replies",
        "rng",
        "settings",
        "timers",
    )

    def __init__(
        self,
        settings: GroupSettings,
        offsets: OffsetsSettings,
        rng: Rng,
        cluster: ClusterTopics | None = None,
        counters: GroupCounters | None = None,
    ) -> None:
        self.settings = settings
        self.cluster = cluster or ClusterTopics()
        self.counters = counters or GroupCounters()
        self.offsets_settings = offsets
        self.rng = rng
        self.journal = Journal()
        self.groups: TimelineMap[str, Group] = TimelineMap(self.journal)
        self.timers: Timers[TimerKey] = Timers()
        self.replies: list[tuple[Parked, Message]] = []

    def __repr__(self) -> str:
        return f"GroupTable({len(self.groups)} groups, {len(self.timers)} deadlines)"

    def take_replies(self) -> list[tuple[Parked, Message]]:
        """Take the replies that were added since the last call."""
        replies, self.replies = self.replies, []
        return replies

    def group(self, group_id: str) -> Group:
        """The group in its newest state. Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise _not_found(group_id)
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group in its newest state, if it is a classic one."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group in its newest state, if it is a consumer group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def share(self, group_id: str) -> ShareGroup | None:
        """The group in its newest state, if it is a share group."""
        group = self.groups.get(group_id)
        if group is None or isinstance(group, (ClassicGroup, ConsumerGroup)):
            return None
        return cast("ShareGroup", group) if group.protocol_type == SHARE_TYPE else None

    def streams(self, group_id: str, *, committed: bool = False) -> StreamsGroup | None:
        """The group in its newest state, or one whose existence is `committed`, if it is a streams
        group."""
        group = self.groups.committed(group_id) if committed else self.groups.get(group_id)
        if group is None or isinstance(group, (ClassicGroup, ConsumerGroup)):
            return None
        return cast("StreamsGroup", group) if group.protocol_type == STREAMS_TYPE else None

    def running_consumer(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group, if it has members: for members of the classic protocol an empty one
        does not exist."""
        group = self.consumer(group_id)
        return None if group is None or group.is_empty else group

    def on_topics_changed(self, names: Sequence[str] | None) -> None:
        """Topics were created, deleted or got more partitions; if `names` is None, any may have
        changed."""
        for _, group in self.groups.items():
            if not isinstance(group, ClassicGroup) and (
                names is None or any(group.watches(name) for name in names)
            ):
                group.request_refresh()

    def committed_group(self, group_id: str) -> Group:
        """A group whose existence is committed. Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.committed(group_id)
        if group is None:
            raise _not_found(group_id)
        return group

    def group_or_new(self, group_id: str, at: Instant) -> Group:
        """The group; a new classic one if there is none. A refused append removes it again."""
        group = self.groups.get(group_id)
        if group is None:
            group = ClassicGroup(group_id, at.wall_ms)
            self.groups.put(group_id, group)
        return group

    def classic_or_new(self, group_id: str, at: Instant) -> ClassicGroup:
        """The classic group, as `group_or_new`. The group must not be of another kind."""
        group = self.group_or_new(group_id, at)
        assert isinstance(group, ClassicGroup), f"{group!r} is no classic group"
        return group

    def new_member_id(self, prefix: str) -> str:
        """``<client id or instance id>-<random UUID>``."""
        return f"{prefix}-{self.random_uuid()}"

    def random_uuid(self) -> str:
        """A random UUID as Java prints it."""
        bits = self.rng.getrandbits(128)
        bits = bits & ~(0xF << 76) | (4 << 76)  # version 4
        bits = bits & ~(0x3 << 62) | (2 << 62)  # the usual variant
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def answer(self, parked: Parked, response: Message) -> None:
        """Add a reply for a request that waits."""
        self.replies.append((parked, response))

    def answer_join(self, member: ClassicGroupMember, response: JoinGroupResponse) -> None:
        """Answer the member's JoinGroup, if one waits."""
        if member.parked_join is not None:
            self.answer(member.parked_join, response)
            member.parked_join = None

    def answer_sync(self, member: ClassicGroupMember, response: SyncGroupResponse) -> bool:
        """Answer the member's SyncGroup, if one waits."""
        if member.parked_sync is None:
            return False
        self.answer(member.parked_sync, response)
        member.parked_sync = None
        return True

    def keep_alive(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        at: Instant,
        timeout_ms: int | None = None,
    ) -> None:
        """The member sent a request: its session begins again."""
        lasts_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        key = (GroupTimer.SESSION, group.group_id, member.member_id)
        self.timers.schedule(key, at.now_ms + lasts_ms)

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        """Cancel the deadline of the member's session."""
        self.timers.cancel((GroupTimer.SESSION, group.group_id, member_id))


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
