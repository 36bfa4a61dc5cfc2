"""What Spark's Python processes load: little where only a schema is asked for, no pandas to read."""

from __future__ import annotations

import gc
import os
import socket
import struct
import subprocess
import sys

import pytest

from barnabas.pipeline import frozen
from barnabas.pipeline.workers import daemon
from barnabas.record.builder import build_batch

SCHEMA = """
import sys
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark_barnabas import DefaultSource
made = DefaultSource(CaseInsensitiveDict({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}))
assert len(made.schema().fields) == 7
print([each for each in ("pyarrow", "numpy", "ssl", "barnabas.wire") if each in sys.modules])
"""
READ = """
import sys
from barnabas.pipeline.read.columns import record_schema
from barnabas.pipeline.read.decoded_columns import DecodedColumns
from barnabas.pipeline.read.landing import file_row
from barnabas.pipeline.workers import daemon
from barnabas.record.columnar import decode_groups
from pyspark.sql.pandas.types import to_arrow_schema
daemon.load()
target = DecodedColumns(to_arrow_schema(record_schema(include_headers=True), timezone="UTC"), None)
batch = bytes.fromhex(sys.argv[1])
(columns,) = decode_groups(batch, 0, 1, aborted=None, wanted=target.wanted, check_crc=True)
rows, files = target.to_arrow(columns, "t", 3), file_row("f", 1, 2)
print("pandas" in sys.modules)
(row,) = rows.to_pylist()
assert (row["value"], row["partition"], row["offset"], row["timestampType"]) == (b"v", 3, 0, 0), row
assert row["timestamp"].timestamp() == 1.5, row
assert files.to_pylist() == [{"file": "f", "rows": 1, "bytes": 2}]
"""


def printed(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_a_schema_is_found_without_arrow_and_connections() -> None:
    assert printed(SCHEMA) == "[]"


@pytest.mark.slow
def test_records_are_read_without_pandas() -> None:
    batch = build_batch([(None, b"v")], timestamp_ms=1500)
    assert printed(READ, bytes(batch).hex()) == "False"


@pytest.mark.slow
def test_loaded_objects_are_frozen_in_sparks_processes_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = gc.get_freeze_count()
    monkeypatch.setattr(frozen, "_modules", 0)
    monkeypatch.delenv(frozen.IN_WORKER, raising=False)
    frozen.freeze_loaded()
    assert gc.get_freeze_count() == before
    monkeypatch.setenv(frozen.IN_WORKER, "1")
    try:
        frozen.freeze_loaded()
        after = gc.get_freeze_count()
        assert after > before
        kept: list[list[int]] = [
            [] for _ in range(1000)
        ]  # objects of a task, made when nothing was loaded
        frozen.freeze_loaded()
        assert gc.get_freeze_count() == after
        assert kept
    finally:
        gc.unfreeze()


@pytest.mark.slow
def test_the_daemon_forks_workers_as_sparks_own_does() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", daemon.MODULE, "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "s", "SPARK_REUSE_WORKER": "1"},
    )
    try:
        assert process.stdout is not None
        (port,) = struct.unpack("!i", process.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port), 30) as worker:
            (pid,) = struct.unpack("!i", worker.recv(4))
            assert os.getpgid(pid) == process.pid
            worker.sendall(struct.pack("!i", 1) + b"s")
            assert worker.recv(64) == struct.pack("!i", 2) + b"ok"
    finally:
        process.communicate(timeout=30)  # a daemon ends with its standard input
