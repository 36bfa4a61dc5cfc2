"""The controller's orders in their sequence: refused where they are of an older controller, then replayed.

A broker obeys the newest controller it has heard of: an order with a lower controller epoch, or for
another incarnation of this broker, is refused. Orders are followed one after the other; one that names
topics which the image does not have yet waits until their configurations have been read, so that a
replica never begins with another ``min.insync.replicas`` than its topic's.

Source: Kafka's ``ZkSupport``, ``ReplicaManager`` (controllerEpoch) and
``KafkaApis.handleLeaderAndIsrRequest``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from barnabas.broker.replicas.replica_table import ReplicaTable
from barnabas.metadata.image.image import TOPIC, MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.ports import Ports
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.kafka39.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.wire.messages.kafka39.leader_and_isr_response import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.wire.messages.kafka39.stop_replica_request import StopReplicaRequest
from barnabas.wire.messages.kafka39.stop_replica_response import (
    StopReplicaPartitionError,
    StopReplicaResponse,
)
from barnabas.wire.messages.kafka39.update_metadata_request import UpdateMetadataRequest
from barnabas.wire.messages.kafka39.update_metadata_response import UpdateMetadataResponse
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message
from barnabas.zookeeper.broker.metadata_records import (
    FULL,
    Incarnation,
    lacks_topic_ids,
    new_topics,
    of_leader_and_isr,
    of_stop_replica,
    of_update_metadata,
    stopped_partitions,
)

Configs = Mapping[str, Mapping[str, str]]
"""The configurations by topic."""
ReadConfigs = Callable[[Sequence[str], Callable[[Configs], None]], None]


class ControlTarget(Protocol):
    """The broker as orders reach it."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def replicas(self) -> ReplicaTable: ...
    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None: ...


