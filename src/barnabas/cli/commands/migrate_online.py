"""``barnabas migrate start | status | release``: the migration of a running cluster (KIP-866), as far as a
command has a part in it. Controllers and brokers do the rest by their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer
from rich.table import Table

from barnabas.cli.commands.metadata import image_of
from barnabas.cli.commands.storage import load_node_file
from barnabas.cli.confirming import USAGE, DryRun, Yes, confirm
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, answer, show, table_of
from barnabas.cli.connection.controller_directories import (
    NodeDirectory,
    check_metadata,
    check_not_begun,
    check_owners,
    format_controller,
    stopped_nodes,
)
from barnabas.cli.connection.quorum_client import Controllers
from barnabas.cli.connection.zookeeper_reader import read_znodes
from barnabas.cli.connection.zookeeper_writer import write_znodes
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.watching import watched
from barnabas.config.node import NodeConfig
from barnabas.controller.migration_state import LOWEST_LEVEL
from barnabas.limits import ZookeeperBounds
from barnabas.metadata.features import LATEST_METADATA_VERSION as LATEST
from barnabas.metadata.features import METADATA_VERSION, METADATA_VERSION_NAMES
from barnabas.metadata.image.image import MetadataImage
from barnabas.types import METADATA_TOPIC
from barnabas.zookeeper.config.coordination import migration_of
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.migration import claim, findings
from barnabas.zookeeper.migration.progress import Progress, progress_of
from barnabas.zookeeper.migration.release import NoWayBackError, written_before, znodes_in

ZooKeeperAt = typer.Option(
    ..., "--zookeeper", metavar="HOST:PORT/CHROOT", help="Where the cluster's znodes are."
)
_NEXT = """next:
  1. start the controllers
  2. give every broker zookeeper.metadata.migration.enable=true, controller.quorum.voters and
     controller.listener.names, and restart one after the other
  3. `barnabas migrate status` says when both are written; then restart the brokers under KRaft, one by one
  4. restart the controllers without zookeeper.metadata.migration.enable: there is no way back then"""


def start(
    files: list[Path] = typer.Argument(metavar="FILE...", help="Of controllers."),
    zookeeper: str = ZooKeeperAt,
    standalone: bool = typer.Option(
        False, "--standalone", help="This controller is the whole quorum at first (KIP-853)."
    ),
    metadata_version: str = typer.Option(
        "",
        metavar="LEVEL",
        help="As 3.9-IV0, the highest that brokers of Apache Kafka 3.9 know; else the latest.",
    ),
    dry_run: bool = DryRun,
    as_json: AsJson = False,
) -> None:
    """Format these controllers for the migration of a running cluster, and say what comes next. Brokers serve
    on; nothing is changed in ZooKeeper."""
    configs = [load_node_file(file) for file in files]
    features = levels_of(metadata_version)
    for file, config in zip(files, configs, strict=True):
        _check_migrates(file, config)
    try:
        found = findings.find(read_znodes(zookeeper, as_json=as_json), is_running=True)
    except MalformedZnode as error:
        raise Failure(str(error)) from error
    if not found.cluster_id:
        raise Failure(f"{zookeeper} has no cluster that ever ran")
    notes = (*found.notes, *findings.notes_of_level(level_of(features)))
    if not as_json:
        for sentence in notes:
            say(sentence)
    if found.preventing:
        raise Failure("; ".join(found.preventing))
    with stopped_nodes(configs):
        check_owners(configs, found.cluster_id)
        for config in configs:
            check_not_begun(config, standalone=standalone)
        begun = {"dry_run": dry_run, "cluster_id": found.cluster_id, "notes": notes}
        if dry_run:
            names = ", ".join(str(config.node_id) for config in configs)
            answer(
                as_json,
                {**begun, "directories": []},
                f"the directories of controllers {names} would be formatted; nothing was done",
            )
            return
        formatted = [
            NodeDirectory(config.node_id, directory)
            for config in configs
            for directory in format_controller(
                config, found.cluster_id, [], standalone=standalone, features=features
            )
        ]
    rows = [place._asdict() for place in formatted]
    answer(as_json, {**begun, "directories": rows}, *formatted, _NEXT)


def level_of(features: Mapping[str, int] | None) -> int:
    """The metadata.version that a quorum begins with."""
    return LATEST if features is None else features[METADATA_VERSION]


def levels_of(name: str) -> dict[str, int] | None:
    """Raises `Failure`."""
    if not name:
        return None
    level = next((level for level, known in METADATA_VERSION_NAMES.items() if known == name), 0)
    if level < LOWEST_LEVEL:
        lowest, highest = METADATA_VERSION_NAMES[LOWEST_LEVEL], METADATA_VERSION_NAMES[LATEST]
        raise Failure(f"--metadata-version is one of {lowest} to {highest}", USAGE)
    return {METADATA_VERSION: level}


def _check_migrates(file: Path, config: NodeConfig) -> None:
    """Raises `Failure`."""
    if not config.is_controller or migration_of(config) is None:
        raise Failure(
            f"{file} is of no controller that migrates: process.roles=controller,"
            " zookeeper.metadata.migration.enable=true and zookeeper.connect"
        )


@watched
def status(
    zookeeper: str = ZooKeeperAt,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Say how far the migration of a running cluster is, what is missing, and why."""
    znodes = read_znodes(zookeeper, as_json=as_json)
    image: MetadataImage | None = None
    unreached = ""
    try:
        image = image_of(None, bootstrap, data, controllers, as_json=as_json)
    except Failure as failure:
        unreached = str(failure)
    try:
        progress = progress_of(znodes, image, unreached)
    except MalformedZnode as error:
        raise Failure(str(error)) from error
    show(as_json, progress.describe(), _table(progress))
    if not as_json:
        say(progress.summary)
        for sentence in (*progress.missing, *progress.differing, progress.next_step):
            say(sentence)


