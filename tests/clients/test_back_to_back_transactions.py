"""Kafka's Java producer begins each transaction as soon as the one before is answered.

The markers of the transaction before are on their way then, and every third transaction is aborted before its
writes are answered. Nothing fails, and every committed record is there once.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.consumers.fetch_requests import FetchSettings
from barnabas.client.offsets import EARLIEST
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.transaction.transaction import CLIENT_EPOCH_MAX
from barnabas.wire.codec import decode_prefix
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.find_coordinator_response import FindCoordinatorResponse
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse
from bench.wire import ask, frame, receive
from tests.clients.checks import fresh
from tests.interop.java_programs import Program
from tests.peers import CLASS_PATH_CLIENTS

pytestmark = [
    pytest.mark.process,
    pytest.mark.peers("clients"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
COUNT = 120
AT_ONCE = 200
"""Requests that are sent before their answers are read."""


def run_transactions(cluster: Cluster, partitions: int, transactional_id: str, log: Path) -> None:
    """Each transaction ends as asked, without an error; committed ones are there once, the others are not."""
    topic = fresh("loop")
    connected = connect(cluster.bootstrap)
    connected.create_topic(topic, partitions, 3, {"min.insync.replicas": "2"})
    words = (cluster.bootstrap, topic, str(partitions), transactional_id, str(COUNT))
    program = Program("BackToBack", *words, log=log, class_path=CLASS_PATH_CLIENTS)
    try:
        program.wait_for_lines("done")
    finally:
        program.kill()
    settings = ConsumerSettings(
        auto_offset_reset="earliest", fetch=FetchSettings(read_committed=True)
    )
    wanted = [b"%d" % number for number in range(COUNT) if number % 3 != 2]
    found: dict[int, list[bytes | None]] = {partition: [] for partition in range(partitions)}
    with connected.consumer(settings=settings) as consumer:
        consumer.inner.assign(dict.fromkeys(connected.partitions_of([topic]), EARLIEST))
        while any(len(values) < len(wanted) for values in found.values()):
            for record in consumer.poll(2_000):
                found[record.partition].append(record.value)
    connected.close()
    assert found == dict.fromkeys(range(partitions), wanted)


@pytest.mark.parametrize("partitions", [1, 10])
def test_java_commits_and_aborts_without_a_pause(
    cluster: Cluster, partitions: int, tmp_path: Path
) -> None:
    run_transactions(cluster, partitions, fresh("app"), tmp_path / "log")


def test_java_continues_with_another_producer_id_when_its_epochs_run_out(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The epochs before are used up by other producers of the transactional id, which initialize only."""
    transactional_id = fresh("app")
    before = use_epochs(cluster.bootstrap, transactional_id, CLIENT_EPOCH_MAX - COUNT // 2)
    run_transactions(cluster, 2, transactional_id, tmp_path / "log")
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    after = ask(
        coordinator_of(cluster.bootstrap, transactional_id), request, 5, InitProducerIdResponse
    )
    assert after.producer_id not in (before, -1)


def use_epochs(bootstrap: str, transactional_id: str, last: int) -> int:
    """Initialize producers until one has the epoch `last`; the producer id."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    epoch, producer_id = -1, -1
    sent = frame(request, 5)
    host, _, port = coordinator_of(bootstrap, transactional_id).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as stream:
        while epoch < last:
            count = min(AT_ONCE, last - epoch)
            stream.sendall(sent * count)
            for _ in range(count):
                answer = decode_prefix(InitProducerIdResponse, 5, receive(stream), 5)[0]
                assert not answer.error_code, ErrorCode(answer.error_code)
                producer_id, epoch = answer.producer_id, answer.producer_epoch
    return producer_id


def coordinator_of(bootstrap: str, transactional_id: str) -> str:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    while True:
        found = ask(bootstrap, request, 4, FindCoordinatorResponse).coordinators[0]
        if not found.error_code:
            return f"{found.host}:{found.port}"
