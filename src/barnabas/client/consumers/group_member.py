"""Membership in a classic consumer group: join, sync, heartbeat, again. Sans-IO.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.legacy_requests import leave_group
from barnabas.client.network.tasks import Cancelled, Task, TaskOutcome
from barnabas.client.offsets import GroupIdentity
from barnabas.types import TopicPartition
from barnabas.wire.codec import MalformedError
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.join_group_response import JoinGroupResponse
from barnabas.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.messages.sync_group_response import SyncGroupResponse

FORGOTTEN = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
)
RETRY_MS = 50.0
CLASSIC, CONSUMER = "classic", "consumer"
"""Protocols of groups."""


@dataclass(frozen=True, slots=True)
class GroupMemberSettings:
    """Kafka's consumer configuration where it has it."""

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: float = 3_000.0
    assignors: Sequence[str] = ("range", "roundrobin")
    instance_id: str | None = None
    protocol: str = CLASSIC
    """``group.protocol``: with `CONSUMER` the coordinator assigns (KIP-848), says how often heartbeats are
    due, and how long a session lasts."""
    remote_assignor: str | None = None
    """``group.remote.assignor``: the coordinator's default where there is none."""
    rack_id: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in (CLASSIC, CONSUMER):
            raise ValueError(f"there is no group protocol {self.protocol!r}")


class GroupMember:
    """One member of `group_id`, subscribed to `topics`."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        settings: GroupMemberSettings = GroupMemberSettings(),
        *,
        on_assigned: Callable[[list[TopicPartition]], None],
        on_revoked: Callable[[], None],
        on_failed: Callable[[KafkaError], None] = lambda error: None,
        purpose: str = "",
    ) -> None:
        """`on_failed`: the group refused it for good, and it is no member any more. `purpose` names a
        connection of its own: a JoinGroup that waits holds up all responses behind it."""
        self.identity = GroupIdentity(group_id, instance_id=settings.instance_id)
        self.is_stable = False
        """Whether it has its partitions and no rebalance is known of."""
        self.failure: KafkaError | None = None
        """Why it is no member any more, where the group refused it for good."""
        self._client = client
        self._topics = self._joined_for = list(topics)
        self._settings = settings
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_failed = on_failed
        self._counts: dict[str, int] | None = None
        """How many partitions each of the group's topics had when this member, its leader, assigned them."""
        self._learning = False
        self._left = False
        self._task: Task[None] | None = None
        self._purpose = purpose or f"group {group_id}"

    def __repr__(self) -> str:
        return f"GroupMember({self.identity} stable={self.is_stable})"

    def start(self) -> None:
        self._task = self._client.tasks.start(self._live())

    def subscribe(self, topics: Sequence[str]) -> None:
        """To these, instead: it joins again where its next heartbeat is due."""
        self._topics = list(topics)

    async def leave(self) -> None:
        """Give up the partitions and say so; the group rebalances at once. A static member says nothing: it
        may come back while its session lasts (KIP-345)."""
        self._left = True
        if self._task is not None:
            self._task.cancel()
        try:
            self._revoke()
        finally:  # what the program's callback raises is no reason for the others to wait
            await self._say_goodbye()

    async def _say_goodbye(self) -> None:
        if not self.identity.member_id or self.identity.instance_id is not None:
            return
        request = leave_group(self._client.newest, self.identity.group_id, self.identity.member_id)
        try:
            await self._ask(request)
        except (ChannelError, KafkaError) as error:
            self._log("group.leave_failed", error, "warning")  # its session ends by itself

    # -- the life --------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            await self._go_on()
        except Cancelled:
            raise
        except Exception as fault:  # noqa: BLE001 - a callback's: others get its partitions soon
            self._client.tasks.on_lost(fault)
            why = f"its member ended with {fault!r}"
            self._fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why))

    async def _go_on(self) -> None:
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
                await self._client.tasks.sleep(RETRY_MS)
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
            await self._client.tasks.sleep(RETRY_MS)
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
            await self._client.tasks.sleep(RETRY_MS)
        else:
            self._fail(error)
            return False
        return True

    def _fail(self, error: KafkaError) -> None:
        """It is a member no longer, for good."""
        try:
            self._revoke()
        finally:
            self.failure = error
            self._log("group.refused", error, "error")
            self._on_failed(error)

    async def _join(self) -> None:
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
        """What is known of `topics` is not too old, and those that did not exist are looked for."""
        try:
            await self._client.cluster.ensure(topics)
        except ChannelError as error:
            self._log("group.no_metadata", error)
        finally:
            self._learning = False

    def _become(self, member_id: str, generation: int) -> None:
        self.identity = self.identity._replace(member_id=member_id, generation=generation)

    def _revoke(self) -> None:
        if self.is_stable:
            self.is_stable = False
            self._on_revoked()

    async def _ask(self, request: Any, timeout_ms: float | None = None) -> Any:
        endpoint = await self._client.coordinator(GROUP, self.identity.group_id)
        outcome: TaskOutcome[Any] = TaskOutcome()
        timeout = self._settings.session_timeout_ms if timeout_ms is None else timeout_ms
        self._client.channels.send(
            endpoint, request, outcome.settle, timeout_ms=timeout, purpose=self._purpose
        )
        return await outcome

    def _log(self, event: str, error: Exception, level: str = "debug") -> None:
        self._client.ports.log(level, event, group=self.identity.group_id, error=str(error))
