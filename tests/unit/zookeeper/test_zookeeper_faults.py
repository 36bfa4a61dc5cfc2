"""Random faults on the twin: nothing that was acknowledged is lost, and the cluster is whole in the end."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.limits import NodeBounds, ZookeeperBounds
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.sim.zookeeper.transactions import CommittedTransaction
from barnabas.types import Endpoint, Uuid
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.zookeeper.layout.topic_znodes import (
    PartitionAssignment,
    PartitionStateZnode,
    TopicZnode,
    state_path,
)
from barnabas.zookeeper.operations import Create, Delete, Multi
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

STEPS = 25
FAULTS = ("kill", "kill", "start", "start", "expire", "ensemble", "create", "delete")
PAUSES_MS = (1, 10, 50, 300, 2_000, 8_000)


class Faults:
    """One seed: faults and records by turns."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.cluster = ZookeeperCluster(seed=seed, min_insync_replicas="2")
        self.down: list[int] = []
        self.away = False
        self.acknowledged: list[bytes] = []
        self.topics: list[str] = []
        self.sent = 0
        self.cluster.create("t", self.cluster.wait_for_controller())

    def step(self, number: int) -> None:
        what = self.rng.choice([*FAULTS, "produce", "produce", "produce"])
        cluster = self.cluster
        if what == "kill" and not self.down:
            self.down.append(self.rng.choice(sorted(cluster.nodes)))
            cluster.kill(self.down[0])
        elif what == "start" and self.down:
            cluster.start(self.down.pop())
        elif what == "expire" and not self.away:
            node = cluster.nodes[self.rng.choice(sorted(cluster.nodes))]
            if node.sessions.id:
                cluster.ensemble.expire(node.sessions.id)
        elif what == "ensemble":
            self.turn_ensemble()
        elif what in ("create", "delete") and not self.away and cluster.controller != -1:
            self.change_topics(what, f"x{number}")
        else:
            self.produce()
        cluster.pass_time(self.rng.choice(PAUSES_MS))

    def turn_ensemble(self) -> None:
        for server in self.cluster.ensemble.servers:
            (server.start if self.away else server.kill)()
        self.away = not self.away

    def change_topics(self, what: str, name: str) -> None:
        controller = self.cluster.controller
        if what == "create" and not self.down:
            if self.cluster.create(name, controller) == 0:
                self.topics.append(name)
        elif self.topics:
            self.cluster.delete(self.topics.pop(), controller)

    def produce(self) -> None:
        for broker, node in sorted(self.cluster.nodes.items()):
            topic = node.broker.image.topics_by_name.get("t") if node.broker else None
            if node.is_ready and topic is not None and topic.leader[0] == broker:
                value = b"record %d." % self.sent
                self.sent += 1
                if self.cluster.produce("t", broker, value) == 0:
                    self.acknowledged.append(value)
                return

    def heal(self) -> None:
        if self.away:
            self.turn_ensemble()
        for broker in self.down:
            self.cluster.start(broker)

    def logs(self) -> list[PartitionLog]:
        found = []
        for node in self.cluster.nodes.values():
            replica = node.broker.replicas.by_name.get(("t", 0)) if node.broker else None
            if node.is_ready and replica is not None and replica.log is not None:
                found.append(replica.log)
        return found


def content_of(log: PartitionLog) -> bytes:
    """The bytes of all segments."""
    return b"".join(
        bytes(log.disk.read_file(segment.path)) for segment in log.segments if segment.size
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 7))
def test_acknowledged_records_survive_random_faults(seed: int) -> None:
    faults = Faults(seed)
    for number in range(STEPS):
        faults.step(number)
    faults.heal()
    cluster = faults.cluster
    cluster.wait(lambda: len(faults.logs()) == 3, "all brokers know the topic")
    cluster.pass_time(3_000)
    for name in ("t", *faults.topics):
        cluster.wait(lambda: len(cluster.state(name)["isr"]) == 3, f"{name} in sync")  # noqa: B023
    cluster.wait(lambda: not cluster.children("/admin/delete_topics"), "all deletions")
    cluster.wait(lambda: cluster.produce("t", cluster.state("t")["leader"]) == 0, "a record")
    for log in faults.logs():
        content = content_of(log)
        assert [value for value in faults.acknowledged if value not in content] == []
    names = set(cluster.children("/brokers/topics"))
    for node in cluster.nodes.values():
        assert node.broker is not None
        assert set(node.broker.image.topics_by_name) == names
    cluster.world.let_go()


@pytest.mark.slow
def test_a_new_replica_has_its_configuration_where_its_server_lags() -> None:
    cluster = ZookeeperCluster(servers=3)
    cluster.wait_for_controller()
    cluster.ensemble.lag_ms_max = 400.0
    policies: set[bool] = set()

    def has_all() -> bool:
        logs = [
            log
            for node in cluster.nodes.values()
            if node.broker is not None
            for name, log in node.broker.logs.logs.items()
            if name.topic == "t"
        ]
        policies.update(log.config.compact for log in logs)
        return len(logs) == 3

    def look() -> None:
        has_all()

    cluster.world.after_event.append(look)
    assert cluster.create("t", 1, cleanup_policy="compact") == 0
    cluster.wait(has_all, "every broker has its replica")
    assert policies == {True}


