"""A broker of Apache Kafka 3.9.1 and two of ours on one ZooKeeper: either side rules the other.

The controller is killed -9, records replicate across, and nothing that was acknowledged is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.interop.mixed_cluster import (
    OURS,
    THEIRS,
    MixedCluster,
    mixed_cluster,
    run_java,
    wait_until,
)
from tests.process.launch import barnabas

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]


@pytest.fixture(scope="module", params=["3.6", "3.9"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    keys = {"inter.broker.protocol.version": request.param}  # in every broker's file
    with mixed_cluster(tmp_path_factory.mktemp("mixed"), keys=keys) as cluster:
        yield cluster


def test_records_replicate_across_whichever_side_rules(cluster: MixedCluster) -> None:
    for broker in (THEIRS, *OURS):  # theirs comes first, and rules
        cluster.start(broker)
    assert cluster.controller == THEIRS
    cluster.create("theirs")
    assert cluster.leaders("theirs") == {THEIRS, *OURS}
    cluster.produce("theirs", range(300))
    assert cluster.values("theirs", 300) == list(range(300))

    cluster.kill(THEIRS)
    wait_until(lambda: cluster.controller in OURS, "ours does not rule")
    wait_until(lambda: cluster.leaders("theirs") <= set(OURS), "leaders")
    cluster.produce("theirs", range(300, 600))
    cluster.restart_theirs()
    cluster.wait_for_all("theirs")
    assert cluster.controller in OURS
    cluster.create("ours")
    cluster.produce("ours", range(300))
    assert cluster.values("ours", 300) == list(range(300))
    assert cluster.values("theirs", 600) == list(range(600))


def test_a_controller_of_theirs_reads_what_ours_wrote(cluster: MixedCluster) -> None:
    assert cluster.controller in OURS
    for broker in OURS:
        cluster.kill(broker)
    wait_until(lambda: cluster.controller == THEIRS, "theirs does not rule")
    for broker in OURS:
        cluster.start(broker)
    for topic in ("theirs", "ours"):
        cluster.wait_for_all(topic)
    cluster.produce("ours", range(300, 600))
    cluster.create("later")
    assert cluster.controller == THEIRS
    assert cluster.values("ours", 600) == list(range(600))
    assert cluster.values("theirs", 600) == list(range(600))


def test_a_quota_that_either_side_writes_is_known_to_both(cluster: MixedCluster) -> None:
    assert cluster.controller == THEIRS
    their_tool(cluster, "producer_byte_rate=1024")
    path = "/config/users/alice"
    wait_until(lambda: "producer_byte_rate" in cluster.read(path)["config"], "the quota's znode")
    ours_knows = partial(our_quotas, cluster, "1024")
    wait_until(ours_knows, "ours does not know what theirs wrote")

    cluster.kill(THEIRS)
    wait_until(lambda: cluster.controller in OURS, "ours does not rule")
    changed = barnabas(
        "quotas", "alter", "--user", "alice", "--set", "producer_byte_rate=2048", "-b", cluster.ours
    )
    assert changed.returncode == 0, changed.stderr
    assert cluster.read(path)["config"] == {"producer_byte_rate": "2048"}
    cluster.restart_theirs()
    cluster.wait_for_all("ours")
    their_tool(cluster, "consumer_byte_rate=512")
    wait_until(partial(our_quotas, cluster, "512"), "ours does not know what theirs wrote")
    removed = barnabas(
        "quotas", "alter", "--user", "alice", "--delete", "producer_byte_rate", "-b", cluster.ours
    )
    assert removed.returncode == 0, removed.stderr
    assert cluster.read(path)["config"] == {"consumer_byte_rate": "512"}


def test_a_client_changes_configurations_at_any_broker(cluster: MixedCluster) -> None:
    """One of ours hands on what a controller of theirs takes without an envelope."""
    cluster.rule({THEIRS})
    at = ("-b", cluster.ours)
    for arguments in (
        ("quotas", "alter", "--user", "berta", "--set", "consumer_byte_rate=77", *at),
        ("configs", "alter", "--topic", "ours", "--set", "retention.ms=123456", *at),
    ):
        changed = barnabas(*arguments)
        assert changed.returncode == 0, changed.stderr
    assert cluster.read("/config/users/berta")["config"] == {"consumer_byte_rate": "77"}
    assert cluster.read("/config/topics/ours")["config"] == {"retention.ms": "123456"}
    own = ("configs", "alter", "--broker", str(OURS[0]), "--set", "log.retention.ms=5000000", *at)
    changed = barnabas(*own)  # the broker writes it itself, as Kafka's do
    assert changed.returncode == 0, changed.stderr
    assert cluster.read(f"/config/brokers/{OURS[0]}")["config"] == {"log.retention.ms": "5000000"}
    for broker in (THEIRS, *OURS):
        run_java(
            "kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap, "--alter",
            "--entity-type", "brokers", "--entity-name", str(broker), "--add-config", "background.threads=7",
        )  # fmt: skip
        assert cluster.read(f"/config/brokers/{broker}")["config"]["background.threads"] == "7"
    for broker in (THEIRS, *OURS):
        address = f"127.0.0.1:{cluster.ports[broker]}"
        run_java(
            "kafka.admin.ConfigCommand", "--bootstrap-server", address, "--alter",
            "--entity-type", "topics", "--entity-name", "ours", "--add-config", f"segment.ms={broker}000",
        )  # fmt: skip
        assert cluster.read("/config/topics/ours")["config"]["segment.ms"] == f"{broker}000"


def their_tool(cluster: MixedCluster, quota: str) -> None:
    address = f"127.0.0.1:{cluster.ports[THEIRS]}"
    command = ["kafka.admin.ConfigCommand", "--bootstrap-server", address, "--alter"]
    entity = ["--add-config", quota, "--entity-type", "users", "--entity-name", "alice"]
    run_java(*command, *entity)


def our_quotas(cluster: MixedCluster, value: str) -> bool:
    described = barnabas("quotas", "describe", "--json", "-b", cluster.ours)
    assert described.returncode == 0, described.stderr
    return value in described.stdout
