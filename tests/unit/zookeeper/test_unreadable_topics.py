"""A topic whose znodes cannot be read: it alone suffers, and is whole again when they are mended."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.zookeeper.errors import NoNode
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER_EPOCH, PRODUCER_IDS
from barnabas.zookeeper.layout.config_znodes import CONFIG
from barnabas.zookeeper.layout.topic_znodes import state_path, topic_path
from barnabas.zookeeper.operations import Create, Delete, GetData, SetData
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

pytestmark = pytest.mark.slow
NO_JSON, NO_FIELDS = b"{", b'{"version":3}'
UNKNOWN_PARTITIONS = (
    b'{"version":1,"partitions":[{"topic":"unknown","partition":0,"replicas":[1]},'
    b'{"topic":"t","partition":-5,"replicas":[9]},{"topic":"a/../b","partition":0,"replicas":[]},'
    b'{"topic":"","partition":99999999999,"replicas":[1]}]}'
)
UNKNOWN_BROKER = b'{"version":1,"broker":99,"event":1}'
UNKNOWN_ENTITY = b'{"version":2,"entity_path":"unknown/../x"}'


def config(key: str, value: str) -> bytes:
    return f'{{"version":1,"config":{{"{key}":"{value}"}}}}'.encode()


def registration(endpoint: str = "PLAINTEXT://h:1", feature: int = 1) -> bytes:
    ranges = {"f": {"min_version": 0, "max_version": feature}}
    fields: dict[str, object] = {"version": 5, "host": "h", "port": 1, "endpoints": [endpoint]}
    return json.dumps(fields | {"jmx_port": -1, "timestamp": "1", "features": ranges}).encode()


UNKNOWN_PROTOCOL = registration(endpoint="A://h:1")


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster()
    yield made
    made.world.let_go()


def next_controller(cluster: ZookeeperCluster) -> int:
    """After the present one's death, which is started again."""
    former = cluster.wait_for_controller()
    cluster.kill(former)
    found = cluster.wait_for_controller(former)
    cluster.start(former)
    cluster.wait(lambda: cluster.nodes[former].is_ready, "it is back")
    return found


def left_out(cluster: ZookeeperCluster, controller: int) -> dict[str, str]:
    role = cluster.nodes[controller].controller
    assert role is not None
    return role.unreadable.describe()


@pytest.mark.parametrize("damage", [NO_JSON, NO_FIELDS])
@pytest.mark.parametrize("path", [state_path("t", 0), topic_path("t")])
def test_all_other_topics_are_served(cluster: ZookeeperCluster, path: str, damage: bytes) -> None:
    controller = cluster.wait_for_controller()
    for topic in ("t", "u"):
        assert cluster.create(topic, controller) == 0
    assert cluster.produce("t", cluster.state("t")["leader"], b"before") == 0
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR")
    leader = cluster.state("t")["leader"]
    sound = cluster.znode(GetData(path)).data
    cluster.znode(SetData(path, damage))

    controller = next_controller(cluster)
    epoch = cluster.epoch_of(controller)
    assert list(left_out(cluster, controller)) == ["t"]
    assert cluster.create("v", controller) == 0
    assert cluster.create("t", controller) == ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.wait(lambda: len(cluster.state("u")["isr"]) == 3, "the other's ISR")
    for broker, node in cluster.nodes.items():  # also of the one that has started meanwhile
        assert node.broker is not None
        names = [str(name) for name in node.broker.logs.logs]
        assert "t-0" in names, f"broker {broker} has given its log up: {names}"
    assert cluster.controller == controller and cluster.epoch_of(controller) == epoch

    cluster.znode(SetData(path, sound))
    cluster.wait(
        lambda: cluster.controller != -1 and not left_out(cluster, cluster.controller),
        "it is read again",
    )
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR again")
    cluster.wait(lambda: cluster.produce("t", cluster.state("t")["leader"]) == 0, "a record")
    replica = cluster.broker_of(leader).replicas.by_name["t", 0]
    assert replica.log is not None and replica.log.log_start_offset == 0
    assert replica.log.log_end_offset == 2


