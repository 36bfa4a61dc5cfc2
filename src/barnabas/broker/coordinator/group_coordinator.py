"""The group coordinators of a broker, and what the group APIs need of it.

Owns the wiring of :class:`~barnabas.group.machine.GroupMachine` into
:class:`~barnabas.broker.coordinator.coordinators.Coordinators`; the rules are the machine's, the requests'
forms the handlers'.

Source: Kafka's ``GroupCoordinatorService``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from barnabas.broker.coordinator.coordinators import Coordinators, Instant, Operation
from barnabas.config.node import NodeConfig
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.group_table import GroupCounters
from barnabas.group.machine import GroupMachine, GroupObserver
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.ports import Ports
from barnabas.security.authorization import acls
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.types import OFFSETS_TOPIC, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.schema import Message


class ClusterSource(Protocol):
    """The part of the broker that consumer groups need."""

    @property
    def image(self) -> MetadataImage: ...
    def broker_texts(self) -> Mapping[str, str]: ...


class GroupCoordinators(Coordinators[GroupMachine]):
    """A group machine per partition of ``__consumer_offsets`` that this broker leads."""

    def __init__(
        self,
        config: NodeConfig,
        ports: Ports,
        partition_count: Callable[[], int] | None = None,
        source: ClusterSource | None = None,
        waits_to_lead: Callable[[int], bool] = lambda partition: False,
    ) -> None:
        """`partition_count` and `waits_to_lead`: of ``__consumer_offsets``; ``offsets.topic.num.partitions``
        where no count is given. `source` has the topics and what is configured; there are none where not
        given."""
        self.settings = config.groups
        if source is None:
            self.cluster = ClusterTopics(broker_texts=lambda: config.texts)
        else:
            self.cluster = ClusterTopics(source.image, source.broker_texts)
        offsets, rng = config.offsets, ports.rng("group-member-ids")
        self.counters = counters = GroupCounters()
        self._observers: list[GroupObserver] = []
        super().__init__(
            OFFSETS_TOPIC,
            ports,
            lambda: GroupMachine(
                config.groups, offsets, rng, self.cluster, counters, self._observers
            ),
            partition_count or (lambda: offsets.topic_partitions),
            waits_to_lead,
            write_timeout_ms=offsets.commit_timeout_ms,
            load_bytes=offsets.load_bytes,
            codec=offsets.topic_compression,
        )

    def observe(self, observer: GroupObserver) -> None:
        """Call `observer` from now on with what the machines of all shards decide by themselves."""
        self._observers.append(observer)

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether clients may use the consumer protocol (KIP-848)."""
        return "consumer" in self.settings.protocols and self.cluster.serves_consumer_groups

    @property
    def serves_streams_groups(self) -> bool:
        """Whether clients may use the streams protocol (KIP-1071)."""
        return "streams" in self.settings.protocols and self.cluster.serves_streams_groups

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        """Topics changed: consumer groups look at their metadata with the next heartbeat."""
        if changes.everything:
            self.cluster.changed_entirely()
            names = None
        else:
            new = [
                topic.name for topic in map(image.topics_by_id.get, changes.topics_created) if topic
            ]
            ids = dict.fromkeys(topic_id for topic_id, _ in changes.partitions)
            others = [topic.name for topic in map(image.topics_by_id.get, ids) if topic]
            names = [*new, *others, *changes.topics_deleted.values()]
            self.cluster.changed(names, new=bool(new))
            if not names:
                return
        for shard in self.shards.values():
            shard.machine.table.on_topics_changed(names)

    def on_topics_deleted(self, deleted: Mapping[Uuid, str]) -> None:
        """The topics (name by id) were deleted from the cluster, so their committed offsets are deleted
        too. Other topics may have their names by now."""

        def delete(machine: GroupMachine, at: Instant) -> GroupOutcome:
            return machine.delete_topics(deleted)

        self.write_all(delete)


class GroupRole(Protocol):
    """The part of the broker that handlers of the group APIs need."""

    @property
    def groups(self) -> GroupCoordinators: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def authorizer(self) -> Authorizer | None: ...


def caller_of(ctx: RequestContext, role: GroupRole) -> Caller:
    """The caller as a group remembers its members, with the topics that it may know of."""
    authorizer = role.authorizer
    may_describe = None
    if authorizer is not None:
        may_describe = partial(_may_describe, authorizer, ctx)
    return Caller(ctx.client_id or "", f"/{ctx.peer.host}", ctx.api_version, may_describe)


def _may_describe(authorizer: Authorizer, ctx: RequestContext, topic: str) -> bool:
    """Whether the caller may describe the topic. A denial is not logged, since a topic that a regular
    expression matches by chance is no attempt to see it."""
    return authorizer.may(
        ctx, acls.Operation.DESCRIBE, acls.AclResourceType.TOPIC, topic, audited=False
    )


def check_group_id(group_id: str) -> ErrorCode:
    """INVALID_GROUP_ID for an empty name, which no group with members may have; else NONE."""
    return ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID


def write_group(
    role: GroupRole,
    group_id: str,
    operation: Operation[GroupMachine],
    refused: Callable[[KafkaError], Message],
    adapt: Callable[[Message], Message] | None = None,
) -> Parked:
    """Decide something about a group. The answer is sent when it is committed. `refused` makes the answer
    that carries an error; `adapt` changes one that does not."""
    parked = Parked()

    def done(result: Message | KafkaError | None) -> None:
        if isinstance(result, KafkaError):
            parked.complete(refused(result))
        elif result is not None:
            parked.complete(result if adapt is None else adapt(result))

    role.groups.write(group_id, operation, done)
    return parked


class AdaptedParked(Parked):
    """A parked request that adapts its answer before it is sent."""

    __slots__ = ("_adapt",)

    def __init__(self, adapt: Callable[[Message], Message]) -> None:
        super().__init__()
        self._adapt = adapt

    def complete(self, response: Message | None) -> bool:
        return super().complete(None if response is None else self._adapt(response))


def write_waiting(
    role: GroupRole,
    group_id: str,
    operation: Callable[[GroupMachine, Parked, Instant], GroupOutcome],
    refused: Callable[[KafkaError], Message],
    parked: Parked | None = None,
) -> Parked:
    """Write as `write_group` does, where the group itself answers when it is ready (JoinGroup, SyncGroup).
    `parked` is an ordinary one where not given."""
    waiting = parked or Parked()

    def decide(machine: GroupMachine, at: Instant) -> GroupOutcome:
        return operation(machine, waiting, at)

    def done(result: Message | KafkaError | None) -> None:
        if isinstance(result, KafkaError):
            waiting.complete(refused(result))

    role.groups.write(group_id, decide, done)
    return waiting
