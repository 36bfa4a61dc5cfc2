"""A running cluster moves from ZooKeeper to KRaft under load, back, there again, and to the end. Brokers are
restarted one by one, the quorum's leader is killed at each step, and every acknowledged record is there
once. Needs Java and pyspark, whose jars have ZooKeeper's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.ensembles import ended, ensemble
from tests.process.migrating_machines import (
    BROKERS,
    TOPIC,
    Load,
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
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(900),
]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with (
        ensemble(tmp_path) as servers,
        ended(Machines(tmp_path, f"{servers.connect}/kafka")) as found,
    ):
        yield found


def test_a_loaded_cluster_goes_there_back_there_again_and_to_the_end(machines: Machines) -> None:
    machines.begin()
    with Load(machines) as load:
        there(machines)
        machines.kill_leader()
        create(machines, "in-dual-write")
        machines.change_over(1)
        load.wait_for_more()
        back(machines)
        create(machines, "after-the-way-back")
        load.wait_for_more()
        there(machines)
        for node in BROKERS:
            machines.change_over(node)
            machines.kill_leader()
            load.wait_for_more()
        create(machines, "under-kraft")
        same(machines)
        machines.end_migration()
        load.wait_for_more()
    check_read(machines, load)
    assert {TOPIC, "in-dual-write", "after-the-way-back", "under-kraft"} <= topics(machines)


def test_three_attempts_survive_the_death_of_a_controller_at_each_step(machines: Machines) -> None:
    machines.begin()
    made = {TOPIC}
    with Load(machines) as load:
        for number, at in enumerate(("before claim", "after Claimed", "after CopyAppended")):
            there_past_deaths(machines, at)
            write_past_deaths(machines, f"attempt-{number}")
            made |= {f"attempt-{number}-before-write", f"attempt-{number}-after-write"}
            machines.change_over(1)
            machines.kill_leader()
            load.wait_for_more()
            if number < 2:
                back(machines)
        for node in BROKERS[1:]:
            machines.change_over(node)
            machines.kill_leader()
        same(machines)
        machines.end_migration()
        load.wait_for_more()
    check_read(machines, load)
    assert made <= topics(machines)
