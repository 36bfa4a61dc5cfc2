"""``barnabas log`` reads every file that a node writes, and says where one is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.group.record_codec import GroupRecord, encode_record
from barnabas.group.records.offset_commit_key import OffsetCommitKey
from barnabas.group.records.offset_commit_value import OffsetCommitValue
from barnabas.metadata.image.codec import encode_record as encode_metadata
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.snapshot_files import file_name, write_checkpoint
from barnabas.record.batch import seal
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.transaction.record_codec import TransactionRecord
from barnabas.transaction.record_codec import encode_record as encode_transaction
from barnabas.transaction.states import TransactionState
from barnabas.transaction.transaction import Transaction
from barnabas.types import TopicPartition, Uuid, uuid_text
from tests.json_shapes import assert_documented

ID = Uuid(b"i" * 16)
TRANSACTION = Transaction(
    7, 2, 60_000, TransactionState.ONGOING, {TopicPartition("t", 0): None}, 5, 6
)


def dump(file: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    assert main(["log", "dump", str(file), "--json", *more]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_segments_and_indexes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = folder / "00000000000000000005.log"
    marker = end_transaction_marker(
        commit=True, timestamp_ms=1, producer_id=7, producer_epoch=0, coordinator_epoch=3
    )
    log.write_bytes(
        build_batch([(b"k", b"v", (("h", b"x"),)), (None, b"\xff")], timestamp_ms=1, base_offset=5)
        + bytes(marker)
    )
    first, second = dump(log, capsys, "--records")
    assert first["records"] == [
        {"offset": 5, "timestamp": 1, "key": "k", "value": "v", "headers": [["h", "x"]]},
        {"offset": 6, "timestamp": 1, "key": None, "value": "\\xff"},
    ]
    assert second["records"] == [{"control": "commit", "coordinator_epoch": 3}]
    log.with_suffix(".index").write_bytes(pack(">iiii", 1, 99, 0, 0))
    assert dump(log.with_suffix(".index"), capsys) == [{"offset": 6, "position": 99}]
    log.with_suffix(".timeindex").write_bytes(pack(">qi", 42, 1))
    assert dump(log.with_suffix(".timeindex"), capsys) == [{"timestamp": 42, "offset": 6}]
    log.with_suffix(".txnindex").write_bytes(pack(">hqqqq", 0, 1, 2, 3, 4))
    assert dump(log.with_suffix(".txnindex"), capsys)[0]["last_stable_offset"] == 4
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert len(dump(folder / "leader-epoch-checkpoint", capsys)) == 3


def test_damage_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "00000000000000000000.log"
    batch = bytearray(build_batch([(b"k", b"v")], timestamp_ms=1))
    batch[-1] ^= 1
    log.write_bytes(batch)
    assert main(["log", "dump", str(log)]) == 1
    assert "is damaged" in capsys.readouterr().err
    assert main(["log", "dump", str(tmp_path / "none.log")]) == 2
    snapshot = tmp_path / "00000000000000000001.snapshot"
    snapshot.write_bytes(pack(">hIi", 257, 0, 0))
    assert main(["log", "dump", str(snapshot)]) == 1
    assert "is damaged: ProducerSnapshot has versions 1 to 1" in capsys.readouterr().err


def test_an_unknown_codec_is_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "00000000000000000000.log"
    batch = bytearray(build_batch([(b"k", b"v")], timestamp_ms=1))
    batch[22] |= 7  # the attributes
    seal(batch)
    log.write_bytes(batch)
    assert [row["codec"] for row in dump(log, capsys)] == ["7"]
    assert main(["log", "dump", "--records", str(log)]) == 1
    assert "is damaged" in capsys.readouterr().err


def test_records_of_internal_topics_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    record = GroupRecord(
        OffsetCommitKey(group="g", topic="t", partition=1), OffsetCommitValue(offset=9), 4
    )
    (folder / "0.log").write_bytes(build_batch([encode_record(record)], timestamp_ms=1))
    (row,) = dump(folder / "0.log", capsys, "--records")
    (told,) = row["records"]
    assert told["key"] == {"group": "g", "topic": "t", "partition": 1}
    assert told["value"]["offset"] == 9


def test_transaction_state_records_are_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were printed as hexadecimal digits."""
    folder = tmp_path / "__transaction_state-7"
    folder.mkdir()
    batch = build_batch(
        [
            encode_transaction(TransactionRecord("pay", TRANSACTION)),
            encode_transaction(TransactionRecord("gone", None)),
            (b"\x00\x00", b"damaged"),
        ],
        timestamp_ms=1,
    )
    (folder / "0.log").write_bytes(batch)
    (row,) = dump(folder / "0.log", capsys, "--records")
    written, expired, damaged = row["records"]
    assert written["type"] == "TransactionLogKey" and written["key"] == {"transactional_id": "pay"}
    assert written["value"]["producer_id"] == 7 and written["value"]["transaction_status"] == 1
    assert expired["key"] == {"transactional_id": "gone"} and expired["value"] is None
    assert damaged["value"] == b"damaged".hex() and damaged["damaged"]


