"""``meta.properties``: which cluster, node and directory a log directory belongs to.

`format_text` and `parse_meta_properties` turn it into a file and back; `read_meta_properties` reads it
through a Disk and `check_directories` says in one sentence why a node may not use its directories.
Version 1, as KRaft writes it. Source: Kafka's ``MetaProperties``; KIP-631, KIP-858.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.config.properties import format_properties, parse_properties
from barnabas.ports import Disk
from barnabas.types import (
    DIRECTORIES_RESERVED,
    METADATA_TOPIC,
    NodeId,
    Uuid,
    uuid_from_text,
    uuid_text,
)

FILE_NAME = "meta.properties"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
RandomBytes = Callable[[int], bytes]


def random_uuid(random_bytes: RandomBytes) -> Uuid:
    """A version 4 UUID outside the reserved ones, whose text does not begin with a dash (which a
    command line would take for an option)."""
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        number = int.from_bytes(raw, "big")
        if number >= DIRECTORIES_RESERVED and raw[0] >> 2 != 62:
            return Uuid(bytes(raw))


REMEDY = (
    "a copy of it belongs here: the node's other directories have the same cluster.id and node.id, and"
    " directory.id is what `barnabas log-dirs` showed"
)


class DirectoryError(ValueError):
    """One sentence: why a directory cannot be used."""


class MetaProperties(NamedTuple):
    """The content of the file. `cluster_id` is text as users give it, usually a UUID's."""

    cluster_id: str
    node_id: NodeId
    directory_id: Uuid

    def format_text(self) -> str:
        return format_properties(
            {
                "version": "1",
                "cluster.id": self.cluster_id,
                "node.id": str(self.node_id),
                "directory.id": uuid_text(self.directory_id),
            },
            "Which cluster, node and directory this is. Written when it was formatted; do not edit.",
        )


def parse_meta_properties(text: str, path: str = FILE_NAME) -> MetaProperties:
    """Raises :class:`DirectoryError` where `text` is not a version 1 file."""
    try:
        values = parse_properties(text)
        version = values.get("version", "0").strip()
        if version != "1":
            why = f"{path} has version {version}; only version 1 is understood"
            raise DirectoryError(f"{why}; {REMEDY}")
        meta = MetaProperties(
            values["cluster.id"],
            NodeId(int(values["node.id"])),
            uuid_from_text(values["directory.id"]),
        )
        if int.from_bytes(meta.directory_id, "big") < DIRECTORIES_RESERVED:
            raise DirectoryError(f"{path} has a directory.id that is reserved")
        return meta
    except KeyError as error:
        raise DirectoryError(f"{path} has no {error.args[0]}; {REMEDY}") from None
    except DirectoryError:
        raise
    except ValueError as error:
        raise DirectoryError(f"{path} cannot be read: {error}; {REMEDY}") from error


def complete_meta_properties(disk: Disk, directory: str, random_bytes: RandomBytes) -> bool:
    """Give a file that lacks it a directory id, and version 1: Kafka wrote none before 3.7, and nodes that
    came from ZooKeeper keep version 0. Whether it did. Raises :class:`DirectoryError`, ``OSError``."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return False
    try:
        values = parse_properties(disk.read_file(path).decode("utf-8", "replace"))
    except ValueError as error:
        raise DirectoryError(f"{path} cannot be read: {error}") from error
    version = values.get("version", "0").strip()
    if version == "0" and {"broker.id", "cluster.id"} <= values.keys():
        values["node.id"] = values["broker.id"]
    elif version != "1" or "directory.id" in values:
        return False
    values.setdefault("directory.id", uuid_text(random_uuid(random_bytes)))
    whole = parse_meta_properties(format_properties({**values, "version": "1"}, ""), path)
    disk.write_atomic(path, whole.format_text().encode())
    return True


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """The cluster and node that `directory` belongs to; None: it is not formatted. Raises
    :class:`DirectoryError`, ``OSError``."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return None
    return parse_meta_properties(disk.read_file(path).decode("utf-8", "replace"), path)


def check_directories(
    disk: Disk, directories: Sequence[str], node_id: NodeId, *, required: str
) -> Mapping[str, MetaProperties]:
    """The node and cluster that each of a node's directories belongs to. Raises :class:`DirectoryError` if
    a directory is not formatted, is another node's, is of another cluster than the rest, or holds the
    metadata log, which would then begin empty elsewhere; ``OSError`` if `required` (the metadata log's
    directory) cannot be read. Any other unreadable directory is left out: it is offline, and the caller
    has to notice that it is missing."""
    found: dict[str, MetaProperties] = {}
    for directory in directories:
        try:
            meta = read_meta_properties(disk, directory)
            misplaced = directory != required and disk.exists(f"{directory}/{METADATA_TOPIC}-0")
        except OSError:
            if directory == required:
                raise
            continue
        if meta is None:
            raise DirectoryError(
                f"{directory} is not formatted; run `barnabas storage format` with this node's file"
            )
        if misplaced:
            raise DirectoryError(
                f"{directory} has this node's metadata log ({METADATA_TOPIC}-0), which the settings say is"
                f" in {required}: set metadata.log.dir, or put it first in log.dirs"
            )
        if meta.node_id != node_id:
            raise DirectoryError(
                f"{directory} belongs to node {meta.node_id}, but node.id is {node_id}"
            )
        for other, known in found.items():
            if known.cluster_id != meta.cluster_id:
                raise DirectoryError(
                    f"{directory} is of cluster {meta.cluster_id}, but {other} of {known.cluster_id}"
                )
            if known.directory_id == meta.directory_id:
                raise DirectoryError(f"{directory} and {other} have the same directory.id")
        found[directory] = meta
    return found


