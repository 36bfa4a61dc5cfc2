"""``barnabas migrate``: a stopped cluster's metadata from ZooKeeper into a quorum's log, and back.

The brokers are stopped, `copy` gives the controllers what the znodes say, and the brokers start under the
quorum on the directories that they have. Until `finalize` the way back is open: `revert` brings the znodes to
what the log says.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from barnabas.cli.commands import migrate_online
from barnabas.cli.commands.metadata import image_of
from barnabas.cli.commands.storage import load_node_file
from barnabas.cli.confirming import USAGE, DryRun, Yes, confirm
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, answer, show, table_of
from barnabas.cli.connection.controller_directories import (
    NodeDirectory,
    check_metadata,
    check_not_begun,
    check_owners,
    forget_quorum,
    format_controller,
    give_back_to_zookeeper,
    is_half_reverted,
    stopped_nodes,
)
from barnabas.cli.connection.quorum_client import Controllers
from barnabas.cli.connection.zookeeper_reader import read_znodes
from barnabas.cli.connection.zookeeper_writer import write_znodes
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import counted, say
from barnabas.config.node import NodeConfig
from barnabas.controller.migration_state import ZkMigrationState
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import METADATA_TOPIC
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.migration import claim, comparison, copying, findings
from barnabas.zookeeper.migration.findings import MigrationState
from barnabas.zookeeper.operations import Multi, NodeData

app = typer.Typer(help="From ZooKeeper to KRaft, and back.", no_args_is_help=True)
for _command in (migrate_online.start, migrate_online.status, migrate_online.release):
    app.command()(_command)
ZooKeeperAt = typer.Option(
    ..., "--zookeeper", metavar="HOST:PORT/CHROOT", help="Where the cluster's znodes are."
)
_Files = typer.Argument(metavar="FILE...", help="server.properties of nodes under KRaft.")
_Metadata = typer.Option(
    None, "--metadata", metavar="DIRECTORY", help="A stopped controller's directory."
)


@app.command()
def check(
    zookeeper: str = ZooKeeperAt,
    online: bool = typer.Option(
        False, "--online", help="For `migrate start`: the brokers run, and are migrated one by one."
    ),
    metadata_version: str = typer.Option(
        "", metavar="LEVEL", help="With which the quorum is to begin; else the latest."
    ),
    as_json: AsJson = False,
) -> None:
    """Say what a migration will copy, what the metadata.version has that znodes cannot hold, and what
    prevents it; exit status 1 where it cannot begin."""
    level = migrate_online.level_of(migrate_online.levels_of(metadata_version))
    found = _read_findings(read_znodes(zookeeper, as_json=as_json), is_running=online)
    found = dataclasses.replace(found, notes=(*found.notes, *findings.notes_of_level(level)))
    table = table_of(f"cluster {found.cluster_id}", "copied", "count", right=("count",))
    for what, count in found.copied.items():
        table.add_row(what, str(count))
    show(as_json, dataclasses.asdict(found), table)
    if not as_json:
        for sentence in (*found.notes, *found.preventing):
            say(sentence)
        if found.is_claimed:
            say("a copy was begun: continue with `migrate copy`, or go back with `migrate revert`")
    if found.preventing:
        raise typer.Exit(1)


@app.command()
def copy(
    files: list[Path] = _Files,
    zookeeper: str = ZooKeeperAt,
    standalone: bool = typer.Option(
        False, "--standalone", help="This controller is the whole quorum at first (KIP-853)."
    ),
    dry_run: bool = DryRun,
    as_json: AsJson = False,
) -> None:
    """Let the quorum of these controllers begin with what the znodes say. Brokers are stopped before; those
    on ZooKeeper that start afterwards take no writes."""
    controllers = [config for config in map(load_node_file, files) if config.is_controller]
    if not controllers:
        raise Failure("none of the files is a controller's: brokers need no copy", USAGE)
    if standalone and len(controllers) > 1:
        raise Failure("--standalone is one controller", USAGE)
    with stopped_nodes(controllers):
        znodes = _unprevented(zookeeper, as_json)
        found = _read_findings(znodes)
        check_owners(controllers, found.cluster_id)
        for config in controllers:
            check_not_begun(config, standalone=standalone)
        if dry_run:
            would_be = Copied(found.cluster_id, copying.records_of(znodes))
            sentence = f"{would_be} would be copied; nothing was done"
            answer(as_json, would_be.describe(dry_run, []), sentence)
            return
        znodes = _claimed(zookeeper, int(controllers[0].node_id), as_json)
        copied = Copied(found.cluster_id, copying.records_of(znodes))
        formatted = [
            NodeDirectory(config.node_id, directory)
            for config in controllers
            for directory in format_controller(
                config, found.cluster_id, copied.records, standalone=standalone
            )
        ]
    answer(
        as_json,
        copied.describe(dry_run, formatted),
        *formatted,
        f"{copied}: start the controllers, then"
        " the brokers under KRaft, and compare with"
        f" `barnabas migrate compare --zookeeper {zookeeper} --bootstrap HOST:PORT`",
    )


class Copied(NamedTuple):
    """The records that a quorum begins with."""

    cluster_id: str
    records: Sequence[Message]

    @property
    def topics(self) -> int:
        return sum(isinstance(record, TopicRecord) for record in self.records)

    @property
    def partitions(self) -> int:
        return sum(isinstance(record, PartitionRecord) for record in self.records)

    def __str__(self) -> str:
        held = f"{counted(self.topics, 'topic')} with {counted(self.partitions, 'partition')}"
        return f"{held}, {counted(len(self.records), 'record')}"

    def describe(self, dry_run: bool, directories: Sequence[NodeDirectory]) -> dict[str, Any]:
        """The counts for programs."""
        return {
            "dry_run": dry_run,
            "cluster_id": self.cluster_id,
            "topics": self.topics,
            "partitions": self.partitions,
            "records": len(self.records),
            "directories": [place._asdict() for place in directories],
        }


@app.command()
def compare(
    zookeeper: str = ZooKeeperAt,
    metadata: Path | None = _Metadata,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what znodes and metadata log say differently; exit status 1 where they do."""
    znodes, image = (
        read_znodes(zookeeper, as_json=as_json),
        image_of(metadata, bootstrap, data, controllers, as_json=as_json),
    )
    try:
        found = comparison.differences(znodes, image)
    except MalformedZnode as error:
        raise Failure(str(error)) from error
    table = table_of(None, "of", "znodes", "metadata log")
    for difference in found:
        table.add_row(*difference)
    if found or as_json:
        show(as_json, [finding._asdict() for finding in found], table)
    else:
        say(
            f"znodes and metadata log say the same: {len(image.topics_by_name)} topics,"
            f" {len(image.configs)} configured resources, {len(image.acls)} access control entries"
        )
    if found:
        raise typer.Exit(1)