def test_a_topic_that_a_tool_makes_wrongly_can_be_mended(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.znode(Create(topic_path("t"), b'{"version":1,"partitions":{"0":"1"}}'))
    cluster.wait(lambda: "t" in left_out(cluster, controller), "it is left out")
    assert cluster.create("u", controller) == 0
    cluster.znode(Create("/admin/delete_topics/t"))
    cluster.pass_time(500)
    assert cluster.children("/admin/delete_topics") == ["t"]  # until it can be read
    cluster.znode(Delete("/admin/delete_topics/t"))
    cluster.znode(SetData(topic_path("t"), b'{"version":1,"partitions":{"0":[1,2]}}'))
    cluster.wait(lambda: bool(cluster.children(topic_path("t"))), "its partitions")
    cluster.wait(lambda: cluster.read(state_path("t", 0)) is not None, "its state")
    assert cluster.state("t")["isr"] == [1, 2]


def test_a_topic_whose_znodes_are_removed_can_be_made_again(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.znode(Create(topic_path("t"), NO_JSON))
    cluster.wait(lambda: "t" in left_out(cluster, controller), "it is left out")
    cluster.znode(Delete(topic_path("t")))
    cluster.wait(
        lambda: cluster.controller != -1 and not left_out(cluster, cluster.controller), "it is gone"
    )
    cluster.wait(lambda: cluster.create("t", cluster.controller) == 0, "it is made")


def test_an_unreadable_configuration_or_registration_ends_no_leadership(
    cluster: ZookeeperCluster,
) -> None:
    cluster.create("t", cluster.wait_for_controller())
    for path in (f"{CONFIG}/topics/t", f"{CONFIG}/clients/c", "/brokers/ids/77"):
        cluster.znode(Create(path, b""))
        cluster.znode(SetData(path, NO_JSON))
    controller = next_controller(cluster)
    epoch = cluster.epoch_of(controller)
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR")
    assert cluster.create("u", controller) == 0
    assert cluster.epoch_of(controller) == epoch


def new_producer_id(cluster: ZookeeperCluster, broker: int) -> tuple[int, int]:
    """Error code and id."""
    answer = cluster.ask(broker, InitProducerIdRequest(transactional_id=None))
    return int(answer.error_code), int(answer.producer_id)


def test_unreadable_producer_ids_are_not_given_out_twice(cluster: ZookeeperCluster) -> None:
    """A controller is elected, and serves all but new producer ids until the block is mended."""
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    cluster.wait(lambda: new_producer_id(cluster, controller)[0] == 0, "an id")
    given = new_producer_id(cluster, controller)
    sound = cluster.znode(GetData(PRODUCER_IDS)).data
    cluster.znode(SetData(PRODUCER_IDS, NO_JSON))
    controller = next_controller(cluster)
    epoch = cluster.epoch_of(controller)
    assert cluster.create("u", controller) == 0
    fresh = next(broker for broker in cluster.nodes if broker != controller)
    cluster.kill(fresh)
    cluster.start(fresh)
    cluster.wait(lambda: cluster.nodes[fresh].is_ready, "a broker without ids")
    code, _ = new_producer_id(cluster, fresh)
    assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert cluster.controller == controller and cluster.epoch_of(controller) == epoch
    assert cluster.znode(GetData(PRODUCER_IDS)).data == NO_JSON

    cluster.znode(SetData(PRODUCER_IDS, sound))
    cluster.wait(lambda: new_producer_id(cluster, fresh)[0] == 0, "an id")
    assert new_producer_id(cluster, fresh)[1] // 1000 > given[1] // 1000


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/admin/reassign_partitions", NO_JSON),
        ("/admin/reassign_partitions", b'{"version":1,"partitions":[{"topic":"t"}]}'),
        ("/admin/reassign_partitions", UNKNOWN_PARTITIONS),
        ("/admin/preferred_replica_election", NO_JSON),
        ("/admin/preferred_replica_election", UNKNOWN_PARTITIONS),
        ("/admin/delete_topics/unknown", b""),
        ("/isr_change_notification/isr_change_0000000000", NO_JSON),
        ("/isr_change_notification/isr_change_0000000000", UNKNOWN_PARTITIONS),
        ("/isr_change_notification/other", b"\xff"),
        ("/log_dir_event_notification/log_dir_event_0000000000", NO_JSON),
        ("/log_dir_event_notification/log_dir_event_0000000000", UNKNOWN_BROKER),
    ],
)
@pytest.mark.parametrize("is_active", [False, True])
def test_a_request_that_cannot_be_read_is_removed(
    cluster: ZookeeperCluster, path: str, data: bytes, is_active: bool
) -> None:
    """Met at the controller's start, and while it is active."""
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    if not is_active:
        cluster.kill(controller)
    cluster.znode(Create(path, data))
    found = cluster.wait_for_controller(-1 if is_active else controller)
    cluster.wait(lambda: isinstance(cluster.znode(GetData(path)), NoNode), "it is removed")
    epoch = cluster.epoch_of(found)
    assert cluster.create("u", found) == 0
    assert cluster.controller == found and cluster.epoch_of(found) == epoch


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/config/changes/config_change_0000000000", NO_JSON),
        ("/config/changes/config_change_0000000000", UNKNOWN_ENTITY),
        ("/config/changes/other", NO_JSON),
        ("/config/topics/unknown", NO_JSON),
        ("/config/users/u", NO_FIELDS),
        ("/brokers/ids/77", NO_JSON),
        ("/config/users/u", config("producer_byte_rate", "x")),
        ("/config/users/u/clients/c", config("consumer_byte_rate", "-1e999")),
        ("/config/users/u", config("SCRAM-SHA-256", "salt=x")),
        ("/config/ips/i", config("connection_creation_rate", "nan")),
        ("/config/brokers/b", config("log.retention.ms", "\\ud800")),
        ("/brokers/ids/77", UNKNOWN_PROTOCOL),
        ("/brokers/ids/77", registration(endpoint="PLAINTEXT://h:99999")),
        ("/brokers/ids/77", registration(endpoint="PLAINTEXT://h:-1")),
        ("/brokers/ids/77", registration(feature=1 << 40)),
        ("/brokers/ids/99999999999", registration()),
        ("/brokers/ids/other", b""),
    ],
)
def test_a_malformed_znode_ends_no_leadership(
    cluster: ZookeeperCluster, path: str, data: bytes
) -> None:
    controller = cluster.wait_for_controller()
    if path.startswith("/config/users/u/"):
        cluster.znode(Create("/config/users/u"))
        cluster.znode(Create("/config/users/u/clients"))
    cluster.znode(Create(path, data))
    cluster.pass_time(200)
    assert cluster.create("t", controller) == 0
    assert cluster.controller == controller
    controller = next_controller(cluster)
    assert cluster.create("u", controller) == 0
    cluster.wait(lambda: len(cluster.state("u")["isr"]) == 3, "its ISR")


@pytest.mark.parametrize("data", [b"", b"x", b"-", b"99999999999"])
def test_an_unreadable_controller_epoch_ends_no_cluster(
    cluster: ZookeeperCluster, data: bytes
) -> None:
    """Brokers know the latest one, and the next is later."""
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    before = cluster.epoch_of(controller)
    cluster.znode(SetData(CONTROLLER_EPOCH, data))
    controller = next_controller(cluster)
    assert cluster.epoch_of(controller) > before
    assert cluster.create("u", controller) == 0
    cluster.wait(lambda: len(cluster.state("u")["isr"]) == 3, "its ISR")