class ControlRequests:
    """The orders of the controller, and what was done about them."""

    def __init__(
        self,
        ports: Ports,
        target: ControlTarget,
        incarnation: Callable[[bool], Incarnation],
        read_configs: ReadConfigs,
    ) -> None:
        """`incarnation` is this broker's registration: in ZooKeeper, or (True) with the quorum to which the
        cluster migrates."""
        self._ports = ports
        self._target = target
        self._incarnation = incarnation
        self._read_configs = read_configs
        self._waiting: deque[tuple[Any, Parked]] = deque()
        self._busy = False
        self.controller_epoch = -1
        self.controller_id = -1
        self.is_kraft = False
        """Whether that controller is a KRaft controller, which has taken the cluster over (KIP-866)."""
        self._has_metadata = False
        """Whether an UpdateMetadata has come since this process started."""
        self._refused_epoch = -1
        """The epoch of the controller whose orders without topic ids were logged."""

    def handle(self, request: Any) -> Parked:
        """Follow the order in its turn. Raises STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, and
        UNSUPPORTED_VERSION where its topics have no ids."""
        self._check(request)
        self.controller_epoch = request.controller_epoch
        self.controller_id = request.controller_id
        self.is_kraft = request.is_k_raft_controller
        if lacks_topic_ids(request):
            self._refuse_without_ids(request)
        parked = Parked()
        self._waiting.append((request, parked))
        self._pump()
        return parked

    def _check(self, request: Any) -> None:
        if request.controller_epoch < self.controller_epoch:
            raise KafkaError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"controller {request.controller_id} has epoch {request.controller_epoch}; the"
                f" newest is {self.controller_id} with {self.controller_epoch}",
            )
        epoch = self._incarnation(request.is_k_raft_controller).broker_epoch
        if 0 <= request.broker_epoch < epoch or (request.broker_epoch >= 0 and epoch < 0):
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"this broker has epoch {epoch}, not {request.broker_epoch}",
            )

    def _refuse_without_ids(self, request: Any) -> None:
        """Nothing is changed: without an id a replica may be one of an earlier topic with that name."""
        why = (
            f"controller {request.controller_id} orders topics without ids: brokers of Kafka need"
            " inter.broker.protocol.version 2.8 or later where one of them is controller"
        )
        if request.controller_epoch != self._refused_epoch:
            self._refused_epoch = request.controller_epoch
            self._ports.log("error", "controller.order_refused", why=why)
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)

    def _pump(self) -> None:
        if self._busy or not self._waiting:
            return
        self._busy = True
        request, parked = self._waiting.popleft()
        new = new_topics(self._target.image, request)
        if new:
            self._read_configs(new, partial(self._obey, request, parked))
        else:
            self._obey(request, parked, {})

    def _obey(self, request: Any, parked: Parked, configs: Configs) -> None:
        try:
            if request.controller_epoch < self.controller_epoch:
                parked.complete(_refusal(request, ErrorCode.STALE_CONTROLLER_EPOCH))
                return
            self.replay(self._records(request, configs))
            if isinstance(request, StopReplicaRequest):
                self._when_stopped(request, parked)
            elif (
                isinstance(request, LeaderAndIsrRequest) and self._target.replicas.logs.any_offline
            ):
                # Which replicas are offline is known when they had their turn.
                waiting = self._target.replicas.apply_queue
                waiting.when_done(partial(self._complete, request, parked))
            else:
                parked.complete(self._answer(request))
        finally:
            self._busy = False
            if self._waiting:
                self._ports.wakeups.call_soon(self._pump)

    def _records(self, request: Any, configs: Configs) -> list[Message]:
        image, me = self._target.image, self._incarnation(request.is_k_raft_controller)
        if isinstance(request, UpdateMetadataRequest):
            records = of_update_metadata(image, request, me)
            self._note_unnamed(is_full=request.type == FULL)
            for topic in request.topic_states:
                image.incomplete_topics.pop(topic.topic_name, None)
        elif isinstance(request, LeaderAndIsrRequest):
            for named in request.topic_states:
                known = image.topics_by_name.get(named.topic_name)
                if known is None or known.id != Uuid(named.topic_id):
                    image.incomplete_topics[named.topic_name] = None
            records = of_leader_and_isr(image, request)
            self._note_new(request)
        else:
            records = of_stop_replica(image, request, me.node_id)
        for name in sorted(
            configs
        ):  # a topic of that name that went in this order took its own along
            records += _config_records(TOPIC, name, {}, configs[name])
        return records

    def _note_unnamed(self, *, is_full: bool) -> None:
        """Controllers of Kafka, and one that cannot read a topic's znodes, do not say that they name all."""
        if is_full or not self._has_metadata:
            self._has_metadata = True
            self._target.replicas.keeps_unnamed_logs = not is_full

    def _note_new(self, request: LeaderAndIsrRequest) -> None:
        new = self._target.replicas.directories.first_assigned
        by_id = self._target.replicas.by_id
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = (Uuid(topic.topic_id), state.partition_index)
                if state.is_new and key not in by_id:
                    new[key] = None

    def replay(self, records: Sequence[Message]) -> None:
        """Replay records as one batch: readers see all of it or nothing."""
        if not records:
            return
        image = self._target.image
        wall_ms = self._ports.clock.wall_ms()
        image.replay_batch(records, image.offset + 1, max(self.controller_epoch, 0), wall_ms)
        self._target.on_metadata(image, image.take_changes())

    # -- answers -----------------------------------------------------------------------------------

    def _answer(self, request: Any) -> Message:
        if isinstance(request, UpdateMetadataRequest):
            return UpdateMetadataResponse()
        assert isinstance(request, LeaderAndIsrRequest)
        by_id = self._target.replicas.by_id
        topics = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                replica = by_id.get((Uuid(topic.topic_id), state.partition_index))
                offline = replica is not None and not replica.is_online
                code = ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.NONE
                errors.append(
                    LeaderAndIsrPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=code,
                    )
                )
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(topics=topics)

    def _complete(self, request: Any, parked: Parked) -> None:
        parked.complete(self._answer(request))

    def _when_stopped(self, request: StopReplicaRequest, parked: Parked) -> None:
        """The answer says that logs are gone, so it waits for the turn of their replicas."""
        table = self._target.replicas
        offline = table.directories.removed_offline

        def stopped() -> None:
            errors = []
            for name, index, is_deleted in stopped_partitions(request):
                if is_deleted:
                    _forget_log(table, TopicPartition(name, index))
                error = StopReplicaPartitionError(topic_name=name, partition_index=index)
                if is_deleted and TopicPartition(name, index) in offline:
                    error.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                errors.append(error)
            parked.complete(StopReplicaResponse(partition_errors=errors))

        table.apply_queue.when_done(stopped)


def _forget_log(table: ReplicaTable, name: TopicPartition) -> None:
    """Forget the log of a partition that this broker has no replica of: it was found at the start."""
    if (name.topic, name.partition) not in table.by_name and name in table.logs.logs:
        table.logs.delete(name)


def _refusal(request: Any, code: ErrorCode) -> Message:
    if isinstance(request, UpdateMetadataRequest):
        return UpdateMetadataResponse(error_code=code)
    if isinstance(request, LeaderAndIsrRequest):
        return LeaderAndIsrResponse(error_code=code)
    return StopReplicaResponse(error_code=code)


def config_records(
    image: MetadataImage, kind: int, name: str, wanted: Mapping[str, str]
) -> list[Message]:
    """The records that make the configuration of one resource in the image what it is in its znode."""
    return _config_records(kind, name, image.config(kind, name), wanted)


def _config_records(
    kind: int, name: str, present: Mapping[str, str], wanted: Mapping[str, str]
) -> list[Message]:
    records: list[Message] = []
    for key in sorted({*present, *wanted}):
        value = wanted.get(key)
        if present.get(key) != value:
            records.append(
                ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
            )
    return records