def _table(progress: Progress) -> Table:
    table = table_of(f"migration: {progress.phase}", "broker", "mode")
    for broker, mode in sorted(progress.brokers.items()):
        table.add_row(str(broker), mode)
    return table


def release(
    zookeeper: str = ZooKeeperAt,
    metadata: Path = typer.Option(
        ...,
        "--metadata",
        metavar="DIRECTORY",
        help="Of the stopped controller with the longest log.",
    ),
    yes: bool = Yes,
    dry_run: bool = DryRun,
    as_json: AsJson = False,
) -> None:
    """Give a running cluster back to ZooKeeper: its brokers are in ZooKeeper mode again, its controllers are
    stopped. What the log has and the znodes lack is written first; then a broker is elected controller."""
    home = str(metadata.parent if metadata.name == f"{METADATA_TOPIC}-0" else metadata)
    with stopped_nodes([], home):
        znodes = read_znodes(zookeeper, as_json=as_json)
        why = findings.why_no_way_back(znodes)
        if why:
            raise Failure(why)
        check_metadata(home, findings.find(znodes).cluster_id)
        image = image_of(Path(home), None, None, as_json=as_json)
        try:
            transactions = written_before(znodes, image, ZookeeperBounds())
        except (MalformedZnode, NoWayBackError) as error:
            raise Failure(str(error)) from error
        written = znodes_in(transactions)
        way_back = {"dry_run": dry_run, "znodes": written, "directories": []}
        if dry_run:
            answer(
                as_json,
                way_back,
                f"{written} znodes would be written, and brokers at {zookeeper} would elect a"
                " controller among them; nothing was done",
            )
            return
        confirm(f"Brokers at {zookeeper} elect a controller among them.", yes)
        write_znodes(zookeeper, transactions, as_json=as_json)
        write_znodes(zookeeper, [claim.release(read_znodes(zookeeper, as_json=as_json))])
    answer(
        as_json,
        way_back,
        f"{written} znodes written. Restart the brokers without"
        " zookeeper.metadata.migration.enable, and format the controllers again before another attempt",
    )
