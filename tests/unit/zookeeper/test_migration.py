"""From znodes into a quorum's first records, what prevents it, and back into znodes."""

from __future__ import annotations

from hypothesis import given, settings

from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.snapshot import load_records
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.cluster_state_znodes import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    MIGRATION,
    ClusterIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
)
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.migration import comparison, copying, findings
from barnabas.zookeeper.operations import Create, Multi, NodeData, Operation
from barnabas.zookeeper.znode_tree import ZnodeTree
from tests.effort import examples
from tests.unit.zookeeper.test_layout import DOCUMENTS, clusters, persistent, written

EPOCH = Create(CONTROLLER_EPOCH, ControllerEpochZnode(7).encode())
CLUSTER = (
    Create("/cluster"),
    Create(CLUSTER_ID, ClusterIdZnode("J7s9e8PPTKOO47PxzI39VA").encode()),
)
T = Uuid(b"t" * 16)


def of(records: list[Message], *more: Operation) -> dict[str, NodeData]:
    """The znodes of a cluster with `records`."""
    return written([*persistent().apply(records), EPOCH, *more])


def image_of(records: list[Message]) -> MetadataImage:
    image = MetadataImage(track_changes=False)
    load_records(image, records, 100, 1)
    return image


def done(znodes: dict[str, NodeData], transactions: list[Multi]) -> dict[str, NodeData]:
    """The znodes after `transactions`, each of which succeeds."""
    tree = ZnodeTree()
    for zxid, path in enumerate(sorted(znodes), 1):
        tree.apply(Create(path, znodes[path].data), 0, zxid, 0)
    for transaction in transactions:
        answer = tree.apply(transaction, 0, 1_000_000, 0).result
        assert isinstance(answer, tuple), answer
    found: dict[str, NodeData] = {}
    pending = ["/"]
    while pending:
        path = pending.pop()
        if path != "/":
            found[path] = tree.get(path)
        pending += [f"{path.rstrip('/')}/{name}" for name in tree.children(path).names]
    return found


def fresh(znodes: dict[str, NodeData]) -> dict[str, NodeData]:
    """The same with versions that begin at 0, as `done` makes them."""
    return done(znodes, [])


@settings(max_examples=examples(40), deadline=None)
@given(clusters(), clusters())
def test_znodes_say_what_the_log_says_after_the_way_back(
    before: list[Message], after: list[Message]
) -> None:
    znodes, image = fresh(of(before)), image_of(after)
    changed = done(znodes, copying.way_back(znodes, image))
    image.next_producer_id = max(image.next_producer_id, 10_000)
    assert comparison.differences(changed, image) == []
    layout = ClusterLayout()
    layout.load(changed)
    assert {r.leader for r in layout.records() if isinstance(r, PartitionRecord)} <= {-1}
    assert copying.way_back(changed, image_of(after)) == []


@settings(max_examples=examples(40), deadline=None)
@given(clusters())
def test_the_first_records_say_what_the_znodes_say(records: list[Message]) -> None:
    znodes = of(records)
    copied = copying.records_of(znodes)
    assert comparison.differences(znodes, image_of(copied)) == []
    assert {r.leader for r in copied if isinstance(r, PartitionRecord)} <= {-1}


def topic(**fields: object) -> list[Message]:
    record = PartitionRecord(
        partition_id=0, topic_id=T, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=3
    )
    for name, value in fields.items():
        setattr(record, name, value)
    return [TopicRecord(name="t", topic_id=T), record]


def test_eligible_replicas_are_the_isr_where_that_is_empty() -> None:
    """A whole cluster that was shut down under KRaft has empty ISRs (KIP-966), which znodes cannot say."""
    records = [*bootstrap_records(), *topic(isr=[], leader=-1, eligible_leader_replicas=[2, 1])]
    znodes = fresh(of(topic()))
    layout = ClusterLayout()
    layout.load(done(znodes, copying.way_back(znodes, image_of(records))))
    assert sorted(layout.topics["t"].states[0].isr) == [1, 2]


def test_an_earlier_leader_epoch_in_the_log_is_a_difference() -> None:
    found = comparison.differences(of(topic()), image_of(topic(leader_epoch=2)))
    assert [tuple(each) for each in found] == [("leader epoch of t-0", "3", "2")]


def test_a_registered_broker_prevents_a_copy() -> None:
    znodes = of([], *CLUSTER, Create("/brokers/ids/1", DOCUMENTS["/brokers/ids/1"]))
    (sentence,) = findings.look(znodes).preventing
    assert sentence.startswith("brokers 1 are registered: stop them")


def test_what_is_not_finished_prevents_a_copy() -> None:
    requests = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
    znodes = of(
        topic(),
        *CLUSTER,
        *(Create(path, DOCUMENTS[path]) for path in requests),
        Create("/admin/delete_topics/t"),
        Create(CONTROLLER, ControllerZnode(1, 0).encode()),
    )
    assert len(findings.look(znodes).preventing) == 4


def test_a_claim_lets_no_broker_rule_and_a_release_does() -> None:
    znodes = fresh(of(topic(), *CLUSTER))
    claimed = done(znodes, [copying.claim(znodes, 5, 1)])
    assert findings.is_claimed(claimed)
    assert findings.look(claimed).preventing == ()
    assert ControllerZnode.decode(CONTROLLER, claimed[CONTROLLER].data).broker_id == 5
    assert claimed[CONTROLLER_EPOCH].data == b"8"
    released = done(fresh(claimed), [copying.release(fresh(claimed))])
    assert CONTROLLER not in released
    assert MIGRATION not in released
    final = done(fresh(claimed), [copying.end_of_way_back(fresh(claimed))])
    assert not findings.is_claimed(final)
    assert CONTROLLER in final
