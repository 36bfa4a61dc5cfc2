"""Znodes never go backwards: leader epochs, controller epochs, blocks of producer ids; and what the state of
a partition says is possible: an ISR of replicas, with the leader in it, and another leader in a later epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from barnabas.sim.history import Violation
from barnabas.sim.zookeeper.transactions import CommittedTransaction
from barnabas.sim.zookeeper_mode.written_znodes import CHROOT, WrittenZnodes, ZnodeRule, outcomes
from barnabas.zookeeper.layout.cluster_state_znodes import PRODUCER_IDS, ProducerIdBlockZnode
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS
from barnabas.zookeeper.layout.topic_znodes import (
    STATE_PATH,
    TOPICS,
    PartitionStateZnode,
    TopicZnode,
    topic_path,
)
from barnabas.zookeeper.operations import Create, Created, SetData, Stat

Row = tuple[int, int, tuple[int, ...]]
"""Leader, leader epoch, ISR."""


class ZnodesGoForward(ZnodeRule):
    def __init__(self, follow_log: Callable[[], bool] = lambda: False) -> None:
        """`follow_log`: whether a quorum decides now, whose controller writes both. An assignment and its
        states may be apart then between two transactions: the next controller completes them."""
        self._follow_log = follow_log
        self._states: dict[str, tuple[int, PartitionStateZnode]] = {}
        """Path → zxid of its creation, and what it said last."""
        self._ids_end = -1
        self.rows: dict[tuple[bytes, int, int], Row] = {}
        """(topic id, partition, version of its state) → what was written."""
        self._going: dict[bytes, None] = {}
        """Topics whose deletion was asked for: what is decided of their ISRs then is not written."""

    def rows_of(self, topic: bytes, partition: int, version: int) -> list[Row]:
        """The rows of the partition's state znode in this version; nothing where it had none. Of a topic
        that is being deleted: an ISR that every other one covers."""
        row = self.rows.get((topic, partition, version))
        if row is not None:
            return [row]
        return [(-1, -1, ())] if topic in self._going else []

    def on_transaction(
        self, written: WrittenZnodes, entry: CommittedTransaction, result: object
    ) -> None:
        for one, done in outcomes(entry.request, result):
            if not isinstance(one, (Create, SetData)):
                continue
            path = one.path.removeprefix(CHROOT)
            where = f"zxid {entry.zxid:#x}, {path}"
            if STATE_PATH.fullmatch(path):
                state = PartitionStateZnode.decode(path, one.data)
                self._on_state(written, where, state, version_of(done))
            elif path.startswith(f"{DELETE_TOPICS}/"):
                self._on_deletion(written, path.rpartition("/")[2])
            elif path == PRODUCER_IDS and one.data:
                self._on_producer_ids(where, ProducerIdBlockZnode.decode(path, one.data))
            elif path.startswith(f"{TOPICS}/") and "/" not in path.removeprefix(f"{TOPICS}/"):
                self._on_topic(written, where, TopicZnode.decode(path, one.data))

    def _on_state(
        self,
        written: WrittenZnodes,
        where: str,
        state: PartitionStateZnode,
        version: int,
    ) -> None:
        found = written.get(state.path)
        topic = written.get(topic_path(state.topic))
        if found is None or topic is None:
            raise Violation(f"{where}: a state without its topic")
        known_as, before = self._states.get(state.path, (0, None))
        self._states[state.path] = (found.stat.czxid, state)
        znode = TopicZnode.decode(topic_path(state.topic), topic.data)
        assignment = znode.partitions.get(state.partition)
        odd = assignment is None or not set(state.isr) <= set(assignment.replicas)
        if (odd and not self._follow_log()) or not state.isr:
            raise Violation(f"{where}: ISR {state.isr} of {assignment}")
        if state.leader >= 0 and state.leader not in state.isr:
            raise Violation(f"{where}: leader {state.leader}, ISR {state.isr}")
        if before is not None and known_as == found.stat.czxid:
            _check_after(where, before, state)
            count(written.totals, before, state)
        row = (state.leader, state.leader_epoch, state.isr)
        self.rows[znode.topic_id or b"", state.partition, version] = row

    def _on_deletion(self, written: WrittenZnodes, name: str) -> None:
        topic = written.get(topic_path(name))
        if topic is not None:
            znode = TopicZnode.decode(topic_path(name), topic.data)
            self._going[znode.topic_id or b""] = None

    def _on_producer_ids(self, where: str, block: ProducerIdBlockZnode) -> None:
        if block.first <= self._ids_end:
            raise Violation(f"{where}: a block from {block.first} on after one to {self._ids_end}")
        self._ids_end = block.last

    def _on_topic(self, written: WrittenZnodes, where: str, topic: TopicZnode) -> None:
        for partition, assignment in topic.partitions.items():
            path = f"{topic_path(topic.topic)}/partitions/{partition}/state"
            if len(set(assignment.replicas)) < len(assignment.replicas):
                raise Violation(f"{where}: two replicas on one broker: {assignment}")
            found = written.get(path)
            if found is not None:
                state = PartitionStateZnode.decode(path, found.data)
                if not set(state.isr) <= set(assignment.replicas) and not self._follow_log():
                    raise Violation(f"{where}: ISR {state.isr} of {partition}, {assignment}")


def _check_after(where: str, before: PartitionStateZnode, state: PartitionStateZnode) -> None:
    if state.controller_epoch < before.controller_epoch:
        raise Violation(
            f"{where}: controller epoch {state.controller_epoch} after {before.controller_epoch}"
        )
    if state.leader_epoch < before.leader_epoch:
        raise Violation(f"{where}: leader epoch {state.leader_epoch} after {before.leader_epoch}")
    if state.leader_epoch == before.leader_epoch and state.leader not in (before.leader, -1):
        raise Violation(
            f"{where}: leader {state.leader} after {before.leader} in epoch {state.leader_epoch}"
        )


def version_of(result: object) -> int:
    """The version of the znode that was made or set."""
    stat = result.stat if isinstance(result, Created) else result
    assert isinstance(stat, Stat)
    return stat.version


def count(totals: Counter[str], before: PartitionStateZnode, state: PartitionStateZnode) -> None:
    """Totals of what the run went through."""
    totals["ISR shrinks"] += len(state.isr) < len(before.isr)
    totals["ISR expansions"] += len(state.isr) > len(before.isr)
    totals["leader changes"] += state.leader not in (before.leader, -1)
