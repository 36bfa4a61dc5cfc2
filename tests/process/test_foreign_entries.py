"""What operators put into a log directory stays, and no entry that cannot be removed ends a node."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.process.launch import wait_until
from tests.process.test_node import format_storage, write_properties

pytestmark = [pytest.mark.process, pytest.mark.slow]
UNIQUE = "0123456789abcdef" * 2
SETTINGS = {"log.segment.delete.delay.ms": "1000", "offsets.topic.num.partitions": "1"}


def test_foreign_entries_and_a_linked_partition_end_no_node(tmp_path: Path) -> None:
    """A folder whose name ended in ``-delete`` was erased; such a file, and a link, ended the node at every
    start."""
    cluster = Cluster(1, tmp_path / "home", SETTINGS)
    data = tmp_path / "home/cluster/node-1/data"
    with cluster, connect(cluster.bootstrap) as client:
        client.create_topic("linked")
        client.create_topic("other")
        with client.producer() as producer:
            producer.send(ProducerRecord("linked", b"a"))
            producer.send(ProducerRecord("other", b"b"))
        before = cluster.log_text(1)
    assert "log.foreign_entries" not in before
    folders = [data / "backup-do-not-delete", data / "lost+found", data / "photos-2024"]
    for folder in folders:
        folder.mkdir()
        (folder / "file.tmp").write_text("precious")
    (data / "note-to-delete").write_text("precious")
    os.mkdir(bytes(data) + b"/caf\xe9-to-delete")
    shutil.move(data / "linked-0", tmp_path / "elsewhere")
    (data / "linked-0").symlink_to(tmp_path / "elsewhere")
    with cluster, connect(cluster.bootstrap) as client:
        assert [record.value for record in client.read(["linked"])] == [b"a"]
        client.delete_topic("linked")
        wait_until(lambda: not list(data.glob("linked-0*")), "the link is removed")
        assert (tmp_path / "elsewhere").is_dir()
    with cluster, connect(cluster.bootstrap) as client:
        assert [record.value for record in client.read(["other"])] == [b"b"]
        after = cluster.log_text(1)
    assert all((folder / "file.tmp").read_text() == "precious" for folder in folders)
    assert (data / "note-to-delete").read_text() == "precious"
    assert b"caf\xe9-to-delete" in os.listdir(bytes(data))
    assert "log.foreign_entries" in after and "Traceback" not in after
    assert "log.directory_offline" not in after


OBEY_PERMISSIONS = """
import ctypes, os, sys
prctl = ctypes.CDLL(None).prctl
for capability in (1, 3):  # CAP_DAC_OVERRIDE, CAP_FOWNER
    assert os.getuid() or not prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs a Python program that may not what the permissions of files forbid, also where root runs it."""


def test_a_deleted_log_that_its_process_may_not_remove_ends_no_node(tmp_path: Path) -> None:
    """The folder's permissions forbid it, and the node has no privilege that overrides them."""
    file = write_properties(tmp_path)
    format_storage(file)
    stuck = tmp_path / "data" / f"old-0.{UNIQUE}-delete"
    stuck.mkdir()
    (stuck / f"{0:020}.log").write_bytes(b"")
    stuck.chmod(0o555)
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", OBEY_PERMISSIONS, "-m", "barnabas", "node", "start", str(file)],
            stderr=stderr,
        )
    try:
        wait_until(lambda: "broker.unfenced" in log.read_text(), "the node runs")
        assert "log.not_removed" in log.read_text() and str(stuck) in log.read_text()
        assert stuck.is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        stuck.chmod(0o755)
