"""Notifications of brokers by sequential znodes: ISRs that leaders wrote, log directories that failed.

A leader without AlterPartition (inter.broker.protocol.version below 2.7) writes the state znode of its
partition itself, conditional on the version that it knows. It then names the partition below
``/isr_change_notification``. The controller reads the state and its version into its image, and sends every
broker UpdateMetadata. A write of the controller to that partition fails before this, because it names the
old version. The controller then resigns, and reads everything after its next election.

A broker whose log directory fails makes a znode below ``/log_dir_event_notification``. The controller sends
it LeaderAndIsr for all its replicas. Those that it answers with KAFKA_STORAGE_ERROR are offline: they leave
the ISR and lose leadership until the broker answers otherwise, or registers again.

The controller deletes a notification that it has read.

Source: Kafka's ``KafkaController.processIsrChangeNotification``, ``processLogDirEventNotification`` and
``processLeaderAndIsrResponseReceived``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision, Record
from barnabas.controller.partitions.leader_and_isr import isr_updates
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.metadata.image.topic import NO_LEADER, ORDINARY
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.ports import Ports
from barnabas.zookeeper.controller.broker_orders import BrokerOrders
from barnabas.zookeeper.controller.journal import ZookeeperJournal
from barnabas.zookeeper.controller.order_requests import Key
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.request_znodes import (
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    IsrChangeZnode,
    LogDirEventZnode,
    Partition,
)
from barnabas.zookeeper.layout.topic_znodes import PartitionStateZnode, state_path
from barnabas.zookeeper.operations import ChildNames, Delete, GetChildren, GetData, Multi, NodeData
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.states.controller_steps import ControllerSteps

IDLE_LOOK_MS = 20.0
"""A state that a leader wrote is read when this controller's own writes are done."""


