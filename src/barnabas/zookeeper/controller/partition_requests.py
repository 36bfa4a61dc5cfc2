"""Reassignments and preferred elections that other tools ask for by znodes.

``/admin/reassign_partitions`` names partitions with their new replicas: they are reassigned as by the API,
and the znode goes when none of them is under way any more. ``/admin/preferred_replica_election`` names
partitions that their first replica should lead; the znode goes when that is decided.

Source: Kafka's ``KafkaController.processZkPartitionReassignment`` and ``processReplicaLeaderElection``,
KIP-455.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.handlers import alter_partition_reassignments, elect_leaders
from barnabas.ports import Ports
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.schema import Message
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.request_znodes import (
    PREFERRED_ELECTION,
    REASSIGN,
    PreferredElectionZnode,
    ReassignPartitionsZnode,
)
from barnabas.zookeeper.operations import Delete, Exists, GetData, NodeData
from barnabas.zookeeper.session_keeper import SessionKeeper

PREFERRED = 0
TIMEOUT_MS = 60_000


class PartitionRequests:
    """The requests of two znodes to the active controller."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        controller: QuorumController,
        ask: Callable[[Any, Any], None],
    ) -> None:
        """`ask` reads while this broker is the controller."""
        self._ports = ports
        self._sessions = sessions
        self._controller = controller
        self._ask = ask
        self._reassigned: list[tuple[str, int]] = []
        """Partitions of the znode whose end is waited for."""

    def end(self) -> None:
        """This broker is no longer the controller."""
        self._reassigned = []

    def look_at(self, path: str) -> None:
        """Read the znode, where it is there, and watch it."""
        self._ask(Exists(path, watch=True), lambda _: None)
        self._ask(GetData(path), lambda result: self._on_data(path, result))

    def _on_data(self, path: str, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, ZooKeeperError):
            return
        try:
            if path == PREFERRED_ELECTION:
                self._elect(PreferredElectionZnode.decode(path, result.data))
            elif path == REASSIGN and not self._reassigned:
                self._reassign(ReassignPartitionsZnode.decode(path, result.data))
        except MalformedZnode as error:
            self._ports.log("error", "zookeeper.znode_unreadable", error=error)
            self._remove(path)

    def _elect(self, wanted: PreferredElectionZnode) -> None:
        request = ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=[
                TopicPartitions(topic=topic, partitions=[index])
                for topic, index in wanted.partitions
            ],
            timeout_ms=TIMEOUT_MS,
        )
        self._decide(elect_leaders, request, lambda: self._remove(PREFERRED_ELECTION))

    def _reassign(self, wanted: ReassignPartitionsZnode) -> None:
        self._reassigned = [partition for partition, _ in wanted.replicas]
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(partition_index=index, replicas=list(replicas))
                    ],
                )
                for (topic, index), replicas in wanted.replicas
            ],
            timeout_ms=TIMEOUT_MS,
        )
        self._decide(alter_partition_reassignments, request, self.on_written)

    def _decide(self, module: Any, request: Message, then: Callable[[], None]) -> None:
        ctx = RequestContext(api_key=module.API.key, api_version=0, client_id="zookeeper")

        def done(answer: Message | None) -> None:
            self._ports.log("info", "controller.znode_request", api=module.API.key.name)
            then()

        try:
            answer = module.handle(request, ctx, self._controller)
        except KafkaError as error:
            self._ports.log("warning", "controller.znode_request_refused", error=error.message)
            then()
            return
        if isinstance(answer, Parked):
            answer.attach(done)
        else:
            done(answer)

    def on_written(self) -> None:
        """Decisions are written: are the reassignments of the znode over?"""
        if not self._reassigned or not self._controller.may_decide:
            return
        topics = self._controller.image.topics_by_name
        for name, index in self._reassigned:
            topic = topics.get(name)
            if topic is not None and topic.has(index) and topic.partition(index).reassigning:
                return
        self._reassigned = []
        self._remove(REASSIGN)

    def _remove(self, path: str) -> None:
        if self._controller.may_decide:
            self._sessions.submit(Delete(path), lambda _: None)

    def __repr__(self) -> str:
        return f"PartitionRequests({len(self._reassigned)} reassigned)"
