"""A leader and the answers to the changes of its ISR."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.controller_client.controller_channel import ControllerChannel
from barnabas.broker.partitions.alter_partition_sender import AlterPartitionSender
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.replicas.directory_assignments import DirectoryAssignments
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.replication.isr import CommittedIsr, PendingShrink
from barnabas.replication.leader import IsrProposal
from barnabas.sim.world.process import SimProcess
from barnabas.types import Endpoint, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import assign_replicas_to_dirs_response as directories
from barnabas.wire.messages.alter_partition_response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from tests.unit.broker.fakes import Hand, advance, process
from tests.unit.broker.world import Cluster


def members(partition: Partition) -> int:
    """Of the ISR that its leader counts with."""
    assert partition.leader is not None
    return len(partition.leader.isr)


@pytest.mark.slow
def test_a_smaller_isr_holds_from_where_the_metadata_log_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer may come before a higher min.insync.replicas that is before it in the log: with both
    late, the leader would commit alone, and who left is eligible."""
    cluster = Cluster(3)
    cluster.create_topic("t", 1, 3, min_insync_replicas="1")
    cluster.produce([b"a"])
    leader = cluster.leader("t")
    partition, replicas = cluster.partition(leader), cluster.broker(leader).replicas
    late: list[ImageChanges] = []
    with monkeypatch.context() as patch:
        patch.setattr(replicas, "apply", late.append)
        dead = next(node for node in cluster.ids if node != leader)
        other = next(node for node in cluster.ids if node not in (leader, dead))
        cluster.sim.nodes[dead].kill()
        image = cluster.broker(other).image
        cluster.until(lambda: len(image.topics_by_name["t"].isr[0]) == 2)
        cluster.produce([b"b"], acks=1)
        cluster.run(500)
        assert members(partition) == 3
        assert partition.high_watermark == 1
    for changes in late:
        replicas.apply(changes)
    assert members(partition) == 2
    cluster.until(lambda: partition.high_watermark == 2)


TOPIC = Uuid(b"t" * 16)


def to_controller() -> tuple[SimProcess, Hand, ControllerChannel]:
    """A line to a controller that answers by hand."""
    ports, hand = process(), Hand()
    line = ControllerChannel(ports, hand, 30_000)
    line.on_controller_change(1, Endpoint("controller", 1))
    return ports, hand, line


def shrink(changes: AlterPartitionSender, index: int) -> None:
    """Propose the end of one member of two, for a leader that cannot take anything back."""
    state = PendingShrink(CommittedIsr((1, 2)), (2,))
    leader = SimpleNamespace(isr_state=state, isr=(1, 2))
    partition: Any = SimpleNamespace(
        topic_id=TOPIC, index=index, leader=leader, name="t", leader_epoch=0
    )
    changes.submit(partition, IsrProposal(0, 0, (1,), (5,), 0, state))


def answer_of(*answers: PartitionData) -> AlterPartitionResponse:
    return AlterPartitionResponse(topics=[TopicData(topic_id=TOPIC, partitions=list(answers))])


def test_a_proposal_made_meanwhile_is_sent_with_the_answer() -> None:
    """It waited for another 50 ms, as if it had been refused."""
    ports, hand, line = to_controller()
    changes = AlterPartitionSender(ports, line, 1, lambda: 5)
    shrink(changes, 0)
    advance(ports, 1)
    first = hand.take()
    shrink(changes, 1)
    first.answer(answer_of(PartitionData(partition_index=0, isr=[1])))
    advance(ports, 1)
    [second] = hand.take().request.topics[0].partitions
    assert second.partition_index == 1


def test_a_fault_at_one_answer_leaves_the_others_theirs() -> None:
    ports, hand, line = to_controller()
    changes = AlterPartitionSender(ports, line, 1, lambda: 5)
    for index in range(2):
        shrink(changes, index)
    advance(ports, 1)
    refused = PartitionData(partition_index=0, error_code=ErrorCode.INELIGIBLE_REPLICA)
    unknown = PartitionData(partition_index=1, error_code=9_999)
    with pytest.raises(AttributeError):
        hand.take().answer(answer_of(refused, unknown))
    advance(ports, 60)
    [again] = hand.take().request.topics[0].partitions
    assert again.partition_index == 1


def test_a_fault_of_one_who_waits_for_a_directory_leaves_the_others_theirs() -> None:
    ports, hand, line = to_controller()
    assignments, told = DirectoryAssignments(ports, line, 1, lambda: 5), list[int]()

    def fail(code: int) -> None:
        raise RuntimeError("a fault of the program")

    def submit(index: int, on_answer: Callable[[int], None]) -> None:
        partition: Any = SimpleNamespace(topic_id=TOPIC, index=index)
        assignments.submit(partition, TOPIC, on_answer)

    submit(0, fail)
    submit(1, told.append)
    advance(ports, 1)
    asked = hand.take()
    submit(2, told.append)
    parts = [directories.PartitionData(partition_index=index) for index in range(2)]
    topics = [directories.TopicData(topic_id=TOPIC, partitions=parts)]
    answer = directories.DirectoryData(id=TOPIC, topics=topics)
    with pytest.raises(RuntimeError):
        asked.answer(directories.AssignReplicasToDirsResponse(directories=[answer]))
    assert told == [0]
    advance(ports, 1)
    assert hand.take().request.directories[0].topics[0].partitions[0].partition_index == 2


def test_a_refusal_is_said_once_for_each_partition_and_cause() -> None:
    """A leader that was deposed is refused each time until it hears of that."""
    ports, hand, line = to_controller()
    changes = AlterPartitionSender(ports, line, 1, lambda: 5)
    causes = [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST]
    for code in [causes[0]] * 5 + [causes[1]] * 5 + causes * 5:
        for index in range(2):
            shrink(changes, index)
        advance(ports, 1000)
        answers = [PartitionData(partition_index=index, error_code=code) for index in range(2)]
        hand.take().answer(answer_of(*answers))
        advance(ports, 1000)
    told = [line for line in ports.log_lines if "isr.change_refused" in line]
    assert len(told) == 2 * len(causes), told
