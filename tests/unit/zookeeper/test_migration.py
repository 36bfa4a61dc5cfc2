"""From znodes into a quorum's first records, what prevents it, and back into znodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    MigrationZnode,
)
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.config_znodes import ConfigZnode
from barnabas.zookeeper.layout.topic_znodes import TopicZnode, topic_path
from barnabas.zookeeper.migration import claim, comparison, copying, findings
from barnabas.zookeeper.operations import Create, Multi, NodeData, Operation, SetData
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


@pytest.mark.slow
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


@pytest.mark.slow
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


TOPICS = st.dictionaries(
    st.sampled_from("abc"), st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=3
)
"""By name: the number of its id, which another topic may have in the other cluster, and its partitions."""


def topics_of(drawn: dict[str, tuple[int, int]]) -> list[Message]:
    records: list[Message] = []
    for name, (number, partitions) in drawn.items():
        topic_id = Uuid(bytes([number]) * 16)
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += [
            PartitionRecord(partition_id=at, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
            for at in range(partitions)
        ]
    return records


def has_one_name_for_each_id(drawn: dict[str, tuple[int, int]]) -> bool:
    return len({number for number, _ in drawn.values()}) == len(drawn)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(TOPICS, TOPICS.filter(has_one_name_for_each_id))
def test_topics_of_the_log_replace_others_with_their_names_or_ids(
    before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]
) -> None:
    znodes, image = fresh(of(topics_of(before))), image_of(topics_of(after))
    changed = done(znodes, copying.way_back(znodes, image))
    assert comparison.differences(changed, image) == []


def test_a_topic_created_again_under_its_name_goes_the_way_back() -> None:
    znodes = fresh(of(topics_of({"a": (1, 3)})))
    image = image_of(topics_of({"a": (2, 2)}))
    changed = done(znodes, copying.way_back(znodes, image))
    assert comparison.differences(changed, image) == []
    partitions = {path for path in changed if path.startswith("/brokers/topics/a/partitions/")}
    assert {path.split("/")[5] for path in partitions} == {"0", "1"}


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


SECRETS = {
    "brokers/1": "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
    "brokers/<default>": "ssl.keystore.key",
    "brokers/2": "listener.name.x.ssl.key.password",
    "brokers/3": "a.key.that.no.table.has",
    "users/alice": "SCRAM-SHA-512",
}


@pytest.mark.parametrize("entity", SECRETS)
def test_a_sensitive_value_is_compared_and_never_shown(entity: str) -> None:
    values = ("salt=cw==,stored_key=aw==,server_key=ZQ==,iterations=4096",
              "salt=cw==,stored_key=aw==,server_key=ZQ==,iterations=8192")  # fmt: skip
    key = SECRETS[entity]
    before, after = (
        of(topic(), Create(f"/config/{entity}"), SetData(f"/config/{entity}", config(key, value)))
        for value in values
    )
    (found,) = comparison.differences(before, image_of(copying.records_of(after)))
    assert found == (f"configuration {entity} {key}", "(hidden)", "(hidden)")
    (gone,) = comparison.differences(before, image_of(topic()))
    assert gone[1:] == ("(hidden)", "")


def config(key: str, value: str) -> bytes:
    return ConfigZnode("", {key: value}).encode()


def test_other_configured_values_are_shown() -> None:
    before, after = (
        of(topic(), SetData("/config/topics/t", config("retention.ms", value)))
        for value in ("1", "2")
    )
    (found,) = comparison.differences(before, image_of(copying.records_of(after)))
    assert found == ("configuration topics/t retention.ms", "1", "2")


def test_a_configuration_that_kraft_does_not_know_stays_in_the_znodes() -> None:
    data = ConfigZnode("", {"message.format.version": "2.8", "retention.ms": "1"}).encode()
    znodes = fresh(of(topic(), *CLUSTER, SetData("/config/topics/t", data)))
    (note,) = findings.find(znodes).notes
    assert note.startswith("topics/t: message.format.version are no configurations under KRaft")
    changed = done(znodes, copying.way_back(znodes, image_of(topic())))
    assert changed["/config/topics/t"].data == config("message.format.version", "2.8")


def test_a_registered_broker_prevents_a_copy() -> None:
    znodes = of([], *CLUSTER, Create("/brokers/ids/1", DOCUMENTS["/brokers/ids/1"]))
    (sentence,) = findings.find(znodes).preventing
    assert sentence.startswith("brokers 1 are registered: stop them")


def test_unfinished_work_prevents_a_copy() -> None:
    requests = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
    znodes = of(
        topic(),
        *CLUSTER,
        *(Create(path, DOCUMENTS[path]) for path in requests),
        Create("/admin/delete_topics/t"),
        Create(CONTROLLER, ControllerZnode(1, 0).encode()),
    )
    assert len(findings.find(znodes).preventing) == 4


def test_a_cluster_that_never_had_a_controller_is_not_copied() -> None:
    znodes = fresh(of(topic(), *CLUSTER))
    del znodes[CONTROLLER_EPOCH]
    (sentence,) = findings.find(znodes).preventing
    assert sentence.startswith("/controller_epoch is missing: no broker was ever elected")


def test_a_mark_without_a_claim_prevents_a_copy() -> None:
    znodes = fresh(of(topic(), *CLUSTER, Create(MIGRATION, MigrationZnode(1, 0, 5, 1).encode())))
    (sentence,) = findings.find(znodes).preventing
    assert sentence == findings.why_no_way_back(znodes)
    assert sentence.startswith("/migration is there, but no KRaft controller has /controller")


def test_a_final_migration_says_that_it_is() -> None:
    znodes = fresh(of(topic(), *CLUSTER))
    assert findings.why_no_way_back(znodes).startswith("no migration was begun")
    claimed = fresh(done(znodes, [claim.take(znodes, 5, 0, 1)[0]]))
    assert findings.why_no_way_back(claimed) == ""
    final = fresh(done(claimed, [claim.end_of_way_back(claimed)]))
    (sentence,) = findings.find(final).preventing
    assert sentence == findings.why_no_way_back(final)
    assert sentence.startswith("the migration is final")
    del claimed[CONTROLLER_EPOCH]
    assert findings.why_no_way_back(claimed).startswith("/controller_epoch is missing")


def test_a_claim_lets_no_broker_rule_and_a_release_does() -> None:
    znodes = fresh(of(topic(), *CLUSTER))
    claimed = done(znodes, [claim.take(znodes, 5, 0, 1)[0]])
    assert findings.is_claimed(claimed)
    assert findings.find(claimed).preventing == ()
    assert ControllerZnode.decode(CONTROLLER, claimed[CONTROLLER].data).broker_id == 5
    assert claimed[CONTROLLER_EPOCH].data == b"8"
    released = done(fresh(claimed), [claim.release(fresh(claimed))])
    assert CONTROLLER not in released
    assert MIGRATION not in released
    final = done(fresh(claimed), [claim.end_of_way_back(fresh(claimed))])
    assert not findings.is_claimed(final)
    assert CONTROLLER in final


def test_topics_without_ids_are_compared_by_name() -> None:
    """And prevent the copy of a stopped cluster: its brokers' logs have none either."""
    copied = [*topics_of({"a": (1, 2), "b": (2, 1)})]
    znodes = of(copied)
    for name in ("a", "b"):
        path = topic_path(name)
        old = replace(TopicZnode.decode(path, znodes[path].data), topic_id=None, version=2)
        znodes[path] = znodes[path]._replace(data=old.encode())
    found = comparison.differences(znodes, image_of(copied))
    assert [each[:2] for each in found] == [("topic a", "no id"), ("topic b", "no id")]
    why = " ".join(findings.find(znodes).preventing)
    assert "topics a, b have no id: let the brokers run once, and stop them" in why
