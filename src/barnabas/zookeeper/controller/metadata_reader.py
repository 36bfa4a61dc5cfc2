"""Everything that znodes say of the cluster, read once by a new controller, as records that make an image.

Reads are asked again until the ensemble answers; a reader that is stopped, because its controller has
lost the election meanwhile, calls back no more. The read is no snapshot of one zxid: what others change
meanwhile fires the watches that are set with the reads, and what controllers write is conditional on
the epoch.

Source: Kafka's ``KafkaController.initializeControllerContext``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from barnabas.config.meta_properties import RandomBytes, random_uuid
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.ports import Ports
from barnabas.types import Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.controller.unreadable_topics import is_of_topic, topic_of
from barnabas.zookeeper.cut_operations import take_operations
from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.layout.broker_znodes import IDS
from barnabas.zookeeper.layout.cluster_state_znodes import PRODUCER_IDS
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout, TopicEntry
from barnabas.zookeeper.layout.config_znodes import CONFIG, ENTITY_TYPES, USERS
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS, PREFERRED_ELECTION, REASSIGN
from barnabas.zookeeper.layout.topic_ids import give_ids
from barnabas.zookeeper.layout.topic_znodes import TOPICS, TopicZnode, state_path
from barnabas.zookeeper.layout.znode_table import PERSISTENT_PATHS
from barnabas.zookeeper.operations import (
    CheckVersion,
    ChildNames,
    Exists,
    GetChildren,
    GetData,
    Multi,
    NodeData,
    Operation,
)
from barnabas.zookeeper.session_keeper import SessionKeeper

METADATA_LEVEL = 14
"""metadata.version 3.6-IV2: the last one without log directories in the metadata, of which no znode tells."""
FAILED_MS = 1_000.0
"""A controller that cannot read the cluster resigns after this time, so that brokers take turns."""


class FoundCluster:
    """The cluster that was read."""

    def __init__(self) -> None:
        self.layout = ClusterLayout()
        self.layout.has("/brokers", CONFIG, "/admin", *PERSISTENT_PATHS)
        self.deletions: list[str] = []
        """Topics whose deletion is asked for."""
        self.going: dict[str, TopicEntry] = {}
        """Those of them that are there; the layout has them no more."""
        self.malformed: list[MalformedZnode] = []
        """Znodes that cannot be read. The layout has nothing of them, nor of the topics that they are of."""
        self.namings: list[Operation] = []
        """Topics of before topic ids get one by these writes, before brokers learn of it."""
        self.records: list[Message] = []
        """The image's. A partition without a state znode is left to the controller (`incomplete`), and so is
        a topic without an id of which no partition has one: a tool asks for it."""

    def load(self, znodes: dict[str, NodeData], new_id: Callable[[str], Uuid]) -> None:
        """Take what was read."""
        self.layout.load(znodes, self.malformed.append)
        topics = self.layout.topics
        for error in self.malformed_topics:
            topics.pop(topic_of(error.path), None)
        self.going = {name: topics.pop(name) for name in self.deletions if name in topics}
        served = [topics[name] for name in sorted(topics) if topics[name].states]
        self.namings += give_ids(self.layout, [*served, *self.going.values()], new_id)
        level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_LEVEL)
        self.records = [level, *self.layout.records(elected_only=True)]

    @property
    def unasked(self) -> list[str]:
        """Deletions of topics that are not there."""
        left_out = {topic_of(error.path) for error in self.malformed_topics}
        return [name for name in self.deletions if name not in self.going and name not in left_out]

    @property
    def malformed_topics(self) -> list[MalformedZnode]:
        """The assignments and states of partitions among `malformed`."""
        return [error for error in self.malformed if is_of_topic(error.path)]

    @property
    def malformed_producer_ids(self) -> MalformedZnode | None:
        """The block of producer ids among `malformed`."""
        return next((error for error in self.malformed if error.path == PRODUCER_IDS), None)

    def incomplete(self) -> dict[str, list[int]]:
        """Partitions that have replicas and no state yet: their creation was interrupted, or an old tool asks
        for it."""
        found = {}
        for name, topic in sorted(self.layout.topics.items()):
            partitions = topic.znode.partitions
            missing = [i for i in partitions if partitions[i].replicas and i not in topic.states]
            if missing:
                found[name] = missing
        return found


class MetadataReader:
    """One reading."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        check: CheckVersion,
        known_ids: Callable[[], Mapping[str, Uuid]],
        random_bytes: RandomBytes,
        on_done: Callable[[FoundCluster], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """`check` is the condition of what is written; `known_ids` are topics' by name. `on_failed` instead
        of `on_done`, where the ensemble refuses a read, or a topic's id."""
        self._ports = ports
        self._sessions = sessions
        self._check = check
        self._known_ids = known_ids
        self._random_bytes = random_bytes
        self._known: Mapping[str, Uuid] | None = None
        self._on_done: Callable[[FoundCluster], None] | None = on_done
        self._on_failed = on_failed
        self._failure = ""
        self._open = 0
        self._znodes: dict[str, NodeData] = {}
        self.found = FoundCluster()

    def start(self) -> None:
        """Ask; `on_done` follows when all is read."""
        self._open += 1  # until all first questions are asked
        for path in (IDS, TOPICS, DELETE_TOPICS):
            self._ask(GetChildren(path, watch=True), partial(self._on_children, path))
        for path in (f"{CONFIG}/{kind}" for kind in ENTITY_TYPES):
            self._ask(GetChildren(path), partial(self._on_children, path))
        for path in (REASSIGN, PREFERRED_ELECTION):
            self._ask(Exists(path, watch=True), lambda _: None)
        self._read(PRODUCER_IDS)
        self._close()

    def stop(self) -> None:
        self._on_done = None

    def _ask(self, request: Any, then: Callable[[Any], None]) -> None:
        self._open += 1

        def on_answer(result: object) -> None:
            if self._on_done is None:
                return
            if isinstance(result, ZooKeeperError) and not isinstance(result, NoNode):
                self._failure = str(result)
            elif not isinstance(result, NoNode):
                then(result)
            self._close()

        self._sessions.ask(request, on_answer)

    def _close(self) -> None:
        self._open -= 1
        if not self._open and self._on_done is not None:
            if not self._failure:
                self.found.load(self._znodes, self._new_id)
            self._end(deque(self.found.namings))

    def _new_id(self, name: str) -> Uuid:
        """The id that this broker knows, which a tool of before topic ids has dropped, or a new one."""
        if self._known is None:
            self._known = self._known_ids()
        return self._known.get(name) or random_uuid(self._random_bytes)

    def _end(self, left: deque[Operation]) -> None:
        """Write what is left, then call back."""
        on_done = self._on_done
        if on_done is None:
            return
        if self._failure:
            self._on_done = None
            self._ports.log("error", "zookeeper.read_failed", error=self._failure)
            at_ms = self._ports.clock.now_ms() + FAILED_MS
            self._ports.wakeups.call_at(at_ms, lambda: self._on_failed(self._failure))
        elif left:
            part = take_operations(left, self._ports.bounds.zookeeper, besides=1)
            done = partial(self._on_named, [one.path for one in part], left)
            self._sessions.submit(Multi((self._check, *part)), done)
        else:
            self._on_done = None
            on_done(self.found)

    def _on_named(self, paths: list[str], left: deque[Operation], result: object) -> None:
        if isinstance(result, ZooKeeperError):
            self._failure = f"topics of before Kafka 2.8 get no id: {result}"
        else:
            for path in paths:
                self._ports.log("info", "topic.id_given", topic=topic_of(path))
        self._end(left)

    def _on_children(self, path: str, children: ChildNames) -> None:
        if path == DELETE_TOPICS:
            self.found.deletions = list(children.names)
            return
        for name in children.names:
            if path == IDS and not name.isdecimal():
                continue
            self._read(f"{path}/{name}")
            if path == USERS:
                clients = f"{path}/{name}/clients"
                self._ask(GetChildren(clients), partial(self._on_clients, clients))

    def _on_clients(self, path: str, children: ChildNames) -> None:
        self.found.layout.has(path)
        self._on_children(path, children)

    def _read(self, path: str) -> None:
        self._ask(GetData(path), partial(self._on_data, path))

    def _on_data(self, path: str, node: NodeData) -> None:
        self._znodes[path] = node
        if path.startswith(f"{TOPICS}/") and not path.endswith("/state"):
            try:
                topic = TopicZnode.decode(path, node.data)
            except MalformedZnode:  # `FoundCluster` has it
                return
            for number in topic.partitions:
                self._read(state_path(topic.topic, number))