@app.command()
def revert(
    files: list[Path] = typer.Argument(
        None, metavar="[FILE...]", help="Of the stopped nodes; none: the brokers run on ZooKeeper."
    ),
    zookeeper: str = ZooKeeperAt,
    metadata: Path = typer.Option(
        ...,
        "--metadata",
        metavar="DIRECTORY",
        help="Of the stopped controller with the longest log.",
    ),
    directories_only: bool = typer.Option(
        False,
        "--directories-only",
        help="The znodes were written by `revert` on another machine.",
    ),
    yes: bool = Yes,
    dry_run: bool = DryRun,
    as_json: AsJson = False,
) -> None:
    """Go back to ZooKeeper: the znodes say what the log says, the nodes' directories are a ZooKeeper broker's
    again, and their metadata logs are removed. All nodes are stopped before. Where it fails it is to be
    repeated. Without files it is `release`, for brokers that run in ZooKeeper mode again."""
    if not files:
        if directories_only:
            raise Failure("--directories-only is of nodes: name their files", USAGE)
        migrate_online.release(zookeeper, metadata, yes, dry_run, as_json)
        return
    configs = [load_node_file(file) for file in files]
    home = str(metadata.parent if metadata.name == f"{METADATA_TOPIC}-0" else metadata)
    nodes = ", ".join(str(config.node_id) for config in configs)
    written = 0
    with stopped_nodes(configs, home):
        znodes = read_znodes(zookeeper, as_json=as_json)
        cluster_id = _read_findings(znodes).cluster_id
        check_owners(configs, cluster_id)
        is_released = findings.state_of(znodes) is MigrationState.NONE
        if is_released and (directories_only or any(map(is_half_reverted, configs))):
            if dry_run:
                sentence = f"the metadata logs of nodes {nodes} would be removed; nothing was done"
                answer(as_json, _way_back_of(dry_run, 0, []), sentence)
                return
            confirm(f"The metadata logs of nodes {nodes} are removed.", yes)
            give_back_to_zookeeper(configs)
        else:
            _check_way_back(znodes)
            if directories_only:
                raise Failure("the znodes are not written yet: `revert` without --directories-only")
            check_metadata(home, cluster_id)
            transactions = _way_back(znodes, image_of(Path(home), None, None, as_json=as_json))
            written = sum(len(transaction.operations) - 1 for transaction in transactions)
            if dry_run:
                sentence = (
                    f"{written} znodes would be written, and the metadata logs of nodes {nodes} removed;"
                    " nothing was done"
                )
                answer(as_json, _way_back_of(dry_run, written, []), sentence)
                return
            confirm(f"The metadata logs of nodes {nodes} are removed then.", yes)
            write_znodes(zookeeper, transactions, as_json=as_json)
            give_back_to_zookeeper(configs)
            write_znodes(zookeeper, [claim.release(read_znodes(zookeeper, as_json=as_json))])
        changed = _forgotten(configs)
    answer(
        as_json,
        _way_back_of(dry_run, written, changed),
        *changed,
        f"{written} znodes written: start the brokers on ZooKeeper",
    )


