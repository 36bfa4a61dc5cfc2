"""The cost of a scrape on one real node with ten thousand partitions, and the delay that it causes others.

A client writes one record after another with acks=1 to a hundred partitions: while nothing scrapes, while a
scraper asks for ``/metrics`` once a second, and while one asks again as soon as it has its answer. "CPU" is
the process's CPU time for a scrape while nothing else happens; "longest turn" is the loop's since the start,
and before requests and scrapes met.

    python -m bench.scrape [--partitions 10000] [--scrapes 20]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import urllib.request

import confluent_kafka

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster

TOPIC, TOPIC_SIZE = "t", 1_000
REQUESTS = 2_000
BATCH_PATIENCE_S = 60.0


class Node:
    """One node's endpoint."""

    def __init__(self, address: str) -> None:
        self.url = f"{address}/metrics"
        self.bytes = 0

    def scrape(self) -> dict[str, float]:
        """The process's own figures of a page."""
        with urllib.request.urlopen(self.url, timeout=BATCH_PATIENCE_S) as answer:
            page = answer.read()
        self.bytes = len(page)
        wanted = (b"process_", b"barnabas_loop_", b"barnabas_scrape_")
        lines = [line for line in page.splitlines() if line.startswith(wanted)]
        return {line.split()[0].decode(): float(line.split()[1]) for line in lines}


class Scraper:
    """A process that scrapes until it is stopped, `pause_s` apart. In the client's own process, reading a
    page would delay the client."""

    def __init__(self, node: Node, pause_s: float) -> None:
        words = [sys.executable, "-c", _SCRAPER, node.url, str(pause_s)]
        self._process = subprocess.Popen(words)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


_SCRAPER = """
import sys, time, urllib.request
while True:
    time.sleep(float(sys.argv[2]))
    with urllib.request.urlopen(sys.argv[1], timeout=60) as answer:
        answer.read()
"""


def delays_ms(bootstrap: str, requests: int) -> list[float]:
    """The time of each of `requests` produce requests, one after the other, sorted."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1, "log_level": 0}
    )
    found = []
    for number in range(requests):
        began = time.monotonic()
        producer.produce(f"{TOPIC}-0", b"v" * 100, partition=number % 100)
        if producer.flush(BATCH_PATIENCE_S):
            raise SystemExit("a record is not acknowledged")
        found.append((time.monotonic() - began) * 1000)
    return sorted(found)


def scrape_cpu_ms(node: Node, scrapes: int) -> float:
    """CPU milliseconds of the process for one scrape more, while nothing else happens."""
    before = node.scrape()["process_cpu_seconds_total"]
    for _ in range(scrapes):
        node.scrape()
    after = node.scrape()["process_cpu_seconds_total"]
    return (after - before) * 1000 / (scrapes + 1)


def line(name: str, found: list[float]) -> None:
    quantiles = " ".join(
        f"p{100 * share:g} {found[min(int(len(found) * share), len(found) - 1)]:6.2f}"
        for share in (0.5, 0.99, 0.999)
    )
    print(f"{name:<34} {quantiles} ms", flush=True)


def run(partitions: int, scrapes: int) -> None:
    with Cluster(nodes=1) as cluster, connect(cluster.bootstrap) as client:
        topics = [f"{TOPIC}-{number}" for number in range(partitions // TOPIC_SIZE)]
        for topic in topics:
            client.create_topic(topic, partitions=TOPIC_SIZE, replication_factor=1)
        with client.producer() as producer:
            for topic in topics:
                for index in range(TOPIC_SIZE):
                    producer.send(ProducerRecord(topic, b"v", partition=index))
        node = Node(cluster.node(1)["metrics"])
        node.scrape()
        time.sleep(3)  # the logs' background work
        cpu_ms = scrape_cpu_ms(node, scrapes)
        print(f"page                               {node.bytes / 1e6:.1f} MB")
        print(f"CPU of a scrape, nothing changed   {cpu_ms:.1f} ms")
        line("requests without scrapes", delays_ms(cluster.bootstrap, REQUESTS))
        before_ms = node.scrape()["barnabas_loop_longest_turn_seconds"] * 1000
        for pause_s, what in ((1.0, "one scrape a second"), (0.0, "scrapes without a pause")):
            scraper = Scraper(node, pause_s)
            found = delays_ms(cluster.bootstrap, REQUESTS)
            scraper.stop()
            line(f"requests with {what}", found)
        figures = node.scrape()
        longest_ms = figures["barnabas_loop_longest_turn_seconds"] * 1000
        scrape_ms = figures["barnabas_scrape_seconds"] * 1000
        print(
            f"longest turn since the start       {longest_ms:.1f} ms, without scrapes {before_ms:.1f} ms"
        )
        print(f"the last scrape, by the node       {scrape_ms:.1f} ms")
        cluster.kill(1)  # it would close thousands of logs one by one


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--scrapes", type=int, default=20)
    asked = parser.parse_args()
    run(asked.partitions, asked.scrapes)


if __name__ == "__main__":
    main()