def test_events_and_tree_of_the_metadata_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    records = [
        TopicRecord(name="t", topic_id=ID),
        PartitionRecord(
            topic_id=ID, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=1, directories=[ID, ID]
        ),
        PartitionChangeRecord(
            topic_id=ID, partition_id=0, leader=2, isr=[2], reason="broker 1 died"
        ),
    ]
    values = [encode_metadata(r, 1 if type(r) is PartitionRecord else 0) for r in records]
    log = folder / "00000000000000000000.log"
    log.write_bytes(build_batch([(None, value) for value in values], timestamp_ms=1000))
    assert main(["log", "events", str(tmp_path), "--json", "--kind", "election"]) == 0
    (event,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert event["reason"] == "broker 1 died" and event["subject"] == "t-0"
    assert main(["log", "tree", str(tmp_path), "/topics/byName/t"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["log", "tree", str(tmp_path), "/topics/byName/t", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    words = ["metadata", "tree", "/topics/byName", "--depth", "2", "-s", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert_documented(words, rows)
    assert rows[:2] == [
        {"path": "/topics/byName/t", "is_folder": True},
        {"path": "/topics/byName/t/name", "is_folder": False},
    ]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("t/\n  name\n")
    assert told["id"] == uuid_text(ID) and told["0"]["leader"] == 2
    assert main(["log", "tree", str(tmp_path), "/nowhere"]) == 1
    assert main(["log", "events", str(tmp_path / "no")]) == 2


def test_a_log_that_begins_within_a_segment_continues_its_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Segments go as a whole: the first one has batches from before the oldest snapshot."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    other = Uuid(b"o" * 16)
    before = encode_metadata(TopicRecord(name="t", topic_id=ID), 0)
    after = encode_metadata(TopicRecord(name="other", topic_id=other), 0)
    (folder / f"{90:020d}.log").write_bytes(
        build_batch([(None, before)], timestamp_ms=1, base_offset=90, leader_epoch=1)
        + build_batch([(None, after)], timestamp_ms=1, base_offset=91, leader_epoch=1)
    )
    assert main(["log", "tree", str(tmp_path), "/topics/byName"]) == 1
    assert "no snapshot has what was before" in capsys.readouterr().err
    earlier = encode_metadata(TopicRecord(name="earlier", topic_id=Uuid(b"e" * 16)), 0)
    snapshot = OffsetAndEpoch(91, 1)
    checkpoint = write_checkpoint([earlier, before], 1)
    (folder / file_name(snapshot)).write_bytes(checkpoint)
    assert main(["log", "tree", str(tmp_path), "/topics/byName"]) == 0
    assert sorted(json.loads(capsys.readouterr().out)) == ["earlier", "other", "t"]
