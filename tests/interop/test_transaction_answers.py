"""Apache Kafka 4.3.0 and a node of ours give the answers of docs/transaction-answers.md to the same requests.

``BARNABAS_REWRITE=1`` writes the page; the difference is for the reader to judge.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.client.network.connection import response_class
from barnabas.record.builder import build_batch
from barnabas.wire.codec import decode_prefix, is_flexible
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from barnabas.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.wire.schema import Message
from bench.wire import frame, receive
from tests.interop.node_process import NodeProcess
from tests.transaction_answers import TOPIC, Answers, ask_all, ask_leader, rewrite, table

pytestmark = [pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process]
PATIENCE_S = 120.0
LED = "led"


class TwoNodes:
    """A coordinator, and a broker that leads the partitions of the topic: it is stopped while markers are
    held. Both are Apache Kafka's if `java`, else ours."""

    def __init__(self, directory: Path, *, java: bool) -> None:
        self._first, self._second, self._controller = FreePorts().take(3)
        self._nodes: list[NodeProcess] = []
        self._stream: socket.socket | None = None
        self._start(directory / "1", 1, java=java)
        for kind, name in ((1, "any"), (0, "g")):  # the internal topics are on this node alone
            self._until_answered(FindCoordinatorRequest(key_type=kind, coordinator_keys=[name]), 4)
        self._start(directory / "2", 2, java=java)
        places = [CreatableReplicaAssignment(partition_index=n, broker_ids=[2]) for n in (0, 1)]
        topic = CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=places
        )
        self.create(topic)

    def _start(self, directory: Path, node: int, *, java: bool) -> None:
        port = (self._first, self._second)[node - 1]
        is_first = node == 1
        listeners = f"PLAINTEXT://127.0.0.1:{port}"
        if is_first:
            listeners += f",CONTROLLER://127.0.0.1:{self._controller}"
        properties = (
            f"process.roles={'broker,controller' if is_first else 'broker'}\nnode.id={node}\n"
            f"listeners={listeners}\nlog.dirs={directory / 'data'}\n"
            f"controller.quorum.voters=1@127.0.0.1:{self._controller}\n"
            "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
            "transaction.state.log.num.partitions=1\nbroker.session.timeout.ms=300000\n"
            "transaction.partition.verification.enable=false\n"
        )
        self._nodes.append(NodeProcess(directory, properties, java=java))

    def _until(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if happened():
                    return
            except OSError:
                self._stream = None
            assert time.monotonic() < deadline, f"no {what}"
            time.sleep(0.1)

    wait_until = _until

    def _until_answered(self, request: FindCoordinatorRequest, version: int) -> None:
        self._until(
            lambda: not self.send(request, version).coordinators[0].error_code, "coordinator"
        )

    def create(self, topic: CreatableTopic) -> None:
        self._until(
            lambda: self._created(topic) in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS),
            f"topic {topic.name}",
        )

    def _created(self, topic: CreatableTopic) -> int:
        answer = self.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 5)
        return int(answer.topics[0].error_code)

    def send(self, request: Message, version: int) -> Any:
        """Ask the coordinator once."""
        if self._stream is None:
            self._stream = socket.create_connection(("127.0.0.1", self._first), timeout=30)
        self._stream.sendall(frame(request, version))
        answer, response = receive(self._stream), response_class(request.API_KEY)
        start = 5 if is_flexible(response, version) else 4
        return decode_prefix(response, version, answer, start)[0]

    def hold_markers(self) -> None:
        self._nodes[1].send_signal(signal.SIGSTOP)

    def release_markers(self) -> None:
        self._nodes[1].send_signal(signal.SIGCONT)

    def is_ended(self, transactional_id: str) -> bool:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        state = self.send(request, 0).transaction_states[0].transaction_state
        return str(state).startswith("Complete")

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.close()
        for node in self._nodes:
            node.stop()


class RawLeader:
    """The leader of ``led``-0, the first of two nodes."""

    def __init__(self, nodes: TwoNodes) -> None:
        self._nodes = nodes
        place = CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
        nodes.create(
            CreatableTopic(name=LED, num_partitions=-1, replication_factor=-1, assignments=[place])
        )

    def write(self, producer_id: int, epoch: int, sequence: int) -> ErrorCode:
        batch = build_batch(
            [(None, b"v")], timestamp_ms=int(time.time() * 1000), producer_id=producer_id,
            producer_epoch=epoch, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            transactional_id="led",
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=LED, partition_data=[data])],
        )
        answer = self._nodes.send(request, 11)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def mark(self, producer_id: int, epoch: int, version: int, coordinator_epoch: int) -> ErrorCode:
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name=LED, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
        )
        answer = self._nodes.send(WriteTxnMarkersRequest(markers=[marker]), 2)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def answers_of(directory: Path, *, java: bool) -> tuple[Answers, Answers]:
    """The coordinator's and the leader's."""
    directory.mkdir()
    nodes = TwoNodes(directory, java=java)
    try:
        return ask_all(nodes, nodes.wait_until), ask_leader(RawLeader(nodes))
    finally:
        nodes.stop()


@pytest.mark.timeout(600)
def test_both_systems_answer_as_the_table_says(tmp_path: Path) -> None:
    theirs = answers_of(tmp_path / "theirs", java=True)
    ours = answers_of(tmp_path / "ours", java=False)
    for which, their, our in zip(("coordinator", "leader"), theirs, ours, strict=True):
        if os.environ.get("BARNABAS_REWRITE"):
            rewrite(which, their, our)
        else:
            assert (their, our) == table(which)
