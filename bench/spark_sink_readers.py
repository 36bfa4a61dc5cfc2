"""The numbers that each kind of sink has, by readers that know nothing of the job that wrote them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tests.spark.loopback_session import loopback_session
from tests.spark.topics import read
from tests.unit.pipeline.jobs.other_tables import duckdb_with

Readers = dict[str, Callable[[], list[int]]]
ROOT = Path(__file__).parents[1]
READ_S = 300.0
DELETED = 2
"""Status of a file in an Iceberg manifest."""


def number_in(value: bytes) -> int:
    """The number of a record, from its value."""
    (found,) = re.findall(rb"\d+", value)
    return int(found)


def numbers(rows: Any) -> list[int]:
    """Of Arrow's rows with the columns of the job."""
    return [number_in(value) for value in pa.table(rows).column("value").to_pylist()]


def topic_readers(bootstrap: str, topic: str) -> Readers:
    def by_our_command() -> list[int]:
        words = ("consume", topic, "--from-beginning", "--exit", "--read-committed")
        return lines_of([sys.executable, "-m", "barnabas", *words, "--bootstrap", bootstrap])

    def by_kafka() -> list[int]:
        words = ("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning")
        more = ("--timeout-ms", "15000", "--isolation-level", "read_committed")
        main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        return lines_of(["java", "-cp", f"{ROOT}/peers/libs/*", main, *words, *more])

    return {
        "confluent-kafka": lambda: [number_in(one.value or b"") for one in read(bootstrap, topic)],
        "barnabas consume": by_our_command,
        "Kafka's console consumer": by_kafka,
    }


def lines_of(command: list[str]) -> list[int]:
    """The numbers of records that a command prints, a value in a line."""
    done = subprocess.run(command, capture_output=True, check=False, timeout=READ_S)
    return [number_in(line) for line in done.stdout.splitlines() if re.search(rb"\d", line)]


def parquet_readers(path: Path) -> Readers:
    def by_spark() -> list[int]:
        spark = loopback_session("local[1]", {})
        rows = spark.read.parquet(f"file://{path}").select("value").collect()
        spark.stop()
        return [number_in(row.value) for row in rows]

    files = f"select value from read_parquet('{path}/batch=*/*.parquet')"
    return {
        "pyarrow": lambda: numbers(pq.read_table(path)),
        "DuckDB": lambda: numbers(duckdb_with().sql(files).to_arrow_table()),
        "Spark": by_spark,
    }


def delta_readers(path: Path) -> Readers:
    def by_query_builder() -> list[int]:
        table = QueryBuilder().register("t", DeltaTable(path))
        return numbers(table.execute("select value from t"))

    scan = f"select value from delta_scan('{path}')"
    return {
        "delta-rs": by_query_builder,
        "DuckDB": lambda: numbers(duckdb_with("delta").sql(scan).to_arrow_table()),
        "pyarrow": lambda: numbers(DeltaTable(path).to_pyarrow_table(columns=["value"])),
    }


def iceberg_readers(catalog: dict[str, str], name: str) -> Readers:
    def loaded() -> Table:
        return load_catalog("default", **catalog).load_table(name)

    def by_duckdb() -> list[int]:
        place = local(loaded().metadata_location)
        scan = f"select value from iceberg_scan('{place}')"
        return numbers(duckdb_with("avro", "iceberg").sql(scan).to_arrow_table())

    def by_manifests() -> list[int]:
        files = data_files(json.loads(local(loaded().metadata_location).read_text()))
        tables = [pq.read_table(file, partitioning=None) for file in files]
        return [number for table in tables for number in numbers(table)]

    return {
        "pyiceberg": lambda: numbers(loaded().scan(selected_fields=("value",)).to_arrow()),
        "DuckDB": by_duckdb,
        "fastavro and pyarrow": by_manifests,
    }


def data_files(metadata: dict[str, Any]) -> list[Path]:
    """Files of the current snapshot of an Iceberg table, which has no files of deletes."""
    current = metadata["current-snapshot-id"]
    (snapshot,) = [one for one in metadata["snapshots"] if one["snapshot-id"] == current]
    found = []
    for manifest in records_of(snapshot["manifest-list"]):
        assert manifest["content"] == 0, "a manifest of deletes"
        for entry in records_of(manifest["manifest_path"]):
            if entry["status"] != DELETED:
                found.append(local(entry["data_file"]["file_path"]))
    return found


def records_of(place: str) -> list[Any]:
    with open(local(place), "rb") as file:
        return list(fastavro.reader(file))


def local(place: str) -> Path:
    return Path(unquote(urlparse(place).path))
