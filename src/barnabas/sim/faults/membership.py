"""Who is where changes while everything runs: one voter is added or removed, as an operator would
(KIP-853), or a node comes back at another address."""

from __future__ import annotations

from typing import Any

from barnabas.client.network.channels import ChannelError
from barnabas.sim.cluster import CLUSTER_ID
from barnabas.sim.faults.injection import Strike
from barnabas.types import METADATA_TOPIC
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.remove_raft_voter_request import RemoveRaftVoterRequest

REQUEST_TIMEOUT_MS = 8_000.0


def voters(s: Strike) -> bool:
    """Add a controller that does not vote, or remove one that does; at least one is left."""
    if not s.cluster.may_change_voters or len(s.cluster.topology.controller_ids) < 2:
        return False
    if any(node.moved for node in s.cluster.nodes.values()) and not s.budget.knows_voters():
        return False
    client = s.cluster.client(f"voters{s.number}")
    adds = s.rng.random() < 0.5
    pick = s.rng.randrange(0, 1 << 16)

    async def change() -> None:
        try:
            request = await choose()
            if request is not None:
                s.note(f"voters: {request!r}")
                answer = await client.ask_any(lambda: request, timeout_ms=REQUEST_TIMEOUT_MS)
                s.note(f"voters: answer {answer.error_code} {answer.error_message or ''}")
                s.world.totals["voter changes"] += not answer.error_code
        except (ChannelError, KafkaError) as error:
            s.note(f"voters: not changed: {error}")
        finally:
            s.budget.voter_changes -= 1

    async def choose() -> AddRaftVoterRequest | RemoveRaftVoterRequest | None:
        topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])
        reported: Any = await client.ask_any(
            lambda: DescribeQuorumRequest(topics=[topic]), timeout_ms=REQUEST_TIMEOUT_MS
        )
        if reported.error_code or not reported.topics or not reported.topics[0].partitions:
            return None
        quorum = reported.topics[0].partitions[0]
        if quorum.error_code:
            return None
        present = {v.replica_id: v.replica_directory_id for v in quorum.current_voters}
        controllers = s.cluster.topology.controller_ids
        others = {
            o.replica_id: o.replica_directory_id
            for o in quorum.observers
            if o.replica_id in controllers and o.replica_id not in present
        }
        if others and (adds or len(present) == 1):
            chosen = sorted(others)[pick % len(others)]
            port = s.cluster.nodes[chosen].controller_port
            return AddRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                timeout_ms=5_000,
                voter_id=chosen,
                voter_directory_id=others[chosen],
                listeners=[Listener(name="CONTROLLER", host=f"n{chosen}", port=port)],
            )
        if len(present) > 1:
            chosen = sorted(present)[pick % len(present)]
            return RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=chosen, voter_directory_id=present[chosen]
            )
        return None

    s.budget.voter_changes += 1
    client.tasks.start(change())
    return True


def endpoints(s: Strike) -> bool:
    """A node goes away and comes back with other ports, or with those that it had at first. One broker always
    is where clients look first; controllers move as an operator may move them."""
    brokers = s.cluster.topology.broker_ids
    node = s.any_node()
    if node is None or (node.id in brokers and _has_none_left(s, node.id)):
        return False
    if node.id in s.cluster.topology.controller_ids and not s.budget.may_move(node):
        return False
    ports = s.rng.choice([0, 10, 20])

    def moved() -> None:
        left = node.id in brokers and _has_none_left(s, node.id)  # another one moved meanwhile
        if not node.is_up and not left:
            node.moved = ports
            s.note(f"node {node.id} is to come back with ports {ports} further up")
        s.restart_later(node)

    s.end(node, moved)
    return True


def _has_none_left(s: Strike, moving: int) -> bool:
    """Whether all other brokers are elsewhere."""
    return all(s.cluster.nodes[i].moved for i in s.cluster.topology.broker_ids if i != moving)
