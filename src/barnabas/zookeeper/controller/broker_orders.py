"""The orders of the controller to its brokers: LeaderAndIsr, UpdateMetadata, StopReplica, to each in order.

Every live broker has a queue of the partitions that it has to learn about. A partition that changes twice
before a request is made is sent once. At most one request per broker is under way. It is sent again until
the broker answers or is gone.

A request is made from the committed image when it is sent: LeaderAndIsr first, then UpdateMetadata, then
StopReplica. UpdateMetadata is first where topics were removed, and for a broker that has just registered,
which receives everything.

When a broker closes a connection, its process may be gone: `on_unreachable` reports that.

Source: Kafka's ``ControllerChannelManager`` and ``AbstractControllerBrokerRequestBatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from barnabas.client.network.channels import ChannelError
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.topic import PartitionState, Topic
from barnabas.ports import Ports
from barnabas.types import Endpoint, Uuid, by_topic
from barnabas.wire.errors import ErrorCode, code_of
from barnabas.wire.messages.kafka39.leader_and_isr_request import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.kafka39.leader_and_isr_response import LeaderAndIsrResponse
from barnabas.wire.messages.kafka39.stop_replica_request import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.wire.messages.kafka39.stop_replica_response import StopReplicaResponse
from barnabas.wire.messages.kafka39.update_metadata_request import (
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.wire.schema import Message
from barnabas.zookeeper.controller.order_queue import OrderQueue, OrderSender, QueueState, Stopped
from barnabas.zookeeper.controller.order_requests import (
    EPOCH_DURING_DELETE,
    Key,
    Removed,
    leader_state,
    live_broker,
    metadata_state,
    offline_and_online,
    removed_topic,
)

PURPOSE = "controller orders"
TIMEOUT_MS = 30_000.0
CONTROL_REQUEST_RETRY_MS = 100.0
INCREMENTAL, FULL = 1, 2
"""Type of an UpdateMetadata that has every topic (KIP-866)."""


class OrdersListener:
    """A listener of the orders' answers. These methods do nothing; a subclass has those that it needs."""

    def is_written(self, topic_id: Uuid) -> bool:
        """Whether the znodes have a topic of the committed image. A broker reads a new topic's configuration
        there, so that it learns of the topic when it is written (`BrokerOrders.on_written`), not before."""
        return True

    def on_sent(self, broker: int, request: Message) -> None:
        """An order was sent to `broker`."""

    def on_reached(self, broker: int) -> None:
        """The broker has answered."""

    def on_unreachable(self, broker: int) -> None:
        """A connection to the broker has ended."""

    def on_replicas(self, broker: int, offline: Collection[Key], online: Collection[Key]) -> None:
        """The broker has answered LeaderAndIsr: its replicas in failed log directories, and those it has."""

    def on_stopped(self, broker: int, stopped: Iterable[Stopped]) -> None:
        """The broker has stopped these replicas."""

    def on_not_stopped(self, broker: int, failed: Iterable[Stopped]) -> None:
        """The broker could not stop these replicas."""

    def on_stale(self, epoch: int) -> None:
        """A broker has refused this controller epoch as stale."""


