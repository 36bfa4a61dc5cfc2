"""Moves of a leader, a coordinator and the controller, and of a member out of its group.

Each waits until it has happened. They ask as an administrator's client does, except for the controller, which
gives up by its node's control, or is paused (SIGSTOP) where there is none until another one is active. The
client's modules are loaded with the first move, since a cluster that starts waits for none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.testing.connecting import ConnectableCluster, connected
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.host.client import Connected
    from barnabas.wire.schema import Message

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
GROUP_KIND, TRANSACTION_KIND = 0, 1
"""Kinds of coordinator, in FindCoordinator."""


class MoveError(Exception):
    """Something cannot be moved there; the text is one sentence."""


class Moves:
    """Use it through `Cluster.moves`."""

    def __init__(self, cluster: ConnectableCluster) -> None:
        self._cluster = cluster

    def leader(self, topic: str, partition: int, to: int) -> None:
        """Make `to`, which has a replica, the leader of a partition: its preferred replica, elected."""
        from barnabas.client.operations import PREFERRED, elect

        at = TopicPartition(topic, partition)
        with connected(self._cluster) as client:
            found = client.topic(topic).partitions[partition]
            if to not in found.replicas:
                raise MoveError(f"node {to} has no replica of {at}, only {list(found.replicas)}")
            replicas = [to, *(node for node in found.replicas if node != to)]
            client.call(client.client.ask_any(lambda: _reassignment(at, replicas), _check))

            def leads() -> bool:
                view = client.topic(topic).partitions[partition]
                if view.leader != to and to in view.isr:
                    client.call(elect(client.client, PREFERRED, [at]))
                return bool(view.leader == to)

            self._cluster.wait_for(leads, f"node {to} to lead {at}")

    def group_coordinator(self, group_id: str, to: int) -> None:
        """Make `to` the coordinator of a group, which need not exist."""
        self._coordinator(GROUP_KIND, GROUPS, group_id, to)

    def transaction_coordinator(self, transactional_id: str, to: int) -> None:
        """Make `to` the coordinator of a transactional id, which need not exist."""
        self._coordinator(TRANSACTION_KIND, TRANSACTIONS, transactional_id, to)

    def _coordinator(self, kind: int, topic: str, key: str, to: int) -> None:
        from barnabas.broker.coordinator.coordinators import partition_of

        with connected(self._cluster) as client:
            client.call(client.client.retry(lambda: client.client.coordinator(kind, key)))
            partition = partition_of(key, len(client.topic(topic).partitions))
            self.leader(topic, partition, to)

            def coordinates() -> bool:
                client.client.forget_coordinator(kind, key)
                client.call(client.client.retry(lambda: client.client.coordinator(kind, key)))
                return client.client.coordinator_node(key, kind) == to

            self._cluster.wait_for(coordinates, f"node {to} to coordinate {key}")

    def controller(self) -> int:
        """Have the active controller give up, and return the one that follows it."""
        with connected(self._cluster) as client:
            old = client.call(client.admin.describe_quorum())
            if len(old.voters) < 2:
                raise MoveError("a quorum of one controller has no other one")
            faults, paused = self._cluster.faults, None
            if faults is not None:
                faults.command(old.leader_id, "resign")
            else:
                paused = old.leader_id
                self._cluster.pause(paused)
            resigned_in = {old.leader_epoch}
            try:
                return int(
                    self._cluster.wait_for(
                        lambda: self._other_controller(client, old.leader_id, resigned_in),
                        f"another controller than node {old.leader_id}",
                    )
                )
            finally:
                if paused is not None:
                    self._cluster.resume(paused)

    def _other_controller(self, client: Connected, old: int, resigned_in: set[int]) -> int | None:
        """The controller that is not `old`, which gives up again where it was elected again: once in each of
        its epochs, which `resigned_in` collects."""
        try:
            now = client.call(client.admin.describe_quorum(timeout_ms=2_000))
        except Exception:  # noqa: BLE001 - asked again until there is one
            return None
        if now.leader_id not in (-1, old):
            return int(now.leader_id) if now.leader_epoch > min(resigned_in) else None
        faults = self._cluster.faults
        if now.leader_id == old and faults is not None and now.leader_epoch not in resigned_in:
            faults.command(old, "resign")
            resigned_in.add(now.leader_epoch)
        return None

    def expire_member(self, group_id: str, member_id: str = "") -> str:
        """Take a member out of its group, as the end of its session does: it learns of it at its next
        heartbeat. Without an id it is the first one. Returns the id."""
        from barnabas.client.group_offsets import remove_member
        from barnabas.wire.errors import ErrorCode, KafkaError

        with connected(self._cluster) as client:
            members = client.call(client.admin.describe_group(group_id)).members
            chosen = [m for m in members if not member_id or m.member_id == member_id]
            if not chosen:
                raise MoveError(f"group {group_id} has no member {member_id}".rstrip())
            client.call(remove_member(client.client, group_id, chosen[0], "a test expired it"))
            gone = chosen[0].member_id

            def is_gone() -> bool:
                try:
                    now = client.call(client.admin.describe_group(group_id)).members
                except KafkaError as error:
                    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                        return True
                    raise
                return all(member.member_id != gone for member in now)

            self._cluster.wait_for(is_gone, f"member {gone} to be out of group {group_id}")
            return gone


def _reassignment(at: TopicPartition, replicas: list[int]) -> Message:
    from barnabas.wire.messages import alter_partition_reassignments_request as request

    partition = request.ReassignablePartition(partition_index=at.partition, replicas=replicas)
    return request.AlterPartitionReassignmentsRequest(
        topics=[request.ReassignableTopic(name=at.topic, partitions=[partition])]
    )


def _check(answer: Any) -> None:
    from barnabas.wire.errors import KafkaError, code_of

    results = [answer, *(p for topic in answer.responses for p in topic.partitions)]
    for result in results:
        if result.error_code:
            raise KafkaError(code_of(result.error_code), result.error_message or "")
