"""What is configured for the controller holds in ZooKeeper mode, too: unclean elections, preferred leaders,
deletion of topics. Controlled shutdown, and producer ids from blocks."""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.zookeeper.layout.cluster_state_znodes import PRODUCER_IDS
from barnabas.zookeeper.operations import Create
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

pytestmark = pytest.mark.slow


def reasons(cluster: ZookeeperCluster, broker: int, kind: str) -> list[str]:
    """Of events of this kind that the broker's controllers remember."""
    role = cluster.nodes[broker].controller
    assert role is not None
    return [one.reason for one in role.steps.book.steps.after(-1) if one.kind == kind]


@pytest.mark.parametrize("is_unclean", [False, True])
def test_a_replica_outside_the_isr_leads_only_where_that_is_configured(is_unclean: bool) -> None:
    cluster = ZookeeperCluster(brokers=4)
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller, replicas=3) == 0
    allowed = str(is_unclean).lower()
    assert cluster.alter_topic("t", controller, unclean_leader_election_enable=allowed) == 0
    first, *others = (b for b in cluster.state("t")["isr"] if b != controller)
    last = others[0]
    for broker in cluster.state("t")["isr"]:
        if broker not in (first, last):
            assert cluster.move("t", controller, [first, last]) == 0
    cluster.wait(lambda: sorted(cluster.state("t")["isr"]) == sorted([first, last]), "moved")
    cluster.kill(first)
    cluster.wait(lambda: cluster.state("t")["isr"] == [last], "a smaller ISR")
    cluster.kill(last)
    cluster.wait(lambda: cluster.state("t")["leader"] == -1, "no leader")
    cluster.start(first)
    cluster.wait(lambda: cluster.nodes[first].is_ready, "it is back")
    cluster.pass_time(3_000)
    state = cluster.state("t")
    if is_unclean:
        assert (state["leader"], state["isr"]) == (first, [first])
        assert any("unclean" in why for why in reasons(cluster, cluster.controller, "election"))
    else:
        assert (state["leader"], state["isr"]) == (-1, [last])
    cluster.world.let_go()


def test_leaders_return_to_preferred_replicas_by_themselves() -> None:
    cluster = ZookeeperCluster(leader_imbalance_check_interval_seconds="1")
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller, partitions=3) == 0
    victim = next(broker for broker in cluster.nodes if broker != controller)
    index = next(i for i in range(3) if cluster.state("t", i)["leader"] == victim)
    cluster.kill(victim)
    cluster.wait(lambda: cluster.state("t", index)["leader"] != victim, "another leader")
    cluster.start(victim)
    cluster.wait(lambda: cluster.state("t", index)["leader"] == victim, "the preferred leader")
    cluster.world.let_go()


def test_no_topic_is_deleted_where_that_is_switched_off() -> None:
    cluster = ZookeeperCluster(delete_topic_enable="false")
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    assert cluster.delete("t", controller) == ErrorCode.TOPIC_DELETION_DISABLED
    cluster.znode(Create("/admin/delete_topics/t"))
    cluster.wait(lambda: cluster.children("/admin/delete_topics") == [], "the request is removed")
    assert cluster.read("/brokers/topics/t") is not None
    cluster.world.let_go()


def test_a_broker_that_shuts_down_gives_its_leaderships_away_first() -> None:
    cluster = ZookeeperCluster()
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller, partitions=6) == 0
    victim = next(broker for broker in cluster.nodes if broker != controller)
    node, ended = cluster.nodes[victim], []
    cluster.processes[victim].run(lambda: node.begin_shutdown(lambda: ended.append(True)))
    cluster.wait(lambda: bool(ended), "its end")
    states = [cluster.state("t", index) for index in range(6)]
    assert all(state["leader"] not in (victim, -1) for state in states)
    assert any("shuts down" in why for why in reasons(cluster, controller, "election"))
    assert str(victim) not in cluster.children("/brokers/ids")
    del cluster.nodes[victim]
    cluster.world.let_go()


def test_producer_ids_come_from_blocks_that_no_two_brokers_share() -> None:
    cluster = ZookeeperCluster()
    former = cluster.wait_for_controller()
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    found = [cluster.ask(broker, asked).producer_id for broker in cluster.nodes for _ in range(3)]
    cluster.kill(former)
    cluster.wait_for_controller(former)
    cluster.start(former)
    cluster.wait(lambda: cluster.nodes[former].is_ready, "it is back")
    found += [cluster.ask(broker, asked).producer_id for broker in cluster.nodes for _ in range(3)]
    assert len(set(found)) == len(found) and min(found) >= 0
    assert (
        len({number // 1_000 for number in found}) == 4
    )  # its former process had a block of its own
    block = cluster.read(PRODUCER_IDS)
    assert block is not None and int(block["block_end"]) == 3_999
    cluster.world.let_go()