class BrokerOrders:
    """Sends the orders of this node to brokers while it is the controller."""

    def __init__(
        self,
        ports: Ports,
        sender: OrderSender,
        image: MetadataImage,
        node_id: int,
        listener: str,
        *,
        of_quorum: bool = False,
    ) -> None:
        """`image` is the committed one. Brokers receive orders on `listener`. `of_quorum`: they are of a
        KRaft controller (KIP-866), and only brokers in ZooKeeper mode receive them."""
        self._of_quorum = of_quorum
        self._ports = ports
        self._sender = sender
        self._image = image
        self._node_id = node_id
        self._listener = listener
        self._queues: dict[int, OrderQueue] = {}
        self.controller_epoch = -1
        self._names_all = True
        self.offline_replicas: Mapping[Key, Collection[int]] = {}
        """The brokers whose replica is in a failed log directory, by partition."""
        self._orders_listener: OrdersListener = OrdersListener()

    def listen(self, listener: OrdersListener) -> None:
        """Tell `listener` of what brokers answer. Call this before `begin`."""
        self._orders_listener = listener

    def validate(self) -> None:
        """Each queue is of its broker and not closed, and what is queued is sent or waits. There are queues
        only while this node commands. Raises AssertionError."""
        assert self.controller_epoch >= 0 or not self._queues, f"{self!r} commands under no epoch"
        for broker, queue in self._queues.items():
            assert queue.broker == broker and queue.state is not QueueState.CLOSED, repr(queue)
            queue.validate()

    # -- begin and end of a controller epoch --------------------------------------------------------

    def begin(self, controller_epoch: int, *, names_all: bool = True) -> None:
        """Queue everything for every live broker: what it knows came from a former controller. `names_all`:
        a topic that is not named is one that was deleted."""
        self.end()
        self.controller_epoch = controller_epoch
        self._names_all = names_all
        self._meet(self._image.brokers)
        self._pump()

    def end(self) -> None:
        for queue in self._queues.values():
            queue.close()
        self._queues = {}
        self.controller_epoch = -1

    def _meet(self, brokers: Iterable[int]) -> None:
        """Make queues for new incarnations of live brokers, and drop those of brokers that are not alive."""
        for broker in sorted(brokers):
            known = self._image.brokers.get(broker)
            present = self._queues.get(broker)
            if known is None or known.fenced or (self._of_quorum and not known.is_on_zookeeper):
                if present is not None:
                    self._drop(present)
                continue
            endpoint = known.endpoint(self._listener)
            if endpoint is None or (present is not None and present.epoch == known.epoch):
                continue
            if present is not None:
                self._drop(present)
            queue = self._queues[broker] = OrderQueue(broker, known.epoch, endpoint)
            if broker != self._node_id:
                queue.watch(self._sender, partial(self._on_ended, queue))
            for topic in filter(
                lambda one: self._orders_listener.is_written(one.id),
                self._image.topics_by_id.values(),
            ):
                for index, replicas in enumerate(topic.replicas):
                    queue.metadata[topic.id, index] = None
                    if broker in replicas:
                        queue.leader_and_isr[topic.id, index] = False

    def _on_ended(self, queue: OrderQueue) -> None:
        """The broker has closed or refused a connection."""
        if self._queues.get(queue.broker) is queue:
            self._orders_listener.on_unreachable(queue.broker)

    def _drop(self, queue: OrderQueue) -> None:
        queue.close()
        self._queues.pop(queue.broker, None)
        self._sender.disconnect(queue.endpoint, PURPOSE)

    # -- what is to be ordered ---------------------------------------------------------------------

    def on_written(
        self,
        changes: ImageChanges,
        deleted: Iterable[Topic],
        assigned: Mapping[Key, Sequence[int]],
    ) -> None:
        """Queue what has changed in the committed image. `assigned`: by partition, its new replicas."""
        for topic in deleted:
            removed = Removed(topic.name, topic.id, len(topic))
            for queue in self._queues.values():
                queue.removed[topic.id] = removed
        keys = dict(changes.partitions)
        for topic_id in changes.topics_created:
            topic_now = self._image.topics_by_id.get(topic_id)
            if topic_now is not None:
                keys.update(dict.fromkeys((topic_id, i) for i in range(len(topic_now))))
        for key in keys:
            state = self._image.partition(*key)
            if state is None:
                continue
            for queue in self._queues.values():
                queue.metadata[key] = None
                if queue.broker in state.replicas:
                    is_new = queue.broker in assigned.get(key, ())
                    queue.leader_and_isr[key] = is_new or queue.leader_and_isr.get(key, False)
        if changes.brokers:
            for queue in self._queues.values():
                queue.brokers_changed = True
            self._meet(changes.brokers)
        self._pump()

    def on_removed(self, name: str, topic_id: Uuid, partitions: int) -> None:
        """Queue the removal of a topic whose deletion a former controller began."""
        for queue in self._queues.values():
            queue.removed[topic_id] = Removed(name, topic_id, partitions)
        self._pump()

    def ask_replicas(self, broker: int) -> None:
        """Queue LeaderAndIsr for all replicas of the broker: it answers which ones are offline."""
        queue = self._queues.get(broker)
        if queue is None:
            return
        for topic, index in self._image.partitions_of(broker):
            queue.leader_and_isr.setdefault((topic.id, index), False)
        self._pump_one(queue)

    def queue_metadata(self, keys: Iterable[Key]) -> None:
        """Queue UpdateMetadata of these partitions for every broker."""
        for queue in self._queues.values():
            queue.metadata.update(dict.fromkeys(keys))
        self._pump()

    def stop_replicas(self, broker: int, partitions: Iterable[Stopped]) -> None:
        """Queue StopReplica, with deletion, of `partitions`, if the broker is alive."""
        queue = self._queues.get(broker)
        if queue is not None:
            queue.stopped.update(dict.fromkeys(partitions))
            self._pump_one(queue)

    def is_alive(self, broker: int) -> bool:
        return broker in self._queues

    # -- requests ----------------------------------------------------------------------------------

    def _pump(self) -> None:
        for queue in list(self._queues.values()):
            self._pump_one(queue)

    def _pump_one(self, queue: OrderQueue) -> None:
        if queue.state is not QueueState.IDLE:
            return
        made = self._next_request(queue)
        if made is None:
            return
        request, undo = made
        queue.on_sent()
        self._orders_listener.on_sent(queue.broker, request)
        self._sender.send(
            queue.endpoint,
            request,
            partial(self._on_answer, queue, request, undo),
            timeout_ms=TIMEOUT_MS,
            purpose=PURPOSE,
        )

    def _next_request(self, queue: OrderQueue) -> tuple[Message, Callable[[], None]] | None:
        """The next request, and a function that queues its content again if the request fails."""
        if queue.begun and queue.leader_and_isr and not queue.removed:
            return self._leader_and_isr(queue)
        if not queue.begun or queue.metadata or queue.brokers_changed or queue.removed:
            return self._update_metadata(queue)
        for one in [one for one in queue.stopped if _has_replica(self._image, queue.broker, one)]:
            del queue.stopped[one]  # the broker is a replica again
        if queue.stopped:
            return self._stop_replica(queue)
        return None

    def _next_states(self, keys: dict[Key, Any]) -> list[PartitionState]:
        states = []
        for key in list(keys)[: self._ports.bounds.zookeeper.ordered_max]:
            del keys[key]
            state = self._image.partition(*key)
            if state is not None:
                states.append(state)
        return states

    def _leader_and_isr(self, queue: OrderQueue) -> tuple[Message, Callable[[], None]]:
        new = {key for key, is_new in queue.leader_and_isr.items() if is_new}
        states = self._next_states(queue.leader_and_isr)
        leaders = sorted({state.leader for state in states if state.leader >= 0})
        request = LeaderAndIsrRequest(
            controller_id=self._node_id,
            is_k_raft_controller=self._of_quorum,
            controller_epoch=self.controller_epoch,
            broker_epoch=queue.epoch,
            type=INCREMENTAL if self._of_quorum else 0,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=name,
                    topic_id=topic_id,
                    partition_states=[
                        leader_state(
                            state, self.controller_epoch, (topic_id, state.partition) in new
                        )
                        for state in of_topic
                    ],
                )
                for (topic_id, name), of_topic in _by_topic(states).items()
            ],
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=leader, host_name=at.host, port=at.port)
                for leader in leaders
                for at in [self._endpoint(leader)]
                if at is not None
            ],
        )

        def undo() -> None:
            for state in states:
                key = (state.topic_id, state.partition)
                is_new = key in new or queue.leader_and_isr.get(key, False)
                queue.leader_and_isr[key] = is_new

        return request, undo

    def _endpoint(self, broker: int) -> Endpoint | None:
        known = self._image.brokers.get(broker)
        return None if known is None or known.fenced else known.endpoint(self._listener)

    def _update_metadata(self, queue: OrderQueue) -> tuple[Message, Callable[[], None]]:
        removed = dict(queue.removed)
        queue.removed.clear()
        begun, queue.begun = queue.begun, True
        queue.brokers_changed = False
        states = self._take_all(queue) if not begun else self._next_states(queue.metadata)
        topics = [
            UpdateMetadataTopicState(
                topic_name=name,
                topic_id=topic_id,
                partition_states=[
                    metadata_state(
                        state,
                        self.controller_epoch,
                        self._image.brokers,
                        self.offline_replicas.get((topic_id, state.partition), ()),
                    )
                    for state in of_topic
                ],
            )
            for (topic_id, name), of_topic in _by_topic(states).items()
        ]
        gone = [removed_topic(one, self.controller_epoch) for one in removed.values()]
        request = UpdateMetadataRequest(
            controller_id=self._node_id,
            is_k_raft_controller=self._of_quorum,
            controller_epoch=self.controller_epoch,
            broker_epoch=queue.epoch,
            type=FULL if not begun and self._names_all else INCREMENTAL if self._of_quorum else 0,
            topic_states=[*gone, *topics],
            live_brokers=[
                live_broker(known)
                for _, known in sorted(self._image.brokers.items())
                if not known.fenced
            ],
        )

        def undo() -> None:
            _put_back(queue.metadata, states)
            queue.removed = {**removed, **queue.removed}
            queue.brokers_changed = True
            queue.begun = queue.begun and begun

        return request, undo

    def _take_all(self, queue: OrderQueue) -> list[PartitionState]:
        """All partitions, for the first UpdateMetadata: replicas on disk that it does not name are stray."""
        states = []
        while queue.metadata:
            states += self._next_states(queue.metadata)
        return states

    def _stop_replica(self, queue: OrderQueue) -> tuple[Message, Callable[[], None]]:
        taken = list(queue.stopped)[: self._ports.bounds.zookeeper.ordered_max]
        for one in taken:
            del queue.stopped[one]
        topics = by_topic(
            (
                name,
                StopReplicaPartitionState(
                    partition_index=index, leader_epoch=EPOCH_DURING_DELETE, delete_partition=True
                ),
            )
            for name, index in taken
        )
        request = StopReplicaRequest(
            controller_id=self._node_id,
            is_k_raft_controller=self._of_quorum,
            controller_epoch=self.controller_epoch,
            broker_epoch=queue.epoch,
            topic_states=[
                StopReplicaTopicState(topic_name=name, partition_states=states)
                for name, states in topics.items()
            ],
        )
        return request, lambda: queue.stopped.update(dict.fromkeys(taken))

    # -- answers -----------------------------------------------------------------------------------

    def _on_answer(
        self, queue: OrderQueue, request: Message, undo: Callable[[], None], answer: Any
    ) -> None:
        if not queue.on_answer():
            return
        code = ErrorCode.NONE if isinstance(answer, ChannelError) else code_of(answer.error_code)
        if isinstance(answer, ChannelError) or code:
            self._on_failed(queue, undo, answer, code)
            return
        self._orders_listener.on_reached(queue.broker)
        if isinstance(answer, StopReplicaResponse):
            done: list[Stopped] = []
            failed: list[Stopped] = []
            for one in answer.partition_errors:
                which = failed if one.error_code else done
                which.append((one.topic_name, one.partition_index))
            self._orders_listener.on_stopped(queue.broker, done)
            self._orders_listener.on_not_stopped(queue.broker, failed)
        elif isinstance(answer, LeaderAndIsrResponse):
            self._orders_listener.on_replicas(
                queue.broker, *offline_and_online(answer, self._image)
            )
        self._pump_one(queue)

    def _on_failed(
        self, queue: OrderQueue, undo: Callable[[], None], answer: Any, code: ErrorCode
    ) -> None:
        undo()
        self._ports.log(
            "warning",
            "controller.order_not_followed",
            broker=queue.broker,
            error=str(answer) if isinstance(answer, ChannelError) else code.name,
        )
        if code is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._orders_listener.on_stale(self.controller_epoch)
            return
        at_ms = self._ports.clock.now_ms() + CONTROL_REQUEST_RETRY_MS
        queue.wait(self._ports.wakeups, at_ms, partial(self._pump_one, queue))
        if isinstance(answer, ChannelError):
            self._orders_listener.on_unreachable(queue.broker)

    def describe(self) -> dict[str, object]:
        return {str(queue.broker): queue.size for queue in self._queues.values()}

    def __repr__(self) -> str:
        return f"BrokerOrders(epoch {self.controller_epoch}, brokers {sorted(self._queues)})"


def _has_replica(image: MetadataImage, broker: int, partition: Stopped) -> bool:
    topic, index = image.topics_by_name.get(partition[0]), partition[1]
    return topic is not None and topic.has(index) and broker in topic.replicas[index]


def _put_back(keys: dict[Key, None], states: Iterable[PartitionState]) -> None:
    keys.update(dict.fromkeys((state.topic_id, state.partition) for state in states))


def _by_topic(
    states: Iterable[PartitionState],
) -> dict[tuple[Uuid, str], list[PartitionState]]:
    return by_topic(((state.topic_id, state.topic), state) for state in states)
