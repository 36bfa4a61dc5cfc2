"""kill -9 in ZooKeeper mode beside Apache Kafka 3.9.1: ``python -m bench.zookeeper_failover [--rounds 3]``.

Three brokers of each on one ZooKeeper server, both with the same file, whose settings are defaults. A broker
that leads a partition and is not the controller is killed: the longest pause of acknowledgements of a client
that writes on. The controller is killed: from then to the next topic. A round is one kill of each kind of
each system, in turn, so that both meet the same load. Writes ``bench/results/zookeeper-failover.txt``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from kazoo.client import KazooClient

from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.local.zookeeper_servers import ZooKeeperServers
from bench import workloads
from bench.systems import JVM, ROOT, System

LIBS_39 = ROOT / "peers" / "libs39"
BROKERS = (1, 2, 3)
GONE_S = 60.0
"""Longer than a session."""
GIVEN_UP_S = 180.0


class OnZookeeper(System):
    """Three brokers of one program on a ZooKeeper of their own."""

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    def start(self) -> None:
        self.directory.mkdir(parents=True)
        self.servers = ZooKeeperServers(self.directory / "zk", libraries=f"{LIBS_39}/*")
        self.servers.start()
        self.znodes = KazooClient(hosts=self.servers.connect)
        self.znodes.start()
        ports = FreePorts().take(3)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for broker, port in zip(BROKERS, ports, strict=True):
            (self.directory / f"{broker}.properties").write_text(
                f"broker.id={broker}\nzookeeper.connect={self.servers.connect}\n"
                f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={self.directory}/data-{broker}\n"
                "offsets.topic.replication.factor=3\ntransaction.state.log.replication.factor=3\n"
            )

    def launch(self) -> None:
        for broker in BROKERS:
            self.restart(broker)

    def pids(self) -> dict[int, int]:
        return {broker: process.pid for broker, process in self.processes.items()}

    def kill(self, node_id: int) -> None:
        super().kill(node_id)
        self.processes[node_id].wait()

    def restart(self, node_id: int) -> None:
        """When its former registration has ended: a broker of Kafka's ends where it finds that."""
        path, deadline = f"/brokers/ids/{node_id}", time.monotonic() + GONE_S
        while self.znodes.exists(path) is not None and time.monotonic() < deadline:
            time.sleep(0.1)
        with (self.directory / f"{node_id}.log").open("ab") as log:
            self.processes[node_id] = subprocess.Popen(
                [*self.command(), str(self.directory / f"{node_id}.properties")],
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.znodes.stop()
        self.znodes.close()
        self.servers.stop()


class Kafka39(OnZookeeper):
    name = "kafka 3.9.1"

    def command(self) -> Sequence[str]:
        return ["java", *JVM, "-cp", f"{LIBS_39}/*", "kafka.Kafka"]


class BarnabasOnZookeeper(OnZookeeper):
    name = "barnabas"

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "barnabas", "node", "start"]


def controller_of(system: System) -> int:
    found: int = workloads.admin(system).list_topics(timeout=10).controller_id
    return found


def leader_dies(system: OnZookeeper, round_: int) -> float:
    """Seconds of the longest pause."""
    workloads.wait_whole(system, "first")
    controller = controller_of(system)
    others = [broker for broker in BROKERS if broker != controller]
    topic = f"leader-{round_}"
    workloads.create_topic(system, topic, replicas=[*others, controller])
    workloads.wait_whole(system, topic)
    return workloads.longest_pause(system, topic, others[0])


def controller_dies(system: OnZookeeper, round_: int) -> float:
    """Seconds until the next topic is there, on the two brokers that live."""
    workloads.wait_whole(system, "first")
    controller = controller_of(system)
    others = [broker for broker in BROKERS if broker != controller]
    system.kill(controller)
    began = time.monotonic()
    while not created(system, f"after-{round_}", others):
        assert time.monotonic() < began + GIVEN_UP_S, "no topic can be created"
    took = time.monotonic() - began
    system.restart(controller)
    return took


def created(system: System, name: str, replicas: list[int]) -> bool:
    """Asked by a client that knows of nothing: one of librdkafka's holds to the controller that it knows."""
    client, topic = workloads.admin(system), NewTopic(name, 1, replica_assignment=[replicas])
    try:
        client.create_topics([topic], request_timeout=2)[name].result(4)
    except KafkaException as error:
        return bool(error.args[0].name() == "TOPIC_ALREADY_EXISTS")
    except TimeoutError:
        return False
    return True


KILLS = {
    "leader killed: longest pause of acknowledgements, s": leader_dies,
    "controller killed: next topic, s": controller_dies,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not LIBS_39.is_dir():
        raise SystemExit("peers/libs39 is missing: run `make peers` first")
    found: dict[tuple[str, str], list[float]] = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        systems: list[OnZookeeper] = [
            kind(Path(scratch) / kind.__name__) for kind in (Kafka39, BarnabasOnZookeeper)
        ]
        started: list[OnZookeeper] = []
        try:
            for system in systems:
                started.append(system)
                workloads.start(system, measure=False)
            for round_ in range(options.rounds):
                for what, kill in KILLS.items():
                    for system in systems:
                        seconds = kill(system, round_)
                        found.setdefault((what, system.name), []).append(seconds)
                        print(f"{system.name:12} {what:52} {seconds:8.3f}", flush=True)
        finally:
            for system in started:
                system.stop()
    head = f"python -m bench.zookeeper_failover --rounds {options.rounds}"
    lines = [f"{head}, {os.cpu_count()} cores, load average {load:.1f} before"]
    for what in KILLS:
        theirs, ours = (found[what, system.name] for system in systems)
        ratio = statistics.median(ours) / statistics.median(theirs)
        worst = max(ours) / min(theirs)
        lines.append(
            f"{what:54} kafka 3.9.1 {_spread(theirs)}, barnabas {_spread(ours)}, ratio of medians"
            f" {ratio:.3f}, our worst to their best {worst:.3f}"
        )
    text = "\n".join(lines)
    print(text)
    (ROOT / "bench" / "results" / "zookeeper-failover.txt").write_text(f"{text}\n")


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


if __name__ == "__main__":
    main()
