"""A ZooKeeper cluster of Apache Kafka 3.9.1 moves to KRaft under controllers of ours, under load.

Its brokers serve on as they are, in ZooKeeper mode and under KRaft; then ours replace them one by one on
copies of their data.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.local.zookeeper_servers import ZooKeeperServers
from tests.peers import CLASS_PATH_39
from tests.process import launch
from tests.process.migrating_machines import (
    BROKERS,
    TOPIC,
    LoadOfOurs,
    Machines,
    back,
    check_read,
    create,
    same,
    there,
    there_past_deaths,
    topics,
    write_past_deaths,
)

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    monkeypatch.setattr(launch, "PATIENCE_S", 90.0)  # Java starts slowly beside other tests
    with ZooKeeperServers(tmp_path / "ensemble", libraries=CLASS_PATH_39) as servers:
        found = Machines(tmp_path, f"{servers.connect}/kafka", theirs=BROKERS)
        try:
            yield found
        finally:
            found.end()


def test_their_brokers_change_over_and_ours_replace_them_on_copies(machines: Machines) -> None:
    machines.begin()
    with LoadOfOurs(machines) as load:
        there(machines)
        create(machines, "in-dual-write")
        for node in BROKERS:
            machines.change_over(node)
            machines.kill_leader()
            load.wait_for_more()
        create(machines, "theirs-under-kraft")
        same(machines)
        for node in BROKERS:
            machines.copy_becomes_ours(node)
            machines.kill_leader()
            load.wait_for_more()
        create(machines, "ours-under-kraft")
        same(machines)
        machines.end_migration()
        load.wait_for_more()
    check_read(machines, load)
    assert {TOPIC, "in-dual-write", "theirs-under-kraft", "ours-under-kraft"} <= topics(machines)


def test_their_migration_is_reverted_and_begun_again_past_every_death(machines: Machines) -> None:
    machines.begin()
    with LoadOfOurs(machines) as load:
        there(machines)
        machines.change_over(2)
        create(machines, "in-dual-write")
        back(machines)
        create(machines, "after-the-way-back")
        load.wait_for_more()
        there_past_deaths(machines, "after CopyAppended")
        load.wait_for_more()
        write_past_deaths(machines, "again")
        for node in BROKERS:
            machines.copy_becomes_ours(node)
            machines.kill_leader()
            load.wait_for_more()
        same(machines)
        machines.end_migration()
        load.wait_for_more()
    check_read(machines, load)
    assert {TOPIC, "in-dual-write", "after-the-way-back", "again-after-write"} <= topics(machines)


def test_their_controller_dies_before_the_claim_and_after_it(machines: Machines) -> None:
    """It dies while the quorum waits for brokers, too. The other two steps at which it can die are above."""
    machines.begin()
    with LoadOfOurs(machines) as load:
        for number, at in enumerate(("before claim", "after Claimed")):
            there_past_deaths(machines, at)
            write_past_deaths(machines, f"attempt-{number}")
            load.wait_for_more()
            if number == 0:
                back(machines)
        same(machines)
    check_read(machines, load)
    assert {f"attempt-{number}-after-write" for number in range(2)} <= topics(machines)
