"""Formatting a node's directories by `barnabas storage format`."""

from __future__ import annotations

import json
import os
import re
from errno import ENOSPC
from pathlib import Path

import pytest
from typer.testing import CliRunner

from barnabas.cli.commands.storage import app
from barnabas.cli.failure import Failure
from barnabas.cli.main import main
from barnabas.config.meta_properties import read_meta_properties
from barnabas.host.disk import HostDisk
from barnabas.raft.bootstrap_snapshot import first_snapshot_path
from tests.json_shapes import assert_documented

CLUSTER_ID = "c3RvcmFnZS1mb3JtYXQtdA"
DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg"
CONTROLLER = (
    "process.roles=broker,controller\nnode.id=1\n"
    "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
    "controller.listener.names=CONTROLLER\n"
)


def test_programs_learn_what_was_formatted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, directory = tmp_path / "server.properties", tmp_path / "1"
    file.write_text(f"{CONTROLLER}log.dirs={directory}\n")
    assert main(["storage", "random-uuid", "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)
    assert_documented(["storage", "random-uuid"], drawn)
    cluster_id = drawn["cluster_id"]
    words = ["storage", "format", str(file), "--cluster-id", cluster_id, "--standalone"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert_documented(words, told)
    assert told == {"node_id": 1, "cluster_id": cluster_id, "directories": [str(directory)]}
    assert main(["storage", "info", str(file), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert_documented(["storage", "info"], info)
    assert info["directories"][str(directory)]["cluster.id"] == cluster_id


def _format(file: Path, *words: str) -> None:
    done = CliRunner().invoke(app, ["format", "--cluster-id", CLUSTER_ID, *words, str(file)])
    assert done.exit_code == 0, done.output


def test_a_directory_that_is_added_changes_nothing_about_who_votes(tmp_path: Path) -> None:
    file, first, added = tmp_path / "server.properties", tmp_path / "1", tmp_path / "2"
    file.write_text(f"{CONTROLLER}log.dirs={first}\n")
    _format(file, "--no-initial-controllers")
    disk = HostDisk()
    before = read_meta_properties(disk, str(first))
    file.write_text(f"{CONTROLLER}log.dirs={first},{added}\n")
    voter = f"1@127.0.0.1:9093:{DIRECTORY_ID}"
    _format(file, "--ignore-formatted", "--initial-controllers", voter)
    assert read_meta_properties(disk, str(added)) is not None
    assert read_meta_properties(disk, str(first)) == before
    assert not disk.exists(first_snapshot_path(str(first)))


def test_a_metadata_directory_counts_as_formatted_when_it_says_who_votes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device", "somewhere")

    file, directory = tmp_path / "server.properties", tmp_path / "1"
    file.write_text(f"{CONTROLLER}log.dirs={directory}\n")
    words = ["format", "--cluster-id", CLUSTER_ID, "--standalone", str(file)]
    with monkeypatch.context() as patched:
        patched.setattr("barnabas.cli.connection.first_voters.write_first_snapshot", fail)
        assert CliRunner().invoke(app, words).exit_code == 1
    disk = HostDisk()
    assert read_meta_properties(disk, str(directory)) is None
    _format(file, "--standalone")
    assert disk.exists(first_snapshot_path(str(directory)))


def test_a_disk_that_takes_nothing_is_named_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    file = tmp_path / "server.properties"
    file.write_text(f"{CONTROLLER}log.dirs={tmp_path}/1\n")
    monkeypatch.setattr(os, "fsync", refuse)
    words = ["format", "--cluster-id", CLUSTER_ID, "--standalone", str(file)]
    failed = CliRunner().invoke(app, words).exception
    assert isinstance(failed, Failure)
    assert re.fullmatch(rf"{tmp_path}/1/\S+: No space left on device", str(failed))


@pytest.mark.parametrize("noise", [b"log.dirs=\xff\xfe", b"a=\\u12"])
def test_a_file_of_noise_is_one_sentence(tmp_path: Path, noise: bytes) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(noise)
    assert isinstance(CliRunner().invoke(app, ["info", str(file)]).exception, Failure)


@pytest.mark.parametrize("voters", ["--standalone", "--no-initial-controllers"])
def test_a_cluster_begins_dynamic_at_any_level(tmp_path: Path, voters: str) -> None:
    """As with the tool of Apache Kafka 4.3; that of 3.9 had kraft.version 1 depend on metadata.version 21."""
    file = tmp_path / "server.properties"
    file.write_text(f"{CONTROLLER}log.dirs={tmp_path}/1\n")
    _format(file, "--feature", "metadata.version=20", voters)
    assert (tmp_path / "1" / "bootstrap.checkpoint").exists()


@pytest.mark.parametrize(("static", "level"), [(True, 1), (False, 0)])
def test_a_level_of_kraft_version_that_is_not_that_of_the_voters_is_refused(
    tmp_path: Path, static: bool, level: int
) -> None:
    file = tmp_path / "server.properties"
    voters = CONTROLLER.replace("bootstrap.servers=", "voters=1@") if static else CONTROLLER
    file.write_text(f"{voters}log.dirs={tmp_path}/1\n")
    words = [] if static else ["--standalone"]
    wrong = ["format", "--cluster-id", CLUSTER_ID, "--feature", f"kraft.version={level}", *words]
    failed = CliRunner().invoke(app, [*wrong, str(file)]).exception
    assert isinstance(failed, Failure) and "kraft.version" in str(failed)
    assert not (tmp_path / "1").exists()
    _format(file, "--feature", f"kraft.version={1 - level}", *words)
