"""What a broker counts of transactions, groups and quotas, as DescribeCluster answers it."""

from __future__ import annotations

import pytest

from barnabas.broker.metrics import CLASSIC, GROUPS, MARKERS, OWN, QUOTAS, TRANSACTIONS
from barnabas.monitoring.table import metrics
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from tests.unit.broker.test_transaction_coordinators import Transactions
from tests.unit.group.test_in_a_cluster import commit, coordinator


def metrics_of(one: Transactions, node: int | None = None) -> dict[str, int]:
    request = DescribeClusterRequest(include_metrics=True)
    answer = one.cluster.ask(request, one.coordinator if node is None else node)
    return {metric.name: metric.value for metric in answer.metrics}


@pytest.mark.slow
def test_only_who_asks_for_metrics_gets_them() -> None:
    one = Transactions()
    assert one.cluster.ask(DescribeClusterRequest(), 1).metrics == ()
    named = metrics_of(one, 1)
    assert {name.partition("name=")[0] + "name=" for name in named} == {
        GROUPS, CLASSIC, OWN, MARKERS, TRANSACTIONS, QUOTAS,
    }  # fmt: skip


@pytest.mark.slow
def test_every_metric_of_groups_that_the_table_has_is_counted() -> None:
    counted = {name for name in metrics_of(Transactions()) if name.startswith((GROUPS, CLASSIC))}
    assert counted == {name for name in metrics() if name.startswith((GROUPS, CLASSIC))}
    assert f"{GROUPS}share-group-count,state=Stable" in counted


@pytest.mark.slow
def test_transactions_are_counted_by_state_and_by_how_they_ended() -> None:
    one = Transactions()
    assert one.init() == "NONE"
    assert one.write(0, b"v") == "NONE"
    assert metrics_of(one)[f"{OWN}Ongoing"] == 1
    assert one.end(True, 5) == "NONE"
    one.until_state("CompleteCommit")
    assert one.write(0, b"v") == "NONE"
    assert one.end(False, 5) == "NONE"
    one.until_state("CompleteAbort")
    told = metrics_of(one)
    assert told[f"{OWN}CompleteAbort"] == 1 and told[f"{OWN}Ongoing"] == 0
    assert told[f"{OWN}Committed:Count"] == 1
    assert (told[f"{OWN}Aborted:Count"], told[f"{OWN}TimedOut:Count"]) == (1, 0)


@pytest.mark.slow
def test_a_transaction_whose_time_is_over_is_counted_as_timed_out() -> None:
    one = Transactions()
    assert one.init(timeout_ms=3_000) == "NONE"
    assert one.write(0, b"v") == "NONE"
    one.until_state("CompleteAbort")
    told = metrics_of(one)
    assert (told[f"{OWN}Aborted:Count"], told[f"{OWN}TimedOut:Count"]) == (1, 1)


def test_a_coordinator_that_takes_an_end_over_does_not_count_it() -> None:
    one = Transactions()
    assert one.init() == "NONE"
    assert one.write(0, b"v") == "NONE"
    former = one.coordinator
    assert one.end(True, 5) == "NONE"
    one.cluster.sim.nodes[former].kill()
    one.until_found()
    one.until_state("CompleteCommit")
    told = metrics_of(one)
    assert told[f"{OWN}Committed:Count"] == 0 and told[f"{OWN}CompleteCommit"] == 1
    owned = one.cluster.broker(one.coordinator).transactions.coordinators.shards
    assert told[f"{OWN}num-partitions,state=active"] == len(owned) > 0


def test_markers_without_a_leader_are_counted_as_waiting() -> None:
    one = Transactions()
    cluster = one.cluster
    assert one.init() == "NONE"
    assert one.write(0, b"v") == "NONE"
    topic = cluster.broker(one.coordinator).image.topics_by_name["t"]
    leader, coordinator = topic.leader[0], one.coordinator
    topic.leader[0] = -1  # as this broker sees it between two elections
    assert one.end(True, 5) == "NONE"
    told = metrics_of(one, coordinator)
    assert told[f"{OWN}PrepareCommit"] == told[f"{OWN}WaitingForMarkers"] == 1
    assert told[f"{OWN}WaitingMarkers"] == told[f"{MARKERS}UnknownDestinationQueueSize"] == 1
    topic.leader[0] = leader
    one.until_state("CompleteCommit")
    told = metrics_of(one)
    assert told[f"{OWN}WaitingForMarkers"] == told[f"{MARKERS}UnknownDestinationQueueSize"] == 0


@pytest.mark.slow
def test_load_times_are_those_of_the_last_half_minute() -> None:
    one = Transactions()
    coordinators = one.cluster.broker(one.coordinator).transactions.coordinators
    now_ms = one.cluster.client.clock.now_ms()
    coordinators.load_times.add(1_234.4, now_ms)
    assert metrics_of(one)[f"{TRANSACTIONS}partition-load-time-max"] == 1_234
    one.cluster.run(61_000)
    assert metrics_of(one)[f"{TRANSACTIONS}partition-load-time-max"] == 0


def test_groups_and_offsets_are_counted_by_type_and_state() -> None:
    one = Transactions()
    node = coordinator(one.cluster, "g")
    assert commit(one.cluster, node, "g", 17) is ErrorCode.NONE
    told = metrics_of(one, node)
    assert told[f"{GROUPS}group-count,protocol=classic"] == told[f"{CLASSIC}NumGroups"] == 1
    assert told[f"{CLASSIC}NumGroupsEmpty"] == told[f"{CLASSIC}NumOffsets"] == 1
    assert told[f"{GROUPS}group-count,protocol=consumer"] == 0
