"""Access control entries of one ZooKeeper cluster with a broker of Apache Kafka 3.9.1 and one of ours.

`kafka-acls` writes at either broker, and reads at the other one what was written.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest

from barnabas.cli.local.zookeeper_servers import ZooKeeperServers
from barnabas.zookeeper.config.settings import ACL_AUTHORIZER
from barnabas.zookeeper.layout.acl_znodes import AclZnode
from tests.interop.mixed_cluster import (
    JAVA,
    OURS,
    THEIRS,
    MixedCluster,
    wait_until,
)
from tests.peers import CLASS_PATH_39
from tests.process.launch import barnabas

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]
KEYS = {
    "authorizer.class.name": ACL_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "offsets.topic.replication.factor": "2",
}
ENTRY = re.compile(
    r"\(principal=(\S+), host=(\S+), operation=(\S+), permissionType=(\S+)\)"
    r"|name=(\S+), patternType=(\S+)\)"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    directory = tmp_path_factory.mktemp("acls")
    with (
        ZooKeeperServers(directory / "zk", libraries=CLASS_PATH_39) as servers,
        MixedCluster(directory, servers.connect, KEYS) as cluster,
    ):
        for broker in (THEIRS, OURS[0]):
            cluster.start(broker)
        yield cluster


def kafka_acls(cluster: MixedCluster, broker: int, *arguments: str) -> str:
    address = f"127.0.0.1:{cluster.ports[broker]}"
    command = [*JAVA, "kafka.admin.AclCommand", "--bootstrap-server", address, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def listed(cluster: MixedCluster, broker: int) -> set[str]:
    """Each entry with its resource, as `kafka-acls --list` says it."""
    resource, found = "", set()
    for match in ENTRY.finditer(kafka_acls(cluster, broker, "--list")):
        principal, host, operation, permission, name, pattern = match.groups()
        if name is not None:
            resource = f"{pattern} {name}"
        else:
            found.add(f"{resource} {permission} {principal} {operation} {host}")
    return found


def both_list(cluster: MixedCluster, wanted: set[str]) -> bool:
    return all(listed(cluster, broker) == wanted for broker in (THEIRS, OURS[0]))


def test_either_side_writes_entries_that_the_other_reads(cluster: MixedCluster) -> None:
    ours = OURS[0]
    add = ("--add", "--allow-principal", "User:alice", "--topic", "orders")
    kafka_acls(cluster, ours, *add, "--operation", "Read", "--allow-host", "10.0.0.1")
    kafka_acls(cluster, THEIRS, *add, "--operation", "Write")
    kafka_acls(
        cluster, ours, "--add", "--deny-principal", "User:bob", "--operation", "All",
        "--group", "g-", "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    kafka_acls(cluster, THEIRS, "--add", "--allow-principal", "User:carol", "--cluster",
               "--operation", "Create")  # fmt: skip
    wanted = {
        "LITERAL orders ALLOW User:alice READ 10.0.0.1",
        "LITERAL orders ALLOW User:alice WRITE *",
        "PREFIXED g- DENY User:bob ALL *",
        "LITERAL kafka-cluster ALLOW User:carol CREATE *",
    }
    wait_until(partial(both_list, cluster, wanted), "both list all entries")
    kafka_acls(cluster, ours, "--remove", "--allow-principal", "User:carol", "--cluster",
               "--operation", "Create", "--force")  # fmt: skip
    kafka_acls(cluster, THEIRS, "--remove", "--topic", "orders", "--force")
    wait_until(
        partial(both_list, cluster, {"PREFIXED g- DENY User:bob ALL *"}), "both list what is left"
    )
    assert cluster.znodes.exists("/kafka-acl/Cluster/kafka-cluster") is None


def test_an_entry_is_written_in_the_same_bytes_by_both(cluster: MixedCluster) -> None:
    written = []
    for broker, topic in ((THEIRS, "by-theirs"), (OURS[0], "by-ours")):
        kafka_acls(cluster, broker, "--add", "--allow-principal", "User:dora", "--topic", topic,
                   "--operation", "Describe")  # fmt: skip
        path = f"/kafka-acl/Topic/{topic}"
        data = cluster.znodes.get(path)[0]
        assert AclZnode.decode(path, data).encode() == data
        changes = cluster.znodes.get_children("/kafka-acl-changes")
        notice = cluster.znodes.get(f"/kafka-acl-changes/{max(changes)}")[0]
        assert notice == f"TOPIC:{topic}".encode()
        written.append(data)
    assert written[0] == written[1]


def test_our_own_command_shows_what_theirs_wrote(cluster: MixedCluster) -> None:
    kafka_acls(cluster, THEIRS, "--add", "--allow-principal", "User:erin", "--topic", "shown",
               "--operation", "Alter")  # fmt: skip

    def is_shown() -> bool:
        done = barnabas("acls", "list", "-b", f"127.0.0.1:{cluster.ports[OURS[0]]}")
        assert done.returncode == 0, done.stderr
        return "erin" in done.stdout and "shown" in done.stdout

    wait_until(is_shown, "ours lists it")


def test_folders_are_those_that_theirs_makes(cluster: MixedCluster) -> None:
    kinds = {"Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User"}
    for folder in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
        assert set(cluster.znodes.get_children(folder)) == kinds
