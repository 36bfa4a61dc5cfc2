"""After a way back that is made by hand, the same controllers start again: they refuse to claim.

Nothing that was done since is lost. A new attempt succeeds once the way out that they name was taken. On
Apache's ZooKeeper and on ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from barnabas.cli.local.zookeeper_servers import OWN, ZooKeeperServers
from tests.process.ensembles import ended, ensemble
from tests.process.launch import wait_until
from tests.process.migrating_machines import (
    BROKERS,
    CONTROLLERS,
    Load,
    Machines,
    check_read,
    create,
    there,
    topics,
)

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(600)]
RULED = "another controller has ruled since"
MADE, GONE = "made-meanwhile", "gone-meanwhile"
RECORDS = 500


@pytest.fixture(params=["own", "apache"])
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    if request.param == "own":
        with (
            ZooKeeperServers(tmp_path / "ensemble", kind=OWN) as servers,
            ended(Machines(tmp_path, f"{servers.connect}/kafka")) as found,
        ):
            yield found
        return
    with (
        ensemble(tmp_path) as servers,
        ended(Machines(tmp_path, f"{servers.connect}/kafka")) as found,
    ):
        yield found


def delete_znode(machines: Machines, path: str) -> None:
    client = KazooClient(hosts=machines.zookeeper)
    client.start()
    try:
        client.delete(path)
    finally:
        client.stop()
        client.close()


def go_back_by_hand(machines: Machines) -> None:
    """`/migration` stays, and the controllers' directories."""
    for node in CONTROLLERS:
        machines.stop(node)
    delete_znode(machines, "/controller")
    wait_until(lambda: machines.controller_of_zookeeper() in BROKERS, "no broker is elected")
    for node in BROKERS:
        machines.broker(node, migrates=False)
        machines.restart(node)


def rule_meanwhile(machines: Machines) -> None:
    create(machines, MADE)
    admin = AdminClient(machines.client())
    admin.delete_topics([GONE])[GONE].result(30)
    wait_until(lambda: GONE not in topics(machines), "the topic is not deleted")
    producer, failed = Producer({**machines.client(), "acks": "all"}), []
    for number in range(RECORDS):
        producer.produce(
            MADE,
            str(number),
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0 and not failed


def records_of(machines: Machines, topic: str) -> list[int]:
    consumer: Any = Consumer({**machines.client(), "group.id": "no group"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    until = time.monotonic() + 60
    while len(found) < RECORDS and time.monotonic() < until:
        found += [int(m.value()) for m in consumer.consume(500, 0.5) if not m.error()]
    consumer.close()
    return found


def check_nothing_is_lost(machines: Machines) -> None:
    assert MADE in topics(machines) and GONE not in topics(machines)
    assert machines.controller_of_zookeeper() in BROKERS
    assert records_of(machines, MADE) == list(range(RECORDS))
    for node in BROKERS:
        assert not list(machines.directories[node].glob("*-stray"))


def refuses(machines: Machines) -> bool:
    return any(RULED in sentence for sentence in machines.status().get("missing", ()))


def return_and_be_refused(machines: Machines, load: Load) -> int:
    """The story up to the refusal by two leaders; the id of the first, which was killed."""
    there(machines)
    load.wait_for_more()
    go_back_by_hand(machines)
    rule_meanwhile(machines)
    load.wait_for_more()
    # -- the same controllers return, and brokers with the migration enabled
    for node in CONTROLLERS:
        machines.start(node)
    for node in BROKERS:
        machines.enable(node)
    wait_until(lambda: refuses(machines), "no controller refuses")
    assert machines.status()["phase"] == "become_controller"
    load.wait_for_more(500)
    leader = machines.leader()
    said = machines.run("cluster", "events", *machines.at_quorum)
    assert RULED in " ".join(said.split())
    assert "migration.refused" in (machines.home / f"{leader}.log").read_text()
    machines.kill(leader)  # the next one refuses, too
    wait_until(lambda: refuses(machines) and machines.leader() != leader, "no other leader")
    load.wait_for_more()
    return leader


def test_controllers_that_return_refuse_and_nothing_is_lost(machines: Machines) -> None:
    machines.begin()
    create(machines, GONE)
    with Load(machines) as load:
        return_and_be_refused(machines, load)
        check_nothing_is_lost(machines)


@pytest.mark.long
def test_a_new_attempt_succeeds_after_the_way_out(machines: Machines) -> None:
    machines.begin()
    create(machines, GONE)
    with Load(machines) as load:
        leader = return_and_be_refused(machines, load)
        for node in CONTROLLERS:
            if node != leader:
                machines.stop(node)
            machines.directories[node].rename(machines.home / f"old-{node}")
        delete_znode(machines, "/migration")
        there(machines)
        load.wait_for_more()
    assert MADE in topics(machines) and GONE not in topics(machines)
    assert records_of(machines, MADE) == list(range(RECORDS))
    check_read(machines, load)
