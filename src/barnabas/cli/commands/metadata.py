"""``barnabas metadata``: the cluster's metadata as a tree of names, as Kafka's metadata shell shows it.

Of a running cluster (read from the quorum's leader), of files (a snapshot, or a node's directory), or of
znodes: those of a cluster that keeps its metadata in ZooKeeper, as the records they hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.commands.log import replayed
from barnabas.cli.connection.connect import (
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    JsonAnyway,
    answer,
    cluster,
)
from barnabas.cli.connection.metadata_log_reader import MetadataLogReader, found_quorum
from barnabas.cli.connection.quorum_client import quorum_client
from barnabas.cli.connection.zookeeper_reader import read_znodes
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.progress import ProgressLine, has_onlooker
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.snapshot import load_records
from barnabas.metadata.views import metadata_tree as browsing
from barnabas.metadata.views.cluster_events import EventReader
from barnabas.raft.storage.snapshot_files import CorruptSnapshotError, id_of, read_checkpoint
from barnabas.wire.codec import MalformedError
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.topic_ids import number_topics

app = typer.Typer(help="The cluster's metadata as a tree.", no_args_is_help=True)
INDENT = "  "
Snapshot = Annotated[
    Path | None,
    typer.Option(
        "--snapshot", "-s", metavar="FILE", help="A snapshot file, or a node's log directory."
    ),
]
ZooKeeperAt = Annotated[
    str | None,
    typer.Option(
        "--zookeeper", metavar="HOST:PORT/CHROOT", help="Read znodes of a cluster on ZooKeeper."
    ),
]


@app.callback()
def group() -> None:
    """The cluster's metadata as a tree."""


@app.command()
def tree(
    path: str = typer.Argument("/", help="As /topics/byName."),
    depth: int = typer.Option(1, "--depth", "-d", min=1, help="How many levels below it."),
    snapshot: Snapshot = None,
    bootstrap: Bootstrap = None,
    data: Data = None,
    zookeeper: ZooKeeperAt = None,
    as_json: AsJson = False,
) -> None:
    """The names below a path; those that end with a slash have more below them."""
    image = _image_at(snapshot, bootstrap, data, zookeeper, as_json)
    try:
        found = list(_below(image, path.rstrip("/"), depth, 0))
    except browsing.NoSuchPathError as error:
        raise Failure(str(error)) from error
    rows = [
        {"path": f"{at}/{name}".rstrip("/"), "is_folder": name.endswith("/")}
        for at, name, _ in found
    ]
    answer(as_json, rows, *(INDENT * level + name for _, name, level in found))


def _below(
    image: MetadataImage, path: str, depth: int, level: int
) -> Iterator[tuple[str, str, int]]:
    """(path, name, level) of the names below a path, `depth` levels deep. Raises ``NoSuchPathError``."""
    for name in browsing.children(image, path or "/"):
        yield path, name, level
        if level + 1 < depth:
            yield from _below(image, f"{path}/{name}".rstrip("/"), depth, level + 1)


@app.command()
def cat(
    path: str = typer.Argument("/", help="As /topics/byName/flights/0."),
    snapshot: Snapshot = None,
    bootstrap: Bootstrap = None,
    data: Data = None,
    zookeeper: ZooKeeperAt = None,
    as_json: JsonAnyway = False,
) -> None:
    """Everything at and below a path, as JSON."""
    image = _image_at(snapshot, bootstrap, data, zookeeper, as_json)
    try:
        say(json.dumps(browsing.cat(image, path), indent=2, default=str))
    except browsing.NoSuchPathError as error:
        raise Failure(str(error)) from error


def _image_at(
    snapshot: Path | None,
    bootstrap: str | None,
    data: Path | None,
    zookeeper: str | None,
    as_json: bool,
) -> MetadataImage:
    if zookeeper is None:
        return image_of(snapshot, bootstrap, data, as_json=as_json)
    return of_znodes(zookeeper, as_json=as_json)


def image_of(
    snapshot: Path | None,
    bootstrap: str | None,
    data: Path | None,
    controllers: str | None = None,
    *,
    as_json: bool = False,
) -> MetadataImage:
    """The metadata to look at; of a running cluster, as brokers or `controllers` say. Raises `Failure`."""
    is_shown = has_onlooker(as_json)
    if snapshot is not None:
        return replayed(snapshot, is_shown) if snapshot.is_dir() else loaded(snapshot)
    if controllers:
        with quorum_client(bootstrap, controllers, data) as quorum:
            return _read(
                MetadataLogReader(quorum.connected, lambda _: found_quorum(quorum.describe())),
                is_shown,
            )
    with cluster(bootstrap, data) as connected:
        return _read(MetadataLogReader(connected), is_shown)


def _read(log: MetadataLogReader, is_shown: bool) -> MetadataImage:
    reader = EventReader()
    with ProgressLine("offsets of the metadata log", is_shown=is_shown) as line:
        while not log.at_end:
            log.read(reader)
            line.update(log.offset, max(log.high_watermark, log.offset))
    return reader.image


def of_znodes(connect: str, *, as_json: bool) -> MetadataImage:
    """The metadata that ZooKeeper has. Raises `Failure`."""
    layout = ClusterLayout()
    image = MetadataImage(track_changes=False)
    try:
        layout.load(read_znodes(connect, as_json=as_json))
        number_topics(layout)
        load_records(image, layout.records(), -1, layout.controller_epoch)
    except MalformedZnode as error:
        raise Failure(str(error)) from error
    return image


def loaded(file: Path) -> MetadataImage:
    """The image that a snapshot file holds. Raises `Failure`."""
    image = MetadataImage(track_changes=False)
    try:
        values = read_checkpoint(file.read_bytes())
        at = id_of(file.name)
        image.replay_values(values, at.offset - 1 if at else -1, at.epoch if at else -1)
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", USAGE) from error
    except (CorruptSnapshotError, MalformedError) as error:
        raise Failure(f"{file} is damaged: {error}") from error
    return image
