"""A rejected record's dead letter outlives the node that could not write it yet."""

from __future__ import annotations

import pytest

from barnabas.client.consumers.share_consumer import EXPLICIT, ShareConsumerSettings
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.testing.cluster import Cluster
from tests.process.launch import barnabas

pytestmark = [pytest.mark.slow, pytest.mark.process]
LETTERS = "dlq.work"


def run(cluster: Cluster, *words: str) -> None:
    done = barnabas(*words, "--bootstrap", cluster.bootstrap)
    assert done.returncode == 0, done.stdout + done.stderr


def letters(client: Connected) -> list[tuple[bytes | None, dict[str, bytes | None]]]:
    return [(record.value, dict(record.headers)) for record in client.read([LETTERS])]


def test_a_dead_letter_that_could_not_be_written_outlives_kill_9() -> None:
    settings = ShareConsumerSettings(EXPLICIT)
    with Cluster(nodes=3) as cluster:
        worker, _, keeper = cluster.node_ids
        run(cluster, "topics", "create", "work", "--replica-assignment", str(worker))
        takes = ("-c", "errors.deadletterqueue.group.enable=true")
        run(cluster, "topics", "create", LETTERS, "--replica-assignment", str(keeper), *takes)
        run(
            cluster, "configs", "alter", "--group", "g", "-s", "share.auto.offset.reset=earliest",
            "-s", f"errors.deadletterqueue.topic.name={LETTERS}",
            "-s", "errors.deadletterqueue.copy.record.enable=true",
        )  # fmt: skip
        with connect(cluster.bootstrap) as client:
            with client.producer() as producer:
                producer.send(ProducerRecord("work", b"bad"))
            with client.share_consumer("g", settings) as member:
                member.subscribe(["work"])
                [record] = cluster.wait_for(lambda: member.poll(500), "a record")
                cluster.kill(keeper)
                member.acknowledge(record, Acknowledge.REJECT)
                assert not any(member.commit().values())
        cluster.kill(worker)
        cluster.restart(worker)
        cluster.restart(keeper)
        with connect(cluster.bootstrap) as client, client.share_consumer("g", settings) as member:
            member.subscribe(["work"])

            def found() -> list[tuple[bytes | None, dict[str, bytes | None]]]:
                assert member.poll(500) == [], "the record was rejected"
                return letters(client)

            value, headers = cluster.wait_for(found, "the dead letter", 60)[0]
        assert value == b"bad"
        assert headers["__dlq.errors.message"] == b"Offset rejected by client."
        assert headers["__dlq.errors.offset"] == b"0"
