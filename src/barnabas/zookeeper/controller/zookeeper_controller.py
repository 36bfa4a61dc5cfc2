"""The controller of a cluster in ZooKeeper mode: it decides like KRaft's, and writes znodes.

`ZookeeperController` joins the parts: the election says when this broker is controller; a reader loads
what is written; the `QuorumController` decides; the journal writes; orders tell brokers; watches say
what others changed. Failover reads everything, then completes what the predecessor left: partitions
without a state znode, deletions that are asked for, brokers that died meanwhile.

A broker is alive while ``/brokers/ids`` has its registration, with one exception: if its connection ends
and its listener refuses connections, its process is gone, and the controller fences it before its session
expires. If the registered process answers after all, the controller unfences it.

Source: Kafka's ``KafkaController`` (its events), KIP-380, KIP-455, KIP-631's ancestors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.brokers.broker_heartbeat import unfence
from barnabas.controller.decision import Decision, Record
from barnabas.controller.partitions.leader_and_isr import (
    isr_updates,
    partitions_leaders_first,
)
from barnabas.ports import Ports, Wakeup
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.controller.broker_notifications import BrokerNotifications
from barnabas.zookeeper.controller.broker_orders import BrokerOrders, OrdersListener
from barnabas.zookeeper.controller.journal import (
    JournalBatch,
    JournalListener,
    WrittenChanges,
    ZookeeperJournal,
)
from barnabas.zookeeper.controller.metadata_reader import FoundCluster, MetadataReader
from barnabas.zookeeper.controller.order_queue import Stopped
from barnabas.zookeeper.controller.order_requests import Key
from barnabas.zookeeper.controller.partition_requests import PartitionRequests
from barnabas.zookeeper.controller.registration_probe import probe_registration
from barnabas.zookeeper.controller.topic_deletion import DeletedTopic, TopicDeletion
from barnabas.zookeeper.controller.topic_requests import TopicRequests
from barnabas.zookeeper.controller.unreadable_topics import UnreadableTopics
from barnabas.zookeeper.controller.unseen_registrations import decide, reregistered_members
from barnabas.zookeeper.election.controller_election import ControllerElection, ProbeNetwork
from barnabas.zookeeper.election.states import Leadership
from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.layout.broker_znodes import IDS, BrokerZnode, broker_path
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.request_znodes import (
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PREFERRED_ELECTION,
    REASSIGN,
)
from barnabas.zookeeper.layout.topic_znodes import TOPICS, TopicZnode
from barnabas.zookeeper.operations import ChildNames, Delete, GetChildren, GetData, NodeData
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.states.controller_steps import ControllerSteps

WATCHED = (
    IDS, TOPICS, DELETE_TOPICS, REASSIGN, PREFERRED_ELECTION, ISR_CHANGES, LOG_DIR_EVENTS,
)  # fmt: skip
LOOK_AGAIN_MS = 1_000.0
"""How often the brokers that are registered and fenced are probed."""


@dataclass(frozen=True, slots=True)
class NotElected:
    """This broker is not controller."""


@dataclass(frozen=True, slots=True)
class Reads:
    """It was elected, and reads what is written."""

    reader: MetadataReader


class WritesRestarts(NamedTuple):
    """It decides, and first writes that brokers registered again meanwhile. Orders begin after that write."""

    leadership: Leadership
    found: FoundCluster
    incomplete: Mapping[str, list[int]]


@dataclass(frozen=True, slots=True)
class Rules:
    """It decides, writes and gives orders."""


Term = NotElected | Reads | WritesRestarts | Rules
"""The progress of a takeover: NotElected → Reads → (WritesRestarts →) Rules; each of them → NotElected."""


class ZookeeperController:
    """The controller role of this broker; it is active from an election to the loss of it."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        election: ControllerElection,
        journal: ZookeeperJournal,
        orders: BrokerOrders,
        controller: QuorumController,
        network: ProbeNetwork,
        known_topic_ids: Callable[[], Mapping[str, Uuid]],
    ) -> None:
        """`known_topic_ids`: ids of topics by name, as this broker knows them."""
        self._network = network
        self._ports = ports
        self._sessions = sessions
        self._election = election
        self._journal = journal
        self._orders = orders
        self.decider = controller
        steps = self.steps = ControllerSteps(
            ports, journal.committed_image, lambda: controller.epoch
        )
        self.deletions = TopicDeletion(ports, sessions, journal, orders, steps)
        self.unreadable = UnreadableTopics(ports, steps, self._ask, election.resign)
        self._requests = TopicRequests(
            ports, sessions, journal, controller, self.deletions, steps, self.unreadable, self._ask
        )
        self._partition_requests = PartitionRequests(ports, sessions, controller, self._ask)
        self.notifications = BrokerNotifications(
            ports, sessions, journal, controller, orders, steps, self._ask
        )
        controller.cluster.orders_by_epoch = True
        self._term: Term = NotElected()
        self._registered: dict[int, int] = {}
        """Broker id → creation zxid of its registration."""
        self._leaving: dict[int, int] = {}
        """Brokers that have asked for a controlled shutdown → their broker epoch then."""
        self._starting: dict[int, None] = {}
        """Brokers that have registered and not answered yet. Apache Kafka's register before they listen: a
        refused connection does not mean that they are gone."""
        self._look: Wakeup | None = None
        self._random_bytes = ports.rng("zookeeper.topic_ids").randbytes
        self._known_topic_ids = known_topic_ids
        journal.listen(_Written(self, controller, steps, election), controller.image)
        orders.listen(_Answers(self, election))
        election.listen(self)

    # -- election and loss of it --------------------------------------------------------------------

    def on_elected(self, leadership: Leadership) -> None:
        self.steps.on_elected(self.decider.node_id, leadership.epoch)
        reader = MetadataReader(
            self._ports,
            self._sessions,
            leadership.check,
            self._known_topic_ids,
            self._random_bytes,
            partial(self._on_read, leadership),
            partial(self._on_unread, leadership),
        )
        self._term = Reads(reader)
        reader.start()

    def _on_unread(self, leadership: Leadership, why: str) -> None:
        if self._election.leadership is leadership:
            self._election.resign(f"the cluster cannot be read: {why}")

    def _on_read(self, leadership: Leadership, found: FoundCluster) -> None:
        if self._election.leadership is not leadership:
            return
        layout, incomplete = found.layout, found.incomplete()
        for error in found.malformed:
            self._ports.log("error", "zookeeper.znode_unreadable", error=error)
        image = self._journal.begin(leadership, found)
        self._registered = {broker: czxid for broker, (_, czxid) in layout.brokers.items()}
        self.steps.on_loaded(leadership.epoch, self._registered)
        controller = self.decider
        controller.on_snapshot(image)
        controller.on_leader_change(controller.node_id, leadership.epoch)
        restarted = decide(controller.cluster, reregistered_members(found))
        if restarted:
            self._term = WritesRestarts(leadership, found, incomplete)
            controller.commit(Decision(None, restarted, "brokers registered again meanwhile"))
        else:
            self._begin(leadership, found, incomplete)

    def _begin(
        self, leadership: Leadership, found: FoundCluster, incomplete: Mapping[str, list[int]]
    ) -> None:
        """Start to send orders, and complete what the predecessor left."""
        self._term = Rules()
        layout, going = found.layout, found.going
        self.unreadable.begin(found.malformed_topics, found.malformed_producer_ids)
        self._orders.begin(leadership.epoch, names_all=not len(self.unreadable))
        self._ports.log(
            "info",
            "controller.loaded",
            epoch=leadership.epoch,
            brokers=sorted(layout.brokers),
            topics=len(layout.topics),
            deletions=sorted(going),
            incomplete=sorted(incomplete),
        )
        for name in sorted(going):
            self._delete(going[name].znode)
        for name in found.unasked:
            self._sessions.submit(Delete(f"{DELETE_TOPICS}/{name}"), lambda _: None)
        for name in sorted(incomplete):
            self._requests.complete(name, layout.topics[name].znode)
        for path in WATCHED:  # their watches may have fired meanwhile
            self._look_at(path)
        self._arm_look()

    def on_lost(self, reason: str) -> None:
        if isinstance(self._term, Reads):
            self._term.reader.stop()
        self._term = NotElected()
        controller = self.decider
        controller.on_leader_change(-1, controller.epoch)
        self._journal.end()
        self._orders.end()
        self.deletions.end()
        self._partition_requests.end()
        self.notifications.end()
        self.unreadable.end()
        self._registered, self._leaving = {}, {}
        self._starting.clear()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self.steps.on_lost(controller.node_id, reason)
        self._ports.log("info", "controller.leadership_lost", reason=reason)

    @property
    def _is_active(self) -> bool:
        return self.decider.may_decide

    def on_written(self, committed: WrittenChanges) -> None:
        if isinstance(self._term, WritesRestarts):
            self._begin(*self._term)
        self._orders.on_written(committed.changes, committed.deleted, committed.assigned)
        for broker, partition in committed.removed:
            if self._orders.is_alive(broker):
                self.steps.on_stopping(broker, [partition])
                self._orders.stop_replicas(broker, [partition])
        self._partition_requests.on_written()
        for topic in committed.deleted:
            replicas = {index: ids for index, ids in enumerate(topic.replicas) if ids}
            self.deletions.begin(DeletedTopic(topic.name, topic.id, replicas))
        for broker in committed.changes.brokers:
            if self._orders.is_alive(broker):
                self.deletions.on_broker(broker)

    # -- watches -----------------------------------------------------------------------------------

    def on_connected(self, is_new: bool) -> None:
        return

    def on_expired(self) -> None:
        return

    def on_watch(self, event: WatchEvent) -> None:
        if self._is_active:
            self._look_at(event.path)

    def _look_at(self, path: str) -> None:
        """Read what is at `path` now, and watch it."""
        followers = {
            IDS: self._on_broker_ids,
            TOPICS: self._requests.on_topics,
            DELETE_TOPICS: self._requests.on_delete_topics,
        }
        if path in (REASSIGN, PREFERRED_ELECTION):
            self._partition_requests.look_at(path)
        elif path in (ISR_CHANGES, LOG_DIR_EVENTS):
            self.notifications.look_at(path)
        elif self.unreadable.is_watched(path):
            self.unreadable.look_at(path)
        elif path in followers:
            self._ask(GetChildren(path, watch=True), followers[path])

    def _ask(self, request: Any, then: Any) -> None:
        """Read. An answer after this broker's term as controller is dropped; a malformed znode is logged."""
        leadership = self._election.leadership

        def on_answer(result: object) -> None:
            if not self._is_active or self._election.leadership is not leadership:
                return
            try:
                then(result)
            except MalformedZnode as error:
                self._ports.log("error", "zookeeper.znode_unreadable", error=error)

        self._sessions.ask(request, on_answer)

    # -- brokers -----------------------------------------------------------------------------------

    def _on_broker_ids(self, children: ChildNames | ZooKeeperError) -> None:
        if isinstance(children, ZooKeeperError):
            return
        present = {int(name) for name in children.names if name.isascii() and name.isdigit()}
        for broker in sorted(self._registered):
            if broker not in present:
                self._on_unregistered(broker)
        for broker in sorted(present):
            self._ask(GetData(broker_path(broker)), partial(self._on_registration, broker))

    def _on_unregistered(self, broker: int) -> None:
        self._registered.pop(broker, None)
        self._leaving.pop(broker, None)
        self._starting.pop(broker, None)
        self.notifications.forget_broker(broker)
        reason = f"broker {broker} is gone: its registration in ZooKeeper has ended"
        self.decider.fencing.fence(broker, reason)

    def _on_registration(self, broker: int, node: NodeData | ZooKeeperError) -> None:
        if isinstance(node, NoNode):
            if broker in self._registered:
                self._on_unregistered(broker)
            return
        if isinstance(node, ZooKeeperError):
            return
        czxid = node.stat.czxid
        if self._registered.get(broker) == czxid:
            return
        self._register(BrokerZnode.decode(broker_path(broker), node.data), czxid)

    def _register(self, znode: BrokerZnode, czxid: int) -> None:
        """Register a new incarnation. The former one leaves its ISRs first, unless it was fenced."""
        controller, broker = self.decider, znode.broker_id
        self._registered[broker] = czxid
        self._leaving.pop(broker, None)
        self._starting[broker] = None
        self.notifications.forget_broker(broker)
        cluster = controller.cluster
        known = controller.image.brokers.get(broker)
        reason = f"broker {broker} registers in ZooKeeper"
        records: list[Record] = [znode.record(czxid, fenced=True)]
        if known is not None and not known.fenced:
            with cluster.leaving([broker], f"broker {broker} was started again"):
                steps = partitions_leaders_first(cluster, broker)
                keys = list(dict.fromkeys(key for step in steps for key in step))
                records = [*isr_updates(cluster, keys, None), *records]
        controller.commit(Decision(None, records, reason))
        self._take_back(broker, reason)

    def _take_back(self, broker: int, reason: str) -> None:
        controller = self.decider
        known = controller.image.brokers[broker]
        controller.cluster.departing.pop(broker, None)
        records, work = unfence(controller.cluster, known, reason)
        controller.commit(Decision(None, records, reason))
        if work is not None:
            controller.begin(work)

    def on_leaving(self, broker: int) -> None:
        """The broker has asked for a controlled shutdown: it is not unfenced although it still answers."""
        if broker in self._registered:
            self._leaving[broker] = self._registered[broker]

    def on_reached(self, broker: int) -> None:
        self._starting.pop(broker, None)

    def on_unreachable(self, broker: int) -> None:
        """A connection to the broker ended: probe whether its process is gone."""
        known = self.decider.image.brokers.get(broker)
        if broker in self._starting:
            return
        if self._is_active and known is not None and not known.fenced:
            self.decider.liveness.probe(known)

    def _arm_look(self) -> None:
        at_ms = self._ports.clock.now_ms() + LOOK_AGAIN_MS
        self._look = self._ports.wakeups.call_at(at_ms, self._look_again)

    def _look_again(self) -> None:
        """Probe the brokers that are registered and fenced: do the registered processes answer after all?"""
        controller = self.decider
        for broker, czxid in sorted(self._registered.items()):
            known = controller.image.brokers.get(broker)
            if known is None or not known.fenced or known.epoch != czxid:
                continue
            endpoint = controller.liveness.probe_endpoint(known)
            if self._leaving.get(broker) != czxid and endpoint is not None:
                probe_registration(
                    self._network,
                    endpoint,
                    (controller.node_id, controller.epoch),
                    czxid,
                    partial(self._on_answers, broker, czxid),
                )
        if self._is_active:
            self._arm_look()

    def _on_answers(self, broker: int, czxid: int, alive: bool) -> None:
        known = self.decider.image.brokers.get(broker)
        if alive and self._is_active and known is not None and known.fenced:
            if self._registered.get(broker) == czxid == known.epoch:
                self._take_back(broker, f"broker {broker} answers again")

    def _delete(self, znode: TopicZnode) -> None:
        """Continue a deletion that a predecessor began."""
        replicas = {number: one.replicas for number, one in znode.partitions.items()}
        topic_id = znode.topic_id or ZERO_UUID
        topic = DeletedTopic(znode.topic, topic_id, replicas)
        self._orders.on_removed(znode.topic, topic_id, len(replicas))
        self.deletions.begin(topic)

    def validate(self) -> None:
        """The orders, and where this controller is active, its decisions. Raises AssertionError."""
        self._orders.validate()
        if self.decider.may_decide:
            self.decider.validate()
            self.steps.book.validate()

    def describe(self) -> dict[str, object]:
        return {
            "election": self._election.describe(),
            "journal": self._journal.describe(),
            "orders": self._orders.describe(),
            "deletions": self.deletions.describe(),
            "offline_replicas": self.notifications.describe(),
            "unreadable_topics": self.unreadable.describe(),
            "registered": {str(broker): czxid for broker, czxid in self._registered.items()},
        }

    def __repr__(self) -> str:
        return f"ZookeeperController({self._election!r})"