@pytest.mark.slow
def test_a_leader_whose_return_was_not_seen_leads_in_a_later_epoch() -> None:
    cluster = ZookeeperCluster()
    assert cluster.create("t", cluster.wait_for_controller()) == 0
    before = cluster.state("t")
    for broker in (1, 2, 3):
        cluster.processes[broker].kill()
        del cluster.nodes[broker]
    for broker in (1, 2, 3):
        cluster.start(broker)

    epochs: list[int] = []

    def is_led() -> bool:
        broker = cluster.nodes[before["leader"]].broker
        for replica in broker.replicas.leaders() if broker is not None else ():
            if replica.leader is not None:
                epochs.append(replica.leader.epoch)
        return bool(epochs)

    cluster.wait(is_led, "the partition has its leader")
    assert epochs[0] > before["leader_epoch"]
    after = cluster.state("t")
    assert after["leader"] == before["leader"]
    assert sorted(after["isr"]) == [1, 2, 3]


@pytest.mark.slow
def test_a_leader_whose_return_was_not_seen_gives_way_to_one_that_stayed() -> None:
    cluster = ZookeeperCluster()
    controller = cluster.wait_for_controller()
    leader = 1 if controller != 1 else 2
    while True:
        assert cluster.create("t", controller) == 0
        if cluster.state("t")["leader"] == leader:
            break
        cluster.delete("t", controller)
        cluster.wait(lambda: "t" not in cluster.children("/brokers/topics"), "t is gone")
    before = cluster.state("t")
    cluster.kill(leader)
    cluster.kill(controller)
    cluster.start(leader)
    cluster.wait_for_controller(other_than=controller)
    cluster.wait(lambda: cluster.state("t")["leader"] not in (-1, leader), "another leader")
    assert cluster.state("t")["leader_epoch"] > before["leader_epoch"]


@pytest.mark.slow
def test_a_process_in_a_dead_brokers_place_is_not_taken_for_it() -> None:
    cluster = ZookeeperCluster()
    controller = cluster.wait_for_controller()
    broker = 1 if controller != 1 else 2
    decider = cluster.nodes[controller].controller
    assert decider is not None
    known = decider.decider.image.brokers
    cluster.kill(broker)
    cluster.wait(lambda: known[broker].fenced, "the broker is fenced")
    for server in cluster.ensemble.servers:
        cluster.network.cut(f"n{broker}", server.host)
    cluster.start(broker)  # it listens, and cannot register
    cluster.pass_time(3_500)
    assert known[broker].fenced
    for server in cluster.ensemble.servers:
        cluster.network.heal(f"n{broker}", server.host)
    cluster.wait(lambda: not known[broker].fenced, "it has registered")


@pytest.mark.slow
def test_a_topic_that_has_its_znode_and_nothing_below_is_completed() -> None:
    cluster = ZookeeperCluster()
    cluster.wait_for_controller()
    for broker in (1, 2, 3):
        cluster.kill(broker)
    topic = TopicZnode("half", Uuid(bytes(15) + b"\1"), {0: PartitionAssignment((1, 2, 3))})
    cluster.znode(Create(topic.path, topic.encode()))
    for broker in (1, 2, 3):
        cluster.start(broker)
    path = "/brokers/topics/half/partitions"
    cluster.wait(lambda: cluster.children(path) == ["0"], "its partition is made")
    cluster.wait(lambda: cluster.state("half")["leader"] in (1, 2, 3), "it is led")


@pytest.mark.slow
def test_a_replica_leaves_the_isr_before_the_assignment() -> None:
    small = NodeBounds(zookeeper=ZookeeperBounds(operations_max=2))
    cluster = ZookeeperCluster(bounds=small)
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    tree = cluster.ensemble.tree
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def look(entry: object, result: object) -> None:
        topic = TopicZnode.decode("/brokers/topics/t", tree.get("/brokers/topics/t").data)
        path = state_path("t", 0)
        state = PartitionStateZnode.decode(path, tree.get(path).data)
        found.append((state.isr, topic.partitions[0].replicas))

    cluster.ensemble.followers.append(look)
    cluster.move("t", controller, [1, 2])
    cluster.wait(lambda: found[-1:] != [] and set(found[-1][1]) == {1, 2}, "the replica is gone")
    assert [pair for pair in found if not set(pair[0]) <= set(pair[1])] == []


@pytest.mark.slow
def test_a_dead_controllers_znode_is_removed_by_few_transactions() -> None:
    cluster = ZookeeperCluster()
    controller = cluster.wait_for_controller()
    known = [node.election for node in cluster.nodes.values()]
    cluster.wait(lambda: all(one.controller_id == controller for one in known), "it is known")
    cluster.pass_time(500)
    removals: list[object] = []

    def look(entry: CommittedTransaction, result: object) -> None:
        parts = entry.request.operations if isinstance(entry.request, Multi) else ()
        removals.extend(one for one in parts if one == Delete("/controller"))

    cluster.ensemble.followers.append(look)
    (server,) = cluster.ensemble.servers
    assert server.process is not None
    server.process.pause(700)  # what is asked meanwhile waits
    cluster.kill(controller)
    (one, *_) = cluster.nodes.values()
    for number in range(50):  # each request for it is refused
        at = Endpoint(f"n{controller}", 9092)
        one.channels.send(at, ApiVersionsRequest(), lambda _: None, purpose=f"other {number}")
    cluster.wait_for_controller(other_than=controller)
    cluster.pass_time(1_000)
    assert 1 <= len(removals) <= 6
