"""meta.properties: what is written is read, and why a directory cannot be used is one sentence."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from barnabas.config.meta_properties import (
    FILE_NAME,
    DirectoryError,
    MetaProperties,
    back_from_quorum,
    check_directories,
    complete_meta_properties,
    directory_id_in_migration,
    parse_meta_properties,
    read_meta_properties,
    read_zookeeper_owner,
)
from barnabas.host.disk import HostDisk
from barnabas.types import NodeId, Uuid

META = MetaProperties("4L6g3nShT-eMCtK--X86sw", NodeId(3), Uuid(bytes(range(16))))


def test_written_meta_properties_are_read_back() -> None:
    text = META.format_text()
    assert "version=1\n" in text
    assert "cluster.id=4L6g3nShT-eMCtK--X86sw\n" in text
    assert parse_meta_properties(text) == META


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "meta.properties has version 0; only version 1 is understood"),
        ("version=2", "meta.properties has version 2; only version 1 is understood"),
        ("version=1\nnode.id=1", "meta.properties has no cluster.id"),
        ("version=1\ncluster.id=x\nnode.id=one", "meta.properties cannot be read"),
        ("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=!", "meta.properties cannot be read"),
        (
            "version=1\ncluster.id=x\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ",
            "meta.properties has a directory.id that is reserved",
        ),
    ],
)
def test_unusable_meta_properties_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(DirectoryError) as caught:
        parse_meta_properties(text)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "text",
    ["version=1\ncluster.id=x\nnode.id=3\n", "broker.id=3\ncluster.id=x\nversion=0\n"],
    ids=["of Kafka 3.6", "of a node that came from ZooKeeper"],
)
def test_an_older_file_is_completed_once(tmp_path: Path, text: str) -> None:
    disk, directory = HostDisk(), str(tmp_path)
    (tmp_path / FILE_NAME).write_text(text)
    assert complete_meta_properties(disk, directory, Random(1).randbytes)
    meta = read_meta_properties(disk, directory)
    assert meta is not None and (meta.cluster_id, meta.node_id) == ("x", 3)
    assert not complete_meta_properties(disk, directory, Random(2).randbytes)
    assert read_meta_properties(disk, directory) == meta


@pytest.mark.parametrize("text", ["version=0\n", "version=2\ncluster.id=x\nnode.id=3\n"])
def test_nothing_is_made_of_a_file_that_says_too_little(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    assert not complete_meta_properties(HostDisk(), str(tmp_path), Random(1).randbytes)
    assert (tmp_path / FILE_NAME).read_text() == text


def test_a_metadata_log_is_not_created_beside_the_existing_one(tmp_path: Path) -> None:
    """Kafka's way with log.dirs whose order changed: a voter without its log could vote twice, and the only
    one would begin an empty cluster."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for number, path in enumerate(paths):
        path.mkdir()
        meta = META._replace(directory_id=Uuid(bytes(15) + bytes([200 + number])))
        (path / FILE_NAME).write_text(meta.format_text())
    (paths[0] / "__cluster_metadata-0").mkdir()
    a, b = map(str, paths)
    assert set(check_directories(HostDisk(), [a, b], NodeId(3), required=a)) == {a, b}
    with pytest.raises(DirectoryError, match=f"{a} has this node's metadata log"):
        check_directories(HostDisk(), [b, a], NodeId(3), required=b)


def test_a_directory_keeps_its_id_on_every_way_of_a_migration(tmp_path: Path) -> None:
    """The quorum knows replicas by it."""
    disk, directory = HostDisk(), str(tmp_path)
    (tmp_path / FILE_NAME).write_text("broker.id=3\ncluster.id=x\nversion=0\n")
    known = directory_id_in_migration(disk, directory, Random(1).randbytes)
    assert directory_id_in_migration(disk, directory, Random(2).randbytes) == known
    assert read_zookeeper_owner(disk, directory) == ("x", 3)
    assert complete_meta_properties(disk, directory, Random(3).randbytes)  # under KRaft
    assert read_meta_properties(disk, directory) == MetaProperties("x", NodeId(3), known)
    assert back_from_quorum(disk, directory)
    assert directory_id_in_migration(disk, directory, Random(4).randbytes) == known
