"""Clients of Python that were connected before a node died act again within 2 s of the death.

``BARNABAS_DEATHS=20`` plays twenty deaths of each kind; the table of seconds is printed.
"""

from __future__ import annotations

import os

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.clients.checks import fresh
from tests.clients.connected import KINDS, PARTITIONS, Deaths, groups_of_one_coordinator
from tests.process.load import wait_until_whole

for library in ("confluent_kafka", "kafka", "aiokafka"):
    pytest.importorskip(library)

from tests.clients.connected_python import Loop, all_clients  # noqa: E402

DEATHS = int(os.environ.get("BARNABAS_DEATHS", "1"))
"""Of each kind."""
WITHIN_S = 2.0
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(90 + 60 * DEATHS),
]


def test_clients_connected_before_go_on_within_two_seconds_of_a_death() -> None:
    with Cluster(nodes=3) as cluster:
        topic, groups = fresh("stays"), groups_of_one_coordinator(3)
        with connect(cluster.bootstrap) as client:
            client.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
        wait_until_whole(cluster, topic)
        loop = Loop()
        deaths = Deaths(
            cluster, topic, groups[0], all_clients(loop, cluster.bootstrap, topic, groups)
        )
        try:
            for _ in range(DEATHS):
                for kind in KINDS:
                    deaths.play(kind)
        finally:
            print(f"\n{deaths.table()}")
            deaths.close()
            loop.close()
        assert deaths.worst() < WITHIN_S, f"\n{deaths.table()}"