def _forgotten(configs: Sequence[NodeConfig]) -> list[NodeDirectory]:
    """The directories that have no quorum any more."""
    return [
        NodeDirectory(config.node_id, directory)
        for config in configs
        for directory in forget_quorum(config)
    ]


def _way_back_of(
    dry_run: bool, znodes: int, directories: Sequence[NodeDirectory]
) -> dict[str, Any]:
    rows = [place._asdict() for place in directories]
    return {"dry_run": dry_run, "znodes": znodes, "directories": rows}


@app.command()
def finalize(
    zookeeper: str = ZooKeeperAt,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    data: Data = None,
    yes: bool = Yes,
    dry_run: bool = DryRun,
    as_json: AsJson = False,
) -> None:
    """End the way back: /migration goes, and /controller stays, so that no broker on ZooKeeper can rule."""
    znodes = read_znodes(zookeeper, as_json=as_json)
    _check_way_back(znodes)
    image = image_of(None, bootstrap, data, controllers, as_json=as_json)
    if image.zk_migration_state == ZkMigrationState.MIGRATION:
        raise Failure(
            "the controllers write both: restart them without zookeeper.metadata.migration.enable"
        )
    missing = _read_findings(znodes).copied["topics"] and not image.topics_by_name
    if missing or not image.brokers:
        raise Failure("the cluster under KRaft has no topics, or no brokers: start it, and compare")
    final = {"dry_run": dry_run, "cluster_id": _read_findings(znodes).cluster_id}
    if dry_run:
        sentence = "/migration would be removed, which ends the way back; nothing was done"
        answer(as_json, final, sentence)
        return
    confirm("There is no way back to ZooKeeper then.", yes)
    write_znodes(zookeeper, [claim.end_of_way_back(znodes)])
    answer(as_json, final, "the migration is final: ZooKeeper is needed no more")


def _claimed(zookeeper: str, controller: int, as_json: bool) -> Mapping[str, NodeData]:
    """The znodes once a KRaft controller has `/controller`, as nothing prevents a copy. Raises `Failure`."""
    znodes = _unprevented(zookeeper, as_json)
    if findings.is_claimed(znodes):
        return znodes
    try:
        transaction, _ = claim.take(znodes, controller, 0, time.time_ns() // 1_000_000)
    except claim.ClaimRefusedError as error:
        raise Failure(str(error)) from error
    write_znodes(zookeeper, [transaction], as_json=as_json)
    try:
        return _unprevented(zookeeper, as_json)  # what changed until the claim held
    except Failure:
        write_znodes(zookeeper, [claim.release(read_znodes(zookeeper, as_json=as_json))])
        raise


def _way_back(znodes: Mapping[str, NodeData], image: MetadataImage) -> list[Multi]:
    """Raises `Failure`."""
    try:
        return copying.way_back(znodes, image)
    except MalformedZnode as error:
        raise Failure(str(error)) from error


def _unprevented(zookeeper: str, as_json: bool) -> Mapping[str, NodeData]:
    """The znodes, where nothing prevents a copy. Raises `Failure`."""
    znodes = read_znodes(zookeeper, as_json=as_json)
    preventing = _read_findings(znodes).preventing
    if preventing:
        raise Failure("; ".join(preventing))
    return znodes


def _check_way_back(znodes: Mapping[str, NodeData]) -> None:
    """Raises `Failure` where no migration was begun, or it is final."""
    try:
        why = findings.why_no_way_back(znodes)
    except MalformedZnode as error:
        raise Failure(str(error)) from error
    if why:
        raise Failure(why)


def _read_findings(
    znodes: Mapping[str, NodeData], *, is_running: bool = False
) -> findings.Findings:
    """Raises `Failure`."""
    try:
        return findings.find(znodes, is_running=is_running)
    except MalformedZnode as error:
        raise Failure(str(error)) from error
