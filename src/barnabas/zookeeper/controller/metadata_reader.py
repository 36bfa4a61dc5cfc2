"""Everything that znodes say of the cluster, read once by a new controller, as records that make an image.

Reads are asked again until the ensemble answers; a reader that is stopped, because its controller has
lost the election meanwhile, calls back no more. The read is no snapshot of one zxid: what others change
meanwhile fires the watches that are set with the reads, and what controllers write is conditional on
the epoch.

Source: Kafka's ``KafkaController.initializeControllerContext``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.config.listeners import PROTOCOLS
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image.image import BROKER, TOPIC
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.ports import Ports
from barnabas.types import ZERO_UUID
from barnabas.wire.schema import Message
from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.operations import ChildNames, Exists, GetChildren, GetData, NodeData
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.topic_znodes import (
    PartitionLeaderState,
    TopicAssignment,
    decode_config,
    decode_producer_ids,
    decode_state,
    decode_topic,
    resource_of,
    state_path,
    topic_path,
)
from barnabas.zookeeper.znodes import (
    BROKER_IDS,
    CONFIG,
    DELETE_TOPICS,
    PREFERRED_ELECTION,
    PRODUCER_IDS,
    REASSIGNMENTS,
    TOPICS,
    BrokerInfo,
    ZnodeError,
    broker_path,
    decode_broker,
)

LEVEL = 14
"""metadata.version 3.6-IV2: the last one without log directories in the metadata, of which no znode tells."""


FAILED_MS = 1_000.0
"""A controller that cannot read the cluster gives up its office after this: brokers take turns in it, and not
without a rest."""


class ClusterZnodes:
    """What was read."""

    def __init__(self) -> None:
        self.brokers: dict[int, tuple[BrokerInfo, int]] = {}
        """With the creation zxid of the registration."""
        self.topics: dict[str, tuple[TopicAssignment, int]] = {}
        """With the version of the znode."""
        self.states: dict[tuple[str, int], tuple[PartitionLeaderState, int]] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.producer_ids = (0, 0)
        """The next id, and the version of the znode."""
        self.deletions: list[str] = []

    def records(self) -> list[Message]:
        """The image's records. A partition without a state znode is left to the controller (`incomplete`),
        and a topic without an id with all that it has."""
        records: list[Message] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=LEVEL)]
        for broker in sorted(self.brokers):
            info, czxid = self.brokers[broker]
            records.append(registration_record(info, czxid, fenced=False))
        for name in sorted(self.topics):
            assignment, _ = self.topics[name]
            if assignment.topic_id != ZERO_UUID:
                records.append(TopicRecord(name=name, topic_id=assignment.topic_id))
                records += self._partitions(name, assignment)
        for kind, name in sorted(self.configs):
            records += [
                ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
                for key, value in sorted(self.configs[kind, name].items())
            ]
        next_id = self.producer_ids[0]
        if next_id:
            records.append(ProducerIdsRecord(next_producer_id=next_id))
        return records

    def _partitions(self, name: str, assignment: TopicAssignment) -> list[Message]:
        found: list[Message] = []
        for index in sorted(assignment.replicas):
            known = self.states.get((name, index))
            if known is None:
                continue
            state, version = known
            found.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=assignment.topic_id,
                    replicas=assignment.replicas[index],
                    adding_replicas=assignment.adding.get(index, ()),
                    removing_replicas=assignment.removing.get(index, ()),
                    isr=state.isr,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=version,
                    leader_recovery_state=state.recovery,
                )
            )
        return found

    def why_not_served(self) -> str:
        """Topics of before topic ids: their logs have none either, and would be taken for those of others."""
        for name in sorted(self.topics):
            assignment, _ = self.topics[name]
            if assignment.topic_id == ZERO_UUID:
                if any((name, index) in self.states for index in assignment.replicas):
                    return (
                        f"topic {name} has no id: let a controller of Kafka 2.8 to 3.9, which gives it"
                        " one, and its brokers run first"
                    )
        return ""

    def incomplete(self) -> dict[str, list[int]]:
        """Partitions that have replicas and no state yet: their creation was interrupted, or an old tool asks
        for it."""
        return {
            name: missing
            for name in sorted(self.topics)
            for missing in [
                [i for i in sorted(self.topics[name][0].replicas) if (name, i) not in self.states]
            ]
            if missing
        }


def registration_record(info: BrokerInfo, czxid: int, *, fenced: bool) -> RegisterBrokerRecord:
    """As the image has a broker: its epoch is the zxid that created its znode."""
    return RegisterBrokerRecord(
        broker_id=info.id,
        broker_epoch=czxid,
        end_points=[
            BrokerEndpoint(
                name=name,
                host=at.host,
                port=at.port,
                security_protocol=PROTOCOLS.index(kind) if kind in PROTOCOLS else 0,
            )
            for name, (at, kind) in info.listeners.items()
        ],
        rack=info.rack,
        fenced=fenced,
    )


class MetadataReader:
    """One reading."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        on_done: Callable[[ClusterZnodes], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """`on_failed` instead of `on_done`, where a znode cannot be read: what is missing in the image would
        be taken for deleted."""
        self._ports = ports
        self._sessions = sessions
        self._on_done: Callable[[ClusterZnodes], None] | None = on_done
        self._on_failed = on_failed
        self._failure = ""
        self._open = 0
        self.found = ClusterZnodes()

    def start(self) -> None:
        """Ask; `on_done` follows when all is read."""
        self._open += 1  # until all first questions are asked
        for path in (BROKER_IDS, TOPICS, DELETE_TOPICS):
            self._ask(GetChildren(path, watch=True), partial(self._on_children, path))
        for entity in ("topics", "brokers"):
            self._ask(GetChildren(f"{CONFIG}/{entity}"), partial(self._on_entities, entity))
        for path in (REASSIGNMENTS, PREFERRED_ELECTION):
            self._ask(Exists(path, watch=True), lambda _: None)
        self._ask(GetData(PRODUCER_IDS), self._on_producer_ids)
        self._close()

    def stop(self) -> None:
        self._on_done = None

    def _ask(self, request: Any, then: Callable[[Any], None]) -> None:
        self._open += 1

        def on_answer(result: object) -> None:
            if self._on_done is None:
                return
            try:
                if isinstance(result, ZooKeeperError) and not isinstance(result, NoNode):
                    self._failure = str(result)
                elif not isinstance(result, NoNode):
                    then(result)
            except ZnodeError as error:
                self._failure = str(error)
            finally:
                self._close()

        self._sessions.ask(request, on_answer)

    def _close(self) -> None:
        self._open -= 1
        if not self._open and self._on_done is not None:
            on_done, self._on_done = self._on_done, None
            self._failure = self._failure or self.found.why_not_served()
            if self._failure:
                self._ports.log("error", "zookeeper.read_failed", error=self._failure)
                at_ms = self._ports.clock.now_ms() + FAILED_MS
                self._ports.wakeups.call_at(at_ms, lambda: self._on_failed(self._failure))
            else:
                on_done(self.found)

    def _on_children(self, path: str, children: ChildNames) -> None:
        if path == DELETE_TOPICS:
            self.found.deletions = list(children.names)
            return
        for name in children.names:
            if path == TOPICS:
                self._ask(GetData(topic_path(name)), partial(self._on_topic, name))
            elif name.isdigit():
                self._ask(GetData(broker_path(int(name))), partial(self._on_broker, int(name)))

    def _on_broker(self, broker: int, node: NodeData) -> None:
        self.found.brokers[broker] = decode_broker(broker, node.data), node.stat.czxid

    def _on_topic(self, name: str, node: NodeData) -> None:
        assignment = decode_topic(name, node.data)
        self.found.topics[name] = assignment, node.stat.version
        for index in sorted(assignment.replicas):
            self._ask(GetData(state_path(name, index)), partial(self._on_state, name, index))

    def _on_state(self, name: str, index: int, node: NodeData) -> None:
        state = decode_state(name, index, node.data)
        self.found.states[name, index] = state, node.stat.version

    def _on_entities(self, entity: str, children: ChildNames) -> None:
        for name in children.names:
            path = f"{entity}/{name}"
            if resource_of(path) is not None:
                self._ask(GetData(f"{CONFIG}/{path}"), partial(self._on_config, path))

    def _on_config(self, path: str, node: NodeData) -> None:
        resource = resource_of(path)
        assert resource is not None and resource[0] in (TOPIC, BROKER)
        self.found.configs[resource] = decode_config(path, node.data)

    def _on_producer_ids(self, node: NodeData) -> None:
        self.found.producer_ids = decode_producer_ids(PRODUCER_IDS, node.data), node.stat.version
