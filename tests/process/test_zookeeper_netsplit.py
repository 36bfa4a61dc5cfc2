"""Netsplits of a controller in ZooKeeper mode, with real processes under idempotent load: from half of the
brokers and not from ZooKeeper, and from ZooKeeper and not from the brokers. Nothing is lost, nothing is there
twice, and the cluster is whole after the netsplit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.local.zookeeper_servers import ZooKeeperServers
from barnabas.config.properties import format_properties
from tests.process.ensembles import ended, ensemble
from tests.process.launch import wait_until
from tests.process.migrating_machines import PARTITIONS, TOPIC, Load, check_read
from tests.process.relays import Relays

BROKERS = (1, 2, 3, 4)
ZOOKEEPER = "zookeeper"
SESSION_MS = 6_000
SPLIT_S = 12.0
"""Longer than a session."""
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not Path("/proc/net/tcp").exists(), reason="who connects is read from /proc"
    ),
]


class SplitCluster:
    """Four brokers that reach each other, and ZooKeeper, through relays; clients reach them directly."""

    def __init__(self, home: Path, servers: ZooKeeperServers) -> None:
        self.home = home
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.relays = Relays(lambda: {name(b): p.pid for b, p in self.processes.items()})
        self.clients = dict(zip(BROKERS, FreePorts().take(len(BROKERS)), strict=True))
        ensemble = int(servers.connect.partition("/")[0].rpartition(":")[2])
        self.znodes = KazooClient(hosts=servers.connect)
        self.znodes.start()
        for broker in BROKERS:
            between, relayed, to_zookeeper = FreePorts().take(3)
            self.relays.add(relayed, between, name(broker))
            self.relays.add(to_zookeeper, ensemble, ZOOKEEPER)
            self._start(broker, between, relayed, to_zookeeper)
        wait_until(lambda: len(self.registrations()) == len(BROKERS), "brokers")

    def _start(self, broker: int, between: int, relayed: int, to_zookeeper: int) -> None:
        client = f"CLIENT://127.0.0.1:{self.clients[broker]}"
        values = {
            "broker.id": str(broker),
            "zookeeper.connect": f"127.0.0.1:{to_zookeeper}",
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "listeners": f"BETWEEN://127.0.0.1:{between},{client}",
            "advertised.listeners": f"BETWEEN://127.0.0.1:{relayed},{client}",
            "listener.security.protocol.map": "BETWEEN:PLAINTEXT,CLIENT:PLAINTEXT",
            "inter.broker.listener.name": "BETWEEN",
            "log.dirs": str(self.home / f"data-{broker}"),
            "offsets.topic.replication.factor": "3",
            "replica.lag.time.max.ms": "4000",
        }
        file = self.home / f"{broker}.properties"
        file.write_text(format_properties(values, ""))
        with (self.home / f"{broker}.log").open("ab") as log:
            self.processes[broker] = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "node", "start", str(file)],
                stdout=log,
                stderr=log,
            )

    def end(self) -> None:
        self.relays.heal()
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(30)
        self.relays.end()
        self.znodes.stop()
        self.znodes.close()

    def client(self) -> dict[str, Any]:
        at = ",".join(f"127.0.0.1:{port}" for port in self.clients.values())
        return {"bootstrap.servers": at, "log_level": 0}

    def read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.znodes.get(path)[0])
        return found

    @property
    def controller(self) -> int:
        return int(self.read("/controller")["brokerid"])

    @property
    def epoch(self) -> int:
        return int(self.znodes.get("/controller_epoch")[0])

    def registrations(self) -> dict[int, int]:
        found = {}
        for broker in BROKERS:
            stat = self.znodes.exists(f"/brokers/ids/{broker}")
            if stat is not None:
                found[broker] = stat.czxid
        return found

    def is_whole(self, topic: str) -> bool:
        """Whether every replica is in its ISR, and every broker knows the leaders that are written."""
        states = [
            self.read(f"/brokers/topics/{topic}/partitions/{i}/state") for i in range(PARTITIONS)
        ]
        return all(len(state["isr"]) == 3 for state in states)

    def known_leaders(self, broker: int, topic: str) -> dict[int, int]:
        """As this broker answers a client."""
        admin = AdminClient(
            {"bootstrap.servers": f"127.0.0.1:{self.clients[broker]}", "log_level": 0}
        )
        found = admin.list_topics(topic, timeout=5).topics[topic].partitions
        return {index: one.leader for index, one in found.items()}

    def all_agree(self, topic: str) -> bool:
        written = {
            i: int(self.read(f"/brokers/topics/{topic}/partitions/{i}/state")["leader"])
            for i in range(PARTITIONS)
        }
        return all(self.known_leaders(broker, topic) == written for broker in BROKERS)

    def create(self, topic: str) -> None:
        """Asked again while no controller answers, by another client each time: one that is connected to a
        broker that is cut off, and to no other, hears of no controller."""

        def is_there() -> bool:
            admin = AdminClient(self.client())
            wanted = NewTopic(topic, PARTITIONS, 3, config={"min.insync.replicas": "2"})
            try:
                admin.create_topics([wanted], request_timeout=5)[topic].result()
            except KafkaException as error:
                return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
            return True

        wait_until(is_there, f"{topic} is not created")


def name(broker: int) -> str:
    return f"broker {broker}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SplitCluster]:
    with ensemble(tmp_path) as servers, ended(SplitCluster(tmp_path, servers)) as found:
        yield found


def whole_again(cluster: SplitCluster, load: Load, *topics: str) -> None:
    for topic in topics:
        wait_until(lambda: cluster.is_whole(topic), f"{topic} is not whole")  # noqa: B023
        wait_until(lambda: cluster.all_agree(topic), f"brokers differ about {topic}")  # noqa: B023
    load.wait_for_more()


def test_a_controller_is_cut_off_from_half_of_the_brokers(cluster: SplitCluster) -> None:
    cluster.create(TOPIC)
    wait_until(lambda: cluster.is_whole(TOPIC), "the topic is not whole")
    with Load(cluster) as load:
        controller, epoch, before = cluster.controller, cluster.epoch, cluster.registrations()
        others = [broker for broker in BROKERS if broker != controller]
        cluster.relays.split(*((name(controller), name(other)) for other in others[:2]))
        until = time.monotonic() + SPLIT_S
        cluster.create("during")  # by a controller that reaches half of its brokers
        while time.monotonic() < until:
            time.sleep(0.2)
            # ZooKeeper says that all of them live, and which is the controller: silence ends neither.
            assert cluster.registrations() == before
        cluster.relays.heal()
        whole_again(cluster, load, TOPIC, "during")
        assert (cluster.controller, cluster.epoch) == (controller, epoch)
    check_read(cluster, load)


def test_a_controller_is_cut_off_from_zookeeper_alone(cluster: SplitCluster) -> None:
    cluster.create(TOPIC)
    wait_until(lambda: cluster.is_whole(TOPIC), "the topic is not whole")
    with Load(cluster) as load:
        controller, epoch = cluster.controller, cluster.epoch
        before = cluster.registrations()
        cluster.relays.split((name(controller), ZOOKEEPER))
        wait_until(lambda: cluster.epoch > epoch, "no other broker is elected")
        following = cluster.controller
        assert following != controller
        cluster.create(
            "during"
        )  # the former one still reaches every broker, which obey the later epoch
        load.wait_for_more()
        assert controller not in cluster.registrations()
        cluster.relays.heal()
        wait_until(lambda: controller in cluster.registrations(), "it does not register again")
        assert cluster.registrations()[controller] != before[controller]
        whole_again(cluster, load, TOPIC, "during")
        assert cluster.controller == following
    check_read(cluster, load)