class _Written(JournalListener):
    """The controller as its journal tells it."""

    def __init__(
        self,
        controller: ZookeeperController,
        decider: QuorumController,
        steps: ControllerSteps,
        election: ControllerElection,
    ) -> None:
        self._controller = controller
        self._decider = decider
        self._steps = steps
        self._election = election

    def on_decided(self, records: Sequence[Message]) -> None:
        self._steps.on_decided(records)

    def on_record(self, record: Message) -> None:
        self._steps.on_record(record)

    def on_commit(self, batches: Sequence[JournalBatch]) -> None:
        self._decider.on_commit(batches)

    def on_written(self, committed: WrittenChanges) -> None:
        self._controller.on_written(committed)

    def on_lost(self, reason: str) -> None:
        self._election.resign(reason)


class _Answers(OrdersListener):
    """The controller as brokers' answers reach it."""

    def __init__(self, controller: ZookeeperController, election: ControllerElection) -> None:
        self._controller = controller
        self._election = election

    def on_sent(self, broker: int, request: Message) -> None:
        self._controller.steps.on_sent(broker, request)

    def on_reached(self, broker: int) -> None:
        self._controller.on_reached(broker)

    def on_unreachable(self, broker: int) -> None:
        self._controller.on_unreachable(broker)

    def on_replicas(self, broker: int, offline: Collection[Key], online: Collection[Key]) -> None:
        self._controller.notifications.on_replicas(broker, offline, online)

    def on_stopped(self, broker: int, stopped: Iterable[Stopped]) -> None:
        self._controller.deletions.on_stopped(broker, stopped)

    def on_not_stopped(self, broker: int, failed: Iterable[Stopped]) -> None:
        self._controller.deletions.on_not_stopped(broker, failed)

    def on_stale(self, epoch: int) -> None:
        self._election.resign(f"a broker obeys a newer epoch than {epoch}")
