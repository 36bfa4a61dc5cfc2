"""Java's producer, group member and admin client that were connected before a node died.

``BARNABAS_DEATHS=20`` plays twenty deaths of each kind; the table of seconds is printed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.types import OFFSETS_TOPIC
from tests.clients.access import Access
from tests.clients.checks import fresh
from tests.clients.connected import KINDS, PARTITIONS, dies_as
from tests.clients.connected_java import Java
from tests.process.load import wait_until_whole

DEATHS = int(os.environ.get("BARNABAS_DEATHS", "1"))
"""Of each kind."""
WITHIN_MS = 2_000
pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka"),
    pytest.mark.slow,
    pytest.mark.timeout(120 + 60 * DEATHS),
]


def test_java_clients_connected_before_act_within_two_seconds_of_a_death(tmp_path: Path) -> None:
    with Cluster(nodes=3) as cluster:
        topic, group = fresh("stays"), fresh("group")
        with connect(cluster.bootstrap) as client:
            client.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
        wait_until_whole(cluster, topic)
        access = Access(cluster.bootstrap)
        java = Java(access, topic, group, tmp_path)
        took: dict[tuple[str, str], list[int]] = {}
        try:
            for turn, kind in enumerate([kind for _ in range(DEATHS) for kind in KINDS]):
                java.act(2 * turn + 1)
                victim = dies_as(access, kind, topic, group)
                cluster.kill(victim)
                for name, ms in java.act(2 * turn + 2).items():
                    took.setdefault((name, kind), []).append(ms)
                cluster.restart(victim)
                wait_until_whole(cluster, topic)
                wait_until_whole(cluster, OFFSETS_TOPIC)
        finally:
            java.close()
            told = "\n".join(
                f"java {name:10} {kind + ' dies':18} worst {max(ms)} ms  median"
                f" {sorted(ms)[len(ms) // 2]} ms  of {len(ms)}"
                for (name, kind), ms in sorted(took.items())
            )
            print(f"\n{told}")
        assert all(len(ms) == DEATHS for ms in took.values()) and len(took) == 3 * len(KINDS), told
        assert max(max(ms) for ms in took.values()) < WITHIN_MS, told
