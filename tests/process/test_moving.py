"""Reassignments that meet a deletion, a shutdown and a death."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import TOPIC, NewTopic
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.process.launch import barnabas
from tests.process.load import (
    Load,
    check_read_once,
    check_replicas_equal,
    isr_of,
    led_by,
    view,
    wait_until_whole,
)

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def everybody(five: Cluster) -> None:
    """The brokers that the test before has started again are back."""

    def serve() -> bool:
        with connect(five.bootstrap) as client:
            brokers = client.describe_cluster().brokers
        return {b.node_id for b in brokers if not b.fenced} == set(five.node_ids)

    five.wait_for(serve, "every broker to be unfenced", 60)


def topic_on(cluster: Cluster, replicas: list[int]) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with connect(cluster.bootstrap) as client:
        topic = NewTopic(name, -1, -1, {"min.insync.replicas": "2"}, {0: replicas})
        client.call(client.admin.create_topics([topic]))[0].check()
    wait_until_whole(cluster, name)
    return name


def execute(cluster: Cluster, directory: Path, topic: str, replicas: list[int]) -> None:
    """Begin to move partition 0."""
    file = directory / f"{topic}.json"
    row = {"topic": topic, "partition": 0, "replicas": replicas}
    file.write_text(json.dumps({"version": 1, "partitions": [row]}))
    done = barnabas("reassign", "execute", str(file), "--bootstrap", cluster.bootstrap)
    assert done.returncode == 0, done.stderr


def under_way(cluster: Cluster) -> list[Any]:
    done = barnabas("reassign", "status", "--json", "--bootstrap", cluster.bootstrap)
    assert done.returncode == 0, done.stderr
    rows: list[Any] = json.loads(done.stdout)
    return rows


def wait_until_moved(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    def moved() -> bool:
        found = view(cluster, topic)
        return bool(found) and sorted(found[0].replicas) == sorted(replicas)

    cluster.wait_for(lambda: moved() and not under_way(cluster), f"{topic} on {replicas}", 60)
    wait_until_whole(cluster, topic)


def folders(cluster: Cluster, topic: str) -> list[str]:
    found = cluster.directory.glob(f"cluster/node-*/data/{topic}*")
    return sorted(f"{path.parent.parent.name}/{path.name}" for path in found)


def test_a_topic_is_deleted_during_its_reassignment(five: Cluster, tmp_path: Path) -> None:
    one, two, three, four, silent = five.node_ids
    topic = topic_on(five, [one, two, three])
    with Load(five, topic, 1) as load:
        load.wait_for_more(50)
    five.pause(silent)  # it never catches up: the reassignment cannot end
    try:
        execute(five, tmp_path, topic, [one, four, silent])
        assert [row["adding"] for row in under_way(five)] == [[four, silent]]
        with connect(five.bootstrap) as client:
            client.delete_topic(topic)
        assert not under_way(five)
    finally:
        five.resume(silent)

    def is_gone() -> bool:  # a paused broker that is asked knows it a moment later
        with connect(five.bootstrap) as client:
            return topic not in {known.name for known in client.topics()}

    five.wait_for(is_gone, "the topic to be gone")
    five.wait_for(lambda: not _kept(five, topic), "every replica's files to go")


def _kept(cluster: Cluster, topic: str) -> list[str]:
    """Folders that are in use: not renamed for their deletion, nor set aside by a broker that was started
    when another had its replica already."""
    return [f for f in folders(cluster, topic) if not f.endswith(("-delete", "-stray"))]


def test_a_broker_leaves_and_returns_during_a_reassignment(five: Cluster, tmp_path: Path) -> None:
    one, two, three, four, last = five.node_ids
    topic = topic_on(five, [one, two, three])
    with Load(five, topic, 1) as load:
        execute(five, tmp_path, topic, [four, last, one])
        five.terminate(four)  # while it is being added
        load.wait_for_more(20)
        five.restart(four)
        wait_until_moved(five, topic, [four, last, one])
        execute(five, tmp_path, topic, [one, two, three])
        five.terminate(view(five, topic)[0].leader)  # who leads, while it is being removed or kept
        gone = five.wait_for(lambda: [n for n in five.node_ids if not five.is_alive(n)], "its end")
        load.wait_for_more(20)
        five.restart(gone[0])
        wait_until_moved(five, topic, [one, two, three])
        load.wait_for_more(20)
    check_read_once(five, topic, load.acknowledged)
    check_replicas_equal(five, topic)


def test_the_leader_dies_during_a_reassignment(five: Cluster, tmp_path: Path) -> None:
    one, two, three, four, last = five.node_ids
    topic = topic_on(five, [one, two, three])
    with Load(five, topic, 1) as load:
        execute(five, tmp_path, topic, [three, four, last])
        five.kill(one)
        load.wait_for_more(20)
        five.restart(one)
        wait_until_moved(five, topic, [three, four, last])
        load.wait_for_more(20)
    check_read_once(five, topic, load.acknowledged)
    check_replicas_equal(five, topic)
    five.wait_for(lambda: len(_kept(five, topic)) == 3, "the files of former replicas to go")


def cancel(cluster: Cluster, topic: str) -> tuple[int, str]:
    """Status, and what it said."""
    done = barnabas("reassign", "cancel", "-t", topic, "--bootstrap", cluster.bootstrap)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_cancellation_that_would_leave_no_leader_is_refused(
    five: Cluster, tmp_path: Path
) -> None:
    one, _, _, four, silent = five.node_ids
    topic = f"t-{uuid.uuid4().hex[:8]}"
    with connect(five.bootstrap) as client:
        new = NewTopic(topic, -1, -1, {"min.insync.replicas": "1"}, {0: [one]})
        client.call(client.admin.create_topics([new]))[0].check()
    wait_until_whole(five, topic)
    with Load(five, topic, 1) as load:
        load.wait_for_more(20)
        five.pause(silent)  # it never catches up: the reassignment cannot end
        try:
            execute(five, tmp_path, topic, [four, silent])
            five.wait_for(lambda: four in isr_of(five, topic), "the new replica in sync", 60)
            five.kill(one)
            five.wait_for(lambda: led_by(five, topic) == four, "the new one to lead", 60)
            load.wait_for_more(20)
            status, said = cancel(five, topic)
            assert status == 1 and "would require an unclean leader election" in said, said
            with connect(five.bootstrap) as client:
                unclean = {"unclean.leader.election.enable": "true"}
                client.call(client.admin.alter_configs(TOPIC, topic, unclean))
            status, said = cancel(five, topic)
            assert status == 1 and "would be left without a live leader" in said, said
            assert view(five, topic)[0].leader == four
            load.wait_for_more(20)

            five.restart(one)
            five.wait_for(lambda: one in isr_of(five, topic), "the old one in sync", 60)
            status, said = cancel(five, topic)
            assert status == 0 and not under_way(five), said
            assert (view(five, topic)[0].leader, list(view(five, topic)[0].replicas)) == (
                one,
                [one],
            )
            load.wait_for_more(20)
        finally:
            five.resume(silent)
            if not five.is_alive(one):
                five.restart(one)
    check_read_once(five, topic, load.acknowledged)
