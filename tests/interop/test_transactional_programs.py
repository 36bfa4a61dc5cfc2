"""Other people's programs that use transactions, against three nodes, and some of them through kill -9."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.client.client import TRANSACTION
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.clients.checks import wait_for
from tests.clients.committed import Read, read_committed
from tests.clients.loops import (
    Names,
    assert_each_once_in_order,
    create_topics,
    run_through_deaths,
)
from tests.interop import transactional_programs as programs
from tests.interop.transactional_programs import Disturbance

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("programs", "java"),
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]
PATIENCE_S = 120.0
UNDER_WAY = 300
"""So many records are in the program's topic when a node dies."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "group.initial.rebalance.delay.ms": "200",
        "transaction.state.log.num.partitions": "3",
    }
    with Cluster(nodes=3, settings=settings) as cluster:
        yield cluster


def killing(cluster: Cluster, choose: Callable[[str], int]) -> Disturbance:
    """Kills the node that `choose` gives for the topic while the program writes, and restarts it."""

    def disturb(topic: str) -> None:
        connected = connect(cluster.bootstrap)
        try:

            def written() -> int:
                known = {view.name for view in connected.topics()}
                if topic not in known:
                    return 0
                found = connected.offsets(connected.partitions_of([topic]))
                return sum(end.offset for end in found.values())

            wait_for(lambda: written() > UNDER_WAY, "the program to be under way", PATIENCE_S)
            victim = choose(topic)
            before = written()
            cluster.kill(victim)
            try:
                wait_for(lambda: written() > before, "the program to continue", PATIENCE_S)
            finally:
                cluster.restart(victim)
        finally:
            connected.close()

    return disturb


def leader(cluster: Cluster) -> Disturbance:
    """Kills the leader of partition 0."""

    def choose(topic: str) -> int:
        connected = connect(cluster.bootstrap)
        found = connected.topic(topic).partitions[0].leader
        connected.close()
        return found

    return killing(cluster, choose)


def coordinator(cluster: Cluster) -> Disturbance:
    """Kills the coordinator of the transactional id that is the topic's name."""

    def choose(topic: str) -> int:
        connected = connect(cluster.bootstrap)
        connected.call(connected.client.coordinator(TRANSACTION, topic))
        found = connected.client.coordinator_node(topic, TRANSACTION)
        connected.close()
        assert found is not None
        return found

    return killing(cluster, choose)


class Copier:
    """A step is one TransactionalMessageCopier, from its start to its own end."""

    def __init__(self, bootstrap: str, folder: Path, names: Names) -> None:
        self._bootstrap, self._folder, self._names = bootstrap, folder, names

    def step(self, abort: bool) -> None:
        """It aborts at random by itself."""
        names = self._names
        process = programs.copier(
            self._bootstrap,
            self._folder,
            names.source,
            names.target,
            names.group,
            names.transactional_id,
            size=100,
        )
        try:
            process.wait_for_all_lines(programs.TIMEOUT_S)
        finally:
            process.kill()

    def close(self) -> None: ...


def test_message_copier_with_random_aborts_is_read_by_librdkafka(
    cluster: Cluster, tmp_path: Path
) -> None:
    programs.message_copier(cluster.bootstrap, tmp_path)


def test_message_copier_with_random_aborts_survives_each_role_s_death(
    cluster: Cluster, tmp_path: Path
) -> None:
    names = Names("copier")
    create_topics(cluster, names)
    sent = run_through_deaths(cluster, names, Copier(cluster.bootstrap, tmp_path, names))
    read: list[Read] = read_committed(cluster.bootstrap, names.target, sum(sent.values()))
    assert_each_once_in_order(
        sent, ((record.partition, record.offset, record.value) for record in read)
    )


def test_produce_bench_of_trogdor_ends_all_its_transactions(
    cluster: Cluster, tmp_path: Path
) -> None:
    programs.produce_bench(cluster.bootstrap, tmp_path)


def test_produce_bench_of_trogdor_survives_a_leader_s_death(
    cluster: Cluster, tmp_path: Path
) -> None:
    programs.produce_bench(cluster.bootstrap, tmp_path, leader(cluster))


def test_performance_tool_survives_its_coordinator_s_death(
    cluster: Cluster, tmp_path: Path
) -> None:
    programs.performance_tool(cluster.bootstrap, tmp_path)
    programs.performance_tool(cluster.bootstrap, tmp_path, coordinator(cluster))


def test_mirror_maker_with_exactly_once_keeps_running(cluster: Cluster, tmp_path: Path) -> None:
    programs.mirror_maker(cluster.bootstrap, tmp_path)


def test_mirror_maker_with_exactly_once_survives_a_leader_s_death(
    cluster: Cluster, tmp_path: Path
) -> None:
    programs.mirror_maker(cluster.bootstrap, tmp_path, leader(cluster))


def test_spring_listener_rolls_nothing_back(cluster: Cluster, tmp_path: Path) -> None:
    programs.spring_listener(cluster.bootstrap, tmp_path)


def test_spring_listener_survives_a_leader_s_death(cluster: Cluster, tmp_path: Path) -> None:
    programs.spring_listener(cluster.bootstrap, tmp_path, leader(cluster))


@pytest.mark.peers("go")
def test_chained_etl_of_franz_go_passes(cluster: Cluster, tmp_path: Path) -> None:
    programs.chained_etl(cluster.bootstrap, tmp_path)


def test_smoke_test_of_streams_survives_a_leader_s_death(cluster: Cluster, tmp_path: Path) -> None:
    programs.streams_smoke_test(cluster.bootstrap, tmp_path, leader(cluster))
