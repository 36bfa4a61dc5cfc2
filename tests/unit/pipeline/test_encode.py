"""Rows become batches that hold them all, each in the partition that Kafka's clients choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from barnabas.pipeline.errors import OptionError, StagingError, WriteRefusedError
from barnabas.pipeline.options import ClusterOptions, SinkOptions
from barnabas.pipeline.places.stores import ArrowStore, DirectoryStore, open_store
from barnabas.pipeline.write.batch_encoder import BatchEncoder
from barnabas.pipeline.write.columns import check_columns
from barnabas.record.decode import records_in
from tests.effort import examples
from tests.unit.pipeline.fake_cluster import BROKER

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def encode(rows: pa.RecordBatch, **options: Any) -> list[tuple[int, list[Any]]]:
    """(partition, records) of each batch."""
    chosen = SinkOptions(ClusterOptions((BROKER,)), **{"topic": "t", **options})
    encoder = BatchEncoder(chosen, lambda _: 3, wall_ms=77, turn=0)
    return [
        (batch.partition.partition, list(records_in(bytes(batch.data))))
        for batch in encoder.encode(rows)
    ]


maybe_bytes = st.none() | st.binary(max_size=30)
header = st.fixed_dictionaries({"key": st.text(max_size=4), "value": maybe_bytes})
row = st.tuples(maybe_bytes, maybe_bytes, st.none() | st.lists(header, max_size=3))


@settings(max_examples=examples(60))
@given(st.lists(row, max_size=30), st.integers(1, 400), st.integers(0, 4), st.integers(0, 5))
def test_every_row_is_in_one_batch(
    rows: list[Any], batch_bytes_max: int, codec: int, skipped: int
) -> None:
    table = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([each[0] for each in rows], pa.binary()),
            "value": pa.array([each[1] for each in rows], pa.binary()),
            "headers": pa.array([each[2] for each in rows], HEADERS),
        }
    ).slice(skipped)
    found = [
        (record.key, record.value, list(record.headers))
        for _, records in encode(table, batch_bytes_max=batch_bytes_max, codec=codec)
        for record in records
    ]
    wanted = [
        (key, value, [(each["key"], each["value"]) for each in headers or ()])
        for key, value, headers in rows[skipped:]
    ]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_partitions_are_those_of_kafkas_default_partitioner() -> None:
    """As `Utils.murmur2` of Kafka 4.3.0's Java client has them, for three partitions."""
    keys = ["", "a", "ab", "abc", "abcd", "barnabas", "the castle"]
    rows = pa.RecordBatch.from_pydict({"key": keys, "value": keys})
    where = {
        record.value.decode(): partition
        for partition, records in encode(rows)
        for record in records
    }
    assert where == {
        "": 0, "a": 1, "ab": 2, "abc": 0, "abcd": 2, "barnabas": 1, "the castle": 0
    }  # fmt: skip


def test_order_within_a_partition_is_the_rows() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"%d" % n for n in range(50)]})
    for partition, records in encode(rows, batch_bytes_max=60):
        assert [int(each.value) % 3 for each in records] == [partition] * len(records)
        assert [int(each.value) for each in records] == sorted(int(each.value) for each in records)


def test_a_given_partition_and_topic_are_kept() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"topic": ["t", "u", "t"], "value": ["1", "2", "3"], "partition": pa.array([2, 0, None])}
    )
    rows = rows.set_column(2, "partition", rows["partition"].cast(pa.int32()))
    assert sorted(p for p, _ in encode(rows, topic=None)) == [0, 0, 2]
    wrong = rows.set_column(2, "partition", pa.array([0, 0, 3], pa.int32()))
    with pytest.raises(WriteRefusedError, match="partition 3"):
        encode(wrong, topic=None)
    no_topic = rows.set_column(0, "topic", pa.array([None, "u", "t"]))
    with pytest.raises(WriteRefusedError, match="topic"):
        encode(no_topic, topic=None)


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("key string", "value"),
        ("value int", "binary or string"),
        ("value string, extra int", "none of"),
        ("value string, headers array<string>", "headers"),
        ("value string, partition long", "integer"),
    ],
)
def test_columns_that_are_no_record_are_refused(ddl: str, says: str) -> None:
    from pyspark.sql.types import _parse_datatype_json_value  # noqa: F401

    types = {"string": "string", "int": "integer", "long": "long", "array<string>": None}
    fields = []
    for part in ddl.split(", "):
        name, kind = part.split(" ")
        found: Any = types[kind]
        if found is None:
            found = {"type": "array", "elementType": "string", "containsNull": True}
        fields.append({"name": name, "type": found, "nullable": True, "metadata": {}})
    schema = StructType.fromJson({"type": "struct", "fields": fields})
    with pytest.raises(OptionError, match=says):
        check_columns(schema, SinkOptions(ClusterOptions((BROKER,)), topic="t"), overwrite=False)


@pytest.mark.parametrize("kind", ["directory", "arrow"])
def test_stores_keep_the_same_promises(kind: str, tmp_path: Path) -> None:
    root = str(tmp_path / "root with blank")
    store: DirectoryStore | ArrowStore = DirectoryStore(root)
    if kind == "arrow":
        store = ArrowStore(pafs.LocalFileSystem(), root)
    assert store.names("a") == []
    with pytest.raises(FileNotFoundError):
        store.read("a/x")
    assert store.write_new("a/x", [b"one", b"two"])
    assert not store.write_new("a/x", [b"other"])
    assert store.read("a/x") == b"onetwo" and store.read_at("a/x", 2, 3) == b"etw"
    store.write("a/x", [b"three"])
    store.write("a/b", [b""])
    assert store.names("a") == ["b", "x"] and store.read("a/x") == b"three"
    store.delete("a/x")
    store.delete("a/x")
    assert store.names("a") == ["b"]


def test_stores_are_opened_by_path_or_uri(tmp_path: Path) -> None:
    for location in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        store = open_store(location)
        assert isinstance(store, DirectoryStore) and store.root == str(tmp_path)
    with pytest.raises(StagingError, match="nothing://x"):
        open_store("nothing://x")


@settings(max_examples=examples(40))
@given(
    st.lists(st.none() | st.integers(0, 4_000_000_000_000), min_size=1, max_size=20),
    st.integers(1, 300),
    st.integers(0, 4),
)
def test_records_have_the_timestamps_of_their_rows(
    stamps: list[int | None], batch_bytes_max: int, codec: int
) -> None:
    micros = [None if each is None else each * 1000 + 999 for each in stamps]
    table = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"%d" % n for n in range(len(stamps))]),
            "partition": pa.array([0] * len(stamps), pa.int32()),
            "timestamp": pa.array(micros, pa.timestamp("us", "UTC")),
        }
    )
    found = encode(table, batch_bytes_max=batch_bytes_max, codec=codec)
    wanted = [77 if each is None else each for each in stamps]
    assert [record.timestamp for _, records in found for record in records] == wanted
