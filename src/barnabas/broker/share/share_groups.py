"""The parts of a broker that serve share groups, connected.

Handlers get them with the first request of a share group. This module also has the operations on
groups that need share coordinators. Such an operation is decided in the group's coordinator; when
that is committed, share coordinators are asked; and a second operation of the group notes the
result.

Source: the parts of Kafka's ``BrokerServer`` and ``GroupCoordinatorService`` that share groups need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from barnabas.broker.coordinator.coordinator_log import begin_leading, end_leading
from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.share_coordinator import ShareCoordinators
from barnabas.broker.replicas.topic_configs import TopicConfigs
from barnabas.broker.share.dead_letter_topics import DeadLetterTopics
from barnabas.broker.share.dead_letters import DeadLetters
from barnabas.broker.share.led_partitions import LedPartitions
from barnabas.broker.share.share_fetches import ShareFetches
from barnabas.broker.share.state_client import StateClient
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.share import heartbeat, offsets
from barnabas.group.share.heartbeat import Initialization
from barnabas.metadata.features import SHARE_VERSION
from barnabas.share.key import SharePartitionKey
from barnabas.types import SHARE_STATE_TOPIC, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.controller_client.auto_topic_creation import AutoTopicCreation
    from barnabas.broker.coordinator.group_coordinator import GroupCoordinators
    from barnabas.broker.coordinator.hashed_partitions import HashedPartitions
    from barnabas.broker.deadlines import Deadlines
    from barnabas.broker.partitions.partition import Partition
    from barnabas.broker.replicas.replica_table import ReplicaTable
    from barnabas.broker.transaction.transactions import Transactions
    from barnabas.config.node import NodeConfig
    from barnabas.group.share.state_topics import Partitions
    from barnabas.metadata.image.image import MetadataImage
    from barnabas.metadata.image.image_changes import ImageChanges
    from barnabas.ports import Ports
    from barnabas.wire.messages.alter_share_group_offsets_request import (
        AlterShareGroupOffsetsRequest,
    )
    from barnabas.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

Errors = dict[SharePartitionKey, KafkaError]
OnReply = Callable[["Message | KafkaError"], None]


class ShareHost(Protocol):
    """The part of the broker that its share groups need."""

    @property
    def ports(self) -> Ports: ...
    @property
    def config(self) -> NodeConfig: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def deadlines(self) -> Deadlines: ...
    @property
    def replicas(self) -> ReplicaTable: ...
    @property
    def hashed(self) -> HashedPartitions: ...
    @property
    def auto_topics(self) -> AutoTopicCreation: ...
    @property
    def transactions(self) -> Transactions: ...
    @property
    def groups(self) -> GroupCoordinators: ...
    def broker_texts(self) -> Mapping[str, str]: ...


class ShareGroups:
    """The coordinators, share partitions and sessions of one broker."""

    def __init__(self, broker: ShareHost) -> None:
        config, ports = broker.config, broker.ports
        self._broker = broker
        self.coordinators = ShareCoordinators(
            config,
            ports,
            partial(broker.hashed.of, SHARE_STATE_TOPIC),
            partial(broker.replicas.waits_to_lead, SHARE_STATE_TOPIC),
            broker.groups.cluster.partitions_of,
            self._delete_records,
        )
        self.client = StateClient(
            ports,
            broker.transactions.peers,
            self.coordinator_of,
            partial(broker.auto_topics.create_own, [SHARE_STATE_TOPIC]),
            config.broker.request_timeout_ms,
        )
        cluster, peers = broker.groups.cluster, broker.transactions.peers
        topics = DeadLetterTopics(
            cluster, broker.broker_texts, TopicConfigs(broker.image, broker.broker_texts).log_config
        )
        self.dead_letters = DeadLetters(
            ports, peers, topics, broker.auto_topics.create_one, config.broker.request_timeout_ms
        )
        self.led = LedPartitions(
            ports, broker.deadlines, broker.replicas, self.client, cluster, self.dead_letters
        )
        sessions_max = cast(int, config.values["group.share.max.share.sessions"])
        self.fetches = ShareFetches(ports, broker.deadlines, self.led, sessions_max)

    def __repr__(self) -> str:
        return f"ShareGroups({self.coordinators!r}, {self.fetches!r})"

    def describe(self) -> dict[str, object]:
        """The state of the parts, for tools and failing tests."""
        return {"coordinators": self.coordinators.describe(), "led": self.led.describe()}

    def validate(self) -> None:
        """Raises AssertionError if one of the parts breaks an invariant."""
        for shard in self.coordinators.shards.values():
            if shard.active:
                shard.machine.validate()
        self.led.validate()
        self.fetches.sessions.validate()

    @property
    def is_enabled(self) -> bool:
        """Whether the cluster's ``share.version`` is 1 or more."""
        return self._broker.image.features.get(SHARE_VERSION, 0) >= 1

    def coordinator_of(self, key: str) -> int | None:
        """The broker that coordinates a share partition; None while there is none."""
        topic = self._broker.image.topics_by_name.get(SHARE_STATE_TOPIC)
        index = self._broker.hashed.partition_for(SHARE_STATE_TOPIC, key)
        if topic is None or not topic.has(index):
            return None
        leader: int = topic.leader[index]
        known = self._broker.image.brokers.get(leader)
        return leader if known is not None and not known.fenced else None

    def _delete_records(self, index: int, offset: int) -> None:
        partition, code = self._broker.replicas.find((SHARE_STATE_TOPIC, index))
        if partition is None:
            raise KafkaError(code, "no replica here")
        partition.delete_records(offset)

    # What the broker tells

    def on_leadership(self, partition: Partition, epoch: int | None) -> None:
        """This broker begins or ceases to lead a partition of ``__share_group_state``."""
        if epoch is None:
            end_leading(self.coordinators, partition)
        else:
            begin_leading(self.coordinators, partition)

    def on_metadata(self, changes: ImageChanges) -> None:
        """Take note of changes that the image's committed records made."""
        if changes.partitions or changes.topics_deleted or changes.everything:
            self.led.on_metadata()
        if changes.topics_deleted:
            self.coordinators.on_topics_deleted(changes.topics_deleted)
            gone = frozenset(changes.topics_deleted)

            def delete(machine: GroupMachine, at: Instant) -> GroupOutcome:
                return GroupOutcome(offsets.delete_topics(machine.table, gone), atomic=False)

            self._broker.groups.write_all(delete)

    def close(self) -> None:
        """The broker ends: answer all requests that wait."""
        self.led.close()
        self.dead_letters.close()
        self.client.close()
        self.coordinators.close()

    # Groups

    def beat(self, request: ShareGroupHeartbeatRequest, caller: Caller, on_reply: OnReply) -> None:
        """Serve a member's heartbeat. Partitions without state are initialized after the answer."""
        wanted: list[Initialization] = []

        def decide(machine: GroupMachine, at: Instant) -> GroupOutcome:
            outcome, missing = heartbeat.heartbeat(machine.table, request, caller, at)
            if missing is not None:
                wanted.append(missing)
            return outcome

        def done(result: Message | KafkaError | None) -> None:
            if result is not None:
                on_reply(result)
            if wanted and not isinstance(result, KafkaError):
                self.initialize(wanted[0], lambda errors: None)

        self._broker.groups.write(request.group_id, decide, done)

    def initialize(self, wanted: Initialization, on_done: Callable[[Errors], None]) -> None:
        """Ask share coordinators to begin states, and note in the group which have begun."""
        group_id = wanted.group_id
        asked = {
            SharePartitionKey(group_id, topic_id, index): start
            for topic_id, starts in wanted.offsets.items()
            for index, start in starts.items()
        }

        def settled(errors: Errors) -> None:
            done = _by_topic(key for key in asked if key not in errors)
            failed = _by_topic(errors)

            def noted(refusal: KafkaError | None) -> None:
                if refusal is not None:
                    on_done(dict.fromkeys(asked, refusal) | errors)
                else:
                    on_done(errors)

            # The second note is committed after the first, so that the answer waits for both.
            not_begun = partial(offsets.on_not_initialized, failed=failed)
            begun = partial(offsets.on_initialized, done=done)
            self._note(group_id, not_begun, lambda _: None, wanted=bool(failed))
            self._note(group_id, begun, noted, wanted=bool(done))

        def ask(key: SharePartitionKey, answered: Callable[[Any], None]) -> None:
            self.client.initialize(key, wanted.state_epoch, asked[key], answered)

        _ask_all(asked, ask, settled)

    def _note(
        self,
        group_id: str,
        operation: Callable[..., GroupOutcome],
        on_noted: Callable[[KafkaError | None], None],
        *,
        wanted: bool,
    ) -> None:
        """Note in the group what share coordinators did. `on_noted` is called when that is committed, so that
        who has the answer also reads it; with the error if it was refused."""
        if not wanted:
            on_noted(None)
            return

        def done(result: Message | KafkaError | None) -> None:
            on_noted(result if isinstance(result, KafkaError) else None)

        self._broker.groups.write(
            group_id, lambda machine, at: operation(machine.table, group_id), done
        )

    def alter(
        self,
        request: AlterShareGroupOffsetsRequest,
        on_reply: Callable[[Message | KafkaError, Errors], None],
    ) -> None:
        """Serve AlterShareGroupOffsets; the answer includes the errors of share coordinators."""
        wanted: list[Initialization] = []

        def decide(machine: GroupMachine, at: Instant) -> GroupOutcome:
            outcome, missing = offsets.alter(machine.table, request, at)
            if missing is not None:
                wanted.append(missing)
            return outcome

        def done(result: Message | KafkaError | None) -> None:
            assert result is not None
            if isinstance(result, KafkaError) or not wanted:
                on_reply(result, {})
            else:
                self.initialize(wanted[0], partial(on_reply, result))

        self._broker.groups.write(request.group_id, decide, done)

    def delete_offsets(
        self,
        group_id: str,
        names: list[str],
        on_done: Callable[[KafkaError | None, Mapping[Uuid, KafkaError | None], list[Any]], None],
    ) -> None:
        """Serve DeleteShareGroupOffsets. `on_done` gets the error of the whole request, or the
        outcome by topic id and the answers of topics without offsets."""
        wanted: dict[Uuid, frozenset[int]] = {}
        refused: list[Any] = []

        def decide(machine: GroupMachine, at: Instant) -> GroupOutcome:
            outcome, partitions, answers = offsets.begin_delete(machine.table, group_id, names)
            wanted.update(partitions)
            refused.extend(answers)
            return outcome

        def done(result: Message | KafkaError | None) -> None:
            if isinstance(result, KafkaError):
                on_done(result, {}, [])
                return
            self._delete_states(group_id, wanted, settled)

        def settled(errors: Errors) -> None:
            failed = {key.topic_id: error for key, error in errors.items()}
            gone = frozenset(topic_id for topic_id in wanted if topic_id not in failed)

            def noted(refusal: KafkaError | None) -> None:
                outcome = {topic_id: failed.get(topic_id, refusal) for topic_id in wanted}
                on_done(None, outcome, refused)

            deleted = partial(offsets.on_deleted, topic_ids=gone)
            self._note(group_id, deleted, noted, wanted=bool(gone))

        self._broker.groups.write(group_id, decide, done)

    def end_states(self, group_id: str, on_done: Callable[[KafkaError | None], None]) -> None:
        """Ask share coordinators to delete a group's states, before the group is deleted."""
        wanted: dict[Uuid, frozenset[int]] = {}

        def decide(machine: GroupMachine, at: Instant) -> GroupOutcome:
            outcome, partitions = offsets.begin_delete_group(machine.table, group_id)
            wanted.update(partitions)
            return outcome

        def done(result: Message | KafkaError | None) -> None:
            if isinstance(result, KafkaError):
                on_done(result)
                return
            self._delete_states(group_id, wanted, settled)

        def settled(errors: Errors) -> None:
            on_done(next(iter(errors.values()), None))

        self._broker.groups.write(group_id, decide, done)

    def _delete_states(
        self, group_id: str, wanted: Partitions, on_done: Callable[[Errors], None]
    ) -> None:
        keys = [
            SharePartitionKey(group_id, topic_id, index)
            for topic_id, partitions in wanted.items()
            for index in sorted(partitions)
        ]
        _ask_all(keys, self.client.delete, lambda errors: on_done(not_deleted(errors)))


def not_deleted(errors: Errors) -> Errors:
    """The states that still exist. A topic's deletion has deleted its states."""
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {key: error for key, error in errors.items() if error.code != gone}


def _ask_all(
    keys: Iterable[SharePartitionKey],
    ask: Callable[[SharePartitionKey, Callable[[Any], None]], None],
    on_done: Callable[[Errors], None],
) -> None:
    """Ask for each of `keys`; `on_done` gets the errors once all are answered."""
    errors: Errors = {}
    asked = list(keys)
    left = len(asked)
    if not left:
        on_done(errors)
        return

    def answered(key: SharePartitionKey, result: Any) -> None:
        nonlocal left
        left -= 1
        if isinstance(result, KafkaError):
            errors[key] = result
        if not left:
            on_done(errors)

    for key in asked:
        ask(key, partial(answered, key))


def _by_topic(keys: Iterable[SharePartitionKey]) -> dict[Uuid, frozenset[int]]:
    found: dict[Uuid, set[int]] = {}
    for key in keys:
        found.setdefault(key.topic_id, set()).add(key.partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
