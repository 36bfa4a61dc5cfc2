"""A whole cluster of three nodes changes hands: Apache Kafka opens our directories, and we open Kafka's.

Compressed, compacted and idempotent topics, committed offsets, leader epochs after killed leaders; from
Kafka also transactions. No recovery error, the same bytes, leader epochs and committed offsets, and the
idempotent producer is remembered. Kafka's dump tool reads every file that is left.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from barnabas.client.feature_levels import describe_features
from barnabas.host.client import connect
from barnabas.metadata.features import LATEST_METADATA_VERSION, METADATA_VERSION
from tests.interop.contents import (
    GROUP,
    KEPT,
    PLAIN,
    SETTINGS,
    TOPICS,
    Idempotent,
    Served,
    commit,
    epochs_on_disk,
    partitions,
    produce,
    served,
    wait_until_compacted,
    write_transactions,
    write_with_leader_changes,
)
from tests.interop.log.dump_tool import check_every_file, time_indexes_called_wrong
from tests.peers import KAFKA_VERSION
from tests.trio import System, Trio

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.peers("kafka"),
    pytest.mark.timeout(600),
]
INTERNAL = ["__consumer_offsets"]


def write(trio: Trio, system: System, *, transactions: bool) -> tuple[Served, Idempotent]:
    """A cluster of its own life; how it ends is what it served last."""
    trio.format(system)
    with trio.running(system):
        trio.wait_for_brokers()
        write_with_leader_changes(trio, system)
        if transactions:
            write_transactions(trio)
        producer = Idempotent(trio)
        for _ in range(7):
            producer.send_next(trio)
        wait_until_compacted(trio)
        trio.wait_for_isr([*TOPICS, *INTERNAL])
        before = served(trio)
    assert max(len(epochs) for epochs in before.epochs.values()) > 1
    assert before.committed and len(before.latest) > 1
    return before, producer


def check_taken_over(trio: Trio, system: System, before: Served, producer: Idempotent) -> Served:
    """The other system serves the same, continues, and ends; what it served at its end."""
    epochs = {
        (n, at): {row for row in epochs_on_disk(trio, n, at) if row[1] < before.epochs[at][-1][1]}
        for n in trio.nodes
        for at in partitions()
    }
    with trio.running(system):
        trio.wait_for_isr([*TOPICS, *INTERNAL])
        assert not trio.complaints()
        after = served(trio)
        assert after.batches == before.batches
        assert after.latest == before.latest
        assert after.stable == before.stable
        assert after.committed == before.committed
        for at, answers in before.epochs.items():
            if at.topic == KEPT:  # where an epoch begins is where compaction left its first batch
                assert [e for e, _ in after.epochs[at]] == [e for e, _ in answers], at
            else:
                assert after.epochs[at] == answers, at
        producer.check_remembered(trio)
        produce(trio, PLAIN, 300, 100)
        commit(trio, 300)
        trio.wait_for_isr(TOPICS)
        last = served(trio)
    assert not trio.complaints()
    for (node_id, at), rows in epochs.items():
        assert rows <= epochs_on_disk(trio, node_id, at), (node_id, at)
    return last


@pytest.mark.parametrize("system", ["kafka", "barnabas"])
def test_a_directory_that_one_system_formats_is_begun_by_the_other(
    system: System, tmp_path: Path
) -> None:
    """The first leader writes the levels that the format left, wherever that put them (KIP-1170)."""
    other: System = "barnabas" if system == "kafka" else "kafka"
    trio = Trio(tmp_path, {})
    trio.format(system)
    with trio.running(other):
        trio.wait_for_brokers()
        with connect(trio.bootstrap) as client:
            found = client.call(describe_features(client.client)).features
    assert not trio.complaints()
    level = 30 if KAFKA_VERSION == "4.3.0" else LATEST_METADATA_VERSION
    assert found[METADATA_VERSION].level == level
    assert found["transaction.version"].level == 2
    dump = check_every_file(trio.directory, time_indexes_called_wrong(trio.directory))
    assert f'"name":"{METADATA_VERSION}"' in dump["__cluster_metadata"]


def check_files(trio: Trio, except_for: Collection[str] = ()) -> dict[str, str]:
    said = check_every_file(trio.directory, except_for)
    assert f'"group":"{GROUP}"' in said["__consumer_offsets"]
    assert f'"name":"{KEPT}"' in said["__cluster_metadata"] + said.get(".checkpoint", "")
    assert {".log", ".index", ".timeindex", ".snapshot", ".checkpoint"} <= said.keys()
    return said


def test_kafka_takes_over_our_cluster_and_gives_it_back(tmp_path: Path) -> None:
    ours = Trio(tmp_path / "ours", SETTINGS)
    before, producer = write(ours, "barnabas", transactions=False)
    check_files(ours)
    theirs = ours.copy_to(tmp_path / "theirs")
    middle = check_taken_over(theirs, "kafka", before, producer)
    back = theirs.copy_to(tmp_path / "back")
    check_taken_over(back, "barnabas", middle, producer)
    check_files(back, time_indexes_called_wrong(theirs.directory))


def test_we_take_over_a_cluster_of_kafka_with_transactions(tmp_path: Path) -> None:
    theirs = Trio(tmp_path / "theirs", SETTINGS)
    before, producer = write(theirs, "kafka", transactions=True)
    ours = theirs.copy_to(tmp_path / "ours")
    check_taken_over(ours, "barnabas", before, producer)
    said = check_files(ours, time_indexes_called_wrong(theirs.directory))
    assert "mover" in said["__transaction_state"] and ".txnindex" in said