class BrokerNotifications:
    """Reads both folders for the active controller, and keeps which replicas are offline."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        journal: ZookeeperJournal,
        controller: QuorumController,
        orders: BrokerOrders,
        steps: ControllerSteps,
        ask: Callable[[Any, Any], None],
    ) -> None:
        """`ask` reads while this broker is the controller, and logs a `MalformedZnode` of the callback."""
        self._ports = ports
        self._sessions = sessions
        self._journal = journal
        self._controller = controller
        self._orders = orders
        self._steps = steps
        self._ask = ask
        self._offline: dict[Key, set[int]] = controller.cluster.offline_replicas
        orders.offline_replicas = self._offline

    def end(self) -> None:
        """This broker is no longer the controller."""
        self._offline.clear()

    def look_at(self, path: str) -> None:
        """Read the notifications below `path`, and watch it."""
        self._ask(GetChildren(path, watch=True), partial(self._on_children, path))

    def _on_children(self, path: str, children: ChildNames | ZooKeeperError) -> None:
        if isinstance(children, ZooKeeperError):
            return
        for name in sorted(children.names):
            at = f"{path}/{name}"
            self._ask(GetData(at), partial(self._on_notification, path, at))

    def _on_notification(self, folder: str, path: str, node: NodeData | ZooKeeperError) -> None:
        if isinstance(node, ZooKeeperError):
            return
        try:
            if folder == ISR_CHANGES:
                for partition in IsrChangeZnode.decode(path, node.data).partitions:
                    self._read_state(partition)
            elif folder == LOG_DIR_EVENTS:
                broker = LogDirEventZnode.decode(path, node.data).broker_id
                self._ports.log("warning", "controller.log_dir_event", broker=broker)
                self._orders.ask_replicas(broker)
        except MalformedZnode as error:
            self._ports.log("error", "zookeeper.znode_unreadable", error=error)
        leadership = self._journal.leadership
        if leadership is not None:
            self._sessions.submit(Multi((leadership.check, Delete(path))), lambda _: None)

    # -- ISRs that leaders wrote -------------------------------------------------------------------

    def _read_state(self, partition: Partition) -> None:
        if not self._controller.may_decide:
            return
        if not self._journal.is_idle:
            at_ms = self._ports.clock.now_ms() + IDLE_LOOK_MS
            self._ports.wakeups.call_at(at_ms, partial(self._read_state, partition))
            return
        before = self._journal.log_end_offset
        self._ask(GetData(state_path(*partition)), partial(self._on_state, partition, before))

    def _on_state(self, partition: Partition, before: int, node: NodeData | ZooKeeperError) -> None:
        if self._journal.log_end_offset != before:
            # What was decided meanwhile is a later state, or its write fails.
            self._read_state(partition)
            return
        name, index = partition
        topic = self._controller.image.topics_by_name.get(name)
        if isinstance(node, ZooKeeperError) or topic is None or not topic.has(index):
            return
        if node.stat.version <= topic.partition_epoch[index]:
            return
        state = PartitionStateZnode.decode(state_path(*partition), node.data)
        rare = topic.rare.get(index, ORDINARY)
        record = PartitionRecord(
            partition_id=index,
            topic_id=topic.id,
            replicas=topic.replicas[index],
            isr=state.isr,
            removing_replicas=rare.removing,
            adding_replicas=rare.adding,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=node.stat.version,
            leader_recovery_state=state.leader_recovery_state,
            reason=f"leader {state.leader} wrote the ISR {list(state.isr)} itself",
        )
        controller = self._controller
        why = f"{name}-{index} was changed by its leader"
        self._journal.observe(lambda: controller.commit(Decision(None, [record], why)))
        if rare.adding or rare.removing:  # the reassignment may be complete now
            change = PartitionChangeBuilder(controller.cluster, topic, index, why).build()
            if change is not None:
                controller.commit(Decision(None, [change], why))

    # -- replicas in failed log directories --------------------------------------------------------

    def forget_broker(self, broker: int) -> None:
        """The broker was started again, or is gone: what it answered is no longer valid."""
        keys = [key for key, brokers in self._offline.items() if broker in brokers]
        for key in keys:
            self._set_online(broker, key)
        if keys:
            self._orders.queue_metadata(keys)

    def _set_online(self, broker: int, key: Key) -> None:
        brokers = self._offline[key]
        brokers.discard(broker)
        if not brokers:
            del self._offline[key]

    def on_replicas(self, broker: int, offline: Collection[Key], online: Collection[Key]) -> None:
        """The broker has answered LeaderAndIsr."""
        self._steps.on_replicas(broker, offline, online)
        failed = [key for key in offline if broker not in self._offline.get(key, ())]
        back = [key for key in online if broker in self._offline.get(key, ())]
        for key in failed:
            self._offline.setdefault(key, set()).add(broker)
        for key in back:
            self._set_online(broker, key)
        if not (failed or back) or not self._controller.may_decide:
            return
        self._ports.log(
            "warning", "controller.replicas_offline",
            broker=broker, offline=len(failed), online=len(back),
        )  # fmt: skip
        records = [*self._leavers(broker, failed), *self._electable(broker, back)]
        if records:
            why = f"broker {broker} has answered which of its replicas are offline"
            self._controller.commit(Decision(None, records, why))
        self._orders.queue_metadata([*failed, *back])

    def _leavers(self, broker: int, keys: Iterable[Key]) -> list[Record]:
        cluster = self._controller.cluster
        records: list[Record] = []
        for topic_id, index in keys:
            topic = cluster.image.topics_by_id.get(topic_id)
            if topic is None or not topic.has(index):
                continue
            why = f"the log directory of {topic.name}-{index} on broker {broker} has failed"
            change = PartitionChangeBuilder(cluster, topic, index, why).without((broker,))
            record = change.build()
            if record is not None:
                records.append(record)
        return records

    def _electable(self, broker: int, keys: Iterable[Key]) -> list[Record]:
        """Changes that elect a leader for partitions without one: this replica may lead again."""
        image = self._controller.image
        slots = []
        for topic_id, index in keys:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and topic.has(index) and topic.leader[index] == NO_LEADER:
                slots.append(topic.slot << 32 | index)
        why = f"a log directory of broker {broker} is back"
        return list(isr_updates(self._controller.cluster, slots, why, only_leaderless=True))

    def describe(self) -> dict[str, object]:
        topics = self._controller.image.topics_by_id
        return {
            f"{topics[topic_id].name}-{index}": sorted(brokers)
            for (topic_id, index), brokers in self._offline.items()
            if topic_id in topics
        }

    def __repr__(self) -> str:
        return f"BrokerNotifications({len(self._offline)} partitions with offline replicas)"