class DirectoryOwner(NamedTuple):
    """Which node of which cluster a directory belongs to, under KRaft or on ZooKeeper."""

    cluster_id: str
    node_id: int
    is_in_zookeeper_mode: bool
    """A version 0 file."""


def read_owner(disk: Disk, directory: str) -> DirectoryOwner | None:
    """None where `directory` is not formatted. Raises :class:`DirectoryError`, ``OSError``."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return None
    try:
        values = parse_properties(disk.read_file(path).decode("utf-8", "replace"))
        is_in_zookeeper_mode = values.get("version", "0").strip() == "0"
        number = values["broker.id" if is_in_zookeeper_mode else "node.id"]
        return DirectoryOwner(values["cluster.id"], int(number), is_in_zookeeper_mode)
    except KeyError as error:
        raise DirectoryError(f"{path} has no {error.args[0]}") from None
    except ValueError as error:
        raise DirectoryError(f"{path} cannot be read: {error}") from error


# -- a broker that ZooKeeper coordinates -------------------------------------------------------------


def read_zookeeper_owner(disk: Disk, directory: str) -> tuple[str, int] | None:
    """(cluster id, broker id) of a version 0 file, as Kafka writes it under ZooKeeper; None where there is no
    file. Raises :class:`DirectoryError`, ``OSError``."""
    owner = read_owner(disk, directory)
    if owner is None:
        return None
    if not owner.is_in_zookeeper_mode:
        raise DirectoryError(
            f"{directory}/{FILE_NAME} is of a broker under KRaft, not of one that ZooKeeper coordinates"
        )
    return owner.cluster_id, owner.node_id


def zookeeper_owner_text(cluster_id: str, broker_id: int, directory_id: Uuid | None = None) -> str:
    """The content of a version 0 file. It has a directory id where the cluster migrates to a quorum."""
    values = {"version": "0", "cluster.id": cluster_id, "broker.id": str(broker_id)}
    if directory_id is not None:
        values["directory.id"] = uuid_text(directory_id)
    return format_properties(
        values, "Which cluster and broker this is. Written at the first start; do not edit."
    )


def back_from_quorum(disk: Disk, directory: str) -> bool:
    """Make a directory that ran under KRaft a ZooKeeper broker's again; whether it was one. Partitions stay.
    The directory keeps its id, by which the quorum knows it. Raises :class:`DirectoryError`, ``OSError``."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return False
    text = disk.read_file(path).decode("utf-8", "replace")
    if parse_properties(text).get("version", "0").strip() != "1":
        return False
    meta = parse_meta_properties(text, path)
    text = zookeeper_owner_text(meta.cluster_id, meta.node_id, meta.directory_id)
    disk.write_atomic(path, text.encode())
    return True


def directory_id_in_migration(disk: Disk, directory: str, random_bytes: RandomBytes) -> Uuid:
    """The directory id of a ZooKeeper broker that migrates to a quorum; a version 0 file without one gets it.
    The broker is registered with it, and keeps it under KRaft: the quorum knows replicas by it. Source: Kafka
    3.9's ``KafkaServer`` (migrationEnabled). Raises :class:`DirectoryError`, ``OSError``."""
    path = f"{directory}/{FILE_NAME}"
    try:
        values = parse_properties(disk.read_file(path).decode("utf-8", "replace"))
        if "directory.id" in values:
            return uuid_from_text(values["directory.id"])
        made = random_uuid(random_bytes)
        text = zookeeper_owner_text(values["cluster.id"], int(values["broker.id"]), made)
    except (KeyError, ValueError) as error:
        raise DirectoryError(f"{path} cannot be read: {error}") from error
    disk.write_atomic(path, text.encode())
    return made


def normal_path(path: str, base: str = "") -> str:
    """`path` without a slash at its end, ``.`` and ``..``; a relative one below `base`."""
    found = posixpath.normpath(posixpath.join(base, path))
    return "/" + found.lstrip("/") if found.startswith("//") else found


def unknown_paths(wanted: Iterable[str], known: Iterable[str]) -> list[str]:
    """Those of `wanted` that name none of the directories `known`."""
    there = set(map(normal_path, known))
    return [path for path in wanted if normal_path(path) not in there]
